/* reserve.c: the case reserve: heaps in reserved address space.
 *   create        of a heap that maps a share of its addresses
 *   extend        by so many bytes, beside an allocation and a memset of the metadata
 *   trim-empty    gives them back, while no block lives
 *   trim          after random frees: what it gives back, beside what granules allow at best
 *   plain-malloc, plain-free, malloc, free   of a plain heap and of a reserved one
 *   grow-wait, grow-ahead, grow-fill   growth while a kernel runs: mallocs that wait for the host;
 *                 mallocs that take what is mapped ahead; one kernel that fills the heap
 * Only tessera reserves address space. The case is made whole: it takes seconds. */
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

#define MORE 4u /* times the heap's bytes are reserved */

static const uint64_t extents[] = {(uint64_t)2 << 20, (uint64_t)64 << 20, (uint64_t)1 << 30, 0};
static const uint64_t sim_extents[] = {(uint64_t)64 << 10, (uint64_t)1 << 20, 0};
static const uint64_t trim_sizes[] = {256, 4096, 65536, (uint64_t)1 << 20, 0};
static const uint64_t sim_trim_sizes[] = {256, 65536, 0};
static const double freed_shares[] = {0.50, 0.90, 0.99};

#define N_SHARES (sizeof freed_shares / sizeof *freed_shares)

/* A heap that maps `bytes` of `reserved`; bytes 0: the least. */
static wh_status open_heap(whi_bench *b, uint64_t bytes, uint64_t reserved) {
    wh_heap_options o = whi_bench_heap_options(b, b->alloc, bytes);
    whi_bench_close_heap(b);
    o.reserve_bytes = reserved;
    wh_status s = bytes != 0 ? WH_OK : wh_heap_min_bytes(&o, &o.bytes);
    s = s == WH_OK ? wh_heap_create(&b->heap, &o) : s;
    s = s == WH_OK ? b->kernels->bind(b->heap, &b->handle) : s;
    b->heap_bytes = o.bytes;
    return whi_bench_check(b, s, "a reserved heap");
}

static uint64_t mapped(const whi_bench *b) {
    uint64_t bytes = 0;
    (void)wh_heap_extent(b->heap, &bytes, NULL, NULL);
    return bytes;
}

/* --- create, extend, trim of what is empty ------------------------------------------------- */

static wh_status creates(whi_bench *b, const char *op, uint64_t bytes, uint64_t reserved) {
    whi_bench_row row = {.phase = "cold", .op = op, .size = bytes, .ops = 1};
    whi_bench_series series;
    wh_stats stats;
    memset(&series, 0, sizeof series);
    memset(&stats, 0, sizeof stats);
    while (series.n < b->reps) {
        whi_bench_close_heap(b);
        WHI_BENCH_TRY(whi_bench_check(b, wh_device_sync(b->device), "creation"));
        const double start = whi_bench_wall_seconds();
        WHI_BENCH_TRY(open_heap(b, bytes, reserved));
        WHI_BENCH_TRY(whi_bench_check(b, wh_device_sync(b->device), "creation"));
        whi_bench_add_sample(&series, (whi_bench_wall_seconds() - start) * 1e6);
    }
    WHI_BENCH_TRY(open_heap(b, 0, reserved));
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_get_stats(b->heap, &stats), "statistics"));
    whi_bench_add_value(&row, "reserved", (double)reserved, 0);
    whi_bench_add_value(&row, "least", (double)stats.heap_bytes, 0);
    whi_bench_add_value(&row, "least_share", (double)stats.heap_bytes / (double)reserved, 5);
    return whi_bench_emit(b, &row, &series);
}

/* What an extend replaces: an allocation of as many bytes, and their metadata set. */
static wh_status time_floor(whi_bench *b, uint64_t bytes, uint64_t metadata,
                            whi_bench_series *series) {
    void *p = NULL;
    const double start = whi_bench_wall_seconds();
    wh_status s = wh_device_alloc(b->device, &p, bytes);
    s = s == WH_OK ? wh_device_set(b->device, p, 0, metadata) : s;
    s = s == WH_OK ? wh_device_sync(b->device) : s;
    whi_bench_add_sample(series, (whi_bench_wall_seconds() - start) * 1e6);
    const wh_status last = wh_device_free(b->device, p);
    return whi_bench_check(b, s == WH_OK ? last : s, "an allocation");
}

typedef struct extends {
    whi_bench_series extend, trim, floor;
} extends;

static wh_status extend_once(whi_bench *b, uint64_t bytes, extends *e) {
    const uint64_t least = mapped(b);
    uint64_t given = 0;
    double start = whi_bench_wall_seconds();
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_extend(b->heap, bytes), "extend"));
    whi_bench_add_sample(&e->extend, (whi_bench_wall_seconds() - start) * 1e6);
    start = whi_bench_wall_seconds();
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_trim(b->heap, least, &given), "trim"));
    whi_bench_add_sample(&e->trim, (whi_bench_wall_seconds() - start) * 1e6);
    if (mapped(b) != least) {
        return whi_bench_fail(b, WH_CORRUPT, "trim has given back %llu bytes, not all",
                              (unsigned long long)given);
    }
    return time_floor(b, bytes, bytes / 16384 * 181, &e->floor); /* layout.h: 181 a chunk */
}

static wh_status extends_by(whi_bench *b, uint64_t bytes) {
    whi_bench_row row = {.phase = "warm", .op = "extend", .size = bytes, .ops = 1};
    extends e;
    memset(&e, 0, sizeof e);
    WHI_BENCH_TRY(extend_once(b, bytes, &e)); /* loads the kernels */
    memset(&e, 0, sizeof e);
    while (e.extend.n < b->reps) {
        WHI_BENCH_TRY(extend_once(b, bytes, &e));
    }
    row.us_null = whi_bench_median(e.floor.us, e.floor.n);
    WHI_BENCH_TRY(whi_bench_emit(b, &row, &e.extend));
    row.op = "trim-empty";
    row.us_null = 0;
    return whi_bench_emit(b, &row, &e.trim);
}

/* --- trim after random frees ---------------------------------------------------------------- */

typedef struct granules {
    uint64_t base, granule, n; /* of granules */
    uint8_t *live;
} granules;

static int mark(void *context, void *block, uint64_t bytes) {
    const granules *g = context;
    const uint64_t from = (uint64_t)(uintptr_t)block - g->base;
    for (uint64_t k = from / g->granule; k <= (from + bytes - 1) / g->granule; k++) {
        if (k < g->n) {
            g->live[k] = 1;
        }
    }
    return 0;
}

/* Bytes of the granules that hold a byte of a live block. */
static wh_status best_of(whi_bench *b, uint64_t *best) {
    void *base = NULL;
    uint64_t bytes = 0, n = 0;
    granules g;
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_memory(b->heap, &base, &bytes), "memory"));
    (void)wh_heap_extent(b->heap, NULL, NULL, &g.granule);
    /* Units begin at a multiple of their size from the first address on. */
    g.base = (uint64_t)(uintptr_t)base;
    g.n = bytes / g.granule + 1;
    g.live = calloc(g.n, 1);
    if (g.live == NULL) {
        return whi_bench_check(b, WH_OUT_OF_MEMORY, "granules");
    }
    const wh_status s = wh_heap_walk(b->heap, mark, &g);
    for (uint64_t k = 0; k < g.n; k++) {
        n += g.live[k];
    }
    free(g.live);
    *best = n * g.granule;
    return whi_bench_check(b, s, "walk");
}

static wh_status trim_once(whi_bench_plan *p, whi_bench_ledger *l, double share) {
    whi_bench *b = p->b;
    whi_bench_row row = whi_bench_row_of(p, "warm", "trim");
    whi_bench_series series;
    wh_bench_counts counts;
    wh_stats stats;
    uint64_t given = 0, best = 0;
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(best_of(b, &best));
    const double start = whi_bench_wall_seconds();
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_trim(b->heap, 0, &given), "trim"));
    whi_bench_add_sample(&series, (whi_bench_wall_seconds() - start) * 1e6);
    WHI_BENCH_TRY(whi_bench_ledger_verify(l, p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts));
    series.bad = counts.bad;
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_get_stats(b->heap, &stats), "statistics"));
    const uint64_t kept = stats.heap_bytes - stats.metadata_bytes;
    row.threads = 0;
    row.ops = 1;
    whi_bench_add_value(&row, "freed", share, 2);
    whi_bench_add_value(&row, "live_bytes", (double)stats.used_bytes, 0);
    whi_bench_add_value(&row, "given", (double)given, 0);
    whi_bench_add_value(&row, "kept", (double)kept, 0);
    whi_bench_add_value(&row, "best", (double)best, 0);
    whi_bench_add_value(&row, "of_best", best != 0 ? (double)kept / (double)best : 1.0, 3);
    return whi_bench_emit(b, &row, &series);
}

static wh_status fill_and_trim(whi_bench_plan *p, whi_bench_ledger *l, whi_bench_blocks blocks) {
    whi_bench *b = p->b;
    wh_bench_counts counts;
    uint64_t freed = 0;
    whi_bench_ledger_tail(l, p, blocks);
    WHI_BENCH_TRY(whi_bench_launch(p, b->kernels->malloc_single, blocks.n));
    WHI_BENCH_TRY(whi_bench_ledger_record(l, p));
    WHI_BENCH_TRY(whi_bench_ledger_verify(l, p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts));
    whi_bench_count(p, &counts, 0);
    for (size_t k = 0; k < N_SHARES && !p->broken; k++) {
        const double live = k == 0 ? 1.0 : 1.0 - freed_shares[k - 1];
        WHI_BENCH_TRY(whi_bench_ledger_thin(l, p, (1.0 - freed_shares[k]) / live, b->seed + k + 1,
                                            &freed, NULL));
        whi_bench_aim(p, blocks);
        WHI_BENCH_TRY(trim_once(p, l, freed_shares[k]));
    }
    return WH_OK;
}

static wh_status trims(whi_bench *b, uint64_t bytes, uint64_t size) {
    const whi_bench_blocks blocks = {(uint64_t)((double)bytes * 0.9 / (double)size), size, size};
    whi_bench_plan p;
    whi_bench_ledger ledger;
    memset(&ledger, 0, sizeof ledger);
    whi_bench_progress(b, size, blocks.n);
    WHI_BENCH_TRY(open_heap(b, bytes, MORE * bytes));
    WHI_BENCH_TRY(whi_bench_begin(b, &p, b->heap_bytes, blocks));
    wh_status s = whi_bench_ledger_open(b, &ledger, blocks.n);
    s = s == WH_OK ? fill_and_trim(&p, &ledger, blocks) : s;
    return whi_bench_ledger_end(&p, &ledger, s);
}

/* --- malloc and free beside a plain heap ------------------------------------------------------ */

static wh_status round_once(whi_bench_plan *p, int cold, int timed) {
    whi_bench *b = p->b;
    wh_bench_counts counts;
    if (cold) {
        WHI_BENCH_TRY(whi_bench_reset_heap(b));
    }
    WHI_BENCH_TRY(
        whi_bench_time(p, b->kernels->malloc_single, p->call.n, timed ? &p->mallocs : NULL));
    WHI_BENCH_TRY(whi_bench_verify(p, timed ? WHI_BENCH_PLACES : WHI_BENCH_CONTENTS, &counts));
    whi_bench_count(p, &counts, timed);
    if (p->broken) {
        return WH_OK;
    }
    return whi_bench_time(p, b->kernels->free_all, p->call.n, timed ? &p->frees : NULL);
}

static wh_status series_of(whi_bench_plan *p, int cold, const char *op_malloc,
                           const char *op_free) {
    whi_bench *b = p->b;
    memset(&p->mallocs, 0, sizeof p->mallocs);
    memset(&p->frees, 0, sizeof p->frees);
    whi_bench_row row = whi_bench_row_of(p, cold ? "cold" : "warm", op_malloc);
    WHI_BENCH_TRY(whi_bench_floor(p, b->kernels->floor_single, p->call.n, &row.us_null));
    WHI_BENCH_TRY(round_once(p, cold, 0));
    for (uint32_t i = 0; i < whi_bench_reps(b, cold) && !p->broken; i++) {
        WHI_BENCH_TRY(round_once(p, cold, 1));
    }
    WHI_BENCH_TRY(whi_bench_emit(b, &row, &p->mallocs));
    row.op = op_free;
    row.n_values = 0;
    WHI_BENCH_TRY(whi_bench_floor(p, b->kernels->floor_free, p->call.n, &row.us_null));
    return p->frees.n != 0 ? whi_bench_emit(b, &row, &p->frees) : WH_OK;
}

static wh_status rounds(whi_bench *b, uint64_t bytes, whi_bench_blocks blocks) {
    for (int reserved = 0; reserved < 2; reserved++) {
        const char *const op = reserved ? "malloc" : "plain-malloc";
        whi_bench_plan p;
        whi_bench_close_heap(b);
        WHI_BENCH_TRY(reserved ? open_heap(b, bytes, MORE * bytes) : WH_OK);
        WHI_BENCH_TRY(whi_bench_begin(b, &p, reserved ? b->heap_bytes : bytes, blocks));
        blocks.n = whi_bench_fitting(b, blocks.n, blocks.hi);
        whi_bench_aim(&p, blocks);
        whi_bench_progress(b, blocks.hi, blocks.n);
        for (int cold = 1; cold >= 0; cold--) {
            WHI_BENCH_TRY(series_of(&p, cold, op, reserved ? "free" : "plain-free"));
        }
    }
    return WH_OK;
}

/* --- growth while a kernel runs -----------------------------------------------------------------
 */

/* A heap that has an eighth of `bytes`, and grows to that. On the simulated device there is no
 * thread, whose time would be another one each time: all is ahead. */
static wh_status open_growing(whi_bench *b, uint64_t bytes, uint64_t step, uint64_t ahead) {
    wh_growth_options o;
    memset(&o, 0, sizeof o);
    o.max_bytes = bytes;
    o.step_bytes = step;
    o.ahead_bytes = b->on_sim ? bytes : ahead;
    o.wait_us = 1000000;
    o.no_thread = b->on_sim != 0;
    WHI_BENCH_TRY(open_heap(b, bytes / 8, MORE * bytes));
    return whi_bench_check(b, wh_heap_growth_start(b->heap, &o), "growth");
}

static int longer(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Of n mallocs of one thread the longest, as many as have grown the heap. */
static wh_status waits_of(whi_bench_plan *p, uint32_t *times, uint64_t n, uint64_t grown,
                          whi_bench_row *row) {
    whi_bench *b = p->b;
    whi_bench_series series;
    wh_bench_counts counts;
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(whi_bench_launch(p, b->ledger_kernels->malloc_timed, 1));
    WHI_BENCH_TRY(whi_bench_verify(p, WHI_BENCH_PLACES, &counts));
    series.bad = counts.bad;
    series.failed = counts.failed;
    WHI_BENCH_TRY(whi_bench_check(
        b, wh_device_copy_out(b->device, times, p->call.sizes, n * sizeof *times), "times"));
    wh_growth_info info;
    memset(&info, 0, sizeof info);
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_growth_get_info(b->heap, &info), "growth"));
    const uint64_t count = grown != 0 ? grown : info.requests;
    qsort(times, n, sizeof *times, longer);
    for (uint64_t k = 0; k < count && k < n && series.n < WH_BENCH_MAX_REPS; k++) {
        whi_bench_add_sample(&series, times[k] / 1e3);
    }
    whi_bench_add_value(row, "requests", (double)info.requests, 0);
    whi_bench_add_value(row, "us_of_others", times[n / 2] / 1e3, 3);
    return whi_bench_emit(b, row, &series);
}

/* Blocks of half a part of a granule, so that every other malloc takes one that is ahead. */
static wh_status grow_waits(whi_bench *b, uint64_t bytes, uint64_t step, int is_ahead) {
    uint64_t granule = 0;
    whi_bench_plan p;
    WHI_BENCH_TRY(open_growing(b, bytes, is_ahead ? step : 1, is_ahead ? 4 * step : 1));
    (void)wh_heap_extent(b->heap, NULL, NULL, &granule);
    const uint64_t most = (uint64_t)1 << 20; /* of which lanes take 64 chunks at a time */
    const uint64_t part = granule < most ? granule : most;
    const whi_bench_blocks blocks = {bytes / part * 3 / 2, part / 2, part / 2};
    const uint64_t n = blocks.n;
    WHI_BENCH_TRY(whi_bench_begin(b, &p, b->heap_bytes, blocks));
    whi_bench_aim(&p, blocks);
    whi_bench_row row = whi_bench_row_of(&p, "cold", is_ahead ? "grow-ahead" : "grow-wait");
    row.threads = row.ops = 1;
    const uint64_t grown = is_ahead ? n / 2 - n / 12 : 0; /* an eighth of the heap was there */
    uint32_t *times = malloc(n * sizeof *times);
    void *sizes = NULL;
    wh_status s =
        times != NULL ? wh_device_alloc(b->device, &sizes, n * sizeof *times) : WH_OUT_OF_MEMORY;
    p.call.sizes = sizes;
    s = whi_bench_check(b, s, "times");
    s = s == WH_OK ? waits_of(&p, times, n, grown, &row) : s;
    (void)wh_device_free(b->device, sizes);
    free(times);
    return s;
}

/* One kernel fills the heap, to 95 %. The floor: where all is mapped from the start. */
static wh_status grow_fill(whi_bench *b, uint64_t bytes, uint64_t step, uint64_t size) {
    const whi_bench_blocks blocks = {(uint64_t)((double)bytes * 0.95 / (double)size), size, size};
    double floor_us = 0;
    for (int grows = 0; grows < 2; grows++) {
        whi_bench_plan p;
        wh_bench_counts counts;
        WHI_BENCH_TRY(grows ? open_growing(b, bytes, step, 4 * step)
                            : open_heap(b, bytes, MORE * bytes));
        WHI_BENCH_TRY(whi_bench_begin(b, &p, b->heap_bytes, blocks));
        whi_bench_aim(&p, blocks);
        whi_bench_row row = whi_bench_row_of(&p, "cold", "grow-fill");
        WHI_BENCH_TRY(whi_bench_time(&p, b->kernels->malloc_single, blocks.n, &p.mallocs));
        WHI_BENCH_TRY(whi_bench_verify(&p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts));
        whi_bench_count(&p, &counts, 1);
        row.us_null = floor_us;
        floor_us = p.mallocs.us[0];
        WHI_BENCH_TRY(grows ? whi_bench_emit(b, &row, &p.mallocs) : WH_OK);
    }
    return WH_OK;
}

static wh_status growth(whi_bench *b, uint64_t bytes) {
    const uint64_t step = bytes / 32;
    whi_bench_progress(b, step, 1);
    WHI_BENCH_TRY(b->on_sim ? WH_OK : grow_waits(b, bytes, step, 0));
    WHI_BENCH_TRY(grow_waits(b, bytes, step, 1));
    return grow_fill(b, bytes, step, 4096);
}

/* --- the case --------------------------------------------------------------------------------- */

static wh_status run(whi_bench *b, uint64_t bytes) {
    const whi_bench_list blocks = whi_bench_sizes(b, b->on_sim ? sim_trim_sizes : trim_sizes);
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->first);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    WHI_BENCH_TRY(creates(b, "create", bytes, MORE * bytes));
    if (!b->on_sim) { /* all of the GPU's addresses */
        WHI_BENCH_TRY(creates(b, "create-all", bytes, b->info->memory_bytes));
    }
    WHI_BENCH_TRY(open_heap(b, 0, MORE * bytes));
    for (const uint64_t *more = b->on_sim ? sim_extents : extents; *more != 0; more++) {
        if (*more <= bytes) {
            WHI_BENCH_TRY(extends_by(b, *more));
        }
    }
    for (size_t i = 0; i < blocks.n; i++) {
        if (blocks.v[i] <= bytes / 8) {
            WHI_BENCH_TRY(trims(b, bytes, blocks.v[i]));
        }
    }
    WHI_BENCH_TRY(growth(b, bytes));
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < threads.n && sizes.v[i] <= bytes / 8; k++) {
            WHI_BENCH_TRY(
                rounds(b, bytes, (whi_bench_blocks){threads.v[k], sizes.v[i], sizes.v[i]}));
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_reserve(whi_bench *b) {
    if (!whi_bench_can(b, WH_CAP_RESERVE)) {
        return WH_OK;
    }
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->full_bytes);
    whi_bench_progress(b, bytes, 0);
    const wh_status s = run(b, bytes);
    whi_bench_close_heap(b);
    return s;
}

/* lists.c: the generic tests of Vinkler and Havran (CGF 2015, sections 6 to 8, Table 2):
 * Alloc Dealloc, Alloc Cycle Dealloc, Probability; and internal and external fragmentation
 * by their equations 2 and 3. One lane of each warp allocates, as in the paper.
 * docs/papers/lists.md describes rows and departures. */
#include <string.h>

#include "bench/driver/internal.h"
#include "bench/kernels/paper_kernels.h"

typedef struct settings { /* Table 2, and less of it for the simulated device */
    uint64_t heap, heaps[4];
    uint64_t payloads[7], iterations[4], blocks[4], max_warps;
} settings;

static const settings on_gpu = {
    (uint64_t)2 << 30,
    {(uint64_t)128 << 10, (uint64_t)8 << 20, (uint64_t)256 << 20, (uint64_t)2 << 30},
    {4, 64, 512, 4096, 16384, 131072, 0},
    {10, 40, 100, 0},
    {1, 30, 120, 0},
    960};
static const settings on_sim = {(uint64_t)64 << 20,
                                {(uint64_t)128 << 10, (uint64_t)8 << 20, 0, 0},
                                {4, 512, 16384, 0, 0, 0, 0},
                                {10, 40, 0, 0},
                                {1, 12, 0, 0},
                                96};

typedef struct lists {
    whi_bench_plan p;
    const settings *with;
    const wh_paper_kernels *kernels;
    wh_paper_call call;
} lists;

/* What a row is about. */
typedef struct subject {
    const char *op;
    uint64_t size, iterations; /* a lane's mallocs */
    whi_bench_value value;     /* its name NULL: none */
} subject;

/* The user's heap, or that of Table 2. */
static uint64_t heap_of(const lists *l) {
    return whi_bench_case_heap(l->p.b, l->with->heap);
}

/* A plan for a block of each lane in a heap of that many bytes, and kernels that know both. */
static wh_status begin(lists *l, uint64_t heap, const subject *of) {
    whi_bench *b = l->p.b;
    const uint64_t blocks = l->call.warps * of->iterations;
    WHI_BENCH_TRY(whi_bench_begin(b, &l->p, heap, (whi_bench_blocks){blocks, of->size, of->size}));
    l->call.handle = b->handle;
    l->call.ptrs = l->p.call.ptrs;
    l->call.size = of->size;
    l->call.iterations = (uint32_t)of->iterations;
    l->call.n = blocks;
    return WH_OK;
}

static wh_status copied(whi_bench *b, wh_status s) {
    return s == WH_OK ? s : whi_bench_fail(b, s, "copy of counts");
}

static wh_status clear_counts(lists *l) {
    whi_bench *b = l->p.b;
    wh_paper_counts none;
    memset(&none, 0, sizeof none);
    return copied(b, wh_device_copy_in(b->device, l->call.counts, &none, sizeof none));
}

static wh_status add_counts(lists *l, wh_paper_counts *c) {
    whi_bench *b = l->p.b;
    WHI_BENCH_TRY(copied(b, wh_device_copy_out(b->device, c, l->call.counts, sizeof *c)));
    l->p.mallocs.failed += c->failed;
    l->p.mallocs.bad += c->bad;
    return WH_OK;
}

/* One launch with a warp for each of l->call.warps; a sample of series. */
static wh_status launch(lists *l, wh_paper_launcher launcher, whi_bench_series *series) {
    whi_bench *b = l->p.b;
    const wh_launch shape = whi_bench_shape(b, l->call.warps * WHI_BENCH_WARP);
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, launcher(&shape, &l->call), "kernel"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

static wh_status emit(lists *l, const subject *of, uint64_t ops) {
    whi_bench *b = l->p.b;
    whi_bench_row row = {.phase = whi_bench_can(b, WH_CAP_FREE) ? "warm" : "cold",
                         .op = of->op,
                         .size = of->size,
                         .threads = l->call.warps,
                         .ops = ops};
    if (of->value.name != NULL) {
        whi_bench_add_value(&row, of->value.name, of->value.value, 3);
    }
    return whi_bench_emit(b, &row, &l->p.mallocs);
}

/* Whether the case is over, or the allocator has no blocks of that size. */
static int left_out(lists *l, const subject *of) {
    whi_bench *b = l->p.b;
    const whi_bench_part part = {
        .op = of->op, .size = of->size, .threads = l->call.warps, .value = of->value};
    if (of->size > b->alloc->max_size || whi_bench_leave_out(b, part)) {
        return 1;
    }
    whi_bench_progress(b, of->size, l->call.warps);
    return 0;
}

/* --- AD, ACD, P ------------------------------------------------------------------------------ */

/* AD (one iteration) and ACD. What cannot free starts each repetition anew. */
static wh_status cycle(lists *l, uint64_t heap, const subject *of) {
    whi_bench *b = l->p.b;
    const int anew = !whi_bench_can(b, WH_CAP_FREE);
    wh_paper_counts c;
    if (left_out(l, of)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(begin(l, heap, of));
    WHI_BENCH_TRY(clear_counts(l));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    if (!b->on_sim) { /* loads the kernel */
        WHI_BENCH_TRY(launch(l, l->kernels->cycle, &l->p.frees));
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; i < b->reps; i++) {
        if (anew) {
            WHI_BENCH_TRY(whi_bench_fresh_heap(b));
        }
        WHI_BENCH_TRY(launch(l, l->kernels->cycle, &l->p.mallocs));
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    WHI_BENCH_TRY(add_counts(l, &c));
    return emit(l, of, l->call.warps * of->iterations);
}

/* Ten launches, whose times add up to one sample of `total`. */
static wh_status probability_once(lists *l, whi_bench_series *total, wh_paper_counts *c) {
    whi_bench *b = l->p.b;
    const wh_status s = wh_device_set(b->device, l->call.ptrs, 0, l->call.warps * sizeof(void *));
    double us = 0;
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(copied(b, s));
    WHI_BENCH_TRY(clear_counts(l));
    for (uint32_t i = 0; i < 10; i++) {
        l->call.seed = b->seed + (uint64_t)i * 1000003;
        WHI_BENCH_TRY(launch(l, l->kernels->probability, &l->p.mallocs));
        us += l->p.mallocs.us[--l->p.mallocs.n];
    }
    whi_bench_add_sample(total, us);
    WHI_BENCH_TRY(add_counts(l, c));
    return whi_bench_can(b, WH_CAP_RESET)
               ? WH_OK
               : whi_bench_launch(&l->p, b->kernels->free_all, l->call.warps);
}

static wh_status probability(lists *l, uint64_t size) {
    whi_bench *b = l->p.b;
    subject of = {.op = "P", .size = size, .iterations = 1};
    wh_paper_counts c;
    whi_bench_series total;
    memset(&c, 0, sizeof c);
    memset(&total, 0, sizeof total);
    if (left_out(l, &of)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(begin(l, heap_of(l), &of));
    while (total.n < b->reps) {
        WHI_BENCH_TRY(probability_once(l, &total, &c));
    }
    memcpy(l->p.mallocs.us, total.us, sizeof total.us);
    l->p.mallocs.n = total.n;
    of.value = (whi_bench_value){"mallocs", (double)c.mallocs, 0};
    return emit(l, &of, c.mallocs + c.releases);
}

/* --- fragmentation ------------------------------------------------------------------------- */

/* Equation 3 over what the statistics tell: free memory is what blocks do not use, the
 * largest region the largest block that malloc could return. */
static double external(const wh_stats *s) {
    const double all = (double)(s->heap_bytes - s->metadata_bytes - s->used_bytes);
    return all > 0 ? 1 - (double)s->largest_free / all : 0;
}

/* seen NULL: the counts are in another row. */
static wh_status fragmentation_row(lists *l, const char *op, double value,
                                   const wh_bench_counts *seen) {
    whi_bench_row row = whi_bench_row_of(&l->p, "cold", op);
    whi_bench_result result = {.reps = 1};
    whi_bench_add_value(&row, op, value, 3);
    if (seen != NULL) {
        result.failed = seen->failed;
        result.bad = seen->bad;
    }
    return whi_bench_emit_result(l->p.b, &row, &result);
}

static wh_status stats_of(whi_bench *b, wh_stats *stats) {
    return whi_bench_check(b, wh_heap_get_stats(b->heap, stats), "statistics");
}

/* Equation 2, by the usable sizes of the blocks; or by the statistics, the mean: blocks are of
 * one size. */
static wh_status internal(lists *l, const wh_bench_counts *seen) {
    whi_bench *b = l->p.b;
    if (whi_bench_can(b, WH_CAP_USABLE_SIZE)) {
        wh_paper_counts c;
        WHI_BENCH_TRY(launch(l, l->kernels->usable, &l->p.frees));
        WHI_BENCH_TRY(add_counts(l, &c));
        const double waste = (double)c.waste / 4294967296.0;
        return c.blocks == 0 ? WH_OK
                             : fragmentation_row(l, "internal", waste / (double)c.blocks, seen);
    }
    if (whi_bench_can(b, WH_CAP_STATS)) {
        wh_stats stats;
        WHI_BENCH_TRY(stats_of(b, &stats));
        if (stats.used_bytes != 0 && seen->served != 0) {
            const double each = (double)stats.used_bytes / (double)seen->served;
            const double size = (double)l->call.size;
            return fragmentation_row(l, "internal", (each - size) / each, seen);
        }
    }
    return WH_OK;
}

static wh_status externals(lists *l, const wh_bench_counts *seen) {
    whi_bench *b = l->p.b;
    wh_stats stats;
    if (!whi_bench_can(b, WH_CAP_STATS)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(stats_of(b, &stats));
    WHI_BENCH_TRY(fragmentation_row(l, "external", external(&stats), NULL));
    if (!whi_bench_can(b, WH_CAP_FREE) || seen->bad != 0) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_launch(&l->p, b->kernels->free_warp, l->p.call.n * WHI_BENCH_WARP));
    WHI_BENCH_TRY(stats_of(b, &stats));
    return fragmentation_row(l, "external-end", external(&stats), NULL);
}

static wh_status fragmentation(lists *l, uint64_t size) {
    whi_bench *b = l->p.b;
    const subject of = {.size = size, .iterations = 1};
    wh_bench_counts seen;
    if (left_out(l, &of)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(begin(l, heap_of(l), &of));
    WHI_BENCH_TRY(whi_bench_reset_heap(b));
    WHI_BENCH_TRY(clear_counts(l));
    WHI_BENCH_TRY(whi_bench_launch(&l->p, b->kernels->malloc_warp, l->p.call.n * WHI_BENCH_WARP));
    WHI_BENCH_TRY(whi_bench_verify(&l->p, WHI_BENCH_PLACES, &seen));
    WHI_BENCH_TRY(internal(l, &seen));
    return externals(l, &seen);
}

/* --- the cases ------------------------------------------------------------------------------ */

static wh_status all_lists(lists *l) {
    const settings *w = l->with;
    for (size_t i = 0; w->payloads[i] != 0; i++) {
        const subject of = {.op = "AD", .size = w->payloads[i], .iterations = 1};
        WHI_BENCH_TRY(cycle(l, heap_of(l), &of));
    }
    for (size_t i = 0; w->payloads[i] != 0; i++) {
        const subject of = {.op = "ACD", .size = w->payloads[i], .iterations = 10};
        WHI_BENCH_TRY(cycle(l, heap_of(l), &of));
    }
    for (size_t i = 0; i < 4 && w->heaps[i] != 0; i++) {
        const subject of = {.op = "ACD-heap",
                            .size = 4,
                            .iterations = 10,
                            .value = {"heap_bytes", (double)w->heaps[i], 0}};
        if (whi_bench_least_heap(l->p.b) <= w->heaps[i]) {
            WHI_BENCH_TRY(cycle(l, w->heaps[i], &of));
        }
    }
    for (size_t i = 0; w->iterations[i] != 0; i++) {
        const subject of = {.op = "ACD-iterations",
                            .size = 4,
                            .iterations = w->iterations[i],
                            .value = {"iterations", (double)w->iterations[i], 0}};
        WHI_BENCH_TRY(cycle(l, heap_of(l), &of));
    }
    for (size_t i = 0; w->blocks[i] != 0; i++) {
        l->call.warps = w->blocks[i] * 8;
        WHI_BENCH_TRY(probability(l, 4));
    }
    return WH_OK;
}

static wh_status all_fragments(lists *l) {
    for (size_t i = 0; l->with->payloads[i] != 0; i++) {
        WHI_BENCH_TRY(fragmentation(l, l->with->payloads[i]));
    }
    return WH_OK;
}

/* Runs one of the two with the kernels of the allocator and counts of their own. */
static wh_status run(whi_bench *b, wh_status (*all)(lists *l)) {
    lists l;
    void *counts = NULL;
    memset(&l, 0, sizeof l);
    l.p.b = b;
    l.with = b->on_sim ? &on_sim : &on_gpu;
    l.kernels = wh_paper_kernels_find(b->alloc->name, b->info->target);
    l.call.warps = l.with->max_warps;
    l.call.stamp = whi_bench_can(b, WH_CAP_DISJOINT);
    WHI_BENCH_TRY(
        whi_bench_check(b, wh_device_alloc(b->device, &counts, sizeof *l.call.counts), "counts"));
    l.call.counts = counts;
    const wh_status s = all(&l);
    whi_bench_close_heap(b);
    (void)wh_device_free(b->device, counts);
    return s;
}

wh_status whi_bench_case_lists(whi_bench *b) {
    /* a heap that is not the allocator's own has another size */
    return whi_bench_can(b, WH_CAP_OWN_MEMORY) ? run(b, all_lists) : WH_OK;
}

wh_status whi_bench_case_fragments(whi_bench *b) {
    return whi_bench_can(b, WH_CAP_OWN_MEMORY | WH_CAP_RESET) ? run(b, all_fragments) : WH_OK;
}

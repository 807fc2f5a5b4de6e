/* scenarios.c: the seven scenarios of RW_malloc (Pham et al., TOPC 2025, section 5.2.3), for
 * rw-malloc and for any allocator with blocks of all sizes.
 * docs/papers/random_walk.md describes rows and departures. */
#include <math.h>
#include <string.h>

#include "bench/cases/scarce.h"

typedef struct scenarios {
    whi_scarce heap;
    whi_bench_plan p;
} scenarios;

static whi_bench_part part_of(const char *op, double share, whi_bench_blocks blocks) {
    return (whi_bench_part){.op = op,
                            .size_min = blocks.lo != blocks.hi ? blocks.lo : 0,
                            .size = blocks.hi,
                            .threads = blocks.n,
                            .value = {"free_share", share, 3}};
}

/* --- rows ------------------------------------------------------------------------------------ */

static whi_bench_row row_of(const scenarios *w, const char *op, double share) {
    const int warm = w->heap.pages.kernels->occupy == NULL && share < 1;
    whi_bench_row row = whi_bench_row_of(&w->p, warm ? "warm" : "cold", op);
    whi_bench_add_value(&row, "free_share", share, 3);
    return row;
}

static wh_status malloc_and_free(scenarios *w, uint64_t n) {
    whi_bench *b = w->heap.pages.b;
    const int single = w->p.call.lo == w->p.call.hi;
    wh_bench_counts counts;
    WHI_BENCH_TRY(whi_bench_time(
        &w->p, single ? b->kernels->malloc_single : b->kernels->malloc_mixed, n, &w->p.mallocs));
    WHI_BENCH_TRY(whi_bench_verify(&w->p, WHI_BENCH_PLACES, &counts));
    whi_bench_count(&w->p, &counts, 1);
    return w->p.broken ? WH_OK : whi_bench_time(&w->p, b->kernels->free_all, n, &w->p.frees);
}

/* Mallocs of these blocks, and their frees, with that share of the pages free. */
static wh_status scenario(scenarios *w, double share, whi_bench_blocks blocks) {
    whi_bench *b = w->heap.pages.b;
    const whi_bench_part part = part_of(NULL, share, blocks);
    if (whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    whi_bench_progress(b, blocks.hi, blocks.n);
    WHI_BENCH_TRY(whi_bench_begin(b, &w->p, b->heap_bytes, blocks));
    whi_bench_row row = row_of(w, "malloc", share);
    whi_bench_compactions compactions = {0, 0, 0};
    WHI_BENCH_TRY(whi_bench_floor(&w->p, b->kernels->floor_single, blocks.n, &row.us_null));
    for (uint32_t rep = 0; !w->p.broken && rep < b->reps; rep++) {
        WHI_BENCH_TRY(whi_scarce_make(&w->heap, share, rep, part));
        if (b->turn.left_out.size != 0) {
            return WH_OK; /* time was over before the heap was full */
        }
        WHI_BENCH_TRY(whi_bench_compact(b, &compactions));
        WHI_BENCH_TRY(malloc_and_free(w, blocks.n));
    }
    whi_bench_row mallocs = row;
    whi_bench_add_compactions(&mallocs, &compactions);
    WHI_BENCH_TRY(whi_bench_emit(b, &mallocs, &w->p.mallocs));
    row.op = "free";
    row.us_null = 0;
    return w->p.frees.n != 0 ? whi_bench_emit(b, &row, &w->p.frees) : WH_OK;
}

/* The seventh: 4096 bytes, freed at once in the same kernel. */
static wh_status at_once(scenarios *w, double share, uint64_t n) {
    whi_bench *b = w->heap.pages.b;
    const whi_bench_blocks blocks = {n, 4096, 4096};
    const whi_bench_part part = part_of("malloc+free", share, blocks);
    const wh_launch l = whi_bench_shape(b, n);
    wh_paper_counts counts;
    whi_bench_compactions compactions = {0, 0, 0};
    if (whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_begin(b, &w->p, b->heap_bytes, blocks));
    WHI_BENCH_TRY(whi_pages_clear_counts(&w->heap.pages));
    for (uint32_t rep = 0; rep < b->reps; rep++) {
        whi_bench_watch watch;
        double us = 0;
        WHI_BENCH_TRY(whi_scarce_make(&w->heap, share, rep, part));
        WHI_BENCH_TRY(whi_bench_compact(b, &compactions));
        wh_paper_call call = w->heap.pages.call;
        call.ptrs = w->p.call.ptrs;
        call.warps = n;
        call.size = blocks.hi;
        call.iterations = 1;
        WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
        WHI_BENCH_TRY(
            whi_bench_check(b, w->heap.pages.kernels->at_once(&l, &call), "malloc and free"));
        WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, &w->p.mallocs, &us));
        whi_bench_add_sample(&w->p.mallocs, us);
    }
    WHI_BENCH_TRY(whi_pages_get_counts(&w->heap.pages, &counts));
    w->p.mallocs.failed = counts.failed;
    whi_bench_row row = row_of(w, "malloc+free", share);
    whi_bench_add_compactions(&row, &compactions);
    return whi_bench_emit(b, &row, &w->p.mallocs);
}

/* --- how many -------------------------------------------------------------------------------- */

/* Requests of one size with that share free, as many as are wanted, but half of what is free at
 * most. Of units that are free at random a run of k begins at one in 1 / share^k: what a walk can
 * be asked for. The others' free memory lies in a row; they run with that count, too, which
 * holds them against a walk, and with as many as they have room for. */
static wh_status scenario_of(scenarios *w, double share, uint64_t wanted, uint64_t size) {
    const double pages = (double)w->heap.pages.n;
    const uint64_t units = (size + w->heap.pages.page - 1) / w->heap.pages.page;
    const uint64_t room = (uint64_t)(share * pages) / 2 / units;
    const uint64_t runs = (uint64_t)(pages * pow(share, (double)units) / 2);
    const uint64_t scattered = room < runs ? room : runs;
    const uint64_t n = wanted < room ? wanted : room, fewer = n < scattered ? n : scattered;
    if (fewer >= 32) {
        WHI_BENCH_TRY(scenario(w, share, (whi_bench_blocks){fewer, size, size}));
    }
    if (w->heap.pages.kernels->occupy == NULL && n > fewer && n >= 32 && !w->p.broken) {
        WHI_BENCH_TRY(scenario(w, share, (whi_bench_blocks){n, size, size}));
    }
    return WH_OK;
}

/* Pages as in `walk`: its numbers of threads and shares, for allocators that it cannot run. */
static wh_status pages_of(scenarios *w, double share) {
    static const uint64_t gpu[] = {1024, 16384, 131072, 1 << 20, 0};
    static const uint64_t sim[] = {256, 2048, 0};
    const uint64_t *threads = w->heap.pages.b->on_sim ? sim : gpu;
    for (size_t k = 0; !w->p.broken && threads[k] != 0; k++) {
        if ((double)threads[k] <= 0.9 * share * (double)w->heap.pages.n) { /* some are metadata */
            WHI_BENCH_TRY(scenario(
                w, share, (whi_bench_blocks){threads[k], w->heap.pages.page, w->heap.pages.page}));
        }
    }
    return WH_OK;
}

/* --- the case -------------------------------------------------------------------------------- */

static wh_status all_of(scenarios *w, double share, uint64_t max) {
    static const uint64_t sizes[] = {16, 256, 1024, 4096, 8192, 0};
    whi_bench *b = w->heap.pages.b;
    const uint64_t wanted = *whi_bench_threads(b, &b->defaults->scenarios_threads).v;
    for (size_t k = 0; !w->p.broken && sizes[k] != 0; k++) {
        WHI_BENCH_TRY(scenario_of(w, share, wanted, sizes[k]));
    }
    if (share < 1 && b->options->n_threads == 0) {
        WHI_BENCH_TRY(pages_of(w, share));
    }
    /* Half of what is free at most; 8196 bytes take 33 units of 256, 17 in the mean. */
    const uint64_t units = (max / 2 + w->heap.pages.page) / w->heap.pages.page;
    const uint64_t most = (uint64_t)(share * (double)w->heap.pages.n) / 2 / units;
    const uint64_t n = wanted < most ? wanted : most;
    if (w->p.broken || most < 32 || (share != 1 && w->heap.pages.kernels->occupy != NULL)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(scenario(w, share, (whi_bench_blocks){n, 4, max}));
    return w->p.broken ? WH_OK : at_once(w, share, n);
}

static wh_status all_shares(scenarios *w, uint64_t max) {
    static const double shares[] = {1, 0.005, 0.01, 0.1, 0.5}; /* upwards: see scarce.h */
    for (size_t i = 0; !w->p.broken && i < sizeof shares / sizeof *shares; i++) {
        WHI_BENCH_TRY(all_of(w, shares[i], max));
    }
    return WH_OK;
}

wh_status whi_bench_case_scenarios(whi_bench *b) {
    const uint64_t bytes = b->defaults->scenarios_bytes;
    const uint64_t max = b->alloc->max_size < 8196 ? b->alloc->max_size : 8196;
    scenarios w;
    memset(&w, 0, sizeof w);
    if (max < 8192 ||
        !whi_bench_can(b, WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_RESET | WH_CAP_OWN_MEMORY)) {
        return WH_OK;
    }
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    whi_pages *pages = &w.heap.pages;
    wh_status s = whi_pages_is(b, "rw-malloc") ? whi_pages_begin(b, pages, bytes)
                                               : whi_pages_begin_plain(b, pages, bytes);
    if (s == WH_OK) {
        s = all_shares(&w, max);
    }
    whi_scarce_end(&w.heap);
    return s;
}

/* pressure.c: the case pressure: what an allocator does in a heap that has too little.
 *   refuse  malloc in a heap that is full
 *   churn   the kernel of the case churn, with threads that want four times the heap */
#include "bench/driver/internal.h"

/* Batches after the one with the first NULL, at most: what still serves one now and then is
 * taken for full. */
#define MORE_BATCHES 16u

/* --- refuse ------------------------------------------------------------------------------ */

/* Batches until all mallocs of one have returned NULL. The blocks are not remembered. */
static wh_status fill_heap(whi_bench_plan *p) {
    whi_bench *b = p->b;
    const uint64_t size = p->call.hi;
    const uint64_t batch = b->defaults->batch;
    const uint64_t room = b->heap_bytes / size + 2 * batch;
    const double start = whi_bench_wall_seconds();
    const whi_bench_part part = {.op = "refuse", .size = size};
    uint64_t asked = 0;
    uint32_t with_null = 0;
    int done = 0;
    whi_bench_aim(p, (whi_bench_blocks){batch, size, size});
    while (!done) {
        wh_bench_counts counts;
        WHI_BENCH_TRY(whi_bench_launch(p, b->kernels->malloc_single, batch));
        WHI_BENCH_TRY(whi_bench_verify(p, 0, &counts));
        whi_bench_count(p, &counts, 0);
        asked += batch;
        with_null += counts.failed != 0;
        done = p->broken || counts.failed == batch || with_null > MORE_BATCHES ||
               (with_null == 0 && asked >= room);
        if (!done && whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS)) {
            done = whi_bench_leave_out(b, part);
        }
    }
    return WH_OK;
}

/* series NULL: untimed. */
static wh_status refuse_once(whi_bench_plan *p, whi_bench_series *series) {
    wh_bench_counts counts;
    WHI_BENCH_TRY(whi_bench_time(p, p->b->kernels->malloc_single, p->call.n, series));
    WHI_BENCH_TRY(whi_bench_verify(p, 0, &counts));
    whi_bench_count(p, &counts, series != NULL);
    return WH_OK;
}

static wh_status repeat(whi_bench_plan *p) {
    whi_bench *b = p->b;
    if (!b->on_sim && !p->broken) {
        WHI_BENCH_TRY(refuse_once(p, NULL));
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; i < b->reps && !p->broken; i++) {
        WHI_BENCH_TRY(refuse_once(p, &p->mallocs));
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    return WH_OK;
}

static wh_status refuse(whi_bench *b, uint64_t bytes, whi_bench_blocks blocks) {
    const uint64_t batch = b->defaults->batch;
    whi_bench_plan p;
    whi_bench_progress(b, blocks.hi, blocks.n);
    WHI_BENCH_TRY(whi_bench_need_ptrs(b, batch));
    WHI_BENCH_TRY(whi_bench_begin(b, &p, bytes, blocks));
    whi_bench_row row = whi_bench_row_of(&p, "warm", "refuse");
    WHI_BENCH_TRY(whi_bench_floor(&p, b->kernels->floor_single, blocks.n, &row.us_null));
    WHI_BENCH_TRY(fill_heap(&p));
    whi_bench_aim(&p, blocks);
    WHI_BENCH_TRY(repeat(&p));
    WHI_BENCH_TRY(whi_bench_emit(b, &row, &p.mallocs));
    whi_bench_close_heap(b); /* nobody can free what is in it */
    return WH_OK;
}

static wh_status refuses(whi_bench *b, const whi_bench_list *sizes) {
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->refuse_threads);
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->refuse_bytes);
    for (size_t i = 0; i < sizes->n; i++) {
        const uint64_t size = sizes->v[i];
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t n = threads.v[k];
            const whi_bench_part part = {.op = "refuse", .size = size, .threads = n};
            if (size <= b->alloc->max_size && size <= bytes && !whi_bench_leave_out(b, part)) {
                WHI_BENCH_TRY(refuse(b, bytes, (whi_bench_blocks){n, size, size}));
            }
        }
    }
    return WH_OK;
}

/* --- churn ------------------------------------------------------------------------------- */

/* A thread holds two blocks in the mean. */
static uint64_t threads_for(uint64_t bytes, uint64_t mean) {
    const uint64_t n = bytes * 4 / (2 * mean);
    const uint64_t rounded = (n + 128) / 256 * 256;
    return rounded != 0 ? rounded : 256;
}

static wh_status churns(whi_bench *b, const whi_bench_list *sizes) {
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->pressure_bytes);
    const uint32_t most = b->defaults->pressure_reps;
    const uint32_t reps = b->options->reps == 0 && b->reps > most ? most : b->reps;
    for (size_t i = 0; i < sizes->n; i++) {
        const uint64_t hi = sizes->v[i];
        const uint64_t lo = whi_bench_least(hi);
        const uint64_t own = threads_for(bytes, (lo + hi + 1) / 2);
        const whi_bench_list threads = whi_bench_threads(b, &own);
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t n = threads.v[k];
            const whi_bench_part part = {.op = "churn", .size_min = lo, .size = hi, .threads = n};
            if (hi <= b->alloc->max_size && hi <= bytes && !whi_bench_leave_out(b, part)) {
                const whi_bench_churn want = {
                    .heap_bytes = bytes, .kernels = 1, .reps = reps, .blocks = {n, lo, hi}};
                whi_bench_progress(b, hi, n);
                WHI_BENCH_TRY(whi_bench_churn_run(b, &want));
            }
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_pressure(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->pressure);
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY)) {
        return WH_OK; /* never full, full for good, or a heap that cannot be left full */
    }
    WHI_BENCH_TRY(refuses(b, &sizes));
    return churns(b, &sizes);
}

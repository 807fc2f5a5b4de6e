/* case_pressure.c: the case pressure: what an allocator does in a heap that has too little.
 *   refuse  malloc in a heap that is full
 *   churn   the kernel of the case churn, with threads that want four times the heap */
#include <string.h>

#include "bench/driver/internal.h"

/* Batches after the one with the first NULL, at most: what still serves one now and then is
 * taken for full. */
#define MORE_BATCHES 16u

/* --- refuse ------------------------------------------------------------------------------ */

static void aim(whi_bench *b, uint64_t n, uint64_t size) {
    b->call.n = n;
    b->call.lo = size;
    b->call.hi = size;
    b->call.seed = b->seed;
}

/* Batches until all mallocs of one have returned NULL. The blocks are not remembered. */
static wh_status fill_heap(whi_bench *b, uint64_t size, int *broken) {
    const uint64_t batch = b->defaults->batch;
    const uint64_t room = b->heap_bytes / size + 2 * batch;
    const double start = whi_bench_wall_seconds();
    const whi_bench_part part = {.op = "refuse", .size = size};
    uint64_t asked = 0;
    uint32_t with_null = 0;
    int done = 0;
    wh_status s = WH_OK;
    aim(b, batch, size);
    while (s == WH_OK && !done) {
        wh_bench_counts counts;
        s = whi_bench_launch(b, b->kernels->malloc_single, batch);
        if (s == WH_OK) {
            s = whi_bench_verify(b, 0, &counts);
        }
        if (s == WH_OK) {
            b->malloc_series.bad += counts.bad;
            *broken |= counts.bad != 0;
            asked += batch;
            with_null += counts.failed != 0;
            done = *broken || counts.failed == batch || with_null > MORE_BATCHES ||
                   (with_null == 0 && asked >= room);
        }
        if (!done && whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS)) {
            done = whi_bench_leave_out(b, part);
        }
    }
    return s;
}

static wh_status refuse_once(whi_bench *b, int timed, int *broken) {
    const wh_bench_launcher kernel = b->kernels->malloc_single;
    wh_bench_counts counts;
    wh_status s = timed ? whi_bench_time(b, kernel, b->call.n, &b->malloc_series)
                        : whi_bench_launch(b, kernel, b->call.n);
    if (s == WH_OK) {
        s = whi_bench_verify(b, 0, &counts);
    }
    if (s == WH_OK) {
        b->malloc_series.failed += timed ? counts.failed : 0;
        b->malloc_series.bad += counts.bad;
        *broken |= counts.bad != 0;
    }
    return s;
}

static wh_status refuse(whi_bench *b, uint64_t bytes, uint64_t n, uint64_t size) {
    const uint64_t batch = b->defaults->batch;
    whi_bench_row row;
    int broken = 0;
    memset(&row, 0, sizeof row);
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    whi_bench_progress(b, "pressure", size, n);
    wh_status s = whi_bench_open_heap(b, bytes);
    if (s == WH_OK) {
        s = whi_bench_need_ptrs(b, n > batch ? n : batch);
    }
    if (s == WH_OK) {
        aim(b, n, size);
        s = whi_bench_floor(b, b->kernels->floor_single, n, &row.us_null);
    }
    if (s == WH_OK) {
        s = fill_heap(b, size, &broken);
    }
    aim(b, n, size);
    if (s == WH_OK && !b->on_sim && !broken) {
        s = refuse_once(b, 0, &broken);
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; s == WH_OK && i < b->reps && !broken; i++) {
        s = refuse_once(b, 1, &broken);
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    if (s == WH_OK) {
        row.case_name = "pressure";
        row.phase = "warm";
        row.op = "refuse";
        row.size = size;
        row.threads = n;
        row.ops = n;
        s = whi_bench_emit(b, &row, &b->malloc_series);
    }
    whi_bench_close_heap(b); /* nobody can free what is in it */
    return s;
}

static wh_status case_refuse(whi_bench *b, const whi_bench_list *sizes) {
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->refuse_threads);
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->refuse_bytes);
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes->n; i++) {
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            const whi_bench_part part = {
                .op = "refuse", .size = sizes->v[i], .threads = threads.v[k]};
            if (sizes->v[i] <= b->alloc->max_size && sizes->v[i] <= bytes &&
                !whi_bench_leave_out(b, part)) {
                s = refuse(b, bytes, threads.v[k], sizes->v[i]);
            }
        }
    }
    return s;
}

/* --- churn ------------------------------------------------------------------------------- */

/* A thread holds two blocks in the mean. */
static uint64_t threads_for(uint64_t bytes, uint64_t mean) {
    const uint64_t n = bytes * 4 / (2 * mean);
    const uint64_t rounded = (n + 128) / 256 * 256;
    return rounded != 0 ? rounded : 256;
}

static wh_status case_churn(whi_bench *b, const whi_bench_list *sizes) {
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->pressure_bytes);
    const uint32_t most = b->defaults->pressure_reps;
    const uint32_t reps = b->options->reps == 0 && b->reps > most ? most : b->reps;
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes->n; i++) {
        const uint64_t hi = sizes->v[i];
        const uint64_t lo = hi < 16 ? 1 : 16;
        const uint64_t own = threads_for(bytes, (lo + hi + 1) / 2);
        const whi_bench_list threads = whi_bench_threads(b, &own);
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            const whi_bench_part part = {
                .op = "churn", .size_min = lo, .size = hi, .threads = threads.v[k]};
            if (hi <= b->alloc->max_size && hi <= bytes && !whi_bench_leave_out(b, part)) {
                whi_bench_progress(b, "pressure", hi, threads.v[k]);
                s = whi_bench_churn(b, "pressure", bytes, reps, threads.v[k], lo, hi);
            }
        }
    }
    return s;
}

wh_status whi_bench_case_pressure(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->pressure);
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY)) {
        return WH_OK; /* never full, full for good, or a heap that cannot be left full */
    }
    const wh_status s = case_refuse(b, &sizes);
    return s == WH_OK ? case_churn(b, &sizes) : s;
}

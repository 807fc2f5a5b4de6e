/* churn.c: the churn kernel: its set-up, and one on a heap by itself, timed and verified. */
#include <string.h>

#include "bench/driver/internal.h"

/* One churn on a reset heap and the drain of what it leaves. */
static wh_status once(whi_bench *b, int whole, int timed) {
    const wh_bench_kernels *k = b->kernels;
    wh_bench_counts counts;
    wh_status s = WH_OK;
    if (whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    if (s == WH_OK) {
        s = whi_bench_clear_counts(b);
    }
    if (s == WH_OK) {
        s = timed ? whi_bench_time(b, k->churn, b->call.n, &b->malloc_series)
                  : whi_bench_launch(b, whole ? k->churn_whole : k->churn, b->call.n);
    }
    if (s == WH_OK) {
        s = whi_bench_launch(b, whole ? k->drain_whole : k->drain, b->call.n * WH_BENCH_SLOTS);
    }
    if (s == WH_OK) {
        s = whi_bench_get_counts(b, &counts);
    }
    if (s == WH_OK) {
        b->malloc_series.failed += timed ? counts.failed : 0;
        b->malloc_series.bad += counts.bad;
    }
    return s;
}

wh_status whi_bench_aim_churn(whi_bench *b, uint64_t heap_bytes, uint32_t kernels, uint64_t threads,
                              uint64_t lo, uint64_t hi) {
    const uint64_t slots = kernels * threads * WH_BENCH_SLOTS;
    wh_status s = whi_bench_open_heap(b, heap_bytes);
    if (s == WH_OK) {
        s = whi_bench_need_ptrs(b, slots);
    }
    if (s == WH_OK) {
        s = whi_bench_need_born(b, slots);
    }
    b->call.n = threads;
    b->call.lo = lo;
    b->call.hi = hi;
    b->call.seed = b->seed;
    b->call.steps = b->defaults->churn_steps;
    b->call.stamp = whi_bench_can(b, WH_CAP_DISJOINT) ? WH_BENCH_STAMP_CHECK : WH_BENCH_STAMP_TOUCH;
    return s;
}

wh_status whi_bench_churn(whi_bench *b, const char *case_name, uint64_t heap_bytes, uint32_t reps,
                          uint64_t threads, uint64_t lo, uint64_t hi) {
    whi_bench_row row;
    memset(&row, 0, sizeof row);
    wh_status s = whi_bench_aim_churn(b, heap_bytes, 1, threads, lo, hi);
    if (s != WH_OK) {
        return s;
    }
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    s = whi_bench_floor(b, b->kernels->floor_single, threads, &row.us_null);
    if (s == WH_OK && b->call.stamp == WH_BENCH_STAMP_CHECK) {
        s = once(b, 1, 0);
    }
    if (s == WH_OK && !b->on_sim) {
        s = once(b, 0, 0); /* loads the kernel */
    }
    if (b->options->check == WH_BENCH_CHECK_ENDS) {
        b->call.stamp = WH_BENCH_STAMP_NONE;
    }
    const double start = whi_bench_wall_seconds();
    for (uint32_t i = 0; s == WH_OK && i < reps && b->malloc_series.bad == 0; i++) {
        s = once(b, 0, 1);
        if (whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    if (s == WH_OK) {
        row.case_name = case_name;
        row.phase = whi_bench_can(b, WH_CAP_RESET) ? "cold" : "warm";
        row.op = "churn";
        row.size_min = lo;
        row.size = hi;
        row.threads = threads;
        row.ops = threads * b->call.steps;
        s = whi_bench_emit(b, &row, &b->malloc_series);
    }
    if (b->malloc_series.bad != 0) {
        whi_bench_close_heap(b);
    }
    return s;
}

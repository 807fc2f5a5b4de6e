/* streams.c: the case streams: two churn kernels on two streams share one heap;
 * together, and one after the other. */
#include <string.h>

#include "bench/driver/internal.h"

#define BOTH 3u /* a set of the two kernels: bit k is kernel k */

typedef struct pair {
    whi_bench *b;
    void *stream[2];
    whi_bench_plan plans[2];
    whi_bench_series alone, together; /* alone: sums of the two kernels' times */
} pair;

/* Starts the kernels chosen by the bits of `which`. */
static wh_status start(pair *t, wh_bench_launcher kernel, uint32_t which) {
    whi_bench *b = t->b;
    for (int k = 0; k < 2; k++) {
        if ((which >> k & 1) != 0) {
            wh_launch l = whi_bench_shape(b, t->plans[k].call.n);
            l.stream = t->stream[k];
            WHI_BENCH_TRY(whi_bench_check(b, kernel(&l, &t->plans[k].call), "kernel"));
        }
    }
    return WH_OK;
}

static wh_status prepare(whi_bench *b) {
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    return whi_bench_clear_counts(b);
}

/* Verifies and frees what the kernels chosen left, and adds what all of it counted. */
static wh_status drain(pair *t, int whole, uint32_t which, whi_bench_series *series) {
    const wh_bench_kernels *k = t->b->kernels;
    wh_bench_counts counts;
    for (int i = 0; i < 2; i++) {
        if ((which >> i & 1) != 0) {
            whi_bench_plan *p = &t->plans[i];
            WHI_BENCH_TRY(
                whi_bench_launch(p, whole ? k->drain_whole : k->drain, p->call.n * WH_BENCH_SLOTS));
        }
    }
    WHI_BENCH_TRY(whi_bench_get_counts(t->b, &counts));
    series->failed += counts.failed;
    series->bad += counts.bad;
    return WH_OK;
}

/* From the start of the first kernel to the end of the last. */
static wh_status timed(pair *t, uint32_t which, whi_bench_series *series, double *us) {
    whi_bench *b = t->b;
    whi_bench_watch watch;
    WHI_BENCH_TRY(prepare(b));
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(start(t, b->kernels->churn, which));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, us));
    return drain(t, 0, which, series);
}

/* Untimed: whole blocks are written and checked; loads the kernels. */
static wh_status untimed(pair *t, int whole) {
    whi_bench *b = t->b;
    WHI_BENCH_TRY(prepare(b));
    WHI_BENCH_TRY(start(t, whole ? b->kernels->churn_whole : b->kernels->churn, BOTH));
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_sync(b->device), "kernel"));
    return drain(t, whole, BOTH, &t->together);
}

static int is_broken(const pair *t) {
    return t->alone.bad + t->together.bad != 0;
}

static wh_status repeat(pair *t) {
    whi_bench *b = t->b;
    const uint32_t reps = whi_bench_reps(b, whi_bench_can(b, WH_CAP_RESET));
    const double begin = whi_bench_wall_seconds();
    if (t->plans[0].call.stamp == WH_BENCH_STAMP_CHECK) {
        WHI_BENCH_TRY(untimed(t, 1));
    }
    if (!b->on_sim) {
        WHI_BENCH_TRY(untimed(t, 0));
    }
    for (uint32_t i = 0; i < reps && !is_broken(t); i++) {
        double first = 0;
        double second = 0;
        double both = 0;
        WHI_BENCH_TRY(timed(t, 1, &t->alone, &first));
        WHI_BENCH_TRY(timed(t, 2, &t->alone, &second));
        WHI_BENCH_TRY(timed(t, BOTH, &t->together, &both));
        whi_bench_add_sample(&t->alone, first + second);
        whi_bench_add_sample(&t->together, both);
        if (whi_bench_over(b, begin, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    return WH_OK;
}

static wh_status report(pair *t) {
    whi_bench *b = t->b;
    whi_bench_plan *p = &t->plans[0];
    const double alone = whi_bench_median(t->alone.us, t->alone.n);
    const double together = whi_bench_median(t->together.us, t->together.n);
    whi_bench_row row = whi_bench_row_of(p, whi_bench_phase(b), "alone");
    row.size_min = p->call.lo;
    row.threads = 2 * p->call.n;
    row.ops = row.threads * p->call.steps;
    WHI_BENCH_TRY(whi_bench_floor(p, b->kernels->floor_single, row.threads, &row.us_null));
    WHI_BENCH_TRY(whi_bench_emit(b, &row, &t->alone));
    row.op = "together";
    if (alone > 0) {
        whi_bench_add_value(&row, "ratio_alone", together / alone, 3);
    }
    return whi_bench_emit(b, &row, &t->together);
}

/* blocks.n: threads of each kernel. */
static wh_status run(pair *t, whi_bench_blocks blocks) {
    whi_bench *b = t->b;
    const whi_bench_churn want = {
        .heap_bytes = whi_bench_heap_bytes(b), .kernels = 2, .blocks = blocks};
    memset(&t->alone, 0, sizeof t->alone);
    memset(&t->together, 0, sizeof t->together);
    WHI_BENCH_TRY(whi_bench_churn_begin(b, &t->plans[0], &want));
    t->plans[1] = t->plans[0];
    wh_bench_call *second = &t->plans[1].call;
    second->ptrs += blocks.n * WH_BENCH_SLOTS;
    second->born += blocks.n * WH_BENCH_SLOTS;
    second->seed = b->seed + (blocks.n << 20); /* as if its threads came behind the others */
    WHI_BENCH_TRY(repeat(t));
    if (is_broken(t)) {
        whi_bench_close_heap(b);
    }
    return report(t);
}

static wh_status all_sizes(pair *t) {
    whi_bench *b = t->b;
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->streams);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->stream_threads);
    /* Ordered with the default stream, so that the device's timer covers them. */
    for (int i = 0; i < 2 && !b->on_sim; i++) {
        WHI_BENCH_TRY(whi_bench_check(b, wh_stream_create(b->device, &t->stream[i]), "stream"));
    }
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t hi = sizes.v[i];
        const uint64_t lo = whi_bench_least(hi);
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t held = whi_bench_churn_bytes(b, (lo + hi + 1) / 2);
            const uint64_t n = whi_bench_fitting(b, threads.v[k], 2 * held);
            const whi_bench_part part = {.size_min = lo, .size = hi, .threads = 2 * n};
            if (n == 0 || hi > b->alloc->max_size || whi_bench_leave_out(b, part)) {
                continue;
            }
            whi_bench_progress(b, hi, 2 * n);
            WHI_BENCH_TRY(run(t, (whi_bench_blocks){n, lo, hi}));
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_streams(whi_bench *b) {
    pair t;
    memset(&t, 0, sizeof t);
    t.b = b;
    const wh_status s = all_sizes(&t);
    (void)wh_stream_destroy(b->device, t.stream[0]);
    (void)wh_stream_destroy(b->device, t.stream[1]);
    return s;
}

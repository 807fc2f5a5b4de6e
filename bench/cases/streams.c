/* case_streams.c: the case streams: two churn kernels on two streams share one heap;
 * together, and one after the other. */
#include <string.h>

#include "bench/driver/internal.h"

typedef struct streams_state {
    void *stream[2];
    wh_bench_call call[2];
    whi_bench_series alone, together; /* alone: sums of the two kernels' times */
} streams_state;

/* Starts the kernels chosen by the bits of `which` and, unless us is NULL, times them
 * from the start of the first to the end of the last. */
static wh_status start(whi_bench *b, streams_state *t, wh_bench_launcher kernel, uint32_t which,
                       double *us) {
    wh_status s = us != NULL ? wh_device_timer_begin(b->device) : WH_OK;
    for (int k = 0; k < 2 && s == WH_OK; k++) {
        if ((which >> k & 1) != 0) {
            wh_launch l = whi_bench_shape(b, t->call[k].n);
            l.stream = t->stream[k];
            s = kernel(&l, &t->call[k]);
        }
    }
    if (s == WH_OK) {
        s = us != NULL ? wh_device_timer_end(b->device, us) : wh_device_sync(b->device);
    }
    return s == WH_OK ? s : whi_bench_fail(b, s, "kernel with '%s'", b->alloc->name);
}

static wh_status prepare(whi_bench *b) {
    wh_status s = WH_OK;
    if (whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    return s == WH_OK ? whi_bench_clear_counts(b) : s;
}

/* Verifies and frees what the kernels chosen left, and adds what all of it counted. */
static wh_status drain(whi_bench *b, streams_state *t, int whole, uint32_t which,
                       whi_bench_series *series) {
    const wh_bench_call saved = b->call;
    wh_bench_counts counts;
    wh_status s = WH_OK;
    for (int k = 0; k < 2 && s == WH_OK; k++) {
        if ((which >> k & 1) != 0) {
            b->call = t->call[k];
            s = whi_bench_launch(b, whole ? b->kernels->drain_whole : b->kernels->drain,
                                 b->call.n * WH_BENCH_SLOTS);
        }
    }
    b->call = saved;
    if (s == WH_OK) {
        s = whi_bench_get_counts(b, &counts);
    }
    if (s == WH_OK) {
        series->failed += counts.failed;
        series->bad += counts.bad;
    }
    return s;
}

static wh_status timed(whi_bench *b, streams_state *t, uint32_t which, whi_bench_series *series,
                       double *us) {
    wh_device_counters before, after;
    wh_status s = prepare(b);
    if (s == WH_OK) {
        s = wh_device_get_counters(b->device, &before);
    }
    if (s == WH_OK) {
        s = start(b, t, b->kernels->churn, which, us);
    }
    if (s == WH_OK) {
        s = wh_device_get_counters(b->device, &after);
    }
    if (s == WH_OK) {
        series->steps += after.steps - before.steps;
        series->atomics += after.atomics - before.atomics;
        s = drain(b, t, 0, which, series);
    }
    return s;
}

/* Untimed: whole blocks are written and checked; loads the kernels. */
static wh_status untimed(whi_bench *b, streams_state *t, int whole) {
    wh_status s = prepare(b);
    if (s == WH_OK) {
        s = start(b, t, whole ? b->kernels->churn_whole : b->kernels->churn, 3, NULL);
    }
    return s == WH_OK ? drain(b, t, whole, 3, &t->together) : s;
}

static wh_status repeat(whi_bench *b, streams_state *t) {
    const uint32_t reps = whi_bench_reps(b, whi_bench_can(b, WH_CAP_RESET));
    const double begin = whi_bench_wall_seconds();
    wh_status s = WH_OK;
    if (b->call.stamp == WH_BENCH_STAMP_CHECK) {
        s = untimed(b, t, 1);
    }
    if (s == WH_OK && !b->on_sim) {
        s = untimed(b, t, 0);
    }
    for (uint32_t i = 0; s == WH_OK && i < reps && t->alone.bad + t->together.bad == 0; i++) {
        double first = 0;
        double second = 0;
        double both = 0;
        s = timed(b, t, 1, &t->alone, &first);
        if (s == WH_OK) {
            s = timed(b, t, 2, &t->alone, &second);
        }
        if (s == WH_OK) {
            s = timed(b, t, 3, &t->together, &both);
        }
        if (s == WH_OK) {
            t->alone.us[t->alone.n++] = first + second;
            t->together.us[t->together.n++] = both;
        }
        if (whi_bench_over(b, begin, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
    }
    return s;
}

static wh_status report(whi_bench *b, const streams_state *t) {
    const double alone = whi_bench_median(t->alone.us, t->alone.n);
    const double together = whi_bench_median(t->together.us, t->together.n);
    whi_bench_row row;
    memset(&row, 0, sizeof row);
    row.case_name = "streams";
    row.phase = whi_bench_can(b, WH_CAP_RESET) ? "cold" : "warm";
    row.size_min = b->call.lo;
    row.size = b->call.hi;
    row.threads = 2 * b->call.n;
    row.ops = row.threads * b->call.steps;
    wh_status s = whi_bench_floor(b, b->kernels->floor_single, row.threads, &row.us_null);
    if (s == WH_OK) {
        row.op = "alone";
        s = whi_bench_emit(b, &row, &t->alone);
    }
    if (s == WH_OK) {
        row.op = "together";
        row.value_name = alone > 0 ? "ratio_alone" : NULL;
        row.value = alone > 0 ? together / alone : 0;
        s = whi_bench_emit(b, &row, &t->together);
    }
    return s;
}

/* n threads in each kernel. */
static wh_status run(whi_bench *b, streams_state *t, uint64_t n, uint64_t lo, uint64_t hi) {
    wh_status s = whi_bench_aim_churn(b, whi_bench_heap_bytes(b), 2, n, lo, hi);
    if (s != WH_OK) {
        return s;
    }
    memset(&t->alone, 0, sizeof t->alone);
    memset(&t->together, 0, sizeof t->together);
    t->call[0] = b->call;
    t->call[1] = b->call;
    t->call[1].ptrs += n * WH_BENCH_SLOTS;
    t->call[1].born += n * WH_BENCH_SLOTS;
    t->call[1].seed = b->seed + (n << 20); /* as if its threads came behind the others */
    s = repeat(b, t);
    if (s == WH_OK) {
        s = report(b, t);
    }
    if (t->alone.bad + t->together.bad != 0) {
        whi_bench_close_heap(b);
    }
    return s;
}

wh_status whi_bench_case_streams(whi_bench *b) {
    static streams_state t;
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->streams);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->stream_threads);
    /* what a thread holds at most, or without free the mallocs of about half its steps */
    const uint64_t held =
        whi_bench_can(b, WH_CAP_FREE) ? WH_BENCH_SLOTS : b->defaults->churn_steps / 2 + 2;
    memset(&t, 0, sizeof t);
    /* Ordered with the default stream, so that the device's timer covers them. */
    wh_status s = WH_OK;
    for (int i = 0; i < 2 && !b->on_sim && s == WH_OK; i++) {
        s = wh_stream_create(b->device, &t.stream[i]);
    }
    s = s == WH_OK ? s : whi_bench_fail(b, s, "stream");
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t lo = sizes.v[i] < 16 ? 1 : 16;
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            const uint64_t n =
                whi_bench_fitting(b, threads.v[k], 2 * held * ((lo + sizes.v[i] + 1) / 2));
            const whi_bench_part part = {.size_min = lo, .size = sizes.v[i], .threads = 2 * n};
            if (n != 0 && sizes.v[i] <= b->alloc->max_size && !whi_bench_leave_out(b, part)) {
                whi_bench_progress(b, "streams", sizes.v[i], 2 * n);
                s = run(b, &t, n, lo, sizes.v[i]);
            }
        }
    }
    (void)wh_stream_destroy(b->device, t.stream[0]);
    (void)wh_stream_destroy(b->device, t.stream[1]);
    return s;
}

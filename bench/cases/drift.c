/* case_drift.c: the case drift: a heap that is filled to one half and half emptied again
 * and again while the sizes in use grow from 16 B to 4 KiB. docs/BENCHMARK.md has the
 * protocol. */
#include <string.h>

#include "bench/driver/internal.h"

/* The first batch of all is small on a GPU. If it takes longer than this, all are small: a
 * launch cannot be stopped, and a large one of such an allocator may take minutes. */
#define SLOW_US 50e3

#define ROUNDS 24u
#define FIRST_CENTRE 16.0
#define CENTRE_GROWTH 1.27264195 /* the 23rd root of 4096 / 16 */

typedef struct drift_round {
    uint32_t number; /* from 1 */
    uint64_t lo, hi;
    uint64_t asked;   /* mallocs */
    uint64_t freed;   /* blocks */
    uint64_t live;    /* bytes asked for by the blocks that are live once it is filled */
    uint64_t range;   /* from the lowest of them to the end of the highest */
    uint64_t largest; /* a single block that malloc still returns then */
    int cut;          /* time was over before that was known */
    double us, floor_us;
    uint64_t *batch; /* threads of a launch at most; of the whole case */
    wh_bench_counts counts;
} drift_round;

/* Whether time is over: then no round begins, and none goes on to allocate or to search. */
static int out_of_time(whi_bench *b, const drift_round *r) {
    const whi_bench_part part = {
        .size_min = r->lo, .size = r->hi, .value = {"round", (double)r->number, 0}};
    return whi_bench_leave_out(b, part);
}

/* One malloc of `size` bytes at the tail; *served says whether there was a block. With
 * keep it becomes an entry, else it is freed again. */
static wh_status try_one(whi_bench *b, uint64_t size, int keep, int *served) {
    void *p = NULL;
    whi_bench_ledger_tail(b);
    b->call.n = 1;
    b->call.lo = size;
    b->call.hi = size;
    wh_status s = whi_bench_launch(b, b->kernels->malloc_single, 1);
    if (s == WH_OK) {
        s = wh_device_copy_out(b->device, &p, b->call.ptrs, sizeof p);
        s = s == WH_OK ? s : whi_bench_fail(b, s, "copy from the device");
    }
    *served = p != NULL;
    if (s == WH_OK && *served) {
        s = keep ? whi_bench_ledger_record(b) : whi_bench_launch(b, b->kernels->free_all, 1);
    }
    return s;
}

/* The largest size that malloc serves, to 1 part in 64: from the whole heap downwards in
 * halves, since some allocator serves a size but not all below it, then by bisection. It
 * is allocated once more to be verified among the other blocks, and freed. */
static wh_status find_largest(whi_bench *b, drift_round *r) {
    const uint64_t live = b->ledger.n;
    uint64_t most = b->heap_bytes < UINT32_MAX ? b->heap_bytes : UINT32_MAX;
    most = most < b->alloc->max_size ? most : b->alloc->max_size;
    uint64_t none = most + 1; /* the least above `least` that was not served */
    uint64_t least = 0;       /* the most that was */
    wh_status s = WH_OK;
    for (uint64_t size = most; s == WH_OK && least == 0 && size >= 16 && !out_of_time(b, r);
         size /= 2) {
        int served = 0;
        s = try_one(b, size, 0, &served);
        least = served ? size : 0;
        none = served ? none : size;
    }
    while (s == WH_OK && least != 0 && none - least > 16 && none - least > least / 64 &&
           !out_of_time(b, r)) {
        const uint64_t size = least + (none - least) / 2;
        int served = 0;
        s = try_one(b, size, 0, &served);
        least = served ? size : least;
        none = served ? none : size;
    }
    r->cut = b->left_out.size != 0;
    int served = 0;
    if (s == WH_OK && least != 0 && !r->cut) {
        s = try_one(b, least, 1, &served);
    }
    if (s == WH_OK && served) {
        wh_bench_counts counts;
        s = whi_bench_ledger_verify(b, WHI_BENCH_PLACES, &counts);
        r->counts.bad += counts.bad;
        r->largest = least;
        if (s == WH_OK && counts.bad == 0) {
            b->ledger.n = live;
            whi_bench_ledger_tail(b);
            b->call.n = 1;
            s = whi_bench_launch(b, b->kernels->free_all, 1);
        }
    }
    return s;
}

/* Batches of sizes lo..hi until half the heap is asked for by live blocks, or a malloc
 * returned NULL, or time is over, which the first batch does not ask. `live` bytes are there
 * already. */
static wh_status fill_half(whi_bench *b, drift_round *r, uint64_t live, uint64_t room) {
    const uint64_t target = b->heap_bytes / 2;
    const uint64_t mean = r->lo + (r->hi - r->lo) / 2;
    const uint64_t batch_seed = b->seed + ((uint64_t)r->number << 40);
    wh_status s = WH_OK;
    int done = 0;
    while (s == WH_OK && !done && live + mean <= target) {
        const uint64_t wanted = (target - live) / mean;
        const uint64_t n = wanted < *r->batch ? wanted : *r->batch;
        wh_bench_counts counts;
        double floor_us = 0;
        if (b->ledger.n + n + 1 > room) {
            break; /* blocks beyond what the heap can hold: verification tells */
        }
        if (r->asked != 0 && out_of_time(b, r)) {
            break;
        }
        whi_bench_ledger_tail(b);
        b->call.n = n;
        b->call.lo = r->lo;
        b->call.hi = r->hi;
        b->call.seed = batch_seed + r->asked;
        s = whi_bench_floor(b, b->kernels->floor_mixed, n, &floor_us);
        if (s == WH_OK) {
            b->malloc_series.n = 0;
            s = whi_bench_time(b, b->kernels->malloc_mixed, n, &b->malloc_series);
        }
        if (s == WH_OK) {
            if (r->number == 1 && r->asked == 0 && b->malloc_series.us[0] <= SLOW_US) {
                *r->batch = b->defaults->drift_batch;
            }
            r->us += b->malloc_series.us[0];
            r->floor_us += floor_us;
            r->asked += n;
            s = whi_bench_verify(b, 0, &counts); /* looks at this batch alone */
        }
        if (s == WH_OK) {
            live += counts.requested;
            r->counts.failed += counts.failed;
            done = counts.failed != 0 || counts.bad != 0;
            s = whi_bench_ledger_record(b);
        }
    }
    return s;
}

static wh_status report(whi_bench *b, const drift_round *r) {
    whi_bench_row row;
    const whi_bench_value values[] = {
        {"round", (double)r->number, 0},
        {"live_bytes", (double)r->live, 0},
        {"filled", (double)r->live / ((double)b->heap_bytes / 2), 3},
        {"range_ratio", r->live != 0 ? (double)r->range / (double)r->live : 0, 3},
        {"largest", (double)r->largest, 0}, /* the last: left out if it is not known */
    };
    memset(&row, 0, sizeof row);
    row.case_name = "drift";
    row.phase = "warm";
    row.op = "round";
    row.size_min = r->lo;
    row.size = r->hi;
    row.threads = r->asked;
    row.ops = r->asked + r->freed;
    row.us_null = r->floor_us;
    row.values = values;
    row.n_values = sizeof values / sizeof *values - (r->cut != 0);
    b->malloc_series.us[0] = r->us;
    b->malloc_series.n = 1;
    b->malloc_series.failed = r->counts.failed;
    b->malloc_series.bad = r->counts.bad;
    return whi_bench_emit(b, &row, &b->malloc_series);
}

/* *live: bytes asked for by the live blocks, before and after. */
static wh_status one_round(whi_bench *b, drift_round *r, uint64_t *live, uint64_t room) {
    wh_bench_counts counts;
    double floor_us = 0;
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    memset(&b->free_series, 0, sizeof b->free_series);
    wh_status s = fill_half(b, r, *live, room);
    if (s == WH_OK) {
        s = whi_bench_ledger_verify(b, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts);
    }
    if (s != WH_OK) {
        return s;
    }
    r->counts.bad = counts.bad;
    r->live = counts.requested;
    r->range = counts.served != 0 ? counts.high - counts.low : 0;
    if (counts.bad == 0) {
        s = find_largest(b, r);
    }
    if (s == WH_OK && r->counts.bad == 0) {
        s = whi_bench_ledger_thin(b, 0.5, b->seed + r->number, &r->freed, &b->free_series);
    }
    if (s == WH_OK && r->freed != 0) {
        r->us += b->free_series.us[0];
        b->malloc_series.steps += b->free_series.steps;
        b->malloc_series.atomics += b->free_series.atomics;
        s = whi_bench_floor(b, b->kernels->floor_free, r->freed, &floor_us);
        r->floor_us += floor_us;
    }
    if (s == WH_OK && r->counts.bad == 0) { /* the frees left the others alone */
        s = whi_bench_ledger_verify(b, WHI_BENCH_CONTENTS, &counts);
        r->counts.bad = counts.bad;
        *live = counts.requested;
    }
    return s == WH_OK ? report(b, r) : s;
}

wh_status whi_bench_case_drift(whi_bench *b) {
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->drift_bytes);
    double centre = FIRST_CENTRE;
    uint64_t batch = b->defaults->drift_first;
    uint64_t live = 0;
    int broken = 0;
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    b->case_limits = WHI_BENCH_LONG_CASE_LIMITS;
    /* sizes average 16 in the first round, which makes the most blocks; one more for the
     * search for the largest */
    const uint64_t room = bytes / 2 / 12 + b->defaults->drift_batch + 1;
    wh_status s = whi_bench_open_heap(b, bytes);
    if (s == WH_OK && whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    if (s == WH_OK) {
        s = whi_bench_ledger_open(b, room);
    }
    for (uint32_t i = 1; i <= ROUNDS && s == WH_OK && !broken; i++) {
        drift_round r;
        const uint64_t c = (uint64_t)(centre + 0.5);
        memset(&r, 0, sizeof r);
        r.number = i;
        r.batch = &batch;
        r.lo = c - c / 4;
        r.hi = c + c / 4;
        if (r.hi > b->alloc->max_size || r.hi > bytes / 2 || out_of_time(b, &r)) {
            break;
        }
        whi_bench_progress(b, "drift", r.hi, batch);
        s = one_round(b, &r, &live, room);
        broken = r.counts.bad != 0;
        centre *= CENTRE_GROWTH;
    }
    return whi_bench_ledger_end(b, s, broken);
}

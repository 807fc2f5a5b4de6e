/* case_full.c: the case full: malloc and free in a heap of which a given share is live.
 * One fill serves all shares: the fullest comes first, then more blocks are freed. */
#include <string.h>

#include "bench/driver/internal.h"

static const double shares[] = {0.99, 0.90, 0.50};

#define N_SHARES (sizeof shares / sizeof *shares)

typedef struct full_state {
    uint64_t lo, hi;
    wh_bench_launcher malloc_kernel, malloc_floor;
    uint64_t room;   /* entries of the ledger */
    uint64_t filled; /* blocks that the full heap held */
    uint64_t freed;  /* of them */
    int broken;      /* a bad block was seen */
} full_state;

/* Sets b->call for n mallocs into the ledger's tail. */
static void aim(whi_bench *b, const full_state *f, uint64_t n, uint64_t seed) {
    whi_bench_ledger_tail(b);
    b->call.n = n;
    b->call.lo = f->lo;
    b->call.hi = f->hi;
    b->call.seed = seed;
}

static whi_bench_part part_of(const full_state *f, const char *op) {
    return (whi_bench_part){.op = op, .size_min = f->lo != f->hi ? f->lo : 0, .size = f->hi};
}

static void row_for(const full_state *f, whi_bench_row *row, uint64_t n) {
    memset(row, 0, sizeof *row);
    row->case_name = "full";
    row->phase = "warm";
    row->size_min = f->lo != f->hi ? f->lo : 0;
    row->size = f->hi;
    row->threads = n;
    row->ops = n;
}

/* Batches until a malloc returns NULL. Its row says how far it came; without the value
 * `utilization` it ended for another reason: time, or blocks beyond what the heap holds. */
static wh_status fill_heap(whi_bench *b, full_state *f, int *complete) {
    const uint64_t batch = b->defaults->batch;
    const double start = whi_bench_wall_seconds();
    wh_bench_counts counts;
    whi_bench_row row;
    double floor_us = 0;
    double us = 0;
    uint64_t batches = 0;
    int timed_out = 0;
    memset(&counts, 0, sizeof counts);
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    aim(b, f, batch, b->seed);
    wh_status s = whi_bench_floor(b, f->malloc_floor, batch, &floor_us);
    while (s == WH_OK && counts.failed == 0 && !timed_out && b->ledger.n + batch <= f->room) {
        aim(b, f, batch, b->seed + b->ledger.n);
        b->malloc_series.n = 0;
        s = whi_bench_time(b, f->malloc_kernel, batch, &b->malloc_series);
        us += b->malloc_series.us[0];
        batches++;
        if (s == WH_OK) {
            s = whi_bench_verify(b, 0, &counts); /* looks at this batch alone */
        }
        if (s == WH_OK) {
            s = whi_bench_ledger_record(b);
        }
        timed_out = whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS);
    }
    *complete = counts.failed != 0;
    if (timed_out && !*complete) {
        (void)whi_bench_leave_out(b, part_of(f, "malloc"));
    }
    const uint64_t asked = b->ledger.n;
    if (s == WH_OK) {
        s = whi_bench_ledger_verify(b, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts);
    }
    if (s != WH_OK) {
        return s;
    }
    f->filled = counts.served;
    f->broken = counts.bad != 0;
    b->malloc_series.us[0] = us;
    b->malloc_series.n = 1;
    b->malloc_series.failed = counts.failed;
    b->malloc_series.bad = counts.bad;
    row_for(f, &row, asked);
    row.op = "fill";
    row.us_null = floor_us * (double)batches;
    row.value_name = *complete ? "utilization" : NULL;
    row.value = (double)counts.requested / (double)b->heap_bytes;
    return whi_bench_emit(b, &row, &b->malloc_series);
}

static wh_status look(whi_bench *b, full_state *f, int timed, int contents) {
    wh_bench_counts counts;
    const uint32_t what = contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES : WHI_BENCH_PLACES;
    const wh_status s = whi_bench_ledger_verify(b, what, &counts);
    if (s == WH_OK) {
        b->malloc_series.failed += timed ? counts.failed : 0;
        b->malloc_series.bad += counts.bad;
        f->broken |= counts.bad != 0;
    }
    return s;
}

/* n mallocs and the free of what they gave, beside all blocks that are live. */
static wh_status round_once(whi_bench *b, full_state *f, uint64_t n, uint64_t seed, int timed,
                            int contents) {
    whi_bench_ledger *l = &b->ledger;
    const uint64_t live = l->n;
    const int check_first = contents || b->on_sim;
    aim(b, f, n, seed);
    wh_status s = timed ? whi_bench_time(b, f->malloc_kernel, n, &b->malloc_series)
                        : whi_bench_launch(b, f->malloc_kernel, n);
    if (s == WH_OK) {
        s = whi_bench_ledger_record(b);
    }
    if (s == WH_OK && check_first) {
        s = look(b, f, timed, contents);
    }
    if (s == WH_OK && !f->broken) {
        l->n = live; /* the new blocks stay in the arrays behind it */
        aim(b, f, n, seed);
        s = timed ? whi_bench_time(b, b->kernels->free_all, n, &b->free_series)
                  : whi_bench_launch(b, b->kernels->free_all, n);
    }
    if (s == WH_OK && !check_first) { /* by addresses alone: they need not be allocated */
        l->n = live + n;
        s = look(b, f, timed, 0);
    }
    l->n = live;
    l->patterned = l->patterned < live ? l->patterned : live;
    return s;
}

static wh_status measure(whi_bench *b, full_state *f, double share, uint64_t n) {
    whi_bench_row row;
    double malloc_floor = 0;
    double free_floor = 0;
    const whi_bench_value values[] = {
        {"fill", share, 2}, {"live", (double)b->ledger.n, 0}, {"live_of", (double)f->filled, 0}};
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    memset(&b->free_series, 0, sizeof b->free_series);
    aim(b, f, n, b->seed); /* the floors write there */
    wh_status s = whi_bench_floor(b, f->malloc_floor, n, &malloc_floor);
    if (s == WH_OK) {
        s = whi_bench_floor(b, b->kernels->floor_free, n, &free_floor);
    }
    if (s == WH_OK && !b->on_sim) {
        s = round_once(b, f, n, b->seed, 0, 1);
    }
    const double start = whi_bench_wall_seconds();
    int done = 0;
    for (uint32_t i = 0; s == WH_OK && !done && !f->broken; i++) {
        done = i + 1 >= b->reps || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        s = round_once(b, f, n, b->seed + (uint64_t)(i + 1) * n, 1,
                       done || b->options->check == WH_BENCH_CHECK_EVERY);
    }
    if (s == WH_OK && !f->broken) { /* the frees left the live blocks alone */
        s = look(b, f, 0, 1);
    }
    row_for(f, &row, n);
    row.values = values;
    row.n_values = sizeof values / sizeof *values;
    if (s == WH_OK) {
        row.op = "malloc";
        row.us_null = malloc_floor;
        s = whi_bench_emit(b, &row, &b->malloc_series);
    }
    if (s == WH_OK && b->free_series.n != 0) {
        row.op = "free";
        row.us_null = free_floor;
        s = whi_bench_emit(b, &row, &b->free_series);
    }
    return s;
}

static wh_status run(whi_bench *b, uint64_t lo, uint64_t hi) {
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->full_threads);
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->full_bytes);
    const uint64_t mean = lo + (hi - lo) / 2;
    full_state f;
    int complete = 0;
    memset(&f, 0, sizeof f);
    f.lo = lo;
    f.hi = hi;
    if (hi > b->alloc->max_size || hi > bytes || whi_bench_leave_out(b, part_of(&f, NULL))) {
        return WH_OK;
    }
    f.malloc_kernel = lo == hi ? b->kernels->malloc_single : b->kernels->malloc_mixed;
    f.malloc_floor = lo == hi ? b->kernels->floor_single : b->kernels->floor_mixed;
    f.room = bytes / mean + (lo == hi ? 0 : bytes / mean / 4) + 2 * b->defaults->batch;
    whi_bench_progress(b, "full", hi, threads.v[0]);
    wh_status s = whi_bench_open_heap(b, bytes);
    if (s == WH_OK && whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    if (s == WH_OK) {
        s = whi_bench_ledger_open(b, f.room);
    }
    if (s == WH_OK) {
        s = fill_heap(b, &f, &complete);
    }
    for (size_t i = 0; i < N_SHARES && s == WH_OK && complete && !f.broken; i++) {
        uint64_t freed = 0;
        s = whi_bench_ledger_thin(b, i == 0 ? shares[0] : shares[i] / shares[i - 1],
                                  b->seed + i + 1, &freed, NULL);
        f.freed += freed;
        for (size_t k = 0; k < threads.n && s == WH_OK && !f.broken; k++) {
            const uint64_t n = threads.v[k] < f.freed / 2 ? threads.v[k] : f.freed / 2;
            s = n != 0 ? measure(b, &f, shares[i], n) : WH_OK;
        }
    }
    return whi_bench_ledger_end(b, s, f.broken);
}

wh_status whi_bench_case_full(whi_bench *b) {
    const whi_bench_list single = whi_bench_sizes(b, b->defaults->full_single);
    const whi_bench_list mixed = whi_bench_sizes(b, b->defaults->full_mixed);
    wh_status s = WH_OK;
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT)) {
        return WH_OK; /* never full, or full for good */
    }
    for (size_t i = 0; i < single.n && s == WH_OK; i++) {
        s = run(b, single.v[i], single.v[i]);
    }
    for (size_t i = 0; i < mixed.n && s == WH_OK; i++) {
        if (mixed.v[i] > 16) {
            s = run(b, 16, mixed.v[i]);
        }
    }
    return s;
}

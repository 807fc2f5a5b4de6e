/* drift.c: the case drift: a heap that is filled to one half and half emptied again
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
    whi_bench_compactions compactions; /* behind the frees */
} drift_round;

typedef struct drift_state {
    whi_bench_plan p; /* its series: of the current round */
    whi_bench_ledger ledger;
    uint64_t bytes; /* of the heap */
    uint64_t room;  /* entries of the ledger */
    uint64_t batch; /* threads of a launch at most */
    uint64_t live;  /* bytes asked for by the blocks that are live between two rounds */
} drift_state;

static whi_bench_part part_of(const drift_round *r) {
    return (whi_bench_part){
        .size_min = r->lo, .size = r->hi, .value = {"round", (double)r->number, 0}};
}

/* Whether time is over: then no round begins, and none goes on to allocate or to search. */
static int out_of_time(whi_bench *b, const drift_round *r) {
    return whi_bench_leave_out(b, part_of(r));
}

/* The largest block that malloc still returns. */
static wh_status find_largest(drift_state *d, drift_round *r) {
    const whi_bench_part part = part_of(r);
    WHI_BENCH_TRY(whi_bench_largest(&d->p, &d->ledger, d->bytes, &part, &r->largest));
    r->cut = d->p.b->turn.left_out.size != 0;
    return WH_OK;
}

/* --- a round ---------------------------------------------------------------------------------- */

/* One batch of n mallocs; *done: the round is filled, by a NULL or a bad block. */
static wh_status fill_batch(drift_state *d, drift_round *r, uint64_t n, int *done) {
    whi_bench *b = d->p.b;
    wh_bench_counts counts;
    double floor_us = 0;
    whi_bench_ledger_tail(&d->ledger, &d->p, (whi_bench_blocks){n, r->lo, r->hi});
    d->p.call.seed = b->seed + ((uint64_t)r->number << 40) + r->asked;
    WHI_BENCH_TRY(whi_bench_floor(&d->p, b->kernels->floor_mixed, n, &floor_us));
    d->p.mallocs.n = 0;
    WHI_BENCH_TRY(whi_bench_time(&d->p, b->kernels->malloc_mixed, n, &d->p.mallocs));
    if (r->number == 1 && r->asked == 0 && d->p.mallocs.us[0] <= SLOW_US) {
        d->batch = b->defaults->drift_batch;
    }
    r->us += d->p.mallocs.us[0];
    r->floor_us += floor_us;
    r->asked += n;
    WHI_BENCH_TRY(whi_bench_verify(&d->p, 0, &counts)); /* looks at this batch alone */
    d->live += counts.requested;
    d->p.mallocs.failed += counts.failed;
    *done = counts.failed != 0 || counts.bad != 0;
    return whi_bench_ledger_record(&d->ledger, &d->p);
}

/* Batches of sizes lo..hi until half the heap is asked for by live blocks, or a malloc
 * returned NULL, or time is over, which the first batch does not ask. */
static wh_status fill_half(drift_state *d, drift_round *r) {
    const uint64_t target = d->bytes / 2;
    const uint64_t mean = r->lo + (r->hi - r->lo) / 2;
    int done = 0;
    while (!done && d->live + mean <= target) {
        const uint64_t wanted = (target - d->live) / mean;
        const uint64_t n = wanted < d->batch ? wanted : d->batch;
        if (d->ledger.n + n + 1 > d->room) {
            break; /* blocks beyond what the heap can hold: verification tells */
        }
        if (r->asked != 0 && out_of_time(d->p.b, r)) {
            break;
        }
        WHI_BENCH_TRY(fill_batch(d, r, n, &done));
    }
    return WH_OK;
}

/* Frees each live block with probability one half. */
static wh_status free_half(drift_state *d, drift_round *r) {
    whi_bench *b = d->p.b;
    double floor_us = 0;
    WHI_BENCH_TRY(
        whi_bench_ledger_thin(&d->ledger, &d->p, 0.5, b->seed + r->number, &r->freed, &d->p.frees));
    if (r->freed == 0) {
        return WH_OK;
    }
    r->us += d->p.frees.us[0];
    d->p.mallocs.steps += d->p.frees.steps;
    d->p.mallocs.atomics += d->p.frees.atomics;
    WHI_BENCH_TRY(whi_bench_floor(&d->p, b->kernels->floor_free, r->freed, &floor_us));
    r->floor_us += floor_us;
    return WH_OK;
}

static wh_status report(drift_state *d, const drift_round *r) {
    whi_bench_row row = {.phase = "warm",
                         .op = "round",
                         .size_min = r->lo,
                         .size = r->hi,
                         .threads = r->asked,
                         .ops = r->asked + r->freed,
                         .us_null = r->floor_us};
    const double live = (double)r->live;
    whi_bench_add_value(&row, "round", (double)r->number, 0);
    whi_bench_add_value(&row, "live_bytes", live, 0);
    whi_bench_add_value(&row, "filled", live / ((double)d->bytes / 2), 3);
    whi_bench_add_value(&row, "range_ratio", r->live != 0 ? (double)r->range / live : 0, 3);
    if (!r->cut) {
        whi_bench_add_value(&row, "largest", (double)r->largest, 0);
    }
    whi_bench_add_compactions(&row, &r->compactions);
    whi_bench_set_sample(&d->p.mallocs, r->us);
    return whi_bench_emit(d->p.b, &row, &d->p.mallocs);
}

static wh_status one_round(drift_state *d, drift_round *r) {
    whi_bench_ledger *l = &d->ledger;
    wh_bench_counts counts;
    memset(&d->p.mallocs, 0, sizeof d->p.mallocs);
    memset(&d->p.frees, 0, sizeof d->p.frees);
    WHI_BENCH_TRY(fill_half(d, r));
    WHI_BENCH_TRY(
        whi_bench_ledger_verify(l, &d->p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts));
    whi_bench_count(&d->p, &counts, 0);
    r->live = counts.requested;
    r->range = counts.served != 0 ? counts.high - counts.low : 0;
    if (!d->p.broken) {
        WHI_BENCH_TRY(find_largest(d, r));
    }
    if (!d->p.broken) {
        WHI_BENCH_TRY(free_half(d, r));
        WHI_BENCH_TRY(whi_bench_compact(d->p.b, &r->compactions));
        /* the frees left the others alone */
        WHI_BENCH_TRY(whi_bench_ledger_verify(l, &d->p, WHI_BENCH_CONTENTS, &counts));
        whi_bench_count(&d->p, &counts, 0);
        d->live = counts.requested;
    }
    return report(d, r);
}

/* --- the case -------------------------------------------------------------------------------- */

static wh_status all_rounds(drift_state *d) {
    whi_bench *b = d->p.b;
    double centre = FIRST_CENTRE;
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(whi_bench_ledger_open(b, &d->ledger, d->room));
    for (uint32_t i = 1; i <= ROUNDS && !d->p.broken; i++) {
        const uint64_t c = (uint64_t)(centre + 0.5);
        drift_round r = {.number = i, .lo = c - c / 4, .hi = c + c / 4};
        if (r.hi > b->alloc->max_size || r.hi > d->bytes / 2 || out_of_time(b, &r)) {
            break;
        }
        whi_bench_progress(b, r.hi, d->batch);
        WHI_BENCH_TRY(one_round(d, &r));
        centre *= CENTRE_GROWTH;
    }
    return WH_OK;
}

wh_status whi_bench_case_drift(whi_bench *b) {
    drift_state d;
    memset(&d, 0, sizeof d);
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    d.bytes = whi_bench_case_heap(b, b->defaults->drift_bytes);
    d.batch = b->defaults->drift_first;
    /* sizes average 16 in the first round, which makes the most blocks; one more for the
     * search for the largest */
    d.room = d.bytes / 2 / 12 + b->defaults->drift_batch + 1;
    WHI_BENCH_TRY(whi_bench_begin(b, &d.p, d.bytes, (whi_bench_blocks){0, 0, 0}));
    const wh_status s = all_rounds(&d);
    return whi_bench_ledger_end(&d.p, &d.ledger, s);
}

/* full.c: the case full: malloc and free in a heap of which a given share is live.
 * One fill serves all shares: the fullest comes first, then more blocks are freed. */
#include <string.h>

#include "bench/driver/internal.h"

static const double shares[] = {0.99, 0.90, 0.50};

#define N_SHARES (sizeof shares / sizeof *shares)

typedef struct full_state {
    whi_bench_plan p;
    whi_bench_ledger ledger;
    uint64_t bytes, lo, hi;
    wh_bench_launcher malloc_kernel, malloc_floor;
    uint64_t room;   /* entries of the ledger */
    uint64_t filled; /* blocks that the full heap held */
    uint64_t freed;  /* of them */
    int complete;    /* the fill ended by a NULL */
} full_state;

/* Aims at n mallocs into the ledger's tail. */
static void aim(full_state *f, uint64_t n, uint64_t seed) {
    whi_bench_ledger_tail(&f->ledger, &f->p, (whi_bench_blocks){n, f->lo, f->hi});
    f->p.call.seed = seed;
}

static whi_bench_part part_of(const full_state *f, const char *op) {
    return (whi_bench_part){.op = op, .size_min = f->lo != f->hi ? f->lo : 0, .size = f->hi};
}

/* --- the fill -------------------------------------------------------------------------------- */

/* Batches until a malloc returns NULL. *us and *floor_us: of all of them. */
static wh_status fill_batches(full_state *f, double *us, double *floor_us) {
    whi_bench *b = f->p.b;
    const uint64_t batch = b->defaults->batch;
    const double start = whi_bench_wall_seconds();
    wh_bench_counts counts;
    double floor = 0;
    int timed_out = 0;
    aim(f, batch, b->seed);
    WHI_BENCH_TRY(whi_bench_floor(&f->p, f->malloc_floor, batch, &floor));
    while (!f->complete && !timed_out && f->ledger.n + batch <= f->room) {
        aim(f, batch, b->seed + f->ledger.n);
        f->p.mallocs.n = 0;
        WHI_BENCH_TRY(whi_bench_time(&f->p, f->malloc_kernel, batch, &f->p.mallocs));
        *us += f->p.mallocs.us[0];
        *floor_us += floor;
        WHI_BENCH_TRY(whi_bench_verify(&f->p, 0, &counts)); /* looks at this batch alone */
        WHI_BENCH_TRY(whi_bench_ledger_record(&f->ledger, &f->p));
        f->complete = counts.failed != 0;
        timed_out = whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS);
    }
    if (timed_out && !f->complete) {
        (void)whi_bench_leave_out(b, part_of(f, "malloc"));
    }
    return WH_OK;
}

/* Its row says how far it came; without the value `utilization` it ended for another reason than
 * a NULL: time, or blocks beyond what the heap holds. */
static wh_status fill_heap(full_state *f) {
    whi_bench *b = f->p.b;
    wh_bench_counts counts;
    double us = 0;
    double floor_us = 0;
    WHI_BENCH_TRY(fill_batches(f, &us, &floor_us));
    const uint64_t asked = f->ledger.n;
    WHI_BENCH_TRY(
        whi_bench_ledger_verify(&f->ledger, &f->p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts));
    f->filled = counts.served;
    whi_bench_set_sample(&f->p.mallocs, us);
    whi_bench_count(&f->p, &counts, 1);
    whi_bench_row row = whi_bench_row_of(&f->p, "warm", "fill");
    row.threads = row.ops = asked;
    row.us_null = floor_us;
    if (f->complete) {
        whi_bench_add_value(&row, "utilization", (double)counts.requested / (double)f->bytes, 3);
    }
    return whi_bench_emit(b, &row, &f->p.mallocs);
}

/* --- rounds in the full heap ------------------------------------------------------------------ */

static wh_status look(full_state *f, int timed, int contents) {
    wh_bench_counts counts;
    const uint32_t what = contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES : WHI_BENCH_PLACES;
    WHI_BENCH_TRY(whi_bench_ledger_verify(&f->ledger, &f->p, what, &counts));
    whi_bench_count(&f->p, &counts, timed);
    return WH_OK;
}

/* n mallocs and the free of what they gave, beside the blocks that are live. */
static wh_status malloc_and_free(full_state *f, uint64_t n, uint64_t seed, int timed,
                                 int contents) {
    whi_bench *b = f->p.b;
    whi_bench_ledger *l = &f->ledger;
    const uint64_t live = l->n;
    const int check_first = contents || b->on_sim;
    aim(f, n, seed);
    WHI_BENCH_TRY(whi_bench_time(&f->p, f->malloc_kernel, n, timed ? &f->p.mallocs : NULL));
    WHI_BENCH_TRY(whi_bench_ledger_record(l, &f->p));
    if (check_first) {
        WHI_BENCH_TRY(look(f, timed, contents));
    }
    if (!f->p.broken) {
        l->n = live; /* the new blocks stay in the arrays behind it */
        aim(f, n, seed);
        WHI_BENCH_TRY(whi_bench_time(&f->p, b->kernels->free_all, n, timed ? &f->p.frees : NULL));
    }
    if (!check_first) { /* by addresses alone: they need not be allocated */
        l->n = live + n;
        WHI_BENCH_TRY(look(f, timed, 0));
    }
    l->n = live;
    l->patterned = l->patterned < live ? l->patterned : live;
    return WH_OK;
}

static wh_status repeat(full_state *f, uint64_t n) {
    whi_bench *b = f->p.b;
    if (!b->on_sim) {
        WHI_BENCH_TRY(malloc_and_free(f, n, b->seed, 0, 1));
    }
    const double start = whi_bench_wall_seconds();
    int done = 0;
    for (uint32_t i = 0; !done && !f->p.broken; i++) {
        done = i + 1 >= b->reps || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        const int contents = done || b->options->check == WH_BENCH_CHECK_EVERY;
        WHI_BENCH_TRY(malloc_and_free(f, n, b->seed + (uint64_t)(i + 1) * n, 1, contents));
    }
    return f->p.broken ? WH_OK : look(f, 0, 1); /* the frees left the live blocks alone */
}

static wh_status measure(full_state *f, double share, uint64_t n) {
    whi_bench *b = f->p.b;
    memset(&f->p.mallocs, 0, sizeof f->p.mallocs);
    memset(&f->p.frees, 0, sizeof f->p.frees);
    aim(f, n, b->seed); /* the floors write there */
    whi_bench_row mallocs = whi_bench_row_of(&f->p, "warm", "malloc");
    whi_bench_add_value(&mallocs, "fill", share, 2);
    whi_bench_add_value(&mallocs, "live", (double)f->ledger.n, 0);
    whi_bench_add_value(&mallocs, "live_of", (double)f->filled, 0);
    whi_bench_row frees = mallocs;
    frees.op = "free";
    WHI_BENCH_TRY(whi_bench_floor(&f->p, f->malloc_floor, n, &mallocs.us_null));
    WHI_BENCH_TRY(whi_bench_floor(&f->p, b->kernels->floor_free, n, &frees.us_null));
    WHI_BENCH_TRY(repeat(f, n));
    WHI_BENCH_TRY(whi_bench_emit(b, &mallocs, &f->p.mallocs));
    return f->p.frees.n != 0 ? whi_bench_emit(b, &frees, &f->p.frees) : WH_OK;
}

/* --- the case -------------------------------------------------------------------------------- */

static wh_status all_shares(full_state *f) {
    whi_bench *b = f->p.b;
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->full_threads);
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(whi_bench_ledger_open(b, &f->ledger, f->room));
    WHI_BENCH_TRY(fill_heap(f));
    for (size_t i = 0; i < N_SHARES && f->complete && !f->p.broken; i++) {
        const double keep = i == 0 ? shares[0] : shares[i] / shares[i - 1];
        uint64_t freed = 0;
        WHI_BENCH_TRY(
            whi_bench_ledger_thin(&f->ledger, &f->p, keep, b->seed + i + 1, &freed, NULL));
        f->freed += freed;
        for (size_t k = 0; k < threads.n && !f->p.broken; k++) {
            const uint64_t n = threads.v[k] < f->freed / 2 ? threads.v[k] : f->freed / 2;
            if (n != 0) {
                WHI_BENCH_TRY(measure(f, shares[i], n));
            }
        }
    }
    return WH_OK;
}

static wh_status run(whi_bench *b, uint64_t lo, uint64_t hi) {
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->full_bytes);
    const uint64_t mean = lo + (hi - lo) / 2;
    const int single = lo == hi;
    full_state f;
    memset(&f, 0, sizeof f);
    f.bytes = bytes;
    f.lo = lo;
    f.hi = hi;
    if (hi > b->alloc->max_size || hi > bytes || whi_bench_leave_out(b, part_of(&f, NULL))) {
        return WH_OK;
    }
    f.malloc_kernel = single ? b->kernels->malloc_single : b->kernels->malloc_mixed;
    f.malloc_floor = single ? b->kernels->floor_single : b->kernels->floor_mixed;
    f.room = bytes / mean + (single ? 0 : bytes / mean / 4) + 2 * b->defaults->batch;
    whi_bench_progress(b, hi, b->defaults->full_threads);
    WHI_BENCH_TRY(whi_bench_begin(b, &f.p, bytes, (whi_bench_blocks){0, lo, hi}));
    const wh_status s = all_shares(&f);
    return whi_bench_ledger_end(&f.p, &f.ledger, s);
}

wh_status whi_bench_case_full(whi_bench *b) {
    const whi_bench_list single = whi_bench_sizes(b, b->defaults->full_single);
    const whi_bench_list mixed = whi_bench_sizes(b, b->defaults->full_mixed);
    if (!whi_bench_can(b, WH_CAP_FREE | WH_CAP_DISJOINT)) {
        return WH_OK; /* never full, or full for good */
    }
    for (size_t i = 0; i < single.n; i++) {
        WHI_BENCH_TRY(run(b, single.v[i], single.v[i]));
    }
    for (size_t i = 0; i < mixed.n; i++) {
        if (mixed.v[i] > 16) {
            WHI_BENCH_TRY(run(b, 16, mixed.v[i]));
        }
    }
    return WH_OK;
}

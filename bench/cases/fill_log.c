/* fill_log.c: the case fill-log: a heap is filled with blocks of log-uniform sizes, one half of
 * them is freed at random, and then mallocs of such sizes, and of one size, are timed.
 * docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/driver/internal.h"

#define HALF_SIZE ((uint64_t)256)

typedef struct fill_state {
    whi_bench_plan p;
    whi_bench_ledger ledger;
    uint64_t bytes, batch, lo, hi;
    uint64_t room;      /* entries of the ledger */
    uint64_t asked;     /* mallocs */
    uint64_t requested; /* bytes of those that were served */
    uint64_t served;    /* of the last batch */
    double first_null;  /* share of the heap requested when the first NULL came */
    double us, floor_us;
    int complete; /* there was a NULL */
} fill_state;

static whi_bench_part part_of(const fill_state *f, const char *op) {
    return (whi_bench_part){.op = op, .size_min = f->lo, .size = f->hi};
}

/* Aims at n mallocs of log-uniform sizes into the ledger's tail. */
static void aim(fill_state *f, uint64_t n, uint64_t seed) {
    whi_bench_ledger_tail(&f->ledger, &f->p, (whi_bench_blocks){n, f->lo, f->hi});
    f->p.call.octaves = whi_bench_octaves(f->lo, f->hi);
    f->p.call.seed = seed;
}

/* Counts the blocks that p->call is about, by their sizes, without the ledger's others. */
static wh_status survey(fill_state *f, wh_bench_counts *counts) {
    whi_bench *b = f->p.b;
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_launch(&f->p, b->ledger_kernels->survey, f->p.call.n));
    return whi_bench_get_counts(b, counts);
}

/* --- the fill -------------------------------------------------------------------------------- */

static wh_status one_batch(fill_state *f) {
    whi_bench *b = f->p.b;
    wh_bench_counts counts;
    aim(f, f->batch, b->seed + f->asked);
    f->p.mallocs.n = 0;
    WHI_BENCH_TRY(whi_bench_time(&f->p, b->heaps_kernels.malloc_log, f->batch, &f->p.mallocs));
    f->us += f->p.mallocs.us[0];
    WHI_BENCH_TRY(whi_bench_launch(&f->p, b->heaps_kernels.record_log, f->batch));
    WHI_BENCH_TRY(survey(f, &counts));
    whi_bench_count(&f->p, &counts, 1);
    f->ledger.n += f->batch;
    f->asked += f->batch;
    f->requested += counts.requested;
    f->served = counts.served;
    if (counts.failed != 0 && !f->complete) {
        f->complete = 1;
        f->first_null = (double)f->requested / (double)f->bytes;
    }
    return WH_OK;
}

/* NULLs give their places up when the ledger is full. */
static wh_status make_room(fill_state *f, int *full) {
    uint64_t freed = 0;
    *full = 0;
    if (f->ledger.n + f->batch <= f->room) {
        return WH_OK;
    }
    const wh_status s = whi_bench_ledger_thin(&f->ledger, &f->p, 1.0, f->p.b->seed, &freed, NULL);
    *full = f->ledger.n + f->batch > f->room;
    return s;
}

static wh_status fill_batches(fill_state *f) {
    whi_bench *b = f->p.b;
    const double start = whi_bench_wall_seconds();
    uint32_t after = 0; /* batches since the first NULL */
    double floor = 0;
    int timed_out = 0;
    int full = 0;
    aim(f, f->batch, b->seed);
    WHI_BENCH_TRY(whi_bench_floor(&f->p, b->heaps_kernels.floor_log, f->batch, &floor));
    WHI_BENCH_TRY(whi_bench_load(&f->p, b->heaps_kernels.malloc_log));
    do {
        WHI_BENCH_TRY(one_batch(f));
        WHI_BENCH_TRY(make_room(f, &full));
        f->floor_us += floor;
        after += f->complete ? 1 : 0;
        timed_out = whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS);
    } while (!f->p.broken && !full && !timed_out && f->served != 0 &&
             after <= b->defaults->fill_log_last);
    if (timed_out && !f->complete) {
        (void)whi_bench_leave_out(b, part_of(f, "free"));
    }
    return WH_OK;
}

/* Its row has `utilization` if there was a NULL: else it ended for time, or because of blocks
 * beyond what the heap holds. last_served: blocks that the last batch still got. */
static wh_status fill(fill_state *f) {
    whi_bench *b = f->p.b;
    wh_bench_counts counts;
    WHI_BENCH_TRY(fill_batches(f));
    WHI_BENCH_TRY(
        whi_bench_ledger_verify(&f->ledger, &f->p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts));
    whi_bench_count(&f->p, &counts, 0);
    whi_bench_set_sample(&f->p.mallocs, f->us);
    aim(f, f->asked, b->seed);
    whi_bench_row row = whi_bench_row_of(&f->p, whi_bench_phase(b), "fill");
    row.us_null = f->floor_us;
    if (f->complete) {
        whi_bench_add_value(&row, "utilization", f->first_null, 3);
        whi_bench_add_value(&row, "utilization_end", (double)f->requested / (double)f->bytes, 3);
        whi_bench_add_value(&row, "last_served", (double)f->served, 0);
    }
    return whi_bench_emit(b, &row, &f->p.mallocs);
}

/* --- one half freed -------------------------------------------------------------------------- */

static wh_status free_half(fill_state *f) {
    whi_bench *b = f->p.b;
    wh_bench_counts counts;
    uint64_t freed = 0;
    memset(&f->p.mallocs, 0, sizeof f->p.mallocs);
    aim(f, 0, b->seed);
    WHI_BENCH_TRY(whi_bench_load(&f->p, b->kernels->free_all));
    WHI_BENCH_TRY(
        whi_bench_ledger_thin(&f->ledger, &f->p, 0.5, b->seed + 1, &freed, &f->p.mallocs));
    if (freed == 0) {
        return WH_OK;
    }
    aim(f, freed, b->seed);
    whi_bench_row row = whi_bench_row_of(&f->p, "warm", "free");
    WHI_BENCH_TRY(whi_bench_ledger_verify(&f->ledger, &f->p, WHI_BENCH_CONTENTS, &counts));
    whi_bench_count(&f->p, &counts, 0); /* the frees left the others alone */
    whi_bench_add_value(&row, "live", (double)f->ledger.n, 0);
    whi_bench_add_value(&row, "live_bytes", (double)counts.requested, 0);
    return whi_bench_emit(b, &row, &f->p.mallocs);
}

/* n mallocs beside what is live, looked at, and freed; the next repetition finds the same. */
static wh_status once(fill_state *f, uint64_t n, uint32_t number, int contents) {
    whi_bench *b = f->p.b;
    const uint64_t live = f->ledger.n;
    const int one_size = f->lo == f->hi;
    const wh_bench_launcher malloc_kernel =
        one_size ? b->kernels->malloc_single : b->heaps_kernels.malloc_log;
    wh_bench_counts counts;
    aim(f, n, b->seed + (uint64_t)number * n);
    WHI_BENCH_TRY(whi_bench_time(&f->p, malloc_kernel, n, &f->p.mallocs));
    WHI_BENCH_TRY(whi_bench_launch(
        &f->p, one_size ? b->ledger_kernels->record : b->heaps_kernels.record_log, n));
    f->ledger.n = live + n;
    const uint32_t what = contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES : WHI_BENCH_PLACES;
    WHI_BENCH_TRY(whi_bench_ledger_verify(&f->ledger, &f->p, what, &counts));
    whi_bench_count(&f->p, &counts, 1);
    f->ledger.n = live;
    f->ledger.patterned = f->ledger.patterned < live ? f->ledger.patterned : live;
    if (f->p.broken) {
        return WH_OK;
    }
    aim(f, n, b->seed);
    return whi_bench_launch(&f->p, b->kernels->free_all, n);
}

static wh_status half(fill_state *f, uint64_t n) {
    whi_bench *b = f->p.b;
    const double start = whi_bench_wall_seconds();
    const wh_bench_launcher floor =
        f->lo == f->hi ? b->kernels->floor_single : b->heaps_kernels.floor_log;
    uint64_t freed = 0;
    memset(&f->p.mallocs, 0, sizeof f->p.mallocs);
    /* NULLs of the fill are no entries of the ledger from here on */
    WHI_BENCH_TRY(whi_bench_ledger_thin(&f->ledger, &f->p, 1.0, b->seed, &freed, NULL));
    aim(f, n, b->seed);
    whi_bench_row row = whi_bench_row_of(&f->p, "warm", "half");
    WHI_BENCH_TRY(whi_bench_floor(&f->p, floor, n, &row.us_null));
    WHI_BENCH_TRY(whi_bench_load(&f->p, b->kernels->malloc_single));
    int done = 0;
    for (uint32_t i = 1; !done && !f->p.broken; i++) {
        done = i >= b->reps || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        WHI_BENCH_TRY(once(f, n, i, done || b->options->check == WH_BENCH_CHECK_EVERY));
    }
    whi_bench_add_value(&row, "us_first", f->p.mallocs.us[0], 1);
    return whi_bench_emit(b, &row, &f->p.mallocs);
}

/* --- the case -------------------------------------------------------------------------------- */

static wh_status fill_and_half(fill_state *f) {
    whi_bench *b = f->p.b;
    const uint64_t lo = f->lo;
    const uint64_t hi = f->hi;
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    WHI_BENCH_TRY(whi_bench_ledger_open(b, &f->ledger, f->room));
    WHI_BENCH_TRY(fill(f));
    if (!f->complete || f->p.broken || !whi_bench_can(b, WH_CAP_FREE)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(free_half(f));
    for (int one_size = 0; one_size < 2 && !f->p.broken; one_size++) {
        f->lo = one_size ? HALF_SIZE : lo;
        f->hi = one_size ? HALF_SIZE : hi;
        if (f->hi <= b->alloc->max_size && !whi_bench_leave_out(b, part_of(f, "half"))) {
            WHI_BENCH_TRY(half(f, f->batch));
        }
    }
    return WH_OK;
}

static wh_status run(whi_bench *b, uint64_t bytes, uint64_t batch, uint64_t hi) {
    fill_state f;
    memset(&f, 0, sizeof f);
    f.bytes = bytes;
    f.batch = batch;
    f.lo = whi_bench_least(hi);
    f.hi = hi;
    const uint64_t mean = whi_bench_log_mean(f.lo, hi);
    f.room = bytes / mean + bytes / mean / 2 + 3 * batch; /* what is left are small ones */
    whi_bench_progress(b, hi, batch);
    WHI_BENCH_TRY(whi_bench_begin(b, &f.p, bytes, (whi_bench_blocks){0, f.lo, hi}));
    const wh_status s = fill_and_half(&f);
    return whi_bench_ledger_end(&f.p, &f.ledger, s);
}

wh_status whi_bench_case_fill_log(whi_bench *b) {
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->fill_log_bytes);
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->server);
    const whi_bench_list batches = whi_bench_threads(b, &b->defaults->fill_log_batch);
    if (!whi_bench_can(b, WH_CAP_DISJOINT)) {
        return WH_OK; /* never full */
    }
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t hi = sizes.v[i];
        const whi_bench_part part = {.size_min = whi_bench_least(hi), .size = hi};
        if (hi > 16 && hi <= bytes && hi <= b->alloc->max_size && !whi_bench_leave_out(b, part)) {
            WHI_BENCH_TRY(run(b, bytes, batches.v[0], hi));
        }
    }
    return WH_OK;
}

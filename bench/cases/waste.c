/* waste.c: the case waste: what a block has beyond its request, over all sizes. */
#include <string.h>

#include "bench/driver/internal.h"

#define SMALLEST ((uint64_t)16)
#define UNIT 4294967296.0 /* of waste_sum: 2^-32 */

typedef struct waste_state {
    whi_bench_plan p;
    whi_bench_ledger ledger;
    uint64_t hi, step; /* the sizes SMALLEST, and every step on, up to hi */
    uint64_t sizes;    /* so many */
    uint64_t probed;   /* of them */
    wh_bench_counts sum;
    double us, floor_us;
} waste_state;

/* How many sizes from `lo` on fit in one launch: blocks of twice the request must. */
static uint64_t launch_of(const waste_state *w, uint64_t lo) {
    const uint64_t budget = (uint64_t)(WHI_BENCH_FILL / 2 * (double)w->p.b->heap_bytes);
    uint64_t n = 0;
    for (uint64_t bytes = 0; w->probed + n < w->sizes && bytes + lo + n * w->step <= budget; n++) {
        bytes += lo + n * w->step;
    }
    return n != 0 ? n : 1;
}

static void aim(waste_state *w, uint64_t n, uint64_t lo) {
    w->ledger.n = 0;
    w->ledger.patterned = 0;
    whi_bench_ledger_tail(&w->ledger, &w->p, (whi_bench_blocks){n, lo, lo + (n - 1) * w->step});
    w->p.call.step = w->step;
}

/* Frees the blocks, or resets the heap. */
static wh_status give_back(waste_state *w, uint64_t n, uint64_t lo) {
    whi_bench *b = w->p.b;
    aim(w, n, lo);
    if (whi_bench_can(b, WH_CAP_FREE)) {
        return whi_bench_launch(&w->p, b->kernels->free_all, n);
    }
    return whi_bench_fresh_heap(b);
}

/* Requests lo, lo + step, ... (n of them) in one launch, verified over all of their usable
 * bytes, and given back. */
static wh_status probe(waste_state *w, uint64_t lo, uint64_t n) {
    whi_bench *b = w->p.b;
    wh_bench_counts counts;
    double floor_us = 0;
    aim(w, n, lo);
    WHI_BENCH_TRY(whi_bench_floor(&w->p, b->kernels->floor_single, n, &floor_us));
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    w->p.mallocs.n = 0;
    WHI_BENCH_TRY(whi_bench_time(&w->p, b->ledger_kernels->probe, n, &w->p.mallocs));
    w->us += w->p.mallocs.us[0];
    w->floor_us += floor_us;
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    whi_bench_count(&w->p, &counts, 0); /* bad: a usable size below the request */
    w->ledger.n = n;
    WHI_BENCH_TRY(
        whi_bench_ledger_verify(&w->ledger, &w->p, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts));
    whi_bench_count(&w->p, &counts, 1);
    w->probed += n;
    return w->p.broken ? WH_OK : give_back(w, n, lo);
}

static wh_status report(waste_state *w) {
    whi_bench *b = w->p.b;
    wh_bench_ledger seen;
    const wh_status s = wh_device_copy_out(b->device, &seen, w->ledger.results, sizeof seen);
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "copy from the device");
    }
    whi_bench_row row = {.phase = "warm",
                         .op = "probe",
                         .size_min = SMALLEST,
                         .size = w->hi,
                         .threads = w->probed,
                         .ops = w->probed,
                         .us_null = w->floor_us};
    if (seen.measured != 0) {
        const double mean = (double)seen.waste_sum / UNIT / (double)seen.measured;
        whi_bench_add_value(&row, "waste_mean", mean, 4);
        whi_bench_add_value(&row, "waste_max", (double)(seen.waste_max >> 32) / UNIT, 4);
        whi_bench_add_value(&row, "waste_max_size", (double)(seen.waste_max & UINT32_MAX), 0);
    }
    whi_bench_set_sample(&w->p.mallocs, w->us);
    return whi_bench_emit(b, &row, &w->p.mallocs);
}

/* A mean over all sizes, or none if time is over. */
static wh_status all_sizes(waste_state *w) {
    whi_bench *b = w->p.b;
    WHI_BENCH_TRY(whi_bench_ledger_open(b, &w->ledger, w->sizes));
    const wh_status s = wh_device_set(b->device, w->ledger.results, 0, sizeof *w->ledger.results);
    WHI_BENCH_TRY(whi_bench_check(b, s, "results"));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    while (w->probed < w->sizes && !w->p.broken) {
        const uint64_t lo = SMALLEST + w->probed * w->step;
        const whi_bench_part part = {.size_min = lo, .size = w->hi};
        if (w->probed != 0 && whi_bench_leave_out(b, part)) {
            return WH_OK;
        }
        WHI_BENCH_TRY(probe(w, lo, launch_of(w, lo)));
    }
    return report(w);
}

static wh_status run(whi_bench *b, uint64_t hi) {
    const uint64_t most = b->defaults->waste_sizes;
    const uint64_t all = hi - SMALLEST + 1;
    waste_state w;
    memset(&w, 0, sizeof w);
    w.hi = hi;
    /* odd, so that a sample is not one of round sizes */
    w.step = most == 0 || all <= most ? 1 : (all / most) | 1;
    w.sizes = (hi - SMALLEST) / w.step + 1;
    whi_bench_progress(b, hi, all);
    WHI_BENCH_TRY(
        whi_bench_begin(b, &w.p, whi_bench_heap_bytes(b), (whi_bench_blocks){0, SMALLEST, hi}));
    const wh_status s = all_sizes(&w);
    whi_bench_close_heap(b);
    whi_bench_ledger_close(b, &w.ledger);
    return s;
}

wh_status whi_bench_case_waste(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->waste);
    if (!whi_bench_can(b, WH_CAP_USABLE_SIZE | WH_CAP_DISJOINT)) {
        return WH_OK;
    }
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t hi = sizes.v[i] < b->alloc->max_size ? sizes.v[i] : b->alloc->max_size;
        const whi_bench_part part = {.size_min = SMALLEST, .size = hi};
        if (hi >= SMALLEST && hi <= b->heap_bytes / 2 && !whi_bench_leave_out(b, part)) {
            WHI_BENCH_TRY(run(b, hi));
        }
    }
    return WH_OK;
}

/* cases.c: the benchmark's cases that have no file of their own (case_*.c), and the
 * table of all. docs/BENCHMARK.md says what each
 * measures. A case runs with the allocator that whi_bench names; it opens the heap it
 * needs and leaves it empty, or closes it. */
#include <string.h>

#include "bench/driver/internal.h"

static void clear(whi_bench_series *s) {
    memset(s, 0, sizeof *s);
}

/* --- rounds: malloc by all, check, free by all ---------------------------------------------- */

typedef struct round_kind {
    const char *case_name;
    wh_bench_launcher malloc_kernel, free_kernel, malloc_floor, free_floor;
    uint64_t threads; /* to start for each allocation */
} round_kind;

typedef struct round_state {
    const round_kind *kind;
    uint64_t n;
    int broken; /* a bad block was seen: the heap is not used again */
} round_state;

static wh_status check_round(whi_bench *b, round_state *r, int timed, int contents) {
    wh_bench_counts counts;
    const uint32_t what = contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES
                          : b->options->check == WH_BENCH_CHECK_ENDS ? 0
                                                                     : WHI_BENCH_PLACES;
    const wh_status s = whi_bench_verify(b, what, &counts);
    if (s == WH_OK) {
        b->malloc_series.failed += timed ? counts.failed : 0;
        b->malloc_series.bad += counts.bad; /* one in an untimed round counts, too */
        r->broken |= counts.bad != 0;
    }
    return s;
}

/* One malloc by all and one free by all. Contents are checked between the two. Places
 * alone are checked after the free, which leaves the pointers in their array; on a GPU a
 * wild pointer given to free could bring the run down, but the first round of a series
 * checks contents, hence places, beforehand. */
static wh_status round_once(whi_bench *b, round_state *r, int timed, int contents) {
    const uint64_t threads = r->n * r->kind->threads;
    const int check_first = contents || b->on_sim;
    wh_status s = timed ? whi_bench_time(b, r->kind->malloc_kernel, threads, &b->malloc_series)
                        : whi_bench_launch(b, r->kind->malloc_kernel, threads);
    if (s == WH_OK && check_first) {
        s = check_round(b, r, timed, contents);
    }
    if (s == WH_OK && whi_bench_can(b, WH_CAP_FREE) && !r->broken) {
        s = timed ? whi_bench_time(b, r->kind->free_kernel, threads, &b->free_series)
                  : whi_bench_launch(b, r->kind->free_kernel, threads);
    }
    if (s == WH_OK && !check_first) {
        s = check_round(b, r, timed, contents);
    }
    return s;
}

/* Repeats timed rounds, each on a reset heap if cold, and reports them. */
static wh_status rounds(whi_bench *b, round_state *r, int cold) {
    whi_bench_row row;
    memset(&row, 0, sizeof row);
    row.case_name = r->kind->case_name;
    row.phase = cold ? "cold" : "warm";
    row.size = b->call.hi;
    row.size_min = b->call.lo != b->call.hi ? b->call.lo : 0;
    row.threads = r->n;
    row.ops = r->n;
    clear(&b->malloc_series);
    clear(&b->free_series);
    double malloc_floor = 0;
    double free_floor = 0;
    wh_status s = whi_bench_floor(b, r->kind->malloc_floor, r->n * r->kind->threads, &malloc_floor);
    if (s == WH_OK) {
        s = whi_bench_floor(b, r->kind->free_floor, r->n * r->kind->threads, &free_floor);
    }
    if (s == WH_OK && whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    if (s == WH_OK && (!cold || !b->on_sim)) { /* cold: loads the kernels and checks */
        s = round_once(b, r, 0, 1);
    }
    const uint32_t reps = whi_bench_reps(b, cold);
    const double start = whi_bench_wall_seconds();
    int done = 0;
    for (uint32_t i = 0; s == WH_OK && !done && !r->broken; i++) {
        done = i + 1 >= reps || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        if (cold) {
            s = whi_bench_reset_heap(b);
        }
        if (s == WH_OK) {
            s = round_once(b, r, 1, done || b->options->check == WH_BENCH_CHECK_EVERY);
        }
    }
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

/* Cold and warm rounds of n blocks of lo..hi bytes. An allocator that cannot reset
 * has no cold rows, one that cannot free no warm ones; if it lacks what is asked
 * for, it gets the other kind. */
static wh_status run_rounds(whi_bench *b, const round_kind *kind, uint64_t n, uint64_t lo,
                            uint64_t hi, int warm_only) {
    const int can_cold = whi_bench_can(b, WH_CAP_RESET);
    const int can_warm = whi_bench_can(b, WH_CAP_FREE);
    round_state r = {kind, n, 0};
    const whi_bench_part part = {.size_min = lo != hi ? lo : 0, .size = hi, .threads = n};
    if (n == 0 || hi > b->alloc->max_size || whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    whi_bench_progress(b, kind->case_name, hi, n);
    wh_status s = whi_bench_open_heap(b, whi_bench_heap_bytes(b));
    if (s == WH_OK) {
        s = whi_bench_need_ptrs(b, n);
    }
    b->call.n = n;
    b->call.lo = lo;
    b->call.hi = hi;
    b->call.seed = b->seed;
    if (s == WH_OK && can_cold && (!warm_only || !can_warm)) {
        s = rounds(b, &r, 1);
    }
    if (s == WH_OK && can_warm && !r.broken) {
        s = rounds(b, &r, 0);
    }
    if (r.broken) {
        whi_bench_close_heap(b);
    }
    return s;
}

static wh_status case_single(whi_bench *b) {
    const round_kind kind = {"single",
                             b->kernels->malloc_single,
                             b->kernels->free_all,
                             b->kernels->floor_single,
                             b->kernels->floor_free,
                             1};
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->single);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            s = run_rounds(b, &kind, whi_bench_fitting(b, threads.v[k], sizes.v[i]), sizes.v[i],
                           sizes.v[i], 0);
        }
    }
    return s;
}

static wh_status case_mixed(whi_bench *b) {
    const round_kind kind = {"mixed",
                             b->kernels->malloc_mixed,
                             b->kernels->free_all,
                             b->kernels->floor_mixed,
                             b->kernels->floor_free,
                             1};
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->mixed);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t lo = sizes.v[i] < 16 ? 1 : 16;
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            s = run_rounds(b, &kind, whi_bench_fitting(b, threads.v[k], (lo + sizes.v[i] + 1) / 2),
                           lo, sizes.v[i], 0);
        }
    }
    return s;
}

static wh_status case_warp(whi_bench *b) {
    const round_kind kind = {"warp",
                             b->kernels->malloc_warp,
                             b->kernels->free_warp,
                             b->kernels->floor_warp,
                             b->kernels->floor_free_warp,
                             32};
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->warp);
    const whi_bench_list warps = whi_bench_threads(b, &b->defaults->warps);
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < warps.n && s == WH_OK; k++) {
            s = run_rounds(b, &kind, whi_bench_fitting(b, warps.v[k], sizes.v[i]), sizes.v[i],
                           sizes.v[i], 0);
        }
    }
    return s;
}

static wh_status case_scaling(whi_bench *b) {
    const round_kind kind = {"scaling",
                             b->kernels->malloc_single,
                             b->kernels->free_all,
                             b->kernels->floor_single,
                             b->kernels->floor_free,
                             1};
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->scaling);
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes.n; i++) {
        if (b->options->n_threads != 0) {
            for (size_t k = 0; k < b->options->n_threads && s == WH_OK; k++) {
                s = run_rounds(b, &kind, whi_bench_fitting(b, b->options->threads[k], sizes.v[i]),
                               sizes.v[i], sizes.v[i], 1);
            }
            continue;
        }
        /* a point that the heap cannot hold is left out, not cut: the row would repeat
         * another one's thread count */
        for (uint64_t n = 1; n <= b->defaults->scaling_max && s == WH_OK;
             n *= b->defaults->scaling_factor) {
            if (whi_bench_fitting(b, n, sizes.v[i]) == n) {
                s = run_rounds(b, &kind, n, sizes.v[i], sizes.v[i], 1);
            }
        }
    }
    return s;
}

static wh_status case_large(whi_bench *b) {
    const round_kind kind = {"large",
                             b->kernels->malloc_single,
                             b->kernels->free_all,
                             b->kernels->floor_single,
                             b->kernels->floor_free,
                             1};
    const uint64_t all = UINT64_MAX;
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->large);
    const whi_bench_list threads = whi_bench_threads(b, &all);
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            s = run_rounds(b, &kind, whi_bench_fitting(b, threads.v[k], sizes.v[i]), sizes.v[i],
                           sizes.v[i], 0);
        }
    }
    return s;
}

/* --- churn ------------------------------------------------------------------------------------ */

static wh_status case_churn(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->churn);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->churn_threads);
    const uint32_t reps = whi_bench_reps(b, whi_bench_can(b, WH_CAP_RESET));
    wh_status s = WH_OK;
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t lo = sizes.v[i] < 16 ? 1 : 16;
        /* what a thread holds at most, or without free the mallocs of about half its steps */
        const uint64_t held =
            whi_bench_can(b, WH_CAP_FREE) ? WH_BENCH_SLOTS : b->defaults->churn_steps / 2 + 2;
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            const uint64_t n =
                whi_bench_fitting(b, threads.v[k], held * ((lo + sizes.v[i] + 1) / 2));
            const whi_bench_part part = {.size_min = lo, .size = sizes.v[i], .threads = n};
            if (n != 0 && sizes.v[i] <= b->alloc->max_size && !whi_bench_leave_out(b, part)) {
                whi_bench_progress(b, "churn", sizes.v[i], n);
                s = whi_bench_churn(b, "churn", whi_bench_heap_bytes(b), reps, n, lo, sizes.v[i]);
            }
        }
    }
    return s;
}

/* --- init ---------------------------------------------------------------------------------------
 */

/* Creation in memory of the heap's own (allocation included) or of the caller's; the
 * host's clock, since creation is a host call. */
static wh_status time_create(whi_bench *b, uint64_t bytes, void *memory) {
    wh_heap_options options = whi_bench_heap_options(b, b->alloc, bytes);
    options.memory = memory;
    wh_status s = wh_device_sync(b->device);
    const double start = whi_bench_wall_seconds();
    if (s == WH_OK) {
        s = wh_heap_create(&b->heap, &options);
    }
    if (s == WH_OK) {
        s = wh_device_sync(b->device);
    }
    const double us = (whi_bench_wall_seconds() - start) * 1e6;
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "creating a heap for '%s'", b->alloc->name);
    }
    b->malloc_series.us[b->malloc_series.n++] = us;
    return WH_OK;
}

static wh_status time_reset(whi_bench *b) {
    wh_device_counters before, after;
    double us = 0;
    wh_status s = wh_device_get_counters(b->device, &before);
    if (s == WH_OK) {
        s = wh_device_timer_begin(b->device);
    }
    if (s == WH_OK) {
        s = wh_heap_reset_async(b->heap, NULL);
    }
    if (s == WH_OK) {
        s = wh_device_timer_end(b->device, &us);
    }
    if (s == WH_OK) {
        s = wh_device_get_counters(b->device, &after);
    }
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "reset of '%s'", b->alloc->name);
    }
    b->malloc_series.us[b->malloc_series.n++] = us;
    b->malloc_series.steps += after.steps - before.steps;
    b->malloc_series.atomics += after.atomics - before.atomics;
    return WH_OK;
}

static wh_status case_init(whi_bench *b) {
    const uint64_t bytes = whi_bench_heap_bytes(b);
    void *memory = NULL;
    whi_bench_row row;
    memset(&row, 0, sizeof row);
    row.case_name = "init";
    row.phase = "cold";
    row.size = bytes;
    row.ops = 1;
    whi_bench_progress(b, "init", bytes, 0);
    wh_status s = WH_OK;

    clear(&b->malloc_series);
    for (uint32_t i = 0; s == WH_OK && i < b->reps; i++) {
        whi_bench_close_heap(b);
        s = time_create(b, bytes, NULL);
    }
    whi_bench_close_heap(b);
    row.op = "create";
    if (s == WH_OK) {
        s = whi_bench_emit(b, &row, &b->malloc_series);
    }

    if (s == WH_OK && whi_bench_can(b, WH_CAP_OWN_MEMORY)) {
        s = wh_device_alloc(b->device, &memory, bytes);
        if (s != WH_OK) {
            s = whi_bench_fail(b, s, "memory for a heap of '%s'", b->alloc->name);
        }
        clear(&b->malloc_series);
        for (uint32_t i = 0; s == WH_OK && i < b->reps; i++) {
            whi_bench_close_heap(b);
            s = time_create(b, bytes, memory);
        }
        row.op = "create-in";
        if (s == WH_OK) {
            s = whi_bench_emit(b, &row, &b->malloc_series);
        }
    }

    if (s == WH_OK && whi_bench_can(b, WH_CAP_RESET)) {
        clear(&b->malloc_series);
        for (uint32_t i = 0; s == WH_OK && i < b->reps; i++) {
            s = time_reset(b);
        }
        row.op = "reset";
        row.phase = "warm";
        if (s == WH_OK) {
            s = whi_bench_emit(b, &row, &b->malloc_series);
        }
    }
    whi_bench_close_heap(b);
    (void)wh_device_free(b->device, memory);
    return s;
}

/* --- utilization
 * ---------------------------------------------------------------------------------- */

/* Batches of blocks of one size until a malloc has returned NULL; the series' one
 * sample is the sum over the batches. The figure exists only if the fill ended by a
 * NULL, not by time. */
static wh_status fill_up(whi_bench *b, uint64_t batch, uint64_t size) {
    const whi_bench_part part = {.size = size};
    const uint64_t room = b->heap_bytes / size / batch * batch + 2 * batch;
    wh_status s = whi_bench_need_ptrs(b, room);
    void **all = b->call.ptrs;
    whi_bench_row row;
    wh_bench_counts counts;
    memset(&row, 0, sizeof row);
    memset(&counts, 0, sizeof counts);
    b->call.lo = size;
    b->call.hi = size;
    b->call.seed = b->seed;
    b->call.n = batch;
    clear(&b->malloc_series);
    if (s == WH_OK) {
        s = whi_bench_floor(b, b->kernels->floor_single, batch, &row.us_null);
    }
    if (s == WH_OK && whi_bench_can(b, WH_CAP_RESET)) {
        s = whi_bench_reset_heap(b);
    }
    const double start = whi_bench_wall_seconds();
    double us = 0;
    uint64_t filled = 0;
    uint64_t batches = 0;
    int timed_out = 0;
    while (s == WH_OK && counts.failed == 0 && !timed_out && filled + batch <= room) {
        b->call.ptrs = all + filled;
        b->malloc_series.n = 0;
        s = whi_bench_time(b, b->kernels->malloc_single, batch, &b->malloc_series);
        if (s == WH_OK) {
            us += b->malloc_series.us[0];
            s = whi_bench_verify(b, 0, &counts);
        }
        filled += batch;
        batches++;
        timed_out = whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS);
    }
    const int complete = counts.failed != 0;
    if (timed_out && !complete) {
        (void)whi_bench_leave_out(b, part);
    }
    b->call.ptrs = all;
    b->call.n = filled;
    if (s == WH_OK) {
        s = whi_bench_verify(b, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts);
    }
    if (s != WH_OK) {
        return s;
    }
    b->malloc_series.us[0] = us;
    b->malloc_series.n = 1;
    b->malloc_series.failed = counts.failed;
    b->malloc_series.bad = counts.bad;
    row.case_name = "utilization";
    row.phase = whi_bench_can(b, WH_CAP_RESET) ? "cold" : "warm";
    row.op = "malloc";
    row.size = size;
    row.threads = filled;
    row.ops = filled;
    row.us_null *= (double)batches;
    row.value_name = complete ? "utilization" : NULL;
    row.value = (double)counts.requested / (double)b->heap_bytes;
    s = whi_bench_emit(b, &row, &b->malloc_series);
    if (s == WH_OK && counts.bad == 0 && whi_bench_can(b, WH_CAP_FREE)) {
        s = whi_bench_launch(b, b->kernels->free_all, filled);
    }
    return s;
}

static wh_status case_utilization(whi_bench *b) {
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->utilization_bytes);
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->utilization);
    const whi_bench_list batches = whi_bench_threads(b, &b->defaults->batch);
    wh_status s = WH_OK;
    if (!whi_bench_can(b, WH_CAP_DISJOINT)) {
        return WH_OK; /* it would never be full */
    }
    for (size_t i = 0; i < sizes.n && s == WH_OK; i++) {
        const whi_bench_part part = {.size = sizes.v[i]};
        if (sizes.v[i] > bytes || sizes.v[i] > b->alloc->max_size || whi_bench_leave_out(b, part)) {
            continue;
        }
        whi_bench_progress(b, "utilization", sizes.v[i], batches.v[0]);
        s = whi_bench_open_heap(b, bytes);
        if (s == WH_OK) {
            s = fill_up(b, batches.v[0], sizes.v[i]);
        }
    }
    whi_bench_close_heap(b);
    return s;
}

/* --- range
 * ------------------------------------------------------------------------------------------ */

static wh_status range_one(whi_bench *b, uint64_t n, uint64_t size) {
    wh_bench_counts counts;
    whi_bench_row row;
    memset(&row, 0, sizeof row);
    wh_status s = whi_bench_open_heap(b, whi_bench_heap_bytes(b));
    if (s == WH_OK) {
        s = whi_bench_need_ptrs(b, n);
    }
    b->call.n = n;
    b->call.lo = size;
    b->call.hi = size;
    b->call.seed = b->seed;
    clear(&b->malloc_series);
    if (s == WH_OK) {
        s = whi_bench_floor(b, b->kernels->floor_single, n, &row.us_null);
    }
    if (s == WH_OK) {
        s = whi_bench_reset_heap(b);
    }
    if (s == WH_OK) {
        s = whi_bench_time(b, b->kernels->malloc_single, n, &b->malloc_series);
    }
    if (s == WH_OK) {
        s = whi_bench_verify(b, WHI_BENCH_CONTENTS | WHI_BENCH_PLACES, &counts);
    }
    if (s != WH_OK) {
        return s;
    }
    b->malloc_series.failed = counts.failed;
    b->malloc_series.bad = counts.bad;
    row.case_name = "range";
    row.phase = "cold";
    row.op = "malloc";
    row.size = size;
    row.threads = n;
    row.ops = n;
    row.value_name = counts.served != 0 ? "range_ratio" : NULL;
    row.value =
        counts.served != 0 ? (double)(counts.high - counts.low) / (double)counts.requested : 0;
    if (counts.bad != 0) {
        whi_bench_close_heap(b);
    }
    return whi_bench_emit(b, &row, &b->malloc_series);
}

static wh_status case_range(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->single);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    wh_status s = WH_OK;
    if (!whi_bench_can(b, WH_CAP_RESET | WH_CAP_DISJOINT)) {
        return WH_OK; /* no cold round, or no memory to speak of */
    }
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < threads.n && s == WH_OK; k++) {
            const uint64_t n = whi_bench_fitting(b, threads.v[k], sizes.v[i]);
            const whi_bench_part part = {.size = sizes.v[i], .threads = n};
            if (n != 0 && sizes.v[i] <= b->alloc->max_size && !whi_bench_leave_out(b, part)) {
                whi_bench_progress(b, "range", sizes.v[i], n);
                s = range_one(b, n, sizes.v[i]);
            }
        }
    }
    return s;
}

/* --- dispatch
 * ---------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *text;
    wh_status (*run)(whi_bench *b);
} cases[] = {
#define case_graph whi_bench_case_graph
#define case_full whi_bench_case_full
#define case_pressure whi_bench_case_pressure
#define case_drift whi_bench_case_drift
#define case_streams whi_bench_case_streams
#define case_waste whi_bench_case_waste
#define case_walk whi_bench_case_walk
#define case_crossover whi_bench_case_crossover
#define case_scenarios whi_bench_case_scenarios
#define case_lists whi_bench_case_lists
#define case_fragments whi_bench_case_fragments
#define ENTRY(name, text) {#name, text, case_##name},
    WH_BENCH_CASE_LIST(ENTRY)};

#define N_CASES (sizeof cases / sizeof *cases)

const char *wh_bench_case_name(size_t index) {
    return index < N_CASES ? cases[index].name : NULL;
}

const char *wh_bench_case_text(size_t index) {
    return index < N_CASES ? cases[index].text : NULL;
}

int whi_bench_is_case(const char *name) {
    for (size_t i = 0; i < N_CASES; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

wh_status whi_bench_case(whi_bench *b, const char *name) {
    b->heap_bytes = whi_bench_heap_bytes(b); /* the cases cut their thread counts to it */
    b->n_floors = 0;
    b->begun = 0;
    b->left_out = (whi_bench_part){.size = 0};
    b->case_limits = WHI_BENCH_CASE_LIMITS;
    b->case_start = whi_bench_wall_seconds();
    wh_status s = WH_BAD_ARGUMENT;
    for (size_t i = 0; i < N_CASES; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            s = cases[i].run(b);
        }
    }
    if (b->left_out.size != 0) {
        const wh_status reported = whi_bench_emit_left_out(b, name);
        s = s == WH_OK ? reported : s;
    }
    return s;
}

/* repeat.c: the case repeat: one round of malloc and free after the other, with a reset of the heap
 * before each and without one: how times warm up and vary, and which addresses are in use. After
 * Winter (2021), section 5.6.3.1: ranges after one and after 100 rounds; McCoy and Pandey (PPoPP
 * 2024), sections 6.8 to 6.10: variance, warm heaps. docs/BENCHMARK.md has the protocol. */
#include <math.h>
#include <string.h>

#include "bench/driver/internal.h"

/* From the lowest address to the end of the highest block, over the bytes asked for. */
typedef struct ranges {
    double first, last, most;
} ranges;

static wh_status one_round(whi_bench_plan *p, ranges *r, int contents) {
    whi_bench *b = p->b;
    wh_bench_counts seen;
    const uint32_t what = contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES : WHI_BENCH_PLACES;
    WHI_BENCH_TRY(whi_bench_time(p, whi_bench_malloc_of(p), p->call.n, &p->mallocs));
    WHI_BENCH_TRY(whi_bench_verify(p, what, &seen));
    whi_bench_count(p, &seen, 1);
    if (seen.served != 0) {
        r->last = (double)(seen.high - seen.low) / (double)seen.requested;
        r->first = r->first > 0 ? r->first : r->last;
        r->most = r->last > r->most ? r->last : r->most;
    }
    const int can_free = whi_bench_can(b, WH_CAP_FREE) && !p->broken;
    return can_free ? whi_bench_time(p, b->kernels->free_all, p->call.n, &p->frees) : WH_OK;
}

/* Mean and standard deviation. */
static void add_spread(whi_bench_row *row, const whi_bench_series *s) {
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        sum += s->us[i];
    }
    const double mean = sum / s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        squares += (s->us[i] - mean) * (s->us[i] - mean);
    }
    whi_bench_add_value(row, "us_mean", mean, 2);
    whi_bench_add_value(row, "us_sd", s->n > 1 ? sqrt(squares / (s->n - 1)) : 0, 3);
}

static wh_status emit(whi_bench_plan *p, whi_bench_row *row, const whi_bench_series *s, int cold) {
    add_spread(row, s);
    if (!cold) {
        whi_bench_add_value(row, "us_first", s->us[0], 1);
        whi_bench_add_ends(row, s);
    }
    return whi_bench_emit(p->b, row, s);
}

/* The heap is fresh when the first round begins, so an allocator that can reset has that of its
 * first state in us_first. */
static wh_status rounds(whi_bench_plan *p, int cold, uint32_t n) {
    whi_bench *b = p->b;
    const char *phase = cold ? "cold" : "warm";
    const double start = whi_bench_wall_seconds();
    whi_bench_row mallocs = whi_bench_row_of(p, phase, "malloc");
    whi_bench_row frees = whi_bench_row_of(p, phase, "free");
    ranges r = {0, 0, 0};
    memset(&p->mallocs, 0, sizeof p->mallocs);
    memset(&p->frees, 0, sizeof p->frees);
    WHI_BENCH_TRY(whi_bench_floor(p, whi_bench_malloc_floor_of(p), p->call.n, &mallocs.us_null));
    WHI_BENCH_TRY(whi_bench_floor(p, b->kernels->floor_free, p->call.n, &frees.us_null));
    WHI_BENCH_TRY(whi_bench_load(p, whi_bench_malloc_of(p)));
    WHI_BENCH_TRY(whi_bench_load(p, b->kernels->free_all));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    int done = 0;
    for (uint32_t i = 0; !done && !p->broken; i++) {
        done = i + 1 >= n || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        if (cold && i > 0) {
            WHI_BENCH_TRY(whi_bench_reset_heap(b));
        }
        WHI_BENCH_TRY(one_round(p, &r, done || b->options->check == WH_BENCH_CHECK_EVERY));
    }
    if (!cold && r.first > 0 && whi_bench_can(b, WH_CAP_DISJOINT)) {
        whi_bench_add_value(&mallocs, "range_first", r.first, 3);
        whi_bench_add_value(&mallocs, "range_ratio", r.last, 3);
        whi_bench_add_value(&mallocs, "range_most", r.most, 3);
    }
    WHI_BENCH_TRY(emit(p, &mallocs, &p->mallocs, cold));
    return p->frees.n != 0 ? emit(p, &frees, &p->frees, cold) : WH_OK;
}

static wh_status run(whi_bench_plan *p) {
    whi_bench *b = p->b;
    const uint32_t n = b->options->rounds != 0 ? b->options->rounds : b->defaults->repeat_rounds;
    if (whi_bench_can(b, WH_CAP_RESET)) {
        WHI_BENCH_TRY(rounds(p, 1, (n + 1) / 2));
    }
    return whi_bench_can(b, WH_CAP_FREE) && !p->broken ? rounds(p, 0, n) : WH_OK;
}

wh_status whi_bench_case_repeat(whi_bench *b) {
    const whi_bench_defaults *d = b->defaults;
    const uint64_t threads[] = {d->repeat_threads, 0};
    WHI_BENCH_TRY(
        whi_bench_survey_run(b, &(whi_bench_survey){d->repeat_single, threads, 0, NULL, run}));
    return whi_bench_survey_run(b, &(whi_bench_survey){d->repeat_mixed, threads, 16, NULL, run});
}

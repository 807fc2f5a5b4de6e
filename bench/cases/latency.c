/* latency.c: the case latency: how long each single malloc and free takes, by the clock of the
 * thread's multiprocessor, or steps of the simulated device. docs/BENCHMARK.md has the protocol. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

#define BINS 65536u
/* Repetitions whose calls are kept. */
#define MOST_REPS 10u

/* Calls of one kind: what each took. */
typedef struct calls {
    uint32_t *ticks;
    uint64_t n, room;
} calls;

typedef struct latency_state {
    whi_bench_plan *p;
    calls mallocs, frees;
    uint32_t *bins; /* BINS of them */
    double null;    /* ticks of the floor: the median */
} latency_state;

/* --- quantiles ------------------------------------------------------------------------------- */

/* The first value whose bin, by bits `shift` on, has entry number *rank in it; *rank becomes the
 * number within the bin. Only values with the same upper bits as `above` are looked at, unless it
 * is NULL. */
static uint32_t bin_of(const calls *c, uint32_t *bins, const uint32_t *above, uint64_t *rank) {
    uint32_t bin = 0;
    memset(bins, 0, BINS * sizeof *bins);
    for (uint64_t i = 0; i < c->n; i++) {
        if (above == NULL) {
            bins[c->ticks[i] >> 16]++;
        } else if (c->ticks[i] >> 16 == *above) {
            bins[c->ticks[i] & 0xffff]++;
        }
    }
    while (bin + 1 < BINS && *rank >= bins[bin]) {
        *rank -= bins[bin++];
    }
    return bin;
}

/* The least value that a share of all do not exceed. */
static double quantile(const latency_state *s, const calls *c, double share) {
    const double place = ceil(share * (double)c->n);
    uint64_t rank = place > 1 ? (uint64_t)place - 1 : 0;
    rank = rank < c->n ? rank : c->n - 1;
    const uint32_t upper = bin_of(c, s->bins, NULL, &rank);
    return (double)(upper << 16 | bin_of(c, s->bins, &upper, &rank));
}

/* --- rounds ---------------------------------------------------------------------------------- */

/* Keeps what the last kernel measured. */
static wh_status keep(latency_state *s, calls *c) {
    const whi_bench_plan *p = s->p;
    const uint64_t n = p->call.n;
    if (c->n + n > c->room) {
        return WH_OK;
    }
    const wh_status status =
        wh_device_copy_out(p->b->device, c->ticks + c->n, p->call.sizes, n * sizeof *c->ticks);
    c->n += n;
    return status == WH_OK ? status : whi_bench_fail(p->b, status, "copy from the device");
}

static wh_status one_round(latency_state *s, int timed, int contents) {
    whi_bench_plan *p = s->p;
    whi_bench *b = p->b;
    const wh_bench_survey_kernels *k = b->survey_kernels;
    wh_bench_counts seen;
    const uint32_t what = contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES : WHI_BENCH_PLACES;
    WHI_BENCH_TRY(whi_bench_time(p, k->malloc_clocked, p->call.n, timed ? &p->mallocs : NULL));
    if (timed) {
        WHI_BENCH_TRY(keep(s, &s->mallocs));
    }
    WHI_BENCH_TRY(whi_bench_verify(p, what, &seen));
    whi_bench_count(p, &seen, timed);
    if (p->broken) {
        return WH_OK;
    }
    if (!whi_bench_can(b, WH_CAP_FREE)) {
        return whi_bench_renew(p);
    }
    WHI_BENCH_TRY(whi_bench_time(p, k->free_clocked, p->call.n, timed ? &p->frees : NULL));
    return timed ? keep(s, &s->frees) : WH_OK;
}

static wh_status rounds(latency_state *s) {
    whi_bench_plan *p = s->p;
    whi_bench *b = p->b;
    const int warm = whi_bench_can(b, WH_CAP_FREE);
    const uint32_t reps = whi_bench_reps(b, !warm);
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    if (warm || !b->on_sim) {
        WHI_BENCH_TRY(one_round(s, 0, 1));
    }
    const double start = whi_bench_wall_seconds();
    int done = 0;
    for (uint32_t i = 0; !done && !p->broken; i++) {
        done = i + 1 >= reps || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        WHI_BENCH_TRY(one_round(s, 1, done || b->options->check == WH_BENCH_CHECK_EVERY));
    }
    return WH_OK;
}

/* --- rows ------------------------------------------------------------------------------------ */

static void add_quantiles(const latency_state *s, whi_bench_row *row, const calls *c) {
    double sum = 0;
    if (c->n == 0) {
        return;
    }
    for (uint64_t i = 0; i < c->n; i++) {
        sum += c->ticks[i];
    }
    whi_bench_add_value(row, "ticks_p50", quantile(s, c, 0.5), 0);
    whi_bench_add_value(row, "ticks_p99", quantile(s, c, 0.99), 0);
    whi_bench_add_value(row, "ticks_p999", quantile(s, c, 0.999), 0);
    whi_bench_add_value(row, "ticks_max", quantile(s, c, 1), 0);
    whi_bench_add_value(row, "ticks_mean", sum / (double)c->n, 1);
    whi_bench_add_value(row, "ticks_null", s->null, 0);
}

/* What the clock says of a kernel that allocates nothing. It writes to the pointers. */
static wh_status measure_floor(latency_state *s) {
    const wh_bench_launcher floor = s->p->b->survey_kernels->floor_clocked;
    WHI_BENCH_TRY(whi_bench_launch(s->p, floor, s->p->call.n));
    WHI_BENCH_TRY(keep(s, &s->mallocs));
    s->null = quantile(s, &s->mallocs, 0.5);
    s->mallocs.n = 0;
    return WH_OK;
}

static wh_status measure(latency_state *s) {
    whi_bench_plan *p = s->p;
    whi_bench *b = p->b;
    const char *phase = whi_bench_can(b, WH_CAP_FREE) ? "warm" : "cold";
    whi_bench_row mallocs = whi_bench_row_of(p, phase, "malloc");
    whi_bench_row frees = whi_bench_row_of(p, phase, "free");
    WHI_BENCH_TRY(
        whi_bench_floor(p, b->survey_kernels->floor_clocked, p->call.n, &mallocs.us_null));
    WHI_BENCH_TRY(whi_bench_floor(p, b->kernels->floor_free, p->call.n, &frees.us_null));
    WHI_BENCH_TRY(measure_floor(s));
    WHI_BENCH_TRY(rounds(s));
    add_quantiles(s, &mallocs, &s->mallocs);
    add_quantiles(s, &frees, &s->frees);
    WHI_BENCH_TRY(whi_bench_emit(b, &mallocs, &p->mallocs));
    return p->frees.n != 0 ? whi_bench_emit(b, &frees, &p->frees) : WH_OK;
}

static wh_status run(whi_bench_plan *p) {
    whi_bench *b = p->b;
    void *ticks = NULL;
    latency_state s;
    memset(&s, 0, sizeof s);
    s.p = p;
    s.mallocs.room = s.frees.room = p->call.n * (b->reps < MOST_REPS ? b->reps : MOST_REPS);
    s.mallocs.ticks = malloc(s.mallocs.room * sizeof *s.mallocs.ticks);
    s.frees.ticks = malloc(s.frees.room * sizeof *s.frees.ticks);
    s.bins = malloc(BINS * sizeof *s.bins);
    const int have = s.mallocs.ticks != NULL && s.frees.ticks != NULL && s.bins != NULL;
    wh_status status = have ? WH_OK : WH_OUT_OF_MEMORY;
    status = have ? wh_device_alloc(b->device, &ticks, p->call.n * sizeof(uint32_t)) : status;
    if (status == WH_OK) {
        p->call.sizes = (uint32_t *)ticks;
        status = measure(&s);
    } else {
        status = whi_bench_fail(b, status, "memory for the times of calls");
    }
    (void)wh_device_free(b->device, ticks);
    free(s.bins);
    free(s.frees.ticks);
    free(s.mallocs.ticks);
    return status;
}

wh_status whi_bench_case_latency(whi_bench *b) {
    const whi_bench_defaults *d = b->defaults;
    const uint64_t threads[] = {d->latency_threads, 0};
    WHI_BENCH_TRY(
        whi_bench_survey_run(b, &(whi_bench_survey){d->latency_single, threads, 0, NULL, run}));
    return whi_bench_survey_run(b, &(whi_bench_survey){d->latency_mixed, threads, 16, NULL, run});
}

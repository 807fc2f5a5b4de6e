/* rounds.c: the cases of rounds: malloc by all threads, check, free by all. Each is a row of the
 * table `kinds`: which kernels, which sizes, how many threads. */
#include <stddef.h>
#include <string.h>

#include "bench/driver/internal.h"

/* Which series there are. */
typedef enum series { COLD_AND_WARM, WARM, CREATED } series;

/* The kernels of a round. */
typedef enum shape { SINGLE, MIXED, WARP } shape;

typedef struct round_kind {
    const char *name; /* of the case */
    shape shape;
    series series;  /* WARM: no cold rows of what has warm ones; CREATED: each in a new heap */
    size_t sizes;   /* where whi_bench_defaults has them: a list that 0 ends */
    size_t heap;    /* likewise, a number */
    size_t threads; /* likewise; ALL: as many as the heap holds; POWERS */
} round_kind;

#define FIELD(name) offsetof(whi_bench_defaults, name)
#define ALL SIZE_MAX
#define POWERS (SIZE_MAX - 1) /* 1, and times scaling_factor up to scaling_max */
#define MOST_POWERS 64u

static const round_kind kinds[] = {
    {"single", SINGLE, COLD_AND_WARM, FIELD(single), FIELD(heap_bytes), FIELD(threads)},
    {"mixed", MIXED, COLD_AND_WARM, FIELD(mixed), FIELD(heap_bytes), FIELD(threads)},
    {"warp", WARP, COLD_AND_WARM, FIELD(warp), FIELD(heap_bytes), FIELD(warps)},
    {"scaling", SINGLE, WARM, FIELD(scaling), FIELD(heap_bytes), POWERS},
    {"large", SINGLE, COLD_AND_WARM, FIELD(large), FIELD(heap_bytes), ALL},
    {"first", SINGLE, CREATED, FIELD(first), FIELD(full_bytes), FIELD(batch)},
};

/* Of one allocator. */
typedef struct round_kernels {
    wh_bench_launcher malloc_all, free_all, malloc_floor, free_floor;
    uint64_t threads; /* to start for each allocation */
} round_kernels;

static round_kernels kernels_of(const wh_bench_kernels *k, shape of) {
    round_kernels r = {k->malloc_single, k->free_all, k->floor_single, k->floor_free, 1};
    if (of == MIXED) {
        r.malloc_all = k->malloc_mixed;
        r.malloc_floor = k->floor_mixed;
    } else if (of == WARP) {
        r = (round_kernels){k->malloc_warp, k->free_warp, k->floor_warp, k->floor_free_warp,
                            WHI_BENCH_WARP};
    }
    return r;
}

/* --- one series ------------------------------------------------------------------------------ */

/* What is looked at in a round in which contents are not. */
static uint32_t places(const whi_bench *b) {
    return b->options->check == WH_BENCH_CHECK_ENDS ? 0 : WHI_BENCH_PLACES;
}

static wh_status check_round(whi_bench_plan *p, int timed, int contents) {
    wh_bench_counts counts;
    WHI_BENCH_TRY(whi_bench_verify(
        p, contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES : places(p->b), &counts));
    whi_bench_count(p, &counts, timed);
    return WH_OK;
}

/* One malloc by all and one free by all. Contents are checked between the two. Places
 * alone are checked after the free, which leaves the pointers in their array; on a GPU a
 * wild pointer given to free could bring the run down, but the first round of a series
 * checks contents, hence places, beforehand. */
static wh_status round_once(whi_bench_plan *p, const round_kernels *k, int timed, int contents) {
    const uint64_t threads = p->call.n * k->threads;
    const int check_first = contents || p->b->on_sim;
    WHI_BENCH_TRY(whi_bench_time(p, k->malloc_all, threads, timed ? &p->mallocs : NULL));
    if (check_first) {
        WHI_BENCH_TRY(check_round(p, timed, contents));
    }
    if (whi_bench_can(p->b, WH_CAP_FREE) && !p->broken) {
        WHI_BENCH_TRY(whi_bench_time(p, k->free_all, threads, timed ? &p->frees : NULL));
    }
    return check_first ? WH_OK : check_round(p, timed, contents);
}

static wh_status repeat(whi_bench_plan *p, const round_kernels *k, int cold, int created) {
    whi_bench *b = p->b;
    const uint32_t reps = whi_bench_reps(b, cold);
    const double start = whi_bench_wall_seconds();
    int done = 0;
    for (uint32_t i = 0; !done && !p->broken; i++) {
        done = i + 1 >= reps || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        if (cold) {
            WHI_BENCH_TRY(created ? whi_bench_new_heap(p) : whi_bench_reset_heap(b));
        }
        const int contents = done || b->options->check == WH_BENCH_CHECK_EVERY;
        WHI_BENCH_TRY(round_once(p, k, 1, contents));
    }
    return WH_OK;
}

/* Repeats timed rounds, each on a reset or a new heap if cold, and reports them. */
static wh_status rounds(whi_bench_plan *p, const round_kernels *k, int cold, int created) {
    whi_bench *b = p->b;
    const uint64_t threads = p->call.n * k->threads;
    const char *phase = cold ? "cold" : "warm";
    whi_bench_row mallocs = whi_bench_row_of(p, phase, "malloc");
    whi_bench_row frees = whi_bench_row_of(p, phase, "free");
    memset(&p->mallocs, 0, sizeof p->mallocs);
    memset(&p->frees, 0, sizeof p->frees);
    WHI_BENCH_TRY(whi_bench_floor(p, k->malloc_floor, threads, &mallocs.us_null));
    WHI_BENCH_TRY(whi_bench_floor(p, k->free_floor, threads, &frees.us_null));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    if (!cold || !b->on_sim) { /* cold: loads the kernels and checks */
        WHI_BENCH_TRY(round_once(p, k, 0, 1));
    }
    WHI_BENCH_TRY(repeat(p, k, cold, created));
    WHI_BENCH_TRY(whi_bench_emit(b, &mallocs, &p->mallocs));
    return p->frees.n != 0 ? whi_bench_emit(b, &frees, &p->frees) : WH_OK;
}

/* Cold and warm rounds. An allocator that cannot reset has no cold rows, one that cannot free no
 * warm ones; if it lacks what is asked for, it gets the other kind. */
static wh_status run(whi_bench *b, const round_kind *kind, whi_bench_blocks blocks) {
    const round_kernels k = kernels_of(b->kernels, kind->shape);
    const int created = kind->series == CREATED;
    const int can_cold = whi_bench_can(b, created ? WH_CAP_OWN_MEMORY : WH_CAP_RESET);
    const int can_warm = whi_bench_can(b, WH_CAP_FREE) && !created;
    whi_bench_plan p;
    WHI_BENCH_TRY(whi_bench_begin(b, &p, b->heap_bytes, blocks));
    if (can_cold && (kind->series != WARM || !can_warm)) {
        WHI_BENCH_TRY(rounds(&p, &k, 1, created));
    }
    if (can_warm && !p.broken) {
        WHI_BENCH_TRY(rounds(&p, &k, 0, 0));
    }
    if (p.broken) {
        whi_bench_close_heap(b);
    }
    return WH_OK;
}

/* --- the case -------------------------------------------------------------------------------- */

static const round_kind *kind_named(const char *name) {
    const round_kind *kind = kinds;
    while (strcmp(kind->name, name) != 0) {
        kind++;
    }
    return kind;
}

static const void *field_of(const whi_bench *b, size_t offset) {
    return (const char *)b->defaults + offset;
}

/* The user's thread counts, or the case's own, for which `own` has room. */
static whi_bench_list threads_of(const whi_bench *b, const round_kind *kind, uint64_t *own) {
    whi_bench_list l = {own, 0};
    if (b->options->n_threads != 0) {
        return whi_bench_threads(b, own);
    }
    if (kind->threads == POWERS) {
        for (uint64_t n = 1; n <= b->defaults->scaling_max; n *= b->defaults->scaling_factor) {
            own[l.n++] = n;
        }
    } else {
        own[l.n++] =
            kind->threads == ALL ? UINT64_MAX : *(const uint64_t *)field_of(b, kind->threads);
    }
    return l;
}

/* As many of n blocks as the heap holds. A point of scaling that it cannot hold is left out, not
 * cut: the row would repeat another one's thread count. */
static uint64_t fitting(const whi_bench *b, const round_kind *kind, uint64_t n, uint64_t mean) {
    const uint64_t most = whi_bench_fitting(b, n, mean);
    const int whole = kind->threads == POWERS && b->options->n_threads == 0;
    return whole && most < n ? 0 : most;
}

wh_status whi_bench_case_rounds(whi_bench *b) {
    const round_kind *kind = kind_named(b->turn.name);
    uint64_t own[MOST_POWERS];
    const whi_bench_list sizes =
        whi_bench_sizes(b, *(const uint64_t *const *)field_of(b, kind->sizes));
    const whi_bench_list threads = threads_of(b, kind, own);
    b->heap_bytes = whi_bench_case_heap(b, *(const uint64_t *)field_of(b, kind->heap));
    for (size_t i = 0; i < sizes.n; i++) {
        const uint64_t hi = sizes.v[i];
        const uint64_t lo = kind->shape == MIXED ? whi_bench_least(hi) : hi;
        for (size_t k = 0; k < threads.n; k++) {
            const uint64_t n = fitting(b, kind, threads.v[k], (lo + hi + 1) / 2);
            const whi_bench_part part = {.size_min = lo != hi ? lo : 0, .size = hi, .threads = n};
            if (n == 0 || hi > b->alloc->max_size || whi_bench_leave_out(b, part)) {
                continue;
            }
            whi_bench_progress(b, hi, n);
            WHI_BENCH_TRY(run(b, kind, (whi_bench_blocks){n, lo, hi}));
        }
    }
    return WH_OK;
}

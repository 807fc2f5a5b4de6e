/* walk.c: the experiments of Pham et al. (TOPC 2025, section 5.2) on random walks:
 *   walk       getPage and freePage: time, steps per thread (TAS) and per warp (WAS) beside
 *              what equations 1 to 6, 11 and 14 expect (5.2.1)
 *   crossover  getPage by 1 to 32 lanes of a warp (5.2.2)
 * docs/papers/random_walk.md describes rows and departures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/walk_pages.h"
#include "bench/cases/walk_theory.h"

/* One series: `lanes` lanes of each of `warps` warps, with that share of the pages free. */
typedef struct want {
    double share;
    uint64_t warps;
    uint32_t lanes;
} want;

typedef struct steps {
    double tas, was;
    double drained;  /* TAS with words drained as the algorithm does */
    double bound;    /* corw: with the pages that are left at the end */
    double equation; /* corw: the same by equation 11 */
} steps;

typedef struct walks {
    whi_pages pages;
    whi_bench_plan p;
    void *d_steps, *d_last;
    uint32_t *steps; /* on the host */
    uint64_t room;   /* of the three */
    steps seen;      /* sums over the repetitions */
    double clusters; /* crw: M of equation 14 */
} walks;

/* CRW needs a last page: a first round, whose pages stay taken. */
static int takes_twice(const whi_bench *b) {
    return whi_pages_is(b, "crw");
}

static void free_arrays(walks *w) {
    (void)wh_device_free(w->pages.b->device, w->d_steps);
    (void)wh_device_free(w->pages.b->device, w->d_last);
    free(w->steps);
    w->d_steps = w->d_last = NULL;
    w->steps = NULL;
    w->room = 0;
}

static wh_status need(walks *w, uint64_t n) {
    whi_bench *b = w->pages.b;
    if (n > w->room) {
        free_arrays(w);
        w->steps = malloc(n * sizeof *w->steps);
        wh_status s =
            w->steps != NULL ? wh_device_alloc(b->device, &w->d_steps, n * 4) : WH_OUT_OF_MEMORY;
        if (s == WH_OK) {
            s = wh_device_alloc(b->device, &w->d_last, n * 4);
        }
        WHI_BENCH_TRY(whi_bench_check(b, s, "arrays for a walk"));
        w->room = n;
    }
    w->pages.call.steps = w->d_steps;
    w->pages.call.last = takes_twice(b) ? w->d_last : NULL; /* nobody else's walk has use for it */
    return WH_OK;
}

/* --- steps ----------------------------------------------------------------------------------- */

/* Adds the steps of one get, of which each lane's begin at `before`. */
static void add_steps(const walks *w, const want *x, uint64_t before, steps *sum) {
    double tas = 0, was = 0;
    for (uint64_t i = 0; i < x->warps; i++) {
        double most = 0;
        for (uint32_t k = 0; k < x->lanes; k++) {
            const double one = (double)w->steps[i * x->lanes + k] - (double)before;
            tas += one;
            most = one > most ? one : most;
        }
        was += most;
    }
    sum->tas += tas / (double)(x->warps * x->lanes);
    sum->was += was / (double)x->warps;
}

/* One timed get, a sample of the series. */
static wh_status get(walks *w, const want *x, uint64_t before, whi_bench_series *series,
                     steps *sum) {
    whi_bench *b = w->pages.b;
    const uint64_t n = x->warps * x->lanes;
    const wh_launch l = whi_bench_shape(b, x->warps * WH_WARP_SIZE);
    whi_bench_watch watch;
    wh_paper_counts counts;
    double us = 0;
    w->pages.call.warps = x->warps;
    w->pages.call.lanes = x->lanes;
    WHI_BENCH_TRY(whi_pages_clear_counts(&w->pages));
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, w->pages.kernels->get(&l, &w->pages.call), "getPage"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    WHI_BENCH_TRY(whi_pages_get_counts(&w->pages, &counts));
    WHI_BENCH_TRY(
        whi_bench_check(b, wh_device_copy_out(b->device, w->steps, w->d_steps, n * 4), "steps"));
    whi_bench_add_sample(series, us);
    series->failed += counts.failed;
    add_steps(w, x, before, sum);
    return WH_OK;
}

/* Looks at the n pages that `get` handed out last: each must be a page of the heap, none
 * used before (by occupy, or by an earlier get of this repetition) and none twice. */
static wh_status claim(walks *w, uint64_t n) {
    whi_bench *b = w->pages.b;
    wh_paper_counts counts;
    const wh_launch l = {b->device, b->on_sim ? 4 : 1024, 256, NULL};
    w->pages.call.n = n;
    WHI_BENCH_TRY(whi_pages_clear_counts(&w->pages));
    WHI_BENCH_TRY(whi_bench_check(b, w->pages.kernels->claim(&l, &w->pages.call), "data check"));
    WHI_BENCH_TRY(whi_pages_get_counts(&w->pages, &counts));
    const wh_bench_counts seen = {.bad = counts.bad};
    whi_bench_count(&w->p, &seen, 0);
    return WH_OK;
}

/* Clusters of free pages now. */
static wh_status count_clusters(walks *w) {
    whi_bench *b = w->pages.b;
    wh_random_walk_ref h;
    memcpy(&h, &b->handle, sizeof h);
    uint64_t *words = malloc(h.n_words * sizeof *words);
    const wh_status s =
        words != NULL ? wh_device_copy_out(b->device, words, h.words, h.n_words * sizeof *words)
                      : WH_OUT_OF_MEMORY;
    w->clusters = 0;
    for (uint64_t p = 0, before = 1; s == WH_OK && p < w->pages.n; p++) {
        const uint64_t used = words[p / 32] >> p % 32 & 1;
        w->clusters += before && !used;
        before = used;
    }
    free(words);
    return whi_bench_check(b, s, "words");
}

/* What the paper expects of n lanes that take pages of `a` free ones: NaN where it says nothing. */
static steps expect(const walks *w, double a, double n, uint32_t lanes) {
    const whi_bench *b = w->pages.b;
    const double t = (double)w->pages.n;
    const uint32_t bits = whi_pages_is(b, "rw") ? 1 : WH_USE_BITS;
    steps e = {NAN, NAN, NAN, NAN, NAN};
    if (whi_pages_is(b, "corw")) {
        e.tas = e.was = wh_theory_corw_mean(t, a, n, bits, lanes);
        e.bound = wh_theory_corw_steps((a - n) / t, bits, lanes, lanes);
        e.equation = lanes == WH_WARP_SIZE ? wh_theory_corw((a - n) / t, bits) : NAN;
    } else if (lanes != WH_WARP_SIZE) {
        return e;
    } else if (w->pages.kernels->queue) {
        e.tas = wh_theory_queue_tas(n);
        e.was = wh_theory_queue_was(n);
    } else if (!whi_pages_is(b, "rw-malloc")) {
        e.tas = wh_theory_walk_tas(t, a, n, bits);
        e.drained = whi_pages_is(b, "rw-bm") ? wh_theory_words_tas(t, a, n, bits) : NAN;
        e.was = wh_theory_walk_was(t, a, n, bits);
        if (takes_twice(b)) {
            e.tas = wh_theory_crw(a, w->clusters, e.tas);
        }
    }
    return e;
}

/* --- a series -------------------------------------------------------------------------------- */

/* The first round of CRW, which is not measured. */
static wh_status take_first(walks *w, const want *x, int count) {
    whi_bench_series unused;
    steps skipped;
    memset(&unused, 0, sizeof unused);
    memset(&skipped, 0, sizeof skipped);
    WHI_BENCH_TRY(get(w, x, 0, &unused, &skipped));
    WHI_BENCH_TRY(claim(w, x->warps * x->lanes));
    return count ? count_clusters(w) : WH_OK;
}

/* One getPage and freePage with `a` pages free. Pages are looked at before the free, on a GPU
 * after the timed one, which leaves the pointers where they are and so finds the caches as getPage
 * left them. */
static wh_status get_and_free(walks *w, const want *x, uint64_t a, uint32_t rep, uint32_t warm_up) {
    whi_bench *b = w->pages.b;
    const uint64_t n = x->warps * x->lanes;
    const uint64_t before = w->pages.kernels->queue ? w->pages.n - a : 0;
    const int twice = takes_twice(b);
    const int check_first = b->on_sim || rep < warm_up;
    WHI_BENCH_TRY(whi_pages_occupy(&w->pages, a + (twice ? n : 0), b->seed + rep));
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_set(b->device, w->d_last, 0xff, n * 4), "hints"));
    if (twice) {
        WHI_BENCH_TRY(take_first(w, x, rep == warm_up));
    }
    WHI_BENCH_TRY(get(w, x, before, &w->p.mallocs, &w->seen));
    if (check_first) {
        WHI_BENCH_TRY(claim(w, n));
    }
    if (!w->p.broken) {
        WHI_BENCH_TRY(whi_bench_time(&w->p, b->kernels->free_all, n, &w->p.frees));
    }
    return check_first ? WH_OK : claim(w, n);
}

static wh_status repeat(walks *w, const want *x, uint64_t a) {
    whi_bench *b = w->pages.b;
    const uint32_t warm_up = b->on_sim ? 0 : 1;
    for (uint32_t rep = 0; !w->p.broken && rep < b->reps + warm_up; rep++) {
        if (rep == warm_up) {
            const uint64_t bad = w->p.mallocs.bad;
            memset(&w->p.mallocs, 0, sizeof w->p.mallocs);
            memset(&w->p.frees, 0, sizeof w->p.frees);
            memset(&w->seen, 0, sizeof w->seen);
            w->p.mallocs.bad = bad;
        }
        WHI_BENCH_TRY(get_and_free(w, x, a, rep, warm_up));
    }
    return WH_OK;
}

static wh_status report(walks *w, const want *x, uint64_t a) {
    whi_bench *b = w->pages.b;
    const uint64_t n = x->warps * x->lanes;
    const steps e = expect(w, (double)a, (double)n, x->lanes);
    whi_bench_row gets = whi_bench_row_of(&w->p, "cold", "getpage");
    whi_bench_add_value(&gets, "free_share", x->share, 3);
    whi_bench_row frees = gets;
    frees.op = "freepage";
    WHI_BENCH_TRY(whi_bench_floor(&w->p, b->kernels->floor_single, n, &gets.us_null));
    whi_bench_add_value(&gets, "tas", w->seen.tas / w->p.mallocs.n, 3);
    whi_bench_add_value(&gets, "was", w->seen.was / w->p.mallocs.n, 3);
    whi_bench_add_value(&gets, "tas_expected", e.tas, 3);
    whi_bench_add_value(&gets, "was_expected", e.was, 3);
    whi_bench_add_value(&gets, "tas_drained", e.drained, 3);
    whi_bench_add_value(&gets, "tas_bound", e.bound, 3);
    whi_bench_add_value(&gets, "equation_11", e.equation, 3);
    WHI_BENCH_TRY(whi_bench_emit(b, &gets, &w->p.mallocs));
    if (w->p.frees.n == 0) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_floor(&w->p, b->kernels->floor_free, n, &frees.us_null));
    return whi_bench_emit(b, &frees, &w->p.frees);
}

static wh_status series_of(walks *w, const want *x) {
    whi_bench *b = w->pages.b;
    const uint64_t n = x->warps * x->lanes;
    const uint64_t a = (uint64_t)(x->share * (double)w->pages.n);
    const whi_bench_part part = {
        .size = w->pages.page, .threads = n, .value = {"free_share", x->share, 3}};
    if (a < n || a + (takes_twice(b) ? n : 0) > w->pages.n || whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    whi_bench_progress(b, w->pages.page, n);
    WHI_BENCH_TRY(need(w, n));
    WHI_BENCH_TRY(whi_bench_begin(b, &w->p, b->heap_bytes,
                                  (whi_bench_blocks){n, w->pages.page, w->pages.page}));
    w->pages.call.ptrs = w->p.call.ptrs;
    memset(&w->seen, 0, sizeof w->seen);
    WHI_BENCH_TRY(repeat(w, x, a));
    return report(w, x, a);
}

/* --- the cases ------------------------------------------------------------------------------- */

/* Thread counts of `walk`: the user's, or these. */
static whi_bench_list threads_of(const whi_bench *b) {
    static const uint64_t gpu[] = {1024, 16384, 131072, 1 << 20};
    static const uint64_t sim[] = {256, 2048};
    if (b->options->n_threads != 0) {
        return (whi_bench_list){b->options->threads, b->options->n_threads};
    }
    return b->on_sim ? (whi_bench_list){sim, 2} : (whi_bench_list){gpu, 4};
}

static wh_status all_walks(walks *w) {
    static const double shares[] = {0.5, 0.1, 0.01, 0.005};
    const whi_bench_list threads = threads_of(w->pages.b);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < threads.n && !w->p.broken; k++) {
            const want x = {shares[i], (threads.v[k] + 31) / 32, WH_WARP_SIZE};
            WHI_BENCH_TRY(series_of(w, &x));
        }
    }
    return WH_OK;
}

static wh_status all_crossovers(walks *w) {
    static const double shares[] = {0.05, 0.01, 0.008, 0.005};
    static const uint32_t lanes[] = {1, 4, 8, 12, 16, 20, 24, 25, 28, 32};
    const int on_sim = w->pages.b->on_sim;
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < sizeof lanes / sizeof *lanes && !w->p.broken; k++) {
            const want x = {shares[i], on_sim ? 16 : 1024, lanes[k]};
            if (!on_sim || lanes[k] % 8 == 0 || lanes[k] == 1) {
                WHI_BENCH_TRY(series_of(w, &x));
            }
        }
    }
    return WH_OK;
}

static wh_status run(whi_bench *b, wh_status (*all)(walks *w)) {
    walks w;
    memset(&w, 0, sizeof w);
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    wh_status s = whi_pages_begin(b, &w.pages, b->defaults->heap_bytes);
    if (s == WH_OK && w.pages.kernels != NULL) {
        s = all(&w);
    }
    free_arrays(&w);
    whi_pages_end(&w.pages);
    return s;
}

wh_status whi_bench_case_walk(whi_bench *b) {
    return run(b, all_walks);
}

wh_status whi_bench_case_crossover(whi_bench *b) {
    return whi_pages_is(b, "corw") || whi_pages_is(b, "crw") ? run(b, all_crossovers) : WH_OK;
}

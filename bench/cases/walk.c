/* case_walk.c: the experiments of Pham et al. (TOPC 2025, section 5.2) on random walks:
 *   walk       getPage and freePage: time, steps per thread (TAS) and per warp (WAS) beside
 *              what equations 1 to 6, 11 and 14 expect (5.2.1)
 *   crossover  getPage by 1 to 32 lanes of a warp (5.2.2)
 *   scenarios  the seven of RW_malloc (5.2.3)
 * docs/papers/random_walk.md describes rows and departures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"
#include "bench/kernels/paper_kernels.h"
#include "bench/cases/walk_theory.h"
#include "warpheap/detail/alloc/random_walk/layout.h"
#include "warpheap/detail/alloc/rwmalloc/rwmalloc.h"

/* Pages that are made used, one bit a page. */
typedef struct chosen {
    uint32_t *words; /* NULL: none yet */
    uint64_t available, seed;
} chosen;

#define KEPT 16u /* of these, by their seeds: as many as the repetitions have, or a few */

typedef struct walks {
    whi_bench *b;
    const wh_paper_kernels *kernels;
    wh_paper_call call;
    uint64_t pages;    /* T */
    chosen kept[KEPT]; /* on the host */
    uint32_t *steps;   /* likewise */
    void *d_occupied, *d_steps, *d_last, *d_counts;
    uint64_t room; /* of steps and last */
    /* scenarios of allocators that do not walk: blocks that make pages used */
    void **d_blocks;
    uint64_t blocks_room;
    double filled;         /* the share that is free; 0: none yet */
    uint64_t served, held; /* blocks that filled the heap; entries not freed since */
    int broken;            /* a bad block was seen: the heap is not used again */
} walks;

static whi_bench_part scenario_part(const char *op, double share, uint64_t n, uint64_t lo,
                                    uint64_t hi) {
    return (whi_bench_part){.op = op,
                            .size_min = lo != hi ? lo : 0,
                            .size = hi,
                            .threads = n,
                            .value = {"free_share", share, 3}};
}

static wh_status check(whi_bench *b, wh_status s, const char *what) {
    return s == WH_OK ? s : whi_bench_fail(b, s, "%s of '%s'", what, b->alloc->name);
}

static int is(const whi_bench *b, const char *name) {
    return strcmp(b->alloc->name, name) == 0;
}

/* --- set-up -------------------------------------------------------------------------------- */

static void end(walks *w) {
    whi_bench_close_heap(w->b);
    (void)wh_device_free(w->b->device, w->d_occupied);
    (void)wh_device_free(w->b->device, w->d_steps);
    (void)wh_device_free(w->b->device, w->d_last);
    (void)wh_device_free(w->b->device, w->d_counts);
    (void)wh_device_free(w->b->device, w->d_blocks);
    for (size_t i = 0; i < KEPT; i++) {
        free(w->kept[i].words);
    }
    free(w->steps);
}

/* Opens the heap of an allocator that walks: the user's, or of own bytes. w->kernels NULL: it
 * does not. */
static wh_status begin(whi_bench *b, walks *w, uint64_t own) {
    memset(w, 0, sizeof *w);
    w->b = b;
    w->kernels = wh_paper_kernels_find(b->alloc->name, b->info->target);
    if (w->kernels == NULL || w->kernels->get == NULL) {
        w->kernels = NULL;
        return WH_OK;
    }
    /* The equations know no walk that gives up: the out-of-memory test is made to come late
     * (RW_malloc sweeps instead). */
    const uint64_t bytes = b->options->heap_bytes != 0 ? b->options->heap_bytes : own;
    wh_heap_options o = whi_bench_heap_options(b, b->alloc, bytes);
    wh_random_walk_options late = WH_RANDOM_WALK_OPTIONS;
    if (o.options == NULL && strcmp(b->alloc->family, late.head.family) == 0) {
        late.oom_free_ppm = 100;
        o.options = &late.head;
    }
    whi_bench_close_heap(b);
    wh_status s = check(b, wh_heap_create(&b->heap, &o), "heap");
    s = s == WH_OK ? check(b, b->kernels->bind(b->heap, &b->call.handle), "heap") : s;
    b->heap_bytes = o.bytes;
    b->call.use_owns = 1;
    w->call.handle = b->call.handle;
    wh_stats stats;
    s = s == WH_OK ? check(b, wh_heap_get_stats(b->heap, &stats), "statistics") : s;
    if (s != WH_OK) {
        return s;
    }
    w->pages = (stats.heap_bytes - stats.metadata_bytes) / WH_RANDOM_WALK_PAGE;
    w->call.pages = w->pages;
    const uint64_t words = (w->pages + 31) / 32;
    s = wh_device_alloc(b->device, &w->d_occupied, words * 4);
    s = s == WH_OK ? wh_device_alloc(b->device, &w->d_counts, sizeof(wh_paper_counts)) : s;
    w->call.occupied = w->d_occupied;
    w->call.counts = w->d_counts;
    return check(b, s, "arrays for a walk");
}

/* For `scenarios`, any allocator with blocks of all sizes. */
static wh_status begin_plain(whi_bench *b, walks *w, uint64_t own) {
    memset(w, 0, sizeof *w);
    w->b = b;
    w->kernels = wh_paper_kernels_find(b->alloc->name, b->info->target);
    wh_status s = w->kernels != NULL ? whi_bench_open_heap(b, whi_bench_case_heap(b, own))
                                     : whi_bench_fail(b, WH_UNSUPPORTED, "no kernels");
    s = s == WH_OK
            ? check(b, wh_device_alloc(b->device, &w->d_counts, sizeof(wh_paper_counts)), "counts")
            : s;
    w->call.handle = b->call.handle;
    w->call.counts = w->d_counts;
    w->pages = b->heap_bytes / WH_RANDOM_WALK_PAGE;
    return s;
}

static wh_status need(walks *w, uint64_t n) {
    whi_bench *b = w->b;
    wh_status s = whi_bench_need_ptrs(b, n);
    w->call.ptrs = b->call.ptrs;
    if (s != WH_OK || n <= w->room) {
        return s;
    }
    (void)wh_device_free(b->device, w->d_steps);
    (void)wh_device_free(b->device, w->d_last);
    free(w->steps);
    w->d_steps = w->d_last = NULL;
    w->room = 0;
    w->steps = malloc(n * sizeof *w->steps);
    s = w->steps != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s = s == WH_OK ? wh_device_alloc(b->device, &w->d_steps, n * 4) : s;
    s = s == WH_OK ? wh_device_alloc(b->device, &w->d_last, n * 4) : s;
    w->call.steps = w->d_steps;
    w->call.last = is(b, "crw") ? w->d_last : NULL; /* nobody else's walk has use for it */
    w->room = s == WH_OK ? n : 0;
    return check(b, s, "arrays for a walk");
}

/* All but `available` pages, chosen at random by the seed; NULL: no memory. What was chosen last
 * for a seed is kept, since series that differ in their threads alone ask for it again, and
 * choosing among the pages of 8 GiB takes a tenth of a second. */
static const uint32_t *choose(walks *w, uint64_t available, uint64_t seed) {
    const uint64_t words = (w->pages + 31) / 32;
    uint64_t left = w->pages - available, state = seed * 2 + 1;
    chosen *c = &w->kept[seed % KEPT];
    if (c->words != NULL && c->available == available && c->seed == seed) {
        return c->words;
    }
    free(c->words);
    c->words = calloc(words, sizeof *c->words);
    if (c->words == NULL) {
        return NULL;
    }
    c->available = available;
    c->seed = seed;
    for (uint64_t p = 0; p < w->pages; p++) { /* selection sampling: exactly `left` */
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t r = (uint64_t)(((state >> 32) * (w->pages - p)) >> 32);
        if (w->kernels->queue ? left != 0 : r < left) { /* a queue gives its first ones */
            c->words[p / 32] |= 1u << p % 32;
            left--;
        }
    }
    return c->words;
}

/* Resets the heap and makes all but `available` pages used. */
static wh_status occupy(walks *w, uint64_t available, uint64_t seed) {
    whi_bench *b = w->b;
    wh_status s = whi_bench_reset_heap(b);
    const uint64_t threads = b->on_sim ? 4096 : 262144, words = (w->pages + 31) / 32;
    const uint32_t *occupied = choose(w, available, seed);
    w->call.n = w->kernels->queue ? w->pages - available : words;
    if (s == WH_OK) {
        s = occupied != NULL ? wh_device_copy_in(b->device, w->d_occupied, occupied, words * 4)
                             : WH_OUT_OF_MEMORY;
        s = check(b, s, "pages");
    }
    const wh_launch l = {b->device, (uint32_t)(threads / 256), 256, NULL};
    return s == WH_OK ? check(b, w->kernels->occupy(&l, &w->call), "occupying pages") : s;
}

/* --- steps ----------------------------------------------------------------------------------- */

typedef struct steps {
    double tas, was;
    double drained;  /* TAS with words drained as the algorithm does */
    double bound;    /* corw: with the pages that are left at the end */
    double equation; /* corw: the same by equation 11 */
} steps;

/* One timed get by `lanes` lanes of each of `warps` warps. */
static wh_status get(walks *w, uint64_t warps, uint32_t lanes, whi_bench_series *series,
                     uint64_t before, steps *sum) {
    whi_bench *b = w->b;
    const uint64_t n = warps * lanes, threads = warps * 32;
    wh_device_counters c0, c1;
    wh_paper_counts counts;
    double us = 0;
    memset(&counts, 0, sizeof counts);
    w->call.warps = warps;
    w->call.lanes = lanes;
    const wh_launch l = {b->device, (uint32_t)((threads + 255) / 256),
                         threads < 256 ? (uint32_t)threads : 256, NULL};
    wh_status s = wh_device_copy_in(b->device, w->d_counts, &counts, sizeof counts);
    s = s == WH_OK ? wh_device_get_counters(b->device, &c0) : s;
    s = s == WH_OK ? wh_device_timer_begin(b->device) : s;
    s = s == WH_OK ? w->kernels->get(&l, &w->call) : s;
    s = s == WH_OK ? wh_device_timer_end(b->device, &us) : s;
    s = s == WH_OK ? wh_device_get_counters(b->device, &c1) : s;
    s = s == WH_OK ? wh_device_copy_out(b->device, &counts, w->d_counts, sizeof counts) : s;
    s = s == WH_OK ? wh_device_copy_out(b->device, w->steps, w->d_steps, n * 4) : s;
    if (s != WH_OK) {
        return check(b, s, "getPage");
    }
    series->us[series->n++] = us;
    series->steps += c1.steps - c0.steps;
    series->atomics += c1.atomics - c0.atomics;
    series->failed += counts.failed;
    double tas = 0, was = 0;
    for (uint64_t i = 0; i < warps; i++) {
        double most = 0;
        for (uint32_t k = 0; k < lanes; k++) {
            const double x = (double)w->steps[i * lanes + k] - (double)before;
            tas += x;
            most = x > most ? x : most;
        }
        was += most;
    }
    sum->tas += tas / (double)n;
    sum->was += was / (double)warps;
    return WH_OK;
}

/* Looks at the n pages that `get` handed out last: each must be a page of the heap, none
 * used before (by occupy, or by an earlier get of this repetition) and none twice. */
static wh_status claim(walks *w, uint64_t n, uint64_t *bad) {
    whi_bench *b = w->b;
    wh_paper_counts counts;
    memset(&counts, 0, sizeof counts);
    const wh_launch l = {b->device, b->on_sim ? 4 : 1024, 256, NULL};
    w->call.n = n;
    wh_status s = wh_device_copy_in(b->device, w->d_counts, &counts, sizeof counts);
    s = s == WH_OK ? w->kernels->claim(&l, &w->call) : s;
    s = s == WH_OK ? wh_device_copy_out(b->device, &counts, w->d_counts, sizeof counts) : s;
    *bad += counts.bad;
    w->broken |= counts.bad != 0;
    return check(b, s, "data check");
}

/* Clusters of free pages now (M of equation 14). */
static wh_status clusters(walks *w, double *m) {
    whi_bench *b = w->b;
    wh_random_walk_ref h;
    memcpy(&h, &b->call.handle, sizeof h);
    uint64_t *words = malloc(h.n_words * sizeof *words);
    wh_status s = words != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s = s == WH_OK ? wh_device_copy_out(b->device, words, h.words, h.n_words * sizeof *words) : s;
    *m = 0;
    for (uint64_t p = 0, before = 1; s == WH_OK && p < w->pages; p++) {
        const uint64_t used = words[p / 32] >> p % 32 & 1;
        *m += before && !used;
        before = used;
    }
    free(words);
    return check(b, s, "words");
}

/* What the paper expects: NaN where it says nothing. */
static void expect(const walks *w, double a, double n, double m, uint32_t lanes, steps *e) {
    const whi_bench *b = w->b;
    const double t = (double)w->pages;
    const uint32_t bits = is(b, "rw") ? 1 : WH_USE_BITS;
    e->tas = e->was = e->drained = e->bound = e->equation = NAN;
    if (is(b, "corw")) {
        e->tas = e->was = wh_theory_corw_mean(t, a, n, bits, lanes);
        e->bound = wh_theory_corw_steps((a - n) / t, bits, lanes, lanes);
        e->equation = lanes == 32 ? wh_theory_corw((a - n) / t, bits) : NAN;
    } else if (lanes != 32) {
        return;
    } else if (w->kernels->queue) {
        e->tas = wh_theory_queue_tas(n);
        e->was = wh_theory_queue_was(n);
    } else if (!is(b, "rw-malloc")) {
        e->tas = wh_theory_walk_tas(t, a, n, bits);
        e->drained = is(b, "rw-bm") ? wh_theory_words_tas(t, a, n, bits) : NAN;
        e->was = wh_theory_walk_was(t, a, n, bits);
        if (is(b, "crw")) {
            e->tas = wh_theory_crw(a, m, e->tas);
        }
    }
}

static void add(whi_bench_row *row, whi_bench_value *values, const char *name, double value) {
    if (isfinite(value)) {
        values[row->n_values].name = name;
        values[row->n_values].value = value;
        values[row->n_values].decimals = 3;
        row->n_values++;
    }
}

static wh_status emit(walks *w, const char *name, const char *op, whi_bench_series *series,
                      wh_bench_launcher null, uint64_t n, double share, const steps *seen,
                      const steps *expected) {
    whi_bench *b = w->b;
    whi_bench_row row;
    whi_bench_value values[7];
    memset(&row, 0, sizeof row);
    row.values = values;
    row.case_name = name;
    row.phase = "cold";
    row.op = op;
    row.size = WH_RANDOM_WALK_PAGE;
    row.threads = n;
    row.ops = n;
    b->call.n = n;
    wh_status s = whi_bench_floor(b, null, n, &row.us_null);
    row.value_name = "free_share";
    row.value = share;
    if (seen != NULL) {
        add(&row, values, "tas", seen->tas / series->n);
        add(&row, values, "was", seen->was / series->n);
    }
    if (expected != NULL) {
        add(&row, values, "tas_expected", expected->tas);
        add(&row, values, "was_expected", expected->was);
        add(&row, values, "tas_drained", expected->drained);
        add(&row, values, "tas_bound", expected->bound);
        add(&row, values, "equation_11", expected->equation);
    }
    return s == WH_OK ? whi_bench_emit(b, &row, series) : s;
}

/* A series of getPage, each followed by freePage, with that share of the pages free. */
static wh_status series_of(walks *w, const char *name, double share, uint64_t warps,
                           uint32_t lanes) {
    whi_bench *b = w->b;
    const uint64_t n = warps * lanes;
    const uint64_t a = (uint64_t)(share * (double)w->pages);
    /* CRW needs a last page: a first round, whose pages stay taken. */
    const int twice = is(b, "crw");
    steps seen = {0, 0, 0, 0, 0}, expected = {NAN, NAN, NAN, NAN, NAN};
    double m = 0;
    uint64_t bad = 0;
    const whi_bench_part part = {
        .size = WH_RANDOM_WALK_PAGE, .threads = n, .value = {"free_share", share, 3}};
    if (a < n || a + (twice ? n : 0) > w->pages || whi_bench_leave_out(b, part)) {
        return WH_OK;
    }
    wh_status s = need(w, n);
    if (s != WH_OK) {
        return s;
    }
    whi_bench_progress(b, name, WH_RANDOM_WALK_PAGE, n);
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    memset(&b->free_series, 0, sizeof b->free_series);
    const uint32_t warm_up = b->on_sim ? 0 : 1;
    for (uint32_t rep = 0; s == WH_OK && !w->broken && rep < b->reps + warm_up; rep++) {
        if (rep == warm_up) {
            memset(&b->malloc_series, 0, sizeof b->malloc_series);
            memset(&b->free_series, 0, sizeof b->free_series);
            memset(&seen, 0, sizeof seen);
        }
        const whi_bench_series kept = b->malloc_series;
        const steps so_far = seen;
        s = occupy(w, a + (twice ? n : 0), b->seed + rep);
        s = s == WH_OK ? check(b, wh_device_set(b->device, w->d_last, 0xff, n * 4), "hints") : s;
        if (s == WH_OK && twice) {
            s = get(w, warps, lanes, &b->malloc_series, 0, &seen);
            b->malloc_series = kept;
            seen = so_far;
            s = s == WH_OK ? claim(w, n, &bad) : s;
            s = s == WH_OK && rep == warm_up ? clusters(w, &m) : s;
        }
        s = s == WH_OK ? get(w, warps, lanes, &b->malloc_series,
                             w->kernels->queue ? w->pages - a : 0, &seen)
                       : s;
        /* On a GPU after the timed free, which leaves the pointers where they are and so finds
         * the caches as getPage left them; the untimed round looks before it. */
        const int first = b->on_sim || rep < warm_up;
        s = s == WH_OK && first ? claim(w, n, &bad) : s;
        b->call.n = n;
        if (s == WH_OK && !w->broken) {
            s = whi_bench_time(b, b->kernels->free_all, n, &b->free_series);
        }
        s = s == WH_OK && !first ? claim(w, n, &bad) : s;
    }
    if (s != WH_OK) {
        return s;
    }
    b->malloc_series.bad = bad;
    expect(w, (double)a, (double)n, m, lanes, &expected);
    s = emit(w, name, "getpage", &b->malloc_series, b->kernels->floor_single, n, share, &seen,
             &expected);
    return s == WH_OK && b->free_series.n != 0 ? emit(w, name, "freepage", &b->free_series,
                                                      b->kernels->floor_free, n, share, NULL, NULL)
                                               : s;
}

/* --- the cases ---------------------------------------------------------------------------------
 */

static const uint64_t gpu_threads[] = {1024, 16384, 131072, 1 << 20, 0};
static const uint64_t sim_threads[] = {256, 2048, 0};

wh_status whi_bench_case_walk(whi_bench *b) {
    static const double shares[] = {0.5, 0.1, 0.01, 0.005};
    const uint64_t *own = b->on_sim ? sim_threads : gpu_threads;
    walks w;
    b->case_limits = WHI_BENCH_LONG_CASE_LIMITS;
    wh_status s = begin(b, &w, b->defaults->heap_bytes);
    for (size_t i = 0; s == WH_OK && w.kernels != NULL && i < 4; i++) {
        for (size_t k = 0; s == WH_OK && !w.broken; k++) {
            const int given = b->options->n_threads != 0;
            const uint64_t n = !given                      ? own[k]
                               : k < b->options->n_threads ? b->options->threads[k]
                                                           : 0;
            if (n == 0) {
                break;
            }
            s = series_of(&w, "walk", shares[i], (n + 31) / 32, 32);
        }
    }
    end(&w);
    return s;
}

wh_status whi_bench_case_crossover(whi_bench *b) {
    static const double shares[] = {0.05, 0.01, 0.008, 0.005};
    static const uint32_t lanes[] = {1, 4, 8, 12, 16, 20, 24, 25, 28, 32};
    walks w;
    b->case_limits = WHI_BENCH_LONG_CASE_LIMITS;
    wh_status s =
        is(b, "corw") || is(b, "crw") ? begin(b, &w, b->defaults->heap_bytes) : WH_UNSUPPORTED;
    if (s == WH_UNSUPPORTED) {
        return WH_OK;
    }
    const uint64_t warps = b->on_sim ? 16 : 1024;
    for (size_t i = 0; s == WH_OK && i < 4; i++) {
        for (size_t k = 0; s == WH_OK && !w.broken && k < sizeof lanes / sizeof *lanes; k++) {
            if (b->on_sim && lanes[k] % 8 != 0 && lanes[k] != 1) {
                continue;
            }
            s = series_of(&w, "crossover", shares[i], warps, lanes[k]);
        }
    }
    end(&w);
    return s;
}

/* For an allocator that does not walk: fills the heap with blocks of a page until a malloc
 * fails, and frees that share of them, those that came last. (Free pages in between others are
 * of use to a walk alone: what has classes cannot give them to another one.) The heap is filled
 * once: a larger share than the one before frees more of the same blocks. share 1: a fresh
 * heap, before any other. */
static wh_status fill(walks *w, double share) {
    whi_bench *b = w->b;
    void **ptrs = b->call.ptrs;
    const uint64_t batch = w->pages / 32 + 1, n = b->call.n, lo = b->call.lo, hi = b->call.hi;
    wh_bench_counts counts;
    memset(&counts, 0, sizeof counts);
    wh_status s = w->served == 0 ? whi_bench_reset_heap(b) : WH_OK;
    if (share >= 1) {
        return s;
    }
    s = s == WH_OK ? whi_bench_need(b, (void **)&w->d_blocks, &w->blocks_room, w->pages + batch, 8)
                   : s;
    const int full = w->served != 0;
    const whi_bench_part part = scenario_part(NULL, share, n, lo, hi);
    while (s == WH_OK && !full && counts.failed == 0 && w->held < w->pages &&
           !whi_bench_leave_out(b, part)) {
        b->call.ptrs = w->d_blocks + w->held;
        b->call.n = batch;
        b->call.lo = b->call.hi = WH_RANDOM_WALK_PAGE;
        s = whi_bench_launch(b, b->kernels->malloc_single, batch);
        s = s == WH_OK ? whi_bench_verify(b, 0, &counts) : s;
        w->held += batch;
        w->served += counts.served;
    }
    const wh_launch l = {b->device, b->on_sim ? 4 : 1024, 256, NULL};
    w->call.ptrs = w->d_blocks;
    w->call.n = w->held;
    w->call.from = w->served - (uint64_t)(share * (double)w->served);
    s = s == WH_OK ? check(b, w->kernels->thin(&l, &w->call), "freeing a share") : s;
    w->held = w->call.from;
    b->call.ptrs = ptrs;
    b->call.n = n;
    b->call.lo = lo;
    b->call.hi = hi;
    return s;
}

/* Makes all but that share of the pages used. Filling takes long: it is done once for a
 * share, and the series are `warm`. */
static wh_status make_scarce(walks *w, double share, uint32_t rep) {
    if (w->kernels->occupy != NULL) {
        return occupy(w, (uint64_t)(share * (double)w->pages), w->b->seed + rep);
    }
    if (share < 1 && w->filled > share - 1e-6 && w->filled < share + 1e-6) {
        return WH_OK;
    }
    w->filled = share;
    return fill(w, share);
}

static const char *phase_of(const walks *w, double share) {
    return w->kernels->occupy == NULL && share < 1 ? "warm" : "cold";
}

/* One malloc of lo..hi by n threads with that share of the units free; `at_once`: freed in
 * the same kernel, as churn with one slot and no check does. */
static wh_status scenario(walks *w, double share, uint64_t n, uint64_t lo, uint64_t hi) {
    whi_bench *b = w->b;
    wh_bench_counts counts;
    whi_bench_row row;
    if (whi_bench_leave_out(b, scenario_part(NULL, share, n, lo, hi))) {
        return WH_OK;
    }
    memset(&row, 0, sizeof row);
    wh_status s = whi_bench_need_ptrs(b, n);
    b->call.n = n;
    b->call.lo = lo;
    b->call.hi = hi;
    b->call.seed = b->seed;
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    memset(&b->free_series, 0, sizeof b->free_series);
    whi_bench_progress(b, "scenarios", hi, n);
    s = s == WH_OK ? whi_bench_floor(b, b->kernels->floor_single, n, &row.us_null) : s;
    for (uint32_t rep = 0; s == WH_OK && !w->broken && rep < b->reps; rep++) {
        s = make_scarce(w, share, rep);
        if (b->left_out.size != 0) {
            return s; /* time was over before the heap was full */
        }
        s = s == WH_OK
                ? whi_bench_time(b, lo == hi ? b->kernels->malloc_single : b->kernels->malloc_mixed,
                                 n, &b->malloc_series)
                : s;
        s = s == WH_OK ? whi_bench_verify(b, WHI_BENCH_PLACES, &counts) : s;
        b->malloc_series.failed += counts.failed;
        b->malloc_series.bad += counts.bad;
        w->broken |= counts.bad != 0;
        if (s == WH_OK && !w->broken) {
            s = whi_bench_time(b, b->kernels->free_all, n, &b->free_series);
        }
    }
    row.case_name = "scenarios";
    row.phase = phase_of(w, share);
    row.op = "malloc";
    row.size = hi;
    row.size_min = lo != hi ? lo : 0;
    row.threads = n;
    row.ops = n;
    row.value_name = "free_share";
    row.value = share;
    s = s == WH_OK ? whi_bench_emit(b, &row, &b->malloc_series) : s;
    row.op = "free";
    row.us_null = 0;
    return s == WH_OK && b->free_series.n != 0 ? whi_bench_emit(b, &row, &b->free_series) : s;
}

/* The seventh: 4096 bytes, freed at once. */
static wh_status at_once(walks *w, double share, uint64_t n) {
    whi_bench *b = w->b;
    whi_bench_row row;
    wh_paper_counts counts;
    if (whi_bench_leave_out(b, scenario_part("malloc+free", share, n, 4096, 4096))) {
        return WH_OK;
    }
    memset(&counts, 0, sizeof counts);
    memset(&row, 0, sizeof row);
    memset(&b->malloc_series, 0, sizeof b->malloc_series);
    wh_status s = whi_bench_need_ptrs(b, n);
    w->call.ptrs = b->call.ptrs;
    w->call.warps = n;
    w->call.size = 4096;
    w->call.iterations = 1;
    w->call.stamp = 0;
    s = s == WH_OK
            ? check(b, wh_device_copy_in(b->device, w->d_counts, &counts, sizeof counts), "counts")
            : s;
    for (uint32_t rep = 0; s == WH_OK && rep < b->reps; rep++) {
        wh_device_counters before, after;
        double us = 0;
        s = make_scarce(w, share, rep);
        w->call.ptrs = b->call.ptrs;
        const wh_launch l = {b->device, (uint32_t)((n + 255) / 256), n < 256 ? (uint32_t)n : 256,
                             NULL};
        s = s == WH_OK ? wh_device_get_counters(b->device, &before) : s;
        s = s == WH_OK ? wh_device_timer_begin(b->device) : s;
        s = s == WH_OK ? w->kernels->at_once(&l, &w->call) : s;
        s = s == WH_OK ? wh_device_timer_end(b->device, &us) : s;
        s = s == WH_OK ? wh_device_get_counters(b->device, &after) : s;
        s = check(b, s, "malloc and free");
        if (s == WH_OK) {
            b->malloc_series.us[b->malloc_series.n++] = us;
            b->malloc_series.steps += after.steps - before.steps;
            b->malloc_series.atomics += after.atomics - before.atomics;
        }
    }
    wh_paper_counts got;
    s = s == WH_OK
            ? check(b, wh_device_copy_out(b->device, &got, w->d_counts, sizeof got), "counts")
            : s;
    row.case_name = "scenarios";
    row.phase = phase_of(w, share);
    row.op = "malloc+free";
    row.size = 4096;
    row.threads = n;
    row.ops = n;
    row.value_name = "free_share";
    row.value = share;
    if (s == WH_OK) {
        b->malloc_series.failed = got.failed;
        s = whi_bench_emit(b, &row, &b->malloc_series);
    }
    return s;
}

/* Requests of one size with that share free, as many as are wanted, but half of what is free at
 * most. Of units that are free at random a run of k begins at one in 1 / share^k: what a walk can
 * be asked for. The others' free memory lies in a row; they run with that count, too, which
 * holds them against a walk, and with as many as they have room for. */
static wh_status scenario_of(walks *w, double share, uint64_t wanted, uint64_t size) {
    const uint64_t units = (size + 255) / 256;
    const uint64_t room = (uint64_t)(share * (double)w->pages) / 2 / units;
    const uint64_t runs = (uint64_t)((double)w->pages * pow(share, (double)units) / 2);
    const uint64_t scattered = room < runs ? room : runs;
    const uint64_t n = wanted < room ? wanted : room, fewer = n < scattered ? n : scattered;
    wh_status s = WH_OK;
    if (fewer >= 32) {
        s = scenario(w, share, fewer, size, size);
    }
    if (s == WH_OK && w->kernels->occupy == NULL && n > fewer && n >= 32 && !w->broken) {
        s = scenario(w, share, n, size, size);
    }
    return s;
}

/* Pages as in `walk`: its numbers of threads and shares, for allocators that it cannot run. */
static wh_status pages_of(walks *w, double share, const uint64_t *threads) {
    wh_status s = WH_OK;
    for (size_t k = 0; s == WH_OK && !w->broken && threads[k] != 0; k++) {
        if ((double)threads[k] <= 0.9 * share * (double)w->pages) { /* some are metadata */
            s = scenario(w, share, threads[k], WH_RANDOM_WALK_PAGE, WH_RANDOM_WALK_PAGE);
        }
    }
    return s;
}

wh_status whi_bench_case_scenarios(whi_bench *b) {
    static const uint64_t sizes[] = {16, 256, 1024, 4096, 8192, 0};
    static const double shares[] = {1, 0.005, 0.01, 0.1, 0.5}; /* upwards: see fill */
    const uint64_t *own = b->on_sim ? sim_threads : gpu_threads;
    walks w;
    const uint64_t max = b->alloc->max_size < 8196 ? b->alloc->max_size : 8196;
    if (max < 8192 ||
        !whi_bench_can(b, WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_RESET | WH_CAP_OWN_MEMORY)) {
        return WH_OK;
    }
    b->case_limits = WHI_BENCH_LONG_CASE_LIMITS;
    const uint64_t bytes = b->defaults->scenarios_bytes;
    wh_status s = is(b, "rw-malloc") ? begin(b, &w, bytes) : begin_plain(b, &w, bytes);
    for (size_t i = 0; s == WH_OK && !w.broken && i < sizeof shares / sizeof *shares; i++) {
        const uint64_t wanted =
            b->options->n_threads != 0 ? b->options->threads[0] : b->defaults->scenarios_threads;
        for (size_t k = 0; s == WH_OK && !w.broken && sizes[k] != 0; k++) {
            s = scenario_of(&w, shares[i], wanted, sizes[k]);
        }
        if (s == WH_OK && shares[i] < 1 && b->options->n_threads == 0) {
            s = pages_of(&w, shares[i], own);
        }
        /* Half of what is free at most; 8196 bytes take 33 units, 17 in the mean. */
        const uint64_t most = (uint64_t)(shares[i] * (double)w.pages) / 2 / 17;
        if (s == WH_OK && !w.broken && most >= 32 &&
            (shares[i] == 1 || w.kernels->occupy == NULL)) {
            s = scenario(&w, shares[i], wanted < most ? wanted : most, 4, max);
            s = s == WH_OK && !w.broken ? at_once(&w, shares[i], wanted < most ? wanted : most) : s;
        }
    }
    end(&w);
    return s;
}

/* graph_stream.c: the case graph-stream: arcs in order of time, batch by batch, and each batch that
 * goes in drives out what has become older than a window. An arc that has come again stays. */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/dgraph.h"

#define MOST ((uint64_t)1 << 22) /* arcs of a generated stream, and of one of a file */
#define WINDOW 4u                /* of the stream: a quarter, */
#define WINDOW_BATCHES 256u      /* or so many batches */

/* --- streams ------------------------------------------------------------------------------------
 */

typedef struct entry {
    uint64_t key; /* a time, or both ends */
    uint32_t number;
} entry;

static int compare(const void *x, const void *y) {
    const entry *a = x, *b = y;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key)
                            : (a->number > b->number) - (a->number < b->number);
}

/* Lists the arcs in order of time. */
static void order_by_time(whi_bench_set *set, entry *entries) {
    const wh_graph_arcs *file = set->file;
    for (uint64_t i = 0; i < file->n_arcs; i++) {
        entries[i].key = (uint64_t)file->time[i] ^ (uint64_t)1 << 63;
        entries[i].number = (uint32_t)i;
    }
    qsort(entries, file->n_arcs, sizeof *entries, compare);
    for (uint64_t i = 0; i < set->n_stream; i++) {
        set->from[i] = file->from[entries[i].number];
        set->to[i] = file->to[entries[i].number];
    }
}

/* next[i]: when the arc comes again. */
static void find_next(whi_bench_set *set, entry *entries) {
    for (uint64_t i = 0; i < set->n_stream; i++) {
        entries[i].key = (uint64_t)set->from[i] << 32 | set->to[i];
        entries[i].number = (uint32_t)i;
    }
    qsort(entries, set->n_stream, sizeof *entries, compare);
    for (uint64_t i = 0; i < set->n_stream; i++) {
        const int again = i + 1 < set->n_stream && entries[i].key == entries[i + 1].key;
        set->next[entries[i].number] = again ? entries[i + 1].number : WHI_DGRAPH_NONE;
    }
}

static void generate(const whi_bench *b, whi_bench_set *set) {
    uint64_t random = b->options->seed + 1;
    const int is_rmat = strcmp(set->name, "rmat") == 0;
    for (uint64_t i = 0; i < set->n_stream; i++) {
        whi_dgraph_random_arc(&random, b->defaults->graph_scale, is_rmat, &set->from[i],
                              &set->to[i]);
    }
}

/* Makes the set's stream, once. n_stream stays 0 where the file has no times. */
static wh_status make_stream(whi_dgraph *g) {
    whi_bench_set *set = g->set;
    const uint64_t all =
        set->file != NULL ? set->file->n_arcs : (uint64_t)16 << g->p.b->defaults->graph_scale;
    if (set->n_stream != 0 || (set->file != NULL && set->file->time == NULL) ||
        all >= WHI_DGRAPH_NONE) {
        return WH_OK;
    }
    const uint64_t n = all < MOST ? all : MOST;
    entry *entries = malloc(all * sizeof *entries);
    set->from = malloc(n * sizeof *set->from);
    set->to = malloc(n * sizeof *set->to);
    set->next = malloc(n * sizeof *set->next);
    if (entries == NULL || set->from == NULL || set->to == NULL || set->next == NULL) {
        free(entries);
        return whi_bench_fail(g->p.b, WH_OUT_OF_MEMORY, "no memory for a stream");
    }
    set->n_stream = n;
    if (set->file != NULL) {
        order_by_time(set, entries);
    } else {
        generate(g->p.b, set);
    }
    find_next(set, entries);
    free(entries);
    return WH_OK;
}

/* --- steps --------------------------------------------------------------------------------------
 */

typedef struct window {
    uint64_t n, length; /* of a batch, of the window; in arcs */
    uint64_t begin, end;
    whi_bench_series fill, slide; /* steps before the window is full, and after */
    uint64_t erased;
} window;

/* Arcs begin..end-1 of the stream as a batch, but for those that come again before `until`. Returns
 * how many. */
static uint64_t take(whi_dgraph *g, uint64_t begin, uint64_t end, uint64_t until) {
    const whi_bench_set *set = g->set;
    uint64_t n = 0;
    for (uint64_t i = begin; i < end; i++) {
        if (set->next[i] >= until) {
            g->from[n] = set->from[i];
            g->to[n++] = set->to[i];
        }
    }
    return n;
}

static wh_status add(whi_dgraph *g, whi_dgraph_fn fn, uint64_t n, whi_bench_series *sum,
                     double *us) {
    whi_bench_series once;
    wh_graph_result result;
    memset(&once, 0, sizeof once);
    if (n == 0) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_batch_in(g, n));
    const whi_dgraph_update u = {.fn = fn, .n = n, .series = &once, .result = &result};
    WHI_BENCH_TRY(whi_dgraph_apply(g, u));
    sum->steps += once.steps;
    sum->atomics += once.atomics;
    sum->failed += result.refused;
    sum->bad += fn == wh_graph_erase && result.applied != n && sum->failed == 0;
    *us += once.us[0];
    return WH_OK;
}

/* A batch goes in, and what is older than the window then goes out. */
static wh_status step(whi_dgraph *g, window *w) {
    const uint64_t end = w->end + w->n;
    const uint64_t begin = end > w->length ? end - w->length : 0;
    whi_bench_series *series = begin == 0 ? &w->fill : &w->slide;
    double us = 0;
    const uint64_t in = take(g, w->end, end, 0);
    WHI_BENCH_TRY(add(g, wh_graph_insert, in, series, &us));
    const uint64_t out = take(g, w->begin, begin, end);
    WHI_BENCH_TRY(add(g, wh_graph_erase, out, series, &us));
    w->erased += out;
    w->begin = begin;
    w->end = end;
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* The graph has the arcs of the window, each once, and no other. Counts in *bad. */
static wh_status verify(whi_dgraph *g, const window *w, uint64_t *bad) {
    uint64_t arcs = 0, distinct = 0, there = 0;
    for (uint64_t at = w->begin; at < w->end; at += w->n) {
        const uint64_t end = at + w->n < w->end ? at + w->n : w->end;
        const uint64_t n = take(g, at, end, w->end);
        distinct += n;
        if (n != 0) {
            WHI_BENCH_TRY(whi_dgraph_batch_in(g, n));
            WHI_BENCH_TRY(whi_dgraph_has(g, n, NULL));
        }
        for (uint64_t i = 0; i < n; i++) {
            there += g->done[i] != 0;
        }
    }
    WHI_BENCH_TRY(whi_dgraph_arcs(g, &arcs));
    *bad += there != distinct || arcs != distinct;
    return WH_OK;
}

static wh_status emit(whi_dgraph *g, const window *w, const char *op,
                      const whi_bench_series *series) {
    uint64_t bytes = 0;
    if (series->n == 0) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &bytes));
    whi_bench_row row = whi_dgraph_row(g, op, w->n);
    whi_bench_add_value(&row, "window", (double)w->length, 0);
    whi_bench_add_value(&row, "erased", (double)w->erased, 0);
    whi_bench_add_value(&row, "graph_bytes", (double)bytes, 0);
    return whi_bench_emit(g->p.b, &row, series);
}

/* All of the stream, or as much as there is time for. */
static wh_status follow(whi_dgraph *g, uint64_t n) {
    whi_bench *b = g->p.b;
    const double start = whi_bench_wall_seconds();
    const uint64_t quarter = g->set->n_stream / WINDOW / n * n;
    window w;
    memset(&w, 0, sizeof w);
    w.n = n;
    w.length = quarter != 0 ? quarter : n;
    w.length = w.length > WINDOW_BATCHES * n ? WINDOW_BATCHES * n : w.length;
    WHI_BENCH_TRY(whi_dgraph_create(g));
    while (w.end + n <= g->set->n_stream && w.fill.n + w.slide.n < WH_BENCH_MAX_REPS) {
        if (w.slide.n > 1 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(step(g, &w));
    }
    /* What a full heap refused is not there. */
    uint64_t *bad = w.slide.n != 0 ? &w.slide.bad : &w.fill.bad;
    if (w.fill.failed + w.slide.failed == 0) {
        WHI_BENCH_TRY(verify(g, &w, bad));
    }
    *bad += wh_graph_check(g->graph, NULL) != WH_OK;
    WHI_BENCH_TRY(emit(g, &w, "fill", &w.fill));
    return emit(g, &w, "slide", &w.slide);
}

static wh_status run(whi_dgraph *g) {
    const whi_bench_list batches = whi_dgraph_batches(g->p.b);
    WHI_BENCH_TRY(make_stream(g));
    if (g->set->n_stream == 0) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, whi_dgraph_most(g->p.b)));
    for (size_t i = 0; i < batches.n; i++) {
        if (batches.v[i] <= g->set->n_stream && !whi_dgraph_leave_out(g, "fill", batches.v[i])) {
            WHI_BENCH_TRY(follow(g, batches.v[i]));
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_graph_stream(whi_bench *b) {
    static const whi_dgraph_job job = {.run = run, .batches = 1};
    return whi_dgraph_each(b, &job);
}

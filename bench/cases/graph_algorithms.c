/* graph_algorithms.c: the case graph-algorithms: PageRank, triangles, components and breadth-first
 * search on a dynamic graph, balanced and naive, beside a PageRank on plain arrays. Each runs twice
 * and must say the same. Triangles of batches beside those of the whole graph. Graphs are
 * undirected here: of each arc the reverse is there, too. */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/dgraph.h"
#include "warpheap/graph_algorithms.h"

#define ITERATIONS 10u /* of a timed PageRank */
#define DAMPING 0.85

typedef struct state {
    void *rank, *before; /* device: floats; labels and levels, too */
    uint32_t *host[2];   /* results, to be compared */
    int naive;
    uint64_t most_iterations; /* 0: to the tolerance */
    int warm;
    wh_graph_pagerank_result pagerank;
    uint64_t total; /* triangles, components, vertices reached */
    uint64_t levels;
} state;

/* --- runs ---------------------------------------------------------------------------------------
 */

static wh_status pagerank(whi_dgraph *g, state *s) {
    wh_graph_pagerank_options o;
    memset(&o, 0, sizeof o);
    o.damping = DAMPING;
    o.on_device = 1;
    o.naive = s->naive;
    o.most_iterations = s->most_iterations;
    o.tolerance = s->most_iterations != 0 ? -1 : 0;
    o.start = s->warm ? s->before : NULL;
    return wh_graph_pagerank(g->graph, &o, s->rank, &s->pagerank);
}

static wh_graph_run_options run_options(const state *s) {
    wh_graph_run_options o;
    memset(&o, 0, sizeof o);
    o.on_device = 1;
    o.naive = s->naive;
    return o;
}

static wh_status triangles(whi_dgraph *g, state *s) {
    const wh_graph_run_options o = run_options(s);
    return wh_graph_triangles(g->graph, &o, &s->total, NULL);
}

static wh_status components(whi_dgraph *g, state *s) {
    const wh_graph_run_options o = run_options(s);
    return wh_graph_components(g->graph, &o, s->rank, &s->total);
}

/* From the vertex that has most arcs. */
static wh_status bfs(whi_dgraph *g, state *s) {
    const wh_graph_run_options o = run_options(s);
    const uint64_t *offset = g->csr->offset;
    wh_graph_bfs_result result;
    uint32_t source = 0;
    for (uint32_t v = 1; v < g->csr->n_vertices; v++) {
        if (offset[v + 1] - offset[v] > offset[source + 1] - offset[source]) {
            source = v;
        }
    }
    const wh_status status = wh_graph_bfs(g->graph, source, &o, s->rank, &result);
    s->total = result.reached;
    s->levels = result.levels;
    return status;
}

typedef wh_status (*algorithm)(whi_dgraph *g, state *s);

typedef struct timed_run {
    algorithm run;
    state *s;
} timed_run;

/* Of a PageRank with so many iterations, one of them. */
static wh_status time_run(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    const timed_run *t = context;
    const uint64_t parts = t->s->most_iterations != 0 ? t->s->most_iterations : 1;
    whi_bench_watch watch;
    whi_bench_series whole;
    double us = 0;
    memset(&whole, 0, sizeof whole);
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, t->run(g, t->s), "an algorithm"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, &whole, &us));
    whi_bench_add_sample(series, us / (double)parts);
    series->steps += whole.steps / parts;
    series->atomics += whole.atomics / parts;
    return WH_OK;
}

static wh_status results_out(whi_dgraph *g, const state *s, int k) {
    whi_bench *b = g->p.b;
    const uint64_t bytes = 4 * (uint64_t)g->csr->n_vertices;
    return whi_bench_check(b, wh_device_copy_out(b->device, s->host[k], s->rank, bytes), "results");
}

/* The repetitions of an algorithm. What it says the last time must be what it says once more. */
static wh_status series_of(whi_dgraph *g, algorithm run, state *s, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    timed_run t = {run, s};
    memset(series, 0, sizeof *series);
    WHI_BENCH_TRY(whi_dgraph_repeat(g, time_run, &t, series));
    WHI_BENCH_TRY(results_out(g, s, 0));
    const uint64_t total = s->total;
    WHI_BENCH_TRY(whi_bench_check(b, run(g, s), "an algorithm"));
    WHI_BENCH_TRY(results_out(g, s, 1));
    const size_t bytes = 4 * (size_t)g->csr->n_vertices;
    series->bad += total != s->total || memcmp(s->host[0], s->host[1], bytes) != 0;
    return WH_OK;
}

/* --- rows ---------------------------------------------------------------------------------------
 */

/* Arcs are what an algorithm has to look at. */
static wh_status emit(whi_dgraph *g, const char *op, const char *name, uint64_t value,
                      const whi_bench_series *series) {
    whi_bench_row row = whi_dgraph_row(g, op, g->csr->n_vertices);
    row.ops = g->csr->n_arcs;
    whi_bench_add_value(&row, name, (double)value, 0);
    return whi_bench_emit(g->p.b, &row, series);
}

/* Balanced, then naive: an iteration each; the ranks are the same. */
static wh_status pagerank_rows(whi_dgraph *g, state *s) {
    static const char *const names[2] = {"pagerank", "pagerank-naive"};
    const size_t bytes = 4 * (size_t)g->csr->n_vertices;
    uint32_t *balanced = malloc(bytes);
    wh_status status = balanced != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s->most_iterations = ITERATIONS;
    for (s->naive = 0; s->naive < 2 && status == WH_OK; s->naive++) {
        whi_bench_series series;
        if (whi_dgraph_leave_out(g, names[s->naive], g->csr->n_vertices)) {
            break;
        }
        status = series_of(g, pagerank, s, &series);
        if (status == WH_OK && s->naive == 1) {
            series.bad += memcmp(balanced, s->host[0], bytes) != 0;
        }
        memcpy(balanced, s->host[0], bytes);
        status =
            status == WH_OK ? emit(g, names[s->naive], "iterations", ITERATIONS, &series) : status;
    }
    free(balanced);
    s->naive = 0;
    s->most_iterations = 0;
    return status == WH_OUT_OF_MEMORY ? whi_bench_fail(g->p.b, status, "no memory for ranks")
                                      : status;
}

static wh_status insert_edges(whi_dgraph *g, uint64_t n) {
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, n));
    WHI_BENCH_TRY(whi_dgraph_draw(g, n, WHI_DGRAPH_UNIFORM));
    WHI_BENCH_TRY(whi_dgraph_batch_in(g, n));
    return whi_dgraph_apply(g, (whi_dgraph_update){.fn = wh_graph_insert, .n = n});
}

/* To the tolerance: from nothing, and from the ranks of before a batch. The last: it changes the
 * graph. */
static wh_status warm_rows(whi_dgraph *g, state *s) {
    whi_bench *b = g->p.b;
    const uint64_t bytes = 4 * (uint64_t)g->csr->n_vertices;
    const whi_bench_list batches = whi_dgraph_batches(b);
    whi_bench_series series;
    if (whi_dgraph_leave_out(g, "pagerank-cold", g->csr->n_vertices)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(series_of(g, pagerank, s, &series));
    WHI_BENCH_TRY(emit(g, "pagerank-cold", "iterations", s->pagerank.iterations, &series));
    WHI_BENCH_TRY(results_out(g, s, 0));
    WHI_BENCH_TRY(
        whi_bench_check(b, wh_device_copy_in(b->device, s->before, s->host[0], bytes), "ranks"));
    if (whi_dgraph_leave_out(g, "pagerank-warm", g->csr->n_vertices)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(insert_edges(g, batches.v[0]));
    s->warm = 1;
    WHI_BENCH_TRY(series_of(g, pagerank, s, &series));
    return emit(g, "pagerank-warm", "iterations", s->pagerank.iterations, &series);
}

static wh_status other_rows(whi_dgraph *g, state *s) {
    static const struct {
        const char *op, *value;
        algorithm run;
        int naive;
    } rows[] = {{"triangles", "triangles", triangles, 0},
                {"triangles-naive", "triangles", triangles, 1},
                {"components", "components", components, 0},
                {"bfs", "reached", bfs, 0}};
    uint64_t balanced = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        whi_bench_series series;
        if (whi_dgraph_leave_out(g, rows[i].op, g->csr->n_vertices)) {
            break;
        }
        s->naive = rows[i].naive;
        WHI_BENCH_TRY(series_of(g, rows[i].run, s, &series));
        series.bad += s->naive && s->total != balanced;
        balanced = s->total;
        WHI_BENCH_TRY(emit(g, rows[i].op, rows[i].value, s->total, &series));
    }
    s->naive = 0;
    return WH_OK;
}

/* --- triangles of a batch -----------------------------------------------------------------------
 */

/* Repetitions with batches of n edges, new ones or some of the graph. */
typedef struct batch_runs {
    state *s;
    uint64_t n;
    int is_present;
    whi_bench_series all; /* the whole graph's, counted after the batch */
    uint64_t triangles;   /* of the last batch */
} batch_runs;

static wh_status time_batch(whi_dgraph *g, const wh_graph_batch *batch, uint64_t *total,
                            whi_bench_series *series) {
    whi_bench *b = g->p.b;
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_triangles_of_batch(g->graph, batch, total),
                                  "triangles of a batch"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* Edges that are new go in, what they close is counted, and they go out again; or edges of the
 * graph are counted, go out, and come back. Between that the whole graph's are counted. */
static wh_status count_batch(whi_dgraph *g, void *context, whi_bench_series *series) {
    batch_runs *r = context;
    state *s = r->s;
    const whi_dgraph_fn fn[2] = {r->is_present ? wh_graph_erase : wh_graph_insert,
                                 r->is_present ? wh_graph_insert : wh_graph_erase};
    wh_graph_batch batch = whi_dgraph_batch(g, 0, r->n, 1);
    timed_run all = {triangles, s};
    uint64_t kept = r->n;
    if (series->n == 0) {
        memset(&r->all, 0, sizeof r->all); /* what came before was not to be kept */
    }
    WHI_BENCH_TRY(r->is_present ? whi_dgraph_draw_present(g, r->n)
                                : whi_dgraph_draw(g, r->n, WHI_DGRAPH_UNIFORM));
    WHI_BENCH_TRY(whi_bench_check(g->p.b, triangles(g, s), "an algorithm"));
    const uint64_t before = s->total;
    if (r->is_present) {
        WHI_BENCH_TRY(time_batch(g, &batch, &r->triangles, series));
    }
    WHI_BENCH_TRY(whi_dgraph_apply(g, (whi_dgraph_update){fn[0], r->n, 1, NULL, NULL}));
    if (!r->is_present) {
        batch.done = g->device_done; /* those of which it says that they are new */
        WHI_BENCH_TRY(time_batch(g, &batch, &r->triangles, series));
    }
    WHI_BENCH_TRY(time_run(g, &all, &r->all));
    series->bad += s->total != (r->is_present ? before - r->triangles : before + r->triangles);
    WHI_BENCH_TRY(whi_dgraph_keep_applied(g, r->n, &kept));
    return kept == 0 ? WH_OK : whi_dgraph_apply(g, (whi_dgraph_update){.fn = fn[1], .n = kept});
}

static wh_status batch_rows(whi_dgraph *g, state *s) {
    static const char *const names[2][2] = {{"triangles-of-new", "triangles-after-new"},
                                            {"triangles-of-old", "triangles-after-old"}};
    const whi_bench_list batches = whi_dgraph_batches(g->p.b);
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, whi_dgraph_most(g->p.b)));
    for (int is_present = 0; is_present < 2; is_present++) {
        for (size_t i = 0; i < batches.n; i++) {
            batch_runs r = {.s = s, .n = batches.v[i], .is_present = is_present};
            whi_bench_series series;
            memset(&series, 0, sizeof series);
            if (whi_dgraph_leave_out(g, names[is_present][0], r.n)) {
                return WH_OK;
            }
            WHI_BENCH_TRY(whi_dgraph_repeat(g, count_batch, &r, &series));
            whi_bench_row row = whi_dgraph_row(g, names[is_present][0], r.n);
            whi_bench_add_value(&row, "triangles", (double)r.triangles, 0);
            WHI_BENCH_TRY(whi_bench_emit(g->p.b, &row, &series));
            row = whi_dgraph_row(g, names[is_present][1], r.n);
            row.ops = g->csr->n_arcs;
            whi_bench_add_value(&row, "triangles", (double)s->total, 0);
            WHI_BENCH_TRY(whi_bench_emit(g->p.b, &row, &r.all));
        }
    }
    return WH_OK;
}

/* --- floors -------------------------------------------------------------------------------------
 */

/* An iteration of PageRank on arrays: each vertex sums up the shares of its neighbours, by a lane
 * and by a warp. */
static wh_status floors(whi_dgraph *g, const state *s) {
    whi_bench *b = g->p.b;
    const uint64_t n = g->csr->n_vertices;
    float *share = malloc(n * sizeof *share);
    wh_bench_floor_call call;
    if (share == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "no memory for ranks");
    }
    for (uint64_t v = 0; v < n; v++) {
        const uint64_t degree = g->csr->offset[v + 1] - g->csr->offset[v];
        share[v] = 1.0f / (float)n / (float)(degree != 0 ? degree : 1);
    }
    const wh_status status = wh_device_copy_in(b->device, s->before, share, n * sizeof *share);
    free(share);
    WHI_BENCH_TRY(whi_bench_check(b, status, "ranks"));
    memset(&call, 0, sizeof call);
    call.n = n;
    call.offset = g->device_offset;
    call.arcs = g->device_arcs;
    call.share = s->before;
    call.rank = s->rank;
    call.rest = (1.0f - (float)DAMPING) / (float)n;
    call.damping = (float)DAMPING;
    WHI_BENCH_TRY(whi_dgraph_floor(g, "floor-pull-lane", g->floors->pull_lane, &call, n));
    WHI_BENCH_TRY(
        whi_dgraph_floor(g, "floor-pull-warp", g->floors->pull_warp, &call, n * WHI_BENCH_WARP));
    return whi_dgraph_floor_copy(g);
}

static wh_status all_rows(whi_dgraph *g, state *s) {
    const uint64_t bytes = 4 * (uint64_t)g->csr->n_vertices;
    WHI_BENCH_TRY(whi_dgraph_memory(g, &s->rank, bytes));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &s->before, bytes));
    WHI_BENCH_TRY(whi_bench_check(g->p.b, wh_device_set(g->p.b->device, s->rank, 0, bytes), ""));
    WHI_BENCH_TRY(whi_dgraph_create(g));
    s->most_iterations = 1;
    const wh_status can = pagerank(g, s); /* also loads its kernels */
    s->most_iterations = 0;
    if (can == WH_UNSUPPORTED) {
        return WH_OK; /* no algorithms on this class: it need not be filled */
    }
    WHI_BENCH_TRY(whi_dgraph_load(g));
    WHI_BENCH_TRY(whi_bench_check(g->p.b, can, "PageRank"));
    if (g->is_first) {
        WHI_BENCH_TRY(floors(g, s));
    }
    WHI_BENCH_TRY(pagerank_rows(g, s));
    WHI_BENCH_TRY(other_rows(g, s));
    WHI_BENCH_TRY(batch_rows(g, s));
    return warm_rows(g, s);
}

static wh_status run(whi_dgraph *g) {
    const size_t bytes = 4 * (size_t)g->csr->n_vertices;
    state s;
    memset(&s, 0, sizeof s);
    s.host[0] = malloc(bytes);
    s.host[1] = malloc(bytes);
    const wh_status status = s.host[0] != NULL && s.host[1] != NULL
                                 ? all_rows(g, &s)
                                 : whi_bench_fail(g->p.b, WH_OUT_OF_MEMORY, "no memory for ranks");
    free(s.host[0]);
    free(s.host[1]);
    return status;
}

wh_status whi_bench_case_graph_algorithms(whi_bench *b) {
    static const whi_dgraph_job job = {.run = run, .undirected = 1, .batches = 1};
    return whi_dgraph_each(b, &job);
}

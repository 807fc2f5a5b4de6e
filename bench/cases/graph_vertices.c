/* graph_vertices.c: the case graph-vertices: vertices come to a graph and others go, without names
 * and by name. Those that come have no arcs; those that go are any of the set, so that all arcs
 * from them and to them go, too. Each time in a new graph with all arcs of the set.
 * docs/BENCHMARK.md has the protocol. */
#include "warpheap/graph_vertices.h"

#include <stdlib.h>
#include <string.h>

#include "bench/cases/dgraph.h"

#define MOST ((uint64_t)100000) /* vertices that come, or go */

enum { ADD, REMOVE, N_OPS };

static const char *const ops[2][N_OPS] = {{"add", "remove"}, {"add-names", "remove-names"}};

/* Lists of vertices, and what is known of them. */
typedef struct lists {
    uint64_t room;      /* vertices that come or go at most */
    uint32_t *order;    /* entries of the set, those that go in front */
    uint32_t *id_of;    /* entry -> its vertex */
    uint32_t *ids;      /* that go */
    uint64_t *names;    /* entry -> its name; those of the set, and behind them of `room` more */
    uint64_t *gone;     /* names of those that go */
    uint64_t *offset;   /* of the set, with as many ids as the graph has */
    unsigned char *out; /* a vertex: it goes */
    void *device_ids, *device_names, *device_gone, *device_of, *device_offset;
} lists;

static void drop_lists(lists *l) {
    free(l->order);
    free(l->id_of);
    free(l->ids);
    free(l->names);
    free(l->gone);
    free(l->offset);
    free(l->out);
}

/* No two entries have the same name, and none has NO_NAME. */
static uint64_t name_of(uint64_t entry) {
    return (entry + 1) * 0x9e3779b97f4a7c15u;
}

static wh_status open_lists(whi_dgraph *g, lists *l) {
    whi_bench *b = g->p.b;
    const uint64_t n = g->csr->n_vertices, all = n + l->room;
    l->order = malloc(n * sizeof *l->order);
    l->id_of = malloc(n * sizeof *l->id_of);
    l->ids = malloc(l->room * sizeof *l->ids);
    l->names = malloc(all * sizeof *l->names);
    l->gone = malloc(l->room * sizeof *l->gone);
    l->offset = malloc((all + 1) * sizeof *l->offset);
    l->out = malloc(n);
    if (!l->order || !l->id_of || !l->ids || !l->names || !l->gone || !l->offset || !l->out) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "no memory for lists of vertices");
    }
    for (uint64_t i = 0; i < all; i++) {
        l->names[i] = name_of(i);
        l->offset[i] = g->csr->offset[i < n ? i : n];
    }
    l->offset[all] = g->csr->n_arcs;
    for (uint64_t i = 0; i < n; i++) {
        l->order[i] = l->id_of[i] = (uint32_t)i;
    }
    WHI_BENCH_TRY(whi_dgraph_csr_in(g));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &l->device_ids, l->room * sizeof *l->ids));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &l->device_names, all * sizeof *l->names));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &l->device_gone, l->room * sizeof *l->gone));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &l->device_of, n * sizeof *l->id_of));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &l->device_offset, (all + 1) * sizeof *l->offset));
    wh_status s =
        wh_device_copy_in(b->device, l->device_offset, l->offset, (all + 1) * sizeof *l->offset);
    s = s == WH_OK ? wh_device_copy_in(b->device, l->device_names, l->names, all * sizeof *l->names)
                   : s;
    return whi_bench_check(b, s, "lists of vertices");
}

/* Repetitions with lists of n vertices. */
typedef struct vertex_runs {
    lists *l;
    uint64_t n;
    int by_name;
    int can_remove;
    whi_bench_series series[N_OPS], host[N_OPS];
    wh_graph_vertices_result result[N_OPS]; /* of the last repetition from the host */
} vertex_runs;

/* All vertices of the set get names, and any ids. */
static wh_status name_all(whi_dgraph *g, const vertex_runs *r) {
    whi_bench *b = g->p.b;
    wh_graph_vertex_list list;
    memset(&list, 0, sizeof list);
    list.names = r->l->device_names;
    list.ids = r->l->device_of;
    list.n = g->csr->n_vertices;
    list.on_device = 1;
    wh_graph_vertices_result result;
    WHI_BENCH_TRY(
        whi_bench_check(b, wh_graph_add_vertices(g->graph, &list, &result), "named vertices"));
    return whi_bench_check(
        b,
        wh_device_copy_out(b->device, r->l->id_of, r->l->device_of, list.n * sizeof *r->l->id_of),
        "named vertices");
}

/* A new graph of the set, with room for what comes. */
static wh_status load(whi_dgraph *g, const vertex_runs *r) {
    whi_bench *b = g->p.b;
    const lists *l = r->l;
    WHI_BENCH_TRY(whi_dgraph_destroy(g));
    wh_graph_options o = whi_dgraph_options(g);
    o.most_vertices = o.vertices + l->room;
    o.vertices = r->by_name ? 0 : o.vertices;
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_create(&g->graph, &o), "a graph"));
    if (r->by_name) {
        WHI_BENCH_TRY(name_all(g, r));
    }
    const wh_graph_arrays arrays = {
        .offset = l->device_offset, .to = g->device_arcs, .on_device = 1};
    return whi_bench_check(b, wh_graph_from_csr(g->graph, &arrays, NULL), "a graph from arrays");
}

/* Any n vertices of the set, to go; what their arcs are is in the returned number: of those from
 * them and to them. */
static wh_status draw(whi_dgraph *g, const vertex_runs *r, uint64_t *arcs) {
    whi_bench *b = g->p.b;
    const wh_graph_csr *csr = g->csr;
    lists *l = r->l;
    memset(l->out, 0, csr->n_vertices);
    for (uint64_t i = 0; i < r->n; i++) {
        const uint64_t k = i + whi_dgraph_random(&g->random) % (csr->n_vertices - i);
        const uint32_t entry = l->order[k];
        l->order[k] = l->order[i];
        l->order[i] = entry;
        l->ids[i] = l->id_of[entry];
        l->gone[i] = l->names[entry];
        l->out[l->ids[i]] = 1;
    }
    *arcs = 0;
    for (uint32_t v = 0; v < csr->n_vertices; v++) {
        for (uint64_t i = csr->offset[v]; i < csr->offset[v + 1]; i++) {
            *arcs += l->out[v] | l->out[csr->to[i]];
        }
    }
    wh_status s = wh_device_copy_in(b->device, l->device_ids, l->ids, r->n * sizeof *l->ids);
    s = s == WH_OK ? wh_device_copy_in(b->device, l->device_gone, l->gone, r->n * sizeof *l->gone)
                   : s;
    return whi_bench_check(b, s, "a list of vertices");
}

static wh_graph_vertex_list list_of(const whi_dgraph *g, const vertex_runs *r, int op,
                                    int on_device) {
    const lists *l = r->l;
    const uint64_t *names = on_device ? l->device_names : l->names;
    wh_graph_vertex_list list;
    memset(&list, 0, sizeof list);
    list.n = r->n;
    list.on_device = on_device;
    list.by_name = r->by_name;
    if (op == ADD) {
        list.names = r->by_name ? names + g->csr->n_vertices : NULL;
    } else if (r->by_name) {
        list.names = on_device ? l->device_gone : l->gone;
    } else {
        list.ids = on_device ? l->device_ids : l->ids;
    }
    return list;
}

static wh_status call(whi_dgraph *g, const vertex_runs *r, int op, int on_device,
                      wh_graph_vertices_result *result) {
    const wh_graph_vertex_list list = list_of(g, r, op, on_device);
    return op == ADD ? wh_graph_add_vertices(g->graph, &list, result)
                     : wh_graph_remove_vertices(g->graph, &list, result);
}

/* Whether there are as many vertices and arcs as there should be. Counts in *bad. */
static wh_status verify(whi_dgraph *g, const vertex_runs *r, uint64_t arcs, uint64_t *bad) {
    const uint64_t gone = r->can_remove ? r->n : 0;
    wh_graph_stats stats;
    memset(&stats, 0, sizeof stats);
    WHI_BENCH_TRY(whi_bench_check(g->p.b, wh_graph_get_stats(g->graph, &stats), "statistics"));
    *bad += stats.vertices != g->csr->n_vertices + r->n - gone ||
            stats.arcs != g->csr->n_arcs - (r->can_remove ? arcs : 0);
    return WH_OK;
}

static wh_status time_device(whi_dgraph *g, vertex_runs *r, int op, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, call(g, r, op, 1, NULL), ops[r->by_name][op]));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

static wh_status time_host(whi_dgraph *g, vertex_runs *r, int op) {
    const double start = whi_bench_wall_seconds();
    const wh_status s = call(g, r, op, 0, &r->result[op]);
    whi_bench_add_sample(&r->host[op], 1e6 * (whi_bench_wall_seconds() - start));
    return whi_bench_check(g->p.b, s, ops[r->by_name][op]);
}

/* A graph takes memory with its first list from the host, once: with one that is only looked up. */
static wh_status bring_list(whi_dgraph *g, const vertex_runs *r) {
    wh_graph_vertex_list list;
    memset(&list, 0, sizeof list);
    list.names = r->l->names;
    list.ids = r->l->ids;
    list.n = r->n;
    return whi_bench_check(g->p.b, wh_graph_find_vertices(g->graph, &list), "names");
}

/* Both from arrays of the device, then in a new graph both from the host. */
static wh_status step(whi_dgraph *g, void *context, whi_bench_series *series) {
    vertex_runs *r = context;
    const int is_kept = series == r->series;
    uint64_t arcs = 0;
    whi_bench_series none;
    memset(&none, 0, sizeof none);
    WHI_BENCH_TRY(load(g, r));
    WHI_BENCH_TRY(draw(g, r, &arcs));
    for (int op = 0; op < (r->can_remove ? N_OPS : REMOVE); op++) {
        WHI_BENCH_TRY(time_device(g, r, op, is_kept ? &r->series[op] : &none));
    }
    WHI_BENCH_TRY(verify(g, r, arcs, &series->bad));
    if (!is_kept) {
        return WH_OK;
    }
    WHI_BENCH_TRY(load(g, r));
    WHI_BENCH_TRY(bring_list(g, r));
    WHI_BENCH_TRY(draw(g, r, &arcs)); /* names have other ids now */
    for (int op = 0; op < (r->can_remove ? N_OPS : REMOVE); op++) {
        WHI_BENCH_TRY(time_host(g, r, op));
        r->series[op].bad += r->result[op].applied != r->n;
        r->series[op].failed += r->result[op].refused;
    }
    r->series[REMOVE].bad += r->can_remove && r->result[REMOVE].arcs != arcs;
    return verify(g, r, arcs, &series->bad);
}

static wh_status rows(whi_dgraph *g, lists *l, uint64_t n, int by_name, int can_remove) {
    whi_bench *b = g->p.b;
    vertex_runs r;
    memset(&r, 0, sizeof r);
    r.l = l;
    r.n = n;
    r.by_name = by_name;
    r.can_remove = can_remove;
    whi_bench_row row = whi_dgraph_row(g, ops[by_name][ADD], n);
    WHI_BENCH_TRY(whi_dgraph_null(g, n, &row));
    const double us_null = row.us_null;
    WHI_BENCH_TRY(whi_dgraph_repeat(g, step, &r, r.series));
    r.series[ADD].bad += wh_graph_check(g->graph, NULL) != WH_OK;
    for (int op = 0; op < (can_remove ? N_OPS : REMOVE); op++) {
        row = whi_dgraph_row(g, ops[by_name][op], n);
        row.us_null = us_null;
        whi_bench_add_value(&row, "us_e2e", whi_bench_median(r.host[op].us, r.host[op].n), 1);
        whi_bench_add_value(&row, "applied", (double)r.result[op].applied, 0);
        if (op == REMOVE) {
            whi_bench_add_value(&row, "arcs", (double)r.result[op].arcs, 0);
        }
        WHI_BENCH_TRY(whi_bench_emit(b, &row, &r.series[op]));
    }
    return WH_OK;
}

/* Whether vertices can be removed from graphs of this class: a list that has none of them says so.
 */
static wh_status try_remove(whi_dgraph *g, int *can) {
    uint32_t none = WH_GRAPH_NO_ID;
    wh_graph_vertex_list list;
    memset(&list, 0, sizeof list);
    list.ids = &none;
    list.n = 1;
    WHI_BENCH_TRY(whi_dgraph_create(g));
    const wh_status s = wh_graph_remove_vertices(g->graph, &list, NULL);
    *can = s != WH_UNSUPPORTED;
    return s == WH_UNSUPPORTED || s == WH_NO_VERTEX ? WH_OK
                                                    : whi_bench_check(g->p.b, s, "no vertices");
}

/* Lists with as many vertices as batches have arcs, if there are so many. */
static wh_status all_rows(whi_dgraph *g, lists *l) {
    const whi_bench_list batches = whi_dgraph_batches(g->p.b);
    int can_remove = 0;
    WHI_BENCH_TRY(open_lists(g, l));
    WHI_BENCH_TRY(try_remove(g, &can_remove));
    if (g->is_first) { /* a removal looks at all adjacencies once */
        WHI_BENCH_TRY(whi_dgraph_floor_copy(g));
    }
    for (int by_name = 0; by_name < 2; by_name++) {
        for (size_t i = 0; i < batches.n; i++) {
            const uint64_t n = batches.v[i];
            if (n <= l->room && !whi_dgraph_leave_out(g, ops[by_name][ADD], n)) {
                WHI_BENCH_TRY(rows(g, l, n, by_name, can_remove));
            }
        }
    }
    return WH_OK;
}

static wh_status run(whi_dgraph *g) {
    const uint64_t most = whi_dgraph_most(g->p.b), n = g->csr->n_vertices;
    lists l;
    memset(&l, 0, sizeof l);
    l.room = most < MOST ? most : MOST;
    l.room = l.room < n ? l.room : n;
    g->p.b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    const wh_status s = all_rows(g, &l);
    drop_lists(&l);
    return s;
}

wh_status whi_bench_case_graph_vertices(whi_bench *b) {
    static const whi_dgraph_job job = {.run = run, .batches = 1};
    return whi_dgraph_each(b, &job);
}

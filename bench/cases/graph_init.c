/* graph_init.c: the case graph-init: what it takes to make a graph of arrays on the device, to make
 * arrays of it, and how much memory it has: at first, and after a sweep of batches that go in and
 * out again. */
#include <string.h>

#include "bench/cases/dgraph.h"

#define SWEEPS 16u

static wh_status create(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    const wh_graph_options o = whi_dgraph_options(g);
    (void)context;
    WHI_BENCH_TRY(whi_dgraph_destroy(g));
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_sync(b->device), "creation"));
    const double start = whi_bench_wall_seconds();
    const wh_status s = wh_graph_create(&g->graph, &o);
    whi_bench_add_sample(series, 1e6 * (whi_bench_wall_seconds() - start));
    return whi_bench_check(b, s, "a graph");
}

/* The graph of arrays on the device, in a new one each time. */
static wh_status fill(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    const wh_graph_arrays arrays = {
        .offset = g->device_offset, .to = g->device_arcs, .on_device = 1};
    whi_bench_watch watch;
    wh_graph_result result;
    double us = 0;
    (void)context;
    WHI_BENCH_TRY(whi_dgraph_create(g));
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    const wh_status s = wh_graph_from_csr(g->graph, &arrays, &result);
    WHI_BENCH_TRY(whi_bench_check(b, s, "a graph from arrays"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    series->bad += result.applied != g->csr->n_arcs;
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* What graphs are turned into. */
typedef struct outputs {
    void *offset, *to, *degree;
} outputs;

static wh_status to_csr(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    const outputs *out = context;
    const wh_graph_arrays arrays = {
        .offset = out->offset, .to = out->to, .room = g->csr->n_arcs, .on_device = 1};
    whi_bench_watch watch;
    uint64_t n = 0;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_to_csr(g->graph, &arrays, &n), "arrays"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    series->bad += n != g->csr->n_arcs;
    whi_bench_add_sample(series, us);
    return WH_OK;
}

static wh_status degrees(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    const outputs *out = context;
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_degrees(g->graph, out->degree, 1, NULL), "degrees"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

/* A series and its row, of one operation on `ops` things. */
static wh_status row_of(whi_dgraph *g, const char *op, whi_dgraph_step step, outputs *out,
                        uint64_t ops) {
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    if (whi_dgraph_leave_out(g, op, g->csr->n_vertices)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_repeat(g, step, out, &series));
    whi_bench_row row = whi_dgraph_row(g, op, g->csr->n_vertices);
    row.ops = ops;
    return whi_bench_emit(g->p.b, &row, &series);
}

/* The row init has what the graph takes, in bytes an arc, and over 4 bytes an arc and 32 a vertex.
 */
static wh_status init(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    const double arcs = (double)g->csr->n_arcs;
    wh_graph_stats stats;
    whi_bench_series series;
    uint64_t bytes = 0;
    memset(&stats, 0, sizeof stats);
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(whi_dgraph_csr_in(g));
    WHI_BENCH_TRY(whi_dgraph_repeat(g, fill, NULL, &series));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_get_stats(g->graph, &stats), "statistics"));
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &bytes));
    whi_bench_row row = whi_dgraph_row(g, "init", g->csr->n_vertices);
    row.ops = g->csr->n_arcs;
    whi_bench_add_value(&row, "arcs", arcs, 0);
    whi_bench_add_value(&row, "max_degree", (double)stats.max_degree, 0);
    whi_bench_add_value(&row, "block_bytes", (double)stats.block_bytes, 0);
    whi_bench_add_value(&row, "graph_bytes", (double)bytes, 0);
    whi_bench_add_value(&row, "bytes_per_arc", (double)bytes / arcs, 2);
    whi_bench_add_value(&row, "of_plain", (double)bytes / (4 * arcs + 32.0 * g->csr->n_vertices),
                        3);
    return whi_bench_emit(b, &row, &series);
}

/* A batch into and out of each sixteenth of the vertices. */
static wh_status sweep(whi_dgraph *g, uint64_t n, whi_bench_series *series) {
    const uint32_t all = g->csr->n_vertices;
    const uint32_t span = (all + SWEEPS - 1) / SWEEPS;
    for (uint32_t k = 0; k < SWEEPS; k++) {
        whi_bench_series half;
        wh_graph_result in, out;
        memset(&half, 0, sizeof half);
        memset(&out, 0, sizeof out);
        WHI_BENCH_TRY(whi_dgraph_draw_range(g, n, k * span % all, span));
        WHI_BENCH_TRY(whi_dgraph_apply(
            g, (whi_dgraph_update){
                   .fn = wh_graph_insert, .n = n, .with_done = 1, .series = &half, .result = &in}));
        uint64_t kept = 0;
        WHI_BENCH_TRY(whi_dgraph_keep_applied(g, n, &kept));
        if (kept != 0) {
            WHI_BENCH_TRY(whi_dgraph_apply(
                g, (whi_dgraph_update){
                       .fn = wh_graph_erase, .n = kept, .series = &half, .result = &out}));
        }
        series->steps += half.steps;
        series->atomics += half.atomics;
        series->failed += in.refused;
        series->bad += out.applied != kept;
        whi_bench_add_sample(series, half.us[0] + (kept != 0 ? half.us[1] : 0));
    }
    return WH_OK;
}

static wh_status sweep_row(whi_dgraph *g, uint64_t n) {
    uint64_t before = 0, after = 0, arcs = 0;
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    if (whi_dgraph_leave_out(g, "sweep", n)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &before));
    WHI_BENCH_TRY(sweep(g, n, &series));
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &after));
    WHI_BENCH_TRY(whi_dgraph_arcs(g, &arcs));
    series.bad += arcs != g->csr->n_arcs;
    whi_bench_row row = whi_dgraph_row(g, "sweep", n);
    row.ops = 2 * n;
    whi_bench_add_value(&row, "bytes_before", (double)before, 0);
    whi_bench_add_value(&row, "bytes_after", (double)after, 0);
    whi_bench_add_value(&row, "of_before", (double)after / (double)before, 4);
    return whi_bench_emit(g->p.b, &row, &series);
}

static wh_status run(whi_dgraph *g) {
    const uint64_t n = g->csr->n_vertices, arcs = g->csr->n_arcs;
    const uint64_t most = whi_dgraph_most(g->p.b);
    outputs out;
    if (g->is_first) {
        WHI_BENCH_TRY(whi_dgraph_floor_copy(g));
    }
    WHI_BENCH_TRY(row_of(g, "create", create, NULL, n));
    WHI_BENCH_TRY(init(g));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &out.offset, (n + 1) * sizeof(uint64_t)));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &out.to, arcs * sizeof(uint32_t)));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &out.degree, n * sizeof(uint32_t)));
    WHI_BENCH_TRY(row_of(g, "to-csr", to_csr, &out, arcs));
    WHI_BENCH_TRY(row_of(g, "degrees", degrees, &out, n));
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, most));
    return sweep_row(g, most);
}

wh_status whi_bench_case_graph_init(whi_bench *b) {
    static const whi_dgraph_job job = {.run = run, .batches = 1};
    return whi_dgraph_each(b, &job);
}

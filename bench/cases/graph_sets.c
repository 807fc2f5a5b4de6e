/* graph_sets.c: the case graph-sets: a graph of warpheap::graph takes batches of arcs and gives
 * them back. The sources are any vertices (uniform), a thousand that follow one another (focus), or
 * ten (hub); or the arcs are some that the graph has (present). docs/BENCHMARK.md has the protocol.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/dgraph.h"

static const char *const insert_names[] = {"insert-uniform", "insert-focus", "insert-hub"};
static const char *const erase_names[] = {"erase-uniform", "erase-focus", "erase-hub"};
static const char *const append_names[] = {"floor-append-uniform", "floor-append-focus",
                                           "floor-append-hub"};
static const char *const sort_names[] = {"floor-sort-uniform", "floor-sort-focus",
                                         "floor-sort-hub"};
static const char *const rebuild_names[] = {"floor-rebuild-uniform", "floor-rebuild-focus",
                                            "floor-rebuild-hub"};

/* --- floors ----------------------------------------------------------------------------------- */

/* Of an allocator and a graph once: they know no class. */
typedef struct floors {
    wh_bench_floor_call call;
    wh_bench_cub cub; /* bits 0: none */
} floors;

/* The arcs of the set as keys, on the device. */
static wh_status keys_in(whi_dgraph *g, floors *f, void *old) {
    whi_bench *b = g->p.b;
    const wh_graph_csr *csr = g->csr;
    uint64_t *keys = malloc((csr->n_arcs + 1) * sizeof *keys);
    if (keys == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "no memory for keys");
    }
    for (uint32_t v = 0; v < csr->n_vertices; v++) {
        for (uint64_t i = csr->offset[v]; i < csr->offset[v + 1]; i++) {
            keys[i] = (uint64_t)v << f->cub.bits | csr->to[i];
        }
    }
    const wh_status s = wh_device_copy_in(b->device, old, keys, csr->n_arcs * sizeof *keys);
    free(keys);
    return whi_bench_check(b, s, "keys");
}

/* Memory for CUB, which there is on GPUs alone. */
static wh_status open_cub(whi_dgraph *g, floors *f, uint64_t most) {
    wh_bench_cub *c = &f->cub;
    const uint64_t arcs = g->csr->n_arcs, all = arcs + most;
    void *p[10];
    const uint64_t bytes[10] = {
        4 * most, 4 * most, 8 * most, 8 * most, 8 * arcs + 8,
        8 * all,  8 * all,  8,        4 * all,  8 * (g->csr->n_vertices + (uint64_t)1)};
    if (g->p.b->on_sim || all > INT32_MAX) {
        return WH_OK;
    }
    /* One piece: whi_dgraph_memory keeps few. */
    uint64_t sum = 0;
    for (size_t i = 0; i < 10; i++) {
        sum += (bytes[i] + 255) & ~(uint64_t)255;
    }
    void *memory = NULL;
    WHI_BENCH_TRY(whi_dgraph_memory(g, &memory, sum));
    sum = 0;
    for (size_t i = 0; i < 10; i++) {
        p[i] = (unsigned char *)memory + sum;
        sum += (bytes[i] + 255) & ~(uint64_t)255;
    }
    for (c->bits = 1; (uint64_t)1 << c->bits < g->csr->n_vertices; c->bits++) {
    }
    c->from = f->call.from;
    c->to = f->call.to;
    c->sorted[0] = p[0];
    c->sorted[1] = p[1];
    c->keys = p[2];
    c->sorted_keys = p[3];
    c->old = p[4];
    c->n_old = arcs;
    c->merged = p[5];
    c->unique = p[6];
    c->n_unique = p[7];
    c->arcs = p[8];
    c->offset = p[9];
    c->n_vertices = g->csr->n_vertices;
    c->n = most;
    WHI_BENCH_TRY(keys_in(g, f, p[4]));
    WHI_BENCH_TRY(whi_bench_check(g->p.b, wh_bench_cub_scratch(c), "memory for CUB"));
    return whi_dgraph_memory(g, &c->scratch, c->scratch_bytes + 8);
}

static wh_status open_floors(whi_dgraph *g, floors *f, uint64_t most) {
    whi_bench *b = g->p.b;
    const uint64_t n = g->csr->n_vertices;
    void *counts = NULL, *strips = NULL;
    memset(f, 0, sizeof *f);
    WHI_BENCH_TRY(whi_dgraph_memory(g, &counts, n * sizeof(uint32_t)));
    WHI_BENCH_TRY(whi_dgraph_memory(g, &strips, n * WH_BENCH_STRIP * sizeof(uint32_t)));
    WHI_BENCH_TRY(
        whi_bench_check(b, wh_device_set(b->device, counts, 0, n * sizeof(uint32_t)), "counts"));
    f->call.from = g->device_from;
    f->call.to = g->device_to;
    f->call.counts = counts;
    f->call.strips = strips;
    return open_cub(g, f, most);
}

typedef struct cub_run {
    const wh_bench_cub *cub;
    wh_status (*run)(const wh_bench_cub *c);
} cub_run;

static wh_status launch_cub(whi_dgraph *g, void *context, whi_bench_series *series) {
    const cub_run *c = context;
    whi_bench *b = g->p.b;
    whi_bench_watch watch;
    double us = 0;
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, c->run(c->cub), "CUB"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    return WH_OK;
}

static wh_status cub_row(whi_dgraph *g, const char *op, cub_run c) {
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(whi_dgraph_repeat(g, launch_cub, &c, &series));
    whi_bench_row row = {.phase = "warm", .op = op, .threads = c.cub->n, .ops = c.cub->n};
    row.input = g->set->name;
    return whi_bench_emit(g->p.b, &row, &series);
}

/* Of a batch that has just been drawn. */
static wh_status floor_rows(whi_dgraph *g, floors *f, uint64_t n, int distribution) {
    f->call.n = n;
    f->cub.n = n;
    WHI_BENCH_TRY(whi_dgraph_floor(g, append_names[distribution], g->floors->append, &f->call, n));
    if (f->cub.bits == 0) {
        return WH_OK;
    }
    WHI_BENCH_TRY(cub_row(g, sort_names[distribution], (cub_run){&f->cub, wh_bench_cub_sort}));
    return cub_row(g, rebuild_names[distribution], (cub_run){&f->cub, wh_bench_cub_rebuild});
}

static wh_status all_floors(whi_dgraph *g, uint64_t most) {
    const whi_bench_list batches = whi_dgraph_batches(g->p.b);
    floors f;
    WHI_BENCH_TRY(open_floors(g, &f, most));
    for (int distribution = 0; distribution < WHI_DGRAPH_DISTRIBUTIONS; distribution++) {
        for (size_t i = 0; i < batches.n; i++) {
            WHI_BENCH_TRY(whi_dgraph_draw(g, batches.v[i], distribution));
            WHI_BENCH_TRY(floor_rows(g, &f, batches.v[i], distribution));
        }
    }
    return WH_OK;
}

/* --- batches ---------------------------------------------------------------------------------- */

/* Batches go in, and the same out again. */
static wh_status rounds(whi_dgraph *g, uint64_t n, int distribution) {
    const char *const names[2] = {insert_names[distribution], erase_names[distribution]};
    whi_dgraph_pair p;
    memset(&p, 0, sizeof p);
    p.fn[0] = wh_graph_insert;
    p.fn[1] = wh_graph_erase;
    p.n = n;
    p.distribution = distribution;
    return whi_dgraph_pair_rows(g, &p, names);
}

/* Arcs of the graph go out, and in again. */
static wh_status present(whi_dgraph *g, uint64_t n) {
    static const char *const names[2] = {"erase-present", "insert-back"};
    whi_dgraph_pair p;
    memset(&p, 0, sizeof p);
    p.fn[0] = wh_graph_erase;
    p.fn[1] = wh_graph_insert;
    p.n = n;
    p.distribution = WHI_DGRAPH_PRESENT;
    return whi_dgraph_pair_rows(g, &p, names);
}

static wh_status ask(whi_dgraph *g, void *context, whi_bench_series *series) {
    const uint64_t *n = context;
    WHI_BENCH_TRY(whi_dgraph_draw(g, *n, WHI_DGRAPH_UNIFORM));
    return whi_dgraph_has(g, *n, series);
}

static wh_status questions(whi_dgraph *g, uint64_t n) {
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(whi_dgraph_repeat(g, ask, &n, &series));
    whi_bench_row row = whi_dgraph_row(g, "has", n);
    return whi_bench_emit(g->p.b, &row, &series);
}

/* --- the case ----------------------------------------------------------------------------------
 */

/* The graph from arrays of the host: the whole call. */
static wh_status init(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    const wh_graph_csr *csr = g->csr;
    wh_graph_stats stats;
    wh_graph_result result;
    whi_bench_series series;
    memset(&stats, 0, sizeof stats);
    memset(&series, 0, sizeof series);
    WHI_BENCH_TRY(whi_dgraph_create(g));
    const wh_graph_arrays arrays = {.offset = csr->offset, .to = csr->to};
    const double start = whi_bench_wall_seconds();
    const wh_status status = wh_graph_from_csr(g->graph, &arrays, &result);
    WHI_BENCH_TRY(whi_bench_check(b, status, "a graph from arrays"));
    whi_bench_set_sample(&series, 1e6 * (whi_bench_wall_seconds() - start));
    WHI_BENCH_TRY(whi_bench_check(b, wh_graph_get_stats(g->graph, &stats), "statistics"));
    series.bad = result.applied != csr->n_arcs || stats.arcs != result.applied;
    whi_bench_row row = whi_dgraph_row(g, "init", csr->n_vertices);
    row.ops = csr->n_arcs;
    whi_bench_add_value(&row, "arcs", (double)stats.arcs, 0);
    whi_bench_add_value(&row, "max_degree", (double)stats.max_degree, 0);
    whi_bench_add_value(&row, "block_bytes", (double)stats.block_bytes, 0);
    return whi_bench_emit(b, &row, &series);
}

static wh_status run(whi_dgraph *g) {
    whi_bench *b = g->p.b;
    const whi_bench_list batches = whi_dgraph_batches(b);
    const uint64_t most = whi_dgraph_most(b);
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, most));
    if (g->is_first) {
        WHI_BENCH_TRY(all_floors(g, most));
    }
    WHI_BENCH_TRY(init(g));
    for (size_t i = 0; i < batches.n; i++) {
        if (!whi_dgraph_leave_out(g, "erase-present", batches.v[i])) {
            WHI_BENCH_TRY(present(g, batches.v[i]));
        }
    }
    for (int distribution = 0; distribution < WHI_DGRAPH_DISTRIBUTIONS; distribution++) {
        for (size_t i = 0; i < batches.n; i++) {
            if (!whi_dgraph_leave_out(g, insert_names[distribution], batches.v[i])) {
                WHI_BENCH_TRY(rounds(g, batches.v[i], distribution));
            }
        }
    }
    if (!whi_dgraph_leave_out(g, "has", most)) {
        WHI_BENCH_TRY(questions(g, most));
    }
    return whi_dgraph_look(g, "check");
}

wh_status whi_bench_case_graph_sets(whi_bench *b) {
    static const whi_dgraph_job job = {.run = run, .batches = 1};
    return whi_dgraph_each(b, &job);
}

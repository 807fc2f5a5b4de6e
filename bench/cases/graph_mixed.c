/* graph_mixed.c: the case graph-mixed: batches of which one half erases and the other one inserts,
 * beside the same two halves one after the other; and batches for graphs that are more than sets of
 * arcs: with values, in order, undirected. docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/cases/dgraph.h"

/* --- both halves apart --------------------------------------------------------------------------
 */

/* An erasure and an insertion: what they take together. */
typedef struct apart {
    uint64_t n;
    whi_bench_series series, host;
    uint64_t applied; /* of both, the last time */
    uint64_t bad;
} apart;

/* The arcs that go come first. How many. */
static uint64_t part_halves(whi_dgraph *g, uint64_t n) {
    uint64_t out = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (g->erases[i]) {
            const uint32_t from = g->from[out], to = g->to[out];
            const uint8_t erases = g->erases[out];
            g->from[out] = g->from[i];
            g->to[out] = g->to[i];
            g->erases[out++] = 1;
            g->from[i] = from;
            g->to[i] = to;
            g->erases[i] = erases;
        }
    }
    return out;
}

/* One half out, the other one in. results: NULL, or one for each; then both calls are waited for.
 */
static wh_status apply_halves(whi_dgraph *g, uint64_t out, uint64_t n, int on_device,
                              wh_graph_result *results) {
    const wh_graph_batch first = whi_dgraph_batch(g, 0, out, on_device);
    const wh_graph_batch second = whi_dgraph_batch(g, out, n - out, on_device);
    wh_graph_result *its = results != NULL ? results + 1 : NULL;
    const wh_status s = wh_graph_erase(g->graph, &first, results);
    return s == WH_OK ? wh_graph_insert(g->graph, &second, its) : s;
}

/* The batch turned round puts all back; *applied: how many of its arcs did something. */
static wh_status undo(whi_dgraph *g, uint64_t n, uint64_t *applied) {
    wh_graph_result result;
    WHI_BENCH_TRY(whi_dgraph_flip(g, n));
    WHI_BENCH_TRY(
        whi_dgraph_apply(g, (whi_dgraph_update){.fn = wh_graph_update, .n = n, .result = &result}));
    *applied = result.applied;
    return whi_dgraph_flip(g, n);
}

static wh_status apply_apart(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_bench *b = g->p.b;
    apart *a = context;
    whi_bench_watch watch;
    wh_graph_result results[2];
    uint64_t back = 0;
    double us = 0;
    WHI_BENCH_TRY(whi_dgraph_draw_mixed(g, a->n));
    const uint64_t out = part_halves(g, a->n);
    WHI_BENCH_TRY(whi_dgraph_batch_in(g, a->n));
    WHI_BENCH_TRY(whi_bench_watch_start(b, &watch));
    WHI_BENCH_TRY(whi_bench_check(b, apply_halves(g, out, a->n, 1, NULL), "two batches"));
    WHI_BENCH_TRY(whi_bench_watch_stop(b, &watch, series, &us));
    whi_bench_add_sample(series, us);
    WHI_BENCH_TRY(undo(g, a->n, &back));
    if (series != &a->series) { /* not to be kept: the call before the first one */
        return WH_OK;
    }
    const double start = whi_bench_wall_seconds();
    const wh_status s = apply_halves(g, out, a->n, 0, results);
    whi_bench_add_sample(&a->host, 1e6 * (whi_bench_wall_seconds() - start));
    WHI_BENCH_TRY(whi_bench_check(b, s, "two batches"));
    WHI_BENCH_TRY(undo(g, a->n, &back));
    a->applied = results[0].applied + results[1].applied;
    a->bad += a->applied != back;
    return WH_OK;
}

static wh_status apart_row(whi_dgraph *g, uint64_t n) {
    apart a;
    memset(&a, 0, sizeof a);
    a.n = n;
    whi_bench_row row = whi_dgraph_row(g, "apart", n);
    WHI_BENCH_TRY(whi_dgraph_null(g, n, &row));
    WHI_BENCH_TRY(whi_dgraph_repeat(g, apply_apart, &a, &a.series));
    a.series.bad += a.bad;
    whi_bench_add_value(&row, "us_e2e", whi_bench_median(a.host.us, a.host.n), 1);
    whi_bench_add_value(&row, "applied", (double)a.applied, 0);
    return whi_bench_emit(g->p.b, &row, &a.series);
}

/* --- rows ---------------------------------------------------------------------------------------
 */

static wh_status pair_of(whi_dgraph *g, uint64_t n, int distribution, const char *const names[2]) {
    const int is_mixed = distribution == WHI_DGRAPH_MIXED;
    whi_dgraph_pair p;
    memset(&p, 0, sizeof p);
    p.fn[0] = is_mixed ? wh_graph_update : wh_graph_insert;
    p.fn[1] = is_mixed ? wh_graph_update : wh_graph_erase;
    p.n = n;
    p.distribution = distribution;
    return whi_dgraph_pair_rows(g, &p, names);
}

/* Of a plain graph. */
static wh_status plain_rows(whi_dgraph *g) {
    static const char *const names[2] = {"mixed", NULL};
    const whi_bench_list batches = whi_dgraph_batches(g->p.b);
    WHI_BENCH_TRY(whi_dgraph_load(g));
    for (size_t i = 0; i < batches.n; i++) {
        if (!whi_dgraph_leave_out(g, names[0], batches.v[i])) {
            WHI_BENCH_TRY(pair_of(g, batches.v[i], WHI_DGRAPH_MIXED, names));
        }
        if (!whi_dgraph_leave_out(g, "apart", batches.v[i])) {
            WHI_BENCH_TRY(apart_row(g, batches.v[i]));
        }
    }
    return whi_dgraph_look(g, "check");
}

/* What a graph may be beside that: the operations are called after it. */
typedef struct mode {
    const char *pair[2], *mixed[2], *check;
    uint32_t values;
    int sorted, undirected;
} mode;

static const mode modes[] = {
    {{"insert-values", "erase-values"}, {"mixed-values", NULL}, "check-values", 1, 0, 0},
    {{"insert-sorted", "erase-sorted"}, {"mixed-sorted", NULL}, "check-sorted", 0, 1, 0},
    /* The last one: what came after it would be undirected, too. */
    {{"insert-both", "erase-both"}, {"mixed-both", NULL}, "check-both", 0, 0, 1}};

static wh_status mode_rows(whi_dgraph *g, const mode *m) {
    const whi_bench_list batches = whi_dgraph_batches(g->p.b);
    g->values = m->values;
    g->sorted = m->sorted;
    if (m->undirected) {
        WHI_BENCH_TRY(whi_dgraph_go_undirected(g));
    }
    WHI_BENCH_TRY(whi_dgraph_load(g));
    for (size_t i = 0; i < batches.n; i++) {
        if (!whi_dgraph_leave_out(g, m->pair[0], batches.v[i])) {
            WHI_BENCH_TRY(pair_of(g, batches.v[i], WHI_DGRAPH_UNIFORM, m->pair));
        }
        if (!whi_dgraph_leave_out(g, m->mixed[0], batches.v[i])) {
            WHI_BENCH_TRY(pair_of(g, batches.v[i], WHI_DGRAPH_MIXED, m->mixed));
        }
    }
    return whi_dgraph_look(g, m->check);
}

static wh_status run(whi_dgraph *g) {
    const int has_all = strcmp(g->kind, "lattice") == 0; /* values, and an order */
    g->p.b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, whi_dgraph_most(g->p.b)));
    WHI_BENCH_TRY(plain_rows(g));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if ((has_all || modes[i].undirected) &&
            !whi_dgraph_leave_out(g, modes[i].pair[0], whi_dgraph_batches(g->p.b).v[0])) {
            WHI_BENCH_TRY(mode_rows(g, &modes[i]));
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_graph_mixed(whi_bench *b) {
    static const whi_dgraph_job job = {.run = run, .is_twice = 1, .batches = 1};
    return whi_dgraph_each(b, &job);
}

/* graph_expand.c: the case graph-expand: a graph that grows by batch after batch, and then loses
 * the same batches again. */
#include <string.h>

#include "bench/cases/dgraph.h"

/* One direction: round k has the batch of its number, so that it can be drawn again. */
typedef struct part {
    const char *op;
    whi_dgraph_fn fn;
    whi_bench_series series;
    double us_first, us_last;
    uint64_t applied;
    uint32_t rounds;
} part;

static wh_status one_round(whi_dgraph *g, part *p, uint64_t n, uint32_t number, int *full) {
    wh_graph_result result;
    g->random = g->p.b->options->seed + ((uint64_t)(number + 1) << 32);
    WHI_BENCH_TRY(whi_dgraph_draw(g, n, WHI_DGRAPH_UNIFORM));
    const whi_dgraph_update u = {.fn = p->fn, .n = n, .series = &p->series, .result = &result};
    WHI_BENCH_TRY(whi_dgraph_apply(g, u));
    p->us_last = p->series.us[p->series.n - 1];
    p->us_first = p->rounds == 0 ? p->us_last : p->us_first;
    p->applied += result.applied;
    p->series.failed += result.refused;
    p->rounds++;
    *full = result.refused != 0;
    return WH_OK;
}

static wh_status emit(whi_dgraph *g, const part *p, uint64_t n) {
    uint64_t bytes = 0, arcs = 0;
    WHI_BENCH_TRY(whi_dgraph_bytes(g, &bytes));
    WHI_BENCH_TRY(whi_dgraph_arcs(g, &arcs));
    whi_bench_row row = whi_dgraph_row(g, p->op, n);
    whi_bench_add_value(&row, "rounds", p->rounds, 0);
    whi_bench_add_value(&row, "us_first", p->us_first, 1);
    whi_bench_add_value(&row, "us_last", p->us_last, 1);
    whi_bench_add_value(&row, "applied", (double)p->applied, 0);
    whi_bench_add_value(&row, "arcs", (double)arcs, 0);
    whi_bench_add_value(&row, "graph_bytes", (double)bytes, 0);
    return whi_bench_emit(g->p.b, &row, &p->series);
}

/* Batches go in until the heap is full, or time is over. */
static wh_status grow(whi_dgraph *g, uint64_t n, uint32_t *rounds) {
    whi_bench *b = g->p.b;
    const double start = whi_bench_wall_seconds();
    uint64_t arcs = 0;
    part p;
    int full = 0;
    memset(&p, 0, sizeof p);
    p.op = "expand";
    p.fn = wh_graph_insert;
    WHI_BENCH_TRY(whi_dgraph_load(g));
    for (uint32_t k = 0; k < whi_dgraph_rounds(b) && !full; k++) {
        if (k > 0 && whi_bench_over(b, start, WHI_BENCH_CASE_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(one_round(g, &p, n, k, &full));
    }
    WHI_BENCH_TRY(whi_dgraph_arcs(g, &arcs));
    p.series.bad += arcs != g->csr->n_arcs + p.applied;
    *rounds = p.rounds;
    return emit(g, &p, n);
}

/* The batches that went in go out, the last one first: what was there before and is in a batch goes
 * out, too. */
static wh_status shrink(whi_dgraph *g, uint64_t n, uint32_t rounds) {
    uint64_t before = 0, after = 0;
    part p;
    int full = 0;
    memset(&p, 0, sizeof p);
    p.op = "shrink";
    p.fn = wh_graph_erase;
    WHI_BENCH_TRY(whi_dgraph_arcs(g, &before));
    for (uint32_t k = rounds; k > 0; k--) {
        WHI_BENCH_TRY(one_round(g, &p, n, k - 1, &full));
    }
    WHI_BENCH_TRY(whi_dgraph_arcs(g, &after));
    p.series.bad += after != before - p.applied || wh_graph_check(g->graph, NULL) != WH_OK;
    return emit(g, &p, n);
}

static wh_status run(whi_dgraph *g) {
    const whi_bench_list batches = whi_dgraph_batches(g->p.b);
    g->p.b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    WHI_BENCH_TRY(whi_dgraph_open_batches(g, whi_dgraph_most(g->p.b)));
    for (size_t i = batches.n; i > 0; i--) { /* the largest first */
        const uint64_t n = batches.v[i - 1];
        uint32_t rounds = 0;
        if (!whi_dgraph_leave_out(g, "expand", n)) {
            WHI_BENCH_TRY(grow(g, n, &rounds));
            WHI_BENCH_TRY(shrink(g, n, rounds));
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_graph_expand(whi_bench *b) {
    const whi_dgraph_job job = {.run = run, .batches = whi_dgraph_rounds(b)};
    return whi_dgraph_each(b, &job);
}

/* dgraph_pair.c: what the cases graph-* share of batches and those that undo them. */
#include <string.h>

#include "bench/cases/dgraph.h"

static wh_status draw(whi_dgraph *g, const whi_dgraph_pair *p) {
    switch (p->distribution) {
    case WHI_DGRAPH_PRESENT:
        return whi_dgraph_draw_present(g, p->n);
    case WHI_DGRAPH_MIXED:
        return whi_dgraph_draw_mixed(g, p->n);
    default:
        return whi_dgraph_draw(g, p->n, p->distribution);
    }
}

/* Before update k: a mixed batch is turned round, and round again for the next pair. */
static wh_status turn(whi_dgraph *g, const whi_dgraph_pair *p, int k) {
    return k != 0 && p->distribution == WHI_DGRAPH_MIXED ? whi_dgraph_flip(g, p->n) : WH_OK;
}

/* Both from arrays of the device, then both from the host; series: p's own. */
static wh_status apply_pair(whi_dgraph *g, void *context, whi_bench_series *series) {
    whi_dgraph_pair *p = context;
    WHI_BENCH_TRY(draw(g, p));
    for (int k = 0; k < 2; k++) {
        const whi_dgraph_update u = {.fn = p->fn[k], .n = p->n, .series = &p->series[k]};
        WHI_BENCH_TRY(turn(g, p, k));
        WHI_BENCH_TRY(whi_dgraph_apply(g, u));
    }
    if (series != p->series) { /* not to be kept: the call before the first one */
        p->series[0].n = p->series[1].n = 0;
        return WH_OK;
    }
    WHI_BENCH_TRY(turn(g, p, 1));
    for (int k = 0; k < 2; k++) {
        WHI_BENCH_TRY(turn(g, p, k));
        WHI_BENCH_TRY(whi_dgraph_apply_host(g, p->fn[k], p->n, &p->host[k], &p->result[k]));
        p->series[k].failed += p->result[k].refused;
    }
    /* What went in comes out, or what went out comes in again. */
    p->bad += p->result[0].applied != p->result[1].applied;
    return WH_OK;
}

wh_status whi_dgraph_pair_rows(whi_dgraph *g, whi_dgraph_pair *p, const char *const names[2]) {
    whi_bench *b = g->p.b;
    whi_bench_row row = whi_dgraph_row(g, names[0], p->n);
    WHI_BENCH_TRY(whi_dgraph_null(g, p->n, &row));
    const double us_null = row.us_null;
    WHI_BENCH_TRY(whi_dgraph_repeat(g, apply_pair, p, p->series));
    p->series[0].bad += p->bad;
    for (int k = 0; k < 2 && names[k] != NULL; k++) {
        row = whi_dgraph_row(g, names[k], p->n);
        row.us_null = us_null;
        const double us = whi_bench_median(p->host[k].us, p->host[k].n);
        whi_bench_add_value(&row, "us_e2e", us, 1);
        whi_bench_add_value(&row, "applied", (double)p->result[k].applied, 0);
        WHI_BENCH_TRY(whi_bench_emit(b, &row, &p->series[k]));
    }
    return WH_OK;
}

wh_status whi_dgraph_look(whi_dgraph *g, const char *op) {
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    const double start = whi_bench_wall_seconds();
    series.bad = wh_graph_check(g->graph, NULL) != WH_OK;
    whi_bench_set_sample(&series, 1e6 * (whi_bench_wall_seconds() - start));
    whi_bench_row row = whi_dgraph_row(g, op, g->csr->n_vertices);
    return whi_bench_emit(g->p.b, &row, &series);
}

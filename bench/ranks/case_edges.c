/* case_edges.c: the case edges: n arcs go into a graph of n arcs, and out again. Each rank brings
 * its part of a batch, in the memory of its device; the one-device figure is that of the whole
 * batch. Both must say the same of each repetition: the first one, which is not timed, finds some
 * arcs there already. In the end the batch is in both graphs, whose degrees must be the same. */
#include <stdlib.h>
#include <string.h>

#include "bench/ranks/ranks.h"

typedef struct edges {
    whi_ranks_series series[2];                    /* inserts, erases */
    uint64_t applied[2 * WHI_RANKS_MOST_REPS + 2]; /* of each of them, in turn */
    uint32_t *degree;                              /* of each vertex, at the end */
} edges;

static wh_status repeat(whi_ranks *b, whi_ranks_graph *g, const whi_ranks_arcs *arcs, int alone,
                        edges *e) {
    for (uint32_t i = 0; i <= b->reps; i++) {
        for (uint32_t erases = 0; erases < 2; erases++) {
            b->part.op = erases != 0 ? "erase" : "insert";
            WHI_BENCH_TRY(whi_ranks_begin(b, &e->series[erases], alone));
            const wh_status s = whi_ranks_update(g, arcs, (int)erases, &e->applied[2 * i + erases]);
            WHI_BENCH_TRY(alone ? whi_ranks_note(b, s, b->part.op) : s);
            whi_ranks_end(b, &e->series[erases]);
            whi_ranks_add_times(g, 1, &e->series[erases]);
        }
    }
    return WH_OK;
}

static wh_status take_degrees(whi_ranks *b, whi_ranks_graph *g, const whi_ranks_arcs *arcs,
                              int alone, edges *e) {
    uint64_t applied = 0;
    if (!alone) {
        WHI_BENCH_TRY(whi_ranks_update(g, arcs, 0, &applied));
        return wh_shard_degrees(g->shard, e->degree);
    }
    wh_status s = whi_ranks_update(g, arcs, 0, &applied);
    s = s == WH_OK ? wh_graph_degrees(g->one, e->degree, 0, NULL) : s;
    return whi_ranks_note(b, s, "degrees");
}

static wh_status run(whi_ranks *b, const whi_ranks_input *in, int alone, edges *e) {
    whi_ranks_graph g;
    whi_ranks_arcs arcs;
    memset(&arcs, 0, sizeof arcs);
    memset(e, 0, sizeof *e);
    wh_status s = whi_ranks_open_graph(b, in, alone, &g);
    if (s == WH_OK) {
        e->degree = calloc(whi_ranks_vertices(in), sizeof *e->degree);
        s = e->degree != NULL ? whi_ranks_take_arcs(b, in, in->n, alone, &arcs) : WH_OUT_OF_MEMORY;
        s = whi_ranks_agree_unless(b, alone, s, "a batch");
    }
    s = s == WH_OK ? repeat(b, &g, &arcs, alone, e) : s;
    s = s == WH_OK ? take_degrees(b, &g, &arcs, alone, e) : s;
    whi_ranks_drop_arcs(b, &arcs);
    whi_ranks_close_graph(b, &g);
    return s;
}

static wh_status emit(whi_ranks *b, const edges *one, const edges *all, uint64_t bad) {
    for (uint32_t erases = 0; erases < 2; erases++) {
        whi_ranks_row row;
        memset(&row, 0, sizeof row);
        row.series = &all->series[erases];
        row.one = &one->series[erases];
        row.bad = erases == 0 ? bad : 0;
        const uint64_t applied = all->applied[2 * b->reps + erases];
        row.values[row.n_values++] = (whi_bench_value){"applied", (double)applied, 0};
        for (uint32_t i = 0; i <= b->reps && b->rank == 0; i++) {
            row.bad += all->applied[2 * i + erases] != one->applied[2 * i + erases];
        }
        b->part.op = erases != 0 ? "erase" : "insert";
        WHI_BENCH_TRY(whi_ranks_emit(b, &row));
    }
    return WH_OK;
}

static wh_status part(whi_ranks *b, const whi_ranks_input *in) {
    edges one, all;
    uint64_t bad = 0;
    memset(&one, 0, sizeof one);
    memset(&all, 0, sizeof all);
    b->part.op = "insert";
    wh_status s = b->rank == 0 ? run(b, in, 1, &one) : WH_OK;
    s = whi_ranks_agree(b, s, "one device");
    b->part.op = "insert";
    s = s == WH_OK ? run(b, in, 0, &all) : s;
    if (s == WH_OK) {
        s = whi_ranks_compare_words(b, all.degree, one.degree, whi_ranks_vertices(in), &bad);
    }
    s = s == WH_OK ? emit(b, &one, &all, bad) : s;
    if (!whi_ranks_is_over(b)) {
        free(one.degree);
        free(all.degree);
    }
    return s;
}

wh_status whi_ranks_case_edges(whi_ranks *b) {
    whi_ranks_input like;
    memset(&like, 0, sizeof like);
    return whi_ranks_for_graphs(b, part, &like, b->defaults->sizes);
}

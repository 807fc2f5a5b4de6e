/* case_edges.c: the case edges: n arcs go into a graph of n arcs, and out again. Each rank brings
 * its part of a batch, in the memory of its device; the one-device figure is that of the whole
 * batch. Both must say the same of each repetition: the first one, which is not timed, finds some
 * arcs there already. */
#include <string.h>

#include "bench/ranks/ranks.h"

typedef struct edges {
    whi_ranks_series series[2];                    /* inserts, erases */
    uint64_t applied[2 * WHI_RANKS_MOST_REPS + 2]; /* of each of them, in turn */
    uint64_t arcs;                                 /* that are there at the end */
} edges;

static wh_status repeat(whi_ranks *b, whi_ranks_graph *g, const whi_ranks_arcs *arcs, int alone,
                        edges *e) {
    for (uint32_t i = 0; i <= b->reps; i++) {
        for (uint32_t erases = 0; erases < 2; erases++) {
            b->part.op = erases != 0 ? "erase" : "insert";
            WHI_RANKS_TRY(whi_ranks_begin(b, &e->series[erases], alone));
            const wh_status s = whi_ranks_update(g, arcs, (int)erases, &e->applied[2 * i + erases]);
            WHI_RANKS_TRY(alone ? whi_ranks_note(b, s, b->part.op) : s);
            whi_ranks_end(b, &e->series[erases]);
            whi_ranks_add_times(g, 1, &e->series[erases]);
        }
        if (i == 0) {
            memset(e->series, 0, sizeof e->series);
        }
    }
    return whi_ranks_agree_unless(b, alone, whi_ranks_count(g, &e->arcs), "the arcs at the end");
}

static wh_status run(whi_ranks *b, const whi_ranks_input *in, int alone, edges *e) {
    whi_ranks_graph g;
    whi_ranks_arcs arcs;
    memset(&arcs, 0, sizeof arcs);
    memset(e, 0, sizeof *e);
    wh_status s = whi_ranks_open_graph(b, in, alone, &g);
    if (s == WH_OK) {
        s = whi_ranks_take_arcs(b, in, in->n, alone, &arcs);
        s = whi_ranks_agree_unless(b, alone, s, "a batch");
    }
    s = s == WH_OK ? repeat(b, &g, &arcs, alone, e) : s;
    whi_ranks_drop_arcs(b, &arcs);
    whi_ranks_close_graph(b, &g);
    return s;
}

static wh_status part(whi_ranks *b, const whi_ranks_input *in) {
    edges one, all;
    b->part.op = "insert";
    const wh_status alone = b->rank == 0 ? run(b, in, 1, &one) : WH_OK;
    WHI_RANKS_TRY(whi_ranks_agree(b, alone, "one device"));
    b->part.op = "insert";
    WHI_RANKS_TRY(run(b, in, 0, &all));
    WHI_RANKS_TRY(whi_ranks_sum(b, all.applied, 2 * (uint64_t)b->reps + 2));
    WHI_RANKS_TRY(whi_ranks_sum(b, &all.arcs, 1));
    for (uint32_t erases = 0; erases < 2; erases++) {
        whi_ranks_row row;
        memset(&row, 0, sizeof row);
        row.series = &all.series[erases];
        row.one = &one.series[erases];
        row.values[0].name = "applied";
        row.values[0].value = (double)all.applied[2 * b->reps + erases];
        row.n_values = 1;
        if (b->rank == 0) {
            for (uint32_t i = 0; i <= b->reps; i++) {
                const uint32_t at = 2 * i + erases;
                row.bad += all.applied[at] != one.applied[at];
            }
            row.bad += erases != 0 && all.arcs != one.arcs;
        }
        b->part.op = erases != 0 ? "erase" : "insert";
        WHI_RANKS_TRY(whi_ranks_emit(b, &row));
    }
    return WH_OK;
}

wh_status whi_ranks_case_edges(whi_ranks *b) {
    whi_ranks_input like;
    memset(&like, 0, sizeof like);
    return whi_ranks_for_graphs(b, part, &like, b->defaults->sizes);
}

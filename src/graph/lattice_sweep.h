/* lattice_sweep.h: how a vertex of the class `lattice` goes, and how others lose their arcs to such
 * vertices: for a lane, a warp, and a block of threads. Included by lattice_kernels.c. An adjacency
 * without such an arc is read, and not written to. */
#ifndef WHI_GRAPH_LATTICE_SWEEP_H
#define WHI_GRAPH_LATTICE_SWEEP_H

#include "batch_kernels.h"
#include "warpheap/detail/graph/lattice.h"

#define SWEEP_WARP_DEGREE (WH_FILE_IS_CUDA ? 1024u : 24u)

WH_FN void drop_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    uint32_t *block = NULL;
    if (v != WH_GRAPH_NONE) {
        wh_lattice_vertex *x = vertex_of(b, v);
        block = x->capacity != 0 ? x->block : NULL;
        x->degree = x->capacity = 0;
    }
    wh_free_lanes(heap, WH_FULL_WARP, block);
}

/* Arcs to removed vertices. */
WH_FN wh_lattice_limit removed_of(const whi_graph_batch *b) {
    wh_lattice_limit limit;
    limit.removed = b->sweep.removed;
    limit.k = limit.before = limit.from = 0;
    return limit;
}

WH_FN uint32_t sweep_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    wh_graph_tally tally = no_tally();
    wh_lattice_expire_lanes(heap, v != WH_GRAPH_NONE ? vertex_of(b, v) : NULL, b->words,
                            removed_of(b), &tally);
    return tally.applied;
}

WH_FN uint32_t sweep_team(wh_heap_ref heap, const whi_graph_batch *b, wh_team t, uint32_t v) {
    wh_graph_tally tally = no_tally();
    wh_lattice_expire_team(heap, t, vertex_of(b, v), b->words, removed_of(b), &tally);
    return tally.applied;
}
WH_FN uint32_t sweep_warp(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    return sweep_team(heap, b, wh_team_warp(), v);
}
WH_FN uint32_t sweep_block(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    return sweep_team(heap, b, wh_team_block(), v);
}

#include "sweep_steps.h"

#endif

/* batch_arcs.h: which arcs a batch has: those of the caller, and where graphs are undirected each
 * of them the other way round, too; of a mixed batch those that this pass is for. And what became
 * of the caller's arcs, where that is not what workers have counted. Included by batch_steps.h.
 *
 * Arc i of a batch is the caller's arc i, or i - arcs the other way round.
 */
#ifndef WHI_GRAPH_BATCH_ARCS_H
#define WHI_GRAPH_BATCH_ARCS_H

#include "graph_batch.h"
#include "warpheap/simt.h"

WH_FN uint32_t source_of(const whi_graph_batch *b, uint64_t i) {
    return i < b->arcs ? b->from[i] : b->to[i - b->arcs];
}
WH_FN uint32_t end_of(const whi_graph_batch *b, uint64_t i) {
    return i < b->arcs ? b->to[i] : WH_PLANT(arcs_i5, b->from, b->to)[i - b->arcs];
}

/* Whether arc i is one of this pass; a self loop is so once. */
WH_FN int takes_part(const whi_graph_batch *b, uint64_t i) {
    const uint64_t mine = i < b->arcs ? i : i - b->arcs;
    return (b->erases == NULL || (b->erases[mine] != 0) == (b->erasing != 0)) &&
           WH_PLANT(arcs_loop, i < b->arcs || b->from[mine] != b->to[mine], 1);
}

/* What became of the caller's arc i. Of both ways, the one from the smaller end tells, so that an
 * edge that is several times in a batch counts once; but refused is refused. */
WH_FN uint8_t told_of(const whi_graph_batch *b, uint64_t i) {
    uint8_t told = b->done[i];
    if (b->n > b->arcs && told != WH_GRAPH_NO_VERTEX && b->from[i] != b->to[i]) {
        const uint8_t other = b->done[i + b->arcs];
        if (told == WH_GRAPH_REFUSED || other == WH_GRAPH_REFUSED) {
            return WH_GRAPH_REFUSED;
        }
        told = WH_PLANT(arcs_told, b->from[i] < b->to[i], 1) ? told : other;
    }
    return told;
}

/* Writes what became of the caller's arcs to `told`, and counts it in counts->told. Each thread
 * reads done[i] and done[i + arcs] and writes told[i] alone: told may be done. */
WH_FN void tell_step(const whi_graph_batch *b) {
    uint32_t sums[4] = {0, 0, 0, 0}; /* by the numbers of WH_GRAPH_APPLIED and so on */
    uint64_t *const at[4] = {&b->counts->told.no_change, &b->counts->told.applied,
                             &b->counts->told.refused, &b->counts->told.no_vertex};
    for (uint64_t i = wh_thread_id(); i < b->arcs; i += wh_grid_threads()) {
        const uint8_t how = told_of(b, i);
        b->told[i] = how;
        for (uint32_t k = 0; k < 4; k++) {
            sums[k] += how == k;
        }
    }
    wh_syncwarp(WH_FULL_WARP);
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t sum = wh_reduce_add_u32(WH_FULL_WARP, sums[k]);
        if (sum != 0 && wh_lane_id() == 0) {
            wh_add_u64_relaxed(at[k], sum);
            if (k == WH_GRAPH_REFUSED && b->n > b->arcs) {
                wh_add_u64_relaxed(&b->ever->told.refused, sum);
            }
        }
    }
}

#endif

/* sweep_steps.h: vertices go, with all arcs that lead to them: one pass over the records and
 * adjacencies of a graph, for every class of graphs; included by its <class>_kernels.c behind
 * batch_kernels.h and
 *
 *   SWEEP_WARP_DEGREE    arcs up to which a warp takes a vertex
 *   void drop_lanes(heap, b, v)          the vertex has no arcs any more, and no memory
 *   uint32_t sweep_lanes(heap, b, v)     arcs of v to removed vertices go; of this lane's v, how
 *                                        many
 *   uint32_t sweep_warp(heap, b, v)      the same; the sum over the lanes is how many
 *   uint32_t sweep_block(heap, b, v)
 *
 * lanes: all lanes of a warp call, each with a v of its own, or NONE. A warp takes 32 vertices: it
 * gives back what has been removed, looks through long adjacencies together, and through short ones
 * a lane each. Hubs go to a list, and a second kernel has a block of threads for each. Entries that
 * stay keep their order.
 */
#ifndef WHI_GRAPH_SWEEP_STEPS_H
#define WHI_GRAPH_SWEEP_STEPS_H

#include "batch_kernels.h"

/* Arcs up to which a lane takes a vertex. The simulated device has small graphs. */
#define SWEEP_LANE_DEGREE (WH_FILE_IS_CUDA ? 16u : 10u)

WH_FN int is_removed(const whi_graph_batch *b, uint32_t v) {
    return (b->sweep.removed[v / 32] >> v % 32 & 1) != 0;
}

/* All lanes of a warp: so many arcs went. */
WH_FN void add_gone(const whi_graph_batch *b, uint64_t arcs) {
    add_all(b->sweep.arcs, arcs);
    if (b->own != NULL) {
        add_all(&b->own->arcs, WH_PLANT(sweep_i6, 0 - arcs, (uint64_t)0)); /* I6 of graph_batch.h */
    }
}

WH_FN void sweep_records(wh_heap_ref heap, const whi_graph_batch *b) {
    uint64_t arcs = 0;
    FOR_ROUNDS(i, b->n_vertices) {
        const uint32_t v = i < b->n_vertices ? (uint32_t)i : WH_GRAPH_NONE;
        const int goes = v != WH_GRAPH_NONE && is_removed(b, v);
        uint32_t degree = v != WH_GRAPH_NONE ? degree_of(b, v) : 0;
        if (wh_any(WH_FULL_WARP, goes)) {
            arcs += goes ? degree : 0;
            drop_lanes(heap, b, WH_PLANT(sweep_i7_drop, goes, 0) ? v : WH_GRAPH_NONE);
            degree = goes ? 0 : degree;
        }
        const int is_hub = degree > SWEEP_WARP_DEGREE;
        const uint32_t at = place_all(b->sweep.n_hubs, is_hub);
        if (is_hub) {
            *(b->sweep.hubs - 1 - WH_PLANT(sweep_i7_place, at, 0u)) = v; /* the list: vertices.h */
        }
        wh_mask more = wh_ballot(WH_FULL_WARP, degree > SWEEP_LANE_DEGREE && !is_hub);
        WH_NO_UNROLL
        for (; more != 0; more &= more - 1) {
            arcs += sweep_warp(heap, b, wh_shfl_u32(WH_FULL_WARP, v, wh_mask_leader(more)));
        }
        const int is_short = degree != 0 && degree <= SWEEP_LANE_DEGREE;
        if (wh_any(WH_FULL_WARP, is_short)) {
            arcs += sweep_lanes(heap, b, is_short ? v : WH_GRAPH_NONE);
        }
    }
    add_gone(b, arcs);
}

WH_KERNEL(sweep_all, batch_args, a) {
    if (*a.b.sweep.taken != 0) {
        sweep_records(a.heap, &a.b);
    }
}

WH_KERNEL(sweep_hubs, batch_args, a) {
    const uint32_t hubs = *a.b.sweep.n_hubs;
    uint64_t arcs = 0;
    for (uint32_t i = wh_block_id(); i < hubs; i += wh_grid_blocks()) {
        arcs += sweep_block(a.heap, &a.b, *(a.b.sweep.hubs - 1 - i));
        wh_syncthreads(); /* B1 of lattice.h */
    }
    add_gone(&a.b, arcs);
}

WH_KERNEL(destroy_all, batch_args, a) {
    FOR_ROUNDS(v, a.b.n_vertices) {
        drop_lanes(a.heap, &a.b, v < a.b.n_vertices ? (uint32_t)v : WH_GRAPH_NONE);
    }
}

static wh_status graph_sweep(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    const wh_status s = start(sweep_all, heap, stream, b, b->n_vertices);
    return s != WH_OK ||
                   (b->n_vertices <= SWEEP_WARP_DEGREE && WH_PLANT(sweep_i7_hubs, !b->multi, 1))
               ? s
               : start(sweep_hubs, heap, stream, b, (uint64_t)b->n_vertices * BLOCK);
}

#endif

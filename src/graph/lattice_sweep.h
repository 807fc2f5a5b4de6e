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

/* Whether an entry stays. */
WH_FN int stays(const whi_graph_batch *b, uint32_t entry) {
    return (b->sweep.removed[entry / 32] >> entry % 32 & 1) == 0;
}

WH_FN uint32_t sweep_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    wh_lattice_vertex *x = v != WH_GRAPH_NONE ? vertex_of(b, v) : NULL;
    uint32_t degree = 0, kept = 0;
    int shrinks = 0;
    if (x != NULL) {
        uint32_t *array = wh_lattice_array(x);
        degree = x->degree;
        WH_NO_UNROLL
        for (uint32_t i = 0; i < degree; i++) {
            const uint32_t entry = array[i];
            if (stays(b, entry)) {
                if (kept != i) {
                    array[kept] = entry;
                }
                kept++;
            }
        }
        if (kept != degree) {
            x->degree = kept;
            shrinks = !wh_lattice_keeps(x->capacity, kept);
        }
    }
    if (wh_any(WH_FULL_WARP, shrinks)) {
        const uint32_t room = wh_lattice_room(kept);
        uint32_t *block =
            (uint32_t *)wh_malloc_lanes(heap, WH_FULL_WARP, wh_lattice_bytes_(shrinks, room));
        uint32_t *old = NULL;
        if (shrinks && (room == 0 || block != NULL)) {
            old = wh_lattice_move_(x, block, room, kept);
        }
        wh_free_lanes(heap, WH_FULL_WARP, old);
    }
    return degree - kept;
}

WH_FN uint32_t sweep_warp(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    wh_lattice_vertex *x = vertex_of(b, v);
    uint32_t *array = wh_lattice_array(x);
    const uint32_t degree = x->degree, lane = wh_lane_id();
    uint32_t kept = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < degree; first += WH_WARP_SIZE) {
        const uint32_t i = first + lane, entry = i < degree ? array[i] : 0;
        const int is = i < degree && stays(b, entry);
        const wh_mask mask = wh_ballot(WH_FULL_WARP, is); /* all have read theirs */
        const uint32_t at = kept + wh_mask_rank(mask);
        wh_syncwarp(WH_FULL_WARP);
        if (is && at != i) {
            array[at] = entry;
        }
        wh_syncwarp(WH_FULL_WARP);
        kept += wh_popc32(mask);
    }
    if (kept != degree) {
        if (lane == 0) {
            x->degree = kept;
        }
        wh_syncwarp(WH_FULL_WARP);
        if (!wh_lattice_keeps(x->capacity, kept)) {
            (void)wh_lattice_move_warp_(heap, x, wh_lattice_room(kept), kept);
        }
    }
    return lane == 0 ? degree - kept : 0;
}

WH_FN uint32_t sweep_block(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    wh_lattice_vertex *x = vertex_of(b, v);
    uint32_t *array = wh_lattice_array(x);
    const uint32_t degree = x->degree, me = wh_thread_in_block();
    uint32_t kept = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < degree; first += wh_block_threads()) {
        const uint32_t i = first + me, entry = i < degree ? array[i] : 0;
        const int is = i < degree && stays(b, entry);
        uint32_t all;
        const uint32_t at = kept + wh_lattice_block_rank_(is, &all); /* all have read theirs */
        if (is && at != i) {
            array[at] = entry;
        }
        kept += all;
    }
    wh_syncthreads(); /* all know the degree */
    if (kept != degree) {
        if (me == 0) {
            x->degree = kept;
        }
        wh_syncthreads();
        if (!wh_lattice_keeps(x->capacity, kept)) {
            (void)wh_lattice_move_block_(heap, x, wh_lattice_room(kept), kept);
        }
    }
    return me == 0 ? degree - kept : 0;
}

#include "sweep_steps.h"

#endif

/* lattice_fill.h: the class `lattice` from arrays: how rows that are sets become adjacencies; all
 * others (csr_fill.h) go to the workers that insert. Included by lattice_kernels.c. */
#ifndef WHI_GRAPH_LATTICE_FILL_H
#define WHI_GRAPH_LATTICE_FILL_H

#include "csr_fill.h"
#include "warpheap/detail/graph/lattice.h"

/* Entries of the row first, first + step, ... go where the view is. */
WH_FN void copy_row(const whi_graph_batch *b, wh_lattice_view a, const fill_row *row,
                    uint32_t first, uint32_t step) {
    for (uint32_t i = first; i < row->r; i += step) {
        a.to[i] = row->to[i];
    }
    for (uint32_t k = 0; k < b->words; k++) {
        for (uint32_t i = first; i < row->r; i += step) {
            wh_lattice_values_at(a, k)[i] = b->values[k] != NULL ? b->values[k][row->from + i] : 0;
        }
    }
}

/* The vertex gets its row, in a block of `room` entries or, 0, in its record. */
WH_FN wh_lattice_view begin_row(const whi_graph_batch *b, const fill_row *row, uint32_t *block,
                                uint32_t room) {
    wh_lattice_vertex *x = vertex_of(b, row->v);
    x->degree = row->r;
    x->capacity = room;
    if (room != 0) {
        x->block = block;
    }
    return wh_lattice_view_of(x, b->words);
}

WH_FN int fill_lanes(wh_heap_ref heap, const whi_graph_batch *b, const fill_row *row,
                     wh_graph_tally *tally) {
    const uint32_t room = row->r != 0 ? wh_lattice_room(row->r, b->words) : 0;
    uint32_t *block = (uint32_t *)wh_malloc_lanes(heap, WH_FULL_WARP,
                                                  room != 0 ? wh_lattice_bytes(room, b->words) : 0);
    const int taken = room == 0 || WH_PLANT(fill_i1, block != NULL, 1); /* I1 of lattice.h */
    if (taken && row->r != 0) {
        copy_row(b, begin_row(b, row, block, room), row, 0, 1);
        tally->applied += row->r;
    }
    return taken;
}

/* A warp, with one row, which is ready. 0: there is no memory. */
WH_FN int fill_team(wh_heap_ref heap, const whi_graph_batch *b, wh_team t, const fill_row *row,
                    wh_graph_tally *tally) {
    const uint32_t room = wh_lattice_room(row->r, b->words);
    uint32_t *block = (uint32_t *)wh_malloc_warp(heap, WH_FULL_WARP,
                                                 room != 0 ? wh_lattice_bytes(room, b->words) : 0);
    const int taken = room == 0 || WH_PLANT(fill_i1_warp, block != NULL, 1); /* I1 */
    if (taken) {
        if (t.me == 0) {
            (void)begin_row(b, row, block, room);
            tally->applied += row->r;
        }
        WH_PLANT(fill_b1, wh_syncwarp(WH_FULL_WARP), (void)0); /* B1 of lattice.h */
        copy_row(b, wh_lattice_view_of(vertex_of(b, row->v), b->words), row, t.me, t.n);
    }
    return taken;
}

WH_FN uint32_t left_worker(uint32_t r) {
    return worker_of(r, 0);
}

static wh_status fill_from_csr(wh_heap *heap, void *stream, const whi_graph_batch *b,
                               kernel_fn insert) {
    TRY(graph_list_rows(heap, stream, b));
    return work(heap, stream, b, insert, b->n_vertices);
}

#endif

/* update_kernels.h: batches by update, for classes of graphs with a lock a vertex: each arc of a
 * batch has a worker, a lane or a warp, and nothing is laid out. Included by <class>_kernels.c,
 * which defines before
 *
 *   vertex_of, degree_of                                         as for batch_kernels.h
 *   void prepare(wh_heap_ref heap, const whi_graph_batch *b, uint32_t n)
 *       the first warp of a batch that inserts n arcs (0: it erases): takes memory for them
 *   uint32_t insert_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v, uint32_t w)
 *       all lanes of a full warp, each with an arc or none (v NONE). What became of it
 *   uint32_t insert_warp(...)          all lanes, the same arc
 *   uint32_t erase_lanes, erase_warp   likewise
 *
 * Ends that are no vertices never get there: batch_arcs.h says which arcs a batch has.
 *
 * Which of the two workers a batch has is chosen before it, on the device: a warp from a mean
 * degree of WARP_DEGREE on (thesis 3.2.4), or what the option `worker` says.
 */
#ifndef WHI_GRAPH_UPDATE_KERNELS_H
#define WHI_GRAPH_UPDATE_KERNELS_H

#define WHI_GRAPH_BY_UPDATE
#include "batch_kernels.h"

#define WARP_DEGREE 50u

/* --- before a batch --- */

WH_FN void prepare_batch(wh_heap_ref heap, const whi_graph_batch *b, uint32_t n) {
    whi_graph_own *own = b->own;
    if (wh_thread_id() == 0) {
        memset(b->next, 0, sizeof *b->next);
        own->by_warp = b->worker != 0 ? b->worker == WH_WARP_SIZE
                                      : own->arcs >= (uint64_t)WARP_DEGREE * b->n_vertices;
    }
    if (wh_thread_id() < WH_WARP_SIZE) {
        prepare(heap, b, n);
    }
}
WH_KERNEL(prepare_insert, batch_args, a) {
    prepare_batch(a.heap, &a.b, a.b.n);
}
WH_KERNEL(prepare_erase, batch_args, a) {
    prepare_batch(a.heap, &a.b, 0);
}

/* --- a batch --- */

/* What the lanes of a warp have seen. */
typedef struct outcome {
    wh_graph_tally tally;
    uint32_t bad;
} outcome;

WH_FN outcome no_outcome(void) {
    outcome o;
    o.tally = no_tally();
    o.bad = 0;
    return o;
}

WH_FN void note(outcome *o, uint32_t how) {
    o->tally.applied += how == WH_GRAPH_APPLIED;
    o->tally.no_change += how == WH_GRAPH_NO_CHANGE;
    o->tally.refused += how == WH_GRAPH_REFUSED;
    o->bad += how == WH_GRAPH_NO_VERTEX;
}

/* All lanes of a warp. erases: the arcs go. */
WH_FN void add_outcome(const whi_graph_batch *b, outcome o, int erases) {
    const uint32_t applied = wh_reduce_add_u32(WH_FULL_WARP, o.tally.applied);
    const uint32_t bad = wh_reduce_add_u32(WH_FULL_WARP, o.bad);
    add_tally(b->counts, o.tally);
    if (wh_lane_id() == 0 && applied != 0) {
        wh_add_u64_relaxed(&b->own->arcs, /* I6 of graph_batch.h */
                           WH_PLANT(update_i6, erases, 0) ? 0 - (uint64_t)applied : applied);
    }
    if (wh_lane_id() == 0 && bad != 0) {
        wh_add_u64_relaxed(&b->counts->result.no_vertex, bad);
    }
}

/* What became of arc i, of those that take part. */
WH_FN void tell_arc(const whi_graph_batch *b, uint64_t i, uint32_t how, outcome *o) {
    note(o, how);
    if (b->done != NULL) {
        b->done[i] = (uint8_t)how;
    }
}

#define UPDATES(name, of_lanes, of_warp, erases)                                         \
    WH_FN void name##_by_warp(wh_heap_ref heap, const whi_graph_batch *b, outcome *o) {  \
        const uint64_t warps = wh_grid_threads() / WH_WARP_SIZE;                         \
        for (uint64_t i = wh_thread_id() / WH_WARP_SIZE; i < b->n; i += warps) {         \
            const uint32_t v = source_of(b, i), w = end_of(b, i);                        \
            const int good = is_vertex(b, v) && is_vertex(b, w);                         \
            if (takes_part(b, i)) {                                                      \
                const uint32_t how = good ? of_warp(heap, b, v, w) : WH_GRAPH_NO_VERTEX; \
                if (wh_lane_id() == 0) {                                                 \
                    tell_arc(b, i, how, o);                                              \
                }                                                                        \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    WH_FN void name##_by_lanes(wh_heap_ref heap, const whi_graph_batch *b, outcome *o) { \
        FOR_ROUNDS(i, b->n) {                                                            \
            const int part = i < b->n && takes_part(b, i);                               \
            const uint32_t v = part ? source_of(b, i) : 0, w = part ? end_of(b, i) : 0;  \
            const int good = part && is_vertex(b, v) && is_vertex(b, w);                 \
            const uint32_t how = of_lanes(heap, b, good ? v : WH_GRAPH_NONE, w);         \
            if (part) {                                                                  \
                tell_arc(b, i, good ? how : WH_GRAPH_NO_VERTEX, o);                      \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    WH_FN void name(wh_heap_ref heap, const whi_graph_batch *b) {                        \
        outcome o = no_outcome();                                                        \
        if (b->own->by_warp) {                                                           \
            name##_by_warp(heap, b, &o);                                                 \
        } else {                                                                         \
            name##_by_lanes(heap, b, &o);                                                \
        }                                                                                \
        add_outcome(b, o, erases);                                                       \
    }

UPDATES(insert_updates, insert_lanes, insert_warp, 0)
UPDATES(erase_updates, erase_lanes, erase_warp, 1)

WH_KERNEL(insert_all_updates, batch_args, a) {
    insert_updates(a.heap, &a.b);
}
WH_KERNEL(erase_all_updates, batch_args, a) {
    erase_updates(a.heap, &a.b);
}

/* --- host side -------------------------------------------------------------------------------- */

static wh_status graph_insert(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    TRY(start(prepare_insert, heap, stream, b, 1));
    return work(heap, stream, b, insert_all_updates, b->n);
}

static wh_status graph_erase(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    TRY(start(prepare_erase, heap, stream, b, 1));
    return work(heap, stream, b, erase_all_updates, b->n);
}

#endif

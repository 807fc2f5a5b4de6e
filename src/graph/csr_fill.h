/* csr_fill.h: a graph from arrays, for every class: a row that is a set already becomes the
 * adjacency of its vertex at once: a lane takes a short one, a warp a longer one. Rows with
 * repetitions, of which one cannot tell cheaply that they have none, very long ones, and those with
 * ends that are no vertices, go to lists: what becomes of them, the class says. Included by its
 * <class>_kernels.c, which defines
 *
 *   int fill_lanes(heap, b, row, tally)      all lanes of a warp, each with a row that is a set, or
 *                                            with none (r 0)
 *   int fill_team(heap, b, team, row, tally) a warp (csr_left.h: or a block of threads), with one
 *       such row. They add what they have applied; 0: there is no memory, and nothing has changed
 *   uint32_t left_worker(r)                  the kind of list for a row of r arcs that is left
 */
#ifndef WHI_GRAPH_CSR_FILL_H
#define WHI_GRAPH_CSR_FILL_H

#include "batch_kernels.h"
#include "warpheap/detail/graph/team.h"

/* Arcs up to which a lane takes a row, and a warp. The simulated device has small graphs. */
#define FILL_LANE (WH_FILE_IS_CUDA ? 32u : 5u)
#define FILL_WARP (WH_FILE_IS_CUDA ? 4096u : 40u)

/* A row of the arrays: `from` is its place in them, and in the runs. */
typedef struct fill_row {
    const uint32_t *to;
    uint32_t v, from, r;
} fill_row;

WH_FN int fill_lanes(wh_heap_ref heap, const whi_graph_batch *b, const fill_row *row,
                     wh_graph_tally *tally);
WH_FN int fill_team(wh_heap_ref heap, const whi_graph_batch *b, wh_team t, const fill_row *row,
                    wh_graph_tally *tally);
WH_FN uint32_t left_worker(uint32_t r);

WH_FN fill_row row_of(const whi_graph_batch *b, uint64_t v) {
    fill_row row;
    const int is = v < b->n_vertices;
    const uint64_t begin = is ? b->offset[v] : 0;
    row.v = is ? (uint32_t)v : WH_GRAPH_NONE;
    row.r = is ? (uint32_t)(b->offset[v + 1] - begin) : 0;
    row.from = is ? (uint32_t)(begin - b->offset[0]) : 0;
    row.to = b->out + row.from;
    return row;
}

/* Whether a lane's row can be taken as it is. */
WH_FN int is_ready_lane(const whi_graph_batch *b, const fill_row *row) {
    int ascends = 1, valid = is_vertex(b, row->v);
    uint32_t last = 0;
    for (uint32_t i = 0; i < row->r; i++) {
        const uint32_t to = row->to[i];
        valid &= is_vertex(b, to);
        ascends &= i == 0 || last < to;
        last = to;
    }
    if (!valid || ascends || WH_PLANT(fill_i4, b->sorted, 0)) { /* lattice.h I4 */
        return valid && ascends;
    }
    int again = 0;
    WH_NO_UNROLL
    for (uint32_t i = 1; !b->multi && i < row->r; i++) {
        const uint32_t to = row->to[i];
        for (uint32_t k = 0; k < i; k++) {
            again |= WH_PLANT(fill_i2, row->to[k] == to, 0); /* lattice.h I2 */
        }
    }
    return !again;
}

/* Whether a warp's row can be taken as it is. */
WH_FN int is_ready_warp(const whi_graph_batch *b, const fill_row *row) {
    int ready = is_vertex(b, row->v);
    for (uint32_t i = wh_lane_id(); i < row->r; i += WH_WARP_SIZE) {
        ready &= is_vertex(b, row->to[i]) &&
                 (i == 0 || (b->multi && !b->sorted) ||
                  WH_PLANT(fill_i2_warp, row->to[i - 1] < row->to[i], 1)); /* lattice.h I2, I4 */
    }
    return wh_all(WH_FULL_WARP, ready);
}

/* All lanes of a warp, with one row, which becomes a run: for a worker. */
WH_FN void list_row(const whi_graph_batch *b, const fill_row *row, uint32_t *bad) {
    const int is = is_vertex(b, row->v);
    for (uint32_t i = wh_lane_id(); i < row->r; i += WH_WARP_SIZE) {
        const uint32_t to = row->to[i];
        const int is_arc = is && is_vertex(b, to);
        b->scratch.run[row->from + i] = is_arc ? to : WH_GRAPH_NONE;
        if (orders(b)) {
            b->scratch.order[row->from + i] = row->from + i;
        }
        *bad += !is_arc;
    }
    if (wh_lane_id() == 0) {
        const uint32_t worker = left_worker(row->r);
        uint32_t *const counters[N_SUMS] = {NULL, &b->counts->lanes, &b->counts->warps,
                                            &b->counts->blocks};
        whi_graph_item *item = list_at(b, worker, wh_fetch_add_u32_relaxed(counters[worker], 1));
        item->v = row->v;
        item->start = row->from;
        item->r = row->r;
    }
}

/* All lanes of a warp: what they have filled. */
WH_FN void add_filled(const whi_graph_batch *b, wh_graph_tally tally) {
    add_tally(b->counts, tally);
    if (b->own != NULL) {
        add_all(&b->own->arcs, tally.applied);
    }
}

/* A warp takes 32 rows. A vertex that had no memory for its row is left with those of the others.
 */
WH_KERNEL(fill_csr, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    wh_graph_tally tally = no_tally();
    uint32_t left = 0;
    FOR_ROUNDS(v, b->n_vertices) {
        fill_row row = row_of(b, v);
        const int ready = row.r != 0 && row.r <= FILL_LANE && is_ready_lane(b, &row);
        wh_mask longer = wh_ballot(WH_FULL_WARP, row.r > FILL_LANE && row.r <= FILL_WARP);
        left += row.r != 0 && !ready && (longer >> wh_lane_id() & 1) == 0 ? 1 : 0;
        WH_NO_UNROLL
        for (; longer != 0; longer &= longer - 1) {
            const fill_row its = row_of(b, v - wh_lane_id() + wh_mask_leader(longer));
            const int taken =
                is_ready_warp(b, &its) && fill_team(a.heap, b, wh_team_warp(), &its, &tally);
            left += !taken && wh_lane_id() == 0 ? 1 : 0;
        }
        row.r = ready ? row.r : 0;
        left += !fill_lanes(a.heap, b, &row, &tally);
    }
    left = wh_reduce_add_u32(WH_FULL_WARP, left);
    if (left != 0 && wh_lane_id() == 0) {
        (void)wh_fetch_add_u32_relaxed(&b->counts->placed, left);
    }
    add_filled(b, tally);
}

/* The rows of all vertices that have none of their arcs. */
WH_KERNEL(list_csr, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    uint32_t bad = 0;
    FOR_ROUNDS(v, b->n_vertices) {
        const fill_row row = row_of(b, v);
        const int is_left = row.r != 0 && WH_PLANT(fill_left, degree_of(b, row.v) == 0, 1);
        for (wh_mask rest = wh_ballot(WH_FULL_WARP, is_left); rest != 0; rest &= rest - 1) {
            const fill_row its = row_of(b, v - wh_lane_id() + wh_mask_leader(rest));
            list_row(b, &its, &bad);
        }
    }
    add_bad(b, bad);
}

OF_VERTICES(graph_fill, fill_csr, 1)
OF_VERTICES(graph_list_rows, list_csr, 1)

#endif

/* csr_left.h: a graph from arrays, for classes of the papers: rows that csr_fill.h has left become
 * sets, by a table of their ends, and are filled in as the others: by a warp or a block of threads.
 * Included by <class>_kernels.c behind batch_kernels.h, and fill_lanes and fill_team (csr_fill.h).
 *
 * Cost: O(r) for a row of r arcs.
 */
#ifndef WHI_GRAPH_CSR_LEFT_H
#define WHI_GRAPH_CSR_LEFT_H

#include "csr_fill.h"
#include "warpheap/detail/graph/lattice.h"

/* Arcs of a row up to which a warp takes it. The simulated device has small graphs. */
#define LEFT_WARP (WH_FILE_IS_CUDA ? 512u : 24u)

WH_FN uint32_t left_worker(uint32_t r) {
    return r <= LEFT_WARP ? WARPS : BLOCKS;
}

/* The ends in a run, each once, go to its front. Returns how many. All of the team. */
WH_FN uint32_t make_set(const whi_graph_batch *b, wh_team t, whi_graph_item item) {
    uint32_t *run = b->scratch.run + item.start;
    uint32_t descends = 0, all;
    for (uint32_t i = t.me; i < item.r; i += t.n) {
        descends |= run[i] == WH_GRAPH_NONE || (i != 0 && run[i - 1] >= run[i]);
    }
    (void)wh_team_rank(t, (int)descends, &all);
    if (all == 0) {
        return item.r; /* it was only long, or there was no memory */
    }
    wh_lattice_work w;
    memset(&w, 0, sizeof w);
    w.run = run;
    w.r = item.r;
    w.table.keys = b->scratch.keys + 2 * (uint64_t)item.start;
    w.table.numbers = b->scratch.numbers + 2 * (uint64_t)item.start;
    w.table.size = 2 * item.r;
    wh_lattice_fill_table_(t, &w);
    return wh_lattice_take_out_(t, &w);
}

WH_FN void fill_left_row(wh_heap_ref heap, const whi_graph_batch *b, wh_team t, whi_graph_item item,
                         wh_graph_tally *tally) {
    fill_row row;
    row.to = b->scratch.run + item.start;
    row.v = item.v;
    row.from = item.start;
    row.r = make_set(b, t, item);
    const int taken = row.r == 0 || fill_team(heap, b, t, &row, tally);
    if (t.me == 0) {
        tally->refused += taken ? 0 : row.r;
        tally->no_change += item.r - row.r;
    }
}

WH_KERNEL(fill_left, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    const uint32_t blocks = b->counts->blocks, n_warps = b->counts->warps;
    const uint32_t warps = (uint32_t)(wh_grid_threads() / WH_WARP_SIZE);
    const uint32_t mine = (uint32_t)(wh_thread_id() / WH_WARP_SIZE);
    wh_graph_tally tally = no_tally();
    WH_NO_UNROLL
    for (uint32_t i = wh_block_id(); i < blocks; i += wh_grid_blocks()) {
        fill_left_row(a.heap, b, wh_team_block(), *list_at(b, BLOCKS, i), &tally);
    }
    WH_NO_UNROLL
    for (uint32_t i = mine; i < n_warps; i = warps + next_of(&b->counts->next_warp)) {
        fill_left_row(a.heap, b, wh_team_warp(), *list_at(b, WARPS, i), &tally);
    }
    add_filled(b, tally);
}

static wh_status graph_from_csr(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    TRY(graph_list_rows(heap, stream, b));
    return work(heap, stream, b, fill_left, b->n_vertices);
}

#endif

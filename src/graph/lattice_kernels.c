/* lattice_kernels.c: targeted source (compiled per allocator and target): the kernels of the graph
 * class `lattice`. */
#define WH_KERNEL_THREADS 512
#ifndef WHI_LATTICE_TABLE /* else it is another class, of the same workers: ouro_kernels.c */
#define WHI_LATTICE_TABLE whi_lattice_kernels
#endif

#include "batch_steps.h"
#include "warpheap/detail/graph/lattice.h"

WH_FN wh_lattice_vertex *vertex_of(const whi_graph_batch *b, uint64_t v) {
    return (wh_lattice_vertex *)b->vertices + v;
}
WH_FN uint32_t degree_of(const whi_graph_batch *b, uint32_t v) {
    return vertex_of(b, v)->degree;
}
WH_FN uint32_t worker_of(uint32_t r, uint32_t degree) {
    if (r <= WH_LATTICE_LANE_RUN && degree <= WH_LATTICE_LANE_DEGREE) {
        return LANES;
    }
    return r + degree <= WH_LATTICE_WARP_WORK ? WARPS : BLOCKS;
}

/* The work for vertex v; NONE: none. */
WH_FN wh_lattice_work work_of(const whi_graph_batch *b, uint32_t v) {
    const int is = v != WH_GRAPH_NONE;
    const uint32_t start = is ? b->runs[v].start : 0;
    wh_lattice_work w;
    w.x = is ? vertex_of(b, v) : NULL;
    w.run = b->scratch.run + start;
    w.order = b->scratch.order + start;
    w.r = is ? b->runs[v].count : 0;
    w.done = b->done;
    w.table.keys = b->scratch.keys + 2 * (uint64_t)start;
    w.table.numbers = b->scratch.numbers + 2 * (uint64_t)start;
    w.table.size = 2 * w.r;
    return w;
}

WORK_STEP(insert_step, wh_lattice_insert_lane, wh_lattice_insert_warp, wh_lattice_insert_block)
WORK_STEP(erase_step, wh_lattice_erase_lane, wh_lattice_erase_warp, wh_lattice_erase_block)

#include "batch_kernels.h"

/* --- looking ------------------------------------------------------------------------------------
 */

#define LONG_LIST 64u /* entries of an adjacency that one lane looks through */

WH_KERNEL(has_arcs, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    FOR_ROUNDS(i, b->n) {
        const uint32_t v = i < b->n ? b->from[i] : WH_GRAPH_NONE;
        const int is = v < b->n_vertices;
        wh_lattice_vertex *x = is ? vertex_of(b, v) : NULL;
        const uint32_t key = is ? b->to[i] : WH_GRAPH_NONE, degree = is ? x->degree : 0;
        uint32_t *array = is ? wh_lattice_array(x) : NULL;
        int found = degree <= LONG_LIST && wh_lattice_has_(array, degree, key);
        for (wh_mask lists = wh_ballot(WH_FULL_WARP, degree > LONG_LIST); lists != 0;
             lists &= lists - 1) { /* all lanes look through one */
            const uint32_t lane = wh_mask_leader(lists);
            const uint32_t *its = (const uint32_t *)(uintptr_t)wh_shfl_u64(
                WH_FULL_WARP, (uint64_t)(uintptr_t)array, lane);
            const uint32_t n = wh_shfl_u32(WH_FULL_WARP, degree, lane);
            const uint32_t wanted = wh_shfl_u32(WH_FULL_WARP, key, lane);
            int some = 0;
            for (uint32_t k = wh_lane_id(); k < n; k += WH_WARP_SIZE) {
                some |= its[k] == wanted;
            }
            some = wh_any(WH_FULL_WARP, some);
            found = wh_lane_id() == lane ? some : found;
        }
        if (i < b->n) {
            b->done[i] = found != 0;
        }
    }
}

/* A warp a vertex. */
WH_KERNEL(copy_out, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    const uint64_t warps = wh_grid_threads() / WH_WARP_SIZE;
    for (uint64_t v = wh_thread_id() / WH_WARP_SIZE; v < b->n_vertices; v += warps) {
        wh_lattice_vertex *x = vertex_of(b, v);
        const uint32_t *array = wh_lattice_array(x);
        for (uint32_t i = wh_lane_id(); i < x->degree; i += WH_WARP_SIZE) {
            b->out[b->offset[v] + i] = array[i];
        }
    }
}

WH_KERNEL(destroy_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    FOR_ROUNDS(v, b->n_vertices) {
        uint32_t *block = NULL;
        if (v < b->n_vertices) {
            wh_lattice_vertex *x = vertex_of(b, v);
            block = x->capacity != 0 ? x->block : NULL;
            x->degree = x->capacity = 0;
        }
        wh_free_lanes(a.heap, WH_FULL_WARP, block);
    }
}

WH_KERNEL(check_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        uint32_t broken = wh_lattice_is_sound(a.heap, vertex_of(b, v), b->n_vertices);
        broken = broken == 0 && b->runs[v].count != 0 ? 3 : broken;
        broken = broken == 0 && wh_graph_is_locked(b->locks, (uint32_t)v) ? 4 : broken;
        if (broken != 0) {
            wh_report_error(b->report, broken, v);
        }
    }
}

WH_KERNEL(rebase_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        wh_lattice_vertex *x = vertex_of(b, v);
        if (x->capacity != 0) {
            x->block = (uint32_t *)(void *)((unsigned char *)x->block + b->moved);
        }
    }
}

WH_KERNEL(count_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    uint64_t blocks = 0, bytes = 0, most = 0;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        const wh_lattice_vertex *x = vertex_of(b, v);
        blocks += x->capacity != 0;
        bytes += (uint64_t)x->capacity * sizeof(uint32_t);
        most = x->degree > most ? x->degree : most;
    }
    wh_add_u64_relaxed(&b->sums[0], blocks);
    wh_add_u64_relaxed(&b->sums[1], bytes);
    (void)wh_fetch_max_u64_relaxed(&b->sums[2], most);
}

OF_VERTICES(graph_clear, clear_all, 1)
OF_VERTICES(graph_to_csr, copy_out, WH_WARP_SIZE)
OF_VERTICES(graph_destroy, destroy_all, 1)
OF_VERTICES(graph_check, check_all, 1)
OF_VERTICES(graph_rebase, rebase_all, 1)
OF_VERTICES(graph_stats, count_all, 1)

static wh_status graph_has(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return start(has_arcs, heap, stream, b, b->n);
}

WHI_GRAPH_TABLE(WHI_LATTICE_TABLE) = {
    WH_OF_(NAME),   sizeof(wh_lattice_vertex),
    graph_clear,    graph_insert,
    graph_erase,    graph_has,
    graph_from_csr, graph_degrees,
    graph_sums,     graph_to_csr,
    graph_destroy,  graph_check,
    graph_rebase,   graph_stats,
};

/* graph_kernels.c: targeted source (compiled per allocator and target): the kernels
 * over workload/graph/graph.h, one lane per vertex or arc. A lane takes the items t, t + T,
 * ... of a grid of T threads; the lanes of a warp go round together, so that every
 * round is a call by a whole warp.
 */
#include "workload/graph/graph_kernels.h"

#include <string.h>

#include "workload/graph/graph.h"
#include "warpheap/detail/alloc/tables.h"

typedef struct {
    wh_heap_ref heap;
    wh_multigraph_view g;
    const uint64_t *offset;
    const uint32_t *from;
    const uint32_t *to;
    uint32_t *out;
    uint64_t n;
} graph_args;

/* for each item i of the warp's rounds; i >= n in the last one for some lanes */
#define FOR_ROUNDS(i, n)                                                             \
    for (uint64_t i = wh_thread_id(), whi_first = i - wh_lane_id(); whi_first < (n); \
         i += wh_grid_threads(), whi_first += wh_grid_threads())

WH_KERNEL(clear_vertices, graph_args, a) {
    for (uint64_t v = wh_thread_id(); v < a.n; v += wh_grid_threads()) {
        wh_multigraph_clear_vertex(&a.g.vertices[v]);
    }
}

WH_KERNEL(init_vertices, graph_args, a) {
    FOR_ROUNDS(v, a.n) {
        uint64_t first = 0, end = 0;
        if (v < a.n) {
            first = a.offset[v];
            end = a.offset[v + 1];
        }
        (void)wh_multigraph_init_vertex(a.g, a.heap, WH_FULL_WARP, (uint32_t)v, a.to + first,
                                        (uint32_t)(end - first));
    }
}

WH_KERNEL(insert_arcs, graph_args, a) {
    FOR_ROUNDS(i, a.n) {
        const wh_mask mask = wh_ballot(WH_FULL_WARP, i < a.n);
        if (i < a.n) {
            const int in = wh_multigraph_insert(a.g, a.heap, mask, a.from[i], a.to[i]);
            a.out[i] = in ? WH_MULTIGRAPH_INSERTED : WH_MULTIGRAPH_NOT_DONE;
        }
        wh_syncwarp(WH_FULL_WARP);
    }
}

WH_KERNEL(remove_arcs, graph_args, a) {
    FOR_ROUNDS(i, a.n) {
        const int mine = i < a.n && a.out[i] == WH_MULTIGRAPH_INSERTED;
        const wh_mask mask = wh_ballot(WH_FULL_WARP, mine);
        if (mine) {
            const int found = wh_multigraph_remove(a.g, a.heap, mask, a.from[i], a.to[i]);
            a.out[i] = found ? WH_MULTIGRAPH_NOT_DONE : WH_MULTIGRAPH_MISSING;
        }
        wh_syncwarp(WH_FULL_WARP);
    }
}

WH_KERNEL(read_degrees, graph_args, a) {
    for (uint64_t v = wh_thread_id(); v < a.n; v += wh_grid_threads()) {
        a.out[v] = a.g.vertices[v].degree;
        if (!wh_multigraph_vertex_sound(&a.g.vertices[v])) {
            wh_add_u64_relaxed(&a.g.counts->broken, 1);
        }
    }
}

WH_KERNEL(dump_adjacencies, graph_args, a) {
    for (uint64_t v = wh_thread_id(); v < a.n; v += wh_grid_threads()) {
        const wh_multigraph_vertex *x = &a.g.vertices[v];
        wh_multigraph_copy_(a.out + a.offset[v], x->neighbours, x->degree, 0, 1);
    }
}

WH_KERNEL(destroy_vertices, graph_args, a) {
    for (uint64_t v = wh_thread_id(); v < a.n; v += wh_grid_threads()) {
        wh_multigraph_destroy_vertex(a.heap, &a.g.vertices[v]);
    }
}

/* --- host side ---------------------------------------------------------------- */

static wh_launch launch_for(wh_heap *heap, uint64_t n) {
    const uint64_t blocks = (n + WH_MULTIGRAPH_BLOCK_THREADS - 1) / WH_MULTIGRAPH_BLOCK_THREADS;
    return wh_grid(wh_heap_device(heap),
                   blocks > WH_MULTIGRAPH_MAX_BLOCKS ? WH_MULTIGRAPH_MAX_BLOCKS : (uint32_t)blocks,
                   WH_MULTIGRAPH_BLOCK_THREADS);
}

typedef wh_status (*kernel_fn)(const wh_launch *launch, const graph_args *args);

/* For n items; the caller adds what else its kernel reads. */
static graph_args args_for(const wh_multigraph_view *g, uint64_t n) {
    graph_args a;
    memset(&a, 0, sizeof a);
    a.g = *g;
    a.n = n;
    return a;
}

static wh_status run(kernel_fn kernel, wh_heap *heap, graph_args *a) {
    const wh_status s = wh_heap_handle(heap, &a->heap);
    if (s != WH_OK || a->n == 0) {
        return s;
    }
    const wh_launch l = launch_for(heap, a->n);
    return kernel(&l, a);
}

static wh_status graph_clear(wh_heap *heap, const wh_multigraph_view *g) {
    graph_args a = args_for(g, g->n_vertices);
    return run(clear_vertices, heap, &a);
}

static wh_status graph_init(wh_heap *heap, const wh_multigraph_view *g, const uint64_t *offset,
                            const uint32_t *to) {
    graph_args a = args_for(g, g->n_vertices);
    a.offset = offset;
    a.to = to;
    return run(init_vertices, heap, &a);
}

static wh_status graph_insert(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                              const uint32_t *to, uint64_t n, uint32_t *done) {
    graph_args a = args_for(g, n);
    a.from = from;
    a.to = to;
    a.out = done;
    return run(insert_arcs, heap, &a);
}

static wh_status graph_remove(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                              const uint32_t *to, uint64_t n, uint32_t *done) {
    graph_args a = args_for(g, n);
    a.from = from;
    a.to = to;
    a.out = done;
    return run(remove_arcs, heap, &a);
}

static wh_status graph_degrees(wh_heap *heap, const wh_multigraph_view *g, uint32_t *degree) {
    graph_args a = args_for(g, g->n_vertices);
    a.out = degree;
    return run(read_degrees, heap, &a);
}

static wh_status graph_dump(wh_heap *heap, const wh_multigraph_view *g, const uint64_t *offset,
                            uint32_t *to) {
    graph_args a = args_for(g, g->n_vertices);
    a.offset = offset;
    a.out = to;
    return run(dump_adjacencies, heap, &a);
}

static wh_status graph_destroy(wh_heap *heap, const wh_multigraph_view *g) {
    graph_args a = args_for(g, g->n_vertices);
    return run(destroy_vertices, heap, &a);
}

WH_TABLE(wh_multigraph_kernels) = {
    WH_OF_(NAME), graph_clear,   graph_init, graph_insert,
    graph_remove, graph_degrees, graph_dump, graph_destroy,
};

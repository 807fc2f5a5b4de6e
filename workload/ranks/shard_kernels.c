/* shard_kernels.c: PageRank's walk along the arcs of a rank's part. Compiled once for each target.
 *
 * A lane takes a vertex with few arcs, a warp one with more. Sums are sums of integers by relaxed
 * atomics: their order does not matter, and the host reads them when the kernel has ended. */
#define WH_KERNEL_THREADS 256

#include "workload/ranks/shard_kernels.h"

#include "warpheap/detail/alloc/tables.h"

#define LANE_DEGREE 16u
#define MOST_BLOCKS 65536u

WH_KERNEL(push, whi_shard_walk, a) {
    const uint64_t n = a.graph.n_vertices, step = wh_grid_threads();
    const uint32_t lane = wh_lane_id();
    for (uint64_t first = wh_thread_id() - lane; first < n; first += step) {
        const uint64_t v = first + lane;
        const uint32_t degree = v < n ? wh_graph_degree(a.graph, (uint32_t)v) : 0;
        const uint64_t share = degree != 0 ? a.rank[v] / degree : 0;
        wh_mask more = wh_ballot(WH_FULL_WARP, degree > LANE_DEGREE);
        WH_NO_UNROLL
        for (; more != 0; more &= more - 1) {
            const uint32_t leader = wh_mask_leader(more);
            const uint32_t its_degree = wh_shfl_u32(WH_FULL_WARP, degree, leader);
            const uint64_t its_share = wh_shfl_u64(WH_FULL_WARP, share, leader);
            const uint32_t *to = wh_graph_neighbours(a.graph, (uint32_t)(first + leader));
            for (uint32_t i = lane; i < its_degree; i += WH_WARP_SIZE) {
                wh_add_u64_relaxed(&a.in[to[i]], its_share);
            }
        }
        if (degree != 0 && degree <= LANE_DEGREE) {
            const uint32_t *to = wh_graph_neighbours(a.graph, (uint32_t)v);
            for (uint32_t i = 0; i < degree; i++) {
                wh_add_u64_relaxed(&a.in[to[i]], share);
            }
        }
    }
}

static wh_status start_push(wh_device *device, const whi_shard_walk *walk) {
    const uint64_t blocks = (walk->graph.n_vertices + WH_KERNEL_THREADS - 1) / WH_KERNEL_THREADS;
    const wh_launch l =
        wh_grid(device, blocks < MOST_BLOCKS ? (uint32_t)blocks : MOST_BLOCKS, WH_KERNEL_THREADS);
    return push(&l, walk);
}

WH_TABLE_ONCE(whi_shard_kernels) = {start_push};

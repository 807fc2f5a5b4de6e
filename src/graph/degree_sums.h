/* degree_sums.h: of all vertices' degrees, what comes before each: the offsets of to_csr. For every
 * class of graphs; included by batch_kernels.h. Three kernels: the sum of each chunk of vertices,
 * written where its first one's will be; what comes before each chunk; what comes before each
 * vertex. Cost: two passes over the records.
 *
 * B1      a block's barrier: sums of warps are all there before one is read, and have all been read
 *         before one is written again */
#ifndef WHI_GRAPH_DEGREE_SUMS_H
#define WHI_GRAPH_DEGREE_SUMS_H

#include "batch_steps.h"

#define CHUNK_ROUNDS 8u /* vertices of a thread */

/* The sum of v over a block's threads up to the caller, its own included, and *all: over all of
 * them. All threads; shared memory: two words a warp. */
WH_FN uint64_t scan_block_u64(uint64_t v, uint64_t *all) {
    uint64_t *sums = (uint64_t *)wh_shared();
    const uint32_t lane = wh_lane_id(), warp = wh_thread_in_block() / WH_WARP_SIZE;
    const uint32_t warps = wh_block_threads() / WH_WARP_SIZE;
    for (uint32_t apart = 1; apart < WH_WARP_SIZE; apart *= 2) {
        const uint64_t below = wh_shfl_u64(WH_FULL_WARP, v, lane >= apart ? lane - apart : lane);
        v += lane >= apart ? below : 0;
    }
    /* B1: an earlier call's sums have been read */
    WH_PLANT(sums_b1_earlier, wh_syncthreads(), (void)0);
    if (lane == WH_WARP_SIZE - 1) {
        sums[warp] = v;
    }
    WH_PLANT(sums_b1_here, wh_syncthreads(), (void)0); /* B1 */
    uint64_t before = 0, sum = 0;
    for (uint32_t w = 0; w < warps; w++) {
        before += w < warp ? sums[w] : 0;
        sum += sums[w];
    }
    *all = sum;
    return before + v;
}

WH_KERNEL(sum_chunks, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    const uint64_t chunk = (uint64_t)wh_block_threads() * CHUNK_ROUNDS;
    for (uint64_t first = wh_block_id() * chunk; first < b->n_vertices;
         first += wh_grid_blocks() * chunk) {
        uint64_t sum = 0, all;
        for (uint32_t k = 0; k < CHUNK_ROUNDS; k++) {
            const uint64_t v = first + (uint64_t)k * wh_block_threads() + wh_thread_in_block();
            sum += v < b->n_vertices ? degree_of(b, (uint32_t)v) : 0;
        }
        (void)scan_block_u64(sum, &all);
        if (wh_thread_in_block() == 0) {
            b->sums[first] = all;
        }
    }
}

/* One block. */
WH_KERNEL(scan_chunks, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    const uint64_t chunk = (uint64_t)wh_block_threads() * CHUNK_ROUNDS;
    const uint64_t chunks = (b->n_vertices + chunk - 1) / chunk;
    uint64_t before = 0, all;
    for (uint64_t first = 0; first < chunks; first += wh_block_threads()) {
        const uint64_t k = first + wh_thread_in_block();
        const uint64_t its = k < chunks ? b->sums[k * chunk] : 0;
        const uint64_t up_to = scan_block_u64(its, &all);
        if (k < chunks) {
            b->sums[k * chunk] = before + up_to - its;
        }
        before += all;
    }
    if (wh_thread_in_block() == 0) {
        b->sums[b->n_vertices] = before;
    }
}

WH_KERNEL(scan_degrees, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    const uint64_t chunk = (uint64_t)wh_block_threads() * CHUNK_ROUNDS;
    for (uint64_t first = wh_block_id() * chunk; first < b->n_vertices;
         first += wh_grid_blocks() * chunk) {
        uint64_t before = b->sums[first], all;
        for (uint32_t k = 0; k < CHUNK_ROUNDS; k++) {
            const uint64_t v = first + (uint64_t)k * wh_block_threads() + wh_thread_in_block();
            const uint64_t its = v < b->n_vertices ? degree_of(b, (uint32_t)v) : 0;
            const uint64_t up_to = scan_block_u64(its, &all); /* all have read `before` */
            if (v < b->n_vertices) {
                b->sums[v] = before + up_to - its;
            }
            before += all;
        }
    }
}

#endif

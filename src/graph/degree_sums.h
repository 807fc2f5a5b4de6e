/* degree_sums.h: of all vertices' degrees, what comes before each: the offsets of to_csr. For every
 * class of graphs; included by batch_kernels.h. Three kernels: the sum of each chunk of vertices,
 * written where its first one's will be; what comes before each chunk; what comes before each
 * vertex. Cost: two passes over the records. */
#ifndef WHI_GRAPH_DEGREE_SUMS_H
#define WHI_GRAPH_DEGREE_SUMS_H

#include "batch_steps.h"
#include "warpheap/core/block.h"

#define CHUNK_ROUNDS 8u /* vertices of a thread */

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
        (void)wh_block_scan_u64((uint64_t *)wh_shared(), sum, &all);
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
        const uint64_t up_to = wh_block_scan_u64((uint64_t *)wh_shared(), its, &all);
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
            const uint64_t up_to =
                wh_block_scan_u64((uint64_t *)wh_shared(), its, &all); /* all have read `before` */
            if (v < b->n_vertices) {
                b->sums[v] = before + up_to - its;
            }
            before += all;
        }
    }
}

#endif

/* core/block.h: sums over the threads of a block.
 *
 *     WH_SHARED(uint64_t, words, WH_BLOCK_SCAN_WORDS);        // or of wh_shared()
 *     uint64_t all, before = wh_block_scan_u64(words, v, &all) - v;
 *
 * B1      words[]: each written by the last lane of its warp, read by all between the two barriers
 *
 * Lanes: all threads of a block, a whole number of warps, converged warp by warp. Cost: two
 * barriers and ten shuffles, and a read of a word for each warp. Test: tests/unit/block.c.
 */
#ifndef WH_CORE_BLOCK_H
#define WH_CORE_BLOCK_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_BLOCK_SCAN_WORDS 32u /* a word for each warp of the largest block */

/* The sum of v over a warp's lanes up to the caller, its own included. All lanes. */
WH_FN uint64_t wh_scan_add_warp_u64(uint64_t v) {
    const uint32_t lane = wh_lane_id();
    for (uint32_t apart = 1; apart < WH_WARP_SIZE; apart *= 2) {
        const uint64_t below = wh_shfl_u64(WH_FULL_WARP, v, lane >= apart ? lane - apart : lane);
        v += lane >= apart ? below : 0;
    }
    return v;
}

/* The sum of v over a block's threads up to the caller, its own included; *all: over all of them.
 * words: shared memory, WH_BLOCK_SCAN_WORDS; calls may follow each other at once. */
WH_FN uint64_t wh_block_scan_u64(uint64_t *words, uint64_t v, uint64_t *all) {
    const uint32_t warp = wh_thread_in_block() / WH_WARP_SIZE;
    const uint32_t warps = wh_block_threads() / WH_WARP_SIZE;
    v = wh_scan_add_warp_u64(v);
    /* B1: an earlier call's words have been read */
    WH_PLANT(sums_b1_earlier, wh_syncthreads(), (void)0);
    if (wh_lane_id() == WH_WARP_SIZE - 1) {
        words[warp] = v;
    }
    WH_PLANT(sums_b1_here, wh_syncthreads(), (void)0); /* B1 */
    uint64_t before = 0, sum = 0;
    for (uint32_t w = 0; w < warps; w++) {
        before += w < warp ? words[w] : 0;
        sum += words[w];
    }
    *all = sum;
    return before + v;
}

#include "warpheap/detail/simt/end.h"

#endif

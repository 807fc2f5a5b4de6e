/* rounds.h: what kernels on graphs have in common: rounds that the lanes of a warp make together,
 * and sums and lists of what they find, by one atomic a warp. */
#ifndef WHI_GRAPH_ROUNDS_H
#define WHI_GRAPH_ROUNDS_H

#include "warpheap/device.h"
#include "warpheap/simt.h"

#define ROUND_BLOCK 256u /* threads */
#define ROUND_BLOCKS 32u /* of an SM, at most */
#define SIM_BLOCK 64u
#define SIM_BLOCKS 2u /* a lane is a fiber there, and few find the same faults */

/* For each item i of rounds that the lanes of a warp make together; i >= n for some in the last. */
#define FOR_ROUNDS(i, n)                                                             \
    for (uint64_t i = wh_thread_id(), whi_first = i - wh_lane_id(); whi_first < (n); \
         i += wh_grid_threads(), whi_first += wh_grid_threads())

/* The sum over a full warp, in all lanes. */
WH_FN uint64_t warp_sum(uint64_t v) {
    for (uint32_t apart = 1; apart < WH_WARP_SIZE; apart *= 2) {
        v += wh_shfl_u64(WH_FULL_WARP, v, wh_lane_id() ^ apart);
    }
    return v;
}

/* Adds what the lanes of a full warp have. */
WH_FN void add_all(uint64_t *sum, uint64_t v) {
    v = warp_sum(v);
    if (v != 0 && wh_lane_id() == 0) {
        wh_add_u64_relaxed(sum, v);
    }
}

/* A place in a list for each lane of a full warp that `has` something; for others any. */
WH_FN uint32_t place_all(uint32_t *n, int has) {
    const wh_mask mask = wh_ballot(WH_FULL_WARP, has);
    uint32_t first = 0;
    if (mask != 0) {
        const uint32_t leader = wh_mask_leader(mask);
        if (wh_lane_id() == leader) {
            first = WH_PLANT(rounds_place, wh_fetch_add_u32_relaxed(n, wh_popc32(mask)),
                             (wh_add_u32_relaxed(n, wh_popc32(mask)), 0u));
        }
        first = wh_shfl_u32(WH_FULL_WARP, first, leader) + wh_mask_rank(mask);
    }
    return first;
}

/* --- host side -------------------------------------------------------------------------------- */

/* Of all blocks, and of a block. */
static inline uint32_t most_blocks(const wh_device_info *info) {
    return info->target == WH_TARGET_SIM ? SIM_BLOCKS : ROUND_BLOCKS * info->n_sms;
}
static inline uint32_t block_of(const wh_device_info *info) {
    return info->target == WH_TARGET_SIM ? SIM_BLOCK : ROUND_BLOCK;
}

/* A thread for each of `threads`, or fewer that go round. */
static inline wh_launch rounds_of(wh_device *device, void *stream, uint64_t threads) {
    const wh_device_info *info = wh_device_get_info(device);
    const uint32_t most = most_blocks(info), each = block_of(info);
    const uint64_t blocks = (threads + each - 1) / each + (threads == 0);
    wh_launch l = wh_grid(device, blocks < most ? (uint32_t)blocks : most, each);
    l.stream = stream;
    return l;
}

#endif

/* core/warp_group.h: splits the converged lanes of a warp into groups with equal keys, so
 * that one lane, the leader, can make one atomic for its whole group ("coalescing
 * allocations", Gallatin section 4.3; warp aggregation elsewhere).
 *
 *     const wh_group g = wh_group_by_u32(mask, size_class);
 *     uint64_t first = 0;
 *     if (wh_group_leads(g)) { first = wh_fetch_add_u64_relaxed(counter, g.n); }
 *     first = wh_shfl_u64(mask, first, g.leader);
 *     mine = first + g.rank;
 *
 * Lanes: all lanes of mask call together. Cost: one match instruction for a full warp, else
 * a shuffle a lane. A group does not order memory; syncwarp does. Test: tests/unit/warp_group.c.
 */
#ifndef WH_CORE_GROUP_H
#define WH_CORE_GROUP_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

typedef struct wh_group {
    wh_mask lanes;   /* lanes of the mask with the caller's key, caller included */
    uint32_t leader; /* lowest of them */
    uint32_t rank;   /* how many of them lie below the caller */
    uint32_t n;      /* how many there are */
} wh_group;

WH_FN wh_group wh_group_of_lanes(wh_mask lanes) {
    wh_group g;
    wh_assert((lanes >> wh_lane_id() & 1) != 0);
    g.lanes = lanes;
    g.leader = wh_mask_leader(lanes);
    g.rank = wh_mask_rank(lanes);
    g.n = wh_popc32(lanes);
    return g;
}

/* Of the caller alone. */
WH_FN wh_group wh_group_alone(void) {
    wh_group g;
    g.leader = wh_lane_id();
    g.lanes = 1u << g.leader;
    g.rank = 0;
    g.n = 1;
    return g;
}

WH_FN wh_group wh_group_by_u32(wh_mask mask, uint32_t key) {
    return wh_group_of_lanes(wh_match_any_u32(mask, key));
}

WH_FN wh_group wh_group_by_u64(wh_mask mask, uint64_t key) {
    return wh_group_of_lanes(wh_match_any_u64(mask, key));
}

WH_FN int wh_group_leads(wh_group g) {
    return g.rank == 0;
}

/* In the leader: the values of all lanes of its group, or-ed; in others, of some. All lanes of
 * mask, each with its own group. Cost: ten shuffles, whatever the groups. */
WH_FN uint32_t wh_group_or_u32(wh_mask mask, wh_group g, uint32_t v) {
    const wh_mask above = g.lanes & ~wh_lanemask_lt() & ~(1u << wh_lane_id());
    uint32_t next = above != 0 ? wh_ctz32(above) : wh_lane_id();
    wh_assert((g.lanes & ~mask) == 0);
    for (uint32_t reach = 1; reach < WH_WARP_SIZE; reach *= 2) {
        v |= wh_shfl_u32(mask, v, next); /* v: of `reach` lanes from mine on */
        next = wh_shfl_u32(mask, next, next);
    }
    return v;
}

/* The same for 64 bits. Cost: 3 log2(n) shuffles, n the largest group: every lane passes a number
 * that has as many bits as n - 1, the same in all lanes of mask. */
WH_FN uint64_t wh_group_or_u64(wh_mask mask, wh_group g, uint64_t v, uint32_t most) {
    const wh_mask above = g.lanes & ~wh_lanemask_lt() & ~(1u << wh_lane_id());
    uint32_t next = above != 0 ? wh_ctz32(above) : wh_lane_id();
    wh_assert((g.lanes & ~mask) == 0 && most < WH_WARP_SIZE);
    WH_NO_UNROLL
    for (; most != 0; most >>= 1) {
        v |= wh_shfl_u64(mask, v, next);
        next = wh_shfl_u32(mask, next, next);
    }
    return v;
}

/* In the leader: bit `at` modulo 64 for each lane of its group, or-ed; in others, of some. Lanes of
 * which the group does not matter pass active = 0. All lanes of mask, each with its own group.
 * Cost: a shuffle and a vote if the bits of every group are neighbours in the order of its lanes,
 * as they mostly are; 3 log2(n) shuffles more if not. */
WH_FN uint64_t wh_group_bits_u64(wh_mask mask, wh_group g, uint32_t at, int active) {
    const uint32_t first = wh_shfl_u32(mask, at, g.leader);
    uint64_t bits = (uint64_t)(~0u >> (32 - g.n)) << (first & 63);
    const uint32_t apart = active && at != first + g.rank ? 32u : 0;
    const uint32_t groups = wh_reduce_or_u32(mask, apart | (active ? g.n - 1 : 0));
    if ((groups & 32) != 0) {
        bits = wh_group_or_u64(mask, g, (uint64_t)1 << (at & 63), groups & 31);
    }
    return bits;
}

/* Groups by word, and in their leaders the group's bits as wh_group_bits_u64, and how many lanes
 * have the bit of another one. Lanes with active = 0 must have a word that no active lane has.
 * Cost: two shuffles and a vote if all lanes of mask are in one word, and their bits neighbours in
 * the order of the lanes. */
WH_FN wh_group wh_group_in_words(wh_mask mask, uint32_t word, uint32_t at, int active,
                                 uint64_t *bits, uint32_t *twice) {
    wh_group g = wh_group_of_lanes(mask);
    const uint32_t first = wh_shfl_u32(mask, at, g.leader);
    const int here = word == wh_shfl_u32(mask, word, g.leader) && at == first + g.rank;
    if (wh_all(mask, here)) {
        *bits = (uint64_t)(~0u >> (32 - g.n)) << (first & 63);
        *twice = 0;
    } else {
        g = wh_group_by_u32(mask, word);
        *bits = wh_group_bits_u64(mask, g, at, active);
        *twice = g.n - wh_popc64(*bits);
    }
    return g;
}

#include "warpheap/detail/simt/end.h"

#endif

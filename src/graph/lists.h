/* lists.h: what kernels that count triangles have in common: lists of numbers in order, and a warp
 * that deals out the entries of its lanes' lists. */
#ifndef WHI_GRAPH_LISTS_H
#define WHI_GRAPH_LISTS_H

#include "warpheap/simt.h"

/* Ascending numbers. */
typedef struct whi_list {
    const uint32_t *to;
    uint32_t n;
} whi_list;

/* Whether v is one of them: log2 n reads. */
WH_FN int list_has(whi_list l, uint32_t v) {
    uint32_t first = 0, n = l.n; /* if it is there, it is one of n from the first */
    WH_NO_UNROLL
    while (n > 1) {
        const uint32_t half = n / 2;
        first += l.to[first + half] <= v ? half : 0;
        n -= half;
    }
    return n == 1 && l.to[first] == v;
}

/* That of another lane, or of the caller. A full warp. */
WH_FN whi_list list_of_lane(whi_list mine, uint32_t lane) {
    whi_list its;
    its.n = wh_shfl_u32(WH_FULL_WARP, mine.n, lane);
    its.to =
        (const uint32_t *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)mine.to, lane);
    return its;
}

/* The lane whose entries the q-th one of a warp is among. up_to: in each lane the entries of its
 * own and of those before. All lanes, each with its q; what is beyond the last one is the last
 * lane's. */
WH_FN uint32_t lane_with(uint32_t up_to, uint32_t q) {
    uint32_t lane = 0;
    for (uint32_t step = WH_WARP_SIZE / 2; step != 0; step /= 2) {
        lane += wh_shfl_u32(WH_FULL_WARP, up_to, lane + step - 1) <= q ? step : 0;
    }
    return lane;
}

#endif

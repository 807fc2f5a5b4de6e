/* graph/team.h: the threads that work on one vertex together: a lane alone, a warp, or a block of
 * threads. What kind it is, is a constant where a team is made, so that it costs nothing to ask.
 * This file may change: it is no part of the API. Tests: tests/dgraph. */
#ifndef WH_GRAPH_TEAM_H
#define WH_GRAPH_TEAM_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

enum { WH_TEAM_LANE, WH_TEAM_WARP, WH_TEAM_BLOCK };

typedef struct wh_team {
    uint32_t me, n; /* the caller's number; how many */
    int kind;
} wh_team;

WH_FN wh_team wh_team_lane(void) {
    wh_team t;
    t.me = 0;
    t.n = 1;
    t.kind = WH_TEAM_LANE;
    return t;
}
WH_FN wh_team wh_team_warp(void) {
    wh_team t;
    t.me = wh_lane_id();
    t.n = WH_WARP_SIZE;
    t.kind = WH_TEAM_WARP;
    return t;
}
WH_FN wh_team wh_team_block(void) {
    wh_team t;
    t.me = wh_thread_in_block();
    t.n = wh_block_threads();
    t.kind = WH_TEAM_BLOCK;
    return t;
}

/* All meet here; what they wrote before, all see behind it. */
WH_FN void wh_team_sync(wh_team t) {
    if (t.kind == WH_TEAM_BLOCK) {
        wh_syncthreads();
    } else if (t.kind == WH_TEAM_WARP) {
        wh_syncwarp(WH_FULL_WARP);
    }
}

/* The sum of `counts` (0 or 1) over the threads of a block before the caller, and *all: over all of
 * them. Shared memory: a word a warp. */
WH_FN uint32_t wh_team_block_rank_(int counts, uint32_t *all) {
    uint32_t *sums = (uint32_t *)wh_shared();
    const uint32_t warp = wh_thread_in_block() / WH_WARP_SIZE;
    const uint32_t warps = wh_block_threads() / WH_WARP_SIZE;
    const wh_mask mine = wh_ballot(WH_FULL_WARP, counts);
    wh_syncthreads(); /* an earlier call's sums have been read */
    if (wh_lane_id() == 0) {
        sums[warp] = wh_popc32(mine);
    }
    wh_syncthreads();
    const uint32_t its = wh_lane_id() < warps ? sums[wh_lane_id()] : 0;
    const uint32_t up_to = wh_scan_add_warp_u32(its);
    *all = wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    return wh_shfl_u32(WH_FULL_WARP, up_to - its, warp) + wh_mask_rank(mine);
}

/* The same for any team, whose members all meet here. */
WH_FN uint32_t wh_team_rank(wh_team t, int counts, uint32_t *all) {
    if (t.kind == WH_TEAM_BLOCK) {
        return wh_team_block_rank_(counts, all);
    }
    if (t.kind == WH_TEAM_LANE) {
        *all = counts != 0;
        return 0;
    }
    const wh_mask mine = wh_ballot(WH_FULL_WARP, counts);
    wh_syncwarp(WH_FULL_WARP);
    *all = wh_popc32(mine);
    return wh_mask_rank(mine);
}

/* A step of the sort: entries whose numbers differ by `mask` change places if they are the wrong
 * way round. top: the highest bit of mask. */
WH_FN void wh_team_sort_step_(wh_team t, uint32_t *keys, uint32_t *with, uint32_t n, uint32_t mask,
                              uint32_t top) {
    for (uint32_t k = t.me; k < n; k += t.n) {
        const uint32_t other = k ^ mask;
        if ((k & top) == 0 && other < n) {
            const uint32_t a = keys[k], b = keys[other];
            if (a > b) {
                keys[k] = b;
                keys[other] = a;
                if (with != NULL) {
                    const uint32_t x = with[k];
                    with[k] = with[other];
                    with[other] = x;
                }
            }
        }
    }
    wh_team_sync(t);
}

/* Sorts n keys (at most 2^31), ascending, and what goes with each (or NULL). All of the team; who
 * wrote the keys has met the others since, and all see them sorted. Batcher's bitonic sort with all
 * comparisons the same way: entries beyond the last one would be infinite, and stay where they are.
 * Cost: log2(n)^2 / 2 steps, each n / 2 comparisons. */
WH_FN void wh_team_sort(wh_team t, uint32_t *keys, uint32_t *with, uint32_t n) {
    WH_NO_UNROLL
    for (uint32_t half = 1; half < n; half *= 2) {
        wh_team_sort_step_(t, keys, with, n, 2 * half - 1, half);
        WH_NO_UNROLL
        for (uint32_t apart = half / 2; apart != 0; apart /= 2) {
            wh_team_sort_step_(t, keys, with, n, apart, apart);
        }
    }
}

/* How many of n ascending keys are less than `key`; with `equal`, or the same. Any lane. */
WH_FN uint32_t wh_sorted_below(const uint32_t *keys, uint32_t n, uint32_t key, int equal) {
    uint32_t first = 0;
    WH_NO_UNROLL
    while (n != 0) {
        const uint32_t half = n / 2, there = keys[first + half];
        if (there < key || (equal && there == key)) {
            first += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return first;
}

/* Whether one of n ascending keys is `key`. */
WH_FN int wh_sorted_has(const uint32_t *keys, uint32_t n, uint32_t key) {
    const uint32_t at = wh_sorted_below(keys, n, key, 0);
    return at < n && keys[at] == key;
}

#include "warpheap/detail/simt/end.h"

#endif

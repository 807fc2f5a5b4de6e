/* graph/team.h: the threads that work on one vertex together: a lane alone, a warp, or a block of
 * threads. What kind it is, is a constant where a team is made, so that it costs nothing to ask.
 * This file may change: it is no part of the API.
 *
 * B1       wh_team_sync: what threads of a team do before it happens before what any of them does
 *          behind it. The other calls that a team makes together have such barriers, where they say
 *          that all meet, and between their own accesses to shared memory
 *
 * Check    tests/dgraph, tests/fault/graph */
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

/* What the first of a team has. All of the team, who meet here. A block needs shared memory: a
 * word. */
WH_FN uint32_t wh_team_firsts(wh_team t, uint32_t v) {
    if (t.kind == WH_TEAM_BLOCK) {
        uint32_t *word = (uint32_t *)wh_shared();
        wh_syncthreads(); /* what was there has been read */
        if (t.me == 0) {
            *word = v;
        }
        wh_syncthreads();
        v = *word;
    } else if (t.kind == WH_TEAM_WARP) {
        v = wh_shfl_u32(WH_FULL_WARP, v, 0);
    }
    return v;
}

/* Where a thread's first item goes among those of a team that count, and its second one, which
 * comes behind all first ones; and how many there are. */
typedef struct wh_team_ranks {
    uint32_t first, second, all;
} wh_team_ranks;

/* first, second: 0 or 1. All of the team, who meet here. A block needs shared memory: a word a
 * warp, which has both counts, of at most 1,024 each. */
WH_FN wh_team_ranks wh_team_rank_two(wh_team t, int first, int second) {
    wh_team_ranks r;
    if (t.kind == WH_TEAM_LANE) {
        r.first = 0;
        r.second = first != 0;
        r.all = r.second + (second != 0);
        return r;
    }
    const wh_mask firsts = wh_ballot(WH_FULL_WARP, first),
                  seconds = wh_ballot(WH_FULL_WARP, second);
    const uint32_t mine = wh_popc32(firsts) | wh_popc32(seconds) << 16;
    uint32_t before = 0, all = mine;
    if (t.kind == WH_TEAM_BLOCK) {
        uint32_t *sums = (uint32_t *)wh_shared();
        const uint32_t warp = wh_thread_in_block() / WH_WARP_SIZE;
        /* B1: an earlier call's sums have been read */
        WH_PLANT(team_b1_earlier, wh_syncthreads(), (void)0);
        if (wh_lane_id() == 0) {
            sums[warp] = mine;
        }
        WH_PLANT(team_b1_sums, wh_syncthreads(), (void)0); /* B1 */
        const uint32_t its =
            wh_lane_id() < wh_block_threads() / WH_WARP_SIZE ? sums[wh_lane_id()] : 0;
        const uint32_t up_to = wh_scan_add_warp_u32(its);
        all = wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
        before = wh_shfl_u32(WH_FULL_WARP, up_to - its, warp);
    } else {
        wh_syncwarp(WH_FULL_WARP); /* B1 */
    }
    r.first = (before & 0xffffu) + wh_mask_rank(firsts);
    r.second = (all & 0xffffu) + (before >> 16) + wh_mask_rank(seconds);
    r.all = (all & 0xffffu) + (all >> 16);
    return r;
}

/* The same with one item. */
WH_FN uint32_t wh_team_rank(wh_team t, int counts, uint32_t *all) {
    const wh_team_ranks r = wh_team_rank_two(t, counts, 0);
    *all = r.all;
    return r.first;
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
    WH_PLANT(team_b1_step, wh_team_sync(t), (void)0); /* B1 */
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

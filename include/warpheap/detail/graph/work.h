/* graph/work.h: what the classes of graphs have in common. This file may change: it is no part of
 * the API.
 *
 * locks    a bit a vertex. The lane that sees it go from 0 to 1 has the vertex to
 *          itself until it clears it; the bits of a word are taken independently of each other
 *
 * I4       when no kernel runs all bits are 0
 *
 * P1       unlock (release) -> try_lock (acquire): what an owner did happens before what the next
 *          one does. Those who take or give other bits of the word in between read, change and
 *          write it at once, so that they do not come between the two
 *
 * Progress try_lock never waits. Who has a lock waits for nobody who wants one: lanes try, those
 *          that got one finish and unlock, and only then all lanes of the warp go round again
 * Check    wh_graph_check; tests/dgraph, tests/fault/graph
 */
#ifndef WH_GRAPH_WORK_H
#define WH_GRAPH_WORK_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_GRAPH_NONE UINT32_MAX /* no vertex; no rank */

/* What became of the arcs of a worker. */
typedef struct wh_graph_tally {
    uint32_t applied, no_change, refused;
} wh_graph_tally;

WH_HD uint64_t wh_graph_lock_words(uint64_t n_vertices) {
    return (n_vertices + 31) / 32;
}

/* Whether the caller has vertex v now. Lanes: any. */
WH_FN int wh_graph_try_lock(uint32_t *locks, uint32_t v) {
    const uint32_t bit = 1u << (v & 31);
    const uint32_t seen = wh_load_u32_relaxed(&locks[v / 32]) & bit;
    return seen == 0 && WH_PLANT(work_lock,
                                 (WH_PLANT_ORDER(work_p1_lock, wh_fetch_or_u32,
                                                 acquire)(&locks[v / 32], bit) & /* P1 */
                                  bit) == 0,
                                 1);
}

/* Lanes: any. */
WH_FN void wh_graph_unlock(uint32_t *locks, uint32_t v) {
    (void)WH_PLANT_ORDER(work_p1_unlock, wh_fetch_and_u32, release)(
        &locks[v / 32], WH_PLANT(work_i4, ~(1u << (v & 31)), ~0u)); /* P1, I4 */
}

/* A warp takes vertex v, and gives it back. All lanes; the warp has no other lock. */
WH_FN void wh_graph_lock_warp(uint32_t *locks, uint32_t v) {
    for (uint32_t attempt = 0;; attempt++) {
        const int got = wh_lane_id() == 0 && wh_graph_try_lock(locks, v);
        if (wh_any(WH_FULL_WARP, got)) {
            break;
        }
        wh_backoff(attempt);
    }
    /* P1: the first lane's acquire orders the other lanes' loads, too */
    WH_PLANT(work_p1_warp_in, wh_syncwarp(WH_FULL_WARP), (void)0);
}
WH_FN void wh_graph_unlock_warp(uint32_t *locks, uint32_t v) {
    /* P1: the other lanes' stores come before the first one's release */
    wh_syncwarp(WH_FULL_WARP);
    if (wh_lane_id() == 0) {
        wh_graph_unlock(locks, v);
    }
}

/* Whether somebody has it, I4. */
WH_FN int wh_graph_is_locked(const uint32_t *locks, uint32_t v) {
    return (wh_load_u32_relaxed(&locks[v / 32]) >> (v & 31) & 1) != 0;
}

#include "warpheap/detail/simt/end.h"

#endif

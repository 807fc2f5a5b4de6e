/* core/walk_random.h: random numbers for lanes that must not share state: a 32-bit linear
 * congruential sequence whose outputs are hashed, seeded from the thread's number and the
 * clock, so that two launches differ. Good enough to spread accesses; not for ciphers.
 *
 *     wh_walk_random r = wh_walk_seed();
 *     page = wh_walk_below(&r, n_pages);
 *
 * Lanes of a warp that walk side by side look at neighbouring places instead:
 *
 *     wh_walk_random r = wh_walk_seed_near();
 *     page = wh_walk_near(&r, n_pages);
 *
 * They share a sequence, without any exchange: it depends on the warp and on the clock, which
 * lanes that step together read at once. Each place of each lane is uniform as before, so the
 * mean number of steps is that of independent lanes; but one access of the warp touches few
 * sectors where independent lanes touch 32, and lanes of a warp never meet at one place. Lanes
 * that come apart go on with what they have, or get clocks of their own: that costs time alone.
 *
 * Lanes: any lane alone. Cost: one clock read, then registers.
 */
#ifndef WH_CORE_WALK_RANDOM_H
#define WH_CORE_WALK_RANDOM_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

typedef struct wh_walk_random {
    uint32_t state;
} wh_walk_random;

WH_HD uint32_t wh_walk_hash(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Two hashes in a row: thread numbers and clock values that differ by little must not
 * give starts that lie close together on the one cycle. */
WH_FN wh_walk_random wh_walk_seed_of_(uint32_t number) {
    const uint64_t clock = wh_clock();
    const uint32_t thread = wh_walk_hash(number * 0x9e3779b9u + 1u);
    wh_walk_random r;
    r.state = wh_walk_hash(thread ^ wh_walk_hash((uint32_t)clock ^ (uint32_t)(clock >> 32)));
    return r;
}

WH_FN wh_walk_random wh_walk_seed(void) {
    return wh_walk_seed_of_((uint32_t)wh_thread_id());
}

/* The same for all lanes of a warp that call it at the same time. */
WH_FN wh_walk_random wh_walk_seed_near(void) {
    return wh_walk_seed_of_((uint32_t)wh_thread_id() - wh_lane_id());
}

/* Uniform over 0..n-1. n > 0. */
WH_FN uint32_t wh_walk_below(wh_walk_random *r, uint32_t n) {
    wh_assert(n != 0);
    r->state = r->state * 747796405u + 2891336453u;
    return (uint32_t)((uint64_t)wh_walk_hash(r->state) * n >> 32);
}

/* The lane's place where `first` is that of lane 0: the next one for each lane, and from the
 * last one on to the first. */
WH_FN uint32_t wh_walk_beside(uint32_t first, uint32_t n) {
    const uint32_t lane = wh_lane_id();
    wh_assert(first < n);
    return lane < n - first ? first + lane : (lane - (n - first)) % n;
}

/* A place for each lane: uniform, and neighbours for lanes that share a sequence. */
WH_FN uint32_t wh_walk_near(wh_walk_random *r, uint32_t n) {
    return wh_walk_beside(wh_walk_below(r, n), n);
}

/* Whether a lane that walks for itself has a step to make: while it walks, but in a part of a warp
 * whose lanes call together (mask neither 0 nor all) as long as any of them does. Lanes that left
 * the walk and waited for the others behind it could be left behind there (warpheap.h, "A lane
 * that allocates for others"). */
WH_FN int wh_walk_on(wh_mask mask, int walks) {
    return mask == 0 || mask == WH_FULL_WARP ? walks : wh_any(mask, walks);
}

#include "warpheap/detail/simt/end.h"

#endif

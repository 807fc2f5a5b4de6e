/* core/walk_random.h: random numbers for lanes that must not share state: a 32-bit linear
 * congruential sequence whose outputs are hashed, seeded from the thread's number and the
 * clock, so that two launches differ. Good enough to spread accesses; not for ciphers.
 *
 *     wh_walk_random r = wh_walk_seed();
 *     page = wh_walk_below(&r, n_pages);
 *
 * Lanes: any lane alone. Cost: one clock read, then registers.
 */
#ifndef WH_CORE_WALK_RANDOM_H
#define WH_CORE_WALK_RANDOM_H

#include "warpheap/simt/simt.h"

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
WH_FN wh_walk_random wh_walk_seed(void) {
    const uint64_t clock = wh_clock();
    const uint32_t thread = wh_walk_hash((uint32_t)wh_thread_id() * 0x9e3779b9u + 1u);
    wh_walk_random r;
    r.state = wh_walk_hash(thread ^ wh_walk_hash((uint32_t)clock ^ (uint32_t)(clock >> 32)));
    return r;
}

/* Uniform over 0..n-1. n > 0. */
WH_FN uint32_t wh_walk_below(wh_walk_random *r, uint32_t n) {
    r->state = r->state * 747796405u + 2891336453u;
    return (uint32_t)((uint64_t)wh_walk_hash(r->state) * n >> 32);
}

#endif

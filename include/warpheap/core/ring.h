/* core/ring.h: ring queue of small integers, the per-segment block queue of Gallatin
 * (section 4.2). The caller counts: a semaphore outside guarantees that no more takes
 * are started than puts are finished, and that at most `capacity` values are inside.
 *
 * Layout  entries[position mod capacity] = value + 1, 0 = empty; capacity a power of 2.
 *         After a reset to 0..n-1 the first n positions are "virgin": position p holds
 *         p without being written, so a reset costs nothing per value.
 * Fields  head, tail  any lane, fetch_add relaxed: hand out positions
 *         entries     put: cas 0 -> value + 1 release; take: exchange with 0 acquire
 *         virgin      written by reset alone
 * I1      tail - head = values inside, when quiet
 * I2      every put value is taken exactly once: one exchange sees it
 * P1      put (release) -> take (acquire)
 * Lanes   any lane alone
 * Progress put waits for an earlier take of the same entry, take for the put of its
 *         position; each of these is under way (it has its position), and the one
 *         with the lowest position waits for nobody. Blocking only while that lane is
 *         between two of its own instructions.
 * Check   tests/unit/ring.c
 */
#ifndef WH_CORE_RING_H
#define WH_CORE_RING_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

typedef struct wh_ring {
    uint64_t head;
    uint64_t tail;
    uint64_t virgin; /* positions below this one hold their own number */
} wh_ring;

/* Makes the ring hold 0..n-1. The caller owns it alone; what it held is dropped. */
WH_FN void wh_ring_reset(wh_ring *r, uint32_t *entries, uint32_t capacity, uint32_t n) {
    const uint64_t head = wh_load_u64_relaxed(&r->head);
    const uint64_t virgin = wh_load_u64_relaxed(&r->virgin);
    const uint64_t tail = wh_load_u64_relaxed(&r->tail);
    for (uint64_t p = head > virgin ? head : virgin; p < tail; p++) {
        wh_store_u32_relaxed(&entries[p & (capacity - 1)], 0);
    }
    wh_store_u64_relaxed(&r->head, 0);
    wh_store_u64_relaxed(&r->tail, n);
    wh_store_u64_relaxed(&r->virgin, n);
}

/* A position for one value, which the caller then stores with put_at. In two steps so
 * that the caller may have other memory operations under way in between. */
WH_FN uint64_t wh_ring_reserve_put(wh_ring *r) {
    return wh_fetch_add_u64_relaxed(&r->tail, 1);
}

/* One attempt each, for lanes that wait together: whether the value went in; the value + 1,
 * or 0. For positions past `virgin`. */
WH_FN int wh_ring_try_put(uint32_t *e, uint32_t value) {
    return WH_PLANT_ORDER(ring_p1_put, wh_cas_u32, release)(e, 0, value + 1) == 0; /* P1 */
}

WH_FN uint32_t wh_ring_try_take(uint32_t *e) {
    return WH_PLANT_ORDER(ring_p1_take, wh_exchange_u32, acquire)(e, 0); /* P1, I2 */
}

WH_FN void wh_ring_put_at(uint32_t *entries, uint32_t capacity, uint64_t p, uint32_t value) {
    uint32_t *e = &entries[p & (capacity - 1)];
    for (uint32_t attempt = 0; !wh_ring_try_put(e, value); attempt++) {
        wh_backoff(attempt);
    }
}

/* n positions to take from; the first is returned. Each is then passed to take_at once,
 * by any lane. */
WH_FN uint64_t wh_ring_reserve_take(wh_ring *r, uint32_t n) {
    return wh_fetch_add_u64_relaxed(&r->head, n);
}

WH_FN uint32_t wh_ring_take_at(wh_ring *r, uint32_t *entries, uint32_t capacity, uint64_t p) {
    if (p < wh_load_u64_relaxed(&r->virgin)) {
        return (uint32_t)p;
    }
    uint32_t *e = &entries[p & (capacity - 1)];
    uint32_t v = 0;
    for (uint32_t attempt = 0; (v = wh_ring_try_take(e)) == 0; attempt++) {
        wh_backoff(attempt);
    }
    return v - 1;
}

#include "warpheap/detail/simt/end.h"

#endif

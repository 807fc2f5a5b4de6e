/* alloc/circular/search.h: the search for a chunk. */
#ifndef WH_ALLOC_CIRCULAR_SEARCH_H
#define WH_ALLOC_CIRCULAR_SEARCH_H

#include "warpheap/detail/alloc/circular/grace.h"
#include "warpheap/detail/alloc/circular/list.h"

#include "warpheap/detail/simt/begin.h"

enum {
    WH_CIRCULAR_TOOK,  /* a chunk is ours */
    WH_CIRCULAR_SHORT, /* a lane that searches for itself has not gone far enough */
    WH_CIRCULAR_WAIT,  /* some that would do are in LIMBO */
    WH_CIRCULAR_NONE   /* came around */
};

typedef struct wh_circular_take {
    uint32_t u, next;
    uint32_t outcome;
} wh_circular_take;

WH_FN uint32_t wh_circular_offset_(wh_circular_ref h, uint32_t which) {
    return wh_load_u32_relaxed(&h.offsets[which * WH_CIRCULAR_STRIDE]);
}

/* A chunk to start at, for the lane of that rank among those that search each for itself:
 * where the offset is, or one not in use behind it. The offset's own header may be gone. */
WH_FN uint32_t wh_circular_start_(wh_circular_ref h, uint32_t offset, uint32_t rank) {
    if (WH_PLANT(circular_hint,
                 rank == 0 && (wh_load_u64_acquire(&h.map[offset / 32]) &
                               wh_circular_free_bit_(offset)) != 0,
                 1)) { /* P4 */
        return offset;
    }
    return rank != 0 ? wh_circular_rth_(h.map, h.units, offset, rank)
                     : wh_circular_skip_(h.map, h.units, offset, WH_CIRCULAR_BLANK);
}

/* Looks for a chunk of at least `want` units, or if these are rare `least`, and locks it.
 * Counted as active. Searches that
 * start together meet at one chunk, and one gets it; the others would walk over all that is in
 * use behind it. So a search looks at the offset now and then, and follows it when it has
 * moved: somebody has found a chunk and left a rest. And it skips what the map says is in
 * use. */
WH_FN wh_circular_take wh_circular_search_(wh_circular_ref h, uint32_t which, int alone,
                                           uint32_t rank, uint32_t least, uint32_t want,
                                           int fused) {
    wh_circular_take t;
    uint32_t limbo = 0, used = 0, followed = 0, passed = 0;
    uint32_t looks = alone ? WH_CIRCULAR_NEAR : UINT32_MAX;
    uint32_t offset = wh_circular_offset_(h, which);
    t.u = wh_circular_start_(h, offset, rank);
    uint32_t walked = 0; /* at most one chunk more than there are units, which are below 2^30 */
    for (; limbo < WH_CIRCULAR_PATIENCE && looks != 0; looks--) {
        if (walked >= h.units || passed == WH_CIRCULAR_SMALL + WH_CIRCULAR_HOME) {
            if (want == least) {
                break;
            }
            want = least; /* back to the offset, for less */
            passed = 0;
            offset = wh_circular_offset_(h, which);
            t.u = wh_circular_start_(h, offset, rank);
            walked = 0;
        }
        passed += passed >= WH_CIRCULAR_SMALL;
        t.u = t.u < h.units ? t.u : 0; /* the sentinel leads back */
        wh_circular_chunk c = wh_circular_read_(h, t.u, fused);
        if (want != least && c.flag != WH_CIRCULAR_USED && c.next - t.u < want &&
            passed < WH_CIRCULAR_SMALL && ++passed == WH_CIRCULAR_SMALL) {
            /* A look at the largest chunks of the split. */
            t.u = wh_circular_start_(h, which * h.root * h.levels, 0);
            continue;
        }
        if (c.flag != WH_CIRCULAR_USED && c.next - t.u >= want) {
            const uint32_t was = c.flag;
            if (wh_circular_lock_(h, t.u, &c, fused)) {
                /* A LIMBO chunk tells when it may be had only to its holder. */
                const int ready =
                    was == WH_CIRCULAR_FREE ||
                    WH_PLANT(
                        circular_grace,
                        WH_PLANT_ORDER(circular_p3_take, wh_load_u64, acquire)(&h.state->grace) >=
                            wh_load_u64_relaxed(wh_circular_stamp_at_(h, t.u)), /* P3 */
                        1);
                if (ready && c.next - t.u >= want) {
                    t.next = c.next;
                    t.outcome = WH_CIRCULAR_TOOK;
                    return t;
                }
                limbo += !ready;
                wh_circular_let_go_(h, t.u, was, c.next, fused);
            }
        }
        const int large = c.next - t.u >= 32;
        walked += c.next - t.u;
        t.u = c.next;
        used += c.flag == WH_CIRCULAR_USED;
        if (c.flag == WH_CIRCULAR_USED && used % WH_CIRCULAR_LOOK == 0 &&
            followed < WH_CIRCULAR_FOLLOW) {
            const uint32_t now = wh_circular_offset_(h, which);
            if (now != offset) {
                offset = now;
                t.u = wh_circular_start_(h, offset, rank);
                walked = 0;
                followed++;
                continue;
            }
        }
        if (used < WH_CIRCULAR_LOOK || large) {
            continue; /* the list leads over large chunks faster than the map */
        }
        const uint32_t to = wh_circular_skip_(h.map, h.units, c.next, UINT32_MAX);
        walked += to - c.next;
        t.u = to;
    }
    t.next = 0;
    t.outcome = alone ? WH_CIRCULAR_SHORT : limbo != 0 ? WH_CIRCULAR_WAIT : WH_CIRCULAR_NONE;
    return t;
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/circular/search.h: the search for a chunk: Algorithm 3. It may change.
 *
 * Departures
 *   - a search that came around once without success ends (the paper's goes on for ever);
 *   - a search follows the offset when others have moved it;
 *   - a group passes chunks that are too small for all of it, a few times, and then looks
 *     from the largest chunks of the split on, before it makes do with less: searches that
 *     lose a chunk go on to the next one, and would otherwise end, all of them, among the
 *     smallest.
 *
 * Fields and who writes them (device scope)
 *   offsets  any malloc, relaxed, when the map has what it leads to; merge: cas, relaxed,
 *            where the header it led to is gone. A hint
 */
#ifndef WH_ALLOC_CIRCULAR_SEARCH_H
#define WH_ALLOC_CIRCULAR_SEARCH_H

#include "warpheap/detail/alloc/circular/grace.h"
#include "warpheap/detail/alloc/circular/list.h"

#include "warpheap/detail/simt/begin.h"

#define WH_CIRCULAR_PATIENCE 4u /* LIMBO chunks passed before a search waits for grace */
#define WH_CIRCULAR_LOOK                                                                      \
    4u                         /* used chunks passed before a search looks at the offset, and \
                                  from then on at the map */
#define WH_CIRCULAR_FOLLOW 16u /* times that it follows it, before a round of its own */
#define WH_CIRCULAR_NEAR 16u   /* chunks that a lane looks at that searches for itself */
#define WH_CIRCULAR_SMALL 8u   /* chunks too small for a group that it passes */
#define WH_CIRCULAR_HOME 64u   /* chunks that it then looks at from the first of the split on */

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

/* What a search looks for. */
typedef struct wh_circular_wish {
    uint32_t which; /* offset */
    uint32_t least; /* units */
    uint32_t want;  /* units, if chunks as large as that are not rare */
    uint32_t rank;  /* of the lane among those that search each for itself */
    int alone;      /* it does: the search ends soon */
} wh_circular_wish;

/* Where a search is. */
typedef struct wh_circular_seek {
    uint32_t u;      /* the next chunk */
    uint32_t want;   /* units */
    uint32_t offset; /* as it was last seen */
    uint32_t walked; /* units: at most one chunk more than there are, which are below 2^30 */
    uint32_t passed; /* chunks too small for all, and then those from the largest on */
    uint32_t limbo, used, followed;
} wh_circular_seek;

WH_FN void wh_circular_begin_(wh_circular_ref h, wh_circular_wish wish, wh_circular_seek *s) {
    s->offset = wh_circular_offset_(h, wish.which);
    s->u = wh_circular_start_(h, s->offset, wish.rank);
    s->walked = 0;
}

/* Locks the chunk *c at s->u, if it still is what the search looks for. Counted as active. */
WH_FN int wh_circular_try_(wh_circular_ref h, wh_circular_seek *s, wh_circular_chunk *c,
                           int fused) {
    const uint32_t was = c->flag;
    if (!wh_circular_lock_(h, s->u, c, fused)) {
        return 0;
    }
    /* A LIMBO chunk tells when it may be had only to its holder. */
    const int ready = was == WH_CIRCULAR_FREE ||
                      WH_PLANT(circular_grace,
                               WH_PLANT(circular_p3_take, wh_load_u64_acquire,
                                        wh_load_u64_relaxed)(&h.state->grace) >=
                                   wh_load_u64_relaxed(wh_circular_stamp_at_(h, s->u)), /* P3 */
                               1);
    if (ready && c->next - s->u >= s->want) {
        return 1;
    }
    s->limbo += !ready;
    wh_circular_let_go_(h, s->u, was, c->next, fused);
    return 0;
}

/* Goes on behind the chunk c at s->u. Searches that start together meet at one chunk, and one gets
 * it; the others would walk over all that is in use behind it. So a search looks at the offset now
 * and then, and follows it when it has moved: another lane has found a chunk and left a rest. And
 * it skips what the map says is in use. */
WH_FN void wh_circular_move_on_(wh_circular_ref h, wh_circular_wish wish, wh_circular_seek *s,
                                wh_circular_chunk c) {
    const int large = c.next - s->u >= 32;
    s->walked += c.next - s->u;
    s->u = c.next;
    s->used += c.flag == WH_CIRCULAR_USED;
    if (c.flag == WH_CIRCULAR_USED && s->used % WH_CIRCULAR_LOOK == 0 &&
        s->followed < WH_CIRCULAR_FOLLOW) {
        const uint32_t now = wh_circular_offset_(h, wish.which);
        if (now != s->offset) {
            s->offset = now;
            s->u = wh_circular_start_(h, now, wish.rank);
            s->walked = 0;
            s->followed++;
            return;
        }
    }
    if (s->used < WH_CIRCULAR_LOOK || large) {
        return; /* the list leads over large chunks faster than the map */
    }
    s->u = wh_circular_skip_(h.map, h.units, c.next, UINT32_MAX);
    s->walked += s->u - c.next;
}

/* Looks for a chunk as the wish says, and locks it. Counted as active. */
WH_FN wh_circular_take wh_circular_search_(wh_circular_ref h, wh_circular_wish wish, int fused) {
    uint32_t looks = wish.alone ? WH_CIRCULAR_NEAR : UINT32_MAX;
    wh_circular_take t;
    wh_circular_seek s;
    s.limbo = s.used = s.followed = s.passed = 0;
    s.want = wish.want;
    wh_circular_begin_(h, wish, &s);
    for (; s.limbo < WH_CIRCULAR_PATIENCE && looks != 0; looks--) {
        if (s.walked >= h.units || s.passed == WH_CIRCULAR_SMALL + WH_CIRCULAR_HOME) {
            if (s.want == wish.least) {
                break;
            }
            s.want = wish.least; /* back to the offset, for less */
            s.passed = 0;
            wh_circular_begin_(h, wish, &s);
        }
        s.passed += s.passed >= WH_CIRCULAR_SMALL;
        s.u = s.u < h.units ? s.u : 0; /* the sentinel leads back */
        wh_circular_chunk c = wh_circular_read_(h, s.u, fused);
        wh_assert_internal(s.u < c.next && c.next <= h.units); /* I3 */
        if (s.want != wish.least && c.flag != WH_CIRCULAR_USED && c.next - s.u < s.want &&
            s.passed < WH_CIRCULAR_SMALL && ++s.passed == WH_CIRCULAR_SMALL) {
            /* A look at the largest chunks of the split. */
            s.u = wh_circular_start_(h, wish.which * h.root * h.levels, 0);
            continue;
        }
        if (c.flag != WH_CIRCULAR_USED && c.next - s.u >= s.want &&
            wh_circular_try_(h, &s, &c, fused)) {
            t.u = s.u;
            t.next = c.next;
            t.outcome = WH_CIRCULAR_TOOK;
            return t;
        }
        wh_circular_move_on_(h, wish, &s, c);
    }
    t.u = t.next = 0;
    t.outcome = s.limbo != 0 ? WH_CIRCULAR_WAIT : WH_CIRCULAR_NONE;
    t.outcome = wish.alone ? (uint32_t)WH_CIRCULAR_SHORT : t.outcome;
    return t;
}

#include "warpheap/detail/simt/end.h"

#endif

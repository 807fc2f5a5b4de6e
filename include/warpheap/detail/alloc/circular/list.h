/* alloc/circular/list.h: headers of chunks, and the map that says where they are. It may change.
 *
 * The map is a departure: a bit outside the chunks for each unit that has a header, and one for
 * each chunk that is not in use. So free rejects what is no block, check and walk run in parallel,
 * an offset can be validated, and a search that has met some chunks in use skips those behind them.
 *
 * Fields and who writes them (device scope)
 *   header   flag: malloc, merge, gather: cas to USED, acquire; owner: store release.
 *            next: the holder of the chunk, release; before anything leads there, relaxed
 *   map      a word of 64 bits for 32 units. Bit b: there is a header at the unit; bit
 *            32 + b: and its chunk is not USED. split, free: or release, before the flag
 *            says so; malloc, merge: and, by the holder of the chunk, or of the one before
 * Invariants
 *   I1  a chunk has one holder: the lane that made its flag USED
 *   I2  a header leaves the list only by an act of the holder of the chunk before it (the
 *       lanes of a warp that free a row of chunks count as one holder)
 *   I4  next > u, and map has exactly the headers of the list, when quiet
 *   I5  a chunk that is not USED is so in map, too; when quiet, no other
 * Ordering pairs
 *   P1  free or split (store release of flag or next) -> cas or load acquire of a search
 *   P4  map: or release after the header is written, and the list leads to it -> load
 *       acquire. A lane that frees a chunk, or looks at its size, owns it, and needs no order
 */
#ifndef WH_ALLOC_CIRCULAR_LIST_H
#define WH_ALLOC_CIRCULAR_LIST_H

#include "warpheap/detail/alloc/circular/layout.h"
#include "warpheap/core/select.h"

#include "warpheap/detail/simt/begin.h"

#define WH_CIRCULAR_BLANK 64u /* words of the map without a header before a search gives it up */

typedef struct wh_circular_chunk {
    uint32_t flag;
    uint32_t next;
} wh_circular_chunk;

WH_HD uint32_t wh_circular_header_(int fused) {
    return fused ? 4 : 8;
}

/* The header of the chunk at unit u; of an unfused one, its flag. */
WH_FN uint32_t *wh_circular_at_(wh_circular_ref h, uint32_t u, int fused) {
    wh_assert_internal(u <= h.units);
    return (uint32_t *)(void *)(h.base + ((uint64_t)u << h.unit_log2) - wh_circular_header_(fused));
}

WH_FN wh_circular_chunk wh_circular_read_(wh_circular_ref h, uint32_t u, int fused) {
    const uint32_t *at = wh_circular_at_(h, u, fused);
    wh_circular_chunk c;
    if (!fused) { /* next is what leads on; the flag is compared again by the cas */
        c.flag = wh_load_u32_relaxed(at);
        c.next = wh_load_u32_acquire(at + 1); /* P1 */
        return c;
    }
    c.flag = WH_PLANT(circular_p1_read, wh_load_u32_acquire, wh_load_u32_relaxed)(at); /* P1 */
    c.next = c.flag >> 2;
    c.flag &= 3;
    return c;
}

/* Makes the chunk USED if its flag (fused: and next) is as it was seen; then *c holds what
 * its next is while we hold it. */
WH_FN int wh_circular_lock_(wh_circular_ref h, uint32_t u, wh_circular_chunk *c, int fused) {
    uint32_t *at = wh_circular_at_(h, u, fused);
    const uint32_t rest = fused ? c->next << 2 : 0;
    wh_assert_internal(c->flag != WH_CIRCULAR_USED && u < h.units);
    if (wh_cas_u32_acquire(at, rest | c->flag, rest | WH_CIRCULAR_USED) != (rest | c->flag)) {
        return 0; /* I1, P1 */
    }
    if (!fused) {
        c->next = wh_load_u32_acquire(at + 1);
    }
    return 1;
}

/* These write headers, by the holder of the chunk. A new one, to which nothing leads yet: */
WH_FN void wh_circular_new_(wh_circular_ref h, uint32_t u, uint32_t flag, uint32_t next,
                            int fused) {
    uint32_t *at = wh_circular_at_(h, u, fused);
    wh_store_u32_relaxed(at, fused ? next << 2 | flag : flag);
    if (!fused) {
        wh_store_u32_relaxed(at + 1, next);
    }
}

/* Another next; the chunk stays USED. */
WH_FN void wh_circular_lead_(wh_circular_ref h, uint32_t u, uint32_t next, int fused) {
    wh_assert_internal(u < next && next <= h.units); /* I4 */
    wh_store_u32_release(wh_circular_at_(h, u, fused) + (fused ? 0 : 1),
                         fused ? next << 2 | WH_CIRCULAR_USED : next); /* P1 */
}

/* Another flag: the end of the holding. */
WH_FN void wh_circular_let_go_(wh_circular_ref h, uint32_t u, uint32_t flag, uint32_t next,
                               int fused) {
    wh_assert_internal(u < next && next <= h.units && flag <= WH_CIRCULAR_LIMBO); /* I4 */
    WH_PLANT(circular_p1_write, wh_store_u32_release, wh_store_u32_relaxed)
    (wh_circular_at_(h, u, fused), fused ? next << 2 | flag : flag); /* P1 */
}

/* Bit of the map for a header at u, and with it for a chunk that is not in use. */
WH_HD uint64_t wh_circular_bit_(uint32_t u) {
    return (uint64_t)1 << u % 32;
}

WH_HD uint64_t wh_circular_free_bit_(uint32_t u) {
    return (uint64_t)1 << (32 + u % 32);
}

/* For the owner of a block, whose header nobody else takes away (P4). */
WH_FN int wh_circular_is_header_(wh_circular_ref h, uint32_t u) {
    wh_assert_internal(u <= h.units);
    return (wh_load_u64_relaxed(&h.map[u / 32]) & wh_circular_bit_(u)) != 0;
}

/* Of a chunk that we hold, whose header is written: it is one; or, with the free bit, it is
 * one and will not be in use. */
WH_FN void wh_circular_add_header_(wh_circular_ref h, uint32_t u, int is_free) {
    wh_assert_internal(u < h.units);
    WH_PLANT(circular_p4_add, wh_or_u64_release, wh_or_u64_relaxed)
    (&h.map[u / 32], wh_circular_bit_(u) | (is_free ? wh_circular_free_bit_(u) : 0)); /* P4, I5 */
}

WH_FN void wh_circular_drop_header_(wh_circular_ref h, uint32_t u) {
    wh_assert_internal(u != 0 && u < h.units); /* I2: another one leads to it */
    wh_assert_expensive(wh_circular_is_header_(h, u));
    wh_and_u64_relaxed(&h.map[u / 32], ~(wh_circular_bit_(u) | wh_circular_free_bit_(u)));
}

/* Of a chunk that we hold: it stays in use. */
WH_FN void wh_circular_mark_used_(wh_circular_ref h, uint32_t u) {
    wh_assert_expensive(wh_circular_is_header_(h, u));
    wh_and_u64_relaxed(&h.map[u / 32], ~wh_circular_free_bit_(u)); /* I5 */
}

/* A chunk from unit u on: the first one that is not in use, or, where the map has a word
 * without headers, the last one before that, which leads over it faster. `units` or more:
 * none before the end, or none within the first `blank` words. Its bit was set after the call
 * began. */
WH_FN uint32_t wh_circular_skip_(const uint64_t *map, uint32_t units, uint32_t u, uint32_t blank) {
    const uint32_t last = units / 32;
    uint32_t at = UINT32_MAX; /* a chunk in use */
    wh_assert_internal(u <= units);
    uint64_t mask = (~0u << u % 32) * (((uint64_t)1 << 32) + 1);
    for (uint32_t k = u / 32; k <= last; mask = ~(uint64_t)0) {
        if (at == UINT32_MAX && k - u / 32 >= blank) {
            return units;
        }
        const uint64_t word =
            WH_PLANT(circular_p4_skip, wh_load_u64_acquire, wh_load_u64_relaxed)(&map[k]) &
            mask; /* P4 */
        if (word >> 32 != 0) {
            return k * 32 + wh_ctz32((uint32_t)(word >> 32));
        }
        if (word == 0 && at != UINT32_MAX) {
            return at;
        }
        at = word != 0 ? k * 32 + 31 - wh_clz32((uint32_t)word) : at;
        k++;
        /* Several loads at a time over small chunks in use, or where no chunk begins. */
        while (k + 3 <= last) {
            const uint64_t a = wh_load_u64_relaxed(&map[k]), b = wh_load_u64_relaxed(&map[k + 1]);
            const uint64_t c = wh_load_u64_relaxed(&map[k + 2]);
            const uint64_t d = wh_load_u64_acquire(&map[k + 3]); /* P4 */
            const int none = at == UINT32_MAX && (a | b | c | d) == 0 && k - u / 32 < blank;
            if (!none && (at == UINT32_MAX || (a | b | c | d) >> 32 != 0 || a == 0 || b == 0 ||
                          c == 0 || d == 0)) {
                break;
            }
            k += 4;
            at = none ? at : k * 32 - 1 - wh_clz32((uint32_t)d);
        }
    }
    return units;
}

/* The r-th chunk, from 0, from unit u on that is not in use, or if they are sparse an
 * earlier one. */
WH_FN uint32_t wh_circular_rth_(const uint64_t *map, uint32_t units, uint32_t u, uint32_t r) {
    uint32_t from = u % 32;
    uint32_t k = u / 32;
    wh_assert_internal(u <= units);
    for (uint32_t i = 0; i < 8 && k <= units / 32; i++, k++, from = 0) {
        const uint32_t bits = (uint32_t)(wh_load_u64_acquire(&map[k]) >> 32) >> from; /* P4 */
        const uint32_t n = wh_popc32(bits);
        if (r < n) {
            return k * 32 + from + wh_select32(bits, r + 1);
        }
        r -= n;
    }
    return wh_circular_skip_(map, units, k <= units / 32 ? k * 32 : 0, WH_CIRCULAR_BLANK);
}

/* Merges the chunk behind `next` into the one that we hold, if it is not used: the new
 * next. I2: it cannot go away meanwhile, as we hold the chunk before it. */
WH_FN uint32_t wh_circular_absorb_(wh_circular_ref h, uint32_t next, int fused) {
    wh_circular_chunk c = wh_circular_read_(h, next, fused);
    wh_assert_internal(c.next > next || next == h.units); /* I2, I4 */
    if (c.flag == WH_CIRCULAR_USED || !wh_circular_lock_(h, next, &c, fused)) {
        return next;
    }
    wh_circular_drop_header_(h, next);
    return c.next;
}

/* The chunk at u took in what lies before next: an offset that led to a header in between
 * leads to u, for a search that starts where there is no header has the map to go by alone.
 * That of the heap that u lies in; others get there by chance, and their searches begin
 * elsewhere. */
WH_FN void wh_circular_follow_(wh_circular_ref h, uint32_t u, uint32_t next) {
    const uint32_t heap = u / (h.root * h.levels);
    const uint32_t which = heap < h.n_offsets ? heap : h.n_offsets - 1;
    uint32_t *at = &h.offsets[which * WH_CIRCULAR_STRIDE];
    const uint32_t offset = wh_load_u32_relaxed(at);
    if (offset > u && offset < next) {
        (void)wh_cas_u32_relaxed(at, offset, u);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

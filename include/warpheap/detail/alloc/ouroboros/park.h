/* alloc/ouroboros/park.h: free pages that are known by their bits, and the chunks that have some.
 * It may change.
 *
 * PAGES put a page here that the queue has no room for; its chunk is then parked in a tree. CHUNKS
 * know all free pages by their bits; the queue has the chunks, and the tree those that the queue
 * has no room for.
 *
 * Fields and who writes them (any lane, device scope)
 *   bits     a set bit is a free page that is in no queue of pages. free: fetch_or release; malloc:
 *            fetch_and acquire, for a page that it has claimed in `count`
 *   count    bits that are set, less those that are claimed. free: fetch_add acq_rel, after the
 *            bit; malloc: fetch_sub by the lane that holds the chunk
 *   cls      plain: by the lane that got the chunk from the pool, before it publishes any page of
 *            it; NO_CLASS by the lane that gives the chunk back
 *   parked   chunks that are in the tree, or that a lane holds which took them from there: raised
 *            before the insert, lowered when the holder is done
 *   full     chunks with all pages free that are not in the pool: raised by the lane that completes
 *            one, lowered by the lane that claims of it or has put it into the pool. (layout.h has
 *            its two counters; the upper one also counts chunks that were opened.)
 *
 * Invariants
 *   I2  count > 0 if and only if the chunk is in exactly one of these: its queue (CHUNKS), its
 *       tree, the hands of one lane that will put it there. Only this holder lowers count, so for
 *       the holder count never drops. The free that raises count from 0 is the next holder
 *   I3  a page chunk keeps its class while a page of it is live or claimed. It goes back to the
 *       pool only through its holder, and with every bit set. So free may read the class of a live
 *       page plainly
 *   I4  a lane that has claimed a page in count finds a set bit: bits >= count + claims
 *
 * Ordering pairs
 *   P2  bits: fetch_or release -> fetch_and acquire. CHUNKS: the lanes whose pages share a word
 *       -> syncwarp -> the lane that makes the fetch_or
 *   P3  count: last free acq_rel -> holder's acquire -> pool: no access to a chunk's pages
 *       comes after the chunk has another class
 *   P4  parked: tree insert release -> remove acquire (core/veb.h P1)
 */
#ifndef WH_ALLOC_OUROBOROS_PARK_H
#define WH_ALLOC_OUROBOROS_PARK_H

#include "warpheap/detail/alloc/ouroboros/layout.h"
#include "warpheap/core/hash.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

/* I2: a chunk that the caller holds, with count > 0, into the tree. */
WH_FN void wh_ouro_park_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    wh_assert_internal(c < h.n_classes && chunk == wh_ouro_first_(h, c, chunk));
    wh_assert_internal(h.cls[chunk] == c); /* I3 */
    wh_assert_expensive(wh_load_u32_relaxed(&h.count[chunk]) != 0);
    wh_add_u64_relaxed(&wh_ouro_class_(h, c)->parked, 1);
    (void)wh_veb_insert(wh_ouro_tree_(h, c), chunk); /* P4 */
}

WH_FN void wh_ouro_unpark_(wh_ouro_ref h, uint32_t c) {
    const uint64_t parked = wh_fetch_sub_u64_release(&wh_ouro_class_(h, c)->parked, 1);
    wh_assert_internal(parked != 0);
    (void)parked;
}

/* PAGES: the caller has free pages in hand, from before they leave the queue or an open word, or
 * the count of their chunk is raised, until `full` has been raised for a chunk completed by them.
 */
WH_FN void wh_ouro_begin_moving_(wh_ouro_ref h, uint32_t c) {
    (void)wh_fetch_add_u64_acq_rel(&wh_ouro_class_(h, c)->moving, 1); /* P5 */
}

WH_FN void wh_ouro_end_moving_(wh_ouro_ref h, uint32_t c) {
    const uint64_t moving = wh_fetch_sub_u64_release(&wh_ouro_class_(h, c)->moving, 1); /* P5 */
    wh_assert_internal(moving != 0);
    (void)moving;
}

/* Where a lane begins to look through a tree. Every one begins elsewhere: in a full heap all lanes
 * of a device look at once. */
WH_FN uint64_t wh_ouro_start_(wh_ouro_ref h) {
    return (uint64_t)wh_spread32((uint32_t)wh_thread_id()) * h.n_chunks >> 32;
}

/* Takes a chunk out of the tree: the caller holds it. NONE: there is none. */
WH_FN uint32_t wh_ouro_hold_parked_(wh_ouro_ref h, uint32_t c) {
    const wh_veb tree = wh_ouro_tree_(h, c);
    for (uint64_t from = wh_ouro_start_(h);;) {
        uint64_t chunk = wh_veb_successor(tree, from);
        if (chunk == WH_VEB_NONE && from != 0) {
            chunk = wh_veb_successor(tree, 0);
        }
        if (chunk == WH_VEB_NONE) {
            chunk = wh_veb_scan(tree, 0);
        }
        if (chunk == WH_VEB_NONE) {
            return WH_CHUNK_NONE;
        }
        if (wh_veb_remove(tree, chunk)) { /* P4 */
            return (uint32_t)chunk;
        }
        from = chunk;
    }
}

/* What add_pages and claim_pages have found. */
#define WH_OURO_HOLDS 1u /* the chunk had no free pages: the caller holds it now */
#define WH_OURO_FULL 2u  /* all its pages are free, or were: `full` is to be changed */

/* Adds n pages to the count of a chunk, whose bits are set. */
WH_FN uint32_t wh_ouro_add_pages_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t n) {
    const uint32_t old = WH_PLANT(ouro_p3_count, wh_fetch_add_u32_acq_rel,
                                  wh_fetch_add_u32_relaxed)(&h.count[chunk], n); /* P3 */
    wh_assert_internal(n != 0 && old + n <= wh_ouro_pages_(h, c));               /* I4 */
    const uint32_t full = old + n == wh_ouro_pages_(h, c) ? WH_OURO_FULL : 0;
    return (old == 0 ? WH_OURO_HOLDS : 0) | full; /* I2 */
}

/* Changes `full` by so many chunks of lanes with `changes`: one add for the lanes of a class
 * (with pages as large as chunks each page counts). All lanes of mask call. */
WH_FN void wh_ouro_add_full_(wh_ouro_ref h, wh_mask mask, int changes, uint32_t c, int up) {
    if (wh_any(mask, changes)) {
        const wh_group g = wh_group_by_u32(mask, changes ? c : WH_OURO_NO_CLASS);
        if (changes && wh_group_leads(g)) {
            wh_add_u64_relaxed(wh_ouro_full_(h, c),
                               up ? wh_ouro_full_up_(g.n) : wh_ouro_full_down_(g.n));
        }
    }
}

/* Sets bits in word w of a chunk: which of them were clear. The others are of free pages. */
WH_FN uint64_t wh_ouro_set_bits_(wh_ouro_ref h, uint32_t chunk, uint32_t w, uint64_t bits) {
    return bits & ~WH_PLANT(ouro_p2_set, wh_fetch_or_u64_release,
                            wh_fetch_or_u64_relaxed)(wh_ouro_bits_(h, chunk, w), bits); /* P2 */
}

/* PAGES: counts n pages of a chunk whose bits are set, and parks the chunk if need be. */
WH_FN void wh_ouro_park_pages_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t n) {
    const uint32_t found = wh_ouro_add_pages_(h, c, chunk, n);
    if ((found & WH_OURO_FULL) != 0) {
        wh_add_u64_relaxed(wh_ouro_full_(h, c), wh_ouro_full_up_(1));
    }
    if ((found & WH_OURO_HOLDS) != 0) {
        wh_ouro_park_(h, c, chunk);
    }
}

/* PAGES: a free page for which the queue has no room. */
WH_FN void wh_ouro_park_page_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t page) {
    if (wh_ouro_set_bits_(h, chunk, page >> 6, (uint64_t)1 << (page & 63)) == 0) {
        wh_add_u64_relaxed(&h.header->bad_frees, 1);
    } else {
        wh_ouro_park_pages_(h, c, chunk, 1);
    }
}

/* The bits of word w of a chunk that stand for pages [from, to). */
WH_HD uint64_t wh_ouro_range_bits_(uint32_t w, uint32_t from, uint32_t to) {
    wh_assert_internal(from < w * 64 + 64 && w * 64 < to);
    const uint32_t begin = w * 64 > from ? 0 : from - w * 64;
    const uint32_t end = w * 64 + 64 < to ? 64 : to - w * 64;
    return wh_lowest_bits(UINT64_MAX, end - begin) << begin;
}

/* Claims the bit of a page of a chunk; the caller has claimed it in count (I4). start: where
 * to look first; what is fresh is handed out in order. */
WH_FN uint32_t wh_ouro_claim_bit_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t start) {
    const uint32_t pages = wh_ouro_pages_(h, c);
    const uint32_t words = (pages + 63) / 64;
    wh_assert_internal(h.cls[chunk] == c); /* I3 */
    start &= pages - 1;
    for (uint32_t w = start / 64, from = start % 64;;) {
        uint64_t *bits = wh_ouro_bits_(h, chunk, w);
        const uint64_t set = wh_load_u64_relaxed(bits);
        if (set == 0) {
            w = w + 1 < words ? w + 1 : 0;
            from = 0;
            continue;
        }
        const uint64_t above = set >> from << from;
        const uint32_t b = wh_ctz64(above != 0 ? above : set);
        const uint64_t bit = (uint64_t)1 << b;
        const uint64_t old = WH_PLANT(ouro_p2_claim, wh_fetch_and_u64_acquire,
                                      wh_fetch_and_u64_relaxed)(bits, ~bit); /* P2 */
        if ((old & bit) != 0) {
            return w * 64 + b;
        }
    }
}

/* What a holder has claimed of its chunk. */
typedef struct wh_ouro_claim {
    uint32_t got;   /* pages */
    uint32_t start; /* of a fresh chunk: the first of them */
    uint32_t left;  /* what others may still claim; if some, the chunk has to be put back */
    int was_full;   /* all its pages were free: `full` is to be lowered */
} wh_ouro_claim;

WH_FN wh_ouro_claim wh_ouro_no_claim_(void) {
    wh_ouro_claim claim;
    claim.got = claim.start = claim.left = 0;
    claim.was_full = 0;
    return claim;
}

/* Lowers the count of a chunk that the caller holds by up to n. */
WH_FN wh_ouro_claim wh_ouro_claim_pages_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t n) {
    const uint32_t pages = wh_ouro_pages_(h, c);
    const uint32_t have = wh_load_u32_relaxed(&h.count[chunk]);
    wh_ouro_claim claim;
    claim.got = have < n ? have : n;
    const uint32_t old = wh_fetch_sub_u32_acq_rel(&h.count[chunk], claim.got); /* I2 */
    wh_assert_internal(have != 0 && have <= old && old <= pages);              /* I2 */
    claim.was_full = old == pages;
    claim.start = pages - old;
    claim.left = old - claim.got;
    return claim;
}

/* Makes a chunk from the pool one of class c; its pages [from, pages) are free. */
WH_FN void wh_ouro_format_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    const uint32_t units = wh_ouro_level_(h, c) ? 1u << h.large_log2 : 1;
    wh_assert_internal(c < h.n_classes && chunk + units <= h.n_chunks);
    wh_assert_internal(chunk == wh_ouro_first_(h, c, chunk) && h.cls[chunk] == WH_OURO_NO_CLASS);
    wh_store_u32_relaxed(&h.count[chunk], 0);
    for (uint32_t i = 0; i < units; i++) {
        h.cls[chunk + i] = c; /* I3 */
    }
    const uint32_t words = (wh_ouro_pages_(h, c) + 63) / 64;
    for (uint32_t w = 0; w < words; w++) {
        wh_store_u64_relaxed(wh_ouro_bits_(h, chunk, w), 0);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

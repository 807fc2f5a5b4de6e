/* alloc/ouroboros/park.h: free pages that are known by their bits, and the chunks that have some.
 */
#ifndef WH_ALLOC_OUROBOROS_PARK_H
#define WH_ALLOC_OUROBOROS_PARK_H

#include "warpheap/detail/alloc/ouroboros/layout.h"
#include "warpheap/core/hash.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

/* I2: a chunk that the caller holds, with count > 0, into the tree. */
WH_FN void wh_ouro_park_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    wh_add_u64_relaxed(&wh_ouro_class_(h, c)->parked, 1);
    (void)wh_veb_insert(wh_ouro_tree_(h, c), chunk); /* P4 */
}

WH_FN void wh_ouro_unpark_(wh_ouro_ref h, uint32_t c) {
    (void)wh_fetch_sub_u64_release(&wh_ouro_class_(h, c)->parked, 1);
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
    const uint32_t full = old + n == 1u << wh_ouro_pages_log2_(h, c) ? WH_OURO_FULL : 0;
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
    const uint32_t begin = w * 64 > from ? 0 : from - w * 64;
    const uint32_t end = w * 64 + 64 < to ? 64 : to - w * 64;
    return wh_lowest_bits(UINT64_MAX, end - begin) << begin;
}

/* Claims the bit of a page of a chunk; the caller has claimed it in count (I4). start: where
 * to look first; what is fresh is handed out in order. */
WH_FN uint32_t wh_ouro_claim_bit_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t start) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    const uint32_t words = (pages + 63) / 64;
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

/* Lowers the count of a chunk that the caller holds by up to n: how many pages it has
 * claimed. *left: what others may still claim; *found: FULL if all pages were free. */
WH_FN uint32_t wh_ouro_claim_pages_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t n,
                                    uint32_t *start, uint32_t *left, uint32_t *found) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    const uint32_t have = wh_load_u32_relaxed(&h.count[chunk]);
    const uint32_t got = have < n ? have : n;
    const uint32_t old = wh_fetch_sub_u32_acq_rel(&h.count[chunk], got); /* I2 */
    *found = old == pages ? WH_OURO_FULL : 0;
    *start = pages - old;
    *left = old - got;
    return got;
}

/* Makes a chunk from the pool one of class c; its pages [from, pages) are free. */
WH_FN void wh_ouro_format_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    const uint32_t units = wh_ouro_level_(h, c) ? 1u << h.large_log2 : 1;
    wh_store_u32_relaxed(&h.count[chunk], 0);
    for (uint32_t i = 0; i < units; i++) {
        h.cls[chunk + i] = c; /* I3 */
    }
    const uint32_t words = ((1u << wh_ouro_pages_log2_(h, c)) + 63) / 64;
    for (uint32_t w = 0; w < words; w++) {
        wh_store_u64_relaxed(wh_ouro_bits_(h, chunk, w), 0);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

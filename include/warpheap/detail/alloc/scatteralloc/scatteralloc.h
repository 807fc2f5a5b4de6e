/* alloc/scatteralloc: ScatterAlloc of Steinberger, Kenzel, Kainz and Schmalstieg, "ScatterAlloc:
 * Massively Parallel Dynamic Memory Allocation for the GPU", InPar 2012, after the description of
 * M. Winter, "Dynamic Memory Management on the GPU" (thesis), section 2.3.3 and figure 2.5.
 * Internal: may change.
 *
 * Memory is pages in one table (core/page_table.h): a page holds chunks of the size that its first
 * user asked for. Where a request looks first is a hash of its size, of the multiprocessor and of
 * the warp, so that requests seldom meet at one word; from there on it looks at page after page.
 * docs/SURVEY_ALLOCATORS.md: what differs from the original, and why.
 *
 * Terms (the thesis's)
 *   region       region_pages pages, with a word that says which sizes need not look here
 *   super block  superblock_pages pages: requests are scattered over those of the active one
 *   chunk        a part of a page: up to half of it. Requests above that get whole pages in a row
 *
 * Fields and who writes them (device scope, all relaxed: hints, on which speed alone depends)
 *   regions  a bit for each kind of chunk: who found none in all of the region sets it; who frees
 *            one of a full page clears it; who empties a page clears all
 *   active   number of a super block; cas by who looked far and found nothing in it
 * Exact    a request that finds nothing there searches all pages (alloc/paged.h, page_table.h X1)
 * Ordering core/page_table.h P1, P2
 * Progress lock-free (core/page_table.h); a walk looks at 16 regions of each of four super
 *          blocks at most
 * Cost     malloc: for a group of lanes with one size a few loads, a load and a cas of the entry;
 *          a fetch_or a lane. free: as in core/page_table.h, and a load where a page was full
 * Fails    NULL is exact; see alloc/paged.h
 * Check    conform, stress, fault, tests/unit/page_table.c
 */
#ifndef WH_ALLOC_SCATTERALLOC_H
#define WH_ALLOC_SCATTERALLOC_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/paged.h"
#include "warpheap/detail/alloc/scatteralloc/options.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_SCATTERALLOC_PAGE 256u
#define WH_SCATTERALLOC_REGION 2u
#define WH_SCATTERALLOC_SUPERBLOCK 8u
#define WH_SCATTERALLOC_MOST 8u
#else
#define WH_SCATTERALLOC_PAGE 4096u
#define WH_SCATTERALLOC_REGION 16u
#define WH_SCATTERALLOC_SUPERBLOCK 64u  /* pages, at least */
#define WH_SCATTERALLOC_MOST (1u << 19) /* 2 GiB: what the lanes of a device ask for at once */
#endif
#define WH_SCATTERALLOC_SUPERBLOCKS 4u /* that a heap should have */
#define WH_SCATTERALLOC_LOOK 8u        /* pages that are looked at together */
#define WH_SCATTERALLOC_TRIES 4u       /* super blocks that a request looks into */
#define WH_SCATTERALLOC_FAR 16u        /* regions of each */

typedef struct wh_scatteralloc_ref {
    wh_paged paged;
    uint64_t *active;
    uint64_t *regions;
    uint32_t region_log2;     /* pages of a region */
    uint32_t superblock_log2; /* pages of a super block */
    uint32_t superblocks;
} wh_scatteralloc_ref;

#define wh_scatteralloc_NAME "scatteralloc"
#define wh_scatteralloc_MAX_ALIGN (1u << 20)
#define wh_scatteralloc_BLOCKS 5
#define wh_scatteralloc_EACH 0
#define wh_scatteralloc_left WH_NO_LEFT

/* --- layout ----------------------------------------------------------------------------------- */

WH_FN_HOST wh_status wh_scatteralloc_plan(wh_scatteralloc_ref *h, wh_plan *plan,
                                          unsigned char *memory, uint64_t bytes,
                                          const void *options, uint32_t n_sms) {
    const wh_scatteralloc_options *o = (const wh_scatteralloc_options *)options;
    const uint64_t page = o->page_bytes != 0 ? o->page_bytes : WH_SCATTERALLOC_PAGE;
    const uint64_t region = o->region_pages != 0 ? o->region_pages : WH_SCATTERALLOC_REGION;
    const uint64_t given = o->superblock_pages;
    uint64_t pages = region > WH_SCATTERALLOC_SUPERBLOCK ? region : WH_SCATTERALLOC_SUPERBLOCK;
    (void)n_sms;
    while (pages < WH_SCATTERALLOC_MOST &&
           2 * pages * WH_SCATTERALLOC_SUPERBLOCKS * page <= bytes) {
        pages *= 2;
    }
    pages = given != 0 ? given : pages;
    if (page < 32 || page > 1u << 20 || region > 64 || pages < region || pages > 1u << 25 ||
        !wh_is_pow2(page) || !wh_is_pow2(region) || !wh_is_pow2(pages)) {
        return WH_BAD_ARGUMENT;
    }
    /* For 64 pages: as many words as they have regions; `active`. */
    wh_paged_shape shape;
    uint64_t *own = NULL;
    shape.page_log2 = wh_ctz64(page);
    shape.own_words = 64 / region;
    shape.own_fixed = 1;
    const wh_status s = wh_paged_plan(&h->paged, plan, memory, bytes, shape, &own);
    if (s != WH_OK) {
        return s;
    }
    h->region_log2 = wh_ctz64(region);
    h->superblock_log2 = wh_ctz64(pages);
    h->superblocks = (uint32_t)((h->paged.table.n - 1) >> h->superblock_log2) + 1;
    if (memory != NULL) {
        h->active = own;
        h->regions = own + 1;
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_scatteralloc_layout(void) {
    static const uint64_t parts[] = {
        WH_PAGED_LAYOUT,
#define WH_F_(field) WH_LAYOUT_FIELD(wh_scatteralloc_ref, field),
        sizeof(wh_scatteralloc_ref),
        WH_F_(paged) WH_F_(active) WH_F_(regions) WH_F_(region_log2)
        WH_F_(superblock_log2) WH_F_(superblocks)
#undef WH_F_
        WH_SCATTERALLOC_PAGE, WH_SCATTERALLOC_REGION, WH_SCATTERALLOC_SUPERBLOCK,
    };
    return wh_layout_hash("scatteralloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_scatteralloc_init(wh_scatteralloc_ref h, uint64_t i, uint64_t n) {
    const uint64_t regions = (((uint64_t)h.paged.table.n - 1) >> h.region_log2) + 1;
    wh_paged_init(h.paged, i, n);
    if (i == 0) {
        wh_store_u64_relaxed(h.active, 0);
    }
    for (uint64_t k = i; k < regions; k += n) {
        wh_store_u64_relaxed(&h.regions[k], 0);
    }
}

/* --- malloc ----------------------------------------------------------------------------------- */

/* Where in a super block of so many pages a lane looks first. Lanes of a warp, and warps beside
 * each other that fill a page together, look at one. */
WH_FN uint32_t wh_scatteralloc_hash_(wh_scatteralloc_ref h, uint32_t kind, uint32_t pages) {
    const uint64_t before = (wh_thread_id() & ~(uint64_t)31) * wh_page_chunk_bytes(kind);
    const uint32_t own = (uint32_t)(before >> h.paged.table.page_log2);
    return (own + (wh_spread32(kind) >> 8) + wh_sm_id() * 17497u) % pages;
}

/* Of the first pages of n from `page` on, a bit for each that has a chunk. The loads do not wait
 * for each other. */
WH_FN uint32_t wh_scatteralloc_look_(wh_scatteralloc_ref h, uint32_t page, uint32_t n,
                                     uint32_t kind) {
    const wh_page_table t = h.paged.table;
    const uint32_t most = n - 1 < WH_SCATTERALLOC_LOOK - 1 ? n - 1 : WH_SCATTERALLOC_LOOK - 1;
    uint32_t good = 0;
    WH_UNROLL_8
    for (uint32_t k = 0; k < WH_SCATTERALLOC_LOOK; k++) {
        const uint32_t at = k < most ? k : most;
        const uint64_t entry = wh_load_u64_relaxed(&t.entries[page + at]);
        good |= (uint32_t)wh_page_would_do(entry, t.page_log2, kind) << at;
    }
    return good;
}

/* Chunks on a page of a region, from page `from` of it on. */
WH_FN wh_page_found wh_scatteralloc_in_region_(wh_scatteralloc_ref h, uint32_t region,
                                               uint32_t from, uint32_t kind, uint32_t n) {
    const uint32_t first = region << h.region_log2, most = 1u << h.region_log2;
    const uint32_t left = h.paged.table.n - first, pages = left < most ? left : most;
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    if ((wh_load_u64_relaxed(&h.regions[region]) >> kind & 1) != 0) {
        return found;
    }
    for (uint32_t k = from; k < pages; k += WH_SCATTERALLOC_LOOK) {
        uint32_t good = wh_scatteralloc_look_(h, first + k, pages - k, kind);
        for (; good != 0; good &= good - 1) {
            const uint32_t page = first + k + wh_ctz32(good);
            found.chunks = wh_page_reserve(h.paged.table, page, kind, n);
            if (found.chunks.n != 0) {
                found.page = page;
                return found;
            }
        }
    }
    if (from == 0) {
        (void)wh_fetch_or_u64_relaxed(&h.regions[region], (uint64_t)1 << kind);
    }
    return found;
}

/* Up to n chunks on a page of the active super block. Where a request must look far the super block
 * is filled, and the next one becomes the active one. */
WH_FN wh_page_found wh_scatteralloc_probe_(wh_scatteralloc_ref h, uint32_t kind, uint32_t n) {
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    uint32_t superblock = (uint32_t)wh_load_u64_relaxed(h.active);
    for (uint32_t attempt = 0; attempt < WH_SCATTERALLOC_TRIES; attempt++) {
        const uint32_t first = superblock << h.superblock_log2;
        const uint32_t all = 1u << h.superblock_log2, left = h.paged.table.n - first;
        const uint32_t pages = left < all ? left : all;
        const uint32_t regions = ((pages - 1) >> h.region_log2) + 1;
        const uint32_t most = regions < WH_SCATTERALLOC_FAR ? regions : WH_SCATTERALLOC_FAR;
        const uint32_t start = wh_scatteralloc_hash_(h, kind, pages);
        uint32_t from = start & ((1u << h.region_log2) - 1);
        uint32_t region = start >> h.region_log2;
        for (uint32_t k = 0; k <= most; k++) { /* the first of all twice: what lies before start */
            found = wh_scatteralloc_in_region_(h, (first >> h.region_log2) + region, from, kind, n);
            if (found.page != WH_PAGE_NONE) {
                return found;
            }
            from = 0;
            region = region + 1 < regions ? region + 1 : 0;
        }
        const uint32_t next = superblock + 1 < h.superblocks ? superblock + 1 : 0;
        (void)wh_cas_u64_relaxed(h.active, superblock, next);
        superblock = next;
    }
    return found;
}

WH_FN void *wh_scatteralloc_get_(wh_scatteralloc_ref h, wh_mask mask, size_t n, size_t align) {
    wh_paged_request r = wh_paged_request_for(h.paged, n, align);
    const uint32_t kind = r.kind;
    for (int some = 1; some && wh_any(mask, wh_paged_asks(r));) {
        const wh_group g = wh_paged_group(mask, r);
        wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
        if (wh_paged_asks(r) && wh_group_leads(g)) {
            found = wh_scatteralloc_probe_(h, r.kind, g.n);
        }
        some = wh_paged_share(h.paged, mask, g, found, &r);
    }
    uint32_t opened = WH_PAGE_NONE;
    const int late = wh_paged_asks(r);
    const uint32_t start = late ? wh_scatteralloc_hash_(h, kind, h.paged.table.n) : WH_PAGE_NONE;
    void *p = wh_paged_rest(h.paged, mask, n, start, &r, &opened);
    if (late && p != NULL) {
        const uint64_t at = (uint64_t)((unsigned char *)p - h.paged.table.base);
        (void)wh_fetch_and_u64_relaxed(&h.regions[at >> h.paged.table.page_log2 >> h.region_log2],
                                       ~((uint64_t)1 << kind));
    }
    return p;
}

WH_FN void *wh_scatteralloc_malloc(wh_scatteralloc_ref h, wh_mask mask, size_t n) {
    return wh_scatteralloc_get_(h, mask, n, 16);
}

WH_FN void *wh_scatteralloc_aligned(wh_scatteralloc_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_scatteralloc_get_(h, mask, n, align);
}

/* --- free ------------------------------------------------------------------------------------- */

WH_FN void wh_scatteralloc_free(wh_scatteralloc_ref h, wh_mask mask, void *p) {
    const wh_page_freed f = wh_paged_free(h.paged, mask, p, 0);
    if (f.n == 0) {
        return;
    }
    uint64_t *region = &h.regions[f.page >> h.region_log2];
    if (f.n != f.had) {
        const uint64_t bit = (uint64_t)1 << f.kind;
        if (f.had == wh_page_capacity(h.paged.table.page_log2, f.kind) &&
            (wh_load_u64_relaxed(region) & bit) != 0) {
            (void)wh_fetch_and_u64_relaxed(region, ~bit);
        }
        return;
    }
    const uint32_t pages = f.kind == WH_PAGE_RUN ? f.n : 1;
    const uint32_t last = (f.page + pages - 1) >> h.region_log2;
    for (uint32_t k = f.page >> h.region_log2; k <= last; k++) {
        if (wh_load_u64_relaxed(&h.regions[k]) != 0) {
            wh_store_u64_relaxed(&h.regions[k], 0);
        }
    }
}

WH_FN int wh_scatteralloc_owns(wh_scatteralloc_ref h, const void *p) {
    return wh_paged_owns(h.paged, p);
}

WH_FN uint64_t wh_scatteralloc_usable_size(wh_scatteralloc_ref h, const void *p) {
    return wh_paged_usable_size(h.paged, p);
}

/* --- inspection ------------------------------------------------------------------------------- */

WH_FN void wh_scatteralloc_stats(wh_scatteralloc_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    wh_paged_stats(h.paged, i, n, s);
}

WH_FN void wh_scatteralloc_check(wh_scatteralloc_ref h, uint64_t i, uint64_t n, wh_report *r) {
    wh_paged_check(h.paged, i, n, r);
}

WH_FN void wh_scatteralloc_walk(wh_scatteralloc_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    wh_paged_walk(h.paged, i, n, sink);
}

#include "warpheap/detail/simt/end.h"

#endif

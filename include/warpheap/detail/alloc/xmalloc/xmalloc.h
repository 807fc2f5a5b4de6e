/* alloc/xmalloc: XMalloc of X. Huang, C. I. Rodrigues, S. Jones, I. Buck and W. Hwu, "XMalloc: A
 * Scalable Lock-free Dynamic Memory Allocator for Many-core Machines", CIT 2010, after the
 * description of M. Winter, "Dynamic Memory Management on the GPU" (thesis), section 2.3.2 and
 * figure 2.4. Internal: may change.
 *
 * The lanes of a warp that ask together get pieces of one basicblock. Basicblocks that come back
 * wait in a FIFO of their size, the first-level buffer; superblocks with free basicblocks in
 * another one, the second-level buffer; new superblocks, and large blocks, are cut out of the
 * heap. docs/SURVEY_ALLOCATORS.md: what differs from the original, and why.
 *
 *   layout.h   the structures and who writes them, buffers, pieces
 *   inspect.h  statistics, check, walk
 *
 * Terms (the thesis's)
 *   superblock   a page of the table (core/page_table.h), 4 KiB (the option superblock_bytes)
 *   basicblock   a chunk of it: up to 32 of one size, a superblock / 32 to a superblock / 2
 *   memoryblock  a run of superblocks, for a request of more than half of one
 * and piece: what a lane has of a basicblock.
 *
 * I1       a basicblock has one owner: the lanes with its pieces, one place of a first-level
 *          buffer, its superblock (its use bit is not set), or a lane between these. pieces counts
 *          the bits of `live` in it, and each of these bits is in `starts`
 * I2       a buffer: tail - head = count, count + room = entries, when quiet
 * P1       free: syncwarp, then fetch_sub of pieces, acq_rel -> the last one's: what all owners of
 *          pieces wrote comes before the basicblock is given away (core/ring.h P1, page_table.h P1)
 * Hints    what a second-level buffer names may have been freed, and be another's: it is tried, and
 *          dropped if it has nothing of this size. One that does not fit in is left to searches
 * Progress as core/ring.h and core/page_table.h. Before NULL a lane empties all first-level
 *          buffers into their superblocks, and tries again if there was something
 * Cost     malloc: for a warp two atomics to count and one to take a basicblock; two a lane that
 *          note its piece. free: an atomic a lane, one a group; the last one of a basicblock four
 * Fails    NULL is not exact: a basicblock that is between two places counts as used
 * Check    conform, stress, fault
 */
#ifndef WH_ALLOC_XMALLOC_H
#define WH_ALLOC_XMALLOC_H

#include "warpheap/detail/alloc/xmalloc/inspect.h"
#include "warpheap/detail/alloc/xmalloc/layout.h"

#include "warpheap/detail/simt/begin.h"

#define wh_xmalloc_NAME "xmalloc"
#define wh_xmalloc_MAX_ALIGN (1u << 20)
#define wh_xmalloc_BLOCKS 4
#define wh_xmalloc_EACH 0
#define wh_xmalloc_left WH_NO_LEFT

#define WH_XMALLOC_TRIES 4u /* superblocks of the second-level buffer that a request tries */

/* --- basicblocks ------------------------------------------------------------------------------ */

/* Basicblocks of the first-level buffer, for lanes that ask for one. */
WH_FN void wh_xmalloc_first_(wh_xmalloc_ref h, wh_mask mask, wh_paged_request *r) {
    const int asks = wh_paged_asks(*r);
    const wh_group g = wh_paged_group(mask, *r);
    const uint32_t buffer = asks ? wh_xmalloc_buffer_of_(h, 0, r->kind) : 0;
    wh_xmalloc_buffer *b = &h.buffers[buffer];
    uint32_t n = 0;
    uint64_t at = 0;
    if (asks && wh_group_leads(g)) {
        n = wh_xmalloc_some_(&b->count, g.n);
        at = n != 0 ? wh_ring_reserve_take(&b->ring, n) : 0;
    }
    const uint32_t got = wh_shfl_u32(mask, n, g.leader);
    at = wh_shfl_u64(mask, at, g.leader);
    if (asks && g.rank < got) {
        const uint32_t block =
            wh_ring_take_at(&b->ring, wh_xmalloc_entries_(h, buffer), 1u << h.entries_log2,
                            at + g.rank); /* core/ring.h P1 */
        r->p = wh_xmalloc_address_(h, block, r->kind);
        r->kind = WH_PAGE_FREE;
    }
    wh_syncwarp(mask); /* I2: the entries are empty before they are said to be */
    if (n != 0) {
        wh_add_u64_relaxed(&b->room, n);
    }
}

/* Up to n basicblocks of a superblock; what it has left goes into the second-level buffer. */
WH_FN wh_page_found wh_xmalloc_of_(wh_xmalloc_ref h, uint32_t page, uint32_t kind, uint32_t n) {
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    found.chunks = wh_page_reserve(h.paged.table, page, kind, n);
    if (found.chunks.n != 0) {
        found.page = page;
        if (found.chunks.had + found.chunks.n < wh_page_capacity(h.paged.table.page_log2, kind)) {
            (void)wh_xmalloc_push_(h, wh_xmalloc_buffer_of_(h, 1, kind), page);
        }
    }
    return found;
}

/* Up to n basicblocks of a superblock in the second-level buffer, or of one that is cut out of the
 * heap: each request is sent to another one. */
WH_FN wh_page_found wh_xmalloc_second_(wh_xmalloc_ref h, uint32_t kind, uint32_t n) {
    const uint32_t buffer = wh_xmalloc_buffer_of_(h, 1, kind);
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    for (uint32_t attempt = 0; attempt < 2 * WH_XMALLOC_TRIES && found.chunks.n == 0; attempt++) {
        uint32_t page = attempt < WH_XMALLOC_TRIES ? wh_xmalloc_pop_(h, buffer) : WH_PAGE_NONE;
        if (page == WH_PAGE_NONE) {
            attempt = attempt < WH_XMALLOC_TRIES ? WH_XMALLOC_TRIES : attempt;
            page = (uint32_t)(wh_fetch_add_u64_relaxed(h.cut, 1) % h.paged.table.n);
        }
        found = wh_xmalloc_of_(h, page, kind, n);
    }
    return found;
}

/* Gives what is in the first-level buffers back to the superblocks: how many basicblocks. The
 * leader of mask does. */
WH_FN uint32_t wh_xmalloc_flush_(wh_xmalloc_ref h, wh_mask mask) {
    const uint32_t leader = wh_mask_leader(mask);
    uint32_t n = 0;
    for (uint32_t k = 0; wh_lane_id() == leader && k < WH_XMALLOC_BUFFERS; k += 2) {
        const uint32_t kind = h.least + k / 2;
        for (uint32_t i = 0; i < 1u << h.entries_log2; i++) {
            const uint32_t block = wh_xmalloc_pop_(h, k);
            if (block == WH_PAGE_NONE) {
                break;
            }
            (void)wh_page_free(h.paged.table, 1u << leader, wh_xmalloc_address_(h, block, kind), 0);
            n++;
        }
    }
    return wh_shfl_u32(mask, n, leader);
}

/* A basicblock, or a run, for each lane that asks; NULL: there is none. */
WH_FN void wh_xmalloc_blocks_(wh_xmalloc_ref h, wh_mask mask, wh_paged_request *r) {
    const wh_paged_request asked = *r;
    while (wh_any(mask, r->kind != WH_PAGE_FREE)) {
        wh_xmalloc_first_(h, mask, r);
        for (int some = 1; some && wh_any(mask, wh_paged_asks(*r));) {
            const wh_group g = wh_paged_group(mask, *r);
            wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
            if (wh_paged_asks(*r) && wh_group_leads(g)) {
                found = wh_xmalloc_second_(h, r->kind, g.n);
            }
            some = wh_paged_share(h.paged, mask, g, found, r);
        }
        uint32_t opened = WH_PAGE_NONE;
        const uint32_t start = (uint32_t)(wh_load_u64_relaxed(h.cut) % h.paged.table.n);
        (void)wh_paged_rest(h.paged, mask, 0, start, r, &opened);
        if (opened != WH_PAGE_NONE) { /* a search has made it a superblock of this kind */
            (void)wh_xmalloc_push_(h, wh_xmalloc_buffer_of_(h, 1, asked.kind), opened);
        }
        const int lacks = asked.kind != WH_PAGE_FREE && r->p == NULL;
        if (!wh_any(mask, lacks) || wh_xmalloc_flush_(h, mask) == 0) {
            return;
        }
        *r = lacks ? asked : *r;
    }
}

/* --- malloc ----------------------------------------------------------------------------------- */

/* Notes a piece at p, of a basicblock of that kind; n: to how many pieces the caller counts it. */
WH_FN void wh_xmalloc_note_(wh_xmalloc_ref h, const unsigned char *p, uint32_t kind, uint32_t n) {
    const uint32_t page_log2 = h.paged.table.page_log2;
    const uint64_t at = (uint64_t)(p - h.paged.table.base), granule = at / 16;
    const uint32_t number = ((uint32_t)at & ((1u << page_log2) - 1)) / wh_page_chunk_bytes(kind);
    const uint64_t block = (at >> page_log2) * WH_XMALLOC_BLOCKS + number;
    (void)wh_fetch_or_u32_relaxed(&h.starts[granule / 32], 1u << granule % 32); /* I1 */
    (void)wh_fetch_or_u32_relaxed(&h.live[granule / 32], 1u << granule % 32);
    if (n != 0) {
        wh_add_u32_relaxed(&h.pieces[block / 4], n << block % 4 * 8);
    }
}

/* Where the caller's bytes lie among those of the lanes of mask, in their order; *total: of all. */
WH_FN uint32_t wh_xmalloc_offset_(wh_mask mask, uint32_t bytes, uint32_t *total) {
    const wh_mask some = wh_ballot(mask, bytes != 0) & mask;
    uint32_t before = 0;
    *total = 0;
    if (some == 0) {
        return 0;
    }
    const uint32_t first = wh_shfl_u32(mask, bytes, wh_ctz32(some));
    if (wh_all(mask, bytes == 0 || bytes == first)) {
        *total = first * wh_popc32(some);
        return first * wh_mask_rank(some);
    }
    for (wh_mask left = some; left != 0; left &= left - 1) {
        const uint32_t lane = wh_ctz32(left), other = wh_shfl_u32(mask, bytes, lane);
        before += lane < wh_lane_id() ? other : 0;
        *total += other;
    }
    return before;
}

/* How the lanes of a mask share a basicblock. who: those that do; 0: nobody. */
typedef struct wh_xmalloc_shared {
    wh_mask who;
    uint32_t kind;
    uint32_t offset; /* of the caller's piece */
    uint32_t total;
} wh_xmalloc_shared;

/* bytes: of the caller's piece, a multiple of 16; 0: it has none. */
WH_FN wh_xmalloc_shared wh_xmalloc_plan_(wh_xmalloc_ref h, wh_mask mask, uint32_t bytes) {
    const uint32_t page_log2 = h.paged.table.page_log2;
    wh_xmalloc_shared s = {0, WH_PAGE_FREE, 0, 0};
    s.who = wh_ballot(mask, bytes != 0) & mask;
    s.offset = wh_xmalloc_offset_(mask, bytes, &s.total);
    if (wh_popc32(s.who) < 2 || s.total > 1u << (page_log2 - 1)) {
        s.who = 0;
        return s;
    }
    s.kind = wh_page_kind_for(page_log2, s.total);
    s.kind = s.kind > h.least ? s.kind : h.least;
    return s;
}

/* The caller's piece of the basicblock at base, which all lanes share; NULL if there is none. */
WH_FN unsigned char *wh_xmalloc_piece_(wh_xmalloc_ref h, wh_xmalloc_shared s, unsigned char *base,
                                       int has_piece) {
    if (base == NULL || !has_piece) {
        return NULL;
    }
    const int leads = wh_lane_id() == wh_ctz32(s.who);
    wh_xmalloc_note_(h, base + s.offset, s.kind, leads ? wh_popc32(s.who) : 0);
    if (leads && s.total < wh_page_chunk_bytes(s.kind)) { /* the rest, which is nobody's */
        const uint64_t end = wh_xmalloc_granule_(h, base + s.total);
        (void)wh_fetch_or_u32_relaxed(&h.starts[end / 32], 1u << end % 32);
    }
    return base + s.offset;
}

/* In the first round lanes that can share a basicblock do; in the second one each lane that has
 * nothing yet asks for itself. */
WH_FN void *wh_xmalloc_get_(wh_xmalloc_ref h, wh_mask mask, size_t n, size_t align) {
    const wh_paged_request alone = wh_paged_request_for(h.paged, n, align);
    const int small = wh_paged_asks(alone);
    const uint32_t bytes = small && align <= 16 ? (uint32_t)((n + 15) & ~(size_t)15) : 0;
    const wh_xmalloc_shared s = wh_xmalloc_plan_(h, mask, bytes);
    const uint32_t leader = s.who != 0 ? wh_ctz32(s.who) : 0;
    unsigned char *p = NULL;
    WH_NO_UNROLL
    for (uint32_t round = s.who != 0 ? 0 : 1; round < 2; round++) {
        wh_paged_request r = alone;
        if (round == 0) {
            r.kind = wh_lane_id() == leader ? s.kind : WH_PAGE_FREE;
        } else if (p != NULL) {
            r.kind = WH_PAGE_FREE;
        } else if (small && r.kind < h.least) {
            r.kind = h.least;
        }
        const uint32_t kind = r.kind;
        wh_xmalloc_blocks_(h, mask, &r);
        if (round == 0) {
            const uint64_t base = wh_shfl_u64(mask, (uint64_t)(uintptr_t)r.p, leader);
            p = wh_xmalloc_piece_(h, s, (unsigned char *)(uintptr_t)base, bytes != 0);
        } else if (r.p != NULL) {
            p = (unsigned char *)r.p;
            if (wh_page_is_split(kind)) {
                wh_xmalloc_note_(h, p, kind, 1);
            }
        }
    }
    wh_syncwarp(mask); /* I1: the leader has counted all pieces */
    if (n != 0 && p == NULL) {
        wh_add_u64_relaxed(&h.paged.header->failed, 1);
    }
    return p;
}

WH_FN void *wh_xmalloc_malloc(wh_xmalloc_ref h, wh_mask mask, size_t n) {
    return wh_xmalloc_get_(h, mask, n, 16);
}

WH_FN void *wh_xmalloc_aligned(wh_xmalloc_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_xmalloc_get_(h, mask, n, align);
}

/* --- free ------------------------------------------------------------------------------------- */

/* Nothing begins in granules [first, end) any more. */
WH_FN void wh_xmalloc_clear_(wh_xmalloc_ref h, uint64_t first, uint64_t end) {
    for (uint64_t w = first / 32; w * 32 < end; w++) {
        const uint32_t low = first > w * 32 ? (uint32_t)(first - w * 32) : 0;
        const uint32_t most = end - w * 32 < 32 ? (uint32_t)(end - w * 32) : 32;
        const uint32_t bits = (uint32_t)(((uint64_t)1 << most) - ((uint64_t)1 << low));
        (void)wh_fetch_and_u32_relaxed(&h.starts[w], ~bits);
    }
}

/* The pieces of the lanes with `piece` are theirs no more: whether the caller is the one to give
 * the basicblock away. */
WH_FN int wh_xmalloc_end_(wh_xmalloc_ref h, wh_mask mask, wh_xmalloc_found f, int piece) {
    const wh_group g = wh_group_by_u32(mask, piece ? f.block : WH_PAGE_NONE);
    if (WH_PLANT(xmalloc_p1_lanes, 1, 0)) {
        wh_syncwarp(mask); /* P1: what the other lanes of the group did */
    }
    if (!piece || !wh_group_leads(g)) {
        return 0;
    }
    const uint32_t shift = f.block % 4 * 8;
    const uint32_t old = WH_PLANT_ORDER(xmalloc_p1, wh_fetch_sub_u32,
                                        acq_rel)(&h.pieces[f.block / 4], g.n << shift); /* P1 */
    wh_assert_internal((old >> shift & 255) >= g.n);                                    /* I1 */
    return WH_PLANT(xmalloc_i1, (old >> shift & 255) == g.n, 1);
}

WH_FN void wh_xmalloc_free(wh_xmalloc_ref h, wh_mask mask, void *p) {
    const wh_xmalloc_found f = wh_xmalloc_find_(h, p);
    int piece = wh_page_is_split(f.b.kind);
    if (piece) {
        const uint32_t bit = 1u << f.at % 32;
        piece = (wh_fetch_and_u32_relaxed(&h.live[f.at / 32], ~bit) & bit) != 0;
    }
    if (p != NULL && !piece && f.b.kind != WH_PAGE_RUN) {
        wh_add_u64_relaxed(&h.paged.header->bad_frees, 1);
    }
    const void *back = f.b.kind == WH_PAGE_RUN ? p : NULL; /* to the table */
    if (wh_any(mask, piece) && wh_xmalloc_end_(h, mask, f, piece)) {
        wh_xmalloc_clear_(h, f.first, f.end);
        if (!wh_xmalloc_push_(h, wh_xmalloc_buffer_of_(h, 0, f.b.kind), f.block)) {
            back = wh_xmalloc_address_(h, f.block, f.b.kind);
        }
    }
    if (wh_any(mask, back != NULL)) {
        const wh_page_freed freed = wh_paged_free(h.paged, mask, back, 0);
        if (wh_page_is_split(freed.kind) && freed.n < freed.had &&
            freed.had == wh_page_capacity(h.paged.table.page_log2, freed.kind)) {
            (void)wh_xmalloc_push_(h, wh_xmalloc_buffer_of_(h, 1, freed.kind), freed.page);
        }
    }
}

WH_FN int wh_xmalloc_owns(wh_xmalloc_ref h, const void *p) {
    return wh_paged_owns(h.paged, p);
}

#include "warpheap/detail/simt/end.h"

#endif

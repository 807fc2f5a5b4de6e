/* alloc/dynasoar: DynaSOAr of M. Springer and H. Masuhara, "DynaSOAr: A Parallel Memory Allocator
 * for Object-oriented Programming on GPUs with Efficient Memory Access", ECOOP 2019; M.
 * Winter, "Dynamic Memory Management on the GPU" (thesis), section 2.3.8. Blocks of one type each,
 * hierarchical bitmaps that say where there is room, and a walk over all objects of a type.
 * docs/SURVEY_ALLOCATORS.md: what differs, and why. Internal: may change.
 *
 *   layout.h               the sets, inspection
 *   warpheap/dynasoar.h    for users: structure-of-arrays types, the walk over their objects
 *
 * Terms (the paper's)
 *   block      a page of the table (core/page_table.h): objects of one kind
 *   kind       a size class, of malloc; or a type: chunks of a size, tagged with its number
 *   free, allocated, active  sets of blocks (core/veb.h): of no kind; of a kind; those that are not
 *              full. A block is in one set of the second sort and in up to one of the third
 *   A malloc takes objects of an active block, else of a free one, which becomes active. Where it
 *   looks is spread by warp over all that the set holds, so that warps seldom meet.
 *
 * Fields   the sets: as core/veb.h says. Blocks: core/page_table.h. The sets are where to look;
 * what a block is says its entry, which changes by a cas, so nothing has to be taken back I1 when
 * quiet, a block of a kind that is not full is active. Who has filled a block, or has found it full
 * or of another kind, takes it out of the set and then looks at the entry again (R1); who has
 * opened it, or has freed one of a full one, puts it in. Full ones, and blocks of other kinds, may
 * be left over in the set I2       a block is in the allocated set of its kind, and in no other,
 * but while a lane opens or empties it. The opener holds objects, so the block is not emptied until
 * it has said so. The emptier holds the block (WH_PAGE_HOLD) until it has taken it out R1 take out
 * of active (acq_rel) and read the entry, against: change the entry, and put in (acq_rel). Either
 * the reader sees the change, and puts in as well, or the other one's insert comes behind the take
 * out P1       a lane that frees has had its malloc, and the insert of its opener, before its cas
 * of the entry (release) -> the emptier, whose load of the entry is an acquire: its take out of
 *          allocated comes after the opener's insert (I2)
 *          Those of objects: core/page_table.h P1, P2
 * Free set a hint. Who wants a block takes it out, then opens it by a cas of the entry. Blocks of
 *          runs are taken out by who has got the run. A block that a request for a run held for a
 *          moment (alloc/paged.h) may be missing until it has been used again
 * Lanes    lanes of one kind reserve together (core/warp_group.h)
 * Progress lock-free: a search of a set ends, or takes something out of it that comes back only if
 *          another lane has freed or opened something; the rest is core/page_table.h's
 * Cost     malloc, for a group of lanes of one kind: a load for each level of a set, a load and a
 *          cas of the entry; a load and a fetch_or a lane; and where a block is opened, filled or
 *          emptied one to four atomics more
 * Fails    NULL is exact: who finds nothing in the sets searches the table (alloc/paged.h). Blocks
 *          that an emptier holds count as used until its free is done
 * Check    tests/unit/dynasoar.c, conform, stress, fault
 */
#ifndef WH_ALLOC_DYNASOAR_H
#define WH_ALLOC_DYNASOAR_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/dynasoar/layout.h"

#include "warpheap/detail/simt/begin.h"

#define wh_dynasoar_NAME "dynasoar"
#define wh_dynasoar_MAX_ALIGN (1u << 20)
#define wh_dynasoar_BLOCKS 5
#define wh_dynasoar_EACH 0
#define wh_dynasoar_left WH_NO_LEFT

#define WH_DYNASOAR_TRIES 3u /* places where a request looks before it searches a set */

/* --- malloc ----------------------------------------------------------------------------------- */

/* The block is not to be found any more by who looks for room of that kind, unless it has some. */
WH_FN void wh_dynasoar_deactivate_(wh_dynasoar_ref h, uint32_t kind, uint32_t block) {
    const wh_veb active = wh_dynasoar_active_(h, kind);
    (void)wh_veb_remove(active, block);
    const uint64_t entry = wh_load_u64_relaxed(&h.paged.table.entries[block]);
    if (WH_PLANT(dynasoar_r1, wh_dynasoar_has_room_(h, entry, kind), 0)) { /* R1, I1 */
        (void)wh_veb_insert(active, block);
    }
}

/* Up to n objects of a block, which becomes one of that kind if it is free. */
WH_FN wh_page_found wh_dynasoar_take_(wh_dynasoar_ref h, uint32_t kind, uint32_t n, uint32_t block,
                                      int was_active) {
    const uint32_t capacity = wh_page_capacity(h.paged.table.page_log2, kind);
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    found.chunks = wh_page_reserve(h.paged.table, block, kind, n);
    if (found.chunks.n != 0) {
        found.page = block;
    }
    const int is_full = found.chunks.had + found.chunks.n == capacity;
    if (found.chunks.opened) {
        if (WH_PLANT(dynasoar_i2_open, 1, 0)) {
            (void)wh_veb_insert(wh_dynasoar_allocated_(h, kind), block); /* I2 */
        }
        if (!is_full) {
            (void)wh_veb_insert(wh_dynasoar_active_(h, kind), block); /* I1 */
        }
    } else if (found.chunks.n == 0 ? was_active : is_full) {
        /* Of many that have seen a block in the set only some come before it is taken out. */
        const uint64_t *word = wh_veb_word(wh_dynasoar_active_(h, kind), block >> 6);
        if ((wh_load_u64_relaxed(word) >> (block & 63) & 1) != 0) {
            wh_dynasoar_deactivate_(h, kind, block);
        }
    }
    return found;
}

/* A block of the set, from `from` on or else before it; NONE: a search found none. */
WH_FN_SLOW uint64_t wh_dynasoar_next_(wh_veb set, uint64_t from) {
    const uint64_t block = wh_veb_successor(set, from);
    return block != WH_VEB_NONE || from == 0 ? block : wh_veb_successor(set, 0);
}

/* Up to n objects, found by the sets. */
WH_FN wh_page_found wh_dynasoar_probe_(wh_dynasoar_ref h, uint32_t kind, uint32_t n) {
    const wh_veb active = wh_dynasoar_active_(h, kind), free = wh_dynasoar_free_set_(h);
    const uint32_t warp = (uint32_t)(wh_thread_id() / WH_WARP_SIZE);
    const uint32_t place = wh_spread32(warp) + kind * 0x85ebca6bu; /* even: core/hash.h */
    const uint64_t from = (uint64_t)place * h.paged.table.n >> 32;
    const int tells = warp % 8 == 0;
    wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
    WH_NO_UNROLL
    for (uint32_t attempt = 0; attempt < WH_DYNASOAR_TRIES; attempt++) {
        uint32_t at = place + attempt * 0x6a09e667u;
        const uint64_t block = wh_veb_pick(active, &at, tells);
        if (block != WH_VEB_NONE) {
            found = wh_dynasoar_take_(h, kind, n, (uint32_t)block, 1);
            if (found.page != WH_PAGE_NONE) {
                return found;
            }
        }
    }
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t at = place + attempt * 0x6a09e667u;
        uint64_t block = attempt < WH_DYNASOAR_TRIES ? wh_veb_pick(free, &at, tells) : WH_VEB_NONE;
        block = block != WH_VEB_NONE ? block : wh_dynasoar_next_(free, from);
        if (block == WH_VEB_NONE) {
            break;
        }
        if (wh_veb_remove(free, block)) {
            found = wh_dynasoar_take_(h, kind, n, (uint32_t)block, 0);
            if (found.page != WH_PAGE_NONE) {
                return found;
            }
        }
    }
    WH_NO_UNROLL
    for (;;) { /* the last active ones */
        const uint64_t block = wh_dynasoar_next_(active, from);
        if (block == WH_VEB_NONE) {
            return found;
        }
        found = wh_dynasoar_take_(h, kind, n, (uint32_t)block, 1);
        if (found.page != WH_PAGE_NONE) {
            return found;
        }
    }
}

/* What the sets did not give: r, of n bytes. */
WH_FN void *wh_dynasoar_rest_(wh_dynasoar_ref h, wh_mask mask, size_t n, wh_paged_request r) {
    const uint32_t kind = r.kind, need = r.need;
    const uint32_t start = wh_spread32((uint32_t)(wh_thread_id() / WH_WARP_SIZE));
    uint32_t opened = WH_PAGE_NONE;
    void *p = wh_paged_rest(h.paged, mask, n, (uint32_t)((uint64_t)start * h.paged.table.n >> 32),
                            &r, &opened);
    if (opened != WH_PAGE_NONE) {
        (void)wh_veb_insert(wh_dynasoar_allocated_(h, kind), opened); /* I2 */
        (void)wh_veb_insert(wh_dynasoar_active_(h, kind), opened);    /* I1 */
    }
    if (kind == WH_PAGE_RUN && p != NULL) {
        const uint64_t at = (uint64_t)((unsigned char *)p - h.paged.table.base);
        wh_veb_remove_range(wh_dynasoar_free_set_(h), at >> h.paged.table.page_log2, need);
    }
    return p;
}

/* All lanes of mask, each with its own request, of n bytes. */
WH_FN void *wh_dynasoar_get_(wh_dynasoar_ref h, wh_mask mask, size_t n, wh_paged_request r) {
    for (int some = 1; some && wh_any(mask, wh_paged_asks(r));) {
        const wh_group g = wh_paged_group(mask, r);
        wh_page_found found = {WH_PAGE_NONE, {0, 0, 0, 0}};
        if (wh_paged_asks(r) && wh_group_leads(g)) {
            found = wh_dynasoar_probe_(h, r.kind, g.n);
        }
        some = wh_paged_share(h.paged, mask, g, found, &r);
    }
    return wh_dynasoar_rest_(h, mask, n, r);
}

WH_FN void *wh_dynasoar_malloc(wh_dynasoar_ref h, wh_mask mask, size_t n) {
    return wh_dynasoar_get_(h, mask, n, wh_paged_request_for(h.paged, n, 16));
}

WH_FN void *wh_dynasoar_aligned(wh_dynasoar_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_dynasoar_get_(h, mask, n, wh_paged_request_for(h.paged, n, align));
}

/* --- free ------------------------------------------------------------------------------------- */

/* A block that the caller has emptied, and holds. */
WH_FN void wh_dynasoar_give_back_(wh_dynasoar_ref h, wh_page_freed f, int was_full) {
    const int holds = WH_PLANT(dynasoar_i2_hold, 1, 0);        /* I2 */
    (void)wh_load_u64_acquire(&h.paged.table.entries[f.page]); /* P1 */
    if (!holds) {
        wh_page_release(h.paged.table, f.page, 1);
    }
    if (!was_full) { /* a full one is mostly not there */
        (void)wh_veb_remove(wh_dynasoar_active_(h, f.kind), f.page);
    }
    if (WH_PLANT(dynasoar_i2_empty, 1, 0)) {
        (void)wh_veb_remove(wh_dynasoar_allocated_(h, f.kind), f.page); /* I2 */
    }
    if (holds) {
        wh_page_release(h.paged.table, f.page, 1);
    }
    (void)wh_veb_insert(wh_dynasoar_free_set_(h), f.page);
}

WH_FN void wh_dynasoar_free(wh_dynasoar_ref h, wh_mask mask, void *p) {
    const wh_page_freed f = wh_paged_free(h.paged, mask, p, WH_PAGE_HOLD);
    if (f.n == 0) {
        return;
    }
    if (f.kind == WH_PAGE_RUN) {
        wh_veb_insert_range(wh_dynasoar_free_set_(h), f.page, f.n);
        return;
    }
    const int was_full = f.had == wh_page_capacity(h.paged.table.page_log2, f.kind);
    if (f.n == f.had) {
        wh_dynasoar_give_back_(h, f, was_full);
    } else if (was_full && WH_PLANT(dynasoar_i1, 1, 0)) {
        (void)wh_veb_insert(wh_dynasoar_active_(h, f.kind), f.page); /* I1 */
    }
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/bulk: the allocator of Gelado and Garland, "Throughput-Oriented GPU Memory Allocation",
 * PPoPP 2019, as Winter describes it (dissertation, TU Graz, section 2.3.9, figure 2.11): a tree
 * buddy allocator for large blocks, and under it bins of slots of one size for small ones; bulk
 * semaphores say who fetches and who waits. The authors published no code.
 * docs/SURVEY_ALLOCATORS.md: what differs. It may change.
 *
 *   layout.h   the structures, what is written by whom, I1 to I4
 *   tree.h     TBuddy: nodes of a binary tree; P1, progress, when NULL comes
 *   bins.h     UAlloc: slots of bins; P1, P2
 *   inspect.h  statistics, check, walk
 *
 * Terms (the paper's)
 *   level, node  2^l units at a multiple of that, the tree's blocks (a unit: the option unit_bytes)
 *   bin          a node of up to 8 units, cut into at most 32 slots of one size class
 *   chunk        up to 32 nodes side by side (the option chunk_bins), of which a class makes bins
 *
 * Sizes are rounded up to a power of two: a slot of unit / 32 to 4 units, or a node. The largest
 * block is the largest node.
 *
 * Lanes     lanes that ask for one class or level, or free slots of one bin, make their atomics
 *           together
 * Cost      malloc: an atomic on the class's semaphore, a look at its sets, an atomic on the bin,
 *           for the lanes of a class. free: one on the bin, one on the semaphore. A chunk, an empty
 *           bin, and large blocks: two to four atomics for each level that is split or merged
 * Fails     NULL as tree.h says: not WH_CAP_EXACT_OOM, and not WH_CAP_ANY_SIZE
 * Check     conform, stress, fault
 */
#ifndef WH_ALLOC_BULK_H
#define WH_ALLOC_BULK_H

#include "warpheap/core/warp_group.h"
#include "warpheap/detail/alloc/bulk/bins.h"

#include "warpheap/detail/simt/begin.h"

#define wh_bulk_NAME "bulk"
#define wh_bulk_MAX_ALIGN WH_BULK_ALIGN
#define wh_bulk_BLOCKS 4
#define wh_bulk_EACH 0
#define wh_bulk_left WH_NO_LEFT

/* What serves a size. */
#define WH_BULK_NOTHING UINT32_MAX
typedef struct wh_bulk_size {
    uint32_t c;     /* class; NOTHING: a node */
    uint32_t level; /* of the node; NOTHING: no block is so large, or nothing is asked for */
} wh_bulk_size;

WH_FN wh_bulk_size wh_bulk_size_of_(wh_bulk_ref h, size_t n) {
    wh_bulk_size s;
    s.c = WH_BULK_NOTHING;
    s.level = WH_BULK_NOTHING;
    if (n != 0 && n <= (uint64_t)4 << h.unit_log2) {
        s.c = wh_pow2_class(n, wh_bulk_slot_log2_(h.unit_log2, 0));
    } else if (n != 0 && n <= (uint64_t)1 << (h.unit_log2 + h.top)) {
        s.level = wh_pow2_class(n, h.unit_log2);
    }
    return s;
}

/* Slots for the lanes of mask with a class, some for each group at a time. */
WH_FN void *wh_bulk_small_(wh_bulk_ref h, wh_mask mask, uint32_t c) {
    const wh_group g = wh_group_by_u32(mask, c);
    const uint32_t slots = c != WH_BULK_NOTHING ? wh_bulk_slots_(c) : 1;
    uint32_t served = 0; /* lanes of the group */
    int open = c != WH_BULK_NOTHING;
    void *p = NULL;
    WH_NO_UNROLL
    while (wh_any(mask, open)) {
        wh_bulk_slots s;
        s.bin = 0;
        s.mask = s.more = 0;
        if (open && wh_group_leads(g)) {
            s = wh_bulk_get_slots_(h, c, g.n - served);
        }
        s.bin = wh_shfl_u64(mask, s.bin, g.leader);
        s.mask = wh_shfl_u32(mask, s.mask, g.leader);
        s.more = wh_shfl_u32(mask, s.more, g.leader);
        const uint32_t some = wh_popc32(s.mask), n = some + s.more * slots;
        const uint32_t rank = g.rank - served;
        if (open && rank < n) { /* false for those that are served: wraps */
            const uint32_t slot =
                rank < some ? wh_select32(s.mask, rank + 1) : (rank - some) % slots;
            s.bin += rank < some ? 0 : 1 + (rank - some) / slots;
            p = h.base + (s.bin << (h.unit_log2 + wh_bulk_bin_level_(c))) +
                ((uint64_t)slot << wh_bulk_slot_log2_(h.unit_log2, c));
        }
        served += n;
        open = open && n != 0 && served < g.n;
    }
    return p;
}

/* Nodes for the lanes of mask with a level: the lanes of a level take some side by side. The caller
 * writes their words. */
WH_FN void *wh_bulk_large_(wh_bulk_ref h, wh_mask mask, uint32_t level) {
    const wh_group g = wh_group_by_u32(mask, level);
    uint32_t served = 0; /* lanes of the group */
    int open = level != WH_BULK_NOTHING;
    void *p = NULL;
    WH_NO_UNROLL
    while (wh_any(mask, open)) {
        uint64_t node = WH_BULK_NONE;
        uint32_t log2 = wh_log2_floor(open ? g.n - served : 1);
        if (open && wh_group_leads(g)) {
            do {
                node = wh_bulk_take_some_(h, level, &log2);
            } while (node == WH_BULK_NONE && wh_bulk_give_fresh_(h));
        }
        node = wh_shfl_u64(mask, node, g.leader);
        log2 = wh_shfl_u32(mask, log2, g.leader);
        const uint32_t rank = g.rank - served;
        if (open && node != WH_BULK_NONE && rank < 1u << log2) { /* wraps for those served */
            p = h.base + ((node + rank) << (h.unit_log2 + level));
        }
        served += 1u << log2;
        open = open && node != WH_BULK_NONE && served < g.n;
    }
    return p;
}

WH_FN void *wh_bulk_malloc(wh_bulk_ref h, wh_mask mask, size_t n) {
    const wh_bulk_size s = wh_bulk_size_of_(h, n);
    void *p = wh_bulk_small_(h, mask, s.c);
    unsigned char *large = (unsigned char *)wh_bulk_large_(h, mask, s.level);
    if (n != 0 && p == NULL && large == NULL) {
        wh_add_u64_relaxed(&h.header->failed, 1);
    }
    if (WH_PLANT(bulk_p1_lanes, 1, 0)) {
        wh_syncwarp(mask); /* P1, P2: the leader, and those that use */
    }
    if (large != NULL) { /* behind the old owner's cas, by P1 */
        wh_store_u64_relaxed(&h.words[(uint64_t)(large - h.base) >> h.unit_log2],
                             WH_BULK_LARGE | (uint64_t)s.level << WH_BULK_KIND);
    }
    return p != NULL ? p : large;
}

/* A block of a power of two lies at a multiple of it, up to MAX_ALIGN. */
WH_FN void *wh_bulk_aligned(wh_bulk_ref h, wh_mask mask, size_t align, size_t n) {
    wh_assert(wh_is_pow2(align) && align <= wh_bulk_MAX_ALIGN);
    return wh_bulk_malloc(h, mask, n != 0 && n < align ? align : n);
}

WH_FN int wh_bulk_owns(wh_bulk_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) >> h.unit_log2 < h.units;
}

/* What p is. log2: of its bytes; 0: no live block. */
typedef struct wh_bulk_block {
    uint64_t node; /* number in its level: of the bin, or the block */
    uint32_t c;    /* NOTHING: a node */
    uint32_t level;
    uint32_t slot;
    uint32_t log2;
} wh_bulk_block;

/* The bin that has the unit; its class is NOTHING if there is none. */
WH_FN wh_bulk_block wh_bulk_bin_of_(wh_bulk_ref h, uint64_t unit) {
    wh_bulk_block b;
    b.c = WH_BULK_NOTHING;
    b.node = b.level = b.slot = b.log2 = 0;
    for (uint32_t level = 0; level <= WH_BULK_BIN_LEVEL; level++) {
        const uint64_t first = unit >> level << level;
        const uint32_t c = wh_bulk_class_of_word_(wh_load_u64_relaxed(&h.words[first]));
        if (c < WH_BULK_CLASSES &&
            unit >> wh_bulk_bin_level_(c) << wh_bulk_bin_level_(c) == first) {
            b.c = c;
            b.level = wh_bulk_bin_level_(c);
            b.node = unit >> b.level;
            return b;
        }
    }
    return b;
}

WH_FN wh_bulk_block wh_bulk_find_(wh_bulk_ref h, const void *p) {
    const uint64_t at = (uint64_t)((const unsigned char *)p - h.base), unit = at >> h.unit_log2;
    wh_bulk_block b;
    b.c = WH_BULK_NOTHING;
    b.node = b.level = b.slot = b.log2 = 0;
    if (!wh_bulk_owns(h, p)) {
        return b;
    }
    const uint64_t word = wh_load_u64_relaxed(&h.words[unit]);
    if ((word & WH_BULK_LARGE) != 0) {
        b.level = (uint32_t)(word >> WH_BULK_KIND) & 0xff;
        b.node = unit >> b.level;
        b.log2 = at << (64 - h.unit_log2) == 0 ? h.unit_log2 + b.level : 0;
        return b;
    }
    b = wh_bulk_bin_of_(h, unit);
    if (b.c != WH_BULK_NOTHING) {
        const uint32_t log2 = wh_bulk_slot_log2_(h.unit_log2, b.c);
        const uint64_t inside = at - (b.node << (h.unit_log2 + b.level));
        b.slot = (uint32_t)(inside >> log2);
        const int is_live =
            inside << (64 - log2) == 0 &&
            (wh_load_u64_relaxed(wh_bulk_bin_word_(h, b.c, b.node)) >> b.slot & 1) == 0;
        b.log2 = is_live ? log2 : 0;
    }
    return b;
}

WH_FN uint64_t wh_bulk_usable_size(wh_bulk_ref h, const void *p) {
    const wh_bulk_block b = wh_bulk_find_(h, p);
    return b.log2 != 0 ? (uint64_t)1 << b.log2 : 0;
}

WH_FN void wh_bulk_free(wh_bulk_ref h, wh_mask mask, void *p) {
    const wh_bulk_block b = wh_bulk_find_(h, p);
    const int is_slot = b.log2 != 0 && b.c != WH_BULK_NOTHING;
    const uint64_t key = is_slot ? b.node << 4 | b.c : UINT64_MAX;
    const wh_group g = wh_group_by_u64(mask, key);
    const uint32_t bits = wh_group_or_u32(mask, g, is_slot ? 1u << b.slot : 0);
    uint32_t bad = p != NULL && b.log2 == 0;
    if (WH_PLANT(bulk_p1_sync, 1, 0)) {
        wh_syncwarp(mask); /* P1 */
    }
    if (is_slot && wh_group_leads(g)) {
        bad = g.n - wh_popc32(bits) + wh_popc32(wh_bulk_give_slots_(h, b.c, b.node, bits));
    } else if (b.log2 != 0 && !is_slot) {
        const uint64_t word = WH_BULK_LARGE | (uint64_t)b.level << WH_BULK_KIND;
        if (wh_cas_u64_acq_rel(&h.words[b.node << b.level], word, 0) == word) {
            wh_bulk_give_(h, b.level, b.node); /* P1 */
        } else {
            bad = 1; /* another lane was faster */
        }
    }
    if (bad != 0) {
        wh_add_u64_relaxed(&h.header->bad_frees, bad);
    }
}

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/alloc/bulk/inspect.h"

#endif

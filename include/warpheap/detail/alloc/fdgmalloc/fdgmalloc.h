/* alloc/fdgmalloc: FDGMalloc of Widmer, Wodniok, Weber and Goesele, "Fast Dynamic Memory Allocator
 * for Massively Parallel Architectures", GPGPU-6, 2013, as Winter describes it (dissertation, TU
 * Graz, section 2.3.4, figure 2.6): each warp has a heap of its own, from which its lanes cut
 * blocks; no block is freed alone, all of a warp's are freed together.
 * docs/SURVEY_ALLOCATORS.md: what differs from the published code. It may change.
 *
 *   layout.h   the structures, what is written by whom, I1 and I2, inspection
 *
 * Terms (the paper's)
 *   super block  bytes that one warp cuts blocks from (the option superblock_bytes)
 *   warp header  here an entry of `warps`: the current super block, and a list of all that the warp
 *                has taken. The number of a warp in its grid, modulo the option warps, says which:
 *                so a warp of the next launch goes on where the one with its number has ended
 *
 *     p = wh_malloc(heap, n);            any lanes, as in other heaps
 *     wh_fdgmalloc_tidy_up(heap, mask);  frees all blocks of the caller's warp
 *
 * Departures
 *   - the published allocator needs lanes that run in step; here top is changed by a cas, so lanes
 *     of a warp may call apart, and several warps may share a header
 *   - super blocks, and requests of more than one (runs of them), come from a set of the heap's own
 *     and not from the CUDA runtime's malloc. Headers are not allocated either
 *   - lists link super blocks; the paper's are arrays, replaced when they are full
 *
 * Ordering pairs
 *   P1  tidy_up: a syncwarp, then the insert into `free` (acq_rel: P1 of core/veb.h) -> malloc: the
 *       claim, then a syncwarp: the old owner's writes come before the new owner's use
 *   P2  malloc: the cas of top that makes a super block the current one -> the cas of top by who
 *       takes a piece of it, both acq_rel: P1 for lanes that call apart from the claimer
 * Lanes     all lanes of a call make one cas together, and share a super block; the leader acts
 * Progress  lock-free: a cas fails only if another one has succeeded. A claim that fails means that
 *           another one succeeded, or that a request of several super blocks has met another
 *           (claim_range of core/veb.h). tidy_up: a step for each super block
 * Cost      malloc: a load and a cas for the lanes of a call; a scan of their sizes (by shuffles
 *           where these differ); a search of `free` for each super block. free: nothing
 * Fails     NULL when no super block is free, wherever the rest of others' current ones may be
 *           (not WH_CAP_EXACT_OOM). A super block that another lane gives back at this moment may
 *           be missed
 * Check     tests/unit/fdgmalloc.c, conform, fault
 */
#ifndef WH_ALLOC_FDGMALLOC_H
#define WH_ALLOC_FDGMALLOC_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/fdgmalloc/layout.h"

#include "warpheap/detail/simt/begin.h"

#define wh_fdgmalloc_NAME "fdgmalloc"
#define wh_fdgmalloc_MAX_ALIGN (1u << 20)
#define wh_fdgmalloc_BLOCKS 5
#define wh_fdgmalloc_EACH 0
#define wh_fdgmalloc_free WH_NO_FREE
#define wh_fdgmalloc_usable_size WH_NO_USABLE_SIZE
#define wh_fdgmalloc_walk WH_NO_WALK
#define wh_fdgmalloc_left WH_NO_LEFT /* a warp's rest is no other's */

/* The header of the calling lane's warp. */
WH_FN wh_fdgmalloc_warp *wh_fdgmalloc_warp_of_(wh_fdgmalloc_ref h) {
    const uint32_t in_block = (wh_block_threads() + WH_WARP_SIZE - 1) / WH_WARP_SIZE;
    const uint32_t number = wh_block_id() * in_block + wh_thread_in_block() / WH_WARP_SIZE;
    return &h.warps[number % h.n_warps];
}

/* --- super blocks --------------------------------------------------------------------------- */

/* Takes a free super block; NONE: a search found none. */
WH_FN uint32_t wh_fdgmalloc_claim_(wh_fdgmalloc_ref h) {
    const uint32_t number = (uint32_t)wh_thread_id() / WH_WARP_SIZE;
    uint64_t at = (uint64_t)wh_spread32(number) * h.n >> 32;
    WH_NO_UNROLL
    for (;;) {
        uint64_t k = wh_veb_successor(h.free, at);
        k = k != WH_VEB_NONE ? k : wh_veb_successor(h.free, 0);
        if (k == WH_VEB_NONE) {
            return WH_FDGMALLOC_NONE;
        }
        const uint64_t got = wh_veb_claim_some(h.free, k, 1); /* P1 */
        if (got != 0) {
            return (uint32_t)(k & ~(uint64_t)63) + wh_ctz64(got);
        }
        at = k;
    }
}

/* Lists super blocks that the caller has taken together (I2). */
WH_FN void wh_fdgmalloc_list_(wh_fdgmalloc_ref h, wh_fdgmalloc_warp *w, uint32_t first,
                              uint32_t length) {
    uint32_t list = wh_load_u32_relaxed(&w->list);
    wh_store_u32_relaxed(&h.lengths[first], length);
    WH_NO_UNROLL
    for (;;) {
        wh_store_u32_relaxed(&h.nexts[first], list);
        const uint32_t seen = wh_cas_u32_relaxed(&w->list, list, first + 1);
        if (seen == list) {
            return;
        }
        list = seen;
    }
}

/* Super blocks in a row for a request of more than one; NULL: there were none. */
WH_FN void *wh_fdgmalloc_run_(wh_fdgmalloc_ref h, wh_fdgmalloc_warp *w, uint64_t size) {
    const uint64_t length = (size + ((uint64_t)1 << h.unit_log2) - 1) >> h.unit_log2;
    WH_NO_UNROLL
    for (;;) {
        const uint64_t first = wh_veb_find_run(h.free, length);
        if (first == WH_VEB_NONE) {
            return NULL;
        }
        if (wh_veb_claim_range(h.free, first, length)) { /* P1 */
            wh_fdgmalloc_list_(h, w, (uint32_t)first, (uint32_t)length);
            return h.base + (first << h.unit_log2);
        }
    }
}

/* --- malloc ---------------------------------------------------------------------------------- */

/* A size up to a super block as it is served: a power of two, at least 16; 0 for others. */
WH_FN uint32_t wh_fdgmalloc_size_(wh_fdgmalloc_ref h, size_t n) {
    return n != 0 && n <= (uint64_t)1 << h.unit_log2 ? 16u << wh_pow2_class(n, 4) : 0;
}

/* The sum of the sizes of the lanes of mask up to the caller, its own included. */
WH_FN uint32_t wh_fdgmalloc_end_(wh_mask mask, uint32_t size) {
    const wh_mask asking = wh_ballot(mask, size != 0);
    if (asking == 0) {
        return 0;
    }
    const uint32_t first = wh_shfl_u32(mask, size, wh_ctz32(asking));
    if (wh_all(mask, size == 0 || size == first)) {
        return first * (wh_mask_rank(asking) + (size != 0));
    }
    if (mask == WH_FULL_WARP) {
        return wh_scan_add_warp_u32(size);
    }
    uint32_t end = 0;
    for (wh_mask left = asking; left != 0; left &= left - 1) {
        const uint32_t lane = wh_ctz32(left), of_lane = wh_shfl_u32(mask, size, lane);
        end += lane <= wh_lane_id() ? of_lane : 0;
    }
    return end;
}

/* Where a warp stands in a call. */
typedef struct wh_fdgmalloc_step {
    uint64_t top;
    uint32_t fresh; /* a super block that the leader has taken; NONE */
    uint32_t done;  /* bytes of the lanes that have been served, which come first */
} wh_fdgmalloc_step;

/* The leader takes `fit` bytes, from the current super block or the fresh one. */
WH_FN int wh_fdgmalloc_take_(wh_fdgmalloc_ref h, wh_fdgmalloc_warp *w, wh_fdgmalloc_step s,
                             int is_fresh, uint32_t fit) {
    const uint64_t from = is_fresh ? (uint64_t)(s.fresh + 1) << 32 : s.top;
    const uint64_t seen =
        WH_PLANT_ORDER(fdgmalloc_p2, wh_cas_u64, acq_rel)(&w->top, s.top, from + fit); /* I1, P2 */
    const int got = WH_PLANT(fdgmalloc_i1, seen == s.top, 1);
    if (got && is_fresh) {
        wh_fdgmalloc_list_(h, w, s.fresh, 1);
    }
    return got;
}

/* A block of `size` bytes, up to a super block, for each lane of mask; 0: none. */
WH_FN void *wh_fdgmalloc_pieces_(wh_fdgmalloc_ref h, wh_mask mask, wh_fdgmalloc_warp *w,
                                 uint32_t size) {
    const uint32_t unit = 1u << h.unit_log2, end = wh_fdgmalloc_end_(mask, size);
    const uint32_t total = wh_reduce_max_u32(mask, end), leader = wh_mask_leader(mask);
    const int leads = wh_lane_id() == leader;
    void *p = NULL;
    wh_fdgmalloc_step s;
    s.fresh = WH_FDGMALLOC_NONE;
    s.done = 0;
    WH_NO_UNROLL
    while (s.done < total) {
        s.top = wh_shfl_u64(mask, leads ? wh_load_u64_relaxed(&w->top) : 0, leader);
        const int open = size != 0 && end > s.done;
        uint32_t used = s.top != 0 ? wh_low_u32(s.top) : unit;
        uint32_t block = wh_high_u32(s.top) - 1;
        uint32_t fit = wh_reduce_max_u32(mask, open && end - s.done <= unit - used ? end : 0);
        const int is_fresh = fit == 0;
        if (is_fresh) {
            if (leads && s.fresh == WH_FDGMALLOC_NONE) {
                s.fresh = wh_fdgmalloc_claim_(h);
            }
            const int changed = leads && wh_load_u64_relaxed(&w->top) != s.top;
            block = wh_shfl_u32(mask, s.fresh, leader);
            if (block == WH_FDGMALLOC_NONE && !wh_any(mask, changed)) {
                break;
            }
            used = 0;
            fit = wh_reduce_max_u32(mask, open && end - s.done <= unit ? end : 0);
        }
        const int got = leads && block != WH_FDGMALLOC_NONE &&
                        wh_fdgmalloc_take_(h, w, s, is_fresh, fit - s.done);
        if (!wh_any(mask, got)) {
            continue;
        }
        if (open && end <= fit) {
            p = h.base + ((uint64_t)block << h.unit_log2) + used + (end - size - s.done);
        }
        s.fresh = is_fresh ? WH_FDGMALLOC_NONE : s.fresh;
        s.done = fit;
    }
    if (leads && s.fresh != WH_FDGMALLOC_NONE && WH_PLANT(fdgmalloc_i2, 1, 0)) {
        (void)wh_veb_insert(h.free, s.fresh); /* I2 */
    }
    return p;
}

/* `size` bytes of the current super block, for the caller alone; NULL: it has not so many. */
WH_FN void *wh_fdgmalloc_rest_(wh_fdgmalloc_ref h, wh_fdgmalloc_warp *w, uint32_t size) {
    uint64_t top = wh_load_u64_relaxed(&w->top);
    WH_NO_UNROLL
    while (top != 0 && size <= (1u << h.unit_log2) - wh_low_u32(top)) {
        const uint64_t seen = wh_cas_u64_acq_rel(&w->top, top, top + size); /* I1, P2 */
        if (seen == top) {
            return h.base + ((uint64_t)(wh_high_u32(top) - 1) << h.unit_log2) + wh_low_u32(top);
        }
        top = seen;
    }
    return NULL;
}

/* n bytes, at a multiple of 16. All lanes of mask. */
WH_FN void *wh_fdgmalloc_malloc(wh_fdgmalloc_ref h, wh_mask mask, size_t n) {
    wh_fdgmalloc_warp *w = wh_fdgmalloc_warp_of_(h);
    const uint32_t size = wh_fdgmalloc_size_(h, n);
    void *p = wh_fdgmalloc_pieces_(h, mask, w, size);
    if (size == 0 && n != 0 && n <= (uint64_t)h.n << h.unit_log2) {
        p = wh_fdgmalloc_run_(h, w, n);
    } else if (size != 0 && p == NULL) { /* one of the lanes before has found nothing */
        p = wh_fdgmalloc_rest_(h, w, size);
    }
    if (n != 0 && p == NULL) {
        wh_add_u64_relaxed(h.failed, 1);
    }
    if (WH_PLANT(fdgmalloc_p1_lanes, 1, 0)) {
        wh_syncwarp(mask); /* P1: the lane that claimed, and those that use */
    }
    return p;
}

WH_FN void *wh_fdgmalloc_aligned(wh_fdgmalloc_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_align_up(wh_fdgmalloc_malloc(h, mask, wh_room_to_align(n, align)), align);
}

WH_FN int wh_fdgmalloc_owns(wh_fdgmalloc_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) >> h.unit_log2 < h.n;
}

/* --- tidy-up ---------------------------------------------------------------------------------- */

/* Frees all blocks that warps with the caller's number have got and not freed. mask: converged
 * lanes of one warp. The caller sees to it that nobody uses these blocks any more, and that no
 * other warp with this number (modulo the option warps) allocates or tidies up meanwhile: what
 * others of them did comes before the call, by a barrier or the end of a kernel.
 * Cost: for each super block four accesses, by one lane. */
WH_FN void wh_fdgmalloc_tidy_up(wh_fdgmalloc_ref h, wh_mask mask) {
    wh_fdgmalloc_warp *w = wh_fdgmalloc_warp_of_(h);
    if (WH_PLANT(fdgmalloc_p1_tidy, 1, 0)) {
        wh_syncwarp(mask); /* P1 */
    }
    if (wh_lane_id() == wh_mask_leader(mask)) {
        uint32_t list = wh_load_u32_relaxed(&w->list);
        wh_store_u64_relaxed(&w->top, 0);
        wh_store_u32_relaxed(&w->list, 0);
        WH_NO_UNROLL
        while (list != 0) {
            const uint32_t first = list - 1, length = wh_load_u32_relaxed(&h.lengths[first]);
            list = wh_load_u32_relaxed(&h.nexts[first]);
            wh_assert_internal(length != 0 && length <= h.n - first); /* I2 */
            wh_veb_insert_range(h.free, first, length);               /* P1 */
        }
    }
    wh_syncwarp(mask); /* no lane goes on with the old top */
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/gallatin/large.h: whole blocks and segments. It may change.
 *
 * Ordering pair
 *   P5  LARGE freed: run exchange acq_rel and segment tree insert -> claim
 */
#ifndef WH_ALLOC_GALLATIN_LARGE_H
#define WH_ALLOC_GALLATIN_LARGE_H

#include "warpheap/detail/alloc/gallatin/oom.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

/* A run of `count` segments from the back, in which an address that is a multiple of
 * align starts `keep` segments; what lies around these goes back. Returns the first of
 * the segments kept, or NONE: Algorithm 1, claimMultiple. */
WH_FN_SLOW uint64_t wh_gallatin_claim_run_(wh_gallatin_core g, uint64_t count, uint64_t keep,
                                           uint64_t align) {
    wh_assert_internal(keep != 0 && keep <= count && wh_is_pow2(align));
    const wh_veb tree = wh_gallatin_segment_tree_(g);
    const uint32_t segment_log2 = wh_gallatin_segment_log2_(g);
    for (uint32_t attempt = 0; count <= g.n_segments; attempt++) {
        const uint64_t a = wh_load_u64_acquire(&g.header->activity);
        const uint64_t first = wh_veb_find_run(tree, count);
        if (first != WH_VEB_NONE) {
            uint64_t start = WH_VEB_NONE;
            wh_gallatin_begin_(g);
            if (wh_veb_claim_range(tree, first, count)) {
                const uint64_t address = (uint64_t)(uintptr_t)g.base + (first << segment_log2);
                start = first + ((wh_round_up(address, align) - address) >> segment_log2);
                if (start > first) {
                    wh_veb_insert_range(tree, first, start - first);
                }
                if (start + keep < first + count) {
                    wh_veb_insert_range(tree, start + keep, first + count - (start + keep));
                }
            }
            wh_gallatin_end_(g);
            if (start != WH_VEB_NONE) {
                return start;
            }
        } else if (!wh_gallatin_reclaim_(g, WH_GALLATIN_FREE) && wh_gallatin_quiet_(g, a)) {
            return WH_VEB_NONE; /* X1 */
        }
        wh_backoff(attempt);
    }
    return WH_VEB_NONE;
}

/* Marks segments [first, first + keep), which the caller has claimed, as one LARGE
 * allocation. */
WH_FN void *wh_gallatin_make_large_(wh_gallatin_core g, uint64_t first, uint64_t keep) {
    for (uint64_t i = 0; i < keep; i++) {
        wh_gallatin_segment *s = wh_gallatin_segment_at_(g, first + i);
        wh_assert_internal(wh_gallatin_is_free_(g, first + i)); /* I5 */
        s->tree = WH_GALLATIN_LARGE;
        wh_store_u32_relaxed(&s->run, i == 0 ? (uint32_t)keep : 0);
        wh_add_u64_relaxed(&s->control, WH_GALLATIN_CONTROL(WH_GALLATIN_LARGE) -
                                            WH_GALLATIN_CONTROL(WH_GALLATIN_FREE));
    }
    return g.base + (first << wh_gallatin_segment_log2_(g));
}

/* The activity at which no block of class t, or no segment if t is no class, was left. */
WH_FN uint64_t *wh_gallatin_verdict_(wh_gallatin_core g, uint32_t t) {
    return &g.header->verdict[WH_GALLATIN_MAX_TREES + (t < wh_gallatin_n_trees_(g) ? t + 1 : 0)];
}

/* Up to r blocks of class t, or r segments if t is no class, for a group: n = 0: none this
 * time. For segments, position is a mask of the word `seg` of the segment tree. */
WH_FN_SLOW wh_gallatin_take wh_gallatin_take_large_(wh_gallatin_core g, uint32_t t, uint32_t r,
                                                    int exact) {
    wh_gallatin_take take;
    if (t < wh_gallatin_n_trees_(g)) {
        take = wh_gallatin_take_blocks_(g, t, r, exact);
    } else {
        uint64_t word = 0;
        take.position = wh_gallatin_claim_segments_(g, r, exact, &word);
        take.seg = (uint32_t)word;
        take.n = wh_popc64(take.position);
    }
    if (take.n != 0) {
        wh_gallatin_end_(g);
    }
    return take;
}

/* After a search that began at activity a and found nothing: whether that was conclusive
 * (X1). Takes idle memory back first, in buffers of class t as well. */
WH_FN_SLOW int wh_gallatin_none_left_(wh_gallatin_core g, uint32_t t, uint64_t a, int exact) {
    uint64_t *verdict = wh_gallatin_verdict_(g, t);
    if (!exact && wh_load_u64_acquire(verdict) != a) {
        (void)wh_gallatin_reclaim_(g, WH_GALLATIN_FREE);
        return 0;
    }
    return wh_gallatin_conclude_(g, WH_GALLATIN_FREE, a, verdict);
}

/* Requests past the largest slice. All lanes of mask call; a lane with n = 0 takes no
 * part. align: a power of two. */
WH_FN_SLOW void *wh_gallatin_large_(wh_gallatin_core g, wh_mask mask, uint64_t n, uint64_t align) {
    const uint32_t segment_log2 = wh_gallatin_segment_log2_(g);
    const uint64_t segment = (uint64_t)1 << segment_log2;
    wh_assert(wh_is_pow2(align) && (mask >> wh_lane_id() & 1) != 0);
    if (n != 0 && n < align && align <= segment) {
        n = align; /* a block of 2^k bytes lies at a multiple of 2^k */
    }
    const uint32_t t = n == 0 ? WH_GALLATIN_NO_CLASS : wh_gallatin_block_class_(g, n);
    const int is_run = n > segment || align > segment;
    void *p = NULL;
    if (n != 0 && is_run) {
        const uint64_t keep = (n >> segment_log2) + ((n & (segment - 1)) != 0);
        const uint64_t around = align > segment ? (align >> segment_log2) - 1 : 0;
        const uint64_t first = keep <= g.n_segments
                                   ? wh_gallatin_claim_run_(g, keep + around, keep, align)
                                   : WH_VEB_NONE;
        p = first != WH_VEB_NONE ? wh_gallatin_make_large_(g, first, keep) : NULL;
    }
    int need = n != 0 && !is_run;
    const wh_mask same = wh_match_any_u32(mask, need ? t : WH_GALLATIN_NO_CLASS);
    /* Nobody waits, or puts anything into a queue, before all groups of the warp have read
     * what they took: a put may have to wait for these. */
    for (uint32_t attempt = 0; wh_any(mask, need); attempt++) {
        const wh_mask needy = wh_ballot(mask, need) & same;
        const uint32_t rank = wh_mask_rank(needy);
        const uint32_t leader = needy != 0 ? wh_mask_leader(needy) : wh_lane_id();
        uint64_t a = 0;
        int none = 0;
        wh_gallatin_take take;
        take.position = 0;
        take.seg = 0;
        take.n = 0;
        if (need && rank == 0) {
            a = wh_load_u64_acquire(&g.header->activity);
            if (wh_load_u64_acquire(wh_gallatin_verdict_(g, t)) != a) { /* X1 */
                take = wh_gallatin_take_large_(g, t, wh_popc32(needy), attempt > 0);
            }
        }
        take.position = wh_shfl_u64(mask, take.position, leader);
        take.seg = wh_shfl_u32(mask, take.seg, leader);
        take.n = wh_shfl_u32(mask, take.n, leader);
        wh_syncwarp(mask); /* the leader's acquire orders the other lanes' use, too */
        if (need && rank < take.n && t < wh_gallatin_n_trees_(g)) {
            const uint32_t id = wh_gallatin_taken_(g, t, take.seg, take.position + rank);
            wh_store_u32_relaxed(wh_gallatin_block_word_(g, id),
                                 WH_GALLATIN_WHOLE | (wh_gallatin_slices_(g, t) - 1));
            p = wh_gallatin_slice_(g, t, id, 0);
        } else if (need && rank < take.n) {
            p = wh_gallatin_make_large_(
                g, (uint64_t)take.seg << 6 | wh_select64(take.position, rank), 1);
        }
        if (wh_any(mask, need && take.n == 0)) {
            if (need && rank == 0 && take.n == 0) {
                none = wh_gallatin_none_left_(g, t, a, attempt > 0);
            }
            none = (int)wh_shfl_u32(mask, (uint32_t)none, leader);
            if (!wh_any(mask, take.n != 0 || none)) {
                wh_backoff(attempt);
            }
        }
        need = need && p == NULL && !none;
    }
    if (n != 0 && p == NULL) {
        wh_add_u64_relaxed(&g.header->failed, 1);
    }
    return p;
}

#include "warpheap/detail/simt/end.h"

#endif

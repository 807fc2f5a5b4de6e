/* alloc/gallatin: the allocator of McCoy and Pandey, "Gallatin: A General-Purpose GPU
 * Memory Manager", PPoPP 2024. docs/papers/gallatin.md lists the departures from
 * the paper and why. It may change.
 *
 *   layout.h   the structures, what each word means, and the arithmetic of sizes: I2, I3, I5
 *   blocks.h   blocks of segments: Algorithms 1 and 2: I4, H1, S1, P1, P2, P4
 *   oom.h      memory of other classes, and NULL: I6, X1, P6
 *   slices.h   slices of blocks, when the fast path has none: Algorithm 3: I1, P3
 *   large.h    whole blocks and segments: P5
 *   inspect.h  statistics, check
 *
 * Terms (the paper's)
 *   segment   large region of the heap; free ones are in the segment tree (4.1)
 *   block     part of a segment that is formatted for a tree id; the segment's free
 *             blocks wait in its ring queue (4.2)
 *   slice     part of a block, the smallest allocation; slices of a block are handed
 *             out in order and reused only when all have come back (4.3)
 *   tree id   size class: slices of min << id bytes, blocks of slices_per_block slices
 *             (at most one segment)
 *   buffer    per class and group of SMs, the block that slices are now taken from
 *
 * Requests up to max_slice get a slice, up to half a segment a whole block, up to a
 * segment one segment from the front, more a run of segments from the back.
 *
 * Progress  malloc and free of slices: one atomic each on the fast path. A lane waits
 *       only (a) on a buffer whose replacer is under way, (b) for the lane that formats
 *       a segment of its class, (c) in the ring for a lane that has its position, (d)
 *       at X1 for a change under way. Each of these is between two of its own steps
 *       and waits for nobody of its own kind, except (a) for (b), (b) for nobody, so
 *       the waits end under any scheduler that runs every lane eventually. A request
 *       that finds nothing is answered once a window of X1 has passed: it searches again
 *       only because another lane has taken or given back something meanwhile, so that
 *       lane has made progress, and NULL itself is no step that disturbs others.
 * Cost  slice malloc: 1 atomic per group of lanes with one class; free: 1 load and 1
 *       atomic per group of lanes with one block.
 * Check tests/conform, tests/stress, tests/fault; wh_gallatin_check.
 */
#ifndef WH_ALLOC_GALLATIN_H
#define WH_ALLOC_GALLATIN_H

#include "warpheap/detail/alloc/gallatin/large.h"
#include "warpheap/detail/alloc/gallatin/slices.h"

#include "warpheap/detail/simt/begin.h"

/* log2 of the slices of a block of class t, from the handle. */
WH_FN uint32_t wh_gallatin_slices_log2_of_(wh_gallatin_ref h, uint32_t t) {
    const uint32_t fit = h.fit_log2 - t;
    return h.slices_log2 < fit ? h.slices_log2 : fit;
}

WH_FN void *wh_gallatin_aligned(wh_gallatin_ref h, wh_mask mask, size_t align, size_t n) {
    /* A slice of 2^k bytes lies at a multiple of 2^k. */
    const uint64_t least = n > align ? n : align, size = n == 0 ? 0 : least;
    wh_assert(wh_is_pow2(align));
    const int large = size > h.max_slice;
    const int is_slice = size != 0 && !large;
    uint32_t t = WH_GALLATIN_NO_CLASS;
    if (is_slice) {
        const uint32_t above = (uint32_t)(size - 1) >> h.min_slice_log2;
        t = above == 0 ? 0 : 32 - wh_clz32(above);
    }
    const wh_group same = wh_group_by_u32(mask, t);
    uint64_t v = WH_GALLATIN_VACANT;
    if (is_slice && wh_group_leads(same)) {
        const uint32_t i = wh_gallatin_buffer_index_(h.core.n_buffers, h.few, t);
        uint64_t *buffer =
            h.buffers + (uint64_t)((t * h.core.n_buffers + i) * WH_GALLATIN_BUFFER_WORDS);
        v = WH_PLANT_ORDER(gallatin_p3_claim, wh_fetch_add_u64, acquire)(buffer,
                                                                         same.n); /* P3, I1 */
    }
    v = wh_shfl_u64(mask, v, same.leader);
    const uint32_t slices = is_slice ? 1u << wh_gallatin_slices_log2_of_(h, t) : 0;
    const uint32_t index = (uint32_t)v + same.rank;
    void *p = NULL;
    if (index < slices) {
        p = h.core.base + ((v >> 32) << h.block0_log2) +
            ((uint64_t)index << (h.min_slice_log2 + t));
    }
    const int slow = is_slice && (uint32_t)v + same.n >= slices;
    const uint32_t todo = wh_reduce_or_u32(mask, (slow ? 1u : 0) | (large ? 2u : 0));
    if ((todo & 1) != 0) {
        p = wh_gallatin_slow_(h.core, mask, same.lanes, t, v, p);
    }
    if ((todo & 2) != 0) {
        void *q = wh_gallatin_large_(h.core, mask, large ? n : 0, align);
        p = large ? q : p;
    }
    if (WH_PLANT(gallatin_p3_lanes, 1, 0)) {
        wh_syncwarp(mask); /* P3 reaches the lanes that did not make the atomic themselves */
    }
    return p;
}

WH_FN void *wh_gallatin_malloc(wh_gallatin_ref h, wh_mask mask, size_t n) {
    return wh_gallatin_aligned(h, mask, 1, n);
}

/* Frees of LARGE allocations, bad pointers, and the last slice of a block. */
WH_FN_SLOW void wh_gallatin_free_slow_(wh_gallatin_core g, uint64_t offset, uint32_t t,
                                       uint32_t id) {
    if (t < wh_gallatin_n_trees_(g)) {
        wh_gallatin_return_block_(g, t, id);
        return;
    }
    const uint64_t seg = offset >> wh_gallatin_segment_log2_(g);
    uint32_t run = 0;
    if (t == WH_GALLATIN_LARGE &&
        (offset & (((uint64_t)1 << wh_gallatin_segment_log2_(g)) - 1)) == 0) {
        run = wh_exchange_u32_acq_rel(&wh_gallatin_segment_at_(g, seg)->run, 0); /* P5 */
    }
    if (run == 0) {
        wh_add_u64_relaxed(&g.header->bad_frees, 1);
        return;
    }
    wh_assert_internal(seg + run <= g.n_segments);
    for (uint64_t i = 0; i < run; i++) {
        wh_add_u64_relaxed(wh_gallatin_control_(g, seg + i),
                           WH_GALLATIN_CONTROL(WH_GALLATIN_FREE) -
                               WH_GALLATIN_CONTROL(WH_GALLATIN_LARGE));
    }
    wh_gallatin_begin_(g);
    wh_veb_insert_range(wh_gallatin_segment_tree_(g), seg, run); /* P5 */
    wh_gallatin_end_(g);
}

/* Algorithm 4. */
WH_FN void wh_gallatin_free(wh_gallatin_ref h, wh_mask mask, void *p) {
    const uint64_t offset = (uint64_t)((unsigned char *)p - h.core.base);
    uint32_t t = WH_GALLATIN_FREE, id = UINT32_MAX;
    int slow = p != NULL;
    if (offset < h.data_bytes) { /* not so for NULL */
        const uint32_t unit = (uint32_t)(offset >> h.block0_log2);
        t = h.segments[unit >> h.units_log2].tree; /* I3 */
        if (t < h.n_trees) {
            const uint32_t slice = 1u << (h.min_slice_log2 + t);
            const uint32_t units = t < h.units_log2 ? t : h.units_log2; /* log2, of a block */
            slow = ((uint32_t)offset & (slice - 1)) != 0;               /* an interior pointer */
            id = slow ? UINT32_MAX : unit >> units << units;
            t = slow ? WH_GALLATIN_FREE : t;
        }
    }
    if (WH_PLANT(gallatin_p1_lanes, 1, 0)) {
        wh_syncwarp(mask); /* P1: every lane's last use comes before its leader's release */
    }
    const wh_group same = wh_group_by_u32(mask, id);
    if (id != UINT32_MAX && wh_group_leads(same)) {
        const uint32_t slices = 1u << wh_gallatin_slices_log2_of_(h, t);
        const uint32_t in_segment = (1u << h.units_log2) - 1;
        uint32_t *word = h.blocks + ((id & ~in_segment) | wh_gallatin_spread_(id, in_segment));
        const uint32_t old =
            WH_PLANT_ORDER(gallatin_p1_free, wh_fetch_add_u32, release)(word, same.n); /* P1 */
        const uint32_t sum = old + same.n;          /* flags, and slices freed */
        if ((sum & ~WH_GALLATIN_WHOLE) >= slices) { /* flagged IDLE, complete, or too many */
            if ((sum & ~WH_GALLATIN_WHOLE) != slices ||
                ((sum & WH_GALLATIN_WHOLE) != 0 &&
                 (offset & (((uint64_t)slices << (h.min_slice_log2 + t)) - 1)) != 0)) {
                /* a double free, or a pointer into a whole block */
                (void)wh_fetch_sub_u32_relaxed(word, same.n);
                wh_add_u64_relaxed(&h.core.header->bad_frees, same.n - 1);
                t = WH_GALLATIN_FREE;
            }
            slow = 1;
        }
    }
    if (slow) {
        wh_gallatin_free_slow_(h.core, offset, t, id);
    }
}

WH_FN uint64_t wh_gallatin_usable_size(wh_gallatin_ref h, const void *p) {
    const wh_gallatin_core g = h.core;
    const uint64_t offset = (uint64_t)((const unsigned char *)p - g.base);
    if (offset >= h.data_bytes) {
        return 0;
    }
    const uint32_t segment_log2 = wh_gallatin_segment_log2_(g);
    const wh_gallatin_segment *s = &h.segments[offset >> segment_log2];
    const uint32_t t = s->tree; /* I3 */
    if (t < wh_gallatin_n_trees_(g)) {
        const uint32_t word =
            wh_load_u32_relaxed(wh_gallatin_block_word_(g, wh_gallatin_block_of_(g, t, offset)));
        return (uint64_t)1 << ((word & WH_GALLATIN_WHOLE) != 0 ? wh_gallatin_block_log2_(g, t)
                                                               : wh_gallatin_slice_log2_(g, t));
    }
    return t == WH_GALLATIN_LARGE ? (uint64_t)wh_load_u32_relaxed(&s->run) << segment_log2 : 0;
}

WH_FN int wh_gallatin_owns(wh_gallatin_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.core.base) < h.data_bytes;
}

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/alloc/gallatin/inspect.h"

#endif

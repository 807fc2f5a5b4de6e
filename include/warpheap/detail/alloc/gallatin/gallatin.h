/* alloc/gallatin: the allocator of McCoy and Pandey, "Gallatin: A General-Purpose GPU
 * Memory Manager", PPoPP 2024. docs/papers/gallatin.md lists the departures from
 * the paper and why; layout.h holds the structures and the arithmetic of sizes.
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
 * Fields and who writes them (all device scope)
 *   buffer    64 bits {block id, count}. malloc: fetch_add of count, acquire: block and
 *             slice numbers come back together, so there is no stale block pointer.
 *             The group whose add passes the last slice, or that turns a VACANT buffer
 *             BUSY by cas, replaces it: store release. reclaim: cas to VACANT.
 *   block     32 bits {WHOLE, IDLE, freed}. free: fetch_add of freed, release. Set to 0
 *             (or WHOLE) by the lane that took the block from the queue, to IDLE by
 *             the one that returns it.
 *   control   64 bits {tree id or FREE or LARGE, available blocks}. take: fetch_sub;
 *             give back: fetch_add; free segment: cas; format: fetch_add. A change of
 *             the tree id is additive or a cas on exact counts, so that a late take
 *             and its undo never disturb it.
 *   run       segments of a LARGE allocation, at its first segment; free takes it by
 *             exchange
 *   block trees, segment tree (core/veb.h): hints that lead to control words, except
 *             that a bit of the segment tree is also the ownership of a free segment
 *   activity  64 bits {completed, pending}: brackets whatever makes memory available
 *             or hides it for a moment
 *   verdict   per class, the activity at which a full search found nothing, but for idle
 *             blocks in the buffers of other classes
 *
 * Invariants
 *   I1  a slice is handed out once: fetch_add on the buffer gives each lane its own
 *       number, and a block is in at most one buffer
 *   I2  a block is in its segment's queue (IDLE), in a buffer, exhausted, or WHOLE;
 *       available = number of IDLE blocks, when quiet
 *   I3  a segment keeps its tree id while any of its blocks is out: it is freed by a
 *       cas that expects every block to be available. So free may trust the tree id
 *       of a live pointer: the field `tree` repeats it for a plain load, which the L1
 *       serves. It is written by the lane that formats the segment (or makes it LARGE)
 *       before P2, P3 or the caller's own hand-over publish it; ThreadSanitizer checks
 *       that no load races with it. In a free segment it is out of date.
 *   I4  available > 0 implies the segment's bit in its block tree, or a lane about to
 *       set it (H1)
 *   I5  FREE <=> bit in the segment tree, when quiet
 *   I6  pending = 0 when quiet
 *
 *   H1  whoever clears a hint looks at the control word afterwards and sets the hint
 *       again if blocks are available (a give-back may have come in between)
 *   S1  stale-tree check (Algorithm 2): the take returns the tree id; if it is another
 *       class's, the block is given back
 *   X1  exact out-of-memory: NULL only if a search of the truth (control words, level
 *       0 of the segment tree, every buffer of the class, idle blocks in the buffers of
 *       other classes) found nothing while activity did not change, pending was 0, and
 *       no slice of a block in another class's buffer went out or came back (these
 *       touch nothing but their block: reclaim counts them before and after).
 *       In such a window availability only shrinks, so at its end nothing was there.
 *
 * Ordering pairs
 *   P1  free: block fetch_add release -> last free's load acquire of the same word
 *   P2  block returned: ring put release (core/ring.h P1) and control fetch_add
 *       release -> take: control fetch_sub acquire
 *   P3  buffer published: store release -> malloc: fetch_add acquire. With P1 and P2:
 *       what the old owner of a slice wrote happens before the new owner's use.
 *   P4  segment freed: segment tree insert -> claim (core/veb.h P1)
 *   P5  LARGE freed: run exchange acq_rel and segment tree insert -> claim
 *   P6  pending is raised before the release that hides or shows memory; a search
 *       that acquired the result of such a change sees the raised count afterwards
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
    const uint64_t size = n == 0 ? 0 : n > align ? n : align;
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
    wh_syncwarp(mask); /* P3 reaches the lanes that did not make the atomic themselves */
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
    wh_syncwarp(mask); /* every lane's last use comes before its leader's release */
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

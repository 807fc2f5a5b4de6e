/* alloc/gallatin/inspect.h: statistics and the whole-heap check, on a quiet heap. It may change. */
#ifndef WH_ALLOC_GALLATIN_INSPECT_H
#define WH_ALLOC_GALLATIN_INSPECT_H

#include "warpheap/detail/alloc/gallatin/layout.h"

#include "warpheap/detail/simt/begin.h"

/* Blocks of a segment of class t that lie in buffers without a live slice: before it says
 * NULL, malloc takes them back. */
WH_FN uint32_t wh_gallatin_idle_in_buffers_(wh_gallatin_core g, uint32_t t, uint64_t seg) {
    uint32_t idle = 0;
    for (uint32_t i = 0; i < wh_gallatin_n_buffers_(g, t); i++) {
        const uint64_t w = *wh_gallatin_buffer_at_(g, t, i);
        const uint32_t count = (uint32_t)w, id = (uint32_t)(w >> 32);
        if (count < wh_gallatin_slices_(g, t) && id >> wh_gallatin_units_log2_(g) == seg) {
            idle += (*wh_gallatin_block_word_(g, id) & WH_GALLATIN_FREED) == count;
        }
    }
    return idle;
}

/* Largest request that the blocks of class t serve: a whole block, or a slice. */
WH_FN uint64_t wh_gallatin_largest_of_class_(wh_gallatin_core g, uint32_t t, int whole) {
    const uint64_t block = (uint64_t)1 << wh_gallatin_block_log2_(g, t);
    const uint64_t slice = (uint64_t)1 << wh_gallatin_slice_log2_(g, t);
    const uint64_t max_slice = (uint64_t)1 << wh_gallatin_max_slice_log2_(g);
    if (whole && block > max_slice && wh_gallatin_blocks_(g, t) > 1) {
        return block;
    }
    return slice <= max_slice ? slice : 0;
}

/* Largest request that malloc would serve now: the longest run of segments that are free
 * or can be, or else the largest block or slice. */
WH_FN uint64_t wh_gallatin_largest_free_(wh_gallatin_core g) {
    uint64_t run = 0, longest = 0, part = 0;
    for (uint64_t seg = 0; seg < g.n_segments; seg++) {
        const uint64_t control = wh_gallatin_segment_at_(g, seg)->control;
        const uint32_t t = wh_gallatin_tree_(control);
        int is_free = t == WH_GALLATIN_FREE;
        if (t < wh_gallatin_n_trees_(g)) {
            const uint32_t blocks = wh_gallatin_blocks_(g, t);
            const uint32_t available = (uint32_t)wh_gallatin_available_(control);
            is_free = available + wh_gallatin_n_buffers_(g, t) >= blocks &&
                      available + wh_gallatin_idle_in_buffers_(g, t, seg) == blocks;
            const uint64_t size = available != 0 ? wh_gallatin_largest_of_class_(g, t, 1) : 0;
            part = size > part ? size : part;
        }
        run = is_free ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (uint32_t t = 0; t < wh_gallatin_n_trees_(g); t++) { /* blocks in buffers */
        for (uint32_t i = 0; i < wh_gallatin_n_buffers_(g, t); i++) {
            const uint64_t w = *wh_gallatin_buffer_at_(g, t, i);
            const uint32_t count = (uint32_t)w;
            if (count < wh_gallatin_slices_(g, t)) {
                const uint32_t word = *wh_gallatin_block_word_(g, (uint32_t)(w >> 32));
                const int idle = (word & WH_GALLATIN_FREED) == count;
                const uint64_t size = wh_gallatin_largest_of_class_(g, t, idle);
                part = size > part ? size : part;
            }
        }
    }
    return longest != 0 ? longest << wh_gallatin_segment_log2_(g) : part;
}

/* Adds what segment seg holds: blocks out as a whole, and slices handed out of the
 * others, counting every slice of a block that is out (the buffers' remainders are
 * subtracted below). */
WH_FN void wh_gallatin_stats_segment_(wh_gallatin_core g, uint64_t seg, wh_stats *s) {
    const uint32_t t = wh_gallatin_tree_(wh_gallatin_segment_at_(g, seg)->control);
    if (t == WH_GALLATIN_LARGE) {
        const uint64_t run = wh_gallatin_segment_at_(g, seg)->run;
        if (run != 0) {
            wh_add_u64_relaxed(&s->live_blocks, 1);
            wh_add_u64_relaxed(&s->used_bytes, run << wh_gallatin_segment_log2_(g));
        }
    }
    if (t >= wh_gallatin_n_trees_(g)) {
        return;
    }
    uint64_t slices = 0, whole = 0;
    for (uint32_t b = 0; b < wh_gallatin_blocks_(g, t); b++) {
        const uint32_t id = wh_gallatin_block_id_(g, t, seg, b);
        const uint32_t word = *wh_gallatin_block_word_(g, id);
        if ((word & WH_GALLATIN_WHOLE) != 0) {
            whole++;
        } else if ((word & WH_GALLATIN_IDLE) == 0) {
            slices += wh_gallatin_slices_(g, t) - (word & WH_GALLATIN_FREED);
        }
    }
    wh_class_stats *c = &s->classes[t];
    wh_add_u64_relaxed(&c->capacity,
                       (uint64_t)wh_gallatin_blocks_(g, t) * wh_gallatin_slices_(g, t));
    wh_add_u64_relaxed(&c->live, slices);
    wh_add_u64_relaxed(&s->live_blocks, slices + whole);
    wh_add_u64_relaxed(&s->used_bytes, (slices << wh_gallatin_slice_log2_(g, t)) +
                                           (whole << wh_gallatin_block_log2_(g, t)));
}

WH_FN void wh_gallatin_stats(wh_gallatin_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    const wh_gallatin_core g = h.core;
    if (i == 0) {
        s->failed = g.header->failed;
        s->bad_frees = g.header->bad_frees;
        s->largest_free = wh_gallatin_largest_free_(g);
        s->n_classes = wh_gallatin_n_trees_(g);
        for (uint32_t t = 0; t < wh_gallatin_n_trees_(g); t++) {
            s->classes[t].block_bytes = (uint64_t)1 << wh_gallatin_slice_log2_(g, t);
        }
    }
    for (uint64_t seg = i; seg < g.n_segments; seg += n) {
        wh_gallatin_stats_segment_(g, seg, s);
    }
    for (uint64_t k = i; k < (uint64_t)wh_gallatin_n_trees_(g) * g.n_buffers; k += n) {
        const uint32_t t = (uint32_t)(k / g.n_buffers);
        const uint32_t count = (uint32_t)*wh_gallatin_buffer_at_(g, 0, (uint32_t)k);
        if (count < wh_gallatin_slices_(g, t)) { /* not yet handed out */
            const uint64_t rest = wh_gallatin_slices_(g, t) - count;
            (void)wh_fetch_sub_u64_relaxed(&s->classes[t].live, rest);
            (void)wh_fetch_sub_u64_relaxed(&s->live_blocks, rest);
            (void)wh_fetch_sub_u64_relaxed(&s->used_bytes, rest << wh_gallatin_slice_log2_(g, t));
        }
    }
}

/* I2, I4, I5 and the ring's I1 for one segment. */
WH_FN void wh_gallatin_check_segment_(wh_gallatin_core g, uint64_t seg, wh_report *r) {
    const wh_gallatin_segment *s = wh_gallatin_segment_at_(g, seg);
    const uint32_t t = wh_gallatin_tree_(s->control);
    const int32_t available = wh_gallatin_available_(s->control);
    if ((t == WH_GALLATIN_FREE) != wh_veb_contains(wh_gallatin_segment_tree_(g), seg)) {
        wh_report_error(r, 5, seg);
    }
    if (t >= wh_gallatin_n_trees_(g)) {
        if (available != 0 || (t != WH_GALLATIN_FREE && t != WH_GALLATIN_LARGE)) {
            wh_report_error(r, 3, seg);
        }
        return;
    }
    uint32_t idle = 0;
    for (uint32_t b = 0; b < wh_gallatin_blocks_(g, t); b++) {
        const uint32_t id = wh_gallatin_block_id_(g, t, seg, b);
        const uint32_t word = *wh_gallatin_block_word_(g, id);
        idle += (word & WH_GALLATIN_IDLE) != 0;
        if ((word & WH_GALLATIN_IDLE) == 0 &&
            (word & WH_GALLATIN_FREED) >= wh_gallatin_slices_(g, t)) {
            wh_report_error(r, 2, id); /* all slices are back, but not the block */
        }
    }
    if (available != (int32_t)idle ||
        (s->ring.tail - s->ring.head != idle && wh_gallatin_blocks_(g, t) > 1)) {
        wh_report_error(r, 2, seg);
    }
    if (available > 0 && !wh_veb_contains(wh_gallatin_block_tree_(g, t), seg)) {
        wh_report_error(r, 4, seg);
    }
}

/* I1: the block in buffer k is out, of the buffer's class, and in no other buffer. */
WH_FN void wh_gallatin_check_buffer_(wh_gallatin_core g, uint64_t k, wh_report *r) {
    const uint32_t t = (uint32_t)(k / g.n_buffers);
    const uint64_t w = *wh_gallatin_buffer_at_(g, 0, (uint32_t)k);
    const uint32_t count = (uint32_t)w, id = (uint32_t)(w >> 32);
    if (count >= wh_gallatin_slices_(g, t)) {
        if (count < WH_GALLATIN_COUNT_VACANT || count >= WH_GALLATIN_COUNT_BUSY) {
            wh_report_error(r, 1, k); /* its replacer never came back */
        }
        return;
    }
    const uint64_t seg = id >> wh_gallatin_units_log2_(g);
    if (seg >= g.n_segments || wh_gallatin_tree_(wh_gallatin_segment_at_(g, seg)->control) != t ||
        (*wh_gallatin_block_word_(g, id) & (WH_GALLATIN_IDLE | WH_GALLATIN_WHOLE)) != 0 ||
        (*wh_gallatin_block_word_(g, id) & WH_GALLATIN_FREED) > count) {
        wh_report_error(r, 1, k);
    }
    for (uint64_t j = 0; j < k; j++) {
        const uint64_t v = *wh_gallatin_buffer_at_(g, 0, (uint32_t)j);
        if ((uint32_t)v < WH_GALLATIN_COUNT_VACANT && (uint32_t)(v >> 32) == id) {
            wh_report_error(r, 1, k);
        }
    }
}

WH_FN void wh_gallatin_check(wh_gallatin_ref h, uint64_t i, uint64_t n, wh_report *r) {
    const wh_gallatin_core g = h.core;
    if (i == 0 && (g.header->activity & WH_GALLATIN_PENDING) != 0) { /* I6 */
        wh_report_error(r, 6, 0);
    }
    for (uint64_t seg = i; seg < g.n_segments; seg += n) {
        wh_gallatin_check_segment_(g, seg, r);
    }
    for (uint64_t k = i; k < (uint64_t)wh_gallatin_n_trees_(g) * g.n_buffers; k += n) {
        wh_gallatin_check_buffer_(g, k, r);
    }
    const uint64_t tree_words = wh_gallatin_tree_words_(g);
    for (uint64_t k = i; k < (wh_gallatin_n_trees_(g) + 1) * tree_words; k += n) {
        if (!wh_veb_check(wh_gallatin_any_tree_(g, (uint32_t)(k / tree_words)), k % tree_words)) {
            wh_report_error(r, 4, k);
        }
    }
}

/* Not offered (no WH_CAP_WALK): which slices of a block are live is not recorded. */
WH_FN void wh_gallatin_walk(wh_gallatin_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    (void)h;
    (void)i;
    (void)n;
    (void)sink;
}

#include "warpheap/detail/simt/end.h"

#endif

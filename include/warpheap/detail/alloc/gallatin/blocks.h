/* alloc/gallatin/blocks.h: blocks of segments: Algorithms 1 and 2. It may change.
 *
 * Rules
 *   I4  available > 0 implies the segment's bit in its block tree, or a lane about to
 *       set it (H1)
 *   H1  a lane that clears a hint looks at the control word afterwards and sets the hint
 *       again if blocks are available (a give-back may have come in between)
 *   S1  stale-tree check (Algorithm 2): the take returns the tree id; if it is another
 *       class's, the block is given back
 * Ordering pairs
 *   P1  free: block fetch_add release -> last free's load acquire of the same word
 *   P2  block returned: ring put release (core/ring.h P1) and control fetch_add
 *       release -> take: control fetch_sub acquire
 *   P4  segment freed: segment tree insert -> claim (core/veb.h P1)
 */
#ifndef WH_ALLOC_GALLATIN_BLOCKS_H
#define WH_ALLOC_GALLATIN_BLOCKS_H

#include "warpheap/detail/alloc/gallatin/layout.h"
#include "warpheap/core/ring.h"
#include "warpheap/core/veb.h"

#include "warpheap/detail/simt/begin.h"

WH_FN void wh_gallatin_begin_(wh_gallatin_core g) { /* P6 */
    wh_add_u64_relaxed(&g.header->activity, 1);
}

WH_FN void wh_gallatin_end_(wh_gallatin_core g) { /* P6 */
    wh_assert_expensive((wh_load_u64_relaxed(&g.header->activity) & WH_GALLATIN_PENDING) != 0);
    wh_add_u64_release(&g.header->activity, WH_GALLATIN_COMPLETED - 1);
}

WH_FN uint64_t *wh_gallatin_control_(wh_gallatin_core g, uint64_t seg) {
    return &wh_gallatin_segment_at_(g, seg)->control;
}

/* Whether a segment with this control word has blocks of class t to give. */
WH_FN int wh_gallatin_offers_(uint64_t control, uint32_t t) {
    return wh_gallatin_tree_(control) == t && wh_gallatin_available_(control) > 0;
}

/* Whether a segment that the caller has claimed is as it should be: I5. */
WH_FN int wh_gallatin_is_free_(wh_gallatin_core g, uint64_t seg) {
    const uint64_t control = wh_load_u64_relaxed(wh_gallatin_control_(g, seg));
    return wh_gallatin_tree_(control) == WH_GALLATIN_FREE && wh_gallatin_available_(control) <= 0;
}

/* H1 */
WH_FN_SLOW void wh_gallatin_clear_hint_(wh_gallatin_core g, uint32_t t, uint64_t seg) {
    const wh_veb tree = wh_gallatin_block_tree_(g, t);
    (void)wh_veb_remove(tree, seg);
    const uint64_t control = wh_load_u64_acquire(wh_gallatin_control_(g, seg));
    if (WH_PLANT(gallatin_h1, wh_gallatin_offers_(control, t), 0)) {
        (void)wh_veb_insert(tree, seg);
    }
}

/* Makes `n` blocks of a segment available (again): blocks that were put into its queue,
 * or an undone take. Frees the segment when all its blocks are back. Inside
 * begin/end. */
WH_FN_SLOW void wh_gallatin_give_(wh_gallatin_core g, uint64_t seg, uint32_t n) {
    uint64_t *control = wh_gallatin_control_(g, seg);
    const uint64_t old =
        WH_PLANT_ORDER(gallatin_p2_give, wh_fetch_add_u64, release)(control, n); /* P2 */
    const uint32_t t = wh_gallatin_tree_(old);
    if (t >= wh_gallatin_n_trees_(g)) {
        return; /* the undo of a take from a segment that has since been freed */
    }
    const int32_t before = wh_gallatin_available_(old);
    wh_assert_internal(before + (int32_t)n <= (int32_t)wh_gallatin_blocks_(g, t)); /* I2 */
    if (before + (int32_t)n == (int32_t)wh_gallatin_blocks_(g, t)) {
        const uint64_t full = old + n;
        if (wh_cas_u64_acq_rel(control, full, WH_GALLATIN_CONTROL(WH_GALLATIN_FREE)) ==
            full) { /* I3; its hint stays: see take_blocks */
            (void)wh_veb_insert(wh_gallatin_segment_tree_(g), seg); /* P4 */
            return;
        }
    }
    if (before <= 0 && before + (int32_t)n > 0) {
        (void)wh_veb_insert(wh_gallatin_block_tree_(g, t), seg); /* I4 */
    }
}

/* Returns a block, all of whose slices are free, to its segment's queue ("if all
 * slices in the block are free, the block is re-added to the segment's queue",
 * section 5), or, if it is the whole segment, to the segment tree. */
WH_FN_SLOW void wh_gallatin_return_block_(wh_gallatin_core g, uint32_t t, uint32_t id) {
    const uint64_t seg = id >> wh_gallatin_units_log2_(g);
    const uint32_t in_segment = id & ((1u << wh_gallatin_units_log2_(g)) - 1);
    const int alone = wh_gallatin_blocks_(g, t) == 1;
    wh_assert_internal(id ==
                       wh_gallatin_block_of_(g, t, (uint64_t)id << wh_gallatin_block0_log2_(g)));
    wh_assert_internal(wh_gallatin_tree_(wh_load_u64_relaxed(wh_gallatin_control_(g, seg))) == t);
    wh_gallatin_segment *s = wh_gallatin_segment_at_(g, seg);
    uint32_t *word = wh_gallatin_block_word_(g, id);
    wh_gallatin_begin_(g);
    const uint64_t position = alone ? 0 : wh_ring_reserve_put(&s->ring);
    /* Never idle yet; but an acquire whose value nobody wants may lose its effect (simt.h). */
    if (WH_PLANT_ORDER(gallatin_p1_last, wh_load_u32, acquire)(word) != WH_GALLATIN_IDLE) { /* P1 */
        wh_store_u32_relaxed(word, WH_GALLATIN_IDLE);                                       /* I2 */
    }
    if (alone) {
        wh_add_u64_relaxed(&s->control,
                           WH_GALLATIN_CONTROL(WH_GALLATIN_FREE) - WH_GALLATIN_CONTROL(t)); /* I3 */
        (void)wh_veb_insert(wh_gallatin_segment_tree_(g), seg);                             /* P4 */
    } else {
        wh_ring_put_at(wh_gallatin_entries_(g, seg), 1u << wh_gallatin_units_log2_(g), position,
                       in_segment >>
                           (wh_gallatin_block_log2_(g, t) - wh_gallatin_block0_log2_(g))); /* P2 */
        wh_gallatin_give_(g, seg, 1);
    }
    wh_gallatin_end_(g);
}

/* Blocks of one segment, taken but not yet read from its queue. */
typedef struct wh_gallatin_take {
    uint64_t position; /* in the segment's queue */
    uint32_t seg;
    uint32_t n; /* 0: none */
} wh_gallatin_take;

/* The block id at a position of a take. */
WH_FN uint32_t wh_gallatin_taken_(wh_gallatin_core g, uint32_t t, uint64_t seg, uint64_t position) {
    uint32_t b = 0;
    if (wh_gallatin_blocks_(g, t) > 1) {
        b = wh_ring_take_at(&wh_gallatin_segment_at_(g, seg)->ring, wh_gallatin_entries_(g, seg),
                            1u << wh_gallatin_units_log2_(g), position);
    }
    return wh_gallatin_block_id_(g, t, seg, b);
}

/* Takes up to k blocks of class t from segment seg. The control word's load keeps
 * takes that cannot succeed from disturbing the count. Leaves `pending` raised if and
 * only if it took something: the caller calls end once the blocks are where a search
 * sees them, or in use. */
WH_FN uint32_t wh_gallatin_take_from_(wh_gallatin_core g, uint32_t t, uint64_t seg, uint32_t k,
                                      uint64_t *position) {
    wh_gallatin_segment *s = wh_gallatin_segment_at_(g, seg);
    wh_assert_internal(k != 0);
    if (!wh_gallatin_offers_(wh_load_u64_relaxed(&s->control), t)) {
        return 0;
    }
    wh_gallatin_begin_(g);
    const uint64_t old =
        WH_PLANT_ORDER(gallatin_p2_take, wh_fetch_sub_u64, acq_rel)(&s->control, k); /* P2 */
    const int32_t have = wh_gallatin_available_(old);
    const uint32_t some = have < (int32_t)k ? (uint32_t)have : k;
    uint32_t got = have <= 0 ? 0 : some;
    if (WH_PLANT(gallatin_s1, wh_gallatin_tree_(old) != t, 0)) { /* S1 */
        got = 0;
    }
    if (got < k) {
        wh_gallatin_give_(g, seg, k - got);
    }
    if (got == 0) {
        wh_gallatin_end_(g);
        return 0;
    }
    *position = wh_ring_reserve_take(&s->ring, got);
    if (have == (int32_t)got) { /* it was the last one */
        wh_gallatin_clear_hint_(g, t, seg);
    }
    return got;
}

/* Formats a segment that the caller has claimed for class t and keeps up to k of its
 * blocks (`pending` is raised). The queue of a segment with one block is not used. */
WH_FN uint32_t wh_gallatin_format_(wh_gallatin_core g, uint32_t t, uint64_t seg, uint32_t k,
                                   uint64_t *position) {
    wh_gallatin_segment *s = wh_gallatin_segment_at_(g, seg);
    const uint32_t n = wh_gallatin_blocks_(g, t);
    const uint32_t got = k < n ? k : n;
    wh_assert_internal(k != 0 && wh_gallatin_is_free_(g, seg)); /* I5 */
    if (n > 1) {
        wh_ring_reset(&s->ring, wh_gallatin_entries_(g, seg), 1u << wh_gallatin_units_log2_(g), n);
        *position = wh_ring_reserve_take(&s->ring, got);
    }
    s->tree = t;
    wh_add_u64_release(&s->control, /* P2 */
                       WH_GALLATIN_CONTROL(t) - WH_GALLATIN_CONTROL(WH_GALLATIN_FREE) + (n - got));
    if (n > got) {
        (void)wh_veb_insert(wh_gallatin_block_tree_(g, t), seg); /* I4 */
    }
    return got;
}

/* Next segment that may offer blocks of class t, from the hints or, if `exact`, from
 * the control words. NONE if there is none. */
WH_FN uint64_t wh_gallatin_find_(wh_gallatin_core g, uint32_t t, int exact) {
    uint64_t seg = wh_veb_successor(wh_gallatin_block_tree_(g, t), 0);
    for (uint64_t i = 0; seg == WH_VEB_NONE && exact && i < g.n_segments; i++) {
        if (wh_gallatin_offers_(wh_load_u64_acquire(wh_gallatin_control_(g, i)), t)) {
            seg = i;
        }
    }
    return seg;
}

/* Claims up to `want` free segments of one word of the segment tree, from the front:
 * a mask of segments 64 * *word + bit. 0: none free. `pending` is raised if and only
 * if the mask is not 0. Algorithm 1. */
WH_FN uint64_t wh_gallatin_claim_segments_(wh_gallatin_core g, uint32_t want, int exact,
                                           uint64_t *word) {
    const wh_veb tree = wh_gallatin_segment_tree_(g);
    wh_assert_internal(want != 0);
    for (;;) {
        uint64_t seg = wh_veb_successor(tree, 0);
        if (seg == WH_VEB_NONE && exact) {
            seg = wh_veb_scan(tree, 0);
        }
        if (seg == WH_VEB_NONE) {
            return 0;
        }
        wh_gallatin_begin_(g);
        const uint64_t mask = wh_veb_claim_some(tree, seg, want);
        if (mask != 0) {
            *word = seg >> 6;
            return mask;
        }
        wh_gallatin_end_(g); /* others took them: lock-free */
    }
}

/* Takes up to k blocks of class t, formatting a segment if need be: Algorithm 2. n = 0
 * in the result: none. Otherwise `pending` is raised (see take_from). */
WH_FN_SLOW wh_gallatin_take wh_gallatin_take_blocks_(wh_gallatin_core g, uint32_t t, uint32_t k,
                                                     int exact) {
    wh_gallatin_take take;
    uint32_t *formatting = &g.header->formatting[t];
    const int one_at_a_time = wh_gallatin_blocks_(g, t) > 4;
    take.position = 0;
    take.n = 0;
    wh_assert_internal(k != 0);
    for (uint32_t attempt = 0;;) {
        const uint64_t seg = wh_gallatin_find_(g, t, exact);
        if (seg != WH_VEB_NONE) {
            take.seg = (uint32_t)seg;
            take.n = wh_gallatin_take_from_(g, t, seg, k, &take.position);
            if (take.n != 0) {
                return take;
            }
            const uint64_t control = wh_load_u64_relaxed(wh_gallatin_control_(g, seg));
            if (wh_gallatin_tree_(control) == WH_GALLATIN_FREE) {
                /* A hint from before the segment was freed: it is as good as any. */
                wh_gallatin_begin_(g);
                if (wh_veb_remove(wh_gallatin_segment_tree_(g), seg)) { /* P4 */
                    take.n = wh_gallatin_format_(g, t, seg, k, &take.position);
                    return take;
                }
                wh_gallatin_end_(g);
            }
            if (!wh_gallatin_offers_(control, t)) {
                wh_gallatin_clear_hint_(g, t, seg);
            }
            continue;
        }
        /* Many groups run out at the same moment: one of them formats a segment for
         * all, unless a segment holds few blocks. Waiting: see Progress (b). */
        if (one_at_a_time && wh_exchange_u32_acquire(formatting, 1) != 0) {
            wh_backoff(attempt++);
            continue;
        }
        int again = 0;
        uint64_t word = 0;
        if (one_at_a_time && wh_gallatin_find_(g, t, 0) != WH_VEB_NONE) {
            again = 1; /* another lane has just formatted one */
        } else {
            const uint64_t mask = wh_gallatin_claim_segments_(g, 1, exact, &word);
            if (mask != 0) {
                take.seg = (uint32_t)(word << 6 | wh_ctz64(mask));
                take.n = wh_gallatin_format_(g, t, take.seg, k, &take.position);
            }
        }
        if (one_at_a_time) {
            wh_store_u32_release(formatting, 0);
        }
        if (!again) {
            return take; /* n = 0: no free segment either */
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

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

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/gallatin/layout.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/core/ring.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"

#include "warpheap/detail/simt/begin.h"

/* --- small steps ---------------------------------------------------------------- */

WH_FN void wh_gallatin_begin_(wh_gallatin_core g) { /* P6 */
    wh_add_u64_relaxed(&g.header->activity, 1);
}

WH_FN void wh_gallatin_end_(wh_gallatin_core g) { /* P6 */
    wh_add_u64_release(&g.header->activity, WH_GALLATIN_COMPLETED - 1);
}

WH_FN uint64_t *wh_gallatin_control_(wh_gallatin_core g, uint64_t seg) {
    return &wh_gallatin_segment_at_(g, seg)->control;
}

/* Whether a segment with this control word has blocks of class t to give. */
WH_FN int wh_gallatin_offers_(uint64_t control, uint32_t t) {
    return wh_gallatin_tree_(control) == t && wh_gallatin_available_(control) > 0;
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
    const uint64_t old = WH_PLANT(gallatin_p2_give, wh_fetch_add_u64_release,
                                  wh_fetch_add_u64_relaxed)(control, n); /* P2 */
    const uint32_t t = wh_gallatin_tree_(old);
    if (t >= wh_gallatin_n_trees_(g)) {
        return; /* the undo of a take from a segment that has since been freed */
    }
    const int32_t before = wh_gallatin_available_(old);
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
    wh_gallatin_segment *s = wh_gallatin_segment_at_(g, seg);
    uint32_t *word = wh_gallatin_block_word_(g, id);
    wh_gallatin_begin_(g);
    const uint64_t position = alone ? 0 : wh_ring_reserve_put(&s->ring);
    (void)WH_PLANT(gallatin_p1_last, wh_load_u32_acquire, wh_load_u32_relaxed)(word); /* P1 */
    wh_store_u32_relaxed(word, WH_GALLATIN_IDLE);                                     /* I2 */
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

/* --- blocks: Algorithms 1 and 2 ---------------------------------------------------- */

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
    if (!wh_gallatin_offers_(wh_load_u64_relaxed(&s->control), t)) {
        return 0;
    }
    wh_gallatin_begin_(g);
    const uint64_t old = WH_PLANT(gallatin_p2_take, wh_fetch_sub_u64_acq_rel,
                                  wh_fetch_sub_u64_relaxed)(&s->control, k); /* P2 */
    const int32_t have = wh_gallatin_available_(old);
    uint32_t got = have <= 0 ? 0 : have < (int32_t)k ? (uint32_t)have : k;
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

/* --- out of memory: X1 -------------------------------------------------------------- */

/* Slices of blocks in buffers of every class but t that have gone out, plus those that
 * have come back; *in_use counts these blocks. While activity stays the same, each of the
 * two numbers of a block only grows and no block enters a buffer. */
WH_FN uint64_t wh_gallatin_moves_(wh_gallatin_core g, uint32_t t, uint32_t *in_use) {
    uint64_t sum = 0;
    *in_use = 0;
    for (uint32_t u = 0; u < wh_gallatin_n_trees_(g); u++) {
        for (uint32_t i = 0; u != t && i < wh_gallatin_n_buffers_(g, u); i++) {
            const uint64_t w = wh_load_u64_acquire(wh_gallatin_buffer_at_(g, u, i));
            if ((uint32_t)w < wh_gallatin_slices_(g, u)) {
                uint32_t *word = wh_gallatin_block_word_(g, (uint32_t)(w >> 32));
                sum += (uint32_t)w + (wh_load_u32_acquire(word) & WH_GALLATIN_FREED);
                ++*in_use;
            }
        }
    }
    return sum;
}

/* Takes idle memory back from other classes: detaches blocks without a live slice from
 * the buffers of every class but t (FREE: of every class). Returns whether the search that
 * led here has to be made again: something was detached; or slices went out or came back
 * while this looked, so that at each moment some block may have been idle, but not the one
 * just looked at. */
WH_FN_SLOW int wh_gallatin_reclaim_blocks_(wh_gallatin_core g, uint32_t t) {
    int again = 0;
    uint32_t in_use = 0, still_in_use = 0;
    const uint64_t moves = wh_gallatin_moves_(g, t, &in_use);
    for (uint32_t u = 0; u < wh_gallatin_n_trees_(g); u++) {
        const uint32_t slices = wh_gallatin_slices_(g, u);
        for (uint32_t i = 0; in_use != 0 && u != t && i < wh_gallatin_n_buffers_(g, u); i++) {
            uint64_t *buffer = wh_gallatin_buffer_at_(g, u, i);
            const uint64_t w = wh_load_u64_acquire(buffer);
            const uint32_t count = (uint32_t)w, id = (uint32_t)(w >> 32);
            if (count >= slices) {
                continue; /* VACANT, BUSY or exhausted */
            }
            uint32_t *word = wh_gallatin_block_word_(g, id);
            if ((wh_load_u32_relaxed(word) & WH_GALLATIN_FREED) != count) {
                continue;
            }
            wh_gallatin_begin_(g); /* P6: once detached, no search sees it until it is back */
            if (wh_cas_u64_acq_rel(buffer, w, WH_GALLATIN_VACANT) == w) {
                /* The slices never handed out are freed. Not more can be said of the others:
                 * since the load, the same block may have come back to the same buffer and
                 * to the same count, with all of them live. Then their frees return it. */
                const uint32_t rest = slices - count;
                const uint32_t old = wh_fetch_add_u32_release(word, rest); /* P1 */
                if (WH_PLANT(gallatin_detach, (old & WH_GALLATIN_FREED) + rest == slices, 1)) {
                    wh_gallatin_return_block_(g, u, id);
                }
            }
            wh_gallatin_end_(g);
            again = 1;
        }
    }
    if (!again && in_use != 0) {
        again = wh_gallatin_moves_(g, t, &still_in_use) != moves || still_in_use != in_use;
        again = WH_PLANT(gallatin_moves, again, 0); /* X1 */
    }
    return again;
}

/* Frees formatted segments none of whose blocks is out, except of class t. Returns whether
 * there was one: as above. */
WH_FN_SLOW int wh_gallatin_reclaim_segments_(wh_gallatin_core g, uint32_t t) {
    int again = 0;
    for (uint64_t seg = 0; seg < g.n_segments; seg++) {
        const uint64_t c = wh_load_u64_acquire(wh_gallatin_control_(g, seg));
        const uint32_t u = wh_gallatin_tree_(c);
        if (u < wh_gallatin_n_trees_(g) && u != t &&
            wh_gallatin_available_(c) == (int32_t)wh_gallatin_blocks_(g, u)) {
            wh_gallatin_begin_(g);
            wh_gallatin_give_(g, seg, 0); /* all blocks are back: frees the segment */
            wh_gallatin_end_(g);
            again = 1;
        }
    }
    return again;
}

/* Segments first: what is detached afterwards frees its segment by itself. */
WH_FN int wh_gallatin_reclaim_(wh_gallatin_core g, uint32_t t) {
    const int segments = wh_gallatin_reclaim_segments_(g, t);
    return wh_gallatin_reclaim_blocks_(g, t) || segments;
}

/* Whether nothing happened since activity was `a` that could have hidden or freed
 * memory, but for slices in buffers. */
WH_FN int wh_gallatin_quiet_(wh_gallatin_core g, uint64_t a) {
    const int same = wh_load_u64_acquire(&g.header->activity) == a;
    return WH_PLANT(gallatin_x1, same && (a & WH_GALLATIN_PENDING) == 0, 1); /* X1 */
}

/* After a search that began at activity a, or one whose verdict is a, has found nothing:
 * whether there is nothing (X1). t: as for reclaim. The verdict is kept even if slices in
 * buffers moved: then these alone have to be looked at again. */
WH_FN_SLOW int wh_gallatin_conclude_(wh_gallatin_core g, uint32_t t, uint64_t a,
                                     uint64_t *verdict) {
    if (wh_load_u64_acquire(verdict) != a) {
        if (wh_gallatin_reclaim_segments_(g, t) || !wh_gallatin_quiet_(g, a)) {
            return 0;
        }
        wh_store_u64_release(verdict, a);
    }
    return !wh_gallatin_reclaim_blocks_(g, t) && wh_gallatin_quiet_(g, a);
}

/* --- slices: Algorithm 3 -------------------------------------------------------------- */

/* Slices `first`..`first + n - 1` of block `id`, packed into one register; NOTHING: a
 * conclusive search found none (X1); 0: none this time, try again. */
#define WH_GALLATIN_SLICES(id, first, n) \
    ((uint64_t)(id) << 32 | (uint64_t)(first) << 8 | (uint64_t)(n))
#define WH_GALLATIN_NOTHING UINT64_MAX

/* Puts a fresh block into a buffer that the caller replaces, keeping `keep` of its
 * slices; or leaves the buffer VACANT if there is no block (0). */
WH_FN_SLOW uint64_t wh_gallatin_replace_(wh_gallatin_core g, uint32_t t, uint64_t *buffer,
                                         uint32_t keep, int exact) {
    wh_gallatin_take take = wh_gallatin_take_blocks_(g, t, 1, 0);
    if (take.n == 0 && exact) {
        take = wh_gallatin_take_blocks_(g, t, 1, 1);
    }
    if (take.n == 0) {
        wh_store_u64_release(buffer, WH_GALLATIN_VACANT);
        return 0;
    }
    const uint32_t slices = wh_gallatin_slices_(g, t);
    const uint32_t id = wh_gallatin_taken_(g, t, take.seg, take.position);
    const uint32_t got = keep < slices ? keep : slices;
    wh_store_u32_relaxed(wh_gallatin_block_word_(g, id), 0);
    WH_PLANT(gallatin_p3_publish, wh_store_u64_release, wh_store_u64_relaxed)
    (buffer, got < slices ? (uint64_t)id << 32 | got : WH_GALLATIN_VACANT); /* P3 */
    wh_gallatin_end_(g);
    return WH_GALLATIN_SLICES(id, 0, got);
}

/* Up to r slices from a buffer in use. *replace: the last one was among them, the caller
 * has to replace the block. */
WH_FN uint64_t wh_gallatin_from_buffer_(wh_gallatin_core g, uint32_t t, uint64_t *buffer,
                                        uint32_t r, int *replace) {
    const uint32_t slices = wh_gallatin_slices_(g, t);
    const uint64_t v = wh_fetch_add_u64_acquire(buffer, r); /* P3, I1 */
    const uint32_t first = (uint32_t)v;
    if (first >= slices) {
        return 0;
    }
    *replace = first + r >= slices;
    return WH_GALLATIN_SLICES(v >> 32, first, *replace ? slices - first : r);
}

/* Any buffer of class t that still has slices (X1). */
WH_FN uint64_t wh_gallatin_steal_(wh_gallatin_core g, uint32_t t, uint32_t r) {
    uint64_t got = 0;
    for (uint32_t i = 0; got == 0 && i < wh_gallatin_n_buffers_(g, t); i++) {
        uint64_t *buffer = wh_gallatin_buffer_at_(g, t, i);
        if ((uint32_t)wh_load_u64_acquire(buffer) < wh_gallatin_slices_(g, t)) {
            int replace = 0;
            got = wh_gallatin_from_buffer_(g, t, buffer, r, &replace);
            if (replace) {
                (void)wh_gallatin_replace_(g, t, buffer, 0, 0);
            }
        }
    }
    return got;
}

/* One attempt at a buffer that the fast path found used up. Does not wait: the lanes of
 * a warp wait together (slow_). *replace: as above, or the buffer was VACANT and is now
 * the caller's to replace, with an exact search. */
WH_FN uint64_t wh_gallatin_attempt_(wh_gallatin_core g, uint32_t t, uint64_t *buffer, uint32_t r,
                                    int *replace, int *exact) {
    uint64_t *verdict = &g.header->verdict[t];
    const uint64_t w = wh_load_u64_relaxed(buffer);
    const uint32_t count = (uint32_t)w;
    if (count < wh_gallatin_slices_(g, t)) {
        return wh_gallatin_from_buffer_(g, t, buffer, r, replace);
    }
    if (count >= WH_GALLATIN_COUNT_BUSY || count < WH_GALLATIN_COUNT_VACANT) {
        return 0; /* Progress (a): its replacer is under way */
    }
    const uint64_t a = wh_load_u64_acquire(&g.header->activity);
    if (wh_load_u64_acquire(verdict) == a) { /* X1: nothing then, nothing since */
        if (!wh_gallatin_conclude_(g, t, a, verdict)) {
            return 0; /* slices came back, or moved while this looked */
        }
        if (count >= WH_GALLATIN_COUNT_VACANT + WH_GALLATIN_COUNT_TIDY) {
            (void)wh_cas_u64_relaxed(buffer, w, WH_GALLATIN_VACANT);
        }
        return WH_GALLATIN_NOTHING;
    }
    *exact = *replace = wh_cas_u64_acq_rel(buffer, w, WH_GALLATIN_BUSY) == w;
    return 0;
}

/* Replaces the block of a buffer that was VACANT, by an exact search: X1. */
WH_FN_SLOW uint64_t wh_gallatin_replace_exact_(wh_gallatin_core g, uint32_t t, uint64_t *buffer,
                                               uint32_t r) {
    const uint64_t a = wh_load_u64_acquire(&g.header->activity);
    uint64_t got = wh_gallatin_replace_(g, t, buffer, r, 1);
    if (got == 0) {
        got = wh_gallatin_steal_(g, t, r);
    }
    if (got == 0 && wh_gallatin_conclude_(g, t, a, &g.header->verdict[t])) { /* X1 */
        got = WH_GALLATIN_NOTHING;
    }
    return got;
}

/* The rest of Algorithm 3 for the lanes of a group that the fast path left without a
 * slice. All lanes of mask call; `lanes` is the caller's group, v what its atomic
 * returned, p the caller's slice if it has one. The groups of a warp proceed in steps:
 * a lane that sleeps while another lane of its warp replaces a block would hold that
 * one up. */
WH_FN_SLOW void *wh_gallatin_slow_(wh_gallatin_core g, wh_mask mask, wh_mask lanes, uint32_t t,
                                   uint64_t v, void *p) {
    const uint32_t leader = wh_mask_leader(lanes);
    const int leads = wh_lane_id() == leader;
    const int is_slice = t < wh_gallatin_n_trees_(g);
    const uint32_t slices = is_slice ? wh_gallatin_slices_(g, t) : 0;
    const uint32_t home =
        is_slice ? wh_gallatin_buffer_index_(g.n_buffers, wh_gallatin_few_(g), t) : 0;
    uint64_t *buffer = wh_gallatin_buffer_at_(g, is_slice ? t : 0, home);
    int need = is_slice && p == NULL;
    int exact = 0;
    int replace = leads && (uint32_t)v < slices && (uint32_t)v + wh_popc32(lanes) >= slices;
    wh_mask needy = wh_ballot(mask, need) & lanes;
    /* Of the warp: 1: some lane has something to do yet; 2: some group has got on */
    uint32_t state = wh_any(mask, need || replace) ? 1 : 0;
    for (uint32_t attempt = 0; (state & 1) != 0; attempt++) {
        const uint32_t r = wh_popc32(needy);
        uint64_t got = 0;
        if (replace) {
            got = exact ? wh_gallatin_replace_exact_(g, t, buffer, r)
                        : wh_gallatin_replace_(g, t, buffer, r, 0);
            replace = 0;
            exact = 0;
        } else if (leads && r != 0) {
            got = wh_gallatin_attempt_(g, t, buffer, r, &replace, &exact);
        }
        const int moves = got != 0 || replace;
        got = wh_shfl_u64(mask, got, leader);
        const uint32_t rank = wh_mask_rank(needy);
        needy = got == WH_GALLATIN_NOTHING
                    ? 0
                    : needy & ~(wh_mask)wh_lowest_bits(needy, (uint32_t)(got & 0xff));
        if (need && got == WH_GALLATIN_NOTHING) {
            wh_add_u64_relaxed(&g.header->failed, 1);
            need = 0;
        } else if (need && rank < (uint32_t)(got & 0xff)) {
            p = wh_gallatin_slice_(g, t, (uint32_t)(got >> 32),
                                   ((uint32_t)(got >> 8) & 0xffffff) + rank);
            need = 0;
        }
        state = wh_reduce_or_u32(mask, (need || replace ? 1u : 0) | (moves ? 2u : 0));
        if (state == 1) {
            wh_backoff(attempt);
        }
    }
    return p;
}

/* --- whole blocks and segments ---------------------------------------------------------- */

/* A run of `count` segments from the back, in which an address that is a multiple of
 * align starts `keep` segments; what lies around these goes back. Returns the first of
 * the segments kept, or NONE: Algorithm 1, claimMultiple. */
WH_FN_SLOW uint64_t wh_gallatin_claim_run_(wh_gallatin_core g, uint64_t count, uint64_t keep,
                                           uint64_t align) {
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

/* --- the contract --------------------------------------------------------------------------- */

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
        v = WH_PLANT(gallatin_p3_claim, wh_fetch_add_u64_acquire,
                     wh_fetch_add_u64_relaxed)(buffer, same.n); /* P3, I1 */
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
        const uint32_t old = WH_PLANT(gallatin_p1_free, wh_fetch_add_u32_release,
                                      wh_fetch_add_u32_relaxed)(word, same.n); /* P1 */
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

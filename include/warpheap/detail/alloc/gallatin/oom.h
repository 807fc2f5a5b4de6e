/* alloc/gallatin/oom.h: memory of other classes, and when there is none. It may change.
 *
 * Rules
 *   I6  pending = 0 when quiet
 *   X1  exact out-of-memory: NULL only if a search of the truth (control words, level
 *       0 of the segment tree, every buffer of the class, idle blocks in the buffers of
 *       other classes) found nothing while activity did not change, pending was 0, and
 *       no slice of a block in another class's buffer went out or came back (these
 *       touch nothing but their block: reclaim counts them before and after).
 *       In such a window availability only shrinks, so at its end nothing was there.
 * Ordering pair
 *   P6  pending is raised before the release that hides or shows memory; a search
 *       that acquired the result of such a change sees the raised count afterwards
 */
#ifndef WH_ALLOC_GALLATIN_OOM_H
#define WH_ALLOC_GALLATIN_OOM_H

#include "warpheap/detail/alloc/gallatin/blocks.h"

#include "warpheap/detail/simt/begin.h"

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
                const uint32_t old = wh_fetch_add_u32_release(word, rest);      /* P1 */
                wh_assert_internal((old & WH_GALLATIN_FREED) + rest <= slices); /* I1 */
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

#include "warpheap/detail/simt/end.h"

#endif

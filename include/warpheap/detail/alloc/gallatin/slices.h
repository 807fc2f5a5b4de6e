/* alloc/gallatin/slices.h: slices of blocks, when the fast path has none: Algorithm 3.
 * It may change.
 *
 * Rules
 *   I1  a slice is handed out once: fetch_add on the buffer gives each lane its own
 *       number, and a block is in at most one buffer
 *   P3  buffer published: store release -> malloc: fetch_add acquire. With P1 and P2:
 *       what the old owner of a slice wrote happens before the new owner's use.
 */
#ifndef WH_ALLOC_GALLATIN_SLICES_H
#define WH_ALLOC_GALLATIN_SLICES_H

#include "warpheap/detail/alloc/gallatin/oom.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

/* Slices `first`..`first + n - 1` of block `id`, packed into one register; NOTHING: a
 * conclusive search found none (X1); 0: none this time, try again. */
#define WH_GALLATIN_SLICES(id, first, n) \
    ((uint64_t)(id) << 32 | (uint64_t)(first) << 8 | (uint64_t)(n))
#define WH_GALLATIN_NOTHING UINT64_MAX

/* Puts a fresh block into a buffer that the caller replaces, keeping `keep` of its
 * slices; or leaves the buffer VACANT if there is no block (0). */
WH_FN_SLOW uint64_t wh_gallatin_replace_(wh_gallatin_core g, uint32_t t, uint64_t *buffer,
                                         uint32_t keep, int exact) {
    wh_assert_internal((uint32_t)wh_load_u64_relaxed(buffer) >= wh_gallatin_slices_(g, t));
    wh_assert_internal(keep <= WH_WARP_SIZE);
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
    WH_PLANT_ORDER(gallatin_p3_publish, wh_store_u64, release)
    (buffer, got < slices ? (uint64_t)id << 32 | got : WH_GALLATIN_VACANT); /* P3 */
    wh_gallatin_end_(g);
    return WH_GALLATIN_SLICES(id, 0, got);
}

/* Up to r slices from a buffer in use. *replace: the last one was among them, the caller
 * has to replace the block. */
WH_FN uint64_t wh_gallatin_from_buffer_(wh_gallatin_core g, uint32_t t, uint64_t *buffer,
                                        uint32_t r, int *replace) {
    const uint32_t slices = wh_gallatin_slices_(g, t);
    wh_assert_internal(r != 0 && r <= WH_WARP_SIZE);
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
    wh_assert((mask >> wh_lane_id() & 1) != 0 && (lanes & ~mask) == 0);
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

#include "warpheap/detail/simt/end.h"

#endif

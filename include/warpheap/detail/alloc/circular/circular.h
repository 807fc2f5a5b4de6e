/* alloc/circular: the allocators of Vinkler and Havran, "Register Efficient Dynamic Memory
 * Allocator for GPUs", CGF 2015. docs/papers/lists.md: claims, departures, what was measured.
 * It may change.
 *
 *   awmalloc   one offset that wraps around: overwrites what is still in use   Algorithm 2
 *   cmalloc    a circular list of chunks; header {flag, next}                  Algorithm 3
 *   cfmalloc   the flag fused into the next offset: one word a header          section 5.3
 *   cmmalloc   cmalloc with one offset into the list per SM                    section 5.4
 *   cfmmalloc  cfmalloc with one offset per SM                                 section 5.4
 *
 *   layout.h   the structures, and how the pool is split beforehand
 *   list.h     headers, and the map of them: I1, I2, I4, I5, P1, P4
 *   grace.h    when merged memory may be handed out: I3, P2, P3
 *   search.h   the search for a chunk: Algorithm 3
 *   gather.h   joins neighbouring free chunks, before NULL
 *   awmalloc.h, inspect.h   Algorithm 2; statistics, check, walk
 *
 * Malloc walks the list from the offset to the first chunk that is large enough and not
 * USED, locks it by a cas on its flag, splits off what is too much (blocks are at most
 * MAX_FRAG times too large) and sets the offset behind it. Free merges the chunk with the
 * next one if that is free. Departures, besides those that the other headers name:
 *   - lanes of a warp that ask for the same size share one search: they cut the chunk up
 *     between them;
 *   - where chunks are so small that most lanes of such a group would go round again, each
 *     lane searches for itself, the r-th of them from the r-th chunk on that is not in use;
 *   - free merges the blocks that neighbouring lanes free when they are neighbours in the
 *     list. One by one each of them would find the next one in use still;
 *   - heaps above 16 GiB have larger units.
 *
 * Progress  a search waits for nobody and ends after one round. malloc repeats it while
 *       chunks that would do are in LIMBO, or while another lane gathers: both end when
 *       others have ended a bounded number of their own steps, and those wait for nobody
 *       (the lanes of a warp step together, and none is counted as active between steps).
 * Fails NULL after one round that found nothing and a gather that joined nothing. Chunks that
 *       others hold for a moment, to look at them, are not seen: not exact.
 * Calls  nothing here is a function that is called: lanes may come back from a call in parts, and a
 *       vote behind it counts each as the warp (simt/cuda.h; tools/sass_votes.py finds such).
 *       Inlined, a malloc has fewer registers, too: 60 in place of 80 (cmalloc, sm_90, 256
 * threads). Limits headers lie between blocks: a user that writes past a block damages the list.
 * Cost  malloc: two atomics on active, one cas, two ors and ands, a few loads and stores per
 *       group of lanes with one size, an or per lane, and a load per chunk passed, or per 32
 *       units. free: three loads, an or, a cas where the next chunk is free, one to three
 *       stores, and one atomic per warp that merged. A malloc in a full heap looks at the
 *       whole map, and gathers at a load per 32 units and a few atomics per free chunk.
 * Check tests/unit/circular.c, conform, stress, fault.
 */
#ifndef WH_ALLOC_CIRCULAR_H
#define WH_ALLOC_CIRCULAR_H

#include "warpheap/detail/alloc/circular/awmalloc.h"
#include "warpheap/detail/alloc/circular/gather.h"
#include "warpheap/detail/alloc/circular/inspect.h"
#include "warpheap/detail/alloc/circular/search.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

/* A block is at most this many times as large as asked for ("MAX_FRAG", whose value the
 * paper does not give). */
#define WH_CIRCULAR_MAX_FRAG 2u

/* Units that a request takes, its header included; 0: it gets NULL. */
WH_FN uint32_t wh_circular_need_(wh_circular_ref h, size_t n, int fused) {
    const uint64_t all = ((uint64_t)h.units << h.unit_log2) - wh_circular_header_(fused);
    const uint64_t unit = (uint64_t)1 << h.unit_log2;
    return n != 0 && n <= all
               ? (uint32_t)(((uint64_t)n + wh_circular_header_(fused) + unit - 1) >> h.unit_log2)
               : 0;
}

/* Units that a group of n lanes would have in one piece, if that is nothing out of proportion. */
WH_FN uint32_t wh_circular_want_(wh_circular_ref h, uint32_t need, uint32_t n) {
    return need <= h.root / 32 ? need * n : need;
}

/* What a lane asks for in a round of malloc, together with its group. */
typedef struct wh_circular_request {
    wh_mask mask;   /* lanes that call together */
    wh_group g;     /* those that ask for as much; a lane alone, if it searches for itself */
    uint32_t which; /* offset */
    uint32_t need;  /* units; 0: the lane takes no part */
    int alone;      /* the lane searches for itself */
} wh_circular_request;

/* A chunk for each group of the warp. All lanes of the mask call. */
WH_FN wh_circular_take wh_circular_take_(wh_circular_ref h, wh_circular_request rq, int fused) {
    const uint32_t leader = wh_mask_leader(rq.mask);
    const wh_mask singles = wh_ballot(rq.mask, rq.alone && rq.need != 0) & rq.mask;
    uint32_t slot = 0;
    wh_circular_take t;
    t.u = t.next = 0;
    t.outcome = WH_CIRCULAR_NONE;
    if (wh_lane_id() == leader) { /* for all searches of the warp */
        slot = wh_circular_enter_(h);
    }
    wh_syncwarp(rq.mask);
    if (rq.need != 0 && wh_group_leads(rq.g)) {
        wh_circular_wish wish;
        wish.which = rq.which;
        wish.least = rq.need;
        wish.want = wh_circular_want_(h, rq.need, rq.g.n);
        wish.rank = rq.alone ? wh_mask_rank(singles) : 0;
        wish.alone = rq.alone;
        t = wh_circular_search_(h, wish, fused);
        if (t.outcome == WH_CIRCULAR_TOOK) {
            wh_circular_mark_used_(h, t.u);
        }
    }
    if (WH_PLANT(circular_p1_lanes, 1, 0)) {
        wh_syncwarp(rq.mask); /* P1: the others of the group use what its first lane acquired */
    }
    if (wh_lane_id() == leader) {
        wh_circular_leave_(h, slot);
    }
    t.u = wh_shfl_u32(rq.mask, t.u, rq.g.leader);
    t.next = wh_shfl_u32(rq.mask, t.next, rq.g.leader);
    t.outcome = wh_shfl_u32(rq.mask, t.outcome, rq.g.leader);
    return t;
}

/* A lane's piece of its group's chunk. */
typedef struct wh_circular_piece {
    uint32_t at;     /* unit */
    uint32_t pieces; /* how many lanes of the group have one */
    int mine;        /* the caller has */
} wh_circular_piece;

/* The lanes of a group cut a chunk up: piece r for rank r, what is left over for the list, unless
 * it is too little. All lanes of the mask call. */
WH_FN wh_circular_piece wh_circular_cut_(wh_circular_ref h, wh_circular_request rq,
                                         wh_circular_take t, int fused) {
    const int took = rq.need != 0 && t.outcome == WH_CIRCULAR_TOOK;
    const uint32_t fit = took ? (t.next - t.u) / rq.need : 0;
    const uint32_t k = fit < rq.g.n ? fit : rq.g.n;
    const uint32_t end = t.u + k * rq.need;
    const int split = took && t.next - end >= (WH_CIRCULAR_MAX_FRAG - 1) * rq.need;
    const int mine = took && rq.g.rank < k, last = mine && rq.g.rank + 1 == k;
    const uint32_t at = t.u + rq.g.rank * rq.need, behind = split ? end : t.next;
    const uint32_t after = rq.g.rank + 1 < k ? at + rq.need : behind;
    wh_circular_piece piece;
    wh_assert_internal(!took || (k != 0 && end <= t.next));
    if (mine && rq.g.rank != 0) {
        wh_circular_new_(h, at, WH_CIRCULAR_USED, after, fused);
    }
    if (last && split) {
        wh_circular_new_(h, end, WH_CIRCULAR_USED, t.next, fused);
    }
    if (WH_PLANT(circular_p1_pieces, 1, 0)) {
        wh_syncwarp(rq.mask); /* P1: before the first piece leads to the others */
    }
    if (mine && rq.g.rank == 0) {
        wh_circular_lead_(h, t.u, after, fused);
    }
    wh_syncwarp(rq.mask); /* P4: the list leads to them before the map does */
    if (mine && rq.g.rank != 0) {
        wh_circular_add_header_(h, at, 0);
    }
    if (last && split) { /* I5: only then may it be taken, and merged with what is behind it */
        wh_circular_add_header_(h, end, 1);
        wh_circular_let_go_(h, end, WH_CIRCULAR_FREE, t.next, fused); /* P1 */
    }
    if (last) { /* when the map has it: others start there at once */
        wh_store_u32_relaxed(&h.offsets[rq.which * WH_CIRCULAR_STRIDE], behind);
    }
    piece.at = at;
    piece.pieces = k;
    piece.mine = mine;
    return piece;
}

WH_FN void *wh_circular_malloc_(wh_circular_ref h, wh_mask mask, size_t n, int fused, int multi) {
    wh_circular_request rq;
    uint64_t since = UINT64_MAX;
    void *p = NULL;
    rq.mask = mask;
    rq.which = multi ? wh_sm_id() % h.n_offsets : 0;
    rq.need = wh_circular_need_(h, n, fused); /* 0: done */
    rq.alone = 0;
    if (rq.need == 0 && n != 0) {
        wh_add_u64_relaxed(&h.state->failed, 1);
    }
    for (uint32_t attempt = 0; wh_any(mask, rq.need != 0);) {
        /* No need has the top bit: units are fewer than 2^30. */
        rq.g = wh_group_by_u32(mask, rq.alone && rq.need != 0 ? 1u << 31 | wh_lane_id() : rq.need);
        const wh_circular_take t = wh_circular_take_(h, rq, fused);
        const wh_circular_piece piece = wh_circular_cut_(h, rq, t, fused);
        /* Most of the group got nothing: small chunks. */
        rq.alone = rq.need != 0 && t.outcome == WH_CIRCULAR_TOOK && piece.pieces * 4 <= rq.g.n;
        if (piece.mine) {
            p = h.base + ((uint64_t)piece.at << h.unit_log2);
            rq.need = 0;
        }
        const int failed = rq.need != 0 && t.outcome == WH_CIRCULAR_NONE;
        if (wh_any(mask, failed)) {
            const wh_circular_verdict v = wh_circular_give_up_(h, mask, since, fused);
            since = v.since;
            if (failed && v.none) {
                wh_add_u64_relaxed(&h.state->failed, 1);
                rq.need = 0;
            }
        }
        if (wh_any(mask, rq.need != 0 && t.outcome >= WH_CIRCULAR_WAIT)) {
            wh_circular_advance_(h, mask);
            wh_backoff(attempt++);
        }
    }
    wh_syncwarp(mask); /* the list is whole before any lane frees its piece */
    return p;
}

/* --- free --------------------------------------------------------------------------------- */

/* The chunk whose block starts at p; next = 0: there is none, or it is not in use. */
WH_FN wh_circular_chunk wh_circular_find_(wh_circular_ref h, const void *p, uint32_t *u,
                                          int fused) {
    const uint64_t at = (uint64_t)((const unsigned char *)p - h.base);
    const uint64_t unit = at >> h.unit_log2;
    wh_circular_chunk c;
    c.flag = c.next = 0;
    *u = (uint32_t)unit;
    if (unit < h.units && (at & (((uint64_t)1 << h.unit_log2) - 1)) == 0 &&
        wh_circular_is_header_(h, (uint32_t)unit)) {
        c = wh_circular_read_(h, (uint32_t)unit, fused);
        c.next = c.flag == WH_CIRCULAR_USED ? c.next : 0;
    }
    return c;
}

/* The lanes of a warp whose blocks follow one another, lane by lane as malloc hands them out,
 * merge them at once; the last of them does with the chunk behind what the paper's free does. */
WH_FN void wh_circular_free_(wh_circular_ref h, wh_mask mask, void *p, int fused) {
    const wh_mask above = mask & ~wh_lanemask_lt() & ~(1u << wh_lane_id());
    uint32_t u = 0;
    const wh_circular_chunk c = wh_circular_find_(h, p, &u, fused);
    if (c.next == 0 && p != NULL) {
        wh_add_u64_relaxed(&h.state->bad_frees, 1);
    }
    const wh_mask valid = wh_ballot(mask, c.next != 0);
    wh_assert_internal(c.next == 0 || (u < c.next && c.next <= h.units)); /* I4 */
    const uint32_t to = above != 0 ? wh_ctz32(above) : wh_lane_id();
    const uint32_t behind = wh_shfl_u32(mask, u, to);
    const int joins = above != 0 && c.next != 0 && (valid >> to & 1) != 0 && behind == c.next;
    const wh_mask joined = wh_ballot(mask, joins); /* with the next lane's */
    const wh_mask below = mask & wh_lanemask_lt();
    const int head = c.next != 0 && (below == 0 || (joined >> (31 - wh_clz32(below)) & 1) == 0);
    const wh_mask ends = mask & ~joined & ~wh_lanemask_lt();
    uint32_t next = c.next;
    if (c.next != 0 && !head) {
        wh_circular_drop_header_(h, u); /* I2: the holder of the chunk before is in this warp */
    }
    if (c.next != 0 && !joins) {
        next = wh_circular_absorb_(h, c.next, fused);
    }
    next = wh_shfl_u32(mask, next, wh_ctz32(ends));
    const int merged = head && next != c.next;
    if (head) {
        wh_circular_add_header_(h, u, WH_PLANT(circular_i5_free, 1, 0)); /* I5 */
        if (merged) {
            wh_circular_lead_(h, u, next, fused); /* P2: before the stamp */
            wh_circular_follow_(h, u, next);
        } else {
            wh_circular_let_go_(h, u, WH_CIRCULAR_FREE, next, fused); /* P1 */
        }
    }
    if (!wh_any(mask, merged)) {
        return;
    }
    const uint32_t leader = wh_mask_leader(mask);
    uint64_t stamp = 0;
    wh_syncwarp(mask); /* P2: one stamp for all merges of the warp */
    if (wh_lane_id() == leader) {
        stamp = wh_circular_stamp_(h);
    }
    stamp = wh_shfl_u64(mask, stamp, leader);
    wh_syncwarp(mask); /* P1: the writes of all lanes to their blocks, too */
    if (merged) {
        wh_store_u64_relaxed(wh_circular_stamp_at_(h, u), stamp);
        wh_circular_let_go_(h, u, WH_CIRCULAR_LIMBO, next, fused); /* P1 */
    }
    /* Where no search is under way, frees alone end the grace period. */
    if (mask == WH_FULL_WARP) {
        const uint32_t slot = wh_lane_id() % (2 * WH_CIRCULAR_SLOTS) * WH_CIRCULAR_STRIDE;
        if (!wh_any(mask, wh_load_u32_relaxed(&h.state->active[slot]) != 0)) {
            wh_circular_advance_(h, mask);
        }
    }
}

/* --- the rest of the contract ------------------------------------------------------------- */

WH_FN uint64_t wh_circular_usable_(wh_circular_ref h, const void *p, int fused) {
    uint32_t u = 0;
    const wh_circular_chunk c = wh_circular_find_(h, p, &u, fused);
    return c.next != 0 ? ((uint64_t)(c.next - u) << h.unit_log2) - wh_circular_header_(fused) : 0;
}

WH_FN int wh_circular_owns_(wh_circular_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < (uint64_t)h.units << h.unit_log2;
}

/* A larger block, whose first part goes back to the list. */
WH_FN void *wh_circular_aligned_(wh_circular_ref h, wh_mask mask, size_t align, size_t n, int fused,
                                 int multi) {
    const size_t total = wh_room_to_align(n, align);
    unsigned char *p = (unsigned char *)wh_circular_malloc_(h, mask, total, fused, multi);
    const uint64_t skip = (0 - (uint64_t)(uintptr_t)p) & ((uint64_t)align - 1);
    uint32_t u = 0;
    if (p == NULL || skip == 0) {
        return p;
    }
    const wh_circular_chunk c = wh_circular_find_(h, p, &u, fused);
    const uint32_t at = u + (uint32_t)(skip >> h.unit_log2);
    wh_assert_internal(u < at && at < c.next);
    wh_circular_new_(h, at, WH_CIRCULAR_USED, c.next, fused);
    wh_circular_lead_(h, u, at, fused); /* P1 */
    wh_circular_add_header_(h, at, 0);
    wh_circular_add_header_(h, u, 1);                       /* I5 */
    wh_circular_let_go_(h, u, WH_CIRCULAR_FREE, at, fused); /* P1 */
    return p + skip;
}

WH_FN void wh_circular_init_(wh_circular_ref h, uint64_t i, uint64_t n, int fused) {
    if (i == 0) {
        wh_store_u64_relaxed(&h.state->grace, 0);
        wh_store_u64_relaxed(&h.state->gather, 0);
        wh_store_u64_relaxed(&h.state->gather_empty, 0);
        wh_store_u64_relaxed(&h.state->failed, 0);
        wh_store_u64_relaxed(&h.state->bad_frees, 0);
    }
    for (uint64_t k = i; k < 2 * WH_CIRCULAR_SLOTS; k += n) {
        wh_store_u32_relaxed(&h.state->active[k * WH_CIRCULAR_STRIDE], 0);
    }
    for (uint64_t k = i; k < h.n_offsets; k += n) {
        wh_store_u32_relaxed(&h.offsets[k * WH_CIRCULAR_STRIDE], (uint32_t)(k * h.root * h.levels));
    }
    for (uint64_t k = i; k <= h.units / 32; k += n) {
        uint64_t bits = 0;
        for (uint64_t u = wh_circular_split_(h, k * 32); u < k * 32 + 32;) {
            const int last = u >= h.units;
            const uint64_t next = last ? 0 : wh_circular_split_(h, u + 1);
            bits |= wh_circular_bit_((uint32_t)u) | (last ? 0 : wh_circular_free_bit_((uint32_t)u));
            wh_circular_new_(h, (uint32_t)u, last ? WH_CIRCULAR_USED : WH_CIRCULAR_FREE,
                             (uint32_t)next, fused);
            u = last ? k * 32 + 32 : next;
        }
        wh_store_u64_relaxed(&h.map[k], bits); /* I4, I5 */
    }
}

/* --- the four lists ------------------------------------------------------------------- */

/* X(ident, fused, multi) */
#define WH_CIRCULAR_LISTS(X) \
    X(cmalloc, 0, 0)         \
    X(cfmalloc, 1, 0)        \
    X(cmmalloc, 0, 1)        \
    X(cfmmalloc, 1, 1)

#define WH_CIRCULAR_DEFINE_(X, fused, multi)                                                     \
    typedef wh_circular_ref wh_##X##_ref;                                                        \
    WH_FN_HOST wh_status wh_##X##_plan(wh_circular_ref *h, wh_plan *plan, unsigned char *memory, \
                                       uint64_t bytes, const void *options, uint32_t n_sms) {    \
        (void)options;                                                                           \
        return wh_circular_plan_(h, plan, memory, bytes, multi ? n_sms : 1,                      \
                                 wh_circular_header_(fused));                                    \
    }                                                                                            \
    WH_FN void *wh_##X##_malloc(wh_circular_ref h, wh_mask mask, size_t n) {                     \
        return wh_circular_malloc_(h, mask, n, fused, multi);                                    \
    }                                                                                            \
    WH_FN void wh_##X##_free(wh_circular_ref h, wh_mask mask, void *p) {                         \
        wh_circular_free_(h, mask, p, fused);                                                    \
    }                                                                                            \
    WH_FN void *wh_##X##_aligned(wh_circular_ref h, wh_mask mask, size_t align, size_t n) {      \
        return wh_circular_aligned_(h, mask, align, n, fused, multi);                            \
    }                                                                                            \
    WH_FN uint64_t wh_##X##_usable_size(wh_circular_ref h, const void *p) {                      \
        return wh_circular_usable_(h, p, fused);                                                 \
    }                                                                                            \
    WH_FN int wh_##X##_owns(wh_circular_ref h, const void *p) {                                  \
        return wh_circular_owns_(h, p);                                                          \
    }                                                                                            \
    WH_FN void wh_##X##_init(wh_circular_ref h, uint64_t i, uint64_t n) {                        \
        wh_circular_init_(h, i, n, fused);                                                       \
    }                                                                                            \
    WH_FN void wh_##X##_stats(wh_circular_ref h, uint64_t i, uint64_t n, wh_stats *s) {          \
        wh_circular_stats_(h, i, n, s, fused);                                                   \
    }                                                                                            \
    WH_FN void wh_##X##_check(wh_circular_ref h, uint64_t i, uint64_t n, wh_report *r) {         \
        wh_circular_check_(h, i, n, r, fused);                                                   \
    }                                                                                            \
    WH_FN void wh_##X##_walk(wh_circular_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {    \
        wh_circular_walk_(h, i, n, sink, fused);                                                 \
    }
WH_CIRCULAR_LISTS(WH_CIRCULAR_DEFINE_)

#define wh_cmalloc_NAME "cmalloc"
#define wh_cmalloc_left WH_NO_LEFT
#define wh_cfmalloc_NAME "cfmalloc"
#define wh_cfmalloc_left WH_NO_LEFT
#define wh_cmmalloc_NAME "cmmalloc"
#define wh_cmmalloc_left WH_NO_LEFT
#define wh_cfmmalloc_NAME "cfmmalloc"
#define wh_cfmmalloc_left WH_NO_LEFT
#define wh_cmalloc_layout wh_circular_layout_
#define wh_cfmalloc_layout wh_circular_layout_
#define wh_cmmalloc_layout wh_circular_layout_
#define wh_cfmmalloc_layout wh_circular_layout_
#define wh_cmalloc_MAX_ALIGN (1u << 20)
#define wh_cmalloc_BLOCKS 3
#define wh_cmalloc_EACH 0
#define wh_cfmalloc_MAX_ALIGN (1u << 20)
#define wh_cfmalloc_BLOCKS 3
#define wh_cfmalloc_EACH 0
#define wh_cmmalloc_MAX_ALIGN (1u << 20)
#define wh_cmmalloc_BLOCKS 4
#define wh_cmmalloc_EACH 0
#define wh_cfmmalloc_MAX_ALIGN (1u << 20)
#define wh_cfmmalloc_BLOCKS 4
#define wh_cfmmalloc_EACH 0

#include "warpheap/detail/simt/end.h"

#endif

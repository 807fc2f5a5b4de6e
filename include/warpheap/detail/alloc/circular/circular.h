/* alloc/circular: the allocators of Vinkler and Havran, "Register Efficient Dynamic Memory
 * Allocator for GPUs", CGF 2015. docs/papers/lists.md: claims, departures, what was measured.
 *
 *   awmalloc   one offset that wraps around: overwrites what is still in use   Algorithm 2
 *   cmalloc    a circular list of chunks; header {flag, next}                  Algorithm 3
 *   cfmalloc   the flag fused into the next offset: one word a header          section 5.3
 *   cmmalloc   cmalloc with one offset into the list per SM                    section 5.4
 *   cfmmalloc  cfmalloc with one offset per SM                                 section 5.4
 *
 * Terms (the paper's)
 *   chunk     memory from one header to the next; offsets count units of 16 bytes
 *   flag      FREE or USED; here also LIMBO, see Grace
 *   offset    memOffset: where the next search starts
 * The list's order is the order of addresses. A header lies in the bytes just before a
 * multiple of the unit, so that blocks are aligned to 16 bytes (the published code returns
 * unaligned ones): the block of the chunk at unit u is [base + 16 u, base + 16 next -
 * header). The last header, the sentinel, is USED and leads back to the first. The pool is
 * split beforehand into chunks of C(i) = R / 2^floor(log2 i) (equation 1), R as large as
 * fits; with one offset per SM, into one such heap for each.
 *
 * Malloc walks the list from the offset to the first chunk that is large enough and not
 * USED, locks it by a cas on its flag, splits off what is too much (blocks are at most
 * MAX_FRAG times too large) and sets the offset behind it. Free merges the chunk with the
 * next one if that is free. Departures:
 *   - lanes of a warp that ask for the same size share one search: they cut the chunk up
 *     between them;
 *   - where chunks are so small that most lanes of such a group would go round again, each
 *     lane searches for itself, the r-th of them from the r-th chunk on that is not in use;
 *   - a search that came around once without success ends (the paper's goes on for ever);
 *     then one warp joins all neighbouring free chunks of the list (gather), which the
 *     paper names as future work, before NULL;
 *   - a search follows the offset when others have moved it;
 *   - a group passes chunks that are too small for all of it, a few times, and then looks
 *     from the largest chunks of the split on, before it makes do with less: searches that
 *     lose a chunk go on to the next one, and would otherwise end, all of them, among the
 *     smallest;
 *   - free merges the blocks that neighbouring lanes free when they are neighbours in the
 *     list. One by one each of them would find the next one in use still;
 *   - a map outside the chunks says where headers are, and which chunks are not in use:
 *     free rejects what is no block, check and walk run in parallel, an offset can be
 *     validated, and a search that has met some chunks in use skips those behind them;
 *   - heaps above 16 GiB have larger units.
 *
 * Grace. The paper: a merge cannot overwrite a header that another thread still reads,
 * "because the allocating thread cannot be stalled for long enough". Nothing holds such a
 * thread to a time limit: a search that has read the offset of a header and is then
 * delayed finds, in its place, the contents of a block of the merged chunk, and takes
 * them for flag and next. tests/fault shows it (tag circular_grace). So here a merged
 * chunk goes to LIMBO, and is handed out only when every search that was under way at the
 * merge has ended. Searches count themselves in and out on one of two sides; a grace
 * period ends when both sides have been seen empty, one after the other, while new
 * searches join the other one (as in sleepable RCU).
 *
 * Fields and who writes them (device scope)
 *   header   flag: malloc, merge, gather: cas to USED, acquire; owner: store release.
 *            next: the holder of the chunk, release; before anything leads there, relaxed
 *   map      a word of 64 bits for 32 units. Bit b: there is a header at the unit; bit
 *            32 + b: and its chunk is not USED. split, free: or release, before the flag
 *            says so; malloc, merge: and, by the holder of the chunk, or of the one before
 *   offsets  any malloc, relaxed, when the map has what it leads to; merge: cas, relaxed,
 *            where the header it led to is gone. A hint
 *   grace    half-steps of grace periods; cas +1, fetch_add 0 for a stamp; acq_rel
 *   active   searches under way, per side; add acq_rel, and release
 *   gather   odd while a gather runs: cas; gather_empty: the number of the last one that
 *            joined nothing
 * Invariants
 *   I1  a chunk has one holder: who made its flag USED
 *   I2  a header leaves the list only by an act of the holder of the chunk before it (the
 *       lanes of a warp that free a row of chunks count as one holder)
 *   I3  memory from a header on is not handed out as part of an earlier chunk while a
 *       search that may have read that header's place is under way (Grace). So every
 *       header that a search can reach holds what its last owner put there: from a header
 *       that was in the list after the search began, next leads to another such one.
 *   I4  next > u, and map has exactly the headers of the list, when quiet
 *   I5  a chunk that is not USED is so in map, too; when quiet, no other
 * Ordering pairs
 *   P1  free or split (store release of flag or next) -> cas or load acquire of a search
 *   P2  merge: map and next are written, then the stamp is taken by a read-modify-write of
 *       grace -> the cas that steps grace on -> read-modify-write of active by a search
 *       that begins later: it finds the list without the merged header
 *   P3  end of a search (release of active) -> the check that a side is empty (acquire) ->
 *       grace (release) -> whoever takes the LIMBO chunk (acquire of grace)
 *   P4  map: or release after the header is written, and the list leads to it -> load
 *       acquire. Whoever frees a chunk, or looks at its size, owns it, and needs no order
 * Progress  a search waits for nobody and ends after one round. malloc repeats it while
 *       chunks that would do are in LIMBO, or while another lane gathers: both end when
 *       others have ended a bounded number of their own steps, and those wait for nobody
 *       (the lanes of a warp step together, and none is counted as active between steps).
 * Fails NULL after one round that found nothing and a gather that joined nothing; what
 *       others hold for a moment, to look at it, is not seen: not exact.
 * Limits headers lie between blocks: who writes past a block damages the list.
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

WH_FN void *wh_circular_malloc_(wh_circular_ref h, wh_mask mask, size_t n, int fused, int multi) {
    const uint32_t leader = wh_mask_leader(mask);
    const uint32_t which = multi ? wh_sm_id() % h.n_offsets : 0;
    uint32_t need = wh_circular_need_(h, n, fused); /* 0: done */
    uint64_t since = UINT64_MAX;
    int alone = 0;
    void *p = NULL;
    wh_circular_take t;
    if (need == 0 && n != 0) {
        wh_add_u64_relaxed(&h.state->failed, 1);
    }
    for (uint32_t attempt = 0; wh_any(mask, need != 0);) {
        /* No need has the top bit: units are fewer than 2^30. */
        const wh_group g =
            wh_group_by_u32(mask, alone && need != 0 ? 1u << 31 | wh_lane_id() : need);
        const wh_mask singles = wh_ballot(mask, alone && need != 0) & mask;
        uint32_t slot = 0;
        t.u = t.next = 0;
        t.outcome = WH_CIRCULAR_NONE;
        if (wh_lane_id() == leader) { /* for all searches of the warp */
            slot = wh_circular_enter_(h);
        }
        wh_syncwarp(mask);
        if (need != 0 && wh_group_leads(g)) {
            t = wh_circular_search_(h, which, alone, alone ? wh_mask_rank(singles) : 0, need,
                                    wh_circular_want_(h, need, g.n), fused);
            if (t.outcome == WH_CIRCULAR_TOOK) {
                wh_circular_mark_used_(h, t.u);
            }
        }
        wh_syncwarp(mask); /* P1: the others of the group use what its first lane acquired */
        if (wh_lane_id() == leader) {
            wh_circular_leave_(h, slot);
        }
        /* The lanes of the group cut the chunk up: piece r for rank r, what is left over
         * for the list, unless it is too little. */
        const uint32_t u = wh_shfl_u32(mask, t.u, g.leader);
        const uint32_t next = wh_shfl_u32(mask, t.next, g.leader);
        const uint32_t outcome = wh_shfl_u32(mask, t.outcome, g.leader);
        const int took = need != 0 && outcome == WH_CIRCULAR_TOOK;
        const uint32_t fit = took ? (next - u) / need : 0;
        const uint32_t k = fit < g.n ? fit : g.n;
        const uint32_t end = u + k * need;
        const int split = took && next - end >= (WH_CIRCULAR_MAX_FRAG - 1) * need;
        const int mine = took && g.rank < k;
        const uint32_t at = u + g.rank * need;
        const uint32_t after = g.rank + 1 < k ? at + need : split ? end : next;
        if (mine && g.rank != 0) {
            wh_circular_new_(h, at, WH_CIRCULAR_USED, after, fused);
        }
        const int last = mine && g.rank + 1 == k && split;
        if (last) {
            wh_circular_new_(h, end, WH_CIRCULAR_USED, next, fused);
        }
        wh_syncwarp(mask); /* P1: before the first piece leads to the others */
        if (mine && g.rank == 0) {
            wh_circular_lead_(h, u, after, fused);
        }
        wh_syncwarp(mask); /* P4: the list leads to them before the map does */
        if (mine && g.rank != 0) {
            wh_circular_add_header_(h, at, 0);
        }
        if (last) { /* I5: only then may it be taken, and merged with what is behind it */
            wh_circular_add_header_(h, end, 1);
            wh_circular_let_go_(h, end, WH_CIRCULAR_FREE, next, fused); /* P1 */
        }
        if (mine && g.rank + 1 == k) { /* when the map has it: others start there at once */
            wh_store_u32_relaxed(&h.offsets[which * WH_CIRCULAR_STRIDE], split ? end : next);
        }
        if (mine) {
            p = h.base + ((uint64_t)at << h.unit_log2);
            need = 0;
        }
        alone = took && k * 4 <= g.n; /* most of the group got nothing: small chunks */
        const int failed = need != 0 && outcome == WH_CIRCULAR_NONE;
        if (wh_any(mask, failed)) {
            const wh_circular_verdict v = wh_circular_give_up_(h, mask, since, fused);
            since = v.since;
            if (failed && v.none) {
                wh_add_u64_relaxed(&h.state->failed, 1);
                need = 0;
            }
        }
        if (wh_any(mask, need != 0 && outcome >= WH_CIRCULAR_WAIT)) {
            wh_circular_advance_(h, mask);
            wh_backoff(attempt++);
        }
    }
    wh_syncwarp(mask); /* the list is whole before any lane frees its piece */
    return p;
}

/* --- free
 * ------------------------------------------------------------------------------------------ */

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
    if (mask == ~0u) {
        const uint32_t slot = wh_lane_id() % (2 * WH_CIRCULAR_SLOTS) * WH_CIRCULAR_STRIDE;
        if (!wh_any(mask, wh_load_u32_relaxed(&h.state->active[slot]) != 0)) {
            wh_circular_advance_(h, mask);
        }
    }
}

/* --- the rest of the contract
 * ------------------------------------------------------------------------ */

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

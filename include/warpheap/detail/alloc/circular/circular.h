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

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/core/select.h"

#include "warpheap/detail/simt/begin.h"

enum { WH_CIRCULAR_FREE = 0, WH_CIRCULAR_USED = 1, WH_CIRCULAR_LIMBO = 2 };

/* A block is at most this many times as large as asked for ("MAX_FRAG", whose value the
 * paper does not give). */
#define WH_CIRCULAR_MAX_FRAG 2u

#ifdef WH_HOSTILE
#define WH_CIRCULAR_LEAST 4u /* units of the smallest chunks of the split */
#define WH_CIRCULAR_SLOTS 2u
#else
#define WH_CIRCULAR_LEAST 256u
#define WH_CIRCULAR_SLOTS 32u
#endif

#define WH_CIRCULAR_STRIDE 8u   /* words between counters, so that they do not share a sector */
#define WH_CIRCULAR_PATIENCE 4u /* LIMBO chunks passed before a search waits for grace */
#define WH_CIRCULAR_LOOK                                                                      \
    4u                         /* used chunks passed before a search looks at the offset, and \
                                  from then on at the map */
#define WH_CIRCULAR_FOLLOW 16u /* times that it follows it, before a round of its own */
#define WH_CIRCULAR_NEAR 16u   /* chunks that a lane looks at that searches for itself */
#define WH_CIRCULAR_SMALL 8u   /* chunks too small for a group that it passes */
#define WH_CIRCULAR_HOME 64u   /* chunks that it then looks at from the first of the split on */
#define WH_CIRCULAR_BLANK 64u  /* words of the map without a header before a search gives it up */
#define WH_CIRCULAR_FIRST 256u /* bytes before the first block: its header, and alignment */

typedef struct wh_circular_state {
    uint64_t grace;
    uint64_t gather;
    uint64_t gather_empty;
    uint64_t failed;
    uint64_t bad_frees;
    uint64_t unused[3];
    uint32_t active[2 * WH_CIRCULAR_SLOTS * WH_CIRCULAR_STRIDE];
} wh_circular_state;

typedef struct wh_circular_ref {
    unsigned char *base; /* of unit 0 */
    uint64_t *map;
    uint32_t *offsets;
    wh_circular_state *state;
    uint32_t units; /* the sentinel's place */
    uint32_t unit_log2;
    uint32_t n_offsets;
    uint32_t root;   /* units of C(1) */
    uint32_t levels; /* of the heaps that the pool is split into */
} wh_circular_ref;

/* --- laying out ------------------------------------------------------------------------ */

WH_FN_HOST wh_status wh_circular_plan_(wh_circular_ref *h, wh_plan *plan, unsigned char *memory,
                                       uint64_t bytes, uint32_t n_offsets, uint32_t header_bytes) {
    const uint64_t fixed = WH_CIRCULAR_FIRST + sizeof(wh_circular_state) +
                           (uint64_t)n_offsets * WH_CIRCULAR_STRIDE * 4 + 16;
    uint32_t unit_log2 = 4;
    plan->min_bytes = fixed + ((uint64_t)n_offsets + 4) * 17 + 8;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    while (bytes >> unit_log2 >= (uint64_t)1 << 30) {
        unit_log2++;
    }
    /* 4 units take a byte of the map, which has bits for the sentinel as well. */
    uint64_t units = (bytes - fixed) * 4 / (((uint64_t)4 << unit_log2) + 1);
    while ((units << unit_log2) + (units / 32 + 1) * 8 + fixed > bytes) {
        units--;
    }
    h->units = (uint32_t)units;
    h->unit_log2 = unit_log2;
    h->n_offsets = n_offsets;
    /* As many levels as leave the smallest chunks LEAST units; each level takes R. */
    const uint64_t each = units / n_offsets;
    uint32_t levels = 1;
    while (levels < 24 && each / ((uint64_t)(levels + 1) << levels) >= WH_CIRCULAR_LEAST) {
        levels++;
    }
    h->levels = levels;
    h->root = (uint32_t)(each / ((uint64_t)levels << (levels - 1)) << (levels - 1));
    plan->metadata_bytes = bytes - (units << unit_log2) + header_bytes;
    plan->init_items = units / 32 + 1;
    if (memory != NULL) {
        h->base = memory + WH_CIRCULAR_FIRST;
        h->state = (wh_circular_state *)(void *)(h->base + (units << unit_log2));
        h->offsets = (uint32_t *)(void *)(h->state + 1);
        h->map = (uint64_t *)(void *)(h->offsets + (uint64_t)n_offsets * WH_CIRCULAR_STRIDE);
    }
    return WH_OK;
}

/* The first chunk of the split that starts at u or behind it. */
WH_FN uint64_t wh_circular_split_(wh_circular_ref h, uint64_t u) {
    const uint64_t heap = (uint64_t)h.root * h.levels;
    const uint64_t number = u / heap, inside = u % heap;
    if (number >= h.n_offsets) { /* what the heaps do not use is one chunk */
        return u == heap * h.n_offsets ? u : h.units;
    }
    const uint64_t size = h.root >> inside / h.root; /* the level that u lies in */
    const uint64_t level = inside / h.root * h.root;
    return number * heap + level + (inside - level + size - 1) / size * size;
}

/* --- headers ---------------------------------------------------------------------------- */

typedef struct wh_circular_chunk {
    uint32_t flag;
    uint32_t next;
} wh_circular_chunk;

WH_HD uint32_t wh_circular_header_(int fused) {
    return fused ? 4 : 8;
}

/* The header of the chunk at unit u; of an unfused one, its flag. */
WH_FN uint32_t *wh_circular_at_(wh_circular_ref h, uint32_t u, int fused) {
    return (uint32_t *)(void *)(h.base + ((uint64_t)u << h.unit_log2) - wh_circular_header_(fused));
}

WH_FN wh_circular_chunk wh_circular_read_(wh_circular_ref h, uint32_t u, int fused) {
    const uint32_t *at = wh_circular_at_(h, u, fused);
    wh_circular_chunk c;
    if (!fused) { /* next is what leads on; the flag is compared again by the cas */
        c.flag = wh_load_u32_relaxed(at);
        c.next = wh_load_u32_acquire(at + 1); /* P1 */
        return c;
    }
    c.flag = WH_PLANT(circular_p1_read, wh_load_u32_acquire, wh_load_u32_relaxed)(at); /* P1 */
    c.next = c.flag >> 2;
    c.flag &= 3;
    return c;
}

/* Makes the chunk USED if its flag (fused: and next) is as it was seen; then *c holds what
 * its next is while we hold it. */
WH_FN int wh_circular_lock_(wh_circular_ref h, uint32_t u, wh_circular_chunk *c, int fused) {
    uint32_t *at = wh_circular_at_(h, u, fused);
    const uint32_t rest = fused ? c->next << 2 : 0;
    if (wh_cas_u32_acquire(at, rest | c->flag, rest | WH_CIRCULAR_USED) != (rest | c->flag)) {
        return 0; /* I1, P1 */
    }
    if (!fused) {
        c->next = wh_load_u32_acquire(at + 1);
    }
    return 1;
}

/* These write headers, by the holder of the chunk. A new one, to which nothing leads yet: */
WH_FN void wh_circular_new_(wh_circular_ref h, uint32_t u, uint32_t flag, uint32_t next,
                            int fused) {
    uint32_t *at = wh_circular_at_(h, u, fused);
    wh_store_u32_relaxed(at, fused ? next << 2 | flag : flag);
    if (!fused) {
        wh_store_u32_relaxed(at + 1, next);
    }
}

/* Another next; the chunk stays USED. */
WH_FN void wh_circular_lead_(wh_circular_ref h, uint32_t u, uint32_t next, int fused) {
    wh_store_u32_release(wh_circular_at_(h, u, fused) + (fused ? 0 : 1),
                         fused ? next << 2 | WH_CIRCULAR_USED : next); /* P1 */
}

/* Another flag: the end of the holding. */
WH_FN void wh_circular_let_go_(wh_circular_ref h, uint32_t u, uint32_t flag, uint32_t next,
                               int fused) {
    WH_PLANT(circular_p1_write, wh_store_u32_release, wh_store_u32_relaxed)
    (wh_circular_at_(h, u, fused), fused ? next << 2 | flag : flag); /* P1 */
}

/* Bit of the map for a header at u, and with it for a chunk that is not in use. */
WH_HD uint64_t wh_circular_bit_(uint32_t u) {
    return (uint64_t)1 << u % 32;
}

WH_HD uint64_t wh_circular_free_bit_(uint32_t u) {
    return (uint64_t)1 << (32 + u % 32);
}

/* For the owner of a block, whose header nobody else takes away (P4). */
WH_FN int wh_circular_is_header_(wh_circular_ref h, uint32_t u) {
    return (wh_load_u64_relaxed(&h.map[u / 32]) & wh_circular_bit_(u)) != 0;
}

/* Of a chunk that we hold, whose header is written: it is one; or, with the free bit, it is
 * one and will not be in use. */
WH_FN void wh_circular_add_header_(wh_circular_ref h, uint32_t u, int is_free) {
    wh_or_u64_release(&h.map[u / 32],
                      wh_circular_bit_(u) | (is_free ? wh_circular_free_bit_(u) : 0)); /* P4, I5 */
}

WH_FN void wh_circular_drop_header_(wh_circular_ref h, uint32_t u) {
    wh_and_u64_relaxed(&h.map[u / 32], ~(wh_circular_bit_(u) | wh_circular_free_bit_(u)));
}

/* Of a chunk that we hold: it stays in use. */
WH_FN void wh_circular_mark_used_(wh_circular_ref h, uint32_t u) {
    wh_and_u64_relaxed(&h.map[u / 32], ~wh_circular_free_bit_(u)); /* I5 */
}

/* A chunk from unit u on: the first one that is not in use, or, where the map has a word
 * without headers, the last one before that, which leads over it faster. `units` or more:
 * none before the end, or none within the first `blank` words. Its bit was set after the call
 * began. */
WH_FN_SLOW uint32_t wh_circular_skip_(const uint64_t *map, uint32_t units, uint32_t u,
                                      uint32_t blank) {
    const uint32_t last = units / 32;
    uint32_t at = UINT32_MAX; /* a chunk in use */
    uint64_t mask = (~0u << u % 32) * (((uint64_t)1 << 32) + 1);
    for (uint32_t k = u / 32; k <= last; mask = ~(uint64_t)0) {
        if (at == UINT32_MAX && k - u / 32 >= blank) {
            return units;
        }
        const uint64_t word = wh_load_u64_acquire(&map[k]) & mask; /* P4 */
        if (word >> 32 != 0) {
            return k * 32 + wh_ctz32((uint32_t)(word >> 32));
        }
        if (word == 0 && at != UINT32_MAX) {
            return at;
        }
        at = word != 0 ? k * 32 + 31 - wh_clz32((uint32_t)word) : at;
        k++;
        /* Several loads at a time over small chunks in use, or where no chunk begins. */
        while (k + 3 <= last) {
            const uint64_t a = wh_load_u64_relaxed(&map[k]), b = wh_load_u64_relaxed(&map[k + 1]);
            const uint64_t c = wh_load_u64_relaxed(&map[k + 2]);
            const uint64_t d = wh_load_u64_acquire(&map[k + 3]); /* P4 */
            const int none = at == UINT32_MAX && (a | b | c | d) == 0 && k - u / 32 < blank;
            if (!none && (at == UINT32_MAX || (a | b | c | d) >> 32 != 0 || a == 0 || b == 0 ||
                          c == 0 || d == 0)) {
                break;
            }
            k += 4;
            at = none ? at : k * 32 - 1 - wh_clz32((uint32_t)d);
        }
    }
    return units;
}

/* The r-th chunk, from 0, from unit u on that is not in use, or if they are sparse an
 * earlier one. */
WH_FN_SLOW uint32_t wh_circular_rth_(const uint64_t *map, uint32_t units, uint32_t u, uint32_t r) {
    uint32_t from = u % 32;
    uint32_t k = u / 32;
    for (uint32_t i = 0; i < 8 && k <= units / 32; i++, k++, from = 0) {
        const uint32_t bits = (uint32_t)(wh_load_u64_acquire(&map[k]) >> 32) >> from; /* P4 */
        const uint32_t n = wh_popc32(bits);
        if (r < n) {
            return k * 32 + from + wh_select32(bits, r + 1);
        }
        r -= n;
    }
    return wh_circular_skip_(map, units, k <= units / 32 ? k * 32 : 0, WH_CIRCULAR_BLANK);
}

/* Merges the chunk behind `next` into the one that we hold, if it is not used: the new
 * next. I2: it cannot go away meanwhile, as we hold the chunk before it. */
WH_FN uint32_t wh_circular_absorb_(wh_circular_ref h, uint32_t next, int fused) {
    wh_circular_chunk c = wh_circular_read_(h, next, fused);
    if (c.flag == WH_CIRCULAR_USED || !wh_circular_lock_(h, next, &c, fused)) {
        return next;
    }
    wh_circular_drop_header_(h, next);
    return c.next;
}

/* The chunk at u took in what lies before next: an offset that led to a header in between
 * leads to u, for a search that starts where there is no header has the map to go by alone.
 * That of the heap that u lies in; others get there by chance, and their searches begin
 * elsewhere. */
WH_FN void wh_circular_follow_(wh_circular_ref h, uint32_t u, uint32_t next) {
    const uint32_t heap = u / (h.root * h.levels);
    const uint32_t which = heap < h.n_offsets ? heap : h.n_offsets - 1;
    uint32_t *at = &h.offsets[which * WH_CIRCULAR_STRIDE];
    const uint32_t offset = wh_load_u32_relaxed(at);
    if (offset > u && offset < next) {
        (void)wh_cas_u32_relaxed(at, offset, u);
    }
}

/* --- grace -------------------------------------------------------------------------------- */

WH_HD uint32_t wh_circular_side_(uint64_t grace) {
    return (uint32_t)(grace + 1) >> 1 & 1;
}

/* Counts a search in: where it is counted. */
WH_FN uint32_t wh_circular_enter_(wh_circular_ref h) {
    const uint32_t side = wh_circular_side_(wh_load_u64_relaxed(&h.state->grace));
    const uint32_t slot =
        (side * WH_CIRCULAR_SLOTS + wh_sm_id() % WH_CIRCULAR_SLOTS) * WH_CIRCULAR_STRIDE;
    (void)WH_PLANT(circular_p2_enter, wh_fetch_add_u32_acq_rel,
                   wh_fetch_add_u32_relaxed)(&h.state->active[slot], 1); /* P2 */
    return slot;
}

WH_FN void wh_circular_leave_(wh_circular_ref h, uint32_t slot) {
    WH_PLANT(circular_p3_leave, wh_add_u32_release, wh_add_u32_relaxed)
    (&h.state->active[slot], ~0u); /* P3 */
}

/* What grace must have reached before memory that was merged just now is handed out: the
 * end of the first grace period that begins from now on. */
WH_FN uint64_t wh_circular_stamp_(wh_circular_ref h) {
    const uint64_t now = WH_PLANT(circular_p2_stamp, wh_fetch_add_u64_acq_rel,
                                  wh_fetch_add_u64_relaxed)(&h.state->grace, 0); /* P2 */
    return ((now + 1) & ~(uint64_t)1) + 2;
}

/* Where a LIMBO chunk keeps its stamp: in memory that nobody reads as a header. */
WH_FN uint64_t *wh_circular_stamp_at_(wh_circular_ref h, uint32_t u) {
    return (uint64_t *)(void *)(h.base + ((uint64_t)u << h.unit_log2));
}

/* Steps grace on if the side that is to drain is empty. All lanes of mask together. */
WH_FN void wh_circular_advance_(wh_circular_ref h, wh_mask mask) {
    const uint32_t leader = wh_mask_leader(mask);
    const uint64_t mine = wh_load_u64_acquire(&h.state->grace);
    const uint64_t now = wh_shfl_u64(mask, mine, leader);
    const uint32_t first = (1 - wh_circular_side_(now)) * WH_CIRCULAR_SLOTS;
    uint32_t busy = 0;
    wh_syncwarp(mask);
    for (uint32_t k = wh_mask_rank(mask); k < WH_CIRCULAR_SLOTS; k += wh_popc32(mask)) {
        busy |= WH_PLANT(circular_p2_empty, wh_fetch_or_u32_acq_rel, wh_fetch_or_u32_relaxed)(
            &h.state->active[(first + k) * WH_CIRCULAR_STRIDE], 0); /* P2, P3 */
    }
    busy = (uint32_t)wh_any(mask, busy != 0);
    wh_syncwarp(mask);
    if (!busy && wh_lane_id() == leader) {
        (void)wh_cas_u64_acq_rel(&h.state->grace, now, now + 1); /* P2, P3 */
    }
}

/* --- malloc: Algorithm 3 ---------------------------------------------------------------------- */

enum {
    WH_CIRCULAR_TOOK,  /* a chunk is ours */
    WH_CIRCULAR_SHORT, /* a lane that searches for itself has not gone far enough */
    WH_CIRCULAR_WAIT,  /* some that would do are in LIMBO */
    WH_CIRCULAR_NONE   /* came around */
};

typedef struct wh_circular_take {
    uint32_t u, next;
    uint32_t outcome;
} wh_circular_take;

WH_FN uint32_t wh_circular_offset_(wh_circular_ref h, uint32_t which) {
    return wh_load_u32_relaxed(&h.offsets[which * WH_CIRCULAR_STRIDE]);
}

/* A chunk to start at, for the lane of that rank among those that search each for itself:
 * where the offset is, or one not in use behind it. The offset's own header may be gone. */
WH_FN uint32_t wh_circular_start_(wh_circular_ref h, uint32_t offset, uint32_t rank) {
    if (WH_PLANT(circular_hint,
                 rank == 0 && (wh_load_u64_acquire(&h.map[offset / 32]) &
                               wh_circular_free_bit_(offset)) != 0,
                 1)) { /* P4 */
        return offset;
    }
    return rank != 0 ? wh_circular_rth_(h.map, h.units, offset, rank)
                     : wh_circular_skip_(h.map, h.units, offset, WH_CIRCULAR_BLANK);
}

/* Looks for a chunk of at least `want` units, or if these are rare `least`, and locks it.
 * Counted as active. Searches that
 * start together meet at one chunk, and one gets it; the others would walk over all that is in
 * use behind it. So a search looks at the offset now and then, and follows it when it has
 * moved: somebody has found a chunk and left a rest. And it skips what the map says is in
 * use. */
WH_FN wh_circular_take wh_circular_search_(wh_circular_ref h, uint32_t which, int alone,
                                           uint32_t rank, uint32_t least, uint32_t want,
                                           int fused) {
    wh_circular_take t;
    uint32_t limbo = 0, used = 0, followed = 0, passed = 0;
    uint32_t looks = alone ? WH_CIRCULAR_NEAR : UINT32_MAX;
    uint32_t offset = wh_circular_offset_(h, which);
    t.u = wh_circular_start_(h, offset, rank);
    uint32_t walked = 0; /* at most one chunk more than there are units, which are below 2^30 */
    for (; limbo < WH_CIRCULAR_PATIENCE && looks != 0; looks--) {
        if (walked >= h.units || passed == WH_CIRCULAR_SMALL + WH_CIRCULAR_HOME) {
            if (want == least) {
                break;
            }
            want = least; /* back to the offset, for less */
            passed = 0;
            offset = wh_circular_offset_(h, which);
            t.u = wh_circular_start_(h, offset, rank);
            walked = 0;
        }
        passed += passed >= WH_CIRCULAR_SMALL;
        t.u = t.u < h.units ? t.u : 0; /* the sentinel leads back */
        wh_circular_chunk c = wh_circular_read_(h, t.u, fused);
        if (want != least && c.flag != WH_CIRCULAR_USED && c.next - t.u < want &&
            passed < WH_CIRCULAR_SMALL && ++passed == WH_CIRCULAR_SMALL) {
            /* A look at the largest chunks of the split. */
            t.u = wh_circular_start_(h, which * h.root * h.levels, 0);
            continue;
        }
        if (c.flag != WH_CIRCULAR_USED && c.next - t.u >= want) {
            const uint32_t was = c.flag;
            if (wh_circular_lock_(h, t.u, &c, fused)) {
                /* A LIMBO chunk tells when it may be had only to its holder. */
                const int ready =
                    was == WH_CIRCULAR_FREE ||
                    WH_PLANT(circular_grace,
                             WH_PLANT(circular_p3_take, wh_load_u64_acquire,
                                      wh_load_u64_relaxed)(&h.state->grace) >=
                                 wh_load_u64_relaxed(wh_circular_stamp_at_(h, t.u)), /* P3 */
                             1);
                if (ready && c.next - t.u >= want) {
                    t.next = c.next;
                    t.outcome = WH_CIRCULAR_TOOK;
                    return t;
                }
                limbo += !ready;
                wh_circular_let_go_(h, t.u, was, c.next, fused);
            }
        }
        const int large = c.next - t.u >= 32;
        walked += c.next - t.u;
        t.u = c.next;
        used += c.flag == WH_CIRCULAR_USED;
        if (c.flag == WH_CIRCULAR_USED && used % WH_CIRCULAR_LOOK == 0 &&
            followed < WH_CIRCULAR_FOLLOW) {
            const uint32_t now = wh_circular_offset_(h, which);
            if (now != offset) {
                offset = now;
                t.u = wh_circular_start_(h, offset, rank);
                walked = 0;
                followed++;
                continue;
            }
        }
        if (used < WH_CIRCULAR_LOOK || large) {
            continue; /* the list leads over large chunks faster than the map */
        }
        const uint32_t to = wh_circular_skip_(h.map, h.units, c.next, UINT32_MAX);
        walked += to - c.next;
        t.u = to;
    }
    t.next = 0;
    t.outcome = alone ? WH_CIRCULAR_SHORT : limbo != 0 ? WH_CIRCULAR_WAIT : WH_CIRCULAR_NONE;
    return t;
}

/* Joins the chunk at u with those behind it, if it is not in use. */
typedef struct wh_circular_run {
    uint32_t next; /* end of the chunk that starts at u */
    uint32_t joined;
} wh_circular_run;

WH_FN wh_circular_run wh_circular_join_(wh_circular_ref h, uint32_t u, int fused) {
    wh_circular_chunk c = wh_circular_read_(h, u, fused);
    wh_circular_run run;
    const uint32_t was = c.flag;
    run.next = c.next;
    run.joined = 0;
    if (was == WH_CIRCULAR_USED || !wh_circular_lock_(h, u, &c, fused)) {
        return run;
    }
    run.next = c.next;
    for (uint32_t next = wh_circular_absorb_(h, run.next, fused); next != run.next;
         next = wh_circular_absorb_(h, run.next, fused)) {
        run.next = next;
        run.joined = 1;
    }
    if (run.joined) {
        wh_circular_lead_(h, u, run.next, fused); /* P2 */
        wh_store_u64_relaxed(wh_circular_stamp_at_(h, u), wh_circular_stamp_(h));
        wh_circular_follow_(h, u, run.next);
    }
    wh_circular_let_go_(h, u, run.joined ? (uint32_t)WH_CIRCULAR_LIMBO : was, run.next, fused);
    return run;
}

/* Joins neighbouring free chunks all over the list; whether there were any. All lanes of
 * mask, none counted as active before, each in a share of the units; then the leader sees to
 * the chunks at the shares' ends, which two lanes may have looked at at once. */
WH_FN_SLOW int wh_circular_gather_(wh_circular_ref h, wh_mask mask, int fused) {
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    const uint32_t leader = wh_mask_leader(mask);
    const uint32_t words = h.units / 32 + 1, share = (words + lanes - 1) / lanes;
    const uint64_t begin = (uint64_t)rank * share * 32, stop = begin + (uint64_t)share * 32;
    const uint32_t end = stop < h.units ? (uint32_t)stop : h.units;
    uint32_t slot = 0, joined = 0, last = h.units;
    if (wh_lane_id() == leader) {
        slot = wh_circular_enter_(h);
    }
    wh_syncwarp(mask);
    for (uint32_t u = begin < end ? wh_circular_skip_(h.map, end, (uint32_t)begin, UINT32_MAX)
                                  : end;
         u < end;) {
        const wh_circular_run run = wh_circular_join_(h, u, fused);
        joined |= run.joined;
        last = run.next >= end ? u : last;
        u = run.next < end ? wh_circular_skip_(h.map, end, run.next, UINT32_MAX) : end;
    }
    wh_syncwarp(mask);
    for (wh_mask left = wh_ballot(mask, last != h.units) & mask; left != 0; left &= left - 1) {
        const uint32_t u = wh_shfl_u32(mask, last, wh_ctz32(left));
        if (wh_lane_id() == leader) {
            joined |= wh_circular_join_(h, u, fused).joined;
        }
    }
    wh_syncwarp(mask);
    if (wh_lane_id() == leader) {
        wh_circular_leave_(h, slot);
    }
    return wh_any(mask, joined != 0);
}

/* What searches that found nothing come to. */
typedef struct wh_circular_verdict {
    uint64_t since; /* gathers up to this one say nothing; UINT64_MAX: not asked yet */
    int none;       /* NULL: a gather after `since` joined nothing */
} wh_circular_verdict;

/* Gathers, or waits until another warp has done so, before which there is no use in searching.
 * All lanes of mask, none counted as active. */
WH_FN_SLOW wh_circular_verdict wh_circular_give_up_(wh_circular_ref h, wh_mask mask, uint64_t since,
                                                    int fused) {
    const uint32_t leader = wh_mask_leader(mask);
    wh_circular_verdict v;
    int gathers = 0, waits = 0;
    uint64_t number = 0;
    v.since = since;
    v.none = 0;
    if (wh_lane_id() == leader) {
        number = wh_load_u64_acquire(&h.state->gather);
        v.since = since == UINT64_MAX ? number : since;
        if (wh_load_u64_acquire(&h.state->gather_empty) > v.since) {
            v.none = 1;
        } else if (number % 2 == 0 &&
                   wh_cas_u64_acq_rel(&h.state->gather, number, number + 1) == number) {
            gathers = 1;
        } else {
            waits = 1;
            number |= 1;
        }
    }
    wh_syncwarp(mask);
    if (wh_any(mask, gathers)) {
        const int joined = wh_circular_gather_(h, mask, fused);
        if (wh_lane_id() == leader) {
            if (!joined) {
                wh_store_u64_release(&h.state->gather_empty, number + 1);
            }
            wh_store_u64_release(&h.state->gather, number + 2);
            v.none = !joined;
        }
    }
    for (uint32_t attempt = 0; wh_any(mask, waits); attempt++) {
        wh_backoff(attempt);
        waits = waits && wh_load_u64_relaxed(&h.state->gather) == number;
    }
    v.since = wh_shfl_u64(mask, v.since, leader);
    v.none = wh_any(mask, v.none);
    return v;
}

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

WH_FN void wh_circular_stats_(wh_circular_ref h, uint64_t i, uint64_t n, wh_stats *s, int fused) {
    uint64_t used = 0, live = 0, largest = 0;
    for (uint64_t k = i; k <= h.units / 32; k += n) {
        for (uint32_t bits = (uint32_t)wh_load_u64_relaxed(&h.map[k]); bits != 0;
             bits &= bits - 1) {
            const uint32_t u = (uint32_t)k * 32 + wh_ctz32(bits);
            wh_circular_chunk c = wh_circular_read_(h, u, fused);
            if (u == h.units) {
                continue;
            }
            if (c.flag == WH_CIRCULAR_USED) {
                used += ((uint64_t)(c.next - u) << h.unit_log2) - wh_circular_header_(fused);
                live++;
            } else if (u != 0) {
                continue; /* counted by the used chunk before it */
            }
            /* The free chunks from here to the next used one, which a gather would join. */
            const uint32_t from = c.flag == WH_CIRCULAR_USED ? c.next : u;
            uint32_t to = from;
            for (c = wh_circular_read_(h, to, fused); c.flag != WH_CIRCULAR_USED;
                 c = wh_circular_read_(h, to, fused)) {
                to = c.next;
            }
            largest = to - from > largest ? to - from : largest;
        }
    }
    wh_add_u64_relaxed(&s->used_bytes, used);
    wh_add_u64_relaxed(&s->live_blocks, live);
    if (largest != 0) {
        (void)wh_fetch_max_u64_relaxed(&s->largest_free,
                                       (largest << h.unit_log2) - wh_circular_header_(fused));
    }
    if (i == 0) {
        s->failed = wh_load_u64_relaxed(&h.state->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.state->bad_frees);
    }
}

WH_FN void wh_circular_check_(wh_circular_ref h, uint64_t i, uint64_t n, wh_report *r, int fused) {
    for (uint64_t k = i; k < 2 * WH_CIRCULAR_SLOTS; k += n) {
        if (wh_load_u32_relaxed(&h.state->active[k * WH_CIRCULAR_STRIDE]) != 0) {
            wh_report_error(r, 3, k);
        }
    }
    if (i == 0 && (!wh_circular_is_header_(h, 0) || !wh_circular_is_header_(h, h.units) ||
                   wh_load_u64_relaxed(&h.state->gather) % 2 != 0)) {
        wh_report_error(r, 4, 0);
    }
    for (uint64_t k = i; k <= h.units / 32; k += n) {
        for (uint32_t bits = (uint32_t)wh_load_u64_relaxed(&h.map[k]); bits != 0;
             bits &= bits - 1) {
            const uint32_t u = (uint32_t)k * 32 + wh_ctz32(bits);
            const wh_circular_chunk c = wh_circular_read_(h, u, fused);
            if (u == h.units ? c.flag != WH_CIRCULAR_USED || c.next != 0
                             : c.flag > WH_CIRCULAR_LIMBO || c.next <= u || c.next > h.units) {
                wh_report_error(r, 4, u);
                continue;
            }
            /* The next bit of the map is the next header. */
            uint64_t word = k;
            uint32_t above = bits & (bits - 1);
            while (above == 0 && word < h.units / 32) {
                above = (uint32_t)wh_load_u64_relaxed(&h.map[++word]);
            }
            if (u != h.units && (above == 0 || word * 32 + wh_ctz32(above) != c.next)) {
                wh_report_error(r, 4, u);
            }
            const int is_free = (wh_load_u64_relaxed(&h.map[k]) & wh_circular_free_bit_(u)) != 0;
            if (is_free != (c.flag != WH_CIRCULAR_USED)) { /* I5 */
                wh_report_error(r, 5, u);
            }
        }
        const uint64_t both = wh_load_u64_relaxed(&h.map[k]);
        if ((both >> 32 & ~both) != 0) {
            wh_report_error(r, 5, k * 32);
        }
    }
}

WH_FN void wh_circular_walk_(wh_circular_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink,
                             int fused) {
    for (uint64_t k = i; k <= h.units / 32; k += n) {
        for (uint32_t bits = (uint32_t)wh_load_u64_relaxed(&h.map[k]); bits != 0;
             bits &= bits - 1) {
            const uint32_t u = (uint32_t)k * 32 + wh_ctz32(bits);
            const wh_circular_chunk c = wh_circular_read_(h, u, fused);
            if (u != h.units && c.flag == WH_CIRCULAR_USED) {
                wh_walk_emit(sink, h.base + ((uint64_t)u << h.unit_log2),
                             ((uint64_t)(c.next - u) << h.unit_log2) - wh_circular_header_(fused));
            }
        }
    }
}

/* --- the four lists ------------------------------------------------------------------- */

/* What code of this family must agree on with who laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_circular_layout_(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_circular_ref, field),
        sizeof(wh_circular_ref),
        WH_F_(base) WH_F_(map) WH_F_(offsets) WH_F_(state) WH_F_(units) WH_F_(unit_log2)
        WH_F_(n_offsets) WH_F_(root) WH_F_(levels)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_circular_state, field),
        sizeof(wh_circular_state),
        WH_F_(grace) WH_F_(gather) WH_F_(gather_empty) WH_F_(failed) WH_F_(bad_frees) WH_F_(active)
#undef WH_F_
        WH_CIRCULAR_LEAST, WH_CIRCULAR_SLOTS, WH_CIRCULAR_STRIDE, WH_CIRCULAR_FIRST,
    };
    return wh_layout_hash("circular", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

/* X(ident, fused, multi) */
#define WH_CIRCULAR_LISTS(X) \
    X(cmalloc, 0, 0)         \
    X(cfmalloc, 1, 0)        \
    X(cmmalloc, 0, 1)        \
    X(cfmmalloc, 1, 1)

#define WH_CIRCULAR_DEFINE_(X, fused, multi)                                                      \
    typedef wh_circular_ref wh_##X##_ref;                                                         \
    WH_FN_HOST wh_status wh_##X##_plan(wh_circular_ref *h, wh_plan *plan, unsigned char *memory,  \
                                       uint64_t bytes, const wh_tuning *tuning, uint32_t n_sms) { \
        (void)tuning;                                                                             \
        return wh_circular_plan_(h, plan, memory, bytes, multi ? n_sms : 1,                       \
                                 wh_circular_header_(fused));                                     \
    }                                                                                             \
    WH_FN void *wh_##X##_malloc(wh_circular_ref h, wh_mask mask, size_t n) {                      \
        return wh_circular_malloc_(h, mask, n, fused, multi);                                     \
    }                                                                                             \
    WH_FN void wh_##X##_free(wh_circular_ref h, wh_mask mask, void *p) {                          \
        wh_circular_free_(h, mask, p, fused);                                                     \
    }                                                                                             \
    WH_FN void *wh_##X##_aligned(wh_circular_ref h, wh_mask mask, size_t align, size_t n) {       \
        return wh_circular_aligned_(h, mask, align, n, fused, multi);                             \
    }                                                                                             \
    WH_FN uint64_t wh_##X##_usable_size(wh_circular_ref h, const void *p) {                       \
        return wh_circular_usable_(h, p, fused);                                                  \
    }                                                                                             \
    WH_FN int wh_##X##_owns(wh_circular_ref h, const void *p) {                                   \
        return wh_circular_owns_(h, p);                                                           \
    }                                                                                             \
    WH_FN void wh_##X##_init(wh_circular_ref h, uint64_t i, uint64_t n) {                         \
        wh_circular_init_(h, i, n, fused);                                                        \
    }                                                                                             \
    WH_FN void wh_##X##_stats(wh_circular_ref h, uint64_t i, uint64_t n, wh_stats *s) {           \
        wh_circular_stats_(h, i, n, s, fused);                                                    \
    }                                                                                             \
    WH_FN void wh_##X##_check(wh_circular_ref h, uint64_t i, uint64_t n, wh_report *r) {          \
        wh_circular_check_(h, i, n, r, fused);                                                    \
    }                                                                                             \
    WH_FN void wh_##X##_walk(wh_circular_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {     \
        wh_circular_walk_(h, i, n, sink, fused);                                                  \
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

/* --- AWMalloc: Algorithm 2 ------------------------------------------------------------ */

/* The offset is 64 bits wide, so that adds past the end cannot wrap it. */
typedef struct wh_awmalloc_ref {
    unsigned char *base;
    uint64_t bytes;
    uint64_t *offset;
} wh_awmalloc_ref;

#define wh_awmalloc_NAME "awmalloc"
#define wh_awmalloc_free WH_NO_FREE /* the offset comes around some day */
#define wh_awmalloc_usable_size WH_NO_USABLE_SIZE
#define wh_awmalloc_stats WH_NO_STATS
#define wh_awmalloc_walk WH_NO_WALK
#define wh_awmalloc_left WH_NO_LEFT
#define wh_awmalloc_MAX_ALIGN (1u << 20)
#define wh_awmalloc_BLOCKS 8
#define wh_awmalloc_EACH 0

WH_FN_HOST wh_status wh_awmalloc_plan(wh_awmalloc_ref *h, wh_plan *plan, unsigned char *memory,
                                      uint64_t bytes, const wh_tuning *tuning, uint32_t n_sms) {
    (void)tuning;
    (void)n_sms;
    plan->min_bytes = 512;
    plan->metadata_bytes = 256;
    plan->init_items = 1;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    h->offset = (uint64_t *)(void *)memory;
    h->base = memory + 256;
    h->bytes = (bytes - 256) & ~(uint64_t)15;
    return WH_OK;
}

/* What code of this family must agree on with who laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_awmalloc_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_awmalloc_ref, field),
        sizeof(wh_awmalloc_ref),
        WH_F_(base) WH_F_(bytes) WH_F_(offset)
#undef WH_F_
    };
    return wh_layout_hash("awmalloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_awmalloc_init(wh_awmalloc_ref h, uint64_t i, uint64_t n) {
    (void)n;
    if (i == 0) {
        wh_store_u64_relaxed(h.offset, 0);
    }
}

/* `size` bytes in one piece, perhaps from the beginning again. Lock-free: each repetition
 * means that another lane has wrapped the offset or moved it. */
WH_FN uint64_t wh_awmalloc_take_(wh_awmalloc_ref h, uint64_t size) {
    uint64_t end = wh_fetch_add_u64_relaxed(h.offset, size) + size;
    uint64_t full = end; /* an offset at which `size` bytes do not fit */
    while (end > h.bytes) {
        const uint64_t seen = wh_cas_u64_relaxed(h.offset, full, size);
        if (seen == full) {
            return 0;
        }
        full = seen;
        if (seen + size <= h.bytes) {
            full = end = wh_fetch_add_u64_relaxed(h.offset, size) + size;
        }
    }
    return end - size;
}

WH_FN void *wh_awmalloc_malloc(wh_awmalloc_ref h, wh_mask mask, size_t n) {
    const uint64_t size = n <= h.bytes ? ((uint64_t)n + 15) & ~(uint64_t)15 : 0;
    const wh_group g = wh_group_by_u64(mask, size);
    /* As many lanes of the group take together as the pool holds. */
    const uint64_t most = size != 0 ? h.bytes / size : 1;
    const uint32_t each = most < g.n ? (uint32_t)most : g.n;
    uint64_t at = 0;
    const uint32_t first = g.rank / each * each;
    if (size != 0 && g.rank == first) {
        at = wh_awmalloc_take_(h, size * (g.n - first < each ? g.n - first : each));
    }
    /* The lane that took for this one: the first of its share. */
    uint32_t from = wh_lane_id();
    uint32_t rank = 0;
    for (wh_mask left = g.lanes; left != 0; left &= left - 1, rank++) {
        from = rank == first ? wh_ctz32(left) : from;
    }
    at = wh_shfl_u64(mask, at, from) + size * (g.rank - first);
    return size != 0 ? h.base + at : NULL;
}

WH_FN void *wh_awmalloc_aligned(wh_awmalloc_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_align_up(wh_awmalloc_malloc(h, mask, wh_room_to_align(n, align)), align);
}

WH_FN int wh_awmalloc_owns(wh_awmalloc_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.bytes;
}

WH_FN void wh_awmalloc_check(wh_awmalloc_ref h, uint64_t i, uint64_t n, wh_report *r) {
    (void)n;
    if (i == 0 && (wh_load_u64_relaxed(h.offset) & 15) != 0) {
        wh_report_error(r, 1, 0);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

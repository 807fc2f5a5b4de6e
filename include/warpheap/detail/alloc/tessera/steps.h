/* alloc/tessera/steps.h: what all of tessera is made of: brackets of takes, claims of chunks, what
 * a slow step found, and the counts of bytes in use. This file may change: it is no part of the
 * API.
 *
 * A *take* gets memory from the pool, a partial list or a pack. takes_begun and takes_done of the
 * caller's shard bracket it, so that a search before NULL notices what is in transit (search.h X1).
 *
 * I2      a chunk in the pool belongs to nobody. Its words past the first are 0. Its first word is
 *         0, or all ones if the chunk last was the first of a slab of one word. Its state is EMPTY.
 *         Its tag is not that of a slab of several words, so that a double free finds no slab
 * I7      takes_begun = takes_done when quiet
 *
 * P3      slab or run returned: pool insert -> claim (core/veb.h P1), also by way of a claim that
 *         is put back. With slab.h P1 and spans.h P2: what the old owner of a slot wrote happens
 *         before the new owner's use. Where one lane claims chunks, or takes a span from a cursor,
 *         and another one makes slots of them free for all, a sync of the two comes before
 * P4      takes_begun is raised before the take, in one of three ways. The take releases it
 *         (core/veb.h P3). Or whether and where to take depends on what the add returned. Or the
 *         store that publishes a span releases it, and the rest of a claim is put back behind that.
 *         takes_done comes after the take, release -> a search that saw the take's effect sees
 *         takes_begun
 * P6      what has become available is there before the event that tells of it is counted. The
 *         word's fetch_or and the pool's insert are acquire, so the add comes after them. (Atomics
 *         that have returned are in the L2, where all look. PTX by itself would ask for an add that
 *         releases, a fence in every free: under the simulated device's formal memory this pair
 *         does not hold.) A verdict that knows the event (search.h X2) has searched with it, since
 *         it reads events first. A lane that counts for others of its warp does so between two
 *         syncs with them: behind their fetch_or, and before they return
 *
 * Check   tests/unit/tessera_gather.c (I2, I7, P4), tests/unit/tessera_spans.c (P3, P4),
 *         tests/fault/tessera.c (P3, P4, P6), wh_tessera_check (I2, I7)
 */
#ifndef WH_ALLOC_TESSERA_STEPS_H
#define WH_ALLOC_TESSERA_STEPS_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/tessera/layout.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"

#include "warpheap/detail/simt/begin.h"

/* --- small steps ----------------------------------------------------------------- */

/* For assertions: whether the caller is a lane of mask; whether v is the same in all of them;
 * whether a take of the shard is under way, the caller's. (Added zeros, since a load may be old.)
 */
WH_FN int wh_tessera_in_mask_(wh_mask mask) {
    return (mask >> wh_lane_id() & 1) != 0;
}
WH_FN int wh_tessera_same_(wh_mask mask, uint64_t v) {
    return wh_all(mask, wh_shfl_u64(mask, v, wh_mask_leader(mask)) == v);
}
WH_FN int wh_tessera_in_take_(wh_tessera_shard *shard) {
    const uint32_t done = wh_fetch_add_u32_relaxed(&shard->takes_done, 0);
    return (int32_t)(wh_fetch_add_u32_relaxed(&shard->takes_begun, 0) - done) > 0;
}
WH_FN int wh_tessera_is_locked_(uint32_t *lock) {
    return wh_fetch_add_u32_relaxed(lock, 0) != 0;
}

WH_FN int wh_tessera_is_unused_(wh_tessera_core g, uint32_t chunk) {
    const uint64_t *words = wh_tessera_words_of_(g, chunk);
    const uint64_t first = wh_load_u64_relaxed(words);
    uint64_t others = 0;
    for (uint32_t k = 1; k < 1u << wh_tessera_words_log2(g.chunk_log2); k++) {
        others |= wh_load_u64_relaxed(&words[k]);
    }
    return (first == 0 || first == WH_TESSERA_ALL_FREE) && others == 0 &&
           wh_load_u32_relaxed(wh_tessera_state_at_(g, chunk)) == WH_TESSERA_EMPTY;
}

/* Brackets a take from the pool: P4. Returns a number that grows with each. */
WH_FN uint32_t wh_tessera_begin_take_(wh_tessera_core g, uint32_t shard) {
    wh_assert_internal(shard < g.n_shards);
    return wh_fetch_add_u32_relaxed(&wh_tessera_shard_at_(g, shard)->takes_begun, 1);
}
WH_FN void wh_tessera_end_take_(wh_tessera_core g, uint32_t shard) {
    wh_assert_internal(shard < g.n_shards);
    wh_assert_expensive(wh_tessera_in_take_(wh_tessera_shard_at_(g, shard)));
    wh_add_u32_release(&wh_tessera_shard_at_(g, shard)->takes_done, 1);
}

WH_FN void wh_tessera_bad_free_(wh_tessera_core g, uint32_t shard, uint32_t n) {
    wh_add_u64_relaxed(&wh_tessera_shard_at_(g, shard)->bad_frees, n);
}

/* Whether a tree may have members: its top word. An insert under way may not have got there yet. */
WH_FN int wh_tessera_any_(wh_veb tree) {
    return wh_load_u64_acquire(wh_veb_word(tree, wh_veb_words(tree.n) - 1)) != 0;
}

/* Whether a tree has members: all of level 0. All lanes of mask, eight words each at a time. What
 * they find they tell the levels above, since claims and puts that do not may have hidden it from
 * searches. */
WH_FN int wh_tessera_holds_(wh_veb tree, wh_mask mask) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint64_t n = (tree.n + 63) >> 6;
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    WH_NO_UNROLL
    for (uint64_t first = 0; first < n; first += 8 * lanes) {
        uint64_t seen = 0;
        for (uint32_t k = 0; k < 8; k++) {
            const uint64_t w = first + k * lanes + rank;
            seen |= wh_load_u64_relaxed(wh_veb_word(tree, w < n ? w : n - 1));
        }
        if (wh_any(mask, seen != 0)) {
            for (uint32_t k = 0; k < 8 && seen != 0; k++) {
                const uint64_t w = first + k * lanes + rank;
                if (w < n && wh_load_u64_relaxed(wh_veb_word(tree, w)) != 0) {
                    wh_veb_filled(tree, w);
                }
            }
            return 1;
        }
    }
    wh_fence();
    return 0;
}

/* n chunks from `chunk`, or 2^order, as a mask of a word of the pool. */
WH_HD uint64_t wh_tessera_chunk_mask_(uint32_t chunk, uint32_t n) {
    wh_assert_internal(n - 1 < 64);
    return ~wh_ones_from_u64(n) << (chunk & 63);
}
WH_HD uint64_t wh_tessera_order_mask_(uint32_t chunk, uint32_t order) {
    return wh_tessera_chunk_mask_(chunk, 1u << order);
}

/* P3, X2 */
WH_FN void wh_tessera_put_chunks_(wh_tessera_core g, uint32_t shard, uint32_t chunk, uint32_t n) {
    wh_assert_internal(shard < g.n_shards && (chunk & 63) + n <= 64);
    wh_assert_expensive(wh_tessera_is_unused_(g, chunk));
    WH_PLANT(tessera_p6, (void)0, wh_add_u32_relaxed(&wh_tessera_shard_at_(g, shard)->events, 1));
    (void)wh_veb_insert_mask(wh_tessera_pool_(g), chunk >> 6, wh_tessera_chunk_mask_(chunk, n));
    WH_PLANT(tessera_p6, wh_add_u32_relaxed(&wh_tessera_shard_at_(g, shard)->events, 1), /* P6 */
             (void)0);
}

/* 1 if all n chunks from `chunk`, in one word of the pool, were free and are now the caller's. */
WH_FN int wh_tessera_claim_n_(wh_tessera_core g, uint32_t chunk, uint32_t n) {
    wh_assert_internal((chunk & 63) + n <= 64);
    const uint64_t mask = wh_tessera_chunk_mask_(chunk, n);
    const uint64_t got = wh_veb_claim_mask(wh_tessera_pool_(g), chunk >> 6, mask);
    if (got != mask && got != 0) {
        wh_veb_put_back(wh_tessera_pool_(g), chunk >> 6, got);
    }
    return got == mask;
}

/* Where a shard looks for 2^order chunks the ticket-th time: shards side by side, so that the used
 * part of the heap stays dense and no two shards look at the same chunks. n_chunks: there are none
 * for it. */
WH_HD uint32_t wh_tessera_search_start_(uint32_t n_chunks, uint32_t n_shards, uint32_t shard,
                                        uint32_t ticket, uint32_t order) {
    wh_assert_internal(shard < n_shards && order <= WH_TESSERA_MAX_SPAN_LOG2);
    const uint32_t rounds = (n_chunks >> order) / n_shards;
    return rounds == 0 ? n_chunks : (ticket % rounds * n_shards + shard) << order;
}

/* The bits at which n set ones in a row begin; n > 0. */
WH_HD uint64_t wh_tessera_runs_of_(uint64_t bits, uint32_t n) {
    wh_assert_internal(n - 1 < 64);
    WH_NO_UNROLL
    for (; n > 1; n -= n >> 1) {
        bits &= bits >> (n >> 1);
    }
    return bits;
}

/* First bit of the lowest aligned run of 2^order set bits; 64: none. */
WH_HD uint32_t wh_tessera_fit_(uint64_t bits, uint32_t order) {
    wh_assert_internal(order <= WH_TESSERA_MAX_SPAN_LOG2);
    uint64_t multiples = 1; /* of 2^order */
    WH_NO_UNROLL
    for (uint32_t length = 32; length >> order != 0; length >>= 1) {
        multiples |= multiples << length;
    }
    WH_NO_UNROLL
    for (uint32_t length = 1; length >> order == 0; length <<= 1) {
        bits &= bits >> length;
    }
    bits &= multiples;
    return bits == 0 ? 64 : wh_ctz64(bits);
}

/* One of n things, at most 64, by 16 random bits: a remainder would be a call (simt/cuda.h says
 * what is wrong with those), or twenty instructions. */
WH_HD uint32_t wh_tessera_pick_(uint32_t bits, uint32_t n) {
    wh_assert_internal(n - 1 < 64);
    return (bits & 0xffff) * n >> 16;
}

/* Where taker number k looks in a list or in the pool, of 2^32 (wh_veb_pick_word): numbers in a row
 * are spread evenly, by the golden ratio, since takers that meet fail at each other's atomics
 * (docs/notes/2026-11-27-evenly-spread-looks.md). Where it looks next: as much further on for all.
 */
#define WH_TESSERA_FURTHER 0x6a09e667u /* the root of 2, its fraction */

/* --- what a slow step found ------------------------------------------------------ */

typedef struct wh_tessera_grant {
    uint64_t at;   /* bits = 0: a span, the slots from its position on; else word index */
    uint64_t bits; /* slots of that word */
    int refills;   /* C1: the caller has become the refiller of its cursor */
} wh_tessera_grant;

#define WH_TESSERA_WAIT ((uint64_t)0)        /* not now */
#define WH_TESSERA_NOTHING UINT64_MAX        /* not that anybody knows of: X1 */
#define WH_TESSERA_PACKED (UINT64_MAX - 1)   /* not on the list: but maybe in packs */
#define WH_TESSERA_PAUSED (UINT64_MAX - 2)   /* not while others search for all: X3 */
#define WH_TESSERA_SERVED (UINT64_MAX - 3)   /* by packs, some of the group */
#define WH_TESSERA_BLOCK ((uint64_t)1 << 62) /* with bits: | chunk of a pack << 16 | granule */

WH_FN wh_tessera_grant wh_tessera_make_grant_(uint64_t at, uint64_t bits) {
    wh_tessera_grant grant;
    grant.at = at;
    grant.bits = bits;
    grant.refills = 0;
    return grant;
}

WH_FN int wh_tessera_has_slots_(uint64_t span) {
    return wh_tessera_span_position(span) < wh_tessera_span_slots(span);
}

/* Whether an add would find a slot, or make its caller the refiller. */
WH_FN int wh_tessera_is_open_(uint64_t span) {
    return wh_tessera_span_position(span) <= wh_tessera_span_slots(span) &&
           wh_tessera_span_first(span) != WH_TESSERA_CLOSED_CHUNK;
}

/* C1: whether an add of n that returned `span` makes the caller its refiller. */
WH_FN int wh_tessera_passes_end_(uint64_t span, uint32_t n) {
    const uint32_t slots = wh_tessera_span_slots(span);
    const uint32_t position = wh_tessera_span_position(span);
    return wh_tessera_is_open_(span) && position + n > slots;
}

/* A cursor of the shard's has `span` now instead of `last`. */
WH_FN void wh_tessera_hold_(wh_tessera_core g, uint32_t shard, wh_tessera_class cls, uint64_t last,
                            uint64_t span) {
    wh_add_u32_relaxed(&wh_tessera_shard_at_(g, shard)->held,
                       wh_tessera_chunks_of_(cls, g.begin, span) -
                           wh_tessera_chunks_of_(cls, g.begin, last));
}

/* Usable bytes of a block in the chunk with this tag, which is no pack; 0 if none starts there. */
WH_FN uint64_t wh_tessera_block_bytes_(uint32_t chunk_log2, const uint64_t *at) {
    const uint64_t tag = wh_load_u64_relaxed(at); /* I3 */
    if (wh_tessera_kind(tag) == WH_TESSERA_SLAB) {
        return wh_tessera_tag_size(tag);
    }
    return wh_tessera_kind(tag) == WH_TESSERA_RUN ? (tag >> 32) << chunk_log2 : 0;
}

/* --- the peak and the totals, where they are asked for ------------------------------ */

/* Each lane of mask has been given the block p, or NULL; 0: each that is here. */
WH_FN_LINKED(void, wh_tessera_count_mallocs_,
             (const wh_tessera_core *g, wh_mask mask, const void *p)) {
    wh_assert_internal(g->tracks != 0);
    wh_assert_internal(mask == 0 || wh_tessera_in_mask_(mask));
    wh_tessera_header *header = wh_tessera_header_(*g);
    mask = mask != 0 ? mask : wh_activemask();
    wh_syncwarp(mask); /* P2: whose atomic it was has the tag */
    const uint64_t chunk = (uint64_t)((const unsigned char *)p - g->base) >> g->chunk_log2;
    const uint64_t bytes =
        p == NULL ? 0
                  : wh_tessera_block_bytes_(g->chunk_log2, wh_tessera_tag_at_(*g, (uint32_t)chunk));
    /* The sum of the upper halves is less than 2^24, as a heap has up to 2^38 bytes. */
    const uint64_t low = wh_reduce_add_u32(mask, (uint32_t)bytes & 0xfffff);
    const uint32_t high =
        wh_reduce_add_u32(mask, (uint32_t)(bytes >> 20) + (p != NULL ? 1u << 24 : 0));
    const uint64_t sum = ((uint64_t)(high & 0xffffff) << 20) + low;
    if (sum != 0 && wh_lane_id() == wh_mask_leader(mask)) {
        if ((g->tracks & WH_TESSERA_TRACKS_TOTALS) != 0) {
            wh_add_u64_relaxed(&header->mallocs, high >> 24);
        }
        const uint64_t now = wh_fetch_add_u64_relaxed(&header->used, sum) + sum;
        if (now > wh_load_u64_relaxed(&header->peak)) {
            (void)wh_fetch_max_u64_relaxed(&header->peak, now);
        }
    }
}

/* Blocks of `bytes` bytes together have been given back. */
WH_FN void wh_tessera_count_frees_(const wh_tessera_core *g, uint64_t bytes) {
    wh_assert_internal(g->tracks != 0);
    wh_add_u64_relaxed(&wh_tessera_header_(*g)->used, 0 - bytes);
}

#include "warpheap/detail/simt/end.h"

#endif

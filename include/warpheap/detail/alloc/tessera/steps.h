/* alloc/tessera/steps.h: what all of tessera is made of: brackets of takes, chunks to and from
 * the pool, and the counts of bytes in use. This file may change: it is no part of the API.
 *
 * A *take* is a step that keeps free memory where no search would see it: chunks between the pool
 * and a cursor or a list, an empty slab on its way to the pool, a slab off its list. takes and
 * takes_done of the caller's shard bracket it, so that a search before NULL notices (oom.h X1).
 * A lane that takes free slots for its caller is no take: they go from hand to hand.
 *
 * I2      a chunk in the pool belongs to nobody. Its words are 0, or GONE and what late frees
 *         have left there; its state is 0
 * I7      takes begun = takes_done when quiet
 *
 * P3      slab or run returned: pool insert -> claim (core/veb.h P1). With slab.h P1 and cursor.h
 *         P2: what the old owner of a slot wrote happens before the new owner's use. Where one lane
 *         claims chunks, or takes a span from a cursor, and another one makes slots of them free
 *         for all, a sync of the two comes before
 * P4      takes is raised before the take's first atomic, which releases it or has a fence before
 *         it, or depends on what the add returned; takes_done after its last one, release -> a
 *         search that saw the take's effect sees takes begun. A refiller's takes_done is relaxed,
 *         and may come before the span: who sees that sees a cursor under way, which is not settled
 *         (oom.h), as the atomic that made it the refiller has returned (the L2, as in P6). That of
 *         a full warp that got a slab is relaxed, too: nothing has become free
 * P6      chunks are in the pool before the event that tells of it is counted: the insert is
 *         acquire, so the add comes after it. (Atomics that have returned are in the L2, where all
 *         look. PTX by itself would ask for an add that releases: under the simulated device's
 *         formal memory this pair does not hold.) A verdict that knows the event (runs.h X2) has
 *         searched with it, since it reads events first
 *
 * Check   tests/conform, tests/stress, tests/fault, wh_tessera_check
 */
#ifndef WH_ALLOC_TESSERA_STEPS_H
#define WH_ALLOC_TESSERA_STEPS_H

#include "warpheap/core/hash.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/detail/alloc/tessera/layout.h"

#include "warpheap/detail/simt/begin.h"

/* For assertions: whether the caller is a lane of mask; whether v is the same in all of them;
 * whether a take of the shard is under way, the caller's; whether a lock is held. (Added zeros,
 * since a load may be old.) */
WH_FN int wh_tessera_in_mask_(wh_mask mask) {
    return (mask >> wh_lane_id() & 1) != 0;
}
WH_FN int wh_tessera_same_(wh_mask mask, uint64_t v) {
    return wh_all(mask, wh_shfl_u64(mask, v, wh_mask_leader(mask)) == v);
}
WH_FN int wh_tessera_in_take_(wh_tessera_shard *shard) {
    const uint32_t done = wh_fetch_add_u32_relaxed(&shard->takes_done, 0);
    return (int32_t)(wh_high_u32(wh_fetch_add_u64_relaxed(&shard->takes, 0)) - done) > 0;
}
WH_FN int wh_tessera_is_locked_(uint32_t *lock) {
    return wh_fetch_add_u32_relaxed(lock, 0) != 0;
}
WH_FN int wh_tessera_is_unused_(wh_tessera_core g, uint32_t chunk) { /* I2 */
    uint64_t *words = wh_tessera_words_of_(g, chunk);
    int any = 0;
    for (uint32_t k = 0; k < g.words_of_chunk; k++) {
        const uint64_t word = wh_fetch_or_u64_relaxed(&words[k], 0);
        any |= word != 0 && !wh_tessera_is_gone(word);
    }
    return !any;
}

WH_FN uint32_t wh_tessera_my_shard_(wh_tessera_ref h) {
    const uint32_t shard = wh_sm_id() * h.shard_scale >> 16;
    return shard < h.last_shard ? shard : h.last_shard;
}

/* The top, alike for all lanes of mask: it may rise (growth.h). */
WH_FN uint32_t wh_tessera_top_of_all_(wh_tessera_core g, wh_mask mask) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    return wh_shfl_u32(mask, wh_tessera_top_(g), wh_mask_leader(mask));
}

WH_FN void wh_tessera_begin_take_(wh_tessera_shard *shard) { /* P4 */
    wh_add_u64_relaxed(&shard->takes, WH_TESSERA_TAKE);
}
WH_FN void wh_tessera_end_take_(wh_tessera_shard *shard) {
    wh_assert_expensive(wh_tessera_in_take_(shard));
    wh_add_u32_release(&shard->takes_done, 1);
}
WH_FN void wh_tessera_bad_free_(wh_tessera_shard *shard, uint32_t n) {
    wh_add_u64_relaxed(&shard->bad_frees, n);
}

/* n chunks from `chunk`, as a mask of a word of the pool. */
WH_HD uint64_t wh_tessera_chunk_mask_(uint32_t chunk, uint32_t n) {
    wh_assert_internal(n - 1 < 64 && (chunk & 63) + n <= 64);
    return ~wh_ones_from_u64(n) << (chunk & 63);
}

/* P3, P6. Its owner's home begins there again, so that memory is used from the front. */
WH_FN void wh_tessera_put_chunks_(wh_tessera_core g, wh_tessera_shard *shard, uint32_t chunk,
                                  uint32_t n) {
    wh_assert_expensive(wh_tessera_is_unused_(g, chunk));
    WH_PLANT(tessera_p6, (void)0, wh_add_u32_relaxed(&shard->events, 1));
    (void)wh_veb_insert_mask(wh_tessera_pool_(g), chunk >> 6, wh_tessera_chunk_mask_(chunk, n));
    WH_PLANT(tessera_p6, wh_add_u32_relaxed(&shard->events, 1), (void)0); /* P6 */
    if (chunk < g.begin) {
        return;
    }
    const uint32_t w = (chunk - g.begin) >> 6; /* < 2^18, so the product is exact */
    const uint32_t row = g.by_shards == 0 ? w : wh_high_u32(wh_mul_wide_u32(w, g.by_shards));
    wh_tessera_shard *owner = wh_tessera_shard_at_(g, w - row * g.n_shards);
    const uint64_t takes = wh_load_u64_relaxed(&owner->takes);
    if (wh_low_u32(takes) >> 6 > row) {
        (void)wh_cas_u64_relaxed(&owner->takes, takes, takes - wh_low_u32(takes) + (row << 6));
    }
}

/* Chunks from the back of the heap are free again: runs, and slabs of large classes, are looked for
 * there first. */
WH_FN void wh_tessera_lower_run_next_(wh_tessera_core g, uint64_t chunk, uint64_t chunks) {
    uint32_t *next = &wh_tessera_header_(g)->run_next;
    if (wh_load_u32_relaxed(next) > g.n_chunks - chunk - chunks) {
        wh_store_u32_relaxed(next, (uint32_t)(g.n_chunks - chunk - chunks));
    }
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

/* A claim of chunks in a row, in one word of the pool. n = 0: none. */
typedef struct wh_tessera_claim {
    uint32_t first, n;
} wh_tessera_claim;

/* Bits n apart, of 64; n is a power of two. */
WH_HD uint64_t wh_tessera_multiples_(uint32_t n) {
    wh_assert_internal(wh_is_pow2(n) && n <= 64);
    uint64_t bits = 1;
    WH_NO_UNROLL
    for (uint32_t length = 32; length >= n; length >>= 1) {
        bits |= bits << length;
    }
    return bits;
}

/* The longest run of ones among 64 bits of those of `most`, half of that, and so on down to `least`
 * bits; powers of two. As a claim: n = 0 if there is none. */
WH_HD wh_tessera_claim wh_tessera_longest_(uint64_t bits, uint32_t most, uint32_t least) {
    wh_assert_internal(least != 0 && least <= most && wh_is_pow2(most));
    wh_tessera_claim claim;
    claim.first = claim.n = 0;
    WH_NO_UNROLL
    for (uint32_t n = most; claim.n == 0 && n >= least; n >>= 1) {
        const uint64_t starts = wh_tessera_runs_of_(bits, n);
        if (starts != 0) {
            claim.first = wh_ctz64(starts);
            claim.n = n;
        }
    }
    return claim;
}

/* Of these chunks of word w of the pool, which the caller has claimed: the longest run (as above).
 * The others go back. */
WH_FN wh_tessera_claim wh_tessera_keep_(wh_tessera_core g, uint32_t w, uint64_t bits, uint32_t most,
                                        uint32_t least) {
    wh_tessera_claim claim = wh_tessera_longest_(bits, most, least);
    claim.first |= w << 6;
    if (claim.n != 0) {
        bits &= ~wh_tessera_chunk_mask_(claim.first, claim.n);
    }
    if (bits != 0) {
        (void)wh_veb_insert_mask(wh_tessera_pool_(g), w, bits);
    }
    return claim;
}

#define WH_TESSERA_HOME_TRIES 4u
#define WH_TESSERA_SEEK_TRIES 6u

/* The place that `takes` of a shard gave is behind its home: it shall not overflow. */
WH_FN void wh_tessera_past_home_(wh_tessera_core g, wh_tessera_shard *own) {
    const uint64_t now = wh_load_u64_relaxed(&own->takes);
    if (wh_low_u32(now) > g.home_chunks) {
        (void)wh_cas_u64_relaxed(&own->takes, now, now - wh_low_u32(now) + g.home_chunks);
    }
}

/* Claims chunks of `word`, of the pool. P3, P4. The summary above a word that this empties stays: a
 * search clears it. */
WH_FN uint64_t wh_tessera_claim_mask_(uint64_t *word, uint64_t mask) {
    return WH_PLANT(tessera_p3_claim, wh_fetch_and_u64_acquire, wh_fetch_and_u64_relaxed)(word,
                                                                                          ~mask) &
           mask;
}

/* n chunks for a full warp's slab, at the next place of a shard's home. Claims that ask for the
 * same n one after the other get places one behind the other, as many as a word of the pool has
 * room for; who gets a place over its end has none, as who finds it taken. Begins a take (P4),
 * which the caller ends. */
WH_FN wh_tessera_claim wh_tessera_claim_slab_(wh_tessera_core g, wh_tessera_shard *own,
                                              uint32_t shard, uint32_t n) {
    uint32_t x = wh_low_u32(wh_fetch_add_u64_relaxed(&own->takes, WH_TESSERA_TAKE | n));
    wh_tessera_claim claim;
    claim.first = claim.n = 0;
    x = wh_is_pow2(n) ? (x + n - 1) & ~(n - 1) : x - (x & 63) % n;
    if (x >= g.home_chunks) {
        wh_tessera_past_home_(g, own);
        return claim;
    }
    if ((x & 63) + n > 64) {
        return claim;
    }
    const uint32_t at = wh_tessera_home(g, shard, x);
    const uint64_t mask = wh_tessera_chunk_mask_(at, n);
    const uint64_t got = wh_tessera_claim_mask_(wh_veb_word(wh_tessera_pool_(g), at >> 6), mask);
    if (got == mask) {
        claim.first = at;
        claim.n = n;
    } else if (got != 0) {
        (void)wh_veb_insert_mask(wh_tessera_pool_(g), at >> 6, got);
    }
    return claim;
}

/* Chunks for a shard's cursor at home: asks for `most` at the next place, an atomic, and gets what
 * is free there, another one: a multiple of `least`; both are powers of two. Where the place goes
 * over the end of a word of the pool, the longer part; where some of it is taken, what else is in
 * that word. In a take. */
WH_FN wh_tessera_claim wh_tessera_claim_home_(wh_tessera_core g, wh_tessera_shard *own,
                                              uint32_t shard, uint32_t most, uint32_t least) {
    wh_tessera_claim claim;
    uint32_t x = wh_low_u32(wh_fetch_add_u64_relaxed(&own->takes, most)), n = most;
    const uint32_t rest = 64 - (x & 63);
    claim.first = claim.n = 0;
    if (most == least) { /* claims of one size, as mostly: none goes over the end of a word */
        x = (x + most - 1) & ~(most - 1);
    } else if (n > rest) {
        x += rest >= n - rest ? 0 : rest;
        n = rest >= n - rest ? rest : n - rest;
    }
    n &= ~(least - 1);
    if (x >= g.home_chunks) {
        wh_tessera_past_home_(g, own);
        return claim;
    }
    if (n == 0) {
        return claim;
    }
    const uint32_t at = wh_tessera_home(g, shard, x);
    uint64_t mask = wh_tessera_chunk_mask_(at, n);
    uint64_t *word = wh_veb_word(wh_tessera_pool_(g), at >> 6);
    const uint64_t bits = wh_load_u64_relaxed(word);
    if ((bits & mask) != mask) {
        claim = wh_tessera_longest_(bits, most, least);
        if (claim.n == 0) { /* on to the next word */
            const uint64_t now = wh_load_u64_relaxed(&own->takes);
            if (wh_low_u32(now) >> 6 == x >> 6) {
                (void)wh_cas_u64_relaxed(&own->takes, now,
                                         now - wh_low_u32(now) + (((x >> 6) + 1) << 6));
            }
            return claim;
        }
        mask = wh_tessera_chunk_mask_(claim.first, claim.n);
    }
    const uint64_t got = wh_tessera_claim_mask_(word, mask);
    if (got == mask) {
        claim.first = (at & ~63u) | wh_ctz64(mask);
        claim.n = wh_popc64(mask);
        return claim;
    }
    return wh_tessera_keep_(g, at >> 6, got, most, least);
}

/* Chunks where the pool has some, from the front on. In a take. */
WH_FN_SLOW wh_tessera_claim wh_tessera_seek_(const wh_tessera_core *ref, uint32_t shard,
                                             uint32_t most, uint32_t least) {
    const wh_tessera_core g = *ref;
    const wh_veb pool = wh_tessera_pool_(g);
    wh_tessera_claim claim;
    claim.first = claim.n = 0;
    uint64_t from = g.begin + ((uint64_t)shard << 6);
    from = from < wh_tessera_top_(g) ? from : 0;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_SEEK_TRIES && claim.n == 0; tries++) {
        const uint64_t found = wh_veb_successor(pool, from);
        if (found == WH_VEB_NONE) {
            wh_veb_settle(pool, from); /* claims at home leave summaries behind */
            if (from == 0) {
                break;
            }
            from = 0;
            continue;
        }
        const uint32_t w = (uint32_t)(found >> 6);
        uint64_t bits = wh_load_u64_relaxed(wh_veb_word(pool, w));
        const uint32_t fewest = tries < WH_TESSERA_SEEK_TRIES / 2 ? least : 1;
        const wh_tessera_claim run = wh_tessera_longest_(bits, most, fewest);
        if (run.n != 0) {
            const uint64_t mask = wh_tessera_chunk_mask_(w << 6 | run.first, run.n);
            bits = wh_veb_claim_mask(pool, w, mask); /* P3, P4 */
            claim = wh_tessera_keep_(g, w, bits, run.n, fewest);
        }
        from = (found | 63) + 1 < g.n_chunks ? (found | 63) + 1 : 0;
    }
    return claim;
}

/* Whether the pool, or the list of class c, may have members: its top word. An insert under way may
 * not have got there yet. */
WH_FN int wh_tessera_any_chunks_(wh_tessera_core g) {
    return wh_load_u64_relaxed(&g.pool[(uint64_t)(g.list_words - 1) << WH_TESSERA_POOL_SPREAD]) !=
           0;
}
WH_FN int wh_tessera_any_listed_(wh_tessera_core g, uint32_t c) {
    return wh_load_u64_relaxed(
               &g.partial_lists[wh_mul_wide_u32(c, g.list_words) + g.list_words - 1]) != 0;
}

/* Whether the pool has members: all of level 0, up to the top. All lanes of mask, eight words each
 * at a time. What they find they tell the levels above, since claims and puts that do not may have
 * hidden it from searches. */
WH_FN int wh_tessera_holds_(wh_tessera_core g, wh_mask mask) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const wh_veb tree = wh_tessera_pool_(g);
    const uint64_t n = ((uint64_t)wh_tessera_top_of_all_(g, mask) + 63) >> 6;
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

/* Usable bytes of a block in the chunk with this tag; 0 if none starts there. */
WH_FN uint64_t wh_tessera_block_bytes_(const wh_tessera_class *classes, uint32_t chunk_log2,
                                       uint64_t tag) {
    if (wh_tessera_kind(tag) == WH_TESSERA_SLAB) {
        return classes[wh_tessera_tag_class(tag)].slot_size;
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
        p == NULL
            ? 0
            : wh_tessera_block_bytes_(header->classes, g->chunk_log2,
                                      wh_load_u64_relaxed(wh_tessera_tag_at_(*g, (uint32_t)chunk)));
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
        /* Frees of slots that nobody had (slabs.md) may bring the count below zero. */
        if ((int64_t)now > 0 && now > wh_load_u64_relaxed(&header->peak)) {
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

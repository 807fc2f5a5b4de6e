/* alloc/tessera/warps.h: chunks for full warps. A slab of its own for lanes that want the same, of
 * 2^k bytes; a pack for lanes that want other sizes (tag.h I9); single chunks, made slabs or packs
 * of one, where there are no home chunks for these. Nobody waits here. This file may change: it is
 * no part of the API.
 *
 * Progress  a pack: a bounded number of claims. Single chunks (gather): again only if others took
 *         what was seen, or something was got
 * Cost    a slab: 2 atomics, 2 more for each of up to three other shards if the chunks are taken.
 *         A pack: 2 atomics. Else a look at some words of the pool; then single chunks, 1 atomic
 *         for each word that has some
 */
#ifndef WH_ALLOC_TESSERA_WARPS_H
#define WH_ALLOC_TESSERA_WARPS_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tessera/slab.h"

#include "warpheap/detail/simt/begin.h"

/* Whether n is of a class of 2^k bytes whose slab is for a full warp. */
WH_HD int wh_tessera_is_warp_slab_(uint64_t n, uint32_t max_warp_slab) {
    const uint32_t m = (uint32_t)n - 1;
    return n > 256 && n <= max_warp_slab && (m >> (29 - wh_clz32(m)) & 3) == 3;
}

/* log2 of the slots of such a class, for a request n of it, and of their chunks. From what is in
 * registers: the class's record would be a round trip before the first atomic. */
WH_HD uint32_t wh_tessera_warp_slab_log2_(uint32_t n) {
    wh_assert_internal(n > 256);
    return wh_msb32(n - 1) + 1;
}
WH_HD uint32_t wh_tessera_warp_slab_order_(uint32_t log2, uint32_t chunk_log2) {
    wh_assert_internal(log2 + 5 >= chunk_log2 && log2 <= chunk_log2);
    return log2 + 5 - chunk_log2;
}

/* Makes chunks that a full warp has claimed its slab, 32 slots of 2^log2 bytes, with this tag, and
 * the shard, in all of them. The caller's, and malloc ends with a sync of the lanes, behind which
 * these stores are (P2). tags, words: of all chunks. */
WH_FN void *wh_tessera_hand_out_(wh_tessera_core g, uint32_t shard, uint64_t tag, uint32_t log2,
                                 uint32_t slab, uint32_t chunk_bytes, uint64_t *tags,
                                 uint64_t *words, uint32_t words_log2) {
    wh_assert_internal(log2 <= g.chunk_log2 &&
                       (slab & ((1u << wh_tessera_warp_slab_order_(log2, g.chunk_log2)) - 1)) == 0);
    const uint32_t lane = wh_lane_id();
    const uint32_t order = wh_tessera_warp_slab_order_(log2, g.chunk_log2);
    if (lane >> order == 0) { /* at most 32: a class is at most a chunk */
        wh_store_u64_relaxed(&tags[slab + lane], wh_tessera_with_shard(tag, shard));
    }
    if (lane == 0) {
        wh_store_u64_relaxed(&words[slab << words_log2], 0);
    }
    return g.base + wh_mul_wide_u32(slab, chunk_bytes) + (lane << log2);
}

/* A full warp that wants slots of class c, of 2^log2 bytes, takes a slab of its own, 32 slots, from
 * the next of its shard's home chunks, or if these are taken, of the next shards': some SMs get
 * more blocks to run than others. NULL for all lanes: these are taken, too, or it is known that
 * there are none. Kept short: code that an SM runs for the first time in a kernel comes from
 * memory. */
#define WH_TESSERA_WARP_SLAB_TRIES 4u
WH_FN void *wh_tessera_warp_slab_(wh_tessera_ref h, wh_tessera_shard *home, const uint32_t shard,
                                  uint32_t c, uint32_t log2) {
    wh_assert_internal(h.core.home_chunks != 0 && (h.warp_slabs >> c & 1) != 0);
    const uint32_t lane = wh_lane_id();
    const wh_tessera_core g = h.core;
    const uint32_t order = wh_tessera_warp_slab_order_(log2, h.chunk_log2);
    const wh_tessera_header *header = (const wh_tessera_header *)(const void *)h.classes;
    const uint64_t tag = header->slab_tags[c]; /* on its way meanwhile */
    uint32_t home_shard = shard;
    WH_NO_UNROLL
    for (uint32_t tries = 1;; tries++) {
        uint32_t slab = g.n_chunks;
        if (lane == 0) {
            const uint32_t ticket = wh_fetch_add_u32_relaxed(&home->takes_begun, 1); /* P4 */
            const int none = wh_load_u32_hint(&home->skip_home) != 0;                /* likewise */
            const uint32_t chunk = wh_tessera_home(g, home_shard, ticket, order);
            const uint64_t bits = (uint64_t)(UINT32_MAX >> (32 - (1u << order))) << (chunk & 63);
            wh_assert_internal(wh_popc64(bits) == 1u << order);
            /* P3, P4. The summary above a word that this empties stays: a search clears it. */
            const uint64_t got = none ? 0
                                      : wh_fetch_and_u64_acquire(
                                            wh_veb_word(wh_tessera_pool_(g), chunk >> 6), ~bits) &
                                            bits;
            if (got == bits) {
                slab = chunk;
                wh_add_u32_relaxed(&home->takes_done, 1); /* P4: nothing has become available */
            } else {
                if (got != 0) {
                    (void)wh_veb_insert_mask(wh_tessera_pool_(g), chunk >> 6, got);
                }
                wh_add_u32_release(&home->takes_done, 1); /* P4 */
                slab += none ? 1 : 0;
            }
        }
        slab = wh_shfl_u32(WH_FULL_WARP, slab, 0);
        if (slab < g.n_chunks) {
            return wh_tessera_hand_out_(g, shard, wh_again_u64(tag), log2, slab, h.max_slot, h.tags,
                                        h.words, h.words_log2);
        }
        if (slab > g.n_chunks || tries == WH_TESSERA_WARP_SLAB_TRIES) {
            return NULL;
        }
        home_shard = home_shard != h.last_shard ? home_shard + 1 : 0;
        home = wh_tessera_nth_shard_(h.shards, home_shard);
    }
}

/* What a claim of chunks in a row, in one word of the pool, has come to. */
typedef struct wh_tessera_word_claim {
    uint32_t chunk;  /* of the first one */
    uint32_t ticket; /* which gave that chunk */
    int got;         /* all of them */
    uint64_t back;   /* a part of them, of that word of the pool: to be put back */
} wh_tessera_word_claim;

/* That nothing has been tried. */
WH_FN wh_tessera_word_claim wh_tessera_no_word_claim_(wh_tessera_core g) {
    wh_tessera_word_claim now;
    now.chunk = g.n_chunks;
    now.ticket = 0;
    now.got = 0;
    now.back = 0;
    return now;
}

/* Whether n chunks from `chunk` on lie in one word of the pool. */
WH_HD int wh_tessera_in_word_(uint32_t chunk, uint32_t n) {
    return (chunk & 63) + n <= 64;
}

/* Claims n chunks, 1 to 32, from `chunk` on, which lie in one word of the pool. P3. The summary
 * above a word that this empties stays: a search clears it. P4: between begin_take and end_take. */
WH_FN wh_tessera_word_claim wh_tessera_claim_in_word_(wh_tessera_core g, uint32_t chunk,
                                                      uint32_t n) {
    wh_assert_internal(n - 1 < 32 && wh_tessera_in_word_(chunk, n));
    const uint64_t mask = (uint64_t)(UINT32_MAX >> (32 - n)) << (chunk & 63);
    wh_tessera_word_claim now = wh_tessera_no_word_claim_(g);
    now.chunk = chunk;
    wh_assert_internal(wh_popc64(mask) == n);
    now.back = wh_fetch_and_u64_acquire(wh_veb_word(wh_tessera_pool_(g), chunk >> 6), ~mask) & mask;
    now.got = now.back == mask;
    return now;
}

/* After a claim: what it got of chunks that were not all there. */
WH_FN void wh_tessera_put_back_claim_(wh_tessera_core g, wh_tessera_word_claim now) {
    if (!now.got && now.back != 0) {
        wh_veb_put_back(wh_tessera_pool_(g), now.chunk >> 6, now.back);
    }
}

/* Where a warp begins to look at words of the pool that are not its shard's. */
WH_FN uint32_t wh_tessera_random_(void) {
    return wh_spread32((uint32_t)(wh_thread_id() >> 5) + 1);
}
/* A number that is far from those of the other lanes. *random: moved on; the same in all lanes, if
 * thread blocks are whole warps (else lanes may look at the same words, and several or none tell).
 */
WH_FN uint32_t wh_tessera_far_(uint32_t *random) {
    *random = *random * 1664525u + 1013904223u;
    return wh_spread32(*random + (wh_lane_id() << 27));
}

/* The word of the pool that such a number stands for. */
WH_FN uint32_t wh_tessera_some_word_(wh_tessera_core g, uint32_t far) {
    return wh_high_u32(wh_mul_wide_u32(far, (g.n_chunks + 63) >> 6));
}

#define WH_TESSERA_VIEW_TRIES 4u

/* A full warp whose home chunks were taken: some shards run out before the heap does, so its lanes
 * look at a word of the pool each, of whatever shard or of the front of the heap, and it takes
 * chunks that one of them has seen. NULL: there was none. */
WH_FN_SLOW void *wh_tessera_warp_slab_again_(const wh_tessera_core *g, uint32_t shard, uint32_t c,
                                             uint32_t log2) {
    wh_assert_internal(c < g->n_classes && shard < g->n_shards);
    const wh_tessera_core core = *g;
    const uint32_t lane = wh_lane_id();
    const uint64_t tag = wh_tessera_header_of_(g)->slab_tags[c];
    const uint32_t order = wh_tessera_warp_slab_order_(log2, core.chunk_log2);
    wh_tessera_shard *const own_shard = wh_tessera_shard_at_(core, shard);
    uint32_t random = wh_tessera_random_(), slab = core.n_chunks, begun = 0;
    if (lane == 0) {
        begun = wh_tessera_begin_take_(core, shard); /* P4 */
    }
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_VIEW_TRIES && slab == core.n_chunks; tries++) {
        const uint32_t word = wh_tessera_some_word_(core, wh_tessera_far_(&random));
        const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(core), word));
        const uint32_t at = wh_tessera_fit_(bits, order);
        const wh_mask seen = wh_ballot(WH_FULL_WARP, at < 64);
        if (seen == 0) {
            continue;
        }
        const uint32_t chunk = wh_shfl_u32(WH_FULL_WARP, word << 6 | at, wh_mask_leader(seen));
        wh_tessera_word_claim now = wh_tessera_no_word_claim_(core);
        if (lane == 0 && begun != UINT32_MAX) { /* P4: the claim waits for begun */
            now = wh_tessera_claim_in_word_(core, chunk, 1u << order);
            wh_tessera_put_back_claim_(core, now);
        }
        slab = wh_shfl_u32(WH_FULL_WARP, now.got ? now.chunk : core.n_chunks, 0);
    }
    if (lane == 0) {
        wh_add_u32_relaxed(&own_shard->takes_done,
                           1); /* P4: what has become available is so behind a fence */
        if (slab == core.n_chunks) {
            wh_store_u32_relaxed(&own_shard->skip_home, 1); /* until a span is attached */
        }
    }
    return slab == core.n_chunks
               ? NULL
               : wh_tessera_hand_out_(core, shard, tag, log2, slab, 1u << core.chunk_log2,
                                      wh_tessera_tag_at_(core, 0), wh_tessera_words_of_(core, 0),
                                      wh_tessera_words_log2(core.chunk_log2));
}

/* --- packs ------------------------------------------------------------------------ */

#define WH_TESSERA_PACK_LANES 16u /* a group of as many lanes goes to its cursor, or is `exact` */
#define WH_TESSERA_PACK_LEAST 16u /* granules that a warp has to want */
#define WH_TESSERA_PACK_SMALL 96u /* ... for small requests to be part of the pack: 3 a lane */
#define WH_TESSERA_PACK_TRIES 5u
#define WH_TESSERA_SKIP_PACKS 8u /* packs that skip home, after one found nothing there */

/* Claims chunks for a pack where the shard puts the next one, which `ticket` says. */
WH_FN wh_tessera_word_claim wh_tessera_claim_ticket_(wh_tessera_core g, wh_tessera_shard *own_shard,
                                                     uint32_t shard, uint32_t ticket,
                                                     uint32_t chunks) {
    wh_assert_internal(chunks - 1 < WH_TESSERA_PACK_CHUNKS);
    uint32_t chunk = wh_tessera_pack_home(g, shard, ticket);
    if (!wh_tessera_in_word_(chunk, chunks)) { /* the rest of the word stays */
        ticket = wh_fetch_add_u32_relaxed(&own_shard->pack_ticket, chunks);
        chunk = wh_tessera_pack_home(g, shard, ticket);
        if (!wh_tessera_in_word_(chunk, chunks)) {
            wh_tessera_word_claim none = wh_tessera_no_word_claim_(g);
            none.chunk = chunk;
            none.ticket = ticket;
            return none;
        }
    }
    wh_tessera_word_claim now = wh_tessera_claim_in_word_(g, chunk, chunks);
    now.ticket = ticket;
    return now;
}

/* Claims chunks for a pack: the first; n_chunks: there are none. All lanes of a full warp. Two
 * round trips: the bracket, the number and the hint that says whether it is of use, then the claim.
 * Where the shard puts the next one; if that is taken, the lanes look at a word of the shard's own
 * each, this one and the 31 behind it, and all packs of the shard go on where the first of these
 * has enough; if that is of no use either, they look at words anywhere, and take what one of them
 * has seen. The first try is not part of the loop: what one lane does in a loop, the others do not
 * wait for (the compiler for the GPU lets them go on), and all that follows would be done twice. */
WH_FN uint32_t wh_tessera_claim_pack_(wh_tessera_core g, wh_tessera_shard *own_shard,
                                      uint32_t shard, uint32_t chunks) {
    wh_assert_internal(chunks - 1 < WH_TESSERA_PACK_CHUNKS);
    const uint32_t lane = wh_lane_id();
    wh_tessera_word_claim now = wh_tessera_no_word_claim_(g);
    uint32_t skip_packs = 0, begun = 0;
    if (lane == 0) {
        skip_packs = wh_load_u32_hint(&own_shard->skip_packs); /* on its way meanwhile */
        begun =
            wh_fetch_add_u32_relaxed(&own_shard->takes_begun, WH_PLANT(tessera_p4, 1, 0)); /* P4 */
        const uint32_t ticket =
            wh_fetch_add_u32_relaxed(&own_shard->pack_ticket, chunks); /* at once, too */
        if (skip_packs == 0 && begun != UINT32_MAX) { /* P4: the claim waits for begun */
            now = wh_tessera_claim_ticket_(g, own_shard, shard, ticket, chunks);
        }
        if (now.got) {
            wh_add_u32_relaxed(&own_shard->takes_done, WH_PLANT(tessera_p4, 1, 0)); /* P4 */
        }
    }
    uint32_t found = wh_shfl_u32(WH_FULL_WARP, now.got ? now.chunk : g.n_chunks, 0);
    if (found == g.n_chunks) {
        int is_own = !wh_any(WH_FULL_WARP, skip_packs != 0);
        uint32_t random = wh_tessera_random_();
        WH_NO_UNROLL
        for (uint32_t tries = 0; tries < WH_TESSERA_PACK_TRIES && found == g.n_chunks; tries++) {
            wh_tessera_put_back_claim_(g, now);
            now.back = 0;
            is_own &= tries == 0;
            const uint32_t some = wh_tessera_some_word_(g, wh_tessera_far_(&random));
            const uint32_t at = wh_shfl_u32(WH_FULL_WARP, now.chunk, 0) & 63;
            const uint32_t ticket = wh_shfl_u32(WH_FULL_WARP, now.ticket, 0) - at + 64 * lane;
            const uint32_t word = is_own ? wh_tessera_pack_home(g, shard, ticket) >> 6 : some;
            const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(g), word));
            const uint32_t from = is_own && lane == 0 ? at : 0; /* what comes back is for later */
            const uint64_t starts = wh_tessera_runs_of_(bits, chunks) >> from;
            const wh_mask seen = wh_ballot(WH_FULL_WARP, starts != 0);
            if (seen == 0) {
                skip_packs = is_own ? WH_TESSERA_SKIP_PACKS + 1 : skip_packs;
                continue;
            }
            const uint32_t first = from + (starts != 0 ? wh_ctz64(starts) : 0);
            const uint32_t next = wh_shfl_u32(WH_FULL_WARP, (is_own ? ticket : word << 6) + first,
                                              wh_mask_leader(seen));
            if (lane == 0 && is_own) {
                (void)wh_fetch_max_u32_relaxed(&own_shard->pack_ticket, next);
                now = wh_tessera_claim_ticket_(
                    g, own_shard, shard, wh_fetch_add_u32_relaxed(&own_shard->pack_ticket, chunks),
                    chunks);
            } else if (lane == 0 && begun != UINT32_MAX) { /* P4 */
                now = wh_tessera_claim_in_word_(g, next, chunks);
            }
            found = wh_shfl_u32(WH_FULL_WARP, now.got ? now.chunk : g.n_chunks, 0);
        }
        if (lane == 0) {
            wh_tessera_put_back_claim_(g, now);
            if (skip_packs != 0) {
                wh_store_u32_relaxed(&own_shard->skip_packs, skip_packs - 1);
            }
            /* P4: what has become available is so behind a fence */
            wh_add_u32_relaxed(&own_shard->takes_done, WH_PLANT(tessera_p4, 1, 0));
        }
    }
    return found;
}

/* Blocks of `need` granules, at most half a chunk, for all lanes of a full warp where that is not
 * 0, in a pack that the warp cuts for them: one behind the other, and the last one gets what is
 * left. Each loses half a granule in the mean, which is more than a class of small slots does: who
 * is not `large` takes part only if the warp wants much, and gets NULL else. So do all of them if
 * what is left is too little, or there was no place. Two atomics in a row; waits for nobody. */
WH_FN void *wh_tessera_pack_(wh_tessera_core core, uint32_t chunk_bytes, uint64_t *tags,
                             uint64_t *words, uint32_t words_log2, wh_tessera_shard *own_shard,
                             uint32_t shard, uint32_t need, int large) {
    wh_assert_internal(need <= WH_TESSERA_GRANULES / 2);
    const uint32_t lane = wh_lane_id();
    uint32_t end = wh_scan_add_warp_u32(need); /* with those of the lanes below */
    uint32_t total = wh_shfl_u32(WH_FULL_WARP, end, WH_WARP_SIZE - 1);
    if (total < WH_TESSERA_PACK_SMALL) {
        need = large ? need : 0;
        end = wh_scan_add_warp_u32(need);
        total = wh_shfl_u32(WH_FULL_WARP, end, WH_WARP_SIZE - 1);
        if (total < WH_TESSERA_PACK_LEAST) {
            return NULL;
        }
    }
    const uint32_t start = end - need;
    const uint32_t chunks = (total + WH_TESSERA_GRANULES - 1) / WH_TESSERA_GRANULES;
    const uint32_t pack = wh_tessera_claim_pack_(core, own_shard, shard, chunks);
    /* The first lane in each chunk writes its tag. No chunk is passed over, since no block is
     * longer than half of one. Where blocks start: a sum of different bits, up to and with the lane
     * before the next chunk, less those of the chunks before. */
    const uint32_t chunk = start / WH_TESSERA_GRANULES;
    const uint32_t bit = need != 0 ? 1u << start % WH_TESSERA_GRANULES : 0;
    const uint32_t bits = wh_scan_add_warp_u32(bit);
    const uint32_t before = wh_shfl_u32(WH_FULL_WARP, chunk, (lane - 1) & (WH_WARP_SIZE - 1));
    const wh_mask blocks = wh_ballot(WH_FULL_WARP, need != 0);
    const int is_first = lane == 0 || before != chunk;
    const wh_mask firsts = wh_ballot(WH_FULL_WARP, is_first);
    const wh_mask after = firsts & (0xfffffffeu << lane);
    const uint32_t last = wh_popc32(~after & (after - 1)) - 1; /* before the next first one */
    const uint32_t starts = wh_shfl_u32(WH_FULL_WARP, bits, last) - (bits - bit);
    const uint32_t slots = wh_popc32(blocks);
    if (pack == core.n_chunks) {
        return NULL;
    }
    if (is_first && chunk < chunks) {
        wh_store_u64_relaxed(&tags[pack + chunk], wh_tessera_pack_tag(slots, wh_mask_rank(blocks),
                                                                      chunk, chunks, starts));
    }
    if (lane == WH_WARP_SIZE - 1 && chunk + 1 < chunks) { /* none starts in the last one */
        wh_store_u64_relaxed(&tags[pack + chunk + 1],
                             wh_tessera_pack_tag(slots, slots, chunk + 1, chunks, 0));
    }
    if (lane == 0) { /* it may be all ones: I2 */
        wh_store_u64_relaxed(&words[pack << words_log2], 0);
    }
    return need == 0 ? NULL
                     : core.base + wh_mul_wide_u32(pack, chunk_bytes) +
                           (start << wh_tessera_granule_log2(core.chunk_log2));
}

/* The same for a full warp that wants n bytes a lane, all of one class, and has found no place for
 * all of it: as packs of half of the warp, and if there is no place for these either, of a quarter,
 * since packs of many chunks leave rows of fewer. NULL for lanes that got none. */
WH_FN_SLOW void *wh_tessera_pack_parts_(const wh_tessera_core *g, uint32_t shard, uint64_t n) {
    wh_assert_internal(n != 0);
    const wh_tessera_core core = *g;
    const uint32_t granules = wh_tessera_granules((uint32_t)n, core.chunk_log2);
    void *p = NULL;
    WH_NO_UNROLL
    for (uint32_t part = WH_WARP_SIZE / 2; part >= WH_WARP_SIZE / 4; part /= 2) {
        WH_NO_UNROLL
        for (uint32_t first = 0; first < WH_WARP_SIZE; first += part) {
            const int takes = p == NULL && wh_lane_id() - first < part;
            if (wh_any(WH_FULL_WARP, takes)) {
                void *q = wh_tessera_pack_(
                    core, 1u << core.chunk_log2, wh_tessera_tag_at_(core, 0),
                    wh_tessera_words_of_(core, 0), wh_tessera_words_log2(core.chunk_log2),
                    wh_tessera_shard_at_(core, shard), shard, takes ? granules : 0, takes);
                p = p != NULL ? p : q;
            }
        }
    }
    return p;
}

/* --- single chunks ------------------------------------------------------------------ */

#define WH_TESSERA_MISSES 4u    /* looks of a warp in vain */
#define WH_TESSERA_PACK_MEAN 7u /* granules a lane that packs of one chunk are for */

/* Claims up to `wants` chunks for a full warp, of those that its lanes see in a word each that
 * holds something by the pool's summaries, by one atomic for each word, if they see `least`.
 * Returns the chunk that is number `nth` of those that they got; n_chunks: they got fewer. *random:
 * as in far. P4: begins, if there is something to claim, which is not so for a look in vain: X1
 * needs a moment without a take; the caller ends, if *begun. *misses: of looks in vain, one more;
 * or MISSES, if none of the lanes saw anything. */
WH_FN uint32_t wh_tessera_gather_(wh_tessera_core g, uint32_t shard, uint32_t *random,
                                  uint32_t wants, uint32_t least, uint32_t nth, int *begun,
                                  uint32_t *misses) {
    wh_assert_internal(least != 0 && wants <= least);
    const wh_veb pool = wh_tessera_pool_(g);
    uint32_t along = wh_tessera_far_(random);
    const int tells = wh_lane_id() == *random >> 27; /* the summaries are a few words for all */
    const uint64_t picked = wh_veb_pick_word(pool, &along, tells);
    const uint32_t word = picked != WH_VEB_NONE ? (uint32_t)picked : 0;
    uint64_t bits = picked != WH_VEB_NONE ? wh_load_u64_relaxed(wh_veb_word(pool, word)) : 0;
    if (picked != WH_VEB_NONE && bits == 0 && tells) {
        wh_veb_emptied(pool, word); /* a claim that did not tell the levels above */
    }
    bits = wh_group_leads(wh_group_by_u32(WH_FULL_WARP, word)) ? bits : 0;
    const uint32_t before = wh_scan_add_warp_u32(wh_popc64(bits)) - wh_popc64(bits);
    *begun = wh_any(WH_FULL_WARP, before + wh_popc64(bits) >= least);
    if (!*begun) {
        *misses += wh_any(WH_FULL_WARP, bits != 0) ? 1 : WH_TESSERA_MISSES;
        return g.n_chunks;
    }
    if (wh_lane_id() == 0) {
        (void)wh_tessera_begin_take_(g, shard);
    }
    wh_syncwarp(WH_FULL_WARP); /* P4 */
    uint64_t got = before < wants ? wh_lowest_bits(bits, wants - before) : 0;
    if (got != 0) { /* P3 */
        got &= wh_fetch_and_u64_acquire(wh_veb_word(pool, word), ~got);
    }
    WH_PLANT(tessera_p3_gathered, wh_syncwarp(WH_FULL_WARP),
             (void)0); /* P3: others open slabs of it */
    const uint32_t first = wh_scan_add_warp_u32(wh_popc64(got)) - wh_popc64(got);
    uint32_t chunk = g.n_chunks;
    WH_NO_UNROLL
    for (wh_mask m = wh_ballot(WH_FULL_WARP, got != 0); m != 0; m &= m - 1) {
        const uint32_t of = wh_mask_leader(m);
        const uint64_t its = wh_shfl_u64(WH_FULL_WARP, got, of);
        const uint32_t its_word = wh_shfl_u32(WH_FULL_WARP, word, of);
        const uint32_t at = nth - wh_shfl_u32(WH_FULL_WARP, first, of);
        if (at < wh_popc64(its)) {
            chunk = its_word << 6 | wh_select64(its, at);
        }
    }
    return chunk;
}

/* P4: ends what gather has begun, behind what all lanes have made of it. */
WH_FN void wh_tessera_end_take_all_(wh_tessera_core g, uint32_t shard, int begun) {
    wh_syncwarp(WH_FULL_WARP);
    if (wh_lane_id() == 0 && begun) {
        wh_tessera_end_take_(g, shard);
    }
}

/* Slots for the lanes of a full warp that have no p, all of class c, whose slabs have several
 * chunks: in slabs of one chunk. Free slots that the last one has left go on the partial list. NULL
 * for lanes that got none. */
WH_FN_SLOW void *wh_tessera_gather_slots_(const wh_tessera_core *g, uint32_t shard, uint32_t c,
                                          void *p) {
    wh_assert_internal(c < g->n_classes);
    wh_assert_expensive(wh_tessera_same_(WH_FULL_WARP, c));
    const wh_tessera_core core = *g;
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    const uint64_t tag = wh_tessera_with_shard(wh_tessera_slab_tag(c, 0, cls.slot_size), shard);
    const uint32_t slots = wh_tessera_tag_slots(tag, core.chunk_log2);
    uint32_t random = wh_tessera_random_();
    WH_NO_UNROLL
    for (uint32_t misses = 0; misses < WH_TESSERA_MISSES && wh_any(WH_FULL_WARP, p == NULL);) {
        const wh_mask needy = wh_ballot(WH_FULL_WARP, p == NULL);
        const uint32_t n = wh_popc32(needy), rank = wh_mask_rank(needy);
        const uint32_t wants = (n + slots - 1) / slots;
        int begun;
        const uint32_t chunk = wh_tessera_gather_(core, shard, &random, wants, 2 * wants,
                                                  rank / slots, &begun, &misses);
        const int got = p == NULL && chunk != core.n_chunks;
        if (got) {
            const uint32_t slot = rank % slots, taken = n - (rank - slot);
            p = core.base + ((uint64_t)chunk << core.chunk_log2) + slot * cls.slot_size;
            if (slot == 0) {
                const uint64_t left =
                    taken < slots ? wh_tessera_slot_bits(slots, 0) >> taken << taken : 0;
                wh_tessera_open_slab_(core, c, chunk, tag, left);
            }
        }
        wh_tessera_end_take_all_(core, shard, begun);
    }
    return p;
}

/* Blocks of `need` granules, at most half a chunk, for the lanes of a full warp for which that is
 * not 0, in packs of one chunk each: as many lanes in a row as their blocks fit in. Only for what
 * would be a pack, if there was a place for it, and if the warp sees many chunks, since what a
 * block does not fill of its chunk is waste; and for large blocks, since each loses half a granule
 * in the mean, and where memory is short that counts. NULL for lanes that got none. */
WH_FN_SLOW void *wh_tessera_gather_packs_(const wh_tessera_core *g, uint32_t shard, uint32_t need) {
    wh_assert_internal(need <= WH_TESSERA_GRANULES / 2);
    const uint32_t lane = wh_lane_id();
    const wh_tessera_core core = *g;
    uint32_t random = wh_tessera_random_();
    void *p = NULL;
    const uint32_t wants = wh_reduce_add_u32(WH_FULL_WARP, need);
    if (wants < WH_TESSERA_PACK_LEAST ||
        wants < WH_TESSERA_PACK_MEAN * wh_popc32(wh_ballot(WH_FULL_WARP, need != 0))) {
        return NULL;
    }
    WH_NO_UNROLL
    for (uint32_t misses = 0; misses == 0 && wh_any(WH_FULL_WARP, need != 0);) {
        const uint32_t end = wh_scan_add_warp_u32(need); /* with those of the lanes below */
        const uint32_t total = wh_shfl_u32(WH_FULL_WARP, end, WH_WARP_SIZE - 1);
        uint32_t chunks = 0, base = 0, start = 0, nth = 0;
        wh_mask sharers = 0; /* lanes whose blocks share the caller's chunk */
        WH_NO_UNROLL
        for (; base < total; chunks++) {
            const wh_mask fit = wh_ballot(WH_FULL_WARP, need != 0 && end > base &&
                                                            end - base <= WH_TESSERA_GRANULES);
            if ((fit >> lane & 1) != 0) {
                start = end - need - base;
                nth = chunks;
                sharers = fit;
            }
            base = wh_shfl_u32(WH_FULL_WARP, end, WH_WARP_SIZE - 1 - wh_clz32(fit));
        }
        const uint32_t bit = need != 0 ? 1u << start : 0;
        const uint32_t bits = wh_scan_add_warp_u32(bit); /* mod 2^32, a sum of different bits */
        const uint32_t last = sharers != 0 ? WH_WARP_SIZE - 1 - wh_clz32(sharers) : lane;
        const uint32_t starts = wh_shfl_u32(WH_FULL_WARP, bits, last) - (bits - bit);
        int begun;
        const uint32_t chunk =
            wh_tessera_gather_(core, shard, &random, chunks, 8 * chunks, nth, &begun, &misses);
        const int got = need != 0 && chunk != core.n_chunks;
        if (got) {
            p = core.base + ((uint64_t)chunk << core.chunk_log2) +
                (start << wh_tessera_granule_log2(core.chunk_log2));
            need = 0;
            if (start == 0) {
                wh_store_u64_relaxed(wh_tessera_tag_at_(core, chunk),
                                     wh_tessera_pack_tag(wh_popc32(sharers), 0, 0, 1, starts));
                wh_store_u64_relaxed(wh_tessera_words_of_(core, chunk), 0);
            }
        }
        wh_tessera_end_take_all_(core, shard, begun);
    }
    return p;
}

#include "warpheap/detail/simt/end.h"

#endif

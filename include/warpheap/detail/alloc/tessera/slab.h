/* alloc/tessera/slab.h: words and states of slabs: how claimed chunks become a slab, what follows a
 * free, and how an empty slab goes back. This file may change: it is no part of the API.
 *
 * Word    free, and a lane that gives slots back: fetch_or acq_rel. A taker: cas acq_rel, from
 *         neither 0 nor all ones (I4); in a slab of several words also fetch_and acq_rel, from
 *         whatever is there, between pin and unpin (I5). The owner of an empty slab: store of 0, or
 *         in the pool of all ones (steps.h I2)
 * State   of a slab of several words. The free that makes a word empty: sub. A pinner: cas, then
 *         add. The owner of a claimed chunk: store (P7). EMPTY: no word is used and no lane pins
 *         the slab, or the chunk is no slab of several words
 * List    by or, release; takers remove slabs by and (I6)
 *
 * I4      no lane takes from a word that is all ones, unless it has pinned the slab (I5). So the
 *         lane that makes the word of a slab of one word all ones owns the slab and returns it,
 *         without another atomic. A taker that does not pin changes no word that is empty. The tail
 *         bits, past the last slot, go with the first slot of their word: they are free and taken
 *         together. So all ones is empty whatever class a taker believes the slab to be of, and in
 *         a fresh slab no bit is there to take
 * I5      slab of several words: the lane whose atomic makes its state EMPTY (all words empty, no
 *         pinners) owns the slab and returns it, without another atomic. A taker pins by a cas from
 *         a state that is not EMPTY, so from then on no other lane returns it. A word counts as
 *         used when its taker unpins, as empty when its free has counted it. So without pinners no
 *         more words count as empty than are. A slot of a used word keeps its slab, so a taker of
 *         such a word need not pin (partial.h T1). EMPTY is the same for all classes, as a taker
 *         may pin with the tag of an earlier life
 * I6      when quiet, a slab with a word that is neither 0 nor all ones is on its partial list, a
 *         pack on the list of packs. Two lanes see to it: the free that made the word non-zero, and
 *         the taker that took the slab off the list and looks at its words behind that. The or on
 *         the list releases, the remove acquires. Before that a search may miss the slab, though
 *         the free has returned, but not the search of X1
 *
 * P1      free: fetch_or on the word, release -> the word's taker (cas, fetch_and), or the lane
 *         that made the word empty (fetch_or), acquire; the lane that returns a slab of several
 *         words: through the state, acq_rel
 * P5      list: what level 0 has is there before the levels above are told (core/veb.h P2)
 * P7      a slab's tag is there before bits of it that nobody has freed may be taken (store release
 *         of the word), or takers be let in (a fence before its state loses EMPTY) -> the taker's
 *         atomic on either, acquire, before it reads the tag (partial.h T1, I5)
 *
 * Check   tests/unit/tessera_warps.c, tests/unit/tessera_formal.c (I6), tests/fault/tessera.c (all
 *         but P5, which is core/veb.h's), wh_tessera_check (I4 to I6)
 */
#ifndef WH_ALLOC_TESSERA_SLAB_H
#define WH_ALLOC_TESSERA_SLAB_H

#include "warpheap/detail/alloc/tessera/steps.h"

#include "warpheap/detail/simt/begin.h"

/* I6: the or releases what was freed, for the taker that takes the slab off the list. Only a lane
 * that finds the list's word 0 tells the levels above: these are one word for 4,096 slabs, and a
 * million frees that all tell it take turns. */
WH_FN void wh_tessera_add_partial_(wh_tessera_core g, uint32_t c, uint32_t slab) {
    const wh_veb list = wh_tessera_partial_list_(g, c);
    const uint32_t item = wh_tessera_item(g.n_chunks, slab);
    if (wh_fetch_or_u64_release(wh_veb_word(list, item >> 6), (uint64_t)1 << (item & 63)) == 0) {
        wh_veb_filled(list, item >> 6); /* P5 */
    }
}

/* Makes claimed chunks a slab with this tag, of class c, of whose first word these slots are free
 * (not slot 0: T1) and of the others all. They go on the partial list. */
WH_FN void wh_tessera_open_slab_(wh_tessera_core g, uint32_t c, uint32_t slab, uint64_t tag,
                                 uint64_t rest) {
    wh_assert_internal(wh_tessera_kind(tag) == WH_TESSERA_SLAB && wh_tessera_tag_class(tag) == c);
    wh_assert_internal((slab & (wh_tessera_tag_chunks(tag) - 1)) == 0 && (rest & 1) == 0);
    const uint32_t n_words = (wh_tessera_tag_slots(tag, g.chunk_log2) + 63) >> 6;
    uint64_t *words = wh_tessera_words_of_(g, slab);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < 1u << wh_tessera_tag_order(tag); i++) {
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, slab + i), tag);
    }
    WH_NO_UNROLL
    for (uint32_t k = 0; k < n_words; k++) { /* P3 goes on to the takers of the rest; P7 */
        WH_PLANT(tessera_p7_rest, wh_store_u64_release, wh_store_u64_relaxed)
        (&words[k], k == 0 ? rest : WH_TESSERA_ALL_FREE);
    }
    if (n_words > 1) {
        wh_store_u32_release(wh_tessera_state_at_(g, slab),
                             WH_TESSERA_EMPTY + WH_TESSERA_USED_WORD); /* word 0; P7 */
    }
    if (rest != 0 || n_words > 1) {
        wh_tessera_add_partial_(g, c, slab); /* I6 */
    }
}

/* For assertions: whether all words of a slab are empty (I5); what I2 says of a chunk that comes
 * back to the pool. */
WH_FN int wh_tessera_is_empty_(wh_tessera_core g, uint32_t slab, uint32_t slots) {
    uint64_t all = WH_TESSERA_ALL_FREE;
    for (uint32_t k = 0; 64 * k < slots; k++) {
        all &= wh_load_u64_relaxed(&wh_tessera_words_of_(g, slab)[k]);
    }
    return all == WH_TESSERA_ALL_FREE;
}
/* --- giving back ----------------------------------------------------------------- */

/* I5: the caller's atomic has made empty this slab of several words, a chunk, with so many slots:
 * it goes back to the pool. */
WH_FN void wh_tessera_return_empty_(wh_tessera_core g, uint32_t shard, uint32_t slab,
                                    uint32_t slots) {
    wh_assert_internal(slots > 64);
    wh_assert_expensive(wh_load_u32_relaxed(wh_tessera_state_at_(g, slab)) == WH_TESSERA_EMPTY);
    wh_assert_expensive(wh_tessera_is_empty_(g, slab, slots));
    uint64_t *words = wh_tessera_words_of_(g, slab);
    wh_store_u64_relaxed(wh_tessera_tag_at_(g, slab), WH_TESSERA_FREE); /* I2 */
    WH_NO_UNROLL
    for (uint32_t k = 0; 64 * k < slots; k++) {
        wh_store_u64_relaxed(&words[k], 0); /* I2 */
    }
    wh_tessera_put_chunks_(g, shard, slab, 1);
}

/* A taker pins a slab of several words, if that is what is there. 0: it is shut. I5 */
WH_FN int wh_tessera_pin_(wh_tessera_core g, uint32_t slab) {
    uint32_t *at = wh_tessera_state_at_(g, slab);
    uint32_t state = wh_load_u32_relaxed(at);
    while (WH_PLANT(tessera_i5, state != WH_TESSERA_EMPTY, 1)) {
        const uint32_t seen = WH_PLANT(tessera_p7_pin, wh_cas_u32_acq_rel, wh_cas_u32_relaxed)(
            at, state, state + WH_TESSERA_PINNER); /* P7 */
        if (seen == state) {
            return 1;
        }
        state = seen;
    }
    return 0;
}

/* A pinner unpins the slab, and has taken the first slot of `opened` words (1 or 0). I5: a free
 * that saw the pin has left the slab to the pinner. */
WH_FN void wh_tessera_unpin_(wh_tessera_core g, uint32_t shard, uint32_t slab, uint32_t opened) {
    wh_assert_internal(opened <= 1);
    const uint64_t tag = wh_load_u64_acquire(wh_tessera_tag_at_(g, slab)); /* it stays, till then */
    const uint32_t change = opened * WH_TESSERA_USED_WORD - WH_TESSERA_PINNER;
    const uint32_t state =
        WH_PLANT(tessera_p1_unpin, wh_fetch_add_u32_acq_rel,
                 wh_fetch_add_u32_relaxed)(wh_tessera_state_at_(g, slab), change); /* P1 */
    wh_assert_internal(state >= WH_TESSERA_PINNER && wh_tessera_tag_slots(tag, g.chunk_log2) > 64);
    if (state + change == WH_TESSERA_EMPTY) {
        wh_tessera_return_empty_(g, shard, slab, wh_tessera_tag_slots(tag, g.chunk_log2));
    }
}

/* What follows a fetch_or that freed slots of a slab's word: `first` if none of its slots was free
 * before (tail bits do not count: T1), empty if all bits are 1 now. The slab goes back to the pool,
 * or goes on the partial list. Who is not the first does not wait for the first to put it there,
 * since the words are what counts (X1). states: of all chunks. each, a constant: the lanes of a
 * part of a warp, each for itself. */
WH_FN void wh_tessera_freed_(wh_tessera_core g, uint32_t *states, uint32_t shard, uint32_t slab,
                             uint64_t tag, uint32_t slots, int first, int empty, int each) {
    wh_assert_internal(slots == wh_tessera_tag_slots(tag, g.chunk_log2));
    if (empty) {
        if (slots <= 64) { /* I4 */
            wh_tessera_put_chunks_(g, shard, slab, wh_tessera_tag_chunks(tag));
            return;
        }
        const uint32_t state =
            WH_PLANT(tessera_p1_state, wh_fetch_add_u32_acq_rel,
                     wh_fetch_add_u32_relaxed)(&states[slab], 0 - WH_TESSERA_USED_WORD); /* P1 */
        wh_assert_internal((state & 0xffff) + 16 - WH_TESSERA_EMPTY <= 32); /* of 16 words */
        if (state - WH_TESSERA_USED_WORD == WH_TESSERA_EMPTY) {             /* I5 */
            wh_tessera_return_empty_(g, shard, slab, slots);
            return;
        }
    }
    if (first) { /* I6 */
        wh_tessera_add_partial_(g, wh_tessera_list_of(g, tag), slab);
    }
    uint32_t *frees = &wh_tessera_shard_at_(g, shard)->frees;
    if (!each) {
        WH_PLANT(tessera_x2_free, wh_add_u32_relaxed(frees, 1), (void)0); /* X2, P6 */
    } else { /* once for all that are here */
        const wh_mask here = wh_activemask();
        wh_syncwarp(here); /* P6 for what the others have freed */
        if (wh_lane_id() == wh_mask_leader(here)) {
            WH_PLANT(tessera_x2_free, wh_add_u32_relaxed(frees, 1), (void)0); /* X2, P6 */
        }
        wh_syncwarp(here); /* X2: none returns before */
    }
}

/* Gives bits of word i of a slab back: their slots become free. As a function, and inline. */
WH_FN void wh_tessera_give_here_(wh_tessera_core g, uint32_t shard, uint32_t slab, uint64_t tag,
                                 uint32_t i, uint64_t bits) {
    wh_assert_internal(wh_tessera_kind(tag) == WH_TESSERA_SLAB || wh_tessera_is_pack(tag));
    const uint64_t old = wh_fetch_or_u64_acq_rel(&wh_tessera_words_of_(g, slab)[i], bits); /* P1 */
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    wh_tessera_freed_(g, wh_tessera_state_at_(g, 0), shard, slab, tag, slots,
                      (old & ~wh_tessera_tail_bits(slots, i)) == 0,
                      (old | bits) == WH_TESSERA_ALL_FREE, 0);
}

WH_FN_SLOW void wh_tessera_give_(wh_tessera_core g, uint32_t shard, uint32_t slab, uint64_t tag,
                                 uint32_t i, uint64_t bits) {
    wh_tessera_give_here_(g, shard, slab, tag, i, bits);
}

#include "warpheap/detail/simt/end.h"

#endif

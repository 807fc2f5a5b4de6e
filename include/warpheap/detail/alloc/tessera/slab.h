/* alloc/tessera/slab.h: words and states of slabs, and partial lists: how claimed chunks become a
 * slab, how free slots are given and taken, and how an empty slab goes back. This file may change:
 * it is no part of the API.
 *
 * Word    the owner of claimed chunks: store of 0 (cursor.h P2). free, and a lane that closes a
 *         cursor: fetch_or acq_rel, of the class, too. A taker: cas acquire, from a word of its
 *         class with free slots. Who retires an empty slab: cas acq_rel to GONE, or if it has
 *         several words an exchange of each, acquire, behind a cas of the state. A full warp that
 *         frees all 32 slots of a slab of which none is free: cas relaxed, 0 to GONE
 * State   of a slab of several words: fetch_add acquire, fetch_sub relaxed, of whoever changes a
 *         word to or from all free; cas acquire, behind a fence (P4), to RETIRING
 * List    by or, relaxed; searches remove slabs by and (I6)
 *
 * I1      a slot is in exactly one hand: a caller's, a cursor's (position <= slot), a 1 in its
 *         word, or with the whole slab in the pool or in transit
 * I3      the tag of a chunk does not change while any of its slots is in a caller's hand. So free
 *         may trust it, whatever order its load has
 * I4      a word names its class, and a taker's cas expects that. So nobody takes a slot of a slab
 *         that has become one of another class, and no slot has to be given back. All words of a
 *         slab that has been retired are GONE, so a second free of one of its slots, which has read
 *         the tag before, is told from the first one of a slab that is new
 * I5      state = words that are all free, when quiet; else it may be less, and no more. A taker of
 *         a word that is all free uncounts it before it takes. If it does not get such a word after
 *         all it owes the state that one, and counts it again. Who frees the last slot of a word
 *         counts it behind that. Who changes the state from the number of the slab's words to
 *         RETIRING, and then finds the tag by which it knew that number, owns the slab; if it finds
 *         another tag it takes RETIRING back. A taker that finds RETIRING takes nothing. An empty
 *         slab of one word belongs to whose cas changes it to GONE
 * I6      when no take is under way, a slab with free slots whose free has returned is on the list
 *         of its class. A cursor's slabs get there with their span. A free looks there behind its
 *         word's fetch_or, and adds the slab if it is not there, unless it has itself returned the
 *         slab to the pool. A search that finds no free slot in a slab removes it, looks at all its
 *         words again by atomics, and adds the slab again if there is one: so of a free and a
 *         removal one sees the other
 *
 * P1      free: fetch_or on the word, release -> the word's taker, or who retires the slab,
 *         atomic, acquire
 * P5      list: what level 0 has is there before the levels above are told (core/veb.h P2)
 * P7      a slab's tag is there before a word names its class: who frees or closes has its slots by
 *         cursor.h P2, or has stored the tag with its warp; its fetch_or of the word, release ->
 *         the taker's cas, acquire. So malloc's caller may trust the tag (I3)
 * P9      the removal of a slab -> a search's atomic on the word, release -> a free's fetch_or on
 *         the word, acquire -> its load of the list: so a free whose slot the search has not seen
 *         sees the removal
 * P10     a slab's tag is there before one of its words is counted -> who counts or retires,
 *         acquire, then its load of the tag: that is the tag of the slab whose state it has
 *         changed, or a later one. (Counts do not release: it rests on atomics being made in the
 *         L2, as steps.h P6)
 *
 * Progress  a taker's cas fails if another one's, or a free, has succeeded. Who retires a slab
 *         waits for nobody
 *
 * Check   tests/conform, tests/stress, tests/fault, wh_tessera_check (I1, I5, I6)
 */
#ifndef WH_ALLOC_TESSERA_SLAB_H
#define WH_ALLOC_TESSERA_SLAB_H

#include "warpheap/detail/alloc/tessera/steps.h"

#include "warpheap/detail/simt/begin.h"

/* --- partial lists ------------------------------------------------------------------- */

/* Adds slabs of one word of the list. Only a lane that finds that word 0 tells the levels above:
 * these are one word for 4,096 slabs, and a million frees that all tell it take turns. */
WH_FN void wh_tessera_add_slabs_(wh_tessera_core g, uint32_t c, uint32_t w, uint64_t slabs) {
    const wh_veb list = wh_tessera_partial_list_(g, c);
    if (wh_fetch_or_u64_relaxed(wh_veb_word(list, w), slabs) == 0) {
        wh_veb_filled(list, w); /* P5 */
    }
}
WH_FN void wh_tessera_add_partial_(wh_tessera_core g, uint32_t c, uint32_t slab) {
    wh_tessera_add_slabs_(g, c, slab >> 6, (uint64_t)1 << (slab & 63));
}

/* I6, P9: whether a lane that has made slots of the slab free has to add it. */
WH_FN int wh_tessera_is_unlisted_(wh_tessera_core g, uint32_t c, uint32_t slab) {
    const uint64_t *at = wh_veb_word(wh_tessera_partial_list_(g, c), slab >> 6);
    return WH_PLANT(tessera_i6_free, (wh_load_u64_relaxed(at) >> (slab & 63) & 1) == 0, 0);
}

/* I6, P9: the slab seems to have no free slot of class c. */
WH_FN void wh_tessera_remove_partial_(wh_tessera_core g, wh_tessera_shard *own, uint32_t c,
                                      uint32_t n_words, uint32_t slab) {
    uint64_t *words = wh_tessera_words_of_(g, slab);
    uint64_t free = 0;
    wh_tessera_begin_take_(own);
    (void)wh_veb_remove(wh_tessera_partial_list_(g, c), slab); /* P4 */
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n_words; i++) {
        free |=
            wh_tessera_free_slots(WH_PLANT(tessera_p9_look, wh_fetch_or_u64_acq_rel(&words[i], 0),
                                           wh_load_u64_relaxed(&words[i])),
                                  c);
    }
    if (WH_PLANT(tessera_i6, free != 0, 0)) {
        wh_tessera_add_partial_(g, c, slab);
    }
    wh_tessera_end_take_(own);
}

/* --- empty slabs ---------------------------------------------------------------------- */

/* A slab of class c that the caller has taken all of, or several in a row, go back to the pool, and
 * off their list, if a free that adds one late does not bring it back there: then a search removes
 * it. */
WH_FN void wh_tessera_return_slabs_(wh_tessera_core g, wh_tessera_shard *own, uint32_t c,
                                    uint32_t slab, uint32_t chunks) {
    const int in_word = (slab & 63) + chunks <= 64;
    const uint64_t bits =
        in_word ? wh_tessera_chunk_mask_(slab, chunks) : (uint64_t)1 << (slab & 63);
    /* The levels above stay as they are: a search clears them. */
    (void)wh_fetch_and_u64_relaxed(wh_veb_word(wh_tessera_partial_list_(g, c), slab >> 6), ~bits);
    if (in_word) {
        wh_tessera_put_chunks_(g, own, slab, chunks);
    } else { /* of a large class */
        wh_veb_insert_range(wh_tessera_pool_(g), slab, chunks);
        wh_add_u32_relaxed(&own->events, 1); /* P6 */
    }
    if (c >= WH_TESSERA_SMALL) {
        wh_tessera_lower_run_next_(g, slab, chunks);
    }
}

/* Chunks of slabs that the caller has taken all of are none's, before they go into the pool (P3): a
 * second free that found the tag of a chunk behind a slab's first one would take for its slab what
 * has become of the first. */
WH_FN void wh_tessera_forget_(wh_tessera_core g, uint32_t chunk, uint32_t n) {
    WH_NO_UNROLL
    for (uint32_t k = 0; k < n; k++) {
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, chunk + k), WH_TESSERA_FREE);
    }
}

/* The one word of a slab with this tag is all free: who still finds it so returns the slab. 1: it
 * was the caller. */
WH_FN_SLOW int wh_tessera_retire_one_(const wh_tessera_core *ref, uint32_t shard, uint32_t slab,
                                      uint64_t tag) {
    const wh_tessera_core g = *ref;
    wh_tessera_shard *own = wh_tessera_shard_at_(g, shard);
    uint64_t *at = wh_tessera_words_of_(g, slab);
    const uint64_t empty = wh_tessera_word_of(wh_tessera_tag_class(tag)) |
                           wh_tessera_all_slots(wh_tessera_tag_slots(tag, g.chunk_log2), 0);
    wh_tessera_begin_take_(own);
    const int all = WH_PLANT(tessera_p1_retire, wh_cas_u64_acq_rel,
                             wh_cas_u64_relaxed)(at, empty, WH_TESSERA_GONE) == empty; /* P1, P4 */
    if (all) {
        const uint32_t chunks = wh_tessera_tag_chunks(tag);
        wh_tessera_forget_(g, slab + 1, chunks - 1);
        wh_tessera_return_slabs_(g, own, wh_tessera_tag_class(tag), slab, chunks);
    }
    wh_tessera_end_take_(own);
    return all;
}

/* I5: counts a word of a slab of several: it has become all free, or the caller owes it. By then
 * the chunk may be of another slab, or of none: what it is says its tag, read behind the count, and
 * again behind the cas, from when on it stays (P10). 1: the slab went back. */
WH_FN_SLOW int wh_tessera_emptied_(const wh_tessera_core *ref, uint32_t shard, uint32_t slab) {
    uint32_t *state = wh_tessera_state_at_(*ref, slab);
    uint64_t *at = wh_tessera_tag_at_(*ref, slab), tag;
    wh_tessera_shard *own = wh_tessera_shard_at_(*ref, shard);
    uint32_t n,
        now = WH_PLANT_ORDER(tessera_p10_count, wh_fetch_add_u32, acquire)(state, 1) + 1; /* P10 */
    WH_NO_UNROLL
    for (;;) {
        if (now < 2) {
            return 0;
        }
        tag = wh_load_u64_relaxed(at);
        n = wh_tessera_words_for(wh_tessera_tag_slots(tag, ref->chunk_log2));
        if (wh_tessera_kind(tag) != WH_TESSERA_SLAB || now != n) {
            return 0;
        }
        wh_tessera_begin_take_(own);
        WH_PLANT(tessera_p4_words, wh_fence(), (void)0);                  /* P4 */
        if (wh_cas_u32_acquire(state, n, n + WH_TESSERA_RETIRING) != n) { /* P10 */
            wh_tessera_end_take_(own);
            return 0;
        }
        if (WH_PLANT(tessera_i5_tag, wh_load_u64_relaxed(at) == tag, 1)) { /* I5, P10 */
            break;                                                         /* it is the caller's */
        }
        /* Who has counted meanwhile has left it to the caller. */
        now = wh_fetch_sub_u32_acquire(state, WH_TESSERA_RETIRING) - WH_TESSERA_RETIRING;
        wh_tessera_end_take_(own);
    }
    const wh_tessera_core g = *ref;
    uint64_t *words = wh_tessera_words_of_(g, slab);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        (void)WH_PLANT_ORDER(tessera_p1_words, wh_exchange_u64,
                             acquire)(&words[i], WH_TESSERA_GONE); /* P1, I4 */
    }
    wh_store_u64_relaxed(at, WH_TESSERA_FREE);
    (void)wh_fetch_sub_u32_relaxed(state, n + WH_TESSERA_RETIRING);
    wh_tessera_return_slabs_(g, own, wh_tessera_tag_class(tag), slab, 1);
    wh_tessera_end_take_(own);
    return 1;
}

/* --- slots ---------------------------------------------------------------------------- */

/* Whether a fetch_or of `bits` that returned `old`, of word i of a slab, made all its slots free.
 */
WH_FN int wh_tessera_is_empty_(wh_tessera_core g, uint64_t tag, uint32_t i, uint64_t old,
                               uint64_t bits) {
    return ((old | bits) & WH_TESSERA_SLOT_BITS) ==
           wh_tessera_all_slots(wh_tessera_tag_slots(tag, g.chunk_log2), i);
}

/* What follows such a fetch_or: the slab goes back to the pool, or gets on its list. I5, I6 */
WH_FN_LINKED_FREE(void, wh_tessera_freed_,
                  (const wh_tessera_core *g, uint32_t shard, uint32_t slab, uint64_t tag,
                   uint32_t i, uint64_t old, uint64_t bits)) {
    if (wh_tessera_is_empty_(*g, tag, i, old, bits)) {
        const int gone = wh_tessera_tag_slots(tag, g->chunk_log2) > WH_TESSERA_WORD_SLOTS
                             ? wh_tessera_emptied_(g, shard, slab)
                             : wh_tessera_retire_one_(g, shard, slab, tag);
        if (WH_PLANT(tessera_i6_late, gone, 1)) { /* else a taker has come first */
            return;
        }
    }
    if (wh_tessera_is_unlisted_(*g, wh_tessera_tag_class(tag), slab)) {
        wh_tessera_add_partial_(*g, wh_tessera_tag_class(tag), slab);
    }
}

/* The lowest n of these bits from bit `from` on, and of those below it what is lacking. */
WH_HD uint64_t wh_tessera_choose_(uint64_t bits, uint32_t from, uint32_t n) {
    if (wh_popc64(bits) <= n) {
        return bits;
    }
    const uint64_t above = bits & ~(uint64_t)0 << from;
    const uint32_t k = wh_popc64(above);
    if (k > n) {
        return above & (((uint64_t)1 << wh_select64(above, n)) - 1);
    }
    const uint64_t below = bits & ~above;
    return above | (n == k ? 0 : below & (((uint64_t)1 << wh_select64(below, n - k)) - 1));
}

#define WH_TESSERA_TAKE_TRIES 3u

/* Up to n slots of word i of a slab, if it is of class c: their bits. I4. *owes: the state has been
 * uncounted once too often, bits or none, and the caller calls emptied_ for the slab (I5). One debt
 * is enough for all tries: while it stands nobody retires the slab. */
WH_FN uint64_t wh_tessera_take_slots_(const wh_tessera_core *ref, uint32_t c, uint32_t slots,
                                      uint32_t slab, uint32_t i, uint32_t n, uint32_t seed,
                                      int *owes) {
    const wh_tessera_core g = *ref;
    uint64_t *at = wh_tessera_words_of_(g, slab) + i;
    uint64_t word = wh_load_u64_relaxed(at);
    *owes = 0;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_TAKE_TRIES; tries++) {
        const uint64_t free = wh_tessera_free_slots(word, c);
        if (free == 0) {
            return 0;
        }
        const uint64_t bits =
            wh_tessera_choose_(free, (seed & 0xffff) * WH_TESSERA_WORD_SLOTS >> 16, n);
        const int first = slots > WH_TESSERA_WORD_SLOTS && free == wh_tessera_all_slots(slots, i);
        if (first && !*owes) { /* I5 */
            const uint32_t state = wh_fetch_sub_u32_relaxed(wh_tessera_state_at_(g, slab), 1);
            *owes = 1;
            if (WH_PLANT(tessera_i5, wh_tessera_is_retiring(state), 0)) {
                return 0;
            }
        }
        const uint64_t seen = WH_PLANT(tessera_p1_take, wh_cas_u64_acquire,
                                       wh_cas_u64_relaxed)(at, word, word & ~bits); /* P1, P7 */
        if (seen == word) {
            *owes = *owes && !first;
            return bits;
        }
        word = seen;
    }
    return 0;
}

/* Slots of word i of a slab that were a cursor's become free. In a take. */
WH_FN void wh_tessera_give_slots_(const wh_tessera_core *ref, uint32_t shard, uint32_t slab,
                                  uint64_t tag, uint32_t i, uint64_t bits) {
    const uint64_t old = WH_PLANT_ORDER(tessera_p1_give, wh_fetch_or_u64, acq_rel)(
        wh_tessera_words_of_(*ref, slab) + i,
        bits | wh_tessera_word_of(wh_tessera_tag_class(tag))); /* P1, P7, P9 */
    wh_tessera_freed_(ref, shard, slab, tag, i, old, bits);
}

/* Slots from `from` on of a slab of a cursor, which nobody has used, become free. All of them: the
 * slab goes back to the pool, as it is. In a take. */
WH_FN void wh_tessera_give_rest_(const wh_tessera_core *ref, uint32_t shard, uint32_t slab,
                                 uint32_t from) {
    const wh_tessera_core g = *ref;
    const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, slab));
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    if (from == 0) {
        wh_tessera_forget_(g, slab, wh_tessera_tag_chunks(tag));
        wh_tessera_return_slabs_(g, wh_tessera_shard_at_(g, shard), wh_tessera_tag_class(tag), slab,
                                 wh_tessera_tag_chunks(tag));
        return;
    }
    WH_NO_UNROLL
    for (uint32_t i = from / WH_TESSERA_WORD_SLOTS; i < wh_tessera_words_for(slots); i++) {
        uint64_t bits = wh_tessera_all_slots(slots, i);
        if (i * WH_TESSERA_WORD_SLOTS < from) {
            bits &= ~(uint64_t)0 << (from - i * WH_TESSERA_WORD_SLOTS);
        }
        wh_tessera_give_slots_(ref, shard, slab, tag, i, bits);
    }
}

/* What a lane's group has given back is no slab's, or was free before. */
WH_FN int wh_tessera_freed_well_(wh_tessera_shard *own, uint64_t *at, uint64_t tag, uint64_t old,
                                 uint64_t bits, uint32_t twice) {
    const uint32_t of = wh_tessera_word_class1(old);
    const int is_slab = of == 0 || of == wh_tessera_tag_class(tag) + 1;
    const uint64_t bad = is_slab ? bits & old : bits;
    if (bad == 0 && twice == 0) {
        return 1;
    }
    wh_tessera_bad_free_(own, twice + wh_popc64(bad));
    if (!is_slab && !wh_tessera_is_gone(old)) { /* nobody takes slots of one that is */
        (void)wh_fetch_and_u64_relaxed(at, ~bits);
    }
    return is_slab && (bits & ~old) != 0;
}

#include "warpheap/detail/simt/end.h"

#endif

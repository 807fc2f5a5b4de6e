/* alloc/tessera/partial.h: what can be had without a span: free slots of partial slabs, small
 * slabs, what other cursors have left, and free blocks of packs. This file may change: it is no
 * part of the API.
 *
 * T1      claim, then validate: a taker that has not pinned the slab reads the tag again after its
 *         cas. What it holds keeps the slab (tag.h I3). If the slab has become another class's, the
 *         taker gives back the bits it took. Some of these may be tail bits; then the first slot of
 *         that word is not to be had meanwhile. The taker sees the new tag: a bit that it took from
 *         a word that was 0 when the tag was stored has been freed since (slab.h P1). The taker of
 *         a pack's block then looks again where that slot's block lies, and whether it is large
 *         enough
 *
 * Progress  a taker of a slot tries a few words. A taker of a block comes again only if its word
 *         has changed under it. Full warps look again only if they got some, but for four looks in
 *         vain, or two if they are of several classes
 * Check   tests/unit/tessera_partial.c (slab.h I6, search.h X3), tests/unit/tessera_packs.c (T1),
 *         tests/unit/tessera_warps.c (T1: late takers), tests/fault/tessera.c (T1)
 */
#ifndef WH_ALLOC_TESSERA_LISTED_H
#define WH_ALLOC_TESSERA_LISTED_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tessera/spans.h"

#include "warpheap/detail/simt/begin.h"

/* Where the caller notes what slab of class c it took slots of. */
WH_FN uint32_t *wh_tessera_reuse_at_(wh_tessera_shard *own_shard, uint32_t c) {
    wh_assert_internal(c < WH_TESSERA_CLASSES);
    const uint32_t id = (uint32_t)wh_thread_id();
    return &own_shard->cursors[c].reuse[(id + id / 32) % WH_TESSERA_REUSES];
}

/* Which of these slots of a word, which has been seen as w, r lanes may take: a lane alone some
 * one, by its seed, so that takers seldom meet; else the lowest ones. T1: not the first one without
 * all the tail bits. */
WH_FN uint64_t wh_tessera_choose_(uint64_t w, uint32_t slots, uint32_t i, uint32_t r,
                                  uint32_t seed) {
    wh_assert_internal(r - 1 < 64 && 64 * i < slots);
    const uint64_t tail = wh_tessera_tail_bits(slots, i);
    const int has_tail = WH_PLANT(tessera_t1_past, (w & tail) == tail, 1); /* T1 */
    w &= wh_tessera_slot_bits(slots, i) & (has_tail ? ~(uint64_t)0 : ~(uint64_t)1);
    if (w == 0) {
        return 0;
    }
    if (r == 1) {
        return (uint64_t)1 << wh_select64(w, wh_tessera_pick_(seed, wh_popc64(w)));
    }
    return wh_lowest_bits(w, r);
}

/* Takes up to r free slots of a slab of several words, one of these: from one word on, another one
 * for each warp. *opened: it has taken the first slot of that word (I5). *more: it leaves some
 * there, maybe, if only a first one that is not to be had now (T1). Between pin and unpin. */
WH_FN wh_tessera_grant wh_tessera_take_wide_(wh_tessera_core g, uint32_t shard, uint32_t slab,
                                             uint64_t tag, uint32_t slots, uint32_t r,
                                             uint32_t *opened, int *more) {
    wh_assert_internal(slots > 64 && r != 0);
    wh_assert_expensive(wh_load_u32_relaxed(wh_tessera_state_at_(g, slab)) >= WH_TESSERA_PINNER);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    uint64_t *words = wh_tessera_words_of_(g, slab);
    const uint32_t n_words = (slots + 63) >> 6;
    const uint32_t seed = wh_spread32((uint32_t)wh_thread_id());
    uint32_t k = wh_tessera_pick_(seed >> 16, n_words);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n_words && grant.bits == 0; i++) {
        const uint64_t tail = wh_tessera_tail_bits(slots, k);
        uint64_t w = wh_load_u64_relaxed(&words[k]);
        uint64_t bits = wh_tessera_choose_(w, slots, k, r, seed);
        WH_NO_UNROLL
        while (grant.bits == 0 && bits != 0) {
            const uint64_t all = wh_tessera_with_tail(bits, tail);
            const uint64_t old = WH_PLANT(tessera_p1_wide, wh_fetch_and_u64_acq_rel,
                                          wh_fetch_and_u64_relaxed)(&words[k], ~all); /* P1 */
            /* what is had together, or not at all */
            const uint64_t ends = tail != 0 && (all & 1) != 0 ? tail | 1 : 0;
            uint64_t got = old & bits;
            if (WH_PLANT(tessera_t1_ends, (old & ends) != ends, 0)) { /* T1 */
                got &= ~(uint64_t)1;
                if (WH_PLANT(tessera_x2_nothing, (old & ends) != 0, 1)) { /* X2: else no free */
                    wh_tessera_give_(g, shard, slab, tag, k, old & ends);
                }
            }
            if (got != 0) {
                grant =
                    wh_tessera_make_grant_((uint64_t)(words + k - wh_tessera_words_of_(g, 0)), got);
                *opened = old == WH_TESSERA_ALL_FREE;
            }
            w = old & ~all;
            bits = wh_tessera_choose_(w, slots, k, r, seed);
        }
        *more |= grant.bits != 0 || (w & wh_tessera_slot_bits(slots, k)) != 0;
        k = k + 1 < n_words ? k + 1 : 0;
    }
    return grant;
}

/* Takes up to r free slots of a slab that is or was on the list of class c; `off`: the caller has
 * taken it off, and it is put back if it may have more. */
WH_FN wh_tessera_grant wh_tessera_take_from_(wh_tessera_core g, uint32_t shard, uint32_t c,
                                             uint32_t slab, uint32_t r, int off) {
    wh_assert_internal(c < g.n_classes && r != 0);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    uint64_t *tag_at = wh_tessera_tag_at_(g, slab);
    const uint64_t tag = wh_load_u64_acquire(tag_at);
    if (wh_tessera_kind(tag) != WH_TESSERA_SLAB || wh_tessera_tag_class(tag) != c ||
        (slab & ((1u << wh_tessera_tag_order(tag)) - 1)) != 0) {
        return grant; /* on the list since an earlier life */
    }
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    const uint64_t tail = wh_tessera_tail_bits(slots, 0);
    uint64_t *word = wh_tessera_words_of_(g, slab);
    uint32_t opened = 0;
    int more = 0; /* slots in it, maybe */
    if (slots > 64) {
        if (!wh_tessera_pin_(g, slab)) {
            return grant;
        }
        if (wh_load_u64_acquire(tag_at) == tag) { /* of this life */
            grant = wh_tessera_take_wide_(g, shard, slab, tag, slots, r, &opened, &more);
        }
    } else {
        const uint64_t mask = wh_tessera_slot_bits(slots, 0);
        uint64_t w = wh_load_u64_relaxed(word);
        while (grant.bits == 0 && WH_PLANT(tessera_i4, w != WH_TESSERA_ALL_FREE, 1)) { /* I4 */
            const uint64_t bits =
                wh_tessera_choose_(w, slots, 0, r, wh_spread32((uint32_t)wh_thread_id()));
            if (bits == 0) {
                break;
            }
            const uint64_t rest = w & ~wh_tessera_with_tail(bits, tail);
            const uint64_t seen = wh_cas_u64_acq_rel(word, w, rest); /* P1 */
            if (seen == w) {
                grant = wh_tessera_make_grant_((uint64_t)(word - wh_tessera_words_of_(g, 0)), bits);
                w = rest;
            } else {
                w = seen;
            }
        }
        more = w != ~(uint64_t)0 && (w & mask) != 0;
    }
    if (off && WH_PLANT(tessera_i6, more, 0)) {
        wh_tessera_add_partial_(g, c, slab); /* I6 */
    }
    if (off && more) { /* where the next taker looks first */
        wh_store_u32_relaxed(wh_tessera_reuse_at_(wh_tessera_shard_at_(g, shard), c), slab + 1);
    }
    if (slots > 64) {
        wh_tessera_unpin_(g, shard, slab, opened);
    } else if (grant.bits != 0 &&
               WH_PLANT(tessera_t1, wh_load_u64_acquire(tag_at) != tag, 0)) { /* T1 */
        wh_tessera_give_(g, shard, slab, wh_load_u64_acquire(tag_at), 0,
                         wh_tessera_with_tail(grant.bits, tail));
        grant.bits = 0;
    }
    return grant;
}

/* Up to r slots of any partial slab of class c, of which it looks at `most`. Slabs found to have
 * none leave the list. It ends early when a search for all begins (X3). */
WH_FN_SLOW wh_tessera_grant wh_tessera_take_partial_(const wh_tessera_core *g, uint32_t shard,
                                                     uint32_t c, uint32_t r, uint32_t most) {
    wh_assert_internal(c < g->n_classes && r != 0);
    const wh_veb list = wh_tessera_partial_list_(*g, c);
    const uint32_t *lock = &wh_tessera_header_of_(g)->search_lock;
    uint32_t *reuse_at = wh_tessera_reuse_at_(wh_tessera_shard_at_(*g, shard), c);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    /* P4; every take starts elsewhere, at some word that has items, so that takers seldom meet */
    const uint32_t ticket = wh_tessera_begin_take_(*g, shard);
    const uint32_t reuse = wh_load_u32_relaxed(reuse_at);
    if (reuse != 0) {
        grant = wh_tessera_take_from_(*g, shard, c, reuse - 1, r, 0);
        if (grant.bits == 0) {
            wh_store_u32_relaxed(reuse_at, 0);
        }
    }
    uint32_t at = wh_spread32(ticket * 256u + shard);
    const uint64_t word = grant.bits == 0 ? wh_veb_pick_word(list, &at, 1) : WH_VEB_NONE;
    const uint64_t start = word != WH_VEB_NONE ? word << 6 | at >> 26 : 0;
    int wrapped = 0;
    WH_NO_UNROLL
    for (uint64_t x = start; grant.bits == 0 && most != 0; x++) {
        const uint32_t locked = wh_load_u32_relaxed(lock); /* on its way meanwhile */
        x = wh_veb_successor(list, x);
        if (locked != 0) {
            break;
        }
        if (x == WH_VEB_NONE || (wrapped && x >= start)) {
            if (wrapped) {
                wh_veb_settle(list, 0);
                break;
            }
            wh_veb_settle(list, start);
            wrapped = 1;
            x = UINT64_MAX; /* from 0 */
        } else {
            most--;
            if (wh_veb_remove(list, x)) {
                grant = wh_tessera_take_from_(*g, shard, c,
                                              wh_tessera_slab_of(g->n_chunks, (uint32_t)x), r, 1);
            }
        }
    }
    wh_tessera_end_take_(*g, shard);
    return grant;
}

#define WH_TESSERA_EACH_TRIES 4u   /* looks of a lane alone; a full warp's in vain */
#define WH_TESSERA_GROUP_MISSES 2u /* looks in vain of a group of a full warp */
#define WH_TESSERA_HINT_LEAST 8u   /* free slots of a word that a hint leads to */
#define WH_TESSERA_GROUP_LOOKS 8u  /* about as many as a group makes in a row */
#define WH_TESSERA_POOL_TURN 31u   /* a mask: one warp in so many looks at the pool, too */

/* Whether slots of class c may be on the partial list, for a lane with this hint, and may be taken:
 * not while others search for all (X3). */
WH_FN int wh_tessera_may_take_partial_(wh_tessera_core g, uint32_t c, uint32_t hint) {
    wh_assert_internal(c < g.n_classes);
    const wh_veb list = wh_tessera_partial_list_(g, c);
    const uint32_t lock = wh_load_u32_relaxed(&wh_tessera_header_(g)->search_lock);
    const uint64_t any_partial = wh_load_u64_relaxed(wh_veb_word(list, wh_veb_words(list.n) - 1));
    return lock == 0 && (hint != 0 || any_partial != 0);
}

/* What a taker has seen of a partial slab. */
typedef struct wh_tessera_word_view {
    uint32_t slab;
    uint32_t slots, at; /* of the slab; which of its words this is */
    uint64_t tag, w;    /* a word that is neither full nor empty; 0: there is none */
    int any;            /* free slots in the slab, maybe */
    int gone;           /* the slab has gone to the pool, or is on its way there */
} wh_tessera_word_view;

/* A look at the slab that a hint says, or at the one so far along the list of class c, `at` of 2^32
 * (spread_), whose slabs have up to n_words words. */
WH_FN wh_tessera_word_view wh_tessera_view_word_(wh_tessera_core g, uint32_t c, uint32_t n_words,
                                                 uint32_t hint, uint32_t at) {
    wh_assert_internal(n_words - 1 < 16 && hint <= g.n_chunks);
    const wh_veb list = wh_tessera_partial_list_(g, c);
    wh_tessera_word_view view;
    view.slab = hint - 1;
    view.slots = view.at = 0;
    view.tag = view.w = 0;
    view.any = 1;
    view.gone = 0;
    if (hint == 0) {
        const uint64_t x = wh_veb_pick(list, &at, 1);
        if (x == WH_VEB_NONE) {
            return view;
        }
        view.slab = wh_tessera_slab_of(g.n_chunks, (uint32_t)x);
    }
    const uint64_t *words = wh_tessera_words_of_(g, view.slab);
    view.tag = wh_load_u64_acquire(wh_tessera_tag_at_(g, view.slab));
    view.slots = wh_tessera_tag_slots(view.tag, g.chunk_log2);
    view.any = 0;
    if (wh_tessera_kind(view.tag) != WH_TESSERA_SLAB || wh_tessera_tag_class(view.tag) != c ||
        (view.slab & ((1u << wh_tessera_tag_order(view.tag)) - 1)) != 0) {
        view.gone = 1;
        return view;
    }
    uint32_t k = wh_tessera_pick_(at >> 16, n_words);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n_words && view.w == 0; i += 4) {
        uint64_t w[4];
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t x = k + j < n_words ? k + j : k + j - n_words;
            w[j] = i + j < n_words ? wh_load_u64_relaxed(&words[x]) : 0;
        }
        for (uint32_t j = 0; j < 4; j++) {
            view.any |= w[j] != 0;
            view.gone |= n_words == 1 && w[j] == WH_TESSERA_ALL_FREE;
            if (view.w == 0 && w[j] != WH_TESSERA_ALL_FREE) { /* I4 */
                view.w = w[j];
                view.at = k + j < n_words ? k + j : k + j - n_words;
            }
        }
        k = k + 4 < n_words ? k + 4 : k + 4 - n_words;
    }
    return view;
}

/* Takes up to r slots of the word that has been seen, by one cas, or a few, and a second look at
 * the tag (I4, T1). Between begin_take and end_take. *rest: what it leaves in the word. */
WH_FN wh_tessera_grant wh_tessera_take_viewed_(wh_tessera_core g, uint32_t shard,
                                               wh_tessera_word_view view, uint32_t r, uint32_t seed,
                                               uint64_t *rest) {
    wh_assert_internal(view.w != 0 && view.w != WH_TESSERA_ALL_FREE && r != 0);
    wh_assert_expensive(wh_tessera_in_take_(wh_tessera_shard_at_(g, shard)));
    uint64_t *word = &wh_tessera_words_of_(g, view.slab)[view.at];
    uint64_t w = view.w;
    uint64_t bits = wh_tessera_choose_(w, view.slots, view.at, r, seed);
    const uint64_t tail = wh_tessera_tail_bits(view.slots, view.at);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    WH_NO_UNROLL
    for (uint32_t turns = 0; bits != 0 && turns < 4; turns++) {
        *rest = w & ~wh_tessera_with_tail(bits, tail);
        const uint64_t old = WH_PLANT(tessera_p1_each, wh_cas_u64_acq_rel,
                                      wh_cas_u64_relaxed)(word, w, *rest); /* P1 */
        if (old == w) {
            grant = wh_tessera_make_grant_((uint64_t)(word - wh_tessera_words_of_(g, 0)), bits);
            break;
        }
        w = old;
        bits = WH_PLANT(tessera_i4_each, w != WH_TESSERA_ALL_FREE, 1) /* I4 */
                   ? wh_tessera_choose_(w, view.slots, view.at, r, seed)
                   : 0;
    }
    if (grant.bits != 0) {
        uint64_t *tag_at = wh_tessera_tag_at_(g, view.slab);
        if (WH_PLANT(tessera_t1_each, wh_load_u64_acquire(tag_at) != view.tag, 0)) { /* T1 */
            wh_tessera_give_here_(g, shard, view.slab, wh_load_u64_acquire(tag_at), view.at,
                                  wh_tessera_with_tail(grant.bits, tail));
            grant.bits = 0;
        }
    }
    return grant;
}

/* A slab that has been seen to have no free slot, or whose last ones the caller has taken, leaves
 * the list of class c. I6: or a free has come in between. */
WH_FN void wh_tessera_remove_partial_(wh_tessera_core g, uint32_t c, uint32_t n_words,
                                      wh_tessera_word_view view) {
    wh_assert_internal(n_words - 1 < 16);
    if (wh_veb_remove(wh_tessera_partial_list_(g, c), wh_tessera_item(g.n_chunks, view.slab))) {
        const uint64_t *words = wh_tessera_words_of_(g, view.slab);
        const uint64_t now = wh_load_u64_acquire(wh_tessera_tag_at_(g, view.slab));
        uint64_t left = 0;
        WH_NO_UNROLL
        for (uint32_t i = 0; i < n_words; i++) {
            left |= wh_load_u64_relaxed(&words[i]);
        }
        if (WH_PLANT(tessera_i6_each, left != 0, 0) && wh_tessera_kind(now) == WH_TESSERA_SLAB &&
            wh_tessera_tag_class(now) == c) {
            wh_tessera_add_partial_(g, c, view.slab);
        }
    }
}

/* A look of a lane that wants up to r slots of class c, at a partial slab: the one that its hint
 * says or one that is so far along the list as its seed says, in a word that has some but not all
 * of its slots free: nobody pins there, and one cas and a second look at the tag are all that it
 * takes (I4, T1). A slab that has none leaves the list, and one of one word that has none any more:
 * others would look at it in vain. A word with many left is a hint for the next one; with few it is
 * not: the lanes that follow it would meet there. */
WH_FN wh_tessera_grant wh_tessera_look_once_(wh_tessera_core g, uint32_t shard, uint32_t c,
                                             uint32_t r, uint32_t n_words, uint32_t *hint_at,
                                             uint32_t hint, uint32_t seed) {
    wh_assert_internal(c < g.n_classes && r != 0);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    const wh_tessera_word_view view = wh_tessera_view_word_(g, c, n_words, hint, seed);
    uint64_t rest = 0;
    if (view.w != 0) {
        (void)wh_tessera_begin_take_(g, shard); /* P4: the cas releases */
        grant = wh_tessera_take_viewed_(g, shard, view, r, seed, &rest);
        wh_tessera_end_take_(g, shard);
    }
    const int leads_on = grant.bits != 0 && wh_popc64(rest) >= WH_TESSERA_HINT_LEAST;
    if (leads_on && hint == 0) {
        wh_store_u32_relaxed(hint_at, view.slab + 1);
    } else if (!leads_on && hint != 0) {
        wh_store_u32_relaxed(hint_at, 0);
    }
    if (grant.bits != 0 ? rest == 0 && n_words == 1 : !view.any) {
        wh_tessera_remove_partial_(g, c, n_words, view);
    }
    return grant;
}

/* For a lane alone up to r free slots of a partial slab of class c, if the pool had nothing for the
 * shard the last time: a heap lives on this then. It makes no calls, on purpose (await_ says why).
 * What it does not find, the slow path may. */
WH_FN wh_tessera_grant wh_tessera_take_each_(const wh_tessera_core *g, wh_tessera_shard *own_shard,
                                             uint32_t shard, uint32_t c, uint32_t r) {
    wh_assert_internal(c < g->n_classes);
    const wh_tessera_core core = *g;
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    uint32_t *hint_at = wh_tessera_reuse_at_(own_shard, c);
    const uint32_t n_words = (wh_tessera_header_of_(g)->classes[c].slots + 63) >> 6; /* or less */
    const uint32_t hint = wh_load_u32_relaxed(hint_at);
    const uint32_t takes = wh_load_u32_relaxed(&own_shard->takes_begun);
    if (r == 0 || !wh_tessera_may_take_partial_(core, c, hint) ||
        wh_load_u32_relaxed(&own_shard->pool_was_empty) == 0 ||
        (takes >> 5 & WH_TESSERA_POOL_TURN) == 0) {
        return grant;
    }
    uint32_t seed = wh_spread32((uint32_t)wh_thread_id() + takes * 65537u);
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_EACH_TRIES && grant.bits == 0; tries++) {
        seed = (seed ^ seed >> 15) * 2246822519u;
        grant =
            wh_tessera_look_once_(core, shard, c, r, n_words, hint_at, tries == 0 ? hint : 0, seed);
    }
    return grant;
}

/* The slot that is the rank-th of those taken of a word; NULL: there are fewer. */
WH_FN void *wh_tessera_granted_slot_(const wh_tessera_core *g, wh_tessera_class cls,
                                     wh_tessera_grant grant, uint32_t rank) {
    if (rank >= wh_popc64(grant.bits)) {
        return NULL;
    }
    const uint32_t words_log2 = wh_tessera_words_log2(g->chunk_log2);
    const uint32_t in_chunk = (uint32_t)grant.at & ((1u << words_log2) - 1);
    const uint32_t slot = in_chunk * 64 + wh_select64(grant.bits, rank);
    return g->base + (grant.at >> words_log2 << g->chunk_log2) + (uint64_t)slot * cls.slot_size;
}

/* What a full warp's groups have come to. */
typedef struct wh_tessera_served {
    void *p;
    wh_mask needy; /* lanes of the caller's group that still need a slot */
} wh_tessera_served;

/* For groups of a full warp (`lanes` is the caller's) of class c, or NO_CLASS: slots of partial
 * slabs for all lanes that need one. The leaders look side by side, each again as long as its group
 * needs some and its looks find some, but for two in vain; not while others search for all (X3).
 * turn: 0, or one of the slow path's, each of which looks elsewhere: the one before left nothing.
 * Who is left it says itself: a vote right behind the call would count parts of the warp
 * (simt/cuda.h). */
WH_FN_SLOW wh_tessera_served wh_tessera_take_groups_(const wh_tessera_core *g,
                                                     wh_tessera_shard *own_shard, wh_mask lanes,
                                                     uint32_t shard, uint32_t c, int need, void *p,
                                                     uint32_t turn) {
    wh_assert_internal(wh_tessera_in_mask_(lanes));
    wh_assert_internal(!need || (p == NULL && c < g->n_classes));
    const uint32_t leader = wh_mask_leader(lanes);
    const uint32_t cls_of = c != WH_TESSERA_NO_CLASS ? c : 0;
    const wh_tessera_core core = *g;
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[cls_of];
    const uint32_t n_words = (cls.slots + 63) >> 6; /* or less: then the others are 0 */
    uint32_t *hint_at = wh_tessera_reuse_at_(own_shard, cls_of);
    uint32_t seed = wh_spread32((uint32_t)(wh_thread_id() >> 5)) +
                    turn * (WH_TESSERA_GROUP_LOOKS * WH_TESSERA_FURTHER);
    uint32_t hint = wh_load_u32_relaxed(hint_at);
    int may = wh_lane_id() == leader && wh_tessera_may_take_partial_(core, cls_of, hint);
    wh_tessera_served served;
    served.p = p;
    WH_NO_UNROLL
    for (uint32_t misses = 0;;) {
        served.needy = wh_ballot(WH_FULL_WARP, need) & lanes;
        const uint32_t r = wh_popc32(served.needy);
        wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
        if (!wh_any(WH_FULL_WARP, may && r != 0)) {
            break;
        }
        seed += WH_TESSERA_FURTHER;
        if (may && r != 0) {
            grant = wh_tessera_look_once_(core, shard, cls_of, r, n_words, hint_at, hint, seed);
            misses += grant.bits == 0;
            may = misses < WH_TESSERA_GROUP_MISSES && wh_tessera_may_take_partial_(core, cls_of, 0);
            hint = 0;
        }
        grant.at = wh_shfl_u64(WH_FULL_WARP, grant.at, leader);
        grant.bits = wh_shfl_u64(WH_FULL_WARP, grant.bits, leader);
        if (need) {
            served.p = wh_tessera_granted_slot_(g, cls, grant, wh_mask_rank(served.needy));
            need = served.p == NULL;
        }
    }
    return served;
}

/* The block that has been taken of a pack. */
WH_FN void *wh_tessera_granted_block_(const wh_tessera_core *g, wh_tessera_grant grant) {
    wh_assert_internal((grant.at & WH_TESSERA_BLOCK) != 0);
    return g->base + ((grant.at & ~WH_TESSERA_BLOCK) >> 16 << g->chunk_log2) +
           ((grant.at & 0xffff) << wh_tessera_granule_log2(g->chunk_log2));
}

/* A slab of class c from wherever the pool has chunks for one, however small: up to r of its slots
 * for the caller, the others go on the partial list. */
WH_FN_SLOW wh_tessera_grant wh_tessera_take_small_(const wh_tessera_core *g, uint32_t shard,
                                                   uint32_t c, uint32_t r) {
    wh_assert_internal(c < g->n_classes && r != 0);
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    const uint32_t ticket = wh_tessera_begin_take_(*g, shard);
    const uint64_t claim = wh_tessera_claim_span_(g, shard, ticket, wh_tessera_order(cls), 0);
    if (claim != 0) {
        const uint32_t slab = (uint32_t)claim, order = wh_ctz32((uint32_t)(claim >> 32));
        const uint64_t tag =
            wh_tessera_with_shard(wh_tessera_slab_tag(c, order, cls.slot_size), shard);
        const uint32_t slots = wh_tessera_tag_slots(tag, g->chunk_log2);
        const uint64_t first = wh_tessera_slot_bits(slots, 0);
        grant = wh_tessera_make_grant_((uint64_t)slab << wh_tessera_words_log2(g->chunk_log2),
                                       wh_lowest_bits(first, r));
        wh_tessera_open_slab_(*g, c, slab, tag, first & ~grant.bits);
    }
    wh_tessera_end_take_(*g, shard);
    return grant;
}

/* Up to r slots from the cursor of any shard, of this one and then of the nearest that has some. */
WH_FN_SLOW wh_tessera_grant wh_tessera_steal_(const wh_tessera_core *g, uint32_t shard, uint32_t c,
                                              uint32_t r) {
    wh_assert_internal(shard < g->n_shards && c < g->n_classes && r != 0);
    WH_NO_UNROLL
    for (uint32_t first = 0; first < g->n_shards; first += 8) {
        uint32_t open = 0; /* which words of eight shards' cursors */
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t s = shard + first + k;
            const wh_tessera_cursor *cursor =
                wh_tessera_cursor_at_(*g, s < g->n_shards ? s : s % g->n_shards, c);
            open |= (uint32_t)wh_tessera_has_slots_(wh_load_u64_relaxed(&cursor->span)) << 2 * k;
            open |= (uint32_t)wh_tessera_has_slots_(wh_load_u64_relaxed(&cursor->spare))
                    << (2 * k + 1);
        }
        WH_NO_UNROLL
        for (; open != 0; open &= open - 1) {
            const uint32_t k = wh_ctz32(open), s = (shard + first + k / 2) % g->n_shards;
            uint64_t *at = wh_tessera_span_at_(*g, s, c, k & 1);
            const uint64_t span = wh_fetch_add_u64_acquire(at, r * WH_TESSERA_POSITION); /* P2 */
            if (wh_tessera_passes_end_(span, r)) { /* C1: there is nothing to attach */
                wh_tessera_hold_(*g, s, wh_tessera_header_of_(g)->classes[c], span, 0);
                wh_store_u64_release(at, WH_TESSERA_CLOSED);
            }
            if (wh_tessera_has_slots_(span)) {
                return wh_tessera_make_grant_(span, 0);
            }
        }
    }
    return wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
}

/* A slab of a cursor's that the caller owns and that has handed out no slot goes straight back to
 * the pool. 0: it has been a partial slab, and somebody is looking at it. */
WH_FN int wh_tessera_return_fresh_(wh_tessera_core g, uint32_t shard, uint32_t slab,
                                   wh_tessera_class cls) {
    wh_assert_internal((slab & ((1u << wh_tessera_order(cls)) - 1)) == 0);
    if (cls.slots <= 64) { /* I2: nobody has had a bit of it, nor may a double free now */
        wh_store_u64_relaxed(wh_tessera_words_of_(g, slab), ~(uint64_t)0);
    } else {
        const uint32_t fresh = wh_tessera_fresh_state(cls.slots);
        if (wh_cas_u32_acq_rel(wh_tessera_state_at_(g, slab), fresh, WH_TESSERA_EMPTY) !=
            fresh) { /* I5 */
            return 0;
        }
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, slab), WH_TESSERA_FREE); /* I2 */
    }
    wh_tessera_put_chunks_(g, shard, slab, 1u << wh_tessera_order(cls));
    return 1;
}

/* Gives back what `span`, which one lane of mask has taken from a cursor of class u, has left: all
 * lanes of mask, with the same arguments, a slab each. */
WH_FN_SLOW void wh_tessera_give_span_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                      uint32_t u, uint64_t span) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_internal(u < g->n_classes && wh_tessera_has_slots_(span));
    wh_assert_expensive(wh_tessera_same_(mask, span));
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[u];
    const uint32_t from = wh_tessera_span_position(span), end = wh_tessera_span_slots(span);
    const uint32_t lanes = wh_popc32(mask);
    WH_PLANT(tessera_p3_detached, wh_syncwarp(mask), (void)0); /* P3: what that lane acquired */
    WH_NO_UNROLL
    for (uint32_t k = from / cls.slots + wh_mask_rank(mask); k * cls.slots < end; k += lanes) {
        const uint32_t slab = wh_tessera_span_first(span) + (k << wh_tessera_order(cls));
        uint32_t slot = k * cls.slots < from ? from - k * cls.slots : 0;
        if (slot == 0 && wh_tessera_return_fresh_(*g, shard, slab, cls)) {
            continue;
        }
        WH_NO_UNROLL
        while (slot < cls.slots) {
            const uint32_t i = slot >> 6;
            const uint64_t bits = wh_tessera_slot_bits(cls.slots, i);
            wh_tessera_give_(*g, shard, slab, wh_load_u64_relaxed(wh_tessera_tag_at_(*g, slab)), i,
                             wh_tessera_with_tail(bits & (~(uint64_t)0 << (slot & 63)),
                                                  wh_tessera_tail_bits(cls.slots, i)));
            slot = i * 64 + 64 - wh_clz64(bits);
        }
    }
    wh_syncwarp(mask);
}

/* Whether a cursor of shard s has slots left. */
WH_FN int wh_tessera_has_rest_(wh_tessera_core g, uint32_t s) {
    wh_assert_internal(s < g.n_shards);
    uint32_t left = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < g.n_classes; first += 8) {
        for (uint32_t k = 0; k < 8; k++) { /* there are 64 cursors */
            const wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, s, first + k);
            const uint64_t span = wh_load_u64_relaxed(&cursor->span);
            const uint64_t spare = wh_load_u64_relaxed(&cursor->spare);
            left |= (uint32_t)(wh_tessera_has_slots_(span) ||
                               WH_PLANT(tessera_x1_spare, wh_tessera_has_slots_(spare), 0));
        }
    }
    return left != 0;
}

/* Closes cursors that have slots left and gives these back, so that slabs without a live slot reach
 * the pool: those of the nearest shard that has such. 1 if there was one. All lanes of mask, with
 * the same arguments: a shard each to look at, then a cursor each to close, then a slab each to
 * give back. */
WH_FN_SLOW int wh_tessera_detach_(const wh_tessera_core *g, wh_mask mask, uint32_t shard) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_expensive(wh_tessera_same_(mask, shard));
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const int leads = rank == 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < g->n_shards; first += lanes) {
        const uint32_t i = shard + first + rank;
        uint32_t s = i < g->n_shards ? i : i - g->n_shards;
        const wh_mask has =
            wh_ballot(mask, first + rank < g->n_shards && wh_tessera_has_rest_(*g, s));
        if (has == 0) {
            continue;
        }
        s = wh_shfl_u32(mask, s, wh_mask_leader(has));
        if (leads) {
            (void)wh_tessera_begin_take_(*g, shard);
        }
        wh_syncwarp(mask); /* P4 */
        WH_NO_UNROLL
        for (uint32_t j = 0; j < 2 * g->n_classes; j += lanes) {
            const uint32_t u = (j + rank) >> 1;
            uint64_t span = 0;
            if (u < g->n_classes) {
                uint64_t *at = wh_tessera_span_at_(*g, s, u, (j + rank) & 1);
                span = wh_load_u64_acquire(at);
                if (wh_tessera_has_slots_(span) &&
                    wh_cas_u64_acq_rel(at, span, WH_TESSERA_CLOSED) == span) { /* I1: ours */
                    wh_tessera_hold_(*g, s, wh_tessera_header_of_(g)->classes[u], span, 0);
                } else {
                    span = 0;
                }
            }
            WH_NO_UNROLL
            for (wh_mask m = wh_ballot(mask, span != 0); m != 0; m &= m - 1) {
                const uint32_t lane = wh_mask_leader(m);
                wh_tessera_give_span_(g, mask, shard, wh_shfl_u32(mask, u, lane),
                                      wh_shfl_u64(mask, span, lane));
            }
        }
        wh_syncwarp(mask);
        if (leads) {
            wh_tessera_end_take_(*g, shard);
        }
        return 1;
    }
    return 0;
}

/* What a taker has seen of a pack: its tag, its word, and where the block is that would do. */
typedef struct wh_tessera_pack_view {
    uint64_t tag, word;
    uint32_t fit;     /* 0: none, or this is no pack */
    uint32_t lengths; /* of its free blocks, as pack_scan_ tells them */
    int any;          /* a free block, of whatever size */
} wh_tessera_pack_view;

WH_FN wh_tessera_pack_view wh_tessera_view_pack_(wh_tessera_core g, uint32_t pack, uint32_t least) {
    wh_tessera_pack_view view;
    view.tag = wh_load_u64_acquire(wh_tessera_tag_at_(g, pack));
    view.word = wh_load_u64_relaxed(wh_tessera_words_of_(g, pack));
    const int is_pack = wh_tessera_is_pack(view.tag) && wh_tessera_pack_at(view.tag) == 0;
    const uint32_t slots = wh_tessera_pack_slots(view.tag);
    view.fit = view.lengths = 0;
    view.any = is_pack && (view.word & wh_tessera_slot_bits(slots, 0)) != 0;
    if (is_pack && view.word != ~(uint64_t)0) { /* I4 */
        const uint64_t tail = wh_tessera_tail_bits(slots, 0);
        const uint32_t has_tail = (view.word & tail) == tail; /* T1: else not slot 0 */
        const uint64_t free = view.word & ~tail & ((uint64_t)has_tail - 2);
        view.fit = wh_tessera_pack_scan_(g, pack, view.tag, wh_low_u32(free), least, &view.lengths);
    }
    return view;
}

/* Takes the block that a taker has seen (fit != 0), for `least` granules. WAIT: not there any more;
 * *raced: the word has changed. */
WH_FN wh_tessera_grant wh_tessera_claim_block_(wh_tessera_core g, uint32_t shard, uint32_t pack,
                                               uint32_t least, wh_tessera_pack_view view,
                                               int *raced) {
    wh_assert_internal(view.fit != 0 && view.word != WH_TESSERA_ALL_FREE && least != 0);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    const uint64_t tail = wh_tessera_tail_bits(wh_tessera_pack_slots(view.tag), 0);
    const uint64_t bit = (uint64_t)1 << WH_TESSERA_FIT_SLOT(view.fit);
    const uint64_t taken = wh_tessera_with_tail(bit, tail);
    *raced =
        WH_PLANT(tessera_p1_block, wh_cas_u64_acq_rel, wh_cas_u64_relaxed)(
            wh_tessera_words_of_(g, pack), view.word, view.word & ~taken) != view.word; /* P1 */
    if (!*raced) {
        /* T1: what it holds pins the pack, so now its tags stay, and say where the block is. */
        const uint64_t now = wh_load_u64_acquire(wh_tessera_tag_at_(g, pack));
        const uint32_t fit =
            now == view.tag ? wh_tessera_pack_fit_(g, pack, now, wh_low_u32(bit), least) : 0;
        if (WH_PLANT(tessera_t1_pack, fit != 0, 1)) {
            grant.at = WH_TESSERA_BLOCK | (uint64_t)pack << 16 |
                       WH_TESSERA_FIT_START(WH_PLANT(tessera_t1_tags, fit, view.fit));
            grant.bits = bit;
        } else {
            wh_tessera_give_(g, shard, pack, now, 0, taken);
        }
    }
    return grant;
}

/* A free block for `least` granules of the pack that is or was at this chunk. */
WH_FN_SLOW wh_tessera_grant wh_tessera_take_block_(const wh_tessera_core *g, uint32_t shard,
                                                   uint32_t pack, uint32_t least) {
    wh_assert_internal(pack < g->n_chunks && least != 0);
    const wh_tessera_core core = *g;
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    (void)wh_fetch_add_u32_acq_rel(&wh_tessera_shard_at_(core, shard)->takes_begun, 1); /* P4 */
    WH_NO_UNROLL
    for (int raced = 1; raced;) { /* by a lane that took or freed one */
        const wh_tessera_pack_view sight = wh_tessera_view_pack_(core, pack, least);
        raced = 0;
        if (sight.fit != 0) {
            grant = wh_tessera_claim_block_(core, shard, pack, least, sight, &raced);
        }
    }
    wh_tessera_end_take_(core, shard);
    return grant;
}

#define WH_TESSERA_PACK_ROUNDS 4u

/* For lanes with `least` (0: asks for nothing): a free block for so many granules of a partial
 * pack. All lanes of mask look at a partial pack each; whoever asks goes to the one that has the
 * smallest block that will do, since others need larger ones. Packs found to have none leave the
 * list. A look takes long, and one lane after the other would make some. It is no take (P4): NULL
 * needs a moment without any (X1), which lanes that look in vain must not keep away. turn: of the
 * slow path, each of which looks elsewhere, as what one finds may not do. */
WH_FN_SLOW wh_tessera_grant wh_tessera_take_packed_(const wh_tessera_core *g, wh_mask mask,
                                                    uint32_t shard, uint32_t least, uint32_t turn) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const wh_tessera_core core = *g;
    const wh_veb list = wh_tessera_partial_list_(core, core.n_classes);
    const uint32_t first = wh_spread32((uint32_t)wh_thread_id()) +
                           turn * (WH_TESSERA_PACK_ROUNDS * WH_TESSERA_FURTHER);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    WH_NO_UNROLL
    for (uint32_t round = 0;
         round < WH_TESSERA_PACK_ROUNDS && wh_any(mask, least != 0 && grant.bits == 0); round++) {
        uint32_t at = first + round * WH_TESSERA_FURTHER;
        const uint64_t x = wh_veb_pick(list, &at, 1);
        uint32_t pack = core.n_chunks, lengths = 0;
        if (x != WH_VEB_NONE) {
            pack = wh_tessera_slab_of(core.n_chunks, (uint32_t)x);
            const wh_tessera_pack_view view = wh_tessera_view_pack_(core, pack, 0);
            lengths = view.lengths;
            if (!view.any && wh_veb_remove(list, x) &&
                WH_PLANT(tessera_i6_pack, wh_tessera_view_pack_(core, pack, 0).any, 0)) { /* I6 */
                wh_tessera_add_partial_(core, core.n_classes, pack);
            }
        }
        uint32_t goes = core.n_chunks; /* to this pack */
        const uint32_t of_any = wh_reduce_or_u32(mask, lengths);
        const int may = least != 0 && grant.bits == 0 && wh_tessera_fits_(of_any, least) != 0;
        WH_NO_UNROLL
        for (wh_mask m = wh_ballot(mask, may); m != 0; m &= m - 1) {
            const uint32_t asks = wh_mask_leader(m), its_least = wh_shfl_u32(mask, least, asks);
            const uint32_t fits = wh_tessera_fits_(lengths, its_least);
            const uint32_t best =
                wh_reduce_max_u32(mask, fits != 0 ? (32 - wh_ctz32(fits)) << 5 | wh_lane_id() : 0);
            const uint32_t best_lane = best != 0 ? best & 31 : asks;
            const uint32_t its_pack = wh_shfl_u32(mask, pack, best_lane);
            if (best != 0) {
                goes = wh_lane_id() == asks ? its_pack : goes;
                lengths = wh_lane_id() == best_lane ? 0 : lengths;
            }
        }
        if (goes != core.n_chunks) {
            grant = wh_tessera_take_block_(g, shard, goes, least);
        }
    }
    return grant;
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/tessera/cursor.h: from the pool and the partial slabs to a cursor, and back: who refills
 * it, and what closes it. This file may change: it is no part of the API.
 *
 * span    an add, acquire, takes slots. The refiller: store, release: a span, CLOSED, or UNDER_WAY.
 *         A lane that closes the cursor: cas acq_rel, if it has slots. A lane that finds it closed:
 *         cas, relaxed, to UNDER_WAY, which claims nothing but the right to refill it
 * hints   stores, relaxed
 *
 * C1      one lane refills a cursor at a time: the one whose add passed the end of its span (a
 *         vacant one ends at 0), or that changed CLOSED to UNDER_WAY. From then on to its store the
 *         position is past the end. It goes on, in whatever function, until it has stored a span or
 *         CLOSED. If its group uses the new span up it stores UNDER_WAY, and is the refiller still
 * I8      a cursor asks for 2^k chunks: one slab, or more; then at most eight times those of its
 *         last span, at most a 32nd of the home chunks of its shard that nobody has asked for yet,
 *         and at most 2^max_span_log2 (layout.h). If it was closed or vacant, elsewhere than at
 *         home, and for a large class: one slab. It may get less, down to one slab; elsewhere a
 *         smaller slab, too. Its first span is layout.h's
 *
 * P2      refiller: tags and words of a span, then its store, release -> the add that takes slots
 *         of it, or the cas that closes the cursor, acquire; other lanes by a sync behind that.
 *         (Words that name the class come later: slab.h P7)
 *
 * Progress  lanes wait for a refiller: for its claim of chunks, of bounded length, and for a search
 *         for all (oom.h), which ends
 * Check   tests/conform, tests/stress, tests/fault, wh_tessera_check
 */
#ifndef WH_ALLOC_TESSERA_CURSOR_H
#define WH_ALLOC_TESSERA_CURSOR_H

#include "warpheap/detail/alloc/tessera/slab.h"

#include "warpheap/detail/simt/begin.h"

/* --- what a step found for a group of lanes --------------------------------------------- */

#define WH_TESSERA_LOOK 0u    /* look at the cursor: it has slots, or somebody refills it */
#define WH_TESSERA_PARTIAL 1u /* it is closed: look for slots of partial slabs */
#define WH_TESSERA_REFILL 2u  /* it is the refiller, and owes the cursor a span */
#define WH_TESSERA_PUBLISH 3u /* its leader has claimed the span for that */
#define WH_TESSERA_NONE 4u    /* nothing that it knows of: search */
#define WH_TESSERA_DONE 5u    /* there is nothing */

typedef struct wh_tessera_grant {
    uint64_t span; /* its slots from the position on are the group's, as many as it wanted; if bits
                    * is not 0, chunk of a slab << 5 and the word of it */
    uint64_t bits; /* slots of that word */
    uint32_t next; /* WH_TESSERA_LOOK and so on: what is next for those who got nothing */
} wh_tessera_grant;

WH_FN wh_tessera_grant wh_tessera_make_grant_(uint64_t span, uint32_t next) {
    wh_tessera_grant grant;
    grant.span = span;
    grant.bits = 0;
    grant.next = next;
    return grant;
}

/* What a group of lanes asks for: n slots of class c, and how far it is. */
typedef struct wh_tessera_ask {
    uint32_t shard, c, n;
    uint32_t rung; /* WH_TESSERA_LOOK and so on */
    uint32_t last; /* slots of the span that it used up; 0: none, as the cursor was closed */
    uint32_t seed;
} wh_tessera_ask;

/* Address of slot `position` of a span. */
WH_FN void *wh_tessera_slot_(unsigned char *base, uint32_t chunk_log2, wh_tessera_class cls,
                             uint32_t first, uint32_t position) {
    const uint32_t slab = wh_tessera_divide(position, cls.by_slots);
    unsigned char *p = base + ((uint64_t)(first + slab * cls.chunks) << chunk_log2);
    return p + wh_mul_wide_u32(position - slab * cls.slots, cls.slot_size);
}

/* Slot number `rank` of those that an add to a cursor returned; NULL: it has so many no more. */
WH_FN void *wh_tessera_nth_(unsigned char *base, uint32_t chunk_log2, wh_tessera_class cls,
                            uint64_t span, uint32_t rank) {
    const uint32_t position = wh_tessera_span_position(span) + rank;
    return position < wh_tessera_span_slots(span)
               ? wh_tessera_slot_(base, chunk_log2, cls, wh_tessera_span_first(span), position)
               : NULL;
}

/* The same of a grant. */
WH_FN void *wh_tessera_granted_(const wh_tessera_core *g, wh_tessera_class cls,
                                wh_tessera_grant grant, uint32_t rank) {
    if (grant.bits == 0) {
        return wh_tessera_nth_(g->base, g->chunk_log2, cls, grant.span, rank);
    }
    if (rank >= wh_popc64(grant.bits)) {
        return NULL;
    }
    const uint32_t slot =
        (wh_low_u32(grant.span) & 31) * WH_TESSERA_WORD_SLOTS + wh_select64(grant.bits, rank);
    return g->base + ((grant.span >> 5) << g->chunk_log2) + wh_mul_wide_u32(slot, cls.slot_size);
}

/* --- slots of partial slabs ------------------------------------------------------------------ */

/* seed: of which the highest bits say where. */
WH_FN void wh_tessera_hint_(wh_tessera_cursor *cursor, uint32_t seed, uint32_t slab, uint32_t i) {
    wh_store_u32_relaxed(&cursor->hints[seed / (UINT32_MAX / WH_TESSERA_HINTS + 1)],
                         1 + (slab << 5 | i));
}

#define WH_TESSERA_SAMPLE 4u /* hints that a refiller follows */
#define WH_TESSERA_ENOUGH 3u /* of them that must have free slots, for the cursor to close */

/* Whether the class has many free slots in partial slabs, as far as the cursor's hints tell. */
WH_FN int wh_tessera_has_many_(wh_tessera_core g, wh_tessera_cursor *cursor, uint32_t c,
                               uint32_t seed) {
    const uint32_t from = seed & (WH_TESSERA_HINTS - 1) & ~(WH_TESSERA_SAMPLE - 1);
    uint32_t hints[WH_TESSERA_SAMPLE], any = 0, free = 0; /* hints with free slots */
    for (uint32_t k = 0; k < WH_TESSERA_SAMPLE; k++) {
        hints[k] = wh_load_u32_relaxed(&cursor->hints[from + k]);
        any |= hints[k];
    }
    if (any == 0) {
        return 0;
    }
    for (uint32_t k = 0; k < WH_TESSERA_SAMPLE; k++) {
        const uint32_t hint = hints[k] != 0 ? hints[k] - 1 : 0;
        const uint64_t word = wh_load_u64_relaxed(wh_tessera_words_of_(g, hint >> 5) + (hint & 31));
        free += hints[k] != 0 && wh_tessera_free_slots(word, c) != 0;
    }
    return free >= WH_TESSERA_ENOUGH;
}

#define WH_TESSERA_HINT_TRIES 16u
#define WH_TESSERA_LIST_TRIES 3u

/* Slots of a partial slab for a group of n, from hand to hand: where the cursor's hints lead.
 * *owes: 0, or 1 + a slab for which the caller calls emptied_ (slab.h I5). bits 0: none, and span
 * is 0. (With bits it may be 0, too: of word 0 of the first chunk.) */
WH_FN wh_tessera_grant wh_tessera_hinted_(const wh_tessera_core *g, wh_tessera_ask ask,
                                          uint32_t *owes) {
    const uint32_t slots = wh_tessera_header_of_(g)->classes[ask.c].slots;
    const uint32_t *hints = wh_tessera_cursor_at_(*g, ask.shard, ask.c)->hints;
    wh_tessera_grant grant = wh_tessera_make_grant_(0, WH_TESSERA_LOOK);
    *owes = 0;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_HINT_TRIES && grant.bits == 0 && *owes == 0;
         tries++) {
        const uint32_t at = ask.seed / (UINT32_MAX / WH_TESSERA_HINTS + 1) + tries;
        const uint32_t hint = wh_load_u32_relaxed(&hints[at % WH_TESSERA_HINTS]);
        if (hint != 0) {
            int word;
            grant.bits = wh_tessera_take_slots_(g, ask.c, slots, (hint - 1) >> 5, (hint - 1) & 31,
                                                ask.n, ask.seed * 5, &word);
            grant.span = grant.bits != 0 ? hint - 1 : 0;
            *owes = word ? 1 + ((hint - 1) >> 5) : 0;
        }
    }
    return grant;
}

/* A lane that has seen the cursor closed (closed: what it saw), and found no slots: it becomes the
 * refiller (C1), or looks at the cursor again. */
WH_FN wh_tessera_grant wh_tessera_reopen_(const wh_tessera_core *g, wh_tessera_ask ask,
                                          uint64_t closed) {
    uint64_t *at = &wh_tessera_cursor_at_(*g, ask.shard, ask.c)->span;
    const int opens = wh_cas_u64_relaxed(at, closed, WH_TESSERA_UNDER_WAY) == closed; /* C1 */
    return wh_tessera_make_grant_(opens ? WH_TESSERA_CLOSED : WH_TESSERA_UNDER_WAY,
                                  opens ? WH_TESSERA_REFILL : WH_TESSERA_LOOK);
}

/* The same as hinted_, or else from the list of its class. */
WH_FN_SLOW wh_tessera_grant wh_tessera_partial_(const wh_tessera_core *ref, wh_tessera_ask ask) {
    const wh_tessera_core g = *ref;
    const uint32_t shard = ask.shard, c = ask.c, n = ask.n, seed = ask.seed;
    const wh_veb list = wh_tessera_partial_list_(g, c);
    const uint32_t slots = wh_tessera_header_of_(ref)->classes[c].slots;
    const uint32_t n_words = wh_tessera_words_for(slots);
    wh_tessera_shard *own = wh_tessera_shard_at_(g, shard);
    wh_tessera_cursor *cursor = &own->cursors[c];
    uint32_t debt;
    wh_tessera_grant grant = wh_tessera_hinted_(ref, ask, &debt);
    if (debt != 0) {
        (void)wh_tessera_emptied_(ref, shard, debt - 1); /* I5 */
    }
    if (grant.bits != 0) {
        return grant;
    }
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_LIST_TRIES; tries++) {
        uint32_t at = seed * 0x6a09e667u + tries * 0x9e3779b9u;
        const uint64_t w = wh_veb_pick_word(list, &at, 1);
        const uint64_t items = w != WH_VEB_NONE ? wh_load_u64_relaxed(wh_veb_word(list, w)) : 0;
        if (items == 0) {
            if (w != WH_VEB_NONE) {
                wh_veb_emptied(list, w);
            }
            continue;
        }
        const uint32_t slab = (uint32_t)w << 6 | wh_pick64(items, &at);
        uint32_t i = wh_high_u32(wh_mul_wide_u32(at, n_words));
        WH_NO_UNROLL
        for (uint32_t k = 0; k < n_words; k++) {
            int owes;
            grant.bits = wh_tessera_take_slots_(ref, c, slots, slab, i, n, seed * 5, &owes);
            grant.span = (uint64_t)slab << 5 | i;
            if (owes) {
                (void)wh_tessera_emptied_(ref, shard, slab); /* I5 */
            }
            if (grant.bits != 0) {
                wh_tessera_hint_(cursor, seed, slab, i);
                return grant;
            }
            i = i + 1 < n_words ? i + 1 : 0;
        }
        if (wh_load_u32_relaxed(&wh_tessera_header_of_(ref)->search_lock) == 0) { /* oom.h */
            wh_tessera_remove_partial_(g, own, c, n_words, slab);
        }
    }
    return wh_tessera_make_grant_(WH_TESSERA_CLOSED, WH_TESSERA_LOOK);
}

/* --- fresh slots ----------------------------------------------------------------------------- */

/* Puts the slabs of a span on the list of their class, so that frees find them there. */
WH_FN void wh_tessera_list_span_(wh_tessera_core g, uint32_t c, wh_tessera_class cls,
                                 uint64_t span) {
    const uint32_t slabs = wh_tessera_divide(wh_tessera_span_slots(span), cls.by_slots);
    const uint32_t first = wh_tessera_span_first(span);
    const uint64_t bits =
        slabs < 2 ? 1 : wh_tessera_multiples_(cls.chunks) & ~wh_ones_from_u64(slabs * cls.chunks);
    wh_tessera_add_slabs_(g, c, first >> 6, bits << (first & 63));
}

/* The tag of a span's slabs, but for the shard: all are of the usual size, or it is just one. */
WH_FN uint64_t wh_tessera_span_tag_(const wh_tessera_core *g, uint32_t c, wh_tessera_class cls,
                                    uint64_t span) {
    const uint32_t slots = wh_tessera_span_slots(span);
    return slots >= cls.slots
               ? wh_tessera_header_of_(g)->slab_tags[c]
               : wh_tessera_slab_tag(c, ((slots * cls.slot_size - 1) >> g->chunk_log2) + 1,
                                     cls.slot_size);
}

/* Tags and words of a span of slabs with this tag, whose slots are all a cursor's: lane `rank` of n
 * that share the work. */
WH_FN void wh_tessera_format_(wh_tessera_core g, uint64_t tag, uint64_t span, uint32_t by_slots,
                              uint32_t rank, uint32_t n) {
    const uint32_t of_slab = wh_tessera_tag_chunks(tag), first = wh_tessera_span_first(span);
    const uint32_t slabs = wh_tessera_divide(wh_tessera_span_slots(span), by_slots);
    const uint32_t chunks = slabs == 0 ? of_slab : slabs * of_slab;
    const uint32_t n_words = wh_tessera_words_for(wh_tessera_tag_slots(tag, g.chunk_log2));
    uint64_t *tags = wh_tessera_tag_at_(g, first);
    wh_assert_internal(slabs < 2 || wh_is_pow2(of_slab));
    WH_NO_UNROLL
    for (uint32_t k = rank; k < chunks; k += n) {
        const uint32_t at = slabs < 2 ? k : k & (of_slab - 1); /* number of the chunk in its slab */
        wh_store_u64_relaxed(&tags[k], tag + at * WH_TESSERA_NEXT_TAG);
        WH_NO_UNROLL
        for (uint32_t i = 0; at == 0 && i < n_words; i++) { /* they may be GONE */
            wh_store_u64_relaxed(wh_tessera_words_of_(g, first + k) + i, 0);
        }
    }
}

/* Chunks for slabs of a large class: just one, from the back of the heap, where runs are. */
WH_FN wh_tessera_claim wh_tessera_claim_large_(wh_tessera_core g, wh_tessera_class cls) {
    wh_tessera_header *header = wh_tessera_header_(g);
    wh_tessera_claim claim;
    claim.first = claim.n = 0;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_HOME_TRIES && claim.n == 0; tries++) {
        if (wh_load_u32_relaxed(&header->run_next) >= g.n_chunks) {
            break;
        }
        const uint32_t next = wh_fetch_add_u32_relaxed(&header->run_next, cls.chunks);
        if (next > g.n_chunks - cls.chunks) {
            break;
        }
        const uint32_t first = g.n_chunks - cls.chunks - next;
        if (wh_veb_claim_range(wh_tessera_pool_(g), first, cls.chunks)) {
            claim.first = first;
            claim.n = cls.chunks;
        }
    }
    return claim;
}

/* Home chunks of the shard that have not been asked for yet. */
WH_FN uint32_t wh_tessera_home_left_(wh_tessera_core g, wh_tessera_shard *own) {
    const uint32_t next = wh_low_u32(wh_load_u64_relaxed(&own->takes));
    const uint32_t end = wh_load_u32_relaxed(&wh_tessera_header_(g)->home_chunks);
    return next < end ? end - next : 0;
}

/* Chunks that a cursor asks for whose last span had so many slots: I8. */
WH_FN uint32_t wh_tessera_next_chunks_(wh_tessera_core g, wh_tessera_class cls, uint32_t last,
                                       uint32_t home_left) {
    const uint32_t more = wh_tessera_divide(last, cls.by_slots) * cls.chunks << 3;
    const uint32_t share = home_left >> 5;
    const uint32_t bound = more < share ? more : share;
    const uint32_t most =
        bound >> g.max_span_log2 == 0 ? 1u << wh_log2_floor(bound | 1) : 1u << g.max_span_log2;
    return most < cls.chunks ? cls.chunks : most;
}

/* Slots of a span of chunks: a whole number of slabs, or one that is smaller than is usual. */
WH_FN uint32_t wh_tessera_claimed_slots_(wh_tessera_core g, uint32_t c, wh_tessera_class cls,
                                         uint32_t chunks) {
    if (chunks < cls.chunks) {
        return (chunks << g.chunk_log2) / cls.slot_size;
    }
    /* Slabs of small classes are powers of two; of large ones a span has one. */
    return c < g.n_small ? cls.slots * (chunks >> wh_log2_floor(cls.chunks)) : cls.slots;
}

/* The usual step of a refiller (C1): chunks of the shard's home, for a span that publish_ gets,
 * which ends the take. Or, if half of home has been asked for, the cursor closes where its class
 * has many slots in partial slabs: CLOSED, and the caller is the refiller no more. (Before that
 * fresh slots are quicker; but a reserved heap stays as small as it can.) Or 0: home has none, or
 * others search for all; then it still is, and no take is under way. */
WH_FN uint64_t wh_tessera_claim_soon_(const wh_tessera_core *ref, wh_tessera_ask ask) {
    const wh_tessera_core g = *ref;
    const wh_tessera_class cls = wh_tessera_header_of_(ref)->classes[ask.c];
    wh_tessera_shard *own = wh_tessera_shard_at_(g, ask.shard);
    wh_tessera_cursor *cursor = &own->cursors[ask.c];
    const uint32_t home_left = wh_tessera_home_left_(g, own);
    const uint32_t home = wh_load_u32_relaxed(&wh_tessera_header_of_(ref)->home_chunks);
    const int may_close = ask.last != 0 && (home_left <= home / 2 || g.reserved != 0);
    if (may_close && wh_tessera_has_many_(g, cursor, ask.c, ask.seed)) {
        wh_store_u64_release(&cursor->span, WH_TESSERA_CLOSED);
        return WH_TESSERA_CLOSED;
    }
    if (home_left == 0 ||
        wh_load_u32_relaxed(&wh_tessera_header_of_(ref)->search_lock) != 0) { /* oom.h */
        return 0;
    }
    const uint32_t most = wh_tessera_next_chunks_(g, cls, ask.last, home_left);
    wh_tessera_claim claim;
    claim.n = 0;
    wh_tessera_begin_take_(own); /* P4 */
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_HOME_TRIES && claim.n == 0; tries++) {
        claim = wh_tessera_claim_home_(g, own, ask.shard, most, cls.chunks);
    }
    if (claim.n != 0) {
        return wh_tessera_span(claim.first, wh_tessera_claimed_slots_(g, ask.c, cls, claim.n), 0);
    }
    wh_tessera_end_take_(own);
    return 0;
}

/* --- the refiller's step, and a look at the cursor ---------------------------------------------
 */

/* The refiller publishes a span of n slots or more for its group. What is next for it: if they use
 * the span up, it remains the refiller. Ends the take: who sees that, but not the span, sees a
 * cursor that is being refilled. */
WH_FN uint32_t wh_tessera_publish_(wh_tessera_shard *own, uint32_t c, uint64_t span, uint32_t n) {
    const int over = n > wh_tessera_span_slots(span);
    WH_PLANT(tessera_p2_publish, wh_store_u64_release, wh_store_u64_relaxed)
    (&own->cursors[c].span,
     over ? WH_TESSERA_UNDER_WAY : span + n * WH_TESSERA_POSITION); /* C1, P2, P4 */
    wh_add_u32_relaxed(&own->takes_done, 1);
    return over ? WH_TESSERA_REFILL : WH_TESSERA_LOOK;
}

/* The refiller's step (C1): chunks from the pool, which are to be formatted and published. Or the
 * cursor closes: if its class has many slots in partial slabs, or there are no chunks. */
WH_FN_SLOW wh_tessera_grant wh_tessera_refill_(const wh_tessera_core *g, wh_tessera_ask ask) {
    const uint32_t shard = ask.shard, c = ask.c;
    const wh_tessera_core core = *g;
    wh_tessera_shard *own = wh_tessera_shard_at_(core, shard);
    wh_tessera_cursor *cursor = &own->cursors[c];
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    if (wh_load_u32_relaxed(&wh_tessera_header_of_(g)->search_lock) != 0 || /* oom.h */
        !wh_tessera_any_chunks_(core)) {
        wh_store_u64_release(&cursor->span, WH_TESSERA_CLOSED);
        return wh_tessera_make_grant_(WH_TESSERA_CLOSED, WH_TESSERA_LOOK);
    }
    if (c < core.n_small) {
        const uint64_t span = wh_tessera_claim_soon_(g, ask);
        if (span != 0) {
            return wh_tessera_make_grant_(span, span == WH_TESSERA_CLOSED ? WH_TESSERA_LOOK
                                                                          : WH_TESSERA_PUBLISH);
        }
    }
    wh_tessera_begin_take_(own);
    const wh_tessera_claim claim =
        c < core.n_small
            ? wh_tessera_seek_(g, shard, wh_tessera_next_chunks_(core, cls, ask.last, 0),
                               cls.chunks)
            : wh_tessera_claim_large_(core, cls);
    if (claim.n == 0) {
        wh_store_u64_release(&cursor->span, WH_TESSERA_CLOSED);
        wh_tessera_end_take_(own);
        return wh_tessera_make_grant_(WH_TESSERA_CLOSED, WH_TESSERA_NONE);
    }
    const uint32_t slots = wh_tessera_claimed_slots_(core, c, cls, claim.n);
    return wh_tessera_make_grant_(wh_tessera_span(claim.first, slots, 0), WH_TESSERA_PUBLISH);
}

/* Slots of the cursor for a group of n; if it is closed, of partial slabs. Where there are none,
 * the group refills it (C1): but not while the heap seems empty, or others search for all, who wait
 * for takes to end. */
WH_FN_SLOW wh_tessera_grant wh_tessera_look_(const wh_tessera_core *g, wh_tessera_ask ask) {
    uint64_t *at = &wh_tessera_cursor_at_(*g, ask.shard, ask.c)->span;
    uint64_t span = ask.rung == WH_TESSERA_PARTIAL ? WH_TESSERA_CLOSED : wh_load_u64_relaxed(at);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_CLOSED, WH_TESSERA_LOOK);
    if (wh_tessera_is_open(span)) {
        grant.span = WH_PLANT_ORDER(tessera_p2_look, wh_fetch_add_u64,
                                    acquire)(at, ask.n * WH_TESSERA_POSITION);    /* P2, I1 */
        grant.next = wh_tessera_passes_end(grant.span, ask.n) ? WH_TESSERA_REFILL /* C1 */
                                                              : WH_TESSERA_LOOK;
    } else if (wh_tessera_is_closed(span)) {
        grant = wh_tessera_partial_(g, ask);
        if (grant.bits == 0 && !wh_tessera_any_chunks_(*g)) {
            grant.next = WH_TESSERA_NONE;
        } else if (grant.bits == 0 &&
                   wh_load_u32_relaxed(&wh_tessera_header_of_(g)->search_lock) == 0 &&
                   wh_cas_u64_relaxed(at, span, WH_TESSERA_UNDER_WAY) == span) { /* C1 */
            grant.next = WH_TESSERA_REFILL;
        }
    }
    return grant;
}

/* --- closing ----------------------------------------------------------------------------- */

/* The k-th span of all. */
WH_FN uint64_t *wh_tessera_span_at_(wh_tessera_core g, uint32_t k) {
    return &wh_tessera_cursor_at_(g, k / WH_TESSERA_CLASSES, k % WH_TESSERA_CLASSES)->span;
}

/* Chunks of slabs of a span of small class c that nobody has used go back to the pool, all at once:
 * slab by slab, by lanes that take turns, closing all cursors took 55 ms (8 GiB, H200). In a take.
 */
WH_FN void wh_tessera_give_unused_(wh_tessera_core g, uint32_t shard, uint32_t c, uint32_t first,
                                   uint32_t chunks) {
    wh_tessera_forget_(g, first, chunks);
    WH_NO_UNROLL
    while (chunks != 0) { /* a first span goes over ends of words of the pool */
        const uint32_t rest = 64 - (first & 63), n = chunks < rest ? chunks : rest;
        wh_tessera_return_slabs_(g, wh_tessera_shard_at_(g, shard), c, first, n);
        first += n;
        chunks -= n;
    }
}

/* Takes what is left of the k-th span, and makes it free for all. 1: it had slots. P4 */
WH_FN_SLOW int wh_tessera_close_(const wh_tessera_core *g, uint32_t shard, uint32_t k) {
    uint64_t *at = wh_tessera_span_at_(*g, k);
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[k % WH_TESSERA_CLASSES];
    const uint64_t span = wh_load_u64_relaxed(at);
    if (!wh_tessera_has_slots(span)) {
        return 0;
    }
    wh_tessera_begin_take_(wh_tessera_shard_at_(*g, shard));
    const int any = WH_PLANT_ORDER(tessera_p2_close, wh_cas_u64,
                                   acq_rel)(at, span, WH_TESSERA_CLOSED) == span; /* P2, I1 */
    if (any) {
        const uint32_t position = wh_tessera_span_position(span);
        const uint32_t slabs = wh_tessera_divide(wh_tessera_span_slots(span), cls.by_slots);
        uint32_t slab = wh_tessera_divide(position, cls.by_slots);
        uint32_t first = wh_tessera_span_first(span) + slab * cls.chunks;
        if (slabs < 2 || position != slab * cls.slots) {
            wh_tessera_give_rest_(g, shard, first, position - slab * cls.slots);
            first += cls.chunks;
            slab++;
        }
        if (slab < slabs) {
            wh_tessera_give_unused_(*g, shard, k % WH_TESSERA_CLASSES, first,
                                    (slabs - slab) * cls.chunks);
        }
    }
    wh_tessera_end_take_(wh_tessera_shard_at_(*g, shard));
    return any;
}

/* Closes all cursors that have slots left, and makes these free for all. 1: there were some. All
 * lanes of mask, eight spans each at a time: mostly none has slots. */
WH_FN_SLOW int wh_tessera_close_all_(const wh_tessera_core *g, wh_mask mask, uint32_t shard) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint32_t n = g->n_shards * WH_TESSERA_CLASSES, lanes = wh_popc32(mask);
    int any = 0;
    WH_NO_UNROLL
    for (uint32_t first = wh_mask_rank(mask); first < n; first += 8 * lanes) {
        uint32_t some = 0;
        for (uint32_t j = 0; j < 8; j++) {
            const uint32_t k = first + j * lanes < n ? first + j * lanes : first;
            some |= (uint32_t)wh_tessera_has_slots(wh_load_u64_relaxed(wh_tessera_span_at_(*g, k)))
                    << j;
        }
        WH_NO_UNROLL
        for (; some != 0; some &= some - 1) {
            const uint32_t k = first + wh_ctz32(some) * lanes;
            any |= wh_tessera_close_(g, shard, k < n ? k : first);
        }
    }
    wh_syncwarp(mask);
    return wh_any(mask, any);
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/tessera2/cursor.h: from the pool to a cursor and back: spans, who refills, hints, and what
 * closes cursors. This file may change: it is no part of the API.
 *
 * span    an add, acquire, takes slots. The refiller: store release. A lane that closes the cursor:
 *         cas acq_rel, if it has slots. A lane that finds it closed: cas, relaxed, to UNDER_WAY
 * spare   the refiller takes it, or a lane that closes the cursor: cas acquire, to VACANT. Who
 * fills it: cas, relaxed, from VACANT to UNDER_WAY, then store release hints   stores, relaxed
 *
 * C1      one lane refills a cursor at a time: the one whose add passed the end of its span, or
 *         that changed CLOSED to UNDER_WAY. From then on to its store the position is past the end
 * I8      a cursor never takes a span of more than eight times the slots of its last one, nor of
 * more than a 32nd of the shard's home chunks that are left, but for one slab. Its first span is
 *         layout.h's
 *
 * P2      refiller: tags and words of a span, then its store, release -> the add that takes slots
 *         of it, acquire; other lanes by a sync behind that
 *
 * Progress  lanes wait for a refiller: for its claim of chunks, of bounded length, and for a search
 *         for all (oom.h), which ends
 * Check   tests/conform, tests/stress, wh_tessera2_check
 */
#ifndef WH_ALLOC_TESSERA2_CURSOR_H
#define WH_ALLOC_TESSERA2_CURSOR_H

#include "warpheap/detail/alloc/tessera2/slab.h"

#include "warpheap/detail/simt/begin.h"

/* --- what a step found for a group of lanes --------------------------------------------- */

#define WH_TESSERA2_LOOK 0u          /* look at the cursor and its hints */
#define WH_TESSERA2_LIST 1u          /* look at the list: the cursor is closed */
#define WH_TESSERA2_FRESH 2u         /* it is the refiller, and owes the cursor a span */
#define WH_TESSERA2_NONE 3u          /* nothing that it knows of: search */
#define WH_TESSERA2_DONE 4u          /* there is nothing */
#define WH_TESSERA2_SPARE 5u         /* it has refilled the cursor, and fills the spare span */
#define WH_TESSERA2_PUBLISH_SPARE 6u /* it has claimed the spare span */
#define WH_TESSERA2_PUBLISH 7u       /* it has claimed a span for the cursor */

typedef struct wh_tessera2_grant {
    uint64_t at;   /* bits = 0: a span, the slots from its position on; else chunk of a slab << 5
                    * and the word of it */
    uint64_t bits; /* slots of that word */
    uint32_t next; /* WH_TESSERA2_LOOK and so on: what is next for those who got nothing */
} wh_tessera2_grant;

WH_FN wh_tessera2_grant wh_tessera2_make_grant_(uint64_t at, uint64_t bits, uint32_t next) {
    wh_tessera2_grant grant;
    grant.at = at;
    grant.bits = bits;
    grant.next = next;
    return grant;
}

/* Address of slot `position` of a span. */
WH_FN void *wh_tessera2_slot_(unsigned char *base, uint32_t chunk_log2, wh_tessera2_class cls,
                              uint32_t first, uint32_t position) {
    const uint32_t slab = wh_tessera2_divide(position, cls.by_slots);
    unsigned char *p = base + ((uint64_t)(first + slab * cls.chunks) << chunk_log2);
    return p + wh_mul_wide_u32(position - slab * cls.slots, cls.slot_size);
}

/* Slot number `rank` of those that an add to a cursor returned; NULL: it has so many no more. */
WH_FN void *wh_tessera2_nth_(unsigned char *base, uint32_t chunk_log2, wh_tessera2_class cls,
                             uint64_t span, uint32_t rank) {
    const uint32_t position = wh_tessera2_span_position(span) + rank;
    return position < wh_tessera2_span_slots(span)
               ? wh_tessera2_slot_(base, chunk_log2, cls, wh_tessera2_span_first(span), position)
               : NULL;
}

/* The same of any grant. */
WH_FN void *wh_tessera2_granted_(const wh_tessera2_core *g, wh_tessera2_class cls,
                                 wh_tessera2_grant grant, uint32_t rank) {
    if (grant.bits == 0) {
        return wh_tessera2_nth_(g->base, g->chunk_log2, cls, grant.at, rank);
    }
    if (rank >= wh_popc64(grant.bits)) {
        return NULL;
    }
    const uint32_t slot =
        (wh_low_u32(grant.at) & 31) * WH_TESSERA2_WORD_SLOTS + wh_select64(grant.bits, rank);
    return g->base + ((grant.at >> 5) << g->chunk_log2) + wh_mul_wide_u32(slot, cls.slot_size);
}

/* --- hints ------------------------------------------------------------------------------ */

WH_FN void wh_tessera2_hint_(wh_tessera2_cursor *cursor, uint32_t seed, uint32_t slab, uint32_t i) {
    wh_store_u32_relaxed(&cursor->hints[(seed & 0xffff) * WH_TESSERA2_HINTS >> 16],
                         1 + (slab << 5 | i));
}

/* --- steps of a lane for its group: n slots ------------------------------------------------ */

/* Slots of the cursor, or where a hint leads. */
WH_FN_SLOW wh_tessera2_grant wh_tessera2_look_(const wh_tessera2_core *g, uint32_t shard,
                                               uint32_t c, uint32_t n, uint32_t seed) {
    wh_tessera2_cursor *cursor = wh_tessera2_cursor_at_(*g, shard, c);
    const uint64_t span = wh_load_u64_relaxed(&cursor->span);
    if (wh_tessera2_is_open(span)) {
        const uint64_t got =
            wh_fetch_add_u64_acquire(&cursor->span, n * WH_TESSERA2_POSITION); /* P2, I1 */
        return wh_tessera2_make_grant_(
            got, 0, wh_tessera2_passes_end(got, n) ? WH_TESSERA2_FRESH : WH_TESSERA2_LOOK);
    }
    uint32_t *at = &cursor->hints[(seed & 0xffff) * WH_TESSERA2_HINTS >> 16];
    const uint32_t hint = wh_load_u32_relaxed(at);
    if (hint != 0) {
        const uint64_t bits =
            wh_tessera2_take_slots_(g, shard, c, wh_tessera2_header_of_(g)->classes[c].slots,
                                    (hint - 1) >> 5, (hint - 1) & 31, n, seed * 5);
        if (bits != 0) {
            return wh_tessera2_make_grant_(hint - 1, bits, WH_TESSERA2_LOOK);
        }
        wh_store_u32_relaxed(at, 0);
    }
    return wh_tessera2_make_grant_(
        0, 0, wh_tessera2_is_closed(span) ? WH_TESSERA2_LIST : WH_TESSERA2_LOOK);
}

#define WH_TESSERA2_LIST_TRIES 3u

/* Slots of a partial slab; at least `least` words of the list must have more than that. */
WH_FN_SLOW wh_tessera2_grant wh_tessera2_listed_(const wh_tessera2_core *g, uint32_t shard,
                                                 uint32_t c, uint32_t n, uint32_t seed,
                                                 uint32_t least) {
    const wh_tessera2_core core = *g;
    const wh_veb list = wh_tessera2_partial_list_(core, c);
    const uint32_t slots = wh_tessera2_header_of_(g)->classes[c].slots;
    const uint32_t n_words = wh_tessera2_words_for(slots);
    wh_tessera2_shard *own = wh_tessera2_shard_at_(core, shard);
    const int scarce = !wh_tessera2_any_chunks_(core);
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < (scarce ? 4 : 1) * WH_TESSERA2_LIST_TRIES; tries++) {
        uint32_t at = seed;
        const uint64_t w = wh_veb_pick_word(list, &at, scarce || (seed & 7) == 0);
        const uint64_t items = w != WH_VEB_NONE ? wh_load_u64_relaxed(wh_veb_word(list, w)) : 0;
        if (w != WH_VEB_NONE && items == 0 && (scarce || (seed & 7) == 0)) {
            wh_veb_emptied(list, w);
        }
        if (wh_popc64(items) < least) {
            break;
        }
        const uint32_t slab = (uint32_t)w << 6 | wh_pick64(items, &at);
        uint32_t i = wh_high_u32(wh_mul_wide_u32(at, n_words));
        WH_NO_UNROLL
        for (uint32_t k = 0; k < n_words; k++) {
            const uint64_t bits = wh_tessera2_take_slots_(g, shard, c, slots, slab, i, n, seed * 5);
            if (bits != 0) {
                wh_tessera2_hint_(&own->cursors[c], seed, slab, i);
                return wh_tessera2_make_grant_((uint64_t)slab << 5 | i, bits, WH_TESSERA2_LOOK);
            }
            i = i + 1 < n_words ? i + 1 : 0;
        }
        /* One of eight removes it, while there are chunks: lists change seldom then, since their
         * upper levels are few words. */
        if ((scarce || (seed >> 8 & 7) == 0) &&
            wh_load_u32_relaxed(&wh_tessera2_header_of_(g)->search_lock) == 0) { /* oom.h */
            wh_tessera2_remove_partial_(core, own, c, n_words, slab);
        }
        seed += 0x6a09e667u; /* the root of 2, its fraction */
    }
    return wh_tessera2_make_grant_(0, 0, WH_TESSERA2_FRESH);
}

/* Tags and words of a span of slabs with this tag, whose slots are all a cursor's: lane `rank` of n
 * that share the work. */
WH_FN void wh_tessera2_format_(wh_tessera2_core g, uint64_t tag, uint32_t first, uint32_t chunks,
                               uint32_t rank, uint32_t n) {
    const uint32_t of_slab = wh_tessera2_tag_chunks(tag);
    uint64_t *tags = wh_tessera2_tag_at_(g, first);
    uint32_t at = rank % of_slab; /* number of the chunk in its slab */
    WH_NO_UNROLL
    for (uint32_t k = rank; k < chunks; k += n) {
        wh_store_u64_relaxed(&tags[k], tag + at * WH_TESSERA2_NEXT_TAG);
        if (at == 0) { /* it may be GONE */
            wh_store_u64_relaxed(wh_tessera2_words_of_(g, first + k), 0);
        }
        at += n;
        at -= at >= of_slab ? at / of_slab * of_slab : 0;
    }
}

/* Chunks for slabs of a large class: just one, from the back of the heap, where runs are. */
WH_FN wh_tessera2_claim wh_tessera2_claim_large_(wh_tessera2_core g, wh_tessera2_class cls) {
    wh_tessera2_header *header = wh_tessera2_header_(g);
    wh_tessera2_claim claim;
    claim.first = claim.n = 0;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA2_HOME_TRIES && claim.n == 0; tries++) {
        const uint32_t next = wh_fetch_add_u32_relaxed(&header->run_next, cls.chunks);
        if (next > g.n_chunks - cls.chunks) {
            break;
        }
        const uint32_t first = g.n_chunks - cls.chunks - next;
        if (wh_veb_claim_range(wh_tessera2_pool_(g), first, cls.chunks)) {
            claim.first = first;
            claim.n = cls.chunks;
        }
    }
    return claim;
}

/* Home chunks of the shard that have not been asked for yet. */
WH_FN uint32_t wh_tessera2_home_left_(wh_tessera2_core g, wh_tessera2_shard *own) {
    const uint32_t next = wh_low_u32(wh_load_u64_relaxed(&own->takes));
    return next < g.home_chunks ? g.home_chunks - next : 0;
}

/* Chunks that a cursor asks for whose last span had so many slots: I8. */
WH_FN uint32_t wh_tessera2_next_chunks_(wh_tessera2_core g, wh_tessera2_class cls, uint32_t last,
                                        uint32_t home_left) {
    const uint32_t more = wh_tessera2_divide(last, cls.by_slots) * cls.chunks << 3;
    const uint32_t share = home_left >> 5;
    uint32_t most = 1u << g.max_span_log2;
    most = share < most ? 1u << wh_log2_floor(share | 1) : most;
    most = more < most ? more : most;
    return most < cls.chunks ? cls.chunks : most;
}

/* Chunks for a span of class c. Begins a take, which the caller ends. */
WH_FN_SLOW wh_tessera2_claim wh_tessera2_claim_span_(const wh_tessera2_core *g, uint32_t shard,
                                                     uint32_t c, uint32_t last) {
    const wh_tessera2_core core = *g;
    wh_tessera2_shard *own = wh_tessera2_shard_at_(core, shard);
    const wh_tessera2_class cls = wh_tessera2_header_of_(g)->classes[c];
    const int is_large = c >= core.n_small;
    const uint32_t most =
        wh_tessera2_next_chunks_(core, cls, last, wh_tessera2_home_left_(core, own));
    wh_tessera2_claim claim;
    claim.n = 0;
    wh_tessera2_begin_take_(own);
    WH_NO_UNROLL
    for (uint32_t tries = 0; !is_large && claim.n == 0 && tries < WH_TESSERA2_HOME_TRIES; tries++) {
        if (wh_low_u32(wh_load_u64_relaxed(&own->takes)) >= core.home_chunks) {
            break;
        }
        claim = wh_tessera2_claim_home_(core, own, shard, most, cls.chunks, tries != 0);
        wh_add_u32_relaxed(&own->takes_done, 1); /* the take goes on */
    }
    if (claim.n == 0) {
        claim = is_large ? wh_tessera2_claim_large_(core, cls)
                         : wh_tessera2_seek_(g, shard, most, cls.chunks);
    }
    return claim;
}

/* Fills the spare span, for a lane that has refilled the cursor. */
WH_FN_SLOW wh_tessera2_grant wh_tessera2_fill_spare_(const wh_tessera2_core *g, uint32_t shard,
                                                     uint32_t c, uint32_t last) {
    const wh_tessera2_core core = *g;
    wh_tessera2_shard *own = wh_tessera2_shard_at_(core, shard);
    const wh_tessera2_class cls = wh_tessera2_header_of_(g)->classes[c];
    uint64_t *at = &own->cursors[c].spare;
    /* Not while half of the memory is in use: two spans hold twice as much. */
    if (c >= core.n_small || wh_tessera2_home_left_(core, own) <= core.home_chunks / 2 ||
        wh_load_u32_relaxed(&wh_tessera2_header_of_(g)->search_lock) != 0 ||
        wh_cas_u64_relaxed(at, WH_TESSERA2_VACANT, WH_TESSERA2_UNDER_WAY) != WH_TESSERA2_VACANT) {
        return wh_tessera2_make_grant_(0, 0, WH_TESSERA2_LOOK);
    }
    const wh_tessera2_claim claim = wh_tessera2_claim_span_(g, shard, c, last);
    if (claim.n >= cls.chunks) {
        return wh_tessera2_make_grant_(
            wh_tessera2_span(claim.first, claim.n / cls.chunks * cls.slots, 0), 0,
            WH_TESSERA2_PUBLISH_SPARE);
    }
    if (claim.n != 0) {
        wh_tessera2_put_chunks_(core, own, claim.first, claim.n);
    }
    wh_store_u64_release(at, WH_TESSERA2_VACANT);
    wh_tessera2_end_take_(own);
    return wh_tessera2_make_grant_(0, 0, WH_TESSERA2_LOOK);
}

#define WH_TESSERA2_DENSE 16u /* partial slabs in a word of the list: enough to take from */

/* The refiller's step (C1): slots of partial slabs, if the class has many; then the cursor closes.
 * Or chunks from the pool: the grant is the span, and goes on: format_, publish_. Or the cursor
 * closes. last: slots of the span that was used up. */
WH_FN_SLOW wh_tessera2_grant wh_tessera2_refill_(const wh_tessera2_core *g, uint32_t shard,
                                                 uint32_t c, uint32_t n, uint32_t last,
                                                 uint32_t seed) {
    const wh_tessera2_core core = *g;
    wh_tessera2_shard *own = wh_tessera2_shard_at_(core, shard);
    wh_tessera2_cursor *cursor = &own->cursors[c];
    const wh_tessera2_class cls = wh_tessera2_header_of_(g)->classes[c];
    const int is_large = c >= core.n_small;
    const int any_listed = wh_tessera2_any_listed_(core, c);
    const int any_chunks = wh_tessera2_any_chunks_(core);
    wh_tessera2_grant grant = wh_tessera2_make_grant_(0, 0, WH_TESSERA2_FRESH);
    const uint64_t spare = wh_load_u64_relaxed(&cursor->spare);
    if (wh_tessera2_has_slots(spare) &&
        wh_cas_u64_acquire(&cursor->spare, spare, WH_TESSERA2_VACANT) == spare) {
        const int over = n > wh_tessera2_span_slots(spare);
        wh_store_u64_release(&cursor->span, over ? WH_TESSERA2_UNDER_WAY
                                                 : spare + n * WH_TESSERA2_POSITION); /* P2 */
        return wh_tessera2_make_grant_(spare, 0, over ? WH_TESSERA2_FRESH : WH_TESSERA2_SPARE);
    }
    if (n != 0 && any_listed) {
        grant = wh_tessera2_listed_(g, shard, c, n, seed, is_large ? 1 : WH_TESSERA2_DENSE);
    }
    if (grant.bits != 0 || !any_chunks) {
        wh_store_u64_release(&cursor->span, WH_TESSERA2_CLOSED);
        grant.next = grant.bits != 0 ? WH_TESSERA2_LOOK : WH_TESSERA2_NONE;
        return grant;
    }
    if (wh_load_u32_relaxed(&wh_tessera2_header_of_(g)->search_lock) != 0) { /* oom.h */
        return grant;
    }
    const wh_tessera2_claim claim = wh_tessera2_claim_span_(g, shard, c, last);
    if (claim.n >= cls.chunks) {
        const uint32_t slots = claim.n / cls.chunks * cls.slots;
        return wh_tessera2_make_grant_(wh_tessera2_span(claim.first, slots, 0), 0,
                                       WH_TESSERA2_PUBLISH);
    }
    grant.next = WH_TESSERA2_NONE;
    if (claim.n != 0 && n == 0) { /* nobody waits for a smaller slab than is usual */
        wh_tessera2_put_chunks_(core, own, claim.first, claim.n);
    } else if (claim.n != 0) {
        const uint64_t tag = wh_tessera2_slab_tag(c, claim.n, cls.slot_size);
        const uint64_t all = wh_tessera2_all_slots(wh_tessera2_tag_slots(tag, core.chunk_log2), 0);
        grant = wh_tessera2_make_grant_((uint64_t)claim.first << 5, wh_tessera2_choose_(all, 0, n),
                                        WH_TESSERA2_LOOK);
        wh_tessera2_open_slab_(core, tag, claim.first, grant.bits);
    }
    wh_store_u64_release(&cursor->span, WH_TESSERA2_CLOSED);
    wh_tessera2_end_take_(own);
    return grant;
}

/* The refiller publishes a span that it has claimed, and that is formatted; n slots are its
 * group's. What is next for it: if they use the span up, it remains the refiller. */
WH_FN uint32_t wh_tessera2_publish_(wh_tessera2_shard *own, uint32_t c, uint64_t span, uint32_t n) {
    const int over = n > wh_tessera2_span_slots(span);
    WH_PLANT(tessera2_p2_publish, wh_store_u64_release, wh_store_u64_relaxed)
    (&own->cursors[c].span,
     over ? WH_TESSERA2_UNDER_WAY : span + n * WH_TESSERA2_POSITION); /* P2 */
    wh_tessera2_end_take_(own);
    return over ? WH_TESSERA2_FRESH : WH_TESSERA2_SPARE;
}

/* The same of a spare span. */
WH_FN uint32_t wh_tessera2_publish_spare_(wh_tessera2_shard *own, uint32_t c, uint64_t span) {
    wh_store_u64_release(&own->cursors[c].spare, span); /* P2 */
    wh_tessera2_end_take_(own);
    return WH_TESSERA2_LOOK;
}

/* A lane that found its cursor closed, and nothing on the list: whether it refills now (C1). Not
 * while the pool seems empty, or others search for all: they wait for takes to end. */
WH_FN uint32_t wh_tessera2_reopen_(const wh_tessera2_core *g, uint32_t shard, uint32_t c) {
    uint64_t *at = &wh_tessera2_cursor_at_(*g, shard, c)->span;
    const uint64_t span = wh_load_u64_relaxed(at);
    if (!wh_tessera2_any_chunks_(*g)) {
        return WH_TESSERA2_NONE;
    }
    return wh_load_u32_relaxed(&wh_tessera2_header_of_(g)->search_lock) == 0 &&
                   wh_tessera2_is_closed(span) &&
                   wh_cas_u64_relaxed(at, span, WH_TESSERA2_UNDER_WAY) == span
               ? WH_TESSERA2_FRESH
               : WH_TESSERA2_LOOK;
}

/* --- closing ----------------------------------------------------------------------------- */

/* The k-th span or spare span of all. */
WH_FN uint64_t *wh_tessera2_span_at_(wh_tessera2_core g, uint32_t k) {
    const uint32_t cursor = k >> 1;
    wh_tessera2_cursor *at =
        wh_tessera2_cursor_at_(g, cursor / WH_TESSERA2_CLASSES, cursor % WH_TESSERA2_CLASSES);
    return (k & 1) == 0 ? &at->span : &at->spare;
}

/* Takes what is left of the k-th span, and makes it free for all. 1: it had slots. P4 */
WH_FN_SLOW int wh_tessera2_close_(const wh_tessera2_core *g, uint32_t shard, uint32_t k) {
    uint64_t *at = wh_tessera2_span_at_(*g, k);
    const wh_tessera2_class cls = wh_tessera2_header_of_(g)->classes[k / 2 % WH_TESSERA2_CLASSES];
    const uint64_t span = wh_load_u64_relaxed(at);
    int any = 0;
    if (!wh_tessera2_has_slots(span)) {
        return 0;
    }
    wh_tessera2_begin_take_(wh_tessera2_shard_at_(*g, shard));
    if (wh_cas_u64_acq_rel(at, span, (k & 1) == 0 ? WH_TESSERA2_CLOSED : WH_TESSERA2_VACANT) ==
        span) { /* I1 */
        const uint32_t end = wh_tessera2_span_slots(span);
        uint32_t slab = wh_tessera2_divide(wh_tessera2_span_position(span), cls.by_slots);
        WH_NO_UNROLL
        for (uint32_t from = wh_tessera2_span_position(span); from < end; slab++) {
            const uint32_t start = slab * cls.slots;
            wh_tessera2_give_rest_(g, shard, wh_tessera2_span_first(span) + slab * cls.chunks,
                                   from - start);
            from = start + cls.slots;
        }
        any = 1;
    }
    wh_tessera2_end_take_(wh_tessera2_shard_at_(*g, shard));
    return any;
}

/* Closes all cursors that have slots left, and makes these free for all. 1: there were some. All
 * lanes of mask, eight spans each at a time: mostly none has slots. */
WH_FN_SLOW int wh_tessera2_close_all_(const wh_tessera2_core *g, wh_mask mask, uint32_t shard) {
    wh_assert_internal(wh_tessera2_in_mask_(mask));
    const uint32_t n = 2 * g->n_shards * WH_TESSERA2_CLASSES, lanes = wh_popc32(mask);
    int any = 0;
    WH_NO_UNROLL
    for (uint32_t first = wh_mask_rank(mask); first < n; first += 8 * lanes) {
        uint32_t some = 0;
        for (uint32_t j = 0; j < 8; j++) {
            const uint32_t k = first + j * lanes < n ? first + j * lanes : first;
            some |=
                (uint32_t)wh_tessera2_has_slots(wh_load_u64_relaxed(wh_tessera2_span_at_(*g, k)))
                << j;
        }
        WH_NO_UNROLL
        for (; some != 0; some &= some - 1) {
            const uint32_t k = first + wh_ctz32(some) * lanes;
            any |= wh_tessera2_close_(g, shard, k < n ? k : first);
        }
    }
    wh_syncwarp(mask);
    return wh_any(mask, any);
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/tessera/spans.h: spans: from the pool to a cursor. Where a refiller seeks and claims
 * chunks, how it formats them as slabs, and how it attaches the span. This file may change: it is
 * no part of the API.
 *
 * Cursor  span, spare: malloc: fetch_add of the position, acquire. The refiller (C1): store
 *         release. detach: cas to CLOSED. reopen: cas from CLOSED (span: to UNDER_WAY; spare: to
 *         VACANT)
 * C1      refiller: the lane whose add passes the last slot of a span, from at or before it. There
 *         is one for each published span, since positions only grow, and it alone stores the word's
 *         next value. Positions do not overflow: a lane that finds one MOST_OVER past the end adds
 *         to neither word of the cursor until that one has changed (wh_tessera_is_over_)
 * I8      held = the chunks of what the shard's cursors have in them, when quiet
 * P2      span published: store release -> malloc: fetch_add acquire. What the other lanes of the
 *         refiller's warp have claimed (steps.h P3), formatted and begun (steps.h P4) comes before:
 *         a sync of them
 *
 * Progress  a refiller waits for nobody. A full warp's comes again only when it has seen free words
 *         in one of the shard's stripes, and gets these unless another take was faster
 * Check   tests/unit/tessera_spans.c (C1, P2), tests/unit/tessera_warps.c (C1: no word overflows),
 *         tests/fault/tessera.c (P2), wh_tessera_check (I8)
 */
#ifndef WH_ALLOC_TESSERA_SPANS_H
#define WH_ALLOC_TESSERA_SPANS_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tessera/slab.h"

#include "warpheap/detail/simt/begin.h"

/* Claims chunks for a span of up to 2^most chunks, at least 2^least, near the chunk that `ticket`
 * gives: first chunk | chunks << 32; 0 if a bounded search found none. Between begin_take and
 * end_take. */
WH_FN_SLOW uint64_t wh_tessera_claim_span_(const wh_tessera_core *g, uint32_t shard,
                                           uint32_t ticket, uint32_t most, uint32_t least) {
    wh_assert_internal(shard < g->n_shards && least <= most && most <= WH_TESSERA_MAX_SPAN_LOG2);
    wh_assert_expensive(wh_tessera_in_take_(wh_tessera_shard_at_(*g, shard)));
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint32_t place = wh_tessera_search_start_(g->n_chunks, g->n_shards, shard, ticket, most);
    const uint64_t start = place < g->n_chunks ? place : 0;
    uint64_t x = start;
    int wrapped = 0;
    WH_NO_UNROLL
    for (uint32_t words = 0; words < 16;) {
        x = wh_veb_successor(pool, x);
        if (x == WH_VEB_NONE) {
            if (wrapped) {
                wh_veb_settle(pool, 0);
                return 0;
            }
            wh_veb_settle(pool, start);
            wrapped = 1;
            x = 0;
            continue;
        }
        const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(pool, x >> 6));
        uint32_t order = most, at = 64;
        WH_NO_UNROLL
        for (;; order--) {
            at = wh_tessera_fit_(bits, order);
            if (at < 64 || order == least) {
                break;
            }
        }
        if (at == 64) {
            x = ((x >> 6) + 1) << 6;
            words++;
        } else {
            const uint32_t chunk = (uint32_t)(x & ~(uint64_t)63) + at;
            if (wh_tessera_claim_n_(*g, chunk, 1u << order)) {
                return chunk | (uint64_t)1 << (order + 32);
            }
            words++;
        }
    }
    return 0;
}

/* Claimed chunks get the tag of their new slabs, and words of slabs with no slot free: lane `rank`
 * of `n`. alone: a constant, n is 1. */
WH_FN void wh_tessera_format_(wh_tessera_core g, uint64_t tag, uint32_t first, uint32_t chunks,
                              uint32_t rank, uint32_t n, int alone) {
    wh_assert_internal(wh_tessera_kind(tag) == WH_TESSERA_SLAB && rank < n && (!alone || n == 1));
    wh_assert_internal(((first | chunks) & (wh_tessera_tag_chunks(tag) - 1)) == 0);
    wh_assert_internal(first + chunks <= g.n_chunks);
    const uint32_t step = wh_tessera_tag_order(tag) + wh_tessera_words_log2(g.chunk_log2);
    const uint32_t slabs = chunks >> wh_tessera_tag_order(tag);
    uint64_t *tags = wh_tessera_tag_at_(g, first) + rank; /* moved on: the fewest instructions */
    uint64_t *words = wh_tessera_words_of_(g, first) + ((uint64_t)rank << step);
    uint32_t at = rank;
    if (alone) { /* it has all 64 */
        WH_NO_UNROLL
        for (; at + 15 < chunks; at += 16, tags += 16) {
            for (uint32_t k = 0; k < 16; k++) {
                wh_store_u64_relaxed(&tags[k], tag);
            }
        }
    }
    WH_NO_UNROLL
    for (; at < chunks; at += n, tags += n) {
        wh_store_u64_relaxed(tags, tag);
    }
    WH_NO_UNROLL
    for (uint32_t i = rank; i < slabs; i += n) { /* they may be all ones: I2 */
        wh_store_u64_relaxed(words, 0);
        words += (uint64_t)n << step;
    }
    if (wh_tessera_tag_slots(tag, g.chunk_log2) > 64) { /* of one chunk each */
        if (WH_PLANT(tessera_p7_state, 1, 0)) {
            wh_fence(); /* P7 */
        }
        WH_NO_UNROLL
        for (uint32_t i = rank; i < chunks; i += n) {
            wh_store_u32_relaxed(wh_tessera_state_at_(g, first + i), /* P7 */
                                 wh_tessera_fresh_state(wh_tessera_tag_slots(tag, g.chunk_log2)));
        }
    }
}

/* For every lane of mask that has claimed chunks for a span (chunks != 0): all lanes format them,
 * one span after the other. */
WH_FN void wh_tessera_format_all_(wh_tessera_core g, wh_mask mask, uint64_t tag, uint32_t first,
                                  uint32_t chunks) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint32_t rank = wh_mask_rank(mask), n = wh_popc32(mask);
    const wh_mask spans = wh_ballot(mask, chunks != 0);
    WH_NO_UNROLL
    for (wh_mask m = spans; m != 0; m &= m - 1) {
        const uint32_t lane = wh_mask_leader(m);
        wh_tessera_format_(g, wh_shfl_u64(mask, tag, lane), wh_shfl_u32(mask, first, lane),
                           wh_shfl_u32(mask, chunks, lane), rank, n, 0);
    }
    wh_syncwarp(mask);
}

/* For every lane of mask that has claimed chunks for a span of its class: the span; 0 for the
 * others. */
WH_FN uint64_t wh_tessera_make_span_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                     uint32_t c, uint64_t claim) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_internal(claim == 0 || c < g->n_classes);
    const uint32_t chunks = (uint32_t)(claim >> 32);
    const uint32_t own_shard = chunks != 0 ? c : 0;
    const wh_tessera_header *header = wh_tessera_header_of_(g);
    const wh_tessera_class cls = header->classes[own_shard];
    wh_tessera_format_all_(*g, mask, wh_tessera_with_shard(header->slab_tags[own_shard], shard),
                           (uint32_t)claim, chunks);
    return chunks == 0
               ? 0
               : wh_tessera_span((uint32_t)claim, cls.slots * (chunks >> wh_tessera_order(cls)), 0);
}

/* Word 0 or 1 of a cursor: its span or its spare one. */
WH_FN uint64_t *wh_tessera_word_(wh_tessera_cursor *cursor, uint32_t which) {
    wh_assert_internal(which < 2);
    return which == 0 ? &cursor->span : &cursor->spare;
}
WH_FN uint64_t *wh_tessera_span_at_(wh_tessera_core g, uint32_t shard, uint32_t c, uint32_t which) {
    return wh_tessera_word_(wh_tessera_cursor_at_(g, shard, c), which);
}

/* C1, P2: attaches a span to a cursor of the shard `own`, of which the caller takes the first r
 * slots itself; or closes. */
WH_FN void wh_tessera_publish_(wh_tessera_shard *own_shard, uint32_t c, uint32_t which,
                               uint64_t span, uint32_t r) {
    wh_assert_internal(span == WH_TESSERA_CLOSED || wh_tessera_span_position(span) == 0);
    wh_assert_expensive(!wh_tessera_has_slots_(
        wh_load_u64_relaxed(wh_tessera_word_(&own_shard->cursors[c], which))));
    const uint32_t slots = wh_tessera_span_slots(span);
    wh_add_u32_relaxed(&own_shard->attached, slots != 0); /* X1 */
    wh_store_u32_relaxed(&own_shard->skip_home, 0);
    WH_PLANT(tessera_p2_publish, wh_store_u64_release, wh_store_u64_relaxed)
    (wh_tessera_word_(&own_shard->cursors[c], which),
     span + (r < slots ? r : slots) * WH_TESSERA_POSITION);
}

/* Whether the caller has opened a word of a cursor that is closed; it is `as` then. */
WH_FN int wh_tessera_reopen_(uint64_t *at, uint64_t value) {
    wh_assert_internal(value == WH_TESSERA_UNDER_WAY || value == WH_TESSERA_VACANT);
    const uint64_t now = wh_load_u64_relaxed(at); /* lanes go on adding to it */
    return wh_tessera_span_first(now) == WH_TESSERA_CLOSED_CHUNK &&
           wh_cas_u64_acq_rel(at, now, value) == now;
}

/* Publishes a span of some slots. A cursor that was closed comes back with it: the first word, if
 * it is closed, has the span in place of the caller's, which then waits for a refiller; so does the
 * spare one, if that is. other: what the other word was, not long ago. */
WH_FN void wh_tessera_attach_(wh_tessera_shard *own_shard, uint32_t c, uint32_t which,
                              uint64_t span, uint32_t r, uint64_t other) {
    wh_assert_internal(wh_tessera_has_slots_(span));
    wh_tessera_cursor *cursor = &own_shard->cursors[c];
    const int closed = wh_tessera_span_first(other) == WH_TESSERA_CLOSED_CHUNK;
    int opens = 0;
    if (closed && which == 1) { /* before its own word is no longer under way */
        opens = wh_tessera_reopen_(&cursor->span, WH_TESSERA_UNDER_WAY);
    }
    wh_tessera_publish_(own_shard, c, opens ? 0 : which, span, r); /* C1, of that one, too */
    if (opens) {
        wh_store_u64_release(&cursor->spare, WH_TESSERA_VACANT);
    } else if (closed && which == 0) { /* last, since others wait for the span */
        (void)wh_tessera_reopen_(&cursor->spare, WH_TESSERA_VACANT);
    }
}

/* The slot at a position of a span. */
WH_FN unsigned char *wh_tessera_slot_(unsigned char *base, uint32_t chunk_bytes,
                                      wh_tessera_class cls, uint32_t first, uint32_t position) {
    wh_assert_internal(cls.slots != 0);
    const uint32_t slab = wh_tessera_divide(position, cls.by_slots);
    const uint32_t slot = position - slab * cls.slots;
    const uint32_t in_span = (slab << wh_tessera_slab_log2(cls)) + slot * cls.slot_size;
    return base + wh_mul_wide_u32(first, chunk_bytes) + in_span; /* a span has up to 8 MiB */
}

/* The slot `rank` places behind the position of a span; NULL: it has not so many. */
WH_FN void *wh_tessera_nth_(unsigned char *base, uint32_t chunk_bytes, wh_tessera_class cls,
                            uint64_t span, uint32_t rank) {
    const uint32_t position = wh_tessera_span_position(span) + rank;
    return position < wh_tessera_span_slots(span)
               ? wh_tessera_slot_(base, chunk_bytes, cls, wh_tessera_span_first(span), position)
               : NULL;
}

#define WH_TESSERA_OWN_TRIES 16u  /* four of the shard's home words each */
#define WH_TESSERA_FIRST_TRIES 2u /* ... before words anywhere, while these are scarce */
#define WH_TESSERA_HOME_EMPTY 16u /* searches that this lasts for, when they had nothing */
#define WH_TESSERA_ANY_TRIES 10u  /* one word each */

/* Some of a claim's chunks were free, but not all. P4 */
WH_FN_SLOW void wh_tessera_put_back_(const wh_tessera_core *g, uint32_t shard, uint32_t word,
                                     uint64_t chunks) {
    wh_assert_internal(chunks != 0);
    (void)wh_tessera_begin_take_(*g, shard);
    wh_veb_put_back(wh_tessera_pool_(*g), word, chunks);
    wh_add_u32_relaxed(&wh_tessera_shard_at_(*g, shard)->takes_done, 1); /* behind its fence */
}

/* Claims a span of up to 2^most chunks, at least 2^least, as large as there is, in four words of
 * the pool: `word` and three more, each `stride` further on. What it returns, and P4: as next_span.
 */
WH_FN uint64_t wh_tessera_span_near_(const wh_tessera_core *g, uint32_t shard, uint32_t word,
                                     uint32_t stride, uint32_t most, uint32_t least) {
    wh_assert_internal(least <= most && most <= WH_TESSERA_MAX_SPAN_LOG2);
    const wh_veb pool = wh_tessera_pool_(*g);
    const uint32_t n_words = g->n_chunks >> 6;
    const uint32_t word2 = word + 2 * stride;
    uint64_t w0 = word < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word)) : 0;
    uint64_t w1 =
        word + stride < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word + stride)) : 0;
    uint64_t w2 = word2 < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word2)) : 0;
    uint64_t w3 =
        word2 + stride < n_words ? wh_load_u64_relaxed(wh_veb_word(pool, word2 + stride)) : 0;
    WH_NO_UNROLL
    for (uint32_t order = most; (w0 | w1 | w2 | w3) != 0; order--) {
        uint32_t at = 64, k = 0;
        WH_NO_UNROLL
        for (; k < 4; k++) {
            const uint64_t bits = w0;
            at = bits != 0 ? wh_tessera_fit_(bits, order) : 64;
            if (at < 64) {
                break;
            }
            w0 = w1; /* in turn, so that they stay in registers */
            w1 = w2;
            w2 = w3;
            w3 = bits;
        }
        if (at < 64) {
            word += k * stride;
            const uint32_t chunk = word << 6 | at;
            const uint64_t mask = wh_tessera_order_mask_(chunk, order);
            const uint64_t got =
                wh_fetch_and_u64_acquire(wh_veb_word(pool, word), ~mask) & mask; /* P3 */
            if (got == mask) {
                return chunk | (uint64_t)1 << (order + 32);
            }
            if (got != 0) {
                wh_tessera_put_back_(g, shard, word, got);
            }
            return 0;
        }
        if (order == least) {
            return 0;
        }
    }
    return 0;
}

/* The same in words anywhere that hold something, and their neighbours. */
WH_FN_SLOW uint64_t wh_tessera_any_span_(const wh_tessera_core *g, uint32_t shard, uint32_t seed,
                                         uint32_t most, uint32_t least) {
    const wh_veb pool = wh_tessera_pool_(*g);
    uint64_t span = 0;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_ANY_TRIES && span == 0; tries++) {
        uint32_t at = wh_spread32(seed + tries);
        const uint64_t word = wh_veb_pick_word(pool, &at, 1);
        if (word < g->n_chunks >> 6) {
            span = wh_tessera_span_near_(g, shard, (uint32_t)word, 1, most, least);
            if (span == 0 && wh_load_u64_relaxed(wh_veb_word(pool, word)) == 0) {
                wh_veb_emptied(pool, word); /* a claim that did not tell the levels above */
            }
        }
    }
    return span;
}

/* Claims a span of 2^most chunks or fewer, at least 2^least, for the cursor of (shard, class) after
 * `last`, a value of one of its words. Looks at the shard's home words of the pool, four at a time:
 * first the last span's, so that a class that does not need much stays in one place; those of the
 * shard's other classes start elsewhere. Then at words that hold something, anywhere. Returns first
 * chunk | chunks << 32; 0: nothing. P4: as next_span. */
WH_FN_SLOW uint64_t wh_tessera_seek_span_(const wh_tessera_core *g, uint32_t shard, uint32_t c,
                                          uint64_t last, uint32_t most) {
    wh_assert_internal(c < g->n_classes &&
                       wh_tessera_order(wh_tessera_header_of_(g)->classes[c]) <= most);
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    const uint32_t n_words = g->n_chunks >> 6, n_shards = g->n_shards;
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(*g, shard);
    const uint32_t home_was_empty = wh_load_u32_relaxed(&own_shard->home_was_empty);
    const uint32_t held = wh_load_u32_relaxed(&own_shard->held);
    const uint32_t least = wh_tessera_order(cls);
    uint32_t word = wh_tessera_header_of_(g)->starts[c] + shard;
    if (wh_tessera_span_slots(last) != 0 && wh_tessera_span_first(last) >= g->begin) {
        word = wh_tessera_span_first(last) >> 6;
        word += wh_tessera_span_slots(last) >= cls.slots << (WH_TESSERA_MAX_SPAN_LOG2 - least)
                    ? n_shards /* it was all of that one */
                    : 0;
    }
    uint32_t order = most;
    const uint32_t seed = (c << 8 | shard) * 64 + held * 65537u;
    const uint32_t elsewhere = home_was_empty != 0 ? WH_TESSERA_FIRST_TRIES : WH_TESSERA_OWN_TRIES;
    uint64_t found = 0;
    uint32_t tries = 0;
    WH_NO_UNROLL
    for (; found == 0 && tries <= WH_TESSERA_OWN_TRIES; tries++) {
        if (tries == elsewhere) {
            found = wh_tessera_any_span_(g, shard, seed, most, least);
            continue;
        }
        if (word >= n_words) { /* from the start, or behind the first spans */
            const uint32_t skip = (g->begin >> 6) / n_shards + 1;
            word = shard + (shard + skip * n_shards < n_words ? skip * n_shards : 0);
        }
        found = wh_tessera_span_near_(g, shard, word, n_shards, order,
                                      order > least + 2 ? order - 2 : least);
        word += 4 * n_shards;
        order -= (tries & 1) != 0 && order > least;
    }
    if (tries > elsewhere) {
        wh_store_u32_relaxed(&own_shard->home_was_empty,
                             home_was_empty != 0 ? home_was_empty - 1 : WH_TESSERA_HOME_EMPTY);
    }
    return found;
}

/* A span of so many chunks has been found: if it is large, the pool has some again. */
#define WH_TESSERA_LARGE_CLAIM 64u
WH_FN void wh_tessera_note_claimed_(wh_tessera_shard *own_shard, uint32_t chunks) {
    if (chunks >= WH_TESSERA_LARGE_CLAIM) {
        wh_store_u32_relaxed(&own_shard->pool_was_empty, 0);
    }
}

/* What a refiller has claimed for its cursor. */
typedef struct wh_tessera_span_claim {
    uint64_t span;   /* 0: nothing */
    uint64_t tag;    /* of its slabs */
    uint64_t other;  /* what the other word of the cursor was */
    uint64_t back;   /* chunks that are to be put back */
    uint32_t word;   /* ... of this word of the pool */
    uint32_t chunks; /* 0: nothing */
} wh_tessera_span_claim;

/* A cursor between two spans, when its refiller looks at what that depends on how large the next
 * one is to be. */
typedef struct wh_tessera_between {
    uint64_t now;   /* the word that is used up */
    uint64_t span;  /* the first word */
    uint64_t other; /* the other one of the two */
    uint32_t held, home_was_empty;
} wh_tessera_between;
WH_FN wh_tessera_between wh_tessera_look_between_(wh_tessera_shard *own_shard, uint32_t c,
                                                  uint32_t which) {
    wh_tessera_between b;
    const uint64_t spare = wh_load_u64_relaxed(&own_shard->cursors[c].spare);
    b.span = wh_load_u64_relaxed(&own_shard->cursors[c].span);
    b.held = wh_load_u32_relaxed(&own_shard->held);
    b.home_was_empty = wh_load_u32_relaxed(&own_shard->home_was_empty);
    b.now = which == 0 ? b.span : spare;
    b.other = which == 0 ? spare : b.span;
    return b;
}

/* How large the span after `last` is to be, log2 of chunks, at most `order`: twice as large as that
 * one (the first one with its spare one), or four times what lanes have asked for since it was used
 * up, the spare one at least a quarter of the span; and twice that while the shard's cursors hold
 * less than an eighth of its share of the heap, four times for classes up to 256 bytes, which have
 * no other way; up to twice that again, for a power of two; but as large as the last one if that
 * will last a while, as far as can be seen, and they hold more; but at most half of what the
 * shard's cursors may still hold, and no more than a word of the pool if they would then hold more
 * than three quarters of all that they may. At least a slab. */
WH_FN uint32_t wh_tessera_next_order_(wh_tessera_core core, wh_tessera_between b, uint32_t c,
                                      wh_tessera_class cls, uint32_t which, uint64_t last,
                                      uint32_t order) {
    wh_assert_internal(which < 2 && wh_tessera_order(cls) <= order);
    const uint32_t least = wh_tessera_order(cls);
    uint32_t want = wh_tessera_span_slots(last);
    if (want != 0 || which != 0) {
        const uint32_t overrun = wh_tessera_span_position(b.now) - wh_tessera_span_slots(b.now);
        const uint32_t times = overrun < 8192 ? 4 * overrun : 0; /* "less than 0": nobody has */
        const uint32_t part = which != 0 ? wh_tessera_span_slots(b.span) >> 2 : 0;
        if (which == 0 && wh_tessera_span_first(last) < core.begin) {
            want += wh_tessera_span_slots(b.other);
        }
        want = want > times ? want : times;
        want = want > part ? want : part;
        const uint32_t slabs = wh_tessera_divide(want, cls.by_slots);
        const uint32_t much = b.home_was_empty == 0 && b.held < core.share >> 1;
        /* It would last a few times as long as it takes to fetch the next one. */
        const uint32_t fast = overrun < 8192 && 16 * overrun > wh_tessera_span_slots(last);
        const uint32_t grows =
            b.held < core.share >> 1 ? 1 + (uint32_t)(c < WH_TESSERA_FINE) : fast;
        const uint32_t more = least + 31 - wh_clz32((slabs << grows) + 1) + (fast & much);
        order = more < order ? more : order;
    }
    const uint32_t others = b.held - wh_tessera_chunks_of_(cls, core.begin, last);
    const uint32_t share = b.home_was_empty == 0 ? core.share + core.share / 2 : core.share;
    const uint32_t rest = share - others;
    const uint32_t most = rest - 2 < 1u << 30 ? 30 - wh_clz32(rest) : 0; /* else "less than 2" */
    order = order < most ? order : most;
    WH_NO_UNROLL
    while (order > WH_TESSERA_MAX_SPAN_LOG2 &&
           others + (1u << order) > core.share - core.share / 4) {
        order--;
    }
    wh_assert_internal(order <= wh_tessera_wide_span_order(cls) ||
                       order <= WH_TESSERA_MAX_SPAN_LOG2);
    return order > least ? order : least;
}

/* The lowest of the largest pieces of 2^order chunks or fewer, at least 2^least, among `bits` of a
 * word of the pool; *order: of that piece. 64: there is none. */
WH_FN uint32_t wh_tessera_piece_(uint64_t bits, uint32_t *order, uint32_t least) {
    wh_assert_internal(least <= *order && *order <= WH_TESSERA_MAX_SPAN_LOG2);
    uint32_t at = bits != 0 ? wh_tessera_fit_(bits, *order) : 64;
    WH_NO_UNROLL
    while (bits != 0 && at == 64 && *order > least) {
        at = wh_tessera_fit_(bits, --*order);
    }
    return at;
}

/* Claims a span for word `which` of the cursor of (shard, class) after `last`, a value of that
 * word, as large as next_order says, or smaller, down to a slab, if that is what there is. Where:
 * in the next one of the shard's words of the pool, without a look: mostly it is free; if only a
 * part of it is, the largest piece of that, and the rest is to be put back. Or, if it `seeks` (a
 * constant), as seek_span does. All that others wait for: what it needs of the heap is loaded at
 * once, and first; core is *g. P4: by the refiller without a bracket: the cursor is between two
 * spans meanwhile, which keeps X1 (2) away. Not so for what is put back after the span has been
 * published. */
WH_FN wh_tessera_span_claim wh_tessera_next_span_(const wh_tessera_core *g, wh_tessera_core core,
                                                  wh_tessera_shard *own_shard, uint32_t shard,
                                                  uint32_t c, wh_tessera_class cls, uint32_t which,
                                                  uint64_t last, int seeks) {
    wh_assert_internal(which < 2 && c < core.n_classes);
    wh_tessera_span_claim claim;
    const uint64_t tag = wh_tessera_header_of_(g)->slab_tags[c];
    const uint32_t ticket = seeks ? 0 : wh_fetch_add_u32_relaxed(&own_shard->home_ticket, 1);
    const wh_tessera_between between = wh_tessera_look_between_(own_shard, c, which);
    const uint32_t least = wh_tessera_order(cls);
    uint32_t order =
        wh_tessera_next_order_(core, between, c, cls, which, last, wh_tessera_span_order(cls));
    uint64_t got = 0;
    claim.back = 0;
    claim.word = 0;
    if (seeks) {
        got = wh_tessera_seek_span_(g, shard, c, last, order);
    } else if (core.home_chunks != 0) {
        const uint32_t home = wh_tessera_home(core, shard, ticket, WH_TESSERA_MAX_SPAN_LOG2);
        const uint64_t mask = wh_tessera_order_mask_(0, order);
        const uint64_t bits =
            wh_fetch_and_u64_acquire(wh_veb_word(wh_tessera_pool_(core), home >> 6), ~mask) &
            mask; /* P3 */
        claim.word = home >> 6;
        if (bits == mask) {
            got = home | (uint64_t)1 << (order + 32);
        } else if (bits != 0) {
            const uint32_t at = wh_tessera_piece_(bits, &order, least);
            claim.back = bits;
            if (at < 64) {
                got = (home + at) | (uint64_t)1 << (order + 32);
                claim.back = bits & ~wh_tessera_order_mask_(at, order);
            }
        }
    }
    claim.chunks = (uint32_t)(got >> 32);
    claim.tag = wh_tessera_with_shard(tag, shard);
    claim.other = between.other;
    claim.span =
        got == 0 ? 0 : wh_tessera_span((uint32_t)got, cls.slots * (claim.chunks >> least), 0);
    if (got != 0) { /* a cursor of the shard's has this span now instead of `last` */
        wh_add_u32_relaxed(&own_shard->held, ((uint32_t)got >= core.begin ? claim.chunks : 0) -
                                                 wh_tessera_chunks_of_(cls, core.begin, last));
        wh_tessera_note_claimed_(own_shard, claim.chunks);
    }
    return claim;
}

/* What a refiller has claimed and does not need goes back, when it has published its span. P4: it
 * has counted this as begun. */
WH_FN void wh_tessera_put_back_rest_(wh_tessera_core core, wh_tessera_shard *own_shard,
                                     uint32_t word, uint64_t chunks) {
    wh_assert_internal(chunks != 0);
    wh_assert_expensive(wh_tessera_in_take_(own_shard));
    WH_PLANT(tessera_back, wh_veb_put_back(wh_tessera_pool_(core), word, chunks), (void)0);
    wh_add_u32_relaxed(&own_shard->takes_done, 1); /* behind its fence */
}

/* Adds that a span may have seen past its end before lanes wait for the next one instead of going
 * to the other word: with what all lanes of a device may add at once, below 2^20. */
#ifdef WH_HOSTILE
#define WH_TESSERA_MOST_OVER 40u
#else
#define WH_TESSERA_MOST_OVER (1u << 18)
#endif
WH_FN int wh_tessera_is_over_(uint64_t span) {
    return wh_tessera_span_position(span) >= wh_tessera_span_slots(span) + WH_TESSERA_MOST_OVER &&
           wh_tessera_span_first(span) != WH_TESSERA_CLOSED_CHUNK;
}

/* Which word of a cursor to add to, when they are `span` and `spare`: */
#define WH_TESSERA_BOTH_CLOSED 2u /* neither, and nobody is at work */
#define WH_TESSERA_NOT_YET 3u     /* neither: refillers are at work */
WH_FN uint32_t wh_tessera_which_(uint64_t span, uint64_t spare) {
    if (wh_tessera_is_over_(span) || wh_tessera_is_over_(spare)) {
        return WH_TESSERA_NOT_YET;
    }
    if (wh_tessera_has_slots_(span) || wh_tessera_has_slots_(spare)) {
        return wh_tessera_has_slots_(span) ? 0 : 1;
    }
    if (wh_tessera_is_open_(span) || wh_tessera_is_open_(spare)) {
        return wh_tessera_is_open_(span) ? 0 : 1;
    }
    return wh_tessera_span_first(span) == WH_TESSERA_CLOSED_CHUNK &&
                   wh_tessera_span_first(spare) == WH_TESSERA_CLOSED_CHUNK
               ? WH_TESSERA_BOTH_CLOSED
               : WH_TESSERA_NOT_YET;
}

/* What a lane has come to on its way to a block: p, or NULL; attach and v: what it owes or knows of
 * its cursor. */
typedef struct wh_tessera_outcome {
    void *p;
    uint64_t v;
    uint32_t attach;
} wh_tessera_outcome;
#define WH_TESSERA_REFILLS 3u  /* 1 + the word it is the refiller of, by the add that returned v */
#define WH_TESSERA_RARE 4u     /* it is for rare */
#define WH_TESSERA_SLOTS 8u    /* a block of a pack will not do */
#define WH_TESSERA_STUCK 16u   /* its cursor is closed */
#define WH_TESSERA_ENDS 32u    /* p is all that there is for it */
#define WH_TESSERA_WAITS 64u   /* its refiller will be long: it may look at the list meanwhile */
#define WH_TESSERA_LOOKED 128u /* it has looked there */
#define WH_TESSERA_SEEKS 256u  /* with CROSSES: refill found nothing for it */
#define WH_TESSERA_PATIENCE 3u /* looks at its cursor before a lane says so */

/* Whether a lane owes its cursor a span, and has not asked for it yet. */
WH_FN int wh_tessera_is_refiller_(uint32_t attach) {
    return attach - 1 < WH_TESSERA_REFILLS;
}

/* Each refiller among the lanes of mask (attach, v) attaches a span from the pool for its group,
 * `lanes`, of class c, and its lanes that need one get slots of it. Nobody else waits here. mask 0,
 * a constant: each lane for itself, and without a look at others. seeks: as in next_span. Returns
 * attach = what a refiller that found no span still owes. own: the shard's counters. */
WH_FN wh_tessera_outcome wh_tessera_attach_all_(const wh_tessera_core *g,
                                                wh_tessera_shard *own_shard, wh_mask mask,
                                                wh_mask lanes, uint32_t shard, uint32_t c,
                                                uint32_t attach, uint64_t v, void *p, int seeks) {
    wh_assert_internal(mask == 0 || (wh_tessera_in_mask_(mask) && wh_tessera_in_mask_(lanes) &&
                                     (lanes & ~mask) == 0));
    wh_assert_internal(attach <= 2 && (attach == 0 || c < g->n_classes));
    const int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    const wh_mask needy = mask != 0 ? wh_ballot(mask, need) & lanes : (wh_mask)need;
    const wh_tessera_core core = *g; /* what is looked at here, at once */
    const wh_tessera_class cls =
        wh_tessera_header_of_(g)->classes[c != WH_TESSERA_NO_CLASS ? c : 0];
    wh_tessera_span_claim claim;
    claim.span = claim.tag = claim.other = claim.back = 0;
    claim.chunks = claim.word = 0;
    if (attach != 0) {
        claim = wh_tessera_next_span_(g, core, own_shard, shard, c, cls, attach - 1, v, seeks);
    }
    uint64_t got = claim.span; /* slots from its position on are the group's */
    if (mask != 0) {
        wh_tessera_format_all_(core, mask, claim.tag, wh_tessera_span_first(got), claim.chunks);
    } else if (got != 0) {
        wh_tessera_format_(core, claim.tag, wh_tessera_span_first(got), claim.chunks, 0, 1, 1);
    }
    if (claim.back != 0) { /* P4: while the cursor is between two spans */
        wh_add_u32_relaxed(&own_shard->takes_begun, 1);
    }
    if (got != 0) {
        wh_tessera_attach_(own_shard, c, attach - 1, got, wh_popc32(needy), claim.other);
        attach = 0;
    }
    if (claim.back != 0) {
        wh_tessera_put_back_rest_(core, own_shard, claim.word, claim.back);
    }
    got = mask != 0 ? wh_shfl_u64(mask, got, wh_mask_leader(lanes)) : got;
    if (need) {
        p = wh_tessera_nth_(core.base, 1u << core.chunk_log2, cls, got,
                            mask != 0 ? wh_mask_rank(needy) : 0);
    }
    wh_tessera_outcome now;
    now.p = p;
    now.v = v;
    now.attach = attach;
    return now;
}

/* Crossers fetch the next span from where it mostly is; one that finds nothing there SEEKS. Others
 * keep their attach. For a full warp, or else each lane for itself. Functions of their own, without
 * a call and with a mask that is a constant: all that goes on here is a wait for others, and half
 * of that is instructions that the SM has not run before
 * (docs/notes/2026-11-26-fetching-a-span.md). */
WH_FN wh_tessera_outcome wh_tessera_refill_(const wh_tessera_core *g, wh_tessera_shard *own_shard,
                                            wh_mask mask, wh_mask lanes, uint32_t shard, uint32_t c,
                                            uint32_t attach, uint64_t v, void *p) {
    const uint32_t refills = wh_tessera_is_refiller_(attach) ? attach : 0;
    wh_tessera_outcome now =
        wh_tessera_attach_all_(g, own_shard, mask, lanes, shard, c, refills, v, p, 0);
    const uint32_t owes = now.attach == 0 ? 0 : now.attach | WH_TESSERA_SEEKS;
    now.attach = refills == 0 ? attach : owes;
    return now;
}
WH_FN_SLOW wh_tessera_outcome wh_tessera_refill_warp_(const wh_tessera_core *g,
                                                      wh_tessera_shard *own_shard, wh_mask lanes,
                                                      uint32_t shard, uint32_t c, uint32_t attach,
                                                      uint64_t v, void *p) {
    return wh_tessera_refill_(g, own_shard, WH_FULL_WARP, lanes, shard, c, attach, v, p);
}
WH_FN_SLOW wh_tessera_outcome wh_tessera_refill_each_(const wh_tessera_core *g,
                                                      wh_tessera_shard *own_shard, uint32_t shard,
                                                      uint32_t c, uint32_t attach, uint64_t v,
                                                      void *p) {
    return wh_tessera_refill_(g, own_shard, 0, 0, shard, c, attach, v, p);
}

/* The same for a full warp of one class c, whose leader is the refiller. It would come here often,
 * so its span is of up to eight words of the pool in a row (a stripe), claimed by a lane each: as
 * many as are free, from the first such one on. Less code, too, for it knows that all lanes are
 * here for one span. If it finds nothing it looks at the shard's next stripes, and remains the
 * refiller, to come again, if one of them has something: where half of the heap is in use that is
 * so for half of the stripes. (Not so for classes of which full warps have slabs of their own,
 * which want the same words.) A cursor that has been closed is for others, too (SEEKS). P4: as
 * next_span. */
WH_FN_SLOW wh_tessera_outcome wh_tessera_refill_one_(const wh_tessera_core *g,
                                                     wh_tessera_shard *own_shard, uint32_t shard,
                                                     uint32_t c, uint32_t attach, uint64_t v,
                                                     void *p) {
    wh_assert_internal(c < g->n_classes && (wh_lane_id() != 0 || wh_tessera_is_refiller_(attach)));
    const uint32_t lane = wh_lane_id();
    const wh_tessera_core core = *g;
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    const uint64_t tag = wh_tessera_header_of_(g)->slab_tags[c];
    const uint32_t least = wh_tessera_order(cls);
    const wh_mask needy = wh_ballot(WH_FULL_WARP, p == NULL);
    uint32_t chunk = 0, order = 0, words = 0, in_stripe = 1, step = 0;
    if (lane == 0 && core.home_chunks != 0) {
        const int wide = core.home_chunks >= 1u << WH_TESSERA_WIDE_SPAN_LOG2 &&
                         wh_tessera_span_slots(v) << least >= cls.slots << 5;
        step = wide ? wh_tessera_wide_span_tickets(cls) : 0;
        const uint32_t ticket = wh_fetch_add_u32_relaxed(
            wide ? &own_shard->stripe_ticket : &own_shard->home_ticket, wide ? step : 1);
        const wh_tessera_between between = wh_tessera_look_between_(own_shard, c, attach - 1);
        order = wh_tessera_next_order_(core, between, c, cls, attach - 1, v,
                                       wide ? wh_tessera_wide_span_order(cls)
                                            : wh_tessera_span_order(cls));
        chunk = wide ? wh_tessera_stripe(core, shard, ticket, step, &in_stripe)
                     : wh_tessera_home(core, shard, ticket, WH_TESSERA_MAX_SPAN_LOG2);
        words = order > WH_TESSERA_MAX_SPAN_LOG2 ? 1u << (order - WH_TESSERA_MAX_SPAN_LOG2) : 1;
        words = words < in_stripe ? words : in_stripe;
        words = wh_tessera_span_first(between.other) != WH_TESSERA_CLOSED_CHUNK ? words : 0;
        order = order < WH_TESSERA_MAX_SPAN_LOG2 ? order : WH_TESSERA_MAX_SPAN_LOG2;
    }
    chunk = wh_shfl_u32(WH_FULL_WARP, chunk, 0);
    words = wh_shfl_u32(WH_FULL_WARP, words, 0);
    order = wh_shfl_u32(WH_FULL_WARP, order, 0);
    const uint64_t wants =
        wh_tessera_order_mask_(0, order); /* of each word: all, if they are several */
    const uint32_t word = (chunk >> 6) + lane;
    uint64_t got = 0;
    if (lane < words) {
        got = wh_fetch_and_u64_acquire(wh_veb_word(wh_tessera_pool_(core), word), ~wants) &
              wants; /* P3 */
    }
    const wh_mask complete = wh_ballot(WH_FULL_WARP, got == wants);
    const uint32_t first = complete != 0 ? wh_mask_leader(complete) : 0;
    uint32_t n = wh_ctz32(~(complete >> first)); /* the others go back */
    uint64_t back = lane - first < n ? 0 : got;
    chunk += first << 6;
    if (n == 0) {
        const uint32_t at = wh_shfl_u32(WH_FULL_WARP, wh_tessera_piece_(back, &order, least), 0);
        order = wh_shfl_u32(WH_FULL_WARP, order, 0);
        n = at < 64;
        chunk += at;
        back = lane == 0 && n != 0 ? back & ~wh_tessera_order_mask_(at, order) : back;
    }
    if (back != 0) { /* P4: while the cursor is between two spans */
        wh_add_u32_relaxed(&own_shard->takes_begun, 1);
    }
    const uint32_t chunks = n << order;
    const uint64_t span = wh_tessera_span(chunk, cls.slots * (chunks >> least), 0);
    if (n != 0) {
        wh_tessera_format_(core, wh_tessera_with_shard(tag, shard), chunk, chunks, lane,
                           WH_WARP_SIZE, 0);
        wh_syncwarp(WH_FULL_WARP); /* P2, P4: what the other lanes have stored and begun */
        if (lane == 0) {
            wh_add_u32_relaxed(&own_shard->held,
                               chunks - wh_tessera_chunks_of_(cls, core.begin, v));
            wh_tessera_note_claimed_(own_shard, chunks);
            wh_tessera_publish_(own_shard, c, attach - 1, span, wh_popc32(needy));
        }
        p = p != NULL
                ? p
                : wh_tessera_nth_(core.base, 1u << core.chunk_log2, cls, span, wh_mask_rank(needy));
    }
    if (back != 0) {
        wh_tessera_put_back_rest_(core, own_shard, word, back);
    }
    uint32_t seeks = n != 0 ? 0 : WH_TESSERA_SEEKS;
    step = wh_shfl_u32(WH_FULL_WARP, step, 0);
    if (n == 0 && step != 0 && words != 0 && cls.slots != WH_WARP_SIZE) {
        const uint32_t ticket = wh_load_u32_relaxed(&own_shard->stripe_ticket) + lane * step;
        const uint32_t stripe = wh_tessera_stripe(core, shard, ticket, step, &in_stripe);
        const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(wh_tessera_pool_(core), stripe >> 6));
        const wh_mask seen = wh_ballot(WH_FULL_WARP, (bits & wants) == wants);
        if (seen != 0 && lane == wh_mask_leader(seen)) {
            wh_store_u32_relaxed(&own_shard->stripe_ticket, ticket);
        }
        seeks = seen != 0 ? 0 : WH_TESSERA_SEEKS;
    }
    wh_tessera_outcome now;
    now.p = p;
    now.v = v;
    now.attach = attach;
    if (lane == 0) {
        now.attach = n != 0 ? 0 : attach | seeks;
    }
    return now;
}

#include "warpheap/detail/simt/end.h"

#endif

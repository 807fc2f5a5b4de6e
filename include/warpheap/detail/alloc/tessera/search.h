/* alloc/tessera/search.h: whether there is anything at all: the search before NULL, for all lanes
 * that wait, and verdicts. This file may change: it is no part of the API.
 *
 * search_lock   exchange acquire, by a lane whose warp searches for all; store release. Others look
 *         at it, relaxed, and take nothing meanwhile
 * oom_tickets   requests that wanted to know: fetch_add acq_rel, which gives each its number
 * oom_classes   a hint, of which classes they were: or, relaxed, before that; the searcher: and
 * oom_verdict, oom_answered   per class: the events and frees at which a full search found nothing;
 *         the requests (below that number) that had asked before it began. Requests that take no
 *         block of a pack have their own. Stored, release, by the searcher
 *
 * X1      exact out-of-memory: NULL only if one warp, which has search_lock, has seen, in this
 * order, (1) that takes_begun = takes_done, for all classes, since a taker of any may hold a slot
 *             of this one for a while (partial.h T1) or keep a slab from going back (slab.h I5)
 *         (2) that every cursor was used up or has been closed
 *         (3) that no word of a slab of the class had a free slot and, if the caller takes blocks
 *             of packs, no pack a free one that would do for the class's largest request (fits_)
 *         (4) that the pool was empty on its lowest level
 *         and then that takes_begun and attached are as before and no cursor is between two spans.
 *         Without a take, what is available in (3) and (4) only grows or moves from a slab to the
 *         pool, so the search would have seen what was there after (2). A slab on that move counts
 *         as free: empty and not in the pool, or EMPTY. A span that is claimed without a bracket
 *         leaves its cursor between two spans meanwhile: (2) and the last look see that
 * X2      a verdict holds while no events come: every free that has returned has counted one
 * X3      a verdict holds for all that had asked before its search began, whatever has been freed
 *         since: at one moment of their calls there was nothing for them. A search looks at the
 *         classes of all that had asked, so one answers all that wait
 *
 * P8      a request gets its number behind the caller's last free (and those of the lanes that it
 *         asks with: a sync), acq_rel -> the search reads oom_tickets by an atomic, acq_rel, before
 *         it looks at anything (its other lanes: a sync). So it sees what a request with a lower
 *         number has freed. Its verdict, store release -> the lane that asks, acquire
 *
 * Progress  the search waits for takes under way, which end by themselves, a bounded number of
 *         times, so it ends. New takes do not begin meanwhile, but for those that had looked at the
 *         lock before. So a lane that asks is told NULL by the search after the one under way, or
 *         finds something, or others have taken something
 * Check   tests/unit/tessera_exhausted.c (X3, progress), tests/unit/tessera_partial.c (X3),
 *         tests/unit/tessera_packs.c (X1), tests/fault/tessera.c (X1 to X3, P8)
 */
#ifndef WH_ALLOC_TESSERA_SEARCH_H
#define WH_ALLOC_TESSERA_SEARCH_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/tessera/partial.h"

#include "warpheap/detail/simt/begin.h"

/* X1 (2): whether no cursor has slots left or is between two spans. All lanes of mask, four cursors
 * each at a time. */
WH_FN int wh_tessera_used_up_(wh_tessera_core g, wh_mask mask) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint32_t n = (uint32_t)g.n_shards << 6;
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    uint32_t left = 0;
    WH_NO_UNROLL
    for (uint32_t first = rank; first < n && left == 0; first += 4 * lanes) {
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t j = first + k / 2 * lanes < n ? first + k / 2 * lanes : first;
            const wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, j >> 6, j & 63);
            const uint64_t span =
                wh_load_u64_relaxed((k & 1) == 0 ? &cursor->span : &cursor->spare);
            left |= wh_tessera_span_first(span) != WH_TESSERA_CLOSED_CHUNK &&
                    wh_tessera_span_position(span) != wh_tessera_span_slots(span) &&
                    WH_PLANT(tessera_x1_spare, 1, (k & 1) == 0);
        }
    }
    wh_fence(); /* what is read next is read later */
    return wh_all(mask, left == 0);
}

#define WH_TESSERA_EVENTS 0u      /* in the pool */
#define WH_TESSERA_FREES 1u       /* in the pool or in slabs */
#define WH_TESSERA_ATTACHED 2u    /* spans */
#define WH_TESSERA_TAKES_DONE 3u  /* takes of all kinds, since any of them may hold slots or a */
#define WH_TESSERA_TAKES_BEGUN 4u /* ... slab that others look for (T1, I5) */

/* The caller's part of the sum of these over all shards. All lanes of mask. */
WH_FN uint64_t wh_tessera_part_(wh_tessera_core g, wh_mask mask, uint32_t what) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_internal(what <= WH_TESSERA_TAKES_BEGUN);
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    uint64_t sum = 0;
    WH_NO_UNROLL
    for (uint32_t i = rank; i < g.n_shards; i += lanes) {
        const wh_tessera_shard *shard = wh_tessera_shard_at_(g, i);
        const uint32_t *count = &shard->takes_begun;
        if (what <= WH_TESSERA_FREES) {
            count = &shard->events;
        } else if (what == WH_TESSERA_ATTACHED) {
            count = &shard->attached;
        } else if (what == WH_TESSERA_TAKES_DONE) {
            count = &shard->takes_done;
        }
        sum += wh_load_u32_relaxed(count);
        sum += what == WH_TESSERA_FREES ? wh_load_u32_relaxed(&shard->frees) : 0;
    }
    wh_fence();
    return sum;
}

/* The sum of all lanes' parts, 40 bits of it. All lanes of mask. */
WH_FN uint64_t wh_tessera_total_(wh_mask mask, uint64_t part) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint64_t low = wh_reduce_add_u32(mask, wh_low_u32(part) & 0xfffff);
    const uint64_t high = wh_reduce_add_u32(mask, (uint32_t)(part >> 20));
    return ((high << 20) + low) & 0xffffffffff;
}

/* Whether no take is under way: X1 (1). All lanes of mask. */
WH_FN int wh_tessera_is_quiet_(wh_tessera_core g, wh_mask mask) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint64_t done = wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_TAKES_DONE));
    return wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_TAKES_BEGUN)) == done;
}

/* The or of all lanes' values. All lanes of mask. */
WH_FN uint64_t wh_tessera_or_all_(wh_mask mask, uint64_t v) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint32_t high = wh_reduce_or_u32(mask, wh_high_u32(v));
    return (uint64_t)high << 32 | wh_reduce_or_u32(mask, wh_low_u32(v));
}

/* Whether the slab whose first chunk this is has a free slot; of a pack which lengths its free
 * blocks have (pack_scan_). All of a slab that lies between the free that made it empty and the
 * pool is free. `word`: its first one. */
WH_FN uint32_t wh_tessera_free_in_(wh_tessera_core g, uint32_t chunk, uint64_t tag, uint64_t word) {
    wh_assert_internal((wh_tessera_is_pack(tag) && wh_tessera_pack_at(tag) == 0) ||
                       (wh_tessera_kind(tag) == WH_TESSERA_SLAB &&
                        (chunk & (wh_tessera_tag_chunks(tag) - 1)) == 0));
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    if (slots <= 64) {
        const uint64_t free = word & wh_tessera_slot_bits(slots, 0);
        uint32_t lengths = 0;
        if (word == WH_TESSERA_ALL_FREE) {
            return WH_PLANT(tessera_x1_transit, !wh_veb_contains(wh_tessera_pool_(g), chunk), 0)
                       ? UINT32_MAX
                       : 0;
        }
        if (free == 0 || !wh_tessera_is_pack(tag)) {
            return free != 0;
        }
        (void)wh_tessera_pack_scan_(g, chunk, tag, wh_low_u32(free), 0, &lengths);
        return lengths; /* 0: its tags change meanwhile */
    }
    const uint64_t *words = wh_tessera_words_of_(g, chunk);
    const uint32_t n_words = (slots + 63) >> 6;
    WH_NO_UNROLL
    for (uint32_t first = 1; first < n_words; first += 8) {
        for (uint32_t k = 0; k < 8; k++) {
            word |= wh_load_u64_relaxed(&words[first + k < n_words ? first + k : first]);
        }
    }
    return word != 0;
}

/* What lanes have seen of slabs and packs, the same for all of them. */
typedef struct wh_tessera_heap_view {
    uint64_t classes; /* a bit for each of which a slab has a free slot */
    uint32_t lengths; /* of free blocks of packs, as pack_scan_ tells them */
    uint32_t longest; /* a pack that has one of the longest */
    uint32_t shorter; /* ... and of the longest of those that are SHORT */
    int moves;        /* a chunk is in the pool, or on its way there */
    int stopped;      /* they have not seen all: there was enough, or no need */
} wh_tessera_heap_view;

/* Whether that is something for a lane that asks for slots of class c or, if least is not 0, a
 * block of a pack of so many granules. */
WH_FN int wh_tessera_view_has_(wh_tessera_heap_view view, uint32_t c, uint32_t least) {
    wh_assert_internal(c < WH_TESSERA_CLASSES);
    return (view.classes >> c & 1) != 0 ||
           (least != 0 && wh_tessera_fits_(view.lengths, least) != 0);
}
/* A pack with a block for `least` granules, which is seen. */
WH_FN uint32_t wh_tessera_best_pack_(wh_tessera_heap_view view, uint32_t least) {
    wh_assert_internal(wh_tessera_fits_(view.lengths, least) != 0);
    return least <= WH_TESSERA_SHORT ? view.shorter : view.longest;
}
WH_FN wh_tessera_heap_view wh_tessera_no_heap_view_(void) {
    wh_tessera_heap_view view;
    view.classes = 0;
    view.lengths = view.longest = view.shorter = 0;
    view.moves = view.stopped = 0;
    return view;
}
/* Which of the lanes' packs has the longest block of these lengths, of each pack. */
WH_FN uint32_t wh_tessera_longest_(wh_mask mask, uint32_t lengths, uint32_t pack) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint32_t most = wh_reduce_max_u32(mask, lengths);
    return wh_shfl_u32(mask, pack, wh_mask_leader(wh_ballot(mask, lengths == most)));
}

/* X1 (3): which of `classes`, a bit each, have a slab with a free slot, or one of several words
 * that has become empty and lies between its free and the pool (its words have been cleared, its
 * tag may have been), and what free blocks packs have. All lanes of mask, eight chunks each at a
 * time, up to `most` from some place on; c, least: what the caller asks for (view_has_), or
 * NO_CLASS. They stop when they have seen something for each lane that asks, or, if not `locked`,
 * when a search for all has begun (X3). classes = 0: packs only. Slabs of class c that they find go
 * on the partial list, since the free that owes it to the list may be on its way. */
WH_FN_SLOW wh_tessera_heap_view wh_tessera_look_(const wh_tessera_core *g, wh_mask mask,
                                                 uint32_t shard, uint64_t classes, uint32_t c,
                                                 uint32_t least, uint32_t most, int locked) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_internal(most <= g->n_chunks || !locked);
    wh_assert_expensive(!locked || wh_lane_id() != wh_mask_leader(mask) ||
                        wh_tessera_is_locked_(&wh_tessera_header_(*g)->search_lock));
    const wh_tessera_core core = *g;
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const uint64_t asked_classes =
        wh_tessera_or_all_(mask, c != WH_TESSERA_NO_CLASS ? (uint64_t)1 << c : 0);
    const int packs = locked || wh_any(mask, least != 0); /* a search answers for all */
    const uint32_t takes =                                /* so every time elsewhere */
        wh_load_u32_relaxed(&wh_tessera_shard_at_(core, shard)->takes_begun);
    const uint32_t random = wh_spread32((uint32_t)(wh_thread_id() >> 5) * 256u + takes);
    const uint32_t from =
        wh_shfl_u32(mask, (uint32_t)((uint64_t)random * core.n_chunks >> 32), wh_mask_leader(mask));
    const uint32_t *lock = &wh_tessera_header_(core)->search_lock;
    wh_tessera_heap_view view = wh_tessera_no_heap_view_();
    uint64_t found = 0;                          /* by the caller */
    uint32_t lengths = 0, longs = 0, shorts = 0; /* of all its packs; of these two */
    uint32_t longest = 0, shorter = 0;
    WH_NO_UNROLL
    for (uint32_t first = rank; wh_any(mask, first < most); first += 8 * lanes) {
        uint64_t tags[8], words[8]; /* in registers: each loop is unrolled */
        uint32_t fresh = 0, empty = 0;
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t i = first + k * lanes, at = from + (i < core.n_chunks ? i : 0);
            tags[k] = wh_load_u64_relaxed(
                wh_tessera_tag_at_(core, at < core.n_chunks ? at : at - core.n_chunks));
        }
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t i = first + k * lanes, at = from + (i < core.n_chunks ? i : 0);
            const uint32_t chunk = at < core.n_chunks ? at : at - core.n_chunks;
            const int is_slab = wh_tessera_kind(tags[k]) == WH_TESSERA_SLAB &&
                                (classes >> wh_tessera_tag_class(tags[k]) & 1) != 0 &&
                                (chunk & ((1u << wh_tessera_tag_order(tags[k])) - 1)) == 0;
            const int is_pack =
                packs && wh_tessera_is_pack(tags[k]) && wh_tessera_pack_at(tags[k]) == 0;
            /* in the pool, or on its way there */
            empty |= i < core.n_chunks && wh_tessera_kind(tags[k]) == WH_TESSERA_FREE;
            tags[k] = i < core.n_chunks && (is_slab || is_pack) ? tags[k] : WH_TESSERA_FREE;
            words[k] = tags[k] != WH_TESSERA_FREE
                           ? wh_load_u64_relaxed(wh_tessera_words_of_(core, chunk))
                           : 0;
        }
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t at = from + first + k * lanes;
            const uint32_t chunk = at < core.n_chunks ? at : at - core.n_chunks;
            if (tags[k] == WH_TESSERA_FREE) {
                continue;
            }
            const uint32_t free = wh_tessera_free_in_(core, chunk, tags[k], words[k]);
            if (free != 0 && wh_tessera_is_pack(tags[k])) {
                const uint32_t of_short = free & WH_TESSERA_SHORTS;
                fresh |= free & ~lengths;
                lengths |= free;
                longest = free > longs ? chunk : longest;
                longs = free > longs ? free : longs;
                shorter = of_short > shorts ? chunk : shorter;
                shorts = of_short > shorts ? of_short : shorts;
            } else if (free != 0) {
                const uint32_t u = wh_tessera_tag_class(tags[k]);
                fresh = 1;
                found |= (uint64_t)1 << u;
                if ((asked_classes >> u & 1) != 0) {
                    wh_tessera_add_partial_(core, u, chunk);
                }
            }
        }
        uint32_t wide = 0; /* which are slabs of several words */
        for (uint32_t k = 0; k < 8; k++) {
            wide |= (uint32_t)(wh_tessera_tag_slots(tags[k], core.chunk_log2) > 64) << k;
        }
        if (wide != 0) {
            wh_fence(); /* a lane that sees words cleared sees EMPTY */
            for (uint32_t k = 0; k < 8; k++) {
                const uint32_t at = from + first + k * lanes;
                uint32_t chunk = 0;
                if ((wide >> k & 1) != 0) {
                    chunk = at < core.n_chunks ? at : at - core.n_chunks;
                }
                const uint32_t state = wh_load_u32_relaxed(wh_tessera_state_at_(core, chunk));
                empty |= (wide >> k & 1) != 0 && state == WH_TESSERA_EMPTY;
            }
        }
        view.moves |= wh_any(mask, WH_PLANT(tessera_x1_empty, empty != 0, 0));
        if (wh_any(mask, fresh != 0)) {
            view.classes = wh_tessera_or_all_(mask, found);
            view.lengths = wh_reduce_or_u32(mask, lengths);
            view.longest = wh_tessera_longest_(mask, longs, longest);
            view.shorter = wh_tessera_longest_(mask, shorts, shorter);
        }
        view.stopped =
            (classes != 0 && view.moves) ||
            wh_all(mask, c == WH_TESSERA_NO_CLASS || wh_tessera_view_has_(view, c, least)) ||
            (!locked && wh_any(mask, wh_load_u32_relaxed(lock) != 0));
        if (view.stopped) {
            break;
        }
    }
    wh_fence();
    return view;
}

#define WH_TESSERA_NO_NUMBER UINT64_MAX /* of a request that has none yet: no answer is younger */

/* What none_ says; else 2 + a pack that may have a block. */
#define WH_TESSERA_NONE 0u  /* nothing is there: NULL */
#define WH_TESSERA_AGAIN 1u /* maybe something is */

/* Whether a verdict says that there is nothing of class c: one that is younger than the request
 * with this number (X3), or, if that is to be looked at (old), by which nothing has become
 * available since (X2). All lanes of mask; asks: of whom. */
WH_FN int wh_tessera_oom_known_(wh_tessera_core g, wh_mask mask, int asks, uint32_t c, int packs,
                                uint64_t number, int old) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_internal(!asks || c < g.n_classes);
    wh_tessera_header *header = wh_tessera_header_(g);
    const uint64_t verdict = asks && old ? wh_load_u64_acquire(&header->oom_verdict[packs][c]) : 0;
    const int is_younger = asks && wh_load_u64_acquire(&header->oom_answered[packs][c]) > number;
    if (!wh_any(mask, verdict != 0 && !is_younger)) {
        return is_younger;
    }
    const uint64_t events = wh_tessera_total_(mask, wh_tessera_part_(g, mask, WH_TESSERA_FREES));
    return is_younger || verdict == events + 1;
}

#define WH_TESSERA_QUIET_TRIES 32u

/* X1, X3: a search for all that have asked, by all lanes of mask; the leader has search_lock. c,
 * least: as in look_. A verdict of each class that has been asked for and of which there is
 * nothing, and what they have seen; stopped: they have not seen all, or not at one moment. */
WH_FN_SLOW wh_tessera_heap_view wh_tessera_search_(const wh_tessera_core *g, wh_mask mask,
                                                   uint32_t shard, uint32_t c, uint32_t least) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_expensive(wh_lane_id() != wh_mask_leader(mask) ||
                        wh_tessera_is_locked_(&wh_tessera_header_(*g)->search_lock));
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint32_t lanes = wh_popc32(mask);
    const uint64_t own_classes =
        wh_tessera_or_all_(mask, c != WH_TESSERA_NO_CLASS ? (uint64_t)1 << c : 0);
    wh_tessera_heap_view view = wh_tessera_no_heap_view_();
    view.stopped = 1;
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_QUIET_TRIES; tries++) {
        uint64_t tickets = 0;
        if (wh_lane_id() == wh_mask_leader(mask)) {
            tickets = WH_PLANT(tessera_p8_search, wh_fetch_add_u64_acq_rel,
                               wh_fetch_add_u64_relaxed)(&header->oom_tickets, 0); /* P8 */
        }
        tickets = wh_shfl_u64(mask, tickets, wh_mask_leader(mask));
        WH_PLANT(tessera_p8_told, wh_syncwarp(mask), (void)0); /* P8: all lanes see it */
        const uint64_t classes =
            own_classes |
            wh_shfl_u64(mask, wh_load_u64_relaxed(&header->oom_classes), wh_mask_leader(mask));
        const uint64_t events =
            wh_tessera_total_(mask, wh_tessera_part_(*g, mask, WH_TESSERA_FREES));
        const uint64_t done = wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_DONE);
        const uint64_t begun = wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_BEGUN);
        const uint64_t attached = wh_tessera_part_(*g, mask, WH_TESSERA_ATTACHED);
        if (WH_PLANT(tessera_x1_quiet, !wh_all(mask, done == begun), 0)) { /* X1 (1) */
            wh_backoff(tries);
            continue;
        }
        if (!wh_tessera_used_up_(*g, mask)) { /* (2) */
            (void)wh_tessera_detach_(g, mask, shard);
            break;
        }
        view = wh_tessera_look_(g, mask, shard, classes, c, least, g->n_chunks, 1); /* (3) */
        view.classes = WH_PLANT(tessera_x1_words, view.classes, 0);
        if (view.stopped || wh_tessera_holds_(wh_tessera_pool_(*g), mask)) { /* (4) */
            view.stopped = 1;
            break;
        }
        const int unchanged = wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_BEGUN) == begun &&
                              wh_tessera_part_(*g, mask, WH_TESSERA_ATTACHED) == attached;
        if (WH_PLANT(tessera_x1_same, wh_all(mask, unchanged) && wh_tessera_used_up_(*g, mask),
                     1)) {
            const uint64_t tickets_now =
                WH_PLANT(tessera_x3, tickets, wh_load_u64_relaxed(&header->oom_tickets));
            WH_NO_UNROLL
            for (uint32_t u = wh_mask_rank(mask); u < g->n_classes; u += lanes) {
                const uint32_t its_least = wh_tessera_least_(*g, u);
                for (uint32_t packs = 0; packs < 2; packs++) {
                    if ((classes >> u & 1) != 0 &&
                        !wh_tessera_view_has_(view, u, packs != 0 ? its_least : 0)) {
                        wh_store_u64_release(&header->oom_verdict[packs][u], events + 1);
                        wh_store_u64_release(&header->oom_answered[packs][u], tickets_now); /* P8 */
                    }
                }
            }
            if (wh_lane_id() == wh_mask_leader(mask)) {
                (void)wh_fetch_and_u64_relaxed(&header->oom_classes, ~classes);
            }
            view.stopped = 0;
            break;
        }
        view.stopped = 1;
    }
    return view;
}

#define WH_TESSERA_NEAR 1024u        /* chunks to look at for a pack before cursors are closed */
#define WH_TESSERA_FAR (32u * 1024u) /* ... and for all before others have to wait */

/* What is left for those of mask that ask, for class c each (NO_CLASS: asks for nothing): NONE,
 * AGAIN, or 2 + a pack (packs: 1, or 0 if a block of one will not do). *number: the request's, or
 * NO_NUMBER; may_search: or else only what verdicts say. All lanes of mask. */
WH_FN_SLOW uint32_t wh_tessera_none_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                     uint32_t c, int packs, int may_search, uint64_t *number) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_internal(c < g->n_classes || c == WH_TESSERA_NO_CLASS);
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint32_t leader = wh_mask_leader(mask);
    const int leads = wh_lane_id() == leader;
    const int known =
        wh_tessera_oom_known_(*g, mask, c != WH_TESSERA_NO_CLASS, c, packs, *number, may_search);
    c = known ? WH_TESSERA_NO_CLASS : c;
    const int asks = c != WH_TESSERA_NO_CLASS;
    const uint32_t least = asks && packs ? wh_tessera_least_(*g, c) : 0;
    const uint32_t found = known ? WH_TESSERA_NONE : WH_TESSERA_AGAIN;
    const int is_new = wh_any(mask, asks && *number == WH_TESSERA_NO_NUMBER);
    if (is_new) {
        const uint64_t asked_classes = wh_tessera_or_all_(mask, asks ? (uint64_t)1 << c : 0);
        WH_PLANT(tessera_p8_lanes, wh_syncwarp(mask), (void)0); /* P8: what any of them freed */
        uint64_t next = 0;
        if (leads) {
            (void)wh_fetch_or_u64_relaxed(&header->oom_classes, asked_classes);
            next = WH_PLANT(tessera_p8_ask, wh_fetch_add_u64_acq_rel,
                            wh_fetch_add_u64_relaxed)(&header->oom_tickets, 1); /* P8 */
        }
        next = wh_shfl_u64(mask, next, leader);
        *number = asks && *number == WH_TESSERA_NO_NUMBER ? next : *number;
    }
    if (!may_search || !wh_any(mask, asks)) {
        return found;
    }
    wh_tessera_heap_view view;
    if (is_new && wh_any(mask, least != 0) &&
        wh_any(mask, wh_tessera_any_(wh_tessera_partial_list_(*g, g->n_classes)))) {
        /* before cursors are closed; soon found */
        view = wh_tessera_look_(g, mask, shard, 0, c, least, WH_TESSERA_NEAR, 0);
        const int fits = least != 0 && wh_tessera_fits_(view.lengths, least) != 0;
        if (wh_any(mask, fits)) {
            return fits ? 2 + wh_tessera_best_pack_(view, least) : found;
        }
    }
    int any_partial = 0;
    WH_NO_UNROLL
    for (wh_mask m = wh_ballot(mask, asks); m != 0;) { /* before all words are looked at */
        const uint32_t its = wh_shfl_u32(mask, c, wh_mask_leader(m));
        any_partial |= wh_tessera_holds_(wh_tessera_partial_list_(*g, its), mask);
        m &= ~wh_ballot(mask, c == its);
    }
    if (any_partial || wh_tessera_holds_(wh_tessera_pool_(*g), mask)) {
        return found;
    }
    /* Not while others are at work: a refiller that has just got a span would need another one. */
    if (wh_tessera_is_quiet_(*g, mask) && wh_tessera_detach_(g, mask, shard)) {
        return found;
    }
    /* Side by side with other warps: what is not on a list yet, nor in the packs looked at. */
    const uint32_t most = g->n_chunks < WH_TESSERA_FAR ? g->n_chunks : WH_TESSERA_FAR;
    const uint64_t classes = wh_tessera_or_all_(mask, asks ? (uint64_t)1 << c : 0);
    view = wh_tessera_look_(g, mask, shard, classes, c, least, most, 0);
    if (!view.stopped) { /* nothing, it seems */
        const int locked = leads && wh_exchange_u32_acquire(&header->search_lock, 1) == 0;
        if (!wh_any(mask, locked)) {
            return found;
        }
        view = wh_tessera_search_(g, mask, shard, c, least);
        wh_syncwarp(mask);
        if (leads) {
            wh_store_u32_release(&header->search_lock, 0);
        }
    }
    const int has_pack =
        least != 0 && wh_tessera_fits_(view.lengths, least) != 0 && (view.classes >> c & 1) == 0;
    if (!asks) {
        return found;
    }
    if (has_pack) {
        return 2 + wh_tessera_best_pack_(view, least);
    }
    return view.stopped || wh_tessera_view_has_(view, c, 0) ? WH_TESSERA_AGAIN : WH_TESSERA_NONE;
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/tessera/oom.h: exact out-of-memory: whether there is anything at all for requests that
 * have found nothing. This file may change: it is no part of the API.
 *
 * search_lock   exchange acquire, by a lane whose warp searches for all; store release. Others look
 *         at it, relaxed, and begin no takes meanwhile, but for those that had looked before, for
 *         lanes that return an empty slab, and for full warps that try for a slab of their own,
 *         once a call
 * oom_tickets   requests that wanted to know: fetch_add acq_rel, which gives each its number
 * oom_classes   a hint, of which classes they were: or, relaxed, before that; the searcher: and
 * oom_answered  per class: requests below this number have been answered: nothing. Stored, release,
 *         by the searcher
 * oom_found     times that a lane with search_lock has found something, or closed cursors with
 *         slots: add, relaxed, by that lane. Who waits and sees a new one looks again, at once with
 *         all others that wait
 *
 * X1      NULL only if one warp, which has search_lock, has seen, in this order, (1) that
 *         takes begun = takes_done, (2) that every cursor is settled: it has no slots, and nobody
 *         refills it, (3) that no slab on the class's list has a free slot, (4) that the pool is
 *         empty on its lowest level, and (5) that takes begun is as before. Between (1) and (5) no
 *         take was under way, so all slabs with free slots were on their lists (slab.h I6) and all
 *         free chunks in the pool. What was free for the class at (2) was still free at (3) and
 *         (4), unless another request took it. (A slab whose last slot is freed while a taker
 *         owes its state a word goes back when the taker pays, as if that had had it: slab.h I5)
 * X3      an answer holds for all that had asked before its search began, whatever has been freed
 *         since: at one moment of their calls there was nothing for them. A search looks at the
 *         classes of all that had asked, so one mostly answers all that wait (oom_classes may lose
 * one)
 *
 * X4      of a heap that grows while lanes run: growth.h, which comes before all this
 *
 * P8      a request gets its number behind the caller's last free (and those of the lanes that it
 *         asks with: a sync), acq_rel -> the search reads oom_tickets by an atomic, acq_rel, before
 *         it looks at anything (its other lanes: a sync). So it sees what a request with a lower
 *         number has freed. Its answer, store release -> the lane that asks, acquire
 *
 * Progress  the search waits for takes under way, which end by themselves, a bounded number of
 *         times, so it ends. New takes do not begin meanwhile, but those that make memory free. So
 *         a lane that asks is told NULL by the search after the one under way, by one of its own,
 *         or finds something, or others have taken something: it looks again after each search that
 *         has found something. (If others never stop to take and return slabs for whole warps, or
 *         runs, no moment may be quiet enough for NULL)
 * Check   tests/conform, tests/stress, tests/fault
 */
#ifndef WH_ALLOC_TESSERA_OOM_H
#define WH_ALLOC_TESSERA_OOM_H

#include "warpheap/detail/alloc/tessera/cursor.h"
#include "warpheap/detail/alloc/tessera/growth.h"

#include "warpheap/detail/simt/begin.h"

/* X1 (2). All lanes of mask, eight cursors each at a time. */
WH_FN int wh_tessera_all_settled_(wh_tessera_core g, wh_mask mask) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const uint32_t n = g.n_shards * WH_TESSERA_CLASSES, lanes = wh_popc32(mask);
    uint32_t left = 0;
    WH_NO_UNROLL
    for (uint32_t first = wh_mask_rank(mask); first < n && left == 0; first += 8 * lanes) {
        for (uint32_t j = 0; j < 8; j++) {
            const uint32_t k = first + j * lanes < n ? first + j * lanes : first;
            left |= !wh_tessera_is_settled(wh_load_u64_relaxed(wh_tessera_span_at_(g, k)));
        }
    }
    wh_fence(); /* what is read next is read later */
    return wh_all(mask, left == 0);
}

#define WH_TESSERA_EVENTS 0u /* in the pool */
#define WH_TESSERA_TAKES_DONE 1u
#define WH_TESSERA_TAKES_BEGUN 2u

/* The caller's part of the sum of these over all shards. All lanes of mask. */
WH_FN uint64_t wh_tessera_part_(wh_tessera_core g, wh_mask mask, uint32_t what) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && what <= WH_TESSERA_TAKES_BEGUN);
    const uint32_t lanes = wh_popc32(mask);
    uint64_t sum = 0;
    WH_NO_UNROLL
    for (uint32_t i = wh_mask_rank(mask); i < g.n_shards; i += lanes) {
        const wh_tessera_shard *shard = wh_tessera_shard_at_(g, i);
        if (what == WH_TESSERA_EVENTS) {
            sum += wh_load_u32_relaxed(&shard->events);
        } else if (what == WH_TESSERA_TAKES_DONE) {
            sum += wh_load_u32_relaxed(&shard->takes_done);
        } else {
            sum += wh_high_u32(wh_load_u64_relaxed(&shard->takes));
        }
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

/* The or of all lanes' values. All lanes of mask. */
WH_FN uint64_t wh_tessera_or_all_(wh_mask mask, uint64_t v) {
    const uint32_t high = wh_reduce_or_u32(mask, wh_high_u32(v));
    return (uint64_t)high << 32 | wh_reduce_or_u32(mask, wh_low_u32(v));
}

/* X1 (3): whether a slab on the list of class c has a free slot. All lanes of mask, a word of the
 * list each at a time. removes: those that have none leave the list, before a search. */
WH_FN_SLOW int wh_tessera_class_has_(const wh_tessera_core *ref, wh_mask mask, uint32_t shard,
                                     uint32_t c, int removes) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    const wh_tessera_core g = *ref;
    const wh_veb list = wh_tessera_partial_list_(g, c);
    const uint32_t n_words = wh_tessera_words_for(wh_tessera_header_of_(ref)->classes[c].slots);
    const uint32_t n = (wh_tessera_top_of_all_(g, mask) + 63) >> 6, lanes = wh_popc32(mask);
    WH_NO_UNROLL
    for (uint32_t first = wh_mask_rank(mask); wh_any(mask, first < n); first += 8 * lanes) {
        uint64_t items[8]; /* in registers: the loops are unrolled */
        uint64_t free = 0;
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t w = first + k * lanes;
            items[k] = wh_load_u64_relaxed(wh_veb_word(list, w < n ? w : n - 1));
            items[k] = w < n ? items[k] : 0;
        }
        for (uint32_t k = 0; k < 8; k++) {
            WH_NO_UNROLL
            for (; items[k] != 0 && free == 0; items[k] &= items[k] - 1) {
                const uint32_t slab = (first + k * lanes) << 6 | wh_ctz64(items[k]);
                const uint64_t *words = wh_tessera_words_of_(g, slab);
                uint64_t all = 0;
                WH_NO_UNROLL
                for (uint32_t i = 0; i < n_words; i++) {
                    const uint64_t its = wh_tessera_free_slots(wh_load_u64_relaxed(&words[i]), c);
                    if (its != 0) { /* who looks again finds it there */
                        wh_tessera_hint_(wh_tessera_cursor_at_(g, shard, c), slab * 40503u, slab,
                                         i);
                    }
                    free |= its;
                    all |= its;
                }
                if (removes && all == 0) {
                    wh_tessera_remove_partial_(g, wh_tessera_shard_at_(g, shard), c, n_words, slab);
                }
            }
        }
        if (wh_any(mask, WH_PLANT(tessera_x1_words, free != 0, 0))) {
            return 1;
        }
    }
    wh_fence();
    return 0;
}

/* What a request that has found nothing knows. */
typedef struct wh_tessera_ticket {
    uint64_t number; /* of the request; NO_NUMBER: none yet, no answer is younger */
    uint32_t found;  /* oom_found when it last was told to look */
    wh_tessera_wish wish;
} wh_tessera_ticket;

#define WH_TESSERA_NO_NUMBER UINT64_MAX

WH_FN wh_tessera_ticket wh_tessera_no_ticket_(const wh_tessera_core *g) {
    wh_tessera_ticket ticket;
    ticket.number = WH_TESSERA_NO_NUMBER;
    ticket.found = 0;
    ticket.wish = wh_tessera_new_wish_(g);
    return ticket;
}

#define WH_TESSERA_QUIET_TRIES 32u

/* X1, X3: a search for all that have asked, by all lanes of mask, of whose own requests these are
 * the classes (the hint may have lost them); the leader has search_lock. 1: it has found something,
 * or closed cursors that had slots: who waits looks again. */
WH_FN_SLOW int wh_tessera_search_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                  uint64_t own_classes) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_assert_expensive(wh_lane_id() != wh_mask_leader(mask) ||
                        wh_tessera_is_locked_(&wh_tessera_header_(*g)->search_lock));
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint32_t leader = wh_mask_leader(mask);
    WH_NO_UNROLL
    for (uint32_t tries = 0; tries < WH_TESSERA_QUIET_TRIES; tries++) {
        uint64_t tickets = 0;
        if (wh_lane_id() == leader) {
            tickets = WH_PLANT(tessera_p8_search, wh_fetch_add_u64_acq_rel,
                               wh_fetch_add_u64_relaxed)(&header->oom_tickets, 0); /* P8 */
        }
        tickets = wh_shfl_u64(mask, tickets, leader);
        WH_PLANT(tessera_p8_told, wh_syncwarp(mask), (void)0); /* P8: all lanes see it */
        const uint64_t done = wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_DONE);
        const uint64_t begun = wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_BEGUN);
        if (WH_PLANT(tessera_x1_quiet,
                     wh_tessera_total_(mask, done) != wh_tessera_total_(mask, begun), 0)) {
            wh_backoff(tries); /* X1 (1) */
            continue;
        }
        if (!WH_PLANT(tessera_x1_settled, wh_tessera_all_settled_(*g, mask), 1)) { /* (2) */
            return wh_tessera_close_all_(g, mask, shard);
        }
        const uint64_t classes =
            own_classes | wh_shfl_u64(mask, wh_load_u64_relaxed(&header->oom_classes), leader);
        uint64_t none = classes;
        WH_NO_UNROLL
        for (uint64_t rest = classes; rest != 0; rest &= rest - 1) { /* (3) */
            if (wh_tessera_class_has_(g, mask, shard, wh_ctz64(rest), 0)) {
                none &= ~(rest & (0 - rest));
            }
        }
        if (wh_tessera_holds_(*g, mask)) { /* (4) */
            return 1;
        }
        if (!WH_PLANT(tessera_x1_same,
                      wh_all(mask, wh_tessera_part_(*g, mask, WH_TESSERA_TAKES_BEGUN) == begun),
                      1)) { /* (5) */
            continue;
        }
        const uint64_t answers =
            WH_PLANT(tessera_x3, tickets, wh_load_u64_relaxed(&header->oom_tickets));
        WH_NO_UNROLL
        for (uint32_t c = wh_mask_rank(mask); c < 64; c += wh_popc32(mask)) {
            if ((none >> c & 1) != 0) {
                wh_store_u64_release(&header->oom_answered[c], answers); /* P8 */
            }
        }
        if (wh_lane_id() == leader) {
            (void)wh_fetch_and_u64_relaxed(&header->oom_classes, ~classes);
        }
        return none != classes;
    }
    /* Others go on with takes. Slots of cursors, at least, need not wait for a quiet moment. */
    return wh_tessera_close_all_(g, mask, shard);
}

/* For lanes of mask, of which those with `asks` have found nothing of class c: DONE if there is
 * nothing, LOOK if they should look again, NONE while another warp searches for all: who waits for
 * that looks at little, since it is in the way of the search. */
WH_FN_SLOW uint32_t wh_tessera_none_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                     uint32_t c, int asks, wh_tessera_ticket *ticket) {
    wh_assert_internal(wh_tessera_in_mask_(mask));
    wh_tessera_header *header = wh_tessera_header_(*g);
    const uint32_t leader = wh_mask_leader(mask);
    const int leads = wh_lane_id() == leader;
    if (header->growth != NULL && wh_tessera_grow_(g, mask, shard, 1, asks, &ticket->wish)) {
        return WH_TESSERA_LOOK; /* X4 */
    }
    const uint32_t found = wh_shfl_u32(mask, wh_load_u32_relaxed(&header->oom_found), leader);
    if (wh_any(mask, asks && ticket->number == WH_TESSERA_NO_NUMBER)) {
        if (asks) {
            (void)wh_fetch_or_u64_relaxed(&header->oom_classes, (uint64_t)1 << c);
        }
        WH_PLANT(tessera_p8_lanes, wh_syncwarp(mask), (void)0); /* P8: what any of them freed */
        uint64_t next = 0;
        if (leads) {
            next = WH_PLANT(tessera_p8_ask, wh_fetch_add_u64_acq_rel,
                            wh_fetch_add_u64_relaxed)(&header->oom_tickets, 1); /* P8 */
        }
        next = wh_shfl_u64(mask, next, leader);
        if (asks && ticket->number == WH_TESSERA_NO_NUMBER) {
            ticket->number = next;
            ticket->found = found;
        }
    }
    int known = asks && wh_load_u64_acquire(&header->oom_answered[c]) > ticket->number;
    if (!wh_any(mask, asks && !known)) {
        return WH_TESSERA_DONE;
    }
    /* Nobody searches, and so keeps refillers waiting, while there are chunks. */
    const int looks = asks && ticket->found != found;
    ticket->found = found;
    if (looks) { /* that search has taken the bit away */
        (void)wh_fetch_or_u64_relaxed(&header->oom_classes, (uint64_t)1 << c);
    }
    if (wh_any(mask, looks || wh_tessera_any_chunks_(*g))) {
        return known ? WH_TESSERA_DONE : WH_TESSERA_LOOK;
    }
    const int locked = leads && wh_load_u32_relaxed(&header->search_lock) == 0 &&
                       wh_exchange_u32_acquire(&header->search_lock, 1) == 0;
    if (!wh_any(mask, locked)) {
        return known ? WH_TESSERA_DONE : WH_TESSERA_NONE;
    }
    const uint64_t own_classes = wh_tessera_or_all_(mask, (uint64_t)(asks && !known) << (c & 63));
    int some = 0;
    WH_NO_UNROLL
    for (uint64_t rest = own_classes; rest != 0 && !some; rest &= rest - 1) {
        const uint32_t k = wh_ctz64(rest);
        some = wh_any(mask, wh_tessera_any_listed_(*g, k)) &&
               wh_tessera_class_has_(g, mask, shard, k, 1);
    }
    some = some || wh_tessera_search_(g, mask, shard, own_classes);
    wh_syncwarp(mask);
    if (leads) {
        wh_add_u32_relaxed(&header->oom_found, (uint32_t)some);
        wh_store_u32_release(&header->search_lock, 0);
    }
    known = known || (asks && wh_load_u64_acquire(&header->oom_answered[c]) > ticket->number);
    return known ? WH_TESSERA_DONE : WH_TESSERA_LOOK;
}

#include "warpheap/detail/simt/end.h"

#endif

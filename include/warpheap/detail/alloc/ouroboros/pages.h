/* alloc/ouroboros/pages.h: PAGES, the variants whose queues hold pages (section 4.1, Algorithm 3).
 * It may change.
 *
 * Fields and who writes them (any lane, device scope)
 *   sem      bulk semaphore over the pages in the queue. E counts lanes that move pages to bits; R
 *            counts lanes that wait for what others bring
 *
 * Invariants
 *   I1  a free page is in its class's queue, or its bit is set, or it is not before `next` in an
 *       open word of its class. It is in one of these only
 */
#ifndef WH_ALLOC_OUROBOROS_PAGES_H
#define WH_ALLOC_OUROBOROS_PAGES_H

#include "warpheap/detail/alloc/ouroboros/open.h"

#include "warpheap/detail/simt/begin.h"

/* PAGES: what a turn does that no chunk of the pool can serve: from the queue, or a parked chunk,
 * or another open word than `place`. */
WH_FN wh_ouro_step wh_ouro_decide_returned_(wh_ouro_ref h, uint32_t c, wh_ouro_turn t,
                                            uint32_t place) {
    uint64_t *sem = wh_ouro_sem_(h, c);
    wh_ouro_step s = wh_ouro_step_(t);
    if (!t.counted) {
        wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, 0, t.r));
        s.counted = 1;
    }
    const uint64_t w = wh_load_u64_relaxed(sem);
    if (wh_bulk_semaphore_count(w) > 0) {
        if (wh_bulk_semaphore_may_try(w, 0, t.attempt, (uint32_t)wh_thread_id())) {
            s.n = wh_bulk_semaphore_retake(sem, t.r);
        }
        if (s.n != 0) {
            s.what = WH_OURO_QUEUE;
            s.first = wh_vqueue_reserve_take(wh_ouro_queue_(h.variant, h, c), s.n);
        }
        return s;
    }
    if (wh_load_u64_relaxed(&wh_ouro_class_(h, c)->parked) != 0) {
        const uint32_t chunk = wh_ouro_hold_parked_(h, c);
        if (chunk != WH_CHUNK_NONE) {
            s.what = WH_OURO_PARKED;
            s.first = chunk;
            s.n = 1;
            return s;
        }
    }
    int coming = 0;
    const uint32_t other = WH_PLANT(
        ouro_x1_open, wh_ouro_find_open_(h, c, place + 1, wh_ouro_opens_(h, c) - 1, &coming),
        UINT32_MAX);
    if (other != UINT32_MAX) {
        wh_ouro_step_open_(h, c, other, t.r, WH_CHUNK_POOL_SEEN, &s);
        return s;
    }
    if (!coming && wh_bulk_semaphore_expected(w) == 0 &&
        wh_chunk_pool_empty(wh_ouro_pool_(h), wh_ouro_level_(h, c))) {
        s.what = WH_OURO_SEARCH;
    }
    return s;
}

/* PAGES: what a group of class c does in its turn; place: its open word. In this order: what it
 * needs of whole chunks from the pool, its open word, and then as decide_returned_. */
WH_FN_SLOW wh_ouro_step wh_ouro_decide_pages_(const wh_ouro_header *header, uint32_t c,
                                              wh_ouro_turn t, uint32_t place) {
    const wh_ouro_ref h = header->self;
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const uint32_t level = wh_ouro_level_(h, c), pages_log2 = wh_ouro_pages_log2_(h, c);
    wh_ouro_step s = wh_ouro_step_(t);
    wh_assert_internal(c < h.n_classes && t.r != 0 && t.r <= WH_WARP_SIZE && t.duty == 0);
    wh_assert_internal(!WH_OURO_BY_CHUNK(h.variant));
    if (t.r >> pages_log2 != 0) {
        wh_ouro_step_fetch_(wh_chunk_pool_take(pool, level, t.r >> pages_log2), &s);
        if (s.what != WH_OURO_WAIT) {
            return s;
        }
    }
    const uint32_t next = wh_ouro_open_next_(wh_load_u64_relaxed(wh_ouro_open_(h, c, place)));
    const uint32_t seen = t.r >> pages_log2 == 0 && next == 1u << pages_log2
                              ? wh_chunk_pool_look(pool, level)
                              : WH_CHUNK_POOL_NONE_SEEN; /* or it was empty just now */
    if (next >> pages_log2 == 0 || seen != WH_CHUNK_POOL_NONE_SEEN) {
        wh_ouro_step_open_(h, c, place, t.r, seen, &s);
        return s;
    }
    if (next != 1u << pages_log2) {
        return s; /* somebody brings a chunk for all who wait here */
    }
    return wh_ouro_decide_returned_(h, c, t, place);
}

/* PAGES: for groups that want as many pages as a chunk has, or more: whole chunks from the pool. As
 * from_open_, which calls this. */
WH_FN_SLOW void *wh_ouro_from_whole_(const wh_ouro_header *header, wh_ouro_caller who) {
    const wh_ouro_ref h = header->self;
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const int in = wh_ouro_takes_part_(who);
    const uint32_t cc = wh_ouro_some_class_(who), level = wh_ouro_level_(h, cc);
    const uint32_t pages_log2 = wh_ouro_pages_log2_(h, cc), rank = wh_mask_rank(who.lanes);
    const uint32_t leader = wh_mask_leader(who.lanes), want = wh_popc32(who.lanes) >> pages_log2;
    wh_chunk_pool_taken t = {0, 0, 0};
    if (in && want != 0 && wh_lane_id() == leader) {
        t = wh_chunk_pool_take(pool, level, want);
    }
    t.first = wh_shfl_u64(who.mask, t.first, leader);
    t.n = wh_shfl_u32(who.mask, t.n, leader);
    t.from = wh_shfl_u32(who.mask, t.from, leader);
    wh_syncwarp(who.mask); /* what the leader acquired with a chunk, for the lane that uses it */
    uint32_t chunk = WH_CHUNK_NONE;
    if (in && rank < t.n) {
        chunk = wh_chunk_pool_get(pool, level, t, rank);
        wh_ouro_format_(h, who.c, chunk);
    }
    const int served = in && rank >> pages_log2 < t.n;
    const uint32_t owner = served ? wh_select64(who.lanes, rank >> pages_log2) : wh_lane_id();
    chunk = wh_shfl_u32(who.mask, chunk, owner);
    return served ? wh_ouro_page_(h, who.c, chunk, rank & ((1u << pages_log2) - 1)) : NULL;
}

/* PAGES: for the leader of a group that lacks r pages: from its open word. *stuck: nothing is to be
 * had here. */
WH_FN wh_ouro_step wh_ouro_try_open_(wh_ouro_ref h, uint32_t c, uint32_t place, uint32_t r,
                                     int *stuck) {
    const uint32_t pages = wh_ouro_pages_(h, c);
    const wh_ouro_turn turn = {r, 0, 0, 0, 0, 0};
    wh_ouro_step s = wh_ouro_step_(turn);
    s.from = WH_CHUNK_NONE;
    if (r == 0) {
        return s;
    }
    const uint32_t next = wh_ouro_open_next_(wh_load_u64_relaxed(wh_ouro_open_(h, c, place)));
    const uint32_t seen = next == pages ? wh_chunk_pool_look(wh_ouro_pool_(h), wh_ouro_level_(h, c))
                                        : WH_CHUNK_POOL_NONE_SEEN;
    *stuck = r >= pages || (next == pages && seen == WH_CHUNK_POOL_NONE_SEEN);
    if (!*stuck && (next < pages || seen != WH_CHUNK_POOL_NONE_SEEN)) {
        wh_ouro_step_open_(h, c, place, r, seen, &s);
    }
    return s;
}

/* PAGES: pages from open words, and chunks for these, as long as there are chunks in the pool: what
 * malloc does in a heap that fills up, when the queue has nothing. The rest is for slow_, which
 * keeps so much in local memory that it takes many round trips: each acquire empties the L1. All
 * lanes of the caller's mask call, none with a take outstanding. NULL for lanes that are to go
 * there. */
WH_FN_SLOW void *wh_ouro_from_open_(const wh_ouro_header *header, wh_ouro_caller who) {
    const wh_ouro_ref h = header->self;
    const wh_mask mask = who.mask;
    const int in = wh_ouro_takes_part_(who), leads = wh_ouro_leads_(who);
    const uint32_t cc = wh_ouro_some_class_(who), leader = wh_mask_leader(who.lanes);
    const uint32_t place = wh_ouro_my_place_(h, cc);
    const int whole = in && wh_popc32(who.lanes) >= wh_ouro_pages_(h, cc);
    void *p = wh_any(mask, whole) ? wh_ouro_from_whole_(header, who) : NULL;
    int need = in && p == NULL, stuck = 0;
    WH_NO_UNROLL
    for (uint32_t attempt = 0; wh_any(mask, need) && !wh_any(mask, stuck); attempt++) {
        const wh_mask needy = wh_ballot(mask, need) & who.lanes;
        const uint32_t rank = wh_mask_rank(needy);
        wh_ouro_step s = wh_ouro_try_open_(h, cc, place, leads ? wh_popc32(needy) : 0, &stuck);
        s.n = wh_shfl_u32(mask, s.n, leader);
        s.first = wh_shfl_u64(mask, s.first, leader);
        s.from = wh_shfl_u32(mask, s.from, leader);
        p = need ? wh_ouro_opened_page_(h, who.c, &s, rank) : p;
        if (!wh_any(mask, need && p != NULL)) {
            wh_backoff(attempt < 4 ? attempt : 4);
        }
        need = need && p == NULL;
    }
    return p;
}

/* PAGES: what the fast path of malloc has begun. */
#define WH_OURO_TAKES 1u   /* the caller has a position, and has not finished with it */
#define WH_OURO_RETIRES 2u /* the caller's take was the last one on its queue chunk */

typedef struct wh_ouro_begun {
    uint64_t position; /* in the queue */
    uint32_t what;
    uint32_t chunk; /* of the queue */
} wh_ouro_begun;

/* PAGES: the rest of what the fast path has begun. p: the caller's page, if it got it. */
WH_FN void *wh_ouro_finish_(wh_ouro_ref h, wh_ouro_caller who, wh_ouro_begun b, void *p) {
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, wh_ouro_some_class_(who));
    const wh_vqueue_chunks k = wh_ouro_queue_chunks_(h);
    int retires = (b.what & WH_OURO_RETIRES) != 0;
    if (wh_any(who.mask, (b.what & WH_OURO_TAKES) != 0)) {
        const int takes = (b.what & WH_OURO_TAKES) != 0, waits = takes && p == NULL;
        uint32_t at = WH_CHUNK_NONE;
        const uint32_t value = wh_vqueue_wait_take(q, k, who.mask, waits, b.position, &at); /* P1 */
        if (waits) {
            p = wh_ouro_page_at_(h, who.c, value - 1);
            b.chunk = at;
        }
        retires = wh_vqueue_finish_take(q, k, who.mask, takes, b.chunk);
    }
    if (wh_any(who.mask, retires)) {
        wh_vqueue_retire(q, k, who.mask, retires, b.position, b.chunk);
    }
    return p;
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/ouroboros/pages.h: the variants whose queues hold pages. */
#ifndef WH_ALLOC_OUROBOROS_PAGES_H
#define WH_ALLOC_OUROBOROS_PAGES_H

#include "warpheap/detail/alloc/ouroboros/open.h"

#include "warpheap/detail/simt/begin.h"

/* PAGES: a group of class c lacks r pages; place: its open word; counted: R counts the pages.
 * attempt: rounds until now. In this order: what it needs of whole chunks from the pool, its open
 * word, the queue, parked chunks, other open words. */
WH_FN_SLOW wh_ouro_step wh_ouro_decide_pages_(const wh_ouro_header *header, uint32_t c, uint32_t r,
                                              uint32_t counted, uint32_t place, uint32_t attempt) {
    const wh_ouro_ref h = header->self;
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const uint32_t level = wh_ouro_level_(h, c), pages_log2 = wh_ouro_pages_log2_(h, c);
    uint64_t *sem = wh_ouro_sem_(h, c);
    wh_ouro_step s = wh_ouro_step_(0, counted);
    if (r >> pages_log2 != 0) {
        wh_ouro_step_fetch_(wh_chunk_pool_take(pool, level, r >> pages_log2), &s);
        if (s.what != WH_OURO_WAIT) {
            return s;
        }
    }
    const uint32_t next = wh_ouro_open_next_(wh_load_u64_relaxed(wh_ouro_open_(h, c, place)));
    const uint32_t seen = r >> pages_log2 == 0 && next == 1u << pages_log2
                              ? wh_chunk_pool_look(pool, level)
                              : WH_CHUNK_POOL_NONE_SEEN; /* or it was empty just now */
    if (next >> pages_log2 == 0 || seen != WH_CHUNK_POOL_NONE_SEEN) {
        wh_ouro_step_open_(header, h, c, place, r, seen, &s);
        return s;
    }
    if (next != 1u << pages_log2) {
        return s; /* somebody brings a chunk for all who wait here */
    }
    if (!counted) {
        wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, 0, r));
        s.counted = 1;
    }
    const uint64_t w = wh_load_u64_relaxed(sem);
    if (wh_bulk_semaphore_count(w) > 0) {
        if (wh_bulk_semaphore_may_try(w, 0, attempt, (uint32_t)wh_thread_id())) {
            s.n = wh_bulk_semaphore_retake(sem, r);
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
        wh_ouro_step_open_(header, h, c, other, r, WH_CHUNK_POOL_SEEN, &s);
        return s;
    }
    if (!coming && wh_bulk_semaphore_expected(w) == 0 && wh_chunk_pool_empty(pool, level)) {
        s.what = WH_OURO_SEARCH;
    }
    return s;
}

/* PAGES: for groups that want as many pages as a chunk has, or more: whole chunks from the pool. As
 * from_open_, which calls this. */
WH_FN_SLOW void *wh_ouro_from_whole_(const wh_ouro_header *header, wh_mask mask, wh_mask lanes,
                                     uint32_t c) {
    const wh_ouro_ref h = header->self;
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const int in = c != WH_OURO_NO_CLASS;
    const uint32_t cc = in ? c : 0, level = wh_ouro_level_(h, cc);
    const uint32_t pages_log2 = wh_ouro_pages_log2_(h, cc), rank = wh_mask_rank(lanes);
    const uint32_t leader = wh_mask_leader(lanes), want = wh_popc32(lanes) >> pages_log2;
    wh_chunk_pool_taken t = {0, 0, 0};
    if (in && want != 0 && wh_lane_id() == leader) {
        t = wh_chunk_pool_take(pool, level, want);
    }
    t.first = wh_shfl_u64(mask, t.first, leader);
    t.n = wh_shfl_u32(mask, t.n, leader);
    t.from = wh_shfl_u32(mask, t.from, leader);
    wh_syncwarp(mask); /* what the leader acquired with a chunk, for the lane that uses it */
    uint32_t chunk = WH_CHUNK_NONE;
    if (in && rank < t.n) {
        chunk = wh_chunk_pool_get(pool, level, t, rank);
        wh_ouro_format_(h, c, chunk);
    }
    const int served = in && rank >> pages_log2 < t.n;
    const uint32_t owner = served ? wh_select64(lanes, rank >> pages_log2) : wh_lane_id();
    chunk = wh_shfl_u32(mask, chunk, owner);
    return served ? wh_ouro_page_(h, c, chunk, rank & ((1u << pages_log2) - 1)) : NULL;
}

/* PAGES: pages from open words, and chunks for these, as long as there are chunks in the pool: what
 * malloc does in a heap that fills up, when the queue has nothing. The rest is for slow_, which
 * keeps so much in local memory that it takes many round trips: each acquire empties the L1. All
 * lanes of mask call, none with a take outstanding; the caller's group and class as in slow_. NULL
 * for lanes that are to go there. */
WH_FN_SLOW void *wh_ouro_from_open_(const wh_ouro_header *header, wh_mask mask, wh_mask lanes,
                                    uint32_t c) {
    const wh_ouro_ref h = header->self;
    const int in = c != WH_OURO_NO_CLASS;
    const uint32_t cc = in ? c : 0;
    const uint32_t leader = wh_mask_leader(lanes), pages = 1u << wh_ouro_pages_log2_(h, cc);
    const int leads = in && wh_lane_id() == leader;
    const uint32_t place = wh_ouro_my_place_(h, cc);
    const int whole = in && wh_popc32(lanes) >= pages;
    void *p = wh_any(mask, whole) ? wh_ouro_from_whole_(header, mask, lanes, c) : NULL;
    int need = in && p == NULL, stuck = 0;
    WH_NO_UNROLL
    for (uint32_t attempt = 0; wh_any(mask, need) && !wh_any(mask, stuck); attempt++) {
        const wh_mask needy = wh_ballot(mask, need) & lanes;
        const uint32_t r = wh_popc32(needy), rank = wh_mask_rank(needy);
        wh_ouro_step s = wh_ouro_step_(0, 0);
        s.from = WH_CHUNK_NONE;
        if (leads && r != 0) {
            const uint32_t next =
                wh_ouro_open_next_(wh_load_u64_relaxed(wh_ouro_open_(h, c, place)));
            const uint32_t seen = next == pages
                                      ? wh_chunk_pool_look(wh_ouro_pool_(h), wh_ouro_level_(h, c))
                                      : WH_CHUNK_POOL_NONE_SEEN;
            stuck = r >= pages || (next == pages && seen == WH_CHUNK_POOL_NONE_SEEN);
            if (!stuck && (next < pages || seen != WH_CHUNK_POOL_NONE_SEEN)) {
                wh_ouro_step_open_(header, h, c, place, r, seen, &s);
            }
        }
        s.n = wh_shfl_u32(mask, s.n, leader);
        s.first = wh_shfl_u64(mask, s.first, leader);
        s.from = wh_shfl_u32(mask, s.from, leader);
        p = need ? wh_ouro_opened_page_(h, c, &s, rank) : p;
        if (!wh_any(mask, need && p != NULL)) {
            wh_backoff(attempt < 4 ? attempt : 4);
        }
        need = need && p == NULL;
    }
    return p;
}

/* What the fast path of malloc has begun (PAGES). */
#define WH_OURO_TAKES                                                                              \
    1u                     /* the caller has a position in the queue, and has not finished with it \
                            */
#define WH_OURO_RETIRES 2u /* the caller's take was the last one on its queue chunk */

/* PAGES: the rest of what the fast path has begun. p: the caller's page, if it got it. */
WH_FN void *wh_ouro_finish_(wh_ouro_ref h, wh_mask mask, uint32_t c, uint32_t begun,
                            uint64_t position, uint32_t chunk, void *p) {
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, c != WH_OURO_NO_CLASS ? c : 0);
    const wh_vqueue_chunks k = wh_ouro_queue_chunks_(h);
    int retires = (begun & WH_OURO_RETIRES) != 0;
    if (wh_any(mask, (begun & WH_OURO_TAKES) != 0)) {
        const int takes = (begun & WH_OURO_TAKES) != 0, waits = takes && p == NULL;
        uint32_t at = WH_CHUNK_NONE;
        const uint32_t value = wh_vqueue_wait_take(q, k, mask, waits, position, &at); /* P1 */
        if (waits) {
            p = h.base + ((uint64_t)(value - 1) << wh_ouro_page_log2_(h, c));
            chunk = at;
        }
        retires = wh_vqueue_finish_take(q, k, mask, takes, chunk);
    }
    if (wh_any(mask, retires)) {
        wh_vqueue_retire(q, k, mask, retires, position, chunk);
    }
    return p;
}

#include "warpheap/detail/simt/end.h"

#endif

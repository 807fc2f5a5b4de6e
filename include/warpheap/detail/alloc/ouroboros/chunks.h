/* alloc/ouroboros/chunks.h: the variants whose queues hold chunks with free pages. */
#ifndef WH_ALLOC_OUROBOROS_CHUNKS_H
#define WH_ALLOC_OUROBOROS_CHUNKS_H

#include "warpheap/detail/alloc/ouroboros/park.h"
#include "warpheap/detail/alloc/ouroboros/step.h"

#include "warpheap/detail/simt/begin.h"

/* Room in the queue of class c for n values (0 for a lane that leads no group), when the
 * first take of it, which returned old, has not given all. */
WH_FN_SLOW uint32_t wh_ouro_more_room_(const wh_ouro_header *header, wh_mask mask, uint32_t c,
                                       uint32_t n, uint64_t old) {
    const wh_ouro_ref h = header->self;
    return wh_vqueue_more_room_(wh_ouro_queue_(h.variant, h, n != 0 ? c : 0),
                                wh_ouro_queue_chunks_(h), mask, n, old);
}

/* How many of n values (0 for a lane that leads no group) the queue q of class c has room
 * for. All lanes of mask call. */
WH_FN uint32_t wh_ouro_room_(wh_ouro_ref h, wh_vqueue q, wh_mask mask, uint32_t c, uint32_t n) {
    const uint64_t old = wh_vqueue_ask_room_(q, n);
    if (wh_any(mask, n != 0 && wh_bulk_semaphore_got(old, n) < n)) {
        return wh_ouro_more_room_(h.header, mask, c, n, old);
    }
    return n;
}

/* CHUNKS: puts chunks that active lanes hold, with count > 0, into the queue, or else the
 * tree. held: E counts them. All lanes of mask call, none with a take outstanding. */
WH_FN void wh_ouro_enqueue_chunks_(uint32_t variant, wh_ouro_ref h, wh_mask mask, int active,
                                   uint32_t c, uint32_t chunk, int held) {
    const wh_group g = wh_group_by_u32(mask, active ? c : WH_OURO_NO_CLASS);
    const int leads = active && wh_group_leads(g);
    const wh_vqueue q = wh_ouro_queue_(variant, h, active ? c : 0);
    uint64_t first = 0;
    uint32_t room = wh_ouro_room_(h, q, mask, c, leads ? g.n : 0);
    room = wh_shfl_u32(mask, room, g.leader);
    if (leads && room != 0) {
        first = wh_vqueue_reserve_put(q, room);
    }
    first = wh_shfl_u64(mask, first, g.leader);
    if (active && g.rank >= room) {
        wh_ouro_park_(h, c, chunk);
    }
    wh_syncwarp(mask);
    if (leads) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), room, held ? g.n : 0, 0);
    }
    wh_vqueue_put(q, wh_ouro_queue_chunks_(h), mask, active && g.rank < room, first + g.rank,
                  chunk);
}

/* CHUNKS: takes one chunk from the queue of class c, which E then counts. */
WH_FN uint32_t wh_ouro_hold_one_(wh_ouro_ref h, uint32_t c) {
    uint64_t *sem = wh_ouro_sem_(h, c);
    if (wh_bulk_semaphore_count(wh_load_u64_relaxed(sem)) <= 0) {
        return WH_CHUNK_NONE;
    }
    const uint64_t old = wh_fetch_add_u64_relaxed(sem, wh_bulk_semaphore_word(-1, 1, 0));
    if (wh_bulk_semaphore_got(old, 1) == 0) {
        wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(1, -1, 0));
        return WH_CHUNK_NONE;
    }
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, c);
    return wh_vqueue_take(q, wh_ouro_queue_chunks_(h), 1u << wh_lane_id(), 1,
                          wh_vqueue_reserve_take(q, 1));
}

#define WH_OURO_ENOUGH 5u   /* `tries` after two chunks from the queue */
#define WH_OURO_PATIENCE 6u /* rounds in which chunks were only held, before more are fetched */

/* CHUNKS: r lanes of class c wait: R counts them from now on. Their duty. */
WH_FN uint32_t wh_ouro_reserve_(wh_ouro_ref h, uint32_t c, uint32_t r) {
    uint64_t *sem = wh_ouro_sem_(h, c);
    const uint32_t pages_log2 = wh_ouro_pages_log2_(h, c);
    const uint64_t old = wh_fetch_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, 0, r));
    if (wh_bulk_semaphore_count(old) > 0) {
        return 0;
    }
    /* C counts chunks, and is 0: what is lacking are pages. */
    const uint64_t fetching = wh_load_u64_relaxed(&wh_ouro_class_(h, c)->fetching);
    const uint32_t duty = wh_bulk_semaphore_duty((int64_t)wh_bulk_semaphore_reserved(old) -
                                                     (int64_t)(fetching << pages_log2),
                                                 r, pages_log2);
    if (duty != 0) {
        wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, duty, 0));
        wh_add_u64_relaxed(&wh_ouro_class_(h, c)->fetching, duty);
    }
    return duty;
}

/* CHUNKS: for who has waited a while, r lanes, and saw w in the semaphore: the chunks to fetch,
 * 0 if others fetch enough. What is held does not count: with many lanes at few chunks some are
 * always held, and nearly empty. Only while there are fresh chunks: these become fewer, whereas
 * many who volunteer for what comes back now and then, in vain and in turn, would keep E from
 * looking 0 to each other for ever. */
WH_FN uint32_t wh_ouro_volunteer_(wh_ouro_ref h, uint32_t c, uint32_t r, uint64_t w) {
    const uint32_t pages_log2 = wh_ouro_pages_log2_(h, c);
    const uint32_t k = (uint32_t)wh_bulk_semaphore_ceil_((int64_t)r, pages_log2);
    wh_ouro_class *cl = wh_ouro_class_(h, c);
    if (wh_fetch_add_u64_relaxed(&cl->fetching, k) << pages_log2 < wh_bulk_semaphore_reserved(w)) {
        wh_add_u64_relaxed(wh_ouro_sem_(h, c), wh_bulk_semaphore_word(0, k, 0));
        return k;
    }
    wh_add_u64_relaxed(&cl->fetching, (uint64_t)0 - k);
    return 0;
}

/* CHUNKS: a group of class c lacks r pages, and owes `duty` chunks; counted: R counts the pages,
 * not before a first attempt. tries: 0 in the first round, 1 before the first take from the queue,
 * more afterwards. attempt: rounds until now. *idle counts the rounds in which nobody was seen to
 * bring any. */
WH_FN_SLOW wh_ouro_step wh_ouro_decide_chunks_(const wh_ouro_header *header, uint32_t c, uint32_t r,
                                               uint32_t duty, uint32_t counted, uint32_t tries,
                                               uint32_t attempt, uint32_t *idle) {
    const wh_ouro_ref h = header->self;
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const uint32_t level = wh_ouro_level_(h, c), pages_log2 = wh_ouro_pages_log2_(h, c);
    wh_ouro_class *cl = wh_ouro_class_(h, c);
    uint64_t *sem = wh_ouro_sem_(h, c);
    wh_ouro_step s = wh_ouro_step_(duty, 1);
    if (!counted && tries != 0) {
        s.duty = wh_ouro_reserve_(h, c, r);
        return s;
    }
    if (duty != 0) {
        wh_ouro_step_fetch_(wh_chunk_pool_take(pool, level, duty), &s);
        if (s.what == WH_OURO_WAIT) {
            wh_bulk_semaphore_signal(sem, 0, duty, 0);
            wh_add_u64_relaxed(&cl->fetching, (uint64_t)0 - duty);
            s.duty = 0;
        }
        return s;
    }
    const uint64_t w = wh_load_u64_relaxed(sem);
    const int64_t count = wh_bulk_semaphore_count(w);
    if (count > 0) {
        *idle = 0;
        s.counted = counted;
        if (tries >= WH_OURO_ENOUGH) {
            /* Two chunks had not enough pages: those in the queue are nearly used up. */
            if (!counted) {
                s.counted = 1;
                s.duty = wh_ouro_reserve_(h, c, r);
                return s;
            }
            if (wh_chunk_pool_has_fresh(pool, level)) {
                s.duty = wh_ouro_volunteer_(h, c, r, w);
                if (s.duty != 0) {
                    return s;
                }
            }
        }
        /* A chunk serves one group at a time. */
        if (!wh_bulk_semaphore_may_try(w, pages_log2 < 5 ? pages_log2 : 5, attempt,
                                       (uint32_t)wh_thread_id())) {
            return s;
        }
        /* One chunk serves all, if it may have so many; or else one each. */
        const uint32_t n = tries <= 1 && pages_log2 >= 5 ? 1
                           : count < (int64_t)r          ? (uint32_t)count
                                                         : r;
        const uint64_t old =
            wh_fetch_add_u64_relaxed(sem, wh_bulk_semaphore_word(-(int64_t)n, n, 0));
        s.n = wh_bulk_semaphore_got(old, n);
        if (s.n < n) {
            wh_add_u64_relaxed(sem,
                               wh_bulk_semaphore_word((int64_t)(n - s.n), -(int64_t)(n - s.n), 0));
        }
        if (s.n != 0) {
            s.what = WH_OURO_QUEUE;
            s.first = wh_vqueue_reserve_take(wh_ouro_queue_(h.variant, h, c), s.n);
        }
        return s;
    }
    if (!counted) {
        s.duty = wh_ouro_reserve_(h, c, r);
        return s;
    }
    if (wh_load_u64_relaxed(&cl->parked) != 0) {
        const uint32_t chunk = wh_ouro_hold_parked_(h, c);
        if (chunk != WH_CHUNK_NONE) {
            s.what = WH_OURO_PARKED;
            s.first = chunk;
            s.n = 1;
            return s;
        }
    }
    if (WH_PLANT(ouro_x1_held, wh_bulk_semaphore_expected(w) != 0, 0)) {
        if (++*idle > WH_OURO_PATIENCE) {
            s.duty = wh_chunk_pool_has_fresh(pool, level) ? wh_ouro_volunteer_(h, c, r, w) : 0;
            *idle = 0;
        }
        return s;
    }
    if (!wh_chunk_pool_empty(pool, level)) {
        if (++*idle > 2) { /* nobody fetches, and not for a moment only */
            s.duty = wh_ouro_volunteer_(h, c, r, w);
            *idle = 0;
        }
        return s;
    }
    s.what = WH_OURO_SEARCH;
    return s;
}

/* CHUNKS: sets the bits of pages [from, to) of a fresh chunk, of which nobody has a page yet, and
 * counts them. */
WH_FN void wh_ouro_free_range_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t from,
                               uint32_t to) {
    for (uint32_t w = from / 64; w * 64 < to; w++) {
        wh_store_u64_relaxed(wh_ouro_bits_(h, chunk, w),
                             wh_ouro_range_bits_(w, from, to)); /* published by the count, P3 */
    }
    if ((wh_ouro_add_pages_(h, c, chunk, to - from) & WH_OURO_FULL) != 0) {
        wh_add_u64_relaxed(wh_ouro_full_(h, c), wh_ouro_full_up_(1));
    }
}

/* CHUNKS: after a FETCH of chunks by groups of the warp: the last chunk of each goes into its queue
 * if pages are left. surplus, chunk: the leader's. */
WH_FN void wh_ouro_publish_(wh_ouro_ref h, wh_mask mask, int leads, uint32_t c, uint32_t chunk,
                            uint32_t surplus, uint32_t fetched, uint32_t kept) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, leads ? c : 0);
    const int has = leads && surplus != 0;
    if (has) {
        wh_ouro_free_range_(h, c, chunk, pages - surplus, pages);
    }
    wh_ouro_enqueue_chunks_(h.variant, h, mask, has, c, chunk, 0);
    if (leads) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, fetched, kept);
        wh_add_u64_relaxed(&wh_ouro_class_(h, c)->fetching, (uint64_t)0 - fetched);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

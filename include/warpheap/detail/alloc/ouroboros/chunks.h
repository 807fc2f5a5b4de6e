/* alloc/ouroboros/chunks.h: CHUNKS, the variants whose queues hold chunks with free pages (section
 * 4.2, Algorithms 4 and 5). It may change.
 *
 * Fields and who writes them (any lane, device scope)
 *   sem      bulk semaphore over the chunks in the queue. E counts the chunks that are fetched from
 *            the pool, and those that a lane has taken from the queue and may put back
 *   fetching the part of E that are chunks from the pool, with all their pages. It is a hint for
 *            lanes that wait: a chunk that another lane holds may have few pages left
 */
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
WH_FN void wh_ouro_enqueue_chunks_(wh_ouro_ref h, wh_mask mask, int active, uint32_t c,
                                   uint32_t chunk, int held) {
    const wh_group g = wh_group_by_u32(mask, active ? c : WH_OURO_NO_CLASS);
    const int leads = active && wh_group_leads(g);
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, active ? c : 0);
    wh_assert_internal(WH_OURO_BY_CHUNK(h.variant));
    wh_assert_internal(!active || h.cls[chunk] == c); /* I3 */
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

/* CHUNKS: for a group of r lanes that has waited a while, and saw w in the semaphore: the chunks
 * that it is to fetch, 0 if others fetch enough. Chunks that are held do not count: with many lanes
 * at few chunks some are always held, and nearly empty. A group may do this only while there are
 * fresh chunks, which become fewer. Many groups that volunteer, in turn and in vain, for what comes
 * back now and then would keep each other from seeing E = 0 for ever. */
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

/* CHUNKS: what a turn does whose group is to fetch chunks. */
WH_FN wh_ouro_step wh_ouro_decide_fetch_(wh_ouro_ref h, uint32_t c, wh_ouro_turn t) {
    wh_ouro_step s = wh_ouro_step_(t);
    wh_ouro_step_fetch_(wh_chunk_pool_take(wh_ouro_pool_(h), wh_ouro_level_(h, c), t.duty), &s);
    if (s.what == WH_OURO_WAIT) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, t.duty, 0);
        wh_add_u64_relaxed(&wh_ouro_class_(h, c)->fetching, (uint64_t)0 - t.duty);
        s.duty = 0;
    }
    return s;
}

/* CHUNKS: how many of the `count` chunks in the queue a turn asks for. One chunk serves all lanes,
 * if it may have so many pages; or else each lane takes one. */
WH_FN uint32_t wh_ouro_ask_chunks_(wh_ouro_turn t, int64_t count, uint32_t pages_log2) {
    if (t.tries <= 1 && pages_log2 >= 5) {
        return 1;
    }
    return count < (int64_t)t.r ? (uint32_t)count : t.r;
}

/* CHUNKS: what a turn does while there are chunks in the queue; w: the semaphore. */
WH_FN wh_ouro_step wh_ouro_decide_queued_(wh_ouro_ref h, uint32_t c, wh_ouro_turn t, uint64_t w) {
    uint64_t *sem = wh_ouro_sem_(h, c);
    const uint32_t level = wh_ouro_level_(h, c), pages_log2 = wh_ouro_pages_log2_(h, c);
    wh_ouro_step s = wh_ouro_step_(t);
    s.idle = 0;
    if (t.tries >= WH_OURO_ENOUGH) {
        /* Two chunks had not enough pages: those in the queue are nearly used up. */
        if (!t.counted) {
            s.counted = 1;
            s.duty = wh_ouro_reserve_(h, c, t.r);
            return s;
        }
        if (wh_chunk_pool_has_fresh(wh_ouro_pool_(h), level)) {
            s.duty = wh_ouro_volunteer_(h, c, t.r, w);
            if (s.duty != 0) {
                return s;
            }
        }
    }
    /* A chunk serves one group at a time. */
    if (!wh_bulk_semaphore_may_try(w, pages_log2 < 5 ? pages_log2 : 5, t.attempt,
                                   (uint32_t)wh_thread_id())) {
        return s;
    }
    const uint32_t n = wh_ouro_ask_chunks_(t, wh_bulk_semaphore_count(w), pages_log2);
    const uint64_t old = wh_fetch_add_u64_relaxed(sem, wh_bulk_semaphore_word(-(int64_t)n, n, 0));
    s.n = wh_bulk_semaphore_got(old, n);
    if (s.n < n) {
        wh_add_u64_relaxed(sem, wh_bulk_semaphore_word((int64_t)(n - s.n), -(int64_t)(n - s.n), 0));
    }
    if (s.n != 0) {
        s.what = WH_OURO_QUEUE;
        s.first = wh_vqueue_reserve_take(wh_ouro_queue_(h.variant, h, c), s.n);
    }
    return s;
}

/* CHUNKS: what a turn does whose pages R counts, and that saw no chunk in the queue; w: the
 * semaphore. */
WH_FN wh_ouro_step wh_ouro_decide_elsewhere_(wh_ouro_ref h, uint32_t c, wh_ouro_turn t,
                                             uint64_t w) {
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const uint32_t level = wh_ouro_level_(h, c);
    wh_ouro_step s = wh_ouro_step_(t);
    if (wh_load_u64_relaxed(&wh_ouro_class_(h, c)->parked) != 0) {
        const uint32_t chunk = wh_ouro_hold_parked_(h, c);
        if (chunk != WH_CHUNK_NONE) {
            s.what = WH_OURO_PARKED;
            s.first = chunk;
            s.n = 1;
            return s;
        }
    }
    if (WH_PLANT(ouro_x1_held, wh_bulk_semaphore_expected(w) != 0, 0)) {
        if (++s.idle > WH_OURO_PATIENCE) {
            s.duty = wh_chunk_pool_has_fresh(pool, level) ? wh_ouro_volunteer_(h, c, t.r, w) : 0;
            s.idle = 0;
        }
        return s;
    }
    if (!wh_chunk_pool_empty(pool, level)) {
        if (++s.idle > 2) { /* nobody fetches, and not for a moment only */
            s.duty = wh_ouro_volunteer_(h, c, t.r, w);
            s.idle = 0;
        }
        return s;
    }
    s.what = WH_OURO_SEARCH;
    return s;
}

/* CHUNKS: what a group of class c does in its turn. R does not count its pages before a first
 * attempt. */
WH_FN_SLOW wh_ouro_step wh_ouro_decide_chunks_(const wh_ouro_header *header, uint32_t c,
                                               wh_ouro_turn t) {
    const wh_ouro_ref h = header->self;
    wh_assert_internal(c < h.n_classes && (t.r != 0 || t.duty != 0) && t.r <= WH_WARP_SIZE);
    wh_assert_internal(t.duty == 0 || t.counted);
    if (t.duty != 0) {
        return wh_ouro_decide_fetch_(h, c, t);
    }
    if (t.counted || t.tries == 0) {
        const uint64_t w = wh_load_u64_relaxed(wh_ouro_sem_(h, c));
        if (wh_bulk_semaphore_count(w) > 0) {
            return wh_ouro_decide_queued_(h, c, t, w);
        }
        if (t.counted) {
            return wh_ouro_decide_elsewhere_(h, c, t, w);
        }
    }
    wh_ouro_step s = wh_ouro_step_(t);
    s.counted = 1;
    s.duty = wh_ouro_reserve_(h, c, t.r);
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

/* CHUNKS: what a group has fetched from the pool. */
typedef struct wh_ouro_fetched {
    uint32_t last;   /* the last chunk */
    uint32_t left;   /* pages of it that the group does not need */
    uint32_t chunks; /* which E counts */
    uint32_t kept;   /* pages for the group, which R counts */
} wh_ouro_fetched;

/* CHUNKS: after a FETCH of chunks by groups of the warp: the last chunk of each goes into its queue
 * if pages are left. f: the leader's. */
WH_FN void wh_ouro_publish_(wh_ouro_ref h, wh_mask mask, int leads, uint32_t c, wh_ouro_fetched f) {
    const uint32_t pages = wh_ouro_pages_(h, leads ? c : 0);
    const int has = leads && f.left != 0;
    wh_assert_internal(!leads || f.left < pages);
    if (has) {
        wh_ouro_free_range_(h, c, f.last, pages - f.left, pages);
    }
    wh_ouro_enqueue_chunks_(h, mask, has, c, f.last, 0);
    if (leads) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, f.chunks, f.kept);
        wh_add_u64_relaxed(&wh_ouro_class_(h, c)->fetching, (uint64_t)0 - f.chunks);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

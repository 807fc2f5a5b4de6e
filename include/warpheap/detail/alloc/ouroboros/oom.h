/* alloc/ouroboros/oom.h: memory of other classes for a class that has none, and NULL.
 * It may change.
 *
 * Fields and who writes them (any lane, device scope)
 *   moving   PAGES: lanes with free pages in hand that come neither from malloc nor from its
 *            caller: lanes that move pages from the queue or an open word to bits, or park what
 *            they free
 *   verdict  by a search that found nothing: store release (X2)
 *
 * Rules
 *   X1  exact out-of-memory. NULL is given only if in one call of wh_ouro_none_ the class's queue
 *       was empty from beginning to end (front is read first, an equal back last). In between the
 *       pool was empty; then all open words were used up and none was being refilled; then nobody
 *       was fetching, holding or moving (E = 0); then nothing was parked. A page on its way from
 *       one of these to the next is seen at one of them: a lane that refills has passed the end of
 *       the word before it takes from the pool, and a lane that closes a word raises E before
 *   X2  ... nor, at that time, was a chunk of any class free as a whole. What could make a chunk
 *       so, or put one into the pool, is an event, and the sum of these is the same before and
 *       after: `back` of PAGES' queues, the upper half of `full`, the tails of the pool's rings.
 *       (Only that a chunk is opened is counted for this alone.) In between a search does this, in
 *       this order: it closes all open words and takes all idle chunks back; it reads all `front`;
 *       it finds no `full` above 0, all open words used up and none being refilled, and nobody
 *       `moving`; and X1. Then the fronts are the backs: no page was in a queue, or on its way into
 *       one. Without events the memory that is free as a whole only becomes less. So what was not
 *       there when it was looked for is not there at the time of X1, nor are pages in an open word,
 *       since no chunk is opened. This verdict holds for all requests for chunks of that size as
 *       long as no event comes: they look for pages of their own (X1), and then compare
 *   X3  a search that finds nothing LOOKS times, though pages of other classes came into their
 *       queues each time, says less: of each chunk that it was not free as a whole at one moment
 *       of each search. Otherwise malloc would wait for as long as others free
 *   X4  with keep_chunks a class's chunks are its own, as in the paper. NULL says X1, and that
 * small chunks of the pool could not be put together. Of the events only the tails count then
 *
 *       Of CHUNKS a free is to raise `full` after it has raised a chunk's count. If in between
 *       another lane takes this chunk, claims of it and lowers `full`, one other chunk that is
 *       free as a whole is not seen until the free goes on. PAGES count such lanes in `moving`
 *
 * Ordering pairs
 *   P5  `moving` is raised (acq_rel) before pages leave the queue, or the chunk's count is raised,
 *       and lowered (release) after `full` has been: a search that sees neither sees the event.
 *       A chunk is in the pool before `full` is lowered for it (release)
 *   P6  verdict: store release -> load acquire: what it says was so before
 */
#ifndef WH_ALLOC_OUROBOROS_OOM_H
#define WH_ALLOC_OUROBOROS_OOM_H

#include "warpheap/detail/alloc/ouroboros/chunks.h"
#include "warpheap/detail/alloc/ouroboros/pages.h"

#include "warpheap/detail/simt/begin.h"

/* Gives a chunk that the caller holds back to the pool, if all its pages are free. */
WH_FN int wh_ouro_retire_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    const uint32_t pages = wh_ouro_pages_(h, c);
    wh_assert_internal(chunk == wh_ouro_first_(h, c, chunk) && h.cls[chunk] == c); /* I3 */
    const uint32_t count = WH_PLANT(ouro_p3_retire, wh_load_u32_acquire,
                                    wh_load_u32_relaxed)(&h.count[chunk]); /* P3 */
    if (WH_PLANT(ouro_i3, count != pages, count == 0)) {
        return 0;
    }
    wh_store_u32_relaxed(&h.count[chunk], 0);
    for (uint32_t w = 0; w < (pages + 63) / 64; w++) {
        wh_store_u64_relaxed(wh_ouro_bits_(h, chunk, w), 0);
    }
    const uint32_t units = wh_ouro_level_(h, c) ? 1u << h.large_log2 : 1;
    for (uint32_t i = 0; i < units; i++) {
        h.cls[chunk + i] = WH_OURO_NO_CLASS; /* I3 */
    }
    wh_chunk_pool_free(wh_ouro_pool_(h), wh_ouro_level_(h, c), chunk);
    /* P5. The other way round a search would find it in neither place. */
    (void)wh_fetch_sub_u64_release(wh_ouro_full_(h, c), 1);
    return 1;
}

/* PAGES: moves up to n pages from the queue of class c to the bits of their chunks, where
 * one sees which chunks are free as a whole ("queue compaction", section 7). */
WH_FN uint32_t wh_ouro_unqueue_pages_(wh_ouro_ref h, uint32_t c, uint32_t n) {
    uint64_t *sem = wh_ouro_sem_(h, c);
    if (wh_bulk_semaphore_count(wh_load_u64_relaxed(sem)) <= 0) {
        return 0;
    }
    /* E keeps others from believing that there is nothing. */
    const uint64_t old = wh_fetch_add_u64_relaxed(sem, wh_bulk_semaphore_word(-(int64_t)n, 1, 0));
    const uint32_t got = wh_bulk_semaphore_got(old, n);
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, c);
    uint64_t first = 0;
    if (got != 0) {                  /* a lane that moves in vain keeps no search from its end */
        wh_ouro_begin_moving_(h, c); /* P5 */
        first = wh_vqueue_reserve_take(q, got);
    }
    wh_add_u64_relaxed(sem, wh_bulk_semaphore_word((int64_t)(n - got), 0, 0));
    for (uint32_t i = 0; i < got; i++) {
        uint32_t page = 0;
        const uint32_t id =
            wh_vqueue_take(q, wh_ouro_queue_chunks_(h), 1u << wh_lane_id(), 1, first + i);
        const uint32_t chunk = wh_ouro_chunk_of_(h, c, id, &page);
        wh_ouro_park_page_(h, c, chunk, page);
    }
    if (got != 0) {
        wh_ouro_end_moving_(h, c); /* P5 */
        wh_fence();                /* X1: parked is raised before E is lowered */
    }
    wh_bulk_semaphore_signal(sem, 0, 1, 0);
    return got;
}

/* PAGES: moves the pages of class u that are in open words or in the queue to the bits of their
 * chunks: all, or as many as make one chunk free as a whole. */
WH_FN void wh_ouro_gather_pages_(wh_ouro_ref h, uint32_t u, int all) {
    const uint64_t *full = wh_ouro_full_(h, u);
    const uint32_t pages = wh_ouro_pages_(h, u);
    int64_t entries = wh_bulk_semaphore_count(wh_load_u64_relaxed(wh_ouro_sem_(h, u)));
    uint32_t left =
        WH_PLANT(ouro_x2_open, wh_load_u64_relaxed(&wh_ouro_class_(h, u)->opened) != 0, 0)
            ? wh_ouro_opens_(h, u)
            : 0;
    for (uint32_t k = 0; left != 0 && (all || wh_ouro_full_now_(wh_load_u64_relaxed(full)) <= 0);
         left--) {
        int coming = 0;
        k = wh_ouro_find_open_(h, u, k, wh_ouro_opens_(h, u), &coming);
        if (k == UINT32_MAX) {
            break;
        }
        wh_ouro_close_(h, u, k);
    }
    /* A chunk's worth of pages at a time, up to all that are in the queue now. */
    for (; entries > 0 && (all || wh_ouro_full_now_(wh_load_u64_relaxed(full)) <= 0);
         entries -= pages) {
        (void)wh_ouro_unqueue_pages_(h, u, pages);
    }
}

/* CHUNKS: takes chunks of class u that are free as a whole from the queue back into the pool: one,
 * or all. Returns how many. */
WH_FN uint32_t wh_ouro_reclaim_queued_(wh_ouro_ref h, uint32_t u, int64_t entries, int all) {
    uint32_t n = 0;
    for (; entries > 0 && (all || n == 0); entries--) {
        const uint32_t chunk = wh_ouro_hold_one_(h, u);
        if (chunk == WH_CHUNK_NONE) {
            break;
        }
        if (wh_ouro_retire_(h, u, chunk)) {
            wh_bulk_semaphore_signal(wh_ouro_sem_(h, u), 0, 1, 0);
            n++;
        } else {
            wh_ouro_enqueue_chunks_(h, 1u << wh_lane_id(), 1, u, chunk, 1);
        }
    }
    return n;
}

/* The same of chunks that are parked, if it has found n elsewhere. */
WH_FN uint32_t wh_ouro_reclaim_parked_(wh_ouro_ref h, uint32_t u, uint32_t n, int all) {
    const uint32_t pages = wh_ouro_pages_(h, u);
    const wh_veb tree = wh_ouro_tree_(h, u);
    const uint64_t start = wh_ouro_start_(h);
    uint64_t end = h.n_chunks;
    for (uint64_t from = start;; from = 0, end = start) { /* to the end, and then up to there */
        for (uint64_t x = wh_veb_scan(tree, from); x < end && (all || n == 0);
             x = wh_veb_scan(tree, x + 1)) {
            if (wh_load_u32_relaxed(&h.count[x]) == pages && wh_veb_remove(tree, x)) { /* P4 */
                if (wh_ouro_retire_(h, u, (uint32_t)x)) {
                    wh_ouro_unpark_(h, u);
                    n++;
                } else {
                    (void)wh_veb_insert(tree, x);
                }
            }
        }
        if (end == start || start == 0) {
            return n;
        }
    }
}

/* Takes chunks of class u, all of whose pages are free, back into the pool: one, or all.
 * Returns how many. */
WH_FN_SLOW uint32_t wh_ouro_reclaim_class_(const wh_ouro_header *header, uint32_t u, int all) {
    const wh_ouro_ref h = header->self;
    int64_t entries = 0; /* of CHUNKS */
    wh_assert_internal(u < h.n_classes);
    if (WH_OURO_BY_CHUNK(h.variant)) {
        entries = wh_bulk_semaphore_count(wh_load_u64_relaxed(wh_ouro_sem_(h, u)));
    } else {
        wh_ouro_gather_pages_(h, u, all);
    }
    if (wh_ouro_full_now_(wh_load_u64_relaxed(wh_ouro_full_(h, u))) <= 0) {
        return 0;
    }
    const uint32_t n = wh_ouro_reclaim_queued_(h, u, entries, all);
    return wh_ouro_reclaim_parked_(h, u, n, all);
}

/* Takes idle memory of other classes back into the pool, for a chunk of class c. Whether it
 * found some. No lane that calls together with the caller has a take outstanding. X4: with
 * keep_chunks only chunks of the pool are put together. */
WH_FN_SLOW int wh_ouro_reclaim_(const wh_ouro_header *header, uint32_t c) {
    const wh_ouro_ref h = header->self;
    const uint32_t level = wh_ouro_level_(h, c);
    if (h.keep_chunks) {
        return level == 1 && wh_chunk_pool_merge(wh_ouro_pool_(h));
    }
    for (uint32_t u = h.n_classes; u-- > 0;) {
        if (u != c && wh_ouro_level_(h, u) >= level && wh_ouro_reclaim_class_(header, u, 0) != 0) {
            return 1;
        }
    }
    for (uint32_t u = 0; level == 1 && u < h.n_small; u++) {
        (void)wh_ouro_reclaim_class_(header, u, 1);
    }
    return level == 1 && wh_chunk_pool_merge(wh_ouro_pool_(h));
}

/* X1: whether class c had no page, nor the pool a chunk for it. */
WH_FN_SLOW int wh_ouro_none_(const wh_ouro_header *header, uint32_t c) {
    const wh_ouro_ref h = header->self;
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, c);
    const uint64_t front = wh_load_u64_acquire(q.front);
    if (!wh_chunk_pool_empty(wh_ouro_pool_(h), wh_ouro_level_(h, c)) ||
        WH_PLANT(ouro_x1_open, !wh_ouro_all_used_up_(h, c), 0)) {
        return 0;
    }
    wh_fence();
    const uint32_t e = wh_bulk_semaphore_expected(wh_load_u64_acquire(wh_ouro_sem_(h, c)));
    if (WH_PLANT(ouro_x1_held, e != 0, 0) ||
        WH_PLANT(ouro_x1_parked, wh_load_u64_acquire(&wh_ouro_class_(h, c)->parked) != 0, 0)) {
        return 0;
    }
    return wh_vqueue_empty_since(q, front);
}

/* X2: what may have made a chunk free as a whole, or put one into the pool. */
typedef struct wh_ouro_events {
    uint64_t whole; /* chunks that became so, or came to the pool */
    uint64_t puts;  /* PAGES: pages that came into queues, each of which may complete a chunk */
} wh_ouro_events;

/* Each of these counts only grows: if two sums are the same, so are all counts in between. */
WH_FN wh_ouro_events wh_ouro_events_(wh_ouro_ref h) {
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    wh_ouro_events e;
    e.whole = wh_load_u64_relaxed(&wh_chunk_pool_ring_(pool, 0)->tail) +
              wh_load_u64_relaxed(&wh_chunk_pool_ring_(pool, 1)->tail);
    e.puts = 0;
    for (uint32_t u = 0; u < h.n_classes && !h.keep_chunks; u++) { /* X4 */
        e.whole += wh_ouro_full_ever_(wh_load_u64_relaxed(wh_ouro_full_(h, u)));
        if (!WH_OURO_BY_CHUNK(h.variant)) {
            e.puts += wh_load_u64_relaxed(wh_ouro_at_(h, WH_OURO_AT_BACK, u));
        }
    }
    wh_fence(); /* what is read next is read later */
    return e;
}

/* X2: whether no class had a chunk that is free as a whole, nor pages in open words, where that
 * does not show, or on their way to where it does. *fronts: the sum of those of PAGES' queues,
 * which were read before. */
WH_FN int wh_ouro_none_whole_(wh_ouro_ref h, uint64_t *fronts) {
    const int by_chunk = WH_OURO_BY_CHUNK(h.variant);
    int whole = 0, used_up = 1;
    uint64_t moving = 0;
    *fronts = 0;
    for (uint32_t u = 0; u < h.n_classes && !by_chunk; u++) {
        *fronts += wh_load_u64_relaxed(wh_ouro_at_(h, WH_OURO_AT_FRONT, u));
    }
    wh_fence();
    for (uint32_t u = 0; u < h.n_classes; u++) {
        const uint64_t full = wh_load_u64_relaxed(wh_ouro_full_(h, u));
        whole |= WH_PLANT(ouro_x2_whole, wh_ouro_full_now_(full) > 0, 0);
        /* If no chunk of u was ever opened: one that is opened from now on is an event. */
        const int opened = wh_load_u64_relaxed(&wh_ouro_class_(h, u)->opened) != 0;
        used_up &= WH_PLANT(ouro_x2_open,
                            WH_PLANT(ouro_x1_open, !opened || wh_ouro_all_used_up_(h, u), 1), 1);
    }
    wh_fence();
    for (uint32_t u = 0; u < h.n_classes && !by_chunk; u++) {
        moving += WH_PLANT(ouro_x2_moving, wh_load_u64_relaxed(&wh_ouro_class_(h, u)->moving), 0);
    }
    wh_fence();
    return !whole && used_up && moving == 0;
}

#define WH_OURO_LOOKS 64u /* X3 */
#define WH_OURO_PAUSE 8u  /* rounds between two searches: time for the lanes that it waits for */

/* What a group has found out by its searches; all 0 at first. */
typedef struct wh_ouro_looks {
    uint64_t stale; /* a verdict that events have overtaken */
    uint32_t vain;  /* of LOOKS */
    uint32_t next;  /* the round of the next search: until then a lane leaves memory to the lanes
                       that it waits for */
} wh_ouro_looks;

/* In round `attempt`: looks for a chunk for class c in all other places. 1: there is nothing (X1,
 * X2). 0: there is a chunk in the pool now, or there may be; look again. No lane that calls
 * together with the caller has a take outstanding. */
WH_FN_SLOW int wh_ouro_search_(const wh_ouro_header *header, uint32_t c, uint32_t attempt,
                               wh_ouro_looks *looks) {
    const wh_ouro_ref h = header->self;
    uint64_t *verdict = &h.header->verdict[wh_ouro_level_(h, c)];
    const uint64_t known = wh_load_u64_acquire(verdict); /* P6 */
    uint64_t fronts = 0;
    if (known != looks->stale && wh_ouro_none_(header, c)) { /* X1 */
        const wh_ouro_events now = wh_ouro_events_(h);       /* no event until after it: X2 */
        if (WH_PLANT(ouro_x2_verdict, known == now.whole + now.puts + 1, 1)) {
            return 1;
        }
        looks->stale = known; /* events only grow */
    }
    if (attempt < looks->next) {
        return 0;
    }
    const wh_ouro_events before = wh_ouro_events_(h);
    if (wh_ouro_reclaim_(header, c)) {
        return 0;
    }
    looks->next = attempt + WH_OURO_PAUSE;
    if ((!h.keep_chunks && !wh_ouro_none_whole_(h, &fronts)) ||
        !wh_ouro_none_(header, c)) { /* X1 */
        return 0;
    }
    const wh_ouro_events after = wh_ouro_events_(h);
    if (WH_PLANT(ouro_x2_whole, after.whole != before.whole, 0)) {
        return 0;
    }
    if (WH_PLANT(ouro_x2_puts, after.puts == before.puts && fronts == before.puts, 1)) {
        wh_store_u64_release(verdict, before.whole + before.puts + 1); /* P6 */
        return 1;
    }
    return ++looks->vain >= WH_PLANT(ouro_x3, WH_OURO_LOOKS, 1u); /* X3 */
}

#include "warpheap/detail/simt/end.h"

#endif

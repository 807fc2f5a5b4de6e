/* alloc/ouroboros: Ouroboros of Winter, Mlakar, Parger and Steinberger, "Ouroboros:
 * Virtualized Queues for Dynamic Memory Management on GPUs", ICS 2020, and chapter 5 of
 * Winter's thesis (2021). One text, six variants:
 *
 *              static queue     array hierarchy    linked chunks
 *   pages      ouro-s-p         ouro-va-p          ouro-vl-p        (4.1, Algorithm 3)
 *   chunks     ouro-s-c         ouro-va-c          ouro-vl-c        (4.2, Algorithms 4, 5)
 *
 * docs/papers/ouroboros.md lists what the papers claim and the departures, with reasons. layout.h
 * holds the structures; core/bulk_semaphore.h, core/chunk_pool.h and core/vqueue.h what the
 * allocator is built of.
 *
 * Terms (the papers')
 *   chunk    8 KiB of the heap, or a power-of-two multiple of that for large sizes. Free
 *            ones are in the pool. One in use is a page chunk of one class, or a queue chunk
 *   page     part of a page chunk; sizes 16 B << class. What malloc returns
 *   queue    one per class: of page indices, or of chunks with free pages
 *   open     PAGES, not in the papers: a chunk of which pages have not been handed out yet. These
 *            do not go through the queue: a class has some open words, {chunk, next page}, and an
 *            add to one's own takes pages from it (docs/papers/ouroboros.md)
 *   parked   not in the papers: where free pages go for which the queue has no room (it is
 *            full, or memory for it to grow is not to be had). Their bits are set and their
 *            chunk is in a tree (core/veb.h), from which it is taken as from a queue
 *
 * Fields and who writes them (any lane, device scope; those of the queue, the pool and the
 * semaphores are explained in core/)
 *   bits     a set bit is a free page that is in no queue of pages. free: fetch_or release;
 *            malloc: fetch_and acquire, for a page claimed in `count`
 *   count    bits set less those claimed. free: fetch_add acq_rel, after the bit; malloc:
 *            fetch_sub by the lane that holds the chunk
 *   cls      plain: by the lane that got the chunk from the pool, before it publishes any
 *            page of it; NO_CLASS by the one that gives it back
 *   sem      bulk semaphore over the queue's values: pages, or chunks. Of chunks E also
 *            counts those that a lane has taken from the queue and may put back. Of pages E counts
 *            lanes that move some to bits, and R those that wait for what others bring
 *   open     PAGES: fetch_add acquire of as many as a group lacks, by its leader, if `next` was not
 *            past the end; store release by the one whose add passed the end, when it has
 *            brought a chunk, or found none; cas acq_rel to USED UP by who moves the rest to bits
 *   parked   chunks in the tree or held by who took one from there: raised before the
 *            insert, lowered when the holder is done
 *   full     of chunks: those with all pages free, outside the pool: raised by who completes one,
 *            lowered by who claims of it, or has put it into the pool (layout.h: two counters, of
 *            which the upper one also counts chunks that were opened)
 *   moving   PAGES: lanes with free pages in hand that come neither from malloc nor from its
 *            caller: who moves pages from the queue or an open word to bits, or parks what it frees
 *   opened   PAGES: 1 from before the first chunk of the class is opened: store relaxed
 *   verdict  by a search that found nothing: store release (X2)
 *   fetching CHUNKS: the part of E that are chunks from the pool, with all their pages; a hint
 *            for who waits: a chunk that a lane holds may have few pages left
 *
 * Invariants
 *   I1  PAGES: a free page is in its class's queue, or its bit is set, or it is not before `next`
 *       in an open word of its class; in one of these only
 *   I2  count > 0 if and only if exactly one of: the chunk is in its queue (CHUNKS), in its
 *       tree, or held by one lane that will put it in one of them. Only the holder lowers
 *       count, so for it count never drops; the free that raises it from 0 is the next
 *       holder
 *   I3  a page chunk keeps its class while a page of it is live or claimed: it goes back to
 *       the pool only through its holder, and with every bit set. So free may read the
 *       class of a live page plainly
 *   I4  a lane that has claimed a page in count finds a set bit: bits >= count + claims
 *   I5  every chunk is in the pool, a page chunk, or a queue chunk
 *   I6  PAGES: an add to an open word takes the pages from the old `next` on that the chunk has,
 *       and the one add that passes its end has the duty to refill the word: at most one chunk
 *       is on its way to a word. Who brings it needs a page of it, so a chunk that is opened has
 *       a live page. Who needs as many pages as a chunk has takes whole ones, never open
 *   X1  exact out-of-memory: NULL only if in one call of wh_ouro_none_ the class's queue was
 *       empty from beginning to end (front read first, equal back read last), and in
 *       between the pool was empty, then all open words were used up and none was being refilled,
 *       then nobody was fetching, holding or moving (E = 0), then nothing was parked. A page on its
 *       way from one to the next of these is seen at one of them: who refills has passed the end of
 *       the word before he takes from the pool, who closes a word raises E before
 *   X2  ... nor, at that time, was a chunk of any class free as a whole: what could make one so,
 *       or put one into the pool, is an event, and the sum of these is the same before and
 *       after (`back` of PAGES' queues, the upper half of `full`, the tails of the pool's
 *       rings; only that a chunk is opened is counted for it alone). In between, in this order:
 *       all open words are closed and all idle chunks taken back, all `front` are read, no `full`
 *       is above 0, all open words are used up and none is being refilled, nobody is `moving`,
 *       and X1; and the fronts are the backs: no page was in a queue, or on its way into one.
 *       Without events what is free as a whole only becomes less, so what was not there when
 *       it was looked for is not there at the time of X1; nor are pages in an open word, since
 *       no chunk is opened. This verdict holds for all who ask for chunks of that size as long as
 *       no event comes: they look for pages of their own (X1) and then compare
 *   X3  a search that finds nothing LOOKS times, though pages of other classes came into their
 *       queues each time, says less: of each chunk that it was not free as a whole at one moment
 *       of each search. Otherwise malloc would wait for as long as others free
 *
 *       Of CHUNKS a free is to raise `full` after it has raised a chunk's count. If in between
 *       another lane takes this chunk, claims of it and lowers `full`, one other chunk that is
 *       free as a whole is not seen until the free goes on. PAGES count such lanes in `moving`
 *
 * Ordering pairs
 *   P1  free: put release -> malloc: take acquire (core/ring.h). Of PAGES it hands on the page; of
 *       CHUNKS only the number of a chunk, whose pages go by P2 and P3
 *   P2  bits: fetch_or release -> fetch_and acquire. CHUNKS: the lanes whose pages share a word
 *       -> syncwarp -> the one that makes the fetch_or
 *   P3  count: last free acq_rel -> holder's acquire -> pool: no access to a chunk's pages
 *       is after it has another class
 *   P4  parked: tree insert release -> remove acquire (core/veb.h P1)
 *   P5  `moving` is raised (acq_rel) before pages leave the queue, or the chunk's count is raised,
 *       and lowered (release) after `full` has been: a search that sees neither sees the event.
 *       A chunk is in the pool before `full` is lowered for it (release)
 *   P6  verdict: store release -> load acquire: what it says was so before
 *   P7  open word: what who made the chunk one of this class has written, and what its pages' last
 *       users did: store release -> add or cas acquire; then to the lanes of the group by syncwarp
 *
 * Progress  Fast paths: a bounded number of atomics. A lane waits (a) in a queue or the pool
 *       for a lane that has a position, (b) while E > 0 or C > 0 for those who fetch, hold or
 *       take, (c) at X1 for a lane that holds a parked chunk, (d) at X2 for who moves pages, frees
 *       one, or takes back or claims of a chunk that is free as a whole, (e) at an open word for
 *       the lane that refills it. Each of these is between two of its own steps; a holder, and who
 *       refills, waits for (a) only. A search is made again because of an event, that is, because
 *       a free got on or a chunk has become available; and nobody passes the end of an open word
 *       who sees the pool empty, or X1 might never see a word that is not being refilled. Inside a
 *       warp: in each round of slow_ all lanes first finish their takes, then put; who passes the
 *       end of an open word refills it at once.
 * Cost  PAGES: malloc and free 2 atomics per group of lanes of a class, 3 with a queue that may be
 *       full or lies on chunks, and 1 per lane; malloc with an empty queue 3 per group, and 4 for
 *       each chunk. CHUNKS: malloc about 6 per group and 1 per lane, free 2 per group of lanes
 *       that share a word of bits; more only by those that complete a chunk or free its first page
 * Check tests/conform, tests/stress, tests/fault; wh_ouro_check_
 */
#ifndef WH_ALLOC_OUROBOROS_H
#define WH_ALLOC_OUROBOROS_H

#include "warpheap/detail/alloc/ouroboros/layout.h"
#include "warpheap/core/hash.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

/* --- putting chunks where they are found ------------------------------------------------ */

/* I2: a chunk that the caller holds, with count > 0, into the tree. */
WH_FN void wh_ouro_park_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    wh_add_u64_relaxed(&wh_ouro_class_(h, c)->parked, 1);
    (void)wh_veb_insert(wh_ouro_tree_(h, c), chunk); /* P4 */
}

WH_FN void wh_ouro_unpark_(wh_ouro_ref h, uint32_t c) {
    (void)wh_fetch_sub_u64_release(&wh_ouro_class_(h, c)->parked, 1);
}

/* Where a lane begins to look through a tree. Every one begins elsewhere: in a full heap all lanes
 * of a device look at once. */
WH_FN uint64_t wh_ouro_start_(wh_ouro_ref h) {
    return (uint64_t)wh_spread32((uint32_t)wh_thread_id()) * h.n_chunks >> 32;
}

/* Takes a chunk out of the tree: the caller holds it. NONE: there is none. */
WH_FN uint32_t wh_ouro_hold_parked_(wh_ouro_ref h, uint32_t c) {
    const wh_veb tree = wh_ouro_tree_(h, c);
    for (uint64_t from = wh_ouro_start_(h);;) {
        uint64_t chunk = wh_veb_successor(tree, from);
        if (chunk == WH_VEB_NONE && from != 0) {
            chunk = wh_veb_successor(tree, 0);
        }
        if (chunk == WH_VEB_NONE) {
            chunk = wh_veb_scan(tree, 0);
        }
        if (chunk == WH_VEB_NONE) {
            return WH_CHUNK_NONE;
        }
        if (wh_veb_remove(tree, chunk)) { /* P4 */
            return (uint32_t)chunk;
        }
        from = chunk;
    }
}

/* What add_pages and claim_pages have found. */
#define WH_OURO_HOLDS 1u /* the chunk had no free pages: the caller holds it now */
#define WH_OURO_FULL 2u  /* all its pages are free, or were: `full` is to be changed */

/* Adds n pages to the count of a chunk, whose bits are set. */
WH_FN uint32_t wh_ouro_add_pages_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t n) {
    const uint32_t old = WH_PLANT(ouro_p3_count, wh_fetch_add_u32_acq_rel,
                                  wh_fetch_add_u32_relaxed)(&h.count[chunk], n); /* P3 */
    const uint32_t full = old + n == 1u << wh_ouro_pages_log2_(h, c) ? WH_OURO_FULL : 0;
    return (old == 0 ? WH_OURO_HOLDS : 0) | full; /* I2 */
}

/* Changes `full` by so many chunks of lanes with `changes`: one add for the lanes of a class
 * (with pages as large as chunks each page counts). All lanes of mask call. */
WH_FN void wh_ouro_add_full_(wh_ouro_ref h, wh_mask mask, int changes, uint32_t c, int up) {
    if (wh_any(mask, changes)) {
        const wh_group g = wh_group_by_u32(mask, changes ? c : WH_OURO_NO_CLASS);
        if (changes && wh_group_leads(g)) {
            wh_add_u64_relaxed(wh_ouro_full_(h, c),
                               up ? wh_ouro_full_up_(g.n) : wh_ouro_full_down_(g.n));
        }
    }
}

/* Sets bits in word w of a chunk: which of them were clear. The others are of free pages. */
WH_FN uint64_t wh_ouro_set_bits_(wh_ouro_ref h, uint32_t chunk, uint32_t w, uint64_t bits) {
    return bits & ~WH_PLANT(ouro_p2_set, wh_fetch_or_u64_release,
                            wh_fetch_or_u64_relaxed)(wh_ouro_bits_(h, chunk, w), bits); /* P2 */
}

/* PAGES: counts n pages of a chunk whose bits are set, and parks the chunk if need be. */
WH_FN void wh_ouro_park_pages_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t n) {
    const uint32_t found = wh_ouro_add_pages_(h, c, chunk, n);
    if ((found & WH_OURO_FULL) != 0) {
        wh_add_u64_relaxed(wh_ouro_full_(h, c), wh_ouro_full_up_(1));
    }
    if ((found & WH_OURO_HOLDS) != 0) {
        wh_ouro_park_(h, c, chunk);
    }
}

/* PAGES: a free page for which the queue has no room. */
WH_FN void wh_ouro_park_page_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t page) {
    if (wh_ouro_set_bits_(h, chunk, page >> 6, (uint64_t)1 << (page & 63)) == 0) {
        wh_add_u64_relaxed(&h.header->bad_frees, 1);
    } else {
        wh_ouro_park_pages_(h, c, chunk, 1);
    }
}

/* The bits of word w of a chunk that stand for pages [from, to). */
WH_HD uint64_t wh_ouro_range_bits_(uint32_t w, uint32_t from, uint32_t to) {
    const uint32_t begin = w * 64 > from ? 0 : from - w * 64;
    const uint32_t end = w * 64 + 64 < to ? 64 : to - w * 64;
    return wh_lowest_bits(UINT64_MAX, end - begin) << begin;
}

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

/* --- memory for other classes -------------------------------------------------------------- */

/* Gives a chunk that the caller holds back to the pool, if all its pages are free. */
WH_FN int wh_ouro_retire_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    const uint32_t pages_log2 = wh_ouro_pages_log2_(h, c), pages = 1u << pages_log2;
    const uint32_t count = wh_load_u32_acquire(&h.count[chunk]); /* P3 */
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
    if (got != 0) { /* who moves in vain keeps no search from its end */
        (void)wh_fetch_add_u64_acq_rel(&wh_ouro_class_(h, c)->moving, 1); /* P5 */
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
        (void)wh_fetch_sub_u64_release(&wh_ouro_class_(h, c)->moving, 1); /* P5 */
        wh_fence(); /* X1: parked is raised before E is lowered */
    }
    wh_bulk_semaphore_signal(sem, 0, 1, 0);
    return got;
}

/* How many open words are loaded at once by who looks at all of them: each is a round trip. */
#define WH_OURO_AT_ONCE 8u

/* `next` in open word k of class c. */
WH_FN uint32_t wh_ouro_load_open_(wh_ouro_ref h, uint32_t c, uint32_t k) {
    return wh_ouro_open_next_(wh_load_u64_relaxed(wh_ouro_open_(h, c, k)));
}

/* Whether all open words of class c are used up, and nobody brings a chunk for one. */
WH_FN int wh_ouro_all_used_up_(wh_ouro_ref h, uint32_t c) {
    const uint32_t n = wh_ouro_opens_(h, c), pages = 1u << wh_ouro_pages_log2_(h, c);
    uint32_t differs = 0;
    for (uint32_t k = 0; k < n && differs == 0; k += WH_OURO_AT_ONCE) {
        for (uint32_t j = 0; j < WH_OURO_AT_ONCE; j++) {
            differs |= k + j < n ? wh_ouro_load_open_(h, c, k + j) ^ pages : 0;
        }
    }
    return differs == 0;
}

/* PAGES: one of the n open words of class c from word `from` on, cyclically, that has pages ahead;
 * NONE if there is none. *coming: whether one is being refilled. */
WH_FN uint32_t wh_ouro_find_open_(wh_ouro_ref h, uint32_t c, uint32_t from, uint32_t n,
                                  int *coming) {
    const uint32_t all = wh_ouro_opens_(h, c), pages = 1u << wh_ouro_pages_log2_(h, c);
    uint32_t found = UINT32_MAX;
    *coming = 0;
    for (uint32_t i = 0; i < n && found == UINT32_MAX; i += WH_OURO_AT_ONCE) {
        uint32_t next[WH_OURO_AT_ONCE];
        for (uint32_t j = 0; j < WH_OURO_AT_ONCE; j++) {
            next[j] = i + j < n ? wh_ouro_load_open_(h, c, (from + i + j) & (all - 1)) : pages;
        }
        for (uint32_t j = 0; j < WH_OURO_AT_ONCE; j++) {
            found = next[j] < pages ? (from + i + j) & (all - 1) : found;
            *coming |= next[j] > pages;
        }
    }
    return found;
}

/* PAGES: moves the pages that are ahead in open word k of class c to the bits of their chunk. */
WH_FN void wh_ouro_close_(wh_ouro_ref h, uint32_t c, uint32_t k) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    uint64_t *word = wh_ouro_open_(h, c, k), *sem = wh_ouro_sem_(h, c);
    uint64_t w = wh_load_u64_relaxed(word);
    if (wh_ouro_open_next_(w) >= pages) {
        return;
    }
    /* As in unqueue_pages_. Both before the pages leave the word (acq_rel): X1, P5. */
    wh_add_u64_relaxed(sem, wh_bulk_semaphore_word(0, WH_PLANT(ouro_x1_closing, 1, 0), 0));
    (void)wh_fetch_add_u64_acq_rel(&wh_ouro_class_(h, c)->moving, 1);
    for (uint64_t seen; wh_ouro_open_next_(w) < pages; w = seen) {
        seen = wh_cas_u64_acq_rel(word, w, wh_ouro_used_up_(h, c)); /* P7 */
        if (seen == w) {
            const uint32_t chunk = wh_ouro_open_chunk_(w), next = wh_ouro_open_next_(w);
            for (uint32_t b = next / 64; b * 64 < pages; b++) {
                (void)wh_ouro_set_bits_(h, chunk, b, wh_ouro_range_bits_(b, next, pages));
            }
            wh_ouro_park_pages_(h, c, chunk, pages - next);
            break;
        }
    }
    (void)wh_fetch_sub_u64_release(&wh_ouro_class_(h, c)->moving, 1); /* P5 */
    wh_fence(); /* X1: parked is raised before E is lowered */
    wh_bulk_semaphore_signal(sem, 0, WH_PLANT(ouro_x1_closing, 1, 0), 0);
}

/* Takes chunks of class u, all of whose pages are free, back into the pool: one, or all.
 * Returns how many. */
WH_FN_SLOW uint32_t wh_ouro_reclaim_class_(const wh_ouro_header *header, uint32_t u, int all) {
    const wh_ouro_ref h = header->self;
    uint64_t *sem = wh_ouro_sem_(h, u);
    const uint64_t *full = wh_ouro_full_(h, u);
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, u);
    uint32_t n = 0;
    int64_t entries = wh_bulk_semaphore_count(wh_load_u64_relaxed(sem));
    if (!WH_OURO_BY_CHUNK(h.variant)) {
        uint32_t left =
            WH_PLANT(ouro_x2_open, wh_load_u64_relaxed(&wh_ouro_class_(h, u)->opened) != 0, 0)
                ? wh_ouro_opens_(h, u)
                : 0;
        for (uint32_t k = 0;
             left != 0 && (all || wh_ouro_full_now_(wh_load_u64_relaxed(full)) <= 0); left--) {
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
        entries = 0;
    }
    if (wh_ouro_full_now_(wh_load_u64_relaxed(full)) <= 0) {
        return 0;
    }
    for (; entries > 0 && (all || n == 0); entries--) {
        const uint32_t chunk = wh_ouro_hold_one_(h, u);
        if (chunk == WH_CHUNK_NONE) {
            break;
        }
        if (wh_ouro_retire_(h, u, chunk)) {
            wh_bulk_semaphore_signal(sem, 0, 1, 0);
            n++;
        } else {
            wh_ouro_enqueue_chunks_(h.variant, h, 1u << wh_lane_id(), 1, u, chunk, 1);
        }
    }
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

/* Takes idle memory of other classes back into the pool, for a chunk of class c. Whether it
 * found some. No lane that calls together with the caller has a take outstanding. */
WH_FN_SLOW int wh_ouro_reclaim_(const wh_ouro_header *header, uint32_t c) {
    const wh_ouro_ref h = header->self;
    const uint32_t level = wh_ouro_level_(h, c);
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
    for (uint32_t u = 0; u < h.n_classes; u++) {
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
#define WH_OURO_PAUSE 8u  /* rounds between two searches: time for those that this one waits for */

/* What a group has found out by its searches; all 0 at first. */
typedef struct wh_ouro_looks {
    uint64_t stale; /* a verdict that events have overtaken */
    uint32_t vain;  /* of LOOKS */
    uint32_t next;  /* the round of the next search: in between a lane leaves memory to those that
                       it waits for */
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
    if (!wh_ouro_none_whole_(h, &fronts) || !wh_ouro_none_(header, c)) { /* X1 */
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

/* --- the slow path of malloc ------------------------------------------------------------- */

/* Claims the bit of a page of a chunk; the caller has claimed it in count (I4). start: where
 * to look first; what is fresh is handed out in order. */
WH_FN uint32_t wh_ouro_claim_bit_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t start) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    const uint32_t words = (pages + 63) / 64;
    start &= pages - 1;
    for (uint32_t w = start / 64, from = start % 64;;) {
        uint64_t *bits = wh_ouro_bits_(h, chunk, w);
        const uint64_t set = wh_load_u64_relaxed(bits);
        if (set == 0) {
            w = w + 1 < words ? w + 1 : 0;
            from = 0;
            continue;
        }
        const uint64_t above = set >> from << from;
        const uint32_t b = wh_ctz64(above != 0 ? above : set);
        const uint64_t bit = (uint64_t)1 << b;
        const uint64_t old = WH_PLANT(ouro_p2_claim, wh_fetch_and_u64_acquire,
                                      wh_fetch_and_u64_relaxed)(bits, ~bit); /* P2 */
        if ((old & bit) != 0) {
            return w * 64 + b;
        }
    }
}

/* Lowers the count of a chunk that the caller holds by up to n: how many pages it has
 * claimed. *left: what others may still claim; *found: FULL if all pages were free. */
WH_FN uint32_t wh_ouro_claim_pages_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t n,
                                    uint32_t *start, uint32_t *left, uint32_t *found) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    const uint32_t have = wh_load_u32_relaxed(&h.count[chunk]);
    const uint32_t got = have < n ? have : n;
    const uint32_t old = wh_fetch_sub_u32_acq_rel(&h.count[chunk], got); /* I2 */
    *found = old == pages ? WH_OURO_FULL : 0;
    *start = pages - old;
    *left = old - got;
    return got;
}

/* Makes a chunk from the pool one of class c; its pages [from, pages) are free. */
WH_FN void wh_ouro_format_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    const uint32_t units = wh_ouro_level_(h, c) ? 1u << h.large_log2 : 1;
    wh_store_u32_relaxed(&h.count[chunk], 0);
    for (uint32_t i = 0; i < units; i++) {
        h.cls[chunk + i] = c; /* I3 */
    }
    const uint32_t words = ((1u << wh_ouro_pages_log2_(h, c)) + 63) / 64;
    for (uint32_t w = 0; w < words; w++) {
        wh_store_u64_relaxed(wh_ouro_bits_(h, chunk, w), 0);
    }
}

/* What the leader of a group has decided to do in a round. */
#define WH_OURO_WAIT 0u
#define WH_OURO_FETCH 1u  /* n chunks from the pool. PAGES: which the group needs whole */
#define WH_OURO_QUEUE 2u  /* n values from the queue, from position `first` on */
#define WH_OURO_PARKED 3u /* one chunk, `first`, from the tree */
#define WH_OURO_SEARCH 4u /* nothing in any of these places */
#define WH_OURO_OPEN                                                              \
    5u /* PAGES: n pages from those ahead in an open word that was `first`; then, \
          if `from` is not NONE, of that chunk, which is new, from its first on */

#define WH_OURO_ENOUGH 5u   /* `tries` after two chunks from the queue */
#define WH_OURO_PATIENCE 6u /* rounds in which chunks were only held, before more are fetched */

typedef struct wh_ouro_step {
    uint64_t first;
    uint32_t what;
    uint32_t n;
    uint32_t from;
    uint32_t duty;    /* CHUNKS: afterwards */
    uint32_t counted; /* afterwards */
} wh_ouro_step;

WH_FN wh_ouro_step wh_ouro_step_(uint32_t duty, uint32_t counted) {
    wh_ouro_step s;
    s.what = WH_OURO_WAIT;
    s.first = 0;
    s.n = 0;
    s.from = 0;
    s.duty = duty;
    s.counted = counted;
    return s;
}

/* Chunks of the pool, if any were taken. */
WH_FN void wh_ouro_step_fetch_(wh_chunk_pool_taken t, wh_ouro_step *s) {
    if (t.n != 0) {
        s->what = WH_OURO_FETCH;
        s->first = t.first;
        s->n = t.n;
        s->from = t.from;
    }
}

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

/* The open word of the caller: few SMs share one, and the warps of one spread over some. */
WH_FN uint32_t wh_ouro_my_place_(wh_ouro_ref h, uint32_t c) {
    return (wh_sm_id() + wh_thread_in_block() / WH_WARP_SIZE * 37u) & (wh_ouro_opens_(h, c) - 1);
}

/* PAGES: opens a chunk that the caller has made one of class c for open word k: pages from `next`
 * on are ahead. */
WH_FN void wh_ouro_install_(wh_ouro_ref h, uint32_t c, uint32_t k, uint32_t chunk, uint32_t next) {
    wh_store_u64_relaxed(&wh_ouro_class_(h, c)->opened, 1);
    wh_add_u64_relaxed(wh_ouro_full_(h, c), WH_PLANT(ouro_x2_opened, wh_ouro_full_opened_(), 0));
    WH_PLANT(ouro_p7_install, wh_store_u64_release, wh_store_u64_relaxed)
    (wh_ouro_open_(h, c, k), wh_ouro_open_word_(chunk, next)); /* P7 */
}

/* PAGES: brings a chunk for open word k of class c, of which the caller has the first `kept` pages.
 * seen: what it saw in the pool. NONE: the pool had none, and somebody else may try. */
WH_FN_SLOW uint32_t wh_ouro_refill_(const wh_ouro_header *header, uint32_t c, uint32_t seen,
                                    uint32_t k, uint32_t kept) {
    const wh_ouro_ref h = header->self;
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const uint32_t level = wh_ouro_level_(h, c);
    const wh_chunk_pool_taken t = wh_chunk_pool_take_seen(pool, level, seen);
    if (t.n == 0) {
        wh_store_u64_release(wh_ouro_open_(h, c, k), wh_ouro_used_up_(h, c));
        return WH_CHUNK_NONE;
    }
    const uint32_t chunk = wh_chunk_pool_get(pool, level, t, 0);
    wh_ouro_format_(h, c, chunk);
    wh_ouro_install_(h, c, k, chunk, kept);
    return chunk;
}

/* PAGES: takes up to r pages from those ahead in open word k of class c. Whoever passes the end of
 * the chunk, which is one, brings the next, and has what it lacks of that. seen: in the pool. */
WH_FN void wh_ouro_step_open_(const wh_ouro_header *header, wh_ouro_ref h, uint32_t c, uint32_t k,
                              uint32_t r, uint32_t seen, wh_ouro_step *s) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    const uint64_t old = WH_PLANT(ouro_p7_take, wh_fetch_add_u64_acquire,
                                  wh_fetch_add_u64_relaxed)(wh_ouro_open_(h, c, k), r); /* P7 */
    const uint32_t next = wh_ouro_open_next_(old);
    s->first = old;
    s->from = WH_CHUNK_NONE;
    if (next < pages) {
        s->n = WH_PLANT(ouro_i6, r < pages - next, 1) ? r : pages - next;
    }
    if (next <= pages && next + r > pages) { /* I6 */
        const uint32_t rest = r - s->n;
        s->from = wh_ouro_refill_(header, c, seen, k,
                                  WH_PLANT(ouro_i6_next, rest < pages, 1) ? rest : pages);
    }
    s->what = s->n != 0 || s->from != WH_CHUNK_NONE ? WH_OURO_OPEN : WH_OURO_WAIT;
}

/* How many lanes a step has pages for, if it was OPEN. */
WH_FN uint32_t wh_ouro_opened_(wh_ouro_ref h, uint32_t c, const wh_ouro_step *s) {
    return s->n + (s->from != WH_CHUNK_NONE ? 1u << wh_ouro_pages_log2_(h, c) : 0);
}

/* The page of the lane of this rank in a group whose step was OPEN; NULL: it has none yet. */
WH_FN void *wh_ouro_opened_page_(wh_ouro_ref h, uint32_t c, const wh_ouro_step *s, uint32_t rank) {
    const int old = rank < s->n;
    const uint32_t chunk = old ? wh_ouro_open_chunk_(s->first) : s->from;
    const uint32_t page = old ? wh_ouro_open_next_(s->first) + rank : rank - s->n;
    return rank < wh_ouro_opened_(h, c, s) ? wh_ouro_page_(h, c, chunk, page) : NULL;
}

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

/* Serves the lanes of groups that have no page yet. All lanes of mask call; `lanes` is the caller's
 * group, of class c (NO_CLASS: takes no part), p the caller's page if it has one; begun, position,
 * chunk: see finish_. */
WH_FN_SLOW void *wh_ouro_slow_(const wh_ouro_header *header, wh_mask mask, wh_mask lanes,
                               uint32_t c, void *p, uint32_t begun, uint64_t position,
                               uint32_t chunk_begun) {
    const wh_ouro_ref h = header->self;
    const int by_chunk = WH_OURO_BY_CHUNK(h.variant);
    const int in = c != WH_OURO_NO_CLASS;
    const uint32_t leader = wh_mask_leader(lanes);
    const int leads = in && wh_lane_id() == leader;
    const uint32_t cc = in ? c : 0; /* any class, to compute with */
    const uint32_t pages_log2 = wh_ouro_pages_log2_(h, cc);
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, cc);
    uint32_t place = 0;
    if (!by_chunk) {
        p = wh_ouro_finish_(h, mask, c, begun, position, chunk_begun, p);
        place = wh_ouro_my_place_(h, cc);
    }
    int need = in && p == NULL;
    uint32_t idle = 0, tries = 0, counted = 0, duty = 0;
    wh_ouro_looks looks = {0, 0, 0};
    for (uint32_t attempt = 0; wh_any(mask, need || duty != 0); attempt++) {
        const wh_mask needy = wh_ballot(mask, need) & lanes;
        const uint32_t r = wh_popc32(needy), rank = wh_mask_rank(needy);
        wh_ouro_step s = wh_ouro_step_(0, counted);
        if (leads && (r != 0 || duty != 0)) {
            s = by_chunk
                    ? wh_ouro_decide_chunks_(header, c, r, duty, counted, tries, attempt, &idle)
                    : wh_ouro_decide_pages_(header, c, r, counted, place, attempt);
            tries += s.what == WH_OURO_QUEUE ? 2u : tries == 0;
        }
        const int needed = need;
        const uint32_t fetched = duty; /* CHUNKS: E counts them until publish */
        const int waits =
            !wh_any(mask, s.what != WH_OURO_WAIT || s.duty != duty || s.counted != counted);
        counted = s.counted;
        duty = s.what == WH_OURO_FETCH ? 0 : s.duty;
        s.what = wh_shfl_u32(mask, s.what, leader);
        s.n = wh_shfl_u32(mask, s.n, leader);
        s.first = wh_shfl_u64(mask, s.first, leader);
        s.from = wh_shfl_u32(mask, s.from, leader);
        if (waits) {
            wh_backoff(attempt);
            continue;
        }
        wh_syncwarp(mask); /* what the leader acquired with a chunk, for the lane that uses it */

        /* Takes, of all groups of the warp. */
        uint32_t value = WH_CHUNK_NONE;
        const int takes = need && s.what == WH_OURO_QUEUE && rank < s.n;
        if (wh_any(mask, takes)) {
            value = wh_vqueue_take(q, wh_ouro_queue_chunks_(h), mask, takes, s.first + rank);
        }
        const int fetches = s.what == WH_OURO_FETCH;
        if (need && fetches && rank < s.n) {
            wh_chunk_pool_taken t;
            t.first = s.first;
            t.n = s.n;
            t.from = s.from;
            value = wh_chunk_pool_get(wh_ouro_pool_(h), wh_ouro_level_(h, c), t, rank);
            wh_ouro_format_(h, c, value);
        }
        if (need && s.what == WH_OURO_PARKED && rank == 0) {
            value = (uint32_t)s.first;
        }
        wh_syncwarp(mask);

        /* FETCH: page i of the new chunks for the lane of rank i. */
        const uint64_t all = fetches ? (uint64_t)s.n << pages_log2 : 0;
        const uint32_t keep = all < r ? (uint32_t)all : r;
        const uint32_t which = fetches && need && rank < keep ? rank >> pages_log2 : 0;
        const uint32_t from = needy != 0 ? wh_select64(needy, which) : wh_lane_id();
        const uint32_t chunk = wh_shfl_u32(mask, value, from);
        const uint32_t last = fetches && needy != 0 ? wh_select64(needy, s.n - 1) : wh_lane_id();
        const uint32_t last_chunk = wh_shfl_u32(mask, value, last);
        if (wh_any(mask, fetches)) {
            if (fetches && need && rank < keep) {
                p = wh_ouro_page_(h, c, chunk, rank & ((1u << pages_log2) - 1));
                need = 0;
            }
            if (by_chunk) {
                wh_ouro_publish_(h, mask, leads && fetches, c, last_chunk,
                                 leads && fetches ? (uint32_t)(all - keep) : 0, fetched, keep);
            }
        }

        /* Pages from the queue, or an open word. */
        if (takes && !by_chunk) {
            p = h.base + ((uint64_t)value << wh_ouro_page_log2_(h, c));
            need = 0;
        }
        const int opens = s.what == WH_OURO_OPEN;
        if (need && opens) {
            p = wh_ouro_opened_page_(h, c, &s, rank);
            need = p == NULL;
        }
        if (leads && !by_chunk && counted && (fetches || opens)) {
            const uint32_t most = opens ? wh_ouro_opened_(h, c, &s) : keep;
            wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 0, most < r ? most : r);
        }

        /* Chunks from the queue or the tree: one for the group, or one for each lane. */
        const int chunks = (s.what == WH_OURO_QUEUE && by_chunk) || s.what == WH_OURO_PARKED;
        if (wh_any(mask, chunks)) {
            const int one = s.n == 1;
            const int holds = chunks && need && rank < s.n;
            uint32_t start = 0, left = 0, got = 0, found = 0;
            if (holds) {
                got = wh_ouro_claim_pages_(h, c, value, one ? r : 1, &start, &left, &found);
            }
            wh_ouro_add_full_(h, mask, found != 0, c, 0);
            const uint32_t first_needy = needy != 0 ? wh_mask_leader(needy) : wh_lane_id();
            const uint32_t theirs = wh_shfl_u32(mask, value, first_needy);
            const uint32_t claimed = wh_shfl_u32(mask, got, first_needy);
            const uint32_t begin = wh_shfl_u32(mask, start, first_needy);
            const int parks = holds && s.what == WH_OURO_PARKED;
            const int again = holds && left != 0;
            /* The chunk goes back before the bits are claimed: others wait for it. */
            if (parks && again && !by_chunk) {
                wh_ouro_park_(h, c, value);
            }
            if (by_chunk) {
                if (wh_any(mask, again && !parks)) {
                    wh_ouro_enqueue_chunks_(h.variant, h, mask, again && !parks, c, value, 1);
                }
                if (wh_any(mask, again && parks)) {
                    wh_ouro_enqueue_chunks_(h.variant, h, mask, again && parks, c, value, 0);
                }
            }
            if (parks) {
                wh_ouro_unpark_(h, c);
            }
            if (holds && !again && !parks) {
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 1, 0);
            }
            const int served = chunks && need && (one ? rank < claimed : holds);
            const wh_mask done = wh_ballot(mask, served) & lanes;
            wh_syncwarp(mask);
            if (served) {
                const uint32_t of = one ? theirs : value;
                const uint32_t page = wh_ouro_claim_bit_(h, c, of, one ? begin + rank : start);
                p = wh_ouro_page_(h, c, of, page);
                need = 0;
            }
            if (leads && done != 0 && counted) {
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 0, wh_popc32(done));
            }
        }

        /* Now that no take is outstanding: memory of other classes, or NULL. */
        if (wh_any(mask, s.what == WH_OURO_SEARCH)) {
            uint32_t none = 0;
            if (leads && s.what == WH_OURO_SEARCH &&
                wh_ouro_search_(header, c, attempt, &looks)) { /* X1, X2 */
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), 0, 0, r);
                none = 1;
            }
            none = wh_shfl_u32(mask, none, leader);
            need = need && !none;
        }
        if (!wh_any(mask, needed != need || duty != 0)) {
            wh_backoff(attempt); /* nobody got on: what they lack is on its way elsewhere */
        }
    }
    if (in && p == NULL) {
        wh_add_u64_relaxed(&h.header->failed, 1);
    }
    return p;
}

/* PAGES: what the fast path of malloc has left. Arguments as slow_'s. */
WH_FN_SLOW void *wh_ouro_more_(const wh_ouro_header *header, wh_mask mask, wh_mask lanes,
                               uint32_t c, void *p, uint32_t begun, uint64_t position,
                               uint32_t chunk) {
    const int takes = (begun & WH_OURO_TAKES) != 0;
    const int lacks = c != WH_OURO_NO_CLASS && p == NULL && !takes;
    const uint32_t vain = wh_popc32(wh_ballot(mask, lacks) & lanes);
    if (vain != 0 && wh_lane_id() == wh_mask_leader(lanes)) { /* undoes what the take had in vain */
        wh_add_u64_relaxed(wh_ouro_sem_(header->self, c), wh_bulk_semaphore_word(vain, 0, 0));
    }
    if (!wh_any(mask, begun != 0)) { /* nobody has a position in hand */
        p = wh_ouro_from_open_(header, mask, lanes, c);
        if (!wh_any(mask, lacks && p == NULL)) {
            return p;
        }
    }
    return wh_ouro_slow_(header, mask, lanes, c, p, begun, position, chunk);
}

/* --- the contract -------------------------------------------------------------------------- */

WH_FN void *wh_ouro_malloc_(uint32_t variant, wh_ouro_ref h, wh_mask mask, size_t n) {
    uint32_t c = WH_OURO_NO_CLASS;
    if (n != 0) {
        c = n <= wh_ouro_max_size_(h) ? wh_pow2_class(n, h.min_log2) : WH_OURO_NO_CLASS;
        if (c == WH_OURO_NO_CLASS) {
            wh_add_u64_relaxed(&h.header->failed, 1);
        }
    }
    const int in = c != WH_OURO_NO_CLASS;
    const wh_group g = wh_group_by_u32(mask, c);
    const int leads = in && wh_group_leads(g);
    uint64_t *sem = wh_ouro_sem_(h, in ? c : 0);
    void *p = NULL;
    uint64_t first = 0;
    uint32_t got = 0, begun = 0, chunk = WH_CHUNK_NONE;
    if (!WH_OURO_BY_CHUNK(variant)) {
        const wh_vqueue q = wh_ouro_queue_(variant, h, in ? c : 0);
        const wh_vqueue_chunks k = wh_ouro_queue_chunks_(h);
        if (leads) {
            got = wh_bulk_semaphore_got(wh_bulk_semaphore_take(sem, g.n), g.n);
            first = got != 0 ? wh_vqueue_reserve_take(q, got) : 0;
        }
        got = wh_shfl_u32(mask, got, g.leader);
        first = wh_shfl_u64(mask, first, g.leader) + g.rank;
        const int takes = in && g.rank < got;
        const uint32_t value = takes ? wh_vqueue_try_take(q, k, first, &chunk) : 0; /* P1 */
        if (value != 0) {
            p = h.base + ((uint64_t)(value - 1) << wh_ouro_page_log2_(h, c));
        }
        begun = takes ? WH_OURO_TAKES : 0;
        if (!wh_any(mask, in && p == NULL)) {
            begun = wh_vqueue_finish_take(q, k, mask, takes, chunk) ? WH_OURO_RETIRES : 0;
            if (!wh_any(mask, begun != 0)) {
                return p;
            }
        }
    }
    p = WH_OURO_BY_CHUNK(variant)
            ? wh_ouro_slow_(h.header, mask, g.lanes, c, p, begun, first, chunk)
            : wh_ouro_more_(h.header, mask, g.lanes, c, p, begun, first, chunk);
    wh_syncwarp(mask);
    return p;
}

/* Frees of which the page or the chunk is not in order. */
WH_FN void wh_ouro_bad_free_(wh_ouro_ref h) {
    wh_add_u64_relaxed(&h.header->bad_frees, 1);
}

/* Puts a value for each lane of a group into its queue: a page that it frees, or a chunk that it
 * holds. All lanes of mask call; lanes: those of the caller's class c (NO_CLASS: takes no part).
 * old: what the first take of room returned. placed: it gave all, and the caller's position is
 * `position`, where its value is still to be put if `waits`. */
WH_FN_SLOW void wh_ouro_put_rest_(const wh_ouro_header *header, wh_mask mask, wh_mask lanes,
                                  uint32_t c, uint32_t value, uint64_t old, int placed, int waits,
                                  uint64_t position) {
    const wh_ouro_ref h = header->self;
    const int in = c != WH_OURO_NO_CLASS, by_chunk = WH_OURO_BY_CHUNK(h.variant);
    const uint32_t cc = in ? c : 0, leader = wh_mask_leader(lanes), rank = wh_mask_rank(lanes);
    const int leads = in && wh_lane_id() == leader;
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, cc);
    const wh_vqueue_chunks k = wh_ouro_queue_chunks_(h);
    uint32_t room = wh_popc32(lanes);
    if (!placed) {
        room = wh_vqueue_more_room_(q, k, mask, leads ? room : 0, old);
        if (leads && room != 0) {
            position = wh_vqueue_reserve_put(q, room);
        }
        room = wh_shfl_u32(mask, room, leader);
        position = wh_shfl_u64(mask, position, leader) + rank;
        waits = in && rank < room;
    }
    wh_vqueue_put(q, k, mask, waits, position, value); /* P1 */
    if (leads && room != 0) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), room, 0, 0);
    }
    const int parks = in && rank >= room;
    if (wh_any(mask, parks)) {
        const int some = leads && room < wh_popc32(lanes) && !by_chunk;
        if (some) { /* others may lower `full` before it is raised for a chunk completed here */
            (void)wh_fetch_add_u64_acq_rel(&wh_ouro_class_(h, c)->moving, 1); /* P5 */
        }
        wh_syncwarp(mask);
        if (parks && by_chunk) {
            wh_ouro_park_(h, c, value);
        } else if (parks) {
            uint32_t page = 0;
            const uint32_t chunk = wh_ouro_chunk_of_(h, c, value, &page);
            wh_ouro_park_page_(h, c, chunk, page);
        }
        wh_syncwarp(mask);
        if (some) {
            (void)wh_fetch_sub_u64_release(&wh_ouro_class_(h, c)->moving, 1); /* P5 */
        }
    }
}

/* Puts the values of lanes with `active` into the queues of their classes. All lanes of mask call;
 * g: the caller's group, of the active lanes of its class. */
WH_FN void wh_ouro_put_(uint32_t variant, wh_ouro_ref h, wh_mask mask, wh_group g, int active,
                        uint32_t c, uint32_t value) {
    const int leads = active && wh_group_leads(g);
    const wh_vqueue q = wh_ouro_queue_(variant, h, active ? c : 0);
    const uint64_t old = wh_vqueue_ask_room_(q, leads ? g.n : 0);
    const int placed = !wh_any(mask, leads && wh_bulk_semaphore_got(old, g.n) < g.n);
    uint64_t first = 0;
    int waits = 0;
    if (placed) {
        if (leads) {
            first = wh_vqueue_reserve_put(q, g.n);
        }
        first = wh_shfl_u64(mask, first, g.leader) + g.rank;
        waits = active && !wh_vqueue_try_put(q, wh_ouro_queue_chunks_(h), first, value); /* P1 */
        if (!wh_any(mask, waits)) {
            /* Counted when they are there, so that hardly anybody waits for one. */
            if (leads) {
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), g.n, 0, 0);
            }
            return;
        }
    }
    wh_ouro_put_rest_(h.header, mask, g.lanes, active ? c : WH_OURO_NO_CLASS, value, old, placed,
                      waits, first);
}

WH_FN void wh_ouro_free_(uint32_t variant, wh_ouro_ref h, wh_mask mask, void *p) {
    const uint64_t offset = (uint64_t)((unsigned char *)p - h.base);
    uint32_t c = WH_OURO_NO_CLASS;
    if (offset < h.data_bytes) {           /* not so for NULL */
        c = h.cls[offset >> h.chunk_log2]; /* I3 */
        if (c < h.n_classes && (offset & (((uint64_t)1 << wh_ouro_page_log2_(h, c)) - 1)) != 0) {
            c = WH_OURO_NO_CLASS; /* an interior pointer */
        }
    }
    if (p != NULL && c == WH_OURO_NO_CLASS) {
        wh_ouro_bad_free_(h);
    }
    const int in = c != WH_OURO_NO_CLASS;
    const uint32_t cc = in ? c : 0;
    const uint32_t id = (uint32_t)(offset >> wh_ouro_page_log2_(h, cc));
    if (!WH_OURO_BY_CHUNK(variant)) { /* Algorithm 3, freePage */
        wh_ouro_put_(variant, h, mask, wh_group_by_u32(mask, c), in, c, id);
        return;
    }
    /* Algorithm 4, freePage, with one atomic for the lanes that share a word of bits. */
    const uint32_t chunk = wh_ouro_first_(h, cc, (uint32_t)(offset >> h.chunk_log2));
    const uint32_t page = id & ((1u << wh_ouro_pages_log2_(h, cc)) - 1);
    const uint32_t word = (chunk << h.words_log2) + (page >> 6);
    /* P2: one lane sets the bits of others' pages. Its release covers what they did there, and
     * their plain look at cls (I3), only behind a syncwarp: votes and shuffles order nothing.
     * Without it ThreadSanitizer finds races in tests/conform and tests/stress. */
    wh_syncwarp(mask);
    const wh_group g = wh_group_by_u32(mask, in ? word : UINT32_MAX);
    const uint64_t bits = wh_group_bits_u64(mask, g, page & 63, in);
    uint32_t found = 0;
    if (in && wh_group_leads(g)) {
        const uint32_t freed = wh_popc64(wh_ouro_set_bits_(h, chunk, page >> 6, bits));
        if (freed != g.n) { /* free already, or named twice */
            wh_add_u64_relaxed(&h.header->bad_frees, g.n - freed);
        }
        if (freed != 0) {
            found = wh_ouro_add_pages_(h, c, chunk, freed);
        }
    }
    wh_ouro_add_full_(h, mask, (found & WH_OURO_FULL) != 0, c, 1);
    const int holds = (found & WH_OURO_HOLDS) != 0;
    if (wh_any(mask, holds)) {
        wh_ouro_put_(variant, h, mask, wh_group_by_u32(mask, holds ? c : WH_OURO_NO_CLASS), holds,
                     c, chunk);
    }
}

WH_FN void *wh_ouro_aligned_(uint32_t variant, wh_ouro_ref h, wh_mask mask, size_t align,
                             size_t n) {
    /* A page of 2^k bytes lies at a multiple of 2^k. */
    return wh_ouro_malloc_(variant, h, mask, n == 0 ? 0 : n > align ? n : align);
}

WH_FN uint64_t wh_ouro_usable_size_(wh_ouro_ref h, const void *p) {
    const uint64_t offset = (uint64_t)((const unsigned char *)p - h.base);
    const uint32_t c = offset < h.data_bytes ? h.cls[offset >> h.chunk_log2] : WH_OURO_NO_CLASS;
    return c < h.n_classes ? (uint64_t)1 << wh_ouro_page_log2_(h, c) : 0;
}

WH_FN int wh_ouro_owns_(wh_ouro_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.data_bytes;
}

/* The region of tuning.linear_bytes, as the caller uses it: the heap does not touch it, reset
 * included, and grow takes its contents along. Host and device. */
WH_HD void *wh_ouro_linear(wh_ouro_ref h) {
    return h.linear_bytes != 0 ? h.linear : NULL;
}

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/alloc/ouroboros/grow.h"
#include "warpheap/detail/alloc/ouroboros/inspect.h"

#include "warpheap/detail/simt/begin.h"

/* --- the six variants ------------------------------------------------------------------------ */

/* X(ident, "name", kind of queue, what it holds) */
#define WH_OURO_VARIANT_LIST(X)                                    \
    X(ouro_s_p, "ouro-s-p", WH_VQUEUE_ARRAY, WH_OURO_PAGES)        \
    X(ouro_s_c, "ouro-s-c", WH_VQUEUE_ARRAY, WH_OURO_CHUNKS)       \
    X(ouro_va_p, "ouro-va-p", WH_VQUEUE_HIERARCHY, WH_OURO_PAGES)  \
    X(ouro_va_c, "ouro-va-c", WH_VQUEUE_HIERARCHY, WH_OURO_CHUNKS) \
    X(ouro_vl_p, "ouro-vl-p", WH_VQUEUE_LINKED, WH_OURO_PAGES)     \
    X(ouro_vl_c, "ouro-vl-c", WH_VQUEUE_LINKED, WH_OURO_CHUNKS)

#define WH_OURO_VARIANT_(ident, name, kind, holds)                                                \
    typedef wh_ouro_ref wh_##ident##_ref;                                                         \
    WH_FN_HOST wh_status wh_##ident##_plan(wh_ouro_ref *h, wh_plan *plan, unsigned char *memory,  \
                                           uint64_t bytes, const wh_tuning *tuning,               \
                                           uint32_t n_sms) {                                      \
        (void)n_sms;                                                                              \
        return wh_ouro_plan_((kind) | (holds), h, NULL, plan, memory, bytes, tuning);             \
    }                                                                                             \
    WH_FN void wh_##ident##_init(wh_ouro_ref h, uint64_t i, uint64_t n) {                         \
        wh_ouro_init_(h, i, n);                                                                   \
    }                                                                                             \
    WH_FN void *wh_##ident##_malloc(wh_ouro_ref h, wh_mask mask, size_t n) {                      \
        return wh_ouro_malloc_((kind) | (holds), h, mask, n);                                     \
    }                                                                                             \
    WH_FN void wh_##ident##_free(wh_ouro_ref h, wh_mask mask, void *p) {                          \
        wh_ouro_free_((kind) | (holds), h, mask, p);                                              \
    }                                                                                             \
    WH_FN void *wh_##ident##_aligned(wh_ouro_ref h, wh_mask mask, size_t align, size_t n) {       \
        return wh_ouro_aligned_((kind) | (holds), h, mask, align, n);                             \
    }                                                                                             \
    WH_FN uint64_t wh_##ident##_usable_size(wh_ouro_ref h, const void *p) {                       \
        return wh_ouro_usable_size_(h, p);                                                        \
    }                                                                                             \
    WH_FN int wh_##ident##_owns(wh_ouro_ref h, const void *p) {                                   \
        return wh_ouro_owns_(h, p);                                                               \
    }                                                                                             \
    WH_FN void wh_##ident##_stats(wh_ouro_ref h, uint64_t i, uint64_t n, wh_stats *s) {           \
        wh_ouro_stats_(h, i, n, s);                                                               \
    }                                                                                             \
    WH_FN void wh_##ident##_check(wh_ouro_ref h, uint64_t i, uint64_t n, wh_report *r) {          \
        wh_ouro_check_(h, i, n, r);                                                               \
    }                                                                                             \
    WH_FN void wh_##ident##_walk(wh_ouro_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {     \
        wh_ouro_walk_(h, i, n, sink);                                                             \
    }                                                                                             \
    WH_FN_HOST wh_status wh_##ident##_grow_plan(wh_ouro_ref *h, wh_ouro_ref old, wh_plan *plan,   \
                                                unsigned char *memory, uint64_t bytes,            \
                                                const wh_tuning *tuning, int64_t *moved) {        \
        return wh_ouro_grow_plan_((kind) | (holds), h, &old, plan, memory, bytes, tuning, moved); \
    }                                                                                             \
    WH_FN void wh_##ident##_grow(wh_ouro_ref h, wh_ouro_ref old, uint64_t i, uint64_t n) {        \
        wh_ouro_grow_(h, old, i, n);                                                              \
    }
WH_OURO_VARIANT_LIST(WH_OURO_VARIANT_)
#undef WH_OURO_VARIANT_

#define WH_ALLOC_GROWS

#define wh_ouro_s_p_NAME "ouro-s-p"
#define wh_ouro_s_p_left WH_NO_LEFT
#define wh_ouro_s_c_NAME "ouro-s-c"
#define wh_ouro_s_c_left WH_NO_LEFT
#define wh_ouro_va_p_NAME "ouro-va-p"
#define wh_ouro_va_p_left WH_NO_LEFT
#define wh_ouro_va_c_NAME "ouro-va-c"
#define wh_ouro_va_c_left WH_NO_LEFT
#define wh_ouro_vl_p_NAME "ouro-vl-p"
#define wh_ouro_vl_p_left WH_NO_LEFT
#define wh_ouro_vl_c_NAME "ouro-vl-c"
#define wh_ouro_vl_c_left WH_NO_LEFT
#define wh_ouro_s_p_layout wh_ouro_layout_
#define wh_ouro_s_c_layout wh_ouro_layout_
#define wh_ouro_va_p_layout wh_ouro_layout_
#define wh_ouro_va_c_layout wh_ouro_layout_
#define wh_ouro_vl_p_layout wh_ouro_layout_
#define wh_ouro_vl_c_layout wh_ouro_layout_
#define wh_ouro_s_p_BLOCKS WH_OURO_BLOCKS_PAGES
#define wh_ouro_s_p_EACH 0
#define wh_ouro_s_c_BLOCKS WH_OURO_BLOCKS_CHUNKS
#define wh_ouro_s_c_EACH 0
#define wh_ouro_va_p_BLOCKS WH_OURO_BLOCKS_PAGES
#define wh_ouro_va_p_EACH 0
#define wh_ouro_va_c_BLOCKS WH_OURO_BLOCKS_CHUNKS
#define wh_ouro_va_c_EACH 0
#define wh_ouro_vl_p_BLOCKS WH_OURO_BLOCKS_PAGES
#define wh_ouro_vl_p_EACH 0
#define wh_ouro_vl_c_BLOCKS WH_OURO_BLOCKS_CHUNKS
#define wh_ouro_vl_c_EACH 0
#define wh_ouro_s_p_MAX_ALIGN WH_OURO_MAX_ALIGN
#define wh_ouro_s_c_MAX_ALIGN WH_OURO_MAX_ALIGN
#define wh_ouro_va_p_MAX_ALIGN WH_OURO_MAX_ALIGN
#define wh_ouro_va_c_MAX_ALIGN WH_OURO_MAX_ALIGN
#define wh_ouro_vl_p_MAX_ALIGN WH_OURO_MAX_ALIGN
#define wh_ouro_vl_c_MAX_ALIGN WH_OURO_MAX_ALIGN

#include "warpheap/detail/simt/end.h"

#endif

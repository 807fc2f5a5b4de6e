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

#include "warpheap/detail/alloc/ouroboros/grow.h"
#include "warpheap/detail/alloc/ouroboros/inspect.h"
#include "warpheap/detail/alloc/ouroboros/malloc.h"

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
                                           uint64_t bytes, const void *options, uint32_t n_sms) { \
        (void)n_sms;                                                                              \
        return wh_ouro_plan_((kind) | (holds), h, NULL, plan, memory, bytes, options);            \
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
                                                const void *options) {                            \
        return wh_ouro_grow_plan_((kind) | (holds), h, &old, plan, memory, bytes, options);       \
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

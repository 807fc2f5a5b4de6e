/* alloc/ouroboros: Ouroboros of Winter, Mlakar, Parger and Steinberger, "Ouroboros:
 * Virtualized Queues for Dynamic Memory Management on GPUs", ICS 2020, and chapter 5 of
 * Winter's thesis (2021). One text, six variants. It may change.
 *
 *              static queue     array hierarchy    linked chunks
 *   pages      ouro-s-p         ouro-va-p          ouro-vl-p        (4.1, Algorithm 3)
 *   chunks     ouro-s-c         ouro-va-c          ouro-vl-c        (4.2, Algorithms 4, 5)
 *
 * docs/papers/ouroboros.md lists what the papers claim and the departures, with reasons. The
 * allocator is built of core/bulk_semaphore.h, core/chunk_pool.h and core/vqueue.h.
 *
 *   layout.h   the structures, and the arithmetic between sizes, chunks, pages and addresses
 *   park.h     bits of free pages, and chunks that have some: I2, I3, I4, P2, P3, P4
 *   step.h     what a group of lanes lacks, and what its leader decides in a round
 *   open.h     open words: I6, P7
 *   pages.h    the variants whose queues hold pages: I1
 *   chunks.h   the variants whose queues hold chunks
 *   oom.h      memory of other classes, and NULL: X1, X2, X3, P5, P6
 *   slow.h     the slow path of malloc, and who waits for whom
 *   malloc.h   malloc and free: P1
 *   compact.h  between launches: chunks that are free as a whole leave their class: K1, K2, K3
 *   grow.h, inspect.h   a larger heap; statistics, check, walk
 *
 * Terms (the papers')
 *   chunk    8 KiB of the heap, or a power-of-two multiple of that for large sizes. Free
 *            ones are in the pool. One in use is a page chunk of one class, or a queue chunk
 *   page     part of a page chunk; sizes 16 B << class. What malloc returns
 *   queue    one per class: of page indices, or of chunks with free pages
 *   open     PAGES, not in the papers: a chunk of which some pages have not been handed out yet.
 *            These do not go through the queue: a class has some open words, {chunk, next page},
 *            and an add to one's own takes pages from it
 *   parked   not in the papers: where free pages go for which the queue has no room (it is
 *            full, or memory for it to grow is not to be had). Their bits are set and their
 *            chunk is in a tree (core/veb.h), from which it is taken as from a queue
 *
 * Invariant
 *   I5  every chunk is in the pool, a page chunk, or a queue chunk
 *
 * Progress  Fast paths: a bounded number of atomics. slow.h tells what a slow path waits for.
 * Cost  PAGES: malloc and free 2 atomics per group of lanes of a class, 3 with a queue that may be
 *       full or lies on chunks, and 1 per lane; malloc with an empty queue 3 per group, and 4 for
 *       each chunk. CHUNKS: malloc about 6 per group and 1 per lane, free 2 per group of lanes
 *       that share a word of bits; more only by those that complete a chunk or free its first page
 * Check tests/conform, tests/stress, tests/fault; wh_ouro_check_
 */
#ifndef WH_ALLOC_OUROBOROS_H
#define WH_ALLOC_OUROBOROS_H

#include "warpheap/detail/alloc/ouroboros/compact.h"
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
        h->variant = (kind) | (holds);                                                            \
        return wh_ouro_plan_(h, NULL, plan, memory, bytes, options);                              \
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
        return wh_ouro_grow_plan_(h, &old, plan, memory, bytes, options);                         \
    }                                                                                             \
    WH_FN void wh_##ident##_grow(wh_ouro_ref h, wh_ouro_ref old, uint64_t i, uint64_t n) {        \
        wh_ouro_grow_(h, old, i, n);                                                              \
    }                                                                                             \
    WH_FN void wh_##ident##_compact_queues(wh_ouro_ref h, wh_compaction *out) {                   \
        wh_ouro_compact_queues_(h, out);                                                          \
    }                                                                                             \
    WH_FN void wh_##ident##_compact_chunks(wh_ouro_ref h, uint64_t i, uint64_t n,                 \
                                           wh_compaction *out) {                                  \
        wh_ouro_compact_chunks_(h, i, n, out);                                                    \
    }
WH_OURO_VARIANT_LIST(WH_OURO_VARIANT_)
#undef WH_OURO_VARIANT_

#define WH_ALLOC_GROWS
#define WH_ALLOC_COMPACTS

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

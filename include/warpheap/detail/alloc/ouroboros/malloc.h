/* alloc/ouroboros/malloc.h: malloc and free of the six variants. It may change.
 *
 * Ordering pairs
 *   P1  free: put release -> malloc: take acquire (core/ring.h). Of PAGES it hands on the page; of
 *       CHUNKS only the number of a chunk, whose pages go by P2 and P3
 */
#ifndef WH_ALLOC_OUROBOROS_MALLOC_H
#define WH_ALLOC_OUROBOROS_MALLOC_H

#include "warpheap/detail/alloc/ouroboros/slow.h"

#include "warpheap/detail/simt/begin.h"

/* PAGES: what the fast path can do: one take for the group. Whether that is all: each lane has its
 * page, *p, or takes no part, and nothing is left to do. Else *b is what it has begun. */
WH_FN int wh_ouro_take_page_(uint32_t variant, wh_ouro_ref h, wh_ouro_caller who, wh_group g,
                             wh_ouro_begun *b, void **p) {
    const wh_vqueue q = wh_ouro_queue_(variant, h, wh_ouro_some_class_(who));
    const wh_vqueue_chunks k = wh_ouro_queue_chunks_(h);
    const int in = wh_ouro_takes_part_(who);
    uint64_t first = 0;
    uint32_t got = 0;
    if (in && wh_group_leads(g)) {
        uint64_t *sem = wh_ouro_sem_(h, who.c);
        got = wh_bulk_semaphore_got(wh_bulk_semaphore_take(sem, g.n), g.n);
        first = got != 0 ? wh_vqueue_reserve_take(q, got) : 0;
    }
    got = wh_shfl_u32(who.mask, got, g.leader);
    b->position = wh_shfl_u64(who.mask, first, g.leader) + g.rank;
    const int takes = in && g.rank < got;
    const uint32_t value = takes ? wh_vqueue_try_take(q, k, b->position, &b->chunk) : 0; /* P1 */
    if (value != 0) {
        *p = wh_ouro_page_at_(h, who.c, value - 1);
    }
    b->what = takes ? WH_OURO_TAKES : 0;
    if (wh_any(who.mask, in && *p == NULL)) {
        return 0;
    }
    b->what = wh_vqueue_finish_take(q, k, who.mask, takes, b->chunk) ? WH_OURO_RETIRES : 0;
    return !wh_any(who.mask, b->what != 0);
}

WH_FN void *wh_ouro_malloc_(uint32_t variant, wh_ouro_ref h, wh_mask mask, size_t n) {
    wh_ouro_caller who;
    who.mask = mask;
    who.c = WH_OURO_NO_CLASS;
    if (n != 0) {
        who.c = n <= wh_ouro_max_size_(h) ? wh_pow2_class(n, h.min_log2) : WH_OURO_NO_CLASS;
        if (who.c == WH_OURO_NO_CLASS) {
            wh_add_u64_relaxed(&h.header->failed, 1);
        }
    }
    const wh_group g = wh_group_by_u32(mask, who.c);
    wh_ouro_begun begun = {0, 0, WH_CHUNK_NONE};
    void *p = NULL;
    who.lanes = g.lanes;
    if (WH_OURO_BY_CHUNK(variant)) {
        p = wh_ouro_slow_(h.header, who, begun, p);
    } else {
        if (wh_ouro_take_page_(variant, h, who, g, &begun, &p)) {
            return p;
        }
        p = wh_ouro_more_(h.header, who, begun, p);
    }
    wh_syncwarp(mask);
    return p;
}

/* A free whose page or chunk is not in order. */
WH_FN void wh_ouro_bad_free_(wh_ouro_ref h) {
    wh_add_u64_relaxed(&h.header->bad_frees, 1);
}

/* What the fast path of a put has come to. */
typedef struct wh_ouro_put_begun {
    uint64_t old;      /* what the first take of room returned */
    uint64_t position; /* of the caller's value, if `placed` */
    int placed;        /* that take gave room for all */
    int waits;         /* and the caller's value is still to be put */
} wh_ouro_put_begun;

/* Puts a value for each lane of a group into its queue: a page that it frees, or a chunk that it
 * holds. All lanes of the caller's mask call. */
WH_FN_SLOW void wh_ouro_put_rest_(const wh_ouro_header *header, wh_ouro_caller who, uint32_t value,
                                  wh_ouro_put_begun b) {
    const wh_ouro_ref h = header->self;
    const wh_mask mask = who.mask;
    const int in = wh_ouro_takes_part_(who), leads = wh_ouro_leads_(who);
    const int by_chunk = WH_OURO_BY_CHUNK(h.variant);
    const uint32_t c = who.c, leader = wh_mask_leader(who.lanes);
    const uint32_t rank = wh_mask_rank(who.lanes);
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, wh_ouro_some_class_(who));
    const wh_vqueue_chunks k = wh_ouro_queue_chunks_(h);
    uint32_t room = wh_popc32(who.lanes);
    if (!b.placed) {
        room = wh_vqueue_more_room_(q, k, mask, leads ? room : 0, b.old);
        if (leads && room != 0) {
            b.position = wh_vqueue_reserve_put(q, room);
        }
        room = wh_shfl_u32(mask, room, leader);
        b.position = wh_shfl_u64(mask, b.position, leader) + rank;
        b.waits = in && rank < room;
    }
    wh_vqueue_put(q, k, mask, b.waits, b.position, value); /* P1 */
    if (leads && room != 0) {
        wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), room, 0, 0);
    }
    const int parks = in && rank >= room;
    if (wh_any(mask, parks)) {
        const int some = leads && room < wh_popc32(who.lanes) && !by_chunk;
        if (some) { /* others may lower `full` before it is raised for a chunk completed here */
            wh_ouro_begin_moving_(h, c); /* P5 */
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
            wh_ouro_end_moving_(h, c); /* P5 */
        }
    }
}

/* Puts values into the queues of their classes. All lanes of mask call; g: the caller's group, of
 * the lanes of its class c; NO_CLASS: the caller has no value. */
WH_FN void wh_ouro_put_(uint32_t variant, wh_ouro_ref h, wh_mask mask, wh_group g, uint32_t c,
                        uint32_t value) {
    const int active = c != WH_OURO_NO_CLASS;
    const int leads = active && wh_group_leads(g);
    const wh_vqueue q = wh_ouro_queue_(variant, h, active ? c : 0);
    wh_ouro_put_begun b;
    b.old = wh_vqueue_ask_room_(q, leads ? g.n : 0);
    b.placed = !wh_any(mask, leads && wh_bulk_semaphore_got(b.old, g.n) < g.n);
    b.position = 0;
    b.waits = 0;
    if (b.placed) {
        if (leads) {
            b.position = wh_vqueue_reserve_put(q, g.n);
        }
        b.position = wh_shfl_u64(mask, b.position, g.leader) + g.rank;
        b.waits =
            active && !wh_vqueue_try_put(q, wh_ouro_queue_chunks_(h), b.position, value); /* P1 */
        if (!wh_any(mask, b.waits)) {
            /* Counted when they are there, so that hardly anybody waits for one. */
            if (leads) {
                wh_bulk_semaphore_signal(wh_ouro_sem_(h, c), g.n, 0, 0);
            }
            return;
        }
    }
    wh_ouro_caller who;
    who.mask = mask;
    who.lanes = g.lanes;
    who.c = c;
    wh_ouro_put_rest_(h.header, who, value, b);
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
        wh_ouro_put_(variant, h, mask, wh_group_by_u32(mask, c), c, id);
        return;
    }
    /* Algorithm 4, freePage, with one atomic for the lanes that share a word of bits. */
    const uint32_t chunk = wh_ouro_first_(h, cc, (uint32_t)(offset >> h.chunk_log2));
    const uint32_t page = id & (wh_ouro_pages_(h, cc) - 1);
    const uint32_t word = (chunk << h.words_log2) + (page >> 6);
    /* P2: one lane sets the bits of others' pages. Its release covers what they did there, and
     * their plain look at cls (I3), only behind a syncwarp: votes and shuffles order nothing.
     * Without it ThreadSanitizer finds races in tests/conform and tests/stress. */
    if (WH_PLANT(ouro_p2_lanes, 1, 0)) {
        wh_syncwarp(mask);
    }
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
        const uint32_t cls = holds ? c : WH_OURO_NO_CLASS;
        wh_ouro_put_(variant, h, mask, wh_group_by_u32(mask, cls), cls, chunk);
    }
}

WH_FN void *wh_ouro_aligned_(uint32_t variant, wh_ouro_ref h, wh_mask mask, size_t align,
                             size_t n) {
    /* A page of 2^k bytes lies at a multiple of 2^k. */
    const size_t size = n > align ? n : align;
    wh_assert(wh_is_pow2(align));
    return wh_ouro_malloc_(variant, h, mask, n == 0 ? 0 : size);
}

WH_FN uint64_t wh_ouro_usable_size_(wh_ouro_ref h, const void *p) {
    const uint64_t offset = (uint64_t)((const unsigned char *)p - h.base);
    const uint32_t c = offset < h.data_bytes ? h.cls[offset >> h.chunk_log2] : WH_OURO_NO_CLASS;
    return c < h.n_classes ? (uint64_t)1 << wh_ouro_page_log2_(h, c) : 0;
}

WH_FN int wh_ouro_owns_(wh_ouro_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.data_bytes;
}

/* The region of linear_bytes, as the caller uses it: the heap does not touch it, reset
 * included, and grow takes its contents along. Host and device. */
WH_HD void *wh_ouro_linear(wh_ouro_ref h) {
    return h.linear_bytes != 0 ? h.linear : NULL;
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/ouroboros/malloc.h: malloc and free. */
#ifndef WH_ALLOC_OUROBOROS_MALLOC_H
#define WH_ALLOC_OUROBOROS_MALLOC_H

#include "warpheap/detail/alloc/ouroboros/slow.h"

#include "warpheap/detail/simt/begin.h"

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

/* The region of linear_bytes, as the caller uses it: the heap does not touch it, reset
 * included, and grow takes its contents along. Host and device. */
WH_HD void *wh_ouro_linear(wh_ouro_ref h) {
    return h.linear_bytes != 0 ? h.linear : NULL;
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/ouroboros/grow.h: a quiet heap into a larger region, contents kept. It may change.
 *
 * Everything but the handle is addressed by index (of chunks, of pages, of positions). So chunks
 * and what is kept per chunk are copied as they are. Tables whose size goes with the heap (rings,
 * entries, links) get each item at the place that its position has in the larger one. Trees are
 * filled anew.
 *
 * Invariants
 *   G1  h has the chunk and page sizes, the classes and the linear region of old, at least
 *       as many chunks, tables no smaller, and no fewer open words (wh_ouro_grow_plan_)
 *   G2  small chunks that old had not handed out yet, and those between old's end and the
 *       next multiple of a large chunk, come into the ring of small ones; the rest of h is
 *       fresh
 * Lanes     thread i of n, each its own items; the heap h is as init has left it
 * Check     tests/unit/ouroboros.c
 */
#ifndef WH_ALLOC_OUROBOROS_GROW_H
#define WH_ALLOC_OUROBOROS_GROW_H

#include "warpheap/detail/alloc/ouroboros/layout.h"

#include "warpheap/detail/simt/begin.h"

WH_FN_HOST wh_status wh_ouro_grow_plan_(wh_ouro_ref *h, const wh_ouro_ref *old, wh_plan *plan,
                                        unsigned char *memory, uint64_t bytes,
                                        const void *options) {
    h->variant = old->variant;
    const wh_status s = wh_ouro_plan_(h, old, plan, memory, bytes, options);
    if (s != WH_OK) {
        return s;
    }
    plan->moved = (int64_t)((uint64_t)(uintptr_t)h->base - (uint64_t)(uintptr_t)old->base);
    if (h->n_chunks < old->n_chunks) { /* G1: not much larger, and in a worse place */
        return WH_HEAP_TOO_SMALL;
    }
    for (uint32_t level = 0; level < 2; level++) {
        if (h->table_log2[level] < old->table_log2[level] ||
            h->open_log2[level] < old->open_log2[level] ||
            h->open_first_log2 < old->open_first_log2) { /* G1 */
            return WH_BAD_ARGUMENT;
        }
    }
    return WH_OK;
}

/* The small chunks that come into the ring (G2): fresh ones of old, and `join` from its end
 * on. */
typedef struct wh_ouro_joining {
    uint64_t offset; /* of h's pool */
    uint32_t fresh, join;
} wh_ouro_joining;

WH_HD wh_ouro_joining wh_ouro_join_(wh_ouro_ref h, wh_ouro_ref old, uint64_t old_offset) {
    const uint32_t unit = 1u << h.large_log2;
    const uint32_t end = h.n_chunks & ~(unit - 1);
    const uint32_t up = (old.n_chunks + unit - 1) & ~(unit - 1);
    wh_ouro_joining j;
    j.fresh = wh_chunk_pool_left_(wh_ouro_pool_(old), old_offset, 0);
    if (up < end) {
        j.offset = up; /* fresh: from `up` on */
        j.join = up - old.n_chunks;
    } else {
        j.offset = h.n_chunks;
        j.join = h.n_chunks - old.n_chunks;
    }
    return j;
}

WH_FN void wh_ouro_grow_pool_(wh_ouro_ref h, wh_ouro_ref old, uint64_t i, uint64_t n) {
    const wh_chunk_pool a = wh_ouro_pool_(old), b = wh_ouro_pool_(h);
    const wh_ouro_joining j = wh_ouro_join_(h, old, *wh_chunk_pool_offset_(a));
    const uint64_t joining = (uint64_t)j.fresh + j.join;
    wh_chunk_pool_taken t;
    t.first = *wh_chunk_pool_offset_(a);
    t.n = j.fresh;
    t.from = WH_CHUNK_POOL_FRESH;
    if (i == 0) {
        h.header->failed = old.header->failed;
        h.header->bad_frees = old.header->bad_frees;
        *wh_chunk_pool_offset_(b) = j.offset;
        b.state->loose = a.state->loose;
        for (uint32_t l = 0; l < 2; l++) {
            *wh_chunk_pool_count_(b, l) = *wh_chunk_pool_count_(a, l);
            *wh_chunk_pool_ring_(b, l) = *wh_chunk_pool_ring_(a, l);
        }
        *wh_chunk_pool_count_(b, 0) += joining;
        wh_chunk_pool_ring_(b, 0)->tail += joining;
    }
    for (uint32_t l = 0; l < 2; l++) {
        const uint64_t mask_a = ((uint64_t)1 << a.entries_log2[l]) - 1;
        const uint64_t mask_b = ((uint64_t)1 << b.entries_log2[l]) - 1;
        for (uint64_t p = wh_chunk_pool_ring_(a, l)->head + i; p < wh_chunk_pool_ring_(a, l)->tail;
             p += n) {
            b.entries[l][p & mask_b] = a.entries[l][p & mask_a];
        }
    }
    const uint64_t mask = ((uint64_t)1 << b.entries_log2[0]) - 1;
    for (uint64_t k = i; k < joining; k += n) {
        const uint32_t chunk = k < j.fresh ? wh_chunk_pool_get(a, 0, t, (uint32_t)k)
                                           : old.n_chunks + (uint32_t)(k - j.fresh);
        b.entries[0][(wh_chunk_pool_ring_(a, 0)->tail + k) & mask] = chunk + 1;
    }
}

WH_FN void wh_ouro_grow_queue_(wh_ouro_ref h, wh_ouro_ref old, uint32_t c, uint64_t i, uint64_t n) {
    const wh_vqueue a = wh_ouro_queue_(h.variant, old, c), b = wh_ouro_queue_(h.variant, h, c);
    const uint64_t mask_a = ((uint64_t)1 << a.table_log2) - 1;
    const uint64_t mask_b = ((uint64_t)1 << b.table_log2) - 1;
    const uint64_t front = *a.front, back = *a.back;
    if (i == 0) {
        *wh_ouro_sem_(h, c) = *wh_ouro_sem_(old, c);
        *wh_ouro_full_(h, c) = *wh_ouro_full_(old, c);
        *wh_ouro_class_(h, c) = *wh_ouro_class_(old, c);
        for (uint32_t k = 0; k < wh_ouro_opens_(old, c); k++) { /* those of h past them: used up */
            *wh_ouro_open_(h, c, k) = *wh_ouro_open_(old, c, k);
        }
        *b.front = front;
        *b.back = back;
        *b.room = *a.room;
        *b.state = *a.state;
        if (b.kind == WH_VQUEUE_ARRAY) {
            *b.room = wh_bulk_semaphore_word((int64_t)(mask_b + 1 - (back - front)), 0, 0);
        }
    }
    if (b.kind == WH_VQUEUE_ARRAY) {
        for (uint64_t p = front + i; p < back; p += n) {
            b.entries[p & mask_b] = a.entries[p & mask_a];
        }
    } else {
        for (uint64_t k = i; k <= mask_b; k += n) { /* over those that h was made with */
            const uint64_t link = a.links[k & mask_a];
            b.links[k] = (wh_vqueue_number_(link) & mask_b) == k ? link : 0;
        }
    }
}

WH_FN void wh_ouro_grow_(wh_ouro_ref h, wh_ouro_ref old, uint64_t i, uint64_t n) {
    const uint64_t *from = (const uint64_t *)(const void *)old.base;
    uint64_t *to = (uint64_t *)(void *)h.base;
    for (uint64_t k = i; k < old.data_bytes / 8; k += n) {
        to[k] = from[k];
    }
    for (uint64_t k = i; k < old.linear_bytes; k += n) {
        h.linear[k] = old.linear[k];
    }
    for (uint64_t k = i; k < old.n_chunks; k += n) {
        h.count[k] = old.count[k];
        h.cls[k] = old.cls[k];
        if (WH_OURO_KIND(h.variant) == WH_VQUEUE_LINKED) {
            h.next[k] = old.next[k];
        }
        for (uint32_t c = 0; c <= h.n_classes; c++) { /* and the pool's tree */
            if (wh_veb_contains(wh_ouro_tree_(old, c), k)) {
                (void)wh_veb_insert(wh_ouro_tree_(h, c), k);
            }
        }
    }
    for (uint32_t w = 0; w < 1u << old.words_log2; w++) {
        for (uint64_t k = i; k < old.n_chunks; k += n) {
            *wh_ouro_bits_(h, (uint32_t)k, w) = *wh_ouro_bits_(old, (uint32_t)k, w);
        }
    }
    for (uint32_t c = 0; c < h.n_classes; c++) {
        wh_ouro_grow_queue_(h, old, c, i, n);
    }
    wh_ouro_grow_pool_(h, old, i, n);
}

#include "warpheap/detail/simt/end.h"

#endif

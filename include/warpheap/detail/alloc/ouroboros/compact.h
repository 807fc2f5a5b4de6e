/* alloc/ouroboros/compact.h: compaction of the queues of a quiet heap: chunks all of whose pages
 * are free leave their class, and serve any size again (the thesis, section 7.2). It may change.
 *
 * malloc does the like for itself before it says NULL (oom.h), with lanes that go on meanwhile: it
 * moves pages to bits and leaves them there. Here nobody else uses the heap, so that plain steps
 * will do, what stays keeps its place in the queue, and all classes are done at once.
 *
 * Two kernels. compact_queues_, a block for each class at a time: counts the free pages of each
 * chunk; takes the values of chunks that are free as a whole out of the queue; retires the queue
 * chunks that are not needed any more; empties open words. compact_chunks_: gives these chunks
 * back.
 *
 * Fields  count  between the two {pages in the queue or ahead in an open word : 16 | set bits : 16}
 *         bits   of a queue chunk of a LINKED queue, which has no pages: word 0 is the number of
 *                the queue chunk before it, for the way back
 * Invariants
 *   K1  a chunk goes back if and only if these two are all its pages: of PAGES by the count, of
 *       CHUNKS by the bits alone. Its values are in no queue, open word or tree then
 *   K2  the order of the values that stay is as before. Each moves towards the back, past those
 *       that have gone; the last one stays where it was if it stays. The queue is as if the
 *       values that have gone had been taken: front, semaphore, room, and takes finished on a
 *       queue chunk agree, and its other side is untouched
 *   K3  of a tile nobody stores before all have loaded (the barriers of the sum), and nobody
 *       stores below the tile: what goes to the back of the queue is never more than there was
 * Lanes   compact_queues_: all threads of blocks of 2^k, at least a warp; compact_chunks_: thread i
 *         of n. Nobody uses the heap meanwhile
 * Cost    a step of a block for each TILE values of a class, twice; then the chunks. LINKED: also a
 *         round trip for each queue chunk
 * Check   tests/unit/ouroboros_compact.c, tests/stress, tests/fault; wh_ouro_check_
 */
#ifndef WH_ALLOC_OUROBOROS_COMPACT_H
#define WH_ALLOC_OUROBOROS_COMPACT_H

#include "warpheap/core/block.h"
#include "warpheap/detail/alloc/ouroboros/inspect.h"
#include "warpheap/detail/alloc/ouroboros/park.h"

#include "warpheap/detail/simt/begin.h"

#define WH_OURO_QUEUED (1u << 16) /* a page that is in the queue or an open word, in `count` */

/* The queue of a class, as a block goes through it. */
typedef struct wh_ouro_pass {
    wh_ouro_ref h;
    wh_vqueue q;
    wh_vqueue_chunks k;
    uint64_t front, back;
    uint32_t c;
    uint32_t per_log2; /* values of a queue chunk; ARRAY: there are none */
    uint32_t tile;     /* values that the block looks at together: a power of two */
} wh_ouro_pass;

WH_FN wh_ouro_pass wh_ouro_pass_(wh_ouro_ref h, uint32_t c) {
    wh_ouro_pass s;
    s.h = h;
    s.q = wh_ouro_queue_(h.variant, h, c);
    s.k = wh_ouro_queue_chunks_(h);
    s.front = wh_load_u64_relaxed(s.q.front);
    s.back = wh_load_u64_relaxed(s.q.back);
    s.c = c;
    s.per_log2 = wh_vqueue_per_log2(s.k);
    s.tile = wh_block_threads();
    if (s.q.kind != WH_VQUEUE_ARRAY && s.tile > 1u << s.per_log2) {
        s.tile = 1u << s.per_log2; /* then it lies on one queue chunk */
    }
    wh_assert(wh_is_pow2(wh_block_threads()) && wh_block_threads() >= WH_WARP_SIZE);
    return s;
}

/* Queue chunk number j of the queue. */
typedef struct wh_ouro_at {
    uint64_t j;
    uint32_t chunk;
} wh_ouro_at;

/* The first one that is there, at or before that of `front`. */
WH_FN wh_ouro_at wh_ouro_first_at_(const wh_ouro_pass *s) {
    wh_ouro_at at = {s->front >> s->per_log2, WH_CHUNK_NONE};
    if (s->q.kind == WH_VQUEUE_LINKED) {
        const uint64_t link = wh_load_u64_relaxed(&s->q.state->first);
        at.j -= wh_vqueue_ahead_(at.j, link);
        at.chunk = wh_vqueue_chunk_of_(link);
    }
    return at;
}

/* Goes to number j, which is there. LINKED: by the links, and back by what the block's first thread
 * has noted on the way. */
WH_FN void wh_ouro_go_(const wh_ouro_pass *s, wh_ouro_at *at, uint64_t j) {
    if (s->q.kind == WH_VQUEUE_HIERARCHY) {
        at->chunk = wh_vqueue_chunk_of_(wh_load_u64_relaxed(wh_vqueue_link_at_(s->q, j)));
        at->j = j;
    }
    for (; s->q.kind == WH_VQUEUE_LINKED && at->j < j; at->j++) {
        const uint32_t to = wh_vqueue_chunk_of_(wh_load_u64_relaxed(&s->k.next[at->chunk]));
        if (wh_thread_in_block() == 0) {
            wh_store_u64_relaxed(wh_ouro_bits_(s->h, to, 0), at->chunk);
        }
        at->chunk = to;
    }
    for (; s->q.kind == WH_VQUEUE_LINKED && at->j > j; at->j--) {
        at->chunk = (uint32_t)wh_load_u64_relaxed(wh_ouro_bits_(s->h, at->chunk, 0));
    }
}

/* The entry of position p, which lies on the queue chunk `at`. */
WH_FN uint32_t *wh_ouro_entry_(const wh_ouro_pass *s, wh_ouro_at at, uint64_t p) {
    if (s->q.kind == WH_VQUEUE_ARRAY) {
        return &s->q.entries[p & (((uint64_t)1 << s->q.table_log2) - 1)];
    }
    return &wh_vqueue_entries_(s->k, at.chunk)[p & ((1u << s->per_log2) - 1)];
}

/* The chunk that an entry is of. */
WH_FN uint32_t wh_ouro_chunk_in_(const wh_ouro_pass *s, const uint32_t *entry) {
    uint32_t page = 0;
    const uint32_t value = wh_load_u32_relaxed(entry);
    wh_assert_internal(value != 0);
    return WH_OURO_BY_CHUNK(s->h.variant) ? value - 1
                                          : wh_ouro_chunk_of_(s->h, s->c, value - 1, &page);
}

/* K1: whether all pages of a chunk of class c are free; behind the count. */
WH_FN int wh_ouro_is_whole_(wh_ouro_ref h, uint32_t c, uint32_t chunk) {
    const uint32_t count = wh_load_u32_relaxed(&h.count[chunk]);
    const uint32_t pages = count / WH_OURO_QUEUED + count % WH_OURO_QUEUED;
    WH_STATIC_ASSERT((65536u >> 4) < WH_OURO_QUEUED, "the pages of a chunk are counted in a half");
    wh_assert_internal(pages <= wh_ouro_pages_(h, c));
    return WH_PLANT(ouro_k1, pages == wh_ouro_pages_(h, c), pages + 1 >= wh_ouro_pages_(h, c));
}

/* Counts the pages of the class that are in the queue or ahead in open words, with their chunks.
 * Returns where the queue ends. */
WH_FN wh_ouro_at wh_ouro_count_free_(const wh_ouro_pass *s) {
    const uint32_t t = wh_thread_in_block(), pages = wh_ouro_pages_(s->h, s->c);
    wh_ouro_at at = wh_ouro_first_at_(s);
    for (uint64_t p = s->front & ~(uint64_t)(s->tile - 1); p < s->back; p += s->tile) {
        wh_ouro_go_(s, &at, p >> s->per_log2);
        if (!WH_OURO_BY_CHUNK(s->h.variant) && t < s->tile && p + t >= s->front &&
            p + t < s->back) {
            const uint32_t chunk = wh_ouro_chunk_in_(s, wh_ouro_entry_(s, at, p + t));
            wh_add_u32_relaxed(&s->h.count[chunk], WH_OURO_QUEUED);
        }
    }
    for (uint32_t k = t; k < wh_ouro_opens_(s->h, s->c); k += wh_block_threads()) {
        const uint64_t w = wh_load_u64_relaxed(wh_ouro_open_(s->h, s->c, k));
        const uint32_t next = wh_ouro_open_next_(w);
        if (next < pages) {
            wh_add_u32_relaxed(&s->h.count[wh_ouro_open_chunk_(w)],
                               (pages - next) * WH_OURO_QUEUED);
        }
    }
    return at;
}

/* K2: moves the values that stay towards the back, from the last one on. at: where the queue ends.
 * Returns the position of the first of them. */
WH_FN uint64_t wh_ouro_move_values_(const wh_ouro_pass *s, wh_ouro_at at) {
    WH_SHARED(uint64_t, words, WH_BLOCK_SCAN_WORDS);
    const uint32_t t = wh_thread_in_block();
    wh_ouro_at behind = at; /* where those go that stay */
    uint64_t to = s->back;
    for (uint64_t end = s->back, begin; end > s->front; end = begin) {
        uint64_t all = 0;
        begin = (end - 1) & ~(uint64_t)(s->tile - 1);
        begin = begin > s->front ? begin : s->front;
        wh_ouro_go_(s, &at, begin >> s->per_log2);
        const uint32_t *entry = begin + t < end ? wh_ouro_entry_(s, at, begin + t) : NULL;
        const uint32_t value = entry != NULL ? wh_load_u32_relaxed(entry) : 0;
        const int stays =
            entry != NULL && !wh_ouro_is_whole_(s->h, s->c, wh_ouro_chunk_in_(s, entry));
        const uint64_t mine = wh_block_scan_u64(words, stays != 0, &all); /* K3 */
        to -= all;
        if (stays) {
            const uint64_t p = WH_PLANT(ouro_k2_order, to + mine - 1, to + all - mine);
            wh_ouro_at there = behind;
            wh_ouro_go_(s, &there, p >> s->per_log2);
            wh_store_u32_relaxed(wh_ouro_entry_(s, there, p),
                                 WH_PLANT(ouro_k3, value, wh_load_u32_relaxed(entry))); /* K3 */
        }
        if (all != 0) {
            wh_ouro_go_(s, &behind, to >> s->per_log2);
        }
    }
    return to;
}

/* The queue chunks of the values that have gone are used up, as if these had been taken. */
WH_FN void wh_ouro_finish_takes_(const wh_ouro_pass *s, uint64_t to) {
    const uint64_t per = (uint64_t)1 << s->per_log2, last = to >> s->per_log2;
    const uint32_t t = wh_thread_in_block();
    wh_ouro_at at = wh_ouro_first_at_(s);
    if (s->q.kind == WH_VQUEUE_LINKED && t == 0) {
        for (uint64_t j = s->front >> s->per_log2; j < last; j++) {
            wh_ouro_go_(s, &at, j);
            wh_store_u32_relaxed(&s->k.done[at.chunk], (uint32_t)per);
        }
    }
    if (to % per != 0 && t == 0) {
        wh_ouro_go_(s, &at, last);
        wh_store_u32_relaxed(&s->k.done[at.chunk],
                             (uint32_t)(WH_PLANT(ouro_k2_done, to, s->front) % per));
    }
    wh_syncthreads();
    if (s->q.kind == WH_VQUEUE_LINKED) {
        if (t < WH_WARP_SIZE) {
            wh_vqueue_advance_(s->q, s->k, WH_FULL_WARP);
        }
        return;
    }
    for (uint64_t j = (s->front >> s->per_log2) + t; j < last; j += wh_block_threads()) {
        wh_ouro_go_(s, &at, j);
        wh_vqueue_retire(s->q, s->k, 1u << wh_lane_id(), 1, j << s->per_log2, at.chunk);
    }
}

WH_FN void wh_ouro_report_chunks_(wh_ouro_ref h, uint64_t n, wh_compaction *out) {
    if (n != 0) {
        wh_add_u64_relaxed(&out->chunks, n);
        wh_add_u64_relaxed(&out->bytes, n << h.chunk_log2);
    }
}

/* The queue now begins at `to`: K2. */
WH_FN void wh_ouro_set_front_(const wh_ouro_pass *s, uint64_t to, wh_compaction *out) {
    const uint64_t gone = to - s->front, before = wh_load_u64_relaxed(&s->q.state->used);
    const uint32_t t = wh_thread_in_block();
    if (s->q.kind != WH_VQUEUE_ARRAY) {
        wh_syncthreads(); /* all have read `used` */
        wh_ouro_finish_takes_(s, to);
    } else {
        for (uint64_t p = s->front + t; p < to; p += wh_block_threads()) {
            const wh_ouro_at none = {0, WH_CHUNK_NONE};
            wh_store_u32_relaxed(wh_ouro_entry_(s, none, p), 0);
        }
    }
    wh_syncthreads();
    if (t == 0) {
        wh_store_u64_relaxed(s->q.front, to);
        wh_add_u64_relaxed(wh_ouro_sem_(s->h, s->c),
                           WH_PLANT(ouro_k2_sem, wh_bulk_semaphore_word(-(int64_t)gone, 0, 0), 0));
        if (s->q.kind == WH_VQUEUE_ARRAY && s->q.bounded) {
            wh_add_u64_relaxed(s->q.room, wh_bulk_semaphore_word((int64_t)gone, 0, 0));
        }
        wh_add_u64_relaxed(&out->removed, gone);
        wh_ouro_report_chunks_(s->h, before - wh_load_u64_relaxed(&s->q.state->used), out);
    }
}

/* An empty queue gives all chunks back that it lies on: it is as if values had been put to the end
 * of these, and taken (K2). */
WH_FN void wh_ouro_leave_chunks_(const wh_ouro_pass *s, wh_compaction *out) {
    wh_vqueue_state *state = s->q.state;
    const uint32_t t = wh_thread_in_block();
    const uint64_t used = wh_load_u64_relaxed(&state->used);
    const uint64_t n = wh_load_u64_relaxed(&state->provisioned);
    wh_syncthreads(); /* all have read them */
    if (s->q.kind == WH_VQUEUE_LINKED && t == 0 && used != 0) {
        uint64_t link = wh_load_u64_relaxed(&state->first);
        for (uint32_t chunk = wh_vqueue_chunk_of_(link); chunk != WH_VQUEUE_NO_CHUNK;
             chunk = wh_vqueue_chunk_of_(link)) {
            link = wh_load_u64_relaxed(&s->k.next[chunk]);
            wh_chunk_pool_free(s->k.pool, 0, chunk);
        }
        wh_store_u64_relaxed(&state->first, wh_vqueue_link(s->q.id, n, WH_VQUEUE_NO_CHUNK));
        wh_store_u64_relaxed(&state->last, wh_vqueue_link(s->q.id, n - 1, WH_VQUEUE_NO_CHUNK));
    }
    for (uint64_t j = (s->back >> s->per_log2) + t; s->q.kind == WH_VQUEUE_HIERARCHY && j < n;
         j += wh_block_threads()) {
        uint64_t *link = wh_vqueue_link_at_(s->q, j);
        wh_chunk_pool_free(s->k.pool, 0, wh_vqueue_chunk_of_(wh_load_u64_relaxed(link)));
        wh_store_u64_relaxed(link, 0);
    }
    if (t == 0 && used != 0) {
        wh_store_u64_relaxed(&state->used, 0);
        wh_store_u64_relaxed(s->q.room, 0);
        wh_store_u64_relaxed(s->q.front, n << s->per_log2);
        wh_store_u64_relaxed(s->q.back, n << s->per_log2);
        wh_ouro_report_chunks_(s->h, used, out);
    }
}

/* Compacts the queue of class c. All threads of a block. */
WH_FN void wh_ouro_compact_queue_(wh_ouro_ref h, uint32_t c, wh_compaction *out) {
    const wh_ouro_pass s = wh_ouro_pass_(h, c);
    const wh_ouro_at end = wh_ouro_count_free_(&s);
    WH_PLANT(ouro_k1_counted, wh_syncthreads(), (void)0); /* K1: all are counted */
    for (uint32_t k = wh_thread_in_block(); k < wh_ouro_opens_(h, c); k += wh_block_threads()) {
        const uint64_t w = wh_load_u64_relaxed(wh_ouro_open_(h, c, k));
        if (wh_ouro_open_next_(w) < wh_ouro_pages_(h, c) &&
            WH_PLANT(ouro_k1_open, wh_ouro_is_whole_(h, c, wh_ouro_open_chunk_(w)), 0)) {
            wh_store_u64_relaxed(wh_ouro_open_(h, c, k), wh_ouro_used_up_(h, c));
        }
    }
    const uint64_t to = wh_ouro_move_values_(&s, end);
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        wh_add_u64_relaxed(&out->queued, s.back - s.front);
    }
    if (to != s.front) {
        wh_ouro_set_front_(&s, to, out);
    }
    if (to == s.back && s.q.kind != WH_VQUEUE_ARRAY) {
        wh_syncthreads();
        wh_ouro_leave_chunks_(&s, out);
    }
    wh_syncthreads();
}

/* The queues of all classes, each by one block. */
WH_FN void wh_ouro_compact_queues_(wh_ouro_ref h, wh_compaction *out) {
    for (uint32_t c = wh_block_id(); c < h.n_classes; c += wh_grid_blocks()) {
        wh_ouro_compact_queue_(h, c, out);
    }
}

/* K1: gives the chunk of class c back, which is free as a whole. */
WH_FN void wh_ouro_give_chunk_(wh_ouro_ref h, uint32_t c, uint32_t chunk, wh_compaction *out) {
    const uint32_t pages = wh_ouro_pages_(h, c),
                   units = wh_ouro_level_(h, c) ? 1u << h.large_log2 : 1;
    const uint32_t bits = wh_load_u32_relaxed(&h.count[chunk]) % WH_OURO_QUEUED;
    if (bits != 0 && wh_veb_remove(wh_ouro_tree_(h, c), chunk)) {
        wh_ouro_unpark_(h, c);
    }
    if (bits == pages) {
        wh_add_u64_relaxed(wh_ouro_full_(h, c), wh_ouro_full_down_(1));
    }
    for (uint32_t w = 0; w < (pages + 63) / 64; w++) {
        wh_store_u64_relaxed(wh_ouro_bits_(h, chunk, w), 0);
    }
    wh_store_u32_relaxed(&h.count[chunk], 0);
    for (uint32_t i = 0; i < units; i++) {
        wh_store_u32_relaxed(&h.cls[chunk + i], WH_OURO_NO_CLASS);
    }
    wh_chunk_pool_free(wh_ouro_pool_(h), wh_ouro_level_(h, c), chunk);
    wh_ouro_report_chunks_(h, units, out);
}

/* Gives the chunks back that are free as a whole, behind compact_queues_; `count` is as ever then.
 */
WH_FN void wh_ouro_compact_chunks_(wh_ouro_ref h, uint64_t i, uint64_t n, wh_compaction *out) {
    for (uint64_t unit = i; unit < h.n_chunks; unit += n) {
        const uint32_t chunk = (uint32_t)unit, c = wh_load_u32_relaxed(&h.cls[chunk]);
        if (c >= h.n_classes || wh_ouro_first_(h, c, chunk) != chunk) {
            continue;
        }
        if (wh_ouro_is_whole_(h, c, chunk)) {
            wh_ouro_give_chunk_(h, c, chunk, out);
        } else {
            const uint32_t count = wh_load_u32_relaxed(&h.count[chunk]);
            wh_store_u32_relaxed(&h.count[chunk],
                                 WH_PLANT(ouro_k1_count, count % WH_OURO_QUEUED, count));
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

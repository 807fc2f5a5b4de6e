/* alloc/ouroboros/inspect.h: statistics, check and walk, on a quiet heap. It may change. */
#ifndef WH_ALLOC_OUROBOROS_INSPECT_H
#define WH_ALLOC_OUROBOROS_INSPECT_H

#include "warpheap/detail/alloc/ouroboros/layout.h"

#include "warpheap/detail/simt/begin.h"

/* Class of the page chunk that begins at small chunk `unit`; NO_CLASS if none does. */
WH_FN uint32_t wh_ouro_begins_(wh_ouro_ref h, uint64_t unit) {
    const uint32_t c = h.cls[unit];
    return c < h.n_classes && wh_ouro_first_(h, c, (uint32_t)unit) == unit ? c : WH_OURO_NO_CLASS;
}

/* Whether the pool has a chunk of a level, or would have one after reclaim for class c. */
WH_FN int wh_ouro_can_fetch_(wh_ouro_ref h, uint32_t c) {
    const uint32_t level = wh_ouro_level_(h, c);
    if (!wh_chunk_pool_empty(wh_ouro_pool_(h), level)) {
        return 1;
    }
    for (uint32_t u = 0; u < h.n_classes && !h.keep_chunks; u++) {
        if (u != c && wh_ouro_level_(h, u) >= level &&
            wh_ouro_full_now_(*wh_ouro_full_(h, u)) > 0) {
            return 1;
        }
    }
    return 0;
}

/* Pages of class c that open words have. */
WH_FN uint64_t wh_ouro_open_pages_(wh_ouro_ref h, uint32_t c) {
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    uint64_t n = 0;
    for (uint32_t k = 0; k < wh_ouro_opens_(h, c); k++) {
        const uint32_t next = wh_ouro_open_next_(*wh_ouro_open_(h, c, k));
        n += next < pages ? pages - next : 0;
    }
    return n;
}

WH_FN uint64_t wh_ouro_largest_free_(wh_ouro_ref h) {
    for (uint32_t c = h.n_classes; c-- > 0;) {
        if (wh_bulk_semaphore_count(*wh_ouro_sem_(h, c)) > 0 || wh_ouro_class_(h, c)->parked != 0 ||
            wh_ouro_open_pages_(h, c) != 0 || wh_ouro_can_fetch_(h, c)) {
            return (uint64_t)1 << wh_ouro_page_log2_(h, c);
        }
    }
    return 0;
}

WH_FN void wh_ouro_stats_(wh_ouro_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    if (i == 0) {
        s->failed = h.header->failed;
        s->bad_frees = h.header->bad_frees;
        s->largest_free = wh_ouro_largest_free_(h);
        s->n_classes = h.n_classes;
        for (uint32_t c = 0; c < h.n_classes; c++) {
            s->classes[c].block_bytes = (uint64_t)1 << wh_ouro_page_log2_(h, c);
            if (!WH_OURO_BY_CHUNK(h.variant)) { /* pages in the queue, or ahead, are free, too */
                const uint64_t more = (uint64_t)wh_bulk_semaphore_count(*wh_ouro_sem_(h, c)) +
                                      wh_ouro_open_pages_(h, c);
                (void)wh_fetch_sub_u64_relaxed(&s->classes[c].live, more);
                (void)wh_fetch_sub_u64_relaxed(&s->live_blocks, more);
                (void)wh_fetch_sub_u64_relaxed(&s->used_bytes, more << wh_ouro_page_log2_(h, c));
            }
        }
    }
    for (uint64_t unit = i; unit < h.n_chunks; unit += n) {
        const uint32_t c = wh_ouro_begins_(h, unit);
        if (c != WH_OURO_NO_CLASS) {
            const uint64_t pages = (uint64_t)1 << wh_ouro_pages_log2_(h, c);
            const uint64_t live = pages - h.count[unit];
            wh_add_u64_relaxed(&s->classes[c].capacity, pages);
            wh_add_u64_relaxed(&s->classes[c].live, live);
            wh_add_u64_relaxed(&s->live_blocks, live);
            wh_add_u64_relaxed(&s->used_bytes, live << wh_ouro_page_log2_(h, c));
        }
    }
}

/* Whether page `page` of a chunk of class c is ahead in an open word other than `except`. */
WH_FN int wh_ouro_is_ahead_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t page,
                            uint32_t except) {
    int ahead = 0;
    for (uint32_t k = 0; k < wh_ouro_opens_(h, c); k++) {
        const uint64_t w = *wh_ouro_open_(h, c, k);
        ahead |= k != except && wh_ouro_open_chunk_(w) == chunk && wh_ouro_open_next_(w) <= page;
    }
    return ahead;
}

/* I1, I6: what is ahead in open word k of class c is nowhere else. */
WH_FN void wh_ouro_check_open_(wh_ouro_ref h, uint32_t c, uint32_t k, wh_report *r) {
    const uint64_t w = *wh_ouro_open_(h, c, k);
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c), chunk = wh_ouro_open_chunk_(w);
    const uint32_t next = wh_ouro_open_next_(w);
    int wrong = next > pages; /* on its way */
    if (next < pages) {
        wrong = chunk >= h.n_chunks || next == 0 || h.cls[chunk] != c ||
                wh_ouro_first_(h, c, chunk) != chunk;
        for (uint32_t page = next; page < pages && !wrong; page++) {
            wrong = (*wh_ouro_bits_(h, chunk, page >> 6) >> (page & 63) & 1) != 0 ||
                    wh_ouro_is_ahead_(h, c, chunk, page, k);
        }
    }
    if (wrong) {
        wh_report_error(r, 9, c);
    }
}

/* Of a queue on chunks: its first chunk is that of `front`, or is finished and the last one; and so
 * many takes are finished on it. */
WH_FN int wh_ouro_agrees_(wh_vqueue q, wh_vqueue_chunks k, uint64_t front) {
    const uint64_t per = (uint64_t)1 << wh_vqueue_per_log2(k), j = front / per;
    uint64_t link = *wh_vqueue_link_at_(q, j);
    if (q.kind == WH_VQUEUE_LINKED) {
        link = q.state->first;
        if (wh_vqueue_ahead_(j, link) == 1) {
            return front % per == 0 && k.done[wh_vqueue_chunk_of_(link)] == per;
        }
    }
    if (front % per == 0) {
        return q.kind != WH_VQUEUE_LINKED || wh_vqueue_is_(link, q.id, j);
    }
    return wh_vqueue_is_(link, q.id, j) && k.done[wh_vqueue_chunk_of_(link)] == front % per;
}

/* I1, I2: every value in the queue of class c is one of its own; the semaphores agree. */
WH_FN void wh_ouro_check_queue_(wh_ouro_ref h, uint32_t c, uint64_t i, uint64_t n, wh_report *r) {
    const wh_vqueue q = wh_ouro_queue_(h.variant, h, c);
    const wh_vqueue_chunks k = wh_ouro_queue_chunks_(h);
    const uint64_t front = *q.front, back = *q.back, sem = *wh_ouro_sem_(h, c);
    if (i == 0) {
        if (wh_bulk_semaphore_expected(sem) != 0 || wh_bulk_semaphore_reserved(sem) != 0 ||
            wh_bulk_semaphore_count(sem) != (int64_t)(back - front)) {
            wh_report_error(r, 6, c); /* the semaphore's I1 */
        }
        const uint64_t room = *q.room;
        const uint64_t provided = q.kind == WH_VQUEUE_ARRAY
                                      ? front + ((uint64_t)1 << q.table_log2)
                                      : q.state->provisioned << wh_vqueue_per_log2(k);
        if ((q.kind != WH_VQUEUE_ARRAY || q.bounded) &&
            room != wh_bulk_semaphore_word((int64_t)(provided - back), 0, 0)) {
            wh_report_error(r, 7, c);
        }
        if (q.state->used > wh_vqueue_most_(q, k) ||
            (q.kind == WH_VQUEUE_LINKED && /* I5 of the queue */
             wh_vqueue_number_(wh_vqueue_behind_(q.state->last)) !=
                 wh_vqueue_number_(q.state->provisioned << WH_VQUEUE_CHUNK_BITS))) {
            wh_report_error(r, 8, c);
        }
    }
    if (i == 0 && q.kind != WH_VQUEUE_ARRAY && !wh_ouro_agrees_(q, k, front)) {
        wh_report_error(r, 8, c);
    }
    for (uint64_t p = front + i; p < back; p += n) {
        uint64_t walk = 0;
        uint32_t chunk = WH_CHUNK_NONE;
        const uint32_t *e = NULL;
        for (uint64_t step = 0; e == NULL && step <= h.n_chunks; step++) {
            e = wh_vqueue_entry_(q, k, p, &walk, &chunk);
        }
        if (e == NULL || *e == 0) {
            wh_report_error(r, 1, p);
            continue;
        }
        uint32_t page = 0;
        const uint32_t of =
            WH_OURO_BY_CHUNK(h.variant) ? *e - 1 : wh_ouro_chunk_of_(h, c, *e - 1, &page);
        if (of >= h.n_chunks || h.cls[of] != c ||
            (WH_OURO_BY_CHUNK(h.variant)
                 ? h.count[of] == 0 || wh_veb_contains(wh_ouro_tree_(h, c), of)
                 : (*wh_ouro_bits_(h, of, page >> 6) >> (page & 63) & 1) != 0 ||
                       wh_ouro_is_ahead_(h, c, of, page, UINT32_MAX))) {
            wh_report_error(r, 1, p);
        }
    }
}

/* I2, I3, I4 for one small chunk. */
WH_FN void wh_ouro_check_chunk_(wh_ouro_ref h, uint64_t unit, wh_report *r) {
    const uint32_t c = wh_ouro_begins_(h, unit);
    for (uint32_t u = 0; u < h.n_classes; u++) {
        const int parked = wh_veb_contains(wh_ouro_tree_(h, u), unit) != 0;
        if (parked && (u != c || h.count[unit] == 0)) {
            wh_report_error(r, 2, unit);
        }
        if (u == c && !parked && h.count[unit] != 0 && !WH_OURO_BY_CHUNK(h.variant)) {
            wh_report_error(r, 2, unit);
        }
    }
    if (c == WH_OURO_NO_CLASS) {
        return;
    }
    const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
    uint32_t set = 0;
    for (uint32_t w = 0; w < (pages + 63) / 64; w++) {
        set += wh_popc64(*wh_ouro_bits_(h, (uint32_t)unit, w));
    }
    if (set != h.count[unit] || set > pages) {
        wh_report_error(r, 4, unit);
    }
    const uint32_t units = wh_ouro_level_(h, c) ? 1u << h.large_log2 : 1;
    for (uint32_t i = 0; i < units; i++) {
        if (h.cls[unit + i] != c) {
            wh_report_error(r, 3, unit);
        }
    }
}

/* Totals of class c: chunks with free pages are each in one place, and counted. */
WH_FN void wh_ouro_check_class_(wh_ouro_ref h, uint32_t c, wh_report *r) {
    uint64_t parked = 0, loose = 0, full = 0;
    for (uint64_t unit = 0; unit < h.n_chunks; unit++) {
        if (wh_ouro_begins_(h, unit) == c && h.count[unit] != 0) {
            const int in_tree = wh_veb_contains(wh_ouro_tree_(h, c), unit) != 0;
            parked += in_tree != 0;
            loose += in_tree == 0;
            full += h.count[unit] == 1u << wh_ouro_pages_log2_(h, c);
        }
    }
    if (parked != wh_ouro_class_(h, c)->parked || wh_ouro_class_(h, c)->moving != 0 ||
        full != (uint64_t)wh_ouro_full_now_(*wh_ouro_full_(h, c))) {
        wh_report_error(r, 2, c);
    }
    if (WH_OURO_BY_CHUNK(h.variant) &&
        loose != (uint64_t)wh_bulk_semaphore_count(*wh_ouro_sem_(h, c))) {
        wh_report_error(r, 2, c);
    }
}

WH_FN void wh_ouro_check_(wh_ouro_ref h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint32_t c = 0; c < h.n_classes; c++) {
        wh_ouro_check_queue_(h, c, i, n, r);
        for (uint64_t k = i; k < wh_ouro_opens_(h, c); k += n) {
            wh_ouro_check_open_(h, c, (uint32_t)k, r);
        }
    }
    for (uint64_t unit = i; unit < h.n_chunks; unit += n) {
        wh_ouro_check_chunk_(h, unit, r);
    }
    for (uint64_t c = i; c < h.n_classes; c += n) {
        wh_ouro_check_class_(h, (uint32_t)c, r);
    }
    for (uint64_t k = i; k < (uint64_t)(h.n_classes + 1) * h.tree_words; k += n) {
        if (!wh_veb_check(wh_ouro_tree_(h, (uint32_t)(k / h.tree_words)), k % h.tree_words)) {
            wh_report_error(r, 2, k);
        }
    }
    if (i == 0) { /* I5: nothing in the pool is on its way */
        const wh_chunk_pool pool = wh_ouro_pool_(h);
        for (uint32_t l = 0; l < 2; l++) {
            const wh_ring *ring = wh_chunk_pool_ring_(pool, l);
            if (*wh_chunk_pool_count_(pool, l) != ring->tail - ring->head ||
                pool.state->moving != 0) {
                wh_report_error(r, 5, l);
            }
        }
    }
}

/* CHUNKS: a page is live if its bit is clear. (Of PAGES this is not recorded: they lie in
 * the queue, where they are not found by address, or ahead in an open word.) */
WH_FN void wh_ouro_walk_(wh_ouro_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    for (uint64_t unit = i; WH_OURO_BY_CHUNK(h.variant) && unit < h.n_chunks; unit += n) {
        const uint32_t c = wh_ouro_begins_(h, unit);
        const uint32_t pages = c != WH_OURO_NO_CLASS ? 1u << wh_ouro_pages_log2_(h, c) : 0;
        for (uint32_t page = 0; page < pages; page++) {
            if ((*wh_ouro_bits_(h, (uint32_t)unit, page >> 6) >> (page & 63) & 1) == 0) {
                wh_walk_emit(sink, wh_ouro_page_(h, c, (uint32_t)unit, page),
                             (uint64_t)1 << wh_ouro_page_log2_(h, c));
            }
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

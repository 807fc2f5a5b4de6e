/* alloc/xmalloc/inspect.h: statistics, check and walk, on a quiet heap. Internal: may change. */
#ifndef WH_ALLOC_XMALLOC_INSPECT_H
#define WH_ALLOC_XMALLOC_INSPECT_H

#include "warpheap/detail/alloc/xmalloc/layout.h"

#include "warpheap/detail/simt/begin.h"

/* Basicblocks of a superblock of that kind that hold live pieces. */
WH_FN uint32_t wh_xmalloc_busy_(wh_xmalloc_ref h, uint64_t page, uint32_t kind) {
    const uint32_t capacity = wh_page_capacity(h.paged.table.page_log2, kind);
    uint32_t busy = 0;
    for (uint32_t k = 0; k < capacity; k++) {
        busy += wh_xmalloc_pieces_(h, (uint32_t)page * WH_XMALLOC_BLOCKS + k) != 0;
    }
    return busy;
}

/* Whether malloc can have a page: it is free, or its basicblocks are in buffers alone. */
WH_FN int wh_xmalloc_is_idle_(wh_xmalloc_ref h, uint64_t page) {
    const uint32_t kind = wh_paged_kind_(h.paged, page);
    return kind == WH_PAGE_FREE || (wh_page_is_split(kind) && wh_xmalloc_busy_(h, page, kind) == 0);
}

/* The live pieces of a superblock: to the sink, if there is one. Returns their usable bytes. */
WH_FN uint64_t wh_xmalloc_list_(wh_xmalloc_ref h, uint64_t page, uint64_t *live,
                                wh_walk_sink *sink) {
    const uint32_t words = wh_page_words(h.paged.table.page_log2);
    uint64_t used = 0;
    for (uint32_t w = 0; w < words; w++) {
        uint32_t bits = wh_load_u32_relaxed(&h.live[page * words + w]);
        for (; bits != 0; bits &= bits - 1) {
            const uint64_t granule = (page * words + w) * 32 + wh_ctz32(bits);
            const unsigned char *p = h.paged.table.base + granule * 16;
            const uint64_t bytes = wh_xmalloc_usable_size(h, p);
            used += bytes;
            *live += 1;
            if (sink != NULL) {
                wh_walk_emit(sink, p, bytes);
            }
        }
    }
    return used;
}

WH_FN void wh_xmalloc_stats(wh_xmalloc_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    const uint32_t page_log2 = h.paged.table.page_log2;
    uint64_t used = 0, live = 0, largest = 0;
    for (uint64_t page = i; page < h.paged.table.n; page += n) {
        const uint32_t kind = wh_paged_kind_(h.paged, page);
        uint64_t room = 0;
        if (kind == WH_PAGE_RUN) {
            used += wh_paged_run_(h.paged, page) << page_log2;
            live++;
        } else if (wh_xmalloc_is_idle_(h, page)) {
            uint64_t end = page + 1;
            while ((page == 0 || !wh_xmalloc_is_idle_(h, page - 1)) && end < h.paged.table.n &&
                   wh_xmalloc_is_idle_(h, end)) {
                end++;
            }
            room = (end - page) << page_log2;
        } else if (kind != WH_PAGE_TAIL) {
            used += wh_xmalloc_list_(h, page, &live, NULL);
            room = wh_xmalloc_busy_(h, page, kind) < wh_page_capacity(page_log2, kind)
                       ? wh_page_chunk_bytes(kind)
                       : 0;
        }
        largest = room > largest ? room : largest;
    }
    wh_add_u64_relaxed(&s->used_bytes, used);
    wh_add_u64_relaxed(&s->live_blocks, live);
    (void)wh_fetch_max_u64_relaxed(&s->largest_free, largest);
    if (i == 0) {
        s->failed = wh_load_u64_relaxed(&h.paged.header->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.paged.header->bad_frees);
    }
}

/* I1: the pieces of each basicblock are counted, and begin where it is said. */
WH_FN void wh_xmalloc_check_page_(wh_xmalloc_ref h, uint64_t page, uint32_t kind, wh_report *r) {
    const uint32_t bytes = wh_page_chunk_bytes(kind);
    const uint32_t capacity = wh_page_capacity(h.paged.table.page_log2, kind);
    const uint32_t words = wh_page_words(h.paged.table.page_log2);
    for (uint32_t k = 0; k < capacity; k++) {
        const uint64_t first = page * words * 32 + (uint64_t)k * (bytes / 16);
        uint32_t live = 0;
        for (uint64_t g = first; g < first + bytes / 16; g++) {
            const uint32_t is_live = wh_load_u32_relaxed(&h.live[g / 32]) >> g % 32 & 1;
            const uint32_t starts = wh_load_u32_relaxed(&h.starts[g / 32]) >> g % 32 & 1;
            live += is_live;
            if (is_live && !starts) {
                wh_report_error(r, 1, page);
            }
        }
        const uint32_t bits = wh_load_u32_relaxed(&h.paged.table.bits[page * words]);
        if (live != wh_xmalloc_pieces_(h, (uint32_t)page * WH_XMALLOC_BLOCKS + k) ||
            (live != 0 && (bits >> k & 1) == 0)) {
            wh_report_error(r, 1, page);
        }
    }
}

WH_FN void wh_xmalloc_check(wh_xmalloc_ref h, uint64_t i, uint64_t n, wh_report *r) {
    wh_paged_check(h.paged, i, n, r);
    for (uint64_t page = i; page < h.paged.table.n; page += n) {
        const uint32_t kind = wh_paged_kind_(h.paged, page);
        if (wh_page_is_split(kind)) {
            wh_xmalloc_check_page_(h, page, kind, r);
        }
    }
    for (uint64_t k = i; k < WH_XMALLOC_BUFFERS; k += n) {
        const wh_xmalloc_buffer *b = &h.buffers[k];
        const uint64_t inside = wh_load_u64_relaxed(&b->count);
        if (wh_load_u64_relaxed(&b->ring.tail) - wh_load_u64_relaxed(&b->ring.head) != inside ||
            inside + wh_load_u64_relaxed(&b->room) != (uint64_t)1 << h.entries_log2) {
            wh_report_error(r, 2, k); /* I2 */
        }
    }
}

WH_FN void wh_xmalloc_walk(wh_xmalloc_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    uint64_t live = 0;
    for (uint64_t page = i; page < h.paged.table.n; page += n) {
        const uint32_t kind = wh_paged_kind_(h.paged, page);
        if (kind == WH_PAGE_RUN) {
            wh_walk_emit(sink, wh_page_address(h.paged.table, (uint32_t)page),
                         wh_paged_run_(h.paged, page) << h.paged.table.page_log2);
        } else if (wh_page_is_split(kind)) {
            (void)wh_xmalloc_list_(h, page, &live, sink);
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

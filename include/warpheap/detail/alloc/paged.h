/* alloc/paged.h: what allocators over a page table (core/page_table.h) do alike: requests, runs of
 * pages, the searches that say NULL, statistics, check and walk. Internal: may change.
 *
 * A request is of a kind: chunks of a page, or a run of pages for more than half a page. An
 * allocator finds pages for chunks in its own way:
 *
 *     wh_paged_request r = wh_paged_request_for(h.paged, n, 16);
 *     for (int some = 1; some && wh_any(mask, wh_paged_asks(r));) {
 *         const wh_group g = wh_paged_group(mask, r);
 *         wh_page_found found = { a page that the leader of g has found, for g.n lanes };
 *         some = wh_paged_share(h.paged, mask, g, found, &r);
 *     }
 *
 * and wh_paged_rest does what is left: it searches all pages (exact, core/page_table.h X1).
 *
 * Runs    one atomic add on a cursor gives each request a place of its own, from the back of the
 *         memory to the front and around; where that is in use a search follows
 * Fails   NULL is exact. Pages that another request for a run holds for a moment, before it meets a
 *         page in use, count as used. Of more alignment than a page: a search for a run that is
 *         longer by align - page, so it may miss one that would just do
 */
#ifndef WH_ALLOC_PAGED_H
#define WH_ALLOC_PAGED_H

#include "warpheap/core/page_table.h"
#include "warpheap/detail/alloc/contract.h"

#include "warpheap/detail/simt/begin.h"

/* cursor: pages that requests for runs have been given places for; add relaxed. The counts too. */
typedef struct wh_paged_header {
    uint64_t failed;
    uint64_t bad_frees;
    uint64_t cursor;
} wh_paged_header;

typedef struct wh_paged {
    wh_page_table table;
    wh_paged_header *header;
} wh_paged;

/* --- layout ----------------------------------------------------------------------------------- */

/* Pages, header, entries, `own_words` 64-bit words of the allocator's for each 64 pages and
 * `own_fixed` besides, use bits. */
typedef struct wh_paged_shape {
    uint64_t page_log2;
    uint64_t own_words;
    uint64_t own_fixed;
} wh_paged_shape;

WH_FN_HOST uint64_t wh_paged_own_words(wh_paged_shape s, uint64_t pages) {
    return (pages + 63) / 64 * s.own_words + s.own_fixed;
}

WH_FN_HOST uint64_t wh_paged_bytes_(wh_paged_shape s, uint64_t pages) {
    const uint64_t page = (uint64_t)1 << s.page_log2;
    const uint64_t slack = page > 256 ? page - 256 : 0; /* the heap's memory is aligned to 256 */
    return slack + sizeof(wh_paged_header) + 8 * wh_paged_own_words(s, pages) +
           pages * (page + 8 + 4 * (uint64_t)wh_page_words((uint32_t)s.page_log2));
}

/* As wh_X_plan. *own: the allocator's own words. */
WH_FN_HOST wh_status wh_paged_plan(wh_paged *h, wh_plan *plan, unsigned char *memory,
                                   uint64_t bytes, wh_paged_shape s, uint64_t **own) {
    const uint64_t page = (uint64_t)1 << s.page_log2;
    plan->min_bytes = wh_paged_bytes_(s, 1);
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    uint64_t low = 1, high = bytes / page < WH_PAGE_MOST ? bytes / page : WH_PAGE_MOST;
    while (low < high) {
        const uint64_t middle = (low + high + 1) / 2;
        if (wh_paged_bytes_(s, middle) <= bytes) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    h->table.n = (uint32_t)low;
    h->table.page_log2 = (uint32_t)s.page_log2;
    plan->metadata_bytes = bytes - low * page;
    plan->init_items = low;
    if (memory != NULL) {
        const uint64_t past = (uint64_t)(uintptr_t)memory & (page - 1);
        h->table.base = memory + (past != 0 ? page - past : 0);
        h->header = (wh_paged_header *)(void *)(h->table.base + low * page);
        h->table.entries = (uint64_t *)(void *)(h->header + 1);
        *own = h->table.entries + low;
        h->table.bits = (uint32_t *)(void *)(*own + wh_paged_own_words(s, low));
    }
    return WH_OK;
}

/* For wh_X_layout: the fields that are shared here. */
/* clang-format off */
#define WH_PAGED_LAYOUT                                                                       \
    sizeof(wh_paged), WH_LAYOUT_FIELD(wh_paged, table), WH_LAYOUT_FIELD(wh_paged, header),    \
    sizeof(wh_page_table), WH_LAYOUT_FIELD(wh_page_table, base),                              \
    WH_LAYOUT_FIELD(wh_page_table, entries), WH_LAYOUT_FIELD(wh_page_table, bits),            \
    WH_LAYOUT_FIELD(wh_page_table, n), WH_LAYOUT_FIELD(wh_page_table, page_log2),             \
    sizeof(wh_paged_header), WH_LAYOUT_FIELD(wh_paged_header, failed),                        \
    WH_LAYOUT_FIELD(wh_paged_header, bad_frees), WH_LAYOUT_FIELD(wh_paged_header, cursor),    \
    WH_PAGE_RUN, WH_PAGE_TAIL, WH_PAGE_CLASSES, WH_PAGE_KIND_BITS, WH_PAGE_RELEASES_AT
/* clang-format on */

WH_FN void wh_paged_init(wh_paged h, uint64_t i, uint64_t n) {
    const uint64_t words = (uint64_t)h.table.n * wh_page_words(h.table.page_log2);
    if (i == 0) {
        wh_store_u64_relaxed(&h.header->failed, 0);
        wh_store_u64_relaxed(&h.header->bad_frees, 0);
        wh_store_u64_relaxed(&h.header->cursor, 0);
    }
    for (uint64_t k = i; k < h.table.n; k += n) {
        wh_store_u64_relaxed(&h.table.entries[k], 0);
    }
    for (uint64_t k = i; k < words; k += n) {
        wh_store_u32_relaxed(&h.table.bits[k], 0);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

/* kind: of chunk; WH_PAGE_RUN: a run; WH_PAGE_FREE: nothing, or nothing any more. */
typedef struct wh_paged_request {
    void *p; /* what it has got; NULL */
    uint32_t kind;
    uint32_t need;  /* pages of a run */
    uint32_t align; /* of a run, in pages */
} wh_paged_request;

/* n bytes at a multiple of align, a power of two. */
WH_FN wh_paged_request wh_paged_request_for(wh_paged h, size_t n, size_t align) {
    const uint32_t page_log2 = h.table.page_log2;
    const uint64_t half = (uint64_t)1 << (page_log2 - 1);
    const uint64_t least = align > 16 && align > n ? align : n;
    /* A chunk of a power of two is aligned to its size. */
    const uint64_t size =
        align > 16 && least <= half && least != 0 ? (uint64_t)1 << wh_log2_ceil(least) : least;
    wh_paged_request r = {NULL, WH_PAGE_FREE, 0, 1};
    wh_assert(wh_is_pow2(align));
    r.need = wh_page_need(h.table, n);
    if (r.need != 0) {
        r.kind = align <= 16 || size <= half ? wh_page_kind_for(page_log2, size) : WH_PAGE_RUN;
        r.align = align >> page_log2 > 1 ? (uint32_t)(align >> page_log2) : 1;
    }
    return r;
}

/* Whether the caller asks for a chunk, and has none yet. */
WH_FN int wh_paged_asks(wh_paged_request r) {
    return wh_page_is_split(r.kind);
}

/* Lanes that ask for chunks of one kind; and those that do not, together. */
WH_FN wh_group wh_paged_group(wh_mask mask, wh_paged_request r) {
    return wh_group_by_u32(mask, wh_paged_asks(r) ? r.kind : WH_PAGE_FREE);
}

/* The caller takes the chunk of that rank, if there is one. */
WH_FN void wh_paged_take_(wh_paged h, wh_page_found found, uint32_t rank, wh_paged_request *r) {
    if (rank < found.chunks.n) {
        const uint32_t at = wh_page_take(h.table, found.page, r->kind, found.chunks.had + rank);
        r->p = wh_page_chunk(h.table, found.page, r->kind, at);
        r->kind = WH_PAGE_FREE;
    }
}

/* Lanes take what the leaders of their groups have found: whether any of them got something. */
WH_FN int wh_paged_share(wh_paged h, wh_mask mask, wh_group g, wh_page_found found,
                         wh_paged_request *r) {
    found.page = wh_shfl_u32(mask, found.page, g.leader);
    found.chunks.n = wh_shfl_u32(mask, found.chunks.n, g.leader);
    found.chunks.had = wh_shfl_u32(mask, found.chunks.had, g.leader);
    const int asks = wh_paged_asks(*r);
    if (asks) {
        wh_paged_take_(h, found, g.rank, r);
    }
    return wh_any(mask, asks && found.chunks.n != 0);
}

/* Chunks that the allocator's own way did not find. start: the page at which a search begins, of
 * the caller; or anything. *opened: the page of the caller's chunk, if the caller is the one to
 * tell that a search has made it one of chunks; else NONE. */
WH_FN void wh_paged_chunks_(wh_paged h, wh_mask mask, uint32_t start, wh_paged_request *r,
                            uint32_t *opened) {
    for (;;) {
        const wh_mask open = wh_ballot(mask, wh_paged_asks(*r)) & mask;
        if (open == 0) {
            return;
        }
        const uint32_t first = wh_ctz32(open);
        const uint32_t kind = wh_shfl_u32(mask, r->kind, first);
        const uint32_t from = wh_shfl_u32(mask, start, first);
        const wh_mask who = wh_ballot(mask, r->kind == kind) & mask;
        const wh_page_found found =
            wh_page_search_chunks(h.table, mask, kind, wh_popc32(who), from);
        if (r->kind == kind) {
            wh_paged_take_(h, found, wh_mask_rank(who), r);
            if (found.page == WH_PAGE_NONE) {
                r->kind = WH_PAGE_FREE;
            } else if (found.chunks.opened && wh_lane_id() == first) {
                *opened = found.page;
            }
        }
    }
}

/* The caller has claimed the pages of its run, from `first` on: it keeps what it needs. */
WH_FN void wh_paged_set_run_(wh_paged h, uint32_t first, wh_paged_request *r) {
    const uint64_t page = (uint64_t)1 << h.table.page_log2;
    const uint64_t at = (uint64_t)(uintptr_t)wh_page_address(h.table, first) >> h.table.page_log2;
    const uint32_t skip = (uint32_t)(0 - at) & (r->align - 1);
    wh_page_release(h.table, first, skip);
    wh_page_release(h.table, first + skip + r->need, r->align - 1 - skip);
    wh_page_set_run(h.table, first + skip, r->need);
    r->p = h.table.base + (first + skip) * page;
    r->kind = WH_PAGE_FREE;
}

/* Runs of pages. */
WH_FN void wh_paged_runs_(wh_paged h, wh_mask mask, wh_paged_request *r) {
    const uint32_t pages = h.table.n;
    const uint64_t all = (uint64_t)r->need + r->align - 1;
    uint32_t n = r->kind == WH_PAGE_RUN && all <= pages ? (uint32_t)all : 0;
    r->kind = n != 0 ? r->kind : WH_PAGE_FREE;
    const wh_group g = wh_group_by_u32(mask, n);
    uint64_t from = 0;
    if (n != 0 && wh_group_leads(g)) {
        from = wh_fetch_add_u64_relaxed(&h.header->cursor, (uint64_t)n * g.n);
    }
    from = wh_shfl_u64(mask, from, g.leader) + (uint64_t)n * g.rank;
    const uint32_t end = pages - (uint32_t)(from % pages);
    if (n != 0 && end >= n && wh_page_claim(h.table, end - n, n)) {
        wh_paged_set_run_(h, end - n, r);
        n = 0;
    }
    for (;;) { /* the shortest first: if there is no room for it there is none for others */
        const uint32_t least = ~wh_reduce_max_u32(mask, n != 0 ? ~n : 0);
        if (least == ~0u) {
            return;
        }
        const wh_mask who = wh_ballot(mask, n == least) & mask;
        const uint32_t lane = wh_ctz32(who);
        const uint32_t start = wh_shfl_u32(mask, end >= n ? end - n : 0, lane);
        const uint32_t found = wh_page_search_run(h.table, mask, least, start);
        if (found == WH_PAGE_NONE) {
            r->kind = WH_PAGE_FREE;
            return;
        }
        if (wh_lane_id() == lane) {
            wh_paged_set_run_(h, found, r);
            n = 0;
        }
    }
}

/* Serves what is still asked for, n bytes of the caller. */
WH_FN void *wh_paged_rest(wh_paged h, wh_mask mask, size_t n, uint32_t start, wh_paged_request *r,
                          uint32_t *opened) {
    *opened = WH_PAGE_NONE;
    if (wh_any(mask, r->kind != WH_PAGE_FREE)) {
        wh_paged_chunks_(h, mask, start, r, opened);
        if (wh_any(mask, r->kind != WH_PAGE_FREE)) {
            wh_paged_runs_(h, mask, r);
        }
    }
    if (WH_PLANT(paged_p2_lanes, 1, 0)) {
        wh_syncwarp(mask); /* core/page_table.h P2: what leaders have acquired */
    }
    if (n != 0 && r->p == NULL) {
        wh_add_u64_relaxed(&h.header->failed, 1);
    }
    return r->p;
}

/* As wh_page_free, and counts what is no live block. */
WH_FN wh_page_freed wh_paged_free(wh_paged h, wh_mask mask, const void *p, int how) {
    const wh_page_freed freed = wh_page_free(h.table, mask, p, how);
    if (freed.bad) {
        wh_add_u64_relaxed(&h.header->bad_frees, 1);
    }
    return freed;
}

WH_FN int wh_paged_owns(wh_paged h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.table.base) >> h.table.page_log2 < h.table.n;
}

/* Bytes of a block of that kind. */
WH_FN uint64_t wh_paged_block_bytes_(wh_paged h, wh_page_block b) {
    return b.kind == WH_PAGE_RUN ? (uint64_t)b.at << h.table.page_log2
                                 : wh_page_chunk_bytes(b.kind);
}

WH_FN uint64_t wh_paged_usable_size(wh_paged h, const void *p) {
    const wh_page_block b = wh_page_find(h.table, p);
    return wh_page_is_live(h.table, b) ? wh_paged_block_bytes_(h, b) : 0;
}

/* --- inspection ------------------------------------------------------------------------------- */

WH_FN uint32_t wh_paged_kind_(wh_paged h, uint64_t page) {
    return wh_page_kind(wh_load_u64_relaxed(&h.table.entries[page]));
}

/* Pages of the run that begins there. */
WH_FN uint64_t wh_paged_run_(wh_paged h, uint64_t page) {
    return wh_load_u32_relaxed(wh_page_length_(h.table, (uint32_t)page));
}

WH_FN void wh_paged_stats(wh_paged h, uint64_t i, uint64_t n, wh_stats *s) {
    uint64_t used = 0, live = 0, largest = 0;
    for (uint64_t page = i; page < h.table.n; page += n) {
        const uint64_t entry = wh_load_u64_relaxed(&h.table.entries[page]);
        const uint32_t kind = wh_page_kind(entry), count = wh_page_count(entry);
        uint64_t room = 0;
        if (kind == WH_PAGE_RUN) {
            used += wh_paged_run_(h, page) << h.table.page_log2;
            live++;
        } else if (wh_page_is_split(kind)) {
            used += (uint64_t)count * wh_page_chunk_bytes(kind);
            live += count;
            room =
                count < wh_page_capacity(h.table.page_log2, kind) ? wh_page_chunk_bytes(kind) : 0;
        } else if (kind == WH_PAGE_FREE &&
                   (page == 0 || wh_paged_kind_(h, page - 1) != WH_PAGE_FREE)) {
            uint64_t end = page + 1;
            while (end < h.table.n && wh_paged_kind_(h, end) == WH_PAGE_FREE) {
                end++;
            }
            room = (end - page) << h.table.page_log2;
        }
        largest = room > largest ? room : largest;
    }
    wh_add_u64_relaxed(&s->used_bytes, used);
    wh_add_u64_relaxed(&s->live_blocks, live);
    (void)wh_fetch_max_u64_relaxed(&s->largest_free, largest);
    if (i == 0) {
        s->failed = wh_load_u64_relaxed(&h.header->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.header->bad_frees);
    }
}

/* Use bits of a page that are set, among the first `most` or the others. */
WH_FN uint32_t wh_paged_bits_(wh_paged h, uint64_t page, uint32_t most, int others) {
    const uint32_t words = wh_page_words(h.table.page_log2);
    uint32_t n = 0;
    for (uint32_t w = 0; w < words; w++) {
        const uint32_t bits = wh_load_u32_relaxed(&h.table.bits[page * words + w]);
        const uint32_t here = most > w * 32 ? most - w * 32 : 0;
        const uint32_t mine = here >= 32 ? ~0u : (1u << here) - 1;
        n += wh_popc32(bits & (others ? ~mine : mine));
    }
    return n;
}

WH_FN void wh_paged_check(wh_paged h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint64_t page = i; page < h.table.n; page += n) {
        const uint64_t entry = wh_load_u64_relaxed(&h.table.entries[page]);
        const uint32_t kind = wh_page_kind(entry), count = wh_page_count(entry);
        uint32_t most = 0;
        if (wh_page_is_split(kind)) {
            most = wh_page_capacity(h.table.page_log2, kind);
            if (count == 0 || count > most || wh_paged_bits_(h, page, most, 0) != count) {
                wh_report_error(r, 1, page); /* core/page_table.h I1 */
            }
        } else if (kind == WH_PAGE_RUN) {
            uint64_t end = page + 1;
            while (end < h.table.n && wh_paged_kind_(h, end) == WH_PAGE_TAIL) {
                end++;
            }
            if (end - page != wh_paged_run_(h, page)) {
                wh_report_error(r, 2, page);
            }
        } else if (kind == WH_PAGE_TAIL) {
            const uint32_t before = page != 0 ? wh_paged_kind_(h, page - 1) : WH_PAGE_FREE;
            if (before != WH_PAGE_RUN && before != WH_PAGE_TAIL) {
                wh_report_error(r, 2, page);
            }
        }
        if (most == 0 && count != 0) {
            wh_report_error(r, 2, page); /* core/page_table.h I2 */
        }
        if (kind != WH_PAGE_RUN && wh_paged_bits_(h, page, most, 1) != 0) {
            wh_report_error(r, 1, page);
        }
    }
}

WH_FN void wh_paged_walk(wh_paged h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    const uint32_t words = wh_page_words(h.table.page_log2);
    for (uint64_t page = i; page < h.table.n; page += n) {
        wh_page_block b = {(uint32_t)page, wh_paged_kind_(h, page), 0};
        if (b.kind == WH_PAGE_RUN) {
            b.at = (uint32_t)wh_paged_run_(h, page);
            wh_walk_emit(sink, wh_page_address(h.table, b.page), wh_paged_block_bytes_(h, b));
        }
        for (uint32_t w = 0; wh_page_is_split(b.kind) && w < words; w++) {
            uint32_t bits = wh_load_u32_relaxed(&h.table.bits[page * words + w]);
            for (; bits != 0; bits &= bits - 1) {
                wh_walk_emit(sink, wh_page_chunk(h.table, b.page, b.kind, w * 32 + wh_ctz32(bits)),
                             wh_paged_block_bytes_(h, b));
            }
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

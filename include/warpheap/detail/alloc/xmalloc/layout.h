/* alloc/xmalloc/layout.h: structures of the heap, and how they are laid out. Internal: may change.
 *
 * Fields and who writes them (device scope)
 *   starts  a bit for each 16 bytes of a superblock: a piece, or the rest of a basicblock, begins
 *           there; fetch_or by who gets the piece, fetch_and by who frees the basicblock; relaxed
 *   live    likewise: a piece is live there; fetch_or relaxed; free: fetch_and relaxed
 *   pieces  8 bits for each basicblock: its live pieces; add, relaxed; free: fetch_sub acq_rel
 *   buffer  a ring (core/ring.h), how many it holds and how many more it has room for; both less
 *           what vain attempts have not given back; fetch_sub, add, relaxed
 *   cut     superblocks that requests were sent to, in turn: a hint; fetch_add, relaxed
 */
#ifndef WH_ALLOC_XMALLOC_LAYOUT_H
#define WH_ALLOC_XMALLOC_LAYOUT_H

#include "warpheap/core/ring.h"
#include "warpheap/detail/alloc/paged.h"
#include "warpheap/detail/alloc/xmalloc/options.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_XMALLOC_SUPERBLOCK 512u
#define WH_XMALLOC_ENTRIES 2u
#else
#define WH_XMALLOC_SUPERBLOCK 4096u
#define WH_XMALLOC_ENTRIES 4096u
#endif
#define WH_XMALLOC_BLOCKS 32u  /* basicblocks of a superblock, at most */
#define WH_XMALLOC_BUFFERS 34u /* two for each of 17 kinds: superblock / 32 to superblock / 2 */

typedef struct wh_xmalloc_buffer {
    wh_ring ring;
    uint64_t count;
    uint64_t room;
} wh_xmalloc_buffer;

typedef struct wh_xmalloc_ref {
    wh_paged paged;
    wh_xmalloc_buffer *buffers;
    uint32_t *entries; /* of all buffers */
    uint32_t *starts;
    uint32_t *live;
    uint32_t *pieces;
    uint64_t *cut;
    uint32_t least; /* kind of the smallest basicblock */
    uint32_t entries_log2;
} wh_xmalloc_ref;

WH_FN_HOST wh_status wh_xmalloc_plan(wh_xmalloc_ref *h, wh_plan *plan, unsigned char *memory,
                                     uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_xmalloc_options *o = (const wh_xmalloc_options *)options;
    const uint64_t page = o->superblock_bytes != 0 ? o->superblock_bytes : WH_XMALLOC_SUPERBLOCK;
    uint64_t entries = o->buffer_entries != 0 ? o->buffer_entries : WH_XMALLOC_ENTRIES;
    (void)n_sms;
    if (page < 512 || page > 1u << 20 || !wh_is_pow2(page) || entries > 65536 ||
        !wh_is_pow2(entries)) {
        return WH_BAD_ARGUMENT;
    }
    /* By default a buffer has no more entries than half the heap's superblocks. */
    while (o->buffer_entries == 0 && entries > 2 && 2 * entries * page > bytes) {
        entries /= 2;
    }
    const uint32_t page_log2 = wh_ctz64(page);
    wh_paged_shape shape;
    uint64_t *own = NULL;
    shape.page_log2 = page_log2;
    shape.own_words = 64 * (uint64_t)wh_page_words(page_log2) + 64 * WH_XMALLOC_BLOCKS / 8;
    shape.own_fixed =
        1 + WH_XMALLOC_BUFFERS * (sizeof(wh_xmalloc_buffer) / 8) + WH_XMALLOC_BUFFERS * entries / 2;
    const wh_status s = wh_paged_plan(&h->paged, plan, memory, bytes, shape, &own);
    if (s != WH_OK) {
        return s;
    }
    h->least = wh_page_kind_for(page_log2, page / WH_XMALLOC_BLOCKS);
    h->entries_log2 = wh_ctz64(entries);
    if (memory != NULL) {
        const uint64_t words = (uint64_t)h->paged.table.n * wh_page_words(page_log2);
        h->cut = own;
        h->buffers = (wh_xmalloc_buffer *)(void *)(own + 1);
        h->entries = (uint32_t *)(void *)(h->buffers + WH_XMALLOC_BUFFERS);
        h->starts = h->entries + WH_XMALLOC_BUFFERS * entries;
        h->live = h->starts + words;
        h->pieces = h->live + words;
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_xmalloc_layout(void) {
    static const uint64_t parts[] = {
        WH_PAGED_LAYOUT,
#define WH_F_(field) WH_LAYOUT_FIELD(wh_xmalloc_ref, field),
        sizeof(wh_xmalloc_ref),
        WH_F_(paged) WH_F_(buffers) WH_F_(entries) WH_F_(starts) WH_F_(live) WH_F_(pieces)
        WH_F_(cut) WH_F_(least) WH_F_(entries_log2)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_xmalloc_buffer, field),
        sizeof(wh_xmalloc_buffer),
        WH_F_(ring) WH_F_(count) WH_F_(room)
#undef WH_F_
        WH_XMALLOC_SUPERBLOCK, WH_XMALLOC_ENTRIES, WH_XMALLOC_BLOCKS, WH_XMALLOC_BUFFERS,
    };
    return wh_layout_hash("xmalloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_xmalloc_init(wh_xmalloc_ref h, uint64_t i, uint64_t n) {
    const uint64_t pages = h.paged.table.n;
    const uint64_t words = pages * wh_page_words(h.paged.table.page_log2);
    wh_paged_init(h.paged, i, n);
    if (i == 0) {
        wh_store_u64_relaxed(h.cut, 0);
    }
    for (uint64_t k = i; k < WH_XMALLOC_BUFFERS; k += n) {
        wh_xmalloc_buffer *b = &h.buffers[k];
        wh_store_u64_relaxed(&b->ring.head, 0);
        wh_store_u64_relaxed(&b->ring.tail, 0);
        wh_store_u64_relaxed(&b->ring.virgin, 0);
        wh_store_u64_relaxed(&b->count, 0);
        wh_store_u64_relaxed(&b->room, (uint64_t)1 << h.entries_log2);
    }
    for (uint64_t k = i; k < (uint64_t)WH_XMALLOC_BUFFERS << h.entries_log2; k += n) {
        wh_store_u32_relaxed(&h.entries[k], 0);
    }
    for (uint64_t k = i; k < words; k += n) {
        wh_store_u32_relaxed(&h.starts[k], 0);
        wh_store_u32_relaxed(&h.live[k], 0);
    }
    for (uint64_t k = i; k < pages * WH_XMALLOC_BLOCKS / 4; k += n) {
        wh_store_u32_relaxed(&h.pieces[k], 0);
    }
}

/* --- buffers ---------------------------------------------------------------------------------- */

/* Level 0: basicblocks of a kind, by number; 1: superblocks of which some may be free. */
WH_FN uint32_t wh_xmalloc_buffer_of_(wh_xmalloc_ref h, uint32_t level, uint32_t kind) {
    wh_assert_internal(kind >= h.least && 2 * (kind - h.least) + level < WH_XMALLOC_BUFFERS);
    return 2 * (kind - h.least) + level;
}

/* Up to n off a count, which may be `count` or `room`. */
WH_FN uint32_t wh_xmalloc_some_(uint64_t *count, uint32_t n) {
    if ((int64_t)wh_load_u64_relaxed(count) <= 0) {
        return 0;
    }
    const int64_t had = (int64_t)wh_fetch_sub_u64_relaxed(count, n);
    const uint32_t most = had < (int64_t)n ? (uint32_t)had : n;
    const uint32_t got = had <= 0 ? 0 : most;
    if (got < n) {
        wh_add_u64_relaxed(count, n - got);
    }
    return got;
}

WH_FN uint32_t *wh_xmalloc_entries_(wh_xmalloc_ref h, uint32_t buffer) {
    return h.entries + ((uint64_t)buffer << h.entries_log2);
}

/* One of a buffer; NONE: it is empty. The caller alone. */
WH_FN uint32_t wh_xmalloc_pop_(wh_xmalloc_ref h, uint32_t buffer) {
    wh_xmalloc_buffer *b = &h.buffers[buffer];
    if (wh_xmalloc_some_(&b->count, 1) == 0) {
        return WH_PAGE_NONE;
    }
    const uint64_t at = wh_ring_reserve_take(&b->ring, 1);
    const uint32_t v =
        wh_ring_take_at(&b->ring, wh_xmalloc_entries_(h, buffer), 1u << h.entries_log2, at);
    wh_add_u64_relaxed(&b->room, 1);
    return v;
}

/* Puts one into a buffer: whether there was room. The caller alone. */
WH_FN int wh_xmalloc_push_(wh_xmalloc_ref h, uint32_t buffer, uint32_t v) {
    wh_xmalloc_buffer *b = &h.buffers[buffer];
    if (wh_xmalloc_some_(&b->room, 1) == 0) {
        return 0;
    }
    wh_ring_put_at(wh_xmalloc_entries_(h, buffer), 1u << h.entries_log2,
                   wh_ring_reserve_put(&b->ring), v); /* core/ring.h P1 */
    wh_add_u64_relaxed(&b->count, 1);
    return 1;
}

/* --- basicblocks and pieces ------------------------------------------------------------------- */

/* A basicblock's number is 32 times its superblock's, and its own there. */
WH_FN unsigned char *wh_xmalloc_address_(wh_xmalloc_ref h, uint32_t block, uint32_t kind) {
    return wh_page_chunk(h.paged.table, block / WH_XMALLOC_BLOCKS, kind, block % WH_XMALLOC_BLOCKS);
}

/* A multiple of 16 bytes from the base on. */
WH_FN uint64_t wh_xmalloc_granule_(wh_xmalloc_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.paged.table.base) / 16;
}

/* Live pieces of a basicblock. */
WH_FN uint32_t wh_xmalloc_pieces_(wh_xmalloc_ref h, uint32_t block) {
    return wh_load_u32_relaxed(&h.pieces[block / 4]) >> block % 4 * 8 & 255;
}

/* Bytes from granule `at` on to the next place where a piece or a rest begins, or to the end of the
 * basicblock, which is granule `end`. */
WH_FN uint64_t wh_xmalloc_length_(wh_xmalloc_ref h, uint64_t at, uint64_t end) {
    uint64_t next = at + 1;
    while (next < end) {
        const uint32_t ones = wh_load_u32_relaxed(&h.starts[next / 32]) >> next % 32;
        if (ones != 0) {
            next += wh_ctz32(ones);
            break;
        }
        next = (next / 32 + 1) * 32;
    }
    return 16 * ((next < end ? next : end) - at);
}

/* What an address is. b.kind: FREE if it is no live block; of a piece: its basicblock, and the
 * granules at which the piece and the basicblock begin, and the latter ends. */
typedef struct wh_xmalloc_found {
    wh_page_block b;
    uint32_t block;
    uint64_t at;
    uint64_t first;
    uint64_t end;
} wh_xmalloc_found;

WH_FN wh_xmalloc_found wh_xmalloc_find_(wh_xmalloc_ref h, const void *p) {
    const uint32_t page_log2 = h.paged.table.page_log2;
    const uint64_t at = (uint64_t)((const unsigned char *)p - h.paged.table.base);
    wh_xmalloc_found f = {{WH_PAGE_NONE, WH_PAGE_FREE, 0}, 0, 0, 0, 0};
    if (at >> page_log2 >= h.paged.table.n) {
        return f;
    }
    const uint32_t page = (uint32_t)(at >> page_log2);
    const uint32_t kind = wh_page_kind(wh_load_u64_relaxed(&h.paged.table.entries[page]));
    if (!wh_page_is_split(kind)) {
        f.b = wh_page_find(h.paged.table, p);
        return f;
    }
    const uint32_t bytes = wh_page_chunk_bytes(kind);
    const uint32_t number = ((uint32_t)at & ((1u << page_log2) - 1)) / bytes;
    f.at = at / 16;
    if (at % 16 == 0 && number < wh_page_capacity(page_log2, kind) &&
        (wh_load_u32_relaxed(&h.live[f.at / 32]) >> f.at % 32 & 1) != 0) {
        f.b.page = page;
        f.b.kind = kind;
        f.b.at = number;
        f.block = page * WH_XMALLOC_BLOCKS + number;
        f.first = (((uint64_t)page << page_log2) + (uint64_t)number * bytes) / 16;
        f.end = f.first + bytes / 16;
    }
    return f;
}

WH_FN uint64_t wh_xmalloc_usable_size(wh_xmalloc_ref h, const void *p) {
    const wh_xmalloc_found f = wh_xmalloc_find_(h, p);
    if (f.b.kind == WH_PAGE_RUN) {
        return (uint64_t)f.b.at << h.paged.table.page_log2;
    }
    return f.b.kind != WH_PAGE_FREE ? wh_xmalloc_length_(h, f.at, f.end) : 0;
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/ouroboros/layout.h: structures of the Ouroboros heap, and the arithmetic between
 * sizes, classes, chunks, pages and addresses. Nothing here touches shared state but init.
 * It may change.
 *
 *   memory: [pad] chunk 0 | chunk 1 | ... | header | places | tables | rings | trees | next |
 *           bits | count | cls | [linear]
 *
 * Places are the words that all lanes write: those of the classes and their queues, then the
 * pool's, each 2^apart_log2 words from the next (wh_ouro_at_). Behind them lie the open words of
 * the classes (wh_ouro_open_), each of which few SMs write.
 *
 * Small chunks (8 KiB) are cut into the pages of classes 0..n_small - 1; large chunks, 2^k
 * neighbouring small ones, into those of the classes above ("multiple instances with
 * multiples of the base chunk size", section 3.1). A chunk is named by its first small
 * chunk, and has its metadata there.
 */
#ifndef WH_ALLOC_OUROBOROS_LAYOUT_H
#define WH_ALLOC_OUROBOROS_LAYOUT_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/ouroboros/options.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"
#include "warpheap/core/vqueue.h"

#include "warpheap/detail/simt/begin.h"

#define WH_OURO_MAX_ALIGN (1u << 16)
#define WH_OURO_BLOCKS_PAGES 5  /* 48 registers */
#define WH_OURO_BLOCKS_CHUNKS 4 /* 64: the slow path is the common one */

/* Defaults; options.h overrides them. The hostile build meets every boundary often. */
#ifdef WH_HOSTILE
#define WH_OURO_DEFAULT_CHUNK 512u
#define WH_OURO_DEFAULT_ENTRIES 8u
#define WH_OURO_OPEN_SHARE_LOG2 1u
#define WH_OURO_OPEN_FIT_LOG2 13u
#define WH_OURO_OPEN_FIRST_LOG2 0u
#define WH_OURO_OPEN_MOST_LOG2 1u
#else
#define WH_OURO_DEFAULT_CHUNK 8192u /* section 3.1 */
#define WH_OURO_DEFAULT_ENTRIES 0u  /* tables of about a hundredth of the heap in all */
/* Open words, of which one brings a chunk at a time, and may keep one nearly unused: of the
 * smallest pages so many, and twice as many of the next, of which fewer lie on a chunk, up to one
 * for each SM or so; but no more than a thousandth of the chunks for each class. */
#define WH_OURO_OPEN_SHARE_LOG2 10u
#define WH_OURO_OPEN_FIT_LOG2 22u /* bytes of the heap for each */
#define WH_OURO_OPEN_FIRST_LOG2 5u
#define WH_OURO_OPEN_MOST_LOG2 7u
#endif
#define WH_OURO_MIN_CHUNKS 64u     /* a smaller heap gets smaller chunks */
#define WH_OURO_MIN_LARGE 16u      /* at most a sixteenth of the heap is a large chunk */
#define WH_OURO_MAX_LARGE_LOG2 20u /* bytes of a large chunk: sizes up to 1 MiB */
#define WH_OURO_MAX_CLASSES 20u
#define WH_OURO_MAX_CACHE 1024u /* links to 2^21 page indices on chunks of 8 KiB */
#define WH_OURO_NO_CLASS UINT32_MAX

/* What a variant's code is made for: which queue, and what it holds. */
#define WH_OURO_PAGES 0u  /* page indices: section 4.1 */
#define WH_OURO_CHUNKS 4u /* indices of chunks with free pages: section 4.2 */
#define WH_OURO_KIND(variant) ((variant)&3u)
#define WH_OURO_BY_CHUNK(variant) (((variant)&WH_OURO_CHUNKS) != 0)

/* What belongs to a class: seven places, each at least a cache line from the others (wh_ouro_at_).
 * After those of all classes come the pool's, then the open words (wh_ouro_open_). These words are
 * written most: */
#define WH_OURO_AT_SEM 0u   /* pages in the queue, or chunks in it */
#define WH_OURO_AT_FULL 1u  /* chunks all of whose pages are free, and how often one became so */
#define WH_OURO_AT_FRONT 2u /* of the queue */
#define WH_OURO_AT_BACK 3u
#define WH_OURO_AT_ROOM 4u
#define WH_OURO_AT_STATE 5u /* wh_vqueue_state */
#define WH_OURO_AT_CLASS 6u
#define WH_OURO_PLACES 7u
#define WH_OURO_MIN_APART_LOG2 3u  /* in words of 8 bytes: 64 bytes */
#define WH_OURO_MAX_APART_LOG2 7u  /* 1 KiB: docs/MEMORY_MODEL.md */
#define WH_OURO_OPEN_APART_LOG2 4u /* 128 bytes, less in small heaps */

typedef struct wh_ouro_class {
    uint64_t parked;   /* chunks in the tree, or held by a lane that took one from there */
    uint64_t fetching; /* CHUNKS: chunks being fetched from the pool; a hint */
    uint64_t moving;   /* PAGES: lanes with pages in hand on their way to bits */
    uint64_t opened;   /* PAGES: whether a chunk was ever opened */
} wh_ouro_class;

typedef struct wh_ouro_ref {
    unsigned char *base; /* chunk 0 */
    struct wh_ouro_header *header;
    uint64_t *words; /* per place and class, then of the pool */
    void *tables;    /* ARRAY: uint32_t entries, others: uint64_t links; per class */
    uint32_t *rings;
    uint64_t *trees;       /* per class, and one of the pool */
    uint64_t *next;        /* per small chunk */
    uint64_t *bits;        /* 2^words_log2 words per small chunk: set = free page, not in a queue */
    uint32_t *count;       /* per small chunk: its bits; queue chunk: takes finished */
    uint32_t *cls;         /* per small chunk: class or NO_CLASS; plain, see I3 */
    unsigned char *linear; /* the caller's region behind all that */
    uint64_t linear_bytes;
    uint64_t data_bytes;
    uint32_t n_chunks;
    uint32_t tree_words;
    uint32_t variant;
    uint32_t chunk_log2; /* bytes */
    uint32_t min_log2;   /* bytes of the smallest page */
    uint32_t n_small;
    uint32_t n_classes;
    uint32_t apart_log2; /* words from one class to the next */
    uint32_t large_log2; /* small chunks in a large one; 0: there are no large ones */
    uint32_t words_log2;
    uint32_t table_log2[2];  /* of the queues of small and of large classes */
    uint8_t open_first_log2; /* PAGES: open words of class 0, */
    uint8_t open_log2[2];    /* and at most, of a small and of a large class */
    uint8_t keep_chunks;     /* PAGES: malloc takes no chunk from another class */
    uint32_t bounded[2];
    uint32_t ring_log2[2];
} wh_ouro_ref;

typedef struct wh_ouro_header {
    wh_ouro_ref self;    /* for slow paths, which take a pointer to the header only */
    uint64_t verdict[2]; /* small and large chunks: events + 1 when there were none; 0: none yet */
    uint64_t unused0[8];
    uint64_t failed;
    uint64_t bad_frees;
    uint64_t unused1[8];
    wh_chunk_pool_state pool;
} wh_ouro_header;

WH_STATIC_ASSERT(sizeof(wh_vqueue_state) <= 64 && sizeof(wh_ouro_class) <= 64 &&
                     sizeof(wh_ring) <= 64,
                 "what has a place fits it");

/* The word `full`: the low half, signed, counts the chunks of a class that are free as a whole, the
 * high half all that have become so, and PAGES' chunks that were opened, so that a change for the
 * better shows (X2). What to add when n become so, when n are so no longer, and when one is opened.
 */
WH_HD uint64_t wh_ouro_full_up_(uint32_t n) {
    return ((uint64_t)n << 32) + n;
}
WH_HD uint64_t wh_ouro_full_down_(uint32_t n) {
    return (uint64_t)0 - n;
}
WH_HD uint64_t wh_ouro_full_opened_(void) {
    return (uint64_t)1 << 32;
}
WH_HD int64_t wh_ouro_full_now_(uint64_t w) {
    return (int64_t)(w & 0xffffffff) - (int64_t)((w & 0x80000000) << 1);
}
WH_HD uint64_t wh_ouro_full_ever_(uint64_t w) {
    return (w - (uint64_t)wh_ouro_full_now_(w)) >> 32;
}

/* An open word, {chunk + 1 : 32 | next : 32}: of its chunk the pages from `next` on are free, and
 * to be had by an add to `next`. USED UP if `next` is the number of a chunk's pages; past that
 * the lane that passed it brings the next chunk (open.h). Adds go past it by a warp's lanes for
 * each warp of the device at most. */
WH_HD uint64_t wh_ouro_open_word_(uint32_t chunk, uint32_t next) {
    wh_assert_internal(chunk < UINT32_MAX && next != 0);
    return ((uint64_t)chunk + 1) << 32 | next;
}
WH_HD uint32_t wh_ouro_open_next_(uint64_t w) {
    return (uint32_t)w;
}
WH_HD uint32_t wh_ouro_open_chunk_(uint64_t w) {
    return (uint32_t)(w >> 32) - 1;
}

/* --- arithmetic ------------------------------------------------------------------------ */

WH_HD uint32_t wh_ouro_level_(wh_ouro_ref h, uint32_t c) {
    return c >= h.n_small;
}
WH_HD uint32_t wh_ouro_page_log2_(wh_ouro_ref h, uint32_t c) {
    return h.min_log2 + c;
}
/* Pages of a chunk of class c, log2. */
WH_HD uint32_t wh_ouro_pages_log2_(wh_ouro_ref h, uint32_t c) {
    return h.chunk_log2 + (wh_ouro_level_(h, c) ? h.large_log2 : 0) - wh_ouro_page_log2_(h, c);
}
WH_HD uint32_t wh_ouro_pages_(wh_ouro_ref h, uint32_t c) {
    return 1u << wh_ouro_pages_log2_(h, c);
}
WH_HD uint64_t wh_ouro_max_size_(wh_ouro_ref h) {
    return (uint64_t)1 << wh_ouro_page_log2_(h, h.n_classes - 1);
}
/* The chunk of class c that small chunk `unit` is a part of. */
WH_HD uint32_t wh_ouro_first_(wh_ouro_ref h, uint32_t c, uint32_t unit) {
    return wh_ouro_level_(h, c) ? unit >> h.large_log2 << h.large_log2 : unit;
}
WH_HD unsigned char *wh_ouro_page_(wh_ouro_ref h, uint32_t c, uint32_t chunk, uint32_t page) {
    wh_assert_internal(c < h.n_classes && chunk < h.n_chunks && page < wh_ouro_pages_(h, c));
    return h.base + ((uint64_t)chunk << h.chunk_log2) +
           ((uint64_t)page << wh_ouro_page_log2_(h, c));
}
/* The page of class c of that number: its offset in pages. */
WH_HD unsigned char *wh_ouro_page_at_(wh_ouro_ref h, uint32_t c, uint32_t id) {
    wh_assert_internal((uint64_t)id << wh_ouro_page_log2_(h, c) < h.data_bytes);
    return h.base + ((uint64_t)id << wh_ouro_page_log2_(h, c));
}
/* Chunk of class c, and page in it, of a page's number. */
WH_HD uint32_t wh_ouro_chunk_of_(wh_ouro_ref h, uint32_t c, uint32_t id, uint32_t *page) {
    const uint64_t offset = (uint64_t)id << wh_ouro_page_log2_(h, c);
    const uint32_t chunk = wh_ouro_first_(h, c, (uint32_t)(offset >> h.chunk_log2));
    *page = id & ((1u << wh_ouro_pages_log2_(h, c)) - 1);
    return chunk;
}
/* Word w of a chunk's bits. First words lie together, then second ones: most chunks have one, and
 * so their words are dense. */
WH_HD uint64_t *wh_ouro_bits_(wh_ouro_ref h, uint32_t chunk, uint32_t w) {
    wh_assert_internal(chunk < h.n_chunks && w < 1u << h.words_log2);
    return h.bits + ((uint64_t)w * h.n_chunks + chunk);
}
/* A place of class c. */
WH_HD uint64_t *wh_ouro_at_(wh_ouro_ref h, uint32_t place, uint32_t c) {
    return h.words + ((uint64_t)(place * h.n_classes + c) << h.apart_log2);
}
WH_HD uint64_t *wh_ouro_sem_(wh_ouro_ref h, uint32_t c) {
    return wh_ouro_at_(h, WH_OURO_AT_SEM, c);
}
WH_HD uint64_t *wh_ouro_full_(wh_ouro_ref h, uint32_t c) {
    return wh_ouro_at_(h, WH_OURO_AT_FULL, c);
}
WH_HD wh_ouro_class *wh_ouro_class_(wh_ouro_ref h, uint32_t c) {
    return (wh_ouro_class *)(void *)wh_ouro_at_(h, WH_OURO_AT_CLASS, c);
}
/* How many open words class c has, and those of all classes before it. CHUNKS have none. */
WH_HD uint32_t wh_ouro_opens_(wh_ouro_ref h, uint32_t c) {
    const uint32_t doubled = h.open_first_log2 + c, most = h.open_log2[0];
    if (WH_OURO_BY_CHUNK(h.variant)) {
        return 0;
    }
    if (wh_ouro_level_(h, c)) {
        return 1u << h.open_log2[1];
    }
    return 1u << (doubled < most ? doubled : most);
}
WH_HD uint32_t wh_ouro_opens_before_(wh_ouro_ref h, uint32_t c) {
    const uint32_t small = c < h.n_small ? c : h.n_small, most = h.open_log2[0];
    const uint32_t rise = most - h.open_first_log2, doubled = small < rise ? small : rise;
    const uint32_t first = 1u << h.open_first_log2;
    return WH_OURO_BY_CHUNK(h.variant) ? 0
                                       : (first << doubled) - first + ((small - doubled) << most) +
                                             ((c - small) << h.open_log2[1]);
}
/* Words of 8 bytes from one open word to the next, log2. */
WH_HD uint32_t wh_ouro_open_apart_log2_(wh_ouro_ref h) {
    return h.apart_log2 < WH_OURO_OPEN_APART_LOG2 ? h.apart_log2 : WH_OURO_OPEN_APART_LOG2;
}
/* Open word k of class c. */
WH_HD uint64_t *wh_ouro_open_(wh_ouro_ref h, uint32_t c, uint32_t k) {
    return wh_ouro_at_(h, WH_OURO_PLACES, 0) + ((uint64_t)WH_CHUNK_POOL_PLACES << h.apart_log2) +
           ((uint64_t)(wh_ouro_opens_before_(h, c) + k) << wh_ouro_open_apart_log2_(h));
}
/* What it is when it is used up. */
WH_HD uint64_t wh_ouro_used_up_(wh_ouro_ref h, uint32_t c) {
    return (uint64_t)1 << wh_ouro_pages_log2_(h, c);
}
WH_HD wh_veb wh_ouro_tree_(wh_ouro_ref h, uint32_t c) {
    wh_assert_internal(c <= h.n_classes);
    return wh_veb_make(h.trees + (uint64_t)c * h.tree_words, h.n_chunks);
}

WH_HD wh_chunk_pool wh_ouro_pool_(wh_ouro_ref h) {
    wh_chunk_pool p;
    p.words = wh_ouro_at_(h, WH_OURO_PLACES, 0);
    p.apart = 1u << h.apart_log2;
    p.state = &h.header->pool;
    p.entries[0] = h.rings;
    p.entries[1] = h.rings + ((uint64_t)1 << h.ring_log2[0]);
    p.loose_tree = wh_veb_make(h.trees + (uint64_t)h.n_classes * h.tree_words, h.n_chunks);
    p.entries_log2[0] = h.ring_log2[0];
    p.entries_log2[1] = h.ring_log2[1];
    p.n = h.n_chunks;
    p.large_log2 = h.large_log2;
    return p;
}

WH_HD wh_vqueue_chunks wh_ouro_queue_chunks_(wh_ouro_ref h) {
    wh_vqueue_chunks k;
    k.pool = wh_ouro_pool_(h);
    k.base = h.base;
    k.done = h.count;
    k.next = h.next;
    k.chunk_log2 = h.chunk_log2;
    k.ahead = h.n_chunks >> 10; /* a queue may keep so many from malloc */
    return k;
}

/* The queue of class c; variant: h.variant, or the constant that the code is made for. */
WH_HD wh_vqueue wh_ouro_queue_(uint32_t variant, wh_ouro_ref h, uint32_t c) {
    const int large = wh_ouro_level_(h, c) != 0;
    wh_assert_internal(c < h.n_classes);
    const uint64_t at = large ? ((uint64_t)h.n_small << h.table_log2[0]) +
                                    ((uint64_t)(c - h.n_small) << h.table_log2[1])
                              : (uint64_t)c << h.table_log2[0];
    wh_vqueue q;
    q.front = wh_ouro_at_(h, WH_OURO_AT_FRONT, c);
    q.back = wh_ouro_at_(h, WH_OURO_AT_BACK, c);
    q.room = wh_ouro_at_(h, WH_OURO_AT_ROOM, c);
    q.state = (wh_vqueue_state *)(void *)wh_ouro_at_(h, WH_OURO_AT_STATE, c);
    q.entries = (uint32_t *)h.tables + at;
    q.links = (uint64_t *)h.tables + at;
    q.kind = WH_OURO_KIND(variant);
    q.table_log2 = large ? h.table_log2[1] : h.table_log2[0];
    q.id = c + 1;
    q.bounded = large ? h.bounded[1] : h.bounded[0];
    return q;
}

/* --- plan and init --------------------------------------------------------------------- */

/* Entries, or links, of all queues. */
WH_HD uint64_t wh_ouro_table_words_(wh_ouro_ref h) {
    return ((uint64_t)h.n_small << h.table_log2[0]) +
           ((uint64_t)(h.n_classes - h.n_small) << h.table_log2[1]);
}

/* How large the tables of a heap of n chunks are, for small or for large classes. */
WH_FN_HOST void wh_ouro_table_(wh_ouro_ref *h, uint32_t level, uint64_t n, uint64_t heap_bytes,
                               const wh_ouroboros_options *options) {
    const uint32_t kind = WH_OURO_KIND(h->variant);
    const int by_chunk = WH_OURO_BY_CHUNK(h->variant);
    const uint64_t chunks = level == 0 ? n : (n >> h->large_log2) + 1;
    const uint64_t pages = level == 0 ? n << (h->chunk_log2 - h->min_log2) : n;
    const uint64_t most = by_chunk ? chunks : pages; /* values that may be in a queue */
    const uint64_t wish =
        options->queue_entries != 0 ? options->queue_entries : WH_OURO_DEFAULT_ENTRIES;
    h->bounded[level] = 0;
    h->table_log2[level] = 0;
    if (kind == WH_VQUEUE_ARRAY) {
        const uint32_t most_log2 = wh_log2_ceil(most);
        const uint64_t share = level == 0 ? 4000 : 64000;
        const uint32_t own = by_chunk ? most_log2 : wh_log2_floor(heap_bytes / share + 8);
        const uint32_t usual = own < 24 ? own : 24;
        uint32_t log2 = wish != 0 ? wh_log2_floor(wish) : usual;
        log2 = log2 < most_log2 ? log2 : most_log2;
        h->table_log2[level] = log2;
        h->bounded[level] = log2 < most_log2;
    } else {
        /* HIERARCHY: enough links for all queue chunks that there can be. LINKED: a cache. */
        const uint32_t per_log2 = h->chunk_log2 - 2;
        const uint64_t limit =
            kind == WH_VQUEUE_LINKED ? WH_OURO_MAX_CACHE : ((uint64_t)1 << 24) >> per_log2;
        const uint64_t links = (most >> per_log2) + 2;
        const uint64_t usual = links < limit ? links : limit;
        h->table_log2[level] = wish != 0 ? wh_log2_floor(wish) : wh_log2_ceil(usual);
    }
}

/* How many open words the classes of a heap of n chunks have: open_chunks each, or what
 * OPEN_FIRST, OPEN_MOST and OPEN_SHARE and OPEN_FIT say. */
WH_FN_HOST void wh_ouro_plan_open_(wh_ouro_ref *h, uint64_t n, uint64_t heap_bytes,
                                   const wh_ouroboros_options *options) {
    const uint64_t fit = heap_bytes >> WH_OURO_OPEN_FIT_LOG2;
    for (uint32_t level = 0; level < 2; level++) {
        const uint64_t chunks = level == 0 ? n : n >> h->large_log2;
        const uint64_t share = chunks >> WH_OURO_OPEN_SHARE_LOG2;
        const uint64_t usual = share < fit ? share : fit;
        const uint64_t wish = options->open_chunks != 0 ? options->open_chunks : usual;
        const uint32_t log2 = wish != 0 ? wh_log2_floor(wish) : 0;
        h->open_log2[level] =
            (uint8_t)(log2 < WH_OURO_OPEN_MOST_LOG2 ? log2 : WH_OURO_OPEN_MOST_LOG2);
    }
    const uint8_t most = h->open_log2[0];
    h->open_first_log2 = options->open_chunks == 0 && WH_OURO_OPEN_FIRST_LOG2 < most
                             ? (uint8_t)WH_OURO_OPEN_FIRST_LOG2
                             : most;
}

/* Moves *at past n items of `size` bytes; returns where they start, aligned to 128. */
WH_FN_HOST uint64_t wh_ouro_place_(uint64_t *at, uint64_t n, uint64_t size) {
    const uint64_t start = wh_round_up(*at, 128);
    *at = start + n * size;
    return start;
}

/* Everything that depends on the number of chunks. `memory` may be any address: with base
 * offset `pad`. Returns the bytes in all. */
WH_FN_HOST uint64_t wh_ouro_lay_out_(wh_ouro_ref *h, unsigned char *memory, uint64_t pad,
                                     uint64_t n, uint64_t heap_bytes,
                                     const wh_ouroboros_options *options) {
    const uint32_t kind = WH_OURO_KIND(h->variant);
    uint64_t at = pad + (n << h->chunk_log2);
    h->n_chunks = (uint32_t)n;
    h->data_bytes = n << h->chunk_log2;
    for (uint32_t level = 0; level < 2; level++) {
        wh_ouro_table_(h, level, n, heap_bytes, options);
    }
    wh_ouro_plan_open_(h, n, heap_bytes, options);
    h->ring_log2[0] = wh_log2_ceil(n);
    h->ring_log2[1] = wh_log2_ceil((n >> h->large_log2) + 1);
    h->tree_words = (uint32_t)wh_veb_words(n);
    const uint64_t tables = wh_ouro_table_words_(*h);
    h->base = memory + pad;
    h->header = (wh_ouro_header *)(void *)(memory + wh_ouro_place_(&at, 1, sizeof *h->header));
    h->apart_log2 = WH_OURO_MAX_APART_LOG2;
    const uint64_t places = (uint64_t)WH_OURO_PLACES * h->n_classes + WH_CHUNK_POOL_PLACES;
    while (h->apart_log2 > WH_OURO_MIN_APART_LOG2 && places << h->apart_log2 > heap_bytes / 2048) {
        h->apart_log2--; /* 8 << apart_log2 bytes a place: at most 1/256 of the heap */
    }
    const uint64_t words =
        (places << h->apart_log2) +
        ((uint64_t)wh_ouro_opens_before_(*h, h->n_classes) << wh_ouro_open_apart_log2_(*h));
    h->words = (uint64_t *)(void *)(memory + wh_ouro_place_(&at, words, 8));
    h->tables = memory + wh_ouro_place_(&at, tables, kind == WH_VQUEUE_ARRAY ? 4 : 8);
    h->rings = (uint32_t *)(void *)(memory + wh_ouro_place_(&at,
                                                            ((uint64_t)1 << h->ring_log2[0]) +
                                                                ((uint64_t)1 << h->ring_log2[1]),
                                                            4));
    h->trees =
        (uint64_t *)(void *)(memory +
                             wh_ouro_place_(&at, (uint64_t)(h->n_classes + 1) * h->tree_words, 8));
    h->next =
        (uint64_t *)(void *)(memory + wh_ouro_place_(&at, kind == WH_VQUEUE_LINKED ? n : 0, 8));
    h->bits = (uint64_t *)(void *)(memory + wh_ouro_place_(&at, n << h->words_log2, 8));
    h->count = (uint32_t *)(void *)(memory + wh_ouro_place_(&at, n, 4));
    h->cls = (uint32_t *)(void *)(memory + wh_ouro_place_(&at, n, 4));
    return wh_round_up(at, 256);
}

/* Chunk and page sizes, and the classes: for chunks of so many bytes, or as `old` has them: NULL,
 * or a heap of which they are taken over (grow.h). */
WH_FN_HOST wh_status wh_ouro_plan_sizes_(wh_ouro_ref *h, const wh_ouro_ref *old, uint64_t bytes,
                                         uint64_t chunk) {
    if (!wh_is_pow2(chunk) || chunk < 512 || chunk > 65536) {
        return WH_BAD_ARGUMENT;
    }
    h->chunk_log2 = wh_log2_floor(chunk);
    if (bytes >> h->chunk_log2 >= (uint64_t)1 << 25) {
        return WH_BAD_ARGUMENT; /* chunks are counted in 25 bits: take larger ones */
    }
    /* A queue's entry has 32 bits for a page's number: beyond 64 GiB pages start at 32 B. */
    h->min_log2 = 4;
    while (!WH_OURO_BY_CHUNK(h->variant) && bytes >> h->min_log2 > (uint64_t)1 << 32) {
        h->min_log2++;
    }
    const uint32_t part_log2 = wh_log2_floor(bytes / WH_OURO_MIN_LARGE + 1);
    const uint32_t most_log2 = h->chunk_log2 > WH_OURO_MAX_LARGE_LOG2 - 7
                                   ? WH_OURO_MAX_LARGE_LOG2
                                   : h->chunk_log2 + 7; /* 64 pages are one word of bits */
    const uint32_t large_log2 = part_log2 < most_log2 ? part_log2 : most_log2;
    h->large_log2 = large_log2 > h->chunk_log2 ? large_log2 - h->chunk_log2 : 0;
    if (old != NULL) {
        if (h->min_log2 > old->min_log2) {
            return WH_BAD_ARGUMENT;
        }
        h->min_log2 = old->min_log2;
        h->large_log2 = old->large_log2;
    }
    h->n_small = h->chunk_log2 - h->min_log2 + 1;
    h->n_classes = h->n_small + h->large_log2;
    h->words_log2 = h->chunk_log2 - h->min_log2 > 6 ? h->chunk_log2 - h->min_log2 - 6 : 0;
    return WH_OK;
}

/* An address to compute with. */
WH_FN_HOST unsigned char *wh_ouro_some_place_(unsigned char *memory) {
    return memory != NULL ? memory : (unsigned char *)(uintptr_t)WH_OURO_MAX_ALIGN;
}

/* The bytes of the least heap: two chunks, and none of them large. */
WH_FN_HOST uint64_t wh_ouro_least_bytes_(const wh_ouro_ref *h, unsigned char *memory,
                                         const wh_ouroboros_options *options) {
    const uint64_t chunk = (uint64_t)1 << h->chunk_log2;
    wh_ouro_ref least = *h;
    least.large_log2 = 0;
    least.n_classes = h->n_small;
    /* What lies apart grows with the heap: until it fits itself. */
    for (uint64_t as_large = 4 * chunk;;) {
        const uint64_t bytes =
            wh_ouro_lay_out_(&least, wh_ouro_some_place_(memory), chunk, 2, as_large, options);
        if (bytes <= as_large) {
            return bytes;
        }
        as_large = bytes;
    }
}

/* Lays the heap out with as many chunks as fit, and returns how many; fewer than two: none do. */
WH_FN_HOST uint64_t wh_ouro_fit_(wh_ouro_ref *h, unsigned char *memory, uint64_t bytes,
                                 const wh_ouroboros_options *options) {
    /* A page of 2^k bytes is to lie at a multiple of 2^k up to the largest alignment. */
    const uint64_t large = (uint64_t)1 << (h->chunk_log2 + h->large_log2);
    const uint64_t align = large < WH_OURO_MAX_ALIGN ? large : WH_OURO_MAX_ALIGN;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    const uint64_t pad = memory != NULL ? wh_round_up(address, align) - address : 0;
    unsigned char *at = wh_ouro_some_place_(memory);
    uint64_t most = bytes >> h->chunk_log2; /* what is laid out grows with n */
    uint64_t n = most >= 2 && wh_ouro_lay_out_(h, at, pad, 2, bytes, options) <= bytes ? 2 : 0;
    while (n >= 2 && n < most) {
        const uint64_t middle = n + (most - n + 1) / 2;
        if (wh_ouro_lay_out_(h, at, pad, middle, bytes, options) <= bytes) {
            n = middle;
        } else {
            most = middle - 1;
        }
    }
    if (n >= 2) {
        (void)wh_ouro_lay_out_(h, at, pad, n, bytes, options);
    }
    return n;
}

/* With the chunks that the options give, or `old` has. */
WH_FN_HOST wh_status wh_ouro_plan_with_(wh_ouro_ref *h, const wh_ouro_ref *old, wh_plan *plan,
                                        unsigned char *memory, uint64_t bytes,
                                        const wh_ouroboros_options *options) {
    const uint64_t heap_bytes = bytes, linear = wh_round_up(options->linear_bytes, 256);
    const uint64_t chunk = old != NULL ? (uint64_t)1 << old->chunk_log2 : options->chunk_bytes;
    if (linear != 0) {
        bytes = bytes >= linear ? (bytes - linear) / 256 * 256 : 0;
    }
    h->linear = memory + bytes;
    h->linear_bytes = options->linear_bytes;
    h->keep_chunks = options->keep_chunks != 0 && !WH_OURO_BY_CHUNK(h->variant);
    plan->init_items = 1;
    plan->metadata_bytes = 0;
    plan->min_bytes = 0;
    const wh_status s = wh_ouro_plan_sizes_(h, old, bytes, chunk);
    if (s != WH_OK) {
        return s;
    }
    plan->min_bytes = wh_ouro_least_bytes_(h, memory, options);
    const int tiny = old == NULL && bytes < 2 * plan->min_bytes;
    plan->min_bytes += linear != 0 ? linear + 256 : 0;
    uint64_t n = tiny ? 0 : wh_ouro_fit_(h, memory, bytes, options);
    if (n < 2 && old == NULL) { /* too small for large chunks */
        h->large_log2 = 0;
        h->n_classes = h->n_small;
        n = wh_ouro_fit_(h, memory, bytes, options);
    }
    if (n < 2 || heap_bytes < plan->min_bytes) { /* whatever the memory's alignment */
        return WH_HEAP_TOO_SMALL;
    }
    plan->metadata_bytes = heap_bytes - (n << h->chunk_log2);
    plan->init_items = n;
    return WH_OK;
}

/* The same; where no chunk size is given, with the default one, or the largest smaller one with
 * which the heap can be made. h->variant is set. */
WH_FN_HOST wh_status wh_ouro_plan_(wh_ouro_ref *h, const wh_ouro_ref *old, wh_plan *plan,
                                   unsigned char *memory, uint64_t bytes, const void *options) {
    wh_ouroboros_options t = *(const wh_ouroboros_options *)options;
    if (t.linear_bytes > UINT64_MAX / 2 || t.queue_entries > UINT32_MAX ||
        t.open_chunks > UINT32_MAX) { /* rounding up would wrap */
        plan->min_bytes = 0;
        return WH_BAD_ARGUMENT;
    }
    if (old != NULL || t.chunk_bytes != 0) {
        return wh_ouro_plan_with_(h, old, plan, memory, bytes, &t);
    }
    t.chunk_bytes = WH_OURO_DEFAULT_CHUNK;
    const uint64_t room = bytes > t.linear_bytes ? bytes - t.linear_bytes : 0;
    while (t.chunk_bytes > 512 && t.chunk_bytes * WH_OURO_MIN_CHUNKS > room) {
        t.chunk_bytes /= 2;
    }
    wh_status s = wh_ouro_plan_with_(h, old, plan, memory, bytes, &t);
    while (s == WH_HEAP_TOO_SMALL && t.chunk_bytes > 512) { /* as min_bytes says: with the least */
        t.chunk_bytes /= 2;
        s = wh_ouro_plan_with_(h, old, plan, memory, bytes, &t);
    }
    return s;
}

/* Queue chunks that each virtualized queue of a small class has from the beginning, so that the
 * first million frees find room: those of class c are the chunks from (c - first) * ready on. They
 * are as if fetched ahead, and may be taken for others only when they have been used. With CHUNKS
 * only classes of few pages a chunk have some: of smaller pages many are one value, and malloc
 * turns their queues round all the time, so that these chunks would soon be page chunks, far before
 * the others. */
#ifdef WH_HOSTILE
#define WH_OURO_READY_SHARE_LOG2 10u
#else
#define WH_OURO_READY_SHARE_LOG2 15u
#endif
#define WH_OURO_READY_PAGES_LOG2 5u /* CHUNKS: a chunk's pages, at most */
WH_HD uint32_t wh_ouro_ready_first_(wh_ouro_ref h) {
    const uint32_t above = h.chunk_log2 - h.min_log2;
    return WH_OURO_BY_CHUNK(h.variant) && above > WH_OURO_READY_PAGES_LOG2
               ? above - WH_OURO_READY_PAGES_LOG2
               : 0;
}
/* Of one class. */
WH_HD uint32_t wh_ouro_ready_(wh_ouro_ref h) {
    const uint32_t share = h.n_chunks >> WH_OURO_READY_SHARE_LOG2, links = 1u << h.table_log2[0];
    const uint32_t most = share < links ? share : links;
    return WH_OURO_KIND(h.variant) == WH_VQUEUE_ARRAY ? 0 : most;
}
WH_HD uint32_t wh_ouro_ready_chunks_(wh_ouro_ref h) {
    return (h.n_small - wh_ouro_ready_first_(h)) * wh_ouro_ready_(h);
}
WH_HD int wh_ouro_is_ready_(wh_ouro_ref h, uint32_t c) {
    return wh_ouro_ready_(h) != 0 && c >= wh_ouro_ready_first_(h) && c < h.n_small;
}

/* The link of number j of class c's queue as it is made. */
WH_HD uint64_t wh_ouro_ready_link_(wh_ouro_ref h, uint32_t c, uint32_t j) {
    const uint32_t ready = wh_ouro_ready_(h);
    return wh_vqueue_link(wh_ouro_queue_(h.variant, h, c).id, j,
                          j < ready ? (c - wh_ouro_ready_first_(h)) * ready + j
                                    : WH_VQUEUE_NO_CHUNK);
}

/* Thread i of n. Cost: the metadata. */
WH_FN void wh_ouro_init_(wh_ouro_ref h, uint64_t i, uint64_t n) {
    const uint32_t kind = WH_OURO_KIND(h.variant), ready = wh_ouro_ready_(h);
    if (i == 0) {
        h.header->self = h;
        h.header->failed = 0;
        h.header->bad_frees = 0;
        h.header->verdict[0] = 0;
        h.header->verdict[1] = 0;
        wh_chunk_pool_reset(wh_ouro_pool_(h));
        *wh_chunk_pool_offset_(wh_ouro_pool_(h)) = wh_ouro_ready_chunks_(h);
    }
    for (uint64_t c = i; c < h.n_classes; c += n) {
        wh_ouro_class *cl = wh_ouro_class_(h, (uint32_t)c);
        *wh_ouro_sem_(h, (uint32_t)c) = 0;
        *wh_ouro_full_(h, (uint32_t)c) = 0;
        cl->parked = 0;
        cl->fetching = 0;
        cl->moving = 0;
        cl->opened = 0;
        const wh_vqueue q = wh_ouro_queue_(h.variant, h, (uint32_t)c);
        wh_vqueue_reset(q);
        if (wh_ouro_is_ready_(h, (uint32_t)c)) {
            *q.room = wh_bulk_semaphore_word(
                (int64_t)((uint64_t)ready << wh_vqueue_per_log2(wh_ouro_queue_chunks_(h))), 0, 0);
            q.state->provisioned = q.state->used = ready;
            q.state->first = wh_ouro_ready_link_(h, (uint32_t)c, 0);
            q.state->last = wh_ouro_ready_link_(h, (uint32_t)c, ready - 1);
        }
        for (uint32_t k = 0; k < wh_ouro_opens_(h, (uint32_t)c); k++) {
            *wh_ouro_open_(h, (uint32_t)c, k) = wh_ouro_used_up_(h, (uint32_t)c);
        }
    }
    const uint64_t words = wh_ouro_table_words_(h);
    for (uint64_t k = i; k < words; k += n) {
        if (kind == WH_VQUEUE_ARRAY) {
            ((uint32_t *)h.tables)[k] = 0;
        } else {
            const uint64_t c = k >> h.table_log2[0], j = k & ((1u << h.table_log2[0]) - 1);
            ((uint64_t *)h.tables)[k] = wh_ouro_is_ready_(h, (uint32_t)c) && j < ready
                                            ? wh_ouro_ready_link_(h, (uint32_t)c, (uint32_t)j)
                                            : 0;
        }
    }
    const uint64_t entries = (uint64_t)wh_ouro_ready_chunks_(h) << (h.chunk_log2 - 3);
    for (uint64_t k = i; k < entries; k += n) { /* deletion markers */
        ((uint64_t *)(void *)h.base)[k] = 0;
    }
    const uint64_t ring_words = ((uint64_t)1 << h.ring_log2[0]) + ((uint64_t)1 << h.ring_log2[1]);
    for (uint64_t k = i; k < ring_words; k += n) {
        h.rings[k] = 0;
    }
    for (uint64_t k = i; k < (uint64_t)(h.n_classes + 1) * h.tree_words; k += n) {
        h.trees[k] = 0;
    }
    for (uint64_t k = i; k < h.n_chunks; k += n) {
        h.count[k] = 0;
        h.cls[k] = WH_OURO_NO_CLASS;
        if (kind == WH_VQUEUE_LINKED) {
            h.next[k] = k < wh_ouro_ready_chunks_(h)
                            ? wh_ouro_ready_link_(h, wh_ouro_ready_first_(h) + (uint32_t)k / ready,
                                                  (uint32_t)k % ready + 1)
                            : UINT64_MAX;
        }
    }
    for (uint64_t k = i; k < (uint64_t)h.n_chunks << h.words_log2; k += n) {
        h.bits[k] = 0;
    }
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_ouro_layout_(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_ouro_ref, field),
        sizeof(wh_ouro_ref),
        WH_F_(base) WH_F_(header) WH_F_(words) WH_F_(tables) WH_F_(rings) WH_F_(trees) WH_F_(next)
        WH_F_(bits) WH_F_(count) WH_F_(cls) WH_F_(linear) WH_F_(linear_bytes) WH_F_(data_bytes)
        WH_F_(n_chunks) WH_F_(tree_words) WH_F_(variant) WH_F_(chunk_log2) WH_F_(min_log2)
        WH_F_(n_small) WH_F_(n_classes) WH_F_(apart_log2) WH_F_(large_log2) WH_F_(words_log2)
        WH_F_(table_log2) WH_F_(open_first_log2) WH_F_(open_log2) WH_F_(keep_chunks)
        WH_F_(bounded) WH_F_(ring_log2)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_ouro_header, field),
        sizeof(wh_ouro_header),
        WH_F_(self) WH_F_(verdict) WH_F_(failed) WH_F_(bad_frees) WH_F_(pool)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_ouro_class, field),
        sizeof(wh_ouro_class),
        WH_F_(parked) WH_F_(fetching) WH_F_(moving) WH_F_(opened)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_vqueue_state, field),
        sizeof(wh_vqueue_state),
        WH_F_(provisioned) WH_F_(used) WH_F_(first) WH_F_(last) WH_F_(announced)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_chunk_pool_state, field),
        sizeof(wh_chunk_pool_state),
        WH_F_(moving) WH_F_(loose)
#undef WH_F_
        WH_OURO_PLACES, WH_OURO_MAX_CLASSES, WH_OURO_MAX_CACHE, WH_OURO_OPEN_APART_LOG2,
        WH_OURO_READY_SHARE_LOG2, WH_CHUNK_POOL_PLACES, WH_VQUEUE_CHUNK_BITS,
    };
    return wh_layout_hash("ouroboros", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#include "warpheap/detail/simt/end.h"

#endif

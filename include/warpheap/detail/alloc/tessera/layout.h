/* alloc/tessera/layout.h: how a heap lies in memory: its structures, which lane writes their
 * fields, and where a shard's home chunks are. This file may change: it is no part of the API.
 *
 *   memory  | header | shards, cursors | tags | states | pool | partial lists | words | chunks |
 *
 * Everything before the chunks is metadata: no user block shares a line with it. Of a heap that
 * reserves address space the words and the chunks are mapped as they are needed: reserve.h.
 *
 *   chunk    16 KiB; memory changes hands between classes and runs by the chunk
 *   pool     the free chunks (core/veb.h): claimed by mask, inserted by the owner of a slab or run
 *   slab     chunks in a row, in one word of the pool, split into slots of one class
 *   slot     what malloc returns for up to one chunk, and for some sizes above
 *   word     the free slots of (a part of) a slab, and its class (slab.h)
 *   state    of a slab of several words: words that are all free (slab.h)
 *   tag      of a chunk: class and number of its slab (tag.h)
 *   span     slabs in a row whose slots a cursor hands out in order (cursor.h)
 *   cursor   a span for each class and shard; and hints: words that have had free slots
 *   shard    the cursors and counts of an SM, or of a few that share them
 *   list     of a class: the partial slabs (core/veb.h), as slab.h I6 says
 *   run      chunks in a row, for a request of more than one chunk (runs.h)
 *   home     where a shard's own claims from the pool begin: words of the pool that are its own
 *
 * A hint is relaxed and may be stale: it says where to look first, and nobody trusts it.
 *
 * Check   tests/unit/tessera_layout.c, tests/conform, tests/stress
 */
#ifndef WH_ALLOC_TESSERA_LAYOUT_H
#define WH_ALLOC_TESSERA_LAYOUT_H

#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"
#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/tessera/options.h"
#include "warpheap/detail/alloc/tessera/tag.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_HINTS 32u /* a power of two */
#define WH_TESSERA_MOST_ALIGN (2u << 20)
#define WH_TESSERA_POOL_SPREAD 4u /* each SM works on a word of the pool of its own */

/* cursor.h says which lane changes span. hints: 1 + 32 * first chunk of a slab + word of it, or 0;
 * stores, relaxed, of any lane. They have sectors of their own. */
typedef struct wh_tessera_cursor {
    WH_ALIGNAS(32) uint64_t span;
    uint64_t padding[3];
    uint32_t hints[WH_TESSERA_HINTS];
} wh_tessera_cursor;

/* takes: add before a take, of 1 << 32 and the chunks that it asks for; a hint lowers the lower
 * half, by cas. takes_done: add, release, after it (steps.h P4). events: add, behind the return of
 * chunks, or of a slot of a large class. failed, bad_frees: add, relaxed. */
typedef struct wh_tessera_shard {
    uint64_t takes;      /* takes that have begun << 32 | home chunks that have been asked for */
    uint32_t takes_done; /* takes that are done */
    uint32_t events;     /* times that chunks have come back to the pool, or such slots to a slab */
    uint64_t failed;
    uint64_t bad_frees;
    wh_tessera_cursor cursors[WH_TESSERA_CLASSES];
} wh_tessera_shard;

#define WH_TESSERA_TAKE ((uint64_t)1 << 32)

#define WH_TESSERA_TRACKS_PEAK 1u   /* the option track_peak */
#define WH_TESSERA_TRACKS_TOTALS 2u /* the option track_totals */
#define WH_TESSERA_COUNTS (WH_TESSERA_TRACKS_PEAK | WH_TESSERA_TRACKS_TOTALS)
#define WH_TESSERA_CHECKED 4u /* the option checked: checked.h */

typedef struct wh_tessera_watch wh_tessera_watch;

/* What every step needs: part of the handle, and a copy in the header for slow paths. */
typedef struct wh_tessera_core {
    unsigned char *meta;
    unsigned char *base; /* the first chunk */
    uint64_t *pool;
    uint64_t *partial_lists;
    uint64_t *words;
    wh_tessera_watch *watch; /* what checks and records need; NULL: there are none */
    uint32_t n_chunks;
    uint32_t list_words;  /* of the list of a class */
    uint32_t begin;       /* chunks below it lie in the first spans of cursors */
    uint32_t home_chunks; /* of each shard, a multiple of 64; may be 0 */
    uint32_t by_shards;   /* floor(2^32 / n_shards) + 1; 0 if that is one */
    uint8_t n_shards;
    uint8_t tracks; /* WH_TESSERA_TRACKS_*: all calls of malloc take the slow way, and count; and
                       WH_TESSERA_CHECKED */
    uint8_t chunk_log2;
    uint8_t n_small; /* small classes */
    uint8_t words_of_chunk;
    uint8_t has_large;     /* classes of slots of more than a chunk */
    uint8_t max_slab_log2; /* chunks of a small class's slab */
    uint8_t max_span_log2; /* chunks of a span */
    uint8_t reserved; /* 1 + log2 of the chunks of a unit (reserve.h); 0: all chunks are there */
} wh_tessera_core;

/* What a heap that grows while lanes run knows of that. growth.h says which lane changes what. */
typedef struct wh_tessera_growth {
    uint64_t answer;    /* the host's last one, behind which no units were left to take */
    uint32_t lock;      /* of the fields from here on, and of the box */
    uint32_t first;     /* parts that the host has mapped, and nobody has taken: from the first */
    uint32_t left;      /* ... so many */
    uint32_t rows;      /* of the host's rows that have been looked at */
    uint32_t taken;     /* parts, in all */
    uint32_t asked;     /* requests of the host */
    uint32_t count;     /* times that parts have come into the pool: add, relaxed */
    uint32_t wait_us;   /* how long a malloc waits at most */
    uint32_t timed_out; /* mallocs that returned NULL since they had waited so long: add, relaxed */
    uint32_t padding;
} wh_tessera_growth;

/* oom.h says which lane changes the oom fields and search_lock, runs.h those of runs; init stores
 * the tables, which stay.
 *
 * used, peak, mallocs, with track_peak or track_totals: malloc adds, relaxed, after it has its
 * blocks, and free subtracts after it has given them back. peak: fetch_max of what the adds made of
 * used. mallocs: blocks given; those that are not live have been freed. */
typedef struct wh_tessera_header {
    wh_tessera_class classes[WH_TESSERA_CLASSES];
    uint64_t slab_tags[WH_TESSERA_CLASSES]; /* of the first chunk, less the shard */
    uint64_t oom_answered[64]; /* requests to which the last search answered: nothing */
    uint64_t oom_classes;      /* a hint: classes of requests that ask, a bit each */
    uint64_t oom_tickets;      /* requests that wanted to know */
    uint64_t run_verdict;      /* events << 31 | class << 24 | chunks asked for */
    uint32_t search_lock;
    uint32_t run_lock;
    uint32_t run_next;  /* a hint: chunks from the back of the heap that runs have been given */
    uint32_t run_news;  /* times that cursors have been closed for a run */
    uint64_t used;      /* with track_peak: usable bytes of live blocks */
    uint64_t peak;      /* ... and the most that it has been */
    uint64_t mallocs;   /* with track_totals: blocks that malloc has given */
    uint32_t oom_found; /* searches that have found something */
    uint32_t padding;
    uint64_t mapped_bytes; /* of a reserved heap, metadata included; stored by settle (reserve.h) */
    uint64_t metadata_bytes;   /* ... and of these, not available to blocks */
    uint32_t top;              /* no chunk is there from it on: n_chunks, or as reserve.h says */
    uint32_t home_chunks;      /* of each shard, below the top */
    wh_growth_box *growth;     /* NULL: the heap does not grow while lanes run (growth.h) */
    wh_tessera_growth growing; /* else what it knows of that */
    WH_ALIGNAS(64) wh_tessera_core core; /* for the slow paths */
} wh_tessera_header;

typedef struct wh_tessera_ref {
    unsigned char *base;
    uint64_t bytes; /* of all chunks */
    uint64_t *tags;
    uint64_t *words;
    wh_tessera_shard *shards;
    const wh_tessera_class *classes;
    uint32_t max_slot;    /* largest request of a small class: a chunk */
    uint32_t shard_scale; /* shard = SM * shard_scale >> 16 */
    uint32_t last_shard;
    uint32_t chunk_log2; /* as in core, but a whole word, which is an operand without a load */
    uint32_t words_of_chunk;
    uint32_t tracks;     /* as in core */
    uint64_t warp_slabs; /* classes whose slab is a full warp's, a bit each */
    wh_tessera_core core;
} wh_tessera_ref;

/* Device memory of a heap that has checks or records. checked.h says which lane changes what; the
 * host stores what is above `epoch`, once. The slots of the quarantine lie behind it. */
struct wh_tessera_watch {
    wh_record_box *violations; /* NULL: the heap is not checked */
    wh_record_box *failures;   /* NULL: none are noted */
    uint64_t quarantine_bytes;
    uint64_t poison_bytes; /* of a block, a multiple of 8 */
    uint32_t n_entries;    /* slots, a power of two */
    uint32_t traps;
    wh_tessera_ref plain; /* the handle of the heap as if it were not checked */
    uint64_t epoch;
    uint64_t mark;       /* stored by the host, between kernels: snapshot.h */
    uint64_t padding[6]; /* these on lines of their own */
    uint64_t tail;
    uint64_t padding_of_tail[7];
    uint64_t head;
    uint64_t padding_of_head[7];
    uint64_t held;
    uint64_t leaving;
    uint64_t events;
    uint64_t padding_of_held[5];
};

WH_FN wh_tessera_header *wh_tessera_header_(wh_tessera_core g) {
    return (wh_tessera_header *)(void *)g.meta;
}
WH_FN const wh_tessera_core *wh_tessera_core_of_(wh_tessera_ref h) {
    return &wh_tessera_header_(h.core)->core;
}
/* The header that g is part of, without a look at `meta`. */
WH_FN const wh_tessera_header *wh_tessera_header_of_(const wh_tessera_core *g) {
    const unsigned char *core = (const unsigned char *)g;
    return (const wh_tessera_header *)(const void *)(core - offsetof(wh_tessera_header, core));
}
/* No chunk is there from it on. P8, P11 */
WH_FN uint32_t wh_tessera_top_(wh_tessera_core g) {
    return wh_load_u32_relaxed(&wh_tessera_header_(g)->top);
}
WH_FN wh_tessera_shard *wh_tessera_nth_shard_(void *shards, uint32_t shard) {
    unsigned char *const first = (unsigned char *)shards; /* an index takes an instruction more */
    return (wh_tessera_shard *)(void *)(first + wh_mul_wide_u32(shard, sizeof(wh_tessera_shard)));
}
/* The cursor of a shard, from that of shard 0. */
WH_FN wh_tessera_cursor *wh_tessera_nth_cursor_(wh_tessera_cursor *first, uint32_t shard) {
    return (wh_tessera_cursor *)(void *)wh_tessera_nth_shard_(first, shard);
}
WH_FN wh_tessera_shard *wh_tessera_shard_at_(wh_tessera_core g, uint32_t shard) {
    wh_assert_internal(shard <= g.n_shards);
    return wh_tessera_nth_shard_(g.meta + sizeof(wh_tessera_header), shard);
}
WH_FN wh_tessera_cursor *wh_tessera_cursor_at_(wh_tessera_core g, uint32_t shard, uint32_t c) {
    wh_assert_internal(shard < g.n_shards && c < WH_TESSERA_CLASSES);
    return &wh_tessera_shard_at_(g, shard)->cursors[c];
}
WH_FN uint64_t *wh_tessera_tag_at_(wh_tessera_core g, uint32_t chunk) {
    wh_assert_internal(chunk <= g.n_chunks);
    return (uint64_t *)(void *)wh_tessera_shard_at_(g, g.n_shards) + chunk;
}
WH_FN uint32_t *wh_tessera_state_at_(wh_tessera_core g, uint32_t chunk) {
    wh_assert_internal(chunk < g.n_chunks);
    return (uint32_t *)(void *)wh_tessera_tag_at_(g, g.n_chunks) + chunk;
}
WH_FN wh_veb wh_tessera_pool_(wh_tessera_core g) {
    return wh_veb_make_spread(g.pool, g.n_chunks, WH_TESSERA_POOL_SPREAD);
}
WH_FN uint64_t *wh_tessera_words_of_(wh_tessera_core g, uint32_t slab) {
    wh_assert_internal(slab < g.n_chunks);
    return g.words + wh_mul_wide_u32(slab, g.words_of_chunk);
}

WH_HD uint32_t wh_tessera_n_classes(wh_tessera_core g) {
    return g.has_large ? WH_TESSERA_ALL : g.n_small;
}
/* The class of a request that slots of more than a chunk serve better than a run: NO_CLASS if none
 * does. */
WH_HD uint32_t wh_tessera_large_class_(const wh_tessera_core *g, uint64_t n) {
    if (!g->has_large || n >> g->chunk_log2 == 0 || n > WH_TESSERA_LARGEST) {
        return WH_TESSERA_NO_CLASS;
    }
    const uint32_t c = wh_tessera_class_of((uint32_t)n);
    return (wh_tessera_bound(c) & ((1u << g->chunk_log2) - 1)) != 0 ? c : WH_TESSERA_NO_CLASS;
}

/* The chunks that are there, of a reserved heap, in a tree of the pool's shape: behind the lists.
 * reserve.h says who changes it. */
WH_FN wh_veb wh_tessera_present_(wh_tessera_core g) {
    wh_assert_internal(g.reserved != 0);
    return wh_veb_make(g.partial_lists + (uint64_t)wh_tessera_n_classes(g) * g.list_words,
                       g.n_chunks);
}
/* Whether a chunk is there. */
WH_FN int wh_tessera_is_there_(wh_tessera_core g, uint32_t chunk) {
    wh_assert_internal(chunk < g.n_chunks);
    return g.reserved == 0 ||
           (wh_load_u64_relaxed(wh_veb_word(wh_tessera_present_(g), chunk >> 6)) >> (chunk & 63) &
            1) != 0;
}

/* Slabs of class c that have free slots (slab.h I6). */
WH_FN wh_veb wh_tessera_partial_list_(wh_tessera_core g, uint32_t c) {
    wh_assert_internal(c < wh_tessera_n_classes(g));
    return wh_veb_make(g.partial_lists + (uint64_t)c * g.list_words, g.n_chunks);
}

/* x modulo home_chunks is where the shard's home chunk x lies: in words of the pool that are its
 * own, since atomics of all SMs on one word take turns; the words of all shards side by side, so
 * that the used part of the heap stays dense. */
WH_HD uint32_t wh_tessera_home(wh_tessera_core g, uint32_t shard, uint32_t x) {
    wh_assert_internal(shard < g.n_shards && x < g.home_chunks);
    return g.begin + ((((x >> 6) * g.n_shards + shard) << 6) | (x & 63));
}

/* The spans that cursors have from the start, in the front of the heap: so small a part of a
 * shard's share of the heap for each class, for all together about a third, whole slabs. They are a
 * place to begin, and no other use of the memory waits for them: a cursor that is closed gives up
 * what it has (cursor.h). A class of up to 256 bytes gets slots for an even share of one in 7 KiB
 * of the heap; those up to 1 KiB a 128th of the memory, others a 512th. */
#define WH_TESSERA_FIRST_SLOTS 12288u
typedef struct wh_tessera_first {
    uint32_t chunk;  /* where shard 0's span starts; the other shards' lie behind it */
    uint32_t chunks; /* of each shard's */
} wh_tessera_first;

WH_HD uint32_t wh_tessera_first_end(wh_tessera_core g, wh_tessera_first first) {
    return first.chunk + g.n_shards * first.chunks;
}
/* Of a class, if the first spans of the classes below it end at chunk `end`. */
WH_HD wh_tessera_first wh_tessera_make_first(wh_tessera_core g, wh_tessera_class cls,
                                             uint32_t end) {
    /* Of a shard. A reserved heap has no first spans: its front may be absent. */
    const uint32_t share = g.n_chunks < 512 || g.reserved != 0 ? 0 : g.n_chunks / g.n_shards;
    const uint64_t slots = ((uint64_t)share << g.chunk_log2 >> 16) * 9;
    const uint32_t enough =
        slots < WH_TESSERA_FIRST_SLOTS ? (uint32_t)slots : WH_TESSERA_FIRST_SLOTS;
    wh_tessera_first first;
    first.chunks = share >> (cls.slot_size <= 1024 ? 7 : 9);
    first.chunks = cls.slot_size <= 256 ? enough / cls.slots * cls.chunks : first.chunks;
    first.chunks -= first.chunks % cls.chunks;
    first.chunk = (end + cls.chunks - 1) / cls.chunks * cls.chunks;
    return first;
}

/* Bytes of metadata for n chunks, up to the first chunk's alignment. */
WH_FN_HOST uint64_t wh_tessera_pool_offset_(uint64_t n, uint32_t n_shards) {
    return wh_round_up(
        sizeof(wh_tessera_header) + n_shards * sizeof(wh_tessera_shard) + n * 8 + n * 4, 8);
}
/* Memory of the pool and the lists, in words. */
WH_HD uint64_t wh_tessera_tree_words_(uint64_t n, uint32_t n_classes) {
    return (wh_veb_words(n) << WH_TESSERA_POOL_SPREAD) + n_classes * wh_veb_words(n);
}
#define WH_TESSERA_LEAST_LARGE 2048u /* chunks of a heap that has large classes: 32 MiB */
WH_HD uint32_t wh_tessera_classes_for_(uint64_t n, uint32_t chunk_log2) {
    return chunk_log2 == WH_TESSERA_CHUNK_LOG2 && n >= WH_TESSERA_LEAST_LARGE
               ? WH_TESSERA_ALL
               : wh_tessera_class_of(1u << chunk_log2) + 1;
}
WH_FN_HOST uint64_t wh_tessera_metadata_(uint64_t n, uint32_t n_shards, uint32_t chunk_log2) {
    return wh_tessera_pool_offset_(n, n_shards) +
           wh_tessera_tree_words_(n, wh_tessera_classes_for_(n, chunk_log2)) * 8 +
           n * wh_tessera_words_of_chunk(chunk_log2) * 8;
}

#define WH_TESSERA_CHUNKS_PER_SHARD 256u
#define WH_TESSERA_MAX_SHARDS 255u

WH_FN_HOST uint32_t wh_tessera_n_shards_(uint64_t n_chunks, const wh_tessera_options *o,
                                         uint32_t n_sms) {
    uint64_t n = o->shards != 0 ? o->shards : n_chunks / WH_TESSERA_CHUNKS_PER_SHARD;
    n = n < n_sms ? n : n_sms;
    n = n < WH_TESSERA_MAX_SHARDS ? n : WH_TESSERA_MAX_SHARDS;
    return n == 0 ? 1 : (uint32_t)n;
}

/* Chunks have numbers of 24 bits. Bytes of the largest heap, wherever its memory begins: a larger
 * one would have memory that no block ever gets. */
WH_FN_HOST uint64_t wh_tessera_max_bytes_(const wh_tessera_options *o, uint32_t n_sms,
                                          uint32_t chunk_log2) {
    const uint64_t n = WH_TESSERA_MAX_CHUNKS;
    return wh_tessera_metadata_(n, wh_tessera_n_shards_(n, o, n_sms), chunk_log2) +
           ((n + 2) << chunk_log2);
}

/* As many chunks as fit in *n_chunks bytes, behind their metadata and the first one's alignment: to
 * *n_chunks. Returns the offset of the first one. */
WH_FN_HOST uint64_t wh_tessera_fit_chunks_(const unsigned char *memory, const wh_tessera_options *o,
                                           uint32_t n_sms, uint32_t chunk_log2,
                                           uint64_t *n_chunks) {
    const uint64_t bytes = *n_chunks, chunk = (uint64_t)1 << chunk_log2;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    uint64_t n = bytes >> chunk_log2;
    n = n < WH_TESSERA_MAX_CHUNKS ? n : WH_TESSERA_MAX_CHUNKS;
    for (;; n--) {
        const uint64_t end =
            address + wh_tessera_metadata_(n, wh_tessera_n_shards_(n, o, n_sms), chunk_log2);
        /* With memory NULL any alignment may come. */
        const uint64_t first = memory != NULL ? wh_round_up(end, chunk) - address : end + chunk - 1;
        if (first + (n << chunk_log2) <= bytes) {
            *n_chunks = n;
            return first;
        }
        const uint64_t over = (first + (n << chunk_log2) - bytes) >> (chunk_log2 + 1);
        n -= over < n ? over : 0; /* a good part of the way at once */
    }
}

/* Where the parts of the metadata lie, and what follows from the number of chunks. */
WH_FN_HOST void wh_tessera_plan_core_(wh_tessera_core *g, uint32_t n, uint32_t n_shards,
                                      uint32_t chunk_log2) {
    const uint32_t n_classes = wh_tessera_classes_for_(n, chunk_log2);
    g->n_chunks = n;
    g->n_shards = (uint8_t)n_shards;
    g->chunk_log2 = (uint8_t)chunk_log2;
    g->has_large = n_classes == WH_TESSERA_ALL;
    g->n_small = (uint8_t)(wh_tessera_class_of(1u << chunk_log2) + 1);
    g->words_of_chunk = (uint8_t)wh_tessera_words_of_chunk(chunk_log2);
    g->list_words = (uint32_t)wh_veb_words(n);
    g->max_slab_log2 = WH_TESSERA_MAX_SLAB_LOG2;
    const uint64_t least = n / 64 < n / n_shards / 32 ? n / 64 : n / n_shards / 32;
    while (g->max_slab_log2 > 0 && (uint64_t)1 << g->max_slab_log2 > least) {
        g->max_slab_log2--;
    }
    uint32_t end = 0;
    for (uint32_t c = 0; c < g->n_small; c++) {
        const wh_tessera_class cls = wh_tessera_make_class(c, chunk_log2, g->max_slab_log2);
        end = wh_tessera_first_end(*g, wh_tessera_make_first(*g, cls, end));
    }
    g->begin = (end + 63) >> 6 << 6;
    g->home_chunks = g->begin < n ? ((n - g->begin) >> 6) / n_shards << 6 : 0;
    g->by_shards = n_shards == 1 ? 0 : (uint32_t)(((uint64_t)1 << 32) / n_shards) + 1;
    const uint32_t share = n / (n_shards * 32);
    const uint32_t span = share < 64 ? share : 64;
    g->max_span_log2 = (uint8_t)wh_log2_floor(span != 0 ? span : 1);
    g->pool = (uint64_t *)(void *)(g->meta + wh_tessera_pool_offset_(n, n_shards));
    g->partial_lists = g->pool + (wh_veb_words(n) << WH_TESSERA_POOL_SPREAD);
    g->words = g->pool + wh_tessera_tree_words_(n, n_classes);
}

/* The bytes of a chunk; 0: the option is out of its range. */
WH_FN_HOST uint64_t wh_tessera_chunk_bytes_(const wh_tessera_options *o) {
    const uint64_t chunk =
        o->chunk_bytes != 0 ? o->chunk_bytes : (uint64_t)1 << WH_TESSERA_CHUNK_LOG2;
    return wh_is_pow2(chunk) && chunk >= 1024 && chunk <= 16384 ? chunk : 0;
}
WH_FN_HOST uint8_t wh_tessera_tracks_(const wh_tessera_options *o) {
    return (uint8_t)((o->track_peak != 0 ? WH_TESSERA_TRACKS_PEAK : 0) |
                     (o->track_totals != 0 ? WH_TESSERA_TRACKS_TOTALS : 0));
}

/* The rest of the handle, from its core. */
WH_FN_HOST void wh_tessera_plan_ref_(wh_tessera_ref *h, uint32_t n_sms) {
    const wh_tessera_core *g = &h->core;
    h->base = g->base;
    h->bytes = (uint64_t)g->n_chunks << g->chunk_log2;
    h->classes = (const wh_tessera_class *)(const void *)g->meta;
    h->shards = (wh_tessera_shard *)(void *)(g->meta + sizeof(wh_tessera_header));
    h->tags = (uint64_t *)(void *)(h->shards + g->n_shards);
    h->words = g->words;
    h->tracks = g->tracks & WH_TESSERA_COUNTS;
    h->max_slot = 1u << g->chunk_log2;
    h->last_shard = g->n_shards - 1u;
    h->chunk_log2 = g->chunk_log2;
    h->words_of_chunk = g->words_of_chunk;
    h->shard_scale = (uint32_t)(((uint64_t)g->n_shards << 16) / n_sms);
    h->warp_slabs = 0;
    for (uint32_t c = 0; c < g->n_small; c++) {
        const wh_tessera_class cls = wh_tessera_make_class(c, g->chunk_log2, g->max_slab_log2);
        const int has_some = g->home_chunks != 0 && wh_tessera_is_of_warps(cls, g->chunk_log2);
        h->warp_slabs |= has_some ? (uint64_t)1 << c : 0;
    }
}

/* --- checks and records ------------------------------------------------------------------- */

#define WH_TESSERA_QUARANTINE_SHARE 16u /* of the heap, by default */
#define WH_TESSERA_QUARANTINE_MOST ((uint64_t)16 << 20)
#define WH_TESSERA_LEAST_RAW 96u /* bytes that a block of a checked heap takes at least */
#define WH_TESSERA_LEAST_ENTRIES 64u
#define WH_TESSERA_MOST_ENTRIES (1u << 20)
#define WH_TESSERA_VIOLATIONS 256u /* records, by default */
#define WH_TESSERA_POISON 256u     /* bytes of a block, by default */
#define WH_TESSERA_MOST_RECORDS (1u << 16)

WH_FN_HOST uint64_t wh_tessera_rows_(uint64_t n) {
    return n != 0 ? (uint64_t)1 << wh_log2_ceil(n) : 0;
}
WH_FN_HOST wh_status wh_tessera_watch_bytes(const void *options, uint64_t heap_bytes, wh_watch *w) {
    const wh_tessera_options *o = (const wh_tessera_options *)options;
    if (o->checked > 2 || o->violation_records > WH_TESSERA_MOST_RECORDS ||
        o->failure_records > WH_TESSERA_MOST_RECORDS) {
        return WH_BAD_ARGUMENT;
    }
    const uint64_t share = heap_bytes / WH_TESSERA_QUARANTINE_SHARE;
    const uint64_t bytes = share < WH_TESSERA_QUARANTINE_MOST ? share : WH_TESSERA_QUARANTINE_MOST;
    w->checked = (uint32_t)o->checked;
    w->quarantine_bytes = o->quarantine_bytes != 0 ? o->quarantine_bytes : bytes;
    const uint64_t poison = o->poison_bytes != 0 ? o->poison_bytes : WH_TESSERA_POISON;
    w->poison_bytes = poison < heap_bytes ? (poison + 7) & ~(uint64_t)7 : heap_bytes;
    const uint64_t entries = w->quarantine_bytes / WH_TESSERA_LEAST_RAW;
    w->n_entries =
        entries > WH_TESSERA_LEAST_ENTRIES ? WH_TESSERA_MOST_ENTRIES : WH_TESSERA_LEAST_ENTRIES;
    if (entries > WH_TESSERA_LEAST_ENTRIES && entries < WH_TESSERA_MOST_ENTRIES) {
        w->n_entries = 1u << wh_log2_ceil(entries);
    }
    w->n_entries = w->checked != 0 ? w->n_entries : 1;
    const uint64_t rows = o->violation_records != 0 ? o->violation_records : WH_TESSERA_VIOLATIONS;
    w->n_violations = w->checked != 0 ? wh_tessera_rows_(rows) : 0;
    w->n_failures = wh_tessera_rows_(o->failure_records);
    w->room_bytes = w->n_violations != 0 || w->n_failures != 0
                        ? sizeof(wh_tessera_watch) + w->n_entries * sizeof(uint64_t)
                        : 0;
    return WH_OK;
}

/* The contract's set_watch. A handle of a checked heap says that no size is small, and that no
 * address is inside: so that nothing is done before checked.h is asked. */
WH_FN_HOST void wh_tessera_set_watch(wh_tessera_ref *h, wh_watch *w) {
    wh_tessera_watch *image = (wh_tessera_watch *)(void *)w->image;
    WH_STATIC_ASSERT(sizeof *image <= sizeof w->image, "the image has no room for it");
    h->core.watch = (wh_tessera_watch *)w->room;
    h->core.tracks |= w->checked != 0 ? WH_TESSERA_CHECKED : 0;
    image->violations = w->violations;
    image->failures = w->failures;
    image->quarantine_bytes = w->quarantine_bytes;
    image->poison_bytes = w->poison_bytes;
    image->n_entries = w->n_entries;
    image->traps = w->checked == 2;
    image->plain = *h;
    w->image_bytes = sizeof *image;
    w->mark_offset = offsetof(wh_tessera_watch, mark);
    if (w->checked != 0) {
        h->max_slot = 0;
        h->bytes = 0;
        h->warp_slabs = 0;
    }
}

WH_FN_HOST wh_status wh_tessera_plan(wh_tessera_ref *h, wh_plan *plan, unsigned char *memory,
                                     uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_tessera_options *o = (const wh_tessera_options *)options;
    const uint64_t chunk = wh_tessera_chunk_bytes_(o);
    if (chunk == 0) {
        return WH_BAD_ARGUMENT;
    }
    const uint32_t chunk_log2 = wh_log2_floor(chunk);
    plan->min_bytes =
        wh_tessera_metadata_(1, wh_tessera_n_shards_(1, o, n_sms), chunk_log2) + 2 * chunk;
    plan->init_items = 1;
    plan->metadata_bytes = bytes;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    plan->max_bytes = wh_tessera_max_bytes_(o, n_sms, chunk_log2);
    if (bytes > plan->max_bytes) {
        return WH_BAD_ARGUMENT;
    }
    plan->max_bytes = 0;
    uint64_t n = bytes;
    const uint64_t first = wh_tessera_fit_chunks_(memory, o, n_sms, chunk_log2, &n);
    const uint32_t n_shards = wh_tessera_n_shards_(n, o, n_sms);
    plan->metadata_bytes = bytes - (n << chunk_log2);
    plan->init_items = wh_tessera_tree_words_(n, wh_tessera_classes_for_(n, chunk_log2)) + n;
    h->core.meta = memory;
    h->core.base = memory + first;
    h->core.tracks = wh_tessera_tracks_(o);
    wh_tessera_plan_core_(&h->core, (uint32_t)n, n_shards, chunk_log2);
    wh_tessera_plan_ref_(h, n_sms);
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline WH_CONSTEXPR uint64_t wh_tessera_layout(void) {
    const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_ref, field),
        sizeof(wh_tessera_ref),
        WH_F_(base) WH_F_(bytes) WH_F_(tags) WH_F_(words) WH_F_(shards) WH_F_(classes)
        WH_F_(max_slot) WH_F_(shard_scale) WH_F_(last_shard) WH_F_(chunk_log2)
        WH_F_(words_of_chunk) WH_F_(tracks) WH_F_(warp_slabs) WH_F_(core)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_core, field),
        sizeof(wh_tessera_core),
        WH_F_(meta) WH_F_(base) WH_F_(pool) WH_F_(partial_lists) WH_F_(words) WH_F_(watch)
        WH_F_(n_chunks)
        WH_F_(list_words) WH_F_(begin) WH_F_(home_chunks) WH_F_(by_shards)
        WH_F_(n_shards)
        WH_F_(tracks) WH_F_(chunk_log2) WH_F_(n_small) WH_F_(words_of_chunk) WH_F_(has_large)
        WH_F_(max_slab_log2) WH_F_(max_span_log2) WH_F_(reserved)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_header, field),
        sizeof(wh_tessera_header),
        WH_F_(classes) WH_F_(slab_tags) WH_F_(oom_answered) WH_F_(oom_classes) WH_F_(oom_tickets)
        WH_F_(run_verdict) WH_F_(search_lock) WH_F_(run_lock) WH_F_(run_next) WH_F_(run_news)
        WH_F_(used) WH_F_(peak) WH_F_(mallocs) WH_F_(oom_found) WH_F_(mapped_bytes)
        WH_F_(metadata_bytes) WH_F_(top) WH_F_(home_chunks) WH_F_(growth) WH_F_(growing)
        WH_F_(core)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_watch, field),
        sizeof(wh_tessera_watch),
        WH_F_(violations) WH_F_(failures) WH_F_(quarantine_bytes) WH_F_(poison_bytes)
        WH_F_(n_entries) WH_F_(traps)
        WH_F_(plain) WH_F_(epoch) WH_F_(mark)
        WH_F_(tail) WH_F_(head) WH_F_(held) WH_F_(leaving) WH_F_(events)
#undef WH_F_
        sizeof(wh_record_row), sizeof(wh_record_box), WH_RECORD_KINDS, WH_TESSERA_CHECKED,
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_shard, field),
        sizeof(wh_tessera_shard),
        WH_F_(takes) WH_F_(takes_done) WH_F_(events) WH_F_(failed) WH_F_(bad_frees)
        WH_F_(cursors)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_cursor, field),
        sizeof(wh_tessera_cursor), WH_F_(span) WH_F_(hints)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_class, field),
        sizeof(wh_tessera_class), WH_F_(slots) WH_F_(by_slots) WH_F_(slot_size) WH_F_(chunks)
#undef WH_F_
        WH_TESSERA_CLASSES, WH_TESSERA_SMALL, WH_TESSERA_ALL, WH_TESSERA_NO_CLASS,
        WH_TESSERA_MAX_SLAB_LOG2, WH_TESSERA_WORD_SLOTS, WH_TESSERA_POOL_SPREAD,
        WH_TESSERA_POSITION, WH_TESSERA_GONE, WH_TESSERA_RETIRING, WH_TESSERA_FREE,
        WH_TESSERA_SLAB, WH_TESSERA_RUN, WH_TESSERA_INNER, WH_TESSERA_ABSENT,
        WH_TESSERA_LEAST_LARGE,
        WH_TESSERA_FIRST_SLOTS, WH_TESSERA_TRACKS_PEAK, WH_TESSERA_TRACKS_TOTALS,
        /* One word of each packed kind: where its fields lie. */
        wh_tessera_with_shard(wh_tessera_slab_tag(1, 2, 48), 3), wh_tessera_word_of(5),
        wh_tessera_span(1, 2, 3), WH_TESSERA_NEXT_TAG,
    };
    return wh_layout_hash("tessera", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/tessera/layout.h: how a tessera heap lies in memory: its structures, which lane writes
 * their fields, and where a shard's home chunks are. This file may change: it is no part of the
 * API.
 *
 *   memory  | header | shards, cursors | tags | states | pool | partial lists | words | chunks |
 *
 * Everything before the chunks is metadata: no user block shares a line with it.
 *
 *   chunk    16 KiB; memory changes hands between classes and runs by the chunk
 *   pool     the free chunks (core/veb.h): claimed by mask, inserted by the owner of a slab or run
 *   slab     2^order chunks in a row, aligned, split into slots of one class
 *   slot     what malloc returns for up to one chunk
 *   word     64 bits: the free slots of (a part of) a slab. 1 = free (slab.h)
 *   state    of a slab of several words: words that are not empty, and pinners (slab.h)
 *   tag      of a chunk: class, order and slot size of its slab (tag.h)
 *   span     slabs in a row whose slots a cursor hands out in order (spans.h)
 *   cursor   two words {first chunk, slots, position} for each class and shard: span and spare
 *   shard    the cursors, counts and hints of an SM, or of a few that share them
 *   list     of a class: the partial slabs (core/veb.h), where searches look first (slab.h I6)
 *   run      chunks in a row, for a request of more than one chunk (runs.h)
 *   pack     up to 16 chunks in a row that a full warp has cut into blocks (warps.h)
 *   home     where a shard's own takes from the pool begin: words of the pool that are its own
 *
 * A hint is relaxed and may be stale: it says where to look first, and nobody trusts it.
 *
 * Check   tests/unit/tessera_layout.c
 */
#ifndef WH_ALLOC_TESSERA_LAYOUT_H
#define WH_ALLOC_TESSERA_LAYOUT_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/tessera/tag.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"
#include "warpheap/detail/alloc/tessera/options.h"

#include "warpheap/detail/simt/begin.h"

/* --- the heap -------------------------------------------------------------------- */

#define WH_TESSERA_REUSES 8u /* of each class, for a warp in eight */

/* spans.h says which lane changes span and spare. tries, reuse: hints. */
typedef struct wh_tessera_cursor {
    uint64_t span;
    uint64_t spare; /* a second span, for lanes that find the first one used up */
    uint32_t tries; /* times that lanes have looked for slots of partial slabs */
    uint32_t padding[3];
    uint32_t reuse[WH_TESSERA_REUSES]; /* 1 + a partial slab that had slots left */
} wh_tessera_cursor;

/* Counts and hints of one shard, and its cursors: together, so that a lane that has one has the
 * others without a look at the heap.
 *
 * takes_begun: add before a take, takes_done: add, release, after it (steps.h P4). events, frees:
 * add, behind the free (steps.h P6). attached: add before a span is published. failed, bad_frees:
 * add, relaxed. All others are hints: stores and adds, relaxed; held is exact when quiet (spans.h
 * I8). */
typedef struct wh_tessera_shard {
    uint32_t takes_begun; /* takes that have begun; also where the next search starts */
    uint32_t takes_done;  /* ... and are done */
    uint32_t events;      /* times that chunks have come back to the pool */
    uint32_t attached;    /* spans that have been attached to cursors */
    uint64_t failed;
    uint64_t bad_frees;
    uint32_t skip_home;      /* full warps found no slabs of their own */
    uint32_t held;           /* chunks of the spans of its cursors, first spans apart */
    uint32_t pool_was_empty; /* the pool had no span for the shard the last time */
    uint32_t home_was_empty; /* how often yet to look elsewhere before the home words */
    uint32_t home_ticket;    /* spans that its home words of the pool have been asked for */
    uint32_t frees;          /* frees that left their slot in a slab */
    uint32_t pack_ticket;    /* chunks that its home words have been asked for, for packs */
    uint32_t skip_packs;     /* how many more packs look elsewhere at once */
    uint32_t oom_seen;       /* 1 + events + frees when a verdict held last */
    uint32_t stripe_ticket;  /* wide spans that its stripes have been asked for */
    wh_tessera_cursor cursors[64];
} wh_tessera_shard;

#define WH_TESSERA_TRACKS_PEAK 1u   /* the option track_peak */
#define WH_TESSERA_TRACKS_TOTALS 2u /* the option track_totals */

/* What every step needs: part of the handle, and a copy in the header for slow paths, since 16
 * registers of it would go to the stack. */
typedef struct wh_tessera_core {
    unsigned char *meta;
    unsigned char *base; /* the first chunk */
    uint32_t n_chunks;
    uint8_t n_shards;
    uint8_t tracks; /* WH_TESSERA_TRACKS_*: all calls of malloc take the slow way, and count */
    uint8_t chunk_log2;
    uint8_t n_classes;
    uint32_t begin;          /* chunks from here on are not in anybody's first span */
    uint32_t share;          /* most chunks of a shard's spans, see next_span_ */
    uint32_t list_words;     /* of the list of a class */
    uint32_t max_warp_slab;  /* largest class whose slab is a full warp's: 32 slots */
    uint32_t home_chunks;    /* chunks that a shard has for such slabs, a multiple of 64 */
    uint32_t by_home_chunks; /* floor(2^32 / home_chunks) + 1 */
    uint64_t *pool;
    uint64_t *partial_lists;
} wh_tessera_core;

/* search.h says which lane changes the fields from oom_verdict to search_lock, runs.h those of
 * runs; init stores the tables, which stay.
 *
 * used, peak, mallocs, with track_peak or track_totals: malloc adds, relaxed, after it has its
 * blocks, and free subtracts after it has given them back. peak: fetch_max of what the adds made of
 * used. So peak is the most that used has been, and used counts each block from malloc to the
 * return of its free. mallocs: blocks given; those that are not live have been freed. */
typedef struct wh_tessera_header {
    wh_tessera_class classes[WH_TESSERA_CLASSES];
    uint64_t slab_tags[WH_TESSERA_CLASSES]; /* less the shard */
    uint32_t starts[WH_TESSERA_CLASSES];    /* word of the pool of shard 0's first search */
    /* 1 + events at which nothing was found: [0] but maybe blocks of packs; [1] not these either */
    uint64_t oom_verdict[2][WH_TESSERA_CLASSES];
    uint64_t oom_answered[2][WH_TESSERA_CLASSES]; /* requests to which that is an answer: X3 */
    uint64_t oom_tickets;                         /* requests that wanted to know */
    uint64_t oom_classes;                         /* a hint: their classes, a bit each */
    uint64_t run_verdict;                         /* events << 24 | chunks asked for */
    uint32_t search_lock;
    uint32_t run_lock;
    uint32_t run_position;
    uint32_t run_news; /* times that cursors have been closed for a run */
    uint64_t used;     /* with track_peak: usable bytes of live blocks */
    uint64_t peak;     /* ... and the most that it has been */
    uint64_t mallocs;  /* with track_totals: blocks that malloc has given */
    uint64_t padding[8];
    wh_tessera_core core; /* for the slow paths, in 64 bytes of their own */
} wh_tessera_header;

/* x modulo home_chunks, in few instructions: the quotient may be one too large. */
WH_HD uint32_t wh_tessera_mod_home_(wh_tessera_core g, uint32_t x) {
    wh_assert_internal(g.home_chunks != 0);
    const uint32_t rest = x - wh_high_u32(wh_mul_wide_u32(x, g.by_home_chunks)) * g.home_chunks;
    return rest < rest + g.home_chunks ? rest : rest + g.home_chunks;
}

/* Where a shard puts a full warp's slab of 2^order chunks the ticket-th time: one after the other
 * in words of the pool that are its own, since atomics of all SMs on one word take turns; the words
 * of all shards side by side, so that the used part of the heap stays dense.
 * tests/unit/tessera_layout.c. */
WH_HD uint32_t wh_tessera_home(wh_tessera_core g, uint32_t shard, uint32_t ticket, uint32_t order) {
    wh_assert_internal(shard < g.n_shards && order <= WH_TESSERA_MAX_SPAN_LOG2);
    const uint32_t rest = wh_tessera_mod_home_(g, ticket << order); /* a multiple of 2^order, too */
    return ((g.begin >> 6) + (rest >> 6) * g.n_shards + shard) << 6 | (rest & 63);
}

/* Where a shard puts a wide span: in a stripe, eight words of the pool in a row. One of them is the
 * shard's own and the others are those of its neighbours: eight shards have their stripes in turn,
 * so no two shards have the same one. Tickets count pairs of words. A span of fewer than eight
 * words takes `n` tickets, a power of two, and has a part of a stripe, behind the parts that others
 * had. The first stripe is in the middle of the home chunks, since other takes begin at the ends.
 * The last shards may be fewer than eight; then their stripes are shorter. *words: from this one
 * on, in the stripe. There are eight home words or more. */
#define WH_TESSERA_STRIPE_SHARDS (1u << WH_TESSERA_STRIPE_LOG2)
WH_HD uint32_t wh_tessera_stripe(wh_tessera_core g, uint32_t shard, uint32_t ticket, uint32_t n,
                                 uint32_t *words) {
    wh_assert_internal(shard < g.n_shards && g.home_chunks >= 1u << WH_TESSERA_WIDE_SPAN_LOG2);
    wh_assert_internal(n == 1 || n == 2 || n == 4);
    ticket = (ticket + n - 1) & ~(n - 1);
    const uint32_t rest = wh_tessera_mod_home_(
        g, (ticket >> (WH_TESSERA_STRIPE_LOG2 - 1) << WH_TESSERA_WIDE_SPAN_LOG2) +
               (g.home_chunks >> 1));
    uint32_t stripe = rest >> WH_TESSERA_WIDE_SPAN_LOG2 << WH_TESSERA_STRIPE_LOG2 |
                      (shard & (WH_TESSERA_STRIPE_SHARDS - 1));
    stripe -= stripe >= g.home_chunks >> 6 ? WH_TESSERA_STRIPE_SHARDS : 0;
    const uint32_t first = shard & ~(WH_TESSERA_STRIPE_SHARDS - 1), in_stripe = g.n_shards - first;
    const uint32_t part = 2 * (ticket & (WH_TESSERA_STRIPE_SHARDS / 2 - 1));
    const uint32_t at = part < in_stripe ? part : 0;
    *words = in_stripe - at;
    return g.begin + ((stripe * g.n_shards + first + at) << 6);
}

/* Where a shard puts packs: the ticket-th of the shard's home chunks, from their other end on,
 * since other takes begin at this one. The chunks of a word lie in the order of their tickets. */
WH_HD uint32_t wh_tessera_pack_home(wh_tessera_core g, uint32_t shard, uint32_t ticket) {
    wh_assert_internal(shard < g.n_shards);
    const uint32_t rest = wh_tessera_mod_home_(g, ticket);
    return ((g.begin >> 6) + ((g.home_chunks - 1 - rest) >> 6) * g.n_shards + shard) << 6 |
           (rest & 63);
}

typedef struct wh_tessera_ref {
    unsigned char *base;
    uint64_t bytes; /* of all chunks */
    uint64_t *tags;
    uint64_t *words;
    wh_tessera_shard *shards;
    const wh_tessera_class *classes;
    uint32_t max_slot;    /* largest request that is served by a slot: a chunk */
    uint32_t shard_scale; /* shard = SM * shard_scale >> 16 */
    uint32_t max_order;   /* of a slab */
    uint32_t span_share;  /* chunks of a span */
    uint32_t last_shard;
    uint32_t pack_above; /* larger requests get blocks of a pack, smaller ones seldom, and those */
    uint32_t pack_most;  /* ... above this never; 0: there are no packs */
    uint32_t chunk_log2; /* as in core, but a whole word, which is an operand without a load */
    uint32_t words_log2; /* of a chunk */
    uint32_t tracks;     /* as in core */
    uint64_t warp_slabs; /* classes whose slab is a full warp's, a bit each */
    uint64_t exact;      /* classes whose slots are as long as blocks of a pack, likewise */
    wh_tessera_core core;
} wh_tessera_ref;

/* A shard's share of the heap, for its first spans; a small heap has none of these. */
WH_HD uint64_t wh_tessera_shard_bytes(wh_tessera_core g) {
    return g.n_chunks < 512 ? 0 : (uint64_t)(g.n_chunks / g.n_shards) << g.chunk_log2;
}
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
WH_FN wh_tessera_shard *wh_tessera_nth_shard_(void *shards, uint32_t shard) {
    unsigned char *const first = (unsigned char *)shards; /* an index takes an instruction more */
    return (wh_tessera_shard *)(void *)(first + wh_mul_wide_u32(shard, sizeof(wh_tessera_shard)));
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
/* Granules that a block of a pack must have to serve class c; 0: this heap has no packs. */
WH_FN uint32_t wh_tessera_least_(wh_tessera_core g, uint32_t c) {
    wh_assert_internal(c < g.n_classes);
    return g.home_chunks != 0 ? wh_tessera_granules(wh_tessera_bound(c), g.chunk_log2) : 0;
}
/* Of these lengths (pack_scan_) those that will do for `least` granules, not 0; bit 0: so many. Who
 * needs no more than SHORT gets none that is longer: small requests would use up the large blocks,
 * and large ones have no others. */
WH_HD uint32_t wh_tessera_fits_(uint32_t lengths, uint32_t least) {
    wh_assert_internal(least - 1 < 32);
    return (least <= WH_TESSERA_SHORT ? lengths & WH_TESSERA_SHORTS : lengths) >> (least - 1);
}

/* The smallest block of the pack at `pack`, with this tag, that is one of the slots `free` and will
 * do for `least` granules (0: for anything). 0: there is none. *lengths: of all of these slots, bit
 * n - 1 for a block of n granules, the highest bit for larger ones. */
#define WH_TESSERA_FIT_START(fit) ((fit)&0x3ff) /* in granules of the pack */
#define WH_TESSERA_FIT_LENGTH(fit) ((fit) >> 10 & 0x3ff)
#define WH_TESSERA_FIT_SLOT(fit) ((fit) >> 20 & 0x1f)
WH_FN uint32_t wh_tessera_pack_scan_(wh_tessera_core g, uint32_t pack, uint64_t tag, uint32_t free,
                                     uint32_t least, uint32_t *lengths) {
    wh_assert_internal(wh_tessera_is_pack(tag) && pack + wh_tessera_pack_chunks(tag) <= g.n_chunks);
    const uint32_t chunks = wh_tessera_pack_chunks(tag);
    uint32_t slot = UINT32_MAX, start = 0; /* of the block before */
    uint32_t fit = 0, length = least - 1 < WH_TESSERA_SHORT ? WH_TESSERA_SHORT + 1 : 0x400;
    *lengths = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first <= chunks;
         first += 4) { /* one load after the other takes long */
        uint32_t starts[4];
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t k = first + i;
            starts[i] = k == 0 ? wh_high_u32(tag) : k == chunks; /* one behind the last chunk */
            if (k != 0 && k < chunks) {
                starts[i] = wh_high_u32(wh_load_u64_relaxed(wh_tessera_tag_at_(g, pack + k)));
            }
        }
        for (uint32_t i = 0; i < 4; i++) {
            WH_NO_UNROLL
            for (uint32_t left = starts[i]; left != 0; left &= left - 1) {
                const uint32_t at = (first + i) * WH_TESSERA_GRANULES + wh_ctz32(left);
                const uint32_t n = at - start;
                if (slot < 32 && (free >> slot & 1) != 0) {
                    *lengths |= 1u << (n < 32 ? n - 1 : 31);
                    if (n >= least && n < length) {
                        length = n;
                        fit = 1u << 31 | slot << 20 | n << 10 | start;
                    }
                }
                slot++;
                start = at;
            }
        }
    }
    return fit;
}
WH_FN uint32_t wh_tessera_pack_fit_(wh_tessera_core g, uint32_t pack, uint64_t tag, uint32_t free,
                                    uint32_t least) {
    uint32_t lengths;
    return wh_tessera_pack_scan_(g, pack, tag, free, least, &lengths);
}

WH_FN wh_veb wh_tessera_pool_(wh_tessera_core g) {
    return wh_veb_make_spread(g.pool, g.n_chunks, WH_TESSERA_POOL_SPREAD);
}
/* Items of a list: slab s is item s % 64 * stride + s / 64, so that slabs that lie side by side do
 * not share a line of it. */
WH_HD uint32_t wh_tessera_stride(uint32_t n_chunks) {
    return (n_chunks + 63) >> 6;
}
WH_HD uint64_t wh_tessera_items(uint32_t n_chunks) {
    return (uint64_t)wh_tessera_stride(n_chunks) << 6;
}
WH_HD uint32_t wh_tessera_item(uint32_t n_chunks, uint32_t slab) {
    wh_assert_internal(slab < n_chunks);
    return (slab & 63) * wh_tessera_stride(n_chunks) + (slab >> 6);
}
WH_HD uint32_t wh_tessera_slab_of(uint32_t n_chunks, uint32_t item) {
    wh_assert_internal(item < wh_tessera_items(n_chunks));
    const uint32_t stride = wh_tessera_stride(n_chunks);
    return item % stride << 6 | item / stride;
}

/* The lists, which follow the pool: of each class, and of packs. */
WH_HD uint32_t wh_tessera_n_lists(uint32_t n_classes) {
    return n_classes + 1;
}
/* Slabs of class c with free slots; with c = n_classes packs with free blocks. */
WH_FN wh_veb wh_tessera_partial_list_(wh_tessera_core g, uint32_t c) {
    wh_assert_internal(c <= g.n_classes);
    return wh_veb_make(g.partial_lists + (uint64_t)c * g.list_words, wh_tessera_items(g.n_chunks));
}
/* The list that a slab with this tag belongs to. */
WH_FN uint32_t wh_tessera_list_of(wh_tessera_core g, uint64_t tag) {
    return wh_tessera_is_pack(tag) ? g.n_classes : wh_tessera_tag_class(tag);
}
WH_FN uint64_t *wh_tessera_words_of_(wh_tessera_core g, uint32_t slab) {
    wh_assert_internal(slab < g.n_chunks);
    uint64_t *words = g.partial_lists + (uint64_t)wh_tessera_n_lists(g.n_classes) * g.list_words;
    return words + ((uint64_t)slab << wh_tessera_words_log2(g.chunk_log2));
}

/* Bytes of metadata for n chunks, up to the first chunk's alignment. */
WH_FN_HOST uint64_t wh_tessera_pool_offset_(uint64_t n, uint32_t n_shards) {
    const uint64_t bytes =
        sizeof(wh_tessera_header) + n_shards * sizeof(wh_tessera_shard) + n * 8 + n * 4;
    return wh_round_up(bytes, 8);
}
/* Memory of the pool and the lists, in words. */
WH_HD uint64_t wh_tessera_tree_words_(uint64_t n, uint32_t n_classes) {
    return (wh_veb_words(n) << WH_TESSERA_POOL_SPREAD) +
           wh_tessera_n_lists(n_classes) * wh_veb_words(wh_tessera_items((uint32_t)n));
}
WH_FN_HOST uint64_t wh_tessera_metadata_(uint64_t n, uint32_t n_shards, uint32_t n_classes,
                                         uint32_t chunk_log2) {
    return wh_tessera_pool_offset_(n, n_shards) + wh_tessera_tree_words_(n, n_classes) * 8 +
           (n << wh_tessera_words_log2(chunk_log2)) * 8;
}

#define WH_TESSERA_CHUNK_LOG2 14u
#define WH_TESSERA_CHUNKS_PER_SHARD 256u
#define WH_TESSERA_MAX_SHARDS 255u

WH_FN_HOST uint32_t wh_tessera_n_shards_(uint64_t n_chunks, const wh_tessera_options *o,
                                         uint32_t n_sms) {
    const uint64_t by_size = n_chunks / WH_TESSERA_CHUNKS_PER_SHARD;
    uint64_t n = o->shards != 0 ? o->shards : by_size;
    n = n < n_sms ? n : n_sms;
    n = n < WH_TESSERA_MAX_SHARDS ? n : WH_TESSERA_MAX_SHARDS;
    return n == 0 ? 1 : (uint32_t)n;
}

/* As many chunks as fit in *n_chunks bytes, behind their metadata and the first one's alignment: to
 * *n_chunks. Returns the offset of the first one. */
WH_FN_HOST uint64_t wh_tessera_fit_chunks_(const unsigned char *memory, const wh_tessera_options *o,
                                           uint32_t n_sms, uint32_t chunk_log2,
                                           uint64_t *n_chunks) {
    const uint64_t bytes = *n_chunks, chunk = (uint64_t)1 << chunk_log2;
    const uint32_t n_classes = wh_tessera_class_of((uint32_t)chunk) + 1;
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    uint64_t n = bytes >> chunk_log2;
    n = n < WH_TESSERA_MAX_CHUNKS ? n : WH_TESSERA_MAX_CHUNKS;
    for (;; n--) {
        const uint32_t shards = wh_tessera_n_shards_(n, o, n_sms);
        const uint64_t end = address + wh_tessera_metadata_(n, shards, n_classes, chunk_log2);
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

/* Where the parts of the metadata lie. */
WH_FN_HOST void wh_tessera_plan_pointers_(wh_tessera_ref *h) {
    unsigned char *memory = h->core.meta;
    const uint64_t n = h->core.n_chunks;
    h->core.pool = (uint64_t *)(void *)(memory + wh_tessera_pool_offset_(n, h->core.n_shards));
    h->core.partial_lists = h->core.pool + (wh_veb_words(n) << WH_TESSERA_POOL_SPREAD);
    h->base = h->core.base;
    h->bytes = n << h->core.chunk_log2;
    h->classes = (const wh_tessera_class *)(const void *)memory;
    h->shards = (wh_tessera_shard *)(void *)(memory + sizeof(wh_tessera_header));
    h->tags = (uint64_t *)(void *)(h->shards + h->core.n_shards);
    h->words = h->core.pool + wh_tessera_tree_words_(n, h->core.n_classes);
}

/* Classes that full warps have slabs of, and classes that packs serve well. */
WH_FN_HOST void wh_tessera_plan_classes_(wh_tessera_ref *h) {
    const uint32_t n_classes = h->core.n_classes, chunk_log2 = h->core.chunk_log2;
    h->core.max_warp_slab = 0;
    h->warp_slabs = 0;
    for (uint32_t c = WH_TESSERA_FINE + 4; c < n_classes; c += 5) {
        const wh_tessera_class cls =
            wh_tessera_make_class(c, chunk_log2, h->max_order, h->span_share);
        if (cls.slots == 32 && chunk_log2 <= wh_tessera_slab_log2(cls)) {
            h->core.max_warp_slab = cls.slot_size;
            h->warp_slabs |= (uint64_t)1 << c;
        }
    }
    h->exact = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        const uint32_t bound = wh_tessera_bound(c), log2 = wh_tessera_granule_log2(chunk_log2);
        const uint32_t block = wh_tessera_granules(bound, chunk_log2) << log2;
        const int packs = bound > WH_TESSERA_SHORT << log2 && bound <= 1u << chunk_log2 >> 1;
        if (packs && block <= bound + bound / 16) { /* so little more */
            h->exact |= (uint64_t)1 << c;
        }
    }
}

/* What the first spans leave: home chunks. */
WH_FN_HOST void wh_tessera_plan_home_(wh_tessera_ref *h) {
    const uint32_t n_shards = h->core.n_shards, n = h->core.n_chunks;
    uint32_t end = 0;
    for (uint32_t c = 0; c < h->core.n_classes; c++) {
        end = wh_tessera_first_end(wh_tessera_make_first(c, h->core.chunk_log2, h->max_order,
                                                         wh_tessera_shard_bytes(h->core), end),
                                   n_shards);
    }
    h->core.begin = (end + 63) >> 6 << 6;
    h->core.home_chunks = h->core.begin < n ? (n - h->core.begin) / n_shards >> 6 << 6 : 0;
    if (h->core.home_chunks == 0) {
        h->core.max_warp_slab = 0; /* and by_home_chunks means nothing */
        h->warp_slabs = 0;
        h->exact = 0;
        h->pack_above = h->pack_most = 0;
    } else {
        h->core.by_home_chunks = (uint32_t)(((uint64_t)1 << 32) / h->core.home_chunks) + 1;
        h->pack_above = WH_TESSERA_SHORT << wh_tessera_granule_log2(h->core.chunk_log2);
        h->pack_most = h->max_slot >> 1;
    }
}

WH_FN_HOST wh_status wh_tessera_plan(wh_tessera_ref *h, wh_plan *plan, unsigned char *memory,
                                     uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_tessera_options *o = (const wh_tessera_options *)options;
    const uint64_t chunk =
        o->chunk_bytes != 0 ? o->chunk_bytes : (uint64_t)1 << WH_TESSERA_CHUNK_LOG2;
    if (!wh_is_pow2(chunk) || chunk < 1024 || chunk > 16384) {
        return WH_BAD_ARGUMENT;
    }
    const uint32_t chunk_log2 = wh_log2_floor(chunk);
    const uint32_t n_classes = wh_tessera_class_of((uint32_t)chunk) + 1;
    plan->min_bytes =
        wh_tessera_metadata_(1, wh_tessera_n_shards_(1, o, n_sms), n_classes, chunk_log2) +
        2 * chunk;
    plan->init_items = 1;
    plan->metadata_bytes = bytes;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    uint64_t n = bytes;
    const uint64_t first = wh_tessera_fit_chunks_(memory, o, n_sms, chunk_log2, &n);
    const uint32_t n_shards = wh_tessera_n_shards_(n, o, n_sms);
    plan->metadata_bytes = bytes - (n << chunk_log2);
    plan->init_items = wh_tessera_tree_words_(n, n_classes) + n;
    h->core.meta = memory;
    h->core.base = memory + first;
    h->core.n_chunks = (uint32_t)n;
    h->core.n_shards = (uint8_t)n_shards;
    h->core.chunk_log2 = (uint8_t)chunk_log2;
    h->core.n_classes = (uint8_t)n_classes;
    h->core.share = (uint32_t)(n / n_shards) >> 2;
    h->core.list_words = (uint32_t)wh_veb_words(wh_tessera_items((uint32_t)n));
    wh_tessera_plan_pointers_(h);
    h->max_order = WH_TESSERA_MAX_SPAN_LOG2;
    while (h->max_order > 0 && (uint64_t)64 << h->max_order > n) {
        h->max_order--;
    }
    const uint64_t share = n / (n_shards * 32);
    h->span_share = share < 64 ? (uint32_t)share : 64;
    h->core.tracks = (uint8_t)((o->track_peak != 0 ? WH_TESSERA_TRACKS_PEAK : 0) |
                               (o->track_totals != 0 ? WH_TESSERA_TRACKS_TOTALS : 0));
    h->tracks = h->core.tracks;
    h->max_slot = (uint32_t)chunk;
    wh_tessera_plan_classes_(h);
    h->last_shard = n_shards - 1;
    h->chunk_log2 = chunk_log2;
    h->words_log2 = wh_tessera_words_log2(chunk_log2);
    h->shard_scale = (uint32_t)(((uint64_t)n_shards << 16) / n_sms);
    wh_tessera_plan_home_(h);
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_tessera_layout(void) {
    const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_ref, field),
        sizeof(wh_tessera_ref),
        WH_F_(base) WH_F_(bytes) WH_F_(tags) WH_F_(words) WH_F_(shards) WH_F_(classes)
        WH_F_(max_slot) WH_F_(shard_scale) WH_F_(max_order) WH_F_(span_share) WH_F_(last_shard)
        WH_F_(pack_above) WH_F_(pack_most) WH_F_(chunk_log2) WH_F_(words_log2) WH_F_(tracks)
        WH_F_(warp_slabs) WH_F_(exact) WH_F_(core)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_core, field),
        sizeof(wh_tessera_core),
        WH_F_(meta) WH_F_(base) WH_F_(n_chunks) WH_F_(n_shards) WH_F_(tracks) WH_F_(chunk_log2)
        WH_F_(n_classes) WH_F_(begin) WH_F_(share) WH_F_(list_words) WH_F_(max_warp_slab)
        WH_F_(home_chunks) WH_F_(by_home_chunks) WH_F_(pool) WH_F_(partial_lists)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_header, field),
        sizeof(wh_tessera_header),
        WH_F_(classes) WH_F_(slab_tags) WH_F_(starts) WH_F_(oom_verdict) WH_F_(oom_answered)
        WH_F_(oom_tickets) WH_F_(oom_classes) WH_F_(run_verdict) WH_F_(search_lock) WH_F_(run_lock)
        WH_F_(run_position) WH_F_(run_news) WH_F_(used) WH_F_(peak) WH_F_(mallocs) WH_F_(core)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_shard, field),
        sizeof(wh_tessera_shard),
        WH_F_(takes_begun) WH_F_(takes_done) WH_F_(events) WH_F_(attached) WH_F_(failed)
        WH_F_(bad_frees) WH_F_(skip_home) WH_F_(held) WH_F_(pool_was_empty) WH_F_(home_was_empty)
        WH_F_(home_ticket) WH_F_(frees) WH_F_(pack_ticket) WH_F_(skip_packs) WH_F_(oom_seen)
        WH_F_(stripe_ticket) WH_F_(cursors)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_cursor, field),
        sizeof(wh_tessera_cursor),
        WH_F_(span) WH_F_(spare) WH_F_(tries) WH_F_(reuse)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_class, field),
        sizeof(wh_tessera_class),
        WH_F_(slots) WH_F_(by_slots) WH_F_(slot_size) WH_F_(shape)
#undef WH_F_
        WH_TESSERA_FINE, WH_TESSERA_CLASSES, WH_TESSERA_PACK, WH_TESSERA_POOL_SPREAD,
        WH_TESSERA_MAX_SPAN_LOG2, WH_TESSERA_SPAN_SLOTS, WH_TESSERA_FIRST_SLOTS,
        WH_TESSERA_FIRST_LOG2, WH_TESSERA_POSITION, WH_TESSERA_EMPTY, WH_TESSERA_PINNER,
        WH_TESSERA_GRANULES, WH_TESSERA_FREE, WH_TESSERA_SLAB, WH_TESSERA_RUN, WH_TESSERA_INNER,
        WH_TESSERA_NO_CLASS, WH_TESSERA_PACK_CHUNKS, WH_TESSERA_TRACKS_PEAK,
        WH_TESSERA_TRACKS_TOTALS,
        /* One word of each packed kind: where its fields lie. */
        wh_tessera_with_shard(wh_tessera_slab_tag(1, 2, 48), 3), wh_tessera_pack_tag(2, 1, 3, 4, 5),
        wh_tessera_span(1, 2, 3),
    };
    return wh_layout_hash("tessera", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#include "warpheap/detail/simt/end.h"

#endif

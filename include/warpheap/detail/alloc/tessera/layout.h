/* alloc/tessera/layout.h: how a tessera heap lies in memory, its size classes, and the
 * packed words of its protocol. Arithmetic only; tessera.h has the protocol.
 *
 *   memory  | header | sets with their cursors | tags | states | pool | lists | words | chunks |
 *
 * Everything before the chunks is metadata: no user block shares a line with it.
 */
#ifndef WH_ALLOC_TESSERA_LAYOUT_H
#define WH_ALLOC_TESSERA_LAYOUT_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/tessera/options.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"

#include "warpheap/detail/simt/begin.h"

/* --- size classes ------------------------------------------------------------------
 *
 * Up to 128 bytes a class every 16, up to 256 every 32; above, five in each doubling
 * (2^b, 2^(b+1)]: up to 17/16, 20/16, 24/16, 28/16 and 32/16 of 2^b. The first, narrow
 * one is for powers of two with a small header, the sizes that powers of two serve
 * worst. A slab of a class takes a power of two of chunks; a slot gets what an even
 * split of the slab leaves it (a multiple of 16), so it is often a little larger than
 * the class's bound. The largest class is one chunk; larger requests are runs of whole
 * chunks. */

#define WH_TESSERA_FINE 12u    /* classes up to 256 bytes */
#define WH_TESSERA_CLASSES 64u /* at most; 42 with chunks of 16 KiB */
#define WH_TESSERA_NO_CLASS 63u
#define WH_TESSERA_PACK 62u          /* what packs have for a class */
#define WH_TESSERA_POOL_SPREAD 4u    /* each SM works on a word of the pool of its own */
#define WH_TESSERA_MAX_SPAN_LOG2 6u  /* chunks of a span or slab: one word of the pool */
#define WH_TESSERA_WIDE_SPAN_LOG2 9u /* of a full warp of one class, */
#define WH_TESSERA_ROW_LOG2 3u       /* ... words of the pool in a row, at most */

/* Class of a request of 1 byte to 1 MiB. */
WH_HD uint32_t wh_tessera_class_of(uint32_t n) {
    const uint32_t m = n - 1;
    if (m < 128) {
        return m >> 4;
    }
    if (m < 256) {
        return 4 + (m >> 5);
    }
    const uint32_t b = wh_msb32(m);
    const uint32_t sixteenth = (m >> (b - 4)) & 15;
    return WH_TESSERA_FINE + (b - 8) * 5 + (sixteenth == 0 ? 0 : 1 + (sixteenth >> 2));
}

/* Largest request of a class. */
WH_HD uint32_t wh_tessera_bound(uint32_t c) {
    if (c < 8) {
        return (c + 1) << 4;
    }
    if (c < WH_TESSERA_FINE) {
        return (c - 3) << 5;
    }
    const uint32_t b = 8 + (c - WH_TESSERA_FINE) / 5;
    const uint32_t f = (c - WH_TESSERA_FINE) % 5;
    return (f == 0 ? 17u : 16u + 4 * f) << (b - 4);
}

/* What malloc needs of a class; the heap keeps a table of these. */
typedef struct wh_tessera_class {
    WH_ALIGNAS(16) uint32_t slots; /* of a slab; aligned, so that a row is one load */
    uint32_t by_slots;             /* ceil(2^31 / slots) */
    uint32_t slot_size;            /* bytes, a multiple of 16 */
    uint32_t shape;                /* slab_log2 (bytes) | order << 8 | span order << 16 */
} wh_tessera_class;

WH_HD uint32_t wh_tessera_slab_log2(wh_tessera_class row) {
    return row.shape & 0xff;
}
/* log2 of the chunks of a slab, and of a span (several slabs in a row). */
WH_HD uint32_t wh_tessera_order(wh_tessera_class row) {
    return row.shape >> 8 & 0xff;
}
WH_HD uint32_t wh_tessera_span_order(wh_tessera_class row) {
    return row.shape >> 16;
}
/* The same of a wide span: half of that for classes that have 2^16 slots or more then, or slabs
 * of more than two chunks, whose spans last a part of a million mallocs only; a quarter for those
 * that have more than 2^17. */
WH_HD uint32_t wh_tessera_wide_span_order(wh_tessera_class row) {
    return WH_TESSERA_WIDE_SPAN_LOG2 - (row.slots >= 128 || wh_tessera_order(row) > 1) -
           (row.slots > 512);
}
/* ... and the tickets that it takes (row_place). */
WH_HD uint32_t wh_tessera_row_tickets(wh_tessera_class row) {
    return 1u << (wh_tessera_wide_span_order(row) - WH_TESSERA_MAX_SPAN_LOG2 - 1);
}
WH_HD uint32_t wh_tessera_row_chunk_log2(wh_tessera_class row) { /* of a chunk, bytes */
    return wh_tessera_slab_log2(row) - wh_tessera_order(row);
}

/* x / d for x <= 2^17, d < 2^13 + 1, with by_d = ceil(2^31 / d): the error by_d * d - 2^31
 * is less than d, so x * error stays below 2^31. tests/unit/tessera_layout.c. */
WH_HD uint32_t wh_tessera_divisor(uint32_t d) {
    return (uint32_t)((((uint64_t)1 << 31) + d - 1) / d);
}
WH_HD uint32_t wh_tessera_divide(uint32_t x, uint32_t by_d) {
    return wh_high_u32(wh_mul_wide_u32(2 * x, by_d));
}

/* --- tags: what a chunk is ------------------------------------------------------------
 *
 * 64 bits: kind 2 | class 6 | order 3 | slot size / 16: 13 | set 8 | divisor of the slot
 * size / 16: 32. All chunks of a slab carry the same tag. */

#define WH_TESSERA_FREE 0u  /* not used since the last reset, or last a slab of several words */
#define WH_TESSERA_SLAB 1u  /* part of a slab, or was last */
#define WH_TESSERA_RUN 2u   /* first chunk of a run, or was last */
#define WH_TESSERA_INNER 3u /* another chunk of a run, or was last; a pack, if of class PACK */

WH_HD uint64_t wh_tessera_slab_tag(uint32_t c, uint32_t order, uint32_t slot_size) {
    const uint32_t size16 = slot_size >> 4;
    return (uint64_t)wh_tessera_divisor(size16) << 32 | size16 << 11 | order << 8 | c << 2 |
           WH_TESSERA_SLAB;
}
/* The set whose cursor holds the slab, or last did. */
WH_HD uint64_t wh_tessera_with_set(uint64_t tag, uint32_t set) {
    return (tag & ~((uint64_t)0xff << 24)) | set << 24;
}
WH_HD uint32_t wh_tessera_kind(uint64_t tag) {
    return wh_low_u32(tag) & 3;
}
WH_HD uint32_t wh_tessera_tag_class(uint64_t tag) {
    return (uint32_t)tag >> 2 & 63;
}
WH_HD uint32_t wh_tessera_tag_order(uint64_t tag) {
    return wh_low_u32(tag) >> 8 & 7;
}
WH_HD uint32_t wh_tessera_tag_size(uint64_t tag) { /* of a slot */
    return ((uint32_t)tag >> 11 & 0x1fff) << 4;
}
WH_HD uint32_t wh_tessera_tag_set(uint64_t tag) {
    return (uint32_t)tag >> 24 & 0xff;
}
/* Slot that starts at byte x of a slab, x < 1 MiB; a number that is not below its slots, if none
 * does. The upper half of the product of x / 8 and the divisor is the quotient of x / 16 = q d + r.
 * The lower one is 2 (q e + r by_d), with e < d the error of the divisor: less than 2^18 <= by_d if
 * r is 0, else at least by_d. Bit 3 of x counts as r = 1/2; the bits below it become the highest of
 * the factor, and make a quotient that no slab has. */
WH_HD uint32_t wh_tessera_tag_slot(uint64_t tag, uint32_t x) {
    const uint32_t by = wh_high_u32(tag);
    const uint64_t product = wh_mul_wide_u32(x >> 3 | x << 29, by);
    const uint32_t slot = wh_high_u32(product);
    return wh_low_u32(product) < by ? slot : UINT32_MAX;
}
/* Slots of a slab with this tag: 2^slab_log2 / 16 times the divisor, over 2^31; slab_log2 <= 20. */
WH_HD uint32_t wh_tessera_slab_slots(uint64_t tag, uint32_t chunk_log2) {
    return wh_high_u32(tag) >> (35 - chunk_log2 - wh_tessera_tag_order(tag));
}

/* --- packs ------------------------------------------------------------------------------
 *
 * A pack is up to 16 chunks in a row, in one word of the pool, that a warp has cut into blocks of
 * the sizes that its lanes wanted, one behind the other. It is like a slab of one word of which
 * each slot has its own size, a number of granules of 1/32 of a chunk. Tag of a pack's chunk, 64
 * bits: kind INNER 2 | class PACK 6 | slots - 1: 5 | slot of the first block that starts in the
 * chunk 5 | number of the chunk in the pack 4 | chunks - 1: 4 | 0: 6 | granules of the chunk at
 * which a block starts: 32. */

#define WH_TESSERA_GRANULES 32u /* of a chunk */
#define WH_TESSERA_PACK_CHUNKS 16u
#define WH_TESSERA_SHORT 2u /* granules of a block that small requests may have */
#define WH_TESSERA_SHORTS ((1u << WH_TESSERA_SHORT) - 1) /* these lengths, a bit each */

WH_HD uint64_t wh_tessera_pack_tag(uint32_t slots, uint32_t slot, uint32_t at, uint32_t chunks,
                                   uint32_t starts) {
    const uint32_t low = (chunks - 1) << 22 | at << 18 | (slot & 31) << 13 | (slots - 1) << 8;
    return (uint64_t)starts << 32 | low | WH_TESSERA_PACK << 2 | WH_TESSERA_INNER;
}
WH_HD int wh_tessera_is_pack(uint64_t tag) {
    return (wh_low_u32(tag) & 0xff) == (WH_TESSERA_PACK << 2 | WH_TESSERA_INNER);
}
WH_HD uint32_t wh_tessera_pack_slots(uint64_t tag) {
    return (wh_low_u32(tag) >> 8 & 31) + 1;
}
WH_HD uint32_t wh_tessera_pack_at(uint64_t tag) { /* this chunk's number */
    return wh_low_u32(tag) >> 18 & 15;
}
WH_HD uint32_t wh_tessera_pack_chunks(uint64_t tag) {
    return (wh_low_u32(tag) >> 22 & 15) + 1;
}
WH_HD uint32_t wh_tessera_granule_log2(uint32_t chunk_log2) {
    return chunk_log2 - 5;
}
/* Granules that n > 0 bytes take. */
WH_HD uint32_t wh_tessera_granules(uint32_t n, uint32_t chunk_log2) {
    return ((n - 1) >> wh_tessera_granule_log2(chunk_log2)) + 1;
}
/* Slot of the block that starts at byte x of a chunk with this tag, of whose number the lower bits
 * count; a number that no pack has, if none does. */
WH_HD uint32_t wh_tessera_pack_slot(uint64_t tag, uint32_t x, uint32_t chunk_log2) {
    const uint32_t log2 = wh_tessera_granule_log2(chunk_log2);
    const uint32_t bit = 1u << (x >> log2 & (WH_TESSERA_GRANULES - 1));
    const uint32_t starts = wh_high_u32(tag);
    const int is = (starts & bit) != 0 && (x & ((1u << log2) - 1)) == 0;
    return is ? (wh_low_u32(tag) >> 13 & 31) + wh_popc32(starts & (bit - 1)) : UINT32_MAX;
}

/* Slots, chunks of what has this tag: a slab, or a pack. */
WH_HD uint32_t wh_tessera_tag_slots(uint64_t tag, uint32_t chunk_log2) {
    return wh_tessera_is_pack(tag) ? wh_tessera_pack_slots(tag)
                                   : wh_tessera_slab_slots(tag, chunk_log2);
}
WH_HD uint32_t wh_tessera_tag_chunks(uint64_t tag) {
    return wh_tessera_is_pack(tag) ? wh_tessera_pack_chunks(tag) : 1u << wh_tessera_tag_order(tag);
}

#define WH_TESSERA_SPAN_SLOTS 65536u /* slots that a span aims at, a wide one twice as many */

/* log2 of the chunks of a slab: 32 slots of a class of 2^k bytes, up to 63 of the others, that
 * is one word; unless one chunk already holds more. max_order: largest slab of this heap. */
WH_HD uint32_t wh_tessera_order_of(uint32_t c, uint32_t chunk_log2, uint32_t max_order) {
    const uint32_t wanted = 5 + wh_log2_ceil(wh_tessera_bound(c));
    const uint32_t order = wanted > chunk_log2 ? wanted - chunk_log2 : 0;
    return order < max_order ? order : max_order;
}

/* span_share: largest span, in chunks. */
WH_HD wh_tessera_class wh_tessera_make_class(uint32_t c, uint32_t chunk_log2, uint32_t max_order,
                                             uint32_t span_share) {
    wh_tessera_class row;
    const uint32_t bound = wh_tessera_bound(c);
    const uint32_t order = wh_tessera_order_of(c, chunk_log2, max_order);
    const uint32_t slab_log2 = chunk_log2 + order;
    row.slots = (uint32_t)(((uint64_t)1 << slab_log2) / bound);
    row.slot_size = (uint32_t)(((uint64_t)1 << slab_log2) / row.slots) & ~15u;
    row.by_slots = wh_tessera_divisor(row.slots);
    uint32_t span = order;
    while (span < WH_TESSERA_MAX_SPAN_LOG2 && 2u << span <= span_share &&
           row.slots << (span - order) < WH_TESSERA_SPAN_SLOTS) {
        span++;
    }
    row.shape = slab_log2 | order << 8 | span << 16;
    return row;
}

/* Slabs of the spans that every cursor has from the start: so small a part of a set's share of the
 * heap (for all classes together about a third) that even a heap full of one class gets it back
 * in time. A class of up to 256 bytes gets slots for an even share of one in 7 KiB of the heap, all
 * in its first word; up to 16 bytes a third more, which is little memory, since a span behind all
 * first ones is far away and some SMs get a quarter more blocks to run than others; the others
 * fewer, half of them spare, so that lanes need not wait when the first word is used up: classes up
 * to a 16th of a chunk four times the memory of those above, which full warps seldom take from
 * (they have slabs of their own, or packs). */
#define WH_TESSERA_FIRST_SLOTS 12288u
#define WH_TESSERA_FIRST_LOG2 20u /* most bytes, for classes above 256 bytes */

typedef struct wh_tessera_first {
    uint32_t chunk; /* where set 0's span starts; the other sets' lie behind it */
    uint32_t slabs; /* of each set */
    uint32_t spare; /* ... of these, behind the others */
    uint32_t order; /* of a slab */
} wh_tessera_first;

/* Of class c, if the first spans of the classes below it end at chunk `end`. */
WH_HD wh_tessera_first wh_tessera_make_first(uint32_t c, uint32_t chunk_log2, uint32_t max_order,
                                             uint64_t set_bytes, uint32_t end) {
    const uint32_t bound = wh_tessera_bound(c);
    wh_tessera_first first;
    first.order = wh_tessera_order_of(c, chunk_log2, max_order);
    if (c < WH_TESSERA_FINE) {
        const uint64_t slots = (set_bytes >> 16) * (bound <= 16 ? 12 : 9);
        const uint32_t of_slab = (1u << (chunk_log2 + first.order)) / bound;
        first.slabs = ((uint32_t)(slots < WH_TESSERA_FIRST_SLOTS ? slots : WH_TESSERA_FIRST_SLOTS) +
                       of_slab / 2) /
                      of_slab;
        first.spare = 0;
    } else {
        const uint64_t most = (uint64_t)1 << WH_TESSERA_FIRST_LOG2;
        const uint64_t bytes = set_bytes >> (bound <= 1u << chunk_log2 >> 4 ? 7 : 9);
        first.slabs = (uint32_t)((bytes < most ? bytes : most) >> (chunk_log2 + first.order));
        /* Even for the largest classes one, unless that were more than four times their part: a
         * lone lane's malloc should not have to fetch a span. */
        first.slabs += first.slabs == 0 && bytes >> (chunk_log2 + first.order - 2) != 0;
        first.spare = first.slabs >> 1;
    }
    first.chunk = ((end + (1u << first.order) - 1) >> first.order) << first.order;
    return first;
}
WH_HD uint32_t wh_tessera_first_end(wh_tessera_first first, uint32_t n_sets) {
    return first.chunk + (n_sets * first.slabs << first.order);
}

/* --- spans: what a cursor holds ----------------------------------------------------------
 *
 * 64 bits: first chunk 24 | slots 20 | position 20, the position on top: adding to it can
 * overflow out of the word, but not into the other fields. */

#define WH_TESSERA_POSITION ((uint64_t)1 << 44)
#define WH_TESSERA_MAX_CHUNKS ((1u << 24) - 2)
#define WH_TESSERA_CLOSED_CHUNK ((1u << 24) - 1)
#define WH_TESSERA_VACANT ((uint64_t)0)
#define WH_TESSERA_CLOSED ((uint64_t)WH_TESSERA_CLOSED_CHUNK)
#define WH_TESSERA_UNDER_WAY WH_TESSERA_POSITION /* vacant, and somebody has seen it */

WH_HD uint64_t wh_tessera_span(uint32_t first, uint32_t slots, uint32_t position) {
    return (uint64_t)position << 44 | (uint64_t)slots << 24 | first;
}
WH_HD uint32_t wh_tessera_span_first(uint64_t span) {
    return (uint32_t)span & WH_TESSERA_CLOSED_CHUNK;
}
WH_HD uint32_t wh_tessera_span_slots(uint64_t span) {
    return (uint32_t)(span >> 24) & 0xfffff;
}
WH_HD uint32_t wh_tessera_span_position(uint64_t span) {
    return (uint32_t)(span >> 44);
}

/* Chunks of a span that counts as held by its set: not of a first one, which lie below `begin`. */
WH_HD uint32_t wh_tessera_chunks_of_(wh_tessera_class row, uint32_t begin, uint64_t span) {
    const uint32_t slots = wh_tessera_span_slots(span);
    return slots == 0 || wh_tessera_span_first(span) < begin
               ? 0
               : wh_tessera_divide(slots, row.by_slots) << wh_tessera_order(row);
}

/* --- states: slabs of more than one word ----------------------------------------------------
 *
 * 32 bits: SHUT + words that are not full + takers << 16. SHUT is not 0, since the count follows
 * the words late: a word is counted as full before it was counted as not full. */

#define WH_TESSERA_OPEN 1u /* a word that is not full */
#define WH_TESSERA_TAKER (1u << 16)
#define WH_TESSERA_SHUT 256u /* all words are full, and no takers; or no slab of several words */
/* Of a slab of so many slots of which none has been freed. */
WH_HD uint32_t wh_tessera_fresh_state(uint32_t slots) {
    return WH_TESSERA_SHUT + ((slots + 63) >> 6) * WH_TESSERA_OPEN;
}

/* --- the heap -------------------------------------------------------------------- */

#define WH_TESSERA_REUSES 8u /* of each class, for a warp in eight */
typedef struct wh_tessera_cursor {
    uint64_t span;
    uint64_t spare; /* a second span, for whoever finds the first used up */
    uint32_t tries; /* a hint: times that lanes have looked for listed slots */
    uint32_t padding[3];
    uint32_t reuse[WH_TESSERA_REUSES]; /* hints: 1 + a listed slab that had slots left */
} wh_tessera_cursor;

/* Counters of one set of cursors (the SMs that share them), and these: together, so that who has
 * one has the others without a look at the heap. */
typedef struct wh_tessera_set {
    uint32_t begun;    /* takes that have begun; also the search position */
    uint32_t done;     /* ... and are done */
    uint32_t events;   /* times that chunks have come back to the pool */
    uint32_t attached; /* spans that have been attached to cursors */
    uint64_t failed;
    uint64_t bad_frees;
    uint32_t no_places; /* a hint: full warps found no slabs of their own */
    uint32_t held;      /* a hint: chunks of the spans of its cursors, first spans apart */
    uint32_t dry;       /* a hint: the pool had no span for the set the last time */
    uint32_t scarce;    /* a hint: how often yet to look elsewhere before the set's own words */
    uint32_t place;     /* a hint: spans that its own words of the pool have been asked for */
    uint32_t frees;     /* frees that left their slot in a slab */
    uint32_t packs;     /* a hint: chunks that its own words of the pool have been asked for */
    uint32_t no_packs;  /* a hint: how many more packs look elsewhere at once */
    uint32_t told;      /* a hint: 1 + events + frees when a verdict held last */
    uint32_t rows;      /* a hint: likewise, wide spans */
    wh_tessera_cursor cursors[64];
} wh_tessera_set;

#define WH_TESSERA_TRACKS_PEAK 1u   /* the option track_peak */
#define WH_TESSERA_TRACKS_TOTALS 2u /* the option track_totals */

/* What every step needs: part of the handle, and a copy in the header for slow paths, since 16
 * registers of it would go to the stack. */
typedef struct wh_tessera_core {
    unsigned char *meta;
    unsigned char *base; /* the first chunk */
    uint32_t n_chunks;
    uint8_t n_sets;
    uint8_t tracks; /* WH_TESSERA_TRACKS_*: all calls of malloc take the slow way, and count */
    uint8_t chunk_log2;
    uint8_t n_classes;
    uint32_t begin;      /* chunks from here on are not in anybody's first span */
    uint32_t share;      /* most chunks of a set's spans, see next_span_ */
    uint32_t list_words; /* of the list of a class */
    uint32_t max_whole;  /* largest class whose slab is a full warp's: 32 slots */
    uint32_t places;     /* chunks that a set has for such slabs, a multiple of 64 */
    uint32_t by_places;  /* floor(2^32 / places) + 1 */
    uint64_t *pool;
    uint64_t *lists;
} wh_tessera_core;

typedef struct wh_tessera_header {
    wh_tessera_class classes[WH_TESSERA_CLASSES];
    uint64_t slab_tags[WH_TESSERA_CLASSES]; /* less the set */
    uint32_t starts[WH_TESSERA_CLASSES];    /* word of the pool where set 0's first search starts */
    uint64_t verdict[2][WH_TESSERA_CLASSES];  /* 1 + events at which nothing was found, but maybe
                                                 blocks of packs; not these either */
    uint64_t answered[2][WH_TESSERA_CLASSES]; /* the requests to which that is an answer: X3 */
    uint64_t asked;                           /* requests that wanted to know */
    uint64_t wanted;                          /* a hint: classes that they were of, a bit each */
    uint64_t run_verdict;                     /* likewise: events << 24 | chunks asked for */
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

/* x modulo places, in few instructions: the quotient may be one too large. */
WH_HD uint32_t wh_tessera_turn_(wh_tessera_core g, uint32_t x) {
    const uint32_t rest = x - wh_high_u32(wh_mul_wide_u32(x, g.by_places)) * g.places;
    return rest < rest + g.places ? rest : rest + g.places;
}

/* Where a set puts a full warp's slab of 2^order chunks the ticket-th time: one after the other in
 * words of the pool that are its own, since atomics of all SMs on one word take turns; the words of
 * all sets side by side, so that the used part of the heap stays dense.
 * tests/unit/tessera_layout.c. */
WH_HD uint32_t wh_tessera_next_place(wh_tessera_core g, uint32_t set, uint32_t ticket,
                                     uint32_t order) {
    const uint32_t rest = wh_tessera_turn_(g, ticket << order); /* a multiple of 2^order, too */
    return ((g.begin >> 6) + (rest >> 6) * g.n_sets + set) << 6 | (rest & 63);
}

/* Where a set puts a wide span: eight words in a row, of which the others are of its neighbours: of
 * each eight sets each has the row in turn, so no two sets have the same ones. Tickets count pairs
 * of words; who wants fewer than eight words takes `n` tickets, a power of two, and has a part of a
 * row, behind what others had of it. From the middle of the places on, since other takes begin at
 * the ends. Where the last sets are not eight, there are fewer words in a row. *words: how many
 * there are from this one on, in the row. places >= 8 words. */
#define WH_TESSERA_ROW_SETS (1u << WH_TESSERA_ROW_LOG2)
WH_HD uint32_t wh_tessera_row_place(wh_tessera_core g, uint32_t set, uint32_t ticket, uint32_t n,
                                    uint32_t *words) {
    ticket = (ticket + n - 1) & ~(n - 1);
    const uint32_t rest = wh_tessera_turn_(
        g, (ticket >> (WH_TESSERA_ROW_LOG2 - 1) << WH_TESSERA_WIDE_SPAN_LOG2) + (g.places >> 1));
    uint32_t row = rest >> WH_TESSERA_WIDE_SPAN_LOG2 << WH_TESSERA_ROW_LOG2 |
                   (set & (WH_TESSERA_ROW_SETS - 1));
    row -= row >= g.places >> 6 ? WH_TESSERA_ROW_SETS : 0;
    const uint32_t first = set & ~(WH_TESSERA_ROW_SETS - 1), in_row = g.n_sets - first;
    const uint32_t part = 2 * (ticket & (WH_TESSERA_ROW_SETS / 2 - 1));
    const uint32_t at = part < in_row ? part : 0;
    *words = in_row - at;
    return g.begin + ((row * g.n_sets + first + at) << 6);
}

/* Where a set puts packs: the ticket-th chunk of the same places, from their other end on, since
 * other takes begin at this one. The chunks of a word lie in the order of their tickets. */
WH_HD uint32_t wh_tessera_pack_place(wh_tessera_core g, uint32_t set, uint32_t ticket) {
    const uint32_t rest = wh_tessera_turn_(g, ticket);
    return ((g.begin >> 6) + ((g.places - 1 - rest) >> 6) * g.n_sets + set) << 6 | (rest & 63);
}

typedef struct wh_tessera_ref {
    unsigned char *base;
    uint64_t bytes; /* of all chunks */
    uint64_t *tags;
    uint64_t *words;
    wh_tessera_set *sets;
    const wh_tessera_class *classes;
    uint32_t max_slot;   /* largest request that is served by a slot: a chunk */
    uint32_t set_scale;  /* set = SM * set_scale >> 16 */
    uint32_t max_order;  /* of a slab */
    uint32_t span_share; /* chunks of a span */
    uint32_t last_set;
    uint32_t pack_above; /* larger requests get blocks of a pack, smaller ones seldom, and those */
    uint32_t pack_most;  /* ... above this never; 0: there are no packs */
    uint32_t chunk_log2; /* as in core, but a whole word, which is an operand without a load */
    uint32_t words_log2; /* of a chunk */
    uint32_t tracks;     /* as in core */
    uint64_t whole;      /* classes whose slab is a full warp's, a bit each */
    uint64_t exact;      /* classes whose slots are as long as blocks of a pack, likewise */
    wh_tessera_core core;
} wh_tessera_ref;

/* A set's share of the heap, for its first spans; a small heap has none of these. */
WH_HD uint64_t wh_tessera_set_bytes(wh_tessera_core g) {
    return g.n_chunks < 512 ? 0 : (uint64_t)(g.n_chunks / g.n_sets) << g.chunk_log2;
}
WH_HD uint32_t wh_tessera_words_log2(uint32_t chunk_log2) { /* words of a chunk: 1 KiB each */
    return chunk_log2 - 10;
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
WH_FN wh_tessera_set *wh_tessera_nth_set_(void *sets, uint32_t set) {
    unsigned char *const first = (unsigned char *)sets; /* an index takes an instruction more */
    return (wh_tessera_set *)(void *)(first + wh_mul_wide_u32(set, sizeof(wh_tessera_set)));
}
WH_FN wh_tessera_set *wh_tessera_set_at_(wh_tessera_core g, uint32_t set) {
    return wh_tessera_nth_set_(g.meta + sizeof(wh_tessera_header), set);
}
WH_FN wh_tessera_cursor *wh_tessera_cursor_at_(wh_tessera_core g, uint32_t set, uint32_t c) {
    return &wh_tessera_set_at_(g, set)->cursors[c];
}
WH_FN uint64_t *wh_tessera_tag_at_(wh_tessera_core g, uint32_t chunk) {
    return (uint64_t *)(void *)wh_tessera_set_at_(g, g.n_sets) + chunk;
}
WH_FN uint32_t *wh_tessera_state_at_(wh_tessera_core g, uint32_t chunk) {
    return (uint32_t *)(void *)wh_tessera_tag_at_(g, g.n_chunks) + chunk;
}
/* Granules that a block of a pack must have to serve class c; 0: this heap has no packs. */
WH_FN uint32_t wh_tessera_least_(wh_tessera_core g, uint32_t c) {
    return g.places != 0 ? wh_tessera_granules(wh_tessera_bound(c), g.chunk_log2) : 0;
}
/* Of these lengths (pack_scan_) those that will do for `least` granules, not 0; bit 0: so many. Who
 * needs no more than SHORT gets none that is longer: small requests would use up the large blocks,
 * and large ones have no others. */
WH_HD uint32_t wh_tessera_fits_(uint32_t lengths, uint32_t least) {
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
/* Items of a list: slab s is item s % 64 * stride + s / 64, so that slabs that lie side by
 * side do not share a line of it. */
WH_HD uint32_t wh_tessera_stride(uint32_t n_chunks) {
    return (n_chunks + 63) >> 6;
}
WH_HD uint32_t wh_tessera_item(uint32_t n_chunks, uint32_t slab) {
    return (slab & 63) * wh_tessera_stride(n_chunks) + (slab >> 6);
}
WH_HD uint32_t wh_tessera_slab_of(uint32_t n_chunks, uint32_t item) {
    const uint32_t stride = wh_tessera_stride(n_chunks);
    return item % stride << 6 | item / stride;
}
WH_HD uint64_t wh_tessera_items(uint32_t n_chunks) {
    return (uint64_t)wh_tessera_stride(n_chunks) << 6;
}

/* The lists, which follow the pool: of each class, and of packs. */
WH_HD uint32_t wh_tessera_lists(uint32_t n_classes) {
    return n_classes + 1;
}
/* Slabs of class c with free slots; with c = n_classes packs with free blocks. */
WH_FN wh_veb wh_tessera_list_(wh_tessera_core g, uint32_t c) {
    return wh_veb_make(g.lists + (uint64_t)c * g.list_words, wh_tessera_items(g.n_chunks));
}
/* The list that a slab with this tag belongs to. */
WH_FN uint32_t wh_tessera_tag_list(wh_tessera_core g, uint64_t tag) {
    return wh_tessera_is_pack(tag) ? g.n_classes : wh_tessera_tag_class(tag);
}
WH_FN uint64_t *wh_tessera_words_of_(wh_tessera_core g, uint32_t slab) {
    uint64_t *words = g.lists + (uint64_t)wh_tessera_lists(g.n_classes) * g.list_words;
    return words + ((uint64_t)slab << wh_tessera_words_log2(g.chunk_log2));
}

/* Slots of word i of a slab, as a mask. */
WH_HD uint64_t wh_tessera_full_word(uint32_t slots, uint32_t i) {
    return ~wh_ones_from_u64(slots - 64 * i);
}

/* The first slot of a word has the bits past the last slot besides its own, so that full is all
 * ones for every class: a taker that knows the slab from an earlier life sees it, too (tessera.h,
 * I4). These bits of word i. */
WH_HD uint64_t wh_tessera_past_last(uint32_t slots, uint32_t i) {
    return wh_ones_from_u64(slots - 64 * i);
}
#define WH_TESSERA_ALL_FREE (~(uint64_t)0) /* a word all of whose slots are free */
/* The bits of slots of a word: all that belong to them. */
WH_HD uint64_t wh_tessera_with_past(uint64_t slots, uint64_t past) {
    const uint32_t with = 0 - (wh_low_u32(slots) & 1);
    return slots | (past & ((uint64_t)with << 32 | with));
}

/* Bytes of metadata for n chunks, up to the first chunk's alignment. */
WH_FN_HOST uint64_t wh_tessera_pool_offset_(uint64_t n, uint32_t n_sets) {
    const uint64_t bytes =
        sizeof(wh_tessera_header) + n_sets * sizeof(wh_tessera_set) + n * 8 + n * 4;
    return wh_round_up(bytes, 8);
}
/* Memory of the pool and the lists, in words. */
WH_HD uint64_t wh_tessera_tree_words_(uint64_t n, uint32_t n_classes) {
    return (wh_veb_words(n) << WH_TESSERA_POOL_SPREAD) +
           wh_tessera_lists(n_classes) * wh_veb_words(wh_tessera_items((uint32_t)n));
}
WH_FN_HOST uint64_t wh_tessera_metadata_(uint64_t n, uint32_t n_sets, uint32_t n_classes,
                                         uint32_t chunk_log2) {
    return wh_tessera_pool_offset_(n, n_sets) + wh_tessera_tree_words_(n, n_classes) * 8 +
           (n << wh_tessera_words_log2(chunk_log2)) * 8;
}

#define WH_TESSERA_CHUNK_LOG2 14u
#define WH_TESSERA_CHUNKS_PER_SET 256u
#define WH_TESSERA_MAX_SETS 255u

WH_FN_HOST uint32_t wh_tessera_sets_(uint64_t n_chunks, const wh_tessera_options *options,
                                     uint32_t n_sms) {
    const uint64_t by_size = n_chunks / WH_TESSERA_CHUNKS_PER_SET;
    uint64_t n = options->shards != 0 ? options->shards : by_size;
    n = n < n_sms ? n : n_sms;
    n = n < WH_TESSERA_MAX_SETS ? n : WH_TESSERA_MAX_SETS;
    return n == 0 ? 1 : (uint32_t)n;
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
        wh_tessera_metadata_(1, wh_tessera_sets_(1, o, n_sms), n_classes, chunk_log2) + 2 * chunk;
    plan->init_items = 1;
    plan->metadata_bytes = bytes;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    /* As many chunks as fit behind their metadata and the first one's alignment. */
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    uint64_t n = bytes >> chunk_log2;
    n = n < WH_TESSERA_MAX_CHUNKS ? n : WH_TESSERA_MAX_CHUNKS;
    uint64_t first = 0;
    for (;; n--) {
        const uint32_t sets = wh_tessera_sets_(n, o, n_sms);
        const uint64_t end = address + wh_tessera_metadata_(n, sets, n_classes, chunk_log2);
        /* With memory NULL any alignment may come. */
        first = memory != NULL ? wh_round_up(end, chunk) - address : end + chunk - 1;
        if (first + (n << chunk_log2) <= bytes) {
            break;
        }
        const uint64_t over = (first + (n << chunk_log2) - bytes) >> (chunk_log2 + 1);
        n -= over < n ? over : 0; /* a good part of the way at once */
    }
    const uint32_t n_sets = wh_tessera_sets_(n, o, n_sms);
    plan->metadata_bytes = bytes - (n << chunk_log2);
    plan->init_items = wh_tessera_tree_words_(n, n_classes) + n;
    h->core.meta = memory;
    h->core.base = memory + first;
    h->core.n_chunks = (uint32_t)n;
    h->core.n_sets = (uint8_t)n_sets;
    h->core.chunk_log2 = (uint8_t)chunk_log2;
    h->core.n_classes = (uint8_t)n_classes;
    h->core.share = (uint32_t)(n / n_sets) >> 2;
    h->core.list_words = (uint32_t)wh_veb_words(wh_tessera_items((uint32_t)n));
    h->core.pool = (uint64_t *)(void *)(memory + wh_tessera_pool_offset_(n, n_sets));
    h->core.lists = h->core.pool + (wh_veb_words(n) << WH_TESSERA_POOL_SPREAD);
    h->base = h->core.base;
    h->bytes = n << chunk_log2;
    h->classes = (const wh_tessera_class *)(const void *)memory;
    h->sets = (wh_tessera_set *)(void *)(memory + sizeof(wh_tessera_header));
    h->tags = (uint64_t *)(void *)(h->sets + n_sets);
    h->words = h->core.pool + wh_tessera_tree_words_(n, n_classes);
    h->max_order = WH_TESSERA_MAX_SPAN_LOG2;
    while (h->max_order > 0 && (uint64_t)64 << h->max_order > n) {
        h->max_order--;
    }
    const uint64_t share = n / (n_sets * 32);
    h->span_share = share < 64 ? (uint32_t)share : 64;
    h->core.tracks = (uint8_t)((o->track_peak != 0 ? WH_TESSERA_TRACKS_PEAK : 0) |
                               (o->track_totals != 0 ? WH_TESSERA_TRACKS_TOTALS : 0));
    h->tracks = h->core.tracks;
    h->max_slot = (uint32_t)chunk;
    h->core.max_whole = 0;
    h->whole = 0;
    for (uint32_t c = WH_TESSERA_FINE + 4; c < n_classes; c += 5) {
        const wh_tessera_class row =
            wh_tessera_make_class(c, chunk_log2, h->max_order, h->span_share);
        if (row.slots == 32 && chunk_log2 <= wh_tessera_slab_log2(row)) {
            h->core.max_whole = row.slot_size;
            h->whole |= (uint64_t)1 << c;
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
    h->last_set = n_sets - 1;
    h->chunk_log2 = chunk_log2;
    h->words_log2 = wh_tessera_words_log2(chunk_log2);
    h->set_scale = (uint32_t)(((uint64_t)n_sets << 16) / n_sms);
    uint32_t end = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        end = wh_tessera_first_end(
            wh_tessera_make_first(c, chunk_log2, h->max_order, wh_tessera_set_bytes(h->core), end),
            n_sets);
    }
    h->core.begin = (end + 63) >> 6 << 6;
    h->core.places = h->core.begin < n ? (uint32_t)(n - h->core.begin) / n_sets >> 6 << 6 : 0;
    if (h->core.places == 0) {
        h->core.max_whole = 0; /* and by_places means nothing */
        h->whole = 0;
        h->exact = 0;
        h->pack_above = h->pack_most = 0;
    } else {
        h->core.by_places = (uint32_t)(((uint64_t)1 << 32) / h->core.places) + 1;
        h->pack_above = WH_TESSERA_SHORT << wh_tessera_granule_log2(chunk_log2);
        h->pack_most = h->max_slot >> 1;
    }
    return WH_OK;
}

/* What code of this family must agree on with who laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_tessera_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_ref, field),
        sizeof(wh_tessera_ref),
        WH_F_(base) WH_F_(bytes) WH_F_(tags) WH_F_(words) WH_F_(sets) WH_F_(classes) WH_F_(max_slot)
        WH_F_(set_scale) WH_F_(max_order) WH_F_(span_share) WH_F_(last_set) WH_F_(pack_above)
        WH_F_(pack_most) WH_F_(chunk_log2) WH_F_(words_log2) WH_F_(tracks) WH_F_(whole) WH_F_(exact)
        WH_F_(core)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_core, field),
        sizeof(wh_tessera_core),
        WH_F_(meta) WH_F_(base) WH_F_(n_chunks) WH_F_(n_sets) WH_F_(tracks) WH_F_(chunk_log2)
        WH_F_(n_classes) WH_F_(begin) WH_F_(share) WH_F_(list_words) WH_F_(max_whole) WH_F_(places)
        WH_F_(by_places) WH_F_(pool) WH_F_(lists)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_header, field),
        sizeof(wh_tessera_header),
        WH_F_(classes) WH_F_(slab_tags) WH_F_(starts) WH_F_(verdict) WH_F_(answered) WH_F_(asked)
        WH_F_(wanted) WH_F_(run_verdict) WH_F_(search_lock) WH_F_(run_lock) WH_F_(run_position)
        WH_F_(run_news) WH_F_(used) WH_F_(peak) WH_F_(mallocs) WH_F_(core)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_tessera_set, field),
        sizeof(wh_tessera_set),
        WH_F_(begun) WH_F_(done) WH_F_(events) WH_F_(attached) WH_F_(failed) WH_F_(bad_frees)
        WH_F_(no_places) WH_F_(held) WH_F_(dry) WH_F_(scarce) WH_F_(place) WH_F_(frees) WH_F_(packs)
        WH_F_(no_packs) WH_F_(told) WH_F_(rows) WH_F_(cursors)
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
        WH_TESSERA_FIRST_LOG2, WH_TESSERA_POSITION, WH_TESSERA_SHUT, WH_TESSERA_TAKER,
        WH_TESSERA_GRANULES,
    };
    return wh_layout_hash("tessera", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#include "warpheap/detail/simt/end.h"

#endif

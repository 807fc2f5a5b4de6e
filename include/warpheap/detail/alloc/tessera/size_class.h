/* alloc/tessera/size_class.h: size classes: how large slots, slabs and spans are. Arithmetic only.
 * This file may change: it is no part of the API.
 *
 * Up to 128 bytes there is a class for every 16 bytes, up to 256 for every 32. Above, each doubling
 * (2^b, 2^(b+1)] has five: up to 17/16, 20/16, 24/16, 28/16 and 32/16 of 2^b. The narrow first one
 * is for powers of two with a small header, the sizes that powers of two serve worst. A slab of a
 * class is a power of two of chunks. A slot gets an even share of the slab, a multiple of 16, so it
 * is often a little larger than the class's bound. The largest class is one chunk; larger requests
 * are runs of chunks.
 *
 * Check   tests/unit/tessera_layout.c
 */
#ifndef WH_ALLOC_TESSERA_SIZE_CLASS_H
#define WH_ALLOC_TESSERA_SIZE_CLASS_H

#include "warpheap/core/size_class.h"
#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_FINE 12u    /* classes up to 256 bytes */
#define WH_TESSERA_CLASSES 64u /* at most; 42 with chunks of 16 KiB */
#define WH_TESSERA_NO_CLASS 63u
#define WH_TESSERA_PACK 62u          /* what packs have for a class */
#define WH_TESSERA_POOL_SPREAD 4u    /* each SM works on a word of the pool of its own */
#define WH_TESSERA_MAX_SPAN_LOG2 6u  /* chunks of a span or slab: one word of the pool */
#define WH_TESSERA_WIDE_SPAN_LOG2 9u /* of a full warp of one class, */
#define WH_TESSERA_STRIPE_LOG2 3u    /* ... words of the pool in a row, at most */

/* Class of a request of 1 byte to 1 MiB. */
WH_HD uint32_t wh_tessera_class_of(uint32_t n) {
    wh_assert_internal(n - 1 < 1u << 20);
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
    wh_assert_internal(c < WH_TESSERA_CLASSES);
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
    WH_ALIGNAS(16) uint32_t slots; /* of a slab; aligned, so that a class is one load */
    uint32_t by_slots;             /* ceil(2^31 / slots) */
    uint32_t slot_size;            /* bytes, a multiple of 16 */
    uint32_t shape;                /* slab_log2 (bytes) | order << 8 | span order << 16 */
} wh_tessera_class;

WH_HD uint32_t wh_tessera_slab_log2(wh_tessera_class cls) {
    return cls.shape & 0xff;
}
/* log2 of the chunks of a slab, and of a span (several slabs in a row). */
WH_HD uint32_t wh_tessera_order(wh_tessera_class cls) {
    return cls.shape >> 8 & 0xff;
}
WH_HD uint32_t wh_tessera_span_order(wh_tessera_class cls) {
    return cls.shape >> 16;
}
/* The same of a wide span: half of that for classes that have 2^16 slots or more then, or slabs of
 * more than two chunks, whose spans last a part of a million mallocs only; a quarter for those that
 * have more than 2^17. */
WH_HD uint32_t wh_tessera_wide_span_order(wh_tessera_class cls) {
    wh_assert_internal(wh_tessera_order(cls) <= WH_TESSERA_MAX_SPAN_LOG2);
    return WH_TESSERA_WIDE_SPAN_LOG2 - (cls.slots >= 128 || wh_tessera_order(cls) > 1) -
           (cls.slots > 512);
}
/* ... and the tickets that it takes (stripe). */
WH_HD uint32_t wh_tessera_wide_span_tickets(wh_tessera_class cls) {
    return 1u << (wh_tessera_wide_span_order(cls) - WH_TESSERA_MAX_SPAN_LOG2 - 1);
}
WH_HD uint32_t wh_tessera_class_chunk_log2(wh_tessera_class cls) { /* of a chunk, bytes */
    return wh_tessera_slab_log2(cls) - wh_tessera_order(cls);
}

/* x / d for x <= 2^17, d < 2^13 + 1, with by_d = ceil(2^31 / d): the error by_d * d - 2^31 is less
 * than d, so x * error stays below 2^31. tests/unit/tessera_layout.c. */
WH_HD uint32_t wh_tessera_divisor(uint32_t d) {
    wh_assert_internal(d - 1 < 1u << 13);
    return (uint32_t)((((uint64_t)1 << 31) + d - 1) / d);
}
WH_HD uint32_t wh_tessera_divide(uint32_t x, uint32_t by_d) {
    wh_assert_internal(x <= 1u << 17);
    return wh_high_u32(wh_mul_wide_u32(2 * x, by_d));
}

#define WH_TESSERA_SPAN_SLOTS 65536u /* slots that a span aims at, a wide one twice as many */

/* log2 of the chunks of a slab: 32 slots of a class of 2^k bytes, up to 63 of the others, that is
 * one word; unless one chunk already holds more. max_order: largest slab of this heap. */
WH_HD uint32_t wh_tessera_order_of(uint32_t c, uint32_t chunk_log2, uint32_t max_order) {
    wh_assert_internal(chunk_log2 >= 10 && max_order <= WH_TESSERA_MAX_SPAN_LOG2);
    const uint32_t wanted = 5 + wh_log2_ceil(wh_tessera_bound(c));
    const uint32_t order = wanted > chunk_log2 ? wanted - chunk_log2 : 0;
    return order < max_order ? order : max_order;
}

/* span_share: largest span, in chunks. */
WH_HD wh_tessera_class wh_tessera_make_class(uint32_t c, uint32_t chunk_log2, uint32_t max_order,
                                             uint32_t span_share) {
    wh_tessera_class cls;
    const uint32_t bound = wh_tessera_bound(c);
    const uint32_t order = wh_tessera_order_of(c, chunk_log2, max_order);
    const uint32_t slab_log2 = chunk_log2 + order;
    cls.slots = (uint32_t)(((uint64_t)1 << slab_log2) / bound);
    cls.slot_size = (uint32_t)(((uint64_t)1 << slab_log2) / cls.slots) & ~15u;
    cls.by_slots = wh_tessera_divisor(cls.slots);
    uint32_t span = order;
    while (span < WH_TESSERA_MAX_SPAN_LOG2 && 2u << span <= span_share &&
           cls.slots << (span - order) < WH_TESSERA_SPAN_SLOTS) {
        span++;
    }
    wh_assert_internal(cls.slots - 1 < 1024 && (cls.slots <= 64 || order == 0));
    cls.shape = slab_log2 | order << 8 | span << 16;
    return cls;
}

/* Slabs of the spans that every cursor has from the start: so small a part of a shard's share of
 * the heap (for all classes together about a third) that even a heap full of one class gets it back
 * in time. A class of up to 256 bytes gets slots for an even share of one in 7 KiB of the heap, all
 * in its first word; up to 16 bytes a third more, which is little memory, since a span behind all
 * first ones is far away and some SMs get a quarter more blocks to run than others; the others
 * fewer, half of them spare, so that lanes need not wait when the first word is used up: classes up
 * to a 16th of a chunk four times the memory of those above, which full warps seldom take from
 * (they have slabs of their own, or packs). */
#define WH_TESSERA_FIRST_SLOTS 12288u
#define WH_TESSERA_FIRST_LOG2 20u /* most bytes, for classes above 256 bytes */

typedef struct wh_tessera_first {
    uint32_t chunk; /* where shard 0's span starts; the other shards' lie behind it */
    uint32_t slabs; /* of each shard */
    uint32_t spare; /* ... of these, behind the others */
    uint32_t order; /* of a slab */
} wh_tessera_first;

/* Of class c, if the first spans of the classes below it end at chunk `end`. */
WH_HD wh_tessera_first wh_tessera_make_first(uint32_t c, uint32_t chunk_log2, uint32_t max_order,
                                             uint64_t shard_bytes, uint32_t end) {
    wh_assert_internal(c < WH_TESSERA_PACK);
    const uint32_t bound = wh_tessera_bound(c);
    wh_tessera_first first;
    first.order = wh_tessera_order_of(c, chunk_log2, max_order);
    if (c < WH_TESSERA_FINE) {
        const uint64_t slots = (shard_bytes >> 16) * (bound <= 16 ? 12 : 9);
        const uint32_t of_slab = (1u << (chunk_log2 + first.order)) / bound;
        first.slabs = ((uint32_t)(slots < WH_TESSERA_FIRST_SLOTS ? slots : WH_TESSERA_FIRST_SLOTS) +
                       of_slab / 2) /
                      of_slab;
        first.spare = 0;
    } else {
        const uint64_t most = (uint64_t)1 << WH_TESSERA_FIRST_LOG2;
        const uint64_t bytes = shard_bytes >> (bound <= 1u << chunk_log2 >> 4 ? 7 : 9);
        first.slabs = (uint32_t)((bytes < most ? bytes : most) >> (chunk_log2 + first.order));
        /* Even for the largest classes one, unless that were more than four times their part: a
         * lone lane's malloc should not have to fetch a span. */
        first.slabs += first.slabs == 0 && bytes >> (chunk_log2 + first.order - 2) != 0;
        first.spare = first.slabs >> 1;
    }
    first.chunk = ((end + (1u << first.order) - 1) >> first.order) << first.order;
    return first;
}
WH_HD uint32_t wh_tessera_first_end(wh_tessera_first first, uint32_t n_shards) {
    return first.chunk + (n_shards * first.slabs << first.order);
}

#include "warpheap/detail/simt/end.h"

#endif

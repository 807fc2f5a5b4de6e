/* alloc/tessera/size_class.h: size classes: how large slots and slabs are. Arithmetic only. This
 * file may change: it is no part of the API.
 *
 * Up to 128 bytes there is a class for every 16 bytes. Above, each doubling has 4 classes up to 1
 * KiB, 8 up to 16 KiB (a chunk), 16 up to 256 KiB. Large sizes have most of the bytes, so finer
 * steps save most there: a block of a random size from 16 B to 4 KiB fills 95 % of its slot.
 *
 * A *small* class has slots of up to a chunk, just as large as its bound. Its slab is a power of
 * two of chunks, aligned: 32 to 56 slots, which is one word, unless one chunk already holds more.
 * It may be smaller: a full warp's has just 32 slots where these fill whole chunks, as all from 4
 * KiB on.
 *
 * A *large* class has slots of more than a chunk. Its slab has just as many chunks as 16 (8, 4, 2)
 * slots take together, 17 to 31. A request that fills whole chunks is a run instead.
 *
 * Check   tests/unit/tessera_layout.c, tests/conform, tests/stress
 */
#ifndef WH_ALLOC_TESSERA_SIZE_CLASS_H
#define WH_ALLOC_TESSERA_SIZE_CLASS_H

#include "warpheap/core/size_class.h"
#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_CLASSES 128u  /* of the table of classes */
#define WH_TESSERA_SMALL 52u     /* small classes with chunks of 16 KiB, fewer with smaller ones */
#define WH_TESSERA_ALL 116u      /* small and large ones */
#define WH_TESSERA_NO_CLASS 127u /* of a request that is no slot */
#define WH_TESSERA_NO_REQUEST 126u
#define WH_TESSERA_CHUNK_LOG2 14u
#define WH_TESSERA_MAX_SLAB_LOG2 6u /* chunks of a slab or span: one word of the pool */
#define WH_TESSERA_WORD_SLOTS 56u   /* of a word: the other 8 bits are its class */
#define WH_TESSERA_LARGEST (1u << 18)

/* Class of a request of 1 byte to 256 KiB. */
WH_HD uint32_t wh_tessera_class_of(uint32_t n) {
    wh_assert_internal(n - 1 < WH_TESSERA_LARGEST);
    const uint32_t m = n - 1;
    if (m < 128) {
        return m >> 4;
    }
    const uint32_t b = wh_msb32(m);
    if (m < 1024) {
        return 8 + (b - 7) * 4 + (m >> (b - 2) & 3);
    }
    if (m < 16384) {
        return 20 + (b - 10) * 8 + (m >> (b - 3) & 7);
    }
    return WH_TESSERA_SMALL + (b - 14) * 16 + (m >> (b - 4) & 15);
}

/* Largest request of a class. */
WH_HD uint32_t wh_tessera_bound(uint32_t c) {
    wh_assert_internal(c < WH_TESSERA_ALL);
    if (c < 8) {
        return (c + 1) << 4;
    }
    if (c < 20) {
        return (5 + (c - 8) % 4) << (5 + (c - 8) / 4);
    }
    if (c < WH_TESSERA_SMALL) {
        return (9 + (c - 20) % 8) << (7 + (c - 20) / 8);
    }
    return (17 + (c - WH_TESSERA_SMALL) % 16) << (10 + (c - WH_TESSERA_SMALL) / 16);
}

/* What malloc needs of a class; the heap keeps a table of these. */
typedef struct wh_tessera_class {
    WH_ALIGNAS(16) uint32_t slots; /* of a slab; aligned, so that a class is one load */
    uint32_t by_slots;             /* ceil(2^31 / slots) */
    uint32_t slot_size;            /* bytes, a multiple of 16 */
    uint32_t chunks;               /* of a slab */
} wh_tessera_class;

/* x / d for x <= 2^17, d <= 2^14, with by_d = ceil(2^31 / d): the error by_d * d - 2^31 is less
 * than d, so x * error stays below 2^31. */
WH_HD WH_CONSTEXPR uint32_t wh_tessera_divisor(uint32_t d) {
    wh_assert_internal(d - 1 < 1u << 14);
    return (uint32_t)((((uint64_t)1 << 31) + d - 1) / d);
}
WH_HD uint32_t wh_tessera_divide(uint32_t x, uint32_t by_d) {
    wh_assert_internal(x <= 1u << 17);
    return wh_high_u32(wh_mul_wide_u32(2 * x, by_d));
}

/* Words of a slab of so many slots, and of a chunk at most. */
WH_HD uint32_t wh_tessera_words_for(uint32_t slots) {
    return (slots + WH_TESSERA_WORD_SLOTS - 1) / WH_TESSERA_WORD_SLOTS;
}
WH_HD uint32_t wh_tessera_words_of_chunk(uint32_t chunk_log2) {
    return wh_tessera_words_for(1u << (chunk_log2 - 4));
}

/* max_log2: the chunks of the largest slab of a small class in this heap. */
WH_HD wh_tessera_class wh_tessera_make_class(uint32_t c, uint32_t chunk_log2, uint32_t max_log2) {
    wh_tessera_class cls;
    const uint32_t bound = wh_tessera_bound(c);
    wh_assert_internal(chunk_log2 >= 10 && max_log2 <= WH_TESSERA_MAX_SLAB_LOG2);
    if (c >= WH_TESSERA_SMALL) {
        const uint32_t doubling = (c - WH_TESSERA_SMALL) / 16;
        cls.slots = 16u >> doubling;
        cls.slot_size = bound;
        cls.chunks = 17 + (c - WH_TESSERA_SMALL) % 16;
    } else {
        const uint32_t wanted = 5 + wh_log2_ceil(bound); /* log2 of 32 such slots or more */
        uint32_t order = wanted > chunk_log2 ? wanted - chunk_log2 : 0;
        order = order < max_log2 ? order : max_log2;
        const uint32_t bytes = 1u << (chunk_log2 + order);
        cls.slots = bytes / bound;
        cls.slot_size = bound;
        cls.chunks = 1u << order;
    }
    cls.by_slots = wh_tessera_divisor(cls.slots);
    wh_assert_internal(cls.slots - 1 < 1024 &&
                       (cls.slots <= WH_TESSERA_WORD_SLOTS || cls.chunks == 1));
    return cls;
}

/* Chunks of a slab of 32 slots, for a full warp; the class has such slabs where they fill them. */
WH_HD uint32_t wh_tessera_warp_chunks(wh_tessera_class cls, uint32_t chunk_log2) {
    return cls.slot_size * WH_WARP_SIZE >> chunk_log2;
}
WH_HD int wh_tessera_is_of_warps(wh_tessera_class cls, uint32_t chunk_log2) {
    const uint32_t chunks = wh_tessera_warp_chunks(cls, chunk_log2);
    return chunks - 1 < cls.chunks && chunks << chunk_log2 == cls.slot_size * WH_WARP_SIZE;
}

#include "warpheap/detail/simt/end.h"

#endif

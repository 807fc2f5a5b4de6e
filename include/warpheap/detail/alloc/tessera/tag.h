/* alloc/tessera/tag.h: the packed words: tags of chunks, words and states of slabs, spans of
 * cursors. Arithmetic only. This file may change: it is no part of the API.
 *
 * Check   tests/unit/tessera_layout.c, tests/conform, tests/stress
 */
#ifndef WH_ALLOC_TESSERA_TAG_H
#define WH_ALLOC_TESSERA_TAG_H

#include "warpheap/detail/alloc/tessera/size_class.h"

#include "warpheap/detail/simt/begin.h"

/* --- tags: what a chunk is ------------------------------------------------------------
 *
 * 64 bits. Of a slab: kind 2 | class 7 | number of the chunk in the slab 6 | chunks - 1: 6 |
 * shard whose cursor has or had the slab 8 | 0: 3 | divisor of the slot size / 16: 32. Of a run's
 * first chunk: kind 2 | 0: 30 | chunks 32. */

#define WH_TESSERA_FREE 0u  /* not in use, or never used */
#define WH_TESSERA_SLAB 1u  /* part of a slab */
#define WH_TESSERA_RUN 2u   /* first chunk of a run */
#define WH_TESSERA_INNER 3u /* another chunk of a run */
/* The whole tag of a chunk that is reserved and not there (reserve.h); its kind is FREE. */
#define WH_TESSERA_ABSENT ((uint64_t)1 << 2)

/* Of the first chunk; the k-th has + k * WH_TESSERA_NEXT_TAG. */
#define WH_TESSERA_NEXT_TAG ((uint64_t)1 << 9)
WH_HD WH_CONSTEXPR uint64_t wh_tessera_slab_tag(uint32_t c, uint32_t chunks, uint32_t slot_size) {
    wh_assert_internal(c < WH_TESSERA_ALL && chunks - 1 < 64 && slot_size % 16 == 0);
    return (uint64_t)wh_tessera_divisor(slot_size >> 4) << 32 | (chunks - 1) << 15 | c << 2 |
           WH_TESSERA_SLAB;
}
WH_HD WH_CONSTEXPR uint64_t wh_tessera_with_shard(uint64_t tag, uint32_t shard) {
    wh_assert_internal(shard < 1u << 8);
    return (tag & ~((uint64_t)0xff << 21)) | shard << 21;
}
WH_HD uint32_t wh_tessera_kind(uint64_t tag) {
    return wh_low_u32(tag) & 3;
}
WH_HD uint32_t wh_tessera_tag_class(uint64_t tag) {
    return wh_low_u32(tag) >> 2 & 127;
}
/* Whether it is of a slab of class c; of any, if c is ANY_CLASS. */
#define WH_TESSERA_ANY_CLASS 128u
WH_HD int wh_tessera_is_slab_of(uint64_t tag, uint32_t c) {
    return c == WH_TESSERA_ANY_CLASS ? wh_tessera_kind(tag) == WH_TESSERA_SLAB
                                     : (wh_low_u32(tag) & 511) == (c << 2 | WH_TESSERA_SLAB);
}
WH_HD uint32_t wh_tessera_tag_at(uint64_t tag) {
    return wh_low_u32(tag) >> 9 & 63;
}
WH_HD uint32_t wh_tessera_tag_chunks(uint64_t tag) {
    return (wh_low_u32(tag) >> 15 & 63) + 1;
}
WH_HD uint32_t wh_tessera_tag_shard(uint64_t tag) {
    return wh_low_u32(tag) >> 21 & 255;
}
/* Slot that starts at byte x of a slab, x < 1 MiB; a number that is not below its slots, if none
 * does. The upper half of the product of x / 8 and the divisor is the quotient of x / 16 = q d + r.
 * The lower one is 2 (q e + r by_d), with e < d the error of the divisor: less than 2^17 <= by_d if
 * r is 0, else at least by_d. Bit 3 of x counts as r = 1/2; the bits below it become the highest of
 * the factor, and make a quotient that no slab has. */
WH_HD uint32_t wh_tessera_tag_slot(uint64_t tag, uint32_t x) {
    wh_assert_internal(wh_tessera_kind(tag) != WH_TESSERA_SLAB || x < 1u << 20);
    const uint32_t by = wh_high_u32(tag);
    const uint64_t product = wh_mul_wide_u32(x >> 3 | x << 29, by);
    const uint32_t slot = wh_high_u32(product);
    return wh_low_u32(product) < by ? slot : UINT32_MAX;
}
/* Slots of a slab with this tag. */
WH_HD uint32_t wh_tessera_tag_slots(uint64_t tag, uint32_t chunk_log2) {
    return wh_high_u32(
        wh_mul_wide_u32(wh_tessera_tag_chunks(tag) << (chunk_log2 - 3), wh_high_u32(tag)));
}

/* --- words of a slab ----------------------------------------------------------------------
 *
 * 64 bits: 1 for each free slot 56 | class + 1: 8. The class comes with the first free slot, by the
 * same or: a word of a fresh slab is 0. */

#define WH_TESSERA_SLOT_BITS (((uint64_t)1 << WH_TESSERA_WORD_SLOTS) - 1)
/* Of a slab in the pool; bits beside it are of frees that came too late. */
#define WH_TESSERA_GONE ((uint64_t)255 << WH_TESSERA_WORD_SLOTS)
WH_HD int wh_tessera_is_gone(uint64_t word) {
    return word >= WH_TESSERA_GONE;
}

WH_HD WH_CONSTEXPR uint64_t wh_tessera_word_of(uint32_t c) {
    wh_assert_internal(c < WH_TESSERA_ALL);
    return (uint64_t)(c + 1) << WH_TESSERA_WORD_SLOTS;
}
WH_HD uint32_t wh_tessera_word_class1(uint64_t word) { /* class + 1 */
    return wh_high_u32(word) >> (WH_TESSERA_WORD_SLOTS - 32);
}
/* The free slots of a word if it is of class c, else 0. */
WH_HD uint64_t wh_tessera_free_slots(uint64_t word, uint32_t c) {
    return wh_tessera_word_class1(word) == c + 1 ? word & WH_TESSERA_SLOT_BITS : 0;
}
/* All slots of word i of a slab. */
WH_HD uint64_t wh_tessera_all_slots(uint32_t slots, uint32_t i) {
    wh_assert_internal(i * WH_TESSERA_WORD_SLOTS < slots);
    const uint32_t n = slots - i * WH_TESSERA_WORD_SLOTS;
    return WH_TESSERA_SLOT_BITS >>
           (WH_TESSERA_WORD_SLOTS - (n < WH_TESSERA_WORD_SLOTS ? n : WH_TESSERA_WORD_SLOTS));
}

/* --- states: slabs of more than one word ----------------------------------------------------
 *
 * 32 bits: words all of whose slots are free, + RETIRING. 0 in the pool. Takers that come too late
 * uncount words all the same, for a moment, and they may be more than the words: so RETIRING is no
 * bit, but an amount. */

#define WH_TESSERA_RETIRING (1u << 30) /* somebody takes the words of an empty slab */

WH_HD int wh_tessera_is_retiring(uint32_t state) {
    return state - WH_TESSERA_RETIRING / 2 < WH_TESSERA_RETIRING;
}

/* --- spans: what a cursor holds ----------------------------------------------------------
 *
 * 64 bits: first chunk 24 | slots 20 | position 20, the position on top: adding to it can
 * overflow out of the word, but not into the other fields. */

#define WH_TESSERA_POSITION ((uint64_t)1 << 44)
#define WH_TESSERA_MAX_CHUNKS ((1u << 24) - 2)
#define WH_TESSERA_CLOSED_CHUNK ((1u << 24) - 1)
#define WH_TESSERA_CLOSED ((uint64_t)WH_TESSERA_CLOSED_CHUNK)
#define WH_TESSERA_VACANT ((uint64_t)0)          /* used up from the start */
#define WH_TESSERA_UNDER_WAY WH_TESSERA_POSITION /* vacant, and somebody refills it */

WH_HD WH_CONSTEXPR uint64_t wh_tessera_span(uint32_t first, uint32_t slots, uint32_t position) {
    wh_assert_internal(first < WH_TESSERA_CLOSED_CHUNK && (slots | position) >> 20 == 0);
    return (uint64_t)position << 44 | (uint64_t)slots << 24 | first;
}
WH_HD uint32_t wh_tessera_span_first(uint64_t span) {
    return wh_low_u32(span) & WH_TESSERA_CLOSED_CHUNK;
}
WH_HD uint32_t wh_tessera_span_slots(uint64_t span) {
    return (uint32_t)(span >> 24) & 0xfffff;
}
WH_HD uint32_t wh_tessera_span_position(uint64_t span) {
    return wh_high_u32(span) >> 12;
}
WH_HD int wh_tessera_is_closed(uint64_t span) {
    return wh_tessera_span_first(span) == WH_TESSERA_CLOSED_CHUNK;
}
WH_HD int wh_tessera_has_slots(uint64_t span) {
    return wh_tessera_span_position(span) < wh_tessera_span_slots(span);
}
/* Whether an add would find a slot, or make its caller the refiller. */
WH_HD int wh_tessera_is_open(uint64_t span) {
    return wh_tessera_span_position(span) <= wh_tessera_span_slots(span) &&
           !wh_tessera_is_closed(span);
}
/* Whether an add of n that returned `span` makes the caller the refiller (cursor.h C1). */
WH_HD int wh_tessera_passes_end(uint64_t span, uint32_t n) {
    return wh_tessera_is_open(span) &&
           wh_tessera_span_position(span) + n > wh_tessera_span_slots(span);
}
/* A span that is not open, without what others may have added to it. */
WH_HD uint64_t wh_tessera_no_slots(uint64_t span) {
    return wh_tessera_is_closed(span) ? WH_TESSERA_CLOSED : WH_TESSERA_UNDER_WAY;
}
/* Whether nobody refills the cursor, and it has no slots. */
WH_HD int wh_tessera_is_settled(uint64_t span) {
    return wh_tessera_is_closed(span) ||
           wh_tessera_span_position(span) == wh_tessera_span_slots(span);
}

#include "warpheap/detail/simt/end.h"

#endif

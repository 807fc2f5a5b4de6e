/* alloc/tessera/tag.h: the packed words: tags of chunks, packs, spans of cursors, states and words
 * of slabs. Arithmetic only. This file may change: it is no part of the API.
 *
 * Tag     stored by the owner of a claimed chunk, before P2 (spans.h) or the chunk's first words
 *         (slab.h P7) publish it
 * I3      the tag of a chunk does not change while any of its slots is in a caller's hand. So free
 *         may trust it, whatever order its load has
 * I9      pack: its slots are its blocks in the order of their addresses, without a gap. The tags
 *         of its chunks say where they start, all before the first malloc of it returns, and then
 *         stay (I3). Its word is like one of a slab of as many slots (slab.h I4, partial.h T1)
 * Check   tests/unit/tessera_layout.c, tests/unit/tessera_packs.c (I9)
 */
#ifndef WH_ALLOC_TESSERA_TAG_H
#define WH_ALLOC_TESSERA_TAG_H

#include "warpheap/detail/alloc/tessera/size_class.h"

#include "warpheap/detail/simt/begin.h"

/* --- tags: what a chunk is ------------------------------------------------------------
 *
 * 64 bits: kind 2 | class 6 | order 3 | slot size / 16: 13 | shard 8 | divisor of the slot
 * size / 16: 32. All chunks of a slab carry the same tag. */

#define WH_TESSERA_FREE 0u  /* not used since the last reset, or last a slab of several words */
#define WH_TESSERA_SLAB 1u  /* part of a slab, or was last */
#define WH_TESSERA_RUN 2u   /* first chunk of a run, or was last */
#define WH_TESSERA_INNER 3u /* another chunk of a run, or was last; a pack, if of class PACK */

WH_HD uint64_t wh_tessera_slab_tag(uint32_t c, uint32_t order, uint32_t slot_size) {
    wh_assert_internal(c < WH_TESSERA_PACK && order <= WH_TESSERA_MAX_SPAN_LOG2);
    wh_assert_internal(slot_size % 16 == 0 && slot_size >> 4 < 1u << 13);
    const uint32_t size16 = slot_size >> 4;
    return (uint64_t)wh_tessera_divisor(size16) << 32 | size16 << 11 | order << 8 | c << 2 |
           WH_TESSERA_SLAB;
}
/* The shard whose cursor holds the slab, or last did. */
WH_HD uint64_t wh_tessera_with_shard(uint64_t tag, uint32_t shard) {
    wh_assert_internal(shard < 1u << 8);
    return (tag & ~((uint64_t)0xff << 24)) | shard << 24;
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
WH_HD uint32_t wh_tessera_tag_shard(uint64_t tag) {
    return (uint32_t)tag >> 24 & 0xff;
}
/* Slot that starts at byte x of a slab, x < 1 MiB; a number that is not below its slots, if none
 * does. The upper half of the product of x / 8 and the divisor is the quotient of x / 16 = q d + r.
 * The lower one is 2 (q e + r by_d), with e < d the error of the divisor: less than 2^18 <= by_d if
 * r is 0, else at least by_d. Bit 3 of x counts as r = 1/2; the bits below it become the highest of
 * the factor, and make a quotient that no slab has. */
WH_HD uint32_t wh_tessera_tag_slot(uint64_t tag, uint32_t x) {
    wh_assert_internal(wh_tessera_kind(tag) != WH_TESSERA_SLAB || x < 1u << 20);
    const uint32_t by = wh_high_u32(tag);
    const uint64_t product = wh_mul_wide_u32(x >> 3 | x << 29, by);
    const uint32_t slot = wh_high_u32(product);
    return wh_low_u32(product) < by ? slot : UINT32_MAX;
}
/* Slots of a slab with this tag: 2^slab_log2 / 16 times the divisor, over 2^31; slab_log2 <= 20. */
WH_HD uint32_t wh_tessera_slab_slots(uint64_t tag, uint32_t chunk_log2) {
    wh_assert_internal(wh_tessera_kind(tag) != WH_TESSERA_SLAB ||
                       chunk_log2 + wh_tessera_tag_order(tag) <= 20);
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
    wh_assert_internal(slots - 1 < WH_WARP_SIZE && slot <= slots);
    wh_assert_internal(at < chunks && chunks <= WH_TESSERA_PACK_CHUNKS);
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
    wh_assert_internal(wh_tessera_is_pack(tag));
    return wh_low_u32(tag) >> 18 & 15;
}
WH_HD uint32_t wh_tessera_pack_chunks(uint64_t tag) {
    wh_assert_internal(wh_tessera_is_pack(tag));
    return (wh_low_u32(tag) >> 22 & 15) + 1;
}
WH_HD uint32_t wh_tessera_granule_log2(uint32_t chunk_log2) {
    return chunk_log2 - 5;
}
/* Granules that n > 0 bytes take. */
WH_HD uint32_t wh_tessera_granules(uint32_t n, uint32_t chunk_log2) {
    wh_assert_internal(n > 0);
    return ((n - 1) >> wh_tessera_granule_log2(chunk_log2)) + 1;
}
/* Slot of the block that starts at byte x of a chunk with this tag, of whose number the lower bits
 * count; a number that no pack has, if none does. */
WH_HD uint32_t wh_tessera_pack_slot(uint64_t tag, uint32_t x, uint32_t chunk_log2) {
    wh_assert_internal(wh_tessera_is_pack(tag));
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
    wh_assert_internal(first < WH_TESSERA_CLOSED_CHUNK && (slots | position) >> 20 == 0);
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

/* Chunks of a span that counts as held by its shard: not of a first one, which lie below `begin`.
 */
WH_HD uint32_t wh_tessera_chunks_of_(wh_tessera_class cls, uint32_t begin, uint64_t span) {
    const uint32_t slots = wh_tessera_span_slots(span);
    return slots == 0 || wh_tessera_span_first(span) < begin
               ? 0
               : wh_tessera_divide(slots, cls.by_slots) << wh_tessera_order(cls);
}

/* --- states: slabs of more than one word ----------------------------------------------------
 *
 * 32 bits: EMPTY + words that are not empty + pinners << 16. EMPTY is not 0, since the count
 * follows the words late: a word is counted as empty before it was counted as used. */

#define WH_TESSERA_USED_WORD 1u /* a word that is not empty */
#define WH_TESSERA_PINNER (1u << 16)
#define WH_TESSERA_EMPTY 256u /* all words are empty, no pinners; or no slab of several words */
/* Of a slab of so many slots of which none has been freed. */
WH_HD uint32_t wh_tessera_fresh_state(uint32_t slots) {
    wh_assert_internal(slots > 64 && slots <= 1024);
    return WH_TESSERA_EMPTY + ((slots + 63) >> 6) * WH_TESSERA_USED_WORD;
}

/* --- words of a slab ---------------------------------------------------------------------- */

WH_HD uint32_t wh_tessera_words_log2(uint32_t chunk_log2) { /* words of a chunk: 1 KiB each */
    return chunk_log2 - 10;
}

/* Slots of word i of a slab, as a mask. */
WH_HD uint64_t wh_tessera_slot_bits(uint32_t slots, uint32_t i) {
    wh_assert_internal(64 * i < slots);
    return ~wh_ones_from_u64(slots - 64 * i);
}

/* The first slot of a word has the tail bits besides its own, so that empty is all ones for every
 * class: a taker that knows the slab from an earlier life sees it, too (slab.h I4). These bits of
 * word i. */
WH_HD uint64_t wh_tessera_tail_bits(uint32_t slots, uint32_t i) {
    wh_assert_internal(64 * i < slots);
    return wh_ones_from_u64(slots - 64 * i);
}
#define WH_TESSERA_ALL_FREE (~(uint64_t)0) /* a word all of whose slots are free */
/* The bits of slots of a word: all that belong to them. */
WH_HD uint64_t wh_tessera_with_tail(uint64_t slots, uint64_t tail) {
    const uint32_t with = 0 - (wh_low_u32(slots) & 1);
    return slots | (tail & ((uint64_t)with << 32 | with));
}

#include "warpheap/detail/simt/end.h"

#endif

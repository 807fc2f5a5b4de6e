/* alloc/floor: a measured floor, not an allocator. malloc and free make the accesses to memory that
 * no allocator with a cursor per SM and class and a word of bits per slab can leave out, one after
 * the other, and no others: there is no slow path, nothing is taken back, and what is handed out
 * wraps around and overlaps live blocks. What a kernel takes with this is what a correct allocator
 * of that kind could take if it never had anything else to do; alloc/null is the floor without
 * state.
 *
 *   floor        as below
 *   floor-plain  the same, but free adds its bits without order and does not wait for what was
 *                there before: the difference is the price of these two
 *
 * Round trips to memory, those that depend on each other
 *   malloc  1 per group of lanes that want one class: a relaxed fetch_add on the cursor of their SM
 *           and class. The row of the class is loaded meanwhile. Where a slot is the first of a
 *           chunk, its lane stores the chunk's tag, which nobody waits for
 *   free    2: the chunk's tag, from which the slot's word follows; an acq_rel fetch_or on it, per
 *           group of lanes with one word, whose result is looked at. floor-plain: 1, and an or
 *           without a result
 *
 * Left out
 *   the end of a span, and whose slots come next; which slabs have free slots, and taking these;
 *   slabs that are all free. A full warp's malloc of one class, two dependent atomics in tessera,
 *   is one here. A run for a large block is one bit and the tag of its first chunk. Bad and double
 *   frees are not noticed, and a full heap does not say NULL
 *
 * Classes  Size classes, orders of slabs and the division that finds a slot come from
 *   tessera/layout.h, on purpose: a request is to get as large a slot of as large a slab as in
 *   tessera, so that the two compare, and what tessera takes beyond this is its bookkeeping.
 *   Nothing else of tessera is used
 *
 * Layout  | header | rows | cursors | tags | words | chunks ... |
 *   chunk   16 KiB
 *   set     cursors of one SM; SMs share some in a small heap, as in tessera
 *   region  of a set: 2^k chunks from chunk set * stride on, k the same for all. Together they
 *           cover the heap, and what two of them share is the less the nearer a set's share is
 *           to 2^k
 *   slab    2^order chunks of 32 to 63 slots, or one chunk of more: tessera's classes
 *   slot    x of a set and class is slot x % slots of slab x / slots of the region, modulo its
 *           slabs. So a class wraps when it has used the region, not a share of it. Classes start
 *           at different places of the region, so that mixed sizes are not all in one
 *   word    64 bits for 64 slots of a slab; as many bytes apart as tessera's
 *
 * Fields and who writes them
 *   next    fetch_add by malloc, relaxed: slots handed out; for large blocks chunks. The low 32
 *           bits count
 *   tag     store by malloc, relaxed: order and divisor of the slab that the chunk was last in.
 *           Free may read that of another class, or an old one: it then takes another word
 *   word    fetch_or by free. Never set otherwise, not even by init
 *   lost    free, relaxed: words found without a bit that was just set
 *
 * I1  a tag is that of a row, whatever it is read for; so the word that free finds is in the heap
 * I2  the bits that free has set are there, and there is at least one: lost stays 0. No value of a
 *     word means anything else
 *
 * P1  free: fetch_or acq_rel, which is to order the user's last writes before the use by the next
 *     owner, and to see those of other frees of the slab. Here nobody is on the other side
 *
 * Progress  wait-free. It may change.
 * Check  tests/unit/floor.c; wh_floor_check (I1, I2); tests/conform, as far as blocks may overlap
 */
#ifndef WH_ALLOC_FLOOR_H
#define WH_ALLOC_FLOOR_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/tessera/layout.h" /* see Classes */
#include "warpheap/core/warp_group.h"
#include "warpheap/core/size_class.h"

#include "warpheap/detail/simt/begin.h"

#define WH_FLOOR_CHUNK_LOG2 14u
#define WH_FLOOR_CHUNK (1u << WH_FLOOR_CHUNK_LOG2)
#define WH_FLOOR_LARGE 63u      /* instead of a class: more than a chunk */
#define WH_FLOOR_WORDS_LOG2 4u  /* words of a chunk */
#define WH_FLOOR_SET_CHUNKS 256 /* of the heap for each set of cursors */
#define WH_FLOOR_MOST_CHUNKS ((1u << 24) - 2)

typedef struct wh_floor_row {
    uint32_t slots;    /* of a slab */
    uint32_t by_slots; /* floor((2^32 - 1) / slots) */
    uint32_t size;     /* of a slot, a multiple of 16 */
    uint32_t order;    /* log2 of a slab's chunks */
    uint64_t tag;      /* divisor of size / 16 in the upper half, order in the lower */
    uint64_t padding;
} wh_floor_row;

typedef struct wh_floor_cursor {
    uint64_t next;
    uint64_t padding[3];
} wh_floor_cursor;

typedef struct wh_floor_header {
    uint64_t lost;
    uint64_t padding[15];
} wh_floor_header;

typedef struct wh_floor_ref {
    unsigned char *base; /* the first chunk */
    uint64_t bytes;      /* of all chunks */
    uint64_t *tags;
    uint64_t *words;
    wh_floor_cursor *cursors;
    wh_floor_row *rows;
    wh_floor_header *header;
    uint32_t n_chunks;
    uint32_t n_sets;
    uint32_t set_scale; /* set = SM * set_scale >> 16 */
    uint32_t stride;    /* chunks from one set's region to the next one's */
    uint32_t region;    /* chunks of a set's region: 2^k */
    uint32_t max_order; /* of a slab */
} wh_floor_ref;

/* Rows and a set's cursors: one a class, and those for large blocks. */
#define WH_FLOOR_ROWS 64u

WH_FN_HOST uint64_t wh_floor_metadata_(uint64_t n_chunks, uint64_t n_sets) {
    const uint64_t bytes = sizeof(wh_floor_header) + WH_FLOOR_ROWS * sizeof(wh_floor_row) +
                           n_sets * WH_FLOOR_ROWS * sizeof(wh_floor_cursor) +
                           n_chunks * (8 + (8u << WH_FLOOR_WORDS_LOG2));
    return wh_round_up(bytes, 256);
}

WH_FN_HOST wh_status wh_floor_plan(wh_floor_ref *h, wh_plan *plan, unsigned char *memory,
                                   uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)options;
    uint64_t sets = (bytes >> WH_FLOOR_CHUNK_LOG2) / WH_FLOOR_SET_CHUNKS;
    sets = sets < n_sms ? sets : n_sms;
    sets = sets == 0 ? 1 : sets;
    plan->min_bytes = wh_floor_metadata_(1, 1) + WH_FLOOR_CHUNK;
    plan->metadata_bytes = bytes;
    plan->init_items = 1;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    const uint64_t each = WH_FLOOR_CHUNK + 8 + (8u << WH_FLOOR_WORDS_LOG2);
    uint64_t n = (bytes - wh_floor_metadata_(0, sets)) / each;
    n = n < WH_FLOOR_MOST_CHUNKS ? n : WH_FLOOR_MOST_CHUNKS;
    n -= wh_floor_metadata_(n, sets) + (n << WH_FLOOR_CHUNK_LOG2) > bytes; /* rounded up */
    plan->metadata_bytes = bytes - (n << WH_FLOOR_CHUNK_LOG2);
    plan->init_items = n;
    h->header = (wh_floor_header *)(void *)memory;
    h->rows = (wh_floor_row *)(void *)(memory + sizeof(wh_floor_header));
    h->cursors = (wh_floor_cursor *)(void *)(memory + sizeof(wh_floor_header) +
                                             WH_FLOOR_ROWS * sizeof(wh_floor_row));
    h->tags = (uint64_t *)(void *)(memory + sizeof(wh_floor_header) +
                                   WH_FLOOR_ROWS * sizeof(wh_floor_row) +
                                   sets * WH_FLOOR_ROWS * sizeof(wh_floor_cursor));
    h->words = h->tags + n;
    h->base = memory + wh_floor_metadata_(n, sets);
    h->bytes = n << WH_FLOOR_CHUNK_LOG2;
    h->n_chunks = (uint32_t)n;
    h->n_sets = (uint32_t)sets;
    h->set_scale = (uint32_t)((sets << 16) / n_sms);
    h->max_order = WH_TESSERA_MAX_SLAB_LOG2;
    while (h->max_order > 0 && (uint64_t)64 << h->max_order > n) {
        h->max_order--;
    }
    const uint64_t region = (uint64_t)1 << wh_log2_ceil((n + sets - 1) / sets);
    h->region = (uint32_t)(region <= n ? region : region >> 1);
    h->stride = sets == 1 ? 0 : (h->n_chunks - h->region) / (h->n_sets - 1);
    h->stride &= 0 - (1u << h->max_order); /* slabs lie at multiples of what they are */
    return WH_OK;
}

WH_HD wh_floor_row wh_floor_make_row_(uint32_t c, uint32_t max_order) {
    wh_floor_row row;
    const uint32_t bound = c == WH_FLOOR_LARGE ? WH_FLOOR_CHUNK : wh_tessera_bound(c);
    row.order =
        c == WH_FLOOR_LARGE
            ? 0
            : wh_log2_floor(wh_tessera_make_class(c, WH_FLOOR_CHUNK_LOG2, max_order).chunks);
    const uint32_t slab = WH_FLOOR_CHUNK << row.order;
    row.slots = slab / bound;
    row.size = slab / row.slots & ~15u;
    row.by_slots = UINT32_MAX / row.slots;
    row.tag = (uint64_t)wh_tessera_divisor(row.size >> 4) << 32 | row.order;
    row.padding = 0;
    return row;
}

/* x / d, any x, with by_d = floor((2^32 - 1) / d): the product is too small by less than d. */
WH_HD uint32_t wh_floor_divide_(uint32_t x, uint32_t d, uint32_t by_d) {
    const uint32_t q = (uint32_t)((uint64_t)x * by_d >> 32);
    wh_assert_internal(d != 0 && by_d == UINT32_MAX / d);
    return q + (x - q * d >= d ? 1 : 0);
}

/* The word for the slot at a byte of the chunks, by the tag there; *slot: which of its slab. */
WH_HD uint32_t wh_floor_word_(uint64_t tag, uint64_t offset, uint32_t *slot) {
    const uint32_t order = (uint32_t)tag;
    const uint32_t slab = (uint32_t)(offset >> WH_FLOOR_CHUNK_LOG2) & (0 - (1u << order));
    const uint32_t x = (uint32_t)offset & ((WH_FLOOR_CHUNK << order) - 1);
    *slot = wh_tessera_divide(x >> 4, (uint32_t)(tag >> 32));
    return (slab << WH_FLOOR_WORDS_LOG2) + (*slot >> 6);
}

/* First value of a cursor: slots in front of the chunk at which the class begins. Multiples of the
 * golden ratio, modulo 1, lie well apart, whichever classes in a row are in use. */
WH_HD uint64_t wh_floor_start_(wh_floor_row row, uint32_t c, uint32_t region) {
    const uint32_t chunk = (uint32_t)((uint64_t)(c * 2654435769u) * region >> 32);
    return (uint64_t)(chunk >> row.order) * row.slots;
}

WH_FN void wh_floor_init(wh_floor_ref h, uint64_t i, uint64_t n) {
    const wh_floor_row large = wh_floor_make_row_(WH_FLOOR_LARGE, h.max_order);
    const uint32_t classes = wh_tessera_class_of(WH_FLOOR_CHUNK) + 1;
    if (i == 0) {
        wh_store_u64_relaxed(&h.header->lost, 0);
    }
    for (uint64_t c = i; c < WH_FLOOR_ROWS; c += n) { /* past the last class: as large blocks */
        h.rows[c] = wh_floor_make_row_(c < classes ? (uint32_t)c : WH_FLOOR_LARGE, h.max_order);
    }
    for (uint64_t k = i; k < h.n_sets * WH_FLOOR_ROWS; k += n) {
        const uint32_t c = (uint32_t)k % WH_FLOOR_ROWS;
        const wh_floor_row row = wh_floor_make_row_(c < classes ? c : WH_FLOOR_LARGE, h.max_order);
        wh_store_u64_relaxed(&h.cursors[k].next, wh_floor_start_(row, c, h.region));
    }
    for (uint64_t k = i; k < h.n_chunks; k += n) {
        wh_store_u64_relaxed(&h.tags[k], large.tag);
    }
}

/* together: a constant; the whole warp calls, in groups of one class. Else each lane for itself. */
WH_FN void *wh_floor_malloc_(wh_floor_ref h, int together, size_t n) {
    const int served = (uint64_t)n - 1 < h.bytes; /* not so for 0 */
    const int is_slot = (uint64_t)n - 1 < WH_FLOOR_CHUNK;
    const uint32_t c = is_slot ? wh_tessera_class_of((uint32_t)n) : WH_FLOOR_LARGE;
    const uint32_t chunks = is_slot ? 1 : (uint32_t)((n - 1) >> WH_FLOOR_CHUNK_LOG2) + 1;
    const uint32_t large = served ? WH_FLOOR_ROWS + chunks : UINT32_MAX;
    const uint32_t kind = is_slot ? c : large;
    const wh_group same = together ? wh_group_by_u32(WH_FULL_WARP, kind) : wh_group_alone();
    const uint32_t sm_set = wh_sm_id() * h.set_scale >> 16;
    const uint32_t set = sm_set < h.n_sets ? sm_set : h.n_sets - 1;
    const wh_floor_row row = h.rows[c];
    uint32_t x = 0;
    if (served && wh_group_leads(same)) {
        x = (uint32_t)wh_fetch_add_u64_relaxed(&h.cursors[set * WH_FLOOR_ROWS + c].next,
                                               same.n * chunks);
    }
    x = (together ? wh_shfl_u32(WH_FULL_WARP, x, same.leader) : x) + same.rank * chunks;
    if (!served) {
        return NULL;
    }
    uint32_t chunk = set * h.stride, at = 0; /* where the slot begins: a chunk, and bytes from it */
    if (is_slot) {
        const uint32_t slab = wh_floor_divide_(x, row.slots, row.by_slots);
        chunk += slab << row.order & (h.region - 1);
        at = (x - slab * row.slots) * row.size;
    } else {
        chunk = (chunk + x % h.n_chunks) % (h.n_chunks - chunks + 1);
    }
    if ((at & (WH_FLOOR_CHUNK - 1)) < row.size) { /* the first that begins in its chunk */
        wh_store_u64_relaxed(&h.tags[chunk + (at >> WH_FLOOR_CHUNK_LOG2)], row.tag); /* I1 */
    }
    wh_assert_internal(chunk + (at >> WH_FLOOR_CHUNK_LOG2) < h.n_chunks);
    return h.base + ((uint64_t)chunk << WH_FLOOR_CHUNK_LOG2) + at;
}

WH_FN void *wh_floor_malloc(wh_floor_ref h, wh_mask mask, size_t n) {
    return mask == WH_FULL_WARP ? wh_floor_malloc_(h, 1, n) : wh_floor_malloc_(h, 0, n);
}

/* together and ordered are constants wherever this is called. */
WH_FN void wh_floor_free_in_(wh_floor_ref h, int together, void *p, int ordered) {
    const uint64_t offset = (uint64_t)((unsigned char *)p - h.base);
    uint32_t slot = 0, word = UINT32_MAX;
    if (offset < h.bytes) { /* not so for NULL */
        word = wh_floor_word_(wh_load_u64_relaxed(&h.tags[offset >> WH_FLOOR_CHUNK_LOG2]), offset,
                              &slot);
    }
    wh_group same = wh_group_alone();
    uint64_t bits = (uint64_t)1 << (slot & 63);
    if (together) {
        if (ordered) {
            wh_syncwarp(WH_FULL_WARP); /* every lane's last use comes before its leader's release */
        }
        same = wh_group_by_u32(WH_FULL_WARP, word);
        bits = wh_group_bits_u64(WH_FULL_WARP, same, slot, word != UINT32_MAX);
    }
    wh_assert_internal(word == UINT32_MAX || word < h.n_chunks << WH_FLOOR_WORDS_LOG2); /* I1 */
    if (word != UINT32_MAX && wh_group_leads(same)) {
        if (!ordered) {
            wh_or_u64_relaxed(&h.words[word], bits);
        } else if ((wh_fetch_or_u64_acq_rel(&h.words[word], bits) | bits) == 0) { /* P1, I2 */
            wh_add_u64_relaxed(&h.header->lost, 1);
        }
    }
}

WH_FN void wh_floor_free_(wh_floor_ref h, wh_mask mask, void *p, int ordered) {
    if (mask == WH_FULL_WARP) {
        wh_floor_free_in_(h, 1, p, ordered);
    } else {
        wh_floor_free_in_(h, 0, p, ordered);
    }
}

WH_FN void wh_floor_free(wh_floor_ref h, wh_mask mask, void *p) {
    wh_floor_free_(h, mask, p, 1);
}

WH_FN int wh_floor_owns(wh_floor_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.bytes;
}

WH_FN void wh_floor_check(wh_floor_ref h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint64_t k = i; k < h.n_chunks; k += n) {
        const uint64_t tag = wh_load_u64_relaxed(&h.tags[k]);
        uint32_t c = 0;
        while (c < WH_FLOOR_ROWS && h.rows[c].tag != tag) {
            c++;
        }
        if (c == WH_FLOOR_ROWS) {
            wh_report_error(r, 1, k);
        }
    }
    if (i == 0 && wh_load_u64_relaxed(&h.header->lost) != 0) {
        wh_report_error(r, 2, 0);
    }
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_floor_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_floor_ref, field),
        sizeof(wh_floor_ref),
        WH_F_(base) WH_F_(bytes) WH_F_(tags) WH_F_(words) WH_F_(cursors) WH_F_(rows) WH_F_(header)
        WH_F_(n_chunks) WH_F_(n_sets) WH_F_(set_scale) WH_F_(stride) WH_F_(region) WH_F_(max_order)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_floor_header, field),
        sizeof(wh_floor_header),
        WH_F_(lost)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_floor_cursor, field),
        sizeof(wh_floor_cursor),
        WH_F_(next)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_floor_row, field),
        sizeof(wh_floor_row),
        WH_F_(slots) WH_F_(by_slots) WH_F_(size) WH_F_(order) WH_F_(tag)
#undef WH_F_
        WH_FLOOR_CHUNK_LOG2, WH_FLOOR_ROWS, WH_FLOOR_WORDS_LOG2, WH_FLOOR_SET_CHUNKS,
    };
    return wh_layout_hash("floor", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

#define wh_floor_NAME "floor"
#define wh_floor_aligned WH_NO_ALIGNED
#define wh_floor_usable_size WH_NO_USABLE_SIZE
#define wh_floor_stats WH_NO_STATS
#define wh_floor_walk WH_NO_WALK
#define wh_floor_left WH_NO_LEFT
#define wh_floor_MAX_ALIGN 16u
#define wh_floor_BLOCKS 6 /* as tessera: with 32 registers the benchmark's churn spills */
#define wh_floor_EACH 1

/* floor-plain: the same, but for free. */
#define wh_floor_plain_NAME "floor-plain"
#define wh_floor_plain_left WH_NO_LEFT
#define wh_floor_plain_MAX_ALIGN wh_floor_MAX_ALIGN
#define wh_floor_plain_BLOCKS wh_floor_BLOCKS
#define wh_floor_plain_EACH wh_floor_EACH
typedef wh_floor_ref wh_floor_plain_ref;
#define wh_floor_plain_plan wh_floor_plan
#define wh_floor_plain_layout wh_floor_layout
#define wh_floor_plain_init wh_floor_init
#define wh_floor_plain_malloc wh_floor_malloc
#define wh_floor_plain_aligned wh_floor_aligned
#define wh_floor_plain_usable_size wh_floor_usable_size
#define wh_floor_plain_owns wh_floor_owns
#define wh_floor_plain_stats wh_floor_stats
#define wh_floor_plain_check wh_floor_check
#define wh_floor_plain_walk wh_floor_walk

WH_FN void wh_floor_plain_free(wh_floor_ref h, wh_mask mask, void *p) {
    wh_floor_free_(h, mask, p, 0);
}

#include "warpheap/detail/simt/end.h"

#endif

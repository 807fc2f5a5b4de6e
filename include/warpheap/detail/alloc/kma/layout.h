/* alloc/kma/layout.h: structures of the heap, how they are laid out, and their inspection.
 * It may change.
 *
 * Fields and who writes them (device scope)
 *   pool    superblocks of no class (core/chunk_pool.h): "the free list", a queue
 *   states  of a superblock: class + 1 << 32 | blocks that can be reserved; 0: of no class. Who
 *           takes it from the pool: store release; malloc: cas acq_rel; free: fetch_add acq_rel;
 *           who finds it empty: cas acq_rel to 0
 *   bits    of a superblock: a bit for each block that nobody has. malloc: fetch_and acquire; free:
 *           fetch_or release; who takes it from the pool: store
 *   map     "the hash map": for each class 2^map_log2 entries: a superblock + 1; 0: none; BUSY.
 *           malloc, free: cas; who has made it BUSY: store
 * Invariants
 *   I1  blocks that can be reserved = bits that are set, less those that lanes have reserved and
 *       not found yet, or freed and not counted yet. So who has reserved finds a bit
 *   I2  a superblock whose blocks can all be reserved belongs to the lane that makes its state 0.
 *       When quiet, a superblock is in the pool or has a class, and then some block is live
 */
#ifndef WH_ALLOC_KMA_LAYOUT_H
#define WH_ALLOC_KMA_LAYOUT_H

#include "warpheap/core/chunk_pool.h"
#include "warpheap/core/size_class.h"
#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/kma/options.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_KMA_SUPERBLOCK 4096u
#else
#define WH_KMA_SUPERBLOCK 16384u
#endif
#define WH_KMA_CLASSES 13u /* 16 bytes to 64 KiB */
#define WH_KMA_MAP_LOG2 6u /* entries of a class at most */
#define WH_KMA_NONE UINT32_MAX
#define WH_KMA_BUSY UINT32_MAX

typedef struct wh_kma_header {
    wh_chunk_pool_words pool;
    uint64_t failed;
    uint64_t bad_frees;
    uint32_t map[WH_KMA_CLASSES << WH_KMA_MAP_LOG2];
} wh_kma_header;

typedef struct wh_kma_ref {
    unsigned char *base; /* of superblock 0 */
    wh_kma_header *header;
    uint64_t *states;
    uint64_t *bits;
    uint32_t *entries; /* of the pool's ring */
    uint32_t n;        /* superblocks */
    uint32_t n_log2;   /* of entries */
    uint32_t log2;     /* of a superblock's bytes */
    uint32_t map_log2;
} wh_kma_ref;

WH_HD uint32_t wh_kma_words_(uint32_t log2) { /* of bits, for a superblock */
    return log2 > 10 ? 1u << (log2 - 10) : 1;
}
WH_HD uint32_t wh_kma_blocks_(wh_kma_ref h, uint32_t c) { /* of a superblock */
    return 1u << (h.log2 - 4 - c);
}
WH_HD uint32_t wh_kma_class_of_state_(uint64_t state) { /* NONE: 0 */
    return (uint32_t)(state >> 32) - 1;
}

WH_FN_HOST uint64_t wh_kma_metadata_(uint64_t n, uint32_t log2) {
    return sizeof(wh_kma_header) + n * 8 + n * wh_kma_words_(log2) * 8 +
           ((uint64_t)4 << wh_log2_ceil(n));
}

WH_FN_HOST wh_status wh_kma_plan(wh_kma_ref *h, wh_plan *plan, unsigned char *memory,
                                 uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_kma_options *o = (const wh_kma_options *)options;
    const uint64_t size = o->superblock_bytes != 0 ? o->superblock_bytes : WH_KMA_SUPERBLOCK;
    (void)n_sms;
    if (!wh_is_pow2(size) || size < 256 || size > 1u << 16) {
        return WH_BAD_ARGUMENT;
    }
    h->log2 = wh_ctz64(size);
    plan->min_bytes = size + wh_kma_metadata_(1, h->log2);
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    uint64_t n = bytes / size;
    n = n < 1u << 31 ? n : 1u << 31;
    while (n > 1 && n * size + wh_kma_metadata_(n, h->log2) > bytes) {
        const uint64_t over = n * size + wh_kma_metadata_(n, h->log2) - bytes;
        const uint64_t less = over / (size + size / 64 + 64); /* one brings at most that */
        n -= less > 1 ? less : 1;
    }
    h->n = (uint32_t)n;
    h->n_log2 = wh_log2_ceil(n);
    h->map_log2 = 0; /* an entry for each 64 superblocks */
    while (h->map_log2 < WH_KMA_MAP_LOG2 && n >> (h->map_log2 + 7) != 0) {
        h->map_log2++;
    }
    plan->metadata_bytes = bytes - n * size;
    plan->init_items = (uint64_t)1 << h->n_log2;
    if (memory != NULL) {
        h->base = memory;
        h->header = (wh_kma_header *)(void *)(memory + n * size);
        h->states = (uint64_t *)(void *)(h->header + 1);
        h->bits = h->states + n;
        h->entries = (uint32_t *)(void *)(h->bits + n * wh_kma_words_(h->log2));
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_kma_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_kma_ref, field),
        sizeof(wh_kma_ref),
        WH_F_(base) WH_F_(header) WH_F_(states) WH_F_(bits) WH_F_(entries) WH_F_(n) WH_F_(n_log2)
        WH_F_(log2) WH_F_(map_log2)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_kma_header, field),
        sizeof(wh_kma_header),
        WH_F_(pool) WH_F_(failed) WH_F_(bad_frees) WH_F_(map)
#undef WH_F_
        WH_KMA_SUPERBLOCK, WH_KMA_CLASSES, WH_KMA_MAP_LOG2,
    };
    return wh_layout_hash("kma", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

/* The pool, which has no large chunks: the second ring is never used. */
WH_FN wh_chunk_pool wh_kma_pool_(wh_kma_ref h) {
    wh_chunk_pool p;
    wh_chunk_pool_bind(&p, &h.header->pool);
    p.entries[0] = p.entries[1] = h.entries;
    p.entries_log2[0] = h.n_log2;
    p.entries_log2[1] = 0;
    p.loose_tree = wh_veb_make(NULL, 1);
    p.n = h.n;
    p.large_log2 = 31;
    return p;
}

WH_FN void wh_kma_init(wh_kma_ref h, uint64_t i, uint64_t n) {
    for (uint64_t k = i; k < (uint64_t)1 << h.n_log2; k += n) {
        wh_store_u32_relaxed(&h.entries[k], 0);
    }
    for (uint64_t k = i; k < h.n; k += n) {
        wh_store_u64_relaxed(&h.states[k], 0);
    }
    for (uint64_t k = i; k < WH_KMA_CLASSES << WH_KMA_MAP_LOG2; k += n) {
        wh_store_u32_relaxed(&h.header->map[k], 0);
    }
    if (i == 0) {
        wh_chunk_pool_reset(wh_kma_pool_(h));
        wh_store_u64_relaxed(&h.header->failed, 0);
        wh_store_u64_relaxed(&h.header->bad_frees, 0);
    }
}

/* --- inspection of a quiet heap ------------------------------------------------------------- */

WH_FN uint32_t wh_kma_bits_set_(wh_kma_ref h, uint64_t superblock) {
    const uint32_t words = wh_kma_words_(h.log2);
    uint32_t set = 0;
    for (uint32_t k = 0; k < words; k++) {
        set += wh_popc64(wh_load_u64_relaxed(&h.bits[superblock * words + k]));
    }
    return set;
}

WH_FN void wh_kma_stats(wh_kma_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    uint64_t largest = 0;
    for (uint64_t k = i; k < h.n; k += n) {
        const uint64_t state = wh_load_u64_relaxed(&h.states[k]);
        const uint32_t c = wh_kma_class_of_state_(state);
        uint64_t block = (uint64_t)1 << h.log2;
        if (c < WH_KMA_CLASSES) {
            const uint32_t all = wh_kma_blocks_(h, c), live = all - wh_low_u32(state);
            block = wh_low_u32(state) != 0 ? (uint64_t)16 << c : 0;
            wh_add_u64_relaxed(&s->classes[c].live, live);
            wh_add_u64_relaxed(&s->classes[c].capacity, all);
            wh_add_u64_relaxed(&s->live_blocks, live);
            wh_add_u64_relaxed(&s->used_bytes, (uint64_t)live << (4 + c));
        }
        largest = block > largest ? block : largest;
    }
    (void)wh_fetch_max_u64_relaxed(&s->largest_free, largest);
    if (i == 0) {
        for (uint32_t c = 0; c < WH_KMA_CLASSES; c++) {
            s->classes[c].block_bytes = (uint64_t)16 << c;
        }
        s->n_classes = WH_KMA_CLASSES;
        s->failed = wh_load_u64_relaxed(&h.header->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.header->bad_frees);
    }
}

WH_FN void wh_kma_check(wh_kma_ref h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint64_t k = i; k < h.n; k += n) {
        const uint64_t state = wh_load_u64_relaxed(&h.states[k]);
        const uint32_t c = wh_kma_class_of_state_(state);
        if (state != 0 && (c > h.log2 - 4 || wh_low_u32(state) >= wh_kma_blocks_(h, c))) {
            wh_report_error(r, 2, k);
        } else if (state != 0 && wh_kma_bits_set_(h, k) != wh_low_u32(state)) {
            wh_report_error(r, 1, k);
        }
    }
    if (i == 0) { /* I2 */
        const wh_chunk_pool p = wh_kma_pool_(h);
        uint64_t free = wh_load_u64_relaxed(wh_chunk_pool_count_(p, 0)) +
                        wh_chunk_pool_left_(p, wh_load_u64_relaxed(wh_chunk_pool_offset_(p)), 0);
        for (uint64_t k = 0; k < h.n; k++) {
            free += wh_load_u64_relaxed(&h.states[k]) != 0;
        }
        if (free != h.n) {
            wh_report_error(r, 2, free);
        }
    }
}

WH_FN void wh_kma_walk(wh_kma_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    for (uint64_t k = i; k < h.n; k += n) {
        const uint32_t c = wh_kma_class_of_state_(wh_load_u64_relaxed(&h.states[k]));
        for (uint32_t b = 0; c < WH_KMA_CLASSES && b < wh_kma_blocks_(h, c); b++) {
            const uint64_t *word = &h.bits[k * wh_kma_words_(h.log2) + b / 64];
            if ((wh_load_u64_relaxed(word) >> (b % 64) & 1) == 0) {
                wh_walk_emit(sink, h.base + (k << h.log2) + ((uint64_t)b << (4 + c)),
                             (uint64_t)16 << c);
            }
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

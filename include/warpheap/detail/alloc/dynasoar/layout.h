/* alloc/dynasoar/layout.h: how a heap of DynaSOAr lies in memory, its sets of blocks, and
 * inspection. The allocator's own header says what they are for and in which order they change.
 * Internal: may change.
 *
 * Layout  blocks and their page table (alloc/paged.h); then, in its own words, sets over all blocks
 *         (core/veb.h) of set_words each: 0 the free ones; 1 + k the active ones of stream k;
 *         1 + streams + k the allocated ones of stream k; the marked ones, level 0 alone; and a
 *         mark for each use bit. Stream: a size class (0 .. classes - 1), then a type
 */
#ifndef WH_ALLOC_DYNASOAR_LAYOUT_H
#define WH_ALLOC_DYNASOAR_LAYOUT_H

#include "warpheap/core/veb.h"
#include "warpheap/detail/alloc/dynasoar/options.h"
#include "warpheap/detail/alloc/paged.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_DYNASOAR_BLOCK 256u
#define WH_DYNASOAR_TYPES 2u
#else
#define WH_DYNASOAR_BLOCK 4096u
#define WH_DYNASOAR_TYPES 8u
#endif

typedef struct wh_dynasoar_ref {
    wh_paged paged;
    uint64_t *sets;
    uint64_t *marked;   /* of blocks, 64 a word */
    uint32_t *marks;    /* as the table's bits */
    uint32_t set_words; /* of a set, all its levels */
    uint32_t classes;
    uint32_t types;
} wh_dynasoar_ref;

WH_FN_HOST wh_status wh_dynasoar_plan(wh_dynasoar_ref *h, wh_plan *plan, unsigned char *memory,
                                      uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_dynasoar_options *o = (const wh_dynasoar_options *)options;
    const uint64_t block = o->block_bytes != 0 ? o->block_bytes : WH_DYNASOAR_BLOCK;
    const uint64_t types = o->types != 0 ? o->types : WH_DYNASOAR_TYPES;
    (void)n_sms;
    if (block < 64 || block > 1u << 20 || !wh_is_pow2(block) || types >= WH_PAGE_TAGS) {
        return WH_BAD_ARGUMENT;
    }
    wh_paged_shape shape;
    uint64_t *own = NULL;
    shape.page_log2 = wh_ctz64(block);
    h->classes = wh_page_kind_for((uint32_t)shape.page_log2, block / 2);
    h->types = (uint32_t)types;
    /* A set has a word for 64 blocks, a 63rd of that above, and less than 6 words in part. */
    const uint64_t sets = 1 + 2 * ((uint64_t)h->classes + types);
    const uint64_t mark_words = 32 * (uint64_t)wh_page_words((uint32_t)shape.page_log2);
    shape.own_words = sets + (sets + 62) / 63 + 1 + mark_words;
    shape.own_fixed = 6 * sets;
    const wh_status s = wh_paged_plan(&h->paged, plan, memory, bytes, shape, &own);
    if (s != WH_OK) {
        return s;
    }
    h->set_words = (uint32_t)wh_veb_words(h->paged.table.n);
    if (memory != NULL) {
        h->sets = own;
        h->marked = own + sets * h->set_words;
        h->marks = (uint32_t *)(void *)(h->marked + ((uint64_t)h->paged.table.n + 63) / 64);
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_dynasoar_layout(void) {
    static const uint64_t parts[] = {
        WH_PAGED_LAYOUT,
#define WH_F_(field) WH_LAYOUT_FIELD(wh_dynasoar_ref, field),
        sizeof(wh_dynasoar_ref),
        WH_F_(paged) WH_F_(sets) WH_F_(marked) WH_F_(marks) WH_F_(set_words) WH_F_(classes)
        WH_F_(types)
#undef WH_F_
        WH_DYNASOAR_BLOCK, WH_DYNASOAR_TYPES,
    };
    return wh_layout_hash("dynasoar", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

/* --- sets ------------------------------------------------------------------------------------- */

WH_FN uint32_t wh_dynasoar_streams_(wh_dynasoar_ref h) {
    return h.classes + h.types;
}
WH_FN wh_veb wh_dynasoar_set_(wh_dynasoar_ref h, uint32_t number) {
    return wh_veb_make(h.sets + (uint64_t)number * h.set_words, h.paged.table.n);
}
WH_FN wh_veb wh_dynasoar_free_set_(wh_dynasoar_ref h) {
    return wh_dynasoar_set_(h, 0);
}

/* The stream of a kind of chunk. */
WH_FN uint32_t wh_dynasoar_stream_(wh_dynasoar_ref h, uint32_t kind) {
    const uint32_t tag = wh_page_tag(kind);
    wh_assert_internal(wh_page_is_split(kind) && tag <= h.types);
    return tag == 0 ? kind - 1 : h.classes + tag - 1;
}
WH_FN wh_veb wh_dynasoar_active_(wh_dynasoar_ref h, uint32_t kind) {
    return wh_dynasoar_set_(h, 1 + wh_dynasoar_stream_(h, kind));
}
WH_FN wh_veb wh_dynasoar_allocated_(wh_dynasoar_ref h, uint32_t kind) {
    return wh_dynasoar_set_(h, 1 + wh_dynasoar_streams_(h) + wh_dynasoar_stream_(h, kind));
}

WH_FN void wh_dynasoar_init(wh_dynasoar_ref h, uint64_t i, uint64_t n) {
    const uint64_t blocks = h.paged.table.n;
    const uint64_t sets = 1 + 2 * (uint64_t)wh_dynasoar_streams_(h);
    const uint64_t marks = blocks * wh_page_words(h.paged.table.page_log2);
    wh_paged_init(h.paged, i, n);
    for (uint64_t k = i; k < sets * h.set_words; k += n) {
        const int is_free = k < h.set_words;
        wh_store_u64_relaxed(&h.sets[k], is_free ? wh_veb_initial_word(blocks, k, 1) : 0);
    }
    for (uint64_t k = i; k < (blocks + 63) / 64; k += n) {
        wh_store_u64_relaxed(&h.marked[k], 0);
    }
    for (uint64_t k = i; k < marks; k += n) {
        wh_store_u32_relaxed(&h.marks[k], 0);
    }
}

/* Whether a block with this entry has objects of that kind, and room for another. */
WH_FN int wh_dynasoar_has_room_(wh_dynasoar_ref h, uint64_t entry, uint32_t kind) {
    return wh_page_kind(entry) == kind &&
           wh_page_count(entry) < wh_page_capacity(h.paged.table.page_log2, kind);
}

/* --- inspection ------------------------------------------------------------------------------- */

WH_FN int wh_dynasoar_owns(wh_dynasoar_ref h, const void *p) {
    return wh_paged_owns(h.paged, p);
}

WH_FN uint64_t wh_dynasoar_usable_size(wh_dynasoar_ref h, const void *p) {
    return wh_paged_usable_size(h.paged, p);
}

WH_FN void wh_dynasoar_stats(wh_dynasoar_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    wh_paged_stats(h.paged, i, n, s);
}

/* Beside what alloc/paged.h checks: 3 is I1, 4 is I2, 5 is core/veb.h I2. */
WH_FN void wh_dynasoar_check(wh_dynasoar_ref h, uint64_t i, uint64_t n, wh_report *r) {
    const uint32_t streams = wh_dynasoar_streams_(h);
    const uint64_t words = (1 + 2 * (uint64_t)streams) * h.set_words;
    wh_paged_check(h.paged, i, n, r);
    for (uint64_t k = i; k < words; k += n) {
        const wh_veb set = wh_dynasoar_set_(h, (uint32_t)(k / h.set_words));
        if (!wh_veb_check(set, k % h.set_words)) {
            wh_report_error(r, 5, k);
        }
    }
    for (uint64_t block = i; block < h.paged.table.n; block += n) {
        const uint64_t entry = wh_load_u64_relaxed(&h.paged.table.entries[block]);
        const uint32_t kind = wh_page_kind(entry);
        const uint32_t stream = wh_page_is_split(kind) ? wh_dynasoar_stream_(h, kind) : streams;
        for (uint32_t k = 0; k < streams; k++) {
            const wh_veb allocated = wh_dynasoar_set_(h, 1 + streams + k);
            if (wh_veb_contains(allocated, block) != (k == stream)) {
                wh_report_error(r, 4, block); /* I2 */
            }
        }
        if (stream != streams && wh_dynasoar_has_room_(h, entry, kind) &&
            !wh_veb_contains(wh_dynasoar_active_(h, kind), block)) {
            wh_report_error(r, 3, block); /* I1 */
        }
    }
}

WH_FN void wh_dynasoar_walk(wh_dynasoar_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    wh_paged_walk(h.paged, i, n, sink);
}

#include "warpheap/detail/simt/end.h"

#endif

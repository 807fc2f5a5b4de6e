/* alloc/rwmalloc/layout.h: structures of the heap, and how they are laid out. It may change.
 *
 * Fields and who writes them (device scope)
 *   words   use words (core/use_word.h). malloc: fetch_or acquire, or cas acquire; free: add
 *           release
 *   state   RUN | n at the first unit of n; for a unit of pieces the granules where live pieces
 *           start (bits 0..15) and where pieces end (16..30; one that reaches granule 15 ends
 *           there); 0 at all others. malloc: store by the owner of the unit; free: RUN: store 0
 *           by the owner; pieces: fetch_and of a start bit, acq_rel; the last one stores 0
 * Invariants
 *   I2  state is not 0 exactly at the first unit of each live run and at units with live
 *       pieces; a used unit with state 0 belongs to the run before it. When quiet.
 *   I3  bits behind the last unit are set, always
 */
#ifndef WH_ALLOC_RWMALLOC_LAYOUT_H
#define WH_ALLOC_RWMALLOC_LAYOUT_H

#include "warpheap/detail/alloc/random_walk/layout.h"
#include "warpheap/detail/alloc/rwmalloc/options.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_RWMALLOC_UNIT 64u
#else
#define WH_RWMALLOC_UNIT 256u
#endif

#define WH_RWMALLOC_RUN 0x80000000u
#define WH_RWMALLOC_NONE UINT32_MAX
#define WH_RWMALLOC_PACKED 4u /* units: requests up to that many share words */

typedef struct wh_rwmalloc_header {
    uint64_t failed;
    uint64_t bad_frees;
} wh_rwmalloc_header;

typedef struct wh_rwmalloc_ref {
    unsigned char *base; /* of unit 0; a multiple of the unit */
    uint64_t *words;
    uint32_t *state;
    wh_rwmalloc_header *header;
    uint32_t units;
    uint32_t n_words;
    uint32_t unit_log2;
    uint32_t granule_log2; /* pieces are multiples of this: 16 bytes, or unit / 16 */
    uint32_t limit;        /* words looked at in vain before the sweep */
} wh_rwmalloc_ref;

WH_FN_HOST uint64_t wh_rwmalloc_metadata_(uint64_t units) {
    const uint64_t words = (units + WH_USE_BITS - 1) / WH_USE_BITS;
    return sizeof(wh_rwmalloc_header) + words * 8 + units * 4;
}

WH_FN_HOST wh_status wh_rwmalloc_plan(wh_rwmalloc_ref *h, wh_plan *plan, unsigned char *memory,
                                      uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_rwmalloc_options *o = (const wh_rwmalloc_options *)options;
    const uint64_t unit = o->unit_bytes != 0 ? o->unit_bytes : WH_RWMALLOC_UNIT;
    const uint64_t free_ppm = o->oom_free_ppm != 0 ? o->oom_free_ppm : WH_RANDOM_WALK_FREE_PPM;
    const uint64_t error_ppm = o->oom_error_ppm != 0 ? o->oom_error_ppm : WH_RANDOM_WALK_ERROR_PPM;
    const double free_share = (double)free_ppm / 1e6, error = (double)error_ppm / 1e6;
    (void)n_sms;
    if (unit < 16 || (unit & (unit - 1)) != 0 || unit > 1u << 20 || free_share >= 1 || error >= 1) {
        return WH_BAD_ARGUMENT;
    }
    /* The heap's memory is aligned to 256 bytes at least: what that may cost is set aside. */
    const uint64_t slack = unit > 256 ? unit - 256 : 0;
    plan->min_bytes = slack + unit + wh_rwmalloc_metadata_(1);
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    uint64_t units = (bytes - slack) / unit;
    units = units < WH_RWMALLOC_RUN ? units : WH_RWMALLOC_RUN - 1;
    while (units > 1 && slack + units * unit + wh_rwmalloc_metadata_(units) > bytes) {
        const uint64_t over = slack + units * unit + wh_rwmalloc_metadata_(units) - bytes;
        const uint64_t less = over / (unit + 16); /* a unit brings at most that */
        units -= less > 1 ? less : 1;
    }
    h->units = (uint32_t)units;
    h->n_words = (uint32_t)((units + WH_USE_BITS - 1) / WH_USE_BITS);
    h->unit_log2 = wh_ctz64(unit);
    h->granule_log2 = unit > 256 ? h->unit_log2 - 4 : 4;
    h->limit = wh_random_walk_limit(free_share, error, WH_USE_BITS);
    plan->metadata_bytes = bytes - units * unit;
    plan->init_items = h->n_words;
    if (memory != NULL) {
        const uint64_t past = (uint64_t)(uintptr_t)memory & (unit - 1);
        h->base = memory + (past != 0 ? unit - past : 0);
        unsigned char *at = h->base + units * unit;
        h->header = (wh_rwmalloc_header *)(void *)at;
        h->words = (uint64_t *)(void *)(h->header + 1);
        h->state = (uint32_t *)(void *)(h->words + h->n_words);
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_rwmalloc_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_rwmalloc_ref, field),
        sizeof(wh_rwmalloc_ref),
        WH_F_(base) WH_F_(words) WH_F_(state) WH_F_(header) WH_F_(units) WH_F_(n_words)
        WH_F_(unit_log2) WH_F_(granule_log2) WH_F_(limit)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_rwmalloc_header, field),
        sizeof(wh_rwmalloc_header),
        WH_F_(failed) WH_F_(bad_frees)
#undef WH_F_
        WH_RWMALLOC_UNIT, WH_RWMALLOC_RUN, WH_RWMALLOC_PACKED, WH_USE_BITS,
    };
    return wh_layout_hash("rwmalloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

/* State bits of a piece of g granules at granule `offset`. */
WH_HD uint32_t wh_rwmalloc_piece_(uint32_t offset, uint32_t g) {
    const uint32_t last = offset + g - 1;
    wh_assert_internal(g != 0 && last < 16);
    return 1u << offset | (last < 15 ? 1u << (16 + last) : 0);
}

/* Granules of the piece that starts at granule `offset` of a unit with that state. */
WH_HD uint32_t wh_rwmalloc_length_(uint32_t state, uint32_t offset) {
    wh_assert_internal(offset < 16);
    const uint32_t lasts = (state >> 16 & 0x7fff) | 0x8000;
    return wh_ctz32(lasts >> offset) + 1;
}

WH_FN void *wh_rwmalloc_address_(wh_rwmalloc_ref h, uint32_t unit) {
    wh_assert_internal(unit < h.units);
    return h.base + ((uint64_t)unit << h.unit_log2);
}

/* Units for n bytes; 0: more than there are. */
WH_FN uint32_t wh_rwmalloc_need_(wh_rwmalloc_ref h, size_t n) {
    const uint64_t all = (uint64_t)h.units << h.unit_log2;
    return n <= all ? (uint32_t)(((uint64_t)n + ((uint64_t)1 << h.unit_log2) - 1) >> h.unit_log2)
                    : 0;
}

WH_FN uint32_t wh_rwmalloc_exist_(wh_rwmalloc_ref h, uint64_t k) {
    const uint64_t left = h.units - k * WH_USE_BITS;
    return left >= WH_USE_BITS ? ~0u : (1u << left) - 1;
}

WH_FN void wh_rwmalloc_init(wh_rwmalloc_ref h, uint64_t i, uint64_t n) {
    if (i == 0) {
        wh_store_u64_relaxed(&h.header->failed, 0);
        wh_store_u64_relaxed(&h.header->bad_frees, 0);
    }
    for (uint64_t k = i; k < h.n_words; k += n) {
        wh_store_u64_relaxed(&h.words[k], (uint32_t)~wh_rwmalloc_exist_(h, k)); /* I3 */
    }
    for (uint64_t k = i; k < h.units; k += n) {
        wh_store_u32_relaxed(&h.state[k], 0);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/bulk/layout.h: structures of the heap, and how they are laid out. It may change.
 *
 * Layout  units of one size. A node of level l is 2^l units, at a multiple of that: what the tree
 *         gives. A bin is a node of slots of one size, at most 32; up to 8 units.
 * Fields and who writes them (device scope)
 *   set     of a level: its nodes that are available (core/veb.h); of a class: its bins with free
 *           slots
 *   fresh   of a class: nodes that are to be its next bins: what is left of a chunk (core/veb.h)
 *   sem     of a level: nodes of the set that nobody is about to take (core/bulk_semaphore.h),
 *           batches of two; of a class: free slots of the set's bins, and of those that the fresh
 *           nodes will be, batches of a chunk
 *   spare   of a class: free slots that its sem does not count, which would overflow. add, cas
 *   words   of the first unit of a block or bin; 0: of no such unit.
 *           LARGE | level << 40: a block that is a node. Its owner: store; free: cas acq_rel to 0.
 *           class + 1 << 40 | flags | free slots: a bin. Who makes it: store release; malloc: cas
 *           acq_rel; free: fetch_or acq_rel
 * Invariants
 *   I1  a unit belongs to one available or fresh node, or to one block or bin, or to a lane that is
 *       about to make one of these
 *   I2  of two buddies one at most is available, when quiet: so all that is free is one node again
 *   I3  count of a sem = items of its set less those that takers are about to take, plus or minus
 *       what a lane is about to add; when quiet they are equal, and nothing is expected or reserved
 *   I4  LISTED: one lane puts the bin into its class's set, or has. IN_SET: it has. A bin with free
 *       slots is LISTED; one without IN_SET belongs, as far as the set goes, to one lane
 */
#ifndef WH_ALLOC_BULK_LAYOUT_H
#define WH_ALLOC_BULK_LAYOUT_H

#include "warpheap/core/bulk_semaphore.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"
#include "warpheap/detail/alloc/bulk/options.h"
#include "warpheap/detail/alloc/contract.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_BULK_COUNTED 64u /* free slots of a class, above which they are spare */
#else
#define WH_BULK_COUNTED (1u << 24)
#endif
#define WH_BULK_UNIT 512u
#define WH_BULK_MOST_UNITS ((uint64_t)1 << 25) /* as many as a semaphore counts */
#define WH_BULK_ALIGN 4096u
#define WH_BULK_CLASSES 8u
#define WH_BULK_BIN_LEVEL 3u /* of the largest bins */
#define WH_BULK_SLOTS 32u
#define WH_BULK_SETS 32u /* of levels; those of classes lie behind them */
#define WH_BULK_FRESH (WH_BULK_SETS + WH_BULK_CLASSES) /* of fresh nodes */
#define WH_BULK_ALL_SETS (WH_BULK_FRESH + WH_BULK_CLASSES)
#define WH_BULK_MOST_CHUNK 5u /* log2 of the bins of a chunk: those of a semaphore's word */
#define WH_BULK_LOOKS 64u     /* at bins, before a lane gives its right back, and waits */
#define WH_BULK_APART 16u
#define WH_BULK_NONE UINT64_MAX

#define WH_BULK_LISTED ((uint64_t)1 << 32)
#define WH_BULK_IN_SET ((uint64_t)1 << 33)
#define WH_BULK_KIND 40u
#define WH_BULK_LARGE ((uint64_t)1 << 63)

typedef struct wh_bulk_header {
    uint64_t failed;
    uint64_t bad_frees;
    uint64_t spare[WH_BULK_CLASSES];
    uint32_t set_at[WH_BULK_ALL_SETS]; /* where the words of a set begin */
    uint64_t sems[(WH_BULK_SETS + WH_BULK_CLASSES) * WH_BULK_APART];
} wh_bulk_header;

typedef struct wh_bulk_ref {
    unsigned char *base; /* of unit 0, at a multiple of WH_BULK_ALIGN */
    wh_bulk_header *header;
    uint64_t *words;
    uint64_t *sets;
    uint32_t units;
    uint32_t unit_log2;
    uint32_t top;        /* the highest level */
    uint32_t chunk_log2; /* of the bins that a class takes at once */
} wh_bulk_ref;

/* Classes have slots of unit / 32, unit / 16, ... 4 units. */
WH_HD uint32_t wh_bulk_slot_log2_(uint32_t unit_log2, uint32_t c) {
    return unit_log2 - 5 + c;
}
WH_HD uint32_t wh_bulk_bin_level_(uint32_t c) {
    return c < WH_BULK_BIN_LEVEL ? c : WH_BULK_BIN_LEVEL;
}
WH_HD uint32_t wh_bulk_slots_(uint32_t c) {
    return WH_BULK_SLOTS >> (c - wh_bulk_bin_level_(c));
}
WH_HD uint64_t wh_bulk_full_(uint32_t c) { /* all slots free */
    return ~0u >> (WH_BULK_SLOTS - wh_bulk_slots_(c));
}

WH_HD uint64_t wh_bulk_set_size_(uint64_t units, uint32_t set) {
    const uint32_t level =
        set < WH_BULK_SETS ? set : wh_bulk_bin_level_((set - WH_BULK_SETS) % WH_BULK_CLASSES);
    return level < 32 ? units >> level : 0;
}

/* Words of the sets before `set`. */
WH_HD uint32_t wh_bulk_set_at_(uint64_t units, uint32_t set) {
    uint64_t sum = 0;
    for (uint32_t s = 0; s < set; s++) {
        const uint64_t n = wh_bulk_set_size_(units, s);
        sum += n != 0 ? wh_veb_words(n) : 0;
    }
    return (uint32_t)sum;
}

WH_FN_HOST uint64_t wh_bulk_metadata_(uint64_t units) {
    return sizeof(wh_bulk_header) + units * 8 +
           (uint64_t)wh_bulk_set_at_(units, WH_BULK_ALL_SETS) * 8;
}

/* log2 of a chunk's bins: as the option says, or at most 1/2048 of the heap. */
WH_HD uint32_t wh_bulk_chunk_(uint64_t bins, uint32_t top) {
    const uint32_t room = top - WH_BULK_BIN_LEVEL;
    uint32_t log2 = room > 11 ? room - 11 : 0;
    if (bins != 0) {
        log2 = wh_ctz64(bins) < room ? wh_ctz64(bins) : room;
    }
    return log2 < WH_BULK_MOST_CHUNK ? log2 : WH_BULK_MOST_CHUNK;
}

WH_FN_HOST wh_status wh_bulk_plan(wh_bulk_ref *h, wh_plan *plan, unsigned char *memory,
                                  uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_bulk_options *o = (const wh_bulk_options *)options;
    const uint64_t slack = WH_BULK_ALIGN - 256, least = 1u << WH_BULK_BIN_LEVEL;
    uint64_t unit = o->unit_bytes != 0 ? o->unit_bytes : WH_BULK_UNIT;
    (void)n_sms;
    if (!wh_is_pow2(unit) || unit < 512 || unit > 1u << 16) {
        return WH_BAD_ARGUMENT;
    }
    if (o->chunk_bins != 0 &&
        (!wh_is_pow2(o->chunk_bins) || o->chunk_bins > 1u << WH_BULK_MOST_CHUNK)) {
        return WH_BAD_ARGUMENT;
    }
    plan->min_bytes = slack + least * unit + wh_bulk_metadata_(least);
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    while (bytes / unit > WH_BULK_MOST_UNITS) {
        unit *= 2;
    }
    uint64_t units = (bytes - slack) / unit;
    while (units > least && slack + units * unit + wh_bulk_metadata_(units) > bytes) {
        const uint64_t over = slack + units * unit + wh_bulk_metadata_(units) - bytes;
        const uint64_t less = over / (unit + 64); /* a unit brings at most that */
        units -= less > 1 ? less : 1;
    }
    h->units = (uint32_t)units;
    h->unit_log2 = wh_ctz64(unit);
    h->top = wh_log2_floor(units);
    h->chunk_log2 = wh_bulk_chunk_(o->chunk_bins, h->top);
    plan->metadata_bytes = bytes - units * unit;
    plan->init_items = units;
    if (memory != NULL) {
        const uint64_t past = (uint64_t)(uintptr_t)memory & (WH_BULK_ALIGN - 1);
        h->base = memory + (past != 0 ? WH_BULK_ALIGN - past : 0);
        h->header = (wh_bulk_header *)(void *)(h->base + units * unit);
        h->words = (uint64_t *)(void *)(h->header + 1);
        h->sets = h->words + units;
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_bulk_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_bulk_ref, field),
        sizeof(wh_bulk_ref),
        WH_F_(base) WH_F_(header) WH_F_(words) WH_F_(sets) WH_F_(units) WH_F_(unit_log2)
        WH_F_(top) WH_F_(chunk_log2)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_bulk_header, field),
        sizeof(wh_bulk_header),
        WH_F_(failed) WH_F_(bad_frees) WH_F_(spare) WH_F_(set_at) WH_F_(sems)
#undef WH_F_
        WH_BULK_UNIT, WH_BULK_CLASSES, WH_BULK_BIN_LEVEL, WH_BULK_SLOTS, WH_BULK_ALIGN,
        WH_BULK_COUNTED, WH_BULK_FRESH,
    };
    return wh_layout_hash("bulk", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

/* The set of a level, or of class c: WH_BULK_SETS + c. */
WH_FN wh_veb wh_bulk_set_(wh_bulk_ref h, uint32_t set) {
    return wh_veb_make(h.sets + wh_load_u32_relaxed(&h.header->set_at[set]),
                       wh_bulk_set_size_(h.units, set));
}
WH_FN uint64_t *wh_bulk_sem_(wh_bulk_ref h, uint32_t set) {
    return &h.header->sems[set * WH_BULK_APART];
}

/* At first the nodes that have no buddy in the heap are available: the last one of each level that
 * has an odd number of them (I2). */
WH_FN int wh_bulk_starts_available_(wh_bulk_ref h, uint32_t level) {
    return level < WH_BULK_SETS && level <= h.top && (h.units >> level & 1) != 0;
}

/* Word `index` of the set, with the item `x` alone, or none. */
WH_FN uint64_t wh_bulk_initial_word_(uint64_t n, uint64_t index, uint64_t x) {
    uint64_t size = wh_veb_up_(n);
    while (index >= size) {
        index -= size;
        size = wh_veb_up_(size);
        x = x == WH_BULK_NONE ? x : x >> 6;
    }
    return x != WH_BULK_NONE && x >> 6 == index ? (uint64_t)1 << (x & 63) : 0;
}

WH_FN void wh_bulk_init(wh_bulk_ref h, uint64_t i, uint64_t n) {
    for (uint64_t k = i; k < h.units; k += n) {
        wh_store_u64_relaxed(&h.words[k], 0);
    }
    for (uint32_t s = 0; s < WH_BULK_ALL_SETS; s++) {
        const uint64_t size = wh_bulk_set_size_(h.units, s);
        const int starts = wh_bulk_starts_available_(h, s);
        uint64_t *words = h.sets + wh_bulk_set_at_(h.units, s);
        for (uint64_t k = i; size != 0 && k < wh_veb_words(size); k += n) {
            wh_store_u64_relaxed(&words[k],
                                 wh_bulk_initial_word_(size, k, starts ? size - 1 : WH_BULK_NONE));
        }
        if (i == 0) {
            wh_store_u32_relaxed(&h.header->set_at[s], wh_bulk_set_at_(h.units, s));
        }
        if (i == 0 && s < WH_BULK_FRESH) {
            wh_store_u64_relaxed(wh_bulk_sem_(h, s),
                                 starts ? wh_bulk_semaphore_word(1, 0, 0) : 0); /* I3 */
        }
    }
    if (i == 0) {
        wh_store_u64_relaxed(&h.header->failed, 0);
        wh_store_u64_relaxed(&h.header->bad_frees, 0);
        for (uint32_t c = 0; c < WH_BULK_CLASSES; c++) {
            wh_store_u64_relaxed(&h.header->spare[c], 0);
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

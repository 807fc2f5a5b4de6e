/* alloc/fdgmalloc/layout.h: structures of the heap, how they are laid out, and their inspection.
 * It may change.
 *
 * Fields and who writes them (device scope)
 *   free    set of free super blocks (core/veb.h)
 *   lengths of a super block: how many it begins, which malloc took together; 0: none. Stored by
 *           its taker before it is listed, and by tidy_up
 *   nexts   of the same: the next one in the warp's list + 1; 0: the last. Stored likewise
 *   warps   top: the current super block + 1 << 32 | bytes of it that are out; 0: none. malloc:
 *           cas acq_rel. list: the last one taken + 1; 0: none. malloc: cas. tidy_up: store
 * Invariants
 *   I1  bytes of a super block are out once: top goes up by one cas for each piece
 *   I2  when quiet, a super block is free or in the list of one warp. Its list is the one that
 *       tidy_up gives back
 */
#ifndef WH_ALLOC_FDGMALLOC_LAYOUT_H
#define WH_ALLOC_FDGMALLOC_LAYOUT_H

#include "warpheap/core/size_class.h"
#include "warpheap/core/veb.h"
#include "warpheap/detail/alloc/contract.h"
#include "warpheap/detail/alloc/fdgmalloc/options.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_FDGMALLOC_SUPERBLOCK 256u
#else
#define WH_FDGMALLOC_SUPERBLOCK 8192u
#endif
#define WH_FDGMALLOC_WARPS 65536u /* at most, unless the option says more */
#define WH_FDGMALLOC_NONE UINT32_MAX

typedef struct wh_fdgmalloc_warp {
    uint64_t top;
    uint32_t list;
    uint32_t padding;
} wh_fdgmalloc_warp;

typedef struct wh_fdgmalloc_ref {
    unsigned char *base; /* of super block 0 */
    uint64_t *failed;
    wh_fdgmalloc_warp *warps;
    wh_veb free;
    uint32_t *lengths;
    uint32_t *nexts;
    uint32_t n; /* super blocks */
    uint32_t n_warps;
    uint32_t unit_log2; /* of a super block's bytes */
} wh_fdgmalloc_ref;

WH_FN_HOST uint64_t wh_fdgmalloc_warps_of_(uint64_t asked, uint64_t n) {
    const uint64_t most = n < WH_FDGMALLOC_WARPS ? n : WH_FDGMALLOC_WARPS;
    return asked != 0 ? asked : most;
}

WH_FN_HOST uint64_t wh_fdgmalloc_metadata_(uint64_t asked, uint64_t n) {
    return 8 + wh_fdgmalloc_warps_of_(asked, n) * sizeof(wh_fdgmalloc_warp) + wh_veb_words(n) * 8 +
           n * 8;
}

WH_FN_HOST wh_status wh_fdgmalloc_plan(wh_fdgmalloc_ref *h, wh_plan *plan, unsigned char *memory,
                                       uint64_t bytes, const void *options, uint32_t n_sms) {
    const wh_fdgmalloc_options *o = (const wh_fdgmalloc_options *)options;
    const uint64_t unit = o->superblock_bytes != 0 ? o->superblock_bytes : WH_FDGMALLOC_SUPERBLOCK;
    (void)n_sms;
    if (!wh_is_pow2(unit) || unit < 64 || unit > 1u << 20 || o->warps > 1u << 24) {
        return WH_BAD_ARGUMENT;
    }
    plan->min_bytes = unit + wh_fdgmalloc_metadata_(o->warps, 1);
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    uint64_t n = bytes / unit;
    n = n < UINT32_MAX - 1 ? n : UINT32_MAX - 1;
    while (n > 1 && n * unit + wh_fdgmalloc_metadata_(o->warps, n) > bytes) {
        const uint64_t over = n * unit + wh_fdgmalloc_metadata_(o->warps, n) - bytes;
        const uint64_t less = over / (unit + 64); /* one brings at most that */
        n -= less > 1 ? less : 1;
    }
    h->n = (uint32_t)n;
    h->n_warps = (uint32_t)wh_fdgmalloc_warps_of_(o->warps, n);
    h->unit_log2 = wh_ctz64(unit);
    plan->metadata_bytes = bytes - n * unit;
    plan->init_items = n > h->n_warps ? n : h->n_warps;
    if (memory != NULL) {
        h->base = memory;
        h->failed = (uint64_t *)(void *)(memory + n * unit);
        h->warps = (wh_fdgmalloc_warp *)(void *)(h->failed + 1);
        h->free = wh_veb_make((uint64_t *)(void *)(h->warps + h->n_warps), n);
        h->lengths = (uint32_t *)(void *)(h->free.words + wh_veb_words(n));
        h->nexts = h->lengths + n;
    }
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_fdgmalloc_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_fdgmalloc_ref, field),
        sizeof(wh_fdgmalloc_ref),
        WH_F_(base) WH_F_(failed) WH_F_(warps) WH_F_(free) WH_F_(lengths) WH_F_(nexts) WH_F_(n)
        WH_F_(n_warps) WH_F_(unit_log2)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_fdgmalloc_warp, field),
        sizeof(wh_fdgmalloc_warp),
        WH_F_(top) WH_F_(list)
#undef WH_F_
        WH_FDGMALLOC_SUPERBLOCK, WH_FDGMALLOC_WARPS,
    };
    return wh_layout_hash("fdgmalloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_fdgmalloc_init(wh_fdgmalloc_ref h, uint64_t i, uint64_t n) {
    for (uint64_t k = i; k < wh_veb_words(h.n); k += n) {
        wh_store_u64_relaxed(wh_veb_word(h.free, k), wh_veb_initial_word(h.n, k, 1));
    }
    for (uint64_t k = i; k < h.n; k += n) {
        wh_store_u32_relaxed(&h.lengths[k], 0);
        wh_store_u32_relaxed(&h.nexts[k], 0);
    }
    for (uint64_t k = i; k < h.n_warps; k += n) {
        wh_store_u64_relaxed(&h.warps[k].top, 0);
        wh_store_u32_relaxed(&h.warps[k].list, 0);
    }
    if (i == 0) {
        wh_store_u64_relaxed(h.failed, 0);
    }
}

/* --- inspection of a quiet heap ------------------------------------------------------------- */

/* Super blocks that the warp has; I2: all are taken. The list ends: it has no more than there are.
 */
WH_FN uint64_t wh_fdgmalloc_held_(wh_fdgmalloc_ref h, uint64_t warp, wh_report *r) {
    uint64_t held = 0;
    uint32_t at = wh_load_u32_relaxed(&h.warps[warp].list);
    while (at != 0 && at <= h.n && held < h.n) {
        const uint32_t length = wh_load_u32_relaxed(&h.lengths[at - 1]);
        if (length == 0 || length > h.n - (at - 1)) {
            break;
        }
        for (uint32_t k = 0; k < length; k++) {
            if (wh_veb_contains(h.free, at - 1 + k)) {
                wh_report_error(r, 2, at - 1 + k);
            }
        }
        held += length;
        at = wh_load_u32_relaxed(&h.nexts[at - 1]);
    }
    if (at != 0) {
        wh_report_error(r, 2, at);
    }
    return held;
}

WH_FN void wh_fdgmalloc_check(wh_fdgmalloc_ref h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint64_t k = i; k < wh_veb_words(h.n); k += n) {
        if (!wh_veb_check(h.free, k)) {
            wh_report_error(r, 2, k);
        }
    }
    for (uint64_t k = i; k < h.n_warps; k += n) { /* I1: the current one is the warp's own */
        const uint64_t top = wh_load_u64_relaxed(&h.warps[k].top);
        const uint64_t unit = (uint64_t)1 << h.unit_log2;
        if (top != 0 && ((top >> 32) == 0 || (top >> 32) > h.n || wh_low_u32(top) > unit ||
                         wh_veb_contains(h.free, (top >> 32) - 1))) {
            wh_report_error(r, 1, k);
        }
    }
    if (i == 0) { /* I2: what is not free is in the lists */
        uint64_t held = 0, free = 0;
        for (uint64_t k = 0; k < h.n_warps; k++) {
            held += wh_fdgmalloc_held_(h, k, r);
        }
        for (uint64_t k = 0; k < (h.n + 63u) / 64; k++) {
            free += wh_popc64(wh_load_u64_relaxed(wh_veb_word(h.free, k)));
        }
        if (held + free != h.n) {
            wh_report_error(r, 2, held);
        }
    }
}

/* A super block counts as a whole, with what its warp has not asked for yet. */
WH_FN void wh_fdgmalloc_stats(wh_fdgmalloc_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    uint64_t used = 0, run = 0, most = 0;
    (void)n;
    if (i != 0) {
        return;
    }
    for (uint32_t k = 0; k < h.n; k++) {
        const int is_free = wh_veb_contains(h.free, k);
        run = is_free ? run + 1 : 0;
        most = run > most ? run : most;
        used += !is_free;
    }
    s->used_bytes = used << h.unit_log2;
    s->largest_free = most << h.unit_log2;
    s->live_blocks = used == 0 ? 0 : WH_UNKNOWN;
    s->failed = wh_load_u64_relaxed(h.failed);
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/bump: AtomicMalloc of Vinkler and Havran (CGF 2015, section 4.1, Algorithm 1):
 * one offset into the heap that only grows; free does nothing, reset starts over.
 *
 *   bump        lanes that ask for the same size share one atomicAdd
 *   bump-plain  one atomicAdd per lane, as in the paper
 *
 * Departures: results are 16-byte aligned; the end of the heap is checked (the
 * paper's text returns addresses past it).
 *
 * Fields  offset  any lane, fetch_add relaxed; bytes handed out so far, or more than
 *                 `bytes` once a request has not fitted
 * I1      every successful request owns [old, old + size) and old + size <= bytes;
 *         offset never decreases below bytes once it has passed it, so no range is
 *         handed out twice
 * Order   none: no memory is ever reused, except by reset on a quiet heap
 * Fails   a request that does not fit returns NULL; the gap it leaves at the end is
 *         not given to smaller ones (not WH_CAP_EXACT_OOM)
 * Cost    one atomic per malloc and size group
 * It may change.
 */
#ifndef WH_ALLOC_BUMP_H
#define WH_ALLOC_BUMP_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

typedef struct wh_bump_ref {
    unsigned char *base;
    uint64_t bytes; /* of base */
    uint64_t *offset;
    uint64_t *failed;
} wh_bump_ref;

#define WH_BUMP_METADATA 256u /* keeps base as aligned as the memory itself */

WH_FN_HOST wh_status wh_bump_plan(wh_bump_ref *h, wh_plan *plan, unsigned char *memory,
                                  uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)options;
    (void)n_sms;
    plan->min_bytes = WH_BUMP_METADATA + 256;
    plan->metadata_bytes = WH_BUMP_METADATA;
    plan->init_items = 1;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    h->base = memory + WH_BUMP_METADATA;
    h->bytes = bytes - WH_BUMP_METADATA;
    h->offset = (uint64_t *)(void *)memory;
    h->failed = h->offset + 1;
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_bump_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_bump_ref, field),
        sizeof(wh_bump_ref),
        WH_F_(base) WH_F_(bytes) WH_F_(offset) WH_F_(failed)
#undef WH_F_
        WH_BUMP_METADATA,
    };
    return wh_layout_hash("bump", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_bump_init(wh_bump_ref h, uint64_t i, uint64_t n) {
    (void)n;
    if (i == 0) {
        wh_store_u64_relaxed(h.offset, 0);
        wh_store_u64_relaxed(h.failed, 0);
    }
}

/* Takes `count` consecutive pieces of `size` bytes; returns the offset of the first. */
WH_FN uint64_t wh_bump_take_(wh_bump_ref h, uint64_t size, uint32_t count) {
    return wh_fetch_add_u64_relaxed(h.offset, size * count);
}

/* I1: the piece at offset `at`, or NULL if it does not fit. */
WH_FN void *wh_bump_piece_(wh_bump_ref h, uint64_t at, uint64_t size) {
    wh_assert_internal(size != 0 && size % 16 == 0 && at % 16 == 0);
    if (at + size <= h.bytes) {
        return h.base + at;
    }
    (void)wh_fetch_min_u64_relaxed(h.offset, h.bytes); /* keeps offset from wrapping */
    wh_add_u64_relaxed(h.failed, 1);
    return NULL;
}

/* The bytes that a request takes; 0 for one that can never be served. */
WH_FN uint64_t wh_bump_size_(wh_bump_ref h, size_t n) {
    if (n != 0 && n > h.bytes) {
        wh_add_u64_relaxed(h.failed, 1);
        return 0;
    }
    return ((uint64_t)n + 15) & ~(uint64_t)15;
}

WH_FN void *wh_bump_malloc(wh_bump_ref h, wh_mask mask, size_t n) {
    const uint64_t size = wh_bump_size_(h, n);
    const wh_group g = wh_group_by_u64(mask, size);
    uint64_t at = 0;
    if (wh_group_leads(g) && size != 0) {
        at = wh_bump_take_(h, size, g.n);
    }
    at = wh_shfl_u64(mask, at, g.leader) + size * g.rank;
    return size != 0 ? wh_bump_piece_(h, at, size) : NULL;
}

WH_FN void *wh_bump_aligned(wh_bump_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_align_up(wh_bump_malloc(h, mask, wh_room_to_align(n, align)), align);
}

WH_FN int wh_bump_owns(wh_bump_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.bytes;
}

WH_FN void wh_bump_stats(wh_bump_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    (void)n;
    if (i == 0) {
        const uint64_t used = wh_load_u64_relaxed(h.offset);
        s->used_bytes = used < h.bytes ? used : h.bytes;
        s->largest_free = (h.bytes - s->used_bytes) & ~(uint64_t)15;
        s->live_blocks = WH_UNKNOWN;
        s->failed = wh_load_u64_relaxed(h.failed);
    }
}

WH_FN void wh_bump_check(wh_bump_ref h, uint64_t i, uint64_t n, wh_report *r) {
    (void)n;
    if (i == 0 && (wh_load_u64_relaxed(h.offset) & 15) != 0 &&
        wh_load_u64_relaxed(h.offset) < h.bytes) {
        wh_report_error(r, 1, 0);
    }
}

WH_FN uint64_t wh_bump_left(wh_bump_ref h, uint64_t bytes, uint64_t i, uint64_t n) {
    const uint64_t used = wh_load_u64_relaxed(h.offset);
    (void)n;
    return i != 0 || bytes == 0 || bytes > h.bytes || used > h.bytes
               ? 0
               : (h.bytes - used) / ((bytes + 15) & ~(uint64_t)15);
}

#define wh_bump_NAME "bump"
#define wh_bump_MAX_ALIGN (1u << 20)
#define wh_bump_BLOCKS 8
#define wh_bump_EACH 0
#define wh_bump_free WH_NO_FREE
#define wh_bump_usable_size WH_NO_USABLE_SIZE
#define wh_bump_walk WH_NO_WALK

/* bump-plain: the same heap, without the grouping. */
#define wh_bump_plain_NAME "bump-plain"
#define wh_bump_plain_MAX_ALIGN wh_bump_MAX_ALIGN
#define wh_bump_plain_BLOCKS 8
#define wh_bump_plain_EACH 0
typedef wh_bump_ref wh_bump_plain_ref;
#define wh_bump_plain_plan wh_bump_plan
#define wh_bump_plain_layout wh_bump_layout
#define wh_bump_plain_init wh_bump_init
#define wh_bump_plain_free wh_bump_free
#define wh_bump_plain_usable_size wh_bump_usable_size
#define wh_bump_plain_owns wh_bump_owns
#define wh_bump_plain_stats wh_bump_stats
#define wh_bump_plain_check wh_bump_check
#define wh_bump_plain_walk wh_bump_walk
#define wh_bump_plain_aligned wh_bump_aligned
#define wh_bump_plain_left wh_bump_left

WH_FN void *wh_bump_plain_malloc(wh_bump_ref h, wh_mask mask, size_t n) {
    (void)mask;
    const uint64_t size = wh_bump_size_(h, n);
    return size != 0 ? wh_bump_piece_(h, wh_bump_take_(h, size, 1), size) : NULL;
}

#include "warpheap/detail/simt/end.h"

#endif

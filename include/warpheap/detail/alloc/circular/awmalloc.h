/* alloc/circular/awmalloc.h: one offset that wraps around, and overwrites what is still in use:
 * Algorithm 2. It may change. */
#ifndef WH_ALLOC_CIRCULAR_AWMALLOC_H
#define WH_ALLOC_CIRCULAR_AWMALLOC_H

#include "warpheap/detail/alloc/contract.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

/* The offset is 64 bits wide, so that adds past the end cannot wrap it. */
typedef struct wh_awmalloc_ref {
    unsigned char *base;
    uint64_t bytes;
    uint64_t *offset;
} wh_awmalloc_ref;

#define wh_awmalloc_NAME "awmalloc"
#define wh_awmalloc_free WH_NO_FREE /* the offset comes around some day */
#define wh_awmalloc_usable_size WH_NO_USABLE_SIZE
#define wh_awmalloc_stats WH_NO_STATS
#define wh_awmalloc_walk WH_NO_WALK
#define wh_awmalloc_left WH_NO_LEFT
#define wh_awmalloc_MAX_ALIGN (1u << 20)
#define wh_awmalloc_BLOCKS 8
#define wh_awmalloc_EACH 0

WH_FN_HOST wh_status wh_awmalloc_plan(wh_awmalloc_ref *h, wh_plan *plan, unsigned char *memory,
                                      uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)options;
    (void)n_sms;
    plan->min_bytes = 512;
    plan->metadata_bytes = 256;
    plan->init_items = 1;
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    h->offset = (uint64_t *)(void *)memory;
    h->base = memory + 256;
    h->bytes = (bytes - 256) & ~(uint64_t)15;
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_awmalloc_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_awmalloc_ref, field),
        sizeof(wh_awmalloc_ref),
        WH_F_(base) WH_F_(bytes) WH_F_(offset)
#undef WH_F_
    };
    return wh_layout_hash("awmalloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void wh_awmalloc_init(wh_awmalloc_ref h, uint64_t i, uint64_t n) {
    (void)n;
    if (i == 0) {
        wh_store_u64_relaxed(h.offset, 0);
    }
}

/* `size` bytes in one piece, perhaps from the beginning again. Lock-free: each repetition
 * means that another lane has wrapped the offset or moved it. */
WH_FN uint64_t wh_awmalloc_take_(wh_awmalloc_ref h, uint64_t size) {
    wh_assert_internal(size != 0 && size <= h.bytes && size % 16 == 0);
    uint64_t end = wh_fetch_add_u64_relaxed(h.offset, size) + size;
    uint64_t full = end; /* an offset at which `size` bytes do not fit */
    while (end > h.bytes) {
        const uint64_t seen = wh_cas_u64_relaxed(h.offset, full, size);
        if (seen == full) {
            return 0;
        }
        full = seen;
        if (seen + size <= h.bytes) {
            full = end = wh_fetch_add_u64_relaxed(h.offset, size) + size;
        }
    }
    return end - size;
}

WH_FN void *wh_awmalloc_malloc(wh_awmalloc_ref h, wh_mask mask, size_t n) {
    const uint64_t size = n <= h.bytes ? ((uint64_t)n + 15) & ~(uint64_t)15 : 0;
    const wh_group g = wh_group_by_u64(mask, size);
    /* As many lanes of the group take together as the pool holds. */
    const uint64_t most = size != 0 ? h.bytes / size : 1;
    const uint32_t each = most < g.n ? (uint32_t)most : g.n;
    uint64_t at = 0;
    const uint32_t first = g.rank / each * each;
    if (size != 0 && g.rank == first) {
        at = wh_awmalloc_take_(h, size * (g.n - first < each ? g.n - first : each));
    }
    /* The lane that took for this one: the first of its share. */
    uint32_t from = wh_lane_id();
    uint32_t rank = 0;
    for (wh_mask left = g.lanes; left != 0; left &= left - 1, rank++) {
        from = rank == first ? wh_ctz32(left) : from;
    }
    at = wh_shfl_u64(mask, at, from) + size * (g.rank - first);
    return size != 0 ? h.base + at : NULL;
}

WH_FN void *wh_awmalloc_aligned(wh_awmalloc_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_align_up(wh_awmalloc_malloc(h, mask, wh_room_to_align(n, align)), align);
}

WH_FN int wh_awmalloc_owns(wh_awmalloc_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.bytes;
}

WH_FN void wh_awmalloc_check(wh_awmalloc_ref h, uint64_t i, uint64_t n, wh_report *r) {
    (void)n;
    if (i == 0 && (wh_load_u64_relaxed(h.offset) & 15) != 0) {
        wh_report_error(r, 1, 0);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

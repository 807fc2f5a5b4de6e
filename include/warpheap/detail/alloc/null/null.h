/* alloc/null: the floor. malloc computes an address from the thread's index and
 * touches no allocator state; free does nothing. What a kernel with this in place of
 * an allocator costs is the least that any allocator can cost. Blocks of different
 * threads are disjoint while threads * size fits the heap and wrap around past that;
 * blocks of one thread overlap. It may change. */
#ifndef WH_ALLOC_NULL_H
#define WH_ALLOC_NULL_H

#include "warpheap/detail/alloc/contract.h"

#include "warpheap/detail/simt/begin.h"

#define wh_null_NAME "null"
#define wh_null_MAX_ALIGN 16u
#define wh_null_BLOCKS 8
#define wh_null_EACH 0
#define wh_null_init WH_NO_INIT
#define wh_null_free WH_NO_FREE
#define wh_null_aligned WH_NO_ALIGNED
#define wh_null_usable_size WH_NO_USABLE_SIZE
#define wh_null_stats WH_NO_STATS
#define wh_null_check WH_NO_CHECK
#define wh_null_walk WH_NO_WALK
#define wh_null_left WH_NO_LEFT

typedef struct wh_null_ref {
    unsigned char *base;
    uint64_t bytes;
} wh_null_ref;

WH_FN_HOST wh_status wh_null_plan(wh_null_ref *h, wh_plan *plan, unsigned char *memory,
                                  uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)options;
    (void)n_sms;
    plan->min_bytes = 4096;
    plan->metadata_bytes = 0;
    plan->init_items = 1;
    h->base = memory;
    h->bytes = bytes;
    return bytes < plan->min_bytes ? WH_HEAP_TOO_SMALL : WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_null_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_null_ref, field),
        sizeof(wh_null_ref),
        WH_F_(base) WH_F_(bytes)
#undef WH_F_
    };
    return wh_layout_hash("null", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

WH_FN void *wh_null_malloc(wh_null_ref h, wh_mask mask, size_t n) {
    (void)mask;
    const uint64_t size = (n + 15) & ~(uint64_t)15;
    if (n == 0 || n > h.bytes) {
        return NULL;
    }
    const uint64_t offset = wh_thread_id() * size;
    return h.base + (offset + size <= h.bytes ? offset : 0);
}

WH_FN int wh_null_owns(wh_null_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) < h.bytes;
}

#include "warpheap/detail/simt/end.h"

#endif

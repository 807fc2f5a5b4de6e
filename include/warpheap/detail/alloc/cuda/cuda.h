/* alloc/cuda: malloc and free of the CUDA device runtime, for comparison. GPU only
 * (no WH_CAP_SIM). Its heap is the runtime's own, whose size (8 MiB unless the
 * program that hosts it changed it) this library does not touch; the memory of the
 * wh_heap is not used, and reset does nothing. It may change. */
#ifndef WH_ALLOC_CUDA_H
#define WH_ALLOC_CUDA_H

#include "warpheap/detail/alloc/contract.h"

#if WH_HAS_HOST
#include <stdlib.h>
#endif

#include "warpheap/detail/simt/begin.h"

#define wh_cuda_NAME "cuda"
#define wh_cuda_MAX_ALIGN 16u
#define wh_cuda_BLOCKS 1
#define wh_cuda_EACH 0
#define wh_cuda_init WH_NO_INIT
#define wh_cuda_aligned WH_NO_ALIGNED
#define wh_cuda_usable_size WH_NO_USABLE_SIZE
#define wh_cuda_owns WH_NO_OWNS
#define wh_cuda_stats WH_NO_STATS
#define wh_cuda_check WH_NO_CHECK
#define wh_cuda_walk WH_NO_WALK
#define wh_cuda_left WH_NO_LEFT

typedef struct wh_cuda_ref {
    uint64_t unused;
} wh_cuda_ref;

WH_FN_HOST wh_status wh_cuda_plan(wh_cuda_ref *h, wh_plan *plan, unsigned char *memory,
                                  uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)memory;
    (void)bytes;
    (void)options;
    (void)n_sms;
    h->unused = 0;
    plan->min_bytes = 0;
    plan->metadata_bytes = 0;
    plan->init_items = 1;
    return WH_OK;
}

/* What code of this family must agree on with the code that laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_cuda_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_cuda_ref, field),
        sizeof(wh_cuda_ref),
        WH_F_(unused)
#undef WH_F_
    };
    return wh_layout_hash("cuda", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

/* The runtime's malloc(SIZE_MAX) is not NULL: it rounds up without a check. */
WH_FN void *wh_cuda_malloc(wh_cuda_ref h, wh_mask mask, size_t n) {
    (void)h;
    (void)mask;
    return n - 1 < SIZE_MAX / 2 ? (malloc)(n) : NULL; /* not so for 0 */
}

WH_FN void wh_cuda_free(wh_cuda_ref h, wh_mask mask, void *p) {
    (void)h;
    (void)mask;
    if (p != NULL) {
        (free)(p);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

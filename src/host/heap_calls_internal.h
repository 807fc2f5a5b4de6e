/* heap_calls_internal.h: what heap_calls.c needs of one allocator on one target.
 * heap_call_kernels.c is compiled once per pair. */
#ifndef WHI_HEAP_CALLS_H
#define WHI_HEAP_CALLS_H

#include "warpheap/heap_calls.h"

typedef struct whi_heap_call_ops {
    /* calls: n of them in device memory. handle: the heap's. */
    wh_status (*run)(const wh_launch *launch, const void *handle, wh_heap_call *calls, uint32_t n);
} whi_heap_call_ops;

/* NULL: there is none. */
const whi_heap_call_ops *whi_heap_call_ops_find(const char *allocator, wh_target target);

#endif

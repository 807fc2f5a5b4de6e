/* heap_call_kernels.c: targeted source: the kernel that makes calls of the host. */
#include "heap_calls_internal.h"

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct {
    wh_heap_ref heap;
    wh_heap_call *calls;
    uint64_t n;
} call_args;

WH_KERNEL(call_kernel, call_args, a) {
    const uint64_t i = wh_thread_id();
    if (i >= a.n) {
        return;
    }
    wh_heap_call *c = &a.calls[i];
    switch (c->kind) {
    case WH_CALL_MALLOC:
        c->block = wh_malloc(a.heap, c->bytes);
        break;
    case WH_CALL_CALLOC:
        c->block = wh_calloc(a.heap, 1, c->bytes);
        break;
    case WH_CALL_REALLOC:
        c->block = wh_realloc(a.heap, c->block, c->bytes);
        break;
    case WH_CALL_ALIGNED_ALLOC:
        c->block = wh_aligned_alloc(a.heap, c->align, c->bytes);
        break;
    case WH_CALL_FREE:
        wh_free(a.heap, c->block);
        c->block = NULL;
        break;
    case WH_CALL_USABLE_SIZE:
        c->bytes = wh_usable_size(a.heap, c->block);
        break;
    default:
        c->bytes = (uint64_t)(wh_owns(a.heap, c->block) != 0);
        break;
    }
}

static wh_status run(const wh_launch *launch, const void *handle, wh_heap_call *calls, uint32_t n) {
    call_args a;
    memcpy(&a.heap, handle, sizeof a.heap);
    a.calls = calls;
    a.n = n;
    return call_kernel(launch, &a);
}

WH_TABLE(whi_heap_call_ops) = {run};

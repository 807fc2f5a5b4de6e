/* heap_calls.h: malloc and free by the host, on the simulated device: for languages that have no
 * kernels there, for notebooks and tests. C11 and C++. docs/PYTHON.md shows them from Python.
 *
 * Kernels are the way to use a heap. This is one launch and one wait for a batch of calls.
 */
#ifndef WH_HEAP_CALLS_H
#define WH_HEAP_CALLS_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "device call"): block, bytes and align are arguments, as the second column says them. */
#define WH_CALL_LIST(X)                                     \
    X(MALLOC, "block = malloc(bytes)")                      \
    X(CALLOC, "block = calloc(1, bytes)")                   \
    X(REALLOC, "block = realloc(block, bytes)")             \
    X(ALIGNED_ALLOC, "block = aligned_alloc(align, bytes)") \
    X(FREE, "free(block)")                                  \
    X(USABLE_SIZE, "bytes = usable_size(block)")            \
    X(OWNS, "bytes = owns(block)")

typedef enum wh_heap_call_kind {
#define WH_CALL_ENUM_(name, text) WH_CALL_##name,
    WH_CALL_LIST(WH_CALL_ENUM_)
#undef WH_CALL_ENUM_
        WH_CALL_KINDS
} wh_heap_call_kind;

/* One call, and its result. New fields come at the end. */
typedef struct wh_heap_call {
    uint32_t kind; /* a wh_heap_call_kind */
    uint32_t unused;
    void *block; /* of FREE NULL afterwards */
    uint64_t bytes;
    uint64_t align;
} wh_heap_call;

/* Makes n calls, each by a thread of its own, in blocks of 128 threads, all at the same time: the
 * seed of the device says in which order. call_bytes: sizeof(wh_heap_call). Waits for all work of
 * the device. A malloc for which there is no room gives a NULL block and is no error. One block
 * must not be in two calls of a batch of which one is FREE or REALLOC, as in a kernel. Errors:
 * BAD_ARGUMENT (also: a kind that is none), WRONG_BUILD (call_bytes), UNSUPPORTED (a heap on a GPU,
 * where kernels make these calls; an allocator without WH_CAP_DISJOINT, or without what the call
 * needs: WH_CAP_USABLE_SIZE, ALIGNED, OWNS), OUT_OF_MEMORY (of the device, for the calls),
 * DEVICE_ERROR; calls[] stays as it was then. wh_last_error_text says more.
 * Cost: a launch, and a copy of calls[] each way. */
wh_status wh_heap_make_calls(wh_heap *heap, wh_heap_call *calls, size_t call_bytes, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

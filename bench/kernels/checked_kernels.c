/* checked_kernels.c: the kernels of the case checked: those of `single`, for checked heaps.
 * Compiled once per target, for the allocators that have them. */
#define WH_CHECKED 1

#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#define WH_KERNEL_BLOCKS 2 /* with the registers of more it spills */
#endif

#include <string.h>

#include "bench/kernels/bind.h"
#include "warpheap/detail/alloc/tables.h"

typedef struct checked_args {
    wh_heap_ref heap;
    void **ptrs;
    uint64_t n, lo;
} checked_args;

WH_KERNEL(k_malloc, checked_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.lo);
    }
}

WH_KERNEL(k_free, checked_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        wh_free(a.heap, a.ptrs[i]);
    }
}

#define CHECKED_LAUNCHER(name, kernel)                                          \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        checked_args a;                                                         \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        return kernel(launch, &a);                                              \
    }

CHECKED_LAUNCHER(malloc_single, k_malloc)
CHECKED_LAUNCHER(free_all, k_free)

WH_TABLE(wh_bench_checked_kernels) = {bind, malloc_single, free_all};

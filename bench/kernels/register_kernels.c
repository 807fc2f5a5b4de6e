/* register_kernels.c: small kernels around one malloc and one free, as a user would write
 * them, of which `warpheap registers` asks how many registers they need. Compiled once
 * per allocator and target. */
#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#define WH_KERNEL_BLOCKS WH_OF_(BLOCKS)
#endif

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct user_args {
    wh_heap_ref heap;
    void **ptrs;
    uint64_t n, size;
} user_args;

WH_KERNEL(k_malloc_free, user_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        uint64_t *p = (uint64_t *)wh_malloc(a.heap, (size_t)a.size);
        a.ptrs[i] = p;
        if (p != NULL) {
            p[0] = i;
        }
        wh_free(a.heap, p);
    }
}

/* The same without coalescing. The mask is a constant: of one that only the program knows to
 * have a single lane (1u << wh_lane_id()) the compiler keeps all that serves several. */
WH_KERNEL(k_malloc_free_alone, user_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && wh_lane_id() == 0) {
        uint64_t *p = (uint64_t *)wh_malloc_lanes(a.heap, 1u, (size_t)a.size);
        a.ptrs[i] = p;
        if (p != NULL) {
            p[0] = i;
        }
        wh_free_lanes(a.heap, 1u, p);
    }
}

WH_KERNEL(k_malloc, user_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.size);
    }
}

WH_KERNEL(k_free, user_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        wh_free(a.heap, a.ptrs[i]);
    }
}

/* Without launch bounds: what a user's own __global__ function gets who says nothing of them. */
WH_KERNEL_PLAIN(k_malloc_plain, user_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.size);
    }
}

#define LAUNCHER(name)                                                                   \
    static wh_status launch_##name(const wh_launch *launch, const wh_bench_call *call) { \
        user_args a;                                                                     \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                                   \
        a.ptrs = call->ptrs;                                                             \
        a.n = call->n;                                                                   \
        a.size = call->lo;                                                               \
        return k_##name(launch, &a);                                                     \
    }

LAUNCHER(malloc_free)
LAUNCHER(malloc_free_alone)
LAUNCHER(malloc)
LAUNCHER(free)
LAUNCHER(malloc_plain)

WH_TABLE(wh_bench_register_kernels) = {{
    {"malloc_free", WH_KERNEL_SYMBOL(k_malloc_free), launch_malloc_free},
    {"malloc_free_alone", WH_KERNEL_SYMBOL(k_malloc_free_alone), launch_malloc_free_alone},
    {"malloc", WH_KERNEL_SYMBOL(k_malloc), launch_malloc},
    {"free", WH_KERNEL_SYMBOL(k_free), launch_free},
    {"malloc_plain", WH_KERNEL_SYMBOL(k_malloc_plain), launch_malloc_plain},
}};

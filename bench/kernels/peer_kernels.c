/* peer_kernels.c: the kernels of the case peers, for heaps of several GPUs: their atomics have
 * system scope. Compiled once per target, for the allocators that have them. */
#define WH_PEERS 1

#include "bench/kernels/peer_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#endif

#include <string.h>

#include "bench/kernels/bind.h"
#include "warpheap/detail/alloc/tables.h"

typedef struct peer_args {
    wh_heap_ref heap;
    void **ptrs;
    uint64_t n, bytes;
    uint64_t *wrong;
} peer_args;

WH_FN uint64_t word_of(uint64_t i, uint64_t k) {
    return i << 16 ^ k;
}

WH_KERNEL(k_malloc, peer_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.bytes);
    }
}

WH_KERNEL(k_free, peer_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        wh_free(a.heap, a.ptrs[i]);
    }
}

WH_KERNEL(k_fill, peer_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        uint64_t *block = (uint64_t *)a.ptrs[i];
        for (uint64_t k = 0; k < a.bytes / 8; k++) {
            block[k] = word_of(i, k);
        }
    }
}

WH_KERNEL(k_check, peer_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t *block = (const uint64_t *)a.ptrs[i];
        uint64_t wrong = block == NULL;
        for (uint64_t k = 0; block != NULL && k < a.bytes / 8; k++) {
            wrong |= block[k] != word_of(i, k);
        }
        if (wrong != 0) {
            (void)wh_fetch_add_u64_relaxed(a.wrong, 1);
        }
    }
}

#define PEER_LAUNCHER(name, kernel)                                                  \
    static wh_status name(const wh_launch *launch, const wh_bench_peer_call *call) { \
        peer_args a;                                                                 \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                               \
        a.ptrs = call->ptrs;                                                         \
        a.n = call->n;                                                               \
        a.bytes = call->bytes;                                                       \
        a.wrong = call->wrong;                                                       \
        return kernel(launch, &a);                                                   \
    }

PEER_LAUNCHER(malloc_all, k_malloc)
PEER_LAUNCHER(free_all, k_free)
PEER_LAUNCHER(fill_all, k_fill)
PEER_LAUNCHER(check_all, k_check)

WH_TABLE(wh_bench_peer_kernels) = {bind, malloc_all, free_all, fill_all, check_all};

/* peer_kernels.h: kernels of the case peers: malloc and free in a heap that kernels of two GPUs
 * use. Plain C11 and C++. */
#ifndef WH_BENCH_PEER_KERNELS_H
#define WH_BENCH_PEER_KERNELS_H

#include "bench/kernels/bench_kernels.h"

typedef struct wh_bench_peer_call {
    wh_bench_handle handle;
    void **ptrs; /* n: memory of the device that the kernel runs on; likewise */
    uint64_t n;
    uint64_t bytes;  /* of a block, a multiple of 8 */
    uint64_t *wrong; /* is added to */
} wh_bench_peer_call;

typedef wh_status (*wh_bench_peer_launcher)(const wh_launch *launch,
                                            const wh_bench_peer_call *call);

/* A thread a block. */
typedef struct wh_bench_peer_kernels {
    wh_status (*bind)(const wh_heap *heap, wh_bench_handle *handle);
    wh_bench_peer_launcher malloc, free;
    wh_bench_peer_launcher fill, check; /* each word of block i; check also counts NULLs */
} wh_bench_peer_kernels;

const wh_bench_peer_kernels *wh_bench_peer_find(const char *allocator, wh_target target);

#endif

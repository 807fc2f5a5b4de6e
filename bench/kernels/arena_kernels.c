/* arena_kernels.c: the kernels of the case arena, for allocators that free: mallocs in arenas of
 * each scope, and the close of these. Compiled once per allocator and target. */
#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#define WH_KERNEL_BLOCKS (WH_OF_(BLOCKS) < 6 ? WH_OF_(BLOCKS) : 6) /* 40 registers at least */
#endif

#include <string.h>

#include "warpheap/arena.h"
#include "warpheap/detail/alloc/tables.h"

WH_STATIC_ASSERT(sizeof(wh_warp_arena) <= WH_BENCH_ARENA_BYTES, "an arena does not fit");
WH_STATIC_ASSERT(sizeof(wh_block_arena) <= WH_BENCH_ARENA_BYTES, "an arena does not fit");

typedef struct arena_args {
    wh_heap_ref heap;
    void **ptrs;
    unsigned char *arenas;
    uint64_t n, lo;
} arena_args;

WH_FN void *kept(const arena_args *a, uint64_t i) {
    return a->arenas + i * WH_BENCH_ARENA_BYTES;
}

WH_KERNEL(k_malloc_lane, arena_args, a) {
    const uint64_t threads = wh_grid_threads();
    wh_arena arena = wh_arena_open(0, 0);
    for (uint64_t i = wh_thread_id(); i < a.n; i += threads) {
        a.ptrs[i] = wh_arena_malloc(a.heap, &arena, (size_t)a.lo);
    }
    *(wh_arena *)kept(&a, wh_thread_id()) = arena;
}

WH_KERNEL(k_close_lane, arena_args, a) {
    wh_arena arena = *(const wh_arena *)kept(&a, wh_thread_id());
    if (a.n != 0) {
        wh_arena_close(a.heap, &arena);
    }
}

/* Whole warps: see malloc_loop in bench_kernels.h. */
WH_KERNEL(k_malloc_warp, arena_args, a) {
    const uint64_t threads = wh_grid_threads();
    wh_warp_arena arena = wh_warp_arena_open(WH_FULL_WARP, 0, 0);
    for (uint64_t i = wh_thread_id(); i < a.n; i += threads) {
        a.ptrs[i] = wh_warp_arena_malloc(a.heap, &arena, (size_t)a.lo);
    }
    if (wh_lane_id() == 0) {
        *(wh_warp_arena *)kept(&a, wh_thread_id() / WH_WARP_SIZE) = arena;
    }
}

WH_KERNEL(k_close_warp, arena_args, a) {
    wh_warp_arena arena = *(const wh_warp_arena *)kept(&a, wh_thread_id() / WH_WARP_SIZE);
    if (a.n != 0) {
        wh_warp_arena_close(a.heap, &arena);
    }
}

WH_KERNEL(k_malloc_block, arena_args, a) {
    WH_SHARED(wh_block_arena, arena, 1);
    const uint64_t threads = wh_grid_threads();
    if (a.n == 0) {
        return;
    }
    wh_block_arena_open(a.heap, arena, 0, 0);
    for (uint64_t i = wh_thread_id(); i < a.n; i += threads) {
        a.ptrs[i] = wh_block_arena_malloc(a.heap, arena, (size_t)a.lo);
    }
    wh_syncthreads();
    if (wh_thread_in_block() == 0) {
        *(wh_block_arena *)kept(&a, wh_block_id()) = *arena;
    }
}

WH_KERNEL(k_close_block, arena_args, a) {
    WH_SHARED(wh_block_arena, arena, 1);
    if (a.n == 0) {
        return;
    }
    if (wh_thread_in_block() == 0) {
        *arena = *(const wh_block_arena *)kept(&a, wh_block_id());
    }
    wh_block_arena_close(a.heap, arena);
}

/* What it reads is used in a test that no arena passes. */
WH_KERNEL(k_floor_close, arena_args, a) {
    const wh_arena *arena = (const wh_arena *)kept(&a, wh_thread_id());
    if (arena->top == 1 && a.n != 0) {
        a.ptrs[wh_thread_id()] = NULL;
    }
}

#define ARENA_LAUNCHER(name)                                                    \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        arena_args a;                                                           \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.arenas = (unsigned char *)call->arenas;                               \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        return k_##name(launch, &a);                                            \
    }

ARENA_LAUNCHER(malloc_lane)
ARENA_LAUNCHER(malloc_warp)
ARENA_LAUNCHER(malloc_block)
ARENA_LAUNCHER(close_lane)
ARENA_LAUNCHER(close_warp)
ARENA_LAUNCHER(close_block)
ARENA_LAUNCHER(floor_close)

WH_TABLE(wh_bench_arena_kernels) = {
    {malloc_lane, malloc_warp, malloc_block}, {close_lane, close_warp, close_block}, floor_close};

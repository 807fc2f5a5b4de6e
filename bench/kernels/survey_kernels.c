/* survey_kernels.c: mallocs and frees between two looks at the clock, and mallocs whose blocks are
 * written at once, for the cases latency and work. Compiled once per allocator and target. */
#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#define WH_KERNEL_BLOCKS (WH_OF_(BLOCKS) < 6 ? WH_OF_(BLOCKS) : 6) /* 40 registers at least */
#endif

#include <string.h>

#include "bench/kernels/block_words.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct survey_args {
    wh_heap_ref heap;
    void **ptrs;
    uint32_t *ticks;
    uint64_t n, lo, hi, seed;
} survey_args;

WH_FN uint32_t since(uint64_t start) {
    const uint64_t ticks = wh_clock() - start;
    return ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

WH_KERNEL(k_malloc_clocked, survey_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t size = size_of(a.seed, i, a.lo, a.hi);
        const uint64_t start = wh_clock();
        a.ptrs[i] = wh_malloc(a.heap, (size_t)size);
        a.ticks[i] = since(start);
    }
}

WH_KERNEL(k_free_clocked, survey_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        void *p = a.ptrs[i];
        if ((uintptr_t)p == 1) { /* never: the load is over before the clock is read */
            a.ticks[i] = 0;
        }
        const uint64_t start = wh_clock();
        wh_free(a.heap, p);
        a.ticks[i] = since(start);
    }
}

WH_KERNEL(k_floor_clocked, survey_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t size = size_of(a.seed, i, a.lo, a.hi);
        const uint64_t start = wh_clock();
        a.ptrs[i] = (void *)(uintptr_t)(4096 + i * a.hi + size);
        a.ticks[i] = since(start);
    }
}

WH_KERNEL(k_work, survey_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        void *p = wh_malloc(a.heap, (size_t)size_of(a.seed, i, a.lo, a.hi));
        a.ptrs[i] = p;
        if (p != NULL) {
            write_words((uint32_t *)p, a.seed, i, size_of(a.seed, i, a.lo, a.hi));
        }
    }
}

#define LAUNCHER(name)                                                          \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        survey_args a;                                                          \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.ticks = call->sizes;                                                  \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        return k_##name(launch, &a);                                            \
    }

LAUNCHER(malloc_clocked)
LAUNCHER(free_clocked)
LAUNCHER(work)
LAUNCHER(floor_clocked)

WH_TABLE(wh_bench_survey_kernels) = {malloc_clocked, free_clocked, work, floor_clocked};

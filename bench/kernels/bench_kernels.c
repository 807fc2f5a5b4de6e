/* bench_kernels.c: the kernels of the benchmark, compiled once per allocator and
 * target (see bench_kernels.h for the table it exports).
 * The timed malloc, free and churn kernels are those of timed_calls.h.
 */
#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#define WH_KERNEL_BLOCKS WH_OF_(BLOCKS)
#endif

#include <string.h>

#include "bench/kernels/bind.h"
#include "bench/kernels/pattern.h"
#include "bench/kernels/timed_calls.h"
#include "warpheap/detail/alloc/tables.h"

WH_STATIC_ASSERT(sizeof(wh_heap_ref) <= sizeof(wh_bench_handle), "handle does not fit");

/* --- floors -------------------------------------------------------------------- */

typedef struct floor_args {
    void **ptrs;
    uint64_t n, lo, hi, seed;
} floor_args;

WH_KERNEL(k_floor_single, floor_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = (void *)(uintptr_t)(4096 + i * a.lo);
    }
}

WH_KERNEL(k_floor_mixed, floor_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t size = pick_size(mix(a.seed + i), a.lo, a.hi);
        a.ptrs[i] = (void *)(uintptr_t)(4096 + i * a.hi + size);
    }
}

WH_KERNEL(k_floor_warp, floor_args, a) {
    const uint64_t i = wh_thread_id() / WH_WARP_SIZE;
    if (i < a.n && wh_lane_id() == 0) {
        a.ptrs[i] = (void *)(uintptr_t)(4096 + i * a.lo);
    }
}

/* The floors of free read the pointer and use it in a test that no pointer passes,
 * without which the read would be dropped. */
WH_KERNEL(k_floor_free, floor_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && (uintptr_t)a.ptrs[i] == 1) {
        a.ptrs[i] = NULL;
    }
}

WH_KERNEL(k_floor_free_warp, floor_args, a) {
    const uint64_t i = wh_thread_id() / WH_WARP_SIZE;
    if (i < a.n && wh_lane_id() == 0 && (uintptr_t)a.ptrs[i] == 1) {
        a.ptrs[i] = NULL;
    }
}

/* --- churn ---------------------------------------------------------------------- */

WH_KERNEL(k_churn_whole, churn_args, a){CHURN_BODY(a, 1)}

/* Thread i takes held block i of slots * n; the block lists of churn and churn_whole
 * differ in what is verified. */
#define DRAIN_BODY(a, whole)                                                         \
    const uint64_t i = wh_thread_id();                                               \
    if (i < (a).n * WH_BENCH_SLOTS) {                                                \
        unsigned char *p = (unsigned char *)(a).ptrs[i];                             \
        const uint32_t born = (a).born[i];                                           \
        if (p != NULL && born != NOT_STAMPED && (a).stamp == WH_BENCH_STAMP_CHECK) { \
            const uint64_t old = churn_random((a).seed, i % (a).n, born);            \
            if (churn_differs(p, pick_size(old, (a).lo, (a).hi), old, whole)) {      \
                wh_add_u64_relaxed(&(a).counts->bad, 1);                             \
            }                                                                        \
        }                                                                            \
        wh_free((a).heap, p);                                                        \
    }

WH_KERNEL(k_drain, churn_args, a){DRAIN_BODY(a, 0)}

WH_KERNEL(k_drain_whole, churn_args, a) {
    DRAIN_BODY(a, 1)
}

/* --- verification ----------------------------------------------------------------- */

typedef struct verify_args {
    wh_heap_ref heap;
    void **ptrs;
    uint64_t n, lo, hi, seed;
    wh_bench_counts *counts;
    uint32_t *claimed;
    uint64_t claim_base;
    uint32_t lanes;
    int use_owns;
} verify_args;

WH_KERNEL(k_survey, verify_args, a) {
    uint64_t failed = 0;
    uint64_t bad = 0;
    uint64_t served = 0;
    uint64_t requested = 0;
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const void *p = a.ptrs[i];
        const uint64_t size = size_of(a.seed, i, a.lo, a.hi);
        const uint64_t at = (uint64_t)(uintptr_t)p;
        if (p == NULL) {
            failed++;
            continue;
        }
        served++;
        requested += size;
        low = at < low ? at : low;
        high = at + size > high ? at + size : high;
        bad += placed_well(a.heap, a.use_owns, p, size) ? 0 : 1;
    }
    if (failed != 0) {
        wh_add_u64_relaxed(&a.counts->failed, failed);
    }
    if (bad != 0) {
        wh_add_u64_relaxed(&a.counts->bad, bad);
    }
    if (served != 0) {
        wh_add_u64_relaxed(&a.counts->served, served);
        wh_add_u64_relaxed(&a.counts->requested, requested);
        wh_fetch_min_u64_relaxed(&a.counts->low, low);
        wh_fetch_max_u64_relaxed(&a.counts->high, high);
    }
}

WH_KERNEL(k_fill, verify_args, a) {
    const uint64_t i = wh_thread_id() / a.lanes;
    if (i < a.n) {
        unsigned char *p = (unsigned char *)a.ptrs[i];
        const uint64_t size = size_of(a.seed, i, a.lo, a.hi);
        if (p != NULL && placed_well(a.heap, a.use_owns, p, size)) {
            fill_block(p, size, mix(~a.seed - i), wh_thread_id() % a.lanes, a.lanes);
        }
    }
}

/* The lanes that share a block are one lane, or a whole warp of one block index. */
WH_KERNEL(k_check, verify_args, a) {
    const uint64_t i = wh_thread_id() / a.lanes;
    if (i < a.n) {
        const unsigned char *p = (const unsigned char *)a.ptrs[i];
        const uint64_t size = size_of(a.seed, i, a.lo, a.hi);
        if (p != NULL && placed_well(a.heap, a.use_owns, p, size)) {
            const uint64_t share = wh_thread_id() % a.lanes;
            int bad = block_differs(p, size, mix(~a.seed - i), share, a.lanes);
            if (a.lanes == WH_WARP_SIZE) {
                bad = wh_any(UINT32_MAX, bad);
            }
            if (bad && share == 0) {
                wh_add_u64_relaxed(&a.counts->bad, 1);
            }
        }
    }
}

/* Whether blocks are disjoint follows from their addresses alone, so this needs no access
 * to the blocks: of two that share 16 bytes, the one that comes second finds a bit set. */
WH_KERNEL(k_claim, verify_args, a) {
    const uint64_t i = wh_thread_id() / a.lanes;
    if (i < a.n) {
        const unsigned char *p = (const unsigned char *)a.ptrs[i];
        const uint64_t size = size_of(a.seed, i, a.lo, a.hi);
        if (p != NULL && placed_well(a.heap, a.use_owns, p, size)) {
            const uint64_t offset = (uint64_t)(uintptr_t)p - a.claim_base;
            const uint64_t share = wh_thread_id() % a.lanes;
            int bad = claim_block(a.claimed, offset, size, share, a.lanes);
            if (a.lanes == WH_WARP_SIZE) {
                bad = wh_any(UINT32_MAX, bad);
            }
            if (bad && share == 0) {
                wh_add_u64_relaxed(&a.counts->bad, 1);
            }
        }
    }
}

/* --- launchers ---------------------------------------------------------------------- */

#define FLOOR_LAUNCHER(name)                                                    \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        floor_args a;                                                           \
        a.ptrs = call->ptrs;                                                    \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        return k_##name(launch, &a);                                            \
    }
#define VERIFY_LAUNCHER(name)                                                   \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        verify_args a;                                                          \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        a.counts = call->counts;                                                \
        a.claimed = call->claimed;                                              \
        a.claim_base = call->claim_base;                                        \
        a.lanes = call->lanes;                                                  \
        a.use_owns = call->use_owns;                                            \
        return k_##name(launch, &a);                                            \
    }

FLOOR_LAUNCHER(floor_single)
FLOOR_LAUNCHER(floor_mixed)
FLOOR_LAUNCHER(floor_warp)
FLOOR_LAUNCHER(floor_free)
FLOOR_LAUNCHER(floor_free_warp)
CHURN_LAUNCHER(churn_whole)
CHURN_LAUNCHER(drain)
CHURN_LAUNCHER(drain_whole)
VERIFY_LAUNCHER(survey)
VERIFY_LAUNCHER(fill)
VERIFY_LAUNCHER(check)
VERIFY_LAUNCHER(claim)

WH_TABLE(wh_bench_kernels) = {
    WH_OF_(NAME),  bind,         floor_single, floor_mixed, floor_warp, floor_free, floor_free_warp,
    malloc_single, malloc_mixed, malloc_warp,  free_all,    free_warp,  churn,      churn_whole,
    drain,         drain_whole,  survey,       fill,        check,      claim,
};

/* bench_kernels.c: the kernels of the benchmark, compiled once per allocator and
 * target (see bench_kernels.h for the table it exports).
 *
 * The timed malloc and free kernels hold nothing but the bounds test, the call and
 * the access to the pointer array, so that their time minus the floor's is the
 * allocator's.
 */
#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#define WH_KERNEL_BLOCKS WH_OF_(BLOCKS)
#endif

#include <string.h>

#include "bench/kernels/pattern.h"
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

/* --- malloc and free ------------------------------------------------------------ */

typedef struct alloc_args {
    wh_heap_ref heap;
    void **ptrs;
    uint64_t n, lo, hi, seed;
} alloc_args;

WH_KERNEL(k_malloc_single, alloc_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.lo);
    }
}

WH_KERNEL(k_malloc_mixed, alloc_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)pick_size(mix(a.seed + i), a.lo, a.hi));
    }
}

WH_KERNEL(k_malloc_warp, alloc_args, a) {
    const uint64_t i = wh_thread_id() / WH_WARP_SIZE;
    if (i < a.n && wh_lane_id() == 0) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.lo);
    }
}

WH_KERNEL(k_free_all, alloc_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        wh_free(a.heap, a.ptrs[i]);
    }
}

WH_KERNEL(k_free_warp, alloc_args, a) {
    const uint64_t i = wh_thread_id() / WH_WARP_SIZE;
    if (i < a.n && wh_lane_id() == 0) {
        wh_free(a.heap, a.ptrs[i]);
    }
}

/* --- churn ---------------------------------------------------------------------- */

typedef struct churn_args {
    wh_heap_ref heap;
    void **ptrs;
    uint32_t *born;
    uint64_t n, lo, hi, seed;
    wh_bench_counts *counts;
    uint32_t steps, stamp;
    int use_owns;
} churn_args;

#define NOT_STAMPED 0xffu /* more than any step: churn_steps of driver/defaults.c is 20 */

WH_FN uint64_t churn_random(uint64_t seed, uint64_t thread, uint32_t step) {
    return mix(seed + (thread << 20) + step);
}

/* Size and pattern of a block follow from who allocated it in which step. `whole` is a
 * constant wherever this is called: all of the block, or its first 16 bytes. */
WH_FN void churn_stamp(unsigned char *p, uint64_t size, uint64_t random, int whole) {
    if (whole) {
        fill_block(p, size, random, 0, 1);
    } else {
        fill_unit(p, 0, random);
    }
}

WH_FN int churn_differs(const unsigned char *p, uint64_t size, uint64_t random, int whole) {
    return whole ? block_differs(p, size, random, 0, 1) : unit_differs(p, 0, random);
}

/* What a thread holds. Slots are selected by comparison, not by index, to stay in
 * registers. */
typedef struct churn_slots {
    unsigned char *p0, *p1, *p2, *p3;
    uint32_t born; /* a byte for each: the step of the malloc, or NOT_STAMPED */
} churn_slots;

WH_STATIC_ASSERT(WH_BENCH_SLOTS == 4, "churn_slots names four");

WH_FN unsigned char *slot_block(churn_slots s, uint32_t k) {
    if (k < 2) {
        return k == 0 ? s.p0 : s.p1;
    }
    return k == 2 ? s.p2 : s.p3;
}

WH_FN uint32_t slot_born(churn_slots s, uint32_t k) {
    return s.born >> 8 * k & 0xff;
}

WH_FN churn_slots slot_put(churn_slots s, uint32_t k, unsigned char *p, uint32_t born) {
    s.p0 = k == 0 ? p : s.p0;
    s.p1 = k == 1 ? p : s.p1;
    s.p2 = k == 2 ? p : s.p2;
    s.p3 = k == 3 ? p : s.p3;
    s.born = (s.born & ~(0xffu << 8 * k)) | born << 8 * k;
    return s;
}

/* Each step picks one of the thread's slots: an empty one is filled by malloc, a held one is
 * verified and freed. What a thread needs after a call lies in memory during each step, so it is
 * little: what follows from the step is computed again, and what should not happen is counted at
 * once. */
#define CHURN_BODY(a, whole)                                                                    \
    const uint64_t i = wh_thread_id();                                                          \
    if (i < (a).n) {                                                                            \
        churn_slots slots = {NULL, NULL, NULL, NULL, 0};                                        \
        for (uint32_t step = 0; step < (a).steps; step++) {                                     \
            const uint64_t r = churn_random((a).seed, i, step);                                 \
            unsigned char *p = slot_block(slots, (uint32_t)r % WH_BENCH_SLOTS);                 \
            uint32_t born = NOT_STAMPED;                                                        \
            uint64_t its = r;                                                                   \
            if (p == NULL) {                                                                    \
                p = (unsigned char *)wh_malloc((a).heap, (size_t)pick_size(r, (a).lo, (a).hi)); \
                its = churn_random((a).seed, i, (uint32_t)wh_again_u64(step));                  \
                if (p == NULL) {                                                                \
                    wh_add_u64_relaxed(&(a).counts->failed, 1);                                 \
                } else if ((a).stamp != WH_BENCH_STAMP_NONE) {                                  \
                    const uint64_t size = pick_size(its, (a).lo, (a).hi);                       \
                    if (placed_well((a).heap, (a).use_owns, p, size)) {                         \
                        born = step;                                                            \
                        churn_stamp(p, size, its, whole);                                       \
                    } else {                                                                    \
                        wh_add_u64_relaxed(&(a).counts->bad, 1);                                \
                    }                                                                           \
                }                                                                               \
            } else {                                                                            \
                const uint32_t was = slot_born(slots, (uint32_t)r % WH_BENCH_SLOTS);            \
                if (was != NOT_STAMPED) {                                                       \
                    const uint64_t old = churn_random((a).seed, i, was);                        \
                    if (churn_differs(p, pick_size(old, (a).lo, (a).hi), old, whole) &&         \
                        (a).stamp == WH_BENCH_STAMP_CHECK) {                                    \
                        wh_add_u64_relaxed(&(a).counts->bad, 1);                                \
                    }                                                                           \
                }                                                                               \
                wh_free((a).heap, p);                                                           \
                p = NULL;                                                                       \
                its = churn_random((a).seed, i, (uint32_t)wh_again_u64(step));                  \
            }                                                                                   \
            slots = slot_put(slots, (uint32_t)its % WH_BENCH_SLOTS, p, born);                   \
        }                                                                                       \
        for (uint32_t k = 0; k < WH_BENCH_SLOTS; k++) {                                         \
            (a).ptrs[k * (a).n + i] = slot_block(slots, k);                                     \
            (a).born[k * (a).n + i] = slot_born(slots, k);                                      \
        }                                                                                       \
    }

WH_KERNEL(k_churn, churn_args, a){CHURN_BODY(a, 0)}

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

static wh_status bind(const wh_heap *heap, wh_bench_handle *handle) {
    wh_heap_ref h;
    const wh_status s = wh_heap_handle(heap, &h);
    if (s == WH_OK) {
        memcpy(handle, &h, sizeof h);
    }
    return s;
}

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
#define ALLOC_LAUNCHER(name)                                                    \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        alloc_args a;                                                           \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        return k_##name(launch, &a);                                            \
    }
#define CHURN_LAUNCHER(name)                                                    \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        churn_args a;                                                           \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.born = call->born;                                                    \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        a.counts = call->counts;                                                \
        a.steps = call->steps;                                                  \
        a.use_owns = call->use_owns;                                            \
        a.stamp = call->stamp;                                                  \
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
ALLOC_LAUNCHER(malloc_single)
ALLOC_LAUNCHER(malloc_mixed)
ALLOC_LAUNCHER(malloc_warp)
ALLOC_LAUNCHER(free_all)
ALLOC_LAUNCHER(free_warp)
CHURN_LAUNCHER(churn)
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

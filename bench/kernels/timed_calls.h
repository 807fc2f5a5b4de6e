/* timed_calls.h: the timed kernels around malloc, free and churn, and their launchers. A file that
 * includes it says by TIMED_KERNEL what they are: WH_KERNEL, or WH_KERNEL_PLAIN for what a user's
 * own __global__ function gets. Device code.
 *
 * They hold nothing but the bounds test, the call and the access to the pointer array, so that
 * their time minus the floor's is the allocator's.
 */
#ifndef WHI_BENCH_TIMED_CALLS_H
#define WHI_BENCH_TIMED_CALLS_H

#include <string.h>

#include "bench/kernels/pattern.h"

#ifndef TIMED_KERNEL
#define TIMED_KERNEL WH_KERNEL
#endif

/* --- malloc and free ------------------------------------------------------------ */

typedef struct alloc_args {
    wh_heap_ref heap;
    void **ptrs;
    uint64_t n, lo, hi, seed;
} alloc_args;

TIMED_KERNEL(k_malloc_single, alloc_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.lo);
    }
}

TIMED_KERNEL(k_malloc_mixed, alloc_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)pick_size(mix(a.seed + i), a.lo, a.hi));
    }
}

TIMED_KERNEL(k_malloc_warp, alloc_args, a) {
    const uint64_t i = wh_thread_id() / WH_WARP_SIZE;
    if (i < a.n && wh_lane_id() == 0) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.lo);
    }
}

TIMED_KERNEL(k_free_all, alloc_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        wh_free(a.heap, a.ptrs[i]);
    }
}

TIMED_KERNEL(k_free_warp, alloc_args, a) {
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

TIMED_KERNEL(k_churn, churn_args, a){CHURN_BODY(a, 0)}

/* --- launchers ---------------------------------------------------------------------- */

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

ALLOC_LAUNCHER(malloc_single) ALLOC_LAUNCHER(malloc_mixed) ALLOC_LAUNCHER(malloc_warp)
    ALLOC_LAUNCHER(free_all) ALLOC_LAUNCHER(free_warp) CHURN_LAUNCHER(churn)

#endif

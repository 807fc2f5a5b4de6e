/* ledger_kernels.c: kernels over a ledger, the benchmark's record of live blocks of many
 * sizes: ptrs[i] and sizes[i] for i < n. Compiled once per allocator and target. None of
 * them is timed.
 *
 * A block's pattern follows from its address, so entries may move. Two entries with one
 * address would agree on it: that is what claim is for, which tells by addresses alone.
 */
#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#endif

#include <string.h>

#include "bench/kernels/pattern.h"
#include "warpheap/detail/alloc/tables.h"

typedef struct ledger_args {
    wh_heap_ref heap;
    void **ptrs;
    uint32_t *sizes;
    uint64_t n, first, lo, hi, seed, step, keep;
    void **kept_ptrs;
    uint32_t *kept_sizes;
    void **victims;
    wh_bench_ledger *ledger;
    wh_bench_counts *counts;
    uint32_t *claimed;
    uint64_t claim_base;
    uint32_t lanes;
    int use_owns;
} ledger_args;

WH_FN uint64_t tag_of(const ledger_args *a, const void *p) {
    return mix(a->seed + (uint64_t)(uintptr_t)p);
}

WH_KERNEL(k_record, ledger_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.sizes[i] = (uint32_t)size_of(a.seed, i, a.lo, a.hi);
    }
}

/* Which entries stay depends on seed and index alone, the order in which they are moved on
 * who comes first. */
WH_KERNEL(k_split, ledger_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        if (mix(~a.seed ^ (i * 0x9e3779b97f4a7c15u)) >> 32 < a.keep) {
            const uint64_t k = wh_fetch_add_u64_relaxed(&a.ledger->kept, 1);
            a.kept_ptrs[k] = a.ptrs[i];
            a.kept_sizes[k] = a.sizes[i];
        } else {
            a.victims[wh_fetch_add_u64_relaxed(&a.ledger->victims, 1)] = a.ptrs[i];
        }
    }
}

/* A block whose usable size is below the request is bad. */
WH_KERNEL(k_probe, ledger_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t size = a.lo + i * a.step;
        void *p = wh_malloc(a.heap, (size_t)size);
        const uint64_t usable = wh_usable_size(a.heap, p);
        a.ptrs[i] = p;
        a.sizes[i] = usable < UINT32_MAX ? (uint32_t)usable : UINT32_MAX;
        if (p != NULL && usable < size) {
            a.sizes[i] = (uint32_t)size;
            wh_add_u64_relaxed(&a.counts->bad, 1);
        } else if (p != NULL) {
            /* below 2^32 with room, since usable - size < usable; a double is exact enough */
            const uint64_t waste =
                (uint64_t)((double)(usable - size) / (double)usable * 4294967296.0);
            wh_add_u64_relaxed(&a.ledger->waste_sum, waste);
            wh_add_u64_relaxed(&a.ledger->measured, 1);
            (void)wh_fetch_max_u64_relaxed(&a.ledger->waste_max, waste << 32 | size);
        }
    }
}

WH_KERNEL(k_survey, ledger_args, a) {
    uint64_t failed = 0;
    uint64_t bad = 0;
    uint64_t served = 0;
    uint64_t requested = 0;
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const void *p = a.ptrs[i];
        const uint64_t size = a.sizes[i];
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
        (void)wh_fetch_min_u64_relaxed(&a.counts->low, low);
        (void)wh_fetch_max_u64_relaxed(&a.counts->high, high);
    }
}

/* The rest runs only after a survey that found no bad block. */
WH_KERNEL(k_fill, ledger_args, a) {
    const uint64_t i = a.first + wh_thread_id() / a.lanes;
    if (i < a.n && a.ptrs[i] != NULL) {
        unsigned char *p = (unsigned char *)a.ptrs[i];
        fill_block(p, a.sizes[i], tag_of(&a, p), wh_thread_id() % a.lanes, a.lanes);
    }
}

WH_FN void count_bad(const ledger_args *a, uint64_t share, int bad) {
    if (a->lanes == WH_WARP_SIZE) {
        bad = wh_any(UINT32_MAX, bad);
    }
    if (bad && share == 0) {
        wh_add_u64_relaxed(&a->counts->bad, 1);
    }
}

WH_KERNEL(k_check, ledger_args, a) {
    const uint64_t i = wh_thread_id() / a.lanes;
    if (i < a.n && a.ptrs[i] != NULL) {
        const unsigned char *p = (const unsigned char *)a.ptrs[i];
        const uint64_t share = wh_thread_id() % a.lanes;
        count_bad(&a, share, block_differs(p, a.sizes[i], tag_of(&a, p), share, a.lanes));
    }
}

WH_KERNEL(k_claim, ledger_args, a) {
    const uint64_t i = wh_thread_id() / a.lanes;
    if (i < a.n && a.ptrs[i] != NULL) {
        const uint64_t share = wh_thread_id() % a.lanes;
        const uint64_t offset = (uint64_t)(uintptr_t)a.ptrs[i] - a.claim_base;
        count_bad(&a, share, claim_block(a.claimed, offset, a.sizes[i], share, a.lanes));
    }
}

WH_KERNEL(k_malloc_timed, ledger_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const uint64_t start = wh_time_ns();
        uint64_t *p = (uint64_t *)wh_malloc(a.heap, (size_t)a.lo);
        if (p != NULL) {
            wh_store_u64_relaxed(p, i);
            (void)wh_fetch_add_u64_acq_rel(p, 1); /* it is there */
        }
        a.sizes[i] = (uint32_t)(wh_time_ns() - start);
        a.ptrs[i] = p;
    }
}

#define LAUNCHER(name)                                                          \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        ledger_args a;                                                          \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.sizes = call->sizes;                                                  \
        a.n = call->n;                                                          \
        a.first = call->first;                                                  \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        a.step = call->step;                                                    \
        a.keep = call->keep;                                                    \
        a.kept_ptrs = call->kept_ptrs;                                          \
        a.kept_sizes = call->kept_sizes;                                        \
        a.victims = call->victims;                                              \
        a.ledger = call->ledger;                                                \
        a.counts = call->counts;                                                \
        a.claimed = call->claimed;                                              \
        a.claim_base = call->claim_base;                                        \
        a.lanes = call->lanes;                                                  \
        a.use_owns = call->use_owns;                                            \
        return k_##name(launch, &a);                                            \
    }

LAUNCHER(record)
LAUNCHER(split)
LAUNCHER(probe)
LAUNCHER(survey)
LAUNCHER(fill)
LAUNCHER(check)
LAUNCHER(claim)
LAUNCHER(malloc_timed)

WH_TABLE(wh_bench_ledger_kernels) = {record, split, probe, survey,
                                     fill,   check, claim, malloc_timed};

/* timed_heaps.h: the timed kernels of the cases server, slabhash and fill-log, and what their
 * checks share with them. As timed_calls.h: TIMED_KERNEL says what kernels they are. Device code.
 */
#ifndef WHI_BENCH_TIMED_HEAPS_H
#define WHI_BENCH_TIMED_HEAPS_H

#include <string.h>

#include "bench/kernels/pattern.h"

#ifndef TIMED_KERNEL
#define TIMED_KERNEL WH_KERNEL
#endif

#define ALL_LANES UINT32_MAX

typedef struct heaps_args {
    wh_heap_ref heap;
    void **ptrs;
    uint32_t *sizes;
    uint64_t n, lo, hi, seed;
    wh_bench_counts *counts;
    uint32_t *claimed;
    uint64_t claim_base;
    uint32_t octaves, round, stamp;
} heaps_args;

/* --- tags of blocks ------------------------------------------------------------------- */

WH_FN uint32_t tag_at(uint64_t seed, uint64_t place, uint64_t size) {
    return (uint32_t)mix(seed ^ place * 0x9e3779b97f4a7c15u ^ size << 40);
}

WH_FN void write_tag(void *p, uint64_t size, uint32_t tag) {
    uint32_t *q = (uint32_t *)p;
    q[0] = tag;
    q[(size - 4) / 4] = tag;
}

WH_FN int tag_differs(const void *p, uint64_t size, uint32_t tag) {
    const uint32_t *q = (const uint32_t *)p;
    return ((q[0] ^ tag) | (q[(size - 4) / 4] ^ tag)) != 0; /* one wait for both */
}

/* Counts a block whose tag is another one, before its free. */
WH_FN void check_tag(const heaps_args *a, const void *p, uint64_t place, uint64_t size) {
    if (tag_differs(p, size, tag_at(a->seed, place, size)) && a->stamp == WH_BENCH_STAMP_CHECK) {
        wh_add_u64_relaxed(&a->counts->bad, 1);
    }
}

/* What malloc returned gets its tag; NULL and what cannot be written are counted. */
WH_FN void take_block(const heaps_args *a, void *p, uint64_t place, uint64_t size) {
    if (p == NULL) {
        wh_add_u64_relaxed(&a->counts->failed, 1);
    } else if (((uintptr_t)p & 15) != 0) {
        wh_add_u64_relaxed(&a->counts->bad, 1);
    } else {
        write_tag(p, size, tag_at(a->seed, place, size));
    }
}

/* --- the server ----------------------------------------------------------------------- */

TIMED_KERNEL(k_malloc_log, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)pick_log(mix(a.seed + i), a.lo, a.octaves));
    }
}

WH_FN uint64_t round_random(const heaps_args *a, uint64_t thread) {
    return mix(a->seed + ((uint64_t)a->round << 36) + thread);
}

/* Block k of thread i has the place k * n + i. */
WH_FN uint64_t round_place(const heaps_args *a, uint64_t random, uint64_t thread) {
    return random % WH_BENCH_LIVE * a->n + thread;
}

TIMED_KERNEL(k_server_round, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t r = round_random(&a, i);
        const uint64_t place = round_place(&a, r, i);
        const uint64_t size = pick_log(r, a.lo, a.octaves);
        void *p = a.ptrs[place];
        if (p != NULL) {
            check_tag(&a, p, place, a.sizes[place]);
            wh_free(a.heap, p);
        }
        p = wh_malloc(a.heap, (size_t)size);
        a.ptrs[place] = p;
        a.sizes[place] = (uint32_t)size;
        take_block(&a, p, place, size);
    }
}

/* --- the slab hash -------------------------------------------------------------------- */

typedef struct slab_args {
    wh_heap_ref heap;
    wh_pool_t pool; /* of slabs */
    uint64_t *table;
    uint64_t n, buckets, seed;
    wh_bench_counts *counts;
    int use_owns;
} slab_args;

WH_FN uint64_t slab_bucket(const slab_args *a, uint64_t key) {
    return (mix(a->seed ^ key << 20) >> 32) * a->buckets >> 32;
}

/* Key and value as a slot holds them; never 0. */
WH_FN uint64_t slab_pair(const slab_args *a, uint64_t key) {
    return key << 32 | (uint32_t)mix(a->seed + key);
}

/* What the warp needs to know of a slab: its address, 0 for none. Called by all lanes; what the
 * slab's maker wrote before it was linked is seen by all. */
WH_FN uint64_t slab_of_link(uint64_t *link) {
    uint64_t slab = 0;
    if (wh_lane_id() == 0) {
        slab = wh_load_u64_acquire(link);
    }
    slab = wh_shfl_u64(ALL_LANES, slab, 0);
    wh_syncwarp(ALL_LANES);
    return slab;
}

/* Lane 0 allocates a slab, all clear it, lane 0 links it unless another warp was first. Returns the
 * slab that is linked, 0: there was none. by_pool: a constant. */
WH_FN uint64_t slab_new(const slab_args *a, uint64_t *link, int by_pool) {
    const uint32_t lane = wh_lane_id();
    uint64_t slab = 0;
    uint64_t linked = 0;
    if (lane == 0) {
        void *p = by_pool ? wh_pool_malloc(a->pool) : wh_malloc(a->heap, WH_BENCH_SLAB_BYTES);
        const int bad = p != NULL && !placed_well(a->heap, a->use_owns, p, WH_BENCH_SLAB_BYTES);
        if (bad) {
            wh_add_u64_relaxed(&a->counts->bad, 1);
        }
        slab = bad ? 0 : (uint64_t)(uintptr_t)p;
    }
    slab = wh_shfl_u64(ALL_LANES, slab, 0);
    if (slab == 0) {
        return 0;
    }
    if (lane <= WH_BENCH_SLAB_SLOTS) {
        wh_store_u64_relaxed((uint64_t *)(uintptr_t)slab + lane, 0);
    }
    wh_syncwarp(ALL_LANES);
    if (lane == 0) {
        linked = wh_cas_u64_acq_rel(link, 0, slab);
        if (linked != 0 && by_pool) {
            wh_pool_free(a->pool, (void *)(uintptr_t)slab);
        } else if (linked != 0) {
            wh_free(a->heap, (void *)(uintptr_t)slab);
        }
    }
    linked = wh_shfl_u64(ALL_LANES, linked, 0);
    wh_syncwarp(ALL_LANES);
    return linked != 0 ? linked : slab;
}

/* All lanes put one pair into a chain; whether it found room. */
WH_FN int slab_put(const slab_args *a, uint64_t *link, uint64_t pair, int by_pool) {
    const uint32_t lane = wh_lane_id();
    for (uint32_t length = 0; length < WH_BENCH_CHAIN_MOST; length++) {
        uint64_t slab = slab_of_link(link);
        slab = slab != 0 ? slab : slab_new(a, link, by_pool);
        if (slab == 0) {
            return 0;
        }
        uint64_t *slots = (uint64_t *)(uintptr_t)slab;
        for (;;) {
            uint64_t seen = 1;
            if (lane < WH_BENCH_SLAB_SLOTS) {
                seen = wh_load_u64_relaxed(&slots[lane]);
            }
            const wh_mask empty = wh_ballot(ALL_LANES, seen == 0);
            if (empty == 0) {
                break;
            }
            if (lane == wh_mask_leader(empty)) {
                seen = wh_cas_u64_relaxed(&slots[lane], 0, pair);
            }
            if (wh_shfl_u64(ALL_LANES, seen, wh_mask_leader(empty)) == 0) {
                return 1;
            }
        }
        link = &slots[WH_BENCH_SLAB_SLOTS];
    }
    return 0;
}

/* Each lane has a key; the warp works for one after the other. */
WH_FN void slab_put_all(const slab_args *a, int by_pool) {
    const uint64_t first = wh_thread_id() - wh_lane_id();
    uint32_t failed = 0;
    for (uint64_t k = first; k < first + WH_WARP_SIZE && k < a->n; k++) {
        uint64_t *link = &a->table[slab_bucket(a, k + 1)];
        failed += slab_put(a, link, slab_pair(a, k + 1), by_pool) ? 0 : 1;
    }
    if (failed != 0 && wh_lane_id() == 0) {
        wh_add_u64_relaxed(&a->counts->failed, failed);
    }
}

WH_FN void slab_free_all(const slab_args *a, int by_pool) {
    const uint64_t i = wh_thread_id();
    if (i < a->buckets) {
        uint64_t *slab = (uint64_t *)(uintptr_t)a->table[i];
        a->table[i] = 0;
        for (uint32_t k = 0; slab != NULL && k < WH_BENCH_CHAIN_MOST; k++) {
            uint64_t *next = (uint64_t *)(uintptr_t)slab[WH_BENCH_SLAB_SLOTS];
            if (by_pool) {
                wh_pool_free(a->pool, slab);
            } else {
                wh_free(a->heap, slab);
            }
            slab = next;
        }
    }
}

TIMED_KERNEL(k_slab_insert, slab_args, a) {
    slab_put_all(&a, 0);
}

TIMED_KERNEL(k_slab_sweep, slab_args, a) {
    slab_free_all(&a, 0);
}

TIMED_KERNEL(k_slab_insert_pool, slab_args, a) {
    slab_put_all(&a, 1);
}

TIMED_KERNEL(k_slab_sweep_pool, slab_args, a) {
    slab_free_all(&a, 1);
}

/* --- launchers ---------------------------------------------------------------------- */

#define HEAPS_LAUNCHER(name)                                                    \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        heaps_args a;                                                           \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.ptrs = call->ptrs;                                                    \
        a.sizes = call->sizes;                                                  \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        a.counts = call->counts;                                                \
        a.claimed = call->claimed;                                              \
        a.claim_base = call->claim_base;                                        \
        a.octaves = call->octaves;                                              \
        a.round = call->round;                                                  \
        a.stamp = call->stamp;                                                  \
        return k_##name(launch, &a);                                            \
    }
#define SLAB_LAUNCHER(name)                                                     \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        slab_args a;                                                            \
        memcpy(&a.heap, &call->handle, sizeof a.heap);                          \
        a.pool.heap = a.heap;                                                   \
        a.pool.own = WH_POOL_(plan)(a.heap, WH_BENCH_SLAB_BYTES);               \
        a.table = call->table;                                                  \
        a.n = call->n;                                                          \
        a.buckets = call->buckets;                                              \
        a.seed = call->seed;                                                    \
        a.counts = call->counts;                                                \
        a.use_owns = call->use_owns;                                            \
        return k_##name(launch, &a);                                            \
    }

HEAPS_LAUNCHER(malloc_log)
HEAPS_LAUNCHER(server_round)
SLAB_LAUNCHER(slab_insert)
SLAB_LAUNCHER(slab_sweep)
SLAB_LAUNCHER(slab_insert_pool)
SLAB_LAUNCHER(slab_sweep_pool)

#endif

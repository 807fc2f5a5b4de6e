/* heaps_kernels.c: the kernels of the cases that look at what a heap has become: server, cells,
 * slabhash, fill-log; and loops of mallocs for arena. Compiled once per allocator and target. Those
 * of timed_heaps.h are timed, and so is `cells`. */
#include "bench/kernels/bench_kernels.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS WH_BENCH_BLOCK_THREADS
#define WH_KERNEL_BLOCKS (WH_OF_(BLOCKS) < 6 ? WH_OF_(BLOCKS) : 6) /* 40 registers at least */
#endif

#include "bench/kernels/timed_heaps.h"
#include "warpheap/detail/alloc/tables.h"

/* --- floors --------------------------------------------------------------------------- */

WH_KERNEL(k_floor_log, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t size = pick_log(mix(a.seed + i), a.lo, a.octaves);
        a.ptrs[i] = (void *)(uintptr_t)(4096 + i * a.hi + size);
    }
}

/* The pointer that it reads is used in a test that no pointer passes. */
WH_KERNEL(k_floor_round, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t r = round_random(&a, i);
        const uint64_t place = round_place(&a, r, i);
        const uint64_t size = pick_log(r, a.lo, a.octaves);
        const uint64_t was = (uint64_t)(uintptr_t)a.ptrs[place];
        a.ptrs[place] = was == 1 ? NULL : (void *)(uintptr_t)(4096 + i * a.hi + size);
        a.sizes[place] = (uint32_t)size;
    }
}

/* --- blocks with tags ----------------------------------------------------------------- */

WH_KERNEL(k_record_log, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.sizes[i] = (uint32_t)pick_log(mix(a.seed + i), a.lo, a.octaves);
    }
}

WH_KERNEL(k_tag, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        write_tag(a.ptrs[i], a.sizes[i], tag_at(a.seed, i, a.sizes[i]));
    }
}

WH_KERNEL(k_check, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        check_tag(&a, a.ptrs[i], i, a.sizes[i]);
    }
}

WH_KERNEL(k_pages, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        const uint64_t at = (uint64_t)(uintptr_t)a.ptrs[i] - a.claim_base;
        const uint64_t last = (at + a.sizes[i] - 1) / WH_BENCH_PAGE;
        uint64_t fresh = 0;
        for (uint64_t page = at / WH_BENCH_PAGE; page <= last; page++) {
            const uint32_t bit = 1u << page % 32;
            fresh += (wh_fetch_or_u32_relaxed(&a.claimed[page / 32], bit) & bit) == 0 ? 1 : 0;
        }
        if (fresh != 0) {
            wh_add_u64_relaxed(&a.counts->pages, fresh);
        }
    }
}

/* --- lists of cells ------------------------------------------------------------------- */

/* 1 to hi / 64 words, and now and then 16 times as many. */
WH_FN uint64_t list_bytes(uint64_t random, uint64_t hi) {
    const uint64_t bytes = 4 + 4 * ((random >> 32) * (hi / 64) >> 32);
    return random % 61 == 0 ? 16 * bytes : bytes;
}

/* The new list comes before the old one goes. */
WH_KERNEL(k_cells, heaps_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t size = list_bytes(round_random(&a, i), a.hi);
        void *old = a.ptrs[i];
        const uint32_t old_size = a.sizes[i];
        void *p = wh_malloc(a.heap, (size_t)size);
        a.ptrs[i] = p;
        a.sizes[i] = (uint32_t)size;
        take_block(&a, p, i, size);
        if (old != NULL) {
            check_tag(&a, old, i, old_size);
            wh_free(a.heap, old);
        }
    }
}

/* --- what a slab hash holds ----------------------------------------------------------- */

WH_KERNEL(k_slab_find, slab_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t pair = slab_pair(&a, i + 1);
        const uint64_t *slab = (const uint64_t *)(uintptr_t)a.table[slab_bucket(&a, i + 1)];
        uint32_t found = 0;
        uint32_t wrong = 0;
        for (uint32_t k = 0; slab != NULL && k < WH_BENCH_CHAIN_MOST; k++) {
            for (uint32_t slot = 0; slot < WH_BENCH_SLAB_SLOTS; slot++) {
                found += slab[slot] == pair ? 1 : 0;
                wrong += slab[slot] != pair && slab[slot] >> 32 == i + 1 ? 1 : 0;
            }
            slab = (const uint64_t *)(uintptr_t)slab[WH_BENCH_SLAB_SLOTS];
        }
        if (found > 1 || wrong != 0) {
            wh_add_u64_relaxed(&a.counts->bad, 1);
        } else if (found == 1) {
            wh_add_u64_relaxed(&a.counts->served, 1);
        }
    }
}

/* A chain that does not end is one bad block. */
WH_KERNEL(k_slab_count, slab_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.buckets) {
        const uint64_t *slab = (const uint64_t *)(uintptr_t)a.table[i];
        uint64_t keys = 0;
        uint64_t bad = 0;
        uint32_t slabs = 0;
        for (; slab != NULL && slabs < WH_BENCH_CHAIN_MOST; slabs++) {
            for (uint32_t slot = 0; slot < WH_BENCH_SLAB_SLOTS; slot++) {
                const uint64_t key = slab[slot] >> 32;
                keys += slab[slot] != 0 ? 1 : 0;
                bad += slab[slot] != 0 && slab_bucket(&a, key) != i ? 1 : 0;
            }
            slab = (const uint64_t *)(uintptr_t)slab[WH_BENCH_SLAB_SLOTS];
        }
        bad += slab != NULL ? 1 : 0;
        if (bad != 0) {
            wh_add_u64_relaxed(&a.counts->bad, bad);
        }
        if (slabs != 0) {
            wh_add_u64_relaxed(&a.counts->keys, keys);
            wh_add_u64_relaxed(&a.counts->slabs, slabs);
        }
    }
}

/* --- loops of mallocs ------------------------------------------------------------------ */

WH_KERNEL(k_malloc_loop, heaps_args, a) {
    const uint64_t threads = wh_grid_threads();
    for (uint64_t i = wh_thread_id(); i < a.n; i += threads) {
        a.ptrs[i] = wh_malloc(a.heap, (size_t)a.lo);
    }
}

WH_KERNEL(k_floor_loop, heaps_args, a) {
    const uint64_t threads = wh_grid_threads();
    for (uint64_t i = wh_thread_id(); i < a.n; i += threads) {
        a.ptrs[i] = (void *)(uintptr_t)(4096 + i * a.lo);
    }
}

/* --- the table ------------------------------------------------------------------------ */

HEAPS_LAUNCHER(floor_log)
HEAPS_LAUNCHER(floor_round)
HEAPS_LAUNCHER(record_log)
HEAPS_LAUNCHER(tag)
HEAPS_LAUNCHER(check)
HEAPS_LAUNCHER(pages)
HEAPS_LAUNCHER(cells)
HEAPS_LAUNCHER(malloc_loop)
HEAPS_LAUNCHER(floor_loop)
SLAB_LAUNCHER(slab_find)
SLAB_LAUNCHER(slab_count)

WH_TABLE(wh_bench_heaps_kernels) = {
    floor_log,  floor_round,      malloc_log,      record_log,  tag,       check,
    pages,      server_round,     cells,           slab_insert, slab_find, slab_count,
    slab_sweep, slab_insert_pool, slab_sweep_pool, malloc_loop, floor_loop};

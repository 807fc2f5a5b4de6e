/* memory_kernels.c: kernels of the cases access and work on memory that may be of a heap or not: a
 * prefix sum over sizes, writes, reads, and their check. Compiled once for each target. */
#define WH_KERNEL_THREADS 256

#include "bench/kernels/bench_kernels.h"
#include "bench/kernels/block_words.h"
#include "warpheap/core/grid_scan.h"
#include "warpheap/detail/alloc/tables.h"

typedef struct memory_args {
    void **ptrs;
    uint32_t *sizes;
    uint64_t *sums;
    unsigned char *base;
    wh_bench_counts *counts;
    uint64_t n, lo, hi, seed, step;
} memory_args;

/* --- a prefix sum -------------------------------------------------------------------- */

WH_KERNEL(k_sizes, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint64_t size = size_of(a.seed, i, a.lo, a.hi);
        a.sizes[i] = (uint32_t)((size + a.step - 1) / a.step * a.step);
    }
    if (i == 0) {
        a.sizes[a.n] = 0;
    }
}

WH_FN uint64_t size_at(const memory_args *a, uint64_t i) {
    return a->sizes[i];
}

WH_GRID_SCAN(k_scan, memory_args, a, a.n, size_at, a.sums)

WH_KERNEL(k_place, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        a.ptrs[i] = a.base + a.sums[i];
    }
}

WH_KERNEL(k_produce, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        uint32_t *p = (uint32_t *)(void *)(a.base + a.sums[i]);
        write_words(p, a.seed, i, size_of(a.seed, i, a.lo, a.hi));
    }
}

/* --- accesses ------------------------------------------------------------------------- */

WH_KERNEL(k_write, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        write_words((uint32_t *)a.ptrs[i], a.seed, i, size_of(a.seed, i, a.lo, a.hi));
    }
}

WH_KERNEL(k_read, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        const uint32_t *p = (const uint32_t *)a.ptrs[i];
        const uint32_t n = (uint32_t)(size_of(a.seed, i, a.lo, a.hi) / 4);
        uint32_t sum = 0;
        for (uint32_t k = 0; k < n; k++) {
            sum += p[k];
        }
        a.sizes[i] = sum;
    }
}

WH_KERNEL(k_write_rows, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        uint32_t *p = (uint32_t *)(void *)a.base + i;
        const uint32_t n = (uint32_t)(size_of(a.seed, i, a.lo, a.hi) / 4);
        for (uint32_t k = 0; k < n; k++) {
            p[k * a.n] = word_of(a.seed, i, k);
        }
    }
}

WH_KERNEL(k_read_rows, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n) {
        const uint32_t *p = (const uint32_t *)(const void *)a.base + i;
        const uint32_t n = (uint32_t)(size_of(a.seed, i, a.lo, a.hi) / 4);
        uint32_t sum = 0;
        for (uint32_t k = 0; k < n; k++) {
            sum += p[k * a.n];
        }
        a.sizes[i] = sum;
    }
}

/* --- the check ------------------------------------------------------------------------- */

WH_KERNEL(k_check, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        const uint32_t *p = (const uint32_t *)a.ptrs[i];
        const uint32_t n = (uint32_t)(size_of(a.seed, i, a.lo, a.hi) / 4);
        uint32_t wrong = 0;
        for (uint32_t k = 0; k < n; k++) {
            wrong |= p[k] ^ word_of(a.seed, i, k);
        }
        if (wrong != 0) {
            wh_add_u64_relaxed(&a.counts->bad, 1);
        }
    }
}

WH_KERNEL(k_check_sums, memory_args, a) {
    const uint64_t i = wh_thread_id();
    if (i < a.n && a.ptrs[i] != NULL) {
        const uint32_t n = (uint32_t)(size_of(a.seed, i, a.lo, a.hi) / 4);
        uint32_t sum = 0;
        for (uint32_t k = 0; k < n; k++) {
            sum += word_of(a.seed, i, k);
        }
        if (a.sizes[i] != sum) {
            wh_add_u64_relaxed(&a.counts->bad, 1);
        }
    }
}

/* --- the table ------------------------------------------------------------------------ */

#define LAUNCHER(name)                                                          \
    static wh_status name(const wh_launch *launch, const wh_bench_call *call) { \
        memory_args a;                                                          \
        a.ptrs = call->ptrs;                                                    \
        a.sizes = call->sizes;                                                  \
        a.sums = call->sums;                                                    \
        a.base = call->base;                                                    \
        a.counts = call->counts;                                                \
        a.n = call->n;                                                          \
        a.lo = call->lo;                                                        \
        a.hi = call->hi;                                                        \
        a.seed = call->seed;                                                    \
        a.step = call->step;                                                    \
        return k_##name(launch, &a);                                            \
    }

LAUNCHER(sizes)
LAUNCHER(scan)
LAUNCHER(place)
LAUNCHER(produce)
LAUNCHER(write)
LAUNCHER(read)
LAUNCHER(write_rows)
LAUNCHER(read_rows)
LAUNCHER(check)
LAUNCHER(check_sums)

WH_TABLE_ONCE(wh_bench_memory_kernels) = {sizes, scan,       place,     produce, write,
                                          read,  write_rows, read_rows, check,   check_sums};

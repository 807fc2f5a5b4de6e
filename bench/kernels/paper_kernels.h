/* paper_kernels.h: kernels for the tests of two papers, one table per (allocator, target):
 * Pham et al. (TOPC 2025), section 5.2: walks that count their steps; Vinkler and Havran
 * (CGF 2015), section 6: AD, ACD, P. Plain C11 and C++; knows nothing of targets. */
#ifndef WH_PAPER_KERNELS_H
#define WH_PAPER_KERNELS_H

#include "bench/kernels/bench_kernels.h"

typedef struct wh_paper_counts {
    uint64_t failed;
    uint64_t bad;
    uint64_t blocks;   /* usable: those looked at */
    uint64_t waste;    /* usable: sum of (size - asked) / size, in 2^-32 */
    uint64_t mallocs;  /* probability */
    uint64_t releases; /* probability */
} wh_paper_counts;

typedef struct wh_paper_call {
    wh_bench_handle handle;
    void **ptrs;        /* device */
    uint32_t *steps;    /* device, get: of request i */
    uint32_t *last;     /* device, get: last page of thread i, all ones: none; NULL: not kept */
    uint32_t *occupied; /* device, occupy, claim: one bit a page or unit */
    wh_paper_counts *counts; /* device */
    uint64_t warps;          /* get, cycle, probability */
    uint64_t n;          /* occupy: words of `occupied`, or pages to take; claim, usable: blocks */
    uint64_t pages;      /* claim: that the heap has */
    uint64_t page_bytes; /* claim: of each of them */
    uint64_t size;
    uint64_t seed;
    uint32_t lanes; /* get: of each warp, that request; 1..32 */
    uint32_t iterations;
    int stamp;     /* write to blocks */
    uint64_t from; /* thin */
} wh_paper_call;

typedef wh_status (*wh_paper_launcher)(const wh_launch *launch, const wh_paper_call *call);

typedef struct wh_paper_kernels {
    const char *allocator;
    /* NULL where the allocator does not walk. */
    wh_paper_launcher occupy; /* any number of threads: makes what `occupied` names used */
    wh_paper_launcher get;    /* 32 * warps threads: request warp * lanes + lane gets a page */
    /* any number of threads: looks at the n pointers that get stored. Counts as bad what is no
     * page of the heap, and a page whose bit in `occupied` is set; sets the bits of the others */
    wh_paper_launcher claim;
    /* All allocators. */
    wh_paper_launcher cycle;       /* 32 * warps threads: lane 0: `iterations` mallocs, frees */
    wh_paper_launcher probability; /* the same: malloc or free with probability 3/4 */
    wh_paper_launcher at_once;     /* `warps` threads: malloc and free */
    wh_paper_launcher usable;      /* any number of threads: waste of the n blocks of `size` */
    wh_paper_launcher thin;        /* any number of threads: frees blocks from..n-1 */
    int queue;                     /* get: steps count from the reset; occupy takes n pages */
} wh_paper_kernels;

const wh_paper_kernels *wh_paper_kernels_find(const char *allocator, wh_target target);

#endif

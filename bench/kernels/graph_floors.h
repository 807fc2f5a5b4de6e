/* graph_floors.h: floors of the cases on graphs: what a device takes for the same accesses without
 * a structure around them. Plain C11 and C++. The kernels are in graph_floors_kernels.c, what uses
 * CUB in bench/cuda/graph_cub.cu, on a GPU alone. */
#ifndef WH_BENCH_GRAPH_FLOORS_H
#define WH_BENCH_GRAPH_FLOORS_H

#include "warpheap/heap.h"

/* Entries of a vertex's strip; a power of two. */
#define WH_BENCH_STRIP 32u

/* All arrays are device memory. */
typedef struct wh_bench_floor_call {
    uint64_t n;
    const uint32_t *from, *to; /* append: n arcs */
    uint32_t *counts;          /*    one a vertex */
    uint32_t *strips;          /*    WH_BENCH_STRIP a vertex */
    const uint64_t *words;     /* copy: n words */
    uint64_t *copy;
    const uint64_t *offset; /* pull: of n vertices */
    const uint32_t *arcs;
    const float *share; /*    rank over degree, of each vertex */
    float *rank;
    float rest, damping; /*    rank = rest + damping * sum */
} wh_bench_floor_call;

typedef wh_status (*wh_bench_floor_launcher)(const wh_launch *launch,
                                             const wh_bench_floor_call *call);

typedef struct wh_bench_floors {
    const char *allocator;
    wh_bench_floor_launcher append;    /* n threads: strip[counter++ mod its entries] = to[i] */
    wh_bench_floor_launcher copy;      /* n threads: a word each */
    wh_bench_floor_launcher pull_lane; /* n threads: an iteration of PageRank, a lane a vertex */
    wh_bench_floor_launcher pull_warp; /* 32 n threads: the same, a warp a vertex */
} wh_bench_floors;

const wh_bench_floors *wh_bench_floors_find(const char *allocator, wh_target target);

/* What CUB does with a batch. A key is from << bits | to. Calls start kernels on the default stream
 * and do not wait. */
typedef struct wh_bench_cub {
    const uint32_t *from, *to; /* n arcs */
    uint64_t n;
    uint32_t bits;                /* of the number of a vertex */
    uint32_t *sorted[2];          /* sort: both ends by source, n each */
    uint64_t *keys, *sorted_keys; /* rebuild: n each */
    const uint64_t *old;          /*    n_old keys, ascending */
    uint64_t n_old;               /*    n + n_old must fit 31 bits */
    uint64_t *merged, *unique;    /*    n + n_old each */
    uint64_t *n_unique;           /*    one */
    uint64_t n_vertices, *offset; /*    one more than vertices */
    uint32_t *arcs;               /*    n + n_old */
    void *scratch;
    size_t scratch_bytes;
} wh_bench_cub;

#if WH_HAVE_CUDA
#ifdef __cplusplus
extern "C" {
#endif
/* How much scratch both take. */
wh_status wh_bench_cub_scratch(wh_bench_cub *c);
/* The batch by its sources. */
wh_status wh_bench_cub_sort(const wh_bench_cub *c);
/* offset and arcs of the old arcs and those of the batch together, each once. */
wh_status wh_bench_cub_rebuild(const wh_bench_cub *c);
#ifdef __cplusplus
}
#endif
#else
static inline wh_status wh_bench_cub_scratch(wh_bench_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
static inline wh_status wh_bench_cub_sort(const wh_bench_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
static inline wh_status wh_bench_cub_rebuild(const wh_bench_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
#endif

#endif

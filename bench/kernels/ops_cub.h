/* ops_cub.h: floors of the cases ops-* that use CUB, on a GPU alone (bench/cuda/ops_cub.cu). Calls
 * start kernels on the default stream and do not wait. All arrays are device memory. */
#ifndef WH_BENCH_OPS_CUB_H
#define WH_BENCH_OPS_CUB_H

#include "warpheap/heap.h"

typedef struct wh_bench_ops_cub {
    const uint32_t *key[2], *value[2];   /* of both tables; of a group-by the first alone */
    uint64_t n[2];                       /* each below 2^31 */
    uint32_t bits;                       /* of a key, from the lowest on, that are sorted by */
    uint32_t *sorted_key, *sorted_value; /* as long as the longer table */
    uint32_t *unique;                    /* group: keys, as many as rows at most, */
    int64_t *sums;                       /*        sums of their values, */
    uint32_t *n_unique;                  /*        and how many there are */
    void *scratch;
    size_t scratch_bytes;
} wh_bench_ops_cub;

#if WH_HAVE_CUDA
#ifdef __cplusplus
extern "C" {
#endif
/* How much scratch both take. */
wh_status wh_bench_ops_cub_scratch(wh_bench_ops_cub *c);
/* Both tables sorted, one after the other. */
wh_status wh_bench_ops_cub_sort(const wh_bench_ops_cub *c);
/* The first table sorted, and the values of each key added up. */
wh_status wh_bench_ops_cub_group(const wh_bench_ops_cub *c);
#ifdef __cplusplus
}
#endif
#else
static inline wh_status wh_bench_ops_cub_scratch(wh_bench_ops_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
static inline wh_status wh_bench_ops_cub_sort(const wh_bench_ops_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
static inline wh_status wh_bench_ops_cub_group(const wh_bench_ops_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
#endif

#endif

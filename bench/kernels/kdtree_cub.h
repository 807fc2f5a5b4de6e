/* kdtree_cub.h: the floor of the cases kdtree*: CUB's sort of triangles by the Morton codes of
 * their centroids, on a GPU alone (bench/cuda/kdtree_cub.cu). Calls start kernels on the default
 * stream and do not wait. All arrays are device memory. */
#ifndef WH_BENCH_KDTREE_CUB_H
#define WH_BENCH_KDTREE_CUB_H

#include "warpheap/heap.h"

typedef struct wh_bench_kdtree_cub {
    const float *vertices;
    const uint32_t *triangles;        /* numbers of vertices that there are */
    uint64_t n;                       /* triangles, below 2^31 */
    float lo[3], hi[3];               /* of the vertices */
    uint64_t *code, *sorted_code;     /* n each; a code has 63 bits */
    uint32_t *number, *sorted_number; /* n each */
    void *scratch;
    size_t scratch_bytes;
} wh_bench_kdtree_cub;

#if WH_HAVE_CUDA
#ifdef __cplusplus
extern "C" {
#endif
/* How much scratch the sort takes. */
wh_status wh_bench_kdtree_cub_scratch(wh_bench_kdtree_cub *c);
/* The code and the number of each triangle. */
wh_status wh_bench_kdtree_cub_codes(const wh_bench_kdtree_cub *c);
/* Numbers, sorted by codes. */
wh_status wh_bench_kdtree_cub_sort(const wh_bench_kdtree_cub *c);
#ifdef __cplusplus
}
#endif
#else
static inline wh_status wh_bench_kdtree_cub_scratch(wh_bench_kdtree_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
static inline wh_status wh_bench_kdtree_cub_codes(const wh_bench_kdtree_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
static inline wh_status wh_bench_kdtree_cub_sort(const wh_bench_kdtree_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
#endif

#endif

/* survey_cub.h: the prefix sum of the case work by CUB, on a GPU alone (bench/cuda/survey_cub.cu).
 * The call starts kernels on the default stream and does not wait. All arrays are device memory. */
#ifndef WH_BENCH_SURVEY_CUB_H
#define WH_BENCH_SURVEY_CUB_H

#include "warpheap/heap.h"

typedef struct wh_bench_scan_cub {
    const uint32_t *sizes;
    uint64_t *sums; /* sums[i]: of the sizes before i */
    uint64_t n;     /* of both; below 2^31 */
    void *scratch;  /* NULL: scratch_bytes is set, and nothing starts */
    size_t scratch_bytes;
} wh_bench_scan_cub;

#if WH_HAVE_CUDA
#ifdef __cplusplus
extern "C"
#endif
    wh_status
    wh_bench_survey_cub_scan(wh_bench_scan_cub *c);
#else
static inline wh_status wh_bench_survey_cub_scan(wh_bench_scan_cub *c) {
    (void)c;
    return WH_UNSUPPORTED;
}
#endif

#endif

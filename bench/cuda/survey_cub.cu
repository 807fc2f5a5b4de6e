/* survey_cub.cu: the prefix sum of the case work by CUB. Compiled once, for GPUs alone. */
#include <cub/device/device_scan.cuh>

#include "bench/kernels/survey_cub.h"

struct plus {
    __host__ __device__ uint64_t operator()(uint64_t a, uint64_t b) const {
        return a + b;
    }
};

extern "C" wh_status wh_bench_survey_cub_scan(wh_bench_scan_cub *c) {
    /* ExclusiveSum would add 32 bits. */
    const cudaError_t e = cub::DeviceScan::ExclusiveScan(c->scratch, c->scratch_bytes, c->sizes,
                                                         c->sums, plus(), (uint64_t)0, (int)c->n);
    return e == cudaSuccess ? WH_OK : WH_DEVICE_ERROR;
}

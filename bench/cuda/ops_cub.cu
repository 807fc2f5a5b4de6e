/* ops_cub.cu: floors of the cases ops-* that use CUB: tables sorted by the lower bits of their
 * keys, and values added up by sorted keys. Compiled once, for GPUs alone. */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <thrust/iterator/transform_iterator.h>

#include "bench/kernels/ops_cub.h"

/* A value as the group-by adds it up: 32 bits with a sign, to 64. */
struct widened {
    __host__ __device__ int64_t operator()(uint32_t bits) const {
        return (int32_t)bits;
    }
};

struct added {
    __host__ __device__ int64_t operator()(int64_t a, int64_t b) const {
        return a + b;
    }
};

static cudaError_t sort(const wh_bench_ops_cub *c, int side, void *scratch, size_t *bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, *bytes, c->key[side], c->sorted_key,
                                           c->value[side], c->sorted_value, (int)c->n[side], 0,
                                           (int)c->bits);
}

static cudaError_t reduce(const wh_bench_ops_cub *c, void *scratch, size_t *bytes) {
    const thrust::transform_iterator<widened, const uint32_t *> values(c->sorted_value, widened());
    return cub::DeviceReduce::ReduceByKey(scratch, *bytes, (const uint32_t *)c->sorted_key,
                                          c->unique, values, c->sums, c->n_unique, added(),
                                          (int)c->n[0]);
}

static wh_status told(cudaError_t e) {
    return e == cudaSuccess ? WH_OK : WH_DEVICE_ERROR;
}

extern "C" wh_status wh_bench_ops_cub_scratch(wh_bench_ops_cub *c) {
    c->scratch_bytes = 0;
    for (int k = 0; k < 3; k++) {
        size_t bytes = 0;
        const cudaError_t e = k < 2 ? sort(c, k, NULL, &bytes) : reduce(c, NULL, &bytes);
        if (e != cudaSuccess) {
            return WH_DEVICE_ERROR;
        }
        c->scratch_bytes = bytes > c->scratch_bytes ? bytes : c->scratch_bytes;
    }
    return WH_OK;
}

extern "C" wh_status wh_bench_ops_cub_sort(const wh_bench_ops_cub *c) {
    for (int k = 0; k < 2; k++) {
        size_t bytes = c->scratch_bytes;
        if (sort(c, k, c->scratch, &bytes) != cudaSuccess) {
            return WH_DEVICE_ERROR;
        }
    }
    return WH_OK;
}

extern "C" wh_status wh_bench_ops_cub_group(const wh_bench_ops_cub *c) {
    size_t bytes = c->scratch_bytes;
    if (sort(c, 0, c->scratch, &bytes) != cudaSuccess) {
        return WH_DEVICE_ERROR;
    }
    bytes = c->scratch_bytes;
    return told(reduce(c, c->scratch, &bytes));
}

/* kdtree_cub.cu: the floor of the cases kdtree* that uses CUB: triangles sorted by the Morton codes
 * of their centroids. Compiled once, for GPUs alone. */
#include <cub/device/device_radix_sort.cuh>

#include "bench/kernels/kdtree_cub.h"

#define AXIS_BITS 21
#define THREADS 256

/* Two zeros after each of the lower 21 bits. */
__device__ static uint64_t spread(uint64_t x) {
    x = (x | x << 32) & 0x001F00000000FFFFu;
    x = (x | x << 16) & 0x001F0000FF0000FFu;
    x = (x | x << 8) & 0x100F00F00F00F00Fu;
    x = (x | x << 4) & 0x10C30C30C30C30C3u;
    return (x | x << 2) & 0x1249249249249249u;
}

__global__ static void __launch_bounds__(THREADS) make_codes(wh_bench_kdtree_cub c) {
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const float most = (float)((1 << AXIS_BITS) - 1);
    uint64_t code = 0;
    if (i >= c.n) {
        return;
    }
    for (int k = 0; k < 3; k++) {
        float sum = 0;
        for (int v = 0; v < 3; v++) {
            sum += c.vertices[3 * (uint64_t)c.triangles[3 * i + v] + k];
        }
        const float width = c.hi[k] - c.lo[k];
        const float at = width > 0 ? (sum / 3 - c.lo[k]) / width * most : 0;
        code |= spread((uint64_t)fminf(fmaxf(at, 0), most)) << k;
    }
    c.code[i] = code;
    c.number[i] = (uint32_t)i;
}

static cudaError_t sort(const wh_bench_kdtree_cub *c, void *scratch, size_t *bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, *bytes, c->code, c->sorted_code, c->number,
                                           c->sorted_number, (int)c->n, 0, 3 * AXIS_BITS);
}

static wh_status told(cudaError_t e) {
    return e == cudaSuccess ? WH_OK : WH_DEVICE_ERROR;
}

extern "C" wh_status wh_bench_kdtree_cub_scratch(wh_bench_kdtree_cub *c) {
    c->scratch_bytes = 0;
    return told(sort(c, NULL, &c->scratch_bytes));
}

extern "C" wh_status wh_bench_kdtree_cub_codes(const wh_bench_kdtree_cub *c) {
    make_codes<<<(unsigned)((c->n + THREADS - 1) / THREADS), THREADS>>>(*c);
    return told(cudaGetLastError());
}

extern "C" wh_status wh_bench_kdtree_cub_sort(const wh_bench_kdtree_cub *c) {
    size_t bytes = c->scratch_bytes;
    return told(sort(c, c->scratch, &bytes));
}

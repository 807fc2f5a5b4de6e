/* graph_cub.cu: floors of the cases on graphs that use CUB: a batch sorted, and the arrays of a
 * graph built anew with it. Compiled once, for GPUs alone. */
#include <cub/device/device_merge.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "bench/kernels/graph_floors.h"

#define BLOCK 256u

static __global__ void make_keys(wh_bench_cub c) {
    const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < c.n) {
        c.keys[i] = (uint64_t)c.from[i] << c.bits | c.to[i];
    }
}

/* Each key writes its arc, and the first one of a vertex the offsets up to this one. */
static __global__ void make_arrays(wh_bench_cub c) {
    const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    const uint64_t n = *c.n_unique;
    if (i >= n) {
        return;
    }
    const uint64_t v = c.unique[i] >> c.bits;
    c.arcs[i] = (uint32_t)(c.unique[i] & ((1ull << c.bits) - 1));
    const uint64_t first = i == 0 ? 0 : (c.unique[i - 1] >> c.bits) + 1;
    for (uint64_t w = first; w <= v; w++) {
        c.offset[w] = i;
    }
    for (uint64_t w = v + 1; i == n - 1 && w <= c.n_vertices; w++) {
        c.offset[w] = n;
    }
}

static unsigned blocks(uint64_t n) {
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

static wh_status told(cudaError_t e) {
    return e == cudaSuccess ? WH_OK : WH_DEVICE_ERROR;
}

static cudaError_t sort_pairs(const wh_bench_cub *c, void *scratch, size_t *bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, *bytes, c->from, c->sorted[0], c->to,
                                           c->sorted[1], (int)c->n, 0, (int)c->bits);
}

static cudaError_t sort_keys(const wh_bench_cub *c, void *scratch, size_t *bytes) {
    return cub::DeviceRadixSort::SortKeys(scratch, *bytes, c->keys, c->sorted_keys, (int)c->n, 0,
                                          (int)(2 * c->bits));
}

static cudaError_t merge(const wh_bench_cub *c, void *scratch, size_t *bytes) {
    return cub::DeviceMerge::MergeKeys(scratch, *bytes, c->old, (int)c->n_old, c->sorted_keys,
                                       (int)c->n, c->merged);
}

static cudaError_t unique(const wh_bench_cub *c, void *scratch, size_t *bytes) {
    return cub::DeviceSelect::Unique(scratch, *bytes, c->merged, c->unique, c->n_unique,
                                     (int)(c->n + c->n_old));
}

typedef cudaError_t (*step)(const wh_bench_cub *c, void *scratch, size_t *bytes);

extern "C" wh_status wh_bench_cub_scratch(wh_bench_cub *c) {
    static const step steps[] = {sort_pairs, sort_keys, merge, unique};
    c->scratch_bytes = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        size_t bytes = 0;
        if (steps[i](c, NULL, &bytes) != cudaSuccess) {
            return WH_DEVICE_ERROR;
        }
        c->scratch_bytes = bytes > c->scratch_bytes ? bytes : c->scratch_bytes;
    }
    return WH_OK;
}

extern "C" wh_status wh_bench_cub_sort(const wh_bench_cub *c) {
    size_t bytes = c->scratch_bytes;
    return told(sort_pairs(c, c->scratch, &bytes));
}

extern "C" wh_status wh_bench_cub_rebuild(const wh_bench_cub *c) {
    static const step steps[] = {sort_keys, merge, unique};
    make_keys<<<blocks(c->n), BLOCK>>>(*c);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        size_t bytes = c->scratch_bytes;
        if (steps[i](c, c->scratch, &bytes) != cudaSuccess) {
            return WH_DEVICE_ERROR;
        }
    }
    make_arrays<<<blocks(c->n + c->n_old), BLOCK>>>(*c);
    return told(cudaGetLastError());
}

// tiles.cu: a CUDA program of warpheap 0.1: run.sh applies migrate.sed to it and compiles it.
#include <cooperative_groups.h>
#include <warpheap/warpheap.h>

namespace cg = cooperative_groups;

static __device__ void *for_warp(wh_heap_t heap, size_t n) {
    return wh_malloc_warp(heap, 0xffffffff, n);
}

__global__ void tiles(wh_heap_t heap, int *sum) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int *shared = static_cast<int *>(for_warp(heap, 32 * sizeof(int)));
    const wh_mask_t mask = wh_activemask();
    if (shared != nullptr) {
        shared[tile.thread_rank()] = 1;
        tile.sync();
        atomicAdd(sum, shared[31 - tile.thread_rank()]);
    }
    wh_free_warp(heap, mask, shared);
}

wh_status run(int *sum) {
    wh_heap *heap = nullptr;
    wh_heap_options options = {};
    options.bytes = 64 << 20;
    options.tuning.track_totals = 1;
    wh_status status = wh_heap_create(&heap, &options);
    wh_heap_t handle;
    if (status == WH_OK) {
        status = wh_heap_handle(heap, &handle);
    }
    if (status == WH_OK) {
        tiles<<<1, 64>>>(handle, sum);
    }
    wh_heap_destroy(heap);
    return status;
}

/* cuda_04_tiles.cu: cooperative groups: each tile of eight lanes shares one block of memory.
 * All lanes of the tile make the call: a leader that allocates alone, and then a shuffle in
 * the tile, can hang where ptxas 13.0 compiles it (see the head of warpheap.h). */
#include <cooperative_groups.h>

#include "cuda_example.h"

/* [docs tiles */
namespace cg = cooperative_groups;

/* The lanes of a tile as the calls for part of a warp take them: a bit for each lane. */
template <class Tile> __device__ wh_mask lanes_of(const Tile &tile) {
    return (WH_FULL_WARP >> (32 - tile.size())) << (wh_lane_id() - tile.thread_rank());
}

__global__ void rotate(wh_heap_ref heap, int *out) {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int rank = static_cast<int>(tile.thread_rank());
    int *shared = static_cast<int *>(wh_malloc_warp(heap, lanes_of(tile), 8 * sizeof(int)));
    if (shared == nullptr) { /* the same for all lanes of the tile */
        return;
    }
    shared[rank] = i;
    tile.sync();
    out[i] = shared[(rank + 1) % 8];
    wh_free_warp(heap, lanes_of(tile), shared);
}
/* docs] */

int main() {
    const int n = 4 * 96;
    const example_heap h = example_open(16 << 20);
    int *out = example_shared<int>(n);
    rotate<<<4, 96>>>(h.handle, out);
    must(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = right && out[i] == (i & ~7) + (i + 1) % 8;
    }
    return example_close(h, right);
}

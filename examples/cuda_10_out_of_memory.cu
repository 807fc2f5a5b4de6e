/* cuda_10_out_of_memory.cu: who is told when the heap is full. A call then returns nullptr; a
 * file that says so before it includes warpheap.h learns how much was asked for, and where. */
/* [docs oom */
#include <warpheap/types.h>

__device__ void out_of_memory(const wh_oom_event &event); /* a function of this file */
#define WH_ON_OOM(event) out_of_memory(event)             /* before the include */
#include <warpheap/warpheap.h>

struct oom_record {
    unsigned n;               /* calls that found no room */
    unsigned long long bytes; /* asked for by the first of them, */
    unsigned line;            /*    and its line in this file */
};
__device__ oom_record oom;

__device__ void out_of_memory(const wh_oom_event &event) {
    if (atomicAdd(&oom.n, 1u) == 0) {
        oom.bytes = event.bytes;
        oom.line = event.line;
    }
}
/* docs] */

#include "cuda_example.h"

__global__ void take(wh_heap_ref heap, void **blocks, size_t bytes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    blocks[i] = wh_malloc(heap, bytes);
}

__global__ void give_back(wh_heap_ref heap, void **blocks) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    wh_free(heap, blocks[i]);
}

int main() {
    const int n = 1024; /* of 64 KiB each: four times as much as there is */
    const size_t bytes = 64 << 10;
    const example_heap h = example_open(16 << 20);
    void **blocks = example_shared<void *>(n);
    take<<<n / 128, 128>>>(h.handle, blocks, bytes);
    must(cudaDeviceSynchronize());
    unsigned nulls = 0;
    for (int i = 0; i < n; i++) {
        nulls += blocks[i] == nullptr;
    }
    oom_record told = {};
    must(cudaMemcpyFromSymbol(&told, oom, sizeof told));
    std::printf("%u of %d calls found no room; the first asked for %llu bytes in line %u\n", told.n,
                n, told.bytes, told.line);
    give_back<<<n / 128, 128>>>(h.handle, blocks);
    return example_close(h, nulls > 0 && told.n == nulls && told.bytes == bytes && told.line > 0);
}

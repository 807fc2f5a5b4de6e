/* cuda_01_plain.cu: a __global__ kernel in which every thread allocates a list whose length
 * is known only there, uses it and frees it. README.md shows the part between the marks.
 *
 *     nvcc cuda_01_plain.cu -lwarpheap
 */
/* [readme */
#include <cstdio>
#include <warpheap/warpheap.h>

__global__ void sum_list(wh_heap_t heap, int *sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = i % 100 + 1;
    int *list = static_cast<int *>(wh_malloc(heap, n * sizeof(int)));
    for (int k = 0; list != nullptr && k < n; k++) { /* nullptr: the heap is full */
        list[k] = k;
        sums[i] += list[k];
    }
    wh_free(heap, list);
}

int main() {
    wh_device *device = nullptr;
    if (wh_device_open(&device, "cuda", nullptr) != WH_OK) {
        std::puts("no GPU");
        return 77;
    }
    wh_heap *heap = nullptr;
    wh_heap_t handle; /* a small struct that kernels get by value */
    wh_heap_options options = {};
    options.device = device;
    options.bytes = 64 << 20;
    if (wh_heap_create(&heap, &options) != WH_OK || wh_heap_handle(heap, &handle) != WH_OK) {
        return 1;
    }
    int *sums = nullptr;
    cudaMallocManaged(&sums, 1024 * sizeof(int));
    cudaMemset(sums, 0, 1024 * sizeof(int));
    sum_list<<<4, 256>>>(handle, sums);
    const bool ok = cudaDeviceSynchronize() == cudaSuccess && sums[99] == 4950;
    wh_heap_destroy(heap);
    wh_device_close(device);
    std::puts(ok ? "0 + 1 + ... + 99 = 4950" : "failed");
    return ok ? 0 : 1;
}
/* readme] */

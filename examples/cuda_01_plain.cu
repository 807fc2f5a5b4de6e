/* cuda_01_plain.cu: a __global__ kernel in which every thread allocates a list whose length
 * is known only there, uses it and frees it. README.md shows the part between the marks.
 *
 *     nvcc cuda_01_plain.cu -lwarpheap
 */
/* [readme */
#include <cstdio>
#include <warpheap/warpheap.h>

__global__ void sum_list(wh_heap_ref heap, int *sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = i % 100 + 1;
    int *list = static_cast<int *>(wh_malloc(heap, n * sizeof(int)));
    for (int k = 0; list != nullptr && k < n; k++) { /* nullptr: the heap is full */
        list[k] = k;
        sums[i] += list[k];
    }
    wh_free(heap, list);
}

int main() {
    wh_heap *heap = nullptr;
    wh_heap_ref handle; /* a small struct that kernels get by value */
    wh_heap_options options = {};
    options.bytes = 64 << 20; /* of the memory of the current GPU */
    wh_status status = wh_heap_create(&heap, &options);
    if (status == WH_OK) {
        status = wh_heap_handle(heap, &handle);
    }
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
        return status == WH_NO_DEVICE ? 77 : 1;
    }
    int *sums = nullptr;
    cudaMallocManaged(&sums, 1024 * sizeof(int));
    cudaMemset(sums, 0, 1024 * sizeof(int));
    sum_list<<<4, 256>>>(handle, sums);
    const bool ok = cudaDeviceSynchronize() == cudaSuccess && sums[99] == 4950;
    std::puts(ok ? "0 + 1 + ... + 99 = 4950" : "failed");
    cudaFree(sums);
    wh_heap_destroy(heap);
    return ok ? 0 : 1;
}
/* readme] */

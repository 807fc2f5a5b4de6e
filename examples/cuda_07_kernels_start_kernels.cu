/* cuda_07_kernels_start_kernels.cu: dynamic parallelism: a kernel allocates a block and starts
 * a kernel that uses and frees it. Compile with nvcc -rdc=true. */
#include "cuda_example.h"

/* [docs parallelism */
__global__ void child(wh_heap_ref heap, int *list, int n, int *sum) {
    const int i = threadIdx.x;
    if (i < n) {
        atomicAdd(sum, list[i]);
    }
    __syncthreads();
    if (i == 0) {
        wh_free(heap, list);
    }
}

__global__ void parent(wh_heap_ref heap, int *sums) {
    const int n = threadIdx.x + 1;
    int *list = static_cast<int *>(wh_malloc(heap, n * sizeof(int)));
    if (list != nullptr) {
        for (int i = 0; i < n; i++) {
            list[i] = n;
        }
        child<<<1, 32, 0, cudaStreamFireAndForget>>>(heap, list, n, &sums[threadIdx.x]);
    }
}
/* docs] */

int main() {
    const int n = 32;
    const example_heap h = example_open(16 << 20);
    int *sums = example_shared<int>(n);
    parent<<<1, n>>>(h.handle, sums);
    must(cudaGetLastError());
    must(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = right && sums[i] == (i + 1) * (i + 1);
    }
    return example_close(h, right);
}

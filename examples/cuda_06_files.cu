/* cuda_06_files.cu: device code in two files, and one handle in device memory for both, so
 * that no function has to pass it on. Compile both files with nvcc -rdc=true. */
#include "cuda_06_files.h"

#include "cuda_example.h"

/* [docs rdc */
__device__ wh_heap_ref app_heap;

__global__ void last_entries(int *out) {
    const int i = threadIdx.x;
    int *table = make_table(i + 1);
    if (table != nullptr) {
        out[i] = table[i];
    }
    wh_free(app_heap, table);
}

static void set_heap(const wh_heap_ref &handle) {
    must(cudaMemcpyToSymbol(app_heap, &handle, sizeof handle));
}
/* docs] */

int main() {
    const int n = 64;
    const example_heap h = example_open(16 << 20);
    int *out = example_shared<int>(n);
    set_heap(h.handle);
    last_entries<<<1, n>>>(out);
    must(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = right && out[i] == i * i;
    }
    return example_close(h, right);
}

/* cuda_11_devices.cu: a heap on each GPU of the machine. Calls on a heap work on its own GPU and
 * leave the caller's current device alone. */
#include "cuda_example.h"

__global__ void count(wh_heap_ref heap, int *served) {
    int *p = static_cast<int *>(wh_malloc(heap, sizeof(int)));
    if (p != nullptr) {
        *p = 1;
        atomicAdd(served, *p);
    }
    wh_free(heap, p);
}

int main() {
    const int threads = 128;
    const uint32_t n_devices = wh_device_cuda_count();
    bool right = true, freed = true;
    if (n_devices == 0) {
        std::puts("no GPU");
        return EXAMPLE_SKIPPED;
    }
    example_heap *heaps = new example_heap[n_devices];
    int **served = new int *[n_devices];
    /* [docs devices */
    for (uint32_t i = 0; i < n_devices; i++) {
        must(cudaSetDevice(static_cast<int>(i)));
        heaps[i] = example_open(16 << 20); /* wh_heap_create: on the current GPU */
        served[i] = example_shared<int>(1);
        count<<<1, threads>>>(heaps[i].handle, served[i]);
    }
    for (uint32_t i = 0; i < n_devices; i++) { /* the current GPU is still the last one */
        must(wh_heap_check(heaps[i].heap, nullptr));
    }
    /* docs] */
    for (uint32_t i = 0; i < n_devices; i++) {
        must(cudaSetDevice(static_cast<int>(i)));
        must(cudaDeviceSynchronize());
        right = right && *served[i] == threads;
        freed = example_close(heaps[i], right) == 0 && freed;
    }
    delete[] heaps;
    delete[] served;
    return right && freed ? 0 : 1;
}

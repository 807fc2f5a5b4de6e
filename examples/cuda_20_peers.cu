/* cuda_20_peers.cu: one heap, in the memory of the first GPU, for kernels of two: both allocate at
 * the same time, and each frees what the other has allocated. */
/* [docs peers_define */
#define WH_PEERS 1 /* before the first include, in each file whose kernels use the heap */
/* docs] */
#include "cuda_example.h"

__global__ void take(wh_heap_ref heap, int **blocks) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    blocks[i] = static_cast<int *>(wh_malloc(heap, sizeof(int)));
    if (blocks[i] != nullptr) {
        *blocks[i] = 1;
    }
}

__global__ void give(wh_heap_ref heap, int **blocks, int *served) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blocks[i] != nullptr) {
        atomicAdd(served, *blocks[i]);
    }
    wh_free(heap, blocks[i]);
}

int main() {
    const int n = 4096, threads = 128;
    if (wh_device_cuda_count() < 2) {
        std::puts("no second GPU");
        return EXAMPLE_SKIPPED;
    }
    example_heap h = {};
    wh_heap_options options = {};
    options.bytes = 64 << 20;
    /* [docs peers_open */
    wh_device *gpus[2];
    must(wh_device_open(&gpus[0], "cuda:0", nullptr));
    must(wh_device_open(&gpus[1], "cuda:1", nullptr));
    options.device = gpus[0];
    must(wh_heap_create(&h.heap, &options));
    const wh_status status = wh_heap_enable_peer(h.heap, gpus[1]);
    if (status == WH_NO_PEER_ACCESS || status == WH_NO_PEER_ATOMICS) {
        std::puts(wh_last_error_text()); /* only kernels of the first GPU can use the heap */
        return EXAMPLE_SKIPPED;
    }
    must(status);
    must(wh_heap_handle(h.heap, &h.handle)); /* one for the kernels of both */
    /* docs] */
    int **blocks = example_shared<int *>(2 * n), *served[2];
    for (int i = 0; i < 2; i++) {
        must(cudaSetDevice(i));
        served[i] = example_shared<int>(1);
    }
    for (int i = 0; i < 2; i++) {
        must(cudaSetDevice(i));
        take<<<n / threads, threads>>>(h.handle, blocks + i * n);
    }
    for (int i = 0; i < 2; i++) {
        must(cudaSetDevice(i));
        must(cudaDeviceSynchronize());
    }
    for (int i = 0; i < 2; i++) { /* each GPU frees blocks of the other one */
        must(cudaSetDevice(i));
        give<<<n / threads, threads>>>(h.handle, blocks + (1 - i) * n, served[i]);
    }
    for (int i = 0; i < 2; i++) {
        must(cudaSetDevice(i));
        must(cudaDeviceSynchronize());
    }
    const int failed = example_close(h, *served[0] == n && *served[1] == n);
    wh_device_close(gpus[1]);
    wh_device_close(gpus[0]);
    return failed;
}

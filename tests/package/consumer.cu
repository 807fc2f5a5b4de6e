/* consumer.cu: a user's program in plain CUDA C++. Where there is no GPU it must be told so. */
#include <cstdio>
#include <cuda_runtime.h>
#include <warpheap/warpheap.h>

#if defined(MUST_BE_LINKED) && !WH_IS_LINKED
#error "the slow path is compiled here, though the device library is linked"
#endif

__global__ void work(wh_heap_ref heap, unsigned *served) {
    unsigned *p = static_cast<unsigned *>(wh_malloc(heap, 48));
    if (p != nullptr) {
        *p = threadIdx.x;
        atomicAdd(served, *p == threadIdx.x ? 1u : 0u);
    }
    wh_free(heap, p);
}

static int run(wh_device *device) {
    wh_heap *heap = nullptr;
    wh_heap_options options = {};
    wh_heap_ref handle;
    unsigned *served = nullptr, count = 0;

    options.device = device;
    options.bytes = 64u << 20;
    wh_status s = wh_heap_create(&heap, &options);
    if (s == WH_OK) {
        s = wh_heap_handle(heap, &handle);
    }
    if (s == WH_OK && cudaMalloc(&served, sizeof *served) == cudaSuccess) {
        cudaMemset(served, 0, sizeof *served);
        work<<<4, 64>>>(handle, served);
        cudaMemcpy(&count, served, sizeof count, cudaMemcpyDeviceToHost);
        cudaFree(served);
    }
    wh_heap_destroy(heap);
    std::printf("%s: %u of 256 threads served\n", wh_status_name(s), count);
    return s == WH_OK && count == 256 ? 0 : 1;
}

int main() {
    wh_device *device = nullptr;
    int gpus = 0;
    const bool gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
    const wh_status s = wh_device_open(&device, "cuda", nullptr);
    std::printf("%d GPUs, open says %s\n", gpus, wh_status_name(s));
    if (!gpu) {
        return s == WH_NO_DEVICE && device == nullptr ? 0 : 1;
    }
    const int failed = s != WH_OK || run(device) != 0;
    wh_device_close(device);
    return failed;
}

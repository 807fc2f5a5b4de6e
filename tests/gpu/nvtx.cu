// nvtx.cu: kernels with a planted mistake in a heap whose blocks are registered, for
// compute-sanitizer, which has to report it; nvtx.sh runs them. Alone it sees that the calls work.
// Exit status 77: there is no GPU.
//
//     gpu_nvtx [none|overrun|underrun|freed|read|plain]
#include <cstdio>
#include <cstring>

#define WH_CHECKED 1
#include <warpheap/nvtx.h>
#include <warpheap/options.h>
#include <warpheap/warpheap.h>

#include "check.h"

static const uint64_t BYTES = 64 << 20;
static const unsigned THREADS = 256;

__global__ void allocate(wh_heap_ref heap, unsigned char **blocks) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    blocks[i] = static_cast<unsigned char *>(wh_malloc_at(heap, 40, WH_TAG(1)));
    if (i == 9) {
        wh_free(heap, blocks[i]);
    }
}

__global__ void use(unsigned char **blocks, const char *mistake, unsigned *sum) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned char *p = blocks[i];
    for (unsigned k = 0; i != 9 && k < 40; k++) {
        p[k] = static_cast<unsigned char>(i + k);
    }
    if (i == 5 && mistake[0] == 'o') {
        p[40] = 1;
    }
    if (i == 5 && mistake[0] == 'u') {
        p[-1] = 1;
    }
    if (i == 9 && mistake[0] == 'f') {
        *sum = p[3];
    }
    if (i == 5 && mistake[0] == 'r') {
        *sum = p[55];
    }
}

static wh_heap *create(wh_device *device, void *memory, uint64_t checked) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options options = {};
    wh_heap *heap = nullptr;
    own.checked = checked;
    options.memory = memory;
    options.bytes = BYTES;
    options.device = device;
    options.options = &own.head;
    CHECK(wh_heap_create(&heap, &options) == WH_OK);
    return heap;
}

int main(int argc, char **argv) {
    const char *mistake = argc > 1 ? argv[1] : "none";
    wh_device *device = nullptr;
    if (wh_device_open(&device, "cuda", nullptr) != WH_OK) {
        std::printf("skipped: %s\n", wh_last_error_text());
        return 77;
    }
    void *memory = nullptr, *blocks = nullptr, *sum = nullptr, *text = nullptr;
    CHECK(cudaMalloc(&memory, BYTES) == cudaSuccess);
    CHECK(cudaMalloc(&blocks, THREADS * sizeof(void *)) == cudaSuccess);
    CHECK(cudaMalloc(&sum, sizeof(unsigned)) == cudaSuccess);
    CHECK(cudaMalloc(&text, 16) == cudaSuccess);
    CHECK(cudaMemcpy(text, mistake, std::strlen(mistake) + 1, cudaMemcpyHostToDevice) ==
          cudaSuccess);
    wh_heap *heap = create(device, memory, std::strcmp(mistake, "plain") != 0);
    wh_heap_ref handle;
    CHECK(wh_heap_handle(heap, &handle) == WH_OK);
    allocate<<<1, THREADS>>>(handle, static_cast<unsigned char **>(blocks));
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    const wh_status status = wh_heap_register_blocks(heap);
    if (status == WH_UNSUPPORTED) { // a library without NVTX
        std::printf("skipped: %s\n", wh_last_error_text());
        return 77;
    }
    CHECK(status == WH_OK);
    use<<<1, THREADS>>>(static_cast<unsigned char **>(blocks), static_cast<const char *>(text),
                        static_cast<unsigned *>(sum));
    (void)cudaDeviceSynchronize(); // an error, if the tool ends a kernel with one
    CHECK(wh_heap_unregister_blocks(heap) == WH_OK);
    if (std::strcmp(mistake, "none") == 0) { // kernels allocate and free again
        wh_heap_ref again;
        CHECK(wh_heap_handle(heap, &again) == WH_OK);
        allocate<<<1, THREADS>>>(again, static_cast<unsigned char **>(blocks));
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(wh_heap_check(heap, nullptr) == WH_OK);
        CHECK(wh_heap_destroy(heap) == WH_OK);
        CHECK(cudaFree(memory) == cudaSuccess);
        wh_device_close(device);
    }
    return failures != 0;
}

/* cuda_15_memory.cu: heaps over memory that the program has had of CUDA: of cudaMalloc, managed,
 * pinned on the host, and a memory pool, which the heap itself takes from. */
#include "cuda_example.h"

__global__ void take_and_give(wh_heap_ref heap, int *given) {
    int *p = static_cast<int *>(wh_malloc(heap, sizeof(int) + threadIdx.x));
    if (p != nullptr) {
        *p = 1;
        atomicAdd(given, *p);
        wh_free(heap, p);
    }
}

/* [memory handed */
static example_heap heap_in(void *memory, uint64_t bytes) {
    example_heap h = {};
    wh_heap_options options = {};
    options.memory = memory; /* stays the caller's: free it after wh_heap_destroy */
    options.bytes = bytes;
    must(wh_heap_create(&h.heap, &options));
    must(wh_heap_handle(h.heap, &h.handle));
    return h;
}
/* memory] */

/* [memory pool */
static example_heap heap_from(cudaMemPool_t pool, uint64_t bytes) {
    example_heap h = {};
    wh_heap_options options = {};
    options.cuda_pool = pool; /* the heap takes from it, and gives back to it */
    options.bytes = bytes;
    must(wh_heap_create(&h.heap, &options));
    must(wh_heap_handle(h.heap, &h.handle));
    return h;
}
/* memory] */

static int use(const example_heap &h) {
    int *given = example_shared<int>(1);
    take_and_give<<<64, 128>>>(h.handle, given);
    must(cudaDeviceSynchronize());
    const int n = *given;
    must(cudaFree(given));
    return example_close(h, n == 64 * 128);
}

int main() {
    const uint64_t bytes = 16 << 20;
    int device = 0, failed = 0;
    if (wh_device_cuda_count() == 0) {
        std::printf("no GPU: %s\n", wh_last_error_text());
        return EXAMPLE_SKIPPED;
    }
    void *memory = nullptr;
    must(cudaMalloc(&memory, bytes));
    failed += use(heap_in(memory, bytes));
    must(cudaFree(memory));

    must(cudaMallocManaged(&memory, bytes));
    failed += use(heap_in(memory, bytes));
    must(cudaFree(memory));

    /* [memory pinned */
    void *host = nullptr;
    must(cudaHostAlloc(&host, bytes, cudaHostAllocMapped));
    must(cudaHostGetDevicePointer(&memory, host, 0)); /* the address that kernels use */
    failed += use(heap_in(memory, bytes));
    must(cudaFreeHost(host));
    /* memory] */

    /* [memory async */
    cudaStream_t stream;
    must(cudaStreamCreate(&stream));
    must(cudaMallocAsync(&memory, bytes, stream));
    must(cudaStreamSynchronize(stream)); /* wh_heap_create works on the default stream */
    failed += use(heap_in(memory, bytes));
    must(cudaFreeAsync(memory, stream));
    must(cudaStreamDestroy(stream));
    /* memory] */

    cudaMemPool_t pool;
    must(cudaGetDevice(&device));
    must(cudaDeviceGetDefaultMemPool(&pool, device));
    failed += use(heap_from(pool, bytes));
    return failed;
}

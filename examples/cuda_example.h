/* cuda_example.h: what the examples in CUDA C++ share, so that each shows only its own
 * matter: a heap on the current GPU, and how a program ends. cuda_01_plain.cu does without. */
#ifndef CUDA_EXAMPLE_H
#define CUDA_EXAMPLE_H

#include <cstdio>
#include <cstdlib>
#include <warpheap/warpheap.h>

/* Exit status of a program that had no GPU to run on. */
#define EXAMPLE_SKIPPED 77

struct example_heap {
    wh_heap *heap;
    wh_heap_ref handle; /* what kernels get, by value */
};

static inline void must(wh_status status) {
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
        std::exit(1);
    }
}

static inline void must(cudaError_t error) {
    if (error != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

/* A heap of so many bytes in the memory of the current GPU. */
static inline example_heap example_open(uint64_t bytes) {
    example_heap h = {};
    wh_heap_options options = {};
    options.bytes = bytes;
    const wh_status status = wh_heap_create(&h.heap, &options);
    if (status == WH_NO_DEVICE) {
        std::printf("no GPU: %s\n", wh_last_error_text());
        std::exit(EXAMPLE_SKIPPED);
    }
    must(status);
    must(wh_heap_handle(h.heap, &h.handle));
    return h;
}

/* Memory that the host and the kernels see, all zeros. */
template <class T> static T *example_shared(size_t count) {
    T *p = nullptr;
    must(cudaMallocManaged(&p, count * sizeof(T)));
    must(cudaMemset(p, 0, count * sizeof(T)));
    must(cudaDeviceSynchronize());
    return p;
}

/* Waits for the kernels. Exit status 0 if right is true, all blocks were freed and the heap is
 * sound. */
static inline int example_close(const example_heap &h, bool right) {
    wh_stats stats = {};
    must(cudaDeviceSynchronize());
    must(wh_heap_check(h.heap, nullptr));
    must(wh_heap_get_stats(h.heap, &stats));
    const bool freed = stats.live_blocks == 0;
    wh_heap_destroy(h.heap);
    std::printf("%s, %s\n", right ? "right" : "WRONG", freed ? "all freed" : "NOT all freed");
    return right && freed ? 0 : 1;
}

#endif

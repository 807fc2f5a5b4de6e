/* runtime_heap.c: see runtime_heap.h. */
#include "bench/driver/runtime_heap.h"

#if WH_HAVE_CUDA

#include <cuda_runtime_api.h>

uint64_t whi_bench_runtime_heap(void) {
    size_t bytes = 0;
    return cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize) == cudaSuccess ? bytes : 0;
}

#else

uint64_t whi_bench_runtime_heap(void) {
    return 0;
}

#endif

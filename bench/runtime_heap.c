/* runtime_heap.c: see runtime_heap.h. */
#include "bench/runtime_heap.h"

#if WH_HAVE_CUDA

#include <cuda_runtime_api.h>

wh_status whi_bench_set_runtime_heap(wh_device *device, uint64_t bytes) {
    return wh_device_note_cuda(device,
                               (int)cudaDeviceSetLimit(cudaLimitMallocHeapSize, (size_t)bytes),
                               "cudaDeviceSetLimit");
}

#else

wh_status whi_bench_set_runtime_heap(wh_device *device, uint64_t bytes) {
    (void)device;
    (void)bytes;
    return WH_UNSUPPORTED;
}

#endif

/* malloc.cu: warpheap_malloc.ltoir: takes the place of the device's own malloc and free in code
 * that is linked with it as LTO-IR (docs/REPLACE_MALLOC.md). Only so: ptxas compiles calls of a
 * malloc that it does not see for a function that keeps more registers than these do. The heap
 * behind them is one of warpheap_abi.h, of which this file has the handle. */
#ifndef __CUDACC_RDC__
#error "compile with -rdc=true"
#endif
#include "warpheap/warpheap_abi.h"

/* The handle; 0: malloc returns NULL. cuModuleGetGlobal finds it by this name. */
extern "C" __device__ unsigned long long wh_malloc_heap;
__device__ unsigned long long wh_malloc_heap;

/* The host's half has none of these: there they would take the place of the C library's. */
#ifdef __CUDA_ARCH__
extern "C" __device__ void *malloc(size_t bytes) noexcept {
    return wh_abi1_malloc(wh_malloc_heap, bytes);
}
extern "C" __device__ void free(void *p) noexcept {
    (void)wh_abi1_free(wh_malloc_heap, p);
}
/* What nvcc makes of `new` of a type with alignas, and clang of aligned_alloc. */
extern "C" __device__ void *__cuda_syscall_aligned_malloc(size_t bytes, size_t align) {
    return wh_abi1_aligned_alloc(wh_malloc_heap, align, bytes);
}
#endif

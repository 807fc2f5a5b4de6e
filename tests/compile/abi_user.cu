/* abi_user.cu: a kernel with each function of warpheap_abi.h, for abi.sh and abi_jit.py. */
#include <warpheap/warpheap_abi.h>

extern "C" __global__ void abi_user(wh_abi1_heap heap, void **out, unsigned long long n) {
    if (wh_abi1_version() != WH_ABI1_VERSION || !wh_abi1_fits(heap)) {
        return;
    }
    const unsigned all = ~0u; /* lanes */
    void *p = wh_abi1_realloc(heap, wh_abi1_calloc(heap, n, 3), 4 * n);
    void *q = wh_abi1_aligned_alloc(heap, 256, n + wh_abi1_usable_size(heap, p));
    void *r = wh_abi1_malloc_warp(heap, all, n);
    void *s = wh_abi1_malloc_lanes(heap, all, n);
    int refused = wh_abi1_free_warp(heap, all, r);
    refused += wh_abi1_free_lanes(heap, all, s);
    refused += wh_abi1_owns(heap, q) ? wh_abi1_free(heap, q) : 0;
    out[threadIdx.x] = refused == 0 ? wh_abi1_malloc(heap, n) : nullptr;
}

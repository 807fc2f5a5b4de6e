// shared.cu: a shared library of the program linked.cu: kernels of its own, and the linked
// functions once more.
#include "linked.h"

#if !WH_IS_LINKED
#error "this file is not linked"
#endif

static __global__ void take_and_give(request r, unsigned *served) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    void *p = i < r.n ? wh_malloc(r.heap, bytes_of(r, i)) : nullptr;
    if (p != nullptr) {
        atomicAdd(served, 1u);
    }
    wh_free(r.heap, p);
}

int serve_shared(const request &r, unsigned threads, unsigned *served) {
    take_and_give<<<(r.n + threads - 1) / threads, threads>>>(r, served);
    return static_cast<int>(cudaGetLastError());
}

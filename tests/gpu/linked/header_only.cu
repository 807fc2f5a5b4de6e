// header_only.cu: the part of the program linked.cu that is compiled as if nothing was linked.
#include "linked.h"

#if WH_IS_LINKED
#error "this file is linked"
#endif

static __global__ void give(request r, unsigned *bad) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < r.n && r.blocks[i] != nullptr) {
        const size_t words = bytes_of(r, i) / sizeof(unsigned);
        if (r.blocks[i][0] != i || r.blocks[i][words - 1] != i) {
            atomicAdd(bad, 1u);
        }
        wh_free(r.heap, r.blocks[i]);
    }
}

int give_all(const request &r, unsigned threads, unsigned *bad) {
    give<<<(r.n + threads - 1) / threads, threads>>>(r, bad);
    return static_cast<int>(cudaGetLastError());
}

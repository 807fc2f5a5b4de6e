/* variant.h: the kernels of abi_probe.cu, as each of its files compiles them for its own way to
 * call malloc and free. */
#ifndef PROBE_VARIANT_H
#define PROBE_VARIANT_H

#include "warpheap/core/hash.h"
#include "warpheap/warpheap.h"
#include "warpheap/warpheap_abi.h"

/* The heap for all variants, and what a launch works on. */
struct work {
    wh_heap_ref ref;
    wh_abi1_heap handle;
    unsigned **blocks; /* of each thread */
    unsigned *wrong;   /* how often something was not as it should be */
    unsigned threads;
    unsigned bytes; /* of each block; 0: from 16 to 1024, another for each thread */
    unsigned steps; /* of churn */
};

struct variant {
    const char *name;
    const void *get, *give, *churn; /* kernels, for cudaLaunchKernel */
};

#define PROBE_STEPS 16u

static __device__ __forceinline__ unsigned probe_bytes(const work &w, unsigned i) {
    return w.bytes != 0 ? w.bytes : 16 + wh_mix64(i) % 1009;
}

template <class C> __global__ void probe_get(work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < w.threads) {
        w.blocks[i] = static_cast<unsigned *>(C::get(w, probe_bytes(w, i)));
    }
}

template <class C> __global__ void probe_give(work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < w.threads) {
        C::give(w, w.blocks[i]);
    }
}

/* Blocks that live for a moment: each is written, read again and freed. */
template <class C> __global__ void probe_churn(work w) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w.threads) {
        return;
    }
    for (unsigned step = 0; step < w.steps; step++) {
        unsigned *p = static_cast<unsigned *>(C::get(w, probe_bytes(w, i + step * w.threads)));
        if (p == nullptr) {
            wh_add_u32_relaxed(w.wrong, 1);
            continue;
        }
        volatile unsigned *seen = p;
        seen[0] = i;
        seen[1] = step;
        if (seen[0] != i || seen[1] != step) {
            wh_add_u32_relaxed(w.wrong, 1);
        }
        C::give(w, p);
    }
}

#define PROBE_VARIANT(name, C)                              \
    {                                                       \
        name, reinterpret_cast<const void *>(probe_get<C>), \
            reinterpret_cast<const void *>(probe_give<C>),  \
            reinterpret_cast<const void *>(probe_churn<C>)  \
    }

variant header_only_variant(); /* header_only.cu */
variant narrow_variant();      /* narrow_kernels.cu */
variant inlined_variant();     /* inlined.cu */

#endif

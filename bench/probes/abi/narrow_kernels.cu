/* narrow_kernels.cu: kernels that call those of narrow.cu. */
#include "variant.h"

extern "C" __device__ void *probe_narrow_malloc(wh_abi1_heap heap, unsigned long long bytes);
extern "C" __device__ int probe_narrow_free(wh_abi1_heap heap, void *p);

struct narrow {
    static __device__ void *get(const work &w, unsigned bytes) {
        return probe_narrow_malloc(w.handle, bytes);
    }
    static __device__ void give(const work &w, void *p) {
        (void)probe_narrow_free(w.handle, p);
    }
};

variant narrow_variant() {
    return PROBE_VARIANT("abi, 40 registers", narrow);
}

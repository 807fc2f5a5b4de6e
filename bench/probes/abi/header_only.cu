/* header_only.cu: the calls of warpheap.h with all that they call, in each kernel. */
#include "variant.h"

struct header_only {
    static __device__ void *get(const work &w, unsigned bytes) {
        return wh_malloc(w.ref, bytes);
    }
    static __device__ void give(const work &w, void *p) {
        wh_free(w.ref, p);
    }
};

variant header_only_variant() {
    return PROBE_VARIANT("header-only", header_only);
}

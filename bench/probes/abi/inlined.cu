/* inlined.cu: the functions inlined into the kernels that call them, as a link of LTO-IR does. */
#define PROBE_PREFIX probe_inlined_
#include "rename.h"

#undef WH_FN_EXPORT
#define WH_FN_EXPORT(type, name, parameters) static __device__ __forceinline__ type name parameters
#include "device/abi.c"

#include "variant.h"

struct inlined {
    static __device__ void *get(const work &w, unsigned bytes) {
#if WH_MAKES_DEVICE_CODE
        return wh_abi1_malloc(w.handle, bytes);
#else
        return nullptr;
#endif
    }
    static __device__ void give(const work &w, void *p) {
#if WH_MAKES_DEVICE_CODE
        (void)wh_abi1_free(w.handle, p);
#endif
    }
};

variant inlined_variant() {
    return PROBE_VARIANT("abi, inlined", inlined);
}

/* included_rdc.cu: the kernels with nvcc -include warpheap/warpheap_replace.h, with -rdc=true, and
 * linked with warpheap::device. */
#include "kernels.h"

static int set(wh_heap *heap) {
    return wh_replace_malloc(heap);
}

probe_module included_rdc_module() {
    return PROBE_MODULE("-rdc", set);
}

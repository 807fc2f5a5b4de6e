/* included.cu: the kernels with nvcc -include warpheap/warpheap_replace.h, without -rdc. */
#include "kernels.h"

static int set(wh_heap *heap) {
    return wh_replace_malloc(heap);
}

probe_module included_module() {
    return PROBE_MODULE("included", set);
}

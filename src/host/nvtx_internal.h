/* nvtx_internal.h: ranges of host calls, for profilers. */
#ifndef WHI_NVTX_INTERNAL_H
#define WHI_NVTX_INTERNAL_H

#include "warpheap/heap.h"

/* Whether a range of this name has been begun: if WH_NVTX=1 is in the environment. pop ends one
 * that has. */
int whi_range_push(const char *name);
void whi_range_pop(const int *pushed);

/* Until the end of the block that it stands in. */
#define WHI_RANGE(name) \
    const int range_ __attribute__((cleanup(whi_range_pop), unused)) = whi_range_push(name)

#endif

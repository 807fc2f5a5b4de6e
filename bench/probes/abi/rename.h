/* rename.h: the functions of warpheap_abi.h under other names, for a second copy in one program. */
#include "warpheap/detail/abi.h"

#define PROBE_NAME_(a, b) a##b
#define PROBE_NAME(a, b) PROBE_NAME_(a, b)
#define wh_abi1_version PROBE_NAME(PROBE_PREFIX, version)
#define wh_abi1_fits PROBE_NAME(PROBE_PREFIX, fits)
#define wh_abi1_malloc PROBE_NAME(PROBE_PREFIX, malloc)
#define wh_abi1_free PROBE_NAME(PROBE_PREFIX, free)
#define wh_abi1_calloc PROBE_NAME(PROBE_PREFIX, calloc)
#define wh_abi1_realloc PROBE_NAME(PROBE_PREFIX, realloc)
#define wh_abi1_aligned_alloc PROBE_NAME(PROBE_PREFIX, aligned_alloc)
#define wh_abi1_usable_size PROBE_NAME(PROBE_PREFIX, usable_size)
#define wh_abi1_owns PROBE_NAME(PROBE_PREFIX, owns)
#define wh_abi1_malloc_lanes PROBE_NAME(PROBE_PREFIX, malloc_lanes)
#define wh_abi1_free_lanes PROBE_NAME(PROBE_PREFIX, free_lanes)
#define wh_abi1_malloc_warp PROBE_NAME(PROBE_PREFIX, malloc_warp)
#define wh_abi1_free_warp PROBE_NAME(PROBE_PREFIX, free_warp)

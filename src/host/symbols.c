/* symbols.c: host calls that are inline functions in C and C++, since they pass on what the calling
 * code's headers say. Languages that load the library find them here under the same names; they
 * set struct_bytes themselves, and "auto" may be the simulated device. */
#include "warpheap/heap.h"

#define SYMBOL(name, parameters, ...)               \
    wh_status whi_##name parameters __asm__(#name); \
    wh_status whi_##name parameters {               \
        return __VA_ARGS__;                         \
    }

SYMBOL(wh_device_open, (wh_device * *device, const char *spec, const wh_sim_options *sim),
       wh_device_open_for(device, spec, sim, 0, 0))
SYMBOL(wh_heap_create, (wh_heap * *heap, const wh_heap_options *options),
       wh_heap_create_for(heap, options, 0, 0))
SYMBOL(wh_heap_min_bytes, (const wh_heap_options *options, uint64_t *bytes),
       wh_heap_min_bytes_for(options, bytes, 0, 0))
/* stats->struct_bytes says how large *stats is. */
SYMBOL(wh_heap_get_stats, (wh_heap * heap, wh_stats *stats),
       stats == NULL ? WH_BAD_ARGUMENT
                     : wh_heap_get_stats_sized(heap, stats, (size_t)stats->struct_bytes, NULL, 0))
SYMBOL(wh_heap_get_stats_on, (wh_heap * heap, wh_stats *stats, void *stream),
       stats == NULL ? WH_BAD_ARGUMENT
                     : wh_heap_get_stats_sized(heap, stats, (size_t)stats->struct_bytes, stream, 1))

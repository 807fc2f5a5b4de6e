/* symbols.c: host calls that are inline functions in C and C++, since they pass on what the calling
 * code's headers say. Languages that load the library find them here under the same names; they
 * set struct_bytes themselves, and "auto" may be the simulated device. */

/* The inline functions have other names here. */
#define wh_device_open inline_device_open
#define wh_heap_create inline_heap_create
#define wh_heap_min_bytes inline_heap_min_bytes
#define wh_heap_get_stats inline_heap_get_stats
#define wh_heap_get_stats_on inline_heap_get_stats_on
#define wh_gauge_read inline_gauge_read
#define wh_gauge_read_file inline_gauge_read_file
#define wh_heap_growth_start inline_heap_growth_start
#define wh_heap_growth_get_info inline_heap_growth_get_info
#include "warpheap/gauge.h"
#include "warpheap/heap.h"
#undef wh_gauge_read
#undef wh_gauge_read_file
#undef wh_device_open
#undef wh_heap_create
#undef wh_heap_min_bytes
#undef wh_heap_get_stats
#undef wh_heap_get_stats_on
#undef wh_heap_growth_start
#undef wh_heap_growth_get_info

/* A function for other languages, and its prototype, which no header has. */
#define SYMBOL(name, parameters, ...) \
    wh_status name parameters;        \
    wh_status name parameters {       \
        return __VA_ARGS__;           \
    }

SYMBOL(wh_device_open, (wh_device * *device, const char *spec, const wh_sim_options *sim),
       wh_device_open_for(device, spec, sim, 0, 0))
SYMBOL(wh_heap_create, (wh_heap * *heap, const wh_heap_options *options),
       wh_heap_create_for(heap, options, 0, 0))
SYMBOL(wh_heap_min_bytes, (const wh_heap_options *options, uint64_t *bytes),
       wh_heap_min_bytes_for(options, bytes, 0, 0))
/* options and info say themselves how large they are. */
SYMBOL(wh_heap_growth_start, (wh_heap * heap, const wh_growth_options *options),
       wh_heap_growth_start_sized(heap, options, 0))
SYMBOL(wh_heap_growth_get_info, (wh_heap * heap, wh_growth_info *info),
       info == NULL ? WH_BAD_ARGUMENT
                    : wh_heap_growth_get_info_sized(heap, info, (size_t)info->struct_bytes))
/* stats->struct_bytes says how large *stats is. */
SYMBOL(wh_heap_get_stats, (wh_heap * heap, wh_stats *stats),
       stats == NULL ? WH_BAD_ARGUMENT
                     : wh_heap_get_stats_sized(heap, stats, (size_t)stats->struct_bytes, NULL, 0))
SYMBOL(wh_heap_get_stats_on, (wh_heap * heap, wh_stats *stats, void *stream),
       stats == NULL ? WH_BAD_ARGUMENT
                     : wh_heap_get_stats_sized(heap, stats, (size_t)stats->struct_bytes, stream, 1))
/* sample->struct_bytes and view->struct_bytes likewise. */
SYMBOL(wh_gauge_read, (wh_gauge * gauge, uint32_t depth, wh_gauge_sample *sample),
       sample == NULL ? WH_BAD_ARGUMENT
                      : wh_gauge_read_sized(gauge, depth, sample, (size_t)sample->struct_bytes))
SYMBOL(wh_gauge_read_file, (const char *path, wh_gauge_view *view),
       view == NULL ? WH_BAD_ARGUMENT
                    : wh_gauge_read_file_sized(path, view, (size_t)view->struct_bytes))

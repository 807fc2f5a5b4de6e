/* loaded.c: calls the symbols as a language does that loads them. */
#define wh_device_open inline_device_open
#define wh_heap_create inline_heap_create
#define wh_heap_min_bytes inline_heap_min_bytes
#define wh_heap_get_stats inline_heap_get_stats
#define wh_heap_get_stats_on inline_heap_get_stats_on
#include "common/loaded.h"
#undef wh_device_open
#undef wh_heap_create
#undef wh_heap_min_bytes
#undef wh_heap_get_stats
#undef wh_heap_get_stats_on

wh_status wh_device_open(wh_device **device, const char *spec, const wh_sim_options *sim);
wh_status wh_heap_create(wh_heap **heap, const wh_heap_options *options);
wh_status wh_heap_min_bytes(const wh_heap_options *options, uint64_t *bytes);
wh_status wh_heap_get_stats(wh_heap *heap, wh_stats *stats);
wh_status wh_heap_get_stats_on(wh_heap *heap, wh_stats *stats, void *stream);

wh_status loaded_open(wh_device **device, const char *spec, const wh_sim_options *sim) {
    return wh_device_open(device, spec, sim);
}

wh_status loaded_create(wh_heap **heap, const wh_heap_options *options) {
    return wh_heap_create(heap, options);
}

wh_status loaded_min_bytes(const wh_heap_options *options, uint64_t *bytes) {
    return wh_heap_min_bytes(options, bytes);
}

wh_status loaded_stats(wh_heap *heap, wh_stats *stats) {
    return wh_heap_get_stats(heap, stats);
}

wh_status loaded_stats_on(wh_heap *heap, wh_stats *stats, void *stream) {
    return wh_heap_get_stats_on(heap, stats, stream);
}

/* loaded.h: the symbols that other languages load, by names of our own: in C those names are taken
 * by inline functions. */
#ifndef WH_TEST_LOADED_H
#define WH_TEST_LOADED_H

#include "warpheap/heap.h"

wh_status loaded_open(wh_device **device, const char *spec, const wh_sim_options *sim);
wh_status loaded_create(wh_heap **heap, const wh_heap_options *options);
wh_status loaded_min_bytes(const wh_heap_options *options, uint64_t *bytes);
wh_status loaded_stats(wh_heap *heap, wh_stats *stats);
wh_status loaded_stats_on(wh_heap *heap, wh_stats *stats, void *stream);

#endif

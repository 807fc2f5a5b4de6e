/* runtime_heap.h: the heap of the CUDA runtime's own device malloc, against which the
 * allocator `cuda` is measured. */
#ifndef WHI_BENCH_RUNTIME_HEAP_H
#define WHI_BENCH_RUNTIME_HEAP_H

#include "warpheap/device.h"

/* Gives that heap a size; the library never touches this limit, but a program that
 * compares with the runtime's malloc must. Before the first kernel that calls it. */
wh_status whi_bench_set_runtime_heap(wh_device *device, uint64_t bytes);

#endif

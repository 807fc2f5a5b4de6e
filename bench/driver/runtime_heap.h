/* runtime_heap.h: the heap of the CUDA runtime's own device malloc, against which the
 * allocator `cuda` is measured. */
#ifndef WHI_BENCH_RUNTIME_HEAP_H
#define WHI_BENCH_RUNTIME_HEAP_H

#include <stdint.h>

/* Its size in bytes: 8 MiB unless the CUDA runtime says otherwise. The benchmark asks
 * and keeps within it; it never changes the limit. 0 without CUDA. */
uint64_t whi_bench_runtime_heap(void);

#endif

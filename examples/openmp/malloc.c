/* openmp/malloc.c: malloc and free of target regions, over a heap of warpheap. A file of a program
 * with OpenMP offload, which is compiled and linked by clang with -foffload-lto, as all its files
 * are: docs/REPLACE_MALLOC.md says how, and why. */
#include "malloc.h"

#pragma omp begin declare target
#include <warpheap/warpheap_abi.h>
wh_abi1_heap heap_of_targets; /* 0: malloc returns NULL */
#pragma omp end declare target

#pragma omp begin declare target device_type(nohost)
void *malloc(size_t bytes) {
    return wh_abi1_malloc(heap_of_targets, bytes);
}
void free(void *p) {
    (void)wh_abi1_free(heap_of_targets, p);
}
#pragma omp end declare target

wh_status use_heap_in_targets(wh_heap *heap) {
    heap_of_targets = 0;
    const wh_status status = heap != NULL ? wh_heap_abi1_handle(heap, &heap_of_targets) : WH_OK;
#pragma omp target update to(heap_of_targets)
    return status;
}

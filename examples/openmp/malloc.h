/* openmp/malloc.h: of malloc.c. */
#include <stdlib.h>
#include <warpheap/heap.h>

/* From now on target regions of the default device allocate from this heap, which is of that GPU.
 * NULL: from none; before the heap is destroyed. Errors: those of wh_heap_abi1_handle. */
wh_status use_heap_in_targets(wh_heap *heap);

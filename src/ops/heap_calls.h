/* heap_calls.h: the heap's calls in kernels of operators, not inlined: a page is turned seldom, and
 * malloc is long. Included by kernels' files. */
#ifndef WHI_OPS_HEAP_CALLS_H
#define WHI_OPS_HEAP_CALLS_H

#include "warpheap/warpheap.h"

WH_FN_SLOW unsigned char *take_page(const wh_heap_ref *heap, uint32_t bytes) {
    return (unsigned char *)wh_malloc(*heap, bytes);
}

WH_FN_SLOW void give_page(const wh_heap_ref *heap, void *page) {
    wh_free(*heap, page);
}

#endif

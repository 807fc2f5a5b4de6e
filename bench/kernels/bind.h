/* bind.h: the handle of a heap as kernels of the benchmark get it, by the handle's type in the file
 * that includes it: of any heap, of checked ones, of those of several GPUs. Host code. */
#ifndef WHI_BENCH_BIND_H
#define WHI_BENCH_BIND_H

#include <string.h>

#include "bench/kernels/bench_kernels.h"
#include "warpheap/warpheap.h"

static wh_status bind(const wh_heap *heap, wh_bench_handle *handle) {
    wh_heap_ref h;
    const wh_status s = wh_heap_handle(heap, &h);
    if (s == WH_OK) {
        memcpy(handle, &h, sizeof h);
    }
    return s;
}

#endif

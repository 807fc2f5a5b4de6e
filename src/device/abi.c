/* abi.c: the functions of warpheap/warpheap_abi.h, over the default heap. As C for the simulated
 * device, part of libwarpheap; by nvcc for GPUs: cmake/WhAbi.cmake. */
#include "warpheap/detail/abi.h"

#include "warpheap/detail/simt/begin.h"

/* The host's half of what a CUDA compiler makes has none of them. */
#if WH_MAKES_DEVICE_CODE

#if WH_TARGET_IS_SIM
#define WH_ABI_OWN_KEY WH_ABI_SIM_KEY
#else
static constexpr uint64_t wh_abi_own_key = wh_abi_key();
#define WH_ABI_OWN_KEY wh_abi_own_key
#endif

/* Whether this code can use the heap of a handle; then *heap is what wh_heap_handle would give. */
WH_FN int wh_abi_open_(wh_abi1_heap handle, wh_heap_ref *heap) {
    const wh_abi_record *record = wh_abi_record_of_(handle);
    if (record == NULL || record->seal != handle + WH_ABI_OWN_KEY) {
        return 0;
    }
    *heap = record->heap;
    return 1;
}

WH_FN_EXPORT(int, wh_abi1_version, (void)) {
    return WH_ABI1_VERSION;
}

WH_FN_EXPORT(int, wh_abi1_fits, (wh_abi1_heap heap)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h);
}

WH_FN_EXPORT(void *, wh_abi1_malloc, (wh_abi1_heap heap, unsigned long long bytes)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h) ? wh_malloc(h, bytes) : NULL;
}

WH_FN_EXPORT(int, wh_abi1_free, (wh_abi1_heap heap, void *p)) {
    wh_heap_ref h;
    if (!wh_abi_open_(heap, &h)) {
        return 1;
    }
    wh_free(h, p);
    return 0;
}

WH_FN_EXPORT(void *, wh_abi1_calloc,
             (wh_abi1_heap heap, unsigned long long n, unsigned long long size)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h) ? wh_calloc(h, n, size) : NULL;
}

WH_FN_EXPORT(void *, wh_abi1_realloc, (wh_abi1_heap heap, void *p, unsigned long long bytes)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h) ? wh_realloc(h, p, bytes) : NULL;
}

WH_FN_EXPORT(void *, wh_abi1_aligned_alloc,
             (wh_abi1_heap heap, unsigned long long align, unsigned long long bytes)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h) ? wh_aligned_alloc(h, align, bytes) : NULL;
}

WH_FN_EXPORT(unsigned long long, wh_abi1_usable_size, (wh_abi1_heap heap, const void *p)) {
    wh_heap_ref h;
    return p != NULL && wh_abi_open_(heap, &h) ? wh_usable_size(h, p) : 0;
}

WH_FN_EXPORT(int, wh_abi1_owns, (wh_abi1_heap heap, const void *p)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h) ? wh_owns(h, p) != 0 : 0;
}

WH_FN_EXPORT(void *, wh_abi1_malloc_lanes,
             (wh_abi1_heap heap, unsigned int mask, unsigned long long bytes)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h) ? wh_malloc_lanes(h, mask, bytes) : NULL;
}

WH_FN_EXPORT(int, wh_abi1_free_lanes, (wh_abi1_heap heap, unsigned int mask, void *p)) {
    wh_heap_ref h;
    if (!wh_abi_open_(heap, &h)) {
        return 1;
    }
    wh_free_lanes(h, mask, p);
    return 0;
}

WH_FN_EXPORT(void *, wh_abi1_malloc_warp,
             (wh_abi1_heap heap, unsigned int mask, unsigned long long bytes)) {
    wh_heap_ref h;
    return wh_abi_open_(heap, &h) ? wh_malloc_warp(h, mask, bytes) : NULL;
}

WH_FN_EXPORT(int, wh_abi1_free_warp, (wh_abi1_heap heap, unsigned int mask, void *p)) {
    wh_heap_ref h;
    if (!wh_abi_open_(heap, &h)) {
        return 1;
    }
    wh_free_warp(h, mask, p);
    return 0;
}

#endif

#include "warpheap/detail/simt/end.h"

/* extend.c: the host's calls extend, trim and extent on heaps in reserved addresses. A heap that
 * grows while kernels run pauses meanwhile. */
#include "last_error.h"
#include "nvtx_internal.h"
#include "reserve.h"
#include "try.h"

/* Whether the heap is one that these calls are for. */
static wh_status check_reserved(const wh_heap *heap) {
    whi_forget_error();
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_RESERVE) == 0) {
        return whi_refuse(WH_UNSUPPORTED, "heaps of %s reserve no address space", heap->info->name);
    }
    return heap->reserve != NULL
               ? WH_OK
               : whi_refuse(WH_UNSUPPORTED, "the heap was created without reserve_bytes: it has "
                                            "no address space to extend into");
}

/* Takes the lock, behind all work of the device: which may wait for growth, and so for who looks
 * after that, with the lock. */
static wh_status lock_quiet(const wh_heap *heap) {
    whi_reserve *r = heap->reserve;
    (void)pthread_mutex_lock(&r->lock);
    if (r->growth == NULL) {
        return whi_heap_settle(heap);
    }
    (void)pthread_mutex_unlock(&r->lock);
    const wh_status s = whi_heap_settle(heap);
    (void)pthread_mutex_lock(&r->lock);
    return s;
}

wh_status wh_heap_extend(wh_heap *heap, uint64_t bytes) {
    WHI_RANGE("wh_heap_extend");
    TRY(check_reserved(heap));
    whi_reserve *r = heap->reserve;
    wh_status s = lock_quiet(heap);
    const uint64_t unit = r->plan.unit_bytes;
    const uint64_t n = bytes / unit + (bytes % unit != 0);
    if (s == WH_OK && n != 0) {
        s = whi_growth_pause(heap);
    }
    if (s == WH_OK && n != 0) {
        s = whi_reserve_extend(heap, n);
        const wh_status last = whi_growth_resume(heap);
        s = s == WH_OK ? last : s;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

wh_status wh_heap_trim(wh_heap *heap, uint64_t keep_bytes, uint64_t *given_back) {
    WHI_RANGE("wh_heap_trim");
    if (given_back != NULL) {
        *given_back = 0;
    }
    TRY(check_reserved(heap));
    whi_reserve *r = heap->reserve;
    wh_status s = lock_quiet(heap);
    const uint64_t before = whi_reserve_mapped(r);
    const int trims = before > keep_bytes;
    if (s == WH_OK && trims) {
        s = whi_growth_pause(heap);
    }
    if (s == WH_OK && trims) {
        s = whi_reserve_trim(heap, keep_bytes);
        const wh_status more = whi_growth_resume(heap); /* may map ahead again */
        const uint64_t now = whi_reserve_mapped(r);
        s = s == WH_OK ? more : s;
        if (given_back != NULL && now < before) {
            *given_back = before - now;
        }
    }
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

wh_status wh_heap_extent(const wh_heap *heap, uint64_t *mapped, uint64_t *reserved,
                         uint64_t *granule) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_reserve *r = heap->reserve;
    if (r != NULL) {
        (void)pthread_mutex_lock(&r->lock);
    }
    if (mapped != NULL) {
        *mapped = r != NULL ? whi_reserve_mapped(r) : heap->bytes;
    }
    if (reserved != NULL) {
        *reserved = heap->bytes;
    }
    if (granule != NULL) {
        *granule = r != NULL ? r->plan.unit_bytes : 0;
    }
    if (r != NULL) {
        (void)pthread_mutex_unlock(&r->lock);
    }
    return WH_OK;
}

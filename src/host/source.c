/* source.c: where a heap gets its device memory: from the device, from a pool of the caller's, or
 * from two functions of his. Each take has one give, of the same bytes. */
#include "heap_internal.h"
#include "last_error.h"

#define ALIGN 256u

wh_status whi_heap_read_memory(wh_heap *h, const wh_heap_options *o) {
    h->bytes = o->bytes;
    if ((uintptr_t)o->memory % ALIGN != 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_heap_options.memory is not at a multiple of 256");
    }
    if ((o->source.alloc == NULL) != (o->source.free == NULL)) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_heap_options.source has one function of the two: it "
                                           "takes an alloc and a free");
    }
    if ((o->memory != NULL) + (o->source.alloc != NULL) + (o->cuda_pool != NULL) > 1) {
        return whi_refuse(WH_BAD_ARGUMENT, "of wh_heap_options.memory, source and cuda_pool one at "
                                           "most can be set");
    }
    h->memory = o->memory;
    h->source = o->source;
    h->cuda_pool = o->cuda_pool;
    return WH_OK;
}

static wh_status take_from_source(const wh_memory_source *from, void **p, uint64_t bytes,
                                  void *stream) {
    *p = from->alloc(bytes, ALIGN, stream, from->user);
    if (*p == NULL) {
        return whi_refuse(WH_OUT_OF_MEMORY, "the heap's memory source has no %llu bytes",
                          (unsigned long long)bytes);
    }
    if ((uintptr_t)*p % ALIGN != 0) {
        const wh_status s = whi_refuse(WH_BAD_ARGUMENT,
                                       "the heap's memory source gave memory at %p, which is no "
                                       "multiple of %u: its alloc must heed `align`",
                                       *p, ALIGN);
        from->free(*p, bytes, stream, from->user);
        *p = NULL;
        return s;
    }
    return WH_OK;
}

wh_status whi_heap_take(wh_heap *h, void **p, uint64_t bytes, void *stream) {
    wh_device *d = h->device;
    *p = NULL;
    if (h->source.alloc != NULL) {
        return take_from_source(&h->source, p, bytes, stream);
    }
    if (h->cuda_pool == NULL) {
        return d->ops->alloc_on(d, p, bytes, stream);
    }
    if (d->ops->alloc_from == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "wh_heap_options.cuda_pool is for GPUs: the simulated "
                                          "device has no pools");
    }
    const wh_status s = d->ops->alloc_from(d, h->cuda_pool, p, bytes, stream);
    return s != WH_OUT_OF_MEMORY ? s
                                 : whi_refuse(s, "the heap's memory pool has no %llu bytes",
                                              (unsigned long long)bytes);
}

wh_status whi_heap_give(wh_heap *h, void *p, uint64_t bytes, void *stream) {
    if (p == NULL) {
        return WH_OK;
    }
    if (h->source.alloc == NULL) {
        return h->device->ops->free_on(h->device, p, stream);
    }
    const wh_status s = wh_stream_sync(h->device, stream);
    h->source.free(p, bytes, stream, h->source.user);
    return s;
}

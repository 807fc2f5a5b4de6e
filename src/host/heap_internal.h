/* heap_internal.h: a heap as the files of the host's calls share it: heap.c and reserve.c. */
#ifndef WHI_HEAP_INTERNAL_H
#define WHI_HEAP_INTERNAL_H

#include "alloc_ops.h"
#include "device_internal.h"
#include "options_internal.h"

typedef struct whi_reserve whi_reserve;

struct wh_heap {
    const wh_allocator_info *info;
    const whi_alloc_ops *ops;
    wh_device *device; /* held: whi_device_hold */
    int owns_memory;
    void *memory;
    uint64_t bytes; /* of memory; of a reserved heap, of its addresses */
    wh_any_options options;
    wh_plan plan;
    unsigned char handle[WH_HANDLE_BYTES];
    void *scratch;        /* device memory for what a kernel tells the host; made when needed */
    whi_reserve *reserve; /* NULL: all of its memory is there */
};

/* A launch that gives each thread a few of n items. */
static inline wh_launch whi_heap_launch(const wh_heap *h, uint64_t items, void *stream) {
    const uint64_t threads = items < 256 ? 32 : 256;
    uint64_t blocks = (items + threads - 1) / threads;
    const uint64_t most = (uint64_t)wh_device_get_info(h->device)->n_sms * 16;
    blocks = blocks < most ? blocks : most;
    blocks = blocks != 0 ? blocks : 1;
    wh_launch l = wh_grid(h->device, (uint32_t)blocks, (uint32_t)threads);
    l.stream = stream;
    return l;
}

/* reserve.c. create: of `bytes` addresses, of which h->bytes bytes are mapped; on failure nothing
 * stays. min_bytes: the least that can be mapped of so many addresses; on BAD_ARGUMENT the plan's
 * max_bytes. destroy: after the last kernel. */
wh_status whi_reserve_min_bytes(const whi_alloc_ops *ops, wh_device *device, uint64_t bytes,
                                const wh_any_options *options, uint64_t *least);
wh_status whi_reserve_create(wh_heap *h, uint64_t bytes);
wh_status whi_reserve_destroy(wh_heap *h);

#endif

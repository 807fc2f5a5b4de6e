/* heap_internal.h: a heap as the files of the host's calls share it: heap.c, reserve.c, image.c. */
#ifndef WHI_HEAP_INTERNAL_H
#define WHI_HEAP_INTERNAL_H

#include "alloc_ops.h"
#include "device_internal.h"
#include "options_internal.h"

#define WHI_MOST_PEERS 32u

typedef struct whi_reserve whi_reserve;
typedef struct whi_watched whi_watched;

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
    void *scratch;           /* device memory for what a kernel tells the host; made when needed */
    whi_reserve *reserve;    /* NULL: all of its memory is there */
    wh_memory_source source; /* alloc NULL: none */
    void *cuda_pool;         /* NULL: none */
    whi_watched *watched;    /* the heap as its gauges see it; it outlives the heap */
    wh_watch watch;          /* its boxes, and the device memory that goes with them */
    void *pool;              /* of a tool that knows the heap: nvtx.c; NULL: there is none */
    uint64_t created_ns;     /* since 1970 */
    uint64_t mark;           /* number of the last mark: snapshot.c */
    unsigned long long abi_handle; /* of wh_heap_abi1_handle; 0: nobody has asked for it */
    uint32_t laid_out_for; /* SMs, of a reserved heap that was loaded; 0: those of its device */
    uint32_t n_peers;
    wh_device *peers[WHI_MOST_PEERS]; /* held */
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

/* heap.c. A heap of zeros, which gauges may look at when it is built; NULL: no memory. */
wh_heap *whi_heap_new(void);
/* The caller's options as this library knows them: what an older caller's struct lacks is
 * 0. sizeof_there: the size where struct_bytes is 0. */
wh_status whi_heap_read_options(wh_heap_options *o, const wh_heap_options *from,
                                size_t sizeof_there);
/* The device that the options name, which is held, or one that is opened now. The caller closes
 * it, if it is there. */
wh_status whi_heap_device_of(const wh_heap_options *o, int in_cuda, wh_device **device);

/* source.c. What the options say of the heap's memory, to h: BAD_ARGUMENT if they contradict each
 * other. take and give: device memory from where the heap gets it, and back, with the same bytes;
 * give of NULL does nothing. */
wh_status whi_heap_read_memory(wh_heap *h, const wh_heap_options *o);
wh_status whi_heap_take(wh_heap *h, void **p, uint64_t bytes, void *stream);
wh_status whi_heap_give(wh_heap *h, void *p, uint64_t bytes, void *stream);
static inline int whi_heap_has_source(const wh_heap *h) {
    return h->source.alloc != NULL || h->cuda_pool != NULL;
}

/* peers.c. settle: waits for all work of the heap's devices. open: memory that the heap is to have,
 * to all peers. drop: after the last kernel. */
wh_status whi_heap_settle(const wh_heap *h);
wh_status whi_peers_open(const wh_heap *h, void *at, uint64_t bytes);
void whi_peers_drop(wh_heap *h);

/* abi.c. Before the heap's memory goes: its handle fits no more. */
wh_status whi_abi_drop(wh_heap *h, void *stream);

/* nvtx.c. Before the heap's memory goes back to whom it is from. */
void whi_nvtx_destroy(wh_heap *heap);

/* records.c. attach: what the options say of checks and records, to a handle that is planned and
 * not in use yet. drop: the boxes, after the last kernel; the room is given back before. */
wh_status whi_records_attach(wh_heap *h);
void whi_records_drop(wh_heap *h);
void whi_records_settle(wh_heap *h);

/* reserve.c. create: of `bytes` addresses, of which h->bytes bytes are mapped; on failure nothing
 * stays. min_bytes: the least that can be mapped of so many addresses; on BAD_ARGUMENT the plan's
 * max_bytes. destroy: after the last kernel. */
wh_status whi_reserve_min_bytes(const whi_alloc_ops *ops, wh_device *device, uint64_t bytes,
                                const wh_any_options *options, uint64_t *least);
wh_status whi_reserve_create(wh_heap *h, uint64_t bytes);
wh_status whi_reserve_destroy(wh_heap *h);

/* While it is locked nothing is mapped or unmapped; nothing of a heap that is not reserved. */
void whi_reserve_lock(const wh_heap *h);
void whi_reserve_unlock(const wh_heap *h);

/* growth.c, of a heap that grows while kernels run; else they do nothing. destroy: ends that, after
 * the last kernel. settle: on a quiet heap; what kernels have taken so far is the heap's, in whole
 * units, as whi_reserve_look sees it. */
void whi_growth_destroy(wh_heap *h);
wh_status whi_growth_settle(wh_heap *h);

/* gauge.c. What a heap has for its gauges; end: waits for samples that are under way, and there are
 * none from then on. end of NULL does nothing. */
whi_watched *whi_watched_new(wh_heap *h);
void whi_watched_end(whi_watched *w);

/* Of heaps in files. units: a bit for each unit that is the heap's; NULL: the plan alone. restore:
 * as create, of the same plan and units, for a device of so many SMs, at the address `wish` if that
 * can be had; their contents are yet to come, and restored tells the heap that they are there. */
void whi_reserve_look(const wh_heap *h, wh_reserve_plan *plan, uint64_t *units);
wh_status whi_reserve_restore(wh_heap *h, const wh_reserve_plan *plan, const uint64_t *units,
                              uint32_t n_sms, void *wish);
wh_status whi_reserve_restored(wh_heap *h);

#endif

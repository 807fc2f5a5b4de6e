/* device_internal.h: what a device back-end (src/sim, src/cuda) provides to the
 * dispatcher in device.c. A back-end's own struct starts with a wh_device. */
#ifndef WHI_DEVICE_INTERNAL_H
#define WHI_DEVICE_INTERNAL_H

#include "warpheap/device.h"

typedef struct whi_lens {
    void *memory;
    void *stream; /* of its own; NULL: the device needs none */
} whi_lens;

typedef struct whi_device_ops {
    void (*close)(wh_device *d);
    wh_status (*alloc)(wh_device *d, void **p, uint64_t bytes);
    wh_status (*free)(wh_device *d, void *p);
    wh_status (*set)(wh_device *d, void *p, int byte, uint64_t bytes);
    wh_status (*copy_in)(wh_device *d, void *to, const void *from, uint64_t bytes);
    wh_status (*copy_out)(wh_device *d, void *to, const void *from, uint64_t bytes);
    wh_status (*sync)(wh_device *d);
    wh_status (*stream_create)(wh_device *d, void **stream);
    wh_status (*stream_destroy)(wh_device *d, void *stream);
    wh_status (*stream_sync)(wh_device *d, void *stream);
    wh_status (*timer_begin)(wh_device *d);
    wh_status (*timer_end)(wh_device *d, double *us);
    wh_status (*get_counters)(const wh_device *d, wh_device_counters *c);
    /* Memory of heaps: ordered after the stream's work, without waiting for other work where the
     * device can. free_on takes what alloc_on gave, and NULL. copy_out_on and copy_in_on wait for
     * the stream. */
    wh_status (*alloc_on)(wh_device *d, void **p, uint64_t bytes, void *stream);
    wh_status (*free_on)(wh_device *d, void *p, void *stream);
    wh_status (*copy_out_on)(wh_device *d, void *to, const void *from, uint64_t bytes,
                             void *stream);
    wh_status (*copy_in_on)(wh_device *d, void *to, const void *from, uint64_t bytes, void *stream);
    /* alloc_on from a pool of the caller's, for free_on. NULL: the device has no pools. */
    wh_status (*alloc_from)(wh_device *d, void *pool, void **p, uint64_t bytes, void *stream);
    /* For gauges: a look at memory while kernels run, which waits for none of them and makes none
     * of them wait. From any thread, one at a time for a lens. lens_open: host memory of `bytes`
     * bytes, at a multiple of 256. look: copies up to as many there, 8 by 8; it notes no error
     * text. */
    wh_status (*lens_open)(wh_device *d, whi_lens **lens, uint64_t bytes);
    void (*lens_close)(wh_device *d, whi_lens *lens);
    wh_status (*look)(wh_device *d, whi_lens *lens, const void *from, uint64_t bytes);
    /* Address space. granularity: what is mapped at least, a power of two; 0: the device has no
     * such memory. reserve: addresses without memory, at a multiple of 2 MiB and of the
     * granularity; from *p on, if that is not NULL and they are free, else anywhere. map: memory of
     * its own for each `piece` of [at, at + bytes); on failure there is none. unmap: whole pieces,
     * whose contents are gone; nothing on the device may use them. All sizes are multiples of the
     * granularity. release: addresses of which none is mapped. */
    uint64_t (*granularity)(wh_device *d);
    wh_status (*reserve)(wh_device *d, void **p, uint64_t bytes);
    wh_status (*map)(wh_device *d, void *at, uint64_t bytes, uint64_t piece);
    wh_status (*unmap)(wh_device *d, void *at, uint64_t bytes, uint64_t piece);
    wh_status (*release)(wh_device *d, void *p, uint64_t bytes);
    /* Memory of the host that kernels see at the same address while they run. */
    wh_status (*host_alloc)(wh_device *d, void **p, uint64_t bytes);
    wh_status (*host_free)(wh_device *d, void *p);
    /* Kernels of a peer, another device of the same back-end. check: whether they could use memory
     * of d as its own do, atomics included: OK, NO_PEER_ACCESS, NO_PEER_ATOMICS. open: from now on
     * they can, that of [at, at + bytes); what is there already is OK. share: the same for what map
     * has mapped; NULL: map does it for all. */
    wh_status (*peer_check)(wh_device *d, wh_device *peer);
    wh_status (*peer_open)(wh_device *d, wh_device *peer, void *at, uint64_t bytes);
    wh_status (*peer_share)(wh_device *d, wh_device *peer, void *at, uint64_t bytes);
    /* The calling thread, which has done nothing with the device before, is going to call map. */
    wh_status (*use_thread)(wh_device *d);
} whi_device_ops;

struct wh_device {
    const whi_device_ops *ops;
    wh_device_info info;
    uint32_t holders; /* heaps, and wh_device_close if it has not come: one less than all; atomic */
    char error[512];  /* text of the last WH_DEVICE_ERROR */
};

/* A heap holds its device: it is closed by the last of as many wh_device_close as it was opened and
 * held. */
void whi_device_hold(wh_device *device);

/* Back-ends. open_sim: options may be NULL. open_cuda exists only with
 * WH_HAVE_CUDA. */
wh_status whi_device_open_sim(wh_device **device, const wh_sim_options *options);
#if WH_HAVE_CUDA
wh_status whi_device_open_cuda(wh_device **device, int ordinal); /* -1: the current one */
uint32_t whi_device_cuda_count(void); /* 0: wh_last_error_text says why */
#endif

#endif

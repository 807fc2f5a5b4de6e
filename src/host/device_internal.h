/* device_internal.h: what a device back-end (src/sim, src/cuda) provides to the
 * dispatcher in device.c. A back-end's own struct starts with a wh_device. */
#ifndef WHI_DEVICE_INTERNAL_H
#define WHI_DEVICE_INTERNAL_H

#include "warpheap/device.h"

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
     * device can. free_on takes what alloc_on gave, and NULL. copy_out_on waits for the stream. */
    wh_status (*alloc_on)(wh_device *d, void **p, uint64_t bytes, void *stream);
    wh_status (*free_on)(wh_device *d, void *p, void *stream);
    wh_status (*copy_out_on)(wh_device *d, void *to, const void *from, uint64_t bytes,
                             void *stream);
} whi_device_ops;

struct wh_device {
    const whi_device_ops *ops;
    wh_device_info info;
    char error[512]; /* text of the last WH_DEVICE_ERROR */
};

/* Back-ends. open_sim: options may be NULL. open_cuda exists only with
 * WH_HAVE_CUDA. */
wh_status whi_device_open_sim(wh_device **device, const wh_sim_options *options);
#if WH_HAVE_CUDA
wh_status whi_device_open_cuda(wh_device **device, int ordinal); /* -1: the current one */
uint32_t whi_device_cuda_count(void); /* 0: wh_last_error_text says why */
#endif

#endif

/* device.c: the public device calls; chooses a back-end by its specification and
 * forwards to it. */
#include "device_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "last_error.h"

uint32_t wh_device_cuda_count(void) {
#if WH_HAVE_CUDA
    return whi_device_cuda_count();
#else
    (void)whi_refuse(WH_NO_DEVICE,
                     "this warpheap library was built without CUDA: configure it with "
                     "-DWARPHEAP_CUDA=ON (nvcc is needed; a GPU is not), and link that one");
    return 0;
#endif
}

static wh_status unknown(const char *spec) {
    return whi_refuse(WH_BAD_ARGUMENT, "unknown device '%.60s'; known: auto, sim, cuda, cuda:N",
                      spec);
}

/* number: what follows "cuda:"; NULL: the calling thread's current GPU. */
static wh_status open_cuda(wh_device **device, const char *number) {
    long n = -1;
    if (number != NULL) {
        char *end = NULL;
        n = strtol(number, &end, 10);
        if (*number < '0' || *number > '9' || *end != '\0') {
            return unknown(number - strlen("cuda:"));
        }
    }
    const uint32_t count = wh_device_cuda_count();
    if (count == 0) {
        return WH_NO_DEVICE;
    }
    if (n >= (long)count) {
        return whi_refuse(WH_NO_DEVICE,
                          "there is no GPU %ld: there are %u, counted from 0 (CUDA_VISIBLE_DEVICES "
                          "may hide some)",
                          n, (unsigned)count);
    }
#if WH_HAVE_CUDA
    return whi_device_open_cuda(device, (int)n);
#else
    (void)device;
    return WH_NO_DEVICE;
#endif
}

static wh_status open_sim(wh_device **device, const wh_sim_options *from, size_t sizeof_there) {
    if (from == NULL) {
        return whi_device_open_sim(device, NULL);
    }
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    const uint64_t bytes = from->struct_bytes != 0 ? from->struct_bytes : sizeof_there;
    if (bytes < sizeof o.struct_bytes || bytes > sizeof o) {
        return whi_refuse(WH_WRONG_BUILD,
                          "wh_sim_options.struct_bytes is %llu, and this library knows %zu: it was "
                          "built from other headers than the calling code, or the field is not set",
                          (unsigned long long)bytes, sizeof o);
    }
    memcpy(&o, from, (size_t)bytes);
    return whi_device_open_sim(device, &o);
}

wh_status wh_device_open_for(wh_device **device, const char *spec, const wh_sim_options *sim,
                             size_t sim_bytes, int in_cuda) {
    if (device == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *device = NULL;
    whi_forget_error();
    const int automatic = spec == NULL || strcmp(spec, "auto") == 0;
    if (automatic && !in_cuda && wh_device_cuda_count() == 0) {
        whi_forget_error(); /* that there is no GPU */
        return open_sim(device, sim, sim_bytes);
    }
    if (automatic || strcmp(spec, "cuda") == 0) {
        return open_cuda(device, NULL);
    }
    if (strcmp(spec, "sim") == 0) {
        return open_sim(device, sim, sim_bytes);
    }
    if (strncmp(spec, "cuda:", 5) == 0) {
        return open_cuda(device, spec + 5);
    }
    return unknown(spec);
}

void whi_device_hold(wh_device *device) {
    (void)__atomic_fetch_add(&device->holders, 1, __ATOMIC_RELAXED);
}

void wh_device_close(wh_device *device) {
    /* acq_rel: whatever the other holders have done comes before the end. */
    if (device != NULL && __atomic_fetch_sub(&device->holders, 1, __ATOMIC_ACQ_REL) == 0) {
        device->ops->close(device);
    }
}

const wh_device_info *wh_device_get_info(const wh_device *device) {
    return device != NULL ? &device->info : NULL;
}

wh_status wh_device_alloc(wh_device *device, void **p, uint64_t bytes) {
    if (device == NULL || p == NULL || bytes == 0) {
        return WH_BAD_ARGUMENT;
    }
    *p = NULL;
    return device->ops->alloc(device, p, bytes);
}

wh_status wh_device_free(wh_device *device, void *p) {
    if (p == NULL) {
        return WH_OK;
    }
    return device != NULL ? device->ops->free(device, p) : WH_BAD_ARGUMENT;
}

wh_status wh_device_set(wh_device *device, void *p, int byte, uint64_t bytes) {
    if (device == NULL || p == NULL) {
        return WH_BAD_ARGUMENT;
    }
    return device->ops->set(device, p, byte, bytes);
}

wh_status wh_device_copy_in(wh_device *device, void *to_device, const void *from, uint64_t bytes) {
    if (device == NULL || to_device == NULL || from == NULL) {
        return WH_BAD_ARGUMENT;
    }
    return device->ops->copy_in(device, to_device, from, bytes);
}

wh_status wh_device_copy_out(wh_device *device, void *to, const void *from_device, uint64_t bytes) {
    if (device == NULL || to == NULL || from_device == NULL) {
        return WH_BAD_ARGUMENT;
    }
    return device->ops->copy_out(device, to, from_device, bytes);
}

wh_status wh_device_sync(wh_device *device) {
    return device != NULL ? device->ops->sync(device) : WH_BAD_ARGUMENT;
}

wh_status wh_stream_create(wh_device *device, void **stream) {
    if (device == NULL || stream == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *stream = NULL;
    return device->ops->stream_create(device, stream);
}

wh_status wh_stream_destroy(wh_device *device, void *stream) {
    if (stream == NULL) {
        return WH_OK;
    }
    return device != NULL ? device->ops->stream_destroy(device, stream) : WH_BAD_ARGUMENT;
}

wh_status wh_stream_sync(wh_device *device, void *stream) {
    return device != NULL ? device->ops->stream_sync(device, stream) : WH_BAD_ARGUMENT;
}

wh_status wh_device_timer_begin(wh_device *device) {
    return device != NULL ? device->ops->timer_begin(device) : WH_BAD_ARGUMENT;
}

wh_status wh_device_timer_end(wh_device *device, double *us) {
    return device != NULL && us != NULL ? device->ops->timer_end(device, us) : WH_BAD_ARGUMENT;
}

wh_status wh_device_get_counters(const wh_device *device, wh_device_counters *counters) {
    return device != NULL && counters != NULL ? device->ops->get_counters(device, counters)
                                              : WH_BAD_ARGUMENT;
}

const char *wh_device_error_text(const wh_device *device) {
    return device != NULL ? device->error : "";
}

/* device_cuda.c: the GPU back-end of device.h over the CUDA runtime's C API. */
#include "../host/device_internal.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cuda_device {
    wh_device base;
    int ordinal;
    cudaEvent_t begin, end;
} cuda_device;

wh_status wh_device_note_cuda(wh_device *device, int cuda_error, const char *what) {
    if (cuda_error == (int)cudaSuccess) {
        return WH_OK;
    }
    if (device != NULL) {
        (void)snprintf(device->error, sizeof device->error, "%s: %s", what,
                       cudaGetErrorString((cudaError_t)cuda_error));
    }
    return cuda_error == (int)cudaErrorMemoryAllocation ? WH_OUT_OF_MEMORY : WH_DEVICE_ERROR;
}

static wh_status note(wh_device *d, cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); /* an error that is not sticky ends here */
    }
    return wh_device_note_cuda(d, (int)error, what);
}

static void close_device(wh_device *d) {
    cuda_device *c = (cuda_device *)d;
    (void)cudaEventDestroy(c->begin);
    (void)cudaEventDestroy(c->end);
    free(c);
}

static wh_status alloc(wh_device *d, void **p, uint64_t bytes) {
    return note(d, cudaMalloc(p, bytes), "cudaMalloc");
}

static wh_status release(wh_device *d, void *p) {
    return note(d, cudaFree(p), "cudaFree");
}

static wh_status set(wh_device *d, void *p, int byte, uint64_t bytes) {
    return note(d, cudaMemset(p, byte, bytes), "cudaMemset");
}

static wh_status copy_in(wh_device *d, void *to, const void *from, uint64_t bytes) {
    return note(d, cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to device");
}

static wh_status copy_out(wh_device *d, void *to, const void *from, uint64_t bytes) {
    return note(d, cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to host");
}

static wh_status sync_device(wh_device *d) {
    return note(d, cudaDeviceSynchronize(), "kernel");
}

/* A blocking stream: the default stream and it wait for each other. */
static wh_status stream_create(wh_device *d, void **stream) {
    cudaStream_t s = NULL;
    const wh_status status = note(d, cudaStreamCreate(&s), "cudaStreamCreate");
    *stream = s;
    return status;
}

static wh_status stream_destroy(wh_device *d, void *stream) {
    return note(d, cudaStreamDestroy((cudaStream_t)stream), "cudaStreamDestroy");
}

static wh_status stream_sync(wh_device *d, void *stream) {
    return note(d, cudaStreamSynchronize((cudaStream_t)stream), "kernel");
}

static wh_status timer_begin(wh_device *d) {
    cuda_device *c = (cuda_device *)d;
    return note(d, cudaEventRecord(c->begin, NULL), "cudaEventRecord");
}

static wh_status timer_end(wh_device *d, double *us) {
    cuda_device *c = (cuda_device *)d;
    wh_status s = note(d, cudaEventRecord(c->end, NULL), "cudaEventRecord");
    if (s == WH_OK) {
        s = note(d, cudaEventSynchronize(c->end), "kernel");
    }
    float ms = 0.0f;
    if (s == WH_OK) {
        s = note(d, cudaEventElapsedTime(&ms, c->begin, c->end), "cudaEventElapsedTime");
    }
    *us = (double)ms * 1000.0;
    return s;
}

static wh_status get_counters(const wh_device *d, wh_device_counters *c) {
    (void)d;
    memset(c, 0, sizeof *c);
    return WH_OK;
}

static const whi_device_ops ops = {
    .close = close_device,
    .alloc = alloc,
    .free = release,
    .set = set,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .sync = sync_device,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
    .timer_begin = timer_begin,
    .timer_end = timer_end,
    .get_counters = get_counters,
};

uint32_t whi_device_cuda_count(void) {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return n > 0 ? (uint32_t)n : 0;
}

wh_status whi_device_open_cuda(wh_device **device, uint32_t ordinal) {
    cuda_device *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    c->base.ops = &ops;
    c->ordinal = (int)ordinal;
    struct cudaDeviceProp prop;
    int driver = 0;
    if (cudaSetDevice(c->ordinal) != cudaSuccess ||
        cudaGetDeviceProperties(&prop, c->ordinal) != cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess || cudaEventCreate(&c->begin) != cudaSuccess ||
        cudaEventCreate(&c->end) != cudaSuccess) {
        free(c);
        return WH_NO_DEVICE;
    }
    c->base.info.target = WH_TARGET_CUDA;
    c->base.info.n_sms = (uint32_t)prop.multiProcessorCount;
    c->base.info.memory_bytes = prop.totalGlobalMem;
    (void)snprintf(c->base.info.name, sizeof c->base.info.name, "%.127s", prop.name);
    (void)snprintf(c->base.info.driver, sizeof c->base.info.driver, "CUDA driver %d.%d",
                   driver / 1000, driver % 1000 / 10);
    *device = &c->base;
    return WH_OK;
}

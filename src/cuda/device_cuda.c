/* device_cuda.c: the GPU back-end of device.h over the CUDA runtime's C API.
 *
 * The runtime has a current device per host thread, which belongs to the caller. Every call here
 * works between enter and leave: on its wh_device's GPU, with the caller's device restored. */
#include "../host/device_internal.h"

#include <cuda.h> /* types alone: its functions are asked for by name */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host/last_error.h"

/* X(field, name, version that it is of, parameters): what is called of the driver. The runtime
 * knows where they are, so that nothing more is linked. */
/* clang-format off */
#define DRIVER_LIST(X) \
    X(granularity, "cuMemGetAllocationGranularity", 10020, \
      (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)) \
    X(reserve, "cuMemAddressReserve", 10020, \
      (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
    X(create, "cuMemCreate", 10020, \
      (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
    X(map, "cuMemMap", 10020, \
      (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
    X(let_go, "cuMemRelease", 10020, (CUmemGenericAllocationHandle)) \
    X(access, "cuMemSetAccess", 10020, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)) \
    X(unmap, "cuMemUnmap", 10020, (CUdeviceptr, size_t)) \
    X(release, "cuMemAddressFree", 10020, (CUdeviceptr, size_t))
/* clang-format on */

typedef struct cuda_driver {
#define FIELD(field, name, version, parameters) CUresult(*field) parameters;
    DRIVER_LIST(FIELD)
#undef FIELD
} cuda_driver;

typedef struct cuda_device {
    wh_device base;
    cuda_driver driver;   /* filled in by the first question for the granularity */
    uint64_t granularity; /* 0: not known, or there is none */
    int has_pools;        /* memory can be had and given back in stream order */
    cudaEvent_t begin, end;
} cuda_device;

/* Makes the device current for this host thread; leave takes what enter returned. */
static int enter(const wh_device *d) {
    const int ordinal = d->info.ordinal;
    int was = ordinal;
    if (cudaGetDevice(&was) != cudaSuccess) {
        (void)cudaGetLastError();
    }
    if (was != ordinal) {
        (void)cudaSetDevice(ordinal); /* what fails, fails again in the call itself */
    }
    return was;
}

static void leave(const wh_device *d, int was) {
    if (was != d->info.ordinal) {
        (void)cudaSetDevice(was);
    }
}

static wh_status note(wh_device *d, cudaError_t error, const char *what) {
    if (error == cudaSuccess) {
        return WH_OK;
    }
    (void)cudaGetLastError(); /* an error that is not sticky ends here */
    return wh_device_note_cuda(d, (int)error, what, cudaGetErrorString(error));
}

/* A call of the runtime on d, noted under `what`. */
#define ON_DEVICE(d, what, call)                     \
    do {                                             \
        const int was = enter(d);                    \
        const wh_status noted = note(d, call, what); \
        leave(d, was);                               \
        return noted;                                \
    } while (0)

static void close_device(wh_device *d) {
    cuda_device *c = (cuda_device *)d;
    const int was = enter(d);
    (void)cudaEventDestroy(c->begin);
    (void)cudaEventDestroy(c->end);
    leave(d, was);
    free(c);
}

static wh_status alloc(wh_device *d, void **p, uint64_t bytes) {
    ON_DEVICE(d, "cudaMalloc", cudaMalloc(p, bytes));
}

static wh_status release(wh_device *d, void *p) {
    ON_DEVICE(d, "cudaFree", cudaFree(p));
}

/* cudaFree waits for the whole device, cudaFreeAsync for the stream. */
static wh_status alloc_on(wh_device *d, void **p, uint64_t bytes, void *stream) {
    *p = NULL;
    if (!((cuda_device *)d)->has_pools) {
        return alloc(d, p, bytes);
    }
    ON_DEVICE(d, "cudaMallocAsync", cudaMallocAsync(p, bytes, (cudaStream_t)stream));
}

static wh_status alloc_from(wh_device *d, void *pool, void **p, uint64_t bytes, void *stream) {
    *p = NULL;
    ON_DEVICE(d, "cudaMallocFromPoolAsync",
              cudaMallocFromPoolAsync(p, bytes, (cudaMemPool_t)pool, (cudaStream_t)stream));
}

static wh_status free_on(wh_device *d, void *p, void *stream) {
    if (p == NULL) {
        return WH_OK;
    }
    if (!((cuda_device *)d)->has_pools) {
        return release(d, p);
    }
    ON_DEVICE(d, "cudaFreeAsync", cudaFreeAsync(p, (cudaStream_t)stream));
}

static wh_status set(wh_device *d, void *p, int byte, uint64_t bytes) {
    ON_DEVICE(d, "cudaMemset", cudaMemset(p, byte, bytes));
}

static wh_status copy_in(wh_device *d, void *to, const void *from, uint64_t bytes) {
    ON_DEVICE(d, "cudaMemcpy to device", cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

static wh_status copy_out(wh_device *d, void *to, const void *from, uint64_t bytes) {
    ON_DEVICE(d, "cudaMemcpy to host", cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

static wh_status sync_device(wh_device *d) {
    ON_DEVICE(d, "kernel", cudaDeviceSynchronize());
}

/* A blocking stream: the default stream and it wait for each other. */
static wh_status stream_create(wh_device *d, void **stream) {
    ON_DEVICE(d, "cudaStreamCreate", cudaStreamCreate((cudaStream_t *)stream));
}

static wh_status stream_destroy(wh_device *d, void *stream) {
    ON_DEVICE(d, "cudaStreamDestroy", cudaStreamDestroy((cudaStream_t)stream));
}

static wh_status stream_sync(wh_device *d, void *stream) {
    ON_DEVICE(d, "kernel", cudaStreamSynchronize((cudaStream_t)stream));
}

static wh_status settled(wh_device *d, cudaError_t copied, const char *what, void *stream) {
    const wh_status s = note(d, copied, what);
    return s == WH_OK ? note(d, cudaStreamSynchronize((cudaStream_t)stream), "kernel") : s;
}

static wh_status copy_out_on(wh_device *d, void *to, const void *from, uint64_t bytes,
                             void *stream) {
    const int was = enter(d);
    const wh_status s =
        settled(d, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, (cudaStream_t)stream),
                "cudaMemcpyAsync to host", stream);
    leave(d, was);
    return s;
}

static wh_status copy_in_on(wh_device *d, void *to, const void *from, uint64_t bytes,
                            void *stream) {
    const int was = enter(d);
    const wh_status s =
        settled(d, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, (cudaStream_t)stream),
                "cudaMemcpyAsync to device", stream);
    leave(d, was);
    return s;
}

/* --- looks while kernels run ----------------------------------------------------------------- */

/* Without a note: the error text is another thread's. */
static wh_status looked(cudaError_t error) {
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
    }
    return wh_device_note_cuda(NULL, (int)error, NULL, NULL);
}

/* Another thread may be capturing a graph, which these calls are no part of: until the second call,
 * with what the first one left in *mode, CUDA lets this thread make them. */
static void exchange_mode(enum cudaStreamCaptureMode *mode) {
    if (cudaThreadExchangeStreamCaptureMode(mode) != cudaSuccess) {
        (void)cudaGetLastError();
    }
}

static void lens_close(wh_device *d, whi_lens *lens) {
    const int was = enter(d);
    if (lens->stream != NULL) {
        (void)cudaStreamDestroy((cudaStream_t)lens->stream);
    }
    if (lens->memory != NULL) {
        (void)cudaFreeHost(lens->memory);
    }
    leave(d, was);
    free(lens);
}

/* Pinned memory, so that the copy engine writes it; a stream that waits for no other, not for the
 * default one either. */
static wh_status lens_open(wh_device *d, whi_lens **lens, uint64_t bytes) {
    whi_lens *l = calloc(1, sizeof *l);
    *lens = NULL;
    if (l == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    const int was = enter(d);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    exchange_mode(&mode);
    wh_status s = looked(cudaHostAlloc(&l->memory, bytes, cudaHostAllocDefault));
    if (s == WH_OK) {
        s = looked(cudaStreamCreateWithFlags((cudaStream_t *)&l->stream, cudaStreamNonBlocking));
    }
    exchange_mode(&mode);
    leave(d, was);
    if (s != WH_OK) {
        lens_close(d, l);
        return s;
    }
    *lens = l;
    return WH_OK;
}

static wh_status look(wh_device *d, whi_lens *lens, const void *from, uint64_t bytes) {
    const int was = enter(d);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    const cudaStream_t stream = (cudaStream_t)lens->stream;
    exchange_mode(&mode);
    cudaError_t e = cudaMemcpyAsync(lens->memory, from, bytes, cudaMemcpyDefault, stream);
    e = e == cudaSuccess ? cudaStreamSynchronize(stream) : e;
    const wh_status s = looked(e);
    exchange_mode(&mode);
    leave(d, was);
    return s;
}

/* --- address space ------------------------------------------------------------------------- */

/* Codes of the driver are those of the runtime, which does not keep them. */
static wh_status note_driver(wh_device *d, CUresult result, const char *what) {
    return wh_device_note_cuda(d, (int)result, what, cudaGetErrorString((cudaError_t)result));
}

static cudaError_t entry_point(const char *name, unsigned version, void **function) {
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t e =
        cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableDefault, &found);
#elif CUDART_VERSION >= 12000
    (void)version;
    const cudaError_t e = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found);
#else
    (void)version;
    const cudaError_t e = cudaGetDriverEntryPoint(name, function, cudaEnableDefault);
    found = cudaDriverEntryPointSuccess;
#endif
    return e == cudaSuccess && (found != cudaDriverEntryPointSuccess || *function == NULL)
               ? cudaErrorNotSupported
               : e;
}

static CUmemAllocationProp memory_of(const wh_device *d) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = d->info.ordinal;
    return prop;
}

static cudaError_t load_driver(cuda_device *c) {
    cudaError_t e = cudaSuccess;
    void *function = NULL;
#define LOAD(field, name, version, parameters)                        \
    e = e == cudaSuccess ? entry_point(name, version, &function) : e; \
    memcpy(&c->driver.field, &function, sizeof function);
    DRIVER_LIST(LOAD)
#undef LOAD
    const CUmemAllocationProp prop = memory_of(&c->base);
    size_t bytes = 0;
    if (e == cudaSuccess) {
        e = (cudaError_t)c->driver.granularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    }
    c->granularity = e == cudaSuccess ? bytes : 0;
    return e;
}

static uint64_t granularity(wh_device *d) {
    cuda_device *c = (cuda_device *)d;
    if (c->granularity == 0) {
        const int was = enter(d);
        (void)note(d, load_driver(c), "cuMemGetAllocationGranularity");
        leave(d, was);
    }
    return c->granularity;
}

static wh_status reserve(wh_device *d, void **p, uint64_t bytes) {
    const cuda_device *c = (const cuda_device *)d;
    const int was = enter(d);
    CUdeviceptr at = 0;
    /* A wish is a hint for the driver. It may refuse one that it cannot fulfil. */
    const CUdeviceptr wish = (CUdeviceptr)(uintptr_t)*p;
    if (wish != 0 && (cudaError_t)c->driver.reserve(&at, bytes, 0, wish, 0) != cudaSuccess) {
        at = 0;
    }
    const wh_status s =
        at != 0 ? WH_OK
                : note_driver(d, c->driver.reserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve");
    *p = s == WH_OK ? (void *)(uintptr_t)at : NULL;
    leave(d, was);
    return s;
}

/* The memory of a mapping that is undone is the device's again, as nothing else holds it. */
static wh_status map_piece(wh_device *d, CUdeviceptr at, uint64_t bytes) {
    const cuda_device *c = (const cuda_device *)d;
    const CUmemAllocationProp prop = memory_of(d);
    CUmemGenericAllocationHandle memory = 0;
    wh_status s = note_driver(d, c->driver.create(&memory, bytes, &prop, 0), "cuMemCreate");
    if (s != WH_OK) {
        return s;
    }
    s = note_driver(d, c->driver.map(at, bytes, 0, memory, 0), "cuMemMap");
    (void)c->driver.let_go(memory);
    return s;
}

static wh_status map(wh_device *d, void *p, uint64_t bytes, uint64_t piece) {
    const cuda_device *c = (const cuda_device *)d;
    const int was = enter(d);
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)p;
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location = memory_of(d).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    wh_status s = WH_OK;
    uint64_t done = 0;
    for (; done < bytes && s == WH_OK; done += s == WH_OK ? piece : 0) {
        s = map_piece(d, at + done, piece);
    }
    if (s == WH_OK) {
        s = note_driver(d, c->driver.access(at, bytes, &access, 1), "cuMemSetAccess");
    }
    for (; s != WH_OK && done > 0; done -= piece) {
        (void)c->driver.unmap(at + done - piece, piece);
    }
    leave(d, was);
    return s;
}

static wh_status unmap(wh_device *d, void *p, uint64_t bytes, uint64_t piece) {
    const cuda_device *c = (const cuda_device *)d;
    const int was = enter(d);
    wh_status s = WH_OK;
    for (uint64_t k = 0; k < bytes && s == WH_OK; k += piece) {
        s = note_driver(d, c->driver.unmap((CUdeviceptr)(uintptr_t)p + k, piece), "cuMemUnmap");
    }
    leave(d, was);
    return s;
}

static wh_status release_addresses(wh_device *d, void *p, uint64_t bytes) {
    const cuda_device *c = (const cuda_device *)d;
    const int was = enter(d);
    const wh_status s =
        note_driver(d, c->driver.release((CUdeviceptr)(uintptr_t)p, bytes), "cuMemAddressFree");
    leave(d, was);
    return s;
}

/* --- peers ------------------------------------------------------------------------------------ */

static wh_status peer_check(wh_device *d, wh_device *peer) {
    const int own = d->info.ordinal, its = peer->info.ordinal;
    const int was = enter(d);
    int access = 0, atomics = 0;
    cudaError_t e = cudaDeviceCanAccessPeer(&access, its, own);
    if (e == cudaSuccess && access) {
        e = cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, its, own);
    }
    wh_status s = note(d, e, "cudaDeviceCanAccessPeer");
    if (s == WH_OK && !access) {
        s = WH_NO_PEER_ACCESS;
    } else if (s == WH_OK && !atomics) {
        s = WH_NO_PEER_ATOMICS;
    }
    leave(d, was);
    return s;
}

/* The pool that memory is of; NULL: of none. */
static cudaError_t pool_of(const void *at, cudaMemPool_t *pool) {
    CUresult (*attribute)(void *, CUpointer_attribute, CUdeviceptr) = NULL;
    void *function = NULL;
    *pool = NULL;
    const cudaError_t e = entry_point("cuPointerGetAttribute", 4000, &function);
    memcpy(&attribute, &function, sizeof function);
    return e != cudaSuccess ? e
                            : (cudaError_t)attribute(pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                                     (CUdeviceptr)(uintptr_t)at);
}

/* All that d has of cudaMalloc. The program may have done so before. */
static cudaError_t open_device(const wh_device *d, const wh_device *peer) {
    const int was = enter(peer);
    cudaError_t e = cudaDeviceEnablePeerAccess(d->info.ordinal, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        e = cudaSuccess;
    }
    leave(peer, was);
    return e;
}

static wh_status peer_open(wh_device *d, wh_device *peer, void *at, uint64_t bytes) {
    (void)bytes;
    const int was = enter(d);
    cudaMemPool_t pool = NULL;
    const char *what = "cuPointerGetAttribute";
    cudaError_t e = pool_of(at, &pool);
    if (e == cudaSuccess && pool != NULL) {
        struct cudaMemAccessDesc access;
        memset(&access, 0, sizeof access);
        access.location.type = cudaMemLocationTypeDevice;
        access.location.id = peer->info.ordinal;
        access.flags = cudaMemAccessFlagsProtReadWrite;
        what = "cudaMemPoolSetAccess";
        e = cudaMemPoolSetAccess(pool, &access, 1);
    } else if (e == cudaSuccess) {
        what = "cudaDeviceEnablePeerAccess";
        e = open_device(d, peer);
    }
    const wh_status s = note(d, e, what);
    leave(d, was);
    return s;
}

static wh_status peer_share(wh_device *d, wh_device *peer, void *at, uint64_t bytes) {
    const cuda_device *c = (const cuda_device *)d;
    const int was = enter(d);
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location = memory_of(peer).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const wh_status s = note_driver(
        d, c->driver.access((CUdeviceptr)(uintptr_t)at, bytes, &access, 1), "cuMemSetAccess");
    leave(d, was);
    return s;
}

/* Of all devices, since a host thread may have made another one current. */
static wh_status host_alloc(wh_device *d, void **p, uint64_t bytes) {
    *p = NULL;
    ON_DEVICE(d, "cudaHostAlloc",
              cudaHostAlloc(p, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
}

static wh_status host_free(wh_device *d, void *p) {
    ON_DEVICE(d, "cudaFreeHost", cudaFreeHost(p));
}

/* The driver's calls want a current context, which this makes the device's. */
static wh_status use_thread(wh_device *d) {
    size_t left = 0, all = 0;
    cudaError_t e = cudaSetDevice(d->info.ordinal);
    e = e == cudaSuccess ? cudaMemGetInfo(&left, &all) : e;
    return note(d, e, "cudaSetDevice");
}

/* --- time ------------------------------------------------------------------------------------ */

static wh_status timer_begin(wh_device *d) {
    ON_DEVICE(d, "cudaEventRecord", cudaEventRecord(((cuda_device *)d)->begin, NULL));
}

static wh_status timer_end(wh_device *d, double *us) {
    cuda_device *c = (cuda_device *)d;
    const int was = enter(d);
    wh_status s = note(d, cudaEventRecord(c->end, NULL), "cudaEventRecord");
    if (s == WH_OK) {
        s = note(d, cudaEventSynchronize(c->end), "kernel");
    }
    float ms = 0.0f;
    if (s == WH_OK) {
        s = note(d, cudaEventElapsedTime(&ms, c->begin, c->end), "cudaEventElapsedTime");
    }
    leave(d, was);
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
    .alloc_on = alloc_on,
    .free_on = free_on,
    .copy_out_on = copy_out_on,
    .copy_in_on = copy_in_on,
    .alloc_from = alloc_from,
    .lens_open = lens_open,
    .lens_close = lens_close,
    .look = look,
    .granularity = granularity,
    .reserve = reserve,
    .map = map,
    .unmap = unmap,
    .release = release_addresses,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .use_thread = use_thread,
    .peer_check = peer_check,
    .peer_open = peer_open,
    .peer_share = peer_share,
};

/* Why no GPU was counted. */
static const char *no_gpu(cudaError_t error) {
    if (error == cudaErrorInsufficientDriver) {
        return "there is no NVIDIA driver here, or it is older than the CUDA runtime that this "
               "program was linked with: install or update the driver";
    }
    return error == cudaSuccess || error == cudaErrorNoDevice
               ? "the driver shows no GPU: see nvidia-smi, and CUDA_VISIBLE_DEVICES"
               : "the CUDA runtime could not count the GPUs: see nvidia-smi";
}

uint32_t whi_device_cuda_count(void) {
    int n = 0;
    const cudaError_t error = cudaGetDeviceCount(&n);
    if (error == cudaSuccess && n > 0) {
        return (uint32_t)n;
    }
    (void)cudaGetLastError();
    (void)whi_refuse(WH_NO_DEVICE, "%s", no_gpu(error));
    return 0;
}

/* What the library wants to know of the GPU; its events. */
static cudaError_t fill(cuda_device *c, int ordinal) {
    struct cudaDeviceProp prop;
    int driver = 0;
    cudaError_t e = cudaGetDeviceProperties(&prop, ordinal);
    e = e == cudaSuccess ? cudaDriverGetVersion(&driver) : e;
    e = e == cudaSuccess
            ? cudaDeviceGetAttribute(&c->has_pools, cudaDevAttrMemoryPoolsSupported, ordinal)
            : e;
    e = e == cudaSuccess ? cudaEventCreate(&c->begin) : e;
    e = e == cudaSuccess ? cudaEventCreate(&c->end) : e;
    if (e != cudaSuccess) {
        return e;
    }
    wh_device_info *info = &c->base.info;
    info->target = WH_TARGET_CUDA;
    info->n_sms = (uint32_t)prop.multiProcessorCount;
    info->memory_bytes = prop.totalGlobalMem;
    info->shared_bytes = (uint32_t)prop.sharedMemPerBlockOptin;
    (void)snprintf(info->name, sizeof info->name, "%.127s", prop.name);
    (void)snprintf(info->driver, sizeof info->driver, "CUDA driver %d.%d", driver / 1000,
                   driver % 1000 / 10);
    return cudaSuccess;
}

wh_status whi_device_open_cuda(wh_device **device, int ordinal) {
    cuda_device *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    if (ordinal < 0 && cudaGetDevice(&ordinal) != cudaSuccess) {
        ordinal = 0;
    }
    c->base.ops = &ops;
    c->base.info.ordinal = ordinal;
    const int was = enter(&c->base);
    const cudaError_t error = fill(c, ordinal);
    if (error != cudaSuccess && c->begin != NULL) {
        (void)cudaEventDestroy(c->begin);
    }
    leave(&c->base, was);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        free(c);
        return whi_refuse(
            WH_NO_DEVICE,
            "the GPU is there but cannot be used: %s; see nvidia-smi (another process "
            "may hold it, or an error has stopped it)",
            cudaGetErrorString(error));
    }
    *device = &c->base;
    return WH_OK;
}

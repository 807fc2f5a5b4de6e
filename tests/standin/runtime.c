/* runtime.c: a stand-in for the CUDA runtime (standin.h), single-threaded but for the current
 * device, which each host thread has for itself, as in CUDA. */
#include "cuda_runtime_api.h"
#include "standin.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256

typedef struct thing {
    void *p; /* NULL: free */
    size_t bytes;
    int device;
    struct standin_pool *pool; /* NULL: of none */
} thing;

struct standin_stream {
    int device;
};
struct standin_event {
    int device;
};
struct standin_pool {
    unsigned blocks; /* that have been had of it */
    unsigned open;   /* a bit for each device that may use it, beside the memory's own */
};

static _Thread_local int current;
static _Thread_local cudaError_t last; /* of any call, until someone asks */
static thing things[MOST];
static unsigned calls[STANDIN_DEVICES], waits, strays, fail_after;
static cudaError_t failure, count_error;
static int count = STANDIN_DEVICES, pools = 1, links_access = 1, links_atomics = 1;
static struct standin_pool own_pools[STANDIN_DEVICES]; /* of cudaMallocAsync */
static unsigned open_to[STANDIN_DEVICES];              /* as of a pool, of cudaMalloc */

unsigned standin_calls_on(int device) {
    return calls[device];
}
unsigned standin_waits_for_device(void) {
    return waits;
}
unsigned standin_strays(void) {
    return strays;
}
void standin_forget(void) {
    memset(calls, 0, sizeof calls);
    waits = strays = 0;
}
void standin_fail(int error, unsigned after) {
    failure = (cudaError_t)error;
    fail_after = after;
}
void standin_set_count(int n, int error) {
    count = n;
    count_error = (cudaError_t)error;
}
void standin_set_pools(int p) {
    pools = p;
}
unsigned standin_alive(void) {
    unsigned n = 0;
    for (int i = 0; i < MOST; i++) {
        n += things[i].p != NULL;
    }
    return n;
}

/* Every call that touches the current device begins here. owner: of what it is given. */
static cudaError_t touch(int owner) {
    calls[current]++;
    strays += owner != current;
    cudaError_t e = owner == current ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (failure != cudaSuccess && fail_after-- == 0) {
        e = failure;
        failure = cudaSuccess;
    }
    last = e != cudaSuccess ? e : last;
    return e;
}

int standin_touch(int owner) {
    const cudaError_t was = last;
    const cudaError_t e = touch(owner == -2 ? current : owner);
    last = was; /* the runtime does not know of it */
    return (int)e;
}
void standin_stray(void) {
    strays++;
}

static thing *find(const void *p) {
    for (int i = 0; i < MOST; i++) {
        const char *begin = things[i].p;
        if (begin != NULL && begin == p) {
            return &things[i];
        }
    }
    return NULL;
}

static cudaError_t add(void **p, size_t bytes) {
    const cudaError_t e = touch(current);
    for (int i = 0; e == cudaSuccess && i < MOST; i++) {
        if (things[i].p == NULL) {
            things[i].p = *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
            things[i].bytes = bytes;
            things[i].device = current;
            things[i].pool = NULL;
            return *p != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
        }
    }
    return e != cudaSuccess ? e : cudaErrorMemoryAllocation;
}

static cudaError_t drop(void *p) {
    thing *t = find(p);
    const cudaError_t e = touch(t != NULL ? t->device : -1);
    if (e == cudaSuccess) {
        free(p);
        t->p = NULL;
    }
    return e;
}

static int stream_device(cudaStream_t s) {
    return s != NULL ? s->device : current;
}

cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= STANDIN_DEVICES) {
        return cudaErrorInvalidDevice;
    }
    current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n) {
    *n = count;
    return count_error;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    memset(prop, 0, sizeof *prop);
    strcpy(prop->name, "stand-in");
    prop->totalGlobalMem = (size_t)1 << 30;
    prop->multiProcessorCount = 4;
    prop->sharedMemPerBlockOptin = 99 << 10;
    return touch(device);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    (void)attribute;
    *value = pools;
    return touch(device);
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = 13000;
    return touch(current);
}
cudaError_t cudaGetLastError(void) {
    const cudaError_t e = last;
    last = cudaSuccess;
    return e;
}
cudaError_t cudaPeekAtLastError(void) {
    return last;
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorAssert ? "an assertion in a kernel" : "an error of the stand-in";
}
cudaError_t cudaMalloc(void **p, size_t bytes) {
    return add(p, bytes);
}
cudaError_t cudaFree(void *p) {
    return drop(p);
}
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream) {
    strays += stream_device(stream) != current;
    const cudaError_t e = add(p, bytes);
    if (e == cudaSuccess) {
        find(*p)->pool = &own_pools[current];
    }
    return e;
}
struct standin_pool *standin_pool(void) {
    static struct standin_pool pool;
    return &pool;
}
unsigned standin_from_pool(void) {
    return standin_pool()->blocks;
}
cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
    const cudaError_t e =
        pool == standin_pool() ? cudaMallocAsync(p, bytes, stream) : cudaErrorInvalidValue;
    pool->blocks += e == cudaSuccess;
    if (e == cudaSuccess) {
        find(*p)->pool = pool;
    }
    return e;
}

void standin_set_links(int access, int atomics) {
    links_access = access;
    links_atomics = atomics;
}
void standin_close_links(void) {
    memset(open_to, 0, sizeof open_to);
    memset(own_pools, 0, sizeof own_pools);
    standin_pool()->open = 0;
}
static const thing *around(const void *p) {
    for (int i = 0; i < MOST; i++) {
        const char *begin = things[i].p;
        if (begin != NULL && (const char *)p >= begin &&
            (const char *)p < begin + things[i].bytes) {
            return &things[i];
        }
    }
    return NULL;
}
struct standin_pool *standin_pool_of(const void *p) {
    const thing *t = around(p);
    return t != NULL ? t->pool : NULL;
}
int standin_can_read(int device, const void *p) {
    const thing *t = around(p);
    if (t == NULL) {
        return standin_maps(device, p);
    }
    const unsigned open = t->pool != NULL ? t->pool->open : open_to[t->device];
    return t->device == device || (open >> device & 1) != 0;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = links_access && device != peer;
    return touch(current);
}
cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int source,
                                      int destination) {
    (void)attribute;
    *value = links_atomics && source != destination;
    return touch(current);
}
/* Opens memory of the peer to the current device. */
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    const unsigned bit = 1u << current;
    cudaError_t e = touch(current);
    if (e == cudaSuccess && (flags != 0 || peer == current || !links_access)) {
        e = cudaErrorInvalidDevice;
    } else if (e == cudaSuccess && (open_to[peer] & bit) != 0) {
        e = cudaErrorPeerAccessAlreadyEnabled;
    }
    open_to[peer] |= e == cudaSuccess ? bit : 0;
    last = e != cudaSuccess ? e : last;
    return e;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                 size_t n) {
    const cudaError_t e = touch(current);
    if (n != 1 || access->location.type != cudaMemLocationTypeDevice ||
        access->flags != cudaMemAccessFlagsProtReadWrite) {
        strays++;
        return cudaErrorInvalidValue;
    }
    pool->open |= e == cudaSuccess ? 1u << access->location.id : 0;
    return e;
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream) {
    strays += stream_device(stream) != current;
    return drop(p);
}
/* Mapped memory has one address for both sides. */
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
    const unsigned mapped = cudaHostAllocPortable | cudaHostAllocMapped;
    return flags == mapped || flags == cudaHostAllocDefault ? add(p, bytes) : cudaErrorInvalidValue;
}
cudaError_t cudaFreeHost(void *p) {
    return drop(p);
}
cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
    *left = *all = (size_t)1 << 30;
    return touch(current);
}
cudaError_t cudaMemset(void *p, int byte, size_t bytes) {
    memset(p, byte, bytes);
    return touch(current);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(to, from, bytes);
    return touch(current);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)kind;
    memcpy(to, from, bytes);
    return touch(stream_device(stream));
}
cudaError_t cudaDeviceSynchronize(void) {
    waits++;
    return touch(current);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    void *p = NULL;
    const cudaError_t e = add(&p, sizeof **stream);
    if (e == cudaSuccess) {
        *stream = p;
        (*stream)->device = current;
    }
    return e;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return flags == cudaStreamNonBlocking ? cudaStreamCreate(stream) : cudaErrorInvalidValue;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    static _Thread_local enum cudaStreamCaptureMode own = cudaStreamCaptureModeGlobal;
    const enum cudaStreamCaptureMode before = own;
    own = *mode;
    *mode = before;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return drop(stream);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return touch(stream_device(stream));
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    void *p = NULL;
    const cudaError_t e = add(&p, sizeof **event);
    if (e == cudaSuccess) {
        *event = p;
        (*event)->device = current;
    }
    return e;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return drop(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    strays += stream_device(stream) != current;
    return touch(event->device);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return touch(event->device);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    strays += begin->device != end->device;
    *ms = 1.0f;
    return touch(begin->device);
}

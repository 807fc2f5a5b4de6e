/* driver.c: the part of the stand-in (standin.h) that stands for the CUDA driver: addresses, memory
 * and what of it is mapped where. It refuses what the driver refuses: memory that is mapped twice,
 * access to what is not mapped, an unmap of a part of a mapping. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#endif
#include "cuda.h"
#include "cuda_runtime_api.h"
#include "standin.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define MOST 256
#define GRANULE ((size_t)2 << 20)

typedef struct piece {
    CUdeviceptr at; /* of a mapping; 0: none */
    size_t bytes;   /* 0: free */
    int device;
    unsigned open; /* of a mapping: a bit for each device that may use it */
    int held;      /* by its creator */
} piece;

static piece pieces[MOST], ranges[MOST];

unsigned standin_mapped(void) {
    unsigned n = 0;
    for (int i = 0; i < MOST; i++) {
        n += pieces[i].bytes != 0;
        n += ranges[i].bytes != 0;
    }
    return n;
}

static piece *unused(piece *all) {
    for (int i = 0; i < MOST; i++) {
        if (all[i].bytes == 0) {
            return &all[i];
        }
    }
    return NULL;
}
static piece *at(piece *all, CUdeviceptr p) {
    for (int i = 0; i < MOST; i++) {
        if (all[i].bytes != 0 && all[i].at == p) {
            return &all[i];
        }
    }
    return NULL;
}
static CUresult refused(void) {
    standin_stray();
    return cudaErrorInvalidValue;
}

static CUresult granularity(size_t *bytes, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags flags) {
    (void)flags;
    *bytes = GRANULE;
    return standin_touch(prop->location.id);
}

/* A little more, for the alignment, which stays unused. */
static CUresult reserve(CUdeviceptr *p, size_t bytes, size_t alignment, CUdeviceptr wish,
                        unsigned long long flags) {
    (void)alignment, (void)wish, (void)flags;
    const CUresult r = standin_touch(-2);
    piece *range = unused(ranges);
    if (r != cudaSuccess || range == NULL || bytes % GRANULE != 0) {
        return r != cudaSuccess ? r : refused();
    }
    char *const q =
        mmap(NULL, bytes + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (q == MAP_FAILED) {
        return cudaErrorMemoryAllocation;
    }
    range->at = ((uintptr_t)q + GRANULE - 1) / GRANULE * GRANULE;
    range->bytes = bytes;
    *p = range->at;
    return cudaSuccess;
}

static CUresult create(CUmemGenericAllocationHandle *memory, size_t bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags) {
    (void)flags;
    const CUresult r = standin_touch(prop->location.id);
    piece *p = unused(pieces);
    if (r != cudaSuccess || p == NULL || bytes == 0 || bytes % GRANULE != 0) {
        return r != cudaSuccess ? r : refused();
    }
    memset(p, 0, sizeof *p);
    p->bytes = bytes;
    p->device = prop->location.id;
    p->held = 1;
    *memory = (CUmemGenericAllocationHandle)(p - pieces) + 1;
    return cudaSuccess;
}

static CUresult map(CUdeviceptr to, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle memory, unsigned long long flags) {
    (void)flags;
    piece *p = &pieces[memory - 1];
    const CUresult r = standin_touch(p->device);
    if (r != cudaSuccess) {
        return r;
    }
    int inside = 0;
    for (int i = 0; i < MOST; i++) {
        if (pieces[i].bytes != 0 && pieces[i].at != 0 && to < pieces[i].at + pieces[i].bytes &&
            pieces[i].at < to + bytes) {
            return refused();
        }
        inside |= ranges[i].bytes != 0 && to >= ranges[i].at &&
                  to + bytes <= ranges[i].at + ranges[i].bytes;
    }
    if (!inside || offset != 0 || bytes != p->bytes || p->at != 0 || to % GRANULE != 0) {
        return refused();
    }
    p->at = to;
    p->open = 0;
    return cudaSuccess;
}

static CUresult let_go(CUmemGenericAllocationHandle memory) {
    piece *p = &pieces[memory - 1];
    p->held = 0;
    p->bytes = p->at != 0 ? p->bytes : 0;
    return cudaSuccess;
}

int standin_maps(int device, const void *p) {
    const CUdeviceptr q = (uintptr_t)p;
    for (int i = 0; i < MOST; i++) {
        if (pieces[i].bytes != 0 && pieces[i].at != 0 && q >= pieces[i].at &&
            q < pieces[i].at + pieces[i].bytes) {
            return (pieces[i].open >> device & 1) != 0;
        }
    }
    return 0;
}

static CUresult attribute(void *value, CUpointer_attribute which, CUdeviceptr p) {
    (void)which;
    struct standin_pool *pool = standin_pool_of((const void *)(uintptr_t)p);
    memcpy(value, &pool, sizeof pool);
    return standin_touch(-2);
}

/* The memory's own device gives access to itself, or to a peer. */
static CUresult access(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *desc, size_t n) {
    const piece *first = at(pieces, p);
    const CUresult r = standin_touch(first != NULL ? first->device : -1);
    if (r != cudaSuccess) {
        return r;
    }
    for (CUdeviceptr q = p; q < p + bytes;) {
        piece *its = at(pieces, q);
        if (its == NULL || n != 1 || desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return refused();
        }
        its->open |= 1u << desc->location.id;
        q += its->bytes;
    }
    return mprotect((void *)(uintptr_t)p, bytes, PROT_READ | PROT_WRITE) == 0
               ? cudaSuccess
               : cudaErrorMemoryAllocation;
}

static CUresult unmap(CUdeviceptr p, size_t bytes) {
    piece *its = at(pieces, p);
    const CUresult r = standin_touch(its != NULL ? its->device : -1);
    if (r != cudaSuccess || its->bytes != bytes) {
        return r != cudaSuccess ? r : refused();
    }
    (void)mmap((void *)(uintptr_t)p, bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    its->at = 0;
    its->bytes = its->held ? its->bytes : 0;
    return cudaSuccess;
}

static CUresult release(CUdeviceptr p, size_t bytes) {
    piece *range = at(ranges, p);
    const CUresult r = standin_touch(-2);
    if (r != cudaSuccess || range == NULL || range->bytes != bytes) {
        return r != cudaSuccess ? r : refused();
    }
    for (int i = 0; i < MOST; i++) {
        if (pieces[i].bytes != 0 && pieces[i].at >= p && pieces[i].at < p + bytes) {
            return refused();
        }
    }
    (void)munmap((void *)(uintptr_t)p, bytes);
    range->bytes = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {
        {"cuMemGetAllocationGranularity", (void (*)(void))granularity},
        {"cuMemAddressReserve", (void (*)(void))reserve},
        {"cuMemCreate", (void (*)(void))create},
        {"cuMemMap", (void (*)(void))map},
        {"cuMemRelease", (void (*)(void))let_go},
        {"cuMemSetAccess", (void (*)(void))access},
        {"cuMemUnmap", (void (*)(void))unmap},
        {"cuMemAddressFree", (void (*)(void))release},
        {"cuPointerGetAttribute", (void (*)(void))attribute},
    };
    (void)flags;
    *found = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, symbol) == 0 && version <= 13000) {
            memcpy(function, &all[i].function, sizeof *function);
            *found = cudaDriverEntryPointSuccess;
        }
    }
    return (cudaError_t)standin_touch(-2);
}

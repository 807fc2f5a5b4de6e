/* nvtx.c: NVTX: ranges around host calls, and live blocks as suballocations (warpheap/nvtx.h).
 *
 * NVTX is headers alone (Apache-2.0 with LLVM exceptions, in the CUDA toolkit): its functions look
 * for a tool at their first call, in the environment, and do nothing if there is none. This is the
 * one file that has them. compute-sanitizer's manual ("NVTX API for Compute Sanitizer") says what
 * it supports; from it follows:
 *
 * - A pool must not be used after it is unregistered. So the heap stays one, until cudaFree.
 * Between two registrations one region covers it, and before each the pool is reset.
 * - What kernels use besides blocks is a region, too: the metadata, which lies before the first
 *   chunk. Kernels that look for the blocks read what lies around them: so the tool is told of
 *   blocks when all are known.
 * - The CUDA runtime must be there before the first call: a heap has a device. */
#define _DEFAULT_SOURCE /* the headers want more than C11 has */

#include "warpheap/nvtx.h"

#include "heap_internal.h"
#include "last_error.h"
#include "nvtx_internal.h"

#if defined(WH_HAVE_NVTX)

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVTX_AS_SYSTEM_HEADER
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

#include "scan.h"
#include "try.h"

#define BATCH 512u /* blocks that are told at once */
#define PLACE 80u  /* bytes of a name */

/* What all of the process shares: the tool knows the library by its domain. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static nvtxDomainHandle_t domain;
static int has_ranges;

static void start(void) {
    const char *wanted = getenv("WH_NVTX");
    has_ranges = wanted != NULL && wanted[0] != '\0' && strcmp(wanted, "0") != 0;
    domain = nvtxDomainCreateA("warpheap");
}

/* --- ranges ----------------------------------------------------------------------------------- */

int whi_range_push(const char *name) {
    (void)pthread_once(&once, start);
    if (has_ranges) {
        nvtxEventAttributes_t e;
        memset(&e, 0, sizeof e);
        e.version = NVTX_VERSION;
        e.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        e.messageType = NVTX_MESSAGE_TYPE_ASCII;
        e.message.ascii = name;
        (void)nvtxDomainRangePushEx(domain, &e);
    }
    return has_ranges;
}

void whi_range_pop(const int *pushed) {
    if (*pushed) {
        (void)nvtxDomainRangePop(domain);
    }
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* A block that is to be a region, and the number of its place. */
typedef struct found {
    const void *at;
    size_t bytes;
    uint64_t place;
} found;

/* Regions of the pool, and names for them. */
typedef struct batch {
    nvtxMemHeapHandle_t pool;
    found *blocks;
    size_t n, room;
    whi_pairs sites;
    char (*places)[PLACE]; /* of each site; NULL: a plain heap, which knows none */
} batch;

static void tell_regions(nvtxMemHeapHandle_t pool, const nvtxMemVirtualRangeDesc_t *ranges,
                         size_t n) {
    nvtxMemRegionsRegisterBatch_t d;
    memset(&d, 0, sizeof d);
    d.extCompatID = NVTX_EXT_COMPATID_MEM;
    d.structSize = sizeof d;
    d.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    d.heap = pool;
    d.regionCount = n;
    d.regionDescElementSize = sizeof *ranges;
    d.regionDescElements = ranges;
    nvtxMemRegionsRegister(domain, &d);
}

static void tell_names(const nvtxMemRegionNameDesc_t *names, size_t n) {
    nvtxMemRegionsNameBatch_t d;
    memset(&d, 0, sizeof d);
    d.extCompatID = NVTX_EXT_COMPATID_MEM;
    d.structSize = sizeof d;
    d.regionCount = n;
    d.regionElementSize = sizeof *names;
    d.regionElements = names;
    nvtxMemRegionsName(domain, &d);
}

/* Blocks [from, from + n). */
static void tell_some(const batch *b, size_t from, size_t n) {
    nvtxMemVirtualRangeDesc_t ranges[BATCH];
    nvtxMemRegionNameDesc_t names[BATCH];
    memset(ranges, 0, sizeof ranges);
    memset(names, 0, sizeof names);
    for (size_t i = 0; i < n; i++) {
        const found *block = &b->blocks[from + i];
        ranges[i].ptr = block->at;
        ranges[i].size = block->bytes;
        names[i].regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
        names[i].region.pointer = block->at;
        names[i].nameType = NVTX_MESSAGE_TYPE_ASCII;
        names[i].name.ascii = b->places != NULL ? b->places[block->place] : "";
    }
    tell_regions(b->pool, ranges, n);
    if (b->places != NULL) {
        tell_names(names, n);
    }
}

static wh_status see_site(void *context, const wh_snapshot_block *block) {
    batch *b = context;
    uint64_t index;
    return whi_pairs_find(&b->sites, block->site, 0, &index);
}

static wh_status see_block(void *context, const wh_snapshot_block *block) {
    batch *b = context;
    if (b->n == b->room) {
        const size_t room = b->room != 0 ? 2 * b->room : BATCH;
        found *more = realloc(b->blocks, room * sizeof *more);
        if (more == NULL) {
            return WH_OUT_OF_MEMORY;
        }
        b->blocks = more;
        b->room = room;
    }
    found *its = &b->blocks[b->n++];
    its->at = (const void *)(uintptr_t)block->address;
    its->bytes = (size_t)block->bytes;
    its->place = 0;
    return b->places != NULL ? whi_pairs_find(&b->sites, block->site, 0, &its->place) : WH_OK;
}

/* The places of all live blocks. */
static wh_status name_places(whi_scan *scan, batch *b) {
    TRY(whi_scan_blocks(scan, see_site, b));
    const size_t n = (size_t)b->sites.n;
    uint64_t *sites = malloc(n * sizeof *sites + 1);
    wh_record_site *texts = malloc(n * sizeof *texts + 1);
    b->places = malloc(n * sizeof *b->places + 1);
    wh_status s = sites != NULL && texts != NULL && b->places != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    for (size_t i = 0; s == WH_OK && i < n; i++) {
        sites[i] = b->sites.pairs[i].site;
    }
    s = s == WH_OK && n != 0 ? whi_scan_sites(scan, sites, texts, n) : s;
    for (size_t i = 0; s == WH_OK && i < n; i++) {
        const int has_file = texts[i].file[0] != '\0';
        (void)snprintf(b->places[i], PLACE, has_file ? "%.51s:%" PRIu32 : "%.51stag %" PRIu32,
                       texts[i].file, texts[i].line);
    }
    free(sites);
    free(texts);
    return s;
}

/* One region for all of it. */
static void tell_whole(const wh_heap *heap) {
    nvtxMemVirtualRangeDesc_t all;
    memset(&all, 0, sizeof all);
    all.ptr = heap->memory;
    all.size = heap->bytes;
    nvtxMemHeapReset(domain, heap->pool);
    tell_regions(heap->pool, &all, 1);
}

/* The pool, if there is a tool that wants to know of it; else NULL. */
static void *find_pool(const wh_heap *heap) {
    nvtxMemVirtualRangeDesc_t all;
    nvtxMemHeapDesc_t d;
    memset(&all, 0, sizeof all);
    memset(&d, 0, sizeof d);
    all.ptr = heap->memory;
    all.size = heap->bytes;
    d.extCompatID = NVTX_EXT_COMPATID_MEM;
    d.structSize = sizeof d;
    d.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    d.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    d.typeSpecificDescSize = sizeof all;
    d.typeSpecificDesc = &all;
    d.messageType = NVTX_MESSAGE_TYPE_ASCII;
    d.message.ascii = "heap of warpheap";
    const nvtxMemHeapHandle_t pool = nvtxMemHeapRegister(domain, &d);
    return pool != NVTX_MEM_HEAP_HANDLE_NO_TOOL ? pool : NULL;
}

static wh_status can_register(const wh_heap *heap) {
    if (heap->ops->snapshot == NULL) {
        return whi_refuse(WH_UNSUPPORTED,
                          "heaps of %s do not list their blocks: heaps of tessera "
                          "do",
                          heap->info->name);
    }
    if (heap->reserve != NULL || (heap->owns_memory && heap->source.alloc == NULL)) {
        return whi_refuse(WH_UNSUPPORTED,
                          "compute-sanitizer takes an allocation of cudaMalloc as a pool, and the "
                          "heap's memory is none: give it such memory (wh_heap_options.memory)");
    }
    return WH_OK;
}

static wh_status tell_blocks(whi_scan *scan, batch *b) {
    const wh_heap *heap = scan->heap;
    if (heap->watch.checked != 0) {
        TRY(name_places(scan, b));
    }
    TRY(whi_scan_blocks(scan, see_block, b));
    nvtxMemVirtualRangeDesc_t metadata;
    memset(&metadata, 0, sizeof metadata);
    metadata.ptr = heap->memory;
    metadata.size = (size_t)(scan->shape.base - (uint64_t)(uintptr_t)heap->memory);
    nvtxMemHeapReset(domain, heap->pool);
    tell_regions(b->pool, &metadata, 1);
    for (size_t i = 0; i < b->n; i += BATCH) {
        tell_some(b, i, b->n - i < BATCH ? b->n - i : BATCH);
    }
    return WH_OK;
}

static wh_status with_tool(wh_heap *heap) {
    whi_scan scan;
    batch *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    tell_whole(heap); /* kernels that look for the blocks read what lies around them */
    b->pool = heap->pool;
    wh_status s = whi_scan_open(&scan, heap);
    if (s == WH_OK) {
        s = tell_blocks(&scan, b);
        whi_scan_close(&scan);
    }
    if (s != WH_OK) {
        tell_whole(heap);
    }
    whi_pairs_drop(&b->sites);
    free(b->places);
    free(b->blocks);
    free(b);
    return s;
}

wh_status wh_heap_register_blocks(wh_heap *heap) {
    whi_forget_error();
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(can_register(heap));
    (void)pthread_once(&once, start);
    if (heap->pool == NULL) {
        heap->pool = find_pool(heap);
    }
    return heap->pool != NULL ? with_tool(heap) : WH_OK;
}

wh_status wh_heap_unregister_blocks(wh_heap *heap) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (heap->pool != NULL) {
        tell_whole(heap);
    }
    return WH_OK;
}

void whi_nvtx_destroy(wh_heap *heap) {
    if (heap->pool != NULL) {
        tell_whole(heap);
    }
}

#else

int whi_range_push(const char *name) {
    (void)name;
    return 0;
}

void whi_range_pop(const int *pushed) {
    (void)pushed;
}

void whi_nvtx_destroy(wh_heap *heap) {
    (void)heap;
}

wh_status wh_heap_register_blocks(wh_heap *heap) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    return whi_refuse(WH_UNSUPPORTED, "the library is built without NVTX (CMake: "
                                      "WARPHEAP_NVTX; the CUDA toolkit has its headers)");
}

wh_status wh_heap_unregister_blocks(wh_heap *heap) {
    return heap != NULL ? WH_OK : WH_BAD_ARGUMENT;
}

#endif

/* warpheap.h: malloc and free for GPU kernels. OPEN FIRST.
 *
 *     #include <warpheap/warpheap.h>
 *
 *     typedef struct { wh_heap_t heap; } args;
 *     WH_KERNEL(work, args, a) {
 *         int *p = (int *)wh_malloc(a.heap, 48);
 *         if (p != NULL) { p[0] = 1; }
 *         wh_free(a.heap, p);
 *     }
 *
 * Host side: heap.h (create, destroy, reset, statistics) and device.h.
 * The handle wh_heap_t is a small struct; pass it to kernels by value.
 *
 * Which allocator answers is fixed when this header is compiled: WH_ALLOCATOR
 * (default: tessera) names a line of alloc/list.h. wh_heap_handle refuses a heap
 * of another allocator.
 *
 * All device calls may be made by any subset of the lanes of a warp, divergent or
 * not, from any number of concurrent kernels on the heap's device.
 *
 * A lane that allocates for others: `if (lane == leader) p = wh_malloc(...)` and then a
 * __shfl_sync or __syncwarp of leader and others is right, but with ptxas 13.0 for sm_90
 * it can hang if their mask is not the whole warp, and so can any such branch with a
 * loop in it, without this library (13.5 is free of this, and so is the driver's compiler).
 * wh_malloc_warp does the same and does not: in it all lanes of the mask call.
 */
#ifndef WH_WARPHEAP_H
#define WH_WARPHEAP_H

#include "warpheap/heap.h"
#include "warpheap/simt/simt.h"

#ifndef WH_ALLOCATOR
#define WH_ALLOCATOR tessera
#endif
#ifndef WH_ALLOCATOR_FAMILY
#define WH_ALLOCATOR_FAMILY WH_ALLOCATOR
#endif

// clang-format off
#include WH_STR(warpheap/alloc/WH_ALLOCATOR_FAMILY/WH_ALLOCATOR_FAMILY.h)
// clang-format on

#define WH_OF_(name) WH_CAT3(WH_CAT(wh_, WH_ALLOCATOR), _, name)

/* The handle of the chosen allocator. */
typedef WH_OF_(t) wh_heap_t;

/* Copies the handle of a heap for use in kernel arguments. WRONG_ALLOCATOR if the
 * heap was created for another allocator. Host only. */
static inline wh_status wh_heap_handle(const wh_heap *heap, wh_heap_t *handle) {
    return wh_heap_copy_handle(heap, WH_OF_(NAME), handle, sizeof *handle);
}

/* Whether lanes that are here together make the inner call each for itself. */
#define WH_CALLS_ALONE_(mask) (WH_OF_(EACH) == 2 || (WH_OF_(EACH) == 1 && (mask) != 0xffffffffu))

/* wh_malloc and wh_free for callers that know which lanes are converged: every
 * lane of mask makes this call together, each with its own n or p. Saves the
 * query; one block per lane. */
WH_FN void *wh_malloc_lanes(wh_heap_t heap, wh_mask_t mask, size_t n) {
    return WH_OF_(malloc)(heap, mask, n);
}
WH_FN void wh_free_lanes(wh_heap_t heap, wh_mask_t mask, void *p) {
    WH_OF_(free)(heap, mask, p);
    /* No lane goes on before its leader has freed for it. */
    WH_PLANT(free_waits, wh_syncwarp(mask), (void)0);
}

/* At least n bytes, 16-byte aligned, disjoint from every live block. NULL for
 * n = 0 and when the heap cannot serve n (exactly so with WH_CAP_EXACT_OOM).
 * Lanes: any subset. Contents: undefined. Cost: alloc/<name>. */
WH_FN void *wh_malloc(wh_heap_t heap, size_t n) {
    const wh_mask_t mask = wh_activemask();
    if (WH_CALLS_ALONE_(mask)) {
        return WH_OF_(malloc)(heap, 0, n);
    }
    return wh_malloc_lanes(heap, mask, n);
}

/* Gives a block back. NULL is ignored; p may come from any thread, kernel or
 * stream of the heap. What was written before the free happens before the next
 * owner's use. Lanes: any subset. */
WH_FN void wh_free(wh_heap_t heap, void *p) {
    const wh_mask_t mask = wh_activemask();
    if (WH_CALLS_ALONE_(mask)) {
        WH_OF_(free)(heap, 0, p); /* nobody frees for anybody else */
    } else {
        wh_free_lanes(heap, mask, p);
    }
}

/* One block for all lanes of mask, which make this call together with the same n;
 * every lane gets the same pointer. All lanes make the inner call, though one of them
 * alone asks for something: see "A lane that allocates for others" above. */
WH_FN void *wh_malloc_warp(wh_heap_t heap, wh_mask_t mask, size_t n) {
    const uint32_t leader = wh_mask_leader(mask);
    void *mine = WH_OF_(malloc)(heap, mask, wh_lane_id() == leader ? n : 0);
    const uint64_t p = wh_shfl_u64(mask, (uint64_t)(uintptr_t)mine, leader);
    wh_syncwarp(mask); /* the leader's acquire orders the other lanes' use, too */
    return (void *)(uintptr_t)p;
}

/* Frees a block of wh_malloc_warp; every lane of mask makes the call with the same
 * p, after its last use of the block. */
WH_FN void wh_free_warp(wh_heap_t heap, wh_mask_t mask, void *p) {
    wh_syncwarp(mask); /* the other lanes' writes come before the leader's release */
    WH_OF_(free)(heap, mask, wh_lane_id() == wh_mask_leader(mask) ? p : NULL);
    wh_syncwarp(mask);
}

/* Bytes that may be used at p, at least what was asked for; 0 for NULL or, where
 * the allocator can tell, a pointer that is no block. Needs WH_CAP_USABLE_SIZE. */
WH_FN size_t wh_usable_size(wh_heap_t heap, const void *p) {
    return p == NULL ? 0 : (size_t)WH_OF_(usable_size)(heap, p);
}

/* Whether p lies in memory that the heap hands out. Needs WH_CAP_OWNS. */
WH_FN int wh_owns(wh_heap_t heap, const void *p) {
    return WH_OF_(owns)(heap, p);
}

/* count * size bytes of zeros; NULL also if the product overflows. The calling
 * lane clears its own block: cost grows with the size. */
WH_FN void *wh_calloc(wh_heap_t heap, size_t count, size_t size) {
    const size_t n = count * size;
    const int overflow = size != 0 && n / size != count;
    unsigned char *p = (unsigned char *)wh_malloc(heap, overflow ? 0 : n);
    if (p != NULL) {
        uint64_t *q = (uint64_t *)(void *)p; /* blocks are 16-byte aligned */
        size_t i = 0;
        for (; i < n / 8; i++) {
            q[i] = 0;
        }
        for (i *= 8; i < n; i++) {
            p[i] = 0;
        }
    }
    return p;
}

/* C semantics: NULL p allocates; n = 0 frees and returns NULL; on failure NULL and
 * p stays valid. In place when the block is large enough and not more than four
 * times too large. Needs WH_CAP_USABLE_SIZE. */
WH_FN void *wh_realloc(wh_heap_t heap, void *p, size_t n) {
    const size_t have = p == NULL ? 0 : wh_usable_size(heap, p);
    if (p != NULL && n != 0 && n <= have && n >= have / 4) {
        return p;
    }
    void *q = wh_malloc(heap, n);
    if (p != NULL && (q != NULL || n == 0)) {
        const uint64_t *from = (const uint64_t *)p;
        uint64_t *to = (uint64_t *)q;
        const size_t keep = n < have ? n : have;
        size_t i = 0;
        for (; i < keep / 8; i++) {
            to[i] = from[i];
        }
        for (i *= 8; i < keep; i++) {
            ((unsigned char *)q)[i] = ((const unsigned char *)p)[i];
        }
        wh_free(heap, p);
    }
    return q;
}

/* At least n bytes at a multiple of align: a power of two up to the capability
 * record's max_align (2 MiB; ouro-*: 64 KiB, others 1 MiB). NULL for another align. Needs
 * WH_CAP_ALIGNED. */
WH_FN void *wh_aligned_alloc(wh_heap_t heap, size_t align, size_t n) {
    if (align == 0 || (align & (align - 1)) != 0 || align > WH_OF_(MAX_ALIGN)) {
        return NULL;
    }
    return align <= 16 ? wh_malloc(heap, n) : WH_OF_(aligned)(heap, wh_activemask(), align, n);
}

/* How many blocks of `bytes` bytes wh_malloc would give from now until NULL, if nothing else was
 * asked for and nothing freed; 0 for 0 bytes. WH_UNKNOWN without WH_CAP_LEFT.
 *
 * On a quiet heap the answer is what a fill gets. Tessera: to 4 KiB within 1 %, to a chunk (16 KiB)
 * within 2 %, above within 5 % and two blocks, since what a hole can hold depends on where malloc
 * begins to fill it. An allocator without WH_CAP_EXACT_OOM may say NULL earlier. While others
 * allocate and free the answer is an estimate: what is on its way between two hands may count twice
 * or not at all, and others may take what has been counted.
 *
 * Lanes: any subset, each counts alone. Cost of tessera: one load after the other, one for each MiB
 * that is free and four to twenty for each 16 KiB in use, so a good part of a second where many
 * GiB are in use; of the page allocators a load for each 32 pages, of bump and page-queue one. */
WH_FN uint64_t wh_blocks_left(wh_heap_t heap, size_t bytes) {
#ifdef WH_ALLOC_LEFT
    return WH_OF_(left)(heap, bytes, 0, 1);
#else
    (void)heap;
    (void)bytes;
    return WH_UNKNOWN;
#endif
}

/* The same by all lanes of mask, which make this call together with the same `bytes`, share the
 * work and all get the answer: a 32nd of the time for a whole warp. (wh_heap_blocks_left, on the
 * host, has a grid for it.) */
WH_FN uint64_t wh_blocks_left_warp(wh_heap_t heap, wh_mask_t mask, size_t bytes) {
#ifdef WH_ALLOC_LEFT
    const uint64_t mine = WH_OF_(left)(heap, bytes, wh_mask_rank(mask), wh_popc32(mask));
    const uint64_t low = wh_reduce_add_u32(mask, (uint32_t)mine & 0xffffff); /* of 32 lanes */
    return ((uint64_t)wh_reduce_add_u32(mask, (uint32_t)(mine >> 24)) << 24) + low;
#else
    (void)heap;
    (void)mask;
    (void)bytes;
    return WH_UNKNOWN;
#endif
}

#endif

/* warpheap.h: malloc and free for GPU kernels. OPEN FIRST.
 *
 *     #include <warpheap/warpheap.h>
 *
 *     __global__ void work(wh_heap_ref heap) {
 *         int *p = static_cast<int *>(wh_malloc(heap, 48));
 *         if (p != nullptr) { p[0] = 1; }
 *         wh_free(heap, p);
 *     }
 *
 * docs/CUDA.md shows every kind of CUDA C++ kernel. WH_KERNEL (simt.h) makes one that
 * runs on the simulated device, too.
 *
 * A malloc is heavy: header-only, a plain kernel with one wh_malloc of the default allocator takes
 * 162 registers, 337 KB of machine code and 12 s to compile (nvcc 13.0, sm_90), and cannot be
 * launched with 512 or more threads a block. Ways out (docs/CUDA.md):
 *     warpheap::device, or -DWH_LINKED=1 -rdc=true -lwarpheap_device: the slow path is linked
 *                                                                 40 registers, 0.2 s
 *     __launch_bounds__(1024), or the largest block there is      64 registers
 *
 * Host side: heap.h (create, destroy, reset, statistics) and device.h.
 * The handle wh_heap_ref is a small struct; pass it to kernels by value.
 *
 * Which allocator answers is fixed when this header is compiled: WH_ALLOCATOR
 * (default: tessera) is an identifier of alloc/list.h. wh_heap_handle refuses a heap
 * of another allocator.
 *
 * All device calls may be made by any subset of the lanes of a warp, divergent or
 * not, from any number of concurrent kernels on the heap's device, and from grids and blocks of
 * one, two or three dimensions.
 *
 * They may stand in __host__ __device__ functions. Where such a function runs on the host of
 * a CUDA program a call does nothing: it returns NULL or 0, and wh_last_error_text() says
 * what was called. (The simulated device's kernels are host code; there every call works.)
 *
 * When a heap is full a call returns NULL. A file that would rather be told defines, before it
 * includes this header,
 *     #define WH_OOM_TRAP            the kernel ends with an error that says how many bytes,
 *                                    which call, file and line, block and thread; on a GPU
 *                                    the runtime prints it as that of an assert
 * or
 *     #define WH_ON_OOM(event) f(event)   f, a device function of the file, gets a wh_oom_event
 *                                    (warpheap/types.h); the call returns NULL after it
 * Calls of many lanes that get one block (_warp, _block) tell it once, by the first lane. File
 * and line are those of the call in the user's code; in C the calls are macros then. With neither
 * word the calls are the same machine code as without this feature. Files of one C++ program that
 * share templates or inline functions with such calls define the same word, or none: the linker
 * keeps one of each.
 *
 * Which call freed twice, overran its block or found the heap full: docs/CHECKED.md. A file that
 * defines WH_SITES as 1 before it includes this header tells the heap file and line of each call.
 *
 * A lane that allocates for others: `if (lane == leader) p = wh_malloc(...)` and then a
 * __shfl_sync or __syncwarp of leader and others is right, but with ptxas 13.0 for sm_90
 * it can hang if their mask is not the whole warp, and so can any such branch with a
 * loop in it, without this library (13.5 is free of this, and so is the driver's compiler).
 * wh_malloc_warp does the same and does not: in it all lanes of the mask call.
 */
#ifndef WH_WARPHEAP_H
#define WH_WARPHEAP_H

#include "warpheap/detail/alloc/list.h"
#include "warpheap/detail/alloc/record.h"
#include "warpheap/heap.h"
#include "warpheap/simt.h"

#ifndef WH_ALLOCATOR
#define WH_ALLOCATOR tessera
#endif
#ifndef WH_ALLOCATOR_FAMILY
#define WH_ALLOCATOR_FAMILY WH_CAT(WH_FAMILY_OF_, WH_ALLOCATOR)
#endif

/* The name ends in the letter h, which a macro of the user may stand for. */
#if WH_HAS_HOST
#pragma push_macro("h")
#undef h
#endif
// clang-format off
#include WH_STR(warpheap/detail/alloc/WH_ALLOCATOR_FAMILY/WH_ALLOCATOR_FAMILY.h)
// clang-format on
#if WH_HAS_HOST
#pragma pop_macro("h")
#endif

#include "warpheap/detail/simt/begin.h"

/* wh_<allocator>_<name>; name is pasted first, lest a macro of the user replaces it. */
#define WH_OF_(name) WH_CAT(WH_CAT(wh_, WH_ALLOCATOR), _##name)

/* The handle of the chosen allocator. */
typedef WH_OF_(ref) wh_heap_ref;

#if WH_HAS_HOST
/* Copies the handle of a heap for use in kernel arguments. Refuses a heap that these kernels could
 * not use: WRONG_ALLOCATOR, WRONG_TARGET, WRONG_BUILD (heap.h). Host only.
 * For a second allocator in one file: wh_heap_handle_of, in alloc/contract.h. */
static inline wh_status wh_heap_handle(const wh_heap *heap, wh_heap_ref *handle) {
    return wh_heap_handle_of(heap, WH_OF_(NAME), WH_OF_(layout)(), handle, sizeof *handle);
}
#endif

/* Whether lanes that are here together make the inner call each for itself. */
#define WH_CALLS_ALONE_(mask) (WH_OF_(EACH) == 2 || (WH_OF_(EACH) == 1 && (mask) != WH_FULL_WARP))

/* --- out of memory ------------------------------------------------------------- */

#if defined(WH_OOM_TRAP) && defined(WH_ON_OOM)
#error "define WH_OOM_TRAP or WH_ON_OOM, not both"
#elif defined(WH_OOM_TRAP)
#define WH_ON_OOM(event) wh_trap_oom(event)
#endif

#ifdef WH_SITES
#define WH_HAS_SITES_ WH_SITES
#else
#define WH_HAS_SITES_ 0
#endif

/* WH_SITE_: parameters behind the others of a call, which say where it stands; C++ fills them
 * in by itself, for C the calls are macros (end of this file). WH_SITE_FREE_: those of calls that
 * free, WH_SITE_OOM_: for events alone. WH_SITE_ARGS_ passes them on. */
#ifdef __cplusplus
#define WH_SITE_SOME_ , const char *wh_file = __builtin_FILE(), uint32_t wh_line = __builtin_LINE()
#else
#define WH_SITE_SOME_ , const char *wh_file, uint32_t wh_line
#endif
#if WH_HAS_SITES_ || defined(WH_ON_OOM)
#define WH_SITE_ WH_SITE_SOME_
#define WH_SITE_ARGS_ , wh_file, wh_line
#else
#define WH_SITE_
#define WH_SITE_ARGS_
#endif
/* WH_AT_: the same for functions of ours, in one: the record's site. WH_AT_HERE_: what a call
 * gives them, WH_AT_ARG_: what they give each other, WH_AT_OWN_: what those give them that call for
 * the library itself. */
#if WH_HAS_SITES_
#define WH_SITE_FREE_ WH_SITE_SOME_
#define WH_SITE_FREE_ARGS_ , wh_file, wh_line
#define WH_AT_ , wh_site at
#define WH_AT_ARG_ , at
#define WH_AT_HERE_ , wh_site_of(wh_file, wh_line)
#define WH_AT_OWN_ , WH_SITE()
#else
#define WH_SITE_FREE_
#define WH_SITE_FREE_ARGS_
#define WH_AT_
#define WH_AT_ARG_
#define WH_AT_HERE_
#define WH_AT_OWN_
#endif

/* WH_TELL_OOM_(p, bytes, call): p; if it is NULL and bytes are not 0, that is told. _ONCE_: by
 * those lanes alone for which teller holds. */
#ifdef WH_ON_OOM
#define WH_SITE_OOM_ WH_SITE_SOME_
#define WH_SITE_OOM_ARGS_ , wh_file, wh_line
#define WH_TELL_OOM_(p, bytes, call) wh_tell_oom_(p, bytes, call, wh_file, wh_line)
#define WH_TELL_OOM_ONCE_(p, bytes, call, teller) \
    wh_tell_oom_(p, (teller) ? (bytes) : 0, call, wh_file, wh_line)

WH_FN void *wh_tell_oom_(void *p, size_t bytes, const char *call, const char *file, uint32_t line) {
    if (p == NULL && bytes != 0) {
        wh_oom_event event;
        event.bytes = bytes;
        event.thread = wh_thread_id();
        event.call = call;
        event.file = file;
        event.line = line;
        WH_ON_OOM(event);
    }
    return p;
}
#else
#define WH_SITE_OOM_
#define WH_SITE_OOM_ARGS_
#define WH_TELL_OOM_(p, bytes, call) (p)
#define WH_TELL_OOM_ONCE_(p, bytes, call, teller) (p)
#endif

/* The allocator's calls, with a site for those that keep one. */
#define WH_HAS_SITES_HERE_(allocator) WH_HAS_SITES(allocator)
#if WH_HAS_SITES_HERE_(WH_ALLOCATOR)
#define wh_get_at_ WH_OF_(malloc_at)
#define wh_give_at_ WH_OF_(free_at)
#define wh_get_aligned_at_ WH_OF_(aligned_at)
#else
#define wh_get_at_(heap, mask, n, site) ((void)(site), WH_OF_(malloc)(heap, mask, n))
#define wh_give_at_(heap, mask, p, site) ((void)(site), WH_OF_(free)(heap, mask, p))
#define wh_get_aligned_at_(heap, mask, align, n, site) \
    ((void)(site), WH_OF_(aligned)(heap, mask, align, n))
#endif
#if WH_HAS_SITES_
#define WH_GET_(heap, mask, n) wh_get_at_(heap, mask, n, at)
#define WH_GIVE_(heap, mask, p) wh_give_at_(heap, mask, p, at)
#define WH_GET_ALIGNED_(heap, mask, align, n) wh_get_aligned_at_(heap, mask, align, n, at)
#else
#define WH_GET_ WH_OF_(malloc)
#define WH_GIVE_ WH_OF_(free)
#define WH_GET_ALIGNED_ WH_OF_(aligned)
#endif

/* What wh_last_error_text says of a call that ran on the host. */
#define WH_ON_HOST_(call) \
    call " was called on the host: only kernels can use a heap on a GPU, or ask about it"

/* --- one block for each lane ----------------------------------------------------- */

/* Whether the handle is of a heap. One that nobody has filled, of zeros, is of none. Looks at the
 * first word, which is an address, but for `cuda`, whose handle has nothing to say. */
WH_FN int wh_is_of_heap_(wh_heap_ref heap) {
    uint64_t first = 0;
    for (uint32_t i = 0; i < sizeof first; i++) {
        ((unsigned char *)&first)[i] = ((const unsigned char *)&heap)[i];
    }
    return sizeof heap == sizeof first || first != 0;
}
#define WH_ASSERT_HANDLE_(heap) \
    wh_assert(wh_is_of_heap_(heap) && "a handle of zeros: wh_heap_handle, wh::heap::ref fill it")

WH_FN void *wh_dev_malloc_(wh_heap_ref heap, size_t n WH_AT_) {
    const wh_mask mask = wh_activemask();
    WH_ASSERT_HANDLE_(heap);
    if (WH_CALLS_ALONE_(mask)) {
        return WH_GET_(heap, 0, n);
    }
    return WH_GET_(heap, mask, n);
}
WH_FN void *wh_dev_malloc_lanes_(wh_heap_ref heap, wh_mask mask, size_t n WH_AT_) {
    WH_ASSERT_HANDLE_(heap);
    return WH_GET_(heap, mask, n);
}
WH_FN void wh_dev_free_lanes_(wh_heap_ref heap, wh_mask mask, void *p WH_AT_) {
    WH_ASSERT_HANDLE_(heap);
    WH_GIVE_(heap, mask, p);
    /* No lane goes on before its leader has freed for it. */
    WH_PLANT(free_waits, wh_syncwarp(mask), (void)0);
}
WH_FN void wh_dev_free_(wh_heap_ref heap, void *p WH_AT_) {
    const wh_mask mask = wh_activemask();
    WH_ASSERT_HANDLE_(heap);
    if (WH_CALLS_ALONE_(mask)) {
        WH_GIVE_(heap, 0, p); /* nobody frees for anybody else */
    } else {
        wh_dev_free_lanes_(heap, mask, p WH_AT_ARG_);
    }
}

/* wh_malloc and wh_free for callers that know which lanes are converged: every
 * lane of mask makes this call together, each with its own n or p. Saves the
 * query; one block per lane. */
WH_CALL void *wh_malloc_lanes(wh_heap_ref heap, wh_mask mask, size_t n WH_SITE_) {
    return WH_DEVICE_ONLY(
        WH_TELL_OOM_(wh_dev_malloc_lanes_(heap, mask, n WH_AT_HERE_), n, "wh_malloc_lanes"), void *,
        WH_ON_HOST_("wh_malloc_lanes"), heap, mask, n WH_SITE_ARGS_);
}
WH_CALL void wh_free_lanes(wh_heap_ref heap, wh_mask mask, void *p WH_SITE_FREE_) {
    WH_DEVICE_ONLY(wh_dev_free_lanes_(heap, mask, p WH_AT_HERE_), void,
                   p != NULL ? WH_ON_HOST_("wh_free_lanes") : NULL, heap, mask WH_SITE_FREE_ARGS_);
}

/* At least n bytes, 16-byte aligned, disjoint from every live block. NULL for
 * n = 0 and when the heap cannot serve n (exactly so with WH_CAP_EXACT_OOM).
 * Lanes: any subset. Contents: undefined. Cost: alloc/<name>. */
WH_CALL void *wh_malloc(wh_heap_ref heap, size_t n WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_(wh_dev_malloc_(heap, n WH_AT_HERE_), n, "wh_malloc"), void *,
                          WH_ON_HOST_("wh_malloc"), heap, n WH_SITE_ARGS_);
}

/* Gives a block back. NULL is ignored; p may come from any thread, kernel or
 * stream of the heap. What was written before the free happens before the next
 * owner's use. Lanes: any subset. A pointer that malloc never gave, or gave before a
 * wh_heap_reset, is a bad free: with WH_CAP_BAD_FREE most are counted and change nothing, but not
 * one that points to where a block will lie that has not been handed out yet. */
WH_CALL void wh_free(wh_heap_ref heap, void *p WH_SITE_FREE_) {
    WH_DEVICE_ONLY(wh_dev_free_(heap, p WH_AT_HERE_), void,
                   p != NULL ? WH_ON_HOST_("wh_free") : NULL, heap WH_SITE_FREE_ARGS_);
}

/* The same with a place in the program, for the records of a heap (records.h): WH_SITE(), where
 * this line stands, WH_TAG(n), a number of the caller's, or what he was given as a wh_site. A file
 * that defines WH_SITES as 1 before it includes this header has WH_SITE() in all of its calls.
 * Heaps without records take no notice. Cost: a compare more. */
#define WH_SITE() wh_site_of(__FILE__, __LINE__)
#define WH_TAG(number) wh_site_of_tag(number)

WH_FN void *wh_dev_malloc_at_(wh_heap_ref heap, size_t n, wh_site site) {
    const wh_mask mask = wh_activemask();
    return wh_get_at_(heap, WH_CALLS_ALONE_(mask) ? 0 : mask, n, site);
}
WH_FN void wh_dev_free_at_(wh_heap_ref heap, void *p, wh_site site) {
    const wh_mask mask = wh_activemask();
    const int alone = WH_CALLS_ALONE_(mask);
    wh_give_at_(heap, alone ? 0 : mask, p, site);
    if (!alone) {
        wh_syncwarp(mask); /* as in wh_free */
    }
}
WH_CALL void *wh_malloc_at(wh_heap_ref heap, size_t n, wh_site site WH_SITE_OOM_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_(wh_dev_malloc_at_(heap, n, site), n, "wh_malloc_at"), void *,
                          WH_ON_HOST_("wh_malloc_at"), heap, n, site WH_SITE_OOM_ARGS_);
}
WH_CALL void wh_free_at(wh_heap_ref heap, void *p, wh_site site) {
    WH_DEVICE_ONLY(wh_dev_free_at_(heap, p, site), void,
                   p != NULL ? WH_ON_HOST_("wh_free_at") : NULL, heap, site);
}

/* --- one block for many lanes -------------------------------------------------------- */

WH_FN void *wh_dev_malloc_warp_(wh_heap_ref heap, wh_mask mask, size_t n WH_AT_) {
    const uint32_t leader = wh_mask_leader(mask);
    void *mine = WH_GET_(heap, mask, wh_lane_id() == leader ? n : 0);
    const uint64_t p = wh_shfl_u64(mask, (uint64_t)(uintptr_t)mine, leader);
    wh_syncwarp(mask); /* the leader's acquire orders the other lanes' use, too */
    return (void *)(uintptr_t)p;
}
WH_FN void wh_dev_free_warp_(wh_heap_ref heap, wh_mask mask, void *p WH_AT_) {
    wh_syncwarp(mask); /* the other lanes' writes come before the leader's release */
    WH_GIVE_(heap, mask, wh_lane_id() == wh_mask_leader(mask) ? p : NULL);
    wh_syncwarp(mask);
}

/* The first warp's lanes make the inner call together, though one thread alone asks for something:
 * see "A lane that allocates for others" above. */
WH_FN int wh_in_first_warp_(void) {
    return wh_thread_in_block() < WH_WARP_SIZE;
}
WH_FN wh_mask wh_first_warp_(void) {
    const uint32_t n = wh_block_threads();
    return n < WH_WARP_SIZE ? (1u << n) - 1 : WH_FULL_WARP;
}
WH_FN void *wh_dev_malloc_block_(wh_heap_ref heap, size_t n WH_AT_) {
    void *mine = NULL;
    if (wh_in_first_warp_()) {
        const wh_mask mask = wh_first_warp_();
        wh_syncwarp(mask);
        mine = WH_GET_(heap, mask, wh_thread_in_block() == 0 ? n : 0);
    }
    /* The barrier in it orders the use by the others after the first thread's acquire. */
    return (void *)(uintptr_t)wh_block_broadcast_u64((uint64_t)(uintptr_t)mine, 0);
}
WH_FN void wh_dev_free_block_(wh_heap_ref heap, void *p WH_AT_) {
    wh_syncthreads(); /* the other threads' writes come before the first one's release */
    if (wh_in_first_warp_()) {
        const wh_mask mask = wh_first_warp_();
        wh_syncwarp(mask);
        WH_GIVE_(heap, mask, wh_thread_in_block() == 0 ? p : NULL);
    }
    wh_syncthreads(); /* nobody goes on before the block is free */
}

/* One block for all lanes of mask, which make this call together with the same n;
 * every lane gets the same pointer. All lanes make the inner call, though one of them
 * alone asks for something: see "A lane that allocates for others" above. */
WH_CALL void *wh_malloc_warp(wh_heap_ref heap, wh_mask mask, size_t n WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_ONCE_(wh_dev_malloc_warp_(heap, mask, n WH_AT_HERE_), n,
                                            "wh_malloc_warp", wh_lane_id() == wh_mask_leader(mask)),
                          void *, WH_ON_HOST_("wh_malloc_warp"), heap, mask, n WH_SITE_ARGS_);
}

/* Frees a block of wh_malloc_warp; every lane of mask makes the call with the same
 * p, after its last use of the block. */
WH_CALL void wh_free_warp(wh_heap_ref heap, wh_mask mask, void *p WH_SITE_FREE_) {
    WH_DEVICE_ONLY(wh_dev_free_warp_(heap, mask, p WH_AT_HERE_), void,
                   p != NULL ? WH_ON_HOST_("wh_free_warp") : NULL, heap, mask WH_SITE_FREE_ARGS_);
}

/* One block for all threads of a thread block, which make this call together, converged or
 * not, with the same n; none may have ended. Every thread gets the same pointer. Blocks of 1 to
 * 1024 threads, in one to three dimensions. Cost: one malloc and two barriers. */
WH_CALL void *wh_malloc_block(wh_heap_ref heap, size_t n WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_ONCE_(wh_dev_malloc_block_(heap, n WH_AT_HERE_), n,
                                            "wh_malloc_block", wh_thread_in_block() == 0),
                          void *, WH_ON_HOST_("wh_malloc_block"), heap, n WH_SITE_ARGS_);
}

/* Frees a block of wh_malloc_block; every thread of the thread block makes the call with
 * the same p. What any of them wrote before is written before the next owner's use. Cost: one
 * free and two barriers. */
WH_CALL void wh_free_block(wh_heap_ref heap, void *p WH_SITE_FREE_) {
    WH_DEVICE_ONLY(wh_dev_free_block_(heap, p WH_AT_HERE_), void,
                   p != NULL ? WH_ON_HOST_("wh_free_block") : NULL, heap WH_SITE_FREE_ARGS_);
}

/* --- what is known of a block ---------------------------------------------------------- */

/* Bytes that may be used at p, at least what was asked for; 0 for NULL or, where
 * the allocator can tell, a pointer that is no block. Needs WH_CAP_USABLE_SIZE. */
WH_CALL size_t wh_usable_size(wh_heap_ref heap, const void *p) {
    return WH_DEVICE_ONLY(p == NULL ? 0 : (size_t)WH_OF_(usable_size)(heap, p), size_t,
                          p != NULL ? WH_ON_HOST_("wh_usable_size") : NULL, heap);
}

/* Whether p lies in memory that the heap hands out. Needs WH_CAP_OWNS. */
WH_CALL int wh_owns(wh_heap_ref heap, const void *p) {
    return WH_DEVICE_ONLY(WH_OF_(owns)(heap, p), int, WH_ON_HOST_("wh_owns"), heap, p);
}

/* --- zeros ------------------------------------------------------------------------- */

/* count * size; 0 if that is too large for a size_t. */
WH_FN size_t wh_product_(size_t count, size_t size) {
    const size_t n = count * size;
    return size != 0 && n / size != count ? 0 : n;
}
/* What was asked for; if that is too large for a size_t, more than any heap has: a malloc that
 * fails, and counts so. */
WH_FN size_t wh_asked_for_(size_t count, size_t size) {
    const size_t n = wh_product_(count, size);
    return n == 0 && count != 0 && size != 0 ? ~(size_t)0 : n;
}

/* Clears the share of caller i of `callers` in n bytes at p, which is 16-byte aligned. */
WH_FN void wh_clear_share_(void *p, size_t n, uint32_t i, uint32_t callers) {
    uint64_t *words = (uint64_t *)p;
    unsigned char *bytes = (unsigned char *)p;
    for (size_t k = i; k < n / 8; k += callers) {
        words[k] = 0;
    }
    for (size_t k = n / 8 * 8 + i; k < n; k += callers) {
        bytes[k] = 0;
    }
}

WH_FN void *wh_dev_calloc_(wh_heap_ref heap, size_t count, size_t size WH_AT_) {
    void *p = wh_dev_malloc_(heap, wh_asked_for_(count, size) WH_AT_ARG_);
    if (p != NULL) {
        wh_clear_share_(p, wh_product_(count, size), 0, 1);
    }
    return p;
}
WH_FN void *wh_dev_calloc_warp_(wh_heap_ref heap, wh_mask mask, size_t count, size_t size WH_AT_) {
    void *p = wh_dev_malloc_warp_(heap, mask, wh_asked_for_(count, size) WH_AT_ARG_);
    if (p != NULL) {
        wh_clear_share_(p, wh_product_(count, size), wh_mask_rank(mask), wh_popc32(mask));
    }
    wh_syncwarp(mask);
    return p;
}
WH_FN void *wh_dev_calloc_block_(wh_heap_ref heap, size_t count, size_t size WH_AT_) {
    void *p = wh_dev_malloc_block_(heap, wh_asked_for_(count, size) WH_AT_ARG_);
    if (p != NULL) {
        wh_clear_share_(p, wh_product_(count, size), wh_thread_in_block(), wh_block_threads());
    }
    wh_syncthreads();
    return p;
}

/* count * size bytes of zeros; NULL also if the product overflows. The calling
 * lane clears its own block: cost grows with the size. */
WH_CALL void *wh_calloc(wh_heap_ref heap, size_t count, size_t size WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_(wh_dev_calloc_(heap, count, size WH_AT_HERE_),
                                       wh_asked_for_(count, size), "wh_calloc"),
                          void *, WH_ON_HOST_("wh_calloc"), heap, count, size WH_SITE_ARGS_);
}

/* wh_malloc_warp and wh_malloc_block of count * size bytes of zeros; NULL also if the product
 * overflows. The lanes of mask, or the threads of the block, clear it together: the cost grows
 * with the size over their number. Every one of them sees all zeros. */
WH_CALL void *wh_calloc_warp(wh_heap_ref heap, wh_mask mask, size_t count, size_t size WH_SITE_) {
    return WH_DEVICE_ONLY(
        WH_TELL_OOM_ONCE_(wh_dev_calloc_warp_(heap, mask, count, size WH_AT_HERE_),
                          wh_asked_for_(count, size), "wh_calloc_warp",
                          wh_lane_id() == wh_mask_leader(mask)),
        void *, WH_ON_HOST_("wh_calloc_warp"), heap, mask, count, size WH_SITE_ARGS_);
}
WH_CALL void *wh_calloc_block(wh_heap_ref heap, size_t count, size_t size WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_ONCE_(wh_dev_calloc_block_(heap, count, size WH_AT_HERE_),
                                            wh_asked_for_(count, size), "wh_calloc_block",
                                            wh_thread_in_block() == 0),
                          void *, WH_ON_HOST_("wh_calloc_block"), heap, count, size WH_SITE_ARGS_);
}

/* --- other sizes and alignments ------------------------------------------------------- */

WH_FN void *wh_dev_realloc_(wh_heap_ref heap, void *p, size_t n WH_AT_) {
    const size_t have = p == NULL ? 0 : (size_t)WH_OF_(usable_size)(heap, p);
    if (p != NULL && n != 0 && n <= have && n >= have / 4) {
        return p;
    }
    void *q = wh_dev_malloc_(heap, n WH_AT_ARG_);
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
        wh_dev_free_(heap, p WH_AT_ARG_);
    }
    return q;
}

/* C semantics: NULL p allocates; n = 0 frees and returns NULL; on failure NULL and
 * p stays valid. In place when the block is large enough and not more than four
 * times too large. Needs WH_CAP_USABLE_SIZE. */
WH_CALL void *wh_realloc(wh_heap_ref heap, void *p, size_t n WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_(wh_dev_realloc_(heap, p, n WH_AT_HERE_), n, "wh_realloc"),
                          void *, WH_ON_HOST_("wh_realloc"), heap, p, n WH_SITE_ARGS_);
}

WH_FN int wh_can_align_(size_t align) {
    return align != 0 && (align & (align - 1)) == 0 && align <= WH_OF_(MAX_ALIGN);
}
WH_FN void *wh_dev_aligned_(wh_heap_ref heap, size_t align, size_t n WH_AT_) {
    if (!wh_can_align_(align)) {
        return NULL;
    }
    return align <= 16 ? wh_dev_malloc_(heap, n WH_AT_ARG_)
                       : WH_GET_ALIGNED_(heap, wh_activemask(), align, n);
}

/* At least n bytes at a multiple of align: a power of two up to the capability
 * record's max_align (2 MiB; ouro-*: 64 KiB, others 1 MiB). NULL for another align. Needs
 * WH_CAP_ALIGNED. */
WH_CALL void *wh_aligned_alloc(wh_heap_ref heap, size_t align, size_t n WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_(wh_dev_aligned_(heap, align, n WH_AT_HERE_),
                                       wh_can_align_(align) ? n : 0, "wh_aligned_alloc"),
                          void *, WH_ON_HOST_("wh_aligned_alloc"), heap, align, n WH_SITE_ARGS_);
}

WH_FN uint64_t wh_dev_left_(wh_heap_ref heap, size_t bytes) {
    return WH_OF_(left)(heap, bytes, 0, 1);
}
WH_FN uint64_t wh_dev_left_warp_(wh_heap_ref heap, wh_mask mask, size_t bytes) {
    const uint64_t mine = WH_OF_(left)(heap, bytes, wh_mask_rank(mask), wh_popc32(mask));
    if (mine == WH_UNKNOWN) { /* so say all */
        return mine;
    }
    const uint64_t low = wh_reduce_add_u32(mask, (uint32_t)mine & 0xffffff); /* of 32 lanes */
    return ((uint64_t)wh_reduce_add_u32(mask, (uint32_t)(mine >> 24)) << 24) + low;
}

/* How many blocks of `bytes` bytes wh_malloc would give from now until NULL, if nothing else was
 * asked for and nothing freed; 0 for 0 bytes. WH_UNKNOWN without WH_CAP_LEFT.
 *
 * On a quiet heap the answer is what a fill gets. Tessera: to a quarter of a chunk (4 KiB)
 * within 1 %, to a chunk (16 KiB) within 2 %, above within 20 % and two blocks, either way,
 * since what a hole can hold depends on where malloc begins to fill it. An allocator without
 * WH_CAP_EXACT_OOM may say NULL earlier. While others allocate and free the answer is an
 * estimate: what is on its way between two hands may count twice or not at all, and others may
 * take what has been counted.
 *
 * Lanes: any subset, each counts alone. Cost of these two: one load after the other, one for each
 * MiB that is free and four to twenty for each 16 KiB in use, so a good part of a second where many
 * GiB are in use; of the page allocators a load for each 32 pages, of bump and page-queue one. */
WH_CALL uint64_t wh_blocks_left(wh_heap_ref heap, size_t bytes) {
    return WH_DEVICE_ONLY(wh_dev_left_(heap, bytes), uint64_t, WH_ON_HOST_("wh_blocks_left"), heap,
                          bytes);
}

/* The same by all lanes of mask, which make this call together with the same `bytes`, share the
 * work and all get the answer: a 32nd of the time for a whole warp. (wh_heap_blocks_left, on the
 * host, has a grid for it.) */
WH_CALL uint64_t wh_blocks_left_warp(wh_heap_ref heap, wh_mask mask, size_t bytes) {
    return WH_DEVICE_ONLY(wh_dev_left_warp_(heap, mask, bytes), uint64_t,
                          WH_ON_HOST_("wh_blocks_left_warp"), heap, mask, bytes);
}

/* --- pools: blocks of one size --------------------------------------------------------- */

#define WH_HAS_POOL_HERE_(allocator) WH_HAS_POOL(allocator)
#if WH_HAS_POOL_HERE_(WH_ALLOCATOR)
typedef WH_OF_(pool) wh_pool_own_;
#define WH_POOL_(name) WH_OF_(pool_##name)
#else
typedef struct wh_pool_own_ {
    uint64_t bytes;
} wh_pool_own_;
WH_HD wh_pool_own_ wh_pool_own_of_(uint64_t bytes) {
    wh_pool_own_ own;
    own.bytes = bytes;
    return own;
}
WH_FN void *wh_pool_own_malloc_(wh_heap_ref heap, wh_mask mask, wh_mask wanting, wh_pool_own_ own) {
    const int wants = mask == 0 || (wanting >> wh_lane_id() & 1) != 0;
    return WH_OF_(malloc)(heap, mask, wants ? (size_t)own.bytes : 0);
}
#define WH_POOL_(name) WH_CAT(WH_POOL_ANY_, name)
#define WH_POOL_ANY_plan(heap, bytes) ((void)(heap), wh_pool_own_of_(bytes))
#define WH_POOL_ANY_of WH_POOL_ANY_plan
#define WH_POOL_ANY_size(own) ((own).bytes)
#define WH_POOL_ANY_malloc wh_pool_own_malloc_
#define WH_POOL_ANY_free(heap, mask, own, p) WH_OF_(free)(heap, mask, p)
#endif
#if WH_HAS_SITES_ && WH_HAS_SITES_HERE_(WH_ALLOCATOR)
#define WH_POOL_GET_(heap, mask, wanting, own) WH_POOL_(malloc_at)(heap, mask, wanting, own, at)
#define WH_POOL_GIVE_(heap, mask, own, p) WH_POOL_(free_at)(heap, mask, own, p, at)
#elif WH_HAS_SITES_
#define WH_POOL_GET_(heap, mask, wanting, own) \
    ((void)at, WH_POOL_(malloc)(heap, mask, wanting, own))
#define WH_POOL_GIVE_(heap, mask, own, p) ((void)at, WH_POOL_(free)(heap, mask, own, p))
#else
#define WH_POOL_GET_ WH_POOL_(malloc)
#define WH_POOL_GIVE_ WH_POOL_(free)
#endif

/* Blocks of one size from a heap: for the nodes of lists, trees and hash tables. A small struct, as
 * the handle: pass it to kernels by value. It holds no memory. There may be any number of pools of
 * a size, made on the host or in kernels, and a block of one is a block of each. What malloc has to
 * find out of a size is found out once, when the pool is made; allocators for which that is little
 * do what they do in wh_malloc (contract.h). A heap that has grown wants new pools. */
typedef struct wh_pool_t {
    wh_heap_ref heap;
    wh_pool_own_ own; /* the allocator's */
} wh_pool_t;

#if WH_HAS_HOST
/* A pool of blocks of `bytes` bytes or more. Host only. Errors: BAD_ARGUMENT for 0 and for more
 * than the whole heap; those of wh_heap_handle. On an error *pool stays as it is. What only the
 * options of the heap decide (the page size of a page allocator) malloc says, by NULL. */
static inline wh_status wh_pool_make(const wh_heap *heap, size_t bytes, wh_pool_t *pool) {
    wh_heap_ref handle;
    void *base;
    uint64_t most;
    wh_status status = pool != NULL ? wh_heap_handle(heap, &handle) : WH_BAD_ARGUMENT;
    if (status == WH_OK) {
        status = wh_heap_memory(heap, &base, &most);
    }
    if (status == WH_OK && (bytes == 0 || bytes > most)) {
        status = WH_BAD_ARGUMENT;
    }
    if (status == WH_OK) {
        pool->heap = handle;
        pool->own = WH_POOL_(plan)(handle, bytes);
    }
    return status;
}
#endif

WH_FN wh_pool_t wh_dev_pool_of_(wh_heap_ref heap, size_t bytes) {
    wh_pool_t pool;
    pool.heap = heap;
    pool.own = WH_POOL_(of)(heap, bytes);
    return pool;
}
WH_FN void *wh_dev_pool_malloc_(wh_pool_t pool WH_AT_) {
    const wh_mask mask = wh_activemask();
    if (WH_CALLS_ALONE_(mask)) {
        return WH_POOL_GET_(pool.heap, 0, 0, pool.own);
    }
    return WH_POOL_GET_(pool.heap, mask, mask, pool.own);
}
WH_FN void *wh_dev_pool_malloc_lanes_(wh_pool_t pool, wh_mask mask WH_AT_) {
    return WH_POOL_GET_(pool.heap, mask, mask, pool.own);
}
WH_FN void *wh_dev_pool_malloc_warp_(wh_pool_t pool, wh_mask mask WH_AT_) {
    const uint32_t leader = wh_mask_leader(mask);
    void *mine = WH_POOL_GET_(pool.heap, mask, 1u << leader, pool.own);
    const uint64_t p = wh_shfl_u64(mask, (uint64_t)(uintptr_t)mine, leader);
    wh_syncwarp(mask); /* as in wh_malloc_warp */
    return (void *)(uintptr_t)p;
}
WH_FN void wh_dev_pool_free_lanes_(wh_pool_t pool, wh_mask mask, void *p WH_AT_) {
    WH_POOL_GIVE_(pool.heap, mask, pool.own, p);
    wh_syncwarp(mask); /* no lane goes on before its leader has freed for it */
}
WH_FN void wh_dev_pool_free_(wh_pool_t pool, void *p WH_AT_) {
    const wh_mask mask = wh_activemask();
    if (WH_CALLS_ALONE_(mask)) {
        WH_POOL_GIVE_(pool.heap, 0, pool.own, p);
    } else {
        wh_dev_pool_free_lanes_(pool, mask, p WH_AT_ARG_);
    }
}
WH_FN void wh_dev_pool_free_warp_(wh_pool_t pool, wh_mask mask, void *p WH_AT_) {
    wh_syncwarp(mask); /* the other lanes' writes come before the leader's release */
    WH_POOL_GIVE_(pool.heap, mask, pool.own, wh_lane_id() == wh_mask_leader(mask) ? p : NULL);
    wh_syncwarp(mask);
}

/* The same in a kernel. Of 0 bytes, or more than the heap can serve, the pool gives NULL alone.
 * Lanes: any subset. Cost: that of finding the size's class; make it before a loop. */
WH_CALL wh_pool_t wh_pool_of(wh_heap_ref heap, size_t bytes) {
    return WH_DEVICE_ONLY(wh_dev_pool_of_(heap, bytes), wh_pool_t, WH_ON_HOST_("wh_pool_of"), heap,
                          bytes);
}

/* Bytes that may be used in each block of the pool: those asked for, or a few more. Host and
 * device. */
WH_HD size_t wh_pool_size(wh_pool_t pool) {
    return (size_t)WH_POOL_(size)(pool.own);
}

/* A block of the pool: wh_malloc of its size, in fewer instructions. NULL as there. Every call that
 * takes a block takes it, wh_free and wh_usable_size, too. Lanes: any subset; those that call
 * together pass the same pool. */
WH_CALL void *wh_pool_malloc(wh_pool_t pool WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_(wh_dev_pool_malloc_(pool WH_AT_HERE_),
                                       (size_t)pool.own.bytes, "wh_pool_malloc"),
                          void *, WH_ON_HOST_("wh_pool_malloc"), pool WH_SITE_ARGS_);
}

/* Gives a block of the pool's size back: of this pool or another one of that size, or of wh_malloc
 * of wh_pool_size bytes or of what the pool was made for. NULL is ignored. A block of another size
 * is a mistake: with an allocator that has a pool of its own (tessera) it counts as a bad free and
 * stays. Lanes: any subset; those that call together pass the same pool. */
WH_CALL void wh_pool_free(wh_pool_t pool, void *p WH_SITE_FREE_) {
    WH_DEVICE_ONLY(wh_dev_pool_free_(pool, p WH_AT_HERE_), void,
                   p != NULL ? WH_ON_HOST_("wh_pool_free") : NULL, pool WH_SITE_FREE_ARGS_);
}

/* wh_pool_malloc and wh_pool_free for callers that know which lanes are converged, as
 * wh_malloc_lanes: every lane of mask makes this call together, with the same pool; one block per
 * lane. */
WH_CALL void *wh_pool_malloc_lanes(wh_pool_t pool, wh_mask mask WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_(wh_dev_pool_malloc_lanes_(pool, mask WH_AT_HERE_),
                                       (size_t)pool.own.bytes, "wh_pool_malloc_lanes"),
                          void *, WH_ON_HOST_("wh_pool_malloc_lanes"), pool, mask WH_SITE_ARGS_);
}
WH_CALL void wh_pool_free_lanes(wh_pool_t pool, wh_mask mask, void *p WH_SITE_FREE_) {
    WH_DEVICE_ONLY(wh_dev_pool_free_lanes_(pool, mask, p WH_AT_HERE_), void,
                   p != NULL ? WH_ON_HOST_("wh_pool_free_lanes") : NULL, pool,
                   mask WH_SITE_FREE_ARGS_);
}

/* One block for all lanes of mask, and back, as wh_malloc_warp and wh_free_warp: all lanes make the
 * call together, with the same pool and p. */
WH_CALL void *wh_pool_malloc_warp(wh_pool_t pool, wh_mask mask WH_SITE_) {
    return WH_DEVICE_ONLY(WH_TELL_OOM_ONCE_(wh_dev_pool_malloc_warp_(pool, mask WH_AT_HERE_),
                                            (size_t)pool.own.bytes, "wh_pool_malloc_warp",
                                            wh_lane_id() == wh_mask_leader(mask)),
                          void *, WH_ON_HOST_("wh_pool_malloc_warp"), pool, mask WH_SITE_ARGS_);
}
WH_CALL void wh_pool_free_warp(wh_pool_t pool, wh_mask mask, void *p WH_SITE_FREE_) {
    WH_DEVICE_ONLY(wh_dev_pool_free_warp_(pool, mask, p WH_AT_HERE_), void,
                   p != NULL ? WH_ON_HOST_("wh_pool_free_warp") : NULL, pool,
                   mask WH_SITE_FREE_ARGS_);
}

/* C has no default arguments: there the calls themselves say where they stand. */
#if (WH_HAS_SITES_ || defined(WH_ON_OOM)) && !defined(__cplusplus)
#define wh_malloc(...) wh_malloc(__VA_ARGS__, __FILE__, __LINE__)
#define wh_malloc_lanes(...) wh_malloc_lanes(__VA_ARGS__, __FILE__, __LINE__)
#define wh_malloc_warp(...) wh_malloc_warp(__VA_ARGS__, __FILE__, __LINE__)
#define wh_malloc_block(...) wh_malloc_block(__VA_ARGS__, __FILE__, __LINE__)
#define wh_calloc(...) wh_calloc(__VA_ARGS__, __FILE__, __LINE__)
#define wh_calloc_warp(...) wh_calloc_warp(__VA_ARGS__, __FILE__, __LINE__)
#define wh_calloc_block(...) wh_calloc_block(__VA_ARGS__, __FILE__, __LINE__)
#define wh_realloc(...) wh_realloc(__VA_ARGS__, __FILE__, __LINE__)
#define wh_aligned_alloc(...) wh_aligned_alloc(__VA_ARGS__, __FILE__, __LINE__)
#define wh_pool_malloc(...) wh_pool_malloc(__VA_ARGS__, __FILE__, __LINE__)
#define wh_pool_malloc_lanes(...) wh_pool_malloc_lanes(__VA_ARGS__, __FILE__, __LINE__)
#define wh_pool_malloc_warp(...) wh_pool_malloc_warp(__VA_ARGS__, __FILE__, __LINE__)
#endif
#if defined(WH_ON_OOM) && !defined(__cplusplus)
#define wh_malloc_at(...) wh_malloc_at(__VA_ARGS__, __FILE__, __LINE__)
#endif
#if WH_HAS_SITES_ && !defined(__cplusplus)
#define wh_free(...) wh_free(__VA_ARGS__, __FILE__, __LINE__)
#define wh_free_lanes(...) wh_free_lanes(__VA_ARGS__, __FILE__, __LINE__)
#define wh_free_warp(...) wh_free_warp(__VA_ARGS__, __FILE__, __LINE__)
#define wh_free_block(...) wh_free_block(__VA_ARGS__, __FILE__, __LINE__)
#define wh_pool_free(...) wh_pool_free(__VA_ARGS__, __FILE__, __LINE__)
#define wh_pool_free_lanes(...) wh_pool_free_lanes(__VA_ARGS__, __FILE__, __LINE__)
#define wh_pool_free_warp(...) wh_pool_free_warp(__VA_ARGS__, __FILE__, __LINE__)
#endif

#include "warpheap/detail/simt/end.h"

#endif

/* warpheap_abi.h: the heap as a few device functions that any language can link: a stable binary
 * interface. C, C++, CUDA C++, NVRTC, and whatever calls functions of the C ABI (Numba, Julia).
 *
 * The functions are compiled once and linked: warpheap::abi, warpheap_abi.fatbin, .ptx, .ltoir
 * (docs/ABI.md). A program that says wh_malloc by warpheap.h needs none of this.
 *
 *     host    unsigned long long heap_word;
 *             wh_heap_abi1_handle(heap, &heap_word);           (heap.h)
 *     device  int *p = (int *)wh_abi1_malloc(heap_word, 48);
 *             wh_abi1_free(heap_word, p);
 *
 * A handle is one word of 64 bits: the address of a record in device memory, and marks. It says
 * which version, layout, allocator and kind of device the heap is of; each call compares that with
 * its own. Handle 0, the handle of a heap that has been destroyed, of another version of the
 * library, or of another kind of device: a call returns NULL or 0 (free: 1) and does nothing. Any
 * other word that no wh_heap_abi1_handle gave is a wild pointer.
 *
 * The heap is one of the default allocator, on the device that the code runs on. Lanes: any subset
 * of a warp, divergent or not, but for the calls that take a mask; lanes that call together pass
 * the same handle. On the simulated device the functions are part of libwarpheap; there host code
 * may call them, too, as a grid of one thread.
 *
 * What stays: the names, types and meaning of all that begins with wh_abi1_. New functions may
 * come. What would change any of it comes as wh_abi2_. There are built-in types alone, and no
 * #include: some compilers for GPUs have no stdint.h. No function returns void: Numba declares
 * such ones in a way that linkers refuse.
 */
#ifndef WH_ABI_H
#define WH_ABI_H

#define WH_ABI1_VERSION 1

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define WH_ABI1_CALL extern "C" __device__
#elif defined(__cplusplus)
#define WH_ABI1_CALL extern "C"
#else
#define WH_ABI1_CALL extern
#endif

/* Of wh_heap_abi1_handle (heap.h). 0: none. */
typedef unsigned long long wh_abi1_heap;

/* WH_ABI1_VERSION of the linked code. */
WH_ABI1_CALL int wh_abi1_version(void);

/* 1: the handle is that of a heap which the linked code can use. 0: it is not. */
WH_ABI1_CALL int wh_abi1_fits(wh_abi1_heap heap);

/* At least `bytes` bytes, at a multiple of 16; contents undefined. NULL for 0 bytes, and when the
 * heap is full. As wh_malloc (warpheap.h). */
WH_ABI1_CALL void *wh_abi1_malloc(wh_abi1_heap heap, unsigned long long bytes);

/* Gives a block back; NULL is ignored. Any thread of the heap's device, of any kernel, may. Returns
 * 0; 1 if the handle does not fit: the block stays. */
WH_ABI1_CALL int wh_abi1_free(wh_abi1_heap heap, void *p);

/* n * size bytes of zeros. NULL also where the product is too large. */
WH_ABI1_CALL void *wh_abi1_calloc(wh_abi1_heap heap, unsigned long long n, unsigned long long size);

/* C's realloc: NULL p allocates; 0 bytes frees and returns NULL; on failure NULL, and p stays. */
WH_ABI1_CALL void *wh_abi1_realloc(wh_abi1_heap heap, void *p, unsigned long long bytes);

/* At a multiple of align: a power of two up to 2 MiB. NULL for another align. */
WH_ABI1_CALL void *wh_abi1_aligned_alloc(wh_abi1_heap heap, unsigned long long align,
                                         unsigned long long bytes);

/* Bytes that may be used in the block at p: what was asked for, or more. 0 for NULL. */
WH_ABI1_CALL unsigned long long wh_abi1_usable_size(wh_abi1_heap heap, const void *p);

/* 1: p points into the memory of the heap. 0: it does not. */
WH_ABI1_CALL int wh_abi1_owns(wh_abi1_heap heap, const void *p);

/* --- for callers that know which lanes are converged ----------------------------------------
 * All lanes that the mask names make the call together, and no other does. These are for compilers
 * that know that such a call must not be moved or copied (C++, NVRTC; not Numba).
 *
 * _lanes: each lane has its own `bytes` or p. _warp: one block for all, of the `bytes` or p of the
 * lowest lane; each gets the pointer. Of host code, on the simulated device, the mask is 1. */
WH_ABI1_CALL void *wh_abi1_malloc_lanes(wh_abi1_heap heap, unsigned int mask,
                                        unsigned long long bytes);
WH_ABI1_CALL int wh_abi1_free_lanes(wh_abi1_heap heap, unsigned int mask, void *p);
WH_ABI1_CALL void *wh_abi1_malloc_warp(wh_abi1_heap heap, unsigned int mask,
                                       unsigned long long bytes);
WH_ABI1_CALL int wh_abi1_free_warp(wh_abi1_heap heap, unsigned int mask, void *p);

#endif

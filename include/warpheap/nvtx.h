/* nvtx.h: what NVIDIA's tools are told of a heap, through NVTX: live blocks, so that
 * compute-sanitizer sees where each one ends. C11 and C++. docs/NVTX.md begins with an example.
 *
 * Ranges around host calls need no call: the environment variable WH_NVTX=1 asks for them.
 *
 * Where no tool is attached these calls do nothing. A library that is built without NVTX
 * (WARPHEAP_NVTX of CMake) has them, too.
 */
#ifndef WH_NVTX_H
#define WH_NVTX_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

/* Tells the tool that the heap's memory is a pool, and which blocks live in it now: from then on
 * compute-sanitizer's memcheck reports each access of a kernel to other memory of the heap. A
 * checked heap tells of each block the bytes that were asked for, and its place as a name; another
 * one tells of its slot, and the next block may begin right behind it.
 *
 * For kernels that use blocks, and neither allocate nor free: new blocks are not known, and malloc
 * and free work beside the blocks. Until wh_heap_unregister_blocks no other call of the heap but
 * these two may run a kernel (a second call tells of the blocks anew). Waits for all work of the
 * device.
 *
 * Errors: BAD_ARGUMENT; UNSUPPORTED: the library is built without NVTX; the heap is of another
 * allocator than tessera, or its memory is not one that the tool takes as a pool, which is
 * wh_heap_options.memory or source, of cudaMalloc, and all of that allocation; OUT_OF_MEMORY,
 * DEVICE_ERROR. Cost: without a tool one call that does nothing; with one, as wh_heap_leaks. */
wh_status wh_heap_register_blocks(wh_heap *heap);

/* The whole heap is one region again: nothing in it is reported. Kernels may allocate and free. OK
 * if nothing was registered. BAD_ARGUMENT. */
wh_status wh_heap_unregister_blocks(wh_heap *heap);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

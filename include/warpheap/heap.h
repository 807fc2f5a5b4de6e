/* heap.h: host calls on a heap: create, destroy, reset, look inside. C11 and C++.
 *
 * The host owns a heap through a wh_heap pointer; kernels get a small copyable
 * handle (wh_heap_t, see warpheap.h) by value. Every call returns a status;
 * nothing prints or exits. Calls that read or reset a heap must not overlap with
 * kernels that use it; they wait for the device first.
 */
#ifndef WH_HEAP_H
#define WH_HEAP_H

#include "warpheap/device.h"
#include "warpheap/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_heap wh_heap;

/* Zero (NULL) fields mean the default. */
typedef struct wh_heap_options {
    uint64_t bytes;        /* whole heap, metadata included; required */
    const char *allocator; /* name as `warpheap info` lists it; NULL: the default */
    wh_device *device;     /* NULL: the heap opens "auto" and closes it when destroyed */
    void *memory;          /* caller's device memory of `bytes` bytes, 256-byte aligned,
                              that outlives the heap; NULL: the heap allocates its own */
    wh_tuning tuning;
} wh_heap_options;

/* Creates a heap. On failure *heap is NULL and nothing stays allocated.
 * Errors: BAD_ARGUMENT, HEAP_TOO_SMALL (wh_heap_min_bytes says how much is
 * needed), UNKNOWN_ALLOCATOR, NO_DEVICE, OUT_OF_MEMORY, UNSUPPORTED (this
 * allocator does not run on this device), DEVICE_ERROR. */
wh_status wh_heap_create(wh_heap **heap, const wh_heap_options *options);

/* Waits for the device and releases the heap. NULL is ignored. */
void wh_heap_destroy(wh_heap *heap);

/* The fewest bytes with which create can succeed for these options (bytes and
 * memory are not read). */
wh_status wh_heap_min_bytes(const wh_heap_options *options, uint64_t *bytes);

/* Returns the heap to its first state: every block is gone. Cost: one kernel over
 * the metadata. */
wh_status wh_heap_reset(wh_heap *heap);

/* Starts the reset on the default stream and returns without waiting. */
wh_status wh_heap_reset_async(wh_heap *heap);

/* Moves the heap into a region of `bytes` bytes, at least as many as it has, contents kept:
 * `memory` as in wh_heap_options, or NULL. The old region is released if the heap owns it;
 * the caller's own is his again. All live blocks move by the
 * same distance: a pointer p, on the host or kept in device memory, becomes
 * wh_heap_rebase(p, *moved), in kernels (unsigned char *)p + moved; handles copied before
 * are void. Sizes up to the largest that the heap could give
 * at first. Waits for the device; both regions exist for a moment. On failure nothing has
 * changed. HEAP_TOO_SMALL: the region is larger by less than the largest alignment, and
 * begins where aligning the blocks costs more than in the old one. UNSUPPORTED without
 * WH_CAP_GROW, BAD_ARGUMENT, OUT_OF_MEMORY, DEVICE_ERROR.
 * Cost: two kernels over the data and the metadata. */
wh_status wh_heap_grow(wh_heap *heap, uint64_t bytes, void *memory, int64_t *moved);

/* Where a block at p lies after a wh_heap_grow that said `moved`. NULL stays NULL. */
void *wh_heap_rebase(void *p, int64_t moved);

wh_status wh_heap_get_stats(wh_heap *heap, wh_stats *stats);

/* Verifies every invariant of a quiet heap. CORRUPT if one is broken; report (may
 * be NULL) says which. UNSUPPORTED without WH_CAP_CHECK. */
wh_status wh_heap_check(wh_heap *heap, wh_report *report);

/* Calls visit for every live block, in no promised order: its device address and
 * usable size. A non-zero return ends the walk. UNSUPPORTED without WH_CAP_WALK. */
typedef int (*wh_visit_fn)(void *context, void *block, uint64_t usable_bytes);
wh_status wh_heap_walk(wh_heap *heap, wh_visit_fn visit, void *context);

wh_device *wh_heap_device(const wh_heap *heap);

/* Copies the handle out. WRONG_ALLOCATOR if the heap is not of the named
 * allocator or the size differs. Users call the typed wh_heap_handle. */
wh_status wh_heap_copy_handle(const wh_heap *heap, const char *allocator, void *handle,
                              size_t handle_bytes);

/* What is built in. index counts from 0; NULL past the end. */
typedef struct wh_allocator_info {
    const char *name;   /* "gallatin" */
    const char *title;  /* one line */
    const char *source; /* paper and algorithms */
    uint32_t caps;      /* WH_CAP_* */
    uint32_t max_align; /* largest alignment aligned_alloc serves */
    uint64_t max_size;  /* largest request by design; UINT64_MAX: the heap decides */
} wh_allocator_info;
const wh_allocator_info *wh_allocator_at(uint32_t index);
const wh_allocator_info *wh_allocator_find(const char *name);

/* How many blocks of `bytes` bytes malloc would give until NULL, if nothing else was asked for and
 * nothing freed; 0 for `bytes` = 0. What is exact and what nearly so: wh_blocks_left in warpheap.h,
 * the same from a kernel. UNSUPPORTED without WH_CAP_LEFT. Cost: one kernel over the metadata. */
wh_status wh_heap_blocks_left(wh_heap *heap, uint64_t bytes, uint64_t *blocks);

#ifdef __cplusplus
}
#endif

#endif

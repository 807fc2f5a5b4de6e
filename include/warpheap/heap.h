/* heap.h: host calls on a heap: create, destroy, reset, look inside. C11 and C++.
 *
 * The host owns a heap through a wh_heap pointer; kernels get a small copyable
 * handle (wh_heap_ref, see warpheap.h) by value. Every call returns a status;
 * nothing prints or exits. A heap may be used by any host thread, by one at a time.
 *
 * Streams. A call that reads or resets a heap must not overlap with kernels that use the heap.
 *   name(heap, ...)             first waits for all work of the device
 *   name_on(heap, ..., stream)  is ordered after the work of that stream, and waits for nothing
 *                               else: kernels that use the heap run on it, or have ended
 *   name_async(heap, ..., stream)  starts the work on the stream and returns. On a GPU it can be
 *                               captured into a CUDA graph; results come to device memory
 * A stream is one of wh_stream_create or, for a GPU, any cudaStream_t of the heap's device; NULL is
 * the default stream.
 *
 * Structures that a caller fills begin with their own size, so that fields can be added: 0, as an
 * initialiser {0} leaves it, means the size that the calling code's headers say. Languages that
 * load the library set it. A library refuses a size it does not know (WRONG_BUILD).
 */
#ifndef WH_HEAP_H
#define WH_HEAP_H

#include "warpheap/device.h"
#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_heap wh_heap;

/* Where a heap gets its memory, if not from the device: two functions of the caller's
 * (docs/MEMORY.md has them for RMM and PyTorch). All device memory that the heap takes is of them:
 * its own, at create, load and grow; for an answer that a kernel gives the host, a few KiB; for
 * wh_heap_walk, 16 bytes a block; for wh_heap_save, a bit a chunk.
 *
 * alloc: `bytes` bytes that kernels of the heap's device can address, at a multiple of `align`, a
 * power of two (256); work of `stream` (NULL: the default stream) may use them when it returns.
 * NULL: there are none, and the heap's call ends with OUT_OF_MEMORY. Memory at another multiple is
 * given back, and the call ends with BAD_ARGUMENT.
 * free: once for each p of alloc, with the same bytes, after the heap has waited for `stream`.
 *
 * The host thread that calls the heap calls them, with its own current GPU. They must not call this
 * heap, nor leave by an exception. `user` must outlive the heap. */
typedef struct wh_memory_source {
    void *(*alloc)(uint64_t bytes, uint64_t align, void *stream, void *user);
    void (*free)(void *p, uint64_t bytes, void *stream, void *user);
    void *user;
} wh_memory_source;

/* Zero (NULL) fields mean the default. Without a device the heap opens "auto", which in code that a
 * CUDA compiler reads is a GPU or NO_DEVICE (device.h), and closes it when destroyed. */
typedef struct wh_heap_options {
    uint64_t struct_bytes;          /* sizeof this struct, or 0: see above */
    uint64_t bytes;                 /* whole heap, metadata included; required. More than the
                                       allocator has numbers for is BAD_ARGUMENT */
    const char *allocator;          /* name as `warpheap info` lists it; NULL: the default */
    wh_device *device;              /* the heap holds it: it ends with its last heap */
    void *memory;                   /* caller's device memory of `bytes` bytes, 256-byte aligned,
                                       that outlives the heap; NULL: the heap allocates its own */
    const wh_options_head *options; /* of the allocator's family (options.h), copied; NULL: the
                                       defaults */
    uint64_t reserve_bytes;         /* addresses that the heap reserves, of which it maps `bytes`:
                                       wh_heap_extend maps more. 0: it has `bytes` from the start */
    wh_memory_source source;        /* where the heap gets memory; all NULL: from the device */
    void *cuda_pool;                /* the same, of a GPU: a cudaMemPool_t that its kernels can
                                       address, which outlives the heap. At most one of memory,
                                       source, cuda_pool and reserve_bytes is set: else
                                       BAD_ARGUMENT */
} wh_heap_options;

/* wh_heap_create and wh_heap_min_bytes as their inline functions call them. options_bytes: sizeof
 * of the caller's wh_heap_options, where its struct_bytes is 0. in_cuda: 1 if "auto" must be a GPU.
 * Other languages load the symbols wh_heap_create and wh_heap_min_bytes: these with 0 and 0. */
wh_status wh_heap_create_for(wh_heap **heap, const wh_heap_options *options, size_t options_bytes,
                             int in_cuda);
wh_status wh_heap_min_bytes_for(const wh_heap_options *options, uint64_t *bytes,
                                size_t options_bytes, int in_cuda);

/* Creates a heap. On failure *heap is NULL and nothing stays allocated. Waits for the default
 * stream, and so may tell the error of an earlier kernel there. Errors: BAD_ARGUMENT,
 * HEAP_TOO_SMALL (wh_heap_min_bytes says how much is needed), UNKNOWN_ALLOCATOR, NO_DEVICE,
 * OUT_OF_MEMORY, UNSUPPORTED (this allocator does not run on this device), DEVICE_ERROR,
 * WRONG_BUILD. */
static inline wh_status wh_heap_create(wh_heap **heap, const wh_heap_options *options) {
    return wh_heap_create_for(heap, options, sizeof *options, WH_FILE_IS_CUDA);
}

/* The fewest bytes with which create can succeed for these options (bytes and
 * memory are not read). */
static inline wh_status wh_heap_min_bytes(const wh_heap_options *options, uint64_t *bytes) {
    return wh_heap_min_bytes_for(options, bytes, sizeof *options, WH_FILE_IS_CUDA);
}

/* Releases the heap. Kernels that use it must have ended, or run on the stream (wh_heap_destroy:
 * the default stream, or one that waits for it). Waits for the work of that stream, not for other
 * work of the device. Returns the error of a kernel that failed there, DEVICE_ERROR; the heap is
 * gone all the same. NULL is ignored. */
wh_status wh_heap_destroy(wh_heap *heap);
wh_status wh_heap_destroy_on(wh_heap *heap, void *stream);

/* The heap's memory as it lies on the device: metadata and all blocks are within bytes from base
 * on. What to copy for a look at a whole structure; of a heap with reserve_bytes these are its
 * addresses, of which some have no memory. On a GPU a heap takes its memory in stream
 * order (cudaMallocAsync): for CUDA IPC or to register it for transfers give the heap memory of
 * your own (docs/MEMORY.md). */
wh_status wh_heap_memory(const wh_heap *heap, void **base, uint64_t *bytes);

/* Returns the heap to its first state: every block is gone. What is mapped of a reserved heap stays
 * mapped. _async allocates nothing and does not wait, so a captured graph may reset the heap; it
 * resets what is mapped when it runs, also if the heap has been extended or trimmed since the
 * capture. Cost: one kernel over the metadata. */
wh_status wh_heap_reset(wh_heap *heap);
wh_status wh_heap_reset_on(wh_heap *heap, void *stream);
wh_status wh_heap_reset_async(wh_heap *heap, void *stream);

/* Memory that grows and shrinks where it is, of a heap that was created with reserve_bytes. The
 * heap has that many bytes of the device's addresses, and memory for `bytes` of them. Both calls
 * leave every block, pointer and handle as it is. They want a heap that no kernel uses, and wait
 * for all work of the device. Threads of the host may call them on one heap at the same time: they
 * take turns. What is mapped and given back at once is a granule: a 1024th of reserve_bytes, from 2
 * to 64 MiB on a GPU, from a page to 32 on the simulated device; or the option
 * tessera.granule_bytes; at least a chunk.
 *
 * wh_heap_extend maps at least `bytes` bytes more for blocks, in whole granules, and the metadata
 * that they need (0.93 %) if it is not there. It fills what trim has given back first, from the
 * lowest address on. What malloc found no room for before, also a block that old and new memory
 * share, it finds then. `bytes` 0 does nothing. Errors: UNSUPPORTED (without WH_CAP_RESERVE, or
 * without reserve_bytes), RESERVE_FULL (the addresses that are left are fewer), OUT_OF_MEMORY,
 * DEVICE_ERROR. On failure the heap is as before: nothing is mapped half-way.
 * Cost: what is mapped and its metadata, in a kernel or two; nothing of what is there.
 *
 * wh_heap_trim gives granules in which no block lives back to the device, from the highest address
 * down, until `keep_bytes` bytes are mapped, metadata included, or no such granule is left.
 * *given_back (may be NULL): by how many bytes less are mapped. A heap that cannot come down to
 * keep_bytes is no error. Errors: UNSUPPORTED as above, OUT_OF_MEMORY (of the host), DEVICE_ERROR:
 * some granules could not be given back, and are the heap's again; *given_back is right.
 * Cost: a look at all cursors and at a bit for each chunk; then what is given back. */
wh_status wh_heap_extend(wh_heap *heap, uint64_t bytes);
wh_status wh_heap_trim(wh_heap *heap, uint64_t keep_bytes, uint64_t *given_back);

/* Growth while kernels run, of a heap that was created with reserve_bytes. A malloc that finds the
 * heap full asks the host for more and waits for it; a thread of the library maps memory, and
 * malloc goes on. Blocks, pointers and handles stay as they are. Where this is not on, malloc is as
 * without it. docs/tessera/reserve.md has more.
 *
 * New fields come at the end. Zero means the default everywhere. */
typedef struct wh_growth_options {
    uint64_t struct_bytes; /* sizeof this struct; 0: what the calling code's headers say */
    uint64_t max_bytes;    /* how much may be mapped, metadata included; 0: reserve_bytes */
    uint64_t step_bytes;   /* what is mapped at a time, in whole granules; 0: 64 MiB */
    uint64_t ahead_bytes;  /* what is kept mapped ahead of need: malloc takes it without waiting.
                              0: as much as step_bytes; less than a granule: nothing. While
                              kernels take of it, up to a 32nd of it may lack */
    uint32_t wait_us;      /* how long a malloc waits for the host, in microseconds, at most 1e9; 0:
                              10 000. It begins anew when a part of the memory comes. The simulated
                              device: so many thousand steps */
    uint32_t no_thread;    /* 1: the program calls wh_heap_growth_poll instead */
} wh_growth_options;

typedef struct wh_growth_info {
    uint64_t struct_bytes; /* filled in: sizeof this struct */
    uint64_t mapped_bytes; /* metadata included, and ahead_bytes; of a plain heap its bytes */
    uint64_t ahead_bytes;  /* mapped, and not taken by any malloc so far */
    uint64_t max_bytes;
    uint64_t requests; /* that mallocs have made since start: each waited for */
    uint64_t refused;  /* of these, those for which there was no memory */
    uint32_t status;   /* a wh_status: of the last attempt to map something */
    uint32_t unused;
} wh_growth_info;

/* start: from now on the heap grows; options NULL: the defaults. stop: it does so no more; what is
 * mapped ahead and not taken goes back to the device. Both want a heap that no kernel uses, and
 * wait for all work of the device; destroy stops, too. Threads may call both at the same time: they
 * take turns, and stop of a heap that grows no more is OK. Errors: UNSUPPORTED (a heap without
 * reserve_bytes, or a device without memory that both sides see), BAD_ARGUMENT (it grows already),
 * OUT_OF_MEMORY, DEVICE_ERROR.
 *
 * malloc then returns NULL for two reasons: the card is full, or max_bytes has been reached, and a
 * search behind that answer has found nothing; or the host did nothing for wait_us. That is
 * counted, too: wh_stats.timed_out.
 *
 * poll: for programs with a loop of their own, no_thread: answers what mallocs have asked, and maps
 * ahead. It waits for no kernel, and for the lock of extend and trim alone. By any host thread,
 * also beside the thread of the library. Returns OK, UNSUPPORTED where growth has not been started,
 * or why nothing could be mapped: OUT_OF_MEMORY, DEVICE_ERROR.
 *
 * extend and trim between launches work as ever. What is mapped ahead counts as mapped; trim gives
 * it back, too, and then it is mapped again. While kernels run there is no trim.
 * Cost: docs/tessera/reserve.md. The thread looks at words of its own memory: all the time while
 * there is something to do, else about every 70 microseconds. */
wh_status wh_heap_growth_start_sized(wh_heap *heap, const wh_growth_options *options, size_t bytes);
wh_status wh_heap_growth_stop(wh_heap *heap);
wh_status wh_heap_growth_poll(wh_heap *heap);
wh_status wh_heap_growth_get_info_sized(wh_heap *heap, wh_growth_info *info, size_t bytes);
static inline wh_status wh_heap_growth_start(wh_heap *heap, const wh_growth_options *options) {
    return wh_heap_growth_start_sized(heap, options, sizeof *options);
}
static inline wh_status wh_heap_growth_get_info(wh_heap *heap, wh_growth_info *info) {
    return wh_heap_growth_get_info_sized(heap, info, sizeof *info);
}

/* Opens the heap to kernels of another GPU, beside those of its own: from now on kernels of both
 * may call malloc and free at the same time, read and write blocks, and free what the others have
 * allocated. Once for each such GPU; again for one that has it is OK. Blocks, pointers and handles
 * stay as they are, also what is mapped later is open. docs/CUDA.md has an example.
 *
 * Every file whose kernels use the heap, those of its own GPU too, defines WH_PEERS as 1 before it
 * includes warpheap/warpheap.h: wh_heap_handle refuses the others (WRONG_BUILD), and so take no
 * handle before this call. (Files for the simulated device need not.) They are header-only: the
 * code of warpheap::device, warpheap::abi and warpheap_replace.h is for one GPU. Files of one C++
 * program that are linked with -rdc and share templates or inline functions with calls of
 * warpheap.h define WH_PEERS alike: the linker keeps one of each.
 *
 * The heap holds `device` as it holds its own. Host calls stay as they are; those that wait for all
 * work of the heap's device wait for the peers', too. Kernels that the library starts, of
 * batches of calls (wh_heap_make_calls) say, run on the heap's own GPU: no kernel of a peer may use
 * the heap meanwhile.
 *
 * On a GPU, memory of cudaMalloc is opened by cudaDeviceEnablePeerAccess, and a pool of memory, the
 * device's default one too, by cudaMemPoolSetAccess: all memory of the GPU, or of the pool. It
 * stays open when the heap is gone: CUDA does not count who wants it. A reserved heap opens its own
 * memory alone. Memory of the caller's from cuMemMap he has opened himself.
 *
 * Wants a heap that no kernel uses. The heap may be of any memory, reserved, and growing already.
 * Errors, which wh_last_error_text explains: UNSUPPORTED (without WH_CAP_PEERS; 32 peers are there;
 * on a GPU, a heap that keeps records, whose atomics are in the host's memory, or for which
 * wh_heap_abi1_handle has been called), BAD_ARGUMENT (NULL; the heap's own GPU, by whichever
 * wh_device), WRONG_TARGET (one is a GPU and one the simulated device), NO_PEER_ACCESS,
 * NO_PEER_ATOMICS; and DEVICE_ERROR, of the driver or of a kernel that failed before, of either
 * device: wh_device_error_text of the heap's device has the line. On failure the heap is as before.
 * Cost: calls of the driver. malloc and free of the own GPU have system scope (docs/CUDA.md). */
wh_status wh_heap_enable_peer(wh_heap *heap, wh_device *device);
uint32_t wh_heap_peers(const wh_heap *heap); /* how many there are. 0: of no heap */

/* What a heap has of the device: bytes mapped, metadata included, bytes of addresses reserved, and
 * bytes of a granule. Of a heap without reserve_bytes the first two are its bytes, the last 0. Each
 * may be NULL. Waits for nothing but an extend or trim of another thread. */
wh_status wh_heap_extent(const wh_heap *heap, uint64_t *mapped, uint64_t *reserved,
                         uint64_t *granule);

/* Moves the heap into a region of `bytes` bytes, at least as many as it has, contents kept:
 * `memory` as in wh_heap_options, or NULL: from where the heap gets its memory. The old region is
 * released if the heap owns it; the caller's own is his again. All live blocks move by the
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

/* Statistics. _sized is what the inline functions call: `bytes` is the size of *stats, WRONG_BUILD
 * if that is no size of a wh_stats that this library knows; on_stream as for the forms above. Other
 * languages load the symbols wh_heap_get_stats and wh_heap_get_stats_on, and set
 * stats->struct_bytes before the call. _async: stats is device memory of sizeof(wh_stats) bytes;
 * WRONG_BUILD if this library's wh_stats is larger than `bytes`. UNSUPPORTED without WH_CAP_STATS.
 * Cost: a kernel over the metadata, or two. */
wh_status wh_heap_get_stats_sized(wh_heap *heap, wh_stats *stats, size_t bytes, void *stream,
                                  int on_stream);
wh_status wh_heap_get_stats_async_sized(wh_heap *heap, wh_stats *stats, size_t bytes, void *stream);
static inline wh_status wh_heap_get_stats(wh_heap *heap, wh_stats *stats) {
    return wh_heap_get_stats_sized(heap, stats, sizeof *stats, NULL, 0);
}
static inline wh_status wh_heap_get_stats_on(wh_heap *heap, wh_stats *stats, void *stream) {
    return wh_heap_get_stats_sized(heap, stats, sizeof *stats, stream, 1);
}
static inline wh_status wh_heap_get_stats_async(wh_heap *heap, wh_stats *stats, void *stream) {
    return wh_heap_get_stats_async_sized(heap, stats, sizeof *stats, stream);
}

/* Verifies every invariant of a quiet heap. CORRUPT if one is broken; report (may
 * be NULL) says which. UNSUPPORTED without WH_CAP_CHECK. _async: report is device memory;
 * report->errors tells whether the heap is sound. After a kernel that failed the verdict is about
 * the heap: lanes that were stopped inside malloc or free may have left it CORRUPT, and
 * wh_heap_reset mends that. */
wh_status wh_heap_check(wh_heap *heap, wh_report *report);
wh_status wh_heap_check_on(wh_heap *heap, wh_report *report, void *stream);
wh_status wh_heap_check_async(wh_heap *heap, wh_report *report, void *stream);

/* Between launches: takes free blocks out of the queues in which they wait for requests of their
 * size, where all blocks of a chunk are free, and makes that chunk free for any size. Live blocks,
 * pointers and handles stay as they are. What stays in a queue keeps its order. *done (may be
 * NULL): what it has done; all 0 if it failed. Errors: BAD_ARGUMENT, UNSUPPORTED (without
 * WH_CAP_COMPACT: no such queues), OUT_OF_MEMORY, DEVICE_ERROR. A heap that wh_heap_check calls
 * CORRUPT is to be reset first. docs/papers/ouroboros.md has more.
 * Cost: two kernels over the queues and the chunks. */
wh_status wh_heap_compact(wh_heap *heap, wh_compaction *done);
wh_status wh_heap_compact_on(wh_heap *heap, wh_compaction *done, void *stream);

/* Calls visit for every live block, in no promised order: its device address and
 * usable size. A non-zero return ends the walk. UNSUPPORTED without WH_CAP_WALK. */
typedef int (*wh_visit_fn)(void *context, void *block, uint64_t usable_bytes);
wh_status wh_heap_walk(wh_heap *heap, wh_visit_fn visit, void *context);
wh_status wh_heap_walk_on(wh_heap *heap, wh_visit_fn visit, void *context, void *stream);

wh_device *wh_heap_device(const wh_heap *heap); /* NULL: of no heap */

/* What compiled kernels expect of a heap. wh_heap_handle fills it from its own headers. */
typedef struct wh_handle_kind {
    uint64_t struct_bytes; /* sizeof this struct */
    const char *allocator; /* as `warpheap info` lists it */
    uint64_t handle_bytes; /* sizeof the handle */
    uint64_t layout;       /* hash of the allocator's structures; 0: not compared */
    uint32_t version;      /* WH_VERSION of the headers that the kernels were compiled with */
    wh_target target;      /* what the kernels run on; WH_TARGET_ANY: not known here */
    uint64_t checks;       /* 1: they can use a checked heap (docs/CHECKED.md). May be missing */
    uint64_t peers;        /* 1: their atomics have system scope (WH_PEERS). May be missing */
} wh_handle_kind;

/* Copies the handle out for such kernels. WRONG_ALLOCATOR, WRONG_TARGET (heap and kernels are not
 * both of a GPU, or both of the simulated device), WRONG_BUILD (another version, layout or size of
 * the handle); wh_last_error_text says more. Users call the typed wh_heap_handle. */
wh_status wh_heap_copy_handle(const wh_heap *heap, const wh_handle_kind *kind, void *handle);

/* sizeof the handle of this heap's allocator, for who has no wh_heap_ref: languages that load the
 * library and compile kernels at run time. 0: of no heap. */
uint64_t wh_heap_handle_bytes(const wh_heap *heap);

/* The heap as code sees it that is linked by warpheap_abi.h, in whatever language: one word, which
 * stays the same until the heap is destroyed, also when it is extended. *handle is 0 on an error.
 * Errors: BAD_ARGUMENT, WRONG_ALLOCATOR (another than the default one), UNSUPPORTED (on a GPU, of a
 * heap with peers), OUT_OF_MEMORY, DEVICE_ERROR. Waits for the default stream. Cost: the first
 * handle of a process on a device takes 64 KiB of its memory, which stay until the process ends: so
 * what has the handle of a heap that is destroyed gets NULL. */
wh_status wh_heap_abi1_handle(wh_heap *heap, unsigned long long *handle);

/* What is built in. index counts from 0; NULL past the end. */
typedef struct wh_allocator_info {
    const char *name;   /* "gallatin" */
    const char *title;  /* one line */
    const char *source; /* paper and algorithms */
    uint32_t caps;      /* WH_CAP_* */
    uint32_t max_align; /* largest alignment aligned_alloc serves */
    uint64_t max_size;  /* largest request by design; UINT64_MAX: the heap decides */
    const char *family; /* whose options it takes: "ouroboros" */
} wh_allocator_info;
const wh_allocator_info *wh_allocator_at(uint32_t index);
const wh_allocator_info *wh_allocator_find(const char *name);
const wh_allocator_info *wh_heap_allocator(const wh_heap *heap); /* NULL: of no heap */

/* How many blocks of `bytes` bytes malloc would give until NULL, if nothing else was asked for and
 * nothing freed; 0 for `bytes` = 0. What is exact and what nearly so: wh_blocks_left in warpheap.h,
 * the same from a kernel. UNSUPPORTED without WH_CAP_LEFT. Cost: one kernel over the metadata. */
wh_status wh_heap_blocks_left(wh_heap *heap, uint64_t bytes, uint64_t *blocks);
wh_status wh_heap_blocks_left_on(wh_heap *heap, uint64_t bytes, uint64_t *blocks, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

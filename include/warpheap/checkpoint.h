/* checkpoint.h: a heap in a file: save it, and have it again later, in this process or another. C11
 * and C++. Part of warpheap::checkpoint, which links zlib; docs/CHECKPOINT.md begins with an
 * example.
 *
 * Heaps of the allocator `tessera`, the default one, with reserve_bytes or without.
 */
#ifndef WH_CHECKPOINT_H
#define WH_CHECKPOINT_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the heap to a file: its metadata, and the chunks in which a block lives, compressed, with
 * a checksum over all. Waits for all work of the device. Until the call returns no kernel may use
 * the heap, and no other thread of the host extend or trim it. The heap stays as it is.
 *
 * The file is written under another name in the same folder, `path` with an ending, brought to the
 * disk, and renamed: on failure a file that was there is as before, and nothing else is left. A
 * symbolic link at `path` gives way to the file. A folder, a device or a pipe does not: IO_ERROR.
 *
 * Errors: BAD_ARGUMENT, UNSUPPORTED (another allocator), IO_ERROR (the text has the system's
 * reason), OUT_OF_MEMORY (of the host, or a bit for each chunk on the device), DEVICE_ERROR.
 * Cost: two kernels over the metadata; a copy of it and of those chunks to the host; deflate at its
 * fastest level, which is slower than either. */
wh_status wh_heap_save(wh_heap *heap, const char *path);

/* wh_heap_load as its inline function calls it: options_bytes and in_cuda as wh_heap_create_for's.
 * Other languages load the symbol wh_heap_load. */
wh_status wh_heap_load_for(wh_heap **heap, const char *path, const wh_heap_options *options,
                           int64_t *moved, size_t options_bytes, int in_cuda);

/* Creates a heap as it was saved: contents, sizes, statistics and options; malloc and free go on.
 * Waits for all work of the device. Of *options (may be NULL) these are read: `struct_bytes` and
 * `device`, as wh_heap_create does; `memory` and `bytes`, memory of the caller's, or `source`, or
 * `cuda_pool`, for a heap that had no addresses reserved: at most one of the three; `allocator`, if
 * it is to be compared. `options` and `reserve_bytes` are those of the file.
 *
 * All blocks keep their addresses if the same memory is given again, or if the heap reserves
 * addresses and these are free; *moved is 0 then. Else all have moved by *moved bytes, a multiple
 * of the largest alignment. wh_heap_rebase says where a block lies now; pointers that are kept
 * inside blocks are the caller's to mend. Handles are had anew: wh_heap_handle.
 *
 * A file is read as a whole and compared with its checksum before anything is created. On failure
 * *heap is NULL, *moved 0, and nothing stays allocated; the text begins with the file's name. The
 * checksum finds accidents, not forgery: load no file from those whom you do not trust.
 *
 * Errors: BAD_ARGUMENT, IO_ERROR; BAD_FORMAT (no checkpoint, cut short or damaged); WRONG_BUILD
 * (another version of the format, or layout of the heap), WRONG_ALLOCATOR, UNKNOWN_ALLOCATOR,
 * WRONG_TARGET (of a GPU where this is the simulated device, or the other way, or another granule),
 * UNSUPPORTED, HEAP_TOO_SMALL (`memory`), NO_DEVICE, OUT_OF_MEMORY, DEVICE_ERROR.
 * Cost: the file is read twice; inflate; a copy to the device. */
static inline wh_status wh_heap_load(wh_heap **heap, const char *path,
                                     const wh_heap_options *options, int64_t *moved) {
    return wh_heap_load_for(heap, path, options, moved, sizeof *options, WH_FILE_IS_CUDA);
}

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

/* snapshot.h: which blocks are live, and who allocated them: a file for `warpheap view` and
 * `warpheap diff`, and a report of leaks for a program that prints its own. C11 and C++.
 * docs/LEAKS.md begins with an example.
 *
 * Heaps of the allocator `tessera`, the default one. A checked heap (docs/CHECKED.md) knows of each
 * block the call that allocated it, the thread, and the size that was asked for. A heap that is not
 * knows where blocks lie and what they take, and no more.
 */
#ifndef WH_SNAPSHOT_H
#define WH_SNAPSHOT_H

#include "warpheap/records.h"

#include "warpheap/detail/simt/begin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Live blocks of one size that one place has allocated. New fields come at the end. */
typedef struct wh_leak {
    wh_record_site site; /* of the calls that allocated them; "" and 0: not known */
    uint64_t bytes;      /* of one block, as asked for; of a heap that is not checked as it takes */
    uint64_t blocks;
    uint64_t total;   /* bytes of all */
    uint64_t address; /* of the block that lies lowest, and the call that allocated it: */
    uint64_t block;   /* wh_block_id(), wh_thread_id(); WH_UNKNOWN */
    uint64_t thread;
} wh_leak;

#if WH_HAS_HOST

/* Begins a stretch of time, between two kernels: *mark, from 1 on. Blocks of a checked heap note
 * the last mark before they were allocated. So wh_heap_leaks can tell those that came later, also
 * where one has come to the place of an older one. Waits for all work of the device.
 * Errors: BAD_ARGUMENT; UNSUPPORTED: the heap is not checked, or has had 4,194,303 marks and
 * snapshots; DEVICE_ERROR. Cost: a copy of 8 bytes to the device. */
wh_status wh_heap_mark(wh_heap *heap, uint64_t *mark);

/* Live blocks that were allocated after mark `since`, or all of them (0), by place and size; those
 * with the most bytes first: the first `room` of them to leaks[], and *n: how many there are.
 * leak_bytes: sizeof(wh_leak). Waits for all work of the device; no kernel may use the heap.
 * Errors: BAD_ARGUMENT (also a mark that has not been made); UNSUPPORTED: another allocator, or
 * `since` is not 0 and the heap is not checked; WRONG_BUILD, OUT_OF_MEMORY, DEVICE_ERROR.
 * Cost: a look at all metadata; 56 bytes are copied to the host for each live block, in parts. On
 * the device 4 MiB, on the host 6, and 200 bytes for each place and size. */
wh_status wh_heap_leaks(wh_heap *heap, uint64_t since, wh_leak *leaks, size_t leak_bytes,
                        uint32_t room, uint32_t *n);

/* One line about it, cut to `room` bytes with its 0. Returns text. */
const char *wh_leak_text(const wh_leak *leak, char *text, size_t room);

/* Writes what the heap is made of, and all live blocks, to a JSON file (docs/LEAKS.md has its
 * form). A checked heap gets a mark at the same moment. Waits for all work of the device; no kernel
 * may use the heap. The file is written under another name in the same folder, and renamed: on
 * failure what was at `path` is as before. A symbolic link at `path` gives way to the file; a
 * folder, a device or a pipe does not: IO_ERROR.
 * Errors: those of wh_heap_leaks; IO_ERROR (the text has the system's reason). Cost: as
 * wh_heap_leaks, but that the metadata is looked at twice; 20 to 60 bytes of the file a block. */
wh_status wh_heap_snapshot_save(wh_heap *heap, const char *path);

#endif /* WH_HAS_HOST */

#ifdef __cplusplus
}
#endif

#include "warpheap/detail/simt/end.h"

#endif

/* gauge.h: how full a heap is, read by the host while kernels use it: bytes in use, live blocks,
 * failures. C11 and C++. docs/GAUGE.md begins with an example.
 *
 * A gauge copies metadata that the heap keeps anyway; malloc and free do nothing for it, and no
 * kernel waits for it. On a GPU the copies go by a stream of the gauge's own, beside the kernels.
 * The parts are copied one after the other, so while kernels run a sample is approximate: what is
 * on its way between two hands may count twice or not at all. Of a quiet heap it is exact, and
 * equal to wh_heap_get_stats.
 *
 * Heaps of the allocator `tessera`, the default one, with reserve_bytes or without.
 *
 * Threads. A gauge may be used by any host thread, by several at a time, while others launch
 * kernels and call the heap. wh_heap_extend and wh_heap_trim wait for a sample, and the other way.
 * wh_heap_destroy waits for samples that are under way. A gauge that is still open then reads
 * BAD_ARGUMENT, publishes no more, and is to be closed as ever.
 */
#ifndef WH_GAUGE_H
#define WH_GAUGE_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_gauge wh_gauge;

/* Opens a gauge on a heap; any number may be open. Errors: BAD_ARGUMENT, UNSUPPORTED (another
 * allocator), OUT_OF_MEMORY, DEVICE_ERROR; *gauge is NULL then. Cost: a stream, and 1 MiB of the
 * host's memory, pinned on a GPU. */
wh_status wh_gauge_open(wh_gauge **gauge, wh_heap *heap);

/* Ends what wh_gauge_publish began, and closes the gauge. Returns the first error of its
 * publishing, if there was one, with its text (wh_last_error_text); the gauge is gone all the same.
 * NULL is ignored. */
wh_status wh_gauge_close(wh_gauge *gauge);

/* A sample of now. depth: WH_GAUGE_CHUNKS or WH_GAUGE_BLOCKS. Errors: BAD_ARGUMENT (also: the heap
 * has been destroyed), WRONG_BUILD (the size of *sample is none that this library knows),
 * OUT_OF_MEMORY, DEVICE_ERROR, also that of a kernel that failed; IO_ERROR: it is right, and could
 * not be published.
 *
 * Cost: it copies sample->read_bytes from the device and waits for that, not for kernels. CHUNKS:
 * 20 KiB for each shard, of which there are as many as SMs, and 2 bytes for each KiB of 16 of the
 * heap: 4 MiB for 8 GiB on 132 SMs, 20 MiB for 139 GiB. BLOCKS: besides 160 bytes for each chunk of
 * 16 KiB, of those parts of 64 MiB in which a chunk is in use: at most 1 % of the heap. `bytes`:
 * sizeof *sample, as the inline function says it. */
wh_status wh_gauge_read_sized(wh_gauge *gauge, uint32_t depth, wh_gauge_sample *sample,
                              size_t bytes);
static inline wh_status wh_gauge_read(wh_gauge *gauge, uint32_t depth, wh_gauge_sample *sample) {
    return wh_gauge_read_sized(gauge, depth, sample, sizeof *sample);
}

/* From now on each sample goes to the file `path`, too, for `warpheap top` and
 * wh_gauge_read_file. interval_ms: a thread of the library's takes one of this depth so often,
 * until the gauge is closed; 0: no thread, what the program reads is published. A first sample is
 * taken and published before the call returns.
 *
 * The file stays when the gauge is closed. One that is there is written over if it is a gauge's and
 * no program publishes to it. Errors: BAD_ARGUMENT (also: it publishes already), IO_ERROR (the text
 * has the reason), BAD_FORMAT (the file is no gauge's: it is left alone), OUT_OF_MEMORY (no
 * thread), those of wh_gauge_read. On failure nothing is published, and no new file stays. */
wh_status wh_gauge_publish(wh_gauge *gauge, const char *path, uint32_t depth, uint32_t interval_ms);

/* What such a file says. */
#define WH_GAUGE_LIVE 0u  /* the program publishes */
#define WH_GAUGE_ENDED 1u /* it has closed its gauge: the last sample */
#define WH_GAUGE_GONE 2u  /* it has ended without that, also if a child of it lives on */
typedef struct wh_gauge_view {
    uint64_t struct_bytes; /* filled in: sizeof this struct */
    uint64_t pid;
    uint32_t state; /* WH_GAUGE_LIVE, ... */
    uint32_t interval_ms;
    char program[64]; /* these cut to fit */
    char allocator[32];
    char device[128];
    wh_gauge_sample sample;
} wh_gauge_view;

/* Reads the file that a gauge publishes to. Another program may do so, of the same machine. Errors:
 * BAD_ARGUMENT, IO_ERROR (there is no such file, or it cannot be read), BAD_FORMAT (it is no
 * gauge's, or cut short), WRONG_BUILD (a gauge's of another version, or `bytes` is not the
 * size that this library knows). `bytes`: sizeof *view, as the inline function says it; what *view
 * held before is not read, but by other languages, which load the symbol wh_gauge_read_file and set
 * view->struct_bytes before the call. Cost: a small file is opened and read. */
wh_status wh_gauge_read_file_sized(const char *path, wh_gauge_view *view, size_t bytes);
static inline wh_status wh_gauge_read_file(const char *path, wh_gauge_view *view) {
    return wh_gauge_read_file_sized(path, view, sizeof *view);
}

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

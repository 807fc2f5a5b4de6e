/* types.h: status codes, statistics, capability bits, and what options begin with. Plain C11 and
 * C++, also CUDA C++ without a host half (NVRTC); knows nothing of targets. docs/GLOSSARY.md has
 * the words that the headers use.
 */
#ifndef WH_TYPES_H
#define WH_TYPES_H

#include "warpheap/detail/simt/target.h"
#include "warpheap/detail/version.h"

#include "warpheap/detail/simt/begin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text) */
#define WH_STATUS_LIST(X)                                                                          \
    X(OK, "success")                                                                               \
    X(BAD_ARGUMENT, "an argument is out of its documented range")                                  \
    X(HEAP_TOO_SMALL, "the heap is smaller than this allocator needs")                             \
    X(UNKNOWN_ALLOCATOR, "no allocator of that name is built in")                                  \
    X(WRONG_ALLOCATOR, "the heap belongs to another allocator than this code uses")                \
    X(NO_DEVICE, "no such device: no GPU, no driver, or a library without CUDA "                   \
                 "(wh_last_error_text says which, and what to do)")                                \
    X(OUT_OF_MEMORY, "the device or the host has not enough memory")                               \
    X(UNSUPPORTED, "this allocator, or this class of graphs, does not offer that")                 \
    X(DEVICE_ERROR, "the device reported an error (wh_device_error_text has more)")                \
    X(CORRUPT, "a heap check found a broken invariant")                                            \
    X(IO_ERROR, "a file could not be read or written")                                             \
    X(BAD_FORMAT, "a file does not have the expected format")                                      \
    X(WRONG_TARGET, "the heap lies on another kind of device than this code runs on: "             \
                    "a GPU or the simulated device")                                               \
    X(WRONG_BUILD, "the library was built from other headers than this code: another "             \
                   "version, another layout of the heap, or another build option")                 \
    X(NO_VERTEX, "some ends of arcs, or entries of a list, are no vertices; the rest was applied") \
    X(RESERVE_FULL, "the heap's reserved address space has no room for as much")                   \
    X(NO_PEER_ACCESS, "kernels of one GPU cannot address the other one's memory")                  \
    X(NO_PEER_ATOMICS, "the link between two GPUs has no atomics")

typedef enum wh_status {
#define WH_STATUS_ENUM_(name, text) WH_##name,
    WH_STATUS_LIST(WH_STATUS_ENUM_)
#undef WH_STATUS_ENUM_
        WH_STATUS_COUNT
} wh_status;

#if WH_HAS_HOST
/* The symbolic name ("WH_OK") and the one-line meaning of a status. Never NULL. */
const char *wh_status_name(wh_status status);
const char *wh_status_text(wh_status status);

/* One line about the last of this host thread's wh_device_open, wh_heap_create, wh_heap_min_bytes,
 * wh_heap_handle, wh_heap_grow, wh_heap_compact, wh_heap_extend, wh_heap_trim,
 * wh_heap_growth_start, wh_heap_growth_stop, wh_heap_enable_peer, wh_heap_check_blocks,
 * wh_heap_register_blocks, wh_heap_make_calls, wh_heap_abi1_handle, calls of records.h, snapshot.h,
 * graph.h and its fellows, ops.h, kdtree.h or checkpoint.h: why it failed and what to do about it;
 * "" if it succeeded, or the status says all, or it is DEVICE_ERROR, of which wh_device_error_text
 * has the line. Likewise, where such a thing came after it, about a launch that was refused and a
 * device call made on the host. Never NULL; the text changes with the thread's next such call. */
const char *wh_last_error_text(void);

/* For calls in __host__ __device__ code only (simt/cuda.h): keeps a line, a literal, for
 * wh_last_error_text. */
void wh_note_host_call(const char *line);

/* WH_VERSION of the library's own headers; this file's is WH_VERSION. */
uint32_t wh_version(void);
#endif

/* What an allocator can do. Conformance tests skip exactly what a missing bit
 * names; `warpheap info` prints the record. X(bit, NAME, "short", "meaning") */
#define WH_CAP_LIST(X)                                                                     \
    X(0, DISJOINT, "disjoint", "live blocks never overlap")                                \
    X(1, FREE, "free", "freed memory is handed out again")                                 \
    X(2, ANY_SIZE, "any-size", "every size up to the heap less metadata")                  \
    X(3, EXACT_OOM, "exact-oom", "NULL only after a full search found nothing")            \
    X(4, USABLE_SIZE, "usable-size", "usable_size and realloc work")                       \
    X(5, ALIGNED, "aligned", "aligned_alloc up to max_align")                              \
    X(6, OWNS, "owns", "owns tells the heap's memory from other memory")                   \
    X(7, STATS, "stats", "statistics: used bytes and blocks")                              \
    X(8, WALK, "walk", "walk lists every live block")                                      \
    X(9, CHECK, "check", "check verifies the heap's invariants")                           \
    X(10, BAD_FREE, "bad-free", "a foreign or interior pointer given to free is rejected") \
    X(11, SIM, "sim", "runs on the simulated device")                                      \
    X(12, RESET, "reset", "reset returns the heap to its first state")                     \
    X(13, OWN_MEMORY, "own-memory", "blocks lie in the heap's own memory")                 \
    X(14, GROW, "grow", "grow moves the heap to a larger region, contents kept")           \
    X(15, LEFT, "left", "tells how many blocks of a size are left")                        \
    X(16, RESERVE, "reserve", "extend and trim map and give back reserved address space")  \
    X(17, COMPACT, "compact", "compact takes free memory out of the queues of its size")   \
    X(18, PEERS, "peers", "kernels of several GPUs may use the heap at once")

typedef enum wh_cap {
#define WH_CAP_ENUM_(bit, name, text, meaning) WH_CAP_##name = 1 << bit,
    WH_CAP_LIST(WH_CAP_ENUM_)
#undef WH_CAP_ENUM_
} wh_cap;

/* What the options of an allocator begin with: wh_<family>_options of warpheap/options.h. */
typedef struct wh_options_head {
    const char *family;    /* "tessera" */
    uint64_t struct_bytes; /* sizeof the whole struct */
} wh_options_head;

/* For the options.h of a family: a field of the struct, and its initialiser. */
#define WH_OPTION_FIELD(family, name, meaning) uint64_t name;
#define WH_OPTION_ZERO(family, name, meaning) , 0
#define WH_OPTIONS_INITIAL(family, list) \
    { {#family, sizeof(wh_##family##_options)} list(WH_OPTION_ZERO) }

/* Totals over a quiet heap (no kernel running). A field that the allocator does
 * not track is WH_UNKNOWN. */
#define WH_UNKNOWN UINT64_MAX
#define WH_STATS_CLASSES 64
typedef struct wh_class_stats {
    uint64_t block_bytes; /* bytes a block of this class takes */
    uint64_t live;        /* blocks handed out and not freed */
    uint64_t capacity;    /* blocks that the memory now given to the class can hold */
} wh_class_stats;

typedef struct wh_stats {
    uint64_t struct_bytes;   /* filled in: sizeof this struct (loaded symbols: set before) */
    uint64_t heap_bytes;     /* whole heap, metadata included; a reserved one: all that is mapped */
    uint64_t metadata_bytes; /* not available to blocks */
    uint64_t used_bytes;     /* sum of the usable sizes of live blocks */
    uint64_t peak_bytes;     /* the most that it has been since create or reset; a block counts
                                until its free returns. Needs the option track_peak */
    uint64_t live_blocks;
    uint64_t largest_free; /* largest block that malloc could return now; Ouroboros: but for what
                            * it would first have to merge */
    uint64_t failed;       /* mallocs that returned NULL for n > 0 */
    uint64_t bad_frees;    /* rejected frees: foreign, interior or double */
    uint64_t mallocs;      /* blocks handed out since create or reset, and given back. Need */
    uint64_t frees;        /* the option track_totals */
    uint32_t n_classes;
    uint32_t timed_out; /* of `failed`: those that waited for growth (heap.h) to the end of their
                           time. So many may have found memory if they had waited longer */
    wh_class_stats classes[WH_STATS_CLASSES];
} wh_stats;

/* What a gauge read of a heap while kernels use it (gauge.h): each figure is of about that moment,
 * and may be a little wrong. WH_UNKNOWN: not known. */
#define WH_GAUGE_CHUNKS 0u /* how deep it looks: bytes that classes, large blocks have */
#define WH_GAUGE_BLOCKS 1u /* also bytes and number of live blocks: a longer look */
typedef struct wh_gauge_sample {
    uint64_t struct_bytes; /* filled in: sizeof this struct */
    uint64_t time_ns;      /* since 1970, when the look began */
    uint64_t took_ns;      /* ... and how long it took */
    uint64_t read_bytes;   /* copied from the device for it */
    uint64_t heap_bytes;   /* these two as in wh_stats */
    uint64_t metadata_bytes;
    uint64_t claimed_bytes; /* in use or held ready: not free for blocks of any size */
    uint64_t used_bytes;    /* of live blocks, as in wh_stats; WH_GAUGE_CHUNKS: with the option
                               track_peak alone */
    uint64_t live_blocks;   /* WH_UNKNOWN with WH_GAUGE_CHUNKS */
    uint64_t failed;        /* these two as in wh_stats: since create or reset */
    uint64_t bad_frees;
    uint64_t peak_bytes; /* with the option track_peak, as in wh_stats */
    uint64_t mallocs;    /* with the option track_totals: blocks handed out */
} wh_gauge_sample;

/* An allocation that found the heap full: what WH_ON_OOM gets (warpheap.h). */
typedef struct wh_oom_event {
    size_t bytes;     /* asked for; SIZE_MAX: count * size overflowed */
    uint64_t thread;  /* wh_thread_id() */
    const char *call; /* "wh_malloc" */
    const char *file; /* where the call stands */
    uint32_t line;
} wh_oom_event;

/* What a whole-heap check found. */
typedef struct wh_report {
    uint64_t errors;      /* broken invariants; 0 = sound */
    uint64_t first_tag;   /* number of the first broken invariant (I<n>), 0 = none */
    uint64_t first_where; /* allocator's own index of the place (segment, block, slot) */
} wh_report;

/* What wh_heap_compact has done. */
typedef struct wh_compaction {
    uint64_t queued;  /* entries that the queues had before: free blocks, or with variants of
                         Ouroboros whose queues hold chunks, chunks with free blocks */
    uint64_t removed; /* of these, those that it took out */
    uint64_t chunks;  /* that serve any size again, those that the queues lay on included */
    uint64_t bytes;   /* of these chunks */
} wh_compaction;

#ifdef __cplusplus
}
#endif

#include "warpheap/detail/simt/end.h"

#endif

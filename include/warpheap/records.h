/* records.h: what went wrong in kernels, as a heap notes it in memory of the host: wrong frees and
 * overwritten blocks of a checked heap, and allocations that failed. C11 and C++.
 * docs/CHECKED.md begins with examples.
 *
 * A heap has two lists of records. Violations: of a heap with the option tessera.checked. Failures:
 * of one with tessera.failure_records. Each list has room for so many, as the options say. What
 * comes while there is no room is counted, and no more: so the host has the first ones since it
 * looked last. The lists lie in memory of the host, so they can be read while a kernel runs, and
 * after one has died.
 *
 * Heaps of the allocator `tessera`, the default one.
 */
#ifndef WH_RECORDS_H
#define WH_RECORDS_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, status, "what happened"): violations, and from OUT_OF_MEMORY on failures. */
#define WH_RECORD_KIND_LIST(X)                                                             \
    X(DOUBLE_FREE, CORRUPT, "a block is freed that has been freed before")                 \
    X(INTERIOR_FREE, CORRUPT, "a pointer into a block is freed that is not its start")     \
    X(MISALIGNED_FREE, CORRUPT, "a pointer is freed that is no multiple of 16")            \
    X(STALE_FREE, CORRUPT, "a pointer is freed where the heap has no block")               \
    X(FOREIGN_FREE, CORRUPT, "a pointer is freed that does not lie in the heap")           \
    X(OVERRUN, CORRUPT, "something was written behind the end of a block")                 \
    X(UNDERRUN, CORRUPT, "something was written before the start of a block")              \
    X(USE_AFTER_FREE, CORRUPT, "something was written to a block after its free")          \
    X(LEAK, CORRUPT, "a block has not been freed")                                         \
    X(OUT_OF_MEMORY, OUT_OF_MEMORY, "the heap was full")                                   \
    X(TOO_LARGE, BAD_ARGUMENT, "more was asked for than the whole heap has")               \
    X(GROWTH_REFUSED, OUT_OF_MEMORY, "the heap was full, and the host had no more for it") \
    X(GROWTH_TIMED_OUT, OUT_OF_MEMORY, "the heap was full, and the host did not answer in time")

typedef enum wh_record_kind {
#define WH_RECORD_ENUM_(name, status, text) WH_RECORD_##name,
    WH_RECORD_KIND_LIST(WH_RECORD_ENUM_)
#undef WH_RECORD_ENUM_
        WH_RECORD_KINDS
} wh_record_kind;

/* A place in the program: warpheap.h says how calls tell theirs. */
typedef struct wh_record_site {
    char file[52]; /* the end of its name; "": `line` is the number of a tag, 0: not known */
    uint32_t line;
} wh_record_site;

/* New fields come at the end. */
typedef struct wh_record {
    uint64_t number;     /* of its list, from 0 on */
    uint32_t kind;       /* a wh_record_kind */
    uint32_t block;      /* of the thread that made the call: wh_block_id(), and */
    uint64_t thread;     /* wh_thread_id(); WH_UNKNOWN: wh_heap_check_blocks found it */
    uint64_t address;    /* the pointer of the call, or the start of the block; failures: 0 */
    uint64_t bytes;      /* asked for: of the block, 0: not known; failures: of the call */
    int64_t offset;      /* of the first byte that is wrong, from the block's start; wrong frees:
                            of the pointer; failures: 0 */
    wh_record_site site; /* the call that found it, or failed */
    wh_record_site allocated; /* the call that allocated the block */
    wh_record_site freed;     /* ... and freed it, if one has */
    /* Failures: the heap at that moment, while others changed it. */
    uint64_t free_bytes;    /* of chunks that nobody has */
    uint64_t largest_free;  /* ... in a row */
    uint64_t class_bytes;   /* a block of the size class takes; 0: it is larger than any class */
    uint64_t class_partial; /* slabs of the class that have, or had a moment ago, free slots */
} wh_record;

/* Whether it is of the list of failures. */
#define WH_RECORD_IS_FAILURE(kind) ((kind) >= WH_RECORD_OUT_OF_MEMORY)

#if WH_HAS_HOST

/* Takes records out of a list, the oldest first: *n of them, `room` at most, to records[]. A record
 * is handed out once. record_bytes: sizeof(wh_record). Waits for nothing: it has what kernels have
 * noted by now, all of them after wh_device_sync, also one that failed. Errors: BAD_ARGUMENT;
 * UNSUPPORTED: the heap has no such list, its options say; WRONG_BUILD.
 * By one host thread at a time. Cost: a look at host memory. */
wh_status wh_heap_violations(wh_heap *heap, wh_record *records, size_t record_bytes, uint32_t room,
                             uint32_t *n);
wh_status wh_heap_failures(wh_heap *heap, wh_record *records, size_t record_bytes, uint32_t room,
                           uint32_t *n);

/* How often each kind has come since the heap was created, also where there was no room for a
 * record: counts[kind] for kind < n. Kinds of a list that the heap does not have are 0.
 * BAD_ARGUMENT. */
wh_status wh_heap_record_counts(wh_heap *heap, uint64_t *counts, uint32_t n);

/* "DOUBLE_FREE"; "" for a number that is no kind. */
const char *wh_record_name(uint32_t kind);
/* The status that goes with a kind: CORRUPT, OUT_OF_MEMORY or BAD_ARGUMENT (too large). */
wh_status wh_record_status(uint32_t kind);
/* One line about a record, cut to `room` bytes with its 0. Returns text. */
const char *wh_record_text(const wh_record *record, char *text, size_t room);

/* Looks at all blocks of a checked heap, live ones and those in quarantine, and notes what has been
 * overwritten. with_leaks: not 0: also a LEAK for each live block. *found: how many records came of
 * it, also where there was no room for them (may be NULL). Waits for all work of the device; no
 * kernel may use the heap. What it has noted once it notes again the next time. Returns OK also if
 * something was found. Errors: BAD_ARGUMENT, UNSUPPORTED (the heap is not checked), DEVICE_ERROR.
 * Cost: one kernel that reads all that is in use. */
wh_status wh_heap_check_blocks(wh_heap *heap, int with_leaks, uint64_t *found);

#endif /* WH_HAS_HOST */

#ifdef __cplusplus
}
#endif

#include "warpheap/detail/simt/end.h"

#endif

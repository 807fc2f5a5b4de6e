/* conform.h: what the conformance suite's kernels offer to its host program: one table
 * of launchers per (allocator, target), filled in by conform_kernels.c. Plain C11 and
 * C++; knows nothing of targets.
 *
 * Kernels work on items 0..n-1: item k has a requested size, a pointer, and a pattern of
 * its own that covers the whole block. Which threads work is the shape of the call:
 * those whose lane is in `lanes`; they share the items out among themselves.
 */
#ifndef WH_CONFORM_H
#define WH_CONFORM_H

#include "warpheap/heap.h"

typedef struct conform_handle {
    uint64_t words[32];
} conform_handle;

typedef struct conform_pool {
    uint64_t words[48];
} conform_pool;

/* What a kernel finds wrong. X(NAME, "text") */
#define CONFORM_ERROR_LIST(X)                                               \
    X(NOT_NULL, "a pointer for a request that must get NULL")               \
    X(UNEXPECTED_NULL, "NULL although memory was free")                     \
    X(MISALIGNED, "a block is not aligned as promised")                     \
    X(NOT_OWNED, "wh_owns denies a block of the heap")                      \
    X(OWNED, "wh_owns claims memory that is not the heap's")                \
    X(OUTSIDE, "a block reaches outside the heap's memory")                 \
    X(USABLE, "wh_usable_size is less than what was asked for")             \
    X(USABLE_OF_NULL, "wh_usable_size of NULL is not 0")                    \
    X(CONTENTS, "a block's contents have changed: blocks overlap")          \
    X(NOT_ZERO, "wh_calloc returned memory that is not zero")               \
    X(LANES_DIFFER, "lanes got different pointers from one wh_malloc_warp") \
    X(VOTE, "lanes of a part of a warp heard what none of them said")       \
    X(TOO_MANY, "more blocks than the heap has room for")                   \
    X(MOVED, "wh_realloc moved a block that it promises to keep in place")

typedef enum conform_error {
    CONFORM_NONE,
#define CONFORM_ENUM_(name, text) CONFORM_##name,
    CONFORM_ERROR_LIST(CONFORM_ENUM_)
#undef CONFORM_ENUM_
} conform_error;

/* Device memory; kernels add to it with atomics. */
typedef struct conform_result {
    uint64_t errors;
    uint64_t first_error; /* conform_error */
    uint64_t first_item;
    uint64_t served; /* blocks handed out */
    uint64_t nulls;  /* NULL for a size > 0 */
    uint64_t ticket; /* exhaust: next free item */
} conform_result;

typedef enum conform_how { CONFORM_MALLOC, CONFORM_CALLOC, CONFORM_ALIGNED } conform_how;

typedef struct conform_call {
    conform_handle heap, other;
    conform_pool pool;  /* of min_size bytes */
    uint32_t caps;      /* of the allocator */
    uint32_t lanes;     /* lanes of each warp that work */
    uint32_t divergent; /* lanes skip rounds, each in its own rhythm */
    uint32_t how;       /* conform_how */
    uint64_t low, high; /* the heap's memory */
    uint64_t n;         /* items */
    void **ptrs;        /* by item */
    uint64_t *sizes;    /* by item: requested */
    uint64_t *usable;   /* by item: bytes that carry its pattern */
    uint64_t *aligns;   /* by item, CONFORM_ALIGNED */
    uint64_t *sizes2;   /* by item, resize: the new size */
    uint32_t *order;    /* position -> item: who works on which item */
    uint64_t seed;
    uint64_t min_size, max_size; /* churn; exhaust takes min_size */
    uint32_t steps, hold;        /* churn: per thread; hold at most CONFORM_HOLD */
    uint32_t strict;             /* churn: NULL is an error */
    uint32_t max_align;
    uint64_t huge; /* SIZE_MAX */
    conform_result *result;
} conform_call;

#define CONFORM_HOLD 4u

typedef wh_status (*conform_launcher)(const wh_launch *launch, const conform_call *call);

typedef struct conform_kernels {
    wh_status (*bind)(const wh_heap *heap, conform_handle *handle);
    wh_status (*bind_pool)(const wh_heap *heap, uint64_t bytes, conform_pool *pool);
    conform_launcher edges;          /* what must give NULL or do nothing */
    conform_launcher allocate;       /* items whose pointer is NULL */
    conform_launcher allocate_lanes; /* the same by wh_malloc_lanes */
    conform_launcher allocate_warp;  /* item = warp, by wh_malloc_warp; fills it */
    conform_launcher fill;           /* writes every block's pattern */
    conform_launcher verify;         /* checks it */
    conform_launcher release;        /* frees and forgets items[order[i]] */
    conform_launcher release_lanes;
    conform_launcher release_warp;  /* checks and frees item = warp */
    conform_launcher resize;        /* wh_realloc to sizes2, checks what is kept, fills */
    conform_launcher exhaust;       /* every thread allocates min_size until NULL */
    conform_launcher churn;         /* malloc and free with at most `hold` blocks a thread */
    conform_launcher churn_two;     /* the same, called from two places */
    conform_launcher pool_allocate; /* items without a pointer: of min_size, the pool's, by it and
                                       by pools made in the kernel; others by wh_malloc */
    conform_launcher pool_lanes;    /* all of the pool's, by wh_pool_malloc_lanes */
    conform_launcher pool_warp;     /* item = warp, by wh_pool_malloc_warp; fills it */
    conform_launcher pool_exhaust;  /* as exhaust, by wh_pool_malloc */
    conform_launcher pool_release;  /* as release, by wh_pool_free and wh_free */
    conform_launcher pool_release_lanes;
    conform_launcher pool_release_warp;
    conform_launcher parts;     /* parts of warps vote; no heap */
    conform_launcher left;      /* served: blocks of min_size that are left, says one lane */
    conform_launcher two_heaps; /* even items from heap, odd ones from other */
    conform_launcher release_two;
} conform_kernels;

/* The table of an allocator on a target; NULL: it does not run there. */
const conform_kernels *conform_kernels_find(const char *allocator, wh_target target);

#endif

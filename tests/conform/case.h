/* case.h: what a case of the conformance suite may use: the context of its run, checks, arrays,
 * kernels, heaps. A case is a function in one of this folder's files and a line of CONFORM_CASES.
 * The names are this program's alone, so they have no prefix. */
#ifndef WH_CONFORM_CASE_H
#define WH_CONFORM_CASE_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"
#include "suite.h"
#include "warpheap/core/size_class.h"

/* --- a run of a case ------------------------------------------------------------------------- */

typedef struct shape {
    uint32_t blocks, threads, lanes, divergent;
    const char *name;
} shape;

#define N_SHAPES 9u
extern const shape shapes[N_SHAPES];

typedef struct context {
    const wh_allocator_info *info;
    const conform_kernels *kernels;
    const char *target; /* "sim", "cuda" */
    uint64_t seed, random;
    uint32_t policy, shape, config;

    wh_device *device;
    wh_device *peer;  /* of case peers; else NULL */
    void *streams[2]; /* of the device and of the peer */
    wh_launch launch;
    uint32_t workers, warps;
    wh_heap *heap;
    wh_heap_options options;
    wh_any_options own; /* where options.options lies */
    int checked;        /* the heap is a checked one, which must find nothing wrong */
    int by_pool;        /* the heap is filled by a pool, and emptied by one */
    uint64_t segment;   /* of the next heap; 0: as the configuration says */
    void *raw;          /* the device memory that the heap's memory is a part of */
    conform_call call;
    conform_result result; /* of the last kernel */
    uint64_t room;         /* items that the arrays hold */
    uint64_t data;         /* bytes of the heap that blocks can have */
    uint64_t largest;      /* block that the empty heap can give, if not every size */
    void **ptrs;           /* the arrays on the host: pull and push */
    uint64_t *sizes, *usable, *aligns, *sizes2;
    uint32_t *order;

    jmp_buf failed;
    char text[600];
} context;

void fail(context *x, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void ok(context *x, wh_status s, const char *what);

/* The part of a path behind its folders. */
const char *base_name(const char *path);

#define CHECK(x, condition)                                                          \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fail(x, "%s:%d: not so: %s", base_name(__FILE__), __LINE__, #condition); \
        }                                                                            \
    } while (0)

#define CHECK_EQUAL(x, got, expected)                                                             \
    do {                                                                                          \
        const uint64_t got_ = (got), expected_ = (expected);                                      \
        if (got_ != expected_) {                                                                  \
            fail(x, "%s:%d: %s is %" PRIu64 ", not %s = %" PRIu64, base_name(__FILE__), __LINE__, \
                 #got, got_, #expected, expected_);                                               \
        }                                                                                         \
    } while (0)

#define OK(x, call) ok(x, call, #call)

uint64_t random_of(context *x);
int can(const context *x, uint32_t caps);

/* --- device arrays --------------------------------------------------------------------------- */

void *device_take(context *x, uint64_t bytes);
void free_items(context *x);

/* Arrays for n items: no pointers, order 0, 1, 2, ... */
void make_items(context *x, uint64_t n);

#define PULL(x, array) \
    OK(x,              \
       wh_device_copy_out(x->device, (x)->array, (x)->call.array, (x)->room * sizeof *(x)->array))
#define PUSH(x, array) \
    OK(x, wh_device_copy_in(x->device, (x)->call.array, (x)->array, (x)->room * sizeof *(x)->array))

void shuffle(context *x);

/* --- kernels --------------------------------------------------------------------------------- */

void run(context *x, conform_launcher kernel, const char *name);
#define RUN(x, kernel) run(x, (x)->kernels->kernel, #kernel)

/* The next kernels run with one thread; returns the launch to go back to. */
wh_launch alone(context *x);
void together(context *x, wh_launch l);

/* One block for an item, and back, by the threads of the launch. */
uint64_t allocate_one(context *x, uint64_t item, uint64_t size);
void release_one(context *x, uint64_t item);

/* --- heaps ----------------------------------------------------------------------------------- */

wh_stats stats(context *x);

/* The heap's invariants. */
void inspect(context *x);

void drop_heap(context *x);

/* A heap of that many bytes in memory that is not zero. */
void make_heap(context *x, uint64_t bytes);

int is_bump(const context *x);
int layout_of(const context *x, uint64_t n, suite_layout *l);

/* An allocator may cap its requests by design. */
uint64_t capped(const context *x, uint64_t n);

uint64_t random_size(context *x, uint64_t max);

/* Largest request of the mixed cases: up to several segments. */
uint64_t some_max(context *x);

uint64_t some_items(context *x);

/* n items of mixed sizes. Returns whether the heap must have room for all of them at
 * once, whatever the order. */
int mixed_items(context *x, uint64_t n, uint64_t max);

/* Statistics agree with what the items say is live. */
void check_used(context *x);

void check_empty(context *x);

/* Mixed sizes come and go, so that no part of the heap is in its first state. */
void wear(context *x);

/* --- a heap that is filled (full.c) ---------------------------------------------------------- */

/* Whether this seed goes without limits of size. */
int is_wide(const context *x);

/* A request size of any kind that the heap can serve. */
uint64_t some_size(context *x);

/* The least size of blocks that are to fill a heap of that many bytes. */
uint64_t least_size(const context *x, uint64_t bytes);

/* How many blocks of n bytes the heap holds at most; UINT64_MAX if that is not known. */
uint64_t capacity_for(const context *x, uint64_t n);

/* Fills the heap with blocks of one size by all threads (or one), with by_pool by a pool; checks
 * that all are disjoint. Returns their number. */
uint64_t fill_up(context *x, uint64_t n);

/* The heap holds what its class layout says, from one thread as from many, and again
 * after every block has been freed. */
void check_capacity(context *x, int many);

/* --- the cases ------------------------------------------------------------------------------- */

/* Of a case that knows how much of the heap blocks take, or frees what it must not: it is left out
 * for checked heaps. Beside the bits of wh_cap. */
#define CASE_PLAIN (1u << 31)

/* X(function, "name", capability bits without which the case is skipped) */
#define CONFORM_CASES(X)                                                                         \
    X(case_edges, "edges", 0)                                                                    \
    X(case_parts, "parts", 0)                                                                    \
    X(case_addresses, "addresses", WH_CAP_RESET)                                                 \
    X(case_mixed, "mixed", WH_CAP_DISJOINT)                                                      \
    X(case_lanes, "lanes", WH_CAP_DISJOINT)                                                      \
    X(case_warp, "warp", WH_CAP_DISJOINT)                                                        \
    X(case_calloc, "calloc", WH_CAP_DISJOINT)                                                    \
    X(case_realloc, "realloc", WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_USABLE_SIZE)               \
    X(case_aligned, "aligned", WH_CAP_DISJOINT | WH_CAP_ALIGNED)                                 \
    X(case_full_one, "full-one", WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY | CASE_PLAIN)               \
    X(case_full_many, "full-many", WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY | CASE_PLAIN)             \
    X(case_left, "left", CASE_PLAIN)                                                             \
    X(case_pool, "pool", WH_CAP_DISJOINT)                                                        \
    X(case_pool_warp, "pool-warp", WH_CAP_DISJOINT)                                              \
    X(case_pool_one, "pool-one", WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY | CASE_PLAIN)               \
    X(case_pool_many, "pool-many", WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY | CASE_PLAIN)             \
    X(case_full_reuse, "full-reuse", WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_EXACT_OOM)           \
    X(case_never_null, "never-null", WH_CAP_FREE | WH_CAP_EXACT_OOM | WH_CAP_STATS | CASE_PLAIN) \
    X(case_pressure, "pressure", WH_CAP_DISJOINT | WH_CAP_FREE | CASE_PLAIN)                     \
    X(case_places, "places", WH_CAP_DISJOINT | WH_CAP_FREE)                                      \
    X(case_large, "large", WH_CAP_DISJOINT | WH_CAP_ANY_SIZE | CASE_PLAIN)                       \
    X(case_runs, "runs",                                                                         \
      WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_STATS | CASE_PLAIN)              \
    X(case_bad_free, "bad-free", WH_CAP_FREE | WH_CAP_BAD_FREE | WH_CAP_STATS | CASE_PLAIN)      \
    X(case_reset, "reset", WH_CAP_RESET | CASE_PLAIN)                                            \
    X(case_stats, "stats", WH_CAP_STATS)                                                         \
    X(case_grow, "grow", WH_CAP_GROW | WH_CAP_DISJOINT | WH_CAP_FREE)                            \
    X(case_heaps, "heaps", WH_CAP_OWN_MEMORY)                                                    \
    X(case_peers, "peers", WH_CAP_PEERS | WH_CAP_DISJOINT)

#define CONFORM_DECLARE_(function, name, needs) void function(context *x);
CONFORM_CASES(CONFORM_DECLARE_)
#undef CONFORM_DECLARE_

#endif

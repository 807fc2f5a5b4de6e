/* conform.c: the conformance suite: what every allocator of alloc/list.h must do, less
 * what its capability record leaves out; each left-out case is printed with the missing
 * bit. On the simulated device with every policy and WH_TEST_SEEDS seeds, on the first
 * GPU too where there is one, in every shape of call.
 *
 *   conform [alloc=NAME] [case=NAME] [target=sim|cuda] [seed=N] [policy=NAME] [shape=N]
 *           [config=N] [seeds=N]
 * runs only what the words name: a failure prints the words that repeat it. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"
#include "suite.h"
#include "built_list.h"
#include "warpheap/core/size_class.h"

/* --- tables of kernels ----------------------------------------------------------------- */

WH_TABLES(conform_kernels, conform_kernels_find)

/* --- shapes and heaps --------------------------------------------------------------------- */

typedef struct shape {
    uint32_t blocks, threads, lanes, divergent;
    const char *name;
} shape;

static const shape shapes[] = {
    {1, 1, ~0u, 0, "one thread"},
    {2, 64, ~0u, 0, "uniform"},
    {2, 64, ~0u, 1, "divergent"},
    {4, 64, 1u << 9, 0, "one lane per warp"},
    {2, 96, 0x5a3c0f71u, 1, "odd mask"},
    {3, 45, ~0u, 1, "partial warps"},
    {3, 45, 0x00001b6du, 0, "partial warps, odd mask"},
    {8, 7, ~0u, 0, "blocks of 7 threads"},
    {1, 1024, ~0u, 0, "blocks of 1024 threads"},
};
#define N_SHAPES ((uint32_t)(sizeof shapes / sizeof *shapes))
#define LARGE_SHAPE 8u /* not with every seed: it takes long */

/* --- one run of one case -----------------------------------------------------------------------
 */

typedef struct context {
    const wh_allocator_info *info;
    const conform_kernels *kernels;
    const char *target; /* "sim", "cuda" */
    uint64_t seed, random;
    uint32_t policy, shape, config;

    wh_device *device;
    wh_launch launch;
    uint32_t workers, warps;
    wh_heap *heap;
    wh_heap_options options;
    uint64_t segment; /* of the next heap; 0: as the configuration says */
    void *raw;        /* the device memory that the heap's memory is a part of */
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

static void fail(context *x, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

static void fail(context *x, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(x->text, sizeof x->text, format, args);
    va_end(args);
    longjmp(x->failed, 1);
}

#define CHECK(x, condition)                                            \
    do {                                                               \
        if (!(condition)) {                                            \
            fail(x, "conform.c:%d: not so: %s", __LINE__, #condition); \
        }                                                              \
    } while (0)

#define CHECK_EQUAL(x, got, expected)                                                           \
    do {                                                                                        \
        const uint64_t got_ = (got), expected_ = (expected);                                    \
        if (got_ != expected_) {                                                                \
            fail(x, "conform.c:%d: %s is %" PRIu64 ", not %s = %" PRIu64, __LINE__, #got, got_, \
                 #expected, expected_);                                                         \
        }                                                                                       \
    } while (0)

static void ok(context *x, wh_status s, const char *what) {
    if (s != WH_OK) {
        fail(x, "%s: %s (%s)", what, wh_status_name(s),
             s == WH_DEVICE_ERROR ? wh_device_error_text(x->device) : wh_status_text(s));
    }
}
#define OK(x, call) ok(x, call, #call)

static uint64_t random_of(context *x) {
    return suite_random(&x->random);
}

static int can(const context *x, uint32_t caps) {
    return (x->info->caps & caps) == caps;
}

/* --- device arrays
 * -------------------------------------------------------------------------------- */

static void *device_take(context *x, uint64_t bytes) {
    void *p = NULL;
    OK(x, wh_device_alloc(x->device, &p, bytes));
    OK(x, wh_device_set(x->device, p, 0, bytes));
    return p;
}

#define ARRAYS(X) X(ptrs) X(sizes) X(usable) X(aligns) X(sizes2) X(order)

static void free_items(context *x) {
#define FREE_(array)                                \
    (void)wh_device_free(x->device, x->call.array); \
    free(x->array);                                 \
    x->call.array = NULL;                           \
    x->array = NULL;
    ARRAYS(FREE_)
#undef FREE_
    x->room = 0;
}

/* Arrays for n items: no pointers, order 0, 1, 2, ... */
static void make_items(context *x, uint64_t n) {
    free_items(x);
    x->room = n;
    x->call.n = n;
#define TAKE_(array)                                           \
    x->call.array = device_take(x, n * sizeof *x->call.array); \
    x->array = calloc(n, sizeof *x->array);                    \
    CHECK(x, x->array != NULL);
    ARRAYS(TAKE_)
#undef TAKE_
    for (uint64_t i = 0; i < n; i++) {
        x->order[i] = (uint32_t)i;
    }
    OK(x, wh_device_copy_in(x->device, x->call.order, x->order, n * sizeof *x->order));
}

#define PULL(x, array) \
    OK(x,              \
       wh_device_copy_out(x->device, (x)->array, (x)->call.array, (x)->room * sizeof *(x)->array))
#define PUSH(x, array) \
    OK(x, wh_device_copy_in(x->device, (x)->call.array, (x)->array, (x)->room * sizeof *(x)->array))

static void shuffle(context *x) {
    for (uint64_t i = x->call.n; i > 1; i--) {
        const uint64_t j = random_of(x) % i;
        const uint32_t t = x->order[i - 1];
        x->order[i - 1] = x->order[j];
        x->order[j] = t;
    }
    PUSH(x, order);
}

/* --- kernels
 * ------------------------------------------------------------------------------------------ */

static const char *const error_texts[] = {"no error",
#define TEXT_(name, text) text,
                                          CONFORM_ERROR_LIST(TEXT_)
#undef TEXT_
};

static void run(context *x, conform_launcher kernel, const char *name) {
    memset(&x->result, 0, sizeof x->result);
    OK(x, wh_device_copy_in(x->device, x->call.result, &x->result, sizeof x->result));
    ok(x, kernel(&x->launch, &x->call), name);
    ok(x, wh_device_sync(x->device), name);
    OK(x, wh_device_copy_out(x->device, &x->result, x->call.result, sizeof x->result));
    if (x->result.errors != 0) {
        const uint64_t item = x->result.first_item;
        fail(x, "kernel %s: %s (item %" PRIu64 " of size %" PRIu64 "; %" PRIu64 " errors)", name,
             error_texts[x->result.first_error], item,
             x->sizes != NULL && item < x->room ? x->sizes[item] : 0, x->result.errors);
    }
}
#define RUN(x, kernel) run(x, (x)->kernels->kernel, #kernel)

/* The next kernels run with one thread; returns the launch to go back to. */
static wh_launch alone(context *x) {
    const wh_launch l = x->launch;
    x->launch.blocks = 1;
    x->launch.threads = 1;
    x->call.lanes = ~0u;
    x->call.divergent = 0;
    return l;
}

static void together(context *x, wh_launch l) {
    x->launch = l;
    x->call.lanes = shapes[x->shape].lanes;
    x->call.divergent = shapes[x->shape].divergent;
}

/* --- heaps
 * ------------------------------------------------------------------------------------------------
 */

static wh_stats stats(context *x) {
    wh_stats s;
    OK(x, wh_heap_get_stats(x->heap, &s));
    return s;
}

/* The heap's invariants. */
static void inspect(context *x) {
    wh_report r;
    if (can(x, WH_CAP_CHECK)) {
        const wh_status s = wh_heap_check(x->heap, &r);
        if (s != WH_OK) {
            fail(x, "wh_heap_check: %s, %" PRIu64 " errors, first I%" PRIu64 " at %" PRIu64,
                 wh_status_name(s), r.errors, r.first_tag, r.first_where);
        }
    }
}

static void drop_heap(context *x) {
    wh_heap_destroy(x->heap);
    (void)wh_device_free(x->device, x->raw);
    x->heap = NULL;
    x->raw = NULL;
    x->options.memory = NULL;
}

/* A heap of that many bytes in memory that is not zero. */
static void make_heap(context *x, uint64_t bytes) {
    drop_heap(x);
    memset(&x->options, 0, sizeof x->options);
    x->options.device = x->device;
    x->options.allocator = x->info->name;
    x->options.bytes = bytes;
    x->options.tuning = suite_tuning(x->info->name, x->config);
    if (x->segment != 0) {
        x->options.tuning.segment_bytes = x->segment;
    }
    x->options.memory = suite_memory(x->device, bytes, random_of(x), &x->raw);
    CHECK(x, x->options.memory != NULL);
    OK(x, wh_device_set(x->device, x->options.memory, 0xee, bytes));
    OK(x, wh_heap_create(&x->heap, &x->options));
    OK(x, x->kernels->bind(x->heap, &x->call.heap));
    x->call.low = (uint64_t)(uintptr_t)x->options.memory;
    x->call.high = x->call.low + bytes;
    x->data = 0;
    x->largest = UINT64_MAX;
    if (can(x, WH_CAP_STATS)) {
        const wh_stats s = stats(x);
        CHECK_EQUAL(x, s.heap_bytes, bytes);
        CHECK_EQUAL(x, s.used_bytes, 0);
        CHECK_EQUAL(x, s.failed, 0);
        CHECK_EQUAL(x, s.bad_frees, 0);
        CHECK(x, s.live_blocks == 0 || s.live_blocks == WH_UNKNOWN);
        x->data = bytes - s.metadata_bytes;
        x->largest = can(x, WH_CAP_ANY_SIZE) ? UINT64_MAX : s.largest_free;
    }
    inspect(x);
}

static int is_bump(const context *x) {
    return strncmp(x->info->name, "bump", 4) == 0;
}

static int layout_of(const context *x, uint64_t n, suite_layout *l) {
    return suite_layout_of(&x->options, n, l);
}

/* An allocator may cap its requests by design. */
static uint64_t capped(const context *x, uint64_t n) {
    return n < x->info->max_size ? n : x->info->max_size;
}

static uint64_t random_size(context *x, uint64_t max) {
    return suite_random_size(&x->random, capped(x, max));
}

/* Largest request of the mixed cases: up to several segments. */
static uint64_t some_max(context *x) {
    const uint64_t choices[] = {64, 512, 3000, x->options.bytes / 20};
    return capped(x, choices[random_of(x) % 4] + 1) - 1;
}

/* n items of mixed sizes. Returns whether the heap must have room for all of them at
 * once, whatever the order. */
static int mixed_items(context *x, uint64_t n, uint64_t max) {
    uint64_t pinned = 0, kept = 0;
    int known = 1;
    make_items(x, n);
    for (uint64_t k = 0; k < n; k++) {
        suite_layout l;
        x->sizes[k] = random_of(x) % 16 == 0 ? 0 : random_size(x, max);
        known &= layout_of(x, x->sizes[k], &l);
        /* Runs of segments may meet fragmentation. */
        known &= l.segment == 0 || x->sizes[k] <= l.segment;
        pinned += x->sizes[k] != 0 ? l.pinned : 0;
        kept = l.kept > kept ? l.kept : kept;
    }
    PUSH(x, sizes);
    return known && pinned + kept <= x->data;
}

static uint64_t some_items(context *x) {
    return 1 + random_of(x) % (2 * (uint64_t)x->workers + 8);
}

/* Statistics agree with what the items say is live. */
static void check_used(context *x) {
    inspect(x);
    if (!can(x, WH_CAP_STATS)) {
        return;
    }
    const wh_stats s = stats(x);
    uint64_t used = 0, live = 0;
    PULL(x, ptrs);
    PULL(x, usable);
    for (uint64_t k = 0; k < x->room; k++) {
        used += x->ptrs[k] != NULL ? x->usable[k] : 0;
        live += x->ptrs[k] != NULL;
    }
    if (can(x, WH_CAP_USABLE_SIZE)) {
        CHECK_EQUAL(x, s.used_bytes, used);
    } else if (!can(x, WH_CAP_FREE)) {
        CHECK(x, s.used_bytes >= used);
    }
    if (s.live_blocks != WH_UNKNOWN) {
        CHECK_EQUAL(x, s.live_blocks, live);
    }
    uint64_t in_classes = 0;
    for (uint32_t i = 0; i < s.n_classes; i++) {
        CHECK(x, s.classes[i].live <= s.classes[i].capacity);
        in_classes += s.classes[i].live;
    }
    CHECK(x, in_classes <= live);
}

static void check_empty(context *x) {
    inspect(x);
    if (can(x, WH_CAP_STATS)) {
        const wh_stats s = stats(x);
        CHECK_EQUAL(x, s.used_bytes, 0);
        CHECK_EQUAL(x, s.live_blocks, 0);
        for (uint32_t i = 0; i < s.n_classes; i++) {
            CHECK_EQUAL(x, s.classes[i].live, 0);
        }
    }
}

/* Mixed sizes come and go, so that no part of the heap is in its first state. */
static void wear(context *x) {
    const uint64_t room = x->room, n = x->call.n, old_min = x->call.min_size,
                   old_max = x->call.max_size;
    CHECK(x, can(x, WH_CAP_FREE));
    x->call.min_size = 1;
    x->call.max_size = 1 + some_max(x);
    x->call.steps = 8;
    x->call.hold = 2;
    x->call.strict = 0;
    RUN(x, churn);
    check_empty(x);
    x->call.min_size = old_min;
    x->call.max_size = old_max;
    CHECK(x, room == x->room && n == x->call.n);
}

/* --- cases
 * ----------------------------------------------------------------------------------------------------
 */

/* Nothing, too much, and arguments outside the contract. */
static void case_edges(context *x) {
    RUN(x, edges);
    if (can(x, WH_CAP_STATS)) {
        CHECK_EQUAL(x, stats(x).used_bytes, 0);
        CHECK_EQUAL(x, stats(x).bad_frees, 0);
    }
    inspect(x);
    if (can(x, WH_CAP_FREE | WH_CAP_RESET)) { /* also on a heap in use */
        wear(x);
        RUN(x, edges);
        check_empty(x);
    }
}

/* Collectives over parts of a warp, which allocators make, in the code of this target. */
static void case_parts(context *x) {
    RUN(x, parts);
}

/* Alignment and ownership alone: for allocators whose blocks may overlap. */
static void case_addresses(context *x) {
    (void)mixed_items(x, some_items(x), some_max(x));
    shuffle(x);
    RUN(x, allocate);
    CHECK(x, x->result.served > 0 || x->result.nulls == 0 || can(x, WH_CAP_FREE));
}

/* Blocks of mixed sizes are disjoint; frees come from other threads and kernels. */
static void case_mixed(context *x) {
    const int room_for_all = mixed_items(x, some_items(x), some_max(x));
    for (uint32_t round = 0; round < (can(x, WH_CAP_FREE) ? 3u : 1u); round++) {
        shuffle(x);
        RUN(x, allocate);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        shuffle(x);
        const uint64_t n = x->call.n;
        x->call.n = 1 + random_of(x) % n; /* some stay for the next round */
        RUN(x, release);
        x->call.n = n;
        RUN(x, verify);
        check_used(x);
    }
    RUN(x, release);
    check_empty(x);
}

static void case_lanes(context *x) {
    const int room_for_all = mixed_items(x, some_items(x), some_max(x));
    for (uint32_t round = 0; round < (can(x, WH_CAP_FREE) ? 2u : 1u); round++) {
        shuffle(x);
        RUN(x, allocate_lanes);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            shuffle(x);
            RUN(x, release_lanes);
            check_empty(x);
        }
    }
}

static void case_warp(context *x) {
    for (uint32_t round = 0; round < 2; round++) {
        const int room_for_all = mixed_items(x, x->warps, some_max(x));
        RUN(x, allocate_warp);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        RUN(x, release_warp); /* verifies */
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        check_empty(x);
    }
}

/* Zeros, also where other blocks have been. */
static void case_calloc(context *x) {
    const int room_for_all = mixed_items(x, some_items(x), some_max(x));
    x->call.how = CONFORM_CALLOC;
    for (uint32_t round = 0; round < (can(x, WH_CAP_FREE) ? 3u : 1u); round++) {
        shuffle(x);
        RUN(x, allocate);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            RUN(x, release);
            check_empty(x);
        }
    }
}

/* Contents survive, up to the smaller size, in both directions. */
static void case_realloc(context *x) {
    const uint64_t max = some_max(x);
    (void)mixed_items(x, some_items(x), max);
    RUN(x, allocate);
    RUN(x, fill);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint64_t k = 0; k < x->call.n; k++) {
            const uint64_t r = random_of(x) % 8;
            x->sizes2[k] = r == 0 ? 0 : random_size(x, r < 3 ? 32 : max);
        }
        PUSH(x, sizes2);
        shuffle(x);
        RUN(x, resize);
        RUN(x, verify);
        check_used(x);
    }
    RUN(x, release);
    check_empty(x);
}

/* Every power of two up to max_align, small and large blocks, beyond a segment. */
static void case_aligned(context *x) {
    const uint64_t max = x->info->max_align;
    /* Where the largest block is a small part of the heap, it must be a large one. */
    make_heap(x, suite_configs[x->config].bytes + (can(x, WH_CAP_ANY_SIZE) ? 3 : 64) * max);
    make_items(x, 1);
    x->call.how = CONFORM_ALIGNED;
    for (uint64_t align = 1; align <= max; align *= 2) {
        const uint64_t sizes[] = {1, align, align + 1, align / 2 + 1};
        const wh_launch l = alone(x);
        x->sizes[0] = sizes[random_of(x) % 4];
        x->sizes[0] = x->sizes[0] < x->largest ? x->sizes[0] : x->largest;
        x->aligns[0] = align;
        PUSH(x, sizes);
        PUSH(x, aligns);
        RUN(x, allocate);
        /* Alone in a heap that has room wherever it starts. */
        CHECK_EQUAL(x, x->result.served, 1);
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            RUN(x, release);
        } else {
            check_used(x);
            OK(x, wh_heap_reset(x->heap));
            OK(x, wh_device_set(x->device, x->call.ptrs, 0, sizeof(void *)));
        }
        together(x, l);
    }
    if (can(x, WH_CAP_FREE)) {
        check_empty(x);
    }
    make_items(x, x->workers + 1);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint64_t k = 0; k < x->call.n; k++) {
            x->aligns[k] = (uint64_t)1 << random_of(x) % (wh_log2_floor(max) + 1);
            x->sizes[k] = random_size(x, 5000);
        }
        PUSH(x, aligns);
        PUSH(x, sizes);
        shuffle(x);
        RUN(x, allocate);
        CHECK(x, x->result.served > 0);
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        RUN(x, release);
        check_empty(x);
    }
}

/* --- out of memory
 * -----------------------------------------------------------------------------------------------
 */

/* Blocks that a full heap holds at most, so that filling the largest heaps does not take most of
 * the time. One seed in eight goes without this limit. */
#define MOST_BLOCKS 16384u

static int is_wide(const context *x) {
    return x->seed % 8 == 7;
}

/* The least size of blocks that are to fill a heap of that many bytes. */
static uint64_t least_size(const context *x, uint64_t bytes) {
    return is_wide(x) ? 1 : bytes / MOST_BLOCKS + 1;
}

/* A request size of any kind that the heap can serve. */
static uint64_t some_size(context *x) {
    suite_layout l;
    const uint64_t segment = layout_of(x, 1, &l) && l.segment != 0 ? l.segment : 4096;
    const uint64_t choices[] = {
        16,      17,          48,         100, 256, 1000, segment / 4, segment / 2, segment / 2 + 1,
        segment, segment + 1, 3 * segment};
    const uint64_t least = least_size(x, x->options.bytes);
    uint64_t n = choices[random_of(x) % (sizeof choices / sizeof *choices)];
    n = n <= x->options.bytes / 4 && n <= x->largest ? n : 64;
    while (n < least && 2 * n <= x->largest) {
        n *= 2;
    }
    return n;
}

/* How many blocks of n bytes the heap holds at most; UINT64_MAX if that is not known. */
static uint64_t capacity_for(const context *x, uint64_t n) {
    suite_layout l;
    if (!layout_of(x, n, &l) || l.unknown) {
        return UINT64_MAX;
    }
    return l.in_segment != 0 ? x->data / l.segment * l.in_segment : (x->data - l.rest) / l.block;
}

/* Fills the heap with blocks of one size by all threads (or one); checks that all are
 * disjoint. Returns their number. */
static uint64_t fill_up(context *x, uint64_t n) {
    x->call.min_size = n;
    OK(x, wh_device_set(x->device, x->call.ptrs, 0, x->room * sizeof(void *)));
    RUN(x, exhaust);
    const uint64_t served = x->result.served;
    check_used(x);
    RUN(x, fill);
    RUN(x, verify);
    return served;
}

/* Whether a walk that has a word of pages in its statistics makes do with one step. */
#ifdef WH_HOSTILE
#define GIVES_UP_EARLY 1
#else
#define GIVES_UP_EARLY 0
#endif

/* The heap holds what its class layout says, from one thread as from many, and again
 * after every block has been freed. */
static void check_capacity(context *x, int many) {
    const uint64_t n = some_size(x), expected = capacity_for(x, n);
    wh_launch l = x->launch;
    make_items(x, x->options.bytes / wh_round_up(n, 16) + 1);
    for (uint64_t k = 0; k < x->room; k++) {
        x->sizes[k] = n;
    }
    suite_layout known;
    int exact = layout_of(x, n, &known) && !known.unknown &&
                (!many || can(x, WH_CAP_EXACT_OOM) || is_bump(x));
    /* Runs that meet leave gaps: each takes what the other one has seen. */
    const int may_break = many && ((known.segment != 0 && n > known.segment) || known.packed != 0);
    exact = exact && !may_break;
    if (can(x, WH_CAP_FREE | WH_CAP_STATS) && random_of(x) % 2 != 0) {
        wear(x);
        /* Idle memory of other classes stays where it is until it is needed: it may lie
         * between runs, and slices of a block that is not full may be used up. */
        exact = exact && (known.regained || n > known.slices) && n <= known.segment;
    }
    const uint64_t failed = can(x, WH_CAP_STATS) ? stats(x).failed : 0;
    if (!many) {
        l = alone(x);
    }
    const uint64_t first = fill_up(x, n);
    if (can(x, WH_CAP_STATS) && stats(x).failed != WH_UNKNOWN) {
        CHECK_EQUAL(x, stats(x).failed, failed + (many ? x->workers : 1));
    }
    const uint64_t kept = known.kept != 0 ? (known.kept + known.block - 1) / known.block : 0;
    if (exact) {
        CHECK(x, first <= expected && first + kept >= expected);
    }
    CHECK(x, first > 0 && (expected == UINT64_MAX || first + kept >= expected / 2));
    for (uint32_t round = 0; round < 2 && can(x, WH_CAP_FREE); round++) {
        together(x, l);
        shuffle(x);
        RUN(x, release);
        check_empty(x);
        if (!many) {
            l = alone(x);
        }
        const uint64_t again = fill_up(x, n);
        if (can(x, WH_CAP_EXACT_OOM) && expected != UINT64_MAX && !may_break) {
            /* every unit has come back */
            CHECK_EQUAL(x, again, expected);
        }
        /* One whose out-of-memory is not exact may give up at another moment (the hostile
         * build's walks at the first full word), and where the layout is not known
         * fragments may be left. */
        const int exact_oom = can(x, WH_CAP_EXACT_OOM);
        const uint64_t least = exact_oom && expected != UINT64_MAX ? first
                               : exact_oom || !GIVES_UP_EARLY      ? first / 2
                                                                   : 1;
        CHECK(x, many || again >= least);
    }
    together(x, l);
}

static void case_full_one(context *x) {
    check_capacity(x, 0);
}

static void case_full_many(context *x) {
    check_capacity(x, 1);
}

/* How many blocks of n bytes are left, by the host and by a kernel. */
static uint64_t blocks_left(context *x, uint64_t n) {
    const wh_launch before = x->launch;
    uint64_t left = 0;
    const wh_status s = wh_heap_blocks_left(x->heap, n, &left);
    x->call.min_size = n;
    x->launch.blocks = 1;
    x->launch.threads = 32;
    RUN(x, left);
    x->launch = before;
    if (can(x, WH_CAP_LEFT)) {
        OK(x, s);
        CHECK_EQUAL(x, x->result.served, left);
    } else {
        CHECK_EQUAL(x, s, WH_UNSUPPORTED);
        CHECK_EQUAL(x, x->result.served, WH_UNKNOWN);
    }
    CHECK_EQUAL(x, x->result.nulls, 0);
    return left;
}

/* What is said to be left is what a fill gets; after that, and of what no heap has, nothing is. */
static void case_left(context *x) {
    const uint64_t n = some_size(x);
    if (!can(x, WH_CAP_LEFT)) {
        (void)blocks_left(x, n);
        return;
    }
    make_items(x, x->options.bytes / wh_round_up(n, 16) + 1);
    for (uint64_t k = 0; k < x->room; k++) {
        x->sizes[k] = n;
    }
    PUSH(x, sizes);
    const wh_launch l = alone(x);
    CHECK_EQUAL(x, blocks_left(x, 0), 0);
    CHECK_EQUAL(x, blocks_left(x, x->options.bytes + 1), 0);
    CHECK_EQUAL(x, blocks_left(x, SIZE_MAX), 0);
    for (uint32_t round = 0; round < 2; round++) {
        const uint64_t left = blocks_left(x, n), got = fill_up(x, n);
        /* Tessera: where blocks have several chunks, it depends on what is closed first. */
        const uint64_t off = can(x, WH_CAP_WALK) && can(x, WH_CAP_ANY_SIZE) ? got / 16 + 2 : 0;
        CHECK(x, got <= left + off);
        if (can(x, WH_CAP_EXACT_OOM) || is_bump(x)) {
            CHECK(x, left <= got + off);
            CHECK_EQUAL(x, blocks_left(x, n), 0);
        }
        if (!can(x, WH_CAP_FREE)) {
            break;
        }
        shuffle(x);
        x->call.n = x->room / 2;
        RUN(x, release);
        x->call.n = x->room;
        CHECK(x, blocks_left(x, n) > 0);
        RUN(x, release);
        check_empty(x);
    }
    together(x, l);
}

/* In a full heap, what is freed is what can be had again: no more and no less, and at
 * once. Memory comes back in the units that the allocator's layout names. */
static void case_full_reuse(context *x) {
    uint64_t n = some_size(x);
    suite_layout l;
    int known = layout_of(x, n, &l);
    if (!known) { /* blocks that may come back in other places, and not fit them */
        n = 64;
        known = layout_of(x, n, &l);
    }
    make_items(x, x->options.bytes / wh_round_up(n, 16) + 1);
    for (uint64_t k = 0; k < x->room; k++) {
        x->sizes[k] = n;
    }
    const uint64_t unit = known ? l.unit : 1;
    uint64_t total = fill_up(x, n);
    CHECK(x, total > 0);
    for (uint32_t round = 0; round < 4; round++) {
        PULL(x, ptrs);
        PULL(x, usable);
        uint64_t victims[3], freed = 0, kept = 0;
        for (uint32_t i = 0; i < 3; i++) {
            victims[i] = (uint64_t)(uintptr_t)x->ptrs[random_of(x) % total] / unit;
        }
        void **all = malloc(total * sizeof *all);
        CHECK(x, all != NULL);
        for (uint64_t k = 0; k < total; k++) {
            const uint64_t u = (uint64_t)(uintptr_t)x->ptrs[k] / unit;
            if (u == victims[0] || u == victims[1] || u == victims[2]) {
                x->order[freed++] = (uint32_t)k;
            } else {
                all[kept++] = x->ptrs[k];
            }
        }
        PUSH(x, order);
        x->call.n = freed;
        RUN(x, release);
        x->call.n = x->room;
        inspect(x);
        /* The items are counted from 0 again: the others are live, but not items. */
        OK(x, wh_device_set(x->device, x->call.ptrs, 0, x->room * sizeof(void *)));
        RUN(x, exhaust);
        const uint64_t got = x->result.served;
        PULL(x, ptrs);
        PULL(x, usable);
        for (uint64_t i = 0; i < kept; i++) {
            x->ptrs[got + i] = all[i];
            x->usable[got + i] = x->usable[0];
        }
        total = got + kept;
        free(all);
        PUSH(x, ptrs);
        PUSH(x, usable);
        if (l.packed) { /* each unit serves at least one, each block took one at most */
            const uint64_t second = victims[1] != victims[0];
            const uint64_t third = victims[2] != victims[0] && victims[2] != victims[1];
            CHECK(x, got >= 1 + second + third);
        } else {
            CHECK_EQUAL(x, got, freed);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
    }
    for (uint64_t k = 0; k < x->room; k++) {
        x->order[k] = (uint32_t)k;
    }
    shuffle(x);
    RUN(x, release);
    check_empty(x);
}

/* Creates a heap, hardly larger than need be, that holds `units` blocks of up to max bytes
 * whatever lies where: `pinned` bytes for each if sizes are mixed, else one unit. 0: that
 * heap would be too large to be worth it. */
static int make_tight_heap(context *x, uint64_t units, uint64_t max, int mixed) {
    uint64_t bytes = 0;
    for (;;) {
        uint64_t least = 0;
        suite_layout l;
        wh_heap_options o = x->options;
        o.tuning.segment_bytes = x->segment != 0 ? x->segment : o.tuning.segment_bytes;
        OK(x, wh_heap_min_bytes(&o, &least));
        make_heap(x, bytes > least ? bytes : least);
        CHECK(x, layout_of(x, max, &l)); /* may depend on the size of the heap */
        const uint64_t times = mixed && l.apart != 0 && x->workers > 1 ? l.apart : 1;
        const uint64_t want = units * (mixed ? times * l.pinned : l.unit) + l.rest + l.kept;
        if (x->data >= want) {
            return 1;
        }
        bytes = x->options.bytes + (want - x->data) + 64;
        if (bytes > (uint64_t)(is_wide(x) ? 128 : 16) << 20) {
            return 0;
        }
    }
}

/* All threads together never ask for more than fits: NULL is an error. Sizes of one
 * class, then mixed ones, each in the smallest heap that must do. */
static void check_never_null(context *x, uint64_t min, uint64_t max, int mixed) {
    suite_layout l;
    if (!layout_of(x, max, &l)) {
        return;
    }
    x->call.hold = 1 + (uint32_t)(random_of(x) % CONFORM_HOLD);
    x->segment = l.segment; /* a larger heap would have larger ones */
    if (!make_tight_heap(x, (uint64_t)x->workers * x->call.hold, max, mixed)) {
        return;
    }
    x->call.min_size = min;
    x->call.max_size = max;
    x->call.steps = 30;
    x->call.strict = 1;
    RUN(x, churn);
    CHECK(x, x->result.served > 0);
    check_empty(x);
    CHECK_EQUAL(x, stats(x).failed, 0);
}

static void case_never_null(context *x) {
    suite_layout l;
    if (layout_of(x, 1, &l) && l.segment != 0) {
        const uint64_t sizes[] = {16,       l.slices, l.slices + 1, l.segment / 4, l.segment / 2,
                                  l.segment};
        const uint64_t n = sizes[random_of(x) % 6];
        check_never_null(x, n, n, 0);
        check_never_null(x, 1, random_of(x) % 2 ? l.segment : l.slices, 1);
    } else {
        check_never_null(x, 64, 64, 0);
    }
}

/* Far more is asked for than there is, by all threads at once and in all sizes. */
static void churn_call(context *x) {
    x->call.min_size = 1;
    x->call.max_size = 1 + some_max(x);
    x->call.steps = 24;
    x->call.hold = CONFORM_HOLD;
    x->call.strict = 0;
}

/* Lanes of a warp that call with different masks. */
static void case_places(context *x) {
    churn_call(x);
    RUN(x, churn_two);
    CHECK(x, x->result.served > 0);
    check_empty(x);
}

/* Every call comes to an end, and nothing is lost. */
static void case_pressure(context *x) {
    churn_call(x);
    RUN(x, churn);
    CHECK(x, x->result.served > 0);
    check_empty(x);
    if (can(x, WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_STATS)) { /* all of it is there again */
        const wh_launch l = alone(x);
        make_items(x, 1);
        CHECK_EQUAL(x, stats(x).largest_free, x->data);
        x->sizes[0] = x->data;
        PUSH(x, sizes);
        RUN(x, allocate);
        CHECK_EQUAL(x, x->result.served, 1);
        RUN(x, release);
        check_empty(x);
        together(x, l);
    }
}

/* --- large blocks
 * -------------------------------------------------------------------------------------------------
 */

static uint64_t allocate_one(context *x, uint64_t item, uint64_t size) {
    x->sizes[item] = size;
    PUSH(x, sizes);
    x->order[0] = (uint32_t)item;
    PUSH(x, order);
    x->call.n = 1;
    RUN(x, allocate);
    x->call.n = x->room;
    return x->result.served;
}

static void release_one(context *x, uint64_t item) {
    x->order[0] = (uint32_t)item;
    PUSH(x, order);
    x->call.n = 1;
    RUN(x, release);
    x->call.n = x->room;
}

/* Any size up to the whole heap: largest_free can be had, and nothing more. */
static void case_large(context *x) {
    const wh_launch l = alone(x);
    make_items(x, 16);
    if (can(x, WH_CAP_FREE) && random_of(x) % 2 != 0) {
        together(x, l);
        wear(x);
        (void)alone(x);
    }
    for (uint32_t round = 0; round < 10; round++) {
        if (round > 0 && !can(x, WH_CAP_FREE)) {
            break;
        }
        for (uint64_t k = 0; k < round; k++) { /* some blocks are in the way */
            (void)allocate_one(x, k, random_size(x, x->data / 10));
        }
        if (can(x, WH_CAP_STATS)) {
            const uint64_t largest = stats(x).largest_free;
            CHECK(x, largest <= x->data && largest > 0);
            CHECK(x, round > 0 || is_bump(x) || largest == x->data);
            CHECK_EQUAL(x, allocate_one(x, 12, largest + 1), 0);
            CHECK_EQUAL(x, allocate_one(x, 12, largest), 1);
        }
        check_used(x);
        RUN(x, fill);
        RUN(x, verify);
        if (can(x, WH_CAP_FREE)) {
            for (uint64_t k = 0; k < x->room; k++) {
                release_one(x, k);
            }
            check_empty(x);
        }
    }
    together(x, l);
}

/* Runs that do not fit between others, and come back whole. */
static void case_runs(context *x) {
    suite_layout l;
    if (!layout_of(x, 1, &l) || l.segment == 0) {
        return;
    }
    const uint64_t n = x->data / l.segment;
    const wh_launch launch = alone(x);
    make_items(x, n + 1);
    for (uint64_t k = 0; k < n; k++) { /* single segments, all of them */
        CHECK_EQUAL(x, allocate_one(x, k, l.segment), 1);
    }
    CHECK_EQUAL(x, allocate_one(x, n, l.segment), 0);
    PULL(x, ptrs);
    for (uint64_t k = 0; k < n; k += 2) { /* every other one by address: no run of two */
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = (uint64_t)(uintptr_t)x->ptrs[i] - x->call.low;
            if (at / l.segment % 2 == 0) {
                release_one(x, i);
            }
        }
        break;
    }
    const wh_stats s = stats(x);
    CHECK_EQUAL(x, s.largest_free, l.segment);
    CHECK_EQUAL(x, allocate_one(x, n, l.segment + 1), 0);
    CHECK_EQUAL(x, stats(x).failed, s.failed + 1);
    CHECK_EQUAL(x, allocate_one(x, n, l.segment), 1);
    for (uint64_t k = 0; k <= n; k++) {
        release_one(x, k);
    }
    CHECK_EQUAL(x, stats(x).largest_free, x->data);
    CHECK_EQUAL(x, allocate_one(x, 0, x->data - 1), 1);
    RUN(x, fill);
    RUN(x, verify);
    release_one(x, 0);
    check_empty(x);
    together(x, launch);
}

/* --- bad frees
 * -------------------------------------------------------------------------------------------------------
 */

/* Pointers that are no blocks are rejected and counted; the heap stays as it is, also
 * when good and bad ones come from one warp. */
#define N_GOOD 10u

static void case_bad_free(context *x) {
    suite_layout l;
    const int known = layout_of(x, 1, &l) && l.segment != 0;
    const uint64_t segment = known ? l.segment : 4096;
    uint64_t sizes[] = {32,          100,         known ? l.slices : 256,
                        segment / 4, segment / 2, segment,
                        segment + 1, 3 * segment, 32,
                        segment};
    const uint64_t n_blocks = sizeof sizes / sizeof *sizes;
    void *foreign = device_take(x, 4096);
    make_heap(x, suite_configs[x->config].bytes + 24 * segment);
    for (uint64_t k = 0; k < n_blocks; k++) {
        sizes[k] = sizes[k] < x->largest ? sizes[k] : x->largest;
    }
    make_items(x, 64);
    wh_launch launch = alone(x);
    for (uint64_t k = 0; k < n_blocks; k++) {
        CHECK_EQUAL(x, allocate_one(x, k, capped(x, sizes[k])), 1);
    }
    for (uint64_t k = n_blocks; k < n_blocks + N_GOOD; k++) {
        CHECK_EQUAL(x, allocate_one(x, k, 16 + 16 * (k - n_blocks)), 1);
    }
    /* Two blocks that are freed again: their pointers are stale. */
    void *stale[2];
    PULL(x, ptrs);
    PULL(x, usable);
    stale[0] = x->ptrs[n_blocks - 1];
    stale[1] = x->ptrs[4];
    release_one(x, n_blocks - 1);
    release_one(x, 4);
    RUN(x, fill);
    check_used(x);
    PULL(x, ptrs);

    unsigned char *bad[96];
    uint64_t n_bad = 0;
    bad[n_bad++] = foreign;
    bad[n_bad++] = (unsigned char *)foreign + 64;
    bad[n_bad++] = (unsigned char *)(uintptr_t)16;
    bad[n_bad++] = (unsigned char *)(uintptr_t)x->call.high;
    bad[n_bad++] = (unsigned char *)(uintptr_t)(x->call.low - 16);
    bad[n_bad++] = (unsigned char *)(uintptr_t)(x->call.high - 64); /* metadata, or padding */
    if (known && !l.twice) {
        bad[n_bad++] = stale[0];
    }
    if (known && sizes[4] > l.slices) { /* which slices are live is not recorded */
        bad[n_bad++] = stale[1];
    }
    for (uint64_t k = 0; k < n_blocks - 1; k++) {
        if (x->ptrs[k] != NULL) {
            unsigned char *p = x->ptrs[k];
            bad[n_bad++] = p + 8;
            bad[n_bad++] = p + x->usable[k] - 1;
            if (sizes[k] > segment && x->usable[k] > segment) {
                bad[n_bad++] = p + segment;
            }
            if (known && sizes[k] > l.slices) {
                bad[n_bad++] = p + x->usable[k] / 2; /* two that one warp may free together */
                bad[n_bad++] = p + x->usable[k] / 4;
            }
        }
    }
    const uint64_t before = stats(x).bad_frees;
    conform_call saved = x->call;
    void **arguments = device_take(x, sizeof bad);
    for (uint64_t i = 0; i < n_bad; i++) { /* one by one */
        OK(x, wh_device_copy_in(x->device, arguments, &bad[i], sizeof *bad));
        x->call.ptrs = arguments;
        x->order[0] = 0;
        PUSH(x, order);
        x->call.n = 1;
        RUN(x, release);
        x->call.ptrs = saved.ptrs;
        x->call.n = saved.n;
        if (stats(x).bad_frees != before + i + 1) {
            fail(x, "bad pointer %" PRIu64 " (%p, heap %p..%p) was not counted once", i,
                 (void *)bad[i], (void *)(uintptr_t)x->call.low, (void *)(uintptr_t)x->call.high);
        }
        if (i % 8 == 7 || i + 1 == n_bad) {
            check_used(x);
        }
    }
    RUN(x, verify);
    together(x, launch);

    /* All at once, mixed with frees of good blocks. */
    PULL(x, ptrs);
    for (uint32_t i = 0; i < N_GOOD; i++) {
        bad[n_bad + i] = x->ptrs[n_blocks + i];
        x->ptrs[n_blocks + i] = NULL;
    }
    PUSH(x, ptrs);
    OK(x, wh_device_copy_in(x->device, arguments, bad, (n_bad + N_GOOD) * sizeof *bad));
    for (uint32_t i = 0; i < x->room; i++) {
        x->order[i] = i;
    }
    x->call.n = n_bad + N_GOOD;
    shuffle(x);
    x->call.ptrs = arguments;
    RUN(x, release);
    x->call.ptrs = saved.ptrs;
    x->call.n = saved.n;
    CHECK_EQUAL(x, stats(x).bad_frees, before + 2 * n_bad);
    check_used(x);
    for (uint32_t i = 0; i < x->room; i++) {
        x->order[i] = i;
    }
    PUSH(x, order);
    RUN(x, verify);
    RUN(x, release);
    CHECK_EQUAL(x, stats(x).bad_frees, before + 2 * n_bad);
    check_empty(x);
    OK(x, wh_device_free(x->device, foreign));
    OK(x, wh_device_free(x->device, arguments));
}

/* --- reset, statistics, several heaps
 * ----------------------------------------------------------------------------------- */

static void case_reset(context *x) {
    wh_stats fresh;
    memset(&fresh, 0, sizeof fresh);
    if (can(x, WH_CAP_STATS)) {
        fresh = stats(x);
    }
    for (uint32_t round = 0; round < 3; round++) {
        (void)mixed_items(x, 2 * some_items(x), some_max(x));
        RUN(x, allocate);
        if (can(x, WH_CAP_DISJOINT)) {
            RUN(x, fill);
            RUN(x, verify);
        }
        OK(x, wh_heap_reset(x->heap));
        inspect(x);
        if (can(x, WH_CAP_STATS)) {
            const wh_stats s = stats(x);
            CHECK(x, memcmp(&s, &fresh, sizeof s) == 0);
        }
    }
    if (can(x, WH_CAP_DISJOINT)) {
        check_capacity(x, 1);
    }
}

/* Moves the heap to `bytes` bytes, of the caller or (0) of its own, and what the items know of
 * it. Where it does not fit, which is only so if what is new is less than a place's alignment may
 * cost, it stays. Whether it has moved. */
static int grow_to(context *x, uint64_t bytes, int own) {
    void *raw = NULL, *memory = NULL;
    int64_t moved = 0;
    if (!own) {
        memory = suite_memory(x->device, bytes, random_of(x), &raw);
        CHECK(x, memory != NULL);
        (void)wh_device_set(x->device, memory, 0xee, bytes);
    }
    const wh_status s = wh_heap_grow(x->heap, bytes, memory, &moved);
    if (s != WH_OK) {
        OK(x, wh_device_free(x->device, raw));
        CHECK(x, s == WH_HEAP_TOO_SMALL && bytes - x->options.bytes < x->info->max_align);
        return 0;
    }
    OK(x, wh_device_free(x->device, x->raw)); /* nothing of the heap is left there */
    x->raw = raw;
    x->options.memory = memory;
    x->options.bytes = bytes;
    OK(x, x->kernels->bind(x->heap, &x->call.heap));
    x->call.low = own ? 0 : (uint64_t)(uintptr_t)memory; /* where its own is nobody knows */
    x->call.high = own ? UINT64_MAX : x->call.low + bytes;
    PULL(x, ptrs);
    for (uint64_t k = 0; k < x->room; k++) {
        x->ptrs[k] = wh_heap_rebase(x->ptrs[k], moved);
    }
    PUSH(x, ptrs);
    return 1;
}

/* A heap that grows keeps its blocks, with their contents, its totals, and the memory that it had
 * free; it gets new memory, and goes on as if it had been so large from the beginning. */
static void case_grow(context *x) {
    const uint64_t more[] = {0, 512, x->options.bytes / 3, x->options.bytes};
    const int statistics = can(x, WH_CAP_STATS);
    int64_t moved = 1;
    (void)mixed_items(x, some_items(x), some_max(x));
    if (random_of(x) % 2 != 0) {
        wear(x); /* otherwise most of the memory has never been used */
    }
    for (uint32_t round = 0; round < 4; round++) {
        shuffle(x);
        RUN(x, allocate);
        RUN(x, fill);
        const uint64_t n = x->call.n;
        x->call.n = random_of(x) % n; /* so that memory is free in many places */
        RUN(x, release);
        x->call.n = n;
        wh_stats before, after;
        memset(&before, 0, sizeof before);
        if (statistics) {
            before = stats(x);
        }
        const uint64_t plus = more[(round + x->seed) % 4];
        if (!grow_to(x, x->options.bytes + plus, random_of(x) % 4 == 0)) {
            RUN(x, verify);
            check_used(x);
            CHECK(x, grow_to(x, x->options.bytes + plus + x->info->max_align, 0));
        }
        RUN(x, verify);
        check_used(x);
        if (statistics) {
            after = stats(x);
            CHECK_EQUAL(x, after.heap_bytes, x->options.bytes);
            CHECK_EQUAL(x, after.live_blocks, before.live_blocks);
            CHECK_EQUAL(x, after.used_bytes, before.used_bytes);
            CHECK_EQUAL(x, after.failed, before.failed);
            CHECK_EQUAL(x, after.bad_frees, before.bad_frees);
            CHECK(x, after.heap_bytes - after.metadata_bytes >= x->data);
            x->data = after.heap_bytes - after.metadata_bytes;
        }
    }
    /* What it refuses changes nothing. */
    CHECK(x, wh_heap_grow(x->heap, x->options.bytes - 1, NULL, &moved) == WH_BAD_ARGUMENT);
    CHECK(x, wh_heap_grow(x->heap, x->options.bytes, NULL, NULL) == WH_BAD_ARGUMENT);
    CHECK_EQUAL(x, (uint64_t)moved, 1);
    RUN(x, verify);
    shuffle(x);
    RUN(x, release);
    check_empty(x);
    /* All of the memory can be had, what came with growing included. */
    suite_layout l;
    uint64_t size = 64;
    while (size < least_size(x, x->options.bytes)) {
        size *= 2;
    }
    const uint64_t expected = capacity_for(x, size);
    if (statistics && layout_of(x, size, &l) && expected != UINT64_MAX && !l.packed) {
        make_items(x, x->options.bytes / size + 1);
        for (uint64_t k = 0; k < x->room; k++) {
            x->sizes[k] = size;
        }
        const wh_launch launch = alone(x);
        const uint64_t served = fill_up(x, size), kept = (l.kept + l.block - 1) / l.block;
        CHECK(x, served <= expected && served + kept >= expected);
        together(x, launch);
        RUN(x, release);
        check_empty(x);
    }
    OK(x, wh_heap_reset(x->heap));
    check_empty(x);
}

/* Known states, one block after another. */
static void case_stats(context *x) {
    const wh_launch l = alone(x);
    uint64_t failed = 0;
    make_items(x, 24);
    for (uint64_t k = 0; k < x->room; k++) {
        const uint64_t size = random_size(x, x->data / 8);
        const uint64_t served = allocate_one(x, k, size);
        failed += served == 0;
        check_used(x);
        const wh_stats s = stats(x);
        if (s.failed != WH_UNKNOWN) {
            CHECK_EQUAL(x, s.failed, failed);
        }
        CHECK(x, s.largest_free <= x->data - s.used_bytes);
        if (can(x, WH_CAP_FREE) && random_of(x) % 3 == 0) {
            release_one(x, random_of(x) % (k + 1));
            check_used(x);
        }
    }
    CHECK_EQUAL(x, allocate_one(x, 0, SIZE_MAX / 2), 0);
    together(x, l);
}

/* Three heaps on one device, used in turn by the same threads. */
static void case_heaps(context *x) {
    const conform_handle first = x->call.heap;
    wh_heap *more[2];
    conform_handle handles[2];
    for (uint32_t i = 0; i < 2; i++) {
        wh_heap_options o = x->options;
        o.memory = NULL;
        o.bytes = suite_configs[x->config].bytes + 4096 * (i + 1);
        o.tuning = suite_tuning(x->info->name, (x->config + i) % SUITE_CONFIGS);
        uint64_t least = 0;
        OK(x, wh_heap_min_bytes(&o, &least));
        o.bytes = o.bytes > least ? o.bytes : least;
        OK(x, wh_heap_create(&more[i], &o));
        OK(x, x->kernels->bind(more[i], &handles[i]));
    }
    (void)mixed_items(x, some_items(x), 600);
    for (uint32_t round = 0; round < 3; round++) {
        x->call.heap = round == 2 ? handles[1] : first;
        x->call.other = handles[round % 2];
        if (round == 2) {
            x->call.other = handles[0];
        }
        RUN(x, two_heaps);
        if (can(x, WH_CAP_DISJOINT)) {
            RUN(x, fill);
            RUN(x, verify);
        }
        RUN(x, release_two);
    }
    x->call.heap = first;
    for (uint32_t i = 0; i < 2; i++) {
        wh_stats s;
        if (can(x, WH_CAP_CHECK)) {
            OK(x, wh_heap_check(more[i], NULL));
        }
        if (can(x, WH_CAP_FREE | WH_CAP_STATS)) {
            OK(x, wh_heap_get_stats(more[i], &s));
            CHECK_EQUAL(x, s.live_blocks, 0);
        }
        wh_heap_destroy(more[i]);
    }
    if (can(x, WH_CAP_FREE)) {
        check_empty(x);
    }
    inspect(x);
}

/* --- all cases
 * ------------------------------------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    void (*run)(context *x);
    uint32_t needs; /* capability bits without which the case is skipped */
} cases[] = {
    {"edges", case_edges, 0},
    {"parts", case_parts, 0},
    {"addresses", case_addresses, WH_CAP_RESET},
    {"mixed", case_mixed, WH_CAP_DISJOINT},
    {"lanes", case_lanes, WH_CAP_DISJOINT},
    {"warp", case_warp, WH_CAP_DISJOINT},
    {"calloc", case_calloc, WH_CAP_DISJOINT},
    {"realloc", case_realloc, WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_USABLE_SIZE},
    {"aligned", case_aligned, WH_CAP_DISJOINT | WH_CAP_ALIGNED},
    {"full-one", case_full_one, WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY},
    {"full-many", case_full_many, WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY},
    {"left", case_left, 0},
    {"full-reuse", case_full_reuse, WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_EXACT_OOM},
    {"never-null", case_never_null, WH_CAP_FREE | WH_CAP_EXACT_OOM | WH_CAP_STATS},
    {"pressure", case_pressure, WH_CAP_DISJOINT | WH_CAP_FREE},
    {"places", case_places, WH_CAP_DISJOINT | WH_CAP_FREE},
    {"large", case_large, WH_CAP_DISJOINT | WH_CAP_ANY_SIZE},
    {"runs", case_runs, WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_STATS},
    {"bad-free", case_bad_free, WH_CAP_FREE | WH_CAP_BAD_FREE | WH_CAP_STATS},
    {"reset", case_reset, WH_CAP_RESET},
    {"stats", case_stats, WH_CAP_STATS},
    {"grow", case_grow, WH_CAP_GROW | WH_CAP_DISJOINT | WH_CAP_FREE},
    {"heaps", case_heaps, WH_CAP_OWN_MEMORY},
};
#define N_CASES ((uint32_t)(sizeof cases / sizeof *cases))

static void print_skipped(const wh_allocator_info *info) {
    static const struct {
        uint32_t bit;
        const char *name;
    } bits[] = {
#define BIT_(bit, name, text, meaning) {1u << bit, text},
        WH_CAP_LIST(BIT_)
#undef BIT_
    };
    for (uint32_t i = 0; i < N_CASES; i++) {
        if ((cases[i].needs & ~info->caps) == 0) {
            continue;
        }
        printf("skipped: %s: %s (no", info->name, cases[i].name);
        for (uint32_t b = 0; b < sizeof bits / sizeof *bits; b++) {
            if ((cases[i].needs & bits[b].bit & ~info->caps) != 0) {
                printf(" '%s'", bits[b].name);
            }
        }
        printf(")\n");
    }
}

/* Runs one case on a device of its own; whether it passed. */
static int run_case(context *x, uint32_t number) {
    wh_sim_options so = suite_sim_options(x->seed, x->policy);
    so.weak = WH_SIM_WEAK_NONE; /* large grids: it takes too long */
    x->random = x->seed * 1000003 + x->policy * 5003 + x->shape * 103 + number * 31 + x->config;
    x->text[0] = '\0';
    if (setjmp(x->failed) == 0) {
        const shape *s = &shapes[x->shape];
        const int gpu = strcmp(x->target, "sim") != 0;
        OK(x, wh_device_open(&x->device, x->target, &so));
        x->launch =
            wh_grid(x->device, gpu && s->blocks > 1 ? s->blocks * 8 : s->blocks, s->threads);
        x->warps = x->launch.blocks * ((s->threads + 31) / 32);
        x->workers = x->launch.blocks * (s->threads / 32 * wh_popc32(s->lanes) +
                                         wh_popc32(s->lanes & ((1u << s->threads % 32) - 1)));
        memset(&x->call, 0, sizeof x->call);
        x->segment = 0;
        x->call.caps = x->info->caps;
        x->call.lanes = s->lanes;
        x->call.divergent = s->divergent;
        x->call.seed = x->seed;
        x->call.max_align = x->info->max_align;
        x->call.huge = SIZE_MAX;
        x->call.result = device_take(x, sizeof *x->call.result);
        make_heap(x, suite_configs[x->config].bytes);
        cases[number].run(x);
    }
    if (x->device != NULL) {
        free_items(x);
        drop_heap(x);
        (void)wh_device_free(x->device, x->call.result);
    }
    wh_device_close(x->device);
    x->device = NULL;
    return x->text[0] == '\0';
}

/* --- which runs
 * ----------------------------------------------------------------------------------------------------------------
 */

/* All shapes and cases for one allocator, target, policy and seed. */
static void run_seed(const suite_choice *c, context *x, uint64_t *runs, uint64_t *failures) {
    for (uint32_t s = 0; s < N_SHAPES; s++) {
        /* A part of the shapes with each seed and policy, the large one now and then. */
        const int brief = suite_is_brief();
        const int large =
            brief ? x->seed == 0 && x->policy == WH_SIM_RANDOM : x->seed % 16 == x->policy;
        const int due = s == LARGE_SHAPE ? large : (x->seed + x->policy + s) % (brief ? 6 : 3) == 0;
        if (c->shape == UINT64_MAX ? !due : c->shape != s) {
            continue;
        }
        x->shape = s;
        for (uint32_t i = 0; i < N_CASES; i++) {
            if (!suite_wants(c->name, cases[i].name) || (cases[i].needs & ~x->info->caps) != 0) {
                continue;
            }
            x->config =
                (uint32_t)(c->config != UINT64_MAX ? c->config : x->seed + x->policy + s + i) %
                SUITE_CONFIGS;
            ++*runs;
            if (!run_case(x, i) && ++*failures <= 10) {
                printf(
                    "FAILED: %s\n  (%s)\n  repeat: conform alloc=%s case=%s target=%s seed=%" PRIu64
                    " policy=%s shape=%u config=%u\n",
                    x->text, shapes[s].name, x->info->name, cases[i].name, x->target, x->seed,
                    suite_policies[x->policy], s, x->config);
                (void)fflush(stdout);
            }
        }
    }
}

/* One allocator on one target. */
static void run_target(const suite_choice *c, context *x, uint64_t *runs, uint64_t *failures) {
    const int gpu = strcmp(x->target, "sim") != 0;
    const uint64_t before = *runs;
    /* What does not reuse memory has little to go wrong in. */
    const uint64_t n = gpu                   ? 4
                       : can(x, WH_CAP_FREE) ? suite_seeds(c, x->info)
                                             : (suite_seeds(c, x->info) + 4) / 5;
    const uint64_t first = c->seed != UINT64_MAX ? c->seed : suite_first_seed();
    for (uint64_t s = first; s < (c->seed != UINT64_MAX ? first + 1 : first + n); s++) {
        for (uint32_t p = 0; p < (gpu ? 1u : (uint32_t)WH_SIM_POLICY_COUNT); p++) {
            if (suite_wants(c->policy, suite_policies[p]) &&
                (gpu || !suite_thins(c, x->info, s, p))) {
                x->seed = s;
                x->policy = p;
                run_seed(c, x, runs, failures);
            }
        }
    }
    printf("%s on %s: %" PRIu64 " runs\n", x->info->name, x->target, *runs - before);
    (void)fflush(stdout);
}

int main(int argc, char **argv) {
    static context x;
    suite_choice c;
    uint64_t runs = 0, failures = 0;
    if (!suite_parse(&c, argc, argv)) {
        return 2;
    }
    for (uint32_t a = 0; wh_allocator_at(a) != NULL; a++) {
        x.info = wh_allocator_at(a);
        if (!suite_wants(c.alloc, x.info->name)) {
            continue;
        }
        print_skipped(x.info);
        for (uint32_t t = 0; t < 2; t++) {
            x.target = t == 0 ? "sim" : "cuda";
            x.kernels = conform_kernels_find(x.info->name, t == 0 ? WH_TARGET_SIM : WH_TARGET_CUDA);
            if (!suite_wants(c.target, x.target) || (t == 1 && wh_device_cuda_count() == 0)) {
                continue;
            }
            if (x.kernels == NULL) {
                printf("skipped: %s on %s\n", x.info->name, x.target);
            } else {
                run_target(&c, &x, &runs, &failures);
            }
        }
    }
    printf("%" PRIu64 " runs, %" PRIu64 " failed\n", runs, failures);
    return failures != 0 || runs == 0;
}

/* heap.c: the host's calls on heaps: every status they promise, smallest heaps, memory
 * of the caller's, exhausted devices, many heaps at once; names of statuses and
 * allocators. */
#define WH_ALLOCATOR gallatin /* for its many shapes, and to break one of its invariants */
#include "sim/sim_test.h"

#include "built_list.h"
#include "warpheap/warpheap.h"
#include "warpheap/options.h"

#define HEAP_BYTES ((uint64_t)1 << 20)
#define GALLATIN_ .head = {"gallatin", sizeof(wh_gallatin_options)}
#define GUARD 4096u

typedef struct work_args {
    wh_heap_ref heap;
    uint32_t *failed;
    uint64_t bytes;
    void *keep; /* NULL: where the block's address goes instead of a free */
} work_args;

/* Allocates, writes, frees. */
WH_KERNEL(work, work_args, a) {
    unsigned char *p = (unsigned char *)wh_malloc(a.heap, a.bytes);
    if (p == NULL) {
        wh_add_u32_relaxed(a.failed, 1);
        return;
    }
    for (uint64_t i = 0; i < a.bytes; i++) {
        p[i] = (unsigned char)(wh_thread_id() + i);
    }
    if (a.keep != NULL) {
        wh_store_u64_relaxed((uint64_t *)a.keep, (uint64_t)(uintptr_t)p);
    } else {
        wh_free(a.heap, p);
    }
}

static wh_heap_options options(wh_device *d, uint64_t bytes) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = bytes;
    o.allocator = WH_OF_(NAME);
    return o;
}

static wh_heap *create(const wh_heap_options *o) {
    wh_heap *h = NULL;
    assert_int_equal(wh_heap_create(&h, o), WH_OK);
    assert_non_null(h);
    return h;
}

static void create_fails(const wh_heap_options *o, wh_status expected) {
    wh_heap *h = (wh_heap *)(uintptr_t)1;
    assert_int_equal(wh_heap_create(&h, o), expected);
    assert_null(h);
}

/* 64 lanes allocate, write and free; the heap is sound and empty afterwards. */
static void use(wh_heap *h) {
    wh_device *d = wh_heap_device(h);
    work_args a;
    assert_int_equal(wh_heap_handle(h, &a.heap), WH_OK);
    a.failed = take(d, 4);
    a.bytes = 16;
    a.keep = NULL;
    const wh_launch l = grid(d, 2, 32);
    assert_int_equal(work(&l, &a), WH_OK);
    assert_int_equal(*a.failed, 0);
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(h, &s), WH_OK);
    assert_int_equal(s.used_bytes, 0);
    assert_int_equal(s.live_blocks, 0);
    assert_int_equal(wh_heap_check(h, NULL), WH_OK);
    assert_int_equal(wh_device_free(d, a.failed), WH_OK);
}

static void test_status_names(void **state) {
    (void)state;
#define EXPECT_(name, text)                                      \
    assert_string_equal(wh_status_name(WH_##name), "WH_" #name); \
    assert_string_equal(wh_status_text(WH_##name), text);
    WH_STATUS_LIST(EXPECT_)
#undef EXPECT_
    assert_int_equal(WH_OK, 0);
    for (int i = -2; i < WH_STATUS_COUNT + 3; i++) {
        assert_non_null(wh_status_name((wh_status)i));
        assert_true(wh_status_text((wh_status)i)[0] != '\0');
    }
}

static void test_allocators(void **state) {
    (void)state;
    uint32_t n = 0;
#define EXPECT_(ident, name_, title_, source_, caps_, max_align_, max_size_) \
    {                                                                        \
        const wh_allocator_info *i = wh_allocator_at(n);                     \
        assert_non_null(i);                                                  \
        assert_string_equal(i->name, name_);                                 \
        assert_ptr_equal(wh_allocator_find(name_), i);                       \
        assert_int_equal(i->caps, caps_);                                    \
        assert_true(i->max_align >= 16 && i->max_size == (max_size_));       \
        assert_true(i->title[0] != '\0' && i->source[0] != '\0');            \
        n++;                                                                 \
    }
    WH_BUILT_LIST(EXPECT_)
#undef EXPECT_
    assert_null(wh_allocator_at(n));
    assert_null(wh_allocator_at(UINT32_MAX));
    assert_null(wh_allocator_find("nobody"));
    assert_null(wh_allocator_find(""));
    assert_string_equal(wh_allocator_find("default")->name, WH_DEFAULT_ALLOCATOR);
    assert_ptr_equal(wh_allocator_find(NULL), wh_allocator_find("default"));
}

static void test_bad_arguments(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap_options o = options(d, HEAP_BYTES);
    uint64_t bytes = 0;
    create_fails(NULL, WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_create(NULL, &o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_min_bytes(NULL, &bytes), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_min_bytes(&o, NULL), WH_BAD_ARGUMENT);
    o.bytes = 0;
    create_fails(&o, WH_BAD_ARGUMENT);
    o.bytes = HEAP_BYTES;
    o.allocator = "nobody";
    create_fails(&o, WH_UNKNOWN_ALLOCATOR);
    assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_UNKNOWN_ALLOCATOR);
    o.allocator = "cuda"; /* does not run on the simulated device */
    create_fails(&o, WH_UNSUPPORTED);
    o.allocator = NULL;
    o.memory = (char *)take(d, HEAP_BYTES + 256) + 64;
    create_fails(&o, WH_BAD_ARGUMENT);
    o.memory = NULL;
    o.bytes = UINT64_MAX; /* more than chunks have numbers for */
    create_fails(&o, WH_BAD_ARGUMENT);

    o.bytes = HEAP_BYTES;
    wh_heap *h = create(&o);
    wh_heap_ref handle;
    assert_int_equal(wh_heap_handle_of(NULL, "gallatin", 0, &handle, sizeof handle),
                     WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_handle_of(h, NULL, 0, &handle, sizeof handle), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_handle_of(h, "gallatin", 0, NULL, sizeof handle), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_get_stats(NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_get_stats(h, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_check(NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_reset(NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_reset_async(NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_walk(NULL, NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_walk(h, NULL, NULL), WH_BAD_ARGUMENT);
    assert_ptr_equal(wh_heap_device(h), d);
    wh_heap_destroy(NULL);
    wh_heap_destroy(h);
    wh_device_close(d);
}

static void test_bad_options(void **state) {
    (void)state;
    static const wh_gallatin_options bad[] = {
        {GALLATIN_, .segment_bytes = 3000},
        {GALLATIN_, .segment_bytes = 32},
        {GALLATIN_, .segment_bytes = (uint64_t)1 << 37},
        {GALLATIN_, .min_slice_bytes = 8},
        {GALLATIN_, .min_slice_bytes = 48},
        {GALLATIN_, .max_slice_bytes = 100},
        {GALLATIN_, .min_slice_bytes = 64, .max_slice_bytes = 32},
        {GALLATIN_, .segment_bytes = 1024, .max_slice_bytes = 1024, .slices_per_block = 4},
        {GALLATIN_, .slices_per_block = 1},
        {GALLATIN_, .slices_per_block = 3},
        {GALLATIN_, .segment_bytes = 1024, .slices_per_block = 128},
        {GALLATIN_, .slices_per_block = 1u << 21},
    };
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wh_heap_options o = options(d, 4 * HEAP_BYTES);
        uint64_t bytes = 0;
        o.options = &bad[i].head;
        create_fails(&o, WH_BAD_ARGUMENT);
        assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_BAD_ARGUMENT);
    }
    wh_device_close(d);
}

/* Whatever the value of an option is: a heap, or a status that says why not. */
static void test_extreme_options(void **state) {
    static const uint64_t values[] = {1,
                                      3,
                                      1u << 31,
                                      (uint64_t)1 << 32,
                                      (uint64_t)1 << 61,
                                      (uint64_t)1 << 62,
                                      (uint64_t)1 << 63,
                                      UINT64_MAX};
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    const wh_option_info *option = NULL;
    for (uint32_t i = 0; (option = wh_option_at(i)) != NULL; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s.%s", option->family, option->name);
        const wh_allocator_info *a = NULL;
        for (uint32_t k = 0; (a = wh_allocator_at(k)) != NULL; k++) {
            const int is_its = strcmp(a->family, option->family) == 0;
            for (size_t v = 0; is_its && v < sizeof values / sizeof *values; v++) {
                wh_any_options own = {0};
                wh_heap_options o = options(d, 4 * HEAP_BYTES);
                wh_heap *h = NULL;
                uint64_t bytes = 0;
                assert_int_equal(wh_options_set(&own, name, values[v]), WH_OK);
                o.allocator = a->name;
                o.options = &own.head;
                const wh_status s = wh_heap_min_bytes(&o, &bytes);
                assert_true(s == WH_OK || s == WH_BAD_ARGUMENT);
                if (s == WH_BAD_ARGUMENT) {
                    assert_non_null(strstr(wh_last_error_text(), name));
                } else if (wh_heap_create(&h, &o) == WH_OK) {
                    wh_report report;
                    assert_int_equal(wh_heap_check(h, &report), WH_OK);
                }
                wh_heap_destroy(h);
            }
        }
    }
    wh_device_close(d);
}

static void test_devices(void **state) {
    (void)state;
    wh_device *d = (wh_device *)(uintptr_t)1;
    assert_int_equal(wh_device_open(NULL, "sim", NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_open(&d, "toaster", NULL), WH_BAD_ARGUMENT);
    assert_null(d);
    assert_int_equal(wh_device_open(&d, "cuda:x", NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_open(&d, "cuda:4000000", NULL), WH_NO_DEVICE);
    assert_null(d);
    if (wh_device_cuda_count() == 0) { /* a heap opens "auto" for itself */
        assert_int_equal(wh_device_open(&d, "cuda", NULL), WH_NO_DEVICE);
        wh_heap_options o = options(NULL, HEAP_BYTES);
        uint64_t bytes = 0;
        assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_OK);
        assert_in_range(bytes, 1, HEAP_BYTES);
        wh_heap *h = create(&o);
        assert_int_equal(wh_device_get_info(wh_heap_device(h))->target, WH_TARGET_SIM);
        use(h);
        wh_heap_destroy(h);
    }
    wh_device_close(NULL);
}

static void test_no_device(void **state) {
    (void)state;
    wh_device *d = NULL;
    wh_device_counters counters;
    double us = 0;
    void *p = NULL;
    char byte = 0;
    assert_null(wh_device_get_info(NULL));
    assert_string_equal(wh_device_error_text(NULL), "");
    assert_int_equal(wh_device_alloc(NULL, &p, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_free(NULL, &byte), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_free(NULL, NULL), WH_OK);
    assert_int_equal(wh_device_set(NULL, &byte, 0, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_copy_in(NULL, &byte, &byte, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_copy_out(NULL, &byte, &byte, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_sync(NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_stream_create(NULL, &p), WH_BAD_ARGUMENT);
    assert_int_equal(wh_stream_destroy(NULL, &byte), WH_BAD_ARGUMENT);
    assert_int_equal(wh_stream_destroy(NULL, NULL), WH_OK);
    assert_int_equal(wh_stream_sync(NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_timer_begin(NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_timer_end(NULL, &us), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_get_counters(NULL, &counters), WH_BAD_ARGUMENT);

    assert_int_equal(wh_device_open(&d, "sim", NULL), WH_OK);
    assert_int_equal(wh_device_alloc(d, NULL, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_alloc(d, &p, 1), WH_OK);
    assert_int_equal(wh_device_set(d, NULL, 0, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_copy_in(d, NULL, &byte, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_copy_in(d, p, NULL, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_copy_out(d, NULL, p, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_copy_out(d, &byte, NULL, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_stream_create(d, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_timer_begin(d), WH_OK);
    assert_int_equal(wh_device_timer_end(d, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_get_counters(d, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_free(d, p), WH_OK);
    wh_device_close(d);
}

/* --- the smallest heap ----------------------------------------------------------------- */

static const wh_gallatin_options shapes[] = {
    {GALLATIN_},
    {GALLATIN_, .segment_bytes = 1024, .slices_per_block = 4},
    {GALLATIN_, .segment_bytes = 64, .slices_per_block = 2},
    {GALLATIN_, .segment_bytes = 64, .slices_per_block = 4},
    {GALLATIN_, .segment_bytes = 4096, .min_slice_bytes = 64, .slices_per_block = 8},
    {GALLATIN_, .segment_bytes = 65536, .max_slice_bytes = 256},
    {GALLATIN_, .segment_bytes = 65536, .block_buffers = 16},
    {GALLATIN_, .segment_bytes = (uint64_t)1 << 22},
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static void test_min_bytes(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    for (uint32_t i = 0; wh_allocator_at(i) != NULL; i++) {
        if ((wh_allocator_at(i)->caps & WH_CAP_SIM) == 0) {
            continue;
        }
        const int shaped = strcmp(wh_allocator_at(i)->family, "gallatin") == 0;
        for (size_t t = 0; t < (shaped ? N_SHAPES : 1); t++) {
            wh_heap_options o = options(d, 0);
            uint64_t bytes = 0;
            o.allocator = wh_allocator_at(i)->name;
            o.options = shaped ? &shapes[t].head : NULL;
            assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_OK);
            assert_true(bytes > 1);
            for (uint32_t own = 0; own < 2; own++) {
                void *memory = own ? take(d, bytes + 256) : NULL;
                o.memory = own ? (char *)memory + 256 : NULL; /* aligned no better than promised */
                o.bytes = bytes - 1;
                create_fails(&o, WH_HEAP_TOO_SMALL);
                o.bytes = bytes;
                wh_heap *h = create(&o);
                if (strcmp(wh_allocator_at(i)->name, WH_OF_(NAME)) == 0) {
                    assert_int_equal(wh_heap_check(h, NULL), WH_OK);
                    wh_stats s;
                    assert_int_equal(wh_heap_get_stats(h, &s), WH_OK);
                    assert_int_equal(s.heap_bytes, bytes);
                    assert_true(s.metadata_bytes < bytes && s.largest_free >= 16);
                }
                wh_heap_destroy(h);
                assert_int_equal(wh_device_free(d, memory), WH_OK);
            }
        }
    }
    wh_device_close(d);
}

/* --- the caller's memory --------------------------------------------------------------------- */

/* Blocks and metadata lie in the memory that was handed in, and nothing else is
 * written, down to the smallest heap. */
static void test_own_memory(void **state) {
    (void)state;
    for (size_t t = 0; t < N_SHAPES; t++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, t);
        wh_heap_options o = options(d, 0);
        uint64_t bytes = 0;
        o.options = &shapes[t].head;
        assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_OK);
        for (uint32_t k = 0; k < 4; k++) {
            o.bytes = bytes + k * 7777;
            unsigned char *memory = take(d, o.bytes + 2 * GUARD);
            memset(memory, 0x77, o.bytes + 2 * GUARD);
            o.memory = memory + GUARD;
            wh_heap *h = create(&o);
            work_args a;
            assert_int_equal(wh_heap_handle(h, &a.heap), WH_OK);
            uint64_t *keep = take(d, 8);
            a.failed = take(d, 4);
            a.keep = keep;
            a.bytes = 32;
            const wh_launch one = grid(d, 1, 1);
            for (;;) { /* until the heap is full: every block is written */
                assert_int_equal(work(&one, &a), WH_OK);
                if (*a.failed != 0) {
                    break;
                }
                const uintptr_t p = (uintptr_t)*keep, low = (uintptr_t)o.memory;
                assert_true(p >= low && p + a.bytes <= low + o.bytes);
            }
            assert_int_equal(wh_heap_check(h, NULL), WH_OK);
            assert_int_equal(wh_heap_reset(h), WH_OK);
            wh_heap_destroy(h);
            for (uint32_t i = 0; i < GUARD; i++) {
                assert_int_equal(memory[i], 0x77);
                assert_int_equal(memory[GUARD + o.bytes + i], 0x77);
            }
            assert_int_equal(wh_device_free(d, memory), WH_OK); /* still the caller's */
        }
        wh_device_close(d);
    }
}

/* --- devices without memory --------------------------------------------------------------------
 */

/* The device runs out at every possible moment: a clean status, and nothing leaks. */
static void test_out_of_device_memory(void **state) {
    (void)state;
    const uint64_t extra[] = {0, 1, 64, sizeof(wh_stats) - 1, sizeof(wh_stats)};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        wh_sim_options so;
        memset(&so, 0, sizeof so);
        so.memory_bytes = HEAP_BYTES + extra[i];
        wh_device *d = open_with(&so);
        wh_heap_options o = options(d, so.memory_bytes + 1);
        create_fails(&o, WH_OUT_OF_MEMORY);
        o.bytes = HEAP_BYTES;
        wh_heap *h = create(&o), *second = NULL;
        assert_int_equal(wh_heap_create(&second, &o), WH_OUT_OF_MEMORY);
        assert_null(second);
        wh_stats s;
        assert_int_equal(wh_heap_get_stats(h, &s), extra[i] >= sizeof s ? WH_OK : WH_OUT_OF_MEMORY);
        assert_int_equal(wh_heap_check(h, NULL),
                         extra[i] >= sizeof(wh_stats) ? WH_OK : WH_OUT_OF_MEMORY);
        assert_int_equal(wh_heap_reset(h), WH_OK);
        wh_heap_destroy(h);
        void *all = NULL;
        assert_int_equal(wh_device_alloc(d, &all, so.memory_bytes), WH_OK);
        wh_device_close(d);
    }
}

/* --- what a heap refuses
 * --------------------------------------------------------------------------- */

static int visit(void *context, void *block, uint64_t bytes) {
    (void)block;
    (void)bytes;
    ++*(int *)context;
    return 0;
}

static void test_unsupported(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    for (uint32_t i = 0; wh_allocator_at(i) != NULL; i++) {
        const wh_allocator_info *info = wh_allocator_at(i);
        if ((info->caps & WH_CAP_SIM) == 0) {
            continue;
        }
        wh_heap_options o = options(d, HEAP_BYTES);
        o.allocator = info->name;
        wh_heap *h = create(&o);
        wh_stats s;
        wh_report r;
        int visited = 0;
        assert_int_equal(wh_heap_get_stats(h, &s),
                         info->caps & WH_CAP_STATS ? WH_OK : WH_UNSUPPORTED);
        assert_int_equal(wh_heap_check(h, &r), info->caps & WH_CAP_CHECK ? WH_OK : WH_UNSUPPORTED);
        assert_int_equal(wh_heap_walk(h, visit, &visited),
                         info->caps & WH_CAP_WALK ? WH_OK : WH_UNSUPPORTED);
        assert_int_equal(visited, 0);
        /* This file is compiled for one allocator. */
        wh_heap_ref handle;
        const int mine = strcmp(info->name, WH_OF_(NAME)) == 0;
        assert_int_equal(wh_heap_handle(h, &handle), mine ? WH_OK : WH_WRONG_ALLOCATOR);
        assert_int_equal(wh_heap_handle_of(h, info->name, 0, &handle, 0), WH_WRONG_BUILD);
        wh_heap_destroy(h);
    }
    wh_device_close(d);
}

/* A broken invariant is reported with its place. */
static void test_corrupt(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap_options o = options(d, HEAP_BYTES);
    static const wh_gallatin_options own = {GALLATIN_, .segment_bytes = 65536};
    o.options = &own.head;
    o.memory = take(d, HEAP_BYTES);
    wh_heap *h = create(&o);
    wh_heap_ref handle;
    wh_report r;
    assert_int_equal(wh_heap_handle(h, &handle), WH_OK);
    uint64_t *control = wh_gallatin_control_(handle.core, 3);
    const uint64_t saved = *control;
    *control = WH_GALLATIN_CONTROL(WH_GALLATIN_LARGE); /* but its bit says that it is free */
    assert_int_equal(wh_heap_check(h, &r), WH_CORRUPT);
    assert_int_equal(r.errors, 1);
    assert_int_equal(r.first_tag, 5);
    assert_int_equal(r.first_where, 3);
    assert_int_equal(wh_heap_check(h, NULL), WH_CORRUPT);
    *control = saved;
    assert_int_equal(wh_heap_check(h, &r), WH_OK);
    assert_int_equal(r.errors, 0);
    assert_int_equal(r.first_tag, 0);
    wh_heap_destroy(h);
    wh_device_close(d);
}

/* --- many heaps
 * ------------------------------------------------------------------------------------------ */

static void test_many_heaps(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *h[40];
    uint64_t *keep = take(d, 8);
    uint32_t *failed = take(d, 4);
    for (uint32_t i = 0; i < 40; i++) {
        wh_heap_options o = options(d, HEAP_BYTES / 4 + i * 4096);
        o.options = &shapes[i % 3].head;
        h[i] = create(&o);
    }
    for (uint32_t i = 0; i < 40; i++) { /* one block of its own in each */
        work_args a;
        assert_int_equal(wh_heap_handle(h[i], &a.heap), WH_OK);
        a.failed = failed;
        a.keep = keep;
        a.bytes = 48;
        const wh_launch one = grid(d, 1, 1);
        assert_int_equal(work(&one, &a), WH_OK);
        for (uint32_t j = 0; j < 40; j++) {
            wh_heap_ref other;
            assert_int_equal(wh_heap_handle(h[j], &other), WH_OK);
            assert_int_equal(wh_owns(other, (void *)(uintptr_t)*keep), i == j);
        }
    }
    for (uint32_t k = 0; k < 40; k++) { /* in another order */
        const uint32_t i = (k * 7 + 3) % 40;
        wh_stats s;
        assert_int_equal(wh_heap_get_stats(h[i], &s), WH_OK);
        assert_int_equal(s.live_blocks, 1);
        assert_int_equal(wh_heap_reset(h[i]), WH_OK);
        use(h[i]);
        wh_heap_destroy(h[i]);
    }
    wh_device_close(d);
}

/* A kernel that has been queued has run when destroy returns, whoever's the memory is. */
static void test_destroy_waits(void **state) {
    (void)state;
    for (int callers = 0; callers < 2; callers++) {
        wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
        wh_heap_options o = options(d, HEAP_BYTES);
        wh_heap *heap = NULL;
        work_args a;
        void *where = NULL, *failed = NULL, *stream = NULL;
        memset(&a, 0, sizeof a);
        if (callers) {
            assert_int_equal(wh_device_alloc(d, &o.memory, o.bytes), WH_OK);
        }
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        assert_int_equal(wh_device_alloc(d, &where, 8), WH_OK);
        assert_int_equal(wh_device_alloc(d, &failed, 4), WH_OK);
        assert_int_equal(wh_device_set(d, where, 0, 8), WH_OK);
        assert_int_equal(wh_device_set(d, failed, 0, 4), WH_OK);
        assert_int_equal(wh_stream_create(d, &stream), WH_OK);
        a.failed = (uint32_t *)failed;
        a.bytes = 64;
        a.keep = where;
        const wh_launch queued = {d, 1, 1, stream};
        assert_int_equal(work(&queued, &a), WH_OK);
        wh_heap_destroy(heap);
        assert_true(*(uint64_t *)where != 0);
        assert_int_equal(wh_stream_destroy(d, stream), WH_OK);
        wh_device_close(d);
    }
}

/* Nothing has changed, and so the blocks have not moved. */
static void test_failed_grow(void **state) {
    (void)state;
    wh_sim_options sim;
    wh_device *d = NULL;
    wh_heap *heap = NULL;
    int64_t moved = 77;
    memset(&sim, 0, sizeof sim);
    sim.memory_bytes = 3 << 20;
    assert_int_equal(wh_device_open(&d, "sim", &sim), WH_OK);
    wh_heap_options o = options(d, HEAP_BYTES);
    o.allocator = "ouro-s-p";
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_grow(heap, 4 * HEAP_BYTES, NULL, &moved), WH_OUT_OF_MEMORY);
    assert_true(moved == 77);
    assert_int_equal(wh_heap_grow(heap, 2 * HEAP_BYTES, NULL, &moved), WH_OK);
    assert_true(moved != 77);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),    cmocka_unit_test(test_allocators),
        cmocka_unit_test(test_bad_arguments),   cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_extreme_options), cmocka_unit_test(test_devices),
        cmocka_unit_test(test_no_device),       cmocka_unit_test(test_min_bytes),
        cmocka_unit_test(test_own_memory),      cmocka_unit_test(test_out_of_device_memory),
        cmocka_unit_test(test_unsupported),     cmocka_unit_test(test_corrupt),
        cmocka_unit_test(test_many_heaps),      cmocka_unit_test(test_destroy_waits),
        cmocka_unit_test(test_failed_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

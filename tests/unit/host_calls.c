/* host_calls.c: what surrounds a heap: structures that know their size, kernels that do not fit a
 * heap, calls on streams, a kernel's error and the verdict after it, the heap's memory. */
#include "sim/sim_test.h"

#include "common/loaded.h"
#include "warpheap/warpheap.h"
#include "warpheap/options.h"

#define HEAP_BYTES ((uint64_t)1 << 20)
#define THREADS 96u

typedef struct work_args {
    wh_heap_ref heap;
    void **blocks;   /* one a thread */
    uint64_t victim; /* the thread that traps amid its malloc and free */
    uint64_t bytes;
} work_args;

WH_KERNEL(take_blocks, work_args, a) {
    a.blocks[wh_thread_id()] = wh_malloc(a.heap, a.bytes);
}

WH_KERNEL(give_blocks, work_args, a) {
    wh_free(a.heap, a.blocks[wh_thread_id()]);
}

WH_KERNEL(trap_midway, work_args, a) {
    for (uint32_t k = 0; k < 4; k++) {
        void *p = wh_malloc(a.heap, 16u << (wh_thread_id() + k) % 8);
        if (wh_thread_id() == a.victim && k == 2) {
            wh_trap("on purpose");
        }
        wh_free(a.heap, p);
    }
}

static wh_heap *heap_on(wh_device *d) {
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    o.bytes = HEAP_BYTES;
    o.device = d;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static work_args work_on(wh_device *d, wh_heap *heap) {
    work_args a;
    memset(&a, 0, sizeof a);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    a.blocks = take(d, THREADS * sizeof *a.blocks);
    a.bytes = 100;
    return a;
}

static void test_version(void **state) {
    (void)state;
    assert_int_equal(wh_version(), WH_VERSION);
    assert_true(WH_VERSION >= 200);
}

/* --- structures that know their size --------------------------------------------------- */

static void test_struct_bytes(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    uint64_t bytes = 0;
    o.bytes = HEAP_BYTES;
    o.device = d;
    /* By hand, and what an older caller's struct lacked is not read. */
    o.struct_bytes = sizeof o;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    wh_heap_destroy(heap);
    o.struct_bytes = offsetof(wh_heap_options, options);
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    own.chunk_bytes = 3; /* no power of two */
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    wh_heap_destroy(heap);
    assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_OK);
    o.struct_bytes = sizeof o;
    assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
    o.options = NULL;
    /* Sizes of no version; a newer caller's. */
    const uint64_t wrong[] = {1, 8, offsetof(wh_heap_options, options) - 1, sizeof o + 1,
                              UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.struct_bytes = wrong[i];
        heap = (wh_heap *)(uintptr_t)1;
        assert_int_equal(wh_heap_create(&heap, &o), WH_WRONG_BUILD);
        assert_null(heap);
        assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_WRONG_BUILD);
        assert_non_null(strstr(wh_last_error_text(), "struct_bytes"));
    }
    /* Other languages load the symbol, and have to say it. */
    o.struct_bytes = 0;
    assert_int_equal(loaded_create(&heap, &o), WH_WRONG_BUILD);
    assert_int_equal(loaded_min_bytes(&o, &bytes), WH_WRONG_BUILD);
    o.struct_bytes = sizeof o;
    assert_int_equal(loaded_min_bytes(&o, &bytes), WH_OK);
    assert_int_equal(loaded_create(&heap, &o), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

static void test_sim_options_bytes(void **state) {
    (void)state;
    wh_device *d = NULL;
    wh_sim_options o = {0};
    o.n_sms = 3;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_OK);
    assert_int_equal(wh_device_get_info(d)->n_sms, 3);
    wh_device_close(d);
    o.struct_bytes = offsetof(wh_sim_options, n_sms);
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_OK);
    assert_int_not_equal(wh_device_get_info(d)->n_sms, 3);
    wh_device_close(d);
    o.struct_bytes = sizeof o + 8;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_WRONG_BUILD);
    assert_null(d);
    o.struct_bytes = 0;
    assert_int_equal(loaded_open(&d, "sim", &o), WH_WRONG_BUILD);
    assert_int_equal(loaded_open(&d, "sim", NULL), WH_OK);
    wh_device_close(d);
}

static void test_stats_bytes(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = heap_on(d);
    struct {
        wh_stats stats;
        uint64_t behind;
    } room;
    memset(&room, 0x55, sizeof room);
    assert_int_equal(wh_heap_get_stats(heap, &room.stats), WH_OK);
    assert_int_equal(room.stats.struct_bytes, sizeof room.stats);
    assert_int_equal(room.stats.heap_bytes, HEAP_BYTES);
    /* An older, smaller struct: nothing behind it is written. */
    const size_t less = offsetof(wh_stats, classes) + sizeof(wh_class_stats);
    memset(&room, 0x55, sizeof room);
    assert_int_equal(wh_heap_get_stats_sized(heap, &room.stats, less, NULL, 0), WH_OK);
    assert_int_equal(room.stats.struct_bytes, less);
    assert_int_equal(room.stats.n_classes, 1); /* of those that there is room for */
    for (size_t i = less; i < sizeof room; i++) {
        assert_int_equal(((unsigned char *)&room)[i], 0x55);
    }
    /* Sizes that the library does not know: nothing is written. */
    const uint64_t wrong[] = {0, 8, offsetof(wh_stats, classes) - 1, sizeof room, 9999};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(&room, 0x55, sizeof room);
        room.stats.struct_bytes = wrong[i];
        assert_int_equal(wh_heap_get_stats_sized(heap, &room.stats, wrong[i], NULL, 0),
                         WH_WRONG_BUILD);
        assert_int_equal(loaded_stats(heap, &room.stats), WH_WRONG_BUILD);
        assert_int_equal(loaded_stats_on(heap, &room.stats, NULL), WH_WRONG_BUILD);
        assert_int_equal(room.stats.heap_bytes, 0x5555555555555555);
        assert_int_equal(room.behind, 0x5555555555555555);
    }
    assert_int_equal(wh_heap_get_stats_async_sized(heap, &room.stats, less, NULL), WH_WRONG_BUILD);
    room.stats.struct_bytes = sizeof room.stats;
    assert_int_equal(loaded_stats(heap, &room.stats), WH_OK);
    assert_int_equal(loaded_stats_on(heap, &room.stats, NULL), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

/* --- kernels that do not fit ------------------------------------------------------------ */

static void test_handle(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = heap_on(d);
    unsigned char handle[256];
    wh_handle_kind right = {0};
    right.struct_bytes = sizeof right;
    right.allocator = WH_OF_(NAME);
    right.handle_bytes = sizeof(wh_heap_ref);
    right.version = WH_VERSION;
    right.target = WH_TARGET_SIM;
    assert_int_equal(wh_heap_handle_bytes(heap), sizeof(wh_heap_ref));
    assert_int_equal(wh_heap_handle_bytes(NULL), 0);
    assert_int_equal(wh_heap_copy_handle(heap, &right, handle), WH_OK);
    wh_handle_kind k = right;
    k.version += 1; /* another patch */
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_OK);
    k.version = WH_VERSION + 100;
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_WRONG_BUILD);
    assert_non_null(strstr(wh_last_error_text(), "of version 0.3, the library is of 0.2"));
    k = right;
    k.handle_bytes -= 8;
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_WRONG_BUILD);
    assert_non_null(strstr(wh_last_error_text(), "another layout"));
    k = right;
    k.layout = 1;
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_WRONG_BUILD);
    k.layout = WH_OF_(layout)();
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_OK);
    k = right;
    k.target = WH_TARGET_CUDA;
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_WRONG_TARGET);
    k = right;
    k.allocator = "bump";
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_WRONG_ALLOCATOR);
    k = right;
    k.struct_bytes = 0;
    assert_int_equal(wh_heap_copy_handle(heap, &k, handle), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_copy_handle(heap, NULL, handle), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_copy_handle(heap, &right, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_copy_handle(NULL, &right, handle), WH_BAD_ARGUMENT);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

/* --- streams ------------------------------------------------------------------------------ */

static int count_visit(void *context, void *block, uint64_t usable_bytes) {
    (void)block;
    assert_true(usable_bytes >= 100);
    ++*(uint64_t *)context;
    return 0;
}

/* Each call sees what was queued on the stream before it. */
static void test_on_stream(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, seed);
        wh_heap *heap = heap_on(d);
        work_args a = work_on(d, heap);
        void *stream = NULL;
        wh_stats s;
        wh_report r;
        uint64_t n = 0;
        assert_int_equal(wh_stream_create(d, &stream), WH_OK);
        const wh_launch l = {d, 3, THREADS / 3, stream};
        assert_int_equal(take_blocks(&l, &a), WH_OK);
        assert_int_equal(wh_heap_get_stats_on(heap, &s, stream), WH_OK);
        assert_int_equal(s.live_blocks, THREADS);
        assert_int_equal(give_blocks(&l, &a), WH_OK);
        assert_int_equal(take_blocks(&l, &a), WH_OK);
        assert_int_equal(wh_heap_check_on(heap, &r, stream), WH_OK);
        assert_int_equal(wh_heap_walk_on(heap, count_visit, &n, stream), WH_OK);
        assert_int_equal(n, THREADS);
        assert_int_equal(wh_heap_reset_on(heap, stream), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
        assert_int_equal(s.live_blocks, 0);
        assert_int_equal(take_blocks(&l, &a), WH_OK);
        wh_heap_destroy_on(heap, stream);
        assert_int_equal(wh_device_free(d, a.blocks), WH_OK);
        assert_int_equal(wh_stream_destroy(d, stream), WH_OK);
        wh_device_close(d);
    }
}

/* Asynchronous calls are queued like kernels; results are there when the stream is. */
static void test_async(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, seed);
        wh_heap *heap = heap_on(d);
        work_args a = work_on(d, heap);
        void *stream = NULL;
        wh_stats *s = take(d, 3 * sizeof *s);
        wh_report *r = take(d, sizeof *r);
        assert_int_equal(wh_stream_create(d, &stream), WH_OK);
        const wh_launch l = {d, 3, THREADS / 3, stream};
        memset(s, 0x77, 3 * sizeof *s);
        memset(r, 0x77, sizeof *r);
        assert_int_equal(wh_heap_get_stats_async(heap, &s[0], stream), WH_OK);
        assert_int_equal(take_blocks(&l, &a), WH_OK);
        assert_int_equal(wh_heap_get_stats_async(heap, &s[1], stream), WH_OK);
        assert_int_equal(wh_heap_check_async(heap, r, stream), WH_OK);
        assert_int_equal(wh_heap_reset_async(heap, stream), WH_OK);
        assert_int_equal(wh_heap_get_stats_async(heap, &s[2], stream), WH_OK);
        assert_int_equal(r->errors, 0x7777777777777777); /* nothing has run */
        assert_int_equal(wh_stream_sync(d, stream), WH_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(s[i].live_blocks, i == 1 ? THREADS : 0);
            assert_int_equal(s[i].heap_bytes, HEAP_BYTES);
            assert_int_equal(s[i].struct_bytes, sizeof *s);
            assert_true(s[i].peak_bytes == WH_UNKNOWN);
        }
        assert_int_equal(r->errors, 0);
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
}

/* --- a kernel that fails ---------------------------------------------------------------------- */

/* Its launch tells it, nothing after does; a check gives a verdict on the heap. */
static void test_told_once(void **state) {
    (void)state;
    uint32_t sound = 0, corrupt = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, seed);
        wh_heap *heap = heap_on(d);
        work_args a = work_on(d, heap);
        wh_stats s;
        a.victim = seed * 7 % THREADS;
        const wh_launch l = {d, 3, THREADS / 3, NULL};
        assert_int_equal(trap_midway(&l, &a), WH_DEVICE_ERROR);
        assert_non_null(strstr(wh_device_error_text(d), "on purpose"));
        const wh_status verdict = wh_heap_check(heap, NULL);
        assert_true(verdict == WH_OK || verdict == WH_CORRUPT);
        sound += verdict == WH_OK;
        corrupt += verdict == WH_CORRUPT;
        assert_int_equal(wh_device_sync(d), WH_OK);
        assert_int_equal(wh_heap_reset(heap), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        a.victim = UINT64_MAX;
        assert_int_equal(trap_midway(&l, &a), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
        assert_int_equal(s.live_blocks, 0);
        /* On a stream: by whoever waits first. */
        void *stream = NULL;
        assert_int_equal(wh_stream_create(d, &stream), WH_OK);
        const wh_launch ls = {d, 3, THREADS / 3, stream};
        a.victim = 5;
        assert_int_equal(trap_midway(&ls, &a), WH_OK);
        assert_int_equal(wh_stream_sync(d, stream), WH_DEVICE_ERROR);
        assert_int_equal(wh_device_sync(d), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
    assert_int_equal(sound + corrupt, 10);
}

/* --- the heap's memory -------------------------------------------------------------------------
 */

static void test_memory(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 3);
    wh_heap *heap = heap_on(d);
    work_args a = work_on(d, heap);
    void *base = NULL;
    uint64_t bytes = 0;
    assert_int_equal(wh_heap_memory(heap, &base, &bytes), WH_OK);
    assert_int_equal(bytes, HEAP_BYTES);
    const wh_launch l = {d, 3, THREADS / 3, NULL};
    assert_int_equal(take_blocks(&l, &a), WH_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_in_range((uintptr_t)a.blocks[i], (uintptr_t)base, (uintptr_t)base + bytes - a.bytes);
    }
    assert_int_equal(wh_heap_memory(NULL, &base, &bytes), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_memory(heap, NULL, &bytes), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_memory(heap, &base, NULL), WH_BAD_ARGUMENT);
    assert_null(wh_heap_device(NULL));
    wh_heap_destroy(heap);
    wh_device_close(d);
}

/* --- what is said of a failure ------------------------------------------------------------------
 */

static void says(const char *text) {
    if (strstr(wh_last_error_text(), text) == NULL) {
        fail_msg("'%s' does not say '%s'", wh_last_error_text(), text);
    }
}

/* Each reason is told, and none that was another call's. */
static void test_texts(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1), *other = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    wh_sim_options so = {0};
    wh_heap_ref handle;
    assert_string_equal(wh_last_error_text(), "");
    assert_int_equal(wh_device_open(&other, "SIM", NULL), WH_BAD_ARGUMENT);
    says("unknown device 'SIM'; known: auto, sim, cuda, cuda:N");
    assert_int_equal(wh_device_open(&other, "cuda:x", NULL), WH_BAD_ARGUMENT);
    says("'cuda:x'");
    so.policy = WH_SIM_POLICY_COUNT;
    assert_int_equal(wh_device_open(&other, "sim", &so), WH_BAD_ARGUMENT);
    says("wh_sim_options");
    so.policy = WH_SIM_RANDOM;
    so.replay = "/no/such/schedule";
    assert_int_equal(wh_device_open(&other, "sim", &so), WH_IO_ERROR);
    says("/no/such/schedule");
    assert_int_equal(setenv("WH_SIM", "seed=5,sed=6", 1), 0);
    assert_int_equal(wh_device_open(&other, "sim", NULL), WH_BAD_ARGUMENT);
    says("WH_SIM: 'sed=6'");
    assert_int_equal(setenv("WH_SIM", "nonsense", 1), 0);
    assert_int_equal(wh_device_open(&other, "sim", NULL), WH_BAD_ARGUMENT);
    says("WH_SIM: 'nonsense'");
    assert_int_equal(unsetenv("WH_SIM"), 0);
    o.device = d;
    assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
    says("bytes is 0");
    o.bytes = 100;
    assert_int_equal(wh_heap_create(&heap, &o), WH_HEAP_TOO_SMALL);
    says("a heap of 100 bytes is too small");
    o.bytes = (uint64_t)4 << 30;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OUT_OF_MEMORY);
    says("no 4294967296 bytes of memory left (2147483648 in all)");
    o.bytes = HEAP_BYTES;
    o.memory = (void *)(uintptr_t)64;
    assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
    says("256");
    o.memory = NULL;
    o.allocator = "tesera";
    assert_int_equal(wh_heap_create(&heap, &o), WH_UNKNOWN_ALLOCATOR);
    says("no allocator 'tesera' is built in (CMake: WARPHEAP_ALLOCATORS); there are: tessera");
    o.allocator = NULL;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    own.chunk_bytes = 3;
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
    says("options");
    o.options = NULL;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_string_equal(wh_last_error_text(), "");
    assert_int_equal(wh_heap_handle(heap, &handle), WH_OK);
    work_args a = work_on(d, heap);
    const wh_launch l = {.device = d, .blocks = 1, .threads = 2000};
    assert_int_equal(take_blocks(&l, &a), WH_BAD_ARGUMENT);
    says("a block has 1024 threads at most");
    wh_heap_destroy(heap);
    wh_device_close(d);
}

static wh_heap_options plain_options(wh_device *d) {
    wh_heap_options o = {0};
    o.bytes = HEAP_BYTES;
    o.device = d;
    return o;
}

static void refuses(const wh_heap_options *o, const char *text) {
    wh_heap *heap = (wh_heap *)(uintptr_t)1;
    uint64_t bytes = 1;
    assert_int_equal(wh_heap_create(&heap, o), WH_BAD_ARGUMENT);
    says(text);
    assert_null(heap);
    assert_int_equal(wh_heap_min_bytes(o, &bytes), WH_BAD_ARGUMENT);
    says(text);
}

static wh_stats stats_with(const wh_heap_options *o) {
    wh_heap *heap = NULL;
    wh_stats s;
    assert_int_equal(wh_heap_create(&heap, o), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    wh_heap_destroy(heap);
    return s;
}

/* The options of a family: another family's, sizes of other headers, and none at all. */
static void test_family_options(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    wh_heap_options o = plain_options(d);
    wh_gallatin_options other = WH_GALLATIN_OPTIONS;
    o.options = &other.head;
    refuses(&o, "are of the family 'gallatin', the allocator 'tessera' is of the family 'tessera'");
    wh_tessera_options own = {{NULL, 0}, 0, 0, 0, 0};
    o.options = &own.head;
    refuses(&o, "names no family");
    own = (wh_tessera_options)WH_TESSERA_OPTIONS;
    const uint64_t wrong[] = {0, sizeof own.head - 1, sizeof own + 1, sizeof own + 8, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[100];
        own.head.struct_bytes = wrong[i];
        (void)snprintf(text, sizeof text,
                       "a wh_tessera_options of %llu bytes is none that this library knows (its "
                       "own has %zu)",
                       (unsigned long long)wrong[i], sizeof own);
        refuses(&o, text);
    }
    /* Headers that knew no track_totals: what lies there is not read. */
    own.track_peak = own.track_totals = 1;
    own.head.struct_bytes = offsetof(wh_tessera_options, track_totals);
    const wh_stats older = stats_with(&o);
    assert_int_equal(older.peak_bytes, 0);
    assert_true(older.mallocs == WH_UNKNOWN);
    own.head.struct_bytes = sizeof own;
    assert_int_equal(stats_with(&o).mallocs, 0);
    if (wh_allocator_find("bump") != NULL) {
        o.allocator = "bump";
        refuses(&o, "of the family 'bump', which has no options");
        o.options = NULL;
        (void)stats_with(&o);
    }
    wh_device_close(d);
}

/* Every option can be set by its name, and is the field of that name. */
static void test_options_by_name(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    wh_heap_options o = plain_options(d);
    wh_any_options any = {0};
    wh_tessera_options own;
    uint32_t n = 0;
    for (; wh_option_at(n) != NULL; n++) {
        const wh_option_info *info = wh_option_at(n);
        wh_any_options one = {0};
        char name[80];
        (void)snprintf(name, sizeof name, "%s.%s", info->family, info->name);
        assert_int_equal(wh_options_set(&one, name, n + 7), WH_OK);
        assert_string_equal(one.head.family, info->family);
        assert_true(info->meaning[0] != '\0');
        const uint64_t *values = (const uint64_t *)(const void *)&one;
        uint64_t set = 0;
        for (size_t i = 2; i < sizeof one / 8; i++) {
            set += values[i] != 0;
            assert_true(values[i] == 0 || values[i] == n + 7);
        }
        assert_int_equal(set, 1);
    }
    assert_null(wh_option_at(UINT32_MAX));
    assert_int_equal(wh_options_set(&any, "tessera.chunk_bytes", 2048), WH_OK);
    assert_int_equal(wh_options_set(&any, "tessera.shards", 3), WH_OK);
    assert_int_equal(wh_options_set(&any, "tessera.track_peak", 1), WH_OK);
    assert_int_equal(any.head.struct_bytes, sizeof own);
    memcpy(&own, &any, sizeof own);
    assert_true(own.chunk_bytes == 2048 && own.shards == 3 && own.track_peak == 1);
    assert_int_equal(own.track_totals, 0);
    const char *const wrong[] = {
        "tessera.nothing",       "tessera", "track_peak", "tessera.", "", "tessera.track_peak2",
        "gallatin.segment_bytes"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(wh_options_set(&any, wrong[i], 1), WH_BAD_ARGUMENT);
        says(wrong[i]);
    }
    assert_int_equal(wh_options_set(NULL, "tessera.shards", 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_options_set(&any, NULL, 1), WH_BAD_ARGUMENT);
    assert_memory_equal(&own, &any, sizeof own);
    o.options = &any.head;
    const wh_stats s = stats_with(&o);
    assert_true(s.peak_bytes == 0 && s.mallocs == WH_UNKNOWN);
    wh_device_close(d);
}

/* --- what is not there, what goes first, what is too large --------------------------------- */

static int no_visit(void *context, void *block, uint64_t usable_bytes) {
    (void)context;
    (void)block;
    (void)usable_bytes;
    return 0;
}

static void expect_bad(const wh_status *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] != WH_BAD_ARGUMENT) {
            fail_msg("call %zu: %s", i, wh_status_name(s[i]));
        }
    }
}

/* Each call on no heap. */
static void test_no_heap(void **state) {
    (void)state;
    wh_stats s;
    wh_report r;
    void *p = NULL;
    uint64_t n = 0;
    int64_t moved = 0;
    wh_heap_ref handle;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = (wh_heap *)(uintptr_t)1, *const no = NULL;
    wh_heap_options o = {0};
    const wh_status bad[] = {
        wh_heap_create(NULL, &o),
        wh_heap_create(&heap, NULL),
        wh_heap_min_bytes(NULL, &n),
        wh_heap_min_bytes(&o, NULL),
        wh_heap_memory(no, &p, &n),
        wh_heap_reset(no),
        wh_heap_reset_on(no, NULL),
        wh_heap_reset_async(no, NULL),
        wh_heap_extend(no, 1),
        wh_heap_trim(no, 0, &n),
        wh_heap_extent(no, &n, &n, &n),
        wh_heap_grow(no, 1, NULL, &moved),
        wh_heap_get_stats(no, &s),
        wh_heap_get_stats_on(no, &s, NULL),
        wh_heap_get_stats_async(no, &s, NULL),
        wh_heap_compact(no, NULL),
        wh_heap_compact_on(no, NULL, NULL),
        wh_heap_check(no, &r),
        wh_heap_check_on(no, &r, NULL),
        wh_heap_check_async(no, &r, NULL),
        wh_heap_walk(no, no_visit, NULL),
        wh_heap_walk_on(no, no_visit, NULL, NULL),
        wh_heap_blocks_left(no, 8, &n),
        wh_heap_blocks_left_on(no, 8, &n, NULL),
        wh_heap_handle(no, &handle),
    };
    expect_bad(bad, sizeof bad / sizeof *bad);
    assert_null(heap); /* create says so */
    assert_int_equal(wh_heap_destroy(no), WH_OK);
    assert_int_equal(wh_heap_destroy_on(no, NULL), WH_OK);
    assert_true(wh_heap_device(no) == NULL && wh_heap_allocator(no) == NULL);
    assert_null(wh_heap_rebase(NULL, 5));
    wh_device_close(d);
}

/* Each call that has no place for its answer. */
static void test_no_answer(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = heap_on(d);
    const wh_status nowhere[] = {
        wh_heap_memory(heap, NULL, NULL),
        wh_heap_grow(heap, HEAP_BYTES, NULL, NULL),
        wh_heap_get_stats(heap, NULL),
        wh_heap_get_stats_on(heap, NULL, NULL),
        wh_heap_get_stats_async(heap, NULL, NULL),
        wh_heap_check_async(heap, NULL, NULL),
        wh_heap_walk(heap, NULL, NULL),
        wh_heap_walk_on(heap, NULL, NULL, NULL),
        wh_heap_blocks_left(heap, 8, NULL),
        wh_heap_blocks_left_on(heap, 8, NULL, NULL),
        wh_heap_handle(heap, NULL),
    };
    expect_bad(nowhere, sizeof nowhere / sizeof *nowhere);
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_extent(heap, NULL, NULL, NULL), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

/* Each call on no device. */
static void test_no_device(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1), *const no = NULL;
    char byte = 0;
    void *p = NULL;
    double us = 0;
    wh_device_counters c;
    work_args a;
    memset(&a, 0, sizeof a);
    const wh_launch nowhere = {0};
    const wh_status bad[] = {
        wh_device_open(NULL, "sim", NULL),
        wh_device_alloc(no, &p, 1),
        wh_device_alloc(d, NULL, 1),
        wh_device_free(no, &byte),
        wh_device_set(no, &byte, 0, 1),
        wh_device_set(d, NULL, 0, 1),
        wh_device_copy_in(no, &byte, &byte, 1),
        wh_device_copy_in(d, NULL, &byte, 1),
        wh_device_copy_in(d, &byte, NULL, 1),
        wh_device_copy_out(no, &byte, &byte, 1),
        wh_device_copy_out(d, NULL, &byte, 1),
        wh_device_copy_out(d, &byte, NULL, 1),
        wh_device_sync(no),
        wh_stream_create(no, &p),
        wh_stream_create(d, NULL),
        wh_stream_destroy(no, &byte),
        wh_stream_sync(no, NULL),
        wh_device_timer_begin(no),
        wh_device_timer_end(no, &us),
        wh_device_timer_end(d, NULL),
        wh_device_get_counters(no, &c),
        wh_device_get_counters(d, NULL),
        wh_launch_check(NULL, WH_TARGET_SIM),
        wh_launch_check(&nowhere, WH_TARGET_SIM),
        give_blocks(&nowhere, &a),
        give_blocks(NULL, &a),
    };
    expect_bad(bad, sizeof bad / sizeof *bad);
    assert_null(wh_device_get_info(no));
    assert_string_equal(wh_device_error_text(no), "");
    assert_int_equal(wh_device_free(no, NULL), WH_OK);
    assert_int_equal(wh_stream_destroy(no, NULL), WH_OK);
    wh_device_close(no);
    wh_device_close(d);
}

/* A device that is closed before its heaps ends with the last of them. */
static void test_device_first(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, 1);
        wh_heap *heap[2] = {heap_on(d), heap_on(d)}, *none = NULL;
        work_args a = work_on(d, heap[0]);
        wh_heap_options o = {0};
        wh_stats s;
        o.device = d;
        o.bytes = 100; /* a heap that fails holds nothing */
        assert_int_equal(wh_heap_create(&none, &o), WH_HEAP_TOO_SMALL);
        assert_int_equal(wh_heap_min_bytes(&o, &o.bytes), WH_OK);
        const wh_launch l = {d, 3, THREADS / 3, NULL};
        assert_int_equal(take_blocks(&l, &a), WH_OK);
        wh_device_close(d);
        assert_int_equal(wh_heap_destroy(heap[1]), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap[0], &s), WH_OK);
        assert_int_equal(s.live_blocks, THREADS);
        assert_int_equal(wh_heap_check(heap[0], NULL), WH_OK);
        assert_int_equal(wh_heap_reset(heap[0]), WH_OK);
        assert_int_equal(wh_heap_destroy_on(heap[0], NULL), WH_OK);
    }
}

/* Chunks have numbers of 24 bits: a heap that has more is refused, before memory is taken. */
static void test_too_large(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    uint64_t bytes = 0;
    o.device = d;
    o.options = &own.head;
    for (uint64_t chunk = 1024; chunk <= 16384; chunk *= 2) {
        own.chunk_bytes = chunk;
        o.reserve_bytes = 0;
        o.bytes = chunk << 24; /* with its metadata there are fewer chunks */
        assert_int_equal(wh_heap_create(&heap, &o), WH_OUT_OF_MEMORY);
        o.bytes = (chunk << 24) + (chunk << 23);
        assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
        says("is too large: this allocator has numbers for");
        o.reserve_bytes = o.bytes;
        o.bytes = (uint64_t)8 << 20;
        assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
        says("is too large: this allocator has numbers for");
        assert_int_equal(wh_heap_min_bytes(&o, &bytes), WH_BAD_ARGUMENT);
        says("is too large: this allocator has numbers for");
        assert_int_equal(bytes, 0);
    }
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_heap),         cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_no_device),       cmocka_unit_test(test_device_first),
        cmocka_unit_test(test_too_large),       cmocka_unit_test(test_version),
        cmocka_unit_test(test_struct_bytes),    cmocka_unit_test(test_sim_options_bytes),
        cmocka_unit_test(test_stats_bytes),     cmocka_unit_test(test_handle),
        cmocka_unit_test(test_on_stream),       cmocka_unit_test(test_async),
        cmocka_unit_test(test_told_once),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_texts),           cmocka_unit_test(test_family_options),
        cmocka_unit_test(test_options_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

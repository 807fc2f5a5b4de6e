/* oom.c: WH_ON_OOM: every call that allocates tells what it asked for and where it stands when the
 * heap is full, once for each block that was asked for, and returns NULL; nothing is told else. */
#include "sim/sim_test.h"

static void note_event(wh_oom_event event);
#define WH_ON_OOM(event) note_event(event)
#include "warpheap/warpheap.h"

#define HEAP_BYTES ((uint64_t)1 << 20)
#define TOO_MUCH ((size_t)HEAP_BYTES)
#define THREADS 40u

/* The first warp and 8 lanes of a second one. */
static uint32_t n_events;
static wh_oom_event events[2 * THREADS];

static void note_event(wh_oom_event event) {
    const uint32_t i = wh_fetch_add_u32_relaxed(&n_events, 1);
    if (i < 2 * THREADS) {
        events[i] = event;
    }
}

typedef struct call_args {
    wh_heap_ref heap;
    wh_pool_t pool; /* of n bytes */
    uint32_t *got;  /* calls that did not return NULL */
    size_t n;
    uint32_t which;
    uint32_t *line;
} call_args;

#define CALLS 12u
static const char *const names[CALLS] = {
    "wh_malloc",       "wh_calloc",      "wh_realloc",           "wh_aligned_alloc",
    "wh_malloc_lanes", "wh_malloc_warp", "wh_malloc_block",      "wh_calloc_warp",
    "wh_calloc_block", "wh_pool_malloc", "wh_pool_malloc_lanes", "wh_pool_malloc_warp"};

WH_FN wh_mask my_warp(void) {
    return wh_thread_in_block() < 32 ? WH_FULL_WARP : (1u << (THREADS - 32)) - 1;
}

#define AT(call) (*line = __LINE__, (call))

WH_FN void *make(const call_args a, uint32_t *line) {
    switch (a.which) {
    case 0:
        return AT(wh_malloc(a.heap, a.n));
    case 1:
        return AT(wh_calloc(a.heap, a.n, 1));
    case 2:
        return AT(wh_realloc(a.heap, NULL, a.n));
    case 3:
        return AT(wh_aligned_alloc(a.heap, 64, a.n));
    case 4:
        return AT(wh_malloc_lanes(a.heap, my_warp(), a.n));
    case 5:
        return AT(wh_malloc_warp(a.heap, my_warp(), a.n));
    case 6:
        return AT(wh_malloc_block(a.heap, a.n));
    case 7:
        return AT(wh_calloc_warp(a.heap, my_warp(), 1, a.n));
    case 8:
        return AT(wh_calloc_block(a.heap, 1, a.n));
    case 9:
        return AT(wh_pool_malloc(a.pool));
    case 10:
        return AT(wh_pool_malloc_lanes(a.pool, my_warp()));
    default:
        return AT(wh_pool_malloc_warp(a.pool, my_warp()));
    }
}

WH_KERNEL(call, call_args, a) {
    uint32_t line = 0;
    void *p = make(a, &line);
    wh_store_u32_relaxed(a.line, line);
    if (p == NULL) {
        return;
    }
    wh_add_u32_relaxed(a.got, 1);
    switch (a.which) {
    case 5:
    case 7:
        wh_free_warp(a.heap, my_warp(), p);
        return;
    case 6:
    case 8:
        wh_free_block(a.heap, p);
        return;
    case 11:
        wh_pool_free_warp(a.pool, my_warp(), p);
        return;
    default:
        wh_free(a.heap, p);
    }
}

typedef struct fixture {
    wh_device *device;
    wh_heap *heap;
    call_args a;
} fixture;

static void set_up(fixture *f) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    f->device = open_policy(WH_SIM_RANDOM, 3);
    o.device = f->device;
    o.bytes = HEAP_BYTES;
    assert_int_equal(wh_heap_create(&f->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(f->heap, &f->a.heap), WH_OK);
    f->a.got = take(f->device, 2 * sizeof *f->a.got);
    f->a.line = f->a.got + 1;
}

static void tear_down(fixture *f) {
    assert_int_equal(wh_device_free(f->device, f->a.got), WH_OK);
    wh_heap_destroy(f->heap);
    wh_device_close(f->device);
}

/* Of a grid of one thread block. Returns how many events there were. */
static uint32_t run(fixture *f, uint32_t which, size_t n) {
    const wh_launch l = grid(f->device, 1, THREADS);
    f->a.which = which;
    f->a.n = n;
    f->a.pool = wh_pool_of(f->a.heap, n);
    n_events = 0;
    *f->a.got = 0;
    assert_int_equal(call(&l, &f->a), WH_OK);
    return n_events;
}

static void test_told(void **state) {
    /* Each thread, each warp, the block. */
    static const uint32_t expected[CALLS] = {THREADS, THREADS, THREADS, THREADS, THREADS, 2,
                                             1,       2,       1,       THREADS, THREADS, 2};
    fixture f;
    (void)state;
    set_up(&f);
    for (uint32_t which = 0; which < CALLS; which++) {
        uint64_t threads = 0;
        assert_int_equal(run(&f, which, TOO_MUCH), expected[which]);
        assert_int_equal(*f.a.got, 0);
        for (uint32_t i = 0; i < n_events; i++) {
            assert_string_equal(events[i].call, names[which]);
            assert_string_equal(events[i].file, __FILE__);
            assert_int_equal(events[i].line, *f.a.line);
            assert_int_equal(events[i].bytes, TOO_MUCH);
            assert_true(events[i].thread < THREADS);
            threads |= (uint64_t)1 << events[i].thread;
        }
        const uint64_t warps = (uint64_t)1 << 32 | 1, all = ((uint64_t)1 << THREADS) - 1;
        const uint64_t several = expected[which] == 2 ? warps : all;
        assert_int_equal(threads, expected[which] == 1 ? 1 : several);
    }
    tear_down(&f);
}

static void test_not_told(void **state) {
    fixture f;
    (void)state;
    set_up(&f);
    for (uint32_t which = 0; which < CALLS; which++) {
        assert_int_equal(run(&f, which, 0), 0); /* NULL, as it should be */
        assert_int_equal(*f.a.got, 0);
        assert_int_equal(run(&f, which, 100), 0);
        assert_int_equal(*f.a.got, THREADS);
    }
    tear_down(&f);
}

/* Outside a kernel, as code of the simulated device may be called. */
static void test_odd_ones(void **state) {
    fixture f;
    (void)state;
    set_up(&f);
    n_events = 0;
    assert_null(wh_aligned_alloc(f.a.heap, 48, TOO_MUCH)); /* a mistake, not a full heap */
    assert_int_equal(n_events, 0);
    assert_null(wh_calloc(f.a.heap, SIZE_MAX / 2, 4));
    assert_int_equal(n_events, 1);
    assert_int_equal(events[0].bytes, SIZE_MAX);
    void *p = wh_malloc(f.a.heap, 64);
    assert_non_null(p);
    assert_null(wh_realloc(f.a.heap, p, TOO_MUCH));
    assert_int_equal(n_events, 2);
    assert_int_equal(events[1].bytes, TOO_MUCH);
    assert_null(wh_realloc(f.a.heap, p, 0));
    assert_int_equal(n_events, 2);
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_not_told),
        cmocka_unit_test(test_odd_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

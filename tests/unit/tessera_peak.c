/* tessera_peak.c: peak_bytes, with the option track_peak, against a model that is told each step;
 * lanes that all hold a block at once; and heaps that were not asked to track it. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

typedef enum step_kind { MALLOC, ALIGNED, REALLOC, FREE } step_kind;

typedef struct step_args {
    wh_heap_ref heap;
    void **p; /* the block of the step */
    uint64_t *usable;
    uint64_t bytes;
    step_kind kind;
} step_args;

/* One lane: one call. */
WH_KERNEL(step, step_args, a) {
    switch (a.kind) {
    case MALLOC:
        *a.p = wh_malloc(a.heap, a.bytes);
        break;
    case ALIGNED:
        *a.p = wh_aligned_alloc(a.heap, 65536, a.bytes);
        break;
    case REALLOC:
        *a.p = wh_realloc(a.heap, *a.p, a.bytes);
        break;
    case FREE:
        wh_free(a.heap, *a.p);
        break;
    }
    *a.usable = a.kind == FREE ? 0 : wh_usable_size(a.heap, *a.p);
}

typedef struct hold_args {
    wh_heap_ref heap;
    uint32_t *bad;
    uint32_t rounds;
} hold_args;

/* All lanes of a block hold one block of memory each at the same time, again and again. */
WH_KERNEL(hold, hold_args, a) {
    for (uint32_t i = 0; i < a.rounds; i++) {
        void *p = wh_malloc(a.heap, 16u << (wh_thread_id() & 3));
        if (p == NULL) {
            wh_add_u32_relaxed(a.bad, 1);
        }
        wh_syncthreads();
        wh_free(a.heap, p);
        wh_syncthreads();
    }
}

static wh_heap *create(wh_device *device, uint32_t track_peak) {
    wh_heap_options o;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    o.device = device;
    o.allocator = "tessera";
    o.bytes = 16 << 20;
    o.options = &own.head;
    own.track_peak = track_peak;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static wh_stats stats(wh_heap *heap) {
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    return s;
}

static void test_step_by_step(void **state) {
    enum { BLOCKS = 6 };
    static const struct {
        step_kind kind;
        uint32_t block;
        uint64_t bytes;
    } steps[] = {
        {MALLOC, 0, 1},        {MALLOC, 1, 100},    {MALLOC, 2, 5000},
        {FREE, 1, 0},          {MALLOC, 1, 40},     {MALLOC, 3, 300000}, /* a run */
        {FREE, 3, 0},          {MALLOC, 3, 200000}, {ALIGNED, 4, 20000},
        {FREE, 0, 0},          {REALLOC, 2, 9000},  {REALLOC, 2, 8000},               /* in place */
        {FREE, 4, 0},          {FREE, 4, 0},        /* twice */ {MALLOC, 5, 1 << 30}, /* NULL */
        {REALLOC, 3, 1 << 20}, {FREE, 2, 0},        {FREE, 2, 0},
        {ALIGNED, 4, 48},      {FREE, 4, 0},        {FREE, 3, 0},
        {MALLOC, 0, 2 << 20},  {FREE, 0, 0},        {FREE, 1, 0},
    };
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = create(device, 1);
    void *p[BLOCKS] = {NULL};
    uint64_t usable[BLOCKS] = {0}, used = 0, peak = 0;
    step_args a;
    (void)state;
    memset(&a, 0, sizeof a);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    a.p = take(device, sizeof *a.p);
    a.usable = take(device, sizeof *a.usable);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const uint32_t b = steps[i].block;
        const wh_launch launch = {device, 1, 1, NULL};
        *a.p = p[b];
        a.kind = steps[i].kind;
        a.bytes = steps[i].bytes;
        assert_int_equal(step(&launch, &a), WH_OK);
        if (a.kind == REALLOC && *a.p != p[b] && used + *a.usable > peak) {
            peak = used + *a.usable; /* both are live while it copies */
        }
        used += *a.usable - usable[b];
        peak = used > peak ? used : peak;
        p[b] = *a.p;
        usable[b] = *a.usable;
        assert_int_equal(stats(heap).used_bytes, used);
        assert_int_equal(stats(heap).peak_bytes, peak);
    }
    assert_int_equal(used, 0);
    assert_true(peak > 2 << 20);
    assert_int_equal(stats(heap).bad_frees, 2);
    assert_int_equal(wh_heap_reset(heap), WH_OK);
    assert_int_equal(stats(heap).peak_bytes, 0);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

static void test_all_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const uint32_t threads = 128, block_bytes = threads / 4 * (16 + 32 + 64 + 128);
        wh_device *device = open_policy(WH_SIM_RANDOM, seed);
        wh_heap *heap = create(device, 1);
        hold_args a;
        memset(&a, 0, sizeof a);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        a.bad = take(device, sizeof *a.bad);
        a.rounds = 4;
        const wh_launch one = {device, 1, threads, NULL}, four = {device, 4, threads, NULL};
        assert_int_equal(hold(&one, &a), WH_OK);
        assert_int_equal(stats(heap).peak_bytes, block_bytes);
        assert_int_equal(hold(&four, &a), WH_OK);
        assert_in_range(stats(heap).peak_bytes, block_bytes, 4 * block_bytes);
        assert_int_equal(stats(heap).used_bytes, 0);
        assert_int_equal(*a.bad, 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

static void test_not_asked_for(void **state) {
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = create(device, 0);
    (void)state;
    assert_true(stats(heap).peak_bytes == WH_UNKNOWN);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step_by_step),
                                       cmocka_unit_test(test_all_at_once),
                                       cmocka_unit_test(test_not_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

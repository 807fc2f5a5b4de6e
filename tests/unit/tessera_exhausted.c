/* tessera_exhausted.c: what NULL costs, in scheduling points of the simulated device, which are
 * exact: for lanes that ask an exhausted heap, and for those that want more than there is while
 * others free. The bounds are a quarter above what it takes; what each part of the search is for
 * brings more. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

typedef struct exhausted_args {
    wh_heap_ref heap;
    uint32_t *nulls, *wrong;
    uint32_t least, most, steps, seed;
} exhausted_args;

/* Each lane holds a block, asks for another one, and frees the first. */
WH_KERNEL(want, exhausted_args, a) {
    uint32_t random = a.seed * 7919u + (uint32_t)wh_thread_id() * 104729u + 1u;
    uint32_t *held = NULL;
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 1664525u + 1013904223u;
        uint32_t *p =
            (uint32_t *)wh_malloc(a.heap, a.least + (random >> 8) % (a.most - a.least + 1));
        wh_add_u32_relaxed(a.nulls, p == NULL);
        if (p != NULL) {
            *p = (uint32_t)wh_thread_id();
        }
        wh_add_u32_relaxed(a.wrong, held != NULL && *held != (uint32_t)wh_thread_id());
        wh_free(a.heap, held);
        held = p;
    }
    wh_free(a.heap, held);
}

/* Blocks until there are none; nobody frees. */
WH_KERNEL(fill, exhausted_args, a) {
    while (wh_malloc(a.heap, a.most) != NULL) {
    }
}

WH_KERNEL(ask, exhausted_args, a) {
    wh_add_u32_relaxed(a.nulls, wh_malloc(a.heap, a.most) == NULL);
}

static uint64_t points(wh_device *device) {
    wh_device_counters own_shard;
    assert_int_equal(wh_device_get_counters(device, &own_shard), WH_OK);
    return own_shard.steps;
}

static void open_exhausted(exhausted_args *a, wh_device **device, wh_heap **heap, uint64_t seed,
                           uint64_t bytes) {
    wh_heap_options options;
    memset(a, 0, sizeof *a);
    memset(&options, 0, sizeof options);
    *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    options.device = *device;
    options.bytes = bytes;
    options.allocator = "tessera";
    assert_int_equal(wh_heap_create(heap, &options), WH_OK);
    assert_int_equal(wh_heap_handle(*heap, &a->heap), WH_OK);
    a->nulls = take(*device, sizeof *a->nulls);
    a->wrong = take(*device, sizeof *a->wrong);
    a->seed = (uint32_t)seed;
}

static void close_full(wh_device *device, wh_heap *heap) {
    wh_report report;
    assert_int_equal(wh_heap_check(heap, &report), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* Searched by each warp for itself: 1,700 to 4,700 points a malloc and free. Without others taking
 * nothing meanwhile 2,400 to 34,000, without an answer for all who had asked 800 to 3,200, for the
 * classes of the one who searches alone 550 to 830; where each who waits searches for himself when
 * something has been found 340 to 560. */
static void test_more_than_there_is(void **state) {
    uint64_t all = 0; /* points: 216 a malloc and free */
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        exhausted_args a;
        wh_device *device;
        wh_heap *heap;
        open_exhausted(&a, &device, &heap, seed, 512 << 10);
        a.least = 16;
        a.most = 4000;
        a.steps = 6;
        const wh_launch launch = grid(device, 8, 128);
        const uint64_t before = points(device);
        assert_int_equal(want(&launch, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_true(*a.nulls > 3000); /* otherwise this tests nothing */
        all += (points(device) - before) / (1024 * a.steps);
        close_full(device, heap);
    }
    assert_in_range(all / 5, 1, 320);
}

/* 107 points a lane: each looks at hints, the list and home before it asks. (The first edition,
 * which had a verdict for each class: 72 to 82.) */
static void test_a_full_heap(void **state) {
    uint64_t all_seeds = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        exhausted_args a;
        wh_device *device;
        wh_heap *heap;
        open_exhausted(&a, &device, &heap, seed, 2 << 20);
        a.most = 256;
        const wh_launch one = grid(device, 1, 32), all = grid(device, 16, 128);
        assert_int_equal(fill(&one, &a), WH_OK);
        const uint64_t before = points(device);
        assert_int_equal(ask(&all, &a), WH_OK);
        assert_int_equal(*a.nulls, 2048);
        all_seeds += points(device) - before;
        close_full(device, heap);
    }
    assert_in_range(all_seeds / 5 / 2048, 1, 140);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_more_than_there_is),
                                       cmocka_unit_test(test_a_full_heap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

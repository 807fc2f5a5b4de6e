/* random_walk.c: lanes of a part of a warp that call together end their walks together (the
 * GPU's compiler may leave lanes behind where some wait for others that walk: warpheap.h), with
 * and without the sweep that makes NULL exact. */
#include "sim/sim_test.h"

#include "warpheap/detail/alloc/random_walk/random_walk.h"
#include "warpheap/heap.h"

typedef struct together_args {
    wh_random_walk_ref heap;
    uint32_t *got;   /* pages that a lane got though none was free until its walk had ended */
    uint32_t *taken; /* ... and those that were all taken before */
} together_args;

/* The heap is full. Lane 1 wants a page, lane 0 nothing; what it frees when it is back comes too
 * late for lane 1. */
#define TOGETHER(name)                                                 \
    WH_KERNEL(name##_together, together_args, a) {                     \
        void *held[2] = {NULL, NULL};                                  \
        void *p = NULL;                                                \
        if (wh_lane_id() == 0) {                                       \
            while ((p = wh_##name##_malloc(a.heap, 1, 16)) != NULL) {  \
                held[wh_fetch_add_u32_relaxed(a.taken, 1) % 2] = p;    \
            }                                                          \
        }                                                              \
        wh_syncwarp(3);                                                \
        p = wh_##name##_malloc(a.heap, 3, wh_lane_id() == 0 ? 0 : 16); \
        if (wh_lane_id() == 0) {                                       \
            wh_##name##_free(a.heap, 1, held[0]);                      \
            wh_##name##_free(a.heap, 1, held[1]);                      \
        } else {                                                       \
            wh_add_u32_relaxed(a.got, p != NULL);                      \
        }                                                              \
    }
TOGETHER(rw)
TOGETHER(rw_bm)
TOGETHER(corw)
TOGETHER(crw)

static void check(const char *name, wh_status (*kernel)(const wh_launch *, const together_args *),
                  uint32_t exact) {
    for (uint64_t seed = 1; seed <= 30; seed++) {
        wh_heap_options o;
        wh_random_walk_options own = WH_RANDOM_WALK_OPTIONS;
        together_args a;
        wh_heap *heap = NULL;
        wh_device *device = open_policy(WH_SIM_RANDOM, seed);
        memset(&a, 0, sizeof a);
        memset(&o, 0, sizeof o);
        o.device = device;
        o.allocator = name;
        o.options = &own.head;
        own.exact_oom = exact;
        assert_int_equal(wh_heap_min_bytes(&o, &o.bytes), WH_OK);
        o.bytes += 1024;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle_of(heap, name, 0, &a.heap, sizeof a.heap), WH_OK);
        a.got = take(device, sizeof *a.got);
        a.taken = take(device, sizeof *a.taken);
        *a.got = *a.taken = 0;
        const wh_launch two = grid(device, 1, 2);
        assert_int_equal(kernel(&two, &a), WH_OK);
        assert_in_range(*a.taken, 2, 64); /* otherwise this tests nothing */
        if (*a.got != 0) {
            fail_msg("%s, exact %u, seed %u: a lane went on before the others", name, exact,
                     (unsigned)seed);
        }
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

static void test_walks_end_together(void **state) {
    (void)state;
    for (uint32_t exact = 0; exact < 2; exact++) {
        check("rw", rw_together, exact);
        check("rw-bm", rw_bm_together, exact);
        check("corw", corw_together, exact);
        check("crw", crw_together, exact);
    }
}

/* Lane 1 sweeps, lane 0 goes along. */
WH_KERNEL(rw_sweep_for_one, together_args, a) {
    const int sweeps = wh_lane_id() == 1;
    const uint32_t page = wh_rw_sweep_(a.heap, 3, sweeps, wh_lane_id());
    wh_add_u32_relaxed(a.got, (page != WH_PAGE_NONE) == sweeps);
}

WH_KERNEL(rw_bm_sweep_for_one, together_args, a) {
    const int sweeps = wh_lane_id() == 1;
    const uint32_t page = wh_random_walk_sweep_(a.heap, 3, sweeps, wh_lane_id());
    wh_add_u32_relaxed(a.got, (page != WH_PAGE_NONE) == sweeps);
}

/* Who goes along takes nothing. */
static void check_sweep(const char *name,
                        wh_status (*kernel)(const wh_launch *, const together_args *)) {
    wh_heap_options o;
    together_args a;
    wh_stats stats;
    wh_heap *heap = NULL;
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    memset(&a, 0, sizeof a);
    memset(&o, 0, sizeof o);
    o.device = device;
    o.allocator = name;
    o.bytes = 65536;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle_of(heap, name, 0, &a.heap, sizeof a.heap), WH_OK);
    a.got = take(device, sizeof *a.got);
    *a.got = 0;
    const wh_launch two = grid(device, 1, 2);
    assert_int_equal(kernel(&two, &a), WH_OK);
    assert_int_equal(*a.got, 2);
    assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 1);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

static void test_sweeps_take_for_who_wants(void **state) {
    (void)state;
    check_sweep("rw", rw_sweep_for_one);
    check_sweep("rw-bm", rw_bm_sweep_for_one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks_end_together),
                                       cmocka_unit_test(test_sweeps_take_for_who_wants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

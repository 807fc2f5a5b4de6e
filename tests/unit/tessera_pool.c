/* tessera_pool.c: pools of tessera, which have a size's class once for all blocks: what they know
 * is what malloc finds out; blocks of other sizes are refused; what a heap counts, pools count. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

/* --- what a pool knows ------------------------------------------------------------------ */

typedef struct make_args {
    wh_heap_ref heap;
    wh_pool_t *pools; /* of 1 byte, 2 bytes and so on */
    uint64_t n, step;
} make_args;

WH_KERNEL(make_pools, make_args, a) {
    for (uint64_t k = wh_thread_id(); k < a.n; k += wh_grid_threads()) {
        a.pools[k] = wh_pool_of(a.heap, 1 + k * a.step);
    }
}

static void check_pool(wh_heap_ref h, wh_pool_t pool, uint64_t bytes) {
    const uint64_t chunk = (uint64_t)1 << h.core.chunk_log2;
    assert_true(pool.own.bytes == bytes && wh_pool_size(pool) >= bytes);
    if (bytes <= chunk) {
        const uint32_t c = wh_tessera_class_of((uint32_t)bytes);
        assert_int_equal(pool.own.c, c);
        assert_int_equal(wh_pool_size(pool), h.classes[c].slot_size);
        assert_int_equal(pool.own.takes_slab, h.warp_slabs >> c & 1);
        assert_ptr_equal(pool.own.cursor, &h.shards[0].cursors[c]);
    } else {
        assert_int_equal(pool.own.c, wh_tessera_large_class_(&h.core, bytes));
        assert_int_equal(pool.own.takes_slab, 0);
    }
    if (pool.own.c != WH_TESSERA_NO_CLASS) {
        const wh_tessera_class cls = h.classes[pool.own.c];
        assert_true(pool.own.cls.slots == cls.slots && pool.own.cls.by_slots == cls.by_slots);
        assert_true(pool.own.cls.slot_size == cls.slot_size && pool.own.cls.chunks == cls.chunks);
    }
}

/* The host's are the kernel's, of every size. */
static void test_both_sides(void **state) {
    (void)state;
    const uint32_t chunks[] = {1024, 4096, 16384, 16384};
    const uint64_t bytes[] = {1 << 20, 4 << 20, 8 << 20, 48 << 20}; /* the last has large classes */
    for (uint32_t i = 0; i < 4; i++) {
        make_args a;
        wh_device *device = open_policy(WH_SIM_RANDOM, i);
        wh_heap *heap = make_heap_of(device, chunks[i], bytes[i], 2, &a.heap);
        const wh_launch l = {device, 1, 64, NULL};
        a.step = i == 3 ? 37 : 1;
        a.n = (i == 3 ? 300000 : 20000) / a.step;
        a.pools = take(device, a.n * sizeof *a.pools);
        assert_int_equal(make_pools(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(device), WH_OK);
        for (uint64_t k = 0; k < a.n; k++) {
            wh_pool_t own;
            assert_int_equal(wh_pool_make(heap, 1 + k * a.step, &own), WH_OK);
            check_pool(a.heap, own, 1 + k * a.step);
            check_pool(a.heap, a.pools[k], 1 + k * a.step);
        }
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

static void test_mistakes(void **state) {
    (void)state;
    wh_heap_ref h;
    wh_pool_t pool, before;
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = make_heap_of(device, 0, 4 << 20, 1, &h);
    memset(&pool, 0x5a, sizeof pool);
    before = pool;
    assert_int_equal(wh_pool_make(heap, 0, &pool), WH_BAD_ARGUMENT);
    assert_int_equal(wh_pool_make(heap, (4 << 20) + 1, &pool), WH_BAD_ARGUMENT);
    assert_int_equal(wh_pool_make(heap, SIZE_MAX, &pool), WH_BAD_ARGUMENT);
    assert_int_equal(wh_pool_make(NULL, 64, &pool), WH_BAD_ARGUMENT);
    assert_int_equal(wh_pool_make(heap, 64, NULL), WH_BAD_ARGUMENT);
    assert_memory_equal(&pool, &before, sizeof pool);
    assert_int_equal(wh_pool_make(heap, 4 << 20, &pool),
                     WH_OK); /* more than is free, but no more */
    assert_null(wh_pool_malloc(pool));
    assert_int_equal(wh_pool_make(heap, 64, &pool), WH_OK);
    wh_heap_destroy(heap);
    wh_allocator_info const *other = wh_allocator_find("bump");
    if (other != NULL) {
        wh_heap_options o;
        memset(&o, 0, sizeof o);
        o.device = device;
        o.bytes = 4 << 20;
        o.allocator = "bump";
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_pool_make(heap, 64, &pool), WH_WRONG_ALLOCATOR);
        wh_heap_destroy(heap);
    }
    wh_device_close(device);
}

/* --- what it refuses -------------------------------------------------------------------- */

typedef struct free_args {
    wh_heap_ref heap;
    wh_pool_t small, other, large; /* of 64, 80, 40,000 bytes */
    uint32_t *wrong;
    uint64_t *bad; /* bad frees there should be */
} free_args;

WH_FN void refuse(free_args a, wh_pool_t pool, void *p) {
    wh_pool_free(pool, p);
    wh_add_u64_relaxed(a.bad, 1);
}

/* Each lane has a block of each size, and gives them to each other's pools first, alone and in
 * whole warps. */
WH_KERNEL(free_wrong, free_args, a) {
    void *small = wh_pool_malloc(a.small), *other = wh_malloc(a.heap, 80);
    void *large = wh_lane_id() % 8 == 0 ? wh_pool_malloc(a.large) : NULL;
    unsigned char *inside = (unsigned char *)small + 16;
    wh_add_u32_relaxed(a.wrong, small == NULL || other == NULL);
    wh_add_u32_relaxed(a.wrong, wh_usable_size(a.heap, small) != wh_pool_size(a.small));
    refuse(a, a.small, other);
    refuse(a, a.other, small);
    refuse(a, a.large, small);
    refuse(a, a.small, inside);
    refuse(a, a.small, a.wrong); /* no memory of the heap */
    if (wh_lane_id() % 8 == 0) {
        refuse(a, a.small, large);
        refuse(a, a.large, (unsigned char *)large + 16);
    }
    if (wh_lane_id() == 7) {
        refuse(a, a.other, small);
    }
    wh_add_u32_relaxed(a.wrong, wh_usable_size(a.heap, small) != wh_pool_size(a.small));
    wh_add_u32_relaxed(a.wrong, large != NULL && wh_usable_size(a.heap, large) < 40000);
    wh_pool_free(a.small, small);
    wh_pool_free(a.other, other); /* of wh_malloc, with the pool's size */
    wh_pool_free(a.large, large);
    wh_pool_free(a.large, NULL);
    if (wh_lane_id() == 9) {
        refuse(a, a.small, small); /* twice, if nobody has it yet: nobody does */
    }
}

static void test_wrong_frees(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        free_args a;
        wh_stats stats;
        wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
        wh_heap *heap = make_heap_of(device, 0, 8 << 20, 2, &a.heap);
        const wh_launch l = {device, 1, 32, NULL};
        assert_int_equal(wh_pool_make(heap, 64, &a.small), WH_OK);
        assert_int_equal(wh_pool_make(heap, 80, &a.other), WH_OK);
        assert_int_equal(wh_pool_make(heap, 40000, &a.large), WH_OK);
        a.wrong = take(device, sizeof *a.wrong);
        a.bad = take(device, sizeof *a.bad);
        assert_int_equal(free_wrong(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(device), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.bad_frees, *a.bad);
        assert_int_equal(stats.live_blocks, 0);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* --- what is counted -------------------------------------------------------------------- */

typedef struct count_args {
    wh_heap_ref heap;
    wh_pool_t pool;
    void **p; /* a block for each lane, and one for each warp */
} count_args;

WH_KERNEL(take_some, count_args, a) {
    const uint32_t lane = wh_lane_id();
    const uint64_t i = wh_thread_id();
    a.p[i] = wh_pool_malloc_lanes(a.pool, WH_FULL_WARP);
    void *one = wh_pool_malloc_warp(a.pool, WH_FULL_WARP);
    if (lane == 0) {
        a.p[wh_grid_threads() + i / 32] = one;
    }
}

WH_KERNEL(give_back, count_args, a) {
    const uint64_t i = wh_thread_id();
    wh_pool_free_warp(a.pool, WH_FULL_WARP, a.p[wh_grid_threads() + i / 32]);
    wh_pool_free_lanes(a.pool, WH_FULL_WARP, a.p[i]);
}

/* Slots of cursors, slabs for whole warps, large slots and runs. */
static void test_totals(void **state) {
    (void)state;
    const uint64_t sizes[] = {48, 100, 512, 1024, 5000, 17000, 32768};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        count_args a;
        wh_stats stats;
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        wh_heap_options o;
        wh_heap *heap = NULL;
        wh_device *device = open_policy((wh_sim_policy)(i % N_POLICIES), i);
        const wh_launch l = {device, 2, 64, NULL};
        const uint64_t n = 128 + 4;
        memset(&o, 0, sizeof o);
        own.track_totals = own.track_peak = i % 2;
        own.shards = 2;
        o.device = device;
        o.allocator = "tessera";
        o.bytes = 40 << 20;
        o.options = &own.head;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        assert_int_equal(wh_pool_make(heap, sizes[i], &a.pool), WH_OK);
        a.p = take(device, n * sizeof *a.p);
        assert_int_equal(take_some(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(device), WH_OK);
        for (uint64_t k = 0; k < n; k++) {
            assert_non_null(a.p[k]);
            for (uint64_t j = 0; j < k; j++) {
                assert_ptr_not_equal(a.p[j], a.p[k]);
            }
        }
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.live_blocks, n);
        assert_true(stats.used_bytes >= n * wh_pool_size(a.pool));
        assert_int_equal(stats.mallocs, i % 2 ? n : WH_UNKNOWN);
        assert_int_equal(stats.peak_bytes, i % 2 ? stats.used_bytes : WH_UNKNOWN);
        assert_int_equal(give_back(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(device), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.live_blocks, 0);
        assert_int_equal(stats.bad_frees, 0);
        assert_int_equal(stats.frees, i % 2 ? n : WH_UNKNOWN);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_sides),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_wrong_frees),
        cmocka_unit_test(test_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

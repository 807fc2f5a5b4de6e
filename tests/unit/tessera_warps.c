/* tessera_warps.c: full warps, whose blocks are a slab of their own: of just 32 slots, whether its
 * chunks are a power of two or not. And in a heap that has no chunk left: what they are given, and
 * that it ends. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define CHUNK 1024u
#define SIZE (CHUNK / WH_WARP_SIZE) /* of the class whose slabs warps get: 32 slots a chunk */
#define ODD_SIZE (5 * SIZE)         /* likewise: 32 slots are five chunks */
#define WASTEFUL (24 * SIZE)        /* 24 chunks: two of 64 leave 16 */

typedef struct warps_args {
    wh_heap_ref heap;
    void **all; /* blocks that take all chunks, one behind the other */
    uint32_t *wrong;
    uint64_t most;
    uint32_t steps;
} warps_args;

/* No cursor of the class has ever had a slot. Warps ask for slots of it, find none, and find those
 * of one chunk that comes back. */
WH_KERNEL(full_heap, warps_args, a) {
    const uint32_t lane = wh_lane_id();
    if (wh_thread_id() == 0) {
        for (uint64_t n = 0, bytes = CHUNK + 1; n < a.most; n++) {
            a.all[n] = wh_malloc(a.heap, bytes);
            if (a.all[n] == NULL && bytes > CHUNK) {
                bytes = CHUNK; /* what is left between runs */
                a.all[n] = wh_malloc(a.heap, bytes);
            }
            if (a.all[n] == NULL) {
                break;
            }
        }
    }
    wh_syncthreads();
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_malloc_lanes(a.heap, WH_FULL_WARP, SIZE);
        wh_add_u32_relaxed(a.wrong, p != NULL);
    }
    wh_syncthreads();
    if (wh_thread_id() == 0) {
        wh_free(a.heap, a.all[0]);
    }
    wh_syncthreads();
    if (wh_thread_id() < WH_WARP_SIZE) {
        void *p = wh_malloc_lanes(a.heap, WH_FULL_WARP, SIZE);
        wh_add_u32_relaxed(a.wrong, p == NULL);
        wh_free_lanes(a.heap, WH_FULL_WARP, p);
        for (uint64_t n = 1; lane == 0 && n < a.most && a.all[n] != NULL; n++) {
            wh_free(a.heap, a.all[n]);
        }
    }
}

static void test_full_heap(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        warps_args a;
        wh_report report;
        wh_stats stats;
        uint32_t wrong = 0;
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)(seed % N_POLICIES);
        o.seed = seed;
        o.step_budget = 20000000; /* a lane that waits for ever is an error */
        wh_device *device = open_with(&o);
        wh_heap *heap = make_heap_of(device, CHUNK, 256 * 1024, 1, &a.heap);
        const wh_launch l = grid(device, 1, 64);
        assert_true(a.heap.core.home_chunks != 0 && a.heap.core.n_chunks < 512);
        assert_true((a.heap.warp_slabs >> wh_tessera_class_of(SIZE) & 1) != 0);
        a.most = a.heap.core.n_chunks;
        a.all = take(device, a.most * sizeof *a.all);
        a.wrong = take(device, sizeof *a.wrong);
        a.steps = 2;
        assert_int_equal(full_heap(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(device), WH_OK);
        assert_int_equal(wh_device_copy_out(device, &wrong, a.wrong, sizeof wrong), WH_OK);
        assert_int_equal(wrong, 0);
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_true(stats.live_blocks == 0 && stats.bad_frees == 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* A warp gets 32 slots in a row, one behind the other, until all of home has been asked for. */
WH_KERNEL(own_slabs, warps_args, a) {
    const uint32_t lane = wh_lane_id();
    for (uint32_t step = 0; step < a.steps; step++) {
        unsigned char *p = (unsigned char *)wh_malloc_lanes(a.heap, WH_FULL_WARP, a.most);
        unsigned char *const first =
            (unsigned char *)(uintptr_t)wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)p, 0);
        const int is_slab =
            p != NULL && p == first + lane * a.most && (uint64_t)(first - a.heap.base) % CHUNK == 0;
        wh_add_u32_relaxed(a.wrong, !is_slab);
        a.all[step * WH_WARP_SIZE + lane] = p;
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        wh_free_lanes(a.heap, WH_FULL_WARP, a.all[step * WH_WARP_SIZE + lane]);
    }
}

static void test_own_slabs(void **state) {
    (void)state;
    static const uint32_t sizes[] = {SIZE, ODD_SIZE, WASTEFUL};
    for (uint32_t k = 0; k < 3; k++) {
        const int wasteful = sizes[k] == WASTEFUL; /* from the first half of home only */
        warps_args a;
        wh_stats stats;
        uint32_t wrong = 0;
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        wh_device *device = open_with(&o);
        wh_heap *heap = make_heap_of(device, CHUNK, 4096 * 1024, 1, &a.heap);
        const wh_launch l = grid(device, 1, 32);
        const uint32_t words = a.heap.core.home_chunks / 64;
        a.most = sizes[k];
        a.steps = wasteful ? words / 2 * 2 + words / 8 : words * 12; /* it has room for 12 */
        assert_true((a.heap.warp_slabs >> wh_tessera_class_of((uint32_t)a.most) & 1) != 0);
        a.all = take(device, a.steps * WH_WARP_SIZE * sizeof *a.all);
        a.wrong = take(device, sizeof *a.wrong);
        assert_int_equal(own_slabs(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(device), WH_OK);
        assert_int_equal(wh_device_copy_out(device, &wrong, a.wrong, sizeof wrong), WH_OK);
        assert_true(wasteful ? wrong > 0 && wrong <= words / 8 * WH_WARP_SIZE : wrong == 0);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_true(stats.live_blocks == 0 && stats.bad_frees == 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_heap),
                                       cmocka_unit_test(test_own_slabs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

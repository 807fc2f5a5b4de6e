/* tessera_warps.c: full warps, whose blocks are a slab of their own, in a heap that has no chunk
 * left: what they are given, and that it ends. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define CHUNK 1024u
#define SIZE (CHUNK / WH_WARP_SIZE) /* of the class whose slabs warps get: 32 slots a chunk */

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_heap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tessera_twice.c: two lanes free the same block at the same time: one of the frees is counted as
 * bad, and the heap stays sound, whatever slab the block was of and whichever comes last. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define BLOCKS 64u

typedef struct twice_args {
    wh_heap_ref heap;
    void **p;
    uint64_t bytes;
} twice_args;

WH_KERNEL(take_blocks, twice_args, a) {
    a.p[wh_thread_id()] = wh_malloc(a.heap, a.bytes);
}

/* Threads k and k + BLOCKS free block k. */
WH_KERNEL(free_twice, twice_args, a) {
    wh_free(a.heap, a.p[wh_thread_id() % BLOCKS]);
}

static void test_two_frees(void **state) {
    (void)state;
    static const uint32_t sizes[] = {16, 48, 64, 100, 240, 256, 1000, 3000, 9000};
    for (uint64_t seed = 1; seed <= 4 * n_seeds(); seed++) {
        for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            twice_args a;
            wh_stats stats;
            memset(&a, 0, sizeof a);
            memset(&stats, 0, sizeof stats);
            wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
            wh_heap *heap = make_heap_of(device, 0, 2 << 20, 1 + (uint32_t)(seed & 1), &a.heap);
            const wh_launch once = {device, 2, 32, NULL}, again = {device, 4, 32, NULL};
            a.p = take(device, BLOCKS * sizeof *a.p);
            a.bytes = sizes[k];
            assert_int_equal(take_blocks(&once, &a), WH_OK);
            assert_int_equal(free_twice(&again, &a), WH_OK);
            assert_int_equal(wh_device_sync(device), WH_OK);
            assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
            assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
            assert_int_equal(stats.live_blocks, 0);
            assert_int_equal(stats.bad_frees, BLOCKS);
            wh_heap_destroy(heap);
            wh_device_close(device);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_frees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

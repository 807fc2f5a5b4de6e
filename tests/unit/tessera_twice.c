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

/* --- a second free of blocks whose chunks are in the pool ------------------------------------ */

#define OLD 1024u

WH_KERNEL(take_old, twice_args, a) {
    for (uint32_t i = 0; i < OLD; i++) {
        a.p[i] = wh_malloc(a.heap, a.bytes);
    }
}

WH_KERNEL(give_old, twice_args, a) {
    for (uint32_t i = 0; i < OLD; i++) {
        wh_free(a.heap, a.p[i]);
    }
}

/* A warp's own slab, of one chunk. */
WH_KERNEL(take_slab, twice_args, a) {
    a.p[wh_thread_id()] = wh_malloc_lanes(a.heap, WH_FULL_WARP, 512);
}

/* Of an old slab only the first chunks have new owners, who have freed nothing: the others are
 * free. What is freed there again is counted, and changes nothing. */
static void test_old_slabs(void **state) {
    (void)state;
    static const uint32_t sizes[] = {700, 1050, 3000, 5000, 9000};
    for (uint32_t k = 0; k < 5 * 9; k++) {
        twice_args a;
        wh_stats stats;
        uint64_t wanted = 0;
        memset(&a, 0, sizeof a);
        memset(&stats, 0, sizeof stats);
        wh_device *device = open_policy(WH_SIM_RANDOM, k);
        wh_heap *heap = make_heap_of(device, 0, 16 << 20, 1, &a.heap);
        const wh_launch one = {device, 1, 1, NULL}, warps = {device, 1 + k / 5, 32, NULL};
        void **old = take(device, OLD * sizeof *old), **now = take(device, 288 * sizeof *now);
        a.bytes = sizes[k % 5];
        a.p = old;
        assert_int_equal(take_old(&one, &a), WH_OK);
        assert_int_equal(give_old(&one, &a), WH_OK);
        a.p = now;
        assert_int_equal(take_slab(&warps, &a), WH_OK);
        for (uint32_t i = 0; i < OLD; i++) { /* those in chunks that somebody has are no concern */
            const uint64_t chunk =
                (uint64_t)((unsigned char *)old[i] - a.heap.base) >> a.heap.chunk_log2;
            old[i] = wh_veb_contains(wh_tessera_pool_(a.heap.core), chunk) ? old[i] : NULL;
            wanted += old[i] != NULL;
        }
        a.p = old;
        assert_true(wanted != 0);
        assert_int_equal(give_old(&one, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.bad_frees, wanted);
        assert_int_equal(stats.live_blocks, 32 * (1 + k / 5));
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_frees),
                                       cmocka_unit_test(test_old_slabs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

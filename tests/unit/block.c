/* block.c: core/block.h. Sums over blocks of one warp to the largest, in rounds that follow each
 * other at once. */
#include "sim/sim_test.h"

#include "warpheap/core/block.h"

typedef struct args {
    uint32_t rounds;
    uint32_t *wrong;
} args;

WH_FN uint64_t value_of(uint32_t round, uint32_t thread) {
    return ((uint64_t)thread << 33) + thread * round + 1;
}

WH_KERNEL(scan, args, a) {
    const uint32_t t = wh_thread_in_block(), n = wh_block_threads();
    for (uint32_t r = 0; r < a.rounds; r++) {
        uint64_t all = 0, up_to = 0, sum = 0;
        const uint64_t got = wh_block_scan_u64((uint64_t *)wh_shared(), value_of(r, t), &all);
        for (uint32_t k = 0; k < n; k++) {
            sum += value_of(r, k);
            up_to += k <= t ? value_of(r, k) : 0;
        }
        wh_add_u32_relaxed(a.wrong, got != up_to || all != sum);
    }
}

static void test_sums(void **state) {
    static const uint32_t threads[] = {32, 64, 96, 256, 1024};
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        wh_device *d = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
        args a = {3, take(d, sizeof(uint32_t))};
        for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
            wh_launch l = grid(d, 2, threads[i]);
            l.shared_bytes = WH_BLOCK_SCAN_WORDS * sizeof(uint64_t);
            assert_int_equal(scan(&l, &a), WH_OK);
            assert_int_equal(wh_device_sync(d), WH_OK);
            assert_int_equal(*a.wrong, 0);
        }
        wh_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

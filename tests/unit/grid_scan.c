/* grid_scan.c: core/grid_scan.h. Numbers around the borders of ranges, rounds and blocks, by grids
 * of one block and of more than there are ranges, under all policies and both weak memories. */
#include "sim/sim_test.h"

#include "warpheap/core/grid_scan.h"

typedef struct args {
    const uint64_t *in;
    uint64_t *sums;
    uint64_t n;
} args;

WH_FN uint64_t number(const args *a, uint64_t i) {
    return a->in[i];
}

WH_GRID_SCAN(scan, args, a, a.n, number, a.sums)

#define SPARE 3u /* words behind that stay */
#define KEPT 0x123456789abcdef0u

/* Scans n numbers by so many blocks of so many threads, and compares. */
static void try_scan(wh_device *d, uint64_t n, uint32_t blocks, uint32_t threads) {
    uint64_t random = n * 31 + blocks, before = 0;
    uint64_t *in = take(d, (n + 1) * sizeof *in), *sums = take(d, (n + 1 + SPARE) * sizeof *sums);
    const args a = {in, sums, n};
    for (uint64_t i = 0; i < n; i++) {
        in[i] = next_random(&random); /* sums pass 2^64 */
        sums[i] = KEPT;
    }
    for (uint64_t i = n; i < n + 1 + SPARE; i++) {
        sums[i] = KEPT;
    }
    const wh_launch l = grid(d, blocks, threads);
    assert_int_equal(scan(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(d), WH_OK);
    for (uint64_t i = 0; i <= n; i++) {
        assert_true(sums[i] == before);
        before += i < n ? in[i] : 0;
    }
    for (uint64_t i = n + 1; i < n + 1 + SPARE; i++) {
        assert_true(sums[i] == KEPT);
    }
    assert_int_equal(wh_device_free(d, in), WH_OK);
    assert_int_equal(wh_device_free(d, sums), WH_OK);
}

static wh_device *open_seed(uint64_t seed, uint32_t policy, uint32_t weak) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)policy;
    o.seed = seed;
    o.weak = weak;
    o.workers = weak == 0 && seed % 4 == 3 ? 2 : 0;
    return open_with(&o);
}

static void test_borders(void **state) {
    static const uint64_t sizes[] = {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 500, 1000};
    static const uint32_t shapes[][2] = {{1, 32}, {2, 32}, {5, 64}, {3, 96}, {40, 32}};
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            for (uint32_t weak = 0; weak <= WH_SIM_WEAK_FORMAL; weak++) {
                wh_device *d = open_seed(seed, policy, weak);
                const uint32_t *shape = shapes[(seed + policy + weak) % 5];
                for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                    try_scan(d, sizes[i], shape[0], shape[1]);
                }
                wh_device_close(d);
            }
        }
    }
}

/* Where ranges become longer than a round, and where one block has several rounds of ranges. */
static void test_many_ranges(void **state) {
    static const uint64_t sizes[] = {32 * WH_GRID_SCAN_RANGES - 1, 32 * WH_GRID_SCAN_RANGES,
                                     32 * WH_GRID_SCAN_RANGES + 1, 64 * WH_GRID_SCAN_RANGES + 33};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
        try_scan(d, sizes[i], i % 2 == 0 ? 7 : WH_GRID_SCAN_RANGES + 5, 32);
        wh_device_close(d);
    }
}

/* A grid of more dimensions, on a stream, and by the largest block. */
static void test_launches(void **state) {
    wh_device *d = open_policy(WH_SIM_STICKY, 1);
    void *stream = NULL;
    uint64_t *sums = take(d, 5001 * sizeof *sums), *in = take(d, 5000 * sizeof *in);
    const args a = {in, sums, 5000};
    (void)state;
    for (uint64_t i = 0; i < 5000; i++) {
        in[i] = i;
    }
    assert_int_equal(wh_stream_create(d, &stream), WH_OK);
    wh_launch l = grid(d, 1, 1024);
    l.blocks_y = 3;
    l.stream = stream;
    assert_int_equal(scan(&l, &a), WH_OK);
    assert_int_equal(wh_stream_sync(d, stream), WH_OK);
    for (uint64_t i = 0; i <= 5000; i++) {
        assert_true(sums[i] == i * (i - 1) / 2);
    }
    assert_int_equal(scan(NULL, &a), WH_BAD_ARGUMENT);
    assert_int_equal(scan(&l, NULL), WH_BAD_ARGUMENT);
    l.threads = 0;
    assert_int_equal(scan(&l, &a), WH_BAD_ARGUMENT);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* walk_random.c: core/walk_random.h: places are within bounds and evenly spread, also those of
 * lanes side by side, which are neighbours and differ. */
#include <math.h>
#include <string.h>

#include "sim/sim_test.h"

#include "warpheap/core/walk_random.h"

#define PLACES 1000u
#define ROUNDS 200u

typedef struct walk_args {
    uint32_t *counts;
    uint32_t *bad;
    uint32_t n;
} walk_args;

WH_KERNEL(spread, walk_args, a) {
    wh_walk_random r = wh_walk_seed_near();
    for (uint32_t k = 0; k < ROUNDS; k++) {
        const uint32_t p = wh_walk_near(&r, a.n);
        wh_add_u32_relaxed(p < a.n ? &a.counts[p] : a.bad, 1);
    }
}

/* All lanes beside the same place. */
WH_KERNEL(beside, walk_args, a) {
    const uint32_t first = (uint32_t)wh_thread_id() / WH_WARP_SIZE % a.n;
    const uint32_t p = wh_walk_beside(first, a.n);
    wh_add_u32_relaxed(a.bad, p != (first + wh_lane_id()) % a.n);
}

static void check(uint32_t n) {
    wh_sim_options so;
    walk_args a;
    uint32_t counts[PLACES], bad = 1;
    memset(&so, 0, sizeof so);
    so.seed = n;
    wh_device *device = open_with(&so);
    a.n = n;
    a.counts = take(device, sizeof counts);
    a.bad = take(device, sizeof bad);
    assert_int_equal(wh_device_set(device, a.counts, 0, sizeof counts), WH_OK);
    assert_int_equal(wh_device_set(device, a.bad, 0, sizeof bad), WH_OK);
    const wh_launch l = grid(device, 32, 64);
    assert_int_equal(spread(&l, &a), WH_OK);
    assert_int_equal(beside(&l, &a), WH_OK);
    assert_int_equal(wh_device_copy_out(device, counts, a.counts, sizeof counts), WH_OK);
    assert_int_equal(wh_device_copy_out(device, &bad, a.bad, sizeof bad), WH_OK);
    assert_int_equal(bad, 0);
    /* 32 * 64 * ROUNDS draws, at least 409 for each place. Where lanes share a sequence a draw
     * counts for up to 32 neighbours: six standard deviations of that. */
    const double mean = 32.0 * 64 * ROUNDS / n;
    const double error = 6 * sqrt(mean * (n < WH_WARP_SIZE ? WH_WARP_SIZE : 1)) + 1;
    for (uint32_t p = 0; p < n; p++) {
        assert_true(fabs(counts[p] - mean) < error);
    }
    (void)wh_device_free(device, a.counts);
    (void)wh_device_free(device, a.bad);
    wh_device_close(device);
}

static void test_spread(void **state) {
    (void)state;
    static const uint32_t places[] = {1, 2, 31, 32, 33, 100, PLACES};
    for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
        check(places[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

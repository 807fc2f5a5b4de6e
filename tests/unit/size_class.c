/* size_class.c: core/size_class.h against naive loops, for every size up to 2^20 and
 * around every power of two. */
#include "sim/sim_test.h"

#include "warpheap/core/size_class.h"

/* The smallest class of sizes min, 2 min, 4 min, ... that holds n, by counting up. */
static uint32_t naive_class(uint64_t n, uint32_t min_log2) {
    uint32_t c = 0;
    while (min_log2 + c < 63 && (uint64_t)1 << (min_log2 + c) < n) {
        c++;
    }
    return c;
}

/* Four sizes to each doubling, by counting up. */
static void test_quarters(void **state) {
    uint32_t c = 0;
    (void)state;
    for (uint64_t n = 1; n <= (uint64_t)1 << 20; n++) {
        c += wh_quarter_size(c) < n;
        assert_true(wh_quarter_size(c) >= n && wh_quarter_size(c) % 16 == 0);
        assert_int_equal(wh_quarter_class(n), c);
        assert_true(n < 64 || 5 * n > 4 * wh_quarter_size(c));
    }
    for (uint32_t e = 4; e < 60; e++) { /* each power of two is a class */
        const uint64_t p = (uint64_t)1 << e;
        assert_true(wh_quarter_size(wh_quarter_class(p)) == p);
        assert_true(wh_quarter_class(p + 1) == wh_quarter_class(p) + 1);
    }
}

static void check_logs(uint64_t n) {
    uint32_t floor = 0;
    while (floor < 63 && n >> (floor + 1) != 0) {
        floor++;
    }
    const int pow2 = n == (uint64_t)1 << floor;
    assert_int_equal(wh_log2_floor(n), floor);
    assert_int_equal(wh_is_pow2(n), pow2);
    if (n <= (uint64_t)1 << 63) {
        assert_int_equal(wh_log2_ceil(n), floor + !pow2);
    }
}

static void test_every_size(void **state) {
    (void)state;
    assert_int_equal(wh_is_pow2(0), 0);
    for (uint64_t n = 1; n <= (uint64_t)1 << 20; n++) {
        check_logs(n);
        assert_int_equal(wh_pow2_class(n, 4), naive_class(n, 4));
        assert_int_equal(wh_pow2_class(n, 10), naive_class(n, 10));
        assert_int_equal(wh_pow2_class(n, 0), naive_class(n, 0));
    }
}

static void test_powers_of_two(void **state) {
    (void)state;
    for (uint32_t e = 1; e < 64; e++) {
        const uint64_t p = (uint64_t)1 << e;
        for (uint64_t n = p - 1; n <= p + 1; n++) {
            check_logs(n);
            for (uint32_t min = 0; min <= 30 && n <= (uint64_t)1 << 63; min++) {
                assert_int_equal(wh_pow2_class(n, min), naive_class(n, min));
            }
        }
    }
    check_logs(UINT64_MAX);
}

static void test_round_up(void **state) {
    (void)state;
    for (uint64_t align = 1; align <= (uint64_t)1 << 40; align *= 2) {
        for (uint64_t k = 0; k < 5; k++) {
            assert_true(wh_round_up(k * align, align) == k * align);
            assert_true(wh_round_up(k * align + 1, align) ==
                        (align == 1 ? k + 1 : (k + 1) * align));
            assert_true(wh_round_up((k + 1) * align - 1, align) ==
                        (align == 1 ? k : (k + 1) * align));
        }
    }
    for (uint64_t n = 0; n < 5000; n++) {
        assert_true(wh_round_up(n, 16) == (n + 15) / 16 * 16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_quarters),
        cmocka_unit_test(test_round_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

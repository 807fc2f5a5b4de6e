/* select.c: core/select.h against counting bits one by one. */
#include "sim/sim_test.h"

#include "warpheap/core/hash.h"
#include "warpheap/core/select.h"

static uint32_t naive(uint32_t x, uint32_t k) {
    for (uint32_t b = 0; b < 32 && k != 0; b++) {
        if ((x >> b & 1) != 0 && --k == 0) {
            return b;
        }
    }
    return WH_BIT_NONE;
}

static void check(uint32_t x) {
    for (uint32_t k = 0; k <= 33; k++) {
        assert_int_equal(wh_select32(x, k), naive(x, k));
    }
}

static void test_words(void **state) {
    (void)state;
    for (uint32_t x = 0; x < 1u << 12; x++) {
        check(x);
        check(x << 20);
        check(~x);
        check(wh_spread32(x));
    }
    assert_int_equal(wh_select32(0x16, 1), 1); /* as in the header */
    assert_int_equal(wh_select32(0x16, 3), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

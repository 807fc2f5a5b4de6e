/* hash.c: core/hash.h. Numbers in a row are spread evenly, and no two numbers meet. */
#include "sim/sim_test.h"

#include "warpheap/core/hash.h"

enum { PARTS = 4096 };

/* n numbers in a row, wherever the row begins: at most two in the same n-th part. */
static void rows_are_spread(void **state) {
    (void)state;
    static const uint32_t firsts[] = {0, 1, 1000, 0x7fffffffu, 0xfffff000u};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        for (uint32_t n = 1; n <= PARTS; n = n * 3 / 2 + 1) {
            unsigned char taken[PARTS] = {0};
            for (uint32_t k = 0; k < n; k++) {
                const uint32_t part = (uint32_t)((uint64_t)wh_spread32(firsts[f] + k) * n >> 32);
                assert_in_range(part, 0, n - 1);
                assert_in_range(++taken[part], 1, 2);
            }
        }
    }
}

/* One to one: the factor is odd, and its inverse gives each number back. */
static void it_is_one_to_one(void **state) {
    (void)state;
    const uint32_t factor = wh_spread32(1);
    uint32_t inverse = factor;
    for (int i = 0; i < 5; i++) { /* Newton: twice as many right bits each time */
        inverse *= 2 - factor * inverse;
    }
    for (uint32_t k = 0; k < 1u << 20; k++) {
        assert_int_equal(wh_spread32(k * 4097u) * inverse, k * 4097u);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_spread),
        cmocka_unit_test(it_is_one_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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

/* Of keys that differ in one bit, each bit of the result differs in about half; also of numbers in
 * a row, and of multiples of large powers of two. */
static void bits_are_mixed(void **state) {
    (void)state;
    enum { KEYS = 4000 };
    for (uint32_t wide = 0; wide < 2; wide++) {
        for (uint32_t bit = 0; bit < (wide ? 64u : 32u); bit++) {
            uint32_t flips[32] = {0};
            for (uint32_t i = 0; i < KEYS; i++) {
                const uint64_t key = (uint64_t)i << (i % 3 * 10 + (wide ? i % 2 * 30 : 0));
                const uint64_t other = key ^ (uint64_t)1 << bit;
                const uint32_t d = wide ? wh_mix64(key) ^ wh_mix64(other)
                                        : wh_mix32((uint32_t)key) ^ wh_mix32((uint32_t)other);
                for (uint32_t b = 0; b < 32; b++) {
                    flips[b] += d >> b & 1;
                }
            }
            for (uint32_t b = 0; b < 32; b++) {
                assert_in_range(flips[b], KEYS * 4 / 10, KEYS * 6 / 10);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_mixed),
        cmocka_unit_test(rows_are_spread),
        cmocka_unit_test(it_is_one_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

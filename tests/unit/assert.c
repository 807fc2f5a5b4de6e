/* assert.c: the three kinds of assertions (simt.h): one that does not hold ends the kernel, and
 * the error says what and where; a kind that is off is not evaluated. assert_off.c is the same file
 * with fewer kinds. */
#ifndef WH_ASSERTS_HERE
#define WH_ASSERTS_HERE 3
#endif
#undef WH_ASSERTS
#define WH_ASSERTS WH_ASSERTS_HERE
#include "sim/sim_test.h"

#include "warpheap/simt.h"

typedef struct assert_args {
    uint32_t kind; /* 1 to 3: the assertion that fails */
    uint32_t *evaluated;
    uint32_t *line;
} assert_args;

WH_FN int holds(assert_args a, uint32_t kind) {
    wh_add_u32_relaxed(a.evaluated, 1);
    return a.kind != kind;
}

WH_KERNEL(check, assert_args, a) {
    wh_store_u32_relaxed(a.line, __LINE__ + 1);
    wh_assert(holds(a, 1));
    wh_assert_internal(holds(a, 2));
    wh_assert_expensive(holds(a, 3));
}

static void test_kinds(void **state) {
    assert_args a;
    (void)state;
    for (a.kind = 1; a.kind <= 3; a.kind++) {
        wh_device *device = open_policy(WH_SIM_RANDOM, 1);
        a.evaluated = take(device, sizeof *a.evaluated);
        a.line = take(device, sizeof *a.line);
        *a.evaluated = 0;
        const wh_launch l = grid(device, 1, 1);
        const int fails = a.kind <= WH_ASSERTS;
        assert_int_equal(check(&l, &a), fails ? WH_DEVICE_ERROR : WH_OK);
        assert_int_equal(*a.evaluated, fails ? a.kind : WH_ASSERTS);
        if (fails) {
            const char *text = wh_device_error_text(device);
            char expected[64];
            (void)snprintf(expected, sizeof expected, "assert.c:%u: not so: holds(a, %u)",
                           *a.line + a.kind - 1, a.kind);
            if (strstr(text, expected) == NULL) {
                fail_msg("'%s' does not say '%s'", text, expected);
            }
        }
        assert_int_equal(wh_device_free(device, a.evaluated), WH_OK);
        assert_int_equal(wh_device_free(device, a.line), WH_OK);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

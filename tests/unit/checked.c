/* checked.c: heaps that check what their users do, and records of what failed. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

#include "planted_bugs.h"

static void test_bugs(void **state) {
    (void)state;
    uint32_t wrong = 0;
    for (uint32_t policy = 0; policy < N_POLICIES; policy += 2) {
        for (uint32_t bug = 0; bug < N_BUGS; bug++) {
            wh_device *d = open_policy((wh_sim_policy)policy, bug);
            wrong += bug_run(d, bug) != 0;
            wh_device_close(d);
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

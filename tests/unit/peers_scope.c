/* peers_scope.c: what accesses of the device's scope do not order between two devices: the weak
 * memory lets a message come late that peers.c, the same with system scope, always sees. */
#define WH_PEERS 0

#include "unit/peers_message.h"

static void test_late(void **state) {
    (void)state;
#ifdef WH_TSAN
    skip(); /* weak memory is ignored there */
#endif
    assert_true(late_messages(WH_SIM_WEAK_GPU, 40) > 0);
    assert_true(late_messages(WH_SIM_WEAK_FORMAL, 40) > 0);
    assert_int_equal(late_messages(WH_SIM_WEAK_NONE, 10), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_late)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

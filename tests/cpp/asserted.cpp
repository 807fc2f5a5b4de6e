/* asserted.cpp: a file that checks what its calls have to see to (WH_ASSERTS): a handle that nobody
 * has filled is named as such. */
#undef WH_ASSERTS
#define WH_ASSERTS 1
#include "cpp/cpp_test.hpp"

namespace {

struct no_heap_args {
    uint32_t call;
};
WH_KERNEL(use_no_heap, no_heap_args, a) {
    const wh::heap_ref none = wh::heap_ref();
    switch (a.call) {
    case 0:
        (void)wh_malloc(none, 16);
        break;
    case 1:
        wh_free(none, nullptr);
        break;
    case 2:
        (void)wh_malloc_lanes(none, wh_activemask(), 16);
        break;
    default:
        (void)wh::make<int>(none, 1);
        break;
    }
}
void test_no_heap(void **state) {
    (void)state;
    no_heap_args a;
    for (a.call = 0; a.call < 4; a.call++) {
        place p(1, 8 << 20);
        const wh_launch launch = wh_grid(p.device.get(), 1, 32);
        assert_int_equal(use_no_heap(&launch, &a), WH_DEVICE_ERROR);
        const char *text = wh_device_error_text(p.device.get());
        if (strstr(text, "a handle of zeros") == nullptr) {
            fail_msg("'%s' does not say it", text);
        }
        assert_int_equal(wh_device_free(p.device.get(), p.wrong), WH_OK);
    }
}

} // namespace

int main() {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_heap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* oom_trap.c: WH_OOM_TRAP: a full heap ends the kernel, and the error says who asked for how much,
 * and where. */
#define WH_OOM_TRAP
#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

#define HEAP_BYTES ((uint64_t)1 << 20)

typedef struct fill_args {
    wh_heap_ref heap;
    uint32_t *line;
} fill_args;

WH_KERNEL(fill_heap, fill_args, a) {
    for (;;) {
        wh_store_u32_relaxed(a.line, __LINE__ + 1);
        (void)wh_malloc(a.heap, 4000);
    }
}

static void test_trap(void **state) {
    wh_heap_options o;
    wh_heap *heap = NULL;
    fill_args a;
    char expected[64];
    (void)state;
    memset(&o, 0, sizeof o);
    o.device = open_policy(WH_SIM_RANDOM, 1);
    o.bytes = HEAP_BYTES;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    a.line = take(o.device, sizeof *a.line);
    const wh_launch l = grid(o.device, 2, 48);
    assert_int_equal(fill_heap(&l, &a), WH_DEVICE_ERROR);
    const char *text = wh_device_error_text(o.device);
    (void)snprintf(expected, sizeof expected,
                   "out of memory: wh_malloc of 4000 bytes at oom_trap.c:%u", *a.line);
    if (strstr(text, expected) == NULL || strstr(text, "kernel fill_heap, block ") != text ||
        strstr(text, " thread ") == NULL) {
        fail_msg("'%s' does not say '%s'", text, expected);
    }
    assert_int_equal(wh_device_free(o.device, a.line), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(o.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

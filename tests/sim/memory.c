/* memory.c: the simulated device's memory, timers and information. */
#include "sim_test.h"

static void test_alloc(void **state) {
    (void)state;
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.memory_bytes = 8 << 20;
    wh_device *d = open_with(&o);
    assert_int_equal(wh_device_get_info(d)->target, WH_TARGET_SIM);
    assert_int_equal(wh_device_get_info(d)->memory_bytes, 8 << 20);
    assert_string_equal(wh_device_get_info(d)->name, "simulated device");
    static const uint64_t sizes[] = {1, 100, 256, 4097, 1 << 20, (1 << 20) + 1, 3 << 20};
    unsigned char *p[7];
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(wh_device_alloc(d, (void **)&p[i], sizes[i]), WH_OK);
        assert_int_equal((uintptr_t)p[i] % (1 << 20), 0); /* see tests/sim/repeat.c */
        assert_int_not_equal(p[i][0], 0); /* not cleared, but the same in every run */
        p[i][0] = 1;
        p[i][sizes[i] - 1] = 2;
    }
    void *q = p;
    assert_int_equal(wh_device_alloc(d, &q, 4 << 20), WH_OUT_OF_MEMORY);
    assert_null(q);
    assert_int_equal(wh_device_alloc(d, &q, UINT64_MAX), WH_OUT_OF_MEMORY);
    assert_int_equal(wh_device_alloc(d, &q, 0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_free(d, p[6]), WH_OK);
    assert_int_equal(wh_device_free(d, p[6]), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_free(d, p[5] + 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_free(d, NULL), WH_OK);
    assert_int_equal(wh_device_alloc(d, &q, 4 << 20), WH_OK);
    for (uint32_t i = 0; i < 6; i += 2) {
        assert_int_equal(wh_device_free(d, p[i]), WH_OK);
    }
    wh_device_close(d); /* frees the rest */
}

static void test_set_and_copy(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    unsigned char host[1000], back[1000];
    void *p = NULL;
    for (uint32_t i = 0; i < sizeof host; i++) {
        host[i] = (unsigned char)(i * 7);
    }
    assert_int_equal(wh_device_alloc(d, &p, sizeof host), WH_OK);
    assert_int_equal(wh_device_copy_in(d, p, host, sizeof host), WH_OK);
    assert_int_equal(wh_device_copy_out(d, back, p, sizeof host), WH_OK);
    assert_memory_equal(host, back, sizeof host);
    assert_int_equal(wh_device_set(d, p, 0x5a, 10), WH_OK);
    assert_int_equal(wh_device_copy_out(d, back, p, sizeof host), WH_OK);
    memset(host, 0x5a, 10);
    assert_memory_equal(host, back, sizeof host);
    assert_int_equal(wh_device_sync(d), WH_OK);
    wh_device_close(d);
}

static void test_timer(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    double us = -1;
    assert_int_equal(wh_device_timer_begin(d), WH_OK);
    assert_int_equal(wh_device_timer_end(d, &us), WH_OK);
    assert_true(us >= 0);
    assert_string_equal(wh_device_error_text(d), "");
    wh_device_close(d);
}

/* Kernels may use a good part of a stack, and lanes do not share it. */
typedef struct stack_args {
    uint32_t *bad;
} stack_args;

WH_FN_SLOW uint32_t sum_of(const uint8_t *p, uint32_t n, uint32_t *bad) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += p[i];
        if (i % 1000 == 0) {
            (void)wh_load_u32_relaxed(bad);
        }
    }
    return sum;
}

WH_KERNEL(use_stack, stack_args, a) {
    uint8_t local[8000];
    const uint8_t mine = (uint8_t)(wh_thread_id() % 200);
    memset(local, mine, sizeof local);
    wh_backoff(0);
    if (sum_of(local, sizeof local, a.bad) != mine * sizeof local) {
        wh_add_u32_relaxed(a.bad, 1);
    }
}

static void test_stacks(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 0);
    stack_args a = {take(d, 4)};
    const wh_launch l = grid(d, 3, 1000);
    assert_int_equal(use_stack(&l, &a), WH_OK);
    assert_int_equal(*a.bad, 0);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_set_and_copy),
        cmocka_unit_test(test_timer),
        cmocka_unit_test(test_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

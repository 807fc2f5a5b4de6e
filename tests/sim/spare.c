/* spare.c: devices opened one after another, which use the same stacks and memory again: each
 * is as if it were the first. */
#include "sim_test.h"

#include <unistd.h>

/* Present exactly with AddressSanitizer. */
extern void __asan_init(void) __attribute__((weak));

#define BYTES 5000u /* no whole pages */
#define JUNK 0xa5

/* Whether the program may read a byte there, without reading it itself. */
static bool can_read(const unsigned char *p) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const bool ok = write(ends[1], p, 1) == 1;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return ok;
}

typedef struct work_args {
    uint32_t *sum;
    uint32_t fail; /* thread that does; 0: none */
} work_args;

/* Uses some of the stack, and leaves values there. */
WH_KERNEL(work, work_args, a) {
    volatile uint32_t mine[64];
    const uint32_t i = (uint32_t)wh_thread_id();
    for (uint32_t k = 0; k < 64; k++) {
        mine[k] = i + k;
        if (k % 16 == 0) {
            wh_syncthreads();
        }
    }
    if (a.fail != 0 && i == a.fail) {
        wh_trap("planned");
    }
    uint32_t good = 1;
    for (uint32_t k = 0; k < 64; k++) {
        good &= mine[k] == i + k;
    }
    const uint32_t all = wh_ballot(wh_activemask(), good != 0);
    wh_add_u32_relaxed(a.sum, (all >> wh_lane_id()) & 1u);
    wh_syncthreads();
}

/* On a device of its own; returns its steps. With an even `fail` the device is closed after the
 * launch that fails, with an odd one it is used again. */
static uint64_t run_work(const wh_sim_options *o, uint32_t blocks, uint32_t threads,
                         uint32_t fail) {
    wh_device *d = open_with(o);
    work_args a = {take(d, 4), fail};
    const wh_launch l = grid(d, blocks, threads);
    wh_device_counters c;
    memset(&c, 0, sizeof c);
    if (fail != 0) {
        assert_int_equal(work(&l, &a), WH_DEVICE_ERROR);
        assert_non_null(strstr(wh_device_error_text(d), "planned"));
        a.fail = 0;
        if (fail % 2 == 0) {
            wh_device_close(d);
            return 0;
        }
        assert_int_equal(wh_device_set(d, a.sum, 0, 4), WH_OK);
    }
    assert_int_equal(work(&l, &a), WH_OK);
    uint32_t sum = 0;
    assert_int_equal(wh_device_copy_out(d, &sum, a.sum, 4), WH_OK);
    assert_int_equal(sum, blocks * threads);
    assert_int_equal(wh_device_get_counters(d, &c), WH_OK);
    wh_device_close(d);
    return c.steps;
}

/* Grids of other sizes, and launches that fail with lanes in mid-kernel, in between. */
static void test_devices_in_turn(void **state) {
    (void)state;
    uint64_t random = 1, first[N_POLICIES] = {0};
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    for (uint32_t round = 0; round < 60; round++) {
        o.policy = (wh_sim_policy)(round % N_POLICIES);
        o.weak = round % 3 == 2 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
        const uint32_t threads = 1 + (uint32_t)(next_random(&random) % 200);
        const uint32_t blocks = 1 + (uint32_t)(next_random(&random) % 6);
        (void)run_work(&o, blocks, threads, 0);
        (void)run_work(&o, blocks, threads + 1,
                       1 + (uint32_t)(next_random(&random) % (blocks * threads)));
        o.weak = WH_SIM_WEAK_NONE;
        const uint64_t steps = run_work(&o, 3, 70, 0);
        assert_true(round < N_POLICIES || steps == first[o.policy]);
        first[o.policy] = steps;
    }
}

/* More lanes than are kept. */
static void test_many_open(void **state) {
    (void)state;
    wh_device *d[6];
    work_args a[6];
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 6; i++) {
            d[i] = open_policy(WH_SIM_RANDOM, i);
            a[i] = (work_args){take(d[i], 4), 0};
            const wh_launch l = grid(d[i], 8, 64);
            assert_int_equal(work(&l, &a[i]), WH_OK);
        }
        for (uint32_t i = 0; i < 6; i++) {
            const wh_launch l = grid(d[i], 8, 64); /* others are closed already */
            assert_int_equal(work(&l, &a[i]), WH_OK);
            assert_int_equal(*a[i].sum, 2 * 8 * 64);
            wh_device_close(d[i]);
        }
    }
}

static void test_memory(void **state) {
    (void)state;
    unsigned char *p[40] = {NULL};
    for (uint32_t round = 0; round < 4; round++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, round);
        for (uint32_t i = 0; i < 40; i++) { /* more than are kept */
            const uint64_t bytes = BYTES * (1 + (round + i) % 3);
            assert_int_equal(wh_device_alloc(d, (void **)&p[i], bytes), WH_OK);
            for (uint64_t k = 0; k < bytes; k++) {
                assert_int_equal(p[i][k], JUNK);
            }
            memset(p[i], (int)(round + i), bytes);
        }
        /* What is free or behind an allocation cannot be used: with AddressSanitizer that is
         * for it to say. */
        if (__asan_init == NULL) {
            const uint64_t end = (BYTES * (1 + round % 3) + 4095) / 4096 * 4096;
            assert_true(can_read(p[0] + end - 1));
            assert_false(can_read(p[0] + end));
            assert_int_equal(wh_device_free(d, p[0]), WH_OK);
            assert_false(can_read(p[0]));
        }
        wh_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_in_turn),
        cmocka_unit_test(test_many_open),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* parallel.c: several OS threads, each with whole blocks: real concurrency between
 * blocks, everything else as with one. */
#include "sim_test.h"

typedef struct work_args {
    uint32_t *flags;
    uint32_t *runs;
    uint32_t *lock;
    uint64_t *sum; /* plain, guarded by lock */
    uint32_t *bad;
    uint32_t blocks;
} work_args;

/* 32 lanes in the first two warps, 20 in the third. */
WH_KERNEL(masks, work_args, a) {
    const uint32_t t = wh_thread_in_block();
    const wh_mask live = t < 64 ? ~0u : (1u << 20) - 1;
    const uint32_t n = wh_popc32(wh_ballot(live, 1));
    if (n != (t < 64 ? 32u : 20u) || wh_reduce_add_u32(live, 1) != n) {
        wh_add_u32_relaxed(a.bad, 1);
    }
    const wh_mask here = wh_activemask();
    if ((here & ~live) != 0 || (wh_ballot(here, 1) != here)) {
        wh_add_u32_relaxed(a.bad, 1);
    }
}

/* Blocks wait for each other (all are resident), lanes for each other. */
WH_KERNEL(chain_of_blocks, work_args, a) {
    const uint32_t block = wh_block_id();
    uint32_t attempt = 0;
    wh_add_u32_relaxed(&a.runs[wh_thread_id()], 1);
    if (wh_thread_in_block() == 0) {
        while (block > 0 && wh_load_u32_acquire(&a.flags[block - 1]) == 0) {
            wh_backoff(attempt++);
        }
        wh_store_u32_release(&a.flags[block], 1);
    }
    attempt = 0;
    while (wh_cas_u32_acquire(a.lock, 0, 1) != 0) {
        wh_backoff(attempt++);
    }
    (*a.sum)++;
    wh_store_u32_release(a.lock, 0);
    wh_syncthreads();
}

static wh_device *open_parallel(uint32_t policy, uint32_t workers) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)policy;
    o.workers = workers;
    o.seed = workers;
    o.step_budget = (uint64_t)1 << 32;
    return open_with(&o);
}

static void test_parallel(void **state) {
    (void)state;
    enum { BLOCKS = 8, THREADS = 84, LANES = BLOCKS * THREADS };
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint32_t workers = 2; workers <= 8; workers *= 2) {
            wh_device *d = open_parallel(p, workers);
            for (uint32_t i = 0; i < 2; i++) {
                work_args a = {take(d, 4 * BLOCKS), take(d, 4 * LANES), take(d, 4),
                               take(d, 8),          take(d, 4),         BLOCKS};
                const wh_launch l = grid(d, BLOCKS, THREADS);
                assert_int_equal(chain_of_blocks(&l, &a), WH_OK);
                assert_int_equal(masks(&l, &a), WH_OK);
                assert_int_equal(*a.bad, 0);
                assert_int_equal(*a.sum, LANES);
                for (uint32_t k = 0; k < LANES; k++) {
                    assert_int_equal(a.runs[k], 1);
                }
            }
            wh_device_counters c;
            assert_int_equal(wh_device_get_counters(d, &c), WH_OK);
            assert_true(c.steps >= c.atomics && c.atomics >= 2 * LANES * 3);
            wh_device_close(d);
        }
    }
}

/* Many more blocks than are resident, and fewer blocks than workers. */
static void test_many_and_few_blocks(void **state) {
    (void)state;
    wh_device *d = open_parallel(WH_SIM_ROUND_ROBIN, 3);
    static const uint32_t blocks[] = {5000, 1, 2};
    for (uint32_t i = 0; i < 3; i++) {
        work_args a = {NULL, NULL, NULL, NULL, take(d, 4), blocks[i]};
        const wh_launch l = grid(d, blocks[i], 84);
        assert_int_equal(masks(&l, &a), WH_OK);
        assert_int_equal(*a.bad, 0);
    }
    wh_device_close(d);
}

/* --- failing ------------------------------------------------------------------------------ */

WH_KERNEL(one_traps, work_args, a) {
    if (wh_thread_id() == 100) {
        wh_trap("one of many");
    }
    while (wh_load_u32_relaxed(a.lock) == 0) {
        wh_backoff(20);
    }
}

/* The other workers, which would spin for ever, are stopped as well. */
static void test_failure_stops_all(void **state) {
    (void)state;
    for (uint32_t workers = 2; workers <= 4; workers++) {
        wh_device *d = open_parallel(WH_SIM_RANDOM, workers);
        for (uint32_t i = 0; i < 3; i++) {
            work_args a = {NULL, NULL, take(d, 4), NULL, take(d, 4), 8};
            const wh_launch l = grid(d, 8, 84);
            assert_int_equal(one_traps(&l, &a), WH_DEVICE_ERROR);
            assert_non_null(
                strstr(wh_device_error_text(d), "block 1 thread 16 (lane 16): wh_trap"));
            assert_int_equal(masks(&l, &a), WH_OK);
            assert_int_equal(*a.bad, 0);
        }
        wh_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_many_and_few_blocks),
        cmocka_unit_test(test_failure_stops_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* schedule.c: grids of every shape run each lane once; the same seed gives the same
 * interleaving under every policy, another seed another one. */
#include "sim_test.h"

/* --- every lane runs once and knows where it is ------------------------------------ */

typedef struct where_args {
    uint32_t *runs;
    uint32_t *bad;
    uint32_t blocks, threads, n_sms;
} where_args;

WH_KERNEL(where, where_args, a) {
    const uint32_t t = wh_thread_in_block();
    const uint64_t id = (uint64_t)wh_block_id() * a.threads + t;
    const int good = wh_thread_id() == id && wh_block_threads() == a.threads &&
                     wh_grid_blocks() == a.blocks && wh_lane_id() == t % 32 &&
                     wh_grid_threads() == (uint64_t)a.blocks * a.threads && t < a.threads &&
                     wh_sm_id() < a.n_sms && wh_lanemask_lt() == (1u << t % 32) - 1;
    wh_add_u32_relaxed(&a.runs[id], 1);
    if (!good) {
        wh_add_u32_relaxed(a.bad, 1);
    }
}

static void check_shape(wh_device *d, uint32_t blocks, uint32_t threads) {
    const uint64_t lanes = (uint64_t)blocks * threads;
    where_args a = {take(d, lanes * 4), take(d, 4), blocks, threads, wh_device_get_info(d)->n_sms};
    const wh_launch l = grid(d, blocks, threads);
    assert_int_equal(where(&l, &a), WH_OK);
    assert_int_equal(*a.bad, 0);
    for (uint64_t i = 0; i < lanes; i++) {
        assert_int_equal(a.runs[i], 1);
    }
    assert_int_equal(wh_device_free(d, a.runs), WH_OK);
    assert_int_equal(wh_device_free(d, a.bad), WH_OK);
}

static void test_shapes(void **state) {
    (void)state;
    static const uint32_t threads[] = {1, 2, 31, 32, 33, 63, 100, 256, 511, 1000, 1024};
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_device *d = open_policy((wh_sim_policy)p, 3);
        for (uint32_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
            check_shape(d, 1, threads[i]);
            check_shape(d, 19, threads[i]);
        }
        wh_device_close(d);
    }
}

/* Far more threads than fibers. */
static void test_million_threads(void **state) {
    (void)state;
    const uint32_t less = WH_TEST_SEEDS_DEFAULT < 10 ? 16 : 1; /* under a sanitizer */
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    check_shape(d, 4096 / less, 256);
    check_shape(d, 100003 / less, 7);
    wh_device_close(d);
    d = open_policy(WH_SIM_RANDOM, 1);
    check_shape(d, 1024 / less, 1024);
    wh_device_close(d);
}

static void test_bad_launches(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    where_args a;
    memset(&a, 0, sizeof a);
    static const uint32_t shapes[][2] = {{0, 1}, {1, 0}, {1, 1025}};
    for (uint32_t i = 0; i < 3; i++) {
        const wh_launch l = grid(d, shapes[i][0], shapes[i][1]);
        assert_int_equal(where(&l, &a), WH_BAD_ARGUMENT);
    }
    wh_device_close(d);
}

/* --- multiprocessors ------------------------------------------------------------------ */

typedef struct sm_args {
    uint32_t *resident; /* by SM */
    uint32_t *most;
    uint32_t *used;
} sm_args;

WH_KERNEL(count_residents, sm_args, a) {
    if (wh_thread_in_block() == 0) {
        const uint32_t sm = wh_sm_id();
        const uint32_t now = wh_fetch_add_u32_relaxed(&a.resident[sm], 1) + 1;
        wh_fetch_max_u32_relaxed(&a.most[sm], now);
        wh_add_u32_relaxed(&a.used[sm], 1);
        for (uint32_t i = 0; i < 20; i++) {
            wh_backoff(i);
        }
        wh_fetch_sub_u32_relaxed(&a.resident[sm], 1);
    }
}

static void test_sm_slots(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)p;
        o.n_sms = 5;
        o.blocks_per_sm = 3;
        wh_device *d = open_with(&o);
        assert_int_equal(wh_device_get_info(d)->n_sms, 5);
        sm_args a = {take(d, 20), take(d, 20), take(d, 20)};
        const wh_launch l = grid(d, 100, 33);
        assert_int_equal(count_residents(&l, &a), WH_OK);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(a.resident[i], 0);
            assert_in_range(a.most[i], 2, 3);
            assert_true(a.used[i] >= 10);
        }
        wh_device_close(d);
    }
}

/* --- determinism ---------------------------------------------------------------------- */

typedef struct trace_args {
    uint32_t *next; /* place in the trace */
    uint32_t *trace;
    uint32_t room;
} trace_args;

/* A little of everything that schedules. */
WH_KERNEL(trace_all, trace_args, a) {
    for (uint32_t i = 0; i < 4; i++) {
        const wh_mask mask = wh_activemask();
        const uint32_t sum = wh_reduce_add_u32(mask, wh_lane_id());
        uint32_t at = wh_fetch_add_u32_relaxed(a.next, 1);
        if (at < a.room) {
            a.trace[at] = (uint32_t)wh_thread_id() * 64 + i;
        }
        if ((wh_lane_id() + i) % 3 == 0) {
            wh_backoff(i);
        }
        at = wh_fetch_add_u32_relaxed(a.next, 1);
        if (at < a.room) {
            a.trace[at] = mask ^ sum;
        }
        wh_syncthreads();
    }
}

typedef struct outcome {
    uint64_t hash;
    wh_device_counters counters;
} outcome;

static outcome run_trace(const wh_sim_options *o, uint32_t launches, uint32_t blocks,
                         uint32_t threads) {
    wh_device *d = open_with(o);
    outcome r = {0, {0, 0, 0}};
    const uint32_t room = blocks * threads * 8;
    for (uint32_t i = 0; i < launches; i++) {
        trace_args a = {take(d, 4), take(d, room * 4), room};
        const wh_launch l = grid(d, blocks, threads);
        assert_int_equal(trace_all(&l, &a), WH_OK);
        assert_int_equal(*a.next, room);
        for (uint32_t k = 0; k < room; k++) {
            uint64_t x = r.hash + a.trace[k];
            r.hash = next_random(&x);
        }
        assert_int_equal(wh_device_free(d, a.trace), WH_OK);
        assert_int_equal(wh_device_free(d, a.next), WH_OK);
    }
    assert_int_equal(wh_device_get_counters(d, &r.counters), WH_OK);
    wh_device_close(d);
    return r;
}

static void test_same_seed_same_run(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        uint64_t first = 0;
        uint32_t different = 0;
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = (wh_sim_policy)p;
            o.seed = seed;
            o.policy_arg = p == WH_SIM_PCT ? 1 + (uint32_t)(seed % 3) : 0;
            const outcome x = run_trace(&o, 2, 3, 70);
            void *disturb = malloc(10000 * (1 + seed)); /* other addresses */
            const outcome y = run_trace(&o, 2, 3, 70);
            free(disturb);
            assert_true(x.hash == y.hash);
            assert_memory_equal(&x.counters, &y.counters, sizeof x.counters);
            first = seed == 0 ? x.hash : first;
            different += x.hash != first;
        }
        if (p == WH_SIM_ROUND_ROBIN) {
            assert_int_equal(different, 0);
        } else {
            assert_int_equal(different, n_seeds() - 1);
        }
    }
}

/* The second launch goes on in the stream of choices: it is no repetition. */
static void test_launches_continue_the_stream(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        if (p == WH_SIM_ROUND_ROBIN) {
            continue;
        }
        wh_device *d = open_policy((wh_sim_policy)p, 7);
        const uint32_t room = 64 * 8;
        uint32_t *kept[2];
        for (uint32_t i = 0; i < 2; i++) {
            trace_args a = {take(d, 4), take(d, room * 4), room};
            const wh_launch l = grid(d, 1, 64);
            assert_int_equal(trace_all(&l, &a), WH_OK);
            kept[i] = a.trace;
        }
        assert_memory_not_equal(kept[0], kept[1], room * 4);
        wh_device_close(d);
    }
}

/* --- counters ---------------------------------------------------------------------------- */

typedef struct count_args {
    uint32_t *word;
    uint64_t *wide;
} count_args;

WH_KERNEL(seven_atomics, count_args, a) {
    wh_add_u32_relaxed(a.word, 1);
    (void)wh_load_u32_acquire(a.word);
    (void)wh_fetch_max_u64_relaxed(a.wide, wh_thread_id());
    (void)wh_fetch_min_u64_acq_rel(a.wide, 5);
    wh_store_u64_release(a.wide, 3);
    (void)wh_cas_u32_acq_rel(a.word, 0, 1);
    (void)wh_exchange_u32_acquire(a.word, 9);
    (void)wh_ballot(1u << wh_lane_id(), 1);
    wh_backoff(0);
}

static void test_counters(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_device *d = open_policy((wh_sim_policy)p, 5);
        wh_device_counters c;
        count_args a = {take(d, 4), take(d, 8)};
        const wh_launch l = grid(d, 3, 50);
        for (uint64_t i = 1; i <= 2; i++) {
            assert_int_equal(seven_atomics(&l, &a), WH_OK);
            assert_int_equal(wh_device_get_counters(d, &c), WH_OK);
            assert_int_equal(c.atomics, i * 150 * 7);
            assert_int_equal(c.steps, i * 150 * 9);
            assert_in_range(c.switches, 150 * i, 150 * 10 * i);
        }
        wh_device_close(d);
    }
}

/* --- the clock --------------------------------------------------------------------------- */

typedef struct clock_args {
    uint64_t *out;
} clock_args;

WH_KERNEL(read_clock, clock_args, a) {
    const uint64_t start = wh_clock();
    while (wh_clock() - start < 100) {
    }
    a.out[wh_thread_id()] = wh_clock() - start;
}

static void test_clock(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_device *d = open_policy((wh_sim_policy)p, 5);
        clock_args a = {take(d, 8 * 40)};
        const wh_launch l = grid(d, 1, 40);
        assert_int_equal(read_clock(&l, &a), WH_OK);
        for (uint32_t i = 0; i < 40; i++) {
            assert_true(a.out[i] >= 100);
        }
        wh_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_million_threads),
        cmocka_unit_test(test_bad_launches),
        cmocka_unit_test(test_sm_slots),
        cmocka_unit_test(test_same_seed_same_run),
        cmocka_unit_test(test_launches_continue_the_stream),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

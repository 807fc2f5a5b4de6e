/* progress.c: a lane that spins never keeps the lane it waits for from running, under
 * any policy; a launch that cannot end fails within its step budget and says how to see
 * it again; the policies differ in the way they promise to. */
#include "sim_test.h"

/* --- spinning lanes ------------------------------------------------------------------ */

typedef struct spin_args {
    uint32_t *flags; /* by lane of the grid */
    uint32_t *lock;
    uint32_t *sum; /* guarded by lock */
    uint32_t backoff, lanes, rounds;
} spin_args;

WH_FN void spin(const spin_args *a, uint32_t *attempt) {
    if (a->backoff) {
        wh_backoff((*attempt)++);
    }
}

/* A chain through all lanes in descending order: each waits for its neighbour, in its
 * own warp or block or in another one. */
WH_KERNEL(chain, spin_args, a) {
    const uint32_t id = (uint32_t)wh_thread_id();
    uint32_t attempt = 0;
    if (id + 1 < a.lanes) {
        while (wh_load_u32_acquire(&a.flags[id + 1]) == 0) {
            spin(&a, &attempt);
        }
    }
    wh_store_u32_release(&a.flags[id], 1);
}

/* Every lane takes a lock that the other lanes of its warp want, too. */
WH_KERNEL(critical, spin_args, a) {
    for (uint32_t i = 0; i < a.rounds; i++) {
        uint32_t attempt = 0;
        while (wh_cas_u32_acquire(a.lock, 0, 1) != 0) {
            spin(&a, &attempt);
        }
        (*a.sum)++;
        wh_store_u32_release(a.lock, 0);
    }
}

/* The lanes that spin do so between collectives of the lanes they wait for. */
WH_KERNEL(leader_works, spin_args, a) {
    const uint32_t lane = wh_lane_id(), half = lane % 2;
    uint32_t attempt = 0;
    const wh_mask mine = half ? 0xaaaaaaaau : 0x55555555u;
    if (half) {
        for (uint32_t i = 0; i < 20; i++) {
            (void)wh_ballot(mine, (int)i);
        }
        (void)wh_activemask();
        if (lane == 1) {
            wh_store_u32_release(&a.flags[wh_thread_id() / 32], 1);
        }
    } else {
        while (wh_load_u32_acquire(&a.flags[wh_thread_id() / 32]) == 0) {
            spin(&a, &attempt);
        }
        wh_syncwarp(mine);
    }
}

/* The lanes that spin ask who is with them meanwhile, as those do that they wait for, further on.
 */
WH_KERNEL(spins_together, spin_args, a) {
    const uint32_t lane = wh_lane_id();
    uint32_t *flag = &a.flags[wh_thread_id() / 32], attempt = 0;
    if (lane % 2 == 0) {
        while (wh_any_here(wh_load_u32_acquire(flag) == 0)) {
            spin(&a, &attempt);
        }
    }
    (void)wh_activemask();
    if (lane == 1) {
        wh_store_u32_release(flag, 1);
    }
}

static void test_spins_end(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = (wh_sim_policy)p;
            o.seed = seed;
            o.step_budget = 50 * 1000 * 1000;
            o.policy_arg = p == WH_SIM_STICKY ? 100 : 0;
            if (p == WH_SIM_PCT) {
                o.policy_arg = 1 + (uint32_t)(seed % 3);
            }
            wh_device *d = open_with(&o);
            for (uint32_t backoff = 0; backoff < 2; backoff++) {
                const uint32_t blocks = 3, threads = 40, lanes = blocks * threads;
                spin_args a = {take(d, 4 * lanes), take(d, 4), take(d, 4), backoff, lanes, 3};
                const wh_launch l = grid(d, blocks, threads);
                if (chain(&l, &a) != WH_OK || critical(&l, &a) != WH_OK) {
                    fail_msg("%s", wh_device_error_text(d));
                }
                for (uint32_t i = 0; i < lanes; i++) {
                    assert_int_equal(a.flags[i], 1);
                }
                assert_int_equal(*a.sum, 3 * lanes);
                assert_int_equal(wh_device_set(d, a.flags, 0, 4 * lanes), WH_OK);
                const wh_launch full = grid(d, 3, 64);
                if (leader_works(&full, &a) != WH_OK) {
                    fail_msg("%s", wh_device_error_text(d));
                }
                assert_int_equal(wh_device_set(d, a.flags, 0, 4 * lanes), WH_OK);
                if (spins_together(&full, &a) != WH_OK) {
                    fail_msg("%s", wh_device_error_text(d));
                }
            }
            wh_device_close(d);
        }
    }
}

/* A lane of a resident block waits for each other resident block. */
static void test_large_chain(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    spin_args a = {take(d, 4 * 2048), NULL, NULL, 1, 2048, 0};
    const wh_launch l = grid(d, 2, 1024);
    assert_int_equal(chain(&l, &a), WH_OK);
    assert_int_equal(a.flags[0], 1);
    wh_device_close(d);
}

/* Lanes that back off again and again leave the steps to those that work. */
WH_KERNEL(one_works, spin_args, a) {
    uint32_t attempt = 0;
    if (wh_thread_id() == 77) {
        for (uint32_t i = 0; i < a.rounds; i++) {
            wh_add_u32_relaxed(a.sum, 1);
        }
        wh_store_u32_release(a.lock, 1);
    }
    while (wh_load_u32_acquire(a.lock) == 0) {
        spin(&a, &attempt);
    }
}

static void test_backoff_leaves_steps(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_device *d = open_policy((wh_sim_policy)p, 4);
        wh_device_counters c;
        spin_args a = {NULL, take(d, 4), take(d, 4), 1, 0, 3000};
        const wh_launch l = grid(d, 2, 512);
        assert_int_equal(one_works(&l, &a), WH_OK);
        assert_int_equal(*a.sum, 3000);
        assert_int_equal(wh_device_get_counters(d, &c), WH_OK);
        assert_in_range(c.steps, 3000 + 1024, 3000 * 64); /* with equal turns 3000 * 1024 */
        wh_device_close(d);
    }
}

/* The lane that works backs off when all others have had their turn, so that it has the lowest
 * priority of all; they come back from sleeps of one tick, again and again. */
WH_KERNEL(lowest_works, spin_args, a) {
    uint32_t attempt = 0;
    if (wh_thread_id() == 77) {
        while (wh_load_u32_acquire(a.flags) + 1 < a.lanes) {
            wh_backoff(0);
        }
        wh_backoff(0);
        for (uint32_t i = 0; i < a.rounds; i++) {
            wh_add_u32_relaxed(a.sum, 1);
        }
        wh_store_u32_release(a.lock, 1);
    }
    while (wh_load_u32_acquire(a.lock) == 0) {
        if (attempt == 2) {
            wh_add_u32_relaxed(a.flags, 1);
        }
        wh_backoff(attempt < 2 ? attempt : 2);
        attempt++;
    }
}

static void test_pct_does_not_starve(void **state) {
    (void)state;
    const uint32_t lanes = 150, rounds = 5000;
    for (uint64_t seed = 0; seed < 3 * n_seeds(); seed++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = WH_SIM_PCT;
        o.policy_arg = 1 + (uint32_t)(seed % 3);
        o.seed = seed;
        o.step_budget = 20 * rounds;
        wh_device *d = open_with(&o);
        for (uint32_t i = 0; i < 3; i++) { /* also with a guess of the length */
            wh_device_counters before, after;
            spin_args a = {take(d, 4), take(d, 4), take(d, 4), 1, lanes, rounds};
            const wh_launch l = grid(d, 3, lanes / 3);
            assert_int_equal(wh_device_get_counters(d, &before), WH_OK);
            if (lowest_works(&l, &a) != WH_OK) {
                fail_msg("%s", wh_device_error_text(d));
            }
            assert_int_equal(wh_device_get_counters(d, &after), WH_OK);
            assert_in_range(after.steps - before.steps, rounds, 4 * rounds);
        }
        wh_device_close(d);
    }
}

/* --- the budget ------------------------------------------------------------------------ */

WH_KERNEL(forever, spin_args, a) {
    uint32_t attempt = 0;
    while (wh_load_u32_relaxed(a.lock) == 0) {
        spin(&a, &attempt);
    }
}

static void test_livelock(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)p;
        o.seed = 77;
        o.step_budget = 20000;
        wh_device *d = open_with(&o);
        char text[64];
        for (uint32_t i = 0; i < 2; i++) { /* the budget is one launch's */
            wh_device_counters before, after;
            spin_args a = {NULL, take(d, 4), NULL, i, 0, 0};
            const wh_launch l = grid(d, 3, 33);
            assert_int_equal(wh_device_get_counters(d, &before), WH_OK);
            assert_int_equal(forever(&l, &a), WH_DEVICE_ERROR);
            assert_int_equal(wh_device_get_counters(d, &after), WH_OK);
            assert_int_equal(after.steps - before.steps, 20000);
            const char *error = wh_device_error_text(d);
            assert_non_null(strstr(error, "livelock"));
            assert_non_null(strstr(error, "20000"));
            assert_non_null(strstr(error, "kernel forever"));
            (void)snprintf(text, sizeof text, "[replay: WH_SIM=seed=77,policy=%s", policy_names[p]);
            assert_non_null(strstr(error, text));
            *a.lock = 1;
            assert_int_equal(forever(&l, &a), WH_OK);
        }
        wh_device_close(d);
    }
}

/* --- lanes that wait for ever ------------------------------------------------------------ */

/* Of a block the first warp waits alone, the second one in rounds, the third one at a barrier. */
WH_KERNEL(forsaken, spin_args, a) {
    const uint32_t warp = wh_thread_in_block() / WH_WARP_SIZE;
    uint32_t attempt = 0, is_there = 0;
    while (warp == 0 && wh_load_u32_acquire(a.lock) == 0) {
        spin(&a, &attempt);
    }
    while (warp == 1 && !is_there) {
        is_there = wh_lane_id() == 0 ? wh_load_u32_acquire(a.lock) : 0;
        is_there = wh_shfl_u32(WH_FULL_WARP, is_there, 0);
        wh_backoff(attempt++);
    }
    wh_syncthreads();
}

/* They wait for a lane that does not call wh_backoff; or that does, but comes from wait to wait. */
WH_KERNEL(slow_chief, spin_args, a) {
    uint32_t attempt = 0;
    if (wh_thread_id() == 0) {
        for (uint32_t i = 0; i < a.rounds; i++) {
            wh_add_u32_relaxed(a.sum, 1);
            if (a.backoff) {
                wh_backoff(2);
            }
        }
        wh_store_u32_release(a.lock, 1);
    }
    while (wh_load_u32_acquire(a.lock) == 0) {
        wh_backoff(attempt++);
    }
}

/* They wait for the clock alone. */
WH_KERNEL(until_late, spin_args, a) {
    const uint64_t begin = wh_clock();
    for (uint32_t k = 0; wh_clock() - begin < a.rounds; k++) {
        wh_backoff(k);
    }
}

/* From the last lane to the first one, each of which works for long and ends. */
WH_KERNEL(relay, spin_args, a) {
    const uint32_t id = (uint32_t)wh_thread_id();
    for (uint32_t k = 0; id + 1 < a.lanes && wh_load_u32_acquire(&a.flags[id + 1]) == 0; k++) {
        wh_backoff(k);
    }
    for (uint32_t i = 0; i < a.rounds; i++) {
        wh_add_u32_relaxed(a.sum, 1);
    }
    wh_store_u32_release(&a.flags[id], 1);
}

/* One gives up, and tells the other one. */
WH_KERNEL(gives_up, spin_args, a) {
    for (uint32_t k = 0; wh_load_u32_acquire(a.lock) == 0; k++) {
        if (wh_thread_id() == 0 && k == a.rounds) {
            wh_store_u32_release(a.lock, 1);
        }
        wh_backoff(k);
    }
}

/* The fewest waits after which it looks are 1024 of each of 64 lanes, or of as many as there are.
 */
static void test_waits_end(void **state) {
    (void)state;
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = WH_SIM_RANDOM;
    o.step_budget = (uint64_t)1 << 30;
    wh_device *d = open_with(&o);
    spin_args a = {take(d, 4 * 128), take(d, 4), take(d, 4), 0, 128, 200 * 1000};
    const wh_launch l = grid(d, 1, 128), two = grid(d, 1, 2);
    if (relay(&l, &a) != WH_OK) {
        fail_msg("%s", wh_device_error_text(d));
    }
    a.rounds =
        40 * 1000; /* and the other one as often: more than 65536, and less than twice that */
    if (gives_up(&two, &a) != WH_OK) {
        fail_msg("%s", wh_device_error_text(d));
    }
    wh_device_close(d);
}

static void test_waits_for_ever(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)p;
        o.seed = 5;
        o.step_budget = (uint64_t)1 << 30; /* so that it looks after the fewest waits */
        wh_device *d = open_with(&o);
        spin_args a = {NULL, take(d, 4), take(d, 4), 1, 0, 0};
        const wh_launch l = grid(d, 2, 96);
        assert_int_equal(forsaken(&l, &a), WH_DEVICE_ERROR);
        const char *error = wh_device_error_text(d);
        assert_non_null(strstr(error, "livelock"));
        assert_non_null(strstr(error, "wh_backoff"));
        assert_non_null(strstr(error, "192 lanes of forsaken"));
        *a.lock = 1;
        assert_int_equal(forsaken(&l, &a), WH_OK);
        const wh_launch few = grid(d, 1, 64);
        a.rounds = p == WH_SIM_ROUND_ROBIN ? 20 * 1000 * 1000 : 200 * 1000;
        for (a.backoff = 0; a.backoff < 2; a.backoff++) {
            *a.lock = 0;
            if (slow_chief(&few, &a) != WH_OK) {
                fail_msg("%s", wh_device_error_text(d));
            }
        }
        if (until_late(&few, &a) != WH_OK) {
            fail_msg("%s", wh_device_error_text(d));
        }
        wh_device_close(d);
    }
}

/* --- what the policies promise ------------------------------------------------------------ */

#define TRACE_ROOM 8192u

typedef struct order_args {
    uint32_t *next;
    uint32_t *trace;
    uint32_t steps;
} order_args;

WH_KERNEL(order, order_args, a) {
    for (uint32_t i = 0; i < a.steps; i++) {
        const uint32_t at = wh_fetch_add_u32_relaxed(a.next, 1);
        if (at < TRACE_ROOM) {
            a.trace[at] = (uint32_t)wh_thread_id();
        }
    }
}

static order_args run_order(wh_device *d, uint32_t lanes, uint32_t steps) {
    order_args a = {take(d, 4), take(d, 4 * TRACE_ROOM), steps};
    const wh_launch l = grid(d, 1, lanes);
    assert_true(lanes * steps <= TRACE_ROOM);
    assert_int_equal(order(&l, &a), WH_OK);
    assert_int_equal(*a.next, lanes * steps);
    return a;
}

static uint32_t count_switches(const uint32_t *trace, uint32_t n) {
    uint32_t switches = 0;
    for (uint32_t i = 1; i < n; i++) {
        switches += trace[i] != trace[i - 1];
    }
    return switches;
}

static void test_round_robin_order(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 9);
    const order_args a = run_order(d, 80, 20);
    for (uint32_t i = 0; i < 80 * 20; i++) {
        assert_int_equal(a.trace[i], i % 80);
    }
    wh_device_close(d);
}

static void test_sticky_switches(void **state) {
    (void)state;
    static const uint32_t args[] = {2, 8, 32};
    for (uint32_t i = 0; i < 3; i++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = WH_SIM_STICKY;
        o.policy_arg = args[i];
        wh_device *d = open_with(&o);
        const order_args a = run_order(d, 64, 128);
        const uint32_t expect = 64 * 128 / args[i];
        assert_in_range(count_switches(a.trace, 64 * 128), expect / 2, expect * 3 / 2);
        wh_device_close(d);
    }
}

/* Depth 1: each lane runs to its end. Depth d: at most d - 1 change points besides. */
static void test_pct_depth(void **state) {
    (void)state;
    for (uint32_t depth = 1; depth <= 3; depth++) {
        uint32_t most = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = WH_SIM_PCT;
            o.policy_arg = depth;
            o.seed = seed;
            wh_device *d = open_with(&o);
            (void)run_order(d, 20, 100); /* its length is the guess for the next */
            const order_args a = run_order(d, 20, 100);
            const uint32_t switches = count_switches(a.trace, 2000);
            assert_in_range(switches, 19, 19 + depth - 1);
            most = switches > most ? switches : most;
            wh_device_close(d);
        }
        assert_int_equal(most, 19 + depth - 1);
    }
}

/* The longest time that each of 8 lanes stands still while others run; how many of them do so for
 * a long time. */
static uint32_t count_stalled(wh_sim_policy policy, uint64_t seed) {
    wh_device *d = open_policy(policy, seed);
    const order_args a = run_order(d, 8, 1000);
    uint32_t last[8] = {0}, stalled = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        const uint32_t lane = a.trace[i];
        stalled |= (i - last[lane] > 400 ? 1u : 0u) << lane;
        last[lane] = i;
    }
    wh_device_close(d);
    return wh_popc32(stalled);
}

static void test_stall(void **state) {
    (void)state;
    uint32_t several = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        several += count_stalled(WH_SIM_STALL, seed) >= 2;
        assert_int_equal(count_stalled(WH_SIM_RANDOM, seed), 0);
    }
    assert_true(several >= 10);
}

/* An unlikely order is found by some seed: lane 0 stops between two accesses until the
 * others have passed all of theirs. */
typedef struct lost_args {
    uint32_t *word;
} lost_args;

WH_KERNEL(lost_update, lost_args, a) {
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t v = wh_load_u32_relaxed(a.word);
        wh_store_u32_relaxed(a.word, v + 1);
    }
}

static void test_races_are_found(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        uint32_t found = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            wh_device *d = open_policy((wh_sim_policy)p, seed);
            lost_args a = {take(d, 4)};
            const wh_launch l = grid(d, 2, 2);
            assert_int_equal(lost_update(&l, &a), WH_OK);
            found += *a.word < 12;
            wh_device_close(d);
        }
        assert_true(found >= 10); /* many schedules lose an update */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spins_end),
        cmocka_unit_test(test_large_chain),
        cmocka_unit_test(test_backoff_leaves_steps),
        cmocka_unit_test(test_pct_does_not_starve),
        cmocka_unit_test(test_livelock),
        cmocka_unit_test(test_waits_for_ever),
        cmocka_unit_test(test_waits_end),
        cmocka_unit_test(test_round_robin_order),
        cmocka_unit_test(test_sticky_switches),
        cmocka_unit_test(test_pct_depth),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_races_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

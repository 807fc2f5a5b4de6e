/* replay.c: a recorded schedule can be followed, whatever policy made it; a schedule that
 * does not fit the program, or is no schedule, is reported as such; the environment
 * variable WH_SIM overrides a program's options. */
#include "sim_test.h"

#include <unistd.h>

static char schedule[64];

typedef struct mix_args {
    uint32_t *trace;
    uint32_t *next;
    uint32_t rounds;
    uint32_t trap_at; /* trap when the trace reaches this length */
} mix_args;

#define ROOM 4096u

WH_FN void note(const mix_args *a, uint32_t what) {
    const uint32_t at = wh_fetch_add_u32_relaxed(a->next, 1);
    if (at < ROOM) {
        a->trace[at] = what;
    }
    if (at == a->trap_at) {
        wh_trap("as asked for");
    }
}

WH_KERNEL(mix, mix_args, a) {
    for (uint32_t i = 0; i < a.rounds; i++) {
        const wh_mask mask = wh_activemask();
        const uint32_t n = wh_popc32(wh_ballot(mask, 1));
        note(&a, (uint32_t)wh_thread_id() << 8 | n);
        if (wh_lane_id() % 4 == i % 4) {
            wh_backoff(i); /* the later ones sleep */
        }
        if (i == 2) {
            wh_syncthreads();
        }
    }
}

typedef struct run {
    wh_status status[2];
    char error[512];
    uint32_t trace[2][ROOM];
} run;

/* Two launches on one device. */
static void run_twice(run *r, const wh_sim_options *o, uint32_t rounds, uint32_t trap_at) {
    memset(r, 0, sizeof *r);
    wh_device *d = open_with(o);
    for (uint32_t i = 0; i < 2; i++) {
        mix_args a = {take(d, 4 * ROOM), take(d, 4), rounds, trap_at};
        const wh_launch l = grid(d, 5, 41);
        r->status[i] = mix(&l, &a);
        memcpy(r->trace[i], a.trace, 4 * ROOM);
        if (r->error[0] == '\0') {
            (void)snprintf(r->error, sizeof r->error, "%s", wh_device_error_text(d));
        }
    }
    wh_device_close(d);
}

static wh_sim_options options_for(uint32_t policy, uint64_t seed) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)policy;
    o.seed = seed;
    o.n_sms = 3;
    o.blocks_per_sm = 1;
    return o;
}

static run recorded, replayed;

static void test_replay(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o = options_for(p, seed), plain = o, other;
            o.record = schedule;
            run_twice(&recorded, &o, 6, UINT32_MAX);
            assert_int_equal(recorded.status[0], WH_OK);
            assert_int_equal(recorded.status[1], WH_OK);
            run_twice(&replayed, &plain, 6, UINT32_MAX); /* recording changes nothing */
            assert_memory_equal(&recorded, &replayed, sizeof recorded);

            memset(&other, 0, sizeof other); /* the file says all that matters */
            other.seed = 1234567;
            other.replay = schedule;
            run_twice(&replayed, &other, 6, UINT32_MAX);
            if (replayed.status[0] != WH_OK || replayed.status[1] != WH_OK) {
                fail_msg("%s", replayed.error);
            }
            assert_memory_equal(&recorded, &replayed, sizeof recorded);
        }
    }
}

static void test_replay_of_a_failure(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_sim_options o = options_for(p, 5), other;
        o.record = schedule;
        run_twice(&recorded, &o, 6, 500);
        assert_int_equal(recorded.status[0], WH_DEVICE_ERROR);
        memset(&other, 0, sizeof other);
        other.replay = schedule;
        run_twice(&replayed, &other, 6, 500);
        assert_memory_equal(&recorded, &replayed, sizeof recorded);
    }
}

static void expect_divergence(uint32_t rounds, uint32_t trap_at, const char *text) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.replay = schedule;
    run_twice(&replayed, &o, rounds, trap_at);
    assert_int_equal(replayed.status[0], WH_DEVICE_ERROR);
    if (strstr(replayed.error, "the replay diverged") == NULL ||
        strstr(replayed.error, text) == NULL) {
        fail_msg("'%s' lacks '%s'", replayed.error, text);
    }
}

static void write_file(const char *text) {
    FILE *f = fopen(schedule, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#define HEADER "warpheap-schedule 2 seed 1 policy random arg 0 sms 3 blocks-per-sm 1 weak 0\n"

static void test_divergence(void **state) {
    (void)state;
    wh_sim_options o = options_for(WH_SIM_RANDOM, 3);
    o.record = schedule;
    run_twice(&recorded, &o, 6, UINT32_MAX);
    expect_divergence(5, UINT32_MAX, "line ");
    expect_divergence(7, UINT32_MAX, "line ");
    write_file(HEADER "launch other 5 41 g0 end\n");
    expect_divergence(6, UINT32_MAX, "not the launch of kernel mix with 5 blocks of 41 threads");
    write_file(HEADER "launch mix 5 40 g0 end\n");
    expect_divergence(6, UINT32_MAX, "not the launch");
    write_file(HEADER);
    expect_divergence(6, UINT32_MAX, "not the launch");
    write_file(HEADER "launch mix 5 41 g0 s1\n");
    expect_divergence(6, UINT32_MAX, "the schedule ends where the program");
    write_file(HEADER "launch mix 5 41 g200 end\n");
    expect_divergence(6, UINT32_MAX, "thread 200 is to go on, but it is not resident");
    write_file(HEADER "launch mix 5 41 h3 end\n");
    expect_divergence(6, UINT32_MAX, "the running lane is to stop, but it cannot");
    write_file(HEADER "launch mix 5 41 g0 s100 end\n");
    expect_divergence(6, UINT32_MAX, "where the program comes to wh_activemask");
    write_file(HEADER "launch mix 5 41 mff end\n");
    expect_divergence(6, UINT32_MAX, "'mff' where the program asks for the next lane");
}

static void test_bad_files(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "hello\n",
        "warpheap-schedule 1 seed 1 policy random arg 0 sms 3 blocks-per-sm 1 weak 0\n",
        "warpheap-schedule 2 seed x policy random arg 0 sms 3 blocks-per-sm 1 weak 0\n",
        "warpheap-schedule 2 seed 1 policy wild arg 0 sms 3 blocks-per-sm 1 weak 0\n",
        "warpheap-schedule 2 seed 1 policy random arg 0 sms 3 weak 0\n",
        "warpheap-schedule 2 seed 1 policy random arg 0 sms 99999999 blocks-per-sm 1 weak 0\n",
    };
    wh_device *d = NULL;
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.replay = schedule;
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(bad[i]);
        assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_FORMAT);
        assert_null(d);
    }
    o.replay = "/nonexistent/folder/file";
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_IO_ERROR);
    o.replay = NULL;
    o.record = "/nonexistent/folder/file";
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_IO_ERROR);
}

/* A schedule that cannot be written is not one to rely on: the launch has failed. */
static void test_no_room(void **state) {
    (void)state;
    wh_sim_options o;
    run r;
    memset(&o, 0, sizeof o);
    o.record = "/dev/full";
    run_twice(&r, &o, 4, ROOM);
    assert_int_equal(r.status[0], WH_DEVICE_ERROR);
    assert_non_null(strstr(r.error, "could not be written to the file"));
}

/* --- options ----------------------------------------------------------------------------- */

static void test_bad_options(void **state) {
    (void)state;
    wh_device *d = NULL;
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)WH_SIM_POLICY_COUNT;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_ARGUMENT);
    o.policy = WH_SIM_PCT;
    o.policy_arg = 9;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_ARGUMENT);
    memset(&o, 0, sizeof o);
    o.workers = 2;
    o.record = schedule;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_ARGUMENT);
    memset(&o, 0, sizeof o);
    o.weak = WH_SIM_WEAK_FORMAL + 1;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_ARGUMENT);
#ifndef WH_TSAN /* there it is ignored */
    o.weak = WH_SIM_WEAK_GPU;
    o.workers = 2;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_ARGUMENT);
#endif
    assert_null(d);
}

static void test_environment(void **state) {
    (void)state;
    wh_sim_options o = options_for(WH_SIM_STICKY, 17);
    o.policy_arg = 5;
    run_twice(&recorded, &o, 6, UINT32_MAX);
    assert_int_equal(
        setenv("WH_SIM", "seed=17,policy=sticky,arg=5,sms=3,blocks=1,budget=1000000", 1), 0);
    wh_sim_options other = options_for(WH_SIM_PCT, 2);
    run_twice(&replayed, &other, 6, UINT32_MAX);
    assert_memory_equal(&recorded, &replayed, sizeof recorded);

    static const char *const bad[] = {"seed",        "seed=",      "seed=-1",        "seed=1x",
                                      "policy=wild", "colour=red", "sms=99999999999"};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        wh_device *d = NULL;
        assert_int_equal(setenv("WH_SIM", bad[i], 1), 0);
        assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_ARGUMENT);
        assert_null(d);
    }
    assert_int_equal(unsetenv("WH_SIM"), 0);
}

int main(void) {
    (void)snprintf(schedule, sizeof schedule, "/tmp/wh_replay_%ld.txt", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay),      cmocka_unit_test(test_replay_of_a_failure),
        cmocka_unit_test(test_divergence),  cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_bad_options), cmocka_unit_test(test_environment),
        cmocka_unit_test(test_no_room),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(schedule);
    return failed;
}

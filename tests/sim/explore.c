/* explore.c: what exploration asks of the simulated device: schedules that may be thinned out, a
 * hash of a schedule, lanes that stop for ever, and a test that chooses who goes on. */
#include "sim_test.h"

#include <unistd.h>

#include "sim/explore.h"

static char file[64];

/* --- a body with a window of two exact switches ------------------------------------------------
 */

typedef struct window_args {
    uint32_t *word;
    uint32_t *seen;
    uint32_t points; /* of each lane; its window is between two of them */
} window_args;

/* The first lane opens the word for one point; the second one sees it open only if it looks right
 * then, at its only look. */
WH_KERNEL(window, window_args, a) {
    const uint32_t me = wh_block_id();
    for (uint32_t i = 0; i < a.points; i++) {
        if (i == a.points / 2 && me == 0) {
            wh_store_u32_relaxed(a.word, 1);
            wh_store_u32_relaxed(a.word, 0);
        } else if (i == a.points / 2) {
            wh_add_u32_relaxed(a.seen, wh_load_u32_relaxed(a.word));
        }
        (void)wh_load_u32_relaxed(&a.seen[1]);
    }
}

static uint32_t run_window(wh_device *d, uint32_t points, wh_status *status) {
    window_args a = {take(d, 4), take(d, 8), points};
    const wh_launch l = grid(d, 2, 1);
    *status = window(&l, &a);
    const uint32_t seen = *a.seen;
    assert_int_equal(wh_device_free(d, a.word), WH_OK);
    assert_int_equal(wh_device_free(d, a.seen), WH_OK);
    return seen;
}

/* --- sparse schedules ---------------------------------------------------------------------------
 */

typedef struct mix_args {
    uint32_t *trace;
    uint32_t *next;
} mix_args;

#define ROOM 4096u

WH_KERNEL(mix, mix_args, a) {
    for (uint32_t i = 0; i < 5; i++) {
        const wh_mask mask = wh_activemask();
        const uint32_t n = wh_popc32(wh_ballot(mask, 1));
        a.trace[wh_fetch_add_u32_relaxed(a.next, 1) % ROOM] = (uint32_t)wh_thread_id() << 8 | n;
        if (wh_lane_id() % 4 == i % 4) {
            wh_backoff(i);
        }
        if (i == 2) {
            wh_syncthreads();
        }
    }
}

static uint32_t recorded[ROOM], replayed[ROOM];

static uint64_t run_mix(const wh_sim_options *o, uint32_t *trace) {
    wh_device *d = open_with(o);
    mix_args a = {take(d, sizeof recorded), take(d, 4)};
    const wh_launch l = grid(d, 5, 41);
    for (uint32_t i = 0; i < 2; i++) {
        if (mix(&l, &a) != WH_OK) {
            fail_msg("%s", wh_device_error_text(d));
        }
    }
    memcpy(trace, a.trace, sizeof recorded);
    const uint64_t schedule = whi_sim_schedule(d);
    wh_device_close(d);
    return schedule;
}

/* A sparse schedule is followed, whatever policy made it; that it is written changes nothing. */
static void test_sparse(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = (wh_sim_policy)p;
            o.seed = seed;
            o.n_sms = 5;
            const uint64_t plain = run_mix(&o, replayed);
            o.switches = file;
            assert_int_equal(run_mix(&o, recorded), plain);
            assert_memory_equal(recorded, replayed, sizeof recorded);
            memset(&o, 0, sizeof o);
            o.replay = file;
            (void)run_mix(&o, replayed);
            assert_memory_equal(recorded, replayed, sizeof recorded);
        }
    }
}

/* Of a schedule every other line goes, and it is still followed to its end: lanes that are to go on
 * but cannot do not. */
static void test_thinned(void **state) {
    (void)state;
    char lines[65536], thin[80];
    (void)snprintf(thin, sizeof thin, "%s.thin", file);
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = WH_SIM_RANDOM;
        o.seed = seed;
        o.n_sms = 5;
        o.switches = file;
        (void)run_mix(&o, recorded);
        FILE *from = fopen(file, "r"), *to = fopen(thin, "w");
        assert_non_null(from);
        assert_non_null(to);
        for (uint32_t k = 0; fgets(lines, sizeof lines, from) != NULL; k++) {
            if (k == 0 || k % 2 == seed % 2) {
                assert_true(fputs(lines, to) >= 0);
            }
        }
        (void)fclose(from);
        (void)fclose(to);
        memset(&o, 0, sizeof o);
        o.replay = thin;
        const uint64_t once = run_mix(&o, recorded);
        assert_int_equal(run_mix(&o, replayed), once);
        assert_memory_equal(recorded, replayed, sizeof recorded);
    }
    (void)remove(thin);
}

static void write_file(const char *text) {
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#define HEADER "warpheap-switches 1 seed 1 policy random arg 0 sms 2 blocks-per-sm 1 weak 0"

/* Two switches show what a window of two hides, and can be written by hand. */
static void test_by_hand(void **state) {
    (void)state;
    wh_status s;
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    /* Thread 0 first; after its store, which is behind its point 8, thread 1 up to its end. */
    write_file(HEADER "\n0 - 1 g0\n0 0 7 g1\n");
    o.replay = file;
    wh_device *d = open_with(&o);
    assert_int_equal(run_window(d, 10, &s), 1);
    assert_int_equal(s, WH_OK);
    assert_int_equal(run_window(d, 10, &s), 0); /* the second launch has no lines */
    assert_int_equal(s, WH_OK);
    wh_device_close(d);
    static const char *const bad[] = {
        HEADER "\n0 0 1\n",
        HEADER "\n0 0 1 x3\n",
        HEADER "\n0 0 1 g3x\n",
        HEADER "\n0 x 1 g3\n",
        HEADER " more\n0 0 1 g0\n",
        "warpheap-switches 2 seed 1 policy random arg 0 sms 2 blocks-per-sm 1 weak 0\n",
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(bad[i]);
        assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_FORMAT);
        assert_null(d);
    }
    o.record = file;
    o.replay = NULL;
    o.switches = file;
    assert_int_equal(wh_device_open(&d, "sim", &o), WH_BAD_ARGUMENT);
}

/* --- hashes of schedules
 * -------------------------------------------------------------------------- */

static uint64_t window_schedule(uint64_t seed) {
    wh_status s;
    wh_device *d = open_policy(WH_SIM_RANDOM, seed);
    (void)run_window(d, 40, &s);
    assert_int_equal(s, WH_OK);
    const uint64_t schedule = whi_sim_schedule(d);
    wh_device_close(d);
    return schedule;
}

static void test_hash(void **state) {
    (void)state;
    uint64_t hashes[64];
    for (uint64_t seed = 0; seed < 64; seed++) {
        hashes[seed] = window_schedule(seed);
        assert_int_equal(window_schedule(seed), hashes[seed]);
        for (uint64_t k = 0; k < seed; k++) {
            assert_true(hashes[k] != hashes[seed]);
        }
    }
    (void)remove(file);
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = WH_SIM_RANDOM;
    o.schedules = file;
    wh_status s;
    for (o.seed = 0; o.seed < 3; o.seed++) {
        wh_device *d = open_with(&o);
        (void)run_window(d, 40, &s);
        wh_device_close(d);
    }
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    unsigned long long hash, steps;
    for (uint64_t seed = 0; seed < 3; seed++) {
        assert_int_equal(fscanf(f, "%llx %llu", &hash, &steps), 2);
        assert_true(hash == hashes[seed] && steps > 0);
    }
    assert_int_equal(fscanf(f, "%llx", &hash), EOF);
    (void)fclose(f);
    wh_device *none = NULL;
    o.schedules = "/nonexistent/folder/file";
    assert_int_equal(wh_device_open(&none, "sim", &o), WH_IO_ERROR);
}

/* --- lanes that stop for ever
 * ------------------------------------------------------------------------ */

typedef struct lock_args {
    uint32_t *lock;
    uint32_t *done;
} lock_args;

WH_KERNEL(lock, lock_args, a) {
    for (uint32_t attempt = 0; wh_exchange_u32_acquire(a.lock, 1) != 0; attempt++) {
        wh_backoff(attempt);
    }
    wh_add_u32_relaxed(a.done, 1);
    wh_store_u32_release(a.lock, 0);
}

/* Who stops with the lock blocks the others; before and behind it nobody. */
static void test_stop(void **state) {
    (void)state;
    uint32_t blocked = 0, apart = 0;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)p;
        o.step_budget = 20000;
        wh_device *d = open_with(&o);
        lock_args a = {take(d, 4), take(d, 4)};
        const wh_launch l = grid(d, 4, 1);
        for (uint64_t n = 1;; n++) {
            *a.lock = *a.done = 0;
            whi_sim_stop(d, 2, n);
            const wh_status s = lock(&l, &a);
            if (s == WH_OK) {
                assert_int_equal(*a.done, 4);
                if (whi_sim_asked(d) < n) {
                    break;
                }
                continue; /* it sleeps there */
            }
            const uint32_t ended = strstr(wh_device_error_text(d), WHI_SIM_STOPPED) != NULL;
            assert_true(ended || strstr(wh_device_error_text(d), "livelock") != NULL);
            assert_true(!ended || *a.done >= 3);
            blocked += !ended;
            apart += ended;
        }
        assert_int_equal(lock(&l, &a), WH_OK); /* the next launch has all its lanes */
        wh_device_close(d);
    }
    assert_true(blocked > 0);
    assert_true(apart > 0);
}

/* --- steering
 * ------------------------------------------------------------------------------------------ */

typedef struct two_switches {
    uint32_t first, asked;
} two_switches;

/* Thread 0 up to a point of its, then thread 1 to its end. */
static uint32_t choose(void *state, uint64_t can, uint32_t ran, bool leave) {
    two_switches *t = state;
    assert_true(can == 3);
    assert_true(ran < 2 || leave);
    if (ran == 64) {
        return 0;
    }
    t->asked += ran == 0;
    return ran == 1 || t->asked == t->first ? 1 : 0;
}

static UNUSED void test_steer(void **state) {
    (void)state;
    two_switches t = {0, 0};
    const whi_steering steering = {choose, &t};
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    whi_sim_steer(d, &steering);
    uint32_t seen = 0;
    for (t.first = 1; t.first < 600; t.first++) {
        wh_status s;
        t.asked = 0;
        seen += run_window(d, 300, &s);
        assert_int_equal(s, WH_OK);
    }
    assert_int_equal(seen, 1);
    wh_device_close(d);
}

int main(void) {
    (void)snprintf(file, sizeof file, "/tmp/wh_explore_%ld.txt", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sparse),  cmocka_unit_test(test_thinned),
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_hash),
        cmocka_unit_test(test_stop),
#ifndef WH_TSAN /* what the test keeps for its choices would look like races of the lanes */
        cmocka_unit_test(test_steer),
#endif
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(file);
    return failed;
}

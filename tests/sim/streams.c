/* streams.c: kernels of different streams run together, interleaved by the seed; those of
 * one stream run in order; whatever waits for a device waits for all of them; a recorded
 * schedule of several kernels can be followed. */
#include "sim_test.h"

#include <unistd.h>

static void *stream_of(wh_device *d) {
    void *s = NULL;
    assert_int_equal(wh_stream_create(d, &s), WH_OK);
    assert_non_null(s);
    return s;
}

static wh_launch on(wh_device *d, void *stream, uint32_t blocks, uint32_t threads) {
    const wh_launch l = {d, blocks, threads, stream};
    return l;
}

static wh_device *open_small(uint32_t policy, uint64_t seed, uint32_t workers) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)policy;
    o.seed = seed;
    o.workers = workers;
    o.n_sms = 2 + (uint32_t)(seed % 3);
    o.blocks_per_sm = 1 + (uint32_t)(seed % 2);
    o.step_budget = 2 * 1000 * 1000;
    return open_with(&o);
}

#define SYNC(d)                                      \
    do {                                             \
        if (wh_device_sync(d) != WH_OK) {            \
            fail_msg("%s", wh_device_error_text(d)); \
        }                                            \
    } while (0)

/* --- together ------------------------------------------------------------------------ */

typedef struct talk_args {
    uint32_t *word; /* whose turn it is: counts up */
    uint64_t *letter;
    uint32_t *bad;
    uint32_t me, rounds;
} talk_args;

/* Lane 0 of each of two kernels answers the other `rounds` times; the other lanes wait
 * for the end. Run one after the other, the first would wait for ever. */
WH_KERNEL(talk, talk_args, a) {
    const uint32_t last = 2 * a.rounds;
    uint32_t attempt = 0;
    for (uint32_t turn = 0; turn < last;) {
        const uint32_t now = wh_load_u32_acquire(a.word);
        if (wh_thread_id() == 0 && now % 2 == a.me && now < last) {
            if (*a.letter != now) {
                wh_add_u32_relaxed(a.bad, 1);
            }
            *a.letter = now + 1;
            wh_store_u32_release(a.word, now + 1);
        } else {
            wh_backoff(attempt++);
        }
        attempt = now != turn ? 0 : attempt;
        turn = now;
    }
}

static talk_args make_talk(wh_device *d, uint32_t rounds) {
    const talk_args a = {take(d, 4), take(d, 8), take(d, 4), 0, rounds};
    return a;
}

static void start_talk(wh_device *d, talk_args a, void *first, void *second, uint32_t blocks) {
    const wh_launch l0 = on(d, first, 1, 1 + blocks * 10), l1 = on(d, second, blocks, 33);
    assert_int_equal(talk(&l0, &a), WH_OK);
    a.me = 1; /* what a launch was given is a copy */
    assert_int_equal(talk(&l1, &a), WH_OK);
}

static void test_together(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            for (uint32_t workers = 1; workers <= (seed < 3 ? 3u : 1u); workers++) {
                wh_device *d = open_small(p, seed, workers);
                void *s0 = stream_of(d), *s1 = stream_of(d);
                const talk_args a = make_talk(d, 20);
                start_talk(d, a, s0, s1, 1 + (uint32_t)(seed % 2));
                assert_int_equal(*a.word, 0); /* not before somebody waits */
                SYNC(d);
                assert_int_equal(*a.word, 40);
                assert_int_equal(*a.letter, 40);
                assert_int_equal(*a.bad, 0);
                wh_device_close(d);
            }
        }
    }
}

/* Never ends, and does not call wh_backoff. */
WH_KERNEL(stare, talk_args, a) {
    while (wh_load_u32_acquire(a.word) != UINT32_MAX) {
    }
}

/* The same kernels on one stream: the first never ends. Nor do two that use up the budget of two.
 */
static void test_one_stream_is_serial(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_device *d = open_small(p, 1, 1);
        void *s = stream_of(d);
        const talk_args a = make_talk(d, 20);
        start_talk(d, a, s, s, 1);
        assert_int_equal(wh_device_sync(d), WH_DEVICE_ERROR);
        assert_non_null(strstr(wh_device_error_text(d), "livelock: 11 lanes of talk wait"));
        assert_int_equal(*a.word, 1);
        assert_int_equal(wh_device_sync(d), WH_OK); /* reported once, and no longer queued */
        const wh_launch l = on(d, s, 1, 33);
        assert_int_equal(stare(&l, &a), WH_OK);
        assert_int_equal(stare(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(d), WH_DEVICE_ERROR);
        assert_non_null(strstr(wh_device_error_text(d), "livelock: 4000000 "));
        wh_device_close(d);
    }
}

/* A grid of more blocks than fit, all of which wait for two kernels of another stream. */
typedef struct gate_args {
    uint32_t *gate, *passed;
} gate_args;

WH_KERNEL(pass_gate, gate_args, a) {
    uint32_t attempt = 0;
    while (wh_load_u32_acquire(a.gate) < 2) {
        wh_backoff(attempt++);
    }
    wh_add_u32_relaxed(a.passed, 1);
}

WH_KERNEL(lift_gate, gate_args, a) {
    wh_add_u32_release(a.gate, wh_thread_id() == 0);
}

static void test_large_grid_leaves_room(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            for (uint32_t workers = 1; workers <= (seed < 3 ? 2u : 1u); workers++) {
                wh_device *d = open_small(p, seed, workers);
                void *s0 = stream_of(d), *s1 = stream_of(d);
                gate_args a = {take(d, 4), take(d, 4)};
                const wh_launch large = on(d, s0, 50, 40), small = on(d, s1, 1, 1);
                assert_int_equal(pass_gate(&large, &a), WH_OK);
                assert_int_equal(lift_gate(&small, &a), WH_OK);
                assert_int_equal(lift_gate(&small, &a), WH_OK);
                SYNC(d);
                assert_int_equal(*a.passed, 50 * 40);
                wh_device_close(d);
            }
        }
    }
}

/* --- in order ---------------------------------------------------------------------------- */

typedef struct order_args {
    uint32_t *done; /* lanes of this stream that have ended */
    uint32_t *bad;
    uint32_t *plain; /* written by one kernel, read by the next: no atomics */
    uint32_t before, which;
} order_args;

WH_KERNEL(next_in_line, order_args, a) {
    const uint32_t i = (uint32_t)wh_thread_id() % 64;
    if (wh_load_u32_relaxed(a.done) < a.before || (a.which > 0 && a.plain[i] != a.which)) {
        wh_add_u32_relaxed(a.bad, 1);
    }
    wh_backoff(0);
    wh_syncthreads();
    if (wh_thread_id() < 64) {
        a.plain[64 + i] = a.which + 1;
    }
    wh_add_u32_relaxed(a.done, 1);
}

WH_KERNEL(hand_on, order_args, a) {
    a.plain[wh_thread_id()] = a.plain[64 + wh_thread_id()];
}

static void test_order(void **state) {
    (void)state;
    enum { STREAMS = 3, KERNELS = 5 };
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            for (uint32_t workers = 1; workers <= (seed < 3 ? 4u : 1u); workers++) {
                wh_device *d = open_small(p, seed, workers);
                order_args a[STREAMS];
                void *s[STREAMS];
                uint32_t lanes[STREAMS] = {0, 0, 0};
                for (uint32_t k = 0; k < STREAMS; k++) {
                    s[k] = stream_of(d);
                    a[k] = (order_args){take(d, 4), take(d, 4), take(d, 4 * 128), 0, 0};
                }
                for (uint32_t i = 0; i < KERNELS; i++) {
                    for (uint32_t k = 0; k < STREAMS; k++) {
                        const uint32_t blocks = 1 + (uint32_t)((seed + i * 3 + k) % 7);
                        const wh_launch l = on(d, s[k], blocks, 70), copy = on(d, s[k], 2, 32);
                        a[k].before = lanes[k];
                        a[k].which = i;
                        assert_int_equal(next_in_line(&l, &a[k]), WH_OK);
                        assert_int_equal(hand_on(&copy, &a[k]), WH_OK);
                        lanes[k] += blocks * 70;
                    }
                }
                SYNC(d);
                for (uint32_t k = 0; k < STREAMS; k++) {
                    assert_int_equal(*a[k].bad, 0);
                    assert_int_equal(*a[k].done, lanes[k]);
                    assert_int_equal(a[k].plain[63], KERNELS);
                }
                wh_device_close(d);
            }
        }
    }
}

/* --- who waits ----------------------------------------------------------------------------- */

typedef struct add_args {
    uint32_t *word;
    uint32_t times, plus;
} add_args;

WH_KERNEL(multiply_add, add_args, a) {
    const uint32_t v = wh_load_u32_relaxed(a.word);
    wh_backoff(3);
    wh_store_u32_relaxed(a.word, v * a.times + a.plus);
}

static void test_waiting(void **state) {
    (void)state;
    wh_device *d = open_small(WH_SIM_RANDOM, 1, 1);
    void *s0 = stream_of(d), *s1 = stream_of(d);
    add_args a = {take(d, 4), 1, 5};
    const wh_launch l0 = on(d, s0, 1, 1), l1 = on(d, s1, 1, 1), plain = on(d, NULL, 1, 1);
    uint32_t v = 0;

    assert_int_equal(multiply_add(&l0, &a), WH_OK); /* a copy to the host sees it */
    assert_int_equal(wh_device_copy_out(d, &v, a.word, 4), WH_OK);
    assert_int_equal(v, 5);

    assert_int_equal(multiply_add(&l0, &a), WH_OK); /* the default stream comes after */
    a.times = 10;
    assert_int_equal(multiply_add(&plain, &a), WH_OK);
    assert_int_equal(*a.word, 105);
    assert_int_equal(multiply_add(&l1, &a), WH_OK); /* ... and before */
    assert_int_equal(wh_stream_sync(d, s1), WH_OK);
    assert_int_equal(*a.word, 1055);

    v = 7;
    assert_int_equal(multiply_add(&l0, &a), WH_OK);
    assert_int_equal(wh_device_copy_in(d, a.word, &v, 4), WH_OK);
    assert_int_equal(*a.word, 7);
    assert_int_equal(multiply_add(&l0, &a), WH_OK);
    assert_int_equal(wh_device_set(d, a.word, 0, 4), WH_OK);
    assert_int_equal(*a.word, 0);

    double us = 0;
    assert_int_equal(multiply_add(&l0, &a), WH_OK);
    assert_int_equal(wh_device_timer_begin(d), WH_OK);
    assert_int_equal(*a.word, 5);
    assert_int_equal(multiply_add(&l0, &a), WH_OK);
    assert_int_equal(wh_device_timer_end(d, &us), WH_OK);
    assert_int_equal(*a.word, 55);

    void *other = NULL; /* free waits: the kernel may use what is freed */
    assert_int_equal(wh_device_alloc(d, &other, 4), WH_OK);
    add_args b = {other, 0, 1};
    assert_int_equal(multiply_add(&l0, &b), WH_OK);
    assert_int_equal(multiply_add(&l1, &a), WH_OK);
    assert_int_equal(wh_device_free(d, other), WH_OK);
    assert_int_equal(*a.word, 555);

    assert_int_equal(multiply_add(&l0, &a), WH_OK);
    assert_int_equal(wh_stream_destroy(d, s0), WH_OK);
    assert_int_equal(*a.word, 5555);
    assert_int_equal(multiply_add(&l0, &a), WH_BAD_ARGUMENT);
    assert_int_equal(wh_stream_destroy(d, s0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_stream_sync(d, s0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_stream_destroy(d, NULL), WH_OK);
    wh_device *e = open_small(WH_SIM_RANDOM, 1, 1); /* a stream of another device */
    const wh_launch wrong = on(e, s1, 1, 1);
    assert_int_equal(multiply_add(&wrong, &a), WH_BAD_ARGUMENT);
    wh_device_close(e);
    assert_int_equal(multiply_add(&l1, &a), WH_OK);
    wh_device_close(d); /* with work in the queue */
}

/* --- failing --------------------------------------------------------------------------------- */

WH_KERNEL(trap_in, add_args, a) {
    if (wh_thread_id() == a.plus) {
        wh_trap("on a stream");
    }
    while (wh_load_u32_relaxed(a.word) == 0) {
        wh_backoff(20);
    }
}

static void test_failure(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint32_t workers = 1; workers <= 3; workers++) {
            wh_device *d = open_small(p, p, workers);
            void *s0 = stream_of(d), *s1 = stream_of(d);
            add_args a = {take(d, 4), 1, 20}, never = {a.word, 1, UINT32_MAX};
            add_args late = {take(d, 4), 1, 1};
            const wh_launch l0 = on(d, s0, 2, 40), l1 = on(d, s1, 1, 30), one = on(d, s1, 1, 1);
            assert_int_equal(trap_in(&l0, &never), WH_OK);
            assert_int_equal(trap_in(&l1, &a), WH_OK);
            assert_int_equal(multiply_add(&one, &late), WH_OK);
            assert_int_equal(wh_device_sync(d), WH_DEVICE_ERROR);
            assert_non_null(strstr(wh_device_error_text(d),
                                   "kernel trap_in, block 0 thread 20 (lane 20): wh_trap"));
            assert_int_equal(*late.word, 0); /* behind the one that failed */
            assert_int_equal(wh_device_sync(d), WH_OK);
            assert_int_equal(multiply_add(&one, &late), WH_OK);
            SYNC(d);
            assert_int_equal(*late.word, 1);

            /* A call that waits reports it, and does not do its own work. */
            assert_int_equal(trap_in(&l1, &a), WH_OK);
            assert_int_equal(wh_device_set(d, late.word, 0, 4), WH_DEVICE_ERROR);
            assert_int_equal(*late.word, 1);
            assert_int_equal(wh_device_sync(d), WH_OK); /* told once */
            assert_int_equal(wh_device_set(d, late.word, 0, 4), WH_OK);
            wh_device_close(d);
        }
    }
}

/* --- schedules ---------------------------------------------------------------------------------
 */

#define ROOM 4096u

typedef struct trace_args {
    uint32_t *next, *trace;
    uint32_t me, steps;
} trace_args;

WH_KERNEL(note_steps, trace_args, a) {
    for (uint32_t i = 0; i < a.steps; i++) {
        const uint32_t at = wh_fetch_add_u32_relaxed(a.next, 1);
        if (at < ROOM) {
            a.trace[at] = a.me << 16 | (uint32_t)wh_thread_id();
        }
    }
}

typedef struct trace {
    uint32_t events[2 * ROOM];
    char error[512];
} trace;

/* Two batches of three streams; the last of them has two kernels. */
static void run_traced(trace *t, const wh_sim_options *o, uint32_t third) {
    memset(t, 0, sizeof *t);
    wh_device *d = open_with(o);
    void *s[3] = {stream_of(d), stream_of(d), stream_of(d)};
    for (uint32_t batch = 0; batch < 2; batch++) {
        trace_args a = {take(d, 4), take(d, 4 * ROOM), 0, 5};
        static const uint32_t shapes[4][2] = {{4, 33}, {1, 5}, {7, 16}, {3, 20}};
        for (uint32_t k = 0; k < 4; k++) {
            const wh_launch l = on(d, s[k < 2 ? k : third], shapes[k][0], shapes[k][1]);
            a.me = k;
            assert_int_equal(note_steps(&l, &a), WH_OK);
        }
        (void)wh_device_sync(d);
        memcpy(t->events + batch * ROOM, a.trace, 4 * ROOM);
        if (t->error[0] == '\0') {
            (void)snprintf(t->error, sizeof t->error, "%s", wh_device_error_text(d));
        }
    }
    wh_device_close(d);
}

static uint32_t count_changes(const trace *t) {
    uint32_t n = 0;
    for (uint32_t i = 1; i < ROOM; i++) {
        n += t->events[i] != 0 && t->events[i] >> 16 != t->events[i - 1] >> 16;
    }
    return n;
}

static trace first, second;

static wh_sim_options options_for(uint32_t policy, uint64_t seed) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)policy;
    o.seed = seed;
    return o;
}

static void test_interleaving_by_seed(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        uint32_t differ = 0;
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            const wh_sim_options o = options_for(p, seed), other = options_for(p, seed + 1);
            run_traced(&first, &o, 2);
            run_traced(&second, &o, 2);
            assert_memory_equal(&first, &second, sizeof first);
            if (p != WH_SIM_PCT) {                       /* which changes as seldom as it can */
                assert_true(count_changes(&first) > 10); /* 3 if serial */
            }
            run_traced(&second, &other, 2);
            differ += memcmp(&first, &second, sizeof first) != 0;
        }
        if (p == WH_SIM_ROUND_ROBIN) {
            assert_int_equal(differ, 0);
        } else {
            assert_true(2 * differ > n_seeds());
        }
    }
}

static void test_replay(void **state) {
    (void)state;
    char schedule[64];
    (void)snprintf(schedule, sizeof schedule, "/tmp/wh_streams_%ld.txt", (long)getpid());
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o = options_for(p, seed), other = options_for(WH_SIM_RANDOM, seed + 9);
            run_traced(&second, &o, 2);
            o.record = schedule;
            run_traced(&first, &o, 2); /* recording changes nothing */
            assert_memory_equal(&first, &second, sizeof first);
            other.replay = schedule;
            run_traced(&second, &other, 2);
            assert_string_equal(second.error, "");
            assert_memory_equal(&first, &second, sizeof first);
            run_traced(&second, &other, 0); /* the last two on the first stream */
            assert_non_null(strstr(second.error, "it is not the launch of kernel note_steps"));
            assert_non_null(strstr(second.error, "together with 3 more"));
        }
    }
    (void)remove(schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_one_stream_is_serial),
        cmocka_unit_test(test_large_grid_leaves_room),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_interleaving_by_seed),
        cmocka_unit_test(test_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

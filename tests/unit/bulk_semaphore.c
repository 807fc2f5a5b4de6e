/* bulk_semaphore.c: core/bulk_semaphore.h. Alone: fields do not touch each other at their limits,
 * and of callers who find nothing the duties sum up to what all of them lack (I3), exhaustively for
 * small numbers; how many of a crowd try. Together: lanes under every policy take what others
 * signal, fetch when they must, and never take more than there is (I2); afterwards the word is what
 * it was (I1). */
#include "sim/sim_test.h"

#include "warpheap/core/bulk_semaphore.h"

/* --- the word ----------------------------------------------------------------------- */

static void test_fields(void **state) {
    static const int64_t counts[] = {0, 1, -1, 5, -270336, (1 << 25) - 1, -(1 << 25) + 1};
    static const uint32_t others[] = {0, 1, 31, 270336, (1u << 19) - 1};
    (void)state;
    for (uint32_t c = 0; c < 7; c++) {
        for (uint32_t e = 0; e < 5; e++) {
            for (uint32_t r = 0; r < 5; r++) {
                const uint64_t w = wh_bulk_semaphore_word(counts[c], others[e], others[r]);
                assert_true(wh_bulk_semaphore_count(w) == counts[c]);
                assert_int_equal(wh_bulk_semaphore_expected(w), others[e]);
                assert_int_equal(wh_bulk_semaphore_reserved(w), others[r]);
                /* Adding a change and its opposite leaves the word. */
                const uint64_t d = wh_bulk_semaphore_word(-7, others[e] != 0 ? -1 : 1, 0);
                const uint64_t back = wh_bulk_semaphore_word(7, others[e] != 0 ? 1 : -1, 0);
                assert_true(w + d + back == w);
            }
        }
    }
    assert_int_equal(wh_bulk_semaphore_got(wh_bulk_semaphore_word(-3, 0, 0), 4), 0);
    assert_int_equal(wh_bulk_semaphore_got(wh_bulk_semaphore_word(0, 9, 9), 4), 0);
    assert_int_equal(wh_bulk_semaphore_got(wh_bulk_semaphore_word(3, 0, 0), 4), 3);
    assert_int_equal(wh_bulk_semaphore_got(wh_bulk_semaphore_word(4, 0, 0), 4), 4);
}

/* I3: callers one after the other, each with its reserve before or after the next one's take:
 * what they fetch in all is exactly what they lack, in batches. */
static void test_duties(void **state) {
    (void)state;
    for (uint32_t batch = 0; batch <= 4; batch++) {
        for (uint32_t have = 0; have <= 5; have++) {
            for (uint32_t pattern = 0; pattern < 4 * 4 * 4 * 4 * 16; pattern++) {
                uint64_t sem = wh_bulk_semaphore_word(have, 0, 0), old[4];
                uint32_t n[4], fetched = 0, wanted = 0, got = 0;
                for (uint32_t i = 0; i < 4; i++) {
                    n[i] = 1 + (pattern >> 2 * i) % 4 * 5;
                    old[i] = wh_bulk_semaphore_take(&sem, n[i]);
                    for (uint32_t k = 0; k <= i; k++) { /* who reserves now */
                        const int now = i == 3 || (k == i && (pattern >> (8 + i) & 1) != 0);
                        if (now && n[k] != 0) {
                            const uint32_t g = wh_bulk_semaphore_got(old[k], n[k]);
                            const uint32_t duty = wh_bulk_semaphore_batches(old[k], n[k], batch);
                            wh_bulk_semaphore_reserve(&sem, n[k] - g, duty);
                            wanted += n[k];
                            got += g;
                            fetched += duty;
                            n[k] = 0;
                        }
                    }
                }
                const uint32_t lack = wanted - got;
                assert_int_equal(got, have < wanted ? have : wanted);
                assert_int_equal(fetched, (lack + (1u << batch) - 1) >> batch);
                assert_int_equal(wh_bulk_semaphore_count(sem), have - got);
                assert_int_equal(wh_bulk_semaphore_expected(sem), fetched);
                assert_int_equal(wh_bulk_semaphore_reserved(sem), lack);
            }
        }
    }
}

/* --- many lanes --------------------------------------------------------------------------- */

typedef struct sem_args {
    uint64_t *sem;
    uint64_t *units; /* that exist: signalled less taken, kept by the lanes themselves */
    uint64_t *fetched;
    uint32_t *errors;
    uint32_t batch_log2, steps;
    uint64_t seed;
} sem_args;

/* Who has taken units marks them as gone before it uses them, and as there before it gives
 * them back: if more were taken than there are, the mark goes below zero. */
WH_KERNEL(take_and_give, sem_args, a) {
    uint64_t random = a.seed + wh_thread_id() * 0x9e3779b97f4a7c15u;
    const uint32_t batch = 1u << a.batch_log2;
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t n = 1 + (uint32_t)(random >> 60) % 5;
        const uint64_t old = wh_bulk_semaphore_take(a.sem, n);
        uint32_t have = wh_bulk_semaphore_got(old, n);
        uint32_t duty = 0;
        if (have != 0 && (int64_t)wh_fetch_sub_u64_relaxed(a.units, have) < (int64_t)have) {
            wh_add_u32_relaxed(a.errors, 1);
        }
        if (have < n) {
            duty = wh_bulk_semaphore_batches(old, n, a.batch_log2);
            wh_bulk_semaphore_reserve(a.sem, n - have, duty);
        }
        uint32_t idle = 0;
        for (uint32_t attempt = 0; have < n; attempt++) {
            const uint64_t w = wh_load_u64_relaxed(a.sem);
            if (duty != 0) {
                const uint32_t keep = n - have < duty * batch ? n - have : duty * batch;
                wh_add_u64_relaxed(a.fetched, duty);
                wh_add_u64_relaxed(a.units, duty * batch - keep);
                wh_bulk_semaphore_signal(a.sem, duty * batch - keep, duty, keep);
                have += keep;
                duty = 0;
            } else if (wh_bulk_semaphore_count(w) > 0) {
                const uint32_t got = wh_bulk_semaphore_retake(a.sem, n - have);
                if (got != 0 && (int64_t)wh_fetch_sub_u64_relaxed(a.units, got) < (int64_t)got) {
                    wh_add_u32_relaxed(a.errors, 1);
                }
                have += got;
            } else if (wh_bulk_semaphore_expected(w) != 0) {
                idle = 0;
            } else if (++idle > 2) {
                duty = wh_bulk_semaphore_volunteer(a.sem, 1, a.batch_log2);
                idle = 0;
            }
            wh_backoff(attempt);
        }
        wh_add_u64_relaxed(a.units, have);
        wh_bulk_semaphore_signal(a.sem, have, 0, 0);
    }
}

static void test_concurrent(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = (wh_sim_policy)p;
            o.seed = seed;
            wh_device *d = open_with(&o);
            sem_args a;
            a.sem = take(d, 8);
            a.units = take(d, 8);
            a.fetched = take(d, 8);
            a.errors = take(d, 4);
            a.batch_log2 = (uint32_t)(seed % 5);
            a.steps = 12;
            a.seed = seed;
            const wh_launch l = grid(d, 2, 24);
            if (take_and_give(&l, &a) != WH_OK) {
                fail_msg("%s", wh_device_error_text(d));
            }
            assert_int_equal(*a.errors, 0);
            assert_int_equal(*a.units, *a.fetched << a.batch_log2);
            assert_true(*a.sem == wh_bulk_semaphore_word((int64_t)*a.units, 0, 0)); /* I1 */
            assert_true(*a.fetched > 0);
            wh_device_close(d);
        }
    }
}

/* Of a crowd about as many try as there are units; each in 64 attempts; without units none, and
 * of a few all. */
static void test_draws(void **state) {
    (void)state;
    const uint32_t wanted = 100000;
    for (uint32_t units = 100; units <= 100000; units *= 10) {
        uint32_t trying = 0;
        for (uint32_t who = 0; who < wanted; who++) {
            trying += wh_bulk_semaphore_may_try(wh_bulk_semaphore_word(units, 1, wanted), 0,
                                                units % 7, who) != 0;
        }
        assert_true(trying > units / 2 && trying < 2 * units + 1);
    }
    for (uint32_t who = 0; who < 1000; who++) {
        uint32_t tries = 0;
        for (uint32_t attempt = 1000; attempt < 1064; attempt++) {
            tries += wh_bulk_semaphore_may_try(wh_bulk_semaphore_word(1, 0, wanted), 0, attempt,
                                               who) != 0;
            assert_false(
                wh_bulk_semaphore_may_try(wh_bulk_semaphore_word(0, 1, wanted), 5, attempt, who));
            assert_false(
                wh_bulk_semaphore_may_try(wh_bulk_semaphore_word(-3, 1, wanted), 5, attempt, who));
            assert_true(
                wh_bulk_semaphore_may_try(wh_bulk_semaphore_word(1, 0, 7), 0, attempt, who));
        }
        assert_true(tries >= 1 && tries < 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_duties),
        cmocka_unit_test(test_concurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* use_word.c: core/use_word.h: claims and releases against a plain array, alone and by many
 * lanes at once. */
#include "sim/sim_test.h"

#include "warpheap/core/use_word.h"

static void test_alone(void **state) {
    uint64_t word = 0, random = 1;
    uint32_t used = 0, releases = 0;
    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        const uint32_t mask = (uint32_t)next_random(&random) & (uint32_t)next_random(&random);
        if (next_random(&random) % 2 != 0) {
            uint64_t seen = next_random(&random) % 2 ? word : word & 0xffff; /* may be stale */
            const int got = mask != 0 && wh_use_claim(&word, &seen, mask);
            assert_int_equal(got, mask != 0 && (used & mask) == 0);
            used |= got ? mask : 0;
        } else if ((used & mask) != 0) {
            wh_use_release(&word, used & mask);
            used &= ~mask;
            releases++;
        }
        assert_int_equal(wh_use_free(word), ~used);
        assert_int_equal(wh_use_releases(word), releases);
    }
    assert_true(releases > 1000);
}

typedef struct claim_args {
    uint64_t *word;
    uint64_t *owner; /* plain: the claim orders it */
    uint32_t *wrong;
} claim_args;

WH_KERNEL(claim_often, claim_args, a) {
    const uint32_t first = (uint32_t)wh_thread_id() % 29, mask = 0xfu << first;
    for (uint32_t step = 0; step < 30; step++) {
        uint64_t seen = wh_load_u64_relaxed(a.word);
        if (wh_use_claim(a.word, &seen, mask)) {
            for (uint32_t b = first; b < first + 4; b++) {
                a.owner[b] = wh_thread_id();
            }
            wh_backoff(0);
            for (uint32_t b = first; b < first + 4; b++) {
                wh_add_u32_relaxed(a.wrong, a.owner[b] != wh_thread_id());
            }
            wh_use_release(a.word, mask);
        }
    }
}

static void test_many(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        for (uint32_t p = 0; p < N_POLICIES; p++) {
            wh_device *d = open_policy((wh_sim_policy)p, seed);
            claim_args a;
            uint64_t word = 0;
            uint32_t wrong = 0;
            a.word = take(d, 8);
            a.owner = take(d, 32 * 8);
            a.wrong = take(d, 4);
            const wh_launch l = grid(d, 4, 16);
            assert_int_equal(claim_often(&l, &a), WH_OK);
            assert_int_equal(wh_device_copy_out(d, &word, a.word, 8), WH_OK);
            assert_int_equal(wh_device_copy_out(d, &wrong, a.wrong, 4), WH_OK);
            assert_int_equal(wrong, 0);
            assert_int_equal(wh_use_free(word), UINT32_MAX);
            assert_true(wh_use_releases(word) > 0);
            (void)wh_device_free(d, a.word);
            (void)wh_device_free(d, a.owner);
            (void)wh_device_free(d, a.wrong);
            wh_device_close(d);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

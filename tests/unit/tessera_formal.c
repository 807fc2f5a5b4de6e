/* tessera_formal.c: a heap that is too small for those who use it, under the simulated device's
 * formal memory: what PTX allows at most. When quiet nothing is live and the heap is sound: a slab
 * whose slots a free has given back while others took it off its list is on the list again (I6). */
#include "unit/tessera_heap.h"

typedef struct work_args {
    wh_heap_ref heap;
    uint32_t rounds;
} work_args;

/* Sizes from 16 to 8192 bytes, each block given back at once. */
WH_KERNEL(take_and_give, work_args, a) {
    uint32_t random = wh_spread32((uint32_t)wh_thread_id()) + 1;
    for (uint32_t k = 0; k < a.rounds; k++) {
        random = random * 1664525u + 1013904223u;
        wh_free(a.heap, wh_malloc(a.heap, 16u << (random >> 28) % 10));
    }
}

static void test_listed_again(void **state) {
    const wh_sim_policy policies[] = {WH_SIM_RANDOM, WH_SIM_PCT};
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            wh_sim_options so;
            memset(&so, 0, sizeof so);
            so.seed = seed;
            so.policy = policies[i];
            so.weak = WH_SIM_WEAK_FORMAL;
            wh_device *d = open_with(&so);
            work_args a;
            wh_stats s;
            wh_report r;
            wh_heap *heap = make_heap_of(d, 0, 250000, 4, &a.heap);
            a.rounds = 8;
            const wh_launch l = grid(d, 8, 64);
            assert_int_equal(take_and_give(&l, &a), WH_OK);
            const wh_status verdict = wh_heap_check(heap, &r);
            if (verdict != WH_OK) {
                fail_msg("seed %llu, policy %s: I%llu is broken", (unsigned long long)seed,
                         policy_names[policies[i]], (unsigned long long)r.first_tag);
            }
            assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
            assert_int_equal(s.live_blocks, 0);
            assert_int_equal(s.bad_frees, 0);
            assert_int_equal(wh_heap_destroy(heap), WH_OK);
            wh_device_close(d);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_listed_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

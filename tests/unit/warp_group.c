/* warp_group.c: core/warp_group.h against a naive count, for random keys and masks, and the
 * example of its header comment. */
#include "sim/sim_test.h"

#include "warpheap/core/warp_group.h"

#define LANES 32u
#define ROUNDS 16u

typedef struct group_args {
    const uint64_t *keys;                 /* [round][lane of the grid] */
    const uint32_t *masks;                /* [round][warp]: the lanes that call together */
    wh_group *by_u32, *by_u64, *in_words; /* as keys */
    uint64_t *numbers;                    /* as keys: what the example hands out */
    uint32_t *ored;                       /* as keys: of 1 << lane */
    uint64_t *ored_u64;                   /* of 1 << 2 * lane */
    uint64_t *bits, *word_bits;           /* of place_of */
    uint32_t *twice;                      /* of place_of: lanes with the bit of another one */
    uint64_t *counters;                   /* by key */
    uint32_t n;                           /* lanes of the grid */
} group_args;

/* The bit of a lane: in even rounds those of a group are neighbours, in others they are anywhere,
 * and some are the same. Lanes with key 0 take no part. Rounds 9 and 10: as they would be in one
 * word, but for a gap, or for two words. */
WH_HD uint32_t place_of(uint32_t round, uint64_t key, uint32_t rank, uint32_t lane) {
    return round == 9       ? 2 * lane
           : round == 10    ? lane
           : round % 2 == 0 ? (uint32_t)key + rank
                            : (uint32_t)(key * 11 + lane * lane * 5) % 64;
}

WH_KERNEL(make_groups, group_args, a) {
    const uint32_t id = (uint32_t)wh_thread_id();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t mask = a.masks[round * (a.n / LANES) + id / LANES];
        const uint32_t k = round * a.n + id;
        if ((mask >> wh_lane_id() & 1) == 0) {
            continue;
        }
        a.by_u32[k] = wh_group_by_u32(mask, (uint32_t)a.keys[k]);
        a.by_u64[k] = wh_group_by_u64(mask, a.keys[k] << 40);
        a.ored[k] = wh_group_or_u32(mask, a.by_u32[k], 1u << wh_lane_id());
        const uint32_t most = wh_reduce_or_u32(mask, a.by_u32[k].n - 1);
        a.ored_u64[k] = wh_group_or_u64(mask, a.by_u32[k], (uint64_t)1 << (2 * wh_lane_id()), most);
        const wh_group g = a.by_u32[k];
        const uint32_t at = place_of(round, a.keys[k], g.rank, wh_lane_id());
        a.bits[k] = wh_group_bits_u64(mask, g, a.keys[k] != 0 ? at : 77, a.keys[k] != 0);
        a.in_words[k] = wh_group_in_words(mask, (uint32_t)a.keys[k], a.keys[k] != 0 ? at : 77,
                                          a.keys[k] != 0, &a.word_bits[k], &a.twice[k]);
        uint64_t first = 0;
        if (wh_group_leads(g)) {
            first = wh_fetch_add_u64_relaxed(&a.counters[a.keys[k]], g.n);
        }
        a.numbers[k] = wh_shfl_u64(mask, first, g.leader) + g.rank;
    }
}

static void check_group(const wh_group *g, const uint64_t *keys, uint32_t mask, uint32_t lane) {
    uint32_t lanes = 0, below = 0, n = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        if ((mask >> i & 1) && keys[i] == keys[lane]) {
            lanes |= 1u << i;
            below += i < lane;
            n++;
        }
    }
    assert_int_equal(g->lanes, lanes);
    assert_int_equal(g->rank, below);
    assert_int_equal(g->n, n);
    assert_int_equal(g->leader, __builtin_ctz(lanes));
    assert_int_equal(wh_group_leads(*g), below == 0);
}

static void test_groups(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_device *d = open_policy((wh_sim_policy)p, seed);
            const uint32_t n = 4 * LANES;
            uint64_t random = seed;
            group_args a;
            uint64_t *keys = take(d, (uint64_t)ROUNDS * n * 8);
            uint32_t *masks = take(d, (uint64_t)ROUNDS * n / LANES * 4);
            a.keys = keys;
            a.masks = masks;
            a.by_u32 = take(d, ROUNDS * n * sizeof(wh_group));
            a.by_u64 = take(d, ROUNDS * n * sizeof(wh_group));
            a.in_words = take(d, ROUNDS * n * sizeof(wh_group));
            a.numbers = take(d, (uint64_t)ROUNDS * n * 8);
            a.ored = take(d, (uint64_t)ROUNDS * n * 4);
            a.ored_u64 = take(d, (uint64_t)ROUNDS * n * 8);
            a.bits = take(d, (uint64_t)ROUNDS * n * 8);
            a.word_bits = take(d, (uint64_t)ROUNDS * n * 8);
            a.twice = take(d, (uint64_t)ROUNDS * n * 4);
            a.counters = take(d, 64 * 8);
            a.n = n;
            for (uint32_t i = 0; i < ROUNDS * n; i++) {
                const uint32_t round = i / n;
                keys[i] = round == 8    ? 3 /* all lanes */
                          : round == 9  ? i / LANES % 2 * 3
                          : round == 10 ? 1 + i % LANES / 16
                                        : next_random(&random) % (1 + round % 8 * 4);
            }
            for (uint32_t i = 0; i < ROUNDS * n / LANES; i++) {
                const uint32_t r = (uint32_t)next_random(&random);
                masks[i] = i % 4 == 0   ? ~0u
                           : i % 4 == 1 ? r
                           : i % 4 == 2 ? 1u << r % 32
                                        : r & r >> 7;
            }
            const wh_launch l = grid(d, 2, n / 2);
            if (make_groups(&l, &a) != WH_OK) {
                fail_msg("%s", wh_device_error_text(d));
            }
            uint8_t seen[64][ROUNDS * 4 * LANES];
            memset(seen, 0, sizeof seen);
            for (uint32_t i = 0; i < ROUNDS * n; i++) {
                const uint32_t mask = masks[i / LANES], lane = i % LANES;
                if ((mask >> lane & 1) == 0) {
                    continue;
                }
                check_group(&a.by_u32[i], keys + i - lane, mask, lane);
                check_group(&a.by_u64[i], keys + i - lane, mask, lane);
                check_group(&a.in_words[i], keys + i - lane, mask, lane);
                if (wh_group_leads(a.by_u32[i])) {
                    uint64_t each = 0, places = 0;
                    uint32_t rank = 0;
                    for (uint32_t m = a.by_u32[i].lanes; m != 0; m &= m - 1, rank++) {
                        const uint32_t other = (uint32_t)__builtin_ctz(m);
                        each |= (uint64_t)1 << (2 * other);
                        places |= (uint64_t)1 << place_of(i / n, keys[i], rank, other);
                    }
                    assert_true(keys[i] == 0 || a.bits[i] == places);
                    assert_true(keys[i] == 0 || a.word_bits[i] == places);
                    assert_true(keys[i] == 0 ||
                                a.twice[i] + (uint32_t)__builtin_popcountll(places) == rank);
                    assert_int_equal(a.ored[i], a.by_u32[i].lanes);
                    assert_int_equal(a.ored_u64[i], each);
                }
                assert_int_equal(a.ored[i] & ~a.by_u32[i].lanes, 0);
                assert_true(a.numbers[i] < a.counters[keys[i]]);
                assert_int_equal(seen[keys[i]][a.numbers[i]]++, 0); /* handed out once */
            }
            wh_device_close(d);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

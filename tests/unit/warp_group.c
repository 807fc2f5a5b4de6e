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
    if (round == 9 || round == 10) {
        return round == 9 ? 2 * lane : lane;
    }
    return round % 2 == 0 ? (uint32_t)key + rank : (uint32_t)(key * 11 + lane * lane * 5) % 64;
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

#define N (4 * LANES) /* lanes of the grid */
#define ALL (ROUNDS * N)

static uint64_t some_key(uint32_t i, uint64_t *random) {
    switch (i / N) {
    case 8:
        return 3; /* all lanes */
    case 9:
        return i / LANES % 2 * 3;
    case 10:
        return 1 + i % LANES / 16;
    default:
        return next_random(random) % (1 + i / N % 8 * 4);
    }
}

static uint32_t some_mask(uint32_t i, uint64_t *random) {
    const uint32_t r = (uint32_t)next_random(random);
    const uint32_t masks[] = {WH_FULL_WARP, r, 1u << r % 32, r & r >> 7};
    return masks[i % 4];
}

static void make_arrays(group_args *a, wh_device *d, uint64_t random) {
    uint64_t *keys = take(d, ALL * 8);
    uint32_t *masks = take(d, ALL / LANES * 4);
    for (uint32_t i = 0; i < ALL; i++) {
        keys[i] = some_key(i, &random);
    }
    for (uint32_t i = 0; i < ALL / LANES; i++) {
        masks[i] = some_mask(i, &random);
    }
    a->keys = keys;
    a->masks = masks;
    a->by_u32 = take(d, ALL * sizeof(wh_group));
    a->by_u64 = take(d, ALL * sizeof(wh_group));
    a->in_words = take(d, ALL * sizeof(wh_group));
    a->numbers = take(d, ALL * 8);
    a->ored = take(d, ALL * 4);
    a->ored_u64 = take(d, ALL * 8);
    a->bits = take(d, ALL * 8);
    a->word_bits = take(d, ALL * 8);
    a->twice = take(d, ALL * 4);
    a->counters = take(d, 64 * 8);
    a->n = N;
}

/* What the leader of a group has of all its lanes. */
static void check_leader(const group_args *a, uint32_t i) {
    uint64_t each = 0, places = 0;
    uint32_t rank = 0;
    for (uint32_t m = a->by_u32[i].lanes; m != 0; m &= m - 1, rank++) {
        const uint32_t other = (uint32_t)__builtin_ctz(m);
        each |= (uint64_t)1 << (2 * other);
        places |= (uint64_t)1 << place_of(i / N, a->keys[i], rank, other);
    }
    if (a->keys[i] != 0) {
        assert_true(a->bits[i] == places && a->word_bits[i] == places);
        assert_int_equal(a->twice[i] + (uint32_t)__builtin_popcountll(places), rank);
    }
    assert_int_equal(a->ored[i], a->by_u32[i].lanes);
    assert_int_equal(a->ored_u64[i], each);
}

static void check_all(const group_args *a) {
    static uint8_t seen[64][ALL];
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < ALL; i++) {
        const uint32_t mask = a->masks[i / LANES], lane = i % LANES;
        if ((mask >> lane & 1) == 0) {
            continue;
        }
        check_group(&a->by_u32[i], a->keys + i - lane, mask, lane);
        check_group(&a->by_u64[i], a->keys + i - lane, mask, lane);
        check_group(&a->in_words[i], a->keys + i - lane, mask, lane);
        if (wh_group_leads(a->by_u32[i])) {
            check_leader(a, i);
        }
        assert_int_equal(a->ored[i] & ~a->by_u32[i].lanes, 0);
        assert_true(a->numbers[i] < a->counters[a->keys[i]]);
        assert_int_equal(seen[a->keys[i]][a->numbers[i]]++, 0); /* handed out once */
    }
}

static void test_groups(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_device *d = open_policy((wh_sim_policy)p, seed);
            group_args a;
            make_arrays(&a, d, seed);
            const wh_launch l = grid(d, 2, N / 2);
            if (make_groups(&l, &a) != WH_OK) {
                fail_msg("%s", wh_device_error_text(d));
            }
            check_all(&a);
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

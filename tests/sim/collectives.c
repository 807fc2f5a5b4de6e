/* collectives.c: every collective against a naive model, with random masks and values;
 * every misuse ends the launch with its message and leaves the device usable. */
#include "sim_test.h"

/* --- a naive model ------------------------------------------------------------------- */

typedef enum op {
    OP_BALLOT,
    OP_ANY,
    OP_ALL,
    OP_SHFL32,
    OP_SHFL64,
    OP_MATCH32,
    OP_MATCH64,
    OP_ADD,
    OP_MAX,
    OP_OR,
    OP_SYNC,
    N_OPS
} op;

/* One row per lane: which collectives it makes, with which mask and values. */
typedef struct call {
    uint32_t mask;
    uint32_t source;
    uint64_t value;
    uint64_t result;
} call;

#define ROUNDS 12u

typedef struct model_args {
    call *calls;  /* [round][lane of the grid] */
    uint8_t *ops; /* [round][warp] */
    uint32_t lanes;
} model_args;

WH_FN uint64_t perform(uint32_t which, wh_mask mask, uint64_t v, uint32_t source) {
    switch (which) {
    case OP_BALLOT:
        return wh_ballot(mask, (int)(v & 1));
    case OP_ANY:
        return wh_any(mask, (int)(v & 1)) != 0;
    case OP_ALL:
        return wh_all(mask, (int)(v & 1)) != 0;
    case OP_SHFL32:
        return wh_shfl_u32(mask, (uint32_t)v, source);
    case OP_SHFL64:
        return wh_shfl_u64(mask, v, source);
    case OP_MATCH32:
        return wh_match_any_u32(mask, (uint32_t)v % 4);
    case OP_MATCH64:
        return wh_match_any_u64(mask, v % 4 << 40);
    case OP_ADD:
        return wh_reduce_add_u32(mask, (uint32_t)v);
    case OP_MAX:
        return wh_reduce_max_u32(mask, (uint32_t)v);
    case OP_OR:
        return wh_reduce_or_u32(mask, (uint32_t)v);
    default:
        wh_syncwarp(mask);
        return 0;
    }
}

static uint64_t expected(uint32_t which, const call *warp, uint32_t mask, uint32_t lane) {
    uint64_t r = which == OP_ALL;
    for (uint32_t i = 0; i < 32; i++) {
        if ((mask >> i & 1) == 0) {
            continue;
        }
        const uint64_t v = warp[i].value;
        switch (which) {
        case OP_BALLOT:
            r |= (v & 1) << i;
            break;
        case OP_ANY:
            r |= v & 1;
            break;
        case OP_ALL:
            r &= v & 1;
            break;
        case OP_SHFL32:
            r = i == warp[lane].source ? (uint32_t)v : r;
            break;
        case OP_SHFL64:
            r = i == warp[lane].source ? v : r;
            break;
        case OP_MATCH32:
        case OP_MATCH64: {
            const uint64_t own = warp[lane].value;
            const int same =
                which == OP_MATCH32 ? (uint32_t)v % 4 == (uint32_t)own % 4 : v % 4 == own % 4;
            r |= (uint64_t)same << i;
            break;
        }
        case OP_ADD:
            r = (uint32_t)(r + v);
            break;
        case OP_MAX:
            r = (uint32_t)v > r ? (uint32_t)v : r;
            break;
        case OP_OR:
            r |= (uint32_t)v;
            break;
        default:
            break;
        }
    }
    return r;
}

WH_KERNEL(run_calls, model_args, a) {
    const uint32_t id = (uint32_t)wh_thread_id();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        call *c = &a.calls[round * a.lanes + id];
        c->result = perform(a.ops[round], c->mask, c->value, c->source);
    }
}

/* Splits the lanes of a warp into random groups, as divergent code would. */
static void fill_warp(call *warp, uint32_t lanes, uint64_t *random) {
    const uint32_t parts = 1u << next_random(random) % 4;
    uint32_t masks[8] = {0}, part[32];
    for (uint32_t i = 0; i < lanes; i++) {
        part[i] = (uint32_t)(next_random(random) % parts);
        masks[part[i]] |= 1u << i;
    }
    for (uint32_t i = 0; i < lanes; i++) {
        warp[i].mask = masks[part[i]];
        warp[i].value = next_random(random);
        do {
            warp[i].source = (uint32_t)(next_random(random) % 32);
        } while ((warp[i].mask >> warp[i].source & 1) == 0);
    }
}

static void check_model(wh_sim_policy policy, uint64_t seed, uint32_t threads) {
    wh_device *d = open_policy(policy, seed);
    const uint32_t blocks = 2, lanes = blocks * threads;
    uint64_t random = seed * 100 + threads;
    model_args a = {take(d, sizeof(call) * ROUNDS * lanes), take(d, ROUNDS), lanes};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        a.ops[round] = (uint8_t)(next_random(&random) % N_OPS);
        for (uint32_t b = 0; b < blocks; b++) {
            for (uint32_t t = 0; t < threads; t += 32) {
                fill_warp(&a.calls[round * lanes + b * threads + t],
                          threads - t < 32 ? threads - t : 32, &random);
            }
        }
    }
    const wh_launch l = grid(d, blocks, threads);
    assert_int_equal(run_calls(&l, &a), WH_OK);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < lanes; i++) {
            const uint32_t lane = i % threads % 32;
            const call *warp = &a.calls[round * lanes + i - lane];
            assert_true(warp[lane].result == expected(a.ops[round], warp, warp[lane].mask, lane));
        }
    }
    wh_device_close(d);
}

static void test_against_model(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            check_model((wh_sim_policy)p, seed, 32);
            check_model((wh_sim_policy)p, seed, 77);
        }
    }
    check_model(WH_SIM_RANDOM, 1, 1024);
    check_model(WH_SIM_ROUND_ROBIN, 1, 1024);
}

/* --- the block barrier ------------------------------------------------------------------ */

typedef struct barrier_args {
    uint32_t *arrived; /* [block][phase] */
    uint32_t *bad;
} barrier_args;

/* Lanes leave one after another; who has left is no longer awaited. */
WH_KERNEL(barrier_phases, barrier_args, a) {
    uint32_t *arrived = a.arrived + wh_block_id() * 8;
    const uint32_t n = wh_block_threads();
    for (uint32_t phase = 0; phase < 8; phase++) {
        if (wh_thread_in_block() % 9 < phase) {
            return;
        }
        wh_add_u32_relaxed(&arrived[phase], 1);
        wh_syncthreads();
        uint32_t expect = 0;
        for (uint32_t t = 0; t < n; t++) {
            expect += t % 9 >= phase;
        }
        if (wh_load_u32_relaxed(&arrived[phase]) != expect) {
            wh_add_u32_relaxed(a.bad, 1);
        }
    }
}

static void test_syncthreads(void **state) {
    (void)state;
    static const uint32_t threads[] = {1, 5, 32, 45, 300, 1024};
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        wh_device *d = open_policy((wh_sim_policy)p, 11);
        for (uint32_t i = 0; i < 6; i++) {
            barrier_args a = {take(d, 4 * 8 * 9), take(d, 4)};
            const wh_launch l = grid(d, 9, threads[i]);
            assert_int_equal(barrier_phases(&l, &a), WH_OK);
            assert_int_equal(*a.bad, 0);
        }
        wh_device_close(d);
    }
}

/* --- wh_activemask ---------------------------------------------------------------------- */

typedef struct active_args {
    uint32_t *masks; /* [round][lane of the grid] */
    uint32_t *full;
    uint32_t lanes, divergent;
} active_args;

/* Each mask is used for a ballot, which fails the launch if its lanes did not all get
 * it at this call. */
WH_KERNEL(active_rounds, active_args, a) {
    const uint32_t id = (uint32_t)wh_thread_id();
    const uint32_t lane = wh_lane_id();
    for (uint32_t round = 0; round < 10; round++) {
        uint32_t mask;
        if (a.divergent && (lane + round) % 3 == 0) {
            mask = wh_activemask();
            (void)wh_ballot(mask, 1);
        } else {
            if (a.divergent && lane % 5 == round % 5) {
                wh_backoff(0);
            }
            mask = wh_activemask();
            (void)wh_ballot(mask, 1);
        }
        a.masks[round * a.lanes + id] = mask;
        if (mask == ~0u) {
            wh_add_u32_relaxed(a.full, 1);
        }
        if (a.divergent && lane == round) {
            return;
        }
    }
}

/* Every lane is in its mask, only lanes that can be there are, and lanes at the other
 * call site are not. */
static void check_active(wh_sim_policy policy, uint64_t seed, uint32_t threads, uint32_t divergent,
                         uint32_t *distinct) {
    wh_device *d = open_policy(policy, seed);
    active_args a = {take(d, 4u * 10 * threads), take(d, 4), threads, divergent};
    const wh_launch l = grid(d, 1, threads);
    assert_int_equal(active_rounds(&l, &a), WH_OK);
    uint32_t seen_partial = 0, seen_group = 0;
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < threads; i++) {
            const uint32_t mask = a.masks[round * threads + i], lane = i % 32;
            if (divergent && lane < round) {
                assert_int_equal(mask, 0); /* has returned */
                continue;
            }
            assert_true(mask >> lane & 1);
            const uint32_t warp_lanes = threads - (i - lane) < 32 ? threads - (i - lane) : 32;
            assert_int_equal((uint64_t)mask >> warp_lanes, 0);
            seen_partial += mask != ~0u;
            seen_group += (mask & (mask - 1)) != 0;
        }
    }
    if (policy == WH_SIM_ROUND_ROBIN && !divergent && threads % 32 == 0) {
        assert_int_equal(seen_partial, 0); /* uniform code is converged */
        assert_int_equal(*a.full, 10 * threads);
    }
    *distinct |=
        (seen_partial != 0 ? 1u : 0u) | (seen_group != 0 ? 2u : 0u) | (*a.full != 0 ? 4u : 0u);
    wh_device_close(d);
}

static void test_activemask(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        uint32_t seen = 0;
        for (uint64_t seed = 0; seed < n_seeds() + 3; seed++) {
            uint32_t ignored = 0;
            check_active((wh_sim_policy)p, seed, 64, 0, &seen);
            check_active((wh_sim_policy)p, seed, 64, 1, &ignored);
            check_active((wh_sim_policy)p, seed, 45, 1, &ignored);
            check_active((wh_sim_policy)p, seed, 7, 0, &ignored);
        }
        if (p != WH_SIM_ROUND_ROBIN) { /* single lanes, groups, and full warps all occur */
            assert_true((seen & 3) == 3);
        }
    }
}

typedef struct merge_args {
    uint32_t *groups;
} merge_args;

/* Round robin brings lanes together again after a branch of a few steps. */
WH_KERNEL(branch_and_meet, merge_args, a) {
    const uint32_t lane = wh_lane_id();
    if (lane < 5) {
        for (uint32_t i = 0; i < 5; i++) {
            (void)wh_load_u32_relaxed(&a.groups[1]);
        }
    }
    const uint32_t mask = wh_activemask();
    if (lane == wh_mask_leader(mask)) {
        wh_add_u32_relaxed(&a.groups[0], 1);
    }
}

static void test_round_robin_converges(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    merge_args a = {take(d, 8)};
    const wh_launch l = grid(d, 1, 256);
    assert_int_equal(branch_and_meet(&l, &a), WH_OK);
    assert_int_equal(a.groups[0], 8);
    wh_device_close(d);
}

/* --- misuse ------------------------------------------------------------------------------- */

typedef struct misuse_args {
    uint32_t kind;
    uint32_t *word;
} misuse_args;

enum {
    DIFFERING_MASKS,
    DIFFERENT_OPS,
    EXITED_BEFORE,
    EXITED_LATER,
    NOT_IN_MASK,
    NO_SUCH_LANE,
    BARRIER_THEN_WARP,
    WARP_THEN_BARRIER,
    DEADLOCK,
    TRAP,
    N_MISUSES
};

WH_FN void give_way(uint32_t times) {
    for (uint32_t i = 0; i < times; i++) {
        wh_backoff(0);
    }
}

/* Lane 0 and the others do different things; the kind says who comes first. */
WH_FN void warp_and_barrier(uint32_t lane, uint32_t kind) {
    if ((lane == 0) == (kind == WARP_THEN_BARRIER)) {
        give_way(kind == BARRIER_THEN_WARP ? 1000 : 0);
        (void)wh_ballot(lane == 0 ? 3u : ~1u | 1u, 1);
    } else {
        give_way(kind == WARP_THEN_BARRIER ? 1000 : 0);
        wh_syncthreads();
    }
}

WH_KERNEL(misuse, misuse_args, a) {
    const uint32_t lane = wh_lane_id();
    if (wh_block_id() != 1) {
        return;
    }
    switch (a.kind) {
    case DIFFERING_MASKS:
        (void)wh_ballot(lane == 3 ? 0x0fu : ~0u, 1);
        break;
    case DIFFERENT_OPS:
        if (lane == 4) {
            (void)wh_any(~0u, 1);
        } else {
            (void)wh_ballot(~0u, 1);
        }
        break;
    case EXITED_BEFORE:
        if (lane == 9) {
            return;
        }
        while (wh_load_u32_relaxed(a.word) < 200) {
            wh_add_u32_relaxed(a.word, 1);
        }
        (void)wh_shfl_u32(~0u, 1, 0);
        break;
    case EXITED_LATER:
        if (lane == 9) {
            while (wh_load_u32_relaxed(a.word) < 31) {
                wh_backoff(0);
            }
            give_way(5000);
            return;
        }
        wh_add_u32_relaxed(a.word, 1);
        (void)wh_match_any_u64(~0u, 1);
        break;
    case NOT_IN_MASK:
        wh_syncwarp(lane == 2 ? ~4u : 1u << lane);
        break;
    case NO_SUCH_LANE:
        (void)wh_ballot(~0u, 1);
        break;
    case BARRIER_THEN_WARP:
    case WARP_THEN_BARRIER:
        warp_and_barrier(lane, a.kind);
        break;
    case DEADLOCK: /* a ring: each pair waits for the next one */
        if (lane < 3) {
            (void)wh_ballot(lane == 2 ? 5u : 3u << lane, 1);
        }
        break;
    default:
        if (lane == 6) {
            wh_trap("six is not allowed");
        }
        wh_syncthreads();
        break;
    }
}

typedef struct ok_args {
    uint32_t *word;
} ok_args;

WH_KERNEL(still_works, ok_args, a) {
    const uint32_t sum = wh_reduce_add_u32(~0u, 1);
    wh_syncthreads();
    wh_add_u32_relaxed(a.word, sum);
}

static void test_misuse(void **state) {
    (void)state;
    static const char *const texts[N_MISUSES][3] = {
        {"differing masks", "wh_ballot at collectives.c:", "mask 0x0000000f"},
        {"different operations", "wh_any", "wh_ballot at collectives.c:"},
        {"names lane 9", "wh_shfl_u32 at collectives.c:", "has exited"},
        {"names lane 9", "wh_match_any_u64 at collectives.c:", "has exited"},
        {"wh_syncwarp at collectives.c:", "the calling lane is not in its own mask 0xfffffffb",
         "lane 2"},
        {"wh_ballot at collectives.c:", "names lane 20", "has only 20 lanes"},
        {"different operations", "wh_ballot at collectives.c:", "waits in wh_syncthreads at"},
        {"different operations", "wh_syncthreads at collectives.c:", "waits in wh_ballot at"},
        {"deadlock", "wh_ballot at collectives.c:", "mask 0x00000003"},
        {"wh_trap at collectives.c:", "six is not allowed", "lane 6"},
    };
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint32_t kind = 0; kind < N_MISUSES; kind++) {
            for (uint64_t seed = 0; seed < n_seeds(); seed++) {
                wh_device *d = open_policy((wh_sim_policy)p, seed);
                misuse_args a = {kind, take(d, 4)};
                const uint32_t threads = kind == NO_SUCH_LANE ? 20 : 32;
                const wh_launch l = grid(d, 5, threads);
                assert_int_equal(misuse(&l, &a), WH_DEVICE_ERROR);
                const char *text = wh_device_error_text(d);
                for (uint32_t i = 0; i < 3; i++) {
                    if (strstr(text, texts[kind][i]) == NULL) {
                        fail_msg("%s misuse %u: '%s' lacks '%s'", policy_names[p], kind, text,
                                 texts[kind][i]);
                    }
                }
                assert_non_null(strstr(text, "kernel misuse"));
                assert_non_null(strstr(text, "block 1"));
                char replay[64];
                (void)snprintf(replay, sizeof replay, "WH_SIM=seed=%u,policy=%s", (unsigned)seed,
                               policy_names[p]);
                assert_non_null(strstr(text, replay));
                assert_int_equal(wh_device_sync(d), WH_OK); /* the launch has told it */

                ok_args ok = {take(d, 4)};
                const wh_launch again = grid(d, 3, 64);
                assert_int_equal(still_works(&again, &ok), WH_OK);
                assert_int_equal(*ok.word, 3 * 64 * 32);
                assert_int_equal(wh_device_sync(d), WH_OK);
                wh_device_close(d);
            }
        }
    }
}

/* Legal in CUDA, and so no misuse here: a lane of the mask first meets others; equal
 * calls from different lines; a shuffle whose source is not in the mask. */
typedef struct legal_args {
    uint32_t *out;
} legal_args;

WH_KERNEL(legal, legal_args, a) {
    const uint32_t lane = wh_lane_id();
    uint32_t got = 0;
    if (lane == 1 || lane == 2) {
        got = wh_ballot(6, lane == 2);
    }
    if (lane < 2) {
        got += wh_ballot(3, 1);
    }
    if (lane % 2 == 0) {
        got += wh_ballot(~0u, 1);
    } else {
        got += wh_ballot(~0u, 1);
    }
    (void)wh_shfl_u32(1u << lane, got, lane + 1);
    a.out[lane] = got;
}

static void test_legal(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_device *d = open_policy((wh_sim_policy)p, seed);
            legal_args a = {take(d, 128)};
            const wh_launch l = grid(d, 1, 32);
            assert_int_equal(legal(&l, &a), WH_OK);
            assert_int_equal(a.out[0], 2);     /* 3 + ~0 */
            assert_int_equal(a.out[1], 4 + 2); /* 4 + 3 + ~0 */
            assert_int_equal(a.out[2], 3);     /* 4 + ~0 */
            assert_int_equal(a.out[3], ~0u);
            wh_device_close(d);
        }
    }
}

/* --- sums over a full warp --------------------------------------------------------------- */

WH_KERNEL(scan, ok_args, a) {
    const uint32_t lane = wh_lane_id();
    a.word[lane] = wh_scan_add_warp_u32(lane % 3 == 1 ? 0 : 0x30000001u * (lane + 5));
}

static void test_scan(void **state) {
    (void)state;
    ok_args a;
    wh_device *device = open_policy(WH_SIM_RANDOM, 7);
    uint32_t *words = take(device, 32 * sizeof *words), sum = 0;
    a.word = words;
    const wh_launch one = grid(device, 1, 32);
    assert_int_equal(scan(&one, &a), WH_OK);
    for (uint32_t i = 0; i < 32; i++) { /* modulo 2^32 */
        sum += i % 3 == 1 ? 0 : 0x30000001u * (i + 5);
        assert_int_equal(words[i], sum);
    }
    wh_device_close(device);
}

/* --- device functions called by the host --------------------------------------------------- */

static void test_on_host(void **state) {
    (void)state;
    uint32_t word = 5;
    assert_int_equal(wh_activemask(), 1);
    assert_int_equal(wh_ballot(1, 7), 1);
    assert_int_equal(wh_reduce_max_u32(1, 9), 9);
    assert_int_equal(wh_match_any_u64(1, 3), 1);
    assert_int_equal(wh_fetch_add_u32_acq_rel(&word, 1), 5);
    assert_int_equal(wh_thread_id(), 0);
    assert_int_equal(wh_grid_threads(), 1);
    wh_syncthreads();
    wh_syncwarp(1);
    wh_backoff(3);
    assert_int_equal(word, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_model), cmocka_unit_test(test_syncthreads),
        cmocka_unit_test(test_activemask),    cmocka_unit_test(test_round_robin_converges),
        cmocka_unit_test(test_misuse),        cmocka_unit_test(test_legal),
        cmocka_unit_test(test_scan),          cmocka_unit_test(test_on_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

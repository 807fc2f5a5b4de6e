/* atomics.c: every atomic operation, width and order against plain arithmetic, first one
 * at a time, then under contention; counting, planted faults and bit helpers. */
#include "sim_test.h"

/* X(name, expression of the new value from x (old) and v) */
#define RMW_OPS(X)              \
    X(fetch_add, x + v)         \
    X(fetch_sub, x - v)         \
    X(fetch_and, x &v)          \
    X(fetch_or, x | v)          \
    X(fetch_xor, x ^ v)         \
    X(fetch_min, x < v ? x : v) \
    X(fetch_max, x > v ? x : v) \
    X(exchange, v)
#define RED_OPS(X) \
    X(add, x + v)  \
    X(and, x &v)   \
    X(or, x | v)

typedef struct one_args {
    uint64_t *p; /* [0] value, [1] errors */
    uint64_t x, v;
} one_args;

WH_FN void expect(one_args *a, int good) {
    a->p[1] += !good;
}

#define CHECK_RMW_(w, order, name, result)                            \
    {                                                                 \
        const uint##w##_t x = (uint##w##_t)a.x, v = (uint##w##_t)a.v; \
        *p = x;                                                       \
        expect(&a, wh_##name##_u##w##_##order(p, v) == x);            \
        expect(&a, *p == (uint##w##_t)(result));                      \
    }
#define CHECK_RED_(w, order, name, result)                            \
    {                                                                 \
        const uint##w##_t x = (uint##w##_t)a.x, v = (uint##w##_t)a.v; \
        *p = x;                                                       \
        wh_##name##_u##w##_##order(p, v);                             \
        expect(&a, *p == (uint##w##_t)(result));                      \
    }
#define CHECK_CAS_(w, order)                                                           \
    {                                                                                  \
        const uint##w##_t x = (uint##w##_t)a.x, v = (uint##w##_t)a.v;                  \
        *p = x;                                                                        \
        expect(&a, wh_cas_u##w##_##order(p, x, v) == x && *p == v);                    \
        *p = x;                                                                        \
        expect(&a, wh_cas_u##w##_##order(p, (uint##w##_t)(x + 1), v) == x && *p == x); \
    }
#define RMW32_relaxed(name, result) CHECK_RMW_(32, relaxed, name, result)
#define RMW32_acquire(name, result) CHECK_RMW_(32, acquire, name, result)
#define RMW32_release(name, result) CHECK_RMW_(32, release, name, result)
#define RMW32_acq_rel(name, result) CHECK_RMW_(32, acq_rel, name, result)
#define RMW64_relaxed(name, result) CHECK_RMW_(64, relaxed, name, result)
#define RMW64_acquire(name, result) CHECK_RMW_(64, acquire, name, result)
#define RMW64_release(name, result) CHECK_RMW_(64, release, name, result)
#define RMW64_acq_rel(name, result) CHECK_RMW_(64, acq_rel, name, result)
#define RED32_relaxed(name, result) CHECK_RED_(32, relaxed, name, result)
#define RED32_release(name, result) CHECK_RED_(32, release, name, result)
#define RED64_relaxed(name, result) CHECK_RED_(64, relaxed, name, result)
#define RED64_release(name, result) CHECK_RED_(64, release, name, result)

#define CHECK_WIDTH_(w)                                            \
    WH_KERNEL(check_u##w, one_args, args) {                        \
        one_args a = args;                                         \
        uint##w##_t *p = (uint##w##_t *)a.p;                       \
        RMW_OPS(RMW##w##_relaxed)                                  \
        RMW_OPS(RMW##w##_acquire)                                  \
        RMW_OPS(RMW##w##_release)                                  \
        RMW_OPS(RMW##w##_acq_rel)                                  \
        RED_OPS(RED##w##_relaxed)                                  \
        RED_OPS(RED##w##_release)                                  \
        CHECK_CAS_(w, relaxed)                                     \
        CHECK_CAS_(w, acquire)                                     \
        CHECK_CAS_(w, release)                                     \
        CHECK_CAS_(w, acq_rel)                                     \
        wh_store_u##w##_relaxed(p, (uint##w##_t)a.v);              \
        expect(&a, wh_load_u##w##_relaxed(p) == (uint##w##_t)a.v); \
        wh_store_u##w##_release(p, (uint##w##_t)a.x);              \
        expect(&a, wh_load_u##w##_acquire(p) == (uint##w##_t)a.x); \
    }
CHECK_WIDTH_(32)
CHECK_WIDTH_(64)

/* 32 read-modify-writes, 6 without a result, 4 x 2 compare-and-swaps, 4 loads and stores */
#define ATOMICS_IN_CHECK (32u + 6u + 8u + 4u)

static void test_one_at_a_time(void **state) {
    (void)state;
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     UINT64_MAX / 2,
                                     UINT64_MAX / 2 + 1,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
    const uint32_t n = sizeof edges / sizeof edges[0];
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    uint64_t random = 3, *p = take(d, 16), launches = 0;
    const wh_launch l = grid(d, 1, 1);
    for (uint32_t i = 0; i < n * n + 100; i++) {
        one_args a = {p, edges[i / n % n], edges[i % n]};
        if (i >= n * n) {
            a.x = next_random(&random);
            a.v = next_random(&random);
        }
        assert_int_equal(check_u32(&l, &a), WH_OK);
        assert_int_equal(p[1], 0);
        assert_int_equal(check_u64(&l, &a), WH_OK);
        assert_int_equal(p[1], 0);
        launches += 2;
    }
    wh_device_counters c;
    assert_int_equal(wh_device_get_counters(d, &c), WH_OK);
    assert_int_equal(c.atomics, launches * ATOMICS_IN_CHECK);
    assert_int_equal(c.steps, launches * ATOMICS_IN_CHECK);
    wh_device_close(d);
}

/* --- an operand that ends with its operation ------------------------------------------------ */

/* Gathers bits, hands them over at every fourth turn and starts again from zero. After the
 * operation a compiler knows the old value for the new start, and may give the two one register
 * with the operand. */
#define GATHER_(w, name)                                                               \
    WH_FN_SLOW void gather_##name##_u##w(uint##w##_t *p, uint32_t *used, uint32_t n) { \
        uint##w##_t bits = 0;                                                          \
        for (uint32_t i = 0; i < n; i++) {                                             \
            bits |= (uint##w##_t)(*used == 0) << (i & 31);                             \
            if ((i & 3) == 3) {                                                        \
                if (bits != 0) {                                                       \
                    const uint##w##_t old = wh_##name##_u##w##_acq_rel(p, bits);       \
                    if (old == 0) {                                                    \
                        wh_add_u32_relaxed(used, 8);                                   \
                    }                                                                  \
                }                                                                      \
                bits = 0;                                                              \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    WH_FN void check_##name##_u##w(uint##w##_t from, uint##w##_t want) {               \
        uint##w##_t word = from;                                                       \
        uint32_t used = 0;                                                             \
        gather_##name##_u##w(&word, &used, 4);                                         \
        assert_int_equal(word, want);                                                  \
        assert_int_equal(used, from == 0 ? 8 : 0);                                     \
    }
GATHER_(32, fetch_or)
GATHER_(64, fetch_or)
GATHER_(32, fetch_and)
GATHER_(64, fetch_and)
GATHER_(32, fetch_xor)
GATHER_(64, fetch_xor)

static void test_last_use(void **state) {
    (void)state;
    check_fetch_or_u32(0, 0xf);
    check_fetch_or_u64(0, 0xf);
    check_fetch_and_u32(0x3c, 0xc);
    check_fetch_and_u64(0x3c, 0xc);
    check_fetch_xor_u32(0x3c, 0x33);
    check_fetch_xor_u64(0x3c, 0x33);
}

/* --- together ------------------------------------------------------------------------ */

typedef struct many_args {
    uint32_t *u32; /* sum, and, or, xor, min, max */
    uint64_t *u64;
    uint32_t *tickets; /* which old values fetch_add gave */
    uint64_t *chain;   /* exchange: every value is seen exactly once */
    uint32_t *seen;
} many_args;

WH_KERNEL(together, many_args, a) {
    const uint32_t id = (uint32_t)wh_thread_id();
    const uint64_t wide = (uint64_t)id << 33 | id;
    wh_add_u32_relaxed(&a.u32[0], id);
    wh_and_u32_release(&a.u32[1], ~(1u << id % 32));
    wh_or_u32_relaxed(&a.u32[2], 1u << id % 32);
    (void)wh_fetch_xor_u32_acq_rel(&a.u32[3], id);
    (void)wh_fetch_min_u32_relaxed(&a.u32[4], id + 7);
    (void)wh_fetch_max_u32_relaxed(&a.u32[5], id);
    wh_add_u64_release(&a.u64[0], wide);
    wh_and_u64_relaxed(&a.u64[1], ~((uint64_t)1 << id % 64));
    wh_or_u64_release(&a.u64[2], (uint64_t)1 << id % 64);
    (void)wh_fetch_xor_u64_relaxed(&a.u64[3], wide);
    (void)wh_fetch_min_u64_acquire(&a.u64[4], wide + 7);
    (void)wh_fetch_max_u64_release(&a.u64[5], wide);
    a.tickets[wh_fetch_add_u32_relaxed(&a.u32[6], 1)] += 1;
    wh_add_u32_relaxed(&a.seen[wh_exchange_u64_acq_rel(a.chain, id + 1)], 1);
    uint32_t old = wh_load_u32_relaxed(&a.u32[7]), got;
    while ((got = wh_cas_u32_relaxed(&a.u32[7], old, old + 3)) != old) {
        old = got;
    }
}

static void test_contention(void **state) {
    (void)state;
    enum { BLOCKS = 7, THREADS = 96, LANES = BLOCKS * THREADS };
    for (uint32_t run = 0; run < N_POLICIES * 2; run++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)(run % N_POLICIES);
        o.workers = run >= N_POLICIES ? 4 : 1;
        for (o.seed = 0; o.seed < n_seeds(); o.seed++) {
            wh_device *d = open_with(&o);
            many_args a = {take(d, 64), take(d, 64), take(d, 4 * LANES), take(d, 8),
                           take(d, 4 * (LANES + 1))};
            a.u32[1] = a.u32[4] = ~0u;
            a.u64[1] = a.u64[4] = UINT64_MAX;
            const wh_launch l = grid(d, BLOCKS, THREADS);
            assert_int_equal(together(&l, &a), WH_OK);
            uint32_t sum = 0, xor32 = 0;
            uint64_t sum64 = 0, xor64 = 0;
            for (uint32_t i = 0; i < LANES; i++) {
                const uint64_t wide = (uint64_t)i << 33 | i;
                sum += i;
                xor32 ^= i;
                sum64 += wide;
                xor64 ^= wide;
                assert_int_equal(a.tickets[i], 1);
                assert_int_equal(a.seen[i] + (*a.chain == i), 1);
            }
            const uint64_t top = (uint64_t)(LANES - 1) << 33 | (LANES - 1);
            const uint32_t want32[] = {sum, 0, ~0u, xor32, 7, LANES - 1, LANES, 3 * LANES};
            const uint64_t want64[] = {sum64, 0, UINT64_MAX, xor64, 7, top};
            assert_memory_equal(a.u32, want32, sizeof want32);
            assert_memory_equal(a.u64, want64, sizeof want64);
            wh_device_close(d);
        }
    }
}

/* --- the rest of simt.h ------------------------------------------------------------------ */

static void test_bits(void **state) {
    (void)state;
    uint64_t random = 8;
    for (uint32_t i = 0; i < 1000; i++) {
        const uint64_t v = next_random(&random) >> i % 64;
        const uint32_t w = (uint32_t)v;
        uint32_t pop32 = 0, pop64 = 0, first32 = 32, first64 = 64, last32 = 0, last64 = 0;
        for (uint32_t b = 0; b < 64; b++) {
            if (v >> b & 1) {
                pop64++;
                first64 = first64 == 64 ? b : first64;
                last64 = b;
                if (b < 32) {
                    pop32++;
                    first32 = first32 == 32 ? b : first32;
                    last32 = b;
                }
            }
        }
        uint64_t from = 0; /* bits i % 100 and up */
        for (uint32_t b = i % 100; b < 64; b++) {
            from |= (uint64_t)1 << b;
        }
        assert_true(wh_ones_from_u64(i % 100) == from);
        assert_int_equal(wh_low_u32(v), v & 0xffffffff);
        assert_int_equal(wh_high_u32(v), v >> 32);
        assert_true(wh_mul_wide_u32(w, ~w) == (uint64_t)w * ~w);
        assert_true(wh_again_u64(v) == v);
        assert_int_equal(wh_popc32(w), pop32);
        assert_int_equal(wh_popc64(v), pop64);
        if (v != 0) {
            assert_int_equal(wh_ctz64(v), first64);
            assert_int_equal(wh_clz64(v), 63 - last64);
        }
        if (w != 0) {
            assert_int_equal(wh_ctz32(w), first32);
            assert_int_equal(wh_clz32(w), 31 - last32);
            assert_int_equal(wh_msb32(w), last32);
            assert_int_equal(wh_mask_leader(w), first32);
        }
    }
}

typedef struct rank_args {
    uint32_t *bad;
} rank_args;

WH_KERNEL(rank, rank_args, a) {
    const uint32_t lane = wh_lane_id();
    uint32_t below = 0;
    for (uint32_t i = 0; i < lane; i++) {
        below += 0xdeadbeefu >> i & 1;
    }
    if (wh_mask_rank(0xdeadbeefu) != below) {
        wh_add_u32_relaxed(a.bad, 1);
    }
}

static void test_rank(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 0);
    rank_args a = {take(d, 4)};
    const wh_launch l = grid(d, 1, 64);
    assert_int_equal(rank(&l, &a), WH_OK);
    assert_int_equal(*a.bad, 0);
    wh_device_close(d);
}

static void test_planted_faults(void **state) {
    (void)state;
    assert_false(wh_fault_planted("a_tag"));
    wh_fault_plant("a_tag");
    assert_true(wh_fault_planted("a_tag"));
    assert_false(wh_fault_planted("a_ta"));
    assert_false(wh_fault_planted("a_tagg"));
    assert_false(wh_fault_planted(""));
    wh_fault_plant("other");
    assert_false(wh_fault_planted("a_tag"));
    wh_fault_plant(NULL);
    assert_false(wh_fault_planted("other"));
    assert_false(wh_fault_planted(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time), cmocka_unit_test(test_last_use),
        cmocka_unit_test(test_contention),    cmocka_unit_test(test_bits),
        cmocka_unit_test(test_rank),          cmocka_unit_test(test_planted_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* shared.c: WH_SHARED: whose it is, what it holds, how much of it there is. (launch.c has dynamic
 * shared memory, tsan_message.c what orders accesses.) */
#include "sim_test.h"

#define JUNK 0xa5a5a5a5u

typedef struct args {
    uint32_t *wrong;
    uint64_t *seen;   /* by block: the address of its words */
    uint32_t *inside; /* blocks that are there now */
} args;

typedef struct pair {
    uint32_t key;
    uint64_t value;
} pair;

/* All threads of a block. Its own words, whoever calls; what the last call left is there. */
WH_FN uint32_t *counters(void) {
    WH_SHARED(uint32_t, counter, 4);
    return counter;
}

WH_FN uint32_t is_aligned(const void *p) {
    return (uintptr_t)p % 16 == 0;
}

/* Turns a tile around, three times, in static memory alone. */
WH_KERNEL(turn, args, a) {
    const uint32_t n = wh_block_threads(), t = wh_thread_in_block();
    uint32_t wrong = 0;
    for (uint32_t round = 0; round < 3; round++) {
        WH_SHARED(uint32_t, tile, 96);
        WH_SHARED(pair, pairs, 96);
        if (round == 0) {
            wrong += tile[t] != JUNK || pairs[t].key != JUNK || !is_aligned(tile);
            wrong += counters()[t % 4] != JUNK || !is_aligned(pairs) || !is_aligned(counters());
            wh_syncthreads();
        }
        tile[t] = wh_block_id() * 1000 + round + t;
        pairs[t].key = t;
        pairs[t].value = tile[t] + (uint64_t)n;
        if (t < 4) {
            counters()[t] = round;
        }
        wh_syncthreads();
        const uint32_t other = n - 1 - t;
        wrong += tile[other] != wh_block_id() * 1000 + round + other;
        wrong += pairs[other].key != other || pairs[other].value != tile[other] + (uint64_t)n;
        wrong += counters()[t % 4] != round;
        wh_syncthreads();
    }
    wh_add_u32_relaxed(a.wrong, wrong);
}

/* The same function, another kernel: two calls that see one another's words, and atomics. */
WH_KERNEL(count, args, a) {
    uint32_t *const first = counters();
    const uint32_t t = wh_thread_in_block();
    uint32_t wrong = first[0] != JUNK;
    wh_syncthreads();
    if (t == 0) {
        first[0] = 0;
        a.seen[wh_block_id()] = (uint64_t)(uintptr_t)first;
    }
    wh_syncthreads();
    (void)wh_shared_fetch_add_u32(first, t);
    uint32_t *const again = counters();
    wh_syncthreads();
    wrong += again != first || again[0] != wh_block_threads() * (wh_block_threads() - 1) / 2;
    wh_add_u32_relaxed(a.wrong, wrong);
}

/* Dynamic memory, static memory and a broadcast are three. */
WH_KERNEL(both, args, a) {
    uint32_t *dynamic = (uint32_t *)wh_shared();
    WH_SHARED(uint32_t, words, 64);
    const uint32_t t = wh_thread_in_block();
    uint32_t wrong = dynamic[t] != JUNK || words[t] != JUNK;
    dynamic[t] = t;
    words[t] = t + 7;
    wrong += wh_block_broadcast_u64(t + 13, 5) != 18;
    wrong += dynamic[63 - t] != 63 - t || words[63 - t] != 70 - t;
    wh_add_u32_relaxed(a.wrong, wrong);
}

/* Blocks that are resident at once have different words. */
WH_KERNEL(meet, args, a) {
    WH_SHARED(uint32_t, words, 1);
    a.seen[wh_block_id()] = (uint64_t)(uintptr_t)words;
    words[0] = wh_block_id();
    wh_add_u32_relaxed(a.inside, 1);
    for (uint32_t i = 0; wh_load_u32_relaxed(a.inside) < wh_grid_blocks(); i++) {
        wh_backoff(i);
    }
    wh_add_u32_relaxed(a.wrong, words[0] != wh_block_id());
}

static wh_device *open_seed(uint64_t seed, uint32_t policy) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)policy;
    o.seed = seed;
    o.workers = seed % 4 == 3 ? 2 : 0;
    o.weak = seed % 4 == 1 ? WH_SIM_WEAK_GPU : 0;
    return open_with(&o);
}

static void test_blocks(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            wh_device *d = open_seed(seed, policy);
            const args a = {take(d, 4), take(d, 40 * 8), take(d, 4)};
            wh_launch l = grid(d, 40, 96);
            assert_int_equal(turn(&l, &a), WH_OK);
            assert_int_equal(count(&l, &a), WH_OK);
            l.threads = 64;
            l.shared_bytes = 64 * sizeof(uint32_t);
            assert_int_equal(both(&l, &a), WH_OK);
            assert_int_equal(wh_device_sync(d), WH_OK);
            assert_int_equal(*a.wrong, 0);
            wh_device_close(d);
        }
    }
}

static void test_resident(void **state) {
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    const args a = {take(d, 4), take(d, 4 * 8), take(d, 4)};
    const wh_launch l = grid(d, 4, 1);
    (void)state;
    assert_int_equal(meet(&l, &a), WH_OK);
    assert_int_equal(*a.wrong, 0);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < i; k++) {
            assert_true(a.seen[i] != a.seen[k]);
        }
    }
    wh_device_close(d);
}

/* --- how much --------------------------------------------------------------------------- */

WH_FN void use(char *p, uint32_t *wrong) {
    wh_add_u32_relaxed(wrong, p[0] != (char)0xa5 ? 1 : 0);
}

WH_KERNEL(all_of_it, args, a) {
    WH_SHARED(char, most, (48 << 10) - 16);
    WH_SHARED(char, last, 1); /* 16 bytes */
    use(most + wh_thread_in_block(), a.wrong);
    use(last, a.wrong);
}

WH_KERNEL(too_much, args, a) {
    WH_SHARED(char, most, (48 << 10) - 16);
    WH_SHARED(char, last, 17);
    use(most, a.wrong);
    use(last, a.wrong);
}

WH_KERNEL(beside, args, a) {
    WH_SHARED(char, most, 16 << 10);
    use(most, a.wrong);
}

static void test_limits(void **state) {
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    const args a = {take(d, 4), NULL, NULL};
    wh_launch l = grid(d, 20, 33);
    (void)state;
    assert_int_equal(all_of_it(&l, &a), WH_OK);
    assert_int_equal(too_much(&l, &a), WH_DEVICE_ERROR);
    assert_non_null(strstr(wh_device_error_text(d), "49168 bytes of static shared memory"));
    assert_non_null(strstr(wh_device_error_text(d), "shared.c:"));
    l.shared_bytes = 1; /* what is static has less room */
    assert_int_equal(all_of_it(&l, &a), WH_DEVICE_ERROR);
    assert_int_equal(beside(&l, &a), WH_OK);
    l.shared_bytes = wh_device_get_info(d)->shared_bytes - (16 << 10);
    assert_int_equal(beside(&l, &a), WH_OK);
    l.shared_bytes++;
    assert_int_equal(beside(&l, &a), WH_DEVICE_ERROR);
    l.shared_bytes = 0;
    assert_int_equal(all_of_it(&l, &a), WH_OK); /* the device stays usable */
    assert_int_equal(*a.wrong, 0);
    wh_device_close(d);
}

static void test_host(void **state) {
    (void)state;
    assert_null(counters());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_resident),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* chunk_pool.c: core/chunk_pool.h. Alone: every short sequence of takes, frees and merges over
 * all small pools against a set of free chunks; fresh chunks come in the order of their
 * addresses, whatever lies behind the large ones. Together: lanes under every policy own what
 * they take alone (I1), see what its last owner wrote (P1), and are told that the pool is
 * empty only when it is; and then they are, however many look. */
#include "sim/sim_test.h"

#include "warpheap/core/chunk_pool.h"

#define MOST 32u

typedef struct pool_memory {
    wh_chunk_pool_words words;
    uint32_t entries[2][64];
    uint64_t tree[4];
} pool_memory;

static wh_chunk_pool pool_of(pool_memory *m, uint32_t n, uint32_t large_log2) {
    wh_chunk_pool p;
    wh_chunk_pool_bind(&p, &m->words);
    p.entries[0] = m->entries[0];
    p.entries[1] = m->entries[1];
    p.entries_log2[0] = p.entries_log2[1] = 6;
    p.loose_tree = wh_veb_make(m->tree, n);
    p.n = n;
    p.large_log2 = large_log2;
    return p;
}

/* --- every sequence --------------------------------------------------------------------- */

typedef struct pool_model {
    pool_memory m;
    uint8_t out[MOST]; /* 1: out as a small chunk, 2: as the first of a large one, 3: the rest */
} pool_model;

static uint32_t free_now(const pool_model *s, uint32_t n) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += s->out[i] == 0;
    }
    return count;
}

static int has_large(const pool_model *s, uint32_t n, uint32_t size) {
    for (uint32_t first = 0; first + size <= n; first += size) {
        uint32_t k = 0;
        while (k < size && s->out[first + k] == 0) {
            k++;
        }
        if (k == size) {
            return 1;
        }
    }
    return 0;
}

static void took(pool_model *s, uint32_t n, uint32_t chunk, uint32_t size) {
    assert_true(chunk % size == 0 && chunk + size <= n);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(s->out[chunk + i], 0); /* I1 */
        s->out[chunk + i] = 1;
        if (size != 1) {
            s->out[chunk + i] = i == 0 ? 2 : 3;
        }
    }
}

/* op 0, 1: take 1 or 3 small ones; 2: a large one; 3: merge; then: free the (op - 4)th. */
static int apply(pool_model *s, uint32_t n, uint32_t large_log2, uint32_t op) {
    const wh_chunk_pool p = pool_of(&s->m, n, large_log2);
    const uint32_t size = 1u << large_log2;
    if (op < 2) {
        const uint32_t want = op == 0 ? 1 : 3, have = free_now(s, n);
        const wh_chunk_pool_taken t = wh_chunk_pool_take(p, 0, want);
        assert_true(t.n <= want && (t.n != 0 || have == 0));
        for (uint32_t i = t.n; i-- > 0;) {
            took(s, n, wh_chunk_pool_get(p, 0, t, i), 1);
        }
        assert_int_equal(wh_chunk_pool_empty(p, 0), have == t.n);
    } else if (op == 2) {
        const int may = has_large(s, n, size);
        wh_chunk_pool_taken t = wh_chunk_pool_take(p, 1, 1);
        if (t.n == 0) {
            assert_true(wh_chunk_pool_empty(p, 1));
            const int merged = wh_chunk_pool_merge(p);
            assert_int_equal(merged, may && large_log2 != 0);
            t = wh_chunk_pool_take(p, 1, 1);
        }
        if (large_log2 != 0) {
            assert_int_equal(t.n, may);
        }
        if (t.n != 0) {
            took(s, n, wh_chunk_pool_get(p, 1, t, 0), size);
        }
    } else if (op == 3) {
        (void)wh_chunk_pool_merge(p);
        assert_int_equal(wh_chunk_pool_empty(p, 0), free_now(s, n) == 0);
    } else {
        uint32_t k = op - 4, i = 0;
        for (; i < n; i++) {
            if ((s->out[i] == 1 || s->out[i] == 2) && k-- == 0) {
                break;
            }
        }
        if (i == n) {
            return 0;
        }
        const uint32_t large = s->out[i] == 2;
        memset(&s->out[i], 0, large ? size : 1);
        wh_chunk_pool_free(p, large, i);
    }
    return 1;
}

static void every_sequence(const pool_model *s, uint32_t n, uint32_t large_log2, uint32_t depth) {
    for (uint32_t op = 0; depth > 0 && op < 4 + 4; op++) {
        pool_model t = *s;
        if (apply(&t, n, large_log2, op)) {
            every_sequence(&t, n, large_log2, depth - 1);
        }
    }
}

static void test_every_sequence(void **state) {
    (void)state;
    for (uint32_t large_log2 = 1; large_log2 <= 2; large_log2++) {
        for (uint32_t n = 1; n <= 7; n++) {
            pool_model s;
            memset(&s, 0, sizeof s);
            every_sequence(&s, n, large_log2, 5);
        }
    }
}

static void test_long_sequences(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t large_log2 = 1; large_log2 <= 4; large_log2++) {
            pool_model s;
            uint64_t random = seed + 1;
            const uint32_t n = 1 + (uint32_t)(seed * 7 + large_log2) % MOST;
            memset(&s, 0, sizeof s);
            for (uint32_t i = 0; i < 3000; i++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                (void)apply(&s, n, large_log2, (uint32_t)(random >> 33) % 24);
            }
        }
    }
}

/* Fresh small chunks, with `large` large ones taken after `before` small ones: no gap. */
static void test_fresh_in_order(void **state) {
    (void)state;
    for (uint32_t large_log2 = 1; large_log2 <= 3; large_log2++) {
        for (uint32_t n = 1; n <= MOST; n++) {
            const uint32_t size = 1u << large_log2, rest = n % size;
            for (uint32_t large = 0; large * size <= n - rest; large++) {
                for (uint32_t before = 0; before + large * size <= n - rest; before++) {
                    pool_memory m;
                    memset(&m, 0, sizeof m);
                    const wh_chunk_pool p = pool_of(&m, n, large_log2);
                    for (uint32_t i = 0; i < n - large * size; i++) {
                        if (i == before && large != 0) {
                            assert_int_equal(wh_chunk_pool_take(p, 1, large).n, large);
                        }
                        const wh_chunk_pool_taken t = wh_chunk_pool_take(p, 0, 1);
                        const uint32_t main = n - rest - large * size;
                        assert_int_equal(t.n, 1);
                        assert_int_equal(wh_chunk_pool_get(p, 0, t, 0),
                                         i < main ? i : n - rest + i - main);
                    }
                }
            }
        }
    }
}

/* --- many lanes ---------------------------------------------------------------------------- */

typedef struct pool_args {
    wh_chunk_pool pool;
    uint64_t *plain; /* by chunk: written by its owner */
    uint32_t *errors;
    uint32_t *outside; /* chunks that lanes hold, raised before the take */
    uint32_t steps;
    uint64_t seed;
} pool_args;

WH_KERNEL(take_and_free, pool_args, a) {
    const uint64_t me = wh_thread_id() + 1;
    uint64_t random = a.seed + me * 0x9e3779b97f4a7c15u;
    const uint32_t size = 1u << a.pool.large_log2;
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t level = (random >> 40) % 4 == 0, n = 1 + (uint32_t)(random >> 50) % 3;
        const uint32_t each = level != 0 ? size : 1;
        wh_add_u32_relaxed(a.outside, level != 0 ? size : n);
        const wh_chunk_pool_taken t = wh_chunk_pool_take(a.pool, level, level != 0 ? 1 : n);
        uint32_t chunk[3];
        if (t.n == 0 && level == 0 && wh_chunk_pool_empty(a.pool, 0) &&
            wh_load_u32_relaxed(a.outside) < a.pool.n) {
            wh_add_u32_relaxed(a.errors, 1); /* I3: someone must have had all the others */
        }
        for (uint32_t i = 0; i < t.n; i++) {
            chunk[i] = wh_chunk_pool_get(a.pool, level, t, i);
            for (uint32_t k = 0; k < each; k++) {
                a.plain[chunk[i] + k] = me; /* a race, if another lane has it */
            }
        }
        wh_backoff(0);
        for (uint32_t i = 0; i < t.n; i++) {
            for (uint32_t k = 0; k < each; k++) {
                if (a.plain[chunk[i] + k] != me) {
                    wh_add_u32_relaxed(a.errors, 1);
                }
            }
            wh_chunk_pool_free(a.pool, level, chunk[i]);
        }
        if (t.n == 0 && level == 1) {
            (void)wh_chunk_pool_merge(a.pool);
        }
        (void)wh_fetch_sub_u32_relaxed(a.outside, level != 0 ? size : n);
    }
}

static void test_concurrent(void **state) {
    (void)state;
    for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_device *d = open_policy((wh_sim_policy)policy, seed);
            pool_memory *m = take(d, sizeof *m);
            pool_args a;
            a.pool = pool_of(m, 5 + (uint32_t)seed % 28, 1 + (uint32_t)seed % 3);
            a.plain = take(d, MOST * 8);
            a.errors = take(d, 4);
            a.outside = take(d, 4);
            a.steps = 15;
            a.seed = seed;
            const wh_launch l = grid(d, 3, 6);
            if (take_and_free(&l, &a) != WH_OK) {
                fail_msg("%s", wh_device_error_text(d));
            }
            assert_int_equal(*a.errors, 0);
            /* All of them are there, each once. */
            pool_model s;
            memset(&s, 0, sizeof s);
            for (uint32_t i = 0; i < a.pool.n; i++) {
                const wh_chunk_pool_taken t = wh_chunk_pool_take(a.pool, 0, 1);
                assert_int_equal(t.n, 1);
                took(&s, a.pool.n, wh_chunk_pool_get(a.pool, 0, t, 0), 1);
            }
            assert_true(wh_chunk_pool_empty(a.pool, 0));
            wh_device_close(d);
        }
    }
}

/* --- lanes that look while others merge ---------------------------------------------------------
 */

WH_KERNEL(merge_and_look, pool_args, a) {
    const uint64_t me = wh_thread_id();
    for (uint64_t i = 0; i < (a.seed + me * 7) % 13; i++) {
        wh_backoff(0);
    }
    if (me % 8 == 0) {
        (void)wh_chunk_pool_merge(a.pool);
    } else if (wh_chunk_pool_empty(a.pool, a.steps)) { /* the level */
        wh_add_u32_relaxed(a.errors, 1);
    }
}

/* Nobody takes a chunk, so the pool is never empty, wherever merge has them at the moment (I3).
 * Four chunks that make a large one, or three that do not. */
static void test_merge_hides_nothing(void **state) {
    (void)state;
    for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
        for (uint64_t seed = 0; seed < 20 * n_seeds(); seed++) {
            wh_device *d = open_policy((wh_sim_policy)policy, seed);
            pool_memory *m = take(d, sizeof *m);
            pool_args a;
            memset(&a, 0, sizeof a);
            a.steps = seed % 2;
            a.pool = pool_of(m, 3 + a.steps, 2);
            a.errors = take(d, 4);
            a.seed = seed;
            const wh_launch l = grid(d, 2, 8);
            if (merge_and_look(&l, &a) != WH_OK) {
                fail_msg("%s", wh_device_error_text(d));
            }
            assert_int_equal(*a.errors, 0);
            wh_device_close(d);
        }
    }
}

/* --- lanes that look for a large chunk in vain ----------------------------------------------- */

WH_KERNEL(look_in_vain, pool_args, a) {
    if (wh_chunk_pool_merge(a.pool) || !wh_chunk_pool_empty(a.pool, 1)) {
        wh_add_u32_relaxed(a.errors, 1);
    }
}

/* With nothing to move they do not keep each other from seeing that there is none, however many
 * look at once: the second chunk of each large one is out. */
static void test_many_look_in_vain(void **state) {
    (void)state;
    for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
        wh_device *d = open_policy((wh_sim_policy)policy, policy);
        pool_memory *m = take(d, sizeof *m);
        pool_args a;
        memset(&a, 0, sizeof a);
        a.pool = pool_of(m, 32, 2);
        a.errors = take(d, 4);
        const wh_chunk_pool_taken t = wh_chunk_pool_take(a.pool, 0, 32);
        assert_int_equal(t.n, 32);
        for (uint32_t i = 0; i < 32; i++) {
            const uint32_t chunk = wh_chunk_pool_get(a.pool, 0, t, i);
            if (chunk % 4 != 1) {
                wh_chunk_pool_free(a.pool, 0, chunk);
            }
        }
        assert_int_equal(wh_chunk_pool_merge(a.pool), 0); /* what is free is loose now */
        const wh_launch l = grid(d, 2, 64);
        if (look_in_vain(&l, &a) != WH_OK) {
            fail_msg("%s", wh_device_error_text(d));
        }
        assert_int_equal(*a.errors, 0);
        wh_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sequence),      cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_fresh_in_order),      cmocka_unit_test(test_concurrent),
        cmocka_unit_test(test_merge_hides_nothing), cmocka_unit_test(test_many_look_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* launch.c: launches of one to three dimensions, memory that a block shares, and the broadcast
 * in a block. */
#include "sim_test.h"

static wh_launch shape(wh_device *d, const uint32_t *blocks, const uint32_t *threads) {
    const wh_launch l = {.device = d,
                         .blocks = blocks[0],
                         .blocks_y = blocks[1],
                         .blocks_z = blocks[2],
                         .threads = threads[0],
                         .threads_y = threads[1],
                         .threads_z = threads[2]};
    return l;
}

/* --- where a thread is ------------------------------------------------------------- */

typedef struct place {
    uint32_t thread[3], block[3], block_dim[3], grid_dim[3];
    uint32_t in_block, block_id, block_threads, grid_blocks, lane;
    uint64_t grid_threads;
    uint32_t times;
} place;

typedef struct place_args {
    place *places;
} place_args;

WH_KERNEL(tell_place, place_args, a) {
    place *p = &a.places[wh_thread_id()];
    p->thread[0] = wh_thread_x(), p->thread[1] = wh_thread_y(), p->thread[2] = wh_thread_z();
    p->block[0] = wh_block_x(), p->block[1] = wh_block_y(), p->block[2] = wh_block_z();
    p->block_dim[0] = wh_block_dim_x(), p->block_dim[1] = wh_block_dim_y();
    p->block_dim[2] = wh_block_dim_z();
    p->grid_dim[0] = wh_grid_dim_x(), p->grid_dim[1] = wh_grid_dim_y();
    p->grid_dim[2] = wh_grid_dim_z();
    p->in_block = wh_thread_in_block();
    p->block_id = wh_block_id();
    p->block_threads = wh_block_threads();
    p->grid_blocks = wh_grid_blocks();
    p->grid_threads = wh_grid_threads();
    p->lane = wh_lane_id();
    wh_add_u32_relaxed(&p->times, 1);
}

/* Every thread of a grid in CUDA's order: x fastest, z slowest. */
static void check_places(const uint32_t *blocks, const uint32_t *threads) {
    wh_device *d = open_policy(WH_SIM_RANDOM, 1);
    uint32_t g[3], b[3];
    for (uint32_t k = 0; k < 3; k++) {
        g[k] = blocks[k] == 0 ? 1 : blocks[k];
        b[k] = threads[k] == 0 ? 1 : threads[k];
    }
    const uint32_t n_blocks = g[0] * g[1] * g[2], n_threads = b[0] * b[1] * b[2];
    place_args a = {take(d, (uint64_t)n_blocks * n_threads * sizeof(place))};
    const wh_launch l = shape(d, blocks, threads);
    assert_int_equal(tell_place(&l, &a), WH_OK);
    for (uint32_t i = 0; i < n_blocks * n_threads; i++) {
        const place *p = &a.places[i];
        const uint32_t block = i / n_threads, thread = i % n_threads;
        assert_int_equal(p->times, 1);
        assert_int_equal(p->in_block, thread);
        assert_int_equal(p->block_id, block);
        assert_int_equal(p->lane, thread % 32);
        assert_int_equal(p->block_threads, n_threads);
        assert_int_equal(p->grid_blocks, n_blocks);
        assert_int_equal(p->grid_threads, n_blocks * n_threads);
        assert_int_equal(p->thread[0] + b[0] * (p->thread[1] + b[1] * p->thread[2]), thread);
        assert_int_equal(p->block[0] + g[0] * (p->block[1] + g[1] * p->block[2]), block);
        for (uint32_t k = 0; k < 3; k++) {
            assert_true(p->thread[k] < b[k]);
            assert_true(p->block[k] < g[k]);
            assert_int_equal(p->block_dim[k], b[k]);
            assert_int_equal(p->grid_dim[k], g[k]);
        }
    }
    assert_int_equal(wh_device_free(d, a.places), WH_OK);
    wh_device_close(d);
}

static void test_places(void **state) {
    static const uint32_t shapes[][2][3] = {
        {{3, 0, 0}, {40, 0, 0}}, {{1, 1, 1}, {1, 1, 1}},  {{2, 3, 1}, {16, 16, 1}},
        {{2, 3, 4}, {5, 7, 3}},  {{1, 5, 0}, {1, 33, 0}}, {{2, 0, 3}, {4, 0, 64}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_places(shapes[i][0], shapes[i][1]);
    }
}

static void test_outside_a_kernel(void **state) {
    (void)state;
    assert_int_equal(wh_thread_x() + wh_thread_y() + wh_thread_z(), 0);
    assert_int_equal(wh_block_x() + wh_block_y() + wh_block_z(), 0);
    assert_int_equal(wh_block_dim_x() * wh_block_dim_y() * wh_block_dim_z(), 1);
    assert_int_equal(wh_grid_dim_x() * wh_grid_dim_y() * wh_grid_dim_z(), 1);
    assert_int_equal(wh_block_broadcast_u64(7, 0), 7);
    assert_null(wh_shared());
}

/* What no launch may ask for, and the largest that it may. */
static void test_bounds(void **state) {
    static const struct {
        uint32_t blocks[3], threads[3], shared;
        int ok;
    } cases[] = {
        {{0, 1, 1}, {1, 1, 1}, 0, 0},
        {{1, 1, 1}, {0, 1, 1}, 0, 0},
        {{1, 1, 1}, {1024, 1, 1}, 0, 1},
        {{1, 1, 1}, {1025, 1, 1}, 0, 0},
        {{1, 1, 1}, {32, 32, 1}, 0, 1},
        {{1, 1, 1}, {32, 33, 1}, 0, 0},
        {{1, 1, 1}, {1, 1, 64}, 0, 1},
        {{1, 1, 1}, {1, 1, 65}, 0, 0},
        {{1, 1, 1}, {1 << 16, 1 << 16, 1}, 0, 0},
        {{1, 65536, 1}, {1, 1, 1}, 0, 0},
        {{1, 1, 65536}, {1, 1, 1}, 0, 0},
        {{65536, 65535, 2}, {1, 1, 1}, 0, 0},
        {{0x80000000u, 1, 1}, {1, 1, 1}, 0, 0},
        {{1, 1, 1}, {1, 1, 1}, 227 << 10, 1},
        {{1, 1, 1}, {1, 1, 1}, (227 << 10) + 1, 0},
    };
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    place_args a = {take(d, 1024 * sizeof(place))};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wh_launch l = shape(d, cases[i].blocks, cases[i].threads);
        l.shared_bytes = cases[i].shared;
        assert_int_equal(wh_launch_check(&l, WH_TARGET_SIM), cases[i].ok ? WH_OK : WH_BAD_ARGUMENT);
        assert_int_equal(tell_place(&l, &a), cases[i].ok ? WH_OK : WH_BAD_ARGUMENT);
    }
    const wh_launch good = grid(d, 1, 1), nowhere = grid(NULL, 1, 1);
    assert_int_equal(wh_launch_check(&good, WH_TARGET_CUDA), WH_BAD_ARGUMENT);
    assert_int_equal(tell_place(&nowhere, &a), WH_BAD_ARGUMENT);
    assert_int_equal(tell_place(NULL, &a), WH_BAD_ARGUMENT);
    assert_int_equal(tell_place(&good, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_free(d, a.places), WH_OK);
    wh_device_close(d);
}

/* --- shared memory -------------------------------------------------------------------- */

typedef struct turn_args {
    const uint32_t *in;
    uint32_t *out;
    uint32_t *aligned, *poisoned;
} turn_args;

/* Turns a tile around through shared memory. */
WH_KERNEL(turn, turn_args, a) {
    uint32_t *tile = (uint32_t *)wh_shared();
    const uint32_t n = wh_block_threads(), t = wh_thread_in_block();
    const uint64_t base = (uint64_t)wh_block_id() * n;
    wh_add_u32_relaxed(a.aligned, (uint64_t)(uintptr_t)tile % 16 == 0);
    wh_add_u32_relaxed(a.poisoned, tile[t] == 0xa5a5a5a5u);
    tile[t] = a.in[base + t];
    wh_syncthreads();
    a.out[base + t] = tile[n - 1 - t];
}

#define TURN_BLOCKS 24u
#define TURN_THREADS 48u

static void turn_once(wh_device *d, wh_launch l) {
    const uint32_t n = TURN_BLOCKS * TURN_THREADS;
    uint32_t *in = take(d, n * sizeof *in), *out = take(d, n * sizeof *out);
    uint32_t *counts = take(d, 2 * sizeof *counts);
    turn_args a = {in, out, counts, counts + 1};
    for (uint32_t i = 0; i < n; i++) {
        in[i] = i * 7 + 1;
    }
    assert_int_equal(turn(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(d), WH_OK);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = i % TURN_THREADS;
        assert_int_equal(out[i], in[i - t + TURN_THREADS - 1 - t]);
    }
    /* No block sees what the one before it in the same place has left. */
    assert_int_equal(counts[0], n);
    assert_int_equal(counts[1], n);
    assert_int_equal(wh_device_free(d, in), WH_OK);
    assert_int_equal(wh_device_free(d, out), WH_OK);
    assert_int_equal(wh_device_free(d, counts), WH_OK);
}

static void test_shared(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = (wh_sim_policy)policy;
            o.seed = seed;
            o.workers = seed % 4 == 3 ? 2 : 0;
            wh_device *d = open_with(&o);
            void *stream = NULL;
            assert_int_equal(wh_stream_create(d, &stream), WH_OK);
            wh_launch l = grid(d, TURN_BLOCKS, TURN_THREADS);
            l.shared_bytes = TURN_THREADS * sizeof(uint32_t);
            turn_once(d, l);
            l.blocks = 4, l.blocks_y = 3, l.blocks_z = 2;
            l.threads = 8, l.threads_y = 2, l.threads_z = 3;
            l.shared_bytes = 4096;
            l.stream = stream;
            turn_once(d, l);
            wh_device_close(d);
        }
    }
}

/* What the largest grid that stays is, and that a block's atomics of both widths do what they say.
 */
#define OPS(w, type)                                                      \
    static UNUSED type ops_u##w(type *p) {                                \
        type wrong = wh_shared_exchange_u##w(p, 12) != 7;                 \
        wrong += wh_shared_fetch_and_u##w(p, (type) ~(type)4) != 12;      \
        wrong += wh_shared_fetch_or_u##w(p, 3) != 8;                      \
        wrong += wh_shared_fetch_min_u##w(p, 20) != 11;                   \
        wrong += wh_shared_fetch_min_u##w(p, 10) != 11;                   \
        wrong += wh_shared_fetch_max_u##w(p, 9) != 10;                    \
        wrong += wh_shared_fetch_max_u##w(p, (type)1 << (w - 1)) != 10;   \
        wrong += wh_shared_fetch_add_u##w(p, 1) != (type)1 << (w - 1);    \
        wrong += wh_shared_cas_u##w(p, 5, 6) != ((type)1 << (w - 1)) + 1; \
        wrong += wh_shared_cas_u##w(p, ((type)1 << (w - 1)) + 1, 6) == 6; \
        wrong += wh_shared_cas_u##w##_acq_rel(p, 5, 4) != 6;              \
        wrong += wh_shared_cas_u##w##_acq_rel(p, 6, 8) != 6;              \
        wrong += wh_shared_cas_u##w##_acq_rel(p, 8, 6) != 8;              \
        return wrong + (wh_shared_load_u##w(p) != 6);                     \
    }
OPS(32, uint32_t)
OPS(64, uint64_t)

typedef struct ops_args {
    uint32_t *wrong;
} ops_args;

WH_KERNEL(try_ops, ops_args, a) {
    uint64_t *words = (uint64_t *)wh_shared();
    if (wh_thread_in_block() == 0) {
        words[0] = words[1] = 7;
        *(uint32_t *)(void *)&words[1] = 7;
        wh_add_u32_relaxed(a.wrong, (uint32_t)ops_u64(&words[0]));
        wh_add_u32_relaxed(a.wrong, ops_u32((uint32_t *)(void *)&words[1]));
    }
    /* all threads at once: each takes part once */
    wh_syncthreads();
    const uint32_t t = wh_thread_in_block();
    (void)wh_shared_fetch_add_u64(&words[0], (uint64_t)1 << 32 | t);
    wh_syncthreads();
    const uint64_t n = wh_block_threads();
    wh_add_u32_relaxed(a.wrong, words[0] != 6 + (n << 32 | n * (n - 1) / 2));
}

static void test_shared_ops(void **state) {
    (void)state;
    for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
        uint32_t blocks = 0;
        wh_device *d = open_policy((wh_sim_policy)policy, 3);
        ops_args a = {take(d, sizeof(uint32_t))};
        wh_launch l = grid(d, 3, 70);
        l.shared_bytes = 16;
        assert_int_equal(try_ops(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(d), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_int_equal(WH_KERNEL_OCCUPANCY(try_ops, d, 70, 16, &blocks), WH_OK);
        assert_int_equal(blocks, wh_device_get_info(d)->n_sms * 2);
        wh_device_close(d);
    }
}

typedef struct vote_args {
    uint32_t *first, *sum;
} vote_args;

/* All threads of a block add to one word; one of them takes another. */
WH_KERNEL(vote, vote_args, a) {
    uint32_t *words = (uint32_t *)wh_shared();
    const uint32_t t = wh_thread_in_block();
    if (t == 0) {
        words[0] = words[1] = 0;
    }
    wh_syncthreads();
    const uint32_t before = wh_shared_fetch_add_u32(&words[0], t + 1);
    if (wh_shared_cas_u32(&words[1], 0, t + 1) == 0) {
        wh_add_u32_relaxed(a.first, 1 + (wh_shared_load_u32(&words[1]) != t + 1));
    }
    wh_syncthreads();
    wh_add_u32_relaxed(a.sum, t == 0 ? words[0] : 0);
    wh_add_u32_relaxed(a.first, before > words[0] ? 1000 : 0);
}

static void test_shared_atomics(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            wh_device *d = open_policy((wh_sim_policy)policy, seed);
            uint32_t *counts = take(d, 2 * sizeof *counts);
            vote_args a = {counts, counts + 1};
            wh_launch l = grid(d, 10, 50);
            l.shared_bytes = 2 * sizeof(uint32_t);
            assert_int_equal(vote(&l, &a), WH_OK);
            assert_int_equal(wh_device_sync(d), WH_OK);
            assert_int_equal(counts[0], 10);
            assert_int_equal(counts[1], 10 * 50 * 51 / 2);
            wh_device_close(d);
        }
    }
}

/* --- broadcast -------------------------------------------------------------------------- */

typedef struct say_args {
    uint32_t rounds;
    uint32_t *wrong;
} say_args;

/* Rounds that follow each other at once; in some the lanes come to the call apart. */
WH_KERNEL(say, say_args, a) {
    const uint32_t t = wh_thread_in_block(), n = wh_block_threads();
    for (uint32_t r = 0; r < a.rounds; r++) {
        const uint32_t from = (r * 5 + wh_block_id()) % n;
        const uint64_t mine = (uint64_t)r << 40 | (uint64_t)wh_block_id() << 20 | t;
        uint64_t got;
        if (r % 3 == 1 && t % 2 == 0) {
            wh_backoff(2);
        }
        if (r % 2 != 0 && t % 3 == 0) {
            got = wh_block_broadcast_u64(mine, from);
        } else {
            got = wh_block_broadcast_u64(mine, from);
        }
        if (got != (mine - t) + from) {
            wh_add_u32_relaxed(a.wrong, 1);
        }
    }
}

static void test_broadcast(void **state) {
    static const uint32_t threads[] = {1, 2, 31, 32, 33, 96, 200};
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            wh_device *d = open_policy((wh_sim_policy)policy, seed);
            say_args a = {6, take(d, sizeof(uint32_t))};
            for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
                const wh_launch l = grid(d, 10, threads[i]);
                assert_int_equal(say(&l, &a), WH_OK);
            }
            const wh_launch largest = grid(d, 2, 1024);
            assert_int_equal(say(&largest, &a), WH_OK);
            assert_int_equal(*a.wrong, 0);
            wh_device_close(d);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),         cmocka_unit_test(test_outside_a_kernel),
        cmocka_unit_test(test_bounds),         cmocka_unit_test(test_shared),
        cmocka_unit_test(test_shared_atomics), cmocka_unit_test(test_shared_ops),
        cmocka_unit_test(test_broadcast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

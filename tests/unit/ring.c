/* ring.c: core/ring.h. Alone: every short sequence of puts, takes and resets against a
 * naive FIFO, so that positions wrap and virgin positions meet written ones. Together:
 * lanes under a semaphore take every value exactly once (I2), and what its giver wrote
 * before is seen (P1). */
#include "sim/sim_test.h"

#include "warpheap/core/ring.h"

/* --- every sequence ------------------------------------------------------------------- */

#define ROOM 8u

typedef struct fifo {
    uint32_t value[ROOM];
    uint32_t n;
} fifo;

typedef struct ring_state {
    wh_ring ring;
    uint32_t entries[ROOM];
    fifo model;
    uint32_t next; /* value of the next put */
} ring_state;

static void check_take(ring_state *s, uint32_t capacity, uint32_t n) {
    const uint64_t first = wh_ring_reserve_take(&s->ring, n);
    uint32_t got[2];
    for (uint32_t i = n; i-- > 0;) { /* in any order */
        got[i] = wh_ring_take_at(&s->ring, s->entries, capacity, first + i);
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(got[i], s->model.value[i]);
    }
    s->model.n -= n;
    memmove(s->model.value, s->model.value + n, s->model.n * sizeof(uint32_t));
}

/* op 0: put, 1 and 2: take that many, 3 and more: reset to 0..op-3 values. 0 if it is
 * not allowed now. */
static int apply(ring_state *s, uint32_t capacity, uint32_t op) {
    if (op == 0) {
        if (s->model.n == capacity) {
            return 0;
        }
        const uint64_t p = wh_ring_reserve_put(&s->ring);
        wh_ring_put_at(s->entries, capacity, p, s->next);
        s->model.value[s->model.n++] = s->next++;
    } else if (op <= 2) {
        if (s->model.n < op) {
            return 0;
        }
        check_take(s, capacity, op);
    } else {
        const uint32_t n = op - 3;
        wh_ring_reset(&s->ring, s->entries, capacity, n);
        for (uint32_t i = 0; i < n; i++) {
            s->model.value[i] = i;
        }
        s->model.n = n;
    }
    assert_int_equal(s->ring.tail - s->ring.head, s->model.n); /* I1 */
    return 1;
}

static void every_sequence(const ring_state *s, uint32_t capacity, uint32_t depth) {
    for (uint32_t op = 0; depth > 0 && op < 3 + capacity + 1; op++) {
        ring_state t = *s;
        if (apply(&t, capacity, op)) {
            every_sequence(&t, capacity, depth - 1);
        }
    }
}

static void test_every_sequence(void **state) {
    (void)state;
    for (uint32_t capacity = 1; capacity <= 4; capacity *= 2) {
        ring_state s;
        memset(&s, 0, sizeof s);
        every_sequence(&s, capacity, capacity == 4 ? 7 : 8);
    }
}

static void test_long_sequences(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t capacity = 1; capacity <= ROOM; capacity *= 2) {
            ring_state s;
            uint64_t random = seed;
            memset(&s, 0, sizeof s);
            for (uint32_t i = 0; i < 20000; i++) {
                const uint32_t r = (uint32_t)next_random(&random);
                uint32_t op = 0; /* in half of the cases */
                if (r % 16 >= 8) {
                    op = r % 16 < 15 ? 1 + r / 16 % 2 : 3 + r / 16 % (capacity + 1);
                }
                (void)apply(&s, capacity, r % 512 == 0 || op < 3 ? op : 0);
            }
        }
    }
}

/* --- many lanes --------------------------------------------------------------------------- */

#define MARK(v) ((uint32_t)(v)*40503u + 9u)
#define BIAS ((uint64_t)1 << 31)

typedef struct ring_args {
    wh_ring *ring;
    uint32_t *entries;
    uint64_t *count;   /* values inside, + BIAS: the semaphore */
    uint32_t *owner;   /* by value */
    uint32_t *payload; /* by value, plain */
    uint32_t *errors;
    uint32_t capacity, steps;
    uint64_t seed;
} ring_args;

WH_KERNEL(pass_around, ring_args, a) {
    const uint32_t me = (uint32_t)wh_thread_id() + 1;
    uint64_t random = a.seed + me * 0x9e3779b97f4a7c15u;
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t want = 1 + (uint32_t)(random >> 60) % 3;
        const uint64_t have = wh_fetch_sub_u64_acquire(a.count, want) - BIAS;
        uint32_t got = have < want ? (uint32_t)have : want;
        got = (int64_t)have <= 0 ? 0 : got;
        if (got < want) {
            wh_add_u64_release(a.count, want - got);
        }
        uint32_t v[3];
        const uint64_t first = got > 0 ? wh_ring_reserve_take(a.ring, got) : 0;
        for (uint32_t i = 0; i < got; i++) {
            v[i] = wh_ring_take_at(a.ring, a.entries, a.capacity, first + i);
            if (v[i] >= a.capacity || wh_exchange_u32_relaxed(&a.owner[v[i]], me) != 0 ||
                a.payload[v[i]] != MARK(v[i])) {
                wh_add_u32_relaxed(a.errors, 1);
                v[i] = 0;
            }
            a.payload[v[i]] = me;
        }
        for (uint32_t i = 0; i < got; i++) {
            if (a.payload[v[i]] != me || wh_exchange_u32_relaxed(&a.owner[v[i]], 0) != me) {
                wh_add_u32_relaxed(a.errors, 1);
            }
            a.payload[v[i]] = MARK(v[i]);
            wh_ring_put_at(a.entries, a.capacity, wh_ring_reserve_put(a.ring), v[i]);
            wh_add_u64_release(a.count, 1);
        }
    }
}

static void check_concurrent(const wh_sim_options *o, uint32_t capacity, uint32_t inside,
                             uint32_t threads) {
    wh_device *d = open_with(o);
    ring_args a;
    a.ring = take(d, sizeof *a.ring);
    a.entries = take(d, capacity * 4);
    a.count = take(d, 8);
    a.owner = take(d, capacity * 4);
    a.payload = take(d, capacity * 4);
    a.errors = take(d, 4);
    a.capacity = capacity;
    a.steps = 20;
    a.seed = o->seed;
    *a.count = BIAS + inside;
    for (uint32_t v = 0; v < capacity; v++) {
        a.payload[v] = MARK(v);
    }
    wh_ring_reset(a.ring, a.entries, capacity, inside);
    const wh_launch l = grid(d, 3, threads);
    if (pass_around(&l, &a) != WH_OK) {
        fail_msg("%s", wh_device_error_text(d));
    }
    assert_int_equal(*a.errors, 0);
    assert_int_equal(*a.count, BIAS + inside);
    assert_int_equal(a.ring->tail - a.ring->head, inside);
    uint8_t seen[64] = {0};
    const uint64_t first = wh_ring_reserve_take(a.ring, inside);
    for (uint32_t i = 0; i < inside; i++) { /* I2: each is there once */
        const uint32_t v = wh_ring_take_at(a.ring, a.entries, capacity, first + i);
        assert_true(v < inside);
        assert_int_equal(seen[v]++, 0);
    }
    wh_device_close(d);
}

static void test_concurrent(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = (wh_sim_policy)p;
            o.seed = seed;
            o.policy_arg = p == WH_SIM_PCT ? 1 + (uint32_t)(seed % 3) : 0;
            check_concurrent(&o, 1, 1, 2);
            check_concurrent(&o, 4, 4, 8);
            check_concurrent(&o, 4, 2, 3);
            check_concurrent(&o, 64, 33, 40);
            o.workers = 2;
            o.policy = WH_SIM_STICKY;
            o.policy_arg = 50;
            check_concurrent(&o, 8, 8, 16);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sequence),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_concurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* weak.c: with the option weak, loads return old values exactly where the orders allow it: the
 * classic small programs, each outcome that is allowed seen under some seed, each that is
 * forbidden under none. */
#include "sim_test.h"

#include <unistd.h>

#define SEEDS 400u

typedef struct litmus_args {
    uint32_t *x, *y;
    uint32_t *out; /* two words for each lane */
    uint32_t *semaphore;
    uint32_t which; /* variant */
} litmus_args;

WH_FN void publish(const litmus_args *a) {
    wh_store_u32_relaxed(a->y, 1);
    switch (a->which) {
    case 1: /* release, acquire */
    case 2: /* release, relaxed */
    case 3: /* release, relaxed and a fence */
        wh_store_u32_release(a->x, 1);
        break;
    case 5: /* release by an add without a result, then a relaxed add on top of it */
        wh_add_u32_release(a->x, 1);
        wh_add_u32_relaxed(a->x, 1);
        break;
    case 6: /* a fence, then relaxed */
        wh_fence();
        wh_store_u32_relaxed(a->x, 1);
        break;
    case 7: /* a release that another store replaces */
        wh_store_u32_release(a->x, 1);
        wh_store_u32_relaxed(a->x, 2);
        break;
    default: /* 0: all relaxed; 4: acquire alone */
        wh_store_u32_relaxed(a->x, 1);
    }
}

WH_FN uint32_t look(const litmus_args *a) {
    switch (a->which) {
    case 1:
    case 4:
    case 5:
    case 6:
    case 7:
        return wh_load_u32_acquire(a->x);
    case 3: {
        const uint32_t v = wh_load_u32_relaxed(a->x);
        wh_fence();
        return v;
    }
    default:
        return wh_load_u32_relaxed(a->x);
    }
}

/* Message passing: lane 0 of block 0 stores y, then x; the other block loads x, then y. */
WH_KERNEL(message, litmus_args, a) {
    if (wh_block_id() == 0) {
        publish(&a);
    } else {
        a.out[0] = look(&a);
        a.out[1] = wh_load_u32_relaxed(a.y);
    }
}

/* Store buffering: both may see 0, but not if they add. */
WH_KERNEL(buffering, litmus_args, a) {
    uint32_t *mine = wh_block_id() == 0 ? a.x : a.y, *other = wh_block_id() == 0 ? a.y : a.x;
    wh_store_u32_relaxed(mine, 1);
    a.out[wh_block_id()] =
        a.which == 0 ? wh_load_u32_relaxed(other) : wh_fetch_add_u32_relaxed(other, 0);
}

/* Coherence: who has seen a value does not see an older one, whatever the order. */
WH_KERNEL(coherence, litmus_args, a) {
    if (wh_block_id() == 0) {
        for (uint32_t i = 1; i <= 6; i++) {
            wh_store_u32_relaxed(a.x, i);
        }
        return;
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t v = wh_load_u32_relaxed(a.x);
        a.out[0] += v < last;
        last = v;
    }
}

/* Barriers order what lanes have stored before; a ballot does not. */
WH_KERNEL(barrier, litmus_args, a) {
    const uint32_t lane = wh_lane_id();
    if (lane == 0) {
        wh_store_u32_relaxed(a.x, 1);
    }
    if (a.which == 0) {
        (void)wh_ballot(3, 1);
    } else if (a.which == 1) {
        wh_syncwarp(3);
    } else {
        wh_syncthreads();
    }
    a.out[lane] = wh_load_u32_relaxed(a.x);
}

/* A lane's release takes along what another one stored before they met. */
WH_KERNEL(together, litmus_args, a) {
    if (wh_block_id() == 0) {
        if (wh_lane_id() == 0) {
            wh_store_u32_relaxed(a.y, 1);
        }
        wh_syncwarp(3);
        if (wh_lane_id() == 1 && a.which == 0) {
            wh_store_u32_relaxed(a.x, 1);
        } else if (wh_lane_id() == 1) {
            wh_store_u32_release(a.x, 1);
        }
    } else if (wh_lane_id() == 0) {
        a.out[0] = wh_load_u32_acquire(a.x);
        a.out[1] = wh_load_u32_relaxed(a.y);
    }
}

/* A lane that waits for a relaxed value gets it in the end. */
WH_KERNEL(waits, litmus_args, a) {
    if (wh_block_id() == 0) {
        wh_store_u32_relaxed(a.x, 1);
        return;
    }
    while (wh_load_u32_relaxed(a.x) == 0) {
    }
    a.out[0] = 1;
}

typedef wh_status (*launcher)(const wh_launch *l, const litmus_args *a);

/* A litmus test: a variant of a kernel, in a grid of that shape. */
typedef struct litmus {
    launcher kernel;
    uint32_t which, blocks, threads;
} litmus;

/* In how many seeds out[0] and out[1] were these after one launch. */
static uint32_t count(litmus t, uint32_t weak, uint32_t first, uint32_t second) {
    uint32_t n = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = WH_SIM_RANDOM;
        o.seed = seed;
        o.weak = weak;
        wh_device *d = open_with(&o);
        uint32_t *words = take(d, 1024);
        const litmus_args a = {words, words + 64, words + 128, words + 192, t.which};
        const wh_launch l = grid(d, t.blocks, t.threads);
        assert_int_equal(t.kernel(&l, &a), WH_OK);
        n += a.out[0] == first && a.out[1] == second;
        wh_device_close(d);
    }
    return n;
}

static void test_message(void **state) {
    (void)state;
    static const struct {
        uint32_t value, allowed[3]; /* by WH_SIM_WEAK_* */
    } cases[] = {{1, {0, 1, 1}}, {1, {0, 0, 0}}, {1, {0, 1, 1}}, {1, {0, 0, 0}},
                 {1, {0, 1, 1}}, {2, {0, 0, 0}}, {1, {0, 0, 0}}, {2, {0, 0, 1}}};
    for (uint32_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const uint32_t n = count((litmus){message, i / 2, 2, 1}, 1 + i % 2, cases[i / 2].value, 0);
        if ((n != 0) != cases[i / 2].allowed[1 + i % 2]) {
            fail_msg("message %u, weak %u: an old y after a new x %u times", (unsigned)i / 2,
                     (unsigned)(1 + i % 2), (unsigned)n);
        }
    }
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(count((litmus){message, i, 2, 1}, 0, cases[i].value, 0),
                         0); /* not without */
    }
}

static void test_buffering(void **state) {
    (void)state;
    assert_int_equal(count((litmus){buffering, 0, 2, 1}, 0, 0, 0), 0);
    for (uint32_t weak = 1; weak <= 2; weak++) {
        assert_true(count((litmus){buffering, 0, 2, 1}, weak, 0, 0) > 0);
        assert_int_equal(count((litmus){buffering, 1, 2, 1}, weak, 0, 0), 0);
    }
}

static void test_coherence(void **state) {
    (void)state;
    assert_int_equal(count((litmus){coherence, 0, 2, 1}, 1, 0, 0), SEEDS);
    assert_int_equal(count((litmus){coherence, 0, 2, 1}, 2, 0, 0), SEEDS);
}

static void test_barriers(void **state) {
    (void)state;
    for (uint32_t weak = 1; weak <= 2; weak++) {
        assert_true(count((litmus){barrier, 0, 1, 2}, weak, 1, 0) > 0);
        assert_int_equal(count((litmus){barrier, 1, 1, 2}, weak, 1, 1), SEEDS);
        assert_int_equal(count((litmus){barrier, 2, 1, 2}, weak, 1, 1), SEEDS);
    }
}

static void test_together(void **state) {
    (void)state;
    for (uint32_t weak = 1; weak <= 2; weak++) {
        assert_true(count((litmus){together, 0, 2, 2}, weak, 1, 0) > 0);
        assert_int_equal(count((litmus){together, 1, 2, 2}, weak, 1, 0), 0);
    }
}

static void test_waits(void **state) {
    (void)state;
    assert_int_equal(count((litmus){waits, 0, 2, 1}, 1, 1, 0), SEEDS);
    assert_int_equal(count((litmus){waits, 0, 2, 1}, 2, 1, 0), SEEDS);
}

/* What the host stores between launches, and a launch before, is seen at once. */
WH_KERNEL(add_one, litmus_args, a) {
    a.out[0] = wh_load_u32_relaxed(a.x);
    wh_store_u32_relaxed(a.x, a.out[0] + 1);
}

static void test_launches(void **state) {
    (void)state;
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = WH_SIM_RANDOM;
    o.weak = 1;
    wh_device *d = open_with(&o);
    uint32_t *words = take(d, 1024);
    const litmus_args a = {words, words + 64, words + 128, words + 192, 0};
    const wh_launch l = grid(d, 1, 1);
    for (uint32_t i = 0; i < 100; i++) {
        const uint32_t before = *a.x;
        assert_int_equal(add_one(&l, &a), WH_OK);
        assert_int_equal(a.out[0], before);
        *a.x += i % 3;
    }
    wh_device_close(d);
}

/* Same seed, same values; and a record has them. */
static void test_repeats(void **state) {
    (void)state;
    char schedule[64];
    (void)snprintf(schedule, sizeof schedule, "/tmp/wh_weak_%ld.txt", (long)getpid());
    uint32_t old = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        uint32_t out[3][2];
        for (uint32_t turn = 0; turn < 3; turn++) {
            wh_sim_options o;
            memset(&o, 0, sizeof o);
            o.policy = WH_SIM_RANDOM;
            o.seed = turn < 2 ? seed : 99999;
            o.weak = turn < 2 ? 1 + (uint32_t)(seed % 2) : 0;
            o.record = turn == 1 ? schedule : NULL;
            o.replay = turn == 2 ? schedule : NULL;
            wh_device *d = open_with(&o);
            uint32_t *words = take(d, 1024);
            const litmus_args a = {words, words + 64, words + 128, words + 192, 0};
            const wh_launch l = grid(d, 2, 1);
            assert_int_equal(message(&l, &a), WH_OK);
            memcpy(out[turn], a.out, sizeof out[turn]);
            wh_device_close(d);
        }
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        assert_memory_equal(out[0], out[2], sizeof out[0]);
        old += out[0][0] == 1 && out[0][1] == 0;
    }
    assert_true(old > 0);
    (void)remove(schedule);
}

int main(void) {
#ifdef WH_TSAN
    return 77; /* ThreadSanitizer has no such memory */
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message),   cmocka_unit_test(test_buffering),
        cmocka_unit_test(test_coherence), cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_together),  cmocka_unit_test(test_waits),
        cmocka_unit_test(test_launches),  cmocka_unit_test(test_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* calls.c: calls that the threads of a block, or the lanes of a warp, make together: one block of
 * memory for all of them, usable by all of them, and zeros. */
#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

#define HEAP_BYTES ((uint64_t)2 << 20)

typedef struct fixture {
    wh_device *device;
    wh_heap *heap;
    wh_heap_ref handle;
} fixture;

static void set_up(fixture *f, uint32_t policy, uint64_t seed) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    f->device = open_policy((wh_sim_policy)policy, seed);
    o.device = f->device;
    o.bytes = HEAP_BYTES;
    assert_int_equal(wh_heap_create(&f->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(f->heap, &f->handle), WH_OK);
}

/* The heap is sound, and nothing is left in it. */
static void tear_down(fixture *f) {
    wh_stats s;
    wh_report r;
    assert_int_equal(wh_heap_check(f->heap, &r), WH_OK);
    assert_int_equal(wh_heap_get_stats(f->heap, &s), WH_OK);
    assert_int_equal(s.live_blocks, 0);
    assert_int_equal(s.bad_frees, 0);
    wh_heap_destroy(f->heap);
    wh_device_close(f->device);
}

/* --- one block for a thread block -------------------------------------------------------- */

typedef struct share_args {
    wh_heap_ref heap;
    uint64_t *first; /* by thread block: what its thread 0 got */
    uint32_t *wrong;
    uint32_t rounds;
    int apart; /* lanes of a warp come to the calls in two parts */
} share_args;

#define WRONG_IF(cond)                      \
    do {                                    \
        if (cond) {                         \
            wh_add_u32_relaxed(a.wrong, 1); \
        }                                   \
    } while (0)

WH_KERNEL(share, share_args, a) {
    const uint32_t t = wh_thread_in_block(), n = wh_block_threads();
    for (uint32_t r = 0; r < a.rounds; r++) {
        uint32_t *p;
        if (a.apart && t % 3 == 1) {
            wh_backoff(t % 5);
            p = (uint32_t *)wh_malloc_block(a.heap, n * sizeof *p);
        } else {
            p = (uint32_t *)wh_malloc_block(a.heap, n * sizeof *p);
        }
        WRONG_IF(p == NULL);
        if (t == 0) {
            wh_store_u64_relaxed(&a.first[wh_block_id()], (uint64_t)(uintptr_t)p);
        }
        wh_syncthreads();
        WRONG_IF(wh_load_u64_relaxed(&a.first[wh_block_id()]) != (uint64_t)(uintptr_t)p);
        if (p != NULL) {
            p[t] = t * 3 + r + wh_block_id();
            wh_syncthreads();
            WRONG_IF(p[(t + 7) % n] != (t + 7) % n * 3 + r + wh_block_id());
        }
        /* No barrier here: the free has to wait for those that still read. */
        if (a.apart && t % 2 == 1) {
            wh_free_block(a.heap, p);
        } else {
            wh_free_block(a.heap, p);
        }
    }
    wh_free_block(a.heap, NULL);
}

static void share_with(fixture *f, const wh_launch *l, int apart) {
    share_args a = {f->handle, take(f->device, 16 * sizeof(uint64_t)),
                    take(f->device, sizeof(uint32_t)), 3, apart};
    assert_int_equal(share(l, &a), WH_OK);
    assert_int_equal(*a.wrong, 0);
    assert_int_equal(wh_device_free(f->device, a.first), WH_OK);
    assert_int_equal(wh_device_free(f->device, a.wrong), WH_OK);
}

static void test_block(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            static const uint32_t threads[] = {1, 2, 31, 32, 33, 64, 100, 256};
            fixture f;
            set_up(&f, policy, seed);
            for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
                const wh_launch l = grid(f.device, 4, threads[i]);
                share_with(&f, &l, i % 2 == seed % 2);
            }
            wh_launch l = grid(f.device, 2, 8);
            l.threads_y = 5, l.threads_z = 3, l.blocks_y = 3;
            share_with(&f, &l, seed % 2 == 0);
            tear_down(&f);
        }
    }
}

/* Thread blocks from one thread to 1024, around the sizes of warps in particular. */
static void test_sizes(void **state) {
    fixture f;
    (void)state;
    set_up(&f, WH_SIM_ROUND_ROBIN, 0);
    for (uint32_t n = 1; n <= 1024; n += n < 70 || n > 1020 ? 1 : 13) {
        const wh_launch l = grid(f.device, 1, n);
        share_with(&f, &l, n % 2 == 0);
    }
    tear_down(&f);
}

typedef struct scarce_args {
    wh_heap_ref heap;
    uint32_t *wrong, *got;
    size_t bytes; /* a large part of the heap */
} scarce_args;

/* Thread blocks that use the same memory in turn: none gets it while threads of the one before
 * still read. */
WH_KERNEL(take_turns, scarce_args, a) {
    const uint32_t t = wh_thread_in_block(), n = wh_block_threads();
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t *p = (uint32_t *)wh_malloc_block(a.heap, a.bytes);
        if (p != NULL) {
            p[t] = wh_block_id() * n + t;
            wh_syncthreads();
            wh_backoff(t / 32 * 5); /* other warps are late */
            WRONG_IF(p[(t + 40) % n] != wh_block_id() * n + (t + 40) % n);
            wh_add_u32_relaxed(a.got, 1);
        }
        wh_free_block(a.heap, p);
    }
}

/* When a thread is back from the free the memory is free, whoever did it. */
WH_KERNEL(have_again, scarce_args, a) {
    void *p = wh_malloc_block(a.heap, a.bytes);
    wh_free_block(a.heap, p);
    WRONG_IF(p == NULL);
    if (wh_thread_in_block() == wh_block_threads() - 1) {
        void *q = wh_malloc(a.heap, a.bytes);
        WRONG_IF(q == NULL);
        wh_free(a.heap, q);
    }
}

static void test_reuse(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            fixture f;
            set_up(&f, policy, seed);
            uint32_t *counts = take(f.device, 2 * sizeof *counts);
            scarce_args a = {f.handle, counts, counts + 1, HEAP_BYTES / 3};
            const wh_launch many = grid(f.device, 12, 96), one = grid(f.device, 1, 80);
            assert_int_equal(take_turns(&many, &a), WH_OK);
            assert_true(counts[1] >= 96);
            a.bytes = HEAP_BYTES * 2 / 3;
            assert_int_equal(have_again(&one, &a), WH_OK);
            assert_int_equal(counts[0], 0);
            assert_int_equal(wh_device_free(f.device, counts), WH_OK);
            tear_down(&f);
        }
    }
}

/* --- zeros ----------------------------------------------------------------------------- */

typedef struct zero_args {
    wh_heap_ref heap;
    uint32_t *wrong, *null;
    size_t count, size;
} zero_args;

WH_FN int is_zero(const unsigned char *p, size_t n) {
    unsigned char all = 0;
    for (size_t i = 0; i < n; i++) {
        all |= p[i];
    }
    return all == 0;
}

WH_FN void fill(unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = 0xee;
    }
}

/* Leaves the memory full of something, so that zeros are somebody's doing. */
WH_KERNEL(soil, zero_args, a) {
    const size_t n = a.count * a.size;
    unsigned char *p = (unsigned char *)wh_malloc(a.heap, n);
    if (p != NULL) {
        fill(p, n);
    }
    wh_syncthreads();
    wh_free(a.heap, p);
}

WH_KERNEL(zero_block, zero_args, a) {
    const size_t n = a.count * a.size;
    unsigned char *p = (unsigned char *)wh_calloc_block(a.heap, a.count, a.size);
    if (p == NULL) {
        wh_add_u32_relaxed(a.null, 1);
    } else {
        WRONG_IF(!is_zero(p, n));
        wh_syncthreads();
        if (wh_thread_in_block() == 0) {
            fill(p, n);
        }
    }
    wh_free_block(a.heap, p);
}

/* Of each warp the lanes with a bit in mask and those without make a call each. */
WH_KERNEL(zero_warp, zero_args, a) {
    const size_t n = a.count * a.size;
    const uint32_t left = wh_block_threads() - wh_thread_in_block() / 32 * 32;
    const wh_mask warp = left < 32 ? (1u << left) - 1 : WH_FULL_WARP;
    const wh_mask odd = warp & 0x9249249au;
    const wh_mask mask = odd >> wh_lane_id() & 1u ? odd : warp & ~odd;
    unsigned char *p = (unsigned char *)wh_calloc_warp(a.heap, mask, a.count, a.size);
    if (p == NULL) {
        wh_add_u32_relaxed(a.null, 1);
    } else {
        WRONG_IF(!is_zero(p, n));
        wh_syncwarp(mask);
        if (wh_lane_id() == wh_mask_leader(mask)) {
            fill(p, n);
        }
    }
    wh_free_warp(a.heap, mask, p);
}

/* Whether each of the threads got a block. */
static void zero_with(fixture *f, const wh_launch *l, size_t count, size_t size, uint32_t nulls) {
    uint32_t *counts = take(f->device, 2 * sizeof *counts);
    zero_args a = {f->handle, counts, counts + 1, count, size};
    const wh_launch all = grid(f->device, 2, 64);
    if (nulls == 0) {
        assert_int_equal(soil(&all, &a), WH_OK);
    }
    assert_int_equal(zero_block(l, &a), WH_OK);
    assert_int_equal(zero_warp(l, &a), WH_OK);
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[1], 2 * nulls);
    assert_int_equal(wh_device_free(f->device, counts), WH_OK);
}

static void test_zeros(void **state) {
    static const size_t sizes[][2] = {{1, 1}, {3, 5}, {1, 16}, {33, 7}, {256, 8}, {1000, 3}};
    static const uint32_t threads[] = {1, 5, 32, 50, 96};
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        fixture f;
        set_up(&f, (uint32_t)(seed % N_POLICIES), seed);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const uint32_t n = threads[(i + seed) % 5];
            const wh_launch l = grid(f.device, 3, n);
            zero_with(&f, &l, sizes[i][0], sizes[i][1], 0);
            zero_with(&f, &l, 0, 8, 3 * n);
            zero_with(&f, &l, SIZE_MAX / 8 + 2, 8, 3 * n);
            zero_with(&f, &l, 1, HEAP_BYTES, 3 * n);
        }
        tear_down(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

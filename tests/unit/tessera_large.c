/* tessera_large.c: slots of more than a chunk: where a heap is full of them, and one comes back,
 * the next request gets it. Lists of full slabs hide such a slot from those who look at a few. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

typedef struct large_args {
    wh_heap_ref heap;
    void **p;
    uint64_t *n, *failed;
    uint64_t bytes, most, rounds;
} large_args;

WH_KERNEL(fill, large_args, a) {
    for (;;) {
        void *p = wh_malloc(a.heap, a.bytes);
        if (p == NULL) {
            break;
        }
        const uint64_t k = wh_fetch_add_u64_relaxed(a.n, 1);
        if (k < a.most) {
            a.p[k] = p;
        }
    }
}

WH_FN void forget_hints(wh_heap_ref h) {
    for (uint32_t c = 0; c < WH_TESSERA_HINTS * WH_TESSERA_CLASSES; c++) {
        h.shards[0].cursors[c / WH_TESSERA_HINTS].hints[c % WH_TESSERA_HINTS] = 0;
    }
}

/* One lane frees a block, and has it back, or another one. */
WH_KERNEL(swap_one, large_args, a) {
    uint32_t random = 1;
    for (uint64_t k = 0; wh_thread_id() == 0 && k < a.rounds; k++) {
        random = random * 1664525u + 1013904223u;
        void **at = &a.p[(random >> 8) % *a.n];
        wh_free(a.heap, *at);
        *at = NULL;
        forget_hints(a.heap);
        *at = wh_malloc(a.heap, a.bytes);
        *a.failed += *at == NULL;
    }
}

/* One lane takes blocks of one size, and frees one of these each time that another size, of as many
 * chunks, has just been told NULL: that answer speaks of its own class. */
WH_KERNEL(two_sizes, large_args, a) {
    const uint64_t other = a.bytes + 2048;
    uint32_t random = 1;
    if (wh_thread_id() != 0) {
        return;
    }
    for (*a.n = 0; *a.n < a.most / 2; *a.n += 1) {
        a.p[*a.n] = wh_malloc(a.heap, a.bytes);
    }
    while (wh_malloc(a.heap, other) != NULL) {
    }
    for (uint64_t k = 0; k < a.rounds; k++) {
        random = random * 1664525u + 1013904223u;
        void **at = &a.p[(random >> 8) % *a.n];
        wh_free(a.heap, *at);
        *a.failed += wh_malloc(a.heap, other) != NULL; /* it has no slot, nor is there a run */
        forget_hints(a.heap);
        *at = wh_malloc(a.heap, a.bytes);
        *a.failed += *at == NULL;
    }
}

/* The same as swap_one by many lanes, of blocks of their own. NULL is no failure: others may have
 * it. But what is free in the end is there. */
WH_KERNEL(swap_many, large_args, a) {
    const uint64_t i = wh_thread_id();
    for (uint64_t k = 0; i < *a.n && k < a.rounds; k++) {
        wh_free(a.heap, a.p[i]);
        a.p[i] = wh_malloc(a.heap, a.bytes - 1000 * (k % 2));
    }
}

static void one_heap(uint64_t seed, uint64_t bytes, uint32_t shards) {
    large_args a;
    wh_stats s;
    wh_report r;
    wh_device *d = open_policy(WH_SIM_RANDOM, seed);
    wh_heap *heap = make_heap_of(d, 0, 36 << 20, shards, &a.heap);
    a.bytes = bytes;
    a.most = (36 << 20) / bytes + 1;
    a.p = take(d, a.most * sizeof *a.p);
    a.n = take(d, sizeof *a.n);
    a.failed = take(d, sizeof *a.failed);
    *a.n = *a.failed = 0;
    a.rounds = 100;
    wh_launch l = {d, 1, 64, NULL};
    assert_int_equal(fill(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(d), WH_OK);
    const uint64_t n = *a.n;
    assert_true(n <= a.most && n * bytes > (36u << 20) * 8ull / 10);
    if (shards == 1) {
        assert_int_equal(swap_one(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(d), WH_OK);
        assert_int_equal(*a.failed, 0);
    }
    l.blocks = 2;
    l.threads = 64;
    a.rounds = 6;
    assert_int_equal(swap_many(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(d), WH_OK);
    uint64_t live = 0;
    for (uint64_t k = 0; k < n; k++) {
        live += a.p[k] != NULL;
    }
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    assert_int_equal(s.live_blocks, live);
    assert_int_equal(s.bad_frees, 0);
    assert_int_equal(wh_heap_check(heap, &r), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

static void test_one_slot_left(void **state) {
    (void)state;
    const uint64_t sizes[] = {16400, 17000, 33000, 100000, 250000};
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        for (uint32_t i = 0; i < 5; i++) {
            one_heap(seed, sizes[i], seed % 2 ? 1 : 3);
        }
    }
}

static void test_another_class_has_one(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        large_args a;
        wh_device *d = open_policy(WH_SIM_RANDOM, seed);
        wh_heap *heap = make_heap_of(d, 0, 36 << 20, 1, &a.heap);
        a.bytes = 17000 + 1000 * seed;
        a.most = (36 << 20) / a.bytes;
        a.p = take(d, a.most * sizeof *a.p);
        a.n = take(d, sizeof *a.n);
        a.failed = take(d, sizeof *a.failed);
        *a.failed = 0;
        a.rounds = 30;
        const wh_launch l = {d, 1, 32, NULL};
        assert_int_equal(two_sizes(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(d), WH_OK);
        assert_int_equal(*a.failed, 0);
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
}

/* Each thread takes a block, and all go back. */
WH_KERNEL(take_all, large_args, a) {
    a.p[wh_thread_id()] = wh_malloc(a.heap, a.bytes);
    wh_add_u64_relaxed(a.failed, a.p[wh_thread_id()] == NULL);
}
WH_KERNEL(free_all, large_args, a) {
    wh_free(a.heap, a.p[wh_thread_id()]);
}
WH_KERNEL(read_next, large_args, a) {
    *a.n = wh_tessera_header_(*wh_tessera_core_of_(a.heap))->run_next;
}

/* Slabs come from the back of the heap, and what has been given back is looked for there again, not
 * by a search of all of it: that took 560 times as long. */
static void test_back_again(void **state) {
    (void)state;
    const uint64_t sizes[] = {20000, 100000, 250000};
    for (uint32_t i = 0; i < 3; i++) {
        large_args a;
        memset(&a, 0, sizeof a);
        wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, i);
        wh_heap *heap = make_heap_of(d, 0, 64 << 20, 2, &a.heap);
        a.bytes = sizes[i];
        a.p = take(d, 2048 * sizeof *a.p);
        a.n = take(d, sizeof *a.n);
        a.failed = take(d, sizeof *a.failed);
        const uint32_t n = (uint32_t)((24u << 20) / a.bytes);
        const wh_launch l = {d, n / 32 + 1, 32, NULL}, one = {d, 1, 1, NULL};
        assert_int_equal(take_all(&l, &a), WH_OK);
        assert_int_equal(read_next(&one, &a), WH_OK);
        const uint64_t taken = *a.n;
        assert_int_equal(free_all(&l, &a), WH_OK);
        assert_int_equal(read_next(&one, &a), WH_OK);
        assert_int_equal(wh_device_sync(d), WH_OK);
        assert_int_equal(*a.failed, 0);
        assert_true(*a.n < taken); /* cursors keep some slabs */
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_slot_left),
                                       cmocka_unit_test(test_another_class_has_one),
                                       cmocka_unit_test(test_back_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

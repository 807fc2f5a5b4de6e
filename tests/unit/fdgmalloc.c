/* fdgmalloc.c: what only this allocator can do: all blocks of a warp are freed together, and what
 * one warp has freed serves another. */
#include "sim/sim_test.h"

#include "warpheap/detail/alloc/fdgmalloc/fdgmalloc.h"
#include "warpheap/heap.h"

#define THREADS 48u /* a whole warp, and half of one */
#define HELD 3u

typedef struct call {
    wh_fdgmalloc_ref heap;
    uint32_t *wrong, *nulls;
    uint32_t seed, rounds, most, tidies;
} call;

WH_FN uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* In each round a lane takes up to HELD blocks, apart from the others of its warp, fills them and
 * looks at them again; then the warp frees all. */
WH_KERNEL(rounds, call, a) {
    const uint32_t self = (uint32_t)wh_thread_id();
    const wh_mask warp = wh_thread_in_block() < 32 ? WH_FULL_WARP : WH_FULL_WARP >> (64 - THREADS);
    uint32_t random = a.seed + self * 7919u;
    for (uint32_t round = 0; round < a.rounds; round++) {
        unsigned char *held[HELD];
        uint32_t sizes[HELD];
        const uint32_t n = draw(&random) % (HELD + 1);
        for (uint32_t k = 0; k < n; k++) {
            sizes[k] = 1 + draw(&random) % a.most;
            held[k] = (unsigned char *)wh_fdgmalloc_malloc(a.heap, wh_activemask(), sizes[k]);
            wh_add_u32_relaxed(a.nulls, held[k] == NULL);
            for (uint32_t b = 0; held[k] != NULL && b < sizes[k]; b++) {
                held[k][b] = (unsigned char)(self + round + k);
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            for (uint32_t b = 0; held[k] != NULL && b < sizes[k]; b++) {
                wh_add_u32_relaxed(a.wrong, held[k][b] != (unsigned char)(self + round + k));
            }
        }
        wh_syncwarp(warp);
        if (a.tidies || round + 1 == a.rounds) {
            wh_fdgmalloc_tidy_up(a.heap, warp);
        }
    }
}

/* Four blocks of two warps each, in a heap with so many super blocks of 1 KiB. */
static void check_rounds(uint64_t seed, uint32_t superblocks, uint32_t most, int is_ample) {
    wh_heap_options o;
    wh_fdgmalloc_options own = WH_FDGMALLOC_OPTIONS;
    wh_heap *heap = NULL;
    wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    memset(&o, 0, sizeof o);
    own.superblock_bytes = 1024;
    own.warps = 8;
    o.device = device;
    o.allocator = "fdgmalloc";
    o.options = &own.head;
    o.bytes = superblocks * (uint64_t)(1024 + 16) + 1024;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    uint32_t *counts = take(device, 8);
    call a;
    a.wrong = counts;
    a.nulls = counts + 1;
    a.rounds = 6;
    a.most = most;
    a.tidies = (uint32_t)is_ample;
    assert_int_equal(
        wh_heap_handle_of(heap, "fdgmalloc", wh_fdgmalloc_layout(), &a.heap, sizeof a.heap), WH_OK);
    for (uint32_t pass = 0; pass < 2; pass++) { /* also with what the launch before has left */
        const wh_launch launch = grid(device, 4, THREADS);
        wh_stats s;
        a.seed = (uint32_t)seed * 31u + pass;
        assert_int_equal(rounds(&launch, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
        assert_int_equal(s.used_bytes, 0);
        assert_int_equal(s.live_blocks, 0);
        assert_true(s.largest_free == s.heap_bytes - s.metadata_bytes);
        assert_int_equal(s.failed, counts[1]);
    }
    assert_int_equal(counts[0], 0);
    assert_true(!is_ample || counts[1] == 0);
    wh_heap_destroy(heap);
    assert_int_equal(wh_device_free(device, counts), WH_OK);
    wh_device_close(device);
}

/* Super blocks for one round of all warps: without tidy-up there would be too few by far. */
static void test_ample(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        check_rounds(seed, 8 * 32 * HELD * 2, 1000, 1);
        check_rounds(seed, 8 * 32 * HELD * 4, 3000, 1); /* runs, too: these may leave gaps */
    }
}

/* Too few: some requests fail, and nothing is lost. */
static void test_scarce(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        check_rounds(seed, 40, 1500, 0);
        check_rounds(seed, 9, 100, 0);
    }
}

static void test_sizes(void **state) {
    wh_fdgmalloc_ref h;
    (void)state;
    memset(&h, 0, sizeof h);
    h.unit_log2 = 10;
    assert_int_equal(wh_fdgmalloc_size_(h, 0), 0);
    assert_int_equal(wh_fdgmalloc_size_(h, 1), 16);
    assert_int_equal(wh_fdgmalloc_size_(h, 17), 32);
    assert_int_equal(wh_fdgmalloc_size_(h, 1024), 1024);
    assert_int_equal(wh_fdgmalloc_size_(h, 1025), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_ample),
                                       cmocka_unit_test(test_scarce)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tessera_twice.c: two lanes free the same block at the same time: one of the frees is counted as
 * bad, and the heap stays sound, whatever slab the block was of and whichever comes last. So do
 * lanes of one warp in one call; and frees that come when the slab is another one, or none. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define BLOCKS 64u

typedef struct twice_args {
    wh_heap_ref heap;
    void **p;
    uint64_t bytes;
} twice_args;

WH_KERNEL(take_blocks, twice_args, a) {
    a.p[wh_thread_id()] = wh_malloc(a.heap, a.bytes);
}

/* Threads k and k + BLOCKS free block k. */
WH_KERNEL(free_twice, twice_args, a) {
    wh_free(a.heap, a.p[wh_thread_id() % BLOCKS]);
}

static void test_two_frees(void **state) {
    (void)state;
    static const uint32_t sizes[] = {16, 48, 64, 100, 240, 256, 1000, 3000, 9000, 33000};
    for (uint64_t seed = 1; seed <= 4 * n_seeds(); seed++) {
        for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            twice_args a;
            wh_stats stats;
            memset(&a, 0, sizeof a);
            memset(&stats, 0, sizeof stats);
            wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
            wh_heap *heap = make_heap_of(device, 0, 4 << 20, 1 + (uint32_t)(seed & 1), &a.heap);
            const wh_launch once = {device, 2, 32, NULL}, again = {device, 4, 32, NULL};
            a.p = take(device, BLOCKS * sizeof *a.p);
            a.bytes = sizes[k];
            assert_int_equal(take_blocks(&once, &a), WH_OK);
            assert_int_equal(free_twice(&again, &a), WH_OK);
            assert_int_equal(wh_device_sync(device), WH_OK);
            assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
            assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
            assert_int_equal(stats.live_blocks, 0);
            assert_int_equal(stats.bad_frees, BLOCKS);
            wh_heap_destroy(heap);
            wh_device_close(device);
        }
    }
}

/* --- a second free of blocks whose chunks are in the pool ------------------------------------ */

#define OLD 1024u

WH_KERNEL(take_old, twice_args, a) {
    for (uint32_t i = 0; i < OLD; i++) {
        a.p[i] = wh_malloc(a.heap, a.bytes);
    }
}

WH_KERNEL(give_old, twice_args, a) {
    for (uint32_t i = 0; i < OLD; i++) {
        wh_free(a.heap, a.p[i]);
    }
}

/* A warp's own slab, of one chunk. */
WH_KERNEL(take_slab, twice_args, a) {
    a.p[wh_thread_id()] = wh_malloc_lanes(a.heap, WH_FULL_WARP, 512);
}

/* Of an old slab only the first chunks have new owners, who have freed nothing: the others are
 * free. What is freed there again is counted, and changes nothing. */
static void test_old_slabs(void **state) {
    (void)state;
    static const uint32_t sizes[] = {700, 1050, 3000, 5000, 9000};
    for (uint32_t k = 0; k < 5 * 9; k++) {
        twice_args a;
        wh_stats stats;
        uint64_t wanted = 0;
        memset(&a, 0, sizeof a);
        memset(&stats, 0, sizeof stats);
        wh_device *device = open_policy(WH_SIM_RANDOM, k);
        wh_heap *heap = make_heap_of(device, 0, 16 << 20, 1, &a.heap);
        const wh_launch one = {device, 1, 1, NULL}, warps = {device, 1 + k / 5, 32, NULL};
        void **old = take(device, OLD * sizeof *old), **now = take(device, 288 * sizeof *now);
        a.bytes = sizes[k % 5];
        a.p = old;
        assert_int_equal(take_old(&one, &a), WH_OK);
        assert_int_equal(give_old(&one, &a), WH_OK);
        a.p = now;
        assert_int_equal(take_slab(&warps, &a), WH_OK);
        for (uint32_t i = 0; i < OLD; i++) { /* those in chunks that somebody has are no concern */
            const uint64_t chunk =
                (uint64_t)((unsigned char *)old[i] - a.heap.base) >> a.heap.chunk_log2;
            old[i] = wh_veb_contains(wh_tessera_pool_(a.heap.core), chunk) ? old[i] : NULL;
            wanted += old[i] != NULL;
        }
        a.p = old;
        assert_true(wanted != 0);
        assert_int_equal(give_old(&one, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.bad_frees, wanted);
        assert_int_equal(stats.live_blocks, 32 * (1 + k / 5));
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* --- a second free within a full warp --------------------------------------------------------- */

/* Lanes 2 k and 2 k + 1 free block k. */
WH_KERNEL(free_pairs, twice_args, a) {
    wh_free_lanes(a.heap, WH_FULL_WARP, a.p[wh_lane_id() / 2]);
}

static void test_pairs_of_a_warp(void **state) {
    (void)state;
    static const uint32_t sizes[] = {16, 64, 240, 512, 3000};
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        twice_args a;
        wh_stats stats;
        memset(&a, 0, sizeof a);
        memset(&stats, 0, sizeof stats);
        wh_device *device = open_policy(WH_SIM_RANDOM, k);
        wh_heap *heap = make_heap_of(device, 0, 2 << 20, 1, &a.heap);
        const wh_launch warp = {device, 1, 32, NULL};
        a.p = take(device, BLOCKS * sizeof *a.p);
        a.bytes = sizes[k];
        assert_int_equal(take_blocks(&warp, &a), WH_OK);
        assert_int_equal(free_pairs(&warp, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.live_blocks, 16);
        assert_int_equal(stats.bad_frees, 16);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* Of 32 blocks of one warp the first 16 are freed, and then all: 16 frees are bad ones, in words
 * in which others are good, and do not count as memory that has come back. */
WH_KERNEL(free_half, twice_args, a) {
    wh_free_lanes(a.heap, WH_FULL_WARP, wh_lane_id() < 16 ? a.p[wh_lane_id()] : NULL);
}
WH_KERNEL(free_warp, twice_args, a) {
    wh_free_lanes(a.heap, WH_FULL_WARP, a.p[wh_lane_id()]);
}

static void test_bytes_in_use(void **state) {
    (void)state;
    twice_args a;
    wh_stats stats;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&a, 0, sizeof a);
    memset(&o, 0, sizeof o);
    memset(&stats, 0, sizeof stats);
    o.device = open_policy(WH_SIM_RANDOM, 1);
    o.allocator = "tessera";
    o.bytes = 2 << 20;
    o.options = &own.head;
    own.track_peak = 1;
    own.shards = 1;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    const wh_launch warp = {o.device, 1, 32, NULL}, warps = {o.device, 2, 32, NULL};
    a.p = take(o.device, BLOCKS * sizeof *a.p);
    a.bytes = 48;
    assert_int_equal(take_blocks(&warp, &a), WH_OK);
    assert_int_equal(free_half(&warp, &a), WH_OK);
    assert_int_equal(free_warp(&warp, &a), WH_OK);
    assert_int_equal(take_blocks(&warps, &a), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
    assert_int_equal(stats.bad_frees, 16);
    assert_int_equal(stats.live_blocks, BLOCKS);
    assert_int_equal(stats.peak_bytes, BLOCKS * 48);
    wh_heap_destroy(heap);
    wh_device_close(o.device);
}

/* --- frees that come too late ---------------------------------------------- */

/* What a free has found behind its fetch_or of a word, whose tag it had read before (slab.h I4):
 * the word of a slab of another class loses the bit again; one that is GONE may keep it, since
 * nobody takes slots there. Both are bad frees, and nothing else follows. */
static void test_late_frees(void **state) {
    (void)state;
    twice_args a;
    wh_stats stats;
    memset(&a, 0, sizeof a);
    memset(&stats, 0, sizeof stats);
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = make_heap_of(device, 0, 2 << 20, 1, &a.heap);
    wh_tessera_shard *own = wh_tessera_shard_at_(a.heap.core, 0);
    const uint32_t c = wh_tessera_class_of(64), other = wh_tessera_class_of(256);
    const uint64_t tag = wh_tessera_header_(a.heap.core)->slab_tags[c], bit = 4;
    const uint64_t others = wh_tessera_word_of(other) | 1;
    uint64_t word = others | bit | wh_tessera_word_of(c);
    assert_int_equal(wh_tessera_freed_well_(own, &word, tag, others, bit, 0), 0);
    assert_int_equal(word & WH_TESSERA_SLOT_BITS, 1);
    word = WH_TESSERA_GONE | bit;
    assert_int_equal(wh_tessera_freed_well_(own, &word, tag, WH_TESSERA_GONE, bit, 0), 0);
    assert_true(wh_tessera_is_gone(word));
    assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
    assert_int_equal(stats.bad_frees, 2);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* Slabs of cursors that nobody has used, which go back to the pool when cursors are closed: what is
 * freed there was never given out. */
static void look_at_unused_slabs(uint64_t bytes) {
    twice_args a;
    wh_stats stats;
    uint64_t wanted = 0;
    memset(&a, 0, sizeof a);
    memset(&stats, 0, sizeof stats);
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = make_heap_of(device, 0, bytes, 1, &a.heap);
    const wh_tessera_core g = a.heap.core;
    const wh_launch one = {device, 1, 1, NULL};
    a.p = take(device, OLD * sizeof *a.p);
    memset(a.p, 0, OLD * sizeof *a.p);
    for (uint32_t k = 0; k < WH_TESSERA_CLASSES; k++) {
        (void)wh_tessera_close_(wh_tessera_core_of_(a.heap), 0, k);
    }
    for (uint32_t chunk = 0; chunk < OLD && chunk < g.n_chunks; chunk++) {
        if (wh_veb_contains(wh_tessera_pool_(g), chunk)) {
            a.p[chunk] = g.base + ((uint64_t)chunk << g.chunk_log2);
            wanted++;
        }
    }
    assert_int_equal(wanted, g.n_chunks < OLD ? g.n_chunks : OLD);
    assert_int_equal(give_old(&one, &a), WH_OK);
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
    assert_int_equal(stats.bad_frees, wanted);
    assert_int_equal(stats.live_blocks, 0);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

static void test_unused_slabs(void **state) {
    (void)state;
    for (uint64_t bytes = 1 << 20; bytes <= 64 << 20; bytes *= 2) {
        look_at_unused_slabs(bytes + bytes / 16); /* first spans have one slab, or more */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_frees),    cmocka_unit_test(test_pairs_of_a_warp),
        cmocka_unit_test(test_bytes_in_use), cmocka_unit_test(test_late_frees),
        cmocka_unit_test(test_unused_slabs), cmocka_unit_test(test_old_slabs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

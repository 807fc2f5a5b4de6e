/* peers.c: heaps that kernels of several simulated devices use at once: whom wh_heap_enable_peer
 * takes, and which kernels get the handle; that kernels of peers run together, with SMs of their
 * own device; blocks that one device allocates and the other frees; heaps that are extended, grow
 * or are checked; a kernel that fails; messages in weak memory; devices that go in any order. */
#include "unit/peers_message.h"

#include "warpheap/options.h"
#include "warpheap/records.h"
#include "warpheap/warpheap.h"

#define HEAP_BYTES ((uint64_t)8 << 20)
#define N 64u

static wh_device *open_sms(uint32_t n_sms, uint64_t seed) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.n_sms = n_sms;
    o.seed = seed;
    o.policy = WH_SIM_RANDOM;
    return open_with(&o);
}

static wh_heap *make_heap(wh_device *d, const char *allocator) {
    wh_heap_options o = {0};
    wh_heap *heap = NULL;
    o.device = d;
    o.bytes = HEAP_BYTES;
    o.allocator = allocator;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

typedef struct work_args {
    wh_heap_ref heap;
    uint64_t **blocks; /* N */
    uint32_t *words;
    uint64_t value;
} work_args;

static work_args args_of(const wh_heap *heap, uint64_t **blocks, uint32_t *words) {
    work_args a = {.blocks = blocks, .words = words, .value = 0};
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    return a;
}

WH_KERNEL(take_all, work_args, a) {
    for (uint64_t i = wh_thread_id(); i < N; i += wh_grid_threads()) {
        a.blocks[i] = (uint64_t *)wh_malloc(a.heap, 8 + i);
        if (a.blocks[i] != NULL) {
            *a.blocks[i] = a.value + i;
        }
    }
}

/* words[0]: blocks that are not as they were left. */
WH_KERNEL(give_all, work_args, a) {
    for (uint64_t i = wh_thread_id(); i < N; i += wh_grid_threads()) {
        wh_add_u32_relaxed(&a.words[0], a.blocks[i] == NULL || *a.blocks[i] != a.value + i);
        wh_free(a.heap, a.blocks[i]);
    }
}

/* Says that it is there, and waits for the other side. */
WH_KERNEL(meet, work_args, a) {
    wh_store_u32_release(&a.words[a.value], 1);
    for (uint32_t k = 0; wh_load_u32_acquire(&a.words[1 - a.value]) == 0; k++) {
        wh_backoff(k);
    }
}

/* Blocks of 64 KiB, more than the heap begins with; all of them are there at once. words: how many
 * are NULL, how many are not as they were left, lanes that have all of theirs. */
WH_KERNEL(outgrow, work_args, a) {
    uint64_t *mine[8];
    const uint64_t i = a.value * 100 + wh_thread_id();
    for (uint32_t k = 0; k < 8; k++) {
        mine[k] = (uint64_t *)wh_malloc(a.heap, 65536);
        wh_add_u32_relaxed(&a.words[0], mine[k] == NULL);
        if (mine[k] != NULL) {
            mine[k][0] = mine[k][8191] = i * 8 + k;
        }
    }
    wh_add_u32_relaxed(&a.words[2], 1);
    for (uint32_t k = 0; wh_load_u32_relaxed(&a.words[2]) < 32; k++) {
        wh_backoff(k);
    }
    for (uint32_t k = 0; k < 8; k++) {
        wh_add_u32_relaxed(&a.words[1], mine[k] != NULL && (mine[k][0] != i * 8 + k ||
                                                            mine[k][8191] != i * 8 + k));
        wh_free(a.heap, mine[k]);
    }
}

/* words[0]: the highest number of an SM. */
WH_KERNEL(highest_sm, work_args, a) {
    (void)wh_fetch_max_u32_relaxed(&a.words[0], wh_sm_id());
    wh_backoff(9);
}

/* Waits for a word that the other side never writes. */
WH_KERNEL(forsaken, work_args, a) {
    for (uint32_t k = 0; wh_load_u32_acquire(&a.words[1]) == 0; k++) {
        wh_backoff(k);
    }
}

WH_KERNEL(says_nothing, work_args, a) {
    wh_store_u32_release(&a.words[0], 1);
}

WH_KERNEL(trapping, work_args, a) {
    if (wh_thread_id() == a.value) {
        wh_trap("on purpose");
    }
}

static const char *without_peers(void) {
    for (uint32_t i = 0; wh_allocator_at(i) != NULL; i++) {
        const wh_allocator_info *info = wh_allocator_at(i);
        if ((info->caps & WH_CAP_PEERS) == 0 && (info->caps & WH_CAP_SIM) != 0) {
            return info->name;
        }
    }
    return NULL;
}

static void test_whom(void **state) {
    (void)state;
    wh_device *d = open_sms(4, 1), *peer = open_sms(4, 2);
    wh_heap *heap = make_heap(d, NULL);
    assert_int_equal(wh_heap_enable_peer(NULL, peer), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_enable_peer(heap, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_enable_peer(heap, d), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "no peer of itself"));
    assert_int_equal(wh_heap_peers(heap), 0);
    assert_int_equal(wh_heap_peers(NULL), 0);
    for (int i = 0; i < 2; i++) { /* again is no error */
        assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
        assert_int_equal(wh_heap_peers(heap), 1);
    }
    for (uint32_t i = 1; i < 32; i++) {
        wh_device *more = open_sms(1, i);
        assert_int_equal(wh_heap_enable_peer(heap, more), WH_OK);
        wh_device_close(more); /* the heap holds it */
    }
    wh_device *last = open_sms(1, 0);
    assert_int_equal(wh_heap_enable_peer(heap, last), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_peers(heap), 32);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    if (without_peers() != NULL) {
        heap = make_heap(d, without_peers());
        assert_int_equal(wh_heap_enable_peer(heap, peer), WH_UNSUPPORTED);
        assert_non_null(strstr(wh_last_error_text(), "one device"));
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
    }
    wh_device_close(last);
    wh_device_close(peer);
    wh_device_close(d);
}

/* Kernels without WH_PEERS, or from before there was such a thing, get the handle as long as there
 * is no peer. */
static void test_which_kernels(void **state) {
    (void)state;
    wh_device *d = open_sms(4, 1), *peer = open_sms(4, 2);
    wh_heap *heap = make_heap(d, NULL);
    wh_heap_ref ref;
    wh_handle_kind kind = {0};
    kind.struct_bytes = sizeof kind;
    kind.allocator = "tessera";
    kind.handle_bytes = sizeof ref;
    kind.layout = wh_tessera_layout();
    kind.version = WH_VERSION;
    kind.target = WH_TARGET_SIM;
    kind.checks = 1;
    wh_handle_kind old = kind;
    old.struct_bytes = offsetof(wh_handle_kind, peers);
    old.peers = 1; /* behind its end */
    assert_int_equal(wh_heap_copy_handle(heap, &kind, &ref), WH_OK);
    assert_int_equal(wh_heap_copy_handle(heap, &old, &ref), WH_OK);
    assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
    assert_int_equal(wh_heap_copy_handle(heap, &kind, &ref), WH_WRONG_BUILD);
    assert_non_null(strstr(wh_last_error_text(), "WH_PEERS"));
    assert_int_equal(wh_heap_copy_handle(heap, &old, &ref), WH_WRONG_BUILD);
    kind.peers = 1;
    assert_int_equal(wh_heap_copy_handle(heap, &kind, &ref), WH_OK);
    assert_int_equal(wh_heap_handle(heap, &ref), WH_OK); /* this file's kernels */
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(peer);
    wh_device_close(d);
}

/* Each waits for the other: neither may run to its end first. */
static void test_together(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        wh_device *d[2] = {open_sms(2, seed), open_sms(3, seed + 1)};
        wh_heap *heap = make_heap(d[0], NULL);
        void *stream[2];
        assert_int_equal(wh_heap_enable_peer(heap, d[1]), WH_OK);
        uint32_t *words = take(d[0], 2 * sizeof *words);
        work_args a = args_of(heap, NULL, words);
        for (a.value = 0; a.value < 2; a.value++) {
            wh_launch l = grid(d[a.value], 1, 1);
            assert_int_equal(wh_stream_create(d[a.value], &stream[a.value]), WH_OK);
            l.stream = stream[a.value];
            assert_int_equal(meet(&l, &a), WH_OK);
        }
        assert_int_equal(wh_device_sync(d[seed % 2]), WH_OK);
        assert_int_equal(words[0] + words[1], 2);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        assert_int_equal(wh_device_free(d[0], words), WH_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(wh_stream_destroy(d[i], stream[i]), WH_OK);
            wh_device_close(d[i]);
        }
    }
}

/* The peer has more SMs than the heap's device, and fewer. */
static void test_sms(void **state) {
    (void)state;
    for (uint32_t sms = 2; sms <= 7; sms += 5) {
        wh_device *d = open_sms(4, 1), *peer = open_sms(sms, 1);
        wh_heap *heap = make_heap(d, NULL);
        assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
        uint32_t *words = take(d, sizeof *words);
        const work_args a = args_of(heap, NULL, words);
        const wh_launch own = grid(d, 64, 1), its = grid(peer, 64, 1);
        assert_int_equal(highest_sm(&own, &a), WH_OK);
        assert_int_equal(words[0], 3);
        words[0] = 0;
        assert_int_equal(highest_sm(&its, &a), WH_OK);
        assert_int_equal(words[0], sms - 1);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        assert_int_equal(wh_device_free(d, words), WH_OK);
        wh_device_close(peer);
        wh_device_close(d);
    }
}

static uint64_t live(wh_heap *heap) {
    wh_stats s;
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    assert_int_equal(s.bad_frees, 0);
    return s.live_blocks;
}

/* from allocates, to frees; the queue of `to` runs when the heap is asked for its statistics. */
static void hand_over(wh_heap *heap, wh_device *from, wh_device *to, uint64_t value) {
    uint64_t **blocks = take(from, N * sizeof *blocks);
    uint32_t *words = take(to, sizeof *words);
    work_args a = args_of(heap, blocks, words);
    void *stream = NULL;
    a.value = value;
    const wh_launch l = grid(from, 4, 8);
    assert_int_equal(take_all(&l, &a), WH_OK);
    assert_int_equal(live(heap), N);
    wh_launch k = grid(to, 4, 8);
    assert_int_equal(wh_stream_create(to, &stream), WH_OK);
    k.stream = stream;
    assert_int_equal(give_all(&k, &a), WH_OK);
    assert_int_equal(live(heap), 0);
    assert_int_equal(words[0], 0);
    assert_int_equal(wh_stream_destroy(to, stream), WH_OK);
    assert_int_equal(wh_device_free(from, blocks), WH_OK);
    assert_int_equal(wh_device_free(to, words), WH_OK);
}

static void test_freed_there(void **state) {
    (void)state;
    wh_device *d = open_sms(4, 1), *peer = open_sms(6, 2);
    wh_heap *heap = make_heap(d, NULL);
    assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
    for (uint64_t k = 0; k < 4; k++) {
        hand_over(heap, k / 2 == 0 ? d : peer, k % 2 == 0 ? d : peer, k * 1000);
    }
    assert_int_equal(wh_heap_reset(heap), WH_OK);
    hand_over(heap, peer, d, 5);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(peer);
    wh_device_close(d);
}

/* A reserved heap, and a checked one, which has memory besides. */
static void test_kinds(void **state) {
    (void)state;
    for (int checked = 0; checked < 2; checked++) {
        wh_device *d = open_sms(4, 1), *peer = open_sms(6, 2);
        wh_heap_options o = {0};
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        wh_heap *heap = NULL;
        own.checked = (uint64_t)checked;
        o.options = &own.head;
        o.device = d;
        o.bytes = HEAP_BYTES;
        o.reserve_bytes = checked ? 0 : 4 * HEAP_BYTES;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
        hand_over(heap, d, peer, 1);
        if (!checked) {
            assert_int_equal(wh_heap_extend(heap, HEAP_BYTES), WH_OK);
            hand_over(heap, peer, d, 2);
            assert_int_equal(wh_heap_trim(heap, HEAP_BYTES, NULL), WH_OK);
        }
        hand_over(heap, peer, peer, 3);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(peer);
        wh_device_close(d);
    }
}

/* Lanes of both devices ask the host for memory, and use what the others have asked for. */
static void test_growth(void **state) {
    (void)state;
    wh_device *d[2] = {open_sms(4, 1), open_sms(6, 2)};
    wh_heap_options o = {0};
    wh_growth_options g = {0};
    wh_growth_info info;
    wh_heap *heap = NULL;
    void *streams[2];
    o.device = d[0];
    o.bytes = HEAP_BYTES;
    o.reserve_bytes = 8 * HEAP_BYTES;
    g.step_bytes = (uint64_t)1 << 20;
    g.ahead_bytes = 1; /* nothing */
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_enable_peer(heap, d[1]), WH_OK);
    assert_int_equal(wh_heap_growth_start(heap, &g), WH_OK);
    uint32_t *words = take(d[0], 3 * sizeof *words);
    work_args a = args_of(heap, NULL, words);
    for (a.value = 0; a.value < 2; a.value++) { /* 32 lanes, 16 MiB */
        wh_launch l = grid(d[a.value], 2, 8);
        assert_int_equal(wh_stream_create(d[a.value], &streams[a.value]), WH_OK);
        l.stream = streams[a.value];
        assert_int_equal(outgrow(&l, &a), WH_OK);
    }
    assert_int_equal(wh_device_sync(d[1]), WH_OK);
    assert_int_equal(words[0], 0);
    assert_int_equal(words[1], 0);
    assert_int_equal(wh_heap_growth_get_info(heap, &info), WH_OK);
    assert_true(info.requests > 0 && info.mapped_bytes > 2 * HEAP_BYTES);
    assert_int_equal(wh_heap_growth_stop(heap), WH_OK);
    assert_int_equal(live(heap), 0);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    assert_int_equal(wh_device_free(d[0], words), WH_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wh_stream_destroy(d[i], streams[i]), WH_OK);
        wh_device_close(d[i]);
    }
}

/* Whichever device is asked tells of a kernel that failed, and knows its text. */
static void test_failure(void **state) {
    (void)state;
    for (int by = 0; by < 4; by++) {
        wh_device *d[2] = {open_sms(4, 1), open_sms(6, 2)};
        wh_heap *heap = make_heap(d[0], NULL);
        void *stream = NULL;
        assert_int_equal(wh_heap_enable_peer(heap, d[1]), WH_OK);
        const work_args a = args_of(heap, NULL, NULL);
        wh_launch l = grid(d[by % 2], 2, 4);
        assert_int_equal(wh_stream_create(d[by % 2], &stream), WH_OK);
        l.stream = stream;
        assert_int_equal(trapping(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(d[by / 2]), WH_DEVICE_ERROR);
        for (int i = 0; i < 2; i++) {
            assert_non_null(strstr(wh_device_error_text(d[i]), "on purpose"));
            assert_int_equal(wh_device_sync(d[i]), WH_OK); /* told once */
        }
        assert_int_equal(wh_stream_destroy(d[by % 2], stream), WH_OK);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(d[1]);
        wh_device_close(d[0]);
    }
}

/* A kernel on one device waits for ever for one on the other. */
static void test_waits_for_ever(void **state) {
    (void)state;
    for (int by = 0; by < 2; by++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.step_budget = (uint64_t)1 << 30; /* of both: the time to wait depends on it */
        wh_device *d[2] = {open_with(&o), open_sms(2, 4)};
        wh_heap *heap = make_heap(d[0], NULL);
        wh_launch l[2] = {grid(d[0], 1, 32), grid(d[1], 1, 32)};
        uint32_t *words = take(d[0], 8);
        assert_int_equal(wh_heap_enable_peer(heap, d[1]), WH_OK);
        const work_args a = args_of(heap, NULL, words);
        assert_int_equal(wh_stream_create(d[0], &l[0].stream), WH_OK);
        assert_int_equal(wh_stream_create(d[1], &l[1].stream), WH_OK);
        assert_int_equal(says_nothing(&l[0], &a), WH_OK);
        assert_int_equal(forsaken(&l[1], &a), WH_OK);
        assert_int_equal(wh_device_sync(d[by]), WH_DEVICE_ERROR);
        for (int i = 0; i < 2; i++) {
            const char *error = wh_device_error_text(d[i]);
            assert_non_null(strstr(error, "kernel forsaken, block 0 thread "));
            assert_non_null(strstr(error, "livelock: 32 lanes of forsaken"));
        }
        assert_int_equal(words[0], 1);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(d[1]);
        wh_device_close(d[0]);
    }
}

/* Three devices, joined by two heaps, which go in any order; those that stay work on. */
static void test_order_of_ends(void **state) {
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int k = 0; k < 6; k++) {
        wh_device *d[3] = {open_sms(2, 1), open_sms(3, 2), open_sms(4, 3)};
        wh_heap *heap[2] = {make_heap(d[0], NULL), make_heap(d[2], NULL)};
        assert_int_equal(wh_heap_enable_peer(heap[0], d[1]), WH_OK);
        assert_int_equal(wh_heap_enable_peer(heap[1], d[1]), WH_OK);
        hand_over(heap[0], d[0], d[1], 7);
        hand_over(heap[1], d[1], d[2], 8);
        assert_int_equal(wh_heap_destroy(heap[k % 2]), WH_OK);
        assert_int_equal(wh_heap_destroy(heap[1 - k % 2]), WH_OK);
        for (int i = 0; i < 3; i++) {
            wh_device *gone = d[orders[k][i]];
            for (int j = i; j < 3; j++) {
                wh_heap *last = make_heap(d[orders[k][j]], NULL);
                hand_over(last, d[orders[k][j]], d[orders[k][j]], 9);
                assert_int_equal(wh_heap_destroy(last), WH_OK);
            }
            wh_device_close(gone);
        }
    }
}

/* peers_scope.c shows that these schedules would let it. */
static void test_message(void **state) {
    (void)state;
    assert_int_equal(late_messages(WH_SIM_WEAK_GPU, 40), 0);
    assert_int_equal(late_messages(WH_SIM_WEAK_FORMAL, 40), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whom),          cmocka_unit_test(test_which_kernels),
        cmocka_unit_test(test_together),      cmocka_unit_test(test_sms),
        cmocka_unit_test(test_freed_there),   cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_failure),       cmocka_unit_test(test_waits_for_ever),
        cmocka_unit_test(test_order_of_ends), cmocka_unit_test(test_growth),
        cmocka_unit_test(test_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

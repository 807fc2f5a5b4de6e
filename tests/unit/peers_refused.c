/* peers_refused.c: what wh_heap_enable_peer says no to, with which words, and that the heap is then
 * as before; and what sounds as if it were refused, but is not: heaps of each kind and allocator,
 * heaps that grow, heaps of two devices that are each other's peer. On simulated devices;
 * tests/standin has what GPUs refuse. */
#include "sim/sim_test.h"

#include "warpheap/options.h"
#include "warpheap/records.h"
#include "warpheap/warpheap.h"

#define MIB ((uint64_t)1 << 20)

static wh_device *open_seed(uint64_t seed) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.n_sms = 2 + (uint32_t)(seed % 3);
    o.seed = seed;
    o.policy = WH_SIM_RANDOM;
    return open_with(&o);
}

static wh_heap *make_heap(wh_heap_options *o, wh_device *d) {
    wh_heap *heap = NULL;
    o->device = d;
    o->bytes = o->bytes == 0 ? 8 * MIB : o->bytes;
    assert_int_equal(wh_heap_create(&heap, o), WH_OK);
    return heap;
}

static wh_heap *plain_heap(wh_device *d) {
    wh_heap_options o = {0};
    return make_heap(&o, d);
}

static void refused(wh_heap *heap, wh_device *device, wh_status status, const char *text) {
    const uint32_t before = wh_heap_peers(heap);
    assert_int_equal(wh_heap_enable_peer(heap, device), status);
    if (text == NULL) {
        assert_string_equal(wh_last_error_text(), "");
    } else if (strstr(wh_last_error_text(), text) == NULL) {
        fail_msg("\"%s\" does not say: %s", wh_last_error_text(), text);
    }
    assert_int_equal(wh_heap_peers(heap), before);
}

static void taken(wh_heap *heap, wh_device *device) {
    const uint32_t before = wh_heap_peers(heap);
    assert_int_equal(wh_heap_enable_peer(heap, device), WH_OK);
    assert_string_equal(wh_last_error_text(), ""); /* nor of an earlier call */
    assert_int_equal(wh_heap_peers(heap), before + 1);
}

typedef struct use_args {
    wh_heap_ref heap;
    uint32_t *words; /* blocks that were there, and those that were not as they were left */
    uint32_t fails;
} use_args;

WH_KERNEL(use, use_args, a) {
    if (a.fails) {
        wh_trap("on purpose");
    }
    const uint64_t i = wh_thread_id();
    uint64_t *p = (uint64_t *)wh_malloc(a.heap, 8 + i);
    if (p != NULL) {
        *p = i;
        wh_backoff((uint32_t)i % 8);
        wh_add_u32_relaxed(&a.words[0], 1);
        wh_add_u32_relaxed(&a.words[1], *p != i);
    }
    wh_free(a.heap, p);
}

/* Kernels of these devices at the same time. */
static void use_on(wh_heap *heap, wh_device *const d[2]) {
    void *streams[2];
    use_args a = {.words = take(d[0], 2 * sizeof(uint32_t)), .fails = 0};
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    for (int i = 0; i < 2; i++) {
        wh_launch l = grid(d[i], 2, 8);
        assert_int_equal(wh_stream_create(d[i], &streams[i]), WH_OK);
        l.stream = streams[i];
        assert_int_equal(use(&l, &a), WH_OK);
    }
    assert_int_equal(wh_device_sync(d[1]), WH_OK);
    assert_int_equal(a.words[0], 32);
    assert_int_equal(a.words[1], 0);
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wh_stream_destroy(d[i], streams[i]), WH_OK);
    }
    assert_int_equal(wh_device_free(d[0], a.words), WH_OK);
}

/* Kernels of one GPU alone get the handle of such a heap; and with a peer they do not. */
static void is_for_one(const wh_heap *heap, wh_status status) {
    wh_heap_ref ref;
    wh_handle_kind kind = {0};
    kind.struct_bytes = sizeof kind;
    kind.allocator = "tessera";
    kind.handle_bytes = sizeof ref;
    kind.version = WH_VERSION;
    kind.target = WH_TARGET_SIM;
    kind.checks = 1;
    assert_int_equal(wh_heap_copy_handle(heap, &kind, &ref), status);
}

static void test_words(void **state) {
    (void)state;
    wh_device *d = open_seed(1), *peer = open_seed(2), *more[31];
    wh_heap *heap = plain_heap(d);
    refused(heap, d, WH_BAD_ARGUMENT, "no peer of itself");
    refused(NULL, peer, WH_BAD_ARGUMENT, NULL); /* the text of the call before is gone */
    refused(heap, d, WH_BAD_ARGUMENT, "no peer of itself");
    refused(heap, NULL, WH_BAD_ARGUMENT, NULL);
    is_for_one(heap, WH_OK);
    taken(heap, peer);
    is_for_one(heap, WH_WRONG_BUILD);
    for (int i = 0; i < 31; i++) {
        more[i] = open_seed(3 + (uint64_t)i);
        taken(heap, more[i]);
    }
    wh_device *last = open_seed(50);
    refused(heap, last, WH_UNSUPPORTED, "32 peers already");
    refused(heap, d, WH_BAD_ARGUMENT, "no peer of itself");
    for (int i = 0; i < 31; i++) { /* again is no error, though there is no room for more */
        assert_int_equal(wh_heap_enable_peer(heap, more[i]), WH_OK);
    }
    assert_int_equal(wh_heap_peers(heap), 32);
    use_on(heap, (wh_device *[2]){peer, more[30]});
    for (int i = 0; i < 31; i++) {
        wh_device_close(more[i]);
    }
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(last);
    wh_device_close(peer);
    wh_device_close(d);
}

/* The capability says which, of all that are built. */
static void test_allocators(void **state) {
    (void)state;
    uint32_t with = 0;
    for (uint32_t i = 0; wh_allocator_at(i) != NULL; i++) {
        const wh_allocator_info *info = wh_allocator_at(i);
        if ((info->caps & WH_CAP_SIM) == 0) {
            continue;
        }
        wh_device *d = open_seed(1), *peer = open_seed(2);
        wh_heap_options o = {0};
        o.allocator = info->name;
        o.bytes = 64 * MIB;
        wh_heap *heap = make_heap(&o, d);
        if ((info->caps & WH_CAP_PEERS) != 0) {
            taken(heap, peer);
            with++;
        } else {
            refused(heap, peer, WH_UNSUPPORTED, "for kernels of one device");
            refused(heap, peer, WH_UNSUPPORTED, info->name);
            refused(heap, d, WH_UNSUPPORTED, "peers)"); /* the heap is wrong, not the device */
        }
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(peer);
        wh_device_close(d);
    }
    assert_true(with > 0);
}

enum { CHECKED, NOTES_FAILURES, RESERVED, GROWS, OF_CALLER, WITH_ABI, KINDS };

/* All kinds may have peers, those too that are refused on GPUs: records are of one processor. */
static void test_kinds(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        wh_device *d = open_seed(1), *peer = open_seed(2);
        wh_heap_options o = {0};
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        wh_growth_options g = {0};
        unsigned long long word = 0;
        void *memory = NULL;
        own.checked = kind == CHECKED;
        own.failure_records = kind == NOTES_FAILURES ? 16 : 0;
        o.options = &own.head;
        o.reserve_bytes = kind == RESERVED || kind == GROWS ? 64 * MIB : 0;
        if (kind == OF_CALLER) {
            assert_int_equal(wh_device_alloc(d, &memory, 8 * MIB), WH_OK);
            o.memory = memory;
        }
        wh_heap *heap = make_heap(&o, d);
        if (kind == GROWS) { /* it does so already, by a thread of the library */
            assert_int_equal(wh_heap_growth_start(heap, &g), WH_OK);
        }
        if (kind == WITH_ABI) {
            assert_int_equal(wh_heap_abi1_handle(heap, &word), WH_OK);
        }
        taken(heap, peer);
        use_on(heap, (wh_device *[2]){d, peer});
        if (kind == RESERVED) {
            assert_int_equal(wh_heap_extend(heap, 8 * MIB), WH_OK);
            use_on(heap, (wh_device *[2]){peer, d});
        }
        if (kind == WITH_ABI) {
            unsigned long long again = 0;
            assert_int_equal(wh_heap_abi1_handle(heap, &again), WH_OK);
            assert_true(word == again);
        }
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        assert_int_equal(wh_device_free(d, memory), WH_OK);
        wh_device_close(peer);
        wh_device_close(d);
    }
}

/* A kernel that has failed, of the heap's device or of the peer, is told, and there is no peer:
 * what is queued on one device does not run when the other one is waited for. */
static void test_failed(void **state) {
    (void)state;
    for (int by = 0; by < 2; by++) {
        wh_device *d[2] = {open_seed(1), open_seed(2)};
        wh_heap *heap = plain_heap(d[0]);
        void *stream = NULL;
        use_args a = {.words = take(d[0], 2 * sizeof(uint32_t)), .fails = 1};
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        assert_int_equal(wh_stream_create(d[by], &stream), WH_OK);
        wh_launch l = grid(d[by], 1, 1);
        l.stream = stream;
        assert_int_equal(use(&l, &a), WH_OK);
        refused(heap, d[1], WH_DEVICE_ERROR, NULL);
        assert_non_null(strstr(wh_device_error_text(d[0]), "on purpose"));
        is_for_one(heap, WH_OK);
        a.fails = 0;
        assert_int_equal(use(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(d[1 - by]), WH_OK);
        assert_int_equal(a.words[0], 0);
        assert_int_equal(wh_device_sync(d[by]), WH_OK);
        assert_int_equal(a.words[0], 1);
        taken(heap, d[1]);
        assert_int_equal(use(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(d[1 - by]), WH_OK);
        assert_int_equal(a.words[0], 2);
        use_on(heap, d);
        assert_int_equal(wh_device_free(d[0], a.words), WH_OK);
        assert_int_equal(wh_stream_destroy(d[by], stream), WH_OK);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(d[0]);
        wh_device_close(d[1]);
    }
}

/* Each device has a heap that is open to the other one. Both are closed before the heaps go. */
static void test_each_others(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        wh_device *d[2] = {open_seed(1), open_seed(2)};
        wh_heap *heap[2] = {plain_heap(d[0]), plain_heap(d[1])};
        taken(heap[0], d[1]);
        taken(heap[1], d[0]);
        refused(heap[1], d[1], WH_BAD_ARGUMENT, "no peer of itself");
        use_on(heap[0], d);
        use_on(heap[1], d);
        wh_device_close(d[first]);
        assert_int_equal(wh_heap_check(heap[0], NULL), WH_OK);
        wh_device_close(d[1 - first]);
        assert_int_equal(wh_heap_check(heap[1], NULL), WH_OK);
        assert_int_equal(wh_heap_destroy(heap[1 - first]), WH_OK);
        assert_int_equal(wh_heap_reset(heap[first]), WH_OK);
        assert_int_equal(wh_heap_destroy(heap[first]), WH_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),       cmocka_unit_test(test_allocators),
        cmocka_unit_test(test_kinds),       cmocka_unit_test(test_failed),
        cmocka_unit_test(test_each_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

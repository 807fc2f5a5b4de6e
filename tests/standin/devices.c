/* devices.c: every host call on a GPU works on the GPU of its device or heap and leaves the
 * caller's current device alone, from any host thread; what waits for what; what is said where
 * there is no GPU. Over a stand-in for the CUDA runtime: the library's own device_cuda.c, device.c
 * and heap.c, and in place of compiled kernels a table of functions that do nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cuda_runtime_api.h"
#include "host/alloc_ops.h"
#include "host/device_internal.h"
#include "standin.h"
#include "warpheap/detail/abi.h"
#include "warpheap/detail/alloc/list.h"
#include "warpheap/gauge.h"
#include "warpheap/heap.h"

/* --- an allocator without kernels -------------------------------------------------- */

#define HANDLE_BYTES 8

static wh_status plan(void *handle, wh_plan *p, unsigned char *memory, uint64_t bytes,
                      const void *options, uint32_t n_sms) {
    (void)options, (void)n_sms, (void)bytes;
    memcpy(handle, &memory, sizeof memory);
    p->min_bytes = 1024;
    p->metadata_bytes = 64;
    p->init_items = 1;
    return bytes < 1024 ? WH_HEAP_TOO_SMALL : WH_OK;
}

static wh_status launched(const wh_launch *l) {
    (void)l;
    return WH_OK;
}
static wh_status init(const wh_launch *l, const void *handle) {
    (void)handle;
    return launched(l);
}
static wh_status stats(const wh_launch *l, const void *handle, wh_stats *s, const wh_stats *start) {
    (void)handle;
    *s = *start;
    s->live_blocks = 7;
    return launched(l);
}
static wh_status check(const wh_launch *l, const void *handle, wh_report *r) {
    (void)handle;
    memset(r, 0, sizeof *r);
    return launched(l);
}
static wh_status walk(const wh_launch *l, const void *handle, void *room, uint64_t capacity) {
    (void)handle;
    wh_walk_sink *sink = room;
    sink->capacity = capacity;
    sink->n = 2000; /* more than fit at first */
    sink->entries = (struct wh_walk_entry *)(void *)(sink + 1);
    memset(sink->entries, 0, (size_t)capacity * sizeof *sink->entries);
    return launched(l);
}

/* One granule of each part but of units, of which there are 16; all are free. */
static wh_status reserve_plan(void *handle, wh_reserve_plan *r, unsigned char *memory,
                              uint64_t bytes, const void *options, uint32_t n_sms) {
    (void)options, (void)n_sms, (void)bytes;
    memcpy(handle, &memory, sizeof memory);
    r->unit_bytes = r->fixed_bytes = r->side_bytes = r->granule;
    r->side_of_unit = 1024;
    r->units_at = 2 * r->granule;
    r->init_items = r->unit_items = 1;
    r->n_units = 16;
    r->parts_of_unit = 1;
    return WH_OK;
}
static wh_growth_box *box; /* of the heap that grows */
static wh_status reserve_step(const wh_launch *l, const void *handle, const wh_reserve_step *step) {
    (void)handle;
    box = step->kind == WH_RESERVE_GROWTH ? (wh_growth_box *)(void *)step->bits : box;
    if (step->kind == WH_RESERVE_SURVEY) {
        *step->bits = ~(uint64_t)0;
    }
    return launched(l);
}

static int gauge(const void *handle, const wh_gauge_lens *lens, wh_gauge_sample *s) {
    const void *memory;
    memcpy(&memory, handle, sizeof memory);
    const uint64_t *words = lens->look(lens->context, memory, 16);
    s->live_blocks = words != NULL ? words[1] : 0;
    return words != NULL;
}

/* Of heaps with records, while a test wants such. */
static uint64_t n_violations, n_failures;
static wh_status watch_bytes(const void *options, uint64_t heap_bytes, wh_watch *w) {
    (void)options, (void)heap_bytes;
    memset(w, 0, sizeof *w);
    w->n_violations = n_violations;
    w->n_failures = n_failures;
    w->room_bytes = n_violations + n_failures == 0 ? 0 : 1024;
    return WH_OK;
}
static void set_watch(void *handle, wh_watch *w) {
    (void)handle;
    w->image_bytes = 8;
}

/* clang-format off */
#define TABLE(ident, title, text, source, caps, max_align, max_size) \
    extern const whi_alloc_ops whi_alloc_ops_##ident##_cuda; \
    const whi_alloc_ops whi_alloc_ops_##ident##_cuda = { \
        .name = title, .handle_bytes = HANDLE_BYTES, .plan = plan, .init = init, .stats = stats, \
        .check = check, .walk = walk, .reserve_plan = reserve_plan, \
        .reserve_step = reserve_step, .gauge = gauge, .watch_bytes = watch_bytes, \
        .set_watch = set_watch};
/* clang-format on */
WH_ALLOC_LIST(TABLE)

/* --- the calls ----------------------------------------------------------------------- */

static int visit(void *context, void *block, uint64_t usable_bytes) {
    (void)block, (void)usable_bytes;
    ++*(uint64_t *)context;
    return 0;
}

/* Makes every call that touches a device and a heap; own: the device that all have to run on. */
static void all_calls(int own, int callers) {
    wh_device *d = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    wh_stats s;
    wh_report r;
    void *p = NULL, *stream = NULL, *base = NULL;
    unsigned char host[64];
    uint64_t bytes = 0, seen = 0;
    double us = 0;
    assert_int_equal(cudaSetDevice(callers), cudaSuccess);
    standin_forget();
    assert_int_equal(wh_device_open(&d, own == 0 ? "cuda:0" : "cuda:1", NULL), WH_OK);
    assert_int_equal(wh_device_get_info(d)->ordinal, own);
    assert_int_equal(wh_device_alloc(d, &p, 64), WH_OK);
    assert_int_equal(wh_device_set(d, p, 1, 64), WH_OK);
    assert_int_equal(wh_device_copy_in(d, p, host, 64), WH_OK);
    assert_int_equal(wh_device_copy_out(d, host, p, 64), WH_OK);
    assert_int_equal(wh_device_free(d, p), WH_OK);
    assert_int_equal(wh_stream_create(d, &stream), WH_OK);
    assert_int_equal(wh_device_timer_begin(d), WH_OK);
    assert_int_equal(wh_device_timer_end(d, &us), WH_OK);
    assert_int_equal(wh_device_sync(d), WH_OK);
    o.bytes = 1 << 20;
    o.device = d;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_memory(heap, &base, &bytes), WH_OK);
    assert_int_equal(bytes, o.bytes);
    assert_non_null(base);
    assert_int_equal(wh_heap_reset(heap), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    assert_int_equal(s.live_blocks, 7);
    assert_int_equal(s.heap_bytes, o.bytes);
    assert_int_equal(wh_heap_check(heap, &r), WH_OK);
    assert_int_equal(wh_heap_walk(heap, visit, &seen), WH_OK);
    assert_int_equal(seen, 2000);
    assert_true(standin_waits_for_device() > 0);

    /* On a stream nothing waits for the device, not even the end. */
    const unsigned calls = standin_calls_on(own);
    standin_forget();
    assert_int_equal(wh_heap_reset_on(heap, stream), WH_OK);
    assert_int_equal(wh_heap_reset_async(heap, stream), WH_OK);
    assert_int_equal(wh_heap_get_stats_on(heap, &s, stream), WH_OK);
    assert_int_equal(s.live_blocks, 7);
    assert_int_equal(wh_heap_check_on(heap, &r, stream), WH_OK);
    assert_int_equal(wh_heap_walk_on(heap, visit, &seen, stream), WH_OK);
    wh_heap_destroy_on(heap, stream);
    assert_int_equal(wh_stream_sync(d, stream), WH_OK);
    assert_int_equal(wh_stream_destroy(d, stream), WH_OK);
    assert_int_equal(standin_waits_for_device(), 0);
    wh_device_close(d);

    int now = -1;
    assert_int_equal(cudaGetDevice(&now), cudaSuccess);
    assert_int_equal(now, callers);
    assert_true(calls > 0 && standin_calls_on(own) > 0);
    assert_int_equal(standin_calls_on(1 - own), 0);
    assert_int_equal(standin_strays(), 0);
    assert_int_equal(standin_alive(), 0);
}

static void test_each_on_its_device(void **state) {
    (void)state;
    for (int pools = 0; pools < 2; pools++) {
        standin_set_pools(pools);
        for (int i = 0; i < 4; i++) {
            all_calls(i / 2, i % 2);
        }
    }
}

static void *in_thread(void *unused) {
    (void)unused;
    all_calls(1, 0);
    return NULL;
}

/* A thread that never set a device has number 0, whatever the first thread did. */
static void test_other_thread(void **state) {
    (void)state;
    pthread_t t;
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(pthread_create(&t, NULL, in_thread, NULL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    int now = -1;
    assert_int_equal(cudaGetDevice(&now), cudaSuccess);
    assert_int_equal(now, 1);
}

/* Two devices in turn, both open. */
static void test_two_at_once(void **state) {
    (void)state;
    wh_device *d[2];
    void *p[2];
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    standin_forget();
    assert_int_equal(wh_device_open(&d[0], "cuda:0", NULL), WH_OK);
    assert_int_equal(wh_device_open(&d[1], "cuda:1", NULL), WH_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wh_device_alloc(d[i], &p[i], 100), WH_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wh_device_free(d[i], p[i]), WH_OK);
        wh_device_close(d[i]);
    }
    assert_int_equal(standin_strays(), 0);
    assert_int_equal(standin_alive(), 0);
}

/* "cuda" and "auto" are the GPU that the caller works on. */
static void test_current(void **state) {
    (void)state;
    const char *specs[] = {"cuda", "auto", NULL};
    for (int i = 0; i < 6; i++) {
        wh_device *d = NULL;
        assert_int_equal(cudaSetDevice(i % 2), cudaSuccess);
        assert_int_equal(wh_device_open(&d, specs[i / 2], NULL), WH_OK);
        assert_int_equal(wh_device_get_info(d)->ordinal, i % 2);
        wh_device_close(d);
    }
}

/* A gauge's stream and its memory are those of the heap's device, and it waits for no device;
 * whatever call fails, nothing stays. */
static wh_status read_gauge(wh_heap *heap, wh_gauge_sample *s) {
    wh_gauge *g = NULL;
    wh_status status = wh_gauge_open(&g, heap);
    status = status == WH_OK ? wh_gauge_read(g, WH_GAUGE_BLOCKS, s) : status;
    standin_fail(0, 0);
    assert_int_equal(wh_gauge_close(g), WH_OK);
    return status;
}

static void test_gauge(void **state) {
    (void)state;
    wh_heap_options o = {0};
    wh_heap *heap = NULL;
    wh_gauge_sample s;
    void *memory = NULL;
    uint64_t bytes = 0, words[2] = {3, 11};
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(wh_device_open(&o.device, "cuda:0", NULL), WH_OK);
    o.bytes = 1 << 20;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_memory(heap, &memory, &bytes), WH_OK);
    assert_int_equal(wh_device_copy_in(o.device, memory, words, sizeof words), WH_OK);
    const unsigned alive = standin_alive();
    unsigned failed = 0;
    standin_forget();
    for (unsigned after = 0; after < 12; after++) {
        standin_fail(cudaErrorMemoryAllocation, after);
        const wh_status status = read_gauge(heap, &s);
        failed += status == WH_OUT_OF_MEMORY;
        assert_true(status == WH_OUT_OF_MEMORY || (status == WH_OK && s.live_blocks == 11));
        assert_int_equal(standin_alive(), alive);
    }
    assert_true(failed >= 4 && failed < 12);
    assert_int_equal(standin_waits_for_device(), 0);
    assert_int_equal(standin_calls_on(1), 0);
    assert_int_equal(standin_strays(), 0);
    int now = -1;
    assert_int_equal(cudaGetDevice(&now), cudaSuccess);
    assert_int_equal(now, 1);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(o.device);
}

/* A heap in a pool of the caller's. */
static void test_pool(void **state) {
    (void)state;
    wh_heap_options o = {0};
    wh_stats s;
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    for (unsigned after = 0; after < 30; after++) {
        wh_heap *heap = NULL;
        const unsigned before = standin_from_pool();
        wh_status status = wh_device_open(&o.device, "cuda:0", NULL);
        assert_int_equal(status, WH_OK);
        o.bytes = 1 << 20;
        o.cuda_pool = standin_pool();
        standin_fail(cudaErrorMemoryAllocation, after);
        status = wh_heap_create(&heap, &o);
        status = status == WH_OK ? wh_heap_get_stats(heap, &s) : status;
        standin_fail(0, 0);
        assert_true(status == WH_OK || status == WH_OUT_OF_MEMORY);
        if (after == 0) {
            assert_non_null(strstr(wh_last_error_text(), "pool"));
        }
        assert_true(status != WH_OK || standin_from_pool() == before + 2);
        assert_true(after != 29 || status == WH_OK);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(o.device);
        assert_int_equal(standin_strays(), 0);
        assert_int_equal(standin_alive(), 0);
    }
}

/* --- peers --------------------------------------------------------------------------- */

enum { OF_DEVICE, OF_POOL, OF_CALLER, RESERVED, KINDS };

/* A heap of GPU 1 in memory of some kind; memory: what the test gave. */
static wh_heap *heap_of(wh_device *d, int kind, void **memory) {
    wh_heap_options o = {0};
    wh_heap *heap = NULL;
    o.device = d;
    o.bytes = kind == RESERVED ? 10 << 20 : 1 << 20;
    o.reserve_bytes = kind == RESERVED ? 36 << 20 : 0;
    o.cuda_pool = kind == OF_POOL ? standin_pool() : NULL;
    if (kind == OF_CALLER) {
        assert_int_equal(wh_device_alloc(d, memory, o.bytes), WH_OK);
        o.memory = *memory;
    }
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

/* Whether a GPU can read all that the heap has: its first byte, and of a reserved one those that
 * are mapped, metadata and units. */
static int reads(int device, const wh_heap *heap) {
    const uint64_t granule = 2 << 20;
    void *base = NULL;
    uint64_t bytes = 0, mapped = 0, reserved = 0, unit = 0;
    assert_int_equal(wh_heap_memory(heap, &base, &bytes), WH_OK);
    assert_int_equal(wh_heap_extent(heap, &mapped, &reserved, &unit), WH_OK);
    int all = standin_can_read(device, base);
    for (uint64_t k = 0; unit != 0 && k < mapped; k += granule) {
        all &= standin_can_read(device, (char *)base + k);
    }
    return all;
}

/* The peer can read what there is, and what comes; the memory's own device alone is called, but
 * where CUDA wants the peer to ask. */
static void test_peers(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int pools = 0; pools < 2; pools++) {
            wh_device *d = NULL, *peer = NULL, *again = NULL;
            void *memory = NULL;
            standin_set_pools(pools);
            standin_close_links();
            assert_int_equal(cudaSetDevice(0), cudaSuccess);
            assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
            assert_int_equal(wh_device_open(&peer, "cuda:0", NULL), WH_OK);
            assert_int_equal(wh_device_open(&again, "cuda:0", NULL), WH_OK);
            wh_heap *heap = heap_of(d, kind, &memory);
            standin_forget();
            assert_true(reads(1, heap) && !reads(0, heap));
            assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
            assert_int_equal(wh_heap_peers(heap), 1);
            assert_true(reads(1, heap) && reads(0, heap));
            assert_int_equal(wh_heap_enable_peer(heap, again), WH_OK); /* the same GPU */
            assert_int_equal(wh_heap_peers(heap), 1);
            if (kind == RESERVED) {
                assert_int_equal(wh_heap_extend(heap, 4 << 20), WH_OK);
                assert_true(reads(0, heap));
            }
            /* A second heap, of memory that is open already. */
            void *more = NULL;
            wh_heap *second = heap_of(d, kind, &more);
            assert_int_equal(wh_heap_enable_peer(second, peer), WH_OK);
            assert_true(reads(0, second));
            assert_int_equal(wh_heap_destroy(second), WH_OK);
            wh_device_close(peer); /* the heap holds it */
            wh_device_close(again);
            standin_forget();
            assert_int_equal(wh_heap_reset(heap), WH_OK);
            assert_int_equal(standin_waits_for_device(), 2);
            assert_int_equal(wh_heap_destroy(heap), WH_OK);
            assert_int_equal(wh_device_free(d, memory), WH_OK);
            assert_int_equal(wh_device_free(d, more), WH_OK);
            wh_device_close(d);
            assert_int_equal(standin_strays(), 0);
            assert_int_equal(standin_alive(), 0);
            assert_int_equal(standin_mapped(), 0);
            assert_int_equal(cudaGetLastError(), cudaSuccess);
        }
    }
}

/* What wh_heap_enable_peer refuses leaves the heap as it was, and its handle. */
static void test_no_peers(void **state) {
    (void)state;
    wh_device *d = NULL, *peer = NULL, *same = NULL, *sim = NULL;
    void *memory = NULL;
    unsigned char handle[WH_HANDLE_BYTES];
    unsigned long long abi = 0;
    wh_handle_kind kind = {.struct_bytes = sizeof kind,
                           .allocator = "tessera",
                           .handle_bytes = HANDLE_BYTES,
                           .version = WH_VERSION,
                           .target = WH_TARGET_CUDA};
    standin_close_links();
    assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
    assert_int_equal(wh_device_open(&same, "cuda:1", NULL), WH_OK);
    assert_int_equal(wh_device_open(&peer, "cuda:0", NULL), WH_OK);
    assert_int_equal(wh_device_open(&sim, "sim", NULL), WH_OK);
    wh_heap *heap = heap_of(d, OF_DEVICE, &memory);
    assert_int_equal(wh_heap_enable_peer(heap, same), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_enable_peer(heap, sim), WH_WRONG_TARGET);
    standin_set_links(0, 0);
    assert_int_equal(wh_heap_enable_peer(heap, peer), WH_NO_PEER_ACCESS);
    assert_non_null(strstr(wh_last_error_text(), "GPU 0 cannot address memory of GPU 1"));
    standin_set_links(1, 0);
    assert_int_equal(wh_heap_enable_peer(heap, peer), WH_NO_PEER_ATOMICS);
    assert_non_null(strstr(wh_last_error_text(), "from GPU 0 to GPU 1"));
    standin_set_links(1, 1);
    assert_int_equal(wh_heap_peers(heap), 0);
    assert_true(!reads(0, heap));
    assert_int_equal(wh_heap_copy_handle(heap, &kind, handle), WH_OK);
    unsigned failed = 0;
    for (unsigned after = 0; after < 8 && wh_heap_peers(heap) == 0; after++) {
        standin_fail(cudaErrorInvalidValue, after);
        const wh_status s = wh_heap_enable_peer(heap, peer);
        standin_fail(0, 0);
        failed += s == WH_DEVICE_ERROR;
        assert_true((s == WH_OK) == (wh_heap_peers(heap) == 1));
    }
    assert_int_equal(failed, 6); /* access, atomics, the wait, two for the pool, its opening */
    assert_int_equal(wh_heap_copy_handle(heap, &kind, handle), WH_WRONG_BUILD);
    assert_int_equal(wh_heap_abi1_handle(heap, &abi), WH_UNSUPPORTED);
    kind.peers = 1;
    assert_int_equal(wh_heap_copy_handle(heap, &kind, handle), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(sim);
    wh_device_close(peer);
    wh_device_close(same);
    wh_device_close(d);
    assert_int_equal(standin_strays(), 0);
    assert_int_equal(standin_alive(), 0);
}

static void no_peer(wh_heap *heap, wh_device *device, wh_status status, const char *text) {
    assert_int_equal(wh_heap_enable_peer(heap, device), status);
    if (strstr(wh_last_error_text(), text) == NULL) {
        fail_msg("\"%s\" does not say: %s", wh_last_error_text(), text);
    }
    assert_int_equal(wh_heap_peers(heap), 0);
}

/* Heaps that no peer can use, and devices that no heap has for a peer: named, and no call of the
 * driver's opens anything. */
static void test_refused_peers(void **state) {
    (void)state;
    static const uint64_t rows[3][2] = {{16, 0}, {0, 16}, {16, 16}};
    wh_device *d = NULL, *peer = NULL, *sim = NULL, *more = NULL;
    void *memory = NULL;
    standin_close_links();
    assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
    assert_int_equal(wh_device_open(&peer, "cuda:0", NULL), WH_OK);
    assert_int_equal(wh_device_open(&sim, "sim", NULL), WH_OK);
    assert_int_equal(wh_device_open(&more, "sim", NULL), WH_OK);
    for (int i = 0; i < 3; i++) {
        n_violations = rows[i][0];
        n_failures = rows[i][1];
        wh_heap *heap = heap_of(d, OF_DEVICE, &memory);
        no_peer(heap, peer, WH_UNSUPPORTED, "the heap keeps records");
        assert_true(!reads(0, heap));
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
    }
    n_violations = n_failures = 0;
    for (uint32_t i = 0; wh_allocator_at(i) != NULL; i++) {
        const wh_allocator_info *info = wh_allocator_at(i);
        wh_heap_options o = {.bytes = 64 << 20, .device = d, .allocator = info->name};
        wh_heap *heap = NULL;
        if ((info->caps & WH_CAP_PEERS) == 0) {
            assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
            no_peer(heap, peer, WH_UNSUPPORTED, "for kernels of one device");
            no_peer(heap, peer, WH_UNSUPPORTED, info->name);
            assert_int_equal(wh_heap_destroy(heap), WH_OK);
        }
    }
    wh_heap *heap = heap_of(d, RESERVED, &memory);
    no_peer(heap, sim, WH_WRONG_TARGET, "not both of a GPU, or of the simulated device");
    no_peer(heap, d, WH_BAD_ARGUMENT, "no peer of itself");
    assert_true(!reads(0, heap));
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_heap_options o = {.bytes = 8 << 20, .device = sim};
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    no_peer(heap, peer, WH_WRONG_TARGET, "not both of a GPU, or of the simulated device");
    assert_int_equal(wh_heap_enable_peer(heap, more), WH_OK);
    assert_int_equal(wh_heap_enable_peer(heap, peer), WH_WRONG_TARGET);
    assert_int_equal(wh_heap_peers(heap), 1);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(more);
    wh_device_close(sim);
    wh_device_close(peer);
    wh_device_close(d);
    assert_int_equal(standin_strays(), 0);
    assert_int_equal(standin_alive(), 0);
}

/* A heap that grows already: the peer reads what the host maps for lanes later, by whichever of
 * them. Devices go before it. */
static void test_peers_of_growing(void **state) {
    (void)state;
    wh_device *d = NULL, *peer = NULL;
    void *memory = NULL;
    uint64_t before = 0, after = 0;
    wh_growth_options g = {.step_bytes = 4 << 20, .ahead_bytes = 1, .no_thread = 1};
    standin_close_links();
    assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
    assert_int_equal(wh_device_open(&peer, "cuda:0", NULL), WH_OK);
    wh_heap *heap = heap_of(d, RESERVED, &memory);
    assert_int_equal(wh_heap_growth_start(heap, &g), WH_OK);
    assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
    assert_true(reads(0, heap) && reads(1, heap));
    wh_device_close(peer);
    wh_device_close(d);
    for (uint64_t k = 1; k <= 2; k++) {
        box->asked = k << 32 | 1;
        assert_int_equal(wh_heap_extent(heap, &before, NULL, NULL), WH_OK);
        assert_int_equal(wh_heap_growth_poll(heap), WH_OK);
        assert_int_equal(wh_heap_extent(heap, &after, NULL, NULL), WH_OK);
        assert_true(after > before);
        assert_true(reads(0, heap) && reads(1, heap));
        box->taken = 2 * k;
    }
    assert_int_equal(wh_heap_growth_stop(heap), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    assert_int_equal(standin_strays(), 0);
    assert_int_equal(standin_alive(), 0);
    assert_int_equal(standin_mapped(), 0);
}

/* Of a reserved heap: whatever call fails, the peer reads all that is mapped once there is one, and
 * nothing stays mapped. */
static void test_peers_of_reserved(void **state) {
    (void)state;
    unsigned failed = 0, without = 0;
    for (unsigned after = 0; after < 40; after++) {
        wh_device *d = NULL, *peer = NULL;
        void *memory = NULL;
        int now = -1;
        standin_close_links();
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
        assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
        assert_int_equal(wh_device_open(&peer, "cuda:0", NULL), WH_OK);
        wh_heap *heap = heap_of(d, RESERVED, &memory);
        standin_fail(cudaErrorMemoryAllocation, after);
        wh_status s = wh_heap_enable_peer(heap, peer);
        s = s == WH_OK ? wh_heap_extend(heap, 8 << 20) : s;
        standin_fail(0, 0);
        failed += s != WH_OK;
        without += wh_heap_peers(heap) == 0;
        assert_true(wh_heap_peers(heap) == 0 || reads(0, heap));
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(peer);
        wh_device_close(d);
        assert_int_equal(cudaGetDevice(&now), cudaSuccess);
        assert_int_equal(now, 0);
        assert_int_equal(standin_strays(), 0);
        assert_int_equal(standin_alive(), 0);
        assert_int_equal(standin_mapped(), 0);
    }
    assert_true(without >= 8 && without < failed && failed < 40);
}

/* Whatever call fails, the caller's device is back and nothing stays. */
static void test_failures(void **state) {
    (void)state;
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    int failed = 0;
    for (unsigned after = 0; after < 40; after++) {
        standin_fail(cudaErrorMemoryAllocation, after);
        wh_device *d = NULL;
        wh_heap *heap = NULL;
        wh_heap_options o = {0};
        wh_stats s;
        wh_status status = wh_device_open(&d, "cuda:1", NULL);
        o.bytes = 1 << 20;
        o.device = d;
        status = status == WH_OK ? wh_heap_create(&heap, &o) : status;
        status = status == WH_OK ? wh_heap_get_stats(heap, &s) : status;
        status = status == WH_OK ? wh_heap_check_on(heap, NULL, NULL) : status;
        failed += status != WH_OK;
        int now = -1;
        assert_int_equal(cudaGetDevice(&now), cudaSuccess);
        assert_int_equal(now, 0);
        standin_fail(0, 0);
        wh_heap_destroy(heap);
        wh_device_close(d);
        assert_int_equal(standin_alive(), 0);
    }
    assert_true(failed >= 10 && failed < 40);
}

/* A heap in reserved addresses: what is mapped when; and whatever call fails, nothing stays. */
static wh_status grow_and_shrink(wh_device *d, wh_heap **heap, int *undone) {
    const uint64_t granule = 2 << 20;
    wh_heap_options o = {0};
    uint64_t given = 0, before = 0, after = 0, reserved = 0;
    o.bytes = 5 * granule;
    o.reserve_bytes = 18 * granule;
    o.device = d;
    wh_status s = wh_heap_create(heap, &o);
    if (s != WH_OK) {
        return s;
    }
    assert_int_equal(wh_heap_extent(*heap, &before, &reserved, &given), WH_OK);
    assert_int_equal(before, o.bytes);
    assert_int_equal(reserved, o.reserve_bytes);
    assert_int_equal(given, granule);
    s = wh_heap_extend(*heap, 4 * granule - 1);
    assert_int_equal(wh_heap_extent(*heap, &after, NULL, NULL), WH_OK);
    *undone = s == WH_OUT_OF_MEMORY && after == before;
    assert_true(s != WH_OK || after == before + 4 * granule);
    wh_status last = wh_heap_trim(*heap, 4 * granule, &given);
    s = s == WH_OK ? last : s;
    assert_true(last != WH_OK || given == after - 4 * granule);
    last = wh_heap_extend(*heap, 14 * granule);
    assert_int_equal(wh_heap_extent(*heap, &after, NULL, NULL), WH_OK);
    assert_true(last != WH_OK || after == 18 * granule);
    s = s == WH_OK ? last : s;
    last = last == WH_OK ? wh_heap_extend(*heap, 1) : WH_RESERVE_FULL;
    assert_int_not_equal(last, WH_OK);
    return s == WH_OK && last != WH_RESERVE_FULL ? last : s;
}

/* A heap that grows while kernels run: what the host answers to what lanes ask. */
static wh_status ask_and_answer(wh_device *d, wh_heap **heap) {
    const uint64_t granule = 2 << 20;
    wh_heap_options o = {0};
    wh_growth_options g = {0};
    uint64_t before = 0, after = 0;
    o.bytes = 5 * granule;
    o.reserve_bytes = 18 * granule;
    o.device = d;
    g.step_bytes = 2 * granule;
    g.ahead_bytes = 1;
    g.max_bytes = 10 * granule;
    g.no_thread = 1;
    wh_status s = wh_heap_create(heap, &o);
    s = s == WH_OK ? wh_heap_growth_start(*heap, &g) : s;
    for (uint64_t k = 1; s == WH_OK && k < 5; k++) {
        box->asked = k << 32 | 1;
        assert_int_equal(wh_heap_extent(*heap, &before, NULL, NULL), WH_OK);
        s = wh_heap_growth_poll(*heap);
        assert_int_equal(wh_heap_extent(*heap, &after, NULL, NULL), WH_OK);
        assert_int_equal(box->answer >> 32, k);
        const uint64_t more = granule * (k < 3 ? 2 : 4 - k); /* 2, 2, 1, 0 */
        if (s != WH_OK || after != before + more) {          /* fewer have been mapped, or none */
            assert_int_equal((uint32_t)box->answer, after == before);
            return WH_OUT_OF_MEMORY;
        }
        assert_int_equal((uint32_t)box->answer, k == 4 ? 1 | WH_GROWTH_NEVER : 0);
        box->taken = k == 3 ? 5 : 2 * k;
    }
    return s;
}

static void test_growth(void **state) {
    (void)state;
    int failed = 0;
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    standin_forget();
    for (unsigned after = 0; after < 60; after++) {
        wh_device *d = NULL;
        wh_heap *heap = NULL;
        int now = -1;
        assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
        standin_fail(cudaErrorMemoryAllocation, after);
        failed += ask_and_answer(d, &heap) != WH_OK;
        standin_fail(0, 0);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(d);
        assert_int_equal(standin_alive(), 0);
        assert_int_equal(standin_mapped(), 0);
        assert_int_equal(cudaGetDevice(&now), cudaSuccess);
        assert_int_equal(now, 0);
    }
    assert_true(failed >= 20 && failed < 60);
    assert_int_equal(standin_calls_on(0), 0);
    assert_int_equal(standin_strays(), 0);
    /* With the library's thread, which works on the heap's device, too. */
    wh_device *d = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    wh_growth_options g = {0};
    assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
    o.bytes = 10 << 20;
    o.reserve_bytes = 36 << 20;
    o.device = d;
    g.ahead_bytes = 1;
    g.step_bytes = 2 << 20;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_growth_start(heap, &g), WH_OK);
    __atomic_store_n(&box->asked, (uint64_t)1 << 32 | 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&box->answer, __ATOMIC_ACQUIRE) == 0) {
    }
    assert_int_equal(box->answer, (uint64_t)1 << 32);
    assert_int_equal(wh_heap_growth_stop(heap), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(d);
    assert_int_equal(standin_alive(), 0);
    assert_int_equal(standin_mapped(), 0);
}

static void test_reserve(void **state) {
    (void)state;
    int failed = 0, undone = 0;
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    standin_forget();
    for (unsigned after = 0; after < 140; after++) {
        wh_device *d = NULL;
        wh_heap *heap = NULL;
        int again = 0, now = -1;
        assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
        standin_fail(cudaErrorMemoryAllocation, after);
        const wh_status s = grow_and_shrink(d, &heap, &again);
        standin_fail(0, 0);
        failed += s != WH_OK;
        undone += again;
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(d);
        assert_int_equal(standin_alive(), 0);
        assert_int_equal(standin_mapped(), 0);
        assert_int_equal(cudaGetDevice(&now), cudaSuccess);
        assert_int_equal(now, 0);
    }
    assert_true(failed >= 60 && failed < 140);
    assert_true(undone >= 9); /* create, map and access of four granules */
    assert_int_equal(standin_calls_on(0), 0);
    assert_int_equal(standin_strays(), 0);
}

/* An error that the caller has seen, and left where the runtime keeps it, is not ours. */
static void test_errors_of_others(void **state) {
    (void)state;
    wh_device *d = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    wh_stats s;
    void *p = NULL;
    standin_fail(cudaErrorMemoryAllocation, 0);
    assert_int_equal(cudaMalloc(&p, 64), cudaErrorMemoryAllocation);
    assert_int_equal(wh_device_open(&d, "cuda:0", NULL), WH_OK);
    o.bytes = 1 << 20;
    o.device = d;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_reset(heap), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(d);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
}

/* An error of a kernel is told by the call that waits for it, and by no other. */
static void test_told_once(void **state) {
    (void)state;
    wh_device *d = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    assert_int_equal(wh_device_open(&d, "cuda:0", NULL), WH_OK);
    o.bytes = 1 << 20;
    o.device = d;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    standin_fail(cudaErrorAssert, 0);
    assert_int_equal(wh_device_sync(d), WH_DEVICE_ERROR);
    assert_non_null(strstr(wh_device_error_text(d), "an assertion in a kernel"));
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    standin_fail(cudaErrorAssert, 2); /* after two frees: the wait */
    assert_int_equal(wh_heap_destroy(heap), WH_DEVICE_ERROR);
    wh_device_close(d);
    assert_int_equal(standin_alive(), 0);
    (void)cudaGetLastError();
}

static void refused(int count, int error, const char *text) {
    wh_device *d = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    o.bytes = 1 << 20;
    standin_set_count(count, error);
    assert_int_equal(wh_device_open(&d, "cuda", NULL), WH_NO_DEVICE);
    assert_non_null(strstr(wh_last_error_text(), text));
    /* As a file that a CUDA compiler reads calls it. */
    assert_int_equal(wh_device_open_for(&d, "auto", NULL, 0, 1), WH_NO_DEVICE);
    assert_int_equal(wh_heap_create_for(&heap, &o, sizeof o, 1), WH_NO_DEVICE);
    assert_non_null(strstr(wh_last_error_text(), text));
    uint64_t bytes;
    assert_int_equal(wh_heap_min_bytes_for(&o, &bytes, sizeof o, 1), WH_NO_DEVICE);
    /* As C calls it: the simulated device. */
    assert_int_equal(wh_device_open(&d, "auto", NULL), WH_OK);
    assert_int_equal(wh_device_get_info(d)->target, WH_TARGET_SIM);
    assert_int_equal(wh_device_get_info(d)->ordinal, -1);
    wh_device_close(d);
    standin_set_count(STANDIN_DEVICES, cudaSuccess);
}

static void test_no_gpu(void **state) {
    (void)state;
    refused(0, cudaSuccess, "the driver shows no GPU");
    refused(0, cudaErrorNoDevice, "the driver shows no GPU");
    refused(0, cudaErrorInsufficientDriver, "no NVIDIA driver");
    wh_device *d = NULL;
    assert_int_equal(wh_device_open(&d, "cuda:2", NULL), WH_NO_DEVICE);
    assert_non_null(strstr(wh_last_error_text(), "there is no GPU 2: there are 2"));
    assert_int_equal(wh_device_open(&d, "cuda:", NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_open(&d, "cuda:1x", NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_device_open(&d, "cuda:-1", NULL), WH_BAD_ARGUMENT);
}

/* A heap of a GPU is not for kernels of the simulated device, and the other way round. */
static void test_targets(void **state) {
    (void)state;
    const char *specs[] = {"cuda:1", "sim"};
    for (int i = 0; i < 2; i++) {
        wh_device *d = NULL;
        wh_heap *heap = NULL;
        wh_heap_options o = {0};
        unsigned char handle[WH_HANDLE_BYTES];
        assert_int_equal(wh_device_open(&d, specs[i], NULL), WH_OK);
        o.bytes = 1 << 20;
        o.device = d;
        o.allocator = "bump";
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        wh_handle_kind kind = {.struct_bytes = sizeof kind,
                               .allocator = "bump",
                               .handle_bytes = HANDLE_BYTES,
                               .version = WH_VERSION,
                               .target = i == 0 ? WH_TARGET_SIM : WH_TARGET_CUDA};
        assert_int_equal(wh_heap_copy_handle(heap, &kind, handle), WH_WRONG_TARGET);
        assert_non_null(strstr(wh_last_error_text(), i == 0 ? "lies on a GPU" : "simulated"));
        /* A file of C hands the handle on to a file of CUDA. */
        kind.target = WH_TARGET_ANY;
        kind.handle_bytes = wh_heap_handle_bytes(heap);
        assert_int_equal(wh_heap_copy_handle(heap, &kind, handle), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
}

static const wh_abi_record *record_of(unsigned long long handle) {
    return (const wh_abi_record *)(uintptr_t)(handle & ~(uint64_t)(WH_ABI_RECORD_BYTES - 1));
}

/* Records behind handles: in memory of the heap's GPU, written and cleared without a wait for other
 * work than the stream's; their memory, and it alone, stays. */
static void test_abi(void **state) {
    (void)state;
    unsigned long long handles[2] = {0, 0}, again = 0;
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(standin_alive(), 0);
    for (int own = 0; own < 2; own++) {
        wh_device *d = NULL;
        wh_heap *heap = NULL;
        wh_heap_options o = {0};
        void *stream = NULL;
        assert_int_equal(wh_device_open(&d, own == 0 ? "cuda:0" : "cuda:1", NULL), WH_OK);
        o.bytes = 1 << 20;
        o.device = d;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_stream_create(d, &stream), WH_OK);
        /* The memory, its first state, the record. */
        for (unsigned after = 0; after < 6; after++) {
            standin_fail(cudaErrorMemoryAllocation, after);
            const wh_status s = wh_heap_abi1_handle(heap, &handles[own]);
            standin_fail(0, 0);
            assert_true((s == WH_OK) == (handles[own] != 0));
        }
        assert_int_equal(wh_heap_abi1_handle(heap, &handles[own]), WH_OK);
        standin_forget();
        assert_int_equal(wh_heap_abi1_handle(heap, &again), WH_OK);
        assert_true(again == handles[own] && standin_calls_on(own) == 0);
        assert_int_equal(again & WH_ABI_ON_GPU, WH_ABI_ON_GPU);
        const wh_abi_record *record = record_of(again);
        assert_true(record->seal == again + wh_abi_key());
        wh_device_close(d); /* the heap holds it */
        standin_forget();
        assert_int_equal(wh_heap_destroy_on(heap, stream), WH_OK);
        assert_true(standin_waits_for_device() == 0 && standin_calls_on(1 - own) == 0);
        assert_int_equal(record->seal, 0);
        assert_int_equal(cudaSetDevice(own), cudaSuccess);
        assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
    }
    assert_true(handles[0] != handles[1]);
    assert_int_equal(standin_strays(), 0);
    assert_true(standin_alive() >= 2);
}

/* The functions of such a handle are of one GPU's scope, whichever call comes first. */
static void test_abi_or_peers(void **state) {
    (void)state;
    wh_device *d = NULL, *peer = NULL;
    void *memory = NULL;
    unsigned long long word = 0;
    standin_close_links();
    assert_int_equal(wh_device_open(&d, "cuda:1", NULL), WH_OK);
    assert_int_equal(wh_device_open(&peer, "cuda:0", NULL), WH_OK);
    wh_heap *heap = heap_of(d, OF_DEVICE, &memory);
    assert_int_equal(wh_heap_abi1_handle(heap, &word), WH_OK);
    no_peer(heap, peer, WH_UNSUPPORTED, "warpheap_abi.h");
    assert_true(!reads(0, heap));
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    heap = heap_of(d, OF_DEVICE, &memory);
    assert_int_equal(wh_heap_enable_peer(heap, peer), WH_OK);
    assert_int_equal(wh_heap_abi1_handle(heap, &word), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "this one has peers"));
    assert_int_equal(word, 0);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(peer);
    wh_device_close(d);
    assert_int_equal(standin_strays(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_on_its_device),
        cmocka_unit_test(test_other_thread),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_current),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_no_peers),
        cmocka_unit_test(test_refused_peers),
        cmocka_unit_test(test_peers_of_growing),
        cmocka_unit_test(test_peers_of_reserved),
        cmocka_unit_test(test_gauge),
        cmocka_unit_test(test_told_once),
        cmocka_unit_test(test_errors_of_others),
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_abi), /* the last ones: what they take stays */
        cmocka_unit_test(test_abi_or_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* verify.c: the benchmark's data check must see what it is there for. The allocator
 * `null` computes addresses and wraps around at the end of its heap, so whether its
 * blocks overlap is known beforehand. Pages of the walks: by pointers made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "bench/kernels/bench_kernels.h"
#include "bench/kernels/paper_kernels.h"
#include "set_option.h"

#define HEAP_BYTES ((uint64_t)1 << 20)
#define MOST 4096u

typedef struct fixture {
    wh_device *device;
    wh_heap *heap;
    const wh_bench_kernels *k;
    wh_bench_call call;
} fixture;

static int open_all(void **state) {
    static fixture f;
    wh_heap_options o;
    void *p = NULL;
    memset(&f, 0, sizeof f);
    memset(&o, 0, sizeof o);
    assert_int_equal(wh_device_open(&f.device, "sim", NULL), WH_OK);
    f.k = wh_bench_kernels_find("null", WH_TARGET_SIM);
    assert_non_null(f.k);
    o.bytes = HEAP_BYTES;
    o.allocator = "null";
    o.device = f.device;
    assert_int_equal(wh_heap_create(&f.heap, &o), WH_OK);
    assert_int_equal(f.k->bind(f.heap, &f.call.handle), WH_OK);
    assert_int_equal(wh_device_alloc(f.device, &p, MOST * sizeof(void *)), WH_OK);
    f.call.ptrs = p;
    assert_int_equal(wh_device_alloc(f.device, &p, sizeof(wh_bench_counts)), WH_OK);
    f.call.counts = p;
    f.call.use_owns = 1;
    f.call.lanes = 1;
    *state = &f;
    return 0;
}

static int close_all(void **state) {
    fixture *f = *state;
    assert_int_equal(wh_device_free(f->device, f->call.ptrs), WH_OK);
    assert_int_equal(wh_device_free(f->device, f->call.counts), WH_OK);
    wh_heap_destroy(f->heap);
    wh_device_close(f->device);
    return 0;
}

static void start(fixture *f, wh_bench_launcher launcher, uint64_t threads) {
    const wh_launch l = {f->device, (uint32_t)((threads + 255) / 256), 256, NULL};
    assert_int_equal(launcher(&l, &f->call), WH_OK);
    assert_int_equal(wh_device_sync(f->device), WH_OK);
}

/* Sets the pointers to base + i * pitch for n blocks of `size` bytes. */
static void place(fixture *f, uint64_t n, uint64_t size, uint64_t pitch, uint64_t offset) {
    static void *host[MOST];
    f->call.n = 1;
    f->call.lo = 16;
    f->call.hi = 16;
    start(f, f->k->malloc_single, 1);
    assert_int_equal(wh_device_copy_out(f->device, host, f->call.ptrs, sizeof *host), WH_OK);
    unsigned char *base = host[0];
    for (uint64_t i = 0; i < n; i++) {
        host[i] = base + offset + i * pitch;
    }
    assert_int_equal(wh_device_copy_in(f->device, f->call.ptrs, host, n * sizeof *host), WH_OK);
    f->call.n = n;
    f->call.lo = size;
    f->call.hi = size;
}

static wh_bench_counts verify(fixture *f, uint32_t lanes) {
    wh_bench_counts c;
    memset(&c, 0, sizeof c);
    c.low = UINT64_MAX;
    f->call.lanes = lanes;
    assert_int_equal(wh_device_copy_in(f->device, f->call.counts, &c, sizeof c), WH_OK);
    start(f, f->k->survey, 256);
    start(f, f->k->fill, f->call.n * lanes);
    start(f, f->k->check, f->call.n * lanes);
    assert_int_equal(wh_device_copy_out(f->device, &c, f->call.counts, sizeof c), WH_OK);
    return c;
}

/* Bad blocks by their addresses alone. */
static uint64_t claim(fixture *f, uint32_t lanes) {
    wh_bench_counts c;
    void *bits = NULL;
    const uint64_t bytes = HEAP_BYTES / 16 / 8 + 8;
    memset(&c, 0, sizeof c);
    c.low = UINT64_MAX;
    f->call.lanes = lanes;
    assert_int_equal(wh_device_copy_in(f->device, f->call.counts, &c, sizeof c), WH_OK);
    assert_int_equal(wh_device_alloc(f->device, &bits, bytes), WH_OK);
    assert_int_equal(wh_device_set(f->device, bits, 0, bytes), WH_OK);
    start(f, f->k->survey, 256);
    assert_int_equal(wh_device_copy_out(f->device, &c, f->call.counts, sizeof c), WH_OK);
    assert_int_equal(c.bad, 0);
    f->call.claimed = bits;
    f->call.claim_base = c.low;
    start(f, f->k->claim, f->call.n * lanes);
    assert_int_equal(wh_device_copy_out(f->device, &c, f->call.counts, sizeof c), WH_OK);
    assert_int_equal(wh_device_free(f->device, bits), WH_OK);
    return c.bad;
}

static const uint64_t sizes[] = {16, 17, 24, 33, 512, 1000, 8192, 8193, 16400, 65536};

static void test_disjoint_blocks_pass(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t pitch = (sizes[i] + 15) / 16 * 16;
        const uint64_t n = HEAP_BYTES / pitch < 600 ? HEAP_BYTES / pitch : 600;
        for (uint32_t lanes = 1; lanes <= 32; lanes += 31) {
            place(f, n, sizes[i], pitch, 0);
            const wh_bench_counts c = verify(f, lanes);
            assert_int_equal(c.bad, 0);
            assert_int_equal(c.failed, 0);
            assert_int_equal(c.served, n);
            assert_int_equal(c.requested, n * sizes[i]);
            assert_int_equal(c.high - c.low, (n - 1) * pitch + sizes[i]);
            assert_int_equal(claim(f, lanes), 0);
        }
    }
}

static void test_every_shared_place_is_seen(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t step = sizes[i] > 8192 ? 176 : 16;
        for (uint64_t pitch = 0; pitch < sizes[i]; pitch += step) {
            place(f, 2, sizes[i], pitch, 48);
            assert_in_range(claim(f, 1), 1, 2); /* both, if each comes second somewhere */
            assert_in_range(claim(f, 32), 1, 2);
        }
    }
}

#ifndef WH_TSAN /* overlapping blocks are data races, as it would rightly report */

/* Two blocks of one size that share any 16 bytes or more: one of them is found bad, by
 * its contents. */
static void test_every_overlap_is_seen(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t step = sizes[i] > 8192 ? 176 : 16;
        for (uint64_t pitch = 0; pitch + 16 <= sizes[i]; pitch += step) {
            for (uint64_t offset = 0; offset < 64; offset += 48) {
                place(f, 2, sizes[i], pitch, offset);
                assert_in_range(verify(f, 1).bad, 1, 2);
            }
        }
    }
}

static void test_wrapped_heap_is_seen(void **state) {
    fixture *f = *state;
    f->call.n = MOST;
    f->call.lo = 1024;
    f->call.hi = 1024;
    start(f, f->k->malloc_single, MOST);
    assert_true(verify(f, 1).bad >= MOST - 2 * (HEAP_BYTES / 1024));
    assert_true(verify(f, 32).bad >= MOST - 2 * (HEAP_BYTES / 1024));
}

#endif

static void test_misplaced_blocks_are_seen(void **state) {
    fixture *f = *state;
    place(f, 100, 64, 72, 0); /* every second one is off by 8 */
    assert_int_equal(verify(f, 1).bad, 50);
    place(f, 10, 64, 64, HEAP_BYTES - 5 * 64); /* five lie behind the heap */
    const wh_bench_counts c = verify(f, 1);
    assert_int_equal(c.bad, 5);
    place(f, 1, 64, 64, HEAP_BYTES - 48); /* one straddles its end */
    assert_int_equal(verify(f, 1).bad, 1);
}

static void test_null_pointers_are_failures(void **state) {
    fixture *f = *state;
    place(f, 64, 64, 64, 0);
    assert_int_equal(wh_device_set(f->device, f->call.ptrs, 0, 8 * sizeof(void *)), WH_OK);
    const wh_bench_counts c = verify(f, 1);
    assert_int_equal(c.failed, 8);
    assert_int_equal(c.served, 56);
    assert_int_equal(c.bad, 0);
}

/* What `walk` and `crossover` look at: pages of every allocator that walks. */
static void test_pages(void **state) {
    static const char *const names[] = {"rw", "rw-bm", "corw", "crw", "page-queue", "rw-malloc"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const wh_paper_kernels *k = wh_paper_kernels_find(names[i], WH_TARGET_SIM);
        const wh_bench_kernels *b = wh_bench_kernels_find(names[i], WH_TARGET_SIM);
        const wh_launch l = {f->device, 1, 64, NULL};
        wh_heap_options o;
        wh_stats stats;
        wh_paper_counts counts;
        wh_paper_call c;
        wh_heap *heap = NULL;
        void *p = NULL;
        uint32_t words[4] = {1u << 7, 0, 0, 0}; /* page 7 is held */
        memset(&o, 0, sizeof o);
        memset(&c, 0, sizeof c);
        memset(&counts, 0, sizeof counts);
        o.bytes = HEAP_BYTES / 64;
        wh_any_options exact = {0};
        o.allocator = names[i];
        set_option(&o, &exact, "exact_oom", 1);
        o.device = f->device;
        assert_non_null(k);
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(b->bind(heap, &c.handle), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        c.page_bytes = 256;
        c.pages = (stats.heap_bytes - stats.metadata_bytes) / c.page_bytes;
        assert_in_range(c.pages, 32, 128);
        assert_int_equal(wh_device_alloc(f->device, &p, sizeof words), WH_OK);
        c.occupied = p;
        assert_int_equal(wh_device_copy_in(f->device, p, words, sizeof words), WH_OK);
        assert_int_equal(wh_device_alloc(f->device, &p, sizeof counts), WH_OK);
        c.counts = p;
        assert_int_equal(wh_device_copy_in(f->device, p, &counts, sizeof counts), WH_OK);
        /* The lowest of all pages is the first one. */
        unsigned char *low = (unsigned char *)UINTPTR_MAX;
        void *all[128];
        c.ptrs = f->call.ptrs;
        fixture own = *f;
        own.call.handle = c.handle;
        own.call.n = c.pages;
        own.call.lo = own.call.hi = 256;
        start(&own, b->malloc_single, c.pages);
        assert_int_equal(wh_device_copy_out(f->device, all, c.ptrs, c.pages * sizeof *all), WH_OK);
        for (uint64_t n = 0; n < c.pages; n++) {
            assert_non_null(all[n]);
            low = (unsigned char *)all[n] < low ? all[n] : low;
        }
        void *pages[] = {low,       low + 256,     low + 512,           NULL, low + 256, low + 16,
                         low - 256, low + 7 * 256, low + c.pages * 256, low};
        c.n = sizeof pages / sizeof *pages;
        assert_int_equal(wh_device_copy_in(f->device, c.ptrs, pages, sizeof pages), WH_OK);
        assert_int_equal(k->claim(&l, &c), WH_OK);
        assert_int_equal(wh_device_copy_out(f->device, &counts, c.counts, sizeof counts), WH_OK);
        assert_int_equal(counts.bad, 6);
        assert_int_equal(wh_device_copy_out(f->device, words, c.occupied, sizeof words), WH_OK);
        assert_int_equal(words[0], 7u | 1u << 7);
        assert_int_equal(words[1] | words[2] | words[3], 0);
        assert_int_equal(wh_device_free(f->device, c.occupied), WH_OK);
        assert_int_equal(wh_device_free(f->device, c.counts), WH_OK);
        wh_heap_destroy(heap);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disjoint_blocks_pass),
        cmocka_unit_test(test_every_shared_place_is_seen),
#ifndef WH_TSAN
        cmocka_unit_test(test_every_overlap_is_seen),
        cmocka_unit_test(test_wrapped_heap_is_seen),
#endif
        cmocka_unit_test(test_misplaced_blocks_are_seen),
        cmocka_unit_test(test_null_pointers_are_failures),
        cmocka_unit_test(test_pages),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

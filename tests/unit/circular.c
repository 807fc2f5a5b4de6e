/* circular.c: the layout of the list allocators (equation 1 of Vinkler and Havran), the grace
 * periods of merged chunks, and gathering, step by step. */
#include "sim/sim_test.h"

#include "warpheap/detail/alloc/circular/circular.h"
#include "warpheap/heap.h"

/* Chunks 1, 2, 3, ... of sizes R / 2^floor(log2 i), level by level, for each offset; the
 * rest is one chunk. */
static void check_split(uint64_t bytes, uint32_t n_offsets) {
    wh_circular_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    assert_int_equal(wh_circular_plan_(&h, &plan, NULL, bytes, n_offsets, 8), WH_OK);
    assert_true(h.units < 1u << 30);
    assert_true(plan.metadata_bytes < bytes);
    uint64_t at = 0;
    for (uint32_t k = 0; k < n_offsets; k++) {
        for (uint32_t i = 1; i < 1u << h.levels; i++) {
            uint32_t log2 = 0;
            while (i >> (log2 + 1) != 0) {
                log2++;
            }
            if (wh_circular_split_(h, at) != at) {
                fail_msg("no chunk at %llu", (unsigned long long)at);
            }
            const uint64_t size = h.root >> log2;
            assert_true(wh_circular_split_(h, at + 1) == at + size ||
                        (i + 1 == 1u << h.levels && k + 1 == n_offsets));
            at += size;
            if (h.levels > 12 && i == 1u << 12) { /* the same pattern further on */
                at = (uint64_t)k * h.root * h.levels + (uint64_t)h.root * h.levels;
                break;
            }
        }
        assert_true(at == (uint64_t)(k + 1) * h.root * h.levels);
    }
    assert_true(at <= h.units);
    /* R is as large as fits: with one more unit in the smallest chunks it would not. */
    assert_true(h.root + (1u << (h.levels - 1)) > h.units / n_offsets / h.levels);
    assert_true(wh_circular_split_(h, at) == (at < h.units ? at : h.units));
    assert_true(wh_circular_split_(h, h.units) == h.units);
}

static void test_split(void **state) {
    static const uint32_t offsets[] = {1, 4, 132};
    (void)state;
    for (uint64_t bytes = 64 << 10; bytes <= (uint64_t)140 << 30; bytes = bytes * 3 + 1234) {
        for (uint32_t i = 0; i < 3; i++) {
            check_split(bytes, offsets[i]);
        }
    }
    /* Units of 16 bytes up to 16 GiB, larger ones above. */
    wh_circular_ref h;
    wh_plan plan;
    assert_int_equal(wh_circular_plan_(&h, &plan, NULL, (uint64_t)15 << 30, 1, 4), WH_OK);
    assert_int_equal(h.unit_log2, 4);
    assert_int_equal(wh_circular_plan_(&h, &plan, NULL, (uint64_t)80 << 30, 1, 4), WH_OK);
    assert_int_equal(h.unit_log2, 7);
}

typedef struct bed {
    wh_device *device;
    wh_heap *heap;
    wh_circular_ref h;
} bed;

static void set_up(bed *x, uint64_t bytes) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    x->device = open_policy(WH_SIM_ROUND_ROBIN, 1);
    o.device = x->device;
    o.allocator = "cfmalloc";
    o.bytes = bytes;
    assert_int_equal(wh_heap_create(&x->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle_of(x->heap, "cfmalloc", 0, &x->h, sizeof x->h), WH_OK);
}

static void tear_down(bed *x) {
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    wh_heap_destroy(x->heap);
    wh_device_close(x->device);
}

/* A search that was under way at a stamp keeps grace below it, whatever side it joined;
 * others that come and go do not. Outside a kernel the caller is one lane. */
static void test_grace(void **state) {
    bed x;
    (void)state;
    set_up(&x, 64 << 10);
    for (uint32_t before = 0; before < 5; before++) {
        const uint32_t slot = wh_circular_enter_(x.h);
        const uint64_t stamp = wh_circular_stamp_(x.h);
        for (uint32_t i = 0; i < 20; i++) {
            const uint32_t other = wh_circular_enter_(x.h);
            wh_circular_advance_(x.h, 1);
            wh_circular_leave_(x.h, other);
            wh_circular_advance_(x.h, 1);
        }
        assert_true(wh_load_u64_relaxed(&x.h.state->grace) < stamp);
        wh_circular_leave_(x.h, slot);
        for (uint32_t i = 0; i < 4; i++) {
            wh_circular_advance_(x.h, 1);
        }
        assert_true(wh_load_u64_relaxed(&x.h.state->grace) >= stamp);
        for (uint32_t i = 0; i < before; i++) { /* start from another half-step */
            wh_circular_advance_(x.h, 1);
        }
    }
    tear_down(&x);
}

/* A merged chunk is not handed out while a search is under way, and is afterwards. */
static void test_limbo(void **state) {
    bed x;
    (void)state;
    set_up(&x, 64 << 10);
    void *p = wh_cfmalloc_malloc(x.h, 1, 100);
    assert_non_null(p);
    const uint32_t slot = wh_circular_enter_(x.h);
    uint32_t u = 0;
    (void)wh_circular_find_(x.h, p, &u, 1);
    wh_cfmalloc_free(x.h, 1, p); /* merges with what was split off */
    assert_int_equal(wh_circular_read_(x.h, u, 1).flag, WH_CIRCULAR_LIMBO);
    wh_store_u32_relaxed(&x.h.offsets[0], u);
    const wh_circular_wish wish = {0, 2, 2, 0, 0};
    wh_circular_take t = wh_circular_search_(x.h, wish, 1);
    assert_true(t.outcome != WH_CIRCULAR_TOOK || t.u != u);
    if (t.outcome == WH_CIRCULAR_TOOK) {
        wh_circular_let_go_(x.h, t.u, WH_CIRCULAR_FREE, t.next, 1);
    }
    wh_circular_leave_(x.h, slot);
    for (uint32_t i = 0; i < 4; i++) {
        wh_circular_advance_(x.h, 1);
    }
    wh_store_u32_relaxed(&x.h.offsets[0], u);
    t = wh_circular_search_(x.h, wish, 1);
    assert_int_equal(t.outcome, WH_CIRCULAR_TOOK);
    assert_int_equal(t.u, u);
    wh_circular_let_go_(x.h, t.u, WH_CIRCULAR_FREE, t.next, 1);
    tear_down(&x);
}

/* No chunk of the split is as large as the pool: a gather joins them, and NULL comes only
 * when that does not help. */
static void test_gather(void **state) {
    bed x;
    wh_stats s;
    (void)state;
    set_up(&x, 256 << 10);
    assert_int_equal(wh_heap_get_stats(x.heap, &s), WH_OK);
    const uint64_t all = s.largest_free;
    assert_true(all > (uint64_t)x.h.root << x.h.unit_log2);
    void *p = wh_cfmalloc_malloc(x.h, 1, all);
    assert_non_null(p);
    assert_null(wh_cfmalloc_malloc(x.h, 1, 1));
    wh_cfmalloc_free(x.h, 1, p);
    assert_null(wh_cfmalloc_malloc(x.h, 1, all + 1));
    tear_down(&x);
}

typedef struct row_args {
    wh_circular_ref h;
    void **ptrs;
} row_args;

WH_KERNEL(row_malloc, row_args, a) {
    a.ptrs[wh_lane_id()] = wh_cfmalloc_malloc(a.h, ~0u, 16);
}

WH_KERNEL(row_free, row_args, a) {
    wh_cfmalloc_free(a.h, ~0u, a.ptrs[wh_lane_id()]);
}

static row_args set_up_row(bed *x) {
    row_args a;
    set_up(x, 64 << 10);
    a.h = x->h;
    a.ptrs = take(x->device, 32 * sizeof *a.ptrs);
    return a;
}

static uint32_t headers(const bed *x) {
    uint32_t n = 0;
    for (uint32_t k = 0; k <= x->h.units / 32; k++) {
        n += wh_popc32((uint32_t)wh_load_u64_relaxed(&x->h.map[k]));
    }
    return n;
}

/* A warp's blocks lie in a row and come back as one chunk, with what is free behind them; the
 * offset leads to a header at all times, so also after the one it led to has been merged. */
static void test_row(void **state) {
    bed x;
    void *p[32];
    (void)state;
    row_args a = set_up_row(&x);
    const uint32_t before = headers(&x);
    for (uint32_t round = 0; round < 3; round++) {
        const wh_launch l = grid(x.device, 1, 32);
        assert_int_equal(row_malloc(&l, &a), WH_OK);
        assert_int_equal(wh_device_copy_out(x.device, p, a.ptrs, sizeof p), WH_OK);
        const uint32_t first = wh_circular_offset_(x.h, 0);
        for (uint32_t i = 0; i < 32; i++) {
            assert_ptr_equal(p[i], (unsigned char *)p[0] + i * 32);
        }
        assert_true(wh_circular_is_header_(x.h, first));
        assert_int_equal(headers(&x), before + 32);
        assert_int_equal(row_free(&l, &a), WH_OK);
        const uint32_t second = wh_circular_offset_(x.h, 0);
        assert_int_equal(second, (uint32_t)((unsigned char *)p[0] - x.h.base) >> x.h.unit_log2);
        assert_int_equal(headers(&x), before);
        assert_int_equal(wh_heap_check(x.heap, NULL), WH_OK);
    }
    (void)wh_device_free(x.device, a.ptrs);
    tear_down(&x);
}

/* Chunks too small for all lanes serve some of them rather than none. */
static void test_small_chunks(void **state) {
    bed x;
    void *p[32];
    (void)state;
    row_args a = set_up_row(&x);
    /* All but every third piece of 3 units in use: a block of 16 bytes fits, two do not. */
    const uint32_t most = x.h.units / 3;
    void **taken = calloc(most, sizeof *taken);
    assert_non_null(taken);
    uint32_t n = 0;
    while ((taken[n] = wh_cfmalloc_malloc(x.h, 1, 40)) != NULL) {
        n++;
    }
    for (uint32_t i = 0; i < n; i += 3) {
        wh_cfmalloc_free(x.h, 1, taken[i]);
    }
    const wh_launch l = grid(x.device, 1, 32);
    assert_int_equal(row_malloc(&l, &a), WH_OK);
    assert_int_equal(wh_device_copy_out(x.device, p, a.ptrs, sizeof p), WH_OK);
    for (uint32_t i = 0; i < 32; i++) {
        assert_non_null(p[i]);
    }
    assert_int_equal(row_free(&l, &a), WH_OK);
    for (uint32_t i = 0; i < n; i++) {
        if (i % 3 != 0) {
            wh_cfmalloc_free(x.h, 1, taken[i]);
        }
    }
    free(taken);
    (void)wh_device_free(x.device, a.ptrs);
    tear_down(&x);
}

/* --- AWMalloc ------------------------------------------------------------------------- */

typedef struct bump_args {
    wh_awmalloc_ref heap;
    uint64_t low, high;
    uint64_t *outside; /* blocks that do not lie in low..high */
} bump_args;

WH_KERNEL(bump_at_once, bump_args, a) {
    const uint64_t n = wh_block_id() % 2 == 0 ? 704 : 400;
    for (uint32_t i = 0; i < 20; i++) {
        const uint64_t p =
            (uint64_t)(uintptr_t)wh_awmalloc_malloc(a.heap, 1u << wh_lane_id(), (size_t)n);
        if (p != 0 && (p < a.low || p + n > a.high)) {
            wh_add_u64_relaxed(a.outside, 1);
        }
    }
}

/* Requests of more than half of the heap, at once: who loses its turn to wrap the offset has no
 * block yet. */
static void test_bump_stays_inside(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        wh_heap_options o;
        bump_args a;
        wh_heap *heap = NULL;
        void *outside = NULL;
        wh_device *device = open_policy(WH_SIM_RANDOM, seed);
        memset(&a, 0, sizeof a);
        memset(&o, 0, sizeof o);
        o.device = device;
        o.bytes = 256 + 1024;
        o.allocator = "awmalloc";
        assert_int_equal(wh_device_alloc(device, &o.memory, o.bytes), WH_OK);
        assert_int_equal(wh_device_alloc(device, &outside, 8), WH_OK);
        assert_int_equal(wh_device_set(device, outside, 0, 8), WH_OK);
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle_of(heap, "awmalloc", 0, &a.heap, sizeof a.heap), WH_OK);
        a.low = (uint64_t)(uintptr_t)o.memory + 256;
        a.high = a.low + 1024;
        a.outside = (uint64_t *)outside;
        const wh_launch launch = {device, 4, 1, NULL};
        assert_int_equal(bump_at_once(&launch, &a), WH_OK);
        assert_int_equal(*a.outside, 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split),
                                       cmocka_unit_test(test_grace),
                                       cmocka_unit_test(test_limbo),
                                       cmocka_unit_test(test_gather),
                                       cmocka_unit_test(test_row),
                                       cmocka_unit_test(test_small_chunks),
                                       cmocka_unit_test(test_bump_stays_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

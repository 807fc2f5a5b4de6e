/* rwmalloc.c: the parts of RW_malloc against naive loops; segments across words, runs over
 * many words, and pieces of one unit, in heaps whose contents are known. */
#include "sim/sim_test.h"

#include "warpheap/detail/alloc/rwmalloc/rwmalloc.h"
#include "warpheap/heap.h"

static void test_bits(void **state) {
    uint64_t random = 3;
    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        const uint64_t free = next_random(&random) | next_random(&random);
        for (uint32_t n = 1; n <= 32; n++) {
            uint64_t expected = 0;
            for (uint32_t b = 0; b + n <= 64; b++) {
                const uint64_t run = (n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0) << b;
                expected |= (free & run) == run ? (uint64_t)1 << b : 0;
            }
            assert_true(wh_rwmalloc_starts_(free, n) == expected);
        }
    }
    for (uint32_t first = 0; first < 70; first++) {
        for (uint32_t n = 1; n < 100; n++) {
            for (uint32_t k = first / 32; k <= (first + n - 1) / 32; k++) {
                uint32_t expected = 0;
                for (uint32_t u = first; u < first + n; u++) {
                    expected |= u / 32 == k ? 1u << u % 32 : 0;
                }
                assert_int_equal(wh_rwmalloc_part_(k, first, n), expected);
            }
        }
    }
}

/* Segments side by side, from the lowest bit on, as a loop over the bits finds them. */
static void test_segments(void **state) {
    uint64_t random = 5;
    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t free = i == 0 ? ~0u : 0;
        if (i > 1) { /* of random units the half, or three quarters */
            free = (uint32_t)next_random(&random);
            free |= i % 2 != 0 ? (uint32_t)next_random(&random) : 0;
        }
        for (uint32_t n = 1; n <= 8; n++) {
            const uint32_t run = (1u << n) - 1;
            uint32_t k = 0, all = 0;
            for (uint32_t b = 0; b + n <= 32;) {
                if ((free >> b & run) != run) {
                    b++;
                    continue;
                }
                assert_int_equal(wh_rwmalloc_segment_(free, n, k), b);
                all |= run << b;
                assert_int_equal(wh_rwmalloc_first_(free, n, ++k), all);
                b += n;
            }
            assert_int_equal(wh_rwmalloc_segments_(free, n), k);
            assert_int_equal(wh_rwmalloc_first_(free, n, 0), 0);
        }
    }
}

/* Every way to put pieces one behind the other into a unit: each is found again. */
static void test_pieces(void **state) {
    (void)state;
    for (uint32_t cuts = 0; cuts < 1u << 15; cuts++) { /* bit b: a piece ends after granule b */
        uint32_t word = 0, from = 0;
        for (uint32_t g = 0; g < 16; g++) {
            if (g == 15 || (cuts >> g & 1) != 0) {
                word |= wh_rwmalloc_piece_(from, g + 1 - from);
                from = g + 1;
            }
        }
        assert_int_equal(word & WH_RWMALLOC_RUN, 0);
        from = 0;
        for (uint32_t g = 0; g < 16; g++) {
            if (g == 15 || (cuts >> g & 1) != 0) {
                assert_true((word >> from & 1) != 0);
                assert_int_equal(wh_rwmalloc_length_(word, from), g + 1 - from);
                from = g + 1;
            }
        }
    }
}

typedef struct heap_args {
    wh_rwmalloc_ref h;
    void **ptrs;
    const uint64_t *sizes;
    uint32_t n;
} heap_args;

WH_KERNEL(get_all, heap_args, a) {
    if (wh_lane_id() < a.n) {
        const wh_mask mask = a.n >= 32 ? ~0u : (1u << a.n) - 1;
        a.ptrs[wh_lane_id()] = wh_rwmalloc_malloc(a.h, mask, a.sizes[wh_lane_id()]);
    }
}

WH_KERNEL(free_all, heap_args, a) {
    if (wh_lane_id() < a.n) {
        const wh_mask mask = a.n >= 32 ? ~0u : (1u << a.n) - 1;
        wh_rwmalloc_free(a.h, mask, a.ptrs[wh_lane_id()]);
    }
}

typedef struct bed {
    wh_device *device;
    wh_heap *heap;
    heap_args a;
    void *ptrs[32];
} bed;

static void set_up(bed *x, uint64_t units, uint64_t seed) {
    wh_heap_options o;
    wh_rwmalloc_options own = WH_RWMALLOC_OPTIONS;
    memset(x, 0, sizeof *x);
    memset(&o, 0, sizeof o);
    x->device = open_policy(WH_SIM_RANDOM, seed);
    o.device = x->device;
    o.allocator = "rw-malloc";
    o.options = &own.head;
    own.unit_bytes = 256;
    o.bytes = units * 260 + (units + 31) / 32 * 8 + 16;
    assert_int_equal(wh_heap_create(&x->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle_of(x->heap, "rw-malloc", 0, &x->a.h, sizeof x->a.h), WH_OK);
    assert_int_equal(x->a.h.units, units);
    x->a.ptrs = take(x->device, sizeof x->ptrs);
    x->a.sizes = take(x->device, 32 * 8);
}

static void get(bed *x, const uint64_t *sizes, uint32_t n) {
    const wh_launch l = grid(x->device, 1, 32);
    x->a.n = n;
    assert_int_equal(
        wh_device_copy_in(x->device, (void *)(uintptr_t)x->a.sizes, sizes, n * sizeof *sizes),
        WH_OK);
    assert_int_equal(get_all(&l, &x->a), WH_OK);
    assert_int_equal(wh_device_copy_out(x->device, x->ptrs, x->a.ptrs, n * sizeof(void *)), WH_OK);
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
}

static void give(bed *x, uint32_t n) {
    const wh_launch l = grid(x->device, 1, 32);
    x->a.n = n;
    assert_int_equal(free_all(&l, &x->a), WH_OK);
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
}

static wh_stats stats(bed *x) {
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(x->heap, &s), WH_OK);
    return s;
}

static void tear_down(bed *x) {
    (void)wh_device_free(x->device, x->a.ptrs);
    (void)wh_device_free(x->device, (void *)(uintptr_t)x->a.sizes);
    wh_heap_destroy(x->heap);
    wh_device_close(x->device);
}

/* 32 pieces of 16 bytes are two units, not 32; freed piece by piece they come back. */
static void test_aggregate(void **state) {
    static const uint64_t mixed[] = {16, 200, 48, 100, 240, 16, 32, 7};
    uint64_t sizes[32];
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        bed x;
        set_up(&x, 2, seed);
        for (uint32_t i = 0; i < 32; i++) {
            sizes[i] = 16;
        }
        get(&x, sizes, 32);
        for (uint32_t i = 0; i < 32; i++) {
            assert_non_null(x.ptrs[i]);
        }
        assert_int_equal(stats(&x).live_blocks, 32);
        assert_int_equal(stats(&x).largest_free, 0);
        give(&x, 32);
        assert_int_equal(stats(&x).largest_free, 512);
        tear_down(&x);
        set_up(&x, 4, seed); /* next fit: 16 + 200, 48 + 100, 240 + 16, 32 + 7 */
        get(&x, mixed, 8);
        for (uint32_t i = 0; i < 8; i++) {
            assert_non_null(x.ptrs[i]);
        }
        assert_int_equal(stats(&x).largest_free, 0);
        give(&x, 8);
        assert_int_equal(stats(&x).largest_free, 1024);
        tear_down(&x);
    }
}

/* A segment across a word boundary, and a run over many words, where nothing else is left. */
static void test_runs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        bed x;
        set_up(&x, 160, seed);
        const uint64_t whole = 160 * 256;
        get(&x, &whole, 1); /* five words */
        assert_non_null(x.ptrs[0]);
        unsigned char *base = x.ptrs[0];
        const uint64_t none = 1;
        void *kept = x.ptrs[0];
        get(&x, &none, 1);
        assert_null(x.ptrs[0]); /* full */
        x.ptrs[0] = kept;
        assert_int_equal(wh_device_copy_in(x.device, x.a.ptrs, x.ptrs, sizeof(void *)), WH_OK);
        give(&x, 1);
        /* Units 20..43 free: 12 in word 0, 12 in word 1. */
        const uint64_t three[3] = {20 * 256, 24 * 256, 116 * 256};
        for (uint32_t i = 0; i < 3; i++) {
            static const uint32_t at[] = {0, 20, 44};
            assert_true(wh_rwmalloc_claim_(x.a.h.words, at[i], (uint32_t)(three[i] / 256)));
        }
        assert_false(wh_rwmalloc_claim_(x.a.h.words, 10, 100)); /* and leaves all as it was */
        wh_rwmalloc_release_(x.a.h.words, 20, 24);
        wh_store_u32_relaxed(&x.a.h.state[0], WH_RWMALLOC_RUN | 20);
        wh_store_u32_relaxed(&x.a.h.state[44], WH_RWMALLOC_RUN | 116);
        assert_int_equal(stats(&x).largest_free, 24 * 256);
        get(&x, &three[1], 1);
        assert_ptr_equal(x.ptrs[0], base + 20 * 256);
        const uint64_t one = 256;
        give(&x, 1);
        get(&x, &one, 1);
        assert_non_null(x.ptrs[0]);
        tear_down(&x);
    }
}

typedef struct sweep_args {
    wh_rwmalloc_map map;
    wh_mask mask;
    uint32_t n;
    uint32_t *unit; /* of each lane */
} sweep_args;

WH_KERNEL(sweep_run, sweep_args, a) {
    if ((a.mask >> wh_lane_id() & 1) != 0) {
        a.unit[wh_lane_id()] = wh_rwmalloc_sweep_(a.map, a.mask, a.n);
    }
}

static int is_free(const uint64_t *words, uint32_t first, uint32_t n) {
    for (uint32_t u = first; u < first + n; u++) {
        if ((wh_use_free(words[u / 32]) >> u % 32 & 1) == 0) {
            return 0;
        }
    }
    return 1;
}

/* Free units of a word, in maps of each kind: scattered, many, few in a row, long runs. */
static uint32_t some_free(uint32_t kind, uint64_t r, uint64_t q) {
    const uint64_t row = (r % 8 == 0 ? q : 0) << r / 8 % 32;
    const uint64_t run = r % 3 != 0 ? ~(uint64_t)0 : q;
    const uint64_t kinds[] = {r & q, r | q, row, run};
    return (uint32_t)kinds[kind];
}

#define MOST 300u

/* The sweep over these words finds a run if there is one; whether there is. */
static int check_sweep(wh_device *device, const sweep_args *a) {
    uint64_t before[MOST];
    const uint32_t n_units = 32 * a->map.n_words;
    uint32_t first = 0;
    memcpy(before, a->map.words, a->map.n_words * sizeof *before);
    while (first + a->n <= n_units && !is_free(before, first, a->n)) {
        first++;
    }
    const int there = first + a->n <= n_units;
    const wh_launch l = grid(device, 1, 32);
    assert_int_equal(sweep_run(&l, a), WH_OK);
    const uint32_t unit = a->unit[wh_ctz32(a->mask)];
    for (wh_mask m = a->mask; m != 0; m &= m - 1) {
        assert_int_equal(a->unit[wh_ctz32(m)], unit);
    }
    assert_int_equal(unit != WH_RWMALLOC_NONE, there);
    for (uint32_t k = 0; k < a->map.n_words; k++) { /* claimed, and no other */
        const int in = there && k >= unit / 32 && k <= (unit + a->n - 1) / 32;
        const uint64_t part = in ? wh_rwmalloc_part_(k, unit, a->n) : 0;
        assert_true((before[k] & part) == 0 && a->map.words[k] == (before[k] | part));
    }
    return there;
}

/* The sweep finds a run wherever there is one, in maps of scattered units, of long runs and of
 * single words that make up one, from any start and with any lanes. */
static void test_sweep(void **state) {
    static const uint32_t lengths[] = {1, 2, 5, 16, 31, 32, 33, 64, 100};
    static const wh_mask masks[] = {1, WH_FULL_WARP, 0x80000101, 0xffff};
    uint32_t found = 0, none = 0;
    (void)state;
    wh_device *device = NULL;
    assert_int_equal(wh_device_open(&device, "sim", NULL), WH_OK);
    void *memory = NULL, *units = NULL;
    assert_int_equal(wh_device_alloc(device, &memory, MOST * 8), WH_OK);
    assert_int_equal(wh_device_alloc(device, &units, 32 * 4), WH_OK);
    uint64_t random = 11;
    for (uint32_t i = 0; i < 60 * n_seeds(); i++) {
        uint64_t *words = memory;
        sweep_args a;
        a.map.words = words;
        a.map.n_words = 1 + (uint32_t)(next_random(&random) % MOST);
        a.map.start = (uint32_t)(next_random(&random) % a.map.n_words);
        a.mask = masks[next_random(&random) % 4];
        a.n = lengths[next_random(&random) % 9];
        a.unit = units;
        const uint32_t kind = (uint32_t)(next_random(&random) % 4);
        for (uint32_t k = 0; k < a.map.n_words; k++) {
            const uint64_t r = next_random(&random), q = next_random(&random);
            words[k] = (q >> 32) << 32 | (uint32_t)~some_free(kind, r, q);
        }
        const int there = check_sweep(device, &a);
        found += (uint32_t)there;
        none += (uint32_t)!there;
    }
    assert_true(found > 0 && none > 0);
    (void)wh_device_free(device, memory);
    (void)wh_device_free(device, units);
    wh_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),   cmocka_unit_test(test_segments),
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_aggregate),
        cmocka_unit_test(test_runs),   cmocka_unit_test(test_sweep)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

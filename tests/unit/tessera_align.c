/* tessera_align.c: blocks at multiples of up to 2 MiB, wherever the heap's memory begins. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

#define MIB ((uint64_t)1 << 20)
#define MOST 64u

typedef struct align_args {
    wh_heap_ref heap;
    unsigned char **p;
    uint64_t align, bytes;
} align_args;

/* Blocks until NULL. */
WH_KERNEL(take_all, align_args, a) {
    for (uint32_t i = 0; i < MOST; i++) {
        a.p[i] = (unsigned char *)wh_aligned_alloc(a.heap, a.align, a.bytes);
        if (a.p[i] == NULL) {
            break;
        }
        a.p[i][0] = a.p[i][a.bytes - 1] = 1;
    }
}

WH_KERNEL(free_all, align_args, a) {
    for (uint32_t i = 0; i < MOST; i++) {
        wh_free(a.heap, a.p[i]);
        a.p[i] = NULL;
    }
}

static uint32_t take_until_null(wh_device *device, const align_args *a) {
    const wh_launch one = {device, 1, 1, NULL};
    assert_int_equal(take_all(&one, a), WH_OK);
    assert_int_equal(wh_device_sync(device), WH_OK);
    uint32_t n = 0;
    for (; n < MOST && a->p[n] != NULL; n++) {
        assert_int_equal((uintptr_t)a->p[n] % a->align, 0);
    }
    return n;
}

/* Of a heap of that many bytes whose memory begins `past` bytes behind a multiple of 2 MiB. */
static void one_heap(uint64_t seed, uint64_t bytes, uint64_t past, uint64_t align, uint64_t n,
                     uint32_t least) {
    wh_device *device = open_policy(WH_SIM_RANDOM, seed);
    unsigned char *memory = take(device, bytes + past);
    assert_int_equal((uintptr_t)memory % (2 * MIB), 0); /* a seed repeats */
    wh_heap_options o;
    wh_heap *heap = NULL;
    align_args a;
    wh_stats before, after;
    memset(&o, 0, sizeof o);
    o.device = device;
    o.allocator = "tessera";
    o.bytes = bytes;
    o.memory = memory + past;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &before), WH_OK);
    memset(&a, 0, sizeof a);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    a.p = take(device, MOST * sizeof *a.p);
    a.align = align;
    a.bytes = n;
    for (uint32_t round = 0; round < 2; round++) { /* all that was cut off has gone back */
        const wh_launch one = {device, 1, 1, NULL};
        assert_true(take_until_null(device, &a) >= least);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(free_all(&one, &a), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &after), WH_OK);
        assert_int_equal(after.largest_free, before.largest_free);
        assert_int_equal(after.used_bytes, 0);
    }
    wh_heap_destroy(heap);
    wh_device_close(device);
}

static void test_two_mib(void **state) {
    static const uint64_t past[] = {0, 256, 16384, MIB - 256, MIB, 2 * MIB - 256};
    (void)state;
    for (uint64_t i = 0; i < sizeof past / sizeof *past; i++) {
        one_heap(i, 9 * MIB, past[i], 2 * MIB, 1, 2);
        one_heap(i, 9 * MIB, past[i], 2 * MIB, 2 * MIB, 2);
        one_heap(i, 9 * MIB, past[i], 2 * MIB, 2 * MIB + 1, 1);
        one_heap(i, 9 * MIB, past[i], MIB, MIB, 5);
        one_heap(i, 4 * MIB, past[i], 2 * MIB, 1, 1); /* no row is long enough for any place */
        one_heap(i, 3 * MIB / 2, MIB, 2 * MIB, 1, 1); /* nor the heap */
    }
}

static void test_no_more(void **state) {
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap_options o;
    wh_heap *heap = NULL;
    align_args a;
    (void)state;
    memset(&o, 0, sizeof o);
    o.device = device;
    o.bytes = 32 * MIB;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_allocator_find("tessera")->max_align, 2 * MIB);
    memset(&a, 0, sizeof a);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    a.p = take(device, MOST * sizeof *a.p);
    a.bytes = 1;
    a.align = 4 * MIB;
    assert_int_equal(take_until_null(device, &a), 0);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* --- NULL is exact --------------------------------------------------------------------------- */

#define MOST_RUNS 2048u
#define CHUNK ((uint64_t)16384)

typedef struct exact_args {
    wh_heap_ref heap;
    unsigned char **p;
    const unsigned char *frees; /* which of p */
    uint64_t align, bytes;
    uint32_t n; /* of p, which fill sets */
} exact_args;

/* Runs of two chunks until NULL, then what is left, so that all of the heap is in blocks. */
WH_KERNEL(fill, exact_args, a) {
    uint32_t n = 0;
    for (uint32_t half = 0; half < 2; half++) {
        while (n < MOST_RUNS && (a.p[n] = (unsigned char *)wh_malloc(
                                     a.heap, half == 0 ? 2 * CHUNK : CHUNK)) != NULL) {
            n++;
        }
    }
}

WH_KERNEL(free_some, exact_args, a) {
    for (uint32_t i = 0; i < MOST_RUNS; i++) {
        if (a.frees[i]) {
            wh_free(a.heap, a.p[i]);
        }
    }
}

/* Asks, and gives back: p[0] is what it was. Lanes ask one after the other, or all at once. */
WH_KERNEL(ask, exact_args, a) {
    unsigned char *p = (unsigned char *)wh_aligned_alloc(a.heap, a.align, a.bytes);
    wh_free(a.heap, p);
    a.p[wh_thread_id()] = p;
}

/* Whether a row of the heap's free chunks has a place for it. */
static int has_place(const unsigned char *is_free, uint64_t n, uint64_t first, uint64_t align,
                     uint64_t bytes) {
    const uint64_t keep = (bytes + CHUNK - 1) / CHUNK;
    for (uint64_t at = 0; at + keep <= n; at++) {
        uint64_t k = 0;
        while ((first + at) % (align / CHUNK) == 0 && k < keep && is_free[at + k]) {
            k++;
        }
        if (k == keep) {
            return 1;
        }
    }
    return 0;
}

static void test_exact(void **state) {
    (void)state;
    uint32_t some = 0, none = 0;
    for (uint64_t seed = 0; seed < 2 * n_seeds(); seed++) {
        static unsigned char is_free[2 * MOST_RUNS];
        uint64_t random = seed * 77 + 5;
        wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
        wh_heap_options o;
        wh_heap *heap = NULL;
        exact_args a;
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        memset(is_free, 0, sizeof is_free);
        o.device = device;
        o.bytes = 3 * MIB - seed % 2 * (3 * MIB / 4); /* a row for 2 MiB anywhere, or not */
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        unsigned char **all = take(device, MOST_RUNS * sizeof *all);
        unsigned char *frees = take(device, MOST_RUNS);
        memset(frees, 0, MOST_RUNS);
        memset(all, 0, MOST_RUNS * sizeof *all);
        a.p = all;
        a.frees = frees;
        const wh_launch one = {device, 1, 1, NULL}, warp = {device, 1, 32, NULL};
        assert_int_equal(fill(&one, &a), WH_OK);
        uint64_t first = UINT64_MAX, last = 0;
        for (uint32_t i = 0; i < MOST_RUNS && all[i] != NULL; i++) {
            const uint64_t chunk = (uintptr_t)all[i] / CHUNK;
            first = chunk < first ? chunk : first;
            last = chunk > last ? chunk : last;
        }
        for (uint32_t i = 0; i < MOST_RUNS && all[i] != NULL; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            wh_tessera_ref h = a.heap;
            const uint64_t at = (uintptr_t)all[i] / CHUNK - first;
            const uint64_t tag = h.tags[((uintptr_t)all[i] - (uintptr_t)h.base) / CHUNK];
            frees[i] = wh_tessera_kind(tag) == WH_TESSERA_RUN && random >> 33 & (i / 8 % 4);
            if (frees[i]) {
                is_free[at] = is_free[at + 1] = 1;
            }
        }
        assert_int_equal(free_some(&one, &a), WH_OK);
        a.p = take(device, 32 * sizeof *a.p);
        for (uint32_t k = 0; k < 60; k++) { /* in any order, so that verdicts of one meet others */
            random = random * 6364136223846793005u + 1442695040888963407u;
            const uint32_t lanes = random >> 62 == 0 ? 32 : 1;
            a.align = CHUNK << (random >> 40) % 8;
            a.bytes = CHUNK * (1 + (random >> 50) % 16) + 1;
            const int has = has_place(is_free, last - first + 2, first, a.align, a.bytes);
            assert_int_equal(ask(lanes == 1 ? &one : &warp, &a), WH_OK);
            if (lanes == 1) {
                assert_int_equal(a.p[0] != NULL, has);
                assert_int_equal((uintptr_t)a.p[0] % a.align, 0);
            } else { /* some of them may have it */
                uint32_t got = 0;
                for (uint32_t i = 0; i < 32; i++) {
                    got += a.p[i] != NULL;
                }
                assert_int_equal(got != 0, has);
            }
            some += (uint32_t)has;
            none += (uint32_t)!has;
        }
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
    assert_true(some > 10 && none > 10);
}

/* All chunks from the first multiple of the alignment on, up to the end of the heap. */
static void test_up_to_the_end(void **state) {
    (void)state;
    for (uint64_t k = 1; k <= 6; k++) {
        wh_device *device = open_policy(WH_SIM_RANDOM, k);
        wh_heap_options o;
        wh_heap *heap = NULL;
        align_args a;
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        o.device = device;
        o.allocator = "tessera";
        o.bytes = MIB + k * 16384;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        a.p = take(device, MOST * sizeof *a.p);
        a.align = 32768u << k % 2;
        const uint64_t base = (uint64_t)(uintptr_t)a.heap.base;
        a.bytes = base + a.heap.bytes - wh_round_up(base, a.align);
        assert_int_equal(take_until_null(device, &a), 1);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_mib), cmocka_unit_test(test_up_to_the_end),
        cmocka_unit_test(test_no_more), cmocka_unit_test(test_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

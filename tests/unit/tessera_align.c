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
        one_heap(i, 4 * MIB, past[i], 2 * MIB, 1, 0); /* no row is long enough for any place */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_mib),
                                       cmocka_unit_test(test_no_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

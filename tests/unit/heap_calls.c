/* heap_calls.c: malloc and free by the host: what blocks are like, seeds, many at once, and bad
 * input. */
#include "sim/sim_test.h"

#include "warpheap/heap_calls.h"
#include "warpheap/options.h"
#include "warpheap/records.h"
#include "warpheap/warpheap.h"

#define MOST 1000u

static wh_device *device;
static wh_heap *heap;
static wh_heap_call calls[MOST];

static void open_heap(const char *allocator, uint64_t bytes) {
    device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap_options o = {0};
    o.bytes = bytes;
    o.allocator = allocator;
    o.device = device;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    memset(calls, 0, sizeof calls);
}

static void close_heap(void) {
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(device);
}

static wh_status make(uint32_t n) {
    return wh_heap_make_calls(heap, calls, sizeof *calls, n);
}

static void *one(wh_heap_call_kind kind, void *block, uint64_t bytes) {
    calls[0].kind = kind;
    calls[0].block = block;
    calls[0].bytes = bytes;
    calls[0].align = 4096;
    assert_int_equal(make(1), WH_OK);
    return calls[0].block;
}

static void test_one(void **state) {
    (void)state;
    open_heap(NULL, 1 << 20);
    unsigned char *p = one(WH_CALL_CALLOC, NULL, 100);
    assert_non_null(p);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(p[i], 0);
        p[i] = (unsigned char)i;
    }
    p = one(WH_CALL_REALLOC, p, 5000);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(p[i], i);
    }
    (void)one(WH_CALL_USABLE_SIZE, p, 0);
    assert_true(calls[0].bytes >= 5000);
    (void)one(WH_CALL_OWNS, p, 0);
    assert_int_equal(calls[0].bytes, 1);
    (void)one(WH_CALL_OWNS, &heap, 7);
    assert_int_equal(calls[0].bytes, 0);
    assert_null(one(WH_CALL_FREE, p, 0));
    p = one(WH_CALL_ALIGNED_ALLOC, NULL, 10);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 4096, 0);
    assert_null(one(WH_CALL_FREE, p, 0));
    assert_null(one(WH_CALL_MALLOC, NULL, 1 << 21)); /* no room is no error */
    assert_null(one(WH_CALL_MALLOC, NULL, 0));
    close_heap();
}

/* Half of them frees what the other half does not touch. */
static void test_many(void **state) {
    (void)state;
    open_heap(NULL, 1 << 20);
    for (uint32_t i = 0; i < MOST; i++) {
        calls[i].kind = WH_CALL_MALLOC;
        calls[i].bytes = i % 200 + 1;
    }
    assert_int_equal(make(MOST), WH_OK);
    for (uint32_t i = 0; i < MOST; i++) {
        assert_non_null(calls[i].block);
        memset(calls[i].block, (int)i, calls[i].bytes);
        calls[i].kind = i % 2 == 0 ? WH_CALL_FREE : WH_CALL_REALLOC;
        calls[i].bytes = 300;
    }
    assert_int_equal(make(MOST), WH_OK);
    for (uint32_t i = 0; i < MOST; i++) {
        const unsigned char *p = calls[i].block;
        assert_int_equal(p == NULL, i % 2 == 0);
        for (uint32_t k = 0; p != NULL && k < i % 200 + 1; k++) {
            assert_int_equal(p[k], (unsigned char)i);
        }
    }
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    assert_int_equal(s.live_blocks, MOST / 2);
    close_heap();
}

/* A pointer that is none of the heap's is refused, and counted. */
static void test_foreign(void **state) {
    (void)state;
    open_heap(NULL, 1 << 20);
    unsigned char *p = one(WH_CALL_MALLOC, NULL, 64);
    uint64_t word = 0;
    (void)one(WH_CALL_FREE, &word, 0);
    (void)one(WH_CALL_FREE, p + 16, 0);
    (void)one(WH_CALL_FREE, (void *)(uintptr_t)4096, 0);
    (void)one(WH_CALL_FREE, p, 0);
    (void)one(WH_CALL_FREE, p, 0);
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    assert_int_equal(s.bad_frees, 4);
    (void)one(WH_CALL_USABLE_SIZE, &word, 9);
    assert_int_equal(calls[0].bytes, 0);
    p = one(WH_CALL_REALLOC, &word, 9); /* as a new block: nothing of a foreign one is read */
    assert_non_null(p);
    assert_null(one(WH_CALL_FREE, p, 0));
    close_heap();
}

static void says(const char *text) {
    if (strstr(wh_last_error_text(), text) == NULL) {
        fail_msg("'%s' does not say '%s'", wh_last_error_text(), text);
    }
}

/* Without sizes a realloc would lose what is there. */
static void test_no_sizes(void) {
    if (wh_allocator_find("bump") == NULL) {
        return;
    }
    open_heap("bump", 1 << 20);
    calls[0].bytes = 64;
    const wh_status s = make(1);
    if (s == WH_UNSUPPORTED) { /* checked builds have few of these kernels */
        says("this build leaves it out");
    } else {
        assert_int_equal(s, WH_OK);
    }
    for (uint32_t kind = WH_CALL_REALLOC; s == WH_OK && kind <= WH_CALL_USABLE_SIZE; kind++) {
        const wh_heap_call before = calls[1] = calls[0];
        const int has = kind == WH_CALL_ALIGNED_ALLOC || kind == WH_CALL_FREE;
        calls[1].kind = kind;
        assert_int_equal(make(2), has ? WH_OK : WH_UNSUPPORTED);
        if (!has) {
            says(kind == WH_CALL_REALLOC ? "call 1, block = realloc" : "usable_size(block)");
            says("heaps of bump");
            assert_memory_equal(&calls[0], &before, sizeof before);
        }
    }
    close_heap();
}

static void test_bad_input(void **state) {
    (void)state;
    open_heap(NULL, 1 << 20);
    assert_int_equal(make(0), WH_OK);
    assert_int_equal(wh_heap_make_calls(heap, NULL, sizeof *calls, 0), WH_OK);
    assert_int_equal(wh_heap_make_calls(heap, NULL, sizeof *calls, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_make_calls(NULL, calls, sizeof *calls, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_make_calls(heap, calls, sizeof *calls - 8, 1), WH_WRONG_BUILD);
    says("its own has 32");
    calls[1].kind = WH_CALL_KINDS;
    calls[0].bytes = 16;
    assert_int_equal(make(2), WH_BAD_ARGUMENT);
    says("call 1 is of the kind 7");
    assert_null(calls[0].block);
    close_heap();
    test_no_sizes();
    if (wh_allocator_find("null") != NULL) {
        open_heap("null", 1 << 20);
        const wh_status s = make(1);
        assert_int_equal(s, WH_UNSUPPORTED);
        says("of null");
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_device_close(device);
    }
}

/* A checked heap knows these calls, too. */
static void test_checked(void **state) {
    (void)state;
    device = open_policy(WH_SIM_RANDOM, 1);
    wh_any_options own = {{0}, {0}};
    assert_int_equal(wh_options_set(&own, "tessera.checked", 1), WH_OK);
    wh_heap_options o = {0};
    o.bytes = 1 << 20;
    o.device = device;
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    memset(calls, 0, sizeof calls);
    unsigned char *p = one(WH_CALL_MALLOC, NULL, 20);
    p[20] = 1;
    (void)one(WH_CALL_FREE, p, 0);
    wh_record record;
    uint32_t n = 0;
    assert_int_equal(wh_heap_violations(heap, &record, sizeof record, 1, &n), WH_OK);
    assert_int_equal(n, 1);
    assert_int_equal(record.kind, WH_RECORD_OVERRUN);
    close_heap();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),     cmocka_unit_test(test_many),
        cmocka_unit_test(test_foreign), cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

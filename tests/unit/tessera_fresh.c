/* tessera_fresh.c: when free slots of partial slabs come before fresh ones: from half of home on,
 * and in a reserved heap at once (docs/tessera/slabs.md). */
#define WH_ALLOCATOR tessera

#include "tessera_heap.h"

#define MOST 8000u
#define BLOCK 1024u

typedef struct fresh_args {
    wh_heap_ref heap;
    void **p;
    uint32_t n, more;
} fresh_args;

/* One lane: n blocks, every second one goes back, and more come: of these p has the addresses, of
 * those that went, too. */
WH_KERNEL(go_and_come, fresh_args, a) {
    for (uint32_t i = 0; i < a.n; i++) {
        a.p[i] = wh_malloc(a.heap, BLOCK);
    }
    for (uint32_t i = 1; i < a.n; i += 2) {
        wh_free(a.heap, a.p[i]);
    }
    for (uint32_t i = 0; i < a.more; i++) {
        a.p[a.n + i] = wh_malloc(a.heap, BLOCK);
    }
}

static int by_address(const void *a, const void *b) {
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* How many of the blocks that come lie where others went. */
static uint32_t used_again(wh_device *d, wh_heap_ref handle, uint32_t n, uint32_t more) {
    static uintptr_t gone[MOST];
    uint32_t again = 0, n_gone = 0;
    fresh_args a = {handle, take(d, MOST * sizeof(void *)), n, more};
    const wh_launch one = grid(d, 1, 1);
    assert_true(n + more <= MOST);
    assert_int_equal(go_and_come(&one, &a), WH_OK);
    for (uint32_t i = 0; i < n + more; i++) {
        assert_non_null(a.p[i]);
        if (i < n && i % 2 == 1) {
            gone[n_gone++] = (uintptr_t)a.p[i];
        }
    }
    qsort(gone, n_gone, sizeof *gone, by_address);
    for (uint32_t i = n; i < n + more; i++) {
        const uintptr_t key = (uintptr_t)a.p[i];
        again += bsearch(&key, gone, n_gone, sizeof *gone, by_address) != NULL;
    }
    return again;
}

static void test_plain(void **state) {
    (void)state;
    for (uint32_t is_full = 0; is_full < 2; is_full++) {
        wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
        wh_heap_ref handle;
        wh_heap *heap = make_heap_of(d, 4096, 8 << 20, 1, &handle);
        const uint32_t again = used_again(d, handle, is_full ? 5000 : 1000, 1000);
        assert_int_equal(again > 100, is_full);
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
}

static void test_reserved(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap_options o;
    wh_heap *heap = NULL;
    wh_heap_ref handle;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = 48 << 20;
    o.reserve_bytes = 64 << 20;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(heap, &handle), WH_OK);
    assert_true(used_again(d, handle, 1000, 1000) > 100);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

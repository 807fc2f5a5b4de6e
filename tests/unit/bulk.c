/* bulk.c: free slots that a class's semaphore does not count, for it would overflow, come back to
 * it in parts when they are wanted, however many lanes see at once that it has none. In hostile
 * builds, where it counts few. */
#include "sim/sim_test.h"

#include "warpheap/detail/alloc/bulk/bulk.h"
#include "warpheap/heap.h"

#define BLOCKS 32u
#define THREADS 2u /* many lanes that stand for themselves */
#define PER 32u
#define BYTES 16u /* class 0: bins of 32 */

typedef struct call {
    wh_bulk_ref heap;
    void **held; /* of PER * threads */
    uint32_t *most, *nulls;
} call;

/* A bin of which one slot is used stays. */
WH_FN int stays(wh_bulk_ref h, const void *p) {
    return (((const unsigned char *)p - h.base) / BYTES) % WH_BULK_SLOTS == 0;
}

WH_KERNEL(fill, call, a) {
    for (uint32_t k = 0; k < PER; k++) {
        void *p = wh_bulk_malloc(a.heap, wh_activemask(), BYTES);
        a.held[wh_thread_id() * PER + k] = p;
        wh_add_u32_relaxed(a.nulls, p == NULL);
    }
}
WH_KERNEL(thin_out, call, a) {
    for (uint32_t k = 0; k < PER; k++) {
        void **p = &a.held[wh_thread_id() * PER + k];
        if (!stays(a.heap, *p)) {
            wh_bulk_free(a.heap, wh_activemask(), *p);
            *p = NULL;
        }
    }
}
WH_KERNEL(fill_again, call, a) {
    for (uint32_t k = 0; k < PER; k++) {
        void **p = &a.held[wh_thread_id() * PER + k];
        if (*p == NULL) {
            *p = wh_bulk_malloc(a.heap, wh_activemask(), BYTES);
            wh_add_u32_relaxed(a.nulls, *p == NULL);
            const uint64_t sem = wh_load_u64_relaxed(wh_bulk_sem_(a.heap, WH_BULK_SETS));
            const int64_t count = wh_bulk_semaphore_count(sem);
            (void)wh_fetch_max_u32_relaxed(a.most, count > 0 ? (uint32_t)count : 0);
        }
    }
}
WH_KERNEL(free_all, call, a) {
    for (uint32_t k = 0; k < PER; k++) {
        wh_bulk_free(a.heap, wh_activemask(), a.held[wh_thread_id() * PER + k]);
    }
}

static void test_spare(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
        const wh_launch launch = grid(device, BLOCKS, THREADS);
        wh_heap_options o;
        wh_heap *heap = NULL;
        wh_stats s;
        call a;
        memset(&o, 0, sizeof o);
        o.device = device;
        o.allocator = "bulk";
        o.bytes = 256 << 10;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle_of(heap, "bulk", wh_bulk_layout(), &a.heap, sizeof a.heap),
                         WH_OK);
        uint32_t *counts = take(device, 8);
        a.most = counts;
        a.nulls = counts + 1;
        a.held = take(device, BLOCKS * THREADS * PER * sizeof(void *));
        assert_int_equal(fill(&launch, &a), WH_OK);
        assert_int_equal(thin_out(&launch, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(fill_again(&launch, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(free_all(&launch, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
        assert_int_equal(s.live_blocks, 0);
        assert_int_equal(counts[1], 0);
        assert_true(counts[0] <= WH_BULK_COUNTED + BLOCKS * THREADS);
        wh_heap_destroy(heap);
        assert_int_equal(wh_device_free(device, a.held), WH_OK);
        assert_int_equal(wh_device_free(device, counts), WH_OK);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spare)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

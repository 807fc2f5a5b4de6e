/* tessera_beside.c: a run that only just fits, while another lane's cursor takes some of its
 * chunks, which it has not used yet. There is room for the run all the time, so malloc must find it
 * (runs.h X2: the last look at cursors, while the lock for runs is held). */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define CHUNK 1024u

typedef struct beside_args {
    wh_heap_ref heap;
    uint64_t run; /* bytes */
    uint32_t n;   /* slots of a slab */
    uint32_t *nulls;
} beside_args;

/* All slots of a slab, so that the cursor's next span has several. */
WH_KERNEL(fill_slab, beside_args, a) {
    for (uint32_t i = 0; i < a.n; i++) {
        if (wh_malloc(a.heap, CHUNK / 2) == NULL) {
            wh_add_u32_relaxed(a.nulls, 1);
        }
    }
}

/* Block 0 wants the run; block 1 a slot. */
WH_KERNEL(beside, beside_args, a) {
    if (wh_malloc(a.heap, wh_block_id() == 0 ? a.run : CHUNK / 2) == NULL) {
        wh_add_u32_relaxed(a.nulls, 1);
    }
}

static void play(wh_device *device, wh_heap *heap, beside_args *a, uint64_t seed) {
    const wh_launch two = {device, 2, 1, NULL};
    assert_int_equal(beside(&two, a), WH_OK);
    if (*a->nulls != 0) {
        fail_msg("%u mallocs found nothing, seed %llu", *a->nulls, (unsigned long long)seed);
    }
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
}

/* The cursor takes two slabs, of which it uses one: with the full one before, all but two. */
static void test_beside_a_cursor(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60 * n_seeds(); seed++) {
        beside_args a;
        memset(&a, 0, sizeof a);
        wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
        wh_heap *heap = make_heap_of(device, CHUNK, 256 << 10, 1, &a.heap);
        const wh_tessera_class cls = a.heap.classes[wh_tessera_class_of(CHUNK / 2)];
        const wh_launch one = {device, 1, 1, NULL};
        a.nulls = take(device, sizeof *a.nulls);
        a.n = cls.slots;
        a.run = (uint64_t)(a.heap.core.n_chunks - 2 * cls.chunks) * CHUNK;
        assert_int_equal(fill_slab(&one, &a), WH_OK);
        play(device, heap, &a, seed);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_a_cursor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tessera_totals.c: mallocs and frees of the statistics, with the option track_totals: step by step
 * against a model; lanes and warps at once; and heaps that were asked for one of the two things
 * that are tracked, or for none. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

typedef enum step_kind { MALLOC, ALIGNED, CALLOC, REALLOC, FREE, FREE_INSIDE } step_kind;

typedef struct step_args {
    wh_heap_ref heap;
    void **p; /* the block of the step */
    uint64_t bytes;
    step_kind kind;
} step_args;

/* One lane: one call. */
WH_KERNEL(step, step_args, a) {
    switch (a.kind) {
    case MALLOC:
        *a.p = wh_malloc(a.heap, a.bytes);
        break;
    case ALIGNED:
        *a.p = wh_aligned_alloc(a.heap, 65536, a.bytes);
        break;
    case CALLOC:
        *a.p = wh_calloc(a.heap, 3, a.bytes / 3);
        break;
    case REALLOC:
        *a.p = wh_realloc(a.heap, *a.p, a.bytes);
        break;
    case FREE:
        wh_free(a.heap, *a.p);
        break;
    case FREE_INSIDE:
        wh_free(a.heap, (unsigned char *)*a.p + 8);
        break;
    }
}

typedef struct many_args {
    wh_heap_ref heap;
    uint32_t *given;
    uint32_t rounds;
} many_args;

/* Lanes, parts of warps and whole warps take, and free all but a part of it. */
WH_KERNEL(many, many_args, a) {
    const uint32_t lane = wh_lane_id();
    for (uint32_t i = 0; i < a.rounds; i++) {
        void *p = wh_malloc_lanes(a.heap, WH_FULL_WARP, lane == 5 ? 0 : 16u << (lane + i) % 12);
        void *one = wh_malloc_warp(a.heap, WH_FULL_WARP, 20000);
        void *q = lane % 3 == 0 ? wh_malloc(a.heap, 100) : NULL;
        wh_add_u32_relaxed(a.given, p != NULL);
        wh_add_u32_relaxed(a.given, q != NULL);
        wh_add_u32_relaxed(a.given, lane == 0 && one != NULL);
        wh_syncwarp(WH_FULL_WARP);
        wh_free_warp(a.heap, WH_FULL_WARP, one);
        if (lane % 2 == 0) {
            wh_free(a.heap, q);
        }
        wh_free_lanes(a.heap, WH_FULL_WARP, lane == 7 ? NULL : p);
    }
}

/* Lane 0 frees what the block of lane 1 frees, too, in one call. */
WH_KERNEL(twice, step_args, a) {
    wh_free_lanes(a.heap, WH_FULL_WARP, wh_lane_id() < 2 ? *a.p : NULL);
}

static wh_heap *create(wh_device *device, uint32_t track_peak, uint32_t track_totals) {
    wh_heap_options o;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    o.device = device;
    o.allocator = "tessera";
    o.bytes = 16 << 20;
    o.options = &own.head;
    own.track_peak = track_peak;
    own.track_totals = track_totals;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static wh_stats stats(wh_heap *heap) {
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(heap, &s), WH_OK);
    return s;
}

static void test_step_by_step(void **state) {
    enum { BLOCKS = 5 };
    static const struct {
        step_kind kind;
        uint32_t block;
        uint64_t bytes;
        uint32_t mallocs, frees; /* that this adds */
    } steps[] = {
        {MALLOC, 0, 1, 1, 0},       {MALLOC, 1, 100, 1, 0},      {MALLOC, 2, 5000, 1, 0},
        {MALLOC, 3, 0, 0, 0},       {FREE, 3, 0, 0, 0}, /* NULL */
        {FREE, 1, 0, 0, 1},         {FREE, 1, 0, 0, 0}, /* twice: not counted */
        {MALLOC, 3, 300000, 1, 0},  {FREE_INSIDE, 3, 0, 0, 0},   {FREE_INSIDE, 0, 0, 0, 0},
        {FREE, 3, 0, 0, 1},         {FREE, 3, 0, 0, 0},          {ALIGNED, 3, 20000, 1, 0},
        {ALIGNED, 4, 100, 1, 0},    {REALLOC, 2, 4000, 0, 0},    /* in place */
        {REALLOC, 2, 50000, 1, 1},  {REALLOC, 2, 1 << 30, 0, 0}, /* NULL: p stays */
        {MALLOC, 1, 1 << 30, 0, 0}, {REALLOC, 1, 30, 1, 0},      /* of NULL */
        {REALLOC, 1, 0, 0, 1},      {CALLOC, 1, 300, 1, 0},      {FREE, 4, 0, 0, 1},
    };
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    wh_heap *heap = create(device, 0, 1);
    void *p[BLOCKS] = {NULL};
    uint64_t mallocs = 0, frees = 0;
    step_args a;
    (void)state;
    memset(&a, 0, sizeof a);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    a.p = take(device, sizeof *a.p);
    assert_int_equal(stats(heap).mallocs, 0);
    assert_int_equal(stats(heap).frees, 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const uint32_t b = steps[i].block;
        const wh_launch launch = {device, 1, 1, NULL};
        *a.p = p[b];
        a.kind = steps[i].kind;
        a.bytes = steps[i].bytes;
        assert_int_equal(step(&launch, &a), WH_OK);
        const wh_stats s = stats(heap);
        p[b] = a.kind == REALLOC && a.bytes == 1 << 30 ? p[b] : *a.p;
        mallocs += steps[i].mallocs;
        frees += steps[i].frees;
        assert_int_equal(s.mallocs, mallocs);
        assert_int_equal(s.frees, frees);
        assert_int_equal(s.live_blocks, mallocs - frees);
        assert_true(s.peak_bytes == WH_UNKNOWN);
    }
    const wh_launch warp = {device, 1, 32, NULL};
    *a.p = p[0];
    assert_int_equal(twice(&warp, &a), WH_OK);
    assert_int_equal(stats(heap).frees, frees + 1);
    assert_int_equal(stats(heap).bad_frees, 5);
    assert_int_equal(wh_heap_reset(heap), WH_OK);
    assert_int_equal(stats(heap).mallocs, 0);
    assert_int_equal(stats(heap).frees, 0);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

static void test_many_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        wh_device *device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
        wh_heap *heap = create(device, seed % 2, 1);
        many_args a;
        memset(&a, 0, sizeof a);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        a.given = take(device, sizeof *a.given);
        a.rounds = 3;
        const wh_launch l = {device, 3, 64, NULL};
        assert_int_equal(many(&l, &a), WH_OK);
        const wh_stats s = stats(heap);
        assert_int_equal(s.failed, 0);
        assert_int_equal(s.mallocs, *a.given);
        assert_int_equal(s.mallocs, 6 * 3 * (31 + 11 + 1));
        assert_int_equal(s.frees, 6 * 3 * (30 + 6 + 1));
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

static void test_each_by_itself(void **state) {
    (void)state;
    for (uint32_t flags = 0; flags < 4; flags++) {
        wh_device *device = open_policy(WH_SIM_RANDOM, 1);
        wh_heap *heap = create(device, flags & 1, flags >> 1);
        many_args a;
        memset(&a, 0, sizeof a);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        a.given = take(device, sizeof *a.given);
        a.rounds = 1;
        const wh_launch l = {device, 1, 32, NULL};
        assert_int_equal(many(&l, &a), WH_OK);
        const wh_stats s = stats(heap);
        assert_int_equal(s.peak_bytes != WH_UNKNOWN, flags & 1);
        assert_int_equal(s.mallocs != WH_UNKNOWN, flags >> 1);
        assert_int_equal(s.frees != WH_UNKNOWN, flags >> 1);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step_by_step),
                                       cmocka_unit_test(test_many_at_once),
                                       cmocka_unit_test(test_each_by_itself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

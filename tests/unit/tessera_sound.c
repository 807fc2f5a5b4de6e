/* tessera_sound.c: what the check and the statistics say of a heap that has been wronged: a chunk
 * with two owners is seen, whoever they are, and no count goes below zero. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include "warpheap/options.h"
#include "warpheap/warpheap.h"

#define MIB ((uint64_t)1 << 20)
#define BLOCKS 100u

typedef struct sound_args {
    wh_heap_ref heap;
    void **p;
    uint64_t bytes;
} sound_args;

WH_KERNEL(take_blocks, sound_args, a) {
    a.p[wh_thread_id()] = wh_malloc(a.heap, a.bytes);
}

WH_KERNEL(give_blocks, sound_args, a) {
    wh_free(a.heap, a.p[wh_thread_id()]);
}

typedef struct fixture {
    wh_device *device;
    wh_heap *heap;
    sound_args a;
    wh_launch launch;
} fixture;

/* A heap with first spans, which has more than one chunk for each shard; it tracks all. */
static void set_up(fixture *f, uint64_t seed, uint64_t bytes) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    memset(f, 0, sizeof *f);
    memset(&o, 0, sizeof o);
    f->device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    own.chunk_bytes = 1024;
    own.shards = 2;
    own.track_peak = own.track_totals = 1;
    o.device = f->device;
    o.allocator = "tessera";
    o.bytes = 2 * MIB;
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&f->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(f->heap, &f->a.heap), WH_OK);
    f->a.p = take(f->device, BLOCKS * sizeof *f->a.p);
    f->a.bytes = bytes;
    f->launch = wh_grid(f->device, 1, BLOCKS);
}

static void tear_down(fixture *f) {
    assert_int_equal(wh_heap_destroy(f->heap), WH_OK);
    wh_device_close(f->device);
}

static wh_tessera_core core_of(const fixture *f) {
    return f->a.heap.core;
}

static uint64_t *span_of(const fixture *f, uint32_t shard, uint32_t c) {
    return &wh_tessera_cursor_at_(core_of(f), shard, c)->span;
}

static void expect_corrupt(const fixture *f) {
    wh_report r;
    assert_int_equal(wh_heap_check(f->heap, &r), WH_CORRUPT);
    assert_true(r.first_tag != 0);
}

/* Frees of blocks from before a reset: each is counted, or the check says that the heap is broken:
 * those of slots that a cursor has not handed out are taken for live ones. */
static void test_stale(void **state) {
    (void)state;
    static const uint32_t sizes[] = {16, 32, 48, 64, 100, 240, 256, 512, 700, 1024, 3000};
    uint32_t broken = 0;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            fixture f;
            wh_stats s;
            set_up(&f, seed, sizes[k]);
            assert_int_equal(take_blocks(&f.launch, &f.a), WH_OK);
            assert_int_equal(wh_heap_reset(f.heap), WH_OK);
            assert_int_equal(give_blocks(&f.launch, &f.a), WH_OK);
            const wh_status verdict = wh_heap_check(f.heap, NULL);
            assert_int_equal(wh_heap_get_stats(f.heap, &s), WH_OK);
            broken += verdict == WH_CORRUPT;
            assert_true(verdict == WH_CORRUPT || s.bad_frees == BLOCKS);
            /* No count goes below zero, now or later. */
            for (uint32_t round = 0; round < 2; round++) {
                assert_true(s.used_bytes <= s.heap_bytes && s.peak_bytes <= s.heap_bytes);
                assert_true(s.largest_free <= s.heap_bytes && s.live_blocks <= BLOCKS);
                assert_true(s.mallocs <= BLOCKS && s.frees <= s.mallocs);
                assert_int_equal(take_blocks(&f.launch, &f.a), WH_OK);
                assert_int_equal(wh_heap_get_stats(f.heap, &s), WH_OK);
            }
            assert_int_equal(wh_heap_reset(f.heap), WH_OK); /* mends it */
            assert_int_equal(wh_heap_check(f.heap, NULL), WH_OK);
            tear_down(&f);
        }
    }
    assert_true(broken != 0); /* else docs/tessera/slabs.md says too little */
}

/* Blocks that nobody has counted, as of a kernel that died in malloc. */
static void test_uncounted(void **state) {
    (void)state;
    fixture f;
    wh_stats s;
    set_up(&f, 1, 48);
    assert_int_equal(take_blocks(&f.launch, &f.a), WH_OK);
    assert_int_equal(wh_heap_get_stats(f.heap, &s), WH_OK);
    assert_true(s.mallocs == BLOCKS && s.frees == 0 && s.live_blocks == BLOCKS);
    wh_tessera_header_(core_of(&f))->mallocs = BLOCKS / 2;
    assert_int_equal(wh_heap_get_stats(f.heap, &s), WH_OK);
    assert_true(s.mallocs == BLOCKS / 2 && s.frees == 0 && s.live_blocks == BLOCKS);
    tear_down(&f);
}

/* The last chunk that a cursor holds is in the pool, too; the cursor has untouched slabs there. */
static void test_pool_and_cursor(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 4; c++) {
        fixture f;
        set_up(&f, c, 16);
        const uint64_t span = *span_of(&f, 1, c);
        const wh_tessera_class cls = f.a.heap.classes[c];
        assert_true(wh_tessera_has_slots(span));
        const uint32_t slabs = wh_tessera_span_slots(span) / cls.slots;
        const uint32_t chunk = wh_tessera_span_first(span) + (slabs - 1) * cls.chunks;
        assert_int_equal(wh_heap_check(f.heap, NULL), WH_OK);
        wh_veb_insert_range(wh_tessera_pool_(core_of(&f)), chunk, cls.chunks);
        expect_corrupt(&f);
        tear_down(&f);
    }
}

/* Two cursors hold the same slots: of two shards, of two classes. */
static void test_two_cursors(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        fixture f;
        set_up(&f, k, 16);
        *span_of(&f, k, 1 - k) = *span_of(&f, 0, 0);
        if (k == 0) { /* the first one is of shard 0, too */
            assert_true(wh_tessera_has_slots(*span_of(&f, 0, 1)));
        }
        expect_corrupt(&f);
        tear_down(&f);
    }
}

/* A run lies where a cursor has slots; a run that has become shorter, so that the chunks behind it
 * are nobody's; one that has become longer. */
static void test_runs(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        fixture f;
        set_up(&f, k, 5000); /* 5 chunks */
        f.launch.threads = 7;
        assert_int_equal(take_blocks(&f.launch, &f.a), WH_OK);
        assert_int_equal(wh_heap_check(f.heap, NULL), WH_OK);
        const uint32_t chunk =
            (uint32_t)(((uint64_t)((unsigned char *)f.a.p[3] - f.a.heap.base)) >> 10);
        uint64_t *tag = wh_tessera_tag_at_(core_of(&f), chunk);
        assert_int_equal(wh_tessera_kind(*tag), WH_TESSERA_RUN);
        if (k == 0) {
            *span_of(&f, 0, 0) = wh_tessera_span(chunk, 64, 0);
        } else {
            *tag += ((uint64_t)1 << 32) * (k == 1 ? UINT64_MAX : 1);
        }
        expect_corrupt(&f);
        tear_down(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_uncounted),
        cmocka_unit_test(test_pool_and_cursor),
        cmocka_unit_test(test_two_cursors),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

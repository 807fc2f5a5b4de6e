/* tessera_left.c: how many blocks of a size are left, against
 * what malloc then gives until NULL: of fresh heaps, and of heaps that have been filled and of
 * which some has been freed; by one lane and by warps; asked from the host and in kernels, and
 * while lanes run. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"
#include "unit/tessera_heap.h"

typedef struct fill_args {
    wh_heap_ref heap;
    void **p; /* the blocks; room for `most` */
    uint64_t *n;
    uint64_t bytes; /* of each; 0: any size up to 32 KiB */
    uint64_t most;
} fill_args;

/* All lanes until NULL. */
WH_KERNEL(fill, fill_args, a) {
    uint64_t random = wh_thread_id() * 0x9e3779b97f4a7c15u;
    for (;;) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t mixed = 1 + (random >> 40) % (16u << (random >> 60) % 12);
        void *p = wh_malloc(a.heap, a.bytes != 0 ? a.bytes : mixed);
        if (p == NULL) {
            break;
        }
        const uint64_t k = wh_fetch_add_u64_relaxed(a.n, 1);
        if (k < a.most) {
            a.p[k] = p;
        }
    }
}

/* Frees the blocks that are not NULL. */
WH_KERNEL(release, fill_args, a) {
    for (uint64_t k = wh_thread_id(); k < a.most; k += wh_grid_threads()) {
        wh_free(a.heap, a.p[k]);
    }
}

typedef struct ask_args {
    wh_heap_ref heap;
    uint64_t *left; /* [0]: of a lane alone; [1] to [32]: of the lanes of a warp */
    uint64_t bytes;
} ask_args;

WH_KERNEL(ask, ask_args, a) {
    const uint32_t lane = wh_lane_id();
    a.left[1 + lane] = wh_blocks_left_warp(a.heap, WH_FULL_WARP, a.bytes);
    if (lane == 7) {
        a.left[0] = wh_blocks_left(a.heap, a.bytes);
    }
}

static uint64_t host_left(wh_heap *heap, uint64_t bytes) {
    uint64_t left = 1;
    assert_int_equal(wh_heap_blocks_left(heap, bytes, &left), WH_OK);
    return left;
}

/* The answer, which is the same from everywhere. */
static uint64_t left_of(wh_device *device, wh_heap *heap, ask_args *a, uint64_t bytes) {
    const wh_launch warp = {device, 1, 32, NULL};
    const uint64_t left = host_left(heap, bytes);
    a->bytes = bytes;
    assert_int_equal(ask(&warp, a), WH_OK);
    assert_int_equal(wh_device_sync(device), WH_OK);
    for (uint32_t k = 0; k < 33; k++) {
        assert_int_equal(a->left[k], left);
    }
    return left;
}

#define MOST 300000u

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    fill_args fill;
    ask_args ask;
} context;

static void make(context *x, uint64_t seed, uint32_t chunk_bytes, uint64_t bytes, uint32_t shards) {
    memset(x, 0, sizeof *x);
    x->device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    x->heap = make_heap_of(x->device, chunk_bytes, bytes, shards, &x->fill.heap);
    x->ask.heap = x->fill.heap;
    x->fill.most = MOST;
    x->fill.p = take(x->device, MOST * sizeof *x->fill.p);
    x->fill.n = take(x->device, sizeof *x->fill.n);
    x->ask.left = take(x->device, 33 * sizeof *x->ask.left);
}

static void drop(context *x) {
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    wh_heap_destroy(x->heap);
    wh_device_close(x->device);
}

/* Blocks of one size, or of any (0), until NULL. */
static uint64_t fill_with(context *x, uint64_t bytes, int by_warps) {
    const wh_launch one = {x->device, 1, 1, NULL}, some = {x->device, 2, 64, NULL};
    *x->fill.n = 0;
    x->fill.bytes = bytes;
    assert_int_equal(fill(by_warps ? &some : &one, &x->fill), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    return *x->fill.n;
}

/* Frees about half of the blocks. */
static void free_some(context *x, uint64_t *random) {
    const wh_launch some = {x->device, 1, 64, NULL};
    for (uint64_t k = 0; k < MOST; k++) {
        x->fill.p[k] = (next_random(random) & 1) != 0 ? x->fill.p[k] : NULL;
    }
    assert_int_equal(release(&some, &x->fill), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
}

enum { FRESH, SAME, SAME_BY_WARPS, MIXED, STATES };

/* How far the answer may be off. */
static uint64_t slack(uint64_t bytes, uint64_t got, int state) {
    if (bytes <= 4096) {
        return state == FRESH ? got / 200 : 0;
    }
    return bytes <= 16384 ? got / 50 : got / 20 + 2;
}

static void one_case(uint64_t seed, uint64_t bytes, uint32_t shards, int state) {
    context x;
    uint64_t random = seed;
    make(&x, seed, 0, (9 << 20) + 4096 * seed, shards);
    if (state != FRESH) {
        (void)fill_with(&x, state == MIXED ? 0 : bytes, state != SAME);
        assert_int_equal(left_of(x.device, x.heap, &x.ask, state == MIXED ? 32768 : bytes), 0);
        free_some(&x, &random);
    }
    const uint64_t left = left_of(x.device, x.heap, &x.ask, bytes);
    const uint64_t got = fill_with(&x, bytes, state == SAME_BY_WARPS);
    const uint64_t off = left > got ? left - got : got - left;
    if (off > slack(bytes, got, state)) {
        fail_msg("seed %llu, state %d, %u sets, %llu bytes: %llu left, %llu got",
                 (unsigned long long)seed, state, shards, (unsigned long long)bytes,
                 (unsigned long long)left, (unsigned long long)got);
    }
    assert_int_equal(left_of(x.device, x.heap, &x.ask, bytes), 0);
    drop(&x);
}

static void test_until_null(void **state) {
    static const uint64_t sizes[] = {64,    100,    200,    500,    1000,    1088,   2048,  3000,
                                     4096,  5000,   8700,   14000,  16384,   16385,  20000, 33000,
                                     50000, 100000, 300000, 540000, 1 << 20, 3000000};
    const uint32_t n = sizeof sizes / sizeof *sizes;
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        for (uint32_t i = seed % 2; i < n; i += 2) {
            one_case(seed, sizes[i], i % 3 == 0 ? 1 : 4, (int)((seed + i) / 2 % STATES));
        }
    }
}

/* Sizes above a chunk in larger heaps, any of them: within a fifth and two blocks. */
static void test_large(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3 * n_seeds(); seed++) {
        context x;
        uint64_t random = seed;
        const uint64_t bytes = 17000 + next_random(&random) % 1600000;
        make(&x, seed, 0, (8 << 20) + next_random(&random) % (100 << 20), 1);
        const uint64_t left = left_of(x.device, x.heap, &x.ask, bytes);
        const uint64_t got = fill_with(&x, bytes, seed % 2 == 0);
        const uint64_t off = left > got ? left - got : got - left;
        if (off > got / 5 + 2) {
            fail_msg("seed %llu, %llu bytes: %llu left, %llu got", (unsigned long long)seed,
                     (unsigned long long)bytes, (unsigned long long)left, (unsigned long long)got);
        }
        assert_int_equal(left_of(x.device, x.heap, &x.ask, bytes), 0);
        drop(&x);
    }
}

static void test_edges(void **state) {
    context x;
    uint64_t left = 1;
    (void)state;
    make(&x, 1, 1024, 300000, 1);
    assert_int_equal(left_of(x.device, x.heap, &x.ask, 0), 0);
    assert_int_equal(left_of(x.device, x.heap, &x.ask, UINT64_MAX), 0);
    assert_int_equal(left_of(x.device, x.heap, &x.ask, 300000), 0);
    const uint64_t all = (uint64_t)x.fill.heap.core.n_chunks << 10;
    assert_int_equal(left_of(x.device, x.heap, &x.ask, all), 1);
    assert_int_equal(left_of(x.device, x.heap, &x.ask, all + 1), 0);
    assert_int_equal(left_of(x.device, x.heap, &x.ask, 1024), all >> 10);
    assert_int_equal(fill_with(&x, all, 0), 1);
    assert_int_equal(left_of(x.device, x.heap, &x.ask, 1), 0);
    assert_int_equal(wh_heap_blocks_left(NULL, 1, &left), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_blocks_left(x.heap, 1, NULL), WH_BAD_ARGUMENT);
    drop(&x);
}

typedef struct busy_args {
    wh_heap_ref heap;
    uint32_t *bad;
    uint64_t most; /* answers that make sense */
} busy_args;

/* Block 0 asks, the others take and free. */
WH_KERNEL(busy, busy_args, a) {
    const uint32_t size = 16u << wh_thread_in_block() % 12;
    for (uint32_t i = 0; i < 6; i++) {
        if (wh_block_id() == 0) {
            const uint64_t left = wh_blocks_left_warp(a.heap, WH_FULL_WARP, 64);
            wh_add_u32_relaxed(a.bad, left == 0 || left > a.most);
            wh_add_u32_relaxed(a.bad, wh_blocks_left_warp(a.heap, WH_FULL_WARP, 40000) > a.most);
        } else {
            wh_free(a.heap, wh_malloc(a.heap, size + i));
        }
    }
}

static void test_while_lanes_run(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        make(&x, seed, 0, 9 << 20, 2);
        busy_args a;
        memset(&a, 0, sizeof a);
        a.heap = x.fill.heap;
        a.bad = take(x.device, sizeof *a.bad);
        a.most = 2 * left_of(x.device, x.heap, &x.ask, 64);
        const wh_launch l = {x.device, 4, 32, NULL};
        assert_int_equal(busy(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(x.device), WH_OK);
        assert_int_equal(*a.bad, 0);
        drop(&x);
    }
}

typedef struct beside_args {
    wh_heap_ref heap;
    uint32_t *looked, *wrong;
} beside_args;

/* Slots of the slab at `chunk` that are still a cursor's. */
WH_FN uint32_t unused_of(wh_tessera_core g, uint32_t chunk) {
    wh_tessera_slab_view view;
    return wh_tessera_view_slab_(g, chunk, &view) ? view.end - view.left : ~0u;
}

/* Two slabs of one class and shard in a row, of which one is smaller than is usual; the cursor has
 * all slots of the first, and none of the second. Each class whose slabs can be smaller. */
WH_KERNEL(beside, beside_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    const wh_tessera_header *header = wh_tessera_header_(g);
    const uint32_t first = (g.begin + 63) & ~63u;
    (void)wh_veb_claim_mask(wh_tessera_pool_(g), first >> 6, ~(uint64_t)0);
    for (uint32_t c = 0; c < g.n_small; c++) {
        const wh_tessera_class cls = header->classes[c];
        for (uint32_t chunks = 1; chunks < cls.chunks; chunks++) {
            const uint32_t slots = (chunks << g.chunk_log2) / cls.slot_size;
            const uint64_t smaller = wh_tessera_slab_tag(c, chunks, cls.slot_size);
            uint64_t *span = &wh_tessera_cursor_at_(g, 0, c)->span;
            for (uint32_t usual_first = 0; slots != 0 && usual_first < 2; usual_first++) {
                const uint32_t next = first + (usual_first ? cls.chunks : chunks);
                const uint32_t has = usual_first ? cls.slots : slots;
                *wh_tessera_tag_at_(g, first) = usual_first ? header->slab_tags[c] : smaller;
                *wh_tessera_tag_at_(g, next) = usual_first ? smaller : header->slab_tags[c];
                *span = wh_tessera_span(first, has, 0);
                *a.wrong += unused_of(g, first) != has || unused_of(g, next) != 0;
                *span = wh_tessera_span(first, has, has);
                *a.wrong += unused_of(g, first) != 0 || unused_of(g, next) != 0;
                ++*a.looked;
            }
        }
    }
}

static void test_smaller_slab(void **state) {
    (void)state;
    static const uint32_t chunk_bytes[] = {1024, 4096, 0};
    for (uint32_t k = 0; k < 3; k++) {
        context x;
        make(&x, 1, chunk_bytes[k], 16 << 20, 1);
        beside_args a;
        memset(&a, 0, sizeof a);
        a.heap = x.fill.heap;
        a.looked = take(x.device, sizeof *a.looked);
        a.wrong = take(x.device, sizeof *a.wrong);
        const wh_launch one = {x.device, 1, 1, NULL};
        assert_int_equal(beside(&one, &a), WH_OK);
        assert_int_equal(wh_device_sync(x.device), WH_OK);
        assert_true(*a.looked != 0);
        assert_int_equal(*a.wrong, 0);
        wh_heap_destroy(x.heap);
        wh_device_close(x.device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_until_null),
                                       cmocka_unit_test(test_large), cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_while_lanes_run),
                                       cmocka_unit_test(test_smaller_slab)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

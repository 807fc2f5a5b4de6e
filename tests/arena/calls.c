/* calls.c: what each call promises, one at a time: sizes and alignments, where blocks lie, how
 * large pieces are, what a rewind gives back and what it keeps, a full heap, and what is left if
 * nobody closes. */
#include "sim/sim_test.h"

#include "warpheap/arena.h"

enum { THREADS = 32, FEW = 8 };

typedef struct args {
    wh_heap_ref heap;
    uint32_t first, most;
    uint64_t *out; /* of each thread: what the kernel has seen */
    void **held;
    uint64_t n; /* of held, sizes and align */
    uint64_t sizes[FEW];
    uint64_t align;
} args;

#define OUT 24u

typedef struct bench {
    wh_device *device;
    wh_heap *heap;
    args a;
} bench;

static void open_seed(bench *b, uint64_t heap_bytes, uint64_t seed) {
    wh_heap_options o;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    memset(b, 0, sizeof *b);
    memset(&o, 0, sizeof o);
    own.track_totals = 1;
    b->device = open_policy((wh_sim_policy)((seed + 1) % N_POLICIES), seed);
    o.device = b->device;
    o.options = &own.head;
    assert_int_equal(wh_heap_min_bytes(&o, &o.bytes), WH_OK);
    o.bytes += heap_bytes;
    assert_int_equal(wh_heap_create(&b->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(b->heap, &b->a.heap), WH_OK);
    b->a.out = take(b->device, (uint64_t)THREADS * 4 * OUT * sizeof *b->a.out);
}

static void open_bench(bench *b, uint64_t heap_bytes) {
    open_seed(b, heap_bytes, 0);
}

static wh_stats stats_of(const bench *b) {
    wh_stats s;
    s.struct_bytes = sizeof s;
    assert_int_equal(wh_heap_get_stats(b->heap, &s), WH_OK);
    return s;
}

static void close_bench(bench *b) {
    assert_int_equal(stats_of(b).live_blocks, 0);
    assert_int_equal(wh_heap_check(b->heap, NULL), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->a.out), WH_OK);
    assert_int_equal(wh_heap_destroy(b->heap), WH_OK);
    wh_device_close(b->device);
}

static void run(bench *b, wh_status (*kernel)(const wh_launch *, const args *), uint32_t threads) {
    const wh_launch l = grid(b->device, 1, threads);
    if (kernel(&l, &b->a) != WH_OK) {
        fail_msg("%s", wh_device_error_text(b->device));
    }
    assert_int_equal(wh_device_sync(b->device), WH_OK);
}

WH_FN uint64_t address(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

/* --- sizes and places ------------------------------------------------------------------------- */

static const size_t no_sizes[] = {
    0, SIZE_MAX, SIZE_MAX - 14, SIZE_MAX - 15, SIZE_MAX / 2, (size_t)1 << 50, (size_t)1 << 40};
#define NO_SIZES (sizeof no_sizes / sizeof *no_sizes)

/* Blocks lie one behind the other, and what is no request takes nothing. */
WH_KERNEL(lane_places, args, a) {
    wh_arena arena = wh_arena_open(a.first, a.most);
    uint64_t *out = a.out + wh_thread_id() * OUT;
    out[0] = arena.top; /* nothing was taken so far */
    out[1] = address(wh_arena_malloc(a.heap, &arena, 1));
    for (size_t i = 0; i < NO_SIZES; i++) {
        out[2] |= address(wh_arena_malloc(a.heap, &arena, no_sizes[i]));
        out[2] |= address(wh_arena_aligned_alloc(a.heap, &arena, 64, no_sizes[i]));
    }
    out[2] |= address(wh_arena_aligned_alloc(a.heap, &arena, 0, 8));
    out[2] |= address(wh_arena_aligned_alloc(a.heap, &arena, 24, 8));
    out[2] |= address(wh_arena_aligned_alloc(a.heap, &arena, (size_t)1 << 40, 8));
    out[3] = address(wh_arena_malloc(a.heap, &arena, 16));
    out[4] = address(wh_arena_malloc(a.heap, &arena, 17));
    out[5] = address(wh_arena_malloc(a.heap, &arena, 16));
    out[6] = address(wh_arena_aligned_alloc(a.heap, &arena, 4096, 8));
    out[7] = address(wh_arena_aligned_alloc(a.heap, &arena, 1, 8));
    out[8] = arena.piece;
    wh_arena_close(a.heap, &arena);
    out[9] = arena.piece | arena.top | arena.spare;
}

static void test_lane_places(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 8u << 20);
    b.a.first = 1024; /* in the hostile build, too */
    b.a.most = 4096;
    run(&b, lane_places, THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        const uint64_t *out = b.a.out + i * OUT;
        assert_true(out[0] == 0 && out[1] != 0 && out[2] == 0 && out[9] == 0);
        assert_int_equal(out[1] % 16, 0);
        assert_int_equal(out[3], out[1] + 16);
        assert_int_equal(out[4], out[3] + 16);
        assert_int_equal(out[5], out[4] + 32);
        assert_true(out[6] != 0 && out[6] % 4096 == 0);
        assert_int_equal(out[7] % 16, 0);
        assert_true(out[8] == 2048 || out[8] == 4096);
    }
    close_bench(&b);
}

/* A call of a warp: side by side in the order of the lanes; none for lanes that want none, or what
 * nobody has. */
WH_KERNEL(warp_places, args, a) {
    wh_warp_arena arena = wh_warp_arena_open(WH_FULL_WARP, a.first, a.most);
    const uint32_t lane = wh_lane_id();
    uint64_t *out = a.out + wh_thread_id() * OUT;
    out[0] = address(wh_warp_arena_malloc(a.heap, &arena, lane % 3 == 1 ? 0 : lane + 1));
    out[1] = address(wh_warp_arena_malloc(a.heap, &arena, lane < NO_SIZES ? no_sizes[lane] : 16));
    out[2] = address(wh_warp_arena_malloc(a.heap, &arena, 0));
    out[3] = address(wh_warp_arena_aligned_alloc(a.heap, &arena, 64, lane));
    out[4] = address(wh_warp_arena_aligned_alloc(a.heap, &arena, 24, 16));
    out[5] = address(wh_warp_arena_malloc(a.heap, &arena, lane == 5 ? 100000 : 16));
    out[6] = address(wh_warp_arena_malloc(a.heap, &arena, 16));
    wh_warp_arena_close(a.heap, &arena);
}

static void test_warp_places(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 8u << 20);
    b.a.first = 8192;
    b.a.most = 8192;
    run(&b, warp_places, THREADS);
    uint64_t next = b.a.out[0];
    for (uint32_t i = 0; i < THREADS; i++) {
        const uint64_t *out = b.a.out + i * OUT;
        assert_int_equal(out[0], i % 3 == 1 ? 0 : next);
        next += i % 3 == 1 ? 0 : (i + 16) / 16 * 16;
        assert_true((out[1] != 0) == (i >= NO_SIZES) && out[2] == 0 && out[4] == 0);
        assert_true((out[3] != 0) == (i != 0) && out[3] % 64 == 0);
        assert_true(out[5] != 0 && out[6] != 0);
    }
    close_bench(&b);
}

/* Lanes of a block come alone and together, with two arenas and all alignments. */
WH_KERNEL(block_places, args, a) {
    WH_SHARED(wh_block_arena, arenas, 2);
    const uint32_t i = wh_thread_in_block();
    uint64_t *out = a.out + i * OUT;
    wh_block_arena_open(a.heap, &arenas[0], a.first, a.most);
    wh_block_arena_open(a.heap, &arenas[1], a.first, a.most);
    out[0] = address(wh_block_arena_malloc(a.heap, &arenas[i % 2], 40));
    if (i % 5 == 2) {
        out[1] = address(wh_block_arena_malloc(a.heap, &arenas[0], i * 4));
    }
    for (size_t k = 0; k < NO_SIZES; k++) {
        out[2] |= address(wh_block_arena_malloc(a.heap, &arenas[i % 2], no_sizes[(k + i) % 7]));
    }
    out[3] = address(wh_block_arena_aligned_alloc(a.heap, &arenas[0], 16u << i % 5, 24));
    out[2] |= address(wh_block_arena_aligned_alloc(a.heap, &arenas[0], 48, 24));
    out[4] = address(wh_block_arena_malloc(a.heap, &arenas[0], i == 5 ? 5u << 20 : 16));
    wh_block_arena_close(a.heap, &arenas[0]);
    out[5] = *(const unsigned char *)(uintptr_t)out[0] != i; /* the other arena is whole */
    if (i % 2 != 0) {
        *(unsigned char *)(uintptr_t)out[0] = (unsigned char)i;
        out[5] = *(const unsigned char *)(uintptr_t)out[0] != i;
    }
    wh_block_arena_close(a.heap, &arenas[1]);
}

static void test_block_places(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 16u << 20);
    run(&b, block_places, 3 * THREADS + 7);
    for (uint32_t i = 0; i < 3 * THREADS + 7; i++) {
        const uint64_t *out = b.a.out + i * OUT;
        assert_true(out[0] != 0 && (out[1] != 0) == (i % 5 == 2) && out[2] == 0);
        assert_true(out[3] != 0 && out[3] % (16u << i % 5) == 0 && out[4] != 0);
        assert_true(i % 2 == 0 || out[5] == 0);
        for (uint32_t k = 0; k < i; k++) {
            const uint64_t *other = b.a.out + k * OUT;
            assert_true(other[0] + 48 <= out[0] || out[0] + 48 <= other[0]);
        }
    }
    close_bench(&b);
}

/* --- pieces ----------------------------------------------------------------------------------- */

WH_FN uint64_t bytes_of(uint64_t piece) {
    return wh_arena_at_(piece)->bytes;
}

/* Pieces double up to the most; a request that the next piece cannot hold has its own, and the
 * arena goes on where it was. */
WH_KERNEL(lane_pieces, args, a) {
    wh_arena arena = wh_arena_open(256, 1024);
    uint64_t *out = a.out + wh_thread_id() * OUT;
    for (uint32_t i = 0; i < 5; i++) {
        (void)wh_arena_malloc(a.heap, &arena, 200);
        out[i] = bytes_of(arena.top);
        if (i == 0) {
            const uint64_t p = address(wh_arena_malloc(a.heap, &arena, 5000));
            out[5] = p != 0 && p == arena.top + WH_ARENA_HEADER;
            out[6] = bytes_of(arena.top);
            out[7] = address(wh_arena_malloc(a.heap, &arena, 16));
            out[8] = arena.at;
        }
        (void)wh_arena_malloc(a.heap, &arena, 700);
    }
    wh_arena_close(a.heap, &arena);
    const wh_arena least = wh_arena_open(1, 0), most = wh_arena_open(1u << 31, 1u << 31);
    const wh_arena order = wh_arena_open(2048, 1024);
    out[9] = least.piece;
    out[10] = most.piece;
    out[11] = most.most;
    out[12] = order.most;
}

/* A piece that has little left does not take the place of one that has more; a rewind leads back to
 * the same bytes. */
WH_KERNEL(lane_goes_on, args, a) {
    wh_arena arena = wh_arena_open(1024, 4096);
    uint64_t *out = a.out + wh_thread_id() * OUT;
    out[0] = address(wh_arena_malloc(a.heap, &arena, 16));
    out[1] = address(wh_arena_malloc(a.heap, &arena, 2048 - WH_ARENA_HEADER - 32));
    out[2] = address(wh_arena_malloc(a.heap, &arena, 16));
    const wh_arena_place place = wh_arena_mark(&arena);
    out[3] = address(wh_arena_malloc(a.heap, &arena, 16));
    wh_arena_rewind(a.heap, &arena, place);
    out[4] = address(wh_arena_malloc(a.heap, &arena, 16));
    wh_arena_close(a.heap, &arena);
}

/* The same of a warp, which keeps the largest piece, too: bytes of the spare after each rewind. */
WH_KERNEL(warp_spare, args, a) {
    wh_warp_arena arena = wh_warp_arena_open(WH_FULL_WARP, 512, 4096);
    uint64_t *out = a.out + wh_thread_id() * OUT;
    const wh_arena_place start = wh_warp_arena_mark(&arena);
    for (uint32_t k = 0; k < 3; k++) {
        (void)wh_warp_arena_malloc(a.heap, &arena, 24u << k);
        wh_warp_arena_rewind(a.heap, &arena, start);
        out[k] = bytes_of(arena.own.spare);
    }
    wh_warp_arena_close(a.heap, &arena);
}

static void test_goes_on(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 8u << 20);
    run(&b, lane_goes_on, 1);
    assert_true(b.a.out[1] != 0);
    assert_int_equal(b.a.out[2], b.a.out[0] + 16);
    assert_int_equal(b.a.out[3], b.a.out[4]);
    run(&b, warp_spare, THREADS);
    assert_true(b.a.out[0] >= 1024 && b.a.out[1] > b.a.out[0] && b.a.out[2] > b.a.out[1]);
    close_bench(&b);
}

static void test_lane_pieces(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 8u << 20);
    run(&b, lane_pieces, 1);
    assert_int_equal(b.a.out[0], 256);
    assert_int_equal(b.a.out[4], 1024);
    assert_int_equal(b.a.out[5], 1);
    assert_int_equal(b.a.out[6], 5000 / 16 * 16 + 16 + WH_ARENA_HEADER);
    assert_int_equal(b.a.out[8], b.a.out[7] + 16); /* in the first piece still */
    assert_int_equal(b.a.out[9], WH_ARENA_LEAST);
    assert_int_equal(b.a.out[10], WH_ARENA_LARGEST);
    assert_int_equal(b.a.out[11], WH_ARENA_LARGEST);
    assert_int_equal(b.a.out[12], 2048);
    close_bench(&b);
}

/* A loop that rewinds for each item asks the heap for nothing after the first few. */
WH_KERNEL(lane_items, args, a) {
    wh_arena arena = wh_arena_open(256, 4096);
    const wh_arena_place start = wh_arena_mark(&arena);
    uint64_t *out = a.out + wh_thread_id() * OUT;
    for (uint32_t item = 0; item < 40; item++) {
        for (uint32_t k = 0; k < 12; k++) {
            out[0] += wh_arena_malloc(a.heap, &arena, 100) == NULL;
        }
        wh_arena_rewind(a.heap, &arena, start);
    }
    out[1] = arena.top;
    out[2] = bytes_of(arena.spare);
    wh_arena_close(a.heap, &arena);
}

static void test_items(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 8u << 20);
    run(&b, lane_items, 1);
    assert_true(b.a.out[0] == 0 && b.a.out[1] == 0);
    assert_int_equal(b.a.out[2], 2048);
    assert_int_equal(stats_of(&b).mallocs, 4); /* 256, 512, 1024, 2048 */
    close_bench(&b);
}

/* Of the pieces that go back the largest stays, and no other; what is larger than `most` does not.
 */
WH_KERNEL(lane_spare, args, a) {
    wh_arena arena = wh_arena_open(256, 1024);
    uint64_t *out = a.out + wh_thread_id() * OUT;
    (void)wh_arena_malloc(a.heap, &arena, 100);
    const wh_arena_place start = wh_arena_mark(&arena);
    for (uint32_t k = 0; k < 3; k++) {
        (void)wh_arena_malloc(a.heap, &arena, 400);
        (void)wh_arena_malloc(a.heap, &arena, 3000);
        (void)wh_arena_malloc(a.heap, &arena, 900);
        wh_arena_rewind(a.heap, &arena, start);
        out[k] = arena.spare;
    }
    out[3] = bytes_of(arena.spare);
    out[4] = arena.top != 0 && wh_arena_at_(arena.top)->below == 0;
}

/* A request that the spare cannot hold leaves it there. */
static void test_spare(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 8u << 20);
    run(&b, lane_spare, 1);
    assert_int_equal(b.a.out[3], 1024);
    assert_int_equal(b.a.out[4], 1);
    const wh_stats s = stats_of(&b); /* the arena was not closed: the heap shows it */
    assert_int_equal(s.live_blocks, 2);
    assert_true(s.used_bytes >= 256 + 1024);
    assert_int_equal(wh_heap_reset(b.heap), WH_OK);
    close_bench(&b);
}

/* --- pieces that change hands
 * --------------------------------------------------------------------- */

/* Blocks take pieces over from each other, and each piece is shared by several warps: what the last
 * owner wrote must not come after what the next one writes. */
WH_KERNEL(block_hands, args, a) {
    WH_SHARED(wh_block_arena, arena, 1);
    const uint32_t i = wh_thread_in_block();
    uint64_t wrong = 0;
    for (uint32_t round = 0; round < 8; round++) {
        uint64_t *mine[3];
        wh_block_arena_open(a.heap, arena, 64, 8192);
        for (uint32_t k = 0; k < 3; k++) {
            mine[k] = (uint64_t *)wh_block_arena_malloc(a.heap, arena, 32);
            if (mine[k] != NULL) {
                mine[k][0] = mine[k][3] = wh_thread_id() * 3 + k;
            }
        }
        for (uint32_t k = 0; k < 3; k++) {
            wrong += mine[k] != NULL &&
                     (mine[k][0] != wh_thread_id() * 3 + k || mine[k][3] != wh_thread_id() * 3 + k);
        }
        wh_block_arena_close(a.heap, arena);
    }
    if (wrong != 0) {
        wh_add_u64_relaxed(&a.out[i], wrong);
    }
}

static void test_hands(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        bench b;
        open_seed(&b, 80u << 10, seed);
        const wh_launch l = grid(b.device, 4, 64);
        assert_int_equal(block_hands(&l, &b.a), WH_OK);
        for (uint32_t i = 0; i < 64; i++) {
            assert_int_equal(b.a.out[i], 0);
        }
        close_bench(&b);
    }
}

/* After each rewind there is a spare: one warp finds it too small and puts it back, the other takes
 * it. */
WH_KERNEL(block_spares, args, a) {
    WH_SHARED(wh_block_arena, arena, 1);
    const uint32_t i = wh_thread_in_block();
    uint64_t nulls = 0;
    wh_block_arena_open(a.heap, arena, 2048, 2048);
    if (i == 0) {
        nulls += wh_block_arena_malloc(a.heap, arena, 2000) == NULL;
    }
    const wh_arena_place start = wh_block_arena_mark(arena);
    nulls += wh_block_arena_malloc(a.heap, arena, 16) == NULL;
    for (uint32_t round = 0; round < 6; round++) {
        wh_block_arena_rewind(a.heap, arena, start);
        nulls += wh_block_arena_malloc(a.heap, arena, i < 32 ? 40 : 200) == NULL;
    }
    wh_block_arena_rewind(a.heap, arena, start);
    a.out[2 * i] = arena->spare; /* the barrier of the close comes before it is changed */
    a.out[2 * i + 1] = nulls;
    wh_block_arena_close(a.heap, arena);
}

static void test_spares(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        bench b;
        open_seed(&b, 1u << 20, seed);
        run(&b, block_spares, 64);
        for (uint32_t i = 0; i < 64; i++) {
            assert_true(b.a.out[2 * i] != 0 && b.a.out[2 * i + 1] == 0);
        }
        close_bench(&b);
    }
}

/* All warps of a block find too little room at the same time, again and again: one of them takes a
 * piece, the others wait for it. */
WH_KERNEL(block_crowd, args, a) {
    WH_SHARED(wh_block_arena, arena, 1);
    const uint32_t i = wh_thread_in_block();
    uint64_t nulls = 0;
    wh_block_arena_open(a.heap, arena, 0, 0);
    for (uint32_t k = 0; k < 16; k++) {
        nulls += wh_block_arena_malloc(a.heap, arena, 64) == NULL;
    }
    wh_syncthreads();
    if (i == 0) {
        uint64_t pieces = arena->spare != 0;
        for (uint64_t top = arena->top; top != 0; top = wh_arena_at_(top)->below) {
            pieces++;
        }
        a.out[wh_block_id()] = pieces;
    }
    wh_add_u64_relaxed(&a.out[10], nulls);
    wh_block_arena_close(a.heap, arena);
}

static void test_crowd(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        bench b;
        open_seed(&b, 16u << 20, seed);
        const wh_launch l = grid(b.device, 3, 256);
        assert_int_equal(block_crowd(&l, &b.a), WH_OK);
        assert_int_equal(b.a.out[10], 0);
#ifndef WH_HOSTILE /* where nobody waits for long */
        const uint64_t pieces = b.a.out[0] + b.a.out[1] + b.a.out[2];
        assert_int_equal(pieces, 3 * 5); /* 16 to 256 KiB */
        assert_int_equal(stats_of(&b).mallocs, pieces);
#endif
        close_bench(&b);
    }
}

/* --- a full heap ------------------------------------------------------------------------------ */

enum { MOST_HELD = 4000 };

/* Fills the heap with blocks of 64 bytes, or gives back every n-th: there are holes for requests
 * that need 64 bytes with the header, and for no others. */
WH_KERNEL(hold, args, a) {
    for (uint64_t i = 0; i < MOST_HELD; i += a.n == 0 ? 1 : a.n) {
        if (a.n == 0) {
            a.held[i] = wh_malloc(a.heap, 64);
        } else {
            wh_free(a.heap, a.held[i]);
            a.held[i] = NULL;
        }
    }
}
#define HOLE (64 - WH_ARENA_HEADER)

/* What was there stays usable; NULL for what the heap has no piece for, not for what fits. */
WH_KERNEL(lane_full, args, a) {
    wh_arena arena = wh_arena_open(256, 1024);
    uint64_t *out = a.out + wh_thread_id() * OUT;
    out[0] = address(wh_arena_malloc(a.heap, &arena, HOLE));
    out[1] = address(wh_arena_malloc(a.heap, &arena, 100000));
    out[2] = address(wh_arena_malloc(a.heap, &arena, HOLE));
    out[3] = address(wh_arena_malloc(a.heap, &arena, HOLE));
    wh_arena_close(a.heap, &arena);
}

WH_KERNEL(warp_full, args, a) {
    wh_warp_arena arena = wh_warp_arena_open(WH_FULL_WARP, 4096, 4096);
    const uint32_t lane = wh_lane_id();
    uint64_t *out = a.out + wh_thread_id() * OUT;
    out[0] = address(wh_warp_arena_malloc(a.heap, &arena, lane == 3 ? 100000 : HOLE));
    wh_warp_arena_close(a.heap, &arena);
}

WH_KERNEL(block_full, args, a) {
    WH_SHARED(wh_block_arena, arena, 1);
    const uint32_t i = wh_thread_in_block();
    uint64_t *out = a.out + i * OUT;
    wh_block_arena_open(a.heap, arena, 65536, 65536);
    out[0] = address(wh_block_arena_malloc(a.heap, arena, i == 3 ? 100000 : HOLE));
    wh_syncthreads();
    out[1] = arena[0].fetching;
    wh_block_arena_close(a.heap, arena);
}

static void test_full(void **state) {
    bench b;
    (void)state;
    open_bench(&b, 96u << 10);
    b.a.held = take(b.device, MOST_HELD * sizeof *b.a.held);
    run(&b, hold, 1);
    assert_null(b.a.held[MOST_HELD - 1]);
    run(&b, lane_full, 1);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(b.a.out[i], 0);
    }
    b.a.n = 16;
    run(&b, hold, 1);
    run(&b, lane_full, 1);
    assert_true(b.a.out[0] != 0 && b.a.out[1] == 0 && b.a.out[2] != 0 && b.a.out[3] != 0);
    run(&b, warp_full, THREADS);
    uint32_t served = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        served += b.a.out[i * OUT] != 0;
    }
    assert_true(b.a.out[3 * OUT] == 0 && served >= 16);
    run(&b, block_full, THREADS);
    for (uint32_t i = served = 0; i < THREADS; i++) {
        served += b.a.out[i * OUT] != 0;
        assert_int_equal(b.a.out[i * OUT + 1], 0);
    }
    assert_true(b.a.out[3 * OUT] == 0 && served >= 16);
    b.a.n = 1;
    run(&b, hold, 1);
    assert_int_equal(wh_device_free(b.device, b.a.held), WH_OK);
    close_bench(&b);
}

/* --- the word of a block ---------------------------------------------------------------------- */

static void test_word(void **state) {
    const uint64_t at = ((uint64_t)1 << 49) - 4096;
    (void)state;
    const uint64_t word = wh_block_arena_word_(at, 64);
    assert_int_equal(wh_block_arena_address_(word), at);
    const uint64_t next = wh_block_arena_after_(word, 1008, 16);
    assert_int_equal(wh_block_arena_address_(next), at + 1008);
    assert_int_equal(next >> WH_BLOCK_ARENA_AT, 1);
    assert_int_equal(wh_block_arena_after_(next, 32, 16), 0);
    assert_int_equal(wh_block_arena_after_(word, 1040, 16), 0);
    assert_int_equal(wh_block_arena_after_(word, WH_ARENA_HUGE, 16), 0);
    assert_int_equal(wh_block_arena_word_(at + 4096, 64), 0); /* no room for that address */
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lane_places),  cmocka_unit_test(test_warp_places),
        cmocka_unit_test(test_block_places), cmocka_unit_test(test_lane_pieces),
        cmocka_unit_test(test_items),        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_spare),        cmocka_unit_test(test_hands),
        cmocka_unit_test(test_spares),       cmocka_unit_test(test_full),
        cmocka_unit_test(test_word),         cmocka_unit_test(test_crowd),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tessera_reserve.c: heaps in reserved address space. A model of random extends, trims, mallocs,
 * frees and resets, in which the contents of every live block are verified; exact NULL, and what is
 * found after an extend; failures of each step of the back-end; bad input; threads of the host that
 * extend and trim at once; resets on streams; how little a large reservation costs. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include <pthread.h>

#include "host/device_internal.h"
#include "warpheap/warpheap.h"

#define MOST_BLOCKS 2048u
#define LANES 64u
#define TURNS (WH_TEST_SEEDS_DEFAULT < 10 ? 32u : 48u) /* fewer in checked builds */

typedef struct block {
    uint64_t *p;
    uint64_t bytes; /* asked for, a multiple of 8 */
    uint64_t stamp;
} block;

typedef struct act_args {
    wh_heap_ref heap;
    block *blocks;
    uint32_t *wrong;
    uint32_t first, n;
    uint32_t frees, padding;
} act_args;

WH_FN uint32_t is_damaged(const block *b) {
    uint32_t wrong = 0;
    for (uint64_t k = 0; k < b->bytes / 8; k++) {
        wrong |= b->p[k] != b->stamp + k;
    }
    return wrong;
}

/* Blocks [first, first + n): new ones, filled; or verified, and freed. */
WH_KERNEL(act, act_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        block *b = &a.blocks[a.first + i];
        if (a.frees) {
            wh_add_u32_relaxed(a.wrong, is_damaged(b) || !wh_owns(a.heap, b->p));
            wh_free(a.heap, b->p);
            b->p = NULL;
        } else {
            b->p = (uint64_t *)wh_malloc(a.heap, b->bytes);
            for (uint64_t k = 0; b->p != NULL && k < b->bytes / 8; k++) {
                b->p[k] = b->stamp + k;
            }
        }
    }
}

WH_KERNEL(verify, act_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        wh_add_u32_relaxed(a.wrong, is_damaged(&a.blocks[i]));
    }
}

typedef struct free_args {
    wh_heap_ref heap;
    unsigned char *p;
    uint64_t *said; /* [0]: usable size, [1]: owns */
} free_args;

WH_KERNEL(free_foreign, free_args, a) {
    a.said[0] = wh_usable_size(a.heap, a.p);
    a.said[1] = (uint64_t)wh_owns(a.heap, a.p);
    wh_free(a.heap, a.p);
}

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    act_args act;
    uint32_t live; /* blocks [0, live) are there */
    uint64_t stamp;
    uint64_t granule;
    uint64_t random;
} context;

static wh_heap *create(wh_device *device, uint64_t bytes, uint64_t reserved, uint64_t chunk,
                       uint64_t granule) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    own.chunk_bytes = chunk;
    own.granule_bytes = granule;
    own.shards = 2;
    o.device = device;
    o.bytes = bytes;
    o.reserve_bytes = reserved;
    o.options = &own.head;
    if (bytes == 0) { /* the least */
        assert_int_equal(wh_heap_min_bytes(&o, &o.bytes), WH_OK);
    }
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static void make(context *x, uint64_t seed, uint64_t bytes, uint64_t reserved, uint64_t chunk,
                 uint64_t granule) {
    memset(x, 0, sizeof *x);
    x->device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    x->heap = create(x->device, bytes, reserved, chunk, granule);
    assert_int_equal(wh_heap_handle(x->heap, &x->act.heap), WH_OK);
    assert_int_equal(wh_heap_extent(x->heap, NULL, NULL, &x->granule), WH_OK);
    x->act.blocks = take(x->device, MOST_BLOCKS * sizeof(block));
    x->act.wrong = take(x->device, sizeof(uint32_t));
    x->random = seed;
    x->stamp = 1;
}

static void drop(context *x) {
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static uint64_t mapped(const context *x) {
    uint64_t bytes = 0;
    assert_int_equal(wh_heap_extent(x->heap, &bytes, NULL, NULL), WH_OK);
    return bytes;
}

static void check(context *x) {
    wh_stats stats;
    wh_report report;
    const wh_status s = wh_heap_check(x->heap, &report);
    if (s != WH_OK) {
        print_error("I%u at %u\n", (unsigned)report.first_tag, (unsigned)report.first_where);
    }
    assert_int_equal(s, WH_OK);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, x->live);
    assert_int_equal(stats.bad_frees, 0);
    assert_int_equal(stats.heap_bytes, mapped(x));
    assert_true(stats.used_bytes <= stats.heap_bytes - stats.metadata_bytes);
    const wh_launch l = grid(x->device, 1, LANES);
    x->act.n = x->live;
    if (x->live != 0) {
        assert_int_equal(verify(&l, &x->act), WH_OK);
    }
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    assert_int_equal(*x->act.wrong, 0);
}

/* n blocks of up to `most` bytes, by `lanes` lanes; bytes 0: random sizes. How many came. */
static uint32_t allocate(context *x, uint32_t n, uint64_t bytes, uint64_t most, uint32_t lanes) {
    n = n < MOST_BLOCKS - x->live ? n : MOST_BLOCKS - x->live;
    for (uint32_t i = 0; i < n; i++) {
        block *b = &x->act.blocks[x->live + i];
        const uint64_t r = next_random(&x->random), below = (most >> r % 10) + 1;
        b->bytes = bytes != 0 ? bytes : 8 + (r >> 16) % below / 8 * 8;
        b->stamp = x->stamp << 32;
        x->stamp++;
    }
    const wh_launch l = grid(x->device, 1, lanes);
    x->act.first = x->live;
    x->act.n = n;
    x->act.frees = 0;
    assert_int_equal(n == 0 ? WH_OK : act(&l, &x->act), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    uint32_t came = 0;
    for (uint32_t i = 0; i < n; i++) {
        const block b = x->act.blocks[x->live + i];
        if (b.p != NULL) {
            x->act.blocks[x->live + came++] = b;
        } else if (lanes == 1) { /* what NULL says is so for a quiet heap, too */
            uint64_t left = 1;
            assert_int_equal(wh_heap_blocks_left(x->heap, b.bytes, &left), WH_OK);
            assert_true(left == 0 || (bytes == 0 && i + 1 < n));
        }
    }
    x->live += came;
    return came;
}

/* Frees n blocks at random. */
static void release(context *x, uint32_t n) {
    n = n < x->live ? n : x->live;
    for (uint32_t i = 0; i < n; i++) { /* to the end */
        const uint32_t k = (uint32_t)(next_random(&x->random) % (x->live - i));
        const block b = x->act.blocks[k];
        x->act.blocks[k] = x->act.blocks[x->live - 1 - i];
        x->act.blocks[x->live - 1 - i] = b;
    }
    const wh_launch l = grid(x->device, 1, LANES);
    x->live -= n;
    x->act.first = x->live;
    x->act.n = n;
    x->act.frees = 1;
    assert_int_equal(n == 0 ? WH_OK : act(&l, &x->act), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    assert_int_equal(*x->act.wrong, 0);
}

/* Trims, and returns what that has given back, which is what is mapped less. Of a heap that is
 * trimmed as far as it goes, no unit is left that could go, too. */
static uint64_t trim(context *x, uint64_t keep) {
    const uint64_t before = mapped(x);
    uint64_t given = 1;
    assert_int_equal(wh_heap_trim(x->heap, keep, &given), WH_OK);
    assert_int_equal(before - given, mapped(x));
    assert_true(given == 0 || mapped(x) >= keep);
    const wh_tessera_core g = *wh_tessera_core_of_(x->act.heap);
    const uint32_t of_unit = 1u << wh_tessera_unit_log2_(g);
    for (uint32_t chunk = 0; chunk < g.n_chunks && mapped(x) >= keep + x->granule;
         chunk += of_unit) {
        uint32_t n_free = 0;
        for (uint32_t k = 0; k < of_unit; k++) {
            n_free += (uint32_t)wh_veb_contains(wh_tessera_pool_(g), chunk + k);
        }
        assert_true(n_free < of_unit);
    }
    return given;
}

static void extend(context *x, uint64_t bytes) {
    const uint64_t before = mapped(x);
    const wh_status s = wh_heap_extend(x->heap, bytes);
    if (s == WH_RESERVE_FULL) {
        assert_int_equal(before, mapped(x));
        return;
    }
    assert_int_equal(s, WH_OK);
    assert_true(mapped(x) >= before + bytes);
    /* A block of a granule has room now. */
    if (bytes != 0 && x->live < MOST_BLOCKS) {
        assert_int_equal(allocate(x, 1, x->granule, 0, 1), 1);
    }
}

static void play(context *x, uint32_t turns, uint64_t most) {
    for (uint32_t turn = 0; turn < turns; turn++) {
        const uint64_t r = next_random(&x->random);
        const uint32_t n = (uint32_t)(r >> 32) % 150;
        switch (r % 16) {
        case 0:
        case 1:
            extend(x, (r >> 8) % (6 * x->granule));
            break;
        case 2:
        case 3:
            (void)trim(x, (r >> 8) % 3 == 0 ? 0 : (r >> 10) % (mapped(x) + x->granule));
            break;
        case 4:
        case 5:
        case 6:
        case 7:
        case 8:
            (void)allocate(x, n, 0, most, r >> 16 & 1 ? LANES : 1);
            break;
        case 9:
            (void)allocate(x, n / 8, (1 + (r >> 16) % (2 * x->granule)) / 8 * 8 + 8, 0, 1);
            break;
        case 15:
            if ((r >> 8) % 4 == 0) {
                assert_int_equal(wh_heap_reset(x->heap), WH_OK);
                x->live = 0;
            }
            break;
        default:
            release(x, (r >> 16) % 8 == 0 ? MOST_BLOCKS : 2 * n);
        }
        if (turn % 4 == 0) {
            check(x);
        }
    }
    release(x, MOST_BLOCKS);
    (void)trim(x, 0);
    check(x);
    uint64_t left = 1;
    assert_int_equal(wh_heap_blocks_left(x->heap, 16, &left), WH_OK);
    assert_int_equal(left, 0); /* nothing is there */
    assert_int_equal(allocate(x, 1, 16, 0, 1), 0);
    extend(x, 1);
    assert_int_equal(x->live, 1);
}

static void test_model(void **state) {
    (void)state;
    static const struct {
        uint64_t reserved, chunk, granule, most;
    } shapes[] = {
        {(uint64_t)1 << 20, 1024, 0, 8192},         /* granules of a few chunks */
        {(uint64_t)2 << 20, 1024, 1 << 17, 16384},  /* ... of two words of the pool */
        {(uint64_t)3 << 20, 1024, 1 << 16, 4096},   /* ... of one */
        {(uint64_t)16 << 20, 16384, 0, 65536},      /* ... of a chunk */
        {(uint64_t)50 << 20, 16384, 1 << 18, 65536} /* large classes */
    };
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            context x;
            make(&x, seed * 16 + k, 0, shapes[k].reserved, shapes[k].chunk, shapes[k].granule);
            play(&x, TURNS, shapes[k].most);
            drop(&x);
        }
    }
}

/* Larger than what is mapped: NULL, then found, also across old and new memory; and a hole. */
static void test_large_is_exact(void **state) {
    (void)state;
    context x;
    make(&x, 1, 0, (uint64_t)4 << 20, 1024, 1 << 16);
    wh_stats stats;
    assert_int_equal(wh_heap_extend(x.heap, 3 << 16), WH_OK); /* four granules now */
    assert_int_equal(wh_heap_get_stats(x.heap, &stats), WH_OK);
    assert_int_equal(stats.largest_free, 4 << 16);
    assert_int_equal(allocate(&x, 1, 5 << 16, 0, 1), 0);
    assert_int_equal(allocate(&x, 1, 2 << 20, 0, 1), 0);
    assert_int_equal(wh_heap_extend(x.heap, 1), WH_OK);
    assert_int_equal(allocate(&x, 1, 6 << 16, 0, 1), 0);
    assert_int_equal(allocate(&x, 1, 5 << 16, 0, 1), 1);
    assert_int_equal(wh_heap_extend(x.heap, 5 << 16), WH_OK);
    assert_int_equal(allocate(&x, 5, 1 << 16, 0, 1), 5);
    const block first = x.act.blocks[0];
    assert_ptr_equal(first.p, x.act.heap.base);
    uint32_t top = 1;
    while ((unsigned char *)x.act.blocks[top].p != x.act.heap.base + (9 << 16)) {
        top++;
        assert_true(top < x.live);
    }
    x.act.blocks[0] = x.act.blocks[top];
    x.act.blocks[top] = first;
    /* All but the topmost go: a hole of nine granules, then filled from the front. */
    x.act.first = 1;
    x.act.n = x.live - 1;
    x.act.frees = 1;
    const wh_launch l = grid(x.device, 1, LANES);
    assert_int_equal(act(&l, &x.act), WH_OK);
    assert_int_equal(wh_device_sync(x.device), WH_OK);
    x.live = 1;
    assert_true(trim(&x, 0) >= 9 << 16);
    check(&x);
    assert_int_equal(allocate(&x, 1, 16, 0, 1), 0);
    assert_int_equal(wh_heap_extend(x.heap, 4 << 16), WH_OK);
    assert_int_equal(allocate(&x, 1, 5 << 16, 0, 1), 0);
    assert_int_equal(allocate(&x, 1, 4 << 16, 0, 1), 1);
    assert_ptr_equal(x.act.blocks[1].p, x.act.heap.base);
    check(&x);
    drop(&x);
}

/* A pointer into memory that is gone is refused, and nothing looks there. */
static void test_foreign(void **state) {
    (void)state;
    context x;
    make(&x, 2, 0, (uint64_t)4 << 20, 1024, 1 << 16);
    assert_int_equal(wh_heap_extend(x.heap, 7 << 16), WH_OK);
    assert_int_equal(allocate(&x, 8, 1 << 16, 0, 1), 8);
    free_args a = {x.act.heap, (unsigned char *)x.act.blocks[3].p, take(x.device, 16)};
    release(&x, MOST_BLOCKS);
    (void)trim(&x, 0);
    const wh_launch l = grid(x.device, 1, 1);
    const uint32_t frees = 6;
    for (uint32_t k = 0; k < frees; k++) {
        a.p = k < 5 ? a.p + 1024 * k + k % 2 * 16 : a.heap.base + a.heap.bytes - 1024;
        assert_int_equal(free_foreign(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(x.device), WH_OK);
        assert_int_equal(a.said[0], 0);
        assert_int_equal(a.said[1], 0);
    }
    wh_stats stats;
    assert_int_equal(wh_heap_get_stats(x.heap, &stats), WH_OK);
    assert_int_equal(stats.bad_frees, frees);
    assert_int_equal(stats.live_blocks, 0);
    drop(&x);
}

/* A reset on a stream, queued before the kernels there; of a heap with holes. */
static void test_reset_async(void **state) {
    (void)state;
    context x;
    void *stream = NULL;
    make(&x, 3, 0, (uint64_t)4 << 20, 1024, 1 << 16);
    assert_int_equal(wh_stream_create(x.device, &stream), WH_OK);
    for (uint32_t turn = 0; turn < 20; turn++) {
        assert_int_equal(wh_heap_extend(x.heap, (turn % 7 + 1) << 16), WH_OK);
        (void)allocate(&x, 200, 0, 1 << 14, LANES);
        release(&x, 150);
        (void)trim(&x, 0);
        check(&x);
        const uint64_t had = mapped(&x);
        assert_int_equal(wh_heap_reset_async(x.heap, stream), WH_OK);
        assert_int_equal(wh_stream_sync(x.device, stream), WH_OK);
        x.live = 0;
        check(&x);
        assert_int_equal(mapped(&x), had);
        const uint32_t came = allocate(&x, 100, 256, 0, LANES);
        assert_true(came == 100 || had < 100 * 256 * 2 + (1 << 17));
        if (turn % 3 == 0) { /* to nothing but a hole */
            (void)trim(&x, 0);
        }
        assert_int_equal(wh_heap_reset_async(x.heap, stream), WH_OK);
        x.live = 0;
        check(&x);
    }
    assert_int_equal(wh_stream_destroy(x.device, stream), WH_OK);
    drop(&x);
}

/* --- failures of the back-end ---------------------------------------------------------------- */

enum { RESERVE, MAP, UNMAP, RELEASE, N_STEPS };

static struct {
    whi_device_ops with; /* failing ones */
    const whi_device_ops *ops;
    uint64_t calls[N_STEPS];
    uint64_t fail[N_STEPS]; /* this call of the step, counted from 1, and `more` behind it, fail */
    uint64_t more;
} back;

static int fails(int step) {
    const uint64_t k = ++back.calls[step];
    return back.fail[step] != 0 && k >= back.fail[step] && k - back.fail[step] <= back.more;
}
static wh_status try_reserve(wh_device *d, void **p, uint64_t bytes) {
    *p = NULL;
    return fails(RESERVE) ? WH_OUT_OF_MEMORY : back.ops->reserve(d, p, bytes);
}
static wh_status try_map(wh_device *d, void *at, uint64_t bytes, uint64_t piece) {
    return fails(MAP) ? WH_OUT_OF_MEMORY : back.ops->map(d, at, bytes, piece);
}
static wh_status try_unmap(wh_device *d, void *at, uint64_t bytes, uint64_t piece) {
    return fails(UNMAP) ? WH_DEVICE_ERROR : back.ops->unmap(d, at, bytes, piece);
}
static wh_status try_release(wh_device *d, void *p, uint64_t bytes) {
    return fails(RELEASE) ? WH_DEVICE_ERROR : back.ops->release(d, p, bytes);
}

static void plant_failures(wh_device *d) {
    memset(&back, 0, sizeof back);
    back.ops = d->ops;
    back.with = *d->ops;
    back.with.reserve = try_reserve;
    back.with.map = try_map;
    back.with.unmap = try_unmap;
    back.with.release = try_release;
    d->ops = &back.with;
}
static void fail_at(int step, uint64_t call, uint64_t more) {
    memset(back.calls, 0, sizeof back.calls);
    memset(back.fail, 0, sizeof back.fail);
    back.fail[step] = call;
    back.more = more;
}

static void test_create_fails(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    plant_failures(d);
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = (uint64_t)2 << 20;
    o.reserve_bytes = (uint64_t)16 << 20;
    uint32_t refused = 0;
    for (int step = RESERVE; step <= MAP; step++) {
        for (uint64_t call = 1;; call++) {
            wh_heap *heap = NULL;
            fail_at(step, call, 0);
            const wh_status s = wh_heap_create(&heap, &o);
            if (back.calls[step] < call) { /* so many calls there are not */
                assert_int_equal(s, WH_OK);
                fail_at(RESERVE, 0, 0);
                assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
                assert_int_equal(wh_heap_destroy(heap), WH_OK);
                break;
            }
            assert_int_equal(s, WH_OUT_OF_MEMORY);
            assert_null(heap);
            assert_true(strlen(wh_last_error_text()) > 0);
            refused++;
        }
    }
    assert_true(refused >= 4);
    wh_device_counters counters; /* the device still works */
    assert_int_equal(wh_device_get_counters(d, &counters), WH_OK);
    void *all = NULL; /* and nothing is lost of its memory */
    assert_int_equal(wh_device_alloc(d, &all, (uint64_t)2 << 30), WH_OK);
    wh_device_close(d);
}

/* Each call that a turn of extends and trims makes fails once, alone or with those behind it. */
static void test_calls_fail(void **state) {
    (void)state;
    uint32_t failed = 0;
    for (uint32_t k = 0; k < TURNS; k++) {
        const int step = k % 2 == 0 ? MAP : UNMAP;
        const uint64_t call = k / 4 + 1;
        context x;
        make(&x, k, 0, (uint64_t)24 << 20, 1024, 1 << 16);
        plant_failures(x.device);
        fail_at(step, call, k / 2 % 2 * 3);
        for (uint32_t turn = 0; turn < 3; turn++) {
            uint64_t before = mapped(&x), given = 1;
            wh_status s = wh_heap_extend(x.heap, 6 << 16);
            failed += s != WH_OK;
            assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
            if (s != WH_OK && step == MAP) {
                assert_int_equal(mapped(&x), before);
            }
            check(&x);
            (void)allocate(&x, 60, 0, 1 << 15, LANES);
            release(&x, 50);
            before = mapped(&x);
            s = wh_heap_trim(x.heap, 0, &given);
            failed += s != WH_OK;
            assert_true(s == WH_OK || s == WH_DEVICE_ERROR);
            assert_int_equal(given, before - mapped(&x));
            check(&x);
        }
        fail_at(MAP, 0, 0);
        release(&x, MOST_BLOCKS);
        (void)trim(&x, 0);
        const uint64_t least = mapped(&x);
        assert_int_equal(wh_heap_extend(x.heap, 6 << 16), WH_OK);
        assert_int_equal(allocate(&x, 1, 6 << 16, 0, 1), 1);
        assert_true(mapped(&x) >= least + (6 << 16));
        check(&x);
        drop(&x);
    }
    assert_true(failed > TURNS / 4);
}

/* What can be neither published nor unmapped again is not lost. */
static void test_undo_fails(void **state) {
    (void)state;
    context x;
    make(&x, 5, 0, (uint64_t)4 << 20, 1024, 1 << 16);
    plant_failures(x.device);
    assert_int_equal(wh_heap_extend(x.heap, 9 << 16), WH_OK);
    assert_int_equal(allocate(&x, 10, 1 << 16, 0, 1), 10);
    for (uint32_t k = 1; k < 10; k += 2) { /* every other granule becomes a hole */
        const block b = x.act.blocks[k];
        x.act.blocks[k] = x.act.blocks[k / 2];
        x.act.blocks[k / 2] = b;
    }
    x.act.first = 5;
    x.act.n = 5;
    x.act.frees = 1;
    const wh_launch l = grid(x.device, 1, LANES);
    assert_int_equal(act(&l, &x.act), WH_OK);
    assert_int_equal(wh_device_sync(x.device), WH_OK);
    x.live = 5;
    const uint64_t full = mapped(&x);
    assert_int_equal(trim(&x, 0), 5 << 16);
    fail_at(UNMAP, 1, 100);
    back.fail[MAP] = 4;
    assert_int_equal(wh_heap_extend(x.heap, 5 << 16), WH_OUT_OF_MEMORY);
    assert_int_equal(mapped(&x), full - (2 << 16)); /* three could not be undone */
    check(&x);
    assert_int_equal(allocate(&x, 1, 1 << 16, 0, 1), 0); /* nor are they the heap's */
    fail_at(MAP, 0, 0);
    assert_int_equal(wh_heap_extend(x.heap, 5 << 16), WH_OK);
    assert_int_equal(mapped(&x), full);
    assert_int_equal(allocate(&x, 6, 1 << 16, 0, 1), 5);
    check(&x);
    drop(&x);
}

/* The device has less memory than the reservation has addresses. */
static void test_device_is_full(void **state) {
    (void)state;
    wh_sim_options sim;
    memset(&sim, 0, sizeof sim);
    sim.memory_bytes = (uint64_t)4 << 20;
    wh_device *d = open_with(&sim);
    wh_heap *heap = create(d, 0, (uint64_t)64 << 20, 1024, 1 << 16);
    uint64_t before = 0, after = 0;
    while (wh_heap_extend(heap, 1 << 16) == WH_OK) {
    }
    assert_int_equal(wh_heap_extent(heap, &before, NULL, NULL), WH_OK);
    assert_int_equal(wh_heap_extend(heap, 1 << 16), WH_OUT_OF_MEMORY);
    assert_int_equal(wh_heap_extend(heap, 8 << 20), WH_OUT_OF_MEMORY);
    assert_true(strstr(wh_last_error_text(), "memory") != NULL);
    assert_int_equal(wh_heap_extent(heap, &after, NULL, NULL), WH_OK);
    assert_int_equal(before, after);
    assert_true(before > (uint64_t)3 << 20);
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(d);
}

/* --- bad input ------------------------------------------------------------------------------- */

static wh_status try_create(wh_heap_options o, uint64_t bytes, uint64_t reserved) {
    wh_heap *heap = NULL;
    o.bytes = bytes;
    o.reserve_bytes = reserved;
    const wh_status s = wh_heap_create(&heap, &o);
    assert_true((s == WH_OK) == (heap != NULL));
    assert_true(s == WH_OK || wh_last_error_text()[0] != '\0');
    (void)wh_heap_destroy(heap);
    return s;
}

static void test_bad_input(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    uint64_t least = 0;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.options = &own.head;
    assert_int_equal(try_create(o, 1 << 20, 1 << 19), WH_BAD_ARGUMENT);
    own.granule_bytes = 3 << 12;
    assert_int_equal(try_create(o, 1 << 20, 4 << 20), WH_BAD_ARGUMENT);
    own.granule_bytes = (uint64_t)1 << 31;
    assert_int_equal(try_create(o, 1 << 20, 4 << 20), WH_BAD_ARGUMENT);
    own.granule_bytes = 0;
    own.chunk_bytes = 100;
    assert_int_equal(try_create(o, 1 << 20, 4 << 20), WH_BAD_ARGUMENT);
    own.chunk_bytes = 0;
    o.memory = take(d, 1 << 20);
    assert_int_equal(try_create(o, 1 << 20, 4 << 20), WH_BAD_ARGUMENT);
    o.memory = NULL;
    assert_int_equal(try_create(o, 1, 1), WH_HEAP_TOO_SMALL);
    assert_int_equal(try_create(o, 4096, 64 << 20), WH_HEAP_TOO_SMALL);
    assert_int_equal(try_create(o, 1 << 20, (uint64_t)1 << 37), WH_HEAP_TOO_SMALL);
    assert_int_equal(try_create(o, 1 << 20, UINT64_MAX), WH_BAD_ARGUMENT); /* too large */
    /* The least that is said is the least. */
    o.reserve_bytes = 64 << 20;
    assert_int_equal(wh_heap_min_bytes(&o, &least), WH_OK);
    assert_int_equal(try_create(o, least - 4096, 64 << 20), WH_HEAP_TOO_SMALL);
    assert_int_equal(try_create(o, least, 64 << 20), WH_OK);
    wh_device_close(d);
}

static void test_bad_calls(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    uint64_t least = 0, given = 1, got = 1;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.options = &own.head;
    /* By the option, too. */
    own.reserve_bytes = 64 << 20;
    o.reserve_bytes = 0;
    assert_int_equal(wh_heap_min_bytes(&o, &least), WH_OK);
    o.bytes = least;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_extent(heap, &given, &got, NULL), WH_OK);
    assert_int_equal(given, least);
    assert_int_equal(got, 64 << 20);
    assert_int_equal(wh_heap_extend(heap, 0), WH_OK);
    assert_int_equal(wh_heap_extend(heap, 64 << 20), WH_RESERVE_FULL);
    assert_int_equal(wh_heap_extend(heap, UINT64_MAX), WH_RESERVE_FULL);
    assert_true(strstr(wh_last_error_text(), "reserve") != NULL);
    assert_int_equal(wh_heap_trim(heap, UINT64_MAX, &got), WH_OK);
    assert_int_equal(got, 0);
    assert_int_equal(wh_heap_trim(heap, 0, NULL), WH_OK);
    int64_t moved = 0;
    assert_int_equal(wh_heap_grow(heap, 128 << 20, NULL, &moved), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_extend(NULL, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_trim(NULL, 1, &got), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_extent(NULL, NULL, NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_extent(heap, NULL, NULL, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    /* A heap that has none. */
    own.reserve_bytes = 0;
    o.bytes = 4 << 20;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_extend(heap, 1), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_trim(heap, 0, &given), WH_UNSUPPORTED);
    assert_int_equal(given, 0);
    assert_int_equal(wh_heap_extent(heap, &given, &got, &least), WH_OK);
    assert_int_equal(given, 4 << 20);
    assert_int_equal(got, 4 << 20);
    assert_int_equal(least, 0);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    /* Other allocators. */
    for (uint32_t k = 0; wh_allocator_at(k) != NULL; k++) {
        const wh_allocator_info *info = wh_allocator_at(k);
        if ((info->caps & WH_CAP_RESERVE) != 0 || (info->caps & WH_CAP_SIM) == 0) {
            continue;
        }
        o.allocator = info->name;
        o.options = NULL;
        assert_int_equal(try_create(o, 4 << 20, 8 << 20), WH_UNSUPPORTED);
        o.reserve_bytes = 0;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_extend(heap, 1), WH_UNSUPPORTED);
        assert_int_equal(wh_heap_trim(heap, 0, NULL), WH_UNSUPPORTED);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
    }
    wh_device_close(d);
}

/* --- threads of the host -------------------------------------------------------------------- */

static void *push_and_pull(void *arg) {
    wh_heap *heap = arg;
    for (uint32_t k = 0; k < 40; k++) {
        uint64_t given = 0, bytes = 0;
        const wh_status s = wh_heap_extend(heap, (k % 5 + 1) << 16);
        if ((s != WH_OK && s != WH_RESERVE_FULL) ||
            wh_heap_extent(heap, &bytes, NULL, NULL) != WH_OK ||
            wh_heap_trim(heap, k % 3 == 0 ? 0 : bytes / 2, &given) != WH_OK) {
            return heap;
        }
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    context x;
    make(&x, 0, 0, (uint64_t)4 << 20, 1024, 1 << 16);
    assert_int_equal(wh_heap_extend(x.heap, 10 << 16), WH_OK);
    (void)allocate(&x, 100, 0, 1 << 13, LANES);
    release(&x, 60);
    pthread_t threads[3];
    for (uint32_t k = 0; k < 3; k++) {
        assert_int_equal(pthread_create(&threads[k], NULL, push_and_pull, x.heap), 0);
    }
    for (uint32_t k = 0; k < 3; k++) {
        void *bad = NULL;
        assert_int_equal(pthread_join(threads[k], &bad), 0);
        assert_null(bad);
    }
    check(&x);
    drop(&x);
}

/* What a reservation costs that is as large as a GPU: the fixed part. */
static void test_share(void **state) {
    (void)state;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_reserve_plan p;
    wh_tessera_ref h;
    memset(&p, 0, sizeof p);
    memset(&h, 0, sizeof h);
    p.granule = 2 << 20;
    const uint64_t bytes = (uint64_t)139 << 30;
    assert_int_equal(wh_tessera_reserve_plan(&h, &p, NULL, bytes, &own, 132), WH_OK);
    assert_int_equal(p.unit_bytes, 64 << 20);
    assert_true(p.fixed_bytes < (uint64_t)256 << 20);
    assert_true(p.fixed_bytes < bytes / 1000 * 2);
    assert_true(p.side_bytes < bytes / 1000 * 10);
    const uint64_t end = p.units_at + p.n_units * p.unit_bytes;
    assert_true(end <= bytes && bytes - end < 3 * p.unit_bytes);
    assert_true(sizeof(wh_tessera_ref) <= WH_HANDLE_BYTES);
}

/* The granule by default: so many steps of the driver for an extend by all of the addresses. */
static void test_default_granule(void **state) {
    (void)state;
    static const struct {
        uint64_t reserved, wanted, chosen; /* MiB */
    } rows[] = {{64, 0, 2},         {2 << 10, 0, 2},   {3 << 10, 0, 2},
                {8 << 10, 0, 8},    {60 << 10, 0, 32}, {139 << 10, 0, 64},
                {250 << 10, 0, 64}, {8 << 10, 2, 2},   {8 << 10, 128, 128}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        wh_reserve_plan p;
        wh_tessera_ref h;
        memset(&p, 0, sizeof p);
        memset(&h, 0, sizeof h);
        p.granule = 2 << 20;
        own.granule_bytes = rows[i].wanted << 20;
        assert_int_equal(wh_tessera_reserve_plan(&h, &p, NULL, rows[i].reserved << 20, &own, 132),
                         WH_OK);
        assert_int_equal(p.unit_bytes >> 20, rows[i].chosen);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_is_exact), cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_reset_async),    cmocka_unit_test(test_create_fails),
        cmocka_unit_test(test_calls_fail),     cmocka_unit_test(test_undo_fails),
        cmocka_unit_test(test_device_is_full), cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_bad_calls),      cmocka_unit_test(test_threads),
        cmocka_unit_test(test_share),          cmocka_unit_test(test_default_granule),
        cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

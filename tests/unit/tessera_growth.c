/* tessera_growth.c: heaps that grow while kernels run. A lane of the kernel, or a thread, plays the
 * host: blocks of every size until NULL, which is exact at max_bytes and on a full card; hosts that
 * are late, or dead, or cannot map; growth ahead of need; extend, trim and reset in between. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "host/device_internal.h"
#include "host/heap_internal.h"
#include "host/reserve.h"
#include "warpheap/gauge.h"
#include "warpheap/warpheap.h"

#define MOST_BLOCKS 4096u
#define UNIT 4096u /* bytes, of 4 chunks of 1 KiB */
#define RESERVED ((uint64_t)4 << 20)

typedef struct fill_args {
    wh_heap_ref heap;
    wh_heap *host;     /* block 0 is the host of this heap; NULL: nobody is */
    uint64_t **blocks; /* of each lane: `most` pointers */
    uint32_t *n;       /* of each lane: how many it has */
    uint32_t *wrong;
    uint32_t *done; /* lanes that have ended */
    uint64_t bytes; /* of a block; 0: all sizes up to two units */
    uint32_t most;  /* blocks of a lane, at most */
    uint32_t late;  /* the host looks only when all others have ended */
    uint32_t holds; /* block 0 has the lock of the rows, and lets it go after a long time */
    uint32_t churns;
    uint32_t seed;
} fill_args;

/* Blocks from 1 on, until NULL or `most` of them; each verified while the next one comes. */
static inline uint64_t size_of(const fill_args *a, uint64_t i, uint32_t k) {
    const uint32_t h = wh_spread32((uint32_t)i * 100000u + k + a->seed);
    return a->bytes != 0 ? a->bytes : 16 + (h >> 8) % ((2 * UNIT) >> h % 9) / 8 * 8;
}

WH_FN void work(const fill_args *a, uint64_t i) {
    uint64_t **mine = &a->blocks[i * a->most];
    uint32_t n = 0;
    for (; n < a->most; n++) {
        const uint64_t bytes = size_of(a, i, n);
        uint64_t *p = (uint64_t *)wh_malloc(a->heap, bytes);
        if (p == NULL) {
            break;
        }
        p[0] = i << 32 | n;
        p[bytes / 8 - 1] = i << 32 | n;
        mine[n] = p;
        if (a->churns != 0 && n % a->churns == 0) {
            wh_add_u32_relaxed(a->wrong, p[0] != (i << 32 | n));
            wh_free(a->heap, p);
            mine[n] = NULL;
        }
    }
    a->n[i] = n;
    wh_add_u32_release(a->done, 1);
}

WH_KERNEL(fill, fill_args, a) {
    const uint32_t others = (wh_grid_blocks() - 1) * wh_block_threads();
    if (wh_block_id() != 0) {
        work(&a, wh_thread_id() - wh_block_threads());
    } else if (wh_thread_in_block() == 0 && a.holds != 0) {
        for (uint32_t k = 0; k < 500; k++) {
            wh_backoff(6);
        }
        wh_store_u32_release(&wh_tessera_header_(a.heap.core)->growing.lock, 0);
    } else if (wh_lane_id() == 0 && wh_thread_in_block() == 0 && a.host != NULL) {
        while (a.late && wh_load_u32_acquire(a.done) < others) {
            wh_backoff(6);
        }
        do {
            const wh_status s = wh_heap_growth_poll(a.host);
            wh_add_u32_relaxed(a.wrong, s != WH_OK && s != WH_OUT_OF_MEMORY);
            wh_backoff(2);
        } while (wh_load_u32_acquire(a.done) < others);
    }
}

WH_KERNEL(verify, fill_args, a) {
    const uint64_t i = wh_thread_id();
    for (uint32_t k = 0; k < a.n[i]; k++) {
        uint64_t *p = a.blocks[i * a.most + k];
        const uint64_t bytes = size_of(&a, i, k);
        if (p != NULL) {
            wh_add_u32_relaxed(a.wrong, p[0] != (i << 32 | k) ||
                                            p[bytes / 8 - 1] != (i << 32 | k) ||
                                            !wh_owns(a.heap, p));
            wh_free(a.heap, p);
        }
    }
    a.n[i] = 0;
}

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    fill_args a;
    uint32_t blocks, threads; /* of those that work */
    uint64_t least;           /* bytes mapped at first */
} context;

static void make_of(context *x, uint64_t seed, uint64_t memory, uint64_t unit) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_sim_options sim;
    memset(x, 0, sizeof *x);
    memset(&o, 0, sizeof o);
    memset(&sim, 0, sizeof sim);
    sim.seed = seed;
    sim.policy = (wh_sim_policy)(seed % N_POLICIES);
    sim.weak = seed / N_POLICIES % 2 != 0 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
    sim.blocks_per_sm = 4;
    sim.memory_bytes = memory;
    sim.step_budget = 400000000;
    x->device = open_with(&sim);
    own.chunk_bytes = 1024;
    own.granule_bytes = unit;
    own.shards = 2;
    o.device = x->device;
    o.reserve_bytes = RESERVED + 4 * (unit - UNIT);
    o.options = &own.head;
    assert_int_equal(wh_heap_min_bytes(&o, &x->least), WH_OK);
    o.bytes = x->least;
    x->blocks = 3;
    x->threads = 32;
    x->a.blocks = take(x->device, (uint64_t)96 * MOST_BLOCKS * sizeof(void *));
    x->a.n = take(x->device, 96 * sizeof(uint32_t));
    x->a.wrong = take(x->device, sizeof(uint32_t));
    x->a.done = take(x->device, sizeof(uint32_t));
    x->a.most = MOST_BLOCKS;
    x->a.seed = (uint32_t)seed;
    assert_int_equal(wh_heap_create(&x->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(x->heap, &x->a.heap), WH_OK);
}
static void make(context *x, uint64_t seed, uint64_t memory) {
    make_of(x, seed, memory, UNIT);
}

static void drop(context *x) {
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static wh_stats stats_of(const context *x) {
    wh_stats stats;
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.bad_frees, 0);
    return stats;
}

static wh_growth_info info_of(const context *x) {
    wh_growth_info info;
    assert_int_equal(wh_heap_growth_get_info(x->heap, &info), WH_OK);
    assert_int_equal(info.struct_bytes, sizeof info);
    return info;
}

static uint64_t mapped(const context *x) {
    uint64_t bytes = 0;
    assert_int_equal(wh_heap_extent(x->heap, &bytes, NULL, NULL), WH_OK);
    return bytes;
}

static void start(context *x, uint64_t max, uint64_t step, uint64_t ahead, uint32_t wait_us,
                  int thread) {
    wh_growth_options o;
    memset(&o, 0, sizeof o);
    o.max_bytes = max;
    o.step_bytes = step;
    o.ahead_bytes = ahead;
    o.wait_us = wait_us;
    o.no_thread = !thread;
    assert_int_equal(wh_heap_growth_start(x->heap, &o), WH_OK);
}

static void check(context *x) {
    wh_report report;
    const wh_status s = wh_heap_check(x->heap, &report);
    if (s != WH_OK) {
        print_error("I%u at %u\n", (unsigned)report.first_tag, (unsigned)report.first_where);
    }
    assert_int_equal(s, WH_OK);
    assert_int_equal(*x->a.wrong, 0);
}

/* Until NULL, by all lanes; host: a lane of block 0. How many blocks there are. */
static uint32_t run(context *x, int host, uint64_t bytes, uint32_t churns) {
    const wh_launch l = grid(x->device, 1 + x->blocks, x->threads);
    x->a.host = host ? x->heap : NULL;
    x->a.bytes = bytes;
    x->a.churns = churns;
    *x->a.done = 0;
    if (fill(&l, &x->a) != WH_OK) {
        fail_msg("%s", wh_device_error_text(x->device));
    }
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    check(x);
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->blocks * x->threads; i++) {
        n += x->a.n[i];
    }
    return n;
}

static void free_all(context *x) {
    const wh_launch l = grid(x->device, x->blocks, x->threads);
    assert_int_equal(verify(&l, &x->a), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    check(x);
    assert_int_equal(stats_of(x).live_blocks, 0);
}

static void nothing_left(const context *x, uint64_t bytes) {
    uint64_t left = 1;
    assert_int_equal(wh_heap_blocks_left(x->heap, bytes, &left), WH_OK);
    assert_int_equal(left, 0);
}

/* --- to max_bytes, and to the end of the card --------------------------------------------------
 */

static const uint64_t sizes[] = {16, 64, 200, 1024, 1500, 3 * 1024, 6 * 1024, 0};
#define N_SIZES (sizeof sizes / sizeof *sizes)

/* Every seed is another policy; every other turn the memory is weak. */
static void test_max(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds() * N_SIZES; seed++) {
        context x;
        const uint64_t bytes = sizes[seed % N_SIZES], k = seed / N_SIZES;
        make(&x, seed + k, 0);
        x.blocks = bytes == 16 ? 1 : 3;
        const uint64_t max = x.least + (20 + k % 30) * UNIT;
        start(&x, max, (1 + k % 5) * UNIT, k % 3 == 0 ? 1 : k % 4 * UNIT, 1000000, 0);
        (void)run(&x, 1, bytes, seed % 4 == 0 ? 5 : 0);
        assert_true(mapped(&x) <= max);
        assert_true(mapped(&x) + 2 * UNIT > max);
        nothing_left(&x, bytes != 0 ? bytes : 2 * UNIT);
        const wh_stats s = stats_of(&x);
        assert_int_equal(s.timed_out, 0);
        assert_true(s.failed > 0 || bytes == 16);
        assert_true(info_of(&x).refused > 0 || bytes == 16);
        assert_int_equal(info_of(&x).ahead_bytes, 0);
        free_all(&x);
        /* The host has said that it has no more for good: nobody asks again, until there is. */
        if (seed % 3 == 0 && info_of(&x).refused > 0 && mapped(&x) + UNIT > max) {
            const uint64_t requests = info_of(&x).requests;
            (void)run(&x, 1, bytes, 0);
            nothing_left(&x, bytes != 0 ? bytes : 2 * UNIT);
            assert_int_equal(info_of(&x).requests, requests);
            free_all(&x);
            assert_int_equal(wh_heap_trim(x.heap, 0, NULL), WH_OK);
            (void)run(&x, 1, bytes, 0);
            assert_true(info_of(&x).requests > requests);
            assert_true(mapped(&x) + 2 * UNIT > max);
            free_all(&x);
        }
        drop(&x);
    }
}

static void test_card_is_full(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        const uint64_t room = (uint64_t)96 * MOST_BLOCKS * sizeof(void *);
        make(&x, seed, room + 330000);
        start(&x, 0, 3 * UNIT, seed % 2 == 0 ? 1 : 0, 1000000, 0);
        (void)run(&x, 1, 200, 0);
        nothing_left(&x, 200);
        assert_int_equal(stats_of(&x).timed_out, 0);
        assert_int_equal(info_of(&x).status, WH_OUT_OF_MEMORY);
        assert_true(mapped(&x) > x.least + 10 * UNIT);
        void *p = NULL; /* nothing is left of the card */
        assert_int_equal(wh_device_alloc(x.device, &p, 2 * UNIT), WH_OUT_OF_MEMORY);
        free_all(&x);
        drop(&x);
    }
}

WH_KERNEL(free_block, fill_args, a) {
    wh_free(a.heap, a.blocks[a.seed]);
}

/* A hole between units in use, whose words are mapped: it is found where max_bytes has room for it,
 * and not for a unit behind the last one, which needs more words. */
static void test_hole(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        make(&x, seed, 0);
        const whi_reserve *r = x.heap->reserve;
        while (whi_reserve_mapped_with(r, r->top, r->top + 1) == mapped(&x) + UNIT) {
            assert_int_equal(wh_heap_extend(x.heap, UNIT), WH_OK);
        }
        x.blocks = x.threads = 1;
        x.a.most = r->n_there;
        assert_int_equal(run(&x, 0, UNIT, 0), x.a.most);
        const uint64_t all = mapped(&x);
        const wh_launch l = grid(x.device, 1, 1);
        x.a.seed = 1 + (uint32_t)(seed % (r->n_there - 2));
        assert_int_equal(free_block(&l, &x.a), WH_OK);
        assert_int_equal(wh_heap_trim(x.heap, 0, NULL), WH_OK);
        assert_int_equal(mapped(&x), all - UNIT);
        start(&x, all, 2 * UNIT, 1, 1000000, 0);
        assert_int_equal(run(&x, 1, 1024, 0), 4);
        assert_int_equal(mapped(&x), all);
        nothing_left(&x, 1024);
        drop(&x);
    }
}

/* What is mapped, what is ahead included: one figure, whoever says it. */
static void same_everywhere(const context *x) {
    wh_gauge *gauge = NULL;
    wh_gauge_sample s;
    const wh_stats stats = stats_of(x);
    assert_int_equal(wh_gauge_open(&gauge, x->heap), WH_OK);
    assert_int_equal(wh_gauge_read(gauge, WH_GAUGE_BLOCKS, &s), WH_OK);
    assert_int_equal(wh_gauge_close(gauge), WH_OK);
    assert_int_equal(stats.heap_bytes, mapped(x));
    assert_int_equal(info_of(x).mapped_bytes, mapped(x));
    assert_int_equal(s.heap_bytes, mapped(x));
    assert_int_equal(s.metadata_bytes, stats.metadata_bytes);
}

/* With as much ahead as all lanes want nobody asks. */
static void test_ahead(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        make(&x, seed, 0);
        start(&x, 0, UNIT, 60 * UNIT, 1000000, 0);
        assert_int_equal(info_of(&x).ahead_bytes, 60 * UNIT);
        same_everywhere(&x);
        x.a.most = 9;
        assert_int_equal(run(&x, 0, 200, 0), 3 * 32 * 9);
        const wh_growth_info info = info_of(&x);
        assert_int_equal(info.requests, 0);
        assert_true(info.ahead_bytes < 60 * UNIT);
        same_everywhere(&x);
        assert_int_equal(wh_heap_growth_poll(x.heap), WH_OK);
        assert_int_equal(info_of(&x).ahead_bytes, 60 * UNIT);
        free_all(&x);
        drop(&x);
    }
}

/* Nobody's time is over while units are posted, however long others have the lock of the rows. */
static void test_ahead_in_no_time(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds() * 2; seed++) {
        context x;
        make(&x, seed, 0);
        start(&x, 0, 16 * UNIT, 400 * UNIT, 1, 0);
        x.a.most = x.a.holds = 1;
        wh_tessera_header_(x.a.heap.core)->growing.lock = 1;
        assert_int_equal(run(&x, 0, seed % 2 == 0 ? 64 : 3 * 1024, 0), 3 * 32);
        const wh_stats s = stats_of(&x);
        assert_int_equal(s.failed, 0);
        assert_int_equal(s.timed_out, 0);
        assert_int_equal(wh_heap_growth_poll(x.heap), WH_OK);
        assert_int_equal(info_of(&x).requests, 0);
        free_all(&x);
        drop(&x);
    }
}

/* What was ahead, and nobody has taken, goes when growth ends: else each start and stop would leave
 * the heap larger. */
static void test_stop_gives_back(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        make(&x, seed, 0);
        for (uint32_t turn = 0; turn < 4; turn++) {
            const uint64_t before = mapped(&x);
            start(&x, 0, 3 * UNIT, (10 + turn) * UNIT, 1000000, 0);
            assert_true(mapped(&x) >= before + (10 + turn) * UNIT);
            assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
            assert_int_equal(mapped(&x), before);
            assert_int_equal(stats_of(&x).heap_bytes, before);
            check(&x);
        }
        start(&x, 0, UNIT, 20 * UNIT, 1000000, 0);
        x.a.most = 9;
        (void)run(&x, 1, 200, 0);
        const uint64_t ahead = info_of(&x).ahead_bytes, all = mapped(&x);
        assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
        assert_true(mapped(&x) <= all - ahead); /* and words that nobody needs */
        assert_true(mapped(&x) > x.least + 3 * 32 * 9 * 200);
        check(&x);
        free_all(&x);
        drop(&x);
    }
}

/* All chunks of what is mapped, and not ahead, are the pool's or a block's. */
static void all_is_there(const context *x) {
    const wh_stats s = stats_of(x);
    uint64_t left = 0;
    assert_int_equal(wh_heap_blocks_left(x->heap, 1024, &left), WH_OK);
    assert_int_equal((left + s.live_blocks) * 1024 + info_of(x).ahead_bytes,
                     s.heap_bytes - s.metadata_bytes);
}

/* Units of four parts, of which a lane alone takes one. What it has left comes with the next call
 * that wants a quiet heap: it is lost to nobody. */
static void test_parts(void **state) {
    (void)state;
    const uint64_t unit = 64 * UNIT;
    for (uint64_t seed = 0; seed < n_seeds() * 2; seed++) {
        context x;
        make_of(&x, seed, 0, unit);
        uint32_t before = 0;
        x.blocks = x.threads = 1;
        start(&x, 0, unit, 3 * unit, 1000000, 0);
        all_is_there(&x);
        uint64_t left = 0;
        assert_int_equal(wh_heap_blocks_left(x.heap, 1024, &left), WH_OK);
        x.a.most = (uint32_t)left + 1 + (uint32_t)(seed % 255);
        before = x.a.most;
        assert_int_equal(run(&x, 0, 1024, 0), before);
        assert_int_equal(info_of(&x).ahead_bytes, 2 * unit);
        assert_int_equal(wh_heap_blocks_left(x.heap, 1024, &left), WH_OK);
        assert_int_equal(left, 63 - seed % 255 % 64); /* of the part that it took last */
        switch (seed % 4) {
        case 0:
            assert_int_equal(wh_heap_extend(x.heap, unit), WH_OK);
            break;
        case 1:
            assert_int_equal(wh_heap_trim(x.heap, 0, NULL), WH_OK);
            break;
        case 2:
            assert_int_equal(wh_heap_reset(x.heap), WH_OK);
            x.a.n[0] = 0;
            assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
            break;
        default:
            assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
        }
        check(&x);
        all_is_there(&x);
        if (seed % 4 < 2) { /* and what it takes then has all its parts */
            memset(x.a.n, 0, sizeof(uint32_t));
            x.a.most = 300;
            assert_int_equal(run(&x, 1, 1024, 0), 300);
            assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
            all_is_there(&x);
            assert_int_equal(wh_heap_reset(x.heap), WH_OK);
            x.a.n[0] = 0;
        }
        free_all(&x);
        assert_int_equal(wh_heap_trim(x.heap, 0, NULL), WH_OK);
        assert_true(mapped(&x) <= x.least);
        drop(&x);
    }
}

static const whi_alloc_ops *true_ops;
static wh_status publish_fails(const wh_launch *l, const void *handle,
                               const wh_reserve_step *step) {
    return step->kind == WH_RESERVE_PUBLISH ? WH_DEVICE_ERROR
                                            : true_ops->reserve_step(l, handle, step);
}

/* The kernel that makes a unit whole fails: the call says so, and growth goes on as before. */
static void test_parts_fail(void **state) {
    (void)state;
    const uint64_t unit = 64 * UNIT;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        make_of(&x, seed, 0, unit);
        x.blocks = x.threads = 1;
        start(&x, 0, unit, unit, 1000000, 0);
        x.a.most = 300;
        assert_int_equal(run(&x, 0, 1024, 0), 300);
        const uint64_t before = mapped(&x);
        true_ops = x.heap->ops;
        whi_alloc_ops with = *true_ops;
        with.reserve_step = publish_fails;
        x.heap->ops = &with;
        assert_int_equal(wh_heap_extend(x.heap, unit), WH_DEVICE_ERROR);
        assert_int_equal(wh_heap_trim(x.heap, 0, NULL), WH_DEVICE_ERROR);
        x.heap->ops = true_ops;
        check(&x);
        assert_int_equal(mapped(&x), before);
        free_all(&x);
        x.a.most = 500;
        assert_int_equal(run(&x, 1, 1024, 0), 500);
        assert_int_equal(stats_of(&x).failed, 0);
        assert_int_equal(wh_heap_extend(x.heap, unit), WH_OK);
        all_is_there(&x);
        free_all(&x);
        drop(&x);
    }
}

/* Growth ends all the same, and what was ahead is lost to nobody. */
static void test_stop_fails(void **state) {
    (void)state;
    const uint64_t unit = 64 * UNIT;
    context x;
    make_of(&x, 0, 0, unit);
    x.blocks = x.threads = 1;
    start(&x, 0, unit, 3 * unit, 1000000, 0);
    x.a.most = 300;
    assert_int_equal(run(&x, 0, 1024, 0), 300);
    true_ops = x.heap->ops;
    whi_alloc_ops with = *true_ops;
    with.reserve_step = publish_fails;
    x.heap->ops = &with;
    assert_int_equal(wh_heap_growth_stop(x.heap), WH_DEVICE_ERROR);
    x.heap->ops = true_ops;
    assert_int_equal(wh_heap_growth_poll(x.heap), WH_UNSUPPORTED);
    uint64_t before = 0, after = 0;
    assert_int_equal(wh_heap_blocks_left(x.heap, 1024, &before), WH_OK);
    assert_int_equal(wh_heap_extend(x.heap, 2 * unit), WH_OK);
    assert_int_equal(wh_heap_blocks_left(x.heap, 1024, &after), WH_OK);
    assert_int_equal(after - before, 2 * unit / 1024);
    free_all(&x);
    drop(&x);
}

/* --- hosts that do not answer ------------------------------------------------------------------
 */

static void test_late_and_dead(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds() * 2; seed++) {
        context x;
        make(&x, seed, 0);
        start(&x, 0, 4 * UNIT, 1, 20, 0);
        const uint64_t bytes = seed % 3 == 0 ? 3 * 1024 : 64;
        x.a.late = 1;
        const int dead = seed % 2 == 0;
        const uint32_t n = run(&x, !dead, bytes, 0);
        wh_stats s = stats_of(&x);
        assert_int_equal(s.failed, 3 * 32);
        assert_int_equal(s.timed_out, s.failed);
        assert_int_equal(mapped(&x) > x.least, !dead);
        x.a.late = 0;
        free_all(&x);
        /* The next malloc goes on. */
        assert_int_equal(wh_heap_growth_poll(x.heap), WH_OK);
        x.a.most = n / (3 * 32) + 1;
        assert_int_equal(run(&x, 1, bytes, 0), 3 * 32 * x.a.most);
        free_all(&x);
        assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
        assert_int_equal(wh_heap_growth_poll(x.heap), WH_UNSUPPORTED);
        check(&x);
        drop(&x);
    }
}

/* --- failures of the back-end ------------------------------------------------------------------
 */

static struct {
    whi_device_ops with; /* failing ones */
    const whi_device_ops *ops;
    uint64_t calls, fail, more; /* this call of map, and so many behind it, fail */
    wh_status status;
    int no_box;
    uint32_t slow; /* a lane maps, and takes so many steps for each piece */
    uint64_t dies; /* ... and takes very long for this one, not the first */
    uint64_t mapped;
} back;

/* The host's lane is at work on a piece; other lanes go on. */
static void be_slow(uint64_t pieces) {
    for (uint64_t k = 0; k < pieces; k++) {
        const uint64_t begin = wh_time_ns();
        const uint32_t steps = back.mapped == back.dies ? 20000000 : back.slow;
        while (wh_time_ns() - begin < steps) {
            wh_backoff(3);
        }
        back.mapped++;
    }
}

static wh_status try_map(wh_device *d, void *at, uint64_t bytes, uint64_t piece) {
    const uint64_t k = ++back.calls;
    if (back.slow != 0) {
        be_slow(bytes / piece);
    }
    return back.fail != 0 && k >= back.fail && k - back.fail <= back.more
               ? back.status
               : back.ops->map(d, at, bytes, piece);
}
static wh_status try_host_alloc(wh_device *d, void **p, uint64_t bytes) {
    return back.no_box ? WH_OUT_OF_MEMORY : back.ops->host_alloc(d, p, bytes);
}

static void plant_failures(wh_device *d) {
    memset(&back, 0, sizeof back);
    back.ops = d->ops;
    back.with = *d->ops;
    back.with.map = try_map;
    back.with.host_alloc = try_host_alloc;
    back.status = WH_OUT_OF_MEMORY;
    d->ops = &back.with;
}

static void test_map_fails(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds() * 2; seed++) {
        context x;
        make(&x, seed, 0);
        plant_failures(x.device);
        back.no_box = 1;
        assert_int_equal(wh_heap_growth_start(x.heap, NULL), WH_OUT_OF_MEMORY);
        assert_int_equal(wh_heap_growth_poll(x.heap), WH_UNSUPPORTED);
        back.no_box = 0;
        back.fail = seed / 4 + 1;
        back.more = seed % 4 == 0 ? 1000 : seed % 4;
        start(&x, x.least + 40 * UNIT, 4 * UNIT, seed % 3 * UNIT + 1, 1000000, 0);
        (void)run(&x, 1, 200, 0);
        nothing_left(&x, 200);
        assert_int_equal(stats_of(&x).timed_out, 0);
        back.fail = 0;
        (void)run(&x, 1, 1024, 0); /* it can map again */
        nothing_left(&x, 1024);
        assert_true(mapped(&x) + 2 * UNIT > x.least + 40 * UNIT);
        assert_int_equal(wh_heap_reset(x.heap), WH_OK);
        check(&x);
        drop(&x);
    }
}

/* A request takes the host many times wait_us. Lanes that wait see that it goes on, and wait: as
 * long as it does. */
static void test_large_and_slow(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds() * 2; seed++) {
        context x;
        make(&x, seed, 0);
        const int dies = seed % 2 != 0;
        start(&x, 0, (1 + seed % 3 * 7) * UNIT, seed % 3 == 0 ? 1 : 4 * UNIT, 800, 0);
        plant_failures(x.device);
        back.slow = 60000; /* of 800,000; 300 granules take 18,000,000 */
        back.dies = dies ? 60 : UINT64_MAX;
        x.blocks = 1 + seed / 2 % 2;
        x.threads = 1;
        x.a.most = 1;
        const uint32_t n = run(&x, 1, 300 * UNIT, 0);
        back.slow = 0;
        assert_int_equal(n, dies ? 0 : x.blocks);
        assert_int_equal(stats_of(&x).timed_out, dies ? x.blocks : 0);
        assert_int_equal(stats_of(&x).failed, dies ? x.blocks : 0);
        assert_true(dies || mapped(&x) >= x.blocks * 300 * UNIT);
        assert_true(mapped(&x) <= x.least + (x.blocks * 300 + 40) * UNIT);
        free_all(&x);
        drop(&x);
    }
}

/* What is wanted ahead is there, in however small steps. */
static void test_far_ahead(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        make(&x, seed, 0);
        start(&x, 0, (1 + seed % 3) * UNIT, 400 * UNIT, 1000000, 0);
        assert_int_equal(info_of(&x).ahead_bytes, 400 * UNIT);
        x.a.most = 24;
        for (uint32_t turn = 0; turn < 3; turn++) {
            assert_int_equal(run(&x, 1, 200, 0), 3 * 32 * 24);
            const wh_growth_info info = info_of(&x);
            assert_true(info.ahead_bytes + 400 / 32 * UNIT > 400 * UNIT);
            assert_true(info.ahead_bytes <= 400 * UNIT);
            if (turn == 2) {
                assert_int_equal(info.requests, 0);
            } else { /* what is live stays */
                memset(x.a.n, 0, 96 * sizeof(uint32_t));
            }
        }
        drop(&x);
    }
}

/* --- in between --------------------------------------------------------------------------------
 */

static void test_in_between(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        make(&x, seed, 0);
        uint64_t given = 0, random = seed;
        start(&x, x.least + 80 * UNIT, 3 * UNIT, 2 * UNIT, 50, 0);
        for (uint32_t turn = 0; turn < 6; turn++) {
            const uint64_t r = next_random(&random), before = mapped(&x);
            x.a.most = 1 + (uint32_t)(r % 12);
            (void)run(&x, r >> 10 & 1, 0, 2);
            switch (r >> 20 & 3) {
            case 0:
                assert_int_equal(wh_heap_extend(x.heap, 5 * UNIT), WH_OK);
                break;
            case 1:
                assert_int_equal(wh_heap_trim(x.heap, before, NULL), WH_OK);
                break;
            case 2:
                assert_int_equal(wh_heap_reset(x.heap), WH_OK);
                memset(x.a.n, 0, 96 * sizeof(uint32_t));
                break;
            default:
                assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
                check(&x);
                start(&x, x.least + 80 * UNIT, 2 * UNIT, UNIT, 50, 0);
            }
            check(&x);
            same_everywhere(&x);
            free_all(&x);
        }
        const uint64_t before = mapped(&x);
        assert_int_equal(wh_heap_trim(x.heap, 0, &given), WH_OK);
        assert_int_equal(given, before > mapped(&x) ? before - mapped(&x) : 0);
        assert_true(mapped(&x) <= x.least + 3 * UNIT); /* what is kept ahead is there again */
        assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
        assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
        assert_int_equal(wh_heap_trim(x.heap, 0, &given), WH_OK);
        assert_true(mapped(&x) <= x.least);
        assert_int_equal(stats_of(&x).heap_bytes, mapped(&x));
        drop(&x);
    }
}

/* --- a thread of the library -------------------------------------------------------------------
 */

static void test_thread(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        make(&x, seed, 0);
        const uint64_t max = x.least + 60 * UNIT;
        start(&x, max, 4 * UNIT, seed % 2 == 0 ? 1 : 4 * UNIT, 1000000000, 1);
        for (uint32_t turn = 0; turn < 2; turn++) {
            const uint64_t bytes = sizes[1 + (seed + turn) % (N_SIZES - 1)];
            (void)run(&x, 0, bytes, 0);
            nothing_left(&x, bytes != 0 ? bytes : 2 * UNIT);
            assert_int_equal(stats_of(&x).timed_out, 0);
            assert_true(mapped(&x) + 2 * UNIT > max);
            free_all(&x);
        }
        if (seed % 2 == 0) {
            assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
        }
        drop(&x);
    }
}

static void *polls(void *heap) {
    for (uint32_t k = 0; k < 100000; k++) {
        const wh_status s = wh_heap_growth_poll(heap);
        if (s != WH_OK && s != WH_UNSUPPORTED) {
            return heap;
        }
    }
    return NULL;
}

/* Threads look while another one begins growth and ends it. */
static void test_poll_beside_stop(void **state) {
    (void)state;
    pthread_t looker[2];
    context x;
    make(&x, 0, 0);
    for (uint32_t t = 0; t < 2; t++) {
        assert_int_equal(pthread_create(&looker[t], NULL, polls, x.heap), 0);
    }
    for (uint32_t k = 0; k < 200; k++) {
        start(&x, x.least + 8 * UNIT, UNIT, 1, 1000, 0);
        assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
    }
    for (uint32_t t = 0; t < 2; t++) {
        void *wrong = x.heap;
        assert_int_equal(pthread_join(looker[t], &wrong), 0);
        assert_null(wrong);
    }
    drop(&x);
}

static void *stops(void *heap) {
    return wh_heap_growth_stop(heap) == WH_OK ? NULL : heap;
}

/* Threads that end growth at the same time: one does, and all return behind that. */
static void test_stop_beside_stop(void **state) {
    (void)state;
    context x;
    make(&x, 0, 0);
    for (uint32_t k = 0; k < 100; k++) {
        pthread_t stopper[3];
        start(&x, x.least + 8 * UNIT, UNIT, 1, 1000, (int)(k % 4 != 0));
        for (uint32_t t = 0; t < 3; t++) {
            assert_int_equal(pthread_create(&stopper[t], NULL, stops, x.heap), 0);
        }
        for (uint32_t t = 0; t < 3; t++) {
            void *wrong = x.heap;
            assert_int_equal(pthread_join(stopper[t], &wrong), 0);
            assert_null(wrong);
        }
        assert_int_equal(wh_heap_growth_poll(x.heap), WH_UNSUPPORTED);
    }
    drop(&x);
}

static void *starts_and_stops(void *heap) {
    for (uint32_t k = 0; k < 60; k++) {
        const wh_status s = wh_heap_growth_start(heap, NULL);
        if ((s != WH_OK && s != WH_BAD_ARGUMENT) || wh_heap_growth_stop(heap) != WH_OK) {
            return heap;
        }
    }
    return NULL;
}

/* Threads that begin and end growth as it comes. */
static void test_start_beside_stop(void **state) {
    (void)state;
    pthread_t thread[3];
    context x;
    make(&x, 0, 0);
    for (uint32_t t = 0; t < 3; t++) {
        assert_int_equal(pthread_create(&thread[t], NULL, starts_and_stops, x.heap), 0);
    }
    for (uint32_t t = 0; t < 3; t++) {
        void *wrong = x.heap;
        assert_int_equal(pthread_join(thread[t], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(mapped(&x), x.least);
    drop(&x);
}

/* The thread takes no signal that the program waits for. */
static void test_signals(void **state) {
    (void)state;
    const struct timespec a_moment = {0, 50000000}, long_enough = {10, 0};
    sigset_t one, before;
    context x;
    make(&x, 0, 0);
    start(&x, x.least + 8 * UNIT, UNIT, 1, 1000, 1);
    assert_int_equal(sigemptyset(&one) | sigaddset(&one, SIGUSR1), 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    (void)nanosleep(&a_moment, NULL); /* whoever takes it */
    assert_int_equal(sigtimedwait(&one, NULL, &long_enough), SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    drop(&x);
}

/* --- bad input ----------------------------------------------------------------------------------
 */

static void test_bad_calls(void **state) {
    (void)state;
    context x;
    make(&x, 0, 0);
    wh_growth_options o;
    wh_growth_info info;
    memset(&o, 0, sizeof o);
    assert_int_equal(wh_heap_growth_start(NULL, &o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_growth_stop(NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_growth_poll(NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_growth_get_info(NULL, &info), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_growth_get_info(x.heap, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_growth_get_info_sized(x.heap, &info, 4), WH_WRONG_BUILD);
    assert_int_equal(wh_heap_growth_poll(x.heap), WH_UNSUPPORTED);
    o.struct_bytes = 4;
    assert_int_equal(wh_heap_growth_start(x.heap, &o), WH_WRONG_BUILD);
    o.struct_bytes = 0;
    o.wait_us = UINT32_MAX;
    assert_int_equal(wh_heap_growth_start(x.heap, &o), WH_BAD_ARGUMENT);
    o.wait_us = 0;
    o.no_thread = 1;
    o.max_bytes = 1; /* there is more: it never grows */
    assert_int_equal(wh_heap_growth_start(x.heap, &o), WH_OK);
    assert_int_equal(wh_heap_growth_start(x.heap, &o), WH_BAD_ARGUMENT);
    assert_true(strstr(wh_last_error_text(), "already") != NULL);
    assert_int_equal(info_of(&x).ahead_bytes, 0);
    assert_int_equal(info_of(&x).mapped_bytes, x.least);
    assert_int_equal(wh_heap_growth_stop(x.heap), WH_OK);
    wh_heap *heap = NULL; /* one that reserves nothing */
    wh_heap_options plain;
    memset(&plain, 0, sizeof plain);
    plain.device = x.device;
    plain.bytes = 4 << 20;
    assert_int_equal(wh_heap_create(&heap, &plain), WH_OK);
    assert_int_equal(wh_heap_growth_start(heap, &o), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_growth_stop(heap), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_growth_get_info(heap, &info), WH_OK);
    assert_int_equal(info.mapped_bytes, 4 << 20);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    drop(&x);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_max),
        cmocka_unit_test(test_card_is_full),
        cmocka_unit_test(test_hole),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_ahead_in_no_time),
        cmocka_unit_test(test_late_and_dead),
        cmocka_unit_test(test_map_fails),
        cmocka_unit_test(test_in_between),
        cmocka_unit_test(test_thread),
        cmocka_unit_test(test_poll_beside_stop),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_large_and_slow),
        cmocka_unit_test(test_stop_gives_back),
        cmocka_unit_test(test_far_ahead),
        cmocka_unit_test(test_stop_beside_stop),
        cmocka_unit_test(test_start_beside_stop),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_parts_fail),
        cmocka_unit_test(test_stop_fails),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ouroboros.c: alloc/ouroboros, what the suites do not ask: how much of a heap is left for
 * pages, and where the words that all warps write lie, from the smallest to 128 GiB; the walk
 * over live pages; double frees; heaps that grow; the linear region. */
#include "sim/sim_test.h"

#define WH_ALLOCATOR ouro_vl_c
#include "warpheap/warpheap.h"

typedef wh_status (*plan_fn)(wh_ouro_ref *h, wh_plan *plan, unsigned char *memory, uint64_t bytes,
                             const void *options, uint32_t n_sms);

static const struct {
    const char *name;
    plan_fn plan;
} variants[] = {
#define ROW(ident, name, kind, holds) {name, wh_##ident##_plan},
    WH_OURO_VARIANT_LIST(ROW)
#undef ROW
};

/* --- layout --------------------------------------------------------------------------- */

/* Open words: none of CHUNKS; of PAGES one at least for each class, a power of two, no fewer the
 * larger the pages, and, but for that one, no more than a share of the chunks of its size. They lie
 * one after the other from `at` on, each with a cache line to itself. */
static void check_opens(wh_ouro_ref h, uint64_t at) {
    const uint32_t apart = 8u << wh_ouro_open_apart_log2_(h);
    for (uint32_t c = 0; c < h.n_classes; c++) {
        const uint32_t n = wh_ouro_opens_(h, c), level = wh_ouro_level_(h, c) != 0;
        const uint32_t chunks = level ? h.n_chunks >> h.large_log2 : h.n_chunks;
        if (WH_OURO_BY_CHUNK(h.variant)) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_true(n != 0 && (n & (n - 1)) == 0);
        assert_true(n == 1 || n <= chunks >> WH_OURO_OPEN_SHARE_LOG2);
        assert_true(c == 0 || c == h.n_small || n >= wh_ouro_opens_(h, c - 1));
        for (uint32_t k = 0; k < n; k++, at += apart) {
            assert_int_equal((uint64_t)(uintptr_t)wh_ouro_open_(h, c, k), at);
        }
    }
    assert_true(apart >= 64 && at <= (uint64_t)(uintptr_t)h.tables);
#ifndef WH_HOSTILE
    if (!WH_OURO_BY_CHUNK(h.variant) && h.chunk_log2 == 13 && h.data_bytes >= 3u << 29) {
        assert_int_equal(wh_ouro_opens_(h, 0), 32); /* an address range of 1.03 with 1953 chunks */
        assert_int_equal(wh_ouro_opens_(h, 2), 128);
    }
#endif
}

/* The places of all classes and of the pool lie between the header and the tables, each with a
 * cache line to itself at least; in a heap of 64 MiB or more no two are nearer than 1 KiB, since
 * words that all warps write would wait for each other, and in a small one they take little. */
static void check_places(wh_ouro_ref h, uint64_t bytes) {
    const uint64_t apart = (uint64_t)8 << h.apart_log2, from = (uint64_t)(uintptr_t)h.words;
    const uint64_t n = (uint64_t)WH_OURO_PLACES * h.n_classes + WH_CHUNK_POOL_PLACES;
    uint8_t taken[WH_OURO_PLACES * WH_OURO_MAX_CLASSES + WH_CHUNK_POOL_PLACES] = {0};
    assert_true(from >= (uint64_t)(uintptr_t)(h.header + 1));
    assert_true(from + n * apart <= (uint64_t)(uintptr_t)h.tables);
    assert_true(from % 64 == 0 && apart >= 64 && (apart >= 1024 || bytes < (uint64_t)64 << 20));
    assert_true(apart == 64 || n * apart <= bytes / 256);
    const wh_chunk_pool pool = wh_ouro_pool_(h);
    const void *at[WH_OURO_PLACES];
    for (uint32_t c = 0; c <= h.n_classes; c++) {
        uint32_t count = WH_OURO_PLACES;
        if (c < h.n_classes) {
            const wh_vqueue q = wh_ouro_queue_(h.variant, h, c);
            at[0] = wh_ouro_sem_(h, c);
            at[1] = wh_ouro_full_(h, c);
            at[2] = wh_ouro_class_(h, c);
            at[3] = q.front;
            at[4] = q.back;
            at[5] = q.room;
            at[6] = q.state;
        } else {
            count = WH_CHUNK_POOL_PLACES;
            at[0] = wh_chunk_pool_offset_(pool);
            at[1] = wh_chunk_pool_count_(pool, 0);
            at[2] = wh_chunk_pool_count_(pool, 1);
            at[3] = wh_chunk_pool_ring_(pool, 0);
            at[4] = wh_chunk_pool_ring_(pool, 1);
        }
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t offset = (uint64_t)(uintptr_t)at[i] - from;
            assert_true(offset % apart == 0 && offset / apart < n);
            assert_int_equal(taken[offset / apart]++, 0);
        }
    }
    check_opens(h, from + n * apart);
}

/* The queue chunks that are there from the beginning: the first ones of the heap, each of one class
 * and one number, as init finds them from either side; with CHUNKS of classes of up to 32 pages. */
static void check_ready(wh_ouro_ref h) {
    const uint32_t n = wh_ouro_ready_(h), first = wh_ouro_ready_first_(h);
    uint32_t classes = 0;
    for (uint32_t c = 0; c < h.n_classes; c++) {
        if (!wh_ouro_is_ready_(h, c)) {
            continue;
        }
        classes++;
        assert_true(c < h.n_small);
        assert_true(!WH_OURO_BY_CHUNK(h.variant) || wh_ouro_pages_log2_(h, c) <= 5);
        for (uint32_t j = 0; j < n; j++) {
            const uint32_t chunk = wh_vqueue_chunk_of_(wh_ouro_ready_link_(h, c, j));
            assert_true(chunk < wh_ouro_ready_chunks_(h));
            assert_int_equal(first + chunk / n, c);
            assert_int_equal(chunk % n, j);
        }
        assert_int_equal(wh_vqueue_chunk_of_(wh_ouro_ready_link_(h, c, n)), WH_VQUEUE_NO_CHUNK);
    }
    assert_int_equal((uint64_t)classes * n, n != 0 ? wh_ouro_ready_chunks_(h) : 0);
    const int virtualized = WH_OURO_KIND(h.variant) != WH_VQUEUE_ARRAY;
    assert_true(n == 0 || virtualized);
#ifndef WH_HOSTILE
    if (virtualized && h.chunk_log2 == 13 && h.n_chunks >= 1u << 16) {
        assert_true(n >= 2);
        assert_int_equal(classes, WH_OURO_BY_CHUNK(h.variant) ? 6 : h.n_small);
    }
#endif
}

static void check_plan(uint32_t v, uint64_t bytes, uint64_t address, uint32_t chunk) {
    wh_ouro_ref h;
    wh_plan plan;
    wh_ouroboros_options own = WH_OUROBOROS_OPTIONS;
    memset(&h, 0, sizeof h);
    own.chunk_bytes = chunk;
    unsigned char *memory = (unsigned char *)(uintptr_t)address;
    assert_int_equal(variants[v].plan(&h, &plan, memory, bytes, &own, 132), WH_OK);
    const uint64_t end = address + bytes;
    const uint64_t base = (uint64_t)(uintptr_t)h.base;
    assert_true(base >= address && base + h.data_bytes <= end);
    assert_true((uint64_t)(uintptr_t)h.header >= base + h.data_bytes);
    assert_true((uint64_t)(uintptr_t)(h.cls + h.n_chunks) <= end); /* the last array */
    assert_int_equal(plan.metadata_bytes, bytes - h.data_bytes);
    assert_true(h.n_classes <= WH_OURO_MAX_CLASSES);
    check_places(h, bytes);
    check_ready(h);
    for (uint32_t c = 0; c < h.n_classes; c++) {
        const uint32_t pages = 1u << wh_ouro_pages_log2_(h, c);
        const uint32_t units = wh_ouro_level_(h, c) ? 1u << h.large_log2 : 1;
        assert_true(pages <= 64u << h.words_log2);
        assert_int_equal((uint64_t)pages << wh_ouro_page_log2_(h, c),
                         (uint64_t)units << h.chunk_log2);
        /* The last page's number, and back. */
        const uint32_t last = h.n_chunks / units * units - units;
        const uint64_t id =
            (((uint64_t)last << h.chunk_log2) >> wh_ouro_page_log2_(h, c)) + pages - 1;
        uint32_t page = 0;
        if (!WH_OURO_BY_CHUNK(h.variant)) {
            assert_true(id < UINT32_MAX - 1);
            assert_int_equal(wh_ouro_chunk_of_(h, c, (uint32_t)id, &page), last);
            assert_int_equal(page, pages - 1);
        }
    }
#ifndef WH_HOSTILE
    if (bytes >= (uint64_t)2 << 30 && chunk == 0) {
        assert_true((double)h.data_bytes >= 0.98 * (double)bytes);
        assert_int_equal(wh_ouro_max_size_(h), 1 << 20);
    }
#endif
}

static void test_layout(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 6; v++) {
        for (uint64_t bytes = 32 << 10; bytes <= (uint64_t)128 << 30; bytes *= 2) {
            for (uint32_t chunk = 0; chunk <= 65536; chunk = chunk == 0 ? 512 : chunk * 2) {
                const uint64_t chunks = bytes / (chunk == 0 ? 8192 : chunk);
#ifdef WH_HOSTILE
                if (chunk == 0 && bytes > 1 << 30) {
                    continue; /* too many of 512 bytes */
                }
#endif
                if (chunks >= 64 && chunks < 1u << 25) {
                    check_plan(v, bytes, (uint64_t)1 << 40, chunk);
                    check_plan(v, bytes + 4711 * 256, ((uint64_t)1 << 40) + 256 * 77, chunk);
                }
            }
        }
        /* The fewest bytes are enough. */
        wh_ouro_ref h;
        wh_plan plan;
        wh_ouroboros_options own = WH_OUROBOROS_OPTIONS;
        assert_int_equal(variants[v].plan(&h, &plan, NULL, 0, &own, 1), WH_HEAP_TOO_SMALL);
        check_plan(v, plan.min_bytes, ((uint64_t)1 << 40) + 256, 0);
    }
}

/* --- live pages ------------------------------------------------------------------------- */

typedef struct live_args {
    wh_heap_ref heap;
    void **p;
    uint32_t n, twice;
} live_args;

/* Thread i holds pages i and n + i and gives the first one back, once or twice. */
WH_KERNEL(hold, live_args, a) {
    const uint64_t i = wh_thread_id();
    a.p[i] = wh_malloc(a.heap, 16 + i % 3 * 100);
    a.p[a.n + i] = wh_malloc(a.heap, 1 + i * 40);
    wh_free(a.heap, a.p[i]);
    if (a.twice) {
        wh_free(a.heap, a.p[i]);
    }
}

WH_KERNEL(drop, live_args, a) {
    wh_free(a.heap, a.p[a.n + wh_thread_id()]);
}

typedef struct seen {
    void *const *p;
    uint32_t n, found;
    int bad;
} seen;

static int visit(void *context, void *block, uint64_t usable) {
    seen *s = context;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->p[i] == block) {
            s->found++;
            s->bad |= usable < 1 + i * 40;
            return 0;
        }
    }
    s->bad = 1;
    return 0;
}

static void test_live(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        wh_device *d = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
        wh_heap *heap = NULL;
        wh_heap_options o;
        memset(&o, 0, sizeof o);
        o.device = d;
        o.bytes = 2 << 20;
        o.allocator = "ouro-vl-c";
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        live_args a;
        a.n = 96;
        a.p = take(d, 2 * a.n * sizeof *a.p);
        a.twice = 0;
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        const wh_launch l = grid(d, 2, a.n / 2);
        for (uint32_t round = 0; round < 3; round++) {
            assert_int_equal(hold(&l, &a), WH_OK);
            seen s = {a.p + a.n, a.n, 0, 0};
            assert_int_equal(wh_heap_walk(heap, visit, &s), WH_OK);
            assert_int_equal(s.bad, 0);
            assert_int_equal(s.found, a.n);
            assert_int_equal(drop(&l, &a), WH_OK);
            assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        }
        /* One lane alone: nobody gets the page between the two frees. */
        const wh_launch one = grid(d, 1, 1);
        wh_stats stats;
        a.twice = 1;
        assert_int_equal(hold(&one, &a), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.bad_frees, 1);
        assert_int_equal(stats.live_blocks, 1);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
}

/* --- growing ----------------------------------------------------------------------------- */

typedef struct grow_args {
    wh_ouro_ref heap; /* of any variant */
    uint64_t **p;
    uint64_t *words;
    uint32_t *bad;
    int64_t moved;
    uint32_t seed, steps, slots;
    uint64_t most;
} grow_args;

/* Each thread has `slots` blocks, and changes some of them. */
WH_KERNEL(wear, grow_args, a) {
    const uint64_t i = wh_thread_id();
    uint64_t random = a.seed * 1000003u + i * 7919 + 1;
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t k = i * a.slots + (random >> 60) % a.slots;
        if (a.p[k] != NULL) {
            wh_ouro_free_(a.heap.variant, a.heap, wh_activemask(), a.p[k]);
            a.p[k] = NULL;
            continue;
        }
        const uint64_t size = a.most >> (random >> 33) % 12;
        a.words[k] = size / 8;
        a.p[k] = (uint64_t *)wh_ouro_malloc_(a.heap.variant, a.heap, wh_activemask(), size);
        for (uint64_t w = 0; a.p[k] != NULL && w < a.words[k]; w++) {
            a.p[k][w] = k * 1000 + w;
        }
    }
}

/* All blocks are where they should be after a move, with their contents. */
WH_KERNEL(rebase, grow_args, a) {
    const uint64_t i = wh_thread_id();
    for (uint64_t k = i * a.slots; k < (i + 1) * a.slots; k++) {
        if (a.p[k] == NULL) {
            continue;
        }
        a.p[k] = (uint64_t *)(void *)((unsigned char *)a.p[k] + a.moved);
        if (wh_ouro_usable_size_(a.heap, a.p[k]) < a.words[k] * 8) {
            wh_add_u32_relaxed(a.bad, 1);
        }
        for (uint64_t w = 0; w < a.words[k]; w++) {
            if (a.p[k][w] != k * 1000 + w) {
                wh_add_u32_relaxed(a.bad, 1);
            }
        }
    }
}

WH_KERNEL(drop_all, grow_args, a) {
    const uint64_t i = wh_thread_id();
    for (uint64_t k = i * a.slots; k < (i + 1) * a.slots; k++) {
        wh_ouro_free_(a.heap.variant, a.heap, wh_activemask(), a.p[k]);
        a.p[k] = NULL;
    }
}

/* One lane fills the heap with blocks of one size. */
WH_KERNEL(count_blocks, grow_args, a) {
    while (wh_ouro_malloc_(a.heap.variant, a.heap, 1, a.most) != NULL) {
        wh_add_u32_relaxed(a.bad, 1);
    }
}

#define LINEAR_BYTES 1000u

typedef struct growing {
    wh_device *d;
    wh_heap *heap;
    wh_heap_options o;
    wh_ouroboros_options own;
    grow_args a;
} growing;

static void bind_grown(growing *g) {
    assert_int_equal(wh_heap_handle_of(g->heap, g->o.allocator, 0, &g->a.heap, sizeof g->a.heap),
                     WH_OK);
}

static void start_growing(growing *g, uint32_t v, uint64_t seed) {
    wh_sim_options sim;
    memset(&sim, 0, sizeof sim);
    memset(g, 0, sizeof *g);
    sim.policy = (wh_sim_policy)(seed % N_POLICIES);
    sim.seed = seed;
    sim.step_budget = 20 << 20; /* what is lost may be waited for */
    g->d = open_with(&sim);
    g->o.device = g->d;
    g->o.bytes = (seed % 2 != 0 ? 90000 : 600000) + seed * 256;
    g->o.allocator = variants[v].name;
    static const wh_ouroboros_options none = WH_OUROBOROS_OPTIONS;
    g->own = none;
    g->o.options = &g->own.head;
    g->own.chunk_bytes = seed % 2 != 0 ? 512 : 0;
    g->own.queue_entries = seed % 3 != 0 ? 0 : 8;
    g->own.linear_bytes = LINEAR_BYTES;
    assert_int_equal(wh_heap_create(&g->heap, &g->o), WH_OK);
    g->a.slots = 4;
    g->a.p = take(g->d, 3 * 40 * g->a.slots * sizeof *g->a.p);
    g->a.words = take(g->d, 3 * 40 * g->a.slots * sizeof *g->a.words);
    g->a.bad = take(g->d, sizeof *g->a.bad);
    bind_grown(g);
    memset(wh_ouro_linear(g->a.heap), 0x5a, LINEAR_BYTES);
    g->a.most = wh_ouro_max_size_(g->a.heap);
}

/* The heap moves and gets so many bytes more: its blocks and its linear memory are as before. */
static void grow_by(growing *g, uint64_t plus) {
    wh_stats before, after;
    assert_int_equal(wh_heap_get_stats(g->heap, &before), WH_OK);
    int64_t moved = 1;
    g->o.bytes += plus;
    assert_int_equal(wh_heap_grow(g->heap, g->o.bytes, NULL, &moved), WH_OK);
    const unsigned char *old_base = g->a.heap.base;
    bind_grown(g);
    assert_int_equal(g->a.heap.base - old_base, moved);
    for (uint32_t k = 0; k < LINEAR_BYTES; k++) {
        assert_int_equal(((unsigned char *)wh_ouro_linear(g->a.heap))[k], 0x5a);
    }
    assert_int_equal(wh_heap_check(g->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_get_stats(g->heap, &after), WH_OK);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_int_equal(after.used_bytes, before.used_bytes);
    assert_int_equal(after.failed, before.failed);
    assert_int_equal(after.heap_bytes, g->o.bytes);
    g->a.moved = moved;
}

/* No chunk has been lost: all can be had again, but for those that queues keep. */
static void check_all_is_there(growing *g) {
    const wh_launch one = grid(g->d, 1, 1);
    g->a.most = (uint64_t)1 << g->a.heap.chunk_log2;
    assert_int_equal(count_blocks(&one, &g->a), WH_OK);
    const uint32_t kept = WH_OURO_KIND(g->a.heap.variant) == WH_VQUEUE_ARRAY ? 0 : 2;
    assert_in_range(*g->a.bad, g->a.heap.n_chunks - kept * g->a.heap.n_classes, g->a.heap.n_chunks);
    assert_int_equal(wh_heap_check(g->heap, NULL), WH_OK);
}

static void check_grow(uint32_t v, uint64_t seed) {
    static const uint64_t plus[] = {0, 256 * 77, 100000, 512, 400000};
    wh_stats after;
    growing g;
    start_growing(&g, v, seed);
    const wh_launch l = grid(g.d, 3, 40), few = grid(g.d, 1, 4);
    for (uint32_t round = 0; round < 5; round++) {
        const int fresh = round < 2; /* much of the heap */
        g.a.seed = (uint32_t)seed * 16 + round;
        g.a.steps = fresh ? 6 : 24;
        if ((seed + round) % 3 == 0 && !fresh) { /* now and then the heap is full */
            g.a.steps = 60;
        }
        assert_int_equal(wear(fresh ? &few : &l, &g.a), WH_OK);
        grow_by(&g, plus[round]);
        assert_int_equal(rebase(&l, &g.a), WH_OK);
        assert_int_equal(*g.a.bad, 0);
    }
    int64_t moved = 1;
    assert_int_equal(wh_heap_grow(g.heap, g.o.bytes - 1, NULL, &moved), WH_BAD_ARGUMENT);
    assert_int_equal(moved, 1);
    assert_int_equal(drop_all(&l, &g.a), WH_OK);
    assert_int_equal(wh_heap_check(g.heap, NULL), WH_OK);
    assert_int_equal(wh_heap_get_stats(g.heap, &after), WH_OK);
    assert_int_equal(after.live_blocks, 0);
    assert_int_equal(after.bad_frees, 0);
    check_all_is_there(&g);
    wh_heap_destroy(g.heap);
    wh_device_close(g.d);
}

static void test_grow(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 6; v++) {
        for (uint64_t seed = 0; seed < n_seeds() && seed < 6; seed++) {
            check_grow(v, seed);
        }
    }
}

/* What grow refuses, and the linear region's place. */
static void test_options(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    wh_heap *heap = NULL;
    wh_heap_options o;
    int64_t moved = 0;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = 1 << 20;
    o.allocator = "gallatin";
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_grow(heap, 2 << 20, NULL, &moved), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_grow(NULL, 2 << 20, NULL, &moved), WH_BAD_ARGUMENT);
    wh_heap_destroy(heap);
    for (uint32_t v = 0; v < 6; v++) {
        wh_ouro_ref h;
        wh_ouroboros_options own = WH_OUROBOROS_OPTIONS;
        uint64_t least = 0;
        o.allocator = variants[v].name;
        o.options = &own.head;
        own.linear_bytes = 300000;
        assert_int_equal(wh_heap_min_bytes(&o, &least), WH_OK);
        assert_true(least > 300000);
        o.bytes = least;
        o.memory = take(d, 2 * least);
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle_of(heap, o.allocator, 0, &h, sizeof h), WH_OK);
        unsigned char *linear = wh_ouro_linear(h), *end = (unsigned char *)o.memory + least;
        assert_int_equal((uintptr_t)linear % 256, 0);
        assert_true(linear + 300000 <= end && linear >= (unsigned char *)(h.cls + h.n_chunks));
        assert_false(wh_ouro_owns_(h, linear));
        memset(linear, 1, 300000);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        /* Into the caller's memory, where the old one is his, too. */
        unsigned char *to = take(d, 2 * least);
        assert_int_equal(wh_heap_grow(heap, 2 * least, to, &moved), WH_OK);
        assert_int_equal(wh_heap_handle_of(heap, o.allocator, 0, &h, sizeof h), WH_OK);
        linear = wh_ouro_linear(h);
        assert_true(linear > to && linear + 300000 <= to + 2 * least);
        assert_true(linear[0] == 1 && linear[299999] == 1);
        memset(o.memory, 0xee, least);
        assert_int_equal(wh_heap_reset(heap), WH_OK);
        assert_int_equal(linear[7], 1);
        assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        wh_heap_destroy(heap);
        o.bytes = 300000;
        assert_int_equal(wh_heap_create(&heap, &o), WH_HEAP_TOO_SMALL);
        o.memory = NULL;
    }
    wh_device_close(d);
}

/* With as many bytes as wh_heap_min_bytes says a heap can be made, and with more. */
static void test_least(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t queue_entries, chunk_bytes, open_chunks;
    } odd[] = {{"ouro-s-p", 8192, 0, 0},  {"ouro-s-p", 32768, 8192, 0}, {"ouro-vl-c", 65536, 0, 0},
               {"ouro-va-c", 4096, 0, 0}, {"ouro-s-p", 0, 0, 128},      {"ouro-va-p", 0, 0, 104},
               {"ouro-s-c", 0, 0, 0},     {"ouro-vl-p", 0, 2048, 0}};
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        wh_heap_options o;
        wh_ouroboros_options own = WH_OUROBOROS_OPTIONS;
        uint64_t least = 0;
        memset(&o, 0, sizeof o);
        o.device = d;
        o.allocator = odd[i].name;
        o.options = &own.head;
        own.queue_entries = odd[i].queue_entries;
        own.chunk_bytes = odd[i].chunk_bytes;
        own.open_chunks = odd[i].open_chunks;
        assert_int_equal(wh_heap_min_bytes(&o, &least), WH_OK);
        for (uint64_t tenths = 10; tenths <= 40; tenths++) {
            wh_heap *heap = NULL;
            o.bytes = least * tenths / 10;
            const wh_status s = wh_heap_create(&heap, &o);
            if (s != WH_OK) {
                fail_msg("%s, entry %u, %u.%u times the least: %s", odd[i].name, (unsigned)i,
                         (unsigned)tenths / 10, (unsigned)tenths % 10, wh_status_name(s));
            }
            wh_heap_destroy(heap);
        }
    }
    wh_heap_options o;
    wh_ouroboros_options own = WH_OUROBOROS_OPTIONS;
    wh_heap *heap = NULL;
    uint64_t least = 0;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.allocator = "ouro-s-p";
    o.bytes = 1 << 20;
    o.options = &own.head;
    own.linear_bytes = UINT64_MAX - 7;
    assert_int_equal(wh_heap_min_bytes(&o, &least), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),  cmocka_unit_test(test_live),  cmocka_unit_test(test_grow),
        cmocka_unit_test(test_options), cmocka_unit_test(test_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

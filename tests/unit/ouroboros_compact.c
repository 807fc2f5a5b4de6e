/* ouroboros_compact.c: wh_heap_compact, and what malloc does without it. A size that took the whole
 * heap, and has been freed, leaves the memory to other sizes; what goes and what stays in the
 * queues, in which order, against a model that knows the live blocks alone; what is refused. */
#include "sim/sim_test.h"

#define WH_ALLOCATOR ouro_vl_c
#include "warpheap/warpheap.h"

static const struct {
    const char *name;
    uint32_t variant;
} variants[] = {
#define ROW(ident, name, kind, holds) {name, (kind) | (holds)},
    WH_OURO_VARIANT_LIST(ROW)
#undef ROW
};

#define N_VARIANTS (sizeof variants / sizeof *variants)

typedef struct call {
    wh_ouro_ref heap;
    uint64_t **p;
    uint64_t *words;
    uint32_t *found;
    uint64_t size;
    uint32_t *values; /* of all queues, one after the other */
    uint64_t *starts; /* where those of each class begin */
    uint32_t seed, steps, slots;
} call;

/* --- kernels ------------------------------------------------------------------------------------
 */

/* Each thread has `slots` blocks, and changes some of them. Of small ones there are more. */
WH_KERNEL(wear, call, a) {
    const uint64_t i = wh_thread_id();
    uint64_t random = a.seed * 1000003u + i * 7919 + 1;
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t k = i * a.slots + (random >> 58) % a.slots;
        if (a.p[k] != NULL) {
            wh_ouro_free_(a.heap.variant, a.heap, wh_activemask(), a.p[k]);
            a.p[k] = NULL;
            continue;
        }
        const uint64_t size = (random >> 40) % 8 == 0 ? a.size : (uint64_t)16 << (random >> 33) % 4;
        a.words[k] = size / 8;
        a.p[k] = (uint64_t *)wh_ouro_malloc_(a.heap.variant, a.heap, wh_activemask(), size);
        for (uint64_t w = 0; a.p[k] != NULL && w < a.words[k]; w++) {
            a.p[k][w] = k * 1000 + w;
        }
    }
}

/* All threads take blocks of one size, as many as they have slots for, and free all but a few: so
 * one queue is long. */
WH_KERNEL(surge, call, a) {
    const uint64_t i = wh_thread_id();
    uint64_t random = a.seed * 1000003u + i * 7919 + 1;
    for (uint64_t k = i * a.slots; k < (i + 1) * a.slots; k++) {
        if (a.p[k] == NULL) {
            a.words[k] = 0;
            a.p[k] = (uint64_t *)wh_ouro_malloc_(a.heap.variant, a.heap, wh_activemask(), a.size);
        }
    }
    for (uint64_t k = i * a.slots; k < (i + 1) * a.slots; k++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (random >> 59 != 0) {
            wh_ouro_free_(a.heap.variant, a.heap, wh_activemask(), a.p[k]);
            a.p[k] = NULL;
        }
    }
}

/* All blocks are as they were written. */
WH_KERNEL(look, call, a) {
    for (uint64_t k = wh_thread_id() * a.slots, end = k + a.slots; k < end; k++) {
        for (uint64_t w = 0; a.p[k] != NULL && w < a.words[k]; w++) {
            if (a.p[k][w] != k * 1000 + w) {
                wh_add_u32_relaxed(a.found, 1);
            }
        }
    }
}

WH_KERNEL(drop, call, a) {
    for (uint64_t k = wh_thread_id() * a.slots, end = k + a.slots; k < end; k++) {
        wh_ouro_free_(a.heap.variant, a.heap, wh_activemask(), a.p[k]);
        a.p[k] = NULL;
    }
}

/* Takes blocks of one size until NULL, each thread by itself, and marks them: *found is how many
 * there are, and seed is 1 more if one of them overlaps. They hang together by their first words.
 */
WH_KERNEL(fill, call, a) {
    const uint64_t i = wh_thread_id();
    a.p[i] = NULL;
    for (;;) {
        uint64_t *p = (uint64_t *)wh_ouro_malloc_(a.heap.variant, a.heap, wh_activemask(), a.size);
        if (p == NULL) {
            return;
        }
        p[0] = (uint64_t)(uintptr_t)a.p[i];
        p[1] = ~(uint64_t)(uintptr_t)p;
        a.p[i] = p;
        wh_add_u32_relaxed(a.found, 1);
    }
}

/* Frees what fill has taken; each block must still have its mark. */
WH_KERNEL(empty, call, a) {
    const uint64_t i = wh_thread_id();
    for (uint64_t *p = a.p[i]; p != NULL;) {
        uint64_t *next = (uint64_t *)(uintptr_t)p[0];
        if (p[1] != ~(uint64_t)(uintptr_t)p) {
            wh_add_u32_relaxed(a.found, 1);
        }
        wh_ouro_free_(a.heap.variant, a.heap, wh_activemask(), p);
        p = next;
    }
    a.p[i] = NULL;
}

/* One lane: what lies in the queues, from the front to the back. */
WH_KERNEL(list, call, a) {
    uint64_t n = 0;
    for (uint32_t c = 0; c < a.heap.n_classes; c++) {
        const wh_vqueue q = wh_ouro_queue_(a.heap.variant, a.heap, c);
        const wh_vqueue_chunks k = wh_ouro_queue_chunks_(a.heap);
        a.starts[c] = n;
        for (uint64_t p = *q.front; p < *q.back; p++) {
            uint64_t walk = 0;
            uint32_t chunk = WH_CHUNK_NONE;
            const uint32_t *e = NULL;
            while (e == NULL) {
                e = wh_vqueue_entry_(q, k, p, &walk, &chunk);
            }
            a.values[n++] = *e;
        }
    }
    a.starts[a.heap.n_classes] = n;
}

/* --- heaps --------------------------------------------------------------------------------------
 */

#define THREADS 80u
#define SLOTS 12u
#define MOST_VALUES 60000u

typedef struct heap_of {
    wh_device *d;
    wh_heap *heap;
    wh_heap_options o;
    wh_ouroboros_options own;
    call a;
} heap_of;

static void make(heap_of *g, uint32_t v, uint64_t seed, uint64_t keep_chunks) {
    static const wh_ouroboros_options none = WH_OUROBOROS_OPTIONS;
    wh_sim_options sim;
    memset(&sim, 0, sizeof sim);
    memset(g, 0, sizeof *g);
    sim.policy = (wh_sim_policy)(seed % N_POLICIES);
    sim.seed = seed;
    sim.step_budget = 40 << 20; /* what is lost may be waited for */
    g->d = open_with(&sim);
    g->own = none;
    g->own.chunk_bytes = seed % 3 != 0 ? 512 : 1024;
    /* Static queues that are long enough, or park; of the others links, that is, walks or none. */
    g->own.queue_entries = seed / 2 % 2 != 0 ? 2048 : 16;
    g->own.keep_chunks = keep_chunks;
    g->o.device = g->d;
    g->o.allocator = variants[v].name;
    g->o.options = &g->own.head;
    assert_int_equal(wh_heap_min_bytes(&g->o, &g->o.bytes), WH_OK);
    g->o.bytes += 100000 + seed % 4 * 40000;
    assert_int_equal(wh_heap_create(&g->heap, &g->o), WH_OK);
    assert_int_equal(wh_heap_handle_of(g->heap, g->o.allocator, 0, &g->a.heap, sizeof g->a.heap),
                     WH_OK);
    g->a.slots = SLOTS;
    g->a.p = take(g->d, THREADS * SLOTS * sizeof *g->a.p);
    g->a.words = take(g->d, THREADS * SLOTS * sizeof *g->a.words);
    g->a.found = take(g->d, sizeof *g->a.found);
    g->a.values = take(g->d, MOST_VALUES * sizeof *g->a.values);
    g->a.starts = take(g->d, (WH_OURO_MAX_CLASSES + 1) * sizeof *g->a.starts);
}

static void end(heap_of *g) {
    assert_int_equal(wh_heap_check(g->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(g->heap), WH_OK);
    wh_device_close(g->d);
}

/* How many blocks of a size all threads get until NULL; they are disjoint. All are freed again. */
static uint32_t fill_and_empty(heap_of *g, uint64_t size) {
    const wh_launch l = grid(g->d, 2, THREADS / 2);
    g->a.size = size;
    *g->a.found = 0;
    assert_int_equal(fill(&l, &g->a), WH_OK);
    const uint32_t n = *g->a.found;
    *g->a.found = 0;
    assert_int_equal(empty(&l, &g->a), WH_OK);
    assert_int_equal(*g->a.found, 0);
    assert_int_equal(wh_heap_check(g->heap, NULL), WH_OK);
    return n;
}

/* --- from one size to another -------------------------------------------------------------------
 */

/* What a virtualized queue may keep of a class: conformance has the same bound. */
static uint32_t kept_by(const heap_of *g) {
    const wh_ouro_ref h = g->a.heap;
    return WH_OURO_KIND(h.variant) == WH_VQUEUE_ARRAY
               ? 0
               : (3 + wh_ouro_queue_chunks_(h).ahead + wh_ouro_ready_(h)) * h.n_classes;
}

/* A heap that was full of blocks of `a` bytes gives `b` ones: with keep_chunks behind a compaction
 * alone, without it at once. */
static void check_change(uint32_t v, uint64_t seed, uint64_t keep_chunks, int large) {
    heap_of fresh, g;
    wh_compaction done;
    const int by_chunk = WH_OURO_BY_CHUNK(variants[v].variant);
    make(&fresh, v, seed, keep_chunks);
    make(&g, v, seed, keep_chunks);
    const uint64_t a = (uint64_t)16 << seed % 4;
    const uint64_t other = a == 64 ? 256 : 64, b = large ? wh_ouro_max_size_(g.a.heap) : other;
    const uint32_t all = fill_and_empty(&fresh, b), n_a = fill_and_empty(&g, a);
    assert_true(all != 0 && n_a != 0);
    /* What virtualized queues may keep of the memory, in blocks of b bytes. */
    const uint64_t chunk = (uint64_t)1 << g.a.heap.chunk_log2;
    const uint64_t each = large ? 1 : chunk / b, less = kept_by(&g) * each;
    const uint32_t least = all > less ? all - (uint32_t)less : 0;
    if (keep_chunks != 0 && !by_chunk) {
        assert_int_equal(fill_and_empty(&g, b), 0); /* the paper's: every chunk is one of a */
        assert_int_equal(wh_heap_compact(g.heap, &done), WH_OK);
        assert_int_equal(wh_heap_check(g.heap, NULL), WH_OK);
        assert_true(done.removed == done.queued && done.chunks != 0); /* all were free */
        assert_int_equal(done.bytes, done.chunks * chunk);
        assert_true(done.chunks + kept_by(&g) >= g.a.heap.n_chunks);
    }
    const uint32_t n_b = fill_and_empty(&g, b);
    assert_in_range(n_b, least, all);
    /* And back again. */
    assert_int_equal(wh_heap_compact(g.heap, &done), WH_OK);
    assert_in_range(fill_and_empty(&g, a), 1, n_a + kept_by(&g) * (chunk / a));
    end(&fresh);
    end(&g);
}

static void test_change(void **state) {
    (void)state;
    for (uint32_t v = 0; v < N_VARIANTS; v++) {
        for (uint64_t seed = 0; seed < n_seeds() && seed < 4; seed++) {
            check_change(v, seed, 1, seed % 4 == 3);
            check_change(v, seed, 0, seed % 4 == 3);
        }
    }
}

/* --- against a model ----------------------------------------------------------------------------
 */

/* The first small chunk of the chunk that holds small chunk `unit`. */
static uint32_t first_of(wh_ouro_ref h, uint64_t unit) {
    const uint32_t c = h.cls[unit];
    return c < h.n_classes ? wh_ouro_first_(h, c, (uint32_t)unit) : (uint32_t)unit;
}

/* Which chunks have a live block: by their first small chunk. */
static void mark_live(const heap_of *g, uint8_t *live) {
    const wh_ouro_ref h = g->a.heap;
    memset(live, 0, h.n_chunks);
    for (uint32_t k = 0; k < THREADS * SLOTS; k++) {
        if (g->a.p[k] != NULL) {
            const uint64_t offset = (uint64_t)((unsigned char *)g->a.p[k] - h.base);
            live[first_of(h, offset >> h.chunk_log2)] = 1;
        }
    }
}

/* Small chunks in use by classes or queues. */
static uint64_t count_used(const heap_of *g) {
    const wh_ouro_ref h = g->a.heap;
    uint64_t n = 0;
    for (uint32_t unit = 0; unit < h.n_chunks; unit++) {
        n += h.cls[unit] < h.n_classes;
    }
    for (uint32_t c = 0; c < h.n_classes; c++) {
        const wh_vqueue q = wh_ouro_queue_(h.variant, h, c);
        n += q.kind != WH_VQUEUE_ARRAY ? q.state->used : 0;
    }
    return n;
}

static void list_queues(heap_of *g, uint32_t *values, uint64_t *starts) {
    const wh_launch one = grid(g->d, 1, 1);
    assert_int_equal(list(&one, &g->a), WH_OK);
    assert_true(g->a.starts[g->a.heap.n_classes] <= MOST_VALUES);
    memcpy(values, g->a.values, MOST_VALUES * sizeof *values);
    memcpy(starts, g->a.starts, (WH_OURO_MAX_CLASSES + 1) * sizeof *starts);
}

static void check_stats(heap_of *g, const wh_stats *before) {
    wh_stats s;
    assert_int_equal(wh_heap_check(g->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_get_stats(g->heap, &s), WH_OK);
    assert_int_equal(s.live_blocks, before->live_blocks);
    assert_int_equal(s.used_bytes, before->used_bytes);
    assert_int_equal(s.failed, before->failed);
    assert_int_equal(s.bad_frees, 0);
}

/* Compacts: values of chunks without a live block go, the others stay in their order; so do the
 * chunks. */
static void compact_by_model(heap_of *g) {
    static uint32_t before[MOST_VALUES], after[MOST_VALUES];
    static uint8_t live[1024];
    uint64_t from[WH_OURO_MAX_CLASSES + 1], to[WH_OURO_MAX_CLASSES + 1], gone = 0;
    const wh_ouro_ref h = g->a.heap;
    wh_stats stats;
    wh_compaction done, again;
    assert_true(h.n_chunks <= sizeof live);
    assert_int_equal(wh_heap_get_stats(g->heap, &stats), WH_OK);
    mark_live(g, live);
    list_queues(g, before, from);
    const uint64_t used = count_used(g);
    assert_int_equal(wh_heap_compact(g->heap, &done), WH_OK);
    check_stats(g, &stats);
    list_queues(g, after, to);
    for (uint32_t c = 0; c < h.n_classes; c++) {
        uint64_t n = to[c];
        for (uint64_t k = from[c]; k < from[c + 1]; k++) {
            uint32_t page = 0;
            const uint32_t chunk = WH_OURO_BY_CHUNK(h.variant)
                                       ? before[k] - 1
                                       : wh_ouro_chunk_of_(h, c, before[k] - 1, &page);
            gone += !live[chunk];
            if (live[chunk]) {
                assert_true(n < to[c + 1]);
                assert_int_equal(after[n++], before[k]);
            }
        }
        assert_int_equal(n, to[c + 1]);
    }
    assert_int_equal(done.queued, from[h.n_classes]);
    assert_int_equal(done.removed, gone);
    assert_int_equal(done.chunks, used - count_used(g));
    assert_int_equal(done.bytes, done.chunks << h.chunk_log2);
    for (uint32_t unit = 0; unit < h.n_chunks; unit++) {
        assert_true(h.cls[unit] >= h.n_classes || live[first_of(h, unit)]);
    }
    assert_int_equal(wh_heap_compact(g->heap, &again), WH_OK); /* nothing is left to do */
    assert_true(again.queued == done.queued - done.removed && again.removed == 0);
    assert_true(again.chunks == 0 && again.bytes == 0);
    check_stats(g, &stats);
}

static void check_model(uint32_t v, uint64_t seed) {
    heap_of g;
    wh_stats stats;
    make(&g, v, seed, seed % 2);
    const wh_launch l = grid(g.d, 2, THREADS / 2);
    compact_by_model(&g); /* of a fresh heap */
    for (uint32_t round = 0; round < 4; round++) {
        const uint64_t most = wh_ouro_max_size_(g.a.heap);
        g.a.seed = (uint32_t)seed * 16 + round;
        g.a.steps = round == 0 ? 24 : 60;
        g.a.size = (seed + round) % 3 == 0 ? most : most / 8;
        if (round % 2 == 0) {
            assert_int_equal(wear(&l, &g.a), WH_OK);
        } else {
            g.a.size = (uint64_t)16 << (seed / 2 + round) % 4;
            assert_int_equal(surge(&l, &g.a), WH_OK);
        }
        compact_by_model(&g);
        *g.a.found = 0;
        assert_int_equal(look(&l, &g.a), WH_OK);
        assert_int_equal(*g.a.found, 0);
    }
    assert_int_equal(drop(&l, &g.a), WH_OK);
    compact_by_model(&g);
    assert_int_equal(wh_heap_get_stats(g.heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    /* No chunk has been lost. */
    const uint32_t chunks = g.a.heap.n_chunks;
    const uint32_t kept = kept_by(&g) < chunks ? kept_by(&g) : chunks;
    assert_in_range(fill_and_empty(&g, (uint64_t)1 << g.a.heap.chunk_log2), chunks - kept, chunks);
    end(&g);
}

static void test_model(void **state) {
    (void)state;
    for (uint32_t v = 0; v < N_VARIANTS; v++) {
        for (uint64_t seed = 0; seed < n_seeds() / 2 + 2; seed++) {
            check_model(v, seed);
        }
    }
}

/* --- refused ------------------------------------------------------------------------------------
 */

static void test_refused(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    wh_heap *heap = NULL;
    wh_heap_options o;
    wh_compaction done = {1, 1, 1, 1};
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = 4 << 20;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_compact(heap, &done), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "tessera"));
    assert_true(done.queued == 0 && done.removed == 0 && done.chunks == 0 && done.bytes == 0);
    assert_int_equal(wh_heap_compact_on(heap, NULL, NULL), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_compact(NULL, &done), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_compact_on(NULL, NULL, NULL), WH_BAD_ARGUMENT);
    wh_heap_destroy(heap);
    o.allocator = "ouro-s-p";
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_compact(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_compact_on(heap, &done, NULL), WH_OK);
    assert_int_equal(done.chunks, 0);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

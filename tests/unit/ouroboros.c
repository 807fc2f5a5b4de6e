/* ouroboros.c: alloc/ouroboros, what the suites do not ask: how much of a heap is left for
 * pages, from the smallest to 128 GiB; the walk over live pages; double frees; queue chunks
 * come back. */
#include "sim/sim_test.h"

#define WH_ALLOCATOR ouro_vl_c
#define WH_ALLOCATOR_FAMILY ouroboros
#include "warpheap/warpheap.h"

typedef wh_status (*plan_fn)(wh_ouro_t *h, wh_plan *plan, unsigned char *memory, uint64_t bytes,
                             const wh_tuning *tuning, uint32_t n_sms);

static const struct {
    const char *name;
    plan_fn plan;
} variants[] = {
#define ROW(ident, name, kind, holds) {name, wh_##ident##_plan},
    WH_OURO_VARIANT_LIST(ROW)
#undef ROW
};

/* --- layout --------------------------------------------------------------------------- */

static void check_plan(uint32_t v, uint64_t bytes, uint64_t address, uint32_t chunk) {
    wh_ouro_t h;
    wh_plan plan;
    wh_tuning tuning;
    memset(&h, 0, sizeof h);
    memset(&tuning, 0, sizeof tuning);
    tuning.chunk_bytes = chunk;
    unsigned char *memory = (unsigned char *)(uintptr_t)address;
    assert_int_equal(variants[v].plan(&h, &plan, memory, bytes, &tuning, 132), WH_OK);
    const uint64_t end = address + bytes;
    const uint64_t base = (uint64_t)(uintptr_t)h.base;
    assert_true(base >= address && base + h.data_bytes <= end);
    assert_true((uint64_t)(uintptr_t)h.header >= base + h.data_bytes);
    assert_true((uint64_t)(uintptr_t)(h.cls + h.n_chunks) <= end); /* the last array */
    assert_int_equal(plan.metadata_bytes, bytes - h.data_bytes);
    assert_true(h.n_classes <= WH_OURO_MAX_CLASSES);
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
        wh_ouro_t h;
        wh_plan plan;
        wh_tuning tuning;
        memset(&tuning, 0, sizeof tuning);
        assert_int_equal(variants[v].plan(&h, &plan, NULL, 0, &tuning, 1), WH_HEAP_TOO_SMALL);
        check_plan(v, plan.min_bytes, ((uint64_t)1 << 40) + 256, 0);
    }
}

/* --- live pages ------------------------------------------------------------------------- */

typedef struct live_args {
    wh_heap_t heap;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gallatin_layout.c: alloc/gallatin/layout.h: for many heap sizes and options the parts
 * of the heap lie inside its memory, aligned and disjoint; sizes, classes, blocks,
 * slices and addresses fit together for every class. */
#include "sim/sim_test.h"

#include "warpheap/detail/alloc/gallatin/gallatin.h"

typedef struct shape {
    uint64_t bytes;
    wh_gallatin_options own;
    uint32_t n_sms;
} shape;

typedef void (*shape_fn)(const wh_gallatin_ref *h, const wh_plan *plan, unsigned char *memory,
                         const shape *s);

/* Calls check for every plan that succeeds; counts them. Memory is never touched. */
static uint32_t for_all_shapes(shape_fn check) {
    static const uint64_t segments[] = {0, 64, 1024, 8192, 65536, 1u << 20, 16u << 20, 1u << 30};
    static const uint64_t min_slices[] = {0, 16, 32, 1024};
    static const uint64_t max_slices[] = {0, 16, 64, 4096};
    static const uint32_t slices[] = {0, 2, 4, 64, 4096};
    static const uint32_t n_sms[] = {1, 4, 132};
    static const uint64_t sizes[] = {
        5000, 40000, 65536, 300000, 1 << 20, 33333333, (uint64_t)8 << 30, (uint64_t)128 << 30};
    uint32_t made = 0, refused = 0;
    for (uint32_t i = 0; i < 8 * 4 * 4 * 5 * 8 * 3; i++) {
        shape s;
        memset(&s, 0, sizeof s);
        s.own.segment_bytes = segments[i % 8];
        s.own.min_slice_bytes = min_slices[i / 8 % 4];
        s.own.max_slice_bytes = max_slices[i / 32 % 4];
        s.own.slices_per_block = slices[i / 128 % 5];
        s.bytes = sizes[i / 640 % 8];
        s.n_sms = n_sms[i / 5120];
        s.own.block_buffers = i % 11 == 0 ? 7 : 0;
        const uint64_t segment =
            s.own.segment_bytes != 0 ? s.own.segment_bytes : WH_GALLATIN_DEFAULT_SEGMENT;
        if (s.bytes / segment > 1 << 20) {
            continue; /* takes long to plan, and nobody would */
        }
        /* Memory is aligned to 256 bytes and no better. */
        unsigned char *memory =
            (unsigned char *)(((uintptr_t)1 << 40) + 256 * (2 * (uintptr_t)i + 1));
        wh_gallatin_ref h;
        wh_plan plan;
        memset(&h, 0, sizeof h);
        memset(&plan, 0, sizeof plan);
        const wh_status status = wh_gallatin_plan(&h, &plan, memory, s.bytes, &s.own, s.n_sms);
        if (status == WH_OK) {
            check(&h, &plan, memory, &s);
            made++;
        } else {
            assert_true(status == WH_BAD_ARGUMENT || s.bytes < plan.min_bytes ||
                        status == WH_HEAP_TOO_SMALL);
            refused++;
        }
    }
    assert_true(refused > 0);
    return made;
}

/* --- regions ------------------------------------------------------------------------------ */

static const unsigned char *follows(const void *start, uint64_t bytes, const unsigned char *end) {
    assert_true((const unsigned char *)start >= end);
    assert_int_equal((uintptr_t)start % 4, 0);
    return (const unsigned char *)start + bytes;
}

static void check_regions(const wh_gallatin_ref *h, const wh_plan *plan, unsigned char *memory,
                          const shape *s) {
    const wh_gallatin_core g = h->core;
    const uint64_t segment = (uint64_t)1 << wh_gallatin_segment_log2_(g);
    const uint64_t units = (uint64_t)g.n_segments << wh_gallatin_units_log2_(g);
    const uint32_t n_trees = wh_gallatin_n_trees_(g);
    const uint64_t tree_words = wh_gallatin_tree_words_(g);
    assert_true(g.n_segments >= 1);
    assert_true(segment == s->own.segment_bytes || s->own.segment_bytes == 0);
    assert_int_equal(tree_words, wh_veb_words(g.n_segments));

    const unsigned char *end = follows(g.base, g.n_segments * segment, memory);
    assert_int_equal((uintptr_t)g.base % (segment < 1u << 20 ? segment : 1u << 20), 0);
    assert_true(((uint64_t)(g).n_segments << wh_gallatin_segment_log2_(g)) ==
                g.n_segments * segment);
    assert_int_equal((uintptr_t)g.header % 8, 0);
    end = follows(g.header, sizeof *g.header, end);
    for (uint32_t t = 0; t < n_trees; t++) {
        for (uint32_t i = 0; i<g.n_buffers; i += g.n_buffers> 1 ? g.n_buffers - 1 : 1) {
            const uint64_t *b = wh_gallatin_buffer_at_(g, t, i);
            assert_int_equal((uintptr_t)b % 8, 0);
            end = follows(b, WH_GALLATIN_BUFFER_WORDS * 8, end);
        }
    }
    assert_ptr_equal(h->segments, wh_gallatin_segment_at_(g, 0));
    assert_int_equal((uintptr_t)h->segments % 8, 0);
    end = follows(h->segments, g.n_segments * sizeof *h->segments, end);
    assert_ptr_equal(wh_gallatin_segment_at_(g, g.n_segments), end);
    for (uint32_t t = 0; t <= n_trees; t++) {
        const wh_veb tree =
            t == 0 ? wh_gallatin_segment_tree_(g) : wh_gallatin_block_tree_(g, t - 1);
        assert_int_equal((uintptr_t)tree.words % 8, 0);
        assert_int_equal(tree.n, g.n_segments);
        end = follows(tree.words, tree_words * 8, end);
    }
    assert_ptr_equal(h->blocks, wh_gallatin_block_word_(g, 0));
    end = follows(h->blocks, units * 4, end);
    for (uint64_t seg = 0; seg<g.n_segments; seg += g.n_segments> 5 ? g.n_segments - 1 : 1) {
        const uint64_t n = (uint64_t)1 << wh_gallatin_units_log2_(g);
        end = follows(wh_gallatin_entries_(g, seg), n * 4, end);
    }
    assert_true(end <= memory + s->bytes);
    assert_true(units <= UINT32_MAX); /* block ids have 32 bits */
    assert_int_equal(plan->metadata_bytes, s->bytes - g.n_segments * segment);
    assert_true(plan->min_bytes <= s->bytes + segment + (1u << 20));

    /* One segment more would not have fitted. */
    wh_gallatin_core more = g;
    wh_gallatin_set_segments_(&more, (uint64_t)g.n_segments + 1, &s->own, s->n_sms);
    assert_true((uint64_t)(g.base - memory) + (g.n_segments + 1) * segment +
                        wh_gallatin_metadata_(more) >
                    s->bytes ||
                ((uint64_t)g.n_segments + 1) << wh_gallatin_units_log2_(g) > UINT32_MAX);
}

/* The words of a segment's units are permuted, each unit has its own. */
static void check_words(const wh_gallatin_ref *h, const wh_plan *plan, unsigned char *memory,
                        const shape *s) {
    static uint8_t seen[1 << 16];
    (void)plan;
    (void)memory;
    (void)s;
    const wh_gallatin_core g = h->core;
    const uint32_t units = 1u << wh_gallatin_units_log2_(g);
    const uint32_t first = (g.n_segments - 1) << wh_gallatin_units_log2_(g);
    memset(seen, 0, units);
    for (uint32_t i = 0; i < units; i++) {
        const uint32_t *word = wh_gallatin_block_word_(g, first + i);
        const uint64_t at = (uint64_t)(word - wh_gallatin_block_words_(g)) - first;
        assert_true(at < units);
        assert_int_equal(seen[at]++, 0);
    }
}

/* --- classes --------------------------------------------------------------------------------- */

static void check_classes(const wh_gallatin_ref *h, const wh_plan *plan, unsigned char *memory,
                          const shape *s) {
    (void)plan;
    (void)memory;
    (void)s;
    const wh_gallatin_core g = h->core;
    const uint64_t segment = (uint64_t)1 << wh_gallatin_segment_log2_(g);
    const uint32_t n_trees = wh_gallatin_n_trees_(g);
    assert_true(n_trees <= WH_GALLATIN_MAX_TREES);
    for (uint32_t t = 0; t < n_trees; t++) {
        const uint64_t slice = (uint64_t)1 << wh_gallatin_slice_log2_(g, t);
        const uint64_t block = (uint64_t)1 << wh_gallatin_block_log2_(g, t);
        const uint32_t slices = wh_gallatin_slices_(g, t), blocks = wh_gallatin_blocks_(g, t);
        assert_true(slice <= segment && block <= segment);
        assert_true((uint64_t)slices * slice == block);
        assert_true((uint64_t)blocks * block == segment);
        assert_true(slices <= WH_GALLATIN_FREED); /* the count of freed slices fits */
        assert_true(slices < 1u << 24 && blocks <= 1u << 16);
        const uint64_t seg = g.n_segments - 1;
        uint32_t last = UINT32_MAX;
        for (uint32_t b = 0; b<blocks; b += blocks> 64 ? blocks / 32 - 1 : 1) {
            const uint32_t id = wh_gallatin_block_id_(g, t, seg, b);
            assert_true(b == 0 || id > last);
            last = id;
            assert_int_equal(id >> wh_gallatin_units_log2_(g), seg);
            for (uint32_t i = 0; i<slices; i += slices> 64 ? slices / 32 - 1 : 1) {
                unsigned char *p = wh_gallatin_slice_(g, t, id, i);
                const uint64_t offset = (uint64_t)(p - g.base);
                assert_true(offset == seg * segment + b * block + i * slice);
                assert_int_equal(wh_gallatin_block_of_(g, t, offset), id);
                assert_int_equal(wh_gallatin_block_of_(g, t, offset + slice - 1), id);
                assert_int_equal((uintptr_t)p % (slice < 1u << 20 ? slice : 1u << 20), 0);
            }
        }
        /* "Halve with size", and never fall under the few that the heap can spare. */
        const uint32_t n = wh_gallatin_n_buffers_(g, t), few = wh_gallatin_few_(g);
        assert_true(n >= few && n <= g.n_buffers && few >= 1);
        assert_true(n == few || n == (g.n_buffers - 1) / (1u << t) + 1);
    }
}

/* Requests of every size meet the smallest slice or block that holds them. */
static void check_sizes(const wh_gallatin_ref *h, const wh_plan *plan, unsigned char *memory,
                        const shape *s) {
    (void)plan;
    (void)memory;
    (void)s;
    const wh_gallatin_core g = h->core;
    const uint64_t segment = (uint64_t)1 << wh_gallatin_segment_log2_(g);
    const uint64_t max_slice = (uint64_t)1 << wh_gallatin_max_slice_log2_(g);
    const uint64_t block0 = (uint64_t)1 << wh_gallatin_block0_log2_(g);
    const uint32_t n_trees = wh_gallatin_n_trees_(g);
    for (uint64_t n = 1; n <= segment; n += 1 + n / 37) {
        if (n <= max_slice) {
            const uint32_t t = wh_pow2_class(n, wh_gallatin_min_slice_log2_(g));
            const uint64_t slice = (uint64_t)1 << wh_gallatin_slice_log2_(g, t);
            assert_true(t < n_trees && slice >= n && (t == 0 || slice / 2 < n));
            assert_true(wh_gallatin_slices_(g, t) >= 2);
        } else {
            const uint32_t t = wh_gallatin_block_class_(g, n);
            if (t == WH_GALLATIN_FREE) {
                assert_true(n > segment / 2 || block0 == segment);
            } else {
                const uint64_t block = (uint64_t)1 << wh_gallatin_block_log2_(g, t);
                assert_true(t < n_trees && block >= n && (t == 0 || block / 2 < n));
                assert_true(wh_gallatin_blocks_(g, t) >= 2);
            }
        }
    }
}

static void test_regions(void **state) {
    (void)state;
    assert_true(for_all_shapes(check_regions) > 1000);
}

static void test_words(void **state) {
    (void)state;
    assert_true(for_all_shapes(check_words) > 1000);
}

static void test_classes(void **state) {
    (void)state;
    assert_true(for_all_shapes(check_classes) > 1000);
}

static void test_sizes(void **state) {
    (void)state;
    assert_true(for_all_shapes(check_sizes) > 1000);
}

/* --- packed words --------------------------------------------------------------------------------
 */

static void test_control_word(void **state) {
    (void)state;
    static const uint32_t trees[] = {
        0, 1, WH_GALLATIN_MAX_TREES - 1, WH_GALLATIN_FREE, WH_GALLATIN_LARGE, WH_GALLATIN_NO_CLASS};
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        for (int32_t n = -70000; n <= 70000; n += n > -5 && n < 5 ? 1 : 4999) {
            const uint64_t c = WH_GALLATIN_CONTROL(trees[i]) + (uint64_t)(int64_t)n;
            assert_int_equal(wh_gallatin_tree_(c), trees[i]);
            assert_int_equal(wh_gallatin_available_(c), n);
        }
    }
}

static void test_shape_word(void **state) {
    (void)state;
    wh_gallatin_core g;
    memset(&g, 0, sizeof g);
#define ALL_ONES_(name, shift, bits)                                         \
    g.shape = 0;                                                             \
    wh_gallatin_set_##name##_(&g, ((uint64_t)1 << (bits)) - 1);              \
    assert_true(g.shape == (((uint64_t)1 << (bits)) - 1) << (shift));        \
    assert_int_equal(wh_gallatin_##name##_(g), ((uint64_t)1 << (bits)) - 1); \
    g.shape = UINT64_MAX;                                                    \
    wh_gallatin_set_##name##_(&g, 0);                                        \
    assert_true(g.shape == ~((((uint64_t)1 << (bits)) - 1) << (shift)));
    WH_GALLATIN_SHAPE(ALL_ONES_)
#undef ALL_ONES_
    uint32_t used = 0;
    uint64_t seen = 0;
#define NO_OVERLAP_(name, shift, bits)                                   \
    assert_int_equal(seen &(((uint64_t)1 << (bits)) - 1) << (shift), 0); \
    seen |= (((uint64_t)1 << (bits)) - 1) << (shift);                    \
    used += (bits);
    WH_GALLATIN_SHAPE(NO_OVERLAP_)
#undef NO_OVERLAP_
    assert_true(used <= 64);
}

/* Few slices a block: where segments are not given, they are small enough for their blocks to be
 * counted, in a heap of any size. */
static void test_few_slices(void **state) {
    (void)state;
    for (uint32_t slices = 2; slices <= 64; slices *= 2) {
        for (uint32_t log2 = 24; log2 <= 33; log2++) {
            const wh_gallatin_options own = {.slices_per_block = slices};
            wh_gallatin_ref h = {0};
            wh_plan plan;
            assert_int_equal(wh_gallatin_plan(&h, &plan, NULL, (uint64_t)1 << log2, &own, 4),
                             WH_OK);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions),      cmocka_unit_test(test_words),
        cmocka_unit_test(test_classes),      cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_control_word), cmocka_unit_test(test_shape_word),
        cmocka_unit_test(test_few_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

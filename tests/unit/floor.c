/* floor.c: alloc/floor: its layout, where slots and their bits are, and that malloc and free make
 * as many accesses as floor.h says, and these alone. */
#define WH_ALLOCATOR floor

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

#define MOST 4096u

/* --- layout and arithmetic ------------------------------------------------------------- */

static void check_layout(uint64_t bytes, uint32_t n_sms) {
    wh_floor_ref h;
    wh_plan plan;
    unsigned char *memory = (unsigned char *)(uintptr_t)4096; /* never touched */
    memset(&h, 0, sizeof h);
    assert_int_equal(wh_floor_plan(&h, &plan, memory, bytes, NULL, n_sms), WH_OK);
    assert_true(h.n_chunks >= 1 && h.n_sets >= 1 && h.n_sets <= n_sms);
    assert_int_equal(h.bytes, (uint64_t)h.n_chunks << 14);
    assert_int_equal(plan.metadata_bytes, bytes - h.bytes);
    /* One part after the other, and the chunks end with the heap. */
    assert_true((unsigned char *)(h.header + 1) <= (unsigned char *)h.rows);
    assert_true((unsigned char *)(h.rows + WH_FLOOR_ROWS) <= (unsigned char *)h.cursors);
    assert_true((unsigned char *)(h.cursors + (uint64_t)h.n_sets * WH_FLOOR_ROWS) <=
                (unsigned char *)h.tags);
    assert_ptr_equal(h.tags + h.n_chunks, h.words);
    assert_true((unsigned char *)(h.words + (uint64_t)h.n_chunks * 16) <= h.base);
    assert_true(h.base + h.bytes <= memory + bytes);
    assert_int_equal((uintptr_t)h.base % 256, 0);
    /* Little of the heap is neither. */
    assert_true(bytes - h.bytes <= 6000 + n_sms * 2048 + bytes / 100 + 16384);
    /* Regions: in the heap, without gaps, slabs not cut. */
    assert_true(wh_is_pow2(h.region));
    assert_true((uint64_t)(h.n_sets - 1) * h.stride + h.region <= h.n_chunks);
    assert_true(h.stride <= h.region && (h.n_sets == 1 || h.stride != 0));
    assert_int_equal(h.stride & ((1u << h.max_order) - 1), 0);
    assert_true(h.region >> h.max_order != 0 && h.region > h.n_chunks / (2 * h.n_sets));
    /* Every SM has a set. */
    assert_int_equal((n_sms - 1) * h.set_scale >> 16 < h.n_sets, 1);
}

static void test_layout(void **state) {
    static const uint32_t n_sms[] = {1, 4, 7, 132, 160};
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        for (uint64_t bytes = 128 << 10; bytes <= (uint64_t)140 << 30; bytes += bytes / 3 + 12345) {
            check_layout(bytes, n_sms[i]);
        }
        check_layout((uint64_t)8 << 30, n_sms[i]);
        check_layout((uint64_t)128 << 30, n_sms[i]);
    }
    /* An H200's: a set's own part is nearly all of its region, so that sets seldom meet. */
    wh_floor_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    assert_int_equal(wh_floor_plan(&h, &plan, NULL, (uint64_t)8 << 30, NULL, 132), WH_OK);
    assert_int_equal(h.n_sets, 132);
    assert_int_equal(h.region, 4096);
    assert_true(h.stride >= 3880);
}

/* Every slot of every class has a bit of its own, in the words of its slab, and holds its class. */
static void test_slots(void **state) {
    (void)state;
    for (uint32_t max_order = 0; max_order <= 6; max_order++) {
        uint32_t c = 0;
        for (; c <= wh_tessera_class_of(WH_FLOOR_CHUNK); c++) {
            const wh_floor_row row = wh_floor_make_row_(c, max_order);
            const uint32_t slab = 3u << row.order; /* any multiple */
            assert_true(row.size >= wh_tessera_bound(c) && row.size % 16 == 0);
            assert_true(row.slots * row.size <= WH_FLOOR_CHUNK << row.order);
            for (uint32_t k = 0; k < row.slots; k++) {
                uint32_t slot = 0;
                const uint64_t offset = ((uint64_t)slab << 14) + k * row.size;
                assert_int_equal(wh_floor_word_(row.tag, offset, &slot), slab * 16 + k / 64);
                assert_int_equal(slot, k);
                assert_true(k / 64 < 16u << row.order);
            }
            /* Whatever lies there, the word is one of the heap's (I1). */
            for (uint32_t x = 0; x < WH_FLOOR_CHUNK << row.order; x += 16) {
                uint32_t slot = 0;
                assert_true(wh_floor_word_(row.tag, x, &slot) < 16u << row.order);
            }
            static const uint32_t some[] = {0, 1, 12345678, 1u << 31, UINT32_MAX};
            for (uint32_t i = 0; i < 5; i++) {
                for (uint32_t x = some[i] - 2000; x != some[i] + 2000; x++) {
                    assert_int_equal(wh_floor_divide_(x, row.slots, row.by_slots), x / row.slots);
                }
            }
        }
        const wh_floor_row large = wh_floor_make_row_(WH_FLOOR_LARGE, max_order);
        uint32_t slot = 1;
        assert_int_equal(wh_floor_word_(large.tag, (uint64_t)5 << 14, &slot), 80);
        assert_int_equal(slot, 0);
    }
}

/* --- kernels --------------------------------------------------------------------------- */

typedef struct floor_args {
    wh_heap_ref heap;
    void **ptrs;
    uint64_t sizes[4]; /* lane l wants size l % 4 */
    wh_mask lanes;
    uint32_t rounds, plain;
} floor_args;

/* Round r of thread i: entry r * threads + i. */
WH_KERNEL(take_all, floor_args, a) {
    if ((a.lanes >> wh_lane_id() & 1) != 0) {
        for (uint32_t r = 0; r < a.rounds; r++) {
            a.ptrs[r * wh_grid_threads() + wh_thread_id()] =
                wh_malloc_lanes(a.heap, a.lanes, a.sizes[wh_lane_id() % 4]);
        }
    }
}

WH_KERNEL(free_all, floor_args, a) {
    if ((a.lanes >> wh_lane_id() & 1) != 0) {
        for (uint32_t r = 0; r < a.rounds; r++) {
            void *p = a.ptrs[r * wh_grid_threads() + wh_thread_id()];
            if (a.plain != 0) {
                wh_floor_plain_free(a.heap, a.lanes, p);
            } else {
                wh_floor_free(a.heap, a.lanes, p);
            }
        }
    }
}

typedef struct bed {
    wh_device *device;
    wh_heap *heap;
    floor_args a;
} bed;

static void set_up(bed *x, uint64_t bytes, uint32_t n_sms, uint64_t seed) {
    wh_sim_options so;
    wh_heap_options o;
    memset(x, 0, sizeof *x);
    memset(&so, 0, sizeof so);
    memset(&o, 0, sizeof o);
    so.n_sms = n_sms;
    so.seed = seed;
    so.policy = (wh_sim_policy)(seed % WH_SIM_POLICY_COUNT);
    x->device = open_with(&so);
    o.device = x->device;
    o.allocator = "floor";
    o.bytes = bytes;
    assert_int_equal(wh_heap_create(&x->heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(x->heap, &x->a.heap), WH_OK);
    memset(x->a.heap.words, 0, (uint64_t)x->a.heap.n_chunks * 128); /* init leaves them alone */
    x->a.ptrs = take(x->device, MOST * sizeof *x->a.ptrs);
    x->a.rounds = 1;
    x->a.lanes = ~0u;
}

static void tear_down(bed *x) {
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_device_free(x->device, x->a.ptrs), WH_OK);
    wh_heap_destroy(x->heap);
    wh_device_close(x->device);
}

static uint64_t atomics(const bed *x) {
    wh_device_counters c;
    assert_int_equal(wh_device_get_counters(x->device, &c), WH_OK);
    return c.atomics;
}

static int by_address(const void *x, const void *y) {
    const uintptr_t a = *(const uintptr_t *)x, b = *(const uintptr_t *)y;
    return a < b ? -1 : a > b;
}

static wh_floor_row row_of(const bed *x, uint64_t size) {
    return x->a.heap
        .rows[size > WH_FLOOR_CHUNK ? WH_FLOOR_LARGE : wh_tessera_class_of((uint32_t)size)];
}

/* How many words the blocks of each 32 pointers have their bits in, added up. */
static uint64_t words_of_warps(const bed *x, uint32_t n) {
    const wh_floor_ref h = x->a.heap;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i += 32) {
        uint32_t words[32], n_words = 0;
        for (uint32_t l = 0; l < 32; l++) {
            const uint64_t offset = (uint64_t)((unsigned char *)x->a.ptrs[i + l] - h.base);
            uint32_t slot = 0, k = 0;
            if (x->a.ptrs[i + l] != NULL) {
                words[n_words] = wh_floor_word_(h.tags[offset >> 14], offset, &slot);
                while (words[k] != words[n_words]) {
                    k++;
                }
                n_words += k == n_words;
            }
        }
        sum += n_words;
    }
    return sum;
}

/* How many lanes lead a group: all, or, of a whole warp, those that none before has the size of. */
static uint32_t groups_of(const bed *x) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < 32; l++) {
        int leads = x->a.lanes >> l & 1;
        for (uint32_t k = 0; k < l && x->a.lanes == WH_FULL_WARP; k++) {
            leads &= (x->a.lanes >> k & 1) == 0 || x->a.sizes[k % 4] != x->a.sizes[l % 4];
        }
        n += (uint32_t)leads;
    }
    return n;
}

/* What blocks take: units of 16 bytes, and bits of slots as the heap's words have them. */
typedef struct taken {
    unsigned char *units;
    uint64_t *words;
    uint64_t blocks, chunks; /* how many; chunks that were begun */
} taken;

static void take_block(const bed *x, taken *t, const unsigned char *p, uint64_t size) {
    const wh_floor_ref h = x->a.heap;
    const uint64_t offset = (uint64_t)(p - h.base);
    const wh_floor_row row = row_of(x, size);
    const uint32_t slab_bytes = WH_FLOOR_CHUNK << row.order;
    const uint32_t slot = size > WH_FLOOR_CHUNK ? 0 : (uint32_t)(offset % slab_bytes) / row.size;
    const uint64_t slab = offset / slab_bytes;
    assert_true(offset < h.bytes && offset + size <= h.bytes);
    assert_int_equal(offset % slab_bytes, slot * row.size);
    assert_int_equal(h.tags[offset >> 14], row.tag);
    /* A chunk is begun by the first slot in it; all of a class are handed out in order. */
    t->chunks += offset % WH_FLOOR_CHUNK < row.size;
    const uint32_t word = (uint32_t)(slab << row.order) * 16 + slot / 64;
    assert_int_equal(t->words[word] >> (slot & 63) & 1, 0);
    t->words[word] |= (uint64_t)1 << (slot & 63);
    for (uint64_t u = offset / 16; u < (offset + size + 15) / 16; u++) {
        assert_int_equal(t->units[u]++, 0);
    }
    t->blocks++;
}

static void swap_blocks(bed *x, uint32_t i, uint32_t k) {
    void *p = x->a.ptrs[i];
    x->a.ptrs[i] = x->a.ptrs[k];
    x->a.ptrs[k] = p;
}

/* In any order: the lanes of a group are no neighbours then. */
static void mix_blocks(bed *x, uint32_t n, uint64_t seed) {
    for (uint32_t i = n; seed % 2 != 0 && i-- > 1;) {
        swap_blocks(x, i, (uint32_t)(next_random(&seed) % i) / 32 * 32 + i % 32);
    }
    for (uint32_t i = 0; i < n; i += 32) {
        for (uint32_t l = 31; x->a.lanes == WH_FULL_WARP && l > 0; l--) {
            swap_blocks(x, i + l, i + (uint32_t)(next_random(&seed) % (l + 1)));
        }
    }
}

/* While no class has come round, blocks lie in the heap, apart, at slots of their class; a group
 * of a whole warp makes one atomic, other lanes one each, and each chunk that is begun gets its tag
 * once. A free sets the bit of its slot and no other, with a load for each block and one atomic a
 * word. In the bed are the lanes and sizes. */
static void run_blocks(bed *x, uint64_t seed, uint32_t blocks) {
    const wh_floor_ref h = x->a.heap;
    const wh_launch launch = grid(x->device, blocks, 64);
    taken t = {test_calloc(h.bytes / 16, 1), test_calloc(h.n_chunks * 16u, 8), 0, 0};
    assert_int_equal(h.n_sets, 4);
    x->a.rounds = 2;
    const uint32_t n = blocks * 64 * x->a.rounds;
    assert_true(n <= MOST);
    const uint64_t before = atomics(x);
    assert_int_equal(take_all(&launch, &x->a), WH_OK);
    const uint64_t took = atomics(x) - before;
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *p = x->a.ptrs[i];
        assert_true((p != NULL) == (x->a.lanes >> i % 32 & 1));
        if (p != NULL) {
            take_block(x, &t, p, x->a.sizes[i % 4]);
        }
    }
    assert_int_equal(took, (uint64_t)n / 32 * groups_of(x) + t.chunks);

    mix_blocks(x, n, seed);
    const uint64_t group_words = x->a.lanes == WH_FULL_WARP ? words_of_warps(x, n) : t.blocks;
    const uint64_t then = atomics(x);
    assert_int_equal(free_all(&launch, &x->a), WH_OK);
    assert_int_equal(atomics(x) - then, t.blocks + group_words);
    assert_memory_equal(h.words, t.words, h.n_chunks * 128u);
    test_free(t.words);
    test_free(t.units);
}

static void test_blocks(void **state) {
    static const uint64_t sizes[][4] = {
        {16, 16, 16, 16}, {1, 100, 700, 3000}, {8192, 80, 8192, 80}, {16384, 20000, 300, 64}};
    static const wh_mask lanes[] = {~0u, 1, 0x80000000u, 0x0f0ff0f1u};
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t i = 0; i < 16; i++) {
            static const uint32_t n_sizes[] = {1, 4, 2, 4};
            /* 48 of 8 KiB a warp are 3 MiB for all; the region of a set is 16 */
            bed x;
            set_up(&x, 64 << 20, 4, seed);
            for (uint32_t k = 0; k < 4; k++) {
                x.a.sizes[k] = sizes[i % 4][k % n_sizes[i % 4]];
            }
            x.a.lanes = lanes[i / 4];
            x.a.plain = (uint32_t)(seed + i) & 1;
            run_blocks(&x, seed, 1 + (uint32_t)seed % 4);
            tear_down(&x);
        }
    }
}

/* A class has all of its region before it comes round, and then each slot again; a number that
 * comes to its end does no harm. */
static void test_round(void **state) {
    bed x;
    (void)state;
    set_up(&x, 8 << 20, 1, 1);
    const wh_floor_ref h = x.a.heap;
    assert_int_equal(h.region, 256);
    const uint32_t slots = h.region * 2; /* of 8 KiB */
    const wh_launch launch = grid(x.device, 4, 64);
    x.a.rounds = 2 * slots / 256;
    for (uint32_t i = 0; i < 4; i++) {
        x.a.sizes[i] = 8192;
    }
    assert_int_equal(take_all(&launch, &x.a), WH_OK);
    qsort(x.a.ptrs, 2 * slots, sizeof *x.a.ptrs, by_address);
    for (uint32_t i = 0; i < slots; i++) {
        assert_ptr_equal(x.a.ptrs[2 * i], x.a.ptrs[2 * i + 1]);
        assert_ptr_equal(x.a.ptrs[2 * i], h.base + (uint64_t)i * 8192);
    }
    h.cursors[wh_tessera_class_of(8192)].next = ((uint64_t)7 << 32) - 100;
    assert_int_equal(take_all(&launch, &x.a), WH_OK);
    for (uint32_t i = 0; i < 2 * slots; i++) {
        const uint64_t offset = (uint64_t)((unsigned char *)x.a.ptrs[i] - h.base);
        assert_true(offset < (uint64_t)slots * 8192 && offset % 8192 == 0);
    }
    tear_down(&x);
}

/* Large blocks of all sizes lie in the heap, one after the other while there is room. */
static void test_large(void **state) {
    bed x;
    (void)state;
    set_up(&x, 64 << 20, 1, 2);
    const wh_floor_ref h = x.a.heap;
    const wh_launch launch = grid(x.device, 1, 32);
    const uint64_t sizes[] = {16385, 100000, 1 << 20, h.bytes / 3 * 2, h.bytes};
    for (uint32_t k = 0; k < 5; k++) {
        const uint64_t size = sizes[k];
        const uint64_t chunks = (size + 16383) >> 14;
        for (uint32_t i = 0; i < 4; i++) {
            x.a.sizes[i] = size;
        }
        h.cursors[WH_FLOOR_LARGE].next = 0;
        assert_int_equal(take_all(&launch, &x.a), WH_OK);
        for (uint32_t l = 0; l < 32; l++) {
            const uint64_t offset = (uint64_t)((unsigned char *)x.a.ptrs[l] - h.base);
            assert_true(offset + size <= h.bytes && offset % WH_FLOOR_CHUNK == 0);
            assert_int_equal(h.tags[offset >> 14], h.rows[WH_FLOOR_LARGE].tag);
            if (k < 3 && (l + 1) * chunks < h.n_chunks - chunks) {
                assert_int_equal(offset >> 14, l * chunks);
            }
        }
    }
    for (uint32_t i = 0; i < 4; i++) { /* 2, 3, 5, 7 chunks: a group each */
        static const uint64_t several[] = {16385, 40000, 70000, 100000};
        x.a.sizes[i] = several[i];
    }
    const uint64_t before = atomics(&x);
    h.cursors[WH_FLOOR_LARGE].next = 0;
    assert_int_equal(take_all(&launch, &x.a), WH_OK);
    assert_int_equal(atomics(&x) - before, 4 + 32);
    uint64_t begins = 0; /* blocks at the first chunk */
    for (uint32_t l = 0; l < 32; l++) {
        const uint64_t first = (uint64_t)((unsigned char *)x.a.ptrs[l] - h.base) >> 14;
        assert_true(first + 1 < 8 * (2 + 3 + 5 + 7));
        for (uint32_t m = 0; m < l; m++) {
            const uint64_t other = (uint64_t)((unsigned char *)x.a.ptrs[m] - h.base) >> 14;
            assert_true(first >= other + (x.a.sizes[m % 4] + 16383) / 16384 ||
                        other >= first + (x.a.sizes[l % 4] + 16383) / 16384);
        }
        begins += first == 0;
    }
    assert_int_equal(begins, 1);
    x.a.sizes[0] = h.bytes + 1;
    x.a.sizes[1] = 0;
    x.a.sizes[2] = UINT64_MAX;
    x.a.sizes[3] = 64;
    assert_int_equal(take_all(&launch, &x.a), WH_OK);
    for (uint32_t l = 0; l < 32; l++) {
        assert_true((x.a.ptrs[l] != NULL) == (l % 4 == 3));
    }
    tear_down(&x);
}

/* A free that has nothing to free touches no word. */
static void test_nothing(void **state) {
    bed x;
    (void)state;
    set_up(&x, 1 << 20, 1, 3);
    const wh_launch launch = grid(x.device, 1, 32);
    for (x.a.plain = 0; x.a.plain < 2; x.a.plain++) {
        memset(x.a.ptrs, 0, 32 * sizeof *x.a.ptrs);
        x.a.ptrs[5] = x.a.heap.base + x.a.heap.bytes;
        x.a.ptrs[6] = x.a.heap.base - 16;
        const uint64_t before = atomics(&x);
        assert_int_equal(free_all(&launch, &x.a), WH_OK);
        assert_int_equal(atomics(&x), before);
    }
    for (uint32_t i = 0; i < x.a.heap.n_chunks * 16; i++) {
        assert_int_equal(x.a.heap.words[i], 0);
    }
    tear_down(&x);
}

/* The check sees what it is for. */
static void test_check(void **state) {
    bed x;
    wh_report r;
    (void)state;
    set_up(&x, 1 << 20, 1, 4);
    const uint64_t tag = x.a.heap.tags[3];
    x.a.heap.tags[3] = tag + 1;
    assert_int_equal(wh_heap_check(x.heap, &r), WH_CORRUPT);
    assert_int_equal(r.first_tag, 1);
    assert_int_equal(r.first_where, 3);
    x.a.heap.tags[3] = tag;
    x.a.heap.header->lost = 1;
    assert_int_equal(wh_heap_check(x.heap, &r), WH_CORRUPT);
    assert_int_equal(r.first_tag, 2);
    assert_int_equal(wh_heap_reset(x.heap), WH_OK);
    tear_down(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout), cmocka_unit_test(test_slots), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_round),  cmocka_unit_test(test_large), cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

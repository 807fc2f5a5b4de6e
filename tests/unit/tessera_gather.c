/* tessera_gather.c: full warps in a heap of which only single chunks are free: what they take of
 * these, how it is cut, what is left over, and that several of them lose nothing. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define CHUNK 1024u
#define GRANULE (CHUNK / 32)
#define WARPS 4u
#define LANES (WARPS * 32)

typedef struct gather_args {
    wh_heap_ref heap;
    const uint32_t *sizes; /* of each lane */
    unsigned char **ptrs;
    uint64_t *usable;
} gather_args;

WH_KERNEL(ask, gather_args, a) {
    const uint64_t i = wh_thread_id();
    a.ptrs[i] = (unsigned char *)wh_malloc_lanes(a.heap, ~0u, a.sizes[i]);
    a.usable[i] = wh_usable_size(a.heap, a.ptrs[i]);
}

WH_KERNEL(free_all, gather_args, a) {
    wh_free_lanes(a.heap, ~0u, a.ptrs[wh_thread_id()]);
}

/* A heap in whose pool there are these chunks of each word, as if they had been slabs of one word,
 * and nothing else, and whose cursors are closed: what there was besides is in taken and cursors.
 */
typedef struct scattered {
    wh_device *device;
    wh_heap *heap;
    gather_args a;
    uint32_t *sizes;
    uint64_t *taken;
    wh_tessera_cursor *cursors; /* of each shard, 64 */
    uint32_t n_words, first;    /* words of the pool; from here on they have some */
} scattered;

static scattered scatter(uint64_t seed, uint32_t shards, uint64_t bytes, uint64_t chunks,
                         uint32_t words) {
    scattered s;
    memset(&s, 0, sizeof s);
    s.device = open_policy(seed % 2 == 0 ? WH_SIM_RANDOM : WH_SIM_STICKY, seed);
    s.heap = make_heap_of(s.device, CHUNK, bytes, shards, &s.a.heap);
    const wh_tessera_core g = s.a.heap.core;
    const wh_veb pool = wh_tessera_pool_(g);
    s.n_words = (g.n_chunks + 63) >> 6;
    s.sizes = take(s.device, LANES * sizeof *s.sizes);
    s.a.sizes = s.sizes;
    s.a.ptrs = take(s.device, LANES * sizeof *s.a.ptrs);
    s.a.usable = take(s.device, LANES * sizeof *s.a.usable);
    s.taken = take(s.device, s.n_words * sizeof *s.taken);
    s.first = s.n_words - 1 - words; /* the last one may be short */
    for (uint32_t w = 0; w < s.n_words; w++) {
        uint64_t *at = wh_veb_word(pool, w);
        const uint64_t left = w >= s.first && w + 1 < s.n_words ? *at & chunks : 0;
        s.taken[w] = *at & ~left;
        *at = left;
        for (uint32_t i = 0; i < 64; i++) {
            if ((left >> i & 1) != 0) { /* I2 */
                *wh_tessera_words_of_(g, w << 6 | i) = ~(uint64_t)0;
            }
        }
    }
    s.cursors = take(s.device, 64 * shards * sizeof *s.cursors);
    for (uint32_t i = 0; i < 64 * shards; i++) {
        wh_tessera_cursor *cursor = &wh_tessera_shard_at_(g, i / 64)->cursors[i % 64];
        s.cursors[i] = *cursor;
        cursor->span = cursor->spare = WH_TESSERA_CLOSED;
    }
    for (uint32_t w = s.n_words; w < wh_veb_words(g.n_chunks); w++) {
        *wh_veb_word(pool, w) = 0; /* the summaries */
    }
    for (uint32_t w = 0; w < s.n_words; w++) {
        if (*wh_veb_word(pool, w) != 0) {
            wh_veb_filled(pool, w);
        }
    }
    return s;
}

/* How many chunks of the pool are free. */
static uint32_t in_pool(const scattered *s) {
    const wh_veb pool = wh_tessera_pool_(s->a.heap.core);
    uint32_t n = 0;
    for (uint32_t w = 0; w < s->n_words; w++) {
        n += (uint32_t)__builtin_popcountll(*wh_veb_word(pool, w));
    }
    return n;
}

static void is_sound(const scattered *s, uint64_t live) {
    wh_report report;
    wh_stats stats;
    const wh_tessera_core g = s->a.heap.core;
    const wh_veb pool = wh_tessera_pool_(g);
    for (uint32_t w = 0; w < s->n_words; w++) {
        *wh_veb_word(pool, w) |= s->taken[w];
        if (s->taken[w] != 0) {
            wh_veb_filled(pool, w);
        }
    }
    for (uint32_t i = 0; i < 64 * g.n_shards; i++) { /* nobody has opened one */
        wh_tessera_cursor *cursor = &wh_tessera_shard_at_(g, i / 64)->cursors[i % 64];
        assert_int_equal(wh_tessera_span_first(cursor->span), WH_TESSERA_CLOSED_CHUNK);
        assert_int_equal(wh_tessera_span_first(cursor->spare), WH_TESSERA_CLOSED_CHUNK);
        cursor->span = s->cursors[i].span;
        cursor->spare = s->cursors[i].spare;
    }
    assert_int_equal(wh_heap_check(s->heap, &report), WH_OK);
    assert_int_equal(wh_heap_get_stats(s->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, live);
    for (uint32_t w = 0; w < s->n_words; w++) {
        *wh_veb_word(pool, w) &= ~s->taken[w];
    }
    for (uint32_t i = 0; i < 64 * g.n_shards; i++) {
        wh_tessera_cursor *cursor = &wh_tessera_shard_at_(g, i / 64)->cursors[i % 64];
        cursor->span = cursor->spare = WH_TESSERA_CLOSED;
    }
    for (uint32_t shard = 0; shard < g.n_shards; shard++) { /* I7 */
        assert_int_equal(wh_tessera_shard_at_(g, shard)->takes_begun,
                         wh_tessera_shard_at_(g, shard)->takes_done);
    }
}

static void give_all_back(scattered *s, uint32_t warps, uint32_t chunks) {
    const wh_launch all = grid(s->device, warps, 32);
    assert_int_equal(warps != 0 ? free_all(&all, &s->a) : WH_OK, WH_OK);
    assert_int_equal(in_pool(s), chunks);
    is_sound(s, 0);
    wh_heap_destroy(s->heap);
    wh_device_close(s->device);
}

/* Block i has what it wants, and none but it: each byte of a chunk is in one block. */
static void are_apart(const scattered *s, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        assert_non_null(s->a.ptrs[i]);
        assert_true(s->a.usable[i] >= s->sizes[i]);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(s->a.ptrs[k] + s->a.usable[k] <= s->a.ptrs[i] ||
                        s->a.ptrs[i] + s->a.usable[i] <= s->a.ptrs[k]);
        }
    }
}

/* Lanes that want the same, of a class whose slabs have several chunks: slabs of one chunk each. */
static void test_slots_in_single_chunks(void **state) {
    uint32_t with_rest = 0, whole = 0, exact = 0;
    (void)state;
    for (uint32_t k = 0; k < 40; k++) {
        const uint32_t size = wh_tessera_bound(k);
        for (uint64_t seed = 1; size <= CHUNK && seed <= 2; seed++) {
            scattered s = scatter(seed + 2 * k, 1 + k % 2, 2200000, 0x5555555555555555, 8);
            const wh_tessera_core g = s.a.heap.core;
            const uint32_t c = wh_tessera_class_of(size), free = in_pool(&s);
            const wh_tessera_class cls = s.a.heap.classes[c];
            const int is_whole = (s.a.heap.warp_slabs >> c & 1) != 0;
            const int is_exact =
                (s.a.heap.exact >> c & 1) != 0 && size > s.a.heap.pack_above &&
                wh_tessera_granules(size, g.chunk_log2) > 4; /* or a quarter fits */
            const uint32_t slots = CHUNK / cls.slot_size, chunks = (32 + slots - 1) / slots;
            if ((!is_whole && !is_exact) || wh_tessera_order(cls) == 0) {
                give_all_back(&s, 0, free);
                continue;
            }
            for (uint32_t i = 0; i < 32; i++) {
                s.sizes[i] = size;
            }
            const wh_launch one = grid(s.device, 1, 32);
            assert_int_equal(ask(&one, &s.a), WH_OK);
            are_apart(&s, 32);
            assert_int_equal(in_pool(&s), free - chunks);
            uint32_t left = 0;
            for (uint32_t i = 0; i < 32; i++) {
                const uint32_t chunk = (uint32_t)((s.a.ptrs[i] - g.base) / CHUNK);
                const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
                const uint64_t word = *wh_tessera_words_of_(g, chunk);
                assert_true(chunk >> 6 >= s.first && chunk % 2 == 0);
                assert_int_equal(wh_tessera_kind(tag), WH_TESSERA_SLAB);
                assert_int_equal(wh_tessera_tag_class(tag), c);
                assert_int_equal(wh_tessera_tag_order(tag), 0);
                assert_int_equal(wh_tessera_tag_slots(tag, g.chunk_log2), slots);
                if (word != 0) { /* I6 */
                    left = (uint32_t)__builtin_popcountll(word);
                    assert_true(wh_veb_contains(wh_tessera_partial_list_(g, c),
                                                wh_tessera_item(g.n_chunks, chunk)));
                    assert_true((word & ~wh_tessera_slot_bits(slots, 0)) == 0); /* T1 */
                }
            }
            assert_int_equal(left, chunks * slots - 32);
            with_rest += left != 0;
            whole += is_whole != 0;
            exact += is_exact != 0;
            is_sound(&s, 32);
            give_all_back(&s, 1, free);
        }
    }
    assert_true(with_rest != 0 && whole != 0 && exact != 0); /* otherwise this tests nothing */
}

/* Lanes that want different sizes: packs of one chunk, of as many lanes as fit in, in a row. */
static void test_packs_of_single_chunks(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint64_t random = seed;
        scattered s = scatter(seed, 1 + seed % 2, 2200000, 0x9249249249249249, 10);
        const wh_tessera_core g = s.a.heap.core;
        const uint32_t free = in_pool(&s);
        for (uint32_t i = 0; i < 32; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            s.sizes[i] = (3 + (uint32_t)(random >> 40) % 14) * GRANULE - (uint32_t)(random >> 60);
        }
        const wh_launch one = grid(s.device, 1, 32);
        assert_int_equal(ask(&one, &s.a), WH_OK);
        are_apart(&s, 32);
        uint32_t chunks = 0, end = 0; /* of the chunk, granules */
        for (uint32_t i = 0; i < 32; i++) {
            const uint32_t offset = (uint32_t)(s.a.ptrs[i] - g.base), chunk = offset / CHUNK;
            const uint64_t tag = *wh_tessera_tag_at_(g, chunk);
            const uint32_t need = wh_tessera_granules(s.sizes[i], g.chunk_log2);
            assert_true(wh_tessera_is_pack(tag));
            assert_int_equal(wh_tessera_pack_chunks(tag), 1);
            assert_true(*wh_tessera_words_of_(g, chunk) == 0);
            if (i == 0 || end + need > 32) { /* the block before has all that is left */
                chunks++;
                end = 0;
            } else {
                assert_ptr_equal(s.a.ptrs[i], s.a.ptrs[i - 1] + s.a.usable[i - 1]);
            }
            assert_int_equal(offset % CHUNK, end * GRANULE);
            end += need;
        }
        assert_int_equal(in_pool(&s), free - chunks);
        assert_true(chunks > 4);
        is_sound(&s, 32);
        give_all_back(&s, 1, free);
    }
}

typedef struct look_args {
    wh_heap_ref heap;
    void **ptrs; /* of each lane, as slots and as blocks of packs */
    uint32_t size;
} look_args;

WH_KERNEL(look, look_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t c = wh_tessera_class_of(a.size);
    a.ptrs[wh_lane_id()] = wh_tessera_gather_slots_(g, 0, c, NULL);
    a.ptrs[32 + wh_lane_id()] =
        wh_tessera_gather_packs_(g, 0, wh_tessera_granules(a.size, g->chunk_log2));
}

/* The last chunks are for who needs a single one; and a look in vain is no take, which would keep a
 * search for all from its end (X1). */
static void test_few_chunks_stay(void **state) {
    (void)state;
    look_args a;
    memset(&a, 0, sizeof a);
    scattered s = scatter(1, 1, 2200000, 0x1111, 2);
    const wh_tessera_shard *own_shard = wh_tessera_shard_at_(s.a.heap.core, 0);
    const uint32_t free = in_pool(&s), begun = own_shard->takes_begun;
    assert_int_equal(free, 8);
    a.heap = s.a.heap;
    a.size = CHUNK / 4; /* eight chunks are wanted */
    a.ptrs = take(s.device, 64 * sizeof *a.ptrs);
    const wh_launch one = grid(s.device, 1, 32);
    assert_int_equal(look(&one, &a), WH_OK);
    for (uint32_t i = 0; i < 64; i++) {
        assert_null(a.ptrs[i]);
    }
    assert_int_equal(own_shard->takes_begun, begun);
    give_all_back(&s, 0, free);
}

/* Summaries that say that each word of the pool has chunks, while none has: a look for slots and
 * one for packs see it at once, and one lane of each tells, since these are few words for all. */
static void test_left_over_summaries(void **state) {
    (void)state;
    look_args a;
    memset(&a, 0, sizeof a);
    scattered s = scatter(1, 1, 2200000, 0, 1);
    const wh_tessera_core g = s.a.heap.core;
    uint64_t *above = wh_veb_word(wh_tessera_pool_(g), s.n_words);
    assert_true(s.n_words > 16 && s.n_words <= 64);
    *above = ((uint64_t)1 << (s.n_words - 1)) - 1;
    a.heap = s.a.heap;
    a.size = CHUNK / 4;
    a.ptrs = take(s.device, 64 * sizeof *a.ptrs);
    const wh_launch one = grid(s.device, 1, 32);
    assert_int_equal(look(&one, &a), WH_OK);
    for (uint32_t i = 0; i < 64; i++) {
        assert_null(a.ptrs[i]);
    }
    assert_int_equal(__builtin_popcountll(*above), s.n_words - 1 - 2);
    *above = 0;
    give_all_back(&s, 0, 0);
}

/* Warps that see the same chunks, of one class and of different sizes: each chunk is one's. */
static void test_several_warps(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        scattered s = scatter(seed, 2, 2200000, 0x5555555555555555, 5);
        const uint32_t free = in_pool(&s);
        for (uint32_t i = 0; i < LANES; i++) {
            s.sizes[i] = i / 32 % 2 == 0 ? 8 * GRANULE : (3 + i * 7 % 11) * GRANULE;
        }
        const wh_launch all = grid(s.device, WARPS, 32);
        assert_int_equal(ask(&all, &s.a), WH_OK);
        are_apart(&s, LANES);
        is_sound(&s, LANES);
        assert_true(in_pool(&s) < free);
        give_all_back(&s, WARPS, free);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_in_single_chunks),
        cmocka_unit_test(test_packs_of_single_chunks), cmocka_unit_test(test_few_chunks_stay),
        cmocka_unit_test(test_left_over_summaries), cmocka_unit_test(test_several_warps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

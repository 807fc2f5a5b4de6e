/* tessera's size classes, divisions and placement, exhaustively. */
#include "warpheap/detail/alloc/tessera/layout.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "warpheap/detail/alloc/tessera/tessera.h"

/* Every request gets the smallest class that holds it. */
static void every_size_has_the_smallest_class(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= 16384; n++) {
        const uint32_t c = wh_tessera_class_of(n);
        assert_true(wh_tessera_bound(c) >= n);
        assert_true(c == 0 || wh_tessera_bound(c - 1) < n);
    }
    assert_true(wh_tessera_class_of(16384) < WH_TESSERA_NO_CLASS);
}

/* Slots hold their class, fill their slab but for a few percent, and are found again from any byte
 * of theirs, under every chunk size and every limit on slabs. */
static void slots_tile_their_slab(void **state) {
    (void)state;
    for (uint32_t chunk_log2 = 10; chunk_log2 <= 14; chunk_log2++) {
        const uint32_t n_classes = wh_tessera_class_of(1u << chunk_log2) + 1;
        for (uint32_t max_order = 0; max_order <= 6; max_order++) {
            for (uint32_t c = 0; c < n_classes; c++) {
                const wh_tessera_class cls = wh_tessera_make_class(c, chunk_log2, max_order, 64);
                const uint64_t tag = wh_tessera_slab_tag(c, wh_tessera_order(cls), cls.slot_size);
                const uint32_t slab = 1u << wh_tessera_slab_log2(cls);
                assert_true(cls.slot_size >= wh_tessera_bound(c) && cls.slot_size % 16 == 0);
                assert_true(cls.slots * cls.slot_size <= slab);
                assert_true((cls.slots + 1) * cls.slot_size > slab);
                assert_int_equal(wh_tessera_tag_class(tag), c);
                assert_int_equal(wh_tessera_tag_size(tag), cls.slot_size);
                assert_int_equal(wh_tessera_tag_slots(tag, chunk_log2), cls.slots);
                assert_true(cls.slots <= 64 || wh_tessera_order(cls) == 0);
                for (uint32_t x = 0; x < slab; x += 16) { /* of blocks, and of no block */
                    const uint32_t slot = wh_tessera_tag_slot(tag, x);
                    const int is_slot = x % cls.slot_size == 0 && x / cls.slot_size < cls.slots;
                    assert_true(is_slot ? slot == x / cls.slot_size : slot >= cls.slots);
                    for (uint32_t in = 1; in < 16; in += 1 + x / 256 % 7) {
                        assert_true(wh_tessera_tag_slot(tag, x + in) >= cls.slots);
                    }
                }
                const uint32_t in_span =
                    cls.slots << (wh_tessera_wide_span_order(cls) - wh_tessera_order(cls));
                assert_true(wh_tessera_span_order(cls) <= wh_tessera_wide_span_order(cls));
                assert_true(in_span <= 1u << 17); /* of the 2^20 of a position */
                for (uint32_t p = 0; p <= in_span; p++) {
                    assert_int_equal(wh_tessera_divide(p, cls.by_slots), p / cls.slots);
                }
            }
        }
    }
}

/* The mean over all sizes from 16 bytes to 1 MiB of what a block has and nobody asked for. */
static void little_is_wasted(void **state) {
    (void)state;
    double small = 0, all = 0;
    for (uint32_t n = 16; n <= 1u << 20; n++) {
        const uint64_t have =
            n <= 16384 ? wh_tessera_make_class(wh_tessera_class_of(n), 14, 6, 64).slot_size
                       : wh_round_up(n, 16384);
        all += (double)(have - n) / (double)have;
        if (n == 16384) {
            small = all / (16384 - 15);
        }
    }
    assert_true(small < 0.12);
    assert_true(all / ((1 << 20) - 15) < 0.12);
}

static void tags_of_whole_slabs(void **state) {
    (void)state;
    for (uint32_t size_log2 = 9; size_log2 <= 14; size_log2++) {
        const uint32_t c = wh_tessera_class_of(1u << size_log2);
        const uint32_t order = size_log2 + 5 - 14;
        const uint64_t tag =
            wh_tessera_with_shard(wh_tessera_slab_tag(c, order, 1u << size_log2), 200);
        assert_int_equal(wh_tessera_tag_shard(tag), 200);
        assert_int_equal(wh_tessera_tag_slots(tag, 14), 32);
    }
}

static void granules_are_rounded_up(void **state) {
    (void)state;
    for (uint32_t chunk_log2 = 10; chunk_log2 <= 14; chunk_log2++) {
        const uint32_t granule = (1u << chunk_log2) / WH_TESSERA_GRANULES;
        for (uint32_t n = 1; n <= 1u << chunk_log2; n++) {
            assert_int_equal(wh_tessera_granules(n, chunk_log2), (n + granule - 1) / granule);
        }
    }
}

/* Aligned runs of set bits, against a search bit by bit. */
static void fits_are_aligned_and_lowest(void **state) {
    (void)state;
    uint64_t bits = 1;
    for (uint32_t k = 0; k < 20000; k++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        const uint64_t word = k % 4 == 0 ? ~(bits & bits >> 7 & bits << 9) : bits | bits << 3;
        for (uint32_t order = 0; order <= 6; order++) {
            uint32_t expected = 64;
            for (uint32_t at = 0; at < 64 && expected == 64; at += 1u << order) {
                const uint64_t mask = wh_tessera_order_mask_(at, order);
                expected = (word & mask) == mask ? at : 64;
            }
            assert_int_equal(wh_tessera_fit_(word, order), expected);
        }
    }
}

static void rows_begin_where_they_do(void **state) {
    (void)state;
    uint64_t bits = 1;
    for (uint32_t k = 0; k < 5000; k++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        const uint64_t word = k == 0 ? ~(uint64_t)0 : bits | bits << 3 | bits >> 9;
        for (uint32_t n = 1; n <= WH_TESSERA_PACK_CHUNKS; n++) {
            uint64_t expected = 0;
            for (uint32_t at = 0; at + n <= 64; at++) {
                const uint64_t mask = wh_tessera_chunk_mask_(at, n);
                expected |= (uint64_t)((word & mask) == mask) << at;
            }
            assert_true(wh_tessera_runs_of_(word, n) == expected);
        }
    }
}

static void lists_spread_neighbours(void **state) {
    (void)state;
    for (uint32_t n = 1; n < 700; n += 3) {
        for (uint32_t slab = 0; slab < n; slab++) {
            const uint32_t item = wh_tessera_item(n, slab);
            assert_true(item < wh_tessera_items(n));
            assert_int_equal(wh_tessera_slab_of(n, item), slab);
        }
    }
}

/* Heaps of any size are laid out inside their memory and lose little of it. */
static void heaps_fit_their_memory(void **state) {
    (void)state;
    unsigned char *const memory = (unsigned char *)(uintptr_t)0x7f0000000100u;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    for (uint64_t bytes = 1 << 20; bytes <= (uint64_t)160 << 30; bytes += bytes / 3 + 256) {
        wh_tessera_ref h;
        wh_plan plan;
        memset(&h, 0, sizeof h);
        assert_int_equal(wh_tessera_plan(&h, &plan, memory, bytes, &own, 132), WH_OK);
        assert_true(h.base + h.bytes <= memory + bytes);
        assert_int_equal((uintptr_t)h.base % 16384, 0);
        assert_true((unsigned char *)(h.words + ((uint64_t)h.core.n_chunks << 4)) <= h.base);
        assert_true((double)h.bytes > (double)bytes * (bytes > 16 << 20 ? 0.985 : 0.93));
        assert_true(h.core.n_shards >= 1 && h.core.n_shards <= 132);
    }
}

static wh_tessera_ref plan_heap(uint64_t bytes) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_tessera_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    assert_int_equal(wh_tessera_plan(&h, &plan, NULL, bytes, &own, 132), WH_OK);
    return h;
}

/* What a full warp's malloc makes of a request without a look at its class's record is what that
 * says, for every class that has slabs of 32 slots for such warps, and for no other. */
static void slabs_of_warps_need_no_row(void **state) {
    (void)state;
    uint32_t n_whole = 0;
    for (uint32_t chunk_log2 = 10; chunk_log2 <= 14; chunk_log2++) {
        for (uint64_t bytes = 4 << 20; bytes <= (uint64_t)8 << 30; bytes *= 4) {
            wh_tessera_options own = WH_TESSERA_OPTIONS;
            wh_tessera_ref h;
            wh_plan plan;
            memset(&h, 0, sizeof h);
            own.chunk_bytes = 1u << chunk_log2;
            assert_int_equal(wh_tessera_plan(&h, &plan, NULL, bytes, &own, 132), WH_OK);
            for (uint32_t n = 1; n <= h.max_slot; n++) {
                const uint32_t c = wh_tessera_class_of(n);
                const int warp_slab = (h.warp_slabs >> c & 1) != 0;
                assert_int_equal(wh_tessera_is_warp_slab_(n, h.core.max_warp_slab), warp_slab);
                if (warp_slab) {
                    const wh_tessera_class cls =
                        wh_tessera_make_class(c, chunk_log2, h.max_order, h.span_share);
                    const uint32_t log2 = wh_tessera_warp_slab_log2_(n);
                    assert_int_equal(1u << log2, cls.slot_size);
                    assert_int_equal(wh_tessera_warp_slab_order_(log2, chunk_log2),
                                     wh_tessera_order(cls));
                    assert_int_equal(cls.slots, WH_WARP_SIZE);
                    n_whole++;
                }
            }
        }
    }
    assert_true(n_whole > 0);
}

/* Home chunks of full warps: aligned, in the heap behind the first spans, each once a round, and
 * never another shard's. */
static void homes_tile_the_heap(void **state) {
    (void)state;
    uint8_t *const seen = malloc((size_t)4 << 20);
    assert_non_null(seen);
    for (uint64_t bytes = 1 << 20; bytes <= (uint64_t)32 << 30; bytes += bytes / 2 + 256) {
        const wh_tessera_ref h = plan_heap(bytes);
        const wh_tessera_core g = h.core;
        for (uint32_t order = 0; g.max_warp_slab != 0 && order <= h.max_order; order++) {
            const uint32_t rounds = g.home_chunks >> order;
            const uint32_t starts[] = {0, 1, rounds * 3 + 1, (UINT32_MAX >> order) - 2 * rounds};
            for (uint32_t i = 0; i < 4; i++) {
                memset(seen, 0, g.n_chunks);
                const uint32_t shard = (i * 7 + order) % g.n_shards;
                for (uint32_t t = 0; t < rounds; t++) {
                    const uint32_t at = wh_tessera_home(g, shard, starts[i] + t, order);
                    assert_true(at >= g.begin && at + (1u << order) <= g.n_chunks);
                    assert_int_equal(at & ((1u << order) - 1), 0);
                    assert_int_equal(((at - g.begin) >> 6) % g.n_shards, shard);
                    assert_int_equal(seen[at]++, 0);
                }
            }
        }
    }
    free(seen);
}

/* Home chunks of packs: each chunk of the same ones once a round, those of a word in a row, and the
 * first ones in the word that others get last. */
static void packs_have_the_same_places(void **state) {
    (void)state;
    uint8_t *const seen = malloc((size_t)4 << 20);
    assert_non_null(seen);
    for (uint64_t bytes = 64 << 20; bytes <= (uint64_t)32 << 30; bytes += bytes / 2 + 256) {
        const wh_tessera_ref h = plan_heap(bytes);
        const wh_tessera_core g = h.core;
        const uint32_t starts[] = {0, 5, g.home_chunks * 3 + 1, UINT32_MAX - 2 * g.home_chunks};
        for (uint32_t i = 0; i < 4 && g.home_chunks != 0; i++) {
            memset(seen, 0, g.n_chunks);
            const uint32_t shard = i * 7 % g.n_shards;
            uint32_t before = 63;
            for (uint32_t t = 0; t < g.home_chunks; t++) {
                const uint32_t at = wh_tessera_pack_home(g, shard, starts[i] + t);
                assert_true(at >= g.begin && at < g.n_chunks);
                assert_int_equal(((at - g.begin) >> 6) % g.n_shards, shard);
                assert_int_equal(seen[at]++, 0);
                assert_true((at & 63) == 0 || t == 0 || at == before + 1);
                before = at;
            }
            assert_int_equal(wh_tessera_pack_home(g, shard, 0),
                             wh_tessera_home(g, shard, (g.home_chunks >> 6) - 1, 6));
        }
    }
    free(seen);
}

/* Wide spans lie in stripes: words in a row, each once a round, never another shard's. Smaller
 * spans have a part of a stripe each, in turn. */
static void wide_spans_lie_in_stripes(void **state) {
    (void)state;
    uint32_t *const seen = malloc((size_t)4 << 20);
    assert_non_null(seen);
    for (uint64_t bytes = 64 << 20; bytes <= (uint64_t)32 << 30; bytes += bytes / 2 + 256) {
        const wh_tessera_ref h = plan_heap(bytes);
        const wh_tessera_core g = h.core;
        const uint32_t first = g.begin >> 6, stripes = g.home_chunks >> 6;
        for (uint32_t n = 1; n <= 4 && g.home_chunks >= 512; n *= 2) { /* tickets a span */
            memset(seen, 0, (size_t)4 << 20);
            for (uint32_t shard = 0; shard < g.n_shards; shard++) {
                const uint32_t from = shard / 8 * 8;
                const uint32_t in_stripe = g.n_shards - from < 8 ? g.n_shards - from : 8;
                for (uint32_t t = 0; t < 8 * stripes; t++) {
                    uint32_t words = 0, same = 0;
                    const uint32_t at = wh_tessera_stripe(g, shard, (shard * 5 + t) * n, n, &words);
                    const uint32_t word = (at >> 6) - first, part = word % g.n_shards - from;
                    assert_int_equal(at & 63, 0);
                    assert_true(at >= g.begin && word < stripes * g.n_shards);
                    assert_true(part % (2 * n) == 0 && part < in_stripe);
                    assert_int_equal(words + part, g.n_shards - from);
                    assert_true(seen[word] == 0 || seen[word] == 1 + shard);
                    seen[word] = 1 + shard;
                    if (shard + t != 0) { /* behind others, who had less */
                        const uint32_t less = (shard * 5 + t) * n - (n - 1);
                        assert_int_equal(wh_tessera_stripe(g, shard, less, n, &same), at);
                    }
                }
            }
            for (uint32_t shard = 0; shard < g.n_shards / 8 * 8; shard += 8) {
                for (uint32_t stripe = 0; stripe < stripes / 8 * 8;
                     stripe++) { /* all of them are used */
                    for (uint32_t part = 0; part < 8; part += 2 * n) {
                        assert_int_equal(seen[stripe * g.n_shards + shard + part],
                                         1 + shard + stripe % 8);
                    }
                }
            }
        }
    }
    free(seen);
}

/* In heaps of 8 GiB and more every cursor has a span at first for requests of up to half a chunk,
 * with a slot at least; first spans take two fifths of no heap. */
static void cursors_begin_with_a_span(void **state) {
    (void)state;
    for (uint64_t bytes = 1 << 20; bytes <= (uint64_t)160 << 30; bytes += bytes / 7 + 256) {
        const wh_tessera_ref h = plan_heap(bytes);
        const wh_tessera_core g = h.core;
        assert_true(g.begin <= 64 + g.n_chunks / 5 * 2);
        uint32_t end = 0;
        for (uint32_t c = 0; c <= wh_tessera_class_of(8192); c++) {
            const wh_tessera_first first =
                wh_tessera_make_first(c, g.chunk_log2, h.max_order, wh_tessera_shard_bytes(g), end);
            assert_true(bytes < (uint64_t)8 << 30 || first.slabs > first.spare);
            end = wh_tessera_first_end(first, g.n_shards);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_the_smallest_class),
        cmocka_unit_test(slots_tile_their_slab),
        cmocka_unit_test(little_is_wasted),
        cmocka_unit_test(tags_of_whole_slabs),
        cmocka_unit_test(granules_are_rounded_up),
        cmocka_unit_test(fits_are_aligned_and_lowest),
        cmocka_unit_test(rows_begin_where_they_do),
        cmocka_unit_test(lists_spread_neighbours),
        cmocka_unit_test(heaps_fit_their_memory),
        cmocka_unit_test(slabs_of_warps_need_no_row),
        cmocka_unit_test(homes_tile_the_heap),
        cmocka_unit_test(packs_have_the_same_places),
        cmocka_unit_test(wide_spans_lie_in_stripes),
        cmocka_unit_test(cursors_begin_with_a_span),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

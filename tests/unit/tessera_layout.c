/* tessera_layout.c: tessera's size classes, divisions, packed words and places, exhaustively. */
#include "warpheap/detail/alloc/tessera/layout.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "warpheap/detail/alloc/tessera/tessera.h"

#define MOST_CHUNKS ((size_t)12 << 20)

/* Ones of 64 in several densities; the first is all of them. */
static uint64_t next_bits(uint64_t *random, uint32_t k) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bits = *random ^ *random >> 29;
    const uint64_t kinds[] = {~(uint64_t)0, bits, bits | bits << 3 | bits >> 9, bits & bits >> 7};
    return kinds[k == 0 ? 0 : k % 4];
}

/* --- classes --------------------------------------------------------------------------------- */

/* Every request gets the smallest class that holds it. */
static void every_size_has_the_smallest_class(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= WH_TESSERA_LARGEST; n++) {
        const uint32_t c = wh_tessera_class_of(n);
        assert_true(c < WH_TESSERA_ALL);
        assert_true(wh_tessera_bound(c) >= n);
        assert_true(c == 0 || wh_tessera_bound(c - 1) < n);
    }
    assert_int_equal(wh_tessera_class_of(16384), WH_TESSERA_SMALL - 1);
    assert_int_equal(wh_tessera_class_of(WH_TESSERA_LARGEST), WH_TESSERA_ALL - 1);
}

/* The words of a slab have each of its slots once. */
static void check_words(wh_tessera_class cls, uint32_t chunk_log2) {
    const uint32_t n = wh_tessera_words_for(cls.slots);
    uint32_t slots = 0;
    assert_true(n <= wh_tessera_words_of_chunk(chunk_log2) * cls.chunks);
    assert_true(n == 1 || cls.chunks == 1);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t all = wh_tessera_all_slots(cls.slots, i);
        assert_true(all != 0 && (all & (all + 1)) == 0 && (all & ~WH_TESSERA_SLOT_BITS) == 0);
        assert_true(i + 1 == n || all == WH_TESSERA_SLOT_BITS);
        slots += wh_popc64(all);
    }
    assert_int_equal(slots, cls.slots);
}

/* Any byte of a slab: the slot that starts there, or none. */
static void check_slots(wh_tessera_class cls, uint64_t tag, uint32_t chunk_log2) {
    const uint32_t slab = cls.chunks << chunk_log2;
    for (uint32_t x = 0; x < slab; x += 16) {
        const uint32_t slot = wh_tessera_tag_slot(tag, x);
        const int is_slot = x % cls.slot_size == 0 && x / cls.slot_size < cls.slots;
        assert_true(is_slot ? slot == x / cls.slot_size : slot >= cls.slots);
        for (uint32_t in = 1; in < 16; in += 1 + x / 256 % 7) {
            assert_true(wh_tessera_tag_slot(tag, x + in) >= cls.slots);
        }
    }
}

/* Slots hold their class, fill their slab but for a few percent, and are found again, under every
 * chunk size and every limit on slabs; also those of slabs that are smaller than is usual. */
static void slots_tile_their_slab(void **state) {
    (void)state;
    for (uint32_t chunk_log2 = 10; chunk_log2 <= 14; chunk_log2++) {
        const uint32_t n_small = wh_tessera_class_of(1u << chunk_log2) + 1;
        for (uint32_t max_log2 = 0; max_log2 <= WH_TESSERA_MAX_SLAB_LOG2; max_log2++) {
            for (uint32_t c = 0; c < n_small; c++) {
                wh_tessera_class cls = wh_tessera_make_class(c, chunk_log2, max_log2);
                assert_true(cls.slot_size >= wh_tessera_bound(c) && cls.slot_size % 16 == 0);
                assert_true(wh_is_pow2(cls.chunks) && cls.chunks <= 1u << max_log2);
                assert_true((cls.slots + 1) * cls.slot_size > cls.chunks << chunk_log2);
                assert_true(max_log2 < 6 || cls.slots >= 32);
                for (; cls.chunks != 0; cls.chunks /= 2) {
                    const uint64_t tag = wh_tessera_slab_tag(c, cls.chunks, cls.slot_size);
                    cls.slots = (cls.chunks << chunk_log2) / cls.slot_size;
                    assert_true(cls.slots > 0);
                    assert_int_equal(wh_tessera_tag_slots(tag, chunk_log2), cls.slots);
                    check_words(cls, chunk_log2);
                    if (max_log2 % 3 == 0) {
                        check_slots(cls, tag, chunk_log2);
                    }
                }
            }
        }
    }
}

static void large_slots_fill_their_slab(void **state) {
    (void)state;
    for (uint32_t c = WH_TESSERA_SMALL; c < WH_TESSERA_ALL; c++) {
        const wh_tessera_class cls = wh_tessera_make_class(c, WH_TESSERA_CHUNK_LOG2, 6);
        const uint64_t tag = wh_tessera_slab_tag(c, cls.chunks, cls.slot_size);
        assert_int_equal(cls.slot_size, wh_tessera_bound(c));
        assert_int_equal(cls.slots * cls.slot_size, cls.chunks << WH_TESSERA_CHUNK_LOG2);
        assert_true(cls.chunks > 16 && cls.chunks < 33);
        assert_int_equal(wh_tessera_tag_slots(tag, WH_TESSERA_CHUNK_LOG2), cls.slots);
        check_words(cls, WH_TESSERA_CHUNK_LOG2);
        check_slots(cls, tag, WH_TESSERA_CHUNK_LOG2);
    }
}

/* Positions of a span, for every number of slots that a slab can have. */
static void divisions_are_exact(void **state) {
    (void)state;
    for (uint32_t d = 1; d <= 1u << 10; d++) {
        const uint32_t by = wh_tessera_divisor(d);
        for (uint32_t x = d <= 56 ? 0 : 1u << 16; x <= 1u << 17; x += d <= 56 ? 1 : 7) {
            assert_int_equal(wh_tessera_divide(x, by), x / d);
        }
        for (uint32_t x = d; x <= 1u << 17; x += d) { /* where it is closest */
            assert_int_equal(wh_tessera_divide(x, by), x / d);
            assert_int_equal(wh_tessera_divide(x - 1, by), x / d - 1);
        }
    }
}

/* The mean over sizes of what a block has and nobody asked for. */
static void little_is_wasted(void **state) {
    (void)state;
    double small = 0, large = 0;
    for (uint32_t n = 16; n <= WH_TESSERA_LARGEST; n++) {
        const uint32_t c = wh_tessera_class_of(n);
        const uint32_t have = wh_tessera_make_class(c, WH_TESSERA_CHUNK_LOG2, 6).slot_size;
        const double part = (double)(have - n) / (double)have;
        small += n <= 16384 ? part : 0;
        large += n > 16384 ? part : 0;
    }
    assert_true(small / (16384 - 15) < 0.06);
    assert_true(large / (WH_TESSERA_LARGEST - 16384) < 0.03);
}

/* --- packed words ---------------------------------------------------------------------------- */

static void tags_keep_their_parts(void **state) {
    (void)state;
    for (uint32_t c = 0; c < WH_TESSERA_ALL; c++) {
        const wh_tessera_class cls = wh_tessera_make_class(c, WH_TESSERA_CHUNK_LOG2, 6);
        for (uint32_t shard = 0; shard < 256; shard += 5) {
            const uint64_t other = wh_tessera_with_shard(
                wh_tessera_slab_tag(c, cls.chunks, cls.slot_size), ~shard & 255);
            const uint64_t tag = wh_tessera_with_shard(other, shard);
            for (uint32_t at = 0; at < cls.chunks; at++) {
                const uint64_t its = tag + at * WH_TESSERA_NEXT_TAG;
                assert_int_equal(wh_tessera_kind(its), WH_TESSERA_SLAB);
                assert_int_equal(wh_tessera_tag_class(its), c);
                assert_int_equal(wh_tessera_tag_at(its), at);
                assert_int_equal(wh_tessera_tag_chunks(its), cls.chunks);
                assert_int_equal(wh_tessera_tag_shard(its), shard);
                assert_int_equal(wh_tessera_tag_slots(its, WH_TESSERA_CHUNK_LOG2), cls.slots);
                assert_true(wh_tessera_is_slab_of(its, WH_TESSERA_ANY_CLASS));
                assert_true(wh_tessera_is_slab_of(its, c) && !wh_tessera_is_slab_of(its, c ^ 1));
                assert_false(wh_tessera_is_slab_of(its, WH_TESSERA_NO_CLASS));
            }
        }
    }
    const uint64_t others[] = {WH_TESSERA_FREE, (uint64_t)5 << 32 | WH_TESSERA_RUN,
                               WH_TESSERA_INNER};
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(wh_tessera_is_slab_of(others[i], WH_TESSERA_ANY_CLASS));
        assert_false(wh_tessera_is_slab_of(others[i], 0));
    }
}

/* A word tells its class, and nothing of another class's, nor of a slab that is gone. */
static void words_name_their_class(void **state) {
    (void)state;
    uint64_t random = 1;
    for (uint32_t c = 0; c < WH_TESSERA_ALL; c++) {
        const uint64_t free = next_bits(&random, c + 1) & WH_TESSERA_SLOT_BITS;
        const uint64_t word = wh_tessera_word_of(c) | free;
        assert_int_equal(wh_tessera_word_class1(word), c + 1);
        assert_true(wh_tessera_free_slots(word, c) == free);
        assert_int_equal(wh_tessera_free_slots(word, c ^ 1), 0);
        assert_int_equal(wh_tessera_free_slots(WH_TESSERA_GONE | free, c), 0);
        assert_int_equal(wh_tessera_free_slots(0, c), 0);
    }
}

/* RETIRING is told from any number of words, though late takers have uncounted some. */
static void states_tell_who_retires(void **state) {
    (void)state;
    for (uint32_t words = 0; words < 64; words++) {
        for (uint32_t late = 0; late < 4096; late += 63) {
            assert_false(wh_tessera_is_retiring(words - late));
            assert_true(wh_tessera_is_retiring(WH_TESSERA_RETIRING + words - late));
        }
    }
}

/* What an add to a cursor says: who gets slots, who refills (one lane, C1), and who looks on. */
static void spans_tell_who_refills(void **state) {
    (void)state;
    const uint32_t slots[] = {1, 31, 32, 33, 56, 2048, 65536, (1u << 20) - 64};
    for (uint32_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        for (uint32_t n = 1; n <= 32; n++) {
            const uint32_t from = slots[i] > 70 ? slots[i] - 70 : 0;
            uint64_t span = wh_tessera_span(WH_TESSERA_MAX_CHUNKS, slots[i], from);
            uint32_t refillers = 0;
            for (uint32_t at = from; at < slots[i] + 63; at += n) {
                assert_int_equal(wh_tessera_span_first(span), WH_TESSERA_MAX_CHUNKS);
                assert_int_equal(wh_tessera_span_slots(span), slots[i]);
                assert_int_equal(wh_tessera_span_position(span), at);
                assert_int_equal(wh_tessera_has_slots(span), at < slots[i]);
                assert_int_equal(wh_tessera_is_open(span), at <= slots[i]);
                assert_int_equal(wh_tessera_is_settled(span), at == slots[i]);
                refillers += (uint32_t)wh_tessera_passes_end(span, n);
                span += n * WH_TESSERA_POSITION;
            }
            assert_int_equal(refillers, 1);
            assert_true(wh_tessera_no_slots(span) == WH_TESSERA_UNDER_WAY);
        }
    }
    uint64_t closed = WH_TESSERA_CLOSED;
    for (uint32_t i = 0; i < 3; i++, closed += 32 * WH_TESSERA_POSITION) {
        assert_true(wh_tessera_is_closed(closed) && wh_tessera_is_settled(closed));
        assert_false(wh_tessera_is_open(closed) || wh_tessera_has_slots(closed));
        assert_false(wh_tessera_passes_end(closed, 32));
        assert_true(wh_tessera_no_slots(closed) == WH_TESSERA_CLOSED);
    }
    assert_true(wh_tessera_is_open(WH_TESSERA_VACANT) && wh_tessera_is_settled(WH_TESSERA_VACANT));
    assert_true(wh_tessera_passes_end(WH_TESSERA_VACANT, 1));
    assert_false(wh_tessera_is_open(WH_TESSERA_UNDER_WAY));
    assert_false(wh_tessera_is_settled(WH_TESSERA_UNDER_WAY));
}

/* --- bits ------------------------------------------------------------------------------------ */

/* The lowest n from a bit on, and of those below what is lacking, against a search bit by bit. */
static void chosen_bits_are_the_lowest(void **state) {
    (void)state;
    uint64_t random = 1;
    for (uint32_t k = 0; k < 4000; k++) {
        const uint64_t bits = next_bits(&random, k) & WH_TESSERA_SLOT_BITS;
        const uint32_t from = k * 7 % WH_TESSERA_WORD_SLOTS;
        for (uint32_t n = 1; n <= 32; n += 1 + k % 3) {
            uint64_t expected = 0;
            uint32_t lacking = n;
            for (uint32_t round = 0; round < 2; round++) { /* from there on, and then from 0 */
                for (uint32_t b = round == 0 ? from : 0; b < 64 && lacking != 0; b++) {
                    const uint64_t one = bits & ~expected & (uint64_t)1 << b;
                    expected |= one;
                    lacking -= one != 0;
                }
            }
            assert_true(wh_tessera_choose_(bits, from, n) == expected);
        }
    }
}

static void rows_begin_where_they_do(void **state) {
    (void)state;
    uint64_t random = 1;
    for (uint32_t k = 0; k < 3000; k++) {
        const uint64_t word = next_bits(&random, k);
        uint32_t longest = 0; /* a power of two */
        for (uint32_t n = 1; n <= 64; n++) {
            uint64_t expected = 0;
            for (uint32_t at = 0; at + n <= 64; at++) {
                const uint64_t mask = wh_tessera_chunk_mask_(at, n);
                expected |= (uint64_t)((word & mask) == mask) << at;
            }
            assert_true(wh_tessera_runs_of_(word, n) == expected);
            longest = expected != 0 && wh_is_pow2(n) ? n : longest;
            if (wh_is_pow2(n)) {
                for (uint32_t b = 0; k == 0 && b < 64; b++) {
                    assert_int_equal(wh_tessera_multiples_(n) >> b & 1, b % n == 0);
                }
            }
        }
        for (uint32_t most = 1; most <= 64; most *= 2) {
            for (uint32_t least = 1; least <= most; least *= 2) {
                const wh_tessera_claim claim = wh_tessera_longest_(word, most, least);
                const uint32_t n = longest < most ? longest : most;
                assert_int_equal(claim.n, n >= least ? n : 0);
                assert_true(claim.n == 0 ||
                            claim.first == wh_ctz64(wh_tessera_runs_of_(word, claim.n)));
            }
        }
    }
}

/* --- places ---------------------------------------------------------------------------------- */

static wh_tessera_ref plan_heap(unsigned char *memory, uint64_t bytes, uint32_t chunk_log2,
                                uint32_t shards) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_tessera_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    own.chunk_bytes = 1u << chunk_log2;
    own.shards = shards;
    assert_int_equal(wh_tessera_plan(&h, &plan, memory, bytes, &own, 132), WH_OK);
    assert_int_equal(plan.metadata_bytes, bytes - h.bytes);
    return h;
}

/* Heaps of any size are laid out inside their memory, part behind part, and lose little of it. */
static void heaps_fit_their_memory(void **state) {
    (void)state;
    unsigned char *const memory = (unsigned char *)(uintptr_t)0x7f0000000100u;
    for (uint64_t bytes = 1 << 20; bytes <= (uint64_t)160 << 30; bytes += bytes / 5 + 256) {
        const wh_tessera_ref h = plan_heap(memory, bytes, WH_TESSERA_CHUNK_LOG2, 0);
        const wh_tessera_core g = h.core;
        const uint64_t n = g.n_chunks;
        assert_true(h.base + h.bytes <= memory + bytes && h.bytes == n << 14);
        assert_int_equal((uintptr_t)h.base % 16384, 0);
        assert_true((unsigned char *)h.shards >= memory + sizeof(wh_tessera_header));
        assert_true((unsigned char *)h.tags == (unsigned char *)(h.shards + g.n_shards));
        assert_true((unsigned char *)g.pool >= (unsigned char *)(h.tags + n) + 4 * n);
        assert_true(g.partial_lists >= g.pool + wh_veb_words(n));
        assert_true(g.words >= g.partial_lists + g.list_words * wh_tessera_n_classes(g));
        assert_true((unsigned char *)(g.words + n * g.words_of_chunk) <= h.base);
        assert_true((double)h.bytes > (double)bytes * (bytes > 64 << 20 ? 0.94 : 0.80));
        assert_true(g.n_shards >= 1 && g.n_shards <= 132 && g.list_words == wh_veb_words(n));
        const wh_tessera_ref any = plan_heap(NULL, bytes, WH_TESSERA_CHUNK_LOG2, 0);
        assert_true(any.core.n_chunks <= n && any.core.n_chunks + 1 >= n); /* any alignment */
    }
}

static void small_heaps_are_refused(void **state) {
    (void)state;
    for (uint32_t chunk_log2 = 9; chunk_log2 <= 15; chunk_log2++) {
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        wh_tessera_ref h;
        wh_plan plan;
        own.chunk_bytes = 1u << chunk_log2;
        const wh_status s = wh_tessera_plan(&h, &plan, NULL, 0, &own, 132);
        if (chunk_log2 < 10 || chunk_log2 > 14) {
            assert_int_equal(s, WH_BAD_ARGUMENT);
            continue;
        }
        assert_int_equal(s, WH_HEAP_TOO_SMALL);
        const uint64_t least = plan.min_bytes;
        assert_int_equal(wh_tessera_plan(&h, &plan, NULL, least - 1, &own, 132), WH_HEAP_TOO_SMALL);
        assert_int_equal(wh_tessera_plan(&h, &plan, NULL, least, &own, 132), WH_OK);
        assert_true(h.core.n_chunks >= 1);
    }
}

/* Which classes have slabs for full warps: those of 32 slots without a gap. */
static void slabs_of_warps_have_32_slots(void **state) {
    (void)state;
    uint32_t n_whole = 0, n_odd = 0;
    for (uint32_t chunk_log2 = 10; chunk_log2 <= 14; chunk_log2++) {
        for (uint64_t bytes = 4 << 20; bytes <= (uint64_t)8 << 30; bytes *= 4) {
            const wh_tessera_ref h = plan_heap(NULL, bytes, chunk_log2, 0);
            for (uint32_t c = 0; c < 64; c++) {
                const int is_one = (h.warp_slabs >> c & 1) != 0;
                assert_true(!is_one || c < h.core.n_small);
                if (is_one) {
                    const wh_tessera_class cls =
                        wh_tessera_make_class(c, chunk_log2, h.core.max_slab_log2);
                    const uint32_t chunks = wh_tessera_warp_chunks(cls, chunk_log2);
                    const uint64_t tag = wh_tessera_slab_tag(c, chunks, cls.slot_size);
                    assert_int_equal(WH_WARP_SIZE * cls.slot_size, chunks << chunk_log2);
                    assert_int_equal(wh_tessera_tag_slots(tag, chunk_log2), WH_WARP_SIZE);
                    assert_true(chunks <= cls.chunks && chunks <= WH_WARP_SIZE); /* a lane a tag */
                    n_odd += !wh_is_pow2(chunks);
                    n_whole++;
                }
            }
        }
    }
    assert_true(n_whole > n_odd && n_odd > 0);
}

/* Homes: behind the first spans, in words of the pool that are no other shard's, each chunk once;
 * and who returns a chunk finds the row that it is in. */
static void homes_are_disjoint(void **state) {
    (void)state;
    uint8_t *const seen = malloc(MOST_CHUNKS);
    assert_non_null(seen);
    for (uint64_t bytes = 1 << 20; bytes <= (uint64_t)160 << 30; bytes += bytes * 2 / 3 + 256) {
        const wh_tessera_core g = plan_heap(NULL, bytes, WH_TESSERA_CHUNK_LOG2, 0).core;
        assert_true(g.n_chunks < MOST_CHUNKS && g.begin % 64 == 0 && g.home_chunks % 64 == 0);
        memset(seen, 0, g.n_chunks);
        for (uint32_t shard = 0; shard < g.n_shards; shard++) {
            for (uint32_t x = 0; x < g.home_chunks; x++) {
                const uint32_t at = wh_tessera_home(g, shard, x);
                assert_true(at >= g.begin && at < g.n_chunks);
                assert_int_equal(seen[at]++, 0);
            }
            for (uint32_t x = 0; x < g.home_chunks; x += 64) { /* as put_chunks_ does */
                const uint32_t w = (wh_tessera_home(g, shard, x + 63) - g.begin) >> 6;
                const uint32_t row =
                    g.by_shards == 0 ? w : wh_high_u32(wh_mul_wide_u32(w, g.by_shards));
                assert_int_equal(row, x >> 6);
                assert_int_equal(w - row * g.n_shards, shard);
            }
        }
        uint32_t behind = 0; /* words that are in nobody's home: fewer than there are shards */
        for (uint32_t chunk = g.begin; chunk < g.n_chunks; chunk++) {
            behind += seen[chunk] == 0;
        }
        assert_true(behind < 64 * (g.n_shards + 1u));
    }
    free(seen);
}

/* First spans lie side by side in the front of the heap, whole slabs in one another's order, and
 * the cursors begin with them; they take less than two fifths of any heap. */
static void first_spans_are_disjoint(void **state) {
    (void)state;
    uint32_t large = 0;
    for (uint64_t bytes = 1 << 20; bytes <= (uint64_t)160 << 30; bytes += bytes / 7 + 256) {
        const wh_tessera_core g = plan_heap(NULL, bytes, WH_TESSERA_CHUNK_LOG2, 0).core;
        uint32_t end = 0;
        assert_true(g.begin <= 64 + g.n_chunks / 5 * 2);
        /* A slab is a small part of the heap, and of a shard's share; or a chunk. */
        const uint32_t most = 1u << g.max_slab_log2;
        assert_true(most == 1 || (most <= g.n_chunks / 64 && most <= g.n_chunks / g.n_shards / 32));
        for (uint32_t c = 0; c < g.n_small; c++) {
            const wh_tessera_class cls = wh_tessera_make_class(c, g.chunk_log2, g.max_slab_log2);
            const wh_tessera_first first = wh_tessera_make_first(g, cls, end);
            assert_true(first.chunk >= end && first.chunk - end < cls.chunks);
            assert_int_equal(first.chunk % cls.chunks, 0);
            assert_int_equal(first.chunks % cls.chunks, 0);
            assert_true(first.chunks / cls.chunks * cls.slots < 1u << 17);
            end = first.chunk + g.n_shards * first.chunks;
            assert_int_equal(wh_tessera_first_end(g, first), end);
            const size_t at = offsetof(wh_tessera_shard, cursors) + c * sizeof(wh_tessera_cursor);
            const uint32_t k = (uint32_t)(at / 8);
            const uint32_t shard = (c * 5 + 1) % g.n_shards;
            const uint64_t span = wh_tessera_init_shard_(g, shard, k);
            assert_int_equal(wh_tessera_init_shard_(g, shard, k + 1), 0);
            assert_int_equal(wh_tessera_span_position(span), 0);
            assert_true(first.chunks != 0
                            ? wh_tessera_span_first(span) == first.chunk + shard * first.chunks
                            : span == WH_TESSERA_VACANT);
            assert_int_equal(wh_tessera_span_slots(span), first.chunks / cls.chunks * cls.slots);
            large += first.chunks != 0 && bytes > (uint64_t)8 << 30;
        }
        assert_true(end <= g.begin && g.begin - end < 64);
    }
    assert_true(large > 0);
}

/* I8: what a cursor asks for grows eightfold at most, up to a part of what is left at home. */
static void spans_grow_step_by_step(void **state) {
    (void)state;
    const wh_tessera_core g = plan_heap(NULL, (uint64_t)8 << 30, WH_TESSERA_CHUNK_LOG2, 0).core;
    for (uint32_t c = 0; c < g.n_small; c++) {
        const wh_tessera_class cls = wh_tessera_make_class(c, g.chunk_log2, g.max_slab_log2);
        for (uint32_t slabs = 0; slabs <= 64 / cls.chunks; slabs++) {
            for (uint32_t left = 0; left <= g.home_chunks; left += 64) {
                const uint32_t n = wh_tessera_next_chunks_(g, cls, slabs * cls.slots, left);
                const uint32_t least = cls.chunks, more = slabs * cls.chunks * 8;
                assert_true(n >= least && n <= 64 && wh_is_pow2(n)); /* a claim halves it */
                assert_true(n == least || (n <= more && n <= left / 32));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_the_smallest_class),
        cmocka_unit_test(slots_tile_their_slab),
        cmocka_unit_test(large_slots_fill_their_slab),
        cmocka_unit_test(divisions_are_exact),
        cmocka_unit_test(little_is_wasted),
        cmocka_unit_test(tags_keep_their_parts),
        cmocka_unit_test(words_name_their_class),
        cmocka_unit_test(states_tell_who_retires),
        cmocka_unit_test(spans_tell_who_refills),
        cmocka_unit_test(chosen_bits_are_the_lowest),
        cmocka_unit_test(rows_begin_where_they_do),
        cmocka_unit_test(heaps_fit_their_memory),
        cmocka_unit_test(small_heaps_are_refused),
        cmocka_unit_test(slabs_of_warps_have_32_slots),
        cmocka_unit_test(homes_are_disjoint),
        cmocka_unit_test(first_spans_are_disjoint),
        cmocka_unit_test(spans_grow_step_by_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tessera_packs.c: chunks that a full warp cuts into blocks of the sizes its lanes want: where the
 * blocks lie, what is freed of them and how often, and that an exhausted heap gives them out again.
 */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define CHUNK 1024u
#define GRANULE (CHUNK / 32)
#define MOST (CHUNK / 2) /* bytes of a block of a pack */
#define WARPS 4u

/* A heap of chunks of 1 KiB. */
static wh_heap *make_heap(wh_device *device, uint64_t bytes, wh_heap_ref *handle) {
    return make_heap_of(device, CHUNK, bytes, 1, handle);
}

static void is_sound(wh_heap *heap, uint64_t live, uint64_t bad_frees) {
    wh_report report;
    wh_stats stats;
    assert_int_equal(wh_heap_check(heap, &report), WH_OK);
    assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, live);
    assert_int_equal(stats.bad_frees, bad_frees);
    uint64_t in_classes = 0;
    for (uint32_t c = 0; c < stats.n_classes; c++) {
        in_classes += stats.classes[c].live;
    }
    assert_int_equal(in_classes, live);
}

typedef struct cut_args {
    wh_heap_ref heap;
    const uint32_t *sizes; /* of each lane */
    unsigned char **ptrs;
    uint64_t *usable;
    uint32_t first, step; /* which to free, and in which order */
} cut_args;

WH_KERNEL(cut, cut_args, a) {
    const uint32_t lane = wh_lane_id();
    a.ptrs[lane] = (unsigned char *)wh_malloc_lanes(a.heap, ~0u, a.sizes[lane]);
    a.usable[lane] = wh_usable_size(a.heap, a.ptrs[lane]);
}

/* Memory for what the lanes of a warp ask for, which is returned, and for what they get. */
static uint32_t *take_lanes(wh_device *device, cut_args *a) {
    uint32_t *sizes = take(device, 32 * sizeof *sizes);
    a->sizes = sizes;
    a->ptrs = take(device, 32 * sizeof *a->ptrs);
    a->usable = take(device, 32 * sizeof *a->usable);
    return sizes;
}

/* What is no start of a block of a pack: counted, and without effect. */
WH_KERNEL(free_wrong, cut_args, a) {
    wh_free(a.heap, a.ptrs[a.first] + 16);      /* inside a granule */
    wh_free(a.heap, a.ptrs[a.first] + GRANULE); /* at another one of the block */
    wh_free(a.heap, a.ptrs[a.first]);           /* it is one */
    wh_free(a.heap, a.ptrs[a.first]);           /* not twice */
}

WH_KERNEL(free_one_by_one, cut_args, a) {
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t k = (a.first + i * a.step) % 32;
        if (i != 0) {
            wh_free(a.heap, a.ptrs[k]);
        }
    }
}

typedef struct scan_args {
    wh_heap_ref heap;
    const unsigned char *const *blocks; /* of a pack, in the order of their addresses */
    const uint32_t *granules;
    uint32_t *wrong;
    uint32_t n, free, least;
} scan_args;

/* Whether a block of so many granules is for who wants `least`: a short one only for small
 * requests, which get no others. 0 wants anything. */
static int will_do(uint32_t granules, uint32_t least) {
    return granules >= least && (least == 0 || least > 2 || granules <= 2);
}

/* The smallest of the free blocks that will do, the first of such, and how long all of them are. */
WH_KERNEL(scan, scan_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t pack = (uint32_t)((uint64_t)(a.blocks[0] - a.heap.base) / CHUNK);
    uint32_t best = 32, expected = 0, lengths = 0;
    for (uint32_t i = 0; i < a.n; i++) {
        if ((a.free >> i & 1) != 0) {
            expected |= 1u << (a.granules[i] < 32 ? a.granules[i] - 1 : 31);
            best =
                will_do(a.granules[i], a.least) && (best == 32 || a.granules[i] < a.granules[best])
                    ? i
                    : best;
        }
    }
    const uint32_t fit = wh_tessera_pack_scan_(*g, pack, wh_load_u64_relaxed(&a.heap.tags[pack]),
                                               a.free, a.least, &lengths);
    *a.wrong += lengths != expected || (fit == 0) != (best == 32);
    *a.wrong += a.least != 0 && (wh_tessera_fits_(lengths, a.least) == 0) != (best == 32);
    if (fit != 0) {
        *a.wrong += WH_TESSERA_FIT_SLOT(fit) != best ||
                    WH_TESSERA_FIT_LENGTH(fit) != a.granules[best] ||
                    a.blocks[0] + WH_TESSERA_FIT_START(fit) * GRANULE != a.blocks[best];
    }
}

static void test_the_smallest_block_that_will_do(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        cut_args a;
        scan_args b;
        uint64_t random = seed;
        wh_device *device = open_policy(WH_SIM_RANDOM, seed);
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        wh_heap *heap = make_heap(device, 300 << 10, &a.heap);
        uint32_t *sizes = take_lanes(device, &a);
        uint32_t *granules = take(device, 32 * sizeof *granules);
        b.heap = a.heap;
        b.blocks = (const unsigned char *const *)a.ptrs;
        b.granules = granules;
        b.wrong = take(device, sizeof *b.wrong);
        b.n = 32;
        for (uint32_t i = 0; i < 32; i++) {
            sizes[i] = 1 + (uint32_t)(next_random(&random) % MOST);
        }
        const wh_launch one = grid(device, 1, 32), alone = grid(device, 1, 1);
        assert_int_equal(cut(&one, &a), WH_OK);
        for (uint32_t i = 0; i < 32; i++) {
            granules[i] = (uint32_t)a.usable[i] / GRANULE;
        }
        for (uint32_t k = 0; k < 60; k++) {
            const uint32_t bits = (uint32_t)next_random(&random);
            b.free = k == 1 ? ~0u : 0;
            if (k > 1) {
                b.free = bits & (uint32_t)next_random(&random);
            }
            b.least = k % 20;
            assert_int_equal(scan(&alone, &b), WH_OK);
        }
        assert_int_equal(*b.wrong, 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* Where chunks of a word are taken packs go on behind them, in the same word, if it has enough. */
static void test_packs_go_past_what_is_taken(void **state) {
    (void)state;
    cut_args a;
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    memset(&a, 0, sizeof a);
    wh_heap *heap = make_heap(device, 300 << 10, &a.heap);
    uint32_t *sizes = take_lanes(device, &a);
    for (uint32_t i = 0; i < 32; i++) { /* two kinds of 16 lanes would go to cursors */
        sizes[i] = CHUNK / 4 + i % 4 * CHUNK / 16;
    }
    const wh_launch one = grid(device, 1, 32);
    const wh_veb pool = wh_tessera_pool_(a.heap.core);
    const uint32_t first = wh_tessera_pack_home(a.heap.core, 0, 0);
    assert_int_equal(first % 64, 0);
    uint64_t *word = wh_veb_word(pool, first >> 6);
    assert_true(*word == ~(uint64_t)0);
    *word = ~(uint64_t)0x80f; /* chunks 0 to 3 and 11 of the word: 7 in a row are too few */
    assert_int_equal(cut(&one, &a), WH_OK);
    const uint32_t chunks = wh_tessera_pack_chunks(a.heap.tags[first + 12]);
    assert_in_range(chunks, 8, 16);
    assert_true(a.ptrs[0] == a.heap.base + (uint64_t)(first + 12) * CHUNK);
    assert_true(*word == (~(uint64_t)0x80f & ~wh_tessera_chunk_mask_(first + 12, chunks)));
    assert_int_equal(cut(&one, &a), WH_OK); /* the next one lies behind it, without a miss */
    assert_true(a.ptrs[0] == a.heap.base + (uint64_t)(first + 12 + chunks) * CHUNK);
    const uint32_t at = 12 + 2 * chunks, taken = chunks + 1;
    assert_true(at + taken + chunks <= 64);
    *word |= 0xfff; /* what comes back in front of it does not count, */
    *word &= ~wh_tessera_chunk_mask_(first + at, taken);
    assert_int_equal(cut(&one, &a), WH_OK); /* and it goes right behind what is taken */
    assert_true(a.ptrs[0] == a.heap.base + (uint64_t)(first + at + taken) * CHUNK);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* A warp that finds nothing where its shard puts the next pack takes the only chunks there are,
 * which its lanes see in another word of the shard, or of another shard, or in the front of the
 * heap. */
static void test_packs_take_the_last_place(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 16; seed++) {
        cut_args a;
        wh_report report;
        wh_device *device = open_policy(WH_SIM_RANDOM, seed + 1);
        memset(&a, 0, sizeof a);
        const uint32_t shards = 1 + seed % 2; /* the warp is of shard 0 */
        wh_heap *heap = make_heap_of(device, CHUNK, 2 << 20, shards, &a.heap);
        const wh_tessera_core g = a.heap.core;
        uint32_t *sizes = take_lanes(device, &a);
        for (uint32_t i = 0; i < 32; i++) {
            sizes[i] = CHUNK / 4 + i % 4 * CHUNK / 16;
        }
        const uint32_t words = g.n_chunks >> 6;
        assert_in_range(words, 8, 32); /* its lanes see all of them */
        const uint32_t word = seed < 12
                                  ? (g.begin >> 6) + (seed / 2 + 1) * shards - 1 /* last shard's */
                                  : (g.begin >> 6) - 1;
        const uint32_t n = 16, at = seed * 5 % (64 - n);
        const wh_veb pool = wh_tessera_pool_(g);
        uint64_t *taken = take(device, words * sizeof *taken);
        for (uint32_t k = 0; k < words; k++) {
            uint64_t *w = wh_veb_word(pool, k);
            taken[k] = *w;
            *w = k == word ? wh_tessera_chunk_mask_(at, n) : 0;
        }
        const wh_launch one = grid(device, 1, 32);
        assert_int_equal(cut(&one, &a), WH_OK);
        const uint32_t pack = word << 6 | at;
        assert_true(wh_tessera_is_pack(a.heap.tags[pack]));
        const uint64_t its = wh_tessera_chunk_mask_(at, wh_tessera_pack_chunks(a.heap.tags[pack]));
        assert_ptr_equal(a.ptrs[0], g.base + (uint64_t)pack * CHUNK);
        for (uint32_t i = 1; i < 32; i++) {
            assert_ptr_equal(a.ptrs[i], a.ptrs[i - 1] + a.usable[i - 1]);
        }
        assert_true(*wh_veb_word(pool, word) == (wh_tessera_chunk_mask_(at, n) & ~its));
        for (uint32_t k = 0; k < words; k++) {
            *wh_veb_word(pool, k) = taken[k] & ~(k == word ? its : 0);
            wh_veb_filled(pool, k);
        }
        if (seed < 12) { /* else it lies on first spans */
            assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        }
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* The blocks of lanes that want more than a 16th of a chunk, and of all if the warp wants three
 * granules a lane, lie side by side in the order of the lanes, each with the granules that it
 * needs, but for the last one, which has all that is left. */
static void test_blocks_lie_side_by_side(void **state) {
    (void)state;
    int some_are_small = 0, all_are_packed = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        cut_args a;
        uint64_t random = seed;
        wh_device *device = open_policy(WH_SIM_RANDOM, seed);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, 300 << 10, &a.heap);
        assert_true(a.heap.core.home_chunks >= 64); /* otherwise there are no packs */
        uint32_t *sizes = take_lanes(device, &a);
        uint32_t total = 0, in_pack = 0, last = 32, wanted = 0, small = 0;
        for (uint32_t i = 0; i < 32; i++) {
            const uint32_t part = i % 3 == 0 ? MOST / 2 : CHUNK / 16;
            const uint32_t most = seed % 3 == 0 ? MOST : part;
            sizes[i] = 1 + (uint32_t)(next_random(&random) % most);
            wanted += (sizes[i] + GRANULE - 1) / GRANULE;
            small += sizes[i] <= CHUNK / 16;
        }
        some_are_small |= wanted < 96 && small != 0;
        all_are_packed |= wanted >= 96 && small != 0;
        const wh_launch one = grid(device, 1, 32), alone = grid(device, 1, 1);
        assert_int_equal(cut(&one, &a), WH_OK);
        for (uint32_t i = 0; i < 32; i++) {
            assert_non_null(a.ptrs[i]);
            assert_true(a.usable[i] >= sizes[i]);
            const uint32_t chunk = (uint32_t)((a.ptrs[i] - a.heap.base) / CHUNK);
            const int packed = wh_tessera_is_pack(a.heap.tags[chunk]);
            assert_int_equal(packed, sizes[i] > CHUNK / 16 || wanted >= 96);
            if (packed) {
                if (last != 32) {
                    assert_ptr_equal(a.ptrs[i], a.ptrs[last] + a.usable[last]);
                    assert_true(a.usable[last] < sizes[last] + GRANULE);
                }
                total += (uint32_t)a.usable[i];
                in_pack++;
                last = i;
            }
        }
        assert_true(in_pack > 4);
        assert_int_equal(total % CHUNK, 0);
        assert_true(a.usable[last] < sizes[last] + CHUNK);
        a.first = last;
        while (a.usable[a.first] == GRANULE ||
               !wh_tessera_is_pack(a.heap.tags[(a.ptrs[a.first] - a.heap.base) / CHUNK])) {
            a.first = (a.first + 1) % 32;
        }
        for (uint32_t life = 0; life < 2; life++) { /* the second one in the same chunks */
            const unsigned char *const before = a.ptrs[last];
            a.heap.shards[0].pack_ticket = 0;
            assert_true(life == 0 || cut(&one, &a) == WH_OK);
            assert_ptr_equal(a.ptrs[last], before);
            is_sound(heap, 32, 3 * life);
            assert_int_equal(free_wrong(&alone, &a), WH_OK);
            is_sound(heap, 31, 3 * life + 3);
            a.step = 2 * (uint32_t)seed + 1;
            assert_int_equal(free_one_by_one(&alone, &a), WH_OK);
            is_sound(heap, 0, 3 * life + 3);
        }
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
    assert_true(some_are_small && all_are_packed);
}

WH_KERNEL(free_together, cut_args, a) {
    wh_free_lanes(a.heap, ~0u, a.ptrs[wh_lane_id()]);
}

/* Lanes that ask for 0 bytes get NULL, which is no failure, whatever way the others of their warp
 * go: a pack, cursors, both, a slab of their own; and they take nothing. */
static void test_lanes_that_want_nothing(void **state) {
    (void)state;
    static const uint32_t zeros[] = {1, 0x80000000u, 0xffff0000u, 0xfffffffeu, ~0u, 0};
    static const uint32_t kinds[][2] = {{200, 500}, {1, 500}, {1, 60}, {512, 512}, {400, 400}};
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    cut_args a;
    memset(&a, 0, sizeof a);
    wh_heap *heap = make_heap(device, 8 << 20, &a.heap);
    uint32_t *sizes = take_lanes(device, &a);
    const wh_launch one = grid(device, 1, 32);
    assert_true(wh_tessera_is_warp_slab_(512, a.heap.core.max_warp_slab));
    for (uint32_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (uint32_t z = 0; z < sizeof zeros / sizeof *zeros; z++) {
            for (uint32_t i = 0; i < 32; i++) {
                const uint32_t n = kinds[k][0] + i * (kinds[k][1] - kinds[k][0]) / 31;
                sizes[i] = (zeros[z] >> i & 1) != 0 ? 0 : n;
            }
            assert_int_equal(cut(&one, &a), WH_OK);
            for (uint32_t i = 0; i < 32; i++) {
                assert_int_equal(a.ptrs[i] == NULL, sizes[i] == 0);
                assert_true(a.usable[i] >= sizes[i] && (sizes[i] != 0 || a.usable[i] == 0));
            }
            wh_stats stats;
            is_sound(heap, wh_popc32(~zeros[z]), 0);
            assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
            assert_int_equal(stats.failed, 0);
            assert_int_equal(free_together(&one, &a), WH_OK);
            is_sound(heap, 0, 0);
        }
    }
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* 16 lanes or more of one class, all of a warp or not, have a pack only if blocks of it are as long
 * as the class's slots, or hardly longer. */
static void test_packs_of_one_class(void **state) {
    (void)state;
    uint32_t exact = 0, whole = 0, others = 0;
    for (uint32_t c = 0; wh_tessera_bound(c) <= MOST; c++) {
        for (uint32_t lanes = 32; lanes >= 16; lanes -= 8) {
            cut_args a;
            wh_device *device = open_policy(WH_SIM_RANDOM, c + 1);
            memset(&a, 0, sizeof a);
            wh_heap *heap = make_heap(device, 4 << 20, &a.heap);
            uint32_t *sizes = take_lanes(device, &a);
            const uint32_t bound = wh_tessera_bound(c),
                           least = c == 0 ? 1 : wh_tessera_bound(c - 1);
            const uint32_t granules = (bound + GRANULE - 1) / GRANULE;
            for (uint32_t i = 0; i < lanes; i++) {
                sizes[i] = bound - i % (bound - least); /* of the class */
            }
            const wh_launch one = grid(device, 1, 32);
            assert_int_equal(cut(&one, &a), WH_OK);
            const uint32_t chunk = (uint32_t)((a.ptrs[0] - a.heap.base) / CHUNK);
            const int packed = wh_tessera_is_pack(a.heap.tags[chunk]);
            const int is_whole = lanes == 32 && (a.heap.warp_slabs >> c & 1) != 0;
            const int is_exact = granules * GRANULE * 16 <= bound * 17;
            const int is_large = bound > 2 * GRANULE;
            assert_int_equal(packed, is_exact && is_large && !is_whole);
            exact += packed != 0;
            whole += is_whole != 0;
            others += !packed && !is_whole && is_large;
            for (uint32_t i = 1; packed && i < lanes; i++) {
                assert_ptr_equal(a.ptrs[i], a.ptrs[i - 1] + a.usable[i - 1]);
                assert_true(a.usable[i - 1] <= granules * GRANULE);
                assert_true(a.usable[i] >= sizes[i]);
            }
            is_sound(heap, lanes, 0);
            assert_int_equal(free_together(&one, &a), WH_OK);
            is_sound(heap, 0, 0);
            wh_heap_destroy(heap);
            wh_device_close(device);
        }
    }
    assert_true(exact != 0 && whole != 0 && others != 0); /* otherwise this tests nothing */
}

/* A warp of one class for which there is no place gets packs of half of it, or of a quarter, as
 * there are places for these; or slots, if there are none. */
static void test_packs_in_parts(void **state) {
    static const struct {
        uint64_t rows;  /* that are free, in each word of the pool */
        uint32_t lanes; /* of a pack then */
    } cases[] = {
        {0x000fff00000fff00, 32}, {0x00ff00ff00ff00ff, 16}, {0x0f0f0f0f0f0f0f0f, 8}, {0, 0}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            cut_args a;
            wh_device *device = open_policy(WH_SIM_RANDOM, seed);
            memset(&a, 0, sizeof a);
            wh_heap *heap = make_heap(device, 1 << 20, &a.heap);
            const wh_tessera_core g = a.heap.core;
            const wh_veb pool = wh_tessera_pool_(g);
            uint32_t *sizes = take_lanes(device, &a);
            for (uint32_t i = 0; i < 32; i++) {
                sizes[i] = 12 * GRANULE; /* 12 chunks together */
            }
            const uint32_t n_words = (g.n_chunks + 63) >> 6;
            uint64_t *taken = take(device, n_words * sizeof *taken);
            for (uint32_t w = 0; w < n_words; w++) {
                taken[w] = *wh_veb_word(pool, w) & ~cases[k].rows;
                *wh_veb_word(pool, w) &= cases[k].rows;
            }
            const wh_launch one = grid(device, 1, 32);
            assert_int_equal(cut(&one, &a), WH_OK);
            for (uint32_t i = 0; i < 32; i++) {
                const uint64_t tag = a.heap.tags[(a.ptrs[i] - g.base) / CHUNK];
                assert_non_null(a.ptrs[i]);
                assert_int_equal(wh_tessera_is_pack(tag), cases[k].lanes != 0);
                if (cases[k].lanes != 0) {
                    assert_int_equal(wh_tessera_pack_slots(tag), cases[k].lanes);
                    assert_int_equal(a.usable[i], 12 * GRANULE);
                    assert_true(i % cases[k].lanes == 0 ||
                                a.ptrs[i] == a.ptrs[i - 1] + 12 * GRANULE);
                }
            }
            for (uint32_t w = 0; w < n_words; w++) {
                *wh_veb_word(pool, w) |= taken[w];
                if (taken[w] != 0) {
                    wh_veb_filled(pool, w);
                }
            }
            is_sound(heap, 32, 0);
            assert_int_equal(free_together(&one, &a), WH_OK);
            is_sound(heap, 0, 0);
            wh_heap_destroy(heap);
            wh_device_close(device);
        }
    }
}

typedef struct full_args {
    wh_heap_ref heap;
    void **ptrs;     /* all blocks, as they were got */
    uint32_t *sizes; /* bytes that each can hold */
    uint32_t *n;
    uint32_t *wrong, *tried, *small;
    uint32_t most, seed;
} full_args;

WH_FN void keep_block(const full_args *a, void *p) {
    const uint32_t at = wh_fetch_add_u32_relaxed(a->n, 1);
    if (at < a->most) {
        a->ptrs[at] = p;
        a->sizes[at] = (uint32_t)wh_usable_size(a->heap, p);
    }
}

/* Warps take packs until there is no chunk left; then each lane takes whatever there is. */
WH_KERNEL(fill, full_args, a) {
    uint32_t random = a.seed * 7919u + (uint32_t)wh_thread_id() * 104729u + 1u;
    void *p;
    do {
        random = random * 1664525u + 1013904223u;
        p = wh_malloc_lanes(a.heap, ~0u, 1 + (random >> 8) % MOST);
        if (p != NULL) {
            keep_block(&a, p);
        }
    } while (wh_all(~0u, p != NULL));
    for (uint32_t size = CHUNK; size != 0; size -= 16) {
        while ((p = wh_malloc(a.heap, size)) != NULL) {
            keep_block(&a, p);
        }
    }
}

/* One lane frees each block of a pack in turn: what it held, and no more, can be had again, and
 * then nothing. A small request does not get it unless it was for one. */
WH_KERNEL(again, full_args, a) {
    for (uint32_t i = 0; i < *a.n; i++) {
        const uint32_t chunk =
            (uint32_t)((uint64_t)((unsigned char *)a.ptrs[i] - a.heap.base) / CHUNK);
        if (!wh_tessera_is_pack(wh_load_u64_relaxed(&a.heap.tags[chunk]))) {
            continue;
        }
        const uint32_t c = wh_tessera_serves_(a.heap.core, a.sizes[i]);
        const uint32_t size = wh_tessera_bound(c);
        ++*a.tried;
        *a.small += size <= CHUNK / 16;
        wh_free(a.heap, a.ptrs[i]);
        *a.wrong += size > CHUNK / 16 && wh_malloc(a.heap, 1 + i % (CHUNK / 16)) != NULL;
        /* Looks in vain are no takes: with those of many lanes NULL (X1) would never come. */
        const wh_tessera_shard *takes = wh_tessera_shard_at_(a.heap.core, 0);
        *a.wrong += size < CHUNK && wh_malloc(a.heap, size + 1) != NULL; /* clears its list */
        const uint32_t before = wh_load_u32_relaxed(&takes->takes_begun);
        *a.wrong += size < CHUNK && wh_malloc(a.heap, size + 1) != NULL;
        *a.wrong += wh_load_u32_relaxed(&takes->takes_begun) != before;
        /* It lies at a multiple of a granule. No slot is free, so there is none at one of more. */
        const uint32_t align = size >= 256 ? 256 : 128;
        *a.wrong += wh_aligned_alloc(a.heap, size > MOST ? MOST : align, 16) != NULL;
        void *p = wh_malloc(a.heap, size);
        *a.wrong += p != a.ptrs[i];
        *a.wrong += wh_malloc(a.heap, size) != NULL;
    }
}

/* Takes all packs off their list, as if the frees that list them were still on their way. */
WH_FN void unlist(wh_tessera_core g) {
    const wh_veb list = wh_tessera_partial_list_(g, g.n_classes);
    for (uint64_t w = 0; w < wh_veb_words(list.n); w++) { /* summaries, too */
        wh_store_u64_relaxed(wh_veb_word(list, w), 0);
    }
}

/* One lane, with a long block free all the time, frees two short ones of a class: small requests
 * find both by searches alone, and what the first search says is not that there is nothing (X1). */
WH_KERNEL(unlisted, full_args, a) {
    const wh_tessera_core g = a.heap.core;
    uint32_t long_one = *a.n, last[WH_TESSERA_CLASSES]; /* short ones, of each class */
    for (uint32_t i = 0; i < WH_TESSERA_CLASSES; i++) {
        last[i] = *a.n;
    }
    for (uint32_t i = 0; i < *a.n; i++) {
        const uint32_t chunk = (uint32_t)((uint64_t)((unsigned char *)a.ptrs[i] - g.base) / CHUNK);
        const uint32_t c = wh_tessera_serves_(g, a.sizes[i]), size = wh_tessera_bound(c);
        if (!wh_tessera_is_pack(wh_load_u64_relaxed(&a.heap.tags[chunk]))) {
            continue;
        }
        if (size > CHUNK / 16) {
            if (long_one == *a.n) {
                wh_free(a.heap, a.ptrs[i]);
                long_one = i;
            }
            continue;
        }
        const uint32_t other = last[c];
        last[c] = i;
        if (other == *a.n) {
            continue;
        }
        ++*a.small;
        wh_free(a.heap, a.ptrs[i]);
        wh_free(a.heap, a.ptrs[other]);
        void *got[3];
        for (uint32_t k = 0; k < 3; k++) {
            unlist(g);
            got[k] = wh_malloc(a.heap, size);
        }
        const uint32_t first = got[0] == a.ptrs[i] ? 0 : 1;
        *a.wrong += got[first] != a.ptrs[i] || got[1 - first] != a.ptrs[other] || got[2] != NULL;
    }
    unlist(g);
    *a.wrong += wh_malloc(a.heap, wh_tessera_bound(wh_tessera_serves_(g, a.sizes[long_one]))) !=
                a.ptrs[long_one];
}

/* Every other block is free. A lane alone takes one for four granules of a pack, gives it back, and
 * does so again in the same turn of the slow path, and in the next one; sizes: the chunks. */
WH_KERNEL(in_turn, full_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    for (uint32_t i = 0; i < *a.n; i += 2) {
        wh_free(a.heap, a.ptrs[i]);
    }
    for (uint32_t k = 0; k < 3; k++) {
        const wh_tessera_grant grant =
            wh_tessera_take_packed_(g, wh_activemask(), wh_tessera_my_shard_(a.heap), 4, k / 2);
        a.sizes[k] =
            grant.bits != 0 ? (uint32_t)((grant.at & ~WH_TESSERA_BLOCK) >> 16) : UINT32_MAX;
        if (grant.bits != 0) {
            wh_free(a.heap, wh_tessera_granted_block_(g, grant));
        }
    }
}

WH_KERNEL(free_all, full_args, a) {
    for (uint32_t i = (uint32_t)wh_thread_id(); i < *a.n; i += (uint32_t)wh_grid_threads()) {
        wh_free(a.heap, a.ptrs[i]);
    }
}

/* In an exhausted heap a freed block of a pack is found (X1), with as much as it had. */
static void test_a_full_heap_gives_blocks_again(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        full_args a;
        wh_stats stats;
        wh_device *device = open_policy(seed % 2 == 0 ? WH_SIM_RANDOM : WH_SIM_STICKY, seed);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, 160 << 10, &a.heap);
        a.most = 16384;
        a.seed = (uint32_t)seed;
        a.ptrs = take(device, a.most * sizeof *a.ptrs);
        a.sizes = take(device, a.most * sizeof *a.sizes);
        a.n = take(device, sizeof *a.n);
        a.wrong = take(device, sizeof *a.wrong);
        a.tried = take(device, sizeof *a.tried);
        a.small = take(device, sizeof *a.small);
        const wh_launch all = grid(device, WARPS, 32), alone = grid(device, 1, 1);
        assert_int_equal(fill(&all, &a), WH_OK);
        assert_true(*a.n < a.most);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.largest_free, 0);
        is_sound(heap, *a.n, 0);
        assert_int_equal(again(&alone, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_true(*a.tried > 100);
        assert_true(*a.small > 10);
        is_sound(heap, *a.n, 0);
        *a.small = 0;
        assert_int_equal(unlisted(&alone, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_true(*a.small > 10);
        is_sound(heap, *a.n, 0);
        assert_int_equal(free_all(&all, &a), WH_OK);
        is_sound(heap, 0, 0);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_true(stats.largest_free > stats.heap_bytes / 2);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* Who has been to partial packs in vain looks at others in the next turn. */
static void test_turns(void **state) {
    (void)state;
    full_args a;
    wh_device *device = open_policy(WH_SIM_STICKY, 1);
    memset(&a, 0, sizeof a);
    wh_heap *heap = make_heap(device, 320 << 10, &a.heap);
    a.most = 16384;
    a.seed = 1;
    a.ptrs = take(device, a.most * sizeof *a.ptrs);
    a.sizes = take(device, a.most * sizeof *a.sizes);
    a.n = take(device, sizeof *a.n);
    const wh_launch all = grid(device, WARPS, 32), alone = grid(device, 1, 1);
    assert_int_equal(fill(&all, &a), WH_OK);
    assert_int_equal(in_turn(&alone, &a), WH_OK);
    assert_true(a.sizes[0] != UINT32_MAX && a.sizes[2] != UINT32_MAX);
    assert_int_equal(a.sizes[0], a.sizes[1]);
    assert_true(a.sizes[0] != a.sizes[2]);
    is_sound(heap, *a.n / 2, 0);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* A search looks at a pack while it is cut: its tag tells of more blocks than the tags say the
 * starts of. */
WH_KERNEL(look_at_unfinished, full_args, a) {
    const wh_tessera_core g = a.heap.core;
    const uint32_t chunk = g.n_chunks - 1;
    uint64_t *tag = wh_tessera_tag_at_(g, chunk);
    const uint64_t before = *tag;
    *tag = wh_tessera_pack_tag(3, 0, 0, 1, 1); /* three blocks, of which one starts here */
    *a.wrong = wh_tessera_free_in_(g, chunk, *tag, 1) != 1u << (WH_TESSERA_GRANULES - 1);
    *a.wrong += wh_tessera_free_in_(g, chunk, *tag, 4) != 0;
    *tag = before;
}

static void test_an_unfinished_pack(void **state) {
    full_args a;
    (void)state;
    wh_device *device = open_policy(WH_SIM_ROUND_ROBIN, 1);
    memset(&a, 0, sizeof a);
    wh_heap *heap = make_heap(device, 160 << 10, &a.heap);
    a.wrong = take(device, sizeof *a.wrong);
    const wh_launch alone = grid(device, 1, 1);
    assert_int_equal(look_at_unfinished(&alone, &a), WH_OK);
    assert_int_equal(*a.wrong, 0);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

typedef struct storm_args {
    wh_heap_ref heap;
    uint64_t *mailbox; /* blocks, whose first word is how many words they have */
    uint32_t *wrong;
    uint32_t slots, steps, seed;
} storm_args;

/* Full warps take blocks of all sizes, write them, and swap them against others' blocks, which they
 * verify and free; now and then a lane takes one alone. */
WH_KERNEL(storm, storm_args, a) {
    uint64_t random = a.seed * 7919u + wh_thread_id() * 104729u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t r = (uint32_t)(random >> 33);
        const uint32_t words = 2 + r % (CHUNK / 8);
        uint64_t *p = step % 4 == 3 && r % 2 != 0
                          ? NULL
                          : (uint64_t *)wh_malloc_lanes(a.heap, wh_activemask(), words * 8);
        if (step % 4 != 3) {
            wh_syncwarp(~0u);
            uint64_t *q = (uint64_t *)wh_malloc_lanes(a.heap, ~0u, words * 8);
            wh_free(a.heap, p);
            p = q;
        }
        for (uint32_t k = 0; p != NULL && k < words; k++) {
            p[k] = k == 0 ? words : (uint64_t)(uintptr_t)p + k;
        }
        uint64_t *old = (uint64_t *)(uintptr_t)wh_exchange_u64_acq_rel(
            &a.mailbox[(random >> 40) % a.slots], (uint64_t)(uintptr_t)p);
        for (uint64_t k = 1; old != NULL && k < old[0]; k++) {
            if (old[k] != (uint64_t)(uintptr_t)old + k) {
                wh_add_u32_relaxed(a.wrong, 1);
                break;
            }
        }
        wh_free(a.heap, old);
    }
}

WH_KERNEL(drain, storm_args, a) {
    for (uint32_t i = (uint32_t)wh_thread_id(); i < a.slots; i += (uint32_t)wh_grid_threads()) {
        wh_free(a.heap, (void *)(uintptr_t)a.mailbox[i]);
    }
}

static void test_a_storm(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        storm_args a;
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)(seed % N_POLICIES);
        o.seed = seed;
        wh_device *device = open_with(&o);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, 110 << 10, &a.heap);
        a.slots = 200;
        a.steps = 12;
        a.seed = (uint32_t)seed;
        a.mailbox = take(device, a.slots * sizeof *a.mailbox);
        a.wrong = take(device, sizeof *a.wrong);
        const wh_launch all = grid(device, WARPS, 32);
        assert_int_equal(storm(&all, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        wh_report report;
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        assert_int_equal(drain(&all, &a), WH_OK);
        is_sound(heap, 0, 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

/* A lane with the block of a pack: the bounds of what a tag says. */
static void test_tags(void **state) {
    (void)state;
    for (uint32_t slots = 1; slots <= 32; slots++) {
        for (uint32_t chunks = 1; chunks <= WH_TESSERA_PACK_CHUNKS; chunks++) {
            for (uint32_t at = 0; at < chunks; at++) {
                const uint32_t starts = 0x80010021u, before = slots - 1;
                const uint64_t tag = wh_tessera_pack_tag(slots, before, at, chunks, starts);
                assert_true(wh_tessera_is_pack(tag));
                assert_int_equal(wh_tessera_pack_slots(tag), slots);
                assert_int_equal(wh_tessera_pack_chunks(tag), chunks);
                assert_int_equal(wh_tessera_tag_chunks(tag), chunks);
                assert_int_equal(wh_tessera_pack_at(tag), at);
                assert_int_equal(wh_tessera_kind(tag), WH_TESSERA_INNER);
                for (uint32_t x = 0; x < CHUNK; x++) {
                    const uint32_t granule = x / GRANULE;
                    const int is = x % GRANULE == 0 && (starts >> granule & 1) != 0;
                    const uint32_t below = wh_popc32(starts & ((1u << granule) - 1));
                    assert_int_equal(wh_tessera_pack_slot(tag, 5 * CHUNK + x, 10),
                                     is ? before + below : UINT32_MAX);
                }
            }
        }
    }
    assert_false(wh_tessera_is_pack(WH_TESSERA_INNER));
    assert_false(wh_tessera_is_pack(wh_tessera_slab_tag(41, 6, 16384)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tags),
                                       cmocka_unit_test(test_blocks_lie_side_by_side),
                                       cmocka_unit_test(test_lanes_that_want_nothing),
                                       cmocka_unit_test(test_packs_of_one_class),
                                       cmocka_unit_test(test_packs_in_parts),
                                       cmocka_unit_test(test_the_smallest_block_that_will_do),
                                       cmocka_unit_test(test_packs_go_past_what_is_taken),
                                       cmocka_unit_test(test_packs_take_the_last_place),
                                       cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_a_full_heap_gives_blocks_again),
                                       cmocka_unit_test(test_an_unfinished_pack),
                                       cmocka_unit_test(test_a_storm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

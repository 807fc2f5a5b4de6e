/* tessera_warps.c: full warps of one size in heaps that they fill: slabs of their own, home chunks
 * that hold single chunks of another class, those of other shards, and the end. And cursors that a
 * search has closed, and those that more and more lanes come to. And a slab that a taker takes for
 * what it was. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define BLOCKS 8u
#define PINS 4096u /* blocks of another class, most of them freed before the others come */
#define MOST 8192u /* slots of all heaps here, at most */

typedef struct warps_args {
    wh_heap_ref heap;
    void **ptrs;     /* MOST of them */
    uint32_t *count; /* of ptrs */
    void **pins;     /* PINS of them */
    uint32_t size, seed, keep;
} warps_args;

/* Small blocks all over the front of the heap, of which a few stay: each pins a slab. */
WH_KERNEL(pin, warps_args, a) {
    void **mine = a.pins + wh_thread_id() * (PINS / (BLOCKS * 32));
    for (uint32_t i = 0; i < PINS / (BLOCKS * 32); i++) {
        mine[i] = wh_malloc(a.heap, 48);
    }
    for (uint32_t i = 0; i < PINS / (BLOCKS * 32); i++) {
        if (wh_spread32((uint32_t)wh_thread_id() * 16 + i) >> 26 != a.seed) {
            wh_free(a.heap, mine[i]);
            mine[i] = NULL;
        }
    }
}

/* Every warp mallocs for all of its lanes at once until one of them gets NULL, then each lane alone
 * until it does. */
WH_KERNEL(fill, warps_args, a) {
    void *p = NULL;
    do {
        p = wh_malloc_lanes(a.heap, ~0u, a.size);
        if (p != NULL) {
            const uint32_t at = wh_fetch_add_u32_relaxed(a.count, 1);
            if (at < MOST) {
                a.ptrs[at] = p;
            }
        }
    } while (wh_all(~0u, p != NULL));
    while ((p = wh_malloc(a.heap, a.size)) != NULL) {
        const uint32_t at = wh_fetch_add_u32_relaxed(a.count, 1);
        if (at < MOST) {
            a.ptrs[at] = p;
        }
    }
}

/* Frees all blocks but, of each `keep`, one at random. */
WH_KERNEL(thin, warps_args, a) {
    for (uint32_t i = (uint32_t)wh_thread_id(); i < MOST; i += (uint32_t)wh_grid_threads()) {
        const uint32_t random = (wh_spread32(i) + a.seed * 40503u) >> 8;
        if (a.keep == 0 || random % a.keep != 0) {
            wh_free(a.heap, a.ptrs[i]);
            a.ptrs[i] = NULL;
        }
    }
}

static int by_address(const void *x, const void *y) {
    const uintptr_t a = *(const uintptr_t *)x, b = *(const uintptr_t *)y;
    return a < b ? -1 : a > b;
}

/* The blocks of a, sorted, without the NULLs: how many, each once, in the heap. */
static uint32_t survey(warps_args *a) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < MOST; i++) {
        if (a->ptrs[i] != NULL) {
            a->ptrs[n++] = a->ptrs[i];
        }
    }
    memset(a->ptrs + n, 0, (MOST - n) * sizeof *a->ptrs);
    qsort(a->ptrs, n, sizeof *a->ptrs, by_address);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(wh_tessera_owns(a->heap, a->ptrs[i]));
        assert_true(i == 0 || (uintptr_t)a->ptrs[i] - (uintptr_t)a->ptrs[i - 1] >= a->size);
    }
    *a->count = n;
    return n;
}

/* A heap of chunks of 1 KiB. */
static wh_heap *make_heap(wh_device *device, uint64_t bytes, uint32_t shards, wh_heap_ref *handle) {
    return make_heap_of(device, 1024, bytes, shards, handle);
}

static void fill_and_thin(uint32_t shards, uint32_t size, uint64_t seed) {
    warps_args a;
    wh_device *device = open_policy(seed % 2 == 0 ? WH_SIM_RANDOM : WH_SIM_STICKY, seed);
    wh_report report;
    memset(&a, 0, sizeof a);
    wh_heap *heap = make_heap(device, 2200000, shards, &a.heap);
    /* Otherwise this tests nothing. */
    assert_true(wh_tessera_is_warp_slab_(size, a.heap.core.max_warp_slab));
    assert_int_equal(a.heap.core.n_shards, shards);
    a.ptrs = take(device, MOST * sizeof *a.ptrs);
    a.count = take(device, sizeof *a.count);
    memset(a.ptrs, 0, MOST * sizeof *a.ptrs);
    a.size = size;
    *a.count = 0;
    const wh_launch launch = {device, BLOCKS, 32, NULL};
    const uint32_t order = wh_tessera_order(a.heap.classes[wh_tessera_class_of(size)]);
    unsigned char *pinned = test_calloc(a.heap.core.n_chunks, 1);
    const uint32_t slab_log2 = wh_tessera_slab_log2(a.heap.classes[wh_tessera_class_of(48)]);
    uint32_t chunks = a.heap.core.n_chunks;
    a.pins = take(device, PINS * sizeof *a.pins);
    a.seed = (uint32_t)seed;
    assert_int_equal(pin(&launch, &a), WH_OK);
    for (uint32_t i = 0; i < PINS; i++) {
        if (a.pins[i] != NULL) {
            unsigned char *its = pinned + (((unsigned char *)a.pins[i] - a.heap.base) >> slab_log2);
            chunks -= *its == 0 ? 1u << (slab_log2 - 10) : 0;
            *its = 1;
        }
    }
    test_free(pinned);
    assert_true(chunks < a.heap.core.n_chunks - 10);
    /* Every other chunk, also those behind the last slab of 32. */
    const uint32_t fits = chunks * (1024 / size);
    assert_true(order != 0 && fits <= MOST);
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(fill(&launch, &a), WH_OK);
        assert_int_equal(survey(&a), fits);
        a.seed = (uint32_t)seed + round;
        a.keep = round == 0 ? 2 : 40; /* few are free as a whole, then most */
        assert_int_equal(thin(&launch, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        (void)survey(&a);
    }
    a.keep = 0;
    assert_int_equal(thin(&launch, &a), WH_OK);
    assert_int_equal(wh_heap_check(heap, &report), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

static void test_full_warps(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        fill_and_thin(1, 512, seed);
        fill_and_thin(2, 512, seed);
        fill_and_thin(4, 512, seed);
    }
}

typedef struct last_args {
    wh_heap_ref heap;
    void **ptrs;
    uint32_t size;
} last_args;

WH_KERNEL(take_last, last_args, a) {
    a.ptrs[wh_lane_id()] = wh_malloc_lanes(a.heap, ~0u, a.size);
}

/* A full warp finds the only chunks that are left, in whichever word of the pool, of another shard
 * or in the front of the heap. */
static void the_last_place(uint64_t bytes, uint32_t size) {
    for (uint32_t seed = 0; seed < 20; seed++) {
        last_args a;
        wh_device *device = open_policy(WH_SIM_RANDOM, seed + 1);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, bytes, 2, &a.heap);
        const wh_tessera_core g = a.heap.core;
        const wh_veb pool = wh_tessera_pool_(g);
        assert_int_equal(g.max_warp_slab, size);
        a.size = size;
        a.ptrs = take(device, 32 * sizeof *a.ptrs);
        const uint32_t order = wh_log2_floor(a.size) + 5 - g.chunk_log2;
        const uint32_t words = g.n_chunks >> 6;
        assert_in_range(words, 8, 33);
        const uint32_t word = seed * 7 % words;
        const uint32_t at = (seed % (64 >> order)) << order;
        for (uint32_t k = 0; k < wh_veb_words(g.n_chunks); k++) { /* the words above, too */
            *wh_veb_word(pool, k) = 0;
        }
        *wh_veb_word(pool, word) = wh_tessera_order_mask_(at, order);
        wh_veb_filled(pool, word);
        const wh_launch one = grid(device, 1, 32);
        assert_int_equal(take_last(&one, &a), WH_OK);
        for (uint32_t i = 0; i < 32; i++) {
            assert_ptr_equal(a.ptrs[i], g.base + ((uint64_t)(word << 6 | at) << g.chunk_log2) +
                                            (uint64_t)i * a.size);
        }
        assert_int_equal(*wh_veb_word(pool, word), 0);
        for (uint32_t shard = 0; shard < g.n_shards; shard++) { /* not by way of a cursor */
            assert_int_equal(wh_tessera_shard_at_(g, shard)->attached, 0);
        }
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

static void test_the_last_place(void **state) {
    (void)state;
    the_last_place(2 << 20, 512);
    the_last_place(2200000, 1024); /* its slab has 32 chunks, half of a word */
}

/* Where a shard's home chunks are taken a full warp gets the next one of one of the shards behind
 * it. */
static void test_places_of_the_next_sets(void **state) {
    (void)state;
    for (uint32_t left = 0; left < WH_TESSERA_WARP_SLAB_TRIES; left++) {
        last_args a;
        wh_device *device = open_policy(WH_SIM_RANDOM, left + 1);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, 2200000, WH_TESSERA_WARP_SLAB_TRIES, &a.heap);
        const wh_tessera_core g = a.heap.core;
        a.size = 512;
        a.ptrs = take(device, 32 * sizeof *a.ptrs);
        const uint32_t order = wh_log2_floor(a.size) + 5 - g.chunk_log2;
        assert_int_equal(g.n_shards, WH_TESSERA_WARP_SLAB_TRIES);
        for (uint32_t k = 0; k < (g.home_chunks >> 6) * g.n_shards; k++) {
            if (k % g.n_shards != left) {
                *wh_veb_word(wh_tessera_pool_(g), (g.begin >> 6) + k) = 0;
            }
        }
        const wh_launch one = grid(device, 1, 32);
        for (uint32_t ticket = 0; ticket < 3; ticket++) {
            const uint32_t slab = wh_tessera_home(g, left, ticket, order);
            assert_int_equal(take_last(&one, &a), WH_OK);
            for (uint32_t i = 0; i < 32; i++) {
                assert_ptr_equal(a.ptrs[i],
                                 g.base + ((uint64_t)slab << g.chunk_log2) + (uint64_t)i * a.size);
            }
        }
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

typedef struct closed_args {
    wh_heap_ref heap;
    uint64_t *spans; /* out: the cursor's words after each malloc */
    uint32_t which;  /* the word that has slots when the search comes */
    uint32_t n;
} closed_args;

/* What a lane alone that wants a block of class c gets from shard 0 when its add to the first word
 * of the cursor has returned v. */
WH_FN void *after_first(wh_tessera_ref h, uint32_t c, uint64_t v) {
    const wh_mask me = wh_activemask();
    wh_tessera_shard *own_shard = &h.shards[0];
    uint32_t attach = 0;
    void *p = wh_tessera_spare_(h, &own_shard->cursors[c], h.classes[c], me, wh_group_by_u32(me, c),
                                1, &attach, &v, NULL);
    return p != NULL && attach == 0
               ? p
               : wh_tessera_ask_(wh_tessera_core_of_(h), own_shard, 0, me, 0, c, attach, v, p, 64);
}

/* One lane uses the cursor of class 64, has it closed as a search for memory of another class
 * would, and goes on. */
WH_KERNEL(close_and_go_on, closed_args, a) {
    const uint32_t c = wh_tessera_class_of(64);
    wh_tessera_cursor *cursor = wh_tessera_cursor_at_(a.heap.core, 0, c);
    void *p = wh_malloc(a.heap, 64);
    if (a.which != 0) { /* as who finds the first word used up */
        wh_free(a.heap, p);
        p = after_first(a.heap, c, wh_tessera_span(0, 1, 2));
    }
    wh_free(a.heap, p);
    (void)wh_tessera_detach_(wh_tessera_core_of_(a.heap), wh_activemask(), 0);
    a.spans[0] = cursor->span;
    a.spans[1] = cursor->spare;
    for (uint32_t i = 1; i < a.n; i++) {
        wh_free(a.heap, wh_malloc(a.heap, 64));
        a.spans[2 * i] = cursor->span;
        a.spans[2 * i + 1] = cursor->spare;
    }
}

/* A closed cursor costs every malloc the slow path, so it must not stay so: the first word has a
 * span again with the next malloc, and the second is not closed once that has been replaced. */
static void test_closed_cursors_open_again(void **state) {
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        closed_args a;
        wh_report report;
        wh_device *device = open_policy(WH_SIM_RANDOM, 1);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, 1 << 20, 1, &a.heap);
        a.n = 5000; /* more than a span has slots */
        a.which = which;
        a.spans = take(device, a.n * 2 * sizeof *a.spans);
        const wh_launch launch = {device, 1, 1, NULL};
        assert_int_equal(close_and_go_on(&launch, &a), WH_OK);
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        assert_int_equal(wh_tessera_span_first(a.spans[which]), WH_TESSERA_CLOSED_CHUNK);
        assert_int_not_equal(wh_tessera_span_first(a.spans[2]), WH_TESSERA_CLOSED_CHUNK);
        assert_int_not_equal(wh_tessera_span_slots(a.spans[2]), 0);
        for (uint32_t i = 2 * a.n - 2; i < 2 * a.n; i++) {
            assert_int_not_equal(wh_tessera_span_first(a.spans[i]), WH_TESSERA_CLOSED_CHUNK);
        }
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

typedef struct late_args {
    wh_heap_ref heap;
    uint32_t *in_pool; /* out: whether the slab has gone back */
    uint32_t *wrong;   /* out */
    uint32_t keeps;    /* of its slots, all of which have been handed out; the others are freed */
    int gives;
} late_args;

/* A taker that knows a slab from an earlier life, in which it had more slots, takes one of the bits
 * past its last slot when slot 0 is freed, and gives it back when it has looked at the tag.
 * Meanwhile slots are freed, and asked for. */
WH_KERNEL(late_taker, late_args, a) {
    const wh_tessera_core g = a.heap.core;
    const uint32_t c = wh_tessera_class_of(512);
    unsigned char *p = (unsigned char *)wh_malloc(a.heap, 512);
    const uint32_t slab = (uint32_t)((uint64_t)(p - g.base) >> g.chunk_log2);
    const uint64_t tag = *wh_tessera_tag_at_(g, slab);
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    uint64_t *word = wh_tessera_words_of_(g, slab);
    for (uint32_t i = 1; i < slots; i++) {
        (void)wh_malloc(a.heap, 512);
    }
    *a.wrong = *word != 0; /* no bit to take before the first free */
    for (uint32_t i = 0; i + a.keeps < slots; i++) {
        if (a.gives) { /* as another such taker */
            wh_tessera_give_(
                g, 0, slab, tag, 0,
                wh_tessera_with_tail((uint64_t)1 << i, wh_tessera_tail_bits(slots, 0)));
        } else {
            wh_free(a.heap, p + (uint64_t)i * 512);
        }
        if (i == 0) {
            const uint64_t bit = (uint64_t)1 << slots;
            *a.wrong += (wh_fetch_and_u64_acq_rel(word, ~bit) & bit) == 0;
            *a.wrong += wh_tessera_take_from_(g, 0, c, slab, 1, 0).bits != 0;
        }
    }
    if (slots > a.keeps + 1) {
        const uint64_t bits = wh_tessera_take_from_(g, 0, c, slab, slots, 0).bits;
        *a.wrong += bits != (((uint64_t)1 << (slots - a.keeps)) - 1) - 1; /* all but slot 0 */
        wh_tessera_give_(g, 0, slab, tag, 0, bits);
    }
    wh_tessera_give_(g, 0, slab, tag, 0, (uint64_t)1 << slots);
    *a.in_pool = (uint32_t)wh_veb_contains(wh_tessera_pool_(g), slab);
}

/* T1, I6, I4: what is freed meanwhile must be on the partial list, nobody may have slot 0, and the
 * slab go back if it is all free. */
static void test_a_late_taker(void **state) {
    const uint32_t keeps[] = {0, 1, 15};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof keeps / sizeof *keeps; i++) {
        late_args a;
        wh_report report;
        wh_device *device = open_policy(WH_SIM_RANDOM, 1);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, 1 << 20, 1, &a.heap);
        a.keeps = keeps[i / 2];
        a.gives = i % 2;
        a.in_pool = take(device, sizeof *a.in_pool);
        a.wrong = take(device, sizeof *a.wrong);
        const wh_launch launch = {device, 1, 1, NULL};
        assert_int_equal(late_taker(&launch, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_int_equal(*a.in_pool, a.keeps == 0);
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

typedef struct late_words_args {
    wh_heap_ref heap;
    uint32_t *in_pool; /* out: whether the slab has gone back */
    uint32_t *wrong;   /* out */
    uint32_t size;     /* of slots */
    uint32_t keeps;    /* of the slab's last slots, fewer than its last word has */
    uint32_t late;     /* which bit, from the end of the last word on: 0 is its last one */
    int first;         /* not such a bit, but that of the word's first slot alone */
} late_words_args;

/* All slots that can be had of the slab, by takers that enter or not; they are given back. Adds to
 * *wrong if slot `except` is one of them, or one was handed out twice. */
WH_FN uint32_t count_slots(late_words_args a, uint32_t slab, uint64_t tag, int enters,
                           uint32_t except) {
    const wh_tessera_core g = a.heap.core;
    const uint32_t c = wh_tessera_class_of(a.size), slots = wh_tessera_tag_slots(tag, g.chunk_log2);
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(g, 0);
    const uint64_t *words = wh_tessera_words_of_(g, slab);
    uint64_t had[16] = {0};
    uint32_t n = 0, idle = 0;
    while (idle < 8) { /* takers that do not enter look at any partial slab */
        wh_store_u32_relaxed(&own_shard->pool_was_empty, 1);
        wh_store_u32_relaxed(wh_tessera_reuse_at_(own_shard, c), slab + 1);
        const wh_tessera_grant grant =
            enters ? wh_tessera_take_from_(g, 0, c, slab, 3, 0)
                   : wh_tessera_take_each_(wh_tessera_core_of_(a.heap), own_shard, 0, c, 3);
        const uint64_t word = grant.at - (uint64_t)(words - wh_tessera_words_of_(g, 0));
        idle = grant.bits == 0 ? idle + 1 : 0;
        if (grant.bits != 0) {
            *a.wrong += word >= (slots + 63) / 64 || (had[word & 15] & grant.bits) != 0;
            *a.wrong += (grant.bits & ~wh_tessera_slot_bits(slots, (uint32_t)word)) != 0;
            *a.wrong += word == except / 64 && (grant.bits >> except % 64 & 1) != 0;
            had[word & 15] |= grant.bits;
            n += wh_popc64(grant.bits);
        }
    }
    for (uint32_t i = 0; i < (slots + 63) / 64; i++) {
        if (had[i] != 0) {
            wh_tessera_give_(g, 0, slab, tag, i,
                             wh_tessera_with_tail(had[i], wh_tessera_tail_bits(slots, i)));
        }
    }
    return n;
}

/* The same of a slab of several words, of which the last one has fewer slots than 64. */
WH_KERNEL(late_taker_of_words, late_words_args, a) {
    const wh_tessera_core g = a.heap.core;
    const uint32_t c = wh_tessera_class_of(a.size), none = UINT32_MAX;
    unsigned char *p = (unsigned char *)wh_malloc(a.heap, a.size);
    const uint32_t slab = (uint32_t)((uint64_t)(p - g.base) >> g.chunk_log2);
    const uint64_t tag = *wh_tessera_tag_at_(g, slab);
    const uint32_t slots = wh_tessera_tag_slots(tag, g.chunk_log2), last = slots / 64;
    const uint32_t size = wh_tessera_tag_size(tag), first = 64 * last,
                   item = wh_tessera_item(g.n_chunks, slab);
    const uint32_t in_last = slots - first;
    const wh_veb list = wh_tessera_partial_list_(g, c);
    uint64_t *words = wh_tessera_words_of_(g, slab);
    const uint64_t bit = (uint64_t)1 << (a.first ? 0 : 63 - a.late);
    wh_add_u32_relaxed(&wh_tessera_shard_at_(g, 0)->takes_begun, 32); /* see take_each_ */
    wh_add_u32_relaxed(&wh_tessera_shard_at_(g, 0)->takes_done, 32);
    for (uint32_t i = 1; i < slots; i++) {
        *a.wrong += wh_malloc(a.heap, a.size) != p + (uint64_t)i * size;
    }
    *a.wrong += last == 0 || in_last == 0 || (!a.first && 63 - a.late < in_last);
    for (uint32_t i = 0; i <= last; i++) { /* no bit to take before the first free */
        *a.wrong += words[i] != 0;
    }
    wh_free(a.heap, p + (uint64_t)first * size);
    *a.wrong += words[last] != (wh_tessera_tail_bits(slots, last) | 1);
    *a.wrong += !wh_veb_contains(list, item);
    *a.wrong += (wh_fetch_and_u64_acq_rel(&words[last], ~bit) & bit) == 0;
    *a.wrong += count_slots(a, slab, tag, 1, first) != 0;
    *a.wrong += count_slots(a, slab, tag, 0, first) != 0;
    if (!a.first) { /* a taker takes it off the list, and finds nothing to take: it puts it back */
        *a.wrong += !wh_veb_remove(list, item);
        *a.wrong += wh_tessera_take_from_(g, 0, c, slab, 1, 1).bits != 0;
        *a.wrong += !wh_veb_contains(list, item);
    }
    if (a.first) { /* nothing that it has is a slot: it need not be on the list, */
        (void)wh_veb_remove(list, item);
    }
    if (in_last > a.keeps + 1) {
        wh_free(a.heap, p + (uint64_t)(first + 1) * size); /* but now */
    }
    *a.wrong += in_last > a.keeps + 1 && !wh_veb_contains(list, item);
    for (uint32_t i = 0; i + a.keeps < slots; i++) {
        wh_free(a.heap, i == first || i == first + 1 ? NULL : p + (uint64_t)i * size);
    }
    *a.wrong += wh_veb_contains(wh_tessera_pool_(g), slab) != 0;
    *a.wrong += count_slots(a, slab, tag, 1, first) != slots - a.keeps - 1;
    *a.wrong += count_slots(a, slab, tag, 0, first) != in_last - a.keeps - 1; /* others are empty */
    *a.wrong += !wh_veb_contains(list, item) || wh_veb_contains(wh_tessera_pool_(g), slab);
    wh_tessera_give_(g, 0, slab, tag, last, bit);
    *a.in_pool = (uint32_t)wh_veb_contains(wh_tessera_pool_(g), slab);
    if (a.keeps != 0) {
        *a.wrong += !wh_veb_contains(list, item);
        *a.wrong += count_slots(a, slab, tag, 0, none) != in_last - a.keeps;
        *a.wrong += count_slots(a, slab, tag, 1, none) != slots - a.keeps;
    }
}

/* T1, I6, I5: the first slot of the last word is not to be had, by those that enter and those that
 * do not; what is freed goes on the partial list; and the slab goes back when the taker has given
 * its bit back, if it is all free. */
static void test_a_late_taker_of_words(void **state) {
    static const struct {
        uint32_t chunk_bytes, size;
    } shapes[] = {{4096, 48}, {16384, 48}, {16384, 80}};
    static const struct {
        uint32_t keeps, late;
        int first;
    } cases[] = {{0, 0, 0},  {1, 0, 0}, {9, 0, 0}, {0, 42, 0},
                 {1, 42, 0}, {0, 0, 1}, {1, 0, 1}, {11, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            late_words_args a;
            wh_report report;
            wh_device *device = open_policy(WH_SIM_RANDOM, 1);
            memset(&a, 0, sizeof a);
            wh_heap *heap = make_heap_of(device, shapes[i].chunk_bytes,
                                         (uint64_t)shapes[i].chunk_bytes << 8, 1, &a.heap);
            a.size = shapes[i].size;
            a.keeps = cases[j].keeps;
            a.late = cases[j].late;
            a.first = cases[j].first;
            a.in_pool = take(device, sizeof *a.in_pool);
            a.wrong = take(device, sizeof *a.wrong);
            const wh_launch launch = {device, 1, 1, NULL};
            assert_int_equal(late_taker_of_words(&launch, &a), WH_OK);
            assert_int_equal(*a.wrong, 0);
            assert_int_equal(*a.in_pool, a.keeps == 0);
            assert_int_equal(wh_heap_check(heap, &report), WH_OK);
            wh_heap_destroy(heap);
            wh_device_close(device);
        }
    }
}

/* A slab that its cursor has handed nothing out of, and gives back; then a free of one of its
 * slots. */
WH_KERNEL(return_of_fresh, late_args, a) {
    const wh_tessera_core g = a.heap.core;
    unsigned char *p = (unsigned char *)wh_malloc(a.heap, 512);
    const uint32_t slab = (uint32_t)((uint64_t)(p - g.base) >> g.chunk_log2);
    const uint64_t tag = *wh_tessera_tag_at_(g, slab);
    const uint32_t fresh = slab + (1u << wh_tessera_tag_order(tag));
    *a.wrong = *wh_tessera_tag_at_(g, fresh) != tag; /* 0: there is one behind it */
    *a.wrong += *wh_tessera_words_of_(g, fresh) != 0;
    while (wh_tessera_detach_(wh_tessera_core_of_(a.heap), wh_activemask(), 0)) {
    }
    *a.wrong += !wh_veb_contains(wh_tessera_pool_(g), fresh);
    wh_free(a.heap, g.base + ((uint64_t)fresh << g.chunk_log2) + 512);
    *a.wrong += wh_tessera_shard_at_(g, 0)->bad_frees != 1;
    *a.wrong += wh_tessera_take_from_(g, 0, wh_tessera_class_of(512), fresh, 1, 0).bits != 0;
    wh_free(a.heap, p);
}

/* I2: a free of what is in the pool changes nothing. */
static void test_a_fresh_slab_goes_back(void **state) {
    (void)state;
    late_args a;
    wh_report report;
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    memset(&a, 0, sizeof a);
    wh_heap *heap = make_heap(device, 40 << 20, 1, &a.heap);
    a.wrong = take(device, sizeof *a.wrong);
    const wh_launch launch = {device, 1, 1, NULL};
    assert_int_equal(return_of_fresh(&launch, &a), WH_OK);
    assert_int_equal(*a.wrong, 0);
    assert_int_equal(wh_heap_check(heap, &report), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

typedef struct late_group_args {
    wh_heap_ref heap;
    uint32_t *turn;
    uint32_t *slab, *in_pool; /* out */
} late_group_args;

/* Such a taker, and a group that frees all other slots of the slab at once: block 0. Then block 1,
 * the taker, gives the bit back, takes all memory and writes to it. Nothing but the heap orders the
 * writes. */
WH_KERNEL(late_group, late_group_args, a) {
    const wh_tessera_core g = a.heap.core;
    const uint32_t bit = 16;
    if (wh_block_id() == 0) {
        const uint32_t lane = wh_lane_id();
        uint64_t *p = (uint64_t *)wh_malloc_lanes(a.heap, WH_FULL_WARP, lane < 16 ? 512 : 0);
        const uint32_t slab = (uint32_t)((uint64_t)((unsigned char *)p - g.base) >> g.chunk_log2);
        if (p != NULL) {
            *p = 1;
        }
        if (lane == 0) {
            *a.slab = slab;
            wh_free(a.heap, p); /* slot 0 */
            (void)wh_fetch_and_u64_relaxed(wh_tessera_words_of_(g, slab), ~((uint64_t)1 << bit));
        }
        wh_syncwarp(WH_FULL_WARP);
        wh_free_lanes(a.heap, WH_FULL_WARP, lane != 0 ? p : NULL);
        wh_syncwarp(WH_FULL_WARP);
        if (wh_lane_id() == 0) {
            wh_store_u32_relaxed(a.turn, slab + 1);
        }
    } else if (wh_lane_id() == 0) {
        uint32_t slab = 0;
        for (uint32_t i = 0; slab == 0; i++) {
            slab = wh_load_u32_relaxed(a.turn);
            wh_backoff(i);
        }
        slab--;
        const uint64_t tag = wh_load_u64_relaxed(wh_tessera_tag_at_(g, slab));
        wh_tessera_give_(g, 0, slab, tag, 0, (uint64_t)1 << bit);
        *a.in_pool = (uint32_t)wh_veb_contains(wh_tessera_pool_(g), slab);
        for (uint64_t *q; (q = (uint64_t *)wh_malloc(a.heap, 512)) != NULL;) {
            *q = 2;
        }
    }
}

/* P1: what the group wrote happens before the next owner's writes: ThreadSanitizer sees it. */
static void test_a_late_taker_of_a_whole_slab(void **state) {
    (void)state;
    late_group_args a;
    wh_report report;
    wh_device *device = open_policy(WH_SIM_RANDOM, 1);
    memset(&a, 0, sizeof a);
    wh_heap *heap = make_heap(device, 1 << 20, 1, &a.heap);
    a.turn = take(device, sizeof *a.turn);
    a.slab = take(device, sizeof *a.slab);
    a.in_pool = take(device, sizeof *a.in_pool);
    const wh_launch launch = {device, 2, 32, NULL};
    assert_int_equal(late_group(&launch, &a), WH_OK);
    assert_int_equal(*a.in_pool, 1);
    assert_int_equal(wh_heap_check(heap, &report), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* C1: of two words, which one to add to; to neither, if one has seen too many past its end. */
static void test_which_word(void **state) {
    const uint64_t has = wh_tessera_span(64, 100, 99), used_up = wh_tessera_span(64, 100, 100);
    const uint64_t passed = wh_tessera_span(64, 100, 101), closed = WH_TESSERA_CLOSED;
    const uint64_t many = wh_tessera_span(64, 100, 100 + WH_TESSERA_MOST_OVER - 1);
    const uint64_t over = wh_tessera_span(64, 100, 100 + WH_TESSERA_MOST_OVER);
    const uint64_t closed_long = WH_TESSERA_CLOSED | over >> 44 << 44;
    const struct {
        uint64_t span, spare;
        uint32_t which;
    } cases[] = {
        {has, has, 0},
        {used_up, has, 1}, /* better than becoming a refiller */
        {passed, has, 1},
        {many, has, 1},
        {closed, has, 1},
        {has, over, WH_TESSERA_NOT_YET},
        {over, has, WH_TESSERA_NOT_YET},
        {over, over, WH_TESSERA_NOT_YET},
        {closed_long, has, 1}, /* a closed word may overflow */
        {has, closed_long, 0},
        {used_up, used_up, 0},
        {passed, used_up, 1},
        {passed, WH_TESSERA_VACANT, 1},
        {passed, closed, WH_TESSERA_NOT_YET},
        {closed, passed, WH_TESSERA_NOT_YET},
        {WH_TESSERA_UNDER_WAY, passed, WH_TESSERA_NOT_YET},
        {closed, closed_long, WH_TESSERA_BOTH_CLOSED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(wh_tessera_which_(cases[i].span, cases[i].spare), cases[i].which);
    }
}

typedef struct over_args {
    wh_heap_ref heap;
    uint64_t *spare;  /* out: the word while the other lane waits, and before */
    uint32_t *waited; /* out: that lane had no block yet */
    uint32_t *turn;
    void **p;
} over_args;

/* Block 0 finds the first word of a cursor far past its end: it must not add to the spare one,
 * though that has slots, but wait for block 1, which is the first one's refiller. */
WH_KERNEL(find_over, over_args, a) {
    const uint32_t c = wh_tessera_class_of(64);
    const wh_tessera_core g = a.heap.core;
    wh_tessera_cursor *cursor = wh_tessera_cursor_at_(g, 0, c);
    if (wh_block_id() == 0) {
        while (wh_load_u32_acquire(a.turn) == 0) {
            wh_backoff(0);
        }
        const uint64_t v = wh_load_u64_relaxed(&cursor->span);
        *a.p = after_first(a.heap, c, v);
        wh_store_u32_release(a.turn, 2);
        return;
    }
    const uint64_t span = cursor->span;
    const uint64_t used = wh_tessera_span(0, 1, 2);
    void *q = after_first(a.heap, c, used);
    a.spare[0] = wh_load_u64_relaxed(&cursor->spare);
    const uint32_t far = wh_tessera_span_slots(span) + WH_TESSERA_MOST_OVER;
    cursor->span = wh_tessera_span(wh_tessera_span_first(span), wh_tessera_span_slots(span), far);
    wh_store_u32_release(a.turn, 1);
    for (uint32_t i = 0; i < 200; i++) {
        wh_backoff(0);
    }
    a.spare[1] = wh_load_u64_relaxed(&cursor->spare);
    *a.waited = wh_load_u32_acquire(a.turn) == 1;
    wh_store_u64_release(&cursor->span, span); /* as published, with slots left */
    while (wh_load_u32_acquire(a.turn) != 2) {
        wh_backoff(0);
    }
    wh_free(a.heap, q);
    wh_free(a.heap, *a.p);
}

static void test_positions_do_not_overflow(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        over_args a;
        wh_report report;
        wh_device *device = open_policy(WH_SIM_RANDOM, seed);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap(device, 1 << 20, 1, &a.heap);
        a.spare = take(device, 2 * sizeof *a.spare);
        a.waited = take(device, sizeof *a.waited);
        a.turn = take(device, sizeof *a.turn);
        a.p = take(device, sizeof *a.p);
        const wh_launch launch = {device, 2, 1, NULL};
        assert_int_equal(find_over(&launch, &a), WH_OK);
        assert_true(wh_tessera_has_slots_(a.spare[0])); /* otherwise this tests nothing */
        assert_true(a.spare[1] == a.spare[0]);
        assert_int_equal(*a.waited, 1);
        assert_non_null(*a.p);
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

WH_KERNEL(take_runs, warps_args, a) {
    a.ptrs[wh_lane_id()] = wh_malloc_lanes(a.heap, ~0u, a.size);
}

/* Every chunk of the runs that a full warp takes has its tag, whether each lane writes those of its
 * own, or all of them those of all, or those of one after the other. */
static void test_runs_have_their_tags(void **state) {
    static const uint32_t sizes[] = {2,  3,  16, 17, 24,  31,  32,  33,
                                     47, 63, 64, 65, 100, 128, 129, 150};
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        warps_args a;
        wh_report report;
        wh_stats stats;
        wh_device *device = open_policy(WH_SIM_RANDOM, k + 1);
        memset(&a, 0, sizeof a);
        wh_heap *heap = make_heap_of(device, 1024, 16 << 20, 2, &a.heap);
        const wh_tessera_core g = a.heap.core;
        a.ptrs = take(device, 32 * sizeof *a.ptrs);
        a.size = sizes[k] * 1024 - 5;
        const wh_launch one = {device, 1, 32, NULL};
        assert_int_equal(take_runs(&one, &a), WH_OK);
        for (uint32_t lane = 0; lane < 32; lane++) {
            assert_non_null(a.ptrs[lane]);
            const uint32_t first = (uint32_t)(((unsigned char *)a.ptrs[lane] - g.base) >> 10);
            assert_true(*wh_tessera_tag_at_(g, first) ==
                        ((uint64_t)sizes[k] << 32 | WH_TESSERA_RUN));
            for (uint32_t i = 1; i < sizes[k]; i++) {
                assert_true(*wh_tessera_tag_at_(g, first + i) == WH_TESSERA_INNER);
            }
        }
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.live_blocks, 32);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_warps),
                                       cmocka_unit_test(test_runs_have_their_tags),
                                       cmocka_unit_test(test_the_last_place),
                                       cmocka_unit_test(test_places_of_the_next_sets),
                                       cmocka_unit_test(test_closed_cursors_open_again),
                                       cmocka_unit_test(test_which_word),
                                       cmocka_unit_test(test_a_late_taker),
                                       cmocka_unit_test(test_a_late_taker_of_words),
                                       cmocka_unit_test(test_a_late_taker_of_a_whole_slab),
                                       cmocka_unit_test(test_a_fresh_slab_goes_back),
                                       cmocka_unit_test(test_positions_do_not_overflow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

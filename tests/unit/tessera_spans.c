/* tessera_spans.c: the next span for full warps of one class: how many words of the pool it is of,
 * what goes back of what it does not get, and that several warps lose nothing on the way. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define ALL (~(uint64_t)0)
#define WORDS 8u /* of a wide span; of classes with 128 slots a chunk or more half of them */

#define FOUR ALL, ALL, ALL, ALL

typedef struct refill_args {
    wh_heap_ref heap;
    uint64_t v;       /* what the refiller's add returned */
    uint32_t *attach; /* out: what each lane owes then, */
    void **ptrs;      /* ... and has */
    uint32_t shard, c, which;
    uint32_t have; /* lanes that have a block */
} refill_args;

WH_KERNEL(refill, refill_args, a) {
    const uint32_t lane = wh_lane_id();
    void *p = (a.have >> lane & 1) != 0 ? a.heap.base : NULL;
    wh_tessera_outcome now;
    now.p = p;
    now.v = a.v;
    now.attach = lane == 0 ? 1 + a.which : 0;
    for (int turns = 0; turns < 2 && wh_any(~0u, wh_tessera_is_refiller_(now.attach)); turns++) {
        now = wh_tessera_refill_one_(wh_tessera_core_of_(a.heap), &a.heap.shards[a.shard], a.shard,
                                     a.c, now.attach, now.v, now.p);
    }
    a.attach[lane] = now.attach;
    a.ptrs[lane] = now.p;
}

typedef struct refill_case {
    uint64_t words[WORDS]; /* of the pool, where the span is to be */
    uint32_t slabs;        /* of the last span */
    uint32_t held;         /* chunks that the shard's cursors had besides */
    uint32_t order;        /* expected: of a word's chunks, */
    uint32_t n, at;        /* ... so many words, from this chunk on; n 0: nothing */
    int narrow;            /* ... where the shard's single words are */
    int closed;            /* the other word of the cursor */
    int away;              /* the span is in the shard's next stripe instead */
} refill_case;

/* What was claimed has left the pool, and nothing else. */
static void check_pool(wh_veb pool, uint32_t n_words, const uint64_t *before, uint32_t first,
                       uint32_t chunks) {
    for (uint32_t w = 0; w < n_words; w++) {
        const uint32_t from = w << 6;
        uint64_t taken = 0;
        for (uint32_t i = 0; i < 64; i++) {
            taken |= (uint64_t)(from + i >= first && from + i < first + chunks) << i;
        }
        assert_true(*wh_veb_word(pool, w) == (before[w] & ~taken));
        assert_true((before[w] & taken) == taken);
    }
}

/* The chunks of the new span are slabs of the class, with no slot free. */
static void check_slabs(const refill_args *a, uint32_t first, uint32_t chunks) {
    const wh_tessera_core g = a->heap.core;
    const wh_tessera_class cls = a->heap.classes[a->c];
    const uint32_t order = wh_tessera_order(cls), slots = cls.slots;
    const uint64_t tag =
        wh_tessera_with_shard(wh_tessera_slab_tag(a->c, order, cls.slot_size), a->shard);
    for (uint32_t i = 0; i < chunks; i++) {
        assert_true(*wh_tessera_tag_at_(g, first + i) == tag);
        assert_int_equal(*wh_tessera_state_at_(g, first + i),
                         slots > 64 ? wh_tessera_fresh_state(slots) : WH_TESSERA_EMPTY);
        assert_true(i % (1u << order) != 0 || *wh_tessera_words_of_(g, first + i) == 0);
    }
}

/* Lanes that had no block have the first slots of the span; NULL, if there is none. */
static void check_blocks(const refill_args *a, uint32_t first) {
    const wh_tessera_core g = a->heap.core;
    const wh_tessera_class cls = a->heap.classes[a->c];
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t i = (uint32_t)__builtin_popcount(~a->have & ((1u << lane) - 1));
        const uint32_t slab = first + (i / cls.slots << wh_tessera_order(cls));
        unsigned char *next =
            g.base + ((uint64_t)slab << g.chunk_log2) + i % cls.slots * cls.slot_size;
        assert_true(lane == 0 || a->attach[lane] == 0);
        if ((a->have >> lane & 1) != 0) {
            assert_ptr_equal(a->ptrs[lane], g.base);
        } else {
            assert_ptr_equal(a->ptrs[lane], first != UINT32_MAX ? next : NULL);
        }
    }
}

/* The word of the cursor has been used up. */
static void use_up(refill_args *a, const refill_case *k) {
    const wh_tessera_core g = a->heap.core;
    const wh_tessera_class cls = a->heap.classes[a->c];
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(g, a->shard);
    wh_tessera_cursor *cursor = &own_shard->cursors[a->c];
    const uint32_t slots = cls.slots * k->slabs;
    a->have = 0x8010; /* two of 32 */
    a->v = wh_tessera_span(g.begin, slots, slots);
    *wh_tessera_word_(cursor, a->which) = wh_tessera_span(g.begin, slots, slots + 1);
    *wh_tessera_word_(cursor, 1 - a->which) = k->closed ? WH_TESSERA_CLOSED : WH_TESSERA_VACANT;
    own_shard->held = k->held + (k->slabs << wh_tessera_order(cls));
    own_shard->stripe_ticket = own_shard->home_ticket = 3 + a->shard;
    own_shard->pool_was_empty = 1;
}

/* A span of class c for a shard of a heap of so many: as case k says. */
static void refill_as(const refill_case *k, uint32_t shards, uint32_t shard, uint32_t size,
                      uint32_t which) {
    refill_args a = {0};
    wh_sim_options sim = {0};
    sim.n_sms = shards;
    wh_device *device = open_with(&sim);
    wh_heap *heap = make_heap_of(device, 4096, (uint64_t)shards * (16 << 20), shards, &a.heap);
    const wh_tessera_core g = a.heap.core;
    const wh_veb pool = wh_tessera_pool_(g);
    const uint32_t c = wh_tessera_class_of(size), order = wh_tessera_order(a.heap.classes[c]);
    const uint32_t slots = a.heap.classes[c].slots, n_words = g.n_chunks >> 6;
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(g, shard);
    a.shard = shard;
    a.c = c;
    a.which = which;
    a.attach = take(device, 32 * sizeof *a.attach);
    a.ptrs = take(device, 32 * sizeof *a.ptrs);
    use_up(&a, k);
    uint32_t in_stripe = 1;
    const uint32_t tickets = wh_tessera_wide_span_tickets(a.heap.classes[c]);
    const uint32_t chunk =
        k->narrow ? wh_tessera_home(g, shard, own_shard->home_ticket, 6)
                  : wh_tessera_stripe(g, shard, own_shard->stripe_ticket, tickets, &in_stripe);
    const uint32_t most = slots >= 128 ? WORDS / 2 : WORDS;
    const int away = k->away && slots != WH_WARP_SIZE; /* warps of these have slabs of their own */
    uint32_t n = most < in_stripe ? most : in_stripe;
    n = k->n < n - k->at / 64 ? k->n : n - k->at / 64;
    n = k->away && !away ? 0 : n;
    uint64_t *before = take(device, n_words * sizeof *before);
    for (uint32_t i = 0; i < WORDS && i < in_stripe; i++) {
        *wh_veb_word(pool, (chunk >> 6) + i) = k->words[i];
    }
    const uint32_t first_ticket = own_shard->stripe_ticket;
    uint32_t there = chunk, tried = 1;
    if (away) { /* a part is not enough for one that is to be whole */
        there = wh_tessera_stripe(g, shard, first_ticket + tickets, tickets, &in_stripe);
        uint64_t *const next = wh_veb_word(pool, there >> 6);
        *next = *next == ALL ? 1 : *next;
    }
    for (uint32_t w = 0; w < n_words; w++) {
        before[w] = *wh_veb_word(pool, w);
    }
    there = chunk;
    for (; away && *wh_veb_word(pool, there >> 6) != ALL; tried++) {
        there = wh_tessera_stripe(g, shard, first_ticket + tried * tickets, tickets, &in_stripe);
    }
    const uint32_t first = there + k->at, chunks = n << k->order;
    for (uint32_t i = 0; i < chunks; i++) { /* as if freed before: I2 */
        *wh_tessera_words_of_(g, first + i) = slots <= 64 ? ALL : 0;
    }
    const wh_launch one = grid(device, 1, 32);
    assert_int_equal(refill(&one, &a), WH_OK);
    check_pool(pool, n_words, before, first, chunks);
    assert_int_equal(own_shard->stripe_ticket, first_ticket + (k->narrow ? 0 : tried * tickets));
    assert_int_equal(own_shard->takes_begun, own_shard->takes_done); /* I7 */
    assert_int_equal(own_shard->attached, n != 0);
    assert_int_equal(own_shard->pool_was_empty, n == 0 || chunks < WH_TESSERA_LARGE_CLAIM);
    assert_int_equal(own_shard->held, k->held + (n != 0 ? chunks : k->slabs << order));
    assert_int_equal(a.attach[0], n != 0 ? 0 : (1 + which) | WH_TESSERA_SEEKS);
    const uint64_t span = *wh_tessera_word_(&own_shard->cursors[c], which);
    if (n != 0) {
        assert_int_equal(wh_tessera_span_first(span), first);
        assert_int_equal(wh_tessera_span_slots(span), (chunks >> order) * slots);
        assert_int_equal(wh_tessera_span_position(span), 30);
    }
    check_slabs(&a, first, chunks);
    check_blocks(&a, n != 0 ? first : UINT32_MAX);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* As many words in a row as are free from the first whole one on, or the largest piece of the first
 * one, or the shard's next stripe that has something; all else goes back. */
static void test_wide_spans(void **state) {
    static const refill_case cases[] = {
        {{FOUR, FOUR}, 256, 0, 6, 8, 0, 0, 0, 0},
        {{FOUR, FOUR}, 32, 0, 6, 2, 0, 0, 0, 0},    /* four times as large */
        {{FOUR, FOUR}, 256, 300, 6, 4, 0, 0, 0, 0}, /* others hold much */
        {{FOUR, FOUR}, 256, 550, 6, 2, 0, 0, 0, 0},
        {{FOUR, FOUR}, 256, 700, 6, 1, 0, 0, 0, 0},
        {{ALL, 1, ALL, ALL, FOUR}, 256, 0, 6, 1, 0, 0, 0, 0},
        {{ALL, ALL, ALL, ALL >> 1, FOUR}, 256, 0, 6, 3, 0, 0, 0, 0},
        {{FOUR, ALL, ALL, ALL, 1}, 256, 0, 6, 7, 0, 0, 0, 0},
        {{ALL, ALL, 0, ALL, FOUR}, 256, 0, 6, 2, 0, 0, 0, 0},
        {{0, ALL, ALL, ALL, FOUR}, 256, 0, 6, 7, 64, 0, 0, 0}, /* from the first whole one on */
        {{ALL << 1, ALL, 7, ALL}, 256, 0, 6, 1, 64, 0, 0, 0},
        {{ALL << 1, 0xff, 0, 7}, 256, 0, 5, 1, 32, 0, 0, 0},
        {{0xff00f0, 0, ALL >> 1, 1}, 256, 0, 3, 1, 16, 0, 0, 0},
        {{0x10, 0, 0, 0}, 256, 0, 0, 1, 4, 0, 0, 0},
        {{0, 0, 0, 0}, 256, 0, 6, 8, 0, 0, 0, 1}, /* another stripe */
        {{0, ALL >> 1, 0, 0}, 256, 0, 6, 8, 0, 0, 0, 1},
        {{0, 0, 0, 0}, 256, 700, 6, 1, 0, 0, 0, 1},
        {{FOUR, FOUR}, 256, 0, 0, 0, 0, 0, 1, 0},
        {{ALL, 0, 0, 0}, 8, 0, 5, 1, 0, 1, 0, 0}, /* from the shard's single words */
        {{ALL << 2, 0, 0, 0}, 8, 0, 4, 1, 16, 1, 0, 0},
        {{0, 0, 0, 0}, 8, 0, 0, 0, 0, 1, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t shard = 0; shard < 10; shard += 3) { /* the last one has two words in a row */
            refill_as(&cases[i], 10, shard, 32, shard >> 1 & 1); /* slabs of two words, */
            refill_as(&cases[i], 10, shard, 64, shard & 1);      /* of one */
            refill_as(&cases[i], 10, shard, 128, 1 - (shard & 1));
        }
    }
}

typedef struct message_args {
    wh_heap_ref heap;
    uint32_t *turn, *wrong;
    uint64_t v;
    uint32_t c, chunk; /* of the second slab of the second word of the span */
} message_args;

WH_FN void wait_for(const uint32_t *turn, uint32_t is) {
    for (uint32_t i = 0; wh_load_u32_relaxed(turn) != is; i++) {
        wh_backoff(i);
    }
}

/* The lanes of block 0 have written to a chunk, and one frees it, block 1 makes it part of a span,
 * and a lane of block 2 gets a slot there, all of them write to it, and it is freed. Nothing but
 * the heap orders these. */
WH_KERNEL(message, message_args, a) {
    const wh_tessera_core g = a.heap.core;
    const uint32_t lane = wh_lane_id();
    uint32_t *p = (uint32_t *)(void *)(g.base + ((uint64_t)a.chunk << g.chunk_log2));
    if (wh_block_id() == 0) {
        p[lane] = 1;
        wh_syncwarp(~0u);
        if (lane == 0) {
            (void)wh_veb_insert_mask(wh_tessera_pool_(g), a.chunk >> 6, ALL);
            wh_store_u32_relaxed(a.turn, 1);
        }
    } else if (wh_block_id() == 1) {
        wait_for(a.turn, 1);
        (void)wh_tessera_refill_one_(wh_tessera_core_of_(a.heap), a.heap.shards, 0, a.c, lane == 0,
                                     a.v, a.heap.base);
        if (lane == 0) {
            wh_store_u32_relaxed(a.turn, 2);
        }
    } else {
        const wh_tessera_class cls = a.heap.classes[a.c];
        const uint32_t before = cls.slots * ((64u >> wh_tessera_order(cls)) + 1);
        if (lane == 0) {
            wait_for(a.turn, 2);
            const uint64_t got =
                wh_fetch_add_u64_acquire(&a.heap.shards[0].cursors[a.c].span, WH_TESSERA_POSITION);
            *a.wrong +=
                wh_tessera_nth_(g.base, 1u << g.chunk_log2, cls, got, before) == (void *)p ? 0 : 1;
        }
        wh_syncwarp(~0u);
        p[lane] = 2;
        wh_syncwarp(~0u);
        wh_free(a.heap, lane == 0 ? p : NULL);
        wh_syncwarp(~0u);
        if (lane == 0) {
            wh_store_u32_relaxed(a.turn, 3);
        }
    }
    wait_for(a.turn, 3); /* a lane that begins when another has ended may be the same thread */
}

/* P2, P3: what each lane that has claimed and formatted a part of the span has seen and done comes
 * before who gets a slot there. ThreadSanitizer and the simulated device's memory see it. */
static void test_what_all_lanes_have_done(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        message_args a;
        wh_stats stats;
        wh_sim_options sim;
        memset(&a, 0, sizeof a);
        memset(&sim, 0, sizeof sim);
        sim.seed = seed;
        sim.policy = WH_SIM_RANDOM;
#ifndef WH_TSAN /* it has no weak memory */
        sim.weak = WH_SIM_WEAK_FORMAL;
#endif
        wh_device *device = open_with(&sim);
        wh_heap *heap = make_heap_of(device, 1024, 6 << 20, 2, &a.heap);
        const wh_tessera_core g = a.heap.core;
        a.turn = take(device, sizeof *a.turn);
        a.wrong = take(device, sizeof *a.wrong);
        a.c = wh_tessera_class_of(64);
        const uint32_t slots = 64 * a.heap.classes[a.c].slots;
        uint32_t in_stripe = 0;
        const uint32_t chunk = wh_tessera_stripe(g, 0, 0, 4, &in_stripe);
        a.v = wh_tessera_span(g.begin, slots, slots);
        a.heap.shards[0].cursors[a.c].span = a.v + WH_TESSERA_POSITION;
        a.heap.shards[0].held = 256;
        a.chunk = chunk + 64 + (1u << wh_tessera_order(a.heap.classes[a.c]));
        *wh_veb_word(wh_tessera_pool_(g), a.chunk >> 6) = 0;
        const wh_launch launch = grid(device, 3, 32);
        assert_int_equal(message(&launch, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.bad_frees, 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

#define BLOCKS 8u
#define ROUNDS 160u
#define KEEPS 6u

typedef struct flow_args {
    wh_heap_ref heap;
    uint32_t **ptrs; /* of each lane, KEEPS of them */
    uint32_t *wrong, *widest;
    uint32_t size;
} flow_args;

/* Full warps take blocks, write to them, and free them some rounds later. */
WH_KERNEL(flow, flow_args, a) {
    const uint32_t me = (uint32_t)wh_thread_id(), c = wh_tessera_class_of(a.size);
    const wh_tessera_shard *own_shard = &a.heap.shards[wh_tessera_my_shard_(a.heap)];
    uint32_t **mine = a.ptrs + me * KEEPS;
    for (uint32_t i = 0; i < ROUNDS + KEEPS; i++) {
        uint32_t *p = mine[i % KEEPS];
        if (i >= KEEPS) {
            wh_add_u32_relaxed(a.wrong, p == NULL || *p != me * ROUNDS + i - KEEPS);
            wh_free_lanes(a.heap, ~0u, p);
        }
        if (i < ROUNDS) {
            p = (uint32_t *)wh_malloc_lanes(a.heap, ~0u, a.size);
            if (p != NULL) {
                *p = me * ROUNDS + i;
            }
            mine[i % KEEPS] = p;
            const uint64_t span = wh_load_u64_relaxed(&own_shard->cursors[c].span);
            const uint32_t chunks = wh_tessera_chunks_of_(a.heap.classes[c], 0, span);
            (void)wh_fetch_max_u32_relaxed(a.widest, chunks);
        }
    }
}

static void test_warps_with_wide_spans(void **state) {
    static const uint32_t sizes[] = {112, 128, 200, 300};
    int some_are_wide = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        flow_args a;
        wh_report report;
        wh_stats stats;
        wh_sim_options sim;
        memset(&a, 0, sizeof a);
        memset(&sim, 0, sizeof sim);
        sim.policy = (wh_sim_policy)(seed % N_POLICIES);
        sim.seed = seed;
#ifndef WH_TSAN /* it has no weak memory */
        sim.weak = seed % 2 != 0 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
#endif
        wh_device *device = open_with(&sim);
        const uint32_t shards = 2 + 2 * (uint32_t)(seed / 2 % 2);
        a.size = sizes[seed / 4 % 4];
        wh_heap *heap = make_heap_of(device, 1024, 6 << 20, shards, &a.heap);
        a.ptrs = take(device, BLOCKS * 32 * KEEPS * sizeof *a.ptrs);
        a.wrong = take(device, sizeof *a.wrong);
        a.widest = take(device, sizeof *a.widest);
        /* Places that are taken, so that some spans get fewer words, or a part of one. */
        const wh_tessera_core g = a.heap.core;
        const uint32_t hole = g.begin + (uint32_t)(seed * 37 % (g.n_chunks - g.begin));
        const uint64_t bit = (uint64_t)1 << (hole & 63);
        uint64_t *word = wh_veb_word(wh_tessera_pool_(g), hole >> 6);
        const uint64_t had = *word & bit;
        *word &= ~bit;
        const wh_launch launch = grid(device, BLOCKS, 32);
        assert_int_equal(flow(&launch, &a), WH_OK);
        assert_int_equal(*a.wrong, 0);
        some_are_wide |= *a.widest > 64;
        *word |= had;
        assert_int_equal(wh_heap_check(heap, &report), WH_OK);
        assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
        assert_int_equal(stats.live_blocks, 0);
        wh_heap_destroy(heap);
        wh_device_close(device);
    }
    assert_true(some_are_wide); /* otherwise this tests nothing */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_all_lanes_have_done),
        cmocka_unit_test(test_wide_spans),
        cmocka_unit_test(test_warps_with_wide_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

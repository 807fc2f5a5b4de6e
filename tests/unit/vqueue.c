/* vqueue.c: core/vqueue.h, all three kinds, with queue chunks of four entries so that every
 * boundary is met. Alone: every short sequence of puts and takes against a naive FIFO, also
 * with no chunk for the queue to grow. Together: warps under every policy pass values around;
 * each is taken once (I4), what its giver wrote is seen (P1), no room is lost, and chunks
 * that the queue no longer needs are back in the pool. Both also where the numbers of queue
 * chunks come round in links. */
#include "sim/sim_test.h"

#include "warpheap/core/vqueue.h"

#define CHUNKS 24u
#define CHUNK_LOG2 4u /* four entries */
#define TABLE_LOG2 3u
#define VALUES 64u

static const char *const kind_names[] = {"array", "hierarchy", "linked"};

typedef struct queue_memory {
    wh_vqueue_words words;
    wh_chunk_pool_words pool;
    uint32_t pool_entries[2][32];
    uint64_t tree[4];
    uint64_t links[1 << TABLE_LOG2];
    uint32_t entries[1 << TABLE_LOG2];
    uint32_t done[CHUNKS];
    uint64_t next[CHUNKS];
    uint32_t data[CHUNKS << (CHUNK_LOG2 - 2)];
} queue_memory;

static uint32_t cache_log2 = TABLE_LOG2; /* of linked queues */
static uint64_t first_number = 0;        /* of queue chunks: what the queue has seen so far */
static uint32_t ahead = 0;               /* queue chunks that may be fetched ahead */

static wh_vqueue queue_of(queue_memory *m, uint32_t kind) {
    wh_vqueue q;
    wh_vqueue_bind(&q, &m->words);
    q.entries = m->entries;
    q.links = m->links;
    q.kind = kind;
    q.table_log2 = kind == WH_VQUEUE_LINKED ? cache_log2 : TABLE_LOG2;
    q.id = 7;
    q.bounded = 1;
    return q;
}

static wh_vqueue_chunks chunks_of(queue_memory *m, uint32_t n) {
    wh_vqueue_chunks k;
    memset(&k, 0, sizeof k);
    wh_chunk_pool_bind(&k.pool, &m->pool);
    k.pool.entries[0] = m->pool_entries[0];
    k.pool.entries[1] = m->pool_entries[1];
    k.pool.entries_log2[0] = k.pool.entries_log2[1] = 5;
    k.pool.loose_tree = wh_veb_make(m->tree, n);
    k.pool.n = n;
    k.base = (unsigned char *)m->data;
    k.done = m->done;
    k.next = m->next;
    k.chunk_log2 = CHUNK_LOG2;
    k.ahead = ahead;
    return k;
}

static void start(queue_memory *m, uint32_t kind) {
    memset(m, 0, sizeof *m);
    memset(m->data, 0xee, sizeof m->data); /* fresh chunks are not clear */
    memset(m->next, 0xff, sizeof m->next);
    const wh_vqueue q = queue_of(m, kind);
    wh_vqueue_reset(q);
    /* As if so many queue chunks had come and gone: numbers of 31 bits in links, 64 elsewhere. */
    m->words.front = m->words.back = first_number << (CHUNK_LOG2 - 2);
    m->words.state.provisioned = m->words.state.announced = first_number;
    m->words.state.first = wh_vqueue_link(q.id, first_number, WH_VQUEUE_NO_CHUNK);
    m->words.state.last = wh_vqueue_link(q.id, first_number - 1, WH_VQUEUE_NO_CHUNK);
}

/* Chunks that the queue may keep when it is empty. */
static uint32_t kept_when_empty(uint32_t kind) {
    const uint32_t virtual_ones = kind == WH_VQUEUE_HIERARCHY ? 1 : 2;
    return kind == WH_VQUEUE_ARRAY ? 0 : virtual_ones;
}

/* --- every sequence ------------------------------------------------------------------------ */

typedef struct queue_model {
    queue_memory m;
    uint32_t value[256];
    uint32_t n, next;
} queue_model;

/* op 0..2: put 1, 3 or 5 values; 3..5: take so many. 0: not allowed now. */
static int apply(queue_model *s, uint32_t kind, uint32_t n_chunks, uint32_t op) {
    static const uint32_t sizes[] = {1, 3, 5};
    const wh_vqueue q = queue_of(&s->m, kind);
    const wh_vqueue_chunks k = chunks_of(&s->m, n_chunks);
    const uint32_t n = sizes[op % 3];
    if (op < 3) {
        const uint32_t room = wh_vqueue_reserve(q, k, 1, n);
        assert_true(room <= n);
        if (kind == WH_VQUEUE_ARRAY) {
            const uint32_t left = (1u << TABLE_LOG2) - s->n;
            assert_int_equal(room, n < left ? n : left);
        } else if (room < n) { /* no chunk, or no link */
            assert_true(wh_chunk_pool_empty(k.pool, 0) ||
                        s->m.words.state.used == wh_vqueue_most_(q, k));
        }
        const uint64_t first = wh_vqueue_reserve_put(q, room);
        for (uint32_t i = room; i-- > 0;) { /* in any order */
            wh_vqueue_put(q, k, 1, 1, first + i, s->next + i);
        }
        for (uint32_t i = 0; i < room; i++) {
            s->value[s->n++] = s->next++;
        }
    } else {
        if (s->n < n) {
            return 0;
        }
        const uint64_t first = wh_vqueue_reserve_take(q, n);
        for (uint32_t i = n; i-- > 0;) {
            assert_int_equal(wh_vqueue_take(q, k, 1, 1, first + i), s->value[i]);
        }
        s->n -= n;
        memmove(s->value, s->value + n, s->n * sizeof *s->value);
    }
    assert_int_equal(s->m.words.back - s->m.words.front, s->n);
    if (kind != WH_VQUEUE_ARRAY) { /* all chunks are in the queue or in the pool */
        const uint64_t used = s->m.words.state.used;
        const uint64_t offset = *wh_chunk_pool_offset_(k.pool);
        const uint64_t fresh = offset < n_chunks ? n_chunks - offset : 0;
        assert_int_equal(used + *wh_chunk_pool_count_(k.pool, 0) + fresh, n_chunks);
        assert_true(used * 4 >= s->n && used <= s->n / 4 + 4);
        if (s->n == 0) {
            assert_true(used <= kept_when_empty(kind));
        }
    }
    return 1;
}

static void every_sequence(const queue_model *s, uint32_t kind, uint32_t n_chunks, uint32_t depth) {
    for (uint32_t op = 0; depth > 0 && op < 6; op++) {
        queue_model t = *s;
        if (apply(&t, kind, n_chunks, op)) {
            every_sequence(&t, kind, n_chunks, depth - 1);
        }
    }
}

static void test_every_sequence(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t n_chunks = 1; n_chunks <= 4; n_chunks++) {
            queue_model s;
            memset(&s, 0, sizeof s);
            start(&s.m, kind);
            every_sequence(&s, kind, n_chunks, 6);
        }
    }
}

static void test_long_sequences(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        for (uint32_t kind = 0; kind < 3; kind++) {
            queue_model s;
            uint64_t random = seed;
            memset(&s, 0, sizeof s);
            start(&s.m, kind);
            for (uint32_t i = 0; i < 4000; i++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                (void)apply(&s, kind, 1 + (uint32_t)seed % CHUNKS, (uint32_t)(random >> 33) % 6);
            }
        }
    }
}

/* --- many lanes ------------------------------------------------------------------------------ */

#define MARK(v) ((uint32_t)(v)*40503u + 9u)

typedef struct queue_args {
    wh_vqueue q;
    wh_vqueue_chunks k;
    uint64_t *sem;     /* values inside */
    uint32_t *owner;   /* by value */
    uint32_t *payload; /* by value, plain */
    uint32_t *errors;
    uint32_t steps, lanes;
    uint64_t seed;
} queue_args;

/* Lanes put values for which there is room, and keep the others. */
WH_FN void put_back(const queue_args *a, wh_mask mask, uint32_t *held) {
    const int has = *held != UINT32_MAX;
    const wh_mask givers = wh_ballot(mask, has);
    const int leads = has && wh_mask_rank(givers) == 0;
    uint32_t room = wh_vqueue_reserve(a->q, a->k, mask, leads ? wh_popc32(givers) : 0);
    uint64_t first = 0;
    if (leads && room != 0) {
        first = wh_vqueue_reserve_put(a->q, room);
        wh_bulk_semaphore_signal(a->sem, room, 0, 0);
    }
    const uint32_t leader = givers != 0 ? wh_mask_leader(givers) : wh_lane_id();
    room = wh_shfl_u32(mask, room, leader);
    first = wh_shfl_u64(mask, first, leader);
    const uint32_t rank = wh_mask_rank(givers);
    const int puts = has && rank < room;
    if (puts) {
        if (a->payload[*held] != wh_thread_id() + 1 ||
            wh_exchange_u32_relaxed(&a->owner[*held], 0) != wh_thread_id() + 1) {
            wh_add_u32_relaxed(a->errors, 1);
        }
        a->payload[*held] = MARK(*held);
    }
    wh_vqueue_put(a->q, a->k, mask, puts, first + rank, *held);
    *held = puts ? UINT32_MAX : *held;
}

/* Lanes without a value take one, if there are any. */
WH_FN void take_some(const queue_args *a, wh_mask mask, uint32_t *held, int wants) {
    const wh_mask takers = wh_ballot(mask, wants && *held == UINT32_MAX);
    const uint32_t rank = wh_mask_rank(takers);
    const int mine = (takers >> wh_lane_id() & 1) != 0;
    uint32_t got = 0;
    uint64_t first = 0;
    if (mine && rank == 0) {
        const uint32_t n = wh_popc32(takers);
        got = wh_bulk_semaphore_got(wh_bulk_semaphore_take(a->sem, n), n);
        wh_bulk_semaphore_signal(a->sem, n - got, 0, 0);
        first = got != 0 ? wh_vqueue_reserve_take(a->q, got) : 0;
    }
    const uint32_t leader = takers != 0 ? wh_mask_leader(takers) : wh_lane_id();
    got = wh_shfl_u32(mask, got, leader);
    first = wh_shfl_u64(mask, first, leader);
    const int takes = mine && rank < got;
    const uint32_t v = wh_vqueue_take(a->q, a->k, mask, takes, first + rank);
    if (takes) {
        if (v >= VALUES ||
            wh_exchange_u32_relaxed(&a->owner[v], (uint32_t)wh_thread_id() + 1) != 0 ||
            a->payload[v] != MARK(v)) {
            wh_add_u32_relaxed(a->errors, 1);
        } else {
            a->payload[v] = (uint32_t)wh_thread_id() + 1;
            *held = v;
        }
    }
}

/* Each thread starts with the value of its number. */
WH_KERNEL(pass_around, queue_args, a) {
    const uint32_t me = (uint32_t)wh_thread_id();
    const uint32_t first = wh_thread_in_block() - wh_lane_id();
    const uint32_t left = wh_block_threads() - first;
    const wh_mask mask = left >= 32 ? ~0u : (1u << left) - 1;
    uint64_t random = a.seed + me * 0x9e3779b97f4a7c15u;
    uint32_t held = me;
    a.payload[me] = me + 1;
    wh_store_u32_relaxed(&a.owner[me], me + 1);
    for (uint32_t step = 0; step < a.steps; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        put_back(&a, mask, &held);
        take_some(&a, mask, &held, (random >> 40) % 4 != 0);
    }
    for (uint32_t attempt = 0; wh_any(mask, held != UINT32_MAX); attempt++) {
        put_back(&a, mask, &held); /* a queue without room: others must take */
        take_some(&a, mask, &held, 0);
        if (attempt > 20 && held != UINT32_MAX) { /* keeps it */
            if (wh_exchange_u32_relaxed(&a.owner[held], UINT32_MAX) != me + 1) {
                wh_add_u32_relaxed(a.errors, 1);
            }
            held = UINT32_MAX;
        }
    }
}

static void check_concurrent(wh_sim_policy policy, uint64_t seed, uint32_t kind,
                             uint32_t n_chunks) {
    wh_device *d = open_policy(policy, seed);
    queue_memory *m = take(d, sizeof *m);
    queue_args a;
    start(m, kind);
    a.q = queue_of(m, kind);
    a.k = chunks_of(m, n_chunks);
    a.sem = take(d, 8);
    a.owner = take(d, VALUES * 4);
    a.payload = take(d, VALUES * 4);
    a.errors = take(d, 4);
    a.steps = 12;
    a.lanes = ~0u;
    a.seed = seed;
    const uint32_t shapes[3][2] = {{2, 32}, {3, 20}, {6, 9}};
    const wh_launch l = grid(d, shapes[seed % 3][0], shapes[seed % 3][1]);
    const uint32_t values = l.blocks * l.threads;
    if (pass_around(&l, &a) != WH_OK) {
        fail_msg("%s, %u chunks: %s", kind_names[kind], n_chunks, wh_device_error_text(d));
    }
    assert_int_equal(*a.errors, 0);
    uint32_t kept = 0;
    uint8_t seen[VALUES] = {0};
    for (uint32_t v = 0; v < values; v++) {
        kept += a.owner[v] == UINT32_MAX;
        seen[v] = a.owner[v] == UINT32_MAX;
    }
    const uint32_t inside = (uint32_t)(m->words.back - m->words.front);
    assert_true(*a.sem == wh_bulk_semaphore_word((int64_t)inside, 0, 0));
    assert_int_equal(inside + kept, values);
    /* A lane that the schedule holds up on the first chunk keeps all behind it from coming
     * back (vqueue I3): only where nobody is held up there is always a chunk to be had. */
    if (kind == WH_VQUEUE_LINKED && n_chunks == CHUNKS && policy == WH_SIM_ROUND_ROBIN) {
        assert_int_equal(kept, 0);
    }
    for (uint32_t i = 0; i < inside; i++) { /* I4 */
        const uint32_t v = wh_vqueue_take(a.q, a.k, 1, 1, wh_vqueue_reserve_take(a.q, 1));
        assert_true(v < values);
        assert_int_equal(seen[v]++, 0);
    }
    const wh_vqueue_state *s = &m->words.state;
    const uint64_t entries = kind == WH_VQUEUE_ARRAY ? m->words.front + (1u << TABLE_LOG2)
                                                     : s->provisioned << (CHUNK_LOG2 - 2);
    assert_true(m->words.room == wh_bulk_semaphore_word((int64_t)(entries - m->words.back), 0, 0));
    if (kind != WH_VQUEUE_ARRAY) {
        uint64_t in_pool = 0;
        while (wh_chunk_pool_take(a.k.pool, 0, 1).n != 0) {
            in_pool++;
        }
        assert_int_equal(in_pool + s->used, n_chunks);
        /* With lanes at work, several may have been provisioned ahead. */
        assert_true(s->used * 4 <= entries - m->words.back + 4 + 4);
    }
    wh_device_close(d);
}

static void test_concurrent(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            cache_log2 = (uint32_t)seed % (TABLE_LOG2 + 1);
            ahead = seed % 2 != 0 ? 4u << seed % 3 : 0;
            for (uint32_t kind = 0; kind < 3; kind++) {
                check_concurrent((wh_sim_policy)p, seed, kind, CHUNKS);
                check_concurrent((wh_sim_policy)p, seed, kind, 1 + (uint32_t)seed % 7);
            }
            cache_log2 = TABLE_LOG2;
            ahead = 0;
        }
    }
}

/* --- delayed reuse: walking from a stale link --------------------------------------------------
 */

/* A lane that stands on a retired chunk sees it, and finds its own from the first on. */
static void test_stale_walk(void **state) {
    (void)state;
    queue_model s;
    memset(&s, 0, sizeof s);
    start(&s.m, WH_VQUEUE_LINKED);
    const wh_vqueue q = queue_of(&s.m, WH_VQUEUE_LINKED);
    const wh_vqueue_chunks k = chunks_of(&s.m, 4);
    uint64_t walk = 0;
    for (uint32_t round = 0; round < 40; round++) { /* chunks come round many times */
        const uint64_t stale = wh_load_u64_relaxed(&s.m.words.state.first);
        assert_int_equal(apply(&s, WH_VQUEUE_LINKED, 4, 2), 1);
        assert_int_equal(apply(&s, WH_VQUEUE_LINKED, 4, 2), 1);
        const uint64_t p = s.m.words.front + 1 + round % 9; /* a position inside */
        memset(s.m.links, 0xff, sizeof s.m.links);
        uint32_t chunk = WH_CHUNK_NONE;
        for (walk = stale; chunk == WH_CHUNK_NONE;) {
            chunk = wh_vqueue_find_(q, k, p, &walk);
        }
        const uint32_t *e = &wh_vqueue_entries_(k, chunk)[p & 3];
        assert_int_equal(*e, s.value[p - s.m.words.front] + 1);
        /* The queue has moved on by two chunks and more before the next round. */
        assert_int_equal(apply(&s, WH_VQUEUE_LINKED, 4, 5), 1);
        assert_int_equal(apply(&s, WH_VQUEUE_LINKED, 4, 5), 1);
    }
}

/* --- many at once ------------------------------------------------------------------------------
 */

#define MANY 8u /* as many as the table has links */

/* One warp: each of `steps` lanes adds a chunk to the queue. */
WH_KERNEL(add_chunks, queue_args, a) {
    uint32_t chunk = WH_CHUNK_NONE;
    if (wh_lane_id() < a.steps) {
        chunk = wh_chunk_pool_get(a.k.pool, 0, wh_vqueue_admit_(a.q, a.k, 1), 0);
        for (uint32_t i = 0; i < 1u << (CHUNK_LOG2 - 2); i++) {
            wh_vqueue_entries_(a.k, chunk)[i] = 0;
        }
    }
    wh_syncwarp(~0u);
    wh_vqueue_provision_(a.q, a.k, ~0u, chunk);
}

/* One warp: all takes of the first chunk's are finished. */
WH_KERNEL(retire_chunks, queue_args, a) {
    wh_vqueue_retire(a.q, a.k, ~0u, wh_lane_id() == 5, 0, 0);
}

/* LINKED: chunks of many lanes get into the list, and out of it, whichever lane of the warp sees to
 * them; and one that is finished before it has a successor goes when it gets one. */
static void test_many_at_once(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, seed);
        queue_memory *m = take(d, sizeof *m);
        queue_args a;
        memset(&a, 0, sizeof a);
        start(m, WH_VQUEUE_LINKED);
        a.q = queue_of(m, WH_VQUEUE_LINKED);
        a.k = chunks_of(m, CHUNKS);
        a.steps = MANY;
        const wh_launch l = grid(d, 1, 32);
        assert_int_equal(add_chunks(&l, &a), WH_OK);
        uint64_t link = m->words.state.first, fifth = 0;
        for (uint32_t j = 0; j < MANY; j++) { /* without the table: by the list alone */
            assert_true(wh_vqueue_is_(link, a.q.id, j));
            assert_int_not_equal(wh_vqueue_chunk_of_(link), WH_VQUEUE_NO_CHUNK);
            fifth = j == 5 ? link : fifth;
            if (j + 1 < MANY) {
                link = m->next[wh_vqueue_chunk_of_(link)];
            }
        }
        assert_true(m->words.state.last == link);
        assert_int_equal(m->words.state.used, MANY);
        for (uint32_t c = 0; c < CHUNKS; c++) {
            m->done[c] = 1u << (CHUNK_LOG2 - 2);
        }
        /* As if those behind it were announced, and not in the list yet. */
        uint64_t *next = &m->next[wh_vqueue_chunk_of_(fifth)];
        const uint64_t sixth = *next;
        m->words.state.last = fifth;
        *next = wh_vqueue_behind_(fifth);
        assert_int_equal(retire_chunks(&l, &a), WH_OK);
        assert_true(m->words.state.first == fifth);
        assert_int_equal(m->words.state.used, MANY - 5);
        m->words.state.last = link;
        *next = sixth;
        assert_int_equal(retire_chunks(&l, &a), WH_OK); /* all but the last */
        assert_true(m->words.state.first == link);
        assert_int_equal(m->words.state.used, 1);
        assert_int_equal(*wh_chunk_pool_count_(a.k.pool, 0), MANY - 1);
        a.steps = 1;
        assert_int_equal(add_chunks(&l, &a), WH_OK);
        assert_true(wh_vqueue_is_(m->words.state.first, a.q.id, MANY));
        assert_int_equal(m->words.state.used, 1);
        wh_device_close(d);
    }
}

/* One warp of which a lane wants room for one value. */
WH_KERNEL(reserve_one, queue_args, a) {
    (void)wh_vqueue_reserve(a.q, a.k, ~0u, wh_lane_id() == 3);
}

/* Chunks are fetched ahead as far as `ahead` says; LINKED: and no more of them than the cache has
 * links for, since otherwise every lane that is not at the front would have to walk. */
static void test_fetch_ahead(void **state) {
    (void)state;
    for (uint32_t kind = WH_VQUEUE_HIERARCHY; kind <= WH_VQUEUE_LINKED; kind++) {
        for (uint32_t links_log2 = 1; links_log2 <= 5; links_log2++) {
            for (ahead = 0; ahead <= 20; ahead++) {
                wh_device *d = open_policy(WH_SIM_RANDOM, 1);
                queue_memory *m = take(d, sizeof *m);
                queue_args a;
                memset(&a, 0, sizeof a);
                start(m, kind);
                a.q = queue_of(m, kind);
                a.q.links = take(d, sizeof(uint64_t) << links_log2);
                a.q.table_log2 = links_log2;
                a.k = chunks_of(m, CHUNKS);
                const wh_launch l = grid(d, 1, 32);
                assert_int_equal(reserve_one(&l, &a), WH_OK);
                const uint32_t links = 1u << links_log2, most = ahead < links ? ahead : links;
                assert_int_equal(m->words.state.used,
                                 WH_VQUEUE_FETCH <= most ? WH_VQUEUE_FETCH : 1);
                assert_int_equal(m->words.state.provisioned, m->words.state.used);
                wh_device_close(d);
            }
        }
    }
    ahead = 0;
}

/* --- numbers that come round -------------------------------------------------------------------
 */

/* The 31 bits of a number in a link come round while the queue is at work, as they do after
 * 2^31 queue chunks (I3): alone, together, and with lanes that walk. */
static void test_numbers_come_round(void **state) {
    const uint64_t round = (uint64_t)1 << 31;
    for (uint64_t before = 0; before <= 3; before++) {
        for (uint32_t kind = 1; kind < 3; kind++) {
            queue_model s;
            memset(&s, 0, sizeof s);
            first_number = (1 + before % 2) * round - before;
            start(&s.m, kind);
            every_sequence(&s, kind, 4, 5);
        }
    }
    first_number = round - 20;
    test_long_sequences(state);
    test_stale_walk(state);
    first_number = round - 4;
    test_concurrent(state);
    first_number = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sequence),     cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_concurrent),         cmocka_unit_test(test_stale_walk),
        cmocka_unit_test(test_numbers_come_round), cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_fetch_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

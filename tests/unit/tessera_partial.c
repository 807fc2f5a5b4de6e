/* tessera_partial.c: full warps of one class, or of several, in a heap whose pool is empty: what
 * they take of partial slabs, all lanes or groups side by side, and that they take no more than
 * they hand out. */
#define WH_ALLOCATOR tessera

#include "unit/tessera_heap.h"

#define CHUNK 1024u
#define WARPS 4u
#define LANES (WARPS * 32)
#define MOST 20000u

typedef struct partial_args {
    wh_heap_ref heap;
    void **ptrs;
    uint32_t size;  /* of lane 0; of the others: */
    uint32_t kinds; /* size, 2 size, ..., in turn */
    uint32_t lock;  /* search_lock is taken */
    uint32_t delay; /* before frees */
} partial_args;

WH_FN uint32_t size_of(const partial_args *a, uint64_t thread) {
    return a->size * (1 + (uint32_t)thread % a->kinds);
}

WH_KERNEL(ask, partial_args, a) {
    a.ptrs[wh_thread_id()] = wh_malloc_lanes(a.heap, ~0u, size_of(&a, wh_thread_id()));
}

WH_KERNEL(free_all, partial_args, a) {
    wh_free_lanes(a.heap, ~0u, a.ptrs[wh_thread_id()]);
}

/* Lanes that found their cursor closed, without the slow path. */
WH_KERNEL(look, partial_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t shard = wh_tessera_my_shard_(a.heap);
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(*g, shard);
    wh_store_u32_relaxed(&wh_tessera_header_(*g)->search_lock, a.lock);
    wh_syncwarp(~0u);
    const wh_tessera_outcome now =
        wh_tessera_partial_warp_(g, own_shard, shard, wh_tessera_class_of(a.size),
                                 wh_lane_id() == 0 ? WH_TESSERA_STUCK : 0, 0, NULL);
    wh_syncwarp(~0u);
    wh_store_u32_relaxed(&wh_tessera_header_(*g)->search_lock, 0);
    a.ptrs[wh_thread_id()] = now.p;
}

/* The same for groups of several classes. */
WH_KERNEL(look_groups, partial_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    wh_tessera_shard *own_shard = wh_tessera_shard_at_(*g, wh_tessera_my_shard_(a.heap));
    const uint32_t c = wh_tessera_class_of(size_of(&a, wh_thread_id()));
    const wh_group same = wh_group_by_u32(~0u, c);
    wh_store_u32_relaxed(&wh_tessera_header_(*g)->search_lock, a.lock);
    wh_syncwarp(~0u);
    const wh_tessera_outcome now =
        wh_tessera_partial_groups_(g, own_shard, same.lanes, wh_tessera_my_shard_(a.heap), c,
                                   wh_group_leads(same) ? WH_TESSERA_STUCK : 0, 0, NULL);
    wh_syncwarp(~0u);
    wh_store_u32_relaxed(&wh_tessera_header_(*g)->search_lock, 0);
    a.ptrs[wh_thread_id()] = now.p;
}

/* A heap that is full of blocks of one size, or of several; which of them are free. */
typedef struct full_heap {
    wh_device *device;
    wh_heap *heap;
    partial_args a;
    void **blocks; /* all that there are */
    unsigned char *is_free;
    uint32_t n, n_free;
} full_heap;

static uint64_t begun(const full_heap *f) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->a.heap.core.n_shards; i++) {
        sum += wh_tessera_shard_at_(f->a.heap.core, i)->takes_begun;
    }
    return sum;
}

static full_heap fill_kinds(uint64_t seed, uint32_t size, uint32_t kinds, uint64_t bytes) {
    full_heap f;
    memset(&f, 0, sizeof f);
    f.device = open_policy(seed % 2 == 0 ? WH_SIM_RANDOM : WH_SIM_STICKY, seed);
    f.heap = make_heap_of(f.device, CHUNK, bytes, 2, &f.a.heap);
    f.a.ptrs = take(f.device, LANES * sizeof *f.a.ptrs);
    f.a.size = size;
    f.a.kinds = kinds;
    f.blocks = take(f.device, MOST * sizeof *f.blocks);
    f.is_free = take(f.device, MOST);
    const wh_launch all = grid(f.device, WARPS, 32);
    for (uint32_t got = 1; got != 0;) {
        got = 0;
        assert_int_equal(ask(&all, &f.a), WH_OK);
        for (uint32_t i = 0; i < LANES; i++) {
            if (f.a.ptrs[i] != NULL) {
                assert_true(f.n < MOST);
                f.blocks[f.n++] = f.a.ptrs[i];
                got++;
            }
        }
    }
    return f;
}

static full_heap fill(uint64_t seed, uint32_t size, uint64_t bytes) {
    return fill_kinds(seed, size, 1, bytes);
}

/* Frees every block for which i % every == 0, so that most slabs have some, and none all. */
static void thin(full_heap *f, uint32_t every) {
    const wh_launch one = grid(f->device, 1, 32);
    for (uint32_t i = 0; i < f->n;) {
        uint32_t k = 0;
        for (; i < f->n && k < 32; i++) {
            if (i % every == 0) {
                f->a.ptrs[k++] = f->blocks[i];
                f->is_free[i] = 1;
                f->n_free++;
            }
        }
        while (k < 32) {
            f->a.ptrs[k++] = NULL;
        }
        assert_int_equal(free_all(&one, &f->a), WH_OK);
    }
}

/* Each of the first n pointers that is not NULL is one of the free blocks, and nobody else's. How
 * many there are. */
static uint32_t accept(full_heap *f, uint32_t n) {
    uint32_t got = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (f->a.ptrs[i] != NULL && k < f->n &&
               (f->blocks[k] != f->a.ptrs[i] || !f->is_free[k])) {
            k++;
        }
        assert_true(k < f->n);
        if (f->a.ptrs[i] != NULL) {
            f->is_free[k] = 0;
            got++;
        }
    }
    f->n_free -= got;
    return got;
}

static void is_sound(const full_heap *f) {
    wh_report report;
    wh_stats stats;
    assert_int_equal(wh_heap_check(f->heap, &report), WH_OK);
    assert_int_equal(wh_heap_get_stats(f->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, f->n - f->n_free);
    for (uint32_t shard = 0; shard < f->a.heap.core.n_shards; shard++) { /* I7 */
        const wh_tessera_shard *own_shard = wh_tessera_shard_at_(f->a.heap.core, shard);
        assert_int_equal(own_shard->takes_begun, own_shard->takes_done);
    }
}

static void close_heap(full_heap *f) {
    wh_heap_destroy(f->heap);
    wh_device_close(f->device);
}

/* Several warps at once get what has been freed, to the last block, and then NULL. */
static void test_all_of_it(void **state) {
    const uint32_t sizes[] = {16, 64, 240, 272, 512, 700, 1024};
    (void)state;
    for (uint32_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        full_heap f = fill(i, sizes[i / 2], i / 2 == 0 ? 250000 : 1000000);
        const wh_launch all = grid(f.device, WARPS, 32);
        thin(&f, i % 2 == 0 ? 3 : 31);
        is_sound(&f);
        assert_true(f.n_free > (i % 2 == 0 ? 2 * LANES : 16));
        while (f.n_free != 0) {
            const uint32_t free = f.n_free;
            assert_int_equal(ask(&all, &f.a), WH_OK);
            assert_int_equal(accept(&f, LANES), free < LANES ? free : LANES);
            is_sound(&f);
        }
        assert_int_equal(ask(&all, &f.a), WH_OK);
        assert_int_equal(accept(&f, LANES), 0);
        close_heap(&f);
    }
}

/* Without the slow path: slabs that have one free slot each are enough for a warp, which takes one
 * of each and no more than it needs; a look in vain is no take (X1), and leaves nothing on the list
 * that has no free slot; and while others search for all there is none (X3). */
static void test_lanes_side_by_side(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 8; seed++) {
        full_heap f = fill(seed, 64, 250000);
        const wh_launch one = grid(f.device, 1, 32);
        const uint64_t before = begun(&f);
        assert_int_equal(look(&one, &f.a), WH_OK);
        assert_int_equal(accept(&f, 32), 0);
        assert_int_equal(begun(&f), before);
        thin(&f, seed % 2 == 0 ? 16 : 7);
        assert_true(f.n_free > 50);
        f.a.lock = 1;
        assert_int_equal(look(&one, &f.a), WH_OK);
        assert_int_equal(accept(&f, 32), 0);
        assert_int_equal(begun(&f), before);
        f.a.lock = 0;
        assert_int_equal(look(&one, &f.a), WH_OK);
        assert_int_equal(accept(&f, 32), 32);
        assert_true(begun(&f) > before && begun(&f) <= before + 32);
        is_sound(&f);
        close_heap(&f);
    }
}

static uint32_t chunk_at(const full_heap *f, const void *p) {
    return (uint32_t)((const unsigned char *)p - f->a.heap.core.base) / CHUNK;
}

static uint32_t class_at(const full_heap *f, const void *p) {
    return wh_tessera_tag_class(*wh_tessera_tag_at_(f->a.heap.core, chunk_at(f, p)));
}

/* Free blocks of the class of a kind. */
static uint32_t free_of(const full_heap *f, uint32_t kind) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        n +=
            f->is_free[i] && class_at(f, f->blocks[i]) == wh_tessera_class_of(size_of(&f->a, kind));
    }
    return n;
}

/* Each of n lanes that has something has a slot of its class. */
static void are_of_class(const full_heap *f, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        assert_true(f->a.ptrs[i] == NULL ||
                    class_at(f, f->a.ptrs[i]) == wh_tessera_class_of(size_of(&f->a, i)));
    }
}

#define KINDS 4u

/* Groups of four classes: without the slow path a warp gets what has been freed, to the last block,
 * each lane of its class; what is used up leaves the lists at once; then, and while others search
 * for all, a look is no take (X1, X3). */
static void test_groups_side_by_side(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 8; seed++) {
        full_heap f = fill_kinds(seed, 16, KINDS, 250000);
        const wh_tessera_core g = f.a.heap.core;
        const wh_launch one = grid(f.device, 1, 32);
        thin(&f, seed % 2 == 0 ? 17 : 7);
        assert_true(f.n_free > 100);
        const uint64_t before = begun(&f);
        f.a.lock = 1;
        assert_int_equal(look_groups(&one, &f.a), WH_OK);
        assert_int_equal(accept(&f, 32), 0);
        assert_int_equal(begun(&f), before);
        f.a.lock = 0;
        uint32_t most = 0; /* that a look got */
        for (uint32_t turn = 0; turn < 400 && f.n_free != 0; turn++) {
            assert_int_equal(look_groups(&one, &f.a), WH_OK);
            are_of_class(&f, 32);
            const uint32_t got = accept(&f, 32);
            most = got > most ? got : most;
            is_sound(&f);
        }
        assert_int_equal(f.n_free, 0);
        assert_int_equal(most, 32);
        for (uint32_t i = 0; i < f.n;
             i++) { /* no slab of one word goes on the partial list that is used up */
            const uint32_t c = class_at(&f, f.blocks[i]);
            const uint32_t chunk = (uint32_t)((unsigned char *)f.blocks[i] - g.base) / CHUNK;
            const uint32_t order = wh_tessera_tag_order(*wh_tessera_tag_at_(g, chunk));
            const uint32_t item = wh_tessera_item(g.n_chunks, chunk & (~0u << order));
            assert_false(wh_veb_contains(wh_tessera_partial_list_(g, c), item));
        }
        const uint64_t after = begun(&f);
        assert_int_equal(look_groups(&one, &f.a), WH_OK);
        assert_int_equal(accept(&f, 32), 0);
        assert_int_equal(begun(&f), after);
        close_heap(&f);
    }
}

/* What numbers in a row pick is spread evenly: n of them come to n equal parts once or so each,
 * none three times, wherever they begin, and also further on. */
static void test_spread(void **state) {
    (void)state;
    const uint32_t sizes[] = {24, 132, 512, 3125};
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t n = sizes[i];
        for (uint32_t turn = 0; turn < 5; turn++) {
            uint32_t times[3125] = {0}, most = 0, none = n;
            for (uint32_t k = 0; k < n; k++) {
                const uint32_t at = wh_spread32(1000 * i + k) + turn * WH_TESSERA_FURTHER;
                const uint32_t part = (uint32_t)((uint64_t)at * n >> 32);
                none -= times[part] == 0;
                times[part]++;
                most = times[part] > most ? times[part] : most;
            }
            assert_true(most <= 2);
            assert_true(none <= n / 4); /* of random places 0.37 n, and one has five or six */
        }
    }
}

/* A look of each lane at a list, without a take; ptrs: what slab it has seen. */
WH_KERNEL(glance, partial_args, a) {
    const wh_tessera_core g = a.heap.core;
    const uint32_t c = wh_tessera_class_of(a.size);
    const uint32_t k = (uint32_t)wh_thread_id();
    const wh_tessera_word_view view = wh_tessera_view_word_(g, c, 1, 0, wh_spread32(k));
    a.ptrs[k] = view.w != 0 ? (void *)(uintptr_t)(1 + view.slab) : NULL;
}

/* Lanes that look at a list that is a few times as long seldom see the same slab. */
static void test_seldom_the_same(void **state) {
    (void)state;
    full_heap f = fill(2, 64, 400000);
    const wh_launch all = grid(f.device, WARPS, 32);
    thin(&f, 5);
    assert_int_equal(glance(&all, &f.a), WH_OK);
    uint32_t different = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t before = 0;
        assert_non_null(f.a.ptrs[i]);
        while (before < i && f.a.ptrs[before] != f.a.ptrs[i]) {
            before++;
        }
        different += before == i;
    }
    assert_true(different > LANES - LANES / 16); /* of random ones some 14 of 128 would meet */
    close_heap(&f);
}

static uint32_t hints(const full_heap *f, int clear) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < f->a.heap.core.n_shards; s++) {
        for (uint32_t c = 0; c < f->a.heap.core.n_classes; c++) {
            uint32_t *reuse = wh_tessera_shard_at_(f->a.heap.core, s)->cursors[c].reuse;
            for (uint32_t k = 0; k < WH_TESSERA_REUSES; k++) {
                n += reuse[k] != 0;
                reuse[k] = clear ? 0 : reuse[k];
            }
        }
    }
    return n;
}

/* Groups that look for the a.delay-th time. */
WH_KERNEL(look_in_turn, partial_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t shard = wh_tessera_my_shard_(a.heap);
    const uint32_t c = wh_tessera_class_of(size_of(&a, wh_thread_id()));
    a.ptrs[wh_thread_id()] =
        wh_tessera_take_groups_(g, wh_tessera_shard_at_(*g, shard), wh_group_by_u32(~0u, c).lanes,
                                shard, c, 1, NULL, a.delay)
            .p;
}

/* Where a word has many free slots left the next group looks there first, without a look at the
 * list; where it has few it does not. A warp that comes again looks elsewhere. */
static void test_where_groups_look(void **state) {
    (void)state;
    full_heap f = fill_kinds(4, 16, 2, 400000);
    wh_launch one = grid(f.device, 1, 32);
    thin(&f, 17); /* up to four in a word of 64 */
    assert_int_equal(look_in_turn(&one, &f.a), WH_OK);
    assert_true(accept(&f, 32) > 0);
    assert_int_equal(hints(&f, 1), 0);
    close_heap(&f);

    f = fill_kinds(4, 16, KINDS, 400000);
    one = grid(f.device, 1, 32);
    thin(&f, 3); /* some 21 */
    void *first[3][32];
    for (uint32_t k = 0; k < 3; k++) {
        f.a.delay = k / 2; /* twice for the first time, then for the second one */
        assert_int_equal(look_in_turn(&one, &f.a), WH_OK);
        memcpy(first[k], f.a.ptrs, sizeof first[k]);
        assert_int_equal(accept(&f, 32), 32);
        assert_true(hints(&f, 1) != 0);
    }
    const uint32_t chunks[3] = {chunk_at(&f, first[0][0]), chunk_at(&f, first[1][0]),
                                chunk_at(&f, first[2][0])};
    assert_int_equal(chunks[0], chunks[1]);
    assert_true(chunks[0] != chunks[2]);
    close_heap(&f);
}

WH_FN uint64_t begun_now(wh_tessera_core g) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g.n_shards; i++) {
        sum += wh_load_u32_relaxed(&wh_tessera_shard_at_(g, i)->takes_begun);
    }
    return sum;
}

/* A warp looks, and when it has begun to take, a lane of another block begins a search for all;
 * ptrs[32]: the takes that had begun by then. */
WH_KERNEL(look_beside_search, partial_args, a) {
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    const uint32_t shard = wh_tessera_my_shard_(a.heap);
    if (wh_block_id() == 0) {
        const uint32_t c = wh_tessera_class_of(size_of(&a, wh_thread_id()));
        const wh_group same = wh_group_by_u32(~0u, c);
        a.ptrs[wh_thread_id()] = wh_tessera_take_groups_(g, wh_tessera_shard_at_(*g, shard),
                                                         same.lanes, shard, c, 1, NULL, 0)
                                     .p;
    } else if (wh_lane_id() == 0) {
        for (uint32_t k = 0; begun_now(*g) == a.delay; k++) {
            wh_backoff(k);
        }
        (void)wh_exchange_u32_acquire(&wh_tessera_header_(*g)->search_lock, 1);
        a.ptrs[32] = (void *)(uintptr_t)begun_now(*g);
    }
}

/* Groups that have some and want more look no further once others search for all (X3): of takes
 * begins at most the one that each leader was about to begin, and one behind it. */
static void test_search_ends_looks(void **state) {
    (void)state;
    uint32_t short_of = 0; /* lanes that have none */
    for (uint32_t seed = 1; seed <= 16; seed++) {
        full_heap f = fill_kinds(seed, 16, KINDS, 250000);
        const wh_launch two = grid(f.device, 2, 32);
        thin(&f, 17);
        f.a.delay = (uint32_t)begun(&f);
        assert_int_equal(look_beside_search(&two, &f.a), WH_OK);
        const uint64_t then = (uint64_t)(uintptr_t)f.a.ptrs[32];
        wh_tessera_header_(f.a.heap.core)->search_lock = 0;
        assert_true(begun(&f) <= then + 2 * KINDS);
        short_of += 32 - accept(&f, 32);
        is_sound(&f);
        close_heap(&f);
    }
    assert_true(short_of > 0);
}

/* Several warps of four classes get what has been freed of each, to the last block, and then NULL.
 */
static void test_all_of_each_class(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 6; seed++) {
        full_heap f = fill_kinds(seed, 16, KINDS, 250000);
        const wh_launch all = grid(f.device, WARPS, 32);
        thin(&f, seed % 2 == 0 ? 5 : 31);
        for (uint32_t last = 0; !last;) {
            uint32_t may = 0;
            for (uint32_t kind = 0; kind < KINDS; kind++) {
                const uint32_t n = free_of(&f, kind);
                may += n < LANES / KINDS ? n : LANES / KINDS;
            }
            assert_int_equal(ask(&all, &f.a), WH_OK);
            are_of_class(&f, LANES);
            assert_int_equal(accept(&f, LANES), may);
            is_sound(&f);
            last = may == 0;
        }
        assert_int_equal(f.n_free, 0);
        close_heap(&f);
    }
}

WH_KERNEL(ask_and_free, partial_args, a) {
    const uint64_t i = wh_thread_id();
    if (i / 32 % 2 == 0) {
        for (uint32_t k = 0; k < a.delay; k++) {
            (void)wh_load_u32_relaxed(&wh_tessera_header_(a.heap.core)->search_lock);
        }
        wh_syncwarp(~0u);
        wh_free_lanes(a.heap, ~0u, a.ptrs[i]);
        a.ptrs[i] = NULL;
    } else {
        a.ptrs[i] = wh_malloc_lanes(a.heap, ~0u, size_of(&a, i));
    }
}

/* While others free slots of the words that a warp has seen it takes no more than it has counted:
 * what it did not hand out would be lost. */
static void test_beside_frees(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        full_heap f = fill(2 * seed, 64, 40000);
        const wh_launch all = grid(f.device, WARPS, 32);
        thin(&f, 3);
        for (uint32_t step = 0; step < 4; step++) {
            uint32_t given = 0;
            for (uint32_t i = 0; i < f.n && given < LANES / 2; i++) { /* to free */
                const uint32_t k = (i * 17 + step * 7) % f.n;
                if (!f.is_free[k] && f.blocks[k] != NULL) {
                    f.a.ptrs[given / 32 * 64 + given % 32] = f.blocks[k];
                    f.blocks[k] = NULL;
                    given++;
                }
            }
            assert_int_equal(given, LANES / 2);
            f.a.delay = (seed * 4 + step) % 80;
            assert_int_equal(ask_and_free(&all, &f.a), WH_OK);
            uint32_t live = 0;
            for (uint32_t i = 0; i < f.n; i++) {
                live += f.blocks[i] != NULL && !f.is_free[i];
            }
            for (uint32_t i = 0; i < LANES; i++) {
                if (f.a.ptrs[i] != NULL) { /* it is live, in the place of some that is not */
                    uint32_t k = 0;
                    while (f.blocks[k] != NULL && !f.is_free[k]) {
                        k++;
                    }
                    f.blocks[k] = f.a.ptrs[i];
                    f.is_free[k] = 0;
                    live++;
                }
            }
            f.n_free = f.n - live;
            is_sound(&f);
        }
        close_heap(&f);
    }
}

/* Warps that look at the same few slabs at once: who has lost a slot to another one looks again. */
static void test_lost_races(void **state) {
    (void)state;
    uint32_t got = 0, wanted = 0;
    for (uint32_t seed = 1; seed <= 24; seed++) {
        full_heap f = fill(seed, 64, 60000);
        const wh_launch all = grid(f.device, WARPS, 32);
        thin(&f, f.n / (LANES + 8));
        assert_true(f.n_free > LANES);
        assert_int_equal(look(&all, &f.a), WH_OK);
        got += accept(&f, LANES);
        wanted += LANES;
        is_sound(&f);
        close_heap(&f);
    }
    assert_true(got + 8 >= wanted); /* more than 20 short, if the first look decides */
}

/* Slabs that go on the partial list and have no free slot leave the list. Who has looked in vain
 * says that the pool is next if some of them have left the class, but not if they are used up; a
 * group does not. None of these looks is a take (X1). */
static void test_what_is_stale(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        full_heap f = fill(3, 64, 100000);
        const wh_tessera_core g = f.a.heap.core;
        const wh_launch one = grid(f.device, 1, 32);
        const int left = i % 2 != 0, groups = i / 2 != 0;
        const uint32_t c = wh_tessera_class_of(left ? 128 : 64);
        const uint32_t slab = (uint32_t)((unsigned char *)f.blocks[0] - g.base) / CHUNK;
        const uint32_t first = slab & (~0u << wh_tessera_tag_order(*wh_tessera_tag_at_(g, slab)));
        const uint32_t item = wh_tessera_item(g.n_chunks, first);
        const uint64_t before = begun(&f);
        wh_tessera_add_partial_(g, c, first);
        wh_tessera_shard_at_(g, 0)->pool_was_empty = wh_tessera_shard_at_(g, 1)->pool_was_empty = 1;
        assert_true(wh_veb_contains(wh_tessera_partial_list_(g, c), item));
        f.a.size = left ? 128 : 64;
        assert_int_equal(groups ? look_groups(&one, &f.a) : look(&one, &f.a), WH_OK);
        assert_int_equal(accept(&f, 32), 0);
        assert_false(wh_veb_contains(wh_tessera_partial_list_(g, c), item));
        assert_int_equal(wh_tessera_shard_at_(g, 0)->pool_was_empty +
                             wh_tessera_shard_at_(g, 1)->pool_was_empty,
                         left && !groups ? 1 : 2);
        assert_int_equal(begun(&f), before);
        is_sound(&f);
        close_heap(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_of_it),
                                       cmocka_unit_test(test_lanes_side_by_side),
                                       cmocka_unit_test(test_groups_side_by_side),
                                       cmocka_unit_test(test_all_of_each_class),
                                       cmocka_unit_test(test_search_ends_looks),
                                       cmocka_unit_test(test_beside_frees),
                                       cmocka_unit_test(test_lost_races),
                                       cmocka_unit_test(test_what_is_stale),
                                       cmocka_unit_test(test_spread),
                                       cmocka_unit_test(test_seldom_the_same),
                                       cmocka_unit_test(test_where_groups_look)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

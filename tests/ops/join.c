/* join.c: joins against a naive one on the host: random tables with few and many equal keys, all
 * kinds, variants and widths, by every policy of the simulated device; heaps that are too small,
 * and drained; bad input. */
#include "full_device.h"

#include "warpheap/ops.h"
#include "warpheap/warpheap.h"

enum { MOST_ROWS = 900, MOST_OUT = 200000 };

static const char *const variants[] = {"paged", "pages", "paper", "two-pass"};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

/* A row of a result; what is not there is 0. */
typedef struct out_row {
    uint64_t key, build, probe;
} out_row;

typedef struct out_rows {
    out_row row[MOST_OUT];
    uint32_t n;
} out_rows;

static out_rows got[WH_JOIN_LISTS], expected[WH_JOIN_LISTS];

typedef struct columns {
    uint64_t key[MOST_ROWS], value[MOST_ROWS]; /* as they are meant */
    void *device_key, *device_value;
    uint32_t n;
} columns;

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_join_options o;
    wh_join *join;
    columns side[2];
    uint64_t random;
} context;

static uint32_t width_of(wh_value_kind kind) {
    static const uint32_t bytes[] = {0, 4, 8, 4};
    return bytes[kind];
}

/* A column on the device, of the lower bytes of what is meant. */
static void *column(context *x, const uint64_t *v, uint32_t n, uint32_t bytes) {
    unsigned char packed[MOST_ROWS * 8];
    void *p = take(x->device, (uint64_t)n * 8 + 8);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(packed + (size_t)i * bytes, &v[i], bytes);
    }
    assert_int_equal(wh_device_copy_in(x->device, p, packed, (uint64_t)n * bytes), WH_OK);
    return p;
}

/* n rows with so many different keys, all bits of which are used; one in three is of key 0. */
static void make_side(context *x, uint32_t k, uint32_t n, uint32_t keys, int is_skewed) {
    columns *c = &x->side[k];
    const wh_value_kind kind = k == 0 ? x->o.build_value : x->o.probe_value;
    c->n = n;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t which = next_random(&x->random) % keys;
        const int is_hot = is_skewed && next_random(&x->random) % 3 == 0;
        const uint64_t random = next_random(&x->random);
        const uint64_t values[] = {0, (uint32_t)random, random, i}; /* by kind */
        uint64_t key = which == 1 ? UINT64_MAX : which * 0x9e3779b97f4a7c15u;
        key = is_hot ? 0 : key;
        c->key[i] = x->o.key_bytes == 8 ? key : (uint32_t)(key >> 32);
        c->value[i] = values[kind];
    }
    c->device_key = column(x, c->key, n, x->o.key_bytes);
    c->device_value = column(x, c->value, n, kind == WH_VALUE_8 ? 8 : 4);
}

static void put_expected(uint32_t list, uint64_t key, uint64_t build, uint64_t probe) {
    out_row *r = &expected[list].row[expected[list].n++];
    assert_true(expected[list].n < MOST_OUT);
    r->key = key;
    r->build = build;
    r->probe = probe;
}

static void join_naively(const context *x) {
    const columns *b = &x->side[0], *p = &x->side[1];
    expected[0].n = expected[1].n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t partners = 0;
        for (uint32_t k = 0; k < b->n; k++) {
            if (b->key[k] == p->key[i]) {
                partners++;
                if (x->o.kind == WH_JOIN_INNER || x->o.kind == WH_JOIN_LEFT ||
                    x->o.kind == WH_JOIN_COUNT) {
                    put_expected(0, p->key[i], b->value[k], p->value[i]);
                }
            }
        }
        if (x->o.kind == WH_JOIN_LEFT && partners == 0) {
            put_expected(1, p->key[i], 0, p->value[i]);
        }
        if ((x->o.kind == WH_JOIN_SEMI && partners != 0) ||
            (x->o.kind == WH_JOIN_ANTI && partners == 0)) {
            put_expected(0, p->key[i], 0, p->value[i]);
        }
    }
}

static int compare_rows(const void *a, const void *b) {
    return memcmp(a, b, sizeof(out_row));
}

static void compare_list(uint32_t list) {
    assert_int_equal(got[list].n, expected[list].n);
    qsort(got[list].row, got[list].n, sizeof(out_row), compare_rows);
    qsort(expected[list].row, expected[list].n, sizeof(out_row), compare_rows);
    assert_memory_equal(got[list].row, expected[list].row, got[list].n * sizeof(out_row));
}

static uint64_t entry(const unsigned char *column, uint32_t bytes, uint64_t i) {
    uint64_t v = 0;
    memcpy(&v, column + i * bytes, bytes);
    return v;
}

/* Adds the rows of a list's pages to what has been got. */
static void read_pages(context *x, uint32_t list) {
    wh_pages p;
    uint64_t rows = 0;
    assert_int_equal(wh_join_pages(x->join, list, &p), WH_OK);
    for (uint64_t k = 0; k < p.n_pages; k++) {
        assert_in_range(p.rows[k], 1, p.room);
        rows += p.rows[k];
        for (uint32_t i = 0; i < p.rows[k]; i++) {
            out_row *r = &got[list].row[got[list].n++];
            uint64_t v[3];
            assert_true(got[list].n < MOST_OUT);
            for (uint32_t c = 0; c < 3; c++) {
                v[c] = entry(p.page[k] + p.column_at[c], p.column_bytes[c], i);
            }
            r->key = v[0];
            r->build = v[1];
            r->probe = v[2];
        }
    }
    assert_int_equal(rows, p.n_rows);
}

static uint32_t lists_of(const context *x) {
    return x->o.kind == WH_JOIN_LEFT ? 2 : 1;
}

/* The rows of a list, compacted, are those of its pages. */
static void compare_compacted(context *x, uint32_t list) {
    const uint64_t n = got[list].n;
    const uint32_t bytes[3] = {x->o.key_bytes, list == 0 ? width_of(x->o.build_value) : 0,
                               width_of(x->o.probe_value)};
    void *to[3];
    for (uint32_t c = 0; c < 3; c++) {
        to[c] = take(x->device, n * 8 + 8);
    }
    assert_int_equal(wh_join_compact(x->join, list, to, NULL), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    const int has_build = list == 0 && x->o.kind != WH_JOIN_SEMI && x->o.kind != WH_JOIN_ANTI;
    for (uint32_t i = 0; i < n; i++) {
        out_row *r = &got[list].row[i];
        r->key = entry(to[0], bytes[0], i);
        r->build = has_build ? entry(to[1], bytes[1], i) : 0;
        r->probe = entry(to[2], bytes[2], i);
    }
    compare_list(list);
    for (uint32_t c = 0; c < 3; c++) {
        assert_int_equal(wh_device_free(x->device, to[c]), WH_OK);
    }
}

static void read_columns(context *x, uint64_t n) {
    const void *at[3];
    assert_int_equal(wh_join_columns(x->join, at), WH_OK);
    for (uint64_t i = 0; i < n; i++) {
        out_row *r = &got[0].row[got[0].n++];
        r->key = entry(at[0], x->o.key_bytes, i);
        r->build = at[1] != NULL ? entry(at[1], width_of(x->o.build_value), i) : 0;
        r->probe = at[2] != NULL ? entry(at[2], width_of(x->o.probe_value), i) : 0;
    }
}

static int is_two_pass(const context *x) {
    return x->o.variant != NULL && strcmp(x->o.variant, "two-pass") == 0;
}

static void start_join(context *x) {
    wh_table t[2];
    memset(t, 0, sizeof t);
    for (uint32_t k = 0; k < 2; k++) {
        t[k].key = x->side[k].device_key;
        t[k].value = x->side[k].device_value;
        t[k].n = x->side[k].n;
    }
    got[0].n = got[1].n = 0;
    assert_int_equal(wh_join_start(x->join, &t[0], &t[1], NULL), WH_OK);
}

/* A join that has memory enough. */
static void run_and_compare(context *x) {
    wh_join_result r;
    join_naively(x);
    start_join(x);
    assert_int_equal(wh_join_finish(x->join, &r), WH_OK);
    assert_int_equal(r.rows, expected[0].n);
    assert_int_equal(r.all_rows, expected[0].n + expected[1].n);
    if (x->o.kind == WH_JOIN_COUNT) {
        return;
    }
    if (is_two_pass(x)) {
        read_columns(x, r.rows);
        compare_list(0);
        return;
    }
    for (uint32_t list = 0; list < lists_of(x); list++) {
        read_pages(x, list);
        compare_list(list);
        compare_compacted(x, list);
    }
}

static uint64_t live_blocks(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.bad_frees, 0); /* no page goes back twice */
    return stats.live_blocks;
}

static void open_all(context *x, uint64_t seed, uint64_t heap_bytes) {
    wh_heap_options ho;
    memset(x, 0, sizeof *x);
    memset(&ho, 0, sizeof ho);
    wh_sim_options so;
    memset(&so, 0, sizeof so);
    so.memory_bytes = 64 << 20;
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.weak = seed % 5 == 1 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
    so.workers = so.weak == 0 && seed % 7 == 3 ? 2 : 0;
    so.n_sms = so.blocks_per_sm = seed % 4 == 3 ? 1 : 0; /* a block with all the work */
    x->device = open_with(&so);
    ho.device = x->device;
    ho.bytes = heap_bytes;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->random = seed;
    x->o.heap = x->heap;
    x->o.key_bytes = seed % 3 == 0 ? 8 : 4;
    x->o.build_value = (wh_value_kind)(seed / 2 % 4);
    x->o.probe_value = (wh_value_kind)(seed / 3 % 4);
    x->o.page_bytes = seed % 2 == 0 ? 1024 : 2048;
}

static void close_all(context *x) {
    assert_int_equal(wh_join_destroy(x->join), WH_OK);
    assert_int_equal(live_blocks(x), 0); /* nothing is lost */
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static void create(context *x) {
    x->o.build_rows = x->side[0].n;
    x->o.probe_rows = x->side[1].n;
    assert_int_equal(wh_join_create(&x->join, &x->o), WH_OK);
}

static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds() * 4; seed++) {
        context x;
        open_all(&x, seed, 16 << 20);
        x.o.kind = (wh_join_kind)(seed / 4 % 5);
        x.o.variant = variants[seed % N_VARIANTS];
        if (is_two_pass(&x) && x.o.kind != WH_JOIN_COUNT) {
            x.o.kind = WH_JOIN_INNER;
        }
        const uint32_t build = (uint32_t)(next_random(&x.random) % 300);
        const uint32_t probe = (uint32_t)(next_random(&x.random) % MOST_ROWS);
        const uint32_t keys = 1 + build / (1 + (uint32_t)(seed % 5));
        make_side(&x, 0, build, keys, seed % 7 == 0);
        make_side(&x, 1, probe, 2 * keys, seed % 5 == 0);
        create(&x);
        run_and_compare(&x);
        run_and_compare(&x); /* the object is as good as new */
        close_all(&x);
    }
}

static void test_edges(void **state) {
    static const uint32_t sizes[][3] = {/* rows of both, keys */
                                        {0, 0, 1},   {0, 50, 5},    {50, 0, 5},   {1, 1, 1},
                                        {33, 65, 1}, {200, 300, 1}, {200, 300, 2}};
    (void)state;
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (uint32_t kind = 0; kind <= WH_JOIN_COUNT; kind++) {
            context x;
            open_all(&x, k * 5 + kind, 16 << 20);
            x.o.kind = (wh_join_kind)kind;
            x.o.variant = variants[(k + kind) % 3];
            if ((k + kind) % 3 == 2) { /* paper: a lane fills page after page */
                x.o.build_value = x.o.probe_value = WH_VALUE_8;
                x.o.page_bytes = 1024;
            }
            make_side(&x, 0, sizes[k][0], sizes[k][2], 0);
            make_side(&x, 1, sizes[k][1], sizes[k][2], 0);
            create(&x);
            run_and_compare(&x);
            close_all(&x);
        }
    }
}

/* A heap that holds a tenth of the result, drained until the end: each row comes once. */
static void drain(context *x) {
    wh_join_result r;
    wh_status s;
    uint32_t rounds = 0;
    join_naively(x);
    start_join(x);
    do {
        s = wh_join_finish(x->join, &r);
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        for (uint32_t list = 0; list < lists_of(x); list++) {
            read_pages(x, list);
        }
        assert_int_equal(r.all_rows, got[0].n + got[1].n);
        rounds++;
        assert_true(s == WH_OK || r.rows + r.unmatched != 0);
        if (s != WH_OK) {
            assert_int_equal(wh_join_drop_pages(x->join, NULL), WH_OK);
            assert_int_equal(wh_join_resume(x->join, NULL), WH_OK);
        }
    } while (s != WH_OK);
    for (uint32_t list = 0; list < lists_of(x); list++) {
        compare_list(list);
    }
}

static void test_full_heap(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        wh_heap_options ho;
        context x;
        open_all(&x, seed, 16 << 20);
        memset(&ho, 0, sizeof ho);
        ho.device = x.device;
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
        ho.bytes += seed % 3 == 0 ? ho.bytes : ho.bytes / 4; /* paged: room for the parts, too */
        assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
        x.o.heap = x.heap;
        x.o.kind = (wh_join_kind)(seed % 4);
        x.o.variant = variants[seed % 3];
        x.o.page_bytes = x.o.variant == variants[0] ? 1024 : x.o.page_bytes;
        x.o.build_value = x.o.probe_value = WH_VALUE_8;
        const int is_paper = strcmp(x.o.variant, "paper") == 0; /* a page a lane: many rounds */
        make_side(&x, 0, is_paper ? 60 : 300, 3, 0);
        make_side(&x, 1, is_paper ? 300 : MOST_ROWS, 6, 0);
        create(&x);
        drain(&x);
        close_all(&x);
    }
}

/* --- no room for the tables' parts ------------------------------------------------------------ */

enum { MOST_HELD = 4000 };

typedef struct held_args {
    wh_heap_ref heap;
    void **held;
    uint32_t n, takes;
} held_args;

/* Takes blocks until the heap is full or n are held; or gives back all but the first n. */
WH_KERNEL(hold_blocks, held_args, a) {
    for (uint32_t i = a.takes ? 0 : a.n; wh_thread_id() == 0 && i < MOST_HELD; i++) {
        if (a.takes) {
            a.held[i] = i < a.n ? wh_malloc(a.heap, 1024) : NULL;
        } else {
            wh_free(a.heap, a.held[i]);
            a.held[i] = NULL;
        }
    }
}

static void hold(context *x, void **held, uint32_t n, uint32_t takes) {
    held_args a = {.held = held, .n = n, .takes = takes};
    const wh_launch l = grid(x->device, 1, 32);
    assert_int_equal(wh_heap_handle(x->heap, &a.heap), WH_OK);
    assert_int_equal(hold_blocks(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
}

/* All that there is; how many. */
static uint32_t hold_all(context *x, void **held) {
    uint32_t n = 0;
    hold(x, held, MOST_HELD, 1);
    while (n < MOST_HELD && held[n] != NULL) {
        n++;
    }
    return n;
}

/* Somebody else has most of the heap, and gives some of it back now and then: rows keep the places
 * that they have, others get one later. */
static void test_no_room_for_parts(void **state) {
    (void)state;
    uint32_t stops = 0;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        wh_join_result r;
        open_all(&x, seed, 1 << 20);
        x.o.kind = (wh_join_kind)(seed % 4);
        x.o.variant = NULL;
        x.o.page_bytes = 1024;
        make_side(&x, 0, 300, 200, seed % 2 == 0);
        make_side(&x, 1, MOST_ROWS, seed % 4 == 1 ? 1 : 400, 0); /* one key: many pages at once */
        create(&x);
        void **held = take(x.device, MOST_HELD * sizeof *held);
        join_naively(&x);
        uint32_t left = hold_all(&x, held);
        start_join(&x);
        while (wh_join_finish(x.join, &r) == WH_OUT_OF_MEMORY) {
            assert_true(left >= 5);
            stops++;
            left -= 5;
            hold(&x, held, left, 0);
            assert_int_equal(wh_join_resume(x.join, NULL), WH_OK);
        }
        for (uint32_t list = 0; list < lists_of(&x); list++) {
            read_pages(&x, list);
            compare_list(list);
        }
        hold(&x, held, 0, 0);
        close_all(&x);
    }
    assert_true(stops > n_seeds());
}

/* --- a heap that grows -------------------------------------------------------------------------
 */

/* A heap that moves when it grows, by `more` bytes larger than the least one; 0: it is not built.
 */
static int take_moving_heap(context *x, uint64_t more) {
    wh_heap_options ho;
    memset(&ho, 0, sizeof ho);
    ho.device = x->device;
    ho.allocator = "ouro-s-p";
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    if (wh_heap_min_bytes(&ho, &ho.bytes) != WH_OK) {
        return 0;
    }
    ho.bytes += more;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->o.heap = x->heap;
    return 1;
}

/* Its pages are where the join says then. If the device has no memory for that, it says so, and is
 * asked again. */
static void grow(context *x, uint64_t more) {
    const uint64_t least = (uint64_t)64 << next_random(&x->random) % 6;
    void *base = NULL;
    uint64_t bytes = 0;
    int64_t moved = 0;
    assert_int_equal(wh_heap_memory(x->heap, &base, &bytes), WH_OK);
    assert_int_equal(wh_heap_grow(x->heap, bytes + more, NULL, &moved), WH_OK);
    fill_device(x->device, least);
    const wh_status s = wh_join_rebase(x->join, moved);
    empty_device(x->device);
    assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
    if (s == WH_OUT_OF_MEMORY) {
        assert_int_equal(wh_join_rebase(x->join, moved), WH_OK);
    }
}

/* What pages have, behind what was in pages that are gone. */
static void read_all(context *x, const uint32_t *gone) {
    for (uint32_t list = 0; list < WH_JOIN_LISTS; list++) {
        got[list].n = gone[list];
    }
    for (uint32_t list = 0; list < lists_of(x); list++) {
        read_pages(x, list);
    }
}

/* Runs to the end, in a heap that grows whenever it is full; sometimes what is there goes first. */
static uint32_t run_and_grow(context *x, uint64_t more, int drops) {
    const int has_pages = x->o.kind != WH_JOIN_COUNT;
    uint32_t rounds = 0, gone[WH_JOIN_LISTS] = {0, 0};
    wh_join_result r;
    join_naively(x);
    start_join(x);
    while (wh_join_finish(x->join, &r) == WH_OUT_OF_MEMORY) {
        grow(x, more);
        if (has_pages) {
            read_all(x, gone);
            assert_int_equal(got[0].n + got[1].n, r.all_rows);
        }
        if (has_pages && drops && rounds % 2 == 1) {
            gone[0] = got[0].n;
            gone[1] = got[1].n;
            assert_int_equal(wh_join_drop_pages(x->join, NULL), WH_OK);
        }
        assert_int_equal(wh_join_resume(x->join, NULL), WH_OK);
        rounds++;
    }
    assert_int_equal(r.all_rows, expected[0].n + expected[1].n);
    grow(x, 32 << 10); /* the result moves once more */
    if (has_pages) {
        read_all(x, gone);
    }
    for (uint32_t list = 0; has_pages && list < lists_of(x); list++) {
        compare_list(list);
        if (!drops) {
            compare_compacted(x, list);
        }
    }
    return rounds;
}

static void test_grow(void **state) {
    uint32_t rounds[3] = {0, 0, 0};
    (void)state;
    for (uint64_t seed = 0; seed < 15; seed++) {
        const int is_paper = seed % 3 == 2, drops = seed % 5 == 4; /* a page a lane */
        context x;
        open_all(&x, seed, 1 << 20);
        if (!take_moving_heap(&x, 12 << 10)) {
            wh_device_close(x.device);
            skip();
        }
        x.o.kind = (wh_join_kind)(seed / 3 % 5);
        x.o.variant = variants[seed % 3];
        x.o.page_bytes = 1024;
        make_side(&x, 0, 200, 30, seed % 2 == 0);
        make_side(&x, 1, is_paper ? 300 : MOST_ROWS, 60, 0);
        create(&x);
        if (seed % 4 == 1) {
            grow(&x, 16 << 10); /* before the first start */
        }
        rounds[seed % 3] += run_and_grow(&x, is_paper ? 64 << 10 : 8 << 10, drops);
        close_all(&x);
    }
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(rounds[k] >= 2); /* heaps have been full */
    }
}

/* Larger before the first start than create has seen: there may be more pages than it had room for
 * in its lists. */
static void test_grow_first(void **state) {
    context x;
    (void)state;
    open_all(&x, 2, 1 << 20);
    if (!take_moving_heap(&x, 0)) {
        wh_device_close(x.device);
        skip();
    }
    x.o.kind = WH_JOIN_INNER;
    x.o.variant = "pages";
    x.o.page_bytes = 512;
    x.o.build_value = x.o.probe_value = WH_VALUE_NONE;
    make_side(&x, 0, 300, 2, 0);
    make_side(&x, 1, MOST_ROWS, 2, 0);
    create(&x);
    grow(&x, 8 << 20);
    run_and_compare(&x);
    start_join(&x);
    assert_int_equal(wh_join_rebase(x.join, 0), WH_BAD_ARGUMENT); /* it has started */
    assert_int_equal(wh_join_finish(x.join, NULL), WH_OK);
    assert_int_equal(wh_join_rebase(NULL, 0), WH_BAD_ARGUMENT);
    /* Nobody looks at pages that have moved, nor moves them twice. */
    void *base = NULL, *to[3] = {NULL, NULL, NULL};
    uint64_t bytes = 0;
    int64_t moved = 0;
    wh_pages pages;
    const wh_table t = {0, NULL, NULL, 0};
    assert_int_equal(wh_heap_memory(x.heap, &base, &bytes), WH_OK);
    assert_int_equal(wh_heap_grow(x.heap, bytes + (1 << 20), NULL, &moved), WH_OK);
    assert_int_equal(wh_join_pages(x.join, 0, &pages), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_compact(x.join, 0, to, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_drop_pages(x.join, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_start(x.join, &t, &t, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_destroy(x.join), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "wh_join_rebase"));
    assert_int_equal(wh_join_rebase(x.join, moved), WH_OK);
    assert_int_equal(wh_join_rebase(x.join, moved != 0 ? moved : 1), WH_BAD_ARGUMENT);
    got[0].n = 0;
    read_pages(&x, 0);
    compare_list(0);
    close_all(&x);
}

/* Two-pass joins have no pages that could move. */
static void test_grow_two_pass(void **state) {
    context x;
    (void)state;
    open_all(&x, 2, 1 << 20);
    x.o.kind = WH_JOIN_INNER;
    x.o.variant = "two-pass";
    make_side(&x, 0, 100, 20, 0);
    make_side(&x, 1, 200, 40, 0);
    create(&x);
    assert_int_equal(wh_join_rebase(x.join, 4096), WH_OK);
    run_and_compare(&x);
    assert_int_equal(wh_join_rebase(x.join, 4096), WH_OK);
    got[0].n = 0;
    read_columns(&x, expected[0].n);
    compare_list(0);
    close_all(&x);
}

/* The pages of a part go back when its last unit is done, also in a join that stops many times: one
 * block takes unit after unit, and parts have as many pages as there are rows to come. */
static void test_parts_go_back(void **state) {
    (void)state;
    for (uint64_t seed = 3; seed <= 19; seed += 4) {
        uint64_t most_parts = 0, stops = 0;
        context x;
        wh_join_result r;
        open_all(&x, seed, 1 << 20);
        x.o.kind = (wh_join_kind)(seed / 4 % 2);
        x.o.build_value = x.o.probe_value = WH_VALUE_8;
        x.o.page_bytes = 1024;
        make_side(&x, 0, 300, 100, 0);
        make_side(&x, 1, MOST_ROWS, 120, 0);
        create(&x);
        void **held = take(x.device, MOST_HELD * sizeof *held);
        join_naively(&x);
        uint32_t left = hold_all(&x, held);
        start_join(&x);
        while (wh_join_finish(x.join, &r) == WH_OUT_OF_MEMORY) {
            if (r.rows + r.unmatched == 0) { /* parts need more */
                assert_true(left >= 3);
                left -= 3;
                hold(&x, held, left, 0);
            } else {
                const uint64_t parts = live_blocks(&x) - left - r.pages;
                const uint64_t all = expected[0].n + expected[1].n;
                most_parts = parts > most_parts ? parts : most_parts;
                assert_in_range(parts, 0, most_parts * (all - r.all_rows) / all + 16);
                stops++;
            }
            read_pages(&x, 0);
            assert_int_equal(wh_join_drop_pages(x.join, NULL), WH_OK);
            assert_int_equal(wh_join_resume(x.join, NULL), WH_OK);
        }
        read_pages(&x, 0);
        compare_list(0);
        assert_in_range(stops, 4, UINT32_MAX);
        hold(&x, held, 0, 0);
        close_all(&x);
    }
}

static void expect_refused(const wh_join_options *o, wh_status s, const char *word) {
    wh_join *join = NULL;
    assert_int_equal(wh_join_create(&join, o), s);
    assert_non_null(strstr(wh_last_error_text(), word));
    assert_null(join);
}

static void test_bad_options(void **state) {
    (void)state;
    context x;
    open_all(&x, 4, 1 << 20);
    wh_join_options o = x.o;
    assert_int_equal(wh_join_create(NULL, &o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_create(&x.join, NULL), WH_BAD_ARGUMENT);
    o.heap = NULL;
    expect_refused(&o, WH_BAD_ARGUMENT, "heap");
    o = x.o, o.kind = (wh_join_kind)5;
    expect_refused(&o, WH_BAD_ARGUMENT, "kind");
    o = x.o, o.build_value = (wh_value_kind)9;
    expect_refused(&o, WH_BAD_ARGUMENT, "kind");
    o = x.o, o.key_bytes = 5;
    expect_refused(&o, WH_BAD_ARGUMENT, "5");
    o = x.o, o.probe_rows = (uint64_t)1 << 32;
    expect_refused(&o, WH_BAD_ARGUMENT, "rows");
    o = x.o, o.page_bytes = 100;
    expect_refused(&o, WH_BAD_ARGUMENT, "100");
    o = x.o, o.page_bytes = 2 << 20;
    expect_refused(&o, WH_BAD_ARGUMENT, "MiB");
    o = x.o, o.variant = "one-pass";
    expect_refused(&o, WH_UNSUPPORTED, "one-pass");
    o = x.o, o.variant = "two-pass", o.kind = WH_JOIN_LEFT;
    expect_refused(&o, WH_UNSUPPORTED, "two-pass");
    o = x.o, o.struct_bytes = 8;
    expect_refused(&o, WH_WRONG_BUILD, "8");
    assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
    wh_heap_options ho;
    memset(&ho, 0, sizeof ho);
    ho.device = x.device;
    ho.bytes = 1 << 20;
    ho.allocator = "bump";
    assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
    o = x.o, o.heap = x.heap;
    expect_refused(&o, WH_UNSUPPORTED, "bump");
    assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
    wh_device_close(x.device);
}

/* What is refused, and when; the object stays as good as it was. */
static void test_bad_calls(void **state) {
    (void)state;
    context x;
    open_all(&x, 4, 16 << 20);
    x.o.kind = WH_JOIN_INNER;
    x.o.variant = NULL;
    x.o.build_value = WH_VALUE_4;
    make_side(&x, 0, 20, 5, 0);
    make_side(&x, 1, 30, 5, 0);
    create(&x);
    wh_pages pages;
    wh_table b, p;
    memset(&b, 0, sizeof b);
    b.key = x.side[0].device_key;
    b.value = x.side[0].device_value;
    b.n = 20;
    p = b;
    p.n = 30;
    assert_int_equal(wh_join_finish(x.join, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_resume(x.join, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_pages(x.join, 0, &pages), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_start(x.join, &b, NULL, NULL), WH_BAD_ARGUMENT);
    wh_table bad = b;
    bad.n = 21;
    assert_int_equal(wh_join_start(x.join, &bad, &p, NULL), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "build table has 21"));
    bad = b, bad.key = NULL;
    assert_int_equal(wh_join_start(x.join, &bad, &p, NULL), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "no keys"));
    bad = b, bad.value = NULL;
    assert_int_equal(wh_join_start(x.join, &bad, &p, NULL), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "no values"));
    bad = b, bad.key = (const char *)b.key + 2;
    assert_int_equal(wh_join_start(x.join, &bad, &p, NULL), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "aligned"));
    bad = b, bad.struct_bytes = 3;
    assert_int_equal(wh_join_start(x.join, &bad, &p, NULL), WH_WRONG_BUILD);
    run_and_compare(&x);
    assert_int_equal(wh_join_pages(x.join, WH_JOIN_UNMATCHED, &pages), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_columns(x.join, (const void **)&pages), WH_BAD_ARGUMENT);
    assert_int_equal(wh_join_resume(x.join, NULL), WH_BAD_ARGUMENT);
    close_all(&x);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_full_heap),     cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_bad_calls),     cmocka_unit_test(test_no_room_for_parts),
        cmocka_unit_test(test_grow),          cmocka_unit_test(test_grow_first),
        cmocka_unit_test(test_grow_two_pass), cmocka_unit_test(test_parts_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

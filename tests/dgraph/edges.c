/* edges.c: what is at the edge of what graphs can be: one vertex, batches that are one arc, arcs to
 * themselves, vertices with more copies of arcs than there are vertices, arrays without arcs, and
 * devices that have no memory left in the middle of a call. */
#include "model.h"

#include "warpheap/graph_algorithms.h"
#include "warpheap/graph_vertices.h"

static const char *const kinds[] = {"lattice", "faim", "ouro", "faim-update", "aim"};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static wh_graph_batch plain_batch(const uint32_t *from, const uint32_t *to, uint64_t n) {
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.from = from;
    batch.to = to;
    batch.n = n;
    return batch;
}

static uint64_t arcs_of(context *x) {
    uint64_t n = 0;
    assert_int_equal(wh_graph_to_csr(x->graph, NULL, &n), WH_OK);
    return n;
}

static void expect(const wh_graph_result *r, uint64_t applied, uint64_t no_change) {
    assert_int_equal(r->applied, applied);
    assert_int_equal(r->no_change, no_change);
    assert_int_equal(r->refused + r->no_vertex, 0);
}

/* --- batches that are one arc -------------------------------------------------------------------
 */

/* The same arc, so many times: in, in again, out, out again; and in a batch of both. */
static void one_arc(context *x, uint32_t v, uint32_t w, uint32_t times) {
    static uint32_t from[MOST_ARCS], to[MOST_ARCS];
    static uint8_t erases[MOST_ARCS], done[MOST_ARCS];
    wh_graph_result r;
    const uint64_t ways = x->options.undirected && v != w ? 2 : 1;
    wh_graph_batch batch = plain_batch(from, to, times);
    for (uint32_t i = 0; i < times; i++) {
        const int back = x->options.undirected && i % 3 == 1; /* the other way round */
        from[i] = back ? w : v;
        to[i] = back ? v : w;
        erases[i] = i % 2 != 0;
    }
    batch.done = done;
    assert_int_equal(wh_graph_insert(x->graph, &batch, &r), WH_OK);
    expect(&r, 1, times - 1);
    assert_int_equal(arcs_of(x), ways);
    assert_int_equal(wh_graph_insert(x->graph, &batch, &r), WH_OK);
    expect(&r, 0, times);
    batch.erases = erases; /* goes once, comes once */
    assert_int_equal(wh_graph_update(x->graph, &batch, &r), WH_OK);
    expect(&r, times > 1 ? 2 : 0, times > 1 ? times - 2 : times);
    assert_int_equal(arcs_of(x), ways);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
    assert_int_equal(wh_graph_erase(x->graph, &batch, &r), WH_OK);
    expect(&r, 1, times - 1);
    assert_int_equal(wh_graph_erase(x->graph, &batch, &r), WH_OK);
    expect(&r, 0, times);
    assert_int_equal(wh_graph_update(x->graph, &batch, &r), WH_OK); /* nothing goes, one comes */
    expect(&r, 1, times - 1);
    assert_int_equal(wh_graph_erase(x->graph, &batch, &r), WH_OK);
    assert_int_equal(arcs_of(x), 0);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
}

/* A graph of one vertex, and of two; batches of a lane, a warp and a block of threads. */
static void test_one_arc(void **state) {
    static const uint32_t times[] = {1, 2, 4, 40, MOST_ARCS};
    (void)state;
    for (size_t k = 0; k < 4 * N_KINDS; k++) {
        context x;
        wh_graph_options o;
        memset(&o, 0, sizeof o);
        o.kind = kinds[k / 4];
        o.vertices = 1 + k % 2;
        o.undirected = k / 2 % 2;
        open_graph(&x, k, 4 << 20, &o);
        for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
            one_arc(&x, 0, 0, times[i]);
            one_arc(&x, o.vertices == 2 ? 1 : 0, 0, times[i]);
        }
        close_all(&x);
    }
}

/* A batch of nothing does nothing, and asks for no arrays. */
static void test_nothing(void **state) {
    (void)state;
    for (size_t k = 0; k < N_KINDS; k++) {
        context x;
        uint64_t offset[2] = {7, 7}, n = 1;
        wh_graph_options o;
        wh_graph_batch none;
        wh_graph_result r;
        wh_graph_arrays arrays;
        memset(&o, 0, sizeof o);
        memset(&none, 0, sizeof none);
        memset(&arrays, 0, sizeof arrays);
        o.kind = kinds[k];
        o.vertices = 1;
        open_graph(&x, k, 4 << 20, &o);
        memset(&r, 0xff, sizeof r);
        assert_int_equal(wh_graph_insert(x.graph, &none, &r), WH_OK);
        expect(&r, 0, 0);
        assert_int_equal(wh_graph_erase(x.graph, &none, &r), WH_OK);
        assert_int_equal(wh_graph_update(x.graph, &none, &r), WH_OK);
        assert_int_equal(wh_graph_has(x.graph, &none), WH_OK);
        arrays.offset = offset; /* no arc, so no array of them */
        assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &r), WH_OK);
        expect(&r, 0, 0);
        assert_int_equal(wh_graph_to_csr(x.graph, &arrays, &n), WH_OK);
        assert_int_equal(n + offset[0] + offset[1], 0);
        offset[1] = 1;
        assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &r), WH_BAD_ARGUMENT);
        arrays.room = 1;
        assert_int_equal(wh_graph_to_csr(x.graph, &arrays, &n), WH_OK);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        close_all(&x);
    }
}

typedef struct failing_args {
    uint32_t fails;
} failing_args;

WH_KERNEL(fail_on_purpose, failing_args, a) {
    if (a.fails != 0) {
        wh_trap("on purpose");
    }
}

/* A kernel of somebody else's has failed: the graph goes all the same, with all of its blocks. */
static void test_gone_all_the_same(void **state) {
    (void)state;
    context x;
    wh_graph_options o;
    uint32_t from[10] = {0}, to[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    void *stream = NULL;
    const failing_args a = {1};
    memset(&o, 0, sizeof o);
    o.vertices = 10;
    open_graph(&x, 1, 4 << 20, &o);
    const wh_graph_batch batch = plain_batch(from, to, 10);
    assert_int_equal(wh_graph_insert(x.graph, &batch, NULL), WH_OK);
    assert_int_equal(wh_stream_create(x.device, &stream), WH_OK);
    wh_launch l = grid(x.device, 1, 32);
    l.stream = stream;
    assert_int_equal(fail_on_purpose(&l, &a), WH_OK);
    assert_int_equal(wh_graph_destroy(x.graph), WH_DEVICE_ERROR);
    assert_int_equal(live_blocks(&x), 0);
    o = x.options;
    o.arena_bytes = ((uint64_t)1 << 32) + 1;
    o.kind = "aim";
    wh_graph *none = x.graph;
    assert_int_equal(wh_graph_create(&none, &o), WH_BAD_ARGUMENT);
    assert_null(none);
    none = x.graph;
    assert_int_equal(wh_graph_create(&none, NULL), WH_BAD_ARGUMENT);
    assert_null(none);
    assert_int_equal(wh_graph_create(&x.graph, &x.options), WH_OK);
    close_all(&x);
}

/* --- copies of arcs -----------------------------------------------------------------------------
 */

enum { FEW = 5 };

/* A multigraph of few vertices, of which each has as many arcs as a hub: `copies` to each of those
 * that follow it. */
static void open_copies(context *x, uint64_t seed, uint32_t copies) {
    static uint32_t from[FEW * FEW * 200], to[FEW * FEW * 200];
    wh_graph_options o;
    uint64_t n = 0;
    memset(&o, 0, sizeof o);
    o.vertices = FEW;
    o.multi = 1;
    open_graph(x, seed, 8 << 20, &o);
    assert_true(copies <= 200);
    for (uint32_t v = 0; v < FEW; v++) {
        for (uint32_t i = 0; i < copies * (FEW - 1 - v); i++) {
            from[n] = v;
            to[n++] = v + 1 + i % (FEW - 1 - v);
        }
    }
    const wh_graph_batch batch = plain_batch(from, to, n);
    assert_int_equal(wh_graph_insert(x->graph, &batch, NULL), WH_OK);
    assert_int_equal(arcs_of(x), n);
}

/* A vertex goes, with all copies of arcs to it. */
static void test_copies_go(void **state) {
    (void)state;
    for (uint32_t copies = 1; copies <= 200; copies = copies * 3 + 2) {
        context x;
        uint32_t id = FEW - 1;
        wh_graph_vertices_result r;
        const wh_graph_vertex_list l = {.ids = &id, .n = 1};
        open_copies(&x, copies, copies);
        assert_int_equal(wh_graph_remove_vertices(x.graph, &l, &r), WH_OK);
        assert_int_equal(r.arcs, (FEW - 1) * copies);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        assert_int_equal(arcs_of(&x), (FEW - 1) * (FEW - 2) / 2 * copies);
        close_all(&x);
    }
}

/* Copies change neither ranks, where all arcs have as many, nor components and levels. */
static void test_copies_are_walked(void **state) {
    (void)state;
    float expected[FEW], rank[FEW];
    for (uint32_t copies = 1; copies <= 200; copies = copies * 3 + 2) {
        context x;
        uint32_t label[FEW], level[FEW];
        uint64_t n = 0;
        wh_graph_bfs_result r;
        open_copies(&x, copies, copies);
        assert_int_equal(wh_graph_pagerank(x.graph, NULL, rank, NULL), WH_OK);
        memcpy(copies == 1 ? expected : rank, rank, sizeof rank);
        assert_int_equal(wh_graph_components(x.graph, NULL, label, &n), WH_OK);
        assert_int_equal(n, 1);
        assert_int_equal(wh_graph_bfs(x.graph, 0, NULL, level, &r), WH_OK);
        assert_int_equal(r.reached, FEW);
        for (uint32_t v = 0; v < FEW; v++) {
            assert_true(rank[v] - expected[v] < 1e-6f && expected[v] - rank[v] < 1e-6f);
            assert_int_equal(label[v], 0);
            assert_int_equal(level[v], v != 0);
        }
        close_all(&x);
    }
}

/* --- ids that are none --------------------------------------------------------------------------
 */

typedef struct ask_args {
    wh_graph_ref g;
    uint32_t *bad; /* lanes that were told of an arc that cannot be */
} ask_args;

WH_KERNEL(ask_for_none, ask_args, a) {
    for (uint32_t v = 0; v < a.g.n_vertices; v++) {
        const uint32_t w = UINT32_MAX - wh_lane_id();
        const wh_mask has = wh_graph_has_warp(a.g, v, w);
        wh_add_u32_relaxed(a.bad,
                           (has >> wh_lane_id() & 1) + (uint32_t)wh_graph_has_arc(a.g, v, w));
    }
}

/* Vertex v gets some arcs, and loses every other one. */
static void make_some(context *x, uint32_t *from, uint32_t *to) {
    for (uint32_t i = 0; i < 9 * MOST_VERTICES; i++) {
        from[i] = i / 9;
        to[i] = i % 9 * 7 % (i / 9 + 1);
    }
    wh_graph_batch batch = plain_batch(from, to, 9 * MOST_VERTICES);
    assert_int_equal(wh_graph_insert(x->graph, &batch, NULL), WH_OK);
    for (uint32_t i = 0; i < 4 * MOST_VERTICES; i++) {
        from[i] = i / 4;
        to[i] = i % 4 * 14 % (i / 4 + 1);
    }
    batch.n = 4 * MOST_VERTICES;
    assert_int_equal(wh_graph_erase(x->graph, &batch, NULL), WH_OK);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
}

/* No vertex has an arc to what can be none, whatever its degree. */
static void test_no_ids(void **state) {
    (void)state;
    for (size_t k = 0; k < 2 * N_KINDS; k++) {
        context x;
        static uint32_t from[9 * MOST_VERTICES], to[9 * MOST_VERTICES];
        static uint8_t done[9 * MOST_VERTICES];
        wh_graph_options o;
        memset(&o, 0, sizeof o);
        o.kind = kinds[k / 2];
        o.vertices = MOST_VERTICES;
        o.sorted = k == 1;
        open_graph(&x, k, 4 << 20, &o);
        make_some(&x, from, to);
        if (k < 2) {
            ask_args a;
            const wh_launch l = grid(x.device, 1, WH_WARP_SIZE);
            assert_int_equal(wh_graph_handle(x.graph, &a.g), WH_OK);
            a.bad = take(x.device, 4);
            assert_int_equal(ask_for_none(&l, &a), WH_OK);
            assert_int_equal(wh_device_sync(x.device), WH_OK);
            assert_int_equal(*a.bad, 0);
        }
        for (uint32_t i = 0; i < 9 * MOST_VERTICES; i++) {
            from[i] = i % 4 != 0 ? i % MOST_VERTICES : UINT32_MAX - i / 4;
            to[i] = UINT32_MAX - i / 192;
        }
        wh_graph_batch ask = plain_batch(from, to, 9 * MOST_VERTICES);
        ask.done = done;
        assert_int_equal(wh_graph_has(x.graph, &ask), WH_OK);
        for (uint32_t i = 0; i < 9 * MOST_VERTICES; i++) {
            assert_int_equal(done[i], 0);
        }
        close_all(&x);
    }
}

/* --- a device without memory --------------------------------------------------------------------
 */

enum { ROWS = 120, ROW = 24 };

typedef struct rows {
    uint64_t offset[ROWS + 1];
    uint32_t to[ROWS * ROW], from[ROWS * ROW];
    uint64_t unique;
} rows;

/* Every other row is a set in order, the others have repetitions; where an arc is, so is its other
 * way. */
static void make_rows(rows *r) {
    memset(r, 0, sizeof *r);
    for (uint32_t v = 0; v < ROWS; v++) {
        uint64_t at = r->offset[v];
        for (uint32_t k = 0; k < ROW / 2; k++) {
            r->to[at] = v % 10 + k * 10;
            r->from[at++] = v;
        }
        r->unique += ROW / 2;
        for (uint32_t k = 0; v % 2 != 0 && k < ROW / 2; k++) {
            r->to[at] = r->to[at - ROW / 2];
            r->from[at++] = v;
        }
        r->offset[v + 1] = at;
    }
}

/* Takes all device memory but `left` bytes. */
static void *leave(context *x, uint64_t left) {
    void *p = NULL;
    uint64_t most = 0;
    for (uint64_t bit = (uint64_t)1 << 26; bit != 0; bit /= 2) {
        if (wh_device_alloc(x->device, &p, most + bit) == WH_OK) {
            most += bit;
            assert_int_equal(wh_device_free(x->device, p), WH_OK);
        }
    }
    assert_true(most > left);
    assert_int_equal(wh_device_alloc(x->device, &p, most - left), WH_OK);
    return p;
}

static void open_rows(context *x, uint64_t seed, const char *kind, int undirected) {
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.vertices = ROWS;
    o.undirected = undirected;
    device_bytes = 32 << 20;
    open_graph(x, seed, 8 << 20, &o);
    device_bytes = 0;
}

/* Whether a call had the memory that it needs. If not, the graph has as many arcs as before. */
static int had_memory(context *x, void *filler, wh_status s, uint64_t before) {
    assert_int_equal(wh_device_free(x->device, filler), WH_OK);
    assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
    if (s != WH_OK) {
        assert_int_equal(arcs_of(x), before);
    }
    return s == WH_OK;
}

/* Arrays in; then the same arcs as a batch, out. Counts begin at 0 in each call. */
static void rows_in_and_out(context *x, const rows *r, uint64_t left, uint32_t *failed) {
    wh_graph_result result;
    const wh_graph_arrays arrays = {.offset = (uint64_t *)(uintptr_t)r->offset,
                                    .to = (uint32_t *)(uintptr_t)r->to};
    const uint64_t n = r->offset[ROWS];
    const wh_graph_batch batch = plain_batch(r->from, r->to, n);
    const wh_graph_batch one = plain_batch(r->from + 5, r->to + 5, 1);
    void *filler = leave(x, left);
    wh_status s = wh_graph_from_csr(x->graph, &arrays, &result);
    if (!had_memory(x, filler, s, 0)) {
        expect(&result, 0, 0);
        failed[0]++;
        assert_int_equal(wh_graph_insert(x->graph, &one, &result), WH_OK);
        expect(&result, 1, 0); /* and a batch finds all as it was */
        assert_int_equal(wh_graph_erase(x->graph, &one, &result), WH_OK);
        expect(&result, 1, 0);
        assert_int_equal(wh_graph_from_csr(x->graph, &arrays, &result), WH_OK);
    }
    expect(&result, r->unique, n - r->unique);
    filler = leave(x, left);
    s = wh_graph_erase(x->graph, &batch, &result);
    if (!had_memory(x, filler, s, r->unique)) {
        expect(&result, 0, 0);
        failed[1]++;
        assert_int_equal(wh_graph_erase(x->graph, &batch, &result), WH_OK);
    }
    assert_int_equal(result.refused + result.no_vertex, 0);
    assert_int_equal(arcs_of(x), 0);
}

/* How much memory the next try has; fewer tries under sanitizers. */
static uint64_t more(uint64_t left) {
    return n_seeds() < 10 ? left * 60 + 5000 : left * 2 + 1000;
}

static void test_device_full(void **state) {
    (void)state;
    static rows r;
    make_rows(&r);
    for (size_t k = 0; k < 2 * N_KINDS; k += n_seeds() < 10 ? 3 : 1) {
        uint32_t failed[2] = {0, 0}, tries = 0;
        for (uint64_t left = 64; left < (1 << 20); left = more(left)) {
            context x;
            open_rows(&x, k + tries, kinds[k / 2], k % 2);
            rows_in_and_out(&x, &r, left, failed);
            close_all(&x);
            tries++;
        }
        assert_true(failed[0] != 0 && failed[0] < tries);
        assert_true(failed[1] != 0 && failed[1] < tries);
    }
}

/* Calls that look need memory, too. Without it they say so, and nothing stays taken. */
static void test_looking_without_memory(void **state) {
    (void)state;
    static rows r;
    static uint32_t to[ROWS * ROW], degree[ROWS + 1], label[ROWS + 1];
    static uint64_t offset[ROWS + 2]; /* it grows by one */
    static float rank[ROWS + 1];
    make_rows(&r);
    for (uint64_t left = 64; left < (1 << 18); left = more(left)) {
        context x;
        uint64_t n = 0;
        uint32_t id = 3;
        const uint64_t name = 12345;
        const wh_graph_arrays in = {.offset = r.offset, .to = r.to};
        const wh_graph_arrays out = {.offset = offset, .to = to, .room = ROWS * ROW};
        const wh_graph_vertex_list names = {.names = &name, .ids = &id, .n = 1};
        const wh_graph_vertex_list ids = {.ids = &id, .n = 1};
        open_rows(&x, left, "lattice", 0);
        assert_int_equal(wh_graph_from_csr(x.graph, &in, NULL), WH_OK);
        void *filler = leave(&x, left);
        const wh_status all[] = {
            wh_graph_to_csr(x.graph, &out, &n),
            wh_graph_degrees(x.graph, degree, 0, NULL),
            wh_graph_pagerank(x.graph, NULL, rank, NULL),
            wh_graph_components(x.graph, NULL, label, NULL),
            wh_graph_bfs(x.graph, 0, NULL, label, NULL),
            wh_graph_triangles(x.graph, NULL, &n, NULL),
            wh_graph_check(x.graph, NULL),
            wh_graph_grow(x.graph, ROWS + 1),
        };
        const wh_status s = wh_graph_remove_vertices(x.graph, &ids, NULL);
        const wh_status added = wh_graph_add_vertices(x.graph, &names, NULL);
        assert_int_equal(wh_device_free(x.device, filler), WH_OK);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            assert_true(all[i] == WH_OK || all[i] == WH_OUT_OF_MEMORY);
        }
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        assert_true(added == WH_OK || added == WH_OUT_OF_MEMORY);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        assert_int_equal(wh_graph_to_csr(x.graph, &out, &n), WH_OK);
        assert_int_equal(n < r.unique, s == WH_OK);
        close_all(&x);
    }
}

/* --- more arcs than a vertex can have -----------------------------------------------------------
 */

typedef struct large_args {
    wh_heap_ref heap;
    wh_graph_tally *tally;
    uint32_t *memory; /* of the run, and its order */
    uint32_t degree;
} large_args;

/* A vertex that has no room left takes two arcs more. What it has is not there, so that it must not
 * be copied. */
WH_KERNEL(grow_large, large_args, a) {
    wh_lattice_vertex *x = (wh_lattice_vertex *)(void *)a.memory;
    wh_lattice_work w = {0};
    wh_graph_tally tally = {0, 0, 0};
    uint32_t keys[WH_LATTICE_LANE_RUN] = {wh_lane_id()};
    if (wh_lane_id() == 0) {
        x->degree = x->capacity = a.degree;
        x->block = a.memory + 64;
    }
    wh_syncwarp(WH_FULL_WARP);
    w.x = x;
    w.multi = 1;
    w.run = a.memory + 32;
    w.r = 2;
    wh_lattice_take_team_(a.heap, wh_team_warp(), &w, a.degree, 2, &tally);
    w.x = wh_lane_id() == 0 ? x : NULL; /* and by a lane */
    w.run = keys;
    w.r = wh_lane_id() == 0;
    wh_lattice_insert_lane(a.heap, w, &tally);
    if (wh_lane_id() == 0) {
        a.tally[0] = tally;
        wh_assert(x->degree == a.degree);
    }
}

/* Such a vertex takes no more, as if the heap were full: the size of its block would not fit. */
static void test_too_many(void **state) {
    (void)state;
    static const uint32_t degrees[] = {0x40000000, 0xe38e38e3, 0xf0000000};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        context x;
        large_args a;
        wh_graph_options o;
        memset(&o, 0, sizeof o);
        o.vertices = 1;
        open_graph(&x, i, 4 << 20, &o);
        a.degree = degrees[i];
        a.memory = take(x.device, 512);
        a.tally = take(x.device, sizeof *a.tally);
        assert_int_equal(wh_heap_handle(x.heap, &a.heap), WH_OK);
        const wh_launch l = grid(x.device, 1, WH_WARP_SIZE);
        assert_int_equal(grow_large(&l, &a), WH_OK);
        assert_int_equal(wh_device_sync(x.device), WH_OK);
        assert_int_equal(a.tally->refused, 3);
        assert_int_equal(a.tally->applied, 0);
        close_all(&x);
    }
}

/* --- structures of other headers ----------------------------------------------------------------
 */

/* Shorter ones have zeros for the rest, which is not looked at; others are refused. */
static void test_struct_bytes(void **state) {
    (void)state;
    static const uint64_t wrong[] = {1, 8, 17, sizeof(wh_graph_batch) + 8, UINT64_MAX};
    context x;
    uint32_t from[2] = {0, 1}, to[2] = {1, 0};
    wh_graph_options o;
    wh_graph *g = NULL;
    wh_graph_result r;
    wh_graph_stats stats;
    memset(&o, 0, sizeof o);
    o.vertices = 2;
    open_graph(&x, 1, 4 << 20, &o);
    o = x.options;
    o.undirected = o.sorted = 1;
    o.most_vertices = UINT64_MAX;
    o.struct_bytes = offsetof(wh_graph_options, most_vertices);
    assert_int_equal(wh_graph_create(&g, &o), WH_OK);
    assert_int_equal(wh_graph_destroy(g), WH_OK);
    wh_graph_batch batch = plain_batch(from, to, 2);
    memset(batch.values, 0xff, sizeof batch.values);
    batch.struct_bytes = offsetof(wh_graph_batch, values);
    assert_int_equal(wh_graph_insert(x.graph, &batch, &r), WH_OK);
    expect(&r, 2, 0);
    memset(&stats, 0xff, sizeof stats);
    stats.struct_bytes = offsetof(wh_graph_stats, max_degree);
    assert_int_equal(wh_graph_get_stats(x.graph, &stats), WH_OK);
    assert_int_equal(stats.struct_bytes, offsetof(wh_graph_stats, max_degree));
    assert_int_equal(stats.arcs, 2);
    assert_true(stats.max_degree == UINT64_MAX && stats.most_vertices == UINT64_MAX);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.struct_bytes = batch.struct_bytes = stats.struct_bytes = wrong[i];
        assert_int_equal(wh_graph_create(&g, &o), WH_WRONG_BUILD);
        assert_non_null(strstr(wh_last_error_text(), "struct_bytes"));
        assert_int_equal(wh_graph_insert(x.graph, &batch, &r), WH_WRONG_BUILD);
        assert_int_equal(wh_graph_get_stats(x.graph, &stats), WH_WRONG_BUILD);
    }
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_arc),      cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_copies_go),    cmocka_unit_test(test_copies_are_walked),
        cmocka_unit_test(test_no_ids),       cmocka_unit_test(test_gone_all_the_same),
        cmocka_unit_test(test_device_full),  cmocka_unit_test(test_looking_without_memory),
        cmocka_unit_test(test_struct_bytes), cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

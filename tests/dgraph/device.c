/* device.c: what kernels of a user see of a graph: degrees, neighbours, whether an arc is there,
 * for a lane and for a warp; and how they change one. */
#include "sim/sim_test.h"

#include "warpheap/graph_device.h"
#include "warpheap/graph_vertices.h"

#define VERTICES 100u

typedef struct look_args {
    wh_graph_ref g;
    uint32_t *degrees, *sums; /* of each vertex; of its neighbours */
    uint32_t *has, *together; /* [VERTICES][VERTICES], together a bit each */
} look_args;

/* A warp a vertex. */
WH_KERNEL(look_around, look_args, a) {
    const uint32_t v = wh_block_id(), lane = wh_lane_id();
    const uint32_t *to = wh_graph_neighbours(a.g, v);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < wh_graph_degree(a.g, v); i++) {
        sum += to[i];
    }
    if (lane == 0) {
        a.degrees[v] = wh_graph_degree(a.g, v);
        a.sums[v] = sum;
    }
    for (uint32_t first = 0; first < VERTICES; first += WH_WARP_SIZE) {
        const uint32_t w = first + lane;
        const wh_mask has = wh_graph_has_warp(a.g, v, w);
        if (w < VERTICES) {
            a.has[v * VERTICES + w] = (uint32_t)wh_graph_has_arc(a.g, v, w);
            a.together[v * VERTICES + w] = has >> lane & 1;
        }
    }
}

/* Vertex v has arcs to all w that v * step divides without a rest, and 0 has all. */
static void test_look_around(void **state) {
    (void)state;
    wh_device *device = open_policy(WH_SIM_RANDOM, 7);
    wh_heap *heap = NULL;
    wh_graph *graph = NULL;
    wh_heap_options ho;
    wh_graph_options go;
    wh_graph_batch batch;
    look_args a;
    memset(&ho, 0, sizeof ho);
    memset(&go, 0, sizeof go);
    memset(&batch, 0, sizeof batch);
    memset(&a, 0, sizeof a);
    ho.device = device;
    ho.bytes = 4 << 20;
    assert_int_equal(wh_heap_create(&heap, &ho), WH_OK);
    go.heap = heap;
    go.vertices = VERTICES;
    assert_int_equal(wh_graph_create(&graph, &go), WH_OK);
    static uint32_t from[VERTICES * VERTICES], to[VERTICES * VERTICES];
    for (uint32_t v = 0; v < VERTICES; v++) {
        for (uint32_t w = 0; w < VERTICES; w++) {
            if (v == 0 || w % v == 0) {
                from[batch.n] = v;
                to[batch.n++] = w;
            }
        }
    }
    batch.from = from;
    batch.to = to;
    assert_int_equal(wh_graph_insert(graph, &batch, NULL), WH_OK);
    assert_int_equal(wh_graph_handle(graph, &a.g), WH_OK);
    assert_int_equal(a.g.n_vertices, VERTICES);
    assert_int_equal(wh_graph_handle(graph, NULL), WH_BAD_ARGUMENT);
    wh_graph_parts parts;
    assert_int_equal(wh_graph_copy_handle(graph, wh_lattice_layout(), &parts, sizeof parts), WH_OK);
    assert_int_equal(wh_graph_copy_handle(graph, ~wh_lattice_layout(), &parts, sizeof parts),
                     WH_WRONG_BUILD);
    assert_non_null(strstr(wh_last_error_text(), "WH_HOSTILE"));
    assert_int_equal(wh_graph_copy_handle(graph, wh_lattice_layout(), &parts, 8), WH_WRONG_BUILD);
    a.degrees = take(device, VERTICES * 4);
    a.sums = take(device, VERTICES * 4);
    a.has = take(device, VERTICES * VERTICES * 4);
    a.together = take(device, VERTICES * VERTICES * 4);
    const wh_launch l = grid(device, VERTICES, 32);
    assert_int_equal(look_around(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(device), WH_OK);
    for (uint32_t v = 0; v < VERTICES; v++) {
        uint32_t degree = 0, sum = 0;
        for (uint32_t w = 0; w < VERTICES; w++) {
            const uint32_t is = v == 0 || w % v == 0;
            degree += is;
            sum += is ? w : 0;
            assert_int_equal(a.has[v * VERTICES + w], is);
            assert_int_equal(a.together[v * VERTICES + w], is);
        }
        assert_int_equal(a.degrees[v], degree);
        assert_int_equal(a.sums[v], sum);
    }
    assert_int_equal(wh_graph_destroy(graph), WH_OK);
    wh_heap_destroy(heap);
    wh_device_close(device);
}

/* --- changes ---------------------------------------------------------------------------------- */

#define FEW 40u      /* vertices */
#define ARCS 500u    /* of a kernel */
#define THREADS 512u /* with some that have none */

typedef struct change_args {
    wh_graph_ref g;
    wh_heap_ref heap;
    const uint32_t *from, *to, *erases;
    uint32_t *how;
} change_args;

/* An arc a lane, in or out. */
WH_KERNEL(change_arcs, change_args, a) {
    const uint64_t i = wh_thread_id();
    const int is = i < ARCS;
    const uint32_t v = is ? a.from[i] : WH_GRAPH_NONE, w = is ? a.to[i] : 0;
    const int erases = is && a.erases[i];
    const uint32_t in = wh_graph_insert_lanes(a.g, a.heap, erases ? WH_GRAPH_NONE : v, w);
    const uint32_t out = wh_graph_erase_lanes(a.g, a.heap, erases ? v : WH_GRAPH_NONE, w);
    if (is) {
        a.how[i] = erases ? out : in;
    }
}

typedef struct changes {
    wh_device *device;
    wh_heap *heap;
    wh_graph *graph;
    change_args a;
    uint32_t *from, *to, *erases; /* also on the device, which is the host */
    unsigned char has[FEW][FEW];
    uint64_t random;
} changes;

/* By these options but for the heap. */
static void open_changes(changes *x, uint64_t seed, uint64_t heap_bytes, wh_graph_options go) {
    wh_heap_options ho;
    memset(x, 0, sizeof *x);
    memset(&ho, 0, sizeof ho);
    x->random = seed;
    x->device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    ho.device = x->device;
    ho.bytes = heap_bytes;
    if (heap_bytes == 0) {
        assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
    }
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    go.heap = x->heap;
    assert_int_equal(wh_graph_create(&x->graph, &go), WH_OK);
    assert_int_equal(wh_graph_handle(x->graph, &x->a.g), WH_OK);
    assert_int_equal(wh_heap_handle(x->heap, &x->a.heap), WH_OK);
    x->from = take(x->device, ARCS * 4);
    x->to = take(x->device, ARCS * 4);
    x->erases = take(x->device, ARCS * 4);
    x->a.from = x->from;
    x->a.to = x->to;
    x->a.erases = x->erases;
    x->a.how = take(x->device, ARCS * 4);
}

static void run_changes(changes *x) {
    const wh_launch l = grid(x->device, THREADS / 128, 128);
    memset(x->a.how, 0xff, ARCS * 4);
    assert_int_equal(change_arcs(&l, &x->a), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
}

static void close_changes(changes *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_graph_destroy(x->graph), WH_OK);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

/* Of each arc one lane has applied it, if any had to; then the graph is the model's. */
static void compare_changes(changes *x) {
    uint64_t offset[FEW + 1], n = 0;
    uint32_t to[FEW * FEW];
    for (uint32_t i = 0; i < ARCS; i++) {
        if (x->from[i] >= FEW || x->to[i] >= FEW) {
            assert_int_equal(x->a.how[i], WH_GRAPH_NO_VERTEX);
        } else if (x->a.how[i] == WH_GRAPH_APPLIED) {
            assert_int_equal(x->has[x->from[i]][x->to[i]], x->erases[i]);
            x->has[x->from[i]][x->to[i]] = !x->erases[i];
        } else {
            assert_int_equal(x->a.how[i], WH_GRAPH_NO_CHANGE);
        }
    }
    for (uint32_t i = 0; i < ARCS; i++) {
        if (x->from[i] < FEW && x->to[i] < FEW) {
            assert_int_equal(x->has[x->from[i]][x->to[i]], !x->erases[i]);
        }
    }
    const wh_graph_arrays arrays = {.offset = offset, .to = to, .room = FEW * FEW};
    assert_int_equal(wh_graph_to_csr(x->graph, &arrays, &n), WH_OK);
    for (uint32_t v = 0; v < FEW; v++) {
        uint32_t degree = 0;
        for (uint32_t w = 0; w < FEW; w++) {
            degree += x->has[v][w];
        }
        assert_int_equal(offset[v + 1] - offset[v], degree);
        for (uint64_t k = offset[v]; k < offset[v + 1]; k++) {
            assert_int_equal(x->has[v][to[k]], 1); /* and none is there twice: check */
        }
    }
}

/* Kernels that insert, that erase, and that do both, of arcs with an even and with an odd end:
 * so the order does not matter. Sources: all vertices, or two. */
static void test_changes(void **state) {
    (void)state;
    enum { INSERT, MIXED, ERASE };
    static const int phases[] = {INSERT, ERASE, INSERT, MIXED, MIXED, ERASE};
    for (uint64_t seed = 1; seed <= 2 * n_seeds(); seed++) {
        changes x;
        const wh_graph_options plain = {.vertices = FEW};
        open_changes(&x, seed, 4 << 20, plain);
        for (size_t k = 0; k < sizeof phases / sizeof *phases; k++) {
            const uint32_t sources = (seed + k) % 4 == 0 ? 2 : FEW;
            for (uint32_t i = 0; i < ARCS; i++) {
                x.from[i] = (uint32_t)next_random(&x.random) % sources;
                x.to[i] = (uint32_t)next_random(&x.random) % FEW;
                x.erases[i] = phases[k] == ERASE;
                if (phases[k] == MIXED) {
                    x.erases[i] = (x.to[i] + k) % 2;
                }
            }
            x.from[k] = FEW + (uint32_t)k; /* no vertices */
            x.to[k + 40] = WH_GRAPH_NONE;
            run_changes(&x);
            compare_changes(&x);
        }
        close_changes(&x);
    }
}

/* A heap that is too small: some arcs are refused, and the rest is there. */
static void test_changes_full(void **state) {
    (void)state;
    changes x;
    uint64_t n = 0, applied = 0, refused = 0;
    const wh_graph_options plain = {.vertices = 4000};
    open_changes(&x, 5, 0, plain);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < ARCS; i++) {
            x.from[i] = round * (ARCS / 10) + i % (ARCS / 10);
            x.to[i] = i;
        }
        run_changes(&x);
        for (uint32_t i = 0; i < ARCS; i++) {
            applied += x.a.how[i] == WH_GRAPH_APPLIED;
            refused += x.a.how[i] == WH_GRAPH_REFUSED;
        }
    }
    assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
    assert_int_equal(n, applied);
    assert_int_equal(applied + refused, 20 * ARCS);
    assert_true(refused != 0);
    close_changes(&x);
}

/* Arcs from each vertex below `ends` to the next ones. */
static void draw_ring(changes *x, uint32_t ends, uint32_t erases) {
    for (uint32_t i = 0; i < ARCS; i++) {
        x->from[i] = i % ends;
        x->to[i] = (i + 1 + i / ends) % ends;
        x->erases[i] = erases;
    }
}

/* Graphs that are not plain do not change: with one arc, which kernels would insert or erase. */
static void test_changes_refused(void **state) {
    (void)state;
    const wh_graph_options all[] = {{.vertices = FEW, .values = 2},
                                    {.vertices = FEW, .sorted = 1},
                                    {.vertices = FEW, .multi = 1},
                                    {.vertices = FEW, .undirected = 1}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        changes x;
        uint64_t n = 0, before = 0;
        const uint32_t from = 0, to = 1;
        const wh_graph_batch batch = {.from = &from, .to = &to, .n = 1};
        open_changes(&x, 1 + k, 4 << 20, all[k]);
        assert_int_equal(wh_graph_insert(x.graph, &batch, NULL), WH_OK);
        assert_int_equal(wh_graph_to_csr(x.graph, NULL, &before), WH_OK);
        for (uint32_t erases = 0; erases < 2; erases++) {
            draw_ring(&x, FEW, erases);
            x.from[3] = FEW;
            run_changes(&x);
            for (uint32_t i = 0; i < ARCS; i++) {
                assert_int_equal(x.a.how[i], i == 3 ? WH_GRAPH_NO_VERTEX : WH_GRAPH_REFUSED);
            }
            assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
            assert_int_equal(n, before);
        }
        close_changes(&x);
    }
}

/* How many arcs were applied; those with an end among `ids`, or that is no id, were not. */
static uint64_t expect_live(const changes *x, const uint8_t *is, uint32_t n_ids) {
    uint64_t applied = 0;
    for (uint32_t i = 0; i < ARCS; i++) {
        const uint32_t v = x->from[i], w = x->to[i];
        const int live = v < n_ids && w < n_ids && is[v] && is[w];
        assert_int_equal(x->a.how[i] == WH_GRAPH_NO_VERTEX, !live);
        applied += x->a.how[i] == WH_GRAPH_APPLIED;
    }
    return applied;
}

/* Vertices come and go, and there are more ids: the handle that is taken then knows. */
static void test_changes_of_ids(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        changes x;
        uint64_t n = 0, applied = 0;
        uint8_t is[2 * FEW];
        uint32_t goes[3] = {3, 7, FEW - 1};
        const wh_graph_vertex_list l = {.ids = goes, .n = 3};
        const wh_graph_options o = {.vertices = FEW - 5, .most_vertices = FEW};
        open_changes(&x, seed, 4 << 20, o);
        draw_ring(&x, FEW + 1, 0);
        run_changes(&x);
        assert_int_equal(wh_graph_is_vertex(x.graph, is), WH_OK);
        applied = expect_live(&x, is, FEW);
        assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
        assert_int_equal(n, applied);
        assert_true(n != 0);
        assert_int_equal(wh_graph_remove_vertices(x.graph, &l, NULL), WH_NO_VERTEX);
        run_changes(&x); /* by the same handle */
        assert_int_equal(wh_graph_is_vertex(x.graph, is), WH_OK);
        assert_int_equal(is[3] + is[7] + is[FEW - 1], 0);
        assert_int_equal(expect_live(&x, is, FEW), 0); /* those are gone, and others are there */
        assert_int_equal(wh_graph_grow(x.graph, 2 * FEW), WH_OK);
        const wh_graph_vertex_list more = {.n = FEW};
        assert_int_equal(wh_graph_add_vertices(x.graph, &more, NULL), WH_OK);
        assert_int_equal(wh_graph_handle(x.graph, &x.a.g), WH_OK);
        draw_ring(&x, 2 * FEW, 0);
        assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
        run_changes(&x);
        assert_int_equal(wh_graph_is_vertex(x.graph, is), WH_OK);
        applied = n + expect_live(&x, is, 2 * FEW);
        assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
        assert_int_equal(n, applied);
        close_changes(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_around), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_changes_full), cmocka_unit_test(test_changes_refused),
        cmocka_unit_test(test_changes_of_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* algorithms.c: PageRank, triangles, components and breadth-first search against naive references
 * on the host: random graphs with hubs, self loops and vertices without arcs, by every policy of
 * the simulated device; paths, which have many levels; bad input; a device without memory. */
#include "sim/sim_test.h"

#include <math.h>

#include "warpheap/graph_algorithms.h"

#define MOST_VERTICES 90u
#define MOST_ARCS (MOST_VERTICES * MOST_VERTICES)

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_graph *graph;
    uint32_t n;
    unsigned char has[MOST_VERTICES][MOST_VERTICES];
} context;

/* A policy for each seed; some have a weak memory, some more than one thread. */
static void open_all(context *x, uint64_t seed, uint32_t n, int undirected) {
    wh_sim_options so;
    wh_heap_options ho;
    wh_graph_options go;
    memset(&so, 0, sizeof so);
    memset(x, 0, sizeof *x);
    memset(&ho, 0, sizeof ho);
    memset(&go, 0, sizeof go);
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.weak = seed % 4 == 2 ? WH_SIM_WEAK_FORMAL : WH_SIM_WEAK_NONE;
    so.workers = seed % 4 == 3 ? 3 : 1;
    x->device = open_with(&so);
    ho.device = x->device;
    ho.bytes = 8 << 20;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    go.heap = x->heap;
    go.vertices = n;
    go.undirected = undirected;
    assert_int_equal(wh_graph_create(&x->graph, &go), WH_OK);
    x->n = n;
}

static void close_all(context *x) {
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK); /* nobody has written to it */
    assert_int_equal(wh_graph_destroy(x->graph), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static void put(context *x, uint32_t v, uint32_t w, int both) {
    x->has[v][w] = 1;
    if (both) {
        x->has[w][v] = 1;
    }
}

/* The graph becomes what x->has says. */
static void insert(context *x) {
    uint32_t *from = malloc(MOST_ARCS * 4), *to = malloc(MOST_ARCS * 4);
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    assert_true(from != NULL && to != NULL);
    for (uint32_t v = 0; v < x->n; v++) {
        for (uint32_t w = 0; w < x->n; w++) {
            if (x->has[v][w]) {
                from[batch.n] = v;
                to[batch.n++] = w;
            }
        }
    }
    batch.from = from;
    batch.to = to;
    assert_int_equal(wh_graph_insert(x->graph, &batch, NULL), WH_OK);
    free(from);
    free(to);
}

/* A graph of some seed: sparse or dense, with self loops, and now and then with hubs. */
static void open_random(context *x, uint64_t seed, int both) {
    uint64_t random = seed * 77 + 5;
    const uint32_t n = 1 + (uint32_t)(next_random(&random) % MOST_VERTICES);
    open_all(x, seed, n, both && seed % 4 != 0); /* those may say so, or not */
    const uint32_t arcs = (uint32_t)(next_random(&random) % (seed % 3 == 0 ? 6 * n : n + 1));
    for (uint32_t i = 0; i < arcs; i++) {
        const uint32_t v = (uint32_t)next_random(&random) % n;
        put(x, v, (uint32_t)next_random(&random) % n, both);
    }
    for (uint32_t hubs = seed % 4 == 1 ? 2 : 0; hubs != 0; hubs--) {
        const uint32_t v = (uint32_t)next_random(&random) % n;
        for (uint32_t w = 0; w < n; w += 1 + (uint32_t)(next_random(&random) & 1)) {
            put(x, v, w, both);
        }
    }
    insert(x);
}

static uint32_t degree_of(const context *x, uint32_t v) {
    uint32_t degree = 0;
    for (uint32_t w = 0; w < x->n; w++) {
        degree += x->has[v][w];
    }
    return degree;
}

/* --- pagerank ----------------------------------------------------------------------------------
 */

static void reference_step(const context *x, double damping, double *rank) {
    double in[MOST_VERTICES] = {0}, dangling = 0;
    for (uint32_t v = 0; v < x->n; v++) {
        const uint32_t degree = degree_of(x, v);
        dangling += degree == 0 ? rank[v] : 0;
        for (uint32_t w = 0; w < x->n; w++) {
            in[w] += x->has[v][w] ? rank[v] / degree : 0;
        }
    }
    for (uint32_t v = 0; v < x->n; v++) {
        rank[v] = (1 - damping) / x->n + damping * (in[v] + dangling / x->n);
    }
}

static void compare_ranks(const context *x, const double *expected, const float *rank) {
    double sum = 0;
    for (uint32_t v = 0; v < x->n; v++) {
        assert_true(fabs(expected[v] - (double)rank[v]) < 1e-6 * expected[v]);
        sum += (double)rank[v];
    }
    assert_true(fabs(sum - 1) < 1e-5);
}

/* Directed, where ranks are pushed, and undirected, where they are pulled. */
static void test_pagerank(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * n_seeds(); seed++) {
        context x;
        double expected[MOST_VERTICES];
        float rank[MOST_VERTICES], naive[MOST_VERTICES];
        wh_graph_pagerank_options o;
        wh_graph_pagerank_result r, again;
        open_random(&x, seed, seed > n_seeds());
        memset(&o, 0, sizeof o);
        o.damping = seed % 2 != 0 ? 0 : 0.6;
        o.most_iterations = 5 + seed % 3;
        o.tolerance = -1;
        for (uint32_t v = 0; v < x.n; v++) {
            expected[v] = 1.0 / x.n;
        }
        for (uint64_t i = 0; i < o.most_iterations; i++) {
            reference_step(&x, seed % 2 != 0 ? 0.85 : 0.6, expected);
        }
        assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, &r), WH_OK);
        assert_int_equal(r.iterations, o.most_iterations);
        compare_ranks(&x, expected, rank);
        o.naive = 1;
        assert_int_equal(wh_graph_pagerank(x.graph, &o, naive, &again), WH_OK);
        assert_memory_equal(rank, naive, x.n * sizeof *rank); /* every bit */
        assert_true(r.change == again.change);
        close_all(&x);
    }
}

/* From ranks of an earlier call it takes fewer iterations, and comes to the same. */
static void test_warm_start(void **state) {
    (void)state;
    context x;
    float first[MOST_VERTICES], rank[MOST_VERTICES];
    wh_graph_pagerank_options o;
    wh_graph_pagerank_result cold, warm;
    open_random(&x, 9, 0);
    memset(&o, 0, sizeof o);
    assert_int_equal(wh_graph_pagerank(x.graph, NULL, first, &cold), WH_OK);
    assert_true(cold.iterations > 5 && cold.iterations < 100 && cold.change <= 1e-6);
    o.start = first;
    o.on_device = 0;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, &warm), WH_OK);
    assert_true(warm.iterations <= 2);
    float *on_device = take(x.device, x.n * 4);
    assert_int_equal(wh_device_copy_in(x.device, on_device, first, x.n * 4), WH_OK);
    o.start = on_device;
    o.on_device = 1;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, on_device, &warm), WH_OK);
    assert_int_equal(wh_device_copy_out(x.device, first, on_device, x.n * 4), WH_OK);
    assert_memory_equal(first, rank, x.n * 4);
    o.on_device = 0;
    o.start = first;
    for (uint32_t v = 0; v < x.n; v++) { /* a start that is scaled */
        first[v] = 2.0f / (float)(x.n + 1);
    }
    o.most_iterations = 1;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, NULL), WH_OK);
    double expected[MOST_VERTICES];
    for (uint32_t v = 0; v < x.n; v++) {
        expected[v] = 1.0 / x.n;
    }
    reference_step(&x, 0.85, expected);
    compare_ranks(&x, expected, rank);
    close_all(&x);
}

/* --- triangles ----------------------------------------------------------------------------------
 */

static uint64_t reference_triangles(const context *x, uint64_t *of_vertex) {
    uint64_t total = 0;
    memset(of_vertex, 0, MOST_VERTICES * sizeof *of_vertex);
    for (uint32_t u = 0; u < x->n; u++) {
        for (uint32_t v = u + 1; v < x->n; v++) {
            for (uint32_t w = v + 1; w < x->n; w++) {
                const uint64_t is = x->has[u][v] & x->has[v][w] & x->has[u][w];
                of_vertex[u] += is;
                of_vertex[v] += is;
                of_vertex[w] += is;
                total += is;
            }
        }
    }
    return total;
}

static void compare_triangles(context *x) {
    uint64_t expected[MOST_VERTICES], of_vertex[MOST_VERTICES], total = 0;
    const uint64_t all = reference_triangles(x, expected);
    wh_graph_run_options o;
    memset(&o, 0, sizeof o);
    for (o.naive = 0; o.naive < 2; o.naive++) {
        assert_int_equal(wh_graph_triangles(x->graph, &o, &total, of_vertex), WH_OK);
        assert_int_equal(total, all);
        assert_memory_equal(of_vertex, expected, x->n * 8);
        assert_int_equal(wh_graph_triangles(x->graph, &o, &total, NULL), WH_OK);
        assert_int_equal(total, all);
    }
    o.naive = 0;
    o.on_device = 1;
    uint64_t *on_device = take(x->device, x->n * 8);
    assert_int_equal(wh_graph_triangles(x->graph, &o, &total, on_device), WH_OK);
    assert_int_equal(wh_device_copy_out(x->device, of_vertex, on_device, x->n * 8), WH_OK);
    assert_memory_equal(of_vertex, expected, x->n * 8);
}

static void test_triangles(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        open_random(&x, seed, 1);
        compare_triangles(&x);
        close_all(&x);
    }
}

/* All edges there are: the longest lists. */
static void test_clique(void **state) {
    (void)state;
    context x;
    open_all(&x, 2, 70, 0);
    for (uint32_t v = 0; v < x.n; v++) {
        memset(x.has[v], 1, x.n);
    }
    insert(&x);
    compare_triangles(&x);
    close_all(&x);
}

/* --- components --------------------------------------------------------------------------------
 */

static uint64_t reference_components(const context *x, uint32_t *label) {
    uint64_t n = 0;
    int changed = 1;
    for (uint32_t v = 0; v < x->n; v++) {
        label[v] = v;
    }
    while (changed) {
        changed = 0;
        for (uint32_t v = 0; v < x->n; v++) {
            for (uint32_t w = 0; w < x->n; w++) {
                if ((x->has[v][w] || x->has[w][v]) && label[w] < label[v]) {
                    label[v] = label[w];
                    changed = 1;
                }
            }
        }
    }
    for (uint32_t v = 0; v < x->n; v++) {
        n += label[v] == v;
    }
    return n;
}

static void compare_components(context *x) {
    uint32_t expected[MOST_VERTICES], label[MOST_VERTICES];
    const uint64_t all = reference_components(x, expected);
    uint64_t n = 0;
    wh_graph_run_options o;
    memset(&o, 0, sizeof o);
    for (o.naive = 0; o.naive < 2; o.naive++) {
        assert_int_equal(wh_graph_components(x->graph, &o, label, &n), WH_OK);
        assert_int_equal(n, all);
        assert_memory_equal(label, expected, x->n * 4);
    }
    o.on_device = 1;
    uint32_t *on_device = take(x->device, x->n * 4);
    assert_int_equal(wh_graph_components(x->graph, &o, on_device, NULL), WH_OK);
    assert_int_equal(wh_device_copy_out(x->device, label, on_device, x->n * 4), WH_OK);
    assert_memory_equal(label, expected, x->n * 4);
}

/* Undirected graphs and directed ones. */
static void test_components(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        open_random(&x, seed, seed % 3 != 2);
        compare_components(&x);
        close_all(&x);
    }
}

/* Trees of which each edge is there once: no hook may be lost. A star, all of whose edges hook one
 * vertex; a path that is there before there are hooks; random ones. */
static void test_trees(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6 * n_seeds(); seed++) {
        context x;
        uint64_t random = seed;
        const uint32_t n = MOST_VERTICES - (uint32_t)(seed % 8);
        open_all(&x, seed, n, 0);
        for (uint32_t v = 1; v < n; v++) {
            const uint32_t below = seed % 3 == 0 ? (uint32_t)next_random(&random) % v : v - 1;
            put(&x, seed % 3 == 1 ? n - 1 : v, below, 0);
        }
        insert(&x);
        compare_components(&x);
        close_all(&x);
    }
}

/* --- breadth-first search -----------------------------------------------------------------------
 */

static wh_graph_bfs_result reference_bfs(const context *x, uint32_t source, uint32_t *level) {
    wh_graph_bfs_result r = {1, 0};
    memset(level, 0xff, MOST_VERTICES * sizeof *level);
    level[source] = 0;
    for (uint32_t l = 0; l < x->n; l++) {
        for (uint32_t v = 0; v < x->n; v++) {
            for (uint32_t w = 0; w < x->n && level[v] == l; w++) {
                if (x->has[v][w] && level[w] == WH_GRAPH_NOT_REACHED) {
                    level[w] = l + 1;
                    r.levels = l + 1;
                    r.reached++;
                }
            }
        }
    }
    return r;
}

static void compare_bfs(context *x, uint32_t source) {
    uint32_t expected[MOST_VERTICES], level[MOST_VERTICES];
    const wh_graph_bfs_result all = reference_bfs(x, source, expected);
    wh_graph_bfs_result r;
    wh_graph_run_options o;
    memset(&o, 0, sizeof o);
    for (o.naive = 0; o.naive < 2; o.naive++) {
        assert_int_equal(wh_graph_bfs(x->graph, source, &o, level, &r), WH_OK);
        assert_memory_equal(level, expected, x->n * 4);
        assert_int_equal(r.reached, all.reached);
        assert_int_equal(r.levels, all.levels);
    }
    o.on_device = 1;
    uint32_t *on_device = take(x->device, x->n * 4);
    assert_int_equal(wh_graph_bfs(x->graph, source, &o, on_device, NULL), WH_OK);
    assert_int_equal(wh_device_copy_out(x->device, level, on_device, x->n * 4), WH_OK);
    assert_memory_equal(level, expected, x->n * 4);
}

static void test_bfs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        open_random(&x, seed, seed % 2 != 0);
        compare_bfs(&x, (uint32_t)(seed % x.n));
        close_all(&x);
    }
}

/* --- others -------------------------------------------------------------------------------------
 */

/* Nothing but vertices: one, or some; and a path, of as many levels, whose numbers go up and down.
 */
static void test_plain_graphs(void **state) {
    (void)state;
    context x;
    float rank[MOST_VERTICES];
    for (uint32_t n = 1; n <= 41; n += 40) {
        open_all(&x, n, n, 0);
        compare_triangles(&x);
        compare_components(&x);
        compare_bfs(&x, 0);
        assert_int_equal(wh_graph_pagerank(x.graph, NULL, rank, NULL), WH_OK);
        assert_true(fabs((double)rank[0] * n - 1) < 1e-6);
        close_all(&x);
    }
    open_all(&x, 3, 60, 0);
    for (uint32_t i = 0; i + 1 < x.n; i++) {
        put(&x, i * 7 % x.n, (i + 1) * 7 % x.n, 1);
    }
    insert(&x);
    compare_triangles(&x);
    compare_components(&x);
    compare_bfs(&x, 0);
    close_all(&x);
}

static void test_bad_input(void **state) {
    (void)state;
    context x;
    float rank[MOST_VERTICES];
    uint32_t words[MOST_VERTICES];
    uint64_t total = 0;
    wh_graph_pagerank_options o;
    wh_graph_run_options run;
    open_all(&x, 1, 9, 0);
    memset(&o, 0, sizeof o);
    memset(&run, 0, sizeof run);
    assert_int_equal(wh_graph_pagerank(NULL, NULL, rank, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_pagerank(x.graph, NULL, NULL, NULL), WH_BAD_ARGUMENT);
    o.damping = 1;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, NULL), WH_BAD_ARGUMENT);
    o.damping = -0.5;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, NULL), WH_BAD_ARGUMENT);
    o.damping = NAN;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, NULL), WH_BAD_ARGUMENT);
    o.damping = 0;
    const float bad[] = {NAN, -1.0f, 1.5f, INFINITY, 0.0f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(rank, 0, sizeof rank);
        rank[3] = i == 4 ? 0.0f : 1.0f;
        rank[5] = bad[i];
        o.start = rank;
        assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, NULL), WH_BAD_ARGUMENT);
        assert_non_null(strstr(wh_last_error_text(), "start"));
    }
    o.struct_bytes = 7;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, NULL), WH_WRONG_BUILD);
    assert_int_equal(wh_graph_triangles(x.graph, NULL, NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_triangles(NULL, NULL, &total, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_components(x.graph, NULL, NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_bfs(x.graph, 9, NULL, words, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_bfs(x.graph, 8, NULL, NULL, NULL), WH_BAD_ARGUMENT);
    run.struct_bytes = 7;
    assert_int_equal(wh_graph_bfs(x.graph, 8, &run, words, NULL), WH_WRONG_BUILD);
    close_all(&x);
}

static wh_status call(context *x, uint32_t which) {
    static float rank[MOST_VERTICES];
    static uint32_t words[MOST_VERTICES];
    static uint64_t of_vertex[MOST_VERTICES];
    uint64_t total = 0;
    switch (which) {
    case 0:
        return wh_graph_pagerank(x->graph, NULL, rank, NULL);
    case 1:
        return wh_graph_triangles(x->graph, NULL, &total, of_vertex);
    case 2:
        return wh_graph_components(x->graph, NULL, words, NULL);
    default:
        return wh_graph_bfs(x->graph, 0, NULL, words, NULL);
    }
}

/* As much memory as there is, in pieces of some size. Their number. */
static uint32_t fill_device(context *x, uint64_t bytes, void **pieces, uint32_t most) {
    uint32_t n = 0;
    while (n < most && wh_device_alloc(x->device, &pieces[n], bytes) == WH_OK) {
        n++;
    }
    return n;
}

/* A device with ever more memory left: calls fail at each place where they ask for some, and leave
 * none behind, so that all that there was is there again. */
static void test_no_memory(void **state) {
    (void)state;
    enum { PIECE = 64, MOST_LEFT = 1100, LARGE = 1 << 16 };
    static void *pieces[MOST_LEFT + 1], *large[1024];
    context x;
    wh_sim_options so;
    wh_heap_options ho;
    wh_graph_options go;
    memset(&x, 0, sizeof x);
    memset(&so, 0, sizeof so);
    memset(&ho, 0, sizeof ho);
    memset(&go, 0, sizeof go);
    so.memory_bytes = 16 << 20;
    x.device = open_with(&so);
    ho.device = x.device;
    ho.bytes = 8 << 20;
    assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
    go.heap = x.heap;
    x.n = 80;
    go.vertices = x.n;
    assert_int_equal(wh_graph_create(&x.graph, &go), WH_OK);
    for (uint32_t v = 0; v + 1 < x.n; v++) {
        put(&x, v, v + 1, 1);
        put(&x, v, v / 2, 1);
    }
    insert(&x);
    for (uint32_t which = 0; which < 4; which++) {
        assert_int_equal(call(&x, which), WH_OK);
    }
    const uint32_t n_large = fill_device(&x, LARGE, large, 1024);
    assert_true(n_large < 1024);
    const uint32_t n = fill_device(&x, PIECE, pieces, MOST_LEFT + 1);
    for (uint32_t which = 0; which < 4; which++) {
        uint32_t left = 0, failed = 0;
        wh_status s = call(&x, which);
        while (s == WH_OUT_OF_MEMORY && left < n) {
            failed++;
            assert_int_equal(wh_device_free(x.device, pieces[left++]), WH_OK);
            s = call(&x, which);
        }
        assert_int_equal(s, WH_OK);
        assert_true(failed >= 2);
        for (uint32_t i = 0; i < left; i++) {
            assert_int_equal(wh_device_alloc(x.device, &pieces[i], PIECE), WH_OK);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(wh_device_free(x.device, pieces[i]), WH_OK);
    }
    for (uint32_t i = 0; i < n_large; i++) {
        assert_int_equal(wh_device_free(x.device, large[i]), WH_OK);
    }
    close_all(&x);
}

/* On a stream of the caller's. */
static void test_stream(void **state) {
    (void)state;
    context x;
    float rank[MOST_VERTICES], other[MOST_VERTICES];
    uint64_t expected[MOST_VERTICES], total = 0;
    wh_graph_pagerank_options o;
    wh_graph_run_options run;
    open_random(&x, 13, 1);
    memset(&o, 0, sizeof o);
    memset(&run, 0, sizeof run);
    assert_int_equal(wh_graph_pagerank(x.graph, &o, rank, NULL), WH_OK);
    assert_int_equal(wh_stream_create(x.device, &o.stream), WH_OK);
    run.stream = o.stream;
    assert_int_equal(wh_graph_pagerank(x.graph, &o, other, NULL), WH_OK);
    assert_memory_equal(rank, other, x.n * 4);
    assert_int_equal(wh_graph_triangles(x.graph, &run, &total, NULL), WH_OK);
    assert_int_equal(total, reference_triangles(&x, expected));
    assert_int_equal(wh_stream_destroy(x.device, o.stream), WH_OK);
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pagerank),   cmocka_unit_test(test_warm_start),
        cmocka_unit_test(test_triangles),  cmocka_unit_test(test_clique),
        cmocka_unit_test(test_components), cmocka_unit_test(test_trees),
        cmocka_unit_test(test_bfs),        cmocka_unit_test(test_plain_graphs),
        cmocka_unit_test(test_bad_input),  cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

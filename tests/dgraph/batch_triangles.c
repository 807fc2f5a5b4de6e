/* batch_triangles.c: wh_graph_triangles_of_batch against a naive count on the host: batches with
 * edges that are there or not, several times and both ways, with self loops and ends that are no
 * vertices; batches that go in, and that go out; little memory; bad input. */
#include "sim/sim_test.h"

#include "warpheap/graph_algorithms.h"
#include "warpheap/graph_vertices.h"

#define MOST 60u         /* vertices */
#define MOST_BATCH 400u  /* arcs */
#define MOST_LEFT 65536u /* pieces of the device's memory */

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_graph *graph;
    uint32_t n;
    int undirected;
    unsigned char has[MOST][MOST];
    uint64_t random;
    uint32_t from[MOST_BATCH], to[MOST_BATCH];
    uint8_t done[MOST_BATCH];
    wh_graph_batch batch; /* of these */
} context;

static uint32_t below(context *x, uint32_t n) {
    return (uint32_t)(next_random(&x->random) % n);
}

static void open_graph(context *x, uint64_t seed) {
    wh_heap_options ho;
    wh_graph_options go;
    memset(&ho, 0, sizeof ho);
    memset(&go, 0, sizeof go);
    ho.device = x->device;
    ho.bytes = 4 << 20;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    go.heap = x->heap;
    go.vertices = x->n;
    go.undirected = x->undirected;
    go.sorted = seed % 3 == 1;
    assert_int_equal(wh_graph_create(&x->graph, &go), WH_OK);
    x->batch.from = x->from;
    x->batch.to = x->to;
    x->batch.done = x->done;
}

/* A policy for each seed; some have a weak memory, some more than one thread. */
static void open_all(context *x, uint64_t seed, uint32_t n, int undirected) {
    wh_sim_options so;
    memset(&so, 0, sizeof so);
    memset(x, 0, sizeof *x);
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.weak = seed % 4 == 2 ? WH_SIM_WEAK_FORMAL : WH_SIM_WEAK_NONE;
    so.workers = seed % 4 == 3 ? 3 : 1;
    x->device = open_with(&so);
    x->n = n;
    x->undirected = undirected;
    x->random = seed * 41 + 3;
    open_graph(x, seed);
}

static void close_all(context *x) {
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
    assert_int_equal(wh_graph_destroy(x->graph), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

/* --- batches ------------------------------------------------------------------------------------
 */

static void add_arc(context *x, uint32_t u, uint32_t v) {
    if (x->batch.n < MOST_BATCH) {
        x->from[x->batch.n] = u;
        x->to[x->batch.n++] = v;
    }
}

/* Arcs of all kinds. Some have a hub at one end. */
static void draw(context *x, uint32_t n) {
    const uint32_t hub = below(x, x->n);
    x->batch.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t u = below(x, x->n), v = below(x, x->n), again = i != 0 ? below(x, i) : 0;
        switch (below(x, 8)) {
        case 0:
            add_arc(x, i != 0 ? x->to[again] : u, i != 0 ? x->from[again] : v);
            break;
        case 1:
            add_arc(x, i != 0 ? x->from[again] : u, i != 0 ? x->to[again] : v);
            break;
        case 2:
            add_arc(x, below(x, 2) ? u : x->n + v, below(x, 2) ? UINT32_MAX - 1 : u);
            break;
        case 3:
        case 4:
            add_arc(x, hub, v);
            break;
        default:
            add_arc(x, u, v);
            break;
        }
    }
}

/* The batch goes in, or out, both ways of each edge; done says which of its arcs did. */
static void update(context *x, int erases) {
    wh_graph_batch batch = x->batch;
    const wh_status s =
        erases ? wh_graph_erase(x->graph, &batch, NULL) : wh_graph_insert(x->graph, &batch, NULL);
    assert_true(s == WH_OK || s == WH_NO_VERTEX);
    if (!x->undirected) { /* the other ways */
        uint8_t done[MOST_BATCH];
        batch.from = x->to;
        batch.to = x->from;
        batch.done = done;
        (void)(erases ? wh_graph_erase : wh_graph_insert)(x->graph, &batch, NULL);
    }
    for (uint64_t i = 0; i < x->batch.n; i++) {
        const uint32_t u = x->from[i], v = x->to[i];
        if (u < x->n && v < x->n) {
            x->has[u][v] = x->has[v][u] = erases ? 0 : 1;
        }
    }
}

/* A graph with dense parts, and hubs. */
static void fill(context *x, uint64_t seed) {
    for (uint32_t round = 0; round < (seed % 2 != 0 ? 4 : 1); round++) {
        draw(x, MOST_BATCH);
        update(x, 0);
    }
    if (seed % 5 == 0) { /* a clique */
        x->batch.n = 0;
        for (uint32_t u = 0; u < 28 && u < x->n; u++) {
            for (uint32_t v = 0; v < u; v++) {
                add_arc(x, u, v);
            }
        }
        update(x, 0);
    }
}

/* --- counting -----------------------------------------------------------------------------------
 */

/* Triangles of the graph; with a batch: those that have an edge of it that counts. */
static uint64_t expected(const context *x, const wh_graph_batch *batch) {
    static unsigned char in[MOST][MOST];
    uint64_t total = 0;
    memset(in, batch == NULL, sizeof in);
    for (uint64_t i = 0; batch != NULL && i < batch->n; i++) {
        const uint32_t u = batch->from[i], v = batch->to[i];
        if (u < x->n && v < x->n && (batch->done == NULL || batch->done[i] == WH_GRAPH_APPLIED)) {
            in[u][v] = in[v][u] = 1;
        }
    }
    for (uint32_t u = 0; u < x->n; u++) {
        for (uint32_t v = u + 1; v < x->n; v++) {
            for (uint32_t w = v + 1; w < x->n; w++) {
                total += x->has[u][v] && x->has[v][w] && x->has[u][w] &&
                         (in[u][v] || in[v][w] || in[u][w]);
            }
        }
    }
    return total;
}

static uint64_t count(context *x, const wh_graph_batch *batch) {
    uint64_t total = UINT64_MAX;
    assert_int_equal(wh_graph_triangles_of_batch(x->graph, batch, &total), WH_OK);
    return total;
}

static uint64_t count_all(context *x) {
    uint64_t total = 0;
    assert_int_equal(wh_graph_triangles(x->graph, NULL, &total, NULL), WH_OK);
    assert_int_equal(total, expected(x, NULL));
    return total;
}

/* The same batch on the device, and on a stream. */
static uint64_t count_on_device(context *x, wh_graph_batch batch) {
    void *stream = NULL;
    const uint64_t n = batch.n + 1;
    uint32_t *from = take(x->device, 4 * n), *to = take(x->device, 4 * n);
    uint8_t *done = take(x->device, n);
    assert_int_equal(wh_device_copy_in(x->device, from, x->from, 4 * batch.n), WH_OK);
    assert_int_equal(wh_device_copy_in(x->device, to, x->to, 4 * batch.n), WH_OK);
    assert_int_equal(wh_device_copy_in(x->device, done, x->done, batch.n), WH_OK);
    assert_int_equal(wh_stream_create(x->device, &stream), WH_OK);
    batch.from = from;
    batch.to = to;
    batch.done = batch.done != NULL ? done : NULL;
    batch.on_device = 1;
    batch.stream = stream;
    const uint64_t total = count(x, &batch);
    assert_int_equal(wh_stream_destroy(x->device, stream), WH_OK);
    return total;
}

/* --- tests --------------------------------------------------------------------------------------
 */

/* Any batch, of edges that are there and others. */
static void test_any_batch(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4 * n_seeds(); seed++) {
        context x;
        open_all(&x, seed, 1 + (uint32_t)(seed * 23 % MOST), seed % 4 != 0);
        fill(&x, seed);
        draw(&x, 1 + below(&x, seed % 3 == 0 ? MOST_BATCH : 12));
        for (uint64_t i = 0; i < x.batch.n; i++) {
            x.done[i] = (uint8_t)below(&x, 4);
        }
        wh_graph_batch batch = x.batch;
        for (uint32_t with_done = 0; with_done < 2; with_done++) {
            batch.done = with_done ? x.done : NULL;
            const uint64_t all = expected(&x, &batch);
            assert_int_equal(count(&x, &batch), all);
            assert_int_equal(count_on_device(&x, batch), all);
        }
        close_all(&x);
    }
}

/* What a batch closes, and opens, is what the whole count changes by. */
static void test_in_and_out(void **state) {
    (void)state;
    uint64_t most = 0;
    for (uint64_t seed = 1; seed <= 4 * n_seeds(); seed++) {
        context x;
        open_all(&x, seed, 2 + (uint32_t)(seed * 31 % (MOST - 1)), 1);
        fill(&x, seed);
        const uint64_t before = count_all(&x);
        draw(&x, 1 + below(&x, MOST_BATCH));
        update(&x, 0);
        const uint64_t closed = count(&x, &x.batch);
        assert_int_equal(count_all(&x), before + closed);
        most = closed > most ? closed : most;
        draw(&x, 1 + below(&x, 60));
        wh_graph_batch batch = x.batch;
        batch.done = NULL;
        const uint64_t opened = count(&x, &batch);
        update(&x, 1);
        assert_int_equal(count_all(&x), before + closed - opened);
        close_all(&x);
    }
    assert_true(most > 100);
}

/* All edges of a clique: each triangle has three of them. One edge, and one by which two triangles
 * of a clique without it are left. */
static void test_clique(void **state) {
    (void)state;
    context x;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        open_all(&x, seed, 25, 1);
        for (uint32_t u = 0; u < x.n; u++) {
            for (uint32_t v = 0; v < u; v++) {
                add_arc(&x, seed % 2 != 0 ? u : v, seed % 2 != 0 ? v : u);
            }
            add_arc(&x, u, u);
        }
        update(&x, 0);
        assert_int_equal(count(&x, &x.batch), 25 * 24 * 23 / 6);
        for (uint32_t n = 1; n < 4; n++) {
            x.batch.n = n; /* 1-0, 0-0 or 2-0, and so on: edges of vertex 0 and 1 */
            assert_int_equal(count(&x, &x.batch), expected(&x, &x.batch));
        }
        close_all(&x);
    }
}

/* A vertex that was removed is in no triangle. */
static void test_removed(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        wh_graph_vertex_list list;
        uint32_t gone[3] = {4, 9, 17};
        open_all(&x, seed, 30, 1);
        fill(&x, 1);
        memset(&list, 0, sizeof list);
        list.ids = gone;
        list.n = 3;
        assert_int_equal(wh_graph_remove_vertices(x.graph, &list, NULL), WH_OK);
        for (uint32_t v = 0; v < x.n; v++) {
            for (uint32_t k = 0; k < 3; k++) {
                x.has[v][gone[k]] = x.has[gone[k]][v] = 0;
            }
        }
        draw(&x, MOST_BATCH);
        x.batch.done = NULL;
        assert_int_equal(count(&x, &x.batch), expected(&x, &x.batch));
        close_all(&x);
    }
}

static void test_bad_input(void **state) {
    (void)state;
    context x;
    uint64_t total = 7;
    open_all(&x, 1, 9, 1);
    draw(&x, 4);
    wh_graph_batch batch = x.batch;
    assert_int_equal(wh_graph_triangles_of_batch(NULL, &batch, &total), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_triangles_of_batch(x.graph, NULL, &total), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_triangles_of_batch(x.graph, &batch, NULL), WH_BAD_ARGUMENT);
    batch.to = NULL;
    assert_int_equal(wh_graph_triangles_of_batch(x.graph, &batch, &total), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "two arrays"));
    batch.to = x.to;
    batch.n = (uint64_t)WH_GRAPH_MOST_ARCS + 1;
    assert_int_equal(wh_graph_triangles_of_batch(x.graph, &batch, &total), WH_BAD_ARGUMENT);
    batch.struct_bytes = 5;
    assert_int_equal(wh_graph_triangles_of_batch(x.graph, &batch, &total), WH_WRONG_BUILD);
    assert_int_equal(total, 7);
    memset(&batch, 0, sizeof batch);
    assert_int_equal(count(&x, &batch), 0);
    close_all(&x);
}

/* A class that algorithms do not know. */
static void test_other_class(void **state) {
    (void)state;
    context x;
    wh_graph *other = NULL;
    wh_graph_options go;
    uint64_t total = 0;
    open_all(&x, 1, 9, 1);
    draw(&x, 4);
    memset(&go, 0, sizeof go);
    go.heap = x.heap;
    go.vertices = 9;
    go.kind = "faim";
    assert_int_equal(wh_graph_create(&other, &go), WH_OK);
    assert_int_equal(wh_graph_triangles_of_batch(other, &x.batch, &total), WH_UNSUPPORTED);
    assert_int_equal(wh_graph_destroy(other), WH_OK);
    close_all(&x);
}

/* A device without memory, and then with as much as it takes: none is lost. */
static void test_no_memory(void **state) {
    (void)state;
    enum { PIECE = 1024 };
    static void *pieces[MOST_LEFT];
    context x;
    wh_sim_options so;
    uint64_t total = 0;
    uint32_t n = 0, left = 0;
    memset(&x, 0, sizeof x);
    memset(&so, 0, sizeof so);
    so.memory_bytes = 16 << 20;
    x.device = open_with(&so);
    x.n = 40;
    x.undirected = 1;
    open_graph(&x, 2);
    fill(&x, 1);
    while (n < MOST_LEFT && wh_device_alloc(x.device, &pieces[n], PIECE) == WH_OK) {
        n++;
    }
    assert_in_range(n, 1, MOST_LEFT - 1);
    wh_status s = wh_graph_triangles_of_batch(x.graph, &x.batch, &total);
    assert_int_equal(s, WH_OUT_OF_MEMORY);
    while (s == WH_OUT_OF_MEMORY && left < n) {
        assert_int_equal(wh_device_free(x.device, pieces[left++]), WH_OK);
        s = wh_graph_triangles_of_batch(x.graph, &x.batch, &total);
    }
    assert_int_equal(s, WH_OK);
    assert_int_equal(total, expected(&x, &x.batch));
    for (uint32_t i = 0; i < left; i++) {
        assert_int_equal(wh_device_alloc(x.device, &pieces[i], PIECE), WH_OK);
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(wh_device_free(x.device, pieces[i]), WH_OK);
    }
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_batch), cmocka_unit_test(test_in_and_out),
        cmocka_unit_test(test_clique),    cmocka_unit_test(test_removed),
        cmocka_unit_test(test_bad_input), cmocka_unit_test(test_other_class),
        cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

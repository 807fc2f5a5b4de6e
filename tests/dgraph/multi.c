/* multi.c: multigraphs against a naive model that counts copies, with values and in order, and
 * without. */
#include "model.h"
#include "warpheap/graph_algorithms.h"

static uint32_t copies[MOST_VERTICES][MOST_VERTICES];

static void open_multi(context *x, uint64_t seed, uint32_t n) {
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.kind = seed % 3 == 0 ? "ouro" : "lattice";
    memset(copies, 0, sizeof copies);
    o.vertices = n;
    o.multi = 1;
    o.values = (uint32_t)(seed / 2 % 3);
    o.sorted = seed % 2;
    open_graph(x, seed, 8 << 20, &o);
}

/* Entries of each arc, and sums of their first value, which is 1000 times the arc's number and
 * more: the model keeps sums, too. */
static void compare_copies(context *x) {
    enum { ROOM = 20 * MOST_ARCS };
    static uint32_t to[ROOM], value[ROOM], count[MOST_VERTICES], sum[MOST_VERTICES];
    uint64_t offset[MOST_VERTICES + 1], n = 0;
    wh_graph_arrays arrays = {.offset = offset, .to = to, .room = ROOM};
    arrays.values[0] = x->options.values != 0 ? value : NULL;
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
    assert_int_equal(wh_graph_to_csr(x->graph, &arrays, &n), WH_OK);
    for (uint32_t v = 0; v < x->m.n; v++) {
        memset(count, 0, sizeof count);
        memset(sum, 0, sizeof sum);
        for (uint64_t i = offset[v]; i < offset[v + 1]; i++) {
            assert_true(!x->options.sorted || i == offset[v] || to[i - 1] <= to[i]);
            count[to[i]]++;
            sum[to[i]] += value[i];
        }
        for (uint32_t w = 0; w < x->m.n; w++) {
            assert_int_equal(count[w], copies[v][w]);
            assert_int_equal(x->options.values != 0 ? sum[w] : 0, x->m.value[v][w][0]);
        }
    }
}

static void insert(context *x, arcs *b, int tells) {
    wh_graph_batch batch = batch_of(x, b);
    batch.done = tells ? b->done : NULL;
    assert_int_equal(wh_graph_insert(x->graph, &batch, &b->result), WH_OK);
    assert_int_equal(b->result.applied, b->n);
    for (uint32_t i = 0; i < b->n; i++) {
        assert_true(!tells || b->done[i] == WH_GRAPH_APPLIED);
        copies[b->from[i]][b->to[i]]++;
        x->m.value[b->from[i]][b->to[i]][0] += x->options.values != 0 ? b->value[0][i] : 0;
    }
}

/* Of the arcs of a batch that are the same, one tells. */
static void erase(context *x, arcs *b, int tells) {
    wh_graph_batch batch = batch_of(x, b);
    uint32_t expected = 0, told = 0;
    batch.done = tells ? b->done : NULL;
    assert_int_equal(wh_graph_erase(x->graph, &batch, &b->result), WH_OK);
    for (uint32_t i = 0; i < b->n; i++) {
        expected += copies[b->from[i]][b->to[i]] != 0;
        told += tells && b->done[i] == WH_GRAPH_APPLIED;
        copies[b->from[i]][b->to[i]] = x->m.value[b->from[i]][b->to[i]][0] = 0;
    }
    assert_int_equal(b->result.applied, expected);
    assert_int_equal(b->result.no_change, b->n - expected);
    assert_int_equal(told, tells ? expected : 0);
}

static void test_batches(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        static arcs b;
        const uint32_t n_vertices = 2 + (uint32_t)(seed * 7 % (MOST_VERTICES - 1));
        open_multi(&x, seed, n_vertices);
        for (uint32_t step = 0; step < 9; step++) {
            const uint32_t sources = step % 3 == 0 ? n_vertices : 1 + (step & 1);
            const uint32_t most = step % 2 != 0 || step == 2 ? MOST_ARCS : 40;
            random_arcs(&x, &b, most, sources);
            if ((step & 3) == 3 || step == 6) {
                erase(&x, &b, step == 3);
            } else {
                insert(&x, &b, step & 1);
            }
            compare_copies(&x);
        }
        close_all(&x);
    }
}

/* Arrays in, with copies, and ends that are no vertices. */
static void test_arrays(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        uint64_t offset[MOST_VERTICES + 1] = {0}, bad = 0;
        static uint32_t to[4096], value[2][4096];
        wh_graph_result result;
        open_multi(&x, seed, MOST_VERTICES);
        const uint32_t most = seed % 4 < 2 ? 300 : 3; /* fewer arcs in all than vertices */
        for (uint32_t v = 0; v < MOST_VERTICES; v++) {
            uint64_t at = offset[v];
            const uint32_t few = most == 300 ? draw(&x, 9) : 0;
            for (uint32_t left = v % 9 == 0 ? most : few; left != 0; left--) {
                to[at] = draw(&x, most == 300 ? MOST_VERTICES + 1 : 3);
                bad += to[at] == MOST_VERTICES;
                value[0][at] = value[1][at] = draw(&x, 1000000);
                if (to[at] != MOST_VERTICES) {
                    copies[v][to[at]]++;
                    x.m.value[v][to[at]][0] += x.options.values != 0 ? value[0][at] : 0;
                }
                at++;
            }
            offset[v + 1] = at;
        }
        wh_graph_arrays arrays = {.offset = offset, .to = to};
        for (uint32_t k = 0; k < x.options.values; k++) {
            arrays.values[k] = value[k];
        }
        assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &result),
                         bad != 0 ? WH_NO_VERTEX : WH_OK);
        assert_int_equal(result.applied, offset[MOST_VERTICES] - bad);
        assert_int_equal(result.no_vertex, bad);
        compare_copies(&x);
        close_all(&x);
    }
}

static void test_bad_options(void **state) {
    (void)state;
    context x;
    wh_graph *g = NULL;
    open_multi(&x, 1, 2);
    wh_graph_options o = x.options;
    o.undirected = 1;
    assert_int_equal(wh_graph_create(&g, &o), WH_UNSUPPORTED);
    o.undirected = o.sorted = 0;
    o.values = 0;
    o.kind = "faim";
    assert_int_equal(wh_graph_create(&g, &o), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "faim"));
    uint64_t total = 0;
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    assert_int_equal(wh_graph_triangles(x.graph, NULL, &total, NULL), WH_UNSUPPORTED);
    assert_int_equal(wh_graph_triangles_of_batch(x.graph, &batch, &total), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "multigraph"));
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batches),
                                       cmocka_unit_test(test_arrays),
                                       cmocka_unit_test(test_bad_options)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

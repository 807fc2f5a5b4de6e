/* values.c: graphs whose arcs carry values, of every class that has them: in, out and asked for, in
 * batches and as arrays, against a naive model, with as many values as there may be; and what
 * kernels see of them. */
#include "model.h"

static const char *const kinds[] = {"lattice", "ouro"};
#define N_KINDS (sizeof kinds / sizeof *kinds)
static const char *kind; /* of the graphs that are made */

static void open_values(context *x, uint64_t seed, uint32_t n, uint32_t values) {
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.vertices = n;
    o.values = values;
    open_graph(x, seed, 8 << 20, &o);
}

/* ouro: each page is the least power of two of bytes for its arcs and their values. */
static void compare_pages(context *x) {
    uint64_t bytes = 0;
    wh_graph_stats stats;
    memset(&stats, 0, sizeof stats);
    for (uint32_t v = 0; v < x->m.n; v++) {
        uint64_t needs = 0, page = 16;
        for (uint32_t w = 0; w < x->m.n; w++) {
            needs += x->m.has[v][w] ? 4 * (1 + x->options.values) : 0;
        }
        while (page < needs) {
            page *= 2;
        }
        bytes += needs != 0 ? page : 0;
    }
    assert_int_equal(wh_graph_get_stats(x->graph, &stats), WH_OK);
    assert_int_equal(stats.block_bytes, bytes);
}

static void compare_all(context *x) {
    compare(x);
    if (strcmp(kind, "ouro") == 0) {
        compare_pages(x);
    }
}

/* Whether the values that arc i has now are those of arc j of the batch, which is the same one. */
static int are_of(context *x, const wh_graph_batch *sent, const arcs *now, uint32_t i, uint32_t j) {
    const int was = x->m.has[now->from[i]][now->to[i]];
    int same = now->from[i] == now->from[j] && now->to[i] == now->to[j];
    for (uint32_t k = 0; k < x->options.values; k++) {
        const uint32_t kept = was ? x->m.value[now->from[i]][now->to[i]][k] : 0;
        same &= now->value[k][i] == (sent->values[k] != NULL ? sent->values[k][j] : kept);
    }
    return same;
}

/* What an insertion has made of values: an arc that was there kept its own, or all are of one arc
 * of the batch, of the one that was applied where that is known. The model learns them. */
static void learn(context *x, const wh_graph_batch *sent) {
    static arcs now;
    now.n = (uint32_t)sent->n;
    memcpy(now.from, sent->from, sent->n * 4);
    memcpy(now.to, sent->to, sent->n * 4);
    const wh_graph_batch ask = batch_of(x, &now);
    assert_int_equal(wh_graph_has(x->graph, &ask), WH_OK);
    for (uint32_t i = 0; i < now.n; i++) {
        const int was = x->m.has[now.from[i]][now.to[i]];
        assert_int_equal(now.done[i], 1);
        if (was && !sent->overwrites) {
            for (uint32_t k = 0; k < x->options.values; k++) {
                assert_int_equal(now.value[k][i], x->m.value[now.from[i]][now.to[i]][k]);
            }
        } else if (sent->done != NULL && sent->done[i] == WH_GRAPH_APPLIED) {
            assert_false(was);
            assert_true(are_of(x, sent, &now, i, i));
        } else {
            uint32_t j = 0;
            while (j < now.n && !are_of(x, sent, &now, i, j)) {
                j++;
            }
            assert_true(j < now.n);
        }
    }
    for (uint32_t i = 0; i < now.n; i++) {
        x->m.has[now.from[i]][now.to[i]] = 1;
        for (uint32_t k = 0; k < x->options.values; k++) {
            x->m.value[now.from[i]][now.to[i]][k] = now.value[k][i];
        }
    }
}

/* without: the number of a value that the batch does not have. */
static void insert(context *x, arcs *b, int overwrites, uint32_t without) {
    wh_graph_batch batch = batch_of(x, b);
    batch.overwrites = overwrites;
    if (without < VALUES) {
        batch.values[without] = NULL;
    }
    if (draw(x, 3) == 0) {
        batch.done = NULL;
    }
    assert_int_equal(wh_graph_insert(x->graph, &batch, &b->result), WH_OK);
    learn(x, &batch);
}

static void erase(context *x, arcs *b) {
    const wh_graph_batch batch = batch_of(x, b);
    assert_int_equal(wh_graph_erase(x->graph, &batch, &b->result), WH_OK);
    for (uint32_t i = 0; i < b->n; i++) {
        x->m.has[b->from[i]][b->to[i]] = 0;
    }
}

static void test_batches(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        static arcs b;
        const uint32_t n_vertices = 2 + (uint32_t)(seed * 7 % (MOST_VERTICES - 1));
        open_values(&x, seed, n_vertices, 1 + seed % VALUES);
        for (uint32_t step = 0; step < 8; step++) {
            const uint32_t sources = step % 3 == 0 ? n_vertices : 1 + (step & 1);
            const uint32_t most = step % 2 != 0 || step == 2 ? MOST_ARCS : 40;
            random_arcs(&x, &b, most, sources);
            if ((step & 3) == 3) {
                erase(&x, &b);
            } else {
                insert(&x, &b, step != 0 && draw(&x, 2), step == 4 ? 0 : step);
            }
            compare_all(&x);
        }
        close_all(&x);
    }
}

/* Arrays in, of which the first entries are nobody's, and out again. */
static void test_arrays(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        enum { BEFORE = 5 };
        context x;
        uint64_t offset[MOST_VERTICES + 1];
        static uint32_t to[4096], values[VALUES][4096];
        wh_graph_result result;
        open_values(&x, seed, MOST_VERTICES, 1 + seed % VALUES);
        offset[0] = BEFORE;
        for (uint32_t v = 0; v < MOST_VERTICES; v++) {
            uint64_t at = offset[v];
            const uint32_t one_in = v % 9 == 0 ? 1 : 1 + draw(&x, 20);
            for (uint32_t w = MOST_VERTICES; w-- != 0;) {
                if (draw(&x, one_in) == 0) {
                    to[at] = w;
                    x.m.has[v][w] = 1;
                    for (uint32_t k = 0; k < x.options.values; k++) {
                        x.m.value[v][w][k] = values[k][at] = v * 1000 + w * 10 + k;
                    }
                    at++;
                }
            }
            offset[v + 1] = at;
        }
        wh_graph_arrays arrays = {.offset = offset, .to = to};
        for (uint32_t k = 0; k < x.options.values; k++) {
            arrays.values[k] = values[k];
        }
        assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &result), WH_OK);
        assert_int_equal(result.applied, offset[MOST_VERTICES] - BEFORE);
        compare_all(&x);
        close_all(&x);
    }
}

/* One vertex with more arcs than a warp takes, in and out again: its block is as large as its
 * values want, and goes. */
static void test_hub(void **state) {
    (void)state;
    for (uint32_t values = 1; values <= VALUES; values++) {
        enum { N = 5000 };
        context x;
        static arcs b;
        wh_graph_stats stats;
        open_values(&x, 3 + values, 8, values);
        assert_int_equal(wh_graph_destroy(x.graph), WH_OK);
        x.options.vertices = N;
        assert_int_equal(wh_graph_create(&x.graph, &x.options), WH_OK);
        for (uint32_t first = 0; first < N; first += b.n) {
            b.n = N - first < MOST_ARCS ? N - first : MOST_ARCS;
            for (uint32_t i = 0; i < b.n; i++) {
                b.from[i] = 7;
                b.to[i] = first + i;
                for (uint32_t k = 0; k < values; k++) {
                    b.value[k][i] = (first + i) * 5 + k;
                }
            }
            const wh_graph_batch batch = batch_of(&x, &b);
            assert_int_equal(wh_graph_insert(x.graph, &batch, NULL), WH_OK);
        }
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        memset(&stats, 0, sizeof stats);
        assert_int_equal(wh_graph_get_stats(x.graph, &stats), WH_OK);
        assert_true(stats.block_bytes >= (uint64_t)N * 4 * (1 + values));
        for (uint32_t first = 0; first < N; first += b.n) {
            b.n = N - first < MOST_ARCS ? N - first : MOST_ARCS;
            for (uint32_t i = 0; i < b.n; i++) {
                b.to[i] = first + i;
            }
            const wh_graph_batch batch = batch_of(&x, &b);
            assert_int_equal(wh_graph_has(x.graph, &batch), WH_OK);
            for (uint32_t i = 0; i < b.n; i++) {
                assert_int_equal(b.done[i], 1);
                for (uint32_t k = 0; k < values; k++) {
                    assert_int_equal(b.value[k][i], (first + i) * 5 + k);
                }
            }
            assert_int_equal(wh_graph_erase(x.graph, &batch, NULL), WH_OK);
            assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        }
        assert_int_equal(live_blocks(&x), 0);
        close_all(&x);
    }
}

typedef struct look_args {
    wh_graph_ref g;
    uint32_t *sums; /* of vertex v, value k: [v][VALUES], each value times its neighbour */
} look_args;

WH_KERNEL(look, look_args, a) {
    for (uint32_t v = wh_block_id(); v < a.g.n_vertices; v += wh_grid_blocks()) {
        const uint32_t *to = wh_graph_neighbours(a.g, v);
        for (uint32_t k = 0; k < a.g.values; k++) {
            const uint32_t *values = wh_graph_values(a.g, v, k);
            for (uint32_t i = 0; i < wh_graph_degree(a.g, v); i++) {
                a.sums[v * VALUES + k] += to[i] * values[i];
            }
        }
    }
}

static void test_kernels_see_them(void **state) {
    (void)state;
    context x;
    static arcs b;
    look_args a;
    open_values(&x, 5, MOST_VERTICES, 3);
    for (uint32_t i = 0; i < 6; i++) {
        random_arcs(&x, &b, MOST_ARCS, i == 0 ? 1 : MOST_VERTICES);
        insert(&x, &b, 1, VALUES);
    }
    assert_int_equal(wh_graph_handle(x.graph, &a.g), WH_OK);
    assert_int_equal(a.g.values, 3);
    a.sums = take(x.device, MOST_VERTICES * VALUES * 4);
    const wh_launch l = grid(x.device, 2, 1);
    assert_int_equal(look(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(x.device), WH_OK);
    for (uint32_t v = 0; v < MOST_VERTICES; v++) {
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t sum = 0;
            for (uint32_t w = 0; w < MOST_VERTICES; w++) {
                sum += x.m.has[v][w] ? w * x.m.value[v][w][k] : 0;
            }
            assert_int_equal(a.sums[v * VALUES + k], sum);
        }
    }
    close_all(&x);
}

/* Edges of an undirected graph whose first value is below a limit. */
static uint64_t edges_below(context *x, uint32_t limit) {
    static uint32_t to[MOST_VERTICES * MOST_VERTICES], value[MOST_VERTICES * MOST_VERTICES];
    uint64_t offset[MOST_VERTICES + 1], n = 0, edges = 0;
    wh_graph_arrays arrays = {.offset = offset, .to = to, .room = MOST_VERTICES * MOST_VERTICES};
    arrays.values[0] = value;
    assert_int_equal(wh_graph_to_csr(x->graph, &arrays, &n), WH_OK);
    for (uint32_t v = 0; v < x->m.n; v++) {
        for (uint64_t i = offset[v]; i < offset[v + 1]; i++) {
            edges += to[i] >= v && value[i] < limit;
        }
    }
    return edges;
}

/* Both ways of an edge have the values of one arc of the batch, whatever else that has of it. */
static void test_both_ways(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        static arcs b, back;
        wh_graph_options o;
        memset(&o, 0, sizeof o);
        o.kind = kind;
        o.vertices = 2 + seed * 7 % (MOST_VERTICES - 1);
        o.values = 2;
        o.undirected = 1;
        o.sorted = seed % 2;
        open_graph(&x, seed, 8 << 20, &o);
        for (uint32_t step = 0; step < 6; step++) {
            random_arcs(&x, &b, MOST_ARCS, step % 3 == 0 ? x.m.n : 1 + (step & 1));
            for (uint32_t i = 0; i < b.n; i += 3) { /* the other way round */
                const uint32_t v = b.from[i];
                b.from[i] = b.to[i];
                b.to[i] = v;
            }
            wh_graph_batch batch = batch_of(&x, &b);
            batch.overwrites = (int)draw(&x, 2);
            assert_int_equal(wh_graph_insert(x.graph, &batch, NULL), WH_OK);
            back.n = b.n;
            memcpy(back.from, b.to, sizeof b.to);
            memcpy(back.to, b.from, sizeof b.from);
            const wh_graph_batch ways[] = {batch_of(&x, &b), batch_of(&x, &back)};
            assert_int_equal(wh_graph_has(x.graph, &ways[0]), WH_OK);
            assert_int_equal(wh_graph_has(x.graph, &ways[1]), WH_OK);
            for (uint32_t i = 0; i < b.n; i++) {
                assert_true(b.done[i] && back.done[i]);
                assert_int_equal(b.value[0][i], back.value[0][i]);
                assert_int_equal(b.value[1][i], b.value[0][i] * 7 + 1);
                assert_int_equal(b.value[1][i], back.value[1][i]);
            }
        }
        uint64_t gone = 0;
        const uint64_t expected = edges_below(&x, 500);
        assert_int_equal(wh_graph_expire(x.graph, 0, 500, NULL, &gone), WH_OK);
        assert_int_equal(gone, expected);
        assert_int_equal(edges_below(&x, 500), 0);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK); /* as the ways agree */
        close_all(&x);
    }
}

/* Arcs that are too old go, by any of the values, from vertices with few arcs and with many. */
static void test_expire(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        static arcs b;
        open_values(&x, seed, MOST_VERTICES, 1 + seed % VALUES);
        for (uint32_t step = 0; step < 8; step++) {
            random_arcs(&x, &b, MOST_ARCS, step % 2 == 0 ? MOST_VERTICES : 2);
            insert(&x, &b, 0, VALUES);
            const uint32_t k = draw(&x, x.options.values);
            const uint32_t before = (step == 3 ? 0 : 200 * step) * (k == 0 ? 1 : 7);
            uint64_t gone = 12345, expected = 0;
            for (uint32_t v = 0; v < MOST_VERTICES; v++) {
                for (uint32_t w = 0; w < MOST_VERTICES; w++) {
                    if (x.m.has[v][w] && x.m.value[v][w][k] < before) {
                        x.m.has[v][w] = 0;
                        expected++;
                    }
                }
            }
            assert_int_equal(wh_graph_expire(x.graph, k, before, NULL, step == 2 ? NULL : &gone),
                             WH_OK);
            assert_int_equal(gone, step == 2 ? 12345 : expected);
            compare_all(&x);
        }
        assert_int_equal(wh_graph_expire(x.graph, 0, UINT32_MAX, NULL, NULL), WH_OK);
        assert_int_equal(live_blocks(&x), 0);
        assert_int_equal(wh_graph_expire(x.graph, x.options.values, 1, NULL, NULL),
                         WH_BAD_ARGUMENT);
        close_all(&x);
    }
}

static void test_bad_input(void **state) {
    (void)state;
    context x;
    static arcs b;
    wh_graph *g = NULL;
    open_values(&x, 1, 9, 1);
    random_arcs(&x, &b, 20, 9);
    wh_graph_batch batch = batch_of(&x, &b);
    batch.values[1] = b.value[1];
    assert_int_equal(wh_graph_insert(x.graph, &batch, NULL), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "values[1]"));
    assert_int_equal(wh_graph_has(x.graph, &batch), WH_BAD_ARGUMENT);
    uint64_t offset[10] = {0};
    wh_graph_arrays arrays = {.offset = offset, .to = b.to};
    arrays.values[3] = b.value[3];
    assert_int_equal(wh_graph_from_csr(x.graph, &arrays, NULL), WH_BAD_ARGUMENT);
    wh_graph_options o = x.options;
    o.values = VALUES + 1;
    assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
    o.values = 1;
    o.kind = "faim-update";
    assert_int_equal(wh_graph_create(&g, &o), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "faim-update"));
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches), cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_hub),     cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_expire),  cmocka_unit_test(test_bad_input),
    };
    const struct CMUnitTest of_kernels[] = {cmocka_unit_test(test_kernels_see_them)};
    int failed = 0;
    for (size_t k = 0; k < N_KINDS; k++) {
        kind = kinds[k];
        failed += cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    }
    kind = kinds[0];
    return failed + cmocka_run_group_tests(of_kernels, NULL, NULL);
}

/* rules.c: batches that erase and insert, undirected graphs, and graphs in order, of every class
 * that has them, against a naive model. */
#include "model.h"

#include "warpheap/graph_algorithms.h"
#include "warpheap/graph_vertices.h"

typedef struct rules {
    const char *kind;
    uint32_t values;
    int undirected, sorted;
    uint32_t worker;
} rules;

static const rules all_rules[] = {
    {"lattice", 0, 0, 0, 0},      {"lattice", 2, 0, 0, 0},     {"lattice", 0, 1, 0, 0},
    {"lattice", 1, 1, 0, 0},      {"lattice", 0, 0, 1, 0},     {"lattice", 3, 0, 1, 0},
    {"lattice", 1, 1, 1, 0},      {"lattice", 4, 0, 1, 0},     {"faim", 0, 0, 0, 0},
    {"faim", 0, 1, 0, 0},         {"ouro", 0, 0, 0, 0},        {"ouro", 0, 1, 0, 0},
    {"ouro", 2, 0, 0, 0},         {"ouro", 0, 0, 1, 0},        {"ouro", 3, 1, 1, 0},
    {"faim-update", 0, 0, 0, 1},  {"faim-update", 0, 1, 0, 1}, {"faim-update", 0, 0, 0, 32},
    {"faim-update", 0, 1, 0, 32}, {"aim", 0, 0, 0, 32},        {"aim", 0, 1, 0, 32},
    {"aim", 0, 0, 0, 1},          {"aim", 0, 1, 0, 1},
};
#define N_RULES (sizeof all_rules / sizeof *all_rules)

static void open_rules(context *x, uint64_t seed, const rules *r, uint32_t n) {
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.kind = r->kind;
    o.vertices = n;
    o.values = r->values;
    o.undirected = r->undirected;
    o.sorted = r->sorted;
    o.worker = r->worker;
    open_graph(x, seed, 8 << 20, &o);
}

/* The model's arc, both ways where there are two. Whether that was a change. */
static uint32_t set_arc(context *x, const arcs *b, uint32_t i, unsigned char has) {
    const uint32_t v = b->from[i], w = b->to[i];
    const uint32_t changes = x->m.has[v][w] != has;
    x->m.has[v][w] = has;
    if (x->options.undirected) {
        x->m.has[w][v] = has;
    }
    return changes;
}

/* Values follow from the arc, whichever way, so that it does not matter which one wins. */
static void give_values(context *x, arcs *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        for (uint32_t k = 0; k < x->options.values; k++) {
            const uint32_t v = b->from[i], w = b->to[i];
            b->value[k][i] = (v + w) * 100 + v * w + k;
            x->m.value[v][w][k] = x->m.value[w][v][k] = b->value[k][i];
        }
    }
}

/* Erasures, then insertions, each of which counts once. counts: what became of the arcs. */
static void apply(context *x, const arcs *b, const uint8_t *erases, wh_graph_result *counts) {
    memset(counts, 0, sizeof *counts);
    for (int pass = 1; pass >= 0; pass--) {
        for (uint32_t i = 0; i < b->n; i++) {
            if (erases[i] == pass) {
                const uint32_t changes = set_arc(x, b, i, !pass);
                counts->applied += changes;
                counts->no_change += !changes;
            }
        }
    }
}

static void expect_result(const arcs *b, const wh_graph_result *counts) {
    wh_graph_result done;
    memset(&done, 0, sizeof done);
    for (uint32_t i = 0; i < b->n; i++) {
        done.applied += b->done[i] == WH_GRAPH_APPLIED;
        done.no_change += b->done[i] == WH_GRAPH_NO_CHANGE;
    }
    assert_memory_equal(&b->result, counts, sizeof *counts);
    assert_memory_equal(&done, counts, sizeof *counts);
}

static void ask(context *x, arcs *b) {
    const wh_graph_batch batch = batch_of(x, b);
    assert_int_equal(wh_graph_has(x->graph, &batch), WH_OK);
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t v = b->from[i], w = b->to[i];
        assert_int_equal(b->done[i], x->m.has[v][w]);
        for (uint32_t k = 0; k < x->options.values && b->done[i]; k++) {
            assert_int_equal(b->value[k][i], x->m.value[v][w][k]);
        }
    }
}

static void random_batches(const rules *r, uint64_t seed) {
    context x;
    static arcs b;
    uint8_t erases[MOST_ARCS];
    const uint32_t n_vertices = 2 + (uint32_t)(seed * 7 % (MOST_VERTICES - 1));
    open_rules(&x, seed, r, n_vertices);
    for (uint32_t step = 0; step < 8; step++) {
        wh_graph_result counts;
        const uint32_t sources = step % 3 == 0 ? n_vertices : 1 + (step & 1);
        random_arcs(&x, &b, step % 2 != 0 || step == 2 ? MOST_ARCS : 40, sources);
        give_values(&x, &b);
        const uint32_t how = step < 6 ? step % 3 : 2; /* all come, all go, or mixed */
        for (uint32_t i = 0; i < b.n; i++) {
            erases[i] = (uint8_t)(how == 2 ? draw(&x, 2) : how);
        }
        wh_graph_batch batch = batch_of(&x, &b);
        batch.erases = erases;
        wh_status (*const send[])(wh_graph *, const wh_graph_batch *, wh_graph_result *) = {
            wh_graph_insert, wh_graph_erase, wh_graph_update};
        assert_int_equal(send[how](x.graph, &batch, &b.result), WH_OK);
        apply(&x, &b, erases, &counts);
        expect_result(&b, &counts);
        compare(&x);
        ask(&x, &b);
    }
    close_all(&x);
}

static void test_random_batches(void **state) {
    (void)state;
    for (size_t k = 0; k < N_RULES; k++) {
        for (uint64_t seed = 1 + k % 2; seed <= n_seeds(); seed += 2) {
            random_batches(&all_rules[k], seed);
        }
    }
}

/* Arcs with ends that are no vertices, in both passes; and batches on the device, without results.
 */
static void test_mixed(void **state) {
    (void)state;
    for (size_t k = 0; k < N_RULES; k++) {
        context x;
        uint32_t from[6] = {0, 1, 2, 9, 3, 3}, to[6] = {1, 2, 9, 0, 3, 3};
        uint8_t erases[6] = {1, 0, 1, 0, 0, 1}, done[6];
        const uint8_t expected[6] = {WH_GRAPH_NO_CHANGE, WH_GRAPH_APPLIED, WH_GRAPH_NO_VERTEX,
                                     WH_GRAPH_NO_VERTEX, WH_GRAPH_APPLIED, WH_GRAPH_NO_CHANGE};
        wh_graph_batch batch;
        wh_graph_result result;
        uint64_t n = 0;
        open_rules(&x, k, &all_rules[k], 9);
        memset(&batch, 0, sizeof batch);
        batch.from = from;
        batch.to = to;
        batch.n = 6;
        batch.done = done;
        assert_int_equal(wh_graph_update(x.graph, &batch, &result), WH_BAD_ARGUMENT);
        assert_non_null(strstr(wh_last_error_text(), "erases"));
        batch.erases = erases;
        assert_int_equal(wh_graph_update(x.graph, &batch, &result), WH_NO_VERTEX);
        assert_memory_equal(done, expected, 6);
        assert_int_equal(result.no_vertex, 2);
        assert_int_equal(result.applied, 2);
        assert_int_equal(result.no_change, 2);
        unsigned char *memory = take(x.device, 64); /* the same, back: 1 -> 2 goes, 0 -> 1 comes */
        for (uint32_t i = 0; i < 6; i++) {
            erases[i] = !erases[i];
        }
        assert_int_equal(wh_device_copy_in(x.device, memory, from, 24), WH_OK);
        assert_int_equal(wh_device_copy_in(x.device, memory + 24, to, 24), WH_OK);
        assert_int_equal(wh_device_copy_in(x.device, memory + 48, erases, 6), WH_OK);
        batch.from = (const uint32_t *)(void *)memory;
        batch.to = (const uint32_t *)(void *)(memory + 24);
        batch.erases = memory + 48;
        batch.done = k % 2 == 0 ? NULL : memory + 56;
        batch.on_device = 1;
        assert_int_equal(wh_graph_update(x.graph, &batch, NULL), WH_OK);
        assert_int_equal(wh_device_sync(x.device), WH_OK);
        if (batch.done != NULL) {
            const uint8_t then[6] = {1, 1, 3, 3, 1, 1};
            assert_int_equal(wh_device_copy_out(x.device, done, memory + 56, 6), WH_OK);
            assert_memory_equal(done, then, 6);
        }
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
        assert_int_equal(n, x.options.undirected ? 3 : 2); /* 0 -> 1, and 3 -> 3 again */
        assert_int_equal(wh_device_free(x.device, memory), WH_OK);
        close_all(&x);
    }
}

/* As many edges between a hub and others, either way round. */
static void make_star(arcs *b, uint32_t hub, uint32_t first) {
    b->n = MOST_ARCS;
    for (uint32_t i = 0; i < b->n; i++) {
        b->from[i] = i % 2 == 0 ? hub : first + i;
        b->to[i] = i % 2 == 0 ? first + i : hub;
    }
}

enum { STAR_VERTICES = 200000 };

/* A graph on the smallest heap that there is. */
static void open_small_heap(context *x) {
    const rules r = {"lattice", 0, 1, 0, 0};
    wh_heap_options ho;
    open_rules(x, 2, &r, 2);
    assert_int_equal(wh_graph_destroy(x->graph), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    memset(&ho, 0, sizeof ho);
    ho.device = x->device;
    assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->options.heap = x->heap;
    x->options.vertices = STAR_VERTICES;
    assert_int_equal(wh_graph_create(&x->graph, &x->options), WH_OK);
}

/* A hub whose block is too large for the heap: its edges are refused, the other ends have theirs,
 * and when the hub has become small the same batch heals that. */
static void one_end_refused(uint32_t hub, uint32_t healed) {
    context x;
    static arcs b, old;
    uint64_t n = 0, all = 0;
    wh_status s = WH_OK;
    open_small_heap(&x);
    for (uint32_t first = 1; s == WH_OK && first + MOST_ARCS < STAR_VERTICES; first += MOST_ARCS) {
        make_star(&b, hub, first);
        const wh_graph_batch batch = batch_of(&x, &b);
        s = wh_graph_insert(x.graph, &batch, &b.result);
        all += s == WH_OK ? MOST_ARCS : 0;
    }
    assert_int_equal(s, WH_OUT_OF_MEMORY);
    assert_int_equal(b.result.refused, MOST_ARCS);
    for (uint32_t i = 0; i < b.n; i++) {
        assert_int_equal(b.done[i], WH_GRAPH_REFUSED);
    }
    assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
    assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
    assert_int_equal(n, 2 * all + MOST_ARCS);
    for (uint32_t first = 1; first <= all; first += MOST_ARCS) { /* the hub loses the others */
        make_star(&old, hub, first);
        const wh_graph_batch batch = batch_of(&x, &old);
        assert_int_equal(wh_graph_erase(x.graph, &batch, &old.result), WH_OK);
        assert_int_equal(old.result.applied, MOST_ARCS);
    }
    const wh_graph_batch again = batch_of(&x, &b);
    assert_int_equal(wh_graph_insert(x.graph, &again, &b.result), WH_OK);
    assert_int_equal(b.result.applied, healed);
    assert_int_equal(b.result.no_change, MOST_ARCS - healed);
    assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
    assert_int_equal(n, 2 * MOST_ARCS);
    close_all(&x);
}

static void test_one_end_refused(void **state) {
    (void)state;
    one_end_refused(0, MOST_ARCS); /* the smaller end tells */
    one_end_refused(STAR_VERTICES - 1, 0);
}

/* Arrays with one way only: the check says so. */
static void test_one_sided(void **state) {
    (void)state;
    context x;
    const rules r = {"lattice", 0, 1, 0, 0};
    uint64_t offset[4] = {0, 2, 3, 4};
    uint32_t to[4] = {1, 2, 0, 2};
    wh_report report;
    open_rules(&x, 1, &r, 3);
    const wh_graph_arrays arrays = {.offset = offset, .to = to};
    assert_int_equal(wh_graph_from_csr(x.graph, &arrays, NULL), WH_OK);
    assert_int_equal(wh_graph_check(x.graph, &report), WH_CORRUPT);
    assert_int_equal(report.first_tag, 5);
    assert_int_equal(report.first_where, 0);
    close_all(&x);
}

/* A large adjacency in order: arcs come at the end, at the front, and in between. */
static void test_sorted_hub(void **state) {
    (void)state;
    for (uint32_t values = 0; values < 3; values++) {
        enum { N = 6000, PARTS = N / MOST_ARCS };
        context x;
        static arcs b;
        static uint32_t to[N], value[N];
        uint64_t offset[9] = {0}, n = 0;
        const rules r = {"lattice", values, 0, 1, 0};
        wh_graph_arrays arrays = {.offset = offset, .to = to, .room = N};
        arrays.values[0] = values != 0 ? value : NULL;
        open_rules(&x, values + 3, &r, 8);
        assert_int_equal(wh_graph_destroy(x.graph), WH_OK);
        x.options.vertices = N;
        assert_int_equal(wh_graph_create(&x.graph, &x.options), WH_OK);
        for (uint32_t part = 0; part < PARTS; part++) { /* 0, 9, 1, 8, ..: every tenth + k */
            const uint32_t k = part % 2 == 0 ? part / 2 : PARTS - 1 - part / 2;
            b.n = MOST_ARCS;
            for (uint32_t i = 0; i < b.n; i++) {
                const uint32_t at = (i * 7 + 3) % MOST_ARCS; /* in no order */
                b.from[i] = 5;
                b.to[i] = part < PARTS / 2 ? at * (PARTS / 2) + k % (PARTS / 2)
                                           : N / 2 + (part - PARTS / 2) * MOST_ARCS + at;
                b.value[0][i] = b.to[i] * 3;
            }
            const wh_graph_batch batch = batch_of(&x, &b);
            assert_int_equal(wh_graph_insert(x.graph, &batch, &b.result), WH_OK);
            assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
            n += b.result.applied;
        }
        uint64_t *offsets = calloc(N + 1, sizeof *offsets);
        uint64_t all = 0;
        arrays.offset = offsets;
        assert_int_equal(wh_graph_to_csr(x.graph, &arrays, &all), WH_OK);
        assert_int_equal(all, n);
        for (uint64_t i = 0; i < all; i++) {
            assert_true(i == 0 || to[i - 1] < to[i]);
            assert_true(values == 0 || value[i] == to[i] * 3);
        }
        free(offsets);
        close_all(&x);
    }
}

typedef struct look_args {
    wh_graph_ref g;
    uint32_t *has, *together; /* [MOST_VERTICES][MOST_VERTICES] */
} look_args;

/* A warp a vertex. */
WH_KERNEL(look, look_args, a) {
    const uint32_t v = wh_block_id();
    for (uint32_t w = wh_lane_id(); w < MOST_VERTICES; w += WH_WARP_SIZE) {
        const wh_mask has = wh_graph_has_warp(a.g, v, w);
        a.has[v * MOST_VERTICES + w] = (uint32_t)wh_graph_has_arc(a.g, v, w);
        a.together[v * MOST_VERTICES + w] = has >> wh_lane_id() & 1;
    }
}

/* Damage: the first two arcs of vertex 0 change places. */
WH_KERNEL(swap_two, look_args, a) {
    uint32_t *to = wh_lattice_array(&a.g.vertices[0]);
    const uint32_t first = to[0];
    to[0] = to[1];
    to[1] = first;
}

/* What kernels ask of adjacencies in order; and the check sees where there is none. */
static void test_kernels_see_order(void **state) {
    (void)state;
    context x;
    static arcs b;
    look_args a;
    const rules r = {"lattice", 0, 0, 1, 0};
    open_rules(&x, 4, &r, MOST_VERTICES);
    for (uint32_t step = 0; step < 4; step++) {
        random_arcs(&x, &b, MOST_ARCS, step == 0 ? 2 : MOST_VERTICES);
        const wh_graph_batch batch = batch_of(&x, &b);
        assert_int_equal(wh_graph_insert(x.graph, &batch, NULL), WH_OK);
        for (uint32_t i = 0; i < b.n; i++) {
            x.m.has[b.from[i]][b.to[i]] = 1;
        }
    }
    assert_int_equal(wh_graph_handle(x.graph, &a.g), WH_OK);
    assert_int_equal(a.g.sorted, 1);
    a.has = take(x.device, MOST_VERTICES * MOST_VERTICES * 4);
    a.together = take(x.device, MOST_VERTICES * MOST_VERTICES * 4);
    const wh_launch l = grid(x.device, MOST_VERTICES, WH_WARP_SIZE);
    assert_int_equal(look(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(x.device), WH_OK);
    for (uint32_t k = 0; k < MOST_VERTICES * MOST_VERTICES; k++) {
        const uint32_t has = x.m.has[k / MOST_VERTICES][k % MOST_VERTICES];
        assert_int_equal(a.has[k], has);
        assert_int_equal(a.together[k], has);
    }
    const wh_launch one = grid(x.device, 1, 1);
    wh_report report;
    assert_int_equal(swap_two(&one, &a), WH_OK);
    assert_int_equal(wh_device_sync(x.device), WH_OK);
    assert_int_equal(wh_graph_check(x.graph, &report), WH_CORRUPT);
    assert_int_equal(report.first_tag, 4);
    wh_graph_options o = x.options;
    wh_graph *g = NULL;
    o.kind = "faim";
    assert_int_equal(wh_graph_create(&g, &o), WH_UNSUPPORTED);
    close_all(&x);
}

static void expect_bad(const wh_status *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] != WH_BAD_ARGUMENT) {
            fail_msg("call %zu: %s", i, wh_status_name(s[i]));
        }
    }
}

/* Each call on no graph. */
static void test_no_graph(void **state) {
    (void)state;
    wh_graph *const no = NULL;
    wh_graph_batch batch;
    wh_graph_arrays arrays;
    wh_graph_vertex_list list;
    wh_graph_stats stats;
    wh_graph_ref handle;
    uint64_t n = 0, names[4];
    uint32_t words[4];
    uint8_t is[4];
    float rank[4];
    memset(&batch, 0, sizeof batch);
    memset(&arrays, 0, sizeof arrays);
    memset(&list, 0, sizeof list);
    memset(&stats, 0, sizeof stats);
    const wh_status bad[] = {
        wh_graph_insert(no, &batch, NULL),
        wh_graph_erase(no, &batch, NULL),
        wh_graph_update(no, &batch, NULL),
        wh_graph_expire(no, 0, 1, NULL, &n),
        wh_graph_has(no, &batch),
        wh_graph_from_csr(no, &arrays, NULL),
        wh_graph_to_csr(no, &arrays, &n),
        wh_graph_degrees(no, words, 0, NULL),
        wh_graph_get_stats(no, &stats),
        wh_graph_check(no, NULL),
        wh_graph_rebase(no, 0),
        wh_graph_handle(no, &handle),
        wh_graph_add_vertices(no, &list, NULL),
        wh_graph_remove_vertices(no, &list, NULL),
        wh_graph_find_vertices(no, &list),
        wh_graph_names(no, names, 0, NULL),
        wh_graph_is_vertex(no, is),
        wh_graph_grow(no, 9),
        wh_graph_pagerank(no, NULL, rank, NULL),
        wh_graph_triangles(no, NULL, &n, NULL),
        wh_graph_triangles_of_batch(no, &batch, &n),
        wh_graph_components(no, NULL, words, NULL),
        wh_graph_bfs(no, 0, NULL, words, NULL),
    };
    expect_bad(bad, sizeof bad / sizeof *bad);
    assert_int_equal(wh_graph_destroy(no), WH_OK);
}

/* Each call without what it reads or fills. */
static void test_no_argument(void **state) {
    (void)state;
    context x;
    open_rules(&x, 1, &all_rules[1], 4);
    wh_graph *g = x.graph, *made = NULL;
    wh_graph_options o;
    wh_graph_batch batch;
    wh_graph_arrays arrays;
    uint64_t n = 0;
    memset(&o, 0, sizeof o); /* without a heap */
    memset(&batch, 0, sizeof batch);
    memset(&arrays, 0, sizeof arrays);
    const wh_status bad[] = {
        wh_graph_create(NULL, &o),
        wh_graph_create(&made, NULL),
        wh_graph_create(&made, &o),
        wh_graph_insert(g, NULL, NULL),
        wh_graph_erase(g, NULL, NULL),
        wh_graph_update(g, NULL, NULL),
        wh_graph_has(g, NULL),
        wh_graph_from_csr(g, NULL, NULL),
        wh_graph_from_csr(g, &arrays, NULL),
        wh_graph_to_csr(g, &arrays, &n),
        wh_graph_to_csr(g, NULL, NULL),
        wh_graph_degrees(g, NULL, 0, NULL),
        wh_graph_get_stats(g, NULL),
        wh_graph_handle(g, NULL),
        wh_graph_add_vertices(g, NULL, NULL),
        wh_graph_remove_vertices(g, NULL, NULL),
        wh_graph_find_vertices(g, NULL),
        wh_graph_names(g, NULL, 0, NULL),
        wh_graph_is_vertex(g, NULL),
        wh_graph_pagerank(g, NULL, NULL, NULL),
        wh_graph_triangles(g, NULL, NULL, NULL),
        wh_graph_triangles_of_batch(g, NULL, &n),
        wh_graph_triangles_of_batch(g, &batch, NULL),
        wh_graph_components(g, NULL, NULL, NULL),
        wh_graph_bfs(g, 0, NULL, NULL, NULL),
    };
    expect_bad(bad, sizeof bad / sizeof *bad);
    assert_null(made);
    assert_int_equal(wh_graph_check(g, NULL), WH_OK);
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_batches),  cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_one_end_refused), cmocka_unit_test(test_one_sided),
        cmocka_unit_test(test_sorted_hub),      cmocka_unit_test(test_kernels_see_order),
        cmocka_unit_test(test_no_graph),        cmocka_unit_test(test_no_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

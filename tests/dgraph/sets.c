/* sets.c: a graph against a naive model on the host: random batches in, out and asked for, on small
 * graphs with hubs, by every policy of the simulated device; heaps that are too small; bad input;
 * arrays in and out. */
#include "model.h"

#ifndef KINDS /* else this is part of papers.c, or of allocators.c */
#define KINDS "lattice", "faim"
#define OTHER_ALLOCATORS 0
#endif

static const char *const kinds[] = {KINDS};
static const char *kind; /* of the graphs that are made */

static int is_kind(const char *name) {
    return strcmp(kind, name) == 0;
}

static uint64_t first_seed = 1;

static uint64_t last_seed(void) {
    return allocator == NULL || n_seeds() >= 100 ? n_seeds() : first_seed;
}

/* Classes in which each arc of a batch has a worker of its own. */
static int is_by_update(void) {
    return is_kind("aim") || is_kind("faim-update");
}

/* What the class has by seed: either worker, or a choice; an arena of many segments. */
static wh_graph_options options_of(uint64_t seed, uint64_t vertices) {
    static const uint32_t workers[] = {1, 32, 0};
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.vertices = vertices;
    o.worker = is_by_update() ? workers[seed % 3] : 0;
    o.arena_bytes = is_kind("aim") ? (uint64_t)1000 << seed % 3 : 0;
    return o;
}

static void expect_kind(context *x) {
    wh_graph_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_graph_get_stats(x->graph, &stats), WH_OK);
    assert_string_equal(stats.kind, kind);
    assert_int_equal(stats.vertices, x->m.n);
    assert_int_equal(stats.arcs + stats.blocks + stats.block_bytes + stats.max_degree, 0);
    wh_graph_ref ref; /* kernels of a user know the default class alone */
    assert_int_equal(wh_graph_handle(x->graph, &ref), is_kind("lattice") ? WH_OK : WH_UNSUPPORTED);
}

static void open_all(context *x, uint64_t seed, uint64_t heap_bytes, uint32_t n) {
    wh_graph_options go;
    go = options_of(seed, n);
    open_graph(x, seed, heap_bytes, &go);
    expect_kind(x);
}

/* Bytes of an adjacency of `degree` arcs in the class ouro. */
static uint64_t ouro_page(uint32_t degree) {
    uint64_t bytes = degree != 0 ? 16 : 0;
    while (bytes < 4 * (uint64_t)degree) {
        bytes *= 2;
    }
    return bytes;
}

/* There was memory whenever some was asked for: each page is of the exact size. */
static void compare_pages(context *x) {
    uint64_t blocks = 0, bytes = 0;
    wh_graph_stats stats;
    memset(&stats, 0, sizeof stats);
    for (uint32_t v = 0; v < x->m.n; v++) {
        uint32_t degree = 0;
        for (uint32_t w = 0; w < x->m.n; w++) {
            degree += x->m.has[v][w];
        }
        blocks += degree != 0;
        bytes += ouro_page(degree);
    }
    assert_int_equal(wh_graph_get_stats(x->graph, &stats), WH_OK);
    assert_int_equal(stats.blocks, blocks);
    assert_int_equal(stats.block_bytes, bytes);
}

static void compare_all(context *x) {
    compare(x);
    if (is_kind("ouro")) {
        compare_pages(x);
    }
}

/* Sends a batch, and looks at what came of each arc. */
static void send(context *x, arcs *b, int erases) {
    const wh_graph_batch batch = batch_of(x, b);
    uint32_t applied = 0;
    assert_int_equal((erases ? wh_graph_erase : wh_graph_insert)(x->graph, &batch, &b->result),
                     WH_OK);
    for (uint32_t i = 0; i < b->n; i++) {
        assert_true(b->done[i] <= WH_GRAPH_APPLIED);
        if (b->done[i] == WH_GRAPH_APPLIED) {
            assert_int_equal(x->m.has[b->from[i]][b->to[i]], erases);
            x->m.has[b->from[i]][b->to[i]] = !erases;
            applied++;
        }
    }
    for (uint32_t i = 0; i < b->n; i++) { /* what was not applied had no need to be */
        assert_int_equal(x->m.has[b->from[i]][b->to[i]], !erases);
    }
    assert_int_equal(b->result.applied, applied);
    assert_int_equal(b->result.no_change, b->n - applied);
    assert_int_equal(b->result.refused + b->result.no_vertex, 0);
}

static void ask(context *x, arcs *b) {
    const wh_graph_batch batch = batch_of(x, b);
    assert_int_equal(wh_graph_has(x->graph, &batch), WH_OK);
    for (uint32_t i = 0; i < b->n; i++) {
        assert_int_equal(b->done[i], x->m.has[b->from[i]][b->to[i]]);
    }
}

static void test_random_batches(void **state) {
    (void)state;
    for (uint64_t seed = first_seed; seed <= last_seed(); seed++) {
        context x;
        arcs b;
        const uint32_t n_vertices = 2 + (uint32_t)(seed * 7 % (MOST_VERTICES - 1));
        open_all(&x, seed, 8 << 20, n_vertices);
        for (uint32_t step = 0; step < 8; step++) {
            /* all vertices; one that needs a block of threads; one or two that need a warp */
            const uint32_t sources = step % 3 == 0 ? n_vertices : 1 + (step & 1);
            const uint32_t most = step % 2 != 0 || step == 2 ? MOST_ARCS : 40;
            random_arcs(&x, &b, most, sources);
            send(&x, &b, (step & 3) == 3);
            ask(&x, &b);
            compare_all(&x);
        }
        close_all(&x);
    }
}

/* One vertex with more arcs than a warp takes, in and out again: nothing of the heap stays. */
static void test_hub(void **state) {
    (void)state;
    context x;
    uint32_t from[MOST_ARCS], to[MOST_ARCS], n = 0;
    wh_graph_options o;
    wh_graph_batch batch;
    wh_graph_result result;
    open_all(&x, 3, 8 << 20, 4);
    assert_int_equal(wh_graph_destroy(x.graph), WH_OK);
    o = options_of(3, 5000);
    o.heap = x.heap;
    assert_int_equal(wh_graph_create(&x.graph, &o), WH_OK);
    memset(&batch, 0, sizeof batch);
    batch.from = from;
    batch.to = to;
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < MOST_ARCS; i++) {
            from[i] = 7;
            to[i] = (round * 500 + i) % 5000; /* 100 of them again */
        }
        batch.n = MOST_ARCS;
        assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_OK);
        assert_int_equal(result.applied, round == 0 ? 600 : 500);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
    }
    for (uint32_t first = 0; first < 3100; first += MOST_ARCS) {
        for (n = 0; n < MOST_ARCS && first + n < 3100; n++) {
            from[n] = 7;
            to[n] = first + n;
        }
        batch.n = n;
        assert_int_equal(wh_graph_erase(x.graph, &batch, &result), WH_OK);
        assert_int_equal(result.applied, n);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
    }
    assert_true(live_blocks(&x) == 0 || is_kind("aim")); /* aim keeps its arena */
    close_all(&x);
}

/* A heap that is too small: a vertex takes all of its arcs or none, what went in stays, and when
 * there is room again the same batch goes in; but not in aim, whose vertices keep their blocks, and
 * take the same arcs again. */
static void test_heap_full(void **state) {
    (void)state;
    enum { EACH = 12, SOURCES = MOST_ARCS / EACH };
    for (uint64_t seed = 1; seed <= (n_seeds() < 10 ? 1 : 3); seed++) {
        context x;
        wh_heap_options ho;
        wh_graph_options go;
        wh_graph_batch batch;
        wh_graph_result result;
        uint32_t from[MOST_ARCS], to[MOST_ARCS];
        uint64_t applied = 0, n = 0;
        wh_status s = WH_OK;
        open_all(&x, seed, 8 << 20, 2);
        assert_int_equal(wh_graph_destroy(x.graph), WH_OK);
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        memset(&ho, 0, sizeof ho);
        ho.device = x.device;
        assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
        assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
        go = options_of(seed, 400000);
        go.heap = x.heap;
        go.arena_bytes = is_kind("aim") ? 4096 : 0;
        assert_int_equal(wh_graph_create(&x.graph, &go), WH_OK);
        memset(&batch, 0, sizeof batch);
        batch.from = from;
        batch.to = to;
        batch.n = MOST_ARCS;
        for (uint32_t first = 0; s == WH_OK; first += SOURCES) {
            assert_true(first + SOURCES < go.vertices);
            for (uint32_t i = 0; i < MOST_ARCS; i++) {
                from[i] = first + i / EACH;
                to[i] = i;
            }
            s = wh_graph_insert(x.graph, &batch, &result);
            applied += result.applied;
        }
        assert_int_equal(s, WH_OUT_OF_MEMORY);
        assert_true(result.refused != 0);
        assert_int_equal(result.refused % EACH, 0);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        assert_int_equal(wh_graph_to_csr(x.graph, NULL, &n), WH_OK);
        assert_int_equal(n, applied);
        const uint64_t refused = result.refused;
        wh_graph_batch early = batch; /* what came first goes: there is room again */
        uint32_t old[MOST_ARCS];
        for (uint32_t i = 0; i < MOST_ARCS; i++) {
            old[i] = i / EACH;
        }
        early.from = old;
        assert_int_equal(wh_graph_erase(x.graph, &early, &result), WH_OK);
        assert_int_equal(result.applied, MOST_ARCS);
        if (is_kind("aim")) {
            assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_OUT_OF_MEMORY);
            assert_int_equal(result.refused, refused);
            assert_int_equal(wh_graph_insert(x.graph, &early, &result), WH_OK);
            assert_int_equal(result.applied, MOST_ARCS);
        } else {
            assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_OK);
            assert_int_equal(result.applied, refused);
        }
        close_all(&x);
    }
}

static void test_bad_input(void **state) {
    (void)state;
    context x;
    uint32_t from[4] = {0, 9, 1, 2}, to[4] = {1, 1, 10, 3};
    uint8_t done[4];
    wh_graph_batch batch;
    wh_graph_result result;
    wh_graph_options o;
    wh_graph *g = NULL;
    open_all(&x, 1, 8 << 20, 9);
    memset(&batch, 0, sizeof batch);
    batch.from = from;
    batch.to = to;
    batch.n = 4;
    batch.done = done;
    assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_NO_VERTEX);
    assert_int_equal(result.applied, 2);
    assert_int_equal(result.no_vertex, 2);
    assert_int_equal(done[0], WH_GRAPH_APPLIED);
    assert_int_equal(done[1], WH_GRAPH_NO_VERTEX);
    assert_int_equal(done[2], WH_GRAPH_NO_VERTEX);
    assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_NO_VERTEX);
    assert_int_equal(result.applied, 0);
    assert_int_equal(wh_graph_erase(x.graph, &batch, &result), WH_NO_VERTEX);
    assert_int_equal(result.applied, 2);
    batch.from = NULL;
    assert_int_equal(wh_graph_insert(x.graph, &batch, NULL), WH_BAD_ARGUMENT);
    batch.n = 0;
    assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_OK);
    assert_int_equal(wh_graph_insert(NULL, &batch, &result), WH_BAD_ARGUMENT);
    assert_int_equal(wh_graph_insert(x.graph, NULL, &result), WH_BAD_ARGUMENT);
    batch.struct_bytes = 7;
    assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_WRONG_BUILD);
    memset(&o, 0, sizeof o);
    assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
    o.heap = x.heap;
    assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
    o.vertices = 1;
    o.kind = "trellis";
    assert_int_equal(wh_graph_create(&g, &o), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "trellis"));
    assert_null(g);
    o = options_of(1, 9);
    o.heap = x.heap;
    o.worker = 2;
    assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
    o.worker = 32;
    o.arena_bytes = 0;
    if (!is_by_update()) {
        assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
        assert_non_null(strstr(wh_last_error_text(), kind));
    }
    o.worker = 0;
    o.arena_bytes = 4096;
    if (!is_kind("aim")) {
        assert_int_equal(wh_graph_create(&g, &o), WH_BAD_ARGUMENT);
        assert_non_null(strstr(wh_last_error_text(), "arena_bytes"));
    }
    for (uint32_t k = 0; k < 3 && !is_kind("lattice") && !is_kind("ouro"); k++) {
        o = options_of(1, 9);
        o.heap = x.heap;
        o.values = k == 0;
        o.sorted = k == 1;
        o.multi = k == 2;
        assert_int_equal(wh_graph_create(&g, &o), WH_UNSUPPORTED);
        assert_non_null(strstr(wh_last_error_text(), kind));
    }
    assert_null(g);
    close_all(&x);
}

/* Takes all arcs out. */
static void erase_arrays(context *x, const wh_graph_arrays *arrays, uint64_t unique) {
    uint32_t from[4000];
    wh_graph_batch batch;
    wh_graph_result result;
    memset(&batch, 0, sizeof batch);
    for (uint32_t v = 0; v < MOST_VERTICES; v++) {
        for (uint64_t k = arrays->offset[v]; k < arrays->offset[v + 1]; k++) {
            from[k] = v;
        }
    }
    batch.from = from;
    batch.to = arrays->to;
    batch.n = arrays->offset[MOST_VERTICES];
    (void)wh_graph_erase(x->graph, &batch, &result); /* NO_VERTEX of some */
    assert_int_equal(result.applied, unique);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
}

/* Arrays in, with arcs that are there twice and ends that are no vertices, and out again. */
static void test_arrays(void **state) {
    (void)state;
    for (uint64_t seed = first_seed; seed <= last_seed(); seed++) {
        context x;
        uint64_t offset[MOST_VERTICES + 1] = {0};
        uint32_t to[4000];
        uint64_t bad = 0, unique = 0;
        wh_graph_result result;
        open_all(&x, seed, 8 << 20, MOST_VERTICES);
        for (uint32_t v = 0; v < MOST_VERTICES; v++) {
            uint64_t at = offset[v];
            const uint32_t degree = (uint32_t)next_random(&x.random) % (v % 9 == 0 ? 400 : 12);
            for (uint32_t k = 0; k < degree && at < 4000; k++) {
                to[at] = (uint32_t)next_random(&x.random) % (MOST_VERTICES + (seed % 2 == 0));
                bad += to[at] == MOST_VERTICES;
                if (to[at] < MOST_VERTICES) {
                    unique += !x.m.has[v][to[at]];
                    x.m.has[v][to[at]] = 1;
                }
                at++;
            }
            offset[v + 1] = at;
        }
        const wh_graph_arrays arrays = {.offset = offset, .to = to};
        const wh_status s = wh_graph_from_csr(x.graph, &arrays, &result);
        assert_int_equal(s, bad != 0 ? WH_NO_VERTEX : WH_OK);
        assert_int_equal(result.applied, unique);
        assert_int_equal(result.no_vertex, bad);
        assert_int_equal(result.no_change, offset[MOST_VERTICES] - unique - bad);
        compare_all(&x);
        assert_int_equal(wh_graph_from_csr(x.graph, &arrays, NULL),
                         unique != 0 ? WH_BAD_ARGUMENT : WH_OK);
        erase_arrays(&x, &arrays, unique); /* an emptied graph is as good as a new one */
        assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &result), s);
        assert_int_equal(result.applied, unique);
        compare_all(&x);
        close_all(&x);
    }
}

/* The heap moves: the graph is the same, and goes on. */
static void test_grow(void **state) {
    (void)state;
    context x;
    arcs b;
    open_all(&x, first_seed, 4 << 20, 50);
    for (uint32_t step = 0; step < 6; step++) {
        int64_t moved = 0;
        random_arcs(&x, &b, MOST_ARCS, step % 2 == 0 ? 50 : 2);
        send(&x, &b, step == 3);
        assert_int_equal(wh_heap_grow(x.heap, (4 + step) << 20, NULL, &moved), WH_OK);
        assert_int_equal(wh_graph_rebase(x.graph, moved), WH_OK);
        compare_all(&x);
    }
    close_all(&x);
}

/* An adjacency that would be larger than any block of the allocator is refused, and stays as it
 * was; another one goes in. */
static void test_too_large(void **state) {
    (void)state;
    context x;
    wh_graph_options go;
    wh_graph_batch batch;
    wh_graph_result result;
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    open_all(&x, 5, 16 << 20, 2);
    assert_int_equal(wh_heap_get_stats(x.heap, &stats), WH_OK);
    const uint32_t fits = /* entries of the heap's largest page */
        (uint32_t)(stats.classes[stats.n_classes - 1].block_bytes / sizeof(uint32_t));
    uint32_t *from = malloc((fits + 2) * sizeof *from), *to = malloc((fits + 2) * sizeof *to);
    assert_true(from != NULL && to != NULL);
    assert_int_equal(wh_graph_destroy(x.graph), WH_OK);
    memset(&go, 0, sizeof go);
    memset(&batch, 0, sizeof batch);
    go.heap = x.heap;
    go.kind = kind;
    go.vertices = fits + 2;
    assert_int_equal(wh_graph_create(&x.graph, &go), WH_OK);
    for (uint32_t i = 0; i < fits + 2; i++) {
        from[i] = i <= fits ? 3 : 4;
        to[i] = i;
    }
    batch.from = from;
    batch.to = to;
    batch.n = fits; /* the largest page, full */
    assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_OK);
    assert_int_equal(result.applied, fits);
    batch.from = from + fits; /* one arc more, and one elsewhere */
    batch.to = to + fits;
    batch.n = 2;
    assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_OUT_OF_MEMORY);
    assert_non_null(strstr(wh_last_error_text(), allocator));
    assert_int_equal(result.applied, 1);
    assert_int_equal(result.refused, 1);
    assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
    close_all(&x);
    free(from);
    free(to);
}

/* Checked builds have graphs on one allocator of a kind. */
static int has_graphs(void) {
    wh_heap_options ho;
    wh_graph_options go = options_of(1, 4);
    wh_heap *heap = NULL;
    wh_graph *graph = NULL;
    memset(&ho, 0, sizeof ho);
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 1);
    ho.device = d;
    ho.allocator = allocator;
    ho.bytes = 8 << 20;
    wh_status s = wh_heap_create(&heap, &ho);
    go.heap = heap;
    s = s == WH_OK ? wh_graph_create(&graph, &go) : s;
    const int has = s == WH_OK;
    (void)wh_graph_destroy(graph);
    (void)wh_heap_destroy(heap);
    wh_device_close(d);
    return has || n_seeds() >= 10; /* elsewhere the test says what is wrong */
}

/* Allocators that serve the sizes of adjacencies, beside the default one. */
static int test_allocators(void) {
    int failed = 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_batches)};
    const struct CMUnitTest grow[] = {cmocka_unit_test(test_grow)};
    const struct CMUnitTest too_large[] = {cmocka_unit_test(test_too_large)};
    const uint32_t caps = WH_CAP_FREE | WH_CAP_DISJOINT | WH_CAP_SIM;
    const wh_allocator_info *info = NULL;
    for (uint32_t i = 1; (info = wh_allocator_at(i)) != NULL; i++) {
        const int has_chunks = strcmp(info->family, "ouroboros") == 0;
        if ((info->caps & caps) == caps && (has_chunks || (info->caps & WH_CAP_ANY_SIZE) != 0)) {
            allocator = info->name;
            first_seed = i;
            if (!has_graphs()) {
                continue;
            }
            failed += cmocka_run_group_tests_name(allocator, tests, NULL, NULL);
            if (strcmp(info->name, "ouro-s-p") == 0) { /* one that grows, and has a largest size */
                failed += cmocka_run_group_tests_name(allocator, grow, NULL, NULL);
                failed += is_kind("ouro")
                              ? cmocka_run_group_tests_name(allocator, too_large, NULL, NULL)
                              : 0;
            }
        }
    }
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_batches),
                                       cmocka_unit_test(test_hub), cmocka_unit_test(test_heap_full),
                                       cmocka_unit_test(test_bad_input),
                                       cmocka_unit_test(test_arrays)};
    int failed = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        kind = kinds[k];
        failed += OTHER_ALLOCATORS ? test_allocators()
                                   : cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    }
    return failed;
}

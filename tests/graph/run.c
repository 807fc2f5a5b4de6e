/* run.c: the graph case as the benchmark runs it, on the simulated device: every
 * operation gives a row and nothing is bad; what an allocator cannot do is skipped and
 * says so; and faults planted between host and device are found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workload/graph/graph_case.h"

#define MAX_ROWS 16

typedef struct rows {
    uint32_t n;
    wh_graph_case_row row[MAX_ROWS];
} rows;

static void keep_row(void *context, const wh_graph_case_row *row) {
    rows *r = context;
    assert_true(r->n < MAX_ROWS);
    r->row[r->n++] = *row;
}

static const wh_graph_case_row *find_row(const rows *r, const char *op) {
    for (uint32_t i = 0; i < r->n; i++) {
        if (strcmp(r->row[i].op, op) == 0) {
            return &r->row[i];
        }
    }
    return NULL;
}

static uint64_t sum_bad(const rows *r) {
    uint64_t bad = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        bad += r->row[i].bad;
    }
    return bad;
}

/* A small graph with a hub, isolated vertices and times that are not in order. */
static wh_graph_arcs make_graph(uint32_t n_vertices, uint64_t n_arcs) {
    wh_graph_arcs a;
    uint64_t x = 99;
    memset(&a, 0, sizeof a);
    a.format = WH_GRAPH_EDGE_LIST;
    a.n_vertices = n_vertices;
    a.n_entries = a.n_arcs = n_arcs;
    a.from = malloc(n_arcs * sizeof *a.from);
    a.to = malloc(n_arcs * sizeof *a.to);
    a.time = malloc(n_arcs * sizeof *a.time);
    assert_true(a.from != NULL && a.to != NULL && a.time != NULL);
    for (uint64_t i = 0; i < n_arcs; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        a.from[i] = i % 4 == 0 ? 5 : (uint32_t)(x >> 40) % (n_vertices / 2);
        a.to[i] = (uint32_t)(x >> 20) % n_vertices;
        a.time[i] = (int64_t)(x >> 50);
    }
    return a;
}

typedef struct bench_heap {
    wh_device *device;
    wh_heap *heap;
} bench_heap;

static bench_heap open_heap(const char *allocator, uint64_t seed, uint64_t extra) {
    bench_heap b;
    wh_sim_options sim;
    wh_heap_options o;
    memset(&sim, 0, sizeof sim);
    memset(&o, 0, sizeof o);
    sim.seed = seed;
    assert_int_equal(wh_device_open(&b.device, "sim", &sim), WH_OK);
    o.device = b.device;
    o.allocator = allocator;
    assert_int_equal(wh_heap_min_bytes(&o, &o.bytes), WH_OK);
    o.bytes += extra != 0 ? o.bytes + extra : 0;
    assert_int_equal(wh_heap_create(&b.heap, &o), WH_OK);
    return b;
}

static void close_heap(bench_heap *b) {
    wh_heap_destroy(b->heap);
    wh_device_close(b->device);
}

static wh_status run_case(bench_heap *b, const wh_graph_arcs *arcs,
                          const wh_multigraph_kernels *kernels, rows *r) {
    wh_graph_case_options o;
    char error[256] = "none";
    memset(&o, 0, sizeof o);
    memset(r, 0, sizeof *r);
    o.arcs = arcs;
    o.emit = keep_row;
    o.context = r;
    o.batch = 700;
    const wh_status s = wh_graph_case_run(&o, b->heap, kernels, error, sizeof error);
    if (s != WH_OK) {
        print_message("%s\n", error);
        assert_true(error[0] != '\0');
    }
    return s;
}

static int runs(const char *allocator) {
    return wh_multigraph_kernels_find(allocator, WH_TARGET_SIM) != NULL;
}

static void expect_row(const rows *r, const char *op, uint64_t arcs, uint32_t reps) {
    const wh_graph_case_row *row = find_row(r, op);
    if (row == NULL) {
        fail_msg("no row %s", op);
        return;
    }
    assert_null(row->skipped);
    assert_int_equal(row->arcs, arcs);
    assert_int_equal(row->threads, (arcs + 255) / 256 * 256);
    assert_int_equal(row->reps, reps);
    assert_int_equal(row->failed, 0);
    assert_int_equal(row->bad, 0);
    assert_true(row->us_min <= row->us && row->us <= row->us_max);
    assert_true(row->steps_per_arc > 0);
    assert_true(row->atomics_per_arc > 0);
}

static void good(void **state) {
    static const char *const allocators[] = {"bump", "bump-plain", "gallatin"};
    (void)state;
    wh_graph_arcs a = make_graph(500, 3000);
    for (size_t i = 0; i < 3; i++) {
        rows r;
        if (!runs(allocators[i])) {
            print_message("%s is not built in\n", allocators[i]);
            continue;
        }
        bench_heap b = open_heap(allocators[i], 1 + i, 32u << 20);
        const int frees = (wh_allocator_find(allocators[i])->caps & WH_CAP_FREE) != 0;
        assert_int_equal(
            run_case(&b, &a, wh_multigraph_kernels_find(allocators[i], WH_TARGET_SIM), &r), WH_OK);
        expect_row(&r, "init", 3000, 3);
        expect_row(&r, "insert", 700, 3);
        expect_row(&r, "delete", 700, 3);
        expect_row(&r, "focus-insert", 700, 3);
        expect_row(&r, "focus-delete", 700, 3);
        expect_row(&r, "expand", 700, 3);
        expect_row(&r, "stream", 600, 5);
        if (frees) {
            expect_row(&r, "destroy", 500, 5);
        } else {
            assert_non_null(find_row(&r, "destroy"));
            assert_string_equal(find_row(&r, "destroy")->skipped, "needs free");
        }
        assert_int_equal(r.n, 8);
        close_heap(&b);
    }
    wh_graph_arcs_free(&a);
}

/* The same seed gives the same rows, but for times. */
static void reproducible(void **state) {
    (void)state;
    rows r[2];
    wh_graph_arcs a = make_graph(300, 2000);
    for (int i = 0; i < 2; i++) {
        bench_heap b = open_heap("bump", 7, 32u << 20);
        assert_int_equal(run_case(&b, &a, wh_multigraph_kernels_find("bump", WH_TARGET_SIM), &r[i]),
                         WH_OK);
        close_heap(&b);
    }
    assert_int_equal(r[0].n, r[1].n);
    for (uint32_t i = 0; i < r[0].n; i++) {
        assert_true(r[0].row[i].steps_per_arc == r[1].row[i].steps_per_arc);
        assert_true(r[0].row[i].atomics_per_arc == r[1].row[i].atomics_per_arc);
    }
    wh_graph_arcs_free(&a);
}

static void skips_overlapping(void **state) {
    (void)state;
    rows r;
    wh_graph_arcs a = make_graph(50, 100);
    bench_heap b = open_heap("null", 1, 1u << 20);
    assert_int_equal(run_case(&b, &a, wh_multigraph_kernels_find("null", WH_TARGET_SIM), &r),
                     WH_OK);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.row[0].op, "graph");
    assert_string_equal(r.row[0].skipped, "needs disjoint blocks");
    close_heap(&b);
    wh_graph_arcs_free(&a);
}

/* A heap that cannot hold the graph: failures are counted, nothing is bad. */
static void too_small(void **state) {
    (void)state;
    rows r;
    wh_graph_arcs a = make_graph(500, 3000);
    bench_heap b = open_heap("bump", 1, 0);
    assert_int_equal(run_case(&b, &a, wh_multigraph_kernels_find("bump", WH_TARGET_SIM), &r),
                     WH_OK);
    assert_true(find_row(&r, "init")->failed > 0);
    assert_true(find_row(&r, "insert")->failed > 0);
    assert_true(find_row(&r, "expand")->failed > 0);
    assert_true(find_row(&r, "stream")->failed > 0);
    assert_int_equal(sum_bad(&r), 0);
    close_heap(&b);
    wh_graph_arcs_free(&a);
}

static void wrong_kernels(void **state) {
    (void)state;
    rows r;
    wh_graph_arcs a = make_graph(50, 100);
    bench_heap b = open_heap("bump", 1, 1u << 20);
    assert_int_equal(run_case(&b, &a, wh_multigraph_kernels_find("bump-plain", WH_TARGET_SIM), &r),
                     WH_WRONG_ALLOCATOR);
    close_heap(&b);
    wh_graph_arcs_free(&a);
}

/* --- planted faults: each stands between the host and one kernel of `bump` ---------- */

static const wh_multigraph_kernels *bump;

/* Loses the last arc of a batch but says that it went in. */
static wh_status insert_loses_one(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                                  const uint32_t *to, uint64_t n, uint32_t *done) {
    const uint32_t in = WH_MULTIGRAPH_INSERTED;
    const wh_status s = bump->insert(heap, g, from, to, n - 1, done);
    return s == WH_OK ? wh_device_copy_in(wh_heap_device(heap), done + (n - 1), &in, sizeof in) : s;
}

/* Inserts the first arc twice. */
static wh_status insert_doubles(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                                const uint32_t *to, uint64_t n, uint32_t *done) {
    const wh_status s = bump->insert(heap, g, from, to, 1, done);
    return s == WH_OK ? bump->insert(heap, g, from, to, n, done) : s;
}

static wh_status remove_nothing(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                                const uint32_t *to, uint64_t n, uint32_t *done) {
    return bump->remove(heap, g, from, to, 0 * n, done);
}

static wh_status remove_twice(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                              const uint32_t *to, uint64_t n, uint32_t *done) {
    const uint32_t in = WH_MULTIGRAPH_INSERTED;
    wh_status s = bump->remove(heap, g, from, to, n, done);
    if (s == WH_OK) {
        s = wh_device_copy_in(wh_heap_device(heap), done, &in, sizeof in);
    }
    return s == WH_OK ? bump->remove(heap, g, from, to, 1, done) : s;
}

/* An array that somebody wrote over after init. */
static wh_status init_overwritten(wh_heap *heap, const wh_multigraph_view *g,
                                  const uint64_t *offset, const uint32_t *to) {
    wh_multigraph_vertex v;
    const uint32_t junk = 0xdeadbeef;
    wh_device *d = wh_heap_device(heap);
    wh_status s = bump->init(heap, g, offset, to);
    if (s == WH_OK) {
        s = wh_device_copy_out(d, &v, &g->vertices[5], sizeof v);
    }
    return s == WH_OK ? wh_device_copy_in(d, v.neighbours, &junk, sizeof junk) : s;
}

/* A vertex whose fields are broken: more arcs than its array holds. */
static wh_status init_broken(wh_heap *heap, const wh_multigraph_view *g, const uint64_t *offset,
                             const uint32_t *to) {
    wh_multigraph_vertex v;
    wh_device *d = wh_heap_device(heap);
    wh_status s = bump->init(heap, g, offset, to);
    if (s == WH_OK) {
        s = wh_device_copy_out(d, &v, &g->vertices[5], sizeof v);
    }
    v.degree = v.capacity + 1;
    return s == WH_OK ? wh_device_copy_in(d, &g->vertices[5], &v, sizeof v) : s;
}

/* A vertex left empty without a word. */
static wh_status init_forgets(wh_heap *heap, const wh_multigraph_view *g, const uint64_t *offset,
                              const uint32_t *to) {
    wh_multigraph_vertex v;
    memset(&v, 0, sizeof v);
    const wh_status s = bump->init(heap, g, offset, to);
    return s == WH_OK ? wh_device_copy_in(wh_heap_device(heap), &g->vertices[5], &v, sizeof v) : s;
}

static void expect_bad(const wh_multigraph_kernels *faulty, const char *op, wh_status status) {
    rows r;
    wh_graph_arcs a = make_graph(500, 3000);
    bench_heap b = open_heap("bump", 1, 32u << 20);
    assert_int_equal(run_case(&b, &a, faulty, &r), status);
    assert_non_null(find_row(&r, op));
    assert_true(find_row(&r, op)->bad > 0);
    close_heap(&b);
    wh_graph_arcs_free(&a);
}

static void planted(void **state) {
    (void)state;
    bump = wh_multigraph_kernels_find("bump", WH_TARGET_SIM);
    assert_non_null(bump);
    wh_multigraph_kernels faulty = *bump;
    faulty.insert = insert_loses_one;
    expect_bad(&faulty, "insert", WH_OK);
    expect_bad(&faulty, "delete", WH_OK);
    expect_bad(&faulty, "focus-insert", WH_OK);
    expect_bad(&faulty, "expand", WH_OK);
    expect_bad(&faulty, "stream", WH_OK);
    faulty.insert = insert_doubles;
    expect_bad(&faulty, "insert", WH_OK);
    expect_bad(&faulty, "delete", WH_OK);
    faulty = *bump;
    faulty.remove = remove_nothing;
    expect_bad(&faulty, "delete", WH_OK);
    expect_bad(&faulty, "focus-delete", WH_OK);
    faulty.remove = remove_twice;
    expect_bad(&faulty, "focus-delete", WH_OK);
    faulty = *bump;
    faulty.init = init_overwritten;
    expect_bad(&faulty, "init", WH_OK);
    faulty.init = init_forgets;
    expect_bad(&faulty, "init", WH_OK);
    faulty.init = init_broken;
    expect_bad(&faulty, "init", WH_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),
        cmocka_unit_test(reproducible),
        cmocka_unit_test(skips_overlapping),
        cmocka_unit_test(too_small),
        cmocka_unit_test(wrong_kernels),
        cmocka_unit_test(planted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* real.c: real graphs, and one by R-MAT, on several ranks against one device: arcs that come in
 * batches on all ranks, their arrays, PageRank and triangles; again after ranks have been made
 * alike, and after every third arc has gone. Real graphs are in a data folder (environment variable
 * WH_TEST_DATA, else ../shared/data beside the source) or are left out. */
#include "ranks_test.h"

#include <math.h>
#include <unistd.h>

#include "workload/graph/graph_file.h"
#include "workload/ranks/shard.h"

#define BATCH 20000u

typedef struct context {
    wh_comm *comm;
    wh_device *device;
    wh_heap *heap, *single_heap;
    wh_shard *shard;
    wh_graph *single; /* on rank 0 */
    int rank, size, undirected;
    uint32_t n;
} context;

static wh_heap *make_heap(context *x) {
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    o.device = x->device;
    o.bytes = 64 << 20;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static void open_all(context *x, uint32_t n, int undirected, wh_shard_split split) {
    wh_shard_options o;
    wh_graph_options g;
    memset(x, 0, sizeof *x);
    memset(&o, 0, sizeof o);
    memset(&g, 0, sizeof g);
    x->comm = open_comm(0);
    x->rank = wh_comm_rank(x->comm);
    x->size = wh_comm_size(x->comm);
    x->n = n;
    x->undirected = undirected;
    x->device = open_device(NULL);
    o.comm = x->comm;
    o.heap = x->heap = make_heap(x);
    o.vertices = g.vertices = n;
    o.undirected = g.undirected = undirected;
    o.split = split;
    o.piece = 10000;
    expect_ok(x->comm, wh_shard_open(&x->shard, &o));
    if (x->rank == 0) {
        g.heap = x->single_heap = make_heap(x);
        assert_int_equal(wh_graph_create(&x->single, &g), WH_OK);
    }
}

static void close_all(context *x) {
    assert_int_equal(wh_shard_close(x->shard), WH_OK);
    assert_int_equal(wh_graph_destroy(x->single), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    assert_int_equal(wh_heap_destroy(x->single_heap), WH_OK);
    wh_device_close(x->device);
    expect_ok(x->comm, wh_comm_close(x->comm));
}

static void apply(context *x, const wh_graph_arcs *a, uint64_t step, int erases) {
    uint32_t *from = malloc(BATCH * sizeof *from), *to = malloc(BATCH * sizeof *to);
    uint64_t i = 0, applied = 0, single_applied = 0, at = (uint64_t)x->rank * step;
    wh_graph_result result;
    assert_true(from != NULL && to != NULL);
    for (i = 0; i * BATCH * (uint64_t)x->size * step < a->n_arcs; i++) {
        wh_graph_batch batch;
        memset(&batch, 0, sizeof batch);
        for (; at < a->n_arcs && batch.n < BATCH; at += (uint64_t)x->size * step, batch.n++) {
            from[batch.n] = a->from[at];
            to[batch.n] = a->to[at];
        }
        batch.from = from;
        batch.to = to;
        expect_ok(x->comm, erases ? wh_shard_erase(x->shard, &batch, &result)
                                  : wh_shard_insert(x->shard, &batch, &result));
        applied += result.applied;
    }
    for (at = 0; x->rank == 0 && at < a->n_arcs;) {
        wh_graph_batch batch;
        memset(&batch, 0, sizeof batch);
        for (; at < a->n_arcs && batch.n < BATCH; at += step, batch.n++) {
            from[batch.n] = a->from[at];
            to[batch.n] = a->to[at];
        }
        batch.from = from;
        batch.to = to;
        assert_int_equal(erases ? wh_graph_erase(x->single, &batch, &result)
                                : wh_graph_insert(x->single, &batch, &result),
                         WH_OK);
        single_applied += result.applied;
    }
    assert_true(x->rank != 0 || applied == single_applied);
    free(from);
    free(to);
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_rows(wh_graph_arrays *a, uint32_t n) {
    for (uint32_t v = 0; v < n; v++) {
        qsort(a->to + a->offset[v], a->offset[v + 1] - a->offset[v], sizeof *a->to, compare_u32);
    }
}

static void take_arrays(wh_graph_arrays *a, uint64_t n, uint64_t room) {
    memset(a, 0, sizeof *a);
    a->offset = calloc(n + 1, sizeof *a->offset);
    a->to = calloc(room + 1, sizeof *a->to);
    a->room = room;
    assert_true(a->offset != NULL && a->to != NULL);
}

static void compare_arrays(context *x) {
    wh_graph_arrays a, single;
    uint64_t n = 0, single_n = 0;
    if (x->rank == 0) {
        assert_int_equal(wh_graph_to_csr(x->single, NULL, &single_n), WH_OK);
        take_arrays(&a, x->n, single_n);
        take_arrays(&single, x->n, single_n);
        assert_int_equal(wh_graph_to_csr(x->single, &single, &single_n), WH_OK);
    }
    expect_ok(x->comm, wh_shard_to_csr(x->shard, 0, x->rank == 0 ? &a : NULL, &n));
    assert_int_equal(wh_graph_check(wh_shard_local(x->shard), NULL), WH_OK);
    if (x->rank == 0) {
        assert_int_equal(n, single_n);
        sort_rows(&a, x->n);
        sort_rows(&single, x->n);
        assert_memory_equal(a.offset, single.offset, (x->n + 1) * sizeof *a.offset);
        assert_memory_equal(a.to, single.to, n * sizeof *a.to);
        free(a.offset);
        free(a.to);
        free(single.offset);
        free(single.to);
    }
}

static void compare_algorithms(context *x) {
    float *rank = malloc(x->n * sizeof *rank), *single_rank = malloc(x->n * sizeof *rank);
    wh_graph_pagerank_result result, single_result;
    wh_graph_pagerank_options o;
    uint64_t total = 0, single_total = 0;
    assert_true(rank != NULL && single_rank != NULL);
    memset(&o, 0, sizeof o);
    o.most_iterations = 20;
    expect_ok(x->comm, wh_shard_pagerank(x->shard, &o, rank, &result));
    if (x->undirected) {
        expect_ok(x->comm, wh_shard_triangles(x->shard, &total));
    }
    if (x->rank == 0) {
        assert_int_equal(wh_graph_pagerank(x->single, &o, single_rank, &single_result), WH_OK);
        assert_int_equal(result.iterations, single_result.iterations);
        for (uint32_t v = 0; v < x->n; v++) {
            assert_true(fabs((double)rank[v] - (double)single_rank[v]) <= 1e-6);
            assert_true(rank[v] == single_rank[v]); /* as shard.h says */
        }
        if (x->undirected) {
            assert_int_equal(wh_graph_triangles(x->single, NULL, &single_total, NULL), WH_OK);
            assert_int_equal(total, single_total);
        }
    }
    free(rank);
    free(single_rank);
}

/* No rank has much more than the mean, but for what one vertex has. */
static void balance(context *x) {
    uint64_t moved = 0, load[2] = {0}, largest = 0;
    uint32_t *degree = malloc(x->n * sizeof *degree);
    assert_non_null(degree);
    expect_ok(x->comm, wh_shard_degrees(x->shard, degree));
    for (uint32_t v = 0; v < x->n; v++) {
        largest = degree[v] > largest ? degree[v] : largest;
    }
    free(degree);
    expect_ok(x->comm, wh_shard_rebalance(x->shard, 1.05, &moved));
    assert_int_equal(wh_graph_to_csr(wh_shard_local(x->shard), NULL, &load[0]), WH_OK);
    load[1] = load[0];
    expect_ok(x->comm, wh_comm_all_reduce(x->comm, &load[0], 1, WH_COMM_U64, WH_COMM_MAX));
    expect_ok(x->comm, wh_comm_all_reduce(x->comm, &load[1], 1, WH_COMM_U64, WH_COMM_SUM));
    assert_true((double)load[0] <= 1.05 * (double)load[1] / x->size + (double)largest);
}

static void check_graph(const wh_graph_arcs *a, int undirected) {
    context x;
    open_all(&x, a->n_vertices, undirected, undirected ? WH_SHARD_RANGE : WH_SHARD_HASH);
    apply(&x, a, 1, 0);
    compare_arrays(&x);
    compare_algorithms(&x);
    balance(&x);
    apply(&x, a, 3, 1);
    compare_arrays(&x);
    close_all(&x);
}

/* 2^10 vertices; a quarter of a graph has more than half of its arcs, and so on. */
static void by_rmat(void **state) {
    enum { VERTICES = 1 << 10, ARCS = 8000 };
    static uint32_t from[ARCS], to[ARCS];
    wh_graph_arcs a;
    uint64_t random = 7;
    (void)state;
    memset(&a, 0, sizeof a);
    for (uint32_t i = 0; i < ARCS; i++) {
        from[i] = to[i] = 0;
        for (uint32_t bit = 1; bit < VERTICES; bit *= 2) {
            const uint32_t part = below(&random, 100);
            from[i] |= part >= 76 ? bit : 0;
            to[i] |= (part >= 57 && part < 76) || part >= 95 ? bit : 0;
        }
    }
    a.n_vertices = VERTICES;
    a.n_arcs = ARCS;
    a.from = from;
    a.to = to;
    check_graph(&a, 0);
    check_graph(&a, 1);
}

static void real_files(void **state) {
    static const struct {
        const char *name;
        int undirected;
        int is_large; /* takes a while: where WH_TEST_SEEDS asks for more than usual */
    } files[] = {{"chesapeake.mtx", 1, 0},           {"email.mtx", 1, 0},
                 {"bips98_606.mtx", 0, 0},           {"4elt.graph", 1, 1},
                 {"facebook_combined.txt.gz", 1, 1}, {"wiki-Vote.txt.gz", 0, 1}};
    const char *given = getenv("WH_TEST_DATA");
    char path[4096];
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        wh_graph_arcs a;
        wh_graph_file_error error;
        if (files[i].is_large && n_seeds() <= 10) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s%s/graphs/%s",
                       given != NULL ? given : WH_TEST_SOURCE_DIR "/../shared",
                       given != NULL ? "" : "/data", files[i].name);
        if (access(path, R_OK) != 0) {
            print_message("left out: there is no %s\n", files[i].name);
            continue;
        }
        assert_int_equal(wh_graph_file_read(path, NULL, &a, &error), WH_OK);
        check_graph(&a, files[i].undirected);
        wh_graph_arcs_free(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_rmat),
        cmocka_unit_test(real_files),
    };
    return run_ranks(tests, sizeof tests / sizeof *tests);
}

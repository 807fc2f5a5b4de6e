/* fill.c: graphs of every class from arrays: rows that are sets, in order or not, and rows that are
 * none, of lengths about those at which another worker takes them; ends and ids that are no
 * vertices; and heaps that run full meanwhile. */
#include "model.h"

enum { IDS = 2600, LIVE = IDS - 40, ROWS = 90, ARCS = 300000 };

static const char *const kinds[] = {"lattice", "faim", "faim-update", "ouro", "aim"};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* Rows, and the sets that are to come of them, in order; the arrays begin behind a few entries that
 * are nobody's. */
typedef struct rows {
    uint64_t offset[IDS + 1], set_offset[IDS + 1];
    uint32_t to[ARCS], set[ARCS];
    wh_graph_result expected;
} rows;

static rows all;

static int compare_ends(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

enum { ASCENDS, DESCENDS, SHUFFLED, REPEATS, HAS_BAD, SAME, N_ORDERS };

/* A row of r ends (REPEATS, HAS_BAD: with about as many others). */
static void draw_row(context *x, uint32_t *to, uint32_t r, uint32_t order) {
    const uint32_t step = LIVE / r, first = draw(x, step);
    for (uint32_t i = 0; i < r; i++) {
        to[i] = first + step * (order == DESCENDS ? r - 1 - i : i);
    }
    for (uint32_t i = r; (order == SHUFFLED || order == REPEATS) && i > 1; i--) {
        const uint32_t k = draw(x, i), end = to[k];
        to[k] = to[i - 1];
        to[i - 1] = end;
    }
    for (uint32_t i = 0; i < r; i++) {
        if (order == SAME || (order == REPEATS && i != 0 && draw(x, 4) == 0)) {
            to[i] = to[order == SAME ? 0 : draw(x, i)];
        }
        if (order == HAS_BAD && draw(x, 4) == 0) {
            to[i] = draw(x, 2) ? LIVE + draw(x, IDS - LIVE) : IDS + draw(x, 9);
        }
    }
}

/* What is to come of the row of v. */
static void expect_row(uint32_t v) {
    uint32_t *set = all.set + all.set_offset[v];
    uint64_t n = 0, unique = 0;
    for (uint64_t i = all.offset[v]; i < all.offset[v + 1]; i++) {
        if (v < LIVE && all.to[i] < LIVE) {
            set[n++] = all.to[i];
        }
    }
    qsort(set, n, sizeof *set, compare_ends);
    for (uint64_t i = 0; i < n; i++) {
        if (i == 0 || set[i] != set[i - 1]) {
            set[unique++] = set[i];
        }
    }
    all.set_offset[v + 1] = all.set_offset[v] + unique;
    all.expected.applied += unique;
    all.expected.no_change += n - unique;
    all.expected.no_vertex += all.offset[v + 1] - all.offset[v] - n;
}

/* Rows of v for v < n, and some of ids that are no vertices. */
static void draw_rows(context *x, const uint32_t *lengths, uint32_t n_lengths, uint32_t n) {
    enum { BEFORE = 7 };
    memset(&all, 0, sizeof all);
    all.offset[0] = BEFORE;
    for (uint32_t v = 0; v < IDS; v++) {
        const uint32_t r = v < n || v % 13 == 0 ? lengths[draw(x, n_lengths)] : 0;
        const uint32_t takes = v < n ? r : r % 10;
        assert_true(all.offset[v] + takes <= ARCS);
        if (takes != 0) {
            draw_row(x, all.to + all.offset[v], takes, draw(x, N_ORDERS));
        }
        all.offset[v + 1] = all.offset[v] + takes;
        expect_row(v);
    }
}

static void open_kind(context *x, uint64_t seed, const char *kind, uint64_t heap_bytes) {
    wh_graph_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.vertices = LIVE;
    o.most_vertices = IDS;
    o.arena_bytes = strcmp(kind, "aim") == 0 ? (uint64_t)1000 << seed % 4 : 0;
    open_graph(x, seed, heap_bytes, &o);
}

/* The graph has of each row the set or, with `some`, none of it, or (parts) a part of it. Returns
 * how many arcs there are. */
static uint64_t compare_rows(context *x, int some, int parts) {
    static uint64_t offset[IDS + 1];
    static uint32_t to[ARCS];
    uint64_t n = 0;
    const wh_graph_arrays arrays = {.offset = offset, .to = to, .room = ARCS};
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
    assert_int_equal(wh_graph_to_csr(x->graph, &arrays, &n), WH_OK);
    for (uint32_t v = 0; v < IDS; v++) {
        const uint64_t degree = offset[v + 1] - offset[v];
        const uint64_t wanted = all.set_offset[v + 1] - all.set_offset[v];
        const uint32_t *set = all.set + all.set_offset[v];
        qsort(to + offset[v], degree, sizeof *to, compare_ends);
        assert_true(degree == wanted || (some && degree == 0) || (parts && degree < wanted));
        for (uint64_t i = 0, k = 0; i < degree; i++, k++) {
            while (k < wanted && set[k] != to[offset[v] + i]) {
                k++;
            }
            assert_true(k < wanted && (k == i || degree != wanted));
        }
    }
    return n;
}

static wh_graph_arrays arrays_of(void) {
    const wh_graph_arrays arrays = {.offset = all.offset, .to = all.to};
    return arrays;
}

static const uint32_t lengths[] = {0,  1,  2,  4,  5,  6,  13, 14, 15,  16,  23,  24,   25,
                                   28, 29, 30, 31, 39, 40, 41, 45, 100, 420, 897, 1793, 2500};
#define N_LENGTHS (sizeof lengths / sizeof *lengths)

static void test_rows(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (n_seeds() + 4) / 5; seed++) {
        for (size_t k = 0; k < N_KINDS; k++) {
            context x;
            wh_graph_result result;
            const wh_graph_arrays arrays = arrays_of();
            open_kind(&x, seed + k, kinds[k], 8 << 20);
            draw_rows(&x, lengths, N_LENGTHS, ROWS);
            const wh_status s = all.expected.no_vertex != 0 ? WH_NO_VERTEX : WH_OK;
            assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &result), s);
            assert_memory_equal(&result, &all.expected, sizeof result);
            assert_int_equal(compare_rows(&x, 0, 0), all.expected.applied);
            close_all(&x);
        }
    }
}

/* An arc leaves each row that is there, and comes back: what was filled in works on. */
static void test_then_batches(void **state) {
    (void)state;
    for (size_t k = 0; k < N_KINDS; k++) {
        context x;
        uint32_t from[ROWS], to[ROWS];
        wh_graph_batch batch = {.from = from, .to = to};
        wh_graph_result result;
        const wh_graph_arrays arrays = arrays_of();
        open_kind(&x, 3 + k, kinds[k], 8 << 20);
        draw_rows(&x, lengths, N_LENGTHS, ROWS);
        (void)wh_graph_from_csr(x.graph, &arrays, NULL); /* NO_VERTEX of some */
        for (uint32_t v = 0; v < ROWS; v++) {
            const uint64_t degree = all.set_offset[v + 1] - all.set_offset[v];
            if (degree != 0) {
                from[batch.n] = v;
                to[batch.n++] = all.set[all.set_offset[v] + draw(&x, (uint32_t)degree)];
            }
        }
        assert_int_equal(wh_graph_erase(x.graph, &batch, &result), WH_OK);
        assert_int_equal(result.applied, batch.n);
        assert_int_equal(wh_graph_check(x.graph, NULL), WH_OK);
        assert_int_equal(wh_graph_insert(x.graph, &batch, &result), WH_OK);
        assert_int_equal(result.applied, batch.n);
        assert_int_equal(compare_rows(&x, 0, 0), all.expected.applied);
        close_all(&x);
    }
}

/* A graph on the smallest heap that there is. */
static void open_small(context *x, uint64_t seed, const char *kind) {
    wh_heap_options ho;
    open_kind(x, seed, kind, 8 << 20);
    assert_int_equal(wh_graph_destroy(x->graph), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    memset(&ho, 0, sizeof ho);
    ho.device = x->device;
    assert_int_equal(wh_heap_min_bytes(&ho, &ho.bytes), WH_OK);
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->options.heap = x->heap;
    assert_int_equal(wh_graph_create(&x->graph, &x->options), WH_OK);
}

/* All arcs that the rows have, of which n are there, go. */
static void erase_rows(context *x, uint64_t n) {
    static uint32_t from[ARCS];
    wh_graph_batch batch = {.from = from, .to = all.set, .n = all.expected.applied};
    wh_graph_result result;
    for (uint32_t v = 0; v < IDS; v++) {
        for (uint64_t i = all.set_offset[v]; i < all.set_offset[v + 1]; i++) {
            from[i] = v;
        }
    }
    assert_int_equal(wh_graph_erase(x->graph, &batch, &result), WH_OK);
    assert_int_equal(result.applied, n);
    assert_int_equal(wh_graph_check(x->graph, NULL), WH_OK);
}

/* The heap runs full: of a row all is there or nothing, but in aim; what is there is sound, and
 * when it has gone, the same rows come again. */
static void test_full(void **state) {
    (void)state;
    static const uint32_t long_rows[] = {5, 24, 40, 41, 300, 2000};
    for (size_t i = 0; i < 2 * N_KINDS; i++) {
        const size_t k = i % N_KINDS;
        context x;
        wh_graph_result result;
        const int is_aim = strcmp(kinds[k], "aim") == 0;
        const wh_graph_arrays arrays = arrays_of();
        open_small(&x, 1 + i, kinds[k]);
        draw_rows(&x, long_rows, 6, ROWS);
        for (uint32_t round = 0; round < 2; round++) {
            assert_int_equal(wh_graph_from_csr(x.graph, &arrays, &result), WH_OUT_OF_MEMORY);
            assert_true(result.applied != 0);
            assert_int_equal(result.applied + result.refused, all.expected.applied);
            assert_int_equal(result.no_change, all.expected.no_change);
            assert_int_equal(result.no_vertex, all.expected.no_vertex);
            assert_int_equal(compare_rows(&x, 1, is_aim), result.applied);
            assert_int_equal(wh_graph_from_csr(x.graph, &arrays, NULL), WH_BAD_ARGUMENT);
            erase_rows(&x, result.applied);
            assert_true(live_blocks(&x) == 0 || is_aim);
        }
        close_all(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_then_batches),
                                       cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

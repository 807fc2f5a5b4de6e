/* real_files.c: the readers on real graph files: vertices, entries, self-loops, simple
 * edges and the largest degree must be what independent counts say. Needs the data
 * folder (environment variable WH_TEST_DATA, else ../shared/data beside the source);
 * skipped where it is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "workload/graph/graph_file.h"

static const struct expected {
    const char *name;
    wh_graph_format format;
    int timed;
    uint32_t n_vertices; /* as the reader counts: numbers that could occur */
    uint32_t n_used;     /* that do occur; 0: not checked */
    uint64_t n_entries;
    uint64_t n_self_loops;
    uint64_t n_arcs;
    uint64_t n_simple;   /* distinct unordered pairs without self-loops */
    uint64_t max_degree; /* of the simple graph */
} expected[] = {
#define MM WH_GRAPH_MATRIX_MARKET
#define ME WH_GRAPH_METIS
#define EL WH_GRAPH_EDGE_LIST
    {"email.mtx", MM, 0, 1133, 1133, 5451, 0, 10902, 5451, 71},
    {"1138_bus.mtx", MM, 0, 1138, 1138, 2596, 1138, 4054, 1458, 17},
    {"bips98_606.mtx", MM, 0, 7135, 7135, 34738, 6900, 34738, 15190, 111},
    {"chesapeake.mtx", MM, 0, 39, 39, 170, 0, 340, 170, 33},
    {"rgg_n_2_15_s0.graph.gz", ME, 0, 32768, 0, 320480, 0, 320480, 160240, 24},
    {"4elt.graph", ME, 0, 15606, 15606, 91756, 0, 91756, 45878, 10},
    {"as-22july06.graph", ME, 0, 22963, 22963, 96872, 0, 96872, 48436, 2390},
    {"luxembourg_osm.edges.txt.gz", EL, 0, 114600, 114599, 119666, 0, 119666, 119666, 6},
    {"web-NotreDame.txt.gz", EL, 0, 325729, 325729, 1497134, 27455, 1497134, 1090108, 10721},
    {"facebook_combined.txt.gz", EL, 0, 4039, 4039, 88234, 0, 88234, 88234, 1045},
    {"wiki-Vote.txt.gz", EL, 0, 8298, 7115, 103689, 0, 103689, 100762, 1065},
    {"sx-mathoverflow.txt.gz", EL, 1, 88581, 24818, 506550, 116109, 506550, 187986, 2172},
    {"CollegeMsg.txt.gz", EL, 1, 1900, 1899, 59835, 0, 59835, 13838, 255},
};

static char folder[4096];

static int find_folder(void) {
    const char *given = getenv("WH_TEST_DATA");
    if (given != NULL) {
        (void)snprintf(folder, sizeof folder, "%s/graphs", given);
    } else {
        (void)snprintf(folder, sizeof folder, "%s/../shared/data/graphs", WH_TEST_SOURCE_DIR);
    }
    return access(folder, R_OK) == 0;
}

/* Both directions of every arc that is no self-loop, as sorted lists. */
static wh_graph_csr both_directions(const wh_graph_arcs *a) {
    uint32_t *from = malloc(2 * (size_t)a->n_arcs * sizeof *from);
    uint32_t *to = malloc(2 * (size_t)a->n_arcs * sizeof *to);
    uint32_t *keep = malloc(2 * (size_t)a->n_arcs * sizeof *keep);
    wh_graph_csr c;
    assert_true(from != NULL && to != NULL && keep != NULL);
    for (uint64_t i = 0; i < a->n_arcs; i++) {
        from[2 * i] = to[2 * i + 1] = a->from[i];
        to[2 * i] = from[2 * i + 1] = a->to[i];
        keep[2 * i] = keep[2 * i + 1] = a->from[i] != a->to[i];
    }
    assert_int_equal(wh_graph_csr_build(&c, a->n_vertices, from, to, 2 * a->n_arcs, keep), WH_OK);
    free(from);
    free(to);
    free(keep);
    return c;
}

static void check_simple(const wh_graph_arcs *a, const struct expected *e) {
    wh_graph_csr c = both_directions(a);
    uint64_t simple = 0, max_degree = 0;
    for (uint32_t v = 0; v < c.n_vertices; v++) {
        uint64_t degree = 0;
        for (uint64_t i = c.offset[v]; i < c.offset[v + 1]; i++) {
            assert_true(i == c.offset[v] || c.to[i - 1] <= c.to[i]);
            degree += i == c.offset[v] || c.to[i - 1] != c.to[i];
        }
        simple += degree;
        max_degree = degree > max_degree ? degree : max_degree;
    }
    wh_graph_csr_free(&c);
    assert_int_equal(simple, 2 * e->n_simple);
    assert_int_equal(max_degree, e->max_degree);
}

static uint32_t count_used(const wh_graph_arcs *a) {
    unsigned char *used = calloc(a->n_vertices, 1);
    uint32_t n = 0;
    assert_non_null(used);
    for (uint64_t i = 0; i < a->n_arcs; i++) {
        used[a->from[i]] = used[a->to[i]] = 1;
    }
    for (uint32_t v = 0; v < a->n_vertices; v++) {
        n += used[v];
    }
    free(used);
    return n;
}

static void check_file(const struct expected *e) {
    char path[5000], text[600];
    wh_graph_arcs a;
    wh_graph_file_error error;
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->name);
    if (wh_graph_file_read(path, NULL, &a, &error) != WH_OK) {
        wh_graph_file_error_format(&error, text, sizeof text);
        fail_msg("%s", text);
    }
    print_message("%s\n", e->name);
    assert_int_equal(a.format, e->format);
    assert_int_equal(a.time != NULL, e->timed);
    assert_int_equal(a.n_vertices, e->n_vertices);
    assert_int_equal(a.n_entries, e->n_entries);
    assert_int_equal(a.n_self_loops, e->n_self_loops);
    assert_int_equal(a.n_arcs, e->n_arcs);
    if (e->n_used != 0) {
        assert_int_equal(count_used(&a), e->n_used);
    }
    check_simple(&a, e);
    wh_graph_arcs_free(&a);
}

static void counts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        check_file(&expected[i]);
    }
}

/* Mesh files are no graphs: refused, not misread. */
static void meshes(void **state) {
    static const char *const names[] = {"stanford-bunny.obj.gz", "turbineblade.ply"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[5000];
        wh_graph_arcs a;
        wh_graph_file_error error;
        (void)snprintf(path, sizeof path, "%s/../meshes/%s", folder, names[i]);
        assert_int_equal(wh_graph_file_read(path, NULL, &a, &error), WH_BAD_FORMAT);
        assert_true(error.line >= 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(meshes)};
    if (!find_folder()) {
        print_message("no data at %s: skipped\n", folder);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

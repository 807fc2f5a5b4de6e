/* files.c: the graph readers on small files written here, good and malformed, plain
 * and gzip. Every malformed one must be refused with the right status and line and a
 * text that names the fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "workload/graph/graph_file.h"

static char folder[] = "/tmp/warpheap-files-XXXXXX";
static char path[512];

static void name_file(const char *name) {
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
}

static void write_bytes(const char *name, const void *bytes, size_t n) {
    name_file(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *name, const char *text) {
    write_bytes(name, text, strlen(text));
}

static void write_gzip(const char *name, const char *text) {
    name_file(name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(f), Z_OK);
}

/* Cuts the file of the last write_* to a part of its length. */
static void cut_file(long numerator, long denominator) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const long n = ftell(f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(path, n * numerator / denominator), 0);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    char command[600];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* Reads the file of the last write_*; it must be good. */
static wh_graph_arcs read_good(const wh_graph_file_options *options) {
    wh_graph_arcs a;
    wh_graph_file_error e;
    char text[600];
    const wh_status s = wh_graph_file_read(path, options, &a, &e);
    wh_graph_file_error_format(&e, text, sizeof text);
    if (s != WH_OK) {
        fail_msg("%s", text);
    }
    assert_int_equal(e.status, WH_OK);
    return a;
}

/* pairs: n arcs u, v. Frees a. */
static void expect_arcs(wh_graph_arcs *a, uint32_t n_vertices, const uint32_t *pairs, uint64_t n) {
    assert_int_equal(a->n_vertices, n_vertices);
    assert_int_equal(a->n_arcs, n);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(a->from[i], pairs[2 * i]);
        assert_int_equal(a->to[i], pairs[2 * i + 1]);
    }
    wh_graph_arcs_free(a);
    assert_null(a->from);
}

#define PAIRS(...) ((const uint32_t[]){__VA_ARGS__})
#define N_PAIRS(...) (sizeof(PAIRS(__VA_ARGS__)) / (2 * sizeof(uint32_t)))
#define EXPECT_ARCS(a, n_vertices, ...) \
    expect_arcs((a), (n_vertices), PAIRS(__VA_ARGS__), N_PAIRS(__VA_ARGS__))

/* Reads the file of the last write_*; it must be refused at that line (0: no line) with
 * a text that contains `part`. */
static void expect_refused_with(const wh_graph_file_options *options, wh_status status,
                                uint64_t line, const char *part) {
    wh_graph_arcs a;
    wh_graph_file_error e;
    char text[600], where[600];
    const wh_status s = wh_graph_file_read(path, options, &a, &e);
    wh_graph_file_error_format(&e, text, sizeof text);
    if (line != 0) {
        (void)snprintf(where, sizeof where, "%s:%llu: ", path, (unsigned long long)line);
    } else {
        (void)snprintf(where, sizeof where, "%s: ", path);
    }
    if (s != status || e.status != status || e.line != line || strstr(text, part) == NULL ||
        strncmp(text, where, strlen(where)) != 0 || strchr(text, '\n') != NULL) {
        fail_msg("status %s, expected %s; '%s', expected '%s...%s'", wh_status_name(s),
                 wh_status_name(status), text, where, part);
    }
    assert_null(a.from);
    assert_null(a.to);
    assert_null(a.time);
    assert_int_equal(a.n_arcs, 0);
}

static void expect_refused(wh_status status, uint64_t line, const char *part) {
    expect_refused_with(NULL, status, line, part);
}

/* --- Matrix Market ------------------------------------------------------------ */

static void market_general(void **state) {
    (void)state;
    write_text("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n"
                        "% a comment\n"
                        "\n"
                        "3 3 4\n"
                        "1 2\n"
                        "3 1\n"
                        "2 2\n"
                        "1 2\n");
    wh_graph_arcs a = read_good(NULL);
    assert_int_equal(a.format, WH_GRAPH_MATRIX_MARKET);
    assert_int_equal(a.n_entries, 4);
    assert_int_equal(a.n_self_loops, 1);
    assert_null(a.time);
    EXPECT_ARCS(&a, 3, 0, 1, 2, 0, 1, 1, 0, 1);
}

static void market_symmetric(void **state) {
    (void)state;
    write_text("a.mtx", "%%MatrixMarket MATRIX Coordinate Real Symmetric\r\n"
                        "3 3 3\r\n"
                        "2 1 -1.5e-3\r\n"
                        "2 2 +4\r\n"
                        "3\t2   .5\r\n");
    wh_graph_arcs a = read_good(NULL);
    assert_int_equal(a.n_entries, 3);
    EXPECT_ARCS(&a, 3, 1, 0, 0, 1, 1, 1, 2, 1, 1, 2);

    write_text("a.mtx", "%%MatrixMarket matrix coordinate integer skew-symmetric\n"
                        "2 2 1\n"
                        "2 1 -7"); /* no newline at the end */
    a = read_good(NULL);
    EXPECT_ARCS(&a, 2, 1, 0, 0, 1);
}

/* Told by content, whatever the name. */
static void market_by_content(void **state) {
    (void)state;
    write_text("a.txt", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n");
    wh_graph_arcs a = read_good(NULL);
    assert_int_equal(a.format, WH_GRAPH_MATRIX_MARKET);
    EXPECT_ARCS(&a, 2, 1, 0);
}

static void market_empty_matrix(void **state) {
    (void)state;
    write_text("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 0\n");
    wh_graph_arcs a = read_good(NULL);
    assert_int_equal(a.n_vertices, 2);
    assert_int_equal(a.n_arcs, 0);
    wh_graph_arcs_free(&a);
}

#define GENERAL "%%MatrixMarket matrix coordinate pattern general\n"
#define REAL "%%MatrixMarket matrix coordinate real general\n"

static void market_malformed(void **state) {
    static const struct {
        const char *text;
        uint64_t line;
        const char *part;
    } cases[] = {
        {"1 2\n2 1\n", 1, "%%MatrixMarket matrix coordinate"},
        {"%%MatrixMarket\n", 1, "is not read"},
        {"%%MatrixMarket matrix array real general\n2 2\n1\n", 1, "'matrix array' is not read"},
        {"%%MatrixMarket vector coordinate real general\n", 1, "'vector coordinate'"},
        {"%%MatrixMarket matrix coordinate complex general\n", 1, "'complex'"},
        {"%%MatrixMarket matrix coordinate real hermitian\n", 1, "'hermitian'"},
        {"%%MatrixMarket matrix coordinate real\n", 1, "symmetry ''"},
        {"%%MatrixMarket matrix coordinate real general 5\n", 1, "'5' follows"},
        {GENERAL, 2, "the number of rows, found the end of the file"},
        {GENERAL "%\n3 3\n1 2\n", 3, "the number of entries, found the end of the line"},
        {GENERAL "3 3 x\n", 2, "the number of entries, found 'x'"},
        {GENERAL "3 3 1 1\n", 2, "'1' follows the size line"},
        {GENERAL "3 4 1\n1 2\n", 2, "3 x 4"},
        {GENERAL "0 0 0\n", 2, "no vertices"},
        {GENERAL "4294967296 4294967296 0\n", 2, "more than the"},
        {GENERAL "99999999999999999999 99999999999999999999 0\n", 2, "more than the"},
        {GENERAL "3 3 2\n1 2\n4 1\n", 4, "row 4 is out of range 1..3"},
        {GENERAL "3 3 2\n1 2\n0 1\n", 4, "row 0 is out of range"},
        {GENERAL "3 3 2\n1 2\n1 18446744073709551617\n", 4, "column 18446744073709551615 is out"},
        {GENERAL "3 3 2\n1 2\n-1 1\n", 4, "found '-1'"},
        {GENERAL "3 3 2\n1 2\n1 2x\n", 4, "expected column, found '2x'"},
        {GENERAL "3 3 2\n1 2\n1.0 2\n", 4, "expected row, found '1.0'"},
        {GENERAL "3 3 2\n1\n1 2\n", 3, "expected column, found the end of the line"},
        {GENERAL "3 3 2\n1 2 5\n1 2\n", 3, "'5' follows the entry"},
        {GENERAL "3 3 2\n1 2\n", 4, "ends after 1 of 2 entries"},
        {GENERAL "3 3 9000000000000000000\n1 2\n", 4, "ends after 1 of 9000000000000000000"},
        {GENERAL "3 3 1\n1 2\n\n2 1\n", 5, "more than the 1 entries that line 2"},
        {REAL "3 3 1\n1 2\n", 3, "expected a value, found the end of the line"},
        {REAL "3 3 1\n1 2 abc\n", 3, "expected a value, found 'abc'"},
        {REAL "3 3 1\n1 2 1.5.6\n", 3, "found '1.5.6'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("bad.mtx", cases[i].text);
        expect_refused(WH_BAD_FORMAT, cases[i].line, cases[i].part);
    }
}

/* --- METIS -------------------------------------------------------------------- */

static void metis_plain(void **state) {
    (void)state;
    write_text("a.graph", "% comment\n"
                          "4 2\n"
                          " 2 3 \n"
                          "1\n"
                          "% in between\n"
                          "1\n"
                          "\n"); /* vertex 4 has no neighbours */
    wh_graph_arcs a = read_good(NULL);
    assert_int_equal(a.format, WH_GRAPH_METIS);
    assert_int_equal(a.n_entries, 4);
    EXPECT_ARCS(&a, 4, 0, 1, 0, 2, 1, 0, 2, 0);
}

/* Isolated vertices at the end need no line when every edge is there. */
static void metis_short_tail(void **state) {
    (void)state;
    write_text("a.graph", "5 1 0\n2\n1");
    wh_graph_arcs a = read_good(NULL);
    EXPECT_ARCS(&a, 5, 0, 1, 1, 0);
}

static void metis_weights(void **state) {
    (void)state;
    write_text("a.graph", "3 2 1\n2 10 3 20\n1 10\n1 20\n"); /* edge weights */
    wh_graph_arcs a = read_good(NULL);
    EXPECT_ARCS(&a, 3, 0, 1, 0, 2, 1, 0, 2, 0);
    write_text("a.graph", "3 2 10\n7 2 3\n8 1\n9 1\n"); /* one vertex weight */
    a = read_good(NULL);
    EXPECT_ARCS(&a, 3, 0, 1, 0, 2, 1, 0, 2, 0);
    write_text("a.graph", "3 2 111 2\n1 7 7 2 10 3 20\n1 8 8 1 10\n1 9 9 1 20\n");
    a = read_good(NULL); /* a size, two vertex weights, edge weights */
    EXPECT_ARCS(&a, 3, 0, 1, 0, 2, 1, 0, 2, 0);
}

/* A line far longer than the reader's buffer. */
static void metis_long_line(void **state) {
    (void)state;
    const uint32_t n = 60000;
    name_file("long.graph.gz");
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_true(gzprintf(f, "%u %u\n", n, n - 1) > 0);
    for (uint32_t v = 2; v <= n; v++) {
        assert_true(gzprintf(f, "%u ", v) > 0);
    }
    for (uint32_t v = 2; v <= n; v++) {
        assert_true(gzprintf(f, "\n1") > 0);
    }
    assert_int_equal(gzclose(f), Z_OK);
    wh_graph_arcs a = read_good(NULL);
    assert_int_equal(a.n_vertices, n);
    assert_int_equal(a.n_arcs, 2 * (uint64_t)(n - 1));
    for (uint32_t i = 0; i < n - 1; i++) {
        assert_int_equal(a.from[i], 0);
        assert_int_equal(a.to[i], i + 1);
        assert_int_equal(a.from[n - 1 + i], i + 1);
        assert_int_equal(a.to[n - 1 + i], 0);
    }
    wh_graph_arcs_free(&a);
}

static void metis_malformed(void **state) {
    static const struct {
        const char *text;
        uint64_t line;
        const char *part;
    } cases[] = {
        {"% only a comment\n", 2, "the number of vertices, found the end of the file"},
        {"3\n2\n1\n\n", 1, "the number of edges, found the end of the line"},
        {"a b\n", 1, "found 'a'"},
        {"3 1 0 1 9\n2\n1\n\n", 1, "'9' follows the METIS header"},
        {"3 1 2\n2\n1\n\n", 1, "fmt 2 is unknown"},
        {"3 1 1000\n2\n1\n\n", 1, "fmt 1000 is unknown"},
        {"3 1 10 100000\n2\n1\n\n", 1, "ncon"},
        {"0 0\n", 1, "no vertices"},
        {"999999999 0\n", 1, "more than the"},
        {"3 1\n2\n4\n\n", 3, "neighbour 4 is out of range 1..3"},
        {"3 1\n2\n0\n\n", 3, "neighbour 0 is out of range"},
        {"3 1\n2\n1 z\n\n", 3, "found 'z'"},
        {"3 2\n2\n1\n", 4, "ends after 2 of 3 vertices"},
        {"3 1\n2\n1\n\n\n3\n", 6, "a line more than the 3 vertices that line 1"},
        {"%\n3 2\n2\n1\n\n", 2, "2 edges announced, but 2 neighbours"},
        {"3 0\n2\n1\n\n", 1, "0 edges announced, but 2 neighbours"},
        {"3 1 1\n2 5\n1\n\n", 3, "the weight of an edge, found the end of the line"},
        {"3 1 10\n2\n\n5\n", 3, "a vertex size or weight, found the end of the line"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("bad.graph", cases[i].text);
        expect_refused(WH_BAD_FORMAT, cases[i].line, cases[i].part);
    }
}

/* --- edge lists ----------------------------------------------------------------- */

static void edges_plain(void **state) {
    (void)state;
    write_text("a.txt", "# Nodes: 4\n"
                        "% another comment\n"
                        "\n"
                        "0\t3\n"
                        "  3   1  \r\n"
                        "2,2\n"
                        "0 3");
    wh_graph_arcs a = read_good(NULL);
    assert_int_equal(a.format, WH_GRAPH_EDGE_LIST);
    assert_int_equal(a.n_entries, 4);
    assert_int_equal(a.n_self_loops, 1);
    assert_null(a.time);
    EXPECT_ARCS(&a, 4, 0, 3, 3, 1, 2, 2, 0, 3);
}

static void edges_undirected(void **state) {
    (void)state;
    const wh_graph_file_options both = {WH_GRAPH_AUTO, 1, 0};
    write_text("a.csv", "1,2,50\n2,2,40\n3, 1, -30.7\n");
    wh_graph_arcs a = read_good(&both);
    assert_int_equal(a.n_entries, 3);
    assert_non_null(a.time);
    assert_int_equal(a.time[0], 50);
    assert_int_equal(a.time[1], 50);
    assert_int_equal(a.time[2], 40);
    assert_int_equal(a.time[3], -30);
    assert_int_equal(a.time[4], -30);
    EXPECT_ARCS(&a, 4, 1, 2, 2, 1, 2, 2, 3, 1, 1, 3);
}

static void edges_timed_gzip(void **state) {
    (void)state;
    write_gzip("a.txt.gz", "# t\n1 2 1082040961\n3 4 1082155839\n");
    wh_graph_arcs a = read_good(NULL);
    assert_non_null(a.time);
    assert_int_equal(a.time[0], 1082040961);
    assert_int_equal(a.time[1], 1082155839);
    EXPECT_ARCS(&a, 5, 1, 2, 3, 4);
}

/* More arcs than the arrays start with, timed, both directions. */
static void edges_many(void **state) {
    (void)state;
    const wh_graph_file_options both = {WH_GRAPH_AUTO, 1, 0};
    const uint32_t n = 100000;
    name_file("many.txt");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(fprintf(f, "%u %u %u\n", i, i + 1, 5 * i) > 0);
    }
    assert_int_equal(fclose(f), 0);
    wh_graph_arcs a = read_good(&both);
    assert_int_equal(a.n_vertices, n + 1);
    assert_int_equal(a.n_arcs, 2 * (uint64_t)n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(a.from[2 * i], i);
        assert_int_equal(a.to[2 * i], i + 1);
        assert_int_equal(a.to[2 * i + 1], i);
        assert_int_equal(a.time[2 * i + 1], 5 * i);
    }
    wh_graph_arcs_free(&a);
}

static void edges_malformed(void **state) {
    static const struct {
        const char *text;
        uint64_t line;
        const char *part;
    } cases[] = {
        {"# nothing\n\n", 3, "no edges"},
        {"0 1\n2\n", 2, "a target vertex, found the end of the line"},
        {"0 1\n2", 2, "a target vertex, found the end of the file"},
        {"source,target\n0,1\n", 1, "a source vertex, found 'source'"},
        {"0 1\n1 -2\n", 2, "a target vertex, found '-2'"},
        {"0 1\n1 2.5\n", 2, "found '2.5'"},
        {"0 1\n\n1 0x10\n", 3, "found '0x10'"},
        {"0 1\n1 300000000\n", 2, "vertex 300000000 is too large"},
        {"0 1\n1 99999999999999999999999\n", 2, "too large"},
        {"0 1\n1 2 77\n", 2, "3 columns, but 2 in the lines before"},
        {"0 1 5\n1 2\n", 2, "2 columns, but 3 in the lines before"},
        {"0 1 5 6\n", 1, "'6' follows source, target and time"},
        {"0 1 never\n", 1, "a time, found 'never'"},
        {"0 1 1e300\n", 1, "time out of range"},
        {"0 1 nan\n", 1, "time out of range"},
        {"\x01\x02\xff\n", 1, "found '\?\?\?'"},
        {"0 1111111111111111111111111111111111111111111111111111111111111111111111111111111x\n", 1,
         "found '1111111111111111111111111111111111111111...'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("bad.txt", cases[i].text);
        expect_refused(WH_BAD_FORMAT, cases[i].line, cases[i].part);
    }
}

static void edges_limit(void **state) {
    (void)state;
    const wh_graph_file_options ten = {WH_GRAPH_AUTO, 0, 10};
    write_text("a.txt", "0 9\n");
    wh_graph_arcs a = read_good(&ten);
    EXPECT_ARCS(&a, 10, 0, 9);
    write_text("a.txt", "0 9\n10 0\n");
    expect_refused_with(&ten, WH_BAD_FORMAT, 2, "vertex 10 is too large, at most 9");
}

/* --- the file itself -------------------------------------------------------------- */

static void unreadable(void **state) {
    (void)state;
    name_file("absent.mtx");
    expect_refused(WH_IO_ERROR, 0, "cannot be opened: No such file");
    (void)snprintf(path, sizeof path, "%s", folder);
    expect_refused(WH_IO_ERROR, 1, "cannot be read: Is a directory");
}

static void empty(void **state) {
    static const char *const names[] = {"e.mtx", "e.graph", "e.txt", "e.txt.gz"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        write_text(names[i], "");
        expect_refused(WH_BAD_FORMAT, 0, "the file is empty");
    }
    write_gzip("g.txt.gz", "");
    expect_refused(WH_BAD_FORMAT, 0, "the file is empty");
}

/* Text that does not compress, so that cutting the file cuts the text. */
static char *make_edges(uint32_t n) {
    char *text = malloc((size_t)n * 24);
    assert_non_null(text);
    uint64_t x = 88172645463325252u;
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        at += (size_t)snprintf(text + at, 24, "%u %u\n", (unsigned)(x % 100000),
                               (unsigned)((x >> 32) % 100000));
    }
    return text;
}

static void gzip_cut_off(void **state) {
    (void)state;
    wh_graph_arcs a;
    wh_graph_file_error e;
    char *text = make_edges(50000);
    for (long part = 1; part < 8; part++) {
        write_gzip("cut.txt.gz", text);
        cut_file(part, 8);
        assert_int_equal(wh_graph_file_read(path, NULL, &a, &e), WH_IO_ERROR);
        assert_non_null(strstr(e.text, "cut off"));
        assert_in_range(e.line, 1, 50001);
        assert_null(a.from);
    }
    /* Only the last bytes, the check sum, are missing: all arcs are there, yet the file
     * is not whole. */
    write_gzip("cut.txt.gz", text);
    cut_file(1000000 - 1, 1000000);
    assert_int_equal(wh_graph_file_read(path, NULL, &a, &e), WH_IO_ERROR);
    free(text);
    /* The parsers that know how much is to come say the same. */
    write_gzip("cut.mtx.gz", GENERAL "9 9 3\n1 2\n3 4\n5 6\n");
    cut_file(3, 4);
    assert_int_equal(wh_graph_file_read(path, NULL, &a, &e), WH_IO_ERROR);
    write_gzip("cut.graph.gz", "3 2\n2 3\n1\n1\n");
    cut_file(3, 4);
    assert_int_equal(wh_graph_file_read(path, NULL, &a, &e), WH_IO_ERROR);
}

static void gzip_damaged(void **state) {
    (void)state;
    wh_graph_arcs a;
    wh_graph_file_error e;
    char *text = make_edges(5000);
    write_gzip("damaged.txt.gz", text);
    free(text);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 2000, SEEK_SET), 0);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(fputc(0xa5, f), 0xa5);
    }
    assert_int_equal(fclose(f), 0);
    const wh_status s = wh_graph_file_read(path, NULL, &a, &e);
    assert_true(s == WH_IO_ERROR || s == WH_BAD_FORMAT); /* what comes out may look wrong first */
    assert_null(a.from);
}

static void long_path(void **state) {
    (void)state;
    wh_graph_arcs a;
    wh_graph_file_error e;
    char name[1000], text[1200];
    memset(name, 'x', sizeof name);
    memcpy(name + sizeof name - 10, "/last.mtx", 10);
    assert_int_equal(wh_graph_file_read(name, NULL, &a, &e), WH_IO_ERROR);
    wh_graph_file_error_format(&e, text, sizeof text);
    assert_memory_equal(text, "...xxx", 6);
    assert_non_null(strstr(text, "/last.mtx: cannot be opened"));
}

/* --- adjacency lists ------------------------------------------------------------- */

static void lists(void **state) {
    (void)state;
    static const uint32_t from[] = {2, 0, 2, 2, 0, 2}, to[] = {1, 3, 0, 1, 0, 3};
    static const uint32_t keep[] = {1, 1, 1, 1, 1, 0};
    static const uint64_t offset[] = {0, 2, 2, 5, 5};
    static const uint32_t sorted[] = {0, 3, 0, 1, 1};
    wh_graph_csr c;
    assert_int_equal(wh_graph_csr_build(&c, 4, from, to, 6, keep), WH_OK);
    assert_int_equal(c.n_vertices, 4);
    assert_int_equal(c.n_arcs, 5);
    assert_memory_equal(c.offset, offset, sizeof offset);
    assert_memory_equal(c.to, sorted, sizeof sorted);
    wh_graph_csr_free(&c);
    assert_int_equal(wh_graph_csr_build(&c, 4, NULL, NULL, 0, NULL), WH_OK);
    assert_int_equal(c.n_arcs, 0);
    assert_int_equal(c.offset[4], 0);
    wh_graph_csr_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(market_general),    cmocka_unit_test(market_symmetric),
        cmocka_unit_test(market_by_content), cmocka_unit_test(market_empty_matrix),
        cmocka_unit_test(market_malformed),  cmocka_unit_test(metis_plain),
        cmocka_unit_test(metis_short_tail),  cmocka_unit_test(metis_weights),
        cmocka_unit_test(metis_long_line),   cmocka_unit_test(metis_malformed),
        cmocka_unit_test(edges_plain),       cmocka_unit_test(edges_undirected),
        cmocka_unit_test(edges_timed_gzip),  cmocka_unit_test(edges_many),
        cmocka_unit_test(edges_malformed),   cmocka_unit_test(edges_limit),
        cmocka_unit_test(unreadable),        cmocka_unit_test(empty),
        cmocka_unit_test(gzip_cut_off),      cmocka_unit_test(gzip_damaged),
        cmocka_unit_test(long_path),         cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

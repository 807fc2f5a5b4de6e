/* mesh.c: meshes from small files written here, good and broken, plain and gzip, and from those of
 * the data folder, if it is there (environment variable WH_TEST_DATA, else ../shared/data beside
 * the source); meshes that are made, and copies. Without assimp all files are refused, and the
 * tests of files are skipped.
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

#include "workload/mesh/mesh.h"

static char folder[] = "/tmp/warpheap-mesh-XXXXXX";
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

static void write_gzip(const char *name, const char *text) {
    name_file(name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(f), Z_OK);
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

/* Without assimp the refusal names what to install, and there is nothing else to test. */
static void skip_without_assimp(void) {
    wh_mesh m;
    if (wh_mesh_read(&m, "/nowhere") == WH_UNSUPPORTED) {
        assert_non_null(strstr(wh_last_error_text(), "/nowhere: "));
        assert_non_null(strstr(wh_last_error_text(), "libassimp-dev"));
        skip();
    }
}

/* Reads the file of the last write_*; it must be good. */
static wh_mesh read_good(uint64_t n_vertices, uint64_t n_triangles) {
    wh_mesh m;
    if (wh_mesh_read(&m, path) != WH_OK) {
        fail_msg("%s", wh_last_error_text());
    }
    assert_int_equal(m.n_vertices, n_vertices);
    assert_int_equal(m.n_triangles, n_triangles);
    for (uint64_t i = 0; i < 3 * m.n_triangles; i++) {
        assert_true(m.triangles[i] < m.n_vertices);
    }
    return m;
}

/* Reads the file of the last write_*; it must be refused with a text that names it, and contains
 * `part`. */
static void expect_refused(wh_status status, const char *part) {
    wh_mesh m;
    const wh_status s = wh_mesh_read(&m, path);
    const char *text = wh_last_error_text();
    if (s != status || strncmp(text, path, strlen(path)) != 0 || strstr(text, part) == NULL ||
        strchr(text, '\n') != NULL) {
        fail_msg("status %s, expected %s; '%s', expected '%s: ...%s'", wh_status_name(s),
                 wh_status_name(status), text, path, part);
    }
    assert_null(m.vertices);
    assert_null(m.triangles);
    assert_int_equal(m.n_vertices + m.n_triangles, 0);
}

/* --- what holds of meshes ----------------------------------------------------------------- */

static int compare(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* How many sides of triangles have not exactly one other triangle beside them whose corners run in
 * the same sense. */
static uint64_t open_edges(const wh_mesh *m) {
    const size_t n = 3 * (size_t)m->n_triangles;
    uint64_t *edge = malloc(2 * n * sizeof *edge), *back = edge + n, open = 0;
    assert_non_null(edge);
    for (size_t i = 0; i < n; i++) {
        const uint64_t a = m->triangles[i], b = m->triangles[i % 3 == 2 ? i - 2 : i + 1];
        edge[i] = a << 32 | b;
        back[i] = b << 32 | a;
    }
    qsort(edge, n, sizeof *edge, compare);
    qsort(back, n, sizeof *back, compare);
    for (size_t i = 0; i < n; i++) {
        const int is_twice = i > 0 && edge[i] == edge[i - 1];
        const void *other = bsearch(&edge[i], back, n, sizeof *back, compare);
        open += is_twice || other == NULL ? 1 : 0;
    }
    free(edge);
    return open;
}

/* Positive if the corners run counterclockwise, seen from outside. */
static double volume_of(const wh_mesh *m) {
    double sum = 0;
    for (uint64_t i = 0; i < m->n_triangles; i++) {
        const float *a = &m->vertices[3 * (size_t)m->triangles[3 * i]];
        const float *b = &m->vertices[3 * (size_t)m->triangles[3 * i + 1]];
        const float *c = &m->vertices[3 * (size_t)m->triangles[3 * i + 2]];
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t y = (k + 1) % 3, z = (k + 2) % 3;
            sum += (double)a[k] * ((double)b[y] * (double)c[z] - (double)b[z] * (double)c[y]);
        }
    }
    return sum / 6;
}

static void box_of(const wh_mesh *m, uint64_t first, uint64_t n, float lo[3], float hi[3]) {
    for (uint32_t k = 0; k < 3; k++) {
        lo[k] = hi[k] = m->vertices[3 * first + k];
        for (uint64_t i = first; i < first + n; i++) {
            const float x = m->vertices[3 * i + k];
            lo[k] = x < lo[k] ? x : lo[k];
            hi[k] = x > hi[k] ? x : hi[k];
        }
    }
}

static void expect_vertices(wh_mesh *m, const float *vertices) {
    assert_memory_equal(m->vertices, vertices, 3 * (size_t)m->n_vertices * sizeof *vertices);
    wh_mesh_free(m);
    assert_null(m->vertices);
    assert_null(m->triangles);
}

/* --- files ------------------------------------------------------------------------------------ */

static const char square[] = "# a square\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n";
static const char cube_ply[] = "ply\nformat ascii 1.0\ncomment a cube of six quads\n"
                               "element vertex 8\nproperty float x\nproperty float y\n"
                               "property float z\nelement face 6\n"
                               "property list uchar int vertex_indices\nend_header\n"
                               "0 0 0\n1 0 0\n0 1 0\n1 1 0\n0 0 1\n1 0 1\n0 1 1\n1 1 1\n"
                               "4 0 2 3 1\n4 4 5 7 6\n4 0 1 5 4\n4 2 6 7 3\n4 0 4 6 2\n4 1 3 7 5\n";

static void test_obj(void **state) {
    static const float corner[] = {0, 0, 0, 0.5f, 0, 0, 0, 0.25f, 0, 0, 0, -3};
    static const char text[] = "v 0 0 0\nv 0.5 0 0\nv 0 2.5e-1 0\nv 0 0 -3\nf 1 2 3\nf 1 3 4\n";
    static const uint32_t triangles[] = {0, 1, 2, 0, 2, 3};
    (void)state;
    skip_without_assimp();
    write_bytes("a.obj", text, strlen(text));
    wh_mesh m = read_good(4, 2);
    assert_memory_equal(m.triangles, triangles, sizeof triangles);
    expect_vertices(&m, corner);
}

/* Normals and places in a texture, of which a vertex has several, do not make it several. */
static void test_obj_with_normals(void **state) {
    static const char text[] =
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvn 0 0 -1\nvn 0 -1 0\nvn -1 0 0\nvn 1 1 1\n"
        "vt 0 0\nvt 1 0\nvt 0 1\n"
        "f 1/1/1 3/2/1 2/3/1\nf 1/1/2 2/2/2 4/3/2\nf 1/2/3 4/1/3 3/3/3\nf 2/3/4 3/2/4 4/1/4\n";
    (void)state;
    skip_without_assimp();
    write_bytes("a.obj", text, strlen(text));
    wh_mesh m = read_good(4, 4);
    assert_int_equal(open_edges(&m), 0);
    wh_mesh_free(&m);
}

static void test_polygons(void **state) {
    static const char pentagon[] = "v 0 0 0\nv 2 0 0\nv 3 1 0\nv 1 2 0\nv -1 1 0\nf 1 2 3 4 5\n";
    static const char mixed[] = "v 0 0 0\nv 1 0 0\nv 0 1 0\np 1\nl 1 2\nf 1 2 3\n";
    (void)state;
    skip_without_assimp();
    write_bytes("a.obj", square, strlen(square));
    wh_mesh m = read_good(4, 2);
    wh_mesh_free(&m);
    write_bytes("a.obj", pentagon, strlen(pentagon));
    m = read_good(5, 3);
    wh_mesh_free(&m);
    write_bytes("a.obj", mixed, strlen(mixed)); /* points and lines are left out */
    assert_int_equal(wh_mesh_read(&m, path), WH_OK);
    assert_int_equal(m.n_triangles, 1);
    wh_mesh_free(&m);
}

static void expect_cube(void) {
    wh_mesh m = read_good(8, 12);
    assert_int_equal(open_edges(&m), 0);
    const double volume = volume_of(&m);
    assert_true(volume > 0.999 && volume < 1.001);
    wh_mesh_free(&m);
}

static void test_ply(void **state) {
    static const char head[] = "ply\nformat binary_little_endian 1.0\nelement vertex 4\n"
                               "property float x\nproperty float y\nproperty float z\n"
                               "element face 1\nproperty list uchar int vertex_indices\n"
                               "end_header\n";
    static const float corner[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0};
    static const int32_t face[] = {0, 1, 2, 3};
    char bytes[512];
    size_t n = strlen(head);
    (void)state;
    skip_without_assimp();
    write_bytes("a.ply", cube_ply, strlen(cube_ply));
    expect_cube();
    memcpy(bytes, head, n);
    memcpy(bytes + n, corner, sizeof corner);
    n += sizeof corner;
    bytes[n++] = 4;
    memcpy(bytes + n, face, sizeof face);
    n += sizeof face;
    write_bytes("a.ply", bytes, n);
    wh_mesh m = read_good(4, 2);
    expect_vertices(&m, corner);
    memset(bytes + n - sizeof face, 9, 1); /* the first corner */
    write_bytes("a.ply", bytes, n);
    expect_refused(WH_BAD_FORMAT, "vertex that is not there");
    for (size_t k = 1; k < n - 4; k++) {
        write_bytes("cut.ply", bytes, k);
        expect_refused(WH_BAD_FORMAT, "");
    }
}

/* As test_broken, and wherever the file ends: assimp alone would hang, crash, or make triangles. */
static void test_broken_ply(void **state) {
    static const char head[] = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\n"
                               "property float y\nproperty float z\nelement face 1\n"
                               "property list uchar int vertex_indices\n";
    static const struct {
        const char *begin, *end, *part;
    } cases[] = {
        {head, "end_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "vertex that is not there"},
        {head, "end_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 -1\n", "vertex that is not there"},
        {head, "end_header\n0 0 0\n1 0 0\n0 1 0\n4000000000 0 1 2\n", "ends before"},
        {head, "end_header\n0 0 0\n1 0 0\n0 1 z\n3 0 1 2\n", "no number"},
        {head, "end_header\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n", "no triangles"},
        {head, "element edge 9\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", "no properties"},
        {head, "property list float int a\nend_header\n", "unknown type"},
        {head, "property real a\nend_header\n", "unknown type"},
        {head, "a line\nend_header\n", "not understood"},
        {"ply\nformat strange 1.0\n", "end_header\n", "format"},
        {"ply\nformat ascii 1.0\nelement vertex 0\nproperty int x\n", "end_header\n", "x, y or z"},
        {"ply\nproperty int x\n", "end_header\n", "without an element"},
    };
    char text[1024];
    (void)state;
    skip_without_assimp();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, "%s%s", cases[i].begin, cases[i].end);
        write_bytes("a.ply", text, strlen(text));
        expect_refused(WH_BAD_FORMAT, cases[i].part);
    }
    const size_t n = strlen(cube_ply) - 2; /* without the last number */
    for (size_t k = 1; k <= n; k++) {
        write_bytes("cut.ply", cube_ply, k);
        expect_refused(WH_BAD_FORMAT, "");
    }
}

/* The extension in front of .gz counts; without one that is known, the content. */
static void test_gzip_and_names(void **state) {
    (void)state;
    skip_without_assimp();
    write_gzip("a.ply.gz", cube_ply);
    expect_cube();
    write_gzip("a.obj.gz", square);
    wh_mesh m = read_good(4, 2);
    wh_mesh_free(&m);
    write_gzip("plain-name.ply", cube_ply); /* gzip is told by content */
    expect_cube();
    write_bytes("cube", cube_ply, strlen(cube_ply));
    expect_cube();
    write_bytes("a.OBJ", square, strlen(square));
    m = read_good(4, 2);
    wh_mesh_free(&m);
}

static void test_broken(void **state) {
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n"}, /* no such vertex */
        {"a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\n# and no faces\n"},
        {"a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nl 1 2\nl 2 3\n"},
        {"a.obj", "a text about nothing that has to do with meshes\n"},
        {"a.ply", "not ply at all, but a text of some length\n"},
        {"a.unknown", "a text about nothing that has to do with meshes\n"},
    };
    (void)state;
    skip_without_assimp();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes(cases[i].name, cases[i].text, strlen(cases[i].text));
        expect_refused(WH_BAD_FORMAT, "");
    }
    write_bytes("a.obj", "", 0);
    expect_refused(WH_BAD_FORMAT, "empty");
}

static void test_unreadable(void **state) {
    (void)state;
    skip_without_assimp();
    name_file("missing.obj");
    expect_refused(WH_IO_ERROR, "cannot be opened: ");
    name_file(".");
    expect_refused(WH_IO_ERROR, "cannot be read: ");
    write_gzip("cut.ply.gz", cube_ply);
    assert_int_equal(truncate(path, 100), 0);
    expect_refused(WH_IO_ERROR, "cut off");
    write_gzip("damaged.ply.gz", cube_ply);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -8, SEEK_END), 0); /* the checksum */
    assert_int_equal(fwrite("????", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    expect_refused(WH_IO_ERROR, "damaged");
}

/* Counts of ../shared/data/README.md, but for the bunny's vertices: 1,113 have no triangle. */
static void test_real_files(void **state) {
    static const struct {
        const char *name;
        uint64_t n_vertices, n_triangles, open;
    } cases[] = {
        {"stanford-bunny.obj.gz", 34834, 69451, 223},
        {"armadillo.obj.gz", 49990, 99976, 0},
        {"turbineblade.ply", 99519, 199034, 0},
    };
    const char *data = getenv("WH_TEST_DATA");
    (void)state;
    skip_without_assimp();
    data = data != NULL ? data : WH_TEST_SOURCE_DIR "/../shared/data";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(path, sizeof path, "%s/meshes/%s", data, cases[i].name);
        if (access(path, R_OK) != 0) {
            skip();
        }
        wh_mesh m = read_good(cases[i].n_vertices, cases[i].n_triangles);
        assert_int_equal(open_edges(&m), cases[i].open);
        wh_mesh_free(&m);
    }
}

/* --- meshes that are made, and copies --------------------------------------------------------- */

static void test_make(void **state) {
    static const uint64_t wanted[] = {1, 8, 20, 100, 1000, 2000, 12345, 100000};
    (void)state;
    for (uint64_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        wh_mesh m;
        assert_int_equal(wh_mesh_make(&m, wanted[i], i), WH_OK);
        assert_int_equal(m.n_triangles, 2 * (m.n_vertices - 2)); /* as of any closed surface */
        assert_int_equal(open_edges(&m), 0);
        assert_true(volume_of(&m) > 0.5 && volume_of(&m) < 8);
        if (wanted[i] >= 100) {
            assert_true(m.n_triangles > wanted[i] * 7 / 10 && m.n_triangles < wanted[i] * 13 / 10);
        }
        wh_mesh_free(&m);
    }
}

static void test_seeds(void **state) {
    wh_mesh a, b, c;
    (void)state;
    assert_int_equal(wh_mesh_make(&a, 1000, 5), WH_OK);
    assert_int_equal(wh_mesh_make(&b, 1000, 5), WH_OK);
    assert_int_equal(wh_mesh_make(&c, 1000, 6), WH_OK);
    const size_t bytes = 3 * (size_t)a.n_vertices * sizeof *a.vertices;
    assert_memory_equal(a.vertices, b.vertices, bytes);
    assert_memory_not_equal(a.vertices, c.vertices, bytes);
    assert_memory_equal(a.triangles, c.triangles, 3 * a.n_triangles * sizeof *a.triangles);
    wh_mesh_free(&a);
    wh_mesh_free(&b);
    wh_mesh_free(&c);
    wh_mesh_free(&c); /* an empty one */
    assert_int_equal(wh_mesh_make(&a, 0, 5), WH_BAD_ARGUMENT);
    assert_null(a.vertices);
    assert_int_equal(wh_mesh_make(&a, WH_MESH_MOST_TRIANGLES + 1ull, 5), WH_BAD_ARGUMENT);
}

static void test_copies(void **state) {
    wh_mesh m, copies;
    float lo[2][3], hi[2][3];
    (void)state;
    assert_int_equal(wh_mesh_make(&m, 200, 1), WH_OK);
    assert_int_equal(wh_mesh_copies(&copies, &m, 3, 2, 4), WH_OK);
    assert_int_equal(copies.n_vertices, 24 * m.n_vertices);
    assert_int_equal(copies.n_triangles, 24 * m.n_triangles);
    assert_int_equal(open_edges(&copies), 0);
    assert_memory_equal(copies.vertices, m.vertices, 3 * m.n_vertices * sizeof *m.vertices);
    const double volume = 24 * volume_of(&m);
    assert_true(volume_of(&copies) > 0.99 * volume && volume_of(&copies) < 1.01 * volume);
    for (uint32_t i = 0; i < 24; i++) {
        for (uint32_t k = 0; k < i; k++) { /* no two boxes overlap */
            box_of(&copies, i * m.n_vertices, m.n_vertices, lo[0], hi[0]);
            box_of(&copies, k * m.n_vertices, m.n_vertices, lo[1], hi[1]);
            int apart = 0;
            for (uint32_t c = 0; c < 3; c++) {
                apart = apart || lo[0][c] > hi[1][c] || lo[1][c] > hi[0][c];
            }
            assert_true(apart);
        }
    }
    wh_mesh_free(&copies);
    wh_mesh_free(&m);
}

static void test_bad_copies(void **state) {
    wh_mesh m, copies;
    static float vertex[3] = {7, 7, 7};
    static uint32_t triangle[3];
    wh_mesh point = {vertex, triangle, 1, 1};
    (void)state;
    assert_int_equal(wh_mesh_make(&m, 200, 1), WH_OK);
    assert_int_equal(wh_mesh_copies(&copies, &m, 0, 1, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_mesh_copies(&copies, &m, 1, 1, 0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_mesh_copies(&copies, &m, 1u << 31, 1u << 31, 4), WH_BAD_ARGUMENT);
    assert_int_equal(wh_mesh_copies(&copies, &m, 1u << 25, 1, 1), WH_BAD_ARGUMENT);
    assert_null(copies.vertices);
    wh_mesh_free(&m);
    assert_int_equal(wh_mesh_copies(&copies, &point, 1, 2, 1), WH_OK);
    assert_true(copies.vertices[4] > 7);
    assert_int_equal(copies.triangles[3], 1);
    wh_mesh_free(&copies);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_obj),        cmocka_unit_test(test_obj_with_normals),
        cmocka_unit_test(test_polygons),   cmocka_unit_test(test_ply),
        cmocka_unit_test(test_broken_ply), cmocka_unit_test(test_gzip_and_names),
        cmocka_unit_test(test_broken),     cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_real_files), cmocka_unit_test(test_make),
        cmocka_unit_test(test_seeds),      cmocka_unit_test(test_copies),
        cmocka_unit_test(test_bad_copies),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* mesh.c: meshes made here; files are read by assimp from memory, after zlib has inflated them. */
#include "workload/mesh/mesh.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/last_error.h"
#include "workload/mesh/ply.h"

#if WH_HAVE_ASSIMP
#include <assimp/cimport.h>
#include <assimp/config.h>
#include <assimp/postprocess.h>
#include <assimp/scene.h>
#include <zlib.h>
#endif

void wh_mesh_free(wh_mesh *mesh) {
    free(mesh->vertices);
    free(mesh->triangles);
    memset(mesh, 0, sizeof *mesh);
}

/* Arrays of these sizes, with content yet to be written. */
static wh_status take_arrays(wh_mesh *mesh, uint64_t n_vertices, uint64_t n_triangles) {
    memset(mesh, 0, sizeof *mesh);
    mesh->vertices = malloc((size_t)n_vertices * 3 * sizeof *mesh->vertices + 1);
    mesh->triangles = malloc((size_t)n_triangles * 3 * sizeof *mesh->triangles + 1);
    if (mesh->vertices == NULL || mesh->triangles == NULL) {
        wh_mesh_free(mesh);
        return whi_refuse(WH_OUT_OF_MEMORY, "not enough memory for %llu triangles",
                          (unsigned long long)n_triangles);
    }
    mesh->n_vertices = n_vertices;
    mesh->n_triangles = n_triangles;
    return WH_OK;
}

/* --- files ------------------------------------------------------------------------ */

#if WH_HAVE_ASSIMP

typedef struct content {
    char *bytes;
    size_t n, room;
} content;

/* assimp takes the length as an unsigned int. */
#define MOST_BYTES ((size_t)INT_MAX)

static wh_status grow(content *c, const char *path) {
    const size_t room = c->room == 0 ? (size_t)1 << 20 : 2 * c->room;
    if (c->n >= MOST_BYTES) {
        return whi_refuse(WH_BAD_FORMAT, "%s: more than 2 GiB; take a smaller mesh", path);
    }
    char *bytes = realloc(c->bytes, room);
    if (bytes == NULL) {
        return whi_refuse(WH_OUT_OF_MEMORY, "%s: not enough memory for the file", path);
    }
    c->bytes = bytes;
    c->room = room;
    return WH_OK;
}

/* Why gzread has ended; WH_OK: with the end of the file. */
static wh_status end_of(gzFile file, const char *path) {
    int error = Z_OK;
    const char *text = gzerror(file, &error);
    if (error == Z_OK || error == Z_STREAM_END) {
        return WH_OK;
    }
    if (error == Z_ERRNO) {
        return whi_refuse(WH_IO_ERROR, "%s: cannot be read: %s", path, strerror(errno));
    }
    if (error == Z_BUF_ERROR) { /* zlib's word for a stream without its end */
        return whi_refuse(WH_IO_ERROR, "%s: the gzip data is cut off; fetch the file again", path);
    }
    return whi_refuse(WH_IO_ERROR, "%s: the gzip data is damaged (%s); fetch the file again", path,
                      text);
}

static wh_status inflate_all(content *c, gzFile file, const char *path) {
    int n = 1;
    while (n > 0) {
        if (c->n == c->room) {
            const wh_status s = grow(c, path);
            if (s != WH_OK) {
                return s;
            }
        }
        const size_t room = c->room - c->n;
        n = gzread(file, c->bytes + c->n, (unsigned)(room < MOST_BYTES ? room : MOST_BYTES));
        c->n += n > 0 ? (size_t)n : 0;
    }
    return end_of(file, path);
}

/* Reads a whole file. c->bytes is to be freed in any case. */
static wh_status read_bytes(content *c, const char *path) {
    memset(c, 0, sizeof *c);
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (file == NULL) {
        return whi_refuse(WH_IO_ERROR, "%s: cannot be opened: %s", path,
                          errno != 0 ? strerror(errno) : "not enough memory");
    }
    const wh_status s = inflate_all(c, file, path);
    (void)gzclose_r(file);
    if (s == WH_OK && c->n == 0) {
        return whi_refuse(WH_BAD_FORMAT, "%s: the file is empty", path);
    }
    return s;
}

/* The extension that tells the format, without its dot; "" if there is none. */
static void extension_of(const char *path, char extension[16]) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t end = strlen(name);
    if (end >= 3 && strcmp(name + end - 3, ".gz") == 0) {
        end -= 3;
    }
    size_t begin = end;
    while (begin > 0 && name[begin - 1] != '.') {
        begin--;
    }
    const size_t n = begin > 0 && end - begin < 16 ? end - begin : 0;
    memcpy(extension, name + begin, n);
    extension[n] = '\0';
}

/* What only tells vertices at the same place apart goes first. */
static const struct aiScene *import(const content *c, const char *path) {
    const unsigned steps = aiProcess_RemoveComponent | aiProcess_Triangulate |
                           aiProcess_PreTransformVertices | aiProcess_JoinIdenticalVertices;
    char extension[16];
    struct aiPropertyStore *properties = aiCreatePropertyStore();
    aiSetImportPropertyInteger(properties, AI_CONFIG_PP_RVC_FLAGS,
                               aiComponent_NORMALS | aiComponent_TANGENTS_AND_BITANGENTS |
                                   aiComponent_COLORS | aiComponent_TEXCOORDS |
                                   aiComponent_BONEWEIGHTS | aiComponent_ANIMATIONS |
                                   aiComponent_TEXTURES | aiComponent_LIGHTS | aiComponent_CAMERAS |
                                   aiComponent_MATERIALS);
    extension_of(path, extension);
    const struct aiScene *scene = aiImportFileFromMemoryWithProperties(
        c->bytes, (unsigned)c->n, steps, extension, properties);
    aiReleasePropertyStore(properties);
    return scene;
}

/* Adds the triangles of one mesh of the scene to those that are there. 0: a number of a vertex is
 * out of range. */
static int add_part(wh_mesh *mesh, const struct aiMesh *part) {
    const uint32_t first = (uint32_t)mesh->n_vertices;
    for (unsigned i = 0; i < part->mNumVertices; i++) {
        float *v = &mesh->vertices[3 * mesh->n_vertices++];
        v[0] = (float)part->mVertices[i].x;
        v[1] = (float)part->mVertices[i].y;
        v[2] = (float)part->mVertices[i].z;
    }
    for (unsigned i = 0; i < part->mNumFaces; i++) {
        const struct aiFace *face = &part->mFaces[i];
        if (face->mNumIndices != 3) { /* a point or a line */
            continue;
        }
        for (unsigned k = 0; k < 3; k++) {
            if (face->mIndices[k] >= part->mNumVertices) {
                return 0;
            }
            mesh->triangles[3 * mesh->n_triangles + k] = first + face->mIndices[k];
        }
        mesh->n_triangles++;
    }
    return 1;
}

static wh_status take_scene(wh_mesh *mesh, const struct aiScene *scene, const char *path) {
    uint64_t n_vertices = 0, n_triangles = 0;
    for (unsigned i = 0; i < scene->mNumMeshes; i++) {
        n_vertices += scene->mMeshes[i]->mNumVertices;
        n_triangles += scene->mMeshes[i]->mNumFaces;
    }
    if (n_vertices > UINT32_MAX) {
        return whi_refuse(WH_BAD_FORMAT, "%s: more than %u vertices", path, UINT32_MAX);
    }
    wh_status s = take_arrays(mesh, n_vertices, n_triangles);
    if (s != WH_OK) {
        return s;
    }
    mesh->n_vertices = mesh->n_triangles = 0;
    for (unsigned i = 0; s == WH_OK && i < scene->mNumMeshes; i++) {
        if (!add_part(mesh, scene->mMeshes[i])) {
            s = whi_refuse(WH_BAD_FORMAT, "%s: a triangle has a vertex that is not there", path);
        }
    }
    if (s == WH_OK && mesh->n_triangles == 0) {
        s = whi_refuse(WH_BAD_FORMAT, "%s: no triangles in the file", path);
    }
    if (s != WH_OK) {
        wh_mesh_free(mesh);
    }
    return s;
}

wh_status wh_mesh_read(wh_mesh *mesh, const char *path) {
    content c;
    memset(mesh, 0, sizeof *mesh);
    wh_status s = read_bytes(&c, path);
    if (s == WH_OK && whi_is_ply(c.bytes, c.n)) {
        s = whi_ply_check(c.bytes, c.n, path);
    }
    if (s == WH_OK) {
        const struct aiScene *scene = import(&c, path);
        s = scene != NULL ? take_scene(mesh, scene, path)
                          : whi_refuse(WH_BAD_FORMAT, "%s: %s", path, aiGetErrorString());
        aiReleaseImport(scene);
    }
    free(c.bytes);
    return s;
}

#else

wh_status wh_mesh_read(wh_mesh *mesh, const char *path) {
    memset(mesh, 0, sizeof *mesh);
    return whi_refuse(WH_UNSUPPORTED,
                      "%s: this build reads no meshes: it is without assimp (Debian: install "
                      "libassimp-dev, then build anew, without WARPHEAP_STATIC_DEPS)",
                      path);
}

#endif

/* --- a surface with bumps ------------------------------------------------------------- */

/* The surface is an octahedron whose faces have k * k triangles each, blown up. Ring i of its
 * vertices, 0..2k, has 4 sides of `side` vertices each; rings 0 and 2k are the poles. */
static uint32_t side_of(uint32_t i, uint32_t k) {
    return i < k ? i : 2 * k - i;
}

/* The number of the first vertex of ring i. */
static uint32_t ring_begin(uint32_t i, uint32_t k) {
    if (i == 0) {
        return 0;
    }
    const uint32_t below = 2 * k - i; /* rings that follow, without ring i itself */
    return i <= k ? 1 + 2 * i * (i - 1) : 4 * k * k + 1 - 2 * below * (below + 1);
}

static uint32_t ring_vertex(uint32_t i, uint32_t k, uint32_t at) {
    const uint32_t n = 4 * side_of(i, k);
    return ring_begin(i, k) + (n == 0 ? 0 : at % n);
}

enum { WAVES = 12 };

typedef struct wave {
    double direction[3], phase, height;
} wave;

/* A number in -1..1. */
static double random_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(uint32_t)(*state >> 32) / 2147483648.0 - 1;
}

/* Finer waves are lower; the sum of all heights is below 1/2, so the surface does not cross the
 * origin. */
static void make_waves(wave *waves, uint64_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    (void)random_number(&state);
    for (uint32_t w = 0; w < WAVES; w++) {
        const double number = 3 + 1.5 * w;
        for (uint32_t c = 0; c < 3; c++) {
            waves[w].direction[c] = number * random_number(&state);
        }
        waves[w].phase = 3.14159265358979 * random_number(&state);
        waves[w].height = 0.35 / number;
    }
}

static void place(float *vertex, double up, double around, const wave *waves) {
    const double p[3] = {sin(up) * cos(around), sin(up) * sin(around), cos(up)};
    double radius = 1;
    for (uint32_t w = 0; w < WAVES; w++) {
        const double *d = waves[w].direction;
        radius += waves[w].height * sin(d[0] * p[0] + d[1] * p[1] + d[2] * p[2] + waves[w].phase);
    }
    for (uint32_t c = 0; c < 3; c++) {
        vertex[c] = (float)(radius * p[c]);
    }
}

static uint32_t *put(uint32_t *t, uint32_t a, uint32_t b, uint32_t c) {
    t[0] = a, t[1] = b, t[2] = c;
    return t + 3;
}

/* The triangles between ring i and ring i + 1. */
static uint32_t *put_band(uint32_t *t, uint32_t i, uint32_t k) {
    const int widens = i < k;
    const uint32_t small = widens ? i : i + 1, large = widens ? i + 1 : i;
    const uint32_t n_small = side_of(small, k), n_large = side_of(large, k);
    for (uint32_t q = 0; q < 4; q++) {
        for (uint32_t j = 0; j < n_large; j++) {
            const uint32_t tip = ring_vertex(small, k, q * n_small + j);
            const uint32_t a = ring_vertex(large, k, q * n_large + j);
            const uint32_t b = ring_vertex(large, k, q * n_large + j + 1);
            t = widens ? put(t, tip, a, b) : put(t, tip, b, a);
            if (j < n_small) {
                const uint32_t next = ring_vertex(small, k, q * n_small + j + 1);
                t = widens ? put(t, tip, b, next) : put(t, tip, next, b);
            }
        }
    }
    return t;
}

wh_status wh_mesh_make(wh_mesh *mesh, uint64_t n_triangles, uint64_t seed) {
    wave waves[WAVES];
    memset(mesh, 0, sizeof *mesh);
    if (n_triangles == 0 || n_triangles > WH_MESH_MOST_TRIANGLES) {
        return whi_refuse(WH_BAD_ARGUMENT, "a mesh of %llu triangles: 1 to %u can be made",
                          (unsigned long long)n_triangles, WH_MESH_MOST_TRIANGLES);
    }
    const uint32_t near = (uint32_t)(sqrt((double)n_triangles / 8) + 0.5);
    const uint32_t k = near > 0 ? near : 1;
    const uint64_t faces = (uint64_t)k * k;
    const wh_status s = take_arrays(mesh, 4 * faces + 2, 8 * faces);
    if (s != WH_OK) {
        return s;
    }
    make_waves(waves, seed);
    for (uint32_t i = 0; i <= 2 * k; i++) {
        const uint32_t n = i % (2 * k) == 0 ? 1 : 4 * side_of(i, k);
        const double up = 3.14159265358979 * i / (2.0 * k);
        for (uint32_t j = 0; j < n; j++) {
            const double around = 2 * 3.14159265358979 * j / n;
            place(&mesh->vertices[3 * (size_t)ring_vertex(i, k, j)], up, around, waves);
        }
    }
    uint32_t *t = mesh->triangles;
    for (uint32_t i = 0; i < 2 * k; i++) {
        t = put_band(t, i, k);
    }
    return WH_OK;
}

/* --- copies ---------------------------------------------------------------------------- */

/* How far the copies are from each other along each axis. */
static void steps_of(const wh_mesh *mesh, float step[3]) {
    float longest = 0;
    for (uint32_t c = 0; c < 3; c++) {
        float lo = INFINITY, hi = -INFINITY;
        for (uint64_t i = 0; i < mesh->n_vertices; i++) {
            const float x = mesh->vertices[3 * i + c];
            lo = x < lo ? x : lo;
            hi = x > hi ? x : hi;
        }
        step[c] = hi > lo ? hi - lo : 0;
        longest = step[c] > longest ? step[c] : longest;
    }
    for (uint32_t c = 0; c < 3; c++) {
        step[c] += longest > 0 ? longest / 10 : 1;
    }
}

static void put_copy(wh_mesh *to, const wh_mesh *from, uint64_t number, const float by[3]) {
    float *vertex = &to->vertices[3 * number * from->n_vertices];
    uint32_t *corner = &to->triangles[3 * number * from->n_triangles];
    const uint32_t first = (uint32_t)(number * from->n_vertices);
    for (uint64_t i = 0; i < 3 * from->n_vertices; i++) {
        vertex[i] = from->vertices[i] + by[i % 3];
    }
    for (uint64_t i = 0; i < 3 * from->n_triangles; i++) {
        corner[i] = from->triangles[i] + first;
    }
}

wh_status wh_mesh_copies(wh_mesh *to, const wh_mesh *from, uint32_t nx, uint32_t ny, uint32_t nz) {
    float step[3];
    const uint64_t most =
        from->n_vertices > from->n_triangles ? from->n_vertices : from->n_triangles;
    uint64_t room = most != 0 ? UINT32_MAX / most : UINT32_MAX; /* copies that can be numbered */
    memset(to, 0, sizeof *to);
    room = nx != 0 ? room / nx : 0;
    room = ny != 0 ? room / ny : 0;
    room = nz != 0 ? room / nz : 0;
    if (room == 0) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "%u x %u x %u copies of %llu triangles: at least one, and at most %u "
                          "vertices and triangles in all",
                          nx, ny, nz, (unsigned long long)from->n_triangles, UINT32_MAX);
    }
    const uint64_t n = (uint64_t)nx * ny * nz;
    const wh_status s = take_arrays(to, n * from->n_vertices, n * from->n_triangles);
    if (s != WH_OK) {
        return s;
    }
    steps_of(from, step);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t x = i % nx, y = i / nx % ny, z = i / nx / ny;
        const float by[3] = {step[0] * (float)x, step[1] * (float)y, step[2] * (float)z};
        put_copy(to, from, i, by);
    }
    return WH_OK;
}

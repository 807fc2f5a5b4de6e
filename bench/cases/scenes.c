/* scenes.c: the meshes of the cases kdtree*: files and grids of their copies, or made ones. */
#include <stdlib.h>
#include <string.h>

#include "bench/driver/internal.h"

/* --- files ------------------------------------------------------------------------------------ */

/* Whether the first n characters of a path end so. */
static int ends_so(const char *path, size_t n, const char *end) {
    const size_t m = strlen(end);
    return n >= m && memcmp(path + n - m, end, m) == 0;
}

int whi_bench_is_mesh(const char *path) {
    static const char *const ends[] = {".obj", ".ply", ".off", ".stl"};
    const size_t length = strlen(path);
    const size_t n = ends_so(path, length, ".gz") ? length - 3 : length;
    int is = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        is |= ends_so(path, n, ends[i]);
    }
    return is;
}

/* --- the list --------------------------------------------------------------------------------- */

static void add_scene(whi_bench *b, const char *name, const wh_mesh *file, whi_bench_made made) {
    whi_bench_scene *s = &b->scenes[b->n_scenes++];
    const unsigned copies = made.copies * made.copies * made.copies;
    s->file = file;
    s->made = made;
    if (copies == 1) {
        (void)snprintf(s->name, sizeof s->name, "%s", name);
    } else {
        (void)snprintf(s->name, sizeof s->name, "%.80s-x%u", name, copies);
    }
}

/* A file as it is, and grids of 8 and 64 copies unless they are too large. */
static void add_file(whi_bench *b, const char *path, const wh_mesh *mesh) {
    const char *slash = strrchr(path, '/');
    for (uint32_t k = 1; k <= 4; k *= 2) {
        if (k == 1 || mesh->n_triangles * k * k * k <= b->defaults->kd_most) {
            const whi_bench_made made = {0, k};
            add_scene(b, slash != NULL ? slash + 1 : path, mesh, made);
        }
    }
}

static void add_made(whi_bench *b, uint64_t triangles, uint32_t copies) {
    const whi_bench_made made = {triangles, copies};
    char name[48];
    (void)snprintf(name, sizeof name, "made-%llu", (unsigned long long)triangles);
    add_scene(b, name, NULL, made);
}

static int has_room(whi_bench *b) {
    const wh_bench_options *o = b->options;
    size_t n = 3 * o->n_inputs + o->n_threads;
    for (const whi_bench_made *m = b->defaults->kd_made; m->triangles != 0; m++) {
        n++;
    }
    b->meshes = calloc(o->n_inputs + 1, sizeof *b->meshes);
    b->scenes = calloc(n, sizeof *b->scenes);
    return b->meshes != NULL && b->scenes != NULL;
}

int whi_bench_load_scenes(whi_bench *b, char *error, size_t size) {
    const wh_bench_options *o = b->options;
    if (!has_room(b)) {
        (void)snprintf(error, size, "out of memory");
        return 0;
    }
    for (size_t i = 0; i < o->n_inputs; i++) {
        wh_mesh *mesh = &b->meshes[b->n_meshes];
        if (!whi_bench_is_mesh(o->inputs[i])) {
            continue;
        }
        const wh_status s = wh_mesh_read(mesh, o->inputs[i]);
        if (s != WH_OK || mesh->n_triangles == 0 || mesh->n_triangles > WH_KDTREE_MOST_TRIANGLES) {
            (void)snprintf(error, size, "'%s': %s", o->inputs[i],
                           s != WH_OK ? wh_last_error_text()
                                      : "a tree needs at least one triangle, and at most 2^28");
            return 0;
        }
        b->n_meshes++;
        add_file(b, o->inputs[i], mesh);
    }
    for (size_t i = 0; b->n_meshes == 0 && i < o->n_threads; i++) {
        add_made(b, o->threads[i], 1);
    }
    const whi_bench_made *own = b->defaults->kd_made;
    for (size_t i = 0; b->n_meshes == 0 && o->n_threads == 0 && own[i].triangles != 0; i++) {
        add_made(b, own[i].triangles, own[i].copies);
    }
    return 1;
}

void whi_bench_drop_scenes(whi_bench *b) {
    for (size_t i = 0; i < b->n_scenes; i++) {
        whi_bench_scene *s = &b->scenes[i];
        wh_mesh_free(&s->mesh);
        free(s->expected[0]);
        free(s->expected[1]);
    }
    for (size_t i = 0; i < b->n_meshes; i++) {
        wh_mesh_free(&b->meshes[i]);
    }
    free(b->scenes);
    free(b->meshes);
    b->scenes = NULL;
    b->meshes = NULL;
    b->n_scenes = b->n_meshes = 0;
}

/* --- a mesh ----------------------------------------------------------------------------------- */

wh_status whi_bench_make_scene(whi_bench *b, whi_bench_scene *scene) {
    const uint32_t k = scene->made.copies;
    wh_mesh made;
    wh_status s = WH_OK;
    memset(&made, 0, sizeof made);
    if (scene->mesh.n_triangles != 0) {
        return WH_OK;
    }
    if (scene->file == NULL) {
        s = wh_mesh_make(&made, scene->made.triangles, b->options->seed);
    }
    if (s == WH_OK) {
        s = wh_mesh_copies(&scene->mesh, scene->file != NULL ? scene->file : &made, k, k, k);
    }
    wh_mesh_free(&made);
    return s == WH_OK ? s : whi_bench_fail(b, s, "the mesh '%s'", scene->name);
}

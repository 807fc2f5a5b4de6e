/* 08_kdtree_render.c: a picture of a mesh, with shadows. A kernel follows one ray for each pixel
 * through a k-d tree, and one from where it hits towards the light. With several frames the mesh
 * twists, and each frame has a new tree.
 *
 *     08_kdtree_render [TARGET [MESH [PICTURE [WIDTH [FRAMES]]]]]
 *
 * TARGET: cuda or sim, as the program was built. MESH: a file of OBJ, PLY or the like, plain or
 * gzip, whose y axis points up; or how many triangles to make. PICTURE: where the last frame is
 * written, kdtree.png if nothing is said; without libpng it is a PGM. WIDTH: and height, in pixels.
 * Exit status 0: a sample of the pixels is as without the tree, and the heap is empty. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpheap/kdtree_device.h>
#include "workload/mesh/mesh.h"
#ifdef WITH_PNG
#include <png.h>
#endif

#define THREADS 128u
#define SAMPLE 512u /* pixels that are looked at again, or some fewer */
#define FAR_AWAY 1e30f

/* The ray of a pixel has the direction forward + x * right + y * up, with x and y in -1..1. */
typedef struct camera {
    float eye[3], forward[3], right[3], up[3];
} camera;

typedef struct render_args {
    wh_kdtree_ref tree;
    camera from;
    float light[3]; /* the direction towards it, of length 1 */
    float lift;     /* a shadow's ray begins so far above the surface */
    uint32_t width;
    uint32_t step; /* 1: each pixel; else one in so many */
    uint32_t all;  /* 1: without the tree, all triangles are tried */
    uint8_t *grey; /* of each of these pixels */
} render_args;

typedef struct twist_args {
    const float *rest; /* vertices as they were read */
    float *vertices;
    uint64_t n;
    float axis[3]; /* a point of the upright axis, at the bottom */
    float turn;    /* radians for each unit of height */
} twist_args;

/* Everything that lives as long as the program. */
typedef struct scene {
    wh_device *device;
    wh_heap *heap;
    wh_kdtree *tree;
    wh_kdtree_mesh mesh; /* in device memory */
    twist_args twist;
    render_args render;
    float height;
} scene;

/* --- kernels -----------------------------------------------------------------------------------
 */

WH_HD float dot(const float a[3], const float b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

WH_HD void cross(float to[3], const float a[3], const float b[3]) {
    to[0] = a[1] * b[2] - a[2] * b[1];
    to[1] = a[2] * b[0] - a[0] * b[2];
    to[2] = a[0] * b[1] - a[1] * b[0];
}

WH_HD void scale(float v[3], float length) {
    const float now = sqrtf(dot(v, v)), by = now > 0 ? length / now : 0;
    v[0] *= by, v[1] *= by, v[2] *= by;
}

/* A thread a vertex. */
WH_KERNEL(twist_mesh, twist_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const float x = a.rest[3 * i] - a.axis[0], y = a.rest[3 * i + 1];
        const float z = a.rest[3 * i + 2] - a.axis[2];
        const float angle = a.turn * (y - a.axis[1]);
        const float c = cosf(angle), s = sinf(angle);
        a.vertices[3 * i] = a.axis[0] + c * x - s * z;
        a.vertices[3 * i + 1] = y;
        a.vertices[3 * i + 2] = a.axis[2] + s * x + c * z;
    }
}

WH_FN wh_kdtree_ray ray_of(const render_args *a, uint64_t pixel) {
    const float half = (float)a->width / 2;
    const float x = ((float)(pixel % a->width) + 0.5f) / half - 1;
    const float y = 1 - ((float)(pixel / a->width) + 0.5f) / half;
    wh_kdtree_ray ray;
    for (uint32_t k = 0; k < 3; k++) {
        ray.origin[k] = a->from.eye[k];
        ray.direction[k] = a->from.forward[k] + x * a->from.right[k] + y * a->from.up[k];
    }
    ray.t_min = 0;
    ray.t_max = FAR_AWAY;
    return ray;
}

/* The side of a triangle that the ray meets. */
WH_FN void normal_of(float normal[3], const wh_kdtree_ref *tree, uint32_t triangle,
                     const wh_kdtree_ray *ray) {
    const uint32_t *corner = &tree->triangles[3 * (uint64_t)triangle];
    const float *p = &tree->vertices[3 * (uint64_t)corner[0]];
    const float *q = &tree->vertices[3 * (uint64_t)corner[1]];
    const float *r = &tree->vertices[3 * (uint64_t)corner[2]];
    const float a[3] = {q[0] - p[0], q[1] - p[1], q[2] - p[2]};
    const float b[3] = {r[0] - p[0], r[1] - p[1], r[2] - p[2]};
    cross(normal, a, b);
    scale(normal, dot(normal, ray->direction) > 0 ? -1.0f : 1.0f);
}

WH_FN wh_kdtree_hit hit_of(const render_args *a, wh_kdtree_ray ray, int any) {
    if (a->all != 0) {
        return wh_kdtree_hit_of_all(a->tree, ray, any);
    }
    return any ? wh_kdtree_any(a->tree, ray) : wh_kdtree_closest(a->tree, ray);
}

/* How bright a pixel is, 0..1: diffuse light, and a little from everywhere. */
WH_FN float shade(const render_args *a, uint64_t pixel) {
    const wh_kdtree_ray ray = ray_of(a, pixel);
    const wh_kdtree_hit hit = hit_of(a, ray, 0);
    float normal[3];
    if (hit.triangle == WH_KDTREE_NONE) {
        return 0.8f;
    }
    normal_of(normal, &a->tree, hit.triangle, &ray);
    const float light = dot(normal, a->light);
    if (!(light > 0)) { /* the side away from the light */
        return 0.05f;
    }
    wh_kdtree_ray shadow;
    for (uint32_t k = 0; k < 3; k++) {
        shadow.origin[k] = ray.origin[k] + hit.t * ray.direction[k] + a->lift * normal[k];
        shadow.direction[k] = a->light[k];
    }
    shadow.t_min = 0;
    shadow.t_max = FAR_AWAY;
    const int is_lit = hit_of(a, shadow, 1).triangle == WH_KDTREE_NONE;
    return 0.05f + (is_lit ? 0.75f * light : 0);
}

/* A thread a pixel. */
WH_KERNEL(render, render_args, a) {
    const uint64_t pixels = (uint64_t)a.width * a.width;
    for (uint64_t i = wh_thread_id(); i * a.step < pixels; i += wh_grid_threads()) {
        a.grey[i] = (uint8_t)(255 * sqrtf(shade(&a, i * a.step))); /* as screens want it */
    }
}

/* --- the host ----------------------------------------------------------------------------------
 */

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Of WH_DEVICE_ERROR wh_device_error_text says more. */
static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_last_error_text());
        fail(wh_status_text(status));
    }
}

static void *memory(size_t bytes) {
    void *p = malloc(bytes);
    if (p == NULL) {
        fail("no memory");
    }
    return p;
}

static void *device_memory(wh_device *device, const void *from, uint64_t bytes) {
    void *p = NULL;
    must(wh_device_alloc(device, &p, bytes));
    if (from != NULL) {
        must(wh_device_copy_in(device, p, from, bytes));
    }
    return p;
}

static wh_launch threads_for(wh_device *device, uint64_t n) {
    const uint64_t blocks = n / THREADS + 1;
    return wh_grid(device, blocks < 1u << 20 ? (uint32_t)blocks : 1u << 20, THREADS);
}

static wh_mesh get_mesh(const char *name) {
    wh_mesh mesh;
    char *end = NULL;
    const unsigned long long n = strtoull(name, &end, 10);
    if (*end == '\0' && (n == 0 || n > WH_KDTREE_MOST_TRIANGLES)) {
        fail("a mesh has 1 to 268435456 triangles");
    }
    if (*end == '\0') {
        must(wh_mesh_make(&mesh, n, 1));
    } else {
        must(wh_mesh_read(&mesh, name));
    }
    return mesh;
}

static void box_of(const wh_mesh *mesh, float lo[3], float hi[3]) {
    for (uint32_t k = 0; k < 3; k++) {
        lo[k] = INFINITY;
        hi[k] = -INFINITY;
        for (uint64_t i = 0; i < mesh->n_vertices; i++) {
            const float x = mesh->vertices[3 * i + k];
            lo[k] = x < lo[k] ? x : lo[k];
            hi[k] = x > hi[k] ? x : hi[k];
        }
    }
}

/* A floor below the mesh, for shadows to fall on: four vertices and two triangles more. */
static void add_floor(wh_mesh *mesh, const float middle[3], float bottom, float size) {
    static const uint32_t corner[6] = {0, 2, 1, 1, 2, 3};
    wh_mesh with;
    with.n_vertices = mesh->n_vertices + 4;
    with.n_triangles = mesh->n_triangles + 2;
    with.vertices = (float *)memory((size_t)with.n_vertices * 12);
    with.triangles = (uint32_t *)memory((size_t)with.n_triangles * 12);
    memcpy(with.vertices, mesh->vertices, (size_t)mesh->n_vertices * 12);
    memcpy(with.triangles, mesh->triangles, (size_t)mesh->n_triangles * 12);
    for (uint32_t k = 0; k < 4; k++) {
        float *v = &with.vertices[3 * (mesh->n_vertices + k)];
        v[0] = middle[0] + ((k & 1) != 0 ? size : -size);
        v[1] = bottom;
        v[2] = middle[2] + ((k & 2) != 0 ? size : -size);
    }
    for (uint32_t k = 0; k < 6; k++) {
        with.triangles[3 * mesh->n_triangles + k] = (uint32_t)mesh->n_vertices + corner[k];
    }
    wh_mesh_free(mesh);
    *mesh = with;
}

/* From the front, a little to the right, and above. size: of half the picture. */
static void place_camera(camera *c, const float middle[3], float size) {
    static const float upright[3] = {0, 1, 0};
    const float away[3] = {0.9f, 0.8f, 2.4f};
    for (uint32_t k = 0; k < 3; k++) {
        c->eye[k] = middle[k] + size * away[k];
        c->forward[k] = -size * away[k];
    }
    cross(c->right, c->forward, upright);
    cross(c->up, c->right, c->forward);
    scale(c->right, size);
    scale(c->up, size);
}

/* Puts mesh, floor, camera and light into the scene. */
static void place(scene *s, wh_mesh *mesh, uint32_t width) {
    static const float light[3] = {-0.6f, 1, 0.5f};
    float lo[3], hi[3], middle[3], size = 0;
    const uint64_t moving = mesh->n_vertices;
    box_of(mesh, lo, hi);
    for (uint32_t k = 0; k < 3; k++) {
        middle[k] = (lo[k] + hi[k]) / 2;
        size = hi[k] - lo[k] > size ? hi[k] - lo[k] : size;
    }
    if (!(size > 0 && size < WH_KDTREE_MOST_COORDINATE / 64)) {
        fail("the mesh is a point, or too large");
    }
    add_floor(mesh, middle, lo[1] - size / 1000, 2.5f * size);
    s->height = size;
    s->twist.rest = (float *)device_memory(s->device, mesh->vertices, mesh->n_vertices * 12);
    s->twist.vertices = (float *)device_memory(s->device, mesh->vertices, mesh->n_vertices * 12);
    s->twist.n = moving;
    s->twist.axis[0] = middle[0], s->twist.axis[1] = lo[1], s->twist.axis[2] = middle[2];
    s->mesh.vertices = s->twist.vertices;
    s->mesh.triangles =
        (uint32_t *)device_memory(s->device, mesh->triangles, mesh->n_triangles * 12);
    s->mesh.n_vertices = mesh->n_vertices;
    s->mesh.n_triangles = mesh->n_triangles;
    place_camera(&s->render.from, middle, 0.75f * size);
    memcpy(s->render.light, light, sizeof light);
    scale(s->render.light, 1);
    s->render.lift = size / 10000;
    s->render.width = width;
    s->render.grey = (uint8_t *)device_memory(s->device, NULL, (uint64_t)width * width);
}

static void make_tree(scene *s) {
    wh_heap_options heap_options = {0};
    wh_kdtree_options options = {0};
    heap_options.bytes = ((uint64_t)64 << 20) + 160 * s->mesh.n_triangles;
    heap_options.device = s->device;
    must(wh_heap_create(&s->heap, &heap_options));
    options.heap = s->heap;
    options.most_triangles = s->mesh.n_triangles;
    must(wh_kdtree_create(&s->tree, &options));
}

/* Microseconds. */
typedef struct times {
    double build, render; /* the mesh's twist is a part of build */
} times;

/* One frame, the mesh twisted by so many radians from bottom to top. All of it is on one stream:
 * the host waits at the end of each part only to time it. */
static void make_frame(scene *s, float radians, times *t) {
    const uint64_t pixels = (uint64_t)s->render.width * s->render.width;
    const wh_launch vertices = threads_for(s->device, s->twist.n);
    const wh_launch rays = threads_for(s->device, pixels);
    s->twist.turn = radians / s->height;
    s->render.step = 1;
    s->render.all = 0;
    must(wh_device_timer_begin(s->device));
    must(twist_mesh(&vertices, &s->twist));
    must(wh_kdtree_build(s->tree, &s->mesh, NULL));
    must(wh_kdtree_handle(s->tree, &s->render.tree));
    must(wh_device_timer_end(s->device, &t->build));
    must(wh_device_timer_begin(s->device));
    must(render(&rays, &s->render));
    must(wh_device_timer_end(s->device, &t->render));
}

/* Whether a sample of the pixels is the same without the tree. */
static int is_right(const scene *s, const uint8_t *picture) {
    uint8_t *sample = (uint8_t *)memory(SAMPLE);
    const uint64_t pixels = (uint64_t)s->render.width * s->render.width;
    render_args a = s->render;
    uint64_t wrong = 0, i = 0;
    a.step = (uint32_t)(pixels / SAMPLE) + 1;
    a.all = 1;
    a.grey = (uint8_t *)device_memory(s->device, NULL, SAMPLE);
    const wh_launch rays = threads_for(s->device, SAMPLE);
    must(render(&rays, &a));
    must(wh_device_copy_out(s->device, sample, a.grey, SAMPLE));
    for (; i * a.step < pixels; i++) {
        wrong += sample[i] != picture[i * a.step] ? 1 : 0;
    }
    printf("%llu pixels tried without the tree, %llu differ\n", (unsigned long long)i,
           (unsigned long long)wrong);
    must(wh_device_free(s->device, a.grey));
    free(sample);
    return wrong == 0;
}

#ifdef WITH_PNG
static int write_picture(const uint8_t *grey, uint32_t width, FILE *file) {
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.width = image.height = width;
    image.format = PNG_FORMAT_GRAY;
    return png_image_write_to_stdio(&image, file, 0, grey, 0, NULL) != 0;
}
#else
static int write_picture(const uint8_t *grey, uint32_t width, FILE *file) {
    const size_t pixels = (size_t)width * width;
    return fprintf(file, "P5\n%u %u\n255\n", (unsigned)width, (unsigned)width) > 0 &&
           fwrite(grey, 1, pixels, file) == pixels;
}
#endif

static void print_frame(uint32_t frame, const times *t, const wh_kdtree_result *r) {
    printf("frame %u: build %.3f ms, rays %.3f ms; %llu nodes, %llu references, depth %u\n",
           (unsigned)frame, t->build / 1000, t->render / 1000, (unsigned long long)r->nodes,
           (unsigned long long)r->references, (unsigned)r->depth);
}

/* All frames; the first and the last one are told of. Returns the blocks of the heap that trees
 * have kept, which is none. */
static uint64_t make_frames(scene *s, uint32_t frames) {
    wh_kdtree_result result;
    wh_stats stats = {0};
    double us = 0;
    for (uint32_t f = 0; f < frames; f++) {
        times t;
        make_frame(s, 0.8f * sinf(6.2831853f * (float)f / (float)frames), &t);
        must(wh_kdtree_finish(s->tree, &result));
        us += t.build + t.render;
        if (f == 0 || f == frames - 1) {
            print_frame(f, &t, &result);
        }
    }
    must(wh_heap_get_stats(s->heap, &stats));
    printf("%u frames, %.1f each second; %llu blocks in the heap\n", (unsigned)frames,
           us > 0 ? 1e6 * frames / us : 0, (unsigned long long)stats.live_blocks);
    return stats.live_blocks;
}

static void destroy(scene *s) {
    must(wh_kdtree_destroy(s->tree));
    wh_heap_destroy(s->heap);
    must(wh_device_free(s->device, (void *)s->twist.rest));
    must(wh_device_free(s->device, s->twist.vertices));
    must(wh_device_free(s->device, (void *)s->mesh.triangles));
    must(wh_device_free(s->device, s->render.grey));
    wh_device_close(s->device);
}

static uint32_t number(const char *text, uint32_t most) {
    char *end = NULL;
    const unsigned long n = strtoul(text, &end, 10);
    if (n == 0 || n > most || *end != 0) {
        fail("usage: 08_kdtree_render [TARGET [MESH [PICTURE [WIDTH [FRAMES]]]]]");
    }
    return (uint32_t)n;
}

/* Argument i, or what it is if it is not there. */
static const char *argument(int argc, char **argv, int i, int is_sim) {
    static const char *const usual[2][4] = {{"100000", "kdtree.png", "1024", "100"},
                                            {"500", "kdtree.png", "64", "3"}};
    return argc > i ? argv[i] : usual[is_sim][i - 2];
}

int main(int argc, char **argv) {
    scene s;
    memset(&s, 0, sizeof s);
    const char *target = argc > 1 && strcmp(argv[1], "auto") != 0 ? argv[1] : WH_TARGET_NAME;
    must(wh_device_open(&s.device, target, NULL));
    const int is_sim = wh_device_get_info(s.device)->target == WH_TARGET_SIM;
    const char *path = argument(argc, argv, 3, is_sim);
    const uint32_t width = number(argument(argc, argv, 4, is_sim), 16384);
    const uint32_t frames = number(argument(argc, argv, 5, is_sim), 1000000);
    wh_mesh mesh = get_mesh(argument(argc, argv, 2, is_sim));
    place(&s, &mesh, width);
    printf("%llu triangles, %llu vertices, with the floor\n", (unsigned long long)mesh.n_triangles,
           (unsigned long long)mesh.n_vertices);
    wh_mesh_free(&mesh);
    make_tree(&s);
    const uint64_t kept = make_frames(&s, frames);
    uint8_t *picture = (uint8_t *)memory((size_t)width * width);
    must(wh_device_copy_out(s.device, picture, s.render.grey, (uint64_t)width * width));
    const int right = is_right(&s, picture);
    FILE *file = fopen(path, "wb");
    const int is_written = file != NULL && write_picture(picture, width, file);
    if ((file != NULL && fclose(file) != 0) || !is_written) {
        perror(path);
        exit(1);
    }
    destroy(&s);
    free(picture);
    return right && kept == 0 ? 0 : 1;
}

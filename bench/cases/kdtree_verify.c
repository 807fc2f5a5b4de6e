/* kdtree_verify.c: see kdtree.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/kdtree.h"
#include "bench/cases/ops.h"

/* --- memory ----------------------------------------------------------------------------------- */

wh_status whi_kdb_memory(whi_kdb *k, void *p, uint64_t bytes) {
    whi_bench *b = k->b;
    void *memory = NULL;
    if (k->n_kept == WHI_KDB_KEPT) {
        return whi_bench_fail(b, WH_BAD_ARGUMENT, "too many arrays in a case");
    }
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_alloc(b->device, &memory, bytes + 8), "a mesh"));
    k->kept[k->n_kept++] = memory;
    memcpy(p, &memory, sizeof memory);
    return WH_OK;
}

void whi_kdb_forget(whi_kdb *k, size_t n) {
    while (k->n_kept > n) {
        (void)wh_device_free(k->b->device, k->kept[--k->n_kept]);
    }
}

/* *p: a copy, on the device. */
static wh_status upload(whi_kdb *k, void *p, const void *host, uint64_t bytes) {
    void *memory = NULL;
    WHI_BENCH_TRY(whi_kdb_memory(k, &memory, bytes));
    memcpy(p, &memory, sizeof memory);
    const wh_status s = bytes != 0 ? wh_device_copy_in(k->b->device, memory, host, bytes) : WH_OK;
    return whi_bench_check(k->b, s, "a mesh");
}

/* --- rays and shapes -------------------------------------------------------------------------- */

/* In 0..1, of a hash. */
static float unit_of(uint64_t seed, uint64_t i) {
    uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15u + i;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (float)((x ^ x >> 31) >> 40) * 0x1p-24f;
}

static void find_box(whi_kdb *k) {
    const wh_mesh *m = &k->scene->mesh;
    for (uint32_t c = 0; c < 3; c++) {
        float lo = INFINITY, hi = -INFINITY;
        for (uint64_t i = 0; i < m->n_vertices; i++) {
            const float v = m->vertices[3 * i + c];
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
        k->lo[c] = lo <= hi ? lo : 0;
        k->hi[c] = lo <= hi ? hi : 0;
    }
}

/* From a sphere around the box, through a point of the box. */
static wh_kdtree_ray make_ray(const whi_kdb *k, uint64_t i) {
    const float up = 2 * unit_of(k->b->seed, 5 * i) - 1;
    const float around = 6.2831853f * unit_of(k->b->seed, 5 * i + 1);
    const float flat = sqrtf(1 - up * up);
    const float at[3] = {flat * cosf(around), flat * sinf(around), up};
    float size = 0;
    wh_kdtree_ray r;
    memset(&r, 0, sizeof r);
    for (uint32_t c = 0; c < 3; c++) {
        size += (k->hi[c] - k->lo[c]) * (k->hi[c] - k->lo[c]);
    }
    for (uint32_t c = 0; c < 3; c++) {
        const float width = k->hi[c] - k->lo[c];
        const float target = k->lo[c] + width * unit_of(k->b->seed, 5 * i + 2 + c);
        r.origin[c] = k->lo[c] + width / 2 + 0.75f * sqrtf(size) * at[c];
        r.direction[c] = target - r.origin[c];
    }
    r.t_max = INFINITY;
    return r;
}

static wh_status make_rays(whi_kdb *k) {
    whi_bench *b = k->b;
    const uint64_t n = b->defaults->kd_rays;
    wh_kdtree_ray *rays = malloc(n * sizeof *rays);
    if (rays == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "rays");
    }
    for (uint64_t i = 0; i < n; i++) {
        rays[i] = make_ray(k, i);
    }
    const wh_status s = upload(k, &k->rays, rays, n * sizeof *rays);
    free(rays);
    return s;
}

/* Each corner moves by up to a twentieth of the box's width, along z by where it is along x. */
static void bend(const whi_kdb *k, uint32_t shape, float *to) {
    const wh_mesh *m = &k->scene->mesh;
    const float width = k->hi[0] - k->lo[0], turn = 6.2831853f;
    for (uint64_t i = 0; i < m->n_vertices; i++) {
        const float *v = m->vertices + 3 * i;
        const float along = width > 0 ? (v[0] - k->lo[0]) / width : 0;
        const float phase = (float)shape / (float)WHI_KDB_SHAPES + along;
        to[3 * i] = v[0];
        to[3 * i + 1] = v[1];
        to[3 * i + 2] = v[2] + 0.05f * width * sinf(turn * phase);
    }
}

wh_status whi_kdb_make_shapes(whi_kdb *k) {
    whi_bench *b = k->b;
    const uint64_t bytes = 12 * k->scene->mesh.n_vertices;
    wh_status s = WH_OK;
    float *bent = malloc(bytes + 4);
    if (bent == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "a mesh");
    }
    for (uint32_t i = 0; s == WH_OK && i < WHI_KDB_SHAPES && k->shapes[i] == NULL; i++) {
        bend(k, i, bent);
        s = upload(k, &k->shapes[i], bent, bytes);
    }
    free(bent);
    return s;
}

wh_status whi_kdb_begin(whi_bench *b, whi_kdb *k, whi_bench_scene *scene) {
    memset(k, 0, sizeof *k);
    k->b = b;
    k->scene = scene;
    WHI_BENCH_TRY(whi_bench_make_scene(b, scene));
    const wh_mesh *m = &scene->mesh;
    void *vertices = NULL, *triangles = NULL;
    k->found = malloc(b->defaults->kd_verified * sizeof *k->found);
    if (k->found == NULL) {
        return whi_bench_fail(b, WH_OUT_OF_MEMORY, "rays");
    }
    WHI_BENCH_TRY(upload(k, &vertices, m->vertices, 12 * m->n_vertices));
    WHI_BENCH_TRY(upload(k, &triangles, m->triangles, 12 * m->n_triangles));
    k->mesh.vertices = vertices;
    k->mesh.triangles = triangles;
    k->mesh.n_vertices = m->n_vertices;
    k->mesh.n_triangles = m->n_triangles;
    find_box(k);
    WHI_BENCH_TRY(make_rays(k));
    return whi_kdb_memory(k, &k->hits, b->defaults->kd_rays * sizeof *k->hits);
}

void whi_kdb_end(whi_kdb *k) {
    (void)wh_kdtree_destroy(k->tree);
    k->tree = NULL;
    whi_kdb_forget(k, 0);
    free(k->found);
    k->found = NULL;
}

/* --- a tree ----------------------------------------------------------------------------------- */

wh_status whi_kdb_create(whi_kdb *k, wh_heap *heap, wh_status *said) {
    const whi_bench *b = k->b;
    const uint64_t n = k->mesh.n_triangles;
    wh_kdtree_options o;
    memset(&o, 0, sizeof o);
    o.heap = heap;
    o.most_triangles = n;
    o.kind = k->kind;
    if (k->kind == WH_KDTREE_BOXES) {
        o.most_nodes = 32 * n + 65536;
    }
    if (heap == b->heap && whi_ops_has_one_size(b)) { /* arrays that fit a page */
        o.block_references = o.shared_references = (uint32_t)(b->defaults->kd_page / 4);
    }
    *said = wh_kdtree_create(&k->tree, &o);
    const int is_told = *said == WH_OUT_OF_MEMORY || *said == WH_UNSUPPORTED;
    return is_told ? WH_OK : whi_bench_check(k->b, *said, "a tree");
}

wh_status whi_kdb_destroy(whi_kdb *k) {
    wh_kdtree *tree = k->tree;
    k->tree = NULL;
    return whi_bench_check(k->b, wh_kdtree_destroy(tree), "the end of a tree");
}

/* The rays that are compared, to the host. */
static wh_status find_hits(whi_kdb *k, uint32_t all_triangles, wh_kdtree_hit *to) {
    whi_bench *b = k->b;
    wh_kdtree_rays r;
    memset(&r, 0, sizeof r);
    r.rays = k->rays;
    r.hits = k->hits;
    r.n = b->defaults->kd_verified;
    r.all_triangles = all_triangles;
    WHI_BENCH_TRY(whi_bench_check(b, wh_kdtree_trace(k->tree, &r, NULL), "rays"));
    WHI_BENCH_TRY(whi_bench_check(b, wh_device_sync(b->device), "rays"));
    return whi_bench_check(b, wh_device_copy_out(b->device, to, k->hits, r.n * sizeof *to), "rays");
}

static wh_status compare_rays(whi_kdb *k, int is_frame, int *is_right) {
    whi_bench *b = k->b;
    const size_t bytes = b->defaults->kd_verified * sizeof *k->found;
    wh_kdtree_hit **expected = &k->scene->expected[is_frame];
    if (*expected == NULL) {
        *expected = malloc(bytes);
        if (*expected == NULL) {
            return whi_bench_fail(b, WH_OUT_OF_MEMORY, "rays");
        }
        WHI_BENCH_TRY(find_hits(k, 1, *expected));
    }
    WHI_BENCH_TRY(find_hits(k, 0, k->found));
    *is_right &= memcmp(k->found, *expected, bytes) == 0;
    return WH_OK;
}

wh_status whi_kdb_verify(whi_kdb *k, int is_frame, int *is_right) {
    const wh_kdtree_result *r = &k->result;
    const uint64_t n = k->mesh.n_triangles;
    *is_right = r->nodes == 2 * r->leaves - 1 && r->empty_leaves <= r->leaves &&
                r->cut_leaves <= r->leaves && r->references + r->skipped >= n;
    if (k->kind == WH_KDTREE_POINTS) {
        *is_right &= r->references + r->skipped == n;
        return WH_OK;
    }
    return compare_rays(k, is_frame, is_right);
}

wh_status whi_kdb_verify_all(whi_kdb *k, int *is_right) {
    whi_bench *b = k->b;
    whi_bench_plan p;
    if (k->mesh.n_triangles <= b->defaults->kd_checked) {
        const wh_status s = wh_kdtree_check(k->tree, NULL);
        *is_right &= s != WH_CORRUPT;
        WHI_BENCH_TRY(s == WH_CORRUPT ? WH_OK : whi_bench_check(b, s, "a check of a tree"));
    }
    memset(&p, 0, sizeof p);
    p.b = b;
    WHI_BENCH_TRY(whi_bench_expect_empty(&p));
    *is_right &= p.mallocs.bad == 0;
    return WH_OK;
}

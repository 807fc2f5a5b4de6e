/* trees.h: a tree on a simulated device, and what of it every test looks at. Included once per
 * program. */
#ifndef KDTREE_TREES_H
#define KDTREE_TREES_H

#include "meshes.h"

#include "warpheap/kdtree.h"
#include "warpheap/warpheap.h"

enum { MOST_RAYS = 400 };

static mesh the_mesh;

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_kdtree_options o;
    wh_kdtree *tree;
    wh_kdtree_mesh mesh;
    wh_kdtree_ray *rays; /* device memory, which the host may read */
    wh_kdtree_hit *hits[2];
    uint64_t random;
} context;

static void open_all(context *x, uint64_t seed, uint64_t heap_bytes, const char *allocator) {
    wh_heap_options ho;
    wh_sim_options so;
    memset(x, 0, sizeof *x);
    memset(&ho, 0, sizeof ho);
    memset(&so, 0, sizeof so);
    so.policy = (wh_sim_policy)(seed % N_POLICIES);
    so.seed = seed;
    so.weak = seed % 5 == 1 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
    so.weak = seed % 15 == 7 ? WH_SIM_WEAK_FORMAL : so.weak;
    so.workers = so.weak == 0 && seed % 7 == 3 ? 2 : 0;
    x->device = open_with(&so);
    ho.device = x->device;
    ho.bytes = heap_bytes;
    ho.allocator = allocator;
    assert_int_equal(wh_heap_create(&x->heap, &ho), WH_OK);
    x->random = seed;
    x->o.heap = x->heap;
    x->rays = take(x->device, MOST_RAYS * sizeof *x->rays);
    for (uint32_t k = 0; k < 2; k++) {
        x->hits[k] = take(x->device, MOST_RAYS * sizeof *x->hits[k]);
    }
}

/* Large nodes begin at so many references that each build has some, and their chunks and arrays are
 * small. */
static void make_tiny(context *x, uint64_t seed) {
    x->o.shared_references = 3 + (uint32_t)(seed * 37 % 83);
    x->o.chunk_references = 1 + (uint32_t)(seed * 7 % 50);
    x->o.block_references = x->o.shared_references + (uint32_t)(seed * 3 % 30);
}

static uint64_t live_blocks(context *x) {
    wh_stats stats;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    return stats.live_blocks;
}

static int can_free(const context *x) {
    const uint32_t both = WH_CAP_FREE | WH_CAP_STATS;
    return (wh_heap_allocator(x->heap)->caps & both) == both;
}

static void close_all(context *x) {
    assert_int_equal(wh_kdtree_destroy(x->tree), WH_OK);
    if (can_free(x)) {
        assert_int_equal(live_blocks(x), 0); /* nothing is lost */
    }
    const wh_status s = wh_heap_check(x->heap, NULL);
    assert_true(s == WH_OK || s == WH_UNSUPPORTED);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

/* The mesh to the device. */
static void load(context *x, const mesh *m) {
    float *vertices = take(x->device, m->n_vertices * 12 + 4);
    uint32_t *triangles = take(x->device, m->n * 12 + 4);
    assert_int_equal(wh_device_copy_in(x->device, vertices, m->vertex, m->n_vertices * 12), WH_OK);
    assert_int_equal(wh_device_copy_in(x->device, triangles, m->triangle, m->n * 12), WH_OK);
    memset(&x->mesh, 0, sizeof x->mesh);
    x->mesh.vertices = vertices;
    x->mesh.triangles = triangles;
    x->mesh.n_vertices = m->n_vertices;
    x->mesh.n_triangles = m->n;
}

static void create(context *x) {
    x->o.most_triangles = x->mesh.n_triangles;
    assert_int_equal(wh_kdtree_create(&x->tree, &x->o), WH_OK);
}

static void expect_sound(context *x) {
    wh_kdtree_report report;
    const wh_status s = wh_kdtree_check(x->tree, &report);
    if (s != WH_OK) {
        print_error("%s\n", wh_last_error_text());
    }
    assert_int_equal(s, WH_OK);
}

static wh_kdtree_result build(context *x, wh_status expected) {
    wh_kdtree_result r;
    assert_int_equal(wh_kdtree_build(x->tree, &x->mesh, NULL), WH_OK);
    const wh_status s = wh_kdtree_finish(x->tree, &r);
    if (s != expected) {
        print_error("%s %s\n", wh_device_error_text(x->device), wh_last_error_text());
    }
    assert_int_equal(s, expected);
    assert_int_equal(r.nodes, 2 * r.leaves - 1);
    assert_true(r.cut_leaves != 0 || s == WH_OK);
    expect_sound(x);
    return r;
}

static void trace(context *x, uint32_t n, uint32_t any, uint32_t all, wh_kdtree_hit *hits) {
    wh_kdtree_rays rays;
    memset(&rays, 0, sizeof rays);
    rays.rays = x->rays;
    rays.hits = hits;
    rays.n = n;
    rays.any_hit = any;
    rays.all_triangles = all;
    assert_int_equal(wh_kdtree_trace(x->tree, &rays, NULL), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
}

/* Rays find the same with and without the tree. How many have found something. */
static uint32_t compare_rays(context *x, const mesh *m, uint32_t n) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        const wh_kdtree_ray r = make_ray(m, i, &x->random);
        assert_int_equal(wh_device_copy_in(x->device, &x->rays[i], &r, sizeof r), WH_OK);
    }
    trace(x, n, 0, 0, x->hits[0]);
    trace(x, n, 0, 1, x->hits[1]);
    assert_memory_equal(x->hits[0], x->hits[1], n * sizeof *x->hits[0]);
    trace(x, n, 1, 0, x->hits[0]);
    for (uint32_t i = 0; i < n; i++) {
        const int is_hit = x->hits[1][i].triangle != WH_KDTREE_NONE;
        assert_int_equal(x->hits[0][i].triangle != WH_KDTREE_NONE, is_hit);
        assert_true(!is_hit || x->hits[0][i].t >= x->hits[1][i].t);
        found += is_hit ? 1 : 0;
    }
    return found;
}

#endif

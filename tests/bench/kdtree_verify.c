/* kdtree_verify.c: what the cases kdtree* look at notices a tree that is wrong: a leaf without its
 * triangles, numbers that do not agree, triangles that have moved since, blocks that are not given
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/kdtree.h"
#include "bench/cases/ops.h"
#include "warpheap/kdtree_device.h"

enum { TRIANGLES = 300, HEAP_BYTES = 1 << 20 };

typedef struct context {
    whi_bench b;
    wh_bench_options options;
    whi_bench_scene scene;
    whi_kdb k;
} context;

static context the_context;

/* A tree of a mesh of this seed. */
static context *open_all(uint64_t seed, wh_kdtree_kind kind) {
    context *x = &the_context;
    whi_bench *b = &x->b;
    void *counts = NULL;
    wh_status said;
    memset(x, 0, sizeof *x);
    b->options = &x->options;
    b->seed = x->options.seed = seed;
    b->on_sim = 1;
    b->defaults = whi_bench_defaults_for(1);
    b->alloc = wh_allocator_find("tessera");
    assert_int_equal(wh_device_open(&b->device, "sim", NULL), WH_OK);
    b->info = wh_device_get_info(b->device);
    b->kernels = wh_bench_kernels_find(b->alloc->name, WH_TARGET_SIM);
    assert_int_equal(wh_device_alloc(b->device, &counts, sizeof(wh_bench_counts)), WH_OK);
    b->arrays.counts = counts;
    assert_int_equal(whi_ops_try_heap(b, HEAP_BYTES, 4096), WH_OK);
    x->scene.made.triangles = TRIANGLES;
    x->scene.made.copies = 1;
    assert_int_equal(whi_kdb_begin(b, &x->k, &x->scene), WH_OK);
    x->k.kind = kind;
    assert_int_equal(whi_kdb_create(&x->k, b->heap, &said), WH_OK);
    assert_int_equal(said, WH_OK);
    return x;
}

static void close_all(context *x) {
    whi_bench *b = &x->b;
    whi_kdb_end(&x->k);
    whi_bench_close_heap(b);
    wh_mesh_free(&x->scene.mesh);
    for (uint32_t i = 0; i < 2; i++) {
        free(x->scene.expected[i]);
    }
    assert_int_equal(wh_device_free(b->device, b->arrays.ptrs), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->arrays.counts), WH_OK);
    wh_device_close(b->device);
}

static void build(context *x, const wh_kdtree_mesh *mesh) {
    assert_int_equal(wh_kdtree_build(x->k.tree, mesh, NULL), WH_OK);
    assert_int_equal(wh_kdtree_finish(x->k.tree, &x->k.result), WH_OK);
}

static int is_right(context *x, int is_frame) {
    int is = 0;
    assert_int_equal(whi_kdb_verify(&x->k, is_frame, &is), WH_OK);
    return is;
}

static int is_all_right(context *x) {
    int is = 1;
    assert_int_equal(whi_kdb_verify_all(&x->k, &is), WH_OK);
    return is;
}

/* Takes the triangles out of the first n leaves that have some; nodes are where the host can write,
 * the device being simulated. */
static void empty_leaves(context *x, uint64_t n) {
    wh_kdtree_ref ref;
    assert_int_equal(wh_kdtree_handle(x->k.tree, &ref), WH_OK);
    for (uint64_t i = 0; n != 0; i++) {
        wh_kdtree_node node = ref.nodes[i];
        if ((node.rest & 3) == WH_KDTREE_LEAF && node.rest >> 2 != 0 && node.rest != UINT32_MAX) {
            node.rest = WH_KDTREE_LEAF;
            memcpy((void *)(uintptr_t)&ref.nodes[i], &node, sizeof node);
            n--;
        }
    }
}

static void test_leaves(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        context *x = open_all(seed, seed % 2 == 0 ? WH_KDTREE_CLIPPED : WH_KDTREE_BOXES);
        build(x, &x->k.mesh);
        assert_true(is_right(x, 0));
        assert_true(is_all_right(x));
        empty_leaves(x, 1);
        assert_false(is_all_right(x)); /* by its leaves */
        const uint64_t left = x->k.result.leaves - x->k.result.empty_leaves - 1;
        empty_leaves(x, left);
        assert_false(is_right(x, 0)); /* by rays */
        build(x, &x->k.mesh);
        assert_true(is_right(x, 0));
        close_all(x);
    }
}

/* What rays must find is that of the mesh, not that of the tree. */
static void test_frames(void **state) {
    (void)state;
    context *x = open_all(3, WH_KDTREE_CLIPPED);
    assert_int_equal(whi_kdb_make_shapes(&x->k), WH_OK);
    wh_kdtree_mesh bent = x->k.mesh;
    build(x, &x->k.mesh);
    assert_true(is_right(x, 0));
    bent.vertices = x->k.shapes[1];
    build(x, &bent);
    assert_true(is_right(x, 1));
    assert_false(is_right(x, 0));
    bent.vertices = x->k.shapes[2];
    build(x, &bent);
    assert_false(is_right(x, 1)); /* another frame */
    close_all(x);
}

static void test_numbers(void **state) {
    (void)state;
    context *x = open_all(5, WH_KDTREE_POINTS);
    build(x, &x->k.mesh);
    assert_true(is_right(x, 0));
    assert_true(is_all_right(x));
    const wh_kdtree_result r = x->k.result;
    x->k.result.references--;
    assert_false(is_right(x, 0));
    x->k.result = r;
    x->k.result.nodes++;
    assert_false(is_right(x, 0));
    x->k.result = r;
    x->k.result.cut_leaves = r.leaves + 1;
    assert_false(is_right(x, 0));
    close_all(x);
}

static void test_blocks(void **state) {
    whi_bench_plan p;
    (void)state;
    context *x = open_all(6, WH_KDTREE_CLIPPED);
    build(x, &x->k.mesh);
    assert_true(is_all_right(x));
    assert_int_equal(whi_bench_begin(&x->b, &p, HEAP_BYTES, (whi_bench_blocks){1, 64, 64}), WH_OK);
    assert_int_equal(whi_bench_launch(&p, x->b.kernels->malloc_single, 1), WH_OK);
    assert_false(is_all_right(x));
    close_all(x);
}

static void test_names(void **state) {
    static const char *const meshes[] = {"a.obj", "x/b.ply", "c.off.gz", "d.stl", "e.obj.gz"};
    static const char *const graphs[] = {"a.mtx", "obj", "x.obj/b.txt", "c.graph.gz", "d.gz", ""};
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        assert_true(whi_bench_is_mesh(meshes[i]));
    }
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        assert_false(whi_bench_is_mesh(graphs[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves),  cmocka_unit_test(test_frames),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

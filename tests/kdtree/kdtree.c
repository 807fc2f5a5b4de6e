/* kdtree.c: k-d trees built by every policy of the simulated device, with large nodes of all sizes:
 * each leaf is looked at in double precision, rays find what they find without a tree, bit for bit,
 * and trees are as good as those of a simple builder. Strange meshes; frames. */
#include "reference.h"
#include "trees.h"

/* --- trees ------------------------------------------------------------------------------------ */

static uint32_t build_random(uint64_t seed, const char *allocator) {
    context x;
    open_all(&x, seed, 8 << 20, allocator);
    make_tiny(&x, seed);
    x.o.kind = seed % 4 == 0 ? WH_KDTREE_BOXES : WH_KDTREE_CLIPPED;
    x.o.leaf_references = (uint32_t)(seed % 3) * 2;
    make_mesh(&the_mesh, (mesh_kind)(seed % N_MESHES), 20 + (uint32_t)(seed * 13 % 90), &x.random);
    load(&x, &the_mesh);
    create(&x);
    (void)build(&x, WH_OK);
    uint32_t found = compare_rays(&x, &the_mesh, 60);
    if (seed % 3 == 0 && allocator == NULL) {
        (void)build(&x, WH_OK); /* the object is as good as new */
        found += compare_rays(&x, &the_mesh, 30);
    }
    close_all(&x);
    return found;
}

static void test_random(void **state) {
    (void)state;
    uint32_t found = 0;
    for (uint64_t seed = 1; seed <= n_seeds() * 9; seed++) {
        found += build_random(seed, NULL);
    }
    assert_true(found > 60 * n_seeds());
}

/* Whether trees over this allocator are built: checked builds have few. */
static int has_trees(const char *allocator) {
    context x;
    if (wh_allocator_find(allocator) == NULL) {
        return 0;
    }
    open_all(&x, 1, 8 << 20, allocator);
    x.o.most_triangles = 20;
    const wh_status made = wh_kdtree_create(&x.tree, &x.o);
    assert_true(made == WH_OK || made == WH_UNSUPPORTED);
    close_all(&x);
    return made == WH_OK;
}

/* Over bump, whose malloc and free order nothing: what the default heap's would hide shows. */
static void test_over_bump(void **state) {
    (void)state;
    if (!has_trees("bump")) {
        skip();
    }
    for (uint64_t seed = 1; seed <= n_seeds() * 9; seed++) {
        (void)build_random(seed, "bump");
    }
}

/* One warp does all: no node is large. */
static void test_alone(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        open_all(&x, seed, 8 << 20, NULL);
        make_mesh(&the_mesh, (mesh_kind)(seed % N_MESHES), 80, &x.random);
        load(&x, &the_mesh);
        create(&x);
        const wh_kdtree_result r = build(&x, WH_OK);
        assert_true(r.requests >= r.leaves - r.empty_leaves);
        (void)compare_rays(&x, &the_mesh, 60);
        close_all(&x);
    }
}

static void expect_near(double a, double b, double part) {
    if (!(fabs(a - b) <= part * b)) {
        print_error("%g is not near %g\n", a, b);
    }
    assert_true(fabs(a - b) <= part * b);
}

/* Sums over some trees: this library's, and the simple builder's. */
typedef struct quality {
    double cost, references, nodes, requests;
} quality;

static void add_quality(mesh_kind kind, wh_kdtree_kind tree, uint32_t number, quality q[2]) {
    context x;
    open_all(&x, number, 16 << 20, NULL);
    x.random = number;
    x.o.kind = tree;
    x.o.max_depth = 14;
    x.o.shared_references = 100;
    x.o.chunk_references = 40;
    make_mesh(&the_mesh, kind, n_seeds() >= 10 ? 130 : 60, &x.random);
    for (uint32_t i = 0; i < the_mesh.n_vertices; i++) { /* few planes are equally good */
        for (uint32_t c = 0; c < 3; c++) {
            the_mesh.vertex[i][c] += 0.05f * unit(&x.random);
        }
    }
    load(&x, &the_mesh);
    create(&x);
    const wh_kdtree_result r = build(&x, WH_OK);
    const ref_tree t = ref_build(&the_mesh, r.lo, r.hi, tree == WH_KDTREE_CLIPPED, 14);
    q[0].cost += r.cost;
    q[0].references += (double)r.references;
    q[0].nodes += (double)r.nodes;
    q[0].requests += (double)r.requests;
    q[1].cost += t.cost;
    q[1].references += (double)t.references;
    q[1].nodes += (double)t.nodes;
    q[1].requests += (double)t.arrays;
    close_all(&x);
}

/* Trees are as good as those of the simple builder. */
static void test_quality(void **state) {
    static const mesh_kind kinds[] = {SOUP, SPHERE, TOWN};
    const double part = n_seeds() >= 10 ? 0.05 : 0.2; /* of few small trees */
    (void)state;
    for (uint32_t k = 0; k < 6; k++) {
        const wh_kdtree_kind tree = k % 2 == 0 ? WH_KDTREE_CLIPPED : WH_KDTREE_BOXES;
        quality q[2];
        memset(q, 0, sizeof q);
        for (uint32_t number = 0; number < n_seeds(); number++) {
            add_quality(kinds[k / 2], tree, number, q);
        }
        expect_near(q[0].cost, q[1].cost, part);
        expect_near(q[0].references, q[1].references, part);
        expect_near(q[0].nodes, q[1].nodes, 2 * part);
        expect_near(q[0].requests, q[1].requests, 2 * part);
    }
}

/* A tree does not depend on the order in which warps work. */
static void test_same_tree(void **state) {
    wh_kdtree_result first = {0};
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds() + 2; seed++) {
        context x;
        uint64_t random = 5;
        open_all(&x, seed, 8 << 20, NULL);
        make_tiny(&x, 4);
        make_mesh(&the_mesh, SOUP, 60, &random);
        load(&x, &the_mesh);
        create(&x);
        const wh_kdtree_result r = build(&x, WH_OK);
        first = seed == 0 ? r : first;
        assert_int_equal(r.nodes, first.nodes);
        assert_int_equal(r.references, first.references);
        assert_int_equal(r.requests, first.requests);
        assert_int_equal(r.depth, first.depth);
        expect_near(r.cost, first.cost, 1e-12);
        expect_near(r.request_deviation, first.request_deviation, 1e-9);
        close_all(&x);
    }
}

static void test_points(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        wh_kdtree_ref ref;
        open_all(&x, seed, 8 << 20, NULL);
        make_tiny(&x, seed);
        x.o.kind = WH_KDTREE_POINTS;
        x.o.max_depth = seed % 2 == 0 ? WH_KDTREE_MOST_DEPTH : 0; /* boxes as small as can be */
        make_mesh(&the_mesh, (mesh_kind)(seed % N_MESHES), 80, &x.random);
        load(&x, &the_mesh);
        create(&x);
        const wh_kdtree_result r = build(&x, WH_OK);
        assert_int_equal(r.references + r.skipped, the_mesh.n);
        assert_int_equal(wh_kdtree_handle(x.tree, &ref), WH_UNSUPPORTED);
        close_all(&x);
    }
}

/* What is said of arrays: a root of two, of 32 and 16 bytes, that becomes a leaf. */
static void test_tally(void **state) {
    context x;
    (void)state;
    open_all(&x, 0, 8 << 20, NULL);
    x.o.leaf_references = 16;
    x.o.shared_references = x.o.block_references = 7;
    make_mesh(&the_mesh, SOUP, 10, &x.random);
    load(&x, &the_mesh);
    create(&x);
    const wh_kdtree_result r = build(&x, WH_OK);
    assert_int_equal(r.nodes, 1);
    assert_int_equal(r.requests, 2);
    expect_near(r.request_mean, 24, 1e-12);
    expect_near(r.request_deviation, 8, 1e-12);
    close_all(&x);
}

/* A root of eight that is cut between three and five triangles. Its warp works on it, and on both
 * leaves, as a group. */
static void test_tally_group(void **state) {
    context x;
    (void)state;
    open_all(&x, 0, 8 << 20, NULL);
    x.o.leaf_references = 5;
    make_mesh(&the_mesh, SOUP, 8, &x.random);
    for (uint32_t i = 0; i < the_mesh.n; i++) {
        for (uint32_t c = 0; c < 9; c++) {
            const uint32_t v = the_mesh.triangle[i][c / 3];
            the_mesh.vertex[v][c % 3] = (c % 3 == 0 && i % 3 == 1 ? 9 : 0) + (float)(c / 3 + i % 2);
        }
    }
    load(&x, &the_mesh);
    create(&x);
    const wh_kdtree_result r = build(&x, WH_OK);
    assert_int_equal(r.nodes, 3);
    assert_int_equal(r.depth, 1);
    assert_int_equal(r.references, 8);
    assert_int_equal(r.requests, 3);
    expect_near(r.request_mean, 80.0 / 3, 1e-12);
    expect_near(r.request_deviation, sqrt(2304.0 / 3 - 6400.0 / 9), 1e-12);
    close_all(&x);
}

/* Roots of as many references as a group has lanes, of one more and less; and of each node one
 * array. */
static void test_group_sizes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        open_all(&x, seed, 8 << 20, NULL);
        make_mesh(&the_mesh, (mesh_kind)(seed % 3), 7 + (uint32_t)(seed % 3), &x.random);
        load(&x, &the_mesh);
        x.o.leaf_references = 1;
        create(&x);
        const wh_kdtree_result r = build(&x, WH_OK);
        assert_int_equal(r.requests, r.nodes - r.empty_leaves);
        (void)compare_rays(&x, &the_mesh, 40);
        close_all(&x);
    }
}

/* --- meshes ----------------------------------------------------------------------------------- */

/* No triangle, one, and some that are skipped. */
static void test_few(void **state) {
    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        context x;
        open_all(&x, n, 8 << 20, NULL);
        x.o.shared_references = x.o.block_references = 4; /* two arrays have room for few */
        make_mesh(&the_mesh, n < 4 ? SOUP : BAD, n, &x.random);
        load(&x, &the_mesh);
        create(&x);
        const wh_kdtree_result r = build(&x, WH_OK);
        assert_int_equal(r.skipped, n < 4 ? 0 : (n + 1) / 2);
        assert_true(n != 0 || (r.nodes == 1 && r.empty_leaves == 1 && r.requests == 0));
        (void)compare_rays(&x, &the_mesh, 40);
        close_all(&x);
    }
}

/* All triangles are skipped; all are equal; coordinates are all 0, tiny or huge; the mesh is far
 * from the origin. */
static void test_strange(void **state) {
    static const float scales[] = {0, 1e-30f, 1e-6f, 1e9f};
    (void)state;
    for (uint32_t k = 0; k < 7; k++) {
        context x;
        open_all(&x, k, 8 << 20, NULL);
        make_tiny(&x, k);
        make_mesh(&the_mesh, k == 5 ? EQUAL : SOUP, 50, &x.random);
        for (uint32_t i = 0; i < the_mesh.n_vertices; i++) {
            for (uint32_t c = 0; c < 3; c++) {
                float *v = &the_mesh.vertex[i][c];
                *v = k < 4 ? *v * scales[k] : *v;
                *v = k == 4 ? NAN : *v;
                *v = k == 6 ? *v + 900 : *v;
            }
        }
        load(&x, &the_mesh);
        create(&x);
        const wh_kdtree_result r = build(&x, WH_OK);
        assert_int_equal(r.skipped, k == 4 ? 50 : 0);
        (void)compare_rays(&x, &the_mesh, 40);
        close_all(&x);
    }
}

/* Rays from inside of a closed ball at its corners and edges: none slips through. */
static void test_watertight(void **state) {
    context x;
    (void)state;
    open_all(&x, 0, 8 << 20, NULL);
    make_mesh(&the_mesh, SPHERE, 400, &x.random);
    load(&x, &the_mesh);
    create(&x);
    (void)build(&x, WH_OK);
    for (uint32_t i = 0; i < MOST_RAYS; i++) {
        const uint32_t *t = the_mesh.triangle[next_random(&x.random) % the_mesh.n];
        const float part = i % 2 == 0 ? 0 : unit(&x.random);
        wh_kdtree_ray *r = &x.rays[i];
        for (uint32_t k = 0; k < 3; k++) {
            const float a = the_mesh.vertex[t[0]][k], b = the_mesh.vertex[t[1 + i % 2]][k];
            r->origin[k] = 0.1f * unit(&x.random);
            r->direction[k] = a + part * (b - a) - r->origin[k];
        }
        r->t_min = 0;
        r->t_max = INFINITY;
    }
    trace(&x, MOST_RAYS, 0, 0, x.hits[0]);
    trace(&x, MOST_RAYS, 1, 0, x.hits[1]);
    for (uint32_t i = 0; i < MOST_RAYS; i++) {
        assert_true(x.hits[0][i].triangle != WH_KDTREE_NONE);
        assert_true(x.hits[1][i].triangle != WH_KDTREE_NONE);
    }
    close_all(&x);
}

static void set_ray(wh_kdtree_ray *r, float origin, float direction, float t_min, float t_max) {
    for (uint32_t k = 0; k < 3; k++) {
        r->origin[k] = origin;
        r->direction[k] = direction;
    }
    r->t_min = t_min;
    r->t_max = t_max;
}

/* Rays that are none have no hits. */
static void test_bad_rays(void **state) {
    context x;
    (void)state;
    open_all(&x, 1, 8 << 20, NULL);
    make_mesh(&the_mesh, SPHERE, 100, &x.random);
    load(&x, &the_mesh);
    create(&x);
    (void)build(&x, WH_OK);
    set_ray(&x.rays[0], NAN, 1, 0, 9);
    set_ray(&x.rays[1], 0, NAN, 0, 9);
    set_ray(&x.rays[2], 0, 0, 0, 9);
    set_ray(&x.rays[3], 0, 1, NAN, 9);
    set_ray(&x.rays[4], 0, 1, 0, NAN);
    set_ray(&x.rays[5], INFINITY, 1, 0, 9);
    set_ray(&x.rays[6], 0, INFINITY, 0, 9);
    set_ray(&x.rays[7], 0, 1, 2, 1);
    set_ray(&x.rays[8], 0, 1e-30f, 0, INFINITY);
    set_ray(&x.rays[9], 0, 1e-9f, 0, INFINITY); /* this one is */
    for (uint32_t all = 0; all < 2; all++) {
        trace(&x, 10, 0, all, x.hits[0]);
        for (uint32_t i = 0; i < 10; i++) {
            assert_int_equal(x.hits[0][i].triangle == WH_KDTREE_NONE, i < 9);
        }
    }
    close_all(&x);
}

/* Two triangles, one behind the other, so large that products of their coordinates and a weight are
 * above all floats: t is right, however short the direction is. */
static void test_large(void **state) {
    const float far = 1e12f, back = 5e11f;
    const float vertices[6][3] = {{-far, -far, back}, {far, -far, back}, {0, far, back},
                                  {-far, -far, 0},    {far, -far, 0},    {0, far, 0}};
    const uint32_t triangles[2][3] = {{0, 1, 2}, {3, 4, 5}};
    context x;
    (void)state;
    open_all(&x, 1, 8 << 20, NULL);
    the_mesh.n_vertices = 6;
    the_mesh.n = 2;
    memcpy(the_mesh.vertex, vertices, sizeof vertices);
    memcpy(the_mesh.triangle, triangles, sizeof triangles);
    load(&x, &the_mesh);
    create(&x);
    (void)build(&x, WH_OK);
    for (uint32_t i = 0; i < 12; i++) {
        const float short_one = 1 / (float)(1u << 3 * (i < 10 ? i : 10));
        const wh_kdtree_ray ray = {{0, -back / 2, -far}, 0, {0, 0, short_one}, INFINITY};
        x.rays[i] = ray;
    }
    for (uint32_t all = 0; all < 2; all++) {
        trace(&x, 12, 0, all, x.hits[0]);
        for (uint32_t i = 0; i < 12; i++) {
            const float t = far / x.rays[i].direction[2];
            assert_int_equal(x.hits[0][i].triangle, 1);
            assert_true(fabsf(x.hits[0][i].t - t) <= t * 1e-5f);
        }
    }
    close_all(&x);
}

/* A build whose kernel fails leaves no tree, and finish does not say that there is one. */
static void test_failed_kernel(void **state) {
    wh_sim_options so;
    wh_heap_options ho;
    wh_kdtree_ref ref;
    context x;
    void *stream = NULL;
    (void)state;
    memset(&x, 0, sizeof x);
    memset(&so, 0, sizeof so);
    memset(&ho, 0, sizeof ho);
    so.step_budget = 20000;
    ho.device = x.device = open_with(&so);
    ho.bytes = 2 << 20;
    assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
    assert_int_equal(wh_stream_create(x.device, &stream), WH_OK);
    x.o.heap = x.heap;
    x.random = 1;
    make_mesh(&the_mesh, SPHERE, 200, &x.random);
    load(&x, &the_mesh);
    create(&x);
    assert_int_equal(wh_kdtree_build(x.tree, &x.mesh, stream), WH_OK);
    assert_int_equal(wh_kdtree_finish(x.tree, NULL), WH_DEVICE_ERROR);
    assert_int_equal(wh_kdtree_finish(x.tree, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_handle(x.tree, &ref), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_destroy(x.tree), WH_OK);
    (void)wh_stream_destroy(x.device, stream);
    (void)wh_heap_destroy(x.heap);
    wh_device_close(x.device);
}

/* --- frames ----------------------------------------------------------------------------------- */

/* The mesh moves, and the tree is built anew each time; nothing of the heap is lost. */
static void test_frames(void **state) {
    context x;
    (void)state;
    open_all(&x, 2, 2 << 20, NULL);
    make_tiny(&x, 9);
    make_mesh(&the_mesh, SPHERE, 40, &x.random);
    load(&x, &the_mesh);
    create(&x);
    const uint32_t frames = n_seeds() >= 10 ? 20 : 6;
    for (uint32_t frame = 0; frame < frames; frame++) {
        for (uint32_t i = 0; i < the_mesh.n_vertices; i++) {
            the_mesh.vertex[i][frame % 3] *= 1.1f;
        }
        assert_int_equal(wh_device_copy_in(x.device, (void *)(uintptr_t)x.mesh.vertices,
                                           the_mesh.vertex, the_mesh.n_vertices * 12),
                         WH_OK);
        (void)build(&x, WH_OK);
        assert_int_equal(live_blocks(&x), 0);
        (void)compare_rays(&x, &the_mesh, 10);
    }
    close_all(&x);
}

typedef struct user_args {
    wh_kdtree_ref tree;
    const wh_kdtree_ray *rays;
    wh_kdtree_hit *hits;
} user_args;

WH_KERNEL(user_rays, user_args, a) {
    const uint64_t i = wh_thread_id();
    a.hits[2 * i] = wh_kdtree_closest(a.tree, a.rays[i]);
    a.hits[2 * i + 1] = wh_kdtree_any(a.tree, a.rays[i]);
}

/* A kernel of a user's, on the stream of the build; nobody waits in between. */
static void test_user_kernel(void **state) {
    context x;
    user_args a;
    void *stream = NULL;
    (void)state;
    open_all(&x, 4, 2 << 20, NULL);
    make_mesh(&the_mesh, SPHERE, 100, &x.random);
    load(&x, &the_mesh);
    create(&x);
    assert_int_equal(wh_stream_create(x.device, &stream), WH_OK);
    for (uint32_t i = 0; i < 32; i++) {
        x.rays[i] = make_ray(&the_mesh, i, &x.random);
    }
    assert_int_equal(wh_kdtree_build(x.tree, &x.mesh, stream), WH_OK);
    assert_int_equal(wh_kdtree_handle(x.tree, &a.tree), WH_OK);
    a.rays = x.rays;
    a.hits = x.hits[0];
    wh_launch l = grid(x.device, 1, 32);
    l.stream = stream;
    assert_int_equal(user_rays(&l, &a), WH_OK);
    assert_int_equal(wh_kdtree_finish(x.tree, NULL), WH_OK);
    trace(&x, 32, 0, 1, x.hits[1]);
    for (uint32_t i = 0; i < 32; i++) {
        assert_memory_equal(&x.hits[0][2 * i], &x.hits[1][i], sizeof x.hits[1][i]);
        assert_int_equal(x.hits[0][2 * i + 1].triangle == WH_KDTREE_NONE,
                         x.hits[1][i].triangle == WH_KDTREE_NONE);
    }
    assert_int_equal(wh_stream_destroy(x.device, stream), WH_OK);
    close_all(&x);
}

/* Each call on no tree, or without what it reads or fills. */
static void test_no_tree(void **state) {
    (void)state;
    context x;
    open_all(&x, 1, 8 << 20, NULL);
    create(&x);
    wh_kdtree *const no = NULL;
    wh_kdtree *made = NULL;
    wh_kdtree_mesh nothing;
    wh_kdtree_rays rays;
    wh_kdtree_ref handle;
    wh_kdtree_options o;
    memset(&nothing, 0, sizeof nothing);
    memset(&rays, 0, sizeof rays);
    memset(&o, 0, sizeof o); /* without a heap */
    const wh_status bad[] = {
        wh_kdtree_create(NULL, &o),
        wh_kdtree_create(&made, NULL),
        wh_kdtree_create(&made, &o),
        wh_kdtree_build(no, &nothing, NULL),
        wh_kdtree_build(x.tree, NULL, NULL),
        wh_kdtree_finish(no, NULL),
        wh_kdtree_finish(x.tree, NULL),
        wh_kdtree_trace(no, &rays, NULL),
        wh_kdtree_trace(x.tree, NULL, NULL),
        wh_kdtree_check(no, NULL),
        wh_kdtree_check(x.tree, NULL),
        wh_kdtree_copy_handle(no, &handle, sizeof handle),
        wh_kdtree_copy_handle(x.tree, NULL, sizeof handle),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (bad[i] != WH_BAD_ARGUMENT) {
            fail_msg("call %zu: %s", i, wh_status_name(bad[i]));
        }
    }
    assert_null(made);
    assert_int_equal(wh_kdtree_destroy(no), WH_OK);
    close_all(&x);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),        cmocka_unit_test(test_over_bump),
        cmocka_unit_test(test_alone),         cmocka_unit_test(test_quality),
        cmocka_unit_test(test_same_tree),     cmocka_unit_test(test_points),
        cmocka_unit_test(test_tally),         cmocka_unit_test(test_few),
        cmocka_unit_test(test_strange),       cmocka_unit_test(test_watertight),
        cmocka_unit_test(test_bad_rays),      cmocka_unit_test(test_large),
        cmocka_unit_test(test_failed_kernel), cmocka_unit_test(test_frames),
        cmocka_unit_test(test_user_kernel),   cmocka_unit_test(test_no_tree),
        cmocka_unit_test(test_tally_group),   cmocka_unit_test(test_group_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* kdtree.c: k-d trees built by every policy of the simulated device, with large nodes of all sizes:
 * each leaf is looked at in double precision, rays find what they find without a tree, bit for bit,
 * and trees are as good as those of a simple builder. Full heaps, strange meshes, bad input. */
#include "reference.h"

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
    x->o.shared_references = 3 + (uint32_t)(seed % 40);
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
    return (wh_heap_allocator(x->heap)->caps & WH_CAP_FREE) != 0;
}

static void close_all(context *x) {
    assert_int_equal(wh_kdtree_destroy(x->tree), WH_OK);
    if (can_free(x)) {
        assert_int_equal(live_blocks(x), 0); /* nothing is lost */
    }
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
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

/* --- trees ------------------------------------------------------------------------------------ */

static void test_random(void **state) {
    (void)state;
    uint32_t found = 0;
    for (uint64_t seed = 1; seed <= n_seeds() * 3; seed++) {
        context x;
        open_all(&x, seed, 8 << 20, NULL);
        make_tiny(&x, seed);
        x.o.kind = seed % 4 == 0 ? WH_KDTREE_BOXES : WH_KDTREE_CLIPPED;
        x.o.leaf_references = (uint32_t)(seed % 3) * 2;
        make_mesh(&the_mesh, (mesh_kind)(seed % N_MESHES), 20 + (uint32_t)(seed * 13 % 90),
                  &x.random);
        load(&x, &the_mesh);
        create(&x);
        (void)build(&x, WH_OK);
        found += compare_rays(&x, &the_mesh, 60);
        if (seed % 3 == 0) {
            (void)build(&x, WH_OK); /* the object is as good as new */
            found += compare_rays(&x, &the_mesh, 30);
        }
        close_all(&x);
    }
    assert_true(found > 20 * n_seeds());
}

/* One warp does all: no node is large. */
static void test_alone(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        open_all(&x, seed, 8 << 20, NULL);
        make_mesh(&the_mesh, (mesh_kind)(seed % N_MESHES), 120, &x.random);
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
    make_mesh(&the_mesh, kind, 130, &x.random);
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
    (void)state;
    for (uint32_t k = 0; k < 6; k++) {
        const wh_kdtree_kind tree = k % 2 == 0 ? WH_KDTREE_CLIPPED : WH_KDTREE_BOXES;
        quality q[2];
        memset(q, 0, sizeof q);
        for (uint32_t number = 0; number < 10; number++) {
            add_quality(kinds[k / 2], tree, number, q);
        }
        expect_near(q[0].cost, q[1].cost, 0.05);
        expect_near(q[0].references, q[1].references, 0.05);
        expect_near(q[0].nodes, q[1].nodes, 0.05);
        expect_near(q[0].requests, q[1].requests, 0.05);
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
        make_mesh(&the_mesh, (mesh_kind)(seed % N_MESHES), 150, &x.random);
        load(&x, &the_mesh);
        create(&x);
        const wh_kdtree_result r = build(&x, WH_OK);
        assert_int_equal(r.references + r.skipped, the_mesh.n);
        assert_int_equal(wh_kdtree_handle(x.tree, &ref), WH_UNSUPPORTED);
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

/* All triangles are skipped; all are equal; coordinates are all 0, tiny or huge. */
static void test_strange(void **state) {
    static const float scales[] = {0, 1e-30f, 1e-6f, 1e9f};
    (void)state;
    for (uint32_t k = 0; k < 6; k++) {
        context x;
        open_all(&x, k, 8 << 20, NULL);
        make_tiny(&x, k);
        make_mesh(&the_mesh, k == 5 ? EQUAL : SOUP, 50, &x.random);
        for (uint32_t i = 0; i < the_mesh.n_vertices; i++) {
            for (uint32_t c = 0; c < 3; c++) {
                float *v = &the_mesh.vertex[i][c];
                *v = k < 4 ? *v * scales[k] : *v;
                *v = k == 4 ? NAN : *v;
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

/* --- full heaps ------------------------------------------------------------------------------- */

/* bump gives the next bytes, and takes none back: with 16 bytes more each time every request is
 * the first one to fail. */
static void test_full_at_each(void **state) {
    uint64_t bytes = 0;
    wh_status s = WH_OUT_OF_MEMORY;
    uint32_t cut = 0;
    (void)state;
    for (uint64_t round = 0; s != WH_OK; round++) {
        context x;
        wh_heap_options ho;
        wh_kdtree_result r;
        uint64_t random = 3;
        memset(&ho, 0, sizeof ho);
        open_all(&x, round, 1 << 20, NULL);
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        ho.device = x.device;
        ho.allocator = "bump";
        if (round == 0) {
            assert_int_equal(wh_heap_min_bytes(&ho, &bytes), WH_OK);
        }
        ho.bytes = bytes;
        assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
        x.o.heap = x.heap;
        x.o.shared_references = 12;
        x.o.chunk_references = 5;
        x.o.block_references = 14;
        make_mesh(&the_mesh, SOUP, 24, &random);
        load(&x, &the_mesh);
        x.o.most_triangles = the_mesh.n;
        s = wh_kdtree_create(&x.tree, &x.o);
        if (s == WH_UNSUPPORTED) { /* a build without bump */
            assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
            wh_device_close(x.device);
            return;
        }
        assert_int_equal(s, WH_OK);
        assert_int_equal(wh_kdtree_build(x.tree, &x.mesh, NULL), WH_OK);
        s = wh_kdtree_finish(x.tree, &r);
        assert_true(s == WH_OK || (s == WH_OUT_OF_MEMORY && r.cut_leaves != 0 && r.failed != 0));
        expect_sound(&x);
        (void)compare_rays(&x, &the_mesh, 10);
        cut += s != WH_OK;
        close_all(&x);
        bytes += round < 40 ? 16 : 64;
    }
    assert_true(cut > 50);
}

enum { MOST_HELD = 4000 };

typedef struct held_args {
    wh_heap_ref heap;
    void **held;
    uint32_t n, takes;
} held_args;

/* Takes blocks until the heap is full; or gives back all but the first n. */
WH_KERNEL(hold_blocks, held_args, a) {
    for (uint32_t i = a.takes ? 0 : a.n; wh_thread_id() == 0 && i < MOST_HELD; i++) {
        if (a.takes) {
            a.held[i] = wh_malloc(a.heap, 1024);
        } else {
            wh_free(a.heap, a.held[i]);
            a.held[i] = NULL;
        }
    }
}

static void hold(context *x, void **held, uint32_t n, uint32_t takes) {
    held_args a = {.held = held, .n = n, .takes = takes};
    const wh_launch l = grid(x->device, 1, 32);
    assert_int_equal(wh_heap_handle(x->heap, &a.heap), WH_OK);
    assert_int_equal(hold_blocks(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
}

/* Somebody else has all of the heap, and gives some of it back before each build. */
static void test_full_heap(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        context x;
        open_all(&x, seed, 1 << 20, NULL);
        make_tiny(&x, seed);
        make_mesh(&the_mesh, SOUP, 60, &x.random);
        load(&x, &the_mesh);
        create(&x);
        void **held = take(x.device, MOST_HELD * sizeof *held);
        hold(&x, held, MOST_HELD, 1);
        uint32_t left = 0;
        while (left < MOST_HELD && held[left] != NULL) {
            left++;
        }
        const wh_kdtree_result none = build(&x, WH_OUT_OF_MEMORY);
        assert_true(none.cut_leaves != 0);
        for (uint32_t back = 1; back <= 8; back *= 2) {
            wh_kdtree_result r;
            hold(&x, held, left - back, 0);
            assert_int_equal(wh_kdtree_build(x.tree, &x.mesh, NULL), WH_OK);
            const wh_status s = wh_kdtree_finish(x.tree, &r);
            assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
            expect_sound(&x);
            (void)compare_rays(&x, &the_mesh, 20);
        }
        hold(&x, held, 0, 0);
        (void)build(&x, WH_OK);
        close_all(&x);
    }
}

/* There is room for few nodes, or few references. */
static void test_full_rooms(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds() * 2; seed++) {
        context x;
        wh_kdtree_result r;
        open_all(&x, seed, 8 << 20, NULL);
        make_tiny(&x, seed);
        make_mesh(&the_mesh, SOUP, 50, &x.random);
        load(&x, &the_mesh);
        x.o.most_nodes = seed % 2 == 0 ? 1 + seed % 32 : 0;
        x.o.most_references = seed % 2 == 0 ? 0 : the_mesh.n + seed % 3;
        create(&x);
        assert_int_equal(wh_kdtree_build(x.tree, &x.mesh, NULL), WH_OK);
        assert_int_equal(wh_kdtree_finish(x.tree, &r), WH_OUT_OF_MEMORY);
        assert_true(r.cut_leaves != 0 && r.failed == 0);
        assert_true(x.o.most_nodes == 0 || r.nodes <= x.o.most_nodes);
        assert_true(x.o.most_references == 0 || r.references <= x.o.most_references);
        expect_sound(&x);
        (void)compare_rays(&x, &the_mesh, 30);
        close_all(&x);
    }
}

/* --- frames ----------------------------------------------------------------------------------- */

/* The mesh moves, and the tree is built anew each time; nothing of the heap is lost. */
static void test_frames(void **state) {
    context x;
    (void)state;
    open_all(&x, 2, 2 << 20, NULL);
    make_tiny(&x, 9);
    make_mesh(&the_mesh, SPHERE, 64, &x.random);
    load(&x, &the_mesh);
    create(&x);
    for (uint32_t frame = 0; frame < 20; frame++) {
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

/* --- bad input -------------------------------------------------------------------------------- */

static void expect_refused(const wh_kdtree_options *o, wh_status s, const char *word) {
    wh_kdtree *tree = NULL;
    assert_int_equal(wh_kdtree_create(&tree, o), s);
    assert_non_null(strstr(wh_last_error_text(), word));
    assert_null(tree);
}

static void test_bad_options(void **state) {
    context x;
    (void)state;
    open_all(&x, 4, 1 << 20, NULL);
    wh_kdtree_options o = x.o;
    assert_int_equal(wh_kdtree_create(NULL, &o), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_create(&x.tree, NULL), WH_BAD_ARGUMENT);
    o.heap = NULL;
    expect_refused(&o, WH_BAD_ARGUMENT, "heap");
    o = x.o, o.kind = (wh_kdtree_kind)3;
    expect_refused(&o, WH_BAD_ARGUMENT, "kind");
    o = x.o, o.most_triangles = WH_KDTREE_MOST_TRIANGLES + 1;
    expect_refused(&o, WH_BAD_ARGUMENT, "268435457");
    o = x.o, o.max_depth = 61;
    expect_refused(&o, WH_BAD_ARGUMENT, "61");
    o = x.o, o.shared_references = 9, o.block_references = 8;
    expect_refused(&o, WH_BAD_ARGUMENT, "at least");
    o = x.o, o.chunk_references = 1, o.most_triangles = 1 << 28;
    expect_refused(&o, WH_BAD_ARGUMENT, "chunks");
    o = x.o, o.most_triangles = 9, o.most_references = 8;
    expect_refused(&o, WH_BAD_ARGUMENT, "most_references");
    o = x.o, o.empty_bonus = -1;
    expect_refused(&o, WH_BAD_ARGUMENT, "bonus");
    o = x.o, o.traversal_cost = NAN;
    expect_refused(&o, WH_BAD_ARGUMENT, "costs");
    o = x.o, o.struct_bytes = 8;
    expect_refused(&o, WH_WRONG_BUILD, "8");
    assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
    wh_heap_options ho;
    memset(&ho, 0, sizeof ho);
    ho.device = x.device;
    ho.bytes = 1 << 20;
    ho.allocator = "null";
    assert_int_equal(wh_heap_create(&x.heap, &ho), WH_OK);
    o = x.o, o.heap = x.heap;
    expect_refused(&o, WH_UNSUPPORTED, "null");
    assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
    wh_device_close(x.device);
}

static void expect_bad_mesh(context *x, const wh_kdtree_mesh *m, wh_status s, const char *word) {
    assert_int_equal(wh_kdtree_build(x->tree, m, NULL), s);
    assert_non_null(strstr(wh_last_error_text(), word));
}

/* What is refused, and when; the object stays as good as it was. */
static void test_bad_calls(void **state) {
    context x;
    wh_kdtree_ref ref;
    wh_kdtree_rays rays;
    (void)state;
    open_all(&x, 4, 2 << 20, NULL);
    make_mesh(&the_mesh, SOUP, 20, &x.random);
    load(&x, &the_mesh);
    create(&x);
    memset(&rays, 0, sizeof rays);
    assert_int_equal(wh_kdtree_finish(x.tree, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_finish(NULL, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_check(x.tree, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_handle(x.tree, &ref), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_trace(x.tree, &rays, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_kdtree_build(x.tree, NULL, NULL), WH_BAD_ARGUMENT);
    wh_kdtree_mesh bad = x.mesh;
    bad.n_triangles = 21;
    expect_bad_mesh(&x, &bad, WH_BAD_ARGUMENT, "21");
    bad = x.mesh, bad.vertices = NULL;
    expect_bad_mesh(&x, &bad, WH_BAD_ARGUMENT, "no vertices");
    bad = x.mesh, bad.triangles = (const uint32_t *)((uintptr_t)bad.triangles + 2);
    expect_bad_mesh(&x, &bad, WH_BAD_ARGUMENT, "aligned");
    bad = x.mesh, bad.struct_bytes = 3;
    expect_bad_mesh(&x, &bad, WH_WRONG_BUILD, "3");
    (void)build(&x, WH_OK);
    assert_int_equal(wh_kdtree_copy_handle(x.tree, &ref, 8), WH_WRONG_BUILD);
    assert_int_equal(wh_kdtree_trace(x.tree, &rays, NULL), WH_OK);
    rays.n = 1;
    assert_int_equal(wh_kdtree_trace(x.tree, &rays, NULL), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "rays"));
    close_all(&x);
}

/* A check finds what is wrong. */
static void test_check(void **state) {
    context x;
    wh_kdtree_ref ref;
    wh_kdtree_report r;
    (void)state;
    open_all(&x, 4, 2 << 20, NULL);
    make_mesh(&the_mesh, SOUP, 40, &x.random);
    load(&x, &the_mesh);
    create(&x);
    (void)build(&x, WH_OK);
    assert_int_equal(wh_kdtree_handle(x.tree, &ref), WH_OK);
    uint32_t *references = (uint32_t *)(uintptr_t)ref.references;
    wh_kdtree_node *nodes = (wh_kdtree_node *)(uintptr_t)ref.nodes;
    const uint32_t was = references[0];
    references[0] = 40;
    assert_int_equal(wh_kdtree_check(x.tree, &r), WH_CORRUPT);
    assert_true(r.missing >= 1 && r.foreign == 1);
    references[0] = was;
    assert_int_equal(wh_kdtree_check(x.tree, &r), WH_OK);
    const wh_kdtree_node root = nodes[0];
    nodes[0].first = 0;
    nodes[0].rest = WH_KDTREE_LEAF;
    assert_int_equal(wh_kdtree_check(x.tree, &r), WH_CORRUPT);
    assert_int_equal(r.missing, 40);
    nodes[0] = root;
    nodes[0].rest = root.rest & 3;
    assert_int_equal(wh_kdtree_check(x.tree, &r), WH_CORRUPT);
    assert_int_equal(r.broken, 1);
    nodes[0] = root;
    assert_int_equal(wh_kdtree_check(x.tree, &r), WH_OK);
    close_all(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),       cmocka_unit_test(test_alone),
        cmocka_unit_test(test_quality),      cmocka_unit_test(test_same_tree),
        cmocka_unit_test(test_points),       cmocka_unit_test(test_few),
        cmocka_unit_test(test_strange),      cmocka_unit_test(test_bad_rays),
        cmocka_unit_test(test_full_at_each), cmocka_unit_test(test_full_heap),
        cmocka_unit_test(test_full_rooms),   cmocka_unit_test(test_frames),
        cmocka_unit_test(test_user_kernel),  cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_bad_calls),    cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* full.c: k-d trees in heaps that are full, at each request there is; room for few nodes or
 * references; what is refused; what a check finds. */
#include "trees.h"

/* --- full heaps ------------------------------------------------------------------------------- */

/* Each node that has references has one array of them, unless it could have several. The root can
 * do without. */
static void expect_arrays(const context *x, const wh_kdtree_result *r) {
    const int has_root = r->requests != 0 || r->nodes != 1;
    if (x->o.block_references >= the_mesh.n && has_root) {
        assert_int_equal(r->requests, r->nodes - r->empty_leaves);
    }
}

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
        x.o.block_references = round % 2 == 0 ? 14 : 60;
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
        assert_true(s == WH_OK || (s == WH_OUT_OF_MEMORY && r.cut_leaves != 0));
        assert_true(r.failed >= r.cut_leaves);
        expect_sound(&x);
        expect_arrays(&x, &r);
        (void)compare_rays(&x, &the_mesh, 10);
        cut += s != WH_OK;
        close_all(&x);
        bytes += 16;
    }
    assert_true(cut > 50);
}

enum { MOST_HELD = 8000 };

typedef struct held_args {
    wh_heap_ref heap;
    void **held;
    uint32_t each; /* 0: takes */
} held_args;

/* Takes blocks of seven sizes in turn until the heap is full; or gives back one of `each`. */
WH_KERNEL(hold_blocks, held_args, a) {
    for (uint32_t i = 0; wh_thread_id() == 0 && i < MOST_HELD; i += a.each == 0 ? 1 : a.each) {
        if (a.each == 0) {
            a.held[i] = wh_malloc(a.heap, 16u << i % 7);
        } else {
            wh_free(a.heap, a.held[i]);
            a.held[i] = NULL;
        }
    }
}

static void hold(context *x, void **held, uint32_t each) {
    held_args a = {.held = held, .each = each};
    const wh_launch l = grid(x->device, 1, 32);
    assert_int_equal(wh_heap_handle(x->heap, &a.heap), WH_OK);
    assert_int_equal(hold_blocks(&l, &a), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
}

/* Somebody else has all of the heap, and gives some of it back before each build. */
static void fill_heap(uint64_t seed, uint32_t n, uint32_t shared_references) {
    static const uint32_t each[] = {1999, 997, 499, 251, 127, 61};
    context x;
    open_all(&x, seed, 1 << 20, NULL);
    make_tiny(&x, seed);
    x.o.shared_references = shared_references;
    x.o.block_references = shared_references + (uint32_t)(seed * 3 % 30);
    make_mesh(&the_mesh, SOUP, n, &x.random);
    load(&x, &the_mesh);
    create(&x);
    void **held = take(x.device, MOST_HELD * sizeof *held);
    hold(&x, held, 0);
    assert_null(held[MOST_HELD - 1]);
    const wh_kdtree_result none = build(&x, WH_OUT_OF_MEMORY);
    assert_true(none.cut_leaves != 0);
    for (uint32_t i = 0; i < sizeof each / sizeof *each; i++) {
        wh_kdtree_result r;
        hold(&x, held, each[i]);
        assert_int_equal(wh_kdtree_build(x.tree, &x.mesh, NULL), WH_OK);
        const wh_status s = wh_kdtree_finish(x.tree, &r);
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        expect_sound(&x);
        (void)compare_rays(&x, &the_mesh, 20);
    }
    hold(&x, held, 1);
    (void)build(&x, WH_OK);
    close_all(&x);
}

static void test_full_heap(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds(); seed++) {
        fill_heap(seed, 60, 3 + (uint32_t)(seed % 40));
        fill_heap(seed, 60, 45); /* some nodes are for a warp alone */
    }
}

/* The root is small: of what the heap has groups alone take. */
static void test_full_group(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds() * 3; seed++) {
        fill_heap(seed, 8, 20);
    }
}

/* Leaves below a node that say of themselves that they could not be split. */
static uint64_t count_cut(const wh_kdtree_node *nodes, uint32_t number) {
    const uint32_t rest = nodes[number].rest;
    if ((rest & 3) == WH_KDTREE_LEAF) {
        return (rest & WH_KDTREE_CUT) != 0;
    }
    return count_cut(nodes, rest >> 2) + count_cut(nodes, (rest >> 2) + 1);
}

static void expect_cut(context *x, uint64_t n) {
    wh_kdtree_ref ref;
    assert_int_equal(wh_kdtree_handle(x->tree, &ref), WH_OK);
    assert_int_equal(count_cut(ref.nodes, 0), n);
}

/* There is room for few nodes, or few references. */
static void test_full_rooms(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= n_seeds() * 8; seed++) {
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
        expect_cut(&x, r.cut_leaves);
        (void)compare_rays(&x, &the_mesh, 30);
        close_all(&x);
    }
}

/* --- allocators ------------------------------------------------------------------------------- */

/* A tree of each allocator that is built, also of those that give pages of one size, or do not
 * free.
 */
static void build_with(const char *allocator, uint64_t seed) {
    context x;
    wh_kdtree_result r;
    open_all(&x, seed, 16 << 20, allocator);
    x.o.shared_references = 40;
    x.o.chunk_references = 16;
    x.o.block_references = 64;
    make_mesh(&the_mesh, SOUP, 70, &x.random);
    load(&x, &the_mesh);
    x.o.most_triangles = the_mesh.n;
    const wh_status made = wh_kdtree_create(&x.tree, &x.o);
    const int is_disjoint = (wh_heap_allocator(x.heap)->caps & WH_CAP_DISJOINT) != 0;
    assert_true(made == WH_UNSUPPORTED || (made == WH_OK && is_disjoint));
    for (uint32_t i = 0; i < 2 && made == WH_OK; i++) {
        assert_int_equal(wh_kdtree_build(x.tree, &x.mesh, NULL), WH_OK);
        const wh_status s = wh_kdtree_finish(x.tree, &r);
        if (s != WH_OK && s != WH_OUT_OF_MEMORY) {
            print_error("%s: %s\n", allocator, wh_device_error_text(x.device));
        }
        assert_true(s == WH_OK || s == WH_OUT_OF_MEMORY);
        expect_sound(&x);
        (void)compare_rays(&x, &the_mesh, 20);
    }
    close_all(&x);
}

static void test_allocators(void **state) {
    const wh_allocator_info *info;
    (void)state;
    for (uint32_t i = 0; (info = wh_allocator_at(i)) != NULL; i++) {
        if ((info->caps & WH_CAP_SIM) != 0) {
            build_with(info->name, i);
        }
    }
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

int main(int argc, char **argv) {
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocators),  cmocka_unit_test(test_full_at_each),
        cmocka_unit_test(test_full_heap),   cmocka_unit_test(test_full_rooms),
        cmocka_unit_test(test_bad_options), cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_check),       cmocka_unit_test(test_full_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

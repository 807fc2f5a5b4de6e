/* kdtree.c: the host's calls of k-d trees (kdtree.h). */
#include "kdtree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "built_list.h"
#include "host/last_error.h"
#include "host/structs.h"
#include "host/try.h"
#include "warpheap/detail/alloc/tables.h"

WH_TABLES_OF(whi_kdtree_kernels, whi_kdtree_kernels_find, WH_CAP_DISJOINT)
WH_TABLES_ONCE(whi_kdtree_trace, whi_kdtree_trace_find)

#define SHARED_REFERENCES 1024u
#define CHUNK_REFERENCES 128u
#define MOST_HELD 9u
#define MOST_NODES (1u << 30)      /* a child's number has 30 bits */
#define MOST_REFERENCES UINT32_MAX /* a leaf's first one has 32 */

/* One tree; who calls has it to himself. */
struct wh_kdtree {
    wh_heap *heap;
    wh_device *device;
    const whi_kdtree_kernels *kernels;
    const whi_kdtree_trace *trace;
    whi_kdtree k;
    uint64_t most_triangles;
    void *held[MOST_HELD]; /* memory of the device */
    uint32_t n_held;
    whi_kd_tally *tallies; /* of the host, a copy */
    void *stream;
    enum { IDLE, STARTED, DONE } stage;
    wh_kdtree_result seen; /* what finish has found */
};

/* --- create ------------------------------------------------------------------------------------
 */

static uint32_t or_default(uint32_t v, uint32_t otherwise) {
    return v != 0 ? v : otherwise;
}

static float cost_or_default(float v, float otherwise) {
    return v != 0 ? v : otherwise;
}

static int is_cost(float v) {
    return v > 0 && v <= 1e6f; /* and no NaN */
}

static wh_status take_costs(whi_kdtree *k, const wh_kdtree_options *o) {
    k->traversal_cost = cost_or_default(o->traversal_cost, 1);
    k->intersection_cost = cost_or_default(o->intersection_cost, 1.5f);
    k->empty_bonus = cost_or_default(o->empty_bonus, 0.8f);
    if (!is_cost(k->traversal_cost) || !is_cost(k->intersection_cost) || !is_cost(k->empty_bonus)) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "wh_kdtree_options: costs and bonus are positive, up to a million");
    }
    return WH_OK;
}

static wh_status take_sizes(whi_kdtree *k, const wh_kdtree_options *o) {
    const double depth = 8 + 1.3 * log2((double)(o->most_triangles != 0 ? o->most_triangles : 1));
    k->max_depth = or_default(o->max_depth, (uint32_t)depth);
    k->leaf_references = or_default(o->leaf_references, 2);
    k->shared_references = or_default(o->shared_references, SHARED_REFERENCES);
    k->chunk_references = or_default(o->chunk_references, CHUNK_REFERENCES);
    k->block_references = or_default(o->block_references, 20480);
    if (o->block_references == 0 && k->block_references < k->shared_references) {
        k->block_references = k->shared_references;
    }
    if (k->max_depth > WH_KDTREE_MOST_DEPTH) {
        return whi_refuse(WH_BAD_ARGUMENT, "max_depth is at most %u, not %u", WH_KDTREE_MOST_DEPTH,
                          k->max_depth);
    }
    if (k->block_references < k->shared_references) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "block_references, %u, is at least shared_references, %u",
                          k->block_references, k->shared_references);
    }
    if (o->most_triangles / k->chunk_references >= WHI_KD_MOST_CHUNKS) {
        return whi_refuse(WH_BAD_ARGUMENT, "chunks of %u references are too small for %llu",
                          k->chunk_references, (unsigned long long)o->most_triangles);
    }
    return WH_OK;
}

/* How much room the tree has. Warps take numbers and promises in batches: each may have some left.
 */
static wh_status take_rooms(whi_kdtree *k, const wh_kdtree_options *o) {
    static const uint32_t references[] = {12, 24, 1};
    const uint64_t n = o->most_triangles, warps = (uint64_t)k->blocks * (k->threads / 32);
    uint64_t nodes = o->most_nodes != 0 ? o->most_nodes : 16 * n + warps * k->node_batch + 64;
    uint64_t refs = o->most_references;
    if (refs == 0) {
        refs = references[o->kind] * n + warps * k->promise_batch + 64;
    } else if (refs < n) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "most_references, %llu, is at least most_triangles, %llu",
                          (unsigned long long)refs, (unsigned long long)n);
    }
    k->most_nodes = (uint32_t)(nodes < MOST_NODES ? nodes : MOST_NODES);
    k->most_references = refs < MOST_REFERENCES ? refs : MOST_REFERENCES;
    return WH_OK;
}

/* n entries of some bytes, of the device, until the tree is destroyed. *p is a pointer to whatever
 * they are. */
static wh_status hold(wh_kdtree *x, void *p, uint64_t n, uint64_t bytes) {
    void *memory = NULL;
    TRY(wh_device_alloc(x->device, &memory, n * bytes + 8));
    x->held[x->n_held++] = memory;
    memcpy(p, &memory, sizeof memory);
    return WH_OK;
}

static wh_status hold_all(wh_kdtree *x) {
    whi_kdtree *k = &x->k;
    const uint64_t warps = (uint64_t)k->blocks * (k->threads / 32);
    TRY(hold(x, &k->nodes, k->most_nodes, sizeof *k->nodes));
    TRY(hold(x, &k->references, k->most_references, sizeof *k->references));
    TRY(hold(x, &k->state, 1, sizeof *k->state));
    TRY(hold(x, &k->queue, k->queue_room, sizeof *k->queue));
    TRY(hold(x, &k->stacks, warps * k->stack_room, sizeof *k->stacks));
    TRY(hold(x, &k->smalls, warps * k->small_room, sizeof *k->smalls));
    TRY(hold(x, &k->bins, warps * k->bins_room, sizeof *k->bins));
    TRY(hold(x, &k->tallies, warps, sizeof *k->tallies));
    TRY(hold(x, &k->root, x->kernels->root_bytes(k, x->most_triangles), 1));
    x->tallies = malloc(warps * sizeof *x->tallies);
    return x->tallies != NULL ? WH_OK : WH_OUT_OF_MEMORY;
}

static wh_status check_options(const wh_kdtree_options *o) {
    if (o->heap == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_kdtree_options: a heap, please");
    }
    if ((unsigned)o->kind > WH_KDTREE_POINTS) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_kdtree_options: no such kind of a tree");
    }
    if (o->most_triangles > WH_KDTREE_MOST_TRIANGLES) {
        return whi_refuse(WH_BAD_ARGUMENT, "a tree has at most %u triangles, not %llu",
                          WH_KDTREE_MOST_TRIANGLES, (unsigned long long)o->most_triangles);
    }
    return WH_OK;
}

static wh_status make(wh_kdtree *x, const wh_kdtree_options *o) {
    whi_kdtree *k = &x->k;
    TRY(check_options(o));
    const wh_allocator_info *info = wh_heap_allocator(o->heap);
    if ((info->caps & WH_CAP_DISJOINT) == 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "a tree needs blocks that do not overlap: those of the heap's allocator, "
                          "%s, may",
                          info->name);
    }
    x->heap = o->heap;
    x->device = wh_heap_device(o->heap);
    const wh_target target = wh_device_get_info(x->device)->target;
    x->kernels = whi_kdtree_kernels_find(info->name, target);
    x->trace = whi_kdtree_trace_find(target);
    if (x->kernels == NULL || x->trace == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "trees are not built for %s", info->name);
    }
    x->most_triangles = o->most_triangles;
    k->kind = o->kind;
    TRY(take_costs(k, o));
    TRY(take_sizes(k, o));
    k->stack_room = k->max_depth + 6;
    TRY(x->kernels->size(x->device, k));
    k->small_room = k->most_small + 32 + k->max_depth + 2;                     /* group.h G2 */
    k->group_references = k->chunk_references < 32 ? k->chunk_references : 32; /* a warp's lanes */
    if (k->give_references > k->group_references + 1) {
        k->give_references = k->group_references + 1; /* add_task */
    }
    k->bins_room = k->bins_room < k->shared_references ? k->bins_room : k->shared_references;
    const uint64_t warps = o->most_triangles / 32 + 1, each = k->threads / 32; /* that have work */
    k->blocks = warps / each + 1 < k->blocks ? (uint32_t)(warps / each + 1) : k->blocks;
    k->queue_room = 2;
    while (k->queue_room < k->blocks * each * k->most_puts) { /* queue.h Q3 */
        k->queue_room *= 2;
    }
    TRY(take_rooms(k, o));
    return hold_all(x);
}

static void drop(wh_kdtree *x) {
    while (x->n_held != 0) {
        (void)wh_device_free(x->device, x->held[--x->n_held]);
    }
    free(x->tallies);
    free(x);
}

wh_status wh_kdtree_create_for(wh_kdtree **tree, const wh_kdtree_options *options,
                               size_t options_bytes) {
    wh_kdtree_options o;
    whi_forget_error();
    if (tree == NULL || options == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *tree = NULL;
    TRY(whi_take_struct(&o, sizeof o, options, options_bytes));
    wh_kdtree *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    const wh_status s = make(x, &o);
    if (s != WH_OK) {
        drop(x);
        return s;
    }
    *tree = x;
    return WH_OK;
}

wh_status wh_kdtree_destroy(wh_kdtree *x) {
    whi_forget_error();
    if (x == NULL) {
        return WH_OK;
    }
    const wh_status s = wh_device_sync(x->device);
    drop(x);
    return s;
}

/* --- build -------------------------------------------------------------------------------------
 */

static wh_status check_mesh(const wh_kdtree *x, const wh_kdtree_mesh *m) {
    if (m->n_triangles > x->most_triangles) {
        return whi_refuse(
            WH_BAD_ARGUMENT, "the mesh has %llu triangles, and %llu at most were said",
            (unsigned long long)m->n_triangles, (unsigned long long)x->most_triangles);
    }
    if (m->n_triangles != 0 && (m->triangles == NULL || m->vertices == NULL)) {
        return whi_refuse(WH_BAD_ARGUMENT, "the mesh has triangles, and no %s",
                          m->triangles == NULL ? "numbers of vertices" : "vertices");
    }
    if ((uintptr_t)m->triangles % 4 != 0 || (uintptr_t)m->vertices % 4 != 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "an array of the mesh is not aligned to 4 bytes");
    }
    return WH_OK;
}

wh_status wh_kdtree_build_for(wh_kdtree *x, const wh_kdtree_mesh *mesh, void *stream,
                              size_t mesh_bytes) {
    wh_kdtree_mesh m;
    whi_forget_error();
    if (x == NULL || mesh == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(whi_take_struct(&m, sizeof m, mesh, mesh_bytes));
    TRY(check_mesh(x, &m));
    if (x->stage == STARTED && x->stream != stream) {
        TRY(wh_stream_sync(x->device, x->stream));
    }
    x->k.mesh = m;
    x->stage = IDLE;
    TRY(x->kernels->build(x->heap, stream, &x->k));
    x->stage = STARTED;
    x->stream = stream;
    return WH_OK;
}

/* The sums over all warps. */
static void add_tallies(const wh_kdtree *x, uint32_t warps, wh_kdtree_result *r) {
    double bytes = 0, squared = 0;
    for (uint32_t i = 0; i < warps; i++) {
        const whi_kd_tally *y = &x->tallies[i];
        r->nodes += y->nodes;
        r->leaves += y->leaves;
        r->empty_leaves += y->empty_leaves;
        r->references += y->references;
        r->cut_leaves += y->cut_leaves;
        r->cut_references += y->cut_references;
        r->requests += y->requests;
        r->failed += y->failed;
        r->depth = y->depth > r->depth ? y->depth : r->depth;
        bytes += (double)y->bytes;
        squared += (double)y->bytes_squared;
        r->cost += y->cost;
    }
    if (r->requests != 0) {
        const double n = (double)r->requests, mean = bytes / n;
        const double variance = squared / n - mean * mean;
        r->request_mean = mean;
        r->request_deviation = variance > 0 ? sqrt(variance) : 0;
    }
}

static wh_status read_result(wh_kdtree *x) {
    const whi_kdtree *k = &x->k;
    const uint32_t warps = k->blocks * (k->threads / 32);
    wh_kdtree_result *r = &x->seen;
    whi_kd_state state;
    TRY(wh_stream_sync(x->device, x->stream));
    TRY(wh_device_copy_out(x->device, &state, k->state, sizeof state));
    TRY(wh_device_copy_out(x->device, x->tallies, k->tallies, warps * sizeof *x->tallies));
    memset(r, 0, sizeof *r);
    add_tallies(x, warps, r);
    r->skipped = state.skipped;
    memcpy(r->lo, state.frame.lo, sizeof r->lo);
    memcpy(r->hi, state.frame.hi, sizeof r->hi);
    return WH_OK;
}

wh_status wh_kdtree_finish(wh_kdtree *x, wh_kdtree_result *result) {
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage == IDLE) {
        return whi_refuse(WH_BAD_ARGUMENT, "no build has been started");
    }
    if (x->stage == STARTED) {
        const wh_status s = read_result(x);
        x->stage = s == WH_OK ? DONE : IDLE; /* a kernel has failed: there is no tree */
        TRY(s);
    }
    if (result != NULL) {
        *result = x->seen;
    }
    if (x->seen.cut_leaves == 0) {
        return WH_OK;
    }
    return whi_refuse(WH_OUT_OF_MEMORY,
                      "%llu nodes of %llu references could not be split: %s was full; the tree is "
                      "right as it is",
                      (unsigned long long)x->seen.cut_leaves,
                      (unsigned long long)x->seen.cut_references,
                      x->seen.failed != 0 ? "the heap" : "room for nodes or references");
}

/* --- rays --------------------------------------------------------------------------------------
 */

static wh_status take_handle(const wh_kdtree *x, wh_kdtree_ref *r) {
    if (x->stage == IDLE) {
        return whi_refuse(WH_BAD_ARGUMENT, "no build has been started");
    }
    if (x->k.kind == WH_KDTREE_POINTS) {
        return whi_refuse(WH_UNSUPPORTED, "a tree of points cannot be followed by rays");
    }
    memset(r, 0, sizeof *r);
    r->nodes = x->k.nodes;
    r->references = x->k.references;
    r->frame = &x->k.state->frame;
    r->vertices = x->k.mesh.vertices;
    r->triangles = x->k.mesh.triangles;
    r->n_vertices = x->k.mesh.n_vertices;
    r->n_triangles = x->k.mesh.n_triangles;
    return WH_OK;
}

wh_status wh_kdtree_copy_handle(const wh_kdtree *x, void *handle, size_t handle_bytes) {
    wh_kdtree_ref r;
    whi_forget_error();
    if (x == NULL || handle == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (handle_bytes != sizeof r) {
        return whi_refuse(WH_WRONG_BUILD,
                          "a handle has %zu bytes here and %zu there: the library was built from "
                          "other headers",
                          sizeof r, handle_bytes);
    }
    TRY(take_handle(x, &r));
    memcpy(handle, &r, sizeof r);
    return WH_OK;
}

wh_status wh_kdtree_trace_for(wh_kdtree *x, const wh_kdtree_rays *rays, void *stream,
                              size_t rays_bytes) {
    whi_trace t;
    whi_forget_error();
    if (x == NULL || rays == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(whi_take_struct(&t.rays, sizeof t.rays, rays, rays_bytes));
    TRY(take_handle(x, &t.tree));
    if (t.rays.n != 0 && (t.rays.rays == NULL || t.rays.hits == NULL)) {
        return whi_refuse(WH_BAD_ARGUMENT, "there are rays to trace, and no array of %s",
                          t.rays.rays == NULL ? "rays" : "hits");
    }
    if ((uintptr_t)t.rays.rays % 4 != 0 || (uintptr_t)t.rays.hits % 4 != 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "rays or hits are not aligned to 4 bytes");
    }
    return t.rays.n != 0 ? x->trace->trace(x->device, stream, &t) : WH_OK;
}

/* --- check -------------------------------------------------------------------------------------
 */

/* A copy of n bytes of device memory; NULL: there is no memory, or *s is not OK. */
static void *copy_of(wh_device *device, const void *p, uint64_t n, wh_status *s) {
    void *copy = malloc(n + 8);
    if (copy == NULL) {
        *s = WH_OUT_OF_MEMORY;
    }
    if (*s == WH_OK && n != 0) {
        *s = wh_device_copy_out(device, copy, p, n);
    }
    return copy;
}

static wh_status check_copy(const wh_kdtree *x, wh_kdtree_report *r) {
    const whi_kdtree *k = &x->k;
    const wh_kdtree_mesh *m = &k->mesh;
    whi_kd_state state;
    whi_kd_copy c;
    TRY(wh_device_copy_out(x->device, &state, k->state, sizeof state));
    memset(&c, 0, sizeof c);
    c.n_vertices = m->n_vertices;
    c.n_triangles = m->n_triangles;
    c.n_nodes = state.next_node < k->most_nodes ? state.next_node : k->most_nodes;
    c.n_references = state.n_references;
    c.frame = state.frame;
    c.kind = k->kind;
    wh_status s = WH_OK;
    void *copies[4];
    c.nodes = copies[0] = copy_of(x->device, k->nodes, c.n_nodes * sizeof *c.nodes, &s);
    c.references = copies[1] = copy_of(x->device, k->references, c.n_references * 4, &s);
    c.vertices = copies[2] = copy_of(x->device, m->vertices, c.n_vertices * 12, &s);
    c.triangles = copies[3] = copy_of(x->device, m->triangles, c.n_triangles * 12, &s);
    if (s == WH_OK && !whi_kd_check(&c, r)) {
        s = WH_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < 4; i++) {
        free(copies[i]);
    }
    return s;
}

wh_status wh_kdtree_check(wh_kdtree *x, wh_kdtree_report *report) {
    wh_kdtree_report r;
    whi_forget_error();
    if (x == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (x->stage != DONE) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_kdtree_finish comes first");
    }
    memset(&r, 0, sizeof r);
    TRY(check_copy(x, &r));
    if (report != NULL) {
        *report = r;
    }
    if (r.missing + r.foreign + r.repeated + r.broken != 0) {
        return whi_refuse(WH_CORRUPT,
                          "the tree: %llu triangles are missing in leaves, %llu do not belong "
                          "there, %llu are there twice; %llu nodes are broken",
                          (unsigned long long)r.missing, (unsigned long long)r.foreign,
                          (unsigned long long)r.repeated, (unsigned long long)r.broken);
    }
    return WH_OK;
}

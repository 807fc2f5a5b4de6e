/* graph.c: the host's calls on dynamic graphs. */
#include "warpheap/graph_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "built_list.h"
#include "graph_own.h"
#include "host/last_error.h"
#include "graph_batch.h"

WH_TABLES(whi_lattice_kernels, whi_lattice_kernels_find)
WH_TABLES(whi_faim_kernels, whi_faim_kernels_find)
WH_TABLES(whi_ouro_kernels, whi_ouro_kernels_find)
WH_TABLES(whi_aim_kernels, whi_aim_kernels_find)
WH_TABLES(whi_faim_update_kernels, whi_faim_update_kernels_find)

/* The classes of graphs. */
static const struct {
    const char *name;
    const whi_graph_kernels *(*find)(const char *allocator, wh_target target);
} classes[] = {{"lattice", whi_lattice_kernels_find},
               {"faim", whi_faim_kernels_find},
               {"faim-update", whi_faim_update_kernels_find},
               {"ouro", whi_ouro_kernels_find},
               {"aim", whi_aim_kernels_find}};
#define N_CLASSES (sizeof classes / sizeof *classes)
#define CLASS_NAMES "lattice, faim, faim-update, ouro, aim"

static uint64_t round_up(uint64_t bytes) {
    return (bytes + 255) & ~(uint64_t)255;
}

/* Arrays of n entries each, one behind the other; NULL: only how many bytes. */
static uint64_t lay_scratch(whi_graph_scratch *s, unsigned char *memory, uint64_t n) {
    uint32_t **const arrays[] = {&s->from,  &s->to,    &s->rank,   &s->run,  &s->order,
                                 &s->lanes, &s->warps, &s->blocks, &s->keys, &s->numbers};
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        const int is_table = arrays[i] == &s->keys || arrays[i] == &s->numbers;
        *arrays[i] = (uint32_t *)(void *)(memory + at);
        at += round_up(n * (is_table ? 8 : 4));
    }
    s->done = memory + at;
    return at + round_up(n);
}

wh_status whi_graph_make_room(wh_graph *g, uint64_t n) {
    whi_graph_scratch s;
    void *memory = NULL;
    if (n <= g->room) {
        return WH_OK;
    }
    memset(&s, 0, sizeof s);
    const uint64_t bytes = lay_scratch(&s, NULL, n);
    TRY(wh_device_sync(g->device)); /* nothing works with the old memory */
    TRY(wh_device_alloc(g->device, &memory, bytes));
    (void)wh_device_free(g->device, g->scratch);
    (void)lay_scratch(&g->b.scratch, memory, n);
    g->scratch = memory;
    g->scratch_bytes = bytes;
    g->room = n;
    return WH_OK;
}

/* --- create and destroy --------------------------------------------------------------------------
 */

/* Options that not all classes have. */
static wh_status check_own_options(const wh_graph_options *o, const char *kind, uint32_t has) {
    if (o->arena_bytes != 0 && (has & WHI_GRAPH_ARENA) == 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "graphs of the class %s have no arena_bytes", kind);
    }
    if (o->worker != 0 && (has & WHI_GRAPH_WORKER) == 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "graphs of the class %s have no worker", kind);
    }
    if (o->worker > 1 && o->worker != WH_WARP_SIZE) {
        return whi_refuse(WH_BAD_ARGUMENT, "a worker is 1 lane or 32, not %u", o->worker);
    }
    return WH_OK;
}

static wh_status check_options(const wh_graph_options *o, const char **kind,
                               const whi_graph_kernels **kernels) {
    if (o->heap == NULL || o->vertices == 0 || o->vertices > WH_GRAPH_MOST_VERTICES ||
        o->batch > WH_GRAPH_MOST_ARCS) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "wh_graph_options: a heap, 1 to %u vertices, and batches of at most %u "
                          "arcs, please; not %llu and %llu",
                          WH_GRAPH_MOST_VERTICES, WH_GRAPH_MOST_ARCS,
                          (unsigned long long)o->vertices, (unsigned long long)o->batch);
    }
    size_t k = 0;
    while (k < N_CLASSES && o->kind != NULL && strcmp(o->kind, classes[k].name) != 0) {
        k++;
    }
    if (k == N_CLASSES) {
        return whi_refuse(WH_UNSUPPORTED, "no class of graphs is called '%.30s'; there are: %s",
                          o->kind, CLASS_NAMES);
    }
    const wh_allocator_info *info = wh_heap_allocator(o->heap);
    const uint32_t wanted = WH_CAP_FREE | WH_CAP_DISJOINT;
    if ((info->caps & wanted) != wanted) {
        return whi_refuse(WH_UNSUPPORTED,
                          "a graph gives memory back: the heap's allocator, %s, cannot free",
                          info->name);
    }
    *kind = classes[k].name;
    *kernels = classes[k].find(info->name, wh_device_get_info(wh_heap_device(o->heap))->target);
    if (*kernels == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "graphs are not built for %s", info->name);
    }
    return check_own_options(o, *kind, (*kernels)->options);
}

/* What a class has beside its records, and locks; zeros. */
static wh_status make_own(wh_graph *g, uint64_t lock_bytes) {
    const uint64_t own_bytes = round_up(g->kernels->own_bytes);
    void *own = NULL;
    g->fixed_bytes = own_bytes + lock_bytes;
    TRY(wh_device_alloc(g->device, &own, own_bytes + lock_bytes));
    g->b.own = own;
    g->b.locks = (uint32_t *)(void *)((unsigned char *)own + own_bytes);
    return wh_device_set(g->device, own, 0, own_bytes + lock_bytes);
}

static wh_status make(wh_graph *g, const wh_graph_options *o) {
    const uint64_t n = o->vertices;
    void *vertices = NULL, *runs = NULL, *counts = NULL;
    TRY(wh_device_alloc(g->device, &vertices, n * g->kernels->vertex_bytes));
    g->b.vertices = vertices;
    TRY(wh_device_alloc(g->device, &runs, n * sizeof(whi_graph_run)));
    g->b.runs = runs;
    TRY(wh_device_alloc(g->device, &counts, 2 * sizeof *g->counts));
    g->counts = counts;
    TRY(make_own(g, wh_graph_lock_words(n) * sizeof *g->b.locks));
    g->b.arena_bytes = o->arena_bytes;
    g->b.worker = o->worker;
    g->b.n_vertices = (uint32_t)n;
    g->b.counts = &g->counts[0];
    g->b.next = &g->counts[1];
    g->fixed_bytes += n * (g->kernels->vertex_bytes + sizeof(whi_graph_run));
    TRY(whi_graph_make_room(g, o->batch));
    TRY(g->kernels->clear(g->heap, NULL, &g->b));
    return wh_device_sync(g->device);
}

static void drop(wh_graph *g) {
    (void)wh_device_free(g->device, g->b.vertices);
    (void)wh_device_free(g->device, g->b.runs);
    (void)wh_device_free(g->device, g->b.own);
    (void)wh_device_free(g->device, g->counts);
    (void)wh_device_free(g->device, g->scratch);
    free(g);
}

wh_status whi_take_struct(void *own, size_t own_bytes, const void *theirs, size_t bytes) {
    uint64_t says;
    memcpy(&says, theirs, sizeof says);
    const uint64_t n = says != 0 ? says : bytes;
    if (n != own_bytes) {
        return whi_refuse(WH_WRONG_BUILD, "a structure of %llu bytes, where this library has %zu",
                          (unsigned long long)n, own_bytes);
    }
    memcpy(own, theirs, own_bytes);
    return WH_OK;
}

wh_status wh_graph_create_for(wh_graph **graph, const wh_graph_options *options,
                              size_t options_bytes) {
    wh_graph_options o;
    const whi_graph_kernels *kernels = NULL;
    const char *kind = NULL;
    whi_forget_error();
    if (graph == NULL || options == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *graph = NULL;
    TRY(whi_take_struct(&o, sizeof o, options, options_bytes));
    TRY(check_options(&o, &kind, &kernels));
    wh_graph *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    g->heap = o.heap;
    g->device = wh_heap_device(o.heap);
    g->kind = kind;
    g->kernels = kernels;
    const wh_status s = make(g, &o);
    if (s != WH_OK) {
        drop(g);
        return s;
    }
    *graph = g;
    return WH_OK;
}

wh_status wh_graph_destroy(wh_graph *g) {
    if (g == NULL) {
        return WH_OK;
    }
    wh_status s = wh_device_sync(g->device);
    s = s == WH_OK ? g->kernels->destroy(g->heap, NULL, &g->b) : s;
    s = s == WH_OK ? wh_device_sync(g->device) : s;
    drop(g);
    return s;
}

wh_heap *whi_graph_heap(const wh_graph *g) {
    return g->heap;
}

wh_status wh_graph_copy_handle(const wh_graph *g, uint64_t vertex_bytes, void **vertices,
                               uint64_t *n_vertices, uint32_t **locks) {
    whi_forget_error();
    if (g == NULL || vertices == NULL || n_vertices == NULL || locks == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (strcmp(g->kind, classes[0].name) != 0) {
        return whi_refuse(WH_UNSUPPORTED, "that is for graphs of the class %s, not %s",
                          classes[0].name, g->kind);
    }
    if (vertex_bytes != g->kernels->vertex_bytes) {
        return whi_refuse(WH_WRONG_BUILD, "a vertex has %llu bytes here, and %llu in the library",
                          (unsigned long long)vertex_bytes,
                          (unsigned long long)g->kernels->vertex_bytes);
    }
    *vertices = g->b.vertices;
    *n_vertices = g->b.n_vertices;
    *locks = g->b.locks;
    return WH_OK;
}

/* --- batches -------------------------------------------------------------------------------------
 */

/* A batch with its arrays on the device. */
static wh_status bring(wh_graph *g, const wh_graph_batch *batch, whi_graph_batch *b) {
    if (batch->n > WH_GRAPH_MOST_ARCS || (batch->n != 0 && (!batch->from || !batch->to))) {
        return whi_refuse(WH_BAD_ARGUMENT, "a batch has two arrays, and at most %u arcs, not %llu",
                          WH_GRAPH_MOST_ARCS, (unsigned long long)batch->n);
    }
    TRY(whi_graph_make_room(g, batch->n));
    *b = g->b;
    b->n = (uint32_t)batch->n;
    b->from = batch->from;
    b->to = batch->to;
    b->done = batch->done;
    if (!batch->on_device) {
        TRY(wh_device_copy_in(g->device, b->scratch.from, batch->from, batch->n * 4));
        TRY(wh_device_copy_in(g->device, b->scratch.to, batch->to, batch->n * 4));
        b->from = b->scratch.from;
        b->to = b->scratch.to;
        b->done = batch->done != NULL ? b->scratch.done : NULL;
    }
    return WH_OK;
}

/* The next batch counts elsewhere. */
static void turn(wh_graph *g) {
    g->turn ^= 1;
    g->b.counts = &g->counts[g->turn];
    g->b.next = &g->counts[g->turn ^ 1];
}

static wh_status refused(const wh_graph *g, uint64_t n) {
    const wh_allocator_info *info = wh_heap_allocator(g->heap);
    return info->max_size == UINT64_MAX
               ? whi_refuse(WH_OUT_OF_MEMORY, "%llu arcs found no memory in the heap",
                            (unsigned long long)n)
               : whi_refuse(
                     WH_OUT_OF_MEMORY,
                     "%llu arcs found no memory: the heap is full, or an adjacency would be "
                     "larger than a block of %s can be (%llu bytes, or what its options say)",
                     (unsigned long long)n, info->name, (unsigned long long)info->max_size);
}

static wh_status tell(wh_graph *g, const wh_graph_batch *batch, const whi_graph_batch *b,
                      wh_graph_result *result) {
    wh_graph_result r;
    TRY(wh_stream_sync(g->device, batch->stream));
    TRY(wh_device_copy_out(g->device, &r, &b->counts->result, sizeof r));
    if (!batch->on_device && batch->done != NULL) {
        TRY(wh_device_copy_out(g->device, batch->done, b->done, batch->n));
    }
    if (result != NULL) {
        *result = r;
    }
    if (r.refused != 0) {
        return refused(g, r.refused);
    }
    return r.no_vertex != 0 ? WH_NO_VERTEX : WH_OK;
}

static wh_status update(wh_graph *g, const wh_graph_batch *batch, wh_graph_result *result,
                        int erases) {
    wh_graph_batch own;
    whi_graph_batch b;
    whi_forget_error();
    if (g == NULL || batch == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    TRY(whi_take_struct(&own, sizeof own, batch, sizeof own));
    if (own.n == 0) {
        return WH_OK;
    }
    TRY(bring(g, &own, &b));
    TRY((erases ? g->kernels->erase : g->kernels->insert)(g->heap, own.stream, &b));
    turn(g);
    return result != NULL || !own.on_device ? tell(g, &own, &b, result) : WH_OK;
}

wh_status wh_graph_insert(wh_graph *g, const wh_graph_batch *batch, wh_graph_result *result) {
    return update(g, batch, result, 0);
}

wh_status wh_graph_erase(wh_graph *g, const wh_graph_batch *batch, wh_graph_result *result) {
    return update(g, batch, result, 1);
}

wh_status wh_graph_has(wh_graph *g, const wh_graph_batch *batch) {
    wh_graph_batch own;
    whi_graph_batch b;
    whi_forget_error();
    if (g == NULL || batch == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(whi_take_struct(&own, sizeof own, batch, sizeof own));
    if (own.n == 0) {
        return WH_OK;
    }
    if (own.done == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_graph_has answers in batch->done, which is NULL");
    }
    TRY(bring(g, &own, &b));
    TRY(g->kernels->has(g->heap, own.stream, &b));
    if (own.on_device) {
        return WH_OK;
    }
    TRY(wh_stream_sync(g->device, own.stream));
    return wh_device_copy_out(g->device, own.done, b.done, own.n);
}

/* --- arrays in and out ------------------------------------------------------------------------ */

/* Device memory that a call needs for a while. */
static wh_status borrow(wh_graph *g, void **p, uint64_t bytes) {
    *p = NULL;
    return wh_device_alloc(g->device, p, bytes + 8);
}

/* Whether offsets ascend, and what is between the first and the last. Host memory. */
static wh_status check_offsets(const uint64_t *offset, uint64_t n, uint64_t *arcs) {
    for (uint64_t v = 0; v < n; v++) {
        if (offset[v] > offset[v + 1]) {
            return whi_refuse(WH_BAD_ARGUMENT, "offset[%llu] is larger than offset[%llu]",
                              (unsigned long long)v, (unsigned long long)v + 1);
        }
    }
    *arcs = offset[n] - offset[0];
    return *arcs <= WH_GRAPH_MOST_ARCS
               ? WH_OK
               : whi_refuse(WH_BAD_ARGUMENT, "%llu arcs at once: at most %u, please",
                            (unsigned long long)*arcs, WH_GRAPH_MOST_ARCS);
}

/* What from_csr needs for a while. */
typedef struct csr_source {
    wh_graph_arrays arrays; /* of the caller */
    uint64_t *offset;       /* host memory of ours */
    void *device_offset;    /* ours, or NULL */
    void *device_to;        /* ours, or NULL */
    uint64_t arcs;
} csr_source;

static void drop_source(wh_graph *g, csr_source *c) {
    free(c->offset);
    (void)wh_device_free(g->device, c->device_offset);
    (void)wh_device_free(g->device, c->device_to);
}

/* The arrays on the device, looked at. */
static wh_status bring_csr(wh_graph *g, csr_source *c, whi_graph_batch *b) {
    const wh_graph_arrays *a = &c->arrays;
    const uint64_t n = g->b.n_vertices, bytes = (n + 1) * 8;
    c->offset = malloc(bytes);
    if (c->offset == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    if (a->on_device) {
        TRY(wh_device_copy_out(g->device, c->offset, a->offset, bytes));
    } else {
        memcpy(c->offset, a->offset, bytes);
    }
    TRY(check_offsets(c->offset, n, &c->arcs));
    TRY(whi_graph_make_room(g, c->arcs > n ? c->arcs : n));
    *b = g->b;
    b->n = (uint32_t)c->arcs;
    b->offset = a->offset;
    b->out = a->to + c->offset[0];
    if (!a->on_device) {
        TRY(borrow(g, &c->device_offset, bytes));
        TRY(borrow(g, &c->device_to, c->arcs * 4));
        TRY(wh_device_copy_in(g->device, c->device_offset, a->offset, bytes));
        TRY(wh_device_copy_in(g->device, c->device_to, b->out, c->arcs * 4));
        b->offset = c->device_offset;
        b->out = c->device_to;
    }
    return WH_OK;
}

static wh_status insert_csr(wh_graph *g, csr_source *c, wh_graph_result *result) {
    whi_graph_batch b;
    wh_graph_batch batch;
    uint64_t n = 0;
    TRY(wh_graph_to_csr(g, NULL, &n));
    if (n != 0) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "the graph has %llu arcs: wh_graph_from_csr fills an empty one",
                          (unsigned long long)n);
    }
    TRY(bring_csr(g, c, &b));
    memset(&batch, 0, sizeof batch);
    batch.stream = c->arrays.stream;
    TRY(g->kernels->clear(g->heap, batch.stream, &b));
    TRY(g->kernels->from_csr(g->heap, batch.stream, &b));
    const wh_status s = tell(g, &batch, &b, result);
    if (result != NULL) {
        result->no_change -= result->no_vertex; /* a worker does not know why an arc is none */
    }
    const wh_status again = wh_device_set(g->device, g->counts, 0, 2 * sizeof *g->counts);
    return s != WH_OK ? s : again;
}

wh_status wh_graph_from_csr(wh_graph *g, const wh_graph_arrays *arrays, wh_graph_result *result) {
    csr_source c;
    whi_forget_error();
    if (g == NULL || arrays == NULL) {
        return WH_BAD_ARGUMENT;
    }
    memset(&c, 0, sizeof c);
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    TRY(whi_take_struct(&c.arrays, sizeof c.arrays, arrays, sizeof c.arrays));
    if (c.arrays.offset == NULL || c.arrays.to == NULL) {
        return WH_BAD_ARGUMENT;
    }
    const wh_status s = insert_csr(g, &c, result);
    drop_source(g, &c);
    return s;
}

/* What comes before each vertex, into sums (device memory), and how many arcs there are. */
static wh_status sum_up(wh_graph *g, void *stream, uint64_t *sums, uint64_t *n) {
    whi_graph_batch b = g->b;
    b.sums = sums;
    TRY(g->kernels->sums(g->heap, stream, &b));
    TRY(wh_stream_sync(g->device, stream));
    return wh_device_copy_out(g->device, n, &sums[b.n_vertices], 8);
}

static wh_status copy_arcs(wh_graph *g, const wh_graph_arrays *a, const uint64_t *sums,
                           uint64_t n) {
    whi_graph_batch b = g->b;
    void *arcs = NULL;
    if (!a->on_device) {
        TRY(wh_device_copy_out(g->device, a->offset, sums, ((uint64_t)b.n_vertices + 1) * 8));
    }
    if (n > a->room) {
        return whi_refuse(WH_BAD_ARGUMENT, "the graph has %llu arcs, and there is room for %llu",
                          (unsigned long long)n, (unsigned long long)a->room);
    }
    b.offset = sums;
    b.out = a->to;
    if (!a->on_device) {
        TRY(borrow(g, &arcs, n * 4));
        b.out = arcs;
    }
    wh_status s = g->kernels->to_csr(g->heap, a->stream, &b);
    s = s == WH_OK ? wh_stream_sync(g->device, a->stream) : s;
    s = s == WH_OK && !a->on_device ? wh_device_copy_out(g->device, a->to, arcs, n * 4) : s;
    (void)wh_device_free(g->device, arcs);
    return s;
}

wh_status wh_graph_to_csr(wh_graph *g, const wh_graph_arrays *arrays, uint64_t *n) {
    wh_graph_arrays a;
    void *own = NULL;
    whi_forget_error();
    if (g == NULL || n == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *n = 0;
    memset(&a, 0, sizeof a);
    if (arrays != NULL) {
        TRY(whi_take_struct(&a, sizeof a, arrays, sizeof a));
        if (a.offset == NULL || a.to == NULL) {
            return WH_BAD_ARGUMENT;
        }
    }
    if (!a.on_device) {
        TRY(borrow(g, &own, ((uint64_t)g->b.n_vertices + 1) * 8));
    }
    uint64_t *sums = a.on_device ? a.offset : own;
    wh_status s = sum_up(g, a.stream, sums, n);
    s = s == WH_OK && arrays != NULL ? copy_arcs(g, &a, sums, *n) : s;
    (void)wh_device_free(g->device, own);
    return s;
}

wh_status wh_graph_degrees(wh_graph *g, uint32_t *degree, int on_device, void *stream) {
    void *out = NULL;
    whi_forget_error();
    if (g == NULL || degree == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_graph_batch b = g->b;
    const uint64_t bytes = (uint64_t)b.n_vertices * 4;
    b.out = degree;
    if (on_device) {
        return g->kernels->degrees(g->heap, stream, &b);
    }
    TRY(borrow(g, &out, bytes));
    b.out = out;
    wh_status s = g->kernels->degrees(g->heap, stream, &b);
    s = s == WH_OK ? wh_stream_sync(g->device, stream) : s;
    s = s == WH_OK ? wh_device_copy_out(g->device, degree, out, bytes) : s;
    (void)wh_device_free(g->device, out);
    return s;
}

/* --- looking -----------------------------------------------------------------------------------
 */

/* A kernel that fills `words` zeroed 64-bit words of device memory, brought to the host. */
static wh_status gather(wh_graph *g, whi_graph_step step, whi_graph_batch *b, void *out,
                        uint64_t words, void **at) {
    wh_status s = borrow(g, at, words * 8);
    s = s == WH_OK ? wh_device_set(g->device, *at, 0, words * 8) : s;
    b->sums = *at;
    b->report = *at;
    s = s == WH_OK ? step(g->heap, NULL, b) : s;
    s = s == WH_OK ? wh_device_sync(g->device) : s;
    s = s == WH_OK ? wh_device_copy_out(g->device, out, *at, words * 8) : s;
    (void)wh_device_free(g->device, *at);
    return s;
}

wh_status wh_graph_get_stats_for(wh_graph *g, wh_graph_stats *stats, size_t stats_bytes) {
    wh_graph_stats own;
    uint64_t sums[3];
    void *at = NULL;
    whi_forget_error();
    if (g == NULL || stats == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(whi_take_struct(&own, sizeof own, stats, stats_bytes));
    whi_graph_batch b = g->b;
    TRY(gather(g, g->kernels->stats, &b, sums, 3, &at));
    memset(&own, 0, sizeof own);
    own.struct_bytes = sizeof own;
    TRY(wh_graph_to_csr(g, NULL, &own.arcs));
    own.kind = g->kind;
    own.vertices = g->b.n_vertices;
    own.blocks = sums[0];
    own.block_bytes = sums[1];
    own.max_degree = sums[2];
    own.fixed_bytes = g->fixed_bytes + g->scratch_bytes;
    *stats = own;
    return WH_OK;
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* I2 of all adjacencies: the first vertex that has an arc twice; or n. */
static uint64_t first_double(const uint64_t *offset, uint32_t *to, uint64_t n) {
    for (uint64_t v = 0; v < n; v++) {
        const uint64_t degree = offset[v + 1] - offset[v];
        uint32_t *its = to + offset[v];
        qsort(its, degree, sizeof *its, compare_u32);
        for (uint64_t i = 1; i < degree; i++) {
            if (its[i - 1] == its[i]) {
                return v;
            }
        }
    }
    return n;
}

static wh_status check_sets(wh_graph *g, wh_report *r) {
    const uint64_t vertices = g->b.n_vertices;
    uint64_t n = 0;
    wh_graph_arrays a;
    memset(&a, 0, sizeof a);
    TRY(wh_graph_to_csr(g, NULL, &n));
    a.offset = malloc((vertices + 1) * 8);
    a.to = malloc(n * 4 + 4);
    a.room = n;
    wh_status s = a.offset != NULL && a.to != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s = s == WH_OK ? wh_graph_to_csr(g, &a, &n) : s;
    const uint64_t v = s == WH_OK ? first_double(a.offset, a.to, vertices) : vertices;
    if (v != vertices) {
        r->errors++;
        r->first_where = r->first_tag == 0 ? v : r->first_where;
        r->first_tag = r->first_tag == 0 ? 2 : r->first_tag;
    }
    free(a.offset);
    free(a.to);
    return s;
}

wh_status wh_graph_check(wh_graph *g, wh_report *report) {
    wh_report r;
    void *at = NULL;
    whi_forget_error();
    if (g == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_graph_batch b = g->b;
    TRY(gather(g, g->kernels->check, &b, &r, sizeof r / 8, &at));
    if (r.errors == 0) {
        TRY(check_sets(g, &r));
    }
    if (report != NULL) {
        *report = r;
    }
    return r.errors == 0
               ? WH_OK
               : whi_refuse(WH_CORRUPT, "I%llu is broken at vertex %llu",
                            (unsigned long long)r.first_tag, (unsigned long long)r.first_where);
}

wh_status wh_graph_rebase(wh_graph *g, int64_t moved) {
    whi_forget_error();
    if (g == NULL) {
        return WH_BAD_ARGUMENT;
    }
    whi_graph_batch b = g->b;
    b.moved = moved;
    TRY(g->kernels->rebase(g->heap, NULL, &b));
    return wh_device_sync(g->device);
}

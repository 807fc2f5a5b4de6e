/* graph.c: the host's calls on dynamic graphs. */
#include "warpheap/graph_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "built_list.h"
#include "graph_own.h"
#include "host/last_error.h"
#include "graph_batch.h"

/* What an allocator must have to get kernels: CMakeLists.txt says the same. */
#define CAPS (WH_CAP_FREE | WH_CAP_DISJOINT)

WH_TABLES_OF(whi_lattice_kernels, whi_lattice_kernels_find, CAPS)
WH_TABLES_OF(whi_faim_kernels, whi_faim_kernels_find, CAPS)
WH_TABLES_OF(whi_ouro_kernels, whi_ouro_kernels_find, CAPS)
WH_TABLES_OF(whi_aim_kernels, whi_aim_kernels_find, CAPS)
WH_TABLES_OF(whi_faim_update_kernels, whi_faim_update_kernels_find, CAPS)

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

/* Arrays of n entries each, one behind the other; NULL: only how many bytes. words: values of an
 * arc. */
static uint64_t lay_scratch(whi_graph_scratch *s, unsigned char *memory, uint64_t n,
                            uint32_t words) {
    uint32_t **const arrays[] = {&s->from,  &s->to,   &s->rank,   &s->run,
                                 &s->order, &s->keys, &s->numbers};
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        const int is_table = arrays[i] == &s->keys || arrays[i] == &s->numbers;
        *arrays[i] = (uint32_t *)(void *)(memory + at);
        at += round_up(n * (is_table ? 8 : 4));
    }
    for (uint32_t k = 0; k < words; k++) {
        s->values[k] = (uint32_t *)(void *)(memory + at);
        at += round_up(n * 4);
    }
    s->items = (whi_graph_item *)(void *)(memory + at);
    at += round_up(n * sizeof *s->items);
    s->hubs = (whi_graph_item *)(void *)(memory + at);
    at += round_up(n * sizeof *s->hubs);
    s->done = memory + at;
    s->erases = s->done + round_up(n);
    return at + 2 * round_up(n);
}

wh_status whi_graph_make_room(wh_graph *g, uint64_t n) {
    whi_graph_scratch s;
    void *memory = NULL;
    if (n <= g->room) {
        return WH_OK;
    }
    memset(&s, 0, sizeof s);
    const uint64_t bytes = lay_scratch(&s, NULL, n, g->b.words);
    TRY(wh_device_sync(g->device)); /* nothing works with the old memory */
    TRY(wh_device_alloc(g->device, &memory, bytes));
    (void)wh_device_free(g->device, g->scratch);
    (void)lay_scratch(&g->b.scratch, memory, n, g->b.words);
    g->scratch = memory;
    g->scratch_bytes = bytes;
    g->room = n;
    g->b.room = (uint32_t)n;
    return WH_OK;
}

/* --- create and destroy --------------------------------------------------------------------------
 */

/* Options that not all classes have. */
static wh_status check_own_options(const wh_graph_options *o, const char *kind, uint32_t has) {
    if (o->arena_bytes != 0 && (has & WHI_GRAPH_ARENA) == 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "graphs of the class %s have no arena_bytes", kind);
    }
    if (o->arena_bytes > (uint64_t)1 << 32) {
        return whi_refuse(WH_BAD_ARGUMENT, "arena_bytes is up to 2^32, not %llu",
                          (unsigned long long)o->arena_bytes);
    }
    if (o->worker != 0 && (has & WHI_GRAPH_WORKER) == 0) {
        return whi_refuse(WH_BAD_ARGUMENT, "graphs of the class %s have no worker", kind);
    }
    if (o->worker > 1 && o->worker != WH_WARP_SIZE) {
        return whi_refuse(WH_BAD_ARGUMENT, "a worker is 1 lane or 32, not %u", o->worker);
    }
    return WH_OK;
}

/* Modes that not every class of graphs has. */
static wh_status check_modes(const wh_graph_options *o, const char *kind, uint32_t has) {
    if (o->values > WH_GRAPH_MOST_VALUES) {
        return whi_refuse(WH_BAD_ARGUMENT, "an arc has at most %u values, not %u",
                          WH_GRAPH_MOST_VALUES, o->values);
    }
    if (o->values != 0 && (has & WHI_GRAPH_VALUES) == 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "arcs of graphs of the class %s have no values: take the class lattice",
                          kind);
    }
    if (o->sorted && (has & WHI_GRAPH_SORTED) == 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "graphs of the class %s are in no order: take the class lattice", kind);
    }
    if (o->multi && (has & WHI_GRAPH_MULTI) == 0) {
        return whi_refuse(WH_UNSUPPORTED, "graphs of the class %s are sets: take the class lattice",
                          kind);
    }
    if (o->multi && o->undirected) {
        return whi_refuse(WH_UNSUPPORTED, "a multigraph is directed: if one end of an edge were "
                                          "refused, nothing could tell which one lacks it");
    }
    return WH_OK;
}

/* Ids that can ever be. */
static uint64_t most_of(const wh_graph_options *o) {
    return o->most_vertices != 0 ? o->most_vertices : o->vertices;
}

static wh_status check_options(const wh_graph_options *o, const char **kind,
                               const whi_graph_kernels **kernels) {
    if (o->heap == NULL || most_of(o) == 0 || most_of(o) > WH_GRAPH_MOST_VERTICES ||
        o->vertices > most_of(o) || o->batch > WH_GRAPH_MOST_ARCS) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "wh_graph_options: a heap, 1 to %u vertices, which may become more, and "
                          "batches of at most %u arcs, please; not %llu, %llu and %llu",
                          WH_GRAPH_MOST_VERTICES, WH_GRAPH_MOST_ARCS,
                          (unsigned long long)o->vertices, (unsigned long long)o->most_vertices,
                          (unsigned long long)o->batch);
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
    if ((info->caps & CAPS) != CAPS) {
        return whi_refuse(WH_UNSUPPORTED,
                          "a graph gives memory back: the heap's allocator, %s, cannot free",
                          info->name);
    }
    *kind = classes[k].name;
    *kernels = classes[k].find(info->name, wh_device_get_info(wh_heap_device(o->heap))->target);
    if (*kernels == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "graphs are not built for %s", info->name);
    }
    TRY(check_modes(o, *kind, (*kernels)->options));
    return check_own_options(o, *kind, (*kernels)->options);
}

/* What a class has beside its records, and locks; zeros. */
static wh_status make_own(wh_graph *g) {
    const uint64_t own_bytes = g->kernels->own_bytes;
    const uint64_t lock_bytes = wh_graph_lock_words(g->b.n_vertices) * sizeof *g->b.locks;
    void *own = NULL, *locks = NULL;
    g->fixed_bytes += own_bytes + lock_bytes;
    if (own_bytes != 0) {
        TRY(wh_device_alloc(g->device, &own, own_bytes));
        g->b.own = own;
        TRY(wh_device_set(g->device, own, 0, own_bytes));
    }
    TRY(wh_device_alloc(g->device, &locks, lock_bytes));
    g->b.locks = locks;
    return wh_device_set(g->device, locks, 0, lock_bytes);
}

static wh_status make(wh_graph *g, const wh_graph_options *o) {
    const uint64_t n = most_of(o);
    void *vertices = NULL, *runs = NULL, *counts = NULL;
    TRY(wh_device_alloc(g->device, &vertices, n * g->kernels->vertex_bytes));
    g->b.vertices = vertices;
    TRY(wh_device_alloc(g->device, &runs, n * sizeof(whi_graph_run)));
    g->b.runs = runs;
    TRY(wh_device_alloc(g->device, &counts, 3 * sizeof *g->counts));
    g->counts = counts;
    g->b.n_vertices = (uint32_t)n;
    TRY(make_own(g));
    g->b.arena_bytes = o->arena_bytes;
    g->b.worker = o->worker;
    g->b.words = o->values;
    g->b.sorted = o->sorted;
    g->b.multi = o->multi;
    g->b.counts = &g->counts[0];
    g->b.next = &g->counts[1];
    g->b.ever = &g->counts[2];
    g->undirected = o->undirected;
    g->fixed_bytes += n * (g->kernels->vertex_bytes + sizeof(whi_graph_run));
    TRY(whi_graph_make_room(g, o->undirected ? 2 * o->batch : o->batch));
    if (o->vertices != n) {
        TRY(whi_graph_make_ids(g, o->vertices));
    }
    TRY(g->kernels->clear(g->heap, NULL, &g->b));
    return wh_device_sync(g->device);
}

static void drop(wh_graph *g) {
    whi_graph_drop_ids(g);
    (void)wh_device_free(g->device, g->b.vertices);
    (void)wh_device_free(g->device, g->b.runs);
    (void)wh_device_free(g->device, g->b.own);
    (void)wh_device_free(g->device, g->b.locks);
    (void)wh_device_free(g->device, g->counts);
    (void)wh_device_free(g->device, g->scratch);
    free(g);
}

wh_status wh_graph_create_for(wh_graph **graph, const wh_graph_options *options,
                              size_t options_bytes) {
    wh_graph_options o;
    const whi_graph_kernels *kernels = NULL;
    const char *kind = NULL;
    whi_forget_error();
    if (graph != NULL) {
        *graph = NULL;
    }
    if (graph == NULL || options == NULL) {
        return WH_BAD_ARGUMENT;
    }
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
    const wh_status before = wh_device_sync(g->device); /* the heap may be sound all the same */
    wh_status s = g->kernels->destroy(g->heap, NULL, &g->b);
    s = s == WH_OK ? wh_device_sync(g->device) : s;
    drop(g);
    return before != WH_OK ? before : s;
}

wh_status whi_graph_expect_set(const wh_graph *g) {
    return !g->b.multi ? WH_OK
                       : whi_refuse(WH_UNSUPPORTED, "triangles are those of a set of edges, and "
                                                    "this graph is a multigraph");
}

wh_heap *whi_graph_heap(const wh_graph *g) {
    return g->heap;
}

wh_status wh_graph_copy_handle(const wh_graph *g, uint64_t layout, wh_graph_parts *parts,
                               uint64_t parts_bytes) {
    whi_forget_error();
    if (g == NULL || parts == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (strcmp(g->kind, classes[0].name) != 0) {
        return whi_refuse(WH_UNSUPPORTED, "that is for graphs of the class %s, not %s",
                          classes[0].name, g->kind);
    }
    if (layout != wh_lattice_layout() || parts_bytes != sizeof *parts) {
        return whi_refuse(WH_WRONG_BUILD,
                          "these kernels know another layout of graphs than the library: compile "
                          "both with the same headers and the same options (WH_HOSTILE)");
    }
    const int is_plain = g->b.words == 0 && !g->b.sorted && !g->b.multi && !g->undirected;
    parts->vertices = g->b.vertices;
    parts->n_vertices = g->b.n_vertices;
    parts->values = g->b.words;
    parts->sorted = g->b.sorted;
    parts->locks = is_plain ? g->b.locks : NULL;
    parts->alive = whi_graph_alive(g);
    return WH_OK;
}

/* --- batches -------------------------------------------------------------------------------------
 */

/* Arrays of values are of values that there are. */
static wh_status check_values(const wh_graph *g, uint32_t *const *values) {
    for (uint32_t k = g->b.words; k < WH_GRAPH_MOST_VALUES; k++) {
        if (values[k] != NULL) {
            return whi_refuse(WH_BAD_ARGUMENT, "values[%u] is no NULL, and an arc has %u values", k,
                              g->b.words);
        }
    }
    return WH_OK;
}

/* The values of the caller's batch, or room for them, on the device. */
static wh_status bring_values(wh_graph *g, const wh_graph_batch *batch, whi_graph_batch *b) {
    TRY(check_values(g, batch->values));
    for (uint32_t k = 0; k < b->words; k++) {
        b->values[k] = batch->values[k];
        if (batch->values[k] != NULL && !batch->on_device) {
            b->values[k] = b->scratch.values[k];
            TRY(wh_device_copy_in(g->device, b->values[k], batch->values[k], batch->n * 4));
        }
    }
    return WH_OK;
}

/* A batch with its arrays on the device. */
static wh_status bring(wh_graph *g, const wh_graph_batch *batch, whi_graph_batch *b) {
    if (batch->n > WH_GRAPH_MOST_ARCS || (batch->n != 0 && (!batch->from || !batch->to))) {
        return whi_refuse(WH_BAD_ARGUMENT, "a batch has two arrays, and at most %u arcs, not %llu",
                          WH_GRAPH_MOST_ARCS, (unsigned long long)batch->n);
    }
    TRY(whi_graph_make_room(g, g->undirected ? 2 * batch->n : batch->n));
    *b = g->b;
    b->n = b->arcs = (uint32_t)batch->n;
    b->overwrites = batch->overwrites;
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
    TRY(wh_device_copy_out(g->device, &r, b->told != NULL ? &b->counts->told : &b->counts->result,
                           sizeof r));
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

enum { INSERTS = 1, ERASES = 2, MIXED = INSERTS | ERASES };

/* What a batch has beside its arcs, on the device; and both ways where the graph is undirected. */
static wh_status bring_more(wh_graph *g, const wh_graph_batch *batch, whi_graph_batch *b,
                            int does) {
    if (does & INSERTS) {
        TRY(bring_values(g, batch, b));
    }
    if (does == MIXED) {
        if (batch->erases == NULL) {
            return whi_refuse(WH_BAD_ARGUMENT,
                              "wh_graph_update asks batch->erases what to do, which is NULL");
        }
        b->erases = batch->erases;
        if (!batch->on_device) {
            TRY(wh_device_copy_in(g->device, b->scratch.erases, batch->erases, batch->n));
            b->erases = b->scratch.erases;
        }
    }
    b->n = g->undirected ? 2 * b->arcs : b->arcs;
    return WH_OK;
}

/* One pass over the batch. */
static wh_status make_pass(wh_graph *g, void *stream, whi_graph_batch *b, int erases) {
    b->erasing = erases;
    b->counts = g->b.counts;
    b->next = g->b.next;
    TRY((erases ? g->kernels->erase : g->kernels->insert)(g->heap, stream, b));
    turn(g);
    return WH_OK;
}

/* What became of an arc is known by the worker of its source, or when all have worked. */
static wh_status make_passes(wh_graph *g, const wh_graph_batch *batch, whi_graph_batch *b, int does,
                             int waits) {
    if (g->undirected || (does == MIXED && (waits || b->done != NULL))) {
        b->told = b->done != NULL ? b->done : b->scratch.done;
        b->done = b->scratch.done;
    }
    if (does & ERASES) {
        TRY(make_pass(g, batch->stream, b, 1));
    }
    if (does & INSERTS) {
        TRY(make_pass(g, batch->stream, b, 0));
    }
    return b->told != NULL ? g->kernels->tell(g->heap, batch->stream, b) : WH_OK;
}

static wh_status update(wh_graph *g, const wh_graph_batch *batch, wh_graph_result *result,
                        int does) {
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
    TRY(bring_more(g, &own, &b, does));
    const int waits = result != NULL || !own.on_device;
    TRY(make_passes(g, &own, &b, does, waits));
    return waits ? tell(g, &own, &b, result) : WH_OK;
}

wh_status wh_graph_insert(wh_graph *g, const wh_graph_batch *batch, wh_graph_result *result) {
    return update(g, batch, result, INSERTS);
}

wh_status wh_graph_erase(wh_graph *g, const wh_graph_batch *batch, wh_graph_result *result) {
    return update(g, batch, result, ERASES);
}

wh_status wh_graph_update(wh_graph *g, const wh_graph_batch *batch, wh_graph_result *result) {
    return update(g, batch, result, MIXED);
}

wh_status wh_graph_expire(wh_graph *g, uint32_t k, uint32_t before, void *stream, uint64_t *gone) {
    wh_graph_batch batch;
    wh_graph_result result;
    whi_forget_error();
    if (g == NULL || k >= g->b.words) {
        return g == NULL
                   ? WH_BAD_ARGUMENT
                   : whi_refuse(WH_BAD_ARGUMENT, "value %u of arcs that have %u", k, g->b.words);
    }
    whi_graph_batch b = g->b;
    memset(&batch, 0, sizeof batch);
    batch.on_device = 1; /* nothing comes back but the count */
    batch.stream = stream;
    b.limit_value = k;
    b.limit_before = before;
    b.limit_once = g->undirected;
    TRY(g->kernels->expire(g->heap, stream, &b));
    turn(g);
    if (gone == NULL) {
        return WH_OK;
    }
    TRY(tell(g, &batch, &b, &result));
    *gone = result.applied;
    return WH_OK;
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
    TRY(bring_values(g, &own, &b)); /* others than those of arcs that are there stay */
    TRY(g->kernels->has(g->heap, own.stream, &b));
    if (own.on_device) {
        return WH_OK;
    }
    TRY(wh_stream_sync(g->device, own.stream));
    for (uint32_t k = 0; k < b.words; k++) {
        if (own.values[k] != NULL) {
            TRY(wh_device_copy_out(g->device, own.values[k], b.values[k], own.n * 4));
        }
    }
    return wh_device_copy_out(g->device, own.done, b.done, own.n);
}

/* --- arrays in and out ------------------------------------------------------------------------ */

/* Device memory that a call needs for a while. */
static wh_status borrow(wh_graph *g, void **p, uint64_t bytes) {
    *p = NULL;
    return wh_device_alloc(g->device, p, bytes + 8);
}

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

/* BAD_ARGUMENT if the offsets of the arrays, which are on the device, do not ascend by `arcs` in
 * all, or the graph has arcs. */
static wh_status look_at_csr(wh_graph *g, const whi_graph_batch *arrays, uint64_t arcs) {
    whi_graph_batch b = *arrays;
    wh_report r;
    void *at = NULL;
    TRY(gather(g, g->kernels->look, &b, &r, sizeof r / 8, &at));
    if (r.errors != 0) {
        return r.first_tag == WHI_CSR_DESCENDS
                   ? whi_refuse(WH_BAD_ARGUMENT, "offset[%llu] is larger than offset[%llu]",
                                (unsigned long long)r.first_where,
                                (unsigned long long)r.first_where + 1)
                   : whi_refuse(WH_BAD_ARGUMENT,
                                "vertex %llu has arcs: wh_graph_from_csr fills an empty graph",
                                (unsigned long long)r.first_where);
    }
    return arcs <= WH_GRAPH_MOST_ARCS
               ? WH_OK
               : whi_refuse(WH_BAD_ARGUMENT, "%llu arcs at once: at most %u, please",
                            (unsigned long long)arcs, WH_GRAPH_MOST_ARCS);
}

/* What from_csr needs for a while. */
typedef struct csr_source {
    wh_graph_arrays arrays; /* of the caller */
    void *device_offset;    /* ours, or NULL */
    void *device_to;        /* ours, or NULL */
    void *device_values[WH_GRAPH_MOST_VALUES];
    void *scratch;
    uint64_t first, arcs; /* offset[0]; how many */
} csr_source;

static void drop_source(wh_graph *g, csr_source *c) {
    (void)wh_device_free(g->device, c->scratch);
    (void)wh_device_free(g->device, c->device_offset);
    (void)wh_device_free(g->device, c->device_to);
    for (uint32_t k = 0; k < WH_GRAPH_MOST_VALUES; k++) {
        (void)wh_device_free(g->device, c->device_values[k]);
    }
}

/* Values of the arcs of the arrays on the device. */
static wh_status bring_csr_values(wh_graph *g, csr_source *c, whi_graph_batch *b) {
    for (uint32_t k = 0; k < b->words; k++) {
        uint32_t *theirs = c->arrays.values[k];
        b->values[k] = theirs != NULL ? theirs + c->first : NULL;
        if (theirs != NULL && !c->arrays.on_device) {
            TRY(borrow(g, &c->device_values[k], c->arcs * 4));
            TRY(wh_device_copy_in(g->device, c->device_values[k], b->values[k], c->arcs * 4));
            b->values[k] = c->device_values[k];
        }
    }
    return WH_OK;
}

/* The arrays on the device. */
static wh_status bring_csr(wh_graph *g, csr_source *c, whi_graph_batch *b) {
    const wh_graph_arrays *a = &c->arrays;
    const uint64_t n = g->b.n_vertices, bytes = (n + 1) * 8;
    uint64_t last = 0;
    *b = g->b;
    b->offset = a->offset;
    if (a->on_device) {
        TRY(wh_stream_sync(g->device, a->stream)); /* who writes the arrays there */
        TRY(wh_device_copy_out(g->device, &c->first, &a->offset[0], 8));
        TRY(wh_device_copy_out(g->device, &last, &a->offset[n], 8));
    } else {
        c->first = a->offset[0];
        last = a->offset[n];
        TRY(borrow(g, &c->device_offset, bytes));
        TRY(wh_device_copy_in(g->device, c->device_offset, a->offset, bytes));
        b->offset = c->device_offset;
    }
    TRY(look_at_csr(g, b, last - c->first));
    c->arcs = last - c->first;
    if (c->arcs != 0 && a->to == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "%llu arcs, and `to` is NULL",
                          (unsigned long long)c->arcs);
    }
    b->n = b->arcs = (uint32_t)c->arcs;
    b->out = a->to != NULL ? a->to + c->first : NULL;
    if (!a->on_device && c->arcs != 0) {
        TRY(borrow(g, &c->device_to, c->arcs * 4));
        TRY(wh_device_copy_in(g->device, c->device_to, b->out, c->arcs * 4));
        b->out = c->device_to;
    }
    return bring_csr_values(g, c, b);
}

/* Memory for the arrays as a batch, for as long as the call runs. */
static wh_status lay_csr(wh_graph *g, csr_source *c, whi_graph_batch *b) {
    const uint64_t n = c->arcs > b->n_vertices ? c->arcs : b->n_vertices;
    if (n <= g->room) {
        return WH_OK;
    }
    TRY(borrow(g, &c->scratch, lay_scratch(&b->scratch, NULL, n, 0)));
    (void)lay_scratch(&b->scratch, c->scratch, n, 0);
    b->room = (uint32_t)n;
    return WH_OK;
}

/* Rows that their vertices can take as they are, and then the others, as a batch. */
static wh_status take_csr(wh_graph *g, csr_source *c, whi_graph_batch *b) {
    void *const stream = c->arrays.stream;
    whi_graph_counts counts;
    TRY(g->kernels->clear(g->heap, stream, b));
    TRY(g->kernels->fill(g->heap, stream, b));
    TRY(wh_stream_sync(g->device, stream));
    TRY(wh_device_copy_out(g->device, &counts, b->counts, sizeof counts));
    if (counts.placed != 0) {
        TRY(lay_csr(g, c, b));
        TRY(g->kernels->from_csr(g->heap, stream, b));
    }
    return WH_OK;
}

/* A graph that could not take all rows, for want of device memory, gives back those that it has,
 * and is as it was made. */
static void drop_rows(wh_graph *g, void *stream, const whi_graph_batch *b) {
    (void)g->kernels->destroy(g->heap, stream, b);
    (void)g->kernels->clear(g->heap, stream, b);
    (void)wh_stream_sync(g->device, stream);
    if (g->kernels->own_bytes != 0) {
        (void)wh_device_set(g->device, g->b.own, 0, g->kernels->own_bytes);
    }
}

static wh_status insert_csr(wh_graph *g, csr_source *c, wh_graph_result *result) {
    whi_graph_batch b;
    wh_graph_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.stream = c->arrays.stream;
    TRY(bring_csr(g, c, &b));
    wh_status s = take_csr(g, c, &b);
    if (s != WH_OK) {
        drop_rows(g, batch.stream, &b);
    } else {
        s = tell(g, &batch, &b, result);
        g->one_sided |= s == WH_OUT_OF_MEMORY;
        if (result != NULL) {
            result->no_change -= result->no_vertex; /* a worker does not know why an arc is none */
        }
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
    if (c.arrays.offset == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(check_values(g, c.arrays.values));
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
    uint32_t *theirs[1 + WH_GRAPH_MOST_VALUES] = {a->to}, **at[1 + WH_GRAPH_MOST_VALUES] = {&b.out};
    void *copies[1 + WH_GRAPH_MOST_VALUES] = {NULL};
    for (uint32_t k = 0; k < b.words; k++) {
        theirs[k + 1] = a->values[k];
        at[k + 1] = &b.values[k];
    }
    if (!a->on_device) {
        TRY(wh_device_copy_out(g->device, a->offset, sums, ((uint64_t)b.n_vertices + 1) * 8));
    }
    if (n > a->room) {
        return whi_refuse(WH_BAD_ARGUMENT, "the graph has %llu arcs, and there is room for %llu",
                          (unsigned long long)n, (unsigned long long)a->room);
    }
    if (n != 0 && a->to == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "the graph has %llu arcs, and `to` is NULL",
                          (unsigned long long)n);
    }
    b.offset = sums;
    wh_status s = WH_OK;
    for (uint32_t k = 0; k <= b.words && s == WH_OK; k++) {
        const int copies_it = !a->on_device && theirs[k] != NULL;
        s = copies_it ? borrow(g, &copies[k], n * 4) : WH_OK;
        *at[k] = copies_it ? copies[k] : theirs[k];
    }
    s = s == WH_OK ? g->kernels->to_csr(g->heap, a->stream, &b) : s;
    s = s == WH_OK ? wh_stream_sync(g->device, a->stream) : s;
    for (uint32_t k = 0; k <= b.words; k++) {
        if (copies[k] != NULL) {
            s = s == WH_OK ? wh_device_copy_out(g->device, theirs[k], copies[k], n * 4) : s;
            (void)wh_device_free(g->device, copies[k]);
        }
    }
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
        if (a.offset == NULL) {
            return WH_BAD_ARGUMENT;
        }
        TRY(check_values(g, a.values));
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

wh_status wh_graph_get_stats_for(wh_graph *g, wh_graph_stats *stats, size_t stats_bytes) {
    wh_graph_stats own;
    uint64_t sums[3], bytes = stats_bytes;
    void *at = NULL;
    whi_forget_error();
    if (g == NULL || stats == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(whi_take_struct(&own, sizeof own, stats, stats_bytes));
    whi_graph_batch b = g->b;
    TRY(gather(g, g->kernels->stats, &b, sums, 3, &at));
    bytes = own.struct_bytes != 0 ? own.struct_bytes : bytes;
    memset(&own, 0, sizeof own);
    own.struct_bytes = bytes;
    TRY(wh_graph_to_csr(g, NULL, &own.arcs));
    own.kind = g->kind;
    TRY(whi_graph_live(g, &own.vertices));
    own.most_vertices = g->b.n_vertices;
    own.blocks = sums[0];
    own.block_bytes = sums[1];
    own.max_degree = sums[2];
    own.fixed_bytes = g->fixed_bytes + g->scratch_bytes;
    memcpy(stats, &own, (size_t)bytes);
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

/* I5: the first vertex with an arc to another one that has none back; or n. */
static uint64_t first_one_sided(const uint64_t *offset, const uint32_t *to, uint64_t n) {
    for (uint64_t v = 0; v < n; v++) {
        const uint32_t key = (uint32_t)v;
        for (uint64_t i = offset[v]; i < offset[v + 1]; i++) {
            const uint32_t w = to[i];
            if (bsearch(&key, to + offset[w], offset[w + 1] - offset[w], sizeof *to, compare_u32) ==
                NULL) {
                return v;
            }
        }
    }
    return n;
}

wh_status whi_graph_goes_both_ways(wh_graph *g, int *both) {
    whi_graph_counts ever;
    *both = g->undirected && !g->one_sided;
    if (*both) {
        TRY(wh_device_copy_out(g->device, &ever, g->b.ever, sizeof ever));
        *both = ever.told.refused == 0;
    }
    return WH_OK;
}

/* I6: the classes that count their arcs. */
static wh_status check_count(wh_graph *g, uint64_t arcs, wh_report *r) {
    whi_graph_own own;
    if (g->b.own != NULL) {
        TRY(wh_device_copy_out(g->device, &own, g->b.own, sizeof own));
        if (own.arcs != arcs) {
            whi_graph_report(r, 6, g->b.n_vertices);
        }
    }
    return WH_OK;
}

/* I2, I5 and I6, on the host. */
static wh_status check_sets(wh_graph *g, wh_report *r) {
    const uint64_t vertices = g->b.n_vertices;
    uint64_t n = 0;
    int both = 0;
    wh_graph_arrays a;
    memset(&a, 0, sizeof a);
    TRY(whi_graph_goes_both_ways(g, &both));
    TRY(wh_graph_to_csr(g, NULL, &n));
    TRY(check_count(g, n, r));
    a.offset = malloc((vertices + 1) * 8);
    a.to = malloc(n * 4 + 4);
    a.room = n;
    wh_status s = a.offset != NULL && a.to != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s = s == WH_OK ? wh_graph_to_csr(g, &a, &n) : s;
    uint64_t v = s == WH_OK && !g->b.multi ? first_double(a.offset, a.to, vertices) : vertices;
    if (v != vertices) {
        whi_graph_report(r, 2, v);
    }
    v = s == WH_OK && both ? first_one_sided(a.offset, a.to, vertices) : vertices;
    if (v != vertices) {
        whi_graph_report(r, 5, v);
    }
    s = s == WH_OK ? whi_graph_check_ids(g, &a, r) : s;
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

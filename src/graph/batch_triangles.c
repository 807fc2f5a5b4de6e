/* batch_triangles.c: the host's side of wh_graph_triangles_of_batch. */
#include "batch_triangles.h"

#include <string.h>

#include "built_list.h"
#include "graph_own.h"
#include "host/last_error.h"
#include "vertices.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/graph_algorithms.h"
#include "warpheap/graph_device.h"

WH_TABLES_ONCE(whi_batch_triangles_kernels, whi_batch_triangles_kernels_find)

/* A call in progress. */
typedef struct counting {
    wh_device *device;
    void *stream;
    const whi_batch_triangles_kernels *kernels;
    whi_batch_triangles w;
    unsigned char *memory; /* all that it has of the device's */
    uint64_t taken;        /* bytes of it that are given out */
} counting;

static wh_status begin(counting *x, wh_graph *graph, const wh_graph_batch *batch) {
    wh_graph_ref ref;
    memset(x, 0, sizeof *x);
    TRY(whi_graph_expect_set(graph));
    TRY(wh_graph_handle(graph, &ref));
    wh_heap *heap = whi_graph_heap(graph);
    x->device = wh_heap_device(heap);
    x->stream = batch->stream;
    x->kernels = whi_batch_triangles_kernels_find(wh_device_get_info(x->device)->target);
    if (batch->n > WH_GRAPH_MOST_ARCS || (batch->n != 0 && (!batch->from || !batch->to))) {
        return whi_refuse(WH_BAD_ARGUMENT, "a batch has two arrays, and at most %u arcs, not %llu",
                          WH_GRAPH_MOST_ARCS, (unsigned long long)batch->n);
    }
    x->w.vertices = ref.vertices;
    x->w.n_vertices = (uint32_t)ref.n_vertices;
    x->w.sorted = ref.sorted;
    x->w.n = batch->n;
    x->w.size = whi_map_size(batch->n);
    return WH_OK;
}

/* The next bytes of the call's memory. */
static void *take(counting *x, uint64_t bytes) {
    void *p = x->memory + x->taken;
    x->taken += (bytes + 7) & ~(uint64_t)7;
    return p;
}

/* An array of a batch as kernels get it: the caller's, or a copy of it. */
static wh_status bring(counting *x, const wh_graph_batch *batch, const void *theirs, uint64_t bytes,
                       const void **ours) {
    *ours = theirs;
    if (batch->on_device || theirs == NULL) {
        return WH_OK;
    }
    void *copy = take(x, bytes);
    *ours = copy;
    return wh_device_copy_in(x->device, copy, theirs, bytes);
}

static wh_status lay_out(counting *x, const wh_graph_batch *batch) {
    const uint64_t n = batch->n, keys = x->w.size * sizeof *x->w.keys;
    const uint64_t copies = batch->on_device ? 0 : 9 * n + 24;
    const void *from = NULL, *to = NULL, *done = NULL;
    void *memory = NULL;
    TRY(wh_device_alloc(x->device, &memory,
                        keys + sizeof *x->w.counts + n * sizeof *x->w.list + copies));
    x->memory = memory;
    x->w.keys = take(x, keys);
    x->w.counts = take(x, sizeof *x->w.counts);
    x->w.list = take(x, n * sizeof *x->w.list);
    TRY(bring(x, batch, batch->from, 4 * n, &from));
    TRY(bring(x, batch, batch->to, 4 * n, &to));
    TRY(bring(x, batch, batch->done, n, &done));
    x->w.from = from;
    x->w.to = to;
    x->w.done = done;
    TRY(wh_device_set(x->device, x->w.keys, 0xff, keys));
    return wh_device_set(x->device, x->w.counts, 0, sizeof *x->w.counts);
}

static wh_status count(counting *x, uint64_t *total) {
    whi_batch_edge_counts counts;
    TRY(x->kernels->collect(x->device, x->stream, &x->w));
    TRY(x->kernels->count(x->device, x->stream, &x->w));
    TRY(wh_stream_sync(x->device, x->stream));
    TRY(wh_device_copy_out(x->device, &counts, x->w.counts, sizeof counts));
    *total = counts.triangles;
    return WH_OK;
}

wh_status wh_graph_triangles_of_batch(wh_graph *graph, const wh_graph_batch *batch,
                                      uint64_t *total) {
    counting x;
    wh_graph_batch own;
    whi_forget_error();
    if (graph == NULL || batch == NULL || total == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(whi_take_struct(&own, sizeof own, batch, sizeof own));
    TRY(begin(&x, graph, &own));
    *total = 0;
    if (own.n == 0) {
        return WH_OK;
    }
    wh_status s = lay_out(&x, &own);
    s = s == WH_OK ? count(&x, total) : s;
    if (s != WH_OK) {
        (void)wh_stream_sync(x.device, x.stream); /* nothing works with its memory any more */
    }
    (void)wh_device_free(x.device, x.memory);
    return s;
}

/* algorithms.c: the host's calls of graph_algorithms.h. */
#include "warpheap/graph_device.h"

#include <string.h>

#include "algorithms.h"
#include "built_list.h"
#include "graph_own.h"
#include "host/last_error.h"
#include "rank_numbers.h"
#include "warpheap/detail/alloc/tables.h"

WH_TABLES_ONCE(whi_walk_kernels, whi_walk_kernels_find)

#define MOST_HELD 12u

/* A call in progress, and the device memory that it has. */
typedef struct algorithm {
    wh_device *device;
    void *stream;
    const whi_walk_kernels *kernels;
    whi_walk w;
    void *held[MOST_HELD];
    uint32_t n_held;
    int both;          /* each arc is there both ways */
    wh_status refusal; /* of the device, when it was last asked for memory */
} algorithm;

#define RUN(x, step) TRY((x)->kernels->step((x)->device, (x)->stream, &(x)->w))

/* --- memory, and what all calls begin with ---------------------------------------------------- */

/* n entries of some bytes, of the device, until the call ends. NULL: there is none. */
static void *hold(algorithm *x, uint64_t n, uint64_t bytes) {
    void *p = NULL;
    const wh_status s =
        x->n_held < MOST_HELD ? wh_device_alloc(x->device, &p, n * bytes + 8) : WH_OUT_OF_MEMORY;
    if (s != WH_OK) {
        x->refusal = s;
        return NULL;
    }
    x->held[x->n_held++] = p;
    return p;
}

/* Ends a call: all memory goes back. */
static wh_status end(algorithm *x, wh_status s) {
    if (x->n_held != 0 && s != WH_OK) {
        (void)wh_stream_sync(x->device, x->stream); /* nothing works with it any more */
    }
    while (x->n_held != 0) {
        (void)wh_device_free(x->device, x->held[--x->n_held]);
    }
    return s;
}

static wh_status clear_counts(algorithm *x) {
    return wh_device_set(x->device, x->w.counts < x->w.next ? x->w.counts : x->w.next, 0,
                         2 * sizeof *x->w.counts);
}

static wh_status begin(algorithm *x, wh_graph *graph, void *stream, int naive) {
    wh_graph_ref ref;
    uint64_t live = 0;
    memset(x, 0, sizeof *x);
    TRY(wh_graph_handle(graph, &ref));
    wh_heap *heap = whi_graph_heap(graph);
    x->device = wh_heap_device(heap);
    x->stream = stream;
    x->kernels = whi_walk_kernels_find(wh_device_get_info(x->device)->target);
    x->w.vertices = ref.vertices;
    x->w.n = x->w.n_vertices = (uint32_t)ref.n_vertices;
    TRY(whi_graph_live(graph, &live));
    x->w.live = live != 0 ? (uint32_t)live : 1;
    x->w.alive = graph->b.alive;
    TRY(whi_graph_goes_both_ways(graph, &x->both));
    x->w.naive = naive;
    x->w.multi = graph->b.multi;
    x->w.hubs = hold(x, x->w.n, 4);
    x->w.counts = hold(x, 2, sizeof *x->w.counts);
    if (x->w.hubs == NULL || x->w.counts == NULL) {
        return x->refusal;
    }
    x->w.next = x->w.counts + 1;
    return clear_counts(x);
}

/* The next walk counts elsewhere. */
static void turn(algorithm *x) {
    whi_walk_counts *const counts = x->w.counts;
    x->w.counts = x->w.next;
    x->w.next = counts;
}

/* Waits for what was started, and what it has counted. */
static wh_status read_counts(algorithm *x, whi_walk_counts *counts) {
    TRY(wh_stream_sync(x->device, x->stream));
    return wh_device_copy_out(x->device, counts, x->w.counts, sizeof *counts);
}

static wh_status take_options(wh_graph_run_options *own, const wh_graph_run_options *options) {
    memset(own, 0, sizeof *own);
    return options != NULL ? whi_take_struct(own, sizeof *own, options, sizeof *own) : WH_OK;
}

/* Where n results of some bytes go: the caller's array, or memory for a while. */
static void *results_at(algorithm *x, const wh_graph_run_options *o, void *theirs, uint64_t bytes) {
    return o->on_device ? theirs : hold(x, x->w.n_vertices, bytes);
}

/* Results that lie in memory for a while go to the caller's. The stream is quiet. */
static wh_status bring_out(algorithm *x, void *theirs, const void *ours, uint64_t bytes) {
    return theirs == ours ? WH_OK
                          : wh_device_copy_out(x->device, theirs, ours, x->w.n_vertices * bytes);
}

/* --- pagerank ----------------------------------------------------------------------------------
 */

#define ONE ((double)WHI_RANK_ONE)

static wh_status check_pagerank(wh_graph_pagerank_options *o) {
    o->damping = o->damping == 0 ? 0.85 : o->damping;
    o->tolerance = o->tolerance == 0 ? 1e-6 : o->tolerance;
    o->most_iterations = o->most_iterations == 0 ? 100 : o->most_iterations;
    if (!(o->damping > 0 && o->damping < 1) || o->tolerance != o->tolerance) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "pagerank: a damping above 0 and below 1, and a tolerance, please; not "
                          "%g and %g",
                          o->damping, o->tolerance);
    }
    return WH_OK;
}

/* The caller's ranks, and what they are to be multiplied with. */
static wh_status bring_start(algorithm *x, const wh_graph_pagerank_options *o) {
    whi_walk_counts counts;
    x->w.start = o->start;
    if (o->start == NULL) {
        return WH_OK;
    }
    if (!o->on_device) { /* room is where the first iteration will need it */
        TRY(wh_device_copy_in(x->device, x->w.in, o->start, (uint64_t)x->w.n_vertices * 4));
        x->w.start = (const float *)(const void *)x->w.in;
    }
    RUN(x, start_sum);
    TRY(read_counts(x, &counts));
    const double sum = (double)counts.upper * 2147483648.0 + (double)counts.lower;
    if (counts.bad != 0 || sum < 0.5 * ONE || sum > 2 * ONE) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "pagerank: start has %llu entries that are no ranks, and a sum of %g",
                          (unsigned long long)counts.bad, sum / ONE);
    }
    x->w.scale = ONE * (ONE / sum);
    return WH_OK;
}

static wh_status iterate(algorithm *x, const wh_graph_pagerank_options *o,
                         wh_graph_pagerank_result *r) {
    RUN(x, ranks);
    RUN(x, settle);
    do {
        whi_walk_counts counts;
        TRY((x->w.share != NULL ? x->kernels->pull : x->kernels->push)(x->device, x->stream,
                                                                       &x->w));
        RUN(x, update);
        TRY(read_counts(x, &counts));
        r->iterations++;
        r->change = (double)counts.change / ONE;
        turn(x);
    } while (r->change > o->tolerance && r->iterations < o->most_iterations);
    return WH_OK;
}

static wh_status pagerank(algorithm *x, const wh_graph_pagerank_options *o, float *rank,
                          wh_graph_pagerank_result *r) {
    const uint64_t n = x->w.n_vertices;
    const double live = (double)x->w.live;
    x->w.rank = hold(x, n, 8);
    x->w.in = hold(x, n, 8);
    if (x->both) {
        x->w.share = hold(x, n, 8);
    }
    if (x->w.rank == NULL || x->w.in == NULL || (x->both && x->w.share == NULL)) {
        return x->refusal;
    }
    x->w.damping = (uint64_t)(o->damping * 18446744073709551616.0);
    x->w.teleport = (uint64_t)((1 - o->damping) * ONE / live);
    TRY(bring_start(x, o));
    TRY(iterate(x, o, r));
    x->w.out = o->on_device ? rank : (float *)(void *)x->w.in;
    RUN(x, floats);
    TRY(wh_stream_sync(x->device, x->stream));
    return bring_out(x, rank, x->w.out, 4);
}

wh_status wh_graph_pagerank(wh_graph *graph, const wh_graph_pagerank_options *options, float *rank,
                            wh_graph_pagerank_result *result) {
    algorithm x;
    wh_graph_pagerank_options o;
    wh_graph_pagerank_result r = {0, 0};
    whi_forget_error();
    if (graph == NULL || rank == NULL) {
        return WH_BAD_ARGUMENT;
    }
    memset(&o, 0, sizeof o);
    if (options != NULL) {
        TRY(whi_take_struct(&o, sizeof o, options, sizeof o));
    }
    TRY(check_pagerank(&o));
    wh_status s = begin(&x, graph, o.stream, o.naive);
    s = s == WH_OK ? pagerank(&x, &o, rank, &r) : s;
    if (result != NULL) {
        *result = r;
    }
    return end(&x, s);
}

/* --- triangles ----------------------------------------------------------------------------------
 */

/* Each vertex's list of those that come after it. */
static wh_status lay_forward(algorithm *x) {
    whi_forward *f = &x->w.forward;
    whi_walk_counts counts;
    f->n = hold(x, x->w.n_vertices, 4);
    f->end = hold(x, x->w.n_vertices, 8);
    if (f->n == NULL || f->end == NULL) {
        return x->refusal;
    }
    TRY(wh_device_set(x->device, f->n, 0, (uint64_t)x->w.n_vertices * 4));
    RUN(x, forward_count);
    RUN(x, forward_place);
    TRY(read_counts(x, &counts));
    turn(x);
    f->edges = counts.sum;
    f->to = hold(x, f->edges, 4);
    f->source = hold(x, f->edges, 4);
    if (f->to == NULL || f->source == NULL) {
        return x->refusal;
    }
    RUN(x, forward_fill);
    RUN(x, forward_sort);
    return WH_OK;
}

static wh_status triangles(algorithm *x, const wh_graph_run_options *o, uint64_t *total,
                           uint64_t *of_vertex) {
    whi_walk_counts counts;
    if (of_vertex != NULL) {
        x->w.of_vertex = results_at(x, o, of_vertex, 8);
        if (x->w.of_vertex == NULL) {
            return x->refusal;
        }
        TRY(wh_device_set(x->device, x->w.of_vertex, 0, (uint64_t)x->w.n_vertices * 8));
    }
    TRY(lay_forward(x));
    RUN(x, triangles);
    TRY(read_counts(x, &counts));
    *total = counts.sum;
    return bring_out(x, of_vertex, x->w.of_vertex, 8);
}

wh_status wh_graph_triangles(wh_graph *graph, const wh_graph_run_options *options, uint64_t *total,
                             uint64_t *of_vertex) {
    algorithm x;
    wh_graph_run_options o;
    whi_forget_error();
    if (graph == NULL || total == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(take_options(&o, options));
    TRY(whi_graph_expect_set(graph));
    wh_status s = begin(&x, graph, o.stream, o.naive);
    s = s == WH_OK ? triangles(&x, &o, total, of_vertex) : s;
    return end(&x, s);
}

/* --- components --------------------------------------------------------------------------------
 */

static wh_status components(algorithm *x, const wh_graph_run_options *o, uint32_t *label,
                            uint64_t *n) {
    whi_walk_counts counts;
    x->w.label = results_at(x, o, label, 4);
    if (x->w.label == NULL) {
        return x->refusal;
    }
    RUN(x, label_first);
    RUN(x, hook);
    RUN(x, label_last);
    TRY(read_counts(x, &counts));
    if (n != NULL) {
        *n = counts.sum;
    }
    return bring_out(x, label, x->w.label, 4);
}

wh_status wh_graph_components(wh_graph *graph, const wh_graph_run_options *options, uint32_t *label,
                              uint64_t *n) {
    algorithm x;
    wh_graph_run_options o;
    whi_forget_error();
    if (graph == NULL || label == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(take_options(&o, options));
    wh_status s = begin(&x, graph, o.stream, o.naive);
    s = s == WH_OK ? components(&x, &o, label, n) : s;
    return end(&x, s);
}

/* --- breadth-first search -----------------------------------------------------------------------
 */

/* The source has level 0, and is the first list. */
static wh_status lay_source(algorithm *x, uint32_t source, uint32_t *list) {
    const uint32_t zero = 0;
    TRY(wh_device_set(x->device, x->w.level, 0xff, (uint64_t)x->w.n_vertices * 4));
    TRY(wh_device_copy_in(x->device, &x->w.level[source], &zero, 4));
    return wh_device_copy_in(x->device, list, &source, 4);
}

/* A level a round, at most as many as there are vertices: each finds one at least, or is the last.
 */
static wh_status expand(algorithm *x, uint32_t *lists[2], wh_graph_bfs_result *r) {
    uint32_t found = 1;
    while (found != 0) {
        whi_walk_counts counts;
        x->w.list = lists[x->w.depth & 1];
        x->w.n = found;
        x->w.next_list = lists[(x->w.depth + 1) & 1];
        x->w.depth++;
        RUN(x, expand);
        TRY(read_counts(x, &counts));
        turn(x);
        r->reached += found;
        r->levels = x->w.depth - 1;
        found = counts.found;
    }
    return WH_OK;
}

static wh_status bfs(algorithm *x, uint32_t source, const wh_graph_run_options *o, uint32_t *level,
                     wh_graph_bfs_result *r) {
    uint32_t *lists[2];
    x->w.level = results_at(x, o, level, 4);
    lists[0] = hold(x, x->w.n_vertices, 4);
    lists[1] = hold(x, x->w.n_vertices, 4);
    if (x->w.level == NULL || lists[0] == NULL || lists[1] == NULL) {
        return x->refusal;
    }
    TRY(lay_source(x, source, lists[0]));
    TRY(expand(x, lists, r));
    return bring_out(x, level, x->w.level, 4);
}

wh_status wh_graph_bfs(wh_graph *graph, uint32_t source, const wh_graph_run_options *options,
                       uint32_t *level, wh_graph_bfs_result *result) {
    algorithm x;
    wh_graph_run_options o;
    wh_graph_bfs_result r = {0, 0};
    whi_forget_error();
    if (graph == NULL || level == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(take_options(&o, options));
    wh_status s = begin(&x, graph, o.stream, o.naive);
    s = s == WH_OK ? whi_graph_expect_vertex(graph, source) : s;
    s = s == WH_OK ? bfs(&x, source, &o, level, &r) : s;
    if (result != NULL) {
        *result = r;
    }
    return end(&x, s);
}

/* graph.h: a dynamic graph in the memory of a device: host calls. C11 and C++; link
 * warpheap::graph. What kernels of your own can ask of a graph is in graph_device.h; vertices that
 * come and go are in graph_vertices.h.
 *
 * A graph has the vertices 0 .. n-1 and a *set* of arcs u -> v: an arc is there or it is not,
 * however often it was inserted. An undirected graph (options.undirected) has both arcs of each
 * edge, whichever is inserted. Adjacencies lie in the caller's heap, which other code may use, too;
 * the heap must outlive the graph.
 *
 *     wh_graph_options o = {0};
 *     o.heap = heap;
 *     o.vertices = 1000000;
 *     wh_graph_create(&graph, &o);
 *     wh_graph_batch batch = {0};
 *     batch.from = from; batch.to = to; batch.n = n;          // host arrays
 *     wh_graph_insert(graph, &batch, &result);                // result.applied arcs are new
 *
 * Every call returns a status; nothing prints or exits; wh_last_error_text says more, but of a
 * DEVICE_ERROR wh_device_error_text(wh_heap_device(heap)) does. A graph may be used by any host
 * thread, by one at a time. Calls work on the stream of their batch, or argument; where they have
 * something to tell the host they wait for it, and say so here. No two calls on one graph may
 * overlap on the device, and no kernel may read a graph while a call changes it.
 *
 * An arc may carry up to four values of 32 bits (options.values): a weight, or a type, a weight and
 * two times. The graph keeps them beside the neighbours, and hands them out; what they mean is the
 * caller's.
 *
 * Structures that a caller fills begin with their own size; what a shorter one lacks, as of older
 * headers, is zero. 0 means what the library's headers say, but for wh_graph_create and
 * wh_graph_get_stats, where it is what the caller's say. The two are the same where headers and
 * library, static or shared, are of one minor version; objects from older headers must set the
 * size.
 */
#ifndef WH_GRAPH_H
#define WH_GRAPH_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

#define WH_GRAPH_MOST_VERTICES 0xfffffff0u
#define WH_GRAPH_MOST_ARCS 0x3fffffffu /* of a batch */
#define WH_GRAPH_MOST_VALUES 4u        /* of an arc */

/* What became of an arc of a batch: its byte in `done`. Where the heap is full all new arcs of a
 * vertex are REFUSED; those that are there already are NO_CHANGE (and get their values, if the
 * batch overwrites), as is a repetition of a refused one. */
#define WH_GRAPH_APPLIED 1u /* inserted, or erased */
#define WH_GRAPH_NO_CHANGE \
    0u                      /* it was there already, or was not there; or once more in the batch */
#define WH_GRAPH_REFUSED 2u /* insert: the heap is full */
#define WH_GRAPH_NO_VERTEX 3u /* one of its ends is no vertex */

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_graph wh_graph;

/* Zero (NULL) fields mean the default. */
typedef struct wh_graph_options {
    uint64_t struct_bytes; /* sizeof this struct, or 0 */
    wh_heap *heap;         /* required: of an allocator with WH_CAP_FREE and WH_CAP_DISJOINT that
                              warpheap::graph has been built for */
    const char *kind;      /* the class: "lattice", the default; or one of the papers', as
                              docs/GRAPH.md has them: "faim", "faim-update", "ouro", "aim" */
    uint64_t vertices;     /* 1 .. WH_GRAPH_MOST_VERTICES; 0 only with most_vertices */
    uint64_t batch;        /* arcs of the largest batch to come, for which memory is taken at once;
                              0: when it comes. 62 bytes an arc, and 4 for each of
                              its values; twice that if undirected */
    uint32_t values;       /* 32-bit values that each arc has: 0 .. WH_GRAPH_MOST_VALUES; classes
                              lattice, ouro */
    int undirected;        /* 1: batches have edges: each arc of one goes in, and out, both ways */
    int sorted;            /* 1: adjacencies ascend; classes lattice, ouro */
    int multi; /* 1: a multigraph: an arc is there as often as it was inserted. Directed;
                  classes lattice, ouro */
    uint64_t most_vertices; /* with graph_vertices.h: ids that there can be; 0: as vertices */
    uint64_t arena_bytes;   /* aim: of a segment of its arena, up to 2^32, made a power of two; 0:
                               64 KiB, or a byte an id if that is more */
    uint32_t worker;        /* aim, faim-update: lanes that an arc of a batch gets, 1 or 32; 0: 32
                               from a mean degree of 50 on */
} wh_graph_options;

/* Arcs from[i] -> to[i]. In a batch the order does not matter, and an arc may be there twice. */
typedef struct wh_graph_batch {
    uint64_t struct_bytes; /* sizeof this struct, or 0 */
    const uint32_t *from;
    const uint32_t *to;
    uint64_t n;    /* at most WH_GRAPH_MOST_ARCS */
    uint8_t *done; /* NULL, or n bytes that say what became of each arc */
    int on_device; /* 1: all arrays are device memory */
    void *stream;  /* NULL: the default stream */
    /* Value k of arc i is values[k][i], of as many k as the graph has values; others are NULL.
       insert reads them (NULL: 0) and has writes them, where the arc is there (NULL: it does not).
       Where an arc is more than once in a batch, all its values are those of one of them: of
       the one that is APPLIED, if it is new, else of any */
    uint32_t *values[WH_GRAPH_MOST_VALUES];
    int overwrites; /* insert. 1: an arc that is there gets the values of the batch, of those that
                       are not NULL; its `done` is NO_CHANGE. 0: it keeps its own */
    const uint8_t *erases; /* update: n bytes: 1: the arc goes; 0: it comes */
} wh_graph_batch;

/* What became of a batch: the sum is its n. All count arcs of the batch: in an undirected graph
 * these are edges, while stats.arcs and to_csr count both ways of each. */
typedef struct wh_graph_result {
    uint64_t applied;   /* arcs that are new, or gone */
    uint64_t no_change; /* arcs of which this was not so */
    uint64_t refused;   /* for want of memory */
    uint64_t no_vertex; /* arcs with an end that is no vertex */
} wh_graph_result;

/* Errors: BAD_ARGUMENT, UNSUPPORTED (no such class of graph, or it has not what the options ask
 * for; the heap's allocator lacks something or is not built in), OUT_OF_MEMORY, DEVICE_ERROR,
 * WRONG_BUILD. On failure *graph is NULL. Takes 40 bytes and a bit an id of device memory beside
 * the heap (faim, faim-update: 32; ouro, aim: 24, and 32 KiB for aim). Waits for the device. */
wh_status wh_graph_create_for(wh_graph **graph, const wh_graph_options *options,
                              size_t options_bytes);
static inline wh_status wh_graph_create(wh_graph **graph, const wh_graph_options *options) {
    return wh_graph_create_for(graph, options, sizeof *options);
}

/* Frees all adjacencies and the graph. NULL is ignored. Waits for the device. */
wh_status wh_graph_destroy(wh_graph *graph);

/* An undirected graph takes u -> v and v -> u for each arc of a batch, a self loop once; result and
 * done are of the batch's arcs: the way from the smaller end tells. If an end has no memory the
 * other one's arc stays, and the edge is REFUSED, so there is one way of it only: the same batch
 * sent again adds the other (NO_CHANGE, if the smaller end had its own). Both ways get the values
 * of one arc of the batch. Cost: as of twice as many arcs, and one kernel more. */

/* A multigraph takes each arc of a batch, whether it is there or not (overwrites: of no use), and
 * erasing an arc takes all copies of it; result counts arcs of the batch. A batch of which arcs
 * were refused must not be sent again as it is: those that were applied would be there twice;
 * `done` tells. */

/* Of insert, erase, update and has: OUT_OF_MEMORY may also be the device's, which has no room for
 * the batch: then result, where there is one, is 0 (no arc is `refused`), `done` is as it was, and
 * nothing has changed. After DEVICE_ERROR nothing is promised of the graph, and a part of the batch
 * may have gone in; but wh_graph_destroy frees what it can. */

/* Inserts arcs. If a status other than OK comes back the arcs that were applied stay, the graph is
 * sound, and the same batch may be sent again: OUT_OF_MEMORY when some were refused (a vertex takes
 * all its new arcs of a batch, or none; but in aim and faim-update each arc stands for itself; the
 * heap is full, or an adjacency would be larger than its allocator's blocks can be), NO_VERTEX when
 * some have an end that is no vertex. result: NULL, or host memory. Waits for its stream when there
 * is a result to tell (result is not NULL, or arrays are on the host); else returns at once, and
 * then the status knows of the launch alone. Cost: four kernels, up to 16,384 arcs one; O(n + sum
 * of the degrees of the vertices in from); if sorted, also O(r log^2 r) for a vertex with r new
 * arcs. */
wh_status wh_graph_insert(wh_graph *graph, const wh_graph_batch *batch, wh_graph_result *result);

/* Erases arcs, the same way. Adjacencies that have become much smaller get smaller blocks at once;
 * if the heap has none, they stay as they are. Errors but for OUT_OF_MEMORY as insert. */
wh_status wh_graph_erase(wh_graph *graph, const wh_graph_batch *batch, wh_graph_result *result);

/* Erases the arcs i with erases[i] (required) not 0, then inserts the others: what one batch erases
 * and inserts is there afterwards. As insert, in all. Cost: an erase and an insert of the batch,
 * and a kernel that counts, O(n). */
wh_status wh_graph_update(wh_graph *graph, const wh_graph_batch *batch, wh_graph_result *result);

/* Erases all arcs whose value k is less than `before`: what is too old, where it is a time. For an
 * arc that comes again to be as old as its last time, insert with overwrites = 1, and keep of an
 * arc that is several times in a batch the last copy only: else any copy's values are taken. Memory
 * comes back as in erase. *gone: how many; NULL: does not wait. If undirected it counts edges, by
 * the way from the smaller end: one that has only the other way, as the heap was once full, goes
 * uncounted. BAD_ARGUMENT: arcs have no value k. Cost: a kernel, O(vertices + arcs). */
wh_status wh_graph_expire(wh_graph *graph, uint32_t k, uint32_t before, void *stream,
                          uint64_t *gone);

/* batch->done[i] (required): 1 if the arc from[i] -> to[i] is there, else 0, also where an end is
 * no vertex. Waits as insert. Cost: one kernel, O(degree) a query, O(log degree) if sorted. */
wh_status wh_graph_has(wh_graph *graph, const wh_graph_batch *batch);

/* Adjacencies as arrays ("CSR"): the neighbours of v are to[k] for k in offset[v] .. offset[v+1]
 * - 1. offset has one entry more than there are ids (most_vertices). */
typedef struct wh_graph_arrays {
    uint64_t struct_bytes; /* sizeof this struct, or 0 */
    uint64_t *offset;
    uint32_t *to;  /* NULL will do where there are no arcs */
    uint64_t room; /* to_csr: entries that there are in to */
    void *stream;
    int on_device;                          /* 1: all are device memory */
    uint32_t *values[WH_GRAPH_MOST_VALUES]; /* of arc to[k]: values[..][k]; from_csr: NULL is 0,
                                               to_csr: NULL is not written */
} wh_graph_arrays;

/* An empty graph gets the arcs of the arrays, which stay as they are, both ways of an edge if it is
 * undirected (wh_graph_check looks). An arc that is twice there counts once; one with an end that
 * is no vertex is left out. BAD_ARGUMENT if the graph has arcs, or offset is not ascending;
 * otherwise as insert; if the heap is full a vertex has all of its row or nothing, in faim-update,
 * too, and in aim maybe a part. OUT_OF_MEMORY of the device (result: 0): the graph is empty. Waits.
 * Cost: a pass over the arrays. If some rows have repetitions or ends that are no vertices, or more
 * than 32 arcs and do not ascend, or more than 4,096: a second pass, over these, and 62 bytes an
 * arc of the arrays of device memory while the call runs. */
wh_status wh_graph_from_csr(wh_graph *graph, const wh_graph_arrays *arrays,
                            wh_graph_result *result);

/* Fills the arrays; the order within an adjacency is any, or ascending if the graph is sorted. *n:
 * the arcs that there are, both ways of an edge. arrays NULL: only that. BAD_ARGUMENT if there are
 * more than room: then offset is filled, to is not. Waits. */
wh_status wh_graph_to_csr(wh_graph *graph, const wh_graph_arrays *arrays, uint64_t *n);

/* degree[v] of each id. */
wh_status wh_graph_degrees(wh_graph *graph, uint32_t *degree, int on_device, void *stream);

typedef struct wh_graph_stats {
    uint64_t struct_bytes; /* sizeof this struct, or 0 */
    const char *kind;      /* the class: "lattice" */
    uint64_t vertices;     /* that there are */
    uint64_t arcs;         /* if undirected, both ways of each edge */
    uint64_t max_degree;
    uint64_t blocks;        /* of the heap, that adjacencies lie in */
    uint64_t block_bytes;   /* that were asked for them */
    uint64_t fixed_bytes;   /* device memory beside the heap, batches included */
    uint64_t most_vertices; /* ids that there can be */
} wh_graph_stats;
wh_status wh_graph_get_stats_for(wh_graph *graph, wh_graph_stats *stats, size_t stats_bytes);
static inline wh_status wh_graph_get_stats(wh_graph *graph, wh_graph_stats *stats) {
    return wh_graph_get_stats_for(graph, stats, sizeof *stats);
}

/* Looks at the whole graph: CORRUPT if an invariant of its class is broken (report, which may be
 * NULL: how many, the first one's number and its vertex), an arc is twice there or has an end that
 * is no vertex, or of an undirected graph in which no edge was ever refused one arc has no other
 * way. For tests: copies the graph to the host and sorts it. */
wh_status wh_graph_check(wh_graph *graph, wh_report *report);

/* After wh_heap_grow of the graph's heap, which said `moved`, and before any other call: the graph
 * finds its adjacencies at their new places. */
wh_status wh_graph_rebase(wh_graph *graph, int64_t moved);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

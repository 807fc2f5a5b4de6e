/* graph_algorithms.h: PageRank, triangles, connected components and breadth-first search on a graph
 * of graph.h, as it lies in the memory of the device. C11 and C++; link warpheap::graph.
 *
 *     wh_graph_pagerank_options o = {0};
 *     o.most_iterations = 50;
 *     wh_graph_pagerank(graph, &o, rank, &result);        // rank: a float a vertex
 *
 * Every call waits for its stream before it returns, and works on the graph as no other call
 * changes it: what graph.h says of overlapping calls holds here, too. Memory beside the graph is
 * taken from the device (not from the heap) by the call, and given back by it, whatever its status;
 * each says how much. Results are the same bits on each run, on each device, balanced or naive:
 * all sums are sums of integers. Where vertices come and go (graph_vertices.h), arrays have an
 * entry for each id; an id that is no vertex is in no count: rank 0, label and level NOT_REACHED.
 *
 * Balanced (the default): a lane takes a vertex with few arcs, a warp one with more, and a block of
 * threads a hub. Naive: a lane takes each vertex, whatever its degree; to measure what that costs.
 *
 * Errors of all calls: BAD_ARGUMENT, OUT_OF_MEMORY (of the device), DEVICE_ERROR, WRONG_BUILD (of a
 * structure), UNSUPPORTED (the graph is of another class than lattice). What a call was to fill is
 * then undefined.
 * Source: Winter, doctoral thesis (2021), sections 4.4.3 and 6.3.1.3: naive and balanced.
 */
#ifndef WH_GRAPH_ALGORITHMS_H
#define WH_GRAPH_ALGORITHMS_H

#include "warpheap/graph.h"

#include "warpheap/detail/simt/begin.h"

#define WH_GRAPH_NOT_REACHED UINT32_MAX /* also: no vertex */

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

/* Zero (NULL) fields mean the default; so does NULL in place of the options. */
typedef struct wh_graph_run_options {
    uint64_t struct_bytes; /* sizeof this struct, or 0 */
    void *stream;          /* NULL: the default stream */
    int on_device;         /* 1: the array of results is device memory */
    int naive;             /* 1: a lane a vertex, whatever its degree */
} wh_graph_run_options;

typedef struct wh_graph_pagerank_options {
    uint64_t struct_bytes;    /* sizeof this struct, or 0 */
    double damping;           /* above 0, below 1; 0: 0.85 */
    double tolerance;         /* stop when the ranks' changes in an iteration, without their signs,
                                 sum up to at most this; 0: 1e-6; below 0: never. (NetworkX's tol
                                 is this one by the number of vertices) */
    uint64_t most_iterations; /* 0: 100 */
    const float *start; /* NULL: all alike; or ranks to start from, as of an earlier call: none
                           below 0 or above 1, with a sum of 0.5 to 2, which is made 1;
                           what is no vertex does not count */
    void *stream;       /* NULL: the default stream */
    int on_device;      /* 1: start and rank are device memory */
    int naive;          /* 1: a lane a vertex, whatever its degree */
} wh_graph_pagerank_options;

typedef struct wh_graph_pagerank_result {
    uint64_t iterations;
    double change; /* of the last one: above the tolerance if it was the last that was allowed */
} wh_graph_pagerank_result;

/* rank[v]: the share of v in 1, of a walk that follows arcs, from any vertex to any of those that
 * it has an arc to, and now and then, or where there are no arcs, starts anew anywhere. A self loop
 * is an arc like others. start and rank may be the same array. result: NULL, or host memory.
 * Ranks are kept as integers of 2^-62, which arcs are pushed along by atomic adds; what is rounded
 * away is in all at most 2^-62 an arc and 2^-60 a vertex, an iteration.
 * Device memory: 20 bytes a vertex. Cost: an iteration is three kernels and a wait, an atomic an
 * arc. */
wh_status wh_graph_pagerank(wh_graph *graph, const wh_graph_pagerank_options *options, float *rank,
                            wh_graph_pagerank_result *result);

/* Triangles of an undirected graph, each counted once; *total in host memory. of_vertex: NULL, or
 * an array that gets for each vertex in how many it is. Self loops are left out. Of a graph that
 * has not both arcs of each edge the numbers mean nothing; UNSUPPORTED: a multigraph.
 * An edge is looked at from the end with fewer arcs (or, of two alike, the smaller number) to the
 * other: so each vertex has at most sqrt(arcs) edges left, which are copied and sorted. Balanced:
 * the shorter one of the lists of an edge's ends is looked up in the longer one, and the entries of
 * the lists of 32 edges are dealt out to the lanes of a warp. Naive: a lane merges all the lists of
 * a vertex.
 * Device memory: 16 bytes a vertex and 8 an edge; 8 more a vertex for of_vertex on the host. Cost:
 * O(edges * sqrt(edges) * log(edges)) at most, and two passes over the arcs; an atomic an edge, and
 * three a triangle for of_vertex. Waits twice. */
wh_status wh_graph_triangles(wh_graph *graph, const wh_graph_run_options *options, uint64_t *total,
                             uint64_t *of_vertex);

/* Triangles of an undirected graph, as it is now, that have one edge of the batch at least, each
 * counted once; *total in host memory. Of the batch it reads from, to, n, done, on_device and
 * stream. The direction of an arc does not matter, and an edge may be in the batch several times,
 * or both ways. Left out are self loops, arcs with an end that is no vertex, edges that are not in
 * the graph, and where done is not NULL all arcs of which it does not say WH_GRAPH_APPLIED. So
 *
 *     wh_graph_insert(graph, &batch, &result);        // with batch.done: which edges are new
 *     wh_graph_triangles_of_batch(graph, &batch, &closed);     // triangles grew by `closed`
 *
 *     batch.done = NULL;
 *     wh_graph_triangles_of_batch(graph, &batch, &closed);     // they will become fewer by it
 *     wh_graph_erase(graph, &batch, &result);
 *
 * wh_graph_expire has no batch of what goes: count anew after it. Of a graph that has not both arcs
 * of each edge the number means nothing. UNSUPPORTED: a multigraph.
 * A warp takes an edge, a block of threads one whose ends have many neighbours: the shorter
 * adjacency becomes a table in shared memory, where the longer one is looked up; in a graph that is
 * sorted, binary search. A triangle belongs to the least of its edges that are in the batch, by
 * their ends.
 * Device memory: 24 bytes an arc of the batch, 9 more if it comes from the host. Cost: two kernels;
 * O(n + the neighbours of all ends), times the shorter adjacency by 4096 where that is longer; if
 * sorted, of an edge O(shorter * log(longer)). Waits once. */
wh_status wh_graph_triangles_of_batch(wh_graph *graph, const wh_graph_batch *batch,
                                      uint64_t *total);

/* label[v]: the smallest vertex of the component of v, whose own label it is. An arc connects both
 * its ends, whichever way it goes: of a directed graph these are the weak components. n: NULL, or
 * host memory that gets how many there are; a vertex without arcs is one.
 * Device memory: 4 bytes a vertex; 4 more for labels on the host. Cost: four kernels; of each arc
 * two paths to a root, mostly a load or two.
 * Source: hooking and pointer jumping in one pass as in ECL-CC (Jaiganesh and Burtscher, 2018). */
wh_status wh_graph_components(wh_graph *graph, const wh_graph_run_options *options, uint32_t *label,
                              uint64_t *n);

typedef struct wh_graph_bfs_result {
    uint64_t reached; /* vertices, the source included */
    uint64_t levels;  /* the largest level */
} wh_graph_bfs_result;

/* level[v]: the arcs of a shortest path from source to v, along the arcs; WH_GRAPH_NOT_REACHED:
 * there is none. BAD_ARGUMENT also where source is no vertex. result: NULL, or host memory.
 * Device memory: 12 bytes a vertex; 4 more for levels on the host. Cost: each arc of what is
 * reached once; of each level two kernels and a wait, so graphs of many levels pay for these. */
wh_status wh_graph_bfs(wh_graph *graph, uint32_t source, const wh_graph_run_options *options,
                       uint32_t *level, wh_graph_bfs_result *result);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

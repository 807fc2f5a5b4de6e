/* graph_own.h: what the host's sides of warpheap::graph have of each other. */
#ifndef WHI_GRAPH_OWN_H
#define WHI_GRAPH_OWN_H

#include "graph_batch.h"
#include "host/structs.h"
#include "host/try.h"
#include "warpheap/graph.h"

/* One graph; who calls has it to himself. */
struct wh_graph {
    wh_heap *heap;
    wh_device *device;
    const char *kind;
    const whi_graph_kernels *kernels;
    whi_graph_batch b;        /* what all batches have in common */
    whi_graph_counts *counts; /* two of them, used in turns, and `ever` */
    int undirected;
    int one_sided; /* an undirected one that from_csr could not fill */
    uint64_t room; /* arcs that scratch has memory for */
    void *scratch;
    uint64_t scratch_bytes, fixed_bytes;
    uint32_t turn;
    struct whi_graph_ids *ids; /* NULL: all ids are vertices, and have always been */
};

/* Of a graph that is made: its ids below n are vertices. */
wh_status whi_graph_make_ids(wh_graph *graph, uint64_t n);
void whi_graph_drop_ids(wh_graph *graph);

/* A bit for each id: whether it is a vertex. NULL: ids have never come or gone. */
const uint32_t *whi_graph_alive(const wh_graph *graph);

/* How many vertices there are. Waits if ids come and go. */
wh_status whi_graph_live(wh_graph *graph, uint64_t *n);

/* BAD_ARGUMENT if v is no vertex. Waits as whi_graph_live. */
wh_status whi_graph_expect_vertex(wh_graph *graph, uint32_t v);

/* What vertices.h says of ids; arrays in host memory. */
wh_status whi_graph_check_ids(wh_graph *graph, const wh_graph_arrays *arrays, wh_report *report);

/* Counts an error. */
void whi_graph_report(wh_report *report, uint64_t tag, uint64_t where);

/* Memory for a batch of n arcs, or lists of n vertices. */
wh_status whi_graph_make_room(wh_graph *graph, uint64_t n);

/* Whether each arc of an undirected graph must have its other way: no edge was ever refused. */
wh_status whi_graph_goes_both_ways(wh_graph *graph, int *both);

/* UNSUPPORTED for a multigraph, of which triangles cannot be counted. */
wh_status whi_graph_expect_set(const wh_graph *graph);

/* The heap that a graph's adjacencies lie in. */
wh_heap *whi_graph_heap(const wh_graph *graph);

#endif

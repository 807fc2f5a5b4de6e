/* workload/graph/graph_types.h: the dynamic graph as host and device see it. Plain C11
 * and C++; knows nothing of targets or allocators. The operations and the
 * protocol of the fields are in graph.h.
 */
#ifndef WH_WORKLOAD_GRAPH_TYPES_H
#define WH_WORKLOAD_GRAPH_TYPES_H

#include <stdint.h>

/* Smallest adjacency array: 4 neighbours, 16 bytes, the smallest block of every
 * allocator. */
#define WH_MULTIGRAPH_MIN_CAPACITY 4u

/* One vertex: 24 bytes. neighbours points into the heap. */
typedef struct wh_multigraph_vertex {
    uint32_t *neighbours; /* NULL exactly when capacity is 0 */
    uint32_t degree;      /* entries in use, duplicates counted */
    uint32_t capacity;    /* entries that fit: 0, or a power of two >= WH_MULTIGRAPH_MIN_CAPACITY */
    uint32_t lock;        /* 0 free, 1 held */
    uint32_t unused;
} wh_multigraph_vertex;

/* What went wrong on the device since the host last cleared it. */
typedef struct wh_multigraph_counts {
    uint64_t failed;  /* arcs (insert) or whole vertices (init) for which malloc gave NULL */
    uint64_t missing; /* arcs that delete did not find */
    uint64_t broken;  /* vertices whose fields break an invariant of graph.h */
} wh_multigraph_counts;

/* Names a graph in kernels; passed by value. Both arrays are device memory that
 * the host owns; only the adjacency arrays come from the heap. */
typedef struct wh_multigraph_view {
    wh_multigraph_vertex *vertices;
    wh_multigraph_counts *counts;
    uint32_t n_vertices;
    uint32_t shrink; /* 1: delete gives an array back that is less than a quarter full */
} wh_multigraph_view;

/* What happened to arc i of a batch: entry i of its `done` array. */
enum { WH_MULTIGRAPH_NOT_DONE = 0, WH_MULTIGRAPH_INSERTED = 1, WH_MULTIGRAPH_MISSING = 2 };

#endif

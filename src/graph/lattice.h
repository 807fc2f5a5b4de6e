/* lattice.h: the device side of the graph class `lattice` as host code calls it: one table for each
 * (allocator, target), defined by lattice_kernels.c. All pointers are device memory. Calls start
 * kernels on a stream and do not wait. */
#ifndef WHI_GRAPH_LATTICE_H
#define WHI_GRAPH_LATTICE_H

#include "warpheap/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wh_lattice_vertex;
struct wh_lattice_run;

/* How much a batch has of each kind of vertex, and what became of it. */
typedef struct whi_lattice_counts {
    uint32_t placed;                /* arcs that have a place in a run */
    uint32_t lanes, warps, blocks;  /* vertices for a lane, a warp, a block of threads */
    uint32_t next_warp, next_lanes; /* of these lists: given out beyond everyone's first share */
    wh_graph_result result;
} whi_lattice_counts;

/* Memory for batches of up to `room` arcs, of each array as many entries, but for the table. */
typedef struct whi_lattice_scratch {
    uint32_t *from, *to; /* copies of a batch that came from the host */
    uint8_t *done;
    uint32_t *rank;                   /* of an arc in its run; NONE: it is in none */
    uint32_t *run;                    /* all runs: the arcs' other ends */
    uint32_t *order;                  /* the arcs' numbers in the batch; where done is wanted */
    uint32_t *lanes, *warps, *blocks; /* lists of vertices */
    uint32_t *keys, *numbers;         /* tables: 2 * room */
} whi_lattice_scratch;

/* A batch, as kernels get it. */
typedef struct whi_lattice_batch {
    struct wh_lattice_vertex *vertices;
    struct wh_lattice_run *runs;
    uint32_t n_vertices, n;
    const uint32_t *from, *to;
    uint8_t *done; /* or NULL */
    whi_lattice_scratch scratch;
    whi_lattice_counts *counts; /* zero at first */
    whi_lattice_counts *next;   /* of the batch to come: becomes zero */
    const uint64_t *offset;     /* from_csr, to_csr */
    uint32_t *out;              /* to_csr, degrees */
    uint64_t *sums;
    wh_report *report;
    int64_t moved;
} whi_lattice_batch;

typedef wh_status (*whi_lattice_step)(wh_heap *heap, void *stream, const whi_lattice_batch *b);

typedef struct whi_lattice_kernels {
    const char *allocator;
    uint64_t vertex_bytes, run_bytes;
    whi_lattice_step clear;  /* records and runs of n_vertices, and both counts */
    whi_lattice_step insert; /* lays the batch out, and inserts */
    whi_lattice_step erase;
    whi_lattice_step has;      /* done[i] */
    whi_lattice_step from_csr; /* runs are there: out is `to`, offset where they begin */
    whi_lattice_step degrees;  /* out[v] */
    whi_lattice_step sums;     /* sums[0..n_vertices]: of the degrees before each vertex */
    whi_lattice_step to_csr;   /* out, by offset */
    whi_lattice_step destroy;  /* gives all blocks back */
    whi_lattice_step check;    /* report */
    whi_lattice_step rebase;   /* by moved */
    whi_lattice_step stats;    /* sums[0..2]: blocks, bytes, largest degree; zero at first */
} whi_lattice_kernels;

const whi_lattice_kernels *whi_lattice_kernels_find(const char *allocator, wh_target target);

#ifdef __cplusplus
}
#endif

#endif

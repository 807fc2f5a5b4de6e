/* graph_case.h: the graph benchmark (Gallatin paper, section 6.12): adjacency
 * arrays that double, from a real graph file, on any allocator. Host C11.
 *
 * Operations, in this order; each timed alone, once per repetition:
 *   init          the whole graph from its adjacency lists, one array per vertex
 *   insert        a batch of random arcs
 *   delete        the same batch
 *   focus-insert  a batch of arcs that start in a short range of vertices
 *   focus-delete  the same batch
 *   expand        a fresh graph, then batch after batch of random arcs, nothing deleted
 *   stream        an empty graph, then the file's arcs in order of time, batch by
 *                 batch (files with a third column)
 *   destroy       every array given back (allocators that can free; between the
 *                 repetitions of init and at the end)
 *
 * After every operation, of a graph of more than 2^22 arcs only after the last
 * repetition, every adjacency is copied back and compared as a multiset with what the
 * file and the batches say; after destroy the heap must hold as many blocks as before
 * init. A heap that can check itself is checked. Differences are counted in `bad`.
 * What the heap could not serve is counted in `failed` (vertices by init, arcs by the
 * others) and left out of what is expected.
 */
#ifndef WHI_WORKLOAD_GRAPH_CASE_H
#define WHI_WORKLOAD_GRAPH_CASE_H

#include "workload/graph/graph_file.h"
#include "workload/graph/graph_kernels.h"
#include "warpheap/heap.h"

typedef struct wh_graph_case_row {
    const char *op;      /* "init", "insert", ... a literal */
    const char *skipped; /* NULL, or why this operation did not run (a literal); then
                            the other fields are 0 */
    uint64_t arcs;       /* arcs (destroy: vertices) in one repetition */
    uint64_t threads;    /* lanes started */
    uint32_t reps;       /* repetitions timed */
    double us;           /* median */
    double us_min;
    double us_max;
    uint64_t failed; /* sum over the repetitions */
    uint64_t bad;
    double steps_per_arc; /* simulated device: mean; 0 on a GPU */
    double atomics_per_arc;
} wh_graph_case_row;

typedef void (*wh_graph_case_row_fn)(void *context, const wh_graph_case_row *row);

/* Zero means the default everywhere. */
typedef struct wh_graph_case_options {
    const wh_graph_arcs *arcs; /* the graph; required */
    wh_graph_case_row_fn emit; /* called with context once per operation; required */
    void *context;
    uint32_t reps;  /* default 3 on the simulated device, 10 on a GPU */
    uint64_t batch; /* arcs in a batch; default: a quarter of the graph's arcs in
                       1 K .. 16 K on the simulated device, all of them in
                       16 K .. 1 M on a GPU */
    uint32_t focus; /* vertices that a focused batch starts from; default a
                       hundredth of the vertices, in 16 .. 1024, and enough for
                       at most 1 K arcs of the batch each */
    uint64_t seed;  /* of the batches */
    int no_shrink;  /* delete keeps arrays that are almost empty */
    int no_expand;  /* leave expand out */
    int no_stream;  /* leave stream out */
} wh_graph_case_options;

/* Runs the case on a heap in its first state; kernels must be of the heap's allocator and target.
 * The heap is left empty where the allocator can free or reset. A run with bad > 0 still returns
 * WH_OK, unless the graph's or the heap's own structure is broken: CORRUPT, and the rows end there.
 * On any other status than WH_OK, error (may be NULL) receives one line. An allocator without
 * WH_CAP_DISJOINT gives one row, op "graph", with `skipped` set. */
wh_status wh_graph_case_run(const wh_graph_case_options *options, wh_heap *heap,
                            const wh_multigraph_kernels *kernels, char *error, size_t error_size);

#endif

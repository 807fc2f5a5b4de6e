/* graph_own.h: what the host's sides of warpheap::graph have of each other. */
#ifndef WHI_GRAPH_OWN_H
#define WHI_GRAPH_OWN_H

#include "graph_batch.h"
#include "warpheap/graph.h"

/* Hands a status that is not WH_OK to the caller. */
#define TRY(call)                  \
    do {                           \
        const wh_status s_ = call; \
        if (s_ != WH_OK) {         \
            return s_;             \
        }                          \
    } while (0)

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
};

/* Memory for a batch of n arcs, or lists of n vertices. */
wh_status whi_graph_make_room(wh_graph *graph, uint64_t n);

/* The heap that a graph's adjacencies lie in. */
wh_heap *whi_graph_heap(const wh_graph *graph);

/* A structure of the caller's, of which this library knows as many bytes as its own has; it begins
 * with its size, where 0 stands for `bytes`. WRONG_BUILD. */
wh_status whi_take_struct(void *own, size_t own_bytes, const void *theirs, size_t bytes);

#endif

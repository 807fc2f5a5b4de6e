/* graph_own.h: what the host's sides of warpheap::graph have of each other. */
#ifndef WHI_GRAPH_OWN_H
#define WHI_GRAPH_OWN_H

#include "warpheap/graph.h"

/* Hands a status that is not WH_OK to the caller. */
#define TRY(call)                  \
    do {                           \
        const wh_status s_ = call; \
        if (s_ != WH_OK) {         \
            return s_;             \
        }                          \
    } while (0)

/* The heap that a graph's adjacencies lie in. */
wh_heap *whi_graph_heap(const wh_graph *graph);

/* A structure of the caller's, of which this library knows as many bytes as its own has; it begins
 * with its size, where 0 stands for `bytes`. WRONG_BUILD. */
wh_status whi_take_struct(void *own, size_t own_bytes, const void *theirs, size_t bytes);

#endif

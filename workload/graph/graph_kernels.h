/* graph_kernels.h: the device side of the graph case as host code calls it: one
 * table per (allocator, target), defined by graph_kernels.c.
 *
 * Every pointer inside a view and every array is device memory. Calls start
 * kernels on the default stream and do not wait, except where said.
 */
#ifndef WHI_WORKLOAD_GRAPH_KERNELS_H
#define WHI_WORKLOAD_GRAPH_KERNELS_H

#include "warpheap/heap.h"
#include "workload/graph/graph_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel over n items is started with one lane per item, rounded up to whole
 * blocks, up to this many blocks. */
#define WH_MULTIGRAPH_BLOCK_THREADS 256u
#define WH_MULTIGRAPH_MAX_BLOCKS (1u << 20)

typedef struct wh_multigraph_kernels {
    const char *allocator; /* command-line name */

    /* Makes every vertex empty, without giving anything back. */
    wh_status (*clear)(wh_heap *heap, const wh_multigraph_view *g);

    /* Gives each vertex v of a cleared graph the neighbours
     * to[offset[v] .. offset[v + 1]). A vertex whose array the heap cannot serve
     * stays empty and is counted in failed. */
    wh_status (*init)(wh_heap *heap, const wh_multigraph_view *g, const uint64_t *offset,
                      const uint32_t *to);

    /* Adds the arcs from[i] -> to[i]; done[i] says whether it went in. */
    wh_status (*insert)(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                        const uint32_t *to, uint64_t n, uint32_t *done);

    /* Removes one arc from[i] -> to[i] for every i with done[i] == WH_MULTIGRAPH_INSERTED and
     * sets done[i] to NOT_DONE, or to MISSING if there was none. */
    wh_status (*remove)(wh_heap *heap, const wh_multigraph_view *g, const uint32_t *from,
                        const uint32_t *to, uint64_t n, uint32_t *done);

    /* degree[v] for every vertex; counts vertices with broken fields in broken. */
    wh_status (*degrees)(wh_heap *heap, const wh_multigraph_view *g, uint32_t *degree);

    /* Copies every adjacency to to[offset[v] ..]. */
    wh_status (*dump)(wh_heap *heap, const wh_multigraph_view *g, const uint64_t *offset,
                      uint32_t *to);

    /* Frees every adjacency array and leaves every vertex empty. */
    wh_status (*destroy)(wh_heap *heap, const wh_multigraph_view *g);
} wh_multigraph_kernels;

/* The table of an allocator on a target; NULL if there is none (the allocator does
 * not run there, or the target is not built in). */
const wh_multigraph_kernels *wh_multigraph_kernels_find(const char *allocator, wh_target target);

#ifdef __cplusplus
}
#endif

#endif

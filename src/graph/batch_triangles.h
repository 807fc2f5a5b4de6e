/* batch_triangles.h: the triangles that edges of a batch are in, as host code hands them to
 * kernels: one table for each (allocator, target), defined by batch_triangles_kernels.c. All
 * pointers are device memory. Calls start kernels on a stream and do not wait. */
#ifndef WHI_GRAPH_BATCH_TRIANGLES_H
#define WHI_GRAPH_BATCH_TRIANGLES_H

#include "warpheap/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wh_lattice_vertex;

#define WHI_NO_EDGE UINT64_MAX /* an edge is its smaller end << 32 | its larger end */

typedef struct whi_batch_edge_counts {
    uint32_t warps, blocks; /* edges of the lists */
    uint64_t triangles;
} whi_batch_edge_counts;

typedef struct whi_batch_triangles {
    struct wh_lattice_vertex *vertices;
    uint32_t n_vertices;
    int sorted;
    const uint32_t *from, *to; /* n arcs */
    const uint8_t *done;       /* of each; those that are not APPLIED are left out. NULL: none is */
    uint64_t n;
    uint64_t *keys; /* the batch's edges as a table, open addressed; NO_EDGE at first */
    uint64_t size;  /* its places, by whi_map_size of n: half of them stay free */
    uint64_t *list; /* of n: edges for warps from the front, for blocks of threads from the end */
    whi_batch_edge_counts *counts; /* zero at first */
} whi_batch_triangles;

typedef wh_status (*whi_batch_triangles_step)(wh_device *device, void *stream,
                                              const whi_batch_triangles *w);

typedef struct whi_batch_triangles_kernels {
    whi_batch_triangles_step collect; /* keys and the lists */
    whi_batch_triangles_step count;   /* triangles */
} whi_batch_triangles_kernels;

const whi_batch_triangles_kernels *whi_batch_triangles_kernels_find(wh_target target);

#ifdef __cplusplus
}
#endif

#endif

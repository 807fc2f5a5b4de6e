/* shard_kernels.h: the device side of a graph on several ranks: one table for each target. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_KERNELS_H
#define WHI_WORKLOAD_RANKS_SHARD_KERNELS_H

#include "warpheap/graph_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory, an entry for each id. */
typedef struct whi_shard_walk {
    wh_graph_ref graph;
    const uint64_t *rank;
    uint64_t *in; /* zero at first */
} whi_shard_walk;

typedef struct whi_shard_kernels {
    /* Adds to in[w], for each arc v -> w, rank[v] by the degree of v, rounded down. Does not wait.
     */
    wh_status (*push)(wh_device *device, const whi_shard_walk *walk);
} whi_shard_kernels;

const whi_shard_kernels *whi_shard_kernels_find(wh_target target);

#ifdef __cplusplus
}
#endif

#endif

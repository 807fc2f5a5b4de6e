/* shard_rank_kernels.h: the device side of PageRank on several ranks: one table for each target.
 * All pointers are device memory; no call waits. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_RANK_KERNELS_H
#define WHI_WORKLOAD_RANKS_SHARD_RANK_KERNELS_H

#include "warpheap/graph_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums of a rank, and counts. All zero before the kernels that add to them. */
typedef struct whi_shard_sums {
    uint64_t change, dangling;
    uint64_t upper, lower, bad; /* of start */
    uint32_t hubs;
} whi_shard_sums;

/* Ranks are integers of 2^-62 (src/graph/rank_numbers.h).
 *
 * An undirected graph pulls: each vertex adds up the shares of its neighbours, and shares of own
 * vertices go to all ranks. A directed one pushes: shares are added to the ends of arcs, and sums
 * go to the owners of these. */
typedef struct whi_shard_ranking {
    wh_graph_ref graph;
    const uint16_t *map; /* of each id: its owner, or NOBODY */
    /* All ids, by owners, each one's ascending, and filled up by NOWHERE to a multiple of 4
       entries: what goes and comes is aligned to 16 bytes. Entries; own ones begin at first. */
    const uint32_t *order;
    uint64_t entries, own, first;
    uint32_t ids;
    uint32_t others;   /* ranks beside this one */
    uint32_t per_warp; /* vertices of a warp at once, in walk */
    int pulls;
    uint64_t live, damping, teleport, spread;
    const float *start; /* of each id; NULL: all alike */
    double scale;
    uint64_t *rank;      /* of each own entry */
    uint64_t *share;     /* of each id: what an arc of it carries; push: of own vertices */
    uint64_t *in;        /* of each id: what arcs bring; push: zero before the walk */
    uint64_t *out;       /* what goes: push: sums, in order, without own ones; pull: own shares */
    const uint64_t *got; /* what came: push: own vertices' sums from each other rank; pull: shares
                            of all ids, in order */
    float *out_floats;   /* own ranks */
    const float *got_floats;
    float *floats; /* of each id */
    uint32_t *hubs;
    whi_shard_sums *sums;
} whi_shard_ranking;

typedef struct whi_shard_rank_kernels {
    wh_status (*start_sum)(wh_device *device, const whi_shard_ranking *r);
    wh_status (*first)(wh_device *device, const whi_shard_ranking *r); /* ranks; shares; dangling */
    wh_status (*walk)(wh_device *device, const whi_shard_ranking *r);  /* in: of all arcs */
    wh_status (*pack)(wh_device *device, const whi_shard_ranking *r);  /* push: out; in is zero */
    wh_status (*spread)(wh_device *device, const whi_shard_ranking *r); /* pull: shares from got */
    wh_status (*update)(wh_device *device, const whi_shard_ranking *r); /* as first, and change */
    wh_status (*floats)(wh_device *device, const whi_shard_ranking *r);
    wh_status (*place)(wh_device *device, const whi_shard_ranking *r); /* floats from got_floats */
} whi_shard_rank_kernels;

const whi_shard_rank_kernels *whi_shard_rank_kernels_find(wh_target target);

#ifdef __cplusplus
}
#endif

#endif

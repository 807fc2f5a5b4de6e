/* shard_route.h: arcs on their way to the owners of their sources, and what became of them on the
 * way back. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_ROUTE_H
#define WHI_WORKLOAD_RANKS_SHARD_ROUTE_H

#include "workload/ranks/shard_own.h"

typedef enum whi_shard_kind {
    WHI_SHARD_ASKED, /* whether they are there */
    WHI_SHARD_INSERTED,
    WHI_SHARD_ERASED,
    WHI_SHARD_MIXED
} whi_shard_kind;

typedef struct whi_shard_route {
    const wh_graph_batch *batch; /* the caller's, or an empty one */
    whi_shard_kind kind;
    whi_shard_routing on; /* the batch on the device */
    uint8_t *told;        /* on the device: what became of its arcs; NULL: this rank does not ask */
    int asks;             /* a rank wants to know what became of each arc: the same on all */
    int is_direct;        /* the batch is given to the graph as it is */
    int is_agreed;        /* all ranks know that all have done, or can do, their part */
    whi_shard_local came; /* what other ranks' batches bring, in the order of the ranks */
    const uint32_t *from, *to; /* of came, or of on, if it is direct */
    uint64_t inserted;         /* by this rank's graph, and not yet agreed */
    /* How many of this rank's arcs have an end that is no vertex, and what its graph has applied,
       of arcs, or of halves of them if there are both ways. */
    uint64_t bad, applied;
} whi_shard_route;

/* Sends the batch, and has what came. Failures of this rank alone are reported only: the call of
 * the communicator that comes next fails on all ranks. */
wh_status whi_shard_send(wh_shard *shard, whi_shard_route *route);

/* What was applied, and bad, is added up over all ranks: that is result, the same on all. If one
 * asks, came.done of all owners goes back, to the batch's own done; of two ways that from the
 * smaller end. An arc with an end that is no vertex gets NO_VERTEX. A rank that could not do its
 * part reports it before: then nothing goes back, and the ranks have not agreed. */
wh_status whi_shard_answer(wh_shard *shard, whi_shard_route *route, wh_graph_result *result);

#endif

/* shard_route.h: arcs on their way to the owners of their sources, and what became of them on the
 * way back. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_ROUTE_H
#define WHI_WORKLOAD_RANKS_SHARD_ROUTE_H

#include "workload/ranks/shard_own.h"

typedef enum whi_shard_kind { WHI_SHARD_GOES, WHI_SHARD_COMES, WHI_SHARD_KINDS } whi_shard_kind;

typedef struct whi_shard_route {
    const wh_graph_batch *batch;
    const uint8_t *erases; /* of the batch; NULL: all are of one kind */
    whi_shard_kind kind;
    int both_ways;                        /* each arc goes to the owners of both ends */
    uint64_t *sent[WHI_SHARD_KINDS];      /* arcs to each rank */
    uint64_t *at[WHI_SHARD_KINDS];        /* while they are packed */
    uint64_t *came[WHI_SHARD_KINDS];      /* arcs from each rank */
    uint64_t *counts;                     /* where these lie */
    whi_shard_arcs arcs[WHI_SHARD_KINDS]; /* that came, in the order of the ranks */
} whi_shard_route;

/* Sends the batch, and has what came. Failures of this rank alone are reported only: the call of
 * the communicator that comes next fails on all ranks. */
wh_status whi_shard_send(wh_shard *shard, whi_shard_route *route);

/* arcs[..].done of all owners goes back: told[i] of each arc of the batch; of two ways that from
 * the smaller end. An arc with an end that is no vertex gets NO_VERTEX. */
wh_status whi_shard_answer(wh_shard *shard, whi_shard_route *route, uint8_t *told);

void whi_shard_route_free(whi_shard_route *route);

#endif

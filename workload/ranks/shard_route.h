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
    uint8_t *told;        /* on the device: what became of its arcs; NULL: nobody asks */
    int is_agreed;        /* all ranks know that all have done, or can do, their part */
    whi_shard_local came; /* what other ranks' batches bring, in the order of the ranks */
} whi_shard_route;

/* Sends the batch, and has what came. Failures of this rank alone are reported only: the call of
 * the communicator that comes next fails on all ranks. */
wh_status whi_shard_send(wh_shard *shard, whi_shard_route *route);

/* came.done of all owners goes back, to the batch's own done; of two ways that from the smaller
 * end. An arc with an end that is no vertex gets NO_VERTEX. result: how many of each. A rank that
 * could not do its part reports it before: then nothing goes back, and the ranks have not agreed.
 */
wh_status whi_shard_answer(wh_shard *shard, whi_shard_route *route, wh_graph_result *result);

#endif

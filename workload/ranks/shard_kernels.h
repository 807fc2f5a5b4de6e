/* shard_kernels.h: the device side of batches of a graph on several ranks: one table for each
 * target. All pointers are device memory; no call waits. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_KERNELS_H
#define WHI_WORKLOAD_RANKS_SHARD_KERNELS_H

#include "warpheap/graph_device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WHI_SHARD_NOBODY 0xffffu     /* the owner of what is no vertex */
#define WHI_SHARD_NOWHERE UINT32_MAX /* no vertex; no place */
#define WHI_SHARD_MOST_RANKS 2048u   /* whose counters a block's shared memory has room for */

/* Arcs of a message are made a multiple of so many, by arcs of no vertex: so messages, and answers,
 * are aligned to 16 bytes, as NCCL wants them to be fast. */
#define WHI_SHARD_ARCS 16u
#define WHI_SHARD_HEAD 2u /* words of a message before its arcs */

/* What kernels count of a batch. All zero at first. */
typedef struct whi_shard_tally {
    uint64_t bad;   /* arcs with an end that is no vertex, by count */
    uint64_t told;  /* halves of arcs, by sum_up */
    uint32_t loops; /* by unpack */
    uint32_t fresh; /* by find_new */
} whi_shard_tally;

/* A batch on its way. Arcs go to bins, two for each rank: first those that go (erases[i] != 0; or
 * all, if erases is NULL), then those that come. The message to rank p: how many arcs of it go, and
 * a word of zero; then the arcs, a word each, the source in its lower half. Messages lie one behind
 * the other: so the arc at place k of all of them is word k + HEAD * (p + 1). */
typedef struct whi_shard_routing {
    const uint32_t *from, *to;
    const uint8_t *erases;
    uint64_t n;
    const uint16_t *map; /* of each id: its owner, or NOBODY */
    uint32_t ids, size;  /* how many ids, and ranks */
    uint32_t bits;       /* of the number of a bin, and of one more */
    int both_ways;       /* each arc goes to the owners of both ends; the smaller one tells.
                            Else it goes to the source's */
    uint32_t *seen;    /* of each arc: owners of both ways; then the place of the one that tells */
    uint32_t *counts;  /* of each bin; zero before count */
    uint32_t *cursors; /* of each bin: its next place */
    whi_shard_tally *tally;
    uint64_t *out; /* messages */
} whi_shard_routing;

/* What arcs of a mixed batch do on this rank. */
#define WHI_SHARD_COMES 1u
#define WHI_SHARD_GOES 2u
#define WHI_SHARD_STAYS 3u /* it goes, and comes as well */
#define WHI_SHARD_AGAIN 4u /* it comes, as another one does */

/* Arcs that came, and what became of them. From `role` on: of a mixed batch alone. */
typedef struct whi_shard_local {
    uint32_t *from, *to;
    uint64_t n;
    uint8_t *done; /* of the insertion, or erasure; in the end, of all */
    /* NULL, or ends of loops, which are none in from and to: of both ways of an edge each end
       applies one, and of a loop there is only one, so that they are counted apart. */
    uint32_t *loops;
    int both_ways;
    whi_shard_tally *tally;
    uint8_t *role;
    uint32_t *comes, *goes; /* from of the arcs that do; NOWHERE for others */
    uint8_t *gone;          /* done of the erasure */
    uint64_t *keys;         /* a table of arcs that come: all bits set, where there is none */
    uint32_t *holders;      /* of each: which arc it is, of those that are alike */
    uint64_t mask;          /* entries of the table - 1 */
} whi_shard_local;

/* Messages that came, one behind the other. */
#define WHI_SHARD_SEGMENTS 32u
typedef struct whi_shard_arrival {
    const uint64_t *in;
    uint64_t first[WHI_SHARD_SEGMENTS + 1]; /* the place of each message's first arc; the end */
    uint32_t segments, rank;                /* of which rank the first one is */
    whi_shard_local to;
} whi_shard_arrival;

/* What became of the arcs of the batch. */
typedef struct whi_shard_told {
    const uint32_t *place; /* routing.seen */
    const uint8_t *answers;
    uint8_t *told;
    uint64_t n;
    int has; /* answers are 1, or anything else for 0 */
} whi_shard_told;

/* Which arcs have come since degrees were noted, if none has gone: those of each adjacency from the
 * old degree on, as warpheap/detail/graph/lattice.h says of insertions. */
typedef struct whi_shard_before {
    wh_graph_ref graph;
    uint32_t *degrees;   /* of each id */
    uint32_t *from, *to; /* of those that have come */
    whi_shard_tally *tally;
} whi_shard_before;

typedef struct whi_shard_kernels {
    wh_status (*count)(wh_device *device, const whi_shard_routing *r);   /* bins; seen */
    wh_status (*lay)(wh_device *device, const whi_shard_routing *r);     /* bins get places */
    wh_status (*scatter)(wh_device *device, const whi_shard_routing *r); /* arcs to messages */
    wh_status (*unpack)(wh_device *device, const whi_shard_arrival *a);  /* and the table */
    wh_status (*sort_out)(wh_device *device, const whi_shard_local *l);  /* comes, goes */
    wh_status (*settle)(wh_device *device, const whi_shard_local *l);    /* done, of all */
    wh_status (*sum_up)(wh_device *device, const whi_shard_local *l);    /* done that is APPLIED */
    wh_status (*tell)(wh_device *device, const whi_shard_told *t);
    wh_status (*note)(wh_device *device, const whi_shard_before *b); /* degrees */
    wh_status (*find_new)(wh_device *device, const whi_shard_before *b);
} whi_shard_kernels;

const whi_shard_kernels *whi_shard_kernels_find(wh_target target);

#ifdef __cplusplus
}
#endif

#endif

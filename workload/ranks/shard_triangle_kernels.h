/* shard_triangle_kernels.h: the device side of triangles on several ranks: one table for each
 * target. All pointers are device memory; no call waits. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_TRIANGLE_KERNELS_H
#define WHI_WORKLOAD_RANKS_SHARD_TRIANGLE_KERNELS_H

#include "warpheap/graph_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words of a message are made a multiple of so many, so that it is aligned to 16 bytes. */
#define WHI_SHARD_LIST_FILL 4u
#define WHI_SHARD_LIST_MESSAGES 32u /* that are looked up by one kernel */

/* Sums of a rank, and counts. All zero at first. */
typedef struct whi_shard_list_sums {
    uint64_t found;      /* triangles */
    uint64_t first, end; /* entries of the lists of the window */
    uint32_t hubs;
    uint32_t longest; /* list that goes to another rank */
} whi_shard_list_sums;

/* Vertices go by their places: where they are in `order`. So those of a rank are together, and a
 * list in the order of places has those of a rank together, too.
 *
 * Each vertex has the list of its neighbours that come after it, by degree and place. A triangle
 * belongs to the one of its vertices that comes first: its list has both others, and the list of
 * the second one has the third. A list goes to each rank that has one of its vertices, which looks
 * for what it has in common with the lists of these.
 *
 * What goes: words[j] of all messages together begin with list j. Those lists go together which
 * begin in a window of words. A message: how many lists; of each where it ends; their entries. */
typedef struct whi_shard_counting {
    wh_graph_ref graph;
    /* As in shard_rank_kernels.h; first_of: the place of each rank's first entry, and the end. */
    const uint32_t *order, *first_of;
    uint64_t entries;
    uint32_t own, first, rank, size;
    uint32_t *place;        /* of each id */
    uint32_t *out;          /* degree of each own entry */
    const uint32_t *degree; /* of each entry */
    uint32_t *n;            /* of each own entry: entries of its list; its words in messages */
    uint64_t *begin;        /* of its list; the end */
    uint64_t *words;        /* words of messages before its list; all */
    uint32_t *hubs;
    uint32_t *to;     /* entries of the lists: places; NULL: to be counted */
    uint32_t *source; /* and whose list they are in */
    uint64_t edges;
    whi_shard_list_sums *sums;
    /* A window, and what goes to each rank: lists in the upper half, entries in the lower one. */
    uint64_t window, window_end;
    uint64_t *counts, *cursors;
    uint64_t *at; /* where its message begins; the end of all */
    uint32_t *messages;
    /* What came: messages one behind the other. */
    const uint32_t *in;
    uint64_t message[WHI_SHARD_LIST_MESSAGES + 1]; /* where each begins; the end */
    uint32_t n_messages;
} whi_shard_counting;

typedef wh_status (*whi_shard_triangle_step)(wh_device *device, const whi_shard_counting *c);

typedef struct whi_shard_triangle_kernels {
    whi_shard_triangle_step degrees; /* out; n is zero */
    whi_shard_triangle_step count;   /* place, begin; n */
    whi_shard_triangle_step fill;    /* the lists, in order; words, and longest */
    whi_shard_triangle_step own;     /* found: of own lists with own lists */
    whi_shard_triangle_step lay;     /* counts of the window, and where its messages begin */
    whi_shard_triangle_step pack;    /* messages */
    whi_shard_triangle_step came;    /* found: of lists that came */
} whi_shard_triangle_kernels;

const whi_shard_triangle_kernels *whi_shard_triangle_kernels_find(wh_target target);

#ifdef __cplusplus
}
#endif

#endif

/* shard_own.h: what the files of a graph on several ranks have of each other. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_OWN_H
#define WHI_WORKLOAD_RANKS_SHARD_OWN_H

#include "workload/ranks/shard.h"
#include "workload/ranks/shard_kernels.h"

#define WHI_SHARD_REMOVE_PIECE 65536u /* vertices that go at once */

/* Arcs as two arrays, and a byte for what became of each. */
typedef struct whi_shard_arcs {
    uint32_t *from, *to;
    uint8_t *done;
    uint64_t n, room;
} whi_shard_arcs;

/* The rows of this rank's part, in host memory. */
typedef struct whi_shard_rows {
    uint64_t *offset; /* of n + 1 entries */
    uint32_t *to;
    uint64_t arcs;
} whi_shard_rows;

/* Device memory that grows. */
typedef struct whi_shard_memory {
    unsigned char *p;
    uint64_t bytes;
} whi_shard_memory;

struct wh_shard {
    wh_comm *comm;
    wh_graph *graph;
    wh_device *device;
    int rank, size;
    uint32_t n; /* ids that there can be */
    int undirected;
    uint64_t piece;
    uint16_t *owner;
    uint8_t *is;        /* whether an id is a vertex */
    uint32_t *free_ids; /* that were vertices: a stack */
    uint32_t n_free, next, live;
    uint64_t calls; /* so far: all ranks' must be alike */
    wh_shard_times times;
    double lap; /* when the last part of a call ended */
    /* What the communicator may still read or write after a failure: */
    unsigned char *out;
    uint64_t out_room;
    uint64_t *out_bytes, *at; /* an entry for each rank */
    wh_comm_buffer got;
    /* The path of batches, on the device (shard_route.c): */
    const whi_shard_kernels *kernels;
    whi_shard_memory map;                      /* of each id: its owner, or WHI_SHARD_NOBODY */
    uint32_t map_first, map_end;               /* what of it is old */
    whi_shard_memory order;                    /* all ids, by owners; order_first again */
    uint64_t *order_first;                     /* of each rank's; the end */
    int has_order;                             /* it is up to date */
    whi_shard_memory input, seen, sends, bins; /* of this rank's batch */
    whi_shard_memory arcs, table;              /* of what comes */
    wh_comm_buffer came, answers;
    whi_shard_memory degrees;   /* of each id, before an insertion */
    whi_shard_tally *tally;     /* a copy, for the host, */
    uint32_t *counts;           /* with those of bins behind it */
    uint64_t *sent, *came_arcs; /* to each rank, from each */
    uint64_t *may, *want;       /* arcs that may go to each rank: it has room for them */
    uint64_t graph_room;        /* arcs of a batch that the graph has room for, at least */
};

/* Begins a call: the next one of the communicator tells whether all ranks make this one. what: its
 * name, a literal. Not WH_OK: the communicator is dead. */
wh_status whi_shard_begin(wh_shard *shard, const char *what);

/* A part of a call has ended: its time, since the last one did, or the call began, goes to `part`
 * of shard->times. */
void whi_shard_lap(wh_shard *shard, double *part);

/* Reports a failure of this rank with the library's own text; WH_OK is ignored. */
void whi_shard_report(wh_shard *shard, wh_status s, const char *what);

/* The send buffer, of `bytes` at least; NULL, and a report, if there is no memory. */
unsigned char *whi_shard_out(wh_shard *shard, uint64_t bytes);

/* Room for `bytes` in memory, whose contents may be lost. 0, and a report: there is none. */
int whi_shard_room(wh_shard *shard, whi_shard_memory *memory, uint64_t bytes);
void whi_shard_drop(wh_shard *shard, whi_shard_memory *memory);

/* The next `bytes` of memory, aligned to 256; *at goes behind them. */
void *whi_shard_piece(unsigned char **at, uint64_t bytes);
static inline uint64_t whi_shard_padded(uint64_t bytes) {
    return (bytes + 255) & ~(uint64_t)255;
}

/* Bytes of messages with so many arcs in all. */
static inline uint64_t whi_shard_message_bytes(uint64_t arcs, uint64_t messages) {
    return 8 * (arcs + WHI_SHARD_HEAD * messages);
}

/* Bytes of the arrays of so many arcs that come, of a batch that is not mixed. */
static inline uint64_t whi_shard_arc_bytes(const wh_shard *shard, uint64_t arcs) {
    const uint64_t words = shard->undirected ? 3 : 2;
    return words * whi_shard_padded(4 * arcs) + whi_shard_padded(arcs);
}

/* The owner of v, or whether it is a vertex, has changed. */
void whi_shard_changed(wh_shard *shard, uint32_t v);

/* The map on the device is up to date. */
wh_status whi_shard_bring_map(wh_shard *shard);

/* All ids on the device by their owners, each one's ascending and filled up by NOWHERE to a
 * multiple of 4 entries; behind them where each owner's begin, and the end. Up to date until a
 * vertex moves: the first call, and the first after a move, has O(ids) on the host. */
wh_status whi_shard_bring_order(wh_shard *shard);

/* Host memory of n entries; NULL, and a report, if there is none. */
void *whi_shard_take(wh_shard *shard, uint64_t n, size_t bytes);

/* Room for n arcs, whose contents are lost. 0, and a report, if there is no memory. */
int whi_shard_arcs_room(wh_shard *shard, whi_shard_arcs *arcs, uint64_t n);
void whi_shard_arcs_free(whi_shard_arcs *arcs);

/* Inserts or erases on this rank; done says of each what became of it. */
wh_status whi_shard_apply(wh_shard *shard, whi_shard_arcs *arcs, int erases);

/* Whether each arc is there, in done; takes the device memory that a batch of as many will need. */
wh_status whi_shard_look(wh_shard *shard, whi_shard_arcs *arcs);

/* Erases again what of these was inserted, as done says. The last three: of arcs on the host. */
wh_status whi_shard_take_back(wh_shard *shard, whi_shard_arcs *arcs);

/* This rank's rows; all zero, and a report, on failure. */
wh_status whi_shard_rows_of(wh_shard *shard, whi_shard_rows *rows);
void whi_shard_rows_free(whi_shard_rows *rows);

/* Entries of this rank's vertices, `bytes` each, of an array of all, become those of all ranks'
 * vertices. */
wh_status whi_shard_spread(wh_shard *shard, void *array, size_t bytes);

#endif

/* shard_own.h: what the files of a graph on several ranks have of each other. */
#ifndef WHI_WORKLOAD_RANKS_SHARD_OWN_H
#define WHI_WORKLOAD_RANKS_SHARD_OWN_H

#include "workload/ranks/shard.h"

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

/* Host memory of n entries; NULL, and a report, if there is none. */
void *whi_shard_take(wh_shard *shard, uint64_t n, size_t bytes);

/* Room for n arcs, whose contents are lost. 0, and a report, if there is no memory. */
int whi_shard_arcs_room(wh_shard *shard, whi_shard_arcs *arcs, uint64_t n);
void whi_shard_arcs_free(whi_shard_arcs *arcs);

/* Inserts or erases on this rank; done says of each what became of it. */
wh_status whi_shard_apply(wh_shard *shard, whi_shard_arcs *arcs, int erases);

/* Whether each arc is there, in done; takes the device memory that a batch of as many will need. */
wh_status whi_shard_look(wh_shard *shard, whi_shard_arcs *arcs);

/* Erases again what of these was inserted, as done says. */
wh_status whi_shard_take_back(wh_shard *shard, whi_shard_arcs *arcs);

/* This rank's rows; all zero, and a report, on failure. */
wh_status whi_shard_rows_of(wh_shard *shard, whi_shard_rows *rows);
void whi_shard_rows_free(whi_shard_rows *rows);

/* Entries of this rank's vertices, `bytes` each, of an array of all, become those of all ranks'
 * vertices. */
wh_status whi_shard_spread(wh_shard *shard, void *array, size_t bytes);

#endif

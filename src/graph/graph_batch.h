/* graph_batch.h: a batch of arcs as the host's calls on graphs hand it to the kernels of a class of
 * graphs, and the table of these kernels: one for each (class, allocator, target), defined by
 * <class>_kernels.c. All pointers are device memory. Calls start kernels on a stream and do not
 * wait. */
#ifndef WHI_GRAPH_BATCH_H
#define WHI_GRAPH_BATCH_H

#include "warpheap/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a vertex, in a batch. count: fetch_add, relaxed, while arcs are counted; 0 when quiet. start:
 * a store of the lane that has counted the first one, which clears count. */
typedef struct whi_graph_run {
    uint32_t count; /* arcs of the batch */
    uint32_t start; /* where they begin */
} whi_graph_run;

/* A vertex of a batch, for its worker. */
typedef struct whi_graph_item {
    uint32_t v;        /* NONE: none */
    uint32_t start, r; /* its run */
} whi_graph_item;

/* How much a batch has of each kind of vertex, and what became of it. */
typedef struct whi_graph_counts {
    uint32_t placed;                /* arcs that have a place in a run */
    uint32_t lanes, warps, blocks;  /* vertices for a lane, a warp, a block of threads */
    uint32_t next_warp, next_lanes; /* of these lists: given out beyond everyone's first share */
    wh_graph_result result;         /* of all arcs of the batch, both ways if there are */
    wh_graph_result told;           /* by the step `tell`: of the caller's arcs */
} whi_graph_counts;

/* Memory for batches of up to `room` arcs, of each array as many entries, but for the table. */
typedef struct whi_graph_scratch {
    uint32_t *from, *to; /* copies of a batch that came from the host */
    uint8_t *done, *erases;
    uint32_t *rank;               /* of an arc in its run; NONE: it is in none */
    uint32_t *run;                /* all runs: the arcs' other ends */
    uint32_t *order;              /* the arcs' numbers in the batch; where one is asked for */
    whi_graph_item *items, *hubs; /* lists of vertices: for lanes and warps; for blocks */
    uint32_t *keys, *numbers;     /* tables: 2 * room */
    uint32_t *values[WH_GRAPH_MOST_VALUES]; /* copies, as many as an arc has */
} whi_graph_scratch;

/* Vertices that go, with all arcs to them. */
typedef struct whi_graph_sweep {
    const uint32_t *removed; /* a bit each */
    const uint32_t *taken;   /* how many; 0: nothing is to be done */
    uint32_t *hubs;          /* the end of a list that is filled downwards */
    uint32_t *n_hubs;        /* 0 at first */
    uint64_t *arcs;          /* that went are added here */
} whi_graph_sweep;

/* How what a class has beside its records begins.
 * I6      between calls arcs is how many arcs there are */
typedef struct whi_graph_own {
    uint64_t arcs;
    uint32_t by_warp; /* of the batch: its workers are warps */
} whi_graph_own;

/* A batch, as kernels get it. */
typedef struct whi_graph_batch {
    void *vertices; /* of the class */
    whi_graph_run *runs;
    uint32_t n_vertices, n;
    const uint32_t *alive; /* a bit for each id that is a vertex; NULL: all n_vertices are */
    const uint32_t *from, *to;
    uint8_t *done; /* or NULL */
    whi_graph_scratch scratch;
    whi_graph_counts *counts; /* zero at first */
    whi_graph_counts *next;   /* of the batch to come: becomes zero */
    whi_graph_counts *ever;   /* told.refused: of an undirected graph, edges ever refused */
    const uint64_t *offset;   /* from_csr, to_csr */
    uint32_t *out;            /* to_csr, degrees */
    uint64_t *sums;
    wh_report *report;
    int64_t moved;
    uint32_t room;                      /* entries of the arrays of scratch */
    uint32_t n_buckets;                 /* of a small batch */
    uint32_t limit_value, limit_before; /* expire: arcs with values[k] < before go */
    int limit_once;                     /* each is there both ways, and counts once */
    uint32_t words;                     /* values of an arc */
    int sorted;
    int multi;
    int overwrites;
    uint32_t arcs;         /* of the caller: n, or half of it where both ways are in the batch */
    const uint8_t *erases; /* of a mixed batch, for each of the caller's arcs; or NULL */
    int erasing;           /* this pass is for arcs of which that is not 0 */
    uint8_t *told;         /* the step `tell`: what became of the caller's arcs */
    uint32_t *values[WH_GRAPH_MOST_VALUES]; /* of the arcs, or NULL: insert, from_csr: read; has,
                                               to_csr: written */
    whi_graph_sweep sweep;
    uint32_t *locks;      /* a bit a vertex; 0 when quiet */
    whi_graph_own *own;   /* of the class, own_bytes; or NULL */
    uint64_t arena_bytes; /* wh_graph_options */
    uint32_t worker;
} whi_graph_batch;

typedef wh_status (*whi_graph_step)(wh_heap *heap, void *stream, const whi_graph_batch *b);

/* Options that not all classes have, and modes. */
enum {
    WHI_GRAPH_ARENA = 1,
    WHI_GRAPH_WORKER = 2,
    WHI_GRAPH_VALUES = 4,
    WHI_GRAPH_SORTED = 8,
    WHI_GRAPH_MULTI = 16
};

typedef struct whi_graph_kernels {
    const char *allocator;
    uint64_t vertex_bytes;
    whi_graph_step clear;  /* records and runs of n_vertices, and both counts */
    whi_graph_step insert; /* lays the batch out, and inserts */
    whi_graph_step erase;
    whi_graph_step has;      /* done[i] */
    whi_graph_step from_csr; /* rows that fill has left; out is `to`, offset where they begin */
    whi_graph_step degrees;  /* out[v] */
    whi_graph_step sums;     /* sums[0..n_vertices]: of the degrees before each vertex */
    whi_graph_step to_csr;   /* out, by offset */
    whi_graph_step destroy;  /* gives all blocks back */
    whi_graph_step check;    /* report */
    whi_graph_step rebase;   /* by moved */
    whi_graph_step stats;    /* sums[0..2]: blocks, bytes, largest degree; zero at first */
    whi_graph_step tell;     /* after the passes of a batch: told, and counts->told, of done */
    whi_graph_step expire;   /* by the limit; counts in counts->result. NULL: arcs have no values */
    whi_graph_step sweep;    /* by `sweep`; NULL: this class cannot */
    whi_graph_step look;     /* report: what from_csr cannot take, of offset and of the graph */
    whi_graph_step fill;     /* from_csr, rows that can be taken as they are; counts->placed: how
                                many are left for the step from_csr */
    uint64_t own_bytes;      /* beside the records; zero at first */
    uint32_t options;        /* WHI_GRAPH_ARENA and so on */
} whi_graph_kernels;

#define WHI_CSR_DESCENDS 1u /* tags of `look` */
#define WHI_CSR_HAS_ARCS 2u

/* A table type for each class, since tables are found by the name of their type, which may be a
 * macro here. */
#define WHI_GRAPH_TABLE(type) WH_TABLE(type)
typedef whi_graph_kernels whi_lattice_kernels;
typedef whi_graph_kernels whi_faim_kernels;
typedef whi_graph_kernels whi_ouro_kernels;
typedef whi_graph_kernels whi_aim_kernels;
typedef whi_graph_kernels whi_faim_update_kernels;
const whi_graph_kernels *whi_lattice_kernels_find(const char *allocator, wh_target target);
const whi_graph_kernels *whi_faim_kernels_find(const char *allocator, wh_target target);
const whi_graph_kernels *whi_ouro_kernels_find(const char *allocator, wh_target target);
const whi_graph_kernels *whi_aim_kernels_find(const char *allocator, wh_target target);
const whi_graph_kernels *whi_faim_update_kernels_find(const char *allocator, wh_target target);

#ifdef __cplusplus
}
#endif

#endif

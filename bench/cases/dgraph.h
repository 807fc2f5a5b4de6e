/* dgraph.h: what the cases graph-* share: graphs, classes of graphs, batches, their times. A case
 * gives one function that is called for each graph and each class, on a heap in its first state. */
#ifndef WHI_BENCH_DGRAPH_H
#define WHI_BENCH_DGRAPH_H

#include "bench/driver/internal.h"
#include "bench/kernels/graph_floors.h"
#include "warpheap/graph.h"

/* The classes, the default one first. One that the library has not is left out. */
#define WHI_DGRAPH_KINDS "lattice", "aim", "faim", "faim-update", "ouro"

#define WHI_DGRAPH_NONE UINT32_MAX
#define WHI_DGRAPH_ARC ((uint64_t)8) /* bytes of an arc of a batch */

/* Sources of a batch: any vertices; a thousand that follow one another; ten. Others: arcs that are
 * in the set; every other one such an arc, to be erased, and the rest any, to be inserted. */
enum {
    WHI_DGRAPH_UNIFORM,
    WHI_DGRAPH_FOCUS,
    WHI_DGRAPH_HUB,
    WHI_DGRAPH_DISTRIBUTIONS,
    WHI_DGRAPH_PRESENT = WHI_DGRAPH_DISTRIBUTIONS,
    WHI_DGRAPH_MIXED
};

/* A graph of one class in a case. */
typedef struct whi_dgraph {
    whi_bench_plan p;
    whi_bench_set *set;
    size_t number;           /* of the set among those of the run */
    const wh_graph_csr *csr; /* of the set */
    const char *kind;
    uint32_t values; /* of each arc: of graphs to come */
    int sorted;      /* likewise */
    int is_first;    /* of the classes that are measured */
    char op[48];     /* of the last row */
    wh_graph *graph; /* NULL: none is open */
    uint64_t fixed;  /* bytes beside the heap when it was new */
    uint64_t random;
    const wh_bench_floors *floors;
    uint32_t *from, *to; /* a batch of up to `room` arcs, on the host and on the device */
    uint8_t *done, *erases;
    void *device_from, *device_to, *device_done, *device_erases;
    uint64_t room;
    void *device_offset, *device_arcs; /* of csr; NULL until whi_dgraph_csr_in */
    void *kept[12];                    /* device memory of whi_dgraph_memory */
    size_t n_kept;
} whi_dgraph;

typedef struct whi_dgraph_job {
    wh_status (*run)(whi_dgraph *g);
    int undirected;
    int is_twice;     /* its graphs may have values, or both ways of each arc */
    uint32_t batches; /* of the largest kind, that are in the graph at a time */
} whi_dgraph_job;

/* Runs the job for each --input file, or else for a uniform graph and one by R-MAT, and for each
 * class, each with a time of its own (whi_bench_new_share). */
wh_status whi_dgraph_each(whi_bench *b, const whi_dgraph_job *job);

/* The numbers of arcs that batches have: the user's, or the case's own; and the last and largest
 * one. */
whi_bench_list whi_dgraph_batches(const whi_bench *b);
uint64_t whi_dgraph_most(const whi_bench *b);
/* Rounds: the user's, or the case's own. */
uint32_t whi_dgraph_rounds(const whi_bench *b);

/* --- graphs --- */

/* Of an empty graph, with memory for the largest batch that there is room for, and for from_csr. */
wh_graph_options whi_dgraph_options(const whi_dgraph *g);
/* Opens an empty graph; closes the one that is open. */
wh_status whi_dgraph_create(whi_dgraph *g);
wh_status whi_dgraph_destroy(whi_dgraph *g);
/* The set's arrays on the device. */
wh_status whi_dgraph_csr_in(whi_dgraph *g);
/* Opens a graph with the arcs of the set; try: *fits is 0 where the heap has too little for it. */
wh_status whi_dgraph_try_load(whi_dgraph *g, int *fits);
wh_status whi_dgraph_load(whi_dgraph *g);
/* From here on: the set with the reverse of each arc, and undirected graphs. */
wh_status whi_dgraph_go_undirected(whi_dgraph *g);
/* How many arcs it has. */
wh_status whi_dgraph_arcs(whi_dgraph *g, uint64_t *arcs);
/* Bytes of its blocks, as the heap counts them or else as they were asked for, and beside the heap,
 * but for what batches take. */
wh_status whi_dgraph_bytes(whi_dgraph *g, uint64_t *bytes);
/* Device memory until the graph of this case is done with. */
wh_status whi_dgraph_memory(whi_dgraph *g, void **p, uint64_t bytes);

/* --- batches --- */

uint64_t whi_dgraph_random(uint64_t *state);
/* Room for batches of n arcs. */
wh_status whi_dgraph_open_batches(whi_dgraph *g, uint64_t n);
/* A new batch, on the host and on the device: of a distribution; with sources in a range of
 * vertices; of arcs of the set. */
wh_status whi_dgraph_draw(whi_dgraph *g, uint64_t n, int distribution);
wh_status whi_dgraph_draw_range(whi_dgraph *g, uint64_t n, uint32_t first, uint32_t span);
wh_status whi_dgraph_draw_present(whi_dgraph *g, uint64_t n);
/* A mixed batch; and the one that undoes it: what it has erased comes, and the rest goes. */
wh_status whi_dgraph_draw_mixed(whi_dgraph *g, uint64_t n);
wh_status whi_dgraph_flip(whi_dgraph *g, uint64_t n);
/* Copies the first n arcs of the host's batch to the device. */
wh_status whi_dgraph_batch_in(whi_dgraph *g, uint64_t n);
/* Keeps of a batch that was applied with_done what was applied; *kept: how many. To insert a batch
 * and erase that leaves the set as it was. */
wh_status whi_dgraph_keep_applied(whi_dgraph *g, uint64_t n, uint64_t *kept);
/* An arc of a generated graph, uniform or by R-MAT. */
void whi_dgraph_random_arc(uint64_t *random, uint32_t scale, int is_rmat, uint32_t *from,
                           uint32_t *to);

typedef wh_status (*whi_dgraph_fn)(wh_graph *graph, const wh_graph_batch *batch,
                                   wh_graph_result *result);

/* The batch, n arcs from the first on, for an update; values are numbers of its sources. */
wh_graph_batch whi_dgraph_batch(const whi_dgraph *g, uint64_t first, uint64_t n, int on_device);

/* An update by the batch on the device, timed. With a result (or with_done: what became of the arcs
 * comes to g->done) it is waited for, and that arcs were refused is no failure. series NULL: not
 * kept. */
typedef struct whi_dgraph_update {
    whi_dgraph_fn fn;
    uint64_t n;
    int with_done;
    whi_bench_series *series;
    wh_graph_result *result;
} whi_dgraph_update;
wh_status whi_dgraph_apply(whi_dgraph *g, whi_dgraph_update u);
/* The same from arrays of the host, by its clock; a sample is added. */
wh_status whi_dgraph_apply_host(whi_dgraph *g, whi_dgraph_fn fn, uint64_t n,
                                whi_bench_series *series, wh_graph_result *result);
/* Which of the batch's arcs are there, as bytes in g->done; timed if series is not NULL. */
wh_status whi_dgraph_has(whi_dgraph *g, uint64_t n, whi_bench_series *series);

/* --- rows --- */

/* The class stands in front of the operation, but for the default one. The text is good until the
 * next row. */
whi_bench_row whi_dgraph_row(whi_dgraph *g, const char *op, uint64_t n);
/* Whether time is over before this operation. */
int whi_dgraph_leave_out(whi_dgraph *g, const char *op, uint64_t n);
/* The time of the null kernel with n threads, for row->us_null. */
wh_status whi_dgraph_null(whi_dgraph *g, uint64_t n, whi_bench_row *row);

/* A floor kernel with so many threads, as often as the run repeats things, and its row: of `ops`,
 * so that a row of the graph can be held against it. */
wh_status whi_dgraph_floor(whi_dgraph *g, const char *op, wh_bench_floor_launcher launcher,
                           const wh_bench_floor_call *call, uint64_t threads);
/* The same for a word of 8 bytes a thread: the copy of the adjacencies. */
wh_status whi_dgraph_floor_copy(whi_dgraph *g);

/* Calls step, which adds a sample, until there are enough, or time is over; on a GPU once more
 * before, for no sample, so that none pays for loading a kernel. */
typedef wh_status (*whi_dgraph_step)(whi_dgraph *g, void *context, whi_bench_series *series);
wh_status whi_dgraph_repeat(whi_dgraph *g, whi_dgraph_step step, void *context,
                            whi_bench_series *series);

/* --- dgraph_pair.c: batches and what undoes them --- */

/* Updates by a batch of n arcs, each followed by one that undoes it. */
typedef struct whi_dgraph_pair {
    whi_dgraph_fn fn[2];
    uint64_t n;
    int distribution;
    whi_bench_series series[2], host[2]; /* of the caller all zero, as is what follows */
    wh_graph_result result[2];           /* of the last repetition from the host */
    uint64_t bad;
} whi_dgraph_pair;

/* Repeats the pair, each time with a new batch, from the device and from the host, and emits a row
 * for each of its updates that has a name. Bad: what went in, or out, is not what came back. */
wh_status whi_dgraph_pair_rows(whi_dgraph *g, whi_dgraph_pair *p, const char *const names[2]);

/* A row for wh_graph_check of the whole graph. */
wh_status whi_dgraph_look(whi_dgraph *g, const char *op);

#endif

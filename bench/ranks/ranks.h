/* ranks.h: the benchmark of work on several ranks (`warpheap bench --ranks`): what its driver and
 * its cases share. Host C11. docs/SEVERAL_GPUS.md describes what is measured.
 *
 * All ranks run all of a case, and make the same calls of the communicator. What one rank does
 * alone, on the device of rank 0 say, ends with whi_ranks_agree, where the others have waited for
 * it; so all ranks have the same status afterwards, and leave a part of a case together. */
#ifndef WHI_BENCH_RANKS_H
#define WHI_BENCH_RANKS_H

#include "bench/driver/common.h"
#include "warpheap/heap.h"
#include "workload/ranks/comm.h"
#include "workload/ranks/shard.h"

#define WHI_RANKS_MOST_REPS 100u
#define WHI_RANKS_MOST_PHASES 8u
#define WHI_RANKS_LEAST_BYTES 1024u /* that a rank sends in comm */

/* X(name, function, "one line for --help"), in the order in which they run. */
#define WHI_RANKS_CASE_LIST(X)                                                                \
    X("edges", whi_ranks_case_edges, "batches of arcs go into a graph of as many, and out")   \
    X("pagerank", whi_ranks_case_pagerank, "20 iterations of PageRank")                       \
    X("triangles", whi_ranks_case_triangles, "triangles of an undirected graph")              \
    X("rebalance", whi_ranks_case_rebalance, "vertices move until ranks have alike arcs")     \
    X("join", whi_ranks_case_join, "a join of tables, each rank a part")                      \
    X("group", whi_ranks_case_group, "a group-by")                                            \
    X("peers", whi_ranks_case_peers, "blocks of one GPU, freed and allocated by another one") \
    X("comm", whi_ranks_case_comm, "an agreement, and data from each rank to each")

/* Zero (NULL) fields mean the default. */
typedef struct whi_ranks_options {
    const char *device; /* "auto", "sim", "cuda": of each rank, by its number in its machine */
    const char *engine; /* "mpi", "nccl" */
    const char *json;
    char **cases;
    size_t n_cases;        /* 0: all */
    const uint64_t *sizes; /* arcs */
    size_t n_sizes;
    const uint64_t *rows; /* of tables */
    size_t n_rows;
    uint64_t blocks;     /* of peers */
    uint64_t most_bytes; /* of comm: of a rank, the largest */
    uint64_t heap_bytes, seed;
    uint32_t reps;  /* at most WHI_RANKS_MOST_REPS */
    double seconds; /* how long ranks wait for one that works */
    uint64_t asks;  /* wh_comm_options.asks */
} whi_ranks_options;

/* The default work. */
typedef struct whi_ranks_defaults {
    uint64_t sizes[3], small[2]; /* arcs, of rebalance the latter; 0 ends */
    uint64_t rows, blocks, most_bytes, heap_bytes;
    uint32_t reps, agreements;
} whi_ranks_defaults;

/* Where a rank runs. */
typedef struct whi_ranks_place {
    int status;  /* a wh_status: of its device */
    int machine; /* a number: ranks of one machine have the same */
    int is_gpu;
    char device[128]; /* "NVIDIA H200", or why there is none */
    char bus[32];     /* of a GPU: its PCI bus id */
} whi_ranks_place;

/* Repetitions of one call, on this rank. */
typedef struct whi_ranks_series {
    double us[WHI_RANKS_MOST_REPS];
    uint32_t n;
    int is_warm; /* the first one is forgotten */
    double since;
    wh_comm_stats before, sum;                     /* sum: over all repetitions */
    const char *phase_name[WHI_RANKS_MOST_PHASES]; /* parts of the call: the same on all ranks */
    double phase[WHI_RANKS_MOST_PHASES];           /* seconds over all repetitions */
    uint32_t n_phases;
} whi_ranks_series;

/* What a row is about. */
typedef struct whi_ranks_part {
    const char *op, *input; /* input NULL: none */
    uint64_t n;             /* arcs, rows, bytes or blocks of a call, of all ranks */
} whi_ranks_part;

typedef struct whi_ranks_row {
    const whi_ranks_series *series;
    const whi_ranks_series *one; /* the same call on one device, on rank 0; NULL: there is none */
    uint64_t per_call;           /* calls that a repetition is made of; 0: one */
    uint64_t per_rank;           /* of part.n; 0: an equal part */
    uint64_t size;               /* bytes of a block, or that a rank sends; 0: none */
    uint64_t bad;                /* what this rank has found wrong */
    const char *note;            /* NULL: none */
    whi_bench_value values[6];
    size_t n_values;
} whi_ranks_row;

typedef struct whi_ranks {
    const whi_ranks_options *options;
    const whi_ranks_defaults *defaults;
    wh_comm *comm;
    int rank, size;
    wh_device *device;
    const wh_device_info *info;
    int on_sim;
    uint32_t reps;
    const char *engine;
    whi_ranks_place *places; /* of all ranks */
    const char *case_name;
    whi_ranks_part part; /* what is being measured: for rows */
    char error[160];     /* what went wrong on this rank; "" */
    FILE *json;          /* of rank 0; NULL: none */
    int header_shown;
    int unwritten;      /* rows could not be written */
    uint64_t total_bad; /* of all ranks */
    uint64_t total_failed;
} whi_ranks;

/* --- driver.c ------------------------------------------------------------------------------ */

/* NULL past the end. */
const char *whi_ranks_case_name(size_t index);
const char *whi_ranks_case_text(size_t index);

/* Runs the benchmark; returns the exit status of the program (wh_bench_outcome), and prints what
 * it has to say, on rank 0. complaint: "", or why this rank cannot run its options: then no rank
 * runs, and rank 0 says so. */
int whi_ranks_run(const whi_ranks_options *options, const char *complaint);

/* --- places.c ------------------------------------------------------------------------------ */

/* MPI_Init, within 60 s, or options.seconds if that is given, but at least 10; b->rank, b->size. A
 * rank that is not there is not known by name so early: the process ends. 0: it failed. */
int whi_ranks_start_mpi(whi_ranks *b);

/* All ranks have the same options, and none has a complaint; each opens its device: b->device and
 * the like, b->places. WH_BENCH_OK, or the exit status, after a line of rank 0. Waits for a rank
 * for 60 s, or options.seconds, then names it. The process ends here where MPI cannot be ended:
 * after such a failure, and where options differ. */
int whi_ranks_take_places(whi_ranks *b, const char *complaint);

/* --- measure.c ----------------------------------------------------------------------------- */

/* Remembers the first failure of this rank; returns status. */
wh_status whi_ranks_note(whi_ranks *b, wh_status status, const char *what);

/* All ranks, each with the status of what it has done by itself: the same on all afterwards. */
wh_status whi_ranks_agree(whi_ranks *b, wh_status status, const char *what);

/* Likewise; but rank 0 goes on alone, where the others do not make this call. */
wh_status whi_ranks_agree_unless(whi_ranks *b, int alone, wh_status status, const char *what);

/* Whether the communicator is over: then nothing is freed, as comm.h says. */
int whi_ranks_is_over(const whi_ranks *b);

/* The part of 0..n-1 that is this rank's; alone: all. */
uint64_t whi_ranks_first(const whi_ranks *b, uint64_t n, int rank);

/* A heap on this rank's device: as large as the user says, else as the default, or as wanted. */
wh_status whi_ranks_open_heap(whi_ranks *b, uint64_t wanted, wh_heap **heap);

/* A repetition: not alone, ranks begin together. The first one is forgotten when a second one
 * begins: reps + 1 of them leave reps. */
wh_status whi_ranks_begin(whi_ranks *b, whi_ranks_series *series, int alone);
void whi_ranks_end(whi_ranks *b, whi_ranks_series *series);
/* What a part of the last repetition took. */
void whi_ranks_add_phase(whi_ranks_series *series, const char *name, double seconds);

/* Sums over all ranks, and the like. */
wh_status whi_ranks_sum(whi_ranks *b, uint64_t *n, uint64_t count);
/* *differs: whether ranks have different numbers. */
wh_status whi_ranks_compare(whi_ranks *b, uint64_t number, uint64_t *differs);
/* Likewise of n words of 32 bits; on rank 0 they must also be those of one device. What is wrong is
 * added to *bad. */
wh_status whi_ranks_compare_words(whi_ranks *b, const void *all, const void *one, uint64_t n,
                                  uint64_t *bad);

/* --- report.c ------------------------------------------------------------------------------- */

/* The header of the run, to the file. */
int whi_ranks_write_header(whi_ranks *b);

/* A row of b->part: all ranks. */
wh_status whi_ranks_emit(whi_ranks *b, const whi_ranks_row *row);

/* b->part has nothing to measure here. */
void whi_ranks_emit_left_out(whi_ranks *b, const char *why);

/* After a part: if it has failed, its row says why. Returns WH_OK if the next part can run. */
wh_status whi_ranks_end_part(whi_ranks *b, wh_status status);

/* --- graphs.c ------------------------------------------------------------------------------- */

typedef struct whi_ranks_input {
    const char *name; /* "uniform", "rmat" */
    int is_rmat;
    int undirected;
    wh_shard_split split;
    uint64_t n; /* arcs, before repetitions are dropped */
} whi_ranks_input;

/* Arcs in device memory. */
typedef struct whi_ranks_arcs {
    uint32_t *from, *to;
    uint64_t n;
} whi_ranks_arcs;

/* A graph on one device, or on all ranks. */
typedef struct whi_ranks_graph {
    wh_heap *heap;
    wh_graph *one;
    wh_shard *shard; /* NULL: it is on one device */
} whi_ranks_graph;

uint32_t whi_ranks_vertices(const whi_ranks_input *in);

/* Draws the arcs first .. first + in->n - 1 of a stream: this rank's part, or all. */
wh_status whi_ranks_take_arcs(whi_ranks *b, const whi_ranks_input *in, uint64_t first, int alone,
                              whi_ranks_arcs *arcs);
void whi_ranks_drop_arcs(whi_ranks *b, whi_ranks_arcs *arcs);

/* A graph of the first in->n arcs: on rank 0 alone, or on all ranks. To be closed, also after a
 * failure. */
wh_status whi_ranks_open_graph(whi_ranks *b, const whi_ranks_input *in, int alone,
                               whi_ranks_graph *g);
void whi_ranks_close_graph(whi_ranks *b, whi_ranks_graph *g);

wh_status whi_ranks_update(whi_ranks_graph *g, const whi_ranks_arcs *arcs, int erases,
                           uint64_t *applied);
/* Parts of the last call go to the series: of updates, or of PageRank. Nothing of one device. */
void whi_ranks_add_times(whi_ranks_graph *g, int is_update, whi_ranks_series *series);
/* Arcs of the graph, or of this rank's part. */
wh_status whi_ranks_count(whi_ranks_graph *g, uint64_t *n);

/* Runs `part` for each input (uniform, R-MAT) and each number of arcs. */
typedef wh_status (*whi_ranks_graph_fn)(whi_ranks *b, const whi_ranks_input *in);
wh_status whi_ranks_for_graphs(whi_ranks *b, whi_ranks_graph_fn part, const whi_ranks_input *like,
                               const uint64_t *own);

#define WHI_RANKS_DECLARE(name, function, text) wh_status function(whi_ranks *b);
WHI_RANKS_CASE_LIST(WHI_RANKS_DECLARE)
#undef WHI_RANKS_DECLARE

#endif

/* shard.h: a graph that changes, on several ranks: each has a part of it on a device and in a heap
 * of its own. Host C11.
 *
 * Every vertex belongs to a rank, which has its arcs in a graph of warpheap/graph.h. Who owns what
 * is told by a hash of the number, or by ranges, and by a map of those that have been moved. A
 * batch may have any arcs on any rank: they are routed to the owners of their sources.
 *
 *     wh_comm_open_mpi(&comm, NULL, NULL);
 *     wh_shard_options o = {0};
 *     o.comm = comm; o.heap = heap; o.vertices = 1000000;
 *     wh_shard_open(&shard, &o);
 *     wh_shard_insert(shard, &batch, &result);     // all ranks, each its own batch
 *
 * Answers are those of one graph to which all ranks' batches came as one, and results are of all
 * ranks' arcs, or vertices, together: the same on all ranks, as every status is. All calls but
 * wh_shard_close, wh_shard_local, wh_shard_owner, wh_shard_is_vertex and wh_shard_get_times are
 * made by all ranks in the same order. Arrays are host memory, but for batches. If a status is
 * neither WH_OK nor NO_VERTEX wh_comm_last_failure says which rank it is about, and why. What
 * comm.h says of dead communicators holds for the graph: only wh_shard_close is left then.
 *
 * Batches, questions, PageRank and triangles stay on the devices: by NCCL nothing of them goes over
 * the host, but what the caller has there. Arrays and moves are work of the hosts.
 *
 * A graph is a set of arcs without values, of the class lattice. Every rank has a record of 46
 * bytes for each id of the whole graph, and 7 bytes an id on the host. There are at most 2048
 * ranks.
 */
#ifndef WHI_WORKLOAD_RANKS_SHARD_H
#define WHI_WORKLOAD_RANKS_SHARD_H

#include "warpheap/graph_algorithms.h"
#include "warpheap/graph_vertices.h"

#include "workload/ranks/comm.h"

typedef struct wh_shard wh_shard;

typedef enum wh_shard_split {
    WH_SHARD_HASH, /* numbers in a row belong to different ranks: loads are alike */
    WH_SHARD_RANGE /* rank r has the r-th part of the ids: neighbours by number are together */
} wh_shard_split;

/* Zero (NULL) means the default. The same on all ranks, but for comm, heap and piece. */
typedef struct wh_shard_options {
    wh_comm *comm;          /* required; outlives the graph */
    wh_heap *heap;          /* required: of this rank; outlives the graph */
    uint64_t vertices;      /* at first: 0 .. vertices - 1 */
    uint64_t most_vertices; /* ids that there can be; 0: as vertices */
    wh_shard_split split;
    int undirected;
    uint64_t batch; /* arcs of the largest batch that comes to a rank, and goes from it, for which
                       memory is taken at once; 0: when it comes */
    uint64_t piece; /* triangles: bytes of lists that this rank sends at a time, up to 4 GiB; 0: 16
                       MiB */
} wh_shard_options;

/* Errors: BAD_ARGUMENT (also: the options of a rank differ, or its library lays graphs out in
 * another way), and those of wh_graph_create on any rank. On failure *shard is NULL. */
wh_status wh_shard_open(wh_shard **shard, const wh_shard_options *options);

/* Of this rank alone: frees its part. NULL is ignored. */
wh_status wh_shard_close(wh_shard *shard);

/* This rank's part: for kernels, wh_graph_get_stats, wh_graph_check. Its ids are those of the whole
 * graph; those of other ranks have no arcs in it. Do not change it. */
wh_graph *wh_shard_local(wh_shard *shard);

int wh_shard_owner(const wh_shard *shard, uint32_t v); /* -1: no id */
int wh_shard_is_vertex(const wh_shard *shard, uint32_t v);

/* --- batches ----------------------------------------------------------------------------------
 *
 * from, to, n, done and erases are read, on the host or on the device of this rank (on_device,
 * after what `stream` still does); values must be NULL. n may differ between ranks, and be 0.
 * result (or NULL) is of all ranks' arcs together, the same on all ranks. done (or NULL) is of this
 * rank's; an arc in the batches of two ranks is APPLIED for one of them. Ask for it only if you
 * need it: as soon as one rank does, all graphs note of each arc what became of it, and send it
 * back, which takes a quarter more time. A batch of both kinds is noted in any case. The device
 * does all that is to be done for each arc; what lies on the host is copied to it first, in one
 * piece, and done is copied back.
 *
 * A batch is applied on all ranks or on none. In order: the owners insert what is to come; all
 * ranks agree (where nothing goes, as they answer); then they erase what is to go. If a rank could
 * not insert, for want of memory or as its device failed, the others take back what they inserted,
 * which needs no memory: the status is that rank's, result is 0, done is as it was, and the graph
 * as before. If a rank does not come to the agreement (it has ended) the others take it back as
 * well, and report its end. Only a rank that ends within the agreement itself can leave one of two
 * others with the batch and the other without it: both say at their next call, at the latest, that
 * the rank has ended.
 *
 * While a mixed batch goes in, a rank needs memory for what comes before it has back what goes:
 * more than wh_graph_update, which erases first.
 *
 * Device memory, which is kept for the next batch, in bytes: 12 for each arc of this rank's batch,
 * 20 if undirected, 1 or 2 more if a rank asks for done, 10 more if it lies on the host; 17 for
 * each arc that comes, 21 if undirected, and what graph.h says; if mixed, up to 46 more. Ranks keep
 * to what the others have room for: who has more to send than ever before says so first.
 *
 * Errors: OUT_OF_MEMORY: a heap, device or host is full; NO_VERTEX: arcs of a rank's batch have
 * ends that are no vertices, the others were applied; DEVICE_ERROR; UNSUPPORTED: values.
 *
 * Cost: an arc is 8 bytes to its owner, and 1 back if a rank asks, twice if undirected; two calls
 * of the communicator to insert, three for others, two more where one has more to send than ever
 * before; the batch of graph.h, and if undirected a small one of loops; four kernels of O(n), two
 * more if a rank asks, three more if mixed, and one of O(ids) where arcs come; three waits, a few
 * more if a rank asks, or undirected. One rank alone has nothing of this to do, but for the kernel
 * of O(ids), if its graph is directed, all ids are vertices, nobody asks and it is not mixed. */
wh_status wh_shard_insert(wh_shard *shard, const wh_graph_batch *batch, wh_graph_result *result);
wh_status wh_shard_erase(wh_shard *shard, const wh_graph_batch *batch, wh_graph_result *result);
wh_status wh_shard_update(wh_shard *shard, const wh_graph_batch *batch, wh_graph_result *result);

/* done[i] (required): 1 if the arc is there, else 0. Cost: 8 bytes to the source's owner, 1 back,
 * of an undirected graph, too; as an insertion, but for the batch of graph.h, which is
 * wh_graph_has. */
wh_status wh_shard_has(wh_shard *shard, const wh_graph_batch *batch);

/* degree[v] of each id, on all ranks. Cost: 4 bytes a vertex from its owner to each rank. */
wh_status wh_shard_degrees(wh_shard *shard, uint32_t *degree);

/* The whole graph as arrays, on rank `root`, or on all with WH_SHARD_ALL; rows are in any order.
 * Elsewhere arrays may be NULL. *n, on all ranks: arcs. BAD_ARGUMENT: a rank that gets them has no
 * room for as many. Cost: that of the degrees, and 4 bytes an arc to each rank that gets them. */
#define WH_SHARD_ALL (-1)
wh_status wh_shard_to_csr(wh_shard *shard, int root, const wh_graph_arrays *arrays, uint64_t *n);

/* --- vertices ----------------------------------------------------------------------------------
 */

/* n new vertices for this rank, without names: ids[i]. Ids are given out in the order of the ranks:
 * those removed last, then those that never were. All or none on all ranks. OUT_OF_MEMORY: there
 * are not as many ids. Cost: one call of the communicator, 8 bytes a rank. */
wh_status wh_shard_add_vertices(wh_shard *shard, uint64_t n, uint32_t *ids);

/* The vertices of all ranks' lists go, with their arcs and those that lead to them. result (or
 * NULL), and NO_VERTEX: of all lists together. Cost: 4 bytes an entry to every rank, and two passes
 * over the graph for each 65,536 of them. */
wh_status wh_shard_remove_vertices(wh_shard *shard, const uint32_t *ids, uint64_t n,
                                   wh_graph_vertices_result *result);

/* The ids of all ranks' lists belong to rank `to` from now on, with their arcs; of an id in two
 * lists the higher rank's counts. Ids stay as they are. All or nothing, as a batch.
 * Errors: BAD_ARGUMENT: no such id or rank; OUT_OF_MEMORY. Cost: 8 bytes an entry to every rank, 4
 * bytes an arc and 8 a vertex to the new owner, and a copy of a rank's adjacencies to its host. */
wh_status wh_shard_move(wh_shard *shard, const uint32_t *ids, uint64_t n, int to);

/* Moves vertices from ranks that have more than `most` times the mean of all ranks' arcs (1.1, say;
 * at least 1) to those with the fewest, in the order of their ids. *moved (or NULL): how many. */
wh_status wh_shard_rebalance(wh_shard *shard, double most, uint64_t *moved);

/* --- algorithms --------------------------------------------------------------------------------
 */

/* As wh_graph_pagerank: the same bits. rank: an entry for each id, on all ranks. start: NULL,
 * or such an array, the same on all ranks.
 * Device memory: 20 bytes an id, 12 for each of this rank's, and what goes and comes: 16 an id at
 * most; 4 of these 20, and the latter, are kept. Cost: an iteration is three kernels, of an atomic
 * an arc, and 8 bytes for each id from each rank to its owner; if undirected, of a load an arc, and
 * 8 bytes for each id from its owner to each rank; two calls of the communicator, and two waits.
 * The first one, and the first after a move, has O(ids) on the host. */
wh_status wh_shard_pagerank(wh_shard *shard, const wh_graph_pagerank_options *options, float *rank,
                            wh_graph_pagerank_result *result);

/* As wh_graph_triangles, *total on all ranks. One rank alone calls that. Errors: BAD_ARGUMENT:
 * total is NULL; UNSUPPORTED: the graph is directed, or there are nearly 2^32 ids; OUT_OF_MEMORY: a
 * device has too little, of which all ranks learn before lists go.
 * Each vertex has a list of its neighbours that come after it by degree, which goes to each rank
 * that owns one of them. There it is looked up in the lists of these, a few entries a lane, however
 * long lists are.
 * Device memory: 12 bytes an id, 20 for each of this rank's, 8 for each entry of its lists; for
 * what goes options.piece and one list to each rank; for what comes the piece of each other rank,
 * and one list; but no more than there is in all. 4 bytes an id, and what goes and comes, are kept.
 * Cost: three walks over arcs or lists and two scans; 4 bytes for each id from its owner to each
 * rank; 4 bytes an entry of a list, and 4, to each rank that needs it: at most options.piece at a
 * time, and one list more; calls of the communicator and waits: 3, and one for each piece of the
 * rank that has most of them. The first one, and the first after a move, has O(ids) on the host. */
wh_status wh_shard_triangles(wh_shard *shard, uint64_t *total);

/* --- where the time goes ------------------------------------------------------------------------
 */

/* Seconds of this rank in the parts of its calls. A part ends where the host waits anyway; what is
 * started and not waited for counts where it is: so exchange has the end of packing. */
typedef struct wh_shard_times {
    uint64_t batches;    /* that wh_shard_insert, erase, update and has have had */
    uint64_t iterations; /* of PageRank */
    double bring;        /* batches: from the host to the device, and done back */
    double route;        /* who owns the sources; packing */
    double exchange;     /* arcs to their owners */
    double apply;        /* this rank's part: insert, erase, look */
    double agree;        /* until all ranks have agreed; insertions do as they answer */
    double answer;       /* counts of all ranks; what became of arcs, back to who asks */
    double walk;         /* PageRank: along the arcs, and packing */
    double pass;         /* PageRank: what arcs bring, to the owners of their ends */
    double settle;       /* PageRank: new ranks, and their sums over all ranks */
} wh_shard_times;

/* Of this rank alone: the times since the graph was opened, or since the last call of this. */
void wh_shard_get_times(wh_shard *shard, wh_shard_times *times);

#endif

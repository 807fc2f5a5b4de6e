/* graph_on_ranks.c: a graph on several ranks: each brings arcs of any vertices, and all know the
 * PageRank of the whole graph. Started by mpirun: mpirun -n 4 graph_on_ranks [device]. Each rank
 * opens a device: "sim" (the default) or "auto"; with GPUs, set CUDA_VISIBLE_DEVICES for each
 * rank before. */
/* [ranks program */
#include <stdio.h>
#include <stdlib.h>

#include "workload/ranks/shard.h"

#define N 1000u

/* The failure names the rank; wh_comm_close waits until the others have said theirs. Of
 * WH_NO_VERTEX there is no failure: no rank is at fault, and the communicator goes on. */
static void must(wh_comm *comm, wh_status status) {
    if (status != WH_OK) {
        const char *failure = wh_comm_last_failure(comm)->text;
        fprintf(stderr, "%s\n", status == WH_NO_VERTEX ? wh_status_text(status) : failure);
        wh_comm_close(comm);
        _Exit(1);
    }
}

int main(int argc, char **argv) {
    wh_comm *comm = NULL;
    wh_comm_failure failure;
    wh_comm_options comm_options = {0};
    comm_options.seconds = 20; /* how long to wait for a rank */
    if (wh_comm_open_mpi(&comm, &comm_options, &failure) != WH_OK) {
        fprintf(stderr, "%s\n", failure.text);
        wh_comm_close(comm);
        _Exit(1);
    }
    const uint32_t rank = (uint32_t)wh_comm_rank(comm), ranks = (uint32_t)wh_comm_size(comm);

    wh_heap *heap = NULL; /* of this rank */
    wh_heap_options heap_options = {0};
    heap_options.bytes = 16 << 20;
    wh_status status = wh_device_open(&heap_options.device, argc > 1 ? argv[1] : "sim", NULL);
    status = status == WH_OK ? wh_heap_create(&heap, &heap_options) : status;
    wh_comm_report(comm, status, "no device, or no heap"); /* so that all ranks know */
    must(comm, wh_comm_agree(comm));

    wh_shard *graph = NULL;
    wh_shard_options options = {0};
    options.comm = comm;
    options.heap = heap;
    options.vertices = N;
    must(comm, wh_shard_open(&graph, &options));

    static uint32_t from[N], to[N]; /* v -> v / 2, each rank a part of them */
    wh_graph_batch batch = {0};
    for (uint32_t v = rank; v < N; v += ranks) {
        from[batch.n] = v;
        to[batch.n++] = v / 2;
    }
    batch.from = from;
    batch.to = to;
    wh_graph_result result;
    must(comm, wh_shard_insert(graph, &batch, &result));
    printf("rank %u brought %u arcs; %u are new, of all ranks' arcs\n", rank, (unsigned)batch.n,
           (unsigned)result.applied);

    static float share[N];
    must(comm, wh_shard_pagerank(graph, NULL, share, NULL));
    if (rank == 0) {
        printf("vertex 0 has %.3f of the rank, vertex 999 %.5f\n", (double)share[0],
               (double)share[999]);
    }
    wh_shard_close(graph);
    wh_heap_destroy(heap);
    wh_device_close(heap_options.device);
    return wh_comm_close(comm) == WH_OK ? 0 : 1;
}
/* ranks] */

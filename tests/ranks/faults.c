/* faults.c: ranks that fail, as one program that faults.py starts by mpirun: faults NAME [SEED].
 * Rank 1 does what the name says; every rank that is left prints how it ends, and what the failure
 * was. */
#include "ranks_test.h"

#include "workload/ranks/shard.h"
#include "workload/ranks/tables.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static const char *name;
static uint64_t seed;
static int rank, size;

static int is(const char *which) {
    return strcmp(name, which) == 0;
}

/* What this rank has to say. It ends without MPI_Finalize if a rank did not come. */
static int say(const char *when, wh_status s, const wh_comm_failure *f) {
    (void)printf("rank %d ends %s: %s: %s\n", rank, when, wh_status_name(s), f->text);
    (void)fflush(stdout);
    return s == WH_OK ? 0 : 1;
}

/* Exchanges without end, of many small messages each, so that most of the time is spent in one. */
static wh_status exchange(wh_comm *c) {
    static unsigned char data[MOST_RANKS * 20000];
    wh_comm_buffer got = {0};
    uint64_t bytes[MOST_RANKS];
    wh_status s = WH_OK;
    for (int r = 0; r < MOST_RANKS; r++) {
        bytes[r] = 20000;
    }
    for (uint64_t i = 0; s == WH_OK; i++) {
        uint64_t sum[3] = {i, i, i};
        s = wh_comm_all_to_all(c, data, bytes, &got);
        wh_comm_expect(c, i, "counts");
        s = s == WH_OK ? wh_comm_agree(c) : s;
        s = s == WH_OK ? wh_comm_all_reduce(c, sum, 3, WH_COMM_U64, WH_COMM_SUM) : s;
        if (rank == 1 && i == 3) {
            if (is("kill")) {
                (void)kill(getpid(), SIGKILL);
            } else if (is("exit")) {
                _exit(0);
            } else if (is("hang") || is("late")) {
                (void)sleep(is("late") ? 5 : 1000);
            } else if (is("fewer")) {
                break;
            }
        }
    }
    return s;
}

#define VERTICES 300u
#define ARCS 200u

/* Batches without end; in between PageRank and vertices that move, so that rank 1 may end in any of
 * these. What is left of the graph on the other ranks must be sound. */
static wh_status batches(wh_shard *shard) {
    uint32_t from[ARCS], to[ARCS], ids[20];
    float ranks[VERTICES];
    uint64_t random = seed * 100 + (uint64_t)rank;
    wh_graph_batch batch;
    wh_status s = WH_OK;
    memset(&batch, 0, sizeof batch);
    batch.from = from;
    batch.to = to;
    batch.n = ARCS;
    for (uint64_t round = 0; s == WH_OK; round++) {
        for (uint32_t i = 0; i < ARCS; i++) {
            from[i] = below(&random, VERTICES);
            to[i] = below(&random, VERTICES);
            ids[i % 20] = from[i];
        }
        s = round % 3 == 2 ? wh_shard_erase(shard, &batch, NULL)
                           : wh_shard_insert(shard, &batch, NULL);
        if (s == WH_OK && round % 5 == 4) {
            s = wh_shard_pagerank(shard, NULL, ranks, NULL);
        } else if (s == WH_OK && round % 5 == 3) {
            s = wh_shard_move(shard, ids, 20, rank);
        }
        if (rank == 1 && round == 2 && is("batch-fewer")) {
            return WH_OK;
        }
    }
    return s;
}

static wh_status change(wh_comm *c) {
    wh_heap_options h;
    wh_shard_options o;
    wh_heap *heap = NULL;
    wh_shard *shard = NULL;
    memset(&h, 0, sizeof h);
    memset(&o, 0, sizeof o);
    h.bytes = 4 << 20;
    if (wh_device_open(&h.device, "sim", NULL) != WH_OK || wh_heap_create(&heap, &h) != WH_OK) {
        return WH_OUT_OF_MEMORY;
    }
    o.comm = c;
    o.heap = heap;
    o.vertices = VERTICES;
    o.undirected = (int)(seed % 2);
    wh_status s = wh_shard_open(&shard, &o);
    s = s == WH_OK ? batches(shard) : s;
    if (shard != NULL && wh_graph_check(wh_shard_local(shard), NULL) != WH_OK) {
        (void)printf("rank %d: its part is broken\n", rank);
    }
    return s;
}

/* A signal that ends rank 1 some time soon, wherever it is then. */
static void end_soon(void) {
    const struct itimerval soon = {{0, 0}, {0, (suseconds_t)(1000 + seed * 7919 % 97000)}};
    (void)setitimer(ITIMER_REAL, &soon, NULL);
}

#define ROWS 300u

/* Joins without end, so that rank 1 ends in any step of one. What is left of it on the other ranks
 * goes without them. */
static wh_status joins(wh_comm *c) {
    static uint32_t keys[ROWS];
    uint64_t random = seed * 100 + (uint64_t)rank;
    wh_heap_options h;
    wh_shard_join_options o;
    wh_shard_join *join = NULL;
    wh_table table;
    void *column = NULL;
    memset(&h, 0, sizeof h);
    memset(&o, 0, sizeof o);
    memset(&table, 0, sizeof table);
    h.bytes = 4 << 20;
    if (wh_device_open(&h.device, "sim", NULL) != WH_OK || wh_heap_create(&o.heap, &h) != WH_OK) {
        return WH_OUT_OF_MEMORY;
    }
    column = take(h.device, sizeof keys);
    for (uint32_t i = 0; i < ROWS; i++) {
        keys[i] = i % 4 == 0 ? 5 : below(&random, 100000);
    }
    (void)wh_device_copy_in(h.device, column, keys, sizeof keys);
    table.key = column;
    table.n = ROWS;
    o.comm = c;
    o.kind = WH_JOIN_SEMI;
    o.probe_value = WH_VALUE_ROW;
    wh_status s = wh_shard_join_create(&join, &o);
    if (s != WH_OK) {
        return s;
    }
    if (rank == 1) {
        end_soon();
    }
    while (s == WH_OK) {
        s = wh_shard_join_run(join, &table, &table, NULL);
    }
    if (wh_shard_join_run(join, &table, &table, NULL) != s ||
        wh_shard_join_destroy(join) != WH_OK || wh_heap_destroy(o.heap) != WH_OK) {
        (void)printf("rank %d: its part is broken\n", rank);
    }
    wh_device_close(h.device);
    return s;
}

int main(int argc, char **argv) {
    wh_comm *c = NULL;
    wh_comm_failure failure;
    wh_comm_options o;
    int given = 0;
    name = argc > 1 ? argv[1] : "";
    seed = argc > 2 ? (uint64_t)atoi(argv[2]) : 0;
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &given);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(&o, 0, sizeof o);
    o.seconds = 3;
    o.piece = 100;
    o.version = rank == 1 && is("version") ? 1 : 0;
    if (rank == 1 && is("absent")) {
        _exit(0);
    }
    wh_status s = wh_comm_open_mpi(&c, &o, &failure);
    if (s != WH_OK) {
        const int status = say("in open", s, &failure);
        (void)wh_comm_close(c);
        _exit(status);
    }
    if (rank == 1 && (is("any") || is("batch"))) {
        end_soon();
    }
    s = is("join") ? joins(c) : WH_OK;
    if (!is("join")) {
        s = is("batch") || is("batch-fewer") ? change(c) : exchange(c);
    }
    if (s != WH_OK) { /* wh_comm_close waits for the others: they can say theirs */
        (void)say("in a call", s, wh_comm_last_failure(c));
    }
    _exit((wh_comm_close(c) | s) != WH_OK);
}

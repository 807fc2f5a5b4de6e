/* faults.c: ranks that fail, as one program that faults.py starts by mpirun: faults NAME [SEED].
 * Rank 1 does what the name says; every rank that is left prints how it ends, and what the failure
 * was. */
#include "ranks_test.h"

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
            } else if (is("hang")) {
                (void)sleep(1000);
            } else if (is("fewer")) {
                break;
            }
        }
    }
    return s;
}

/* A signal that ends rank 1 some time soon, wherever it is then. */
static void end_soon(void) {
    const struct itimerval soon = {{0, 0}, {0, (suseconds_t)(1000 + seed * 7919 % 60000)}};
    (void)setitimer(ITIMER_REAL, &soon, NULL);
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
    o.seconds = 2;
    o.piece = 100;
    o.version = rank == 1 && is("version") ? 1 : 0;
    if (rank == 1 && is("absent")) {
        _exit(0);
    }
    wh_status s = wh_comm_open_mpi(&c, &o, &failure);
    if (s != WH_OK) {
        const int status = say("in open", s, &failure);
        _exit(status);
    }
    if (rank == 1 && is("any")) {
        end_soon();
    }
    s = exchange(c);
    if (s != WH_OK) { /* wh_comm_close waits for the others: they can say theirs */
        (void)say("in a call", s, wh_comm_last_failure(c));
    }
    _exit((wh_comm_close(c) | s) != WH_OK);
}

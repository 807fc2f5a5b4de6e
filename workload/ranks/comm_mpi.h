/* comm_mpi.h: what the two files that know MPI have of each other. */
#ifndef WHI_WORKLOAD_RANKS_COMM_MPI_H
#define WHI_WORKLOAD_RANKS_COMM_MPI_H

#include "workload/ranks/comm_own.h"

#include <mpi.h>

/* On the caller's communicator until there is one of our own, so numbers that others hardly use. */
enum { WHI_COMM_TAG_HEADER = 31847, WHI_COMM_TAG_DATA, WHI_COMM_TAG_NOTICE, WHI_COMM_TAG_BYE };

typedef struct whi_comm_mpi {
    MPI_Comm comm;
    int owns_comm;     /* comm is to be freed */
    int owns_mpi;      /* MPI is to be finalized */
    MPI_Request *call; /* of the call in progress: from each rank, then to each rank */
    MPI_Request *notices;
    whi_comm_header *notice; /* that came */
    whi_comm_header told[2]; /* that this rank sends: a roll call, a failure */
    unsigned char *raw;      /* lines as they come */
    unsigned char *answered; /* the roll call */
    int n_answered;
    int has_called;
} whi_comm_mpi;

wh_status whi_comm_mpi_failed(wh_comm *comm, int error, const char *what);

#define TRY_MPI(c, call, what)                           \
    do {                                                 \
        const int e_ = call;                             \
        if (e_ != MPI_SUCCESS) {                         \
            return whi_comm_mpi_failed((c), e_, (what)); \
        }                                                \
    } while (0)

/* Until all n requests are done, or a deadline. */
wh_status whi_comm_mpi_wait(wh_comm *comm, MPI_Request *requests, int n, const char *what);

/* Starts to wait for the next notice of rank r. */
void whi_comm_mpi_listen(wh_comm *comm, int r);

extern const whi_comm_engine whi_comm_mpi_engine;

#endif

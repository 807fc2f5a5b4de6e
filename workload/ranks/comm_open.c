/* comm_open.c: a communicator over MPI begins and ends. */
#include "workload/ranks/comm_mpi.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PIECE ((uint64_t)1 << 30)

/* All of it is kept if the communicator has failed: MPI may still write there. */
static void drop(wh_comm *c) {
    if (c->mpi != NULL) {
        free(c->mpi->call);
        free(c->mpi->notices);
        free(c->mpi->notice);
        free(c->mpi->raw);
        free(c->mpi->answered);
    }
    free(c->mpi);
    free(c->out);
    free(c->in);
    free(c->bytes);
    free(c->from);
    free(c->to);
    free(c->staged[0]);
    free(c->staged[1]);
    free(c);
}

static wh_status make(wh_comm *c) {
    const size_t n = (size_t)c->size;
    whi_comm_mpi *m = c->mpi;
    c->out = calloc(n, sizeof *c->out);
    c->in = calloc(n, sizeof *c->in);
    c->bytes = calloc(n, sizeof *c->bytes);
    c->from = calloc(n, sizeof *c->from);
    c->to = calloc(n, sizeof *c->to);
    m->call = calloc(2 * n, sizeof *m->call);
    m->notice = calloc(n, sizeof *m->notice);
    m->raw = calloc(n, WHI_COMM_MOST_HEADER);
    m->answered = calloc(n, 1);
    return c->out && c->in && c->bytes && c->from && c->to && m->call && m->notice && m->raw &&
                   m->answered
               ? WH_OK
               : WH_OUT_OF_MEMORY;
}

/* Not all ranks have gone on after their first lines: which ones did not, a second line tells. A
 * rank that has given up on this one does not send it either. */
static wh_status ask_once_more(wh_comm *c) {
    const wh_comm_failure first = c->failure;
    if (whi_comm_mpi_headers(c) == WH_OK) {
        c->failure = first;
    }
    return first.status;
}

/* A communicator of our own, when all ranks are known to be there. */
static wh_status duplicate(wh_comm *c) {
    whi_comm_mpi *m = c->mpi;
    MPI_Comm own;
    MPI_Request request;
    TRY_MPI(c, MPI_Comm_idup(m->comm, &own, &request), "MPI_Comm_idup");
    const wh_status s = whi_comm_mpi_wait(c, &request, 1, "MPI_Comm_idup");
    if (s != WH_OK) {
        return c->failure.reason == WH_COMM_TIMED_OUT ? ask_once_more(c) : s;
    }
    m->notices = calloc((size_t)c->size, sizeof *m->notices);
    if (m->notices == NULL) {
        wh_comm_report(c, WH_OUT_OF_MEMORY, "no host memory for the communicator");
        return WH_OK;
    }
    m->comm = own;
    m->owns_comm = 1;
    TRY_MPI(c, MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    for (int r = 0; r < c->size; r++) {
        m->notices[r] = MPI_REQUEST_NULL;
        if (r != c->rank) {
            whi_comm_mpi_listen(c, r);
        }
    }
    return WH_OK;
}

static wh_status begin(wh_comm *c, const wh_comm_options *o) {
    int started = 0, given = 0;
    c->mpi = calloc(1, sizeof *c->mpi);
    if (c->mpi == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    c->mpi->comm = MPI_COMM_WORLD;
    TRY_MPI(c, MPI_Initialized(&started), "MPI_Initialized");
    if (!started) {
        TRY_MPI(c, MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
        c->mpi->owns_mpi = 1;
    }
    if (o->mpi_comm != NULL) {
        c->mpi->comm = *(MPI_Comm *)o->mpi_comm;
    }
    if (c->mpi->comm == MPI_COMM_NULL) {
        return whi_comm_fail(c, -1, WH_COMM_ENGINE, WH_BAD_ARGUMENT,
                             "this process is no rank: mpi_comm is MPI_COMM_NULL");
    }
    TRY_MPI(c, MPI_Comm_rank(c->mpi->comm, &c->rank), "MPI_Comm_rank");
    TRY_MPI(c, MPI_Comm_size(c->mpi->comm, &c->size), "MPI_Comm_size");
    c->seconds = o->seconds > 0 ? o->seconds : 60;
    c->piece = o->piece != 0 && o->piece < MOST_PIECE ? o->piece : MOST_PIECE;
    c->most = o->most != 0 ? o->most : UINT64_MAX;
    c->asks = o->asks != 0 ? o->asks : 200;
    c->version = o->version != 0 ? o->version : WH_VERSION;
    c->engine = &whi_comm_mpi_engine;
    const wh_status s = make(c);
    if (s != WH_OK) {
        return s;
    }
    const wh_status all = whi_comm_headers(c, WHI_COMM_OPEN, 0);
    return all != WH_OK ? all : duplicate(c);
}

wh_status wh_comm_open_mpi(wh_comm **comm, const wh_comm_options *options,
                           wh_comm_failure *failure) {
    const wh_comm_options none = {0};
    if (comm == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *comm = NULL;
    wh_comm *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    const wh_status s = begin(c, options != NULL ? options : &none);
    if (failure != NULL) {
        *failure = c->failure;
    }
    if (c->failure.reason == WH_COMM_NOTHING && s != WH_OK) { /* other ranks do not know of it */
        drop(c);
        return s;
    }
    *comm = c;
    return s;
}

/* Whether all ranks have come here, too: so that each may say its failure before the first one
 * ends. No collective call: after a failure ranks may not have made the same ones. */
static int all_come(wh_comm *c) {
    whi_comm_mpi *m = c->mpi;
    const double last = whi_comm_now() + c->seconds;
    uint64_t rounds = 0;
    int left = c->size - 1;
    for (int r = 0; r < c->size; r++) {
        m->call[r] = m->call[c->size + r] = MPI_REQUEST_NULL;
        if (r != c->rank) {
            (void)MPI_Irecv(NULL, 0, MPI_BYTE, r, WHI_COMM_TAG_BYE, m->comm, &m->call[r]);
            (void)MPI_Isend(NULL, 0, MPI_BYTE, r, WHI_COMM_TAG_BYE, m->comm, &m->call[c->size + r]);
        }
    }
    while (left != 0 && whi_comm_now() < last) {
        left = 0;
        for (int i = 0; i < 2 * c->size; i++) {
            int done = m->call[i] == MPI_REQUEST_NULL;
            if (!done) {
                (void)MPI_Test(&m->call[i], &done, MPI_STATUS_IGNORE);
            }
            left += !done;
        }
        whi_comm_pause(c, &rounds);
    }
    return left == 0;
}

static void stop_listening(wh_comm *c) {
    whi_comm_mpi *m = c->mpi;
    for (int r = 0; r < c->size && m->owns_comm; r++) {
        if (m->notices[r] != MPI_REQUEST_NULL) {
            (void)MPI_Cancel(&m->notices[r]);
            (void)MPI_Wait(&m->notices[r], MPI_STATUS_IGNORE);
        }
    }
}

wh_status wh_comm_close(wh_comm *c) {
    if (c == NULL) {
        return WH_OK;
    }
    whi_comm_no_bytes(c);
    const wh_status s = whi_comm_headers(c, WHI_COMM_CLOSE, 0);
    const int ends_well = !c->dead;
    if (!all_come(c)) {
        return s != WH_OK ? s : WH_DEVICE_ERROR;
    }
    if (c->engine->close != NULL) {
        c->engine->close(c);
    }
    const int owns_mpi = c->mpi->owns_mpi;
    stop_listening(c);
    if (ends_well) {
        (void)MPI_Comm_free(&c->mpi->comm);
    }
    if (owns_mpi) {
        (void)MPI_Finalize();
    }
    if (ends_well || owns_mpi) {
        drop(c);
    }
    return s;
}

/* comm_mpi.c: the communicator over MPI. Everything is started without waiting and then asked for
 * until a deadline, as an MPI of today does not say that a rank has ended.
 *
 * Three kinds of messages: lines (headers) of each call, data, and notices. A receive for a notice
 * of each rank is always pending: a rank that fails tells all others, who may wait for data that
 * will never come. A notice of rank -1 is a roll call: the sender has waited long enough, does not
 * know for whom, and waits for the same notice of all others. Who is in a call answers at once.
 */
#include "workload/ranks/comm_mpi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOBODY (-1)

double whi_comm_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void whi_comm_pause(const wh_comm *c, uint64_t *rounds) {
    const struct timespec moment = {0, *rounds < c->asks + 1800 ? 50000 : 1000000};
    if (++*rounds > c->asks) { /* there may be more ranks than cores */
        (void)nanosleep(&moment, NULL);
    }
}

wh_status whi_comm_mpi_failed(wh_comm *c, int error, const char *what) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    (void)MPI_Error_string(error, text, &length);
    (void)whi_comm_fail(c, c->rank, WH_COMM_ENGINE, WH_DEVICE_ERROR, "rank %d: MPI: %s: %.120s",
                        c->rank, what, text);
    whi_comm_tell(c);
    return WH_DEVICE_ERROR;
}

/* --- notices ------------------------------------------------------------------------------------
 */

static void send_notice(wh_comm *c, const whi_comm_header *line) {
    whi_comm_mpi *m = c->mpi;
    for (int r = 0; r < c->size; r++) {
        MPI_Request request;
        if (r != c->rank && MPI_Isend(line, (int)sizeof *line, MPI_BYTE, r, WHI_COMM_TAG_NOTICE,
                                      m->comm, &request) == MPI_SUCCESS) {
            (void)MPI_Request_free(&request);
        }
    }
}

static void fill_notice(wh_comm *c, whi_comm_header *line, int rank, const wh_comm_failure *f) {
    memset(line, 0, sizeof *line);
    line->magic = WHI_COMM_MAGIC;
    line->header_bytes = (uint32_t)sizeof *line;
    line->sequence = c->sequence;
    line->rank = rank;
    line->reason = (uint32_t)f->reason;
    line->status = (uint32_t)f->status;
    memcpy(line->text, f->text, sizeof line->text - 1);
}

void whi_comm_tell(wh_comm *c) {
    if (c->mpi->owns_comm && c->mpi->notices != NULL) {
        fill_notice(c, &c->mpi->told[1], c->failure.rank, &c->failure);
        send_notice(c, &c->mpi->told[1]);
    }
}

void whi_comm_mpi_listen(wh_comm *c, int r) {
    whi_comm_mpi *m = c->mpi;
    if (MPI_Irecv(&m->notice[r], (int)sizeof m->notice[r], MPI_BYTE, r, WHI_COMM_TAG_NOTICE,
                  m->comm, &m->notices[r]) != MPI_SUCCESS) {
        m->notices[r] = MPI_REQUEST_NULL;
    }
}

/* A notice of rank r has come: a roll call is counted, anything else is the failure. */
static int take_notice(wh_comm *c, int r) {
    whi_comm_mpi *m = c->mpi;
    const whi_comm_header line = m->notice[r];
    whi_comm_mpi_listen(c, r);
    if (line.rank == NOBODY && line.reason == WH_COMM_TIMED_OUT) {
        m->n_answered += m->answered[r] == 0;
        m->answered[r] = 1;
        return 0;
    }
    (void)whi_comm_fail(c, line.rank, (wh_comm_reason)line.reason, (wh_status)line.status, "%.*s",
                        (int)sizeof line.text - 1, line.text);
    return 1;
}

int whi_comm_is_told(wh_comm *c) {
    whi_comm_mpi *m = c->mpi;
    for (int r = 0; m->owns_comm && r < c->size; r++) {
        int has_come = 0;
        if (m->notices[r] != MPI_REQUEST_NULL &&
            MPI_Test(&m->notices[r], &has_come, MPI_STATUS_IGNORE) == MPI_SUCCESS && has_come &&
            take_notice(c, r)) {
            return 1;
        }
    }
    if (m->n_answered != 0 && !m->has_called) { /* another rank's roll call */
        (void)whi_comm_roll_call(c);
        return 1;
    }
    return 0;
}

/* Until all have answered, or a while; then a moment more, as what a rank found out is its next
 * notice. 1: one has come that tells. */
static int hear_answers(wh_comm *c) {
    const whi_comm_mpi *m = c->mpi;
    const double quarter = c->seconds / 4, begin = whi_comm_now();
    double last = begin + (quarter > 0.5 ? quarter : 0.5);
    int all_came = 0;
    uint64_t rounds = 0;
    while (whi_comm_now() < last) {
        if (whi_comm_is_told(c)) {
            return 1;
        }
        if (m->n_answered == c->size - 1 && !all_came) {
            all_came = 1;
            last = whi_comm_now() + 0.1;
        }
        whi_comm_pause(c, &rounds);
    }
    return 0;
}

wh_status whi_comm_roll_call(wh_comm *c) {
    whi_comm_mpi *m = c->mpi;
    const wh_comm_failure call = {NOBODY, WH_COMM_TIMED_OUT, WH_DEVICE_ERROR, "roll call"};
    m->has_called = 1;
    fill_notice(c, &m->told[0], NOBODY, &call);
    send_notice(c, &m->told[0]);
    if (hear_answers(c)) {
        return c->failure.status;
    }
    int missing = 0;
    while (missing < c->size && (missing == c->rank || m->answered[missing])) {
        missing++;
    }
    if (missing == c->size) {
        return whi_comm_fail(c, NOBODY, WH_COMM_TIMED_OUT, WH_DEVICE_ERROR,
                             "all ranks are there, but data did not come within %g s; %d is the "
                             "rank that says so",
                             c->seconds, c->rank);
    }
    (void)whi_comm_fail(c, missing, WH_COMM_TIMED_OUT, WH_DEVICE_ERROR,
                        "rank %d did not come to call %llu within %g s: it has ended, or hangs "
                        "(%d of %d ranks are missing)",
                        missing, (unsigned long long)c->sequence, c->seconds,
                        c->size - 1 - m->n_answered, c->size);
    whi_comm_tell(c); /* it may be late only, and the others should say the same */
    return c->failure.status;
}

/* --- waiting ------------------------------------------------------------------------------------
 */

/* Before there are notices: who did not come is known, as each rank sends a line. */
static wh_status never_came(wh_comm *c, const MPI_Request *requests) {
    int missing = 0;
    if (requests != c->mpi->call) { /* no lines */
        return whi_comm_fail(c, NOBODY, WH_COMM_TIMED_OUT, WH_DEVICE_ERROR,
                             "MPI_Comm_idup did not end within %g s", c->seconds);
    }
    while (missing < c->size - 1 && requests[missing] == MPI_REQUEST_NULL) {
        missing++;
    }
    return whi_comm_fail(c, missing, WH_COMM_TIMED_OUT, WH_DEVICE_ERROR,
                         "rank %d did not open the communicator within %g s", missing, c->seconds);
}

/* Until all n requests are done. */
wh_status whi_comm_mpi_wait(wh_comm *c, MPI_Request *requests, int n, const char *what) {
    const double last = whi_comm_now() + c->seconds;
    uint64_t rounds = 0;
    for (;;) {
        int left = 0;
        for (int i = 0; i < n; i++) {
            int done = requests[i] == MPI_REQUEST_NULL;
            if (!done) {
                TRY_MPI(c, MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE), what);
            }
            left += !done;
        }
        if (left == 0) {
            return WH_OK;
        }
        if (whi_comm_is_told(c)) {
            return c->failure.status;
        }
        if (whi_comm_now() > last) {
            return c->mpi->owns_comm ? whi_comm_roll_call(c) : never_came(c, requests);
        }
        whi_comm_pause(c, &rounds);
    }
}

wh_status whi_comm_mpi_headers(wh_comm *c) {
    whi_comm_mpi *m = c->mpi;
    for (int r = 0; r < c->size; r++) {
        m->call[r] = m->call[c->size + r] = MPI_REQUEST_NULL;
    }
    for (int r = 0; r < c->size; r++) {
        if (r != c->rank) {
            TRY_MPI(c,
                    MPI_Irecv(m->raw + (size_t)r * WHI_COMM_MOST_HEADER, WHI_COMM_MOST_HEADER,
                              MPI_BYTE, r, WHI_COMM_TAG_HEADER, m->comm, &m->call[r]),
                    "a line");
            TRY_MPI(c,
                    MPI_Isend(&c->out[r], (int)sizeof c->out[r], MPI_BYTE, r, WHI_COMM_TAG_HEADER,
                              m->comm, &m->call[c->size + r]),
                    "a line");
        }
    }
    const wh_status s = whi_comm_mpi_wait(c, m->call, 2 * c->size, "a line");
    if (s != WH_OK) {
        return s;
    }
    for (int r = 0; r < c->size; r++) {
        memcpy(&c->in[r], m->raw + (size_t)r * WHI_COMM_MOST_HEADER, sizeof c->in[r]);
    }
    c->in[c->rank] = c->out[c->rank];
    return WH_OK;
}

/* --- data ---------------------------------------------------------------------------------------
 */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The piece of each message that begins at `first`. *more: some are longer. */
static wh_status exchange_piece(wh_comm *c, const whi_comm_exchange *x, uint64_t first, int *more) {
    whi_comm_mpi *m = c->mpi;
    *more = 0;
    for (int r = 0; r < c->size; r++) {
        m->call[r] = m->call[c->size + r] = MPI_REQUEST_NULL;
    }
    for (int r = 0; r < c->size; r++) {
        if (r != c->rank && x->to_bytes[r] > first) {
            const uint64_t n = least(c->piece, x->to_bytes[r] - first);
            *more |= x->to_bytes[r] - first > n;
            TRY_MPI(c,
                    MPI_Irecv((unsigned char *)x->to[r] + first, (int)n, MPI_BYTE, r,
                              WHI_COMM_TAG_DATA, m->comm, &m->call[r]),
                    "data");
        }
        if (r != c->rank && x->from_bytes[r] > first) {
            const uint64_t n = least(c->piece, x->from_bytes[r] - first);
            *more |= x->from_bytes[r] - first > n;
            TRY_MPI(c,
                    MPI_Isend((const unsigned char *)x->from[r] + first, (int)n, MPI_BYTE, r,
                              WHI_COMM_TAG_DATA, m->comm, &m->call[c->size + r]),
                    "data");
        }
    }
    return whi_comm_mpi_wait(c, m->call, 2 * c->size, "data");
}

static wh_status exchange(wh_comm *c, const whi_comm_exchange *x) {
    int more = 1;
    for (uint64_t first = 0; more; first += c->piece) {
        const wh_status s = exchange_piece(c, x, first, &more);
        if (s != WH_OK) {
            return s;
        }
    }
    return WH_OK;
}

static wh_status reduce(wh_comm *c, const whi_comm_numbers *numbers) {
    const MPI_Datatype type = numbers->type == WH_COMM_U64 ? MPI_UINT64_T : MPI_DOUBLE;
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
    const uint64_t most = c->piece >= 8 ? c->piece / 8 : 1;
    for (uint64_t first = 0; first < numbers->n; first += most) {
        MPI_Request request;
        TRY_MPI(c,
                MPI_Iallreduce(MPI_IN_PLACE, (unsigned char *)numbers->data + first * 8,
                               (int)least(most, numbers->n - first), type, ops[numbers->op],
                               c->mpi->comm, &request),
                "all-reduce");
        const wh_status s = whi_comm_mpi_wait(c, &request, 1, "all-reduce");
        if (s != WH_OK) {
            return s;
        }
    }
    return WH_OK;
}

const whi_comm_engine whi_comm_mpi_engine = {exchange, reduce, NULL, NULL};

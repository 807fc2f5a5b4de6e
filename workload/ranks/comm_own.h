/* comm_own.h: what the files of the communicator have of each other. */
#ifndef WHI_WORKLOAD_RANKS_COMM_OWN_H
#define WHI_WORKLOAD_RANKS_COMM_OWN_H

#include "workload/ranks/comm.h"

/* Which call a rank makes. */
typedef enum whi_comm_call {
    WHI_COMM_OPEN,
    WHI_COMM_CLOSE,
    WHI_COMM_AGREE,
    WHI_COMM_ALL_TO_ALL,
    WHI_COMM_ALL_GATHER,
    WHI_COMM_ALL_REDUCE
} whi_comm_call;

#define WHI_COMM_MAGIC 0x6b726877u /* "whrk" */

#define WHI_COMM_FEW 4u /* numbers that go in the lines themselves */

/* The line that each rank sends to each other one. The first three fields are those of every
 * version. */
typedef struct whi_comm_header {
    uint32_t magic;
    uint32_t header_bytes; /* sizeof this */
    uint64_t version;
    uint64_t sequence; /* number of the call */
    uint64_t check;    /* what all ranks must have in common */
    uint64_t bytes;    /* that will come from this rank to that one */
    uint32_t call;
    uint32_t status; /* what the rank reports; a notice: the failure's */
    uint32_t reason; /* a notice: the failure's */
    int32_t rank;    /* a notice: the failure's */
    char text[96];
    uint64_t numbers[WHI_COMM_FEW]; /* all-reduce of so few; wh_comm_add */
} whi_comm_header;
#define WHI_COMM_MOST_HEADER 512u /* a longer one of another version would be an error of MPI */

/* One message after another, of all ranks at once: from[r], to[r] are NULL where there are no
 * bytes. The parts of this rank are copied before. */
typedef struct whi_comm_exchange {
    const void *const *from;
    const uint64_t *from_bytes;
    void *const *to;
    const uint64_t *to_bytes;
    int on_device; /* memory of a device that the engine takes */
} whi_comm_exchange;

/* Numbers to be reduced. */
typedef struct whi_comm_numbers {
    void *data;
    uint64_t n;
    wh_comm_type type;
    wh_comm_op op;
} whi_comm_numbers;

/* An engine for data. Its calls return WH_OK, or the failure that they have set. */
typedef struct whi_comm_engine {
    wh_status (*exchange)(wh_comm *comm, const whi_comm_exchange *x);
    wh_status (*reduce)(wh_comm *comm, const whi_comm_numbers *numbers);
    void (*close)(wh_comm *comm);                               /* or NULL */
    int (*takes)(const wh_comm *comm, const wh_device *device); /* its memory; NULL: of none */
} whi_comm_engine;

struct wh_comm {
    int rank, size;
    double seconds;
    uint64_t piece, most, asks;
    uint32_t version;
    uint64_t sequence;
    wh_comm_failure failure;
    wh_comm_stats stats;
    int dead, agreed;
    wh_status report; /* for the next call */
    char report_text[96];
    uint64_t check; /* of wh_comm_expect */
    const char *what;
    whi_comm_numbers few; /* of the next lines, at most WHI_COMM_FEW; n 0: none */
    whi_comm_header *out; /* one for each rank */
    whi_comm_header *in;  /* what came last */
    uint64_t *bytes;      /* of the call in progress, for each rank */
    const void **from;
    void **to;
    unsigned char *staged[2]; /* host memory for that of devices: what goes, what comes */
    uint64_t staged_room[2];
    const whi_comm_engine *engine;
    void *engine_state;
    struct whi_comm_mpi *mpi;
};

/* Sets the failure, and returns its status. text as printf. */
wh_status whi_comm_fail(wh_comm *comm, int rank, wh_comm_reason reason, wh_status status,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The names of calls in texts. */
const char *whi_comm_call_name(uint32_t call);

/* The next call brings no data. A communicator that did not open has no arrays: no memset. */
static inline void whi_comm_no_bytes(wh_comm *comm) {
    for (int r = 0; r < comm->size; r++) {
        comm->bytes[r] = 0;
    }
}

/* Sends comm->out, and waits for comm->in; then looks at what came (whi_comm_judge). */
wh_status whi_comm_headers(wh_comm *comm, whi_comm_call call, uint64_t check);

/* What the lines of all ranks say; all ranks find the same. */
wh_status whi_comm_judge(wh_comm *comm);

/* --- of comm_mpi.c ---------------------------------------------------------------------------- */

/* Lines out and in. DEVICE_ERROR with the failure set: a rank did not come, or MPI failed. */
wh_status whi_comm_mpi_headers(wh_comm *comm);

/* The communicator is dead, by comm->failure: tells the others. */
void whi_comm_tell(wh_comm *comm);

/* Data did not come in time, and the engine does not know whose: asks all ranks, waits for their
 * answers as long as for any call, and fails with the rank that did not answer. */
wh_status whi_comm_roll_call(wh_comm *comm);

/* Whether another rank has said that it failed; then comm->failure is set. */
int whi_comm_is_told(wh_comm *comm);

/* Seconds since some time ago. */
double whi_comm_now(void);

/* Waits a moment, a longer one when there was nothing for long. */
void whi_comm_pause(const wh_comm *comm, uint64_t *rounds);

#endif

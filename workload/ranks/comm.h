/* comm.h: ranks that work together: one process a device, by MPI alone or by NCCL and MPI. Host
 * C11.
 *
 * MPI starts the ranks (`mpirun -n 4 program`) and carries what they agree on. Data goes by MPI
 * through host memory, or by NCCL from GPU to GPU. All calls but wh_comm_rank, wh_comm_size,
 * wh_comm_report, wh_comm_last_failure, wh_comm_agreed and those on buffers are made by all ranks,
 * in the same order.
 *
 * Each call begins with a line from every rank to every other one: its version, which call it is,
 * how many bytes will come, and whether something went wrong at home. So all ranks learn the same,
 * and a rank that did not come is known by name. No call waits longer than options.seconds for
 * another rank. What a call returns, if it is not WH_OK:
 *
 *   reason       status of the call   what happened
 *   REPORTED     what was reported    a rank said so by wh_comm_report; the ranks may go on
 *   UNEQUAL      BAD_ARGUMENT         a rank made another call, or one with other numbers
 *   OTHER_BUILD  WRONG_BUILD          a rank is of another version
 *   TIMED_OUT    DEVICE_ERROR         a rank did not come in time: it has ended, or hangs
 *   ENGINE       DEVICE_ERROR, or     MPI or NCCL said an error, or a rank gave up
 *                what was said
 *
 * wh_comm_last_failure names the rank, the same one on all ranks, and the reason. After any but
 * REPORTED the communicator is dead: every call returns that failure at once, and only
 * wh_comm_close is left. Buffers of a call that failed so may be read or written by the engine
 * until the process ends: do not free them.
 *
 * A call without its handle, or its options, returns BAD_ARGUMENT on this rank, and nothing to the
 * others, who wait for it: there is nothing to tell them by. Those that return no status must have
 * it.
 *
 * A communicator may be used by any host thread, by one at a time. Nothing prints or exits.
 */
#ifndef WHI_WORKLOAD_RANKS_COMM_H
#define WHI_WORKLOAD_RANKS_COMM_H

#include "warpheap/device.h"

typedef struct wh_comm wh_comm;

typedef enum wh_comm_reason {
    WH_COMM_NOTHING,
    WH_COMM_REPORTED,
    WH_COMM_UNEQUAL,
    WH_COMM_OTHER_BUILD,
    WH_COMM_TIMED_OUT,
    WH_COMM_ENGINE
} wh_comm_reason;

typedef struct wh_comm_failure {
    int rank; /* whose fault it is; -1: nobody's in particular */
    wh_comm_reason reason;
    wh_status status;
    char text[192]; /* one line, with the rank in it */
} wh_comm_failure;

/* Zero means the default everywhere. */
typedef struct wh_comm_options {
    double seconds;    /* how long a call waits for other ranks; 0: 60. The longest time that a rank
                          may be behind the others, and still be waited for */
    uint64_t piece;    /* bytes of one message at most, up to 2^30, the default */
    uint64_t most;     /* bytes that one call may bring to this rank; 0: what the host has */
    uint64_t asks;     /* how often a wait asks before it sleeps; 0: 200. Where each rank has a core
                          of its own 20,000, say, make calls shorter */
    void *mpi_comm;    /* an MPI_Comm *; NULL: MPI_COMM_WORLD. Not that of a communicator that
                          could not be opened */
    wh_device *device; /* NCCL: its GPU; NULL: the one that is current */
    uint32_t version;  /* what this rank says of itself; 0: WH_VERSION. For tests */
} wh_comm_options;

/* Calls MPI_Init_thread if nobody has; wh_comm_close then calls MPI_Finalize, so of several
 * communicators the one that began MPI is closed last. failure: NULL, or gets what went wrong. On
 * failure *comm is NULL, or a communicator of which only wh_comm_close is left: say what went
 * wrong, and close it, so that the other ranks can say it, too. A rank that comes when others have
 * given up on it names one of those. Errors: BAD_ARGUMENT, OUT_OF_MEMORY, and those above. Cost: a
 * small message from each rank to each, MPI_Comm_idup. */
wh_status wh_comm_open_mpi(wh_comm **comm, const wh_comm_options *options,
                           wh_comm_failure *failure);

/* The same, but data goes by NCCL, over the GPU of options.device: each rank has one of its own.
 * Memory of that GPU goes as it is; host memory is copied to device memory of the communicator, and
 * from it, which is as large as the largest such call. Two messages that MPI carries come before
 * each call. UNSUPPORTED: the build found no CUDA, or no NCCL. */
wh_status wh_comm_open_nccl(wh_comm **comm, const wh_comm_options *options,
                            wh_comm_failure *failure);

/* The last call of all ranks. A rank that closes while others make another call is UNEQUAL there.
 * After a failure it waits for the others as long as any call, so that they can say theirs before
 * the first process ends, and it calls MPI_Finalize only if all came. If not all came, MPI stays
 * open; then end the process. NULL is ignored. */
wh_status wh_comm_close(wh_comm *comm);

int wh_comm_rank(const wh_comm *comm);
int wh_comm_size(const wh_comm *comm);

/* What the last call that failed said; reason NOTHING: none did. Never NULL. */
const wh_comm_failure *wh_comm_last_failure(const wh_comm *comm);

/* What the communicator has done so far, on this rank: the cost of calls, without NCCL's and MPI's
 * own. Of all-reduce, and wh_comm_add, bytes count as `reduced`, once. */
typedef struct wh_comm_stats {
    uint64_t calls;
    uint64_t lines;       /* bytes of lines sent */
    uint64_t sent, got;   /* bytes of data to other ranks, and from them */
    uint64_t reduced;     /* bytes of numbers */
    double waited, moved; /* seconds in lines, that is mostly for other ranks; in data */
} wh_comm_stats;
void wh_comm_get_stats(const wh_comm *comm, wh_comm_stats *stats);

/* Something went wrong on this rank: the next call returns `status` on all ranks, with this line,
 * and moves no data. Of two reports before a call the first one counts. WH_OK is ignored. */
void wh_comm_report(wh_comm *comm, wh_status status, const char *line);

/* The next call is UNEQUAL unless all ranks have said the same number: a hash of options, or a
 * count of calls. what: a few words for the failure's text, as "options". */
void wh_comm_expect(wh_comm *comm, uint64_t check, const char *what);

/* Something went wrong on this rank that its next call must not wait for: the communicator is dead,
 * and all ranks learn it. Returns status. */
wh_status wh_comm_give_up(wh_comm *comm, wh_status status, const char *line);

/* Returns when all ranks have called it: also the way to agree that all went well. */
wh_status wh_comm_agree(wh_comm *comm);

/* Whether all ranks came to the last call of this rank, and none of them reported anything. Then
 * all know that, but for ranks to which one has not come that ended within that call; also if the
 * data of the call has not come. */
int wh_comm_agreed(const wh_comm *comm);

/* What came from all ranks: bytes[r] bytes of rank r at data + offset[r], in the order of the
 * ranks, without gaps. All zero at first, but for device; a call that needs more makes it larger.
 *
 * With a device, memory of that device goes and comes: what is sent lies there, too, and is read
 * after what the device's default stream still does. By NCCL it goes from GPU to GPU; by MPI, and
 * of another device, through host memory of the communicator. What has come can be used by any
 * stream. A rank may use a device where another one uses host memory. */
typedef struct wh_comm_buffer {
    unsigned char *data;
    uint64_t room;
    uint64_t *bytes, *offset; /* of size + 1 entries, host memory; offset[size]: in all */
    wh_device *device;        /* NULL: host memory */
} wh_comm_buffer;
void wh_comm_buffer_free(wh_comm_buffer *buffer); /* NULL is ignored */

/* Room for `bytes`, at once: a call that brings no more needs no memory, and cannot fail for want
 * of it. What is there is lost. Of this rank alone. On failure the buffer is as it was. Errors:
 * OUT_OF_MEMORY, DEVICE_ERROR. */
wh_status wh_comm_buffer_reserve(wh_comm_buffer *buffer, uint64_t bytes);

/* Rank r gets bytes[r] bytes of what lies at data, one rank's behind the other's. */
wh_status wh_comm_all_to_all(wh_comm *comm, const void *data, const uint64_t *bytes,
                             wh_comm_buffer *got);

/* All ranks get the bytes of all. */
wh_status wh_comm_all_gather(wh_comm *comm, const void *data, uint64_t bytes, wh_comm_buffer *got);

typedef enum wh_comm_type { WH_COMM_U64, WH_COMM_F64 } wh_comm_type;
typedef enum wh_comm_op { WH_COMM_SUM, WH_COMM_MAX, WH_COMM_MIN } wh_comm_op;

/* data[i] becomes the sum, or the like, of those of all ranks. n is the same on all. Sums of U64
 * wrap; those of F64 are in an order that the engine chooses. Up to 4 numbers go in the lines
 * themselves. */
wh_status wh_comm_all_reduce(wh_comm *comm, void *data, uint64_t n, wh_comm_type type,
                             wh_comm_op op);

/* The next call, if it is no all-reduce, adds up data[i] over all ranks besides, in its lines:
 * n <= 4, the same on all ranks; if more, or no data, that call is BAD_ARGUMENT. The sums are there
 * where wh_comm_agreed says that all came; else data is as it was. data lives until then. Costs
 * nothing. */
void wh_comm_add(wh_comm *comm, uint64_t *data, uint64_t n);

#endif

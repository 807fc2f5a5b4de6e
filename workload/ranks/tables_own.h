/* tables_own.h: what a join and a group-by of several ranks share: heavy keys, and rows on their
 * way.
 *
 * A run goes through steps, each of which ends with a call of the communicator: find (a sample, and
 * which keys are heavy), count (of each rank's rows those of each class, so that all ranks know all
 * sizes), shuffle (rows to where they belong), and end. What goes wrong on a rank in a step is
 * reported, and that call says it on all ranks. Functions that are called "of all ranks" are those
 * that end with one.
 *
 * One rank alone has all rows where they belong: keep takes the place of find, count and shuffle.
 * If the build table of a join is small, keep and broadcast take the place of count and shuffle.
 */
#ifndef WHI_WORKLOAD_RANKS_TABLES_OWN_H
#define WHI_WORKLOAD_RANKS_TABLES_OWN_H

#include "workload/ranks/tables.h"
#include "workload/ranks/tables_kernels.h"

#define WHI_TABLES 2u /* of a join: build, probe */

static inline uint32_t whi_key_bytes(uint32_t asked) {
    return asked != 0 ? asked : 4;
}

/* A key is heavy if a rank's part of a table has as many rows as this many of it. Then n keys that
 * are not heavy make one rank's part larger by n / WHI_LIGHT of it at most. */
#define WHI_LIGHT 32u
#define WHI_SAMPLES_A_RANK 1024u
#define WHI_LEAST_SAMPLES 4096u
#define WHI_MOST_SAMPLES 65536u

/* What becomes of a heavy key's rows. */
typedef enum whi_way {
    WHI_WAY_HASH, /* they go where all others go */
    WHI_WAY_STAYS,
    WHI_WAY_ALL,  /* to all ranks */
    WHI_WAY_ONE,  /* one of each rank's to all ranks */
    WHI_WAY_ASIDE /* to memory of this rank of their own */
} whi_way;

typedef struct whi_heavy {
    uint64_t key;
    uint64_t rows[WHI_TABLES]; /* of all ranks: about, after find; after count exact */
    uint8_t way[WHI_TABLES];
} whi_heavy;

/* Device memory that grows. */
typedef struct whi_room {
    unsigned char *data;
    uint64_t bytes;
} whi_room;

/* Columns that have come: those of other ranks in the order of these, then what stayed. */
typedef struct whi_received {
    wh_comm_buffer column[WHI_ROWS_COLUMNS];
    uint64_t n;
} whi_received;

typedef struct whi_tables {
    wh_comm *comm;
    wh_device *device;
    const whi_tables_kernels *kernels;
    uint32_t rank, ranks, key_bytes;
    uint64_t calls;
    wh_shard_work work;
    uint32_t samples;              /* of a table at most */
    uint64_t *brought[WHI_TABLES]; /* rows of each rank */
    uint64_t all_brought[WHI_TABLES];
    uint64_t sampled, singles; /* of all ranks' first tables; keys that were there once */
    uint64_t sampled_squared;  /* the sum of the squares of the ranks' samples */
    uint64_t *given;           /* rows that each rank's operator gets */
    whi_heavy heavy[WHI_MOST_HEAVY];
    uint32_t n_heavy;
    uint64_t *message;           /* host memory */
    struct whi_counted *counted; /* of the sample's keys */
    uint64_t *to, *from;         /* rows to each rank, and from each */
    uint64_t *bytes;
    wh_comm_buffer gathered; /* the counts of all ranks, after count */
    uint32_t n_counted;      /* tables, then */
    unsigned char *scratch;  /* device memory, for: */
    uint64_t *sample_out, *heavy_key, *counts, *cursor;
    whi_class_place *place;
    uint32_t *heavy_number, *class_of, *seen;
    whi_room send[WHI_ROWS_COLUMNS], aside[WHI_ROWS_COLUMNS];
    uint64_t n_aside; /* rows there, after shuffle */
} whi_tables;

/* What can be known without the others. On failure it has been reported, and close is left. */
wh_status whi_tables_open(whi_tables *t, wh_comm *comm, wh_heap *heap, uint32_t key_bytes);
void whi_tables_close(whi_tables *t);
void whi_received_close(whi_tables *t, whi_received *r);
int whi_tables_are_dead(const whi_tables *t);

/* Every call begins so: whether the communicator lives, and `what` all ranks must be about to do.
 */
wh_status whi_tables_begin(whi_tables *t, const char *what);

/* WH_OK is ignored. What the call that failed has said of it, or, if that is nothing, `what`. */
void whi_tables_report(whi_tables *t, wh_status status, const char *what);

/* A run begins: there is no work yet, and there are no heavy keys. */
void whi_tables_clear(whi_tables *t);

/* The rows of a table stay: *in becomes what the operator reads, the caller's own columns. What is
 * written is rows' numbers, where `rows` asks for them, to `received`. What fails is reported. */
void whi_tables_keep(whi_tables *t, const whi_rows *rows, whi_received *received, wh_table *in);

/* Of all ranks, after find: the rows of a table go to all, in the order of the ranks. */
wh_status whi_tables_broadcast(whi_tables *t, uint32_t table, const whi_rows *rows,
                               whi_received *received);

/* Of all ranks: finds heavy keys, of which all ranks have the same list after it. */
wh_status whi_tables_find(whi_tables *t, const whi_rows *rows, uint32_t n_tables);

/* Of all ranks: counts by class. 0 heavy keys: those of find are not looked for. */
wh_status whi_tables_count(whi_tables *t, const whi_rows *rows, uint32_t n_tables);

/* Of all ranks: the rows of a table that was counted go as their heavy keys' ways, or their hash,
 * say. */
wh_status whi_tables_shuffle(whi_tables *t, uint32_t table, const whi_rows *rows,
                             whi_received *received);

/* Received rows, of a key and perhaps a value, as a table. */
static inline wh_table whi_table_of(const whi_received *received) {
    wh_table table = {0, received->column[0].data, received->column[1].data, received->n};
    return table;
}

/* How a rank's operator has ended. */
typedef struct whi_ending {
    uint64_t status, is_stopped, has_rows, all_rows;
} whi_ending;

typedef enum whi_stage { WHI_IDLE, WHI_STOPPED, WHI_DONE } whi_stage; /* of all ranks */

/* Of all ranks: *all gets all_rows of all ranks; is_stopped: whether resume may go on, if the
 * status is OUT_OF_MEMORY; has_rows: how many ranks have stopped with rows, 0 if one has stopped
 * without.
 */
wh_status whi_tables_end(whi_tables *t, const whi_ending *own, const char *what, whi_ending *all);

/* Where all ranks are after it. */
whi_stage whi_tables_stage(wh_status ended, const whi_ending *all);

/* Device memory of so many bytes, and a little more; what was there is lost if it grows. */
wh_status whi_room_for(wh_device *device, whi_room *room, uint64_t bytes);
void whi_room_free(wh_device *device, whi_room *room);

/* Rows that an operator's memory is taken for, if n come. One rank gets those that it brings, so
 * that its first operator is made for as many as were said, as it would be without ranks. */
uint64_t whi_rows_ahead(const whi_tables *t, uint64_t n, int is_first);

#endif

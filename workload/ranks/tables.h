/* tables.h: a join and a group-by of tables whose rows are on several ranks. Host C11.
 *
 * Each rank has a part of the tables, any rows of them, in the memory of its device. Rows go to the
 * rank that a hash of their key says, so that all rows of a key meet, and the operators of ops.h
 * work there, in the heap of that rank. Results stay where they are: pages of each rank's heap.
 *
 *     wh_shard_join_options o = {0};
 *     o.comm = comm; o.heap = heap; o.build_value = WH_VALUE_4; o.probe_value = WH_VALUE_ROW;
 *     wh_shard_join_create(&join, &o);
 *     s = wh_shard_join_run(join, &build, &probe, &result);    // all ranks, each its own rows
 *     while (s == WH_OUT_OF_MEMORY && result.stopped != 0) {   // some heap was full
 *         consume(wh_shard_join_local(join));                  // wh_join_pages, wh_join_compact
 *         wh_join_drop_pages(wh_shard_join_local(join), NULL);
 *         s = wh_shard_join_resume(join, &result);
 *     }
 *     consume(wh_shard_join_local(join));                      // if it is WH_OK: the last rows
 *
 * Heavy keys. A key that a rank would have many rows of is found in a sample, and its rows are
 * counted. In a join rows of the table that has more of them stay where they are, and the other
 * table's go to all ranks; in a group-by each rank adds up its own, and the sums meet. So no rank
 * gets much more than its part because a key is frequent. A rank keeps what it had of heavy keys:
 * bring tables that are spread evenly.
 *
 * Small tables. If the build table has at most one row for 2 P probe rows, for P ranks, and no rank
 * has over 1.25 times the mean of probe rows, build rows go to all ranks, and the operators read
 * probe rows where they are: a broadcast join.
 *
 * One rank alone has all rows where they belong: its operator reads the caller's tables as they
 * are. There is no sample, no rows are put in order, and nothing is copied.
 *
 * All calls but the getters are made by all ranks in the same order. A status that is not WH_OK is
 * the same on all ranks, and wh_comm_last_failure says which rank it is about, and why. What comm.h
 * says of dead communicators holds: only destroy is left then. Tables are read after what the
 * default stream of the device still does. They stay as they are until run returns, which waits
 * until all is done; after an OUT_OF_MEMORY that resume is to follow, until the last resume
 * returns. (One rank alone reads them again then; several do after a broadcast.) Destroy, and the
 * next run, do not read them.
 */
#ifndef WHI_WORKLOAD_RANKS_TABLES_H
#define WHI_WORKLOAD_RANKS_TABLES_H

#include "warpheap/ops.h"

#include "workload/ranks/comm.h"

/* What the last run of this rank took, and how even it was. With one rank alone all of the time is
 * operate's; sample, partition, exchange, heavy and sent are 0. */
typedef struct wh_shard_work {
    double sample;    /* seconds: to find heavy keys, and agree on them */
    double partition; /* to count rows by rank, and put them in order */
    double exchange;  /* for data to go and come */
    double operate;   /* of the operator here, to when all ranks had ended it; with resume */
    uint64_t heavy;   /* keys that were found heavy */
    uint64_t sent;    /* rows that went to other ranks */
    uint64_t rows;    /* that the operator here was given: of both tables, with those that stay */
    uint64_t all_rows, most_rows; /* of all ranks; of the rank that was given most */
} wh_shard_work;

/* --- join ------------------------------------------------------------------------------------ */

typedef struct wh_shard_join wh_shard_join;

/* How rows meet. */
typedef enum wh_shard_exchange {
    WH_SHARD_EXCHANGE_AUTO, /* broadcast if the build table is small, and probe rows are even */
    WH_SHARD_SHUFFLE,       /* rows of both tables go to the rank that a hash of their key says */
    WH_SHARD_BROADCAST      /* build rows go to all ranks, probe rows stay: where heavy keys are as
                               they are, and a rank that has most probe rows has most of the work */
} wh_shard_exchange;

/* Zero (NULL) means the default. The same on all ranks, but for comm, heap and rows. */
typedef struct wh_shard_join_options {
    wh_comm *comm; /* required; outlives the join */
    wh_heap *heap; /* required: of this rank; outlives the join */
    wh_join_kind kind;
    uint32_t key_bytes;                     /* 4 (the default) or 8 */
    wh_value_kind build_value, probe_value; /* ROW is 8 bytes here: WH_SHARD_ROW_RANK */
    const char *variant;                    /* of wh_join, but "two-pass" */
    uint32_t page_bytes;                    /* of wh_join */
    wh_shard_exchange exchange;
    uint64_t build_rows, probe_rows; /* about as many come from this rank, for which the operator's
                                        memory is taken at once; 0, or more: when they come */
} wh_shard_join_options;

/* The value of WH_VALUE_ROW: rank and number of a row, in the table that the rank brought. */
#define WH_SHARD_ROW_RANK(row) ((int)((row) >> 32))
#define WH_SHARD_ROW_NUMBER(row) ((uint32_t)(row))

typedef struct wh_shard_join_result {
    wh_join_result own; /* of this rank */
    uint64_t all_rows;  /* put out by all ranks since run; of COUNT pairs */
    int stopped;        /* with OUT_OF_MEMORY: ranks that go on once they have been drained; 0:
                           draining does not help, as one of them has nothing in its pages, or
                           nothing is there to go on with */
} wh_shard_join_result;

/* Errors: BAD_ARGUMENT (also: the options of a rank differ), UNSUPPORTED ("two-pass", or more than
 * 1,024 ranks), and those of wh_join_create on any rank. On failure *join is NULL. */
wh_status wh_shard_join_create(wh_shard_join **join, const wh_shard_join_options *options);

/* Of this rank alone. Gives all pages back, also of results. NULL is ignored. */
wh_status wh_shard_join_destroy(wh_shard_join *join);

/* Joins this rank's rows and those of all others; what an earlier run has put out is given back.
 * result may be NULL.
 *
 * OUT_OF_MEMORY: the heap of a rank was full, and result.stopped says whether resume is of use.
 * What is in the pages of any rank is right, and final. Or a device, or a host, was full, before
 * anything was put out: then there is nothing on any rank. Other errors: BAD_ARGUMENT,
 * DEVICE_ERROR, of any rank: nothing is there; UNSUPPORTED: more than WH_MOST_ROWS rows would come
 * to a rank.
 *
 * LEFT: the rows of a key that is frequent in the build table alone meet on one rank: its probe
 * rows cannot go to all ranks, which would not know whether another one has a partner. SEMI and
 * ANTI need one build row of such a key, and drop the others.
 *
 * Cost: a row is written twice on its way, and read three times; key and value go to another rank
 * with odds (P - 1) / P; a call of the communicator for the sample, one for counts, one for each
 * column, one for the end. Device memory: the rows that come, and those of the larger table that
 * go. A broadcast: the sample, and a build row goes to P - 1 ranks; device memory for the build
 * rows of all. One rank alone: the operator, and two calls of the communicator; of WH_VALUE_ROW 8
 * bytes a row are written, and are its device memory.
 */
wh_status wh_shard_join_run(wh_shard_join *join, const wh_table *build, const wh_table *probe,
                            wh_shard_join_result *result);

/* Goes on where heaps were full, and does nothing on other ranks, whose pages stay as they are.
 * Errors: as run; BAD_ARGUMENT: no rank has stopped. */
wh_status wh_shard_join_resume(wh_shard_join *join, wh_shard_join_result *result);

/* This rank's join, for wh_join_pages, wh_join_compact, wh_join_drop_pages, and wh_join_rebase.
 * After run, until the next one. Columns of rows' numbers have 8 bytes. */
wh_join *wh_shard_join_local(wh_shard_join *join);

void wh_shard_join_get_work(const wh_shard_join *join, wh_shard_work *work);

/* --- group-by --------------------------------------------------------------------------------
 *
 * Groups are on the rank that their key's hash says, each on one, in one of two lists: of light
 * keys in pages of wh_group; of heavy keys, and where all have been added up before they went, in
 * device memory of this object. With one rank alone all are in the first list, whatever `combine`
 * says. The heap must not grow (wh_heap_grow) as long as the group-by is
 * there.
 */

typedef struct wh_shard_group wh_shard_group;

/* Which rows are added up before they go. */
typedef enum wh_shard_combine {
    WH_SHARD_COMBINE_SAMPLE, /* all if the sample has few keys, else those of heavy keys */
    WH_SHARD_COMBINE_HEAVY,
    WH_SHARD_COMBINE_ALL /* pays if there are far fewer groups than rows of a rank */
} wh_shard_combine;

/* Zero (NULL) means the default. The same on all ranks, but for comm, heap and rows. */
typedef struct wh_shard_group_options {
    wh_comm *comm; /* required; outlives the group-by */
    wh_heap *heap; /* required: of this rank; outlives the group-by */
    uint32_t key_bytes;
    wh_group_value value;
    uint32_t aggregates; /* default WH_GROUP_COUNT */
    uint32_t page_bytes; /* of wh_group */
    wh_shard_combine combine;
    uint64_t rows; /* as build_rows above */
} wh_shard_group_options;

typedef struct wh_shard_group_result {
    uint64_t rows;     /* groups that lie in this rank's two lists */
    uint64_t all_rows; /* put out by all ranks since run */
    int stopped;       /* as of a join */
} wh_shard_group_result;

enum { WH_SHARD_LIGHT, WH_SHARD_HEAVY, WH_SHARD_LISTS };

wh_status wh_shard_group_create(wh_shard_group **group, const wh_shard_group_options *options);
wh_status wh_shard_group_destroy(wh_shard_group *group);

/* As wh_shard_join_run, also of how long the table stays. Sums of float and double are added in any
 * order, also those of ranks. */
wh_status wh_shard_group_run(wh_shard_group *group, const wh_table *table,
                             wh_shard_group_result *result);
wh_status wh_shard_group_resume(wh_shard_group *group, wh_shard_group_result *result);

/* Of this rank alone, after run. Columns are those of wh_group_pages and wh_group_compact, which
 * copies both lists: result.rows entries each. drop_pages: of both lists. */
wh_status wh_shard_group_pages(wh_shard_group *group, uint32_t list, wh_pages *pages);
wh_status wh_shard_group_compact(wh_shard_group *group, void *const *columns);
wh_status wh_shard_group_drop_pages(wh_shard_group *group);

void wh_shard_group_get_work(const wh_shard_group *group, wh_shard_work *work);

#endif

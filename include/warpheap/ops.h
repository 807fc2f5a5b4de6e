/* ops.h: operators of databases on a device, whose results grow as pages of a heap. C11 and C++,
 * host code; link warpheap::ops. docs/OPS.md is the guide.
 *
 *     wh_join_options o = {0};
 *     o.heap = heap;
 *     o.build_value = o.probe_value = WH_VALUE_ROW;            // rows of the two tables, say
 *     o.build_rows = 1000000, o.probe_rows = 8000000;          // at most
 *     wh_join *join;
 *     wh_join_create(&join, &o);
 *     wh_join_start(join, &build, &probe, stream);             // does not wait
 *     while (wh_join_finish(join, &result) == WH_OUT_OF_MEMORY && result.pages != 0) {
 *         consume(join);                                       // wh_join_pages, wh_join_compact
 *         wh_join_drop_pages(join, stream);                    // there is room again
 *         wh_join_resume(join, stream);                        // goes on where it stopped
 *     }
 *     consume(join);                                           // if it was WH_OK: the last rows
 *
 * A join pairs rows of two tables whose keys are equal: of the build table, the smaller one if
 * there is a choice, and the probe table. Both may have any key any number of times. Keys are 4 or
 * 8 bytes and are compared as bits; any bits may be a key. Rows come out in no order.
 *
 * The heap must live longer than the operators on it, and must not be reset while they have pages.
 * Heaps that can grow are those of allocators with WH_CAP_GROW, not of the default one. The calls
 * of one operator are queued on one stream, or the host waits for one before it uses another.
 * DEVICE_ERROR means that a kernel has failed: what the operator had of the heap is lost until the
 * heap is reset, and start and destroy are what is left.
 *
 * Every call returns a status; wh_last_error_text says more. A heap that is full is not the end of
 * an operator: what it has put out stays valid, each row of the result is in one page, and
 * wh_join_resume goes on once there is room.
 *
 * Source: radix joins with pages as output, Pham et al., Dynamic Buffer Management in Massively
 * Parallel Systems: The Power of Randomness, section 6.1 and appendix B.
 */
#ifndef WH_OPS_H
#define WH_OPS_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of n rows in device memory, each aligned to its width. */
typedef struct wh_table {
    uint64_t struct_bytes; /* sizeof this struct; 0: what the calling code's headers say */
    const void *key;
    const void *value; /* NULL where the operator takes none, or rows' numbers */
    uint64_t n;        /* up to WH_MOST_ROWS */
} wh_table;

#define WH_MOST_ROWS 0xffff0000u

/* What goes with a key into the result. */
typedef enum wh_value_kind {
    WH_VALUE_NONE,
    WH_VALUE_4,  /* wh_table.value has 4 bytes a row */
    WH_VALUE_8,  /* 8 bytes */
    WH_VALUE_ROW /* the row's number, 4 bytes */
} wh_value_kind;

#define WH_PAGE_COLUMNS 6u /* at most */

/* Pages on the device, as an operator has filled them. A page's columns lie one behind the other,
 * each with room for `room` rows: column c of row r of page p is at
 * page[p] + column_at[c] + r * column_bytes[c], and p has rows[p] rows, of any number up to room.
 */
typedef struct wh_pages {
    unsigned char *const *page; /* device memory, as rows */
    const uint32_t *rows;
    uint64_t n_pages, n_rows;
    uint32_t room;
    uint32_t column_bytes[WH_PAGE_COLUMNS]; /* 0: no such column. Of a join: keys, the build
                                               table's values, the probe table's; of a group-by:
                                               keys, and WH_GROUP_* in their order */
    uint32_t column_at[WH_PAGE_COLUMNS];
} wh_pages;

/* --- join ------------------------------------------------------------------------------------ */

typedef enum wh_join_kind {
    WH_JOIN_INNER, /* each pair of rows with the same key */
    WH_JOIN_LEFT,  /* and, in a list of their own, rows of the probe table that have no partner */
    WH_JOIN_SEMI,  /* rows of the probe table that have a partner, each once */
    WH_JOIN_ANTI,  /* rows of the probe table that have none */
    WH_JOIN_COUNT  /* how many pairs there are */
} wh_join_kind;

/* Lists of pages: of pairs and SEMI; of rows without a partner. */
enum { WH_JOIN_MATCHED, WH_JOIN_UNMATCHED, WH_JOIN_LISTS };

/* Zero means the default. */
typedef struct wh_join_options {
    uint64_t struct_bytes; /* sizeof this struct; 0: what the calling code's headers say */
    wh_heap *heap;         /* an allocator that frees, and serves page_bytes */
    const char *variant;   /* "paged" (the default), "pages", "paper", "two-pass": docs/OPS.md */
    wh_join_kind kind;
    uint32_t key_bytes; /* 4 (the default) or 8 */
    wh_value_kind build_value, probe_value;
    uint32_t page_bytes; /* of a page; 32 rows must fit. Default: 16384, or 4096 where the
                            heap has less than 64 MiB, or no such blocks */
    uint64_t build_rows, probe_rows; /* of the tables to come, at most */
} wh_join_options;

typedef struct wh_join wh_join;

typedef struct wh_join_result {
    uint64_t rows;      /* that lie in the pages, or, of COUNT and two-pass, in all */
    uint64_t unmatched; /* in the second list */
    uint64_t all_rows; /* put out since the start: pages that were dropped count, too. Both lists */
    uint64_t pages;    /* of both lists */
} wh_join_result;

/* Takes what a join of tables of up to so many rows needs beside pages, of the device and not of
 * the heap: about 16 bytes for each page that the heap has room for, and a copy of the shared
 * memory of all resident blocks. Waits. Errors: BAD_ARGUMENT; UNSUPPORTED: the heap's allocator
 * cannot free, or not serve pages of that size; OUT_OF_MEMORY; WRONG_BUILD. */
wh_status wh_join_create_for(wh_join **join, const wh_join_options *options, size_t options_bytes);
static inline wh_status wh_join_create(wh_join **join, const wh_join_options *options) {
    return wh_join_create_for(join, options, sizeof *options);
}

/* Gives all pages back, also of results. Waits. */
wh_status wh_join_destroy(wh_join *join);

/* Starts a join on a stream; the tables stay as they are until it has finished. Pages of an earlier
 * result are given back. Does not wait; but `two-pass` waits for its first pass.
 * Errors: BAD_ARGUMENT, before anything is started: keys or values are missing or not aligned, or
 * there are more rows than create was told. */
wh_status wh_join_start_for(wh_join *join, const wh_table *build, const wh_table *probe,
                            void *stream, size_t table_bytes);
static inline wh_status wh_join_start(wh_join *join, const wh_table *build, const wh_table *probe,
                                      void *stream) {
    return wh_join_start_for(join, build, probe, stream, sizeof *build);
}

/* Waits for what was started, and says what there is. result may be NULL. OUT_OF_MEMORY: the heap
 * was full before the end; resume goes on. */
wh_status wh_join_finish(wh_join *join, wh_join_result *result);

/* Goes on after OUT_OF_MEMORY, on the same tables. Pages that are still there stay in the lists.
 * Does not wait. Errors: BAD_ARGUMENT: there is nothing to go on with. */
wh_status wh_join_resume(wh_join *join, void *stream);

/* After wh_heap_grow, which has moved the heap's blocks: what the join knows of its pages moves
 * along, and it can use more of them. Once after each growth, not between start and finish, and
 * before any other call: those say BAD_ARGUMENT until then, destroy, too. Waits. Errors:
 * BAD_ARGUMENT: finish comes first, or the heap has not grown since; OUT_OF_MEMORY, of the device:
 * nothing has changed, and the same call may be tried again. */
wh_status wh_join_rebase(wh_join *join, int64_t moved);

/* The pages of a list; after finish, and until the next start, resume or drop. */
wh_status wh_join_pages(wh_join *join, uint32_t list, wh_pages *pages);

/* Copies the rows of a list into columns, in any order: columns[c] is device memory for
 * result.rows (of UNMATCHED: unmatched) entries of column c's width, or NULL. After finish. Does
 * not wait. Cost: reads and writes the rows once. */
wh_status wh_join_compact(wh_join *join, uint32_t list, void *const *columns, void *stream);

/* Gives the pages of both lists back to the heap. After finish. Does not wait. */
wh_status wh_join_drop_pages(wh_join *join, void *stream);

/* Of a `two-pass` join, which has no pages: its columns, result.rows entries each, or NULL. They
 * stay until the next start. After finish. */
wh_status wh_join_columns(wh_join *join, const void **columns);

/* --- group-by --------------------------------------------------------------------------------
 *
 *     wh_group_options o = {0};
 *     o.heap = heap;
 *     o.value = WH_GROUP_INT32;
 *     o.aggregates = WH_GROUP_SUM | WH_GROUP_MAX;
 *     o.rows = 8000000;                                        // at most
 *     wh_group *group;
 *     wh_group_create(&group, &o);
 *     wh_group_start(group, &table, stream);                   // does not wait
 *     while (wh_group_finish(group, &result) == WH_OUT_OF_MEMORY && result.rows != 0) {
 *         consume(group);                                      // wh_group_pages, wh_group_compact
 *         wh_group_drop_pages(group, stream);                  // there is room again
 *         wh_group_resume(group, stream);                      // goes on where it stopped
 *     }
 *     consume(group);                                          // if it was WH_OK: the last rows
 *
 * A group-by makes one row of all rows of a table that have the same key. Keys are 4 or 8 bytes and
 * are compared as bits; any bits may be a key. How many keys there are nobody has to know. Rows
 * come out in no order.
 *
 * Source: the radix group-by of the same paper, section 6.2 and appendix C, is `paper`, and what
 * that section compares it with is like `two-pass`; `adaptive` is ours. docs/OPS_GROUP.md is the
 * guide.
 */

typedef enum wh_group_value {
    WH_GROUP_NO_VALUE, /* only COUNT */
    WH_GROUP_INT32,
    WH_GROUP_INT64,
    WH_GROUP_FLOAT,
    WH_GROUP_DOUBLE
} wh_group_value;

/* Bits of wh_group_options.aggregates; each is a column of the result. */
enum {
    WH_GROUP_COUNT = 1, /* uint64_t: rows */
    WH_GROUP_SUM = 2,   /* of integers int64_t, which wraps; of float and double a double, in
                           whatever order the rows are added */
    WH_GROUP_MIN = 4, /* the type of the values. NaN is above all others: MIN is NaN if all are, */
    WH_GROUP_MAX = 8, /* MAX if one is; it is the NaN 0x7fc... or 0x7ff8... then. -0.0 is below
                         0.0 */
    WH_GROUP_AVG = 16 /* double: SUM / COUNT; of int64_t wrong if the sum has wrapped */
};

/* Zero means the default. */
typedef struct wh_group_options {
    uint64_t struct_bytes; /* sizeof this struct; 0: what the calling code's headers say */
    wh_heap *heap;         /* an allocator that frees, and serves page_bytes */
    const char *variant;   /* "adaptive" (the default), "paper", "two-pass": docs/OPS_GROUP.md */
    uint32_t key_bytes;    /* 4 (the default) or 8 */
    wh_group_value value;
    uint32_t aggregates; /* default WH_GROUP_COUNT. `paper`: 0 */
    uint32_t page_bytes; /* as in wh_join_options */
    uint64_t rows;       /* of the tables to come, at most */
} wh_group_options;

typedef struct wh_group wh_group;

typedef struct wh_group_result {
    uint64_t rows;     /* groups that lie in the pages, or columns. `paper`: lists */
    uint64_t all_rows; /* put out since the start: pages that were dropped count, too */
    uint64_t pages;
} wh_group_result;

/* Takes what a group-by of tables of up to so many rows needs beside pages, of the device and not
 * of the heap: about 12 bytes for each page that the heap has room for, 48 for each page that the
 * table would fill, and a copy of the shared memory of all resident blocks; `two-pass`: a copy of
 * the table, and a bit for each row. Waits. Errors: BAD_ARGUMENT; UNSUPPORTED: the heap's allocator
 * cannot free, or not serve pages of that size; OUT_OF_MEMORY; WRONG_BUILD. */
wh_status wh_group_create_for(wh_group **group, const wh_group_options *options,
                              size_t options_bytes);
static inline wh_status wh_group_create(wh_group **group, const wh_group_options *options) {
    return wh_group_create_for(group, options, sizeof *options);
}

/* Gives all pages back, also of results. Waits. */
wh_status wh_group_destroy(wh_group *group);

/* Starts a group-by on a stream; the table stays as it is until it has finished. Pages of an
 * earlier result are given back. Does not wait; but `two-pass` waits for its first pass.
 * Errors: BAD_ARGUMENT, before anything is started: keys or values are missing or not aligned, or
 * there are more rows than create was told. OUT_OF_MEMORY: `two-pass`, the device has no room for
 * the columns; nothing is started, and another start is welcome. */
wh_status wh_group_start_for(wh_group *group, const wh_table *table, void *stream,
                             size_t table_bytes);
static inline wh_status wh_group_start(wh_group *group, const wh_table *table, void *stream) {
    return wh_group_start_for(group, table, stream, sizeof *table);
}

/* Waits for what was started, and says what there is. result may be NULL. OUT_OF_MEMORY: the heap
 * was full before the end; groups that are in pages are complete, and resume goes on with the
 * others. If it has no rows, draining does not help: the rows under way fill the heap, and it must
 * grow, or others give memory back. */
wh_status wh_group_finish(wh_group *group, wh_group_result *result);

/* Goes on after OUT_OF_MEMORY, on the same table. Pages that are still there stay in the list. Does
 * not wait. Errors: BAD_ARGUMENT: there is nothing to go on with. */
wh_status wh_group_resume(wh_group *group, void *stream);

/* After wh_heap_grow, which has moved the heap's blocks: what the group-by knows of its pages moves
 * along, and it can use more of them. Once after each growth, not between start and finish, and
 * before any other call: those say BAD_ARGUMENT until then, destroy, too. Waits. Errors:
 * BAD_ARGUMENT: finish comes first, or the heap has not grown since; OUT_OF_MEMORY, of the device:
 * nothing has changed, and the same call may be tried again. */
wh_status wh_group_rebase(wh_group *group, int64_t moved);

/* The pages of the result; after finish, and until the next start, resume or drop. Errors:
 * UNSUPPORTED: `paper` and `two-pass` have none. */
wh_status wh_group_pages(wh_group *group, wh_pages *pages);

/* Copies the result's rows into columns, in any order: columns[c], of WH_PAGE_COLUMNS, is device
 * memory for result.rows entries of column c's width, or NULL. After finish. Does not wait. Errors:
 * UNSUPPORTED, as of wh_group_pages. Cost: reads and writes the rows once. */
wh_status wh_group_compact(wh_group *group, void *const *columns, void *stream);

/* Of a `two-pass` group-by, which has no pages: its columns, WH_PAGE_COLUMNS of them, result.rows
 * entries each in device memory; NULL: it was not asked for. They stay until the next start. After
 * finish. Errors: UNSUPPORTED: it is not `two-pass`. */
wh_status wh_group_columns(wh_group *group, const void **columns);

/* `paper`: the rows of each group, in a list of pages; all pointers are device memory. Group k has
 * key[k] and n_rows[k] rows. Its last page has number last[k] and last_rows[k] rows; the page
 * before page i has number before[i * stride] - 1, or is not there if that is 0, and all but the
 * last one have `room` rows. Row r of page i has its key at page[i] + key_at + r * key_bytes, and
 * its value at page[i] + value_at + r * value_bytes. */
typedef struct wh_group_lists {
    const void *key;
    const uint32_t *last, *last_rows;
    const uint64_t *n_rows;
    unsigned char *const *page;
    const uint32_t *before;
    uint64_t n_lists;
    uint32_t stride, room;
    uint32_t key_at, value_at, value_bytes;
} wh_group_lists;

/* The lists that are complete; after finish, and until the next start, resume or drop. Errors:
 * UNSUPPORTED: it is not `paper`. */
wh_status wh_group_get_lists_for(wh_group *group, wh_group_lists *lists, size_t lists_bytes);
static inline wh_status wh_group_get_lists(wh_group *group, wh_group_lists *lists) {
    return wh_group_get_lists_for(group, lists, sizeof *lists);
}

/* Gives the result's pages back to the heap. After finish. Does not wait. */
wh_status wh_group_drop_pages(wh_group *group, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

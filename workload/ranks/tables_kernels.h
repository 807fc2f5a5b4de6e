/* tables_kernels.h: the device side of tables on several ranks: one table of calls for each target.
 * All pointers are device memory, unless said otherwise. Calls start a kernel on the default stream
 * and do not wait. */
#ifndef WHI_WORKLOAD_RANKS_TABLES_KERNELS_H
#define WHI_WORKLOAD_RANKS_TABLES_KERNELS_H

#include "warpheap/core/hash.h"
#include "warpheap/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WHI_ROWS_COLUMNS 5u /* at most: a key, and a value or four sums */
#define WHI_MOST_HEAVY 1024u
#define WHI_NO_SLOT UINT32_MAX

/* Rows: columns of their own widths, the first one the key. */
typedef struct whi_rows {
    const void *column[WHI_ROWS_COLUMNS]; /* NULL: the rank, and the row's number */
    uint32_t bytes[WHI_ROWS_COLUMNS];     /* 4 or 8 */
    uint32_t columns;
    uint64_t n;
} whi_rows;

/* Heavy keys by open addressing, at most a quarter of the slots. */
typedef struct whi_heavy_slots {
    const uint64_t *key;
    const uint32_t *number; /* WHI_NO_SLOT: empty */
    uint32_t log2;
    uint32_t n; /* keys; 0: nobody looks */
} whi_heavy_slots;

/* Rows go to classes: to a rank; to all ranks; nowhere, to be put aside. Host code gives each class
 * of a heavy key. */
#define WHI_CLASS_ALL(ranks) (ranks)
#define WHI_CLASS_ASIDE(ranks) ((ranks) + 1)
#define WHI_CLASSES(ranks) ((ranks) + 2)
#define WHI_CLASS_ONCE 0x80000000u /* the first row of the key alone, of whatever class */

enum { WHI_TO_OTHERS, WHI_TO_OWN, WHI_TO_ASIDE, WHI_TO };

/* Where the rows of a class begin: of WHI_CLASSES, and then, of those that go to all, for each rank
 * where its copies begin. */
typedef struct whi_class_place {
    uint64_t first;
    uint32_t to; /* WHI_TO_* */
    uint32_t unused;
} whi_class_place;

typedef struct whi_rows_call {
    whi_rows rows;
    whi_heavy_slots heavy;
    uint32_t ranks, rank;
    uint32_t samples, seed; /* sample */
    uint64_t *sampled;
    uint64_t *counts;         /* count: of `ranks`, then of each heavy key; zero at first */
    const uint32_t *class_of; /* scatter: of each heavy key */
    uint32_t *seen;           /* of each heavy key whether there was a row; zero at first */
    uint64_t *cursor;         /* of each class; zero at first */
    const whi_class_place *place;
    unsigned char *out[WHI_TO][WHI_ROWS_COLUMNS];
} whi_rows_call;

/* Rows in pages that follow each other, as wh_pages has them: shape's room, column_bytes,
 * column_at.
 */
typedef struct whi_flat_pages {
    unsigned char *base;
    uint64_t page_bytes;
    wh_pages shape;
} whi_flat_pages;

/* Sums of groups, some of the same key; and what becomes of them. */
typedef struct whi_sums {
    const void *key;
    const uint64_t *count, *sum; /* NULL: there are none, as of least and most */
    const void *least, *most;
    uint32_t n, key_bytes;
    wh_group_value value;
    uint32_t log2;         /* of the slots, twice n at least */
    uint32_t *head, *next; /* of each slot, zero at first: its last row plus 1; of each row */
    uint32_t *n_out;       /* zero at first */
    whi_flat_pages out;    /* columns as those of wh_group */
} whi_sums;

typedef struct whi_copy {
    whi_flat_pages from;
    uint64_t n;                     /* rows */
    void *columns[WH_PAGE_COLUMNS]; /* NULL: not asked for */
} whi_copy;

typedef struct whi_tables_kernels {
    wh_status (*sample)(wh_device *device, const whi_rows_call *call);
    wh_status (*count)(wh_device *device, const whi_rows_call *call);
    wh_status (*scatter)(wh_device *device, const whi_rows_call *call);
    wh_status (*number)(wh_device *device, const whi_rows_call *call); /* out[WHI_TO_OWN][1] */
    wh_status (*link)(wh_device *device, const whi_sums *sums);
    wh_status (*merge)(wh_device *device, const whi_sums *sums); /* after link */
    wh_status (*copy)(wh_device *device, const whi_copy *copy);
} whi_tables_kernels;

const whi_tables_kernels *whi_tables_kernels_find(wh_target target);

#ifdef __cplusplus
}
#endif

/* The rank that has the rows of a key. Another hash than those of the operators, which split what a
 * rank has got by theirs. */
#define WHI_RANK_SALT 0x5bd1e995u
WH_HD uint32_t whi_rank_of_key(uint64_t key, uint32_t key_bytes, uint32_t ranks) {
    const uint32_t hash = key_bytes == 4 ? wh_mix32(wh_spread32((uint32_t)key) ^ WHI_RANK_SALT)
                                         : wh_mix64(wh_spread64(key) ^ WHI_RANK_SALT);
    return wh_high_u32((uint64_t)hash * ranks);
}

/* The first slot to look at. */
WH_HD uint32_t whi_slot_of_key(uint64_t key, uint32_t log2) {
    return wh_high_u32((uint64_t)wh_mix64(key) << log2);
}

#endif

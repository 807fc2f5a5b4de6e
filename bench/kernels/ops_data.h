/* ops_data.h: tables for the cases ops-*, drawn on the device by a seed, and what a result of an
 * operator must add up to. Plain C11 and C++. The kernels (ops_data_kernels.c) use no heap and are
 * compiled once for each target. They take any number of threads. */
#ifndef WH_BENCH_OPS_DATA_H
#define WH_BENCH_OPS_DATA_H

#include "warpheap/ops.h"

/* Keys of a table, all of 0..keys-1.
 *   DEALT     each key as often as any other, or once more; the rows in a random order
 *   UNIFORM   any key
 *   ZIPF      the key of rank k with a probability in proportion to k^-exponent, by rejection and
 *             inversion (Hoermann and Derflinger, ACM TOMACS 6(3), 1996); ranks are dealt to keys
 *   GAUSSIAN  around keys / 2, with a deviation of keys / 8; what is no key is drawn again */
typedef enum wh_ops_draw { WH_OPS_DEALT, WH_OPS_UNIFORM, WH_OPS_ZIPF, WH_OPS_GAUSSIAN } wh_ops_draw;

/* Of a result, or of what it must be. A join's sum is that of r + 3 s + 5 key over all pairs of
 * rows r and s, a group-by's that of w(key) (count + 3 sum) over all groups, w being a hash; both
 * modulo 2^64. */
typedef struct wh_ops_sums {
    uint64_t rows;
    uint64_t sum;
    uint64_t bad; /* rows that are wrong by themselves */
} wh_ops_sums;

/* All arrays are device memory. */
typedef struct wh_ops_call {
    wh_ops_draw draw;
    uint64_t n, keys, seed;
    double exponent;
    uint32_t *key;                 /* draw: n */
    uint32_t *value;               /* values: n, any bits; expect_group: NULL if there are none */
    const uint32_t *table[2];      /* joins: keys of both tables, */
    uint64_t rows[2];              /*        and how many there are */
    uint64_t *tally;               /* joins: two words a key: rows of the first table, their sum */
    int has_build;                 /* joins: whether results say r */
    uint32_t *seen;                /* expect_group: a bit a key */
    wh_ops_sums *sums;             /* is added to */
    wh_pages pages;                /* pages_*: the result */
    void *column[WH_PAGE_COLUMNS]; /* columns_*: the result, n rows */
    wh_group_lists lists;          /* lists_group: the result */
} wh_ops_call;

typedef wh_status (*wh_ops_launcher)(const wh_launch *launch, const wh_ops_call *call);

typedef struct wh_ops_data_kernels {
    wh_ops_launcher draw, values;
    wh_ops_launcher tally;       /* the first table into `tally`, which is 0 */
    wh_ops_launcher expect_join; /* sums of all pairs, by the tally and the second table */
    wh_ops_launcher pages_join, columns_join;
    wh_ops_launcher expect_group;               /* of n rows of key and value; `seen` is 0 */
    wh_ops_launcher pages_group, columns_group; /* COUNT and SUM */
    wh_ops_launcher lists_group;
} wh_ops_data_kernels;

const wh_ops_data_kernels *wh_ops_data_find(wh_target target);

#endif

/* ops.h: what the cases ops-* share: heaps whose allocator serves the pages of an operator, tables,
 * repetitions that look at every row of the result, and rows. ops_join.c and ops_group.c have the
 * operators, ops_paper.c runs them in heaps that are nearly full. */
#ifndef WHI_BENCH_OPS_H
#define WHI_BENCH_OPS_H

#include "bench/driver/internal.h"
#include "bench/kernels/ops_cub.h"
#include "bench/kernels/ops_data.h"
#include "warpheap/ops.h"

/* What an allocator must have. */
#define WHI_OPS_CAPS (WH_CAP_FREE | WH_CAP_DISJOINT | WH_CAP_OWN_MEMORY | WH_CAP_RESET)

#define WHI_OPS_KEPT 12u

struct whi_ops_operator;

/* Tables of one kind, and the operator that works on them. */
typedef struct whi_ops {
    whi_bench *b;
    const wh_ops_data_kernels *kernels;
    const char *input; /* the kind of tables, or of the heap */
    char text[48];     /* for input, where it is put together */
    uint64_t page_bytes;
    uint64_t rows;     /* of a table */
    double free_share; /* of the heap before; 0: rows do not tell */
    void *kept[WHI_OPS_KEPT];
    size_t n_kept;
    wh_table table[2];    /* of a group-by the first alone */
    wh_ops_call call;     /* all of it that the tables determine */
    wh_ops_sums expected; /* of the whole result */
    double us;            /* of the row that was measured last; 0: it did not come to its end */
    double base_us;       /* rows tell their time over this one, as `base`; 0: they do not */
    const char *base;
    const struct whi_ops_operator *how;
    wh_join *join; /* NULL: none is open; likewise */
    wh_group *group;
    int has_columns; /* it is two-pass */
    int is_paper;    /* the group-by has lists */
} whi_ops;

/* Calls on what is open. They return what the library says; OUT_OF_MEMORY is no failure. */
typedef struct whi_ops_operator {
    wh_status (*start)(whi_ops *o);
    wh_status (*finish)(whi_ops *o, uint64_t *rows); /* that are there now */
    wh_status (*resume)(whi_ops *o);
    wh_status (*look)(whi_ops *o, uint64_t rows); /* adds them to the sums */
    wh_status (*drop)(whi_ops *o);
    wh_status (*compact)(whi_ops *o);             /* into call.column */
    wh_ops_launcher (*columns)(const whi_ops *o); /* adds those up; NULL: there are none */
    uint32_t column_bytes[3];
} whi_ops_operator;

/* A row to come. */
typedef struct whi_ops_part {
    const char *op;
    uint64_t ops; /* rows of tables */
    int is_stage; /* it has no result */
} whi_ops_part;

/* --- heaps, memory, kernels --- */

/* Whether it has pages of one size, which an option says. */
int whi_ops_has_one_size(const whi_bench *b);
/* Whether pages of so many bytes can be had of the current allocator, which can do all else. */
int whi_ops_serves(const whi_bench *b, uint64_t page_bytes);
/* Opens a heap of so many bytes. An allocator of pages of one size gets page_bytes, unless an
 * option says otherwise. Returns what the library says of the heap; no failure is noted. */
wh_status whi_ops_try_heap(whi_bench *b, uint64_t bytes, uint64_t page_bytes);
/* Likewise, and a failure ends the run (the user's --heap goes before). */
wh_status whi_ops_open_heap(whi_bench *b, uint64_t own, uint64_t page_bytes);

/* A GPU that idles has low clocks: the null kernel wakes it. */
wh_status whi_ops_wake(whi_bench *b);

/* To be ended, also after a failure. */
wh_status whi_ops_begin(whi_bench *b, whi_ops *o);
void whi_ops_end(whi_ops *o);
/* Device memory until the end; or until there is no more than n of it. */
wh_status whi_ops_memory(whi_ops *o, void *p, uint64_t bytes);
void whi_ops_forget(whi_ops *o, size_t n);

wh_status whi_ops_launch(whi_ops *o, wh_ops_launcher launcher);
/* Runs a kernel that adds up what is to be expected. */
wh_status whi_ops_expect(whi_ops *o, wh_ops_launcher launcher);

/* --- measuring --- */

/* Whether all variants are measured: with all allocators that were named, or else with the default
 * one. */
int whi_ops_wants_all(const whi_bench *b);
/* Whether time is over before this operation. */
int whi_ops_leave_out(whi_ops *o, const char *op);
/* After create: whether there is something to measure. Nothing is, if the library does not have it
 * for this heap; if there was no memory, a row tells. */
wh_status whi_ops_created(whi_ops *o, const whi_ops_part *part, wh_status s, int *is_open);
/* Repeats the operator that is open; its row. */
wh_status whi_ops_measure(whi_ops *o, const whi_ops_part *part);
/* Likewise what CUB does to the tables; on a GPU alone, else o->us is 0. c: sizes, tables and bits.
 */
wh_status whi_ops_floor(whi_ops *o, const whi_ops_part *part, wh_bench_ops_cub *c,
                        wh_status (*run)(const wh_bench_ops_cub *c));

/* --- ops_join.c --- */

/* The first table has each key so many times, in a random order. */
typedef struct whi_ops_tables {
    const char *name;
    uint32_t copies;
    double exponent; /* of the keys of the second one, by Zipf; 0: uniform */
} whi_ops_tables;

/* has_build: a pair tells both its rows, not that of the second table alone. */
wh_status whi_ops_join_tables(whi_ops *o, const whi_ops_tables *t, int has_build);
/* The row of a variant: `name`. */
wh_status whi_ops_join_row(whi_ops *o, const char *name);
/* The row of its first stage, `name`: a join with no row in the first table, so that the second
 * one is laid out in parts, and that is all. */
wh_status whi_ops_join_stage(whi_ops *o, const char *variant, const char *name);

/* --- ops_group.c --- */

wh_status whi_ops_group_table(whi_ops *o, wh_ops_draw draw, uint64_t keys, int has_values);
wh_status whi_ops_group_row(whi_ops *o, const char *name);

#endif

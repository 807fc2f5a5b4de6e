/* join.h: a join as the host's calls hand it to its kernels, and the table of these: one for each
 * (allocator, target), defined by join_kernels.c. All pointers are device memory. Calls start
 * kernels on a stream and do not wait. */
#ifndef WHI_OPS_JOIN_H
#define WHI_OPS_JOIN_H

#include "lists.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows are laid out in parts by the hash of their key, in one step or two. */
#define WHI_MOST_LEVELS 2u

/* One of the tables. */
typedef struct whi_side {
    const void *key, *value;
    uint32_t n;
    wh_value_kind kind;
    whi_parts level[WHI_MOST_LEVELS];
} whi_side;

/* Where a block has stopped, and its shared memory then. */
typedef struct whi_stop {
    uint64_t unit;
    uint32_t is_stopped;
    uint32_t done, phase, left;
} whi_stop;

typedef struct whi_join_state {
    uint32_t is_full;                     /* some block found no memory: store, relaxed, by any */
    uint32_t batch;                       /* units that a block takes at a time */
    uint32_t n_pages[2][WHI_MOST_LEVELS]; /* of the sides */
    uint32_t list_pages[WH_JOIN_LISTS];
    uint64_t next_unit; /* fetch_add, relaxed */
    uint64_t units;     /* in all */
    uint64_t list_rows[WH_JOIN_LISTS];
    uint64_t pairs;   /* COUNT, and two-pass */
    uint64_t written; /* two-pass: rows that have a place */
} whi_join_state;

typedef struct whi_join {
    wh_join_kind kind;
    uint32_t key_bytes;
    int is_sim;
    int is_paged;     /* parts are pages of the heap */
    int by_thread;    /* a thread owns a page, not a warp */
    int is_counting;  /* COUNT; two-pass: the first pass */
    int is_writing;   /* two-pass: the second pass */
    whi_side side[2]; /* build, probe */
    uint32_t levels;
    uint32_t parts_log2;     /* of all levels */
    uint32_t tile_log2;      /* rows that a block lays out at a time: whole pages */
    uint32_t part_page_log2; /* rows of a part's page */
    uint32_t chunk;          /* rows of the build table that a block looks rows up in */
    uint32_t heads_log2;     /* chains of a chunk */
    uint32_t range;          /* rows of the probe table in a unit of work */
    uint64_t *first_unit;    /* of a part, and the end */
    uint64_t *units_left;    /* of a part: units.h P1 */
    uint64_t *unit_rows;     /* two-pass */
    void *out[3];            /* two-pass: columns */
    wh_pages shape;          /* of result pages: room, column_bytes, column_at */
    uint32_t page_bytes;
    whi_page_list list[WH_JOIN_LISTS];
    whi_join_state *state;
    whi_stop *stops;      /* of each block of the probe kernel */
    uint32_t *lanes;      /* of each of its threads 2 words: where it has stopped */
    unsigned char *saved; /* of each of its blocks */
    uint32_t saved_bytes; /* of a block */
    uint32_t blocks;      /* of the probe kernel */
    uint32_t threads;     /* of such a block */
    uint32_t part_blocks; /* of the kernels that lay out */
    uint32_t part_threads;
    /* rebase: how far all pages have moved, and where the lists' page and rows were */
    int64_t moved;
    unsigned char *const *old_page[WH_JOIN_LISTS];
    const uint32_t *old_rows[WH_JOIN_LISTS];
    /* compact */
    void *columns[WH_PAGE_COLUMNS];
    uint32_t which; /* a side, or a list */
    uint32_t level; /* that the side's rows go to */
} whi_join;

typedef wh_status (*whi_join_step)(wh_heap *heap, void *stream, const whi_join *j);

typedef struct whi_join_kernels {
    const char *allocator;
    whi_join_step begin;     /* a new join: all counters, cursors, records; lists stay */
    whi_join_step again;     /* the state before anything goes on */
    whi_join_step count;     /* not paged: rows of each part of side `which` */
    whi_join_step partition; /* side `which`, into the parts of `level` */
    whi_join_step order;     /* where parts of that level begin; paged: their pages in order */
    whi_join_step units;     /* of work */
    whi_join_step probe;
    whi_join_step compact; /* list `which` */
    whi_join_step drop;    /* list `which`: its pages go back */
    whi_join_step drop_parts;
    whi_join_step rebase; /* pages have moved */
    /* sizes of all kinds, by key_bytes, part_page_log2, which is the most, and side[].n */
    wh_status (*size)(wh_device *device, whi_join *j);
} whi_join_kernels;

const whi_join_kernels *whi_join_kernels_find(const char *allocator, wh_target target);

#ifdef __cplusplus
}
#endif

#endif

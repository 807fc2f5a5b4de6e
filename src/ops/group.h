/* group.h: a group-by as the host's calls hand it to its kernels, and the table of these: one for
 * each (allocator, target), defined by group_kernels.c. All pointers are device memory. Calls start
 * kernels on a stream and do not wait. */
#ifndef WHI_OPS_GROUP_H
#define WHI_OPS_GROUP_H

#include "lists.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of a result, in the order of wh_pages. */
enum { GROUP_KEY, GROUP_COUNT, GROUP_SUM, GROUP_MIN, GROUP_MAX, GROUP_AVG, GROUP_COLUMNS };

/* Chains of a part: of rows as the table has them, and of rows that stand for many. */
enum { GROUP_RAW, GROUP_PARTIAL, GROUP_KINDS };

/* What a group has beside its key. */
typedef struct whi_group_needs {
    uint32_t count, sum, least, most; /* whether */
    uint32_t is_float;                /* values are of float or double */
} whi_group_needs;

/* Where a row's fields are in a page of a chain, each a column; as whi_group_needs, and the key. */
typedef struct whi_group_layout {
    uint32_t page_log2, page_bytes;
    uint32_t key, value; /* raw */
    uint32_t count, sum, least, most;
} whi_group_layout;

/* Rows that are still to be grouped: chains of both kinds. */
typedef struct whi_group_node {
    uint64_t cursor[GROUP_KINDS]; /* as chains.h's P1 leaves it */
    uint32_t level, rows;
} whi_group_node;

/* Where a block is with a step. */
enum { GROUP_FRESH, GROUP_STOPPED, GROUP_DONE };

typedef struct whi_group_state {
    uint32_t is_full; /* some block found no memory: store, relaxed, by any */
    uint32_t n_pages; /* numbers of chains' pages */
    uint32_t list_pages;
    uint32_t next_part; /* fetch_add, relaxed */
    uint32_t n_lists;   /* paper: groups; fetch_add, relaxed */
    uint32_t old_lists; /* paper: of these, whose pages have gone back */
    uint64_t list_rows; /* two-pass: groups */
    uint64_t written;   /* compact: rows that have a place */
} whi_group_state;

/* What a block has in its shared memory: a table of slots, and rows that are under way. Offsets in
 * bytes; a kernel has its own. */
typedef struct whi_group_shape {
    uint32_t slots;   /* a power of two; and one more, for key 0 */
    uint32_t parts;   /* that rows go to at most */
    uint32_t rows;    /* of a tile at most */
    uint32_t pages;   /* that a tile's rows can be in */
    uint32_t staged;  /* rows that are put in order of their parts at a time */
    uint32_t brought; /* pages that are brought for these at most */
    uint32_t words, keys, counts, sums, least, most, places, bits, page, number, fill, stage;
    uint32_t bytes;           /* in all */
    uint32_t threads, blocks; /* of the kernel */
} whi_group_shape;

typedef struct whi_group {
    const void *key, *value;
    uint32_t n;
    uint32_t key_bytes, value_bytes; /* value_bytes 0: none */
    whi_group_needs needs;
    int is_plain; /* counts and sums of integers */
    int is_sim;
    int is_paper;    /* no tables: all rows to lists */
    int is_two_pass; /* group_two_pass.h: parts in memory of the device, the result in columns */
    int is_writing;  /* two-pass: the second pass */
    uint32_t parts_log2, fan_log2;
    uint32_t strands;     /* chains of a part's rows of a kind: a block adds to one of them */
    uint32_t most_levels; /* from here on a node has one child; paper: is a group */
    uint32_t tile;        /* rows of the table that a block takes at a time */
    uint32_t refresh;     /* tiles after which a table that helps no more is put out */
    uint32_t probes[2];   /* places that a row looks at: of tiles, of nodes */
    whi_group_layout layout[GROUP_KINDS];
    whi_group_shape shape[2]; /* of both kernels: tiles, parts */
    whi_chains chains;        /* of parts: strands of RAW and then of PARTIAL, each of all parts;
                               * and of blocks' children */
    uint64_t *child_cursor;   /* of a block: of RAW and then PARTIAL, 1 << fan_log2 each */
    whi_group_node *stack;    /* of a block */
    uint32_t stack_room;
    uint32_t *stage[2];   /* of a block: where it is with either kernel */
    unsigned char *saved; /* of a block of either kernel: its shared memory */
    uint32_t threads;     /* of kernels that have no shape */
    wh_pages out;         /* of result pages: room, column_bytes, column_at */
    uint32_t page_bytes;
    whi_page_list list;
    whi_group_state *state;
    void *columns[WH_PAGE_COLUMNS]; /* compact, and two-pass */
    /* two-pass. Part p's rows are part_first[p] .. part_first[p + 1] - 1 of these columns, in
     * the second pass its groups part_groups[p] .. of the result */
    void *part_key, *part_value;
    uint32_t *part_first, *part_groups;
    uint32_t *part_next; /* where the part's next row goes: fetch_add, relaxed */
    uint32_t *part_left; /* bits of rows: group_two_pass.h's T1 */
    /* rebase: how far all pages have moved, and where list.page and rows were */
    int64_t moved;
    unsigned char *const *old_page;
    const uint32_t *old_rows;
    /* paper: of a group. Its last page is full, or the only one that is not */
    void *list_key;
    uint32_t *list_last, *list_last_rows; /* the last page's number; rows in it */
    uint64_t *list_rows;
} whi_group;

typedef wh_status (*whi_group_step)(wh_heap *heap, void *stream, const whi_group *g);

typedef struct whi_group_kernels {
    const char *allocator;
    whi_group_step begin; /* a new group-by: counters, cursors, records; the list stays */
    whi_group_step again; /* the state before it goes on */
    whi_group_step tiles; /* the table's rows into blocks' tables, and parts */
    whi_group_step parts; /* the parts' rows into tables, and the result */
    whi_group_step compact;
    whi_group_step drop;        /* the list: its pages go back */
    whi_group_step drop_parts;  /* pages of chains */
    whi_group_step rebase;      /* pages have moved */
    whi_group_step first_pass;  /* two-pass: rows to parts, and how many groups these have */
    whi_group_step second_pass; /* two-pass: the groups, into columns */
    wh_status (*size)(wh_device *device, whi_group *g); /* sizes of all kinds */
} whi_group_kernels;

const whi_group_kernels *whi_group_kernels_find(const char *allocator, wh_target target);

#ifdef __cplusplus
}
#endif

#endif

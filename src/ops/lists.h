/* lists.h: what an operator's kernels keep of pages: lists of result pages, chains of pages that
 * grow at their end (chains.h), and parts of pages (parts.h). All pointers are device memory. */
#ifndef WHI_OPS_LISTS_H
#define WHI_OPS_LISTS_H

#include "warpheap/ops.h"

/* A list of pages that blocks fill, each page for one owner. A page has a number from when it is
 * taken: fetch_add, relaxed, of n. page[k], by who took it; rows[k], by who had it, when it is
 * closed, at the latest before the kernel ends. */
typedef struct whi_page_list {
    unsigned char **page;
    uint32_t *rows;
    uint32_t *n;
    uint64_t *n_rows;    /* of closed pages: add, relaxed */
    uint32_t most;       /* entries of page and rows: as many pages as can be in the heap */
    uint32_t room;       /* rows of a page */
    uint32_t page_bytes; /* of a page */
    int by_thread;       /* a thread owns a page, not a warp */
} whi_page_list;

/* How many pages back a page's record leads: whi_chains.link. */
#define WHI_LINKS 8u

/* Chains of pages; a page has a number. */
typedef struct whi_chains {
    uint64_t *cursor;     /* of a chain: chains.h's P1 */
    unsigned char **page; /* of a number; NULL: given back */
    uint32_t *ordinal;    /* the how manieth of its chain */
    uint32_t *link;       /* WHI_LINKS of a page: chains.h's P2 */
    uint32_t *n_pages;    /* numbers so far: fetch_add, relaxed */
    uint32_t *spare;      /* shared memory: chains.h's I1; NULL: there are none */
    uint32_t *next;       /* of a number that is spare */
    uint32_t most;        /* numbers that there may be */
    uint32_t page_log2;   /* rows of a page */
    uint32_t page_bytes;
} whi_chains;

/* A table's rows in parts of pages: those of part p are in the pages first[p].. of `order`, rows[p]
 * rows, all but the last page full; behind it may be some that have none. */
typedef struct whi_parts {
    uint32_t log2;            /* parts that each part of the level before is split into */
    uint32_t skip;            /* bits of the hash that the levels before have used */
    unsigned char **page;     /* NULL: given back */
    uint32_t *part, *ordinal; /* of a page: whose it is, and the how manieth */
    uint32_t *n_pages;        /* numbers so far */
    uint64_t *cursor;         /* of a part: parts.h P1; counted: rows that have a place */
    uint32_t *order, *first, *rows;
    uint64_t *first_tile; /* of a part, and the end: tiles of its rows that the next level takes */
    uint32_t *next_tile;  /* of a block: where it goes on */
    uint32_t *placed;     /* of a block: a bit for each part whose rows of that tile have a place */
    unsigned char *memory; /* counted: page k is here, at k pages; else NULL */
    uint32_t most;         /* pages that there may be */
    uint32_t ahead;        /* pages of a part's first group, unless it needs more */
    uint32_t page_log2;    /* rows of a page */
    uint32_t page_bytes;
} whi_parts;

#endif

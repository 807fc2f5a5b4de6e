/* lists.h: what an operator's kernels keep of pages: lists of result pages, and chains of pages
 * that grow at their end (chains.h). All pointers are device memory. */
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
    uint32_t *link;       /* WHI_LINKS of a page: chains.h's P2; NULL: nobody asks */
    uint32_t *n_pages;    /* numbers so far: fetch_add, relaxed */
    uint32_t *spare;      /* shared memory: chains.h's I1; NULL: there are none */
    uint32_t *next;       /* of a number that is spare */
    uint32_t most;        /* numbers that there may be */
    uint32_t page_log2;   /* rows of a page */
    uint32_t page_bytes;
} whi_chains;

#endif

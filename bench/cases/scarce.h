/* scarce.h: a heap of which a given share is free, of any allocator that frees: what the cases
 * scenarios and ops-*-paper share. */
#ifndef WHI_BENCH_SCARCE_H
#define WHI_BENCH_SCARCE_H

#include "bench/cases/walk_pages.h"

/* pages: begun by the caller. All else is 0 at first. */
typedef struct whi_scarce {
    whi_pages pages;
    /* Allocators that do not walk: blocks that make pages used. */
    void **d_blocks;
    uint64_t blocks_room;
    double filled;         /* the share that is free; 0: none yet */
    uint64_t served, held; /* blocks that filled the heap; entries not freed since */
} whi_scarce;

/* Makes all but that share of the pages used: random ones of an allocator that walks, each time
 * anew. Another one's heap is filled, and blocks that came last are freed, once for a share; shares
 * come upwards, 1 (a fresh heap) before all others. next: what is left out if time is over before
 * the heap is full (b->turn.left_out). */
wh_status whi_scarce_make(whi_scarce *w, double share, uint32_t rep, whi_bench_part next);

/* Ends pages, too. */
void whi_scarce_end(whi_scarce *w);

#endif

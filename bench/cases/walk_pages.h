/* walk_pages.h: a heap of which a given share of the pages is free, by the kernels of
 * paper_kernels.h: what the cases walk, crossover, scenarios and ops-*-paper share. */
#ifndef WHI_BENCH_WALK_PAGES_H
#define WHI_BENCH_WALK_PAGES_H

#include "bench/driver/internal.h"
#include "bench/kernels/paper_kernels.h"
#include "warpheap/detail/alloc/random_walk/layout.h"

/* Choices of pages that are kept, by their seeds: as many as the repetitions have, or a few. */
#define WHI_PAGES_KEPT 16u

/* Pages that are made used, one bit a page. */
typedef struct whi_pages_choice {
    uint32_t *words; /* NULL: none yet */
    uint64_t available, seed;
} whi_pages_choice;

typedef struct whi_pages {
    whi_bench *b;
    const wh_paper_kernels *kernels; /* NULL: the allocator does not walk */
    wh_paper_call call;
    uint64_t n;    /* pages of the heap: T */
    uint64_t page; /* bytes of a page: what the allocator's options say, or the paper's */
    whi_pages_choice kept[WHI_PAGES_KEPT];
    void *d_occupied, *d_counts;
} whi_pages;

/* Whether the current allocator has that name. */
int whi_pages_is(const whi_bench *b, const char *name);

/* Opens the heap of an allocator that walks: the user's, or of own bytes. To be ended, also after
 * a failure. */
wh_status whi_pages_begin(whi_bench *b, whi_pages *w, uint64_t own);

/* The same on the heap that is open. */
wh_status whi_pages_begin_open(whi_bench *b, whi_pages *w);

/* The same for any allocator with blocks of all sizes; occupy is not for those. */
wh_status whi_pages_begin_plain(whi_bench *b, whi_pages *w, uint64_t own);

void whi_pages_end(whi_pages *w);

/* Resets the heap and makes all but `available` pages used, which the seed chooses. */
wh_status whi_pages_occupy(whi_pages *w, uint64_t available, uint64_t seed);

/* The kernels' counts: clear, read. */
wh_status whi_pages_clear_counts(whi_pages *w);
wh_status whi_pages_get_counts(whi_pages *w, wh_paper_counts *counts);

#endif

/* view_map.h: a heap as a picture of cells, and its free runs, size classes and largest blocks:
 * what view_page.c draws. */
#ifndef WHI_CLI_VIEW_MAP_H
#define WHI_CLI_VIEW_MAP_H

#include "cli/snapshot.h"

#define MAP_COLUMNS 64u
#define MAP_CELLS 1536u
#define MAP_RUNS 40u    /* free runs, by powers of two of their chunks */
#define MAP_LARGEST 20u /* blocks */

/* Bytes of some chunks in a row. */
typedef struct map_cell {
    uint64_t bytes, absent, free;
    uint64_t live, fresh, kept; /* fresh: new blocks, which are not in live */
    uint64_t blocks;
    uint64_t slot_bytes, of_slots; /* the class that has the most of it */
} map_cell;

/* 0: large blocks. */
typedef struct map_class {
    uint64_t slot_bytes, slabs, chunks, slots, live, kept, ready;
} map_class;

typedef struct map {
    map_cell cells[MAP_CELLS];
    uint64_t n_cells, chunks_per_cell;
    map_cell all;
    uint64_t run_counts[MAP_RUNS], run_chunks[MAP_RUNS];
    uint64_t n_runs, free_chunks, largest_run;
    map_class *classes; /* by slot_bytes */
    uint64_t n_classes;
    const snap_block *largest[MAP_LARGEST];
    uint64_t n_largest;
} map;

/* 0: there is no memory for it. */
int map_make(map *m, const snap *s);
void map_drop(map *m);
/* What slabs and large blocks have that no block has: free slots. */
uint64_t map_slack(const map_cell *c);

#endif

/* suite.h: suites of the benchmark: lists of runs as the papers made them. Data; host C11.
 * docs/BENCHMARK.md describes how they run. */
#ifndef WH_BENCH_SUITE_H
#define WH_BENCH_SUITE_H

#include <stddef.h>

/* A cell: `warpheap bench --case CASE OPTIONS` with one allocator. */
typedef struct wh_bench_cell {
    const char *name; /* one of a kind in its suite */
    const char *case_name;
    const char *gpu, *sim; /* further options, with a space between them; NULL: not run there */
    double seconds;        /* about what an allocator takes on a GPU, for the time that is left */
} wh_bench_cell;

typedef struct wh_bench_suite {
    const char *name;
    const char *text;            /* for --help */
    const char *gpu, *sim;       /* options of all cells, before their own */
    double gpu_limit, sim_limit; /* seconds after which a cell is given up */
    const wh_bench_cell *cells;
    size_t n_cells;
} wh_bench_suite;

/* NULL past the end. */
const wh_bench_suite *wh_bench_suite_at(size_t index);

#endif

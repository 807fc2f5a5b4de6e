/* internal.h: what the files of the benchmark's host driver share.
 *
 * Every function that can fail returns a wh_status; the first failure is described
 * in b->error and ends the run.
 */
#ifndef WHI_BENCH_INTERNAL_H
#define WHI_BENCH_INTERNAL_H

#include <jansson.h>

#include "bench/bench.h"
#include "bench/bench_kernels.h"
#include "workload/graph_case.h"

/* Share of the heap that a case may fill; the thread count is cut to it. */
#define WHI_BENCH_FILL 0.6

/* Wall time after which a series of repetitions on a GPU ends early; its row says
 * how many were made. */
#define WHI_BENCH_SERIES_SECONDS 10.0

/* The default work: one record per kind of device. */
typedef struct whi_bench_defaults {
    uint64_t heap_bytes, utilization_bytes;
    uint32_t reps;
    uint64_t threads, warps, scaling_max, scaling_factor;
    uint64_t churn_threads, batch;
    uint32_t churn_steps;
    const uint64_t *single, *mixed, *warp, *scaling, *churn, *large, *utilization; /* 0 ends */
} whi_bench_defaults;

/* Repetitions of one timed operation. */
typedef struct whi_bench_series {
    double us[WH_BENCH_MAX_REPS];
    uint32_t n;
    uint64_t steps, atomics; /* of the simulated device, over all repetitions */
    uint64_t failed, bad;    /* likewise */
} whi_bench_series;

/* What a row reports of them. */
typedef struct whi_bench_result {
    uint32_t reps;
    double us, us_min, us_max; /* us: the median */
    double steps_per_op, atomics_per_op;
    uint64_t failed, bad;
} whi_bench_result;

typedef struct whi_bench_row {
    const char *case_name, *phase, *op;
    uint64_t size_min; /* 0: all of one size */
    uint64_t size;     /* 0: none */
    uint64_t threads;
    uint64_t ops;           /* calls in one repetition */
    double us_null;         /* the floor; 0: none */
    const char *input;      /* graph: the file; NULL: none */
    const char *value_name; /* one more figure, and where it is not NULL: */
    double value;
    const char *more_names[5]; /* further figures; NULL: none */
    double more[5];
} whi_bench_row;

/* A graph of the case graph. */
typedef struct whi_bench_graph {
    const char *name; /* the file without its folders, or "generated" */
    wh_graph_arcs arcs;
} whi_bench_graph;

typedef struct whi_bench {
    const wh_bench_options *options;
    const whi_bench_defaults *defaults;
    wh_device *device;
    const wh_device_info *info;
    int on_sim;
    uint32_t reps;
    uint64_t seed; /* of request sizes and churn */

    const wh_allocator_info *alloc;
    const wh_bench_kernels *kernels;
    wh_heap *heap;
    uint64_t heap_bytes;
    wh_bench_call call; /* handle, arrays and flags for the open heap */
    uint64_t ptrs_room; /* entries of call.ptrs */
    uint64_t born_room, claimed_room;

    struct {
        wh_bench_launcher launcher;
        uint64_t n;
        double us;
    } floors[64];
    size_t n_floors;

    whi_bench_graph *graphs;
    size_t n_graphs;
    whi_bench_series malloc_series, free_series;
    json_t *rows;
    uint64_t total_failed, total_bad;
    int header_shown;
    char error[512];
} whi_bench;

/* --- measure.c: heaps, arrays, launches, statistics -------------------------------- */

/* Describes the first failure; returns status. */
wh_status whi_bench_fail(whi_bench *b, wh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens a heap of the current allocator, or keeps the open one if it fits. */
wh_status whi_bench_open_heap(whi_bench *b, uint64_t bytes);
void whi_bench_close_heap(whi_bench *b);
wh_status whi_bench_reset_heap(whi_bench *b);
wh_status whi_bench_need_ptrs(whi_bench *b, uint64_t n);
wh_status whi_bench_need_born(whi_bench *b, uint64_t n);

int whi_bench_can(const whi_bench *b, uint32_t caps);

/* Starts launcher with n threads (blocks of 256) on b->call and waits for it. */
wh_status whi_bench_launch(whi_bench *b, wh_bench_launcher launcher, uint64_t n);

/* The same, timed: appends a sample. */
wh_status whi_bench_time(whi_bench *b, wh_bench_launcher launcher, uint64_t n,
                         whi_bench_series *series);

/* Median time of a floor kernel on b->call; measured once per allocator, case and n. */
wh_status whi_bench_floor(whi_bench *b, wh_bench_launcher launcher, uint64_t n, double *us);

/* Counts of b->call: clear, read. */
wh_status whi_bench_clear_counts(whi_bench *b);
wh_status whi_bench_get_counts(whi_bench *b, wh_bench_counts *counts);

/* Looks at the pointers that the last malloc kernel stored: counts the NULLs, and the
 * misaligned and those outside the heap as bad. Then, unless one was bad or the
 * allocator lacks WH_CAP_DISJOINT:
 *   CONTENTS  fills and checks the blocks (they must still be allocated)
 *   PLACES    looks whether any two share memory, from the addresses alone */
enum { WHI_BENCH_CONTENTS = 1, WHI_BENCH_PLACES = 2 };
wh_status whi_bench_verify(whi_bench *b, uint32_t what, wh_bench_counts *counts);

double whi_bench_median(const double *v, uint32_t n);
double whi_bench_wall_seconds(void);

/* --- cases.c, case_graph.c ------------------------------------------------------------ */

/* Runs one case with the current allocator. Nothing to run is no error. */
wh_status whi_bench_case(whi_bench *b, const char *name);
wh_status whi_bench_case_graph(whi_bench *b);

/* case_walk.c, case_lists.c */
wh_status whi_bench_case_walk(whi_bench *b);
wh_status whi_bench_case_crossover(whi_bench *b);
wh_status whi_bench_case_scenarios(whi_bench *b);
wh_status whi_bench_case_lists(whi_bench *b);
wh_status whi_bench_case_fragments(whi_bench *b);

/* Reads the graph files, or generates a graph if there are none. On failure returns 0
 * and error holds one line. */
int whi_bench_load_graphs(whi_bench *b, char *error, size_t size);
void whi_bench_drop_graphs(whi_bench *b);
int whi_bench_is_case(const char *name);

/* --- report.c --------------------------------------------------------------------------- */

wh_status whi_bench_emit(whi_bench *b, const whi_bench_row *row, const whi_bench_series *series);
wh_status whi_bench_emit_result(whi_bench *b, const whi_bench_row *row,
                                const whi_bench_result *result);

/* Shows on a terminal what runs now. */
void whi_bench_progress(whi_bench *b, const char *case_name, uint64_t size, uint64_t threads);
void whi_bench_progress_end(whi_bench *b);

/* Writes all rows so far; error (may be empty) is recorded with them. Returns 0, or -1
 * if the file could not be written. */
int whi_bench_write_json(whi_bench *b, FILE *file, const char *error);

/* 65536 as "64K". */
const char *whi_bench_bytes_text(uint64_t bytes, char *text, size_t size);

#endif

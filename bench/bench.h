/* bench.h: the benchmark as the command line calls it. Host C11.
 * docs/BENCHMARK.md describes cases, protocol and results. */
#ifndef WH_BENCH_BENCH_H
#define WH_BENCH_BENCH_H

#include <stdio.h>

#include "warpheap/device.h"
#include "warpheap/options.h"

/* In which repetitions the contents of blocks are written and checked, between the timed
 * malloc and the timed free. The others leave the blocks alone, so that free finds the
 * caches as malloc left them; that blocks are disjoint is verified in all, but with ENDS only in
 * these: of large blocks it takes 8 bytes for each KiB, which empties the cache for the next
 * malloc. NULLs and misplaced pointers are counted in all. */
typedef enum wh_bench_check {
    WH_BENCH_CHECK_LAST, /* the last of a series, and the untimed first round */
    WH_BENCH_CHECK_EVERY,
    WH_BENCH_CHECK_ENDS /* like LAST */
} wh_bench_check;

#define WH_BENCH_MAX_REPS 1000u

/* Zero (NULL) fields mean the default. */
typedef struct wh_bench_options {
    const char *device; /* "auto", "sim", "cuda", "cuda:N" */
    const char *const *allocs;
    size_t n_allocs; /* 0: all that run on the device */
    const char *const *cases;
    size_t n_cases;        /* 0: all */
    const uint64_t *sizes; /* replaces the sizes of every case that has sizes */
    size_t n_sizes;
    const uint64_t *threads; /* replaces the thread counts likewise */
    size_t n_threads;
    uint64_t heap_bytes;
    uint32_t reps;   /* at most WH_BENCH_MAX_REPS */
    uint32_t rounds; /* repeat, server, slabhash, graph-memory, graph-expand; steps of cells; at
                        most WH_BENCH_MAX_REPS */
    int plain;       /* timed kernels without launch bounds */
    int compact;     /* drift, scenarios: wh_heap_compact between launches */
    double limit;    /* seconds that a series of repetitions may take; a case: a multiple */
    const wh_any_options *options; /* of heaps: one a family, all measured */
    size_t n_options;
    uint64_t seed;
    const char *const *kinds;  /* classes of graphs */
    size_t n_kinds;            /* 0: all, or the default one where all allocators are measured */
    const char *const *inputs; /* graph files */
    size_t n_inputs;
    const char *json;     /* file for the results */
    wh_sim_policy policy; /* of the simulated device */
    wh_bench_check check;
    FILE *table;    /* receives the table; NULL: none */
    FILE *progress; /* a terminal that shows what runs; NULL: none */
    int awake;      /* the device has worked until now, so it need not be woken */
    FILE *stream;   /* receives each row at once, as a line of JSON; NULL: none */
} wh_bench_options;

/* Also the exit status of the program. */
typedef enum wh_bench_outcome {
    WH_BENCH_OK = 0,
    WH_BENCH_FAILED = 1, /* a bad block, or an error while running */
    WH_BENCH_USAGE = 2   /* a request that cannot be run; nothing was started */
} wh_bench_outcome;

/* Runs the benchmark. error receives one line unless the outcome is OK. */
wh_bench_outcome wh_bench_run(const wh_bench_options *options, char *error, size_t error_size);

/* Writes one line of JSON to options->stream: the header of a run with these options, and `allocs`,
 * the names of those that would be measured. Opens the device. */
wh_bench_outcome wh_bench_about(const wh_bench_options *options, char *error, size_t error_size);

/* What the compiler made of small kernels with a malloc and a free, for each allocator:
 * registers and local memory, as the CUDA driver tells. Reads device, allocs, json and
 * table of the options. */
wh_bench_outcome wh_bench_registers(const wh_bench_options *options, char *error,
                                    size_t error_size);

/* Writes the figures of a file of tools/compile_cost.py to out: what a plain kernel with one
 * malloc costs. Needs no GPU. */
wh_bench_outcome wh_bench_compile_cost(const char *file, FILE *out, char *error, size_t error_size);

/* The cases (cases/list.h), in the order in which they run; NULL past the end. */
const char *wh_bench_case_name(size_t index);
const char *wh_bench_case_text(size_t index);

#endif

/* suites.c: the suites, a table. A cell is one run with one allocator; its options are those of
 * `warpheap bench`. Sources: Winter (2021), section 5.6 and appendix B.1 (survey); McCoy and Pandey
 * (PPoPP 2024), section 6 (gallatin); Vinkler and Havran (CGF 2015), sections 6 to 8 (regeff); Pham
 * et al. (TOPC 2025), section 5 (random). docs/BENCHMARK.md says what is other than there. */
#include "bench/suite.h"

#define POWERS_4 "4,8,16,32,64,128,256,512,1K,2K,4K,8K"
#define POWERS_16 "16,32,64,128,256,512,1K,2K,4K"
#define CELLS(list) list, sizeof(list) / sizeof *(list)

static const wh_bench_cell quick[] = {
    {"init", "init", "", "", 0.2},
    {"single", "single", "--sizes 16,256,4K", "--sizes 16,4K --threads 1K", 0.3},
    {"mixed", "mixed", "--sizes 4K", "--sizes 4K --threads 1K", 0.2},
    {"warp", "warp", "--sizes 16,4K", "--sizes 16,4K", 0.2},
    {"scaling", "scaling", "--sizes 16,512 --threads 1,32,1K,32K,1M",
     "--sizes 16 --threads 1,64,1K", 0.3},
    {"churn", "churn", "--sizes 4K", "--sizes 4K --threads 256", 0.2},
    {"large", "large", "--sizes 64K,1M", "--sizes 64K", 0.2},
    {"utilization", "utilization", "--sizes 16,256,1050 --heap 256M", "--sizes 256,1050 --heap 2M",
     0.4},
    {"full", "full", "--sizes 256 --heap 256M", "--sizes 256 --heap 2M", 0.4},
    {"repeat", "repeat", "--sizes 256,4K --rounds 20", "--sizes 256 --threads 512", 0.3},
    {"latency", "latency", "--sizes 16,4K", "--sizes 256 --threads 512", 0.4},
    {"access", "access", "--sizes 16,128", "--sizes 16,128 --threads 512", 0.2},
    {"work", "work", "--threads 16K,256K", "--threads 512", 0.3},
    {"server", "server", "--threads 64K --rounds 20", "--threads 64 --rounds 5", 0.3},
};

static const wh_bench_cell survey[] = {
    {"init", "init", "", "", 0.5},
    {"single", "single", "--sizes " POWERS_4 " --threads 10000,100000",
     "--sizes 4,64,1K,8K --threads 1K", 2},
    {"warp", "warp", "--sizes " POWERS_4 " --threads 10000,100000", "--sizes 4,64,8K", 2},
    {"mixed", "mixed", "--sizes " POWERS_4 " --threads 10000,100000",
     "--sizes 64,1K,8K --threads 1K", 2},
    {"scaling", "scaling", "--sizes 16,64,512,8K", "--sizes 16,8K", 2},
    {"repeat", "repeat", "--sizes " POWERS_4 " --threads 100000 --rounds 100", "", 2},
    {"utilization", "utilization", "--sizes " POWERS_4 " --threads 100000 --heap 2G", "", 2},
    {"work", "work", "", "", 1},
    {"access", "access", "", "", 0.5},
    {"graph", "graph", "", "", 1},
    /* what no published suite has */
    {"latency", "latency", "", "", 1},
    {"full", "full", "", "", 2},
    {"pressure", "pressure", "", "", 2},
    {"waste", "waste", "", "", 1},
    {"first", "first", "", "", 1},
    {"large", "large", "", "", 1},
    {"churn", "churn", "", "", 1},
    {"streams", "streams", "", "", 1},
    {"drift", "drift", "", "", 4},
    {"server", "server", "", "", 2},
    {"cells", "cells", "", "", 1},
    {"slabhash", "slabhash", "", "", 1},
    {"fill-log", "fill-log", "", "", 2},
};

static const wh_bench_cell gallatin[] = {
    {"init", "init", "--reps 50", "", 1},
    {"single", "single", "--sizes " POWERS_16 " --threads 1000000 --reps 50",
     "--sizes " POWERS_16 " --threads 1K", 2},
    {"mixed", "mixed", "--sizes " POWERS_16 " --threads 1000000 --reps 50",
     "--sizes 64,4K --threads 1K", 2},
    {"scaling", "scaling", "--sizes 16,64,512,8K --reps 50", "--sizes 16,8K", 2},
    {"repeat", "repeat", "--sizes " POWERS_16 " --threads 1000000 --rounds 100", "", 2},
    {"utilization", "utilization", "--sizes " POWERS_4 " --threads 100000 --heap 2G", "", 2},
    {"graph", "graph", "", "", 1},
    {"graph-sets", "graph-sets", "--kinds lattice", "--kinds lattice", 4},
    {"graph-init", "graph-init", "--kinds lattice", "--kinds lattice", 2},
    {"graph-expand", "graph-expand", "--kinds lattice", "--kinds lattice", 4},
};

static const wh_bench_cell regeff[] = {
    {"lists", "lists", "", "", 4},
    {"fragments", "fragments", "", "", 2},
    {"kdtree", "kdtree", "", "", 6},
    {"kdtree-tight", "kdtree-tight", "", "", 6},
};

static const wh_bench_cell random_walks[] = {
    {"walk", "walk", "", "", 4},
    {"crossover", "crossover", "", "", 2},
    {"scenarios", "scenarios", "", "", 4},
    {"ops-join-paper", "ops-join-paper", "", "", 10},
    {"ops-group-paper", "ops-group-paper", "", "", 10},
};

static const wh_bench_suite suites[] = {
    {"quick", "a little of everything", "--reps 3 --limit 0.1", "--reps 1", 20, 60, CELLS(quick)},
    {"survey", "Winter's survey, and what it lacks", "--limit 1", "", 60, 300, CELLS(survey)},
    {"gallatin", "the tests of the Gallatin paper", "--limit 2", "", 60, 300, CELLS(gallatin)},
    {"regeff", "the tests of the circular lists", "", "", 120, 300, CELLS(regeff)},
    {"random", "the tests of the random walks", "", "", 120, 300, CELLS(random_walks)},
};

const wh_bench_suite *wh_bench_suite_at(size_t index) {
    return index < sizeof suites / sizeof *suites ? &suites[index] : NULL;
}

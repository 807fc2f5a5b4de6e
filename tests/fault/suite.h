/* suite.h: what fault.c knows of a suite. `workload` is a structure of its own in each program that
 * fault.c is part of: it begins with a name. */
#ifndef WH_TESTS_FAULT_SUITE_H
#define WH_TESTS_FAULT_SUITE_H

#include <stdint.h>

struct workload;

/* Where a fault shows: in the logic, everywhere; lost order, as a data race that ThreadSanitizer
 * sees, or as an old value in the simulator's weak memory, which ThreadSanitizer does without. */
typedef enum where_found { EVERYWHERE, UNDER_TSAN, WEAK_MEMORY } where_found;

typedef struct fault {
    const char *tag, *workload;
    where_found where;
} fault;

/* Both tables end with a row without a name. */
typedef struct suite {
    const char *name;
    const struct workload *workloads;
    const fault *faults;
    uint64_t step_budget;
    uint32_t seeds;    /* that are tried, at most, for one fault; 0: many. Without a fault: half */
    int has_own_seeds; /* a workload tries all its seeds itself: it runs once */
} suite;

/* Runs a workload of the suite under one seed. 0: nothing wrong. The policy goes with the seed. */
int fault_run(const suite *of, const struct workload *w, uint64_t seed);

#endif

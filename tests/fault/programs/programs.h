/* programs.h: suites whose workloads are the tests of other programs, cmocka's, which play with a
 * library of the suite's own, where faults can be planted. */
#ifndef WH_TESTS_FAULT_PROGRAMS_H
#define WH_TESTS_FAULT_PROGRAMS_H

#include "fault/suite.h"

typedef struct workload {
    const char *name;
    int (*run)(int argc, char **argv); /* the other program's main: its word is a filter */
    const char *test;                  /* of it, as cmocka's filters say */
} workload;

#endif

/* ops.h: what the files of the program fault_ops share. Its workloads are the tests of tests/ops,
 * which play with a warpheap::ops of this program's own, where faults can be planted.
 *
 * To plant a fault: WH_PLANT(tag, good, bad) in the code, and a row in ops.c. */
#ifndef WH_TESTS_FAULT_OPS_H
#define WH_TESTS_FAULT_OPS_H

#include "fault/programs/programs.h"

int join_main(int argc, char **argv);
int group_main(int argc, char **argv);
int edges_main(int argc, char **argv);

extern const suite fault_ops;
#define FAULT_SUITES &fault_ops

#endif

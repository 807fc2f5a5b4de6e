/* kdtree.h: what the files of the program fault_kdtree share. Its workloads are the tests of
 * tests/kdtree, which play with a warpheap::kdtree of this program's own, where faults can be
 * planted.
 *
 * To plant a fault: WH_PLANT(tag, good, bad) in the code, and a row in kdtree.c. */
#ifndef WH_TESTS_FAULT_KDTREE_H
#define WH_TESTS_FAULT_KDTREE_H

#include "fault/programs/programs.h"

int build_main(int argc, char **argv);
int full_main(int argc, char **argv);

extern const suite fault_kdtree;
#define FAULT_SUITES &fault_kdtree

#endif

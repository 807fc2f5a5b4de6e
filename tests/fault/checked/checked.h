/* checked.h: what the files of the program fault_checked share. Its workloads are tests of
 * tests/unit/checked.c, compiled with calls in which faults can be planted. The host's side is the
 * library's, without faults.
 *
 * To plant a fault: WH_PLANT(tag, good, bad) in the code, and a row in suite.c. */
#ifndef WH_TESTS_FAULT_CHECKED_H
#define WH_TESTS_FAULT_CHECKED_H

#include "fault/programs/programs.h"

int checked_main(int argc, char **argv);

extern const suite fault_checked;
#define FAULT_SUITES &fault_checked

#endif

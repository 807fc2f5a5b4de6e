/* cpp.h: what the files of the program fault_cpp share. Its workloads are the tests of tests/cpp,
 * compiled with a warpheap.hpp in which faults can be planted.
 *
 * To plant a fault: WH_PLANT(tag, good, bad) in the code, and a row in suite.c. */
#ifndef WH_TESTS_FAULT_CPP_H
#define WH_TESTS_FAULT_CPP_H

#ifdef __cplusplus
extern "C" {
#endif

#include "fault/programs/programs.h"

int objects_main(int argc, char **argv);
int vector_main(int argc, char **argv);
int map_main(int argc, char **argv);
int owned_main(int argc, char **argv);
int shared_main(int argc, char **argv);
int string_main(int argc, char **argv);

extern const suite fault_cpp;
#define FAULT_SUITES &fault_cpp

#ifdef __cplusplus
}
#endif

#endif

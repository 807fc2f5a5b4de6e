/* arena.h: what the files of the program fault_arena share. Its workloads are the tests of
 * tests/arena, compiled with arenas in which faults can be planted.
 *
 * To plant a fault: WH_PLANT(tag, good, bad) in the code, and a row in arena.c. */
#ifndef WH_TESTS_FAULT_ARENA_H
#define WH_TESTS_FAULT_ARENA_H

#define WH_ARENA_WAITS 2u /* warps take pieces at the same time */

#include "fault/programs/programs.h"

int model_main(int argc, char **argv);
int calls_main(int argc, char **argv);

extern const suite fault_arena;
#define FAULT_SUITES &fault_arena

#endif

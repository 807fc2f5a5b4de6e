/* calls.c: tests/arena/calls.c as a function of fault_arena. */
#include "fault/arena/arena.h"

#define main calls_main
#include "../../arena/calls.c"

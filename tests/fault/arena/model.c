/* model.c: tests/arena/model.c as a function of fault_arena. */
#include "fault/arena/arena.h"

#define main model_main
#include "../../arena/model.c"

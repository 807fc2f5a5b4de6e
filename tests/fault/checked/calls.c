/* calls.c: tests/unit/checked.c as a function of fault_checked. */
#include "fault/checked/checked.h"

#define main checked_main
#include "../../unit/checked.c"

/* group.c: tests/ops/group.c as a function of fault_ops. */
#include "fault/ops/ops.h"

#define main group_main
#include "../../ops/group.c"

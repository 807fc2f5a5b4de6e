/* join.c: tests/ops/join.c as a function of fault_ops. */
#include "fault/ops/ops.h"

#define main join_main
#include "../../ops/join.c"

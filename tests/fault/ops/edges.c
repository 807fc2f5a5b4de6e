/* edges.c: tests/ops/edges.c as a function of fault_ops. */
#include "fault/ops/ops.h"

#define main edges_main
#include "../../ops/edges.c"

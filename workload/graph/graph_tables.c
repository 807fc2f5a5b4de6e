/* graph_tables.c: finds the device side of the graph case by allocator and target. */
#include "workload/graph/graph_kernels.h"
#include "built_list.h"

WH_TABLES(wh_multigraph_kernels, wh_multigraph_kernels_find)

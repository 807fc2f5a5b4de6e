/* graph_tables.c: finds the device side of the graph case by allocator and target. */
#include "workload/graph/graph_kernels.h"
#include "built_list.h"

WH_TABLES(wh_graph_kernels, wh_graph_kernels_find)

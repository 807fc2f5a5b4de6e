/* registry.c: finds the kernel tables of an allocator on a target. */
#include "bench/kernels/bench_kernels.h"
#include "bench/kernels/graph_floors.h"
#include "bench/kernels/ops_data.h"
#include "bench/kernels/paper_kernels.h"
#include "built_list.h"

WH_TABLES(wh_bench_kernels, wh_bench_kernels_find)
WH_TABLES(wh_bench_ledger_kernels, wh_bench_ledger_find)
WH_TABLES(wh_bench_heaps_kernels, wh_bench_heaps_find)
WH_TABLES(wh_bench_survey_kernels, wh_bench_survey_find)
WH_TABLES_OF(wh_bench_arena_kernels, wh_bench_arena_find,
             WH_CAP_FREE | WH_CAP_DISJOINT | WH_CAP_ANY_SIZE)
WH_TABLES_OF(wh_bench_checked_kernels, wh_bench_checked_find, WH_CAP_RESERVE)
WH_TABLES(wh_bench_plain_kernels, wh_bench_plain_find)
WH_TABLES(wh_bench_register_kernels, wh_bench_registers_find)
WH_TABLES(wh_paper_kernels, wh_paper_kernels_find)
WH_TABLES(wh_bench_floors, wh_bench_floors_find)
WH_TABLES_ONCE(wh_ops_data_kernels, wh_ops_data_find)
WH_TABLES_ONCE(wh_bench_memory_kernels, wh_bench_memory_find)

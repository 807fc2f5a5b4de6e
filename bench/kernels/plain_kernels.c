/* plain_kernels.c: the timed kernels as plain __global__ functions, without launch bounds: what a
 * user gets who says nothing of them. Compiled once per allocator and target. On the simulated
 * device they are the same as with bounds.
 *
 * WH_BENCH_PLAIN_TABLE: the table's type, hence its symbol, if the file is compiled once more in
 * another way (other flags, another form of the library): a typedef of wh_bench_plain_kernels. */
#include "bench/kernels/bench_kernels.h"

#define TIMED_KERNEL WH_KERNEL_PLAIN

#include "bench/kernels/timed_calls.h"
#include "bench/kernels/timed_heaps.h"
#include "warpheap/detail/alloc/tables.h"

#ifndef WH_BENCH_PLAIN_TABLE
#define WH_BENCH_PLAIN_TABLE wh_bench_plain_kernels
#endif
#define TABLE_(type) WH_TABLE(type)

TABLE_(WH_BENCH_PLAIN_TABLE) = {malloc_single, malloc_mixed, malloc_warp,      free_all,
                                free_warp,     churn,        malloc_log,       server_round,
                                slab_insert,   slab_sweep,   slab_insert_pool, slab_sweep_pool};

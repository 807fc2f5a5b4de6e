/* list.h: the cases of `warpheap bench`, in the order in which they run. A new case is a line here
 * and a file beside this one.
 *
 * X(name, function, "one line for --help")
 * The function is wh_status function(whi_bench *b): it runs the case with the allocator that b
 * names, opens the heap that it needs, and leaves that heap empty or closed. docs/BENCHMARK.md says
 * what each case measures. */
#ifndef WHI_BENCH_LIST_H
#define WHI_BENCH_LIST_H

#define WHI_BENCH_CASE_LIST(X)                                                                   \
    X("single", whi_bench_case_rounds, "every thread allocates one block of one size")           \
    X("mixed", whi_bench_case_rounds,                                                            \
      "every thread allocates one block of a random size in 16..size")                           \
    X("warp", whi_bench_case_rounds, "one lane per warp allocates")                              \
    X("scaling", whi_bench_case_rounds, "1, 2, 4, ... threads allocate one block each")          \
    X("churn", whi_bench_case_churn, "random malloc and free steps inside one kernel, 16..size") \
    X("large", whi_bench_case_rounds, "few large blocks")                                        \
    X("init", whi_bench_case_init, "create and reset a heap")                                    \
    X("utilization", whi_bench_case_utilization, "fill a heap until malloc returns NULL")        \
    X("range", whi_bench_case_range, "address range of a cold round over the bytes requested")   \
    X("full", whi_bench_case_full, "malloc and free in a heap that is 50, 90, 99 % full")        \
    X("pressure", whi_bench_case_pressure, "malloc and churn in a heap that has too little")     \
    X("drift", whi_bench_case_drift,                                                             \
      "fragmentation while the sizes in use drift from 16 B to 4 KiB")                           \
    X("streams", whi_bench_case_streams, "two kernels on two streams share one heap")            \
    X("waste", whi_bench_case_waste, "usable bytes beyond the request, over all sizes")          \
    X("graph", whi_bench_case_graph, "adjacency arrays of a dynamic graph")                      \
    X("walk", whi_bench_case_walk, "random walks: getPage, its steps, and the steps expected")   \
    X("crossover", whi_bench_case_crossover, "getPage by 1 to 32 lanes of a warp")               \
    X("scenarios", whi_bench_case_scenarios, "RW_malloc: seven kinds of request")                \
    X("lists", whi_bench_case_lists, "Alloc Dealloc, Alloc Cycle Dealloc, Probability")          \
    X("fragments", whi_bench_case_fragments, "internal and external fragmentation")

#endif

/* list.h: the cases of `warpheap bench`, in the order in which they run. A new case is a line here
 * and a file beside this one.
 *
 * X(name, function, plain, "one line for --help")
 * plain: 1 if all its timed kernels are in wh_bench_plain_kernels, too (--plain). The function is
 * wh_status function(whi_bench *b): it runs the case with the allocator that b names, opens the
 * heap that it needs, and leaves that heap empty or closed. docs/BENCHMARK.md says what each case
 * measures. */
#ifndef WHI_BENCH_LIST_H
#define WHI_BENCH_LIST_H

#define WHI_BENCH_CASE_LIST(X)                                                                    \
    X("single", whi_bench_case_rounds, 1, "every thread allocates one block of one size")         \
    X("mixed", whi_bench_case_rounds, 1,                                                          \
      "every thread allocates one block of a random size in 16..size")                            \
    X("warp", whi_bench_case_rounds, 1, "one lane per warp allocates")                            \
    X("scaling", whi_bench_case_rounds, 1, "1, 2, 4, ... threads allocate one block each")        \
    X("churn", whi_bench_case_churn, 1,                                                           \
      "random malloc and free steps inside one kernel, 16..size")                                 \
    X("large", whi_bench_case_rounds, 1, "few large blocks")                                      \
    X("init", whi_bench_case_init, 0, "create and reset a heap")                                  \
    X("reserve", whi_bench_case_reserve, 0, "a heap in reserved addresses: extend and trim")      \
    X("gauge", whi_bench_case_gauge, 1, "malloc and free while a gauge of the heap is read")      \
    X("checked", whi_bench_case_checked, 0,                                                       \
      "malloc and free of a checked heap, and of a plain one")                                    \
    X("utilization", whi_bench_case_utilization, 1, "fill a heap until malloc returns NULL")      \
    X("range", whi_bench_case_range, 1, "address range of a cold round over the bytes requested") \
    X("full", whi_bench_case_full, 1, "malloc and free in a heap that is 50, 90, 99 % full")      \
    X("pressure", whi_bench_case_pressure, 1, "malloc and churn in a heap that has too little")   \
    X("drift", whi_bench_case_drift, 1,                                                           \
      "fragmentation while the sizes in use drift from 16 B to 4 KiB")                            \
    X("streams", whi_bench_case_streams, 1, "two kernels on two streams share one heap")          \
    X("waste", whi_bench_case_waste, 0, "usable bytes beyond the request, over all sizes")        \
    X("first", whi_bench_case_rounds, 1, "the first mallocs in a heap that was just created")     \
    X("server", whi_bench_case_server, 1,                                                         \
      "an aged heap: 16 live blocks a thread, one replaced a round")                              \
    X("slabhash", whi_bench_case_slabhash, 1,                                                     \
      "a hash table of slabs of 128 B: insert, find, sweep")                                      \
    X("cells", whi_bench_case_cells, 0, "lists of cells; the largest block that is left")         \
    X("repeat", whi_bench_case_repeat, 0,                                                         \
      "rounds without a reset and with one: warm-up, variance, address range")                    \
    X("latency", whi_bench_case_latency, 0, "how long single calls take: p50, p99, p99.9, max")   \
    X("access", whi_bench_case_access, 0, "writes and reads of blocks, and of packed memory")     \
    X("work", whi_bench_case_work, 0,                                                             \
      "each thread makes work of a random size; against a prefix sum")                            \
    X("arena", whi_bench_case_arena, 0,                                                           \
      "mallocs in arenas of a lane, a warp, a block, and their close")                            \
    X("fill-log", whi_bench_case_fill_log, 1, "log-uniform sizes: fill, free one half, malloc")   \
    X("graph", whi_bench_case_graph, 0, "adjacency arrays of a dynamic graph")                    \
    X("graph-sets", whi_bench_case_graph_sets, 0,                                                 \
      "a dynamic graph: batches of arcs in and out, and asked for")                               \
    X("graph-mixed", whi_bench_case_graph_mixed, 0,                                               \
      "batches that erase and insert; graphs with values, in order, undirected")                  \
    X("graph-vertices", whi_bench_case_graph_vertices, 0,                                         \
      "vertices come to a dynamic graph, with names and without, and go")                         \
    X("graph-init", whi_bench_case_graph_init, 0,                                                 \
      "a dynamic graph from arrays and back; how much memory it has")                             \
    X("graph-memory", whi_bench_case_graph_memory, 0,                                             \
      "memory of a dynamic graph over rounds of batches; larger heaps")                           \
    X("graph-stream", whi_bench_case_graph_stream, 0,                                             \
      "arcs in order of time go into a dynamic graph, old ones out")                              \
    X("graph-algorithms", whi_bench_case_graph_algorithms, 0,                                     \
      "PageRank, triangles, components, breadth-first search")                                    \
    X("graph-expand", whi_bench_case_graph_expand, 0,                                             \
      "a dynamic graph that grows by many batches, and shrinks")                                  \
    X("ops-join", whi_bench_case_ops_join, 0,                                                     \
      "joins: result in pages; uniform keys, copies, Zipf")                                       \
    X("ops-group", whi_bench_case_ops_group, 0, "group-bys: 1 to 16 M groups, uniform and Zipf")  \
    X("ops-join-paper", whi_bench_case_ops_join_paper, 0,                                         \
      "a join in a heap of which 5 and 50 % are free")                                            \
    X("ops-group-paper", whi_bench_case_ops_group_paper, 0,                                       \
      "a group-by into lists of pages in such a heap")                                            \
    X("kdtree", whi_bench_case_kdtree, 0,                                                         \
      "k-d trees of triangles, in a heap that has room for all arrays")                           \
    X("kdtree-tight", whi_bench_case_kdtree_tight, 0,                                             \
      "in one that has not; the least heap that does")                                            \
    X("walk", whi_bench_case_walk, 0, "random walks: getPage, its steps, and the steps expected") \
    X("crossover", whi_bench_case_crossover, 0, "getPage by 1 to 32 lanes of a warp")             \
    X("scenarios", whi_bench_case_scenarios, 0, "RW_malloc: seven kinds of request")              \
    X("lists", whi_bench_case_lists, 0, "Alloc Dealloc, Alloc Cycle Dealloc, Probability")        \
    X("fragments", whi_bench_case_fragments, 0, "internal and external fragmentation")

#endif

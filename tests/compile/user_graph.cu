/* user_graph.cu: a file of a user, with each call on graphs of a kernel and some of the host's, for
 * users.sh. C11, C++ and CUDA C++. */
#include <warpheap/graph_algorithms.h>
#include <warpheap/graph_device.h>
#include <warpheap/graph_vertices.h>

typedef struct args {
    wh_graph_ref graph;
    wh_heap_ref heap;
    uint32_t *out;
} args;
WH_KERNEL(user, args, a) {
    const uint32_t v = WH_STATIC_CAST(uint32_t, wh_thread_id());
    uint32_t sum = wh_graph_degree(a.graph, v) + wh_graph_neighbours(a.graph, v)[0];
    sum += wh_graph_values(a.graph, v, 0)[0] +
           WH_STATIC_CAST(uint32_t, wh_graph_has_arc(a.graph, v, sum));
    sum += wh_graph_has_warp(a.graph, 0, v);
    sum += wh_graph_insert_lanes(a.graph, a.heap, v, sum);
    a.out[v] = sum + wh_graph_erase_lanes(a.graph, a.heap, WH_GRAPH_NONE, 0);
}

typedef struct inputs {
    wh_graph_options options;
    wh_graph_batch batch;
    wh_graph_vertex_list list;
    wh_graph_run_options run;
} inputs;
wh_status use(const wh_launch *launch, wh_graph *graph, const inputs *in, args *a);
wh_status use(const wh_launch *launch, wh_graph *graph, const inputs *in, args *a) {
    wh_graph_result result;
    wh_graph_stats stats;
    wh_graph_vertices_result vertices;
    wh_graph_bfs_result found;
    wh_status s = wh_graph_create(&graph, &in->options);
    s = s == WH_OK ? wh_graph_insert(graph, &in->batch, &result) : s;
    s = s == WH_OK ? wh_graph_remove_vertices(graph, &in->list, &vertices) : s;
    s = s == WH_OK ? wh_graph_bfs(graph, 0, &in->run, a->out, &found) : s;
    s = s == WH_OK ? wh_graph_get_stats(graph, &stats) : s;
    s = s == WH_OK ? wh_graph_handle(graph, &a->graph) : s;
    return s == WH_OK ? user(launch, a) : s;
}

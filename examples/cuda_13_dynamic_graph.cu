/* cuda_13_dynamic_graph.cu: a graph in the memory of the GPU that changes: a batch of arcs from the
 * host, a kernel that reads it, and one that adds arcs itself. */
/* [graph */
#include <cstdio>
#include <cstdlib>
#include <warpheap/graph_device.h>

static void must(wh_status status) {
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
        std::exit(status == WH_NO_DEVICE ? 77 : 1);
    }
}

/* A thread a vertex: arcs whose other end has an arc back. */
__global__ void count_answered(wh_graph_ref graph, unsigned *answered) {
    const unsigned v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < graph.n_vertices) {
        const uint32_t *to = wh_graph_neighbours(graph, v);
        for (uint32_t i = 0; i < wh_graph_degree(graph, v); i++) {
            atomicAdd(answered, wh_graph_has_arc(graph, to[i], v) ? 1u : 0u);
        }
    }
}

/* A lane an arc, in full warps: each vertex gets an arc back from the next one. */
__global__ void answer(wh_graph_ref graph, wh_heap_ref heap) {
    const unsigned v = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned next = (v + 1) % graph.n_vertices;
    wh_graph_insert_lanes(graph, heap, v < graph.n_vertices ? next : WH_GRAPH_NONE, v);
}

int main() {
    const uint32_t n = 1000;
    wh_heap *heap = nullptr; /* adjacencies lie in it */
    wh_heap_options heap_options = {};
    heap_options.bytes = 64 << 20;
    must(wh_heap_create(&heap, &heap_options));

    wh_graph *graph = nullptr;
    wh_graph_options options = {};
    options.heap = heap;
    options.vertices = n; /* 0 .. 999 */
    must(wh_graph_create(&graph, &options));

    static uint32_t from[n], to[n]; /* a ring: v -> v + 1 */
    for (uint32_t v = 0; v < n; v++) {
        from[v] = v;
        to[v] = (v + 1) % n;
    }
    wh_graph_batch batch = {};
    wh_graph_result result;
    batch.from = from;
    batch.to = to;
    batch.n = n;
    must(wh_graph_insert(graph, &batch, &result));
    std::printf("%llu arcs are new\n", (unsigned long long)result.applied);

    wh_graph_ref graph_ref; /* what kernels get, by value */
    wh_heap_ref heap_ref;
    must(wh_graph_handle(graph, &graph_ref));
    must(wh_heap_handle(heap, &heap_ref));
    unsigned *answered = nullptr;
    cudaMallocManaged(&answered, 2 * sizeof *answered);
    cudaMemset(answered, 0, 2 * sizeof *answered);
    count_answered<<<4, 256>>>(graph_ref, &answered[0]);
    answer<<<4, 256>>>(graph_ref, heap_ref);
    count_answered<<<4, 256>>>(graph_ref, &answered[1]);
    bool right = cudaDeviceSynchronize() == cudaSuccess;
    std::printf("answered: %u, then %u\n", answered[0], answered[1]);
    right = right && answered[0] == 0 && answered[1] == 2 * n;
    cudaFree(answered);
    must(wh_graph_destroy(graph));
    wh_heap_destroy(heap);
    return right ? 0 : 1;
}
/* graph] */

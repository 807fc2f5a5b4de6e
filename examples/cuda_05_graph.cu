/* cuda_05_graph.cu: a CUDA graph of kernels that allocate. wh_malloc is ordinary device code:
 * each launch of the graph allocates anew. The last node of the graph empties the heap, in place
 * of frees. */
#include "cuda_example.h"

struct node {
    node *next;
    int value;
};

__global__ void push(wh_heap_ref heap, node **heads) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    node *fresh = static_cast<node *>(wh_malloc(heap, sizeof(node)));
    if (fresh != nullptr) {
        fresh->next = heads[i];
        fresh->value = i;
        heads[i] = fresh;
    }
}

__global__ void add_up(node **heads, int *sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (const node *at = heads[i]; at != nullptr; at = at->next) {
        sums[i] += at->value;
    }
    heads[i] = nullptr;
}

int main() {
    const int n = 512, launches = 3;
    const example_heap h = example_open(16 << 20);
    node **heads = example_shared<node *>(n);
    int *sums = example_shared<int>(n);
    cudaStream_t stream;
    must(cudaStreamCreate(&stream));
    /* [docs graph */
    cudaGraph_t graph;
    cudaGraphExec_t program;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    push<<<n / 128, 128, 0, stream>>>(h.handle, heads);
    push<<<n / 128, 128, 0, stream>>>(h.handle, heads);
    add_up<<<n / 128, 128, 0, stream>>>(heads, sums);
    must(wh_heap_reset_async(h.heap, stream)); /* recorded, too: all blocks are gone */
    must(cudaStreamEndCapture(stream, &graph));
    must(cudaGraphInstantiate(&program, graph, 0));
    for (int k = 0; k < launches; k++) {
        must(cudaGraphLaunch(program, stream));
    }
    must(cudaStreamSynchronize(stream));
    /* docs] */
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = right && sums[i] == 2 * launches * i;
    }
    must(cudaGraphExecDestroy(program));
    must(cudaGraphDestroy(graph));
    must(cudaStreamDestroy(stream));
    return example_close(h, right);
}

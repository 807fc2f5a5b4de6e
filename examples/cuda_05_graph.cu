/* cuda_05_graph.cu: a CUDA graph of kernels that allocate. wh_malloc and wh_free are ordinary
 * device code: nothing of them is recorded, each launch of the graph allocates anew. */
#include "cuda_example.h"

struct node {
    node *next;
    int value;
};

__global__ void push(wh_heap_t heap, node **heads) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    node *fresh = static_cast<node *>(wh_malloc(heap, sizeof(node)));
    if (fresh != nullptr) {
        fresh->next = heads[i];
        fresh->value = i;
        heads[i] = fresh;
    }
}

__global__ void pop_all(wh_heap_t heap, node **heads, int *sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (heads[i] != nullptr) {
        node *gone = heads[i];
        sums[i] += gone->value;
        heads[i] = gone->next;
        wh_free(heap, gone);
    }
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
    pop_all<<<n / 128, 128, 0, stream>>>(h.handle, heads, sums);
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

/* The kernels of kernel.rs, which says how they are compiled. */
#include <warpheap/warpheap_abi.h>

/* Thread i: a list of the numbers 0 to i. NULL: the heap is full. */
extern "C" __global__ void make_lists(wh_abi1_heap heap, int **lists, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    lists[i] = (int *)wh_abi1_malloc(heap, (i + 1) * sizeof(int));
    for (unsigned k = 0; lists[i] != 0 && k <= i; k++)
        lists[i][k] = (int)k;
}

extern "C" __global__ void free_lists(wh_abi1_heap heap, int **lists, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        wh_abi1_free(heap, lists[i]);
}

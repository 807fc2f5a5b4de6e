/* cuda_02_shapes.cu: a kernel template with two-dimensional blocks and dynamic shared memory.
 * Each block finds the cells of its tile that are not empty and keeps them as a list of just
 * that length; a second kernel adds the lists up and frees them. */
#include "cuda_example.h"

/* [docs shapes */
template <class T> struct cell_list {
    T *cells;
    int n;
};

template <class T>
__global__ void collect(wh_heap_ref heap, const T *grid, int width, cell_list<T> *lists) {
    extern __shared__ int found[]; /* an int for each thread of the block */
    __shared__ int n;
    const int t = threadIdx.y * blockDim.x + threadIdx.x;
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (t == 0) {
        n = 0;
    }
    __syncthreads();
    if (grid[y * width + x] != T(0)) {
        found[atomicAdd(&n, 1)] = y * width + x;
    }
    __syncthreads();
    /* One block of memory for all threads of the block, which make this call together. */
    T *cells = static_cast<T *>(wh_malloc_block(heap, n * sizeof(T)));
    if (cells != nullptr && t < n) {
        cells[t] = grid[found[t]];
    }
    if (t == 0) {
        lists[blockIdx.y * gridDim.x + blockIdx.x] = {cells, cells != nullptr ? n : 0};
    }
}
/* docs] */

template <class T>
__global__ void add_up(wh_heap_ref heap, const cell_list<T> *lists, int n_lists, double *sum) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n_lists) {
        for (int k = 0; k < lists[i].n; k++) {
            atomicAdd(sum, static_cast<double>(lists[i].cells[k]));
        }
        wh_free(heap, lists[i].cells);
    }
}

/* Every third cell of a grid of 64 x 32 has a value. */
template <class T> static bool run(const example_heap &h) {
    const int width = 64, height = 32;
    const dim3 threads(16, 8), blocks(width / threads.x, height / threads.y);
    const int n_lists = static_cast<int>(blocks.x * blocks.y);
    T *grid = example_shared<T>(width * height);
    cell_list<T> *lists = example_shared<cell_list<T>>(n_lists);
    double *sum = example_shared<double>(1), right = 0;
    for (int i = 0; i < width * height; i += 3) {
        grid[i] = static_cast<T>(i % 50 + 1);
        right += i % 50 + 1;
    }
    collect<<<blocks, threads, threads.x * threads.y * sizeof(int)>>>(h.handle, grid, width, lists);
    add_up<<<1, 32>>>(h.handle, lists, n_lists, sum);
    must(cudaDeviceSynchronize());
    return *sum == right;
}

int main() {
    const example_heap h = example_open(16 << 20);
    const bool ints = run<int>(h), floats = run<float>(h);
    return example_close(h, ints && floats);
}

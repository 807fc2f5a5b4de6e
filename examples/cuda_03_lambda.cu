/* cuda_03_lambda.cu: device lambdas that capture the handle by value, as any other small
 * struct. Compile with nvcc --extended-lambda. */
#include "cuda_example.h"

/* [docs lambda */
template <class F> __global__ void each(int n, F work) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        work(i);
    }
}

static void make_rows(wh_heap_ref heap, int **rows, int n) {
    each<<<(n + 127) / 128, 128>>>(n, [=] __device__(int i) {
        int *row = static_cast<int *>(wh_malloc(heap, (i + 1) * sizeof(int)));
        for (int k = 0; row != nullptr && k <= i; k++) {
            row[k] = i;
        }
        rows[i] = row;
    });
}
/* docs] */

static void add_rows(wh_heap_ref heap, int **rows, int n, long long *sums) {
    each<<<(n + 127) / 128, 128>>>(n, [=] __device__(int i) {
        for (int k = 0; rows[i] != nullptr && k <= i; k++) {
            sums[i] += rows[i][k];
        }
        wh_free(heap, rows[i]);
    });
}

int main() {
    const int n = 1000;
    const example_heap h = example_open(16 << 20);
    int **rows = example_shared<int *>(n);
    long long *sums = example_shared<long long>(n);
    make_rows(h.handle, rows, n);
    add_rows(h.handle, rows, n, sums);
    must(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < n; i++) {
        right = right && sums[i] == static_cast<long long>(i) * (i + 1);
    }
    return example_close(h, right);
}

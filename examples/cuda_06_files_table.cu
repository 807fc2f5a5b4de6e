/* cuda_06_files_table.cu: the second file of the example cuda_06_files.cu. */
#include "cuda_06_files.h"

/* [docs rdc */
__device__ int *make_table(int n) {
    int *table = static_cast<int *>(wh_malloc(app_heap, n * sizeof(int)));
    for (int i = 0; table != nullptr && i < n; i++) {
        table[i] = i * i;
    }
    return table;
}
/* docs] */

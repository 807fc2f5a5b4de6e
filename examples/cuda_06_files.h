/* cuda_06_files.h: what the two files of the example share. */
#ifndef CUDA_06_FILES_H
#define CUDA_06_FILES_H

#include <warpheap/warpheap.h>

/* [docs rdc */
extern __device__ wh_heap_ref app_heap; /* defined in one file, set by the host */

__device__ int *make_table(int n); /* in cuda_06_files_table.cu */
/* docs] */

#endif

/* simt/target.h: for whom this file is read. The headers of the host's calls ask here, so
 * that only simt/ knows compilers and targets.
 *
 *   WH_FILE_IS_CUDA   1: a CUDA compiler reads the file (nvcc, clang, NVRTC), its kernels run
 *                     on a GPU. 0: C or C++, its kernels run on the simulated device
 *   WH_HAS_HOST       0: there is no host half (NVRTC): host calls are not declared, and no
 *                     header of the C library is included
 */
#ifndef WH_SIMT_TARGET_H
#define WH_SIMT_TARGET_H

#if defined(__CUDACC__)
#define WH_FILE_IS_CUDA 1
#else
#define WH_FILE_IS_CUDA 0
#endif

#if defined(__CUDACC_RTC__)
#define WH_HAS_HOST 0
#else
#define WH_HAS_HOST 1
#endif

#endif

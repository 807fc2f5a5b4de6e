/* simt/target.h: for whom this file is read. The headers of the host's calls ask here, so
 * that only simt/ knows compilers and targets. Internal: may change.
 *
 *   WH_FILE_IS_CUDA   1: a CUDA compiler reads the file (nvcc, clang, NVRTC), its kernels run
 *                     on a GPU. 0: C or C++, its kernels run on the simulated device
 *   WH_HAS_HOST       0: there is no host half (NVRTC): host calls are not declared, and no
 *                     header of the C library is included
 */
#ifndef WH_SIMT_TARGET_H
#define WH_SIMT_TARGET_H

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define WH_FILE_IS_CUDA 1
#else
#define WH_FILE_IS_CUDA 0
#endif

#if defined(__CUDACC_RTC__)
#define WH_HAS_HOST 0
#else
#define WH_HAS_HOST 1
#endif

#if WH_HAS_HOST
#include <stddef.h>
#include <stdint.h>
#else
/* What the host's types of these names are, so that structures are laid out alike, and mangled
 * names are the same: see simt/begin.h. size_t and NULL are there. */
typedef unsigned char wh_uint8_t;
typedef int wh_int32_t;
typedef unsigned wh_uint32_t;
typedef long wh_int64_t;
typedef unsigned long wh_uint64_t;
typedef unsigned long wh_uintptr_t;
static_assert(sizeof(wh_uint64_t) == 8 && sizeof(size_t) == 8, "warpheap needs 64-bit Linux");
#endif

#endif

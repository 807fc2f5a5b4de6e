/* cuda.h: the part of the CUDA driver's API that the library calls, types alone, declared anew for
 * the stand-in (runtime.c), as cuda_runtime_api.h is. */
#ifndef STANDIN_CUDA_H
#define STANDIN_CUDA_H

#include <stddef.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef enum { CU_MEM_ALLOC_GRANULARITY_MINIMUM } CUmemAllocationGranularity_flags;
enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
typedef enum { CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17 } CUpointer_attribute;
enum { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
typedef struct CUmemLocation {
    int type, id;
} CUmemLocation;
typedef struct CUmemAllocationProp {
    int type;
    CUmemLocation location;
} CUmemAllocationProp;
typedef struct CUmemAccessDesc {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

#endif

/* abi.cu: the functions of abi.c for GPUs, with all that they call, in one relocatable object:
 * cmake/WhAbi.cmake. */
#ifndef __CUDACC_RDC__
#error "compile with -rdc=true"
#endif
#define WH_CHECKED 1 /* a heap of a handle may be a checked one */
#include "abi.c"

#include "hidden.h"

/* linked.cu: the functions of one allocator family that user programs link (WH_FN_LINKED), compiled
 * once, with a limit on their registers: cmake/WhDevice.cmake. */
#ifndef WH_LINKED_DEFINE
#error "compile with -DWH_LINKED_DEFINE=1 -rdc=true"
#endif
#include "warpheap/warpheap.h"

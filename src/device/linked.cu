/* linked.cu: the functions of one allocator family that user programs link (WH_FN_LINKED), compiled
 * once with a limit on their registers; with another one those for free: cmake/WhDevice.cmake. */
#ifndef WH_LINKED_DEFINE
#error "compile with -rdc=true and -DWH_LINKED_DEFINE=1, and once more with 2"
#endif
#include "warpheap/warpheap.h"

#include "hidden.h"

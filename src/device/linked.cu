/* linked.cu: the functions of one allocator family that user programs link (WH_FN_LINKED), compiled
 * once with a limit on their registers; with another one those for free: cmake/WhDevice.cmake. */
#ifndef WH_LINKED_DEFINE
#error "compile with -rdc=true and -DWH_LINKED_DEFINE=1, and once more with 2"
#endif
#include "warpheap/warpheap.h"

/* Behind this line comes nvcc's own code, which registers the file at start with the functions that
 * the device link of a program makes. Those are public, and the dynamic linker gives all modules
 * that link this file (a program and its shared library) the first one's; then the kernels of the
 * others are never registered. Hidden here, they are hidden in the whole module. */
#ifdef __GNUC__
#pragma GCC visibility push(hidden)
#endif

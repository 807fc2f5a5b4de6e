/* built_list.h: in place of the one that the build writes: fault_ops has its own warpheap::ops, for
 * the default allocator, and for one whose heaps can grow if the build has it. */
#ifndef WH_BUILT_LIST_H
#define WH_BUILT_LIST_H

#include "warpheap/detail/alloc/tables.h"

#ifdef FAULT_GROWS
#define FAULT_GROWS_FOR_(X, what) \
    X(what, ouro_s_p, "ouro-s-p", "", "", WH_CAPS_OURO_S_P, WH_ALIGN_64K, 1048576)
#else
#define FAULT_GROWS_FOR_(X, what)
#endif

#define WH_BUILT_LIST_FOR(X, what)                                                \
    X(what, tessera, "tessera", "", "", WH_CAPS_TESSERA, WH_ALIGN_2M, UINT64_MAX) \
    FAULT_GROWS_FOR_(X, what)

#define WH_PARTS_LIST_FOR WH_BUILT_LIST_FOR

#endif

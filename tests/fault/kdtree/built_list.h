/* built_list.h: in place of the one that the build writes: fault_kdtree has its own
 * warpheap::kdtree, for the default allocator, and for bump if the build has it. */
#ifndef WH_BUILT_LIST_H
#define WH_BUILT_LIST_H

#include "warpheap/detail/alloc/tables.h"

#ifdef FAULT_FULL
#define FAULT_FULL_FOR_(X, what) \
    X(what, bump, "bump", "", "", WH_CAPS_BUMP, WH_ALIGN_1M, UINT64_MAX)
#else
#define FAULT_FULL_FOR_(X, what)
#endif

#define WH_BUILT_LIST_FOR(X, what)                                                \
    X(what, tessera, "tessera", "", "", WH_CAPS_TESSERA, WH_ALIGN_2M, UINT64_MAX) \
    FAULT_FULL_FOR_(X, what)

#define WH_PARTS_LIST_FOR WH_BUILT_LIST_FOR

#endif

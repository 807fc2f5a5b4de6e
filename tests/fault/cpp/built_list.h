/* built_list.h: in place of the one that the build writes: fault_cpp has the default allocator
 * alone. */
#ifndef WH_BUILT_LIST_H
#define WH_BUILT_LIST_H

#include "warpheap/detail/alloc/tables.h"

#define WH_BUILT_LIST_FOR(X, what) \
    X(what, tessera, "tessera", "", "", WH_CAPS_TESSERA, WH_ALIGN_2M, UINT64_MAX)

#define WH_PARTS_LIST_FOR WH_BUILT_LIST_FOR

#endif

/* alloc/fdgmalloc/options.h: the options of fdgmalloc. Users include warpheap/options.h.
 * Internal: may change. */
#ifndef WH_ALLOC_FDGMALLOC_OPTIONS_H
#define WH_ALLOC_FDGMALLOC_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_FDGMALLOC_OPTION_LIST(X) \
    X(fdgmalloc, superblock_bytes, "bytes of a super block, a power of two, 64 to 1 MiB") \
    X(fdgmalloc, warps, "warps that have a heap of their own, at most 2^24")
/* clang-format on */

typedef struct wh_fdgmalloc_options {
    wh_options_head head;
    WH_FDGMALLOC_OPTION_LIST(WH_OPTION_FIELD)
} wh_fdgmalloc_options;

#define WH_FDGMALLOC_OPTIONS WH_OPTIONS_INITIAL(fdgmalloc, WH_FDGMALLOC_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

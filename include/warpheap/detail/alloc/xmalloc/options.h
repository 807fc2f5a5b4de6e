/* alloc/xmalloc/options.h: the options of XMalloc. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_XMALLOC_OPTIONS_H
#define WH_ALLOC_XMALLOC_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_XMALLOC_OPTION_LIST(X) \
    X(xmalloc, superblock_bytes, "bytes of a superblock, a power of two, 512 to 1 MiB") \
    X(xmalloc, buffer_entries, "entries of each buffer, a power of two up to 65536")
/* clang-format on */

typedef struct wh_xmalloc_options {
    wh_options_head head;
    WH_XMALLOC_OPTION_LIST(WH_OPTION_FIELD)
} wh_xmalloc_options;

#define WH_XMALLOC_OPTIONS WH_OPTIONS_INITIAL(xmalloc, WH_XMALLOC_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

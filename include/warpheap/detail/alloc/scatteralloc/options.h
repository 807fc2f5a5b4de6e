/* alloc/scatteralloc/options.h: the options of ScatterAlloc. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_SCATTERALLOC_OPTIONS_H
#define WH_ALLOC_SCATTERALLOC_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_SCATTERALLOC_OPTION_LIST(X) \
    X(scatteralloc, page_bytes, "bytes of a page, a power of two, 32 to 1 MiB") \
    X(scatteralloc, region_pages, "pages of a region, a power of two up to 64") \
    X(scatteralloc, superblock_pages, "pages of a super block, a power of two, at least a region's")
/* clang-format on */

typedef struct wh_scatteralloc_options {
    wh_options_head head;
    WH_SCATTERALLOC_OPTION_LIST(WH_OPTION_FIELD)
} wh_scatteralloc_options;

#define WH_SCATTERALLOC_OPTIONS WH_OPTIONS_INITIAL(scatteralloc, WH_SCATTERALLOC_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

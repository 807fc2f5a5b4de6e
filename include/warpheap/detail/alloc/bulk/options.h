/* alloc/bulk/options.h: the options of bulk. Users include warpheap/options.h.
 * Internal: may change. */
#ifndef WH_ALLOC_BULK_OPTIONS_H
#define WH_ALLOC_BULK_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_BULK_OPTION_LIST(X) \
    X(bulk, unit_bytes, "bytes of the smallest node of the tree, a power of two, 512 to 64 KiB") \
    X(bulk, chunk_bins, "bins that a size takes from the tree at once, a power of two up to 32")
/* clang-format on */

typedef struct wh_bulk_options {
    wh_options_head head;
    WH_BULK_OPTION_LIST(WH_OPTION_FIELD)
} wh_bulk_options;

#define WH_BULK_OPTIONS WH_OPTIONS_INITIAL(bulk, WH_BULK_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/gallatin/options.h: the options of Gallatin. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_GALLATIN_OPTIONS_H
#define WH_ALLOC_GALLATIN_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_GALLATIN_OPTION_LIST(X) \
    X(gallatin, segment_bytes, "bytes of a segment, a power of two") \
    X(gallatin, min_slice_bytes, "bytes of the smallest slice, a power of two, at least 16") \
    X(gallatin, max_slice_bytes, "bytes of the largest slice, a power of two") \
    X(gallatin, slices_per_block, "slices in a block, a power of two; 4096 in the paper") \
    X(gallatin, block_buffers, "block buffers of the smallest class; 0: one per SM")
/* clang-format on */

typedef struct wh_gallatin_options {
    wh_options_head head;
    WH_GALLATIN_OPTION_LIST(WH_OPTION_FIELD)
} wh_gallatin_options;

#define WH_GALLATIN_OPTIONS WH_OPTIONS_INITIAL(gallatin, WH_GALLATIN_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

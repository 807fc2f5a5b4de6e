/* alloc/halloc/options.h: the options of Halloc. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_HALLOC_OPTIONS_H
#define WH_ALLOC_HALLOC_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_HALLOC_OPTION_LIST(X) \
    X(halloc, slab_bytes, "bytes of a slab, a power of two, 512 to 16 MiB") \
    X(halloc, busy_percent, "how full a slab is when malloc looks for another one: 1 to 100")
/* clang-format on */

typedef struct wh_halloc_options {
    wh_options_head head;
    WH_HALLOC_OPTION_LIST(WH_OPTION_FIELD)
} wh_halloc_options;

#define WH_HALLOC_OPTIONS WH_OPTIONS_INITIAL(halloc, WH_HALLOC_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

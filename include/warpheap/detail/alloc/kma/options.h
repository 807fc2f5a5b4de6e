/* alloc/kma/options.h: the options of kma. Users include warpheap/options.h.
 * Internal: may change. */
#ifndef WH_ALLOC_KMA_OPTIONS_H
#define WH_ALLOC_KMA_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_KMA_OPTION_LIST(X) \
    X(kma, superblock_bytes, "bytes of a superblock, a power of two, 256 to 64 KiB")
/* clang-format on */

typedef struct wh_kma_options {
    wh_options_head head;
    WH_KMA_OPTION_LIST(WH_OPTION_FIELD)
} wh_kma_options;

#define WH_KMA_OPTIONS WH_OPTIONS_INITIAL(kma, WH_KMA_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

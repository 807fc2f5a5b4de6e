/* alloc/dynasoar/options.h: the options of DynaSOAr. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_DYNASOAR_OPTIONS_H
#define WH_ALLOC_DYNASOAR_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_DYNASOAR_OPTION_LIST(X) \
    X(dynasoar, block_bytes, "bytes of a block of objects, a power of two, 64 to 1 MiB") \
    X(dynasoar, types, "how many structure-of-arrays types there may be: 1 to 63")
/* clang-format on */

typedef struct wh_dynasoar_options {
    wh_options_head head;
    WH_DYNASOAR_OPTION_LIST(WH_OPTION_FIELD)
} wh_dynasoar_options;

#define WH_DYNASOAR_OPTIONS WH_OPTIONS_INITIAL(dynasoar, WH_DYNASOAR_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

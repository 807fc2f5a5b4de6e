/* alloc/rwmalloc/options.h: the options of RW_malloc. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_RWMALLOC_OPTIONS_H
#define WH_ALLOC_RWMALLOC_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_RWMALLOC_OPTION_LIST(X) \
    X(rwmalloc, unit_bytes, "bytes of a unit, a power of two, at least 16") \
    X(rwmalloc, oom_free_ppm, \
      "share of free units, in millionths, below which the walk may give up and a " \
      "sweep follows") \
    X(rwmalloc, oom_error_ppm, "how often the walk may give up above that share, in millionths")
/* clang-format on */

typedef struct wh_rwmalloc_options {
    wh_options_head head;
    WH_RWMALLOC_OPTION_LIST(WH_OPTION_FIELD)
} wh_rwmalloc_options;

#define WH_RWMALLOC_OPTIONS WH_OPTIONS_INITIAL(rwmalloc, WH_RWMALLOC_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/random_walk/options.h: the options of the random walks over pages. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_RANDOM_WALK_OPTIONS_H
#define WH_ALLOC_RANDOM_WALK_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_RANDOM_WALK_OPTION_LIST(X) \
    X(random_walk, page_bytes, "bytes of a page, a power of two, at least 16") \
    X(random_walk, oom_free_ppm, \
      "share of free pages, in millionths, below which malloc may say out of " \
      "memory") \
    X(random_walk, oom_error_ppm, "how often malloc may say so above that share, in millionths") \
    X(random_walk, exact_oom, "1: NULL only after a sweep found no free page")
/* clang-format on */

typedef struct wh_random_walk_options {
    wh_options_head head;
    WH_RANDOM_WALK_OPTION_LIST(WH_OPTION_FIELD)
} wh_random_walk_options;

#define WH_RANDOM_WALK_OPTIONS WH_OPTIONS_INITIAL(random_walk, WH_RANDOM_WALK_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

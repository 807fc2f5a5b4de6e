/* alloc/tessera2/options.h: the options of tessera2. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_TESSERA2_OPTIONS_H
#define WH_ALLOC_TESSERA2_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_TESSERA2_OPTION_LIST(X) \
    X(tessera2, chunk_bytes, "bytes of a chunk, a power of two from 1 to 16 KiB") \
    X(tessera2, shards, "shards of cursors; 0: one per SM, fewer in small heaps") \
    X(tessera2, track_peak, \
      "1: statistics know peak_bytes, for one atomic more per malloc and free of a " \
      "group of lanes") \
    X(tessera2, track_totals, "1: statistics know mallocs and frees, at the same cost")
/* clang-format on */

typedef struct wh_tessera2_options {
    wh_options_head head;
    WH_TESSERA2_OPTION_LIST(WH_OPTION_FIELD)
} wh_tessera2_options;

#define WH_TESSERA2_OPTIONS WH_OPTIONS_INITIAL(tessera2, WH_TESSERA2_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

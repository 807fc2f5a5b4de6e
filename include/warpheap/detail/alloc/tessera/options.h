/* alloc/tessera/options.h: the options of tessera. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_TESSERA_OPTIONS_H
#define WH_ALLOC_TESSERA_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_TESSERA_OPTION_LIST(X) \
    X(tessera, chunk_bytes, "bytes of a chunk, a power of two from 1 to 16 KiB") \
    X(tessera, shards, "shards of cursors; 0: one per SM, fewer in small heaps") \
    X(tessera, track_peak, \
      "1: statistics know peak_bytes, for one atomic more per malloc and free of a " \
      "group of lanes") \
    X(tessera, track_totals, "1: statistics know mallocs and frees, at the same cost") \
    X(tessera, reserve_bytes, "as wh_heap_options.reserve_bytes, where that is 0") \
    X(tessera, granule_bytes, \
      "what a reserved heap maps and gives back at a time, a power of two up to 1 GiB; " \
      "0: a 1024th of reserve_bytes, from 2 to 64 MiB on a GPU") \
    X(tessera, checked, \
      "1: the heap notes overruns, double frees and the like (docs/CHECKED.md); 2: and ends the " \
      "kernel") \
    X(tessera, quarantine_bytes, \
      "of a checked heap: how much freed blocks may take before they are given out again; 0: a " \
      "16th of the heap, at most 16 MiB") \
    X(tessera, poison_bytes, \
      "of a checked heap: of a block so many bytes, from its start, are overwritten by malloc " \
      "and by free, and compared when it leaves the quarantine; 0: 256") \
    X(tessera, violation_records, "of a checked heap: records that it has room for; 0: 256") \
    X(tessera, failure_records, \
      "records of mallocs that returned NULL that the heap has room for; 0: none are made")
/* clang-format on */

typedef struct wh_tessera_options {
    wh_options_head head;
    WH_TESSERA_OPTION_LIST(WH_OPTION_FIELD)
} wh_tessera_options;

#define WH_TESSERA_OPTIONS WH_OPTIONS_INITIAL(tessera, WH_TESSERA_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

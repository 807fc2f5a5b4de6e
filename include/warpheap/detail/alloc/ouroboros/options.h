/* alloc/ouroboros/options.h: the options of the variants of Ouroboros. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_OUROBOROS_OPTIONS_H
#define WH_ALLOC_OUROBOROS_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_OUROBOROS_OPTION_LIST(X) \
    X(ouroboros, chunk_bytes, "bytes of a chunk, a power of two from 512 B to 64 KiB") \
    X(ouroboros, open_chunks, \
      "variants with pages: chunks of a class that are open at a time, up to 128; 0: " \
      "32 to 128, fewer in small heaps") \
    X(ouroboros, queue_entries, \
      "entries of a static queue, links of a queue with an array, or in the cache of " \
      "a linked one") \
    X(ouroboros, linear_bytes, \
      "bytes of a region behind the manager that the caller addresses " \
      "(wh_ouro_linear)") \
    X(ouroboros, keep_chunks, \
      "variants with pages: 1: a chunk keeps its size, as in the paper, until " \
      "wh_heap_compact; 0: malloc takes free ones from other sizes before NULL")
/* clang-format on */

typedef struct wh_ouroboros_options {
    wh_options_head head;
    WH_OUROBOROS_OPTION_LIST(WH_OPTION_FIELD)
} wh_ouroboros_options;

#define WH_OUROBOROS_OPTIONS WH_OPTIONS_INITIAL(ouroboros, WH_OUROBOROS_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/page_queue/options.h: the options of page-queue. Users include
 * warpheap/options.h. Internal: may change. */
#ifndef WH_ALLOC_PAGE_QUEUE_OPTIONS_H
#define WH_ALLOC_PAGE_QUEUE_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning); 0 is the default. */
/* clang-format off */
#define WH_PAGE_QUEUE_OPTION_LIST(X) \
    X(page_queue, page_bytes, "bytes of a page, a power of two, at least 16")
/* clang-format on */

typedef struct wh_page_queue_options {
    wh_options_head head;
    WH_PAGE_QUEUE_OPTION_LIST(WH_OPTION_FIELD)
} wh_page_queue_options;

#define WH_PAGE_QUEUE_OPTIONS WH_OPTIONS_INITIAL(page_queue, WH_PAGE_QUEUE_OPTION_LIST)

#include "warpheap/detail/simt/end.h"

#endif

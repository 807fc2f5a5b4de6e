/* options.h: the options of each allocator family, and how to set them by name. C11 and C++.
 *
 *     wh_tessera_options tessera = WH_TESSERA_OPTIONS;
 *     tessera.track_peak = 1;
 *     wh_heap_options options = {0};
 *     options.bytes = (uint64_t)1 << 30;
 *     options.options = &tessera.head;
 *
 * Each struct is wh_<family>_options: a head, which the initialiser WH_<FAMILY>_OPTIONS fills in,
 * and numbers of 64 bits. 0 is the default of each. wh_heap_create copies the struct. It refuses
 * one of another family than the heap's allocator, and one that is larger than the library knows;
 * of a smaller one, which older headers made, the fields that are missing are 0. `warpheap info`
 * lists all options with what they mean; detail/alloc/<family>/options.h is where they are written
 * down.
 */
#ifndef WH_OPTIONS_H
#define WH_OPTIONS_H

#include "warpheap/types.h"

#include "warpheap/detail/alloc/bulk/options.h"
#include "warpheap/detail/alloc/dynasoar/options.h"
#include "warpheap/detail/alloc/fdgmalloc/options.h"
#include "warpheap/detail/alloc/gallatin/options.h"
#include "warpheap/detail/alloc/halloc/options.h"
#include "warpheap/detail/alloc/kma/options.h"
#include "warpheap/detail/alloc/ouroboros/options.h"
#include "warpheap/detail/alloc/page_queue/options.h"
#include "warpheap/detail/alloc/random_walk/options.h"
#include "warpheap/detail/alloc/rwmalloc/options.h"
#include "warpheap/detail/alloc/scatteralloc/options.h"
#include "warpheap/detail/alloc/tessera/options.h"
#include "warpheap/detail/alloc/xmalloc/options.h"

#include "warpheap/detail/simt/begin.h"

/* X(family, name, meaning): the options of all families. */
#define WH_OPTION_LIST(X)          \
    WH_BULK_OPTION_LIST(X)         \
    WH_DYNASOAR_OPTION_LIST(X)     \
    WH_FDGMALLOC_OPTION_LIST(X)    \
    WH_GALLATIN_OPTION_LIST(X)     \
    WH_HALLOC_OPTION_LIST(X)       \
    WH_KMA_OPTION_LIST(X)          \
    WH_OUROBOROS_OPTION_LIST(X)    \
    WH_PAGE_QUEUE_OPTION_LIST(X)   \
    WH_RANDOM_WALK_OPTION_LIST(X)  \
    WH_RWMALLOC_OPTION_LIST(X)     \
    WH_SCATTERALLOC_OPTION_LIST(X) \
    WH_TESSERA_OPTION_LIST(X)      \
    WH_XMALLOC_OPTION_LIST(X)

/* Room for the options of any family; begins as {0}. Its values are in the order of the fields. */
#define WH_OPTIONS_MOST 16u
typedef struct wh_any_options {
    wh_options_head head;
    uint64_t values[WH_OPTIONS_MOST];
} wh_any_options;

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

/* Sets one option by name, "tessera.track_peak". The first call decides for which family the struct
 * is. BAD_ARGUMENT: no such option, or one of another family; wh_last_error_text says more. */
wh_status wh_options_set(wh_any_options *options, const char *name, uint64_t value);

/* What there is. index counts from 0 over the options of all families; NULL past the end. */
typedef struct wh_option_info {
    const char *family;
    const char *name;    /* "track_peak" */
    const char *meaning; /* one line */
} wh_option_info;
const wh_option_info *wh_option_at(uint32_t index);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

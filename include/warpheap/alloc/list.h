/* alloc/list.h: one line per allocator; everything else (library, conformance
 * suite, benchmark, command line) iterates over this list. The build reads it
 * too: keep one X( per line, identifier and family first.
 *
 * X(ident, family, "name", "title", "source", caps, max_align, max_size)
 *   ident      C name: functions are wh_<ident>_malloc and so on
 *   family     folder and header: alloc/<family>/<family>.h
 *   caps       WH_CAPS_* below: what the design cannot do is left out
 *
 * "default" on the command line and a NULL name mean WH_DEFAULT_ALLOCATOR.
 */
#ifndef WH_ALLOC_LIST_H
#define WH_ALLOC_LIST_H

#include "warpheap/types.h"

#define WH_DEFAULT_ALLOCATOR "tessera"

#define WH_CAPS_GALLATIN                                                                         \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_USABLE_SIZE |   \
     WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_CHECK | WH_CAP_BAD_FREE | WH_CAP_SIM | \
     WH_CAP_RESET | WH_CAP_HANDLE_MEMORY)
#define WH_CAPS_TESSERA                                                                          \
    (WH_CAP_DISJOINT | WH_CAP_FREE | WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_USABLE_SIZE |   \
     WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | WH_CAP_WALK | WH_CAP_CHECK |                  \
     WH_CAP_BAD_FREE | WH_CAP_SIM | WH_CAP_RESET | WH_CAP_HANDLE_MEMORY)
#define WH_CAPS_BUMP                                                                   \
    (WH_CAP_DISJOINT | WH_CAP_ANY_SIZE | WH_CAP_ALIGNED | WH_CAP_OWNS | WH_CAP_STATS | \
     WH_CAP_CHECK | WH_CAP_SIM | WH_CAP_RESET | WH_CAP_HANDLE_MEMORY)
#define WH_CAPS_NULL (WH_CAP_OWNS | WH_CAP_SIM | WH_CAP_RESET | WH_CAP_HANDLE_MEMORY)
#define WH_CAPS_CUDA (WH_CAP_DISJOINT | WH_CAP_FREE)

#define WH_ALIGN_1M (1u << 20)

/* clang-format off */
#define WH_ALLOC_LIST(X) \
    X(tessera, tessera, "tessera", "cursors over slabs, bitmaps, a pool of chunks", "docs/TESSERA.md", WH_CAPS_TESSERA, WH_ALIGN_1M, UINT64_MAX) \
    X(null, null, "null", "floor: computes an address, touches no state", "DESIGN: the null kernel", WH_CAPS_NULL, 16, UINT64_MAX) \
    X(bump, bump, "bump", "one counter, one atomicAdd per warp, no free", "Vinkler and Havran 2015, Algorithm 1, warp-aggregated", WH_CAPS_BUMP, WH_ALIGN_1M, UINT64_MAX) \
    X(bump_plain, bump, "bump-plain", "one counter, one atomicAdd per lane, no free", "Vinkler and Havran 2015, Algorithm 1", WH_CAPS_BUMP, WH_ALIGN_1M, UINT64_MAX) \
    X(cuda, cuda, "cuda", "malloc and free of the CUDA device runtime, for comparison", "CUDA C++ Programming Guide", WH_CAPS_CUDA, 16, UINT64_MAX) \
    X(gallatin, gallatin, "gallatin", "segments, blocks and slices under van Emde Boas trees", "McCoy and Pandey, PPoPP 2024, Algorithms 1-4", WH_CAPS_GALLATIN, WH_ALIGN_1M, UINT64_MAX)
/* clang-format on */

#endif

/* alloc/defaults.h: what an allocator takes for the calls of contract.h that its design does not
 * have, and whose bit its capability record leaves out. Internal: may change.
 *
 *     #define wh_foo_stats WH_NO_STATS
 *     #define wh_foo_walk WH_NO_WALK
 *
 * Each of them does nothing, and says nothing: NULL, 0, WH_UNKNOWN. Two calls that many allocators
 * can do alike are functions, at the end.
 */
#ifndef WH_ALLOC_DEFAULTS_H
#define WH_ALLOC_DEFAULTS_H

#include "warpheap/core/size_class.h"
#include "warpheap/simt.h"
#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

#define WH_NO_INIT(h, i, n) ((void)(h), (void)(i), (void)(n))
#define WH_NO_FREE(h, mask, p) ((void)(h), (void)(mask), (void)(p))
#define WH_NO_ALIGNED(h, mask, align, n) \
    ((void)(h), (void)(mask), (void)(align), (void)(n), (void *)NULL) /* MAX_ALIGN is 16 */
#define WH_NO_USABLE_SIZE(h, p) ((void)(h), (void)(p), (uint64_t)0)
#define WH_NO_OWNS(h, p) ((void)(h), (void)(p), 0)
#define WH_NO_STATS(h, i, n, s) ((void)(h), (void)(i), (void)(n), (void)(s))
#define WH_NO_CHECK(h, i, n, r) ((void)(h), (void)(i), (void)(n), (void)(r))
#define WH_NO_WALK(h, i, n, sink) ((void)(h), (void)(i), (void)(n), (void)(sink))
#define WH_NO_LEFT(h, bytes, i, n) ((void)(h), (void)(bytes), (void)(i), (void)(n), WH_UNKNOWN)

/* aligned of an allocator whose blocks are at multiples of 16 and may be used from any place on:
 *     return wh_align_up(wh_foo_malloc(h, mask, wh_room_to_align(n, align)), align);
 * All lanes of mask go on together, also those that will get NULL. */
WH_FN size_t wh_room_to_align(size_t n, size_t align) {
    const size_t extra = align - 16;
    wh_assert(wh_is_pow2(align) && align >= 16);
    if (n == 0) {
        return 0;
    }
    return n > SIZE_MAX - extra ? SIZE_MAX : n + extra;
}
WH_FN void *wh_align_up(void *p, size_t align) {
    const uintptr_t skip = (0 - (uintptr_t)p) & (uintptr_t)(align - 1);
    return p != NULL ? (unsigned char *)p + skip : NULL;
}

#include "warpheap/detail/simt/end.h"

#endif

/* core/hash.h: numbers far apart from numbers in a row, by the golden ratio (Knuth, The Art of
 * Computer Programming 3, section 6.4, multiplicative hashing).
 *
 * wh_spread32(k) is the place k of a sequence in which n places in a row lie evenly in 0..2^32 - 1:
 * no three of them in the same n-th part. So takers that look where their number says seldom
 * meet. The map is one to one. It is no random number: its low bits are those of an odd multiple.
 *
 *     wh_spread32(1) == 2654435761u     // 2^32 times 0.618...
 *     (uint64_t)wh_spread32(k) * n >> 32   // a place of 0..n - 1
 *
 * Lanes: any lane alone. Cost: one multiplication. Test: tests/unit/hash.c.
 */
#ifndef WH_CORE_HASH_H
#define WH_CORE_HASH_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

WH_HD uint32_t wh_spread32(uint32_t k) {
    return k * 2654435761u;
}

#include "warpheap/detail/simt/end.h"

#endif

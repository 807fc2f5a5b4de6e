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
 * wh_spread64(k) is the same for 64 bits.
 *
 * wh_mix32(k) and wh_mix64(k) are for tables whose keys may be anything: each bit of k changes each
 * bit of 32 with about even odds. wh_mix32 is one to one (constants: C. Wellons, hash-prospector);
 * wh_mix64 is the upper half of a map that is (constants: D. Stafford's mix 13).
 *
 * Lanes: any lane alone. Cost: one multiplication, two, two of 64 bits. Test: tests/unit/hash.c.
 */
#ifndef WH_CORE_HASH_H
#define WH_CORE_HASH_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

WH_HD uint32_t wh_spread32(uint32_t k) {
    return k * 2654435761u;
}

WH_HD uint64_t wh_spread64(uint64_t k) {
    return k * 0x9e3779b97f4a7c15u;
}

WH_HD uint32_t wh_mix32(uint32_t k) {
    k = (k ^ k >> 16) * 0x7feb352du;
    k = (k ^ k >> 15) * 0x846ca68bu;
    return k ^ k >> 16;
}

WH_HD uint32_t wh_mix64(uint64_t k) {
    k = (k ^ k >> 30) * 0xbf58476d1ce4e5b9u;
    k = (k ^ k >> 27) * 0x94d049bb133111ebu;
    return wh_high_u32(k ^ k >> 31);
}

#include "warpheap/detail/simt/end.h"

#endif

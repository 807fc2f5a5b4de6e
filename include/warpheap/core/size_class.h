/* core/size_class.h: rounding, size classes of powers of two, and those with four sizes to each
 * doubling. Host and device; plain arithmetic, checked exhaustively by tests/unit/size_class.c. */
#ifndef WH_CORE_SIZECLASS_H
#define WH_CORE_SIZECLASS_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

WH_HD int wh_is_pow2(uint64_t n) {
    return n != 0 && (n & (n - 1)) == 0;
}

/* n up to the next multiple of a power of two. n + align must not overflow. */
WH_HD uint64_t wh_round_up(uint64_t n, uint64_t align) {
    wh_assert(wh_is_pow2(align) && n <= UINT64_MAX - align);
    return (n + align - 1) & ~(align - 1);
}

/* Exponent of the largest power of two <= n; n >= 1. */
WH_HD uint32_t wh_log2_floor(uint64_t n) {
    wh_assert(n != 0);
    return 63u - wh_clz64(n);
}

/* Exponent of the smallest power of two >= n, which may be 2^64; n >= 1. */
WH_HD uint32_t wh_log2_ceil(uint64_t n) {
    wh_assert(n != 0);
    return n <= 1 ? 0 : 64u - wh_clz64(n - 1);
}

/* Class of a request among the sizes min << 0, min << 1, ...: the smallest that
 * holds n bytes. min = 2^min_log2; n >= 1. */
WH_HD uint32_t wh_pow2_class(uint64_t n, uint32_t min_log2) {
    const uint32_t e = wh_log2_ceil(n);
    return e <= min_log2 ? 0 : e - min_log2;
}

/* Class of a request among 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, ...: the
 * smallest that holds n bytes; n >= 1. At most a fifth of a block of 64 bytes or more is lost. */
WH_HD uint32_t wh_quarter_class(uint64_t n) {
    const uint64_t units = (n - 1) / 16 + 1;
    wh_assert(n != 0);
    if (units < 4) {
        return (uint32_t)units - 1;
    }
    const uint32_t e = 61 - wh_clz64(units); /* a step is 2^e units; units >> e is 4 to 7 */
    return 4 * e + (uint32_t)((units - 1) >> e);
}

/* Bytes of a block of that class. */
WH_HD uint64_t wh_quarter_size(uint32_t c) {
    wh_assert(c < 4 * 58);
    return c < 3 ? 16 * (uint64_t)(c + 1) : (uint64_t)(4 + ((c + 1) & 3)) << ((c + 1) / 4 - 1 + 4);
}

#include "warpheap/detail/simt/end.h"

#endif

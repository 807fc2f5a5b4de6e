/* core/size_class.h: rounding and power-of-two size classes. Host and device; plain
 * arithmetic, checked exhaustively by tests/unit/size_class.c. */
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

#include "warpheap/detail/simt/end.h"

#endif

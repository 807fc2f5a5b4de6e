/* alloc/rwmalloc/bits.h: runs of ones in a word. It may change. */
#ifndef WH_ALLOC_RWMALLOC_BITS_H
#define WH_ALLOC_RWMALLOC_BITS_H

#include "warpheap/core/select.h"
#include "warpheap/core/use_word.h"

#include "warpheap/detail/simt/begin.h"

/* Bits at which n ones in a row start, 1 <= n <= 32. */
WH_HD uint64_t wh_rwmalloc_starts_(uint64_t free, uint32_t n) {
    uint32_t have = 1;
    wh_assert_internal(n != 0 && n <= WH_USE_BITS);
    while (have * 2 <= n) {
        free &= free >> have;
        have *= 2;
    }
    return have < n ? free & free >> (n - have) : free;
}

/* How many runs of n ones side by side a word has, taken from the lowest on. */
WH_HD uint32_t wh_rwmalloc_segments_(uint32_t free, uint32_t n) {
    wh_assert_internal(n != 0 && n <= WH_USE_BITS);
    if (n == 1 || free == ~0u) {
        return wh_popc32(free) / n;
    }
    uint32_t k = 0;
    for (uint64_t starts = wh_rwmalloc_starts_(free, n); starts != 0; k++) {
        starts &= ~(uint64_t)0 << (wh_ctz64(starts) + n);
    }
    return k;
}

/* The first bit of the k-th of these, from 0. */
WH_HD uint32_t wh_rwmalloc_segment_(uint32_t free, uint32_t n, uint32_t k) {
    wh_assert_internal(n != 0 && n <= WH_USE_BITS && k < wh_rwmalloc_segments_(free, n));
    if (n == 1) {
        return wh_select32(free, k + 1);
    }
    if (free == ~0u) {
        return k * n;
    }
    uint64_t starts = wh_rwmalloc_starts_(free, n);
    for (; k != 0; k--) {
        starts &= ~(uint64_t)0 << (wh_ctz64(starts) + n);
    }
    return wh_ctz64(starts);
}

/* The bits of the first k of these. */
WH_HD uint32_t wh_rwmalloc_first_(uint32_t free, uint32_t n, uint32_t k) {
    const uint64_t below =
        k != 0 ? ((uint64_t)1 << (wh_rwmalloc_segment_(free, n, k - 1) + n)) - 1 : 0;
    if (n == 1 || free == ~0u) {
        return free & (uint32_t)below;
    }
    uint64_t starts = wh_rwmalloc_starts_(free, n) & below, bits = 0;
    while (starts != 0) {
        const uint32_t b = wh_ctz64(starts);
        bits |= (((uint64_t)1 << n) - 1) << b;
        starts &= ~(uint64_t)0 << (b + n);
    }
    return (uint32_t)(bits & below);
}

/* n ones from bit b on, 1 <= n <= 32, b < 32. */
WH_HD uint64_t wh_rwmalloc_bits_(uint32_t n, uint32_t b) {
    wh_assert_internal(n != 0 && n <= WH_USE_BITS && b < WH_USE_BITS);
    return (((uint64_t)1 << n) - 1) << b;
}

/* Lane of that rank in mask. */
WH_FN uint32_t wh_rwmalloc_lane_(wh_mask mask, uint32_t rank) {
    wh_assert_internal(rank < wh_popc32(mask));
    return mask == WH_FULL_WARP ? rank : wh_select32(mask, rank + 1);
}

/* The part of word k that units first..first+n-1 are. */
WH_HD uint32_t wh_rwmalloc_part_(uint32_t k, uint32_t first, uint32_t n) {
    const uint64_t from = (uint64_t)k * WH_USE_BITS, end = (uint64_t)first + n;
    wh_assert_internal(from < end && first < from + WH_USE_BITS);
    const uint32_t low = first > from ? (uint32_t)(first - from) : 0;
    const uint32_t high = end - from < WH_USE_BITS ? (uint32_t)(end - from) : WH_USE_BITS;
    return (uint32_t)((((uint64_t)1 << high) - 1) & ~(((uint64_t)1 << low) - 1));
}

#include "warpheap/detail/simt/end.h"

#endif

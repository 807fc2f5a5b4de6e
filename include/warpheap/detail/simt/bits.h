/* simt/bits.h: the bit helpers of simt.h as C says them: for the simulated device, and for the
 * host's half of a CUDA file. Internal: may change. WH_HD is the including file's. */
#ifndef WH_SIMT_BITS_H
#define WH_SIMT_BITS_H

#include "warpheap/detail/simt/begin.h"

WH_HD uint32_t wh_popc32(uint32_t v) {
    return (uint32_t)__builtin_popcount(v);
}
WH_HD uint32_t wh_popc64(uint64_t v) {
    return (uint32_t)__builtin_popcountll(v);
}
WH_HD uint32_t wh_ctz32(uint32_t v) {
    return (uint32_t)__builtin_ctz(v);
}
WH_HD uint32_t wh_ctz64(uint64_t v) {
    return (uint32_t)__builtin_ctzll(v);
}
WH_HD uint32_t wh_clz32(uint32_t v) {
    return (uint32_t)__builtin_clz(v);
}
WH_HD uint32_t wh_clz64(uint64_t v) {
    return (uint32_t)__builtin_clzll(v);
}
WH_HD uint32_t wh_msb32(uint32_t v) {
    return 31u - wh_clz32(v);
}
WH_HD uint64_t wh_ones_from_u64(uint32_t n) {
    return n < 64 ? ~(uint64_t)0 << n : 0;
}
WH_HD uint32_t wh_low_u32(uint64_t v) {
    return (uint32_t)v;
}
WH_HD uint32_t wh_high_u32(uint64_t v) {
    return (uint32_t)(v >> 32);
}
WH_HD uint64_t wh_mul_wide_u32(uint32_t a, uint32_t b) {
    return (uint64_t)a * b;
}
WH_HD uint64_t wh_again_u64(uint64_t v) {
    return v;
}

#include "warpheap/detail/simt/end.h"

#endif

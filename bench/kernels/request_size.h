/* request_size.h: random request sizes, device code that needs no heap. */
#ifndef WHI_BENCH_REQUEST_SIZE_H
#define WHI_BENCH_REQUEST_SIZE_H

#include "warpheap/simt.h"

WH_FN uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 29;
    x *= 0xa0761d6478bd642fu;
    return x ^ (x >> 32);
}

/* Uniform in lo..hi; hi - lo is below 2^32. */
WH_FN uint64_t pick_size(uint64_t random, uint64_t lo, uint64_t hi) {
    return lo + (((random >> 32) * (hi - lo + 1)) >> 32);
}

WH_FN uint64_t size_of(uint64_t seed, uint64_t i, uint64_t lo, uint64_t hi) {
    return lo == hi ? lo : pick_size(mix(seed + i), lo, hi);
}

#endif

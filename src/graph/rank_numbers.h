/* rank_numbers.h: ranks of PageRank as integers of 2^-62, for kernels of one device and of several
 * ranks. Sums of them are the same bits whoever adds what first. */
#ifndef WHI_GRAPH_RANK_NUMBERS_H
#define WHI_GRAPH_RANK_NUMBERS_H

#include "warpheap/simt.h"

#define WHI_RANK_ONE ((uint64_t)1 << 62)
#define RANK_ONE_FLOAT 4611686018427387904.0f /* the same, exactly */

/* x by a fraction in 2^-64, rounded down. */
WH_FN uint64_t fraction_of(uint64_t x, uint64_t fraction) {
    const uint32_t xl = wh_low_u32(x), xh = wh_high_u32(x);
    const uint32_t fl = wh_low_u32(fraction), fh = wh_high_u32(fraction);
    const uint64_t a = wh_mul_wide_u32(xh, fl), b = wh_mul_wide_u32(xl, fh);
    const uint64_t middle =
        (uint64_t)wh_high_u32(wh_mul_wide_u32(xl, fl)) + wh_low_u32(a) + wh_low_u32(b);
    return wh_mul_wide_u32(xh, fh) + wh_high_u32(a) + wh_high_u32(b) + wh_high_u32(middle);
}

/* A sum of ranks that the caller begins with, in 2^-31 and 2^-62, neither of which can be too
 * large, however many vertices there are; and how many are no ranks. */
typedef struct rank_sum {
    uint64_t upper, lower, bad;
} rank_sum;

WH_FN void add_rank(rank_sum *sum, float x) {
    if (x >= 0.0f && x <= 1.0f) {
        const uint64_t fixed = (uint64_t)(x * RANK_ONE_FLOAT);
        sum->upper += fixed >> 31;
        sum->lower += fixed & 0x7fffffff;
    } else { /* or it is no number */
        sum->bad++;
    }
}

#endif

/* core/select.h: where the k-th set bit of a word lies, by binary search with population
 * counts (Pham et al., TOPC 2025, Algorithm 4, "fks"). Five steps for 32 bits; the
 * hardware's own instruction for it is a slow software loop.
 *
 *     wh_select32(0x16, 1) == 1, wh_select32(0x16, 3) == 4
 *
 * Lanes: any lane alone. Cost: no memory. Test: tests/unit/select.c.
 */
#ifndef WH_CORE_KTH_BIT_H
#define WH_CORE_KTH_BIT_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_BIT_NONE 32u

/* Index of the k-th set bit of x, counted from 1; WH_BIT_NONE if x has fewer, or k = 0.
 * (The paper's function is 1-based and returns 0.) */
WH_HD uint32_t wh_select32(uint32_t x, uint32_t k) {
    if (k == 0 || wh_popc32(x) < k) {
        return WH_BIT_NONE;
    }
    uint32_t at = 0;
    for (uint32_t half = 16; half != 0; half /= 2) {
        const uint32_t below = wh_popc32(x & ((1u << half) - 1));
        if (below < k) { /* it is in the upper half */
            k -= below;
            x >>= half;
            at += half;
        }
    }
    return at;
}

#include "warpheap/detail/simt/end.h"

#endif

/* pattern.h: request sizes, the patterns that blocks are filled with, and what is checked
 * of them: device code that the benchmark's kernel files share. */
#ifndef WHI_BENCH_PATTERN_H
#define WHI_BENCH_PATTERN_H

#include "bench/kernels/bench_kernels.h"
#include "bench/kernels/request_size.h"
#include "warpheap/warpheap.h"

/* Log-uniform in lo..lo * 2^(octaves / 65536), both about 16..4096: as many requests between 16 and
 * 32 as between 2048 and 4096. In fixed point: the power of two below the size, and 2^f for the
 * rest by a square polynomial, which is off by 0.3 % at most. */
WH_FN uint64_t pick_log(uint64_t random, uint64_t lo, uint32_t octaves) {
    const uint64_t t = (random >> 32) * octaves >> 32;
    const uint64_t f = t & 0xffff;
    const uint64_t power = 65536 + (f * (43024 + (22512 * f >> 16)) >> 16);
    return ((lo * power << (t >> 16)) + 32768) >> 16;
}

WH_FN uint64_t unit_value(uint64_t tag, uint64_t unit) {
    return tag ^ (unit * 0x9e3779b97f4a7c15u);
}

WH_FN void fill_unit(unsigned char *p, uint64_t unit, uint64_t tag) {
    uint64_t *q = (uint64_t *)(void *)(p + 16 * unit);
    const uint64_t v = unit_value(tag, unit);
    q[0] = v;
    q[1] = ~v;
}

WH_FN int unit_differs(const unsigned char *p, uint64_t unit, uint64_t tag) {
    const uint64_t *q = (const uint64_t *)(const void *)(p + 16 * unit);
    const uint64_t v = unit_value(tag, unit);
    return ((q[0] ^ v) | (q[1] ^ ~v)) != 0; /* one wait for both */
}

/* Stamps share `first` of `step` of the block at p: units first, first + step, ...
 * of each part named in bench_kernels.h; no two shares write the same unit. Share 0
 * also takes the bytes after the last whole unit. */
WH_FN void fill_block(unsigned char *p, uint64_t n, uint64_t tag, uint64_t first, uint64_t step) {
    const uint64_t units = n / 16;
    const uint64_t ends = WH_BENCH_STRIDE / 16;
    uint64_t u;
    if (n <= WH_BENCH_WHOLE) {
        for (u = first; u < units; u += step) {
            fill_unit(p, u, tag);
        }
    } else {
        const uint64_t skip = ((uint64_t)0 - (uint64_t)(uintptr_t)p) % WH_BENCH_STRIDE / 16;
        for (u = first; u < ends; u += step) {
            fill_unit(p, u, tag);
            fill_unit(p, units - 1 - u, tag);
        }
        for (u = skip + (first + 1) * ends; u < units - ends; u += step * ends) {
            fill_unit(p, u, tag);
        }
    }
    if (first == 0) {
        for (u = units * 16; u < n; u++) {
            p[u] = (unsigned char)(tag >> (8 * (u & 7)));
        }
    }
}

WH_FN int block_differs(const unsigned char *p, uint64_t n, uint64_t tag, uint64_t first,
                        uint64_t step) {
    const uint64_t units = n / 16;
    const uint64_t ends = WH_BENCH_STRIDE / 16;
    int differs = 0;
    uint64_t u;
    if (n <= WH_BENCH_WHOLE) {
        for (u = first; u < units; u += step) {
            differs |= unit_differs(p, u, tag);
        }
    } else {
        const uint64_t skip = ((uint64_t)0 - (uint64_t)(uintptr_t)p) % WH_BENCH_STRIDE / 16;
        for (u = first; u < ends; u += step) {
            differs |= unit_differs(p, u, tag);
            differs |= unit_differs(p, units - 1 - u, tag);
        }
        for (u = skip + (first + 1) * ends; u < units - ends; u += step * ends) {
            differs |= unit_differs(p, u, tag);
        }
    }
    if (first == 0) {
        for (u = units * 16; u < n; u++) {
            differs |= p[u] != (unsigned char)(tag >> (8 * (u & 7)));
        }
    }
    return differs;
}

/* Share `share` of `step` of setting one bit for each 16 bytes of a block that lies `offset`
 * bytes behind what bit 0 stands for. Whether one was set already: of two blocks that
 * share 16 bytes, the one that comes second finds it so. */
WH_FN int claim_block(uint32_t *claimed, uint64_t offset, uint64_t n, uint64_t share,
                      uint64_t step) {
    const uint64_t first = offset / 16;
    const uint64_t last = first + (n - 1) / 16;
    int bad = 0;
    for (uint64_t w = first / 32 + share; w <= last / 32; w += step) {
        uint32_t bits = UINT32_MAX;
        bits = w == first / 32 ? bits << (first % 32) : bits;
        bits = w == last / 32 ? bits & (UINT32_MAX >> (31 - last % 32)) : bits;
        bad |= (wh_fetch_or_u32_relaxed(&claimed[w], bits) & bits) != 0;
    }
    return bad;
}

/* Whether a block may be written: aligned and, where the allocator can tell, inside
 * the heap. Anything else is counted as bad and left alone. */
WH_FN int placed_well(wh_heap_ref heap, int use_owns, const void *p, uint64_t n) {
    const unsigned char *b = (const unsigned char *)p;
    return ((uintptr_t)p & 15) == 0 &&
           (!use_owns || (wh_owns(heap, b) && wh_owns(heap, b + n - 1)));
}

#endif

/* block_words.h: the 4-byte words that the cases access and work write to blocks: device code that
 * needs no heap. */
#ifndef WHI_BENCH_BLOCK_WORDS_H
#define WHI_BENCH_BLOCK_WORDS_H

#include "bench/kernels/request_size.h"
#include "warpheap/core/hash.h"

/* Word k of block i. */
WH_FN uint32_t word_of(uint64_t seed, uint64_t i, uint32_t k) {
    return wh_spread32((uint32_t)(seed + i)) + k;
}

WH_FN void write_words(uint32_t *p, uint64_t seed, uint64_t i, uint64_t size) {
    const uint32_t n = (uint32_t)(size / 4);
    for (uint32_t k = 0; k < n; k++) {
        p[k] = word_of(seed, i, k);
    }
}

#endif

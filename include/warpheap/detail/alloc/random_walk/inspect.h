/* alloc/random_walk/inspect.h: statistics, check and walk, on a quiet heap. It may change. */
#ifndef WH_ALLOC_RANDOM_WALK_INSPECT_H
#define WH_ALLOC_RANDOM_WALK_INSPECT_H

#include "warpheap/detail/alloc/random_walk/layout.h"

#include "warpheap/detail/simt/begin.h"

WH_FN uint32_t wh_random_walk_used_(wh_random_walk_ref h, uint32_t word) {
    const uint32_t exist = wh_random_walk_exist_(h, word);
    if (h.words != NULL) {
        return (uint32_t)wh_load_u64_relaxed(&h.words[word]) & exist;
    }
    uint32_t used = 0;
    for (uint32_t b = 0; b < WH_USE_BITS && (exist >> b & 1) != 0; b++) {
        used |= (wh_load_u32_relaxed(&h.flags[word * WH_USE_BITS + b]) & 1) << b;
    }
    return used;
}

WH_FN void wh_rw_stats(wh_random_walk_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    const uint64_t page = (uint64_t)1 << h.page_log2;
    uint64_t used = 0;
    int room = 0;
    for (uint64_t k = i; k < h.n_words; k += n) {
        const uint32_t bits = wh_random_walk_used_(h, (uint32_t)k);
        used += wh_popc32(bits);
        room |= bits != wh_random_walk_exist_(h, (uint32_t)k);
    }
    wh_add_u64_relaxed(&s->used_bytes, used * page);
    wh_add_u64_relaxed(&s->live_blocks, used);
    wh_add_u64_relaxed(&s->classes[0].live, used);
    if (room) {
        (void)wh_fetch_max_u64_relaxed(&s->largest_free, page);
    }
    if (i == 0) {
        s->failed = wh_load_u64_relaxed(&h.header->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.header->bad_frees);
        s->n_classes = 1;
        s->classes[0].block_bytes = page;
        s->classes[0].capacity = h.pages;
    }
}

WH_FN void wh_rw_check(wh_random_walk_ref h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint64_t k = i; h.words != NULL && k < h.n_words; k += n) {
        const uint32_t exist = wh_random_walk_exist_(h, (uint32_t)k);
        if (((uint32_t)wh_load_u64_relaxed(&h.words[k]) | exist) != ~0u) { /* I2 */
            wh_report_error(r, 2, k);
        }
        if ((wh_load_u64_relaxed(&h.words[k]) & WH_RANDOM_WALK_LOCK) != 0) { /* I3 */
            wh_report_error(r, 3, k);
        }
    }
}

WH_FN void wh_rw_walk(wh_random_walk_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    for (uint64_t k = i; k < h.n_words; k += n) {
        for (uint32_t bits = wh_random_walk_used_(h, (uint32_t)k); bits != 0; bits &= bits - 1) {
            const uint32_t page = (uint32_t)k * WH_USE_BITS + wh_ctz32(bits);
            wh_walk_emit(sink, wh_random_walk_address_(h, page), (uint64_t)1 << h.page_log2);
        }
    }
}

/* Free pages. Unless exact_oom is set, malloc may say NULL while there are some. */
WH_FN uint64_t wh_rw_left(wh_random_walk_ref h, uint64_t bytes, uint64_t i, uint64_t n) {
    uint64_t left = 0;
    for (uint64_t k = bytes != 0 && bytes <= (uint64_t)1 << h.page_log2 ? i : h.n_words;
         k < h.n_words; k += n) {
        left += wh_popc32(wh_random_walk_exist_(h, (uint32_t)k) &
                          ~wh_random_walk_used_(h, (uint32_t)k));
    }
    return left;
}

#include "warpheap/detail/simt/end.h"

#endif

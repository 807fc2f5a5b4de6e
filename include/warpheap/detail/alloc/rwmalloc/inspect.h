/* alloc/rwmalloc/inspect.h: statistics, check and walk, on a quiet heap. It may change. */
#ifndef WH_ALLOC_RWMALLOC_INSPECT_H
#define WH_ALLOC_RWMALLOC_INSPECT_H

#include "warpheap/detail/alloc/rwmalloc/layout.h"

#include "warpheap/detail/simt/begin.h"

WH_FN int wh_rwmalloc_is_used_(wh_rwmalloc_ref h, uint64_t unit) {
    return (int)(wh_load_u64_relaxed(&h.words[unit / WH_USE_BITS]) >> unit % WH_USE_BITS & 1);
}

/* Units from `unit` on that are free (or used) in a row; looks at no more than `most` and
 * those in the same word. */
WH_FN uint64_t wh_rwmalloc_stretch_(wh_rwmalloc_ref h, uint64_t unit, int used, uint64_t most) {
    uint64_t end = unit;
    while (end < h.units && end - unit < most) {
        const uint32_t word = (uint32_t)wh_load_u64_relaxed(&h.words[end / WH_USE_BITS]);
        const uint32_t others = (used ? ~word : word) >> end % WH_USE_BITS;
        if (others != 0) {
            end += wh_ctz32(others);
            break;
        }
        end = (end / WH_USE_BITS + 1) * WH_USE_BITS;
    }
    return (end < h.units ? end : h.units) - unit;
}

WH_FN void wh_rwmalloc_stats(wh_rwmalloc_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    uint64_t used = 0, live = 0, largest = 0;
    for (uint64_t u = i; u < h.units; u += n) {
        const uint32_t state = wh_load_u32_relaxed(&h.state[u]);
        if ((state & WH_RWMALLOC_RUN) != 0) {
            used += (uint64_t)(state & ~WH_RWMALLOC_RUN) << h.unit_log2;
            live++;
        } else {
            for (uint32_t starts = state & 0xffff; starts != 0; starts &= starts - 1) {
                used += (uint64_t)wh_rwmalloc_length_(state, wh_ctz32(starts)) << h.granule_log2;
                live++;
            }
        }
    }
    for (uint64_t k = i; k < h.n_words; k += n) { /* segments that start in this word */
        const uint32_t free = wh_use_free(wh_load_u64_relaxed(&h.words[k]));
        const int before = k != 0 && !wh_rwmalloc_is_used_(h, k * WH_USE_BITS - 1);
        for (uint32_t starts = free & ~(free << 1 | (before ? 1u : 0)); starts != 0;
             starts &= starts - 1) {
            const uint64_t length =
                wh_rwmalloc_stretch_(h, k * WH_USE_BITS + wh_ctz32(starts), 0, h.units);
            largest = length > largest ? length : largest;
        }
    }
    wh_add_u64_relaxed(&s->used_bytes, used);
    wh_add_u64_relaxed(&s->live_blocks, live);
    (void)wh_fetch_max_u64_relaxed(&s->largest_free, largest << h.unit_log2);
    if (i == 0) {
        s->failed = wh_load_u64_relaxed(&h.header->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.header->bad_frees);
    }
}

WH_FN void wh_rwmalloc_check(wh_rwmalloc_ref h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint64_t k = i; k < h.n_words; k += n) {
        if (((uint32_t)wh_load_u64_relaxed(&h.words[k]) | wh_rwmalloc_exist_(h, k)) != ~0u) {
            wh_report_error(r, 3, k);
        }
    }
    for (uint64_t u = i; u < h.units; u += n) { /* I2, by induction from unit to unit */
        const uint32_t state = wh_load_u32_relaxed(&h.state[u]);
        const uint64_t length = (state & WH_RWMALLOC_RUN) != 0 ? state & ~WH_RWMALLOC_RUN : 1;
        if (state != 0) {
            const uint64_t end = u + length;
            const int pieces = (state & WH_RWMALLOC_RUN) != 0 || (state & 0xffff) != 0;
            if (!pieces || length == 0 || wh_rwmalloc_stretch_(h, u, 1, length) < length ||
                (end < h.units && wh_rwmalloc_is_used_(h, end) &&
                 wh_load_u32_relaxed(&h.state[end]) == 0)) {
                wh_report_error(r, 2, u);
            }
        } else if (wh_rwmalloc_is_used_(h, u)) {
            const uint32_t before = u != 0 ? wh_load_u32_relaxed(&h.state[u - 1]) : 0;
            if (u == 0 || !wh_rwmalloc_is_used_(h, u - 1) ||
                (before != 0 && (before & WH_RWMALLOC_RUN) == 0)) {
                wh_report_error(r, 2, u);
            }
        }
    }
}

WH_FN void wh_rwmalloc_walk(wh_rwmalloc_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    for (uint64_t u = i; u < h.units; u += n) {
        const uint32_t state = wh_load_u32_relaxed(&h.state[u]);
        unsigned char *p = (unsigned char *)wh_rwmalloc_address_(h, (uint32_t)u);
        if ((state & WH_RWMALLOC_RUN) != 0) {
            wh_walk_emit(sink, p, (uint64_t)(state & ~WH_RWMALLOC_RUN) << h.unit_log2);
            continue;
        }
        for (uint32_t starts = state & 0xffff; starts != 0; starts &= starts - 1) {
            const uint32_t at = wh_ctz32(starts);
            wh_walk_emit(sink, p + ((uint64_t)at << h.granule_log2),
                         (uint64_t)wh_rwmalloc_length_(state, at) << h.granule_log2);
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

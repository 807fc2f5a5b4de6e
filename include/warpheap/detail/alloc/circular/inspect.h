/* alloc/circular/inspect.h: statistics, check and walk, on a quiet heap. It may change. */
#ifndef WH_ALLOC_CIRCULAR_INSPECT_H
#define WH_ALLOC_CIRCULAR_INSPECT_H

#include "warpheap/detail/alloc/circular/list.h"

#include "warpheap/detail/simt/begin.h"

WH_FN void wh_circular_stats_(wh_circular_ref h, uint64_t i, uint64_t n, wh_stats *s, int fused) {
    uint64_t used = 0, live = 0, largest = 0;
    for (uint64_t k = i; k <= h.units / 32; k += n) {
        for (uint32_t bits = (uint32_t)wh_load_u64_relaxed(&h.map[k]); bits != 0;
             bits &= bits - 1) {
            const uint32_t u = (uint32_t)k * 32 + wh_ctz32(bits);
            wh_circular_chunk c = wh_circular_read_(h, u, fused);
            if (u == h.units) {
                continue;
            }
            if (c.flag == WH_CIRCULAR_USED) {
                used += ((uint64_t)(c.next - u) << h.unit_log2) - wh_circular_header_(fused);
                live++;
            } else if (u != 0) {
                continue; /* counted by the used chunk before it */
            }
            /* The free chunks from here to the next used one, which a gather would join. */
            const uint32_t from = c.flag == WH_CIRCULAR_USED ? c.next : u;
            uint32_t to = from;
            for (c = wh_circular_read_(h, to, fused); c.flag != WH_CIRCULAR_USED;
                 c = wh_circular_read_(h, to, fused)) {
                to = c.next;
            }
            largest = to - from > largest ? to - from : largest;
        }
    }
    wh_add_u64_relaxed(&s->used_bytes, used);
    wh_add_u64_relaxed(&s->live_blocks, live);
    if (largest != 0) {
        (void)wh_fetch_max_u64_relaxed(&s->largest_free,
                                       (largest << h.unit_log2) - wh_circular_header_(fused));
    }
    if (i == 0) {
        s->failed = wh_load_u64_relaxed(&h.state->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.state->bad_frees);
    }
}

WH_FN void wh_circular_check_(wh_circular_ref h, uint64_t i, uint64_t n, wh_report *r, int fused) {
    for (uint64_t k = i; k < 2 * WH_CIRCULAR_SLOTS; k += n) {
        if (wh_load_u32_relaxed(&h.state->active[k * WH_CIRCULAR_STRIDE]) != 0) {
            wh_report_error(r, 3, k);
        }
    }
    if (i == 0 && (!wh_circular_is_header_(h, 0) || !wh_circular_is_header_(h, h.units) ||
                   wh_load_u64_relaxed(&h.state->gather) % 2 != 0)) {
        wh_report_error(r, 4, 0);
    }
    for (uint64_t k = i; k <= h.units / 32; k += n) {
        for (uint32_t bits = (uint32_t)wh_load_u64_relaxed(&h.map[k]); bits != 0;
             bits &= bits - 1) {
            const uint32_t u = (uint32_t)k * 32 + wh_ctz32(bits);
            const wh_circular_chunk c = wh_circular_read_(h, u, fused);
            if (u == h.units ? c.flag != WH_CIRCULAR_USED || c.next != 0
                             : c.flag > WH_CIRCULAR_LIMBO || c.next <= u || c.next > h.units) {
                wh_report_error(r, 4, u);
                continue;
            }
            /* The next bit of the map is the next header. */
            uint64_t word = k;
            uint32_t above = bits & (bits - 1);
            while (above == 0 && word < h.units / 32) {
                above = (uint32_t)wh_load_u64_relaxed(&h.map[++word]);
            }
            if (u != h.units && (above == 0 || word * 32 + wh_ctz32(above) != c.next)) {
                wh_report_error(r, 4, u);
            }
            const int is_free = (wh_load_u64_relaxed(&h.map[k]) & wh_circular_free_bit_(u)) != 0;
            if (is_free != (c.flag != WH_CIRCULAR_USED)) { /* I5 */
                wh_report_error(r, 5, u);
            }
        }
        const uint64_t both = wh_load_u64_relaxed(&h.map[k]);
        if ((both >> 32 & ~both) != 0) {
            wh_report_error(r, 5, k * 32);
        }
    }
}

WH_FN void wh_circular_walk_(wh_circular_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink,
                             int fused) {
    for (uint64_t k = i; k <= h.units / 32; k += n) {
        for (uint32_t bits = (uint32_t)wh_load_u64_relaxed(&h.map[k]); bits != 0;
             bits &= bits - 1) {
            const uint32_t u = (uint32_t)k * 32 + wh_ctz32(bits);
            const wh_circular_chunk c = wh_circular_read_(h, u, fused);
            if (u != h.units && c.flag == WH_CIRCULAR_USED) {
                wh_walk_emit(sink, h.base + ((uint64_t)u << h.unit_log2),
                             ((uint64_t)(c.next - u) << h.unit_log2) - wh_circular_header_(fused));
            }
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

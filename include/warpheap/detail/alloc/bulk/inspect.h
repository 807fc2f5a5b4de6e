/* alloc/bulk/inspect.h: statistics, check and walk, on a quiet heap. It may change. */
#ifndef WH_ALLOC_BULK_INSPECT_H
#define WH_ALLOC_BULK_INSPECT_H

#include "warpheap/detail/alloc/bulk/bins.h"

#include "warpheap/detail/simt/begin.h"

WH_FN void wh_bulk_stats(wh_bulk_ref h, uint64_t i, uint64_t n, wh_stats *s) {
    uint64_t largest = 0;
    for (uint64_t u = i; u < h.units; u += n) {
        const uint64_t word = wh_load_u64_relaxed(&h.words[u]);
        const uint32_t c = wh_bulk_class_of_word_(word);
        uint32_t live = 0, log2 = 0;
        if ((word & WH_BULK_LARGE) != 0) {
            live = 1;
            log2 = h.unit_log2 + ((uint32_t)(word >> WH_BULK_KIND) & 0xff);
        } else if (c < WH_BULK_CLASSES) {
            log2 = wh_bulk_slot_log2_(h.unit_log2, c);
            live = wh_bulk_slots_(c) - wh_popc32(wh_low_u32(word));
            const uint64_t slot = wh_low_u32(word) != 0 ? (uint64_t)1 << log2 : 0;
            largest = slot > largest ? slot : largest;
            wh_add_u64_relaxed(&s->classes[c].live, live);
            wh_add_u64_relaxed(&s->classes[c].capacity, wh_bulk_slots_(c));
        }
        if (live != 0) {
            wh_add_u64_relaxed(&s->live_blocks, live);
            wh_add_u64_relaxed(&s->used_bytes, (uint64_t)live << log2);
        }
    }
    if (i == 0) {
        for (uint32_t c = 0; c < WH_BULK_CLASSES; c++) {
            const uint64_t node = (uint64_t)1 << (h.unit_log2 + wh_bulk_bin_level_(c));
            if (node > largest &&
                wh_veb_successor(wh_bulk_set_(h, WH_BULK_FRESH + c), 0) != WH_VEB_NONE) {
                largest = node;
            }
        }
        for (uint32_t l = 0; l <= h.top; l++) {
            if (wh_veb_successor(wh_bulk_set_(h, l), 0) != WH_VEB_NONE) {
                const uint64_t node = (uint64_t)1 << (h.unit_log2 + l);
                largest = node > largest ? node : largest;
            }
        }
        for (uint32_t c = 0; c < WH_BULK_CLASSES; c++) {
            s->classes[c].block_bytes = (uint64_t)1 << wh_bulk_slot_log2_(h.unit_log2, c);
        }
        s->n_classes = WH_BULK_CLASSES;
        s->failed = wh_load_u64_relaxed(&h.header->failed);
        s->bad_frees = wh_load_u64_relaxed(&h.header->bad_frees);
    }
    (void)wh_fetch_max_u64_relaxed(&s->largest_free, largest);
}

/* I1: how many of these the unit belongs to: available and fresh nodes, blocks, bins. */
WH_FN uint32_t wh_bulk_owners_(wh_bulk_ref h, uint64_t unit) {
    uint32_t owners = 0;
    for (uint32_t l = 0; l <= h.top; l++) {
        const uint64_t node = unit >> l, first = node << l;
        const wh_veb set = wh_bulk_set_(h, l);
        if (node >= set.n) {
            break;
        }
        const uint64_t word = wh_load_u64_relaxed(&h.words[first]);
        const uint32_t c = wh_bulk_class_of_word_(word);
        owners += (uint32_t)wh_veb_contains(set, node);
        owners += word == (WH_BULK_LARGE | (uint64_t)l << WH_BULK_KIND);
        owners += c < WH_BULK_CLASSES && wh_bulk_bin_level_(c) == l;
    }
    for (uint32_t c = 0; c < WH_BULK_CLASSES; c++) {
        const uint64_t node = unit >> wh_bulk_bin_level_(c);
        const wh_veb set = wh_bulk_set_(h, WH_BULK_FRESH + c);
        owners += node < set.n && wh_veb_contains(set, node);
    }
    return owners;
}

/* I4 of the unit's word. */
WH_FN int wh_bulk_is_listed_well_(wh_bulk_ref h, uint64_t unit) {
    const uint64_t word = wh_load_u64_relaxed(&h.words[unit]), free = wh_low_u32(word);
    const uint32_t c = wh_bulk_class_of_word_(word);
    if (c >= WH_BULK_CLASSES) {
        return word == 0 || (word & WH_BULK_LARGE) != 0;
    }
    const uint64_t flags = free != 0 ? WH_BULK_LISTED | WH_BULK_IN_SET : 0;
    const uint64_t bin = unit >> wh_bulk_bin_level_(c);
    return (free & ~wh_bulk_full_(c)) == 0 && free != wh_bulk_full_(c) &&
           (word & (WH_BULK_LISTED | WH_BULK_IN_SET)) == flags &&
           wh_veb_contains(wh_bulk_set_(h, WH_BULK_SETS + c), bin) == (free != 0);
}

/* Slots of the class's fresh nodes. */
WH_FN int64_t wh_bulk_fresh_slots_(wh_bulk_ref h, uint32_t c) {
    const wh_veb set = wh_bulk_set_(h, WH_BULK_FRESH + c);
    int64_t nodes = 0;
    for (uint64_t k = 0; k < wh_veb_up_(set.n); k++) {
        nodes += (int64_t)wh_popc64(wh_load_u64_relaxed(wh_veb_word(set, k)));
    }
    return nodes * (int64_t)wh_bulk_slots_(c);
}

/* I3 of a set, I2 of a level. */
WH_FN void wh_bulk_check_set_(wh_bulk_ref h, uint32_t s, wh_report *r) {
    const wh_veb set = wh_bulk_set_(h, s);
    const uint64_t w = wh_load_u64_relaxed(wh_bulk_sem_(h, s));
    int64_t count = wh_bulk_semaphore_count(w);
    if (wh_bulk_semaphore_expected(w) != 0 || wh_bulk_semaphore_reserved(w) != 0) {
        wh_report_error(r, 3, s);
    }
    if (s >= WH_BULK_SETS) {
        count += (int64_t)wh_load_u64_relaxed(&h.header->spare[s - WH_BULK_SETS]);
        count -= wh_bulk_fresh_slots_(h, s - WH_BULK_SETS);
    }
    for (uint64_t k = 0; k < wh_veb_up_(set.n); k++) {
        uint64_t bits = wh_load_u64_relaxed(wh_veb_word(set, k));
        if (s < WH_BULK_SETS) {
            count -= (int64_t)wh_popc64(bits);
            if ((bits & bits >> 1 & 0x5555555555555555u) != 0) {
                wh_report_error(r, 2, s);
            }
        }
        for (; s >= WH_BULK_SETS && bits != 0; bits &= bits - 1) {
            const uint64_t bin = k << 6 | wh_ctz64(bits);
            const uint64_t *word = wh_bulk_bin_word_(h, s - WH_BULK_SETS, bin);
            count -= (int64_t)wh_popc32(wh_low_u32(wh_load_u64_relaxed(word)));
        }
    }
    if (count != 0) {
        wh_report_error(r, 3, s);
    }
}

WH_FN void wh_bulk_check(wh_bulk_ref h, uint64_t i, uint64_t n, wh_report *r) {
    for (uint64_t u = i; u < h.units; u += n) {
        if (wh_bulk_owners_(h, u) != 1) {
            wh_report_error(r, 1, u);
        }
        if (!wh_bulk_is_listed_well_(h, u)) {
            wh_report_error(r, 4, u);
        }
    }
    for (uint64_t s = i; s < WH_BULK_ALL_SETS; s += n) {
        if (wh_bulk_set_size_(h.units, (uint32_t)s) != 0) {
            const wh_veb set = wh_bulk_set_(h, (uint32_t)s);
            if (s < WH_BULK_FRESH) {
                wh_bulk_check_set_(h, (uint32_t)s, r);
            }
            for (uint64_t k = 0; k < wh_veb_words(set.n); k++) {
                if (!wh_veb_check(set, k)) {
                    wh_report_error(r, 3, s);
                }
            }
        }
    }
}

WH_FN void wh_bulk_walk(wh_bulk_ref h, uint64_t i, uint64_t n, wh_walk_sink *sink) {
    for (uint64_t u = i; u < h.units; u += n) {
        const uint64_t word = wh_load_u64_relaxed(&h.words[u]);
        const uint32_t c = wh_bulk_class_of_word_(word);
        unsigned char *p = h.base + (u << h.unit_log2);
        if ((word & WH_BULK_LARGE) != 0) {
            wh_walk_emit(sink, p,
                         (uint64_t)1 << (h.unit_log2 + ((uint32_t)(word >> WH_BULK_KIND) & 0xff)));
        } else if (c < WH_BULK_CLASSES) {
            const uint32_t log2 = wh_bulk_slot_log2_(h.unit_log2, c);
            const uint32_t used = (uint32_t)wh_bulk_full_(c) & ~wh_low_u32(word);
            for (uint32_t left = used; left != 0; left &= left - 1) {
                wh_walk_emit(sink, p + ((uint64_t)wh_ctz32(left) << log2), (uint64_t)1 << log2);
            }
        }
    }
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/bulk/bins.h: the allocator of small blocks (UAlloc): bins of slots of one size, a bulk
 * semaphore for each class. It may change. Terms and invariants: layout.h.
 *
 *     a unit of a class's semaphore is the right to a free slot of one of its bins. Who gets none
 *     takes a chunk from the tree, nodes side by side, and makes some of them bins, if that is its
 *     duty, or waits. The other nodes of the chunk are fresh: the next bins of the class. A bin
 *     that is all free goes back to the tree at once, fresh nodes before a NULL
 *
 * Departures
 *   - the paper has arenas for each SM, and chunks whose first bins keep the state of the others.
 *     Here all SMs share the chunks, which are nothing once they are cut, and the state of bins
 *     lies in `words`
 *   - lists of bins under read-copy-update are sets (core/veb.h), of which each lane looks at
 *     another place
 *
 * Ordering pairs
 *   P1  free: a syncwarp, then fetch_or of the bin's word, acq_rel -> malloc: its cas, acq_rel, and
 *       a syncwarp; or the cas that takes the whole bin, acq_rel, and then P1 of tree.h
 *   P2  who makes a bin: its take of the node, then the store of the word, release -> the cas of
 *       who takes a slot, acq_rel
 *   A fresh node is handed over as an available one is: P1 of core/veb.h
 * Progress  as in tree.h; each cas is lock-free
 */
#ifndef WH_ALLOC_BULK_BINS_H
#define WH_ALLOC_BULK_BINS_H

#include "warpheap/detail/alloc/bulk/tree.h"

#include "warpheap/detail/simt/begin.h"

WH_HD uint32_t wh_bulk_class_of_word_(uint64_t word) { /* of no bin: UINT32_MAX, or more than 7 */
    return (uint32_t)(word >> WH_BULK_KIND) - 1;
}

WH_FN uint64_t *wh_bulk_bin_word_(wh_bulk_ref h, uint32_t c, uint64_t bin) {
    return &h.words[bin << wh_bulk_bin_level_(c)];
}

/* --- the semaphore, and what it cannot count (I3) -------------------------------------------- */

WH_FN void wh_bulk_count_(wh_bulk_ref h, uint32_t c, uint32_t slots) {
    uint64_t *sem = wh_bulk_sem_(h, WH_BULK_SETS + c);
    if (wh_bulk_semaphore_count(wh_load_u64_relaxed(sem)) > (int64_t)WH_BULK_COUNTED) {
        wh_add_u64_relaxed(&h.header->spare[c], slots);
    } else {
        wh_bulk_semaphore_signal(sem, slots, 0, 0);
    }
}

/* Takes up to n from the spare slots. */
WH_FN uint32_t wh_bulk_from_spare_(wh_bulk_ref h, uint32_t c, uint32_t n) {
    uint64_t spare = wh_load_u64_relaxed(&h.header->spare[c]);
    WH_NO_UNROLL
    while (spare != 0) {
        const uint32_t some = spare < n ? (uint32_t)spare : n;
        const uint64_t seen = wh_cas_u64_relaxed(&h.header->spare[c], spare, spare - some);
        if (seen == spare) {
            return some;
        }
        spare = seen;
    }
    return 0;
}

/* --- bins in the set of their class (I4) ------------------------------------------------------ */

/* The slots of one bin are not to be had any more. */
WH_FN void wh_bulk_uncount_(wh_bulk_ref h, uint32_t c) {
    const uint32_t slots = wh_bulk_slots_(c), spare = wh_bulk_from_spare_(h, c, slots);
    if (slots > spare) {
        (void)wh_bulk_semaphore_take(wh_bulk_sem_(h, WH_BULK_SETS + c), slots - spare); /* I3 */
    }
}

/* The caller has taken all slots of the bin, and gives it back to the tree. */
WH_FN void wh_bulk_retire_(wh_bulk_ref h, uint32_t c, uint64_t bin) {
    (void)wh_veb_remove(wh_bulk_set_(h, WH_BULK_SETS + c), bin);
    wh_bulk_uncount_(h, c);
    wh_bulk_give_(h, wh_bulk_bin_level_(c), bin);
}

/* The bin is IN_SET: takes it out if it has no free slots, and to the tree if it has nothing but
 * these. `word`: a value that it was seen to have. */
WH_FN void wh_bulk_settle_(wh_bulk_ref h, uint32_t c, uint64_t bin, uint64_t word) {
    const wh_veb set = wh_bulk_set_(h, WH_BULK_SETS + c);
    uint64_t *at = wh_bulk_bin_word_(h, c, bin);
    WH_NO_UNROLL
    while (wh_bulk_class_of_word_(word) == c && (word & WH_BULK_IN_SET) != 0) {
        const uint32_t free = wh_low_u32(word);
        if (free != 0 && free != wh_bulk_full_(c)) {
            return;
        }
        const uint64_t next = free == 0 ? word & ~WH_BULK_IN_SET : 0; /* 0: retired */
        const uint64_t seen = wh_cas_u64_acq_rel(at, word, next);     /* P1, I4 */
        if (seen != word) {
            word = seen;
            continue;
        }
        if (next == 0) {
            wh_bulk_retire_(h, c, bin);
            return;
        }
        (void)wh_veb_remove(set, bin);
        if (wh_cas_u64_acq_rel(at, next, next & ~WH_BULK_LISTED) == next) {
            return;
        }
        (void)wh_veb_insert(set, bin); /* slots have come back meanwhile */
        word = wh_fetch_or_u64_acq_rel(at, WH_BULK_IN_SET) | WH_BULK_IN_SET;
    }
}

/* The caller has made the bin LISTED. */
WH_FN void wh_bulk_list_(wh_bulk_ref h, uint32_t c, uint64_t bin) {
    (void)wh_veb_insert(wh_bulk_set_(h, WH_BULK_SETS + c), bin);
    const uint64_t old = wh_fetch_or_u64_acq_rel(wh_bulk_bin_word_(h, c, bin), WH_BULK_IN_SET);
    wh_bulk_settle_(h, c, bin, old | WH_BULK_IN_SET);
}

/* --- slots --------------------------------------------------------------------------------------
 */

/* Slots of the caller: those of mask in a bin, and all of the `more` bins behind it. */
typedef struct wh_bulk_slots {
    uint64_t bin;
    uint32_t mask; /* 0: none */
    uint32_t more;
} wh_bulk_slots;

WH_HD uint32_t wh_bulk_count_slots_(uint32_t c, wh_bulk_slots s) {
    return wh_popc32(s.mask) + s.more * wh_bulk_slots_(c);
}

/* Up to n slots of one bin, which the set has. */
WH_FN wh_bulk_slots wh_bulk_claim_slots_(wh_bulk_ref h, uint32_t c, uint32_t n) {
    const wh_veb set = wh_bulk_set_(h, WH_BULK_SETS + c);
    wh_bulk_slots s;
    s.bin = 0;
    s.mask = s.more = 0;
    WH_NO_UNROLL
    for (uint32_t attempt = 0; attempt < WH_BULK_LOOKS;) {
        const uint64_t x = wh_bulk_look_(set, &attempt);
        if (x == WH_VEB_NONE) {
            break;
        }
        uint64_t *at = wh_bulk_bin_word_(h, c, x);
        uint64_t word = wh_load_u64_relaxed(at);
        WH_NO_UNROLL
        while (wh_bulk_class_of_word_(word) == c && wh_low_u32(word) != 0) {
            const uint64_t mask = wh_lowest_bits(wh_low_u32(word), n);
            const uint64_t seen = WH_PLANT_ORDER(bulk_p1_claim, wh_cas_u64,
                                                 acq_rel)(at, word, word & ~mask); /* P1, P2 */
            if (seen == word) {
                s.bin = x;
                s.mask = (uint32_t)mask;
                wh_bulk_settle_(h, c, x, word & ~mask);
                return s;
            }
            word = seen;
        }
    }
    return s;
}

/* Makes `bins` bins of nodes that are the caller's, and n slots of theirs its own: all but some of
 * the last one. */
WH_FN wh_bulk_slots wh_bulk_make_bins_(wh_bulk_ref h, uint32_t c, uint64_t first, uint32_t n) {
    const uint32_t slots = wh_bulk_slots_(c), bins = (n + slots - 1) / slots;
    const uint64_t kind = (uint64_t)(c + 1) << WH_BULK_KIND;
    const uint32_t some = n - (bins - 1) * slots; /* of the first bin */
    const uint64_t mask = wh_lowest_bits(wh_bulk_full_(c), some), rest = wh_bulk_full_(c) & ~mask;
    wh_bulk_slots s;
    s.bin = first;
    s.mask = (uint32_t)mask;
    s.more = bins - 1;
    for (uint32_t b = bins; b-- > 1;) {
        wh_store_u64_release(wh_bulk_bin_word_(h, c, first + b), kind); /* P2 */
    }
    wh_store_u64_release(wh_bulk_bin_word_(h, c, first),
                         kind | rest | (rest != 0 ? WH_BULK_LISTED : 0)); /* P2 */
    if (rest != 0) {
        wh_bulk_list_(h, c, first);
    }
    return s;
}

/* Takes fresh nodes that lie one behind the other: up to n slots. */
WH_FN wh_bulk_slots wh_bulk_claim_fresh_(wh_bulk_ref h, uint32_t c, uint32_t n) {
    const wh_veb set = wh_bulk_set_(h, WH_BULK_FRESH + c);
    const uint32_t slots = wh_bulk_slots_(c), wanted = (n + slots - 1) / slots;
    wh_bulk_slots s;
    s.bin = 0;
    s.mask = s.more = 0;
    WH_NO_UNROLL
    for (uint32_t attempt = 0;;) {
        const uint64_t x = wh_bulk_look_(set, &attempt);
        if (x == WH_VEB_NONE) {
            return s;
        }
        const uint64_t there = wh_load_u64_relaxed(wh_veb_word(set, x >> 6)) >> (x & 63);
        const uint32_t run = ~there != 0 ? wh_ctz64(~there) : 64;
        const uint32_t bins = wanted < run ? wanted : run;
        const uint64_t mask = (((uint64_t)1 << bins) - 1) << (x & 63); /* bins: at most 32 */
        const uint64_t got = bins != 0 ? wh_veb_claim_mask(set, x >> 6, mask) : 0; /* P1 */
        if (got != 0 && got == mask) {
            return wh_bulk_make_bins_(h, c, x, bins * slots < n ? bins * slots : n);
        }
        if (got != 0 && WH_PLANT(bulk_i1, 1, 0)) {
            (void)wh_veb_insert_mask(set, x >> 6, got); /* I1: another one has the rest */
        }
    }
}

/* Gives all fresh nodes back to the tree, when there is nothing else; whether there were some. */
WH_FN_SLOW int wh_bulk_give_fresh_(wh_bulk_ref h) {
    int some = 0;
    WH_NO_UNROLL
    for (uint32_t c = 0; c < WH_BULK_CLASSES; c++) {
        const wh_veb set = wh_bulk_set_(h, WH_BULK_FRESH + c);
        uint64_t x = 0;
        WH_NO_UNROLL
        while ((x = wh_veb_successor(set, x)) != WH_VEB_NONE) {
            if (wh_veb_remove(set, x)) {                            /* P1 */
                WH_PLANT(bulk_i3, wh_bulk_uncount_(h, c), (void)0); /* I3 */
                wh_bulk_give_(h, wh_bulk_bin_level_(c), x);
                some = 1;
            }
        }
    }
    return some;
}

/* A new chunk, of which up to n slots are the caller's; it has reserved n, and fetches a batch. */
WH_FN wh_bulk_slots wh_bulk_make_chunk_(wh_bulk_ref h, uint32_t c, uint32_t n) {
    uint64_t *sem = wh_bulk_sem_(h, WH_BULK_SETS + c);
    uint32_t log2 = h.chunk_log2;
    uint64_t first = wh_bulk_take_some_(h, wh_bulk_bin_level_(c), &log2);
    WH_NO_UNROLL
    while (first == WH_BULK_NONE && wh_bulk_give_fresh_(h)) {
        first = wh_bulk_take_some_(h, wh_bulk_bin_level_(c), &log2);
    }
    const uint32_t slots = wh_bulk_slots_(c), all = slots << log2;
    wh_bulk_slots s;
    s.bin = 0;
    s.mask = s.more = 0;
    if (first == WH_BULK_NONE) {
        wh_bulk_semaphore_signal(sem, 0, 1, n); /* I3 */
        return s;
    }
    const uint32_t some = n < all ? n : all, used = (some + slots - 1) / slots;
    if (used != 1u << log2) {
        const uint64_t mask = (((uint64_t)1 << (1u << log2)) - 1) & ~(((uint64_t)1 << used) - 1);
        (void)wh_veb_insert_mask(wh_bulk_set_(h, WH_BULK_FRESH + c), first >> 6,
                                 mask << (first & 63)); /* P1 */
    }
    s = wh_bulk_make_bins_(h, c, first, some);
    wh_bulk_semaphore_signal(sem, all - some, 1, n); /* I3 */
    return s;
}

/* Up to n slots of class c, at least one; mask 0: there were none. Who has to fetch takes a batch
 * of the spare slots, if there are any: all who fetch bring no more than is wanted, which the
 * semaphore can count. */
WH_FN wh_bulk_slots wh_bulk_get_slots_(wh_bulk_ref h, uint32_t c, uint32_t n) {
    uint64_t *sem = wh_bulk_sem_(h, WH_BULK_SETS + c);
    const uint32_t batch_log2 = 5 - (c - wh_bulk_bin_level_(c)) + h.chunk_log2;
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t got = 0;
        if (wh_bulk_ask_(sem, n, batch_log2, &got) == WH_BULK_FETCH) {
            const uint32_t spare = wh_bulk_from_spare_(h, c, 1u << batch_log2);
            if (spare == 0) {
                const wh_bulk_slots s = wh_bulk_make_chunk_(h, c, n);
                if (s.mask != 0 || (wh_bulk_semaphore_count(wh_load_u64_relaxed(sem)) <= 0 &&
                                    wh_load_u64_relaxed(&h.header->spare[c]) == 0)) {
                    return s;
                }
                continue;
            }
            got = spare < n ? spare : n;
            wh_bulk_semaphore_signal(sem, spare - got, 1, n); /* I3 */
        }
        if (got != 0) {
            wh_bulk_slots s = wh_bulk_claim_fresh_(h, c, got);
            s = s.mask != 0 ? s : wh_bulk_claim_slots_(h, c, got);
            if (wh_bulk_count_slots_(c, s) < got) { /* I3 */
                wh_bulk_semaphore_signal(sem, got - wh_bulk_count_slots_(c, s), 0, 0);
            }
            if (s.mask != 0) {
                return s;
            }
            wh_backoff(attempt);
        }
    }
}

/* Gives slots of one bin back; returns those that were free already. */
WH_FN_SLOW uint32_t wh_bulk_give_slots_(wh_bulk_ref h, uint32_t c, uint64_t bin, uint32_t mask) {
    uint64_t *at = wh_bulk_bin_word_(h, c, bin);
    const uint64_t old = WH_PLANT_ORDER(bulk_p1_free, wh_fetch_or_u64,
                                        acq_rel)(at, mask | WH_BULK_LISTED); /* P1, I4 */
    const uint32_t twice = mask & wh_low_u32(old);
    if ((old & WH_BULK_LISTED) == 0 && WH_PLANT(bulk_i4, 1, 0)) {
        wh_bulk_list_(h, c, bin);
    } else {
        wh_bulk_settle_(h, c, bin, old | mask);
    }
    if (mask != twice) {
        wh_bulk_count_(h, c, wh_popc32(mask & ~twice)); /* I3 */
    }
    return twice;
}

#include "warpheap/detail/simt/end.h"

#endif

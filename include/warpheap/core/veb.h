/* core/veb.h: concurrent set of integers 0..n-1 with successor and predecessor: the
 * van Emde Boas tree of Gallatin (McCoy and Pandey, PPoPP 2024, section 3.2), with
 * nodes of 64 bits and no min/max, so that every change of a node is one atomic.
 *
 * Layout  levels of 64-bit words, level 0 first: bit b of word w of level 0 is the
 *         item 64 w + b; bit b of word w of level k+1 summarises word 64 w + b of
 *         level k (set: that word may hold items). The last level is one word. With
 *         `spread`, words lie 2^spread places apart.
 *         Height: 1 for n <= 64, 6 for n = 2^32.
 * Fields  every word: any lane, fetch_or / fetch_and acq_rel, or acquire behind a fence
 *         for all words of a range (claim_range); load relaxed where only a
 *         claim can follow (successor, predecessor: an acquire load empties the L1 of
 *         its SM), load acquire where the answer itself counts (scan, find_run, R1), or
 *         relaxed and a fence behind all (find_run_together), or behind the clear of R1
 * I1      level 0 is the truth: exactly one claim (or remove) sees a bit go 1 -> 0,
 *         exactly one insert sees it go 0 -> 1
 * I2      when quiet, the summary bit of a word that is not zero is set. A bit over an
 *         empty word may be left over (an insert overtaken by a remove); a search that
 *         meets it clears it, under R1, or leaves that to others (tidy_, tells)
 * I3      while lanes run, a word that is not zero has its summary bit set, or some
 *         lane stands between its change of that word and the matching change above:
 *         an insert that made it non-zero, or a remove that will re-check it (R1)
 * R1      a remove that empties a word, or a search that finds it empty, clears the summary
 *         bit and then looks at the word again; if an insert has come in between, it sets the
 *         summary bit again. Without the second look that item would be lost to searches.
 * P1      insert (release) -> claim (acquire): what the inserter wrote before, the
 *         claimer sees
 * P2      insert's change above (release) -> remove's clear (acquire): the second
 *         look of R1 sees the insert below
 * P3      claim (release; claim_range: a fence before its first word) -> a lane that sees that
 *         the items are gone, and fences: what the claimer did before, such as counting itself
 *         as at work, is seen
 * Lanes   any lane alone; no collective inside but in find_run_together. Callers aggregate
 *         (core/warp_group.h)
 * Progress insert, remove, claim, claim_range: bounded steps. Searches: bounded by the
 *         number of words, each is passed once. claim_some: lock-free (a claim that
 *         comes too late means another lane's claim succeeded).
 * Fails   by I3 a search may miss an item whose insert, or whose neighbour's remove,
 *         is still under way; wh_veb_scan reads the truth (level 0) instead
 * Check   wh_veb_check; tests/unit/veb.c compares every operation with a naive model
 *         on all small universes; tests/fault removes R1 and sees items lost, weakens P1
 *         and P2 and sees races, of single items and of ranges; and P3 of ranges
 *
 * Example
 *     wh_veb t = wh_veb_make(words, 1000);
 *     wh_veb_insert(t, 17);
 *     wh_veb_successor(t, 3);   // 17
 */
#ifndef WH_CORE_VEB_H
#define WH_CORE_VEB_H

#include "warpheap/core/select.h"
#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_VEB_NONE UINT64_MAX

typedef struct wh_veb {
    uint64_t *words; /* wh_veb_words(n) of them, 2^spread places apart */
    uint64_t n;      /* universe: items 0..n-1, at most 2^32 */
    uint32_t spread; /* for hot neighbours: atomics on one line take turns */
} wh_veb;

/* Words of one level, given those of the level below (or n items). */
WH_HD uint32_t wh_veb_up_(uint64_t below) {
    return (uint32_t)((below + 63) >> 6);
}

/* Words that a tree over n items takes; 1 <= n <= 2^32. */
WH_HD uint64_t wh_veb_words(uint64_t n) {
    wh_assert(n != 0 && n <= (uint64_t)1 << 32);
    uint64_t level = wh_veb_up_(n), sum = level;
    WH_NO_UNROLL
    while (level > 1) {
        level = wh_veb_up_(level);
        sum += level;
    }
    return sum;
}

/* words: wh_veb_words(n) << spread of them. */
WH_HD wh_veb wh_veb_make_spread(uint64_t *words, uint64_t n, uint32_t spread) {
    wh_veb t;
    t.words = words;
    t.n = n;
    t.spread = spread;
    return t;
}
WH_HD wh_veb wh_veb_make(uint64_t *words, uint64_t n) {
    return wh_veb_make_spread(words, n, 0);
}

/* Word `index` (0..wh_veb_words(n)-1), level 0 first. */
WH_FN uint64_t *wh_veb_word(wh_veb t, uint64_t index) {
    wh_assert_expensive(index < wh_veb_words(t.n));
    return &t.words[index << t.spread];
}

/* Initial value of word `index` (0..wh_veb_words(n)-1) of an empty or a full tree:
 * lets any number of threads initialise it, a word each. */
WH_HD uint64_t wh_veb_initial_word(uint64_t n, uint64_t index, int full) {
    wh_assert(index < wh_veb_words(n));
    uint64_t bits = n; /* bits used on this level */
    uint64_t level = wh_veb_up_(n);
    while (index >= level) {
        index -= level;
        bits = level;
        level = wh_veb_up_(level);
    }
    const uint64_t used = bits - index * 64;
    const uint64_t ones = used >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << used) - 1;
    return !full ? 0 : ones;
}

/* Whether `mask` is of items in word w. */
WH_HD int wh_veb_has_items_(wh_veb t, uint64_t w, uint64_t mask) {
    return mask != 0 && w < wh_veb_up_(t.n) && (w << 6) + (63 - wh_clz64(mask)) < t.n;
}

WH_FN int wh_veb_contains(wh_veb t, uint64_t x) {
    wh_assert(x < t.n);
    return (int)(wh_load_u64_acquire(wh_veb_word(t, x >> 6)) >> (x & 63) & 1);
}

/* Word w of a level that starts at word `base` and has `size` words has become non-zero:
 * tell the levels above (I3). */
WH_FN void wh_veb_raise_(wh_veb t, uint32_t base, uint32_t size, uint32_t w) {
    WH_NO_UNROLL
    while (size > 1) {
        const uint64_t bit = (uint64_t)1 << (w & 63);
        base += size;
        w >>= 6;
        const uint64_t old =
            WH_PLANT(veb_p2_insert, wh_fetch_or_u64_acq_rel,
                     wh_fetch_or_u64_relaxed)(wh_veb_word(t, base + w), bit); /* P2 */
        if (old != 0) {
            return;
        }
        size = wh_veb_up_(size);
    }
}

/* Word w has become zero: tell the levels above, then look again (R1). */
WH_FN void wh_veb_lower_(wh_veb t, uint32_t base, uint32_t size, uint32_t w) {
    WH_NO_UNROLL
    while (size > 1) {
        const uint32_t above = base + size;
        const uint64_t bit = (uint64_t)1 << (w & 63);
        const uint64_t old =
            wh_fetch_and_u64_acq_rel(wh_veb_word(t, above + (w >> 6)), ~bit);          /* P2 */
        if (WH_PLANT(veb_r1, wh_load_u64_acquire(wh_veb_word(t, base + w)), 0) != 0) { /* R1 */
            wh_veb_raise_(t, base, size, w);
            return;
        }
        if (old != bit) {
            return;
        }
        w >>= 6;
        base = above;
        size = wh_veb_up_(size);
    }
}

/* Word w has been seen to be zero by a search that a summary bit led there: clears it (I2), unless
 * somebody has done so meanwhile. When a million lanes come to the same few left-over bits, loads
 * of the word above cost each of them a fifth of what atomics do that take turns there (H200).
 * Relaxed: by an old answer the bit stays for the next search, or is cleared under R1. */
WH_FN void wh_veb_tidy_(wh_veb t, uint32_t base, uint32_t size, uint32_t w) {
    if (size > 1 &&
        (wh_load_u64_relaxed(wh_veb_word(t, base + size + (w >> 6))) >> (w & 63) & 1) != 0) {
        wh_veb_lower_(t, base, size, w);
    }
}

#define WH_VEB_ROW 8u

/* The same, and at once for the next words of the level to which summary bits lead, WH_VEB_ROW in
 * all: where a long row of them is empty, a word after the other would take each five accesses that
 * wait for one another. R1 as above; P2 orders the second looks. */
WH_FN void wh_veb_tidy_row_(wh_veb t, uint32_t base, uint32_t size, uint32_t w) {
    const uint32_t row = w & ~63u, above = base + size;
    uint64_t bits = wh_load_u64_relaxed(wh_veb_word(t, above + (w >> 6))) & ~(uint64_t)0
                                                                                << (w & 63);
    uint32_t at[WH_VEB_ROW]; /* in registers: the loops are unrolled */
    uint64_t words[WH_VEB_ROW], empty = 0;
    if (bits == 0) {
        return;
    }
    for (uint32_t k = 0; k < WH_VEB_ROW; k++) {
        at[k] = row | (bits != 0 ? wh_ctz64(bits) : at[0] & 63);
        bits &= bits - 1;
        words[k] = wh_load_u64_relaxed(wh_veb_word(t, base + at[k]));
    }
    for (uint32_t k = 0; k < WH_VEB_ROW; k++) {
        empty |= (uint64_t)(words[k] == 0) << (at[k] & 63);
    }
    if (empty == 0) {
        return;
    }
    const uint64_t old =
        wh_fetch_and_u64_acq_rel(wh_veb_word(t, above + (w >> 6)), ~empty); /* P2 */
    for (uint32_t k = 0; k < WH_VEB_ROW; k++) {
        words[k] = wh_load_u64_relaxed(wh_veb_word(t, base + at[k]));
    }
    for (uint32_t k = 0; k < WH_VEB_ROW; k++) {
        if ((empty >> (at[k] & 63) & 1) != 0 && WH_PLANT(veb_r1, words[k], 0) != 0) { /* R1 */
            wh_veb_raise_(t, base, size, at[k]);
        }
    }
    if (old != 0 && (old & ~empty) == 0) {
        wh_veb_lower_(t, above, wh_veb_up_(size), w >> 6);
    }
}

/* Adds the items of `mask` in word w of level 0. Returns those that were absent. */
WH_FN uint64_t wh_veb_insert_mask(wh_veb t, uint64_t w, uint64_t mask) {
    wh_assert(wh_veb_has_items_(t, w, mask));
    const uint64_t old = WH_PLANT(veb_p1_insert, wh_fetch_or_u64_acq_rel,
                                  wh_fetch_or_u64_relaxed)(wh_veb_word(t, w), mask); /* P1, I1 */
    if (old == 0) {
        wh_veb_raise_(t, 0, wh_veb_up_(t.n), (uint32_t)w);
    }
    return mask & ~old;
}

/* Takes the items of `mask` in word w out. Returns those that were present: they are
 * the caller's (I1). */
WH_FN uint64_t wh_veb_claim_mask(wh_veb t, uint64_t w, uint64_t mask) {
    wh_assert(mask != 0 && w < wh_veb_up_(t.n));
    const uint64_t old = wh_fetch_and_u64_acq_rel(wh_veb_word(t, w), ~mask); /* P1, P3, I1 */
    if ((old & mask) != 0 && (old & ~mask) == 0) {
        wh_veb_lower_(t, 0, wh_veb_up_(t.n), (uint32_t)w);
    }
    return old & mask;
}

/* Tells the levels above that word w of level 0 is not zero; releases what made it so. For
 * callers that put items there by an atomic of their own. */
WH_FN void wh_veb_filled(wh_veb t, uint64_t w) {
    wh_assert(w < wh_veb_up_(t.n));
    wh_veb_raise_(t, 0, wh_veb_up_(t.n), (uint32_t)w);
}

/* Tells the levels above that word w of level 0 may have become zero. For callers that took
 * items by an atomic of their own; until then searches may look in vain. */
WH_FN void wh_veb_emptied(wh_veb t, uint64_t w) {
    wh_assert(w < wh_veb_up_(t.n));
    wh_veb_tidy_(t, 0, wh_veb_up_(t.n), (uint32_t)w);
}

/* Puts items of word w back that the caller has claimed and has nothing to say of, which takes
 * fewer fences: the release of the lane that inserted them goes on to the next claim, since all
 * that changes the word in between are read-modify-writes (P1). Ends with a fence, after which the
 * items are there. */
WH_FN void wh_veb_put_back(wh_veb t, uint64_t w, uint64_t mask) {
    wh_assert(mask == 0 || wh_veb_has_items_(t, w, mask));
    const uint64_t old = wh_fetch_or_u64_relaxed(wh_veb_word(t, w), mask); /* I1 */
    const uint64_t size = wh_veb_up_(t.n), above = size + (w >> 6);
    wh_fence(); /* P2 */
    if (old == 0 && size > 1 &&
        wh_fetch_or_u64_relaxed(wh_veb_word(t, above), (uint64_t)1 << (w & 63)) == 0) {
        wh_veb_raise_(t, (uint32_t)size, wh_veb_up_(size), (uint32_t)(w >> 6));
    }
}

/* Adds x; 1 if it was absent. Cost: 1 atomic, one more per level whose word was empty. */
WH_FN int wh_veb_insert(wh_veb t, uint64_t x) {
    wh_assert(x < t.n);
    return wh_veb_insert_mask(t, x >> 6, (uint64_t)1 << (x & 63)) != 0;
}

/* Takes x out; 1 if it was there, and is now the caller's. Also "claim". */
WH_FN int wh_veb_remove(wh_veb t, uint64_t x) {
    wh_assert(x < t.n);
    return wh_veb_claim_mask(t, x >> 6, (uint64_t)1 << (x & 63)) != 0;
}

/* The lowest `count` set bits of a word; all of them if there are fewer. */
WH_HD uint64_t wh_lowest_bits(uint64_t bits, uint32_t count) {
    uint64_t rest = bits;
    WH_NO_UNROLL
    for (uint32_t i = 0; i < count && rest != 0; i++) {
        rest &= rest - 1;
    }
    return bits & ~rest;
}

/* Index of the k-th set bit (k from 0), which must exist. */
WH_HD uint32_t wh_select64(uint64_t bits, uint32_t k) {
    wh_assert(k < wh_popc64(bits));
    const uint32_t below = wh_popc32(wh_low_u32(bits));
    const uint32_t above = k >= below ? 32 : 0;
    return above + wh_select32(above != 0 ? wh_high_u32(bits) : wh_low_u32(bits),
                               k - (above != 0 ? below : 0) + 1);
}

/* The set bit that is so far along those of a word, *at of 2^32; what is left of that is *at then.
 * There must be one. */
WH_HD uint32_t wh_pick64(uint64_t bits, uint32_t *at) {
    wh_assert(bits != 0);
    const uint64_t part = wh_mul_wide_u32(*at, wh_popc64(bits));
    *at = wh_low_u32(part);
    return wh_select64(bits, wh_high_u32(part));
}

/* First word and number of words of a level. Recomputed where it is needed: an array of
 * them, indexed at run time, would live in local memory. */
WH_FN uint32_t wh_veb_level_(wh_veb t, uint32_t level, uint32_t *size) {
    uint32_t base = 0;
    uint32_t n = wh_veb_up_(t.n);
    for (; level > 0; level--) {
        base += n;
        n = wh_veb_up_(n);
    }
    *size = n;
    return base;
}

/* Smallest item >= x, or NONE (see Fails). A summary bit that turns out stale costs
 * one more word and is cleared. */
WH_FN uint64_t wh_veb_successor(wh_veb t, uint64_t x) {
    uint32_t level = 0;
    uint32_t size = wh_veb_up_(t.n);
    uint32_t base = 0;
    int down = 0; /* came from above: the whole word counts */
    WH_NO_UNROLL
    for (uint64_t pos = x;;) {
        const uint64_t w = pos >> 6;
        if (w >= size) {
            return WH_VEB_NONE;
        }
        const uint64_t bits =
            wh_load_u64_relaxed(wh_veb_word(t, base + w)) & (~(uint64_t)0 << (pos & 63));
        if (bits != 0) { /* go down to the first child that may hold something */
            pos = w << 6 | wh_ctz64(bits);
            if (level == 0) {
                return pos;
            }
            base = wh_veb_level_(t, --level, &size);
            pos <<= 6;
            down = 1;
        } else { /* go up and look right of this word */
            if (size == 1) {
                return WH_VEB_NONE;
            }
            if (down) {
                wh_veb_tidy_row_(t, base, size, (uint32_t)w); /* I2 */
                down = 0;
            }
            base += size;
            size = wh_veb_up_(size);
            level++;
            pos = w + 1;
        }
    }
}

/* Largest item <= x, or NONE (see Fails). x may be any value. */
WH_FN uint64_t wh_veb_predecessor(wh_veb t, uint64_t x) {
    uint32_t level = 0;
    uint32_t size = wh_veb_up_(t.n);
    uint32_t base = 0;
    int down = 0; /* came from above: the whole word counts */
    for (uint64_t pos = x < t.n ? x : t.n - 1;;) {
        const uint64_t w = pos >> 6;
        const uint64_t bits =
            wh_load_u64_relaxed(wh_veb_word(t, base + w)) & (~(uint64_t)0 >> (63 - (pos & 63)));
        if (bits != 0) {
            pos = w << 6 | (63 - wh_clz64(bits));
            if (level == 0) {
                return pos;
            }
            base = wh_veb_level_(t, --level, &size);
            pos = pos << 6 | 63;
            down = 1;
        } else {
            if (size == 1 || w == 0) {
                return WH_VEB_NONE;
            }
            if (down) {
                wh_veb_tidy_(t, base, size, (uint32_t)w); /* I2 */
                down = 0;
            }
            base += size;
            size = wh_veb_up_(size);
            level++;
            pos = w - 1;
        }
    }
}

/* A word of level 0 that probably holds items: the one so far along the tree, *at of 2^32, where
 * each word that holds something counts as much as the others beside it; and *at becomes the place
 * in that word, likewise. So places that are evenly spread are so in what is there, and searches
 * that take such places meet as seldom as they can. NONE: the tree is empty, or the pick led to a
 * summary bit over an empty word, which is then cleared (I2) if the caller `tells`: these are a few
 * words for all, and atomics of a million lanes that have seen the same take turns there, so some
 * should, not all. Cost: a load per level above 0. */
WH_FN uint64_t wh_veb_pick_word(wh_veb t, uint32_t *at, int tells) {
    uint32_t level = 0;
    for (uint32_t size = wh_veb_up_(t.n); size > 1; size = wh_veb_up_(size)) {
        level++;
    }
    uint32_t w = 0;
    WH_NO_UNROLL
    for (; level > 0; level--) {
        uint32_t size;
        const uint32_t base = wh_veb_level_(t, level, &size);
        const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(t, base + w));
        if (bits == 0) {
            if (tells) {
                wh_veb_tidy_(t, base, size, w); /* I2 */
            }
            return WH_VEB_NONE;
        }
        w = w << 6 | wh_pick64(bits, at);
    }
    return w;
}

/* An item, likewise. NONE also if it has just been taken. Cost: a load per level. */
WH_FN uint64_t wh_veb_pick(wh_veb t, uint32_t *at, int tells) {
    const uint64_t word = wh_veb_pick_word(t, at, tells);
    const uint64_t items = word != WH_VEB_NONE ? wh_load_u64_relaxed(wh_veb_word(t, word)) : 0;
    if (word != WH_VEB_NONE && items == 0 && tells) {
        wh_veb_emptied(t, word); /* I2: the lanes that took them may not have said so */
    }
    return items != 0 ? word << 6 | wh_pick64(items, at) : WH_VEB_NONE;
}

/* Clears the summary bits that lie over the empty words on the path from x to the top, as far
 * as they are empty. A search from x cleans up what it comes down to, but not this path. */
WH_FN void wh_veb_settle(wh_veb t, uint64_t x) {
    wh_assert(x < t.n);
    uint32_t base = 0, w = (uint32_t)(x >> 6);
    WH_NO_UNROLL
    for (uint32_t size = wh_veb_up_(t.n); size > 1; size = wh_veb_up_(size)) {
        if (wh_load_u64_relaxed(wh_veb_word(t, base + w)) != 0) {
            return;
        }
        uint64_t *above = wh_veb_word(t, base + size + (w >> 6));
        if ((wh_load_u64_relaxed(above) >> (w & 63) & 1) != 0) {               /* as in tidy */
            (void)wh_fetch_and_u64_acq_rel(above, ~((uint64_t)1 << (w & 63))); /* P2 */
            if (wh_load_u64_acquire(wh_veb_word(t, base + w)) != 0) {          /* R1 */
                wh_veb_raise_(t, base, size, w);
                return;
            }
        }
        w >>= 6;
        base += size;
    }
}

/* Smallest item >= x by reading level 0 alone: finds every item whose insert came
 * before the call and that nobody takes meanwhile. Cost: n / 64 loads. */
WH_FN uint64_t wh_veb_scan(wh_veb t, uint64_t x) {
    const uint64_t size = wh_veb_up_(t.n);
    uint64_t keep = ~(uint64_t)0 << (x & 63);
    WH_NO_UNROLL
    for (uint64_t w = x >> 6; w < size; w++) {
        const uint64_t bits = wh_load_u64_acquire(wh_veb_word(t, w)) & keep;
        if (bits != 0) {
            return w << 6 | wh_ctz64(bits);
        }
        keep = ~(uint64_t)0;
    }
    return WH_VEB_NONE;
}

/* Takes the item x, found by a search, and up to want - 1 more of the same word above
 * it. Returns a mask of items of word x / 64, zero if all were taken by others
 * meanwhile. Cost: 1 load, 1 atomic. */
WH_FN uint64_t wh_veb_claim_some(wh_veb t, uint64_t x, uint32_t want) {
    wh_assert(x < t.n && want != 0);
    const uint64_t from = ~(uint64_t)0 << (x & 63);
    const uint64_t bits = wh_load_u64_relaxed(wh_veb_word(t, x >> 6)) & from;
    const uint64_t mask = wh_lowest_bits(bits, want);
    return mask != 0 ? wh_veb_claim_mask(t, x >> 6, mask) : 0;
}

/* One word of a search for `count` consecutive items from the top: *run, the items that end above
 * the word, becomes those that end above the next one. Returns where in the word such a run starts;
 * 64: none does. */
WH_FN uint32_t wh_veb_run_in_(uint64_t *run, uint64_t bits, uint64_t count) {
    uint32_t left = 64; /* bits not yet looked at, from the top */
    wh_assert_internal(count != 0 && *run < count);
    while (left > 0) {
        if (bits == 0) {
            *run = 0;
            break;
        }
        if (bits >> 63 == 0) {
            *run = 0;
            const uint32_t zeros = wh_clz64(bits);
            bits <<= zeros;
            left -= zeros;
        }
        uint32_t ones = ~bits == 0 ? 64 : wh_clz64(~bits);
        ones = ones < left ? ones : left;
        if (*run + ones >= count) {
            return left - (uint32_t)(count - *run);
        }
        *run += ones;
        left -= ones;
        bits = ones == 64 ? 0 : bits << ones;
        if (left > 0) {
            *run = 0;
        }
    }
    return 64;
}

/* First item of the highest run of `count` consecutive items, or NONE: "first fit
 * from the back" (Gallatin section 4.1). Reads level 0. Claims nothing: follow with
 * wh_veb_claim_range. */
WH_FN uint64_t wh_veb_find_run(wh_veb t, uint64_t count) {
    wh_assert(count != 0);
    uint64_t run = 0;
    for (uint64_t w = wh_veb_up_(t.n); w-- > 0;) {
        const uint64_t bits = wh_load_u64_acquire(wh_veb_word(t, w));
        const uint32_t at = wh_veb_run_in_(&run, bits, count);
        if (at < 64) {
            return (w << 6) + at;
        }
    }
    return WH_VEB_NONE;
}

/* The same by all lanes of mask, for items of words below `end`: each lane has a word at a time. */
WH_FN uint64_t wh_veb_find_run_together(wh_veb t, wh_mask mask, uint64_t count, uint64_t end) {
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const uint32_t before = rank == 0 ? wh_lane_id() : wh_select32(mask, rank);
    const uint32_t last = wh_select32(mask, lanes);
    uint64_t run = 0, found = WH_VEB_NONE;
    wh_assert(count != 0 && end <= wh_veb_up_(t.n) && (mask >> wh_lane_id() & 1) != 0);
    WH_NO_UNROLL
    for (uint64_t top = end; top > 0 && found == WH_VEB_NONE; top -= top < lanes ? top : lanes) {
        const uint64_t bits = rank < top ? wh_load_u64_relaxed(wh_veb_word(t, top - 1 - rank)) : 0;
        /* Whether a run may start here: in the word, or with items above it. */
        const uint64_t above = wh_shfl_u64(mask, bits, before);
        uint64_t its = run;
        if (rank != 0) {
            its = ~above == 0 ? 64 : wh_ctz64(~above);
        }
        uint64_t starts = bits; /* of runs of `length` */
        WH_NO_UNROLL
        for (uint64_t length = 1, more; length < count && starts != 0; length += more) {
            more = length < count - length ? length : count - length;
            starts = more < 64 ? starts & starts >> more : 0;
        }
        const int may = starts != 0 || ~bits == 0 || its + wh_clz64(~bits) >= count;
        if (!wh_any(mask, may)) {
            const uint64_t lowest = wh_shfl_u64(mask, bits, last);
            run = wh_ctz64(~lowest);
            continue;
        }
        WH_NO_UNROLL
        for (uint32_t k = 0; k < lanes && k < top && found == WH_VEB_NONE; k++) {
            const uint64_t word = wh_shfl_u64(mask, bits, wh_select32(mask, k + 1));
            const uint32_t at = wh_veb_run_in_(&run, word, count);
            found = at < 64 ? ((top - 1 - k) << 6) + at : found;
        }
    }
    wh_fence();
    return found;
}

/* The part of word w that lies in items [first, first + count). */
WH_HD uint64_t wh_veb_part_(uint64_t w, uint64_t first, uint64_t count) {
    const uint64_t lo = w << 6 > first ? 0 : first - (w << 6);
    const uint64_t end = first + count - (w << 6);
    const uint64_t hi = end < 64 ? end : 64;
    return (hi == 64 ? ~(uint64_t)0 : ((uint64_t)1 << hi) - 1) & (~(uint64_t)0 << lo);
}

/* Words 64 s + i of level 0, a bit i each of `mask`, have become non-zero: tells the levels above,
 * those of one word of level 1 by one atomic (I3). */
WH_FN void wh_veb_raise_words_(wh_veb t, uint64_t s, uint64_t mask) {
    const uint32_t size = wh_veb_up_(t.n);
    if (mask != 0 && size > 1 &&
        WH_PLANT(veb_p2_range, wh_fetch_or_u64_acq_rel,
                 wh_fetch_or_u64_relaxed)(wh_veb_word(t, size + s), mask) == 0) { /* P2 */
        wh_veb_raise_(t, size, wh_veb_up_(size), (uint32_t)s);
    }
}

/* The same of words that have become zero, under R1. */
WH_FN void wh_veb_lower_words_(wh_veb t, uint64_t s, uint64_t mask) {
    const uint32_t size = wh_veb_up_(t.n);
    if (mask == 0 || size == 1) {
        return;
    }
    const uint64_t old = wh_fetch_and_u64_acq_rel(wh_veb_word(t, size + s), ~mask); /* P2 */
    const uint32_t end = 64 - wh_clz64(mask);
    uint64_t again = 0;
    WH_NO_UNROLL
    for (uint32_t i = wh_ctz64(mask); i < end; i += 4) {
        uint64_t now[4]; /* side by side */
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t at = i + k < end ? i + k : end - 1;
            now[k] = wh_load_u64_relaxed(wh_veb_word(t, s << 6 | at)); /* R1 */
        }
        for (uint32_t k = 0; k < 4; k++) {
            again |= (uint64_t)(now[k] != 0) << (i + k < end ? i + k : end - 1);
        }
    }
    again = WH_PLANT(veb_r1_range, again & mask, 0);
    if (again != 0) {
        wh_veb_raise_words_(t, s, again);
    } else if (old != 0 && (old & ~mask) == 0) {
        wh_veb_lower_(t, size, wh_veb_up_(size), (uint32_t)s);
    }
}

/* Adds items [first, first + count). Cost: an atomic a word, and one more for each 64 words. */
WH_FN void wh_veb_insert_range(wh_veb t, uint64_t first, uint64_t count) {
    const uint64_t last = (first + count - 1) >> 6;
    wh_assert(first <= t.n && count <= t.n - first);
    uint64_t filled = 0; /* words of one of level 1 that were empty */
    WH_NO_UNROLL
    for (uint64_t w = first >> 6; count != 0 && w <= last; w++) {
        const uint64_t old =
            WH_PLANT(veb_p1_range, wh_fetch_or_u64_acq_rel, wh_fetch_or_u64_relaxed)(
                wh_veb_word(t, w), wh_veb_part_(w, first, count)); /* P1 */
        filled |= (uint64_t)(old == 0) << (w & 63);
        if (w == last || (w & 63) == 63) {
            wh_veb_raise_words_(t, w >> 6, filled);
            filled = 0;
        }
    }
}

/* Takes out what is there of items [first, first + count). Cost: a load a word, and an atomic or
 * more for each that is not empty. */
WH_FN void wh_veb_remove_range(wh_veb t, uint64_t first, uint64_t count) {
    const uint64_t end = first + count;
    wh_assert(first <= t.n && count <= t.n - first);
    WH_NO_UNROLL
    for (uint64_t w = first >> 6; w << 6 < end; w++) {
        const uint64_t part = count != 0 ? wh_veb_part_(w, first, count) : 0;
        if ((wh_load_u64_relaxed(wh_veb_word(t, w)) & part) != 0) {
            (void)wh_veb_claim_mask(t, w, part); /* I1 */
        }
    }
}

/* Takes all items [first, first + count), or none: 1 or 0. While it runs it may hold
 * items that it then puts back; a search may miss these. What it has emptied it tells the levels
 * above at last, by an atomic for each 64 words: until then searches may look in vain.
 * Progress among several runs: words are taken from the highest down, so of all
 * lanes that hold part of a range the one that holds the lowest item is stopped by no
 * other such lane: it ends with success, or with an item that someone owns for good. */
WH_FN int wh_veb_claim_range(wh_veb t, uint64_t first, uint64_t count) {
    const uint64_t low = first >> 6, last = (first + count - 1) >> 6;
    wh_assert(count != 0 && first < t.n && count <= t.n - first);
    WH_PLANT(veb_p3_range, wh_fence(), (void)0); /* P3 */
    int last_emptied = 0, low_emptied = 0;       /* all words in between are */
    WH_NO_UNROLL
    for (uint64_t w = last + 1; w > low;) {
        const uint64_t part = wh_veb_part_(--w, first, count);
        const uint64_t old = WH_PLANT(veb_p1_range_claim, wh_fetch_and_u64_acquire,
                                      wh_fetch_and_u64_relaxed)(wh_veb_word(t, w), ~part); /* P1 */
        if ((old & part) != part) { /* all goes back */
            if ((old & part) != 0) {
                (void)wh_veb_insert_mask(t, w, old & part);
            }
            if (w < last) {
                wh_veb_insert_range(t, (w + 1) << 6, first + count - ((w + 1) << 6));
            }
            return 0;
        }
        low_emptied = old == part;
        last_emptied = w == last ? low_emptied : last_emptied;
    }
    WH_NO_UNROLL
    for (uint64_t s = low >> 6; s <= last >> 6; s++) {
        uint64_t words = wh_veb_part_(s, low, last - low + 1);
        words &= ~((uint64_t)(s == low >> 6 && !low_emptied) << (low & 63));
        words &= ~((uint64_t)(s == last >> 6 && !last_emptied) << (last & 63));
        wh_veb_lower_words_(t, s, words);
    }
    return 1;
}

/* I2 for word `index` of a quiet tree: 1 if its summary bit is set where needed and no
 * bit past the universe is set. Call for every index below wh_veb_words(n). */
WH_FN int wh_veb_check(wh_veb t, uint64_t index) {
    wh_assert(index < wh_veb_words(t.n));
    const uint64_t word = wh_load_u64_relaxed(wh_veb_word(t, index));
    uint64_t base = 0, w = index, size = wh_veb_up_(t.n), bits = t.n;
    while (w >= size) {
        w -= size;
        base += size;
        bits = size;
        size = wh_veb_up_(size);
    }
    const uint64_t used = bits - w * 64;
    if (used < 64 && word >> used != 0) {
        return 0;
    }
    if (size == 1) {
        return 1;
    }
    const uint64_t above = wh_load_u64_relaxed(wh_veb_word(t, base + size + (w >> 6)));
    return word == 0 || (above >> (w & 63) & 1) != 0;
}

#include "warpheap/detail/simt/end.h"

#endif

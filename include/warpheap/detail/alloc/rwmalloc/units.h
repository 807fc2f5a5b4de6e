/* alloc/rwmalloc/units.h: consecutive units: the walk, and the sweep. */
#ifndef WH_ALLOC_RWMALLOC_UNITS_H
#define WH_ALLOC_RWMALLOC_UNITS_H

#include "warpheap/detail/alloc/rwmalloc/bits.h"
#include "warpheap/detail/alloc/rwmalloc/layout.h"
#include "warpheap/core/walk_random.h"

#include "warpheap/detail/simt/begin.h"

/* Gives n units back. The caller owns them; what was written to them is released. */
WH_FN void wh_rwmalloc_release_(uint64_t *words, uint32_t first, uint32_t n) {
    for (uint32_t k = first / WH_USE_BITS; n != 0 && k <= (first + n - 1) / WH_USE_BITS; k++) {
        wh_use_release(&words[k], wh_rwmalloc_part_(k, first, n)); /* P1 */
    }
}

/* Claims n units, word by word upwards (Progress); all or none. */
WH_FN int wh_rwmalloc_claim_(uint64_t *words, uint32_t first, uint32_t n) {
    for (uint32_t k = first / WH_USE_BITS; k <= (first + n - 1) / WH_USE_BITS; k++) {
        uint64_t seen = wh_load_u64_relaxed(&words[k]);
        if (!wh_use_claim(&words[k], &seen, wh_rwmalloc_part_(k, first, n))) { /* I1, P1 */
            const uint32_t below = k * WH_USE_BITS;
            wh_rwmalloc_release_(words, first, below > first ? below - first : 0);
            return 0;
        }
    }
    return 1;
}

typedef struct wh_rwmalloc_map {
    uint64_t *words;
    uint32_t n_words;
    uint32_t start; /* word at which a first, quick pass begins */
} wh_rwmalloc_map;

/* A run of n units for the warp, found by all lanes of mask and claimed by the leader: the
 * first unit, in all lanes, or NONE by X1. Every lane of mask passes the same values. */
WH_FN_SLOW uint32_t wh_rwmalloc_sweep_(wh_rwmalloc_map m, wh_mask mask, uint32_t n) {
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    const uint32_t leader = wh_mask_leader(mask);
    for (uint32_t round = 0;; round++) {
        uint64_t sum = 0, again = 0;
        uint32_t carry = 0; /* free units just before word `expected` */
        uint32_t expected = WH_RWMALLOC_NONE;
        int lost = 0;
        uint64_t words[2]; /* two of each lane on their way at a time */
        for (uint32_t first = round == 0 ? m.start : 0; first < m.n_words; first += 2 * lanes) {
            for (uint32_t j = 0; j < 2; j++) {
                const uint32_t i = first + j * lanes + rank;
                words[j] = i < m.n_words ? wh_load_u64_relaxed(&m.words[i]) : UINT32_MAX;
            }
            WH_NO_UNROLL
            for (uint32_t base = first; base < first + 2 * lanes; base += lanes) {
                const uint32_t free = wh_use_free(words[0]);
                sum += wh_use_releases(words[0]);
                words[0] = words[1];
                /* Does a run of n end in this word? Words that are all free are counted below. */
                const uint32_t lead = free == ~0u ? WH_USE_BITS : wh_ctz32(~free);
                const uint32_t trail = free == ~0u ? WH_USE_BITS : wh_clz32(~free);
                const uint32_t other = wh_shfl_u32(
                    mask, trail, rank != 0 ? 31 - wh_clz32(mask & wh_lanemask_lt()) : leader);
                const uint32_t left = rank != 0 ? other : expected == base ? carry : 0;
                const uint64_t inside = n <= WH_USE_BITS ? wh_rwmalloc_starts_(free, n) : 0;
                if (!wh_any(mask, free == ~0u || left + lead >= n || inside != 0)) {
                    expected = base + lanes;
                    carry = wh_shfl_u32(mask, trail, 31 - wh_clz32(mask));
                    continue;
                }
                for (wh_mask some = wh_ballot(mask, free != 0); some != 0; some &= some - 1) {
                    const uint32_t lane = wh_ctz32(some);
                    const uint32_t f = wh_shfl_u32(mask, free, lane);
                    const uint32_t k = base + wh_popc32(mask & ((1u << lane) - 1));
                    const uint32_t begins = wh_shfl_u32(mask, lead, lane);
                    uint32_t at = WH_RWMALLOC_NONE;
                    carry = k == expected ? carry : 0;
                    if (carry + begins >= n) {
                        at = k * WH_USE_BITS - carry;
                    } else if (n <= WH_USE_BITS) {
                        const uint32_t starts = (uint32_t)wh_rwmalloc_starts_(f, n);
                        at = starts != 0 ? k * WH_USE_BITS + wh_ctz32(starts) : at;
                    }
                    expected = k + 1;
                    carry = f == ~0u ? carry + WH_USE_BITS : wh_clz32(~f);
                    if (at != WH_RWMALLOC_NONE) {
                        uint32_t mine = 0;
                        if (wh_lane_id() == leader) {
                            mine = (uint32_t)wh_rwmalloc_claim_(m.words, at, n);
                        }
                        if (wh_shfl_u32(mask, mine, leader) != 0) {
                            return at;
                        }
                        lost = 1; /* somebody was quicker */
                        carry = 0;
                    }
                }
            }
        }
        if (lost || (round == 0 && WH_PLANT(rwmalloc_x1, 1, 0))) {
            continue;
        }
        wh_fence(); /* X1: every lane's second reading comes after every lane's first */
        wh_syncwarp(mask);
        for (uint32_t first = 0; first < m.n_words; first += 4 * lanes) {
            for (uint32_t j = 0; j < 4; j++) {
                const uint32_t i = first + j * lanes + rank;
                again += i < m.n_words ? wh_use_releases(wh_load_u64_relaxed(&m.words[i])) : 0;
            }
        }
        if (wh_all(mask, WH_PLANT(rwmalloc_x1, sum == again, 1))) { /* X1 */
            return WH_RWMALLOC_NONE;
        }
    }
}

/* --- the walk: Algorithm 6 -------------------------------------------------------------------- */

typedef struct wh_units_got {
    uint32_t unit;  /* first one, or WH_RWMALLOC_NONE */
    uint32_t steps; /* regions that the warp looked at in its walk */
} wh_units_got;

/* n consecutive units for each lane of mask; none for n = 0. Before the lanes touch the
 * units they need a syncwarp (P1). */
WH_FN wh_units_got wh_rwmalloc_get_units(wh_rwmalloc_ref h, wh_mask mask, uint32_t n) {
    wh_walk_random random = wh_walk_seed();
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    const uint32_t leader = wh_mask_leader(mask), self = wh_lane_id();
    const uint32_t after = rank + 1 < lanes ? wh_rwmalloc_lane_(mask, rank + 1) : self;
    wh_units_got got;
    got.unit = WH_RWMALLOC_NONE;
    got.steps = 0;
    int pending = n != 0 && n <= WH_USE_BITS;
    for (uint32_t failed = 0; failed < h.limit && wh_any(mask, pending); got.steps++) {
        const uint32_t start = wh_shfl_u32(mask, wh_walk_below(&random, h.n_words), leader);
        const uint32_t i = start + rank;
        uint32_t free = i < h.n_words ? wh_use_free(wh_load_u64_acquire(&h.words[i])) : 0; /* P1 */
        uint32_t take = 0;                /* bits of my word that somebody gets */
        uint32_t unit = WH_RWMALLOC_NONE; /* what I get */
        /* Small requests of one size side by side in as few words as hold them: the first
         * lane's words serve the first lanes. */
        const wh_mask open = wh_ballot(mask, pending);
        const uint32_t size = wh_shfl_u32(mask, n, wh_ctz32(open));
        if (size <= WH_RWMALLOC_PACKED) {
            const int alike = pending && n == size;
            const wh_mask asking = wh_ballot(mask, alike);
            const uint32_t most = wh_popc32(asking);
            const uint32_t room = wh_rwmalloc_segments_(free, size);
            const uint32_t mine = alike ? wh_mask_rank(asking) : UINT32_MAX;
            uint32_t given = 0;
            for (wh_mask left = wh_ballot(mask, room != 0); left != 0 && given < most;
                 left &= left - 1) {
                const uint32_t from = wh_ctz32(left);
                const uint32_t bits = wh_shfl_u32(mask, free, from);
                const uint32_t has = wh_shfl_u32(mask, room, from);
                const uint32_t gives = has < most - given ? has : most - given;
                if (mine - given < gives) { /* false for who has got one, or asks for none */
                    const uint32_t from_rank = wh_popc32(mask & ((1u << from) - 1));
                    unit = (start + from_rank) * WH_USE_BITS +
                           wh_rwmalloc_segment_(bits, size, mine - given);
                }
                if (self == from) {
                    take = wh_rwmalloc_first_(free, size, gives);
                    free &= ~take;
                }
                given += gives;
            }
        }
        /* The others all at once: a segment inside the lane's own word. */
        if (pending && unit == WH_RWMALLOC_NONE) {
            const uint32_t starts = (uint32_t)wh_rwmalloc_starts_(free, n);
            if (starts != 0) {
                const uint32_t b = wh_ctz32(starts);
                take |= (uint32_t)wh_rwmalloc_bits_(n, b);
                free &= ~take;
                unit = i * WH_USE_BITS + b;
            }
        }
        /* The others in turn: a segment of any word, that may go on in the next one. */
        for (wh_mask left = wh_ballot(mask, pending && unit == WH_RWMALLOC_NONE) & mask; left != 0;
             left &= left - 1) {
            const uint32_t to = wh_ctz32(left);
            const uint32_t wanted = wh_shfl_u32(mask, n, to);
            const uint32_t next = wh_shfl_u32(mask, free, after);
            const uint64_t window = free | (uint64_t)(after != self ? next : 0) << 32;
            const uint32_t starts = (uint32_t)wh_rwmalloc_starts_(window, wanted);
            const wh_mask has = wh_ballot(mask, starts != 0) & mask;
            if (has == 0) {
                continue;
            }
            const uint32_t from = wh_ctz32(has);
            const uint32_t b = wh_shfl_u32(mask, starts != 0 ? wh_ctz32(starts) : 0, from);
            const uint32_t from_rank = wh_popc32(mask & ((1u << from) - 1));
            const uint64_t bits = wh_rwmalloc_bits_(wanted, b);
            const uint32_t mine = rank == from_rank       ? (uint32_t)bits
                                  : rank == from_rank + 1 ? (uint32_t)(bits >> 32)
                                                          : 0;
            take |= mine;
            free &= ~mine;
            if (self == to) {
                unit = (start + from_rank) * WH_USE_BITS + b;
            }
        }
        /* One atomic a word; who got a bit that was no longer free gives the rest back. */
        const uint32_t conflict = take != 0
                                      ? (uint32_t)WH_PLANT_ORDER(rwmalloc_p1_get, wh_fetch_or_u64,
                                                                 acquire)(&h.words[i], take) &
                                            WH_PLANT(rwmalloc_i1, take, 0u)
                                      : 0; /* I1, P1 */
        const int served = unit != WH_RWMALLOC_NONE;
        const uint32_t k = served ? unit / WH_USE_BITS - start : 0;
        const uint64_t bits = served ? wh_rwmalloc_bits_(n, unit % WH_USE_BITS) : 0;
        const uint32_t low_lane = wh_rwmalloc_lane_(mask, k);
        const uint32_t high_lane =
            (uint32_t)(bits >> 32) != 0 ? wh_rwmalloc_lane_(mask, k + 1) : low_lane;
        const uint32_t low_lost = wh_shfl_u32(mask, conflict, low_lane) & (uint32_t)bits;
        const uint32_t high_lost = wh_shfl_u32(mask, conflict, high_lane) & (uint32_t)(bits >> 32);
        if (served && (low_lost | high_lost) == 0) {
            got.unit = unit;
            pending = 0;
        } else if (served) {
            const uint32_t low = (uint32_t)bits & ~low_lost;
            const uint32_t high = (uint32_t)(bits >> 32) & ~high_lost;
            if (low != 0) {
                wh_use_release(&h.words[unit / WH_USE_BITS], low);
            }
            if (high != 0) {
                wh_use_release(&h.words[unit / WH_USE_BITS + 1], high);
            }
        }
        failed = wh_any(mask, served && !pending) ? 0 : failed + lanes;
    }
    /* Long runs, and what the walk did not find: the smallest first, for if there is no
     * room for it there is none for the others. */
    for (;;) {
        const int open = n != 0 && got.unit == WH_RWMALLOC_NONE;
        const uint32_t least = ~wh_reduce_max_u32(mask, open ? ~n : 0);
        if (least == ~0u) {
            break;
        }
        wh_rwmalloc_map m;
        m.words = h.words;
        m.n_words = h.n_words;
        m.start = wh_shfl_u32(mask, wh_walk_below(&random, h.n_words), leader);
        /* Not behind the call, where parts of the warp would count themselves (simt/cuda.h). */
        const wh_mask who = wh_ballot(mask, open && n == least) & mask;
        const uint32_t unit = wh_rwmalloc_sweep_(m, mask, least);
        if (unit == WH_RWMALLOC_NONE) {
            break;
        }
        got.unit = self == wh_ctz32(who) ? unit : got.unit;
    }
    return got;
}

#include "warpheap/detail/simt/end.h"

#endif

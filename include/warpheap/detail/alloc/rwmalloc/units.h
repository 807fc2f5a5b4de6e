/* alloc/rwmalloc/units.h: consecutive units for the lanes of a warp: the walk (Algorithm 6), and
 * the sweep, which also says when there are none. It may change.
 *
 * Departures: requests of one size, up to PACKED units, are laid side by side in as few
 * words as hold them, so that one atomic serves many and their states share sectors; then a
 * lane takes from its own word, all lanes at once; the others are served one after the other,
 * as in Algorithm 6. One atomic per word claims the units of all lanes that take from it.
 *
 * Rules
 *   I1  a unit has one owner: its bit goes 0 -> 1 for one fetch_or or cas
 *   P1  free (add release) -> malloc (acquire of the same word, then a syncwarp: the lane
 *       that acquires and the lane that gets the units differ)
 *   X1  NULL only after a pass over all words found no segment that would do and a second
 *       pass showed that nothing was released in between (core/use_word.h X1). Units that another
 *       request of several units holds for a moment, before it finds a conflict and gives
 *       them back, count as used.
 * Progress  lock-free. The walk ends after S_L words in a row without success. A sweep
 *       repeats only if a release or a lost claim came in between. Claims of several words
 *       go upwards: one that fails met bits of another that was there first, which fails
 *       only further up; the uppermost succeeds, or met a block that was allocated
 *       meanwhile.
 */
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

/* Where a pass of the sweep is. */
typedef struct wh_rwmalloc_scan {
    uint64_t sum;      /* releases of the words that the caller has looked at */
    uint32_t carry;    /* free units just before word `expected` */
    uint32_t expected; /* NONE at first */
    int lost;          /* somebody was quicker at a claim */
} wh_rwmalloc_scan;

/* Goes through the words from `base` on, one a lane, one after the other, and claims the first run
 * of n units; NONE: there was none. free: of the caller's word. All lanes of mask call. */
WH_FN uint32_t wh_rwmalloc_go_through_(wh_rwmalloc_map m, wh_mask mask, uint32_t n, uint32_t base,
                                       uint32_t free, wh_rwmalloc_scan *scan) {
    const uint32_t leader = wh_mask_leader(mask);
    for (wh_mask some = wh_ballot(mask, free != 0); some != 0; some &= some - 1) {
        const uint32_t lane = wh_ctz32(some);
        const uint32_t f = wh_shfl_u32(mask, free, lane);
        const uint32_t k = base + wh_popc32(mask & ((1u << lane) - 1));
        const uint32_t begins = f == ~0u ? WH_USE_BITS : wh_ctz32(~f);
        uint32_t at = WH_RWMALLOC_NONE;
        scan->carry = k == scan->expected ? scan->carry : 0;
        if (scan->carry + begins >= n) {
            at = k * WH_USE_BITS - scan->carry;
        } else if (n <= WH_USE_BITS) {
            const uint32_t starts = (uint32_t)wh_rwmalloc_starts_(f, n);
            at = starts != 0 ? k * WH_USE_BITS + wh_ctz32(starts) : at;
        }
        scan->expected = k + 1;
        scan->carry = f == ~0u ? scan->carry + WH_USE_BITS : wh_clz32(~f);
        if (at != WH_RWMALLOC_NONE) {
            uint32_t mine = 0;
            if (wh_lane_id() == leader) {
                mine = (uint32_t)wh_rwmalloc_claim_(m.words, at, n);
            }
            if (wh_shfl_u32(mask, mine, leader) != 0) {
                return at;
            }
            scan->lost = 1;
            scan->carry = 0;
        }
    }
    return WH_RWMALLOC_NONE;
}

/* The same, if a run of n may end in one of these words; most have none. */
WH_FN uint32_t wh_rwmalloc_look_(wh_rwmalloc_map m, wh_mask mask, uint32_t n, uint32_t base,
                                 uint32_t free, wh_rwmalloc_scan *scan) {
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    /* Words that are all free are counted below. */
    const uint32_t lead = free == ~0u ? WH_USE_BITS : wh_ctz32(~free);
    const uint32_t trail = free == ~0u ? WH_USE_BITS : wh_clz32(~free);
    const uint32_t below = rank != 0 ? 31 - wh_clz32(mask & wh_lanemask_lt()) : wh_lane_id();
    const uint32_t other = wh_shfl_u32(mask, trail, below);
    const uint32_t before = scan->expected == base ? scan->carry : 0;
    const uint32_t left = rank != 0 ? other : before;
    const uint64_t inside = n <= WH_USE_BITS ? wh_rwmalloc_starts_(free, n) : 0;
    if (wh_any(mask, free == ~0u || left + lead >= n || inside != 0)) {
        return wh_rwmalloc_go_through_(m, mask, n, base, free, scan);
    }
    scan->expected = base + lanes;
    scan->carry = wh_shfl_u32(mask, trail, 31 - wh_clz32(mask));
    return WH_RWMALLOC_NONE;
}

/* Whether the releases of all words that the caller looks at still sum up to `sum`: X1. */
WH_FN int wh_rwmalloc_same_(wh_rwmalloc_map m, wh_mask mask, uint64_t sum) {
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    uint64_t again = 0;
    wh_fence(); /* X1: every lane's second reading comes after every lane's first */
    wh_syncwarp(mask);
    for (uint32_t first = 0; first < m.n_words; first += 4 * lanes) {
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t i = first + j * lanes + rank;
            again += i < m.n_words ? wh_use_releases(wh_load_u64_relaxed(&m.words[i])) : 0;
        }
    }
    return WH_PLANT(rwmalloc_x1, sum == again, 1); /* X1 */
}

/* A run of n units for the warp, found by all lanes of mask and claimed by the leader: the
 * first unit, in all lanes, or NONE by X1. Every lane of mask passes the same values. */
WH_FN_SLOW uint32_t wh_rwmalloc_sweep_(wh_rwmalloc_map m, wh_mask mask, uint32_t n) {
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    wh_assert_internal(n != 0 && m.start < m.n_words && (mask >> wh_lane_id() & 1) != 0);
    for (uint32_t round = 0;; round++) {
        wh_rwmalloc_scan scan = {0, 0, WH_RWMALLOC_NONE, 0};
        uint64_t words[2]; /* two of each lane on their way at a time */
        for (uint32_t first = round == 0 ? m.start : 0; first < m.n_words; first += 2 * lanes) {
            for (uint32_t j = 0; j < 2; j++) {
                const uint32_t i = first + j * lanes + rank;
                words[j] = i < m.n_words ? wh_load_u64_relaxed(&m.words[i]) : UINT32_MAX;
            }
            WH_NO_UNROLL
            for (uint32_t base = first; base < first + 2 * lanes; base += lanes) {
                const uint32_t free = wh_use_free(words[0]);
                scan.sum += wh_use_releases(words[0]);
                words[0] = words[1];
                const uint32_t at = wh_rwmalloc_look_(m, mask, n, base, free, &scan);
                if (at != WH_RWMALLOC_NONE) {
                    return at;
                }
            }
        }
        if (scan.lost || (round == 0 && WH_PLANT(rwmalloc_x1, 1, 0))) {
            continue;
        }
        if (wh_all(mask, wh_rwmalloc_same_(m, mask, scan.sum))) {
            return WH_RWMALLOC_NONE;
        }
    }
}

typedef struct wh_units_got {
    uint32_t unit;  /* first one, or WH_RWMALLOC_NONE */
    uint32_t steps; /* regions that the warp looked at in its walk */
} wh_units_got;

/* A lane in a step of the walk. */
typedef struct wh_rwmalloc_step {
    wh_mask mask;   /* lanes that walk together */
    uint32_t start; /* the first word of the region */
    uint32_t i;     /* the caller's word */
    uint32_t free;  /* its bits that are free, and not given yet */
    uint32_t take;  /* its bits that somebody gets */
    uint32_t n;     /* what the caller asks for; 0: nothing, any more */
    uint32_t unit;  /* what it gets */
} wh_rwmalloc_step;

/* Whether the caller asks, and has been given nothing in this step. */
WH_FN int wh_rwmalloc_asks_(wh_rwmalloc_step s) {
    return s.n != 0 && s.unit == WH_RWMALLOC_NONE;
}

/* Small requests of one size side by side in as few words as hold them: the first lane's words
 * serve the first lanes. */
WH_FN void wh_rwmalloc_give_alike_(wh_rwmalloc_step *s) {
    const wh_mask mask = s->mask;
    const uint32_t size = wh_shfl_u32(mask, s->n, wh_ctz32(wh_ballot(mask, s->n != 0)));
    if (size > WH_RWMALLOC_PACKED) {
        return;
    }
    const int alike = s->n == size;
    const wh_mask asking = wh_ballot(mask, alike);
    const uint32_t most = wh_popc32(asking);
    const uint32_t room = wh_rwmalloc_segments_(s->free, size);
    const uint32_t mine = alike ? wh_mask_rank(asking) : UINT32_MAX;
    uint32_t given = 0;
    for (wh_mask left = wh_ballot(mask, room != 0); left != 0 && given < most; left &= left - 1) {
        const uint32_t from = wh_ctz32(left);
        const uint32_t bits = wh_shfl_u32(mask, s->free, from);
        const uint32_t has = wh_shfl_u32(mask, room, from);
        const uint32_t gives = has < most - given ? has : most - given;
        if (mine - given < gives) { /* false for a lane that has got one, or asks for none */
            const uint32_t from_rank = wh_popc32(mask & ((1u << from) - 1));
            s->unit = (s->start + from_rank) * WH_USE_BITS +
                      wh_rwmalloc_segment_(bits, size, mine - given);
        }
        if (wh_lane_id() == from) {
            s->take = wh_rwmalloc_first_(s->free, size, gives);
            s->free &= ~s->take;
        }
        given += gives;
    }
}

/* The others all at once: a segment inside the lane's own word. */
WH_FN void wh_rwmalloc_give_own_(wh_rwmalloc_step *s) {
    if (!wh_rwmalloc_asks_(*s)) {
        return;
    }
    const uint32_t starts = (uint32_t)wh_rwmalloc_starts_(s->free, s->n);
    if (starts != 0) {
        const uint32_t b = wh_ctz32(starts);
        s->take |= (uint32_t)wh_rwmalloc_bits_(s->n, b);
        s->free &= ~s->take;
        s->unit = s->i * WH_USE_BITS + b;
    }
}

/* The others in turn: a segment of any word, that may go on in the next one. */
WH_FN void wh_rwmalloc_give_others_(wh_rwmalloc_step *s) {
    const wh_mask mask = s->mask;
    const uint32_t rank = wh_mask_rank(mask), self = wh_lane_id();
    const uint32_t after = rank + 1 < wh_popc32(mask) ? wh_rwmalloc_lane_(mask, rank + 1) : self;
    for (wh_mask left = wh_ballot(mask, wh_rwmalloc_asks_(*s)) & mask; left != 0;
         left &= left - 1) {
        const uint32_t to = wh_ctz32(left);
        const uint32_t wanted = wh_shfl_u32(mask, s->n, to);
        const uint32_t next = wh_shfl_u32(mask, s->free, after);
        const uint64_t window = s->free | (uint64_t)(after != self ? next : 0) << 32;
        const uint32_t starts = (uint32_t)wh_rwmalloc_starts_(window, wanted);
        const wh_mask has = wh_ballot(mask, starts != 0) & mask;
        if (has == 0) {
            continue;
        }
        const uint32_t from = wh_ctz32(has);
        const uint32_t b = wh_shfl_u32(mask, starts != 0 ? wh_ctz32(starts) : 0, from);
        const uint32_t from_rank = wh_popc32(mask & ((1u << from) - 1));
        const uint64_t bits = wh_rwmalloc_bits_(wanted, b);
        uint32_t mine = rank == from_rank ? (uint32_t)bits : 0;
        mine |= rank == from_rank + 1 ? (uint32_t)(bits >> 32) : 0;
        s->take |= mine;
        s->free &= ~mine;
        if (self == to) {
            s->unit = (s->start + from_rank) * WH_USE_BITS + b;
        }
    }
}

/* Claims what has been given, by one atomic a word: whether the caller has got its units. A lane
 * that got a bit which was no longer free gives the rest back. */
WH_FN int wh_rwmalloc_settle_(wh_rwmalloc_ref h, wh_rwmalloc_step s) {
    uint32_t conflict = 0;
    if (s.take != 0) {
        conflict = (uint32_t)WH_PLANT(rwmalloc_p1_get, wh_fetch_or_u64_acquire,
                                      wh_fetch_or_u64_relaxed)(&h.words[s.i], s.take) &
                   WH_PLANT(rwmalloc_i1, s.take, 0u); /* I1, P1 */
    }
    const int served = s.unit != WH_RWMALLOC_NONE;
    const uint32_t k = served ? s.unit / WH_USE_BITS - s.start : 0;
    const uint64_t bits = served ? wh_rwmalloc_bits_(s.n, s.unit % WH_USE_BITS) : 0;
    const uint32_t low_lane = wh_rwmalloc_lane_(s.mask, k);
    const uint32_t high_lane =
        (uint32_t)(bits >> 32) != 0 ? wh_rwmalloc_lane_(s.mask, k + 1) : low_lane;
    const uint32_t low_lost = wh_shfl_u32(s.mask, conflict, low_lane) & (uint32_t)bits;
    const uint32_t high_lost = wh_shfl_u32(s.mask, conflict, high_lane) & (uint32_t)(bits >> 32);
    if (!served || (low_lost | high_lost) == 0) {
        return served;
    }
    const uint32_t low = (uint32_t)bits & ~low_lost;
    const uint32_t high = (uint32_t)(bits >> 32) & ~high_lost;
    if (low != 0) {
        wh_use_release(&h.words[s.unit / WH_USE_BITS], low);
    }
    if (high != 0) {
        wh_use_release(&h.words[s.unit / WH_USE_BITS + 1], high);
    }
    return 0;
}

/* Long runs, and what the walk did not find: the smallest first, for if there is no room for it
 * there is none for the others. unit: what the caller has; its n units, or NONE. */
WH_FN uint32_t wh_rwmalloc_or_sweep_(wh_rwmalloc_ref h, wh_mask mask, uint32_t n,
                                     wh_walk_random *random, uint32_t unit) {
    for (;;) {
        const int open = n != 0 && unit == WH_RWMALLOC_NONE;
        const uint32_t least = ~wh_reduce_max_u32(mask, open ? ~n : 0);
        if (least == ~0u) {
            return unit;
        }
        wh_rwmalloc_map m;
        m.words = h.words;
        m.n_words = h.n_words;
        m.start = wh_shfl_u32(mask, wh_walk_below(random, h.n_words), wh_mask_leader(mask));
        /* Not behind the call, where parts of the warp would count themselves (simt/cuda.h). */
        const wh_mask who = wh_ballot(mask, open && n == least) & mask;
        const uint32_t found = wh_rwmalloc_sweep_(m, mask, least);
        if (found == WH_RWMALLOC_NONE) {
            return unit;
        }
        unit = wh_lane_id() == wh_ctz32(who) ? found : unit;
    }
}

/* n consecutive units for each lane of mask; none for n = 0. Before the lanes touch the
 * units they need a syncwarp (P1). */
WH_FN wh_units_got wh_rwmalloc_get_units(wh_rwmalloc_ref h, wh_mask mask, uint32_t n) {
    wh_walk_random random = wh_walk_seed();
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    const uint32_t leader = wh_mask_leader(mask);
    wh_units_got got;
    wh_rwmalloc_step s;
    wh_assert((mask >> wh_lane_id() & 1) != 0);
    got.unit = WH_RWMALLOC_NONE;
    got.steps = 0;
    s.mask = mask;
    s.n = n <= WH_USE_BITS ? n : 0;
    for (uint32_t failed = 0; failed < h.limit && wh_any(mask, s.n != 0); got.steps++) {
        s.start = wh_shfl_u32(mask, wh_walk_below(&random, h.n_words), leader);
        s.i = s.start + rank;
        s.free = s.i < h.n_words ? wh_use_free(wh_load_u64_acquire(&h.words[s.i])) : 0; /* P1 */
        s.take = 0;
        s.unit = WH_RWMALLOC_NONE;
        wh_rwmalloc_give_alike_(&s);
        wh_rwmalloc_give_own_(&s);
        wh_rwmalloc_give_others_(&s);
        const int served = wh_rwmalloc_settle_(h, s);
        got.unit = served ? s.unit : got.unit;
        s.n = served ? 0 : s.n;
        failed = wh_any(mask, served) ? 0 : failed + lanes;
    }
    got.unit = wh_rwmalloc_or_sweep_(h, mask, n, &random, got.unit);
    return got;
}

#include "warpheap/detail/simt/end.h"

#endif

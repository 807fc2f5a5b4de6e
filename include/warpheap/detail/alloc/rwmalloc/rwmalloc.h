/* alloc/rwmalloc: RW_malloc of Pham et al., "Dynamic Buffer Management in Massively
 * Parallel Systems: The Power of Randomness", ACM TOPC 12(1), 2025, section 4.3,
 * Algorithm 6: memory is units of one size with their use bits in a bitmap; the lanes of a
 * warp look at consecutive words at a random place and serve each other's requests from
 * the free segments there. docs/papers/random_walk.md: claims, departures, what was measured.
 *
 * Terms (the paper's)
 *   unit      smallest piece of the bitmap, 256 bytes (tuning.unit_bytes)
 *   segment   consecutive free units; one may cross word boundaries
 *   region    the words that a warp looks at in one step
 * and piece: a request of less than a unit. The pieces of a warp's lanes are packed into
 * units together ("aggregate requests for small sizes within a warp").
 *
 * What the paper leaves open, and how it is done here
 *   - free needs to know what a pointer is: one 32-bit state word a unit. RUN | n at the
 *     first unit of n; for a unit of pieces the granules where live pieces start (bits
 *     0..15) and where pieces end (16..30; one that reaches granule 15 ends there); 0 at
 *     all others. A piece never crosses a unit, and a unit comes back when its last piece
 *     does, wherever the other units of the warp's aggregate are.
 *   - more than 32 units (8 KiB): a sweep for a run over many words, claimed from its first
 *     word to its last, so that of requests that collide one wins.
 *   - out of memory: when the walk has found nothing in S_L words in a row
 *     (random_walk/layout.h) a sweep over the bitmap decides, and NULL is exact.
 * Other departures: requests of one size, up to PACKED units, are laid side by side in as few
 * words as hold them, so that one atomic serves many and their states share sectors; then a
 * lane takes from its own word, all lanes at once; the others
 * are served one after the other, as in Algorithm 6. One atomic per word claims the units
 * of all lanes that take from it. Words have 32 use bits and a count of releases
 * (core/use_word.h).
 *
 * Fields and who writes them (device scope)
 *   words   malloc: fetch_or acquire, or cas acquire; free: add release
 *   state   malloc: store by the owner of the unit; free: RUN: store 0 by the owner;
 *           pieces: fetch_and of a start bit, acq_rel; the last one stores 0
 * Invariants
 *   I1  a unit has one owner: its bit goes 0 -> 1 for one fetch_or or cas
 *   I2  state is not 0 exactly at the first unit of each live run and at units with live
 *       pieces; a used unit with state 0 belongs to the run before it. When quiet.
 *   I3  bits behind the last unit are set, always
 * Ordering pairs
 *   P1  free (add release) -> malloc (acquire of the same word, then a syncwarp: the lane
 *       that acquires and the lane that gets the units differ)
 *   P2  pieces: fetch_and acq_rel -> the last piece's fetch_and: what all owners wrote
 *       comes before the release of the unit; a syncwarp before the leader's fetch_and
 *   X1  NULL only after a pass over all words found no segment that would do and a second
 *       pass showed that nothing was released in between (use_word X1). Units that another
 *       request of several units holds for a moment, before it finds a conflict and gives
 *       them back, count as used.
 * Progress  lock-free. The walk ends after S_L words in a row without success. A sweep
 *       repeats only if a release or a lost claim came in between. Claims of several words
 *       go upwards: one that fails met bits of another that was there first, which fails
 *       only further up; the uppermost succeeds, or met a block that was allocated
 *       meanwhile.
 * Cost  malloc: a load per lane and step, an atomic per word that is taken from, collectives,
 *       a store of state; a request of many words one atomic a word. free: a load, a store
 *       and an atomic, which small runs in one word share; pieces of one unit share one
 *       atomic, and a second one at the end.
 * Fails NULL is exact (X1); wh_rwmalloc_aligned above a unit looks for a run that is
 *       longer by align - unit, so it may miss one that would just do.
 * Check tests/unit/rwmalloc.c, conform, stress, fault.
 */
#ifndef WH_ALLOC_RWMALLOC_H
#define WH_ALLOC_RWMALLOC_H

#include "warpheap/detail/alloc/random_walk/layout.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/core/select.h"
#include "warpheap/core/walk_random.h"

#include "warpheap/detail/simt/begin.h"

#ifdef WH_HOSTILE
#define WH_RWMALLOC_UNIT 64u
#else
#define WH_RWMALLOC_UNIT 256u
#endif

#define WH_RWMALLOC_RUN 0x80000000u
#define WH_RWMALLOC_NONE UINT32_MAX
#define WH_RWMALLOC_PACKED 4u /* units: requests up to that many share words */

typedef struct wh_rwmalloc_header {
    uint64_t failed;
    uint64_t bad_frees;
} wh_rwmalloc_header;

typedef struct wh_rwmalloc_ref {
    unsigned char *base; /* of unit 0; a multiple of the unit */
    uint64_t *words;
    uint32_t *state;
    wh_rwmalloc_header *header;
    uint32_t units;
    uint32_t n_words;
    uint32_t unit_log2;
    uint32_t granule_log2; /* pieces are multiples of this: 16 bytes, or unit / 16 */
    uint32_t limit;        /* words looked at in vain before the sweep */
} wh_rwmalloc_ref;

#define wh_rwmalloc_NAME "rw-malloc"
#define wh_rwmalloc_left WH_NO_LEFT
#define wh_rwmalloc_MAX_ALIGN (1u << 20)
#define wh_rwmalloc_BLOCKS 5
#define wh_rwmalloc_EACH 0

WH_FN_HOST uint64_t wh_rwmalloc_metadata_(uint64_t units) {
    const uint64_t words = (units + WH_USE_BITS - 1) / WH_USE_BITS;
    return sizeof(wh_rwmalloc_header) + words * 8 + units * 4;
}

WH_FN_HOST wh_status wh_rwmalloc_plan(wh_rwmalloc_ref *h, wh_plan *plan, unsigned char *memory,
                                      uint64_t bytes, const wh_tuning *tuning, uint32_t n_sms) {
    const uint64_t unit = tuning->unit_bytes != 0 ? tuning->unit_bytes : WH_RWMALLOC_UNIT;
    const double free_share =
        (tuning->oom_free_ppm != 0 ? tuning->oom_free_ppm : WH_RANDOM_WALK_FREE_PPM) / 1e6;
    const double error =
        (tuning->oom_error_ppm != 0 ? tuning->oom_error_ppm : WH_RANDOM_WALK_ERROR_PPM) / 1e6;
    (void)n_sms;
    if (unit < 16 || (unit & (unit - 1)) != 0 || unit > 1u << 20 || free_share >= 1 || error >= 1) {
        return WH_BAD_ARGUMENT;
    }
    /* The heap's memory is aligned to 256 bytes at least: what that may cost is set aside. */
    const uint64_t slack = unit > 256 ? unit - 256 : 0;
    plan->min_bytes = slack + unit + wh_rwmalloc_metadata_(1);
    if (bytes < plan->min_bytes) {
        return WH_HEAP_TOO_SMALL;
    }
    uint64_t units = (bytes - slack) / unit;
    units = units < WH_RWMALLOC_RUN ? units : WH_RWMALLOC_RUN - 1;
    while (units > 1 && slack + units * unit + wh_rwmalloc_metadata_(units) > bytes) {
        const uint64_t over = slack + units * unit + wh_rwmalloc_metadata_(units) - bytes;
        const uint64_t less = over / (unit + 16); /* a unit brings at most that */
        units -= less > 1 ? less : 1;
    }
    h->units = (uint32_t)units;
    h->n_words = (uint32_t)((units + WH_USE_BITS - 1) / WH_USE_BITS);
    h->unit_log2 = wh_ctz64(unit);
    h->granule_log2 = unit > 256 ? h->unit_log2 - 4 : 4;
    h->limit = wh_random_walk_limit(free_share, error, WH_USE_BITS);
    plan->metadata_bytes = bytes - units * unit;
    plan->init_items = h->n_words;
    if (memory != NULL) {
        const uint64_t past = (uint64_t)(uintptr_t)memory & (unit - 1);
        h->base = memory + (past != 0 ? unit - past : 0);
        unsigned char *at = h->base + units * unit;
        h->header = (wh_rwmalloc_header *)(void *)at;
        h->words = (uint64_t *)(void *)(h->header + 1);
        h->state = (uint32_t *)(void *)(h->words + h->n_words);
    }
    return WH_OK;
}

/* What code of this family must agree on with who laid the heap out. Host only. */
#if WH_HAS_HOST
/* clang-format off */
static inline uint64_t wh_rwmalloc_layout(void) {
    static const uint64_t parts[] = {
#define WH_F_(field) WH_LAYOUT_FIELD(wh_rwmalloc_ref, field),
        sizeof(wh_rwmalloc_ref),
        WH_F_(base) WH_F_(words) WH_F_(state) WH_F_(header) WH_F_(units) WH_F_(n_words)
        WH_F_(unit_log2) WH_F_(granule_log2) WH_F_(limit)
#undef WH_F_
#define WH_F_(field) WH_LAYOUT_FIELD(wh_rwmalloc_header, field),
        sizeof(wh_rwmalloc_header),
        WH_F_(failed) WH_F_(bad_frees)
#undef WH_F_
        WH_RWMALLOC_UNIT, WH_RWMALLOC_RUN, WH_RWMALLOC_PACKED, WH_USE_BITS,
    };
    return wh_layout_hash("rwmalloc", parts, sizeof parts / sizeof *parts);
}
/* clang-format on */
#endif

/* --- bits --------------------------------------------------------------------------------- */

/* Bits at which n ones in a row start, 1 <= n <= 32. */
WH_HD uint64_t wh_rwmalloc_starts_(uint64_t free, uint32_t n) {
    uint32_t have = 1;
    while (have * 2 <= n) {
        free &= free >> have;
        have *= 2;
    }
    return have < n ? free & free >> (n - have) : free;
}

/* How many runs of n ones side by side a word has, taken from the lowest on. */
WH_HD uint32_t wh_rwmalloc_segments_(uint32_t free, uint32_t n) {
    if (n == 1 || free == ~0u) {
        return wh_popc32(free) / n;
    }
    uint32_t k = 0;
    for (uint64_t starts = wh_rwmalloc_starts_(free, n); starts != 0; k++) {
        starts &= ~(uint64_t)0 << (wh_ctz64(starts) + n);
    }
    return k;
}

/* The first bit of the k-th of these, from 0. */
WH_HD uint32_t wh_rwmalloc_segment_(uint32_t free, uint32_t n, uint32_t k) {
    if (n == 1) {
        return wh_select32(free, k + 1);
    }
    if (free == ~0u) {
        return k * n;
    }
    uint64_t starts = wh_rwmalloc_starts_(free, n);
    for (; k != 0; k--) {
        starts &= ~(uint64_t)0 << (wh_ctz64(starts) + n);
    }
    return wh_ctz64(starts);
}

/* The bits of the first k of these. */
WH_HD uint32_t wh_rwmalloc_first_(uint32_t free, uint32_t n, uint32_t k) {
    const uint64_t below =
        k != 0 ? ((uint64_t)1 << (wh_rwmalloc_segment_(free, n, k - 1) + n)) - 1 : 0;
    if (n == 1 || free == ~0u) {
        return free & (uint32_t)below;
    }
    uint64_t starts = wh_rwmalloc_starts_(free, n) & below, bits = 0;
    while (starts != 0) {
        const uint32_t b = wh_ctz64(starts);
        bits |= (((uint64_t)1 << n) - 1) << b;
        starts &= ~(uint64_t)0 << (b + n);
    }
    return (uint32_t)(bits & below);
}

/* n ones from bit b on, 1 <= n <= 32, b < 32. */
WH_HD uint64_t wh_rwmalloc_bits_(uint32_t n, uint32_t b) {
    return (((uint64_t)1 << n) - 1) << b;
}

/* Lane of that rank in mask. */
WH_FN uint32_t wh_rwmalloc_lane_(wh_mask mask, uint32_t rank) {
    return mask == ~0u ? rank : wh_select32(mask, rank + 1);
}

/* The part of word k that units first..first+n-1 are. */
WH_HD uint32_t wh_rwmalloc_part_(uint32_t k, uint32_t first, uint32_t n) {
    const uint64_t from = (uint64_t)k * WH_USE_BITS, end = (uint64_t)first + n;
    const uint32_t low = first > from ? (uint32_t)(first - from) : 0;
    const uint32_t high = end - from < WH_USE_BITS ? (uint32_t)(end - from) : WH_USE_BITS;
    return (uint32_t)((((uint64_t)1 << high) - 1) & ~(((uint64_t)1 << low) - 1));
}

/* --- runs over words ------------------------------------------------------------------------ */

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
        const uint32_t conflict =
            take != 0 ? (uint32_t)WH_PLANT(rwmalloc_p1_get, wh_fetch_or_u64_acquire,
                                           wh_fetch_or_u64_relaxed)(&h.words[i], take) &
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

/* --- pieces ------------------------------------------------------------------------------------
 */

/* Where a lane's piece lies among those of its warp. */
typedef struct wh_rwmalloc_place {
    uint32_t unit;   /* number of the unit, from 0, in the aggregate */
    uint32_t offset; /* granule in it */
} wh_rwmalloc_place;

/* Packs pieces of g granules (0: none) into units of `room` granules, in the order of the
 * lanes, none across units. */
WH_FN wh_rwmalloc_place wh_rwmalloc_pack_(wh_mask mask, uint32_t g, uint32_t room) {
    wh_rwmalloc_place mine;
    const wh_mask small = wh_ballot(mask, g != 0) & mask;
    mine.unit = 0;
    mine.offset = 0;
    if (small == 0) {
        return mine;
    }
    const uint32_t first = wh_shfl_u32(mask, g, wh_ctz32(small));
    if ((wh_ballot(mask, g == first) & small) == small) { /* all alike */
        if (g == 0) {
            return mine;
        }
        const uint32_t each = room / first;
        mine.unit = wh_mask_rank(small) / each;
        mine.offset = wh_mask_rank(small) % each * first;
        return mine;
    }
    uint32_t unit = 0, used = 0;
    for (wh_mask left = small; left != 0; left &= left - 1) {
        const uint32_t lane = wh_ctz32(left);
        const uint32_t size = wh_shfl_u32(mask, g, lane);
        if (used + size > room) {
            unit++;
            used = 0;
        }
        if (lane == wh_lane_id()) {
            mine.unit = unit;
            mine.offset = used;
        }
        used += size;
    }
    return mine;
}

/* State bits of a piece of g granules at granule `offset`. */
WH_HD uint32_t wh_rwmalloc_piece_(uint32_t offset, uint32_t g) {
    const uint32_t last = offset + g - 1;
    return 1u << offset | (last < 15 ? 1u << (16 + last) : 0);
}

/* Granules of the piece that starts at granule `offset` of a unit with that state. */
WH_HD uint32_t wh_rwmalloc_length_(uint32_t state, uint32_t offset) {
    const uint32_t lasts = (state >> 16 & 0x7fff) | 0x8000;
    return wh_ctz32(lasts >> offset) + 1;
}

/* --- malloc and free
 * ------------------------------------------------------------------------------ */

WH_FN void *wh_rwmalloc_address_(wh_rwmalloc_ref h, uint32_t unit) {
    return h.base + ((uint64_t)unit << h.unit_log2);
}

/* Units for n bytes; 0: more than there are. */
WH_FN uint32_t wh_rwmalloc_need_(wh_rwmalloc_ref h, size_t n) {
    const uint64_t all = (uint64_t)h.units << h.unit_log2;
    return n <= all ? (uint32_t)(((uint64_t)n + ((uint64_t)1 << h.unit_log2) - 1) >> h.unit_log2)
                    : 0;
}

WH_FN void *wh_rwmalloc_malloc(wh_rwmalloc_ref h, wh_mask mask, size_t n) {
    const uint32_t room = 1u << (h.unit_log2 - h.granule_log2);
    const uint32_t need = wh_rwmalloc_need_(h, n);
    const uint64_t granules = ((uint64_t)n + ((uint64_t)1 << h.granule_log2) - 1) >> h.granule_log2;
    const uint32_t g = need == 1 && granules < room ? (uint32_t)granules : 0;
    const wh_rwmalloc_place place = wh_rwmalloc_pack_(mask, g, room);
    /* The lanes whose pieces share a unit, a group; its first one asks for the unit. */
    const wh_group same = wh_group_by_u32(mask, g != 0 ? place.unit : 0x100u + wh_lane_id());
    const int leads = wh_group_leads(same);
    uint32_t state = need | WH_RWMALLOC_RUN;
    if (wh_any(mask, g != 0)) {
        state = wh_group_or_u32(mask, same, g != 0 ? wh_rwmalloc_piece_(place.offset, g) : state);
    }
    const uint32_t asked = g == 0 ? need : leads ? 1 : 0;
    const uint32_t mine = wh_rwmalloc_get_units(h, mask, asked).unit;
    const uint32_t unit = wh_shfl_u32(mask, mine, same.leader);
    if (leads && asked != 0 && unit != WH_RWMALLOC_NONE) {
        wh_store_u32_relaxed(&h.state[unit], state); /* I2 */
    }
    if (WH_PLANT(rwmalloc_p1_lanes, 1, 0)) {
        wh_syncwarp(mask); /* P1, and the state is there for all pieces of the unit */
    }
    if (unit == WH_RWMALLOC_NONE || need == 0) {
        wh_add_u64_relaxed(&h.header->failed, n != 0);
        return NULL;
    }
    return (unsigned char *)wh_rwmalloc_address_(h, unit) +
           ((uint64_t)place.offset << h.granule_log2);
}

WH_FN void *wh_rwmalloc_aligned(wh_rwmalloc_ref h, wh_mask mask, size_t align, size_t n) {
    const uint32_t need = wh_rwmalloc_need_(h, n);
    const uint64_t step = (uint64_t)align >> h.unit_log2; /* units between multiples of align */
    const uint64_t extra = step > 1 ? step - 1 : 0;
    const uint32_t asked = need != 0 && need + extra <= h.units ? (uint32_t)(need + extra) : 0;
    const uint32_t unit = wh_rwmalloc_get_units(h, mask, asked).unit;
    wh_syncwarp(mask); /* P1 */
    if (unit == WH_RWMALLOC_NONE) {
        wh_add_u64_relaxed(&h.header->failed, n != 0);
        return NULL;
    }
    const uint64_t at = (uint64_t)(uintptr_t)wh_rwmalloc_address_(h, unit);
    const uint64_t up = (at + align - 1) & ~((uint64_t)align - 1);
    const uint32_t skip = (uint32_t)((up - at) >> h.unit_log2);
    wh_rwmalloc_release_(h.words, unit, skip);
    wh_rwmalloc_release_(h.words, unit + skip + need, asked - skip - need);
    wh_store_u32_relaxed(&h.state[unit + skip], need | WH_RWMALLOC_RUN); /* I2 */
    return wh_rwmalloc_address_(h, unit + skip);
}

WH_FN int wh_rwmalloc_owns(wh_rwmalloc_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) >> h.unit_log2 < h.units;
}

/* What p is. units: its run; granules: its piece; both 0: no live block. */
typedef struct wh_rwmalloc_block {
    uint32_t unit;
    uint32_t units;
    uint32_t granules;
    uint32_t offset;
} wh_rwmalloc_block;

WH_FN wh_rwmalloc_block wh_rwmalloc_find_(wh_rwmalloc_ref h, const void *p) {
    const uint64_t at = (uint64_t)((const unsigned char *)p - h.base);
    const uint64_t inside = at & (((uint64_t)1 << h.unit_log2) - 1);
    wh_rwmalloc_block b;
    b.unit = (uint32_t)(at >> h.unit_log2);
    b.units = 0;
    b.granules = 0;
    b.offset = (uint32_t)(inside >> h.granule_log2);
    if (!wh_rwmalloc_owns(h, p)) {
        return b;
    }
    const uint32_t state = wh_load_u32_relaxed(&h.state[b.unit]);
    if ((state & WH_RWMALLOC_RUN) != 0) {
        b.units = inside == 0 ? state & ~WH_RWMALLOC_RUN : 0;
    } else if ((state >> b.offset & 1) != 0 && (inside & ((1u << h.granule_log2) - 1)) == 0) {
        b.granules = wh_rwmalloc_length_(state, b.offset);
    }
    return b;
}

WH_FN uint64_t wh_rwmalloc_usable_size(wh_rwmalloc_ref h, const void *p) {
    const wh_rwmalloc_block b = wh_rwmalloc_find_(h, p);
    return b.units != 0 ? (uint64_t)b.units << h.unit_log2 : (uint64_t)b.granules << h.granule_log2;
}

WH_FN void wh_rwmalloc_free(wh_rwmalloc_ref h, wh_mask mask, void *p) {
    const wh_rwmalloc_block b = wh_rwmalloc_find_(h, p);
    /* Small runs in one word together: malloc packs them so. */
    const int small = b.units != 0 && b.units <= WH_RWMALLOC_PACKED &&
                      b.unit % WH_USE_BITS + b.units <= WH_USE_BITS;
    if (b.units != 0) {
        wh_store_u32_relaxed(&h.state[b.unit], 0); /* I2: while the units are still ours */
        if (!small) {
            wh_rwmalloc_release_(h.words, b.unit, b.units); /* P1 */
        }
    } else if (b.granules == 0 && p != NULL) {
        wh_add_u64_relaxed(&h.header->bad_frees, 1);
    }
    if (wh_any(mask, small)) {
        const uint32_t word = b.unit / WH_USE_BITS;
        const wh_group g = wh_group_by_u32(mask, small ? word : WH_RWMALLOC_NONE);
        const uint32_t bits = wh_group_or_u32(
            mask, g, small ? (uint32_t)wh_rwmalloc_bits_(b.units, b.unit % WH_USE_BITS) : 0);
        wh_syncwarp(mask); /* P1, I2: the other lanes' writes, and their states */
        if (small && wh_group_leads(g)) {
            wh_use_release(&h.words[word], bits); /* P1 */
        }
    }
    /* Pieces of one unit together. */
    const int piece = b.units == 0 && b.granules != 0;
    if (!wh_any(mask, piece)) {
        return;
    }
    const wh_group same = wh_group_by_u32(mask, piece ? b.unit : WH_RWMALLOC_NONE);
    const uint32_t starts = wh_group_or_u32(mask, same, piece ? 1u << b.offset : 0);
    wh_syncwarp(mask); /* P2 */
    if (!piece || !wh_group_leads(same)) {
        return;
    }
    const uint32_t old = WH_PLANT(rwmalloc_p2, wh_fetch_and_u32_acq_rel,
                                  wh_fetch_and_u32_relaxed)(&h.state[b.unit], ~starts); /* P2 */
    const uint32_t twice = wh_popc32(starts & ~old); /* freed by another lane just now */
    if (twice != 0) {
        wh_add_u64_relaxed(&h.header->bad_frees, twice);
    }
    if ((old & 0xffff) == (starts & old) && (starts & old) != 0) {
        wh_store_u32_relaxed(&h.state[b.unit], 0);
        wh_rwmalloc_release_(h.words, b.unit, 1); /* P1 */
    }
}

/* --- the rest of the contract
 * ------------------------------------------------------------------------ */

WH_FN uint32_t wh_rwmalloc_exist_(wh_rwmalloc_ref h, uint64_t k) {
    const uint64_t left = h.units - k * WH_USE_BITS;
    return left >= WH_USE_BITS ? ~0u : (1u << left) - 1;
}

WH_FN void wh_rwmalloc_init(wh_rwmalloc_ref h, uint64_t i, uint64_t n) {
    if (i == 0) {
        wh_store_u64_relaxed(&h.header->failed, 0);
        wh_store_u64_relaxed(&h.header->bad_frees, 0);
    }
    for (uint64_t k = i; k < h.n_words; k += n) {
        wh_store_u64_relaxed(&h.words[k], (uint32_t)~wh_rwmalloc_exist_(h, k)); /* I3 */
    }
    for (uint64_t k = i; k < h.units; k += n) {
        wh_store_u32_relaxed(&h.state[k], 0);
    }
}

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

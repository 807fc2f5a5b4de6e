/* alloc/rwmalloc: RW_malloc of Pham et al., "Dynamic Buffer Management in Massively
 * Parallel Systems: The Power of Randomness", ACM TOPC 12(1), 2025, section 4.3,
 * Algorithm 6: memory is units of one size with their use bits in a bitmap; the lanes of a
 * warp look at consecutive words at a random place and serve each other's requests from
 * the free segments there. docs/papers/random_walk.md: claims, departures, what was measured.
 * It may change.
 *
 *   layout.h   the structures, and what a unit's state says: I2, I3
 *   bits.h     runs of ones in a word
 *   units.h    consecutive units: the walk, and the sweep: I1, P1, X1
 *   inspect.h  statistics, check, walk
 *
 * Terms (the paper's)
 *   unit      smallest piece of the bitmap, 256 bytes (the option unit_bytes)
 *   segment   consecutive free units; one may cross word boundaries
 *   region    the words that a warp looks at in one step
 * and piece: a request of less than a unit. The pieces of a warp's lanes are packed into
 * units together ("aggregate requests for small sizes within a warp").
 *
 * What the paper leaves open, and how it is done here
 *   - free needs to know what a pointer is: one 32-bit state word a unit (layout.h). A piece
 *     never crosses a unit, and a unit comes back when its last piece does, wherever the
 *     other units of the warp's aggregate are.
 *   - more than 32 units (8 KiB): a sweep for a run over many words, claimed from its first
 *     word to its last, so that of requests that collide one wins.
 *   - out of memory: when the walk has found nothing in S_L words in a row
 *     (random_walk/layout.h) a sweep over the bitmap decides, and NULL is exact.
 *
 * Ordering pair
 *   P2  pieces: fetch_and acq_rel -> the last piece's fetch_and: what all owners wrote
 *       comes before the release of the unit; a syncwarp before the leader's fetch_and
 * Progress  lock-free (units.h).
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

#include "warpheap/detail/alloc/rwmalloc/units.h"
#include "warpheap/core/size_class.h"
#include "warpheap/core/warp_group.h"

#include "warpheap/detail/simt/begin.h"

#define wh_rwmalloc_NAME "rw-malloc"
#define wh_rwmalloc_left WH_NO_LEFT
#define wh_rwmalloc_MAX_ALIGN (1u << 20)
#define wh_rwmalloc_BLOCKS 5
#define wh_rwmalloc_EACH 0

/* --- pieces ------------------------------------------------------------------------------- */

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

/* --- malloc and free ----------------------------------------------------------------------- */

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
    const uint32_t asked = g == 0 ? need : leads != 0; /* units */
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
    wh_assert(wh_is_pow2(align));
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
    wh_assert_internal(skip + need <= asked);
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
    const uint32_t old =
        WH_PLANT_ORDER(rwmalloc_p2, wh_fetch_and_u32, acq_rel)(&h.state[b.unit], ~starts); /* P2 */
    const uint32_t twice = wh_popc32(starts & ~old); /* freed by another lane just now */
    if (twice != 0) {
        wh_add_u64_relaxed(&h.header->bad_frees, twice);
    }
    if ((old & 0xffff) == (starts & old) && (starts & old) != 0) {
        wh_store_u32_relaxed(&h.state[b.unit], 0);
        wh_rwmalloc_release_(h.words, b.unit, 1); /* P1 */
    }
}

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/alloc/rwmalloc/inspect.h"

#endif

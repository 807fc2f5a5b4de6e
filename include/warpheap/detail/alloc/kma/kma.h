/* alloc/kma: KMA of Spliet, Howes, Gaster and Varbanescu, "KMA: A Dynamic Memory Manager for
 * OpenCL", GPGPU-7, 2014, its lower layer, as Winter describes it (dissertation, TU Graz,
 * section 2.3.7, figure 2.9): superblocks, which a hash map finds by size, cut into blocks of a
 * power of two. docs/SURVEY_ALLOCATORS.md: what differs. It may change.
 *
 *   layout.h   the structures, what is written by whom, I1 and I2, inspection
 *
 * Terms (the paper's)
 *   superblock  memory of blocks of one size (the option superblock_bytes); the largest block
 *   state       of a superblock: its size class, and how many blocks can be reserved
 *
 *     malloc: the hash map names a superblock of the class; a block is reserved in its state, then
 *     found in its bits. If none can be reserved, the map gets a superblock from the free list
 *     free: the bit, then the state; an empty superblock goes to the free list. A superblock that
 *     the map does not name gets an entry whose superblock is used up, if it meets one
 *
 * Departures
 *   - who frees sets the bit first and counts then: so a reservation is a bit that is there (I1).
 * In the other order, which the thesis describes, who has reserved may have to wait for a bit
 *   - one lane at a time fetches a superblock for an entry; others wait for it, and do not take
 *     superblocks that the map would not name
 *   - sizes of a warp's lanes are served together
 *
 * Ordering pairs
 *   P1  free: a syncwarp, then fetch_or of the bits, release -> malloc: fetch_and, acquire, then a
 *       syncwarp: the old owner's writes come before the new owner's use
 *   P2  free: the bits, then fetch_add of the state, acq_rel -> the cas that makes an empty
 *       superblock's state 0, acq_rel; then the pool (its P1): the same for its next class
 *   P3  a superblock's bits are stored, then its state, release -> malloc's cas of the state,
 *       acq_rel
 * Lanes     lanes of one class make a reservation together, lanes of one superblock free together
 * Progress  lock-free, but for an entry that is BUSY: others wait for the lane that fetches, which
 *           waits for nobody but the pool's ring (core/ring.h)
 * Cost      malloc: two loads, two atomics, a search in the bits, for the lanes of a class; free:
 *           two atomics, two loads
 * Fails     NULL when the free list is empty and no superblock that the map names for the class has
 *           a block. Others may have some, which are had again when they are empty or when the map
 *           names them (not WH_CAP_EXACT_OOM); sizes above a superblock (not WH_CAP_ANY_SIZE)
 * Check     conform, stress, fault
 */
#ifndef WH_ALLOC_KMA_H
#define WH_ALLOC_KMA_H

#include "warpheap/core/hash.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/detail/alloc/kma/layout.h"

#include "warpheap/detail/simt/begin.h"

#define wh_kma_NAME "kma"
#define wh_kma_MAX_ALIGN 256u
#define wh_kma_BLOCKS 4
#define wh_kma_EACH 0
#define wh_kma_left WH_NO_LEFT

/* Class of a size; NONE: nothing, or too much. */
WH_FN uint32_t wh_kma_class_(wh_kma_ref h, size_t n) {
    return n != 0 && n <= (uint64_t)1 << h.log2 ? wh_pow2_class(n, 4) : WH_KMA_NONE;
}

/* Entry k of the class: any k. */
WH_FN uint32_t *wh_kma_entry_(wh_kma_ref h, uint32_t c, uint32_t k) {
    return &h.header->map[(c << h.map_log2) + (k & ((1u << h.map_log2) - 1))];
}
WH_FN uint32_t wh_kma_hash_(void) {
    return wh_spread32((uint32_t)wh_thread_id() / WH_WARP_SIZE) >> 16;
}

/* Reserves up to n blocks of class c in the superblock: how many. */
WH_FN uint32_t wh_kma_reserve_(wh_kma_ref h, uint32_t superblock, uint32_t c, uint32_t n) {
    uint64_t *at = &h.states[superblock];
    uint64_t state = wh_load_u64_relaxed(at);
    WH_NO_UNROLL
    while (wh_kma_class_of_state_(state) == c && wh_low_u32(state) != 0) {
        const uint32_t some = wh_low_u32(state) < n ? wh_low_u32(state) : n;
        const uint64_t seen = wh_cas_u64_acq_rel(at, state, state - some); /* P3 */
        if (seen == state) {
            return some;
        }
        state = seen;
    }
    return 0;
}

/* Whether the entry's superblock has a block of the class. */
WH_FN int wh_kma_is_usable_(wh_kma_ref h, uint32_t entry, uint32_t c) {
    const uint64_t state = entry != 0 ? wh_load_u64_relaxed(&h.states[entry - 1]) : 0;
    return wh_kma_class_of_state_(state) == c && wh_low_u32(state) != 0;
}

/* A superblock from the free list, of class c with n blocks reserved; NONE. */
WH_FN uint32_t wh_kma_fetch_(wh_kma_ref h, uint32_t c, uint32_t n) {
    const wh_chunk_pool pool = wh_kma_pool_(h);
    const uint32_t words = wh_kma_words_(h.log2), all = wh_kma_blocks_(h, c);
    wh_chunk_pool_taken t = wh_chunk_pool_take(pool, 0, 1);
    WH_NO_UNROLL
    while (t.n == 0 && !wh_chunk_pool_empty(pool, 0)) {
        t = wh_chunk_pool_take(pool, 0, 1);
    }
    if (t.n == 0) {
        return WH_KMA_NONE;
    }
    const uint32_t superblock = wh_chunk_pool_get(pool, 0, t, 0);
    for (uint32_t k = 0; k < words; k++) {
        const uint32_t left = all > 64 * k ? all - 64 * k : 0;
        const uint64_t ones = left >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << left) - 1;
        wh_store_u64_relaxed(&h.bits[(uint64_t)superblock * words + k], ones);
    }
    wh_store_u64_release(&h.states[superblock], (uint64_t)(c + 1) << 32 | (all - n)); /* P3 */
    return superblock;
}

/* Blocks that a lane has reserved. */
typedef struct wh_kma_got {
    uint32_t superblock; /* NONE: there are none */
    uint32_t n;
} wh_kma_got;

/* Reserves up to n blocks of class c. */
WH_FN wh_kma_got wh_kma_get_(wh_kma_ref h, uint32_t c, uint32_t n) {
    const uint32_t hash = wh_kma_hash_(), all = wh_kma_blocks_(h, c);
    uint32_t *at = wh_kma_entry_(h, c, hash);
    wh_kma_got g;
    if (n >= all) { /* a superblock of its own: no other request has to know of it */
        g.superblock = wh_kma_fetch_(h, c, all);
        g.n = all;
        if (g.superblock != WH_KMA_NONE) {
            return g;
        }
    }
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        const uint32_t entry = wh_load_u32_relaxed(at);
        g.superblock = entry - 1;
        g.n = entry != 0 && entry != WH_KMA_BUSY ? wh_kma_reserve_(h, entry - 1, c, n) : 0;
        if (g.n != 0) {
            return g;
        }
        if (entry == WH_KMA_BUSY || wh_cas_u32_relaxed(at, entry, WH_KMA_BUSY) != entry) {
            wh_backoff(attempt);
            continue;
        }
        g.n = n < all ? n : all;
        g.superblock = wh_kma_fetch_(h, c, g.n);
        wh_store_u32_relaxed(at, g.superblock != WH_KMA_NONE ? g.superblock + 1 : entry);
        break;
    }
    /* The free list is empty: what the map names else. */
    for (uint32_t k = 1; g.superblock == WH_KMA_NONE && k >> h.map_log2 == 0; k++) {
        const uint32_t entry = wh_load_u32_relaxed(wh_kma_entry_(h, c, hash + k));
        g.n = entry != 0 && entry != WH_KMA_BUSY ? wh_kma_reserve_(h, entry - 1, c, n) : 0;
        g.superblock = g.n != 0 ? entry - 1 : WH_KMA_NONE;
    }
    return g;
}

/* Up to n of the blocks that the caller has reserved, all of one word of the bits: *first is block
 * 0 of the word. */
WH_FN uint64_t wh_kma_find_(wh_kma_ref h, uint32_t superblock, uint32_t n, uint32_t *first) {
    const uint32_t words = wh_kma_words_(h.log2);
    uint64_t *bits = &h.bits[(uint64_t)superblock * words];
    uint32_t k = wh_kma_hash_() % words;
    WH_NO_UNROLL
    for (;; k = (k + 1) % words) { /* I1: somewhere there are n */
        const uint64_t some = wh_lowest_bits(wh_load_u64_relaxed(&bits[k]), n);
        const uint64_t got = some != 0 ? some & WH_PLANT_ORDER(kma_p1_find, wh_fetch_and_u64,
                                                               acquire)(&bits[k], ~some)
                                       : 0; /* P1 */
        if (got != 0) {
            *first = k * 64;
            return got;
        }
    }
}

WH_FN void *wh_kma_malloc(wh_kma_ref h, wh_mask mask, size_t n) {
    const uint32_t c = wh_kma_class_(h, n);
    const wh_group g = wh_group_by_u32(mask, c);
    uint32_t served = 0; /* lanes of the group */
    int open = c != WH_KMA_NONE;
    void *p = NULL;
    wh_kma_got has;
    has.superblock = WH_KMA_NONE;
    has.n = 0;
    WH_NO_UNROLL
    while (wh_any(mask, open)) {
        uint32_t first = 0;
        uint64_t bits = 0;
        if (open && wh_group_leads(g)) {
            has = has.n != 0 ? has : wh_kma_get_(h, c, g.n - served);
            bits =
                has.superblock != WH_KMA_NONE ? wh_kma_find_(h, has.superblock, has.n, &first) : 0;
            has.n -= wh_popc64(bits);
        }
        bits = wh_shfl_u64(mask, bits, g.leader);
        first = wh_shfl_u32(mask, first, g.leader);
        const uint32_t superblock = wh_shfl_u32(mask, has.superblock, g.leader);
        const uint32_t some = wh_popc64(bits);
        if (open && g.rank - served < some) { /* false for those that are served: wraps */
            const uint32_t block = first + wh_select64(bits, g.rank - served);
            p = h.base + ((uint64_t)superblock << h.log2) + ((uint64_t)block << (4 + c));
        }
        served += some;
        open = open && some != 0 && served < g.n;
    }
    if (n != 0 && p == NULL) {
        wh_add_u64_relaxed(&h.header->failed, 1);
    }
    if (WH_PLANT(kma_p1_lanes, 1, 0)) {
        wh_syncwarp(mask); /* P1, P3: the leader, and those that use */
    }
    return p;
}

/* A block of a power of two lies at a multiple of it, up to 256. */
WH_FN void *wh_kma_aligned(wh_kma_ref h, wh_mask mask, size_t align, size_t n) {
    wh_assert(wh_is_pow2(align) && align <= wh_kma_MAX_ALIGN);
    return wh_kma_malloc(h, mask, n != 0 && n < align ? align : n);
}

WH_FN int wh_kma_owns(wh_kma_ref h, const void *p) {
    return (uint64_t)((const unsigned char *)p - h.base) >> h.log2 < h.n;
}

/* What p is. c: NONE: no live block. */
typedef struct wh_kma_block {
    uint32_t superblock, c, block;
} wh_kma_block;

WH_FN wh_kma_block wh_kma_block_of_(wh_kma_ref h, const void *p) {
    const uint64_t at = (uint64_t)((const unsigned char *)p - h.base);
    wh_kma_block b;
    b.c = WH_KMA_NONE;
    b.superblock = (uint32_t)(at >> h.log2);
    b.block = 0;
    if (!wh_kma_owns(h, p)) {
        return b;
    }
    const uint32_t c = wh_kma_class_of_state_(wh_load_u64_relaxed(&h.states[b.superblock]));
    const uint64_t inside = at & (((uint64_t)1 << h.log2) - 1);
    if (c < WH_KMA_CLASSES && (inside & (((uint64_t)16 << c) - 1)) == 0) {
        const uint32_t words = wh_kma_words_(h.log2);
        b.block = (uint32_t)(inside >> (4 + c));
        const uint64_t *word = &h.bits[(uint64_t)b.superblock * words + b.block / 64];
        b.c = (wh_load_u64_relaxed(word) >> (b.block % 64) & 1) == 0 ? c : WH_KMA_NONE;
    }
    return b;
}

WH_FN uint64_t wh_kma_usable_size(wh_kma_ref h, const void *p) {
    const wh_kma_block b = wh_kma_block_of_(h, p);
    return b.c != WH_KMA_NONE ? (uint64_t)16 << b.c : 0;
}

/* n blocks of the superblock are free again. No function that is called: lanes would come back from
 * it in parts, and the vote of a malloc behind the free counts each of them as the whole warp
 * (simt/cuda.h): blocks outside of the heap, on an H200. */
WH_FN void wh_kma_count_(wh_kma_ref h, uint32_t superblock, uint32_t c, uint32_t n) {
    const uint64_t empty = (uint64_t)(c + 1) << 32 | wh_kma_blocks_(h, c);
    uint64_t *at = &h.states[superblock];
    const uint64_t state = wh_fetch_add_u64_acq_rel(at, n) + n;    /* P2 */
    wh_assert_internal(wh_low_u32(state) <= wh_kma_blocks_(h, c)); /* I1 */
    if (state == empty) {
        if (wh_cas_u64_acq_rel(at, empty, 0) == empty && WH_PLANT(kma_i2, 1, 0)) { /* P2, I2 */
            wh_chunk_pool_free(wh_kma_pool_(h), 0, superblock);
        }
        return;
    }
    uint32_t *place = wh_kma_entry_(h, c, wh_kma_hash_());
    const uint32_t entry = wh_load_u32_relaxed(place);
    if (entry != superblock + 1 && entry != WH_KMA_BUSY && !wh_kma_is_usable_(h, entry, c)) {
        (void)wh_cas_u32_relaxed(place, entry, superblock + 1);
    }
}

WH_FN void wh_kma_free(wh_kma_ref h, wh_mask mask, void *p) {
    const wh_kma_block b = wh_kma_block_of_(h, p);
    const int is_live = b.c != WH_KMA_NONE;
    uint32_t freed = 0;
    if (is_live) {
        const uint64_t bit = (uint64_t)1 << (b.block % 64);
        uint64_t *word = &h.bits[(uint64_t)b.superblock * wh_kma_words_(h.log2) + b.block / 64];
        freed =
            (WH_PLANT_ORDER(kma_p1_free, wh_fetch_or_u64, release)(word, bit) & bit) == 0; /* P1 */
    }
    if (p != NULL && !freed) {
        wh_add_u64_relaxed(&h.header->bad_frees, 1);
    }
    /* Those of one superblock count together. */
    const wh_group g = wh_group_by_u32(mask, freed ? b.superblock : WH_KMA_NONE);
    wh_syncwarp(mask); /* P1, P2: the bits come first */
    if (freed && wh_group_leads(g)) {
        wh_kma_count_(h, b.superblock, b.c, g.n);
    }
}

#include "warpheap/detail/simt/end.h"

#endif

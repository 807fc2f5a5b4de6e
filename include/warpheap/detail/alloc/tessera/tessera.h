/* alloc/tessera: the default heap: any size, full reuse, NULL only if there is nothing; for heaps
 * that live long. docs/tessera/README.md is the way in.
 *
 * This file has malloc's fast path, free and the rest of the contract. It may change: it is no part
 * of the API.
 *
 * The idea
 *   A *cursor* hands out the slots of fresh slabs: one fetch_add returns the place and the number
 *   of a slot together, and nothing else is touched. Each class has a cursor in each shard. The
 *   lane whose add passes the end of its span refills it.
 *   A freed slot is a bit in the word of its slab, which names the slab's class. An empty slab goes
 *   back to the pool. Free slots of partial slabs are found through hints and lists, by one cas.
 *   A cursor whose class has many of these closes, so that they are used before fresh memory.
 *   A full warp whose lanes want one size gets a slab of its own, if the class has slabs of just
 *   32 slots, of 2^k bytes.
 *
 * Files, each of which has the rules of its fields and steps at its head
 *   size_class.h  classes, slabs: how large they are
 *   tag.h         tags, words, states, spans: packed words
 *   layout.h      structures in memory, and which lane writes which field
 *   steps.h       brackets of takes, claims of chunks (I2, I7, P3, P4, P6)
 *   slab.h        words and states of slabs, partial lists (I1, I3 to I6, P1, P5, P7, P9, P10)
 *   cursor.h      from the pool to a cursor and back (C1, I8, P2)
 *   oom.h         whether there is anything at all (X1, X3, P8)
 *   runs.h        requests of more than a chunk (X2)
 *   slow.h        the slow path of slots: a short way, then a ladder
 *   guard.h       what a block of a checked heap has before it
 *   checked.h     heaps that check what their users do (R1 to R3, P14, P15)
 *   failures.h    records of mallocs that return NULL
 *   inspect.h     first state, statistics, checks
 *   growth.h      memory that a thread of the host adds while lanes run (I10, X4, P12, P13)
 *   reserve.h     memory that grows and shrinks in reserved address space (I9, P11)
 *   gauge.h       statistics by the host, while lanes run
 *   image.h       what of a heap goes into a file, and comes back
 *   snapshot.h    what each chunk is, and whose blocks are live
 *
 * Cost
 *   malloc  1 load and 1 atomic for each class of a full warp, or each lane of a part of one; of a
 *           partial slab 3 loads and 1 atomic; a full warp's slab: 2 atomics; slow.h for a refill
 *   free    2 loads, 1 atomic and 1 store for each word (of a full warp), or each lane; more for
 *           the lane that makes a slab empty
 */
#ifndef WH_ALLOC_TESSERA_H
#define WH_ALLOC_TESSERA_H

#include "warpheap/detail/alloc/tessera/checked.h"
#include "warpheap/detail/alloc/tessera/slow.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_TOLD 2u /* way.more: the caller says where a failure happens, and notes it */

/* What malloc does not find at once, for all lanes of mask, or if that is 0 those that are here:
 * those without a block want n bytes. way: how far they are. No block: NULL, for a caller that
 * notes it NULL or LATE. */
WH_FN_LINKED(void *, wh_tessera_more_,
             (const wh_tessera_core *g, wh_mask mask, wh_mask lanes, uint32_t shard, uint64_t n,
              wh_tessera_way way)) {
    if (wh_tessera_checks_(g)) {
        return mask == WH_FULL_WARP ? wh_tessera_checked_malloc_warp_(g, shard, n, 0)
                                    : wh_tessera_checked_malloc_(g, shard, n, 1, 0);
    }
    const uint32_t chunk = 1u << g->chunk_log2;
    void *p = way.p;
    uint32_t c = WH_TESSERA_NO_CLASS;
    if (way.owes != 0) {
        (void)wh_tessera_emptied_(g, shard, way.owes - 1); /* I5 */
    }
    if (n != 0) {
        c = n <= chunk ? wh_tessera_class_of((uint32_t)n) : wh_tessera_large_class_(g, n);
    }
    if (mask == WH_FULL_WARP) {
        lanes = wh_any(mask, n > chunk) ? wh_match_any_u32(mask, c) : lanes;
        p = wh_tessera_climb_warp_(g, lanes, shard, c, way.v, (int)way.refills, p);
    } else {
        p = wh_tessera_climb_each_(g, shard, c, way.v, (int)way.refills, p);
    }
    const int is_run = p == NULL && n > chunk;
    if (WH_TESSERA_SOME(mask, is_run)) {
        void *q = wh_tessera_run_(g, mask != 0 ? mask : wh_activemask(), shard,
                                  is_run ? c : WH_TESSERA_NO_CLASS, is_run ? n : 0, 1);
        p = is_run ? q : p;
    }
    if (way.more != WH_TESSERA_TOLD && n != 0 && wh_tessera_is_none_(p)) {
        p = wh_tessera_failure_(g, n, 0, p);
    }
    if ((g->tracks & WH_TESSERA_COUNTS) != 0) {
        wh_tessera_count_mallocs_(g, mask, wh_tessera_is_none_(p) ? NULL : p);
    }
    return p;
}

#define WH_TESSERA_WARP_TRIES 4u
#define WH_TESSERA_REST 9u /* chunks of a word of the pool */

/* Whether full warps are to have slabs of so many chunks. Those that leave much of a word are for
 * smaller ones only: just from the first half of home, as a heap that fills up would have to make
 * many small slabs of what is left. */
WH_FN int wh_tessera_may_waste_(wh_tessera_ref h, uint32_t shard, uint32_t chunks) {
    return 64 % chunks <= WH_TESSERA_REST ||
           wh_tessera_home_left_(h.core, wh_tessera_nth_shard_(h.shards, shard)) >
               h.core.home_chunks / 2;
}

/* A slab for a full warp that wants slots of class c, of 32 slots: each lane gets its own. NULL for
 * all if there is no place at home, nor at the next shards'. */
WH_FN void *wh_tessera_warp_slab_(wh_tessera_ref h, uint32_t shard, uint32_t c,
                                  wh_tessera_class cls) {
    const uint32_t lane = wh_lane_id(), chunks = wh_tessera_warp_chunks(cls, h.chunk_log2);
    wh_tessera_claim claim;
    claim.first = claim.n = 0;
    if (lane == 0 && wh_tessera_may_waste_(h, shard, chunks)) {
        WH_NO_UNROLL
        for (uint32_t tries = 0;
             tries < WH_TESSERA_WARP_TRIES && claim.n == 0 &&
             (tries == 0 || wh_load_u32_relaxed(&wh_tessera_header_(h.core)->search_lock) == 0);
             tries++) {
            wh_tessera_shard *home = wh_tessera_nth_shard_(h.shards, shard);
            claim = wh_tessera_claim_slab_(h.core, home, shard, chunks);
            if (claim.n != 0) {
                wh_add_u32_relaxed(&home->takes_done, 1); /* nothing has become available */
            } else {
                wh_add_u32_release(&home->takes_done, 1); /* P4 */
            }
            shard = shard != h.last_shard ? shard + 1 : 0;
        }
    }
    claim.n = wh_shfl_u32(WH_FULL_WARP, claim.n, 0);
    claim.first = wh_shfl_u32(WH_FULL_WARP, claim.first, 0);
    if (claim.n == 0) {
        return NULL;
    }
    wh_syncwarp(WH_FULL_WARP); /* P3 */
    if (lane < chunks) {
        wh_store_u64_relaxed(&h.tags[claim.first + lane],
                             wh_tessera_slab_tag(c, chunks, cls.slot_size) +
                                 lane * WH_TESSERA_NEXT_TAG);
    }
    if (lane == 0) {
        wh_store_u64_relaxed(&h.words[wh_mul_wide_u32(claim.first, h.words_of_chunk)], 0);
    }
    return h.base + ((uint64_t)claim.first << h.chunk_log2) + wh_mul_wide_u32(lane, cls.slot_size);
}

/* What a lane asks for, with those that it shares an atomic with. */
typedef struct wh_tessera_want {
    wh_tessera_class cls;
    wh_tessera_cursor *cursor; /* of its class and of shard 0 */
    uint32_t c;
    int is_slot;    /* a slot of a small class */
    int takes_slab; /* all lanes of a full warp do, and its class has slabs for these */
    int told;       /* a constant: see WH_TESSERA_TOLD */
    wh_group group;
} wh_tessera_want;

/* n bytes for each lane of mask; 0: none. All of mask go on together, also those that have what
 * they want: a lane that allocates for others may not be left by them (warpheap.h). If mask is 0
 * those do that happen to be here, where that helps. */
WH_FN void *wh_tessera_get_(wh_tessera_ref h, wh_mask mask, size_t n, wh_tessera_want want) {
    const int together = mask == WH_FULL_WARP;
    const wh_group group = want.group;
    const uint32_t shard = wh_tessera_my_shard_(h);
    wh_tessera_cursor *const own = wh_tessera_nth_cursor_(want.cursor, shard);
    uint64_t v = WH_TESSERA_CLOSED;
    void *p = NULL;
    int refills = 0;
    if (together && want.takes_slab) {
        p = wh_tessera_warp_slab_(h, shard, want.c, want.cls);
    } else {
        if (want.is_slot && wh_group_leads(group)) {
            v = wh_load_u64_relaxed(&own->span);
            if (wh_tessera_is_open(v)) {
                v = WH_PLANT(tessera_p2_claim, wh_fetch_add_u64_acquire, /* P2, I1 */
                             wh_fetch_add_u64_relaxed)(&own->span, group.n * WH_TESSERA_POSITION);
                refills = wh_tessera_passes_end(v, group.n); /* C1 */
            } else {                                         /* a full span, or CLOSED */
                v = wh_tessera_no_slots(v);
            }
        }
        if (together) {
            v = wh_shfl_u64(mask, v, group.leader);
            WH_PLANT(tessera_p2_lanes, wh_syncwarp(mask), (void)0); /* P2 */
        }
        if (want.is_slot) {
            p = wh_tessera_nth_(h.base, h.chunk_log2, want.cls, v, group.rank);
        }
    }
    const int slow = (p == NULL && n != 0) || h.tracks;
    if (mask != 0 ? wh_any(mask, slow) : slow) {
        const wh_tessera_core *g = wh_tessera_core_of_(h);
        const uint32_t none = n != 0 ? WH_TESSERA_NO_CLASS : WH_TESSERA_NO_REQUEST;
        const uint32_t c = want.is_slot ? want.c : none;
        wh_tessera_way way = together
                                 ? wh_tessera_soon_warp_(g, group.lanes, shard, c, v, refills, p)
                                 : wh_tessera_soon_each_(g, shard, c, v, refills, p);
        p = way.p;
        /* Of a full warp soon_ has asked: a vote behind a call may go wrong (simt/cuda.h). */
        if (together || mask == 0 ? (int)way.more : wh_any(mask, (int)way.more)) {
            way.more = want.told ? WH_TESSERA_TOLD : way.more;
            p = wh_tessera_more_(g, mask, group.lanes, shard, n, way);
        }
    }
    if (mask != 0) {
        WH_PLANT(tessera_p2_lanes, wh_syncwarp(mask), (void)0); /* P2: what lanes did for others */
    }
    return p;
}

/* The lanes of a full warp ask in groups of one class. Those of a part of one each ask for
 * themselves, as they can only tell each other by shuffles (simt/cuda.h), which take longer than
 * the atomics that they would save. */
WH_FN void *wh_tessera_malloc_(wh_tessera_ref h, wh_mask mask, size_t n, int told) {
    const int together = mask == WH_FULL_WARP;
    wh_tessera_want want;
    want.is_slot = (uint64_t)n >> 32 == 0 && (uint32_t)n - 1 < h.max_slot; /* not so for 0 */
    want.c = want.is_slot ? wh_tessera_class_of((uint32_t)n) : WH_TESSERA_NO_CLASS;
    want.told = told;
    want.group = together ? wh_group_by_u32(mask, want.c) : wh_group_alone();
    want.cls = h.classes[want.c];
    want.cursor = &h.shards->cursors[want.c];
    want.takes_slab = want.group.n == WH_WARP_SIZE && (h.warp_slabs >> (want.c & 63) & 1) != 0;
    return wh_tessera_get_(h, mask, n, want);
}

WH_FN int wh_tessera_is_checked_(wh_tessera_ref h) {
    return WH_CHECKED && h.max_slot == 0;
}
/* By a file that checks, in a checked heap. */
WH_FN void *wh_tessera_checked_get_(wh_tessera_ref h, wh_mask mask, size_t n, wh_site site) {
    const wh_tessera_core *g = wh_tessera_core_of_(h);
    const uint32_t shard = wh_tessera_my_shard_(h);
    void *p = mask == WH_FULL_WARP ? wh_tessera_checked_malloc_warp_(g, shard, n, site)
                                   : wh_tessera_checked_malloc_(g, shard, n, 1, site);
    if (mask != 0) {
        wh_syncwarp(mask);
    }
    return p;
}

WH_FN void *wh_tessera_malloc(wh_tessera_ref h, wh_mask mask, size_t n) {
    wh_assert(mask == 0 || wh_tessera_in_mask_(mask));
    if (wh_tessera_is_checked_(h)) {
        return wh_tessera_checked_get_(h, mask, n, 0);
    }
    return mask == WH_FULL_WARP ? wh_tessera_malloc_(h, WH_FULL_WARP, n, 0) /* it is a constant */
                                : wh_tessera_malloc_(h, mask, n, 0);
}

/* Requests for alignments that no slot has. All lanes of mask; n = 0: nothing. */
WH_FN_LINKED(void *, wh_tessera_aligned_run_,
             (const wh_tessera_core *g, wh_mask mask, uint32_t shard, uint64_t n, uint64_t align,
              wh_site site)) {
    void *p = NULL;
    if (wh_tessera_checks_(g)) {
        p = wh_tessera_checked_malloc_(g, shard, n, align, site);
        wh_syncwarp(mask);
        return p;
    }
    p = wh_tessera_run_(g, mask, shard, WH_TESSERA_NO_CLASS, n, align);
    if (n != 0 && wh_tessera_is_none_(p)) {
        p = wh_tessera_failure_(g, n, site, p);
    }
    if ((g->tracks & WH_TESSERA_COUNTS) != 0) {
        wh_tessera_count_mallocs_(g, mask, p);
    }
    return p;
}

/* A slot of 2^k bytes lies at a multiple of 2^k, as slabs and chunks do. */
WH_FN void *wh_tessera_aligned_at(wh_tessera_ref h, wh_mask mask, size_t align, size_t n,
                                  wh_site site) {
    wh_assert(wh_tessera_in_mask_(mask) && wh_is_pow2(align));
    const uint64_t size = n == 0 || n > align ? n : align;
    const int is_slot = size - 1 < h.max_slot;
    const uint64_t slot = is_slot ? (uint64_t)1 << wh_log2_ceil(size) : 0;
    void *p = wh_tessera_malloc_(h, mask, (size_t)slot, 1);
    if (slot != 0 && wh_tessera_is_none_(p)) {
        p = wh_tessera_failure_(wh_tessera_core_of_(h), n, site, p);
    }
    const int is_run = n != 0 && !is_slot;
    if (wh_any(mask, is_run)) {
        void *q = wh_tessera_aligned_run_(wh_tessera_core_of_(h), mask, wh_tessera_my_shard_(h),
                                          is_run ? n : 0, align, site);
        p = is_run ? q : p;
    }
    wh_syncwarp(mask);
    return p;
}
WH_FN void *wh_tessera_aligned(wh_tessera_ref h, wh_mask mask, size_t align, size_t n) {
    return wh_tessera_aligned_at(h, mask, align, n, 0);
}

/* The lanes of a full warp in groups of one word, and the groups' bits, as wh_group_in_words; if
 * they have slots of one slab in the order of the lanes, as they mostly do, by two shuffles and a
 * vote. */
WH_FN wh_group wh_tessera_group_(uint32_t slab, uint32_t slot, uint32_t word, uint32_t in_word,
                                 int is_slot, uint64_t *bits, uint32_t *twice) {
    const uint32_t lane = wh_lane_id();
    const uint32_t first = wh_shfl_u32(WH_FULL_WARP, slot, 0);
    const uint32_t its_slab = wh_shfl_u32(WH_FULL_WARP, slab, 0);
    *twice = 0;
    if (wh_all(WH_FULL_WARP, is_slot && slab == its_slab && slot == first + lane)) {
        const uint32_t end = (first / WH_TESSERA_WORD_SLOTS + 1) * WH_TESSERA_WORD_SLOTS - first;
        const wh_mask lower = WH_FULL_WARP >> (end < 32 ? 32 - end : 0);
        const wh_group group = wh_group_of_lanes(lane < end ? lower : ~lower);
        *bits = (uint64_t)(WH_FULL_WARP >> (32 - group.n)) << (in_word - group.rank);
        return group;
    }
    const wh_group group = wh_group_by_u32(WH_FULL_WARP, word);
    *bits = wh_group_bits_u64(WH_FULL_WARP, group, in_word, is_slot);
    *twice = is_slot ? group.n - wh_popc64(*bits) : 0;
    return group;
}

/* together: a constant; all lanes of the warp call, in groups of one word. Else each lane for
 * itself. of_class: the class that p has to be of; ANY_CLASS, a constant: any, or a run. */
WH_FN void wh_tessera_free_(wh_tessera_ref h, int together, uint32_t of_class, void *p) {
    const uint64_t offset = (uint64_t)((unsigned char *)p - h.base);
    const int inside = offset < h.bytes; /* not so for NULL */
    const uint32_t chunk = inside ? (uint32_t)(offset >> h.chunk_log2) : 0;
    const uint64_t tag = wh_load_u64_relaxed(&h.tags[chunk]); /* I3 */
    const uint32_t at_chunk = wh_tessera_tag_at(tag), slab = chunk - at_chunk;
    const uint32_t slot = wh_tessera_tag_slot(tag, (at_chunk << h.chunk_log2) +
                                                       ((uint32_t)offset & ~(~0u << h.chunk_log2)));
    const int is_slot = inside & wh_tessera_is_slab_of(tag, of_class) &
                        (slot < wh_tessera_tag_slots(tag, h.chunk_log2));
    const uint32_t i = is_slot ? slot / WH_TESSERA_WORD_SLOTS : 0;
    const uint32_t word = is_slot ? slab * h.words_of_chunk + i : UINT32_MAX;
    const uint32_t in_word = slot - i * WH_TESSERA_WORD_SLOTS;
    uint64_t bits = (uint64_t)1 << (in_word & 63);
    uint32_t twice = 0;
    wh_group group = wh_group_alone();
    if (together) {
        wh_syncwarp(WH_FULL_WARP); /* every lane's last use comes before its leader's release */
        group = wh_tessera_group_(slab, slot, word, in_word, is_slot, &bits, &twice);
    }
    if (is_slot) {
        if (wh_group_leads(group)) {
            const uint64_t tag_again = wh_again_u64(tag); /* above 32 registers fewer warps fit */
            const uint32_t c =
                of_class != WH_TESSERA_ANY_CLASS ? of_class : wh_tessera_tag_class(tag_again);
            uint64_t *const at = &h.words[word];
            /* A full warp that frees a slab of its own has nobody to hear from: no slot of it is
             * free, and what the lanes say themselves goes with the pool's word (P3). */
            const uint64_t of = wh_tessera_word_of(c);
            if (together && bits == WH_FULL_WARP && /* not so for a large class: it has 16 slots */
                wh_tessera_tag_slots(tag_again, h.chunk_log2) == WH_WARP_SIZE &&
                wh_cas_u64_relaxed(at, 0, WH_TESSERA_GONE) == 0) {
                wh_tessera_put_chunks_(h.core,
                                       wh_tessera_nth_shard_(h.shards, wh_tessera_my_shard_(h)),
                                       slab, wh_tessera_tag_chunks(tag_again));
                bits = 0;
            }
            const uint64_t old =
                bits == 0 ? 0
                          : WH_PLANT(tessera_p1_free, wh_fetch_or_u64_acq_rel,
                                     wh_fetch_or_u64_relaxed)(at, bits | of); /* P1, P7, P9 */
            const uint32_t shard = wh_tessera_my_shard_(h);
            wh_tessera_shard *const own = wh_tessera_nth_shard_(h.shards, shard);
            if (bits != 0 && wh_tessera_freed_well_(own, at, tag_again, old, bits, twice)) {
                if (h.tracks) {
                    wh_tessera_count_frees_(wh_tessera_core_of_(h),
                                            (uint64_t)wh_popc64(bits & ~old) *
                                                h.classes[c].slot_size);
                }
                if (wh_tessera_is_empty_(h.core, tag_again, i, old, bits)) {
                    wh_tessera_freed_(wh_tessera_core_of_(h), shard, slab, tag_again, i, old, bits);
                } else if (wh_tessera_is_unlisted_(h.core, c, slab)) {
                    wh_tessera_add_partial_(h.core, c, slab);
                }
                wh_tessera_hint_(&own->cursors[c], word * 0x9e3779b9u, slab, i);
                if (c >= WH_TESSERA_SMALL) {
                    wh_add_u32_relaxed(&own->events, 1); /* X2 */
                }
            }
        }
    } else if (p != NULL) { /* no run is of a small class: an offset that none has */
        wh_tessera_free_run_(wh_tessera_core_of_(h), wh_tessera_my_shard_(h),
                             of_class < WH_TESSERA_SMALL ? UINT64_MAX : offset);
    }
}

/* By a file that checks, in a checked heap. */
WH_FN void wh_tessera_checked_give_(wh_tessera_ref h, wh_mask mask, void *p, wh_site site) {
    const wh_tessera_core *g = wh_tessera_core_of_(h);
    const uint32_t shard = wh_tessera_my_shard_(h);
    const uint64_t offset = (uint64_t)((unsigned char *)p - h.base);
    if (mask != 0) {
        wh_syncwarp(mask); /* every lane's last use comes before any lane's free */
    }
    if (mask == WH_FULL_WARP) {
        wh_tessera_checked_free_warp_(g, shard, p != NULL, offset, site);
    } else if (p != NULL) {
        wh_tessera_checked_free_(g, shard, offset, site);
    }
}

WH_FN void wh_tessera_free(wh_tessera_ref h, wh_mask mask, void *p) {
    wh_assert(mask == 0 || wh_tessera_in_mask_(mask));
    if (wh_tessera_is_checked_(h)) {
        wh_tessera_checked_give_(h, mask, p, 0);
        return;
    }
    if (mask == WH_FULL_WARP) {
        wh_tessera_free_(h, 1, WH_TESSERA_ANY_CLASS, p);
    } else {
        wh_tessera_free_(h, 0, WH_TESSERA_ANY_CLASS, p);
    }
}

/* --- calls that say where they stand --------------------------------------------------------- */

WH_FN void *wh_tessera_malloc_at(wh_tessera_ref h, wh_mask mask, size_t n, wh_site site) {
    if (wh_tessera_is_checked_(h)) {
        return wh_tessera_checked_get_(h, mask, n, site);
    }
    void *p = mask == WH_FULL_WARP ? wh_tessera_malloc_(h, WH_FULL_WARP, n, 1)
                                   : wh_tessera_malloc_(h, mask, n, 1);
    if (n != 0 && wh_tessera_is_none_(p)) {
        p = wh_tessera_failure_(wh_tessera_core_of_(h), n, site, p);
    }
    return p;
}
WH_FN void wh_tessera_free_at(wh_tessera_ref h, wh_mask mask, void *p, wh_site site) {
    if (wh_tessera_is_checked_(h)) {
        wh_tessera_checked_give_(h, mask, p, site);
    } else {
        wh_tessera_free(h, mask, p);
    }
}

/* --- pools ------------------------------------------------------------------------------- */

/* What malloc and free find out of a size, once for all blocks. */
typedef struct wh_tessera_pool {
    wh_tessera_class cls;
    uint64_t bytes;            /* of a request */
    wh_tessera_cursor *cursor; /* of its class and of shard 0 */
    uint32_t c;                /* NO_CLASS: blocks are runs */
    uint32_t takes_slab;       /* a full warp's blocks are a slab */
} wh_tessera_pool;

WH_HD wh_tessera_pool wh_tessera_pool_with_(wh_tessera_ref h, uint64_t bytes, uint32_t c,
                                            wh_tessera_class cls) {
    wh_tessera_pool pool;
    pool.cls = cls;
    pool.bytes = bytes;
    pool.cursor = &h.shards->cursors[c];
    pool.c = c;
    pool.takes_slab = c < WH_TESSERA_SMALL && (h.warp_slabs >> c & 1) != 0;
    return pool;
}
WH_HD uint32_t wh_tessera_pool_class_(wh_tessera_ref h, uint64_t bytes) {
    return bytes - 1 < h.max_slot ? wh_tessera_class_of((uint32_t)bytes)
                                  : wh_tessera_large_class_(&h.core, bytes);
}
WH_FN_HOST wh_tessera_pool wh_tessera_pool_plan(wh_tessera_ref h, uint64_t bytes) {
    const uint32_t c = wh_tessera_pool_class_(h, bytes);
    const wh_tessera_class none = {0, 0, 0, 0};
    return wh_tessera_pool_with_(
        h, bytes, c,
        c != WH_TESSERA_NO_CLASS ? wh_tessera_make_class(c, h.core.chunk_log2, h.core.max_slab_log2)
                                 : none);
}
WH_FN wh_tessera_pool wh_tessera_pool_of(wh_tessera_ref h, uint64_t bytes) {
    const uint32_t c = wh_tessera_pool_class_(h, bytes);
    return wh_tessera_pool_with_(h, bytes, c, h.classes[c]);
}
WH_HD uint64_t wh_tessera_pool_size(wh_tessera_pool pool) {
    return pool.c < WH_TESSERA_SMALL ? pool.cls.slot_size : pool.bytes;
}

/* The lanes of a full warp that want a block are one group. */
WH_FN void *wh_tessera_pool_malloc_(wh_tessera_ref h, wh_mask mask, wh_mask wanting,
                                    wh_tessera_pool pool, int told) {
    const int together = mask == WH_FULL_WARP;
    wh_tessera_want want;
    const int wants = mask == 0 || (wanting >> wh_lane_id() & 1) != 0;
    want.cls = pool.cls;
    want.cursor = pool.cursor;
    want.c = pool.c;
    want.told = told;
    want.is_slot = pool.c < WH_TESSERA_SMALL && wants;
    want.takes_slab = wanting == WH_FULL_WARP && pool.takes_slab;
    want.group = wh_group_alone();
    if (together && wanting == WH_FULL_WARP) {
        want.group.lanes = WH_FULL_WARP;
        want.group.leader = 0;
        want.group.rank = wh_lane_id();
        want.group.n = WH_WARP_SIZE;
    } else if (together && wants) {
        want.group = wh_group_of_lanes(wanting);
    }
    return wh_tessera_get_(h, mask, wants ? pool.bytes : 0, want);
}
WH_FN void *wh_tessera_pool_malloc(wh_tessera_ref h, wh_mask mask, wh_mask wanting,
                                   wh_tessera_pool pool) {
    wh_assert(mask == 0 || (wh_tessera_in_mask_(mask) && wanting != 0 && (wanting & ~mask) == 0));
    return mask == WH_FULL_WARP && wanting == WH_FULL_WARP
               ? wh_tessera_pool_malloc_(h, WH_FULL_WARP, WH_FULL_WARP, pool, 0) /* constants */
               : wh_tessera_pool_malloc_(h, mask, wanting, pool, 0);
}
WH_FN void wh_tessera_pool_free(wh_tessera_ref h, wh_mask mask, wh_tessera_pool pool, void *p) {
    wh_assert(mask == 0 || wh_tessera_in_mask_(mask));
    if (mask == WH_FULL_WARP) {
        wh_tessera_free_(h, 1, pool.c, p);
    } else {
        wh_tessera_free_(h, 0, pool.c, p);
    }
}

/* The same with where the call stands. */
WH_FN void *wh_tessera_pool_malloc_at(wh_tessera_ref h, wh_mask mask, wh_mask wanting,
                                      wh_tessera_pool pool, wh_site site) {
    const int wants = mask == 0 || (wanting >> wh_lane_id() & 1) != 0;
    if (wh_tessera_is_checked_(h)) {
        return wh_tessera_malloc_at(h, mask, wants ? (size_t)pool.bytes : 0, site);
    }
    void *p = wh_tessera_pool_malloc_(h, mask, wanting, pool, 1);
    if (wants && pool.bytes != 0 && wh_tessera_is_none_(p)) {
        p = wh_tessera_failure_(wh_tessera_core_of_(h), pool.bytes, site, p);
    }
    return p;
}
WH_FN void wh_tessera_pool_free_at(wh_tessera_ref h, wh_mask mask, wh_tessera_pool pool, void *p,
                                   wh_site site) {
    if (wh_tessera_is_checked_(h)) {
        wh_tessera_free_at(h, mask, p, site);
    } else {
        wh_tessera_pool_free(h, mask, pool, p);
    }
}

/* In a checked heap: what was asked for. */
WH_FN_LINKED(uint64_t, wh_tessera_checked_size_, (const wh_tessera_core *g, uint64_t offset)) {
    wh_fence(); /* P15 */
    const wh_tessera_raw raw = wh_tessera_read_raw_(g, offset);
    return raw.state == WH_TESSERA_LIVE && raw.offset + raw.front == offset ? raw.size : 0;
}
WH_FN uint64_t wh_tessera_usable_size(wh_tessera_ref h, const void *p) {
    const uint64_t offset = (uint64_t)((const unsigned char *)p - h.base);
    if (offset >= h.bytes) {
        return wh_tessera_is_checked_(h) ? wh_tessera_checked_size_(wh_tessera_core_of_(h), offset)
                                         : 0;
    }
    const uint64_t tag = wh_load_u64_relaxed(&h.tags[(uint32_t)(offset >> h.chunk_log2)]); /* I3 */
    return wh_tessera_block_bytes_(h.classes, h.chunk_log2, tag);
}

/* Memory of a reserved heap that is not mapped is not its own: no block lies there. */
WH_FN int wh_tessera_owns(wh_tessera_ref h, const void *p) {
    const uint64_t offset = (uint64_t)((const unsigned char *)p - h.base);
    return offset < (uint64_t)h.core.n_chunks << h.chunk_log2 &&
           (h.core.reserved == 0 ||
            wh_load_u64_relaxed(&h.tags[(uint32_t)(offset >> h.chunk_log2)]) != WH_TESSERA_ABSENT);
}

#define wh_tessera_NAME "tessera"
#define wh_tessera_MAX_ALIGN WH_TESSERA_MOST_ALIGN
#define wh_tessera_BLOCKS 6
#define wh_tessera_EACH 1
#define WH_ALLOC_RESERVES 1
#define WH_ALLOC_SAVES 1
#define WH_ALLOC_GAUGES 1
#define WH_ALLOC_RECORDS 1
#define WH_ALLOC_SNAPSHOTS 1

#include "warpheap/detail/simt/end.h"

#include "warpheap/detail/alloc/tessera/gauge.h"
#include "warpheap/detail/alloc/tessera/image.h"
#include "warpheap/detail/alloc/tessera/inspect.h"
#include "warpheap/detail/alloc/tessera/reserve.h"
#include "warpheap/detail/alloc/tessera/snapshot.h"

#endif

/* core/chunk_pool.h: the memory manager of Ouroboros (ICS 2020, sections 3.1 and 3.2):
 * equally sized chunks, handed out in O(1) by one add on an offset, and the chunk-reuse
 * queue (the index queue of section 3.3, Algorithm 1) of those that have come back.
 *
 * Chunks are named by their index; a large chunk (2^large_log2 neighbours, at a multiple
 * of its size) by its first. Small ones are taken from the front, large ones from the
 * back, so that one region serves both; a large chunk that came back is split when there
 * are no small ones, and small ones are put together again when there are no large ones
 * (wh_chunk_pool_merge).
 *
 * Algorithm 1 here: `count` is its fill count, ring its front, back and q with the deletion
 * marker 0 (core/ring.h). Departures: the count is looked at before it is taken from (a
 * queue that is empty most of the time costs a load), takes are in bulk, and enqueue needs
 * no check against the size: there are no more chunks than entries.
 *
 * Fields and who writes them (any lane, device scope)
 *   offset   low 32 bits: small chunks taken from the front: fetch_add relaxed, may run past
 *            the end by the takes in flight; high 32 bits: large ones from the back: cas
 *   count    chunks in the ring that nobody has claimed; below zero while vain takes are
 *            under way
 *   moving   lanes that split chunks, or that merge and have found some: raised by an acquire add
 *            before anything is taken, lowered by a release (P2)
 *   loose    chunks in the tree `loose_tree` (core/veb.h), or about to be: where merge puts
 *            small ones to see which are neighbours. Raised before the insert
 * Invariants
 *   I1  a chunk is out, in one ring, loose, or past the offset, never in two of these
 *   I2  count = tail - head when quiet
 *   I3  wh_chunk_pool_empty is true only if at one moment during the call no chunk was to be
 *       had: head and tail only grow, so equal values read one after the other mean that
 *       the ring was empty, and nothing put there, in between. In between it reads, in this order,
 *       what is fresh, moving, loose
 *   I4  large chunks are taken only while the small ones taken from the front have not reached
 *       them; so `back` in the word that a take of fresh small ones passed is final for those
 *       of them that lie past the large chunks
 * Ordering pairs
 *   P1  what the giver of a chunk did before free -> its taker (the ring's P1)
 *   P2  chunks that are being moved are in no ring meanwhile: the lane that took them has raised
 *       `moving` before, and what it made of them is there when `moving` is lowered (release)
 *       -> wh_chunk_pool_empty (acquire)
 * Lanes    any lane alone
 * Progress take and free: a bounded number of own steps, plus the ring's wait for a lane
 *          that has its position; that lane is between two of its own steps without a
 *          collective in between, so it may be a lane of the same warp
 * Check    tests/unit/chunk_pool.c
 */
#ifndef WH_CORE_CHUNKPOOL_H
#define WH_CORE_CHUNKPOOL_H

#include "warpheap/core/ring.h"
#include "warpheap/core/veb.h"

#include "warpheap/detail/simt/begin.h"

#define WH_CHUNK_NONE UINT32_MAX

typedef struct wh_chunk_pool_state {
    uint64_t moving;
    uint64_t loose;
} wh_chunk_pool_state;

/* A pool, by value. entries[0] has capacity 2^entries_log2[0] >= n, entries[1] 2^... >=
 * n >> large_log2. Whoever takes or frees writes offset, counts or rings: these five begin `apart`
 * words after each other. Each is to have a cache line to itself, and be 1 KiB or more from the
 * others where there is memory for that (docs/MEMORY_MODEL.md). */
#define WH_CHUNK_POOL_PLACES 5u
typedef struct wh_chunk_pool {
    uint64_t *words;
    wh_chunk_pool_state *state;
    uint32_t *entries[2];
    wh_veb loose_tree; /* of n items; not read without large chunks */
    uint32_t entries_log2[2];
    uint32_t apart;      /* at least 3 */
    uint32_t n;          /* small chunks in all */
    uint32_t large_log2; /* small chunks in a large one */
} wh_chunk_pool;

WH_HD uint64_t *wh_chunk_pool_offset_(wh_chunk_pool p) {
    return p.words;
}
/* Of small chunks, or large ones. (Computed: an array of pointers that is indexed by a variable
 * would lie in local memory, and make cold mallocs slower.) */
WH_HD uint64_t *wh_chunk_pool_count_(wh_chunk_pool p, uint32_t level) {
    wh_assert(level < 2);
    return p.words + (uint64_t)((1 + level) * p.apart);
}
WH_HD wh_ring *wh_chunk_pool_ring_(wh_chunk_pool p, uint32_t level) {
    wh_assert(level < 2);
    return (wh_ring *)(void *)(p.words + (uint64_t)((3 + level) * p.apart));
}
WH_HD uint32_t *wh_chunk_pool_entries_(wh_chunk_pool p, uint32_t level) {
    return level == 0 ? p.entries[0] : p.entries[1];
}
WH_HD uint32_t wh_chunk_pool_capacity_(wh_chunk_pool p, uint32_t level) {
    return 1u << (level == 0 ? p.entries_log2[0] : p.entries_log2[1]);
}

/* All of it side by side, for pools that few lanes use at a time. */
typedef struct wh_chunk_pool_words {
    uint64_t words[WH_CHUNK_POOL_PLACES * 3];
    wh_chunk_pool_state state;
} wh_chunk_pool_words;

WH_HD void wh_chunk_pool_bind(wh_chunk_pool *p, wh_chunk_pool_words *w) {
    p->words = w->words;
    p->apart = 3;
    p->state = &w->state;
}

/* The state of a pool of which all chunks are fresh: one lane writes it, and zeros all entries and
 * the tree. */
WH_FN void wh_chunk_pool_reset(wh_chunk_pool p) {
    wh_assert(p.apart >= 3 && p.n != 0 && p.large_log2 < 32);
    wh_assert(wh_chunk_pool_capacity_(p, 0) >= p.n);
    wh_assert(wh_chunk_pool_capacity_(p, 1) >= p.n >> p.large_log2);
    *wh_chunk_pool_offset_(p) = 0;
    p.state->moving = 0;
    p.state->loose = 0;
    for (uint32_t l = 0; l < 2; l++) {
        wh_ring *ring = wh_chunk_pool_ring_(p, l);
        *wh_chunk_pool_count_(p, l) = 0;
        ring->head = 0;
        ring->tail = 0;
        ring->virgin = 0;
    }
}

/* Chunks taken together: n of them, each got by wh_chunk_pool_get once. */
#define WH_CHUNK_POOL_RING 0u  /* first: position in the ring */
#define WH_CHUNK_POOL_INDEX 1u /* the chunks from `first` on */
#define WH_CHUNK_POOL_FRESH 2u /* small ones; first: the whole word that the offset was */
typedef struct wh_chunk_pool_taken {
    uint64_t first;
    uint32_t n; /* 0: none */
    uint32_t from;
} wh_chunk_pool_taken;

/* Small chunks that lie behind the last large one. */
WH_HD uint32_t wh_chunk_pool_rest_(wh_chunk_pool p) {
    return p.n & ((1u << p.large_log2) - 1);
}

/* How many small chunks the offset has left; 0 if it has run past. */
WH_HD uint32_t wh_chunk_pool_left_(wh_chunk_pool p, uint64_t offset, uint32_t level) {
    const uint64_t back = (offset >> 32) << p.large_log2, front = (uint32_t)offset;
    if (level == 0) {
        return front + back < p.n ? (uint32_t)(p.n - back - front) : 0;
    }
    const uint64_t main = p.n - wh_chunk_pool_rest_(p);
    return front + back < main ? (uint32_t)((main - back - front) >> p.large_log2) : 0;
}

/* Whether there may be a chunk of that number: of a level. */
WH_HD int wh_chunk_pool_is_chunk_(wh_chunk_pool p, uint32_t level, uint64_t chunk) {
    const uint64_t units = level == 0 ? 1 : (uint64_t)1 << p.large_log2;
    return (chunk & (units - 1)) == 0 && chunk + units <= p.n;
}

/* Up to n chunks from the ring. */
WH_FN uint32_t wh_chunk_pool_from_ring_(wh_chunk_pool p, uint32_t level, uint32_t n,
                                        uint64_t *position) {
    uint64_t *count = wh_chunk_pool_count_(p, level);
    wh_assert_internal(n != 0);
    if ((int64_t)wh_load_u64_relaxed(count) <= 0) {
        return 0;
    }
    const int64_t have = (int64_t)wh_fetch_sub_u64_relaxed(count, n);
    const uint32_t some = have < (int64_t)n ? (uint32_t)have : n;
    const uint32_t got = have <= 0 ? 0 : some;
    if (got < n) {
        wh_add_u64_relaxed(count, n - got); /* I2 */
    }
    if (got != 0) {
        *position = wh_ring_reserve_take(wh_chunk_pool_ring_(p, level), got);
    }
    return got;
}

WH_FN uint32_t wh_chunk_pool_ring_at_(wh_chunk_pool p, uint32_t level, uint64_t position) {
    return wh_ring_take_at(wh_chunk_pool_ring_(p, level), wh_chunk_pool_entries_(p, level),
                           wh_chunk_pool_capacity_(p, level), position);
}

/* Gives a chunk back: any lane, after its last use. */
WH_FN void wh_chunk_pool_free(wh_chunk_pool p, uint32_t level, uint32_t chunk) {
    wh_assert(wh_chunk_pool_is_chunk_(p, level, chunk));
    wh_ring_put_at(wh_chunk_pool_entries_(p, level), wh_chunk_pool_capacity_(p, level),
                   wh_ring_reserve_put(wh_chunk_pool_ring_(p, level)), chunk); /* P1 */
    wh_add_u64_relaxed(wh_chunk_pool_count_(p, level), 1);
}

/* Splits a large chunk that came back: n of its small ones for the caller. */
WH_FN uint32_t wh_chunk_pool_split_(wh_chunk_pool p, uint32_t n, uint64_t *first) {
    uint64_t position = 0;
    uint32_t got = 0;
    if (p.large_log2 == 0 || (int64_t)wh_load_u64_relaxed(wh_chunk_pool_count_(p, 1)) <= 0) {
        return 0;
    }
    (void)wh_fetch_add_u64_acquire(&p.state->moving, 1); /* P2 */
    if (wh_chunk_pool_from_ring_(p, 1, 1, &position) != 0) {
        const uint32_t chunk = wh_chunk_pool_ring_at_(p, 1, position);
        wh_assert_internal(wh_chunk_pool_is_chunk_(p, 1, chunk));
        got = n < 1u << p.large_log2 ? n : 1u << p.large_log2;
        *first = chunk;
        for (uint32_t i = got; i < 1u << p.large_log2; i++) {
            wh_chunk_pool_free(p, 0, chunk + i);
        }
    }
    (void)wh_fetch_sub_u64_release(&p.state->moving, 1); /* P2 */
    return got;
}

/* A chunk that merge has left over. */
WH_FN uint32_t wh_chunk_pool_from_loose_(wh_chunk_pool p, uint64_t *first) {
    if (p.large_log2 == 0 || wh_load_u64_relaxed(&p.state->loose) == 0) {
        return 0;
    }
    for (uint64_t x = wh_veb_scan(p.loose_tree, 0); x != WH_VEB_NONE;
         x = wh_veb_scan(p.loose_tree, x)) {
        if (wh_veb_remove(p.loose_tree, x)) {
            const uint64_t loose = wh_fetch_sub_u64_release(&p.state->loose, 1);
            wh_assert_internal(loose != 0 && x < p.n); /* raised before the insert */
            (void)loose;
            *first = x;
            return 1;
        }
    }
    return 0;
}

/* Up to n fresh small chunks. */
WH_FN uint32_t wh_chunk_pool_fresh_(wh_chunk_pool p, uint32_t n, uint64_t *first) {
    if (wh_chunk_pool_left_(p, wh_load_u64_relaxed(wh_chunk_pool_offset_(p)), 0) == 0) {
        return 0;
    }
    const uint64_t o = wh_fetch_add_u64_relaxed(wh_chunk_pool_offset_(p), n);
    const uint32_t left = wh_chunk_pool_left_(p, o, 0);
    *first = o;
    return n < left ? n : left;
}

/* Up to n chunks: of those that came back, or else fresh ones. None only if there were
 * none in any of these places when they were looked at. level 0: small, 1: large. */
WH_FN wh_chunk_pool_taken wh_chunk_pool_take(wh_chunk_pool p, uint32_t level, uint32_t n) {
    wh_chunk_pool_taken t;
    wh_assert(level < 2 && n != 0);
    t.first = 0;
    t.from = WH_CHUNK_POOL_RING;
    t.n = wh_chunk_pool_from_ring_(p, level, n, &t.first);
    if (t.n == 0 && level == 0) {
        t.from = WH_CHUNK_POOL_FRESH;
        t.n = wh_chunk_pool_fresh_(p, n, &t.first);
        if (t.n == 0) {
            t.from = WH_CHUNK_POOL_INDEX;
            t.n = wh_chunk_pool_from_loose_(p, &t.first);
        }
        if (t.n == 0) {
            t.n = wh_chunk_pool_split_(p, n, &t.first);
        }
    }
    if (t.n == 0 && level == 1) {
        uint64_t o = wh_load_u64_relaxed(wh_chunk_pool_offset_(p));
        uint32_t left = wh_chunk_pool_left_(p, o, 1);
        t.from = WH_CHUNK_POOL_INDEX;
        while (left != 0) {
            const uint32_t take = n < left ? n : left;
            const uint64_t seen =
                wh_cas_u64_relaxed(wh_chunk_pool_offset_(p), o, o + ((uint64_t)take << 32));
            if (seen == o) {
                t.n = take;
                t.first = p.n - wh_chunk_pool_rest_(p) - (((o >> 32) + take) << p.large_log2);
                return t;
            }
            o = seen;
            left = wh_chunk_pool_left_(p, o, 1);
        }
    }
    return t;
}

/* Chunk i of a take. */
WH_FN uint32_t wh_chunk_pool_get(wh_chunk_pool p, uint32_t level, wh_chunk_pool_taken t,
                                 uint32_t i) {
    wh_assert(i < t.n && t.from <= WH_CHUNK_POOL_FRESH);
    wh_assert_internal(t.from != WH_CHUNK_POOL_FRESH || level == 0);
    if (t.from == WH_CHUNK_POOL_RING) {
        return wh_chunk_pool_ring_at_(p, level, t.first + i);
    }
    if (t.from == WH_CHUNK_POOL_INDEX) {
        return (uint32_t)t.first + (level == 1 ? i << p.large_log2 : i);
    }
    /* From the front on, without gaps: what is in use lies close together. Those behind the
     * large chunks come last: where they begin does not change any more (I4). */
    const uint32_t rest = wh_chunk_pool_rest_(p), k = (uint32_t)t.first + i;
    const uint32_t main = p.n - rest - ((uint32_t)(t.first >> 32) << p.large_log2);
    wh_assert_internal(k < main || k - main < rest); /* I4 */
    return k < main ? k : p.n - rest + (k - main);
}

/* Claims all chunks of the large one that begins at `first` if they are loose. */
WH_FN int wh_chunk_pool_claim_large_(wh_chunk_pool p, uint64_t first) {
    const uint32_t n = 1u << p.large_log2;
    wh_assert_internal(wh_chunk_pool_is_chunk_(p, 1, first));
    if (n >= 64) {
        return wh_veb_claim_range(p.loose_tree, first, n);
    }
    const uint64_t mask = wh_lowest_bits(UINT64_MAX, n) << (first & 63);
    const uint64_t got = wh_veb_claim_mask(p.loose_tree, first >> 6, mask);
    if (got != mask && got != 0) {
        (void)wh_veb_insert_mask(p.loose_tree, first >> 6, got);
    }
    return got == mask;
}

/* Whether all chunks of the large one that begins at `first` are loose. */
WH_FN int wh_chunk_pool_large_is_loose_(wh_chunk_pool p, uint64_t first) {
    const uint32_t n = 1u << p.large_log2;
    const uint64_t mask = n < 64 ? wh_lowest_bits(UINT64_MAX, n) << (first & 63) : UINT64_MAX;
    uint64_t all = mask;
    for (uint64_t w = first >> 6; w << 6 < first + n; w++) {
        all &= wh_load_u64_relaxed(wh_veb_word(p.loose_tree, w));
    }
    return all == mask;
}

/* Puts free small chunks together: all that are in the ring or fresh become loose, and
 * those that make up large ones go to the ring of these. Whether there was one. For when
 * there are no large ones: it looks at every chunk.
 * I3: `moving` is raised before anything is taken, and stays so until what it goes into has been
 * looked through. A call that finds nothing to take does not raise it: callers that find nothing
 * would otherwise keep each other from seeing an empty pool for ever. */
WH_FN int wh_chunk_pool_merge(wh_chunk_pool p) {
    const uint32_t n = 1u << p.large_log2;
    int merged = 0, moving = 0;
    if (p.large_log2 == 0) {
        return 0;
    }
    while ((int64_t)wh_load_u64_relaxed(wh_chunk_pool_count_(p, 0)) > 0 ||
           wh_chunk_pool_left_(p, wh_load_u64_relaxed(wh_chunk_pool_offset_(p)), 0) != 0) {
        wh_chunk_pool_taken t;
        if (!moving) {
            (void)wh_fetch_add_u64_acquire(&p.state->moving, 1); /* P2 */
            moving = 1;
        }
        t.from = WH_CHUNK_POOL_RING;
        t.n = wh_chunk_pool_from_ring_(p, 0, 64, &t.first);
        if (t.n == 0) {
            t.from = WH_CHUNK_POOL_FRESH;
            t.n = wh_chunk_pool_fresh_(p, 64, &t.first);
        }
        if (t.n == 0) {
            break;
        }
        wh_add_u64_relaxed(&p.state->loose, t.n);
        for (uint32_t i = 0; i < t.n; i++) {
            (void)wh_veb_insert(p.loose_tree, wh_chunk_pool_get(p, 0, t, i));
        }
    }
    for (uint64_t first = 0; first + n <= p.n - wh_chunk_pool_rest_(p); first += n) {
        if (wh_chunk_pool_large_is_loose_(p, first)) {
            if (!moving) {
                (void)wh_fetch_add_u64_acquire(&p.state->moving, 1); /* P2 */
                moving = 1;
            }
            if (wh_chunk_pool_claim_large_(p, first)) {
                wh_chunk_pool_free(p, 1, (uint32_t)first);
                (void)wh_fetch_sub_u64_release(&p.state->loose, n);
                merged = 1;
            }
        }
    }
    if (moving) {
        (void)wh_fetch_sub_u64_release(&p.state->moving, 1); /* P2 */
    }
    return merged;
}

WH_FN int wh_chunk_pool_ring_is_empty_(wh_chunk_pool p, uint32_t level, uint64_t head) {
    return wh_load_u64_acquire(&wh_chunk_pool_ring_(p, level)->tail) == head;
}

/* Whether there are chunks that have never been in use. Once 0, always 0 until a reset. */
WH_FN int wh_chunk_pool_has_fresh(wh_chunk_pool p, uint32_t level) {
    return wh_chunk_pool_left_(p, wh_load_u64_relaxed(wh_chunk_pool_offset_(p)), level) != 0;
}

/* Whether there are chunks, unless others are faster, and which; take_seen takes one. Apart they
 * cost no more than take, and in between the caller may still leave it. */
#define WH_CHUNK_POOL_NONE_SEEN 0u
#define WH_CHUNK_POOL_SEEN 1u
#define WH_CHUNK_POOL_FRESH_SEEN 2u /* small ones, and none that came back */

WH_FN uint32_t wh_chunk_pool_look(wh_chunk_pool p, uint32_t level) {
    const int64_t back = (int64_t)wh_load_u64_relaxed(wh_chunk_pool_count_(p, level));
    const uint64_t offset = wh_load_u64_relaxed(wh_chunk_pool_offset_(p));
    if (back > 0) {
        return WH_CHUNK_POOL_SEEN;
    }
    if (wh_chunk_pool_left_(p, offset, level) != 0) {
        return level == 0 ? WH_CHUNK_POOL_FRESH_SEEN : WH_CHUNK_POOL_SEEN;
    }
    return level == 0 && p.large_log2 != 0 &&
                   (wh_load_u64_relaxed(&p.state->loose) != 0 ||
                    (int64_t)wh_load_u64_relaxed(wh_chunk_pool_count_(p, 1)) > 0)
               ? WH_CHUNK_POOL_SEEN
               : WH_CHUNK_POOL_NONE_SEEN;
}

WH_FN wh_chunk_pool_taken wh_chunk_pool_take_seen(wh_chunk_pool p, uint32_t level, uint32_t seen) {
    wh_chunk_pool_taken t;
    wh_assert(seen != WH_CHUNK_POOL_FRESH_SEEN || level == 0);
    if (seen == WH_CHUNK_POOL_FRESH_SEEN) {
        t.first = wh_fetch_add_u64_relaxed(wh_chunk_pool_offset_(p), 1);
        t.from = WH_CHUNK_POOL_FRESH;
        t.n = wh_chunk_pool_left_(p, t.first, 0) != 0;
        if (t.n != 0) {
            return t;
        }
    }
    return wh_chunk_pool_take(p, level, 1);
}

/* I3. For large chunks: without those that merge would make. Only this order of the reads will do:
 * what is fresh becomes less, and goes by way of `moving` to `loose` or a ring; loose chunks go to
 * a ring, and are counted until they are there. */
WH_FN int wh_chunk_pool_empty(wh_chunk_pool p, uint32_t level) {
    const int other = level == 0 && p.large_log2 != 0; /* small ones may come from elsewhere */
    const uint64_t head = wh_load_u64_acquire(&wh_chunk_pool_ring_(p, level)->head);
    const uint64_t large = other ? wh_load_u64_acquire(&wh_chunk_pool_ring_(p, 1)->head) : 0;
    return wh_chunk_pool_left_(p, wh_load_u64_acquire(wh_chunk_pool_offset_(p)), level) == 0 &&
           WH_PLANT(chunkpool_p2, wh_load_u64_acquire(&p.state->moving) == 0, 1) && /* P2 */
           (!other || (wh_load_u64_acquire(&p.state->loose) == 0 &&
                       wh_chunk_pool_ring_is_empty_(p, 1, large))) &&
           wh_chunk_pool_ring_is_empty_(p, level, head);
}

#include "warpheap/detail/simt/end.h"

#endif

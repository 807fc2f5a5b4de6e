/* core/vqueue.h: the queues of Ouroboros for indices (ICS 2020): one interface over
 *
 *   ARRAY      the array-based index queue (section 3.3)
 *   HIERARCHY  the virtualized array-hierarchy queue, VAQ (section 5.1): a small array of
 *              links to queue chunks; the entries lie on chunks of the pool
 *   LINKED     the virtualized linked-chunk queue, VLQ (section 5.2, Algorithms 6 and 11):
 *              queue chunks linked by `next`, with a pointer to the first and to the last
 *
 * The caller counts, with a bulk semaphore: it takes no more than was put. Putting has two
 * steps: `reserve` finds out for how many values there is room, put stores them. What finds
 * no room is the caller's to keep elsewhere: unlike the paper's queue this one loses
 * nothing when it is full, or when no chunk can be had for it.
 *
 * Positions are virtual, 64 bits, handed out by fetch_add on back and front. Position p lies
 * on queue chunk j = p / per at entry p mod per. A link is 64 bits {queue id 5 | j 31 |
 * chunk 28}: whoever follows one sees whether it is still the one that it wants.
 *
 * Fields and who writes them (any lane, device scope)
 *   back, front  fetch_add relaxed
 *   room         bulk semaphore (core/bulk_semaphore.h) over entries that exist and have no
 *                position yet. ARRAY: taken by reserve, given back when taken values are
 *                out. Others: a batch is a queue chunk; the lane whose duty it is fetches
 *                one from the pool ("the thread assigned to position 0 on a QueueChunk"), or
 *                several while the queue has fewer than `ahead`: most lanes find room then.
 *                LINKED: only as long as the cache has a link for each, or lanes had to walk
 *   entries      ring entries: put cas 0 -> value + 1 release, take exchange with 0 acquire
 *   done[chunk]  takes finished on a queue chunk: fetch_add acq_rel; the one that makes it
 *                `per` retires the chunk. (The paper's countA and countB: a finished take
 *                implies a finished put, so one counter will do.)
 *   provisioned  queue chunks that have their number j: fetch_add
 *   used         those that have not gone back to the pool; raised before the number is taken
 *   links[j]     a ring of 2^table_log2, written by the lane with number j. HIERARCHY: cleared
 *                by the one that retires it. LINKED: where it announces its chunk, and a
 *                cache afterwards, so that a lane far from `first` need not walk
 *   announced    LINKED: fetch_add acq_rel by the lowest lane of the call of the lane with
 *                number j, after links[j]
 *   next[chunk]  LINKED: first by the lane that owns the chunk, to {j + 1, none}, then cas
 *                by any lane that finds number j + 1 announced. Lies outside the chunk, so
 *                that following a link is always a read of a link, never of user data
 *   last         LINKED: cas, from one link to a later one when all between are in the list
 *   first        LINKED: cas, from one link to a later one when all between are finished
 *                (Algorithm 6, setPointer)
 *
 * Invariants
 *   I1  a position below back is on a queue chunk that is provisioned or being
 *       provisioned: room is given out only for entries that exist, or will
 *   I2  a queue chunk retires when all its takes are finished; so whoever has an unfinished
 *       position on a chunk may use it without any further protection
 *   I3  LINKED: chunks retire in the order of j (first moves only over finished ones).
 *       While a lane has an unfinished position on chunk j, none behind it retires, so j
 *       cannot grow by more than the chunks there are, 2^28, and the 31 bits in a link
 *       never come round: a link with the right id and j is the right one
 *   I4  each value put is taken once (the ring's I2)
 *   I5  LINKED: links[j] is overwritten by number j + 2^table_log2 only when j is in the list
 *       (the lane waits for `last`); and of the lanes that announce together, the one whose
 *       add to `announced` is the last sees the announcements of all (P4), so when quiet all
 *       are in the list
 *
 * Delayed reuse. The paper leaves t chunks behind `front` (pointer `old`) before it
 *       reuses any, with t guessed from the number of threads, since a lane that walks the
 *       list may stand on a chunk that has been retired. Here no lane touches a queue chunk
 *       but by I2; one that walks reads links only, sees by I3 that a link is not the next
 *       one, and starts again from `first`, which cannot have passed its chunk. So t = 0
 *       is safe and `old` is left out.
 *
 * Ordering pairs
 *   P1  put -> take (core/ring.h P1)
 *   P2  zeros of a fresh queue chunk, link release -> find acquire
 *   P4  links[j], announced acq_rel -> announced acq_rel -> load of links: a lane that finds a
 *       number missing is not the last one to look
 *   P3  last use of a queue chunk, done acq_rel -> retire -> pool (its P1) -> new owner
 *
 * Progress  A put waits for the take that is one round earlier on the same entry, a take
 *       for its put, find for the lane that provisions the chunk, that one for the chunk
 *       2^table_log2 earlier, to be in the list (LINKED) or retired (HIERARCHY). No chunk
 *       waits for its predecessor: whoever has announced one links what there is, and room
 *       is given out as soon as a chunk is admitted, when nothing can fail any more. All of
 *       these have their positions or numbers already, and the one with the lowest waits for
 *       nobody; a warp has numbers in one queue at a time. Within a
 *       warp: the collective calls wait together, and nobody puts while a lane of the same call
 *       has a take outstanding.
 * Cost  reserve 1 atomic, put 1 + 1 per value, take 1 + 1 per value + 1, per group
 * Check tests/unit/vqueue.c, tests/fault
 */
#ifndef WH_CORE_VQUEUE_H
#define WH_CORE_VQUEUE_H

#include "warpheap/core/bulk_semaphore.h"
#include "warpheap/core/chunk_pool.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/core/select.h"

#include "warpheap/detail/simt/begin.h"

#define WH_VQUEUE_ARRAY 0u
#define WH_VQUEUE_HIERARCHY 1u
#define WH_VQUEUE_LINKED 2u

/* What is written when the queue grows or shrinks. */
typedef struct wh_vqueue_state {
    uint64_t provisioned;
    uint64_t used;
    uint64_t first;
    uint64_t last;
    uint64_t announced;
} wh_vqueue_state;

/* A queue, by value. Every group of lanes that puts or takes writes front, back or room: each is to
 * have a cache line to itself, and to be 1 KiB or more from the others where there is memory for
 * that (docs/MEMORY_MODEL.md). */
typedef struct wh_vqueue {
    uint64_t *front;
    uint64_t *back;
    uint64_t *room;
    wh_vqueue_state *state;
    uint32_t *entries; /* ARRAY: 2^table_log2 of them */
    uint64_t *links;   /* HIERARCHY, LINKED: 2^table_log2 of them */
    uint32_t kind;
    uint32_t table_log2;
    uint32_t id;      /* 1..30, its own among all queues that share a pool */
    uint32_t bounded; /* ARRAY: 0 if the values in use are no more than the entries */
} wh_vqueue;

/* All of it side by side, for queues that few lanes use at a time. */
typedef struct wh_vqueue_words {
    uint64_t front;
    uint64_t back;
    uint64_t room;
    wh_vqueue_state state;
} wh_vqueue_words;

WH_HD void wh_vqueue_bind(wh_vqueue *q, wh_vqueue_words *w) {
    q->front = &w->front;
    q->back = &w->back;
    q->room = &w->room;
    q->state = &w->state;
}

/* What queues on chunks need besides: the pool, where chunks lie, and a word and a link
 * for each. */
typedef struct wh_vqueue_chunks {
    wh_chunk_pool pool;
    unsigned char *base;
    uint32_t *done;
    uint64_t *next;
    uint32_t chunk_log2; /* bytes */
    uint32_t ahead; /* queue chunks that a queue may have with some fetched ahead (LINKED: no more
                       than the cache has links); 0: none are */
} wh_vqueue_chunks;

/* --- links -------------------------------------------------------------------------- */

#define WH_VQUEUE_CHUNK_BITS 28u
#define WH_VQUEUE_NO_CHUNK ((1u << WH_VQUEUE_CHUNK_BITS) - 1)

WH_HD uint64_t wh_vqueue_link(uint32_t id, uint64_t j, uint32_t chunk) {
    return (uint64_t)id << 59 | (j & (((uint64_t)1 << 31) - 1)) << WH_VQUEUE_CHUNK_BITS | chunk;
}
WH_HD uint32_t wh_vqueue_chunk_of_(uint64_t link) {
    return (uint32_t)link & WH_VQUEUE_NO_CHUNK;
}
/* Whether a link is queue id's chunk number j, or its place. */
WH_HD int wh_vqueue_is_(uint64_t link, uint32_t id, uint64_t j) {
    return (link ^ wh_vqueue_link(id, j, 0)) >> WH_VQUEUE_CHUNK_BITS == 0;
}
/* The number in a link. */
WH_HD uint64_t wh_vqueue_number_(uint64_t link) {
    return (link >> WH_VQUEUE_CHUNK_BITS) & (((uint64_t)1 << 31) - 1);
}
/* By how much number j is ahead of a link's. */
WH_HD uint64_t wh_vqueue_ahead_(uint64_t j, uint64_t link) {
    return (j - wh_vqueue_number_(link)) & (((uint64_t)1 << 31) - 1);
}
/* The place behind a link. */
WH_HD uint64_t wh_vqueue_behind_(uint64_t link) {
    return wh_vqueue_link((uint32_t)(link >> 59), (link >> WH_VQUEUE_CHUNK_BITS) + 1,
                          WH_VQUEUE_NO_CHUNK);
}

/* Entries of a queue chunk, log2. */
WH_HD uint32_t wh_vqueue_per_log2(wh_vqueue_chunks k) {
    return k.chunk_log2 - 2;
}

WH_FN uint32_t *wh_vqueue_entries_(wh_vqueue_chunks k, uint32_t chunk) {
    return (uint32_t *)(void *)(k.base + ((uint64_t)chunk << k.chunk_log2));
}

/* Most queue chunks in use at a time. */
WH_HD uint64_t wh_vqueue_most_(wh_vqueue q, wh_vqueue_chunks k) {
    const uint64_t most = ((uint64_t)1 << 24) >> wh_vqueue_per_log2(k);
    return q.kind == WH_VQUEUE_HIERARCHY && (uint64_t)1 << q.table_log2 < most
               ? (uint64_t)1 << q.table_log2
               : most;
}

/* The state of an empty queue: one lane writes it, and zeros all links. */
WH_FN void wh_vqueue_reset(wh_vqueue q) {
    wh_vqueue_state *s = q.state;
    *q.front = 0;
    *q.back = 0;
    *q.room =
        wh_bulk_semaphore_word(q.kind == WH_VQUEUE_ARRAY ? (int64_t)1 << q.table_log2 : 0, 0, 0);
    s->provisioned = 0;
    s->used = 0;
    s->announced = 0;
    s->first = wh_vqueue_link(q.id, 0, WH_VQUEUE_NO_CHUNK);
    s->last = wh_vqueue_link(q.id, UINT64_MAX, WH_VQUEUE_NO_CHUNK); /* before the first */
}

/* --- finding a chunk ------------------------------------------------------------------ */

/* The queue chunk of position p as the table has it, or NONE. */
WH_FN uint32_t wh_vqueue_look_(wh_vqueue q, wh_vqueue_chunks k, uint64_t p) {
    const uint64_t j = p >> wh_vqueue_per_log2(k);
    const uint64_t *place = &q.links[j & (((uint64_t)1 << q.table_log2) - 1)];
    const uint64_t link = WH_PLANT_ORDER(vqueue_p2_find, wh_load_u64, acquire)(place);
    return wh_vqueue_is_(link, q.id, j) && wh_vqueue_chunk_of_(link) != WH_VQUEUE_NO_CHUNK
               ? wh_vqueue_chunk_of_(link) /* P2, I3 */
               : WH_CHUNK_NONE;
}

/* The queue chunk of position p, or NONE for now: call again with the same *walk (0 at
 * first). Of a lane that has position p and has not finished with it. */
WH_FN uint32_t wh_vqueue_find_(wh_vqueue q, wh_vqueue_chunks k, uint64_t p, uint64_t *walk) {
    const uint64_t j = p >> wh_vqueue_per_log2(k);
    const uint32_t chunk = wh_vqueue_look_(q, k, p);
    if (chunk != WH_CHUNK_NONE || q.kind == WH_VQUEUE_HIERARCHY) {
        return chunk;
    }
    /* One step along the list ("traversal"). */
    const uint64_t link = *walk == 0 ? wh_load_u64_acquire(&q.state->first) : *walk;
    if (wh_vqueue_chunk_of_(link) == WH_VQUEUE_NO_CHUNK) {
        *walk = 0;
        return WH_CHUNK_NONE; /* the very first one is on its way */
    }
    if (wh_vqueue_is_(link, q.id, j)) {
        return wh_vqueue_chunk_of_(link);
    }
    const uint64_t next = wh_load_u64_acquire(&k.next[wh_vqueue_chunk_of_(link)]);
    const uint64_t behind = wh_vqueue_behind_(link);
    if (WH_PLANT(vqueue_i3, (next ^ behind) >> WH_VQUEUE_CHUNK_BITS != 0, 0)) {
        *walk = 0; /* I3: retired meanwhile, and in use for something else */
    } else {
        *walk = next != behind ? next : link; /* ... or not linked yet */
    }
    return WH_CHUNK_NONE;
}

/* --- provisioning and retiring -------------------------------------------------------- */

/* The queue of lane `lane`, for all lanes of mask, whose queues are of one kind. */
WH_FN wh_vqueue wh_vqueue_of_(wh_mask mask, wh_vqueue q, uint32_t lane) {
    q.state = (wh_vqueue_state *)(uintptr_t)wh_shfl_u64(mask, (uint64_t)(uintptr_t)q.state, lane);
    q.links = (uint64_t *)(uintptr_t)wh_shfl_u64(mask, (uint64_t)(uintptr_t)q.links, lane);
    q.table_log2 = wh_shfl_u32(mask, q.table_log2, lane);
    q.id = wh_shfl_u32(mask, q.id, lane);
    return q;
}

/* LINKED: link number j as the table has it, or 0 if it is not announced, or overwritten. */
WH_FN uint64_t wh_vqueue_announced_(wh_vqueue q, uint64_t j) {
    const uint64_t link =
        wh_load_u64_acquire(&q.links[j & (((uint64_t)1 << q.table_log2) - 1)]); /* P2 */
    return wh_vqueue_is_(link, q.id, j) && wh_vqueue_chunk_of_(link) != WH_VQUEUE_NO_CHUNK ? link
                                                                                           : 0;
}

/* LINKED: queue chunks that each lane looks at in one step of `first` or `last`. */
#ifdef WH_HOSTILE
#define WH_VQUEUE_EACH 2u
#else
#define WH_VQUEUE_EACH 4u
#endif

/* How many chunks from the first lane's first one on are as they should be, if `mine` of each
 * lane's are, from its first one on. */
WH_FN uint32_t wh_vqueue_in_a_row_(wh_mask mask, uint32_t mine) {
    const wh_mask less = wh_ballot(mask, mine < WH_VQUEUE_EACH);
    if (less == 0) {
        return wh_popc32(mask) * WH_VQUEUE_EACH;
    }
    const uint32_t lane = wh_mask_leader(less);
    return wh_popc32(mask & ((1u << lane) - 1)) * WH_VQUEUE_EACH + wh_shfl_u32(mask, mine, lane);
}

/* Chunk n of a step is `links[n % EACH]` of lane n / EACH. */
WH_FN uint64_t wh_vqueue_nth_(wh_mask mask, const uint64_t links[WH_VQUEUE_EACH], uint32_t n) {
    uint64_t link = 0;
    for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
        link = n % WH_VQUEUE_EACH == i ? links[i] : link;
    }
    return wh_shfl_u64(mask, link, wh_select32(mask, n / WH_VQUEUE_EACH + 1));
}

/* LINKED: retires all finished chunks from the first on (Algorithm 6), but the last one. All lanes
 * of mask call with the same queue, and look at some chunks each: a step of `first` is a handful of
 * round trips, and with all lanes of a device in malloc hundreds of chunks end together. */
WH_FN void wh_vqueue_advance_(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask) {
    const uint32_t per = 1u << wh_vqueue_per_log2(k);
    const uint32_t rank = wh_mask_rank(mask), leader = wh_mask_leader(mask);
    for (;;) {
        uint64_t first = 0, last = 0;
        if (rank == 0) {
            first = wh_load_u64_acquire(&q.state->first);
        }
        first = wh_shfl_u64(mask, first, leader);
        if (wh_vqueue_chunk_of_(first) == WH_VQUEUE_NO_CHUNK) {
            return;
        }
        /* behind[i]: what follows the caller's chunk i, 0 if that is not known; done[i]: of it. */
        const uint64_t j = wh_vqueue_number_(first) + rank * WH_VQUEUE_EACH;
        const uint64_t link = rank == 0 ? first : wh_vqueue_announced_(q, j);
        uint64_t behind[WH_VQUEUE_EACH];
        uint32_t done[WH_VQUEUE_EACH];
        for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
            behind[i] = wh_vqueue_announced_(q, j + 1 + i);
        }
        if (rank == 0) {
            last = wh_load_u64_acquire(&q.state->last);
        }
        for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
            const uint64_t its = i == 0 ? link : behind[i == 0 ? 0 : i - 1];
            done[i] = its == 0 || (rank == 0 && i == 0)
                          ? 0
                          : wh_load_u32_acquire(&k.done[wh_vqueue_chunk_of_(its)]); /* P3 */
        }
        int ends = 0, moved = 0;
        if (rank == 0) {
            const uint32_t chunk = wh_vqueue_chunk_of_(first);
            /* An add: either this or the last take, which looks at next, sees the other. */
            done[0] = wh_fetch_add_u32_acq_rel(&k.done[chunk], 0);
            behind[0] = wh_load_u64_acquire(&k.next[chunk]);
            const uint64_t none = wh_vqueue_behind_(first);
            moved = (behind[0] ^ none) >> WH_VQUEUE_CHUNK_BITS != 0; /* by another lane meanwhile */
            ends = done[0] != per || behind[0] == none; /* who links the next one looks again */
        }
        if (wh_any(mask, moved)) {
            continue;
        }
        if (wh_any(mask, ends)) {
            return;
        }
        /* By how much last is ahead of first, which may have passed it: it is set by who links. */
        uint64_t linked =
            wh_vqueue_ahead_(wh_vqueue_number_(wh_shfl_u64(mask, last, leader)), first);
        linked = linked >> 30 == 0 ? linked : 0;
        uint32_t mine = 0;
        for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
            const uint64_t its = i == 0 ? link : behind[i == 0 ? 0 : i - 1];
            const int ready = its != 0 && behind[i] != 0 &&
                              (rank + i == 0 || rank * WH_VQUEUE_EACH + i < linked) &&
                              WH_PLANT(vqueue_i2_batch, done[i] == per, 1);
            mine += mine == i && ready;
        }
        /* If first has not moved when it is set, none of what was read here has gone (I3). */
        const uint32_t n = wh_vqueue_in_a_row_(mask, mine);
        const uint64_t to = wh_vqueue_nth_(mask, behind, n - 1);
        int won = 0;
        if (rank == 0) {
            won = wh_cas_u64_acq_rel(&q.state->first, first, to) == first; /* I3 */
            if (won) {
                (void)wh_fetch_sub_u64_relaxed(&q.state->used, n);
            }
        }
        won = wh_any(mask, won);
        for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
            const uint64_t its = i == 0 ? link : behind[i == 0 ? 0 : i - 1];
            if (won && rank * WH_VQUEUE_EACH + i < n) {
                wh_chunk_pool_free(k.pool, 0, wh_vqueue_chunk_of_(its)); /* P3 */
            }
        }
        wh_syncwarp(mask);
    }
}

/* LINKED: links all chunks that are announced, from the last one on, each lane of mask some, with
 * one step of `last`. Called with the same queue in all lanes of mask by whoever has links to tell:
 * of those that do so together the one whose add comes last sees all (I5). */
WH_FN void wh_vqueue_join_(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask) {
    wh_vqueue_state *s = q.state;
    const uint32_t rank = wh_mask_rank(mask), leader = wh_mask_leader(mask);
    int linked = 0;
    if (rank == 0) {
        (void)WH_PLANT_ORDER(vqueue_p4, wh_fetch_add_u64, acq_rel)(&s->announced, 1); /* P4 */
    }
    wh_syncwarp(mask);
    for (;;) {
        uint64_t last = 0;
        if (rank == 0) {
            last = wh_load_u64_acquire(&s->last);
        }
        last = wh_shfl_u64(mask, last, leader);
        /* links[i]: the caller's chunk i; before: what is in front of its chunk 0. */
        const uint64_t j = wh_vqueue_number_(last) + rank * WH_VQUEUE_EACH;
        const uint64_t before = rank == 0 ? last : wh_vqueue_announced_(q, j);
        uint64_t links[WH_VQUEUE_EACH];
        uint32_t mine = 0;
        for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
            links[i] = wh_vqueue_announced_(q, j + 1 + i);
        }
        for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
            mine += mine == i && before != 0 && links[i] != 0;
        }
        const uint32_t n = wh_vqueue_in_a_row_(mask, mine);
        if (n == 0) {
            if (wh_any(mask, rank == 0 && wh_load_u64_acquire(&s->last) == last)) {
                break; /* not announced yet */
            }
            continue; /* overwritten: others have linked it */
        }
        for (uint32_t i = 0; i < WH_VQUEUE_EACH; i++) {
            if (rank * WH_VQUEUE_EACH + i < n) {
                const uint64_t from = i == 0 ? before : links[i == 0 ? 0 : i - 1];
                const uint32_t chunk = wh_vqueue_chunk_of_(from);
                /* The very first one; or fails if it is linked, or retired and in other use. */
                uint64_t *next = chunk == WH_VQUEUE_NO_CHUNK ? &s->first : &k.next[chunk];
                (void)wh_cas_u64_release(next, wh_vqueue_behind_(from), links[i]); /* P2 */
            }
        }
        const uint64_t to = wh_vqueue_nth_(mask, links, n - 1);
        wh_syncwarp(mask); /* all are in the list before `last` says so */
        if (rank == 0) {
            (void)wh_cas_u64_acq_rel(&s->last, last, to);
        }
        linked = 1;
    }
    if (linked) {
        wh_vqueue_advance_(q, k, mask);
    }
}

/* How many chunks a lane fetches at once, while the queue has few (`ahead`). A million lanes that
 * put want hundreds of chunks; who comes to where there is room need not wait. */
#ifdef WH_HOSTILE
#define WH_VQUEUE_FETCH 3u
#else
#define WH_VQUEUE_FETCH 16u
#endif

/* Chunks of the pool for the queue, to be provisioned by the caller: .n is 0 if there is none, or
 * if the queue has as many as it may, and at most `most`. */
WH_FN wh_chunk_pool_taken wh_vqueue_admit_(wh_vqueue q, wh_vqueue_chunks k, uint32_t most) {
    wh_vqueue_state *s = q.state;
    const uint64_t limit = wh_vqueue_most_(q, k), links = (uint64_t)1 << q.table_log2;
    /* LINKED: with more chunks than links in the cache lanes have to walk. */
    const uint64_t most_ahead = q.kind == WH_VQUEUE_LINKED && links < limit ? links : limit;
    const uint64_t ahead = k.ahead < most_ahead ? k.ahead : most_ahead;
    const uint32_t raised =
        ahead >= most && wh_load_u64_relaxed(&s->used) <= ahead - most ? most : 1;
    const uint64_t before = wh_fetch_add_u64_relaxed(&s->used, raised);
    const uint32_t n = before + raised <= ahead ? raised : 1; /* others have fetched meanwhile */
    wh_chunk_pool_taken t;
    t.first = 0;
    t.n = t.from = 0;
    if (before < limit) {
        t = wh_chunk_pool_take(k.pool, 0, n);
    }
    if (t.n < raised) {
        (void)wh_fetch_sub_u64_relaxed(&s->used, raised - t.n);
    }
    return t;
}

/* Adds admitted chunks, all of whose entries are 0, to a queue: those of the lanes that have one.
 * All lanes of mask call, with the same queue. Each is in its list before the lanes go on to wait
 * for others. */
WH_FN void wh_vqueue_provision_(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, uint32_t chunk) {
    const uint64_t size = (uint64_t)1 << q.table_log2;
    int pending = chunk != WH_CHUNK_NONE;
    uint64_t j = 0;
    if (pending) {
        j = wh_fetch_add_u64_relaxed(&q.state->provisioned, 1);
        wh_store_u32_relaxed(&k.done[chunk], 0);
        if (q.kind == WH_VQUEUE_LINKED) {
            wh_store_u64_relaxed(&k.next[chunk], wh_vqueue_behind_(wh_vqueue_link(q.id, j, chunk)));
        }
    }
    uint64_t *place = &q.links[j & (size - 1)];
    for (uint32_t attempt = 0; wh_any(mask, pending); attempt++) {
        int stored = 0;
        if (pending) {
            /* The link that is overwritten must be in the list (I5), or gone. */
            stored =
                q.kind == WH_VQUEUE_HIERARCHY
                    ? wh_load_u64_acquire(place) == 0
                    : WH_PLANT(vqueue_i5,
                               wh_vqueue_ahead_(j, wh_load_u64_acquire(&q.state->last)) <= size, 1);
        }
        if (stored) {
            WH_PLANT_ORDER(vqueue_p2_link, wh_store_u64, release)
            (place, wh_vqueue_link(q.id, j, chunk)); /* P2 */
            pending = 0;
        }
        if (wh_any(mask, stored && q.kind == WH_VQUEUE_LINKED)) {
            wh_syncwarp(mask); /* the links come before their announcement */
            wh_vqueue_join_(q, k, mask);
        }
        if (attempt > 0) {
            wh_backoff(attempt < 3 ? attempt - 1 : 2);
        }
    }
}

/* Retires the queue chunks of lanes with `active`, all takes of which are finished; p is a position
 * on it (HIERARCHY, LINKED). All lanes of mask call. */
WH_FN void wh_vqueue_retire(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, int active, uint64_t p,
                            uint32_t chunk) {
    if (wh_any(mask, active && q.kind == WH_VQUEUE_LINKED)) {
        const wh_group same = wh_group_by_u32(mask, active ? q.id : 0);
        wh_mask left = wh_ballot(mask, active && wh_group_leads(same));
        for (; left != 0; left &= left - 1) {
            wh_vqueue_advance_(wh_vqueue_of_(mask, q, wh_mask_leader(left)), k, mask);
        }
    } else if (active) {
        const uint64_t j = p >> wh_vqueue_per_log2(k);
        wh_chunk_pool_free(k.pool, 0, chunk); /* P3, I2 */
        wh_store_u64_release(&q.links[j & (((uint64_t)1 << q.table_log2) - 1)], 0);
        (void)wh_fetch_sub_u64_relaxed(&q.state->used, 1);
    }
}

/* --- room ------------------------------------------------------------------------------- */

/* Lane `rank` of `lanes` that have a chunk alone clears its part of it. Others wait for that:
 * stores one after the other, with little between them. */
WH_FN void wh_vqueue_clear_(wh_vqueue_chunks k, uint32_t chunk, uint32_t rank, uint32_t lanes) {
    uint64_t *words = (uint64_t *)(void *)wh_vqueue_entries_(k, chunk);
    const uint32_t n = 1u << (wh_vqueue_per_log2(k) - 1);
    uint32_t i = rank;
    for (; i + 7 * lanes < n; i += 8 * lanes) {
        for (uint32_t part = 0; part < 8; part++) {
            words[i + part * lanes] = 0;
        }
    }
    for (; i < n; i += lanes) {
        words[i] = 0;
    }
}

/* The rest of reserve, for lanes that did not get all: n wanted, `old` what ask_room_
 * returned. All lanes of mask call; returns how many of the n may be put. */
WH_FN uint32_t wh_vqueue_more_room_(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, uint32_t n,
                                    uint64_t old) {
    uint64_t *room = q.room;
    const uint32_t per_log2 = wh_vqueue_per_log2(k), per = 1u << per_log2;
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const uint32_t most = lanes < WH_VQUEUE_FETCH ? lanes : WH_VQUEUE_FETCH;
    uint32_t got = n != 0 ? wh_bulk_semaphore_got(old, n) : 0;
    uint32_t duty = 0;
    int need = got < n;
    /* With no chunk to be had nobody waits for one that another lane may be lucky to get. */
    if (need && (q.kind == WH_VQUEUE_ARRAY || wh_chunk_pool_empty(k.pool, 0))) {
        wh_add_u64_relaxed(room, wh_bulk_semaphore_word(n - got, 0, 0));
        need = 0;
    }
    if (need) {
        duty = wh_bulk_semaphore_batches(old, n, per_log2);
        wh_bulk_semaphore_reserve(room, n - got, duty);
    }
    uint32_t idle = 0;
    for (uint32_t attempt = 0; wh_any(mask, need || duty != 0); attempt++) {
        wh_chunk_pool_taken t;
        t.first = 0;
        t.n = t.from = 0;
        if (duty != 0) {
            t = wh_vqueue_admit_(q, k, most);
            if (t.n != 0) { /* nothing can fail now, so nobody need wait for the rest */
                const uint32_t keep = n - got < per ? n - got : per;
                got += keep;
                wh_bulk_semaphore_signal(room, (t.n << per_log2) - keep, 1, keep);
                duty--;
                need = got < n;
            } else { /* no memory for the queue to grow */
                wh_bulk_semaphore_signal(room, 0, duty, n - got);
                duty = 0;
                need = 0;
            }
        } else if (need) {
            const uint64_t w = wh_load_u64_relaxed(room);
            if (wh_bulk_semaphore_count(w) > 0) {
                if (wh_bulk_semaphore_may_try(w, 0, attempt, (uint32_t)wh_thread_id())) {
                    got += wh_bulk_semaphore_retake(room, n - got);
                    need = got < n;
                }
                idle = 0;
            } else if (wh_bulk_semaphore_expected(w) != 0) {
                idle = 0;
            } else if (++idle > 2) { /* nobody fetches one, and not for a moment only */
                duty = wh_bulk_semaphore_volunteer(room, 1, per_log2);
                idle = 0;
            }
        }
        wh_mask fresh = wh_ballot(mask, t.n != 0);
        if (fresh == 0 && attempt > 0) {
            wh_backoff(attempt);
        }
        for (; fresh != 0; fresh &= fresh - 1) { /* of one lane after the other, a lane each */
            const uint32_t lane = wh_mask_leader(fresh);
            wh_chunk_pool_taken its;
            its.n = wh_shfl_u32(mask, t.n, lane);
            its.from = wh_shfl_u32(mask, t.from, lane);
            its.first = wh_shfl_u64(mask, t.first, lane);
            const uint32_t chunk =
                rank < its.n ? wh_chunk_pool_get(k.pool, 0, its, rank) : WH_CHUNK_NONE;
            wh_syncwarp(mask); /* who clears uses the chunk after who got it */
            /* The warp clears the chunks ("deletion markers"). */
            for (wh_mask m = wh_ballot(mask, chunk != WH_CHUNK_NONE); m != 0; m &= m - 1) {
                wh_vqueue_clear_(k, wh_shfl_u32(mask, chunk, wh_mask_leader(m)), rank, lanes);
            }
            wh_syncwarp(mask); /* P2: all zeros come before the link */
            wh_vqueue_provision_(wh_vqueue_of_(mask, q, lane), k, mask, chunk);
        }
    }
    return got;
}

/* The first step of reserve, by a lane alone: takes room for n values, 0 if it leads no group. Of
 * what it returns wh_bulk_semaphore_got says how much there was; more_room_ sees to the rest. For
 * who calls that out of line. */
WH_FN uint64_t wh_vqueue_ask_room_(wh_vqueue q, uint32_t n) {
    return n != 0 && (q.kind != WH_VQUEUE_ARRAY || q.bounded)
               ? wh_bulk_semaphore_take(q.room, n)
               : wh_bulk_semaphore_word((int64_t)WH_BULK_SEMAPHORE_MAX_COUNT, 0, 0);
}

/* Room for n values, before positions for them are had from reserve_put; the queue grows if need
 * be. n is 0 for lanes that lead no group.
 * Lanes    all lanes of mask call, with the same queue or each group with its own; no lane of the
 *          mask has a take outstanding
 * Returns  how many of the n the caller's group may put, and then must: fewer if the array is full,
 *          or if there is no chunk to grow on
 * Cost     1 atomic if there is room */
WH_FN uint32_t wh_vqueue_reserve(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, uint32_t n) {
    const uint64_t old = wh_vqueue_ask_room_(q, n);
    if (wh_any(mask, n != 0 && wh_bulk_semaphore_got(old, n) < n)) {
        return wh_vqueue_more_room_(q, k, mask, n, old);
    }
    return n;
}

/* --- putting and taking ------------------------------------------------------------------ */

/* n positions for values for which there is room (I1); the first is returned. */
WH_FN uint64_t wh_vqueue_reserve_put(wh_vqueue q, uint32_t n) {
    return wh_fetch_add_u64_relaxed(q.back, n);
}

/* n positions to take from, for which the caller's semaphore has counted values. */
WH_FN uint64_t wh_vqueue_reserve_take(wh_vqueue q, uint32_t n) {
    return wh_fetch_add_u64_relaxed(q.front, n);
}

/* The entry of position p, or NULL for now (see find). */
WH_FN uint32_t *wh_vqueue_entry_(wh_vqueue q, wh_vqueue_chunks k, uint64_t p, uint64_t *walk,
                                 uint32_t *chunk) {
    if (q.kind == WH_VQUEUE_ARRAY) {
        return &q.entries[p & (((uint64_t)1 << q.table_log2) - 1)];
    }
    if (*chunk == WH_CHUNK_NONE) {
        *chunk = wh_vqueue_find_(q, k, p, walk);
    }
    return *chunk == WH_CHUNK_NONE
               ? NULL
               : &wh_vqueue_entries_(k, *chunk)[p & ((1u << wh_vqueue_per_log2(k)) - 1)];
}

/* Stores values at positions: lanes with `active` one each; all lanes of mask call. No
 * lane of the mask has a take outstanding. */
WH_FN void wh_vqueue_put(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, int active, uint64_t p,
                         uint32_t value) {
    uint64_t walk = 0;
    uint32_t chunk = WH_CHUNK_NONE;
    for (uint32_t attempt = 0; wh_any(mask, active); attempt++) {
        if (active) {
            uint32_t *e = wh_vqueue_entry_(q, k, p, &walk, &chunk);
            active = e == NULL || !wh_ring_try_put(e, value); /* P1 */
        }
        if (attempt > 1) {
            wh_backoff(attempt - 2);
        }
    }
}

/* One attempt of put, for who calls it afterwards if this was in vain (0), out of line. */
WH_FN int wh_vqueue_try_put(wh_vqueue q, wh_vqueue_chunks k, uint64_t p, uint32_t value) {
    if (q.kind == WH_VQUEUE_ARRAY) {
        return wh_ring_try_put(&q.entries[p & (((uint64_t)1 << q.table_log2) - 1)], value);
    }
    const uint32_t chunk = wh_vqueue_look_(q, k, p);
    return chunk != WH_CHUNK_NONE &&
           wh_ring_try_put(&wh_vqueue_entries_(k, chunk)[p & ((1u << wh_vqueue_per_log2(k)) - 1)],
                           value);
}

/* The first half of take: value + 1 for lanes with `active`, and the queue chunk. */
WH_FN uint32_t wh_vqueue_wait_take(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, int active,
                                   uint64_t p, uint32_t *chunk) {
    uint64_t walk = 0;
    uint32_t value = 0;
    *chunk = WH_CHUNK_NONE;
    for (uint32_t attempt = 0; wh_any(mask, active); attempt++) {
        if (active) {
            uint32_t *e = wh_vqueue_entry_(q, k, p, &walk, chunk);
            value = e == NULL ? 0 : wh_ring_try_take(e); /* P1 */
            active = value == 0;
        }
        if (attempt > 1) {
            wh_backoff(attempt - 2);
        }
    }
    return value;
}

/* One attempt of wait_take; 0 if in vain. */
WH_FN uint32_t wh_vqueue_try_take(wh_vqueue q, wh_vqueue_chunks k, uint64_t p, uint32_t *chunk) {
    if (q.kind == WH_VQUEUE_ARRAY) {
        return wh_ring_try_take(&q.entries[p & (((uint64_t)1 << q.table_log2) - 1)]);
    }
    *chunk = wh_vqueue_look_(q, k, p);
    return *chunk == WH_CHUNK_NONE ? 0
                                   : wh_ring_try_take(&wh_vqueue_entries_(
                                         k, *chunk)[p & ((1u << wh_vqueue_per_log2(k)) - 1)]);
}

/* The second half of take; all lanes of mask call. Whether the caller retires the chunk. */
WH_FN int wh_vqueue_finish_take(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, int active,
                                uint32_t chunk) {
    if (q.kind == WH_VQUEUE_ARRAY) {
        if (wh_any(mask, active && q.bounded)) { /* the lanes' queues may differ */
            const wh_group g = wh_group_by_u32(mask, active ? q.id : UINT32_MAX);
            wh_syncwarp(mask);
            if (active && q.bounded && wh_group_leads(g)) {
                wh_add_u64_relaxed(q.room, wh_bulk_semaphore_word(g.n, 0, 0));
            }
        }
        return 0;
    }
    const wh_group g = wh_group_by_u32(mask, active ? chunk : WH_CHUNK_NONE);
    wh_syncwarp(mask); /* P3: all exchanges of the group come before its count */
    return active && wh_group_leads(g) &&
           WH_PLANT_ORDER(vqueue_p3_done, wh_fetch_add_u32, acq_rel)(&k.done[chunk], g.n) + g.n ==
               1u << wh_vqueue_per_log2(k); /* P3 */
}

/* Takes one value each for lanes with `active`; all lanes of mask call. */
WH_FN uint32_t wh_vqueue_take(wh_vqueue q, wh_vqueue_chunks k, wh_mask mask, int active,
                              uint64_t p) {
    uint32_t chunk = WH_CHUNK_NONE;
    const uint32_t value = wh_vqueue_wait_take(q, k, mask, active, p, &chunk);
    const int retires = wh_vqueue_finish_take(q, k, mask, active, chunk);
    if (wh_any(mask, retires)) {
        wh_vqueue_retire(q, k, mask, retires, p, chunk);
    }
    return value - 1;
}

/* Whether the queue was empty at all times between the reading of `front` and now, with no
 * put reserved: front must have been loaded with acquire. */
WH_FN int wh_vqueue_empty_since(wh_vqueue q, uint64_t front) {
    return wh_load_u64_acquire(q.back) == front;
}

#include "warpheap/detail/simt/end.h"

#endif

/* graph/aim.h: the graph class `aim`, after aimGraph: an adjacency is a list of edge blocks of 64
 * bytes, 15 entries and the index of the next one. How arcs come and go, one by one.
 * This file may change: it is no part of the API.
 *
 * Departures from the paper: its memory is one allocation; here it is an arena of segments, blocks
 * of the heap that are all of one size, and the first warp of a batch takes more of them where
 * the batch might need them, so that no lock is held while the heap is asked. Its insertion stops
 * at the first deletion marker, and inserts an arc again that lies behind it; here the scan goes on
 * to the end, since a graph is a set. Locks are bits in an array of their own.
 *
 * arena    next: fetch_add, relaxed, of who needs a block, or a row of them; what it says from
 * limit on is no block. A row that goes beyond limit is as long as it can be: I3 All else is
 * written between batches, and plain record   used: entries that have been used, with those that
 * are deleted now. In a batch that inserts all is plain, and touched by the owner of the vertex's
 * lock alone. In one that erases, entries and degree change by relaxed atomics of any lane, and
 * nothing else entry    a vertex, or GONE, a deletion marker. Insertion: GONE -> key. Deletion: key
 * -> GONE by an exchange; who read the key has deleted it
 *
 * I1       first leads to used / ENTRIES blocks, rounded up, whose last one's next is NONE. A block
 *          belongs to its vertex alone, until the graph is emptied: nothing is given back
 * I2       no vertex is twice among the entries below used; degree is how many are not GONE
 * I3       blocks below next are those of all vertices
 *
 * Ordering from the owner of a vertex's lock to the next one: the pair of work.h. Erasing needs
 *          none: what it reads has been written by earlier kernels, or is an exchange of one word
 *
 * Progress of locks as in work.h; the owner of one waits for nobody. Deletions wait for nobody
 *
 * Cost     insertion and deletion: O(used) loads; a block is one fetch_add. Filling: O(n) stores,
 * and a fetch_add for all blocks of a vertex, or of the vertices of a warp
 *
 * Source   Winter, thesis, chapter 3: blocks 3.2.1.2, Algorithm 1 (3.2.4), Algorithm 2 (3.2.5)
 *
 * Check    wh_aim_is_sound, wh_graph_check; tests/dgraph
 */
#ifndef WH_GRAPH_AIM_H
#define WH_GRAPH_AIM_H

#include "warpheap/detail/graph/team.h"
#include "warpheap/detail/graph/work.h"
#include "warpheap/graph.h"
#include "warpheap/warpheap.h"

#include "warpheap/detail/simt/begin.h"

#define WH_AIM_ENTRIES 15u
#define WH_AIM_GONE 0xfffffffeu
#define WH_AIM_MOST_SEGMENTS 4096u
#define WH_AIM_MOST_BLOCKS 0x80000000u

typedef struct wh_aim_block {
    uint32_t to[WH_AIM_ENTRIES];
    uint32_t next; /* index; NONE: there is none */
} wh_aim_block;

typedef struct wh_aim_vertex {
    WH_ALIGNAS(16) uint32_t degree;
    uint32_t used;
    uint32_t first; /* index of a block, where used is not 0 */
} wh_aim_vertex;

typedef struct wh_aim_arena {
    uint32_t next;
    WH_ALIGNAS(128) uint32_t limit; /* blocks that there is memory for */
    uint32_t n_segments;
    uint32_t log2; /* of the blocks of a segment */
    wh_aim_block *segment[WH_AIM_MOST_SEGMENTS];
} wh_aim_arena;

WH_HD uint32_t wh_aim_blocks_for(uint32_t used) {
    return used / WH_AIM_ENTRIES + (used % WH_AIM_ENTRIES != 0);
}

/* The block of an index. */
WH_FN wh_aim_block *wh_aim_at(const wh_aim_arena *arena, uint32_t i) {
    return arena->segment[i >> arena->log2] + (i & ((1u << arena->log2) - 1));
}

/* More segments, until there are `wanted` new blocks or the heap has no more; what batches asked
 * for beyond the end is forgotten. A full warp, and no other one. */
WH_FN void wh_aim_grow(wh_heap_ref heap, wh_aim_arena *arena, uint32_t wanted) {
    const uint32_t lane = wh_lane_id(), blocks = 1u << arena->log2;
    const size_t bytes = (size_t)blocks * sizeof(wh_aim_block);
    uint32_t most = WH_AIM_MOST_BLOCKS >> arena->log2;
    uint32_t n = arena->n_segments, limit = arena->limit;
    const uint32_t next =
        WH_PLANT(aim_i3_next, arena->next < limit ? arena->next : limit, arena->next); /* I3 */
    int more = 1;
    most = most < WH_AIM_MOST_SEGMENTS ? most : WH_AIM_MOST_SEGMENTS;
    WH_NO_UNROLL
    while (more && limit - next < wanted && n < most) {
        const uint32_t lacks = (wanted - (limit - next) - 1) / blocks + 1;
        const int asks = lane < lacks && lane < most - n;
        wh_aim_block *segment =
            (wh_aim_block *)wh_malloc_lanes(heap, WH_FULL_WARP, asks ? bytes : 0);
        const wh_mask got = wh_ballot(WH_FULL_WARP, segment != NULL);
        if (segment != NULL) {
            arena->segment[n + wh_mask_rank(got)] = segment;
        }
        more = got == wh_ballot(WH_FULL_WARP, asks);
        n += wh_popc32(got);
        limit += wh_popc32(got) * blocks;
    }
    wh_syncwarp(WH_FULL_WARP); /* all have read what is overwritten now */
    if (lane == 0) {
        arena->next = next;
        arena->n_segments = n;
        arena->limit = limit;
    }
    wh_syncwarp(WH_FULL_WARP);
}

/* The index of a new block, or NONE. */
WH_FN uint32_t wh_aim_new_(wh_aim_arena *arena) {
    uint32_t i = WH_GRAPH_NONE;
    if (wh_load_u32_relaxed(&arena->next) < arena->limit) {
        i = WH_PLANT(aim_i1_new, wh_fetch_add_u32_relaxed(&arena->next, 1), /* I1, I3 */
                     wh_load_u32_relaxed(&arena->next));
    }
    return i < arena->limit ? i : WH_GRAPH_NONE;
}

/* Where a vertex has one entry more, behind all others; NULL: there is no block. last: its last
 * block, or NULL. */
WH_FN uint32_t *wh_aim_extend_(wh_aim_arena *arena, wh_aim_vertex *x, wh_aim_block *last) {
    const uint32_t at = x->used % WH_AIM_ENTRIES;
    if (at == 0) {
        const uint32_t i = wh_aim_new_(arena);
        if (i == WH_GRAPH_NONE) {
            return NULL;
        }
        if (last != NULL) {
            last->next = WH_PLANT(aim_i1_list, i, WH_GRAPH_NONE); /* I1 */
        } else {
            x->first = i;
        }
        last = wh_aim_at(arena, i);
        last->next = WH_GRAPH_NONE;
    }
    x->used++;
    return &last->to[at];
}

/* --- an empty vertex gets a set --------------------------------------------------------------- */

/* The index of the first of n new blocks that follow one another; the arena may end before the last
 * one. NONE: there is none. */
WH_FN uint32_t wh_aim_new_row_(wh_aim_arena *arena, uint32_t n) {
    uint32_t i = WH_GRAPH_NONE;
    if (n != 0 && wh_load_u32_relaxed(&arena->next) < arena->limit) {
        i = wh_fetch_add_u32_relaxed(&arena->next, n);
    }
    return i < arena->limit ? i : WH_GRAPH_NONE;
}

/* A vertex gets n keys, which are a set, or as many as there is room for in its blocks: those that
 * there are from index `first` on (NONE: none). How many. All of the team. */
WH_FN uint32_t wh_aim_fill(const wh_aim_arena *arena, wh_team t, wh_aim_vertex *x, uint32_t first,
                           const uint32_t *keys, uint32_t n) {
    const uint32_t wanted = wh_aim_blocks_for(n);
    const uint32_t room = first < arena->limit ? arena->limit - first : 0;
    const uint32_t blocks = room < wanted ? room : wanted;
    const uint32_t taken = blocks < wanted ? blocks * WH_AIM_ENTRIES : n;
    for (uint32_t i = t.me; i < taken; i += t.n) {
        wh_aim_at(arena, first + i / WH_AIM_ENTRIES)->to[i % WH_AIM_ENTRIES] = keys[i];
    }
    for (uint32_t k = t.me; k < blocks; k += t.n) { /* I1 */
        wh_aim_at(arena, first + k)->next = k + 1 < blocks ? first + k + 1 : WH_GRAPH_NONE;
    }
    if (t.me == 0 && blocks != 0) {
        x->first = first;
        x->degree = x->used = taken;
    }
    return taken;
}

/* --- a lane for an arc ---------------------------------------------------------------------- */

/* Algorithm 1, by the owner of the vertex. Returns what became of the arc. */
WH_FN uint32_t wh_aim_put_(wh_aim_arena *arena, wh_aim_vertex *x, uint32_t key) {
    uint32_t *hole = NULL;
    wh_aim_block *block = NULL;
    uint32_t left = x->used, at = x->first;
    WH_NO_UNROLL
    while (left != 0) {
        const uint32_t n = left < WH_AIM_ENTRIES ? left : WH_AIM_ENTRIES;
        block = wh_aim_at(arena, at);
        WH_NO_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t entry = block->to[i];
            if (WH_PLANT(aim_i2_put, entry == key, entry == key && hole == NULL)) { /* I2 */
                return WH_GRAPH_NO_CHANGE;
            }
            hole = entry == WH_AIM_GONE && hole == NULL ? &block->to[i] : hole;
        }
        left -= n;
        at = block->next;
    }
    hole = hole != NULL ? hole : wh_aim_extend_(arena, x, block);
    if (hole == NULL) {
        return WH_GRAPH_REFUSED;
    }
    *hole = key;
    x->degree++;
    return WH_GRAPH_APPLIED;
}

/* Algorithm 2. */
WH_FN uint32_t wh_aim_take_(const wh_aim_arena *arena, wh_aim_vertex *x, uint32_t key) {
    uint32_t left = x->used, at = x->first;
    WH_NO_UNROLL
    while (left != 0) {
        const uint32_t n = left < WH_AIM_ENTRIES ? left : WH_AIM_ENTRIES;
        wh_aim_block *block = wh_aim_at(arena, at);
        WH_NO_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            if (wh_load_u32_relaxed(&block->to[i]) == key) {
                const uint32_t was = wh_exchange_u32_relaxed(&block->to[i], WH_AIM_GONE);
                if (WH_PLANT(aim_i2_take, was != key, 0)) {
                    return WH_GRAPH_NO_CHANGE; /* another lane has it */
                }
                (void)wh_fetch_sub_u32_relaxed(&x->degree, 1); /* I2 */
                return WH_GRAPH_APPLIED;
            }
        }
        left -= n;
        at = block->next;
    }
    return WH_GRAPH_NO_CHANGE;
}

/* Whether a vertex has an entry. No batch runs. */
WH_FN int wh_aim_has(const wh_aim_arena *arena, const wh_aim_vertex *x, uint32_t key) {
    uint32_t left = x->used, at = x->first;
    WH_NO_UNROLL
    while (left != 0) {
        const uint32_t n = left < WH_AIM_ENTRIES ? left : WH_AIM_ENTRIES;
        const wh_aim_block *block = wh_aim_at(arena, at);
        for (uint32_t i = 0; i < n; i++) {
            if (block->to[i] == key) {
                return 1;
            }
        }
        left -= n;
        at = block->next;
    }
    return 0;
}

/* --- a warp for an arc ---------------------------------------------------------------------- */

/* Algorithm 1, a block a step; all lanes, with the vertex locked. */
WH_FN uint32_t wh_aim_put_warp_(wh_aim_arena *arena, wh_aim_vertex *x, uint32_t key) {
    const uint32_t lane = wh_lane_id();
    uint32_t *hole = NULL;
    wh_aim_block *block = NULL;
    uint32_t left = x->used, at = x->first, how = WH_GRAPH_APPLIED;
    WH_NO_UNROLL
    while (left != 0 && how == WH_GRAPH_APPLIED) {
        const uint32_t n = left < WH_AIM_ENTRIES ? left : WH_AIM_ENTRIES;
        block = wh_aim_at(arena, at);
        const uint32_t entry = lane < n ? block->to[lane] : WH_GRAPH_NONE;
        const wh_mask gone = wh_ballot(WH_FULL_WARP, entry == WH_AIM_GONE);
        if (wh_any(WH_FULL_WARP, WH_PLANT(aim_i2_put_warp, entry == key, 0))) { /* I2 */
            how = WH_GRAPH_NO_CHANGE;
        }
        hole = gone != 0 && hole == NULL ? &block->to[wh_ctz32(gone)] : hole;
        left -= n;
        at = block->next;
    }
    /* all have read what is overwritten now */
    WH_PLANT(aim_read, wh_syncwarp(WH_FULL_WARP), (void)0);
    if (lane == 0 && how == WH_GRAPH_APPLIED) {
        hole = hole != NULL ? hole : wh_aim_extend_(arena, x, block);
        if (hole != NULL) {
            *hole = key;
            x->degree++;
        } else {
            how = WH_GRAPH_REFUSED;
        }
    }
    return wh_shfl_u32(WH_FULL_WARP, how, 0);
}

/* Algorithm 2, a block a step; all lanes. */
WH_FN uint32_t wh_aim_take_warp_(const wh_aim_arena *arena, wh_aim_vertex *x, uint32_t key) {
    const uint32_t lane = wh_lane_id();
    uint32_t left = x->used, at = x->first;
    WH_NO_UNROLL
    while (left != 0) {
        const uint32_t n = left < WH_AIM_ENTRIES ? left : WH_AIM_ENTRIES;
        wh_aim_block *block = wh_aim_at(arena, at);
        const uint32_t entry = lane < n ? wh_load_u32_relaxed(&block->to[lane]) : WH_GRAPH_NONE;
        if (wh_any(WH_FULL_WARP, entry == key)) {
            int mine = 0;
            if (entry == key) { /* one lane: I2 */
                const uint32_t was = wh_exchange_u32_relaxed(&block->to[lane], WH_AIM_GONE);
                mine = WH_PLANT(aim_i2_take_warp, was == key, 1);
                if (mine) {
                    (void)wh_fetch_sub_u32_relaxed(&x->degree, 1);
                }
            }
            return wh_any(WH_FULL_WARP, mine) ? WH_GRAPH_APPLIED : WH_GRAPH_NO_CHANGE;
        }
        left -= n;
        at = block->next;
    }
    return WH_GRAPH_NO_CHANGE;
}

/* --- looking ---------------------------------------------------------------------------------- */

/* I1 and I2 but for repetitions: the number of the invariant that a vertex breaks, or 0. */
WH_FN uint32_t wh_aim_is_sound(const wh_aim_arena *arena, const wh_aim_vertex *x,
                               uint32_t n_vertices) {
    uint32_t left = x->used, at = x->used != 0 ? x->first : WH_GRAPH_NONE, live = 0;
    while (left != 0) {
        const uint32_t n = left < WH_AIM_ENTRIES ? left : WH_AIM_ENTRIES;
        if (at >= arena->limit) {
            return 1;
        }
        const wh_aim_block *block = wh_aim_at(arena, at);
        for (uint32_t i = 0; i < n; i++) {
            if (block->to[i] >= n_vertices && block->to[i] != WH_AIM_GONE) {
                return 2;
            }
            live += block->to[i] != WH_AIM_GONE;
        }
        left -= n;
        at = block->next;
    }
    if (at != WH_GRAPH_NONE) {
        return 1;
    }
    return live != x->degree ? 2 : 0;
}

#include "warpheap/detail/simt/end.h"

#endif

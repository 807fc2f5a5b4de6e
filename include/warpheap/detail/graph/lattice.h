/* graph/lattice.h: the graph class `lattice`: each adjacency is one array, in the vertex's record
 * or in a block of the heap. How a vertex takes the arcs of a batch. This file may change: it is no
 * part of the API.
 *
 * A batch is laid out by its sources first (src/graph/batch_steps.h): the arcs of a source lie
 * in a row, its *run*, so that one worker has the vertex to itself: a lane, a warp, or a block of
 * threads, by how much there is to look at. The worker finds out which arcs are new, so it knows
 * the degree to come before it asks for memory, once.
 *
 * record   capacity 0: up to HELD neighbours are in the record; else an array of `capacity`
 *          entries is at `block`. Touched by the vertex's worker alone, plain; kernels of one
 * stream follow one another (An arc that is NONE, of from_csr, is none.) run      count: fetch_add,
 * relaxed, while arcs are counted; 0 when quiet. start: a store of the lane that has counted the
 * first one
 *
 * I1       degree <= capacity, or degree <= HELD where capacity is 0; a block has room for
 *          capacity entries, and belongs to its vertex alone; ouro: a power of two of them
 * I2       no entry of an adjacency is there twice, and all are vertices
 *
 * Progress no worker waits for another one, but for the allocator
 * Source   contiguous adjacencies as in ouroGraph (Winter, thesis, section 6.2); updates by vertex
 *          without locks as in faimGraph (4.2.5.1), but the batch is not sorted
 * Check    wh_lattice_is_sound, wh_graph_check; tests/dgraph
 */
#ifndef WH_GRAPH_LATTICE_H
#define WH_GRAPH_LATTICE_H

#include "warpheap/core/hash.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/detail/graph/work.h"
#include "warpheap/graph.h"
#include "warpheap/warpheap.h"

#include "warpheap/detail/simt/begin.h"

/* The class `ouro` is made of the same workers: with WH_LATTICE_POWERS 1 a block has exactly the
 * power of two of entries that its degree asks for, from LEAST_ROOM on, also when it shrinks, and
 * the record holds no neighbours. */
#ifndef WH_LATTICE_POWERS
#define WH_LATTICE_POWERS 0
#endif
#if WH_LATTICE_POWERS
#define WH_LATTICE_RECORD 16
#define WH_LATTICE_INLINE 2u /* what `block` takes; none are held */
#define WH_LATTICE_HELD 0u
#define WH_LATTICE_LEAST_ROOM 4u
#else
#define WH_LATTICE_RECORD 32 /* one sector of memory */
#define WH_LATTICE_INLINE 6u
#define WH_LATTICE_HELD WH_LATTICE_INLINE
#define WH_LATTICE_LEAST_ROOM 8u
#endif
#define WH_GRAPH_NONE UINT32_MAX    /* no vertex; no rank */
#define WH_LATTICE_GONE 0xfffffffeu /* in a table: a key that has been taken out */

typedef struct wh_lattice_vertex {
    WH_ALIGNAS(WH_LATTICE_RECORD) uint32_t degree;
    uint32_t capacity;
    union {
        uint32_t neighbours[WH_LATTICE_INLINE];
        uint32_t *block;
    };
} wh_lattice_vertex;

/* A table of the keys of a run, open addressed, of twice as many places. keys: NONE where there is
 * none; numbers: the arc of the key in its run. For a block of threads. */
typedef struct wh_lattice_table {
    uint32_t *keys, *numbers;
    uint32_t size;
} wh_lattice_table;

/* What a vertex's worker gets. */
typedef struct wh_lattice_work {
    wh_lattice_vertex *x;
    uint32_t *run;   /* the other ends of the arcs; may be overwritten */
    uint32_t *order; /* the arcs' numbers in the batch, likewise; where done is not NULL */
    uint32_t r;      /* how many */
    uint8_t *done;   /* of the batch, all NO_CHANGE; or NULL */
    wh_lattice_table table;
} wh_lattice_work;

/* The array of a vertex. */
WH_FN uint32_t *wh_lattice_array(wh_lattice_vertex *x) {
    return x->capacity != 0 ? x->block : x->neighbours;
}

/* Entries that a vertex of this degree has room for, when it gets a new array: an eighth more, so
 * that a vertex that grows an arc at a time is not copied each time. 0: in the record. */
WH_HD uint32_t wh_lattice_room(uint32_t degree) {
#if WH_LATTICE_POWERS
    const uint32_t least = degree <= WH_LATTICE_LEAST_ROOM ? WH_LATTICE_LEAST_ROOM : degree;
    return degree == 0 ? 0 : 1u << (32 - wh_clz32(least - 1));
#else
    return degree <= WH_LATTICE_INLINE ? 0 : (degree + (degree >> 3) + 3) & ~3u;
#endif
}

/* Whether a vertex of this degree keeps its array: one that is more than half empty goes, and the
 * way back into the record is taken two arcs later than the way out. */
WH_HD int wh_lattice_keeps(uint32_t capacity, uint32_t degree) {
    const uint32_t room = wh_lattice_room(degree);
#if WH_LATTICE_POWERS
    return capacity == room;
#else
    return capacity == 0 ||
           (degree + 2 > WH_LATTICE_INLINE &&
            2 * (room < WH_LATTICE_LEAST_ROOM ? WH_LATTICE_LEAST_ROOM : room) > capacity);
#endif
}

/* --- a lane for a vertex ------------------------------------------------------------------ */

#define WH_LATTICE_LANE_RUN 4u     /* arcs of a run that a lane takes */
#define WH_LATTICE_LANE_DEGREE 48u /* and of an adjacency that it looks through */

/* The keys of a run, in registers. Returns the mask of those that are no repetition. */
WH_FN uint32_t wh_lattice_keys_(const uint32_t *run, uint32_t r, uint32_t *keys) {
    uint32_t fresh = 0;
    for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
        uint32_t again = 0;
        keys[k] = k < r ? run[k] : WH_GRAPH_NONE;
        for (uint32_t j = 0; j < k; j++) {
            again |= keys[j] == keys[k];
        }
        fresh |= (uint32_t)(keys[k] != WH_GRAPH_NONE && !again) << k;
    }
    return fresh;
}

#define WH_LATTICE_AHEAD 8u /* entries that a lane loads before it looks at them */

/* Which of the keys in the mask are among n entries. */
WH_FN uint32_t wh_lattice_among_(const uint32_t *array, uint32_t n, const uint32_t *keys,
                                 uint32_t fresh) {
    uint32_t found = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < n; first += WH_LATTICE_AHEAD) {
        uint32_t entries[WH_LATTICE_AHEAD]; /* in registers: the loops are unrolled */
        for (uint32_t i = 0; i < WH_LATTICE_AHEAD; i++) {
            entries[i] = array[first + i < n ? first + i : first];
        }
        for (uint32_t i = 0; i < WH_LATTICE_AHEAD; i++) {
            for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
                found |= (uint32_t)(keys[k] == entries[i]) << k;
            }
        }
    }
    return found & fresh;
}

/* The record gets an array of `room` entries (0: itself) in place of the one that it had, with the
 * n entries that it had there. Returns that one's block, which the caller frees, or NULL. */
WH_FN uint32_t *wh_lattice_move_(wh_lattice_vertex *x, uint32_t *block, uint32_t room, uint32_t n) {
    uint32_t *old = x->capacity != 0 ? x->block : NULL;
    uint32_t few[WH_LATTICE_INLINE];
    const uint32_t *from = wh_lattice_array(x);
    if (room == 0) {
        for (uint32_t i = 0; i < WH_LATTICE_INLINE; i++) {
            few[i] = i < n ? from[i] : 0;
        }
        for (uint32_t i = 0; i < WH_LATTICE_INLINE; i++) {
            x->neighbours[i] = few[i];
        }
    } else {
        WH_NO_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            block[i] = from[i];
        }
        x->block = block;
    }
    x->capacity = room;
    return old;
}

/* The bytes of a new array for a vertex, or 0: it needs none. */
WH_FN size_t wh_lattice_bytes_(int needs, uint32_t room) {
    return needs ? (size_t)room * sizeof(uint32_t) : 0;
}

/* What became of the arcs of a run. order: of each arc its number in the batch. */
WH_FN void wh_lattice_tell_(uint8_t *done, const uint32_t *order, uint32_t r, uint32_t applied,
                            uint8_t how) {
    if (done != NULL) {
        for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
            if (k < r && (applied >> k & 1) != 0) {
                done[order[k]] = how;
            }
        }
    }
}

/* The arcs of a run, of at most LANE_RUN, go to their vertex; all lanes of a full warp, each with a
 * vertex of its own, or none (NULL). done: as the batch's, all NO_CHANGE, or NULL. */
WH_FN void wh_lattice_insert_lane(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    uint32_t keys[WH_LATTICE_LANE_RUN] = {0, 0, 0, 0}, fresh = 0, degree = 0, room = 0;
    int grows = 0;
    if (x != NULL) {
        degree = x->degree;
        fresh = wh_lattice_keys_(w.run, w.r, keys);
        fresh &= ~wh_lattice_among_(wh_lattice_array(x), degree, keys, fresh);
        const uint32_t wanted = degree + wh_popc32(fresh);
        grows = wanted > (x->capacity != 0 ? x->capacity : WH_LATTICE_HELD);
        room = wh_lattice_room(wanted);
    }
    uint32_t *block =
        (uint32_t *)wh_malloc_lanes(heap, WH_FULL_WARP, wh_lattice_bytes_(grows, room));
    uint32_t *old = NULL;
    if (x != NULL) {
        const int refused = grows && block == NULL;
        const uint32_t n = wh_popc32(fresh);
        tally->applied += refused ? 0 : n;
        tally->refused += refused ? n : 0;
        tally->no_change += w.r - n;
        wh_lattice_tell_(w.done, w.order, w.r, fresh,
                         refused ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED);
        if (!refused) {
            if (grows) {
                old = wh_lattice_move_(x, block, room, degree);
            }
            uint32_t *array = wh_lattice_array(x);
            for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
                if ((fresh >> k & 1) != 0) {
                    array[degree++] = keys[k];
                }
            }
            x->degree = degree;
        }
    }
    wh_free_lanes(heap, WH_FULL_WARP, old);
}

/* The arcs of a run leave their vertex; as above. */
WH_FN void wh_lattice_erase_lane(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    uint32_t keys[WH_LATTICE_LANE_RUN] = {0, 0, 0, 0}, found = 0, kept = 0, room = 0;
    int shrinks = 0;
    if (x != NULL) {
        const uint32_t fresh = wh_lattice_keys_(w.run, w.r, keys), degree = x->degree;
        uint32_t *array = wh_lattice_array(x);
        WH_NO_UNROLL
        for (uint32_t i = 0; i < degree; i++) {
            const uint32_t entry = array[i];
            uint32_t hit = 0;
            for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
                hit |= (uint32_t)(keys[k] == entry) << k;
            }
            hit &= fresh;
            found |= hit;
            if (hit == 0) {
                if (kept != i) {
                    array[kept] = entry;
                }
                kept++;
            }
        }
        x->degree = kept;
        room = wh_lattice_room(kept);
        shrinks = found != 0 && !wh_lattice_keeps(x->capacity, kept);
        tally->applied += wh_popc32(found);
        tally->no_change += w.r - wh_popc32(found);
        wh_lattice_tell_(w.done, w.order, w.r, found, WH_GRAPH_APPLIED);
    }
    uint32_t *block =
        (uint32_t *)wh_malloc_lanes(heap, WH_FULL_WARP, wh_lattice_bytes_(shrinks, room));
    uint32_t *old = NULL;
    if (shrinks && (room == 0 || block != NULL)) {
        old = wh_lattice_move_(x, block, room, kept);
    }
    wh_free_lanes(heap, WH_FULL_WARP, old);
}

/* --- a warp for a vertex -------------------------------------------------------------------- */

#define WH_LATTICE_WARP_WORK 512u /* arcs of a run and a vertex together that a warp takes */

/* Which lanes' keys are among n entries of one array. All lanes; keys: the lanes that have one.
 * Each lane looks at every 32nd entry for all of them. */
WH_FN wh_mask wh_lattice_known_(const uint32_t *array, uint32_t n, uint32_t key, wh_mask keys) {
    wh_mask known = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < n; first += WH_WARP_SIZE) {
        const uint32_t i = first + wh_lane_id();
        const uint32_t entry = i < n ? array[i] : WH_LATTICE_GONE;
        WH_NO_UNROLL
        for (wh_mask rest = keys & ~known; rest != 0; rest &= rest - 1) {
            const uint32_t lane = wh_ctz32(rest);
            if (wh_any(WH_FULL_WARP, wh_shfl_u32(WH_FULL_WARP, key, lane) == entry)) {
                known |= 1u << lane;
            }
        }
    }
    return known;
}

/* Whether key is among n entries. */
WH_FN int wh_lattice_has_(const uint32_t *array, uint32_t n, uint32_t key) {
    int has = 0;
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        has |= array[i] == key;
    }
    return has;
}

/* A new array for the warp's vertex, and the n entries of the old one there. 0: there is no memory.
 * All lanes. */
WH_FN int wh_lattice_move_warp_(wh_heap_ref heap, wh_lattice_vertex *x, uint32_t room, uint32_t n) {
    const uint32_t capacity = x->capacity, lane = wh_lane_id();
    const uint32_t *from = capacity != 0 ? x->block : x->neighbours;
    uint32_t *old = capacity != 0 ? x->block : NULL;
    uint32_t *block = (uint32_t *)wh_malloc_warp(heap, WH_FULL_WARP, room * sizeof(uint32_t));
    const int moves = room == 0 || block != NULL;
    if (moves) {
        const uint32_t mine = lane < n ? from[lane] : 0; /* the record's own are overwritten */
        wh_syncwarp(WH_FULL_WARP);
        uint32_t *to = room != 0 ? block : x->neighbours;
        if (lane < n) {
            to[lane] = mine;
        }
        for (uint32_t i = lane + WH_WARP_SIZE; i < n; i += WH_WARP_SIZE) {
            to[i] = from[i];
        }
        wh_syncwarp(WH_FULL_WARP);
        if (lane == 0) {
            x->capacity = room;
            if (room != 0) {
                x->block = block;
            }
        }
        wh_syncwarp(WH_FULL_WARP);
        wh_free_warp(heap, WH_FULL_WARP, old);
    }
    return moves;
}

/* As the lane's, for a vertex with a run of any length; all lanes of a warp, the same vertex. The
 * run and its order are overwritten. */
WH_FN void wh_lattice_insert_warp(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    uint32_t *run = w.run;
    const uint32_t lane = wh_lane_id(), degree = x->degree;
    const uint32_t *array = wh_lattice_array(x);
    uint32_t n = 0; /* new ones, at the front of the run */
    WH_NO_UNROLL
    for (uint32_t first = 0; first < w.r; first += WH_WARP_SIZE) {
        const uint32_t i = first + lane;
        const uint32_t key = i < w.r ? run[i] : WH_GRAPH_NONE;
        const uint32_t number = i < w.r && w.done != NULL ? w.order[i] : 0;
        const wh_group same = wh_group_by_u32(WH_FULL_WARP, key);
        const wh_mask keys = wh_ballot(WH_FULL_WARP, key != WH_GRAPH_NONE && same.rank == 0);
        const wh_mask left = keys & ~wh_lattice_known_(array, degree, key, keys);
        const wh_mask fresh = left & ~wh_lattice_known_(run, n, key, left);
        wh_syncwarp(WH_FULL_WARP); /* all have read what is overwritten now */
        if ((fresh >> lane & 1) != 0) {
            run[n + wh_mask_rank(fresh)] = key;
            if (w.done != NULL) {
                w.order[n + wh_mask_rank(fresh)] = number;
            }
        }
        wh_syncwarp(WH_FULL_WARP);
        n += wh_popc32(fresh);
    }
    const uint32_t wanted = degree + n;
    int refused = 0;
    if (wanted > (x->capacity != 0 ? x->capacity : WH_LATTICE_HELD)) {
        refused = !wh_lattice_move_warp_(heap, x, wh_lattice_room(wanted), degree);
    }
    if (!refused) {
        uint32_t *to = wh_lattice_array(x) + degree;
        for (uint32_t i = lane; i < n; i += WH_WARP_SIZE) {
            to[i] = run[i];
        }
    }
    if (w.done != NULL) {
        for (uint32_t i = lane; i < n; i += WH_WARP_SIZE) {
            w.done[w.order[i]] = refused ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED;
        }
    }
    if (lane == 0) {
        x->degree = refused ? degree : wanted;
        tally->applied += refused ? 0 : n;
        tally->refused += refused ? n : 0;
        tally->no_change += w.r - n;
    }
    wh_syncwarp(WH_FULL_WARP);
}

WH_FN void wh_lattice_erase_warp(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    const uint32_t *run = w.run;
    const uint32_t lane = wh_lane_id(), degree = x->degree;
    uint32_t *array = wh_lattice_array(x);
    uint32_t kept = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < degree; first += WH_WARP_SIZE) {
        const uint32_t i = first + lane;
        const uint32_t entry = i < degree ? array[i] : WH_GRAPH_NONE;
        uint32_t at = w.r; /* the first arc of the run that takes it out */
        WH_NO_UNROLL
        for (uint32_t k = w.r; k != 0; k--) {
            at = run[k - 1] == entry ? k - 1 : at;
        }
        const wh_mask stay = wh_ballot(WH_FULL_WARP, i < degree && at == w.r);
        wh_syncwarp(WH_FULL_WARP);
        if ((stay >> lane & 1) != 0) {
            array[kept + wh_mask_rank(stay)] = entry;
        } else if (i < degree && w.done != NULL) {
            w.done[w.order[at]] = WH_GRAPH_APPLIED;
        }
        wh_syncwarp(WH_FULL_WARP);
        kept += wh_popc32(stay);
    }
    wh_syncwarp(WH_FULL_WARP); /* all have read the degree, also if it is 0 */
    if (lane == 0) {
        x->degree = kept;
        tally->applied += degree - kept;
        tally->no_change += w.r - (degree - kept);
    }
    wh_syncwarp(WH_FULL_WARP);
    if (kept != degree && !wh_lattice_keeps(x->capacity, kept)) {
        (void)wh_lattice_move_warp_(heap, x, wh_lattice_room(kept), kept);
    }
}

/* --- a block of threads for a vertex -------------------------------------------------------- */

WH_FN uint32_t wh_lattice_place_(wh_lattice_table t, uint32_t key) {
    return wh_high_u32(wh_mul_wide_u32(wh_spread32(key), t.size));
}

/* Puts a key in, once. 1: it was not there. */
WH_FN int wh_lattice_table_put_(wh_lattice_table t, uint32_t key, uint32_t number) {
    uint32_t at = wh_lattice_place_(t, key);
    for (;;) { /* at most `size` rounds: half of the places are empty */
        const uint32_t seen = wh_cas_u32_relaxed(&t.keys[at], WH_GRAPH_NONE, key);
        if (seen == WH_GRAPH_NONE) {
            t.numbers[at] = number;
            return 1;
        }
        if (seen == key) {
            return 0;
        }
        at = at + 1 < t.size ? at + 1 : 0;
    }
}

/* Where a key is; NONE: it is not there. */
WH_FN uint32_t wh_lattice_table_find_(wh_lattice_table t, uint32_t key) {
    uint32_t at = wh_lattice_place_(t, key);
    for (;;) {
        const uint32_t seen = wh_load_u32_relaxed(&t.keys[at]);
        if (seen == key) {
            return at;
        }
        if (seen == WH_GRAPH_NONE) {
            return WH_GRAPH_NONE;
        }
        at = at + 1 < t.size ? at + 1 : 0;
    }
}

/* The sum over the threads of a block before the caller of `counts`, and *all: over all of them.
 * All threads of the block; shared memory: two words a warp. */
WH_FN uint32_t wh_lattice_block_rank_(int counts, uint32_t *all) {
    uint32_t *sums = (uint32_t *)wh_shared();
    const uint32_t warp = wh_thread_in_block() / WH_WARP_SIZE;
    const uint32_t warps = wh_block_threads() / WH_WARP_SIZE;
    const wh_mask mine = wh_ballot(WH_FULL_WARP, counts);
    uint32_t before = 0, sum = 0;
    wh_syncthreads(); /* an earlier call's sums have been read */
    if (wh_lane_id() == 0) {
        sums[warp] = wh_popc32(mine);
    }
    wh_syncthreads();
    for (uint32_t w = 0; w < warps; w++) {
        before += w < warp ? sums[w] : 0;
        sum += sums[w];
    }
    *all = sum;
    return before + wh_mask_rank(mine);
}

/* Fills the table with the run; all threads of the block. */
WH_FN void wh_lattice_fill_table_(wh_lattice_table t, const uint32_t *run, uint32_t r) {
    const uint32_t me = wh_thread_in_block(), threads = wh_block_threads();
    for (uint32_t i = me; i < t.size; i += threads) {
        t.keys[i] = WH_GRAPH_NONE;
    }
    wh_syncthreads();
    for (uint32_t i = me; i < r; i += threads) {
        if (run[i] != WH_GRAPH_NONE) {
            (void)wh_lattice_table_put_(t, run[i], i);
        }
    }
    wh_syncthreads();
}

/* As the warp's; all threads of a block. */
WH_FN int wh_lattice_move_block_(wh_heap_ref heap, wh_lattice_vertex *x, uint32_t room,
                                 uint32_t n) {
    const uint32_t capacity = x->capacity, me = wh_thread_in_block();
    const uint32_t *from = capacity != 0 ? x->block : x->neighbours;
    uint32_t *old = capacity != 0 ? x->block : NULL;
    uint32_t *block = (uint32_t *)wh_malloc_block(heap, room * sizeof(uint32_t));
    const int moves = room == 0 || block != NULL;
    if (moves) {
        const uint32_t mine = me < n ? from[me] : 0;
        wh_syncthreads();
        uint32_t *to = room != 0 ? block : x->neighbours;
        if (me < n) {
            to[me] = mine;
        }
        for (uint32_t i = me + wh_block_threads(); i < n; i += wh_block_threads()) {
            to[i] = from[i];
        }
        wh_syncthreads();
        if (me == 0) {
            x->capacity = room;
            if (room != 0) {
                x->block = block;
            }
        }
        wh_free_block(heap, old);
    }
    return moves;
}

/* table: of 2 r places. */
WH_FN void wh_lattice_insert_block(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    const wh_lattice_table table = w.table;
    uint32_t *run = w.run;
    const uint32_t me = wh_thread_in_block(), threads = wh_block_threads(), degree = x->degree;
    const uint32_t *array = wh_lattice_array(x);
    wh_lattice_fill_table_(table, w.run, w.r);
    for (uint32_t i = me; i < degree; i += threads) {
        const uint32_t at = wh_lattice_table_find_(table, array[i]);
        if (at != WH_GRAPH_NONE) { /* of an entry, hence of this thread alone */
            wh_store_u32_relaxed(&table.keys[at], WH_LATTICE_GONE);
        }
    }
    wh_syncthreads();
    uint32_t n = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < table.size; first += threads) { /* new ones go to the front */
        const uint32_t at = first + me;
        const uint32_t key = at < table.size ? table.keys[at] : WH_GRAPH_NONE;
        const int fresh = key < WH_LATTICE_GONE;
        uint32_t all;
        const uint32_t rank = wh_lattice_block_rank_(fresh, &all);
        if (fresh) {
            run[n + rank] = key;
        }
        n += all;
    }
    wh_syncthreads();
    const uint32_t wanted = degree + n;
    int refused = 0;
    if (wanted > (x->capacity != 0 ? x->capacity : WH_LATTICE_HELD)) {
        refused = !wh_lattice_move_block_(heap, x, wh_lattice_room(wanted), degree);
    }
    if (!refused) {
        uint32_t *to = wh_lattice_array(x) + degree;
        for (uint32_t i = me; i < n; i += threads) {
            to[i] = run[i];
        }
    }
    if (w.done != NULL) {
        for (uint32_t at = me; at < table.size; at += threads) {
            if (table.keys[at] < WH_LATTICE_GONE) {
                w.done[w.order[table.numbers[at]]] = refused ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED;
            }
        }
    }
    wh_syncthreads();
    if (me == 0) {
        x->degree = refused ? degree : wanted;
        tally->applied += refused ? 0 : n;
        tally->refused += refused ? n : 0;
        tally->no_change += w.r - n;
    }
    wh_syncthreads();
}

WH_FN void wh_lattice_erase_block(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    const wh_lattice_table table = w.table;
    const uint32_t me = wh_thread_in_block(), threads = wh_block_threads(), degree = x->degree;
    uint32_t *array = wh_lattice_array(x);
    uint32_t kept = 0;
    wh_lattice_fill_table_(table, w.run, w.r);
    WH_NO_UNROLL
    for (uint32_t first = 0; first < degree; first += threads) {
        const uint32_t i = first + me;
        const uint32_t entry = i < degree ? array[i] : WH_GRAPH_NONE;
        const uint32_t at = i < degree ? wh_lattice_table_find_(table, entry) : WH_GRAPH_NONE;
        const int stays = i < degree && at == WH_GRAPH_NONE;
        uint32_t all;
        const uint32_t rank = wh_lattice_block_rank_(stays, &all); /* all have read theirs */
        if (stays) {
            array[kept + rank] = entry;
        } else if (i < degree && w.done != NULL) {
            w.done[w.order[table.numbers[at]]] = WH_GRAPH_APPLIED;
        }
        kept += all;
    }
    wh_syncthreads();
    if (me == 0) {
        x->degree = kept;
        tally->applied += degree - kept;
        tally->no_change += w.r - (degree - kept);
    }
    wh_syncthreads();
    if (kept != degree && !wh_lattice_keeps(x->capacity, kept)) {
        (void)wh_lattice_move_block_(heap, x, wh_lattice_room(kept), kept);
    }
}

/* --- looking ---------------------------------------------------------------------------------- */

/* I1 and I2 but for repetitions: the number of the invariant that a vertex breaks, or 0. */
WH_FN uint32_t wh_lattice_is_sound(wh_heap_ref heap, wh_lattice_vertex *x, uint32_t n_vertices) {
    const uint32_t *array = wh_lattice_array(x);
    if (x->degree > (x->capacity != 0 ? x->capacity : WH_LATTICE_HELD)) {
        return 1;
    }
    if (WH_LATTICE_POWERS && (x->capacity & (x->capacity - 1)) != 0) {
        return 1;
    }
    if (x->capacity != 0 &&
        (!wh_owns(heap, x->block) ||
         wh_usable_size(heap, x->block) < (size_t)x->capacity * sizeof(uint32_t))) {
        return 1;
    }
    WH_NO_UNROLL
    for (uint32_t i = 0; i < x->degree; i++) {
        if (array[i] >= n_vertices) {
            return 2;
        }
    }
    return 0;
}

#include "warpheap/detail/simt/end.h"

#endif

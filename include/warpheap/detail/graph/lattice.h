/* graph/lattice.h: the graph class `lattice`: each adjacency is one array, in the vertex's record
 * or in a block of the heap. How a vertex takes the arcs of a batch. This file may change: it is no
 * part of the API.
 *
 * A batch is laid out by its sources first (src/graph/batch_steps.h): the arcs of a source lie
 * in a row, its *run*, so that one worker has the vertex to itself: a lane, a warp, or a block of
 * threads, by how much there is to look at. The worker finds out which arcs are new, so it knows
 * the degree to come before it asks for memory, once.
 *
 * record   capacity 0: as many neighbours as fit are in the record; else an array of `capacity`
 *          entries is at `block`. Values of arcs lie behind the neighbours, as arrays of as many
 *          entries each (wh_lattice_view). Touched by the vertex's worker alone, plain; kernels of
 *          one stream follow one another
 * run      the other ends of a vertex's arcs in the batch; one that is NONE, of from_csr, is none.
 *          Its worker's alone, as are `order` and the table
 *
 * I1       degree <= capacity, or degree <= wh_lattice_inline where capacity is 0; a block has room
 *          for capacity entries and their values, and belongs to its vertex alone; ouro: as many
 *          as fit into a power of two of bytes
 * I2       no entry of an adjacency is there twice, but in a multigraph, and all are vertices
 * I4       where the graph is sorted, the entries of an adjacency ascend
 * I5       where it is undirected and no edge was ever refused, each arc is there both ways
 * I10      where the graph is not sorted, an insertion leaves the entries of an adjacency where
 * they are, also in a new array, and new ones come behind them: workload/ranks takes back by it
 *
 * B1       a team's barrier: what its threads have read before it, one of them may overwrite behind
 *          it, and what they have written before it, all read behind it
 *
 * Progress no worker waits for another one, but for the allocator
 * Source   contiguous adjacencies as in ouroGraph (Winter, thesis, section 6.2); updates by vertex
 *          without locks as in faimGraph (4.2.5.1), but the batch is not sorted. Values side by
 *          side ("SOA") as there (4.2.3.2), in one block
 * Check    wh_lattice_is_sound, wh_graph_check; tests/dgraph, tests/fault/graph; I10: full_heap of
 *          tests/ranks/shard.c
 */
#ifndef WH_GRAPH_LATTICE_H
#define WH_GRAPH_LATTICE_H

#include "warpheap/core/hash.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/detail/graph/team.h"
#include "warpheap/detail/graph/work.h"
#include "warpheap/graph.h"
#include "warpheap/warpheap.h"

#include "warpheap/detail/simt/begin.h"

/* The class `ouro` is made of the same workers: with WH_LATTICE_POWERS 1 a block has exactly the
 * power of two of bytes that its degree asks for, from LEAST_ROOM words on, also when it shrinks,
 * and room for as many entries, with their values, as fit; the record holds no neighbours. */
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
#define WH_LATTICE_MOST                                                                          \
    0x40000000u                     /* arcs of a vertex that gets a new array: rooms fit 32 bits \
                                     */
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
 * none; numbers: the arc of the key in its run. For a block of threads; memory for others. */
typedef struct wh_lattice_table {
    uint32_t *keys, *numbers;
    uint32_t size;
} wh_lattice_table;

/* What a vertex's worker gets. The last fields are the graph's or the batch's: constants, zero, in
 * kernels for plain graphs. */
typedef struct wh_lattice_work {
    wh_lattice_vertex *x;
    uint32_t *run;   /* the other ends of the arcs; may be overwritten */
    uint32_t *order; /* the arcs' numbers in the batch, likewise; or NULL, if nobody asks */
    uint32_t r;      /* how many */
    uint8_t *done;   /* of the batch, all NO_CHANGE; or NULL */
    wh_lattice_table table;
    uint32_t words; /* values of an arc, 0 .. WH_GRAPH_MOST_VALUES */
    int sorted;
    int overwrites; /* arcs that are there already get the batch's values */
    int multi;      /* an arc may be there several times */
    int both;       /* the caller's arcs are in the batch both ways */
    uint32_t arcs;  /* of the batch: number i + arcs is arc i the other way round */
    const uint32_t *values[WH_GRAPH_MOST_VALUES]; /* by number; or NULL: 0 */
} wh_lattice_work;

/* --- where adjacencies lie ------------------------------------------------------------------ */

/* The array of a vertex. */
WH_FN uint32_t *wh_lattice_array(wh_lattice_vertex *x) {
    return x->capacity != 0 ? x->block : x->neighbours;
}

/* Entries that a record has room for: HELD / (1 + words). */
WH_HD uint32_t wh_lattice_inline(uint32_t words) {
    return WH_LATTICE_HELD == 0 ? 0 : 0x11236u >> 4 * words & 15;
}

#if WH_LATTICE_POWERS
/* The least page, in words, with room for so many entries and their values. */
WH_HD uint64_t wh_lattice_page_(uint32_t entries, uint32_t words) {
    const uint64_t n = (uint64_t)entries * (1 + words);
    const uint64_t least = n <= WH_LATTICE_LEAST_ROOM ? WH_LATTICE_LEAST_ROOM : n;
    return n == 0 ? 0 : (uint64_t)1 << (64 - wh_clz64(least - 1));
}
#endif

/* Entries that a vertex of this degree has room for, when it gets a new array: an eighth more, so
 * that a vertex that grows an arc at a time is not copied each time. 0: in the record. */
WH_HD uint32_t wh_lattice_room(uint32_t degree, uint32_t words) {
#if WH_LATTICE_POWERS
    return (uint32_t)(wh_lattice_page_(degree, words) / (1 + words));
#else
    return degree <= wh_lattice_inline(words) ? 0 : (degree + (degree >> 3) + 3) & ~3u;
#endif
}

/* Whether a vertex of this degree keeps its array: one with more than a quarter beyond the room
 * that it would get goes, and the way back into the record is taken two arcs later than the way
 * out, or one if it holds few. */
WH_HD int wh_lattice_keeps(uint32_t capacity, uint32_t degree, uint32_t words) {
    const uint32_t room = wh_lattice_room(degree, words);
#if WH_LATTICE_POWERS
    return capacity == room;
#else
    const uint32_t few = wh_lattice_inline(words);
    const uint32_t least = room < WH_LATTICE_LEAST_ROOM ? WH_LATTICE_LEAST_ROOM : room;
    return capacity == 0 || (degree + (few > 2 ? 2 : 1) > few && capacity - least / 4 <= least);
#endif
}

#if WH_HAS_HOST
/* A hash of how a graph lies in memory, by which a program and the library tell whether they know
 * the same graphs. */
static inline uint64_t wh_lattice_layout(void) {
    const uint64_t parts[] = {
        WH_VERSION / 100,
        sizeof(wh_lattice_vertex),
        WH_LAYOUT_FIELD(wh_lattice_vertex, degree),
        WH_LAYOUT_FIELD(wh_lattice_vertex, capacity),
        WH_LAYOUT_FIELD(wh_lattice_vertex, neighbours),
        WH_LAYOUT_FIELD(wh_lattice_vertex, block),
        wh_lattice_inline(0) | wh_lattice_inline(1) << 4 | wh_lattice_inline(2) << 8 |
            wh_lattice_inline(3) << 12 | wh_lattice_inline(4) << 16,
        wh_lattice_room(100, 0),
        (uint64_t)wh_lattice_keeps(128, 64, 0) | (uint64_t)wh_lattice_keeps(128, 100, 0) << 1,
        WH_GRAPH_MOST_VALUES,
        wh_graph_lock_words(1000),
    };
    return wh_layout_hash("lattice", parts, sizeof parts / sizeof *parts);
}
#endif

/* The bytes of an array of `room` entries. */
WH_HD size_t wh_lattice_bytes(uint32_t room, uint32_t words) {
    words = WH_PLANT(lattice_i1_values, words, 0); /* I1 */
#if WH_LATTICE_POWERS
    return (size_t)wh_lattice_page_(room, words) * sizeof(uint32_t);
#else
    return (size_t)room * (1 + words) * sizeof(uint32_t);
#endif
}

/* An adjacency where it lies: value k of entry i is at to[(k + 1) * room + i]. */
typedef struct wh_lattice_view {
    uint32_t *to;
    uint32_t room, words;
} wh_lattice_view;

WH_FN wh_lattice_view wh_lattice_view_of(wh_lattice_vertex *x, uint32_t words) {
    wh_lattice_view a;
    a.to = wh_lattice_array(x);
    a.room = x->capacity != 0 ? x->capacity : wh_lattice_inline(words);
    a.words = words;
    return a;
}

WH_FN uint32_t *wh_lattice_values_at(wh_lattice_view a, uint32_t k) {
    return a.to + (uint64_t)(k + 1) * a.room;
}

/* An arc with its values, in registers: loops over them are unrolled. */
typedef struct wh_lattice_entry {
    uint32_t to;
    uint32_t values[WH_GRAPH_MOST_VALUES];
} wh_lattice_entry;

WH_FN wh_lattice_entry wh_lattice_get_(wh_lattice_view a, uint32_t i) {
    wh_lattice_entry e;
    e.to = a.to[i];
    for (uint32_t k = 0; k < WH_GRAPH_MOST_VALUES; k++) {
        e.values[k] = k < a.words ? wh_lattice_values_at(a, k)[i] : 0;
    }
    return e;
}

WH_FN void wh_lattice_put_(wh_lattice_view a, uint32_t i, wh_lattice_entry e) {
    a.to[i] = e.to;
    for (uint32_t k = 0; k < WH_GRAPH_MOST_VALUES; k++) {
        if (k < a.words) {
            wh_lattice_values_at(a, k)[i] = e.values[k];
        }
    }
}

/* A number in the batch, so that both ways of the caller's arcs are neighbours; and back. */
WH_FN uint32_t wh_lattice_by_arc_(const wh_lattice_work *w, uint32_t number) {
    return number < w->arcs ? 2 * number : 2 * (number - w->arcs) + 1;
}
WH_FN uint32_t wh_lattice_number_(const wh_lattice_work *w, uint32_t by_arc) {
    return (by_arc & 1) == 0 ? by_arc / 2 : by_arc / 2 + w->arcs;
}

/* Arc i of a run. */
WH_FN wh_lattice_entry wh_lattice_arc_(const wh_lattice_work *w, uint32_t i) {
    wh_lattice_entry e;
    uint32_t number = w->words != 0 ? w->order[i] : 0;
    number = number < w->arcs ? number : number - w->arcs;
    e.to = w->run[i];
    for (uint32_t k = 0; k < WH_GRAPH_MOST_VALUES; k++) {
        e.values[k] = k < w->words && w->values[k] != NULL ? w->values[k][number] : 0;
    }
    return e;
}

/* Entry i, which is there, gets the values of arc `at` of the run. */
WH_FN void wh_lattice_overwrite_(wh_lattice_view a, uint32_t i, const wh_lattice_work *w,
                                 uint32_t at) {
    const wh_lattice_entry e = wh_lattice_arc_(w, at);
    for (uint32_t k = 0; k < WH_GRAPH_MOST_VALUES; k++) {
        if (k < a.words && w->values[k] != NULL) {
            wh_lattice_values_at(a, k)[i] = e.values[k];
        }
    }
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
        const int first = !WH_PLANT(lattice_i2_run, again, 0u); /* I2 */
        fresh |= (uint32_t)(keys[k] != WH_GRAPH_NONE && first) << k;
    }
    return fresh;
}

/* The mask of those that are arcs, repetitions or not. */
WH_FN uint32_t wh_lattice_all_keys_(const uint32_t *keys) {
    uint32_t all = 0;
    for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
        all |= (uint32_t)(keys[k] != WH_GRAPH_NONE) << k;
    }
    return all;
}

#define WH_LATTICE_AHEAD 16u /* entries that a lane loads before it looks at them */

/* Which of the keys in the mask are among n entries. */
WH_FN uint32_t wh_lattice_among_(const uint32_t *array, uint32_t n, const uint32_t *keys,
                                 uint32_t fresh, uint32_t *at) {
    uint32_t found = 0;
    *at = n;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < n; first += WH_LATTICE_AHEAD) {
        uint32_t entries[WH_LATTICE_AHEAD]; /* in registers: the loops are unrolled */
        for (uint32_t i = 0; i < WH_LATTICE_AHEAD; i++) {
            entries[i] = array[first + i < n ? first + i : first];
        }
        for (uint32_t i = 0; i < WH_LATTICE_AHEAD; i++) {
            uint32_t hit = 0;
            for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
                hit |= (uint32_t)(keys[k] == entries[i]) << k;
            }
            hit &= fresh;
            *at = hit != 0 && found == 0 ? first + i : *at;
            found |= hit;
        }
    }
    return found;
}

/* The record gets an array of `room` entries (0: itself) in place of the one that it had, with the
 * n entries that it had there. Returns that one's block, which the caller frees, or NULL. */
WH_FN uint32_t *wh_lattice_move_(wh_lattice_vertex *x, uint32_t *block, uint32_t room, uint32_t n,
                                 uint32_t words) {
    uint32_t *old = x->capacity != 0 ? x->block : NULL;
    uint32_t few[WH_LATTICE_INLINE];
    const wh_lattice_view from = wh_lattice_view_of(x, words);
    if (room == 0) {
        uint32_t word = 0, entry = 0; /* of slot i */
        for (uint32_t i = 0; i < WH_LATTICE_INLINE; i++) {
            few[i] = word <= words && entry < n ? from.to[(uint64_t)word * from.room + entry] : 0;
            entry++;
            if (entry == wh_lattice_inline(words)) {
                word++;
                entry = 0;
            }
        }
        for (uint32_t i = 0; i < WH_LATTICE_INLINE; i++) {
            x->neighbours[i] = few[i];
        }
    } else {
        wh_lattice_view to;
        to.to = block;
        to.room = room;
        to.words = words;
        WH_NO_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            wh_lattice_put_(to, i, wh_lattice_get_(from, i));
        }
        x->block = block;
    }
    x->capacity = room;
    return old;
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

/* Of an arc that is several times in a run all get the same number, the least by the caller's arc,
 * so that both ways of an edge take their values from one arc. For any team but a block. */
WH_FN void wh_lattice_agree_(wh_team t, const wh_lattice_work *w) {
    for (uint32_t i = t.me; i < w->r; i += t.n) {
        uint32_t least = wh_lattice_by_arc_(w, wh_load_u32_relaxed(&w->order[i]));
        WH_NO_UNROLL
        for (uint32_t k = 0; k < w->r; k++) { /* others may have theirs already: it is no less */
            const uint32_t its = wh_lattice_by_arc_(w, wh_load_u32_relaxed(&w->order[k]));
            least = w->run[k] == w->run[i] && its < least ? its : least;
        }
        wh_store_u32_relaxed(&w->order[i], wh_lattice_number_(w, least));
    }
    wh_team_sync(t); /* B1 */
}

/* Entries that are there get the values of the run. */
WH_FN void wh_lattice_overwrite_lane_(const wh_lattice_work *w, const uint32_t *keys,
                                      uint32_t fresh) {
    const wh_lattice_view a = wh_lattice_view_of(w->x, w->words);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < w->x->degree; i++) {
        const uint32_t entry = a.to[i];
        for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
            if ((fresh >> k & 1) != 0 && keys[k] == entry) {
                wh_lattice_overwrite_(a, i, w, k);
            }
        }
    }
}

/* New arcs of a run go in between the n entries that there are: I4. From the back, the largest
 * first: entries above it move up by as many places as there are new ones left. */
WH_FN void wh_lattice_merge_lane_(const wh_lattice_work *w, wh_lattice_view a, uint32_t n,
                                  uint32_t fresh) {
    WH_NO_UNROLL
    for (uint32_t left = wh_popc32(fresh); left != 0; left--) {
        uint32_t at = 0, key = 0;
        for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
            if ((fresh >> k & 1) != 0 && WH_PLANT(lattice_i4_largest, w->run[k] >= key, 1)) {
                key = w->run[k];
                at = k;
            }
        }
        while (n != 0 && a.to[n - 1] > key) {
            n--;
            wh_lattice_put_(a, n + left, wh_lattice_get_(a, n));
        }
        wh_lattice_put_(a, n + left - 1, wh_lattice_arc_(w, at));
        fresh &= ~(1u << at);
    }
}

/* The arcs of a run, of at most LANE_RUN, go to their vertex; all lanes of a full warp, each with a
 * vertex of its own, or none (NULL). done: as the batch's, all NO_CHANGE, or NULL. */
WH_FN void wh_lattice_insert_lane(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    uint32_t keys[WH_LATTICE_LANE_RUN] = {0, 0, 0, 0}, fresh = 0, degree = 0, room = 0, at;
    int grows = 0;
    if (x != NULL) {
        degree = x->degree;
        fresh = wh_lattice_keys_(w.run, w.r, keys);
        if (w.words != 0 && w.both) {
            wh_lattice_agree_(wh_team_lane(), &w);
        }
        if (w.multi) {
            fresh = wh_lattice_all_keys_(keys);
        } else {
            if (w.words != 0 && w.overwrites) {
                wh_lattice_overwrite_lane_(&w, keys, fresh);
            }
            const uint32_t there = wh_lattice_among_(wh_lattice_array(x), degree, keys, fresh, &at);
            fresh &= ~WH_PLANT(lattice_i2_there, there, 0u); /* I2 */
        }
        const uint32_t wanted = degree + wh_popc32(fresh);
        grows = wanted > (x->capacity != 0 ? x->capacity : wh_lattice_inline(w.words)) +
                             WH_PLANT(lattice_i1_grows, 0u, 1u); /* I1 */
        /* 0, where it grows: no memory, so it is refused */
        room = wanted <= WH_LATTICE_MOST ? wh_lattice_room(wanted, w.words) : 0;
    }
    uint32_t *block = (uint32_t *)wh_malloc_lanes(heap, WH_FULL_WARP,
                                                  grows ? wh_lattice_bytes(room, w.words) : 0);
    uint32_t *old = NULL;
    if (x != NULL) {
        const int refused = grows && WH_PLANT(lattice_i1_refused, block == NULL, 0); /* I1 */
        const uint32_t n = wh_popc32(fresh);
        tally->applied += refused ? 0 : n;
        tally->refused += refused ? n : 0;
        tally->no_change += w.r - n;
        wh_lattice_tell_(w.done, w.order, w.r, fresh,
                         refused ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED);
        if (!refused) {
            if (grows) {
                old = wh_lattice_move_(x, block, room, degree, w.words);
            }
            const wh_lattice_view a = wh_lattice_view_of(x, w.words);
            if (w.sorted) {
                wh_lattice_merge_lane_(&w, a, degree, fresh);
                degree += n;
            } else if (w.words != 0) {
                for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
                    if ((fresh >> k & 1) != 0) {
                        wh_lattice_put_(a, degree++, wh_lattice_arc_(&w, k));
                    }
                }
            } else {
                for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
                    if ((fresh >> k & 1) != 0) {
                        a.to[degree++] = keys[k]; /* I10 */
                    }
                }
            }
            x->degree = degree;
        }
    }
    wh_free_lanes(heap, WH_FULL_WARP, WH_PLANT(lattice_i1_old, old, NULL)); /* I1 */
}

/* Vertices that have become much smaller, and now have `kept` entries, get smaller blocks, if there
 * are any. All lanes of a full warp, each with a vertex of its own; shrinks 0: nothing. */
WH_FN void wh_lattice_shrink_lanes_(wh_heap_ref heap, wh_lattice_vertex *x, int shrinks,
                                    uint32_t kept, uint32_t words) {
    const uint32_t room = wh_lattice_room(kept, words);
    uint32_t *block = (uint32_t *)wh_malloc_lanes(heap, WH_FULL_WARP,
                                                  shrinks ? wh_lattice_bytes(room, words) : 0);
    uint32_t *old = NULL;
    if (shrinks && WH_PLANT(lattice_i1_smaller, room == 0 || block != NULL, 1)) { /* I1 */
        old = wh_lattice_move_(x, block, room, kept, words);
    }
    wh_free_lanes(heap, WH_FULL_WARP, old);
}

/* The arcs of a run leave their vertex; as above. */
WH_FN void wh_lattice_erase_lane(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w.x;
    uint32_t keys[WH_LATTICE_LANE_RUN] = {0, 0, 0, 0}, found = 0, kept = 0;
    int shrinks = 0;
    if (x != NULL) {
        const uint32_t fresh = wh_lattice_keys_(w.run, w.r, keys), degree = x->degree;
        const wh_lattice_view a = wh_lattice_view_of(x, w.words);
        found = wh_lattice_among_(a.to, degree, keys, fresh, &kept);
        WH_NO_UNROLL
        for (uint32_t i = kept; i < degree; i++) {
            const uint32_t entry = a.to[i];
            uint32_t hit = 0;
            for (uint32_t k = 0; k < WH_LATTICE_LANE_RUN; k++) {
                hit |= (uint32_t)(keys[k] == entry) << k;
            }
            if ((hit & fresh) == 0) {
                wh_lattice_put_(a, kept, wh_lattice_get_(a, i));
                kept++;
            }
        }
        x->degree = kept;
        shrinks = found != 0 && !wh_lattice_keeps(x->capacity, kept, w.words);
        tally->applied += wh_popc32(found);
        tally->no_change += w.r - wh_popc32(found);
        wh_lattice_tell_(w.done, w.order, w.r, found, WH_GRAPH_APPLIED);
    }
    wh_lattice_shrink_lanes_(heap, x, shrinks, kept, w.words);
}

/* --- what warps and blocks of threads have in common ------------------------------------------ */

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
        if (WH_PLANT(lattice_i2_table, seen == key, 0)) { /* I2 */
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

/* Fills the table with the run; all of the team. */
WH_FN void wh_lattice_fill_table_(wh_team t, const wh_lattice_work *w) {
    for (uint32_t i = t.me; i < w->table.size; i += t.n) {
        w->table.keys[i] = WH_GRAPH_NONE;
    }
    WH_PLANT(lattice_b1_cleared, wh_team_sync(t), (void)0); /* B1 */
    for (uint32_t i = t.me; i < w->r; i += t.n) {
        if (w->run[i] != WH_GRAPH_NONE) {
            (void)wh_lattice_table_put_(w->table, w->run[i], i);
        }
    }
    WH_PLANT(lattice_b1_filled, wh_team_sync(t), (void)0); /* B1 */
}

/* A new array for the team's vertex, and the n entries of the old one there. 0: there is no memory.
 * All of the team. */
WH_FN int wh_lattice_move_team_(wh_heap_ref heap, wh_team t, wh_lattice_vertex *x, uint32_t room,
                                uint32_t n, uint32_t words) {
    const wh_lattice_view from = wh_lattice_view_of(x, words);
    const size_t bytes = wh_lattice_bytes(room, words);
    uint32_t *old = WH_PLANT(lattice_i1_old_team, x->capacity != 0, 0) ? x->block : NULL; /* I1 */
    uint32_t *block =
        (uint32_t *)(t.kind == WH_TEAM_BLOCK ? wh_malloc_block(heap, bytes)
                                             : wh_malloc_warp(heap, WH_FULL_WARP, bytes));
    const int moves = WH_PLANT(lattice_i1_team, room == 0 || block != NULL, 1); /* I1 */
    if (moves) {
        wh_lattice_view to;
        to.to = room != 0 ? block : x->neighbours;
        to.room = room != 0 ? room : wh_lattice_inline(words);
        to.words = words;
        /* B1: all have read the record, which may be overwritten */
        wh_team_sync(t);
        for (uint32_t i = t.me; i < n; i += t.n) {
            wh_lattice_put_(to, i, wh_lattice_get_(from, i));
        }
        WH_PLANT(lattice_b1_copied, wh_team_sync(t), (void)0); /* B1 */
        if (t.me == 0) {
            x->capacity = room;
            if (room != 0) {
                x->block = block;
            }
        }
        wh_team_sync(t); /* B1 */
        if (t.kind == WH_TEAM_BLOCK) {
            wh_free_block(heap, old);
        } else {
            wh_free_warp(heap, WH_FULL_WARP, old);
        }
    }
    return moves;
}

/* The first n arcs of the run go in between the entries that there are: I4. An entry moves up by as
 * many places as there are smaller new ones; from the back, as many at once as there are threads,
 * which write nothing below what they have read. A new one goes up by as many as there are smaller
 * old ones: found before these move, and kept in the table. */
WH_FN void wh_lattice_merge_team_(wh_team t, const wh_lattice_work *w, wh_lattice_view a,
                                  uint32_t degree, uint32_t n) {
    uint32_t *below = w->table.keys;
    WH_PLANT(lattice_i4_sort, wh_team_sort(t, w->run, w->order, n), (void)0); /* I4 */
    for (uint32_t i = t.me; i < n; i += t.n) {
        below[i] =
            wh_sorted_below(a.to, degree, w->run[i], WH_PLANT(lattice_i4_equal, 1, 0)); /* I4 */
    }
    WH_PLANT(lattice_b1_below, wh_team_sync(t), (void)0); /* B1 */
    const uint32_t first = n != 0 ? below[0] : degree;
    WH_NO_UNROLL
    for (uint32_t end = degree; end > first;) {
        const uint32_t begin = end - first > t.n ? end - t.n : first, i = begin + t.me;
        wh_lattice_entry e = {0, {0, 0, 0, 0}};
        if (i < end) {
            e = wh_lattice_get_(a, i);
        }
        WH_PLANT(lattice_b1_up, wh_team_sync(t), (void)0); /* B1 */
        if (i < end) {
            wh_lattice_put_(a, i + wh_sorted_below(w->run, n, e.to, 0), e);
        }
        end = begin;
    }
    for (uint32_t i = t.me; i < n; i += t.n) {
        wh_lattice_put_(a, below[i] + i, wh_lattice_arc_(w, i));
    }
}

/* The first n arcs of the run, and of its order, are new: they go to their vertex, or are refused.
 * All of the team, who know its degree, and have met since the run was written. */
WH_FN void wh_lattice_take_team_(wh_heap_ref heap, wh_team t, const wh_lattice_work *w,
                                 uint32_t degree, uint32_t n, wh_graph_tally *tally) {
    wh_lattice_vertex *x = w->x;
    const uint32_t wanted = degree + n;
    int refused = 0;
    if (wanted > (x->capacity != 0 ? x->capacity : wh_lattice_inline(w->words)) +
                     WH_PLANT(lattice_i1_grows_team, 0u, 1u)) { /* I1 */
        refused =
            wanted > WH_LATTICE_MOST ||
            !wh_lattice_move_team_(heap, t, x, wh_lattice_room(wanted, w->words), degree, w->words);
    }
    if (!refused) {
        const wh_lattice_view a = wh_lattice_view_of(x, w->words);
        if (w->sorted) {
            wh_lattice_merge_team_(t, w, a, degree, n);
        } else {
            for (uint32_t i = t.me; i < n; i += t.n) {
                wh_lattice_put_(a, degree + i, wh_lattice_arc_(w, i)); /* I10 */
            }
        }
    }
    if (w->done != NULL) {
        for (uint32_t i = t.me; i < n; i += t.n) {
            w->done[w->order[i]] = refused ? WH_GRAPH_REFUSED : WH_GRAPH_APPLIED;
        }
    }
    wh_team_sync(t); /* B1 */
    if (t.me == 0) {
        x->degree = refused ? degree : wanted;
        tally->applied += refused ? 0 : n;
        tally->refused += refused ? n : 0;
        tally->no_change += w->r - n;
    }
    wh_team_sync(t); /* B1 */
}

/* A multigraph takes all arcs of the run: those that are any go to its front. All of the team. */
WH_FN void wh_lattice_insert_all_team_(wh_heap_ref heap, wh_team t, const wh_lattice_work *w,
                                       wh_graph_tally *tally) {
    const uint32_t degree = w->x->degree;
    uint32_t n = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < w->r; first += t.n) {
        const uint32_t i = first + t.me;
        const uint32_t key = i < w->r ? w->run[i] : WH_GRAPH_NONE;
        const uint32_t number = i < w->r && w->order != NULL ? w->order[i] : 0;
        uint32_t all;
        const uint32_t rank = wh_team_rank(t, key != WH_GRAPH_NONE, &all);
        if (key != WH_GRAPH_NONE) {
            w->run[n + rank] = key;
            if (w->order != NULL) {
                w->order[n + rank] = number;
            }
        }
        n += all;
    }
    wh_team_sync(t); /* B1 */
    wh_lattice_take_team_(heap, t, w, degree, n, tally);
}

/* The first arc of the run with this end; NONE: there is none. A block looks into its table. */
WH_FN uint32_t wh_lattice_find_(wh_team t, const wh_lattice_work *w, uint32_t entry) {
    uint32_t at = WH_GRAPH_NONE;
    if (t.kind == WH_TEAM_BLOCK) {
        const uint32_t place = wh_lattice_table_find_(w->table, entry);
        return place != WH_GRAPH_NONE ? w->table.numbers[place] : WH_GRAPH_NONE;
    }
    WH_NO_UNROLL
    for (uint32_t k = w->r; k != 0; k--) {
        at = w->run[k - 1] == entry ? k - 1 : at;
    }
    return at;
}

/* The vertex has `kept` entries now, of `degree`: says so, and takes a smaller block if one is
 * there. All of the team. */
WH_FN void wh_lattice_shrink_team_(wh_heap_ref heap, wh_team t, wh_lattice_vertex *x, uint32_t kept,
                                   uint32_t words) {
    const uint32_t degree = x->degree;
    WH_PLANT(lattice_b1_degree, wh_team_sync(t), (void)0); /* B1: all have read it */
    if (t.me == 0) {
        x->degree = kept;
    }
    wh_team_sync(t); /* B1 */
    if (kept != degree && !wh_lattice_keeps(x->capacity, kept, words)) {
        (void)wh_lattice_move_team_(heap, t, x, wh_lattice_room(kept, words), kept, words);
    }
}

/* Of a multigraph: a word for each arc of the run, NONE where it has taken something out. A block
 * has its run in the table, too; a warp has no use for its table. */
WH_FN uint32_t *wh_lattice_marks_(wh_team t, const wh_lattice_work *w) {
    return t.kind == WH_TEAM_BLOCK ? w->run : w->table.keys;
}

WH_FN void wh_lattice_tell_marked_(wh_team t, const wh_lattice_work *w, wh_graph_tally *tally) {
    WH_PLANT(lattice_b1_marks, wh_team_sync(t), (void)0); /* B1 */
    for (uint32_t i = t.me; i < w->r; i += t.n) {
        const int applied = wh_lattice_marks_(t, w)[i] == WH_GRAPH_NONE;
        tally->applied += applied ? 1 : 0;
        tally->no_change += applied ? 0 : 1;
        if (applied && w->done != NULL) {
            w->done[w->order[i]] = WH_GRAPH_APPLIED;
        }
    }
}

/* An entry, and the arc of the run that takes it out; NONE: none. */
typedef struct wh_lattice_looked {
    wh_lattice_entry e;
    uint32_t at;
    int is, stays; /* is: there is such an entry */
} wh_lattice_looked;

WH_FN wh_lattice_looked wh_lattice_look_(wh_team t, const wh_lattice_work *w, wh_lattice_view a,
                                         uint32_t i, uint32_t degree) {
    wh_lattice_looked looked = {{0, {0, 0, 0, 0}}, WH_GRAPH_NONE, 0, 0};
    if (i < degree) {
        looked.e = wh_lattice_get_(a, i);
        looked.at = wh_lattice_find_(t, w, looked.e.to);
        looked.is = 1;
        looked.stays = looked.at == WH_GRAPH_NONE;
    }
    return looked;
}

/* The entry stays, at `to`, or goes, which is told. */
WH_FN void wh_lattice_settle_(wh_team t, const wh_lattice_work *w, wh_lattice_view a,
                              wh_lattice_looked looked, uint32_t to) {
    if (looked.stays) {
        wh_lattice_put_(a, to, looked.e);
    } else if (looked.is && w->multi) {
        wh_store_u32_relaxed(&wh_lattice_marks_(t, w)[looked.at], WH_GRAPH_NONE);
    } else if (looked.is && w->done != NULL) {
        w->done[w->order[looked.at]] = WH_GRAPH_APPLIED;
    }
}

WH_FN void wh_lattice_erase_team_(wh_heap_ref heap, wh_team t, const wh_lattice_work *w,
                                  wh_graph_tally *tally) {
    const uint32_t degree = w->x->degree;
    const wh_lattice_view a = wh_lattice_view_of(w->x, w->words);
    uint32_t kept = 0;
    if (w->multi && t.kind != WH_TEAM_BLOCK) {
        for (uint32_t i = t.me; i < w->r; i += t.n) {
            wh_lattice_marks_(t, w)[i] = 0;
        }
        wh_team_sync(t); /* B1 */
    }
    WH_NO_UNROLL
    for (uint32_t first = 0; first < degree; first += 2 * t.n) {
        const wh_lattice_looked one = wh_lattice_look_(t, w, a, first + t.me, degree);
        const wh_lattice_looked two = wh_lattice_look_(t, w, a, first + t.n + t.me, degree);
        const wh_team_ranks ranks = wh_team_rank_two(t, one.stays, two.stays); /* all have read */
        wh_lattice_settle_(t, w, a, one, kept + ranks.first);
        wh_lattice_settle_(t, w, a, two, kept + ranks.second);
        kept += ranks.all;
    }
    if (w->multi) {
        wh_lattice_tell_marked_(t, w, tally);
    } else if (t.me == 0) {
        tally->applied += degree - kept;
        tally->no_change += w->r - (degree - kept);
    }
    wh_lattice_shrink_team_(heap, t, w->x, kept, w->words);
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

/* As the lane's, for a vertex with a run of any length; all lanes of a warp, the same vertex. The
 * run and its order are overwritten. */
WH_FN void wh_lattice_insert_warp(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    uint32_t *run = w.run;
    const wh_team team = wh_team_warp();
    const uint32_t lane = wh_lane_id(), degree = w.x->degree;
    const wh_lattice_view a = wh_lattice_view_of(w.x, w.words);
    uint32_t n = 0; /* new ones, at the front of the run */
    if (w.multi) {
        wh_lattice_insert_all_team_(heap, team, &w, tally);
        return;
    }
    if (w.words != 0 && w.both) {
        wh_lattice_agree_(team, &w);
    }
    if (w.words != 0 && w.overwrites) {
        for (uint32_t i = lane; i < degree; i += WH_WARP_SIZE) {
            const uint32_t at = wh_lattice_find_(team, &w, a.to[i]);
            if (at != WH_GRAPH_NONE) {
                wh_lattice_overwrite_(a, i, &w, at);
            }
        }
        wh_syncwarp(WH_FULL_WARP); /* B1 */
    }
    WH_NO_UNROLL
    for (uint32_t first = 0; first < w.r; first += WH_WARP_SIZE) {
        const uint32_t i = first + lane;
        const uint32_t key = i < w.r ? run[i] : WH_GRAPH_NONE;
        const uint32_t number = i < w.r && w.order != NULL ? w.order[i] : 0;
        const wh_group same = wh_group_by_u32(WH_FULL_WARP, key);
        const wh_mask keys =
            wh_ballot(WH_FULL_WARP, key != WH_GRAPH_NONE &&
                                        WH_PLANT(lattice_i2_group, same.rank == 0, 1)); /* I2 */
        const wh_mask left = keys & ~wh_lattice_known_(a.to, degree, key, keys);
        const wh_mask again = wh_lattice_known_(run, n, key, left);
        const wh_mask fresh = left & ~WH_PLANT(lattice_i2_again, again, 0u); /* I2 */
        /* B1: all have read what is overwritten now */
        WH_PLANT(lattice_b1_read, wh_syncwarp(WH_FULL_WARP), (void)0);
        if ((fresh >> lane & 1) != 0) {
            run[n + wh_mask_rank(fresh)] = key;
            if (w.order != NULL) {
                w.order[n + wh_mask_rank(fresh)] = number;
            }
        }
        WH_PLANT(lattice_b1_run, wh_syncwarp(WH_FULL_WARP), (void)0); /* B1 */
        n += wh_popc32(fresh);
    }
    wh_lattice_take_team_(heap, team, &w, degree, n, tally);
}

WH_FN void wh_lattice_erase_warp(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_erase_team_(heap, wh_team_warp(), &w, tally);
}

/* --- a block of threads for a vertex -------------------------------------------------------- */

/* The keys of the table that are left go to the front of the run, and their arcs' numbers in the
 * batch to that of its order. How many. */
WH_FN uint32_t wh_lattice_take_out_(wh_team t, const wh_lattice_work *w) {
    const wh_lattice_table table = w->table;
    uint32_t n = 0;
    if (w->order != NULL) { /* before any of it is overwritten */
        for (uint32_t at = t.me; at < table.size; at += t.n) {
            if (table.keys[at] < WH_LATTICE_GONE) {
                table.numbers[at] = w->order[table.numbers[at]];
            }
        }
    }
    WH_NO_UNROLL
    for (uint32_t first = 0; first < table.size; first += 2 * t.n) {
        const uint32_t at[2] = {first + t.me, first + t.n + t.me};
        uint32_t keys[2]; /* in registers: loops are unrolled */
        for (uint32_t k = 0; k < 2; k++) {
            keys[k] = at[k] < table.size ? table.keys[at[k]] : WH_GRAPH_NONE;
        }
        const wh_team_ranks ranks =
            wh_team_rank_two(t, keys[0] < WH_LATTICE_GONE, keys[1] < WH_LATTICE_GONE);
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t to = n + (k == 0 ? ranks.first : ranks.second);
            if (keys[k] < WH_LATTICE_GONE) {
                w->run[to] = keys[k];
                if (w->order != NULL) {
                    w->order[to] = table.numbers[at[k]];
                }
            }
        }
        n += ranks.all;
    }
    wh_team_sync(t); /* B1 */
    return n;
}

/* wh_lattice_agree_ for a block, whose table is filled. */
WH_FN void wh_lattice_agree_block_(wh_team t, const wh_lattice_work *w) {
    uint32_t *numbers = w->table.numbers;
    for (uint32_t i = t.me; i < w->r; i += t.n) {
        wh_store_u32_relaxed(&numbers[wh_lattice_table_find_(w->table, w->run[i])], UINT32_MAX);
    }
    wh_syncthreads(); /* B1 */
    for (uint32_t i = t.me; i < w->r; i += t.n) {
        (void)wh_fetch_min_u32_relaxed(&numbers[wh_lattice_table_find_(w->table, w->run[i])],
                                       wh_lattice_by_arc_(w, w->order[i]));
    }
    WH_PLANT(lattice_b1_least, wh_syncthreads(), (void)0); /* B1 */
    for (uint32_t i = t.me; i < w->r; i += t.n) {
        w->order[i] = wh_lattice_number_(w, numbers[wh_lattice_table_find_(w->table, w->run[i])]);
    }
    WH_PLANT(lattice_b1_agreed, wh_syncthreads(), (void)0); /* B1 */
    for (uint32_t i = t.me; i < w->r; i += t.n) {           /* any arc of the key will do */
        wh_store_u32_relaxed(&numbers[wh_lattice_table_find_(w->table, w->run[i])], i);
    }
    wh_syncthreads(); /* B1 */
}

/* table: of 2 r places. */
WH_FN void wh_lattice_insert_block(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    const wh_lattice_table table = w.table;
    const wh_team team = wh_team_block();
    const uint32_t degree = w.x->degree;
    const wh_lattice_view a = wh_lattice_view_of(w.x, w.words);
    if (w.multi) {
        wh_lattice_insert_all_team_(heap, team, &w, tally);
        return;
    }
    wh_lattice_fill_table_(team, &w);
    if (w.words != 0 && w.both) {
        wh_lattice_agree_block_(team, &w);
    }
    for (uint32_t i = team.me; i < degree; i += team.n) {
        const uint32_t at = wh_lattice_table_find_(table, a.to[i]);
        if (at != WH_GRAPH_NONE) { /* of an entry, hence of this thread alone */
            if (w.words != 0 && w.overwrites) {
                wh_lattice_overwrite_(a, i, &w, table.numbers[at]);
            }
            WH_PLANT(lattice_i2_gone, wh_store_u32_relaxed(&table.keys[at], WH_LATTICE_GONE),
                     (void)0); /* I2 */
        }
    }
    WH_PLANT(lattice_b1_gone, wh_syncthreads(), (void)0); /* B1 */
    const uint32_t n = wh_lattice_take_out_(team, &w);
    wh_lattice_take_team_(heap, team, &w, degree, n, tally);
}

WH_FN void wh_lattice_erase_block(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) {
    wh_lattice_fill_table_(wh_team_block(), &w);
    wh_lattice_erase_team_(heap, wh_team_block(), &w, tally);
}

/* --- arcs that a limit takes out --------------------------------------------------------- */

/* Arcs to vertices whose bit is set in `removed`; where that is NULL: arcs whose value k is below
 * `before`. One counts if its other end is `from` or above. */
typedef struct wh_lattice_limit {
    const uint32_t *removed;
    uint32_t k, before, from;
} wh_lattice_limit;

/* The entries that the limit leaves move to the front, in order: how many there are; the caller has
 * still to shrink the vertex. All of the team. tally: what goes and counts, each thread's. */
WH_FN uint32_t wh_lattice_limit_team_(wh_team t, wh_lattice_view a, uint32_t degree,
                                      wh_lattice_limit limit, wh_graph_tally *tally) {
    const uint32_t *value = wh_lattice_values_at(a, limit.k);
    uint32_t kept = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < degree; first += t.n) {
        const uint32_t i = first + t.me;
        wh_lattice_entry e = {0, {0, 0, 0, 0}};
        uint32_t all;
        int stays = 0;
        if (i < degree) {
            e = wh_lattice_get_(a, i);
            stays = limit.removed != NULL ? (limit.removed[e.to / 32] >> e.to % 32 & 1) == 0
                                          : value[i] >= limit.before;
            tally->applied += !stays && e.to >= limit.from ? 1 : 0;
        }
        const uint32_t rank = wh_team_rank(t, stays, &all); /* all have read theirs */
        if (stays && kept + rank != i) {
            wh_lattice_put_(a, kept + rank, e);
        }
        kept += all;
    }
    return kept;
}

/* All lanes of a full warp, each with a vertex of its own, or none (NULL). */
WH_FN void wh_lattice_expire_lanes(wh_heap_ref heap, wh_lattice_vertex *x, uint32_t words,
                                   wh_lattice_limit limit, wh_graph_tally *tally) {
    uint32_t kept = 0;
    int shrinks = 0;
    if (x != NULL) {
        const uint32_t degree = x->degree;
        kept = wh_lattice_limit_team_(wh_team_lane(), wh_lattice_view_of(x, words), degree, limit,
                                      tally);
        if (kept != degree) {
            x->degree = kept;
            shrinks = !wh_lattice_keeps(x->capacity, kept, words);
        }
    }
    wh_lattice_shrink_lanes_(heap, x, shrinks, kept, words);
}

/* A warp or a block of threads, with one vertex. */
WH_FN void wh_lattice_expire_team(wh_heap_ref heap, wh_team t, wh_lattice_vertex *x, uint32_t words,
                                  wh_lattice_limit limit, wh_graph_tally *tally) {
    const uint32_t kept =
        wh_lattice_limit_team_(t, wh_lattice_view_of(x, words), x->degree, limit, tally);
    wh_lattice_shrink_team_(heap, t, x, kept, words);
}

/* --- looking ---------------------------------------------------------------------------------- */

/* I1, I2 but for repetitions, and I4: the number of the invariant that a vertex breaks, or 0. */
WH_FN uint32_t wh_lattice_is_sound(wh_heap_ref heap, wh_lattice_vertex *x, uint32_t n_vertices,
                                   uint32_t words, int sorted) {
    const uint32_t *array = wh_lattice_array(x);
    if (x->degree > (x->capacity != 0 ? x->capacity : wh_lattice_inline(words))) {
        return 1;
    }
    if (WH_LATTICE_POWERS && x->capacity != wh_lattice_room(x->capacity, words)) {
        return 1;
    }
    if (x->capacity != 0 &&
        (!wh_owns(heap, x->block) ||
         wh_usable_size(heap, x->block) < wh_lattice_bytes(x->capacity, words))) {
        return 1;
    }
    WH_NO_UNROLL
    for (uint32_t i = 0; i < x->degree; i++) {
        if (array[i] >= n_vertices) {
            return 2;
        }
        if (sorted && i != 0 && array[i - 1] > array[i]) {
            return 4;
        }
    }
    return 0;
}

#include "warpheap/detail/simt/end.h"

#endif

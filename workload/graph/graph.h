/* workload/graph/graph.h: a dynamic graph on the device: one adjacency array per vertex,
 * allocated from a heap, that doubles when it is full (Gallatin paper, section 6.12).
 * Uses nothing of the allocator but warpheap.h, so it runs on every one.
 *
 * The graph is a multigraph: insert appends, also what is there already; remove takes
 * one matching arc out and fills the hole with an arc from the end. The order of an
 * adjacency is therefore not defined.
 *
 * Protocol: one lock word per vertex. Lanes of a warp that work on the same vertex
 * form a group (match on the vertex number) and work as one: its leader takes the
 * lock and calls the allocator, all its lanes copy, search and write.
 *
 * Fields (wh_multigraph_vertex)
 *   lock        0 -> 1 by cas acquire, 1 -> 0 by store release; device scope
 *   neighbours, degree, capacity, and the array behind neighbours: plain; touched
 *               only by the group that holds the lock. init, destroy, degrees and
 *               dump take no lock: they need a kernel of their own, in which each
 *               vertex has one owner
 * I1      capacity is 0 or a power of two, at least WH_MULTIGRAPH_MIN_CAPACITY; neighbours is
 *         NULL exactly when capacity is 0
 * I2      degree <= capacity; neighbours[0..degree) are the vertex's arcs
 * I3      no lane running: lock is 0
 *         I1 and I2 hold whenever the lock is free
 * P1      unlock (store release) -> lock (cas acquire): what the last group wrote to the
 *         fields and the array happens before the next group reads it
 * P2      within a group, syncwarp orders the lanes: after the leader's lock and malloc,
 *         before anyone else's access; after everyone's accesses, before the leader's
 *         change of the fields, its unlock and its free
 * Progress  blocking, free of deadlock: a group that holds a lock waits for nothing but
 *         its own lanes (which wait for nothing else) and the allocator, and it holds
 *         one lock at a time. The lanes of a call go round their retry loop together
 *         (wh_any), and the work under the lock lies between two rounds: a lane that
 *         waits for others holds nothing, whatever order a compiler or a GPU chooses
 *         for the branches of a diverged warp. Rounds without success back off.
 * Lanes   insert and remove: the lanes of `mask` make the call together, each with
 *         an arc of its own; any number of warps, any number of them on one vertex
 * Fails   insert: when malloc gives NULL, what fits into the old array goes in and the
 *         rest is refused and counted; remove: when the smaller array cannot be had,
 *         the old one stays
 * Check   wh_multigraph_vertex_sound; tests/graph/vertices.c, tests/graph/run.c
 */
#ifndef WH_WORKLOAD_GRAPH_H
#define WH_WORKLOAD_GRAPH_H

#include "warpheap/core/warp_group.h"
#include "warpheap/warpheap.h"
#include "workload/graph/graph_types.h"

/* The capacity that holds n entries: the next power of two, 0 for none. */
WH_HD uint64_t wh_multigraph_capacity(uint64_t n) {
    if (n == 0) {
        return 0;
    }
    return n <= WH_MULTIGRAPH_MIN_CAPACITY ? WH_MULTIGRAPH_MIN_CAPACITY
                                           : (uint64_t)1 << (64 - wh_clz64(n - 1));
}

/* Largest array: 2^30 neighbours, 4 GiB. */
#define WH_MULTIGRAPH_MAX_CAPACITY ((uint64_t)1 << 30)

WH_FN uint32_t *wh_multigraph_array_(wh_heap_ref heap, uint64_t capacity) {
    if (capacity > WH_MULTIGRAPH_MAX_CAPACITY) {
        return NULL;
    }
    return (uint32_t *)wh_malloc(heap, (size_t)capacity * sizeof(uint32_t));
}

/* Copies n entries with the lanes of a group; P2 is the caller's. */
WH_FN void wh_multigraph_copy_(uint32_t *to, const uint32_t *from, uint32_t n, uint32_t rank,
                               uint32_t lanes) {
    for (uint32_t i = rank; i < n; i += lanes) {
        to[i] = from[i];
    }
}

/* P2; a group of one needs no other lane's order. */
WH_FN void wh_multigraph_sync_(wh_group g) {
    if (g.n > 1 && WH_PLANT(graph_sync, 1, 0)) {
        wh_syncwarp(g.lanes);
    }
}

/* One attempt to take the lock for the group; all its lanes get the answer. */
WH_FN int wh_multigraph_try_lock_(wh_group g, wh_multigraph_vertex *x) {
    uint32_t got = 0;
    if (wh_group_leads(g)) {
        got = WH_PLANT(graph_acquire, wh_cas_u32_acquire, wh_cas_u32_relaxed)(&x->lock, 0, 1) ==
              WH_PLANT(graph_lock, 0u, 1u); /* P1 */
    }
    if (g.n > 1) {
        got = wh_shfl_u32(g.lanes, got, g.leader);
        wh_syncwarp(g.lanes); /* P2 */
    }
    return got != 0;
}

WH_FN void wh_multigraph_unlock_(wh_multigraph_vertex *x) {
    WH_PLANT(graph_release, wh_store_u32_release, wh_store_u32_relaxed)(&x->lock, 0); /* P1 */
}

/* The leader's array of `capacity` entries for the whole group, NULL if the heap has
 * none. */
WH_FN uint32_t *wh_multigraph_group_array_(wh_heap_ref heap, wh_group g, uint64_t capacity) {
    uint64_t p = 0;
    if (wh_group_leads(g)) {
        p = (uint64_t)(uintptr_t)wh_multigraph_array_(heap, capacity);
    }
    if (g.n > 1) {
        p = wh_shfl_u64(g.lanes, p, g.leader);
        wh_syncwarp(g.lanes); /* P2: the old owner's last use of the block comes first */
    }
    return (uint32_t *)(uintptr_t)p;
}

/* Under the lock: appends one arc per lane of the group. Returns whether the caller's
 * went in; *old receives an array for the leader to free after unlocking. */
WH_FN int wh_multigraph_append_(wh_heap_ref heap, wh_group g, wh_multigraph_vertex *x, uint32_t v,
                                uint32_t **old) {
    const uint32_t degree = x->degree;
    uint32_t capacity = x->capacity;
    uint32_t *const before = x->neighbours;
    uint32_t *array = before;
    if (g.n > capacity - degree) {
        const uint64_t wanted = wh_multigraph_capacity((uint64_t)degree + g.n);
        uint32_t *grown = wh_multigraph_group_array_(heap, g, wanted);
        if (grown != NULL) {
            wh_multigraph_copy_(grown, before, degree, g.rank, g.n);
            array = grown;
            capacity = (uint32_t)wanted;
        }
    }
    const uint32_t room = capacity - degree;
    const uint32_t added = g.n < room ? g.n : room;
    const int in = g.rank < added;
    if (in) {
        array[degree + g.rank] = v;
    }
    wh_multigraph_sync_(g); /* P2 */
    if (wh_group_leads(g)) {
        x->degree = degree + added;
        if (array != before) {
            x->neighbours = array;
            x->capacity = capacity;
            *old = before;
        }
    }
    return in;
}

/* Inserts the arc u -> v for every lane of mask. Returns whether it went in; if not,
 * the heap had no memory (counted in g.counts->failed).
 * Lanes: all of mask together. Cost: one cas and one store for each vertex of the
 * warp, and a malloc, a free and a copy when its array is full. */
WH_FN int wh_multigraph_insert(wh_multigraph_view g, wh_heap_ref heap, wh_mask mask, uint32_t u,
                               uint32_t v) {
    const wh_group group = wh_group_by_u32(mask, u);
    wh_multigraph_vertex *const x = &g.vertices[u];
    uint32_t *old = NULL;
    int in = 0;
    int waits = 1;
    for (uint32_t attempt = 0; wh_any(mask, waits); attempt++) {
        if (waits && wh_multigraph_try_lock_(group, x)) {
            in = wh_multigraph_append_(heap, group, x, v, &old);
            if (wh_group_leads(group)) {
                wh_multigraph_unlock_(x);
            }
            waits = 0;
        }
        if (waits && wh_group_leads(group)) {
            wh_backoff(attempt);
        }
    }
    if (old != NULL) { /* only leaders; nobody else can reach it any more */
        wh_free(heap, old);
    }
    if (!in) {
        wh_add_u64_relaxed(&g.counts->failed, 1);
    }
    return in;
}

/* Bit number `nth` (from 0) of the set bits. */
WH_FN uint32_t wh_multigraph_nth_bit_(uint32_t bits, uint32_t nth) {
    for (; nth != 0; nth--) {
        bits &= bits - 1;
    }
    return wh_ctz32(bits);
}

/* Position of the occurrence number `nth` (from 0) of v, or n. Eight entries at a time:
 * their loads are in flight together. */
WH_FN uint32_t wh_multigraph_find_(const uint32_t *array, uint32_t n, uint32_t v, uint32_t nth) {
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint32_t hits = 0;
        for (uint32_t j = 0; j < 8; j++) {
            hits |= (uint32_t)(array[i + j] == v) << j;
        }
        if (wh_popc32(hits) > nth) {
            return i + wh_multigraph_nth_bit_(hits, nth);
        }
        nth -= wh_popc32(hits);
    }
    for (; i < n; i++) {
        if (array[i] == v && nth-- == 0) {
            return i;
        }
    }
    return n;
}

/* Under the lock, group of one. */
WH_FN int wh_multigraph_take_one_(wh_multigraph_vertex *x, uint32_t v) {
    const uint32_t degree = x->degree;
    uint32_t *const array = x->neighbours;
    const uint32_t at = wh_multigraph_find_(array, degree, v, 0);
    if (at == degree) {
        return 0;
    }
    array[at] = array[degree - 1];
    x->degree = degree - 1;
    return 1;
}

/* Under the lock: takes one arc out for each lane of the group. The arcs that stay are
 * closed up in one step: with k arcs found, the last k places are given up, and the
 * survivors in them (a bit each in `stay`) move into the holes in front. */
WH_FN int wh_multigraph_take_(wh_group g, wh_multigraph_vertex *x, uint32_t v) {
    const uint32_t degree = x->degree;
    uint32_t *const array = x->neighbours;
    /* Lanes that ask for the same neighbour take different occurrences of it. */
    const wh_mask same = wh_match_any_u32(g.lanes, v);
    const uint32_t nth = WH_PLANT(graph_nth, wh_mask_rank(same), 0u);
    const uint32_t at = wh_multigraph_find_(array, degree, v, nth);
    const int found = at != degree;
    const uint32_t k = wh_popc32(wh_ballot(g.lanes, found));
    const uint32_t end = degree - k;
    const uint32_t gone = wh_reduce_or_u32(g.lanes, found && at >= end ? 1u << (at - end) : 0u);
    const uint32_t places = k == 32 ? ~0u : (1u << k) - 1;
    const uint32_t stay = places & ~gone;
    const wh_mask holes = wh_ballot(g.lanes, found && at < end);
    wh_syncwarp(g.lanes); /* P2: every lane has searched before anyone moves an arc */
    if (found && at < end) {
        array[at] = array[end + wh_multigraph_nth_bit_(stay, wh_mask_rank(holes))];
    }
    wh_syncwarp(g.lanes); /* P2 */
    if (wh_group_leads(g)) {
        x->degree = end;
    }
    return found;
}

/* Under the lock: moves to an array half full when less than a quarter of this one is
 * in use. Leaves it alone if the heap has no such array. */
WH_FN void wh_multigraph_shrink_(wh_heap_ref heap, wh_group g, wh_multigraph_vertex *x,
                                 uint32_t **old) {
    wh_multigraph_sync_(g); /* P2: the leader's new degree */
    const uint32_t degree = x->degree;
    uint32_t *const before = x->neighbours;
    if (x->capacity <= WH_MULTIGRAPH_MIN_CAPACITY || degree >= x->capacity / 4) {
        return;
    }
    const uint64_t wanted = wh_multigraph_capacity(degree == 0 ? 1 : 2 * (uint64_t)degree);
    uint32_t *less = wh_multigraph_group_array_(heap, g, wanted);
    if (less != NULL) {
        wh_multigraph_copy_(less, before, degree, g.rank, g.n);
        wh_multigraph_sync_(g); /* P2 */
        if (wh_group_leads(g)) {
            x->neighbours = less;
            x->capacity = (uint32_t)wanted;
            *old = before;
        }
    }
}

/* Removes one arc u -> v for every lane of mask. Returns whether there was one; if
 * not, it is counted in g.counts->missing.
 * Lanes: all of mask together. Cost: as insert, and a search through the array. */
WH_FN int wh_multigraph_remove(wh_multigraph_view g, wh_heap_ref heap, wh_mask mask, uint32_t u,
                               uint32_t v) {
    const wh_group group = wh_group_by_u32(mask, u);
    wh_multigraph_vertex *const x = &g.vertices[u];
    uint32_t *old = NULL;
    int found = 0;
    int waits = 1;
    for (uint32_t attempt = 0; wh_any(mask, waits); attempt++) {
        if (waits && wh_multigraph_try_lock_(group, x)) {
            found = group.n == 1 ? wh_multigraph_take_one_(x, v) : wh_multigraph_take_(group, x, v);
            if (g.shrink != 0) {
                wh_multigraph_shrink_(heap, group, x, &old);
            }
            wh_multigraph_sync_(group); /* P2 */
            if (wh_group_leads(group)) {
                wh_multigraph_unlock_(x);
            }
            waits = 0;
        }
        if (waits && wh_group_leads(group)) {
            wh_backoff(attempt);
        }
    }
    if (old != NULL) {
        wh_free(heap, old);
    }
    if (!found) {
        wh_add_u64_relaxed(&g.counts->missing, 1);
    }
    return found;
}

/* Makes a vertex empty; its array, if any, is forgotten, not freed. */
WH_FN void wh_multigraph_clear_vertex(wh_multigraph_vertex *x) {
    x->neighbours = NULL;
    x->degree = 0;
    x->capacity = 0;
    x->lock = 0;
    x->unused = 0;
}

/* A list longer than this is copied by all lanes of the warp. */
#define WH_MULTIGRAPH_LONG_LIST 64u

/* Gives the empty vertex u the n neighbours at list: one vertex per lane of mask; a
 * lane without a vertex passes n = 0. Returns 0 where the heap had no memory; the
 * vertex stays empty then and is counted in g.counts->failed.
 * Lanes: all of mask together. Synchronises: the lanes of mask; no other lane may
 * work on these vertices. */
WH_FN int wh_multigraph_init_vertex(wh_multigraph_view g, wh_heap_ref heap, wh_mask mask,
                                    uint32_t u, const uint32_t *list, uint32_t n) {
    const uint64_t capacity = wh_multigraph_capacity(n);
    uint32_t *array = n != 0 ? wh_multigraph_array_(heap, capacity) : NULL;
    if (n != 0 && array == NULL) {
        wh_add_u64_relaxed(&g.counts->failed, 1);
    }
    if (array != NULL) {
        wh_multigraph_vertex *const x = &g.vertices[u];
        x->neighbours = array;
        x->degree = n;
        x->capacity = (uint32_t)capacity;
    }
    const int is_long = array != NULL && n > WH_MULTIGRAPH_LONG_LIST;
    if (array != NULL && !is_long) {
        wh_multigraph_copy_(array, list, n, 0, 1);
    }
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const wh_mask long_lists = wh_ballot(mask, is_long);
    if (long_lists != 0) {
        wh_syncwarp(mask); /* P2: the owner's malloc */
    }
    for (wh_mask m = long_lists; m != 0; m &= m - 1) {
        const uint32_t owner = wh_mask_leader(m);
        uint32_t *to = (uint32_t *)(uintptr_t)wh_shfl_u64(mask, (uint64_t)(uintptr_t)array, owner);
        const uint32_t *from =
            (const uint32_t *)(uintptr_t)wh_shfl_u64(mask, (uint64_t)(uintptr_t)list, owner);
        wh_multigraph_copy_(to, from, wh_shfl_u32(mask, n, owner), rank, lanes);
    }
    return n == 0 || array != NULL;
}

/* Frees the array of one vertex and makes it empty. One owner per vertex; any lanes. */
WH_FN void wh_multigraph_destroy_vertex(wh_heap_ref heap, wh_multigraph_vertex *x) {
    uint32_t *array = x->neighbours;
    wh_multigraph_clear_vertex(x);
    if (array != NULL) {
        wh_free(heap, array);
    }
}

/* I1, I2 and I3 of a quiet vertex. */
WH_FN int wh_multigraph_vertex_sound(const wh_multigraph_vertex *x) {
    const uint32_t c = x->capacity;
    const int i1 = (c == 0 || (c >= WH_MULTIGRAPH_MIN_CAPACITY && (c & (c - 1)) == 0)) &&
                   (x->neighbours == NULL) == (c == 0) && ((uintptr_t)x->neighbours & 15) == 0;
    const int i2 = x->degree <= c;
    const int i3 = x->lock == 0;
    return i1 && i2 && i3;
}

#endif

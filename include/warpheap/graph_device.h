/* graph_device.h: what kernels of your own can ask of a graph: degrees, neighbours, whether an arc
 * is there; and how they change one. Device code; a graph of the class lattice on a heap of the
 * allocator that this file is compiled for.
 *
 *     wh_graph_ref ref;
 *     wh_graph_handle(graph, &ref);                       // host; good until wh_graph_grow
 *
 *     __global__ void walk(wh_graph_ref g, ...) {
 *         const uint32_t *to = wh_graph_neighbours(g, v);
 *         for (uint32_t i = 0; i < wh_graph_degree(g, v); i++) { use(to[i]); }
 *     }
 *
 * No kernel may read a graph while a call of graph.h, or a kernel, changes it: they run one after
 * the other on one stream. What wh_graph_neighbours returned is good until the next change.
 */
#ifndef WH_GRAPH_DEVICE_H
#define WH_GRAPH_DEVICE_H

#include "warpheap/detail/graph/lattice.h"

#include "warpheap/detail/simt/begin.h"

/* Names a graph in kernels; passed by value. */
typedef struct wh_graph_ref {
    wh_lattice_vertex *vertices;
    uint64_t n_vertices;
    uint32_t values; /* of each arc */
    int sorted;
    uint32_t *locks;       /* detail/graph/work.h; NULL: no kernel may change it */
    const uint32_t *alive; /* a bit for each id; NULL: all are vertices */
} wh_graph_ref;

/* Arcs of vertex v, which must be one. Lanes: any. Cost: a load. */
WH_FN uint32_t wh_graph_degree(wh_graph_ref g, uint32_t v) {
    wh_assert(v < g.n_vertices);
    return g.vertices[v].degree;
}

/* The other ends of its arcs, as many as its degree, in any order, or ascending if g.sorted;
 * aligned to 8 bytes. Read only. Lanes: any. Cost: a load. */
WH_FN const uint32_t *wh_graph_neighbours(wh_graph_ref g, uint32_t v) {
    wh_assert(v < g.n_vertices);
    return wh_lattice_array(&g.vertices[v]);
}

/* Value k of these arcs, in the same order. k < g.values. Read only. Lanes: any. Cost: two loads.
 */
WH_FN const uint32_t *wh_graph_values(wh_graph_ref g, uint32_t v, uint32_t k) {
    wh_assert(v < g.n_vertices && k < g.values);
    return wh_lattice_values_at(wh_lattice_view_of(&g.vertices[v], g.values), k);
}

/* Whether there is an arc from v to w. Lanes: any, each for itself. Cost: O(degree) loads, O(log
 * degree) if sorted; a warp that asks together about one v does better with wh_graph_has_warp. */
WH_FN int wh_graph_has_arc(wh_graph_ref g, uint32_t v, uint32_t w) {
    const uint32_t *to = wh_graph_neighbours(g, v);
    return g.sorted ? wh_sorted_has(to, wh_graph_degree(g, v), w)
                    : wh_lattice_has_(to, wh_graph_degree(g, v), w);
}

/* Which lanes' w there is an arc to from v, a bit each. All lanes of a full warp, with the same v.
 * Cost: O(degree) loads of the whole warp, and for every 32 of them a vote a lane; if sorted, O(log
 * degree) loads of each lane. */
WH_FN wh_mask wh_graph_has_warp(wh_graph_ref g, uint32_t v, uint32_t w) {
    const uint32_t *to = wh_graph_neighbours(g, v);
    return g.sorted ? wh_ballot(WH_FULL_WARP, wh_sorted_has(to, wh_graph_degree(g, v), w))
                    : wh_lattice_known_(to, wh_graph_degree(g, v), w,
                                        wh_ballot(WH_FULL_WARP, w < g.n_vertices));
}

/* --- changes ------------------------------------------------------------------------------------
 * Arcs come and go, one a lane, from any number of warps and kernels at the same time. What they do
 * is a set's: of two lanes that insert the same arc one has applied it; an insertion and an erasure
 * of the same arc take place in either order. While such a kernel runs
 *   - no call of graph.h, or graph_vertices.h, on this graph may run
 *   - none of the calls above may be made of a vertex whose arcs may change: they take no lock, and
 *     could read an array that has been freed. In the next kernel of the stream they see all
 *
 * They are for plain graphs: if arcs have values, or a graph is sorted, undirected or multi, all
 * arcs are REFUSED and nothing changes. Where vertices come and go the handle must be younger than
 * the first wh_graph_add_vertices or wh_graph_remove_vertices: an older one takes each id for a
 * vertex.
 *
 * Progress: a lock a vertex. A lane tries its lock and never waits for it while it has one; all
 * lanes that got theirs change their vertices together, unlock, and then those go round again that
 * got none. So a warp waits only for lanes that have what they need, and for the allocator.
 * Ordering: who gets a vertex sees all that earlier owners did (P1 of detail/graph/work.h).
 */

WH_FN int wh_graph_is_vertex_(wh_graph_ref g, uint32_t v) {
    return v < g.n_vertices && (g.alive == NULL || (g.alive[v / 32] >> v % 32 & 1) != 0);
}

WH_FN uint32_t wh_graph_change_lanes_(wh_graph_ref g, wh_heap_ref heap, uint32_t v, uint32_t w,
                                      int erases) {
    int pending = wh_graph_is_vertex_(g, v) && wh_graph_is_vertex_(g, w);
    uint32_t how = pending || v == WH_GRAPH_NONE ? WH_GRAPH_NO_CHANGE : WH_GRAPH_NO_VERTEX;
    if (g.locks == NULL) {
        return pending ? WH_GRAPH_REFUSED : how;
    }
    for (uint32_t attempt = 0; wh_any(WH_FULL_WARP, pending); attempt++) {
        const int mine = pending && wh_graph_try_lock(g.locks, v);
        uint32_t key = w, number = 0; /* a run of one arc */
        uint8_t done = WH_GRAPH_NO_CHANGE;
        wh_graph_tally tally = {0, 0, 0};
        wh_lattice_work work = {0};
        work.x = mine ? &g.vertices[v] : NULL;
        work.run = &key;
        work.order = &number;
        work.r = mine ? 1 : 0;
        work.done = &done;
        if (erases) {
            wh_lattice_erase_lane(heap, work, &tally);
        } else {
            wh_lattice_insert_lane(heap, work, &tally);
        }
        if (mine) {
            wh_graph_unlock(g.locks, v);
            how = done;
            pending = 0;
        } else if (pending) {
            wh_backoff(attempt);
        }
    }
    return how;
}

/* Inserts the arc v -> w of each lane; v = WH_GRAPH_NONE: this lane has none. Lanes: all of a full
 * warp, together. Returns, to each lane for its arc, WH_GRAPH_APPLIED; NO_CHANGE: it was there
 * already, or there is none; REFUSED: the heap is full, or the graph is not plain; NO_VERTEX: an
 * end is no vertex. Cost: two atomics and O(degree) loads by one lane, and as many rounds as lanes
 * of the warp have the same v: for hubs wh_graph_insert does better. */
WH_FN uint32_t wh_graph_insert_lanes(wh_graph_ref g, wh_heap_ref heap, uint32_t v, uint32_t w) {
    return wh_graph_change_lanes_(g, heap, v, w, 0);
}

/* Erases arcs, the same way. NO_CHANGE: it was not there. If the heap has no smaller block, the
 * adjacency keeps its own; nothing is REFUSED in a plain graph. */
WH_FN uint32_t wh_graph_erase_lanes(wh_graph_ref g, wh_heap_ref heap, uint32_t v, uint32_t w) {
    return wh_graph_change_lanes_(g, heap, v, w, 1);
}

#if WH_HAS_HOST

/* For wh_graph_handle: what the library knows, for kernels of these structures. */
typedef struct wh_graph_parts {
    void *vertices;
    uint64_t n_vertices;
    uint32_t values;
    int sorted;
    uint32_t *locks;
    const uint32_t *alive;
} wh_graph_parts;
#ifdef __cplusplus
extern "C" {
#endif
wh_status wh_graph_copy_handle(const wh_graph *graph, uint64_t layout, wh_graph_parts *parts,
                               uint64_t parts_bytes);
#ifdef __cplusplus
}
#endif

/* The handle of a graph, good until the graph is destroyed, or wh_graph_grow; for changes see
 * above, too. An id that is no vertex has degree 0. BAD_ARGUMENT; UNSUPPORTED: its class is not
 * lattice; WRONG_BUILD: the library was built from other headers, or only one of the two with
 * WH_HOSTILE. */
static inline wh_status wh_graph_handle(const wh_graph *graph, wh_graph_ref *ref) {
    wh_graph_parts parts;
    const wh_status s =
        ref == NULL ? WH_BAD_ARGUMENT
                    : wh_graph_copy_handle(graph, wh_lattice_layout(), &parts, sizeof parts);
    if (s == WH_OK) {
        ref->vertices = WH_STATIC_CAST(wh_lattice_vertex *, parts.vertices);
        ref->n_vertices = parts.n_vertices;
        ref->values = parts.values;
        ref->sorted = parts.sorted;
        ref->locks = parts.locks;
        ref->alive = parts.alive;
    }
    return s;
}

#endif

#include "warpheap/detail/simt/end.h"

#endif

/* graph_device.h: what kernels of your own can ask of a graph: degrees, neighbours, whether an arc
 * is there. Device code; a graph of the class lattice on a heap of the allocator that this file is
 * compiled for.
 *
 *     wh_graph_ref ref;
 *     wh_graph_handle(graph, &ref);                       // host, once; stays good
 *
 *     __global__ void walk(wh_graph_ref g, ...) {
 *         const uint32_t *to = wh_graph_neighbours(g, v);
 *         for (uint32_t i = 0; i < wh_graph_degree(g, v); i++) { use(to[i]); }
 *     }
 *
 * No kernel may read a graph while a call of graph.h changes it: they run one after the other on
 * one stream. What wh_graph_neighbours returned is good until the next change.
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
                    : wh_lattice_known_(to, wh_graph_degree(g, v), w, WH_FULL_WARP);
}

#if WH_HAS_HOST

/* For wh_graph_handle: what the library knows, for kernels of these structures. */
typedef struct wh_graph_parts {
    void *vertices;
    uint64_t n_vertices;
    uint32_t values;
    int sorted;
} wh_graph_parts;
#ifdef __cplusplus
extern "C" {
#endif
wh_status wh_graph_copy_handle(const wh_graph *graph, uint64_t vertex_bytes, wh_graph_parts *parts,
                               uint64_t parts_bytes);
#ifdef __cplusplus
}
#endif

/* The handle of a graph, good until the graph is destroyed, or wh_graph_grow. An id that is no
 * vertex has degree 0. BAD_ARGUMENT; UNSUPPORTED: its class is not lattice; WRONG_BUILD: the
 * library was built from other headers. */
static inline wh_status wh_graph_handle(const wh_graph *graph, wh_graph_ref *ref) {
    wh_graph_parts parts;
    const wh_status s =
        ref == NULL ? WH_BAD_ARGUMENT
                    : wh_graph_copy_handle(graph, sizeof(wh_lattice_vertex), &parts, sizeof parts);
    if (s == WH_OK) {
        ref->vertices = WH_STATIC_CAST(wh_lattice_vertex *, parts.vertices);
        ref->n_vertices = parts.n_vertices;
        ref->values = parts.values;
        ref->sorted = parts.sorted;
    }
    return s;
}

#endif

#include "warpheap/detail/simt/end.h"

#endif

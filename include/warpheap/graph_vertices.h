/* graph_vertices.h: vertices of a graph of graph.h that come and go, by number or by name. C11 and
 * C++; link warpheap::graph.
 *
 * A graph has room for the ids 0 .. most_vertices - 1 (wh_graph_options); those below `vertices`
 * are vertices at first. A vertex that is added gets an id: the one that was removed last, or else
 * the lowest that has never been one. It may have a name, any 64 bits but WH_GRAPH_NO_NAME, that no
 * other vertex has.
 *
 *     uint32_t ids[3];
 *     const uint64_t names[3] = {4711, 12, 4711};
 *     wh_graph_vertex_list list = {0};
 *     list.names = names; list.ids = ids; list.n = 3;
 *     wh_graph_add_vertices(graph, &list, &result);       // applied 2, no_change 1
 *
 * An id that is no vertex has no arcs and no name. An arc of a batch with such an end is counted
 * as no_vertex. Arrays of graph.h and graph_algorithms.h have an entry for each id, most_vertices
 * in all: no arcs and degree 0; rank 0, and it does not count in PageRank's n; label and level
 * WH_GRAPH_NOT_REACHED; no triangles. A graph of which all ids are vertices pays nothing for this.
 *
 * Streams, statuses and structures are as in graph.h: a call waits if it has something to tell
 * (result is not NULL, or arrays are on the host); else it returns at once, but for the first call
 * that needs memory (below), and a call whose list is longer than any before.
 *
 * Device memory beside the heap: 4.3 bytes an id when most_vertices is above vertices, or with the
 * first call that adds or removes; 32 more with the first that adds by name; and 12 an entry of the
 * longest list that came from the host.
 */
#ifndef WH_GRAPH_VERTICES_H
#define WH_GRAPH_VERTICES_H

#include "warpheap/graph.h"

#include "warpheap/detail/simt/begin.h"

#define WH_GRAPH_NO_ID UINT32_MAX   /* no vertex */
#define WH_GRAPH_NO_NAME UINT64_MAX /* no name */

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

/* A list of vertices. The order does not matter, and a name or an id may be there twice. */
typedef struct wh_graph_vertex_list {
    uint64_t struct_bytes; /* sizeof this struct, or 0 */
    const uint64_t *names;
    uint32_t *ids; /* remove without by_name: what goes; else NULL, or gets what was found */
    uint64_t n;    /* at most WH_GRAPH_MOST_ARCS */
    int by_name;   /* remove: 1: names say what goes; 0: ids */
    int on_device; /* 1: both arrays are device memory */
    void *stream;  /* NULL: the default stream */
} wh_graph_vertex_list;

/* What became of a list: the sum of the first four is its n. */
typedef struct wh_graph_vertices_result {
    uint64_t applied;   /* vertices that are new, or gone */
    uint64_t no_change; /* entries that were there already, or stand for a vertex once more */
    uint64_t refused;   /* add: all ids are in use */
    uint64_t no_vertex; /* remove: entries that are no vertex; add: WH_GRAPH_NO_NAME */
    uint64_t arcs;      /* remove: arcs that went, from these vertices or to them */
} wh_graph_vertices_result;

/* Adds n vertices without names (list->names NULL), or one for each name that is not there yet:
 * of entries with the same name exactly one is new. list->ids[i], if wanted: the id of entry i,
 * which an entry with a known name gets, too; WH_GRAPH_NO_ID: it was refused, or is no name. The
 * new ones have no arcs. Which entry gets which of the ids is any.
 * Errors: BAD_ARGUMENT; OUT_OF_MEMORY: some were refused since all ids are in use (wh_graph_grow
 * makes more; a list of names may then be sent again), or of the device: nothing is changed then;
 * NO_VERTEX: some names are WH_GRAPH_NO_NAME; DEVICE_ERROR, WRONG_BUILD.
 * Cost: two small kernels, with names five, O(n). Names are in a table at most half full. What is
 * forgotten stays in it, and comes back with its name; when it is an eighth of the table, a call
 * that adds or removes ends with filling it anew, O(most_vertices). (Thesis, 4.2.4.1) */
wh_status wh_graph_add_vertices(wh_graph *graph, const wh_graph_vertex_list *list,
                                wh_graph_vertices_result *result);

/* Removes vertices, with all their arcs and all arcs that lead to them; the memory of these goes
 * back to the heap, as in wh_graph_erase, their names are forgotten, and their ids are free.
 * Errors: BAD_ARGUMENT; NO_VERTEX: some entries are no vertex, the others were removed;
 * UNSUPPORTED: not of this class of graphs; OUT_OF_MEMORY of the device: nothing is changed then;
 * DEVICE_ERROR, WRONG_BUILD.
 * Cost: seven kernels; O(n), and one pass over all records and adjacencies of the graph, which
 * looks each entry up in a bitmap. (Thesis, 4.2.4.2) */
wh_status wh_graph_remove_vertices(wh_graph *graph, const wh_graph_vertex_list *list,
                                   wh_graph_vertices_result *result);

/* list->ids[i] (required): the vertex that is called list->names[i] (required); WH_GRAPH_NO_ID:
 * there is none. Waits if the arrays are on the host. Cost: one kernel, O(n). */
wh_status wh_graph_find_vertices(wh_graph *graph, const wh_graph_vertex_list *list);

/* names[v] of each id; WH_GRAPH_NO_NAME: it has none, or is no vertex. Waits if names is on the
 * host. */
wh_status wh_graph_names(wh_graph *graph, uint64_t *names, int on_device, void *stream);

/* is[v] of each id: 1: it is a vertex; 0: it is none. Host memory. Waits. */
wh_status wh_graph_is_vertex(wh_graph *graph, uint8_t *is);

/* Room for more ids: most_vertices, in all, at least as many as there are now. Vertices, arcs and
 * names stay as they are. Handles (wh_graph_handle) must be taken anew. OUT_OF_MEMORY of the
 * device: nothing is changed; old and new records are there side by side for a while, and the heap
 * is not asked. Waits for the device. Cost: a copy of the records, and a new table of names. */
wh_status wh_graph_grow(wh_graph *graph, uint64_t most_vertices);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

/* vertices.h: the ids and names of a graph's vertices as the host's calls of graph_vertices.h hand
 * them to kernels, and the table of these: one for each target, defined by
 * vertices_kernels.c. All pointers are device memory. Calls start kernels on a stream and do not
 * wait.
 *
 * An id is alive (a vertex), free (it was one), or has not been one yet. The map is a table of
 * names, open addressed; a probe begins at a sector, and goes on from place to place. Within a
 * kernel places only become used; a name that is forgotten keeps its place, without an id, until
 * the map is filled anew. So no kernel waits, and what one writes another one reads.
 *
 * alive    bit v: v is a vertex. Set by add (the lane that has got v), cleared by forget
 * removed  bit v: v goes. Set by mark, fetch_or: who sets it, has removed v; cleared by forget
 * free     [0, n_free): free ids, the last one is the next to be used. Behind them, while vertices
 *          are removed, those that go, in places by fetch_add on taken; and from the end down the
 *          sweep's hubs: neither meets the other, as no id is both dead and a hub
 * keys     of places: NO_NAME (unused) becomes a name once, by cas, relaxed
 * ids      of places: an id; NO_ID: the name is forgotten. add: cas from NO_ID to PENDING; who does
 *          that has the name, and stores an id, or NO_ID where there is none left. forget stores
 *          NO_ID
 * names    of ids; by add, forget
 * counts   taken, no_change, no_vertex, refused, arcs, hubs: of a call, by fetch_add, relaxed; 0
 *          when quiet. n_free, next, live, result: by the one lane of finish, at the end of a call
 *          places, named: fetch_add; places also by finish
 *
 * I7       an id that is not alive has degree 0, and no adjacency has it
 * I8       each id that has a name is alive; its place is the one that a probe for the name ends
 *          at, and has its id; named of these, and places of used places, are all that there are
 * I9       free has each id below next once that is not alive; ids from next on are not alive; live
 *          are alive; no bit of removed is set
 *
 * Progress no lane waits for another one; a probe ends, since unused places are left (whi_map_most)
 * Source   ids that are used again, host names: faimGraph (Winter, thesis, 4.2.4); but for a table
 *          instead of a sorted batch and a search of the graph
 * Check    wh_graph_check; tests/dgraph/vertices.c
 */
#ifndef WHI_GRAPH_VERTICES_H
#define WHI_GRAPH_VERTICES_H

#include "warpheap/core/hash.h"
#include "warpheap/graph_vertices.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WHI_NO_ID WH_GRAPH_NO_ID
#define WHI_PENDING 0xfffffffeu /* of ids of places: someone is about to store one */

typedef struct whi_vertex_counts {
    uint64_t places; /* used, of the map */
    uint64_t named;  /* vertices with names */
    uint32_t n_free, next, live;
    uint32_t hubs;
    uint32_t taken; /* add: ids wanted; remove: vertices that go */
    uint64_t no_change, no_vertex, refused, arcs;
    wh_graph_vertices_result result;
} whi_vertex_counts;

/* The ids of a graph, and a list, as kernels get them. */
typedef struct whi_vertices {
    uint32_t n; /* ids */
    uint32_t *alive, *removed, *free;
    uint64_t *names; /* NULL: none has one */
    uint64_t *keys;
    uint32_t *ids;
    uint64_t size; /* places */
    whi_vertex_counts *counts;
    /* a list */
    const uint64_t *list_names;
    const uint32_t *list_ids; /* what goes; or NULL */
    uint32_t *out;            /* or NULL */
    uint32_t n_list;
    int goes_on; /* the result counts what came before, too */
    int anew;    /* the map is filled anew in any case */
    /* grow */
    const uint32_t *from; /* words that are copied */
    uint32_t *to;
    uint64_t words;
} whi_vertices;

typedef wh_status (*whi_vertex_step)(wh_device *device, void *stream, const whi_vertices *v);

typedef struct whi_vertex_kernels {
    whi_vertex_step add;   /* without names */
    whi_vertex_step claim; /* with names */
    whi_vertex_step tell;  /* and their ids, and who was refused */
    whi_vertex_step added; /* the end of a call that adds */
    whi_vertex_step mark;
    whi_vertex_step forget;
    whi_vertex_step gone;  /* the end of a call that removes */
    whi_vertex_step renew; /* the map, if enough names were forgotten, or anew */
    whi_vertex_step find;
    whi_vertex_step copy;
} whi_vertex_kernels;

const whi_vertex_kernels *whi_vertex_kernels_find(wh_target target);

/* Places a probe begins at: those of one sector. */
#define WHI_MAP_GROUP 4u
#define WHI_MAP_LEAST 256u /* places */

/* Places for the names of n vertices: half of them at most have one. */
static inline uint64_t whi_map_size(uint64_t n) {
    const uint64_t wanted = (2 * n + WHI_MAP_GROUP - 1) / WHI_MAP_GROUP * WHI_MAP_GROUP;
    return wanted < WHI_MAP_LEAST ? WHI_MAP_LEAST : wanted;
}

/* Names that a call may add, so that places stay unused: half have a vertex's name, an eighth a
 * forgotten one (I8), and a quarter is for these, should all be refused. */
static inline uint64_t whi_map_most(uint64_t size) {
    return size / 4;
}

/* Whether so many names have been forgotten that the map is filled anew. */
WH_HD int whi_map_is_stale(uint64_t places, uint64_t named, uint64_t size) {
    return (places - named) * 8 > size;
}

/* Where a probe for a name begins. Each bit of the name changes about half of the upper bits. */
WH_HD uint64_t whi_map_first(uint64_t name, uint64_t size) {
    name = (name ^ name >> 32) * 0x9e3779b97f4a7c15u;
    name = (name ^ name >> 29) * 0xbf58476d1ce4e5b9u;
    const uint32_t groups = (uint32_t)(size / WHI_MAP_GROUP);
    return (uint64_t)WHI_MAP_GROUP * wh_high_u32(wh_mul_wide_u32(wh_high_u32(name), groups));
}

WH_HD int whi_bit(const uint32_t *bits, uint32_t v) {
    return (int)(bits[v / 32] >> v % 32 & 1);
}

#ifdef __cplusplus
}
#endif

#endif

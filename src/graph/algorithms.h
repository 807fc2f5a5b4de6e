/* algorithms.h: the device side of graph_algorithms.h as host code calls it: one table for each
 * target, defined by algorithms_kernels.c. All pointers are device memory. Calls start
 * kernels on a stream and do not wait. */
#ifndef WHI_GRAPH_ALGORITHMS_H
#define WHI_GRAPH_ALGORITHMS_H

#include "warpheap/graph_algorithms.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wh_lattice_vertex;

/* What a walk over vertices counts. There are two, used in turns. */
typedef struct whi_walk_counts {
    uint32_t hubs;         /* vertices for a block of threads each */
    uint32_t found;        /* bfs: vertices of the next level */
    uint64_t sum;          /* triangles, components; entries that have a place */
    uint64_t dangling;     /* pagerank: ranks of vertices without arcs */
    uint64_t change;       /* and the last iteration's */
    uint64_t upper, lower; /* and the sum of start, in 2^-31 and 2^-62 */
    uint64_t bad;          /* and what is no rank there */
} whi_walk_counts;

/* The lists of neighbours that come after their vertex, by degree and number. */
typedef struct whi_forward {
    uint32_t *n;           /* of a vertex, how many */
    uint64_t *end;         /* of its list; while it is filled, where the next one goes */
    uint32_t *to, *source; /* the lists, sorted, and for each entry whose list it is in */
    uint64_t edges;
} whi_forward;

/* A walk over all vertices or a list of them, along their arcs. */
typedef struct whi_walk {
    struct wh_lattice_vertex *vertices;
    uint32_t n_vertices;
    uint32_t live;         /* vertices that there are; 1 if there are none */
    const uint32_t *alive; /* a bit each; NULL: all n_vertices */
    int naive;
    int multi;            /* a vertex may have more arcs than there are vertices */
    const uint32_t *list; /* NULL: all vertices */
    uint32_t n;           /* of the list, or n_vertices */
    uint32_t per_warp;    /* of them, balanced: set by the walk */
    uint32_t *hubs;       /* as many entries as there are vertices */
    whi_walk_counts *counts;
    whi_walk_counts *next; /* of the walk to come: becomes zero */
    /* pagerank */
    const float *start; /* or NULL */
    double scale;       /* of start */
    uint64_t *rank;     /* in 2^-62 */
    uint64_t *in;       /* what arcs have brought */
    uint64_t *share;    /* what each arc of a vertex carries; NULL: ranks are pushed */
    uint64_t damping;   /* in 2^-64 */
    uint64_t teleport;  /* what each vertex gets anyway */
    float *out;
    /* triangles */
    whi_forward forward;
    uint64_t *of_vertex; /* or NULL */
    /* components */
    uint32_t *label;
    /* bfs */
    uint32_t *level;
    uint32_t *next_list;
    uint32_t depth; /* the level to come */
} whi_walk;

typedef wh_status (*whi_walk_step)(wh_device *device, void *stream, const whi_walk *w);

typedef struct whi_walk_kernels {
    whi_walk_step start_sum; /* counts upper, lower and bad of start */
    whi_walk_step ranks;     /* the first ranks, of start or all alike */
    whi_walk_step settle;    /* in becomes 0; counts dangling in counts */
    whi_walk_step push;      /* ranks along arcs, into `in` */
    whi_walk_step pull;      /* the same against arcs, of `share`, where they go both ways */
    whi_walk_step update;    /* rank of `in`, which becomes 0; change in counts, dangling in next */
    whi_walk_step floats;    /* out */
    whi_walk_step forward_count; /* forward.n, zero at first */
    whi_walk_step forward_place; /* forward.end; counts all in sum */
    whi_walk_step forward_fill;  /* to and source */
    whi_walk_step forward_sort;
    whi_walk_step triangles;   /* counts them in sum, and in of_vertex, zero at first */
    whi_walk_step label_first; /* label */
    whi_walk_step hook;        /* each arc's ends */
    whi_walk_step label_last;  /* counts roots in sum */
    whi_walk_step expand;      /* the list's neighbours without a level get it, into next_list */
} whi_walk_kernels;

const whi_walk_kernels *whi_walk_kernels_find(wh_target target);

#ifdef __cplusplus
}
#endif

#endif

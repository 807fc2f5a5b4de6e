/* graph/work.h: what the classes of graphs have in common. This file may change: it is no part of
 * the API. */
#ifndef WH_GRAPH_WORK_H
#define WH_GRAPH_WORK_H

#include "warpheap/simt.h"

#include "warpheap/detail/simt/begin.h"

#define WH_GRAPH_NONE UINT32_MAX /* no vertex; no rank */

/* What became of the arcs of a worker. */
typedef struct wh_graph_tally {
    uint32_t applied, no_change, refused;
} wh_graph_tally;

#include "warpheap/detail/simt/end.h"

#endif

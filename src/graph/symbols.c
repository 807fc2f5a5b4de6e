/* symbols.c: calls that are inline functions in C and C++, for languages that load the library, as
 * src/host/symbols.c has those of heaps: they set struct_bytes themselves. */

/* The inline functions have other names here. */
#define wh_graph_create inline_graph_create
#define wh_graph_get_stats inline_graph_get_stats
#include "warpheap/graph.h"
#undef wh_graph_create
#undef wh_graph_get_stats

/* A function for other languages, and its prototype, which no header has. */
#define SYMBOL(name, parameters, ...) \
    wh_status name parameters;        \
    wh_status name parameters {       \
        return __VA_ARGS__;           \
    }

SYMBOL(wh_graph_create, (wh_graph * *graph, const wh_graph_options *options),
       wh_graph_create_for(graph, options, 0))
SYMBOL(wh_graph_get_stats, (wh_graph * graph, wh_graph_stats *stats),
       wh_graph_get_stats_for(graph, stats, 0))

/* symbols.c: calls that are inline functions in C and C++, for languages that load the library, as
 * src/host/symbols.c has those of heaps: they set struct_bytes themselves. */

/* The inline functions have other names here. */
#define wh_kdtree_create inline_kdtree_create
#define wh_kdtree_build inline_kdtree_build
#define wh_kdtree_trace inline_kdtree_trace
#include "warpheap/kdtree.h"
#undef wh_kdtree_create
#undef wh_kdtree_build
#undef wh_kdtree_trace

/* A function for other languages, and its prototype, which no header has. */
#define SYMBOL(name, parameters, ...) \
    wh_status name parameters;        \
    wh_status name parameters {       \
        return __VA_ARGS__;           \
    }

SYMBOL(wh_kdtree_create, (wh_kdtree * *tree, const wh_kdtree_options *options),
       wh_kdtree_create_for(tree, options, 0))
SYMBOL(wh_kdtree_build, (wh_kdtree * tree, const wh_kdtree_mesh *mesh, void *stream),
       wh_kdtree_build_for(tree, mesh, stream, 0))
SYMBOL(wh_kdtree_trace, (wh_kdtree * tree, const wh_kdtree_rays *rays, void *stream),
       wh_kdtree_trace_for(tree, rays, stream, 0))

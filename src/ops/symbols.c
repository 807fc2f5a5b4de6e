/* symbols.c: calls that are inline functions in C and C++, for languages that load the library, as
 * src/host/symbols.c has those of heaps: they set struct_bytes themselves. wh_group_lists has no
 * such field: these languages call wh_group_get_lists_for with its size. */

/* The inline functions have other names here. */
#define wh_join_create inline_join_create
#define wh_join_start inline_join_start
#define wh_group_create inline_group_create
#define wh_group_start inline_group_start
#include "warpheap/ops.h"
#undef wh_join_create
#undef wh_join_start
#undef wh_group_create
#undef wh_group_start

/* A function for other languages, and its prototype, which no header has. */
#define SYMBOL(name, parameters, ...) \
    wh_status name parameters;        \
    wh_status name parameters {       \
        return __VA_ARGS__;           \
    }

SYMBOL(wh_join_create, (wh_join * *join, const wh_join_options *options),
       wh_join_create_for(join, options, 0))
SYMBOL(wh_join_start, (wh_join * join, const wh_table *build, const wh_table *probe, void *stream),
       wh_join_start_for(join, build, probe, stream, 0))
SYMBOL(wh_group_create, (wh_group * *group, const wh_group_options *options),
       wh_group_create_for(group, options, 0))
SYMBOL(wh_group_start, (wh_group * group, const wh_table *table, void *stream),
       wh_group_start_for(group, table, stream, 0))

/* symbols.c: calls that are inline functions in C and C++, for languages that load the library, as
 * src/host/symbols.c has those of heaps: they set struct_bytes themselves. */

/* The inline function has another name here. */
#define wh_heap_load inline_heap_load
#include "warpheap/checkpoint.h"
#undef wh_heap_load

/* A function for other languages, and its prototype, which no header has. */
#define SYMBOL(name, parameters, ...) \
    wh_status name parameters;        \
    wh_status name parameters {       \
        return __VA_ARGS__;           \
    }

SYMBOL(wh_heap_load,
       (wh_heap * *heap, const char *path, const wh_heap_options *options, int64_t *moved),
       wh_heap_load_for(heap, path, options, moved, 0, 0))

/* set_option.h: options of heaps by name, for tests that run over allocators of several families.
 */
#ifndef WH_TESTS_SET_OPTION_H
#define WH_TESTS_SET_OPTION_H

#include <stdio.h>

#include "warpheap/heap.h"
#include "warpheap/options.h"

/* Sets an option of the family of o->allocator, if the family has one of that name. own: where the
 * options lie, zero at first; o->options will be those. */
static inline void set_option(wh_heap_options *o, wh_any_options *own, const char *name,
                              uint64_t value) {
    char full[80];
    (void)snprintf(full, sizeof full, "%s.%s", wh_allocator_find(o->allocator)->family, name);
    if (wh_options_set(own, full, value) == WH_OK) {
        o->options = &own->head;
    }
}

#endif

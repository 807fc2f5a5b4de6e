/* alloc/tables.h: finds what is compiled once per allocator and target. Internal: may change.
 *
 * A *_kernels.c file is compiled for each pair of an allocator and a target, and exports one
 * table of what the pair has. A plain file finds the table by name:
 *
 *     WH_TABLE(my_kernels) = {first, second};         in my_kernels.c
 *     WH_TABLES(my_kernels, my_kernels_find)          in a file that includes built_list.h
 *     const my_kernels *k = my_kernels_find("bump", WH_TARGET_SIM);
 *
 * my_kernels is a typedef. The symbol of the table is my_kernels_<ident>_<target>.
 *
 * What uses no heap is compiled once for each target (ONCE of wh_targeted_objects):
 *
 *     WH_TABLE_ONCE(my_kernels) = {first, second};
 *     WH_TABLES_ONCE(my_kernels, my_kernels_find)
 *     const my_kernels *k = my_kernels_find(WH_TARGET_SIM);
 */
#ifndef WH_ALLOC_TABLES_H
#define WH_ALLOC_TABLES_H

#include "warpheap/detail/alloc/list.h"
#include "warpheap/device.h"

#if WH_HAS_HOST

#include <string.h>

#include "warpheap/detail/simt/begin.h"

/* Begins the definition of this allocator's table on this target. */
#define WH_TABLE(type) WH_TABLE_NAMED_(type, WH_TARGETED(WH_CAT(type##_, WH_ALLOCATOR)))
/* The same of a table that all allocators share. */
#define WH_TABLE_ONCE(type) WH_TABLE_NAMED_(type, WH_TARGETED(type))
#ifdef __cplusplus
#define WH_TABLE_NAMED_(type, symbol) \
    extern "C" const type symbol;     \
    const type symbol
#else
#define WH_TABLE_NAMED_(type, symbol) \
    extern const type symbol;         \
    const type symbol
#endif

/* Defines `const type *find(const char *allocator, wh_target target)`: the table of an allocator
 * by its name in list.h ("default" is none); NULL: it is not built in, or does not run there.
 * WH_BUILT_LIST_FOR and so on: of built_list.h, which the build writes. _TESTED: there are tables
 * of those allocators only that conform and stress test (TESTED of wh_targeted_objects). _OF: of
 * those that have all of these capabilities (CAPS). */
#define WH_TABLES(type, find) WH_TABLES_FROM_(WH_BUILT_LIST_FOR, type, find, 0)
#define WH_TABLES_TESTED(type, find) WH_TABLES_FROM_(WH_TESTED_LIST_FOR, type, find, 0)
#define WH_TABLES_OF(type, find, wanted) WH_TABLES_FROM_(WH_PARTS_LIST_FOR, type, find, wanted)
#define WH_TABLES_FROM_(list, type, find, wanted)                                                 \
    list(WH_TABLES_DECLARE_, type) const type *find(const char *allocator, wh_target target) {    \
        enum { WH_TABLES_WANTED_ = (wanted) };                                                    \
        static const wh_table_row rows[] = {list(WH_TABLES_ROW_, type){NULL, NULL, NULL}};        \
        return (const type *)wh_table_find_(rows, sizeof rows / sizeof *rows, allocator, target); \
    }

/* Defines `const type *find(wh_target target)`: the table that all allocators share; NULL: the
 * library was built without this target. */
#define WH_TABLES_ONCE(type, find)                                                 \
    extern const type type##_sim, type##_cuda;                                     \
    const type *find(wh_target target) {                                           \
        return target == WH_TARGET_SIM ? &type##_sim : WH_TABLES_CUDA_ONCE_(type); \
    }

typedef struct wh_table_row {
    const char *allocator;
    const void *sim, *cuda;
} wh_table_row;

static inline const void *wh_table_find_(const wh_table_row *rows, size_t n, const char *allocator,
                                         wh_target target) {
    for (size_t i = 0; i < n; i++) {
        if (rows[i].allocator != NULL && strcmp(rows[i].allocator, allocator) == 0) {
            return target == WH_TARGET_SIM ? rows[i].sim : rows[i].cuda;
        }
    }
    return NULL;
}

/* An allocator without WH_CAP_SIM has no table on the simulator. Conditions are constants, so that
 * the names of tables that do not exist do not get into the object file. */
#define WH_TABLES_DECLARE_(type, ident, name, title, source, caps, max_align, max_size) \
    extern const type type##_##ident##_sim, type##_##ident##_cuda;
#define WH_TABLES_ROW_(type, ident, name, title, source, caps, max_align, max_size) \
    {name, WH_TABLES_HAS_(caps, WH_CAP_SIM) ? &type##_##ident##_sim : NULL,         \
     WH_TABLES_CUDA_(type, ident, caps)},
#define WH_TABLES_HAS_(caps, more) \
    (((caps) & (WH_TABLES_WANTED_ | (more))) == (WH_TABLES_WANTED_ | (more)))
#if defined(WH_HAVE_CUDA) && WH_HAVE_CUDA
#define WH_TABLES_CUDA_(type, ident, caps) WH_TABLES_HAS_(caps, 0) ? &type##_##ident##_cuda : NULL
#define WH_TABLES_CUDA_ONCE_(type) &type##_cuda
#else
#define WH_TABLES_CUDA_ONCE_(type) NULL
#define WH_TABLES_CUDA_(type, ident, caps) NULL
#endif

#include "warpheap/detail/simt/end.h"

#endif /* WH_HAS_HOST */

#endif

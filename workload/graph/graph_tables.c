/* graph_tables.c: finds the device side of the graph case by allocator and target. */
#include <string.h>

#include "graph_kernels.h"
#include "built_list.h"

/* The condition is a constant, so that an allocator that does not run on the
 * simulator is not referred to. */
#define DECLARE_SIM(ident, family, name, title, source, caps, max_align, max_size) \
    extern const wh_graph_kernels wh_graph_kernels_##ident##_sim;
WH_BUILT_LIST(DECLARE_SIM)

#if WH_HAVE_CUDA
#define DECLARE_CUDA(ident, family, name, title, source, caps, max_align, max_size) \
    extern const wh_graph_kernels wh_graph_kernels_##ident##_cuda;
WH_BUILT_LIST(DECLARE_CUDA)
#define CUDA_TABLE(ident) &wh_graph_kernels_##ident##_cuda
#else
#define CUDA_TABLE(ident) NULL
#endif

static const struct {
    const char *name;
    const wh_graph_kernels *sim;
    const wh_graph_kernels *cuda;
} tables[] = {
#define ENTRY(ident, family, name, title, source, caps, max_align, max_size) \
    {name, ((caps)&WH_CAP_SIM) != 0 ? &wh_graph_kernels_##ident##_sim : NULL, CUDA_TABLE(ident)},
    WH_BUILT_LIST(ENTRY)
#undef ENTRY
};

const wh_graph_kernels *wh_graph_kernels_find(const char *allocator, wh_target target) {
    const wh_allocator_info *info = wh_allocator_find(allocator); /* resolves "default" */
    for (size_t i = 0; info != NULL && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i].name, info->name) == 0) {
            return target == WH_TARGET_SIM ? tables[i].sim : tables[i].cuda;
        }
    }
    return NULL;
}

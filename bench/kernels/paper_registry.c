/* paper_registry.c: finds the table of paper_kernels.h for an allocator on a target. */
#include <string.h>

#include "bench/kernels/paper_kernels.h"
#include "built_list.h"

#define DECLARE_SIM(ident, family, name, title, source, caps, max_align, max_size) \
    extern const wh_paper_kernels wh_paper_kernels_##ident##_sim;
WH_BUILT_LIST(DECLARE_SIM)

#if WH_HAVE_CUDA
#define DECLARE_CUDA(ident, family, name, title, source, caps, max_align, max_size) \
    extern const wh_paper_kernels wh_paper_kernels_##ident##_cuda;
WH_BUILT_LIST(DECLARE_CUDA)
#define CUDA_TABLE(ident) &wh_paper_kernels_##ident##_cuda
#else
#define CUDA_TABLE(ident) NULL
#endif

#define ENTRY(ident, family, name, title, source, caps, max_align, max_size) \
    {name, ((caps)&WH_CAP_SIM) != 0 ? &wh_paper_kernels_##ident##_sim : NULL, CUDA_TABLE(ident)},

static const struct {
    const char *name;
    const wh_paper_kernels *sim, *cuda;
} tables[] = {WH_BUILT_LIST(ENTRY)};

const wh_paper_kernels *wh_paper_kernels_find(const char *allocator, wh_target target) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i].name, allocator) == 0) {
            return target == WH_TARGET_SIM ? tables[i].sim : tables[i].cuda;
        }
    }
    return NULL;
}

/* registry.c: finds the kernel table of an allocator on a target. */
#include <string.h>

#include "bench/bench_kernels.h"
#include "warpheap/alloc/list.h"

#define DECLARE_SIM(ident, family, name, title, source, caps, max_align, max_size) \
    extern const wh_bench_kernels wh_bench_kernels_##ident##_sim;
WH_ALLOC_LIST(DECLARE_SIM)

#if WH_HAVE_CUDA
#define DECLARE_CUDA(ident, family, name, title, source, caps, max_align, max_size) \
    extern const wh_bench_kernels wh_bench_kernels_##ident##_cuda;
WH_ALLOC_LIST(DECLARE_CUDA)
#define CUDA_TABLE(ident) &wh_bench_kernels_##ident##_cuda
#else
#define CUDA_TABLE(ident) NULL
#endif

/* The table of an allocator without WH_CAP_SIM does not exist; the constant condition
 * keeps its name out of the object file. */
#define ENTRY(ident, family, name, title, source, caps, max_align, max_size) \
    {name, ((caps)&WH_CAP_SIM) != 0 ? &wh_bench_kernels_##ident##_sim : NULL, CUDA_TABLE(ident)},

static const struct {
    const char *name;
    const wh_bench_kernels *sim, *cuda;
} tables[] = {WH_ALLOC_LIST(ENTRY)};

const wh_bench_kernels *wh_bench_kernels_find(const char *allocator, wh_target target) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i].name, allocator) == 0) {
            return target == WH_TARGET_SIM ? tables[i].sim : tables[i].cuda;
        }
    }
    return NULL;
}

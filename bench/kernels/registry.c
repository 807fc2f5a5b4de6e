/* registry.c: finds the kernel tables of an allocator on a target. */
#include <string.h>

#include "bench/kernels/bench_kernels.h"
#include "built_list.h"

typedef struct tables {
    const wh_bench_kernels *kernels;
    const wh_bench_ledger_kernels *ledger;
    const wh_bench_register_kernel *registers;
} tables;

#define DECLARE(ident, target)                                               \
    extern const wh_bench_kernels wh_bench_kernels_##ident##_##target;       \
    extern const wh_bench_ledger_kernels wh_bench_ledger_##ident##_##target; \
    extern const wh_bench_register_kernel                                    \
        wh_bench_registers_##ident##_##target[WH_BENCH_REGISTER_KERNELS];
#define DECLARE_SIM(ident, family, name, title, source, caps, max_align, max_size) \
    DECLARE(ident, sim)
WH_BUILT_LIST(DECLARE_SIM)

/* The tables of an allocator without WH_CAP_SIM do not exist; the constant condition
 * keeps their names out of the object file. */
#define TABLE(exists, name) ((exists) ? (name) : NULL)
#define TABLES(ident, target, exists)                             \
    {                                                             \
        TABLE(exists, &wh_bench_kernels_##ident##_##target),      \
            TABLE(exists, &wh_bench_ledger_##ident##_##target),   \
            TABLE(exists, wh_bench_registers_##ident##_##target), \
    }

#if WH_HAVE_CUDA
#define DECLARE_CUDA(ident, family, name, title, source, caps, max_align, max_size) \
    DECLARE(ident, cuda)
WH_BUILT_LIST(DECLARE_CUDA)
#define CUDA_TABLES(ident) TABLES(ident, cuda, 1)
#else
#define CUDA_TABLES(ident) \
    { NULL, NULL, NULL }
#endif

#define ENTRY(ident, family, name, title, source, caps, max_align, max_size) \
    {name, TABLES(ident, sim, ((caps)&WH_CAP_SIM) != 0), CUDA_TABLES(ident)},

static const struct {
    const char *name;
    tables sim, cuda;
} all[] = {WH_BUILT_LIST(ENTRY)};

static const tables *find(const char *allocator, wh_target target) {
    static const tables none;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, allocator) == 0) {
            return target == WH_TARGET_SIM ? &all[i].sim : &all[i].cuda;
        }
    }
    return &none;
}

const wh_bench_kernels *wh_bench_kernels_find(const char *allocator, wh_target target) {
    return find(allocator, target)->kernels;
}

const wh_bench_ledger_kernels *wh_bench_ledger_find(const char *allocator, wh_target target) {
    return find(allocator, target)->ledger;
}

const wh_bench_register_kernel *wh_bench_registers_find(const char *allocator, wh_target target) {
    return find(allocator, target)->registers;
}

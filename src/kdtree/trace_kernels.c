/* trace_kernels.c: targeted source (compiled once per target: rays need no heap): the kernel behind
 * wh_kdtree_trace. */
#define WH_KERNEL_THREADS 128

#include "kdtree.h"

#include "warpheap/detail/alloc/tables.h"

WH_KERNEL(trace_rays, whi_trace, a) {
    for (uint64_t i = wh_thread_id(); i < a.rays.n; i += wh_grid_threads()) {
        const wh_kdtree_ray ray = a.rays.rays[i];
        const int any = a.rays.any_hit != 0;
        a.rays.hits[i] = a.rays.all_triangles != 0 ? wh_kdtree_hit_of_all(a.tree, ray, any)
                                                   : wh_kdtree_hit_(a.tree, ray, any);
    }
}

static wh_status trace(wh_device *device, void *stream, const whi_trace *t) {
    const uint64_t blocks = t->rays.n / WH_KERNEL_THREADS + 1;
    wh_launch l =
        wh_grid(device, blocks < 1u << 20 ? (uint32_t)blocks : 1u << 20, WH_KERNEL_THREADS);
    l.stream = stream;
    return trace_rays(&l, t);
}

WH_TABLE_ONCE(whi_kdtree_trace) = {trace};

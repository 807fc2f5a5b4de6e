/* faim_update_kernels.c: targeted source (compiled per allocator and target): the kernels of the
 * graph class `faim-update`: all but its batches is that of `faim`. */
#define WH_KERNEL_THREADS 512
#define WHI_FAIM_BY_UPDATE

#include "batch_steps.h"
#include "warpheap/detail/graph/faim_update.h"

WH_FN void prepare(wh_heap_ref heap, const whi_graph_batch *b, uint32_t n) {
    (void)heap;
    (void)b;
    (void)n;
}

#define BY_UPDATE(name, how)                                                                  \
    WH_FN uint32_t name(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v, uint32_t w) { \
        return how(heap, (wh_faim_vertex *)b->vertices, b->locks, v, w);                      \
    }
BY_UPDATE(insert_lanes, wh_faim_insert_arcs)
BY_UPDATE(insert_warp, wh_faim_insert_arc_warp)
BY_UPDATE(erase_lanes, wh_faim_erase_arcs)
BY_UPDATE(erase_warp, wh_faim_erase_arc_warp)

#include "faim_kernels.c"

/* batch_kernels.h: the kernels and the host's side of batches, for every class of graphs: included
 * by its <class>_kernels.c behind vertex_of, insert_step and erase_step (batch_steps.h), and
 * small_insert_step and small_erase_step (batch_small.h). */
#ifndef WHI_GRAPH_BATCH_KERNELS_H
#define WHI_GRAPH_BATCH_KERNELS_H

#include "batch_small.h"
#include "batch_steps.h"
#include "graph_own.h"
#include "warpheap/core/grid_scan.h"

#ifndef WHI_GRAPH_BY_UPDATE /* defined by update_kernels.h, which has batches of its own */
WH_KERNEL(count_arcs, batch_args, a) {
    count_step(&a.b);
}
WH_KERNEL(lay_out, batch_args, a) {
    lay_out_step(&a.b);
}
WH_KERNEL(scatter, batch_args, a) {
    scatter_step(&a.b);
}
WH_KERNEL(insert_all, batch_args, a) {
    insert_step(a.heap, &a.b);
}
WH_KERNEL(erase_all, batch_args, a) {
    erase_step(a.heap, &a.b);
}

WH_KERNEL(insert_small, batch_args, a) {
    small_insert_step(a.heap, &a.b);
}
WH_KERNEL(erase_small, batch_args, a) {
    small_erase_step(a.heap, &a.b);
}

#endif

WH_KERNEL(tell_arcs, batch_args, a) {
    tell_step(&a.b);
}

WH_KERNEL(read_degrees, batch_args, a) {
    for (uint64_t v = wh_thread_id(); v < a.b.n_vertices; v += wh_grid_threads()) {
        a.b.out[v] = degree_of(&a.b, (uint32_t)v);
    }
}

/* What comes before each vertex: the offsets of to_csr. */
WH_FN uint64_t degree_in(const batch_args *a, uint64_t v) {
    return degree_of(&a->b, (uint32_t)v);
}
WH_GRID_SCAN(scan_degrees, batch_args, a, a.b.n_vertices, degree_in, a.b.sums)

WH_KERNEL(look_csr, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        if (b->offset[v] > b->offset[v + 1]) {
            wh_report_error(b->report, WHI_CSR_DESCENDS, v);
        }
        if (degree_of(b, (uint32_t)v) != 0) {
            wh_report_error(b->report, WHI_CSR_HAS_ARCS, v);
        }
    }
}

WH_KERNEL(clear_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        memset(vertex_of(b, v), 0, sizeof *vertex_of(b, v));
        memset(&b->runs[v], 0, sizeof b->runs[v]);
    }
    if (wh_thread_id() == 0) {
        memset(b->counts, 0, sizeof *b->counts);
        memset(b->next, 0, sizeof *b->next);
        memset(b->ever, 0, sizeof *b->ever);
    }
}

/* --- host side -------------------------------------------------------------------------------- */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const batch_args *args);

/* Blocks of so many threads, each with shared memory. */
typedef struct grid_of {
    uint64_t blocks;
    uint32_t threads, shared_bytes;
} grid_of;

static wh_status start_grid(kernel_fn kernel, wh_heap *heap, void *stream, const whi_graph_batch *b,
                            grid_of grid) {
    batch_args a;
    memset(&a, 0, sizeof a);
    a.b = *b;
    TRY(wh_heap_handle(heap, &a.heap));
    wh_launch l =
        wh_grid(wh_heap_device(heap), grid.blocks != 0 ? (uint32_t)grid.blocks : 1, grid.threads);
    l.stream = stream;
    l.shared_bytes = grid.shared_bytes;
    return kernel(&l, &a);
}

/* `gpu` blocks for each SM, but n are enough. On the simulated device a lane is a fiber, and few
 * find the same faults. */
static uint64_t blocks_for(wh_heap *heap, uint64_t n, uint32_t gpu) {
    const wh_device_info *info = wh_device_get_info(wh_heap_device(heap));
    const uint64_t most = info->target == WH_TARGET_SIM ? 4 : (uint64_t)gpu * info->n_sms;
    return n < most ? n : most;
}

/* A kernel with a thread for each of `threads`, or fewer that go round: all that fit on a GPU
 * several times over. */
static wh_status start(kernel_fn kernel, wh_heap *heap, void *stream, const whi_graph_batch *b,
                       uint64_t threads) {
    const grid_of grid = {blocks_for(heap, (threads + BLOCK - 1) / BLOCK, 32), BLOCK,
                          SHARED_BYTES(BLOCK)};
    return start_grid(kernel, heap, stream, b, grid);
}

/* A kernel that works on all lists, of n vertices at most, each of which may want a warp. */
static wh_status work(wh_heap *heap, void *stream, const whi_graph_batch *b, kernel_fn kernel,
                      uint32_t n) {
    const uint64_t blocks = ((uint64_t)n * WH_WARP_SIZE + WORK_BLOCK - 1) / WORK_BLOCK;
    const grid_of grid = {blocks_for(heap, blocks, WORK_BLOCKS), WORK_BLOCK,
                          SHARED_BYTES(WORK_BLOCK)};
    return start_grid(kernel, heap, stream, b, grid);
}

static wh_status graph_tell(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return start(tell_arcs, heap, stream, b, b->arcs);
}

#ifndef WHI_GRAPH_BY_UPDATE
/* A batch of any size; small: the kernel for a small one, or NULL. */
static wh_status update(wh_heap *heap, void *stream, const whi_graph_batch *batch, kernel_fn small,
                        kernel_fn kernel) {
    whi_graph_batch b = *batch;
    if (small != NULL && b.n <= SMALL_BATCH) {
        b.n_buckets = (uint32_t)blocks_for(heap, (b.n + FEW_ARCS - 1) / FEW_ARCS, SMALL_BLOCKS);
        const grid_of grid = {b.n_buckets, SMALL_BLOCK, TABLE_BYTES};
        return start_grid(small, heap, stream, &b, grid);
    }
    TRY(start(count_arcs, heap, stream, &b, b.n));
    TRY(start(lay_out, heap, stream, &b, (b.n + RUNS - 1) / RUNS));
    TRY(start(scatter, heap, stream, &b, b.n));
    return work(heap, stream, &b, kernel, b.n);
}

static wh_status graph_insert(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return update(heap, stream, b, insert_small, insert_all);
}

static wh_status graph_erase(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return update(heap, stream, b, erase_small, erase_all);
}

#endif

#define OF_VERTICES(name, kernel, lanes)                                           \
    static wh_status name(wh_heap *heap, void *stream, const whi_graph_batch *b) { \
        return start(kernel, heap, stream, b, (uint64_t)b->n_vertices * (lanes));  \
    }

OF_VERTICES(graph_degrees, read_degrees, 1)
OF_VERTICES(graph_look, look_csr, 1)
OF_VERTICES(graph_sums, scan_degrees, 1)

#endif

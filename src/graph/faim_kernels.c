/* faim_kernels.c: targeted source (compiled per allocator and target): the kernels of the graph
 * class `faim`. */
#define WH_KERNEL_THREADS 512

#include "batch_small.h"
#include "batch_steps.h"
#include "warpheap/detail/graph/faim.h"

WH_FN wh_faim_vertex *vertex_of(const whi_graph_batch *b, uint64_t v) {
    return (wh_faim_vertex *)b->vertices + v;
}
WH_FN uint32_t degree_of(const whi_graph_batch *b, uint32_t v) {
    return vertex_of(b, v)->degree;
}
WH_FN uint32_t worker_of(uint32_t r, uint32_t degree) {
    return r <= WH_FAIM_LANE_RUN && degree <= WH_FAIM_LANE_DEGREE ? LANES : WARPS;
}

/* The work for a vertex of a batch. */
WH_FN wh_faim_work work_of(const whi_graph_batch *b, whi_graph_item item) {
    wh_faim_work w;
    w.x = item.v != WH_GRAPH_NONE ? vertex_of(b, item.v) : NULL;
    w.run = b->scratch.run + item.start;
    w.order = b->scratch.order + item.start;
    w.r = item.r;
    w.done = b->done;
    w.removed = NULL;
    return w;
}

#ifdef WHI_FAIM_BY_UPDATE /* this is part of faim_update_kernels.c */
#include "update_kernels.h"
#define WHI_FAIM_TABLE whi_faim_update_kernels
#define WHI_FAIM_OWN sizeof(whi_graph_own), WHI_GRAPH_WORKER
#else
#define WHI_FAIM_TABLE whi_faim_kernels
#define WHI_FAIM_OWN 0, 0

/* There is none. */
WH_FN void no_block(wh_heap_ref heap, wh_faim_work w, wh_graph_tally *tally) {
    (void)heap;
    (void)w;
    (void)tally;
}

WORK_STEP(insert_step, wh_faim_insert_lane, wh_faim_insert_warp, no_block)
WORK_STEP(erase_step, wh_faim_erase_lane, wh_faim_erase_warp, no_block)
SMALL_STEP(small_insert_step, wh_faim_insert_lane, wh_faim_insert_warp, no_block)
SMALL_STEP(small_erase_step, wh_faim_erase_lane, wh_faim_erase_warp, no_block)

#include "batch_kernels.h"
#endif

/* --- from arrays ------------------------------------------------------------------------------ */

#include "csr_left.h"

WH_FN int fill_lanes(wh_heap_ref heap, const whi_graph_batch *b, const fill_row *row,
                     wh_graph_tally *tally) {
    wh_faim_vertex *x = row->r != 0 ? vertex_of(b, row->v) : NULL;
    const int taken = wh_faim_fill_lane(heap, x, row->to, row->r);
    tally->applied += taken ? row->r : 0;
    return taken;
}

WH_FN int fill_team(wh_heap_ref heap, const whi_graph_batch *b, wh_team t, const fill_row *row,
                    wh_graph_tally *tally) {
    const int taken = wh_faim_fill_team(heap, t, vertex_of(b, row->v), row->to, row->r);
    tally->applied += taken && t.me == 0 ? row->r : 0;
    return taken;
}

/* --- vertices that go ------------------------------------------------------------------------- */

#define SWEEP_WARP_DEGREE UINT32_MAX

WH_FN void drop_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    wh_faim_page *page = NULL;
    if (v != WH_GRAPH_NONE) {
        page = vertex_of(b, v)->first;
        memset(vertex_of(b, v), 0, sizeof(wh_faim_vertex));
    }
    wh_faim_free_lists_(heap, page);
}

/* Erasing by the bitmap. */
WH_FN wh_faim_work sweep_of(const whi_graph_batch *b, uint32_t v) {
    wh_faim_work w;
    w.x = v != WH_GRAPH_NONE ? vertex_of(b, v) : NULL;
    w.run = w.order = NULL;
    w.r = 0;
    w.done = NULL;
    w.removed = b->sweep.removed;
    return w;
}

WH_FN uint32_t sweep_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    wh_graph_tally tally = no_tally();
    wh_faim_erase_lane(heap, sweep_of(b, v), &tally);
    return tally.applied;
}

WH_FN uint32_t sweep_warp(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    wh_graph_tally tally = no_tally();
    wh_faim_erase_warp(heap, sweep_of(b, v), &tally);
    return tally.applied;
}

WH_FN uint32_t sweep_block(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v) {
    (void)heap;
    (void)b;
    (void)v;
    return 0; /* there is none */
}

#include "sweep_steps.h"

/* --- looking ---------------------------------------------------------------------------------- */

WH_KERNEL(has_arcs, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t i = wh_thread_id(); i < b->n; i += wh_grid_threads()) {
        const uint32_t v = b->from[i];
        b->done[i] = v < b->n_vertices && wh_faim_has(vertex_of(b, v), b->to[i]);
    }
}

/* A lane a vertex. */
WH_KERNEL(copy_out, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        const wh_faim_vertex *x = vertex_of(b, v);
        const wh_faim_page *page = x->first;
        for (uint32_t i = 0; i < x->degree; i++) {
            page = i != 0 && i % WH_FAIM_ENTRIES == 0 ? page->next : page;
            b->out[b->offset[v] + i] = page->to[i % WH_FAIM_ENTRIES];
        }
    }
}

WH_KERNEL(check_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        uint32_t broken = wh_faim_is_sound(a.heap, vertex_of(b, v), b->n_vertices);
        broken = broken == 0 && b->runs[v].count != 0 ? 3 : broken;
        broken = broken == 0 && wh_graph_is_locked(b->locks, (uint32_t)v) ? 4 : broken;
        if (broken != 0) {
            wh_report_error(b->report, broken, v);
        }
    }
}

/* Where a page lies after the heap has moved. */
WH_FN wh_faim_page *moved_page(wh_faim_page *page, int64_t moved) {
    return page != NULL ? (wh_faim_page *)(void *)((unsigned char *)page + moved) : NULL;
}

WH_KERNEL(rebase_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        wh_faim_vertex *x = vertex_of(b, v);
        x->first = moved_page(x->first, b->moved);
        x->last = moved_page(x->last, b->moved);
        for (wh_faim_page *page = x->first; page != NULL; page = page->next) {
            page->next = moved_page(page->next, b->moved);
        }
    }
}

WH_KERNEL(count_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    uint64_t pages = 0, most = 0;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        const wh_faim_vertex *x = vertex_of(b, v);
        pages += x->pages;
        most = x->degree > most ? x->degree : most;
    }
    wh_add_u64_relaxed(&b->sums[0], pages);
    wh_add_u64_relaxed(&b->sums[1], pages * sizeof(wh_faim_page));
    (void)wh_fetch_max_u64_relaxed(&b->sums[2], most);
}

OF_VERTICES(graph_clear, clear_all, 1)
OF_VERTICES(graph_to_csr, copy_out, 1)
OF_VERTICES(graph_destroy, destroy_all, 1)
OF_VERTICES(graph_check, check_all, 1)
OF_VERTICES(graph_rebase, rebase_all, 1)
OF_VERTICES(graph_stats, count_all, 1)

static wh_status graph_has(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return start(has_arcs, heap, stream, b, b->n);
}

WHI_GRAPH_TABLE(WHI_FAIM_TABLE) = {
    WH_OF_(NAME),   sizeof(wh_faim_vertex),
    graph_clear,    graph_insert,
    graph_erase,    graph_has,
    graph_from_csr, graph_degrees,
    graph_sums,     graph_to_csr,
    graph_destroy,  graph_check,
    graph_rebase,   graph_stats,
    graph_tell,     NULL,
    graph_sweep,    graph_look,
    graph_fill,     WHI_FAIM_OWN,
};

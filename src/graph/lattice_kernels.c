/* lattice_kernels.c: targeted source (compiled per allocator and target): the kernels of the graph
 * class `lattice`. */
#define WH_KERNEL_THREADS 512
#ifndef WHI_LATTICE_TABLE /* else it is another class, of the same workers: ouro_kernels.c */
#define WHI_LATTICE_TABLE whi_lattice_kernels
#endif

#include "batch_small.h"
#include "batch_steps.h"
#include "warpheap/detail/graph/lattice.h"

WH_FN wh_lattice_vertex *vertex_of(const whi_graph_batch *b, uint64_t v) {
    return (wh_lattice_vertex *)b->vertices + v;
}
WH_FN uint32_t degree_of(const whi_graph_batch *b, uint32_t v) {
    return vertex_of(b, v)->degree;
}
WH_FN uint32_t worker_of(uint32_t r, uint32_t degree) {
    if (r <= WH_LATTICE_LANE_RUN && degree <= WH_LATTICE_LANE_DEGREE) {
        return LANES;
    }
    return r + degree <= WH_LATTICE_WARP_WORK ? WARPS : BLOCKS;
}

/* The work for a vertex of a batch. */
WH_FN wh_lattice_work work_of(const whi_graph_batch *b, whi_graph_item item) {
    wh_lattice_work w;
    w.x = item.v != WH_GRAPH_NONE ? vertex_of(b, item.v) : NULL;
    w.run = b->scratch.run + item.start;
    w.order = orders(b) ? b->scratch.order + item.start : NULL;
    w.r = item.r;
    w.done = b->done;
    w.table.keys = b->scratch.keys + 2 * (uint64_t)item.start;
    w.table.numbers = b->scratch.numbers + 2 * (uint64_t)item.start;
    w.table.size = 2 * w.r;
    w.words = b->words;
    w.sorted = b->sorted;
    w.overwrites = b->overwrites;
    w.multi = b->multi;
    w.both = b->n > b->arcs;
    w.arcs = b->arcs;
    for (uint32_t k = 0; k < WH_GRAPH_MOST_VALUES; k++) {
        w.values[k] = b->values[k];
    }
    return w;
}

/* A worker of a graph whose arcs have no values, and no order: with constants, so that its kernels
 * have nothing of them. */
#define PLAIN(name)                                                                       \
    WH_FN void plain_##name(wh_heap_ref heap, wh_lattice_work w, wh_graph_tally *tally) { \
        w.words = 0;                                                                      \
        w.sorted = w.overwrites = w.multi = w.both = 0;                                   \
        name(heap, w, tally);                                                             \
    }
PLAIN(wh_lattice_insert_lane)
PLAIN(wh_lattice_insert_warp)
PLAIN(wh_lattice_insert_block)
PLAIN(wh_lattice_erase_lane)
PLAIN(wh_lattice_erase_warp)
PLAIN(wh_lattice_erase_block)

WORK_STEP(insert_step, plain_wh_lattice_insert_lane, plain_wh_lattice_insert_warp,
          plain_wh_lattice_insert_block)
WORK_STEP(erase_step, plain_wh_lattice_erase_lane, plain_wh_lattice_erase_warp,
          plain_wh_lattice_erase_block)
SMALL_STEP(small_insert_step, plain_wh_lattice_insert_lane, plain_wh_lattice_insert_warp,
           plain_wh_lattice_insert_block)
SMALL_STEP(small_erase_step, plain_wh_lattice_erase_lane, plain_wh_lattice_erase_warp,
           plain_wh_lattice_erase_block)

#include "batch_kernels.h"
#include "lattice_fill.h"
#include "lattice_sweep.h"

/* --- graphs with values or an order ----------------------------------------------------------- */

WORK_STEP(rich_insert_step, wh_lattice_insert_lane, wh_lattice_insert_warp, wh_lattice_insert_block)
WORK_STEP(rich_erase_step, wh_lattice_erase_lane, wh_lattice_erase_warp, wh_lattice_erase_block)

/* For large batches and small ones. */
WH_KERNEL(rich_insert, batch_args, a) {
    rich_insert_step(a.heap, &a.b);
}
WH_KERNEL(rich_erase, batch_args, a) {
    rich_erase_step(a.heap, &a.b);
}

static int is_rich(const whi_graph_batch *b) {
    return b->words != 0 || b->sorted || b->multi;
}

static wh_status lattice_insert(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return is_rich(b) ? update(heap, stream, b, NULL, rich_insert) : graph_insert(heap, stream, b);
}
static wh_status lattice_erase(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return is_rich(b) ? update(heap, stream, b, NULL, rich_erase) : graph_erase(heap, stream, b);
}
static wh_status lattice_from_csr(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return fill_from_csr(heap, stream, b, is_rich(b) ? rich_insert : insert_all);
}

/* A warp goes through 32 vertices at a time: a lane has its own if it has few arcs, all have the
 * others one after the other. Those with very many are left to the block. The simulated device has
 * small graphs. */
#define EXPIRE_LANE (WH_FILE_IS_CUDA ? 16u : 4u)
#define EXPIRE_WARP (WH_FILE_IS_CUDA ? 2048u : 24u)

WH_FN wh_lattice_limit limit_of(const whi_graph_batch *b, uint64_t v) {
    wh_lattice_limit limit;
    limit.removed = NULL;
    limit.k = b->limit_value;
    limit.before = b->limit_before;
    limit.from = b->limit_once ? (uint32_t)v : 0; /* of both ways, the smaller end's counts */
    return limit;
}

WH_FN void expire_warp_step(wh_heap_ref heap, const whi_graph_batch *b, uint64_t v,
                            wh_graph_tally *tally) {
    const uint32_t degree = v < b->n_vertices ? vertex_of(b, v)->degree : 0;
    wh_lattice_expire_lanes(heap, degree != 0 && degree <= EXPIRE_LANE ? vertex_of(b, v) : NULL,
                            b->words, limit_of(b, v), tally);
    for (wh_mask rest = wh_ballot(WH_FULL_WARP, degree > EXPIRE_LANE && degree <= EXPIRE_WARP);
         rest != 0; rest &= rest - 1) {
        const uint64_t its = v - wh_lane_id() + wh_mask_leader(rest);
        wh_lattice_expire_team(heap, wh_team_warp(), vertex_of(b, its), b->words, limit_of(b, its),
                               tally);
    }
}

/* Vertices with more than EXPIRE_WARP arcs, of as many from `first` on as a block has threads. */
WH_FN void expire_block_step(wh_heap_ref heap, const whi_graph_batch *b, uint64_t first,
                             wh_graph_tally *tally) {
    uint32_t *hubs = (uint32_t *)wh_shared() + wh_block_threads() / WH_WARP_SIZE;
    const uint64_t v = first + wh_thread_in_block();
    const int is = v < b->n_vertices && vertex_of(b, v)->degree > EXPIRE_WARP;
    uint32_t n;
    const uint32_t rank = wh_team_rank(wh_team_block(), is, &n);
    WH_NO_UNROLL
    for (uint32_t k = 0; k < n; k++) { /* one place is enough: each tells when it is his turn */
        if (is && rank == k) {
            hubs[0] = (uint32_t)v;
        }
        wh_syncthreads();
        const uint32_t its = hubs[0];
        wh_lattice_expire_team(heap, wh_team_block(), vertex_of(b, its), b->words, limit_of(b, its),
                               tally);
        wh_syncthreads();
    }
}

WH_KERNEL(expire_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    wh_graph_tally tally = no_tally();
    if (wh_thread_id() == 0) {
        memset(b->next, 0, sizeof *b->next);
    }
    FOR_BLOCK_ROUNDS(v, b->n_vertices) {
        expire_block_step(a.heap, b, v - wh_thread_in_block(), &tally);
        wh_syncthreads(); /* what becomes shorter now, has been looked at */
        expire_warp_step(a.heap, b, v, &tally);
    }
    add_tally(b->counts, tally);
}
OF_VERTICES(graph_expire, expire_all, 1)

/* --- looking ------------------------------------------------------------------------------------
 */

#define LONG_LIST 64u /* entries of an adjacency that one lane looks through */

/* Where w is among the arcs of v, looked at by a lane; NONE: nowhere. */
WH_FN uint32_t place_by_lane(const whi_graph_batch *b, const uint32_t *array, uint32_t n,
                             uint32_t w) {
    uint32_t at = WH_GRAPH_NONE;
    if (b->sorted) {
        const uint32_t i = wh_sorted_below(array, n, w, 0);
        return i < n && array[i] == w ? i : WH_GRAPH_NONE;
    }
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        at = array[i] == w ? i : at;
    }
    return at;
}

/* The same for the lanes of a full warp, each with its own; long arrays that are not sorted are
 * looked through by all. */
WH_FN uint32_t place_by_warp(const whi_graph_batch *b, const uint32_t *array, uint32_t n,
                             uint32_t w) {
    const int is_long = n > LONG_LIST && !b->sorted;
    uint32_t at = is_long ? WH_GRAPH_NONE : place_by_lane(b, array, n, w);
    for (wh_mask lists = wh_ballot(WH_FULL_WARP, is_long); lists != 0; lists &= lists - 1) {
        const uint32_t lane = wh_mask_leader(lists);
        const uint32_t *its = (const uint32_t *)(uintptr_t)wh_shfl_u64(
            WH_FULL_WARP, (uint64_t)(uintptr_t)array, lane);
        const uint32_t its_n = wh_shfl_u32(WH_FULL_WARP, n, lane);
        const uint32_t wanted = wh_shfl_u32(WH_FULL_WARP, w, lane);
        uint32_t mine = WH_GRAPH_NONE;
        for (uint32_t k = wh_lane_id(); k < its_n; k += WH_WARP_SIZE) {
            mine = its[k] == wanted ? k : mine;
        }
        const wh_mask with = wh_ballot(WH_FULL_WARP, mine != WH_GRAPH_NONE);
        const uint32_t found =
            wh_shfl_u32(WH_FULL_WARP, mine, with != 0 ? wh_mask_leader(with) : lane);
        at = wh_lane_id() == lane ? found : at;
    }
    return at;
}

WH_KERNEL(has_arcs, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    FOR_ROUNDS(i, b->n) {
        const uint32_t v = i < b->n ? b->from[i] : WH_GRAPH_NONE;
        const int is = v < b->n_vertices;
        wh_lattice_vertex *x = is ? vertex_of(b, v) : NULL;
        const uint32_t key = is ? b->to[i] : WH_GRAPH_NONE, degree = is ? x->degree : 0;
        const uint32_t at = place_by_warp(b, is ? wh_lattice_array(x) : NULL, degree, key);
        if (i < b->n) {
            b->done[i] = at != WH_GRAPH_NONE;
        }
        for (uint32_t k = 0; k < b->words && at != WH_GRAPH_NONE; k++) {
            if (b->values[k] != NULL) {
                b->values[k][i] = wh_lattice_values_at(wh_lattice_view_of(x, b->words), k)[at];
            }
        }
    }
}

/* A warp a vertex. */
WH_KERNEL(copy_out, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    const uint64_t warps = wh_grid_threads() / WH_WARP_SIZE;
    for (uint64_t v = wh_thread_id() / WH_WARP_SIZE; v < b->n_vertices; v += warps) {
        wh_lattice_vertex *x = vertex_of(b, v);
        const uint32_t *array = wh_lattice_array(x);
        for (uint32_t i = wh_lane_id(); i < x->degree; i += WH_WARP_SIZE) {
            b->out[b->offset[v] + i] = array[i];
        }
        for (uint32_t k = 0; k < b->words; k++) {
            const uint32_t *values = wh_lattice_values_at(wh_lattice_view_of(x, b->words), k);
            for (uint32_t i = wh_lane_id(); i < x->degree && b->values[k] != NULL;
                 i += WH_WARP_SIZE) {
                b->values[k][b->offset[v] + i] = values[i];
            }
        }
    }
}

WH_KERNEL(check_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        uint32_t broken =
            wh_lattice_is_sound(a.heap, vertex_of(b, v), b->n_vertices, b->words, b->sorted);
        broken = broken == 0 && b->runs[v].count != 0 ? 3 : broken;
        broken = broken == 0 && wh_graph_is_locked(b->locks, (uint32_t)v) ? 4 : broken;
        if (broken != 0) {
            wh_report_error(b->report, broken, v);
        }
    }
}

WH_KERNEL(rebase_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        wh_lattice_vertex *x = vertex_of(b, v);
        if (x->capacity != 0) {
            x->block = (uint32_t *)(void *)((unsigned char *)x->block + b->moved);
        }
    }
}

WH_KERNEL(count_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    uint64_t blocks = 0, bytes = 0, most = 0;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        const wh_lattice_vertex *x = vertex_of(b, v);
        blocks += x->capacity != 0;
        bytes += wh_lattice_bytes(x->capacity, b->words);
        most = x->degree > most ? x->degree : most;
    }
    wh_add_u64_relaxed(&b->sums[0], blocks);
    wh_add_u64_relaxed(&b->sums[1], bytes);
    (void)wh_fetch_max_u64_relaxed(&b->sums[2], most);
}

OF_VERTICES(graph_clear, clear_all, 1)
OF_VERTICES(graph_to_csr, copy_out, WH_WARP_SIZE)
OF_VERTICES(graph_destroy, destroy_all, 1)
OF_VERTICES(graph_check, check_all, 1)
OF_VERTICES(graph_rebase, rebase_all, 1)
OF_VERTICES(graph_stats, count_all, 1)

static wh_status graph_has(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return start(has_arcs, heap, stream, b, b->n);
}

WHI_GRAPH_TABLE(WHI_LATTICE_TABLE) = {
    WH_OF_(NAME),
    sizeof(wh_lattice_vertex),
    graph_clear,
    lattice_insert,
    lattice_erase,
    graph_has,
    lattice_from_csr,
    graph_degrees,
    graph_sums,
    graph_to_csr,
    graph_destroy,
    graph_check,
    graph_rebase,
    graph_stats,
    graph_tell,
    graph_expire,
    graph_sweep,
    graph_look,
    graph_fill,
    0,
    WHI_GRAPH_VALUES | WHI_GRAPH_SORTED | WHI_GRAPH_MULTI,
};

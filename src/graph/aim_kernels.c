/* aim_kernels.c: targeted source (compiled per allocator and target): the kernels of the graph
 * class `aim`. */
#define WH_KERNEL_THREADS 512

#include "batch_steps.h"
#include "warpheap/detail/graph/aim.h"

/* Beside the records. */
typedef struct aim_own {
    whi_graph_own head;
    uint64_t blocks; /* that check has found */
    uint64_t wanted; /* by rows of arrays; 0 when quiet */
    wh_aim_arena arena;
} aim_own;

WH_FN aim_own *own_of(const whi_graph_batch *b) {
    return (aim_own *)(void *)b->own;
}
WH_FN wh_aim_arena *arena_of(const whi_graph_batch *b) {
    return &own_of(b)->arena;
}
WH_FN wh_aim_vertex *vertex_of(const whi_graph_batch *b, uint64_t v) {
    return (wh_aim_vertex *)b->vertices + v;
}
WH_FN uint32_t degree_of(const whi_graph_batch *b, uint32_t v) {
    return vertex_of(b, v)->degree;
}
/* Batches are not laid out. */
WH_FN uint32_t worker_of(uint32_t r, uint32_t degree) {
    (void)r;
    (void)degree;
    return LANES;
}

WH_FN void prepare(wh_heap_ref heap, const whi_graph_batch *b, uint32_t n) {
    wh_aim_grow(heap, arena_of(b), n); /* each arc may need a block */
}

WH_FN uint32_t insert_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v, uint32_t w) {
    uint32_t how = WH_GRAPH_NO_CHANGE;
    int pending = v != WH_GRAPH_NONE;
    (void)heap;
    for (uint32_t attempt = 0; wh_any(WH_FULL_WARP, pending); attempt++) {
        if (pending && wh_graph_try_lock(b->locks, v)) {
            how = wh_aim_put_(arena_of(b), vertex_of(b, v), w);
            wh_graph_unlock(b->locks, v);
            pending = 0;
        } else if (pending) {
            wh_backoff(attempt);
        }
    }
    return how;
}

WH_FN uint32_t insert_warp(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v, uint32_t w) {
    (void)heap;
    wh_graph_lock_warp(b->locks, v);
    const uint32_t how = wh_aim_put_warp_(arena_of(b), vertex_of(b, v), w);
    wh_graph_unlock_warp(b->locks, v);
    return how;
}

WH_FN uint32_t erase_lanes(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v, uint32_t w) {
    (void)heap;
    return v != WH_GRAPH_NONE ? wh_aim_take_(arena_of(b), vertex_of(b, v), w) : WH_GRAPH_NO_CHANGE;
}

WH_FN uint32_t erase_warp(wh_heap_ref heap, const whi_graph_batch *b, uint32_t v, uint32_t w) {
    (void)heap;
    return wh_aim_take_warp_(arena_of(b), vertex_of(b, v), w);
}

#include "update_kernels.h"

/* --- from arrays ------------------------------------------------------------------------------ */

#include "csr_left.h"

/* Of a row so many arcs have found blocks. What fill_lanes and fill_team return. */
WH_FN int add_filled_row(uint32_t taken, const fill_row *row, wh_graph_tally *tally) {
    tally->applied += taken;
    tally->refused += taken != 0 ? row->r - taken : 0; /* each arc stands for itself */
    return taken != 0;
}

/* All blocks that a warp's rows need, by one atomic. */
WH_FN int fill_lanes(wh_heap_ref heap, const whi_graph_batch *b, const fill_row *row,
                     wh_graph_tally *tally) {
    wh_aim_arena *arena = arena_of(b);
    const uint32_t wanted = wh_aim_blocks_for(row->r), up_to = wh_scan_add_warp_u32(wanted);
    const uint32_t all = wh_shfl_u32(WH_FULL_WARP, up_to, WH_WARP_SIZE - 1);
    uint32_t first = 0;
    (void)heap;
    if (wh_lane_id() == 0) {
        first = wh_aim_new_row_(arena, all);
    }
    first = wh_shfl_u32(WH_FULL_WARP, first, 0);
    if (row->r == 0) {
        return 1;
    }
    first = first != WH_GRAPH_NONE ? first + up_to - wanted : WH_GRAPH_NONE;
    return add_filled_row(
        wh_aim_fill(arena, wh_team_lane(), vertex_of(b, row->v), first, row->to, row->r), row,
        tally);
}

WH_FN int fill_team(wh_heap_ref heap, const whi_graph_batch *b, wh_team t, const fill_row *row,
                    wh_graph_tally *tally) {
    wh_aim_arena *arena = arena_of(b);
    uint32_t first = 0;
    (void)heap;
    if (t.me == 0) {
        first = wh_aim_new_row_(arena, wh_aim_blocks_for(row->r));
    }
    first = wh_team_firsts(t, first);
    const uint32_t taken = wh_aim_fill(arena, t, vertex_of(b, row->v), first, row->to, row->r);
    return t.me == 0 ? add_filled_row(taken, row, tally) : taken != 0;
}

WH_KERNEL(want_blocks, batch_args, a) {
    uint64_t wanted = 0;
    FOR_ROUNDS(v, a.b.n_vertices) {
        wanted += wh_aim_blocks_for(row_of(&a.b, v).r);
    }
    add_all(&own_of(&a.b)->wanted, wanted);
}

/* One block. */
WH_KERNEL(take_wanted, batch_args, a) {
    aim_own *own = own_of(&a.b);
    if (wh_thread_id() < WH_WARP_SIZE) {
        const uint64_t wanted = own->wanted;
        wh_aim_grow(a.heap, &own->arena,
                    wanted < WH_AIM_MOST_BLOCKS ? (uint32_t)wanted : WH_AIM_MOST_BLOCKS);
        if (wh_lane_id() == 0) {
            own->wanted = 0;
        }
    }
}

/* --- looking ---------------------------------------------------------------------------------- */

WH_KERNEL(has_arcs, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t i = wh_thread_id(); i < b->n; i += wh_grid_threads()) {
        const uint32_t v = b->from[i], w = b->to[i];
        b->done[i] =
            is_vertex(b, v) && is_vertex(b, w) && wh_aim_has(arena_of(b), vertex_of(b, v), w);
    }
}

/* A lane a vertex. */
WH_KERNEL(copy_out, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        const wh_aim_vertex *x = vertex_of(b, v);
        const wh_aim_block *block = NULL;
        uint64_t to = b->offset[v];
        for (uint32_t i = 0; i < x->used; i++) {
            if (i % WH_AIM_ENTRIES == 0) {
                block = wh_aim_at(arena_of(b), i == 0 ? x->first : block->next);
            }
            if (block->to[i % WH_AIM_ENTRIES] != WH_AIM_GONE) {
                b->out[to++] = block->to[i % WH_AIM_ENTRIES];
            }
        }
    }
}

/* An arena that there is keeps its segments. */
WH_KERNEL(clear_arena, batch_args, a) {
    wh_aim_arena *arena = arena_of(&a.b);
    if (wh_thread_id() == 0) {
        if (arena->n_segments == 0) {
            arena->log2 = wh_msb32((uint32_t)(a.b.arena_bytes / sizeof(wh_aim_block)));
        }
        arena->next = 0;
        a.b.own->arcs = 0;
    }
}

/* One block. */
WH_KERNEL(destroy_all, batch_args, a) {
    wh_aim_arena *arena = arena_of(&a.b);
    if (wh_thread_id() < WH_WARP_SIZE) {
        for (uint32_t first = 0; first < arena->n_segments; first += WH_WARP_SIZE) {
            const uint32_t i = first + wh_lane_id();
            wh_free_lanes(a.heap, WH_FULL_WARP, i < arena->n_segments ? arena->segment[i] : NULL);
        }
    }
}

WH_KERNEL(check_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        uint32_t broken = wh_aim_is_sound(arena_of(b), vertex_of(b, v), b->n_vertices);
        broken = broken == 0 && wh_graph_is_locked(b->locks, (uint32_t)v) ? 4 : broken;
        if (broken != 0) {
            wh_report_error(b->report, broken, v);
        }
        wh_add_u64_relaxed(&own_of(b)->blocks, wh_aim_blocks_for(vertex_of(b, v)->used));
    }
}

/* Behind it. One block. */
WH_KERNEL(check_arena, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    aim_own *own = own_of(b);
    const wh_aim_arena *arena = &own->arena;
    if (wh_thread_id() == 0) {
        const uint32_t next = arena->next < arena->limit ? arena->next : arena->limit;
        if (own->blocks != next) { /* I3 */
            wh_report_error(b->report, 3, b->n_vertices);
        }
        own->blocks = 0;
        for (uint32_t i = 0; i < arena->n_segments; i++) {
            if (!wh_owns(a.heap, arena->segment[i])) {
                wh_report_error(b->report, 1, b->n_vertices);
            }
        }
    }
}

WH_KERNEL(rebase_all, batch_args, a) {
    wh_aim_arena *arena = arena_of(&a.b);
    for (uint64_t i = wh_thread_id(); i < arena->n_segments; i += wh_grid_threads()) {
        unsigned char *segment = (unsigned char *)arena->segment[i];
        arena->segment[i] = (wh_aim_block *)(void *)(segment + a.b.moved);
    }
}

WH_KERNEL(count_all, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    uint64_t most = 0;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        most = vertex_of(b, v)->degree > most ? vertex_of(b, v)->degree : most;
    }
    if (wh_thread_id() == 0) {
        const wh_aim_arena *arena = arena_of(b);
        wh_add_u64_relaxed(&b->sums[0], arena->n_segments);
        wh_add_u64_relaxed(&b->sums[1], (uint64_t)arena->limit * sizeof(wh_aim_block));
    }
    (void)wh_fetch_max_u64_relaxed(&b->sums[2], most);
}

#define LEAST_SEGMENT 65536u

/* Bytes of a segment: a power of two that the heap's allocator serves. 4,096 of them have room for
 * 64 blocks a vertex, or for as much as an option says. */
static uint64_t segment_bytes(wh_heap *heap, const whi_graph_batch *b) {
    const uint64_t most = wh_heap_allocator(heap)->max_size;
    const uint64_t wanted = b->arena_bytes != 0 ? b->arena_bytes : b->n_vertices;
    uint64_t bytes = b->arena_bytes != 0 ? sizeof(wh_aim_block) : LEAST_SEGMENT;
    while (bytes < wanted && bytes < (uint64_t)1 << 32) {
        bytes *= 2;
    }
    while (bytes > most && bytes > sizeof(wh_aim_block)) {
        bytes /= 2;
    }
    return bytes;
}

static wh_status graph_clear(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    whi_graph_batch own = *b;
    own.arena_bytes = segment_bytes(heap, b);
    TRY(start(clear_arena, heap, stream, &own, 1));
    return start(clear_all, heap, stream, b, b->n_vertices);
}

static wh_status aim_fill(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    TRY(start(want_blocks, heap, stream, b, b->n_vertices));
    TRY(start(take_wanted, heap, stream, b, 1));
    return graph_fill(heap, stream, b);
}

static wh_status graph_check(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    TRY(start(check_all, heap, stream, b, b->n_vertices));
    return start(check_arena, heap, stream, b, 1);
}

static wh_status graph_destroy(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return start(destroy_all, heap, stream, b, 1);
}

OF_VERTICES(graph_to_csr, copy_out, 1)
OF_VERTICES(graph_rebase, rebase_all, 1)
OF_VERTICES(graph_stats, count_all, 1)

static wh_status graph_has(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    return start(has_arcs, heap, stream, b, b->n);
}

WH_TABLE(whi_aim_kernels) = {
    WH_OF_(NAME),
    sizeof(wh_aim_vertex),
    graph_clear,
    graph_insert,
    graph_erase,
    graph_has,
    graph_from_csr,
    graph_degrees,
    graph_sums,
    graph_to_csr,
    graph_destroy,
    graph_check,
    graph_rebase,
    graph_stats,
    graph_tell,
    NULL,
    NULL,
    graph_look,
    aim_fill,
    sizeof(aim_own),
    WHI_GRAPH_ARENA | WHI_GRAPH_WORKER,
};

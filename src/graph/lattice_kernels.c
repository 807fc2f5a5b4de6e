/* lattice_kernels.c: targeted source (compiled per allocator and target): the kernels of the graph
 * class `lattice`.
 *
 * A batch takes six kernels. count_arcs: an atomic for each source that a warp has counts the run
 * of the source, and gives each arc its rank there. lay_out: the arc of rank 0 finds a place for
 * all of its run, and says who shall work on it. scatter: the arcs go there. Then lanes, warps and
 * blocks of threads work, each on a list of vertices. That is a counting sort by source, without
 * passes over digits: what an arc costs is three accesses at random places, all within runs and
 * records.
 */
#define WH_KERNEL_THREADS 512

#include "lattice.h"

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/detail/graph/lattice.h"

#define BLOCK 256u
#define LARGE_BLOCK 512u
#define WORK_BLOCKS 8u    /* of an SM, of the kernels that work on lists */
#define SMALL_BATCH 2048u /* arcs that one block of threads takes */
#define SIM_SMALL_BATCH 128u
#define SHARED_BYTES(threads) (((threads) / WH_WARP_SIZE + 1) * N_SUMS * 4)

typedef struct batch_args {
    wh_heap_ref heap;
    whi_lattice_batch b;
} batch_args;

/* For each item i of rounds that the lanes of a warp make together; i >= n for some in the last. */
#define FOR_ROUNDS(i, n)                                                             \
    for (uint64_t i = wh_thread_id(), whi_first = i - wh_lane_id(); whi_first < (n); \
         i += wh_grid_threads(), whi_first += wh_grid_threads())

/* The same for threads of a block. */
#define FOR_BLOCK_ROUNDS(i, n)                                                               \
    for (uint64_t i = wh_thread_id(), whi_first = i - wh_thread_in_block(); whi_first < (n); \
         i += wh_grid_threads(), whi_first += wh_grid_threads())

/* --- where the arcs of a batch go ------------------------------------------------------------ */

WH_FN void count_step(const whi_lattice_batch *b) {
    uint32_t bad = 0;
    if (wh_thread_id() == 0) {
        memset(b->next, 0, sizeof *b->next);
    }
    FOR_ROUNDS(i, b->n) {
        const uint32_t v = i < b->n ? b->from[i] : WH_LATTICE_NONE;
        const int counts = v < b->n_vertices && b->to[i] < b->n_vertices;
        const wh_mask mask = wh_ballot(WH_FULL_WARP, counts);
        uint32_t rank = WH_LATTICE_NONE;
        if (counts) {
            const wh_group g = wh_group_by_u32(mask, v);
            uint32_t before = 0;
            if (wh_group_leads(g)) {
                before = wh_fetch_add_u32_relaxed(&b->runs[v].count, g.n);
            }
            rank = wh_shfl_u32(mask, before, g.leader) + g.rank;
        }
        wh_syncwarp(WH_FULL_WARP);
        if (i < b->n) {
            b->scratch.rank[i] = rank;
            bad += rank == WH_LATTICE_NONE;
            if (b->done != NULL) {
                b->done[i] = rank == WH_LATTICE_NONE ? WH_GRAPH_NO_VERTEX : WH_GRAPH_NO_CHANGE;
            }
        }
    }
    bad = wh_reduce_add_u32(WH_FULL_WARP, bad);
    if (bad != 0 && wh_lane_id() == 0) {
        wh_add_u64_relaxed(&b->counts->result.no_vertex, bad);
    }
}

enum { PLACES, LANES, WARPS, BLOCKS, N_SUMS };

/* Who works on a vertex. */
WH_FN uint32_t worker_of(uint32_t r, uint32_t degree) {
    if (r <= WH_LATTICE_LANE_RUN && degree <= WH_LATTICE_LANE_DEGREE) {
        return LANES;
    }
    return r + degree <= WH_LATTICE_WARP_WORK ? WARPS : BLOCKS;
}

/* A run of r arcs of v, or none (r 0), gets a place, and v a worker. Its place. All threads of a
 * block; one atomic each for all of them. */
WH_FN uint32_t place_run(const whi_lattice_batch *b, uint32_t v, uint32_t r, int places) {
    uint32_t *sums = (uint32_t *)wh_shared(); /* [warps][N_SUMS], and the block's, [N_SUMS] */
    const uint32_t lane = wh_lane_id(), warps = wh_block_threads() / WH_WARP_SIZE;
    uint32_t *mine = sums + wh_thread_in_block() / WH_WARP_SIZE * N_SUMS;
    const uint32_t worker = r != 0 ? worker_of(r, b->vertices[v].degree) : (uint32_t)N_SUMS;
    const uint32_t up_to = wh_scan_add_warp_u32(places ? r : 0);
    wh_mask with[N_SUMS];
    for (uint32_t k = LANES; k < N_SUMS; k++) {
        with[k] = wh_ballot(WH_FULL_WARP, worker == k);
    }
    wh_syncthreads();
    if (lane == WH_WARP_SIZE - 1) {
        mine[PLACES] = up_to;
        for (uint32_t k = LANES; k < N_SUMS; k++) {
            mine[k] = wh_popc32(with[k]);
        }
    }
    wh_syncthreads();
    if (wh_thread_in_block() < N_SUMS) { /* a counter each: what comes before each warp */
        const uint32_t k = wh_thread_in_block();
        uint32_t sum = 0;
        for (uint32_t w = 0; w < warps; w++) {
            const uint32_t its = sums[w * N_SUMS + k];
            sums[w * N_SUMS + k] = sum;
            sum += its;
        }
        uint32_t *const at[N_SUMS] = {&b->counts->placed, &b->counts->lanes, &b->counts->warps,
                                      &b->counts->blocks};
        sums[warps * N_SUMS + k] = sum != 0 ? wh_fetch_add_u32_relaxed(at[k], sum) : 0;
    }
    wh_syncthreads();
    const uint32_t *base = sums + warps * N_SUMS;
    if (worker == LANES) {
        b->scratch.lanes[base[LANES] + mine[LANES] + wh_mask_rank(with[LANES])] = v;
    } else if (worker == WARPS) {
        b->scratch.warps[base[WARPS] + mine[WARPS] + wh_mask_rank(with[WARPS])] = v;
    } else if (worker == BLOCKS) {
        b->scratch.blocks[base[BLOCKS] + mine[BLOCKS] + wh_mask_rank(with[BLOCKS])] = v;
    }
    return base[PLACES] + mine[PLACES] + up_to - r;
}

WH_FN void lay_out_step(const whi_lattice_batch *b) {
    FOR_BLOCK_ROUNDS(i, b->n) {
        const int first = i < b->n && b->scratch.rank[i] == 0;
        const uint32_t v = first ? b->from[i] : 0;
        const uint32_t start = place_run(b, v, first ? b->runs[v].count : 0, 1);
        if (first) {
            b->runs[v].start = start;
        }
    }
}

WH_FN void scatter_step(const whi_lattice_batch *b) {
    for (uint64_t i = wh_thread_id(); i < b->n; i += wh_grid_threads()) {
        const uint32_t rank = b->scratch.rank[i];
        if (rank != WH_LATTICE_NONE) {
            const uint32_t at = b->runs[b->from[i]].start + rank;
            b->scratch.run[at] = b->to[i];
            if (b->done != NULL) {
                b->scratch.order[at] = (uint32_t)i;
            }
        }
    }
}

/* from_csr: the runs are the adjacencies to come. */
WH_KERNEL(runs_of_csr, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    FOR_BLOCK_ROUNDS(v, b->n_vertices) {
        const int is = v < b->n_vertices;
        const uint64_t first = is ? b->offset[v] : 0;
        const uint32_t r = is ? (uint32_t)(b->offset[v + 1] - first) : 0;
        (void)place_run(b, (uint32_t)v, r, 0);
        if (r != 0) {
            b->runs[v].count = r;
            b->runs[v].start = (uint32_t)(first - b->offset[0]);
        }
    }
}

/* The copy of a batch's ends into the runs; ends that are no vertices are dropped. */
WH_KERNEL(copy_csr, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    uint32_t bad = 0;
    FOR_ROUNDS(i, b->n) {
        const uint32_t to = i < b->n ? b->out[i] : 0;
        if (i < b->n) {
            b->scratch.run[i] = to < b->n_vertices ? to : WH_LATTICE_NONE;
        }
        bad += to >= b->n_vertices;
    }
    bad = wh_reduce_add_u32(WH_FULL_WARP, bad);
    if (bad != 0 && wh_lane_id() == 0) {
        wh_add_u64_relaxed(&b->counts->result.no_vertex, bad);
    }
}

/* --- the workers -------------------------------------------------------------------------------
 */

/* Adds what the lanes of a warp have counted. */
WH_FN void add_tally(whi_lattice_counts *counts, wh_lattice_tally tally) {
    const uint32_t applied = wh_reduce_add_u32(WH_FULL_WARP, tally.applied);
    const uint32_t no_change = wh_reduce_add_u32(WH_FULL_WARP, tally.no_change);
    const uint32_t refused = wh_reduce_add_u32(WH_FULL_WARP, tally.refused);
    if (wh_lane_id() == 0) {
        if (applied != 0) {
            wh_add_u64_relaxed(&counts->result.applied, applied);
        }
        if (no_change != 0) {
            wh_add_u64_relaxed(&counts->result.no_change, no_change);
        }
        if (refused != 0) {
            wh_add_u64_relaxed(&counts->result.refused, refused);
        }
    }
}

WH_FN wh_lattice_tally no_tally(void) {
    wh_lattice_tally tally;
    tally.applied = tally.no_change = tally.refused = 0;
    return tally;
}

/* The work for vertex v; NONE: none. */
WH_FN wh_lattice_work work_of(const whi_lattice_batch *b, uint32_t v) {
    const int is = v != WH_LATTICE_NONE;
    const uint32_t start = is ? b->runs[v].start : 0;
    wh_lattice_work w;
    w.x = is ? &b->vertices[v] : NULL;
    w.run = b->scratch.run + start;
    w.order = b->scratch.order + start;
    w.r = is ? b->runs[v].count : 0;
    w.done = b->done;
    w.table.keys = b->scratch.keys + 2 * (uint64_t)start;
    w.table.numbers = b->scratch.numbers + 2 * (uint64_t)start;
    w.table.size = 2 * w.r;
    return w;
}

/* All that there is to do on the lists. Who has done his share of a list takes more from a counter:
 * some vertices take much longer than others. */
#define WORK_STEP(name, lane_work, warp_work, block_work)                                         \
    WH_FN void name(wh_heap_ref heap, const whi_lattice_batch *b) {                               \
        whi_lattice_counts *counts = b->counts;                                                   \
        const uint32_t lane = wh_lane_id(), warps = (uint32_t)(wh_grid_threads() / WH_WARP_SIZE); \
        const uint32_t mine = (uint32_t)(wh_thread_id() / WH_WARP_SIZE);                          \
        wh_lattice_tally tally = no_tally();                                                      \
        for (uint32_t i = wh_block_id(); i < counts->blocks; i += wh_grid_blocks()) {             \
            const uint32_t v = b->scratch.blocks[i];                                              \
            block_work(heap, work_of(b, v), &tally);                                              \
            wh_syncthreads(); /* all know r */                                                    \
            if (wh_thread_in_block() == 0) {                                                      \
                b->runs[v].count = 0; /* I3 */                                                    \
            }                                                                                     \
        }                                                                                         \
        for (uint32_t i = mine; i < counts->warps; i = warps + next_of(&counts->next_warp)) {     \
            const uint32_t v = b->scratch.warps[i];                                               \
            warp_work(heap, work_of(b, v), &tally);                                               \
            if (lane == 0) {                                                                      \
                b->runs[v].count = 0; /* I3 */                                                    \
            }                                                                                     \
        }                                                                                         \
        for (uint32_t i = mine; i * WH_WARP_SIZE < counts->lanes;                                 \
             i = warps + next_of(&counts->next_lanes)) {                                          \
            const uint32_t at = i * WH_WARP_SIZE + lane;                                          \
            const uint32_t v = at < counts->lanes ? b->scratch.lanes[at] : WH_LATTICE_NONE;       \
            lane_work(heap, work_of(b, v), &tally);                                               \
            if (v != WH_LATTICE_NONE) {                                                           \
                b->runs[v].count = 0; /* I3 */                                                    \
            }                                                                                     \
        }                                                                                         \
        add_tally(counts, tally);                                                                 \
    }

/* The next of a list, for a warp. */
WH_FN uint32_t next_of(uint32_t *counter) {
    uint32_t next = 0;
    if (wh_lane_id() == 0) {
        next = wh_fetch_add_u32_relaxed(counter, 1);
    }
    return wh_shfl_u32(WH_FULL_WARP, next, 0);
}

WORK_STEP(insert_step, wh_lattice_insert_lane, wh_lattice_insert_warp, wh_lattice_insert_block)
WORK_STEP(erase_step, wh_lattice_erase_lane, wh_lattice_erase_warp, wh_lattice_erase_block)

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

/* One block of threads. */
WH_FN void lay_small(const whi_lattice_batch *b) {
    count_step(b);
    wh_syncthreads();
    lay_out_step(b);
    wh_syncthreads();
    scatter_step(b);
    wh_syncthreads();
}
WH_KERNEL(insert_small, batch_args, a) {
    lay_small(&a.b);
    insert_step(a.heap, &a.b);
}
WH_KERNEL(erase_small, batch_args, a) {
    lay_small(&a.b);
    erase_step(a.heap, &a.b);
}

/* --- looking ------------------------------------------------------------------------------------
 */

#define LONG_LIST 64u /* entries of an adjacency that one lane looks through */

WH_KERNEL(has_arcs, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    FOR_ROUNDS(i, b->n) {
        const uint32_t v = i < b->n ? b->from[i] : WH_LATTICE_NONE;
        const int is = v < b->n_vertices;
        wh_lattice_vertex *x = is ? &b->vertices[v] : NULL;
        const uint32_t key = is ? b->to[i] : WH_LATTICE_NONE, degree = is ? x->degree : 0;
        uint32_t *array = is ? wh_lattice_array(x) : NULL;
        int found = degree <= LONG_LIST && wh_lattice_has_(array, degree, key);
        for (wh_mask lists = wh_ballot(WH_FULL_WARP, degree > LONG_LIST); lists != 0;
             lists &= lists - 1) { /* all lanes look through one */
            const uint32_t lane = wh_mask_leader(lists);
            const uint32_t *its = (const uint32_t *)(uintptr_t)wh_shfl_u64(
                WH_FULL_WARP, (uint64_t)(uintptr_t)array, lane);
            const uint32_t n = wh_shfl_u32(WH_FULL_WARP, degree, lane);
            const uint32_t wanted = wh_shfl_u32(WH_FULL_WARP, key, lane);
            int some = 0;
            for (uint32_t k = wh_lane_id(); k < n; k += WH_WARP_SIZE) {
                some |= its[k] == wanted;
            }
            some = wh_any(WH_FULL_WARP, some);
            found = wh_lane_id() == lane ? some : found;
        }
        if (i < b->n) {
            b->done[i] = found != 0;
        }
    }
}

WH_KERNEL(read_degrees, batch_args, a) {
    for (uint64_t v = wh_thread_id(); v < a.b.n_vertices; v += wh_grid_threads()) {
        a.b.out[v] = a.b.vertices[v].degree;
    }
}

/* One block: each thread sums a stretch, then knows what comes before it. */
WH_KERNEL(sum_degrees, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    uint64_t *sums = (uint64_t *)wh_shared();
    const uint32_t me = wh_thread_in_block(), threads = wh_block_threads();
    const uint64_t each = (b->n_vertices + threads - 1) / threads;
    const uint64_t begin = me * each < b->n_vertices ? me * each : b->n_vertices;
    const uint64_t end = begin + each < b->n_vertices ? begin + each : b->n_vertices;
    uint64_t sum = 0;
    for (uint64_t v = begin; v < end; v++) {
        sum += b->vertices[v].degree;
    }
    sums[me] = sum;
    wh_syncthreads();
    sum = 0;
    for (uint32_t k = 0; k < me; k++) {
        sum += sums[k];
    }
    for (uint64_t v = begin; v < end; v++) {
        b->sums[v] = sum;
        sum += b->vertices[v].degree;
    }
    if (me == threads - 1) {
        b->sums[b->n_vertices] = sum;
    }
}

/* A warp a vertex. */
WH_KERNEL(copy_out, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    const uint64_t warps = wh_grid_threads() / WH_WARP_SIZE;
    for (uint64_t v = wh_thread_id() / WH_WARP_SIZE; v < b->n_vertices; v += warps) {
        wh_lattice_vertex *x = &b->vertices[v];
        const uint32_t *array = wh_lattice_array(x);
        for (uint32_t i = wh_lane_id(); i < x->degree; i += WH_WARP_SIZE) {
            b->out[b->offset[v] + i] = array[i];
        }
    }
}

WH_KERNEL(clear_all, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        memset(&b->vertices[v], 0, sizeof b->vertices[v]);
        memset(&b->runs[v], 0, sizeof b->runs[v]);
    }
    if (wh_thread_id() == 0) {
        memset(b->counts, 0, sizeof *b->counts);
        memset(b->next, 0, sizeof *b->next);
    }
}

WH_KERNEL(destroy_all, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    FOR_ROUNDS(v, b->n_vertices) {
        uint32_t *block = NULL;
        if (v < b->n_vertices) {
            wh_lattice_vertex *x = &b->vertices[v];
            block = x->capacity != 0 ? x->block : NULL;
            x->degree = x->capacity = 0;
        }
        wh_free_lanes(a.heap, WH_FULL_WARP, block);
    }
}

WH_KERNEL(check_all, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        uint32_t broken = wh_lattice_is_sound(a.heap, &b->vertices[v], b->n_vertices);
        broken = broken == 0 && b->runs[v].count != 0 ? 3 : broken;
        if (broken != 0) {
            wh_report_error(b->report, broken, v);
        }
    }
}

WH_KERNEL(rebase_all, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        wh_lattice_vertex *x = &b->vertices[v];
        if (x->capacity != 0) {
            x->block = (uint32_t *)(void *)((unsigned char *)x->block + b->moved);
        }
    }
}

WH_KERNEL(count_all, batch_args, a) {
    const whi_lattice_batch *b = &a.b;
    uint64_t blocks = 0, bytes = 0, most = 0;
    for (uint64_t v = wh_thread_id(); v < b->n_vertices; v += wh_grid_threads()) {
        const wh_lattice_vertex *x = &b->vertices[v];
        blocks += x->capacity != 0;
        bytes += (uint64_t)x->capacity * sizeof(uint32_t);
        most = x->degree > most ? x->degree : most;
    }
    wh_add_u64_relaxed(&b->sums[0], blocks);
    wh_add_u64_relaxed(&b->sums[1], bytes);
    (void)wh_fetch_max_u64_relaxed(&b->sums[2], most);
}

/* --- host side
 * ------------------------------------------------------------------------------------ */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const batch_args *args);

#define TRY(call)                  \
    do {                           \
        const wh_status s_ = call; \
        if (s_ != WH_OK) {         \
            return s_;             \
        }                          \
    } while (0)

/* A kernel with a thread for each of `threads`, or fewer that go round: all that fit on a GPU
 * several times over. On the simulated device a lane is a fiber, and few find the same faults. */
static wh_status start(kernel_fn kernel, wh_heap *heap, void *stream, const whi_lattice_batch *b,
                       uint64_t threads) {
    wh_device *device = wh_heap_device(heap);
    const int is_sim = wh_device_get_info(device)->target == WH_TARGET_SIM;
    const uint32_t most_blocks = is_sim ? 4 : 32 * wh_device_get_info(device)->n_sms;
    batch_args a;
    memset(&a, 0, sizeof a);
    a.b = *b;
    TRY(wh_heap_handle(heap, &a.heap));
    const uint64_t blocks = (threads + BLOCK - 1) / BLOCK;
    wh_launch l =
        wh_grid(wh_heap_device(heap),
                blocks < most_blocks ? (uint32_t)(blocks + (blocks == 0)) : most_blocks, BLOCK);
    l.stream = stream;
    l.shared_bytes = SHARED_BYTES(BLOCK);
    return kernel(&l, &a);
}

/* A kernel that works on all lists, of n vertices at most. */
static wh_status work(wh_heap *heap, void *stream, const whi_lattice_batch *b, kernel_fn kernel) {
    const uint64_t few = (uint64_t)b->n * WH_WARP_SIZE; /* each may want a warp */
    const uint64_t enough =
        (uint64_t)WORK_BLOCKS * BLOCK * wh_device_get_info(wh_heap_device(heap))->n_sms;
    return start(kernel, heap, stream, b, few < enough ? few : enough);
}

static wh_status update(wh_heap *heap, void *stream, const whi_lattice_batch *b, kernel_fn small,
                        kernel_fn kernel) {
    const int is_sim = wh_device_get_info(wh_heap_device(heap))->target == WH_TARGET_SIM;
    if (b->n <= (is_sim ? SIM_SMALL_BATCH : SMALL_BATCH)) {
        batch_args a;
        memset(&a, 0, sizeof a);
        a.b = *b;
        TRY(wh_heap_handle(heap, &a.heap));
        const uint32_t threads = (b->n + WH_WARP_SIZE - 1) / WH_WARP_SIZE * WH_WARP_SIZE;
        wh_launch l =
            wh_grid(wh_heap_device(heap), 1, threads < LARGE_BLOCK ? threads : LARGE_BLOCK);
        l.stream = stream;
        l.shared_bytes = SHARED_BYTES(LARGE_BLOCK);
        return small(&l, &a);
    }
    TRY(start(count_arcs, heap, stream, b, b->n));
    TRY(start(lay_out, heap, stream, b, b->n));
    TRY(start(scatter, heap, stream, b, b->n));
    return work(heap, stream, b, kernel);
}

static wh_status graph_insert(wh_heap *heap, void *stream, const whi_lattice_batch *b) {
    return update(heap, stream, b, insert_small, insert_all);
}

static wh_status graph_erase(wh_heap *heap, void *stream, const whi_lattice_batch *b) {
    return update(heap, stream, b, erase_small, erase_all);
}

static wh_status graph_from_csr(wh_heap *heap, void *stream, const whi_lattice_batch *b) {
    whi_lattice_batch of_vertices = *b;
    of_vertices.n = b->n_vertices;
    TRY(start(copy_csr, heap, stream, b, b->n));
    TRY(start(runs_of_csr, heap, stream, b, b->n_vertices));
    return work(heap, stream, &of_vertices, insert_all);
}

#define OF_VERTICES(name, kernel, lanes)                                             \
    static wh_status name(wh_heap *heap, void *stream, const whi_lattice_batch *b) { \
        return start(kernel, heap, stream, b, (uint64_t)b->n_vertices * (lanes));    \
    }
OF_VERTICES(graph_clear, clear_all, 1)
OF_VERTICES(graph_degrees, read_degrees, 1)
OF_VERTICES(graph_to_csr, copy_out, WH_WARP_SIZE)
OF_VERTICES(graph_destroy, destroy_all, 1)
OF_VERTICES(graph_check, check_all, 1)
OF_VERTICES(graph_rebase, rebase_all, 1)
OF_VERTICES(graph_stats, count_all, 1)

static wh_status graph_has(wh_heap *heap, void *stream, const whi_lattice_batch *b) {
    return start(has_arcs, heap, stream, b, b->n);
}

static wh_status graph_sums(wh_heap *heap, void *stream, const whi_lattice_batch *b) {
    batch_args a;
    memset(&a, 0, sizeof a);
    a.b = *b;
    TRY(wh_heap_handle(heap, &a.heap));
    wh_launch l = wh_grid(wh_heap_device(heap), 1, LARGE_BLOCK);
    l.stream = stream;
    l.shared_bytes = LARGE_BLOCK * 8;
    return sum_degrees(&l, &a);
}

WH_TABLE(whi_lattice_kernels) = {
    WH_OF_(NAME),
    sizeof(wh_lattice_vertex),
    sizeof(wh_lattice_run),
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
};

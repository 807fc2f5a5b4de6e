/* batch_steps.h: how a batch of arcs is laid out, and handed to workers, for every class of graphs:
 * included by its <class>_kernels.c, which defines before
 *
 *   uint32_t degree_of(const whi_graph_batch *b, uint32_t v)    as the step `work` finds it
 *   uint32_t worker_of(uint32_t r, uint32_t degree)             LANES, WARPS or BLOCKS
 *
 * and behind it WORK_STEP(insert_step, ...), WORK_STEP(erase_step, ...) and the same as SMALL_STEP
 * (batch_small.h), and then includes batch_kernels.h.
 *
 * A batch has four steps. count: an atomic for each source that a warp has counts the run of the
 * source, and gives each arc its rank there. lay_out: the arc of rank 0 finds a place for all of
 * its run, and says who shall work on it. scatter: the arcs go there. work: blocks of threads,
 * warps and lanes work, each kind on a list of vertices. That is a counting sort by source, without
 * passes over digits: what an arc costs is three accesses at random places, all within runs and
 * records. Each step is a kernel; a small batch is one kernel, which does all in another way
 * (batch_small.h).
 *
 * I3      between batches all counts of runs are 0
 * S1      each arc of a source has a rank of its own in its run, and a run the places that no other
 *         one has: both by fetch_add, relaxed; kernels, or barriers, come before who reads them
 * S2      a vertex of a batch is in one list, at a place of its own, and is given out once
 * S3      a block's barrier between the parts of place_runs, which share its sums
 */
#ifndef WHI_GRAPH_BATCH_STEPS_H
#define WHI_GRAPH_BATCH_STEPS_H

#include <string.h>

#include "batch_arcs.h"
#include "graph_batch.h"
#include "rounds.h"
#include "warpheap/core/warp_group.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/detail/graph/work.h"
#include "warpheap/warpheap.h"

#define BLOCK 256u
#define WORK_BLOCK (WH_FILE_IS_CUDA ? 512u : 64u) /* threads, of the kernels that work on lists */
#define WORK_BLOCKS 2u                            /* of an SM */
#define SHARED_BYTES(threads) (((threads) / WH_WARP_SIZE + 1) * N_SUMS * 4)

typedef struct batch_args {
    wh_heap_ref heap;
    whi_graph_batch b;
} batch_args;

/* As FOR_ROUNDS, for threads of a block. */
#define FOR_BLOCK_ROUNDS(i, n)                                                               \
    for (uint64_t i = wh_thread_id(), whi_first = i - wh_thread_in_block(); whi_first < (n); \
         i += wh_grid_threads(), whi_first += wh_grid_threads())

/* Whether `order` is wanted: who works on a run asks for the numbers of its arcs. */
WH_FN int orders(const whi_graph_batch *b) {
    return b->done != NULL || b->words != 0;
}

/* --- where the arcs of a batch go ------------------------------------------------------------ */

/* Whether an id is a vertex. */
WH_FN int is_vertex(const whi_graph_batch *b, uint32_t v) {
    return v < b->n_vertices && (b->alive == NULL || (b->alive[v / 32] >> v % 32 & 1) != 0);
}

/* Whether arc i takes part in this pass and has two ends; what became of it, so far. */
WH_FN int begin_arc(const whi_graph_batch *b, uint64_t i, uint32_t from, uint32_t to,
                    uint32_t *bad) {
    const int part = takes_part(b, i);
    const int is = part & is_vertex(b, from) & is_vertex(b, to);
    *bad += (uint32_t)(part & !is);
    if (part && b->done != NULL) {
        b->done[i] = is ? WH_GRAPH_NO_CHANGE : WH_GRAPH_NO_VERTEX;
    }
    return is;
}

WH_FN void add_bad(const whi_graph_batch *b, uint32_t bad) {
    bad = wh_reduce_add_u32(WH_FULL_WARP, bad);
    if (bad != 0 && wh_lane_id() == 0) {
        wh_add_u64_relaxed(&b->counts->result.no_vertex, bad);
    }
}

WH_FN void count_step(const whi_graph_batch *b) {
    uint32_t bad = 0;
    if (wh_thread_id() == 0) {
        memset(b->next, 0, sizeof *b->next);
    }
    FOR_ROUNDS(i, b->n) {
        const uint64_t at = i < b->n ? i : 0;
        const uint32_t v = source_of(b, at), to = end_of(b, at);
        const int counts = i < b->n && begin_arc(b, i, v, to, &bad);
        const wh_mask mask = wh_ballot(WH_FULL_WARP, counts);
        uint32_t rank = WH_GRAPH_NONE;
        if (counts) {
            const wh_group g = wh_group_by_u32(mask, v);
            uint32_t before = 0;
            if (wh_group_leads(g)) {
                before = WH_PLANT(steps_s1_rank, /* S1 */
                                  wh_fetch_add_u32_relaxed(&b->runs[v].count, g.n),
                                  (wh_add_u32_relaxed(&b->runs[v].count, g.n), 0u));
            }
            rank = wh_shfl_u32(mask, before, g.leader) + g.rank;
        }
        wh_syncwarp(WH_FULL_WARP);
        if (i < b->n) {
            b->scratch.rank[i] = rank;
        }
    }
    add_bad(b, bad);
}

enum { PLACES, LANES, WARPS, BLOCKS, N_SUMS };

WH_FN uint32_t degree_of(const whi_graph_batch *b, uint32_t v);
WH_FN uint32_t worker_of(uint32_t r, uint32_t degree);

/* Item k of a list of the batch. Those of lanes and warps share an array, from its ends. */
WH_FN whi_graph_item *list_at(const whi_graph_batch *b, uint32_t kind, uint32_t k) {
    if (kind == BLOCKS) {
        return &b->scratch.hubs[k];
    }
    return &b->scratch.items[kind == LANES ? k : b->room - 1 - k];
}

#define RUNS 4u /* that a thread places at once */

typedef struct batch_runs {
    uint32_t v[RUNS], start[RUNS], r[RUNS]; /* r 0: none; in registers: loops are unrolled */
} batch_runs;

/* What the warps of a block have before each of them, for each counter; and one atomic for all of
 * the block. sums: [warps][N_SUMS], then the block's own. */
WH_FN void scan_sums(const whi_graph_batch *b, uint32_t *sums) {
    const uint32_t k = wh_thread_in_block(), warps = wh_block_threads() / WH_WARP_SIZE;
    uint32_t *const at[N_SUMS] = {&b->counts->placed, &b->counts->lanes, &b->counts->warps,
                                  &b->counts->blocks};
    if (k < N_SUMS) {
        uint32_t sum = 0;
        for (uint32_t w = 0; w < warps; w++) {
            const uint32_t its = sums[w * N_SUMS + k];
            sums[w * N_SUMS + k] = sum;
            sum += WH_PLANT(steps_s1_warp, its, 0u);
        }
        sums[warps * N_SUMS + k] = sum != 0 ? wh_fetch_add_u32_relaxed(at[k], sum) : 0; /* S1, S2 */
    }
}

/* Runs get places (`places`; else they have them), and their vertices workers. All threads of a
 * block. */
WH_FN void place_runs(const whi_graph_batch *b, batch_runs *runs, int places) {
    uint32_t *sums = (uint32_t *)wh_shared();
    const uint32_t warps = wh_block_threads() / WH_WARP_SIZE;
    uint32_t *mine = sums + wh_thread_in_block() / WH_WARP_SIZE * N_SUMS;
    uint32_t worker[RUNS], rank[RUNS], n[N_SUMS] = {0, 0, 0, 0}, arcs = 0;
    for (uint32_t j = 0; j < RUNS; j++) {
        const uint32_t r = runs->r[j];
        worker[j] = r != 0 ? worker_of(r, degree_of(b, runs->v[j])) : (uint32_t)N_SUMS;
        arcs += places ? r : 0;
    }
    for (uint32_t j = 0; j < RUNS; j++) {
        rank[j] = 0;
        for (uint32_t k = LANES; k < N_SUMS; k++) {
            const wh_mask with = wh_ballot(WH_FULL_WARP, worker[j] == k);
            rank[j] = worker[j] == k ? n[k] + wh_mask_rank(with) : rank[j];
            n[k] += wh_popc32(with);
        }
    }
    const uint32_t up_to = wh_scan_add_warp_u32(arcs);
    /* S3: an earlier call's sums have been read */
    wh_syncthreads();
    if (wh_lane_id() == WH_WARP_SIZE - 1) {
        mine[PLACES] = up_to;
        for (uint32_t k = LANES; k < N_SUMS; k++) {
            mine[k] = n[k];
        }
    }
    WH_PLANT(steps_s3_sums, wh_syncthreads(), (void)0); /* S3 */
    scan_sums(b, sums);
    WH_PLANT(steps_s3_places, wh_syncthreads(), (void)0); /* S3 */
    const uint32_t *base = sums + warps * N_SUMS;
    uint32_t start = base[PLACES] + mine[PLACES] + up_to - arcs;
    for (uint32_t j = 0; j < RUNS; j++) {
        if (places) {
            runs->start[j] = start;
            start += runs->r[j];
        }
        for (uint32_t k = LANES; k < N_SUMS; k++) {
            if (worker[j] == k) {
                whi_graph_item *item = list_at(b, k, base[k] + mine[k] + rank[j]);
                item->v = runs->v[j];
                item->start = runs->start[j];
                item->r = runs->r[j];
            }
        }
    }
}

/* For rounds of a block's threads, RUNS items each: item j of the caller is first + j * threads. */
#define FOR_BLOCK_RUNS(first, n)                                                         \
    for (uint64_t first =                                                                \
             (uint64_t)wh_block_id() * wh_block_threads() * RUNS + wh_thread_in_block(); \
         first - wh_thread_in_block() < (n); first += wh_grid_threads() * RUNS)

WH_FN void lay_out_step(const whi_graph_batch *b) {
    FOR_BLOCK_RUNS(first, b->n) {
        batch_runs runs;
        int is[RUNS];
        for (uint32_t j = 0; j < RUNS; j++) {
            const uint64_t i = first + (uint64_t)j * wh_block_threads();
            is[j] = i < b->n && b->scratch.rank[i] == 0;
            runs.v[j] = is[j] ? source_of(b, i) : 0;
        }
        for (uint32_t j = 0; j < RUNS; j++) {
            runs.r[j] = is[j] ? b->runs[runs.v[j]].count : 0;
        }
        place_runs(b, &runs, 1);
        for (uint32_t j = 0; j < RUNS; j++) {
            if (is[j]) {
                b->runs[runs.v[j]].start = runs.start[j];
                b->runs[runs.v[j]].count = WH_PLANT(steps_i3, 0u, 1u); /* I3 */
            }
        }
    }
}

WH_FN void scatter_step(const whi_graph_batch *b) {
    for (uint64_t i = wh_thread_id(); i < b->n; i += wh_grid_threads()) {
        const uint32_t rank = b->scratch.rank[i];
        if (rank != WH_GRAPH_NONE) {
            const uint32_t at = b->runs[source_of(b, i)].start + rank;
            b->scratch.run[at] = end_of(b, i);
            if (orders(b)) {
                b->scratch.order[at] = (uint32_t)i;
            }
        }
    }
}

/* --- the workers --- */

/* Adds what the lanes of a warp have counted. */
WH_FN void add_tally(whi_graph_counts *counts, wh_graph_tally tally) {
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

WH_FN wh_graph_tally no_tally(void) {
    wh_graph_tally tally;
    tally.applied = tally.no_change = tally.refused = 0;
    return tally;
}

/* The next of a list, for a warp. */
WH_FN uint32_t next_of(uint32_t *counter) {
    uint32_t next = 0;
    if (wh_lane_id() == 0) {
        next = WH_PLANT(steps_s2_next, wh_fetch_add_u32_relaxed(counter, 1), /* S2 */
                        wh_load_u32_relaxed(counter));
    }
    return wh_shfl_u32(WH_FULL_WARP, next, 0);
}

WH_FN whi_graph_item no_item(void) {
    whi_graph_item item;
    item.v = WH_GRAPH_NONE;
    item.start = item.r = 0;
    return item;
}

#define LANE_ROUNDS 4u /* vertices of a lane, when a warp takes some */

/* All that there is to do on the lists of a batch that has been laid out. Who has done his share of
 * a list takes more from a counter: some vertices take much longer than others. */
#define WORK_STEP(name, lane_work, warp_work, block_work)                                         \
    WH_FN void name(wh_heap_ref heap, const whi_graph_batch *b) {                                 \
        whi_graph_counts *counts = b->counts;                                                     \
        const uint32_t lane = wh_lane_id(), warps = (uint32_t)(wh_grid_threads() / WH_WARP_SIZE); \
        const uint32_t mine = (uint32_t)(wh_thread_id() / WH_WARP_SIZE);                          \
        const uint32_t blocks = counts->blocks, n_warps = counts->warps, lanes = counts->lanes;   \
        wh_graph_tally tally = no_tally();                                                        \
        WH_NO_UNROLL                                                                              \
        for (uint32_t i = wh_block_id(); i < blocks; i += wh_grid_blocks()) {                     \
            block_work(heap, work_of(b, *list_at(b, BLOCKS, i)), &tally);                         \
        }                                                                                         \
        WH_NO_UNROLL                                                                              \
        for (uint32_t i = mine; i < n_warps; i = warps + next_of(&counts->next_warp)) {           \
            warp_work(heap, work_of(b, *list_at(b, WARPS, i)), &tally);                           \
        }                                                                                         \
        WH_NO_UNROLL                                                                              \
        for (uint32_t i = mine, next = 0; i * WH_WARP_SIZE < lanes; i = next) {                   \
            const uint32_t at = i * WH_WARP_SIZE + lane;                                          \
            lane_work(heap, work_of(b, at < lanes ? *list_at(b, LANES, at) : no_item()), &tally); \
            next = i + 1;                                                                         \
            if (i < warps || (next - warps) % LANE_ROUNDS == 0) {                                 \
                next = next_of(&counts->next_lanes) * LANE_ROUNDS + warps;                        \
            }                                                                                     \
        }                                                                                         \
        add_tally(counts, tally);                                                                 \
    }

#endif

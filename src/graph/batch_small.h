/* batch_small.h: a small batch in one kernel: laid out and worked on by blocks of threads that know
 * nothing of each other. Included by batch_kernels.h behind batch_steps.h.
 *
 * The sources are split into buckets, by a hash; a block takes a bucket. It looks through all of
 * the batch for the arcs of its own, groups them by source in a table in its shared memory, so that
 * the arcs of a source lie in a row, its run; then its vertices are worked on, by the block, by
 * warps and by lanes, each kind by a list. A bucket with more sources than its table takes is done
 * in rounds: an arc whose source found no place waits for the next one.
 *
 * B1      a source is in one bucket, and in a round's table either for all of its arcs of the
 *         bucket or for none: places are taken and never given up before the next round, so a
 *         source that found no place finds none later in the round. Each round serves one source
 *         at least: the first that comes finds its place empty
 * B2      rank[i], of an arc of the bucket, and the part of run and order that the block has got of
 *         counts->placed: written and read by the block alone, plain, between barriers
 */
#ifndef WHI_GRAPH_BATCH_SMALL_H
#define WHI_GRAPH_BATCH_SMALL_H

#include "batch_steps.h"
#include "warpheap/core/hash.h"

/* Arcs of a small batch; threads of a block; slots of its table, those that are used, where a
 * source looks; arcs of a bucket that it lists. */
#if WH_FILE_IS_CUDA
#define SMALL_BATCH 16384u
#define SMALL_BLOCK 256u
#define SLOTS 1024u
#define SLOTS_USED SLOTS
#define PROBES 32u
#define OWN_ARCS 2048u
#else
#define SMALL_BLOCK 64u
#if defined(WH_HOSTILE) || defined(WH_FAULTS) /* many rounds */
#define SMALL_BATCH 60u
#define SLOTS 32u
#define SLOTS_USED 4u
#define PROBES 2u
#define OWN_ARCS 8u
#else
#define SMALL_BATCH 128u
#define SLOTS 128u
#define SLOTS_USED SLOTS
#define PROBES 32u
#define OWN_ARCS 64u
#endif
#endif
#define SMALL_BLOCKS 2u /* of an SM */
#define FEW_ARCS 32u    /* that a bucket should have */
#define OWN_AHEAD 8u    /* that a thread loads before it looks at them */
#define WORKERS (N_SUMS - LANES)
#define WAITS (WH_GRAPH_NONE - 1) /* a rank: of an arc that waits for a round */

/* The bucket of a source, and where in the bucket's table it looks first, as a part of 2^32: what
 * is far apart in one is spread over the other. */
WH_FN uint32_t bucket_of(const whi_graph_batch *b, uint32_t v, uint32_t *part) {
    const uint64_t place = wh_mul_wide_u32(wh_spread32(v), b->n_buckets);
    *part = wh_low_u32(place);
    return wh_high_u32(place);
}

#define SUMS_WORDS 64u /* in front of the table: of workers that are blocks */

enum {
    ARCS,   /* of this round */
    PLACED, /* of them, those that have a place in a run */
    BASE,   /* where the runs of the round begin */
    LEFT,   /* not 0: some arc waits for the next round */
    N_WORDS
};

/* The sources of a round, open addressed; all behind wh_shared. */
typedef struct bucket_table {
    uint32_t *keys;           /* NONE: free */
    uint32_t *counts;         /* arcs of the source */
    uint32_t *starts;         /* where its run begins, from BASE on */
    uint32_t *n;              /* [WORKERS] vertices for each kind */
    uint32_t *words;          /* [N_WORDS], as below */
    uint16_t *lists[WORKERS]; /* slots */
    uint16_t *own;            /* arcs of the bucket, if they are few */
} bucket_table;

#define TABLE_BYTES \
    ((SUMS_WORDS + 3 * SLOTS + WORKERS + N_WORDS) * 4 + (WORKERS * SLOTS + OWN_ARCS) * 2)

WH_FN bucket_table table_here(void) {
    uint32_t *at = (uint32_t *)wh_shared() + SUMS_WORDS;
    bucket_table t;
    t.keys = at;
    t.counts = at + SLOTS;
    t.starts = at + 2 * SLOTS;
    t.n = at + 3 * SLOTS;
    t.words = t.n + WORKERS;
    uint16_t *lists = (uint16_t *)(void *)(t.words + N_WORDS);
    for (uint32_t k = 0; k < WORKERS; k++) {
        t.lists[k] = lists + k * SLOTS;
    }
    t.own = lists + WORKERS * SLOTS;
    return t;
}

/* Where the arcs of a bucket are. */
typedef struct bucket_arcs {
    uint32_t bucket;
    uint32_t n;   /* arcs of the bucket, or all of the batch */
    int is_own;   /* the former: they are in the table's `own` */
    int is_again; /* not the bucket's first round */
} bucket_arcs;

/* The arcs of a bucket: listed, if they are few. All threads of a block. */
WH_FN bucket_arcs arcs_of(const whi_graph_batch *b, const bucket_table *t, uint32_t bucket) {
    const uint32_t threads = wh_block_threads();
    bucket_arcs r;
    if (wh_thread_in_block() == 0) {
        t->words[ARCS] = 0;
    }
    WH_PLANT(small_b2_zero, wh_syncthreads(), (void)0); /* B2 */
    WH_NO_UNROLL
    for (uint32_t i = wh_thread_in_block(); i < b->n; i += threads * OWN_AHEAD) {
        uint32_t v[OWN_AHEAD], part; /* in registers: the loops are unrolled */
        for (uint32_t k = 0; k < OWN_AHEAD; k++) {
            v[k] = source_of(b, i + k * threads < b->n ? i + k * threads : 0);
        }
        for (uint32_t k = 0; k < OWN_AHEAD; k++) { /* B1 */
            if (i + k * threads < b->n && bucket_of(b, v[k], &part) == bucket) {
                const uint32_t at = wh_shared_fetch_add_u32(&t->words[ARCS], 1);
                if (at < OWN_ARCS) {
                    t->own[at] = (uint16_t)(i + k * threads);
                }
            }
        }
    }
    WH_PLANT(small_b2_own, wh_syncthreads(), (void)0); /* B2 */
    const uint32_t n = t->words[ARCS];
    r.bucket = bucket;
    r.is_own = n <= OWN_ARCS;
    r.n = r.is_own ? n : b->n;
    r.is_again = 0;
    WH_PLANT(small_b2_counted, wh_syncthreads(), (void)0); /* B2 */
    return r;
}

/* The arc at place k of a bucket's; of the first one, where there is none. */
WH_FN uint32_t arc_at(const bucket_table *t, const bucket_arcs *r, uint32_t k) {
    const uint32_t at = k < r->n ? k : 0;
    return r->is_own ? t->own[at] : at;
}

/* The source of the arc at place k if it takes part in this round, else NONE; *part as bucket_of.
 */
WH_FN uint32_t source_at(const whi_graph_batch *b, const bucket_table *t, const bucket_arcs *r,
                         uint32_t k, uint32_t *part, uint32_t *bad) {
    const uint32_t i = arc_at(t, r, k);
    const uint32_t v = source_of(b, i), to = end_of(b, i);
    if (k >= r->n || bucket_of(b, v, part) != r->bucket) {
        return WH_GRAPH_NONE;
    }
    if (r->is_again) { /* B2 */
        return WH_PLANT(small_b1_again, b->scratch.rank[i] == WAITS, 1) ? v : WH_GRAPH_NONE;
    }
    const int is = begin_arc(b, i, v, to, bad);
    if (!is) {
        b->scratch.rank[i] = WH_GRAPH_NONE; /* B2 */
    }
    return is ? v : WH_GRAPH_NONE;
}

/* Where a source is in the table; `put`: it takes a place if it has none. NONE: nowhere. B1 */
WH_FN uint32_t slot_of(const bucket_table *t, uint32_t v, uint32_t part, int put) {
    uint32_t at = wh_high_u32(wh_mul_wide_u32(part, SLOTS_USED));
    WH_NO_UNROLL
    for (uint32_t k = 0; k < PROBES; k++) {
        uint32_t seen = wh_shared_load_u32(&t->keys[at]);
        if (seen == WH_GRAPH_NONE && put) {
            seen = WH_PLANT(small_b1_place, wh_shared_cas_u32(&t->keys[at], WH_GRAPH_NONE, v),
                            (wh_shared_fetch_add_u32(&t->words[PLACED], 0), t->keys[at] = v,
                             WH_GRAPH_NONE)); /* B1 */
        }
        if (seen == v || (seen == WH_GRAPH_NONE && put)) {
            return at;
        }
        if (seen == WH_GRAPH_NONE) {
            return WH_GRAPH_NONE;
        }
        at = at + 1 < SLOTS_USED ? at + 1 : 0;
    }
    return WH_GRAPH_NONE;
}

WH_FN void clear_table(const bucket_table *t) {
    const uint32_t me = wh_thread_in_block();
    for (uint32_t slot = me; slot < SLOTS; slot += wh_block_threads()) {
        t->keys[slot] = WH_GRAPH_NONE; /* B1 */
        t->counts[slot] = 0;
    }
    if (me < WORKERS) {
        t->n[me] = 0;
    }
    if (me == 0) {
        t->words[ARCS] = t->words[PLACED] = t->words[LEFT] = 0;
    }
    WH_PLANT(small_b2_cleared, wh_syncthreads(), (void)0); /* B2 */
}

/* The sources of a round get their places, and the arcs their ranks in their runs. */
WH_FN void group_step(const whi_graph_batch *b, const bucket_table *t, const bucket_arcs *r) {
    const uint32_t me = wh_thread_in_block(), threads = wh_block_threads();
    uint32_t bad = 0, placed = 0;
    WH_NO_UNROLL
    for (uint32_t first = 0; first < r->n; first += threads) {
        uint32_t part = 0;
        const uint32_t v = source_at(b, t, r, first + me, &part, &bad);
        const wh_mask mask = wh_ballot(WH_FULL_WARP, v != WH_GRAPH_NONE);
        if (v != WH_GRAPH_NONE) {
            const wh_group g = wh_group_by_u32(mask, v);
            uint32_t rank = WAITS;
            if (wh_group_leads(g)) {
                const uint32_t slot = slot_of(t, v, part, 1); /* B1 */
                if (slot != WH_GRAPH_NONE) {
                    rank = WH_PLANT(small_b2_rank, wh_shared_fetch_add_u32(&t->counts[slot], g.n),
                                    (wh_shared_fetch_add_u32(&t->counts[slot], g.n), 0u));
                } else {
                    (void)wh_shared_fetch_add_u32(&t->words[LEFT],
                                                  WH_PLANT(small_b1_left, 1u, 0u)); /* B1 */
                }
            }
            rank = wh_shfl_u32(mask, rank, g.leader);
            rank = rank == WAITS ? WAITS : rank + g.rank;
            b->scratch.rank[arc_at(t, r, first + me)] = rank; /* B2 */
            placed += rank != WAITS;
        }
        wh_syncwarp(WH_FULL_WARP);
    }
    placed = wh_reduce_add_u32(WH_FULL_WARP, placed);
    if (wh_lane_id() == 0 && placed != 0) {
        (void)wh_shared_fetch_add_u32(&t->words[ARCS], placed);
    }
    add_bad(b, bad);
    WH_PLANT(small_b2_grouped, wh_syncthreads(), (void)0); /* B2 */
}

/* Puts the slots of all lanes that have a worker of a kind into its list. */
WH_FN void list_slots(const bucket_table *t, uint32_t slot, uint32_t worker) {
    for (uint32_t k = 0; k < WORKERS; k++) {
        const wh_mask with = wh_ballot(WH_FULL_WARP, worker == LANES + k);
        uint32_t at = 0;
        if (with != 0) {
            if (wh_lane_id() == 0) {
                at = wh_shared_fetch_add_u32(&t->n[k], wh_popc32(with));
            }
            at = wh_shfl_u32(WH_FULL_WARP, at, 0);
        }
        if (worker == LANES + k) {
            t->lists[k][at + wh_mask_rank(with)] = (uint16_t)slot;
        }
    }
}

/* The runs get their places, and the vertices their workers. */
WH_FN void arrange_step(const whi_graph_batch *b, const bucket_table *t) {
    const uint32_t me = wh_thread_in_block();
    uint32_t base = 0; /* wanted at the end */
    if (me == 0) {
        base = WH_PLANT(small_b2_base, /* B2 */
                        wh_fetch_add_u32_relaxed(&b->counts->placed, t->words[ARCS]), 0u);
    }
    WH_NO_UNROLL
    for (uint32_t slot = me; slot < SLOTS; slot += wh_block_threads()) {
        const uint32_t v = t->keys[slot], n = t->counts[slot];
        const uint32_t up_to = wh_scan_add_warp_u32(n);
        uint32_t before = 0;
        if (wh_lane_id() == WH_WARP_SIZE - 1 && up_to != 0) {
            before = wh_shared_fetch_add_u32(&t->words[PLACED], up_to);
        }
        t->starts[slot] = wh_shfl_u32(WH_FULL_WARP, before, WH_WARP_SIZE - 1) + up_to - n;
        list_slots(t, slot, v != WH_GRAPH_NONE ? worker_of(n, degree_of(b, v)) : (uint32_t)N_SUMS);
    }
    if (me == 0) {
        t->words[BASE] = base;
    }
    WH_PLANT(small_b2_arranged, wh_syncthreads(), (void)0); /* B2 */
}

/* The arcs of the round go to their runs. */
WH_FN void spread_step(const whi_graph_batch *b, const bucket_table *t, const bucket_arcs *r) {
    WH_NO_UNROLL
    for (uint32_t k = wh_thread_in_block(); k < r->n; k += wh_block_threads()) {
        const uint32_t i = arc_at(t, r, k);
        const uint32_t v = source_of(b, i), to = end_of(b, i);
        uint32_t part;
        const int mine = bucket_of(b, v, &part) == r->bucket;
        const uint32_t rank = mine ? b->scratch.rank[i] : WH_GRAPH_NONE; /* B2 */
        const uint32_t slot = rank < WAITS ? slot_of(t, v, part, 0) : WH_GRAPH_NONE;
        if (slot != WH_GRAPH_NONE) { /* B1: an arc of an earlier round is in no slot any more */
            const uint32_t at = t->words[BASE] + t->starts[slot] + rank;
            b->scratch.run[at] = to; /* B2 */
            if (orders(b)) {
                b->scratch.order[at] = i;
            }
        }
    }
    WH_PLANT(small_b2_spread, wh_syncthreads(), (void)0); /* B2 */
}

/* A vertex of a table's list, and its run, or none. */
WH_FN whi_graph_item item_of(const bucket_table *t, uint32_t kind, uint32_t k) {
    whi_graph_item item = no_item();
    if (k < t->n[kind - LANES]) {
        const uint32_t slot = t->lists[kind - LANES][k];
        item.v = t->keys[slot];
        item.start = t->words[BASE] + t->starts[slot];
        item.r = t->counts[slot];
    }
    return item;
}

/* All that there is to do for a small batch. */
#define SMALL_STEP(name, lane_work, warp_work, block_work)                               \
    WH_FN void WH_CAT(name, _lists)(wh_heap_ref heap, const whi_graph_batch *b,          \
                                    const bucket_table *t, wh_graph_tally *tally) {      \
        const uint32_t warp = wh_thread_in_block() / WH_WARP_SIZE, lane = wh_lane_id();  \
        const uint32_t warps = wh_block_threads() / WH_WARP_SIZE;                        \
        WH_NO_UNROLL                                                                     \
        for (uint32_t k = 0; k < t->n[BLOCKS - LANES]; k++) {                            \
            block_work(heap, work_of(b, item_of(t, BLOCKS, k)), tally);                  \
        }                                                                                \
        WH_NO_UNROLL                                                                     \
        for (uint32_t k = warp; k < t->n[WARPS - LANES]; k += warps) {                   \
            warp_work(heap, work_of(b, item_of(t, WARPS, k)), tally);                    \
        }                                                                                \
        WH_NO_UNROLL                                                                     \
        for (uint32_t k = warp * WH_WARP_SIZE; k < t->n[0]; k += warps * WH_WARP_SIZE) { \
            lane_work(heap, work_of(b, item_of(t, LANES, k + lane)), tally);             \
        }                                                                                \
        wh_syncthreads(); /* B2 */                                                       \
    }                                                                                    \
    WH_FN void name(wh_heap_ref heap, const whi_graph_batch *b) {                        \
        const bucket_table t = table_here();                                             \
        wh_graph_tally tally = no_tally();                                               \
        if (wh_thread_id() == 0) {                                                       \
            memset(b->next, 0, sizeof *b->next);                                         \
        }                                                                                \
        for (uint32_t k = wh_block_id(); k < b->n_buckets; k += wh_grid_blocks()) {      \
            bucket_arcs r = arcs_of(b, &t, k);                                           \
            do {                                                                         \
                clear_table(&t);                                                         \
                group_step(b, &t, &r);                                                   \
                arrange_step(b, &t);                                                     \
                spread_step(b, &t, &r);                                                  \
                WH_CAT(name, _lists)(heap, b, &t, &tally);                               \
                r.is_again = t.words[LEFT] != 0;                                         \
                WH_PLANT(small_b2_know, wh_syncthreads(), (void)0); /* B2: all know */   \
            } while (r.is_again);                                                        \
        }                                                                                \
        add_tally(b->counts, tally);                                                     \
    }

#endif

/* slabhash.c: the case slabhash: a hash table whose buckets are chains of slabs of 128 bytes, each
 * allocated by one lane while its warp waits. docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/driver/internal.h"

#define KEYS_OF_A_BUCKET 10u /* in the mean: so few chains have more than one slab, or two */

typedef struct slab_state {
    whi_bench_plan p; /* mallocs: inserts, frees: sweeps */
    whi_bench_series finds;
    uint64_t bytes, keys, buckets;
    uint32_t rounds;
    int by_pool; /* slabs are a pool's */
    void *table;
    uint64_t slabs; /* of the last round */
} slab_state;

static void aim(slab_state *s, uint32_t round) {
    whi_bench_aim(&s->p, (whi_bench_blocks){s->keys, WH_BENCH_SLAB_BYTES, WH_BENCH_SLAB_BYTES});
    s->p.call.table = s->table;
    s->p.call.buckets = s->buckets;
    s->p.call.seed = s->p.b->seed + round; /* other chains */
}

/* Threads in whole warps, as its kernel wants. */
static uint64_t warps(uint64_t n) {
    return (n + WHI_BENCH_WARP - 1) / WHI_BENCH_WARP * WHI_BENCH_WARP;
}

/* The table must hold every key that found room, once, in the chain of its bucket, and no other. */
static wh_status verify(slab_state *s, uint64_t failed) {
    whi_bench *b = s->p.b;
    wh_bench_counts found;
    wh_bench_counts held;
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_time(&s->p, b->heaps_kernels.slab_find, s->keys, &s->finds));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &found));
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_launch(&s->p, b->heaps_kernels.slab_count, s->buckets));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &held));
    s->slabs = held.slabs;
    held.failed = 0;
    held.bad += found.bad;
    held.bad += found.served + found.bad + failed < s->keys ? 1 : 0;
    held.bad += held.keys + failed != s->keys ? 1 : 0;
    whi_bench_count(&s->p, &held, 0);
    return WH_OK;
}

/* Inserts all keys, looks for them, frees the slabs. */
static wh_status one_round(slab_state *s, uint32_t number, int timed) {
    whi_bench *b = s->p.b;
    wh_bench_counts counts;
    aim(s, number);
    WHI_BENCH_TRY(whi_bench_clear_counts(b));
    WHI_BENCH_TRY(whi_bench_time(
        &s->p, s->by_pool ? b->heaps_kernels.slab_insert_pool : b->heaps_kernels.slab_insert,
        warps(s->keys), timed ? &s->p.mallocs : NULL));
    WHI_BENCH_TRY(whi_bench_get_counts(b, &counts));
    whi_bench_count(&s->p, &counts, timed);
    WHI_BENCH_TRY(verify(s, counts.failed));
    if (s->p.broken) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_time(
        &s->p, s->by_pool ? b->heaps_kernels.slab_sweep_pool : b->heaps_kernels.slab_sweep,
        s->buckets, timed ? &s->p.frees : NULL));
    return whi_bench_expect_empty(&s->p);
}

static wh_status report(slab_state *s) {
    whi_bench *b = s->p.b;
    aim(s, 0);
    whi_bench_row row =
        whi_bench_row_of(&s->p, whi_bench_phase(b), s->by_pool ? "pool-insert" : "insert");
    WHI_BENCH_TRY(whi_bench_floor(&s->p, b->kernels->floor_single, s->keys, &row.us_null));
    whi_bench_row find = row;
    whi_bench_row sweep = row;
    const whi_bench_series *inserts = &s->p.mallocs;
    whi_bench_add_value(&row, "us_first", inserts->us[0], 1);
    whi_bench_add_value(&row, "us_last", inserts->us[inserts->n - 1], 1);
    whi_bench_add_value(&row, "slabs", (double)s->slabs, 0);
    WHI_BENCH_TRY(whi_bench_emit(b, &row, inserts));
    find.op = "find";
    if (!s->by_pool) { /* the slabs are the same */
        WHI_BENCH_TRY(whi_bench_emit(b, &find, &s->finds));
    }
    if (s->p.frees.n == 0 || !whi_bench_can(b, WH_CAP_FREE)) {
        return WH_OK;
    }
    sweep.op = s->by_pool ? "pool-sweep" : "sweep";
    sweep.ops = s->slabs;
    return whi_bench_emit(b, &sweep, &s->p.frees);
}

static wh_status all_rounds(slab_state *s) {
    whi_bench *b = s->p.b;
    const double start = whi_bench_wall_seconds();
    wh_status status = wh_device_alloc(b->device, &s->table, s->buckets * sizeof(uint64_t));
    if (status == WH_OK) {
        status = wh_device_set(b->device, s->table, 0, s->buckets * sizeof(uint64_t));
    }
    WHI_BENCH_TRY(whi_bench_check(b, status, "table"));
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    if (!b->on_sim) { /* loads the kernels; then the heap is as it was */
        WHI_BENCH_TRY(one_round(s, 0, 0));
        WHI_BENCH_TRY(whi_bench_fresh_heap(b));
        memset(&s->finds, 0, sizeof s->finds);
    }
    for (uint32_t i = 1; i <= s->rounds && !s->p.broken; i++) {
        if (i > 1 && whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS)) {
            break;
        }
        WHI_BENCH_TRY(one_round(s, i, 1));
    }
    return s->p.mallocs.n != 0 ? report(s) : WH_OK;
}

/* All rounds of so many keys. */
static wh_status one_way(whi_bench *b, slab_state *s, uint64_t bytes, int *broken) {
    WHI_BENCH_TRY(whi_bench_begin(b, &s->p, bytes, (whi_bench_blocks){s->keys, 0, 0}));
    const wh_status status = all_rounds(s);
    (void)wh_device_free(b->device, s->table);
    WHI_BENCH_TRY(status);
    *broken = s->p.broken != 0;
    if (s->p.broken || !whi_bench_can(b, WH_CAP_OWN_MEMORY)) {
        whi_bench_close_heap(b);
    }
    return WH_OK;
}

wh_status whi_bench_case_slabhash(whi_bench *b) {
    const whi_bench_list keys = whi_bench_threads(b, &b->defaults->slab_keys);
    const uint64_t bytes = whi_bench_case_heap(b, b->defaults->server_bytes);
    if (!whi_bench_can(b, WH_CAP_DISJOINT) || b->alloc->max_size < WH_BENCH_SLAB_BYTES) {
        return WH_OK;
    }
    b->heap_bytes = bytes;
    for (size_t i = 0; i < keys.n; i++) {
        slab_state s;
        memset(&s, 0, sizeof s);
        s.keys = whi_bench_fitting(b, keys.v[i], WH_BENCH_SLAB_BYTES / KEYS_OF_A_BUCKET * 2);
        s.buckets = s.keys / KEYS_OF_A_BUCKET + 1;
        const whi_bench_part part = {.size = WH_BENCH_SLAB_BYTES, .threads = s.keys};
        if (s.keys == 0 || whi_bench_leave_out(b, part)) {
            continue;
        }
        s.rounds = whi_bench_rounds(b, b->defaults->slab_rounds, bytes, 0,
                                    2 * s.buckets * WH_BENCH_SLAB_BYTES);
        whi_bench_progress(b, WH_BENCH_SLAB_BYTES, s.keys);
        slab_state by_pool = s;
        int broken;
        by_pool.by_pool = 1;
        WHI_BENCH_TRY(one_way(b, &s, bytes, &broken));
        if (!broken) {
            WHI_BENCH_TRY(one_way(b, &by_pool, bytes, &broken));
        }
    }
    return WH_OK;
}

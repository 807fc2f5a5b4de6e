/* core.c: workloads that find the faults planted in core/, and the faults. */
#include "fault/fault.h"

#include "warpheap/core/grid_scan.h"

/* --- vEB tree --------------------------------------------------------------------------------- */

/* Two lanes per word put their items in and take them out, then leave them in: no
 * search may miss one afterwards (R1). */
WH_KERNEL(veb_toggle, workload_args, a) {
    const uint64_t i = wh_thread_id(), item = (i / 2) * 64 + i % 2;
    for (uint32_t step = 0; step < a.steps; step++) {
        (void)wh_veb_insert(a.set, item);
        (void)wh_veb_remove(a.set, item);
    }
    (void)wh_veb_insert(a.set, item);
}

WH_KERNEL(veb_search, workload_args, a) {
    const uint64_t word = wh_thread_id() / 2;
    if (word != 0 && wh_veb_successor(a.set, 64 * word - 1) != 64 * word) { /* from outside */
        wh_add_u32_relaxed(&a.found->lost, 1);
    }
}

/* Items carry a message in plain memory from who inserts to who removes (P1). */
WH_KERNEL(veb_message, workload_args, a) {
    const uint64_t i = wh_thread_id(), n = wh_grid_threads() / 2;
    if (i < n) {
        a.data[i] = i;
        (void)wh_veb_insert(a.set, i);
        return;
    }
    for (uint32_t attempt = 0;; attempt++) {
        const uint64_t item = wh_veb_successor(a.set, 0);
        if (item != WH_VEB_NONE && wh_veb_remove(a.set, item)) {
            wh_add_u32_relaxed(&a.found->lost, a.data[item] != item);
            return;
        }
        wh_backoff(attempt);
    }
}

/* veb-toggle with ranges of items that lie in two words, of which two lanes share the second. */
WH_KERNEL(veb_range_toggle, workload_args, a) {
    const uint64_t i = wh_thread_id(), base = i / 2 * 128;
    const uint64_t first = i % 2 == 0 ? base + 62 : base + 66, count = i % 2 == 0 ? 4 : 2;
    for (uint32_t step = 0; step < a.steps; step++) {
        wh_veb_insert_range(a.set, first, count);
        wh_add_u32_relaxed(&a.found->lost, !wh_veb_claim_range(a.set, first, count));
    }
    wh_veb_insert_range(a.set, first, count);
}

WH_KERNEL(veb_range_search, workload_args, a) {
    const uint64_t base = wh_thread_id() / 2 * 128; /* from outside */
    const int last = base + 128 == a.set.n;
    if ((base != 0 && wh_veb_successor(a.set, base - 1) != base + 62) ||
        (!last && wh_veb_predecessor(a.set, base + 128) != base + 67)) {
        wh_add_u32_relaxed(&a.found->lost, 1);
    }
}

/* veb-message with ranges: who takes items of two words out sees what was written before. */
WH_KERNEL(veb_range_message, workload_args, a) {
    const uint64_t i = wh_thread_id(), n = wh_grid_threads() / 2;
    const uint64_t first = i % n * 64 + 63;
    if (i < n) {
        a.data[first] = a.data[first + 1] = i;
        wh_veb_insert_range(a.set, first, 2);
        return;
    }
    for (uint32_t attempt = 0; !wh_veb_claim_range(a.set, first, 2); attempt++) {
        wh_backoff(attempt);
    }
    wh_add_u32_relaxed(&a.found->lost, a.data[first] != i - n || a.data[first + 1] != i - n);
}

/* The pair P2 by itself: what an insert tells the level above reaches a remove that clears
 * it afterwards. In the tree only atomics lie in between, so here plain data does. */
WH_KERNEL(veb_pair, workload_args, a) {
    const uint32_t words = UNIVERSE / 64;
    if (wh_block_id() == 0) {
        a.data[0] = 1;
        wh_veb_raise_(a.set, 0, words, 1);
        wh_store_u32_relaxed(a.semaphore, 1);
        return;
    }
    for (uint32_t attempt = 0; wh_load_u32_relaxed(a.semaphore) == 0; attempt++) {
        wh_backoff(attempt);
    }
    wh_veb_lower_(a.set, 0, words, 1);
    wh_add_u32_relaxed(&a.found->lost, a.data[0] != 1);
}

/* The same for a range's words together. */
WH_KERNEL(veb_range_pair, workload_args, a) {
    if (wh_block_id() == 0) {
        a.data[0] = 1;
        wh_veb_raise_words_(a.set, 0, 2);
        wh_store_u32_relaxed(a.semaphore, 1);
        return;
    }
    for (uint32_t attempt = 0; wh_load_u32_relaxed(a.semaphore) == 0; attempt++) {
        wh_backoff(attempt);
    }
    wh_veb_lower_words_(a.set, 0, 2);
    wh_add_u32_relaxed(&a.found->lost, a.data[0] != 1);
}

/* Who sees that items of a range are gone sees what was written before they were claimed (P3). */
WH_KERNEL(veb_range_seen, workload_args, a) {
    const uint64_t item = 63;
    wh_store_u32_relaxed(a.semaphore, 0);
    wh_syncwarp(~0u);
    if (wh_lane_id() == 0) {
        wh_veb_insert_range(a.set, item, 2);
    }
    wh_syncwarp(~0u);
    if (wh_lane_id() == 1) {
        wh_store_u32_relaxed(a.semaphore, 1);
        (void)wh_veb_claim_range(a.set, item, 2);
    } else if (wh_lane_id() > 1) {
        for (uint32_t i = 0; (wh_load_u64_relaxed(wh_veb_word(a.set, 0)) >> item & 1) != 0; i++) {
            wh_backoff(i);
        }
        wh_fence();
        wh_add_u32_relaxed(&a.found->lost, wh_load_u32_relaxed(a.semaphore) != 1);
    }
}

/* --- ring ------------------------------------------------------------------------------------- */

/* Values carry a message from put to take; the semaphore orders nothing (P1). */
WH_KERNEL(ring_message, workload_args, a) {
    const uint64_t i = wh_thread_id(), n = wh_grid_threads() / 2;
    if (i < n) {
        a.data[i] = i;
        wh_ring_put_at(a.entries, 64, wh_ring_reserve_put(a.ring), (uint32_t)i);
        wh_add_u32_relaxed(a.semaphore, 1);
        return;
    }
    for (uint32_t attempt = 0;; attempt++) {
        const uint32_t have = wh_load_u32_relaxed(a.semaphore);
        if (have != 0 && wh_cas_u32_relaxed(a.semaphore, have, have - 1) == have) {
            break;
        }
        wh_backoff(attempt);
    }
    const uint32_t v = wh_ring_take_at(a.ring, a.entries, 64, wh_ring_reserve_take(a.ring, 1));
    wh_add_u32_relaxed(&a.found->lost, a.data[v] != v);
}

/* --- virtualized queues and Ouroboros --------------------------------------------------------- */

#define QUEUE_CHUNKS 12u

/* A linked queue on chunks of four entries. Everything lies behind `pool`. */
WH_FN wh_vqueue_chunks small_chunks(const workload_args *a) {
    wh_vqueue_chunks k;
    wh_chunk_pool_bind(&k.pool, a->pool);
    k.pool.entries[0] = (uint32_t *)(void *)(a->pool + 1);
    k.pool.entries[1] = k.pool.entries[0];
    k.pool.entries_log2[0] = k.pool.entries_log2[1] = 4;
    k.pool.loose_tree = a->set;
    k.pool.n = QUEUE_CHUNKS;
    k.pool.large_log2 = 0;
    k.done = k.pool.entries[0] + 16;
    k.next = (uint64_t *)(void *)(k.done + 16);
    k.base = (unsigned char *)(k.next + 16);
    k.chunk_log2 = 4;
    k.ahead = 0;
    return k;
}

/* With a cache of 2^least links: of one, so that lanes walk, or of several, so that chunks are
 * linked and retired together. */
WH_FN wh_vqueue small_queue(const workload_args *a) {
    wh_vqueue q;
    wh_vqueue_bind(&q, a->queue);
    q.entries = NULL;
    q.links = (uint64_t *)(void *)(small_chunks(a).base + QUEUE_CHUNKS * 16);
    q.kind = WH_VQUEUE_LINKED;
    q.table_log2 = a->least;
    q.id = 1;
    q.bounded = 0;
    return q;
}

/* Each lane passes messages on, one value at a time (P1); chunks come and go (P2, P3), and
 * lanes that walk find them reused (I3). */
WH_KERNEL(queue_message, workload_args, a) {
    const wh_mask me = 1u << wh_lane_id();
    const wh_vqueue_chunks k = small_chunks(&a);
    const wh_vqueue q = small_queue(&a);
    uint32_t v = (uint32_t)wh_thread_id();
    a.data[v] = v;
    for (uint32_t step = 0; step < a.steps; step++) {
        uint32_t room = 0;
        for (uint32_t attempt = 0; room == 0; attempt++) {
            room = wh_vqueue_reserve(q, k, me, 1);
            wh_backoff(attempt);
        }
        const uint64_t p = wh_vqueue_reserve_put(q, 1);
        wh_vqueue_put(q, k, me, 1, p, v);
        wh_add_u32_relaxed(a.semaphore, 1);
        for (uint32_t attempt = 0;; attempt++) {
            const uint32_t have = wh_load_u32_relaxed(a.semaphore);
            if (have != 0 && wh_cas_u32_relaxed(a.semaphore, have, have - 1) == have) {
                break;
            }
            wh_backoff(attempt);
        }
        v = wh_vqueue_take(q, k, me, 1, wh_vqueue_reserve_take(q, 1));
        if (v >= wh_grid_threads() || a.data[v] != v) {
            wh_add_u32_relaxed(&a.found->lost, 1);
            return;
        }
        a.data[v] = v;
    }
}

/* The pair P4 by itself: who announces number 1 while number 0 is missing, and stops there, and
 * who announces number 0 afterwards. Only atomics lie in between, so here plain data does. */
WH_FN void announce(const workload_args *a, uint32_t j) {
    const wh_vqueue q = small_queue(a);
    const uint64_t link = wh_vqueue_link(q.id, j, j);
    wh_store_u64_relaxed(&small_chunks(a).next[j], wh_vqueue_behind_(link));
    wh_store_u64_relaxed(&q.links[j], link);
}

WH_KERNEL(queue_announce, workload_args, a) {
    if (wh_block_id() == 0) {
        announce(&a, 1);
        a.data[0] = 1;
        wh_vqueue_join_(small_queue(&a), small_chunks(&a), 1u << wh_lane_id());
        wh_store_u32_relaxed(a.semaphore, 1);
        return;
    }
    for (uint32_t attempt = 0; wh_load_u32_relaxed(a.semaphore) == 0; attempt++) {
        wh_backoff(attempt);
    }
    announce(&a, 0);
    wh_vqueue_join_(small_queue(&a), small_chunks(&a), 1u << wh_lane_id());
    wh_add_u32_relaxed(&a.found->lost, a.data[0] != 1);
}

#define POOL_CHUNKS 8u

/* Four large chunks of two. */
WH_FN wh_chunk_pool small_pool(const workload_args *a) {
    wh_chunk_pool p = small_chunks(a).pool;
    p.entries[1] = p.entries[0] + 16;
    p.n = POOL_CHUNKS;
    p.large_log2 = 1;
    return p;
}

/* A chunk for each lane but the last one, which puts small ones together as often as it can: those
 * who take split them again, and the pool is never empty (I3). */
WH_KERNEL(pool_moves, workload_args, a) {
    const wh_chunk_pool p = small_pool(&a);
    const uint64_t i = wh_thread_id();
    for (uint32_t step = 0; step < a.steps; step++) {
        if (i == POOL_CHUNKS) {
            (void)wh_chunk_pool_merge(p);
            continue;
        }
        wh_chunk_pool_taken t = wh_chunk_pool_take(p, 0, 1);
        for (uint32_t attempt = 0; t.n == 0; attempt++) {
            if (wh_chunk_pool_empty(p, 0)) {
                wh_add_u32_relaxed(&a.found->nulls, 1);
                return;
            }
            wh_backoff(attempt);
            t = wh_chunk_pool_take(p, 0, 1);
        }
        const uint32_t chunk = wh_chunk_pool_get(p, 0, t, 0);
        wh_add_u32_relaxed(&a.found->overlaps, wh_fetch_add_u64_relaxed(&a.data[chunk], 1) != 0);
        (void)wh_fetch_sub_u64_relaxed(&a.data[chunk], 1);
        wh_chunk_pool_free(p, 0, chunk); /* P1 */
    }
}

/* --- sums over blocks and grids --------------------------------------------------------------- */

WH_FN uint64_t scanned(const workload_args *a, uint64_t i) {
    return i * a->seed + 1;
}

/* Each block has several ranges, one after the other. */
WH_GRID_SCAN(grid_scan, workload_args, a, a.steps, scanned, a.data)

WH_KERNEL(grid_scan_look, workload_args, a) {
    for (uint64_t i = wh_thread_id(); i <= a.steps; i += wh_grid_threads()) {
        const uint64_t before = i == 0 ? 0 : i * (i - 1) / 2 * a.seed + i;
        wh_add_u32_relaxed(&a.found->lost, a.data[i] != before);
    }
}

/* --- the suite -------------------------------------------------------------------------------- */

static void empty_queue(const workload_args *a) {
    wh_vqueue_reset(small_queue(a));
}

static const workload workloads[] = {
    {"veb-toggle", veb_toggle, veb_search, 2, 16, 12, .least = 0},
    {"veb-message", veb_message, NULL, 2, 32, 0, .least = 0},
    {"veb-pair", veb_pair, NULL, 2, 1, 0, .least = 0},
    {"veb-range-toggle", veb_range_toggle, veb_range_search, 2, 8, 12, .least = 0},
    {"veb-range-message", veb_range_message, NULL, 2, 12, 0, .least = 0},
    {"veb-range-seen", veb_range_seen, NULL, 1, 32, 0, .least = 0},
    {"veb-range-pair", veb_range_pair, NULL, 2, 1, 0, .least = 0},
    {"ring-message", ring_message, NULL, 2, 32, 0, .least = 0},
    {"queue-message", queue_message, NULL, 4, 5, 60, .least = 0, .prepare = empty_queue},
    {"queue-batch", queue_message, NULL, 4, 7, 60, .least = 3, .prepare = empty_queue},
    {"queue-announce", queue_announce, NULL, 2, 1, 0, .least = 1, .prepare = empty_queue},
    {"pool-moves", pool_moves, NULL, 9, 1, 60, .least = 0},
    {"grid-scan", grid_scan, grid_scan_look, 3, 64, 600, .least = 0},
    {.name = NULL},
};

static const fault faults[] = {
    {"veb_r1", "veb-toggle", EVERYWHERE},             /* lost bit: a remove does not look again */
    {"veb_r1_range", "veb-range-toggle", EVERYWHERE}, /* ... of items in several words */
    {"vqueue_i5", "queue-message", EVERYWHERE}, /* a link is overwritten before it is in the list */
    {"vqueue_i2_batch", "queue-batch",
     EVERYWHERE},                               /* a chunk retires together with its predecessor */
    {"vqueue_i3", "queue-message", EVERYWHERE}, /* a link of a chunk in other use is followed */
    {"chunkpool_p2", "pool-moves", EVERYWHERE}, /* empty while chunks are split or put together */
    {"sums_b1_here", "grid-scan", EVERYWHERE},  /* sums are read before all are written */
    {"veb_p3_range", "veb-range-seen", WEAK_MEMORY}, /* items gone before what their claimer did */
    {"veb_p1_insert", "veb-message", UNDER_TSAN},
    {"veb_p2_insert", "veb-pair", UNDER_TSAN},
    {"veb_p1_range", "veb-range-message", UNDER_TSAN},
    {"veb_p1_range_claim", "veb-range-message", UNDER_TSAN},
    {"veb_p2_range", "veb-range-pair", UNDER_TSAN},
    {"ring_p1_put", "ring-message", UNDER_TSAN},
    {"ring_p1_take", "ring-message", UNDER_TSAN},
    {"ring_p1_put", "queue-message", UNDER_TSAN},
    {"vqueue_p2_find", "queue-message", UNDER_TSAN},
    {"vqueue_p3_done", "queue-message", UNDER_TSAN},
    {"vqueue_p4", "queue-announce", UNDER_TSAN},
    {"sums_b1_earlier", "grid-scan", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_core = {"core", workloads, faults, 5000000};

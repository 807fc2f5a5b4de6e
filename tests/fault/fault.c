/* fault.c: plants faults in core/ and the allocators, one at a time, and shows that the
 * simulated device finds each within a few seeds, and nothing without one. What it finds
 * is printed with the command that repeats it.
 *
 *   fault                       all of them
 *   fault child WORKLOAD [SEED] one workload, with the fault named in WH_FAULT: replays
 *
 * A fault in the logic (a re-check or a test left out) shows as a lost item, a bad block,
 * a NULL with memory free, or a broken invariant. Lost order (relaxed instead of release
 * or acquire) shows as a data race, in the ThreadSanitizer build alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WH_ALLOCATOR gallatin
#include "fault/fault.h"
#include "warpheap/detail/alloc/ouroboros/ouroboros.h"
#include "warpheap/detail/alloc/circular/circular.h"
#include "warpheap/detail/alloc/page_queue/page_queue.h"
#include "warpheap/detail/alloc/random_walk/random_walk.h"
#include "warpheap/detail/alloc/rwmalloc/rwmalloc.h"
#include "warpheap/warpheap.h"

/* How many seeds at most, for one fault; WH_TEST_SEEDS may ask for more. Without a fault all of
 * these pass; a checked build without WH_TEST_SEEDS tries a quarter of them. */
#define SEEDS 200u

static uint64_t n_seeds(int has_fault) {
    const char *text = getenv("WH_TEST_SEEDS");
    const int n = text != NULL ? atoi(text) : 0;
    const int brief = !has_fault && WH_TEST_SEEDS_DEFAULT < 10 && n <= 0;
    return brief ? SEEDS / 4 : n > (int)SEEDS ? (uint64_t)n : SEEDS;
}

#define UNIVERSE 1024u /* of the tree */

typedef struct workload_args {
    wh_heap_ref heap;
    wh_ouro_ref ouro; /* its variant says which */
    wh_vqueue_words *queue;
    wh_chunk_pool_words *pool;
    wh_veb set;
    wh_ring *ring;
    uint32_t *entries;
    uint32_t *semaphore;
    uint64_t *data; /* plain memory that the orders protect */
    findings *found;
    uint32_t seed;
    uint32_t steps;
    uint32_t least; /* smallest block, in words of 8 bytes */
    wh_random_walk_ref pages;
    wh_rwmalloc_ref units;
    wh_page_queue_ref queued;
    wh_circular_ref list;
} workload_args;

WH_FN uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* --- vEB tree ---------------------------------------------------------------------------- */

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

/* --- ring --------------------------------------------------------------------------------------
 */

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

/* --- Gallatin
 * -------------------------------------------------------------------------------------- */

WH_FN void mark(uint64_t *p, uint64_t words, uint64_t value) {
    for (uint64_t k = 0; k < words; k++) {
        p[k] = value + k;
    }
}

WH_FN int is_marked(const uint64_t *p, uint64_t words, uint64_t value) {
    for (uint64_t k = 0; k < words; k++) {
        if (p[k] != value + k) {
            return 0;
        }
    }
    return 1;
}

/* Few segments, many classes: blocks and segments change hands and classes all the time.
 * Every word of a block is written by its owner and verified before the free. */
WH_KERNEL(class_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    uint64_t *held[2] = {NULL, NULL};
    uint64_t words[2] = {0, 0};
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t s = next(&random) % 2;
        if (held[s] != NULL) {
            if (!is_marked(held[s], words[s], (i << 32) + ((uint64_t)s << 16))) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
            wh_free(a.heap, held[s]);
            held[s] = NULL;
        } else {
            words[s] = (uint64_t)a.least << next(&random) % 5;
            held[s] = (uint64_t *)wh_malloc(a.heap, words[s] * 8);
            if (held[s] != NULL) {
                mark(held[s], words[s], (i << 32) + ((uint64_t)s << 16));
            }
        }
    }
    wh_free(a.heap, held[0]);
    wh_free(a.heap, held[1]);
}

/* A macro is one line: its calls of wh_activemask would be one call site. */
WH_FN wh_mask lanes_at_malloc(void) {
    return wh_activemask();
}

WH_FN wh_mask lanes_at_free(void) {
    return wh_activemask();
}

/* The same for other allocators: `spread` sizes, each twice the one before. */
#define OTHER_CHURN(name, ident, heap, spread)                                                \
    WH_KERNEL(name, workload_args, a) {                                                       \
        const uint64_t i = wh_thread_id();                                                    \
        uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;                        \
        uint64_t *held[2] = {NULL, NULL};                                                     \
        uint64_t words[2] = {0, 0};                                                           \
        for (uint32_t step = 0; step < a.steps + 2; step++) {                                 \
            const uint32_t s = step < a.steps ? next(&random) % 2 : step - a.steps;           \
            if (held[s] != NULL) {                                                            \
                if (!is_marked(held[s], words[s], (i << 32) + ((uint64_t)s << 16))) {         \
                    wh_add_u32_relaxed(&a.found->overlaps, 1);                                \
                }                                                                             \
                wh_##ident##_free(a.heap, lanes_at_free(), held[s]);                          \
                held[s] = NULL;                                                               \
            } else if (step < a.steps) {                                                      \
                words[s] = (uint64_t)a.least << next(&random) % (spread);                     \
                held[s] =                                                                     \
                    (uint64_t *)wh_##ident##_malloc(a.heap, lanes_at_malloc(), words[s] * 8); \
                if (held[s] != NULL) {                                                        \
                    mark(held[s], words[s], (i << 32) + ((uint64_t)s << 16));                 \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
    }
OTHER_CHURN(rw_churn, rw, pages, 1)
OTHER_CHURN(rw_bm_churn, rw_bm, pages, 1)
OTHER_CHURN(corw_churn, corw, pages, 1)
OTHER_CHURN(rwmalloc_churn, rwmalloc, units, 5)
OTHER_CHURN(cfmalloc_churn, cfmalloc, list, 5)
OTHER_CHURN(cmmalloc_churn, cmmalloc, list, 5)

/* The pair P2 by itself: what a merge writes before its stamp reaches a search that begins when
 * grace has been stepped on. In the list only atomics lie in between, so here plain data does. */
WH_FN void await(const workload_args *a, uint32_t turn) {
    for (uint32_t attempt = 0; wh_load_u32_relaxed(a->semaphore) != turn; attempt++) {
        wh_backoff(attempt);
    }
}

WH_KERNEL(circular_grace_pair, workload_args, a) {
    const uint32_t turn = (uint32_t)wh_block_id();
    await(&a, turn);
    if (turn == 0) { /* merges */
        a.data[0] = 1;
        (void)wh_circular_stamp_(a.list);
    } else if (turn == 1) { /* ends a grace period */
        wh_circular_advance_(a.list, 1u << wh_lane_id());
        wh_circular_advance_(a.list, 1u << wh_lane_id());
    } else { /* searches */
        const uint32_t slot = wh_circular_enter_(a.list);
        wh_add_u32_relaxed(&a.found->lost, a.data[0] != 1);
        wh_circular_leave_(a.list, slot);
    }
    wh_store_u32_relaxed(a.semaphore, turn + 1);
}

/* A block for each lane at any time, by an allocator whose out-of-memory is exact. Most
 * lanes keep eight, so that the other three meet over the three that are left. A second
 * kernel frees what they kept. */
#define KEPT 8u
#define OTHER_NEVER_NULL(name, ident, heap)                                                  \
    WH_KERNEL(name, workload_args, a) {                                                      \
        const uint64_t i = wh_thread_id();                                                   \
        const int keep = i >= 3;                                                             \
        for (uint32_t step = 0; step < (keep ? KEPT : a.steps); step++) {                    \
            void *p = wh_##ident##_malloc(a.heap, lanes_at_malloc(), 64);                    \
            wh_add_u32_relaxed(&a.found->nulls, p == NULL);                                  \
            if (keep) {                                                                      \
                a.data[i * KEPT + step] = (uint64_t)(uintptr_t)p;                            \
            }                                                                                \
            wh_##ident##_free(a.heap, lanes_at_free(), keep ? NULL : p);                     \
        }                                                                                    \
    }                                                                                        \
    WH_KERNEL(name##_end, workload_args, a) {                                                \
        for (uint32_t step = 0; step < KEPT; step++) {                                       \
            void *p = (void *)(uintptr_t)a.data[wh_thread_id() * KEPT + step]; /* 0: none */ \
            wh_##ident##_free(a.heap, lanes_at_free(), p);                                   \
        }                                                                                    \
    }
OTHER_NEVER_NULL(rw_never_null, rw, pages)
OTHER_NEVER_NULL(rw_bm_never_null, rw_bm, pages)
OTHER_NEVER_NULL(corw_never_null, corw, pages)
OTHER_NEVER_NULL(crw_never_null, crw, pages)
OTHER_NEVER_NULL(rwmalloc_never_null, rwmalloc, units)
OTHER_NEVER_NULL(page_queue_never_null, page_queue, queued)

/* As many lanes as blocks, each with one block at a time: no malloc may fail (X1). */
WH_KERNEL(never_null, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_malloc(a.heap, 64);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_free(a.heap, p);
    }
}

/* Two lanes, two segments: one lane's slices are now in this segment and now in that, so
 * that one segment is idle at each moment, but not always the same (X1). */
WH_KERNEL(switch_churn, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_malloc(a.heap, wh_thread_id() == 0 ? 1024 : (uint64_t)16 << step % 2);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_free(a.heap, p);
    }
}

/* Half of the lanes cycle small slices through the buffers, the others ask for whole
 * segments, find none, and so look for idle blocks all the time. */
WH_KERNEL(detach_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint64_t *held = NULL;
    for (uint32_t step = 0; step < a.steps; step++) {
        if (i % 2 == 0) {
            wh_free(a.heap, wh_malloc(a.heap, 64));
        } else if (held == NULL) {
            held = (uint64_t *)wh_malloc(a.heap, 16);
            if (held != NULL) {
                mark(held, 2, i << 32);
            }
        } else {
            if (!is_marked(held, 2, i << 32)) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
            wh_free(a.heap, held);
            held = NULL;
        }
    }
    wh_free(a.heap, held);
}

/* --- virtualized queues and Ouroboros ------------------------------------------------------- */

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

/* As class_churn. */
WH_KERNEL(ouro_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    uint64_t *held[2] = {NULL, NULL};
    uint64_t words[2] = {0, 0};
    for (uint32_t step = 0; step <= a.steps + 1; step++) {
        const uint32_t s = step < a.steps ? next(&random) % 2 : step - a.steps;
        if (held[s] != NULL) {
            if (!is_marked(held[s], words[s], (i << 32) + ((uint64_t)s << 16))) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
            wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), held[s]);
            held[s] = NULL;
        } else if (step < a.steps) {
            words[s] = (uint64_t)2 << next(&random) % 6;
            held[s] =
                (uint64_t *)wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), words[s] * 8);
            if (held[s] != NULL) {
                mark(held[s], words[s], (i << 32) + ((uint64_t)s << 16));
            }
        }
    }
}

WH_KERNEL(ouro_never_null, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), 128);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), p);
    }
}

/* One block per lane at a time, of any small class, in a heap with a chunk for each lane: at any
 * moment a chunk is free as a whole for who asks, though often as pages of another class. */
WH_KERNEL(ouro_mixed_never_null, workload_args, a) {
    const uint64_t i = wh_thread_id();
    const uint32_t kinds = 2 + a.seed / 4 % 5; /* the policy goes with the rest */
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t bytes = (uint64_t)512 >> next(&random) % kinds;
        void *p = wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), bytes);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        for (uint32_t wait = next(&random) % 64; wait != 0; wait--) { /* most hold one */
            wh_add_u64_relaxed(&a.data[i], 1);
        }
        wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), p);
    }
}

/* A lane alone: that a chunk is opened is an event (X2), and while one is open, or on its way to an
 * open word, no search may find that there is nothing, neither for its class nor for others (X1,
 * X2). */
WH_KERNEL(ouro_opened, workload_args, a) {
    const wh_ouro_ref h = a.ouro;
    const wh_mask me = wh_activemask();
    const uint32_t c = 1, other = 2, pages = 1u << wh_ouro_pages_log2_(h, c);
    uint64_t *word = wh_ouro_open_(h, c, wh_sm_id() & (wh_ouro_opens_(h, c) - 1)), fronts = 0;
    void *held[8] = {NULL};
    uint32_t n = 0, wrong = 0;
    const wh_ouro_events before = wh_ouro_events_(h);
    held[n++] = wh_ouro_malloc_(h.variant, h, me, 32);
    wrong += wh_ouro_events_(h).whole == before.whole;
    for (; n < h.n_chunks && n < 7; n++) {
        held[n] = wh_ouro_malloc_(h.variant, h, me, 512);
        wrong += held[n] == NULL;
    }
    const uint64_t w = wh_load_u64_relaxed(word);
    wrong += wh_ouro_open_next_(w) != 1; /* 512: not of the open chunk, of which a page is live */
    wrong += wh_ouro_none_(h.header, c) || wh_ouro_none_whole_(h, &fronts);
    wh_store_u64_relaxed(word, wh_ouro_open_word_(wh_ouro_open_chunk_(w), pages + 1));
    wrong += wh_ouro_none_(h.header, c) || wh_ouro_none_whole_(h, &fronts);
    wh_store_u64_relaxed(word, w);
    held[n++ & 7] = wh_ouro_malloc_(h.variant, h, me, 64); /* NULL; looks for a whole chunk */
    wrong += held[(n - 1) & 7] != NULL || !wh_ouro_none_(h.header, other);
    wrong += wh_ouro_open_next_(wh_load_u64_relaxed(word)) != pages; /* closed */
    wrong += *wh_ouro_bits_(h, wh_ouro_open_chunk_(w), 0) != (((uint64_t)1 << pages) - 1) - 1;
    while (n-- > 0) {
        wh_ouro_free_(h.variant, h, me, held[n & 7]);
    }
    a.found->nulls = wrong;
}

/* A lane alone: who lacks more than is ahead in an open word and on the next chunk gets just that,
 * and leaves the word used up (I6). */
WH_KERNEL(ouro_passes_end, workload_args, a) {
    const wh_ouro_ref h = a.ouro;
    const wh_mask me = wh_activemask();
    const uint32_t c = 2, pages = 1u << wh_ouro_pages_log2_(h, c), place = wh_ouro_my_place_(h, c);
    void *const first = wh_ouro_malloc_(h.variant, h, me, 64); /* opens a chunk */
    const wh_ouro_turn turn = {32, 0, 0, 0, 0, 0};
    wh_ouro_step s = wh_ouro_step_(turn);
    wh_ouro_step_open_(h, c, place, 32, WH_CHUNK_POOL_SEEN, &s);
    uint32_t wrong = first == NULL || s.n != pages - 1 || s.from == WH_CHUNK_NONE;
    wrong += wh_ouro_opened_(h, c, &s) != 2 * pages - 1;
    wrong += wh_ouro_load_open_(h, c, place) != pages;
    for (uint32_t rank = 0; rank < 32 && wrong == 0; rank++) {
        void *const p = wh_ouro_opened_page_(h, c, &s, rank);
        wrong += (p != NULL) != (rank < 2 * pages - 1);
        wh_ouro_free_(h.variant, h, me, p);
    }
    wh_ouro_free_(h.variant, h, me, first);
    a.found->nulls = wrong;
}

/* A lane alone fills the heap with one class, gives all back, and asks for another class: what it
 * was told when the heap was full holds no longer (X2). */
WH_KERNEL(ouro_refill, workload_args, a) {
    uint32_t random = a.seed * 7919u + 1u;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t bytes = (uint64_t)16 << next(&random) % 6;
        uint64_t n = 0;
        for (; n < UNIVERSE; n++) {
            void *p = wh_ouro_malloc_(a.ouro.variant, a.ouro, wh_activemask(), bytes);
            if (p == NULL) {
                break;
            }
            a.data[n] = (uint64_t)(uintptr_t)p;
        }
        wh_add_u32_relaxed(&a.found->nulls, n == 0);
        while (n-- > 0) {
            wh_ouro_free_(a.ouro.variant, a.ouro, wh_activemask(), (void *)(uintptr_t)a.data[n]);
        }
    }
}

/* --- workloads
 * ---------------------------------------------------------------------------------------- */

typedef struct workload {
    const char *name;
    wh_status (*kernel)(const wh_launch *launch, const workload_args *args);
    wh_status (*then)(const wh_launch *launch, const workload_args *args);
    uint32_t blocks, threads, steps, least; /* least of an Ouroboros heap: queue entries */
    uint32_t segments; /* of a Gallatin heap: few, so that memory changes hands. 0: none */
    uint32_t tiny;     /* segments of 64 bytes, blocks of two slices */
    uint32_t stint;    /* sticky policy with stints of this length; 0: policies in turn */
    const char *ouro;  /* variant; its heap has as many chunks of 512 bytes instead */
    const char *other; /* another allocator, and the size of its heap above the least */
    uint64_t bytes;
    size_t handle; /* where its handle is in the arguments */
} workload;

/* Segments of 1 KiB, blocks of 4 slices: every boundary is near. */
static const wh_tuning tuning = {.segment_bytes = 1024, .slices_per_block = 4};
static const wh_tuning tiny = {.segment_bytes = 64, .slices_per_block = 2};

static const workload workloads[] = {
    {"veb-toggle", veb_toggle, veb_search, 2, 16, 12, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"veb-message", veb_message, NULL, 2, 32, 0, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"veb-pair", veb_pair, NULL, 2, 1, 0, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"veb-range-toggle", veb_range_toggle, veb_range_search, 2, 8, 12, 0, 0, 0, 0, NULL, NULL, 0,
     0},
    {"veb-range-message", veb_range_message, NULL, 2, 12, 0, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"veb-range-seen", veb_range_seen, NULL, 1, 32, 0, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"veb-range-pair", veb_range_pair, NULL, 2, 1, 0, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"ring-message", ring_message, NULL, 2, 32, 0, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"slice-churn", class_churn, NULL, 6, 3, 60, 2, 8, 0, 0, NULL, NULL, 0, 0}, /* 16..256 bytes */
    {"block-churn", class_churn, NULL, 8, 1, 60, 8, 2, 0, 0, NULL, NULL, 0, 0}, /* 64..1024 bytes */
    {"never-null", never_null, NULL, 32, 1, 24, 0, 2, 0, 0, NULL, NULL, 0, 0},
    {"hint-churn", class_churn, NULL, 6, 3, 60, 2, 10, 0, 0, NULL, NULL, 0, 0},
    {"switch-churn", switch_churn, NULL, 2, 1, 300, 0, 2, 0, 8, NULL, NULL, 0, 0},
    {"detach-churn", detach_churn, NULL, 8, 1, 1000, 0, 1, 1, 20, NULL, NULL, 0, 0},
    {"queue-message", queue_message, NULL, 4, 5, 60, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"queue-batch", queue_message, NULL, 4, 7, 60, 3, 0, 0, 0, NULL, NULL, 0, 0},
    {"queue-announce", queue_announce, NULL, 2, 1, 0, 1, 0, 0, 0, NULL, NULL, 0, 0},
    {"pool-moves", pool_moves, NULL, 9, 1, 60, 0, 0, 0, 0, NULL, NULL, 0, 0},
    {"s-p-churn", ouro_churn, NULL, 6, 3, 60, 8, 6, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-c-churn", ouro_churn, NULL, 6, 3, 60, 8, 6, 0, 0, "ouro-s-c", NULL, 0, 0},
    {"va-c-churn", ouro_churn, NULL, 6, 3, 60, 8, 8, 0, 0, "ouro-va-c", NULL, 0, 0},
    {"vl-c-churn", ouro_churn, NULL, 6, 3, 60, 8, 8, 0, 0, "ouro-vl-c", NULL, 0, 0},
    {"s-p-never-null", ouro_never_null, NULL, 4, 4, 24, 64, 4, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-p-open", ouro_never_null, NULL, 8, 1, 24, 64, 2, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-p-opened", ouro_opened, NULL, 1, 1, 0, 64, 4, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-p-passes", ouro_passes_end, NULL, 1, 1, 0, 64, 4, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-p-parked", ouro_never_null, NULL, 12, 1, 60, 2, 2, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-c-never-null", ouro_never_null, NULL, 16, 1, 24, 8, 4, 0, 0, "ouro-s-c", NULL, 0, 0},
    {"s-p-mixed", ouro_mixed_never_null, NULL, 6, 1, 60, 64, 5, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-p-mixed-parked", ouro_mixed_never_null, NULL, 3, 1, 300, 16, 2, 0, 100, "ouro-s-p", NULL, 0,
     0},
    {"s-p-refill", ouro_refill, NULL, 1, 1, 12, 64, 5, 0, 0, "ouro-s-p", NULL, 0, 0},
    {"s-c-refill", ouro_refill, NULL, 1, 1, 12, 64, 5, 0, 0, "ouro-s-c", NULL, 0, 0},
    {"s-c-mixed", ouro_mixed_never_null, NULL, 3, 1, 100, 64, 2, 0, 0, "ouro-s-c", NULL, 0, 0},
#define PAGES offsetof(workload_args, pages)
/* What the hints of 491 pages take, but for those of the least heap. */
#define HINTS ((WH_RANDOM_WALK_MAX_HINTS < 128 ? WH_RANDOM_WALK_MAX_HINTS : 128) * 4 - 16)
#define UNITS offsetof(workload_args, units)
#define LIST offsetof(workload_args, list)
#define QUEUED offsetof(workload_args, queued)
    {"rw-churn", rw_churn, NULL, 6, 3, 40, 8, 0, 0, 0, NULL, "rw", 8 * 68, PAGES},
    {"rw-bm-churn", rw_bm_churn, NULL, 6, 3, 40, 8, 0, 0, 0, NULL, "rw-bm", 12 * 64, PAGES},
    {"corw-churn", corw_churn, NULL, 4, 8, 30, 8, 0, 0, 0, NULL, "corw", 70 * 65, PAGES},
    {"rw-bm-never-null", rw_bm_never_null, rw_bm_never_null_end, 32, 2, 40, 0, 0, 0, 0, NULL,
     "rw-bm", 490 * 64 + 112, PAGES}, /* 491 pages */
    {"rw-never-null", rw_never_null, rw_never_null_end, 8, 1, 400, 0, 0, 0, 0, NULL, "rw",
     42 * 64 + 160, PAGES}, /* 43 pages */
    {"corw-never-null", corw_never_null, corw_never_null_end, 32, 2, 40, 0, 0, 0, 0, NULL, "corw",
     490 * 64 + 112, PAGES},
    {"crw-never-null", crw_never_null, crw_never_null_end, 32, 2, 400, 0, 0, 0, 0, NULL, "crw",
     490 * 64 + 112 + HINTS, PAGES},
    {"circular-grace", circular_grace_pair, NULL, 3, 1, 0, 0, 0, 0, 0, NULL, "cfmalloc", 2500,
     LIST},
    {"rwmalloc-churn", rwmalloc_churn, NULL, 5, 6, 40, 2, 0, 0, 0, NULL, "rw-malloc", 60 * 69,
     UNITS},
    {"rwmalloc-never-null", rwmalloc_never_null, rwmalloc_never_null_end, 32, 2, 40, 0, 0, 0, 0,
     NULL, "rw-malloc", 33440, UNITS},
    {"page-queue-never-null", page_queue_never_null, page_queue_never_null_end, 32, 2, 40, 0, 0, 0,
     0, NULL, "page-queue", 490 * 64 + 511 * 4, QUEUED},
    {"cfmalloc-churn", cfmalloc_churn, NULL, 8, 2, 60, 2, 0, 0, 0, NULL, "cfmalloc", 2500, LIST},
    {"cmmalloc-churn", cmmalloc_churn, NULL, 8, 2, 60, 2, 0, 0, 0, NULL, "cmmalloc", 2500, LIST},
};

static size_t handle_size(size_t at) {
    if (at == UNITS) {
        return sizeof(wh_rwmalloc_ref);
    }
    if (at == LIST) {
        return sizeof(wh_circular_ref);
    }
    return at == QUEUED ? sizeof(wh_page_queue_ref) : sizeof(wh_random_walk_ref);
}

/* Runs a workload under one seed. 0: nothing wrong. The policy goes with the seed. */
static int run(const workload *w, uint64_t seed) {
    static const wh_sim_policy policies[] = {WH_SIM_RANDOM, WH_SIM_STICKY, WH_SIM_STALL,
                                             WH_SIM_PCT};
    wh_sim_options sim;
    wh_heap_options options;
    workload_args a;
    findings found;
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    void *memory = NULL;
    memset(&sim, 0, sizeof sim);
    memset(&options, 0, sizeof options);
    memset(&a, 0, sizeof a);
    memset(&found, 0, sizeof found);
    sim.seed = seed;
    sim.policy = w->stint != 0 ? WH_SIM_STICKY : policies[seed % 4];
    /* In rw and corw NULL may not know of a free whose store is on its way (random_walk.h). */
    const int may_be_weak = w->kernel != rw_never_null && w->kernel != corw_never_null;
    sim.weak = may_be_weak && seed / 8 % 2 != 0 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
    sim.policy_arg = w->stint;
    sim.step_budget = 5000000;
    sim.blocks_per_sm = 8;
    wh_status s = wh_device_open(&device, "sim", &sim);
    if (s == WH_OK && w->ouro != NULL) { /* the smallest heap has two chunks */
        options.tuning.chunk_bytes = 512;
        options.tuning.queue_entries = w->least;
        options.tuning.buffers = seed / 4 % 2 != 0 ? 4 : 0; /* open words: 0 makes it one */
        options.allocator = w->ouro;
        options.device = device;
        s = wh_heap_min_bytes(&options, &options.bytes);
        options.bytes += (w->segments - 2) * 560;
        s = s == WH_OK ? wh_heap_create(&heap, &options) : s;
        s = s == WH_OK ? wh_heap_handle_of(heap, w->ouro, 0, &a.ouro, sizeof a.ouro) : s;
    } else if (s == WH_OK && w->segments != 0) {
        options.tuning = w->tiny ? tiny : tuning;
        options.device = device;
        options.allocator = "gallatin";
        s = wh_heap_min_bytes(&options, &options.bytes); /* one segment */
        options.bytes += (w->segments - 1) *
                         (options.tuning.segment_bytes + sizeof(wh_gallatin_segment) + 2 * 4 * 16);
        s = s == WH_OK ? wh_heap_create(&heap, &options) : s;
        s = s == WH_OK ? wh_heap_handle(heap, &a.heap) : s;
    }
    if (s == WH_OK && w->other != NULL) {
        options.tuning.page_bytes = 64;
        options.tuning.unit_bytes = 64;
        options.tuning.exact_oom = 1;
        options.tuning.oom_free_ppm = 900000; /* a short walk, then the sweep */
        options.allocator = w->other;
        options.device = device;
        s = wh_heap_min_bytes(&options, &options.bytes);
        options.bytes += w->bytes;
        s = s == WH_OK ? wh_heap_create(&heap, &options) : s;
        const size_t size = handle_size(w->handle);
        s = s == WH_OK ? wh_heap_handle_of(heap, w->other, 0, (char *)&a + w->handle, size) : s;
    }
    const uint64_t words = wh_veb_words(UNIVERSE);
    const uint64_t queue = sizeof *a.queue + sizeof *a.pool + 16 * 32;
    const uint64_t bytes =
        (words + UNIVERSE) * 8 + sizeof(wh_ring) + 64 * 4 + 64 + sizeof found + 64 + queue;
    s = s == WH_OK ? wh_device_alloc(device, &memory, bytes) : s;
    s = s == WH_OK ? wh_device_set(device, memory, 0, bytes) : s;
    uint64_t *at = memory;
    a.set = wh_veb_make(at, UNIVERSE);
    a.data = at + words;
    a.ring = (wh_ring *)(void *)(a.data + UNIVERSE);
    a.entries = (uint32_t *)(void *)(a.ring + 1);
    a.semaphore = a.entries + 64;
    a.found = (findings *)(void *)(a.semaphore + 16);
    a.queue = (wh_vqueue_words *)(void *)(a.semaphore + 32);
    a.pool = (wh_chunk_pool_words *)(void *)(a.queue + 1);
    if (s == WH_OK) { /* the simulated device's memory is the host's */
        const wh_vqueue q = small_queue(&a);
        wh_vqueue_reset(q);
    }
    a.seed = (uint32_t)seed;
    a.steps = w->steps;
    a.least = w->least;
    const wh_launch launch = {device, w->blocks, w->threads, NULL};
    s = s == WH_OK ? w->kernel(&launch, &a) : s;
    s = s == WH_OK && w->then != NULL ? w->then(&launch, &a) : s;
    s = s == WH_OK ? wh_device_copy_out(device, &found, a.found, sizeof found) : s;
    return fault_verdict(w->name, seed, s, device, heap, memory, &found);
}

int fault_verdict(const char *name, uint64_t seed, wh_status s, wh_device *device, wh_heap *heap,
                  void *memory, findings *found) {
    wh_report report = {0, 0, 0};
    wh_stats stats;
    if (s == WH_OK && heap != NULL) {
        s = wh_heap_check(heap, &report);
    }
    if (s == WH_OK && heap != NULL) {
        s = wh_heap_get_stats(heap, &stats);
        found->lost += stats.live_blocks != 0 || stats.bad_frees != 0; /* all is freed */
    }
    const int wrong = s != WH_OK || found->lost != 0 || found->nulls != 0 || found->overlaps != 0;
    if (wrong) {
        fprintf(stderr, "%s seed %u: %s I%u, lost %u, nulls %u, overlaps %u. %s\n", name,
                (unsigned)seed, wh_status_name(s), (unsigned)report.first_tag, found->lost,
                found->nulls, found->overlaps, device != NULL ? wh_device_error_text(device) : "");
    }
    wh_heap_destroy(heap);
    if (device != NULL) {
        (void)wh_device_free(device, memory);
    }
    wh_device_close(device);
    return wrong;
}

static const workload *find(const char *name) {
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (strcmp(workloads[i].name, name) == 0) {
            return &workloads[i];
        }
    }
    return NULL;
}

/* A workload of this file or another under one seed. */
static int run_named(const char *name, uint64_t seed) {
    const workload *w = find(name);
    return w != NULL ? run(w, seed) : fault_tessera_run(name, seed);
}

/* All seeds until one finds something; ThreadSanitizer turns a race into 66. */
static int child(const char *name, const char *seed) {
    if (seed != NULL) {
        return run_named(name, strtoull(seed, NULL, 10));
    }
    const char *fault = getenv("WH_FAULT");
    const uint64_t most = n_seeds(fault != NULL && strcmp(fault, "none") != 0);
    for (uint64_t k = 1; k <= most; k++) {
        printf("%u\n", (unsigned)k); /* the last line says where it ended, however it did */
        (void)fflush(stdout);
        if (run_named(name, k) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Whether a process of its own finds something wrong with the fault planted: it may
 * crash. */
static int is_found(const char *fault, const char *name, unsigned *seed) {
    int out[2];
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    assert_int_equal(fflush(NULL), 0);
    assert_int_equal(pipe(out), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int keep = getenv("WH_FAULT_SHOW") != NULL || strcmp(fault, "none") == 0;
        if (setenv("WH_FAULT", fault, 1) != 0 ||
            setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66", 1) != 0 ||
            dup2(out[1], STDOUT_FILENO) < 0 ||
            (!keep && freopen("/dev/null", "w", stderr) == NULL)) {
            _exit(127);
        }
        (void)execl(self, self, "child", name, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    assert_non_null(lines);
    while (fscanf(lines, "%u", seed) == 1) {
    }
    (void)fclose(lines);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void is_sound(const char *name) {
    unsigned seed = 0;
    if (is_found("none", name, &seed)) {
        fail_msg("%s: something is wrong without a fault: fault child %s %u", name, name, seed);
    }
}

static void nothing_without_a_fault(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        is_sound(workloads[i].name);
    }
    for (size_t i = 0; fault_tessera_names[i] != NULL; i++) {
        is_sound(fault_tessera_names[i]);
    }
}

static void every_fault_is_found(void **state) {
    static const struct {
        const char *fault, *workload;
    } faults[] = {
        {"veb_r1", "veb-toggle"},             /* lost bit: a remove does not look again */
        {"veb_r1_range", "veb-range-toggle"}, /* ... of items in several words */
        {"gallatin_h1", "hint-churn"},        /* the same for a segment's hint */
        {"gallatin_s1", "block-churn"},       /* stale-tree check left out */
        {"gallatin_x1", "never-null"},        /* NULL without a quiet search */
        {"gallatin_moves", "switch-churn"},   /* ... or without a second look at slices */
        {"gallatin_detach", "detach-churn"},  /* a block in use taken for an idle one */
        {"free_waits", "tessera-warp"},      /* a lane returns before its leader has freed for it */
        {"tessera_back", "tessera-parts"},   /* chunks claimed with a span and not put back */
        {"tessera_i4", "tessera-small"},     /* slots out of a slab that its freer owns */
        {"tessera_i4_each", "tessera-each"}, /* ... by who has seen it before that */
        {"tessera_i4_each", "tessera-each-words"},
        {"tessera_i5", "tessera-wide-turns"},    /* a taker enters a slab that has been shut */
        {"tessera_i6", "tessera-small"},         /* a slab with free slots that nobody lists */
        {"tessera_i6_each", "tessera-unlisted"}, /* ... once it has been taken off the list */
        {"tessera_i6_pack", "tessera-packs"},    /* ... or a pack with free blocks */
        {"tessera_t1", "tessera-turns"},         /* no second look at the tag */
        {"tessera_t1_each", "tessera-each"},     /* ... of who does not enter */
        {"tessera_t1_each", "tessera-dressed-each"},
        {"tessera_t1_pack", "tessera-late-pack"},  /* ... of who takes a block of a pack */
        {"tessera_t1_tags", "tessera-late-pack"},  /* ... or at the tags that say where it is */
        {"tessera_t1_past", "tessera-late-slot"},  /* slot 0 without the bits that go with it */
        {"tessera_t1_past", "tessera-late-words"}, /* ... or the first of another word */
        {"tessera_t1_ends", "tessera-late-ends"},  /* ... by who has taken it without them */
        {"tessera_x2_nothing", "tessera-nothing"}, /* nothing given back, counted as a free */
        {"tessera_p4", "tessera-scattered"},       /* NULL while a take holds chunks for a moment */
        {"tessera_x1_quiet", "tessera-under-way"}, /* ... or without a quiet start */
        {"tessera_x1_same", "tessera-halves"},     /* ... or end */
        {"tessera_x1_spare", "tessera-spare"},     /* ... or a spare span */
        {"tessera_x1_transit", "tessera-halves"},  /* ... or a slab on its way to the pool */
        {"tessera_x1_shut", "tessera-under-way"},  /* ... or one that a free has shut */
        {"tessera_x1_words", "tessera-answered"},  /* ... or a slot that is not listed yet */
        {"tessera_x2_free", "tessera-verdict"},    /* ... or by what was so before a free */
        {"tessera_x2_free", "tessera-verdict-warp"},
        {"tessera_p6", "tessera-counted"},    /* ... or without what had been counted */
        {"tessera_x3", "tessera-answered"},   /* ... or by a search that began before the request */
        {"tessera_run_rest", "tessera-runs"}, /* chunks claimed for an alignment and not put back */
        {"tessera_run_same", "tessera-under-way"}, /* NULL for a run while chunks are moved */
        {"tessera_run_events", "tessera-alone"},   /* ... or by what was so before a free */
        {"vqueue_i5", "queue-message"},     /* a link is overwritten before it is in the list */
        {"vqueue_i2_batch", "queue-batch"}, /* a chunk retires together with its predecessor */
        {"vqueue_i3", "queue-message"},     /* a link of a chunk in other use is followed */
        {"ouro_i3", "s-c-churn"},           /* a chunk with live pages goes to the pool */
        {"ouro_x1_held", "s-c-never-null"},
        {"ouro_x1_parked", "s-p-parked"}, /* NULL while a lane holds a parked chunk */
        {"ouro_x2_open", "s-p-mixed"},    /* ... or those of other classes are not closed */
        {"ouro_x1_open", "s-p-opened"},   /* ... or pages are ahead, or on their way to there */
        {"ouro_x2_opened", "s-p-opened"}, /* ... or a chunk is opened behind the search */
        {"ouro_i6", "s-p-churn"},         /* pages past the end of an open chunk */
        {"ouro_i6_next", "s-p-passes"},   /* ... or of the one that is brought next */
        {"ouro_x2_moving", "s-p-mixed-parked"}, /* NULL while another lane moves pages to bits */
        {"ouro_x3", "s-p-mixed"},               /* ... or they did so once */
        {"ouro_x2_puts", "s-p-mixed"},          /* ... or pages come back behind the search */
        {"ouro_x2_whole", "s-c-mixed"},         /* ... or a chunk becomes free behind it */
        {"ouro_x2_verdict", "s-p-refill"},      /* ... or by what was so before a free */
        {"chunkpool_p2", "pool-moves"},         /* empty while chunks are split or put together */
        {"bulksem_i1", "s-p-churn"},            /* a batch that has come is still expected */
        {"bulksem_i2", "s-p-churn"},            /* more is taken than there was */
        {"bulksem_retake", "s-p-churn"},        /* what was not got is not waited for any more */
        {"random_walk_i1", "rw-bm-churn"},      /* a word's lock does not exclude */
        {"rw_x1", "rw-never-null"},             /* NULL after one sweep */
        {"random_walk_x1", "rw-bm-never-null"}, /* the same over words */
        {"random_walk_x1", "corw-never-null"},
        {"random_walk_x1", "crw-never-null"},
        {"rwmalloc_i1", "rwmalloc-churn"},      /* a conflict is not noticed */
        {"rwmalloc_x1", "rwmalloc-never-null"}, /* NULL after one sweep */
        {"circular_grace", "cfmalloc-churn"},   /* the paper's merge: nobody waits */
        {"circular_hint", "cmmalloc-churn"},    /* another SM's offset is not validated */
        {"circular_i5_free", "cfmalloc-churn"}, /* a free one that the map has as in use */
#ifndef WH_TSAN                                 /* it has no weak memory */
        {"veb_p3_range", "veb-range-seen"},     /* items gone before what their claimer did */
        {"tessera_p7_rest", "tessera-turns"},   /* slots to take before the slab's tag is there */
        {"tessera_p7_enter", "tessera-wide-turns"},  /* ... or takers let in */
        {"tessera_p7_state", "tessera-dressed"},     /* ... or by who tells them so */
        {"tessera_p8_ask", "tessera-asked"},         /* NULL for who has freed, then asked */
        {"tessera_p8_lanes", "tessera-asked-warp"},  /* ... or asked with who has */
        {"tessera_p8_search", "tessera-asked-warp"}, /* ... by a search that saw that late */
        {"tessera_p8_told", "tessera-asked-warp"},   /* ... or lanes of it that did */
        {"tessera_p2_lanes", "tessera-slabs"},       /* a block before its slab's tag is there */
#else
        {"veb_p1_insert", "veb-message"},
        {"veb_p2_insert", "veb-pair"},
        {"veb_p1_range", "veb-range-message"},
        {"veb_p1_range_claim", "veb-range-message"},
        {"veb_p2_range", "veb-range-pair"},
        {"ring_p1_put", "ring-message"},
        {"ring_p1_take", "ring-message"},
        {"gallatin_p1_free", "slice-churn"},
        {"gallatin_p1_last", "slice-churn"},
        {"gallatin_p2_give", "slice-churn"},
        {"gallatin_p2_take", "slice-churn"},
        {"gallatin_p3_publish", "slice-churn"},
        {"gallatin_p3_claim", "slice-churn"},
        {"tessera_p1_free", "tessera-churn"},
        {"tessera_p1_state", "tessera-words"},
        {"tessera_p1_leave", "tessera-late-leave"},
        {"tessera_p1_wide", "tessera-words"},
        {"tessera_p1_each", "tessera-each"},
        {"tessera_p1_block", "tessera-packs"},
        {"tessera_p2_claim", "tessera-small"},
        {"tessera_p2_publish", "tessera-quarters"},
        {"tessera_p2_spare", "tessera-spares"},
        {"tessera_p2_lanes", "tessera-packs"},
        {"tessera_p3_detached", "tessera-detached"}, /* slots of a slab that another lane has got */
        {"tessera_p3_gathered", "tessera-gathered"},
        {"ring_p1_put", "queue-message"},
        {"vqueue_p2_find", "queue-message"},
        {"vqueue_p2_link", "va-c-churn"},
        {"vqueue_p3_done", "queue-message"},
        {"vqueue_p4", "queue-announce"},
        {"ouro_p2_set", "s-c-churn"},
        {"ouro_p2_claim", "s-c-churn"},
        {"ouro_p3_count", "s-c-churn"},
        {"ouro_p7_install", "s-p-churn"},
        {"ouro_p7_take", "s-p-churn"},
        {"rw_p1_get", "rw-churn"},
        {"rw_p1_free", "rw-churn"},
        {"rw_bm_p1_get", "rw-bm-churn"},
        {"use_p1_release", "rw-bm-churn"},
        {"corw_p1", "corw-churn"},
        {"use_p1_claim", "rwmalloc-churn"},
        {"rwmalloc_p1_get", "rwmalloc-churn"},
        {"rwmalloc_p1_lanes", "rwmalloc-churn"},
        {"rwmalloc_p2", "rwmalloc-churn"},
        {"circular_p1_read", "cfmalloc-churn"},
        {"circular_p1_write", "cfmalloc-churn"},
        {"circular_p2_stamp", "circular-grace"},
        {"circular_p2_empty", "circular-grace"},
        {"circular_p2_enter", "circular-grace"},
        {"circular_p3_leave", "cfmalloc-churn"},
        {"circular_p3_take", "cfmalloc-churn"},
#endif
    };
    (void)state;
    int missed = 0;
#ifndef WH_TSAN
    printf("skipped: faults of order, which show in the tsan build alone\n");
#endif
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        unsigned seed = 0;
        if (is_found(faults[i].fault, faults[i].workload, &seed)) {
            printf("found %s: WH_FAULT=%s fault child %s %u\n", faults[i].fault, faults[i].fault,
                   faults[i].workload, seed);
        } else {
            fprintf(stderr, "%s was not found by %s in %u seeds\n", faults[i].fault,
                    faults[i].workload, (unsigned)n_seeds(1));
            missed++;
        }
    }
    assert_int_equal(missed, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_without_a_fault),
                                       cmocka_unit_test(every_fault_is_found)};
    if (argc >= 3 && strcmp(argv[1], "child") == 0) {
        return child(argv[2], argc > 3 ? argv[3] : NULL) & 127; /* -1: no such workload */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

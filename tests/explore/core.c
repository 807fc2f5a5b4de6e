/* core.c: bodies of what lies in core/: words of bits, trees, rings, semaphores, pools, queues. */
#include "explore/explore.h"

#include "warpheap/core/grid_scan.h"

#define WRONG(a, condition) wh_add_u32_relaxed(&(a).m->wrong, (condition) ? 1 : 0)

/* --- use_word --------------------------------------------------------------------------------- */

/* Two lanes want bits of which they share two; who has one is written beside it. */
WH_KERNEL(use_word, body_args, a) {
    const uint64_t me = wh_thread_id();
    const uint32_t first = (uint32_t)me * 2, mask = 0xfu << first;
    for (uint32_t step = 0; step < a.steps; step++) {
        uint64_t seen = wh_load_u64_relaxed(&a.m->word);
        if (!wh_use_claim(&a.m->word, &seen, mask)) {
            continue;
        }
        for (uint32_t b = first; b < first + 4; b++) {
            a.m->owner[b] = me + 1;
        }
        wh_backoff(0);
        for (uint32_t b = first; b < first + 4; b++) {
            WRONG(a, a.m->owner[b] != me + 1);
        }
        wh_use_release(&a.m->word, mask);
    }
}

static int word_is_used(const body_args *a) {
    return wh_use_free(a->m->word) != UINT32_MAX;
}

/* --- veb -------------------------------------------------------------------------------------- */

WH_FN wh_veb tree_of(const body_args *a) {
    return wh_veb_make(a->m->tree, UNIVERSE);
}

/* Items of one word come and go; in the end they are in. */
WH_KERNEL(veb_toggle, body_args, a) {
    const uint64_t item = 64 + wh_thread_id();
    for (uint32_t step = 0; step < a.steps; step++) {
        (void)wh_veb_insert(tree_of(&a), item);
        (void)wh_veb_remove(tree_of(&a), item);
    }
    (void)wh_veb_insert(tree_of(&a), item);
}

/* No search misses one (R1), and the levels agree. */
static int tree_is_wrong(const body_args *a) {
    int wrong = wh_veb_successor(tree_of(a), 0) != 64;
    for (uint64_t i = 0; i < wh_veb_words(UNIVERSE); i++) {
        wrong |= !wh_veb_check(tree_of(a), i);
    }
    return wrong;
}

/* Ranges of items in two words, of which lanes share the second. */
WH_KERNEL(veb_range, body_args, a) {
    const uint64_t me = wh_thread_id();
    const uint64_t first = me == 0 ? 126 : 130 + 2 * me, count = me == 0 ? 4 : 2;
    for (uint32_t step = 0; step < a.steps; step++) {
        wh_veb_insert_range(tree_of(&a), first, count);
        WRONG(a, !wh_veb_claim_range(tree_of(&a), first, count));
    }
    wh_veb_insert_range(tree_of(&a), first, count);
}

static int ranges_are_wrong(const body_args *a) {
    int wrong = wh_veb_successor(tree_of(a), 0) != 126;
    for (uint64_t i = 0; i < wh_veb_words(UNIVERSE); i++) {
        wrong |= !wh_veb_check(tree_of(a), i);
    }
    return wrong;
}

/* Each lane takes items, which are fewer than all want at once, by a search, and puts them back. */
WH_KERNEL(veb_claim, body_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t item = wh_veb_successor(tree_of(&a), 0);
        if (item == WH_VEB_NONE || !wh_veb_remove(tree_of(&a), item)) {
            continue;
        }
        WRONG(a, wh_fetch_add_u64_relaxed(&a.m->owner[item % 64], 1) != 0);
        (void)wh_fetch_sub_u64_relaxed(&a.m->owner[item % 64], 1);
        (void)wh_veb_insert(tree_of(&a), item);
    }
}

static void two_items(const body_args *a) {
    (void)wh_veb_insert(tree_of(a), 64);
    (void)wh_veb_insert(tree_of(a), 130);
}

static int items_are_gone(const body_args *a) {
    return tree_is_wrong(a) || wh_veb_predecessor(tree_of(a), UNIVERSE) != 130;
}

/* --- ring ------------------------------------------------------------------------------------- */

/* The first lanes put a number, the others take one, written about in plain memory (P1). */
WH_KERNEL(ring, body_args, a) {
    const uint32_t me = (uint32_t)wh_thread_id(), n = (uint32_t)wh_grid_threads() / 2;
    for (uint32_t step = 0; step < a.steps; step++) {
        if (me < n) {
            const uint32_t value = step * n + me;
            a.m->owner[value] = value + 1;
            wh_ring_put_at(a.m->entries, 2, wh_ring_reserve_put(&a.m->ring), value);
            continue;
        }
        const uint32_t value =
            wh_ring_take_at(&a.m->ring, a.m->entries, 2, wh_ring_reserve_take(&a.m->ring, 1));
        WRONG(a, value >= n * a.steps || a.m->owner[value % 64] != value + 1);
        a.m->owner[value % 64] = 0; /* taken once */
    }
}

static int ring_is_wrong(const body_args *a) {
    return a->m->ring.head != a->m->ring.tail || a->m->entries[0] != 0 || a->m->entries[1] != 0;
}

/* --- bulk semaphore -----------------------------------------------------------------------------
 */

#define BATCH_LOG2 1u

/* As in tests/unit/bulk_semaphore.c: units are counted apart, and never more taken than are there.
 */
WH_KERNEL(bulk_semaphore, body_args, a) {
    const uint32_t batch = 1u << BATCH_LOG2;
    uint64_t *sem = &a.m->word, *units = &a.m->units;
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t n = 1 + (uint32_t)(wh_thread_id() + step) % 3;
        const uint64_t old = wh_bulk_semaphore_take(sem, n);
        uint32_t have = wh_bulk_semaphore_got(old, n), duty = 0;
        WRONG(a, have != 0 && (int64_t)wh_fetch_sub_u64_relaxed(units, have) < (int64_t)have);
        if (have < n) {
            duty = wh_bulk_semaphore_batches(old, n, BATCH_LOG2);
            wh_bulk_semaphore_reserve(sem, n - have, duty);
        }
        for (uint32_t attempt = 0, idle = 0; have < n; attempt++) {
            const uint64_t w = wh_load_u64_relaxed(sem);
            if (duty != 0) {
                const uint32_t keep = n - have < duty * batch ? n - have : duty * batch;
                wh_add_u64_relaxed(&a.m->fetched, duty);
                wh_add_u64_relaxed(units, duty * batch - keep);
                wh_bulk_semaphore_signal(sem, duty * batch - keep, duty, keep);
                have += keep;
                duty = 0;
            } else if (wh_bulk_semaphore_count(w) > 0) {
                const uint32_t got = wh_bulk_semaphore_retake(sem, n - have);
                WRONG(a, got != 0 && (int64_t)wh_fetch_sub_u64_relaxed(units, got) < (int64_t)got);
                have += got;
            } else if (wh_bulk_semaphore_expected(w) == 0 && ++idle > 2) {
                duty = wh_bulk_semaphore_volunteer(sem, 1, BATCH_LOG2);
                idle = 0;
            }
            wh_backoff(attempt);
        }
        wh_add_u64_relaxed(units, have);
        wh_bulk_semaphore_signal(sem, have, 0, 0);
    }
}

static int semaphore_is_wrong(const body_args *a) { /* I1 */
    return a->m->word != wh_bulk_semaphore_word((int64_t)a->m->units, 0, 0) ||
           a->m->units != a->m->fetched << BATCH_LOG2;
}

/* --- chunk pool
 * ----------------------------------------------------------------------------------- */

/* So many small chunks, in large ones of two. */
WH_FN wh_chunk_pool pool_of(const body_args *a) {
    wh_chunk_pool p;
    wh_chunk_pool_bind(&p, &a->m->pool);
    p.entries[0] = a->m->entries;
    p.entries[1] = a->m->entries + 16;
    p.entries_log2[0] = p.entries_log2[1] = 4;
    p.loose_tree = tree_of(a);
    p.n = 2;
    p.large_log2 = 1;
    return p;
}

/* A chunk for each lane but the last one, which puts small ones together (I3, P2). */
WH_KERNEL(chunk_pool, body_args, a) {
    const wh_chunk_pool p = pool_of(&a);
    for (uint32_t step = 0; step < a.steps; step++) {
        if (wh_thread_id() == wh_grid_threads() - 1) {
            (void)wh_chunk_pool_merge(p);
            continue;
        }
        wh_chunk_pool_taken t = wh_chunk_pool_take(p, 0, 1);
        for (uint32_t attempt = 0; t.n == 0; attempt++) {
            if (wh_chunk_pool_empty(p, 0)) {
                WRONG(a, 1);
                return;
            }
            wh_backoff(attempt);
            t = wh_chunk_pool_take(p, 0, 1);
        }
        const uint32_t chunk = wh_chunk_pool_get(p, 0, t, 0);
        WRONG(a, wh_fetch_add_u64_relaxed(&a.m->owner[chunk], 1) != 0);
        (void)wh_fetch_sub_u64_relaxed(&a.m->owner[chunk], 1);
        wh_chunk_pool_free(p, 0, chunk);
    }
}

static void all_fresh(const body_args *a) {
    wh_chunk_pool_reset(pool_of(a));
}

/* --- virtualized queues
 * ------------------------------------------------------------------------------ */

WH_FN wh_vqueue_chunks chunks_of(const body_args *a) {
    wh_vqueue_chunks k;
    k.pool = pool_of(a);
    k.pool.n = 8;
    k.pool.large_log2 = 0;
    k.done = a->m->finished;
    k.next = a->m->next;
    k.base = (unsigned char *)a->m->pages;
    k.chunk_log2 = 3; /* two entries each */
    k.ahead = 0;
    return k;
}

WH_FN wh_vqueue queue_of(const body_args *a) {
    wh_vqueue q;
    wh_vqueue_bind(&q, &a->m->queue);
    q.entries = NULL;
    q.links = a->m->links;
    q.kind = WH_VQUEUE_LINKED;
    q.table_log2 = 0; /* a cache of one link: lanes walk */
    q.id = 1;
    q.bounded = 0;
    return q;
}

/* Each lane passes messages on, one at a time. */
WH_KERNEL(vqueue, body_args, a) {
    const wh_mask me = 1u << wh_lane_id();
    const wh_vqueue_chunks k = chunks_of(&a);
    const wh_vqueue q = queue_of(&a);
    uint32_t v = (uint32_t)wh_thread_id();
    a.m->owner[v] = v + 1;
    for (uint32_t step = 0; step < a.steps; step++) {
        for (uint32_t attempt = 0; wh_vqueue_reserve(q, k, me, 1) == 0; attempt++) {
            wh_backoff(attempt);
        }
        wh_vqueue_put(q, k, me, 1, wh_vqueue_reserve_put(q, 1), v);
        wh_add_u32_relaxed(&a.m->done, 1);
        for (uint32_t attempt = 0;; attempt++) {
            const uint32_t have = wh_load_u32_relaxed(&a.m->done);
            if (have != 0 && wh_cas_u32_relaxed(&a.m->done, have, have - 1) == have) {
                break;
            }
            wh_backoff(attempt);
        }
        v = wh_vqueue_take(q, k, me, 1, wh_vqueue_reserve_take(q, 1));
        if (v >= wh_grid_threads() || a.m->owner[v] != v + 1) {
            WRONG(a, 1);
            return;
        }
    }
}

static void empty_queue(const body_args *a) {
    wh_chunk_pool_reset(chunks_of(a).pool);
    wh_vqueue_reset(queue_of(a));
}

/* --- a window of two exact switches
 * ---------------------------------------------------------------------- */

/* Not of the library: lane 1 is ready between two of its points. Lane 0 opens a word for one point
 * of its own if lane 1 has stood still there since lane 0 began; lane 1 then sees it. So one switch
 * must come at just one of 300 points of lane 1, another one at just one of 300 points of lane 0,
 * and no other one in between. */
WH_KERNEL(window, body_args, a) {
    const uint64_t me = wh_thread_id();
    uint32_t *ready = &a.m->flags[0], *open = &a.m->flags[1], *passed = &a.m->flags[2];
    const uint32_t first = me == 0 ? wh_load_u32_relaxed(passed) : 0;
    for (uint32_t i = 0; i < a.steps; i++) {
        if (me == 1) {
            wh_store_u32_relaxed(passed, i);
        } else {
            (void)wh_load_u32_relaxed(ready);
        }
        if (i != a.steps / 2 || !WH_PLANT(explore_window, 0, 1)) {
            continue;
        }
        if (me == 1) {
            wh_store_u32_relaxed(ready, 1);
            const uint32_t seen = wh_load_u32_relaxed(open);
            wh_store_u32_relaxed(ready, 0);
            WRONG(a, seen != 0);
        } else if (wh_load_u32_relaxed(ready) != 0 && wh_load_u32_relaxed(passed) == first) {
            wh_store_u32_relaxed(open, 1);
            wh_store_u32_relaxed(open, 0);
        }
    }
}

const body core_bodies[] = {
    {"use_word", use_word, 2, 2, 2, .is_wrong = word_is_used},
    {"veb.toggle", veb_toggle, 2, 2, 2, .is_wrong = tree_is_wrong},
    {"veb.range", veb_range, 2, 1, 2, .is_wrong = ranges_are_wrong},
    {"veb.claim", veb_claim, 3, 1, 1, .prepare = two_items, .is_wrong = items_are_gone},
    {"ring", ring, 4, 2, 1, .is_wrong = ring_is_wrong},
    {"bulk_semaphore", bulk_semaphore, 3, 2, 1, .is_wrong = semaphore_is_wrong},
    {"chunk_pool", chunk_pool, 3, 2, 1, .prepare = all_fresh},
    {"vqueue", vqueue, 3, 2, 1, .prepare = empty_queue},
    {"window", window, 2, 300, 1},
    {.name = NULL},
};

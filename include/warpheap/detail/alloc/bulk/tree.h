/* alloc/bulk/tree.h: the tree buddy allocator (TBuddy): nodes of a static binary tree, a bulk
 * semaphore for each level. It may change. Terms and invariants: layout.h.
 *
 *     take a node of level l: a unit of the level's semaphore is the right to one of its available
 *     nodes. Who gets none fetches a node of level l + 1, if that is its duty, and splits it: one
 *     half is its own, the other becomes available, for one of those who wait
 *     free: the node becomes available; if its buddy is, the two become their parent
 *
 * Departures
 *   - the paper's nodes are busy, partial or available, and a change locks a node and its parent.
 *     Here a bit says that a node is available, and a cas of the word in which both buddies have
 *     their bits takes both
 *   - a merge takes the buddies first and tells the semaphore then. So a unit may be the right to a
 *     node that has just gone: its owner gives it back, and tries again
 *
 * Ordering pair
 *   P1  free: the insert, acq_rel (P1 of core/veb.h), or its cas of both buddies, acq_rel -> who
 *       takes the node or a part of it: a claim, acq_rel: the old owner's writes come before the
 *       new one's
 * X1        NONE without a step: no semaphore from the wanted level up had a unit or expected one,
 *           no node was seen, and then all semaphores said the same as before. A lane that splits
 *           raises what is expected before it takes, and lowers it when the halves are there. NONE
 *           after a step: the highest level had no unit for the lane, and then no node was seen.
 *           What others expect does not count there: lanes that find nothing would keep each other
 *           from seeing that
 * Lanes     any lane alone
 * Progress  a lane waits for one that fetches from a higher level, and that one for none of a lower
 *           level; of the highest level none waits. A unit without a node: another lane stands
 *           between its cas of two buddies and its next step. So lanes wait for lanes that run
 * Fails     NONE by X1. What others split or merge at this moment may be missed (not
 *           WH_CAP_EXACT_OOM)
 */
#ifndef WH_ALLOC_BULK_TREE_H
#define WH_ALLOC_BULK_TREE_H

#include "warpheap/core/hash.h"
#include "warpheap/detail/alloc/bulk/layout.h"

#include "warpheap/detail/simt/begin.h"

/* Some item of a set of which the caller has the right to one, or NONE: none was seen. As many look
 * at once as there are items, and what the levels bring is close together. So each looks at a place
 * that is evenly spread in what is there, another one each time: if all began at places of the set,
 * most would come to the same few items (1.1 billion claims in vain for a million blocks).
 * Progress: a look in vain has met a claim, or a bit over an empty word, which one of 32 clears. */
WH_FN uint64_t wh_bulk_look_(wh_veb set, uint32_t *attempt) {
    const uint64_t *root = wh_veb_word(set, wh_veb_words(set.n) - 1);
    WH_NO_UNROLL
    do {
        uint32_t at = wh_spread32((uint32_t)wh_thread_id() + ++*attempt * 0x9e3779b9u);
        const uint64_t x = wh_veb_pick(set, &at, (at & 31) == 0);
        if (x != WH_VEB_NONE) {
            return x;
        }
    } while (wh_load_u64_relaxed(root) != 0);
    return WH_VEB_NONE;
}

/* Takes some available node; NONE: none was seen. */
WH_FN uint64_t wh_bulk_claim_(wh_veb set) {
    WH_NO_UNROLL
    for (uint32_t attempt = 0;;) {
        const uint64_t x = wh_bulk_look_(set, &attempt);
        if (x == WH_VEB_NONE) {
            return WH_BULK_NONE;
        }
        if (wh_veb_remove(set, x)) { /* P1 */
            return x;
        }
    }
}

/* Takes both buddies out, if both are there. */
WH_FN int wh_bulk_claim_buddies_(wh_veb set, uint64_t node) {
    uint64_t *word = wh_veb_word(set, node >> 6);
    const uint64_t both = (uint64_t)3 << (node & 62);
    uint64_t bits = wh_load_u64_relaxed(word);
    WH_NO_UNROLL
    while ((bits & both) == both) {
        const uint64_t seen =
            WH_PLANT_ORDER(bulk_p1_merge, wh_cas_u64, acq_rel)(word, bits, bits & ~both); /* P1 */
        if (seen == bits) {
            if ((bits & ~both) == 0) {
                wh_veb_emptied(set, node >> 6);
            }
            return 1;
        }
        bits = seen;
    }
    return 0;
}

/* Gives a node back. */
WH_FN_SLOW void wh_bulk_give_(wh_bulk_ref h, uint32_t level, uint64_t node) {
    WH_NO_UNROLL
    for (;; node >>= 1, level++) {
        const wh_veb set = wh_bulk_set_(h, level);
        wh_assert_internal(node < set.n);
        const int added = wh_veb_insert(set, node); /* P1 */
        wh_assert_internal(added);                  /* I1 */
        (void)added;
        const int has_buddy = (node | 1) < set.n;
        if (!has_buddy || !WH_PLANT(bulk_i2, wh_bulk_claim_buddies_(set, node), 0)) { /* I2 */
            wh_bulk_semaphore_signal(wh_bulk_sem_(h, level), 1, 0, 0);                /* I3 */
            return;
        }
        (void)wh_bulk_semaphore_take(wh_bulk_sem_(h, level), 1); /* I3: the buddy was counted */
    }
}

/* How a lane stands to a level. */
#define WH_BULK_FETCH 1u /* it is its duty to fetch a node of the next one */
#define WH_BULK_AGAIN 2u /* the state has changed */
#define WH_BULK_OURS 3u  /* it has a unit */

/* Waits until there are units, and the caller may try for them, or a batch is the caller's duty.
 * Its reservation ends, but for FETCH. */
WH_FN uint32_t wh_bulk_wait_(uint64_t *sem, uint32_t wanted, uint32_t batch_log2) {
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        const uint64_t w = wh_load_u64_relaxed(sem);
        if (wh_bulk_semaphore_may_try(w, 0, attempt, (uint32_t)wh_thread_id())) {
            wh_bulk_semaphore_signal(sem, 0, 0, wanted);
            return WH_BULK_AGAIN;
        }
        if (wh_bulk_semaphore_expected(w) == 0 &&
            wh_bulk_semaphore_volunteer(sem, 1, batch_log2) != 0) {
            return WH_BULK_FETCH;
        }
        wh_backoff(attempt);
    }
}

/* A unit of the semaphore, or the duty to fetch a batch, with a reservation of `wanted`. *got:
 * units of OURS. */
WH_FN uint32_t wh_bulk_ask_(uint64_t *sem, uint32_t wanted, uint32_t batch_log2, uint32_t *got) {
    const uint64_t old = wh_bulk_semaphore_take(sem, wanted);
    *got = wh_bulk_semaphore_got(old, wanted);
    if (*got != 0) {
        if (*got < wanted) {
            wh_bulk_semaphore_signal(sem, wanted - *got, 0, 0);
        }
        return WH_BULK_OURS;
    }
    const uint32_t batches = wh_bulk_semaphore_batches(old, wanted, batch_log2);
    wh_bulk_semaphore_reserve(sem, wanted, batches);
    if (batches > 1) { /* one at a time: others see that too little is expected */
        wh_bulk_semaphore_signal(sem, 0, batches - 1, 0);
    }
    return batches != 0 ? WH_BULK_FETCH : wh_bulk_wait_(sem, wanted, batch_log2);
}

/* A node of the level, or the duty to fetch one of the next level: *node is NONE. */
WH_FN uint32_t wh_bulk_at_level_(wh_bulk_ref h, uint32_t level, uint64_t *node) {
    uint64_t *sem = wh_bulk_sem_(h, level);
    *node = WH_BULK_NONE;
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t got = 0, state = WH_BULK_FETCH;
        if (level < h.top) {
            state = wh_bulk_ask_(sem, 1, 1, &got);
        } else if (wh_bulk_semaphore_got(wh_bulk_semaphore_take(sem, 1), 1) != 0) {
            state = WH_BULK_OURS;
        } else { /* there is no next level */
            wh_bulk_semaphore_signal(sem, 1, 0, 0);
            return WH_BULK_FETCH;
        }
        if (state == WH_BULK_FETCH) {
            return state;
        }
        if (state == WH_BULK_OURS) {
            *node = wh_bulk_claim_(wh_bulk_set_(h, level));
            if (*node != WH_BULK_NONE) {
                return state;
            }
            wh_bulk_semaphore_signal(sem, 1, 0, 0); /* I3: it was merged */
            wh_backoff(attempt);
        }
    }
}

/* One attempt of take: up to the first level that has a node, and down again. */
WH_FN uint64_t wh_bulk_descend_(wh_bulk_ref h, uint32_t level) {
    uint32_t at = level;
    uint64_t node = WH_BULK_NONE;
    WH_NO_UNROLL
    while (wh_bulk_at_level_(h, at, &node) == WH_BULK_FETCH && at < h.top) {
        at++;
    }
    WH_NO_UNROLL
    while (at > level) {
        at--;
        if (node != WH_BULK_NONE) {
            node *= 2;
            (void)wh_veb_insert(wh_bulk_set_(h, at), node + 1); /* P1 */
        }
        wh_bulk_semaphore_signal(wh_bulk_sem_(h, at), node != WH_BULK_NONE, 1, 1); /* I3 */
    }
    return node;
}

/* Whether some level from this one on has an available node. */
WH_FN int wh_bulk_sees_(wh_bulk_ref h, uint32_t level) {
    int seen = 0;
    WH_NO_UNROLL
    for (; level <= h.top && !seen; level++) {
        seen = wh_veb_successor(wh_bulk_set_(h, level), 0) != WH_VEB_NONE;
    }
    return seen;
}

/* Whether some semaphore from this level on has units, or expects some. *mixed: of what they say.
 */
WH_FN int wh_bulk_expects_(wh_bulk_ref h, uint32_t level, uint64_t *mixed) {
    int may = 0;
    *mixed = 0;
    WH_NO_UNROLL
    for (; level <= h.top && !may; level++) {
        const uint64_t w = wh_load_u64_acquire(wh_bulk_sem_(h, level)); /* X1 */
        may = wh_bulk_semaphore_count(w) > 0 || wh_bulk_semaphore_expected(w) != 0;
        *mixed = wh_spread64(*mixed ^ w);
    }
    return may;
}

/* A node of the level; NONE: there was none. */
WH_FN uint64_t wh_bulk_take_(wh_bulk_ref h, uint32_t level) {
    uint64_t before = 0, after = 0;
    if (!wh_bulk_expects_(h, level, &before) && !wh_bulk_sees_(h, level) &&
        !wh_bulk_expects_(h, level, &after) && before == after) { /* X1 */
        return WH_BULK_NONE;
    }
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        const uint64_t node = wh_bulk_descend_(h, level);
        if (node != WH_BULK_NONE || !wh_bulk_sees_(h, level)) { /* X1 */
            return node;
        }
        wh_backoff(attempt);
    }
}

/* 2^log2 nodes of the level that lie one behind the other; of less, if there are not so many. The
 * number of the first one. */
WH_FN uint64_t wh_bulk_take_some_(wh_bulk_ref h, uint32_t level, uint32_t *log2) {
    uint64_t node = WH_BULK_NONE;
    *log2 = level + *log2 < h.top ? *log2 : h.top - level;
    node = wh_bulk_take_(h, level + *log2);
    WH_NO_UNROLL
    while (node == WH_BULK_NONE && *log2 != 0) {
        node = wh_bulk_take_(h, level + --*log2);
    }
    return node != WH_BULK_NONE ? node << *log2 : node;
}

#include "warpheap/detail/simt/end.h"

#endif

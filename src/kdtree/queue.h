/* queue.h: who does which task. Each warp has a stack of its own, of which it takes the youngest
 * task, so that few nodes are open at a time. A queue that all share has tasks that a warp gave
 * away while others were idle: the oldest of its stack, which are the largest. Included by
 * kdtree_kernels.c.
 *
 * The queue is a bounded one of slots with turns (D. Vyukov's), but nobody competes for a slot: who
 * puts a task, or is idle, takes a number by one fetch_add and has that slot for himself; an idle
 * warp waits there. Slot i of `room` begins with turn i; p counts puts, or takes, since the start.
 * Q1      slot.turn: p -> p + 1, store release by the warp that has put task p, after a barrier of
 *         its lanes; load acquire by the taker of p, before one of its own: the task, and all that
 *         the putter's lanes wrote before, the references of the node above all. p + 1 -> p + room,
 *         store release by the taker, after a barrier; load acquire by the putter of p + room: the
 *         slot has been read
 * Q2      open: tasks in the queue, and warps that have a task. fetch_add before a put by a warp
 *         that is one of them; fetch_sub by a warp whose stack is empty. It is 0 only when all is
 *         done, as each put's addition comes, by Q1, before the subtraction of who took it. Relaxed
 * Q3      numbers: puts, low half, and takes, high half: fetch_add, relaxed. A warp puts n tasks,
 *         at most most_puts, after it has seen n takes more than puts, in one load. So with w warps
 *         puts - takes is less than w * most_puts: let x be what warps have seen room for and have
 *         not put yet. puts - takes + x grows only when a warp sees takes >= puts + n; then it is
 *         at most what the others have in x, less than w * most_puts. So in a room of so many slots
 *         the task before in the putter's slot has a taker
 * I1      the stack of a warp is that warp's alone: plain. It has at most two tasks of a depth and
 *         one of each other, and so has room for all
 * Progress a putter whose slot has not been read waits for its taker (Q3), who waits for nobody:
 *         the task is there. Otherwise a warp that has a task waits for nobody (the allocator has
 *         its own promise). A warp without one polls its slot until a task is there or open is 0;
 *         while open is not 0 some warp has a task, or one lies in a slot at which a warp waits, or
 *         the next one that is idle will
 */
#ifndef WHI_KDTREE_QUEUE_H
#define WHI_KDTREE_QUEUE_H

#include "warp.h"

/* Idle warps look at their own slot each time, but so often at the word that all share: a thousand
 * of them would keep it from those that work. They look relaxed, and acquire what they have seen:
 * an acquire empties the cache of the whole multiprocessor. */
#define OPEN_EVERY 16u
#define LONGEST_WAIT 3u /* wh_backoff */
#define WANTED_SMALL 8u /* tasks, before the warp works on them */

/* Gives n tasks to who is idle: no more than idle_warps, a barrier, has said. Each of the first n
 * lanes puts its *t. All lanes. */
WH_FN_SLOW void put_tasks(const whi_kdtree *k, const whi_kd_task *t, uint32_t n) {
    uint32_t p = 0;
    wh_assert_internal(n <= k->most_puts);
    if (is_first_lane()) {
        wh_fetch_add_u32_relaxed(&k->state->open, WH_PLANT(queue_q2_put, n, 0u)); /* Q2 */
        p = wh_low_u32(wh_fetch_add_u64_relaxed(&k->state->numbers, n));          /* Q3 */
    }
    p = wh_shfl_u32(WH_FULL_WARP, p, 0) + wh_lane_id();
    if (wh_lane_id() < n) {
        whi_kd_slot *slot = &k->queue[p & (k->queue_room - 1)];
        for (uint32_t attempt = 0;
             WH_PLANT_ORDER(queue_q1_room, wh_load_u32, acquire)(&slot->turn) != p; attempt++) {
            wh_backoff(attempt < LONGEST_WAIT ? attempt : LONGEST_WAIT);
        }
        slot->task = *t;
        WH_PLANT_ORDER(queue_q1_put, wh_store_u32, release)(&slot->turn, p + 1);
    }
    wh_syncwarp(WH_FULL_WARP);
}

/* Task p, which is there. All lanes. */
WH_FN whi_kd_task read_task(const whi_kdtree *k, uint32_t p) {
    whi_kd_slot *slot = &k->queue[p & (k->queue_room - 1)];
    WH_PLANT(queue_q1_take_lanes, wh_syncwarp(WH_FULL_WARP), (void)0); /* Q1 */
    const whi_kd_task t = slot->task;
    WH_PLANT(queue_q1_read, wh_syncwarp(WH_FULL_WARP), (void)0); /* Q1 */
    if (is_first_lane()) {
        WH_PLANT_ORDER(queue_q1_back, wh_store_u32, release)(&slot->turn, p + k->queue_room);
    }
    return t;
}

/* How many tasks the caller may put: there are more idle warps than tasks in the queue by so many,
 * at least. All lanes. Q3 */
WH_FN uint32_t idle_warps(const whi_kdtree *k) {
    uint32_t n = 0;
    if (is_first_lane()) {
        const uint64_t numbers = wh_load_u64_relaxed(&k->state->numbers);
        const uint32_t puts = wh_low_u32(numbers), takes = wh_high_u32(numbers);
        n = puts < takes ? takes - puts : 0;
    }
    n = wh_shfl_u32(WH_FULL_WARP, n, 0);
    return n < k->most_puts ? n : k->most_puts;
}

/* --- the warp's stack --------------------------------------------------------------------------
 */

/* All lanes. I1 */
WH_FN void push_own(kd_warp w, const whi_kd_task *t) {
    wh_syncwarp(WH_FULL_WARP);
    if (is_first_lane()) {
        wh_assert_internal(w.own->top - w.own->bottom < w.k->stack_room);
        w.own->stack[w.own->top % w.k->stack_room] = *t;
        w.own->top++;
    }
    wh_syncwarp(WH_FULL_WARP);
}

/* All lanes. */
WH_FN int pop_own(kd_warp w, whi_kd_task *t) {
    wh_syncwarp(WH_FULL_WARP);
    const uint32_t top = w.own->top;
    if (top == w.own->bottom) {
        return 0;
    }
    *t = w.own->stack[(top - 1) % w.k->stack_room];
    WH_PLANT(queue_i1_read, wh_syncwarp(WH_FULL_WARP), (void)0);
    if (is_first_lane()) {
        w.own->top--;
    }
    return 1;
}

/* Gives the oldest task of the stack away, if others are idle, and the caller has another one; 0:
 * it has not. All lanes. */
WH_FN int give_oldest(kd_warp w) {
    wh_syncwarp(WH_FULL_WARP);
    const uint32_t bottom = w.own->bottom, keeps = w.own->n_small == 0 ? 1 : 0;
    if (w.own->top - bottom <= keeps || idle_warps(w.k) == 0) {
        return 0;
    }
    put_tasks(w.k, &w.own->stack[bottom % w.k->stack_room], 1);
    if (is_first_lane()) {
        w.own->bottom += WH_PLANT(queue_i1_bottom, 1u, 0u);
    }
    return 1;
}

/* A task for the warp itself, to be done with others: group.h. All lanes. */
WH_FN void push_small(kd_warp w, const whi_kd_task *t) {
    wh_syncwarp(WH_FULL_WARP);
    if (is_first_lane()) {
        wh_assert_internal(w.own->n_small < w.k->small_room);
        w.own->small[w.own->n_small] = *t;
        w.own->n_small += WH_PLANT(queue_lost, 1u, 0u);
    }
}

/* A task for later: one that is worth what it costs to give it away, or a smaller one. All lanes.
 */
WH_FN void add_task(kd_warp w, const whi_kd_task *t) {
    if (t->n >= w.k->give_references || t->shared != NULL) {
        push_own(w, t);
    } else {
        push_small(w, t);
    }
}

/* Gives half of the small tasks away, the oldest, if many are idle, and the warp has nothing else:
 * at the end of a build few warps have all there is. All lanes. */
WH_FN_SLOW void give_small(kd_warp w) {
    wh_syncwarp(WH_FULL_WARP);
    const uint32_t all = w.own->n_small, lane = wh_lane_id();
    if (all < 2 || all > w.k->most_small || w.own->top != w.own->bottom ||
        idle_warps(w.k) < w.k->most_puts) {
        return;
    }
    const uint32_t n = all / 2 < w.k->most_puts ? all / 2 : w.k->most_puts;
    put_tasks(w.k, &w.own->small[lane], n);
    if (lane < n) { /* others take their places */
        w.own->small[lane] = w.own->small[all - 1 - WH_PLANT(queue_small_moved, lane, 0u)];
    }
    if (is_first_lane()) {
        w.own->n_small = all - WH_PLANT(queue_small_given, n, 0u);
    }
    wh_syncwarp(WH_FULL_WARP);
}

/* Whether the warp is to work on small tasks: it has some, or nothing else. All lanes. */
WH_FN int has_groups(kd_warp w) {
    wh_syncwarp(WH_FULL_WARP);
    const uint32_t n = w.own->n_small;
    return n >= WANTED_SMALL || (n != 0 && w.own->top == w.own->bottom);
}

/* The warp, whose stacks are empty, is through with what it had. All lanes. Q2 */
WH_FN void end_work(const whi_kdtree *k) {
    if (is_first_lane()) {
        wh_fetch_sub_u32_relaxed(&k->state->open, WH_PLANT(queue_q2_end, 1u, 0u));
    }
}

/* Waits for a task; 0: there is no more work. All lanes. */
WH_FN_SLOW int wait_task(const whi_kdtree *k, whi_kd_task *t) {
    whi_kd_state *s = k->state;
    uint32_t p = 0;
    if (is_first_lane()) {
        p = wh_high_u32(wh_fetch_add_u64_relaxed(&s->numbers, (uint64_t)1 << 32)); /* Q3 */
    }
    p = wh_shfl_u32(WH_FULL_WARP, p, 0);
    const whi_kd_slot *slot = &k->queue[p & (k->queue_room - 1)];
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t is_there = 0, is_open = 1;
        if (is_first_lane()) {
            /* The second look's value counts: an acquire whose value nobody wants loses its
             * effect in ptxas 13.0. */
            is_there = wh_load_u32_relaxed(&slot->turn) == p + 1 &&
                       WH_PLANT_ORDER(queue_q1_take, wh_load_u32, acquire)(&slot->turn) == p + 1;
            is_open = is_there || attempt % OPEN_EVERY != 0 || wh_load_u32_relaxed(&s->open) != 0;
        }
        if (wh_shfl_u32(WH_FULL_WARP, is_there, 0) != 0) {
            *t = read_task(k, p); /* Q1 */
            return 1;
        }
        if (wh_shfl_u32(WH_FULL_WARP, is_open, 0) == 0) { /* Q2 */
            return 0;
        }
        wh_backoff(attempt < LONGEST_WAIT ? attempt : LONGEST_WAIT);
    }
}

#endif

/* sched.c: lanes, scheduling points, policies and the life of a grid. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* posix_memalign, sched_yield */
#endif

#include "sim_internal.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Host code counts as the only lane of a one-thread grid. */
static const whi_sim_dims host_dims = {{1, 1, 1}, {1, 1, 1}};
const whi_lane whi_host_lane = {.self = {.block_threads = 1, .grid_blocks = 1, .dims = &host_dims}};
__thread const whi_sim_self_t *whi_sim_self __attribute__((tls_model("initial-exec"))) =
    &whi_host_lane.self;

const char *const whi_policy_names[WH_SIM_POLICY_COUNT] = {
#define POLICY_NAME_(name, text) text,
    WH_SIM_POLICY_LIST(POLICY_NAME_)
#undef POLICY_NAME_
};

#define PCT_LONGEST_STINT 1000u /* then a lane that spins without back-off gives way */
#define PCT_FIRST_GUESS 64u     /* steps per thread of a kernel not seen before */
#define PCT_FAIR_AFTER 8u       /* a launch this many times longer than guessed */
#define FIRST_SLEEP 2u          /* wh_backoff attempts before this one only yield */
#define SHORTEST_TICK 32u
#define STALL_MAGNITUDES 8u /* up to 128 ticks */
#define SHARED_ALIGNMENT 128u
#define SHARED_JUNK 0xa5 /* no zero: that something was never written shows */

/* --- the set of runnable lanes ------------------------------------------------- */

static void heap_put(whi_engine *e, uint32_t i, whi_lane *l) {
    e->runnable[i] = l;
    l->pos = i;
}

static void heap_up(whi_engine *e, uint32_t i, whi_lane *l) {
    while (i > 0 && e->runnable[(i - 1) / 2]->prio < l->prio) {
        heap_put(e, i, e->runnable[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_put(e, i, l);
}

static void heap_down(whi_engine *e, uint32_t i, whi_lane *l) {
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < e->n_run && e->runnable[child + 1]->prio > e->runnable[child]->prio) {
            child++;
        }
        if (child >= e->n_run || e->runnable[child]->prio < l->prio) {
            break;
        }
        heap_put(e, i, e->runnable[child]);
        i = child;
    }
    heap_put(e, i, l);
}

void whi_make_runnable(whi_engine *e, whi_lane *l) {
    whi_warp *w = l->warp;
    l->state = WHI_LANE_RUNNABLE;
    w->run |= 1u << l->self.lane;
    e->warp_bits[w->index / 64] |= (uint64_t)1 << w->index % 64;
    const uint32_t i = e->n_run++;
    if (e->keep_array) {
        heap_put(e, i, l);
        if (e->heap_order) {
            heap_up(e, i, l);
        }
    }
}

static void take_off(whi_engine *e, whi_lane *l, whi_lane_state state) {
    whi_warp *w = l->warp;
    l->state = state;
    w->run &= ~(1u << l->self.lane);
    if (w->run == 0) {
        e->warp_bits[w->index / 64] &= ~((uint64_t)1 << w->index % 64);
    }
    e->n_run--;
    if (e->keep_array && l->pos != e->n_run) {
        whi_lane *last = e->runnable[e->n_run];
        heap_put(e, l->pos, last);
        if (e->heap_order) {
            heap_up(e, last->pos, last);
            heap_down(e, last->pos, last);
        }
    }
}

/* Below every lane. */
static void demote(whi_engine *e, whi_lane *l) {
    l->prio = e->demoted--;
    e->stint = 0;
    if (e->heap_order && l->state == WHI_LANE_RUNNABLE) {
        heap_down(e, l->pos, l);
    }
}

/* --- sleeping ---------------------------------------------------------------------- */

/* The wheel passes one tick in about the time in which each runnable lane gets a turn. */
static void set_next_tick(whi_engine *e) {
    e->next_tick = e->steps + (e->n_run > SHORTEST_TICK ? e->n_run : SHORTEST_TICK);
    e->next_event = e->next_tick < e->next_event ? e->next_tick : e->next_event;
}

/* Wakes the lanes of the next tick; with none runnable, those of the first that has any. */
static void advance_wheel(whi_engine *e) {
    do {
        whi_lane **bucket = &e->wheel[++e->tick % WHI_WHEEL];
        while (*bucket != NULL) {
            whi_lane *l = *bucket;
            *bucket = l->next_asleep;
            l->warp->asleep &= ~(1u << l->self.lane);
            e->n_asleep--;
            whi_make_runnable(e, l);
        }
    } while (e->n_run == 0 && e->n_asleep > 0);
}

void whi_sleep(whi_engine *e, whi_lane *l, uint32_t ticks) {
    take_off(e, l, WHI_LANE_ASLEEP);
    l->warp->asleep |= 1u << l->self.lane;
    l->next_asleep = e->wheel[(e->tick + ticks) % WHI_WHEEL];
    e->wheel[(e->tick + ticks) % WHI_WHEEL] = l;
    if (e->n_asleep++ == 0) {
        set_next_tick(e);
    }
}

/* wh_backoff: the first attempts only give way; later ones leave the CPU to lanes that
 * have something to do, for twice as long each time. */
static void fall_asleep(whi_engine *e, whi_lane *l, uint32_t attempt) {
    const uint32_t most = attempt < 8 ? 1u << attempt : WHI_WHEEL - 1;
    const uint32_t ticks =
        e->policy_mode == WHI_MODE_ROUND_ROBIN ? most : 1 + whi_random_below(e, most);
    whi_sleep(e, l, e->log != NULL ? whi_log_sleep(e, ticks) : ticks);
}

/* --- policies ------------------------------------------------------------------- */

/* The first runnable lane of the first warp after `index` that has one, cyclically. */
static whi_lane *next_warp_lane(whi_engine *e, uint32_t index) {
    const uint32_t words = (e->n_warps + 63) / 64;
    uint32_t k = index / 64;
    uint64_t bits = e->warp_bits[k] & (~(uint64_t)1 << index % 64);
    while (bits == 0) {
        k = k + 1 == words ? 0 : k + 1;
        bits = e->warp_bits[k];
    }
    whi_warp *w = e->warps[k * 64 + wh_ctz64(bits)];
    return &w->lanes[wh_ctz32(w->run)];
}

static inline whi_lane *pick_round_robin(whi_engine *e, whi_lane *l) {
    whi_warp *w = l->warp;
    const uint32_t above = w->run & (~(uint32_t)1 << l->self.lane);
    return above != 0 ? &w->lanes[wh_ctz32(above)] : next_warp_lane(e, w->index);
}

static inline whi_lane *pick_random(whi_engine *e, whi_lane *l, bool leave) {
    const bool other = leave && e->n_run > 1 && l->state == WHI_LANE_RUNNABLE;
    const uint32_t i = whi_random_below(e, e->n_run - (other ? 1u : 0u));
    return other && e->runnable[i] == l ? e->runnable[e->n_run - 1] : e->runnable[i];
}

/* Any number of lanes at a time stand still, each for a while of any magnitude. */
static whi_lane *pick_stall(whi_engine *e, whi_lane *l, bool leave) {
    if (!leave && e->n_run > 1 && l->state == WHI_LANE_RUNNABLE &&
        whi_random_below(e, e->one_in) == 0) {
        const uint32_t most = 1u << whi_random_below(e, STALL_MAGNITUDES);
        const uint32_t ticks = 1 + whi_random_below(e, most);
        if (e->log != NULL) {
            whi_log_stall(e, ticks);
        }
        whi_sleep(e, l, ticks);
    }
    return pick_random(e, l, leave);
}

/* A lane that sleeps has backed off, too: it must not come back above those that work meanwhile. */
static whi_lane *pick_pct(whi_engine *e, whi_lane *l, bool leave) {
    const bool gave_way = leave && (l->state == WHI_LANE_RUNNABLE || l->state == WHI_LANE_ASLEEP);
    if (gave_way || (!leave && ++e->stint > PCT_LONGEST_STINT)) {
        demote(e, l);
    }
    return e->runnable[0];
}

static inline whi_lane *pick_by(whi_engine *e, whi_mode mode, whi_lane *l, bool leave) {
    switch (mode) {
    case WHI_MODE_ROUND_ROBIN:
        return pick_round_robin(e, l);
    case WHI_MODE_RANDOM:
        return pick_random(e, l, leave);
    case WHI_MODE_STICKY:
        return !leave && whi_random_below(e, e->one_in) != 0 ? l : pick_random(e, l, leave);
    case WHI_MODE_PCT:
        return pick_pct(e, l, leave);
    case WHI_MODE_STALL:
        return pick_stall(e, l, leave);
    case WHI_MODE_LOGGED:
        break;
    }
    return whi_log_pick(e, l, leave);
}

whi_lane *whi_policy_pick(whi_engine *e, whi_lane *l, bool leave) {
    return pick_by(e, e->policy_mode, l, leave);
}

/* --- switching ------------------------------------------------------------------- */

static inline void switch_lane(whi_engine *e, whi_lane *from, whi_lane *to) {
    e->switches++;
    e->stint = 0;
    whi_sim_self = &to->self;
    whi_fiber_switch(&from->fiber, &to->fiber, e->hooked);
}

/* Leaves the grid for the worker's own stack; a lane that failed does not return. */
static void switch_to_main(whi_engine *e, whi_lane *from) {
    whi_sim_self = &whi_host_lane.self;
    whi_fiber_switch(&from->fiber, &e->main, e->hooked);
}

/* --- giving way ---------------------------------------------------------------------- */

static void deadlock(whi_engine *e, const whi_lane *l) __attribute__((noreturn));

/* Goes on with another lane, or with l again if it can run. */
static inline void leave_lane(whi_engine *e, whi_lane *l, bool leave) {
    if (e->n_run == 0) {
        if (e->n_asleep == 0) {
            deadlock(e, l);
        }
        advance_wheel(e);
        set_next_tick(e);
    }
    whi_lane *next = pick_by(e, e->mode, l, leave);
    if (next != l) {
        switch_lane(e, l, next);
    }
}

/* S4, after a lane of w has stopped. */
static inline void keep_s4(whi_engine *e, whi_warp *w) {
    if ((w->run | w->asleep) == 0 && w->am_wait != 0) {
        whi_activemask_resolve(e, w);
    }
}

void whi_wait(whi_engine *e, whi_lane *l, whi_lane_state state) {
    take_off(e, l, state);
    keep_s4(e, l->warp);
    leave_lane(e, l, l->state != WHI_LANE_RUNNABLE);
}

void whi_yield(whi_engine *e, whi_lane *l) {
    leave_lane(e, l, true);
}

/* What happens once in many points. Kept out of the way of the common case. */
static __attribute__((noinline)) void event(whi_engine *e, whi_lane *l) {
    if (e->device->n_workers > 1 && __atomic_load_n(&e->batch->failed, __ATOMIC_RELAXED)) {
        switch_to_main(e, l); /* another worker has failed; not resumed */
    }
    if (e->steps - e->launch_start >= e->budget) {
        whi_fail(e, l, "livelock: %" PRIu64 " scheduling points have not ended the kernel%s",
                 e->budget, e->batch->n_grids > 1 ? "s" : "");
    }
    if (e->steps >= e->next_scan) {
        e->next_scan = e->steps + e->scan_every;
        /* Lanes of a warp whose others run too seldom to count its ticks down. */
        for (uint32_t i = 0; i < e->n_warps; i++) {
            whi_warp *w = e->warps[i];
            if (w->am_wait != 0 && w->am_scanned) {
                whi_activemask_resolve(e, w);
            } else {
                w->am_scanned = w->am_wait != 0;
            }
        }
    }
    uint64_t next = e->next_scan;
    if (e->n_asleep > 0) {
        if (e->steps >= e->next_tick) {
            advance_wheel(e);
            set_next_tick(e);
        }
        next = e->next_tick < next ? e->next_tick : next;
    }
    if (e->policy_mode == WHI_MODE_PCT) {
        while (e->n_changes > 0 && e->steps >= e->change[e->n_changes - 1]) {
            e->n_changes--;
            demote(e, l);
        }
        if (e->n_changes > 0 && e->change[e->n_changes - 1] < next) {
            next = e->change[e->n_changes - 1];
        }
        if (e->steps >= e->fair_from) {
            e->policy_mode = WHI_MODE_RANDOM;
            e->heap_order = false;
            if (e->mode == WHI_MODE_PCT) {
                e->mode = WHI_MODE_RANDOM;
            }
        }
    }
    if (e->launch_start + e->budget < next) {
        next = e->launch_start + e->budget;
    }
    e->next_event = next;
}

static inline void count_point(whi_engine *e, whi_lane *l) {
    if (++e->steps >= e->next_event) {
        event(e, l);
    }
    if (l->warp->am_ticks != 0 && --l->warp->am_ticks == 0) {
        whi_activemask_resolve(e, l->warp);
    }
}

static inline void point(whi_engine *e, whi_lane *l) {
    count_point(e, l);
    whi_lane *next = pick_by(e, e->mode, l, false);
    if (next != l) {
        switch_lane(e, l, next);
    }
}

void whi_point(whi_engine *e, whi_lane *l) {
    point(e, l);
}

void whi_sim_atomic_point(void) {
    whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    if (e != NULL) {
        e->atomics++;
        point(e, l);
    }
}

void whi_sim_backoff(uint32_t attempt) {
    whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    if (e == NULL) {
        return;
    }
    if (e->device->n_workers > 1 && attempt >= 8) {
        (void)sched_yield(); /* the awaited lane may belong to a worker without a CPU */
    }
    count_point(e, l);
    if (attempt >= FIRST_SLEEP) {
        fall_asleep(e, l, attempt - FIRST_SLEEP);
    }
    leave_lane(e, l, true);
}

uint64_t whi_sim_clock(void) {
    whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    if (e == NULL) {
        return 0;
    }
    point(e, l); /* a wait for the clock must let it pass */
    return e->steps;
}

/* --- lanes and blocks --------------------------------------------------------------- */

/* In ThreadSanitizer's eyes this orders nothing: lanes call it. */
static void lock_batch(const whi_engine *e) {
    while (e->device->n_workers > 1 && __atomic_test_and_set(&e->batch->lock, __ATOMIC_ACQUIRE)) {
        (void)sched_yield();
    }
}

static void unlock_batch(const whi_engine *e) {
    __atomic_clear(&e->batch->lock, __ATOMIC_RELEASE);
}

static bool can_start(const whi_batch *b, uint32_t stream) {
    const whi_grid *g = b->heads[stream];
    return g != NULL && g->started < g->blocks;
}

/* The stream that the next block comes from; one of those that have no block running, if
 * there is one with blocks to start, so that kernels of different streams do run
 * together. n_streams: none can start. */
static uint32_t choose_stream(whi_engine *e) {
    const whi_batch *b = e->batch;
    uint32_t n[2] = {0, 0}, only = b->n_streams;
    for (uint32_t k = 0; k < b->n_streams; k++) {
        if (can_start(b, k)) {
            n[b->heads[k]->started > b->heads[k]->ended]++;
            only = k;
        }
    }
    if (n[0] + n[1] < 2) {
        return only;
    }
    const bool running = n[0] == 0;
    const bool in_turn = e->policy_mode == WHI_MODE_ROUND_ROBIN;
    uint32_t skip = in_turn ? 0 : whi_random_below(e, n[running]);
    uint32_t k = in_turn ? b->last_stream : b->n_streams - 1;
    for (;;) {
        k = k + 1 == b->n_streams ? 0 : k + 1;
        if (can_start(b, k) && (b->heads[k]->started > b->heads[k]->ended) == running &&
            skip-- == 0) {
            break;
        }
    }
    return e->log != NULL ? whi_log_stream(e, k, can_start) : k;
}

/* Takes the next block that can start out of the batch; false: there is none now. */
static bool take_block(whi_engine *e, whi_grid **grid, uint32_t *id) {
    whi_batch *b = e->batch;
    if (__atomic_load_n(&b->unstarted, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    lock_batch(e);
    const uint32_t k = choose_stream(e);
    const bool found = k < b->n_streams && !__atomic_load_n(&b->failed, __ATOMIC_RELAXED);
    if (found) {
        *grid = b->heads[k];
        *id = b->heads[k]->started++;
        b->last_stream = k;
        __atomic_store_n(&b->unstarted, b->unstarted - 1, __ATOMIC_RELAXED);
    }
    unlock_batch(e);
    return found;
}

/* Counts an ended block; after the last one of a grid the next of its stream can start. */
static void give_block_back(whi_engine *e, whi_grid *g) {
    lock_batch(e);
    if (++g->ended == g->blocks) {
        e->batch->heads[g->stream] = g->after; /* S7 */
    }
    unlock_batch(e);
}

static char *new_arena(size_t bytes) {
    void *p = NULL;
    return posix_memalign(&p, SHARED_ALIGNMENT, bytes) == 0 ? p : NULL;
}

/* What a block shares when it starts. What another block did with the same memory before is no
 * race; so ThreadSanitizer gets memory that has no history, and no edge between the two blocks,
 * which could hide a race elsewhere. */
static char *begin_arena(whi_engine *e, uint32_t slot, uint32_t shared_bytes) {
    whi_tsan_ignore(true);
    if (whi_fiber_get_hooks()->tsan) {
        char *fresh = new_arena(e->arena_bytes);
        if (fresh != NULL) {
            free(e->arenas[slot]);
            e->arenas[slot] = fresh;
        }
    }
    if (shared_bytes > 0) {
        memset(e->arenas[slot] + WHI_SIM_SHARED_AT, SHARED_JUNK, shared_bytes);
    }
    whi_tsan_ignore(false);
    return e->arenas[slot];
}

/* Puts the next block into a free slot; false when none can start. */
static bool start_block(whi_engine *e, uint32_t slot) {
    whi_grid *g = NULL;
    uint32_t id = 0;
    if (!take_block(e, &g, &id)) {
        return false;
    }
    uint32_t k = e->next_sm_slot;
    while (e->sm_busy[k]) {
        k = k + 1 == e->n_sm_slots ? 0 : k + 1;
    }
    e->sm_busy[k] = 1;
    e->next_sm_slot = k + 1 == e->n_sm_slots ? 0 : k + 1;

    whi_block *b = &e->blocks[slot];
    b->grid = g;
    b->id = id;
    b->live = g->threads;
    b->at_barrier = 0;
    b->sm_slot = k;
    b->used = true;
    b->parity = false;
    e->live_blocks++;
    char *arena = begin_arena(e, slot, g->shared_bytes);
    const uint32_t sm = (e->index + k * e->device->n_workers) % e->device->options.n_sms;
    for (uint32_t i = 0; i * WH_WARP_SIZE < g->threads; i++) {
        whi_warp *w = e->warps[slot * e->warps_per_slot + i];
        const uint32_t left = g->threads - i * WH_WARP_SIZE;
        w->n_lanes = left < WH_WARP_SIZE ? left : WH_WARP_SIZE;
        w->live = w->n_lanes == WH_WARP_SIZE ? ~(uint32_t)0 : (1u << w->n_lanes) - 1u;
        w->block = b;
        for (uint32_t j = 0; j < w->n_lanes; j++) {
            whi_lane *l = &w->lanes[j];
            l->self.lane = j;
            l->self.thread = i * WH_WARP_SIZE + j;
            l->self.block = id;
            l->self.block_threads = g->threads;
            l->self.grid_blocks = g->blocks;
            l->self.sm = sm;
            l->self.weak = e->weak != NULL;
            l->self.dims = &g->dims;
            l->self.arena = arena;
            if (e->weak != NULL) {
                whi_weak_lane(e, l, g->before != NULL);
            }
            if (e->policy_mode == WHI_MODE_PCT) {
                l->prio = whi_random(e) | (uint64_t)1 << 63;
            }
            whi_make_runnable(e, l);
        }
    }
    return true;
}

/* S8 */
static void fill_slots(whi_engine *e) {
    for (uint32_t i = 0; i < e->n_slots && e->live_blocks < e->n_slots; i++) {
        if (!e->blocks[i].used && !start_block(e, i)) {
            break;
        }
    }
}

static void lane_exit(whi_engine *e, whi_lane *l) {
    whi_warp *w = l->warp;
    whi_block *b = w->block;
    take_off(e, l, WHI_LANE_EXITED);
    w->live &= ~(1u << l->self.lane);
    b->live--;
    whi_collective_exit(e, l);
    keep_s4(e, w);
    if (b->live == 0) {
        e->sm_busy[b->sm_slot] = 0;
        b->used = false;
        e->live_blocks--;
        give_block_back(e, b->grid);
        if (start_block(e, (uint32_t)(b - e->blocks)) && e->batch->n_grids > 1) {
            fill_slots(e); /* the end of a grid may allow more than one block */
        }
        if (e->live_blocks == 0) {
            switch_to_main(e, l);
            return; /* as a lane of a later grid */
        }
    }
    /* l may be the lane of a new block already. */
    leave_lane(e, l, l->state != WHI_LANE_RUNNABLE);
}

/* What every fiber runs: one lane after another. */
static void lane_main(void *arg) {
    whi_lane *l = arg;
    whi_fiber_entered(&l->fiber);
    for (;;) {
        whi_engine *e = l->engine; /* not always the same: spare.c */
        if (e->closing) {
            whi_fiber_switch_hooked(&l->fiber, &e->main, true);
        }
        if (e->hooked) {
            whi_fiber_name(&l->fiber, l->self.block, l->self.thread);
        }
        whi_grid *g = l->warp->block->grid;
        whi_tsan_acquire(&e->device->begin);
        if (g->before != NULL) {
            whi_tsan_acquire(&g->before->end);
        }
        g->entry(g->args);
        whi_tsan_release(&g->end);
        whi_tsan_release(&e->device->end);
        lane_exit(e, l);
    }
}

/* --- a batch --------------------------------------------------------------------------- */

static whi_warp *new_warp(void) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, sizeof(whi_warp)) != 0) {
        return NULL;
    }
    whi_warp *w = memory;
    memset(w, 0, sizeof *w);
    w->stacks = whi_fiber_map_stacks(WH_WARP_SIZE);
    if (w->stacks == NULL) {
        free(w);
        return NULL;
    }
    return w;
}

static bool shares_warps(const whi_engine *e) {
    return e->device->n_workers == 1;
}

/* As new but for its stacks and fibers. */
static void clear_warp(whi_warp *w) {
    char *stacks = w->stacks;
    memset(w, 0, offsetof(whi_warp, lanes));
    w->stacks = stacks;
    for (uint32_t i = 0; i < WH_WARP_SIZE; i++) {
        whi_lane *l = &w->lanes[i];
        const whi_fiber fiber = l->fiber;
        const bool ready = l->fiber_ready;
        memset(l, 0, sizeof *l);
        l->fiber = fiber;
        l->fiber_ready = ready;
    }
}

static wh_status make_warp(whi_engine *e, uint32_t index) {
    whi_warp *w = shares_warps(e) ? whi_spare_take_warp() : NULL;
    if (w != NULL) {
        clear_warp(w);
    } else if ((w = new_warp()) == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    w->index = index;
    for (uint32_t i = 0; i < WH_WARP_SIZE; i++) {
        w->lanes[i].engine = e;
        w->lanes[i].warp = w;
    }
    e->warps[index] = w;
    return WH_OK;
}

/* Lanes with a stack in all engines together: what a process's number of mappings and
 * ThreadSanitizer's number of fibers allow. */
static uint32_t most_lanes(void) {
    return whi_fiber_get_hooks()->tsan ? 2048u : 8192u;
}

static void free_arenas(whi_engine *e) {
    for (uint32_t i = 0; i < e->arenas_made; i++) {
        free(e->arenas[i]);
    }
    free(e->arenas);
    e->arenas = NULL;
    e->arenas_made = 0;
}

/* One for each slot, of the very size: a sanitizer shall see what runs over it. */
static wh_status make_arenas(whi_engine *e, size_t bytes) {
    if (bytes != e->arena_bytes) {
        free_arenas(e);
        e->arena_bytes = bytes;
    }
    if (e->n_slots > e->arenas_made) {
        char **arenas = realloc(e->arenas, e->n_slots * sizeof *arenas);
        if (arenas == NULL) {
            return WH_OUT_OF_MEMORY;
        }
        e->arenas = arenas;
    }
    for (; e->arenas_made < e->n_slots; e->arenas_made++) {
        e->arenas[e->arenas_made] = new_arena(bytes);
        if (e->arenas[e->arenas_made] == NULL) {
            return WH_OUT_OF_MEMORY;
        }
    }
    return WH_OK;
}

wh_status whi_engine_prepare(whi_engine *e, const whi_batch *batch) {
    const uint32_t cap = most_lanes() / e->device->n_workers / batch->most_threads;
    e->warps_per_slot = (batch->most_threads + WH_WARP_SIZE - 1) / WH_WARP_SIZE;
    e->n_slots = e->n_sm_slots;
    e->n_slots = e->n_slots > cap ? (cap > 0 ? cap : 1) : e->n_slots;
    e->n_slots = e->n_slots > batch->unstarted ? (uint32_t)batch->unstarted : e->n_slots;
    e->n_warps = e->n_slots * e->warps_per_slot;
    const size_t lanes = (size_t)e->n_warps * WH_WARP_SIZE;
    if (e->n_warps > e->warps_made) {
        whi_warp **warps = realloc(e->warps, e->n_warps * sizeof *warps);
        e->warps = warps != NULL ? warps : e->warps;
        whi_lane **runnable = realloc(e->runnable, lanes * sizeof *runnable);
        e->runnable = runnable != NULL ? runnable : e->runnable;
        uint64_t *bits = realloc(e->warp_bits, (e->n_warps + 63) / 64 * sizeof *bits);
        e->warp_bits = bits != NULL ? bits : e->warp_bits;
        if (warps == NULL || runnable == NULL || bits == NULL) {
            return WH_OUT_OF_MEMORY;
        }
        for (; e->warps_made < e->n_warps; e->warps_made++) {
            if (make_warp(e, e->warps_made) != WH_OK) {
                return WH_OUT_OF_MEMORY;
            }
        }
    }
    if (e->n_slots > e->blocks_made) {
        whi_block *blocks = realloc(e->blocks, e->n_slots * sizeof *blocks);
        if (blocks == NULL) {
            return WH_OUT_OF_MEMORY;
        }
        e->blocks = blocks;
        e->blocks_made = e->n_slots;
    }
    if (make_arenas(e, (size_t)WHI_SIM_SHARED_AT + batch->most_shared) != WH_OK) {
        return WH_OUT_OF_MEMORY;
    }
    /* All fibers that the batch can need, so that nothing can fail later. */
    for (uint32_t i = 0; i < e->n_warps; i++) {
        whi_warp *w = e->warps[i];
        const uint32_t left = batch->most_threads - i % e->warps_per_slot * WH_WARP_SIZE;
        const size_t slot_bytes = whi_fiber_slot_bytes();
        for (uint32_t j = 0; j < WH_WARP_SIZE && j < left; j++) {
            whi_lane *l = &w->lanes[j];
            if (!l->fiber_ready) {
                whi_fiber_init(&l->fiber, w->stacks + j * slot_bytes, (size_t)i * WH_WARP_SIZE + j,
                               lane_main, l);
                l->fiber_ready = true;
            }
        }
    }
    return WH_OK;
}

/* Of the names of its kernels. */
static uint64_t hash_batch(const whi_batch *b) {
    uint64_t h = 0;
    for (uint32_t i = 0; i < b->n_grids; i++) {
        for (const char *s = b->grids[i]->name; *s != '\0'; s++) {
            h = whi_mix(h ^ (unsigned char)*s);
        }
    }
    return h;
}

static void begin_policy(whi_engine *e) {
    static const whi_mode modes[WH_SIM_POLICY_COUNT] = {
        [WH_SIM_ROUND_ROBIN] = WHI_MODE_ROUND_ROBIN,
        [WH_SIM_RANDOM] = WHI_MODE_RANDOM,
        [WH_SIM_STICKY] = WHI_MODE_STICKY,
        [WH_SIM_PCT] = WHI_MODE_PCT,
        [WH_SIM_STALL] = WHI_MODE_STALL,
    };
    const wh_sim_options *o = &e->device->options;
    e->policy_mode = modes[o->policy];
    e->mode = e->log != NULL ? WHI_MODE_LOGGED : e->policy_mode;
    e->keep_array = e->mode != WHI_MODE_ROUND_ROBIN;
    e->heap_order = e->policy_mode == WHI_MODE_PCT;
    e->one_in = o->policy_arg;
    e->launch_start = e->steps;
    e->budget = o->step_budget < UINT64_MAX / 4 / e->batch->n_grids
                    ? o->step_budget * e->batch->n_grids
                    : UINT64_MAX / 4;
    /* A lane that waits in wh_activemask while the rest of its warp hardly runs is
     * released after 64 to 128 rounds over all lanes. */
    e->scan_every = (uint64_t)e->n_warps * WH_WARP_SIZE * 64u;
    e->next_scan = e->steps + e->scan_every;
    e->next_event = e->next_scan;
    e->stint = 0;
    if (e->policy_mode == WHI_MODE_PCT) {
        const uint64_t h = hash_batch(e->batch);
        const uint64_t threads = e->batch->threads;
        uint64_t guess = e->device->pct_memory[h % WHI_PCT_MEMORY].steps_per_thread;
        const bool known = guess != 0 && e->device->pct_memory[h % WHI_PCT_MEMORY].name_hash == h;
        guess = known ? guess : PCT_FIRST_GUESS;
        e->fair_from = e->steps + PCT_FAIR_AFTER * guess * threads;
        /* Of an unknown kernel not even the magnitude is known. */
        guess = known ? guess : guess >> whi_random_below(e, 6);
        guess *= threads;
        e->demoted = (uint64_t)1 << 62;
        e->n_changes = o->policy_arg - 1;
        for (uint32_t i = 0; i < e->n_changes; i++) {
            uint64_t at = e->steps + 1 + whi_random(e) % guess;
            uint32_t j = i; /* kept with the earliest last */
            for (; j > 0 && e->change[j - 1] < at; j--) {
                e->change[j] = e->change[j - 1];
            }
            e->change[j] = at;
        }
        e->next_event = e->steps + 1;
    }
    if (e->launch_start + e->budget < e->next_event) {
        e->next_event = e->launch_start + e->budget;
    }
}

void whi_engine_remember(const whi_engine *e) {
    const uint64_t threads = e->batch->threads;
    const uint64_t h = hash_batch(e->batch);
    e->device->pct_memory[h % WHI_PCT_MEMORY].name_hash = h;
    e->device->pct_memory[h % WHI_PCT_MEMORY].steps_per_thread =
        (e->steps - e->launch_start) * e->device->n_workers / threads + 1;
}

/* Lets the lanes run until every block of this engine has ended or the batch failed. */
static void enter(whi_engine *e) {
    whi_lane before = whi_host_lane; /* as if the last lane of all had just ended */
    before.warp = e->warps[e->n_warps - 1];
    before.self.lane = WH_WARP_SIZE - 1;
    whi_lane *first = pick_by(e, e->mode, &before, true);
    if (first != NULL) {
        e->switches++;
        whi_sim_self = &first->self;
        whi_fiber_switch(&e->main, &first->fiber, e->hooked);
    }
}

void whi_engine_run(whi_engine *e, whi_batch *batch) {
    e->batch = batch;
    e->n_run = 0;
    e->live_blocks = 0;
    e->n_asleep = 0;
    memset(e->wheel, 0, sizeof e->wheel);
    e->next_sm_slot = 0;
    memset(e->sm_busy, 0, e->n_sm_slots);
    memset(e->warp_bits, 0, (e->n_warps + 63) / 64 * sizeof(uint64_t));
    memset(e->blocks, 0, e->n_slots * sizeof(whi_block));
    for (uint32_t i = 0; i < e->n_warps; i++) {
        whi_warp *w = e->warps[i];
        w->run = w->live = w->am_wait = w->am_ticks = w->in_barrier = w->n_groups = 0;
        w->asleep = 0;
        w->am_scanned = false;
    }
    begin_policy(e);
    if (e->device->options.weak != 0) {
        whi_weak_begin(e);
    }
    whi_fiber_adopt_thread(&e->main);
    whi_tsan_release(&e->device->begin); /* this thread set whi_sim_self up */
    bool go_on = e->log == NULL || whi_log_begin(e);
    while (go_on) {
        fill_slots(e);
        if (e->live_blocks > 0 && !__atomic_load_n(&batch->failed, __ATOMIC_RELAXED)) {
            enter(e);
        }
        /* Here when every block of this engine has ended or the batch has failed. What is
         * left waits for a grid that other workers run. */
        go_on = __atomic_load_n(&batch->unstarted, __ATOMIC_RELAXED) > 0 &&
                !__atomic_load_n(&batch->failed, __ATOMIC_RELAXED);
        if (go_on) {
            (void)sched_yield();
        }
    }
    if (__atomic_load_n(&batch->failed, __ATOMIC_RELAXED)) {
        for (uint32_t i = 0; i < e->n_warps; i++) {
            for (uint32_t j = 0; j < e->warps[i]->n_lanes; j++) {
                whi_lane *l = &e->warps[i]->lanes[j];
                if (l->state != WHI_LANE_EXITED || !l->fiber_ready) { /* S5 */
                    l->state = WHI_LANE_EXITED;
                    l->fiber_ready = false;
                    whi_fiber_abandon(&l->fiber, &e->device->end);
                }
            }
        }
    }
    if (e->log != NULL) {
        whi_log_end(e);
    }
}

void whi_engine_close(whi_engine *e) {
    e->closing = true;
    whi_fiber_adopt_thread(&e->main);
    for (uint32_t i = e->warps_made; i-- > 0;) { /* so that the first is taken first again */
        whi_warp *w = e->warps[i];
        for (uint32_t j = 0; j < WH_WARP_SIZE; j++) {
            whi_weak_free_lane(&w->lanes[j]);
        }
        if (shares_warps(e) && whi_spare_keep_warp(w)) {
            continue;
        }
        for (uint32_t j = 0; j < WH_WARP_SIZE; j++) {
            whi_lane *l = &w->lanes[j];
            if (l->fiber_ready) {
                if (whi_fiber_get_hooks()->asan) { /* frees its fake stack */
                    whi_fiber_switch_hooked(&e->main, &l->fiber, false);
                }
                whi_fiber_abandon(&l->fiber, &e->device->end);
            }
        }
        whi_fiber_unmap_stacks(w->stacks, WH_WARP_SIZE);
        free(w);
    }
    free(e->warps);
    free(e->runnable);
    free(e->warp_bits);
    free(e->blocks);
    free_arenas(e);
    free(e->sm_busy);
    whi_weak_end(e);
}

whi_lane *whi_find_lane(whi_engine *e, uint64_t thread) {
    for (uint32_t i = 0; i < e->n_slots; i++) {
        const whi_block *b = &e->blocks[i];
        if (!b->used) {
            continue;
        }
        const uint64_t first = b->grid->first_thread + (uint64_t)b->id * b->grid->threads;
        if (thread >= first && thread - first < b->grid->threads) {
            const uint32_t t = (uint32_t)(thread - first);
            return &e->warps[i * e->warps_per_slot + t / WH_WARP_SIZE]->lanes[t % WH_WARP_SIZE];
        }
    }
    return NULL;
}

/* --- failing ------------------------------------------------------------------------------ */

const char *whi_short_site(const char *site) {
    const char *slash = strrchr(site, '/');
    return slash != NULL ? slash + 1 : site;
}

void whi_describe_lane(const whi_lane *l, char *text, size_t bytes) {
    const char *site = l->site != NULL ? whi_short_site(l->site) : "?";
    switch (l->state) {
    case WHI_LANE_EXITED:
        (void)snprintf(text, bytes, "has exited");
        return;
    case WHI_LANE_RUNNABLE:
        (void)snprintf(text, bytes, "can run");
        return;
    case WHI_LANE_ASLEEP:
        (void)snprintf(text, bytes, "sleeps");
        return;
    case WHI_LANE_IN_ACTIVEMASK:
        (void)snprintf(text, bytes, "waits in wh_activemask at %s", site);
        return;
    case WHI_LANE_IN_BARRIER:
        (void)snprintf(text, bytes, "waits in wh_syncthreads at %s", site);
        return;
    case WHI_LANE_IN_COLLECTIVE:
        break;
    }
    for (uint32_t i = 0; i < l->warp->n_groups; i++) {
        const whi_group *g = &l->warp->groups[i];
        if (g->arrived >> l->self.lane & 1u) {
            (void)snprintf(text, bytes, "waits in %s at %s, mask 0x%08" PRIx32, whi_op_names[g->op],
                           site, g->mask);
        }
    }
}

/* Nobody can run: every lane waits in a collective for one that waits elsewhere. Names
 * the first lane of up to three waiting groups. */
static void deadlock(whi_engine *e, const whi_lane *l) {
    char text[256];
    size_t used = 0;
    uint32_t waiting = 0, named = 0;
    const char *last_site = NULL;
    text[0] = '\0';
    for (uint32_t i = 0; i < e->n_warps; i++) {
        const whi_warp *w = e->warps[i];
        for (uint32_t m = w->live; m != 0; m &= m - 1) {
            const whi_lane *k = &w->lanes[wh_ctz32(m)];
            waiting++;
            if (k->site != last_site && named < 3 && used < sizeof text) {
                char doing[96];
                whi_describe_lane(k, doing, sizeof doing);
                const int n = snprintf(text + used, sizeof text - used,
                                       "; block %" PRIu32 " thread %" PRIu32 " %s", k->self.block,
                                       k->self.thread, doing);
                used += n > 0 ? (size_t)n : 0;
                last_site = k->site;
                named++;
            }
        }
    }
    whi_fail(e, l, "deadlock: none of %" PRIu32 " lanes can run%s", waiting, text);
}

void whi_note_failure(whi_engine *e, const whi_lane *l, const char *format, ...) {
    whi_sim_device *d = e->device;
    const wh_sim_options *o = &d->options;
    (void)pthread_mutex_lock(&d->mutex);
    if (!e->batch->failed) {
        char *out = d->base.error;
        size_t room = sizeof d->base.error;
        char tail[96];
        va_list args;
        (void)snprintf(tail, sizeof tail,
                       " [replay: WH_SIM=seed=%" PRIu64 ",policy=%s,arg=%" PRIu32 "%s]", o->seed,
                       whi_policy_names[o->policy], o->policy_arg,
                       o->weak == WH_SIM_WEAK_GPU      ? ",weak=1"
                       : o->weak == WH_SIM_WEAK_FORMAL ? ",weak=2"
                                                       : "");
        int n =
            l == NULL
                ? snprintf(out, room, "kernel %s: ", e->batch->grids[0]->name)
                : snprintf(out, room,
                           "kernel %s, block %" PRIu32 " thread %" PRIu32 " (lane %" PRIu32 "): ",
                           l->warp->block->grid->name, l->self.block, l->self.thread, l->self.lane);
        size_t used = n > 0 ? (size_t)n : 0;
        if (used < room) {
            va_start(args, format);
            n = vsnprintf(out + used, room - used, format, args);
            va_end(args);
            used += n > 0 ? (size_t)n : 0;
        }
        /* The tail must not be lost to a long message. */
        const size_t tail_bytes = strlen(tail) + 1;
        if (used + tail_bytes > room) {
            used = room - tail_bytes;
        }
        memcpy(out + used, tail, tail_bytes);
        __atomic_store_n(&e->batch->failed, 1, __ATOMIC_RELAXED);
    }
    (void)pthread_mutex_unlock(&d->mutex);
}

void whi_leave(whi_engine *e) {
    whi_lane *l = whi_current();
    l->fiber_ready = false; /* S5; lane_exit may be what failed, so the state says less */
    switch_to_main(e, l);
    abort(); /* the lanes of a failed launch are never resumed */
}

void whi_sim_trap(const char *text, const char *site) {
    whi_lane *l = whi_current();
    if (l->engine == NULL) { /* host code has no launch to end */
        (void)fprintf(stderr, "wh_trap at %s: %s\n", whi_short_site(site), text);
        abort();
    }
    whi_fail(l->engine, l, "wh_trap at %s: %s", whi_short_site(site), text);
}

void whi_sim_trap_oom(const wh_oom_event *event) {
    whi_lane *l = whi_current();
    if (l->engine == NULL) {
        abort(); /* host code has no launch to end */
    }
    whi_fail(l->engine, l, "out of memory: %s of %zu bytes at %s:%" PRIu32, event->call,
             event->bytes, whi_short_site(event->file), event->line);
}

/* lanes.c: the lanes of an engine: the set of those that can run, those that sleep, and the way
 * out of a grid. */
#include "sim_internal.h"

#include <stdlib.h>

#define SHORTEST_TICK 32u

/* Host code counts as the only lane of a one-thread grid. */
static const whi_sim_dims host_dims = {{1, 1, 1}, {1, 1, 1}};
const whi_lane whi_host_lane = {.self = {.block_threads = 1, .grid_blocks = 1, .dims = &host_dims}};
__thread const whi_sim_self_t *whi_sim_self __attribute__((tls_model("initial-exec"))) =
    &whi_host_lane.self;

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

void whi_take_off(whi_engine *e, whi_lane *l, whi_lane_state state) {
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
void whi_demote(whi_engine *e, whi_lane *l) {
    l->prio = e->demoted--;
    e->stint = 0;
    if (e->heap_order && l->state == WHI_LANE_RUNNABLE) {
        heap_down(e, l->pos, l);
    }
}

/* --- sleeping ---------------------------------------------------------------------- */

/* The wheel passes one tick in about the time in which each runnable lane gets a turn. */
void whi_set_next_tick(whi_engine *e) {
    e->next_tick = e->steps + (e->n_run > SHORTEST_TICK ? e->n_run : SHORTEST_TICK);
    e->next_event = e->next_tick < e->next_event ? e->next_tick : e->next_event;
}

/* Wakes the lanes of the next tick; with none runnable, those of the first that has any. */
void whi_advance_wheel(whi_engine *e) {
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
    whi_take_off(e, l, WHI_LANE_ASLEEP);
    l->warp->asleep |= 1u << l->self.lane;
    l->next_asleep = e->wheel[(e->tick + ticks) % WHI_WHEEL];
    e->wheel[(e->tick + ticks) % WHI_WHEEL] = l;
    if (e->n_asleep++ == 0) {
        whi_set_next_tick(e);
    }
}

/* --- leaving ----------------------------------------------------------------------------- */

/* Leaves the grid for the worker's own stack; a lane that failed does not return. */
void whi_switch_to_main(whi_engine *e, whi_lane *from) {
    whi_sim_self = &whi_host_lane.self;
    whi_fiber_switch(&from->fiber, &e->main, e->hooked);
}

void whi_leave(whi_engine *e) {
    whi_lane *l = whi_current();
    l->fiber_ready = false; /* S5; lane_exit may be what failed, so the state says less */
    whi_switch_to_main(e, l);
    abort(); /* the lanes of a failed launch are never resumed */
}

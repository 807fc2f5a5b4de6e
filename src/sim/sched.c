/* sched.c: policies, scheduling points, and how a lane gives way to another one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* posix_memalign, sched_yield */
#endif

#include "sim_internal.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define PCT_LONGEST_STINT 1000u /* then a lane that spins without back-off gives way */
#define PCT_FIRST_GUESS 64u     /* steps per thread of a kernel not seen before */
#define PCT_FAIR_AFTER 8u       /* a launch this many times longer than guessed */
#define FIRST_SLEEP 2u          /* wh_backoff attempts before this one only yield */
#define STALL_MAGNITUDES 8u     /* up to 128 ticks */
#define SPARSE_LONGEST_STINT 20000u
#define PATIENCE_LOG2 16u    /* waits that are many: the budget by this, and ... */
#define LEAST_PATIENCE 1024u /* ... of each lane at least so many */
#define FEWEST_LANES 64u

/* wh_backoff: the first attempts only give way; later ones leave the CPU to lanes that
 * have something to do, for twice as long each time. */
static void fall_asleep(whi_engine *e, whi_lane *l, uint32_t attempt) {
    if (e->steering != NULL || (e->log != NULL && whi_log_is_sparse(e->log))) {
        return;
    }
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
        whi_demote(e, l);
    }
    return e->runnable[0];
}

static whi_lane *pick_watched(whi_engine *e, whi_lane *l, bool leave);

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
    case WHI_MODE_WATCHED:
        break;
    }
    return pick_watched(e, l, leave);
}

/* As the test wants it. */
static whi_lane *pick_steered(whi_engine *e, whi_lane *l, bool leave) {
    uint64_t can = 0;
    for (uint32_t i = 0; i < e->n_run; i++) {
        can |= (uint64_t)1 << whi_thread_of(e->runnable[i]);
    }
    if (e->n_run == 1) {
        return e->runnable[0];
    }
    const uint32_t ran = l->engine != NULL ? (uint32_t)whi_thread_of(l) : 64;
    return whi_find_lane(e, e->steering->choose(e->steering->state, can, ran, leave));
}

/* As the schedule says, or by default; a lane that spins without back-off gives way. */
static whi_lane *pick_sparse(whi_engine *e, whi_lane *l, bool leave) {
    whi_lane *next = whi_log_pick(e, l);
    if (next == NULL) {
        const bool stays = !leave && ++e->stint <= SPARSE_LONGEST_STINT;
        next = stays && l->state == WHI_LANE_RUNNABLE ? l : pick_round_robin(e, l);
    }
    return next;
}

static void deadlock(whi_engine *e, const whi_lane *l) __attribute__((noreturn));
static void need_runnable(whi_engine *e, whi_lane *l);

/* Where a lane is to stop for ever, it does. */
static bool stop_lane(whi_engine *e, whi_lane *l) {
    if (whi_thread_of(l) != e->stop_thread) {
        return false;
    }
    e->stop_asked = l->asked;
    if (l->asked != e->stop_at || l->state != WHI_LANE_RUNNABLE) {
        return false;
    }
    whi_take_off(e, l, WHI_LANE_STOPPED);
    e->n_stopped++;
    whi_activemask_keep_s4(e, l->warp);
    need_runnable(e, l);
    return true;
}

/* Without a test that steers, or a replay, the same lane as without a watch, random draws too; what
 * there was to choose is recorded. */
static whi_lane *pick_watched(whi_engine *e, whi_lane *l, bool leave) {
    l->asked++;
    if (e->stop_at != 0 && stop_lane(e, l)) {
        leave = true;
    }
    if (e->log != NULL && whi_log_is_sparse(e->log)) {
        return pick_sparse(e, l, leave);
    }
    if (e->log != NULL && whi_log_replays(e->log)) {
        return whi_log_pick(e, l);
    }
    whi_lane *next = e->steering != NULL
                         ? pick_steered(e, l, leave || l->state != WHI_LANE_RUNNABLE)
                         : pick_by(e, e->policy_mode, l, leave);
    if (e->log != NULL) {
        whi_log_picked(e, l, next, leave);
    }
    return next;
}

whi_lane *whi_pick(whi_engine *e, whi_lane *l, bool leave) {
    return pick_by(e, e->mode, l, leave);
}

/* --- switching ------------------------------------------------------------------- */

static inline void switch_lane(whi_engine *e, whi_lane *from, whi_lane *to) {
    e->switches++;
    e->stint = 0;
    whi_schedule_add(e, (e->steps - e->schedule_start) << 32 ^ (uint64_t)to->self.block << 10 ^
                            to->self.thread);
    whi_sim_self = &to->self;
    whi_fiber_switch(&from->fiber, &to->fiber, e->hooked);
}

/* --- waiting for ever ----------------------------------------------------------------- */

/* In wh_backoff again and again, or for another lane, since the first look. */
static bool is_waiting(const whi_engine *e, const whi_lane *l) {
    const bool is_blocked = l->state == WHI_LANE_IN_COLLECTIVE || l->state == WHI_LANE_IN_BARRIER ||
                            l->state == WHI_LANE_STOPPED;
    return (is_blocked && (e->suspected == 0 || l->arrived <= e->suspected)) ||
           (l->waited != 0 && e->steps - l->waited <= e->wait_steps);
}

/* How many lanes of up to three kernels there are; whether all lanes wait. */
static bool describe_waiting(const whi_engine *e, char *text, size_t bytes) {
    const whi_grid *grids[3] = {NULL};
    uint32_t lanes[3] = {0};
    size_t used = 0;
    for (uint32_t i = 0; i < e->n_warps; i++) {
        const whi_warp *w = e->warps[i];
        uint32_t k = 0;
        for (uint32_t m = w->live; m != 0; m &= m - 1) {
            if (!is_waiting(e, &w->lanes[wh_ctz32(m)])) {
                return false;
            }
        }
        while (w->live != 0 && k < 3 && grids[k] != NULL && grids[k] != w->block->grid) {
            k++;
        }
        if (w->live != 0 && k < 3) {
            grids[k] = w->block->grid;
            lanes[k] += wh_popc32(w->live);
        }
    }
    for (uint32_t k = 0; k < 3 && grids[k] != NULL && used < bytes; k++) {
        const int n = snprintf(text + used, bytes - used, "%s%" PRIu32 " lanes of %s",
                               k != 0 ? ", " : "", lanes[k], grids[k]->name);
        used += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* A lane waits in wh_backoff. Each attempt of a wait is above the one before; else it is another
 * wait, and the lane has moved. After many waits without that a look finds whether all lanes wait,
 * and after as many a second one. A lane that has just seen what it waited for looks as if it
 * waited, but not at both: by the second look it has moved, or works, or has come to a barrier. So
 * nothing came after the first look, and nobody is left to bring it. */
static void note_wait(whi_engine *e, whi_lane *l, uint32_t attempt) {
    char text[256];
    if (attempt == 0 || l->waited == 0 || attempt <= l->attempt) {
        whi_moved(e);
    }
    l->attempt = attempt;
    l->waited = e->steps;
    if (++e->waits < e->patience || e->device->n_workers > 1 || e->steering != NULL ||
        (e->log != NULL && whi_log_is_sparse(e->log))) {
        return;
    }
    const bool all_wait = describe_waiting(e, text, sizeof text);
    if (all_wait && e->suspected != 0) {
        whi_fail(
            e, l,
            "livelock: %s wait in wh_backoff, or for lanes that do; none has gone on in %" PRIu64
            " calls",
            text, 2 * e->patience);
    }
    e->waits = 0;
    e->suspected = all_wait ? e->steps : 0;
}

/* --- giving way ---------------------------------------------------------------------- */

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
    if (waiting == e->n_stopped) {
        whi_fail(e, l, "a lane has been stopped for ever, and " WHI_SIM_STOPPED "%s", text);
    }
    whi_fail(e, l, "deadlock: none of %" PRIu32 " lanes can run%s", waiting, text);
}

/* Sees to it that a lane can run. */
static void need_runnable(whi_engine *e, whi_lane *l) {
    if (e->n_run == 0) {
        if (e->n_asleep == 0) {
            deadlock(e, l);
        }
        whi_advance_wheel(e);
        whi_set_next_tick(e);
    }
}

/* Goes on with another lane, or with l again if it can run. */
static inline void leave_lane(whi_engine *e, whi_lane *l, bool leave) {
    need_runnable(e, l);
    whi_lane *next = pick_by(e, e->mode, l, leave);
    if (next != l) {
        switch_lane(e, l, next);
    }
}

void whi_wait(whi_engine *e, whi_lane *l, whi_lane_state state) {
    l->arrived = e->steps;
    whi_take_off(e, l, state);
    whi_activemask_keep_s4(e, l->warp);
    leave_lane(e, l, l->state != WHI_LANE_RUNNABLE);
}

void whi_go_on(whi_engine *e, whi_lane *l, bool leave) {
    leave_lane(e, l, leave);
}

/* PCT: the changes of priority that are due; when the next one is. */
static uint64_t pass_changes(whi_engine *e, whi_lane *l) {
    while (e->n_changes > 0 && e->steps >= e->change[e->n_changes - 1]) {
        e->n_changes--;
        whi_demote(e, l);
    }
    if (e->steps >= e->fair_from) {
        e->policy_mode = WHI_MODE_RANDOM;
        e->heap_order = false;
        if (e->mode == WHI_MODE_PCT) {
            e->mode = WHI_MODE_RANDOM;
        }
    }
    return e->n_changes > 0 ? e->change[e->n_changes - 1] : UINT64_MAX;
}

/* What happens once in many points. Kept out of the way of the common case. */
static __attribute__((noinline)) void event(whi_engine *e, whi_lane *l) {
    if (e->device->n_workers > 1 && __atomic_load_n(&e->batch->failed, __ATOMIC_RELAXED)) {
        whi_switch_to_main(e, l); /* another worker has failed; not resumed */
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
                whi_activemask_resolve(e, w, 0);
            } else {
                w->am_scanned = w->am_wait != 0;
            }
        }
    }
    uint64_t next = e->next_scan;
    if (e->n_asleep > 0) {
        if (e->steps >= e->next_tick) {
            whi_advance_wheel(e);
            whi_set_next_tick(e);
        }
        next = e->next_tick < next ? e->next_tick : next;
    }
    if (e->policy_mode == WHI_MODE_PCT) {
        const uint64_t change = pass_changes(e, l);
        next = change < next ? change : next;
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
        whi_activemask_resolve(e, l->warp, 0);
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
    note_wait(e, l, attempt);
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
    whi_moved(e);
    point(e, l); /* a wait for the clock must let it pass */
    return e->steps;
}

/* --- the policy of a batch --------------------------------------------------------------- */

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

/* The points at which priorities change, and how long they are kept to. */
static void begin_pct(whi_engine *e) {
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
    e->n_changes = e->device->options.policy_arg - 1;
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

void whi_policy_begin(whi_engine *e) {
    static const whi_mode modes[WH_SIM_POLICY_COUNT] = {
        [WH_SIM_ROUND_ROBIN] = WHI_MODE_ROUND_ROBIN,
        [WH_SIM_RANDOM] = WHI_MODE_RANDOM,
        [WH_SIM_STICKY] = WHI_MODE_STICKY,
        [WH_SIM_PCT] = WHI_MODE_PCT,
        [WH_SIM_STALL] = WHI_MODE_STALL,
    };
    const wh_sim_options *o = &e->device->options;
    e->policy_mode = modes[o->policy];
    const bool watched = e->log != NULL || e->steering != NULL || e->stop_at != 0;
    e->mode = watched ? WHI_MODE_WATCHED : e->policy_mode;
    e->n_stopped = 0;
    e->stop_asked = 0;
    e->keep_array = e->mode != WHI_MODE_ROUND_ROBIN;
    e->heap_order = e->policy_mode == WHI_MODE_PCT;
    e->one_in = o->policy_arg;
    e->launch_start = e->steps;
    e->budget = o->step_budget < UINT64_MAX / 4 / e->batch->n_grids
                    ? o->step_budget * e->batch->n_grids
                    : UINT64_MAX / 4;
    const uint64_t lanes = (uint64_t)e->n_warps * WH_WARP_SIZE;
    const uint64_t most = lanes > FEWEST_LANES ? lanes : FEWEST_LANES;
    whi_moved(e);
    e->patience = e->budget >> PATIENCE_LOG2;
    e->patience = e->patience > LEAST_PATIENCE * most ? e->patience : LEAST_PATIENCE * most;
    e->wait_steps = 8u * WHI_WHEEL * most; /* the longest sleep, and its turn, several times */
    /* A lane that waits in wh_activemask while the rest of its warp hardly runs is
     * released after 64 to 128 rounds over all lanes. */
    e->scan_every = (uint64_t)e->n_warps * WH_WARP_SIZE * 64u;
    e->next_scan = e->steps + e->scan_every;
    e->next_event = e->next_scan;
    e->stint = 0;
    if (e->policy_mode == WHI_MODE_PCT) {
        begin_pct(e);
    }
    if (e->launch_start + e->budget < e->next_event) {
        e->next_event = e->launch_start + e->budget;
    }
}

void whi_policy_remember(const whi_engine *e) {
    const uint64_t threads = e->batch->threads;
    const uint64_t h = hash_batch(e->batch);
    e->device->pct_memory[h % WHI_PCT_MEMORY].name_hash = h;
    e->device->pct_memory[h % WHI_PCT_MEMORY].steps_per_thread =
        (e->steps - e->launch_start) * e->device->n_workers / threads + 1;
}

/* --- traps ------------------------------------------------------------------------------- */

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

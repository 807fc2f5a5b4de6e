/* grid.c: the life of blocks and lanes, and of the batches of grids that an engine runs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* posix_memalign, sched_yield */
#endif

#include "sim_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

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
    const uint32_t sm = (e->index + k * e->device->n_workers) % g->on->options.n_sms;
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
            l->asked = 0;
            l->waited = 0;
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
    whi_moved(e);
    whi_take_off(e, l, WHI_LANE_EXITED);
    w->live &= ~(1u << l->self.lane);
    b->live--;
    whi_collective_exit(e, l);
    whi_activemask_keep_s4(e, w);
    if (b->live == 0) {
        e->sm_busy[b->sm_slot] = 0;
        b->used = false;
        whi_shared_end(b);
        e->live_blocks--;
        give_block_back(e, b->grid);
        if (start_block(e, (uint32_t)(b - e->blocks)) && e->batch->n_grids > 1) {
            fill_slots(e); /* the end of a grid may allow more than one block */
        }
        if (e->live_blocks == 0) {
            whi_switch_to_main(e, l);
            return; /* as a lane of a later grid */
        }
    }
    /* l may be the lane of a new block already. */
    whi_go_on(e, l, l->state != WHI_LANE_RUNNABLE);
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

static uint32_t at_most(uint32_t n, uint64_t most) {
    return n < most ? n : (uint32_t)most;
}

static wh_status make_warps(whi_engine *e) {
    const size_t lanes = (size_t)e->n_warps * WH_WARP_SIZE;
    if (e->n_warps <= e->warps_made) {
        return WH_OK;
    }
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
    return WH_OK;
}

static wh_status make_blocks(whi_engine *e) {
    if (e->n_slots > e->blocks_made) {
        whi_block *blocks = realloc(e->blocks, e->n_slots * sizeof *blocks);
        if (blocks == NULL) {
            return WH_OUT_OF_MEMORY;
        }
        e->blocks = blocks;
        e->blocks_made = e->n_slots;
    }
    return WH_OK;
}

/* All fibers that the batch can need, so that nothing can fail later. */
static void make_fibers(whi_engine *e, const whi_batch *batch) {
    const size_t slot_bytes = whi_fiber_slot_bytes();
    for (uint32_t i = 0; i < e->n_warps; i++) {
        whi_warp *w = e->warps[i];
        const uint32_t left = batch->most_threads - i % e->warps_per_slot * WH_WARP_SIZE;
        for (uint32_t j = 0; j < WH_WARP_SIZE && j < left; j++) {
            whi_lane *l = &w->lanes[j];
            if (!l->fiber_ready) {
                whi_fiber_init(&l->fiber, w->stacks + j * slot_bytes, (size_t)i * WH_WARP_SIZE + j,
                               lane_main, l);
                l->fiber_ready = true;
            }
        }
    }
}

wh_status whi_engine_prepare(whi_engine *e, const whi_batch *batch) {
    const uint32_t cap = most_lanes() / e->device->n_workers / batch->most_threads;
    e->warps_per_slot = (batch->most_threads + WH_WARP_SIZE - 1) / WH_WARP_SIZE;
    e->n_slots = at_most(e->n_sm_slots, cap > 0 ? cap : 1);
    e->n_slots = at_most(e->n_slots, batch->unstarted);
    e->n_warps = e->n_slots * e->warps_per_slot;
    wh_status s = make_warps(e);
    if (s == WH_OK) {
        s = make_blocks(e);
    }
    if (s == WH_OK) {
        make_fibers(e, batch);
    }
    return s;
}

/* Lets the lanes run until every block of this engine has ended or the batch failed. */
static void enter(whi_engine *e) {
    whi_lane before = whi_host_lane; /* as if the last lane of all had just ended */
    before.warp = e->warps[e->n_warps - 1];
    before.self.lane = WH_WARP_SIZE - 1;
    whi_lane *first = whi_pick(e, &before, true);
    if (first != NULL) {
        e->switches++;
        whi_schedule_add(e, first->self.block << 10 ^ first->self.thread);
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
    whi_policy_begin(e);
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
        for (uint32_t i = 0; i < e->n_slots; i++) {
            whi_shared_end(&e->blocks[i]);
        }
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
    e->stop_at = 0;
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
    free(e->sm_busy);
    whi_weak_end(e);
}

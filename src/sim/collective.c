/* collective.c: warp collectives, wh_activemask and the block barrier, as lanes call them. */
#include "sim_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a shuffle yields that reads a lane outside its mask (CUDA: undefined). */
#define POISON 0xbadbadbadbadbadbu

/* --- results -------------------------------------------------------------------- */

static uint64_t fold(whi_sim_op op, uint64_t a, uint64_t b) {
    switch (op) {
    case WHI_SIM_REDUCE_ADD:
        return (uint32_t)(a + b);
    case WHI_SIM_REDUCE_MAX:
        return a > b ? a : b;
    default: /* reduce_or, any */
        return a | b;
    }
}

static void compute(whi_warp *w, uint32_t mask, whi_sim_op op) {
    whi_lane *lanes = w->lanes;
    uint64_t all = 0;
    switch (op) {
    case WHI_SIM_SYNCWARP:
    case WHI_SIM_OP_COUNT:
        return;
    case WHI_SIM_SHFL_U32:
    case WHI_SIM_SHFL_U64:
        for (uint32_t m = mask; m != 0; m &= m - 1) {
            whi_lane *l = &lanes[wh_ctz32(m)];
            const uint32_t from = l->source % WH_WARP_SIZE;
            l->result = mask >> from & 1u ? lanes[from].value : POISON;
        }
        return;
    case WHI_SIM_MATCH_U32:
    case WHI_SIM_MATCH_U64:
        for (uint32_t left = mask; left != 0;) {
            const uint64_t v = lanes[wh_ctz32(left)].value;
            uint32_t same = 0;
            for (uint32_t m = left; m != 0; m &= m - 1) {
                const uint32_t i = wh_ctz32(m);
                same |= lanes[i].value == v ? 1u << i : 0;
            }
            for (uint32_t m = same; m != 0; m &= m - 1) {
                lanes[wh_ctz32(m)].result = same;
            }
            left &= ~same;
        }
        return;
    case WHI_SIM_BALLOT:
    case WHI_SIM_ALL:
        for (uint32_t m = mask; m != 0; m &= m - 1) {
            const uint32_t i = wh_ctz32(m);
            all |= lanes[i].value << i;
        }
        all = op == WHI_SIM_ALL ? all == mask : all;
        break;
    case WHI_SIM_ANY:
    case WHI_SIM_REDUCE_ADD:
    case WHI_SIM_REDUCE_MAX:
    case WHI_SIM_REDUCE_OR:
        for (uint32_t m = mask; m != 0; m &= m - 1) {
            all = fold(op, all, lanes[wh_ctz32(m)].value);
        }
        break;
    }
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        lanes[wh_ctz32(m)].result = all;
    }
}

/* --- the rendezvous ---------------------------------------------------------------- */

/* A lane of mask that is not live. */
static void fail_gone(whi_engine *e, whi_lane *l, whi_sim_op op, uint32_t mask) {
    const whi_warp *w = l->warp;
    const uint32_t gone = wh_ctz32(mask & ~w->live);
    if (gone >= w->n_lanes) {
        whi_fail(e, l,
                 "%s at %s names lane %" PRIu32 " in its mask 0x%08" PRIx32
                 ", but the warp has only %" PRIu32 " lanes",
                 whi_op_names[op], whi_short_site(l->site), gone, mask, w->n_lanes);
    }
    whi_fail(e, l,
             "%s at %s names lane %" PRIu32 " in its mask 0x%08" PRIx32
             ", but that lane has exited",
             whi_op_names[op], whi_short_site(l->site), gone, mask);
}

/* Lane `other` can never come, because it waits for l elsewhere. */
static void fail_apart(whi_engine *e, whi_lane *l, const char *op, uint32_t mask,
                       const char *reason, uint32_t other) {
    char doing[160];
    whi_describe_lane(&l->warp->lanes[other], doing, sizeof doing);
    whi_fail(e, l, "%s: %s at %s, mask 0x%08" PRIx32 ", but lane %" PRIu32 " %s", reason, op,
             whi_short_site(l->site), mask, other, doing);
}

static whi_group *find_group(whi_engine *e, whi_lane *l, whi_sim_op op, uint32_t mask) {
    whi_warp *w = l->warp;
    const uint32_t bit = whi_bit_of(l);
    if ((mask & bit) == 0) {
        whi_fail(e, l, "%s at %s: the calling lane is not in its own mask 0x%08" PRIx32,
                 whi_op_names[op], whi_short_site(l->site), mask);
    }
    if ((mask & ~w->live) != 0) {
        fail_gone(e, l, op, mask);
    }
    if ((mask & w->in_barrier) != 0) {
        fail_apart(e, l, whi_op_names[op], mask, "different operations",
                   wh_ctz32(mask & w->in_barrier));
    }
    whi_group *found = NULL;
    for (uint32_t i = 0; i < w->n_groups; i++) {
        whi_group *g = &w->groups[i];
        if (g->mask == mask) {
            if (g->op != op) {
                fail_apart(e, l, whi_op_names[op], mask, "different operations",
                           wh_ctz32(g->arrived));
            }
            found = g;
        } else if ((g->mask & bit) != 0 && (g->arrived & mask) != 0) {
            /* S3 would not hold: both wait for each other. (A lane of mask that waits in a group
             * without l may still come.) */
            fail_apart(e, l, whi_op_names[op], mask, "differing masks",
                       wh_ctz32(g->arrived & mask));
        }
    }
    if (found == NULL) {
        found = &w->groups[w->n_groups++];
        found->mask = mask;
        found->arrived = 0;
        found->op = op;
    }
    return found;
}

static void wake_others(whi_engine *e, whi_warp *w, uint32_t mask, const whi_lane *l) {
    for (uint32_t m = mask & ~whi_bit_of(l); m != 0; m &= m - 1) {
        whi_make_runnable(e, &w->lanes[wh_ctz32(m)]);
    }
}

/* wh_syncwarp as ThreadSanitizer shall see it: the last lane collects what all lanes
 * published in their outboxes and hands it to each lane's inbox. Boxes belong to one
 * lane each, so no edge appears between lanes of different masks. */
static void tsan_syncwarp(whi_warp *w, uint32_t mask, whi_lane *last) {
    const uint32_t others = mask & ~whi_bit_of(last);
    for (uint32_t m = others; m != 0; m &= m - 1) {
        whi_tsan_acquire(&w->lanes[wh_ctz32(m)].outbox);
    }
    for (uint32_t m = others; m != 0; m &= m - 1) {
        whi_tsan_release(&w->lanes[wh_ctz32(m)].inbox);
    }
}

/* Of a lane that is alone. */
static uint64_t host_collective(whi_sim_op op, uint32_t mask, uint64_t value, uint32_t source) {
    if (mask != 1) {
        (void)fprintf(stderr,
                      "warpheap: host code is a grid of one thread: its mask is 1, not 0x%x\n",
                      (unsigned)mask);
        abort(); /* it has no other lanes */
    }
    switch (op) {
    case WHI_SIM_MATCH_U32:
    case WHI_SIM_MATCH_U64:
        return 1;
    case WHI_SIM_SHFL_U32:
    case WHI_SIM_SHFL_U64:
        return source % WH_WARP_SIZE == 0 ? value : POISON;
    default:
        return value;
    }
}

uint64_t whi_sim_collective(whi_sim_op op, uint32_t mask, uint64_t value, uint32_t source,
                            const char *site) {
    whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    if (e == NULL) {
        return host_collective(op, mask, value, source);
    }
    whi_point(e, l);
    whi_warp *w = l->warp;
    l->value = value;
    l->source = source;
    l->site = site;
    whi_group *g = find_group(e, l, op, mask);
    g->arrived |= whi_bit_of(l);
    if (g->arrived != mask) {
        if (e->hooked && op == WHI_SIM_SYNCWARP) {
            whi_tsan_release(&l->outbox);
            whi_wait(e, l, WHI_LANE_IN_COLLECTIVE);
            whi_tsan_acquire(&l->inbox);
        } else {
            whi_wait(e, l, WHI_LANE_IN_COLLECTIVE);
        }
        return l->result;
    }
    *g = w->groups[--w->n_groups];
    compute(w, mask, op);
    if (e->hooked && op == WHI_SIM_SYNCWARP) {
        tsan_syncwarp(w, mask, l);
    }
    if (e->weak != NULL && op == WHI_SIM_SYNCWARP) {
        whi_view all = {NULL, 0, 0};
        whi_weak_sync(w, mask, &all);
        whi_weak_synced(w, mask, &all);
        free(all.oldest);
    }
    wake_others(e, w, mask, l);
    if (e->policy_mode == WHI_MODE_ROUND_ROBIN && mask != whi_bit_of(l)) {
        whi_go_on(e, l, true); /* in step with the lanes that it woke */
    }
    return l->result;
}

/* --- the barrier of a block ----------------------------------------------------------- */

static void open_barrier(whi_engine *e, whi_block *b) {
    b->at_barrier = 0;
    b->parity = !b->parity;
    whi_warp **warps = e->warps + (size_t)(b - e->blocks) * e->warps_per_slot;
    whi_view all = {NULL, 0, 0};
    for (uint32_t i = 0; e->weak != NULL && i < e->warps_per_slot; i++) {
        whi_weak_sync(warps[i], warps[i]->live, &all);
    }
    for (uint32_t i = 0; e->weak != NULL && i < e->warps_per_slot; i++) {
        whi_weak_synced(warps[i], warps[i]->live, &all);
    }
    free(all.oldest);
    for (uint32_t i = 0; i < e->warps_per_slot; i++) {
        whi_warp *w = warps[i];
        for (uint32_t m = w->in_barrier; m != 0; m &= m - 1) {
            whi_make_runnable(e, &w->lanes[wh_ctz32(m)]);
        }
        w->in_barrier = 0;
    }
}

void whi_sim_syncthreads(const char *site) {
    whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    if (e == NULL) {
        return;
    }
    whi_point(e, l);
    whi_warp *w = l->warp;
    whi_block *b = w->block;
    l->site = site;
    for (uint32_t i = 0; i < w->n_groups; i++) {
        if ((w->groups[i].mask & whi_bit_of(l)) != 0) {
            char doing[160];
            const uint32_t other = wh_ctz32(w->groups[i].arrived);
            whi_describe_lane(&w->lanes[other], doing, sizeof doing);
            whi_fail(e, l, "different operations: wh_syncthreads at %s, but lane %" PRIu32 " %s",
                     whi_short_site(site), other, doing);
        }
    }
    /* A lane may come to the next barrier while another still has to leave this one,
     * but not to the one after: hence two objects. */
    char *object = &b->barrier[b->parity];
    whi_tsan_release(object);
    if (++b->at_barrier == b->live) {
        open_barrier(e, b);
        if (e->policy_mode == WHI_MODE_ROUND_ROBIN) {
            whi_go_on(e, l, true);
        }
    } else {
        w->in_barrier |= whi_bit_of(l);
        whi_wait(e, l, WHI_LANE_IN_BARRIER);
    }
    whi_tsan_acquire(object);
}

void whi_collective_exit(whi_engine *e, whi_lane *l) {
    whi_warp *w = l->warp;
    whi_block *b = w->block;
    for (uint32_t i = 0; i < w->n_groups; i++) {
        const whi_group *g = &w->groups[i];
        if ((g->mask & whi_bit_of(l)) != 0) {
            const whi_lane *waiting = &w->lanes[wh_ctz32(g->arrived)];
            whi_fail(e, waiting,
                     "%s at %s names lane %" PRIu32 " in its mask 0x%08" PRIx32
                     ", but that lane has exited",
                     whi_op_names[g->op], whi_short_site(waiting->site), l->self.lane, g->mask);
        }
    }
    if (b->live > 0 && b->at_barrier == b->live) { /* as in CUDA, exited threads count */
        open_barrier(e, b);
    }
}

/* --- wh_activemask ------------------------------------------------------------------------ */

uint32_t whi_sim_activemask(const char *site) {
    whi_lane *l = whi_current();
    whi_engine *e = l->engine;
    if (e == NULL) {
        return 1;
    }
    whi_point(e, l);
    whi_warp *w = l->warp;
    const uint32_t bit = whi_bit_of(l);
    if (w->live == bit) {
        return bit;
    }
    l->site = site;
    l->am_passed = 0;
    w->am_wait |= bit;
    const uint32_t ticks = whi_activemask_ticks(e, w);
    if (ticks == 0) {
        whi_activemask_resolve(e, w, bit);
    } else {
        w->am_ticks = w->am_ticks == 0 ? ticks : w->am_ticks;
        whi_wait(e, l, WHI_LANE_IN_ACTIVEMASK);
    }
    return (uint32_t)l->result;
}

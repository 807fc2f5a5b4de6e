/* describe.c: names and what is told of lanes: in messages of failures, and in schedules. */
#include "sim_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const whi_policy_names[WH_SIM_POLICY_COUNT] = {
#define POLICY_NAME_(name, text) text,
    WH_SIM_POLICY_LIST(POLICY_NAME_)
#undef POLICY_NAME_
};

const char *const whi_op_names[WHI_SIM_OP_COUNT] = {
#define OP_NAME_(name, text) text,
    WHI_SIM_OP_LIST(OP_NAME_)
#undef OP_NAME_
};

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
    case WHI_LANE_STOPPED:
        (void)snprintf(text, bytes, "has been stopped for ever");
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

void whi_note_failure(whi_engine *e, const whi_lane *l, const char *format, ...) {
    whi_sim_device *d = e->device;
    const wh_sim_options *o = &d->options;
    (void)pthread_mutex_lock(&d->mutex);
    if (!e->batch->failed) {
        static const char *const weak[] = {[WH_SIM_WEAK_NONE] = "",
                                           [WH_SIM_WEAK_GPU] = ",weak=1",
                                           [WH_SIM_WEAK_FORMAL] = ",weak=2"};
        char *out = d->base.error;
        size_t room = sizeof d->base.error;
        char tail[96];
        va_list args;
        (void)snprintf(tail, sizeof tail,
                       " [replay: WH_SIM=seed=%" PRIu64 ",policy=%s,arg=%" PRIu32 "%s]", o->seed,
                       whi_policy_names[o->policy], o->policy_arg, weak[o->weak]);
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

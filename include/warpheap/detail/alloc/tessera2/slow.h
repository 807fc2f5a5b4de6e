/* alloc/tessera2/slow.h: what malloc does when its cursor has no slot at once: the rungs of a
 * ladder, for groups of lanes of one class. This file may change: it is no part of the API.
 *
 * Of each group one lane works, the leader, and shares what it gets. The rungs are cursor.h's:
 * LOOK, LIST, FRESH; then NONE, where the lanes search together (oom.h). Each rung says which is
 * next.
 */
#ifndef WH_ALLOC_TESSERA2_SLOW_H
#define WH_ALLOC_TESSERA2_SLOW_H

#include "warpheap/detail/alloc/tessera2/runs.h"

#include "warpheap/detail/simt/begin.h"

/* A step of a lane for n lanes. last: slots of the span that its cursor used up. */
WH_FN wh_tessera2_grant wh_tessera2_step_(const wh_tessera2_core *g, uint32_t shard, uint32_t c,
                                          uint32_t n, uint32_t rung, uint32_t last, uint32_t seed) {
    if (rung == WH_TESSERA2_LOOK) {
        return wh_tessera2_look_(g, shard, c, n, seed);
    }
    if (rung == WH_TESSERA2_FRESH) {
        return wh_tessera2_refill_(g, shard, c, n, last, seed);
    }
    if (rung == WH_TESSERA2_SPARE) {
        return wh_tessera2_fill_spare_(g, shard, c, last);
    }
    wh_tessera2_grant grant = wh_tessera2_listed_(g, shard, c, n, seed, 1);
    if (grant.bits == 0) {
        grant.next = wh_tessera2_reopen_(g, shard, c);
    }
    return grant;
}

/* Whether some lane of a full warp (mask) says so; 0: some lane that is at this place with the
 * caller. Lanes that go where none of them has anything to do find no progress there, so each place
 * that asks is a place of its own (a macro: the simulated device tells them by their lines). */
#define WH_TESSERA2_SOME(mask, pred) ((mask) == 0 ? wh_any_here(pred) : wh_any((mask), (pred)))

/* Formats the spans that lanes have claimed: those of a full warp (mask) together, one after the
 * other; 0: each lane its own. */
WH_FN void wh_tessera2_format_all_(const wh_tessera2_core *ref, wh_mask mask, uint32_t shard,
                                   uint32_t c, int has, uint64_t span) {
    const wh_tessera2_core g = *ref;
    const wh_tessera2_header *header = wh_tessera2_header_of_(ref);
    if (mask == 0) {
        if (has) {
            const wh_tessera2_class cls = header->classes[c];
            const uint32_t slabs = wh_tessera2_divide(wh_tessera2_span_slots(span), cls.by_slots);
            wh_tessera2_format_(g, wh_tessera2_with_shard(header->slab_tags[c], shard),
                                wh_tessera2_span_first(span), slabs * cls.chunks, 0, 1);
        }
        return;
    }
    WH_NO_UNROLL
    for (wh_mask m = wh_ballot(mask, has); m != 0; m &= m - 1) {
        const uint32_t its = wh_shfl_u32(mask, c, wh_mask_leader(m));
        const uint64_t its_span = wh_shfl_u64(mask, span, wh_mask_leader(m));
        const wh_tessera2_class cls = header->classes[its];
        const uint32_t slabs = wh_tessera2_divide(wh_tessera2_span_slots(its_span), cls.by_slots);
        wh_tessera2_format_(g, wh_tessera2_with_shard(header->slab_tags[its], shard),
                            wh_tessera2_span_first(its_span), slabs * cls.chunks, wh_lane_id(),
                            WH_WARP_SIZE);
    }
    wh_syncwarp(mask); /* P2, P3 */
}

/* Of each group of a full warp who refills, or the first that needs a slot, or who fills the spare
 * span; if there is none of these, the caller. */
WH_FN uint32_t wh_tessera2_leader_(wh_mask mask, wh_mask lanes, wh_mask needy, uint32_t rung) {
    const wh_mask fresh = wh_ballot(mask, rung == WH_TESSERA2_FRESH) & lanes;
    const wh_mask spare = wh_ballot(mask, rung == WH_TESSERA2_SPARE) & lanes;
    wh_mask leaders = needy != 0 ? needy : spare;
    leaders = fresh != 0 ? fresh : leaders;
    return leaders != 0 ? wh_mask_leader(leaders) : wh_lane_id();
}

/* Blocks for the lanes that have none (p NULL): n bytes, of class c, or NO_CLASS: nothing. mask, a
 * constant: all lanes of a full warp, `lanes` is the caller's group of one class; or 0: each lane
 * for itself. v: what the add to its cursor returned for the group, if the leader made one, by
 * which it may have become the refiller; else CLOSED, whatever the cursor is. */
WH_FN void *wh_tessera2_climb_(const wh_tessera2_core *g, wh_mask mask, wh_mask lanes,
                               uint32_t shard, uint32_t c, uint64_t v, int refills, void *p) {
    const uint32_t lane = wh_lane_id();
    const wh_tessera2_class cls = wh_tessera2_header_of_(g)->classes[c];
    uint32_t seed = wh_spread32((uint32_t)wh_thread_id());
    uint32_t rung = refills ? WH_TESSERA2_FRESH : WH_TESSERA2_LOOK;
    uint64_t number = WH_TESSERA2_NO_NUMBER;
    int need = p == NULL && c != WH_TESSERA2_NO_CLASS;
    WH_NO_UNROLL
    for (uint32_t attempt = 0;; attempt++) {
        const int owes = rung == WH_TESSERA2_FRESH || rung == WH_TESSERA2_SPARE;
        if (!WH_TESSERA2_SOME(mask, need || owes)) {
            return p;
        }
        const wh_mask needy = mask != 0 ? wh_ballot(mask, need) & lanes : (wh_mask)need << lane;
        const uint32_t leader = mask != 0 ? wh_tessera2_leader_(mask, lanes, needy, rung) : lane;
        /* A needy leader that owes the spare span looks for its slot first. */
        const uint32_t its = need && rung == WH_TESSERA2_SPARE ? WH_TESSERA2_LOOK : rung;
        wh_tessera2_grant grant = wh_tessera2_make_grant_(0, 0, rung);
        if (lane == leader && (need || owes) &&
            (its <= WH_TESSERA2_FRESH || its == WH_TESSERA2_SPARE)) {
            grant = wh_tessera2_step_(g, shard, c, wh_popc32(needy), its, wh_tessera2_span_slots(v),
                                      seed);
            v = its == WH_TESSERA2_LOOK || grant.next == WH_TESSERA2_SPARE ? grant.at : v;
            rung = its != rung && grant.next == WH_TESSERA2_LOOK ? rung : grant.next;
        }
        const int publishes = rung >= WH_TESSERA2_PUBLISH_SPARE;
        if (WH_TESSERA2_SOME(mask, publishes)) {
            wh_tessera2_format_all_(g, mask, shard, c, publishes, grant.at);
            wh_tessera2_shard *own = wh_tessera2_shard_at_(*g, shard);
            if (rung == WH_TESSERA2_PUBLISH) {
                v = grant.at;
                rung = wh_tessera2_publish_(own, c, grant.at, wh_popc32(needy));
            } else if (publishes) {
                rung = wh_tessera2_publish_spare_(own, c, grant.at);
                grant.at = 0;
            }
        }
        seed += 0x9e3779b9u;
        if (mask != 0) {
            grant.at = wh_shfl_u64(mask, grant.at, leader);
            grant.bits = wh_shfl_u64(mask, grant.bits, leader);
        }
        if (need) {
            p = wh_tessera2_granted_(g, cls, grant, mask != 0 ? wh_mask_rank(needy) : 0);
            need = p == NULL;
        }
        if (rung == WH_TESSERA2_NONE && c >= g->n_small) {
            rung = WH_TESSERA2_DONE; /* a run will do */
        }
        const int asks = rung == WH_TESSERA2_NONE;
        if (mask != 0 ? wh_any(mask, asks) : asks) {
            const wh_mask here = mask != 0 ? mask : wh_activemask();
            const uint32_t next = wh_tessera2_none_(g, here, shard, c, asks, &number);
            rung = asks ? next : rung;
        }
        const uint32_t its_rung = mask != 0 ? wh_shfl_u32(mask, rung, leader) : rung;
        if (need && its_rung == WH_TESSERA2_DONE) {
            wh_add_u64_relaxed(&wh_tessera2_shard_at_(*g, shard)->failed, c < g->n_small);
            need = 0;
        }
        if (attempt > 1) {
            wh_backoff(attempt < 6 ? attempt - 2 : 4);
        }
    }
}

WH_FN_SLOW void *wh_tessera2_climb_warp_(const wh_tessera2_core *g, wh_mask lanes, uint32_t shard,
                                         uint32_t c, uint64_t v, int refills, void *p) {
    return wh_tessera2_climb_(g, WH_FULL_WARP, lanes, shard, c, v, refills, p);
}
WH_FN_SLOW void *wh_tessera2_climb_each_(const wh_tessera2_core *g, uint32_t shard, uint32_t c,
                                         uint64_t v, int refills, void *p) {
    return wh_tessera2_climb_(g, 0, 0, shard, c, v, refills, p);
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/tessera/slow.h: what malloc does when its cursor has no slot at once: first a short way,
 * then the rungs of a ladder, for groups of lanes of one class. This file may change: it is no part
 * of the API.
 *
 * Of each group one lane works, the leader, and shares what it gets. What the group knows all its
 * lanes that have no block know: v, and whether it is the cursor's refiller (cursor.h C1). So
 * whichever lane leads next, and whichever function, goes on from there.
 *
 * Short way  soon_: the refiller refills from home; others wait for it, a while, and take slots;
 *         who finds the cursor closed follows hints, or becomes its refiller. It ends when all have
 *         blocks, after some rounds, or at once when a leader gets no further. Then who is still
 *         the refiller goes on as such
 * Ladder  climb_: cursor.h's rungs LOOK, PARTIAL, REFILL, PUBLISH; then NONE, where the lanes
 *         search together (oom.h). Each rung says which is next. It ends with blocks, or NULL
 *
 * Progress  the short way's loops are bounded; the ladder waits as cursor.h and oom.h say
 * Cost    a refill from home, without its tags and words: 7 to 11 loads, 5 atomics and 1 store. Who
 *         waits for it: 1 atomic, and loads until then. A hint that leads on: 2 loads, 1 atomic
 * Check   tests/conform, tests/stress, tests/fault
 */
#ifndef WH_ALLOC_TESSERA_SLOW_H
#define WH_ALLOC_TESSERA_SLOW_H

#include "warpheap/detail/alloc/tessera/runs.h"

#include "warpheap/detail/simt/begin.h"

/* Whether some lane of a full warp (mask) says so; 0: some lane that is at this place with the
 * caller. Lanes that go where none of them has anything to do find no progress there, so each place
 * that asks is a place of its own (a macro: the simulated device tells them by their lines). */
#define WH_TESSERA_SOME(mask, pred) ((mask) == 0 ? wh_any_here(pred) : wh_any((mask), (pred)))

/* Formats the spans that lanes have claimed (publishes), slabs with these tags: those of a full
 * warp (mask) together, one after the other; 0: each lane its own. */
WH_FN void wh_tessera_format_all_(wh_tessera_core g, wh_mask mask, int publishes, uint64_t tag,
                                  uint64_t span, uint32_t by_slots) {
    if (mask == 0) {
        if (publishes) {
            wh_tessera_format_(g, tag, span, by_slots, 0, 1);
        }
        return;
    }
    wh_syncwarp(mask); /* P3 */
    WH_NO_UNROLL
    for (wh_mask m = wh_ballot(mask, publishes); m != 0; m &= m - 1) {
        const uint32_t lane = wh_mask_leader(m);
        wh_tessera_format_(g, wh_shfl_u64(mask, tag, lane), wh_shfl_u64(mask, span, lane),
                           wh_shfl_u32(mask, by_slots, lane), wh_lane_id(), WH_WARP_SIZE);
    }
    wh_syncwarp(mask); /* P2 */
}

/* What its group's leader got, for all of the group. */
WH_FN wh_tessera_grant wh_tessera_share_(wh_mask mask, wh_tessera_grant grant, uint32_t leader) {
    if (mask != 0) {
        grant.span = wh_shfl_u64(mask, grant.span, leader);
        grant.bits = wh_shfl_u64(mask, grant.bits, leader);
        grant.next = wh_shfl_u32(mask, grant.next, leader);
        wh_syncwarp(mask); /* P2 */
    }
    return grant;
}

#define WH_TESSERA_POLLS 64u /* of a third of a microsecond: longer than a refill takes */
#define WH_TESSERA_ROUNDS 8u
#define WH_TESSERA_NAPS 4u /* of 2 us: while others search */

/* How far the short way has come for a lane: it has a block, or its group goes on from here. */
typedef struct wh_tessera_way {
    void *p;
    uint64_t v; /* as climb_'s, of all lanes of the group */
    uint32_t refills;
    uint32_t owes; /* 1 + a slab to whose state this lane owes a word (slab.h I5), or 0 */
    uint32_t more; /* there is more to do, for some lane of a full warp; else for this one */
} wh_tessera_way;

/* Slots of a cursor that was under way, if somebody refills it in time, for a group of ask.n; or of
 * their add the group is the refiller. */
WH_FN wh_tessera_grant wh_tessera_wait_(const wh_tessera_core *g, wh_tessera_ask ask) {
    uint64_t *at = &wh_tessera_cursor_at_(*g, ask.shard, ask.c)->span;
    wh_tessera_grant grant = wh_tessera_make_grant_(wh_load_u64_relaxed(at), WH_TESSERA_LOOK);
    WH_NO_UNROLL
    for (uint32_t polls = 0; polls < WH_TESSERA_POLLS && !wh_tessera_is_open(grant.span) &&
                             !wh_tessera_is_closed(grant.span);
         polls++) {
        wh_backoff(3);
        grant.span = wh_load_u64_relaxed(at);
    }
    if (wh_tessera_is_open(grant.span)) {
        grant.span = WH_PLANT_ORDER(tessera_p2_soon, wh_fetch_add_u64,
                                    acquire)(at, ask.n * WH_TESSERA_POSITION);    /* P2, I1 */
        grant.next = wh_tessera_passes_end(grant.span, ask.n) ? WH_TESSERA_REFILL /* C1 */
                                                              : WH_TESSERA_LOOK;
    } else if (!wh_tessera_is_closed(grant.span)) {
        grant.span = WH_TESSERA_UNDER_WAY;
    }
    return grant;
}

/* The short way. Arguments as climb_'s, but refills: of all lanes of the group. It calls nothing:
 * lanes that call something in a branch may come back from it in parts, and then go on in parts,
 * each of which waits for memory by itself. */
WH_FN wh_tessera_way wh_tessera_soon_(const wh_tessera_core *g, wh_mask mask, wh_mask lanes,
                                      uint32_t shard, uint32_t c, uint64_t v, int refills,
                                      void *p) {
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    const uint32_t lane = wh_lane_id();
    wh_tessera_ask ask;
    ask.shard = shard;
    ask.c = c;
    ask.rung = WH_TESSERA_LOOK;
    ask.seed = wh_spread32((uint32_t)wh_thread_id());
    int need = p == NULL && c < g->n_small;
    uint32_t owes = 0;
    WH_NO_UNROLL
    for (uint32_t rounds = 0; rounds < WH_TESSERA_ROUNDS && WH_TESSERA_SOME(mask, need); rounds++) {
        const wh_mask needy = mask != 0 ? wh_ballot(mask, need) & lanes : (wh_mask)need << lane;
        const uint32_t leader = needy != 0 ? wh_mask_leader(needy) : lane;
        const int leads = need && lane == leader;
        const int is_closed = wh_tessera_is_closed(v);
        wh_tessera_grant grant = wh_tessera_make_grant_(0, WH_TESSERA_LOOK); /* nothing yet */
        ask.n = wh_popc32(needy);
        if (leads && refills) {
            ask.last = wh_tessera_span_slots(v);
            grant.span = wh_tessera_claim_soon_(g, ask);
        } else if (leads && is_closed) {
            grant = wh_tessera_hinted_(g, ask, &owes);
            if (grant.bits == 0 && wh_tessera_any_chunks_(*g) && /* else others search in vain */
                wh_load_u32_relaxed(&wh_tessera_header_of_(g)->search_lock) == 0) {
                grant = wh_tessera_reopen_(g, ask, v);
            }
        }
        const int publishes =
            leads && refills && grant.span != 0 && grant.span != WH_TESSERA_CLOSED;
        if (WH_TESSERA_SOME(mask, publishes)) {
            wh_tessera_shard *own = wh_tessera_shard_at_(*g, shard);
            const uint64_t tag =
                wh_tessera_with_shard(wh_tessera_header_of_(g)->slab_tags[c], shard);
            wh_tessera_format_all_(*g, mask, publishes, tag, grant.span, cls.by_slots);
            if (publishes) {
                grant.next = wh_tessera_publish_(own, c, grant.span, ask.n);
                wh_tessera_list_span_(*g, c, cls, grant.span);
            }
        }
        /* Nobody keeps a refiller waiting. */
        const int stuck = WH_TESSERA_SOME(mask, leads && (refills || is_closed) &&
                                                    grant.span == 0 && grant.bits == 0);
        if (leads && !refills && !is_closed && !stuck) {
            grant = wh_tessera_wait_(g, ask);
        }
        grant = wh_tessera_share_(mask, grant, leader);
        /* A vacant cursor (0) gives no slot, but makes a refiller: C1. */
        if (need && (grant.span != 0 || grant.bits != 0 || grant.next == WH_TESSERA_REFILL)) {
            p = wh_tessera_granted_(g, cls, grant, mask != 0 ? wh_mask_rank(needy) : 0);
            need = p == NULL;
            v = grant.bits == 0 ? grant.span : WH_TESSERA_CLOSED;
            refills = grant.next == WH_TESSERA_REFILL;
        }
        if (WH_TESSERA_SOME(mask, stuck || owes != 0)) {
            break;
        }
    }
    const int more = (p == NULL && c != WH_TESSERA_NO_REQUEST) || owes != 0 ||
                     (g->tracks & WH_TESSERA_COUNTS) != 0;
    wh_tessera_way way;
    way.p = p;
    way.v = v;
    way.refills = refills != 0;
    way.owes = owes;
    way.more = (uint32_t)(mask != 0 ? wh_any(mask, more) : more);
    return way;
}

/* refills: of the leader of the group. */
WH_FN_LINKED(wh_tessera_way, wh_tessera_soon_warp_,
             (const wh_tessera_core *g, wh_mask lanes, uint32_t shard, uint32_t c, uint64_t v,
              int refills, void *p)) {
    const uint32_t all = wh_shfl_u32(WH_FULL_WARP, (uint32_t)refills, wh_mask_leader(lanes));
    return wh_tessera_soon_(g, WH_FULL_WARP, lanes, shard, c, v, all != 0, p);
}
WH_FN_LINKED(wh_tessera_way, wh_tessera_soon_each_,
             (const wh_tessera_core *g, uint32_t shard, uint32_t c, uint64_t v, int refills,
              void *p)) {
    return wh_tessera_soon_(g, 0, 0, shard, c, v, refills, p);
}

/* A step of the ladder, for the lanes that work: each for its group. mask, a constant: all lanes of
 * a full warp; or 0: each lane for itself. */
WH_FN wh_tessera_grant wh_tessera_step_(const wh_tessera_core *g, wh_mask mask, wh_tessera_ask ask,
                                        wh_tessera_class cls, int works) {
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_CLOSED, ask.rung);
    if (works && ask.rung == WH_TESSERA_REFILL) {
        grant = wh_tessera_refill_(g, ask);
    } else if (works) {
        grant = wh_tessera_look_(g, ask);
    }
    const int publishes = grant.next == WH_TESSERA_PUBLISH;
    if (WH_TESSERA_SOME(mask, publishes)) {
        const uint64_t tag = publishes ? wh_tessera_span_tag_(g, ask.c, cls, grant.span) : 0;
        wh_tessera_format_all_(*g, mask, publishes, wh_tessera_with_shard(tag, ask.shard),
                               grant.span, cls.by_slots);
        if (publishes) {
            wh_tessera_shard *own = wh_tessera_shard_at_(*g, ask.shard);
            grant.next = wh_tessera_publish_(own, ask.c, grant.span, ask.n);
            wh_tessera_list_span_(*g, ask.c, cls, grant.span);
        }
    }
    return grant;
}

/* Of lanes of which some say so, with the same mask: what is next for those that have found nothing
 * (asks). */
WH_FN uint32_t wh_tessera_next_(const wh_tessera_core *g, wh_mask mask, wh_tessera_ask ask,
                                int asks, wh_tessera_ticket *ticket) {
    if (mask != 0 ? wh_any(mask, asks) : asks) {
        const wh_mask here = mask != 0 ? mask : wh_activemask();
        const uint32_t next = wh_tessera_none_(g, here, ask.shard, ask.c, asks, ticket);
        return asks ? next : ask.rung;
    }
    return ask.rung;
}

/* Blocks for the lanes that have none (p NULL): of class c, or NO_CLASS: nothing. mask, a constant:
 * all lanes of a full warp, `lanes` is the caller's group of one class; or 0: each lane for itself.
 * v: what the add to its cursor returned for the group, by which it may be the refiller; or what
 * its leader saw there instead. No block: NULL, or LATE. */
WH_FN void *wh_tessera_climb_(const wh_tessera_core *g, wh_mask mask, wh_mask lanes, uint32_t shard,
                              uint32_t c, uint64_t v, int refills, void *p) {
    const wh_tessera_class cls = wh_tessera_header_of_(g)->classes[c];
    const uint32_t lane = wh_lane_id();
    wh_tessera_ticket ticket = wh_tessera_no_ticket_(g);
    wh_tessera_ask ask;
    ask.shard = shard;
    ask.c = c;
    ask.rung = v == WH_TESSERA_CLOSED ? WH_TESSERA_PARTIAL : WH_TESSERA_LOOK;
    ask.rung = refills ? WH_TESSERA_REFILL : ask.rung;
    ask.last = wh_tessera_span_slots(v);
    ask.seed = wh_spread32((uint32_t)wh_thread_id());
    int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    WH_NO_UNROLL
    while (WH_TESSERA_SOME(mask, need)) {
        const wh_mask needy = mask != 0 ? wh_ballot(mask, need) & lanes : (wh_mask)need << lane;
        const uint32_t leader = needy != 0 ? wh_mask_leader(needy) : lane;
        const int leads = need && lane == leader;
        const int works = leads && ask.rung <= WH_TESSERA_REFILL;
        ask.n = wh_popc32(needy);
        const wh_tessera_grant grant =
            wh_tessera_share_(mask, wh_tessera_step_(g, mask, ask, cls, works), leader);
        ask.seed += 0x9e3779b9u;
        if (need) {
            p = wh_tessera_granted_(g, cls, grant, mask != 0 ? wh_mask_rank(needy) : 0);
            need = p == NULL;
            ask.rung = grant.next;
            ask.last = grant.bits == 0 ? wh_tessera_span_slots(grant.span) : 0;
        }
        if (ask.rung == WH_TESSERA_NONE && c >= g->n_small) {
            ask.rung = WH_TESSERA_DONE; /* a run will do */
        }
        ask.rung = wh_tessera_next_(g, mask, ask, need && ask.rung == WH_TESSERA_NONE, &ticket);
        if (need && ask.rung == WH_TESSERA_DONE) {
            p = wh_tessera_failed_(g, shard, c < g->n_small, ticket.wish);
            need = 0;
        }
        /* Who waits sleeps: lanes that look again and again are in the way of who refills, and even
         * more of who searches, as all look at the same few words then. */
        const int waits = grant.span == WH_TESSERA_CLOSED;
        if (mask != 0 ? wh_all(mask, waits || !need) && wh_any(mask, need) : waits && need) {
            const int searching = !WH_TESSERA_SOME(mask, need && ask.rung != WH_TESSERA_NONE);
            WH_NO_UNROLL
            for (uint32_t naps = searching ? WH_TESSERA_NAPS : 1; naps != 0; naps--) {
                wh_backoff(6);
            }
        }
    }
    return p;
}

WH_FN_SLOW void *wh_tessera_climb_warp_(const wh_tessera_core *g, wh_mask lanes, uint32_t shard,
                                        uint32_t c, uint64_t v, int refills, void *p) {
    return wh_tessera_climb_(g, WH_FULL_WARP, lanes, shard, c, v, refills, p);
}
WH_FN_SLOW void *wh_tessera_climb_each_(const wh_tessera_core *g, uint32_t shard, uint32_t c,
                                        uint64_t v, int refills, void *p) {
    return wh_tessera_climb_(g, 0, 0, shard, c, v, refills, p);
}

#include "warpheap/detail/simt/end.h"

#endif

/* alloc/tessera/slow.h: the slow path of slots, for lanes whose cursors are closed. All groups of a
 * warp go in steps, so that none waits while another one works. This file may change: it is no part
 * of the API.
 */
#ifndef WH_ALLOC_TESSERA_SLOW_H
#define WH_ALLOC_TESSERA_SLOW_H

#include "warpheap/detail/alloc/tessera/search.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_LOOKS 8u /* partial slabs to look at while the pool may have chunks */

/* For r lanes that found the cursor of their class used up. packs: whether to ask for those, too.
 */
WH_FN_SLOW wh_tessera_grant wh_tessera_attempt_(const wh_tessera_core *g, uint32_t shard,
                                                uint32_t c, uint32_t r, int may_reopen, int packs) {
    wh_assert_internal(c < g->n_classes && r - 1 < WH_WARP_SIZE);
    uint64_t *at = wh_tessera_span_at_(*g, shard, c, 0);
    const uint64_t now = wh_load_u64_relaxed(at);
    wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
    if (wh_tessera_is_open_(now)) {
        grant.at = wh_fetch_add_u64_acquire(at, r * WH_TESSERA_POSITION); /* P2 */
        grant.refills = wh_tessera_passes_end_(grant.at, r);
        return grant;
    }
    const wh_tessera_shard *own_shard = wh_tessera_shard_at_(*g, shard);
    if (wh_load_u32_relaxed(&wh_tessera_header_(*g)->search_lock) != 0) {
        grant.at = WH_TESSERA_PAUSED;
        return grant;
    }
    if (wh_tessera_span_first(now) != WH_TESSERA_CLOSED_CHUNK) { /* its refiller is at work, */
        if ((wh_load_u32_relaxed(&own_shard->home_was_empty) |
             wh_load_u32_relaxed(&own_shard->pool_was_empty)) != 0 &&
            wh_tessera_any_(wh_tessera_partial_list_(*g, c))) { /* and will be for long */
            grant = wh_tessera_take_partial_(g, shard, c, r, WH_TESSERA_LOOKS);
        }
        return grant;
    }
    /* A span first, since lists hold items of slabs that have gone to the pool; but when the pool
     * had none for the shard the last time, the list, until it has such items or the pool a span.
     */
    uint32_t *pool_was_empty_at = &wh_tessera_shard_at_(*g, shard)->pool_was_empty;
    const int pool_was_empty =
        wh_load_u32_relaxed(pool_was_empty_at) != 0 &&
        (wh_fetch_add_u32_relaxed(&wh_tessera_cursor_at_(*g, shard, c)->tries, 1) & 3) != 0;
    const uint32_t looks = wh_tessera_any_(wh_tessera_pool_(*g)) ? WH_TESSERA_LOOKS : UINT32_MAX;
    if (pool_was_empty && wh_tessera_any_(wh_tessera_partial_list_(*g, c))) {
        grant = wh_tessera_take_partial_(g, shard, c, r, looks);
        if (grant.bits == 0) {
            wh_store_u32_relaxed(pool_was_empty_at, 0);
        }
    }
    if (grant.bits == 0 && wh_tessera_any_(wh_tessera_pool_(*g)) && may_reopen) {
        grant.refills = wh_cas_u64_acq_rel(at, now, WH_TESSERA_UNDER_WAY) == now;
        return grant; /* whoever succeeds is the refiller */
    }
    if (grant.bits == 0 && (!pool_was_empty || looks != UINT32_MAX) &&
        wh_tessera_any_(wh_tessera_partial_list_(*g, c))) {
        grant = wh_tessera_take_partial_(g, shard, c, r, looks);
    }
    if (grant.bits == 0 && wh_tessera_any_(wh_tessera_pool_(*g))) {
        grant = wh_tessera_take_small_(g, shard, c, r);
    }
    if (grant.bits == 0 && packs && wh_tessera_least_(*g, c) != 0 &&
        wh_tessera_any_(wh_tessera_partial_list_(*g, g->n_classes))) {
        grant.at = WH_TESSERA_PACKED;
        return grant;
    }
    if (grant.bits == 0) {
        grant = wh_tessera_steal_(g, shard, c, r);
    }
    if (grant.bits == 0 && grant.at == WH_TESSERA_WAIT) {
        grant.at = WH_TESSERA_NOTHING; /* to be asked */
    }
    return grant;
}

/* Whether attempt_ would look at lists for class c, or soon would; not while others search for all:
 * a lane that waits for that looks at little, since it is in the way of the search. */
WH_FN int wh_tessera_would_take_partial_(wh_tessera_core g, wh_tessera_shard *own_shard, uint32_t c,
                                         int may_reopen) {
    wh_assert_internal(c < g.n_classes);
    const uint64_t now = wh_load_u64_relaxed(&own_shard->cursors[c].span);
    const int pool_was_empty = wh_load_u32_relaxed(&own_shard->pool_was_empty) != 0;
    if (wh_tessera_is_open_(now) || wh_load_u32_relaxed(&wh_tessera_header_(g)->search_lock) != 0) {
        return 0;
    }
    if (wh_tessera_span_first(now) != WH_TESSERA_CLOSED_CHUNK) {
        return pool_was_empty || wh_load_u32_relaxed(&own_shard->home_was_empty) != 0;
    }
    return pool_was_empty || !may_reopen || !wh_tessera_any_(wh_tessera_pool_(g));
}

/* Malloc's slow path of slots, for what await cannot do. All lanes of mask call; `lanes` is the
 * caller's group, attach whether it is the refiller of word `which` of its cursor and has used up
 * the span `last` (or none), p the caller's slot if it has one, c = NO_CLASS for lanes that take no
 * part. The groups of a warp go in steps: none waits while another one works. */
WH_FN_SLOW void *wh_tessera_slow_(const wh_tessera_core *g, wh_mask mask, wh_mask lanes,
                                  uint32_t shard, uint32_t c, int packs, int attach, uint32_t which,
                                  uint64_t last, void *p) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && wh_tessera_in_mask_(lanes) &&
                       (lanes & ~mask) == 0);
    wh_assert_internal(c < g->n_classes || (c == WH_TESSERA_NO_CLASS && !attach));
    wh_assert_internal(which < 2);
    const uint32_t leader = wh_mask_leader(lanes);
    const int leads = wh_lane_id() == leader;
    int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    int may_reopen = 1, may_pack = packs;
    uint64_t number = WH_TESSERA_NO_NUMBER;
    const wh_tessera_class cls = wh_tessera_header_(*g)->classes[c != WH_TESSERA_NO_CLASS ? c : 0];
    /* A million lanes that ask an exhausted heap need not look for what others have not found. */
    wh_tessera_shard *const own_shard = wh_tessera_shard_at_(*g, shard);
    const uint32_t freed =
        wh_load_u32_relaxed(&own_shard->events) + wh_load_u32_relaxed(&own_shard->frees);
    if (wh_any(mask, wh_load_u32_relaxed(&own_shard->oom_seen) == 1 + freed) &&
        wh_tessera_oom_known_(*g, mask, need && !attach, c, packs, number, 1)) {
        wh_add_u64_relaxed(&own_shard->failed, 1);
        need = 0;
    }
    WH_NO_UNROLL
    for (uint32_t attempt = 0; wh_any(mask, need || attach); attempt++) {
        wh_mask needy = wh_ballot(mask, need) & lanes;
        uint32_t r = wh_popc32(needy), rank = wh_mask_rank(needy);
        wh_tessera_grant grant = wh_tessera_make_grant_(WH_TESSERA_WAIT, 0);
        uint64_t claim = 0, span = 0;
        if (attach) { /* a span of some size, or the cursor closes */
            const uint32_t ticket = wh_tessera_begin_take_(*g, shard);
            claim = wh_tessera_claim_span_(g, shard, ticket, wh_tessera_span_order(cls),
                                           wh_tessera_order(cls));
        }
        /* Groups of a full warp first do side by side what each would do for itself. */
        if (mask == WH_FULL_WARP && lanes != mask) {
            const int looks = leads && r != 0 && !attach &&
                              wh_tessera_would_take_partial_(*g, own_shard, c, may_reopen);
            if (wh_any(mask, looks)) {
                const int its = (wh_ballot(mask, looks) & lanes) != 0;
                const wh_tessera_served served = wh_tessera_take_groups_(
                    g, own_shard, lanes, shard, c, need && its, p, attempt + 1);
                p = served.p;
                need = need && p == NULL;
                needy = its ? served.needy : needy;
                r = wh_popc32(needy);
                rank = wh_mask_rank(needy);
            }
        }
        if (!attach && leads && r != 0) {
            grant = wh_tessera_attempt_(g, shard, c, r, may_reopen, may_pack);
        }
        if (wh_any(mask, grant.at == WH_TESSERA_PACKED)) {
            const int packed = wh_shfl_u64(mask, grant.at, leader) == WH_TESSERA_PACKED;
            const wh_tessera_grant packed_grant = wh_tessera_take_packed_(
                g, mask, shard, packed && need ? wh_tessera_least_(*g, c) : 0, attempt);
            const int some = (wh_ballot(mask, packed_grant.bits != 0) & lanes) != 0;
            if (packed_grant.bits != 0) {
                p = wh_tessera_granted_block_(g, packed_grant);
                need = 0;
            }
            if (packed) {
                grant.at = some ? WH_TESSERA_SERVED : WH_TESSERA_WAIT;
                may_pack = some;
            }
        }
        const int asks = grant.at == WH_TESSERA_NOTHING, paused = grant.at == WH_TESSERA_PAUSED;
        if (wh_any(mask, asks || paused)) {
            const int may_search = wh_any(mask, asks) && !wh_any(mask, attach);
            const uint32_t found =
                wh_tessera_none_(g, mask, shard, asks || paused ? c : WH_TESSERA_NO_CLASS, packs,
                                 may_search, &number);
            if (asks || paused) {
                may_pack = packs;
                grant.at = found == WH_TESSERA_NONE ? WH_TESSERA_NOTHING : WH_TESSERA_WAIT;
                if (found > WH_TESSERA_AGAIN) {
                    grant = wh_tessera_take_block_(g, shard, found - 2, wh_tessera_least_(*g, c));
                }
            }
        }
        if (wh_any(mask, attach)) { /* every group that attaches, together */
            span = wh_tessera_make_span_(g, mask, shard, c, claim);
            if (attach) {
                wh_store_u32_relaxed(&wh_tessera_shard_at_(*g, shard)->pool_was_empty, span == 0);
                wh_tessera_hold_(*g, shard, cls, last, span);
                if (span != 0) {
                    wh_tessera_attach_(
                        wh_tessera_shard_at_(*g, shard), c, which, span, r,
                        wh_load_u64_relaxed(wh_tessera_span_at_(*g, shard, c, 1 - which)));
                } else {
                    wh_tessera_publish_(wh_tessera_shard_at_(*g, shard), c, which,
                                        WH_TESSERA_CLOSED, r);
                }
                wh_tessera_end_take_(*g, shard);
                which = 0;
                grant.at = span;
                may_reopen = 0;
            }
            attach = 0;
        }
        if (grant.refills) {
            attach = 1;
            last = grant.at;
        }
        may_reopen &= grant.at != WH_TESSERA_WAIT || attach;
        const int idle = !wh_any(mask, attach || grant.at != WH_TESSERA_WAIT);
        grant.at = wh_shfl_u64(mask, grant.at, leader);
        grant.bits = wh_shfl_u64(mask, grant.bits, leader);
        if (need && grant.bits != 0 && (grant.at & WH_TESSERA_BLOCK) != 0) {
            if (rank == 0) {
                p = wh_tessera_granted_block_(g, grant);
                need = 0;
            }
        } else if (need && grant.bits != 0) {
            p = wh_tessera_granted_slot_(g, cls, grant, rank);
            need = p == NULL;
        } else if (need && grant.at == WH_TESSERA_NOTHING) {
            wh_add_u64_relaxed(&own_shard->failed, 1);
            wh_store_u32_relaxed(&own_shard->oom_seen, 1 + freed);
            need = 0;
        } else if (need && grant.at != WH_TESSERA_WAIT && grant.at != WH_TESSERA_SERVED) {
            p = wh_tessera_nth_(g->base, 1u << g->chunk_log2, cls, grant.at, rank);
            need = p == NULL;
        }
        if (idle) {
            wh_backoff(attempt);
        }
    }
    return p;
}

#include "warpheap/detail/simt/end.h"

#endif

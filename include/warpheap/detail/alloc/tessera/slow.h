/* alloc/tessera/slow.h: the slow path of slots, for lanes whose cursors are closed, in steps of all
 * groups of a warp. Tags: tessera.h.
 */
#ifndef WH_ALLOC_TESSERA_SLOW_H
#define WH_ALLOC_TESSERA_SLOW_H

#include "warpheap/detail/alloc/tessera/search.h"

#include "warpheap/detail/simt/begin.h"

#define WH_TESSERA_LOOKS 8u /* listed slabs to look at while the pool may have chunks */

/* For r lanes that found the cursor of their class used up. packs: whether to ask for those, too.
 */
WH_FN_SLOW wh_tessera_take wh_tessera_attempt_(const wh_tessera_core *g, uint32_t set, uint32_t c,
                                               uint32_t r, int may_reopen, int packs) {
    uint64_t *at = wh_tessera_span_at_(*g, set, c, 0);
    const uint64_t now = wh_load_u64_relaxed(at);
    wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
    if (wh_tessera_is_open_(now)) {
        take.at = wh_fetch_add_u64_acquire(at, r * WH_TESSERA_POSITION); /* P2 */
        take.crosses = wh_tessera_crosses_(take.at, r);
        return take;
    }
    const wh_tessera_set *own = wh_tessera_set_at_(*g, set);
    if (wh_load_u32_relaxed(&wh_tessera_header_(*g)->search_lock) != 0) {
        take.at = WH_TESSERA_PAUSED;
        return take;
    }
    if (wh_tessera_span_first(now) != WH_TESSERA_CLOSED_CHUNK) { /* its crosser is at work, */
        if ((wh_load_u32_relaxed(&own->scarce) | wh_load_u32_relaxed(&own->dry)) != 0 &&
            wh_tessera_any_(wh_tessera_list_(*g, c))) { /* and will be for long */
            take = wh_tessera_take_listed_(g, set, c, r, WH_TESSERA_LOOKS);
        }
        return take;
    }
    /* A span first, since lists hold items of slabs that have gone to the pool; but when the pool
     * had none for the set the last time, the list, until it has such items or the pool a span. */
    uint32_t *dry_at = &wh_tessera_set_at_(*g, set)->dry;
    const int dry =
        wh_load_u32_relaxed(dry_at) != 0 &&
        (wh_fetch_add_u32_relaxed(&wh_tessera_cursor_at_(*g, set, c)->tries, 1) & 3) != 0;
    const uint32_t looks = wh_tessera_any_(wh_tessera_pool_(*g)) ? WH_TESSERA_LOOKS : UINT32_MAX;
    if (dry && wh_tessera_any_(wh_tessera_list_(*g, c))) {
        take = wh_tessera_take_listed_(g, set, c, r, looks);
        if (take.bits == 0) {
            wh_store_u32_relaxed(dry_at, 0);
        }
    }
    if (take.bits == 0 && wh_tessera_any_(wh_tessera_pool_(*g)) && may_reopen) {
        take.crosses = wh_cas_u64_acq_rel(at, now, WH_TESSERA_UNDER_WAY) == now;
        return take; /* whoever succeeds is the crosser */
    }
    if (take.bits == 0 && (!dry || looks != UINT32_MAX) &&
        wh_tessera_any_(wh_tessera_list_(*g, c))) {
        take = wh_tessera_take_listed_(g, set, c, r, looks);
    }
    if (take.bits == 0 && wh_tessera_any_(wh_tessera_pool_(*g))) {
        take = wh_tessera_take_small_(g, set, c, r);
    }
    if (take.bits == 0 && packs && wh_tessera_least_(*g, c) != 0 &&
        wh_tessera_any_(wh_tessera_list_(*g, g->n_classes))) {
        take.at = WH_TESSERA_PACKED;
        return take;
    }
    if (take.bits == 0) {
        take = wh_tessera_steal_(g, set, c, r);
    }
    if (take.bits == 0 && take.at == WH_TESSERA_WAIT) {
        take.at = WH_TESSERA_NOTHING; /* to be asked */
    }
    return take;
}

/* Whether attempt_ would look at lists for class c, or soon would; not while others search for all:
 * who waits for that looks at little, since it is in the way of the search. */
WH_FN int wh_tessera_would_list_(wh_tessera_core g, wh_tessera_set *own, uint32_t c,
                                 int may_reopen) {
    const uint64_t now = wh_load_u64_relaxed(&own->cursors[c].span);
    const int dry = wh_load_u32_relaxed(&own->dry) != 0;
    return wh_tessera_is_open_(now) || wh_load_u32_relaxed(&wh_tessera_header_(g)->search_lock) != 0
               ? 0
           : wh_tessera_span_first(now) != WH_TESSERA_CLOSED_CHUNK
               ? dry || wh_load_u32_relaxed(&own->scarce) != 0
               : dry || !may_reopen || !wh_tessera_any_(wh_tessera_pool_(g));
}

/* The whole of malloc's slow path, for what await cannot do. All lanes of mask call; `lanes`
 * is the caller's group, attach whether it is the crosser of word `which` of its cursor and has
 * used up the span `last` (or none), p the caller's slot if it has one, c = NO_CLASS for lanes that
 * take no part. The groups of a warp go in steps: none waits while another one works. */
WH_FN_SLOW void *wh_tessera_slow_(const wh_tessera_core *g, wh_mask mask, wh_mask lanes,
                                  uint32_t set, uint32_t c, int packs, int attach, uint32_t which,
                                  uint64_t last, void *p) {
    const uint32_t leader = wh_mask_leader(lanes);
    const int leads = wh_lane_id() == leader;
    int need = p == NULL && c != WH_TESSERA_NO_CLASS;
    int may_reopen = 1, may_pack = packs;
    uint64_t number = WH_TESSERA_NO_NUMBER;
    const wh_tessera_class row = wh_tessera_header_(*g)->classes[c != WH_TESSERA_NO_CLASS ? c : 0];
    /* A million lanes that ask a full heap need not look for what others have not found. */
    wh_tessera_set *const own = wh_tessera_set_at_(*g, set);
    const uint32_t freed = wh_load_u32_relaxed(&own->events) + wh_load_u32_relaxed(&own->frees);
    if (wh_any(mask, wh_load_u32_relaxed(&own->told) == 1 + freed) &&
        wh_tessera_is_said_(*g, mask, need && !attach, c, packs, number, 1)) {
        wh_add_u64_relaxed(&own->failed, 1);
        need = 0;
    }
    WH_NO_UNROLL
    for (uint32_t attempt = 0; wh_any(mask, need || attach); attempt++) {
        wh_mask needy = wh_ballot(mask, need) & lanes;
        uint32_t r = wh_popc32(needy), rank = wh_mask_rank(needy);
        wh_tessera_take take = wh_tessera_found_(WH_TESSERA_WAIT, 0);
        uint64_t claim = 0, span = 0;
        if (attach) { /* a span of some size, or the cursor closes */
            const uint32_t ticket = wh_tessera_begin_(*g, set);
            claim = wh_tessera_claim_span_(g, set, ticket, wh_tessera_span_order(row),
                                           wh_tessera_order(row));
        }
        /* Groups of a full warp first do side by side what each would do for itself. */
        if (mask == WH_FULL_WARP && lanes != mask) {
            const int looks =
                leads && r != 0 && !attach && wh_tessera_would_list_(*g, own, c, may_reopen);
            if (wh_any(mask, looks)) {
                const int its = (wh_ballot(mask, looks) & lanes) != 0;
                const wh_tessera_served served =
                    wh_tessera_take_groups_(g, own, lanes, set, c, need && its, p, attempt + 1);
                p = served.p;
                need = need && p == NULL;
                needy = its ? served.needy : needy;
                r = wh_popc32(needy);
                rank = wh_mask_rank(needy);
            }
        }
        if (!attach && leads && r != 0) {
            take = wh_tessera_attempt_(g, set, c, r, may_reopen, may_pack);
        }
        if (wh_any(mask, take.at == WH_TESSERA_PACKED)) {
            const int packed = wh_shfl_u64(mask, take.at, leader) == WH_TESSERA_PACKED;
            const wh_tessera_take taken = wh_tessera_take_packed_(
                g, mask, set, packed && need ? wh_tessera_least_(*g, c) : 0, attempt);
            const int some = (wh_ballot(mask, taken.bits != 0) & lanes) != 0;
            if (taken.bits != 0) {
                p = wh_tessera_block_(g, taken);
                need = 0;
            }
            if (packed) {
                take.at = some ? WH_TESSERA_SERVED : WH_TESSERA_WAIT;
                may_pack = some;
            }
        }
        const int asks = take.at == WH_TESSERA_NOTHING, paused = take.at == WH_TESSERA_PAUSED;
        if (wh_any(mask, asks || paused)) {
            const int may_search = wh_any(mask, asks) && !wh_any(mask, attach);
            const uint32_t found = wh_tessera_none_(
                g, mask, set, asks || paused ? c : WH_TESSERA_NO_CLASS, packs, may_search, &number);
            if (asks || paused) {
                may_pack = packs;
                take.at = found == WH_TESSERA_NONE ? WH_TESSERA_NOTHING : WH_TESSERA_WAIT;
                if (found > WH_TESSERA_AGAIN) {
                    take = wh_tessera_take_block_(g, set, found - 2, wh_tessera_least_(*g, c));
                }
            }
        }
        if (wh_any(mask, attach)) { /* every group that attaches, together */
            span = wh_tessera_make_span_(g, mask, set, c, claim);
            if (attach) {
                wh_store_u32_relaxed(&wh_tessera_set_at_(*g, set)->dry, span == 0);
                wh_tessera_hold_(*g, set, row, last, span);
                if (span != 0) {
                    wh_tessera_attach_(
                        wh_tessera_set_at_(*g, set), c, which, span, r,
                        wh_load_u64_relaxed(wh_tessera_span_at_(*g, set, c, 1 - which)));
                } else {
                    wh_tessera_publish_(wh_tessera_set_at_(*g, set), c, which, WH_TESSERA_CLOSED,
                                        r);
                }
                wh_tessera_end_(*g, set);
                which = 0;
                take.at = span;
                may_reopen = 0;
            }
            attach = 0;
        }
        if (take.crosses) {
            attach = 1;
            last = take.at;
        }
        may_reopen &= take.at != WH_TESSERA_WAIT || attach;
        const int idle = !wh_any(mask, attach || take.at != WH_TESSERA_WAIT);
        take.at = wh_shfl_u64(mask, take.at, leader);
        take.bits = wh_shfl_u64(mask, take.bits, leader);
        if (need && take.bits != 0 && (take.at & WH_TESSERA_BLOCK) != 0) {
            if (rank == 0) {
                p = wh_tessera_block_(g, take);
                need = 0;
            }
        } else if (need && take.bits != 0) {
            p = wh_tessera_taken_(g, row, take, rank);
            need = p == NULL;
        } else if (need && take.at == WH_TESSERA_NOTHING) {
            wh_add_u64_relaxed(&own->failed, 1);
            wh_store_u32_relaxed(&own->told, 1 + freed);
            need = 0;
        } else if (need && take.at != WH_TESSERA_WAIT && take.at != WH_TESSERA_SERVED) {
            p = wh_tessera_nth_(g->base, 1u << g->chunk_log2, row, take.at, rank);
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

/* alloc/circular/gather.h: joins all neighbouring free chunks of the list, which the paper names as
 * future work. One warp does this when searches have found nothing, before NULL. It may change.
 *
 * Fields and who writes them (device scope)
 *   gather   odd while a gather runs: cas; gather_empty: the number of the last one that
 *            joined nothing
 */
#ifndef WH_ALLOC_CIRCULAR_GATHER_H
#define WH_ALLOC_CIRCULAR_GATHER_H

#include "warpheap/detail/alloc/circular/grace.h"
#include "warpheap/detail/alloc/circular/list.h"

#include "warpheap/detail/simt/begin.h"

/* Joins the chunk at u with those behind it, if it is not in use. */
typedef struct wh_circular_run {
    uint32_t next; /* end of the chunk that starts at u */
    uint32_t joined;
} wh_circular_run;

WH_FN wh_circular_run wh_circular_join_(wh_circular_ref h, uint32_t u, int fused) {
    wh_circular_chunk c = wh_circular_read_(h, u, fused);
    wh_circular_run run;
    const uint32_t was = c.flag;
    wh_assert_internal(u < c.next && c.next <= h.units); /* I3 */
    run.next = c.next;
    run.joined = 0;
    if (was == WH_CIRCULAR_USED || !wh_circular_lock_(h, u, &c, fused)) {
        return run;
    }
    run.next = c.next;
    for (uint32_t next = wh_circular_absorb_(h, run.next, fused); next != run.next;
         next = wh_circular_absorb_(h, run.next, fused)) {
        run.next = next;
        run.joined = 1;
    }
    if (run.joined) {
        wh_circular_lead_(h, u, run.next, fused); /* P2 */
        wh_store_u64_relaxed(wh_circular_stamp_at_(h, u), wh_circular_stamp_(h));
        wh_circular_follow_(h, u, run.next);
    }
    wh_circular_let_go_(h, u, run.joined ? (uint32_t)WH_CIRCULAR_LIMBO : was, run.next, fused);
    return run;
}

/* Joins neighbouring free chunks all over the list; whether there were any. All lanes of
 * mask, none counted as active before, each in a share of the units; then the leader sees to
 * the chunks at the shares' ends, which two lanes may have looked at at once. */
WH_FN int wh_circular_gather_(wh_circular_ref h, wh_mask mask, int fused) {
    const uint32_t lanes = wh_popc32(mask), rank = wh_mask_rank(mask);
    const uint32_t leader = wh_mask_leader(mask);
    const uint32_t words = h.units / 32 + 1, share = (words + lanes - 1) / lanes;
    const uint64_t begin = (uint64_t)rank * share * 32, stop = begin + (uint64_t)share * 32;
    const uint32_t end = stop < h.units ? (uint32_t)stop : h.units;
    uint32_t slot = 0, joined = 0, last = h.units;
    if (wh_lane_id() == leader) {
        slot = wh_circular_enter_(h);
    }
    wh_syncwarp(mask);
    for (uint32_t u = begin < end ? wh_circular_skip_(h.map, end, (uint32_t)begin, UINT32_MAX)
                                  : end;
         u < end;) {
        const wh_circular_run run = wh_circular_join_(h, u, fused);
        joined |= run.joined;
        last = run.next >= end ? u : last;
        u = run.next < end ? wh_circular_skip_(h.map, end, run.next, UINT32_MAX) : end;
    }
    wh_syncwarp(mask);
    for (wh_mask left = wh_ballot(mask, last != h.units) & mask; left != 0; left &= left - 1) {
        const uint32_t u = wh_shfl_u32(mask, last, wh_ctz32(left));
        if (wh_lane_id() == leader) {
            joined |= wh_circular_join_(h, u, fused).joined;
        }
    }
    wh_syncwarp(mask);
    if (wh_lane_id() == leader) {
        wh_circular_leave_(h, slot);
    }
    return wh_any(mask, joined != 0);
}

/* What searches that found nothing come to. */
typedef struct wh_circular_verdict {
    uint64_t since; /* gathers up to this one say nothing; UINT64_MAX: not asked yet */
    int none;       /* NULL: a gather after `since` joined nothing */
} wh_circular_verdict;

/* Gathers, or waits until another warp has done so, before which there is no use in searching.
 * All lanes of mask, none counted as active. */
WH_FN wh_circular_verdict wh_circular_give_up_(wh_circular_ref h, wh_mask mask, uint64_t since,
                                               int fused) {
    const uint32_t leader = wh_mask_leader(mask);
    wh_circular_verdict v;
    int gathers = 0, waits = 0;
    uint64_t number = 0;
    v.since = since;
    v.none = 0;
    if (wh_lane_id() == leader) {
        number = wh_load_u64_acquire(&h.state->gather);
        v.since = since == UINT64_MAX ? number : since;
        if (wh_load_u64_acquire(&h.state->gather_empty) > v.since) {
            v.none = 1;
        } else if (number % 2 == 0 &&
                   wh_cas_u64_acq_rel(&h.state->gather, number, number + 1) == number) {
            gathers = 1;
        } else {
            waits = 1;
            number |= 1;
        }
    }
    wh_syncwarp(mask);
    if (wh_any(mask, gathers)) {
        const int joined = wh_circular_gather_(h, mask, fused);
        if (wh_lane_id() == leader) {
            if (!joined) {
                wh_store_u64_release(&h.state->gather_empty, number + 1);
            }
            wh_store_u64_release(&h.state->gather, number + 2);
            v.none = !joined;
        }
    }
    for (uint32_t attempt = 0; wh_any(mask, waits); attempt++) {
        wh_backoff(attempt);
        waits = waits && wh_load_u64_relaxed(&h.state->gather) == number;
    }
    v.since = wh_shfl_u64(mask, v.since, leader);
    v.none = wh_any(mask, v.none);
    return v;
}

#include "warpheap/detail/simt/end.h"

#endif

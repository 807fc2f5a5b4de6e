/* alloc/circular/grace.h: when memory of a merged chunk may be handed out. It may change.
 *
 * The paper: a merge cannot overwrite a header that another thread still reads, "because the
 * allocating thread cannot be stalled for long enough". Nothing holds such a thread to a time
 * limit: a search that has read the offset of a header and is then delayed finds, in its place, the
 * contents of a block of the merged chunk. It takes them for flag and next. tests/fault shows it
 * (tag circular_grace). So here a merged chunk goes to LIMBO. It is handed out only when every
 * search has ended that was under way at the merge. Searches count themselves in and out on one of
 * two sides. A grace period ends when both sides have been seen empty, one after the other, while
 * new searches join the other one (as in sleepable RCU).
 *
 * Fields and who writes them (device scope)
 *   grace    half-steps of grace periods; cas +1, fetch_add 0 for a stamp; acq_rel
 *   active   searches under way, per side; add acq_rel, and release
 * Invariants
 *   I3  memory from a header on is not handed out as part of an earlier chunk while a
 *       search that may have read that header's place is under way. So every
 *       header that a search can reach holds what its last owner put there: from a header
 *       that was in the list after the search began, next leads to another such one.
 * Ordering pairs
 *   P2  merge: map and next are written, then the stamp is taken by a read-modify-write of
 *       grace -> the cas that steps grace on -> read-modify-write of active by a search
 *       that begins later: it finds the list without the merged header
 *   P3  end of a search (release of active) -> the check that a side is empty (acquire) ->
 *       grace (release) -> the lane that takes the LIMBO chunk (acquire of grace)
 */
#ifndef WH_ALLOC_CIRCULAR_GRACE_H
#define WH_ALLOC_CIRCULAR_GRACE_H

#include "warpheap/detail/alloc/circular/layout.h"

#include "warpheap/detail/simt/begin.h"

WH_HD uint32_t wh_circular_side_(uint64_t grace) {
    return (uint32_t)(grace + 1) >> 1 & 1;
}

/* Counts a search in: where it is counted. */
WH_FN uint32_t wh_circular_enter_(wh_circular_ref h) {
    const uint32_t side = wh_circular_side_(wh_load_u64_relaxed(&h.state->grace));
    const uint32_t slot =
        (side * WH_CIRCULAR_SLOTS + wh_sm_id() % WH_CIRCULAR_SLOTS) * WH_CIRCULAR_STRIDE;
    (void)WH_PLANT(circular_p2_enter, wh_fetch_add_u32_acq_rel,
                   wh_fetch_add_u32_relaxed)(&h.state->active[slot], 1); /* P2 */
    return slot;
}

WH_FN void wh_circular_leave_(wh_circular_ref h, uint32_t slot) {
    wh_assert_internal(slot < 2 * WH_CIRCULAR_SLOTS * WH_CIRCULAR_STRIDE);
    wh_assert_expensive(wh_load_u32_relaxed(&h.state->active[slot]) != 0);
    WH_PLANT(circular_p3_leave, wh_add_u32_release, wh_add_u32_relaxed)
    (&h.state->active[slot], ~0u); /* P3 */
}

/* What grace must have reached before memory that was merged just now is handed out: the
 * end of the first grace period that begins from now on. */
WH_FN uint64_t wh_circular_stamp_(wh_circular_ref h) {
    const uint64_t now = WH_PLANT(circular_p2_stamp, wh_fetch_add_u64_acq_rel,
                                  wh_fetch_add_u64_relaxed)(&h.state->grace, 0); /* P2 */
    return ((now + 1) & ~(uint64_t)1) + 2;
}

/* Where a LIMBO chunk keeps its stamp: in memory that nobody reads as a header. */
WH_FN uint64_t *wh_circular_stamp_at_(wh_circular_ref h, uint32_t u) {
    wh_assert_internal(u < h.units);
    return (uint64_t *)(void *)(h.base + ((uint64_t)u << h.unit_log2));
}

/* Steps grace on if the side that is to drain is empty. All lanes of mask together. */
WH_FN void wh_circular_advance_(wh_circular_ref h, wh_mask mask) {
    const uint32_t leader = wh_mask_leader(mask);
    const uint64_t mine = wh_load_u64_acquire(&h.state->grace);
    const uint64_t now = wh_shfl_u64(mask, mine, leader);
    const uint32_t first = (1 - wh_circular_side_(now)) * WH_CIRCULAR_SLOTS;
    uint32_t busy = 0;
    wh_syncwarp(mask);
    for (uint32_t k = wh_mask_rank(mask); k < WH_CIRCULAR_SLOTS; k += wh_popc32(mask)) {
        busy |= WH_PLANT(circular_p2_empty, wh_fetch_or_u32_acq_rel, wh_fetch_or_u32_relaxed)(
            &h.state->active[(first + k) * WH_CIRCULAR_STRIDE], 0); /* P2, P3 */
    }
    busy = (uint32_t)wh_any(mask, busy != 0);
    wh_syncwarp(mask);
    if (!busy && wh_lane_id() == leader) {
        (void)wh_cas_u64_acq_rel(&h.state->grace, now, now + 1); /* P2, P3 */
    }
}

#include "warpheap/detail/simt/end.h"

#endif

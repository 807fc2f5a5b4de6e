/* alloc/circular/grace.h: when memory of a merged chunk may be handed out. */
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
    (void)WH_PLANT_ORDER(circular_p2_enter, wh_fetch_add_u32, acq_rel)(&h.state->active[slot],
                                                                       1); /* P2 */
    return slot;
}

WH_FN void wh_circular_leave_(wh_circular_ref h, uint32_t slot) {
    WH_PLANT_ORDER(circular_p3_leave, wh_add_u32, release)(&h.state->active[slot], ~0u); /* P3 */
}

/* What grace must have reached before memory that was merged just now is handed out: the
 * end of the first grace period that begins from now on. */
WH_FN uint64_t wh_circular_stamp_(wh_circular_ref h) {
    const uint64_t now =
        WH_PLANT_ORDER(circular_p2_stamp, wh_fetch_add_u64, acq_rel)(&h.state->grace, 0); /* P2 */
    return ((now + 1) & ~(uint64_t)1) + 2;
}

/* Where a LIMBO chunk keeps its stamp: in memory that nobody reads as a header. */
WH_FN uint64_t *wh_circular_stamp_at_(wh_circular_ref h, uint32_t u) {
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
        busy |= WH_PLANT_ORDER(circular_p2_empty, wh_fetch_or_u32, acq_rel)(
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

/* lists.c: workloads that find the faults planted in the circular lists, and the faults. */
#include "fault/churn.h"

OTHER_CHURN(cfmalloc_churn, cfmalloc, list, 5)
OTHER_CHURN(cmmalloc_churn, cmmalloc, list, 5)

/* The pair P2 by itself: what a merge writes before its stamp reaches a search that begins when
 * grace has been stepped on. In the list only atomics lie in between, so here plain data does. */
WH_FN void await(const workload_args *a, uint32_t turn) {
    for (uint32_t attempt = 0; wh_load_u32_relaxed(a->semaphore) != turn; attempt++) {
        wh_backoff(attempt);
    }
}

WH_KERNEL(circular_grace_pair, workload_args, a) {
    const uint32_t turn = (uint32_t)wh_block_id();
    await(&a, turn);
    if (turn == 0) { /* merges */
        a.data[0] = 1;
        (void)wh_circular_stamp_(a.list);
    } else if (turn == 1) { /* ends a grace period */
        wh_circular_advance_(a.list, 1u << wh_lane_id());
        wh_circular_advance_(a.list, 1u << wh_lane_id());
    } else { /* searches */
        const uint32_t slot = wh_circular_enter_(a.list);
        wh_add_u32_relaxed(&a.found->lost, a.data[0] != 1);
        wh_circular_leave_(a.list, slot);
    }
    wh_store_u32_relaxed(a.semaphore, turn + 1);
}

/* --- the suite -------------------------------------------------------------------------------- */

#define LIST(name, above)                                                             \
    .allocator = (name), .make = make_above, .handle_bytes = sizeof(wh_circular_ref), \
    .bytes = (above)

static const workload workloads[] = {
    {"circular-grace", circular_grace_pair, NULL, 3, 1, 0, LIST("cfmalloc", 2500)},
    {"cfmalloc-churn", cfmalloc_churn, NULL, 8, 2, 60, .least = 2, LIST("cfmalloc", 2500)},
    {"cmmalloc-churn", cmmalloc_churn, NULL, 8, 2, 60, .least = 2, LIST("cmmalloc", 2500)},
    {.name = NULL},
};

static const fault faults[] = {
    {"circular_grace", "cfmalloc-churn", EVERYWHERE},   /* the paper's merge: nobody waits */
    {"circular_hint", "cmmalloc-churn", EVERYWHERE},    /* another SM's offset is not validated */
    {"circular_i5_free", "cfmalloc-churn", EVERYWHERE}, /* a free one that the map has as in use */
    {"circular_p1_read", "cfmalloc-churn", UNDER_TSAN},
    {"circular_p1_write", "cfmalloc-churn", UNDER_TSAN},
    {"circular_p1_lanes", "cfmalloc-churn", UNDER_TSAN},
    {"circular_p1_pieces", "cfmalloc-churn", UNDER_TSAN},
    {"circular_p2_stamp", "circular-grace", UNDER_TSAN},
    {"circular_p2_empty", "circular-grace", UNDER_TSAN},
    {"circular_p2_enter", "circular-grace", UNDER_TSAN},
    {"circular_p3_leave", "cfmalloc-churn", UNDER_TSAN},
    {"circular_p3_take", "cfmalloc-churn", UNDER_TSAN},
    {"circular_p4_add", "cfmalloc-churn", UNDER_TSAN},
    {"circular_p4_skip", "cfmalloc-churn", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_lists = {"lists", workloads, faults, 5000000};

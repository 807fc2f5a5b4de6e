/* heaps.c: workloads that find the faults planted in fdgmalloc, bulk and kma, and the faults. */
#include "fault/churn.h"

OTHER_CHURN(bulk_churn, bulk, tree, 8)
OTHER_CHURN(kma_churn, kma, superblocks, 5)

/* The lanes of a warp ask for slots of several bins at once. */
WH_KERNEL(bulk_together, workload_args, a) {
    const uint64_t i = wh_thread_id();
    const wh_mask warp = WH_FULL_WARP >> (WH_WARP_SIZE - wh_block_threads());
    uint32_t random = a.seed * 7919u + wh_block_id() * 104729u + 1u; /* one for all lanes */
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint64_t words = (uint64_t)a.least << next(&random) % 3;
        uint64_t *p = (uint64_t *)wh_bulk_malloc(a.tree, warp, words * 8);
        if (p != NULL) {
            mark(p, words, i << 32);
        }
        if (p != NULL && !is_marked(p, words, i << 32)) {
            wh_add_u32_relaxed(&a.found->overlaps, 1);
        }
        wh_bulk_free(a.tree, warp, p);
    }
}

/* --- fdgmalloc ---------------------------------------------------------------------------------
 */

#define AT_ONCE 4u

/* Each round the lanes of a warp take blocks, apart, and then free all of them together; or, with
 * `holds` 0, nobody frees, and all warps have one header. */
WH_KERNEL(fdgmalloc_rounds, workload_args, a) {
    const uint64_t i = wh_thread_id();
    const wh_mask warp = WH_FULL_WARP >> (WH_WARP_SIZE - wh_block_threads());
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    for (uint32_t round = 0; round < a.steps; round++) {
        uint64_t *held[AT_ONCE];
        uint64_t words[AT_ONCE];
        const uint32_t n = next(&random) % (AT_ONCE + 1);
        for (uint32_t k = 0; k < n; k++) {
            words[k] = (uint64_t)a.least << next(&random) % 5;
            held[k] = (uint64_t *)wh_fdgmalloc_malloc(a.warps, lanes_at_malloc(), words[k] * 8);
            wh_add_u32_relaxed(&a.found->nulls, held[k] == NULL);
            if (held[k] != NULL) {
                mark(held[k], words[k], (i << 32) + ((uint64_t)k << 16));
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            const int good =
                held[k] == NULL || is_marked(held[k], words[k], (i << 32) + ((uint64_t)k << 16));
            wh_add_u32_relaxed(&a.found->overlaps, !good);
        }
        if (a.holds) {
            wh_fdgmalloc_tidy_up(a.warps, warp);
        }
    }
}

WH_KERNEL(fdgmalloc_end, workload_args, a) {
    if (wh_block_id() == 0) { /* of the one header */
        wh_fdgmalloc_tidy_up(a.warps, WH_FULL_WARP >> (WH_WARP_SIZE - wh_block_threads()));
    }
}

/* --- the suite -------------------------------------------------------------------------------- */

#define FDGMALLOC(above, n_warps)                                                           \
    .allocator = "fdgmalloc", .make = make_above, .handle_bytes = sizeof(wh_fdgmalloc_ref), \
    .bytes = (above), .may_fail = 1, .options = {{"superblock_bytes", 256}, {"warps", (n_warps)}}

#define BULK(above)                                                               \
    .allocator = "bulk", .make = make_above, .handle_bytes = sizeof(wh_bulk_ref), \
    .bytes = (above), .options = {{"chunk_bins", 4}}

#define KMA(above)                                                                                \
    .allocator = "kma", .make = make_above, .handle_bytes = sizeof(wh_kma_ref), .bytes = (above), \
    .options = {{"superblock_bytes", 256}}

static const workload workloads[] = {
    {"fdgmalloc-rounds", fdgmalloc_rounds, NULL, 4, 8, 12, .least = 2, .holds = 1,
     FDGMALLOC(60 * 272, 4)},
    {"fdgmalloc-shared", fdgmalloc_rounds, fdgmalloc_end, 8, 2, 6, .least = 2,
     FDGMALLOC(100 * 272, 1)},
    {"bulk-small", bulk_churn, NULL, 6, 6, 40, .least = 2, BULK(20000)},
    {"bulk-large", bulk_churn, NULL, 6, 3, 40, .least = 64, BULK(100000)},
    {"bulk-together", bulk_together, NULL, 6, 6, 20, .least = 64, .may_fail = 1, BULK(60000)},
    {"kma-churn", kma_churn, NULL, 6, 6, 40, .least = 2, KMA(7000)},
    {.name = NULL},
};

static const fault faults[] = {
    {"fdgmalloc_i1", "fdgmalloc-shared",
     EVERYWHERE}, /* a cas that failed passes for one that won */
    {"fdgmalloc_i2", "fdgmalloc-shared", EVERYWHERE}, /* a super block too much is not given back */
    {"fdgmalloc_p1_tidy", "fdgmalloc-rounds", UNDER_TSAN},
    {"fdgmalloc_p1_lanes", "fdgmalloc-rounds", UNDER_TSAN},
    {"fdgmalloc_p2", "fdgmalloc-rounds", UNDER_TSAN},
    {"bulk_i1", "bulk-together", EVERYWHERE}, /* fresh nodes that were taken by half are lost */
    {"bulk_i2", "bulk-large", EVERYWHERE},    /* buddies are not merged */
    {"bulk_i3", "bulk-small", EVERYWHERE},    /* fresh nodes that went back are counted still */
    {"bulk_i4", "bulk-small", EVERYWHERE},    /* a bin that has free slots again is not listed */
    {"bulk_p1_merge", "bulk-large", UNDER_TSAN},
    {"bulk_p1_claim", "bulk-small", UNDER_TSAN},
    {"bulk_p1_free", "bulk-small", UNDER_TSAN},
    {"bulk_p1_lanes", "bulk-small", UNDER_TSAN},
    {"bulk_p1_sync", "bulk-small", UNDER_TSAN},
    {"kma_i2", "kma-churn", EVERYWHERE}, /* an empty superblock is lost */
    {"kma_p1_find", "kma-churn", UNDER_TSAN},
    {"kma_p1_free", "kma-churn", UNDER_TSAN},
    {"kma_p1_lanes", "kma-churn", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_heaps = {"heaps", workloads, faults, 5000000};

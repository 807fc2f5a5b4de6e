/* reserve.c: workloads that find the faults planted in alloc/tessera/reserve.h. */
#define WH_ALLOCATOR tessera

#include "fault/fault.h"

#include <string.h>

#include "warpheap/warpheap.h"

#define UNITS 80u /* of 4 chunks of 1 KiB: the words of all are more than a page */

/* The heap of the run that is under way. */
static wh_heap *reserved;

/* All lanes have a few blocks at a time, as many as they get, and verify them. Odd steps: some keep
 * theirs (kinds), which `give` verifies and frees. */
WH_KERNEL(hold, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    uint64_t *p[4] = {NULL, NULL, NULL, NULL};
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t pick = next(&random), k = pick % 4, n = pick / 4 % 2 == 0 ? a.least : a.most;
        if (p[k] != NULL) {
            wh_add_u32_relaxed(&a.found->overlaps, p[k][0] != i << 8 || p[k][1] != k);
            wh_free(a.heap, p[k]);
        }
        p[k] = (uint64_t *)wh_malloc(a.heap, n);
        if (p[k] != NULL) {
            p[k][0] = i << 8;
            p[k][1] = k;
        }
    }
    for (uint32_t k = 0; k < 4; k++) {
        const int keeps = a.kinds != 0 && k == 0 && i % a.kinds == 0;
        a.kept[i * 4 + k] = keeps ? (void *)p[k] : NULL;
        if (!keeps) {
            wh_free(a.heap, p[k]);
        }
    }
}

WH_KERNEL(give, workload_args, a) {
    const uint64_t i = wh_thread_id();
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t *p = (uint64_t *)a.kept[i * 4 + k];
        if (p != NULL) {
            wh_add_u32_relaxed(&a.found->overlaps, p[0] != i << 8 || p[1] != k);
            wh_free(a.heap, p);
        }
    }
}

/* As if a free had come late, free chunks are on the lists of their classes (slab.h I6). */
WH_KERNEL(list_late, workload_args, a) {
    const wh_tessera_core g = *wh_tessera_core_of_(a.heap);
    for (uint32_t chunk = (uint32_t)wh_thread_id(); chunk < wh_tessera_top_(g); chunk += 7) {
        if (wh_veb_contains(wh_tessera_pool_(g), chunk)) {
            wh_tessera_add_partial_(g, chunk % g.n_small, chunk);
        }
    }
}

static wh_status extent(uint64_t *mapped) {
    return wh_heap_extent(reserved, mapped, NULL, NULL);
}

/* Churn, trim, extend and churn, with live blocks; in the end without, of a heap with holes. */
static wh_status trimmed(const wh_launch *l, const workload_args *a) {
    uint64_t given = 0, mapped = 0;
    wh_status s = WH_OK;
    for (uint32_t turn = 0; turn < 3 && s == WH_OK; turn++) {
        s = hold(l, a);
        s = s == WH_OK ? list_late(l, a) : s;
        s = s == WH_OK ? wh_heap_trim(reserved, 0, &given) : s;
        s = s == WH_OK ? wh_heap_check(reserved, NULL) : s;
        s = s == WH_OK ? give(l, a) : s;
        s = s == WH_OK ? extent(&mapped) : s;
        s = s == WH_OK ? wh_heap_extend(reserved, given) : s;
    }
    s = s == WH_OK ? wh_heap_trim(reserved, mapped / 2, NULL) : s;
    return s;
}

/* Units leave the heap as for a trim, and stay mapped. Then warp 0 publishes them, while the other
 * warps allocate and free in what there is. */
WH_KERNEL(withdraw_all, workload_args, a) {
    wh_reserve_step step;
    memset(&step, 0, sizeof step);
    step.kind = WH_RESERVE_WITHDRAW;
    step.first = 1;
    step.n = a.holds;
    wh_tessera_reserve_step(a.heap, &step, wh_thread_id(), wh_grid_threads());
}

WH_FN void publish_units(wh_tessera_ref heap, uint32_t n) {
    wh_reserve_step step;
    memset(&step, 0, sizeof step);
    step.kind = WH_RESERVE_PUBLISH;
    for (uint32_t unit = 0; unit < n; unit++) {
        step.first = 1 + unit;
        step.n = 1;
        wh_tessera_reserve_step(heap, &step, wh_lane_id(), WH_WARP_SIZE);
    }
}

/* A block of a new unit has the size that its tag says, and is one lane's. */
WH_KERNEL(publish_beside, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    if (wh_block_id() == 0) {
        publish_units(a.heap, a.holds);
        return;
    }
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t n = next(&random) % 2 == 0 ? a.least : a.most;
        uint64_t *p[3];
        for (uint32_t k = 0; k < 3; k++) {
            p[k] = (uint64_t *)wh_malloc(a.heap, n);
            if (p[k] != NULL) {
                p[k][0] = (i << 16) + step;
                p[k][n / 8 - 1] = (i << 16) + step;
            }
        }
        for (uint32_t k = 0; k < 3; k++) {
            if (p[k] != NULL) {
                const uint64_t size = wh_usable_size(a.heap, p[k]);
                wh_add_u32_relaxed(&a.found->overlaps, size < n || size > 2 * n ||
                                                           p[k][0] != (i << 16) + step ||
                                                           p[k][n / 8 - 1] != (i << 16) + step);
                wh_free(a.heap, p[k]);
            }
        }
    }
}

static wh_status published(const wh_launch *l, const workload_args *a) {
    const wh_status s = withdraw_all(l, a);
    return s == WH_OK ? publish_beside(l, a) : s;
}

static wh_status make(const workload *w, uint64_t seed, wh_heap_options *o, wh_any_options *own,
                      wh_heap **heap) {
    (void)seed, (void)own;
    o->reserve_bytes = UNITS * 4096 + 65536;
    wh_status s = wh_heap_min_bytes(o, &o->bytes);
    s = s == WH_OK ? wh_heap_create(heap, o) : s;
    s = s == WH_OK ? wh_heap_extend(*heap, (uint64_t)(w->pieces - 1) * 4096) : s;
    reserved = *heap;
    return s;
}

#define HEAP(units)                                                               \
    .allocator = "tessera", .make = make, .handle_bytes = sizeof(wh_tessera_ref), \
    .pieces = (units), .options = {{"chunk_bytes", 1024}, {"shards", 1}}

static const workload workloads[] = {
    {"reserve-trimmed", trimmed, NULL, 2, 32, 30, 64, 1024, .kinds = 9, .may_fail = 1,
     HEAP(UNITS - 4)},
    {"reserve-published", published, NULL, 3, 32, 12, 64, 256, .holds = 30, .may_fail = 1,
     HEAP(31)},
    {.name = NULL},
};

static const fault faults[] = {
    {"tessera_i9_survey", "reserve-trimmed", EVERYWHERE},    /* units with blocks are given back */
    {"tessera_i9_tag", "reserve-trimmed", EVERYWHERE},       /* absent chunks that look free */
    {"tessera_i9_list", "reserve-trimmed", EVERYWHERE},      /* ... that lists lead to */
    {"tessera_i9_hint", "reserve-trimmed", EVERYWHERE},      /* ... or hints */
    {"tessera_p11_insert", "reserve-published", EVERYWHERE}, /* in the pool before they are ready */
    {"tessera_p11_sync", "reserve-published", EVERYWHERE},   /* ... for the lanes with it */
    {NULL, NULL, EVERYWHERE},
};

const suite fault_reserve = {"reserve", workloads, faults, 20000000, .seeds = 120};

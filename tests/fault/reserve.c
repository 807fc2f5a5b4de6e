/* reserve.c: workloads that find the faults planted in alloc/tessera/reserve.h. */
#define WH_ALLOCATOR tessera

#include "fault/fault.h"

#include <string.h>

#include "host/device_internal.h"
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

/* --- growth while lanes run --------------------------------------------------------------------
 */

/* A device that has no memory left, while `refuses`. */
static struct {
    whi_device_ops with;
    const whi_device_ops *ops;
    int refuses; /* atomic: lanes store it while the host maps */
} back;

/* A plain store: who uses the unit without having been told that it is there has a race. */
static wh_status try_map(wh_device *d, void *at, uint64_t bytes, uint64_t piece) {
    const int refuses = __atomic_load_n(&back.refuses, __ATOMIC_RELAXED);
    const wh_status s = refuses ? WH_OUT_OF_MEMORY : back.ops->map(d, at, bytes, piece);
    for (uint64_t k = 0; k < bytes && s == WH_OK; k += piece) {
        memset((unsigned char *)at + k, 0, 64);
    }
    return s;
}

static void allow_map(void) {
    __atomic_store_n(&back.refuses, 0, __ATOMIC_RELAXED);
}

/* One lane takes what there is, until NULL, which the host has said to it; and frees it. */
WH_FN void *use_up(workload_args a) {
    void *last = NULL;
    for (void **p = NULL; (p = (void **)wh_malloc(a.heap, a.most)) != NULL; last = p) {
        *p = last;
    }
    return last;
}
WH_FN void give_back(workload_args a, void *last) {
    while (last != NULL) {
        void *p = last;
        last = *(void **)p;
        wh_free(a.heap, p);
    }
}

/* Looks for the lanes until so many have ended. */
WH_FN void play_host(const uint32_t *stage, uint32_t end) {
    while (wh_load_u32_acquire(stage) != end) {
        (void)wh_heap_growth_poll(reserved);
        wh_backoff(1);
    }
}

/* All lanes together want what the heap may have, each time. */
WH_FN void want_all(workload_args a) {
    const uint64_t i = wh_thread_id();
    for (uint32_t step = 0; step < a.steps; step++) {
        uint64_t *p[4];
        for (uint32_t k = 0; k < 4; k++) {
            p[k] = (uint64_t *)wh_malloc(a.heap, a.most);
            if (p[k] == NULL) {
                wh_add_u32_relaxed(&a.found->nulls, 1);
            } else {
                p[k][0] = p[k][a.most / 8 - 1] = i << 8 | k;
            }
        }
        uint32_t *const full = a.semaphore + 1 + step;
        wh_add_u32_release(full, 1);
        while (wh_load_u32_acquire(full) != (wh_grid_blocks() - 1) * wh_block_threads()) {
            wh_backoff(4);
        }
        for (uint32_t k = 0; k < 4; k++) {
            if (p[k] != NULL) {
                wh_add_u32_relaxed(&a.found->overlaps,
                                   p[k][0] != (i << 8 | k) || p[k][a.most / 8 - 1] != (i << 8 | k));
                wh_free(a.heap, p[k]);
            }
        }
    }
}

/* Lane 0 is the host. One of block 1 comes first. */
WH_KERNEL(grow_beside, workload_args, a) {
    uint32_t *const stage = a.semaphore;
    const uint32_t others = (wh_grid_blocks() - 1) * wh_block_threads();
    if (wh_block_id() == 0) {
        if (wh_lane_id() == 0) {
            play_host(stage, 1 + others);
        }
        return;
    }
    if (wh_block_id() == 1 && wh_lane_id() == 0) {
        void *all = use_up(a);
        allow_map(); /* from now on there is memory for all */
        give_back(a, all);
        wh_add_u32_release(stage, 1);
    }
    while (wh_load_u32_acquire(stage) == 0) {
        wh_backoff(4);
    }
    want_all(a);
    wh_add_u32_release(stage, 1);
}

/* The last unit is long on its way, with lane 1. The others, who have seen the heap full before,
 * wait for it: the host has no more. kinds: they may have begun to wait before. */
WH_FN void take_last(workload_args a, uint32_t *stage) {
    wh_tessera_header *header = wh_tessera_header_(a.heap.core);
    const wh_tessera_core *g = wh_tessera_core_of_(a.heap);
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, 0);
    wh_tessera_awaited wait = {1, 1, wh_load_u32_relaxed(&header->growing.asked) + 1, 0, 0, 0};
    uint32_t over = 0;
    while (wait.row == 0 && over == 0) {
        over = wh_tessera_look_for_host_(*g, own, &wait);
        wh_backoff(2);
    }
    if (wait.row == 0) { /* one of the others has it */
        return;
    }
    wh_store_u32_relaxed(&stage[1], 1);
    for (uint32_t k = a.seed * 37 % 101 * 4; k != 0; k--) {
        wh_backoff(0);
    }
    wh_tessera_put_row_(g, (wh_mask)1 << wh_lane_id(), wait.row);
    WH_PLANT(tessera_i10_take, wh_tessera_end_take_(own), (void)0);
}

WH_KERNEL(wait_for_last, workload_args, a) {
    uint32_t *const stage = a.semaphore;
    const uint32_t others = wh_grid_blocks() - 2;
    if (wh_block_id() == 0) {
        play_host(stage, 2 * others + 1);
    } else if (wh_block_id() == 1) {
        while (wh_load_u32_acquire(stage) < others) {
            wh_backoff(4);
        }
        allow_map();
        take_last(a, stage);
        wh_add_u32_release(stage, 1);
    } else {
        void *all = use_up(a);
        if (a.kinds != 0) {
            allow_map();
        }
        wh_add_u32_release(stage, 1);
        while (a.kinds == 0 && wh_load_u32_relaxed(&stage[1]) == 0) {
            wh_backoff(2);
        }
        void *p = wh_malloc(a.heap, a.most);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_free(a.heap, p);
        give_back(a, all);
        wh_add_u32_release(stage, 1);
    }
}

static wh_status grown_by(const wh_launch *l, const workload_args *a, launcher kernel) {
    wh_growth_options o;
    memset(&o, 0, sizeof o);
    uint64_t mapped = 0;
    wh_status s = extent(&mapped);
    o.max_bytes = mapped + (uint64_t)a->holds * 4096;
    o.step_bytes = (1 + a->seed % 3) * 4096;
    o.ahead_bytes = 1;
    o.wait_us = 1000000;
    o.no_thread = 1;
    s = s == WH_OK ? wh_heap_growth_start(reserved, &o) : s;
    back.ops = l->device->ops;
    back.with = *back.ops;
    back.with.map = try_map;
    back.refuses = 1;
    l->device->ops = &back.with;
    s = s == WH_OK ? kernel(l, a) : s;
    l->device->ops = back.ops;
    const wh_status sound = wh_heap_check(reserved, NULL);
    const wh_status last = wh_heap_growth_stop(reserved);
    s = s == WH_OK ? sound : s;
    return s == WH_OK ? last : s;
}

static wh_status grown(const wh_launch *l, const workload_args *a) {
    return grown_by(l, a, grow_beside);
}
static wh_status taken(const wh_launch *l, const workload_args *a) {
    return grown_by(l, a, wait_for_last);
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
    /* 2 warps, 4 blocks a lane: 64 chunks are 16 units. */
    {"reserve-grown", grown, NULL, 3, 32, 2, 64, 256, .holds = 15, HEAP(1)},
    {"reserve-grown-runs", grown, NULL, 2, 8, 2, 64, 2048, .holds = 15, HEAP(1)},
    /* Into units whose words are mapped with them. */
    {"reserve-grown-far", grown, NULL, 2, 32, 1, 64, 3072, .holds = 14, .may_fail = 1, HEAP(62)},
    {"reserve-taken", taken, NULL, 5, 1, 1, 64, 256, .holds = 1, HEAP(1)},
    {"reserve-taken-beside", taken, NULL, 3, 1, 1, 64, 2048, .holds = 1, .kinds = 1, HEAP(1)},
    {"reserve-taken-runs", taken, NULL, 4, 1, 1, 64, 2048, .holds = 1, HEAP(1)},
    {.name = NULL},
};

static const fault faults[] = {
    {"tessera_i9_survey", "reserve-trimmed", EVERYWHERE},    /* units with blocks are given back */
    {"tessera_i9_tag", "reserve-trimmed", EVERYWHERE},       /* absent chunks that look free */
    {"tessera_i9_list", "reserve-trimmed", EVERYWHERE},      /* ... that lists lead to */
    {"tessera_i9_hint", "reserve-trimmed", EVERYWHERE},      /* ... or hints */
    {"tessera_p11_insert", "reserve-published", EVERYWHERE}, /* in the pool before they are ready */
    {"tessera_p11_sync", "reserve-published", EVERYWHERE},   /* ... for the lanes with it */
    {"tessera_p11_top", "reserve-grown", EVERYWHERE},        /* ... above what searches look at */
    {"tessera_p12_lanes", "reserve-grown-far", UNDER_TSAN},
    {"tessera_i10_take", "reserve-taken", EVERYWHERE}, /* units on their way that nobody knows of */
    {"tessera_i10_units", "reserve-grown", EVERYWHERE}, /* ... that two lanes take */
    {"tessera_x4_number", "reserve-grown", EVERYWHERE}, /* what the host has said to others */
    {"tessera_x4_never", "reserve-grown", EVERYWHERE},  /* ... until there is more */
    {"tessera_i10_event", "reserve-taken-runs", EVERYWHERE},
    {"tessera_x4_run", "reserve-taken-beside",
     EVERYWHERE}, /* ... and others have given back since */
    {NULL, NULL, EVERYWHERE},
};

const suite fault_reserve = {"reserve", workloads, faults, 20000000, .seeds = 120};

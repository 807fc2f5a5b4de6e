/* gallatin.c: workloads that find the faults planted in Gallatin, and the faults. */
#define WH_ALLOCATOR gallatin

#include "fault/churn.h"
#include "warpheap/warpheap.h"

/* Few segments, many classes: blocks and segments change hands and classes all the time.
 * Every word of a block is written by its owner and verified before the free. */
WH_KERNEL(class_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint32_t random = a.seed * 7919u + (uint32_t)i * 104729u + 1u;
    uint64_t *held[2] = {NULL, NULL};
    uint64_t words[2] = {0, 0};
    for (uint32_t step = 0; step < a.steps; step++) {
        const uint32_t s = next(&random) % 2;
        if (held[s] != NULL) {
            if (!is_marked(held[s], words[s], (i << 32) + ((uint64_t)s << 16))) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
            wh_free(a.gallatin, held[s]);
            held[s] = NULL;
        } else {
            words[s] = (uint64_t)a.least << next(&random) % 5;
            held[s] = (uint64_t *)wh_malloc(a.gallatin, words[s] * 8);
            if (held[s] != NULL) {
                mark(held[s], words[s], (i << 32) + ((uint64_t)s << 16));
            }
        }
    }
    wh_free(a.gallatin, held[0]);
    wh_free(a.gallatin, held[1]);
}

/* As many lanes as blocks, each with one block at a time: no malloc may fail (X1). */
WH_KERNEL(never_null, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_malloc(a.gallatin, 64);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_free(a.gallatin, p);
    }
}

/* Two lanes, two segments: one lane's slices are now in this segment and now in that, so
 * that one segment is idle at each moment, but not always the same (X1). */
WH_KERNEL(switch_churn, workload_args, a) {
    for (uint32_t step = 0; step < a.steps; step++) {
        void *p = wh_malloc(a.gallatin, wh_thread_id() == 0 ? 1024 : (uint64_t)16 << step % 2);
        wh_add_u32_relaxed(&a.found->nulls, p == NULL);
        wh_free(a.gallatin, p);
    }
}

/* Half of the lanes cycle small slices through the buffers, the others ask for whole
 * segments, find none, and so look for idle blocks all the time. */
WH_KERNEL(detach_churn, workload_args, a) {
    const uint64_t i = wh_thread_id();
    uint64_t *held = NULL;
    for (uint32_t step = 0; step < a.steps; step++) {
        if (i % 2 == 0) {
            wh_free(a.gallatin, wh_malloc(a.gallatin, 64));
        } else if (held == NULL) {
            held = (uint64_t *)wh_malloc(a.gallatin, 16);
            if (held != NULL) {
                mark(held, 2, i << 32);
            }
        } else {
            if (!is_marked(held, 2, i << 32)) {
                wh_add_u32_relaxed(&a.found->overlaps, 1);
            }
            wh_free(a.gallatin, held);
            held = NULL;
        }
    }
    wh_free(a.gallatin, held);
}

/* --- the suite -------------------------------------------------------------------------------- */

/* Segments of 1 KiB, blocks of 4 slices: every boundary is near. Or segments of 64 bytes, blocks of
 * two slices. */
#define SMALL 1024, 4
#define TINY 64, 2

/* The least heap has one segment. */
static wh_status make(const workload *w, uint64_t seed, wh_heap_options *o, wh_any_options *own,
                      wh_heap **heap) {
    (void)seed, (void)own;
    const wh_status s = wh_heap_min_bytes(o, &o->bytes);
    o->bytes += (w->pieces - 1) * (w->options[0].value + sizeof(wh_gallatin_segment) + 128);
    return s == WH_OK ? wh_heap_create(heap, o) : s;
}

#define HEAP_(segments, bytes_of_each, slices)                                      \
    .allocator = "gallatin", .make = make, .handle_bytes = sizeof(wh_gallatin_ref), \
    .pieces = (segments),                                                           \
    .options = {{"segment_bytes", (bytes_of_each)}, {"slices_per_block", (slices)}}
#define HEAP(...) HEAP_(__VA_ARGS__)

static const workload workloads[] = {
    {"slice-churn", class_churn, NULL, 6, 3, 60, .least = 2, HEAP(8, SMALL)}, /* 16..256 bytes */
    {"block-churn", class_churn, NULL, 8, 1, 60, .least = 8, HEAP(2, SMALL)}, /* 64..1024 bytes */
    {"never-null", never_null, NULL, 32, 1, 24, HEAP(2, SMALL)},
    {"hint-churn", class_churn, NULL, 6, 3, 60, .least = 2, HEAP(10, SMALL)},
    {"switch-churn", switch_churn, NULL, 2, 1, 300, HEAP(2, SMALL), .stint = 8},
    {"detach-churn", detach_churn, NULL, 8, 1, 1000, HEAP(1, TINY), .stint = 20},
    {.name = NULL},
};

static const fault faults[] = {
    {"gallatin_h1", "hint-churn", EVERYWHERE},       /* the same for a segment's hint */
    {"gallatin_s1", "block-churn", EVERYWHERE},      /* stale-tree check left out */
    {"gallatin_x1", "never-null", EVERYWHERE},       /* NULL without a quiet search */
    {"gallatin_moves", "switch-churn", EVERYWHERE},  /* ... or without a second look at slices */
    {"gallatin_detach", "detach-churn", EVERYWHERE}, /* a block in use taken for an idle one */
    {"gallatin_p1_free", "slice-churn", UNDER_TSAN},
    {"gallatin_p1_last", "slice-churn", UNDER_TSAN},
    {"gallatin_p1_lanes", "slice-churn", UNDER_TSAN},
    {"gallatin_p2_give", "slice-churn", UNDER_TSAN},
    {"gallatin_p2_take", "slice-churn", UNDER_TSAN},
    {"gallatin_p3_publish", "slice-churn", UNDER_TSAN},
    {"gallatin_p3_claim", "slice-churn", UNDER_TSAN},
    {"gallatin_p3_lanes", "slice-churn", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_gallatin = {"gallatin", workloads, faults, 5000000};

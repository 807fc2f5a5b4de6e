/* warp.h: what each warp of a build has for itself in shared memory, and its calls of the heap.
 * Included by kdtree_kernels.c.
 *
 * W1      kd_own: of one warp. bins: its lanes, by shared atomics, between barriers of the warp;
 *         all else lane 0 alone, but bottom, top and n_small, which all lanes read between two
 *         barriers
 */
#ifndef WHI_KDTREE_WARP_H
#define WHI_KDTREE_WARP_H

#include "kdtree.h"

typedef struct kd_own {
    uint32_t bins[WHI_KD_BIN_WORDS];
    whi_kd_tally tally;
    uint64_t promised;            /* leaves.h */
    uint32_t next_node, node_end; /* leaves.h */
    uint32_t bottom, top;         /* queue.h: tasks that have been on its stack's ends */
    uint32_t n_small, unused;     /* group.h: tasks on its stack of small ones */
    whi_kd_task *stack, *small;   /* these do not change: they are here to have registers free */
    uint32_t *kept;               /* alone.h: bins */
} kd_own;

/* What a warp works with. */
typedef struct kd_warp {
    const whi_kdtree *k;
    kd_own *own;
} kd_warp;

WH_FN int is_first_lane(void) {
    return wh_lane_id() == 0;
}

WH_FN_SLOW void *heap_take(const wh_heap_ref *heap, uint64_t bytes) {
    return wh_malloc(*heap, bytes);
}

WH_FN_SLOW void heap_give(const wh_heap_ref *heap, void *p) {
    wh_free(*heap, p);
}

/* The same for each lane of the warp that asks for bytes, or gives a block that is not NULL. All
 * lanes: together they ask once for each size, and stay together. */
WH_FN_SLOW void *heap_take_each(const wh_heap_ref *heap, uint64_t bytes) {
    return wh_malloc_lanes(*heap, WH_FULL_WARP, bytes);
}

WH_FN_SLOW void heap_give_each(const wh_heap_ref *heap, void *p) {
    wh_free_lanes(*heap, WH_FULL_WARP, p);
}

WH_FN uint64_t array_bytes(uint32_t n) {
    return ((uint64_t)n * 4 + 15) & ~(uint64_t)15;
}

/* An array of n references has been taken. Lane 0. */
WH_FN void count_array(kd_own *own, uint32_t n) {
    const uint64_t bytes = array_bytes(n);
    own->tally.requests += WH_PLANT(warp_requests, 1, 0);
    own->tally.bytes += WH_PLANT(warp_bytes, bytes, (uint64_t)n * 4);
    own->tally.bytes_squared += WH_PLANT(warp_squared, bytes * bytes, bytes);
}

/* An array of n references, or NULL. Lane 0. */
WH_FN uint32_t *take_array(const wh_heap_ref *heap, kd_own *own, uint32_t n) {
    uint32_t *p = (uint32_t *)heap_take(heap, array_bytes(n));
    if (p == NULL) {
        own->tally.failed += WH_PLANT(warp_failed, 1, 0);
        return NULL;
    }
    count_array(own, n);
    return p;
}

/* Takes back what take_array has counted. Lane 0. */
WH_FN void untake_array(const wh_heap_ref *heap, kd_own *own, uint32_t *p, uint32_t n) {
    const uint64_t bytes = array_bytes(n);
    own->tally.requests -= WH_PLANT(warp_untake, 1, 0);
    own->tally.bytes -= bytes;
    own->tally.bytes_squared -= bytes * bytes;
    heap_give(heap, p);
}

/* --- boxes ------------------------------------------------------------------------------------ */

/* Half the area of a box's surface. */
WH_FN float half_area(const whi_kd_box *b) {
    const float x = b->hi[0] - b->lo[0], y = b->hi[1] - b->lo[1], z = b->hi[2] - b->lo[2];
    return x * y + y * z + z * x;
}

/* A box's, as a part of the root's. */
WH_FN double relative_area(const whi_kdtree *k, const whi_kd_box *b) {
    const double part = k->state->part_of_root;
    return part > 0 ? (double)half_area(b) * part : 1.0;
}

/* The child's box. */
WH_FN whi_kd_box child_box(whi_kd_box b, uint32_t axis, float split, int is_right) {
    for (uint32_t a = 0; a < 3; a++) {
        if (a == axis && is_right) {
            b.lo[a] = split;
        } else if (a == axis) {
            b.hi[a] = split;
        }
    }
    return b;
}

#endif

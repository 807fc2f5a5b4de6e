/* alone.h: nodes that one warp works on: it splits a node, keeps the right child for later, and
 * goes on with the left one. Included by kdtree_kernels.c.
 *
 * A1      refs of a task: a block of the heap that belongs to who has the task, plain; handed on by
 *         push_own and Q1. Lane 0 gives it back after all lanes have read it (wh_syncwarp)
 */
#ifndef WHI_KDTREE_ALONE_H
#define WHI_KDTREE_ALONE_H

#include "shared.h"

/* A node's references become a leaf. All lanes. */
WH_FN void make_leaf(const wh_heap_ref *heap, kd_warp w, const whi_kd_task *t, int is_cut) {
    const uint64_t at = take_references(w.k, t->n);
    WH_NO_UNROLL
    for (uint32_t i = wh_lane_id(); i < t->n - WH_PLANT(alone_copy, 0u, 1u); i += WH_WARP_SIZE) {
        w.k->references[at + i] = t->refs[i];
    }
    wh_syncwarp(WH_FULL_WARP); /* A1 */
    if (is_first_lane()) {
        write_leaf(w, t, at, is_cut);
    }
    heap_give_each(heap, is_first_lane() ? t->refs : NULL);
}

/* Counts the node's references in bins. All lanes. */
WH_FN void fill_bins(kd_warp w, const whi_kd_task *t) {
    clear_bins(w.own);
    WH_NO_UNROLL
    for (uint32_t i = wh_lane_id(); i < t->n; i += WH_WARP_SIZE) {
        const uint32_t bins = bins_of_ref(w.k, t->refs[i], &t->box);
        count_in_bins(w.own, bins);
        if (i < w.k->bins_room) {
            w.own->kept[i] = bins; /* for the same lane */
        }
    }
}

/* The node's references to its children. All lanes. B1 */
WH_FN void deal(kd_warp w, const whi_kd_task *t, const kd_choice *c, const kd_children *both) {
    uint32_t n[2] = {0, 0};
    WH_NO_UNROLL
    for (uint32_t first = 0; first < t->n; first += WH_WARP_SIZE) {
        const uint32_t i = first + wh_lane_id(), ref = i < t->n ? t->refs[i] : 0;
        uint32_t bins = 0;
        if (i < t->n && i < w.k->bins_room) {
            bins = w.own->kept[i];
        } else if (WH_PLANT(alone_b1_again, i < t->n, 0)) {
            bins = bins_of_ref(w.k, ref, &t->box);
        }
        wh_mask side[2];
        sides_of(c, i < t->n, bins, side);
        for (uint32_t s = 0; s < 2; s++) {
            if ((side[s] >> wh_lane_id() & 1) != 0) {
                *child_place(w.k, &both->child[s], n[s] + wh_mask_rank(side[s])) = ref;
            }
            n[s] += WH_PLANT(alone_places, wh_popc32(side[s]), 32u);
        }
    }
    wh_assert_internal(n[0] == c->n_left && n[1] == c->n_right);
}

/* A task without a record, of more than group_references references. All lanes. */
WH_FN void work_alone(const wh_heap_ref *heap, kd_warp w, const whi_kd_task *t) {
    kd_choice c = no_choice();
    kd_children both;
    both.first = 0;
    if (may_split(w.k, t)) {
        fill_bins(w, t);
        c = choose_counted(w.k, w.own, &t->box, t->n);
    }
    if (c.bin != 0) {
        both = take_children(heap, w, &c, t->n);
    }
    if (both.first == 0) {
        make_leaf(heap, w, t, WH_PLANT(alone_cut, c.bin != 0, 0));
        return;
    }
    deal(w, t, &c, &both);
    wh_syncwarp(WH_FULL_WARP); /* A1 */
    if (is_first_lane()) {
        write_inner(w, t, &c, both.first);
    }
    heap_give_each(heap, is_first_lane() ? t->refs : NULL);
    add_children(w, t, &c, &both);
}

#endif

/* group.h: nodes of few references. A warp works on several of them at once: of each task as many
 * lanes as it has references, a group, next to each other. Included by kdtree_kernels.c.
 *
 * G1      Tasks without a record of at most group_references references, which is no more than a
 *         warp has lanes, come here; those of less than give_references at once
 * G2      The warp's stack of small tasks: that warp's alone, plain. A pass takes as many of the
 *         topmost as there are lanes for, and puts their children in their place: at most 32, two
 *         of a task that has two lanes. It takes but one if there are more than most_small:
 *         those above are a walk in depth, which adds one for each level. Others are added only
 *         while there are less than WANTED_SMALL
 * A1      as in alone.h: all lanes have read the references before their arrays are given back
 */
#ifndef WHI_KDTREE_GROUP_H
#define WHI_KDTREE_GROUP_H

#include "shared.h"

/* A lane's part of a pass. What is here lies in registers over calls of the heap: what a group's
 * lanes have in common stays where the tasks lie, until push_groups. */
typedef struct kd_group {
    wh_mask mask;         /* the group's lanes: as many as references; 0: the caller is in none */
    const whi_kd_task *t; /* of the group; on the stack, above its top */
    uint32_t choice;      /* of the group: choice_of */
    uint32_t children;    /* of the group: number of the left one; 0: none, it is a leaf */
    uint32_t ref, bins;   /* of the caller's reference */
    uint32_t n;           /* references of the child that the caller asks for: of lanes 0 and 1 */
    uint32_t *array;      /* and its array */
} kd_group;

/* A bit for each axis, where bins_of has its bins. */
#define AXES (1u | 1u << 10 | 1u << 20)

/* The caller's number in its group. */
WH_FN uint32_t lane_of(const kd_group *g) {
    return wh_mask_rank(g->mask);
}

WH_FN int is_head(const kd_group *g) {
    return g->mask != 0 && lane_of(g) == 0;
}

/* Whether the caller is lane 0 or 1 of a group, whose children have room. */
WH_FN int has_child(const kd_group *g) {
    return g->children != 0 && lane_of(g) < 2;
}

/* Where a group's node is cut, but for `split`; bin 0: it is a leaf. */
WH_FN kd_choice choice_of(uint32_t choice) {
    kd_choice c;
    c.axis = choice >> 17;
    c.bin = choice >> 12 & 31;
    c.n_left = choice >> 6 & 63;
    c.n_right = choice & 63;
    c.split = 0;
    return c;
}

/* Makes groups of the topmost tasks, of which the first one is the topmost. How many tasks are
 * left. All lanes. G2 */
WH_FN uint32_t begin_groups(kd_warp w, kd_group *g) {
    const uint32_t lane = wh_lane_id();
    wh_syncwarp(WH_FULL_WARP);
    const uint32_t all = w.own->n_small, most = all > w.k->most_small ? 1 : all;
    const uint32_t n = lane < most ? w.own->small[all - 1 - lane].n : WH_WARP_SIZE + 1;
    const uint32_t end = wh_scan_add_warp_u32(n);
    const int is_taken = end <= WH_WARP_SIZE;
    const uint32_t taken = wh_popc32(wh_ballot(WH_FULL_WARP, is_taken));
    const uint32_t lanes = wh_reduce_max_u32(WH_FULL_WARP, is_taken ? end : 0);
    const wh_mask heads = wh_reduce_or_u32(WH_FULL_WARP, is_taken ? (wh_mask)1 << (end - n) : 0);
    memset(g, 0, sizeof *g);
    if (lane < lanes) {
        const wh_mask before = heads & (wh_lanemask_lt() | (wh_mask)1 << lane);
        const uint32_t first = wh_msb32(before);
        g->t = &w.own->small[all - wh_popc32(before)];
        g->mask = WH_FULL_WARP >> (WH_WARP_SIZE - g->t->n) << first;
        g->ref = g->t->refs[lane - first];
    }
    return all - taken;
}

/* --- where four groups are cut -----------------------------------------------------------------
 * A row of eight lanes looks at the planes of one group, four of each axis a lane. */

#define ROW 8u
#define ROWS (WH_WARP_SIZE / ROW)
#define PLANES (WHI_KD_BINS / ROW)

/* How many references begin, and end, not below each plane of a lane; 32 times, of all axes. */
typedef struct kd_row {
    uint32_t starts[PLANES], ends[PLANES];
    uint32_t all; /* references that were counted: the row's group's, and some that do not exist */
} kd_row;

/* Of the row's group, which has n references in lanes first and up, whose bins these are. All
 * lanes.
 */
WH_FN kd_row count_row(uint32_t first, uint32_t n, uint32_t of_lane) {
    /* Above each bin there is a bit to borrow from: it is left if the bin is not below the plane.
     * One that is not there begins above all planes and ends below. */
    const uint32_t guard = 32u * AXES, none = 31u * AXES;
    const uint32_t plane = wh_lane_id() % ROW * PLANES * AXES;
    kd_row r;
    memset(&r, 0, sizeof r);
    r.all = wh_reduce_max_u32(WH_FULL_WARP, n);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < r.all; i++) {
        const uint32_t there = wh_shfl_u32(WH_FULL_WARP, of_lane, (first + i) % WH_WARP_SIZE);
        const uint32_t bins = i < n ? there : WH_PLANT(group_none, none, 0);
        const uint32_t start = ((bins & 31u * AXES) | WH_PLANT(group_guard, guard, 0)) - plane;
        const uint32_t end = ((bins >> 5 & 31u * AXES) | guard) - plane;
        for (uint32_t p = 0; p < PLANES; p++) {
            r.starts[p] += (start - p * AXES) & guard;
            r.ends[p] += (end - p * AXES) & guard;
        }
    }
    return r;
}

/* The best plane of the row's group, as choose_plane has it: of the least cost, then axis, then
 * bin. All that, and what is on either side, in one number. All lanes. */
WH_FN uint64_t choose_in_row(const whi_kdtree *k, const kd_row *r, const whi_kd_box *box,
                             uint32_t n) {
    uint64_t best = (uint64_t)bits_of(k->intersection_cost * (float)n) << 32;
    WH_NO_UNROLL
    for (uint32_t axis = 0; axis < 3; axis++) {
        const kd_slab s = slab_of(box, axis);
        for (uint32_t p = 0; p < PLANES; p++) {
            const uint32_t bin = wh_lane_id() % ROW * PLANES + p, at = 10 * axis + 5;
            const uint32_t left = r->all - (r->starts[p] >> at & 63), right = r->ends[p] >> at & 63;
            const uint32_t rest = axis << 17 | bin << 12 | left << 6 | right;
            const float cost = cost_of(k, &s, bin, left, right);
            const uint64_t key = (uint64_t)bits_of(cost) << 32 | rest;
            best = bin != 0 && is_wide(k, &s) && key < best ? key : best;
        }
    }
    for (uint32_t reach = 1; reach < ROW; reach *= 2) {
        const uint64_t other = wh_shfl_u64(WH_FULL_WARP, best, wh_lane_id() ^ reach);
        best = WH_PLANT(group_least, other < best, 0) ? other : best;
    }
    return best;
}

/* The best plane of each group, four at a time. mask: the lanes of the caller's group; 0: it has
 * none that may be split. bins: of the caller's reference. All lanes. Not inlined: it is behind a
 * call, and votes. */
WH_FN_SLOW uint32_t choose_in_groups(const whi_kdtree *k, wh_mask mask, whi_kd_box of_lane,
                                     uint32_t bins) {
    const uint32_t row = wh_lane_id() / ROW;
    uint32_t choice = 0;
    wh_mask left = wh_ballot(WH_FULL_WARP, mask != 0 && wh_ctz32(mask) == wh_lane_id());
    WH_NO_UNROLL
    while (left != 0) {
        const wh_mask now = left;
        uint32_t first = 0, n = 0;
        whi_kd_box box;
        for (uint32_t r = 0; r < ROWS; r++) {
            first = r == row && left != 0 ? wh_ctz32(left) : first;
            n = r == row && left != 0 ? 1 : n;
            left &= left - 1;
        }
        n *= wh_shfl_u32(WH_FULL_WARP, wh_popc32(mask), first);
        for (uint32_t a = 0; a < 3; a++) {
            box.lo[a] = wh_kdtree_float_(wh_shfl_u32(WH_FULL_WARP, bits_of(of_lane.lo[a]), first));
            box.hi[a] = wh_kdtree_float_(wh_shfl_u32(WH_FULL_WARP, bits_of(of_lane.hi[a]), first));
        }
        const kd_row r = count_row(first, n, bins);
        const uint64_t best = choose_in_row(k, &r, &box, n);
        const wh_mask done = now & ~left;
        const uint64_t mine =
            wh_shfl_u64(WH_FULL_WARP, best, wh_mask_rank(done & ~mask) % ROWS * ROW);
        if ((done & mask) != 0) {
            choice = wh_low_u32(mine);
        }
    }
    return choice;
}

/* Arrays of all children at once: lane 0 asks for that of the left one, lane 1 of the right one.
 * 0: not all of the caller's group's are there. All lanes. */
WH_FN int take_group_arrays(const wh_heap_ref *heap, kd_warp w, kd_group *g) {
    const kd_choice c = choice_of(g->choice);
    const uint32_t lane = lane_of(g);
    if (c.bin != 0 && lane < 2) {
        g->n = lane == 0 ? c.n_left : c.n_right;
    }
    g->array = (uint32_t *)heap_take_each(heap, array_bytes(g->n));
    wh_syncwarp(WH_FULL_WARP); /* A1; new arrays are all lanes' */
    const wh_mask failed = wh_ballot(WH_FULL_WARP, g->n != 0 && g->array == NULL);
    if (is_first_lane() && failed != 0) {
        w.own->tally.failed += WH_PLANT(group_failed, wh_popc32(failed), 0);
    }
    return WH_PLANT(group_some, (failed & g->mask) == 0, 1);
}

/* Numbers and promises for the nodes of the groups `left`, one after the other: for some there may
 * be no room. All lanes. */
WH_FN_SLOW uint32_t take_each_number(kd_warp w, wh_mask left, wh_mask mask, uint32_t more) {
    uint32_t mine = 0;
    WH_NO_UNROLL
    for (; left != 0; left &= left - 1) {
        const uint32_t head = wh_mask_leader(left);
        const uint32_t wanted = wh_shfl_u32(WH_FULL_WARP, more, head);
        uint32_t children = 0;
        if (is_first_lane()) {
            children = take_numbers(w, wanted);
        }
        children = wh_shfl_u32(WH_FULL_WARP, children, 0);
        mine = (mask >> head & 1) != 0 ? children : mine;
    }
    return mine;
}

/* The same for all groups that have their arrays, at once if the warp has as much. All lanes. */
WH_FN void take_group_numbers(kd_warp w, kd_group *g, int has_arrays) {
    const kd_choice c = choice_of(g->choice);
    const int wants = is_head(g) && c.bin != 0 && has_arrays;
    const wh_mask those = wh_ballot(WH_FULL_WARP, wants);
    const uint32_t more = wants ? c.n_left + c.n_right - wh_popc32(g->mask) : 0;
    const uint32_t all = wh_shfl_u32(WH_FULL_WARP, wh_scan_add_warp_u32(more), WH_WARP_SIZE - 1);
    uint32_t number = 0;
    if (is_first_lane()) {
        number = take_own_numbers(w.own, wh_popc32(those), all);
    }
    number = wh_shfl_u32(WH_FULL_WARP, number, 0);
    if (number != 0) {
        number += 2 * wh_mask_rank(those & ~g->mask);
    } else {
        number = take_each_number(w, those, g->mask, more);
    }
    if ((those & g->mask) != 0) {
        g->children = number;
    }
}

/* Gives back the arrays of the tasks, and those of children that lack something else. All lanes. */
WH_FN void give_group_arrays(const wh_heap_ref *heap, kd_group *g) {
    const int untakes = g->children == 0 && g->array != NULL;
    if (wh_any(WH_FULL_WARP, untakes)) {
        WH_PLANT(group_untake, heap_give_each(heap, untakes ? g->array : NULL), (void)0);
    }
    heap_give_each(heap, is_head(g) ? g->t->refs : NULL);
}

/* The references to the children's arrays. All lanes. B1 */
WH_FN void deal_in_groups(const kd_group *g) {
    wh_mask side[2];
    const kd_choice c = choice_of(g->choice);
    const int has = g->children != 0;
    const uint32_t first = has ? wh_mask_leader(g->mask) : 0;
    sides_of(&c, has, g->bins, side);
    wh_assert_internal(!has || (wh_popc32(side[0] & g->mask) == c.n_left &&
                                wh_popc32(side[1] & g->mask) == c.n_right));
    for (uint32_t s = 0; s < 2; s++) {
        const uint64_t array = wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)g->array, first + s);
        const uint32_t at = wh_mask_rank(side[s] & g->mask);
        if ((side[s] >> wh_lane_id() & 1) != 0) {
            ((uint32_t *)(uintptr_t)array)[WH_PLANT(group_places, at, 0u)] = g->ref;
        }
    }
}

/* The sum of all lanes' v. All lanes. */
WH_FN double sum_of_warp(double v) {
    for (uint32_t reach = 1; reach < WH_WARP_SIZE; reach *= 2) {
        uint64_t bits;
        double other;
        memcpy(&bits, &v, sizeof bits);
        bits = wh_shfl_u64(WH_FULL_WARP, bits, wh_lane_id() ^ reach);
        memcpy(&other, &bits, sizeof other);
        v += other;
    }
    return v;
}

/* Adds what the groups have done to the warp's tally. leaves, cut: lanes with a reference in a
 * leaf, and in one that could not be split. All lanes. W1 */
WH_FN void count_groups(kd_warp w, const kd_group *g, wh_mask leaves, wh_mask cut) {
    const int is_leaf = (leaves >> wh_lane_id() & 1) != 0, is_inner = g->children != 0;
    const int is_empty = has_child(g) && g->n == 0;
    const wh_mask heads = wh_ballot(WH_FULL_WARP, is_head(g));
    const wh_mask inner = wh_ballot(WH_FULL_WARP, is_inner);
    const wh_mask some = wh_ballot(WH_FULL_WARP, has_child(g) && g->n != 0);
    const wh_mask empty = wh_ballot(WH_FULL_WARP, is_empty);
    uint32_t depth = 0;
    if (is_leaf || is_empty) {
        depth = g->t->depth + (is_empty ? 1 : 0);
    }
    const uint32_t deepest = wh_reduce_max_u32(WH_FULL_WARP, depth);
    /* arrays of 16 to 128 bytes: in units of 16, and of 256 for squares */
    const uint32_t size = has_child(g) ? (uint32_t)array_bytes(g->n) / 16 : 0;
    const uint32_t sizes =
        wh_shfl_u32(WH_FULL_WARP, wh_scan_add_warp_u32(size * size << 16 | size), WH_WARP_SIZE - 1);
    double cost = 0;
    if (is_head(g) && is_leaf) {
        cost = cost_of_leaf(w.k, &g->t->box, g->t->n);
    } else if (is_head(g)) {
        cost = cost_of_inner(w.k, &g->t->box);
    }
    cost = WH_PLANT(group_sum, sum_of_warp(cost), cost);
    if (is_first_lane()) {
        whi_kd_tally *y = &w.own->tally;
        const uint32_t n_leaves = wh_popc32(leaves & heads) + wh_popc32(empty);
        y->nodes += wh_popc32(inner & heads) + n_leaves;
        y->leaves += n_leaves;
        y->empty_leaves += wh_popc32(empty);
        y->references += wh_popc32(leaves);
        y->requests += WH_PLANT(group_requests, wh_popc32(some), 0);
        y->bytes += WH_PLANT(group_bytes, 16, 8) * (uint64_t)(sizes & 0xffff);
        y->bytes_squared += WH_PLANT(group_squared, 256, 16) * (uint64_t)(sizes >> 16);
        y->cost += cost;
        y->depth = WH_PLANT(group_depth, deepest, 0) > y->depth ? deepest : y->depth;
        y->cut_leaves += wh_popc32(cut & heads);
        y->cut_references += wh_popc32(cut);
    }
}

/* Writes the nodes, and the references of those that are leaves; counts all that. All lanes. L2 */
WH_FN void write_groups(kd_warp w, const kd_group *g) {
    const int is_leaf = g->mask != 0 && g->children == 0;
    kd_choice c = choice_of(g->choice);
    const wh_mask leaves = wh_ballot(WH_FULL_WARP, is_leaf);
    const wh_mask cut = wh_ballot(WH_FULL_WARP, is_leaf && WH_PLANT(group_cut, c.bin != 0, 0));
    const uint32_t at = (uint32_t)take_references(w.k, wh_popc32(leaves)) + wh_mask_rank(leaves);
    if (is_leaf) {
        w.k->references[at] = g->ref;
    }
    if (is_head(g) && is_leaf) {
        put_leaf(w.k, g->t->node, at, g->t->n, WH_PLANT(group_cut_leaf, c.bin != 0, 0));
    } else if (is_head(g)) {
        c.split = split_of(&g->t->box, c.axis, c.bin);
        put_inner(w.k, g->t->node, &c, g->children);
    }
    if (has_child(g) && g->n == 0) {
        WH_PLANT(group_empty, put_leaf(w.k, g->children + lane_of(g), 0, 0, 0), (void)0);
    }
    count_groups(w, g, leaves, cut);
}

/* The children's tasks, on the stack of which `left` remain. All lanes. G2 */
WH_FN void push_groups(kd_warp w, const kd_group *g, uint32_t left) {
    const int has = has_child(g) && g->n != 0;
    const wh_mask those = wh_ballot(WH_FULL_WARP, has);
    const uint32_t n = wh_popc32(those);
    const kd_choice c = choice_of(g->choice);
    whi_kd_task t;
    memset(&t, 0, sizeof t);
    if (has) {
        const whi_kd_box *box = &g->t->box;
        t.refs = g->array;
        t.node = g->children + lane_of(g);
        t.n = g->n;
        t.depth = g->t->depth + 1;
        t.box = child_box(*box, c.axis, split_of(box, c.axis, c.bin), (int)lane_of(g));
    }
    WH_PLANT(group_read, wh_syncwarp(WH_FULL_WARP), (void)0); /* G2: no lane needs g->t any more */
    if (has) {
        w.own->small[left + n - 1 - wh_mask_rank(those)] = t;
    }
    if (is_first_lane()) {
        w.own->n_small = left + n;
        wh_assert_internal(w.own->n_small <= w.k->small_room);
    }
}

/* Tasks for all lanes, as far as there are some, and all that comes of them, but for what goes to
 * the stack. All lanes. */
WH_FN_SLOW void work_in_groups(const wh_heap_ref *heap, kd_warp w) {
    kd_group g;
    whi_kd_box box;
    wh_mask may = 0;
    const uint32_t left = begin_groups(w, &g);
    memset(&box, 0, sizeof box);
    if (g.mask != 0 && may_split(w.k, g.t)) {
        may = g.mask;
        box = g.t->box;
        g.bins = bins_of_ref(w.k, g.ref, &box);
    }
    g.choice = choose_in_groups(w.k, may, box, g.bins);
    const int has_arrays = take_group_arrays(heap, w, &g);
    take_group_numbers(w, &g, has_arrays);
    give_group_arrays(heap, &g);
    deal_in_groups(&g);
    write_groups(w, &g);
    push_groups(w, &g, left);
}

#endif

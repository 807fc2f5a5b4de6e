/* group.h: nodes of few references. A warp works on several of them at once, with WHI_KD_GROUP
 * lanes each: a lane has one reference. Included by kdtree_kernels.c.
 *
 * G1      Tasks without a record, of at most WHI_KD_GROUP references, come here and no others: how
 * a node is split is a function of the node, whoever works on it G2      The warp's stack of small
 * tasks: that warp's alone, plain. A pass takes the topmost, as many as there are groups, G = 4, or
 * all, and puts their children in the same order in their place. Others are added only while there
 * are less than 2 G, see add_task. So a task at place i, from the bottom, is at least (i - 2 G + 1)
 * / G deep: the child at place s - G + j, of the tasks s - G ... s - 1, is one deeper than one at s
 * - G + j / 2 or above. So there is room for all in G * max_depth + 2 G places A1      as in
 * alone.h: all lanes have read the references before their arrays are given back
 */
#ifndef WHI_KDTREE_GROUP_H
#define WHI_KDTREE_GROUP_H

#include "shared.h"

/* A lane's part of a pass; all but lane, first, ref and array is the same in all of a group. */
typedef struct kd_group {
    uint32_t lane, first; /* within the group; the group's first one in the warp */
    whi_kd_task t;        /* t.n is 0: the group has none */
    kd_choice c;          /* c.bin is 0: a leaf. That has been taken: */
    uint32_t children;    /* number of the left one; 0: none */
    uint32_t ref, bins;   /* of the caller's reference */
    uint32_t n;           /* references of the child that the caller asks for: of lanes 0 and 1 */
    uint32_t *array;      /* and its array */
} kd_group;

/* Lanes that are the first ones of their groups. */
#define HEADS (WH_FULL_WARP / ((1u << WHI_KD_GROUP) - 1))

/* A bit for each axis, where bins_of has its bins. */
#define AXES (1u | 1u << 10 | 1u << 20)

/* Planes that a lane looks at, of each axis. */
#define PLANES (WHI_KD_BINS / WHI_KD_GROUP)

/* Bins of a reference that is not there: it counts on neither side of a plane. */
#define NO_BINS (31u * AXES)

WH_STATIC_ASSERT(WHI_KD_GROUP == 8, "counts have four bits; arrays 16 or 32 bytes");

/* Takes tasks off the stack, and reads their references. How many are left. All lanes. G2 */
WH_FN uint32_t begin_groups(kd_warp w, kd_group *g) {
    const uint32_t lane = wh_lane_id(), number = lane / WHI_KD_GROUP;
    wh_syncwarp(WH_FULL_WARP);
    const uint32_t all = w.own->n_small, taken = all < WHI_KD_GROUPS ? all : WHI_KD_GROUPS;
    memset(g, 0, sizeof *g);
    g->lane = lane % WHI_KD_GROUP;
    g->first = lane - g->lane;
    if (number < taken) {
        g->t = w.small[all - taken + number];
    }
    if (g->lane < g->t.n) {
        g->ref = g->t.refs[g->lane];
    }
    return all - taken;
}

/* The best plane of each group, as choose_plane has it. A lane looks at PLANES of them next to each
 * other, along each axis, and at all references' bins. All lanes. */
WH_FN kd_choice choose_in_groups(const whi_kdtree *k, const kd_group *g) {
    const uint32_t guard = 32u * AXES; /* above each bin: borrowed from if the plane is above it */
    const uint32_t first = g->lane * PLANES;
    uint32_t starts[PLANES], ends[PLANES]; /* not below a plane; of each axis; 32 times */
    memset(starts, 0, sizeof starts);
    memset(ends, 0, sizeof ends);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < WHI_KD_GROUP; i++) {
        const uint32_t bins = wh_shfl_u32(WH_FULL_WARP, g->bins, g->first + i);
        const uint32_t start =
            ((bins & 31u * AXES) | WH_PLANT(group_guard, guard, 0)) - first * AXES;
        const uint32_t end = ((bins >> 5 & 31u * AXES) | guard) - first * AXES;
        for (uint32_t p = 0; p < PLANES; p++) {
            starts[p] += (start - p * AXES) & guard;
            ends[p] += (end - p * AXES) & guard;
        }
    }
    /* The cost, then the axis and the bin, then what is on either side, in one number. */
    uint64_t best = (uint64_t)bits_of(k->intersection_cost * (float)g->t.n) << 32;
    WH_NO_UNROLL
    for (uint32_t axis = 0; axis < 3; axis++) {
        const kd_slab s = slab_of(&g->t.box, axis);
        const int may = may_split(k, &g->t) && is_wide(k, &s);
        for (uint32_t p = 0; p < PLANES; p++) {
            const uint32_t bin = first + p, at = 10 * axis + 5;
            const uint32_t left = WHI_KD_GROUP - (starts[p] >> at & 15), right = ends[p] >> at & 15;
            const uint32_t rest = axis << 13 | bin << 8 | left << 4 | right;
            const float cost = cost_of(k, &s, bin, left, right);
            const uint64_t key = (uint64_t)bits_of(cost) << 32 | rest;
            best = may && bin != 0 && key < best ? key : best;
        }
    }
    for (uint32_t reach = 1; reach < WHI_KD_GROUP; reach *= 2) {
        const uint64_t other = wh_shfl_u64(WH_FULL_WARP, best, wh_lane_id() ^ reach);
        best = WH_PLANT(group_least, other < best, 0) ? other : best;
    }
    kd_choice c;
    c.axis = (uint32_t)best >> 13 & 3;
    c.bin = (uint32_t)best >> 8 & 31;
    c.n_left = (uint32_t)best >> 4 & 15;
    c.n_right = (uint32_t)best & 15;
    c.split = split_of(&g->t.box, c.axis, c.bin);
    return c;
}

/* Arrays of all children at once: lane 0 asks for that of the left one, lane 1 of the right one.
 * 0: not all of the caller's group's are there. All lanes. */
WH_FN int take_group_arrays(const wh_heap_ref *heap, kd_warp w, kd_group *g) {
    if (g->c.bin != 0 && g->lane < 2) {
        g->n = g->lane == 0 ? g->c.n_left : g->c.n_right;
    }
    if (g->n != 0) {
        g->array = (uint32_t *)heap_take(heap, array_bytes(g->n));
    }
    WH_PLANT(group_a1, wh_syncwarp(WH_FULL_WARP), (void)0); /* A1, G2; new arrays are all lanes' */
    const wh_mask failed = wh_ballot(WH_FULL_WARP, g->n != 0 && g->array == NULL);
    if (is_first_lane() && failed != 0) {
        w.own->tally.failed += WH_PLANT(group_failed, wh_popc32(failed), 0);
    }
    const wh_mask mine = failed >> g->first & ((1u << WHI_KD_GROUP) - 1);
    return WH_PLANT(group_some, mine == 0, 1);
}

/* Numbers and promises for the nodes of all groups that have their arrays, one after the other: for
 * some there may be no room. All lanes. */
WH_FN void take_group_numbers(kd_warp w, kd_group *g, int has_arrays) {
    const uint32_t more = g->c.n_left + g->c.n_right - g->t.n;
    wh_mask left = wh_ballot(WH_FULL_WARP, g->lane == 0 && g->c.bin != 0 && has_arrays);
    WH_NO_UNROLL
    for (; left != 0; left &= left - 1) {
        const uint32_t head = wh_mask_leader(left);
        const uint32_t wanted = wh_shfl_u32(WH_FULL_WARP, more, head);
        uint32_t children = 0;
        if (is_first_lane()) {
            children = take_numbers(w, wanted);
        }
        children = wh_shfl_u32(WH_FULL_WARP, children, 0);
        if (g->first == head) {
            g->children = children;
        }
    }
}

/* Gives back the arrays of the tasks, and those of children that lack something else. All lanes. */
WH_FN void give_group_arrays(const wh_heap_ref *heap, kd_group *g) {
    uint32_t *p = NULL;
    if (g->children == 0 && g->array != NULL) {
        p = WH_PLANT(group_untake, g->array, NULL);
        g->array = NULL;
        g->n = 0;
    }
    if (g->lane == 2 && g->t.n != 0) {
        p = g->t.refs;
    }
    if (p != NULL) {
        heap_give(heap, p);
    }
    wh_syncwarp(WH_FULL_WARP); /* together again */
}

/* The references to the children's arrays. All lanes. B1 */
WH_FN void deal_in_groups(const kd_group *g) {
    wh_mask side[2];
    const int has = g->children != 0 && g->lane < g->t.n;
    sides_of(&g->c, has, g->bins, side);
    const wh_mask group = ((1u << WHI_KD_GROUP) - 1) << g->first;
    wh_assert_internal(!has || (wh_popc32(side[0] & group) == g->c.n_left &&
                                wh_popc32(side[1] & group) == g->c.n_right));
    for (uint32_t s = 0; s < 2; s++) {
        const uint64_t array =
            wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)g->array, g->first + s);
        const uint32_t at = wh_mask_rank(side[s] & group);
        if ((side[s] >> wh_lane_id() & 1) != 0) {
            ((uint32_t *)(uintptr_t)array)[WH_PLANT(group_places, at, 0u)] = g->ref;
        }
    }
}

/* The sum of all groups' v, which their first lanes have. All lanes. */
WH_FN double sum_of_groups(double v) {
    for (uint32_t reach = WHI_KD_GROUP; reach < WH_WARP_SIZE; reach *= 2) {
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
    const int is_inner = g->children != 0, has_child = is_inner && g->lane < 2;
    const int is_leaf = (leaves >> wh_lane_id() & 1) != 0;
    const wh_mask inner = wh_ballot(WH_FULL_WARP, is_inner);
    const wh_mask some = wh_ballot(WH_FULL_WARP, has_child && g->n != 0);
    const wh_mask many = wh_ballot(WH_FULL_WARP, has_child && array_bytes(g->n) > 16);
    const wh_mask empty = wh_ballot(WH_FULL_WARP, has_child && g->n == 0);
    const uint32_t depth = is_leaf ? g->t.depth : g->t.depth + 1;
    const uint32_t deepest =
        wh_reduce_max_u32(WH_FULL_WARP, is_leaf || (has_child && g->n == 0) ? depth : 0);
    double cost = 0;
    if (is_leaf) {
        cost = cost_of_leaf(w.k, &g->t.box, g->t.n);
    } else if (is_inner) {
        cost = cost_of_inner(w.k, &g->t.box);
    }
    cost = WH_PLANT(group_sum, sum_of_groups(cost), cost);
    if (is_first_lane()) {
        whi_kd_tally *y = &w.own->tally;
        const uint32_t n_leaves = wh_popc32(leaves & HEADS) + wh_popc32(empty);
        y->nodes += wh_popc32(inner & HEADS) + n_leaves;
        y->leaves += n_leaves;
        y->empty_leaves += wh_popc32(empty);
        y->references += wh_popc32(leaves);
        y->requests += WH_PLANT(group_requests, wh_popc32(some), 0);
        /* arrays of 16 and 32 bytes */
        y->bytes += 16 * (wh_popc32(some) + WH_PLANT(group_bytes, wh_popc32(many), 0));
        y->bytes_squared +=
            256 * (wh_popc32(some) + WH_PLANT(group_squared, 3, 2) * wh_popc32(many));
        y->cost += cost;
        y->depth = WH_PLANT(group_depth, deepest, 0) > y->depth ? deepest : y->depth;
        if (cut != 0) {
            y->cut_leaves += wh_popc32(cut & HEADS);
            y->cut_references += wh_popc32(cut);
        }
    }
}

/* Writes the nodes, and the references of those that are leaves; counts all that. All lanes. L2 */
WH_FN void write_groups(kd_warp w, const kd_group *g) {
    const int has = g->lane < g->t.n, is_inner = g->children != 0, is_leaf = has && !is_inner;
    const int is_empty = is_inner && g->lane < 2 && g->n == 0; /* the caller's child */
    const wh_mask leaves = wh_ballot(WH_FULL_WARP, is_leaf);
    const wh_mask cut = wh_ballot(WH_FULL_WARP, is_leaf && WH_PLANT(group_cut, g->c.bin != 0, 0));
    const uint32_t at = (uint32_t)take_references(w.k, wh_popc32(leaves)) + wh_mask_rank(leaves);
    if (is_leaf) {
        w.k->references[at] = g->ref;
    }
    if (g->lane == 0 && is_leaf) {
        put_leaf(w.k, g->t.node, at, g->t.n, WH_PLANT(group_cut_leaf, g->c.bin != 0, 0));
    } else if (g->lane == 0 && is_inner) {
        put_inner(w.k, g->t.node, &g->c, g->children);
    }
    if (is_empty) {
        WH_PLANT(group_empty, put_leaf(w.k, g->children + g->lane, 0, 0, 0), (void)0);
    }
    count_groups(w, g, leaves, cut);
}

/* The children's tasks, on the stack of which `left` remain. All lanes. G2 */
WH_FN void push_groups(kd_warp w, const kd_group *g, uint32_t left) {
    const int has = g->children != 0 && g->array != NULL;
    const wh_mask those = wh_ballot(WH_FULL_WARP, has);
    if (has) {
        whi_kd_task t = g->t;
        t.refs = g->array;
        t.node = g->children + g->lane;
        t.n = g->n;
        t.depth++;
        t.box = child_box(t.box, g->c.axis, g->c.split, (int)g->lane);
        w.small[left + wh_mask_rank(those)] = t;
    }
    if (is_first_lane()) {
        w.own->n_small = left + wh_popc32(those);
        wh_assert_internal(w.own->n_small <= w.k->small_room);
    }
}

/* One task for each group, as far as there are some, and all that comes of them, but for what goes
 * to the stack. All lanes. */
WH_FN_SLOW void work_in_groups(const wh_heap_ref *heap, kd_warp w) {
    kd_group g;
    const uint32_t left = begin_groups(w, &g);
    const int may = may_split(w.k, &g.t);
    g.bins = WH_PLANT(group_absent, NO_BINS, 0);
    if (may && g.lane < g.t.n) {
        g.bins = bins_of_ref(w.k, g.ref, &g.t.box);
    }
    g.c = choose_in_groups(w.k, &g);
    const int has_arrays = take_group_arrays(heap, w, &g);
    take_group_numbers(w, &g, has_arrays);
    give_group_arrays(heap, &g);
    deal_in_groups(&g);
    write_groups(w, &g);
    push_groups(w, &g, left);
}

#endif

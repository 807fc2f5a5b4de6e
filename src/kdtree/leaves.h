/* leaves.h: nodes and leaves of the tree, and room for them. Included by kdtree_kernels.c.
 *
 * L1      promised: references that leaves may get, of all nodes that are not yet leaves or are;
 *         at most most_references. A node has a promise for its own. Before it is split, the warp
 *         gets one for as many as its children have more. So each leaf has room, also one that is
 *         cut. Warps take promises in batches, by fetch_add, relaxed: of what it asks for a warp
 *         has the part below most_references. (By cas 3,000 warps take turns, a round trip each)
 * L2      node i has one writer: who has task i. Numbers of children are taken in batches, by
 *         fetch_add, relaxed: a warp has the part below most_nodes
 */
#ifndef WHI_KDTREE_LEAVES_H
#define WHI_KDTREE_LEAVES_H

#include "bins.h"

/* How many are left of `most`, of which `taken` have been asked for. */
WH_FN uint64_t left_of(uint64_t most, uint64_t taken) {
    return taken < most ? most - taken : 0;
}

/* A promise for so many references more; 0: there is no room. Lane 0. L1 */
WH_FN int take_promise(const whi_kdtree *k, kd_own *own, uint64_t more) {
    if (own->promised < more) {
        const uint64_t lack = more - own->promised, want = lack + k->promise_batch;
        if (left_of(k->most_references, wh_load_u64_relaxed(&k->state->promised)) < lack) {
            return 0; /* and leaves the rest to those that lack less */
        }
        const uint64_t was =
            wh_fetch_add_u64_relaxed(&k->state->promised, WH_PLANT(leaves_l1_take, want, 0));
        const uint64_t got = left_of(k->most_references, was);
        own->promised += WH_PLANT(leaves_l1_got, got < want, 0) ? got : want;
        if (own->promised < more) {
            return 0;
        }
    }
    own->promised -= WH_PLANT(leaves_l1_own, more, 0);
    return 1;
}

/* The number of the first one of two nodes; 0: there is no room. Lane 0. L2 */
WH_FN uint32_t take_nodes(const whi_kdtree *k, kd_own *own) {
    if (own->next_node == own->node_end) {
        const uint32_t most = k->most_nodes & ~1u; /* numbers are even */
        if (wh_load_u32_relaxed(&k->state->next_node) >= most) {
            return 0;
        }
        const uint32_t was = wh_fetch_add_u32_relaxed(&k->state->next_node,
                                                      WH_PLANT(leaves_l2_take, k->node_batch, 0u));
        const uint32_t got = (uint32_t)left_of(most, was);
        if (got == 0) {
            return 0;
        }
        own->next_node = was;
        own->node_end =
            was + (WH_PLANT(leaves_l2_end, got < k->node_batch, 0) ? got : k->node_batch);
    }
    own->next_node += 2;
    return own->next_node - 2;
}

/* A node. Who has its task. L2 */
WH_FN void put_inner(const whi_kdtree *k, uint32_t node, const kd_choice *c, uint32_t children) {
    wh_kdtree_node *n = &k->nodes[node];
    memcpy(&n->first, &c->split, sizeof n->first);
    n->rest = c->axis | children << 2;
}

/* A node whose n references begin at place `first`. Who has its task. L2 */
WH_FN void put_leaf(const whi_kdtree *k, uint32_t node, uint32_t first, uint32_t n, int is_cut) {
    wh_kdtree_node *x = &k->nodes[node];
    x->first = n != 0 ? first : 0;
    x->rest = WH_KDTREE_LEAF | n << 2 | (is_cut ? WH_PLANT(leaves_cut, WH_KDTREE_CUT, 0) : 0);
}

/* What a node adds to the tree's cost. */
WH_FN double cost_of_inner(const whi_kdtree *k, const whi_kd_box *box) {
    return relative_area(k, box) * (double)k->traversal_cost;
}

WH_FN double cost_of_leaf(const whi_kdtree *k, const whi_kd_box *box, uint32_t n) {
    return relative_area(k, box) * (double)k->intersection_cost * n;
}

/* Lane 0. L2 */
WH_FN void write_inner(kd_warp w, const whi_kd_task *t, const kd_choice *c, uint32_t children) {
    put_inner(w.k, t->node, c, children);
    w.own->tally.nodes++;
    w.own->tally.cost += cost_of_inner(w.k, &t->box);
}

/* Lane 0. L2 */
WH_FN void write_leaf(kd_warp w, const whi_kd_task *t, uint64_t first, int is_cut) {
    whi_kd_tally *y = &w.own->tally;
    put_leaf(w.k, t->node, (uint32_t)first, t->n, is_cut);
    y->nodes++;
    y->leaves++;
    y->empty_leaves += t->n == 0;
    y->references += t->n + WH_PLANT(leaves_references, 0u, 1u);
    y->cut_leaves += is_cut ? WH_PLANT(leaves_cut_leaves, 1, 0) : 0;
    y->cut_references += is_cut ? t->n : 0;
    y->cost += cost_of_leaf(w.k, &t->box, t->n);
    y->depth = t->depth > y->depth ? t->depth : y->depth;
}

/* Where n references of a leaf go. All lanes. L1 */
WH_FN uint64_t take_references(const whi_kdtree *k, uint32_t n) {
    uint64_t at = 0;
    if (is_first_lane() && n != 0) {
        at = wh_fetch_add_u64_relaxed(&k->state->n_references, n - WH_PLANT(leaves_places, 0u, 1u));
        wh_assert_internal(at + n <= k->most_references);
    }
    return wh_shfl_u64(WH_FULL_WARP, at, 0);
}

/* Whether it is worth while to look for a plane. */
WH_FN int may_split(const whi_kdtree *k, const whi_kd_task *t) {
    return t->n > k->leaf_references && t->depth < k->max_depth;
}

#endif

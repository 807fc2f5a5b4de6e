/* bins.h: where a node is cut: its references in bins along each axis, and the plane between two
 * bins that the surface area heuristic likes best. Included by kdtree_kernels.c.
 *
 * B1      A reference's bins are a function of triangle, box and margin: bins_of is not inlined, so
 *         they are the same when references are counted and when they are dealt to children. The
 *         children's arrays have the size that was counted
 * B2      Bounds are a margin wider than the triangle in the box, and the box that it is clipped to
 *         is two margins wider than the node's: rounding, which is less than a margin, loses no
 *         reference. So a triangle that a node has comes nearer to its box than four margins. A
 * clip moves a corner by up to 3 * 2^-24 of the longest edge of the root's box, and 2^-24 of the
 *         largest coordinate; there are six, and the margin is 24 * 2^-24 and 8 * 2^-24 of these
 * B3      A node is cut only across an edge longer than eight margins: a bin is wider than the
 *         distance of two floats, and the plane lies in the box
 */
#ifndef WHI_KDTREE_BINS_H
#define WHI_KDTREE_BINS_H

#include "warp.h"

#define MOST_CORNERS 12u /* 9 but for rounding; if there are more, the triangle's box serves */

/* In local memory, of which little is in the cache at a time: what is not needed is not touched. */
typedef struct kd_polygon {
    float at[MOST_CORNERS][3];
} kd_polygon;

/* What of a polygon of n corners is on one side of a plane: above it (side 1), or below (side -1).
 * How many corners that has; 0: none, or too many. */
WH_FN uint32_t clip_polygon(const kd_polygon *from, uint32_t n, kd_polygon *to, uint32_t axis,
                            float plane, float side) {
    uint32_t n_to = 0;
    float a[3], b[3];
    for (uint32_t c = 0; c < 3; c++) {
        a[c] = from->at[0][c];
    }
    float at_a = wh_kdtree_pick_(a, axis);
    WH_NO_UNROLL
    for (uint32_t i = 0; i < n && n_to < MOST_CORNERS - 1; i++) {
        for (uint32_t c = 0; c < 3; c++) {
            b[c] = from->at[i + 1 < n ? i + 1 : 0][c];
        }
        const float at_b = wh_kdtree_pick_(b, axis);
        const int has_a = (at_a - plane) * side >= 0, has_b = (at_b - plane) * side >= 0;
        if (has_a) {
            for (uint32_t c = 0; c < 3; c++) {
                to->at[n_to][c] = a[c];
            }
            n_to++;
        }
        if (has_a != has_b) {
            const float t = (plane - at_a) / (at_b - at_a);
            for (uint32_t c = 0; c < 3; c++) {
                to->at[n_to][c] = c == axis ? plane : fmaf(t, b[c] - a[c], a[c]);
            }
            n_to++;
        }
        for (uint32_t c = 0; c < 3; c++) {
            a[c] = b[c];
        }
        at_a = at_b;
    }
    return n_to < MOST_CORNERS - 1 ? n_to : 0;
}

/* Widens a box by a point. */
WH_FN void add_point(whi_kd_box *b, const float at[3]) {
    for (uint32_t c = 0; c < 3; c++) {
        b->lo[c] = at[c] < b->lo[c] ? at[c] : b->lo[c];
        b->hi[c] = at[c] > b->hi[c] ? at[c] : b->hi[c];
    }
}

WH_FN whi_kd_box box_of_point(const float at[3]) {
    whi_kd_box b;
    for (uint32_t c = 0; c < 3; c++) {
        b.lo[c] = b.hi[c] = at[c];
    }
    return b;
}

/* The bounds of what of a triangle, whose bounds are b, is in a box. One text for all six planes;
 * each lane has only those that cut its triangle's bounds. */
WH_FN whi_kd_box clip_bounds(const float corner[3][3], whi_kd_box b, const whi_kd_box *box) {
    kd_polygon two[2];
    uint32_t now = 0, n = 3, planes = 0;
    for (uint32_t c = 0; c < 3; c++) {
        planes |= (b.lo[c] < box->lo[c] ? 1u : 0u) << 2 * c;
        planes |= (b.hi[c] > box->hi[c] ? 2u : 0u) << 2 * c;
    }
    if (planes == 0) {
        return b;
    }
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t c = 0; c < 3; c++) {
            two[0].at[i][c] = corner[i][c];
        }
    }
    WH_NO_UNROLL
    for (; planes != 0 && n != 0; planes &= planes - 1) {
        const uint32_t plane = wh_ctz32(planes), axis = plane >> 1;
        const int is_low = (plane & 1) == 0;
        const float at = is_low ? wh_kdtree_pick_(box->lo, axis) : wh_kdtree_pick_(box->hi, axis);
        const float side = is_low ? 1.0f : WH_PLANT(bins_clip, -1.0f, 1.0f);
        n = clip_polygon(&two[now], n, &two[1 - now], axis, at, side);
        now = 1 - now;
    }
    if (n == 0) {
        return b;
    }
    b = box_of_point(two[now].at[0]);
    WH_NO_UNROLL
    for (uint32_t i = 1; i < n; i++) {
        add_point(&b, two[now].at[i]);
    }
    return b;
}

/* at: in bins from the box's side. */
WH_FN uint32_t bin_of(float at) {
    if (!(at >= 1)) {
        return 0;
    }
    return at < (float)WHI_KD_BINS ? (uint32_t)at : WHI_KD_BINS - 1;
}

/* A triangle's first and last bin of each axis, 5 bits each, from the first axis' first on. B1, B2
 */
WH_FN_SLOW uint32_t bins_of(const float *vertices, const uint32_t *triangle, whi_kd_box box,
                            float margin, wh_kdtree_kind kind) {
    float corner[3][3];
    uint32_t bins = 0;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t c = 0; c < 3; c++) {
            corner[i][c] = vertices[3 * (uint64_t)triangle[i] + c];
        }
    }
    whi_kd_box b = box_of_point(corner[0]);
    add_point(&b, corner[1]);
    add_point(&b, corner[2]);
    if (kind == WH_KDTREE_CLIPPED) {
        whi_kd_box wide = box;
        for (uint32_t c = 0; c < 3; c++) {
            wide.lo[c] -= WH_PLANT(bins_b2_wide, 2, 0) * margin;
            wide.hi[c] += WH_PLANT(bins_b2_wide, 2, 0) * margin;
        }
        b = clip_bounds(corner, b, &wide);
    }
    WH_NO_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        const float lo = wh_kdtree_pick_(box.lo, c);
        const float scale = (float)WHI_KD_BINS / (wh_kdtree_pick_(box.hi, c) - lo);
        float from = wh_kdtree_pick_(b.lo, c) - WH_PLANT(bins_b2_first, margin, 0);
        float to = wh_kdtree_pick_(b.hi, c) + margin;
        if (kind == WH_KDTREE_POINTS) {
            from = to = (wh_kdtree_pick_(corner[0], c) + wh_kdtree_pick_(corner[1], c) +
                         wh_kdtree_pick_(corner[2], c)) /
                        3;
        }
        bins |= (bin_of((from - lo) * scale) | bin_of((to - lo) * scale) << 5) << 10 * c;
    }
    return bins;
}

WH_FN uint32_t bins_of_ref(const whi_kdtree *k, uint32_t ref, const whi_kd_box *box) {
    return bins_of(k->mesh.vertices, k->mesh.triangles + 3 * (uint64_t)ref, *box,
                   k->state->frame.margin, k->kind);
}

WH_FN uint32_t first_bin(uint32_t bins, uint32_t axis) {
    return bins >> 10 * axis & 31;
}

WH_FN uint32_t last_bin(uint32_t bins, uint32_t axis) {
    return bins >> (10 * axis + 5) & 31;
}

/* Lists of a warp's counts: how many references begin, and end, in each bin of an axis. */
WH_FN uint32_t *starts_of(kd_own *own, uint32_t axis) {
    return own->bins + 2 * axis * WHI_KD_BINS;
}

WH_FN uint32_t *ends_of(kd_own *own, uint32_t axis) {
    return own->bins + (2 * axis + 1) * WHI_KD_BINS;
}

/* All lanes. */
WH_FN void clear_bins(kd_own *own) {
    wh_syncwarp(WH_FULL_WARP);
    for (uint32_t i = wh_lane_id(); i < WHI_KD_BIN_WORDS; i += WH_WARP_SIZE) {
        own->bins[i] = 0;
    }
    WH_PLANT(bins_w1_cleared, wh_syncwarp(WH_FULL_WARP), (void)0); /* W1 */
}

/* Any lane. */
WH_FN void count_in_bins(kd_own *own, uint32_t bins) {
    for (uint32_t axis = 0; axis < 3; axis++) {
        wh_shared_fetch_add_u32(&starts_of(own, axis)[first_bin(bins, axis)], 1);
        wh_shared_fetch_add_u32(&ends_of(own, axis)[last_bin(bins, axis)], 1);
    }
}

/* Where a node is cut: below bin `bin`; 0: it is not. */
typedef struct kd_choice {
    uint32_t axis, bin;
    uint32_t n_left, n_right;
    float split;
} kd_choice;

WH_FN kd_choice no_choice(void) {
    kd_choice c;
    c.axis = c.bin = c.n_left = c.n_right = 0;
    c.split = 0;
    return c;
}

/* Which lanes' reference goes to the left, and to the right child. All lanes. */
WH_FN void sides_of(const kd_choice *c, int has, uint32_t bins, wh_mask side[2]) {
    side[0] = wh_ballot(WH_FULL_WARP, has && first_bin(bins, c->axis) < c->bin);
    side[1] = wh_ballot(WH_FULL_WARP, has && WH_PLANT(bins_straddles, last_bin(bins, c->axis),
                                                      first_bin(bins, c->axis)) >= c->bin);
}

/* Of a box, for planes across an axis: its width there, the product and the sum of its other two
 * sizes. */
typedef struct kd_slab {
    float width, end, around;
} kd_slab;

WH_FN kd_slab slab_of(const whi_kd_box *box, uint32_t axis) {
    const float x = box->hi[0] - box->lo[0], y = box->hi[1] - box->lo[1];
    const float z = box->hi[2] - box->lo[2], sizes[3] = {x, y, z};
    const float one = wh_kdtree_pick_(sizes, wh_kdtree_next_axis_(axis));
    kd_slab s;
    s.width = wh_kdtree_pick_(sizes, axis);
    const float two = x + y + z - s.width - one;
    s.end = one * two;
    s.around = one + two;
    return s;
}

/* B3 */
WH_FN int is_wide(const whi_kdtree *k, const kd_slab *s) {
    return s->width > WH_PLANT(bins_b3_width, 8, 0) * k->state->frame.margin;
}

/* What a plane below a bin costs, with so many references on either side. */
WH_FN float cost_of(const whi_kdtree *k, const kd_slab *s, uint32_t bin, uint32_t n_left,
                    uint32_t n_right) {
    const float below = s->width * (float)bin / (float)WHI_KD_BINS;
    const float left = s->end + below * s->around;
    const float right = s->end + (s->width - below) * s->around;
    const float all = s->end + s->width * s->around;
    const float cost =
        k->traversal_cost +
        k->intersection_cost *
            (WH_PLANT(bins_cost, left, right) * (float)n_left + right * (float)n_right) / all;
    return n_left == 0 || n_right == 0 ? cost * WH_PLANT(bins_empty, k->empty_bonus, 1) : cost;
}

/* Of positive numbers in the same order as these. */
WH_FN uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Where a plane below a bin lies. */
WH_FN float split_of(const whi_kd_box *box, uint32_t axis, uint32_t bin) {
    const float lo = wh_kdtree_pick_(box->lo, axis), hi = wh_kdtree_pick_(box->hi, axis);
    return fmaf((hi - lo) / (float)WHI_KD_BINS, (float)bin, lo);
}

/* The smallest of all lanes' v. All lanes. */
WH_FN uint32_t least_of_warp(uint32_t v) {
    return ~wh_reduce_max_u32(WH_FULL_WARP, ~v);
}

/* Of a node, for each axis: the references on either side of the plane below the bin of the lane's
 * number. */
typedef struct kd_counts {
    uint32_t left[3], right[3];
} kd_counts;

/* The best plane of a node of n references; each lane has the counts of its planes. All lanes. One
 * text for all nodes. */
WH_FN_SLOW kd_choice choose_plane(const whi_kdtree *k, whi_kd_box box, uint32_t n, kd_counts at) {
    const uint32_t lane = wh_lane_id();
    kd_choice c = no_choice();
    float best = k->intersection_cost * (float)n;
    int has = 0;
    for (uint32_t axis = 0; axis < 3; axis++) {
        const kd_slab s = slab_of(&box, axis);
        const float cost = cost_of(k, &s, lane, at.left[axis], at.right[axis]);
        if (lane != 0 && is_wide(k, &s) && cost < best) {
            best = cost;
            has = 1;
            c.axis = axis;
            c.n_left = at.left[axis];
            c.n_right = at.right[axis];
        }
    }
    const uint32_t bits = has ? bits_of(best) : UINT32_MAX;
    const uint32_t least = least_of_warp(bits);
    if (least == UINT32_MAX) {
        return no_choice();
    }
    const uint32_t where = least_of_warp(bits == least ? c.axis << 5 | lane : UINT32_MAX);
    c.bin = where & 31;
    c.axis = where >> 5;
    c.n_left = wh_shfl_u32(WH_FULL_WARP, c.n_left, c.bin);
    c.n_right = wh_shfl_u32(WH_FULL_WARP, c.n_right, c.bin);
    c.split = split_of(&box, c.axis, c.bin);
    return c;
}

/* The best plane of a node whose n references are counted in own->bins. All lanes. */
WH_FN kd_choice choose_counted(const whi_kdtree *k, kd_own *own, const whi_kd_box *box,
                               uint32_t n) {
    const uint32_t lane = wh_lane_id();
    kd_counts at;
    WH_PLANT(bins_w1_counted, wh_syncwarp(WH_FULL_WARP), (void)0); /* W1 */
    for (uint32_t axis = 0; axis < 3; axis++) {
        const uint32_t starts = starts_of(own, axis)[lane], ends = ends_of(own, axis)[lane];
        at.left[axis] = wh_scan_add_warp_u32(starts) - starts;
        at.right[axis] = n - (wh_scan_add_warp_u32(ends) - WH_PLANT(bins_ends, ends, 0));
    }
    return choose_plane(k, *box, n, at);
}

#endif

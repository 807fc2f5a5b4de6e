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

typedef struct kd_polygon {
    float at[MOST_CORNERS][3];
    uint32_t n;
} kd_polygon;

/* What of a polygon is on one side of a plane: above it (side 1), or below (side -1). */
WH_FN void clip_polygon(const kd_polygon *from, kd_polygon *to, uint32_t axis, float plane,
                        float side) {
    uint32_t n = 0;
    WH_NO_UNROLL
    for (uint32_t i = 0; i < from->n && n < MOST_CORNERS - 1; i++) {
        const float *a = from->at[i], *b = from->at[i + 1 < from->n ? i + 1 : 0];
        const int has_a = (a[axis] - plane) * side >= 0, has_b = (b[axis] - plane) * side >= 0;
        for (uint32_t c = 0; has_a && c < 3; c++) {
            to->at[n][c] = a[c];
        }
        n += has_a ? 1 : 0;
        if (has_a != has_b) {
            const float t = (plane - a[axis]) / (b[axis] - a[axis]);
            for (uint32_t c = 0; c < 3; c++) {
                to->at[n][c] = fmaf(t, b[c] - a[c], a[c]);
            }
            to->at[n][axis] = plane;
            n++;
        }
    }
    to->n = n < MOST_CORNERS - 1 ? n : 0;
}

WH_FN void bounds_of(const kd_polygon *p, whi_kd_box *b) {
    for (uint32_t c = 0; c < 3; c++) {
        b->lo[c] = b->hi[c] = p->at[0][c];
    }
    WH_NO_UNROLL
    for (uint32_t i = 1; i < p->n; i++) {
        for (uint32_t c = 0; c < 3; c++) {
            b->lo[c] = p->at[i][c] < b->lo[c] ? p->at[i][c] : b->lo[c];
            b->hi[c] = p->at[i][c] > b->hi[c] ? p->at[i][c] : b->hi[c];
        }
    }
}

/* The bounds of what of a triangle is in a box, which is as much wider as `wide` says. One text for
 * all six planes. */
WH_FN void clip_bounds(kd_polygon *p, const whi_kd_box *box, float wide, whi_kd_box *b) {
    kd_polygon two[2];
    uint32_t now = 0;
    two[0] = *p;
    WH_NO_UNROLL
    for (uint32_t plane = 0; plane < 6 && two[now].n != 0; plane++) {
        const uint32_t axis = plane >> 1;
        const int is_low = (plane & 1) == 0;
        const float at =
            is_low ? wh_kdtree_pick_(box->lo, axis) - wide : wh_kdtree_pick_(box->hi, axis) + wide;
        const float side = is_low ? 1.0f : WH_PLANT(bins_clip, -1.0f, 1.0f);
        if (is_low ? wh_kdtree_pick_(b->lo, axis) < at : wh_kdtree_pick_(b->hi, axis) > at) {
            clip_polygon(&two[now], &two[1 - now], axis, at, side);
            now = 1 - now;
        }
    }
    if (two[now].n != 0) {
        bounds_of(&two[now], b);
    }
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
    kd_polygon p;
    whi_kd_box b;
    uint32_t bins = 0;
    p.n = 3;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t c = 0; c < 3; c++) {
            p.at[i][c] = vertices[3 * (uint64_t)triangle[i] + c];
        }
    }
    bounds_of(&p, &b);
    if (kind == WH_KDTREE_CLIPPED) {
        clip_bounds(&p, &box, WH_PLANT(bins_b2_wide, 2, 0) * margin, &b);
    }
    WH_NO_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        const float lo = wh_kdtree_pick_(box.lo, c);
        const float scale = (float)WHI_KD_BINS / (wh_kdtree_pick_(box.hi, c) - lo);
        float from = wh_kdtree_pick_(b.lo, c) - WH_PLANT(bins_b2_first, margin, 0);
        float to = wh_kdtree_pick_(b.hi, c) + margin;
        if (kind == WH_KDTREE_POINTS) {
            from = to = (p.at[0][c] + p.at[1][c] + p.at[2][c]) / 3;
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

/* What a plane below bin `lane` of an axis costs, with so many references on either side. */
WH_FN float cost_of(const whi_kdtree *k, const whi_kd_box *box, uint32_t axis, uint32_t n_left,
                    uint32_t n_right) {
    const float x = box->hi[0] - box->lo[0], y = box->hi[1] - box->lo[1];
    const float z = box->hi[2] - box->lo[2], sizes[3] = {x, y, z};
    const float across = wh_kdtree_pick_(sizes, axis);
    const float one = wh_kdtree_pick_(sizes, wh_kdtree_next_axis_(axis));
    const float two = x + y + z - across - one;
    const float below = across * (float)wh_lane_id() / (float)WHI_KD_BINS;
    const float left = one * two + below * (one + two);
    const float right = one * two + (across - below) * (one + two);
    const float all = one * two + across * (one + two);
    const float cost =
        k->traversal_cost +
        k->intersection_cost *
            (WH_PLANT(bins_cost, left, right) * (float)n_left + right * (float)n_right) / all;
    return n_left == 0 || n_right == 0 ? cost * WH_PLANT(bins_empty, k->empty_bonus, 1) : cost;
}

/* The smallest of all lanes' v. All lanes. */
WH_FN uint32_t least_of_warp(uint32_t v) {
    return ~wh_reduce_max_u32(WH_FULL_WARP, ~v);
}

/* The best plane of a node whose n references are counted in own->bins; all lanes, each of which
 * looks at the planes below the bins of its number. */
WH_FN kd_choice choose_plane(const whi_kdtree *k, kd_own *own, const whi_kd_box *box, uint32_t n) {
    const uint32_t lane = wh_lane_id();
    kd_choice c = no_choice();
    float best = k->intersection_cost * (float)n;
    int has = 0;
    WH_PLANT(bins_w1_counted, wh_syncwarp(WH_FULL_WARP), (void)0); /* W1 */
    WH_NO_UNROLL /* here as above: many warps are at many places, and their instructions compete */
        for (uint32_t axis = 0; axis < 3; axis++) {
        const uint32_t starts = starts_of(own, axis)[lane], ends = ends_of(own, axis)[lane];
        const uint32_t left = wh_scan_add_warp_u32(starts) - starts;
        const uint32_t right = n - (wh_scan_add_warp_u32(ends) - WH_PLANT(bins_ends, ends, 0));
        const float width = wh_kdtree_pick_(box->hi, axis) - wh_kdtree_pick_(box->lo, axis);
        const float cost = cost_of(k, box, axis, left, right);
        if (lane != 0 && width > WH_PLANT(bins_b3_width, 8, 0) * k->state->frame.margin &&
            cost < best) {
            best = cost;
            has = 1;
            c.axis = axis;
            c.n_left = left;
            c.n_right = right;
        }
    }
    uint32_t bits = UINT32_MAX;
    if (has) {
        memcpy(&bits, &best, sizeof bits); /* of positive numbers, in the same order */
    }
    const uint32_t least = least_of_warp(bits);
    if (least == UINT32_MAX) {
        return no_choice();
    }
    const uint32_t where = least_of_warp(bits == least ? c.axis << 5 | lane : UINT32_MAX);
    c.bin = where & 31;
    c.axis = where >> 5;
    c.n_left = wh_shfl_u32(WH_FULL_WARP, c.n_left, c.bin);
    c.n_right = wh_shfl_u32(WH_FULL_WARP, c.n_right, c.bin);
    const float lo = wh_kdtree_pick_(box->lo, c.axis), hi = wh_kdtree_pick_(box->hi, c.axis);
    c.split = fmaf((hi - lo) / (float)WHI_KD_BINS, (float)c.bin, lo);
    return c;
}

#endif

/* reference.h: a simple builder of k-d trees on the host, in double precision: the same heuristic,
 * one node after the other. For how good a tree is. Included once per program. */
#ifndef KDTREE_REFERENCE_H
#define KDTREE_REFERENCE_H

#include "meshes.h"

enum { REF_BINS = 32 };

typedef struct ref_box {
    double lo[3], hi[3];
} ref_box;

typedef struct ref_tree {
    const mesh *m;
    int clips;
    uint32_t max_depth;
    double root_area, least; /* edge that is cut */
    double cost;
    uint64_t nodes, leaves, references, arrays;
} ref_tree;

typedef struct ref_plane {
    double cost, at;
    uint32_t axis, bin;
} ref_plane;

static double ref_area(const ref_box *b) {
    const double x = b->hi[0] - b->lo[0], y = b->hi[1] - b->lo[1], z = b->hi[2] - b->lo[2];
    return x * y + y * z + z * x;
}

/* The bounds of what of a polygon of n corners is within a box. */
static ref_box ref_bounds(const ref_tree *t, uint32_t triangle, const ref_box *box) {
    double p[16][3], q[16][3];
    uint32_t n = 3;
    ref_box b;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t a = 0; a < 3; a++) {
            p[i][a] = (double)t->m->vertex[t->m->triangle[triangle][i]][a];
        }
    }
    for (uint32_t plane = 0; t->clips && plane < 6 && n != 0; plane++) {
        const uint32_t a = plane / 2, before = n;
        const double at = plane % 2 == 0 ? box->lo[a] - 1e-9 : box->hi[a] + 1e-9;
        const double side = plane % 2 == 0 ? 1 : -1;
        memcpy(q, p, sizeof q);
        n = 0;
        for (uint32_t i = 0; i < before; i++) {
            const double *from = q[i], *to = q[(i + 1) % before];
            const double d = (from[a] - at) * side, e = (to[a] - at) * side;
            if (d >= 0) {
                memcpy(p[n++], from, sizeof p[0]);
            }
            for (uint32_t c = 0; (d >= 0) != (e >= 0) && c < 3; c++) {
                p[n][c] = from[c] + d / (d - e) * (to[c] - from[c]);
            }
            n += (d >= 0) != (e >= 0);
        }
    }
    for (uint32_t a = 0; a < 3; a++) {
        b.lo[a] = n != 0 ? p[0][a] : box->lo[a];
        b.hi[a] = b.lo[a];
        for (uint32_t i = 1; i < n; i++) {
            b.lo[a] = p[i][a] < b.lo[a] ? p[i][a] : b.lo[a];
            b.hi[a] = p[i][a] > b.hi[a] ? p[i][a] : b.hi[a];
        }
    }
    return b;
}

static uint32_t ref_bin(double x, const ref_box *box, uint32_t a) {
    const double at = (x - box->lo[a]) / (box->hi[a] - box->lo[a]) * REF_BINS;
    if (!(at >= 1)) {
        return 0;
    }
    return at < REF_BINS ? (uint32_t)at : REF_BINS - 1;
}

static ref_plane ref_choose(const ref_tree *t, const ref_box *box, const uint32_t *refs,
                            uint32_t n) {
    uint32_t starts[3][REF_BINS], ends[3][REF_BINS];
    ref_plane best = {.cost = 1.5 * n, .bin = 0};
    memset(starts, 0, sizeof starts);
    memset(ends, 0, sizeof ends);
    for (uint32_t i = 0; i < n; i++) {
        const ref_box b = ref_bounds(t, refs[i], box);
        for (uint32_t a = 0; a < 3; a++) {
            starts[a][ref_bin(b.lo[a], box, a)]++;
            ends[a][ref_bin(b.hi[a], box, a)]++;
        }
    }
    for (uint32_t a = 0; a < 3; a++) {
        uint32_t left = 0, right = n;
        for (uint32_t bin = 1; bin < REF_BINS && box->hi[a] - box->lo[a] > t->least; bin++) {
            ref_box l = *box, r = *box;
            left += starts[a][bin - 1];
            right -= ends[a][bin - 1];
            l.hi[a] = r.lo[a] = box->lo[a] + (box->hi[a] - box->lo[a]) * bin / REF_BINS;
            double cost = 1 + 1.5 * (ref_area(&l) * left + ref_area(&r) * right) / ref_area(box);
            cost *= left == 0 || right == 0 ? 0.8 : 1;
            if (cost < best.cost) {
                best.cost = cost;
                best.axis = a;
                best.bin = bin;
                best.at = l.hi[a];
            }
        }
    }
    return best;
}

static void ref_node(ref_tree *t, const ref_box *box, uint32_t *refs, uint32_t n, uint32_t depth) {
    ref_plane p = {.bin = 0};
    t->nodes++;
    t->arrays += n != 0;
    if (n > 2 && depth < t->max_depth) {
        p = ref_choose(t, box, refs, n);
    }
    if (p.bin == 0) {
        t->leaves++;
        t->references += n;
        t->cost += 1.5 * ref_area(box) / t->root_area * n;
        return;
    }
    t->cost += ref_area(box) / t->root_area;
    uint32_t *some = malloc((n + 1) * sizeof *some);
    assert_non_null(some);
    for (uint32_t side = 0; side < 2; side++) {
        ref_box child = *box;
        uint32_t m = 0;
        *(side == 0 ? &child.hi[p.axis] : &child.lo[p.axis]) = p.at;
        for (uint32_t i = 0; i < n; i++) {
            const ref_box b = ref_bounds(t, refs[i], box);
            const int is_here = side == 0 ? ref_bin(b.lo[p.axis], box, p.axis) < p.bin
                                          : ref_bin(b.hi[p.axis], box, p.axis) >= p.bin;
            some[m] = refs[i];
            m += is_here ? 1 : 0;
        }
        ref_node(t, &child, some, m, depth + 1);
    }
    free(some);
}

/* A tree over all triangles of a mesh within a box, which are sound. */
static ref_tree ref_build(const mesh *m, const float lo[3], const float hi[3], int clips,
                          uint32_t max_depth) {
    ref_tree t = {.m = m, .clips = clips, .max_depth = max_depth};
    uint32_t refs[MOST_TRIANGLES];
    ref_box box;
    for (uint32_t a = 0; a < 3; a++) {
        box.lo[a] = (double)lo[a];
        box.hi[a] = (double)hi[a];
    }
    for (uint32_t i = 0; i < m->n; i++) {
        refs[i] = i;
    }
    for (uint32_t a = 0; a < 3; a++) { /* bins.h B2, B3; boxes begin near the origin */
        t.least = fmax(t.least, 8 * 4 * (box.hi[a] - box.lo[a]) / 2097152);
    }
    t.root_area = ref_area(&box);
    ref_node(&t, &box, refs, m->n, 0);
    return t;
}

#endif

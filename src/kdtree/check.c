/* check.c: looks at a whole tree on the host, in double precision. The walk takes along which
 * triangles overlap a node's box, clipped to it: those of the parent that still do. */
#include <stdlib.h>
#include <string.h>

#include "kdtree.h"

#define MOST_CORNERS 12u

/* Triangles that overlap a node: surely, or perhaps, within what rounding may move. */
typedef struct overlap {
    uint32_t triangle;
    int surely;
} overlap;

typedef struct checker {
    const whi_kd_copy *c;
    wh_kdtree_report *report;
    double near; /* how far a triangle of a leaf may be from its box */
    int is_out_of_memory;
} checker;

typedef struct box {
    double lo[3], hi[3];
} box;

typedef struct polygon {
    double at[MOST_CORNERS][3];
    uint32_t n;
} polygon;

static void clip(polygon *p, uint32_t axis, double plane, double side) {
    polygon out;
    out.n = 0;
    for (uint32_t i = 0; i < p->n && out.n + 2 <= MOST_CORNERS; i++) {
        const double *a = p->at[i], *b = p->at[(i + 1) % p->n];
        const double da = (a[axis] - plane) * side, db = (b[axis] - plane) * side;
        if (da >= 0) {
            memcpy(out.at[out.n++], a, sizeof out.at[0]);
        }
        if ((da >= 0) != (db >= 0)) {
            for (uint32_t c = 0; c < 3; c++) {
                out.at[out.n][c] = a[c] + da / (da - db) * (b[c] - a[c]);
            }
            out.n++;
        }
    }
    *p = out;
}

static void corners_of(const whi_kd_copy *c, uint32_t triangle, polygon *p) {
    p->n = 3;
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t v = c->triangles[3 * (uint64_t)triangle + i];
        for (uint32_t a = 0; a < 3; a++) {
            p->at[i][a] = (double)c->vertices[3 * (uint64_t)v + a];
        }
    }
}

/* Whether the triangle's bounds overlap the box, made wider by `wide`. */
static int bounds_overlap(const polygon *p, const box *b, double wide) {
    for (uint32_t a = 0; a < 3; a++) {
        double lo = p->at[0][a], hi = lo;
        for (uint32_t i = 1; i < p->n; i++) {
            lo = p->at[i][a] < lo ? p->at[i][a] : lo;
            hi = p->at[i][a] > hi ? p->at[i][a] : hi;
        }
        if (hi < b->lo[a] - wide || lo > b->hi[a] + wide) {
            return 0;
        }
    }
    return 1;
}

static int center_is_in(const polygon *p, const box *b, double wide) {
    for (uint32_t a = 0; a < 3; a++) {
        const double x = (p->at[0][a] + p->at[1][a] + p->at[2][a]) / 3;
        if (x < b->lo[a] - wide || x > b->hi[a] + wide) {
            return 0;
        }
    }
    return 1;
}

/* Whether a triangle overlaps a box that is wider by `wide`, which may be negative. */
static int overlaps(const checker *x, uint32_t triangle, const box *b, double wide) {
    polygon p;
    corners_of(x->c, triangle, &p);
    if (x->c->kind == WH_KDTREE_POINTS) {
        return center_is_in(&p, b, wide);
    }
    if (!bounds_overlap(&p, b, wide) || x->c->kind == WH_KDTREE_BOXES) {
        return bounds_overlap(&p, b, wide);
    }
    for (uint32_t a = 0; a < 3 && p.n != 0; a++) {
        clip(&p, a, b->lo[a] - wide, 1);
        clip(&p, a, b->hi[a] + wide, -1);
    }
    return p.n != 0;
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int has(const uint32_t *sorted, uint32_t n, uint32_t v) {
    return n != 0 && bsearch(&v, sorted, n, sizeof v, compare_u32) != NULL;
}

/* A leaf's references against those that it should have; `with` is in ascending order. */
static void check_leaf(checker *x, wh_kdtree_node node, const overlap *with, uint32_t n_with) {
    const uint32_t n = (node.rest & ~WH_KDTREE_CUT) >> 2;
    wh_kdtree_report *r = x->report;
    if ((uint64_t)node.first + n > x->c->n_references) {
        r->broken++;
        return;
    }
    uint32_t *sorted = malloc((size_t)n * sizeof *sorted + 1);
    if (sorted == NULL) {
        x->is_out_of_memory = 1;
        return;
    }
    r->references += n;
    memcpy(sorted, x->c->references + node.first, (size_t)n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_u32);
    uint32_t known = 0;
    for (uint32_t i = 0; i < n_with; i++) {
        const int is_here = has(sorted, n, with[i].triangle);
        known += is_here ? 1 : 0;
        r->missing += with[i].surely && !is_here && x->c->kind != WH_KDTREE_POINTS;
    }
    uint32_t different = 0;
    for (uint32_t i = 0; i < n; i++) {
        different += i == 0 || sorted[i] != sorted[i - 1];
    }
    r->repeated += n - different;
    r->foreign += different - known;
    free(sorted);
}

static overlap *choose(checker *x, const box *b, const overlap *from, uint32_t n, uint32_t *n_to) {
    overlap *to = malloc((size_t)n * sizeof *to + 1);
    *n_to = 0;
    for (uint32_t i = 0; i < n && to != NULL; i++) {
        const uint32_t t = from[i].triangle;
        if (overlaps(x, t, b, x->near)) {
            to[*n_to].triangle = t;
            to[*n_to].surely = from[i].surely && overlaps(x, t, b, 0);
            (*n_to)++;
        }
    }
    x->is_out_of_memory |= to == NULL;
    return to;
}

static void check_node(checker *x, uint32_t number, const box *b, uint32_t depth,
                       const overlap *with, uint32_t n_with) {
    const wh_kdtree_node node = x->c->nodes[number];
    const uint32_t axis = node.rest & 3, left = node.rest >> 2;
    x->report->nodes++;
    if (axis == WH_KDTREE_LEAF) {
        check_leaf(x, node, with, n_with);
        return;
    }
    const double split = (double)wh_kdtree_float_(node.first);
    if (left == 0 || (uint64_t)left + 1 >= x->c->n_nodes || depth >= WH_KDTREE_MOST_DEPTH ||
        x->report->nodes > x->c->n_nodes || !(split > b->lo[axis]) || !(split < b->hi[axis])) {
        x->report->broken++;
        return;
    }
    for (uint32_t which = 0; which < 2 && !x->is_out_of_memory; which++) {
        uint32_t n = 0;
        box child = *b;
        *(which == 0 ? &child.hi[axis] : &child.lo[axis]) = split;
        overlap *some = choose(x, &child, with, n_with, &n);
        if (some != NULL) {
            check_node(x, left + which, &child, depth + 1, some, n);
        }
        free(some);
    }
}

/* All triangles of the mesh that a tree has. */
static overlap *all_of(const whi_kd_copy *c, uint32_t *n) {
    wh_kdtree_ref r;
    memset(&r, 0, sizeof r);
    r.vertices = c->vertices;
    r.triangles = c->triangles;
    r.n_vertices = c->n_vertices;
    r.n_triangles = c->n_triangles;
    overlap *all = malloc(c->n_triangles * sizeof *all + 1);
    *n = 0;
    for (uint32_t i = 0; i < c->n_triangles && all != NULL; i++) {
        if (wh_kdtree_has(r, i)) {
            all[*n].triangle = i;
            all[(*n)++].surely = 1;
        }
    }
    return all;
}

int whi_kd_check(const whi_kd_copy *copy, wh_kdtree_report *report) {
    uint32_t n = 0;
    checker x;
    box b;
    memset(&x, 0, sizeof x);
    x.c = copy;
    x.report = report;
    x.near = 4 * (double)copy->frame.margin; /* bins.h B2 */
    overlap *all = all_of(copy, &n);
    if (all == NULL) {
        return 0;
    }
    for (uint32_t a = 0; a < 3; a++) {
        b.lo[a] = (double)copy->frame.lo[a];
        b.hi[a] = (double)copy->frame.hi[a];
    }
    check_node(&x, 0, &b, 0, all, n);
    free(all);
    if (copy->kind == WH_KDTREE_POINTS && report->references < n) {
        report->missing += n - report->references;
    }
    return !x.is_out_of_memory;
}

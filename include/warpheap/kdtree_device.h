/* kdtree_device.h: rays through a k-d tree (kdtree.h), in kernels of your own. Device code; needs
 * no heap.
 *
 *     wh_kdtree_ref ref;
 *     wh_kdtree_handle(tree, &ref);                        // host; after wh_kdtree_build
 *
 *     __global__ void shade(wh_kdtree_ref tree, ...) {     // on the stream of the build
 *         const wh_kdtree_hit h = wh_kdtree_closest(tree, ray);
 *         if (h.triangle != WH_KDTREE_NONE) { ... }
 *     }
 *
 * T1      A ray's hit with a triangle is a function of the ray and the triangle alone: the same
 *         bits whatever leaf it is found in, and without a tree. The arithmetic is written with
 *         fmaf wherever a compiler may join a product and a sum, so that all inlined copies agree
 * T2      A leaf has each triangle that comes nearer to it than frame.margin. Planes and boxes are
 *         crossed `slack` early and left `slack` late: a margin, and 2^-19 of how far the root's
 * box reaches from the ray's origin. That is more than all that rounding moves: planes by 3 * 2^-24
 * of their distance, triangles' corners, as the ray sees them, by 5 * 2^-24
 *
 * Source: the intersection is that of Woop, Benthin and Wald, Watertight Ray/Triangle Intersection,
 * JCGT 2(1), 2013, with differences of products after Kahan in place of double precision: their
 * sign is right, so rays do not pass between triangles that share an edge. The traversal is that
 * of Havran's thesis (2000), with a stack.
 */
#ifndef WH_KDTREE_DEVICE_H
#define WH_KDTREE_DEVICE_H

#include "warpheap/kdtree.h"
#include "warpheap/simt.h"

#if WH_HAS_HOST
#include <math.h>
#include <string.h>
#endif

#include "warpheap/detail/simt/begin.h"

/* A node, 8 bytes. Inner: `first` has the bits of the plane's coordinate, `rest` the axis in its
 * lower 2 bits and above them the number of the left child, which the right child follows. Leaf:
 * `first` is the place of its first reference; `rest` is 3, and from bit 2 on how many there are;
 * bit 31: it is one that could not be split. */
typedef struct wh_kdtree_node {
    uint32_t first, rest;
} wh_kdtree_node;

#define WH_KDTREE_LEAF 3u
#define WH_KDTREE_CUT 0x80000000u

/* What a build says about the whole tree. */
typedef struct wh_kdtree_frame {
    float lo[3], hi[3]; /* the root's box */
    float margin;       /* how much wider than they are triangles were taken */
    float unused;
} wh_kdtree_frame;

/* Names a tree in kernels; passed by value. All pointers are device memory. */
typedef struct wh_kdtree_ref {
    const wh_kdtree_node *nodes; /* 0 is the root */
    const uint32_t *references;
    const wh_kdtree_frame *frame;
    const float *vertices;
    const uint32_t *triangles;
    uint64_t n_vertices, n_triangles;
} wh_kdtree_ref;

WH_HD float wh_kdtree_float_(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Component k of three, without memory that is indexed. */
WH_FN float wh_kdtree_pick_(const float v[3], uint32_t k) {
    float r = v[0];
    if (k == 1) {
        r = v[1];
    } else if (k == 2) {
        r = v[2];
    }
    return r;
}

/* --- a ray and a triangle ----------------------------------------------------------------------
 */

/* A ray as the calls below want it. x, y, z: the axes with z along the direction's largest
 * component; sx, sy, sz: the shear that makes the direction (0, 0, 1). */
typedef struct wh_kdtree_path {
    float origin[3], inverse[3]; /* 1 / direction, or some large number */
    float sx, sy, sz;
    float t_min, t_max;
    uint32_t z;
    int is_ray; /* 0: it has no hits */
} wh_kdtree_path;

WH_FN uint32_t wh_kdtree_next_axis_(uint32_t axis) {
    return axis == 2 ? 0 : axis + 1;
}

/* 1 / v; of a component that is small beside the largest one a number as large as is harmless: its
 * products with coordinates are finite, and how far it leads aside is less than `slack` of T2. */
WH_FN float wh_kdtree_inverse_(float v, float most) {
    return fabsf(v) >= most / WH_KDTREE_MOST_COORDINATE
               ? 1.0f / v
               : copysignf(WH_KDTREE_MOST_COORDINATE / most, v);
}

WH_FN wh_kdtree_path wh_kdtree_path_of(wh_kdtree_ray ray) {
    wh_kdtree_path p;
    float most = 0;
    p.z = 0;
    p.is_ray = 1;
    for (uint32_t k = 0; k < 3; k++) {
        const float length = fabsf(ray.direction[k]);
        p.origin[k] = ray.origin[k];
        p.is_ray = p.is_ray && length <= WH_KDTREE_MOST_COORDINATE &&
                   fabsf(ray.origin[k]) <= WH_KDTREE_MOST_COORDINATE;
        if (length > most) {
            most = length;
            p.z = k;
        }
    }
    p.is_ray = p.is_ray && most * WH_KDTREE_MOST_COORDINATE >= 1;
    for (uint32_t k = 0; k < 3; k++) {
        p.inverse[k] = wh_kdtree_inverse_(ray.direction[k], most);
    }
    const uint32_t x = wh_kdtree_next_axis_(p.z), y = wh_kdtree_next_axis_(x);
    const float along = wh_kdtree_pick_(ray.direction, p.z);
    p.sx = wh_kdtree_pick_(ray.direction, x) / along;
    p.sy = wh_kdtree_pick_(ray.direction, y) / along;
    p.sz = 1.0f / along;
    p.t_min = ray.t_min;
    p.t_max = ray.t_max;
    return p;
}

/* a * b - c * d, right but for the last bits, also where the products are nearly the same (W.
 * Kahan). T1: no compiler can join the product, as it is nowhere added. */
WH_FN float wh_kdtree_difference_(float a, float b, float c, float d) {
    const float product = c * d;
    const float lost = fmaf(-c, d, product);
    return fmaf(a, b, -product) + lost;
}

/* A corner, from the ray's origin, sheared: x, y across the ray and z along it. */
typedef struct wh_kdtree_corner {
    float x, y, z;
} wh_kdtree_corner;

WH_FN wh_kdtree_corner wh_kdtree_shear_(const wh_kdtree_path *p, const float *vertex) {
    const float from[3] = {vertex[0] - p->origin[0], vertex[1] - p->origin[1],
                           vertex[2] - p->origin[2]};
    const uint32_t x = wh_kdtree_next_axis_(p->z), y = wh_kdtree_next_axis_(x);
    const float along = wh_kdtree_pick_(from, p->z);
    wh_kdtree_corner c;
    c.x = fmaf(-p->sx, along, wh_kdtree_pick_(from, x));
    c.y = fmaf(-p->sy, along, wh_kdtree_pick_(from, y));
    c.z = p->sz * along;
    return c;
}

/* Whether the ray hits triangle number i, which must be one of the tree's; *hit: where. Any lane.
 * T1 */
WH_FN int wh_kdtree_intersect(wh_kdtree_ref tree, const wh_kdtree_path *p, uint32_t i,
                              wh_kdtree_hit *hit) {
    const uint32_t *corner = tree.triangles + 3 * (uint64_t)i;
    const wh_kdtree_corner a = wh_kdtree_shear_(p, tree.vertices + 3 * (uint64_t)corner[0]);
    const wh_kdtree_corner b = wh_kdtree_shear_(p, tree.vertices + 3 * (uint64_t)corner[1]);
    const wh_kdtree_corner c = wh_kdtree_shear_(p, tree.vertices + 3 * (uint64_t)corner[2]);
    const float u = wh_kdtree_difference_(c.x, b.y, c.y, b.x);
    const float v = wh_kdtree_difference_(a.x, c.y, a.y, c.x);
    const float w = wh_kdtree_difference_(b.x, a.y, b.y, a.x);
    const int is_inside = (u >= 0 && v >= 0 && w >= 0) || (u <= 0 && v <= 0 && w <= 0);
    const float sum = u + v + w;
    if (!is_inside || !(sum != 0)) {
        return 0;
    }
    hit->triangle = i;
    hit->u = v / sum;
    hit->v = w / sum;
    hit->t = fmaf(u / sum, a.z, fmaf(hit->u, b.z, hit->v * c.z));
    return hit->t >= p->t_min && hit->t <= p->t_max;
}

WH_FN int wh_kdtree_is_nearer_(const wh_kdtree_hit *a, const wh_kdtree_hit *b) {
    return a->t < b->t || (a->t == b->t && a->triangle < b->triangle);
}

WH_FN wh_kdtree_hit wh_kdtree_no_hit_(float t) {
    wh_kdtree_hit hit;
    hit.t = t;
    hit.triangle = WH_KDTREE_NONE;
    hit.u = hit.v = 0;
    return hit;
}

/* --- the tree ----------------------------------------------------------------------------------
 */

/* A child to come back to, and where the ray is in it. */
typedef struct wh_kdtree_entry {
    uint32_t node;
    float from, to;
} wh_kdtree_entry;

/* How early a ray crosses planes, and how late. T2 */
WH_FN float wh_kdtree_slack_(const wh_kdtree_frame *f, const wh_kdtree_path *p) {
    float reach = 0;
    for (uint32_t k = 0; k < 3; k++) {
        const float lo = fabsf(f->lo[k] - p->origin[k]), hi = fabsf(f->hi[k] - p->origin[k]);
        reach = lo > reach ? lo : reach;
        reach = hi > reach ? hi : reach;
    }
    return reach / 524288.0f + f->margin;
}

/* The part of the ray that is in the root's box; 0: there is none. T2 */
WH_FN int wh_kdtree_enter_(const wh_kdtree_frame *f, const wh_kdtree_path *p, float slack,
                           wh_kdtree_entry *e) {
    e->node = 0;
    e->from = p->t_min;
    e->to = p->t_max;
    for (uint32_t k = 0; k < 3; k++) {
        const float early = slack * fabsf(p->inverse[k]);
        const float a = (f->lo[k] - p->origin[k]) * p->inverse[k];
        const float b = (f->hi[k] - p->origin[k]) * p->inverse[k];
        const float in = (a < b ? a : b) - early, out = (a < b ? b : a) + early;
        e->from = in > e->from ? in : e->from;
        e->to = out < e->to ? out : e->to;
    }
    return p->is_ray && e->from <= e->to;
}

/* One step down: e becomes the child that the ray meets first; whether it meets the other one, too,
 * which *other is then. T2 */
WH_FN int wh_kdtree_step_(wh_kdtree_node n, const wh_kdtree_path *p, float slack,
                          wh_kdtree_entry *e, wh_kdtree_entry *other) {
    const uint32_t axis = n.rest & 3, left = n.rest >> 2;
    const float inverse = wh_kdtree_pick_(p->inverse, axis);
    const float t = (wh_kdtree_float_(n.first) - wh_kdtree_pick_(p->origin, axis)) * inverse;
    const float early = slack * fabsf(inverse);
    const uint32_t first = inverse > 0 ? left : left + 1, second = inverse > 0 ? left + 1 : left;
    e->node = first;
    if (t - early > e->to) {
        return 0;
    }
    if (t + early < e->from) {
        e->node = second;
        return 0;
    }
    other->node = second;
    other->from = t - early > e->from ? t - early : e->from;
    other->to = e->to;
    e->to = t + early < e->to ? t + early : e->to;
    return 1;
}

/* The nearest hit of a leaf, or one at all, if it is better than *best. Whether to look on. */
WH_FN int wh_kdtree_leaf_(wh_kdtree_ref tree, wh_kdtree_node n, const wh_kdtree_path *p, int any,
                          wh_kdtree_hit *best) {
    const uint32_t count = (n.rest & ~WH_KDTREE_CUT) >> 2;
    for (uint32_t k = 0; k < count; k++) {
        wh_kdtree_hit hit;
        if (wh_kdtree_intersect(tree, p, tree.references[n.first + k], &hit) &&
            wh_kdtree_is_nearer_(&hit, best)) {
            *best = hit;
            if (any) {
                return 0;
            }
        }
    }
    return 1;
}

WH_FN wh_kdtree_hit wh_kdtree_hit_(wh_kdtree_ref tree, wh_kdtree_ray ray, int any) {
    const wh_kdtree_path p = wh_kdtree_path_of(ray);
    const wh_kdtree_frame f = *tree.frame;
    const float slack = wh_kdtree_slack_(&f, &p);
    wh_kdtree_entry stack[WH_KDTREE_MOST_DEPTH + 1], e;
    wh_kdtree_hit best = wh_kdtree_no_hit_(ray.t_max);
    uint32_t n = 0;
    if (!wh_kdtree_enter_(&f, &p, slack, &e)) {
        return wh_kdtree_no_hit_(0);
    }
    for (;;) {
        const wh_kdtree_node node = tree.nodes[e.node];
        if ((node.rest & 3) != WH_KDTREE_LEAF) {
            wh_assert_internal(n <= WH_KDTREE_MOST_DEPTH);
            n += wh_kdtree_step_(node, &p, slack, &e, &stack[n]) ? 1u : 0u;
            continue;
        }
        if (!wh_kdtree_leaf_(tree, node, &p, any, &best)) {
            break;
        }
        do {
            if (n == 0) {
                return best.triangle == WH_KDTREE_NONE ? wh_kdtree_no_hit_(0) : best;
            }
            e = stack[--n];
        } while (e.from > best.t);
    }
    return best;
}

/* The hit with the smallest t, and of those at the same t the one with the smallest number. Lanes:
 * any. Cost: O(depth) steps at least; a stack of 12 bytes a level in local memory. */
WH_FN wh_kdtree_hit wh_kdtree_closest(wh_kdtree_ref tree, wh_kdtree_ray ray) {
    return wh_kdtree_hit_(tree, ray, 0);
}

/* Some hit, if there is one. Lanes: any. */
WH_FN wh_kdtree_hit wh_kdtree_any(wh_kdtree_ref tree, wh_kdtree_ray ray) {
    return wh_kdtree_hit_(tree, ray, 1);
}

/* Whether a triangle is one of the tree's: kdtree.h says of a mesh which are skipped. */
WH_FN int wh_kdtree_has(wh_kdtree_ref tree, uint32_t i) {
    float sum = 0;
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t v = tree.triangles[3 * (uint64_t)i + k];
        if (v >= tree.n_vertices) {
            return 0;
        }
        for (uint32_t c = 0; c < 3; c++) {
            const float x = fabsf(tree.vertices[3 * (uint64_t)v + c]);
            sum = x <= WH_KDTREE_MOST_COORDINATE ? sum : 1;
        }
    }
    return !(sum > 0);
}

/* The same hits without the tree: all triangles are tried. For tests. Lanes: any. Cost: O(n). */
WH_FN wh_kdtree_hit wh_kdtree_hit_of_all(wh_kdtree_ref tree, wh_kdtree_ray ray, int any) {
    const wh_kdtree_path p = wh_kdtree_path_of(ray);
    wh_kdtree_hit best = wh_kdtree_no_hit_(ray.t_max), hit;
    for (uint32_t i = 0; p.is_ray && i < tree.n_triangles; i++) {
        if (wh_kdtree_has(tree, i) && wh_kdtree_intersect(tree, &p, i, &hit) &&
            wh_kdtree_is_nearer_(&hit, &best)) {
            best = hit;
            if (any) {
                return best;
            }
        }
    }
    return best.triangle == WH_KDTREE_NONE ? wh_kdtree_no_hit_(0) : best;
}

#if WH_HAS_HOST
/* The handle of a tree, good until the next wh_kdtree_build with another mesh, or
 * wh_kdtree_destroy. BAD_ARGUMENT: nothing has been built; UNSUPPORTED: the tree is of POINTS;
 * WRONG_BUILD: the library was built from other headers. */
static inline wh_status wh_kdtree_handle(const wh_kdtree *tree, wh_kdtree_ref *ref) {
    return wh_kdtree_copy_handle(tree, ref, sizeof *ref);
}
#endif

#include "warpheap/detail/simt/end.h"

#endif

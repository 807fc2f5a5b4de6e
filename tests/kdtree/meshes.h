/* meshes.h: triangles and rays for the tests of k-d trees. Included once per program. */
#ifndef KDTREE_MESHES_H
#define KDTREE_MESHES_H

#include <math.h>

#include "sim/sim_test.h"

#include "warpheap/kdtree_device.h"

enum { MOST_TRIANGLES = 2000 };

typedef struct mesh {
    float vertex[3 * MOST_TRIANGLES][3];
    uint32_t triangle[MOST_TRIANGLES][3];
    uint32_t n_vertices, n;
} mesh;

typedef enum mesh_kind { SOUP, SPHERE, TOWN, FLAT, EQUAL, THIN, BAD, N_MESHES } mesh_kind;

static float unit(uint64_t *random) {
    return (float)(next_random(random) >> 40) * 0x1p-24f;
}

static uint32_t add_vertex(mesh *m, float x, float y, float z) {
    float *v = m->vertex[m->n_vertices];
    v[0] = x, v[1] = y, v[2] = z;
    return m->n_vertices++;
}

static void add_triangle(mesh *m, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t *t = m->triangle[m->n++];
    t[0] = a, t[1] = b, t[2] = c;
}

/* Triangles of some size anywhere. */
static void make_soup(mesh *m, uint32_t n, uint64_t *random) {
    for (uint32_t i = 0; i < n; i++) {
        const float x = unit(random), y = unit(random), z = unit(random);
        const float size = i % 16 == 0 ? 0.7f : 0.15f;
        for (uint32_t k = 0; k < 3; k++) {
            const float dx = size * unit(random), dy = size * unit(random);
            (void)add_vertex(m, x + dx, y + dy, z + size * unit(random));
        }
        add_triangle(m, m->n_vertices - 3, m->n_vertices - 2, m->n_vertices - 1);
    }
}

/* A ball of about n triangles that share vertices. */
static void make_sphere(mesh *m, uint32_t n) {
    uint32_t rings = 2;
    while (2 * (rings + 1) * 2 * (rings + 1) <= n) {
        rings++;
    }
    const uint32_t round = 2 * rings;
    for (uint32_t i = 0; i <= rings; i++) {
        for (uint32_t k = 0; k < round; k++) {
            const float up = 3.14159265f * (float)i / (float)rings;
            const float around = 6.2831853f * (float)k / (float)round;
            (void)add_vertex(m, sinf(up) * cosf(around), sinf(up) * sinf(around), cosf(up));
        }
    }
    for (uint32_t i = 0; i < rings; i++) {
        for (uint32_t k = 0; k < round && m->n + 2 <= n; k++) {
            const uint32_t a = i * round + k, b = i * round + (k + 1) % round;
            add_triangle(m, a, b, a + round);
            add_triangle(m, b, b + round, a + round);
        }
    }
}

/* Houses on a grid: faces lie in planes of the axes, and many of them in the same ones. */
static void make_town(mesh *m, uint32_t n, uint64_t *random) {
    static const uint8_t face[6][4] = {{0, 1, 3, 2}, {4, 5, 7, 6}, {0, 1, 5, 4},
                                       {2, 3, 7, 6}, {0, 2, 6, 4}, {1, 3, 7, 5}};
    for (uint32_t house = 0; m->n + 12 <= n; house++) {
        const float x = 2 * (float)(house % 8), y = 2 * (float)(house / 8);
        const float height = (float)(1 + next_random(random) % 8);
        const uint32_t first = m->n_vertices;
        for (uint32_t k = 0; k < 8; k++) {
            (void)add_vertex(m, x + (float)(k & 1), y + (float)(k >> 1 & 1),
                             (k & 4) != 0 ? height : 0);
        }
        for (uint32_t f = 0; f < 6; f++) {
            const uint8_t *q = face[f];
            add_triangle(m, first + q[0], first + q[1], first + q[2]);
            add_triangle(m, first + q[0], first + q[2], first + q[3]);
        }
    }
}

/* Points, and segments. */
static void make_thin(mesh *m, uint32_t n, uint64_t *random) {
    make_soup(m, n, random);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *t = m->triangle[i];
        t[1] = i % 3 == 0 ? t[0] : t[1];
        t[2] = i % 3 == 2 ? t[2] : t[0];
    }
}

/* One triangle in two has something that it should not have. */
static void make_bad(mesh *m, uint32_t n, uint64_t *random) {
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0x1p41f};
    make_soup(m, n, random);
    for (uint32_t i = 0; i < n; i += 2) {
        float *v = m->vertex[m->triangle[i][i % 3]];
        if (i % 10 == 0) {
            m->triangle[i][i % 3] = m->n_vertices + i;
        } else {
            v[i % 3] = bad[i % 4];
        }
    }
}

/* n triangles, or some fewer. */
static void make_mesh(mesh *m, mesh_kind kind, uint32_t n, uint64_t *random) {
    m->n = m->n_vertices = 0;
    if (kind == SPHERE) {
        make_sphere(m, n);
    } else if (kind == TOWN) {
        make_town(m, n, random);
    } else if (kind == THIN) {
        make_thin(m, n, random);
    } else if (kind == BAD) {
        make_bad(m, n, random);
    } else {
        make_soup(m, n, random);
    }
    for (uint32_t i = 0; i < m->n_vertices && kind == FLAT; i++) {
        m->vertex[i][2] = 0.5f;
    }
    for (uint32_t i = 0; i < m->n && kind == EQUAL; i++) {
        memcpy(m->triangle[i], m->triangle[0], sizeof m->triangle[i]);
    }
}

/* A ray: anywhere, along an axis, or at a corner or the middle of an edge of the mesh. */
static wh_kdtree_ray make_ray(const mesh *m, uint32_t number, uint64_t *random) {
    wh_kdtree_ray r;
    memset(&r, 0, sizeof r);
    for (uint32_t k = 0; k < 3; k++) {
        r.origin[k] = 6 * unit(random) - 2;
        r.direction[k] = 2 * unit(random) - 1;
    }
    if (number % 4 == 1) {
        r.direction[number / 4 % 3] = 0;
        r.direction[number / 12 % 3] = 0;
        r.origin[0] = number % 8 == 1 ? 1 : r.origin[0];
    } else if (number % 4 >= 2 && m->n != 0) {
        const uint32_t *t = m->triangle[next_random(random) % m->n];
        const uint32_t a = t[0] % m->n_vertices;
        const uint32_t b = number % 4 == 3 ? t[1] % m->n_vertices : a;
        for (uint32_t k = 0; k < 3; k++) {
            const float at = (m->vertex[a][k] + m->vertex[b][k]) / 2;
            r.direction[k] = isfinite(at) && fabsf(at) < 1e6f ? at - r.origin[k] : 1;
        }
    }
    r.t_max = number % 5 == 0 ? 1.5f : INFINITY;
    r.t_min = number % 7 == 0 ? -1 : 0;
    return r;
}

#endif

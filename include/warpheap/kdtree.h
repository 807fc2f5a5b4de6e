/* kdtree.h: a k-d tree over triangles, built on a device by one kernel whose arrays are blocks of a
 * heap. C11 and C++, host code; link warpheap::kdtree. docs/KDTREE.md is the guide;
 * kdtree_device.h has the calls with which kernels follow rays through a tree.
 *
 *     wh_kdtree_options o = {0};
 *     o.heap = heap;
 *     o.most_triangles = 100000;
 *     wh_kdtree *tree;
 *     wh_kdtree_create(&tree, &o);
 *     for (;;) {                                           // each frame
 *         wh_kdtree_build(tree, &mesh, stream);            // does not wait
 *         wh_kdtree_trace(tree, &rays, stream);            // does not wait, or a kernel of yours
 *         wh_kdtree_finish(tree, &result);                 // waits
 *     }
 *
 * Every call returns a status; wh_last_error_text says more. A heap that is full is not the end of
 * a build: nodes that could not be split are leaves, rays find the same hits, and take longer. The
 * heap must live longer than the tree. DEVICE_ERROR means that a kernel has failed: there is no
 * tree, and what the build had of the heap is lost until the heap is reset.
 *
 * Source: the test "data structure build" of Vinkler and Havran, Register Efficient Dynamic Memory
 * Allocator for GPUs, sections 6 and 7.
 */
#ifndef WH_KDTREE_H
#define WH_KDTREE_H

#include "warpheap/heap.h"

#include "warpheap/detail/simt/begin.h"

/* No coordinate may be larger, nor smaller than this number's negative. */
#define WH_KDTREE_MOST_COORDINATE 1099511627776.0f /* 2^40 */

/* A ray: points origin + t * direction with t_min <= t <= t_max. A ray has no hits if a component
 * of it is NaN or, but for t, above WH_KDTREE_MOST_COORDINATE, or if all of the direction are
 * below 1 / WH_KDTREE_MOST_COORDINATE. */
typedef struct wh_kdtree_ray {
    float origin[3], t_min;
    float direction[3], t_max;
} wh_kdtree_ray;

#define WH_KDTREE_NONE (~0u)
#define WH_KDTREE_MOST_DEPTH 60u /* of a leaf */

/* Where a ray hits: t, and how much the triangle's second and third corner weigh there. */
typedef struct wh_kdtree_hit {
    float t;
    uint32_t triangle; /* WH_KDTREE_NONE: nothing is hit, and the other fields are 0 */
    float u, v;
} wh_kdtree_hit;

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

#define WH_KDTREE_MOST_TRIANGLES (1u << 28)

typedef enum wh_kdtree_kind {
    WH_KDTREE_CLIPPED, /* a triangle is in each leaf that it overlaps */
    WH_KDTREE_BOXES,   /* in each leaf that its bounding box overlaps: quicker, more references */
    WH_KDTREE_POINTS   /* in the one leaf that has its centroid; no rays can be traced */
} wh_kdtree_kind;

/* Zero means the default. */
typedef struct wh_kdtree_options {
    uint64_t struct_bytes;    /* sizeof this struct; 0: what the calling code's headers say */
    wh_heap *heap;            /* an allocator whose blocks do not overlap; one that cannot free
                                 needs a heap for all arrays, and a reset before each build */
    uint64_t most_triangles;  /* of the meshes to come; up to WH_KDTREE_MOST_TRIANGLES */
    uint64_t most_nodes;      /* room for so many; default 16 a triangle, and some. 8 bytes each */
    uint64_t most_references; /* room for so many in leaves; default 12 a triangle, 24 of BOXES,
                                 1 of POINTS, and some. 4 bytes each */
    wh_kdtree_kind kind;
    uint32_t max_depth;       /* default 8 + 1.3 log2(most_triangles); up to WH_KDTREE_MOST_DEPTH */
    float traversal_cost;     /* of the surface area heuristic: a step to a child; default 1 */
    float intersection_cost;  /* a triangle; default 1.5 */
    float empty_bonus;        /* factor of the cost if a child is empty; default 0.8 */
    uint32_t leaf_references; /* nodes with so many or fewer are leaves; default 2 */
    uint32_t shared_references; /* nodes with more are worked on by several warps; default 1024 */
    uint32_t chunk_references;  /* how many a warp takes of these at a time; default 128 */
    uint32_t block_references;  /* of the largest array; larger nodes have several arrays. Default
                                   20480; at least shared_references */
} wh_kdtree_options;

/* Triangles in device memory. A triangle is skipped, and counted, if a corner's number is not
 * below n_vertices, or a coordinate is NaN, infinite, or above WH_KDTREE_MOST_COORDINATE. */
typedef struct wh_kdtree_mesh {
    uint64_t struct_bytes;     /* sizeof this struct; 0: what the calling code's headers say */
    const float *vertices;     /* x, y, z of each; 4-byte aligned */
    const uint32_t *triangles; /* three numbers of vertices each */
    uint64_t n_vertices, n_triangles;
} wh_kdtree_mesh;

typedef struct wh_kdtree wh_kdtree;

/* What a build has made. Areas are relative to that of the root's box. */
typedef struct wh_kdtree_result {
    uint64_t nodes;          /* inner nodes and leaves */
    uint64_t leaves;         /* empty ones, too */
    uint64_t empty_leaves;   /* without references */
    uint64_t references;     /* of all leaves */
    uint64_t skipped;        /* triangles that are not in the tree */
    uint64_t cut_leaves;     /* nodes that could not be split: the heap, or room for nodes or
                                references, was full */
    uint64_t cut_references; /* of these */
    uint64_t requests;       /* arrays of references that the heap gave; as many were freed */
    uint64_t failed;         /* requests that it refused */
    double request_mean, request_deviation; /* of their sizes, in bytes */
    double cost;    /* traversal_cost * areas of inner nodes + intersection_cost * areas of leaves *
                       their references */
    uint32_t depth; /* of the deepest leaf; 0: the root is a leaf */
    float lo[3], hi[3]; /* the root's box: that of the triangles, a little wider */
} wh_kdtree_result;

/* Takes what a tree over so many triangles needs beside arrays of references, of the device and not
 * of the heap: nodes and leaves' references (most_nodes, most_references), and a stack of tasks for
 * each resident warp. Waits. Errors: BAD_ARGUMENT; UNSUPPORTED: blocks of the heap's allocator may
 * overlap; OUT_OF_MEMORY; WRONG_BUILD. */
wh_status wh_kdtree_create_for(wh_kdtree **tree, const wh_kdtree_options *options,
                               size_t options_bytes);
static inline wh_status wh_kdtree_create(wh_kdtree **tree, const wh_kdtree_options *options) {
    return wh_kdtree_create_for(tree, options, sizeof *options);
}

/* Waits. A tree has no blocks of the heap between builds. NULL is ignored. */
wh_status wh_kdtree_destroy(wh_kdtree *tree);

/* Starts a build on a stream, in the place of the tree that was there. The mesh stays as it is as
 * long as rays are traced. Does not wait. Errors: BAD_ARGUMENT, before anything is started: arrays
 * are missing or not aligned, or there are more triangles than create was told. Cost: two launches;
 * the second one is the whole build. */
wh_status wh_kdtree_build_for(wh_kdtree *tree, const wh_kdtree_mesh *mesh, void *stream,
                              size_t mesh_bytes);
static inline wh_status wh_kdtree_build(wh_kdtree *tree, const wh_kdtree_mesh *mesh, void *stream) {
    return wh_kdtree_build_for(tree, mesh, stream, sizeof *mesh);
}

/* Waits for what was started last, and says what there is. result may be NULL. OUT_OF_MEMORY: some
 * nodes could not be split (result.cut_leaves); the tree is as right as any other. BAD_ARGUMENT:
 * nothing has been started. */
wh_status wh_kdtree_finish(wh_kdtree *tree, wh_kdtree_result *result);

/* Rays to trace. */
typedef struct wh_kdtree_rays {
    uint64_t struct_bytes;     /* sizeof this struct; 0: what the calling code's headers say */
    const wh_kdtree_ray *rays; /* device memory */
    wh_kdtree_hit *hits;       /* device memory: one for each ray */
    uint64_t n;
    uint32_t any_hit;       /* 0: the hit with the smallest t, and of those the smallest triangle;
                                     1: any hit, for shadows */
    uint32_t all_triangles; /* 1: without the tree, each triangle is tried: for tests */
} wh_kdtree_rays;

/* Traces rays, after a build on the same stream. Does not wait. Errors: BAD_ARGUMENT; UNSUPPORTED:
 * the tree is of POINTS. */
wh_status wh_kdtree_trace_for(wh_kdtree *tree, const wh_kdtree_rays *rays, void *stream,
                              size_t rays_bytes);
static inline wh_status wh_kdtree_trace(wh_kdtree *tree, const wh_kdtree_rays *rays, void *stream) {
    return wh_kdtree_trace_for(tree, rays, stream, sizeof *rays);
}

/* What a check has found; all but the first two are 0 of a sound tree. */
typedef struct wh_kdtree_report {
    uint64_t nodes, references; /* that the walk from the root has met */
    uint64_t missing;  /* pairs of a leaf and a triangle that overlaps it and is not in it */
    uint64_t foreign;  /* pairs of a leaf and a triangle that is in it and does not overlap it */
    uint64_t repeated; /* references that a leaf has twice */
    uint64_t broken;   /* nodes whose children, references or planes cannot be */
} wh_kdtree_report;

/* Copies tree and mesh to the host and looks at each leaf, in double precision; after finish.
 * Waits. CORRUPT: something is wrong; report, which may be NULL, says what. Errors: BAD_ARGUMENT,
 * OUT_OF_MEMORY (of the host). Cost: on the host, some microseconds a reference. */
wh_status wh_kdtree_check(wh_kdtree *tree, wh_kdtree_report *report);

/* For wh_kdtree_handle of kdtree_device.h. */
wh_status wh_kdtree_copy_handle(const wh_kdtree *tree, void *handle, size_t handle_bytes);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif

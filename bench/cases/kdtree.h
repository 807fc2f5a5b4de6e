/* kdtree.h: what the cases kdtree* share: a mesh and rays on the device, a tree over it in a heap,
 * and what of a tree is looked at. kdtree.c has the cases, kdtree_verify.c the rest. */
#ifndef WHI_BENCH_KDTREE_H
#define WHI_BENCH_KDTREE_H

#include "bench/driver/internal.h"
#include "bench/kernels/kdtree_cub.h"

#define WHI_KDB_KEPT 16u
#define WHI_KDB_SHAPES 4u /* vertices of frames that differ */

/* Work with one mesh. All arrays are device memory. */
typedef struct whi_kdb {
    whi_bench *b;
    whi_bench_scene *scene;
    void *kept[WHI_KDB_KEPT];
    size_t n_kept;
    wh_kdtree_mesh mesh;           /* as it is */
    float *shapes[WHI_KDB_SHAPES]; /* of frames; NULL: not there yet */
    wh_kdtree_ray *rays;           /* kd_rays of them */
    wh_kdtree_hit *hits;
    wh_kdtree_hit *found; /* host: those that are compared */
    float lo[3], hi[3];   /* of all vertices that are numbers */
    wh_kdtree_kind kind;
    wh_kdtree *tree;         /* NULL: none; likewise */
    wh_kdtree_result result; /* of the last build */
} whi_kdb;

/* The mesh and the rays to the device; to be ended, also after a failure. */
wh_status whi_kdb_begin(whi_bench *b, whi_kdb *k, whi_bench_scene *scene);
void whi_kdb_end(whi_kdb *k);

/* Device memory until the end; or until there is no more than n of it. */
wh_status whi_kdb_memory(whi_kdb *k, void *p, uint64_t bytes);
void whi_kdb_forget(whi_kdb *k, size_t n);

/* Vertices of frames: the mesh, bent a little. */
wh_status whi_kdb_make_shapes(whi_kdb *k);

/* A tree in the heap, which may be any; OUT_OF_MEMORY and UNSUPPORTED are no failures. */
wh_status whi_kdb_create(whi_kdb *k, wh_heap *heap, wh_status *said);
wh_status whi_kdb_destroy(whi_kdb *k);

/* Whether the tree that was built last, of the mesh or of its last frame, is right: numbers that
 * must agree; and rays, which must find what they find without the tree, bit for bit. */
wh_status whi_kdb_verify(whi_kdb *k, int is_frame, int *is_right);
/* Whether its leaves are, too, by wh_kdtree_check, if the mesh is small; and whether the heap, that
 * of the benchmark, has all of its blocks back. */
wh_status whi_kdb_verify_all(whi_kdb *k, int *is_right);

#endif

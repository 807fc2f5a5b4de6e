/* kdtree.h: a tree as the host's calls hand it to its kernels, and the tables of these: one for
 * each (allocator, target), defined by kdtree_kernels.c, and one for each target, defined by
 * trace_kernels.c. All pointers are device memory. Calls start kernels on a stream and do not wait.
 */
#ifndef WHI_KDTREE_H
#define WHI_KDTREE_H

#include "warpheap/kdtree.h"
#include "warpheap/kdtree_device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WHI_KD_BINS 32u                    /* of an axis: a lane each */
#define WHI_KD_BIN_WORDS (6 * WHI_KD_BINS) /* starts and ends of three axes */
#define WHI_KD_MOST_CHUNKS (1u << 27)

typedef struct whi_kd_box {
    float lo[3], hi[3];
} whi_kd_box;

struct whi_kd_shared;

/* A node to be split, or to become a leaf. */
typedef struct whi_kd_task {
    uint32_t *refs;               /* n of them, a block of the heap; or, of a node with more than
                                     shared_references, NULL, and: */
    struct whi_kd_shared *shared; /* a hold of it */
    uint32_t node, n, depth;
    whi_kd_box box;
    uint32_t unused; /* no bytes that are copied one by one */
} whi_kd_task;

/* What a warp has done: its own, in shared memory, then written out. */
typedef struct whi_kd_tally {
    uint64_t nodes, leaves, empty_leaves, references;
    uint64_t cut_leaves, cut_references;
    uint64_t requests, failed, bytes, bytes_squared; /* of arrays of references */
    double cost;
    uint32_t depth, unused;
} whi_kd_tally;

/* A place of the queue: queue.h. */
typedef struct whi_kd_slot {
    whi_kd_task task;
    uint32_t turn, unused;
} whi_kd_slot;

/* What many warps change has cache lines apart. */
#define WHI_KD_LINE 128

typedef struct whi_kd_state {
    uint64_t numbers; /* queue.h Q3 */
    unsigned char apart_1[WHI_KD_LINE];
    uint32_t open; /* queue.h Q2 */
    unsigned char apart_2[WHI_KD_LINE];
    uint32_t next_node; /* fetch_add, relaxed */
    unsigned char apart_3[WHI_KD_LINE];
    uint64_t promised; /* references that leaves may get: leaves.h L1 */
    unsigned char apart_4[WHI_KD_LINE];
    uint64_t n_references; /* that have a place: fetch_add, relaxed */
    unsigned char apart_5[WHI_KD_LINE];
    uint64_t skipped;      /* triangles: add, relaxed */
    wh_kdtree_frame frame; /* by the warp that ends the first phase, and part_of_root, too; read by
                              those that get work from it (Q1, S1) */
    double part_of_root;   /* of half the area of a box: 1 / that of the root's; 0: it has none */
} whi_kd_state;

typedef struct whi_kdtree {
    wh_kdtree_mesh mesh;
    wh_kdtree_kind kind;
    float traversal_cost, intersection_cost, empty_bonus;
    uint32_t max_depth, leaf_references;
    uint32_t shared_references, chunk_references, block_references;
    uint32_t most_nodes;
    uint64_t most_references;
    uint32_t group_references; /* nodes with more, a warp works on alone */
    uint32_t give_references;  /* a smaller task without a record is not given to others */
    uint32_t node_batch;       /* nodes that a warp takes at a time, even */
    uint32_t promise_batch;    /* references */
    uint32_t stack_room;       /* tasks of a warp's stack */
    uint32_t most_small;       /* on its stack of small ones, before it goes in depth: group.h G2 */
    uint32_t small_room;       /* tasks of that stack */
    uint32_t bins_room;        /* references of which a warp keeps the bins */
    uint32_t most_puts;        /* tasks that a warp puts into the queue at once: Q3 */
    uint32_t queue_room;       /* a power of 2: queue.h Q3 */
    uint32_t blocks, threads;  /* of the kernel that builds */
    wh_kdtree_node *nodes;
    uint32_t *references;
    whi_kd_state *state;
    whi_kd_slot *queue;
    whi_kd_task *stacks;        /* stack_room for each warp */
    whi_kd_task *smalls;        /* small_room for each warp */
    uint32_t *bins;             /* bins_room for each warp */
    whi_kd_tally *tallies;      /* of each warp */
    struct whi_kd_shared *root; /* and room for its arrays' addresses */
} whi_kdtree;

typedef struct whi_kdtree_kernels {
    const char *allocator;
    wh_status (*build)(wh_heap *heap, void *stream, const whi_kdtree *k);
    wh_status (*size)(wh_device *device, whi_kdtree *k);     /* blocks, threads, batches, rooms */
    uint64_t (*root_bytes)(const whi_kdtree *k, uint64_t n); /* of `root`, for n triangles */
} whi_kdtree_kernels;

const whi_kdtree_kernels *whi_kdtree_kernels_find(const char *allocator, wh_target target);

typedef struct whi_trace {
    wh_kdtree_ref tree;
    wh_kdtree_rays rays;
} whi_trace;

typedef struct whi_kdtree_trace {
    wh_status (*trace)(wh_device *device, void *stream, const whi_trace *t);
} whi_kdtree_trace;

const whi_kdtree_trace *whi_kdtree_trace_find(wh_target target);

/* A tree on the host, for a check. */
typedef struct whi_kd_copy {
    const wh_kdtree_node *nodes;
    const uint32_t *references;
    const float *vertices;
    const uint32_t *triangles;
    uint64_t n_vertices, n_triangles, n_nodes, n_references;
    wh_kdtree_frame frame;
    wh_kdtree_kind kind;
} whi_kd_copy;

/* 0: not enough memory. */
int whi_kd_check(const whi_kd_copy *copy, wh_kdtree_report *report);

#ifdef __cplusplus
}
#endif

#endif

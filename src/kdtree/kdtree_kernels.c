/* kdtree_kernels.c: targeted source (compiled per allocator and target): the kernel that builds a
 * tree. queue.h says which warp does which task; alone.h, and together.h for large nodes, what a
 * task is; bins.h where a node is cut; leaves.h and shared.h where nodes, references and arrays
 * come from. */
#define WH_KERNEL_THREADS 1024 /* a block has 128, but eight of them are to be on an SM */

#include "kdtree.h"

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

typedef struct kdtree_args {
    wh_heap_ref heap;
    whi_kdtree k;
} kdtree_args;

#include "group.h"
#include "together.h"

/* Before a build; the tree that was there is gone. */
WH_KERNEL(begin_tree, kdtree_args, a) {
    const whi_kdtree *k = &a.k;
    const uint64_t me = wh_thread_id(), all = wh_grid_threads();
    for (uint64_t i = me; i < k->queue_room; i += all) {
        k->queue[i].turn = (uint32_t)i; /* Q1 */
    }
    if (me == 0) {
        memset(k->state, 0, sizeof *k->state);
        k->state->open = WH_PLANT(kernels_q2_root, 1, 0); /* Q2: the warp that has the root */
        k->state->next_node = 2;
        k->state->promised = WH_PLANT(kernels_l1_root, k->mesh.n_triangles, 0); /* L1: the root's */
    }
}

/* The whole tree. */
WH_KERNEL(build_tree, kdtree_args, a) {
    const uint32_t me = (uint32_t)(wh_thread_id() / WH_WARP_SIZE);
    uint32_t *words = (uint32_t *)wh_shared() +
                      wh_thread_in_block() / WH_WARP_SIZE * (sizeof(kd_own) / sizeof(uint32_t));
    int is_busy = me == 0;
    whi_kd_task t;
    kd_warp w;
    for (uint32_t i = wh_lane_id(); i < sizeof(kd_own) / sizeof(uint32_t); i += WH_WARP_SIZE) {
        words[i] = 0;
    }
    WH_PLANT(kernels_w1_zero, wh_syncwarp(WH_FULL_WARP), (void)0); /* W1 */
    w.k = &a.k;
    w.own = (kd_own *)(void *)words;
    if (is_first_lane()) {
        w.own->stack = a.k.stacks + (uint64_t)me * a.k.stack_room;
        w.own->small = a.k.smalls + (uint64_t)me * a.k.small_room;
        w.own->kept = a.k.bins + (uint64_t)me * a.k.bins_room;
    }
    if (is_busy) {
        start_root(&a.heap, w);
    }
    for (;;) {
        while (give_oldest(w)) {
        }
        give_small(w);
        if (has_groups(w)) {
            work_in_groups(&a.heap, w);
            continue;
        }
        if (!pop_own(w, &t)) {
            if (is_busy) {
                end_work(w.k);
            }
            is_busy = wait_task(w.k, &t);
            if (!is_busy) {
                break;
            }
        }
        if (t.shared != NULL) {
            work_together(&a.heap, w, &t);
        } else if (t.n <= w.k->group_references) { /* G1 */
            push_small(w, &t);
        } else {
            work_alone(&a.heap, w, &t);
        }
    }
    if (is_first_lane()) {
        a.k.tallies[me] = w.own->tally;
    }
}

/* --- host side -------------------------------------------------------------------------------- */

/* What the simulated device has is small, so that tests meet every boundary. */
#if WH_FILE_IS_CUDA
#define THREADS 128u
#define NODE_BATCH 256u
#define GIVE_REFERENCES 16u
#define PROMISE_BATCH 1024u
#define BINS_ROOM 4096u
#define MOST_SMALL 64u
#define MOST_PUTS 16u
#else
#define THREADS 64u
#define NODE_BATCH 4u
#define GIVE_REFERENCES 6u
#define PROMISE_BATCH 8u
#define BINS_ROOM 40u
#define MOST_SMALL 12u
#define MOST_PUTS 2u
#endif

static uint32_t shared_bytes(void) {
    return THREADS / WH_WARP_SIZE * (uint32_t)sizeof(kd_own);
}

static wh_status kdtree_build(wh_heap *heap, void *stream, const whi_kdtree *k) {
    kdtree_args a;
    memset(&a, 0, sizeof a);
    a.k = *k;
    wh_status s = wh_heap_handle(heap, &a.heap);
    if (s != WH_OK) {
        return s;
    }
    wh_launch l = wh_grid(wh_heap_device(heap), k->queue_room / (8 * THREADS) + 1, THREADS);
    l.stream = stream;
    s = begin_tree(&l, &a);
    if (s != WH_OK) {
        return s;
    }
    l.blocks = k->blocks;
    l.shared_bytes = shared_bytes();
    return build_tree(&l, &a);
}

static wh_status kdtree_size(wh_device *device, whi_kdtree *k) {
    k->threads = THREADS;
    k->node_batch = NODE_BATCH;
    k->give_references = GIVE_REFERENCES;
    k->promise_batch = PROMISE_BATCH;
    k->bins_room = BINS_ROOM;
    k->most_small = MOST_SMALL;
    k->most_puts = MOST_PUTS;
    return WH_KERNEL_OCCUPANCY(build_tree, device, THREADS, shared_bytes(), &k->blocks);
}

static uint64_t kdtree_root_bytes(const whi_kdtree *k, uint64_t n) {
    return sizeof(kd_shared) + (n / k->block_references + 1) * sizeof(uint32_t *);
}

WH_TABLE(whi_kdtree_kernels) = {WH_OF_(NAME), kdtree_build, kdtree_size, kdtree_root_bytes};

/* fault.h: what the files of this program share. Each of them is a suite: kernels that do something
 * with an allocator or a part of core/ and note what they find wrong, a table of workloads that run
 * these kernels, and a table of the faults that they find.
 *
 * To plant a fault: WH_PLANT(tag, good, bad) in the code, and a row here, {"tag", "workload"}. */
#ifndef WH_TESTS_FAULT_H
#define WH_TESTS_FAULT_H

#include <stddef.h>
#include <stdint.h>
#include "fault/suite.h"
#include "set_option.h"

#include "warpheap/detail/alloc/bulk/bulk.h"
#include "warpheap/detail/alloc/circular/circular.h"
#include "warpheap/detail/alloc/dynasoar/dynasoar.h"
#include "warpheap/detail/alloc/fdgmalloc/fdgmalloc.h"
#include "warpheap/detail/alloc/gallatin/gallatin.h"
#include "warpheap/detail/alloc/halloc/halloc.h"
#include "warpheap/detail/alloc/kma/kma.h"
#include "warpheap/detail/alloc/ouroboros/ouroboros.h"
#include "warpheap/detail/alloc/page_queue/page_queue.h"
#include "warpheap/detail/alloc/random_walk/random_walk.h"
#include "warpheap/detail/alloc/rwmalloc/rwmalloc.h"
#include "warpheap/detail/alloc/scatteralloc/scatteralloc.h"
#include "warpheap/detail/alloc/tessera/tessera.h"
#include "warpheap/detail/alloc/xmalloc/xmalloc.h"
#include "warpheap/heap.h"

/* What a workload found wrong. */
typedef struct findings {
    uint32_t lost; /* items, blocks or messages */
    uint32_t nulls;
    uint32_t overlaps;
    uint32_t inside; /* used by the workload: how many lanes are in it */
} findings;

#define UNIVERSE 1024u /* of the tree, and words of data */

typedef struct workload_args {
    union { /* the handle of the workload's heap */
        wh_tessera_ref heap;
        wh_gallatin_ref gallatin;
        wh_ouro_ref ouro; /* its variant says which */
        wh_random_walk_ref pages;
        wh_page_queue_ref queued;
        wh_rwmalloc_ref units;
        wh_circular_ref list;
        wh_scatteralloc_ref scatter;
        wh_halloc_ref slabs;
        wh_xmalloc_ref blocks_of_warps;
        wh_dynasoar_ref objects;
        wh_fdgmalloc_ref warps;
        wh_bulk_ref tree;
        wh_kma_ref superblocks;
    };
    findings *found;
    wh_vqueue_words *queue;
    wh_chunk_pool_words *pool;
    wh_veb set;
    wh_ring *ring;
    uint32_t *entries;
    uint32_t *semaphore;
    uint64_t *data; /* plain memory that the orders protect */
    void **kept;    /* the same memory: what threads have in the end */
    uint32_t seed;
    uint32_t steps, least, most, holds, kinds; /* of the workload's row */
    uint32_t device;                           /* 0: the heap's; 1: its peer */
} workload_args;

typedef wh_status (*launcher)(const wh_launch *launch, const workload_args *args);

typedef enum weak_memory { WEAK_BY_SEED, WEAK_NEVER, WEAK_FORMAL } weak_memory;

typedef struct workload {
    const char *name;
    launcher kernel, then; /* then: NULL, or what runs afterwards; the heap is checked in between */
    uint32_t blocks, threads;
    uint32_t steps;
    uint32_t least, most, holds, kinds; /* what they mean says the kernel */
    uint32_t stint;    /* sticky policy with stints of this length; 0: policies in turn */
    weak_memory weak;  /* WEAK_BY_SEED: every other eight seeds, as on a GPU */
    uint32_t may_fail; /* that a malloc fails is no finding */
    uint32_t peers;    /* 1: the kernel runs on a second device, too, at the same time */
    /* The heap. */
    const char *allocator; /* NULL: none */
    wh_status (*make)(const struct workload *w, uint64_t seed, wh_heap_options *options,
                      wh_any_options *own, wh_heap **heap);
    size_t handle_bytes;
    struct {
        const char *name;
        uint64_t value;
    } options[4];    /* those that the family has are set: set_option */
    uint32_t pieces; /* make: how many segments, or chunks; few, so that memory changes hands */
    uint64_t bytes;  /* make: above the least heap's */
    /* Makes what lies in the simulated device's memory, which is the host's; NULL: zeros will do.
     */
    void (*prepare)(const workload_args *a);
} workload;

extern const suite fault_core, fault_gallatin, fault_ouroboros, fault_walks, fault_lists,
    fault_heaps, fault_tessera, fault_reserve, fault_paged, fault_peers;

/* The suites of this program, for fault.c. */
#define FAULT_SUITES                                                                          \
    &fault_core, &fault_gallatin, &fault_ouroboros, &fault_walks, &fault_lists, &fault_heaps, \
        &fault_tessera, &fault_reserve, &fault_paged, &fault_peers

WH_FN uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
